//! libvma.so: a constructor over interpose.
