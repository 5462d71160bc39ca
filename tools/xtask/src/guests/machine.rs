//! Two virtual machines on a bridge in a network namespace. Each has the host's files as its root, read-only under
//! memory, and an agent that runs commands from a serial port.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rig::{Context, Error, Namespace, Program, Result, Running};

use super::cache::{Cache, Kernel, Qemu};
use super::image;

pub(super) const ADDRESSES: [&str; 2] = ["10.44.0.1", "10.44.0.2"];

/// A busy machine boots a guest in half a minute under emulation.
const BOOT: Duration = Duration::from_secs(180);

/// How both machines are made.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    /// qemu's name of the network card, and more of its options.
    pub(super) device: &'static str,
    pub(super) options: &'static str,
    /// The module that drives it.
    pub(super) driver: &'static str,
    /// Queues of the host's side (virtio has as many; other cards have what they have).
    pub(super) queues: u32,
    pub(super) processors: u32,
}

/// Two machines.
pub(super) struct Pair {
    pub(super) a: Machine,
    pub(super) b: Machine,
    _folder: Folder,
    _namespace: Namespace,
}

/// Of a run; removed with it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One of them.
pub(super) struct Machine {
    process: Running,
    agent: BufReader<UnixStream>,
    console: PathBuf,
}

impl Pair {
    /// Boots both and waits for their agents.
    pub(super) fn boot(cache: &Cache, qemu: &Qemu, kernel: &Kernel, plan: Plan) -> Result<Pair> {
        let namespace = Namespace::create("guests")?;
        namespace.ip("link add bridge type bridge mcast_snooping 0")?;
        namespace.ip("link set bridge up")?;
        // Short: the path of a socket has 108 bytes.
        let folder = Folder(std::env::temp_dir().join(namespace.name()));
        std::fs::create_dir_all(&folder.0).context(folder.0.display())?;
        let image = image::make(cache, kernel, &[plan.driver, "sch_netem", "veth"], &folder.0)?;
        let mut machines = Vec::new();
        for (number, address) in ADDRESSES.into_iter().enumerate() {
            let start = Machine::start(&namespace, &folder.0, qemu, kernel, &image, plan, number, address);
            machines.push(start?);
        }
        let (Some(b), Some(a)) = (machines.pop(), machines.pop()) else {
            return Err(Error::new("no machines"));
        };
        let mut pair = Pair { a, b, _folder: folder, _namespace: namespace };
        for machine in [&mut pair.a, &mut pair.b] {
            machine.expect_ready()?;
        }
        Ok(pair)
    }
}

impl Machine {
    #[allow(clippy::too_many_arguments, reason = "each is one part of a machine")]
    fn start(
        namespace: &Namespace,
        folder: &Path,
        qemu: &Qemu,
        kernel: &Kernel,
        image: &image::Image,
        plan: Plan,
        number: usize,
        address: &str,
    ) -> Result<Machine> {
        let tap = format!("tap{number}");
        let several = if plan.queues > 1 { "multi_queue" } else { "" };
        namespace.ip(&format!("tuntap add dev {tap} mode tap {several} vnet_hdr"))?;
        namespace.ip(&format!("link set {tap} master bridge up"))?;
        let (console, agent) =
            (folder.join(format!("console{number}")), folder.join(format!("agent{number}")));

        let mut device = format!("{},netdev=wire,mac=52:54:00:44:00:0{number},romfile=", plan.device);
        let mut netdev = format!("tap,id=wire,ifname={tap},script=no,downscript=no,vhost=off");
        if plan.queues > 1 {
            netdev += &format!(",queues={}", plan.queues);
        }
        if plan.queues > 1 && plan.device.starts_with("virtio") {
            device += &format!(",mq=on,vectors={}", 2 * plan.queues + 2);
        }
        if !plan.options.is_empty() {
            device += &format!(",{}", plan.options);
        }
        let cmdline = format!(
            "console=ttyS0 quiet panic=-1 net.ifnames=0 mitigations=off guest.address={address} guest.modules={}",
            image.modules.join(",")
        );
        let vmlinuz = kernel.folder.join(format!("boot/vmlinuz-{}", kernel.release));
        // Others use the machine, too.
        let mut program = Program::new(namespace, "nice").any_cpu().words("-n 10");
        for word in qemu.words() {
            program = program.argument(word);
        }
        program = program
            .words(
                "-machine pc -accel tcg,thread=multi -cpu max -m 1024 -nodefaults -display none -no-reboot",
            )
            .words(&format!("-smp {}", plan.processors))
            .words(&format!("-kernel {} -initrd {}", vmlinuz.display(), image.file.display()))
            .words(&format!("-serial file:{}", console.display()))
            .words(&format!(
                "-chardev socket,id=agent,path={},server=on,wait=off -serial chardev:agent",
                agent.display()
            ))
            .words("-virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap")
            .words(&format!("-netdev {netdev} -device {device}"))
            .words("-append")
            .argument(cmdline);
        if let Some(libraries) = &qemu.libraries {
            program = program.environment("LD_LIBRARY_PATH", libraries);
        }
        let process = program.start()?;
        let end = Instant::now() + Duration::from_secs(20);
        let stream = loop {
            match UnixStream::connect(&agent) {
                Ok(stream) => break stream,
                Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(50)),
                Err(error) => return Err(Error::new(format!("qemu: {error}\n{}", process.stderr()))),
            }
        };
        Ok(Machine { process, agent: BufReader::new(stream), console })
    }

    fn expect_ready(&mut self) -> Result<()> {
        let line = self.line(BOOT).map_err(|error| {
            let console = std::fs::read(&self.console).unwrap_or_default();
            let text = String::from_utf8_lossy(&console).into_owned();
            let tail = text.lines().rev().take(15).collect::<Vec<_>>();
            let tail: Vec<&str> = tail.into_iter().rev().collect();
            Error::new(format!(
                "a guest does not boot: {error}\n{}\n{}",
                tail.join("\n"),
                self.process.stderr()
            ))
        })?;
        if line == "ready" { Ok(()) } else { Err(Error::new(format!("a guest's agent says {line:?}"))) }
    }

    fn line(&mut self, limit: Duration) -> Result<String> {
        self.agent.get_ref().set_read_timeout(Some(limit)).context("agent")?;
        let mut line = String::new();
        self.agent.read_line(&mut line).context("the agent of a guest does not answer")?;
        if line.is_empty() { Err(Error::new("the guest ended")) } else { Ok(line.trim().to_owned()) }
    }

    /// Runs one line of shell: whether it succeeded, and what it said.
    pub(super) fn run(&mut self, command: &str, limit: Duration) -> Result<(bool, String)> {
        let mut stream = self.agent.get_ref();
        writeln!(stream, "{}", command.replace('\n', " ")).context("agent")?;
        let line = self.line(limit).context(command)?;
        let (output, status) = line.rsplit_once(' ').unwrap_or(("", &line));
        Ok((status == "0", String::from_utf8_lossy(&base64(output)).into_owned()))
    }

    /// As [`Machine::run`]; a failure is an error that quotes what it said.
    pub(super) fn must(&mut self, command: &str, limit: Duration) -> Result<String> {
        match self.run(command, limit)? {
            (true, output) => Ok(output),
            (false, output) => Err(Error::new(format!("in a guest, {command}: {}", output.trim()))),
        }
    }
}

/// RFC 4648, as base64(1) writes it.
fn base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for value in text.bytes().filter_map(digit) {
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read() {
        assert_eq!(base64("aGVsbG8K"), b"hello\n");
        assert_eq!(base64("aGVsbG8="), b"hello");
        assert_eq!(base64("aGVsbA=="), b"hell");
        assert_eq!(base64(""), b"");
    }
}
