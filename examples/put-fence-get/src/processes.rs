//! Memory and processor time of the processes that serve this job.

use std::fs;
use std::io;

/// Prints a line for each process of this machine but the ranks, like `LABEL pid=5 parent=1 name=x peak_kib=7
/// pss_kib=3 cpu_ns=9`. The reader chooses those of the launcher, not all of which are ancestors of a rank.
pub(crate) fn report(label: &str) -> io::Result<()> {
    let own = fs::read_to_string("/proc/self/comm")?;
    for entry in fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
        // A process that has just ended is left out, as is one of the kernel, which has no memory of its own.
        let (Some(name), Some(status)) = (read("comm"), read("status")) else { continue };
        let Some(peak) = kib(&status, "VmHWM:").filter(|_| name != own) else { continue };
        let parent = field(&status, "PPid:").unwrap_or("0");
        let pss = read("smaps_rollup").and_then(|text| kib(&text, "Pss:")).unwrap_or(0);
        let name = name.trim().replace(' ', "_");
        let cpu = cpu_nanos(pid);
        println!(
            "{label} pid={pid} parent={parent} name={name} peak_kib={peak} pss_kib={pss} cpu_ns={cpu}"
        );
    }
    Ok(())
}

/// Processor time of all threads of a process.
fn cpu_nanos(pid: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let nanos = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    nanos.sum()
}

fn kib(text: &str, name: &str) -> Option<u64> {
    field(text, name)?.trim_end_matches(" kB").parse().ok()
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}
