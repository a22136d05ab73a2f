//! Trees with a known fault, which a rule must detect.

use std::fmt;
use std::str::FromStr;

/// The fault of a mutant; it stands between a node and the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TreeMutant {
    /// The head does not wait for the last node.
    EarlyEnd,
    /// Contributions of a node are changed on their way.
    ChangeData,
    /// One node receives another result.
    OtherResult,
    /// One node does not receive a result.
    SwallowResult,
    /// The head does not report lost nodes.
    ForgetLoss,
    /// The head reports a node that lives.
    BlameAnother,
    /// A node that loses its parent does not look for another one.
    NoReturn,
    /// A node lives on although the head is lost.
    IgnoreHeadLoss,
    /// A message arrives twice.
    RepeatMessage,
    /// A message does not arrive.
    SwallowMessage,
    /// A node sends bytes of no frame.
    Garbage,
    /// A node sends every contribution four times.
    Babble,
    /// Nodes that join begin behind a message that they lack.
    LateStart,
    /// Nodes do not know that the host of a silent node answers.
    IgnoreAnswers,
    /// The clock of a node goes on while its process is stopped.
    TrustGap,
}

impl TreeMutant {
    /// All, with their names.
    pub const ALL: [(Self, &'static str); 15] = [
        (Self::EarlyEnd, "early-end"),
        (Self::ChangeData, "change-data"),
        (Self::OtherResult, "other-result"),
        (Self::SwallowResult, "swallow-result"),
        (Self::ForgetLoss, "forget-loss"),
        (Self::BlameAnother, "blame-another"),
        (Self::NoReturn, "no-return"),
        (Self::IgnoreHeadLoss, "ignore-head-loss"),
        (Self::RepeatMessage, "repeat-message"),
        (Self::SwallowMessage, "swallow-message"),
        (Self::Garbage, "garbage"),
        (Self::Babble, "babble"),
        (Self::LateStart, "late-start"),
        (Self::IgnoreAnswers, "ignore-answers"),
        (Self::TrustGap, "trust-gap"),
    ];
}

impl FromStr for TreeMutant {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(kind, _)| *kind).ok_or_else(|| {
            let names = Self::ALL.map(|(_, name)| name);
            format!("mutants of the tree are {}, not `{name}`", names.join(" "))
        })
    }
}

impl fmt::Display for TreeMutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(kind, _)| kind == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}
