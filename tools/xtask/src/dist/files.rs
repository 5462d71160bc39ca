//! THE LIST of what is installed, and where. What is built here is stripped, manual pages are compressed.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rig::{Context, Result};

use super::tool;
use crate::build;

/// Packages of the workspace that are built for it.
pub(super) const PACKAGES: [&str; 7] =
    ["preload", "libsdp", "vma-stats", "sidestep", "sidestepd", "sockperf", "middlebox"];

/// Where the dynamic linker looks for a name without a path.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
const DOCUMENTS: &str = "usr/share/doc/sidestep";
const DESIGN: &str = "usr/share/doc/sidestep/design";
const PICTURES: &str = "usr/share/doc/sidestep/pictures";
const EXAMPLES: &str = "usr/share/doc/sidestep/examples/extra";
const CONTAINERS: &str = "usr/share/doc/sidestep/examples/containers";

/// What becomes of a file on its way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// From cargo's folder, without debugging symbols.
    Library,
    /// The same, executable.
    Program,
    /// From the source, as it is.
    Plain,
    /// From the source, compressed.
    Compressed,
}

/// One file: where it is, where it goes, how.
type Row = (&'static str, &'static str, Way);

const FILES: [Row; 63] = [
    ("libvma.so", LIBRARIES, Way::Library),
    ("libsdp.so", LIBRARIES, Way::Library),
    ("vma_stats", "usr/bin", Way::Program),
    ("sidestep", "usr/bin", Way::Program),
    ("sidestepd", "usr/sbin", Way::Program),
    ("sockperf", "usr/bin", Way::Program),
    ("middlebox", "usr/bin", Way::Program),
    ("conf/libvma.conf", "etc", Way::Plain),
    ("conf/libsdp.conf", "etc", Way::Plain),
    ("include/sdp_socket.h", "usr/include", Way::Plain),
    ("README.md", DOCUMENTS, Way::Plain),
    ("LICENSE-MIT", DOCUMENTS, Way::Plain),
    ("LICENSE-APACHE", DOCUMENTS, Way::Plain),
    ("docs/parameters.md", DOCUMENTS, Way::Plain),
    ("docs/counters.md", DOCUMENTS, Way::Plain),
    ("docs/differences.md", DOCUMENTS, Way::Plain),
    ("docs/monitoring.md", DOCUMENTS, Way::Plain),
    ("docs/security.md", DOCUMENTS, Way::Plain),
    ("docs/programs.md", DOCUMENTS, Way::Plain),
    ("docs/sdp.md", DOCUMENTS, Way::Plain),
    ("docs/start.md", DOCUMENTS, Way::Plain),
    ("docs/install.md", DOCUMENTS, Way::Plain),
    ("docs/doctor.md", DOCUMENTS, Way::Plain),
    ("docs/tuning.md", DOCUMENTS, Way::Plain),
    ("docs/troubleshooting.md", DOCUMENTS, Way::Plain),
    ("docs/extra-api.md", DOCUMENTS, Way::Plain),
    ("docs/keeper.md", DOCUMENTS, Way::Plain),
    ("docs/conformance.md", DOCUMENTS, Way::Plain),
    ("docs/profiles.md", DOCUMENTS, Way::Plain),
    ("docs/sockperf.md", DOCUMENTS, Way::Plain),
    ("docs/vma-compatibility.md", DOCUMENTS, Way::Plain),
    ("docs/design/af-xdp.md", DESIGN, Way::Plain),
    ("docs/design/capture.md", DESIGN, Way::Plain),
    ("docs/design/carriers.md", DESIGN, Way::Plain),
    ("docs/design/fork.md", DESIGN, Way::Plain),
    ("docs/design/interposition.md", DESIGN, Way::Plain),
    ("docs/design/keeper.md", DESIGN, Way::Plain),
    ("docs/design/lanes.md", DESIGN, Way::Plain),
    ("docs/design/logging.md", DESIGN, Way::Plain),
    ("docs/design/memory.md", DESIGN, Way::Plain),
    ("docs/design/sockets.md", DESIGN, Way::Plain),
    ("docs/pictures/capture.svg", PICTURES, Way::Plain),
    ("docs/pictures/top.svg", PICTURES, Way::Plain),
    ("include/mellanox/vma_extra.h", "usr/include/mellanox", Way::Plain),
    ("examples/extra/example.h", EXAMPLES, Way::Plain),
    ("examples/extra/Makefile", EXAMPLES, Way::Plain),
    ("examples/extra/zero_copy.c", EXAMPLES, Way::Plain),
    ("examples/extra/filter.c", EXAMPLES, Way::Plain),
    ("examples/extra/xtreme_echo.c", EXAMPLES, Way::Plain),
    ("examples/containers/Dockerfile", CONTAINERS, Way::Plain),
    ("examples/containers/Dockerfile.redis", CONTAINERS, Way::Plain),
    ("examples/containers/compose.yaml", CONTAINERS, Way::Plain),
    ("examples/containers/pod.yaml", CONTAINERS, Way::Plain),
    ("examples/containers/daemonset.yaml", CONTAINERS, Way::Plain),
    // By the documents that lead to them, too.
    ("docs/doctor.schema.json", DOCUMENTS, Way::Plain),
    ("docs/vma_stats.schema.json", DOCUMENTS, Way::Plain),
    ("docs/doctor.schema.json", "usr/share/sidestep", Way::Plain),
    ("docs/vma_stats.schema.json", "usr/share/sidestep", Way::Plain),
    ("conf/grafana-dashboard.json", "usr/share/sidestep", Way::Plain),
    ("conf/sidestepd.socket", "usr/lib/systemd/system", Way::Plain),
    ("conf/sidestepd.service", "usr/lib/systemd/system", Way::Plain),
    ("conf/sysusers/sidestep.conf", "usr/lib/sysusers.d", Way::Plain),
    ("conf/default/sidestepd", "etc/default", Way::Plain),
];

/// Puts everything into `tree`.
pub(super) fn install(built: &Path, tree: &Path) -> Result<()> {
    let root = build::root();
    for row in &FILES {
        put(&source(row, built, &root), &tree.join(row.1), row.2)?;
    }
    for page in names(&root.join("man"))? {
        let section = page.rsplit('.').next().unwrap_or_default().to_owned();
        let folder = tree.join(format!("usr/share/man/man{section}"));
        put(&root.join("man").join(&page), &folder, Way::Compressed)?;
    }
    completions(built, tree)?;
    let bill = tree.join(DOCUMENTS).join("sbom.cdx.json");
    let parts = crate::check::licences::bill_of_materials(super::version())?;
    std::fs::write(&bill, format!("{parts:#}\n")).context(bill.display())
}

fn source(row: &Row, built: &Path, root: &Path) -> PathBuf {
    match row.2 {
        Way::Library | Way::Program => built.join(row.0),
        Way::Plain | Way::Compressed => root.join(row.0),
    }
}

fn put(from: &Path, folder: &Path, way: Way) -> Result<()> {
    std::fs::create_dir_all(folder).context(folder.display())?;
    let to = folder.join(from.file_name().unwrap_or_default());
    std::fs::copy(from, &to).context(from.display())?;
    let mode = if way == Way::Program { 0o755 } else { 0o644 };
    std::fs::set_permissions(&to, std::fs::Permissions::from_mode(mode)).context(to.display())?;
    match way {
        Way::Library | Way::Program => {
            let words = ["--strip-unneeded", "--remove-section=.comment", "--remove-section=.note"];
            tool(Command::new("strip").args(words).arg(&to))?;
        }
        Way::Compressed => drop(tool(Command::new("gzip").args(["-9n"]).arg(&to))?),
        Way::Plain => {}
    }
    Ok(())
}

/// What a shell completes, as the programs tell it.
fn completions(built: &Path, tree: &Path) -> Result<()> {
    for (shell, path) in [
        ("bash", "usr/share/bash-completion/completions/sidestep"),
        ("zsh", "usr/share/zsh/vendor-completions/_sidestep"),
        ("fish", "usr/share/fish/vendor_completions.d/sidestep.fish"),
    ] {
        let text = tool(Command::new(built.join("sidestep")).args(["completions", shell]))?;
        let path = tree.join(path);
        let folder = path.parent().unwrap_or(tree);
        std::fs::create_dir_all(folder).context(folder.display())?;
        std::fs::write(&path, text).context(path.display())?;
    }
    Ok(())
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).context(folder.display())?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// Libraries and programs of an installed tree.
pub(super) fn programs(tree: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for folder in [LIBRARIES, "usr/bin", "usr/sbin"] {
        let folder = tree.join(folder);
        all.extend(names(&folder)?.into_iter().map(|name| folder.join(name)));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of a link's kind in a text: `](name)` and `](name#part)`.
    fn links(text: &str) -> Vec<&str> {
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        targets.filter(|target| !target.is_empty() && !target.contains("://")).collect()
    }

    #[test]
    fn links_are_found_in_a_text() {
        let text =
            "a [page](one.md), [part](two.md#there), [own](#here), [far](https://example.com/three.md)";
        assert_eq!(links(text), ["one.md", "two.md"]);
    }

    /// Who reads the installed documents comes to installed documents, from where they are installed.
    #[test]
    fn installed_documents_lead_to_installed_documents() {
        let root = build::root();
        let place = |row: &Row| Path::new("/").join(row.1).join(Path::new(row.0).file_name().unwrap());
        let installed: Vec<PathBuf> = FILES.iter().map(place).collect();
        for row in FILES.iter().filter(|row| row.0.ends_with(".md")) {
            let text = std::fs::read_to_string(root.join(row.0)).unwrap();
            for link in links(&text) {
                let to = resolved(&Path::new("/").join(row.1), link, row.0 == "README.md");
                assert!(installed.contains(&to), "{}: {link} is not installed at {}", row.0, to.display());
            }
        }
    }

    /// Where a link leads. The README stands beside the documents here, and above them in the source.
    fn resolved(folder: &Path, link: &str, is_above: bool) -> PathBuf {
        let link = if is_above { link.strip_prefix("docs/").unwrap_or(link) } else { link };
        let mut to = folder.to_owned();
        for part in link.split('/') {
            match part {
                ".." => drop(to.pop()),
                "." => {}
                part => to.push(part),
            }
        }
        to
    }
}
