//! The initramfs of a guest: busybox, two scripts, and the modules of its kernel that the guest needs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rig::{Context, Error, Result, run_tool};

use super::cache::{Cache, Kernel};

const INIT: &str = include_str!("init.sh");
const AGENT: &str = include_str!("agent.sh");

/// What the root of a guest is made of.
const ROOT: [&str; 4] = ["virtio_pci", "9pnet_virtio", "9p", "overlay"];

/// An initramfs, and the modules to load in this order.
pub(super) struct Image {
    pub(super) file: PathBuf,
    pub(super) modules: Vec<String>,
}

/// Makes the image of a guest with these modules in `folder`.
pub(super) fn make(cache: &Cache, kernel: &Kernel, drivers: &[&str], folder: &Path) -> Result<Image> {
    let tree = folder.join("tree");
    for place in ["bin", "modules"] {
        std::fs::create_dir_all(tree.join(place)).context(tree.display())?;
    }
    std::fs::copy(cache.busybox()?, tree.join("bin/busybox")).context("busybox")?;
    std::fs::write(tree.join("init"), INIT).context("init")?;
    std::fs::write(tree.join("agent.sh"), AGENT).context("agent")?;
    run_tool(Command::new("chmod").arg("755").arg(tree.join("init")))?;

    let available = Modules::of(kernel)?;
    let mut modules = Vec::new();
    for name in ROOT.iter().chain(drivers) {
        available.add(name, &tree.join("modules"), &mut modules)?;
    }
    let file = folder.join("initramfs");
    pack(&tree, &file)?;
    Ok(Image { file, modules })
}

/// A newc archive of a tree.
fn pack(tree: &Path, file: &Path) -> Result<()> {
    let out = std::fs::File::create(file).context(file.display())?;
    let status = Command::new("sh")
        .args(["-c", "find . | ./bin/busybox cpio -o -H newc"])
        .current_dir(tree)
        .stdout(out)
        .stderr(Stdio::null())
        .status()
        .context("cpio")?;
    if status.success() { Ok(()) } else { Err(Error::new("cpio failed")) }
}

/// The files of a kernel's modules by their names.
struct Modules(HashMap<String, PathBuf>);

impl Modules {
    fn of(kernel: &Kernel) -> Result<Modules> {
        let places =
            ["lib", "usr/lib"].map(|place| kernel.folder.join(place).join("modules").join(&kernel.release));
        let root = places.iter().find(|place| place.exists());
        let root = root.ok_or_else(|| Error::new(format!("no modules of {}", kernel.release)))?;
        let mut files = HashMap::new();
        let mut left = vec![root.clone()];
        while let Some(folder) = left.pop() {
            for entry in std::fs::read_dir(&folder).context(folder.display())?.flatten() {
                let path = entry.path();
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    left.push(path);
                } else if let Some((name, _)) = entry.file_name().to_string_lossy().split_once(".ko") {
                    files.insert(name.replace('-', "_"), path);
                }
            }
        }
        Ok(Modules(files))
    }

    /// Puts a module behind those that it needs; nothing if the kernel has it built in.
    fn add(&self, name: &str, into: &Path, list: &mut Vec<String>) -> Result<()> {
        let name = name.replace('-', "_");
        let Some(file) = self.0.get(&name) else { return Ok(()) };
        if list.contains(&name) {
            return Ok(());
        }
        let bytes = read(file)?;
        for needed in depends(&bytes) {
            self.add(&needed, into, list)?;
        }
        std::fs::write(into.join(format!("{name}.ko")), bytes).context(&name)?;
        list.push(name);
        Ok(())
    }
}

fn read(file: &Path) -> Result<Vec<u8>> {
    if file.extension().is_some_and(|end| end == "xz") {
        let output = Command::new("xz").arg("-dc").arg(file).output().context("xz")?;
        return if output.status.success() { Ok(output.stdout) } else { Err(Error::new("xz failed")) };
    }
    std::fs::read(file).context(file.display())
}

/// The names that a module's own description says it depends on.
fn depends(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else { return Vec::new() };
    let value = module[at + KEY.len()..].split(|&byte| byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(value);
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_module_needs_is_in_it() {
        assert_eq!(depends(b"\x7fELF\0license=GPL\0depends=netfs,9pnet\0name=9p\0"), ["netfs", "9pnet"]);
        assert!(depends(b"\x7fELF\0depends=\0name=netfs\0").is_empty());
        assert!(depends(b"").is_empty());
    }
}
