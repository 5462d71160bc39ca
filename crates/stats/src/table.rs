//! The macro behind the tables of counters, and what a reader knows of one column.

/// How a column is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows; its rate is of interest.
    Count,
    /// Goes up and down.
    Level,
    /// The largest value so far.
    Peak,
    /// Describes.
    State,
}

/// One column of a block.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The name, as in the source.
    pub name: &'static str,
    /// What it means, and when to worry.
    pub doc: &'static str,
    /// How to read it.
    pub kind: Kind,
}

/// A table becomes a block of cells, one after another, and the list of its columns. A row:
///
/// ```text
/// /// What it means. Worry when ...
/// name: Count | Shared | Level | Peak | State;
/// ```
macro_rules! counters {
    ($($(#[$block_doc:meta])* $block:ident { $(
        $(#[doc = $doc:literal])+
        $name:ident : $cell:ident ;
    )+ })+) => { $(
        $(#[$block_doc])*
        #[derive(Debug)]
        #[repr(C, align(64))]
        pub struct $block { $(
            $(#[doc = $doc])+
            pub $name: $cell,
        )+ }

        impl $block {
            /// The columns, in the order of the cells.
            pub const COLUMNS: &[Column] = &[$(Column {
                name: stringify!($name),
                doc: concat!($($doc, "\n"),+),
                kind: counters!(@kind $cell),
            }),+];

            /// Where a column stands in [`Self::COLUMNS`].
            pub fn column(name: &str) -> Option<usize> {
                Self::COLUMNS.iter().position(|column| column.name == name)
            }

            /// A block of zeros.
            #[allow(clippy::new_without_default)]
            pub const fn new() -> Self {
                $block { $($name: $cell::new(0),)+ }
            }

            /// All cells to zero.
            pub fn clear(&self) {
                $(Cell::put(&self.$name, 0);)+
            }

            /// The other's values become these, and the other's zero.
            pub fn take(&self, other: &Self) {
                $(Cell::put(&self.$name, other.$name.value());)+
                other.clear();
            }

            /// The cells' values, in the order of the columns.
            pub fn words(&self) -> Vec<u64> {
                vec![$(self.$name.value()),+]
            }

            /// A block with these values; missing ones are 0.
            pub fn from_words(words: &[u64]) -> Self {
                let mut words = words.iter().copied();
                $block { $($name: $cell::new(words.next().unwrap_or(0)),)+ }
            }

            /// What was counted since an earlier look; what does not count stays as it is.
            pub fn since(&self, earlier: &Self) -> Self {
                let words = self.words().into_iter().zip(earlier.words()).zip(Self::COLUMNS);
                let words: Vec<u64> = words
                    .map(|((now, then), column)| match column.kind {
                        Kind::Count => now.saturating_sub(then),
                        _ => now,
                    })
                    .collect();
                Self::from_words(&words)
            }
        }
    )+ };
    (@kind Count) => { Kind::Count };
    (@kind Shared) => { Kind::Count };
    (@kind Level) => { Kind::Level };
    (@kind Peak) => { Kind::Peak };
    (@kind State) => { Kind::State };
}
pub(crate) use counters;
