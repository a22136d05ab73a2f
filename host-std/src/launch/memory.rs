//! Whether the system has killed somebody because there was no memory left.
//!
//! It says so where it counts: in the control group that we and our ranks are in. A process that was killed
//! while the count went up was most likely meant.

use std::fs;
use std::path::PathBuf;

/// The count, as it was when we looked last.
#[derive(Debug)]
pub struct OutOfMemory {
    file: Option<PathBuf>,
    seen: u64,
}

impl OutOfMemory {
    /// Finds the count; where it cannot be read, nothing is ever told.
    pub fn new() -> Self {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let file = files(&groups).find(|file| file.exists());
        let mut own = Self { file, seen: 0 };
        own.seen = own.count();
        own
    }

    /// Whether it has gone up since we looked last.
    pub fn has_struck(&mut self) -> bool {
        let count = self.count();
        std::mem::replace(&mut self.seen, count) < count
    }

    fn count(&self) -> u64 {
        let text = self.file.as_ref().and_then(|file| fs::read_to_string(file).ok());
        text.as_deref().and_then(kills).unwrap_or(0)
    }
}

impl Default for OutOfMemory {
    fn default() -> Self {
        Self::new()
    }
}

/// Where the count may be, by what the system says of our groups: `ID:CONTROLLERS:PATH`, one a line.
fn files(groups: &str) -> impl Iterator<Item = PathBuf> {
    groups.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let path = path.trim_start_matches('/');
        match controllers {
            "" => Some(PathBuf::from("/sys/fs/cgroup").join(path).join("memory.events")),
            _ if controllers.split(',').any(|one| one == "memory") => {
                Some(PathBuf::from("/sys/fs/cgroup/memory").join(path).join("memory.oom_control"))
            }
            _ => None,
        }
    })
}

/// The number behind `oom_kill`, which both generations of groups have.
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
