//! The macro behind the table of parameters, and what one row knows at run time.

use crate::parameters::Parameters;

/// What the manual, the banner and the reader of the environment know of one parameter.
pub struct Row {
    /// The environment variable.
    pub name: &'static str,
    /// Older names of the same variable.
    pub aliases: &'static [&'static str],
    /// What it means, as in the source.
    pub doc: &'static str,
    /// The banner's words for it.
    pub label: &'static str,
    /// The part of the manual it stands in.
    pub group: &'static str,
    /// Why it changes nothing here, if so.
    pub unused: Option<&'static str>,
    /// Sets it from text; the error is a message.
    pub(crate) set: fn(&mut Parameters, &str) -> Result<(), String>,
    /// Its value as shown.
    pub(crate) show: fn(&Parameters) -> String,
    /// What it takes.
    pub(crate) accepted: fn() -> String,
    /// A number out of range becomes the nearest that is in it, not the default.
    pub(crate) is_nearest: bool,
}

impl Row {
    /// Whether an environment variable of this name sets the parameter.
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }

    /// The value as the banner shows it.
    pub fn value(&self, parameters: &Parameters) -> String {
        (self.show)(parameters)
    }

    /// What values it takes, in words.
    pub fn accepted(&self) -> String {
        (self.accepted)()
    }

    /// The same, with what becomes of a number out of range, if that is not the default.
    pub fn takes(&self) -> String {
        let beyond = if self.is_nearest { "; out of range: the nearest" } else { "" };
        self.accepted() + beyond
    }
}

/// Rows in groups become `Parameters`, its defaults and `ROWS`. A row:
///
/// ```text
/// /// What it means.
/// field: Type = default, in low..=high or (default|nearest), env "NAME" also "OLD NAME", label "Banner",
///     unused "why it has no effect";
/// ```
macro_rules! parameters {
    ($($group:literal { $(
        $(#[doc = $doc:literal])+
        $field:ident : $type:ty = $default:expr,
        $(in $low:literal ..= $high:literal or $outside:ident,)?
        env $name:literal $(also $alias:literal)*, label $label:literal $(, unused $unused:literal)? ;
    )+ })+) => {
        /// Every parameter, by the lower-case name of its variable without `VMA_` or `SIDESTEP_`.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Parameters { $($(
            $(#[doc = $doc])+
            pub $field: $type,
        )+)+ }

        impl Default for Parameters {
            fn default() -> Self {
                Parameters { $($($field: $default,)+)+ }
            }
        }

        /// The table, in the banner's order.
        pub static ROWS: &[Row] = &[$($(Row {
            name: $name,
            aliases: &[$($alias),*],
            doc: concat!($($doc, "\n"),+),
            label: $label,
            group: $group,
            unused: parameters!(@option $($unused)?),
            set: |parameters, text| {
                let bounds = parameters!(@bounds $($low, $high, $outside)?);
                assign(&mut parameters.$field, $default, bounds, text)
            },
            show: |parameters| parameters.$field.show(),
            accepted: || accepted::<$type>(parameters!(@bounds $($low, $high, $outside)?)),
            is_nearest: parameters!(@nearest $($outside)?),
        },)+)+];
    };
    (@option) => { None };
    (@option $value:literal) => { Some($value) };
    (@nearest) => { false };
    (@nearest default) => { false };
    (@nearest nearest) => { true };
    (@bounds) => { None };
    (@bounds $low:literal, $high:literal, default) => {
        Some(Bounds { low: $low, high: $high, outside: Outside::Default })
    };
    (@bounds $low:literal, $high:literal, nearest) => {
        Some(Bounds { low: $low, high: $high, outside: Outside::Nearest })
    };
}
pub(crate) use parameters;
