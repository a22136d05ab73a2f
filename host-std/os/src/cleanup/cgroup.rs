//! Control group for the processes of one run.
//!
//! A process can leave its session, lose its parents and clear its environment, but not leave its
//! control group unless it is privileged. So where the launcher may create a group, it holds every
//! process of the run; no other mark is as reliable. An ordinary user may create one only where an
//! administrator has delegated that; a system service, a container and root mostly can.
//!
//! The group limits and accounts nothing: it is made where no controllers are distributed to it. That is
//! in the hierarchy of version 2, which is mounted alone or, on hybrid systems, beside those of version
//! 1; else in a hierarchy of version 1 that only tracks processes.

use super::guard_protocol::launcher_of;
use crate::processes::is_running;
use pmi_host_base::system_file;
use rustix::process::getpid;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A control group that was made for a run.
#[derive(Debug)]
pub(crate) struct Cgroup {
    own: PathBuf,
    parent: PathBuf,
}

impl Cgroup {
    /// Makes a group for the run with `mark` below the one that this process is in, in the first
    /// hierarchy that allows it. `None` if no hierarchy does. If this process is in the group of the run,
    /// which the former guard has made, it leaves and returns that one.
    pub(crate) fn create(mark: &str) -> Option<Self> {
        let mounts = system_file::read("/proc/self/mountinfo").ok()?;
        let groups = system_file::read_to_string("/proc/self/cgroup").ok()?;
        let name = format!("{PREFIX}{mark}");
        candidates(&mounts, &groups).into_iter().find_map(|group| match group.parent() {
            Some(parent) if group.file_name().is_some_and(|own| own == name.as_str()) => {
                move_to(parent, getpid().as_raw_nonzero().get()).ok()?;
                Some(Self { parent: parent.to_owned(), own: group })
            }
            _ => Self::create_in(group, mark),
        })
    }

    fn create_in(parent: PathBuf, mark: &str) -> Option<Self> {
        let controllers = system_file::read_to_string(parent.join("cgroup.subtree_control"));
        if controllers.is_ok_and(|names| !names.trim().is_empty()) {
            return None;
        }
        // A killed guard could not remove its group; groups with processes stay. One of a launcher that runs
        // may be about to get its first process.
        for old in fs::read_dir(&parent).ok()?.filter_map(Result::ok) {
            let name = old.file_name();
            let mark = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
            if mark.and_then(launcher_of).is_some_and(|pid| !is_running(pid)) {
                let _ = fs::remove_dir(old.path());
            }
        }
        let own = parent.join(format!("{PREFIX}{mark}"));
        fs::create_dir(&own).ok()?;
        Some(Self { own, parent })
    }

    /// Moves a process into the group; processes that it starts later are in it too.
    ///
    /// # Errors
    ///
    /// Those of the system: the process is gone, or it may not leave its present group.
    pub(crate) fn add(&self, pid: i32) -> io::Result<()> {
        move_to(&self.own, pid)
    }

    /// The processes in the group and in groups below it.
    pub(crate) fn members(&self) -> Vec<i32> {
        let mut members = Vec::new();
        each_group(&self.own, &mut |group| members.extend(processes_in(group)));
        members
    }

    /// Kills all members, those of other users too. Requires version 2, and Linux 5.14.
    pub(crate) fn kill(&self) {
        // Without that file, the caller kills the members one by one.
        let _ = system_file::write(self.own.join("cgroup.kill"), "1");
    }

    /// Removes the group. Remaining processes of a successful run move to its parent.
    pub(crate) fn remove(self) {
        for _ in 0..ROUNDS {
            each_group(&self.own, &mut |group| {
                processes_in(group).for_each(|pid| drop(move_to(&self.parent, pid)));
                let _ = fs::remove_dir(group);
            });
            if !self.own.exists() {
                return;
            }
        }
    }
}

/// True if a process is in the group that was made for the run with `mark`.
pub(crate) fn is_of_run(mark: &str, pid: i32) -> bool {
    let groups = system_file::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let own = format!("{PREFIX}{mark}");
    groups.lines().flat_map(|line| line.split('/')).any(|name| name == own)
}

/// Calls `act` with the group at `path`, after all groups below it.
fn each_group(path: &Path, act: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(path).into_iter().flatten().filter_map(Result::ok) {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            each_group(&entry.path(), act);
        }
    }
    act(path);
}

fn processes_in(group: &Path) -> impl Iterator<Item = i32> + use<> {
    let text = system_file::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<_>>().into_iter()
}

fn move_to(group: &Path, pid: i32) -> io::Result<()> {
    system_file::write(group.join("cgroup.procs"), pid.to_string())
}

/// Directories of the groups that this process is in, the best first: from the table of mounts and from
/// lines of `ID:CONTROLLERS:PATH`.
fn candidates(mounts: &[u8], groups: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for mount in mounts.split(|byte| *byte == b'\n').filter_map(Mount::parse) {
        let own = groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            mount.is_of(controllers).then_some(path)
        });
        // A path that leads out of this namespace has no directory.
        let below = own.filter(|path| !path.contains("..")).and_then(|path| {
            let rest = path.strip_prefix(mount.root.trim_end_matches('/'))?;
            (rest.is_empty() || rest.starts_with('/')).then_some(rest)
        });
        if let Some(below) = below {
            found.push((mount.rank, mount.place.join(below.trim_start_matches('/'))));
        }
    }
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// A mounted hierarchy.
struct Mount {
    /// Preference; lower is better.
    rank: usize,
    /// The group that is mounted.
    root: String,
    /// Mount point.
    place: PathBuf,
    /// Its controllers in the list of groups; empty for version 2.
    name: String,
}

impl Mount {
    /// Parses a line of `/proc/self/mountinfo`; `None` unless it is a usable hierarchy.
    fn parse(line: &[u8]) -> Option<Self> {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let (root, place) = (words.get(3)?, words.get(4)?);
        let behind = words.iter().position(|word| *word == b"-")?;
        let (kind, options) = (words.get(behind + 1)?, words.get(behind + 3)?);
        let options = std::str::from_utf8(options).ok()?;
        let (rank, name) = match *kind {
            b"cgroup2" => (0, String::new()),
            b"cgroup" => {
                let is_tracking = |option: &&str| TRACKING.contains(option);
                let name = options.split(',').find(is_tracking)?;
                (1 + TRACKING.iter().position(|one| *one == name)?, name.to_owned())
            }
            _ => return None,
        };
        let place = PathBuf::from(OsString::from_vec(unescaped(place)));
        Some(Self { rank, root: String::from_utf8(unescaped(root)).ok()?, place, name })
    }

    fn is_of(&self, controllers: &str) -> bool {
        match self.name.is_empty() {
            true => controllers.is_empty(),
            false => controllers.split(',').any(|one| one == self.name),
        }
    }
}

/// Decodes a word of the table of mounts, in which a blank is `\040`.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = word;
    while let [first, others @ ..] = rest {
        let octal = others.get(..3).filter(|_| *first == b'\\');
        let byte =
            octal.and_then(|three| u8::from_str_radix(std::str::from_utf8(three).ok()?, 8).ok());
        out.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &others[3..] } else { others };
    }
    out
}

/// Hierarchies of version 1 that limit nothing by themselves, the best first.
const TRACKING: [&str; 3] = ["name=systemd", "pids", "freezer"];

/// Prefix of the names of run groups.
const PREFIX: &str = "pmi-host.";

/// Bound on the repetitions: processes may fork while they are moved.
const ROUNDS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
        31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
        38 31 0:35 / /sys/fs/cgroup/freezer rw,relatime shared:9 - cgroup cgroup rw,freezer\n\
        40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    fn found(mounts: &str, groups: &str) -> Vec<PathBuf> {
        candidates(mounts.as_bytes(), groups)
    }

    #[test]
    fn groups_are_found_in_both_versions_and_beside_each_other() {
        let groups = "9:name=systemd:/user/7\n4:freezer:/\n1:cpu:/x\n0::/job\n";
        let path = |path: &str| PathBuf::from("/sys/fs/cgroup").join(path);
        let all = [path("unified/job"), path("systemd/user/7"), path("freezer/")];
        assert_eq!(found(HYBRID, groups), all);
        let v1 = HYBRID.lines().filter(|line| !line.contains("cgroup2"));
        assert_eq!(found(&v1.collect::<Vec<_>>().join("\n"), groups), all[1..]);
        let v2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(found(v2, "0::/user.slice/a b\n"), [path("user.slice/a b")]);
        assert!(found("", groups).is_empty());
    }

    #[test]
    fn part_of_a_hierarchy_may_be_mounted_at_a_place_with_blanks() {
        let mounts = "30 23 0:26 /box /a\\040b rw - cgroup2 cgroup2 rw\n";
        assert_eq!(found(mounts, "0::/box/c\n"), [PathBuf::from("/a b/c")]);
        assert!(found(mounts, "0::/boxes\n").is_empty());
        assert!(found(mounts, "0::/../box\n").is_empty());
    }

    #[test]
    fn empty_groups_are_removed_once_their_launcher_is_gone() {
        let Some(running) = Cgroup::create(&format!("{}.running", std::process::id())) else {
            eprintln!("skipped: no control group can be made here");
            return;
        };
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let gone = Cgroup::create(&format!("{}.gone", child.id())).unwrap();
        child.wait().unwrap();
        Cgroup::create(&format!("{}.next", std::process::id())).unwrap().remove();
        assert!(running.own.exists() && !gone.own.exists());
        running.remove();
    }

    #[test]
    fn group_holds_what_is_moved_there_and_goes_without_it() {
        let mark = format!("{}.test", std::process::id());
        let Some(group) = Cgroup::create(&mark) else {
            eprintln!("skipped: no control group can be made here");
            return;
        };
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        group.add(pid).unwrap();
        assert_eq!(group.members(), [pid]);
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(is_of_run(&mark, pid) && !is_of_run(&mark, own));
        assert!(!is_of_run(&format!("{mark}2"), pid), "another run of this process");
        let path = group.own.clone();
        group.remove();
        assert!(!path.exists() && child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
