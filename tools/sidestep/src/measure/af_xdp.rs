//! Does AF_XDP work here at all? Tried on a veth pair in namespaces of their own, in each mode.

use super::namespaces::{INTERFACE, pair};
use crate::host::facts::AfXdp;
use xdp::{Device, Mode, Options};

pub(crate) fn measure() -> std::io::Result<AfXdp> {
    let (one, _other) = pair()?;
    let try_mode = |mode: Mode| {
        one.inside(|| {
            let options = Options { mode, frames: 512, rx_ring: 256, tx_ring: 256, ..Options::default() };
            Device::open(INTERFACE, &options).err().map(|refusal| refusal.to_string())
        })
    };
    Ok(AfXdp { generic: try_mode(Mode::Generic)?, native: try_mode(Mode::Native)? })
}
