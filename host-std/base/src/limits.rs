//! Limits of the system for this process.

use crate::system_file;
use nix::libc::RLIM_INFINITY;
pub use nix::sys::resource::Resource;
use nix::sys::resource::getrlimit;

/// A soft and a hard limit; `None` is no limit, or one that the system hides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// The limit in force.
    pub current: Option<u64>,
    /// The limit up to which the current one may be raised.
    pub maximum: Option<u64>,
}

/// Limit of this process for `resource`.
///
/// A sandbox may refuse the system call; then `/proc` has the limit on open files.
pub fn limit(resource: Resource) -> Limit {
    let bounded = |value: u64| Some(value).filter(|value| *value != RLIM_INFINITY);
    match getrlimit(resource) {
        Ok((current, maximum)) => Limit { current: bounded(current), maximum: bounded(maximum) },
        Err(_) if resource == Resource::RLIMIT_NOFILE => {
            let table = system_file::read_to_string("/proc/self/limits").unwrap_or_default();
            open_files(&table).unwrap_or_default()
        }
        Err(_) => Limit::default(),
    }
}

/// Limit on open files in the table of the kernel.
fn open_files(table: &str) -> Option<Limit> {
    let row = table.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    // A word that is no number is "unlimited".
    let mut limits = row.split_whitespace().map(|word| word.parse().ok());
    Some(Limit { current: limits.next()?, maximum: limits.next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_on_open_files_is_the_same_from_the_table() {
        let table = system_file::read_to_string("/proc/self/limits").unwrap();
        assert_eq!(open_files(&table), Some(limit(Resource::RLIMIT_NOFILE)));
        let table = "Limit   Soft Limit  Hard Limit  Units\nMax open files  7  unlimited  files\n";
        assert_eq!(open_files(table), Some(Limit { current: Some(7), maximum: None }));
        assert_eq!(open_files(""), None);
    }
}
