//! Slices of processor time of ranks that initialize.
//!
//! Ranks of MPI libraries wait for each other in memory while they initialize, and yield the processor
//! meanwhile. On a busy machine each leads a session, and where the kernel divides time by session a yield
//! reaches no other rank: one that waits uses up its slice of 3 ms, and so does the next. With slices of
//! 0.1 ms the others have their turn sooner. Their share of the processors stays the same.
//!
//! The short slice ends some time after the last message of the ranks, since computing gains nothing by it.

use nix::libc::{self, c_int, c_long, c_uint, pid_t, sched_attr};
use procfs::process::Process;
use rustix::process::Pid;
use std::ptr;
use std::time::{Duration, Instant};

/// Slices that this process gives to ranks.
#[derive(Clone, Copy)]
pub(crate) struct Slices {
    /// Scheduling of this process, which ranks inherit.
    own: sched_attr,
}

impl Slices {
    /// Slices of a process that is scheduled as usual; `None` if the user has chosen another policy, or the
    /// system has no slices (before Linux 6.12).
    pub(super) fn of_this_process() -> Option<Self> {
        let own = scheduling(0)?;
        (is_usual(&own) && own.sched_runtime > SHORT_NS).then_some(Self { own })
    }

    /// Gives a rank that has just started a short slice. Without an effect, it only takes longer.
    pub(super) fn shorten(&self, rank: Pid) {
        let mut short = self.own;
        short.sched_runtime = SHORT_NS;
        schedule(rank.as_raw_nonzero().get(), &mut short);
    }

    /// Gives a rank the usual slice, with the threads and processes that have inherited the short one.
    fn restore(&self, pid: i32) {
        let tasks = Process::new(pid).and_then(|process| process.tasks());
        for task in tasks.into_iter().flatten().flatten() {
            // Those that have changed their scheduling keep it.
            if let Some(mut now) = scheduling(task.tid)
                && is_usual(&now)
                && now.sched_runtime == SHORT_NS
            {
                now.sched_runtime = self.own.sched_runtime;
                schedule(task.tid, &mut now);
            }
            for child in task.children().unwrap_or_default() {
                if let Ok(child) = i32::try_from(child) {
                    self.restore(child);
                }
            }
        }
    }
}

/// Running ranks with short slices, until these end.
#[derive(Default)]
pub(crate) struct ShortSlices {
    ranks: Vec<(Slices, Pid)>,
    /// Time of the first start among them.
    begun: Option<Instant>,
    /// Time of the next [`check`](Self::check).
    check_at: Option<Instant>,
}

impl ShortSlices {
    /// Adds a rank that has started now.
    pub(super) fn add(&mut self, slices: Slices, rank: Pid) {
        self.ranks.push((slices, rank));
        if self.check_at.is_none() {
            let now = Instant::now();
            (self.begun, self.check_at) = (Some(now), Some(now + SILENCE));
        }
    }

    /// Time of the next [`check`](Self::check).
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.check_at
    }

    /// Ends the short slices if that is due: the ranks have sent nothing for a while, or began long ago.
    /// `last_message` is the time of their last message, if there was any.
    pub(crate) fn check(&mut self, now: Instant, last_message: Option<Instant>) {
        if self.check_at.is_none_or(|at| now < at) {
            return;
        }
        let silent_at = last_message.map_or(now, |last| last + SILENCE);
        if silent_at > now && self.begun.is_some_and(|begun| now < begun + LONGEST) {
            self.check_at = Some(silent_at);
            return;
        }
        for (slices, rank) in self.ranks.drain(..) {
            slices.restore(rank.as_raw_nonzero().get());
        }
        (self.begun, self.check_at) = (None, None);
    }
}

fn is_usual(scheduling: &sched_attr) -> bool {
    c_int::try_from(scheduling.sched_policy) == Ok(libc::SCHED_OTHER)
}

/// Scheduling of a thread; 0 is the calling one.
#[allow(unsafe_code, reason = "the C library has no function for this call")]
fn scheduling(thread: pid_t) -> Option<sched_attr> {
    // SAFETY: zeros are valid for a structure of numbers.
    let mut attributes: sched_attr = unsafe { std::mem::zeroed() };
    let flags: c_uint = 0;
    // SAFETY: the system writes as many bytes as are passed to it.
    let result: c_long = unsafe {
        let place = ptr::from_mut(&mut attributes);
        libc::syscall(libc::SYS_sched_getattr, thread, place, SIZE, flags)
    };
    (result == 0).then_some(attributes)
}

/// Sets the scheduling of a thread, as far as the system allows it: without it, nothing fails.
#[allow(unsafe_code, reason = "the C library has no function for this call")]
fn schedule(thread: pid_t, attributes: &mut sched_attr) {
    attributes.size = SIZE;
    let flags: c_uint = 0;
    // SAFETY: the system reads as many bytes as `size` tells.
    unsafe { libc::syscall(libc::SYS_sched_setattr, thread, ptr::from_mut(attributes), flags) };
}

/// Size of the first version of the structure.
const SIZE: c_uint = 48;
const _: () = assert!(size_of::<sched_attr>() == 48);

/// The shortest slice that the system grants.
///
/// Units: nanoseconds.
const SHORT_NS: u64 = 100_000;

/// Silence of all ranks after which none initializes any more.
const SILENCE: Duration = Duration::from_secs(1);

/// Time after which ranks that go on with messages do not initialize any more.
const LONGEST: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    fn slice(pid: u32) -> u64 {
        scheduling(pid.try_into().unwrap()).unwrap().sched_runtime
    }

    #[test]
    fn short_slice_of_a_rank_and_its_child_ends() {
        let Some(slices) = Slices::of_this_process() else { return };
        let mut rank: Child = Command::new("sh")
            .args(["-c", "read line; sleep 100 & echo $!; read line; kill $!"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (pid, usual) = (rank.id(), slices.own.sched_runtime);
        assert_eq!(slice(pid), usual);
        slices.shorten(Pid::from_child(&rank));
        assert_eq!(slice(pid), SHORT_NS);
        let mut input = rank.stdin.take().unwrap();
        std::io::Write::write_all(&mut input, b"go\n").unwrap();
        let mut line = String::new();
        let output = rank.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
        let child: u32 = line.trim().parse().unwrap();
        assert_eq!(slice(child), SHORT_NS, "it is inherited");
        slices.restore(pid.try_into().unwrap());
        assert_eq!([slice(pid), slice(child)], [usual; 2]);
        std::io::Write::write_all(&mut input, b"end\n").unwrap();
        rank.wait().unwrap();
    }

    #[test]
    fn short_slices_end_after_silence_or_in_the_end() {
        let mut short = ShortSlices::default();
        short.check(Instant::now(), None);
        assert_eq!(short.deadline(), None);
        let begun = Instant::now();
        (short.begun, short.check_at) = (Some(begun), Some(begun + SILENCE));
        let message = begun + SILENCE / 2;
        short.check(begun + SILENCE / 2, Some(message));
        assert_eq!(short.deadline(), Some(begun + SILENCE), "it is not due");
        short.check(begun + SILENCE, Some(message));
        assert_eq!(short.deadline(), Some(message + SILENCE));
        short.check(message + SILENCE, Some(message));
        assert_eq!((short.begun, short.deadline()), (None, None));
        (short.begun, short.check_at) = (Some(begun), Some(begun + SILENCE));
        short.check(begun + LONGEST, Some(begun + LONGEST));
        assert_eq!(short.deadline(), None, "messages do not end");
    }

    #[test]
    fn policy_that_a_user_has_chosen_is_not_changed() {
        let mut own = scheduling(0).unwrap();
        own.sched_policy = libc::SCHED_BATCH.try_into().unwrap();
        assert!(!is_usual(&own));
    }
}
