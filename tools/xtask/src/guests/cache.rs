//! What guests are made of: Debian's kernels, qemu and busybox, from its registry, unpacked in a cache outside of the
//! tree. Nothing is installed; packages are asked for with a configuration of apt's of their own.

use std::path::{Path, PathBuf};
use std::process::Command;

use rig::{Context, Error, Result, run_tool};

/// Where kernels come from, whatever the host itself is: all these, but a series of an old release has its own archive,
/// because one that the registry has no more must not keep the others away.
const KERNEL_SUITES: [(&str, &str); 3] =
    [("debian", "bookworm"), ("debian-security", "bookworm-security"), ("debian", "trixie-backports")];
const OLD_SUITES: [(&str, (&str, &str)); 1] = [("5.10", ("debian", "bullseye"))];

/// A kernel, unpacked.
pub(super) struct Kernel {
    /// As `uname -r` says.
    pub(super) release: String,
    pub(super) folder: PathBuf,
}

/// qemu, installed or unpacked.
pub(super) struct Qemu {
    pub(super) program: PathBuf,
    /// LD_LIBRARY_PATH of what is unpacked.
    pub(super) libraries: Option<String>,
    pub(super) firmware: Vec<PathBuf>,
}

/// The cache.
pub(super) struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// In XDG_CACHE_HOME, or where the home directory has its caches.
    pub(super) fn open() -> Result<Cache> {
        let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
        let base = std::env::var_os("XDG_CACHE_HOME").map_or_else(|| home.join(".cache"), PathBuf::from);
        let folder = base.join("sidestep/guests");
        std::fs::create_dir_all(&folder).context(folder.display())?;
        Ok(Cache { folder })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The newest kernel of a series ("6.1") that is there, else that Debian has.
    pub(super) fn kernel(&self, series: &str) -> Result<Kernel> {
        let kernels = self.folder.join("kernels");
        std::fs::create_dir_all(&kernels).context(kernels.display())?;
        let there = std::fs::read_dir(&kernels).context(kernels.display())?.flatten();
        let names = there.filter_map(|entry| entry.file_name().into_string().ok());
        let release = match newest(names.filter(|name| is_of_series(name, series))) {
            Some(release) => release,
            None => {
                let old = OLD_SUITES.iter().find(|(of, _)| *of == series);
                let apt = match old {
                    Some((_, suite)) => {
                        Apt::new(&self.folder.join(format!("apt-kernels-{series}")), &[*suite])?
                    }
                    None => Apt::new(&self.folder.join("apt-kernels"), &KERNEL_SUITES)?,
                };
                let names = apt.cache(&["pkgnames", "linux-image-"])?;
                let releases = names.lines().filter_map(|name| name.strip_prefix("linux-image-"));
                let found = newest(releases.filter(|name| is_of_series(name, series)).map(str::to_owned));
                let release =
                    found.ok_or_else(|| Error::new(format!("Debian has no kernel {series} any more")))?;
                self.fetch(&apt, &[&format!("linux-image-{release}")], &kernels.join(&release))?;
                release
            }
        };
        Ok(Kernel { folder: kernels.join(&release), release })
    }

    /// A statically linked busybox, which is all that an initramfs has.
    pub(super) fn busybox(&self) -> Result<PathBuf> {
        let folder = self.folder.join("busybox");
        if !folder.exists() {
            let apt = Apt::new(&self.folder.join("apt-kernels"), &KERNEL_SUITES)?;
            self.fetch(&apt, &["busybox-static"], &folder)?;
        }
        let places = ["bin/busybox", "usr/bin/busybox"].map(|place| folder.join(place));
        places.into_iter().find(|place| place.exists()).ok_or_else(|| Error::new("no busybox in its package"))
    }

    /// A qemu that knows igb (8 or newer): the installed one, else that of the host's backports.
    pub(super) fn qemu(&self) -> Result<Qemu> {
        let installed = Qemu { program: "qemu-system-x86_64".into(), libraries: None, firmware: Vec::new() };
        if installed.knows("igb") {
            return Ok(installed);
        }
        let folder = self.folder.join("qemu");
        if !folder.exists() {
            let codename = codename()?;
            let (security, backports) = (format!("{codename}-security"), format!("{codename}-backports"));
            let suites =
                [("debian", codename.as_str()), ("debian-security", &security), ("debian", &backports)];
            let apt = Apt::new(&self.folder.join("apt-qemu"), &suites)?;
            eprintln!("downloading qemu of {backports} into {}", folder.display());
            let archives = apt.download_with_libraries(&backports, "qemu-system-x86")?;
            unpack(&archives, &folder)?;
        }
        let usr = folder.join("usr");
        let places =
            ["usr/lib", "lib"].map(|place| folder.join(place).join("x86_64-linux-gnu").display().to_string());
        Ok(Qemu {
            program: usr.join("bin/qemu-system-x86_64"),
            libraries: Some(places.join(":")),
            firmware: vec![usr.join("share/qemu"), usr.join("share/seabios")],
        })
    }

    /// Downloads packages and unpacks them where nothing is yet.
    fn fetch(&self, apt: &Apt, packages: &[&str], into: &Path) -> Result<()> {
        eprintln!("downloading {} into {}", packages.join(" "), into.display());
        unpack(&apt.download(packages)?, into)
    }
}

impl Qemu {
    /// The command line before the machine: the program with its firmware.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = vec![self.program.display().to_string()];
        for folder in &self.firmware {
            words.extend(["-L".to_owned(), folder.display().to_string()]);
        }
        words
    }

    fn knows(&self, device: &str) -> bool {
        let help = Command::new(&self.program).args(["-device", "help"]).output();
        help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains(&format!("\"{device}\"")))
    }
}

/// apt-get with sources, lists and archives of its own.
struct Apt {
    folder: PathBuf,
}

impl Apt {
    fn new(folder: &Path, suites: &[(&str, &str)]) -> Result<Apt> {
        let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
        if !Path::new(keys).exists() {
            return Err(Error::new(format!("no {keys}: this host is no Debian")));
        }
        for place in ["lists/partial", "archives/partial"] {
            std::fs::create_dir_all(folder.join(place)).context(folder.display())?;
        }
        let line = |(archive, suite): &(&str, &str)| {
            format!("deb [signed-by={keys}] http://deb.debian.org/{archive} {suite} main\n")
        };
        let sources: String = suites.iter().map(line).collect();
        std::fs::write(folder.join("sources.list"), sources).context(folder.display())?;
        let apt = Apt { folder: folder.to_owned() };
        apt.run("apt-get", &["-qq", "update"]).context("Debian's registry cannot be reached")?;
        Ok(apt)
    }

    fn run(&self, program: &str, words: &[&str]) -> Result<String> {
        let at = |place: &str| self.folder.join(place).display().to_string();
        let mut command = Command::new(program);
        command.current_dir(self.folder.join("archives"));
        for option in [
            format!("Dir::Etc::sourcelist={}", at("sources.list")),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            format!("Dir::State::lists={}", at("lists")),
            format!("Dir::Cache={}", at("")),
            "Acquire::Languages=none".to_owned(),
            "APT::Sandbox::User=root".to_owned(),
            "Acquire::Retries=2".to_owned(),
            "Acquire::http::Timeout=20".to_owned(),
            // Nothing is installed: other uses of apt may go on.
            "Debug::NoLocking=1".to_owned(),
        ] {
            command.args(["-o", &option]);
        }
        run_tool(command.args(words))
    }

    fn cache(&self, words: &[&str]) -> Result<String> {
        self.run("apt-cache", words)
    }

    fn download(&self, packages: &[&str]) -> Result<Vec<PathBuf>> {
        let mut words = vec!["-qq", "download"];
        words.extend(packages);
        self.run("apt-get", &words)?;
        self.archives()
    }

    /// A package of a suite, with what it needs and the host has not.
    fn download_with_libraries(&self, suite: &str, package: &str) -> Result<Vec<PathBuf>> {
        let how =
            ["-qq", "-y", "--no-install-recommends", "--download-only", "-t", suite, "install", package];
        self.run("apt-get", &how)?;
        self.archives()
    }

    fn archives(&self) -> Result<Vec<PathBuf>> {
        let folder = self.folder.join("archives");
        let entries =
            std::fs::read_dir(&folder).context(folder.display())?.flatten().map(|entry| entry.path());
        Ok(entries.filter(|path| path.extension().is_some_and(|end| end == "deb")).collect())
    }
}

/// Unpacks packages and removes them. What is half done is not there.
fn unpack(archives: &[PathBuf], into: &Path) -> Result<()> {
    let half = into.with_extension("part");
    let _ = std::fs::remove_dir_all(&half);
    for archive in archives {
        run_tool(Command::new("dpkg-deb").arg("-x").arg(archive).arg(&half))?;
        let _ = std::fs::remove_file(archive);
    }
    std::fs::rename(&half, into).context(into.display())
}

fn codename() -> Result<String> {
    let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let found = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    found.map(|name| name.trim_matches('"').to_owned()).ok_or_else(|| Error::new("this host has no codename"))
}

/// Whether a release such as `6.1.0-56-amd64` or `6.12.117+deb12-amd64` is an ordinary kernel of a series.
fn is_of_series(release: &str, series: &str) -> bool {
    let Some(rest) = release.strip_prefix(series).and_then(|rest| rest.strip_prefix('.')) else {
        return false;
    };
    let Some(rest) = rest.strip_suffix("-amd64") else { return false };
    rest.starts_with(|digit: char| digit.is_ascii_digit()) && !rest.contains("cloud") && !rest.contains("rt")
}

/// The newest release, by its numbers.
fn newest(releases: impl Iterator<Item = String>) -> Option<String> {
    releases.max_by_key(|release| numbers(release))
}

fn numbers(release: &str) -> Vec<u32> {
    release.split(|digit: char| !digit.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_ordinary_kernel_of_a_series_is_chosen() {
        let all = [
            "6.1.0-9-amd64",
            "6.1.0-56-amd64",
            "6.1.0-57-cloud-amd64",
            "6.1.0-57-amd64-unsigned",
            "6.12.117+deb12-amd64",
            "6.12.43+deb12-amd64",
            "6.12-amd64",
        ];
        let newest_of =
            |series| newest(all.iter().filter(|name| is_of_series(name, series)).map(ToString::to_string));
        assert_eq!(newest_of("6.1").as_deref(), Some("6.1.0-56-amd64"));
        assert_eq!(newest_of("6.12").as_deref(), Some("6.12.117+deb12-amd64"));
        assert_eq!(newest_of("6.18"), None);
    }
}
