//! Injections into a running world, and their text form.

use crate::scenario::{FaultKind, ScenarioError, Step};
use std::fmt;
use std::str::FromStr;

/// An injection into a running world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Injection {
    /// A fault of a rank, at once.
    Fault {
        /// The rank.
        rank: u32,
        /// The fault.
        what: FaultKind,
    },
    /// A rank executes this step next, before those of its script.
    Order {
        /// The rank.
        rank: u32,
        /// The step.
        step: Step,
    },
}

/// An injection, and when it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injected {
    /// Number of steps before it.
    pub after: u64,
    /// True if the world was quiet then.
    pub when_quiet: bool,
    /// Its kind.
    pub what: Injection,
}

impl Injection {
    /// Lets `rank` execute a step, written as in a script, before those of its script.
    ///
    /// # Errors
    ///
    /// A malformed step.
    pub fn order(rank: u32, step: &str) -> Result<Self, ScenarioError> {
        Ok(Self::Order { rank, step: step.parse()? })
    }
}

/// `120 kill 2`, `120 quiet order 0 put k v`: after which step, and what.
impl FromStr for Injected {
    type Err = ScenarioError;

    fn from_str(text: &str) -> Result<Self, ScenarioError> {
        let what =
            format!("`{text}` is not `STEP [quiet] order RANK …` or `STEP [quiet] FAULT RANK …`");
        let error = || ScenarioError { line: 0, what: what.clone() };
        let (after, rest) = text.split_once(' ').ok_or_else(error)?;
        let after = after.parse().map_err(|_| error())?;
        let (when_quiet, rest) = match rest.strip_prefix("quiet ") {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let what = match rest.strip_prefix("order ").map(|order| order.split_once(' ')) {
            Some(Some((rank, step))) => Injection::order(rank.parse().map_err(|_| error())?, step)?,
            Some(None) => return Err(error()),
            None => {
                let (what, rank) = FaultKind::read(rest)?;
                Injection::Fault { rank, what }
            }
        };
        Ok(Self { after, when_quiet, what })
    }
}

impl fmt::Display for Injected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.after, if self.when_quiet { "quiet " } else { "" })?;
        match &self.what {
            Injection::Fault { rank, what } => what.write(f, &rank.to_string()),
            Injection::Order { rank, step } => write!(f, "order {rank} {step}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn injections_are_written_as_they_are_read() {
        for text in [
            "0 kill 2",
            "120 quiet stop 0 for 5..9",
            "7 flip 1 down",
            "7 say 1 \"cmd=x\\n\"",
            "99 quiet order 0 put k \"a b\"",
            "99 order 3 fence 0,3 tag 7",
        ] {
            let injected: Injected = text.parse().unwrap();
            assert_eq!(injected.to_string(), text);
        }
        for bad in
            ["", "kill 2", "x kill 2", "5 kill any", "5 melt 2", "5 order 2", "5 order x fence"]
        {
            assert!(bad.parse::<Injected>().is_err(), "{bad}");
        }
    }
}
