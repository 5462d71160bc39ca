//! The rows, by what they are about. Files in reading order: [`socket`], [`data`], [`wait`], [`descriptor`],
//! [`process`], [`signal`], [`stream`], [`variadic`]; then the same functions under other names: [`fortified`], [`aliases`].

mod aliases;
pub(crate) mod data;
pub(crate) mod descriptor;
mod fortified;
mod process;
pub(crate) mod signal;
pub(crate) mod socket;
mod stream;
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
mod variadic;
pub(crate) mod wait;

/// Every exported name; a test compares it with what the linker exported.
pub fn symbols() -> impl Iterator<Item = &'static str> {
    [
        socket::first::SYMBOLS,
        socket::SYMBOLS,
        data::SYMBOLS,
        wait::first::SYMBOLS,
        wait::SYMBOLS,
        descriptor::SYMBOLS,
        descriptor::makers::SYMBOLS,
        process::first::SYMBOLS,
        process::SYMBOLS,
        process::exec::SYMBOLS,
        signal::SYMBOLS,
        stream::SYMBOLS,
        #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
        variadic::SYMBOLS,
        #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
        variadic::IN_ASSEMBLY,
        fortified::SYMBOLS,
        aliases::SYMBOLS,
    ]
    .into_iter()
    .flatten()
    .copied()
}
