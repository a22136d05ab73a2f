//! Tables for people: one for all, and one by fault.

use super::case::FaultCase;
use super::outcome::{CaseOutcome, DEFECTS};
use super::pool::PoolState;
use super::table::{FAULTS, Fault, HOST_FAULTS, NODE_FAULTS, name};
use crate::page;

/// Counts of one launcher, over some of its cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    runs: u32,
    /// By the rows of [`DEFECTS`].
    defects: [u32; DEFECTS.len()],
}

impl Counts {
    fn of<'a>(outcomes: impl Iterator<Item = &'a CaseOutcome>) -> Self {
        let mut counts = Self::default();
        for outcome in outcomes {
            counts.runs += 1;
            for (count, (_, is_found)) in counts.defects.iter_mut().zip(DEFECTS) {
                *count += u32::from(is_found(outcome));
            }
        }
        counts
    }

    fn bad(self) -> u32 {
        self.defects.iter().sum()
    }

    fn cells(self) -> impl Iterator<Item = String> {
        [self.runs].into_iter().chain(self.defects).map(|count| count.to_string())
    }

    /// The counts above 0, in few letters.
    fn short(self) -> String {
        if self.runs == 0 {
            return "–".into();
        }
        let found = self.defects.iter().zip(DEFECTS).filter(|(count, _)| **count > 0);
        let words: Vec<_> = found.map(|(count, (word, _))| format!("{count} {word}")).collect();
        match words.is_empty() {
            true => format!("0 of {}", self.runs),
            false => format!("{} of {}", words.join(", "), self.runs),
        }
    }
}

/// Number of defects of `label`; an outcome with two of them counts twice.
pub(super) fn bad(state: &PoolState, label: &str) -> u32 {
    Counts::of(outcomes(state, label).map(|(_, outcome)| outcome)).bad()
}

fn outcomes<'a>(
    state: &'a PoolState,
    label: &'a str,
) -> impl Iterator<Item = &'a (FaultCase, CaseOutcome)> {
    state.done.iter().filter(move |((found, _), _)| found == label).map(|(_, outcome)| outcome)
}

fn all<'a>(states: &'a [PoolState], label: &'a str) -> Vec<&'a (FaultCase, CaseOutcome)> {
    states.iter().flat_map(|state| outcomes(state, label)).collect()
}

/// The tables as Markdown.
pub(super) fn render(states: &[PoolState]) -> String {
    let mut labels: Vec<&String> = Vec::new();
    for label in states.iter().flat_map(|state| &state.labels) {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    let counts = |label: &String| {
        let counts = Counts::of(all(states, label).iter().map(|(_, outcome)| outcome));
        [label.clone()].into_iter().chain(counts.cells()).collect()
    };
    let header = "launcher|runs|hangs|orphans|wrong exit codes|lost data|foreign processes killed|\
                  files left|keys shown";
    let header: Vec<&str> = header.split('|').collect();
    let mut text = page::table(
        &header,
        [":--", "--:"],
        &labels.iter().copied().map(counts).collect::<Vec<_>>(),
    );
    text += "\nBy fault; faults that are not listed did not occur:\n\n";
    let by_fault = |&(fault, _): &(Fault, &str)| {
        let of_label = |label: &&String| {
            let of_fault = all(states, label).into_iter().filter(|(case, _)| case.fault == fault);
            Counts::of(of_fault.map(|(_, outcome)| outcome)).short()
        };
        [format!("`{}`", name(fault))].into_iter().chain(labels.iter().map(of_label)).collect()
    };
    let header: Vec<&str> =
        ["fault"].into_iter().chain(labels.iter().map(|label| label.as_str())).collect();
    let is_met = |(fault, _): &&(Fault, &str)| {
        states.iter().flat_map(|state| state.done.values()).any(|(case, _)| case.fault == *fault)
    };
    let rows = FAULTS.iter().chain(NODE_FAULTS).chain(HOST_FAULTS).filter(is_met).map(by_fault);
    text + &page::table(&header, [":--", ":--"], &rows.collect::<Vec<_>>())
}

/// Puts the tables of these states into the page, between their two marks.
///
/// # Errors
///
/// The page cannot be read or written, or does not have the marks.
pub(super) fn write(states: &[PoolState]) -> Result<(), String> {
    let is_any = |is: fn(&PoolState) -> bool| states.iter().any(is);
    let marks = match () {
        () if is_any(|state| state.selection.has_hosts) => HOST_MARKS,
        () if is_any(|state| state.selection.nodes > 0) => NODE_MARKS,
        () => MARKS,
    };
    page::write(PAGE, marks, &render(states))
}

const PAGE: &str = "docs/reliability.md";
const MARKS: [&str; 2] = ["<!-- faults -->", "<!-- end faults -->"];
const NODE_MARKS: [&str; 2] = ["<!-- faults over nodes -->", "<!-- end faults over nodes -->"];
const HOST_MARKS: [&str; 2] = ["<!-- faults over hosts -->", "<!-- end faults over hosts -->"];

#[cfg(test)]
mod tests {
    use super::super::case::{Selection, list};
    use super::*;

    #[test]
    fn tables_count_each_defect_of_each_launcher() {
        let selection =
            Selection { sizes: vec![2], faults: vec![Fault::Daemon], ..Selection::default() };
        let good = CaseOutcome { code: Some(1), ..CaseOutcome::default() };
        let mut state = PoolState { labels: vec!["a".into(), "b".into()], ..PoolState::default() };
        for case in list(&selection) {
            let orphans = if case.id < 3 { vec!["sleep".into()] } else { vec![] };
            let outcome = CaseOutcome { orphans, ..good.clone() };
            state.done.insert(("b".into(), case.id), (case.clone(), outcome));
            state.done.insert(("a".into(), case.id), (case, good.clone()));
        }
        let text = render(&[state.clone()]);
        assert!(text.contains("| a | 10 | 0 | 0 | 0 | 0 | 0 | 0 | 0 |"), "{text}");
        assert!(text.contains("| b | 10 | 0 | 3 | 0 | 0 | 0 | 0 | 0 |"), "{text}");
        assert!(text.contains("| `daemon` | 0 of 10 | 3 orphan of 10 |"), "{text}");
        assert!(!text.contains("`exit`"), "{text}");
        assert_eq!((bad(&state, "a"), bad(&state, "b")), (0, 3));
    }

    #[test]
    fn page_has_a_place_for_the_tables() {
        let document = std::fs::read_to_string(crate::process::root().join(PAGE)).unwrap();
        for marks in [MARKS, NODE_MARKS, HOST_MARKS] {
            assert!(page::replace(&document, marks, "new\n").is_ok(), "{marks:?}");
        }
    }
}
