//! Sentences about ranks that others wait for: what each has not done, and what it does instead.

use super::process::State;
use super::table::{Job, NamedProcess, Phase, Rank, RankActivity};
use super::text::time;
use pmi_host_base::ranges::Ranks;

/// Ranks about which the same is to be said.
struct Cause<'a> {
    ranks: Ranks,
    /// The first of them.
    first: &'a Rank,
    what: String,
    /// Longest time since the start of a process.
    started_seconds: Option<f64>,
}

/// Number of a verb.
#[derive(Clone, Copy)]
struct Verb {
    is_plural: bool,
}

/// A sentence for each of the described ranks of `job` that are in `ends`; equal ones are said once.
pub(super) fn sentences(job: &Job, ends: &Ranks, most: usize) -> Vec<String> {
    let mut causes: Vec<Cause<'_>> = Vec::new();
    for rank in job.ranks.iter().filter(|rank| ends.contains(rank.rank)).take(most) {
        let Some(activity) = &rank.activity else { continue };
        // Compared in the singular, and without numbers of processes.
        let occupation = occupation(activity, Verb::ONE, Pids::Hidden);
        let what = format!("{:?} {:?} {occupation}", rank.phase, activity.exit_code);
        let started_seconds = activity.started_seconds;
        match causes.iter_mut().find(|cause| cause.what == what) {
            Some(cause) => {
                cause.ranks.push(rank.rank);
                cause.started_seconds =
                    [cause.started_seconds, started_seconds].into_iter().flatten().reduce(f64::max);
            }
            None => causes.push(Cause {
                ranks: [rank.rank].into_iter().collect(),
                first: rank,
                what,
                started_seconds,
            }),
        }
    }
    causes.iter().map(Cause::sentence).collect()
}

impl Cause<'_> {
    fn sentence(&self) -> String {
        let verb = Verb { is_plural: self.ranks.count() > 1 };
        let Some(activity) = &self.first.activity else { return String::new() };
        let process = self.first.pid.filter(|_| !verb.is_plural);
        let process = process.map(|pid| format!(" (process {pid})")).unwrap_or_default();
        let has = verb.of("has", "have");
        let progress = match self.first.phase {
            Phase::Absent => format!("{} not connected", verb.of("is", "are")),
            Phase::Silent => {
                let since = self.started_seconds.map(|ago| {
                    format!(" in the {} since {} start", time(ago), verb.of("its", "their"))
                });
                format!("{has} not called init{}", since.unwrap_or_default())
            }
            Phase::Open => format!("{has} called init"),
            Phase::Finalized => format!("{has} finalized"),
            Phase::Ended => {
                let code = activity.exit_code.map(|code| format!(" with code {code}"));
                return format!(
                    "{}{process} {has} ended{}, before init",
                    self.ranks.named(),
                    code.unwrap_or_default()
                );
            }
        };
        let pids = if verb.is_plural { Pids::Hidden } else { Pids::Shown };
        let occupation = occupation(activity, verb, pids);
        format!("{}{process} {progress} and {occupation}", self.ranks.named())
    }
}

impl Verb {
    const ONE: Self = Self { is_plural: false };

    /// The form of a verb, or of a pronoun.
    const fn of(self, one: &'static str, many: &'static str) -> &'static str {
        if self.is_plural { many } else { one }
    }
}

/// True if numbers of processes are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pids {
    Shown,
    Hidden,
}

/// What a rank does, as the end of a sentence.
fn occupation(activity: &RankActivity, verb: Verb, pids: Pids) -> String {
    match &activity.child {
        None => doing(activity, verb, pids),
        Some(child) => {
            let (waits, its) = (verb.of("waits", "wait"), verb.of("its child", "a child of each"));
            let which = doing(activity, Verb::ONE, pids);
            format!("{waits} for {its}, {}, which {which}", named(child, pids))
        }
    }
}

fn doing(activity: &RankActivity, verb: Verb, pids: Pids) -> String {
    let RankActivity { state, call, file, holder, waits_for_lock, .. } = activity;
    let holder = holder.as_ref().map(|holder| named(holder, pids));
    let of_file = |preposition: &str| match file {
        Some(file) => format!(" {preposition} {file}"),
        None => String::new(),
    };
    match (state, call.as_deref()) {
        (None, _) => "its state cannot be read (/proc)".to_owned(),
        (Some(State::Running), _) => verb.of("computes", "compute").to_owned(),
        (Some(State::Stopped), _) => format!("{} stopped by a signal", verb.of("is", "are")),
        (Some(State::Traced), _) => {
            let by = holder.map(|by| format!(", {by}")).unwrap_or_default();
            format!("{} held by a debugger{by}", verb.of("is", "are"))
        }
        (Some(State::Frozen), _) => {
            format!("{} frozen by {} control group", verb.of("is", "are"), verb.of("its", "their"))
        }
        (Some(State::Ended), _) => format!("{} exited", verb.of("has", "have")),
        (Some(State::Other), _) => "is in an unknown state".to_owned(),
        (Some(_), Some(_)) if *waits_for_lock => {
            let held = holder.map(|by| format!(", which {by} holds")).unwrap_or_default();
            format!("{} for a lock{}{held}", verb.of("waits", "wait"), of_file("of"))
        }
        (Some(_), Some("read" | "readv" | "pread" | "recvfrom" | "recvmsg")) => {
            format!("{} for input{}", verb.of("waits", "wait"), of_file("from"))
        }
        (Some(State::Uninterruptible), call) => {
            let call = call.map(|call| format!(" in {call}")).unwrap_or_default();
            format!(
                "{}{call}{} for a disk, a file server or a device",
                verb.of("waits", "wait"),
                of_file("of")
            )
        }
        (Some(State::Sleeping), Some(call)) => {
            format!("{} in {call}{}", verb.of("sleeps", "sleep"), of_file("of"))
        }
        (Some(State::Sleeping), None) => verb.of("sleeps", "sleep").to_owned(),
    }
}

fn named(process: &NamedProcess, pids: Pids) -> String {
    let NamedProcess { pid, program, rank } = process;
    let program = program.as_ref().map(|name| format!("'{name}'"));
    let rank = rank.map(|rank| format!("rank {rank}"));
    let name = rank.or(program);
    match (name, pids) {
        (Some(name), Pids::Hidden) => name,
        (None, Pids::Hidden) => "another process".to_owned(),
        (Some(name), Pids::Shown) => format!("{name} (process {pid})"),
        (None, Pids::Shown) => format!("process {pid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::table::tests;

    fn said(phase: Phase, activity: RankActivity) -> String {
        let mut job = tests::table().jobs.remove(0);
        (job.ranks[0].phase, job.ranks[0].activity) = (phase, Some(activity));
        sentences(&job, &[3].into_iter().collect(), 16).concat()
    }

    fn in_call(call: &str, file: Option<&str>) -> RankActivity {
        RankActivity {
            started_seconds: Some(12.4),
            state: Some(State::Sleeping),
            call: Some(call.to_owned()),
            file: file.map(str::to_owned),
            ..RankActivity::default()
        }
    }

    fn process(pid: i32, program: &str, rank: Option<u32>) -> Option<NamedProcess> {
        Some(NamedProcess { pid, program: Some(program.to_owned()), rank })
    }

    #[test]
    fn rank_before_init_is_described_by_its_call() {
        let before = "rank 3 (process 4711) has not called init in the 12 s since its start and ";
        let lock = RankActivity {
            waits_for_lock: true,
            holder: process(9, "a.out", Some(0)),
            ..in_call("flock", Some("/data/lock"))
        };
        let child = RankActivity { child: process(8, "sleep", None), ..in_call("poll", None) };
        let of = |state| RankActivity { state, ..in_call("read", None) };
        for (activity, what) in [
            (in_call("clock_nanosleep", None), "sleeps in clock_nanosleep"),
            (in_call("read", Some("standard input")), "waits for input from standard input"),
            (in_call("open", Some("/tmp/fifo")), "sleeps in open of /tmp/fifo"),
            (lock, "waits for a lock of /data/lock, which rank 0 (process 9) holds"),
            (child, "waits for its child, 'sleep' (process 8), which sleeps in poll"),
            (of(Some(State::Running)), "computes"),
            (of(Some(State::Stopped)), "is stopped by a signal"),
            (of(Some(State::Traced)), "is held by a debugger"),
            (of(Some(State::Frozen)), "is frozen by its control group"),
            (of(None), "its state cannot be read (/proc)"),
        ] {
            assert_eq!(said(Phase::Silent, activity), format!("{before}{what}"));
        }
    }

    #[test]
    fn rank_that_has_ended_is_described_by_its_code() {
        let ended = RankActivity { exit_code: Some(0), ..RankActivity::default() };
        let what = "rank 3 (process 4711) has ended with code 0, before init";
        assert_eq!(said(Phase::Ended, ended), what);
    }

    #[test]
    fn equal_sentences_are_one() {
        let mut job = tests::table().jobs.remove(0);
        let mut rows = Vec::new();
        for rank in 1..4_u32 {
            let child = process(80 + rank.cast_signed(), "sleep", None);
            let activity = Some(RankActivity { child, ..in_call("clock_nanosleep", None) });
            rows.push(Rank { rank, activity, ..job.ranks[0].clone() });
        }
        job.ranks = rows;
        let sentences = sentences(&job, &[1, 2].into_iter().collect(), 16);
        let one = "ranks 1,2 have not called init in the 12 s since their start and wait for a child of \
                   each, 'sleep', which sleeps in clock_nanosleep";
        assert_eq!(sentences, [one]);
    }
}
