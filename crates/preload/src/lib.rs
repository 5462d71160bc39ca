//! libvma.so: a constructor and a destructor over `interpose`.

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = interpose::start::constructed;

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = interpose::start::ending;
