//! Processes that hold the sockets of unauthenticated connections, and the ranks to which they belong.

use crate::processes;
use std::collections::{BTreeMap, BTreeSet};

/// Process that holds a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// Its pid.
    pub(crate) pid: i32,
    /// Pid of the child of this launcher that is its ancestor, or the process itself: a rank. `None` for a
    /// process that this launcher did not start.
    pub(crate) rank_pid: Option<i32>,
}

/// Finds the processes that hold the sockets with these inode numbers, in one pass over `/proc`.
///
/// A socket is missing in the result if its process is gone, or the system shows its descriptors to nobody.
pub(crate) fn holders(inodes: &BTreeSet<u64>) -> BTreeMap<u64, Holder> {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let mut found: BTreeMap<u64, Holder> = BTreeMap::new();
    for pid in processes::pids() {
        if found.len() == inodes.len() {
            break;
        }
        let held = processes::sockets(pid).into_iter().filter(|inode| inodes.contains(inode));
        let held = Vec::from_iter(held);
        if !held.is_empty() {
            let holder = Holder { pid, rank_pid: processes::ancestor_below(own, pid) };
            for inode in held {
                found.entry(inode).or_insert(holder);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;
    use std::process::{Command, Stdio};

    #[test]
    fn sockets_are_held_by_a_stranger_or_by_the_family_of_a_child() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let link = std::fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
        let name = link.to_string_lossy().into_owned();
        let ours: u64 = name.trim_start_matches("socket:[").trim_end_matches(']').parse().unwrap();
        // A grandchild, which opens a socket of its own.
        let script = "import os,socket,time\ns=socket.socket()\n\
             if os.fork(): time.sleep(60)\n\
             t=socket.socket()\nprint(os.getpid(),os.fstat(t.fileno()).st_ino,flush=True)\ntime.sleep(60)";
        let mut child = Command::new("/usr/bin/python3");
        let mut child = child.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut words = line.split_whitespace();
        let pid: i32 = words.next().unwrap().parse().unwrap();
        let inode: u64 = words.next().unwrap().parse().unwrap();
        let found = holders(&BTreeSet::from([ours, inode, 1]));
        let own = i32::try_from(std::process::id()).unwrap();
        let rank_pid = i32::try_from(child.id()).ok();
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(pid).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_ne!(Some(pid), rank_pid);
        assert_eq!(found.get(&ours), Some(&Holder { pid: own, rank_pid: None }));
        assert_eq!(found.get(&inode), Some(&Holder { pid, rank_pid }));
        assert_eq!(found.len(), 2);
    }
}
