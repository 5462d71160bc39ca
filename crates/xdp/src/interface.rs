//! What an interface is, asked by ioctl: index, address, MTU, driver, queues.

use sys::fd::ioctl;
use sys::{Fd, Result};

const SIOCGIFFLAGS: u32 = 0x8913;
const SIOCGIFMTU: u32 = 0x8921;
const SIOCGIFHWADDR: u32 = 0x8927;
const SIOCGIFINDEX: u32 = 0x8933;
const SIOCETHTOOL: u32 = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ARPHRD_ETHER: u16 = 1;

/// An interface of this network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) index: u32,
    pub(crate) mac: [u8; 6],
    pub(crate) mtu: u32,
    pub(crate) ethernet: bool,
    /// The driver's name by ethtool ("veth", "virtio_net"); empty where the driver has none.
    pub(crate) driver: String,
    /// Receive queues in use.
    pub(crate) queues: u32,
}

/// `struct ifreq`: a name and 24 bytes whose meaning depends on the request.
#[repr(C, align(8))]
struct Request {
    name: [u8; 16],
    value: [u8; 24],
}

impl Interface {
    /// Asks the kernel. ENODEV: no such interface here.
    pub(crate) fn named(name: &str) -> Result<Interface> {
        let socket = sys::socket::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
        let value = ask(&socket, SIOCGIFINDEX, name)?;
        let index = u32::from_ne_bytes([value[0], value[1], value[2], value[3]]);
        let value = ask(&socket, SIOCGIFMTU, name)?;
        let mtu = u32::from_ne_bytes([value[0], value[1], value[2], value[3]]);
        let flags = ask(&socket, SIOCGIFFLAGS, name)?;
        let loopback = u16::from_ne_bytes([flags[0], flags[1]]) & libc::IFF_LOOPBACK as u16 != 0;
        let value = ask(&socket, SIOCGIFHWADDR, name)?;
        let ethernet = u16::from_ne_bytes([value[0], value[1]]) == ARPHRD_ETHER && !loopback;
        let mac = [value[2], value[3], value[4], value[5], value[6], value[7]];
        let (driver, queues) = (driver(&socket, name), queues(&socket, name));
        Ok(Interface { index, mac, mtu, ethernet, driver, queues })
    }
}

fn request(name: &str) -> Result<Request> {
    let mut request = Request { name: [0; 16], value: [0; 24] };
    if name.is_empty() || name.len() > 15 || name.contains('\0') {
        return Err(libc::ENODEV);
    }
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    Ok(request)
}

fn ask(socket: &Fd, what: u32, name: &str) -> Result<[u8; 24]> {
    let mut request = request(name)?;
    // SAFETY: these requests read the name and write the value of an ifreq.
    unsafe { ioctl(socket.raw(), what, &mut request) }?;
    Ok(request.value)
}

/// An ethtool request: `data` begins with the command and is what the command asks for.
fn ethtool<const N: usize>(socket: &Fd, name: &str, data: &mut [u32; N]) -> Result<()> {
    let mut request = request(name)?;
    request.value[..8].copy_from_slice(&(data.as_mut_ptr() as u64).to_ne_bytes());
    // SAFETY: the value is a pointer to data, which lives for the call; callers give it the command's size.
    unsafe { ioctl(socket.raw(), SIOCETHTOOL, &mut request) }.map(|_| ())
}

fn driver(socket: &Fd, name: &str) -> String {
    // struct ethtool_drvinfo: command, then texts of 32 bytes, the driver's name first; 196 bytes in all.
    let mut data = [0u32; 49];
    data[0] = ETHTOOL_GDRVINFO;
    if ethtool(socket, name, &mut data).is_err() {
        return String::new();
    }
    let text = data[1..9].iter().flat_map(|word| word.to_ne_bytes()).take_while(|&byte| byte != 0);
    text.map(char::from).collect()
}

fn queues(socket: &Fd, name: &str) -> u32 {
    // struct ethtool_channels: command, maxima of rx, tx, other, combined, then the counts in the same order.
    let mut data = [0u32; 9];
    data[0] = ETHTOOL_GCHANNELS;
    match ethtool(socket, name, &mut data) {
        Ok(()) => (data[5] + data[8]).max(1),
        Err(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_no_ethernet_and_a_missing_interface_is_enodev() {
        assert!(!Interface::named("lo").unwrap().ethernet);
        assert_eq!(Interface::named("no-such-0"), Err(libc::ENODEV));
        assert_eq!(Interface::named("much-too-long-a-name"), Err(libc::ENODEV));
    }
}
