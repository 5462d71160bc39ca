//! The rows, by what they are about. Files in reading order: [`socket`] (with [`sdp`], libsdp.so's view), [`data`],
//! [`wait`], [`descriptor`], [`process`], [`confine`], [`signal`], [`stream`], [`uring`], [`aio`], [`variadic`]; then
//! the same functions under other names: [`fortified`], [`aliases`].

mod aio;
mod aliases;
mod confine;
pub(crate) mod data;
pub(crate) mod descriptor;
mod fortified;
mod process;
mod sdp;
pub(crate) mod signal;
pub(crate) mod socket;
mod stream;
pub(crate) mod uring;
mod variadic;
pub(crate) mod wait;

/// Looks `syscall` up, by a call that asks for nothing.
pub(crate) fn find_syscall() {
    // SAFETY: getpid has no arguments.
    unsafe { process::genuine::syscall(libc::SYS_getpid, 0, 0, 0, 0, 0, 0) };
}

/// Every exported name; a test compares it with what the linker exported.
pub fn symbols() -> impl Iterator<Item = &'static str> {
    [
        crate::extra::SYMBOLS,
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
        confine::SYMBOLS,
        signal::SYMBOLS,
        stream::SYMBOLS,
        uring::SYMBOLS,
        aio::SYMBOLS,
        variadic::SYMBOLS,
        variadic::IN_ASSEMBLY,
        fortified::SYMBOLS,
        aliases::SYMBOLS,
    ]
    .into_iter()
    .flatten()
    .copied()
}
