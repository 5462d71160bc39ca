//! libsdp.so: a constructor and a destructor over `interpose`, and the mark by which that knows which library it is in.

#[used]
#[unsafe(link_section = "sidestep_product")]
static IS_SDP: u8 = 1;

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructed;

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = interpose::start::ending;

extern "C" fn constructed() {
    // What nothing refers to, a linker may leave out.
    core::hint::black_box(&raw const IS_SDP);
    interpose::start::constructed();
}
