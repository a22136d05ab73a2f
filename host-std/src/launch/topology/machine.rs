//! Hardware of this machine as ranks may use it, or of one that a file describes.

use pmi_host_base::user_file;
use pmi_host_hardware::device::{Device, DeviceKind, GpuMaker, PartKind};
use pmi_host_hardware::hwloc::limits;
use pmi_host_hardware::linux::{Allowed, LinuxMachine, Wanted};
use pmi_host_hardware::model::NodeHardware;
use pmi_host_hardware::nvidia_smi;
use pmi_host_hardware::processor_set::ProcessorSet;
use pmi_host_hardware::visible::Restriction;
use pmi_host_os::command_output::output_within;
use std::path::Path;
use std::process::{self, Stdio};
use std::time::Duration;

/// Value of a variable, as ranks would have it.
pub(crate) type VariableOf<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Hardware, and what is not known of it or left out.
#[derive(Default)]
pub(crate) struct KnownHardware {
    /// The hardware.
    pub(crate) hardware: NodeHardware,
    /// Sentences for the user.
    pub(crate) missing: Vec<String>,
    /// Variables that leave GPUs out.
    pub(crate) restrictions: Vec<Restriction>,
}

/// Reads the XML of hwloc that describes a machine.
///
/// # Errors
///
/// A sentence about the file, without its name.
pub(crate) fn of_file(file: &Path) -> Result<NodeHardware, String> {
    let limit = u64::try_from(limits::BYTES_MAX).unwrap_or(u64::MAX);
    let text = user_file::read_short_to_string(file, limit);
    let text = text.map_err(|error| format!("it cannot be read ({error})"))?;
    NodeHardware::of_hwloc(&text).map_err(|error| format!("it describes no machine ({error})"))
}

/// Reads the hardware of this machine, without what the control group, device files and variables leave out.
/// With `Wanted::ALL`, the helper of NVIDIA is asked for all that it knows; else for names of MIG instances,
/// if there are any.
///
/// # Errors
///
/// A sentence about a machine that lists no processors.
pub(crate) fn of_this_machine(
    wanted: Wanted,
    variable: VariableOf<'_>,
) -> Result<KnownHardware, String> {
    let root = Path::new("/");
    let all = NodeHardware::of_linux(root, wanted).map_err(|error| error.to_string())?;
    let mut missing = Vec::new();
    let mut hardware = all.within(&Allowed::of_self(root));
    missing.extend(restricted(&all, &hardware));
    let left_out = hardware.leave_out_refused(root);
    missing.extend(
        left_out.iter().map(|one| format!("{} is left out: {}", one.device.name(), one.why)),
    );
    if needs_names(&hardware, wanted) {
        missing.extend(add_names(&mut hardware, wanted));
    }
    let restrictions = hardware.leave_out_by_variables(variable);
    missing.extend(restrictions.iter().map(|Restriction { name, value, gpus }| {
        let plural = if *gpus == 1 { "" } else { "s" };
        format!("{name}={value} leaves out {gpus} GPU{plural}")
    }));
    Ok(KnownHardware { hardware, missing, restrictions })
}

/// True if this machine has all these processors, whether or not this process may use them. A machine that
/// lists none, as a container without `/sys`, is taken at the word of its description.
pub(crate) fn has_processors(all: &ProcessorSet) -> bool {
    LinuxMachine::open(Path::new("/")).map_or(true, |machine| all.is_subset(machine.processors()))
}

/// True if the helper of NVIDIA knows names that are wanted.
fn needs_names(hardware: &NodeHardware, wanted: Wanted) -> bool {
    let is_nameless = |gpu: &Device| {
        gpu.parts.iter().any(|part| part.kind == PartKind::Mig && part.uuid.is_none())
    };
    hardware
        .devices
        .iter()
        .filter(|gpu| gpu.kind == DeviceKind::Gpu(GpuMaker::Nvidia))
        .any(|gpu| wanted == Wanted::ALL || is_nameless(gpu))
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

/// Adds names of GPUs of NVIDIA and their parts, and with `Wanted::ALL` what joins them. Returns what stays
/// unknown.
fn add_names(hardware: &mut NodeHardware, wanted: Wanted) -> Vec<String> {
    let mut missing = Vec::new();
    let mut listed = Vec::new();
    match helper(&["-L"]) {
        Ok(text) => {
            listed = nvidia_smi::listed(&text);
            hardware.add_listed(&listed);
        }
        Err(why) => missing.push(format!("MIG instances are not known: {why}")),
    }
    if wanted == Wanted::ALL {
        match helper(&["topo", "-m"]) {
            Ok(text) => hardware.add_joined(&nvidia_smi::joined(&text), &listed),
            Err(why) => missing.push(format!("connections by NVLink are not known: {why}")),
        }
    }
    missing
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

const HELPER: &str = "nvidia-smi";

/// The helper starts the driver where nothing else uses it, which takes longer: then GPUs are known by their
/// addresses alone.
const HELPER_LIMIT: Duration = Duration::from_secs(1);
