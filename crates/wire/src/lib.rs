//! Header views and values of the wire formats, and checksums.
#![forbid(unsafe_code)]
#![no_std]

pub mod addr;
