//! A conformance case, and the list of all cases.

use super::rank_client::{CaseProtocol, RankClient};
use super::verdict::{Finding, Verdict};
use super::{pmi1, pmi2, second_connection, singleton};
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
    pub(crate) exit: ExpectedExit,
    pub(super) body: CaseBody,
}

/// Expected end of the job of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpectedExit {
    /// Every rank finalizes, and the launcher exits with 0.
    Success,
    /// Not judged: no rank finalizes.
    Any,
    /// The launcher exits with this code, which the abort carried.
    Code(i32),
    /// The launcher exits with any code but 0.
    Failure,
    /// The launcher exits with any code: the documents specify none, and that of Hydra differs from run
    /// to run.
    Unspecified,
}

/// Finding of a case; an error is a finding that ends the case early.
pub(super) type CaseResult = Result<Finding, Finding>;

/// Exchange of a rank with its server.
pub(super) type RankPlay = fn(&mut RankClient) -> CaseResult;

#[derive(Clone, Copy, Debug)]
pub(super) enum CaseBody {
    Rank(RankCase),
    /// Case of a singleton, with the name of the launcher and the time limit for its answers.
    Singleton(fn(&str, Duration) -> CaseResult),
}

/// Case of a rank that a launcher starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankCase {
    pub(super) protocol: CaseProtocol,
    /// True if the session is open before `play` begins.
    pub(super) is_open: bool,
    pub(super) play: RankPlay,
}

impl RankCase {
    const fn named(self, name: &'static str, ranks: u32, tries: &'static str) -> Case {
        Case { name, ranks, tries, exit: ExpectedExit::Success, body: CaseBody::Rank(self) }
    }
}

impl Case {
    /// A case in an open session of PMI-1.
    pub(super) const fn pmi1(
        name: &'static str,
        ranks: u32,
        tries: &'static str,
        play: RankPlay,
    ) -> Self {
        RankCase { protocol: CaseProtocol::Pmi1, is_open: true, play }.named(name, ranks, tries)
    }

    /// A case of PMI-1 that opens its session itself, or none.
    pub(super) const fn raw_pmi1(
        name: &'static str,
        ranks: u32,
        tries: &'static str,
        play: RankPlay,
    ) -> Self {
        RankCase { protocol: CaseProtocol::Pmi1, is_open: false, play }.named(name, ranks, tries)
    }

    /// A case in an open session of PMI-2.
    pub(super) const fn pmi2(
        name: &'static str,
        ranks: u32,
        tries: &'static str,
        play: RankPlay,
    ) -> Self {
        RankCase { protocol: CaseProtocol::Pmi2, is_open: true, play }.named(name, ranks, tries)
    }

    /// A case of PMI-2 that opens its session itself.
    pub(super) const fn raw_pmi2(
        name: &'static str,
        ranks: u32,
        tries: &'static str,
        play: RankPlay,
    ) -> Self {
        RankCase { protocol: CaseProtocol::Pmi2, is_open: false, play }.named(name, ranks, tries)
    }

    pub(super) const fn singleton(
        name: &'static str,
        tries: &'static str,
        body: fn(&str, Duration) -> CaseResult,
    ) -> Self {
        Self { name, ranks: 1, tries, exit: ExpectedExit::Success, body: CaseBody::Singleton(body) }
    }

    /// True if the rank is a singleton, which no launcher starts.
    pub(super) const fn is_singleton(&self) -> bool {
        matches!(self.body, CaseBody::Singleton(_))
    }

    pub(super) const fn expecting(self, exit: ExpectedExit) -> Self {
        Self { exit, ..self }
    }

    /// All cases, in the order in which they run.
    pub(crate) fn all() -> impl Iterator<Item = &'static Self> {
        let both = pmi1::CASES.iter().chain(pmi2::CASES);
        both.chain(second_connection::CASES).chain(singleton::CASES).copied().flatten()
    }

    /// The case of that name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        Self::all().find(|case| case.name == name)
    }

    /// Judges the exit of the launcher, after the ranks have reported `finding`.
    pub(crate) fn judge_exit(&self, code: i32, finding: Finding) -> Finding {
        if finding.verdict > Verdict::Tolerated {
            // A refusal may have ended the session, and a worse verdict needs no addition.
            return finding;
        }
        let seen = format!("exit code {code}");
        match self.exit {
            ExpectedExit::Any => finding,
            ExpectedExit::Success if code == 0 => finding,
            ExpectedExit::Success => Verdict::Wrong.on(format!("{seen} after a successful run")),
            ExpectedExit::Code(wanted) if code == wanted => Verdict::AsSpecified.on(seen),
            ExpectedExit::Code(_) | ExpectedExit::Failure if code == 0 => Verdict::Wrong.on(seen),
            ExpectedExit::Code(wanted) => {
                Verdict::Tolerated.on(format!("{seen} in place of {wanted}"))
            }
            ExpectedExit::Failure | ExpectedExit::Unspecified => Verdict::AsSpecified.on(seen),
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
    fn end_of_the_launcher_is_part_of_the_verdict() {
        let good = || Verdict::AsSpecified.on("fine");
        let case = |exit| Case { exit, ..*Case::all().next().unwrap() };
        assert_eq!(case(ExpectedExit::Success).judge_exit(0, good()), good());
        assert_eq!(case(ExpectedExit::Success).judge_exit(1, good()).verdict, Verdict::Wrong);
        assert_eq!(case(ExpectedExit::Any).judge_exit(9, good()), good());
        assert_eq!(
            case(ExpectedExit::Code(37)).judge_exit(37, good()).verdict,
            Verdict::AsSpecified
        );
        assert_eq!(
            case(ExpectedExit::Code(37)).judge_exit(137, good()).verdict,
            Verdict::Tolerated
        );
        assert_eq!(case(ExpectedExit::Code(37)).judge_exit(0, good()).verdict, Verdict::Wrong);
        assert_eq!(case(ExpectedExit::Failure).judge_exit(0, good()).verdict, Verdict::Wrong);
        assert_eq!(
            case(ExpectedExit::Unspecified).judge_exit(0, good()).verdict,
            Verdict::AsSpecified
        );
        let refused = Verdict::Refused.on("x");
        assert_eq!(case(ExpectedExit::Code(37)).judge_exit(0, refused.clone()), refused);
        let silent = Verdict::NoAnswer.on("x");
        assert_eq!(case(ExpectedExit::Failure).judge_exit(1, silent.clone()), silent);
    }
}
