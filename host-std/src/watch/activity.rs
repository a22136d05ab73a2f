//! What a rank does that others wait for, and whether ranks share memory: from `/proc`, only on a suspicion.
//!
//! No read waits for a process or touches a file of the user.

use super::process::{Proc, State};
use super::table::{NamedProcess, RankActivity, seconds};
use nix::libc;
use pmi_host_os::processes;
use procfs::process::{FDTarget, MMPermissions, MMapPath, Process, Syscall};
use rustix::time::{ClockId, clock_gettime};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// Memory that the processes of a rank can write and share with other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SharedMemory {
    /// They have some.
    Some,
    /// They have none.
    None,
    /// The system hides it.
    Hidden,
}

/// A system call in which processes wait.
struct WaitingCall {
    number: i64,
    name: &'static str,
    what: CallArgument,
}

/// What the first argument of a call says about its wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallArgument {
    /// Nothing.
    Other,
    /// It is a descriptor.
    Descriptor,
    /// The path of a file is this argument.
    Path(usize),
    /// It waits for a child.
    Child,
}

impl Proc {
    /// Activity of the process of a rank: its own or, while it waits for a child, that of the child.
    pub(crate) fn activity(&self, pid: i32) -> RankActivity {
        let Some(process) = self.process(pid) else { return RankActivity::default() };
        let mut activity = self.of_process(&process);
        activity.started_seconds = started_ago(&process).map(seconds);
        if is_waiting_for_child(&process) {
            let children = processes::family(pid).skip(1).take(PROCESSES_MAX);
            let busy = children.filter_map(|child| self.process(child)).find(|child| {
                !is_waiting_for_child(child)
                    && self.state(child).is_some_and(|state| state != State::Ended)
            });
            if let Some(child) = busy {
                let started_seconds = activity.started_seconds;
                let named = Some(named(&child));
                activity =
                    RankActivity { started_seconds, child: named, ..self.of_process(&child) };
            }
        }
        activity
    }

    /// Memory that the processes of a rank share.
    pub(crate) fn shared_memory(&self, pid: i32) -> SharedMemory {
        let mut found = SharedMemory::None;
        for pid in processes::family(pid).take(PROCESSES_MAX) {
            match self.process(pid).map(|process| process.maps()) {
                Some(Ok(maps)) if maps.iter().any(|map| is_shared(map.perms, &map.pathname)) => {
                    return SharedMemory::Some;
                }
                Some(Ok(_)) => {}
                // One that has just ended is no reason.
                _ => found = SharedMemory::Hidden,
            }
        }
        found
    }

    fn state(&self, process: &Process) -> Option<State> {
        self.read(process.pid()).map(|life| life.state)
    }

    fn of_process(&self, process: &Process) -> RankActivity {
        let state = self.state(process);
        let mut activity = RankActivity { state, ..RankActivity::default() };
        if state == Some(State::Traced) {
            let tracer = process.status().ok().map(|status| status.tracerpid);
            let tracer = tracer.filter(|tracer| *tracer > 0);
            activity.holder = tracer.and_then(|tracer| self.process(tracer)).map(|of| named(&of));
        }
        if !matches!(state, Some(State::Sleeping | State::Uninterruptible)) {
            return activity;
        }
        let Ok(Syscall::Blocked { syscall_number, argument_registers: arguments, .. }) =
            process.syscall()
        else {
            return activity;
        };
        let Some(call) = CALLS.iter().find(|call| call.number == syscall_number) else {
            return activity;
        };
        activity.call = Some(call.name.to_owned());
        activity.file = match call.what {
            CallArgument::Descriptor => file(process, arguments[0]),
            CallArgument::Path(at) => path(process, arguments[at]),
            CallArgument::Other | CallArgument::Child => None,
        };
        if is_lock(call, arguments[1]) {
            activity.waits_for_lock = true;
            activity.holder = self.lock_holder(process.pid());
        }
        activity
    }

    /// Process that holds the lock for which this one waits.
    fn lock_holder(&self, pid: i32) -> Option<NamedProcess> {
        // Each lock that is held is followed by those who wait for it, marked by an arrow.
        let locks = pmi_host_base::system_file::read_to_string(self.root().join("locks")).ok()?;
        let mut holder = None;
        for line in locks.lines() {
            let words = Vec::from_iter(line.split_whitespace().skip(1));
            let (is_waiting, words) = match words.split_first() {
                Some((&"->", rest)) => (true, rest),
                _ => (false, &words[..]),
            };
            // FLOCK ADVISORY WRITE pid device:inode start end
            let of = words.get(3).and_then(|word| word.parse::<i32>().ok());
            match is_waiting {
                false => holder = of,
                true if of == Some(pid) => {
                    return self.process(holder.filter(|holder| *holder > 0)?).map(|of| named(&of));
                }
                true => {}
            }
        }
        None
    }

    fn process(&self, pid: i32) -> Option<Process> {
        Process::new_with_root(self.root().join(pid.to_string())).ok()
    }
}

fn named(process: &Process) -> NamedProcess {
    let program = process.stat().ok().map(|stat| stat.comm);
    NamedProcess { pid: process.pid(), program, rank: None }
}

/// Time since the start of a process.
fn started_ago(process: &Process) -> Option<Duration> {
    let ticks = process.stat().ok()?.starttime;
    let start =
        Duration::from_millis(ticks.saturating_mul(1000) / procfs::ticks_per_second().max(1));
    let now = clock_gettime(ClockId::Boottime);
    let now = Duration::new(now.tv_sec.try_into().ok()?, now.tv_nsec.try_into().ok()?);
    Some(now.saturating_sub(start))
}

fn is_waiting_for_child(process: &Process) -> bool {
    match process.syscall() {
        Ok(Syscall::Blocked { syscall_number, .. }) => CALLS
            .iter()
            .any(|call| call.number == syscall_number && call.what == CallArgument::Child),
        Ok(_) => false,
        Err(_) => process.wchan().is_ok_and(|wait| wait.trim() == "do_wait"),
    }
}

fn is_lock(call: &WaitingCall, operation: u64) -> bool {
    let waits = [libc::F_SETLKW, libc::F_OFD_SETLKW].map(|one| u64::from(one.cast_unsigned()));
    call.number == number(libc::SYS_flock)
        || (call.number == number(libc::SYS_fcntl) && waits.contains(&operation))
}

/// The file behind a descriptor, for users.
fn file(process: &Process, descriptor: u64) -> Option<String> {
    let descriptor = i32::try_from(descriptor).ok()?;
    if descriptor == libc::STDIN_FILENO {
        return Some("standard input".to_owned());
    }
    Some(match process.fd_from_fd(descriptor).ok()?.target {
        FDTarget::Path(path) => path.display().to_string(),
        FDTarget::Socket(_) => "a socket".to_owned(),
        FDTarget::Pipe(_) => "a pipe".to_owned(),
        _ => return None,
    })
}

/// The path at an address of a process.
fn path(process: &Process, address: u64) -> Option<String> {
    let mut bytes = [0; PATH_MAX];
    // A path may end right before a page that cannot be read.
    let mut filled = 0;
    let memory = process.mem().ok()?;
    while filled < bytes.len() && !bytes[..filled].contains(&0) {
        let at = address.checked_add(u64::try_from(filled).ok()?)?;
        let to_page = PAGE - usize::try_from(at % u64::try_from(PAGE).ok()?).ok()?;
        let end = bytes.len().min(filled + to_page);
        match memory.read_at(&mut bytes[filled..end], at) {
            Ok(len @ 1..) => filled += len,
            _ => break,
        }
    }
    let end = bytes[..filled].iter().position(|byte| *byte == 0)?;
    let path = Path::new(std::ffi::OsStr::from_bytes(&bytes[..end]));
    Some(path.display().to_string())
}

/// True if a process can write this memory and other processes may see that. Devices are not for that.
fn is_shared(permissions: MMPermissions, path: &MMapPath) -> bool {
    let is_for_processes = match path {
        MMapPath::Path(path) => !path.starts_with("/dev") || path.starts_with("/dev/shm"),
        _ => true,
    };
    permissions.contains(MMPermissions::SHARED | MMPermissions::WRITE) && is_for_processes
}

#[expect(clippy::unnecessary_cast, reason = "the type of a number depends on the machine")]
const fn number(call: libc::c_long) -> i64 {
    call as i64
}

const fn call(number_: libc::c_long, name: &'static str, what: CallArgument) -> WaitingCall {
    WaitingCall { number: number(number_), name, what }
}

/// Calls in which processes wait.
const CALLS: &[WaitingCall] = &[
    call(libc::SYS_read, "read", CallArgument::Descriptor),
    call(libc::SYS_readv, "readv", CallArgument::Descriptor),
    call(libc::SYS_pread64, "pread", CallArgument::Descriptor),
    call(libc::SYS_write, "write", CallArgument::Descriptor),
    call(libc::SYS_writev, "writev", CallArgument::Descriptor),
    call(libc::SYS_pwrite64, "pwrite", CallArgument::Descriptor),
    call(libc::SYS_fsync, "fsync", CallArgument::Descriptor),
    call(libc::SYS_fdatasync, "fdatasync", CallArgument::Descriptor),
    call(libc::SYS_ioctl, "ioctl", CallArgument::Descriptor),
    call(libc::SYS_flock, "flock", CallArgument::Descriptor),
    call(libc::SYS_fcntl, "fcntl", CallArgument::Descriptor),
    call(libc::SYS_connect, "connect", CallArgument::Descriptor),
    #[cfg(not(target_arch = "s390x"))]
    call(libc::SYS_accept, "accept", CallArgument::Descriptor),
    call(libc::SYS_accept4, "accept", CallArgument::Descriptor),
    call(libc::SYS_recvfrom, "recvfrom", CallArgument::Descriptor),
    call(libc::SYS_recvmsg, "recvmsg", CallArgument::Descriptor),
    call(libc::SYS_sendto, "sendto", CallArgument::Descriptor),
    call(libc::SYS_sendmsg, "sendmsg", CallArgument::Descriptor),
    call(libc::SYS_openat, "open", CallArgument::Path(1)),
    call(libc::SYS_openat2, "open", CallArgument::Path(1)),
    call(libc::SYS_newfstatat, "stat", CallArgument::Path(1)),
    call(libc::SYS_statx, "stat", CallArgument::Path(1)),
    call(libc::SYS_execve, "execve", CallArgument::Path(0)),
    call(libc::SYS_wait4, "wait4", CallArgument::Child),
    call(libc::SYS_waitid, "waitid", CallArgument::Child),
    call(libc::SYS_rt_sigsuspend, "sigsuspend", CallArgument::Child),
    call(libc::SYS_rt_sigtimedwait, "sigtimedwait", CallArgument::Other),
    call(libc::SYS_nanosleep, "nanosleep", CallArgument::Other),
    call(libc::SYS_clock_nanosleep, "clock_nanosleep", CallArgument::Other),
    call(libc::SYS_restart_syscall, "a call that a signal has interrupted", CallArgument::Other),
    call(libc::SYS_futex, "futex", CallArgument::Other),
    call(libc::SYS_ppoll, "poll", CallArgument::Other),
    call(libc::SYS_pselect6, "select", CallArgument::Other),
    call(libc::SYS_epoll_pwait, "epoll_wait", CallArgument::Other),
    call(libc::SYS_sched_yield, "sched_yield", CallArgument::Other),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_open, "open", CallArgument::Path(0)),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_stat, "stat", CallArgument::Path(0)),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_pause, "pause", CallArgument::Other),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_poll, "poll", CallArgument::Other),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_select, "select", CallArgument::Other),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_epoll_wait, "epoll_wait", CallArgument::Other),
];

/// Number of processes of one rank that are looked at; a rank may be a shell with thousands of them.
pub(crate) const PROCESSES_MAX: usize = 64;

/// Bytes of a path that are read.
const PATH_MAX: usize = 512;

/// No page is smaller.
const PAGE: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_host_os::clock;
    use std::fs::File;
    use std::process::{Child, Command, Stdio};

    /// The activity of a program once `is_reached`.
    fn activity_of(child: &mut Child, is_reached: impl Fn(&RankActivity) -> bool) -> RankActivity {
        let pid = i32::try_from(child.id()).unwrap();
        let until = clock::now() + Duration::from_secs(60);
        let activity = loop {
            let activity = Proc::default().activity(pid);
            if is_reached(&activity) {
                break activity;
            }
            assert!(clock::now() < until, "{activity:?}");
        };
        child.kill().unwrap();
        child.wait().unwrap();
        activity
    }

    fn shell(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn call_and_its_file_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let fifo = fifo.to_str().unwrap();
        let is_in = |name: &'static str| {
            move |activity: &RankActivity| {
                activity.call.as_deref() == Some(name) && activity.child.is_none()
            }
        };
        let opens = activity_of(&mut shell(&format!("exec cat < {fifo}")), is_in("open"));
        assert_eq!((opens.file.as_deref(), opens.state), (Some(fifo), Some(State::Sleeping)));
        assert!(opens.started_seconds.unwrap() < 60.0);
        let reads = activity_of(&mut shell("exec cat"), is_in("read"));
        assert_eq!(reads.file.as_deref(), Some("standard input"));
        let sleeps = activity_of(&mut shell("exec sleep 60"), is_in("clock_nanosleep"));
        assert_eq!((sleeps.file, sleeps.holder), (None, None));
    }

    #[test]
    fn rank_that_waits_for_a_child_does_what_the_child_does() {
        let mut script = shell("sleep 61; true");
        let activity = activity_of(&mut script, |activity| {
            activity.call.as_deref() == Some("clock_nanosleep")
        });
        let child = activity.child.unwrap();
        assert_eq!(child.program.as_deref(), Some("sleep"));
        assert!(
            nix::sys::signal::kill(
                nix::unistd::Pid::from_raw(child.pid),
                nix::sys::signal::Signal::SIGKILL
            )
            .is_ok()
        );
    }

    #[test]
    fn holder_of_a_lock_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let held = File::create(&path).unwrap();
        held.lock().unwrap();
        let mut waits = shell(&format!("exec flock {} true", path.display()));
        let activity = activity_of(&mut waits, |activity| activity.waits_for_lock);
        assert_eq!(activity.file.as_deref(), path.to_str());
        assert_eq!(activity.holder.unwrap().pid, i32::try_from(std::process::id()).unwrap());
    }

    #[test]
    fn process_that_is_hidden_or_gone_has_no_state() {
        let proc = Proc::at(Path::new("/no/such"));
        assert_eq!(proc.activity(7), RankActivity::default());
        assert_eq!(proc.shared_memory(i32::MAX), SharedMemory::Hidden);
    }

    #[test]
    fn memory_is_shared_if_others_can_see_what_is_written() {
        let line = |permissions, path: &str| {
            is_shared(permissions, &MMapPath::Path(Path::new(path).to_owned()))
        };
        let writes = MMPermissions::READ | MMPermissions::WRITE | MMPermissions::SHARED;
        assert!(line(writes, "/dev/shm/mpich_shm_1_0"));
        assert!(line(writes, "/tmp/ompi/segment (deleted)"));
        assert!(is_shared(writes, &MMapPath::Vsys(3)));
        assert!(!line(MMPermissions::READ | MMPermissions::SHARED, "/dev/shm/store"));
        assert!(!line(MMPermissions::READ | MMPermissions::WRITE, "/usr/lib/libc.so"));
        assert!(!line(writes, "/dev/nvidia0"));
        let mut plain = shell("exec cat");
        let pid = i32::try_from(plain.id()).unwrap();
        assert_eq!(Proc::default().shared_memory(pid), SharedMemory::None);
        plain.kill().unwrap();
        plain.wait().unwrap();
    }
}
