//! Peak memory of the ancestors of this process.

use std::fs;
use std::io;

/// Prints pid, name and peak resident memory of all ancestors with a readable status, nearest first.
pub(crate) fn report() -> io::Result<()> {
    let mut pid = parent(&fs::read_to_string("/proc/self/status")?);
    while let Some(this) = pid.filter(|pid| *pid != "0") {
        let Ok(status) = fs::read_to_string(format!("/proc/{this}/status")) else { break };
        // A process without memory of its own (one of the kernel) has no peak.
        if let (Some(name), Some(peak)) = (field(&status, "Name:"), field(&status, "VmHWM:")) {
            println!("ancestor pid={this} name={name} peak_kib={}", peak.trim_end_matches(" kB"));
        }
        pid = parent(&status);
    }
    Ok(())
}

fn parent(status: &str) -> Option<String> {
    field(status, "PPid:").map(str::to_owned)
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}
