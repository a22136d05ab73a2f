//! Tables for people: one for all, and one by fault.

use super::case::FaultCase;
use super::outcome::CaseOutcome;
use super::pool::PoolState;
use super::table::FAULTS;
use crate::process;
use std::fs;

/// Counts of one launcher, over some of its cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    runs: u32,
    hangs: u32,
    orphans: u32,
    wrong: u32,
    lost: u32,
    strangers: u32,
}

impl Counts {
    fn of<'a>(outcomes: impl Iterator<Item = &'a CaseOutcome>) -> Self {
        let mut counts = Self::default();
        for outcome in outcomes {
            counts.runs += 1;
            counts.hangs += u32::from(outcome.hangs());
            counts.orphans += u32::from(!outcome.orphans.is_empty());
            counts.wrong += u32::from(outcome.is_wrong);
            counts.lost += u32::from(outcome.lost > 0);
            counts.strangers += u32::from(outcome.strangers_killed);
        }
        counts
    }

    const fn bad(self) -> u32 {
        self.hangs + self.orphans + self.wrong + self.lost + self.strangers
    }

    fn cells(self) -> [String; 6] {
        [self.runs, self.hangs, self.orphans, self.wrong, self.lost, self.strangers]
            .map(|count| count.to_string())
    }

    /// The counts above 0, in few letters.
    fn short(self) -> String {
        if self.runs == 0 {
            return "–".into();
        }
        let parts = [
            (self.hangs, "hang"),
            (self.orphans, "orphan"),
            (self.wrong, "code"),
            (self.lost, "lost"),
            (self.strangers, "foreign"),
        ];
        let found = parts.iter().filter(|(count, _)| *count > 0);
        let words: Vec<_> = found.map(|(count, word)| format!("{count} {word}")).collect();
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
    let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = String::from(
        "| launcher | runs | hangs | orphans | wrong exit codes | lost data | foreign processes killed |\n\
         | :-- | --: | --: | --: | --: | --: | --: |\n",
    );
    for label in &labels {
        let counts = Counts::of(all(states, label).iter().map(|(_, outcome)| outcome));
        text += &row(&[&[label.to_string()][..], &counts.cells()[..]].concat());
    }
    text += "\nBy fault; faults that are not listed did not occur:\n\n";
    let head =
        [&["fault".to_string()][..], &labels.iter().map(|l| l.to_string()).collect::<Vec<_>>()];
    text += &row(&head.concat());
    text += &format!("| :-- |{}\n", " :-- |".repeat(labels.len()));
    for &(fault, name, _) in FAULTS {
        let mut cells = vec![format!("`{name}`")];
        for label in &labels {
            let of_fault = all(states, label);
            let of_fault = of_fault.iter().filter(|(case, _)| case.fault == fault);
            cells.push(Counts::of(of_fault.map(|(_, outcome)| outcome)).short());
        }
        text += &row(&cells);
    }
    text
}

/// Puts `text` into the page, between its two marks.
///
/// # Errors
///
/// The page cannot be read or written, or does not have the marks.
pub(super) fn write(text: &str) -> Result<(), String> {
    let path = process::root().join(PAGE);
    let page = fs::read_to_string(&path).map_err(|error| format!("{PAGE}: {error}"))?;
    fs::write(&path, replace(&page, text)?).map_err(|error| format!("{PAGE}: {error}"))
}

fn replace(page: &str, text: &str) -> Result<String, String> {
    let lost = || format!("{PAGE} has no lines {START} and {END}");
    let (before, rest) = page.split_once(START).ok_or_else(lost)?;
    let (_, after) = rest.split_once(END).ok_or_else(lost)?;
    Ok(format!("{before}{START}\n\n{text}\n{END}{after}"))
}

const PAGE: &str = "docs/reliability.md";
const START: &str = "<!-- faults -->";
const END: &str = "<!-- end faults -->";

#[cfg(test)]
mod tests {
    use super::super::case::{Selection, list};
    use super::super::table::Fault;
    use super::*;

    #[test]
    fn the_tables_count_each_defect_of_each_launcher() {
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
        assert!(text.contains("| a | 10 | 0 | 0 | 0 | 0 | 0 |"), "{text}");
        assert!(text.contains("| b | 10 | 0 | 3 | 0 | 0 | 0 |"), "{text}");
        assert!(text.contains("| `daemon` | 0 of 10 | 3 orphan of 10 |"), "{text}");
        assert!(text.contains("| `exit` | – | – |"), "{text}");
        assert_eq!((bad(&state, "a"), bad(&state, "b")), (0, 3));
    }

    #[test]
    fn the_page_has_a_place_for_the_tables() {
        let page = fs::read_to_string(process::root().join(PAGE)).unwrap();
        let once = replace(&page, "new\n").unwrap();
        assert_eq!(replace(&once, "new\n"), Ok(once));
        assert!(replace("no marks", "").is_err());
    }
}
