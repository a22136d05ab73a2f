//! A kernel of Debian for guests, with its modules. Its package is unpacked and not installed, since it
//! would bring programs that start a machine from disks, and run them.

use crate::machine::Permissions;
use crate::{process, toolchain};
use std::fs;
use std::path::{Path, PathBuf};

/// The package that depends on that of the newest kernel for virtual machines.
pub(crate) const PACKAGE: &str = "linux-image-cloud-amd64";

/// Modules for a network card of virtio, each behind those that it needs.
pub(crate) const NETWORK: &[&str] = &[
    "kernel/drivers/virtio/virtio_ring.ko",
    "kernel/drivers/virtio/virtio.ko",
    "kernel/drivers/virtio/virtio_pci_modern_dev.ko",
    "kernel/drivers/virtio/virtio_pci_legacy_dev.ko",
    "kernel/drivers/virtio/virtio_pci.ko",
    "kernel/net/core/failover.ko",
    "kernel/drivers/net/net_failover.ko",
    "kernel/drivers/net/virtio_net.ko",
];

/// A kernel that is here.
pub(crate) struct Kernel {
    pub(crate) image: PathBuf,
    /// The directory with its modules.
    pub(crate) modules: PathBuf,
}

impl Kernel {
    /// That of an unpacked package, or one that is installed.
    pub(crate) fn find() -> Option<Self> {
        [&unpacked(), Path::new("/")].into_iter().find_map(Self::newest)
    }

    /// The newest kernel for virtual machines below a root directory.
    fn newest(root: &Path) -> Option<Self> {
        let kernels = files(&root.join("boot")).filter_map(|image| {
            let version = image.file_name()?.to_str()?.strip_prefix("vmlinuz-")?.to_owned();
            let is_readable = version.ends_with("-cloud-amd64") && fs::File::open(&image).is_ok();
            let modules = root.join("lib/modules").join(&version);
            is_readable.then_some((numbers(&version), Self { image, modules }))
        });
        kernels.max_by(|(one, _), (other, _)| one.cmp(other)).map(|(_, kernel)| kernel)
    }
}

/// Gets the package by `apt-get` and unpacks it, unless the machine is only looked at. Returns true if
/// there is a kernel now.
pub(crate) fn fetch(permissions: Permissions) -> bool {
    if permissions.is_dry {
        println!("would run: apt-get download {PACKAGE}, and unpack it");
        return false;
    }
    println!("downloading and unpacking {PACKAGE}");
    let downloaded = download().or_else(|why| {
        // The list of packages may be older than the archive. Only root can renew it.
        process::output(process::command("apt-get").arg("update")).map_err(|_| why)?;
        download()
    });
    if let Err(why) = &downloaded {
        println!("not downloaded: {}", why.lines().last().unwrap_or_default());
    }
    downloaded.is_ok()
}

fn download() -> Result<(), String> {
    let depends = process::output(process::command("apt-cache").args(["depends", PACKAGE]))?;
    let package = dependency(&depends).ok_or_else(|| format!("{PACKAGE} is in no archive"))?;
    let io = |error: std::io::Error| error.to_string();
    let unpacked = unpacked();
    let parent = unpacked.parent().unwrap_or(&unpacked);
    fs::create_dir_all(parent).map_err(io)?;
    let scratch = tempfile::tempdir_in(parent).map_err(io)?;
    let mut apt = process::command("apt-get");
    process::output(apt.current_dir(&scratch).args(["-qq", "download", package]))?;
    let archive = files(scratch.path()).next().ok_or("apt-get downloads nothing")?;
    let root = scratch.path().join("root");
    process::output(process::command("dpkg-deb").arg("-x").arg(archive).arg(&root))?;
    // Whole or not at all; a former attempt has left no kernel there.
    let _ = fs::remove_dir_all(&unpacked);
    fs::rename(&root, &unpacked).map_err(io)
}

/// The package with the kernel in the output of `apt-cache depends`.
fn dependency(depends: &str) -> Option<&str> {
    let mut names = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    names.find(|name| name.starts_with("linux-image-"))
}

/// Root directory of the unpacked package.
fn unpacked() -> PathBuf {
    toolchain::target_directory().join("linux-guest/debian")
}

/// The numbers of a version, in order.
fn numbers(name: &str) -> Vec<u32> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

fn files(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_of_the_kernel_is_that_on_which_the_newest_depends() {
        let depends = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-57-cloud-amd64\n";
        assert_eq!(dependency(depends), Some("linux-image-6.1.0-57-cloud-amd64"));
        assert_eq!(dependency("linux-image-cloud-amd64\n"), None);
    }

    #[test]
    fn newest_kernel_is_that_with_the_highest_numbers() {
        let root = tempfile::tempdir().unwrap();
        assert!(Kernel::newest(root.path()).is_none());
        fs::create_dir(root.path().join("boot")).unwrap();
        for name in
            ["vmlinuz-6.1.0-9-cloud-amd64", "vmlinuz-6.1.0-57-cloud-amd64", "config-7-cloud-amd64"]
        {
            fs::write(root.path().join("boot").join(name), "").unwrap();
        }
        let found = Kernel::newest(root.path()).unwrap();
        assert!(found.image.ends_with("boot/vmlinuz-6.1.0-57-cloud-amd64"));
        assert!(found.modules.ends_with("lib/modules/6.1.0-57-cloud-amd64"));
    }
}
