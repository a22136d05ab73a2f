//! Processes of this machine, from `/proc`.

use nix::errno::Errno;
use nix::sys::signal;
use nix::unistd::{self, Pid};
use pmi_host_base::system_file;
use procfs::process::{Process, all_processes};
use rustix::fs::OFlags;
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{fs, iter};

/// Unique identity of a process: its pid may be reused later, but not with the same start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessIdentity {
    /// Its pid.
    pub(crate) pid: i32,
    /// Start time, in clock ticks since boot.
    pub(crate) start: u64,
}

/// A process and its relations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relations {
    /// The process.
    pub(crate) id: ProcessIdentity,
    /// Its parent.
    pub(crate) parent: i32,
    /// Its session: the pid of the session leader; 0 if that is outside this PID namespace.
    pub(crate) session: i32,
    /// True if it runs or is stopped; false for a zombie.
    pub is_alive: bool,
}

/// Reads one process; `None` if it is gone, or access is denied.
pub fn relations(pid: i32) -> Option<Relations> {
    has_own_numbers().then(|| of(&Process::new(pid).ok()?)).flatten()
}

/// True if `/proc` is there, and has the numbers by which this process knows others. In a PID namespace
/// that was made without a `/proc` of its own, they name other processes.
fn has_own_numbers() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    let own = std::process::id().to_string();
    *HAS.get_or_init(|| fs::read_link("/proc/self").is_ok_and(|link| link == Path::new(&own)))
}

/// All readable processes.
pub(crate) fn all() -> Vec<Relations> {
    let processes = has_own_numbers().then(all_processes).into_iter().flatten();
    let processes = processes.flatten().filter_map(Result::ok);
    processes.filter_map(|process| of(&process)).collect()
}

/// Session of this process: the pid of its leader; 0 if that is outside this PID namespace, as in a
/// container that was entered. (`rustix` takes these ids for positive numbers.)
pub fn own_session() -> i32 {
    unistd::getsid(None).map_or(0, Pid::as_raw)
}

/// True if the session of this process has a controlling terminal.
pub fn has_terminal() -> bool {
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match system_file::open("/dev/tty", flags) {
        Ok(_) => return true,
        Err(error) if error.raw_os_error() == Some(Errno::ENXIO as i32) => return false,
        // No such device, or no access to it.
        Err(_) => {}
    }
    let stat = Process::myself().and_then(|process| process.stat());
    stat.is_ok_and(|stat| stat.tty_nr != 0)
}

/// Process group of this process; 0 if its leader is outside this PID namespace.
pub fn own_group() -> i32 {
    unistd::getpgrp().as_raw()
}

/// Process group of a process; 0 if its leader is outside this PID namespace. `None` if the process is
/// gone.
pub fn group(pid: i32) -> Option<i32> {
    unistd::getpgid(Some(Pid::from_raw(pid))).ok().map(Pid::as_raw)
}

/// Processes of `all` for which `is_root` holds, and their descendants, without those for which
/// `is_barred` holds and their descendants.
pub(crate) fn descendants(
    all: &[Relations],
    is_root: impl Fn(&Relations) -> bool,
    is_barred: impl Fn(&Relations) -> bool,
) -> Vec<Relations> {
    let mut found: Vec<Relations> = Vec::new();
    let mut pids: BTreeSet<i32> = BTreeSet::new();
    loop {
        let count = found.len();
        for one in all.iter().filter(|one| !is_barred(one)) {
            if !pids.contains(&one.id.pid) && (pids.contains(&one.parent) || is_root(one)) {
                pids.insert(one.id.pid);
                found.push(*one);
            }
        }
        if found.len() == count {
            return found;
        }
    }
}

/// The process `pid` and its descendants, without those for which `is_barred` holds and their descendants.
///
/// Reads only these where the system lists children, and else all processes: many launchers may run on one
/// machine, and each would read all processes of the others.
pub(crate) fn family_of(pid: i32, is_barred: impl Fn(&Relations) -> bool) -> Vec<Relations> {
    if !has_lists_of_children() {
        return descendants(&all(), |one| one.id.pid == pid, is_barred);
    }
    let (mut found, mut waiting) = (Vec::new(), vec![pid]);
    while let Some(pid) = waiting.pop() {
        let Some(one) = relations(pid).filter(|one| !is_barred(one)) else { continue };
        found.push(one);
        waiting.extend(children_of(pid));
    }
    found
}

/// The process `pid` and its descendants, those close to it first.
pub fn family(pid: i32) -> impl Iterator<Item = i32> {
    family_without(pid, |_| false)
}

/// The same without descendants for which `is_barred` holds, and those below them. Processes that the system
/// hides are among them, for their parents list them.
pub(crate) fn family_without(
    pid: i32,
    is_barred: impl Fn(i32) -> bool,
) -> impl Iterator<Item = i32> {
    let (mut waiting, mut last) = (VecDeque::from([pid]), None);
    let unlisted = (!has_lists_of_children()).then(all);
    let children = move |of: i32| match &unlisted {
        Some(all) => all.iter().filter(|one| one.parent == of).map(|one| one.id.pid).collect(),
        None => children_of(of),
    };
    iter::from_fn(move || {
        let next = last.map(&children).unwrap_or_default();
        waiting.extend(next.into_iter().filter(|pid| !is_barred(*pid)));
        last = waiting.pop_front();
        last
    })
}

/// True if the system lists the children of a process.
fn has_lists_of_children() -> bool {
    Path::new("/proc/thread-self/children").exists()
}

/// Children of all threads of a process.
fn children_of(pid: i32) -> Vec<i32> {
    if !has_own_numbers() {
        return Vec::new();
    }
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists =
        tasks.filter_map(|task| system_file::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| parsed(&list)).collect()
}

fn parsed(list: &str) -> Vec<i32> {
    list.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Children of the launcher's own thread, which calls this: processes that it has started, and adopted ones.
/// Ranks may be children of other threads.
pub(crate) fn children() -> Vec<i32> {
    if !has_own_numbers() {
        return Vec::new();
    }
    let children = system_file::read_to_string("/proc/thread-self/children").unwrap_or_default();
    parsed(&children)
}

/// True if a process was started with `entry` in its environment; `None` if that cannot be read. A
/// terminated process has an empty one.
pub(crate) fn has_entry(pid: i32, entry: &str) -> Option<bool> {
    let environment = environment(pid)?;
    Some(environment.split(|byte| *byte == 0).any(|own| own == entry.as_bytes()))
}

/// True if two processes were started with the same values of all these variables.
pub(crate) fn share_variables(pids: [i32; 2], names: &[&str]) -> bool {
    let [Some(one), Some(other)] = pids.map(environment) else { return false };
    let value = |of: &[u8], name: &str| {
        let mut entries = of.split(|byte| *byte == 0);
        let value =
            |entry: &[u8]| Some(entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_vec());
        entries.find_map(value)
    };
    names.iter().all(|name| value(&one, name).is_some_and(|own| value(&other, name) == Some(own)))
}

/// The environment with which a process was started.
fn environment(pid: i32) -> Option<Vec<u8>> {
    system_file::read(format!("/proc/{pid}/environ")).ok().filter(|_| has_own_numbers())
}

/// Result of a search for a socket among the descriptors of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketSearch {
    /// The process has it open.
    Found,
    /// The process does not have it, or has exited.
    Absent,
    /// The process runs, and its descriptors cannot be read: its program has no read permission or more
    /// privileges than its user, or there is no `/proc` with its number.
    Hidden,
}

/// Pids of all processes, in ascending order.
pub(crate) fn pids() -> Vec<i32> {
    let entries = has_own_numbers().then(|| fs::read_dir("/proc")).into_iter().flatten();
    let entries = entries.flatten().flatten();
    let mut found =
        Vec::from_iter(entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()));
    found.sort_unstable();
    found
}

/// The child of `top` from which the process `pid` descends, or `pid` itself if it is that child.
pub(crate) fn ancestor_below(top: i32, pid: i32) -> Option<i32> {
    let mut at = pid;
    // A chain of parents that is read while processes end has an end as well.
    for _ in 0..ANCESTORS_MAX {
        let parent = relations(at)?.parent;
        if parent == top {
            return Some(at);
        }
        if parent <= 1 {
            return None;
        }
        at = parent;
    }
    None
}

/// Inode numbers of the sockets that a process has open, as far as the launcher may inspect it.
pub(crate) fn sockets(pid: i32) -> Vec<u64> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let links = open.filter_map(|one| fs::read_link(one.path()).ok());
    let inode =
        |link: PathBuf| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
    links.filter_map(inode).collect()
}

/// True if a process has the socket with this inode number open, as far as that can be read.
pub(crate) fn has_socket(pid: i32, inode: u64) -> bool {
    search_socket(pid, inode) == SocketSearch::Found
}

/// True if a process has the socket or pipe with this inode number open, as far as that can be read.
pub(crate) fn has_end(pid: i32, inode: u64) -> bool {
    let names = [format!("socket:[{inode}]"), format!("pipe:[{inode}]")];
    search_open(pid, &names.each_ref().map(String::as_str)) == SocketSearch::Found
}

/// Searches the descriptors of a process for the socket with this inode number.
pub(crate) fn search_socket(pid: i32, inode: u64) -> SocketSearch {
    search_open(pid, &[&format!("socket:[{inode}]")])
}

/// Searches the descriptors of a process for what one of `names` says.
fn search_open(pid: i32, names: &[&str]) -> SocketSearch {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).ok().filter(|_| has_own_numbers());
    let Some(open) = open else {
        return match is_running(pid) {
            true => SocketSearch::Hidden,
            false => SocketSearch::Absent,
        };
    };
    // Descriptors are listed by number. A socket that is of interest was mostly opened last.
    let mut open: Vec<_> = open.flatten().map(|one| one.path()).collect();
    open.reverse();
    let mut links = open.iter().filter_map(|path| fs::read_link(path).ok());
    match links.any(|link| names.iter().any(|name| link.as_os_str() == *name)) {
        true => SocketSearch::Found,
        false => SocketSearch::Absent,
    }
}

/// True if a process runs or is stopped. Without `/proc`, and where it hides the process, one that was not
/// reaped counts.
pub(crate) fn is_running(pid: i32) -> bool {
    let exists = || !matches!(signal::kill(Pid::from_raw(pid), None), Err(Errno::ESRCH));
    relations(pid).map_or_else(exists, |one| one.is_alive)
}

fn of(process: &Process) -> Option<Relations> {
    let stat = process.stat().ok()?;
    Some(Relations {
        id: ProcessIdentity { pid: stat.pid, start: stat.starttime },
        parent: stat.ppid,
        session: stat.session,
        is_alive: !matches!(stat.state, 'Z' | 'X' | 'x'),
    })
}

/// Maximum length of a chain of parents; no genuine rank starts processes as deep as this.
const ANCESTORS_MAX: usize = 1 << 12;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, BufRead};
    use std::process::Stdio;

    fn process(pid: i32, parent: i32) -> Relations {
        let id = ProcessIdentity { pid, start: 1 };
        Relations { id, parent, session: 1, is_alive: true }
    }

    #[test]
    fn descendants_are_found_in_any_order_and_not_behind_a_barred_one() {
        let all = [process(9, 7), process(7, 2), process(2, 1), process(5, 2), process(6, 5)];
        let found = descendants(&all, |one| one.id.pid == 2, |one| one.id.pid == 5);
        let mut pids: Vec<i32> = found.iter().map(|one| one.id.pid).collect();
        pids.sort_unstable();
        assert_eq!(pids, [2, 7, 9]);
    }

    #[test]
    fn family_is_read_without_other_processes_and_not_behind_a_barred_one() {
        let spawn = |program: &str, words: &[&str]| {
            let mut command = std::process::Command::new(program);
            command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
        };
        let script = "sleep 60 & sleep 60 & echo \"$!\"; wait";
        let (mut shell, mut other) = (spawn("sh", &["-c", script]), spawn("sleep", &["60"]));
        let mut last = String::new();
        io::BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut last).unwrap();
        let [pid, other_pid] = [&shell, &other].map(|child| i32::try_from(child.id()).unwrap());
        let last: i32 = last.trim().parse().unwrap();
        let pids = |barred: i32| -> BTreeSet<i32> {
            family_of(pid, |one| one.id.pid == barred).iter().map(|one| one.id.pid).collect()
        };
        let all = pids(other_pid);
        let rest = pids(last);
        let none = pids(pid);
        for child in
            all.iter().chain([&other_pid]).filter_map(|pid| rustix::process::Pid::from_raw(*pid))
        {
            let _ = rustix::process::kill_process(child, rustix::process::Signal::KILL);
        }
        shell.wait().unwrap();
        other.wait().unwrap();
        assert!(all.len() == 3 && all.contains(&last) && all.contains(&pid), "{all:?}");
        assert!(rest.len() == 2 && !rest.contains(&last) && none.is_empty(), "{rest:?}");
    }

    #[test]
    fn processes_share_variables_of_equal_values_only() {
        let children = ["1", "1", "2"].map(|value| {
            let mut command = std::process::Command::new("sleep");
            command.arg("60").env("A", value).env("B", "3").spawn().unwrap()
        });
        let [one, same, other] = children.each_ref().map(|child| child.id().cast_signed());
        let shared = share_variables([one, same], &["A", "B"]);
        let differs = !share_variables([one, other], &["A", "B"]);
        let missing = !share_variables([one, same], &["A", "C"]);
        for mut child in children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(shared && differs && missing);
    }

    #[test]
    fn this_process_is_seen_with_its_parent() {
        let own = i32::try_from(std::process::id()).unwrap();
        let relations = relations(own).unwrap();
        assert!(relations.is_alive && relations.id.pid == own);
        assert!(all().iter().any(|one| one.id == relations.id));
        assert_eq!(has_entry(own, "PMI_NO_SUCH=1"), Some(false));
    }
}
