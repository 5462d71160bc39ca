//! The Debian package: the installed tree, and the few files that dpkg asks for.

use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rig::{Context, Error, Result};

use super::{files, tool, version};
use crate::build;

/// The package's revision of the version.
const REVISION: &str = "1";

/// Makes the package in `out`.
pub(super) fn package(tree: &Path, out: &Path, epoch: &str, glibc: &str) -> Result<PathBuf> {
    let stage = out.join("deb");
    tool(Command::new("cp").arg("-a").arg(tree).arg(&stage))?;
    let own = build::root().join("packaging/debian");
    let documents = stage.join("usr/share/doc/sidestep");
    copy(&own.join("copyright"), &documents.join("copyright"), 0o644)?;
    // Debian's copyright file has both licences; the plain files are the tarball's.
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let _ = std::fs::remove_file(documents.join(licence));
    }
    write(&documents.join("changelog.Debian"), &changelog(epoch)?)?;
    copy(&build::root().join("CHANGELOG.md"), &documents.join("changelog"), 0o644)?;
    for name in ["changelog.Debian", "changelog"] {
        tool(Command::new("gzip").arg("-9n").arg(documents.join(name)))?;
    }
    copy(&own.join("lintian-overrides"), &stage.join("usr/share/lintian/overrides/sidestep"), 0o644)?;

    let control = stage.join("DEBIAN");
    for script in ["postinst", "prerm", "postrm"] {
        copy(&own.join(script), &control.join(script), 0o755)?;
    }
    copy(&own.join("triggers"), &control.join("triggers"), 0o644)?;
    write(&control.join("conffiles"), &conffiles(&stage)?)?;
    write(&control.join("control"), &control_file(&stage, out, glibc)?)?;
    write(&control.join("md5sums"), &md5sums(&stage)?)?;

    let path = out.join(format!("sidestep_{}-{REVISION}_amd64.deb", version()));
    let words = ["--root-owner-group", "-Zxz", "--build"];
    tool(Command::new("dpkg-deb").env("SOURCE_DATE_EPOCH", epoch).args(words).arg(&stage).arg(&path))?;
    std::fs::remove_dir_all(&stage).context(stage.display())?;
    Ok(path)
}

/// Debian's own check finds nothing, down to what it only informs of; `lintian-overrides` has the exceptions.
pub(super) fn check(package: &Path) -> Result<()> {
    let words = ["--display-info", "--fail-on", "error,warning,info"];
    let output = Command::new("lintian").args(words).arg(package).output().context("lintian")?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::new(format!("lintian:\n{}", String::from_utf8_lossy(&output.stdout))))
}

fn control_file(stage: &Path, out: &Path, glibc: &str) -> Result<String> {
    let template =
        std::fs::read_to_string(build::root().join("packaging/debian/control")).context("control")?;
    let size = tool(Command::new("du").arg("-sk").arg(stage.join("usr")))?;
    let size = size.split_whitespace().next().unwrap_or("0").to_owned();
    let values = [
        ("@VERSION@", format!("{}-{REVISION}", version())),
        ("@SIZE@", size),
        ("@DEPENDS@", dependencies(stage, out, glibc)?),
    ];
    Ok(values.iter().fold(template, |text, (name, value)| text.replace(name, value)))
}

/// The libraries that ours are linked against, by Debian's names and versions.
fn dependencies(stage: &Path, out: &Path, glibc: &str) -> Result<String> {
    // The tool wants to stand in a source package.
    let place = out.join("shlibdeps");
    write(&place.join("debian/control"), "Source: sidestep\n\nPackage: sidestep\nArchitecture: amd64\n")?;
    let words = ["-O", "--ignore-missing-info", "-xsidestep"];
    let text =
        tool(Command::new("dpkg-shlibdeps").current_dir(&place).args(words).args(files::programs(stage)?))?;
    std::fs::remove_dir_all(&place).context(place.display())?;
    let depends = text.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    let depends = depends.ok_or_else(|| Error::new(format!("dpkg-shlibdeps said: {text}")))?;
    Ok(for_glibc(depends, glibc))
}

/// With the C library that the files ask for. dpkg-shlibdeps knows this host's alone, and takes what older ones have in
/// libpthread and libdl for new in libc.
fn for_glibc(depends: &str, glibc: &str) -> String {
    let one = |part: &str| match part.split_once(' ') {
        Some(("libc6", _)) => format!("libc6 (>= {glibc})"),
        _ => part.to_owned(),
    };
    depends.split(", ").map(one).collect::<Vec<_>>().join(", ")
}

fn conffiles(stage: &Path) -> Result<String> {
    tool(
        Command::new("sh")
            .current_dir(stage)
            .args(["-c", "find etc -type f -printf '/%p\\n' | LC_ALL=C sort"]),
    )
}

fn md5sums(stage: &Path) -> Result<String> {
    let script = "find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum";
    tool(Command::new("sh").current_dir(stage).args(["-c", script]))
}

fn changelog(epoch: &str) -> Result<String> {
    let date = tool(Command::new("date").env("LC_ALL", "C").args(["-u", "-R", "-d", &format!("@{epoch}")]))?;
    let control =
        std::fs::read_to_string(build::root().join("packaging/debian/control")).context("control")?;
    let maintainer = control.lines().find_map(|line| line.strip_prefix("Maintainer: ")).unwrap_or_default();
    let mut text = String::new();
    let _ = write!(
        text,
        "sidestep ({}-{REVISION}) unstable; urgency=medium\n\n  * Version {}; changelog.gz has what is new.\n\n -- {maintainer}  {}",
        version(),
        version(),
        date
    );
    Ok(text)
}

fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).context(folder.display())?;
    std::fs::write(path, text).context(path.display())
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let text = std::fs::read_to_string(from).context(from.display())?;
    write(to, &text)?;
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(mode)).context(to.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_that_a_package_depends_on_is_the_one_that_its_files_ask_for() {
        let depends = "libc6 (>= 2.34), libgcc-s1 (>= 4.2)";
        assert_eq!(for_glibc(depends, "2.28"), "libc6 (>= 2.28), libgcc-s1 (>= 4.2)");
    }
}
