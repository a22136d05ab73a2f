//! Judges the behaviour of a client.

use super::super::matrix::UNTOUCHED;
use super::super::verdict::{Finding, Verdict, shown};
use super::mutation::{Expectation, Mutation, MutationKind};
use super::rank_process::RankEnd;
use super::serve::RunResult;

/// Behaviour of a client without a mutation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Baseline {
    /// Ends of the ranks, by rank.
    pub(super) exits: Vec<RankEnd>,
    /// Outputs, by rank; `None` if they differ between runs.
    pub(super) outputs: Option<Vec<String>>,
}

impl Baseline {
    /// Behaviour that two runs have in common.
    pub(super) fn of(one: &RunResult, other: &RunResult) -> Self {
        let is_same = one.outputs == other.outputs;
        Self { exits: one.exits.clone(), outputs: is_same.then(|| one.outputs.clone()) }
    }

    /// True if every rank exited with 0, so that other runs can be compared with it.
    pub(super) fn is_success(&self) -> bool {
        self.exits.iter().all(|exits_shown| *exits_shown == RankEnd::Code(0))
    }
}

/// Judges a run.
pub(super) fn judge(result: &RunResult, baseline: &Baseline, mutation: &Mutation) -> Finding {
    if result.exits.contains(&RankEnd::Late) {
        return Verdict::NoAnswer.on(format!("hangs; {}", requests(result)));
    }
    if result.has_foreign_value {
        return Verdict::Wrong
            .on(format!("takes a wrong value: one that no rank has put; {}", exits_shown(result)));
    }
    if let Some(fault) = &result.fault {
        return Verdict::Wrong.on(format!("sends nonsense: {fault}"));
    }
    let is_abort = matches!(mutation.kind, MutationKind::Abort);
    let crashes = |exits_shown: &RankEnd| {
        matches!(exits_shown, RankEnd::Signal(_)) && !(is_abort && *exits_shown == ABORTED)
    };
    if result.exits.iter().any(crashes) && result.exits != baseline.exits {
        return Verdict::Wrong.on(format!(
            "crashes: {}; {}",
            exits_shown(result),
            requests(result)
        ));
    }
    let is_success = result.exits.iter().all(|exits_shown| *exits_shown == RankEnd::Code(0));
    if matches!(mutation.kind, MutationKind::Plain) {
        return match is_success {
            _ if result.requests.is_empty() => Verdict::Refused
                .on(format!("speaks none of the offered protocols: {}", exits_shown(result))),
            true => Verdict::AsSpecified.on(format!("continues; {}", requests(result))),
            false => Verdict::Refused.on(format!(
                "reports it: {}; {}",
                exits_shown(result),
                requests(result)
            )),
        };
    }
    if result.changed_count == 0 {
        return Verdict::AsSpecified.on(UNTOUCHED);
    }
    if matches!(mutation.kind, MutationKind::Abort)
        && result.exits.iter().all(|exits_shown| *exits_shown == ABORTED)
    {
        return Verdict::AsSpecified.on("terminates on the signal");
    }
    let must_continue = mutation.expectation == Expectation::Continues;
    if result.exits != baseline.exits {
        let verdict = if must_continue { Verdict::Refused } else { Verdict::AsSpecified };
        return verdict.on(format!("reports it: {}", exits_shown(result)));
    }
    if let Some((now, then)) = differing_output(result, baseline) {
        let (verdict, how) = match must_continue {
            true => (Verdict::Wrong, "takes a wrong value"),
            false => (Verdict::AsSpecified, "continues"),
        };
        return verdict.on(format!("{how}: it writes '{now}' in place of '{then}'"));
    }
    match mutation.expectation {
        Expectation::Fails => Verdict::Tolerated.on("continues, as if nothing were wrong"),
        Expectation::Continues | Expectation::ContinuesOrFails => {
            Verdict::AsSpecified.on("continues")
        }
    }
}

/// First output line that differs from the baseline, and the line of the baseline.
fn differing_output(result: &RunResult, baseline: &Baseline) -> Option<(String, String)> {
    let pairs = result.outputs.iter().zip(baseline.outputs.as_ref()?);
    let (now, then) = pairs.into_iter().find(|(now, then)| now != then)?;
    let differing = |one: &str, other: &str| {
        let mut lines = one.lines().zip(other.lines().map(Some).chain(std::iter::repeat(None)));
        let line = lines.find(|(line, other)| Some(*line) != *other).map(|(line, _)| line);
        shown(line.unwrap_or_default().as_bytes())
    };
    Some((differing(now, then), differing(then, now)))
}

/// Ends of the ranks, one for all if they are equal, and the first complaint.
fn exits_shown(result: &RunResult) -> String {
    let exits = match result.exits.split_first() {
        Some((first, rest)) if rest.iter().all(|exits_shown| exits_shown == first) => {
            first.to_string()
        }
        _ => result.exits.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    };
    match &result.complaint {
        Some(complaint) => format!("{exits}, '{complaint}'"),
        None => format!("{exits}, without a word"),
    }
}

/// Requests of rank 0 in their order; repetitions are counted.
fn requests(result: &RunResult) -> String {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for word in &result.requests {
        match counted.last_mut() {
            Some((last, count)) if last == word => *count += 1,
            _ => counted.push((word, 1)),
        }
    }
    let mut words: Vec<String> = counted
        .iter()
        .map(
            |(word, count)| if *count > 1 { format!("{word}*{count}") } else { (*word).to_owned() },
        )
        .collect();
    if words.is_empty() {
        return "rank 0 sent nothing".to_owned();
    }
    let left = words.len().saturating_sub(SHOWN_MAX);
    words.truncate(SHOWN_MAX);
    let more = if left > 0 { format!(" and {left} more") } else { String::new() };
    format!("rank 0 sent: {}{more}", words.join(" "))
}

/// End of a rank that is terminated by `SIGTERM` and does not handle it.
const ABORTED: RankEnd = RankEnd::Signal(signal_hook::consts::SIGTERM);

/// Number of requests that are shown.
const SHOWN_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    fn result(exits: &[RankEnd], changed_count: usize) -> RunResult {
        let requests = ["init", "get", "get", "put", "get"].map(str::to_owned).to_vec();
        let outputs = vec!["a\nb\n".to_owned(); exits.len()];
        let exits = exits.to_vec();
        let complaint = Some("no".to_owned());
        RunResult {
            exits,
            requests,
            changed_count,
            fault: None,
            complaint,
            has_foreign_value: false,
            outputs,
        }
    }

    fn mutation(name: &str) -> &'static Mutation {
        Mutation::ALL.iter().find(|mutation| mutation.name == name).unwrap()
    }

    const WELL: [RankEnd; 2] = [RankEnd::Code(0); 2];

    fn baseline() -> Baseline {
        Baseline { exits: WELL.to_vec(), outputs: Some(vec!["a\nb\n".to_owned(); 2]) }
    }

    #[track_caller]
    fn is_judged(result: &RunResult, name: &str, verdict: Verdict, seen: &str) {
        let found = judge(result, &baseline(), mutation(name));
        assert!(found.verdict == verdict && found.seen.starts_with(seen), "{found:?}");
    }

    #[test]
    fn run_is_judged_by_the_plain_one_and_by_what_can_be_hoped_for() {
        use Verdict::{AsSpecified, NoAnswer, Refused, Tolerated, Wrong};
        let (good, bad) = (result(&WELL, 3), result(&[RankEnd::Code(0), RankEnd::Code(1)], 3));
        is_judged(&good, "client-plain", AsSpecified, "continues; rank 0 sent: init get*2 put get");
        is_judged(&bad, "client-plain", Refused, "reports it: exit code 0, exit code 1, 'no'");
        is_judged(&good, "client-order", AsSpecified, "continues");
        is_judged(&bad, "client-order", Refused, "reports it");
        is_judged(&good, "client-errors", AsSpecified, "continues");
        is_judged(&bad, "client-errors", AsSpecified, "reports it");
        is_judged(&good, "client-no-put", Tolerated, "continues, as if");
        is_judged(&bad, "client-no-put", AsSpecified, "reports it");
        is_judged(&result(&WELL, 0), "client-no-put", AsSpecified, "sends no request");
        let crashed = result(&[RankEnd::Code(1), RankEnd::Signal(11)], 1);
        is_judged(&crashed, "client-errors", Wrong, "crashes: exit code 1, signal 11");
        is_judged(
            &result(&[RankEnd::Signal(15); 2], 1),
            "client-abort",
            AsSpecified,
            "terminates on",
        );
        is_judged(&bad, "client-abort", AsSpecified, "reports it");
        is_judged(&result(&[RankEnd::Signal(15); 2], 1), "client-slow", Wrong, "crashes");
        is_judged(&result(&[RankEnd::Late; 2], 1), "client-slow", NoAnswer, "hangs; rank 0 sent");
        let silent = RunResult { requests: Vec::new(), ..result(&WELL, 0) };
        is_judged(&silent, "client-plain", Refused, "speaks none");
    }

    #[test]
    fn wrong_value_is_seen_by_what_is_said_and_written() {
        let astray = RunResult { has_foreign_value: true, ..result(&WELL, 1) };
        is_judged(&astray, "client-missing", Verdict::Wrong, "takes a wrong value");
        let mut other = result(&WELL, 1);
        other.outputs[1] = "a\nc\n".to_owned();
        let seen = "takes a wrong value: it writes 'c' in place of 'b'";
        is_judged(&other, "client-order", Verdict::Wrong, seen);
        is_judged(&other, "client-missing", Verdict::AsSpecified, "continues: it writes 'c'");
        let any = Baseline { outputs: None, ..baseline() };
        assert_eq!(judge(&other, &any, mutation("client-order")).seen, "continues");
    }
}
