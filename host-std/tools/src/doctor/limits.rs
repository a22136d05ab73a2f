//! Limits of the system for this process.

use pmi_host_base::limits::{Resource, limit};
use rustix::fs::statvfs;
use rustix::thread::sched_getaffinity;

/// Limits that are in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourceLimits {
    /// Number of open files.
    pub(crate) files: Option<u64>,
    /// Memory that may be locked, as cluster networks need it.
    ///
    /// Units: bytes.
    pub(crate) locked_bytes: Option<u64>,
    /// Stack of the first thread.
    ///
    /// Units: bytes.
    pub(crate) stack_bytes: Option<u64>,
    /// Size of a core file.
    ///
    /// Units: bytes.
    pub(crate) core_bytes: Option<u64>,
    /// Number of processes of this user.
    pub(crate) processes: Option<u64>,
    /// Number of processors that this process may run on.
    pub(crate) processors: Option<u32>,
    /// Space for shared memory, through which ranks of one host communicate.
    ///
    /// Units: bytes.
    pub(crate) shared_bytes: Option<u64>,
}

/// Reads the limits. `None` means unlimited for a limit, and unknown for other values.
pub(crate) fn read() -> ResourceLimits {
    let of = |resource| limit(resource).current;
    let shared = statvfs("/dev/shm").ok();
    ResourceLimits {
        files: of(Resource::RLIMIT_NOFILE),
        locked_bytes: of(Resource::RLIMIT_MEMLOCK),
        stack_bytes: of(Resource::RLIMIT_STACK),
        core_bytes: of(Resource::RLIMIT_CORE),
        processes: of(Resource::RLIMIT_NPROC),
        processors: sched_getaffinity(None).ok().map(|set| set.count()),
        shared_bytes: shared.map(|found| found.f_bavail.saturating_mul(found.f_frsize)),
    }
}

impl ResourceLimits {
    /// One line for each limit.
    pub(crate) fn shown(&self) -> [(&'static str, String); 3] {
        let count = |limit: Option<u64>| limit.map_or_else(unlimited, |limit| limit.to_string());
        let bytes = |limit: Option<u64>| limit.map_or_else(unlimited, size);
        let limits = format!(
            "open files {}, processes {}, locked memory {}, stack {}, core {}",
            count(self.files),
            count(self.processes),
            bytes(self.locked_bytes),
            bytes(self.stack_bytes),
            bytes(self.core_bytes)
        );
        let unknown = || "unknown".to_owned();
        let processors =
            self.processors.map_or_else(unknown, |count| format!("{count} may be used"));
        let shared =
            self.shared_bytes.map_or_else(unknown, |bytes| format!("{} free", size(bytes)));
        [("limits", limits), ("processors", processors), ("/dev/shm", shared)]
    }
}

fn unlimited() -> String {
    "unlimited".to_owned()
}

/// Size in the unit that keeps it short.
fn size(bytes: u64) -> String {
    // Index of the unit: powers of 1024.
    match bytes.checked_ilog2().unwrap_or(0) / 10 {
        0 => format!("{bytes} B"),
        1 => format!("{} KiB", bytes >> 10),
        2 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let shown = [0, 1023, 8 << 10, 64 << 20, 7 << 30].map(size);
        assert_eq!(shown, ["0 B", "1023 B", "8 KiB", "64 MiB", "7 GiB"]);
    }

    #[test]
    fn this_process_may_do_something() {
        let limits = read();
        assert!(limits.files.is_none_or(|files| files > 0));
        assert!(limits.processors.is_some_and(|count| count > 0));
    }
}
