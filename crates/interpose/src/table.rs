//! `hooks!`: one row per libc function. A row looks like the function, and its body gives an `Answer`.

/// Turns rows into exported symbols, the genuine functions behind them (`genuine::name`) and the list `SYMBOLS`.
///
/// The gate comes first: a function without arguments that says whether bodies run at all. While it says no, a hook is
/// a load, a branch and a jump. Rows with another gate follow after a semicolon. A row may say by which function of
/// `sockets::calls` it is made straight, where nothing is to be done but the genuine call (`sockets::calls::Straight`).
macro_rules! hooks {
    ($($gate:path: $(
        $(#[$meta:meta])*
        fn $name:ident ( $($argument:ident : $kind:ty),* $(,)? ) $(-> $result:ty)?
        $(where $way:ident ($($what:expr),*))? $body:block
    )*);+) => {
        /// The next definitions in line.
        pub(crate) mod genuine {
            #[allow(unused_imports)]
            use super::*;
            $crate::genuine::genuine! { $($( fn $name ( $($argument : $kind),* ) $(-> $result)?; )*)+ }
        }

        /// The exports of this file.
        pub(in crate::hooks) const SYMBOLS: &[&str] = &[$($(stringify!($name)),*),+];

        $($(
            $(#[$meta])*
            #[cfg_attr(not(test), unsafe(no_mangle))]
            // The names are C's.
            #[allow(clippy::too_many_arguments, non_snake_case)]
            pub(crate) unsafe extern "C-unwind" fn $name ( $($argument : $kind),* ) $(-> $result)? {
                // SAFETY: the application's arguments.
                let genuinely = || unsafe { genuine::$name($($argument),*) };
                $(if $crate::start::running() {
                    use sockets::calls::Straight;
                    // SAFETY: with the arguments of the genuine call, whose answer follows.
                    #[allow(unused_unsafe)]
                    match unsafe { sockets::calls::$way($($what),*) } {
                        Straight::Foreign => return genuinely(),
                        Straight::Kernel(call) => {
                            if let Some(answer) = call.over(genuinely()) {
                                return answer;
                            }
                        }
                        Straight::Ours => {}
                    }
                })?
                if $gate() {
                    // SAFETY: the application's arguments, as the function's manual page demands.
                    #[allow(unused_unsafe)]
                    let settled = $crate::outcome::settle(|| unsafe { $body });
                    if let Some(value) = settled {
                        logger::fine!(
                            concat!(stringify!($name), "(" $(, stringify!($argument), " {:?} ")*, ") = {:?}"),
                            $($argument,)*
                            value
                        );
                        return value;
                    }
                }
                genuinely()
            }
        )*)+
    };
}

/// Second names of hooked functions, which glibc exports too. A row: name, arguments, the hook.
macro_rules! aliases {
    ($( fn $name:ident ( $($argument:ident : $kind:ty),* $(,)? ) -> $result:ty = $hook:path; )*) => {
        /// The exports of this file.
        pub(in crate::hooks) const SYMBOLS: &[&str] = &[$(stringify!($name)),*];

        $(
            #[cfg_attr(not(test), unsafe(no_mangle))]
            unsafe extern "C-unwind" fn $name ( $($argument : $kind),* ) -> $result {
                // SAFETY: the application's arguments.
                unsafe { $hook($($argument),*) }
            }
        )*
    };
}

pub(crate) use {aliases, hooks};
