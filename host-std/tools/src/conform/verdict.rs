//! Verdict on a case, and the printable form of arbitrary bytes.

use serde::{Serialize, Serializer};
use std::fmt;

/// Verdict on one case, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// As specified, or as every known peer does if the documents are silent.
    AsSpecified,
    /// Not as specified, but tolerated by known peers.
    Tolerated,
    /// An error reply in a valid form.
    Refused,
    /// No answer within the time limit.
    NoAnswer,
    /// The connection was closed, or the job ended.
    JobKilled,
    /// An answer that misleads a correct peer.
    Wrong,
}

/// A verdict and the observation that it rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// Verdict.
    pub(crate) verdict: Verdict,
    /// Observation, printable and on one line.
    pub(crate) seen: String,
}

impl Verdict {
    /// All verdicts, from best to worst.
    pub(crate) const ALL: [Self; 6] = [
        Self::AsSpecified,
        Self::Tolerated,
        Self::Refused,
        Self::NoAnswer,
        Self::JobKilled,
        Self::Wrong,
    ];

    /// Printed form.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::AsSpecified => "as specified",
            Self::Tolerated => "tolerated difference",
            Self::Refused => "refused",
            Self::NoAnswer => "no answer",
            Self::JobKilled => "job killed",
            Self::Wrong => "wrong",
        }
    }

    /// The verdict that is printed as `text`.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verdict| verdict.text() == text)
    }

    /// Finding with this verdict and the observation `seen`.
    pub(crate) fn on(self, seen: impl Into<String>) -> Finding {
        Finding { verdict: self, seen: seen.into() }
    }
}

impl Finding {
    /// The finding with the worse verdict; of equals the first.
    pub(crate) fn worse(self, other: Self) -> Self {
        if other.verdict > self.verdict { other } else { self }
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text())
    }
}

/// Printable form of bytes on one line: escaped, long runs of one byte as `{v*1023}`, and bounded in
/// length.
pub(super) fn shown(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut rest = bytes;
    while let Some(&first) = rest.first() {
        let run = rest.iter().take_while(|byte| **byte == first).count();
        let escaped = first.escape_ascii();
        if run >= RUN_MIN {
            text.push_str(&format!("{{{escaped}*{run}}}"));
            rest = &rest[run..];
        } else {
            // A bar separates the fields of a report, so it is always escaped.
            match first {
                b'|' => text.push_str("\\x7c"),
                b'\\' | b'\'' | b'"' => text.push(char::from(first)),
                _ => text.push_str(&escaped.to_string()),
            }
            rest = &rest[1..];
        }
        if text.len() > SHOWN_MAX {
            text.push('…');
            break;
        }
    }
    text
}

/// Length from which runs of one byte are abbreviated.
const RUN_MIN: usize = 16;

/// Bound of the printable form: long enough for any answer if its long parts are runs of one byte.
const SHOWN_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_read_as_they_are_printed_and_ordered_by_how_bad_they_are() {
        for verdict in Verdict::ALL {
            assert_eq!(Verdict::from_text(&verdict.to_string()), Some(verdict));
        }
        assert_eq!(Verdict::from_text("fine"), None);
        let (good, bad) = (Verdict::AsSpecified.on("a"), Verdict::NoAnswer.on("b"));
        assert_eq!(good.clone().worse(bad.clone()), bad);
        assert_eq!(bad.clone().worse(good), bad);
    }

    #[test]
    fn bytes_are_shown_on_one_line() {
        assert_eq!(shown(b"cmd=a\n"), "cmd=a\\n");
        assert_eq!(shown(&[b'v'; 1023]), "{v*1023}");
        assert_eq!(shown(b"a|b\xff\0"), "a\\x7cb\\xff\\x00");
        assert!(shown(&(0..=255).cycle().take(5000).collect::<Vec<u8>>()).len() < 300);
    }
}
