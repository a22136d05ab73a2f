//! `pmi-host topology`: the hardware of this machine, or of one that a file describes.

use crate::cli::explain;
use clap::{Arg, Command};
use pmi_host_base::exit::{FAILED, complain, line, print, refuse, shown};
use pmi_host_base::usage::UsageError;
use pmi_host_base::user_file;
use pmi_host_hardware::device::{DeviceKind, GpuMaker};
use pmi_host_hardware::hwloc::{HwlocVersion, limits};
use pmi_host_hardware::linux::{Allowed, Wanted};
use pmi_host_hardware::model::NodeHardware;
use pmi_host_hardware::nvidia_smi;
use pmi_host_hardware::visible::GpuChoice;
use pmi_host_os::command_output::output_within;
use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode, Stdio};
use std::time::Duration;

/// Command line of `topology`.
pub(super) fn define() -> Command {
    Command::new("topology")
        .about("Show packages, caches, cores, memory and devices of this machine")
        .arg(
            Arg::new(FILE)
                .long(FILE)
                .value_name("FILE")
                .value_parser(clap::value_parser!(PathBuf))
                .value_hint(clap::ValueHint::FilePath)
                .help("show the machine that this XML of hwloc describes, as 'lstopo --of xml' writes it"),
        )
        .arg(
            Arg::new(FORM)
                .long(FORM)
                .value_name("FORM")
                .value_parser([CONSOLE, XML, XML_1])
                .default_value(CONSOLE)
                .hide_possible_values(true)
                .help("form: text as of lstopo (console), XML of hwloc 2 (xml) or 1 (xml1)"),
        )
}

/// Prints the hardware, and on standard error what is missing and why. Returns the exit code: 2 if the file
/// describes no machine.
pub(super) fn run(words: Vec<OsString>) -> ExitCode {
    let matches = match explain::parse(define(), words) {
        Ok(matches) => matches,
        Err(code) => return code,
    };
    let known = match matches.get_one::<PathBuf>(FILE) {
        Some(file) => match of_file(file) {
            Ok(hardware) => Known { hardware, ..Known::default() },
            Err(why) => {
                let given = format!("--{FILE} {}", file.display());
                return refuse(&UsageError::Value { given, why });
            }
        },
        None => match of_this_machine() {
            Ok(known) => known,
            Err(why) => return complain(&why, FAILED),
        },
    };
    let printed = match matches.get_one::<String>(FORM).map(String::as_str) {
        Some(XML) => print(&known.hardware.hwloc(HwlocVersion::V2)),
        Some(XML_1) => print(&known.hardware.hwloc(HwlocVersion::V1)),
        _ => print(&known.hardware.console()),
    };
    let missing: String = known.missing.iter().map(line).collect();
    let _ = io::stderr().write_all(shown(&missing).as_bytes());
    printed
}

/// Hardware, and what is not known of it.
#[derive(Default)]
struct Known {
    hardware: NodeHardware,
    /// Sentences.
    missing: Vec<String>,
}

fn of_file(file: &Path) -> Result<NodeHardware, String> {
    let read = || {
        let mut text = String::new();
        let limit = u64::try_from(limits::BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
        user_file::open_regular(file)?.take(limit).read_to_string(&mut text)?;
        Ok::<_, io::Error>(text)
    };
    let text = read().map_err(|error| format!("it cannot be read ({error})"))?;
    NodeHardware::of_hwloc(&text).map_err(|error| format!("it describes no machine ({error})"))
}

fn of_this_machine() -> Result<Known, String> {
    let root = Path::new("/");
    let all = NodeHardware::of_linux(root, Wanted::ALL).map_err(|error| error.to_string())?;
    let mut missing = Vec::new();
    let mut hardware = all.within(&Allowed::of_self(root));
    missing.extend(restricted(&all, &hardware));
    if hardware.groups.is_empty() {
        missing.push("the system lists neither packages nor cores nor caches".to_owned());
    }
    if all.memories.is_empty() {
        missing.push("the system lists no memory domains".to_owned());
    }
    if !root.join(PCI).exists() {
        missing.push(format!("there is no '/{PCI}', and so no device"));
    }
    let left_out = hardware.leave_out_refused(root);
    missing.extend(
        left_out.iter().map(|one| format!("{} is left out: {}", one.device.name(), one.why)),
    );
    for ChoiceVariable { name, choice } in CHOICES {
        if let Ok(value) = std::env::var(name) {
            let before = hardware.devices.len();
            hardware.leave_out_unchosen(choice(&value));
            let count = before - hardware.devices.len();
            if count > 0 {
                missing.push(format!("{name}={value} leaves out {}", counted(count, "GPU")));
            }
        }
    }
    let of_nvidia = DeviceKind::Gpu(GpuMaker::Nvidia);
    if hardware.devices.iter().any(|device| device.kind == of_nvidia) {
        let mut listed = Vec::new();
        match helper(&["-L"]) {
            Ok(text) => {
                listed = nvidia_smi::listed(&text);
                hardware.add_listed(&listed);
            }
            Err(why) => missing.push(format!("MIG instances are not known: {why}")),
        }
        match helper(&["topo", "-m"]) {
            Ok(text) => hardware.add_joined(&nvidia_smi::joined(&text), &listed),
            Err(why) => missing.push(format!("connections by NVLink are not known: {why}")),
        }
    }
    Ok(Known { hardware, missing })
}

/// What a control group or the affinity leaves out.
fn restricted(all: &NodeHardware, left: &NodeHardware) -> Vec<String> {
    let mut sentences = Vec::new();
    let without = all.processors.without(&left.processors);
    if !without.is_empty() {
        let cause = "the control group, or the affinity";
        sentences.push(format!("processors {without} are left out by {cause}"));
    }
    let is_left = |number| left.memories.iter().any(|memory| memory.number == number);
    let numbers = all.memories.iter().map(|memory| memory.number);
    for number in numbers.filter(|number| !is_left(*number)) {
        sentences.push(format!("memory domain {number} is left out by the control group"));
    }
    sentences
}

/// Output of the helper of NVIDIA.
fn helper(words: &[&str]) -> Result<String, String> {
    let mut command = process::Command::new(HELPER);
    command.args(words).stderr(Stdio::null());
    let called = format!("'{HELPER} {}'", words.join(" "));
    match output_within(&mut command, HELPER_LIMIT) {
        Ok(Some(output)) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(Some(output)) => Err(format!("{called} failed ({})", output.status)),
        Ok(None) => Err(format!("{called} took more than 1 s")),
        Err(error) => Err(format!("{called} cannot be started ({error})")),
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A variable that chooses GPUs.
struct ChoiceVariable {
    name: &'static str,
    choice: fn(&str) -> GpuChoice<'_>,
}

/// Variables in the order in which libraries apply them.
const CHOICES: [ChoiceVariable; 4] = [
    ChoiceVariable { name: "CUDA_VISIBLE_DEVICES", choice: |list| GpuChoice::Cuda(list) },
    ChoiceVariable { name: "ROCR_VISIBLE_DEVICES", choice: |list| GpuChoice::Rocm(list) },
    ChoiceVariable { name: "HIP_VISIBLE_DEVICES", choice: |list| GpuChoice::Rocm(list) },
    ChoiceVariable { name: "ZE_AFFINITY_MASK", choice: level_zero },
];

fn level_zero(mask: &str) -> GpuChoice<'_> {
    match std::env::var("ZE_FLAT_DEVICE_HIERARCHY").as_deref() {
        Ok("COMPOSITE") => GpuChoice::LevelZeroComposite(mask),
        _ => GpuChoice::LevelZeroFlat(mask),
    }
}

const HELPER: &str = "nvidia-smi";

/// The helper starts the driver where nothing else uses it, which takes longer: then GPUs are known by their
/// addresses alone.
const HELPER_LIMIT: Duration = Duration::from_secs(1);

const PCI: &str = "sys/bus/pci/devices";

const FILE: &str = "topology";
const FORM: &str = "of";
const CONSOLE: &str = "console";
const XML: &str = "xml";
const XML_1: &str = "xml1";
