//! A kernel of Debian for guests: the image alone. Its package is unpacked and not installed, since it would bring
//! programs that start a machine from disks, and run them.

use crate::machine::Permissions;
use crate::{process, toolchain};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// The package that depends on that of the newest kernel for virtual machines.
pub(crate) const PACKAGE: &str = "linux-image-cloud-amd64";

/// Path of a kernel that is here: of one that was unpacked, or is installed.
pub(crate) fn find() -> Option<PathBuf> {
    newest(&directory()).or_else(|| newest(Path::new("/boot")))
}

/// Gets the package by `apt-get` and keeps its kernel, unless the machine is only looked at. Returns true if there is a
/// kernel now.
pub(crate) fn fetch(permissions: Permissions) -> bool {
    if permissions.is_dry {
        println!("would run: apt-get download {PACKAGE}, and unpack its kernel");
        return false;
    }
    println!("downloading {PACKAGE}, and unpacking its kernel");
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
    fs::create_dir_all(directory()).map_err(io)?;
    let scratch = tempfile::tempdir_in(directory()).map_err(io)?;
    let mut apt = process::command("apt-get");
    process::output(apt.current_dir(&scratch).args(["-qq", "download", package]))?;
    let archive = files(scratch.path()).next().ok_or("apt-get downloads nothing")?;
    process::output(process::command("dpkg-deb").arg("-x").arg(archive).arg(scratch.path()))?;
    let kernel = newest(&scratch.path().join("boot")).ok_or("the package has no kernel")?;
    let kept = directory().join(kernel.file_name().unwrap_or_default());
    fs::rename(&kernel, kept).map_err(io)
}

/// The package with the kernel in the output of `apt-cache depends`.
fn dependency(depends: &str) -> Option<&str> {
    let mut names = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    names.find(|name| name.starts_with("linux-image-"))
}

fn directory() -> PathBuf {
    toolchain::target_directory().join("linux-guest")
}

/// The newest kernel of a directory that can be read.
fn newest(directory: &Path) -> Option<PathBuf> {
    let is_kernel = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name.starts_with("vmlinuz-") && name.ends_with("amd64") && fs::File::open(path).is_ok()
    };
    files(directory).filter(is_kernel).max_by_key(|path| numbers(&path.to_string_lossy()))
}

/// The numbers of a version, in order.
fn numbers(name: &str) -> Vec<u32> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

fn files(directory: &Path) -> impl Iterator<Item = PathBuf> {
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
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(newest(directory.path()), None);
        for name in
            ["vmlinuz-6.1.0-9-cloud-amd64", "vmlinuz-6.1.0-57-cloud-amd64", "config-9-amd64"]
        {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let found = newest(directory.path()).unwrap();
        assert!(found.ends_with("vmlinuz-6.1.0-57-cloud-amd64"));
    }
}
