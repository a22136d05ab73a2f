//! Detection of processes that the kernel killed for lack of memory.
//!
//! The kernel counts such kills in the control group of the launcher and its ranks. A process that was
//! killed while the count rose was most likely the victim.

use crate::launch::topology::resources::memory_groups;
use pmi_host_base::system_file;
use std::path::{Path, PathBuf};

/// The count at the last check.
#[derive(Debug)]
pub(crate) struct OutOfMemory {
    file: Option<PathBuf>,
    seen: u64,
}

impl OutOfMemory {
    /// Finds the counter; without a readable one, no kill is ever reported.
    pub(crate) fn new() -> Self {
        let groups = system_file::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let file = files(&groups).find(|file| file.exists());
        let mut own = Self { file, seen: 0 };
        own.seen = own.count();
        own
    }

    /// True if the count has risen since the last check.
    pub(crate) fn has_struck(&mut self) -> bool {
        let count = self.count();
        std::mem::replace(&mut self.seen, count) < count
    }

    fn count(&self) -> u64 {
        let text = self.file.as_ref().and_then(|file| system_file::read_to_string(file).ok());
        text.as_deref().and_then(kills).unwrap_or(0)
    }
}

/// Candidate files of the counter, from the list of the process's groups.
fn files(groups: &str) -> impl Iterator<Item = PathBuf> {
    memory_groups(Path::new("/"), groups).map(|group| {
        group.directory.join(if group.is_newer { "memory.events" } else { "memory.oom_control" })
    })
}

/// The number after `oom_kill`, which both versions of groups have.
fn kills(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_generations_of_control_groups_are_found_and_read() {
        let groups = "9:name=systemd:/\n4:cpu,memory:/job/7\n0::/user.slice\n";
        let found: Vec<PathBuf> = files(groups).collect();
        assert_eq!(
            found,
            [
                PathBuf::from("/sys/fs/cgroup/memory/job/7/memory.oom_control"),
                PathBuf::from("/sys/fs/cgroup/user.slice/memory.events")
            ]
        );
        assert_eq!(kills("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), Some(3));
        assert_eq!(kills("low 0\nhigh 0\nmax 12\noom 1\noom_kill 1\noom_group_kill 0\n"), Some(1));
        assert_eq!(kills(""), None);
    }
}
