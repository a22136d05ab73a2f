//! Judges the behaviour of a client.

use super::super::matrix::UNTOUCHED;
use super::super::verdict::{Finding, Verdict, shown};
use super::rank::Ended;
use super::serve::Ran;
use super::twist::{Hope, Twist, Way};

/// Behaviour of a client without a mutation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Usual {
    /// Ends of the ranks, by rank.
    pub(super) ends: Vec<Ended>,
    /// Outputs, by rank; `None` if they differ between runs.
    pub(super) outputs: Option<Vec<String>>,
}

impl Usual {
    /// Behaviour that two runs have in common.
    pub(super) fn of(one: &Ran, other: &Ran) -> Self {
        let is_same = one.outputs == other.outputs;
        Self { ends: one.ends.clone(), outputs: is_same.then(|| one.outputs.clone()) }
    }

    /// True if every rank exited with 0, so that other runs can be compared with it.
    pub(super) fn is_well(&self) -> bool {
        self.ends.iter().all(|end| *end == Ended::Code(0))
    }
}

/// Judges a run.
pub(super) fn judge(ran: &Ran, usual: &Usual, twist: &Twist) -> Finding {
    if ran.ends.contains(&Ended::Late) {
        return Verdict::NoAnswer.on(format!("hangs; {}", asked(ran)));
    }
    if ran.is_astray {
        return Verdict::Wrong
            .on(format!("takes a wrong value: one that nobody has put; {}", end(ran)));
    }
    if let Some(fault) = &ran.fault {
        return Verdict::Wrong.on(format!("sends nonsense: {fault}"));
    }
    let is_told = matches!(twist.way, Way::Abort);
    let crashes = |end: &Ended| matches!(end, Ended::Signal(_)) && !(is_told && *end == TOLD);
    if ran.ends.iter().any(crashes) && ran.ends != usual.ends {
        return Verdict::Wrong.on(format!("crashes: {}; {}", end(ran), asked(ran)));
    }
    let is_well = ran.ends.iter().all(|end| *end == Ended::Code(0));
    if matches!(twist.way, Way::Plain) {
        return match is_well {
            _ if ran.asked.is_empty() => {
                Verdict::Refused.on(format!("speaks no PMI that is offered here: {}", end(ran)))
            }
            true => Verdict::AsSpecified.on(format!("goes on; {}", asked(ran))),
            false => Verdict::Refused.on(format!("says so: {}; {}", end(ran), asked(ran))),
        };
    }
    if ran.changed_count == 0 {
        return Verdict::AsSpecified.on(UNTOUCHED);
    }
    if matches!(twist.way, Way::Abort) && ran.ends.iter().all(|end| *end == TOLD) {
        return Verdict::AsSpecified.on("ends when it is told to");
    }
    if ran.ends != usual.ends {
        let verdict =
            if twist.hope == Hope::GoesOn { Verdict::Refused } else { Verdict::AsSpecified };
        return verdict.on(format!("says so: {}", end(ran)));
    }
    if let Some((now, then)) = otherwise(ran, usual) {
        let verdict =
            if twist.hope == Hope::GoesOn { Verdict::Wrong } else { Verdict::AsSpecified };
        let how = if twist.hope == Hope::GoesOn { "takes a wrong value" } else { "goes on" };
        return verdict.on(format!("{how}: it writes '{now}' in place of '{then}'"));
    }
    match twist.hope {
        Hope::SaysSo => Verdict::Tolerated.on("goes on, as if nothing were wrong"),
        Hope::GoesOn | Hope::Either => Verdict::AsSpecified.on("goes on"),
    }
}

/// First output line that differs from the usual output, and the usual line.
fn otherwise(ran: &Ran, usual: &Usual) -> Option<(String, String)> {
    let pairs = ran.outputs.iter().zip(usual.outputs.as_ref()?);
    let (now, then) = pairs.into_iter().find(|(now, then)| now != then)?;
    let differing = |one: &str, other: &str| {
        let mut lines = one.lines().zip(other.lines().map(Some).chain(std::iter::repeat(None)));
        let line = lines.find(|(line, other)| Some(*line) != *other).map(|(line, _)| line);
        shown(line.unwrap_or_default().as_bytes())
    };
    Some((differing(now, then), differing(then, now)))
}

/// Ends of the ranks, one for all if they are equal, and the first complaint.
fn end(ran: &Ran) -> String {
    let ends = match ran.ends.split_first() {
        Some((first, rest)) if rest.iter().all(|end| end == first) => first.to_string(),
        _ => ran.ends.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    };
    match &ran.complaint {
        Some(complaint) => format!("{ends}, '{complaint}'"),
        None => format!("{ends}, without a word"),
    }
}

/// Requests of rank 0 in their order; repetitions are counted.
fn asked(ran: &Ran) -> String {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for word in &ran.asked {
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
        return "rank 0 asks nothing".to_owned();
    }
    let left = words.len().saturating_sub(SHOWN_MAX);
    words.truncate(SHOWN_MAX);
    let more = if left > 0 { format!(" and {left} more") } else { String::new() };
    format!("rank 0 asks: {}{more}", words.join(" "))
}

/// End of a rank that is terminated by `SIGTERM` and does not handle it.
const TOLD: Ended = Ended::Signal(signal_hook::consts::SIGTERM);

/// Number of requests that are shown.
const SHOWN_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(ends: &[Ended], changed_count: usize) -> Ran {
        let asked = ["init", "get", "get", "put", "get"].map(str::to_owned).to_vec();
        let outputs = vec!["a\nb\n".to_owned(); ends.len()];
        let ends = ends.to_vec();
        let complaint = Some("no".to_owned());
        Ran { ends, asked, changed_count, fault: None, complaint, is_astray: false, outputs }
    }

    fn twist(name: &str) -> &'static Twist {
        Twist::ALL.iter().find(|twist| twist.name == name).unwrap()
    }

    const WELL: [Ended; 2] = [Ended::Code(0); 2];

    fn usual() -> Usual {
        Usual { ends: WELL.to_vec(), outputs: Some(vec!["a\nb\n".to_owned(); 2]) }
    }

    #[track_caller]
    fn is_judged(ran: &Ran, name: &str, verdict: Verdict, seen: &str) {
        let found = judge(ran, &usual(), twist(name));
        assert!(found.verdict == verdict && found.seen.starts_with(seen), "{found:?}");
    }

    #[test]
    fn a_run_is_judged_by_the_plain_one_and_by_what_can_be_hoped_for() {
        use Verdict::{AsSpecified, NoAnswer, Refused, Tolerated, Wrong};
        let (good, bad) = (ran(&WELL, 3), ran(&[Ended::Code(0), Ended::Code(1)], 3));
        is_judged(&good, "client-plain", AsSpecified, "goes on; rank 0 asks: init get*2 put get");
        is_judged(&bad, "client-plain", Refused, "says so: exit code 0, exit code 1, 'no'");
        is_judged(&good, "client-order", AsSpecified, "goes on");
        is_judged(&bad, "client-order", Refused, "says so");
        is_judged(&good, "client-errors", AsSpecified, "goes on");
        is_judged(&bad, "client-errors", AsSpecified, "says so");
        is_judged(&good, "client-no-put", Tolerated, "goes on, as if");
        is_judged(&bad, "client-no-put", AsSpecified, "says so");
        is_judged(&ran(&WELL, 0), "client-no-put", AsSpecified, "asks for nothing");
        let crashed = ran(&[Ended::Code(1), Ended::Signal(11)], 1);
        is_judged(&crashed, "client-errors", Wrong, "crashes: exit code 1, signal 11");
        is_judged(&ran(&[Ended::Signal(15); 2], 1), "client-abort", AsSpecified, "ends when");
        is_judged(&bad, "client-abort", AsSpecified, "says so");
        is_judged(&ran(&[Ended::Signal(15); 2], 1), "client-slow", Wrong, "crashes");
        is_judged(&ran(&[Ended::Late; 2], 1), "client-slow", NoAnswer, "hangs; rank 0 asks");
        let silent = Ran { asked: Vec::new(), ..ran(&WELL, 0) };
        is_judged(&silent, "client-plain", Refused, "speaks no PMI");
    }

    #[test]
    fn a_wrong_value_is_seen_by_what_is_said_and_written() {
        let astray = Ran { is_astray: true, ..ran(&WELL, 1) };
        is_judged(&astray, "client-missing", Verdict::Wrong, "takes a wrong value");
        let mut other = ran(&WELL, 1);
        other.outputs[1] = "a\nc\n".to_owned();
        let seen = "takes a wrong value: it writes 'c' in place of 'b'";
        is_judged(&other, "client-order", Verdict::Wrong, seen);
        is_judged(&other, "client-missing", Verdict::AsSpecified, "goes on: it writes 'c'");
        let any = Usual { outputs: None, ..usual() };
        assert_eq!(judge(&other, &any, twist("client-order")).seen, "goes on");
    }
}
