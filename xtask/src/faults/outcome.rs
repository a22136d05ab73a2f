//! The outcome of a case, and the defects in it.

use super::case::FaultCase;
use super::table::is_free;
use serde::{Deserialize, Serialize};

/// The outcome of a case with one launcher.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(super) struct CaseOutcome {
    /// The exit code as a shell sees it; none if the launcher hung.
    pub(super) code: Option<i32>,
    #[serde(rename = "wrong")]
    pub(super) is_wrong: bool,
    /// Processes of the run that outlived the launcher and the grace.
    pub(super) orphans: Vec<String>,
    /// OutputLines that were written before the fault and did not come out, and torn ones.
    pub(super) lost: u64,
    /// A process was killed that the launcher had not started.
    pub(super) strangers_killed: bool,
    /// Files that the run has left, with their hosts.
    #[serde(default)]
    pub(super) files: Vec<String>,
    /// Number of pieces of the key of the run that were shown.
    #[serde(default)]
    pub(super) shown_keys: u64,
    /// The run came as far as its fault. Else the launcher ended, or hung, before.
    #[serde(rename = "happened")]
    pub(super) has_happened: bool,
    pub(super) seconds: f64,
    /// The last words of the launcher, and remarks.
    #[serde(default)]
    pub(super) note: String,
}

/// A kind of defect: its short name, and its test.
type Defect = (&'static str, fn(&CaseOutcome) -> bool);

pub(super) const DEFECTS: [Defect; 7] = [
    ("hang", |outcome| outcome.code.is_none()),
    ("orphan", |outcome| !outcome.orphans.is_empty()),
    ("code", |outcome| outcome.is_wrong),
    ("lost", |outcome| outcome.lost > 0),
    ("foreign", |outcome| outcome.strangers_killed),
    ("files", |outcome| !outcome.files.is_empty()),
    ("key", |outcome| outcome.shown_keys > 0),
];

impl CaseOutcome {
    /// Ours must end with the code of the table; another launcher with 0 where that is 0, and not with 0
    /// where it is not, unless the table leaves it a choice.
    pub(super) fn is_wrong(case: &FaultCase, code: i32, is_peer: bool) -> bool {
        match is_peer {
            false => code != case.expected(),
            true if is_free(case.fault) => false,
            true => (code == 0) != (case.expected() == 0),
        }
    }

    /// Nothing is wrong.
    pub(super) fn is_good(&self) -> bool {
        !DEFECTS.iter().any(|(_, is_found)| is_found(self))
    }

    /// For the terminal: the defects.
    pub(super) fn describe(&self, case: &FaultCase) -> String {
        let mut words = Vec::new();
        match self.code {
            None => words.push(format!("hang after {:.1} s", self.seconds)),
            Some(code) if self.is_wrong => {
                words.push(format!("exit code {code} instead of {}", case.expected()));
            }
            Some(_) => {}
        }
        if !self.orphans.is_empty() {
            let some = &self.orphans[..self.orphans.len().min(4)];
            words.push(format!("{} orphans: {}", self.orphans.len(), some.join(", ")));
        }
        if self.lost > 0 {
            words.push(format!("{} lines lost", self.lost));
        }
        if self.strangers_killed {
            words.push("a process killed that was not of the run".into());
        }
        if !self.files.is_empty() {
            let some = &self.files[..self.files.len().min(4)];
            words.push(format!("{} files left: {}", self.files.len(), some.join(", ")));
        }
        if self.shown_keys > 0 {
            words.push(format!("{} pieces of the key shown", self.shown_keys));
        }
        if !self.has_happened {
            words.push("(the fault did not happen)".into());
        }
        words.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::{Selection, list};
    use super::super::table::{Fault, FaultPhase};
    use super::*;

    fn case(fault: Fault, phase: FaultPhase, variant: i32) -> FaultCase {
        let all = Selection {
            sizes: vec![2],
            faults: vec![fault],
            phases: vec![phase],
            ..Selection::default()
        };
        FaultCase { variant, ..list(&all).remove(0) }
    }

    #[test]
    fn ours_must_have_the_very_code_and_others_one_of_the_same_kind() {
        let killed = case(Fault::Signal, FaultPhase::Put, 11);
        assert!(
            !CaseOutcome::is_wrong(&killed, 139, false)
                && CaseOutcome::is_wrong(&killed, 11, false)
        );
        assert!(
            !CaseOutcome::is_wrong(&killed, 11, true) && CaseOutcome::is_wrong(&killed, 0, true)
        );
        let stopped = case(Fault::LauncherStop, FaultPhase::Put, 0);
        assert!(
            CaseOutcome::is_wrong(&stopped, 1, true) && !CaseOutcome::is_wrong(&stopped, 0, true)
        );
        let full = case(Fault::DiskFull, FaultPhase::Put, 0);
        assert!(!CaseOutcome::is_wrong(&full, 0, true) && CaseOutcome::is_wrong(&full, 0, false));
    }

    #[test]
    fn defects_make_an_outcome_bad() {
        let good = CaseOutcome { code: Some(3), has_happened: true, ..CaseOutcome::default() };
        assert!(good.is_good());
        for bad in [
            CaseOutcome { code: None, ..good.clone() },
            CaseOutcome { is_wrong: true, ..good.clone() },
            CaseOutcome { orphans: vec!["sleep".into()], ..good.clone() },
            CaseOutcome { lost: 1, ..good.clone() },
            CaseOutcome { strangers_killed: true, ..good.clone() },
            CaseOutcome { files: vec!["tmp/stage".into()], ..good.clone() },
            CaseOutcome { shown_keys: 1, ..good },
        ] {
            assert!(!bad.is_good(), "{bad:?}");
            assert!(!bad.describe(&case(Fault::Exit, FaultPhase::Put, 3)).is_empty(), "{bad:?}");
            let text = serde_json::to_string(&bad).unwrap();
            assert_eq!(serde_json::from_str::<CaseOutcome>(&text).unwrap(), bad);
        }
    }
}
