//! Topology of this machine in the XML format of hwloc, as a file that ranks can read.
//!
//! Each rank of MPICH detects the topology by itself unless the process manager names a file with it. The
//! ranks of a node would all read the same hundreds of files of the system at the same time.

use pmi_host_hardware::hwloc::HwlocVersion;
use pmi_host_hardware::linux::{LinuxMachine, Wanted};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd;
use std::path::Path;

/// Key under which ranks of MPICH look for the path of the file.
pub(crate) const KEY: &str = "PMI_hwloc_xmlfile";

/// The topology of this machine as a file without a name: ranks open it by its descriptor in this process,
/// and it ends with this process.
#[derive(Debug)]
pub(crate) struct TopologyFile(File);

impl TopologyFile {
    /// Writes the topology, if ranks of this node may use all processors of the machine: those `allowed` to
    /// this process. hwloc omits processors that a control group excludes, so that a rank which finds some
    /// excluded detects the topology by itself.
    pub(crate) fn of_machine(root: &Path, allowed: &[u32]) -> Option<Self> {
        // A machine that the system does not describe is left to the ranks.
        let machine = LinuxMachine::open(root).ok()?;
        if *machine.processors() != allowed.iter().copied().collect() {
            return None;
        }
        let machine = machine.hardware(Wanted::HWLOC);
        Self::with_text(&machine.hwloc(HwlocVersion::V2)).ok()
    }

    fn with_text(text: &str) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let mut file = File::from(memfd_create("topology", flags)?);
        file.write_all(text.as_bytes())?;
        let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        fcntl_add_seals(&file, seals)?;
        Ok(Self(file))
    }

    /// Path of the file for other processes of this user, while this process runs.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_host_hardware::described::{machines, write_tree};
    use pmi_host_hardware::model::NodeHardware;
    use std::fs;

    #[test]
    fn topology_is_that_of_machines_whose_processors_are_all_allowed() {
        for (name, machine) in
            machines().filter(|(name, _)| ["hdk-888", "raspberry-pi"].contains(name))
        {
            let root = tempfile::tempdir().unwrap();
            write_tree(&machine, root.path()).unwrap();
            let mut allowed: Vec<u32> = machine.processors.iter().rev().copied().collect();
            let file = TopologyFile::of_machine(root.path(), &allowed).unwrap();
            let read = NodeHardware::of_hwloc(&fs::read_to_string(file.path()).unwrap()).unwrap();
            assert_eq!(
                (read.cores(), read.memories),
                (machine.cores(), machine.memories),
                "{name}"
            );
            allowed.pop();
            assert!(TopologyFile::of_machine(root.path(), &allowed).is_none(), "{name}");
        }
        assert!(TopologyFile::of_machine(Path::new("/no/such"), &[0]).is_none());
    }

    #[test]
    fn file_can_be_read_by_its_path_and_not_changed() {
        let file = TopologyFile::with_text("<topology/>").unwrap();
        assert_eq!(fs::read_to_string(file.path()).unwrap(), "<topology/>");
        assert!(fs::write(file.path(), "x").is_err());
    }
}
