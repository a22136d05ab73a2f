//! A conformance case, and the list of all cases.

use super::frames::Frames;
use super::lines::Lines;
use super::verdict::{Finding, Verdict};
use super::{alone, pmi1, pmi2, second};
use std::time::Duration;

/// One tested exchange, in a launch of its own, since a launcher may end the job for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// Name of the case, which never changes: recorded matrices are compared by it.
    pub(crate) name: &'static str,
    /// Number of ranks that the case needs.
    pub(crate) ranks: u32,
    /// Short description of the tested exchange.
    pub(crate) tries: &'static str,
    /// Expected end of the job.
    pub(crate) ends: Ends,
    pub(super) play: Play,
}

/// Expected end of the job of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// Every rank finalizes, and the launcher exits with 0.
    Well,
    /// Not judged: no rank finalizes.
    Any,
    /// The launcher exits with this code, which the abort carried.
    Code(i32),
    /// The launcher exits with any code but 0.
    Badly,
    /// The launcher exits with any code: the documents specify none, and that of Hydra differs from run
    /// to run.
    Somehow,
}

/// Finding of a case; an error is a finding that ends the case early.
pub(super) type Played = Result<Finding, Finding>;

#[derive(Clone, Copy, Debug)]
pub(super) enum Play {
    Lines(fn(&mut Lines) -> Played),
    Frames(fn(&mut Frames) -> Played),
    /// Case of a singleton, with the name of the launcher and the time limit for its answers.
    Alone(fn(&str, Duration) -> Played),
}

impl Case {
    pub(super) const fn lines(
        name: &'static str,
        ranks: u32,
        tries: &'static str,
        play: fn(&mut Lines) -> Played,
    ) -> Self {
        Self { name, ranks, tries, ends: Ends::Well, play: Play::Lines(play) }
    }

    pub(super) const fn frames(
        name: &'static str,
        ranks: u32,
        tries: &'static str,
        play: fn(&mut Frames) -> Played,
    ) -> Self {
        Self { name, ranks, tries, ends: Ends::Well, play: Play::Frames(play) }
    }

    pub(super) const fn alone(
        name: &'static str,
        tries: &'static str,
        play: fn(&str, Duration) -> Played,
    ) -> Self {
        Self { name, ranks: 1, tries, ends: Ends::Well, play: Play::Alone(play) }
    }

    /// True if the rank is a singleton, which no launcher starts.
    pub(super) const fn is_alone(&self) -> bool {
        matches!(self.play, Play::Alone(_))
    }

    pub(super) const fn ending(self, ends: Ends) -> Self {
        Self { ends, ..self }
    }

    /// All cases, in the order in which they run.
    pub(crate) fn all() -> impl Iterator<Item = &'static Self> {
        let both = pmi1::CASES.iter().chain(pmi2::CASES);
        both.chain(second::CASES).chain(alone::CASES).copied().flatten()
    }

    /// The case of that name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        Self::all().find(|case| case.name == name)
    }

    /// Judges the exit of the launcher, after the ranks have reported `finding`.
    pub(crate) fn judge_end(&self, code: i32, finding: Finding) -> Finding {
        if finding.verdict > Verdict::Tolerated {
            // A refusal may have ended the session, and a worse verdict needs no addition.
            return finding;
        }
        let seen = format!("exit code {code}");
        match self.ends {
            Ends::Any => finding,
            Ends::Well if code == 0 => finding,
            Ends::Well => Verdict::Wrong.on(format!("{seen} after a good end")),
            Ends::Code(wanted) if code == wanted => Verdict::AsSpecified.on(seen),
            Ends::Code(_) | Ends::Badly if code == 0 => Verdict::Wrong.on(seen),
            Ends::Code(wanted) => Verdict::Tolerated.on(format!("{seen} in place of {wanted}")),
            Ends::Badly | Ends::Somehow => Verdict::AsSpecified.on(seen),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_cases_have_one_name_and_names_hold_no_blank() {
        let names: Vec<&str> = Case::all().map(|case| case.name).collect();
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "{name}");
            assert!(
                name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.+".contains(&b)),
                "{name}"
            );
        }
        assert!(names.len() > 80);
    }

    #[test]
    fn the_end_of_the_launcher_is_part_of_the_verdict() {
        let good = || Verdict::AsSpecified.on("fine");
        let case = |ends| Case { ends, ..*Case::all().next().unwrap() };
        assert_eq!(case(Ends::Well).judge_end(0, good()), good());
        assert_eq!(case(Ends::Well).judge_end(1, good()).verdict, Verdict::Wrong);
        assert_eq!(case(Ends::Any).judge_end(9, good()), good());
        assert_eq!(case(Ends::Code(37)).judge_end(37, good()).verdict, Verdict::AsSpecified);
        assert_eq!(case(Ends::Code(37)).judge_end(137, good()).verdict, Verdict::Tolerated);
        assert_eq!(case(Ends::Code(37)).judge_end(0, good()).verdict, Verdict::Wrong);
        assert_eq!(case(Ends::Badly).judge_end(0, good()).verdict, Verdict::Wrong);
        assert_eq!(case(Ends::Somehow).judge_end(0, good()).verdict, Verdict::AsSpecified);
        let refused = Verdict::Refused.on("x");
        assert_eq!(case(Ends::Code(37)).judge_end(0, refused.clone()), refused);
        let silent = Verdict::NoAnswer.on("x");
        assert_eq!(case(Ends::Badly).judge_end(1, silent.clone()), silent);
    }
}
