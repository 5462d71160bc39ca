//! What an interface is, asked by ioctl: index, address, MTU, driver, queues.

use std::ffi::CString;

use sys::fd::ioctl;
use sys::{Fd, Result};

const SIOCGIFNAME: u32 = 0x8910;
const SIOCGIFFLAGS: u32 = 0x8913;
const SIOCGIFMTU: u32 = 0x8921;
const SIOCGIFHWADDR: u32 = 0x8927;
const SIOCGIFINDEX: u32 = 0x8933;
pub(crate) const SIOCETHTOOL: u32 = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ARPHRD_ETHER: u16 = 1;

/// Queues that may be added while an interface is open: each lane has a slot for each.
const QUEUES_MAX: u32 = 256;

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
    /// And as many as there may be at some time.
    pub(crate) queues_max: u32,
}

/// `struct ifreq`: a name and 24 bytes whose meaning depends on the request.
#[repr(C, align(8))]
pub(crate) struct Request {
    name: [u8; 16],
    pub(crate) value: [u8; 24],
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
        let (driver, (queues, queues_max)) = (driver(&socket, name), queues(&socket, name, index));
        Ok(Interface { index, mac, mtu, ethernet, driver, queues, queues_max })
    }
}

pub(crate) fn request(name: &str) -> Result<Request> {
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

/// A request that points to `data`, which must outlive it.
pub(crate) fn request_with<const N: usize>(name: &str, data: &mut [u32; N]) -> Result<Request> {
    let mut request = request(name)?;
    request.value[..8].copy_from_slice(&(data.as_mut_ptr() as u64).to_ne_bytes());
    Ok(request)
}

/// An ethtool request: `data` begins with the command and is what the command asks for.
pub(crate) fn ethtool<const N: usize>(socket: &Fd, name: &str, data: &mut [u32; N]) -> Result<()> {
    let mut request = request_with(name, data)?;
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

/// The interface's name by now. ENODEV: it is gone.
pub(crate) fn name_of(socket: &Fd, index: u32) -> Result<String> {
    let mut request = Request { name: [0; 16], value: [0; 24] };
    request.value[..4].copy_from_slice(&index.to_ne_bytes());
    // SAFETY: this request reads an index from the value of an ifreq, and writes the name.
    unsafe { ioctl(socket.raw(), SIOCGIFNAME, &mut request) }?;
    Ok(request.name.iter().take_while(|&&byte| byte != 0).map(|&byte| char::from(byte)).collect())
}

/// Receive queues in use by now, where that may change.
pub(crate) fn queues_now(socket: &Fd, index: u32) -> Option<u32> {
    channels(socket, &name_of(socket, index).ok()?).map(|(now, _)| now)
}

/// Receive queues in use, and the most that there may be. Packets come with their numbers.
fn queues(socket: &Fd, name: &str, index: u32) -> (u32, u32) {
    channels(socket, name).unwrap_or_else(|| {
        let count = queues_in("/sys/class/net", name, index).unwrap_or(1);
        (count, count)
    })
}

/// As the driver has them. `None`: it does not say, as those of devices over others (bonding, team), whose packets keep
/// the queue that they came by.
fn channels(socket: &Fd, name: &str) -> Option<(u32, u32)> {
    // struct ethtool_channels: command, maxima of rx, tx, other, combined, then the counts in the same order.
    let mut data = [0u32; 9];
    data[0] = ETHTOOL_GCHANNELS;
    ethtool(socket, name, &mut data).ok()?;
    let (now, most) = (data[5].saturating_add(data[8]), data[1].saturating_add(data[4]));
    (now > 0).then_some((now, most.clamp(now, now.max(QUEUES_MAX))))
}

/// The interface's folder in sysfs, mounted at `root`. `None`: it is not there; sysfs is that of another network
/// namespace then.
pub(crate) fn in_sysfs(root: &str, name: &str, index: u32) -> Option<String> {
    let folder = format!("{root}/{name}");
    let there = sys::file::read_number(&CString::new(format!("{folder}/ifindex")).ok()?).ok()?;
    (there == i64::from(index)).then_some(folder)
}

/// As sysfs has it.
fn queues_in(root: &str, name: &str, index: u32) -> Option<u32> {
    let folder = in_sysfs(root, name, index)?;
    let exists = |queue: &u32| {
        CString::new(format!("{folder}/queues/rx-{queue}"))
            .is_ok_and(|path| sys::file::open(&path, libc::O_PATH, 0).is_ok())
    };
    let count = (0..).take_while(exists).count() as u32;
    (count > 0).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_counted_in_sysfs_if_it_is_that_of_the_interface() {
        let root = std::env::temp_dir().join(format!("sidestep-queues-{}", std::process::id()));
        for queue in ["rx-0", "rx-1", "rx-2", "tx-0"] {
            std::fs::create_dir_all(root.join("bond0/queues").join(queue)).unwrap();
        }
        std::fs::write(root.join("bond0/ifindex"), "7\n").unwrap();
        let root = root.to_str().unwrap();
        assert_eq!(queues_in(root, "bond0", 7), Some(3));
        assert_eq!(queues_in(root, "bond0", 8), None, "another namespace's");
        assert_eq!(queues_in(root, "bond1", 7), None);
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn loopback_is_no_ethernet_and_a_missing_interface_is_enodev() {
        assert!(!Interface::named("lo").unwrap().ethernet);
        assert_eq!(Interface::named("no-such-0"), Err(libc::ENODEV));
        assert_eq!(Interface::named("much-too-long-a-name"), Err(libc::ENODEV));
    }
}
