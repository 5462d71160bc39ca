//! The macros to log with: one per level, and `once!`. A level that is not written costs one relaxed load.

/// A line of the given [`Level`], formatted as by `format!`, if that level is written.
#[macro_export]
macro_rules! log {
    ($level:ident, $($text:tt)+) => {
        if $crate::enabled($crate::Level::$level) {
            $crate::write($crate::Level::$level, format_args!($($text)+));
        }
    };
}

/// A line of the given [`Level`] from this place in the code, the first time only.
#[macro_export]
macro_rules! once {
    ($level:ident, $($text:tt)+) => {{
        static ONCE: $crate::Once = $crate::Once::new();
        if $crate::enabled($crate::Level::$level) && ONCE.first() {
            $crate::write($crate::Level::$level, format_args!($($text)+));
        }
    }};
}

/// A line at [`Level::Panic`](crate::Level::Panic). Does not end the program.
#[macro_export]
macro_rules! panicked {
    ($($text:tt)+) => { $crate::log!(Panic, $($text)+) };
}

/// A line at [`Level::Error`](crate::Level::Error).
#[macro_export]
macro_rules! error {
    ($($text:tt)+) => { $crate::log!(Error, $($text)+) };
}

/// A line at [`Level::Warning`](crate::Level::Warning).
#[macro_export]
macro_rules! warning {
    ($($text:tt)+) => { $crate::log!(Warning, $($text)+) };
}

/// A line at [`Level::Info`](crate::Level::Info).
#[macro_export]
macro_rules! info {
    ($($text:tt)+) => { $crate::log!(Info, $($text)+) };
}

/// A line at [`Level::Details`](crate::Level::Details).
#[macro_export]
macro_rules! details {
    ($($text:tt)+) => { $crate::log!(Details, $($text)+) };
}

/// A line at [`Level::Debug`](crate::Level::Debug).
#[macro_export]
macro_rules! debug {
    ($($text:tt)+) => { $crate::log!(Debug, $($text)+) };
}

/// A line at [`Level::Fine`](crate::Level::Fine).
#[macro_export]
macro_rules! fine {
    ($($text:tt)+) => { $crate::log!(Fine, $($text)+) };
}

/// A line at [`Level::Finer`](crate::Level::Finer).
#[macro_export]
macro_rules! finer {
    ($($text:tt)+) => { $crate::log!(Finer, $($text)+) };
}
