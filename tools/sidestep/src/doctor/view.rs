//! The host as checks ask for it: typed answers, the interfaces that matter, and what kind of machine it is.

use crate::host::cpus::Cpus;
use crate::host::facts::{Cpu, Driver, Fact, Index};
use crate::host::{Answer, Cause, Host, Unread};
use std::collections::BTreeMap;

/// What the host shall be good at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Aim {
    Latency,
    Throughput,
}

/// The host that is examined.
pub(crate) struct View<'h> {
    pub(crate) host: &'h dyn Host,
    pub(crate) aim: Aim,
    /// Those named, or all that could carry accelerated packets.
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) online: Cpus,
    /// A virtual machine.
    pub(crate) is_virtual: bool,
    /// Processes of a namespace of their own, as in a container: what is seen may be the host's, and what is not seen
    /// may be there.
    pub(crate) is_container: bool,
    /// The running program that is asked about.
    pub(crate) program: Option<u32>,
    /// sysfs is of another network namespace than this process: what it says of interfaces is not of ours.
    pub(crate) sysfs_is_anothers: bool,
}

/// Why interfaces cannot be told of, and what helps.
pub(crate) const SYSFS_IS_ANOTHERS: &str = "/sys shows the interfaces of another network namespace than that of this \
     process; `ip netns exec` and `nsenter --net --mount` have the right one";

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    /// By ethtool; empty if it has none.
    pub(crate) driver: String,
    /// The NUMA node that its card is at, if the platform says.
    pub(crate) node: Option<usize>,
    /// Whether there is a device behind it: a card, or what a hypervisor shows as one.
    pub(crate) has_device: bool,
}

impl Interface {
    /// A path of its folder in sysfs.
    pub(crate) fn path(&self, below: &str) -> String {
        format!("/sys/class/net/{}/{below}", self.name)
    }

    /// The PCI function behind it, for virtio one floor below.
    fn pci(&self, host: &dyn Host) -> Option<String> {
        ["device", "device/.."]
            .iter()
            .map(|place| self.path(place))
            .find(|place| host.read(&format!("{place}/class")).is_ok_and(|class| class.starts_with("0x")))
    }
}

impl<'h> View<'h> {
    /// Looks around. `named`: the interfaces that the user wants examined; the error says which is not there.
    pub(crate) fn new(host: &'h dyn Host, aim: Aim, named: &[String]) -> Result<View<'h>, String> {
        let online = host.read("/sys/devices/system/cpu/online").ok();
        let online = online.and_then(|text| Cpus::parse(&text)).unwrap_or_else(|| Cpus::from_iter([0]));
        // The first namespace of processes has the same number on every Linux; a machine without it has no others.
        let is_container =
            host.link("/proc/self/ns/pid").is_ok_and(|namespace| namespace != "pid:[4026531836]");
        let mut view = View {
            host,
            aim,
            interfaces: Vec::new(),
            online,
            is_virtual: false,
            is_container,
            program: None,
            sysfs_is_anothers: false,
        };
        view.is_virtual = view.fact::<Cpu>("").is_ok_and(|cpu| cpu.hypervisor);
        view.interfaces = view.chosen_interfaces(named)?;
        Ok(view)
    }

    fn chosen_interfaces(&mut self, named: &[String]) -> Result<Vec<Interface>, String> {
        let mut there = self.host.list("/sys/class/net").unwrap_or_default();
        let shown = there.len();
        there.retain(|name| self.is_ours(name));
        self.sysfs_is_anothers = there.len() < shown;
        if self.sysfs_is_anothers && !named.is_empty() {
            return Err(SYSFS_IS_ANOTHERS.to_owned());
        }
        if let Some(none) = named.iter().find(|name| !there.contains(name)) {
            return Err(format!("there is no interface {none}; there are: {}", there.join(", ")));
        }
        let all = there.iter().map(|name| self.interface(name));
        Ok(if named.is_empty() {
            all.filter(|one| one.has_device || one.driver == "veth").filter(|one| self.is_up(one)).collect()
        } else {
            all.filter(|one| named.contains(&one.name)).collect()
        })
    }

    /// Whether the interface that sysfs shows is in our network namespace, too: setns and unshare leave sysfs as it is.
    fn is_ours(&self, name: &str) -> bool {
        match (self.fact::<Index>(name), self.number(&format!("/sys/class/net/{name}/ifindex"))) {
            (Ok(ours), Ok(shown)) => i64::from(ours.number) == shown,
            _ => true,
        }
    }

    /// Processors that the scheduler leaves alone, by the command line or by a cpuset.
    pub(crate) fn isolated(&self) -> Cpus {
        let places = ["/sys/devices/system/cpu/isolated", "/sys/fs/cgroup/cpuset.cpus.isolated"];
        let lists = places.iter().filter_map(|path| Cpus::parse(&self.read(path).ok()?));
        lists.flat_map(|list| list.iter().collect::<Vec<_>>()).collect()
    }

    fn interface(&self, name: &str) -> Interface {
        let driver = self.fact::<Driver>(name).map(|driver| driver.driver).unwrap_or_default();
        let path = |below: &str| format!("/sys/class/net/{name}/{below}");
        let node = ["device/numa_node", "device/../numa_node"]
            .iter()
            .find_map(|place| self.number(&path(place)).ok());
        Interface {
            name: name.to_owned(),
            driver,
            node: node.and_then(|node| usize::try_from(node).ok()),
            has_device: self.host.link(&path("device")).is_ok(),
        }
    }

    fn is_up(&self, interface: &Interface) -> bool {
        let flags = self.host.read(&interface.path("flags")).unwrap_or_default();
        let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16).unwrap_or(1);
        flags & 1 != 0
    }

    /// The number of the program that is asked about.
    pub(crate) fn program(&self) -> String {
        self.program.map_or_else(String::new, |pid| pid.to_string())
    }

    pub(crate) fn read(&self, path: &str) -> Answer<String> {
        self.host.read(path)
    }

    /// A file that is one number.
    pub(crate) fn number(&self, path: &str) -> Answer<i64> {
        let text = self.host.read(path)?;
        text.trim().parse().map_err(|_| Unread::new(path, Cause::Failed(libc::EINVAL)))
    }

    /// The value that a file of settings stands at.
    pub(crate) fn setting(&self, path: &str) -> Answer<String> {
        Ok(super::action::chosen(&self.host.read(path)?))
    }

    /// A value of sysctl, its words separated by one blank.
    pub(crate) fn sysctl(&self, name: &str) -> Answer<String> {
        let text = self.host.read(&format!("/proc/sys/{}", name.replace('.', "/")))?;
        Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    pub(crate) fn sysctl_number(&self, name: &str) -> Answer<i64> {
        self.number(&format!("/proc/sys/{}", name.replace('.', "/")))
    }

    /// What the kernel answers about something.
    pub(crate) fn fact<T: Fact>(&self, about: &str) -> Answer<T> {
        let value = self.host.ask(T::TOPIC, about)?;
        serde_json::from_value(value)
            .map_err(|_| Unread::new(format!("{} {about}", T::TOPIC), Cause::Failed(libc::EPROTO)))
    }

    /// A file of every processor, as values with the processors that have them. The first that cannot be read is the
    /// answer.
    pub(crate) fn per_cpu(&self, below: &str) -> Answer<BTreeMap<String, Cpus>> {
        let mut all: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for cpu in self.online.iter() {
            let value = self.host.read(&format!("/sys/devices/system/cpu/cpu{cpu}/{below}"))?;
            all.entry(value).or_default().push(cpu);
        }
        Ok(all.into_iter().map(|(value, cpus)| (value, cpus.into_iter().collect())).collect())
    }

    /// A word of the kernel's command line: `Some("")` for one without value.
    pub(crate) fn boot_word(&self, name: &str) -> Option<String> {
        let line = self.host.read("/proc/cmdline").ok()?;
        let mut words = line.split_whitespace();
        words.find_map(|word| {
            let rest = word.strip_prefix(name)?;
            if rest.is_empty() { Some(String::new()) } else { rest.strip_prefix('=').map(str::to_owned) }
        })
    }

    /// The kernel's release as two numbers.
    pub(crate) fn release(&self) -> Answer<(u32, u32, String)> {
        let release = self.host.read("/proc/sys/kernel/osrelease")?;
        let mut numbers = release.split(['.', '-']).map_while(|part| part.parse().ok());
        let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        Ok((major, minor, release))
    }

    /// The folder of an interface's PCI function. The answer of one without says so.
    pub(crate) fn pci(&self, interface: &Interface) -> Answer<String> {
        interface
            .pci(self.host)
            .ok_or_else(|| Unread::new(format!("a PCI device behind {}", interface.name), Cause::Missing))
    }

    /// The interrupts of an interface's device: number, and the processors that it may go to.
    pub(crate) fn interrupts(&self, interface: &Interface) -> Answer<Vec<(u32, Cpus)>> {
        let folder = format!("{}/msi_irqs", self.pci(interface)?);
        let mut all = Vec::new();
        for irq in self.host.list(&folder)?.iter().filter_map(|name| name.parse::<u32>().ok()) {
            let effective = self.host.read(&format!("/proc/irq/{irq}/effective_affinity_list"));
            let cpus = effective.or_else(|_| self.host.read(&format!("/proc/irq/{irq}/smp_affinity_list")));
            // Some vectors are allocated and not requested: they have no folder.
            if let Some(cpus) = cpus.ok().and_then(|text| Cpus::parse(&text)).filter(|cpus| !cpus.is_empty())
            {
                all.push((irq, cpus));
            }
        }
        Ok(all)
    }
}
