//! `cargo x dist`: what is installed, as a tarball and as a Debian package.
//!
//! [`files`] is the only list of what goes where. Both archives have the same tree, with the times of the last commit,
//! so that the same commit gives the same bytes. dpkg-deb makes the package; `packaging/debian` has what only Debian
//! asks for.

mod debian;
mod files;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use rig::{Context, Error, Package, Result};

use crate::arguments::Arguments;
use crate::build;

/// What makes the package, of what a host with a C compiler may lack.
const PACKAGES: [Package; 4] = [
    Package { program: "dpkg-shlibdeps", package: "dpkg-dev" },
    Package { program: "strip", package: "binutils" },
    Package { program: "xz", package: "xz-utils" },
    Package { program: "lintian", package: "lintian" },
];

pub(crate) fn run(words: &[String]) -> Result<ExitCode> {
    let mut arguments = Arguments::new(words);
    let target = arguments.value("--target")?;
    arguments.end()?;
    rig::install(&PACKAGES)?;
    let built = build_all(target.as_deref())?;
    let out = build::target().join("dist");
    let tree = out.join("tree");
    let _ = std::fs::remove_dir_all(&out);
    std::fs::create_dir_all(&tree).context(tree.display())?;
    files::install(&built, &tree)?;
    let asked = Asked::by(&tree)?;
    if let Some(name) = asked.of_nobody.first() {
        return Err(Error::new(format!(
            "{name}: no library that it is linked with has it, so it would not start"
        )));
    }
    let epoch = commit_time()?;
    let package = debian::package(&tree, &out, &epoch, &asked.glibc)?;
    debian::check(&package)?;
    for archive in [tarball(&tree, &out, &epoch)?, package] {
        let size = std::fs::metadata(&archive).map_or(0, |data| data.len());
        println!("{} ({} KiB)", archive.display(), size >> 10);
    }
    println!("needs glibc {} or later", asked.glibc);
    Ok(ExitCode::SUCCESS)
}

/// The version of all packages.
pub(crate) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Builds what is installed; the folder that it is in. With `--target x86_64-unknown-linux-gnu.2.28` cargo-zigbuild
/// builds it for an older glibc than this host's.
fn build_all(target: Option<&str>) -> Result<PathBuf> {
    let packages = files::PACKAGES.map(|package| format!("-p {package}")).join(" ");
    match target {
        None => {
            build::run_cargo(&format!("build --quiet --release {packages}"))?;
            Ok(build::target().join("release"))
        }
        Some(target) => {
            let triple = target.split('.').next().unwrap_or(target);
            let unwinder = the_systems_unwinder()?;
            let config = format!(
                "--config target.{triple}.rustflags=[\"-Lnative={}\",\"-ldylib:+verbatim={UNWINDER}\",{LEAVE_ITS_SYMBOLS}]",
                unwinder.display()
            );
            build::run_cargo(&format!("zigbuild --quiet --release --target {target} {config} {packages}"))?;
            Ok(build::target().join(triple).join("release"))
        }
    }
}

/// The shared library that unwinds stacks, by the name that every distribution has it by.
const UNWINDER: &str = "libgcc_s.so.1";

/// It asks the C library of this host for more than the older one has; the one of the target will not.
const LEAVE_ITS_SYMBOLS: &str = "\"-Clink-arg=-Wl,--allow-shlib-undefined\"";

/// A folder with this host's [`UNWINDER`] alone, for zig to link with. Left to itself it links an unwinder of its own
/// into libvma.so; when the C library then unwinds a cancelled thread through our frames, two unwinders misread each
/// other's state.
fn the_systems_unwinder() -> Result<PathBuf> {
    let found = tool(Command::new("cc").arg(format!("-print-file-name={UNWINDER}")))?;
    let folder = build::target().join("unwinder");
    std::fs::create_dir_all(&folder).context(folder.display())?;
    std::fs::copy(found.trim(), folder.join(UNWINDER)).context(found.trim())?;
    Ok(folder)
}

/// Seconds since 1970 of the last commit.
fn commit_time() -> Result<String> {
    let words = ["log", "-1", "--format=%ct"];
    let text = tool(Command::new("git").current_dir(build::root()).args(words))?;
    Ok(text.trim().to_owned())
}

/// Files alone, each with its mode: folders of a host that are in the archive would get those that it has, and a link
/// that stands for one (/usr/sbin of Arch and Fedora) would be replaced.
const PACK: &str = "find . -type f -print0 | LC_ALL=C sort -z | tar --null --no-recursion --files-from=- \
                    --mode=u+rw,go+r,go-w,a-st --owner=0 --group=0 --numeric-owner --mtime=\"@$0\" \
                    --transform=\"s,^\\.,$1,\" -czf \"$2\"";

fn tarball(tree: &Path, out: &Path, epoch: &str) -> Result<PathBuf> {
    let name = format!("sidestep-{}-x86_64-linux", version());
    let path = out.join(format!("{name}.tar.gz"));
    let path = std::path::absolute(&path).context(path.display())?;
    tool(Command::new("sh").current_dir(tree).args(["-ec", PACK, epoch, &name]).arg(&path))?;
    Ok(path)
}

/// What is asked of the C library that it will meet.
struct Asked {
    /// The newest version of glibc whose symbols something asks for.
    glibc: String,
    /// Symbols that something cannot do without and no library promised at the build, each with its file.
    of_nobody: Vec<String>,
}

impl Asked {
    fn by(tree: &Path) -> Result<Asked> {
        let (mut newest, mut of_nobody) = (vec![0], Vec::new());
        for path in files::programs(tree)? {
            for symbol in
                tool(Command::new("objdump").arg("-T").arg(&path))?.lines().filter_map(Symbol::undefined)
            {
                match symbol.version {
                    Some(version) => newest = newest.max(glibc(version)),
                    None if symbol.is_weak => {}
                    None => of_nobody.push(format!("{}: {}", path.display(), symbol.name)),
                }
            }
        }
        Ok(Asked { glibc: newest.iter().map(u32::to_string).collect::<Vec<_>>().join("."), of_nobody })
    }
}

/// `GLIBC_2.28` as numbers; nothing of other libraries' versions.
fn glibc(version: &str) -> Vec<u32> {
    let numbers = version.strip_prefix("GLIBC_").unwrap_or_default();
    numbers.split('.').map_while(|part| part.parse().ok()).collect()
}

/// A symbol that somebody else has to have.
struct Symbol<'a> {
    name: &'a str,
    version: Option<&'a str>,
    /// It may be missing.
    is_weak: bool,
}

impl Symbol<'_> {
    /// Of a line of `objdump -T`: value, flags, `*UND*`, size, the version in parentheses, name.
    fn undefined(line: &str) -> Option<Symbol<'_>> {
        let (flags, rest) = line.split_once("*UND*")?;
        let mut words = rest.split_whitespace().rev();
        let name = words.next()?;
        let version = words.next().and_then(|word| word.strip_prefix('(')?.strip_suffix(')'));
        Some(Symbol { name, version, is_weak: flags.split_whitespace().any(|flag| flag == "w") })
    }
}

/// Runs a tool to its end; what it printed.
fn tool(command: &mut Command) -> Result<String> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let output = command.output().context(&shown)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Error::new(format!("{shown}: {}", String::from_utf8_lossy(&output.stderr))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_asks_for_is_read_with_its_version() {
        let read = |line| Symbol::undefined(line).map(|symbol| (symbol.name, symbol.version, symbol.is_weak));
        let versioned = "0000000000000000      DF *UND*	0000000000000000 (GLIBC_2.2.5) realloc";
        assert_eq!(read(versioned), Some(("realloc", Some("GLIBC_2.2.5"), false)));
        let of_nobody = "0000000000000000      D  *UND*	0000000000000000              gettid";
        assert_eq!(read(of_nobody), Some(("gettid", None, false)));
        let weak = "0000000000000000  w   D  *UND*	0000000000000000              __gmon_start__";
        assert_eq!(read(weak), Some(("__gmon_start__", None, true)));
        assert_eq!(read("00000000000aefb0 g    DF .text	0000000000000187  Base        sendfile"), None);
    }

    /// As docs/install.md says it, over a host whose usr/sbin is a link, and whose folders have modes of their own.
    #[test]
    fn the_tarball_leaves_links_and_folders_of_the_host_as_they_are() {
        use std::os::unix::fs::PermissionsExt;
        let folder = std::env::temp_dir().join(format!("xtask-tarball-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let (tree, host) = (folder.join("tree"), folder.join("host"));
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        for (name, bits) in [("usr/sbin/sidestepd", 0o775), ("usr/share/doc/page", 0o600), ("etc/new", 0o666)]
        {
            let path = tree.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, name).unwrap();
            mode(&path, bits);
        }
        std::fs::create_dir_all(host.join("usr/bin")).unwrap();
        std::fs::create_dir_all(host.join("usr/share")).unwrap();
        std::os::unix::fs::symlink("bin", host.join("usr/sbin")).unwrap();
        mode(&host.join("usr/share"), 0o711);
        let archive = tarball(&tree, &folder, "1000").unwrap();
        let page = std::fs::read_to_string(build::root().join("docs/install.md")).unwrap();
        let line = page.lines().find(|line| line.contains("tar -xzf")).unwrap();
        let words = line.split("&&").next().unwrap().replace("-C /", &format!("-C {}", host.display()));
        let words = words.replace("sidestep-*-x86_64-linux.tar.gz", &archive.to_string_lossy());
        tool(Command::new("sh").args(["-c", &format!("umask 022; {words}")])).unwrap();
        assert!(host.join("usr/sbin").is_symlink() && host.join("usr/bin/sidestepd").is_file());
        let bits = |name: &str| std::fs::metadata(host.join(name)).unwrap().permissions().mode() & 0o7777;
        assert_eq!((bits("usr/share"), bits("usr/bin/sidestepd")), (0o711, 0o755));
        assert_eq!((bits("usr/share/doc/page"), bits("etc/new")), (0o644, 0o644));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn versions_of_glibc_are_compared_as_numbers() {
        assert!(glibc("GLIBC_2.4") < glibc("GLIBC_2.28") && glibc("GLIBC_2.2.5") < glibc("GLIBC_2.3"));
        assert_eq!(glibc("GCC_3.0"), Vec::<u32>::new());
    }
}
