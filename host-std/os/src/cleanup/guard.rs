//! Guard: a process that outlives the launcher by a moment, so that no rank does.
//!
//! A launcher that is killed by `SIGKILL` cannot terminate its ranks, and the system does not do it
//! either. A signal at the death of the parent (`PR_SET_PDEATHSIG`) would need code of the launcher in
//! every child, and terminate ranks before their descendants are found: a daemon that has lost its
//! parent cannot be assigned to the run any more. So one small process is started before all ranks, in a
//! session of its own, where no terminal reaches it. It waits for the end of a pipe that only the
//! launcher holds open, and through which it receives the ranks and the files to remove. If the launcher
//! has dismissed it before, it just exits; otherwise it terminates the processes of the run: see
//! [`survivors`](super::survivors). If a rank had the launcher's terminal, the guard restores its modes.
//!
//! A guard that is killed itself is replaced at once, for the launcher may be the next; and its name
//! differs from that of the launcher, so that `killall -9` of one spares the other.
//!
//! A head has a guard for its starters, which would wait for node servers that wait for the head: an
//! `ssh` that does not get through yet, or to a host that is stopped.
//!
//! The guard of a node server also notices when its starter has gone, and with it the run: a node server that
//! is stopped cannot notice that, and its ranks would run on. The guard continues it then.
//!
//! Starting a program takes longer than all other work before the first rank, and its pages take more memory
//! than those that a fork of a small process shares with it. So the guard is a fork of the launcher, which
//! does nothing but wait at first. When a run lasts for a moment, or when the guard is needed, it takes a
//! command line and an environment of its own, and does its work as this copy. It executes the program
//! where that is not possible, and in place of a guard that was killed: by then the launcher is no small
//! process any more.
//!
//! Without `/proc`, the guard has no effect.

use super::guard_protocol::{GUARD, GuardRecord, Guarded, NAME, inherited_words};
use super::survivors::watch_run;
use crate::clock;
use crate::console;
use crate::null_device;
use crate::processes::ProcessIdentity;
use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::unistd::{ForkResult, execve, fork, setsid};
use pmi_host_base::system_file;
use procfs::process::Process as ProcfsProcess;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use rustix::io::ioctl_fionbio;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, test_kill_process_group, waitpid,
};
use rustix::thread::{name as name_of_thread, set_name};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The guard of one run.
#[derive(Debug)]
pub struct Guard {
    switch: OwnedFd,
    pid: Pid,
    start: GuardStart,
    /// End of the time in which the guard only waits.
    waits_until: Instant,
    /// Reports of files and directories so far, which a guard that replaces this one needs.
    leftovers: Vec<Vec<u8>>,
    restarts: u32,
}

/// Arguments of a guard, the same for the one that replaces it.
#[derive(Debug)]
struct GuardStart {
    mark: String,
    /// Modes of the terminal to restore.
    modes: Option<String>,
    inherited: String,
    guarded: Guarded,
}

impl Guard {
    /// Starts the guard. It restores the modes of the terminal if a rank `has_terminal`, and spares
    /// `inherited` processes. `None` if the system does not support it.
    pub fn start(
        guarded: Guarded,
        has_terminal: bool,
        inherited: &[ProcessIdentity],
    ) -> Option<Self> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mark = format!("{}.{}", getpid().as_raw_nonzero(), since.as_nanos());
        let modes = has_terminal.then(console::modes_to_keep).flatten();
        let inherited = inherited_words(inherited);
        let start = GuardStart { mark, modes, inherited, guarded };
        let terminal = start
            .modes
            .as_ref()
            .and_then(|_| rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).ok());
        let (switch, pid) = start.spawn(terminal, MOMENT).ok()?;
        let waits_until = clock::now() + MOMENT - MARGIN;
        Some(Self { switch, pid, start, waits_until, leftovers: Vec::new(), restarts: 0 })
    }

    /// Replaces a guard that has exited, and reports to the new one the processes `ranks`. True if it was
    /// replaced. The launcher has given up the descriptors of a rank that is being started.
    pub fn replace(&mut self, ranks: impl Iterator<Item = i32>) -> bool {
        // The launcher has a standard input of its own by now.
        let terminal = || system_file::open("/dev/tty", OFlags::RDWR).ok();
        let terminal = self.start.modes.as_ref().and_then(|_| terminal()).map(OwnedFd::from);
        let Ok((switch, pid)) = self.start.spawn(terminal, Duration::ZERO) else { return false };
        (self.switch, self.pid, self.waits_until) = (switch, pid, clock::now());
        self.restarts += 1;
        self.report_started(ranks);
        self.leftovers.iter().for_each(|record| self.send(record));
        true
    }

    /// True if it has exited although it was not dismissed, and may be replaced.
    pub fn has_exited(&self) -> bool {
        // A guard that cannot run exits at once, and the next one would, too.
        self.restarts < RESTARTS_MAX
            && waitpid(Some(self.pid), WaitOptions::NOHANG).is_ok_and(|end| end.is_some())
    }

    /// Value of [`RUN`](super::guard_protocol::RUN) in the environment of processes of this run.
    pub fn mark(&self) -> &str {
        &self.start.mark
    }

    /// Its process: a child of the launcher that no rank has left behind.
    pub const fn pid(&self) -> Pid {
        self.pid
    }

    /// Reports that a batch of ranks or starters is about to be started. Until their processes are reported,
    /// the guard identifies them by the inode numbers of the sockets or pipes `ends`, which they inherit.
    pub fn report_starting<'a>(&self, ends: impl Iterator<Item = &'a OwnedFd>) {
        let inodes = ends.filter_map(|end| Some(rustix::fs::fstat(end).ok()?.st_ino));
        self.send(&GuardRecord::starting(inodes));
    }

    /// Reports the processes of the batch that was started.
    pub fn report_started(&self, ranks: impl Iterator<Item = i32>) {
        self.send(&GuardRecord::started(ranks));
    }

    /// Reports that a rank or starter has terminated. Its pid identifies its session as long as processes
    /// are left there.
    pub fn report_end(&self, pid: i32) {
        if !has_group(pid) {
            self.report(GuardRecord::Ended(pid));
        }
    }

    /// Reports a file to remove if the launcher is killed.
    pub fn report_file(&mut self, path: &Path) {
        self.report_leftover(GuardRecord::File(path.as_os_str().as_bytes()));
    }

    /// Reports a directory to remove with everything in it if the launcher is killed.
    pub fn report_directory(&mut self, path: &Path) {
        self.report_leftover(GuardRecord::Directory(path.as_os_str().as_bytes()));
    }

    fn report_leftover(&mut self, record: GuardRecord<'_>) {
        self.report(record);
        self.leftovers.push(record.bytes());
    }

    /// Dismisses the guard: no process of this run is left, or none is to be terminated.
    pub fn dismiss(&self) {
        self.report(GuardRecord::Goodbye);
        // While it only waits, it does not read. It is a child of the launcher, so its pid is not reused.
        if clock::now() < self.waits_until {
            let _ = kill_process(self.pid, Signal::KILL);
        }
    }

    fn report(&self, record: GuardRecord<'_>) {
        self.send(&record.bytes());
    }

    fn send(&self, record: &[u8]) {
        // A terminated guard needs no report; one that is stopped for thousands of them gets no more.
        let _ = rustix::io::write(&self.switch, record);
    }
}

/// True if there are processes in the group of a rank or starter.
pub fn has_group(pid: i32) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| test_kill_process_group(pid).is_ok())
}

impl GuardStart {
    /// Forks a guard that only waits for a `moment` at first, and returns the writing end of the pipe that it
    /// reads.
    #[allow(unsafe_code, reason = "a process is copied by fork alone")]
    fn spawn(&self, terminal: Option<OwnedFd>, moment: Duration) -> io::Result<(OwnedFd, Pid)> {
        let Self { mark, modes, inherited, guarded } = self;
        let (read, switch) = pipe_with(PipeFlags::CLOEXEC)?;
        // Writes to the guard never block.
        ioctl_fionbio(&switch, true)?;
        let null = null_device::open()?;
        let name = NAME.to_str().unwrap_or_default();
        let modes = modes.as_deref().unwrap_or_default();
        let words = [name, GUARD, mark, modes, inherited, guarded.word()];
        let words = words.map(|word| CString::new(word).unwrap_or_default());
        // A key, a stop of the process group, and the guard of an outer run, which takes the copy for a
        // rank, must not interrupt its work. Blocked signals stay so across the exec.
        let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        // The copy inherits the name, so that none has that of the launcher even for a moment.
        let own_name = name_of_thread().ok();
        let _ = set_name(NAME);
        // SAFETY: no other thread can leave a lock behind in the copy. A launcher has one thread at its
        // start; and a copy of a launcher with several threads, which replaces a guard, only makes
        // system calls and allocates memory until it executes a program or exits.
        let pid = match unsafe { fork() } {
            Ok(ForkResult::Child) => {
                drop(switch);
                let _ = setsid();
                wait_as_copy(&read, &null, terminal.as_ref(), *guarded, moment);
                if !moment.is_zero() && become_guard(&words).is_ok() {
                    let work = || watch_run(mark, modes, inherited, *guarded);
                    // A panic must not return into the code of the launcher.
                    let _ = catch_unwind(AssertUnwindSafe(work));
                    // SAFETY: as below.
                    unsafe { libc::_exit(0) }
                }
                let nothing: [CString; 0] = [];
                let _ = execve(c"/proc/self/exe", &words, &nothing);
                // SAFETY: it terminates this copy at once and runs no exit handlers: their state belongs
                // to the launcher.
                unsafe { libc::_exit(0) }
            }
            Ok(ForkResult::Parent { child }) => Ok(child.as_raw()),
            Err(error) => Err(error),
        };
        if let Some(name) = own_name {
            let _ = set_name(&name);
        }
        mask.thread_set_mask()?;
        let pid = Pid::from_raw(pid?).ok_or(io::ErrorKind::Other)?;
        Ok((switch, pid))
    }
}

/// Waits in the copy until it must become the guard: the launcher is gone, or has run for a moment.
fn wait_as_copy(
    read: &OwnedFd,
    null: &OwnedFd,
    terminal: Option<&OwnedFd>,
    guarded: Guarded,
    moment: Duration,
) {
    // A reader of the launcher's output waits for all that hold it open. A terminal is only read; no
    // process waits for its end.
    let _ = match terminal {
        Some(terminal) => rustix::stdio::dup2_stdout(terminal),
        None => rustix::stdio::dup2_stdout(null),
    };
    // The end of the starter shows at the other one.
    if guarded != Guarded::NodeRanks {
        let _ = rustix::stdio::dup2_stderr(null);
    }
    let _ = rustix::stdio::dup2_stdin(read);
    // Records are left for the program to read, and do not wake the copy.
    let mut hang_up = [PollFd::new(read, PollFlags::empty())];
    let moment = Timespec { tv_sec: 0, tv_nsec: moment.subsec_nanos().into() };
    // If waiting fails, the program handles it.
    let _ = poll(&mut hang_up, Some(&moment));
}

/// Closes the descriptors of the launcher in the copy, and replaces its command line by the first of `words`
/// that have room there, and its environment by nothing. Other guards recognize it by the command line.
///
/// # Errors
///
/// Those of the system; [`io::ErrorKind::InvalidInput`] if the command line of the launcher is shorter than
/// the first two words.
#[allow(unsafe_code, reason = "no function of a library closes all descriptors")]
fn become_guard(words: &[CString]) -> io::Result<()> {
    let stat = ProcfsProcess::myself().and_then(|process| process.stat());
    let stat = stat.map_err(|error| io::Error::other(error.to_string()))?;
    let area = |from: Option<u64>, to: Option<u64>| {
        let (from, to) = from.zip(to).ok_or(io::ErrorKind::Unsupported)?;
        let len = to.checked_sub(from).and_then(|len| usize::try_from(len).ok());
        Ok::<_, io::Error>((from, vec![0; len.ok_or(io::ErrorKind::Unsupported)?]))
    };
    let (arguments, mut line) = area(stat.arg_start, stat.arg_end)?;
    let (environment, nothing) = area(stat.env_start, stat.env_end)?;
    let mut end = 0;
    for (number, word) in words.iter().map(|word| word.as_bytes_with_nul()).enumerate() {
        match line.get_mut(end..end + word.len()) {
            Some(place) => place.copy_from_slice(word),
            None if number < 2 => return Err(io::ErrorKind::InvalidInput.into()),
            None => break,
        }
        end += word.len();
    }
    let memory = system_file::open("/proc/self/mem", OFlags::WRONLY)?;
    memory.write_all_at(&line, arguments)?;
    memory.write_all_at(&nothing, environment)?;
    drop(memory);
    // SAFETY: nothing in the copy uses a descriptor above those of standard streams after this.
    match unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// For a run longer than this, the cost of a control group is negligible.
const MOMENT: Duration = Duration::from_millis(100);

/// Margin before that moment within which the copy has surely not begun its work.
const MARGIN: Duration = Duration::from_millis(20);

/// Upper bound of the number of guards that replace one another.
const RESTARTS_MAX: u32 = 16;
