//! Guests under QEMU whose system is a kernel of Linux and nothing else: the kernel ([`kernel`]), the files
//! that it finds ([`initramfs`]), and the start.

pub(crate) mod initramfs;
pub(crate) mod kernel;

use crate::bare_metal::qemu::Running;
use crate::process;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// A guest: what is started, and on which machine.
pub(crate) struct LinuxGuest<'a> {
    pub(crate) name: &'a str,
    pub(crate) kernel: &'a Path,
    /// The archive of an [`initramfs::Initramfs`]; its `/init` powers the machine off at the end.
    pub(crate) initramfs: &'a Path,
    /// Options of QEMU about processors, memory and devices.
    pub(crate) machine: &'a [String],
}

impl LinuxGuest<'_> {
    /// Runs the guest, and returns the lines of its console, which go to the file `log` as well.
    ///
    /// # Errors
    ///
    /// QEMU fails, or the guest has not powered off at `until`; it is killed then.
    pub(crate) fn run(&self, log: &Path, until: Instant) -> Result<Vec<String>, String> {
        let mut qemu = process::command(QEMU);
        qemu.args(COMMON.split(' ')).args(["-accel", accelerator()]).args(self.machine);
        let console = format!("stdio,id=console,logfile={}", log.display());
        qemu.args(["-chardev", &console, "-serial", "chardev:console"]);
        qemu.arg("-kernel").arg(self.kernel).arg("-initrd").arg(self.initramfs);
        qemu.args(["-append", KERNEL_WORDS]);
        let ended = Running::start(self.name.to_owned(), &mut qemu)?.ends_with(0, until);
        ended.map_err(|why| format!("{why}; its console is in {}", log.display()))
    }
}

/// KVM where it can be used. Inside of a virtual machine its guests are left to a second level of
/// virtualization, which may open and then not run them: there QEMU translates their instructions.
fn accelerator() -> &'static str {
    let is_guest =
        fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| has_flag(&text, "hypervisor"));
    let is_usable = || fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok();
    if !is_guest && is_usable() { "kvm" } else { "tcg,thread=multi" }
}

/// True if the first processor has this flag.
fn has_flag(cpuinfo: &str, flag: &str) -> bool {
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags")?.split_once(':'));
    flags.is_some_and(|(_, flags)| flags.split_whitespace().any(|word| word == flag))
}

const QEMU: &str = "qemu-system-x86_64";

/// The same processor under both accelerators: kernels believe QEMU about hardware threads if it has the
/// name of this maker.
const COMMON: &str =
    "-cpu max,vendor=GenuineIntel -nodefaults -no-user-config -display none -no-reboot";

/// A panic restarts the machine, which ends QEMU; other messages of the kernel would be among those of
/// ranks. Without huge pages each page has the place that the policy of its process says, and without
/// balancing it keeps that place.
const KERNEL_WORDS: &str =
    "console=ttyS0 loglevel=1 panic=-1 transparent_hugepage=never numa_balancing=disable";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_of_virtual_machines_is_found() {
        let text = "processor\t: 0\nflags\t\t: fpu hypervisor lahf_lm\nbugs\t\t: x\n";
        assert!(has_flag(text, "hypervisor"));
        assert!(!has_flag(text, "hyper") && !has_flag("processor: 0\n", "hypervisor"));
    }
}
