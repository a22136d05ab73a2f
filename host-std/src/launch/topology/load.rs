//! Load of this machine: whether a process that starts now waits for a processor.

use pmi_host_base::system_file;
use rustix::fs::OFlags;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::io::Read;

/// Number of processors that this process may use.
pub(crate) fn processor_count() -> usize {
    let processors = sched_getaffinity(None).map_or(1, |set: CpuSet| set.count());
    usize::try_from(processors).unwrap_or(usize::MAX)
}

/// True if more processes than there are processors run at this moment, this one included.
pub(crate) fn are_processors_busy() -> bool {
    // The kernel makes the text anew for each open, and it is short.
    let mut text = [0; 128];
    let read = system_file::open("/proc/loadavg", OFlags::RDONLY)
        .and_then(|mut file| file.read(&mut text));
    running_count(&text[..read.unwrap_or(0)]).is_some_and(|count| count > processor_count())
}

/// The number of running processes in the text of `/proc/loadavg`: `0.31 0.93 1.20 3/371 9711`.
fn running_count(text: &[u8]) -> Option<usize> {
    let (running, _) = str::from_utf8(text).ok()?.split(' ').nth(3)?.split_once('/')?;
    running.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_processes_are_read_from_the_load_of_the_system() {
        assert_eq!(running_count(b"0.31 0.93 1.20 3/371 9711\n"), Some(3));
        assert_eq!(running_count(b""), None);
        assert_eq!(running_count(b"0.31 0.93 1.20 3 9711\n"), None);
    }
}
