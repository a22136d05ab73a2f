//! Scheduling of ranks that initialize.
//!
//! Ranks of MPI libraries wait for each other in memory while they initialize, and yield the processor
//! meanwhile. On a busy machine each leads a session, and where the kernel divides time by session a yield
//! reaches no other rank: one that waits uses up its slice of 3 ms, and so does the next. With slices of
//! 0.1 ms the others have their turn sooner. Their share of the processors stays the same.
//!
//! Where ranks share processors that are idle otherwise, each reply of the launcher wakes a rank that would
//! take the processor from the launcher at once, which takes two switches for one request. Ranks of the
//! batch policy wait until the launcher has answered all, and then have their turns one after the other.
//!
//! Both end some time after the last message of the ranks, since computing gains nothing by them.

use crate::launch::plan::job::InitScheduling;
use nix::libc::{self, c_long, c_uint, pid_t, sched_attr};
use pmi_host_os::clock;
use procfs::process::Process;
use rustix::process::Pid;
use std::ptr;
use std::time::{Duration, Instant};

/// Scheduling that this process gives to ranks.
#[derive(Clone, Copy)]
pub(super) struct RankScheduling {
    /// Scheduling of this process, which ranks inherit.
    own: sched_attr,
}

impl RankScheduling {
    /// Scheduling by a process that is scheduled as usual; `None` if the user has chosen another policy, or
    /// the system has no slices (before Linux 6.12).
    pub(super) fn of_this_process() -> Option<Self> {
        let own = scheduling(0)?;
        (is_usual(&own) && own.sched_runtime > SHORT_NS).then_some(Self { own })
    }

    /// Sets the scheduling of a rank that has just started. Without an effect, it only takes longer.
    pub(super) fn begin(&self, rank: Pid, init: InitScheduling) {
        let mut attributes = self.own;
        match init {
            InitScheduling::Usual => return,
            InitScheduling::ShortSlice => attributes.sched_runtime = SHORT_NS,
            InitScheduling::Batch => {
                attributes.sched_policy = BATCH;
                attributes.sched_runtime = self.mark_ns();
            }
        }
        schedule(rank.as_raw_nonzero().get(), &mut attributes);
    }

    /// Slice by which ranks that this launcher has given the batch policy differ from others.
    fn mark_ns(&self) -> u64 {
        self.own.sched_runtime - 1
    }

    /// True for scheduling that [`begin`](Self::begin) has set, and nothing has changed since.
    fn is_ours(&self, now: &sched_attr) -> bool {
        is_usual(now) && now.sched_runtime == SHORT_NS
            || now.sched_policy == BATCH && now.sched_runtime == self.mark_ns()
    }

    /// Gives a rank the usual scheduling, with the threads and processes that have inherited the other one.
    fn restore(&self, pid: i32) {
        let tasks = Process::new(pid).and_then(|process| process.tasks());
        for task in tasks.into_iter().flatten().flatten() {
            // Those that have changed their scheduling keep it.
            if let Some(mut now) = scheduling(task.tid)
                && self.is_ours(&now)
            {
                now.sched_policy = self.own.sched_policy;
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

/// Ranks that initialize, until they are scheduled as usual.
#[derive(Default)]
pub(crate) struct InitializingRanks {
    ranks: Vec<(RankScheduling, Pid)>,
    /// Time of the first start among them.
    begun: Option<Instant>,
    /// Time of the next [`check`](Self::check).
    check_at: Option<Instant>,
}

impl InitializingRanks {
    /// Adds a rank that has started now.
    pub(super) fn add(&mut self, scheduling: RankScheduling, rank: Pid) {
        self.ranks.push((scheduling, rank));
        if self.check_at.is_none() {
            let now = clock::now();
            (self.begun, self.check_at) = (Some(now), Some(now + SILENCE));
        }
    }

    /// Time of the next [`check`](Self::check).
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.check_at
    }

    /// Lets all be scheduled as usual if that is due: the ranks have sent nothing for a while, or began long
    /// ago. `last_message` is the time of their last message, if there was any.
    pub(crate) fn check(&mut self, now: Instant, last_message: Option<Instant>) {
        if self.check_at.is_none_or(|at| now < at) {
            return;
        }
        let silent_at = last_message.map_or(now, |last| last + SILENCE);
        if silent_at > now && self.begun.is_some_and(|begun| now < begun + LONGEST) {
            self.check_at = Some(silent_at);
            return;
        }
        for (scheduling, rank) in self.ranks.drain(..) {
            scheduling.restore(rank.as_raw_nonzero().get());
        }
        (self.begun, self.check_at) = (None, None);
    }
}

fn is_usual(scheduling: &sched_attr) -> bool {
    scheduling.sched_policy == USUAL
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

/// Policies, in the type of the structure.
const USUAL: c_uint = libc::SCHED_OTHER.cast_unsigned();
const BATCH: c_uint = libc::SCHED_BATCH.cast_unsigned();

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

    fn policy_and_slice(pid: u32) -> (c_uint, u64) {
        let now = scheduling(pid.try_into().unwrap()).unwrap();
        (now.sched_policy, now.sched_runtime)
    }

    #[test]
    fn scheduling_of_a_rank_and_its_child_ends() {
        let Some(usual) = RankScheduling::of_this_process() else { return };
        for init in [InitScheduling::Usual, InitScheduling::ShortSlice, InitScheduling::Batch] {
            check(usual, init);
        }
    }

    fn check(scheduling: RankScheduling, init: InitScheduling) {
        let mut rank: Child = Command::new("sh")
            .args(["-c", "read line; sleep 100 & echo $!; read line; kill $!"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let usual = (USUAL, scheduling.own.sched_runtime);
        let begun = match init {
            InitScheduling::Usual => usual,
            InitScheduling::ShortSlice => (USUAL, SHORT_NS),
            InitScheduling::Batch => (BATCH, scheduling.mark_ns()),
        };
        let pid = rank.id();
        assert_eq!(policy_and_slice(pid), usual);
        scheduling.begin(Pid::from_child(&rank), init);
        assert_eq!(policy_and_slice(pid), begun);
        let mut input = rank.stdin.take().unwrap();
        std::io::Write::write_all(&mut input, b"go\n").unwrap();
        let mut line = String::new();
        let output = rank.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
        let child: u32 = line.trim().parse().unwrap();
        assert_eq!(policy_and_slice(child), begun, "it is inherited");
        scheduling.restore(pid.try_into().unwrap());
        assert_eq!([policy_and_slice(pid), policy_and_slice(child)], [usual; 2]);
        std::io::Write::write_all(&mut input, b"end\n").unwrap();
        rank.wait().unwrap();
    }

    #[test]
    fn ranks_initialize_until_silence_or_for_a_limited_time() {
        let mut ranks = InitializingRanks::default();
        ranks.check(clock::now(), None);
        assert_eq!(ranks.deadline(), None);
        let begun = clock::now();
        (ranks.begun, ranks.check_at) = (Some(begun), Some(begun + SILENCE));
        let message = begun + SILENCE / 2;
        ranks.check(begun + SILENCE / 2, Some(message));
        assert_eq!(ranks.deadline(), Some(begun + SILENCE), "it is not due");
        ranks.check(begun + SILENCE, Some(message));
        assert_eq!(ranks.deadline(), Some(message + SILENCE));
        ranks.check(message + SILENCE, Some(message));
        assert_eq!((ranks.begun, ranks.deadline()), (None, None));
        (ranks.begun, ranks.check_at) = (Some(begun), Some(begun + SILENCE));
        ranks.check(begun + LONGEST, Some(begun + LONGEST));
        assert_eq!(ranks.deadline(), None, "messages do not end");
    }

    #[test]
    fn policy_that_a_program_has_chosen_is_not_changed() {
        let Some(usual) = RankScheduling::of_this_process() else { return };
        let mut chosen = usual.own;
        assert!(!usual.is_ours(&chosen));
        chosen.sched_policy = BATCH;
        assert!(!usual.is_ours(&chosen) && !is_usual(&chosen));
    }
}
