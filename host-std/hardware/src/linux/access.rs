//! What control groups, containers and the batch system leave of a machine to this process.

use super::SystemFiles;
use super::gpus::NvidiaFacts;
use crate::device::{Device, DeviceKind, GpuMaker};
use crate::model::NodeHardware;
use crate::processor_set::ProcessorSet;
use pmi_host_base::system_file;
use std::io;
use std::path::Path;

/// Processors and memory domains that a process may use: those of its `cpuset`, in either version of control
/// groups, and of the affinity that it inherited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Processors; `None` if the system does not say, as below.
    pub processors: Option<ProcessorSet>,
    /// Memory domains, by their numbers.
    pub memories: Option<ProcessorSet>,
}

impl Allowed {
    /// What this process may use, from one file below `root`.
    pub fn of_self(root: &Path) -> Self {
        let text = SystemFiles { root }.read("proc/self/status").unwrap_or_default();
        let set = |name: &str| {
            let list = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            list.and_then(|list| ProcessorSet::of_list(list).ok()).filter(|set| !set.is_empty())
        };
        Self { processors: set("Cpus_allowed_list"), memories: set("Mems_allowed_list") }
    }
}

/// A device that this process may not use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The device.
    pub device: Device,
    /// Cause, as "/dev/nvidia3 is missing".
    pub why: String,
}

impl NodeHardware {
    /// The hardware within these processors and memory domains.
    #[must_use]
    pub fn within(&self, allowed: &Allowed) -> Self {
        let mut inside = match &allowed.processors {
            Some(processors) => self.restricted(processors),
            None => self.clone(),
        };
        if let Some(memories) = &allowed.memories {
            inside.memories.retain(|memory| memories.contains(&memory.number));
        }
        inside
    }

    /// Removes the GPUs whose device files a container lacks, or a control group or their mode refuses, and
    /// returns them. Devices without such files stay.
    ///
    /// A file is opened without waiting, and closed: this alone shows what a control group of version 2
    /// refuses. The driver of NVIDIA starts a GPU that nothing uses in the background then, and this does not
    /// wait for it.
    pub fn leave_out_refused(&mut self, root: &Path) -> Vec<LeftOut> {
        let mut left_out = Vec::new();
        let mut devices = std::mem::take(&mut self.devices);
        devices.retain(|device| match refusal(device, root) {
            None => true,
            Some(why) => {
                left_out.push(LeftOut { device: device.clone(), why });
                false
            }
        });
        self.devices = devices;
        left_out
    }
}

/// Why this process may not use a device.
fn refusal(device: &Device, root: &Path) -> Option<String> {
    let DeviceKind::Gpu(maker) = device.kind else { return None };
    let render = device.names.iter().find(|name| name.starts_with("renderD"));
    let file = match nvidia_minor(device, maker, root) {
        Some(minor) => format!("dev/nvidia{minor}"),
        None => match render {
            Some(name) => format!("dev/dri/{name}"),
            None if device.names.is_empty() => return Some("no driver offers it here".to_owned()),
            None => return None,
        },
    };
    match system_file::try_device(root.join(&file)) {
        Ok(()) => None,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Some(format!("/{file} is missing"))
        }
        Err(error) => Some(format!("/{file} cannot be opened ({error})")),
    }
}

fn nvidia_minor(device: &Device, maker: GpuMaker, root: &Path) -> Option<u32> {
    let address = device.pci.as_ref().filter(|_| maker == GpuMaker::Nvidia)?.address;
    NvidiaFacts::read(&SystemFiles { root }, &address.to_string())?.minor
}

#[cfg(test)]
mod tests {
    use super::super::tests::{set, tree};
    use super::*;
    use crate::device::{Fabric, PciFacts};
    use crate::model::{Memory, MemoryKind};

    #[test]
    fn allowed_processors_and_domains_are_those_of_the_process() {
        let text = "Name:\tx\nCpus_allowed:\tf0\nCpus_allowed_list:\t4-7\nMems_allowed_list:\t1\n";
        let root = tree(&[("proc/self/status", text)]);
        let allowed = Allowed::of_self(root.path());
        assert_eq!(allowed, Allowed { processors: Some(set("4-7")), memories: Some(set("1")) });
        let memory =
            |number, near| Memory { number, near: set(near), bytes: None, kind: MemoryKind::Main };
        let all = NodeHardware {
            processors: set("0-7"),
            memories: vec![memory(0, "0-3"), memory(1, "2-7")],
            ..NodeHardware::default()
        };
        let inside = all.within(&allowed);
        assert_eq!((inside.processors, inside.memories), (set("4-7"), vec![memory(1, "4-7")]));
        let unknown = Allowed::of_self(Path::new("/no/such"));
        assert_eq!((all.within(&unknown), unknown), (all, Allowed::default()));
    }

    #[test]
    fn gpus_without_a_device_file_are_left_out() {
        let device = |kind, slot, names: &[&str]| Device {
            kind,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            uuid: None,
            pci: Some(PciFacts {
                address: format!("0000:01:0{slot}.0").parse().unwrap(),
                class: 0x0302,
                vendor: 0,
                device: 0,
                bridges: Vec::new(),
            }),
            near: ProcessorSet::default(),
            memory: None,
            addresses: Vec::new(),
            parts: Vec::new(),
        };
        let gpu = |slot, names: &[&str]| device(DeviceKind::Gpu(GpuMaker::Nvidia), slot, names);
        let minor = |slot| format!("proc/driver/nvidia/gpus/0000:01:0{slot}.0/information");
        let minors = [minor(0), minor(1), minor(2)];
        // A link to itself stands for a file that cannot be opened.
        let root = tree(&[
            ("dev/nvidia0", ""),
            ("dev/nvidia2", "-> nvidia2"),
            ("dev/dri/renderD129", ""),
            (&minors[0], "Device Minor: \t 0\n"),
            (&minors[1], "Device Minor: \t 1\n"),
            (&minors[2], "Device Minor: \t 2\n"),
        ]);
        let mut all = NodeHardware {
            devices: vec![
                gpu(0, &["card0", "renderD128"]),
                gpu(1, &["card1"]),
                gpu(2, &[]),
                gpu(3, &[]),
                gpu(4, &["card4", "renderD129"]),
                gpu(5, &["card5", "renderD130"]),
                gpu(6, &["card6"]),
                device(DeviceKind::Network(Fabric::Ethernet), 7, &[]),
            ],
            ..NodeHardware::default()
        };
        let left_out = all.leave_out_refused(root.path());
        let left: Vec<String> = all.devices.iter().map(Device::name).collect();
        assert_eq!(left, ["card0", "card4", "card6", "0000:01:07.0"]);
        let causes: Vec<&str> = left_out.iter().map(|one| one.why.as_str()).collect();
        assert_eq!(causes[0], "/dev/nvidia1 is missing");
        assert!(causes[1].starts_with("/dev/nvidia2 cannot be opened ("), "{causes:?}");
        assert_eq!(causes[2..], ["no driver offers it here", "/dev/dri/renderD130 is missing"]);
    }
}
