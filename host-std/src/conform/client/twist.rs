//! How the answers of a server are changed: each in a way that some known server has, or that the
//! documents allow.

use super::message::{Field, Message};
use std::time::Duration;

/// One manner of answering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Twist {
    /// Nothing is changed.
    Plain,
    /// Every byte travels alone.
    Split,
    /// Every answer comes late.
    Slow,
    /// A field that nobody knows, in every answer.
    Extra,
    /// The fields behind `cmd` in reverse order; a value stays last on a line.
    Order,
    /// No `rc` where older servers send none.
    NoCode,
    /// 1.2 where 1.1 was asked for, as hydra from 5.0 answers.
    Newer,
    /// `found=TRUE` behind the value, as hydra 4.1 and 4.2 answer.
    FoundBehind,
    /// Lengths of frames aligned to the left, as Slurm writes them.
    LengthLeft,
    /// Every get and lookup fails, with a return code and nothing else.
    Errors,
}

impl Twist {
    /// All of them, in the order in which they are tried.
    pub(crate) const ALL: [Self; 10] = [
        Self::Plain,
        Self::Split,
        Self::Slow,
        Self::Extra,
        Self::Order,
        Self::NoCode,
        Self::Newer,
        Self::FoundBehind,
        Self::LengthLeft,
        Self::Errors,
    ];

    /// Its name in a matrix.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "client-plain",
            Self::Split => "client-split",
            Self::Slow => "client-slow",
            Self::Extra => "client-extra-field",
            Self::Order => "client-order",
            Self::NoCode => "client-no-rc",
            Self::Newer => "client-1.2-offered",
            Self::FoundBehind => "client-found-behind",
            Self::LengthLeft => "client-length-left",
            Self::Errors => "client-errors",
        }
    }

    /// What it tries, in a few words.
    pub(crate) const fn tries(self) -> &'static str {
        match self {
            Self::Plain => "what it asks, and whether it ends well",
            Self::Split => "answers come byte by byte",
            Self::Slow => "answers come late",
            Self::Extra => "answers with a field that nobody knows",
            Self::Order => "answers with their fields in another order",
            Self::NoCode => "answers without rc where older servers send none",
            Self::Newer => "1.2 is offered where 1.1 was asked for",
            Self::FoundBehind => "found=TRUE behind the value",
            Self::LengthLeft => "lengths aligned to the left",
            Self::Errors => "every get and lookup fails with rc=1",
        }
    }

    /// Changes a request, in place and without changing its length.
    pub(super) fn request(self, bytes: &mut [u8]) -> bool {
        let asks = b"cmd=init pmi_version=1 pmi_subversion=1";
        if self != Self::Newer || !bytes.starts_with(asks) {
            return false;
        }
        // The server then speaks 1.2, and its answer is the offer.
        bytes[asks.len() - 1] = b'2';
        true
    }

    /// Changes an answer, and says whether it did.
    pub(super) fn answer(self, bytes: &[u8]) -> (Vec<u8>, bool) {
        let old = Message::read(bytes);
        let mut new = old.clone();
        match self {
            Self::Plain | Self::Newer => return (bytes.to_vec(), false),
            Self::Split | Self::Slow => return (bytes.to_vec(), true),
            Self::LengthLeft => return (old.write(true), old.is_frame),
            Self::Extra => new.fields.insert(1, Field::new("colour", "blue")),
            Self::Order => reverse(&mut new),
            Self::NoCode => {
                if NEEDS_NO_CODE.iter().any(|cmd| old.cmd() == cmd.as_bytes()) && old.is_success() {
                    new.fields.retain(|field| !field.is("rc"));
                }
            }
            Self::FoundBehind => {
                if GETS.iter().any(|cmd| old.cmd() == cmd.as_bytes())
                    && old.position("value").is_some()
                {
                    new.fields.retain(|field| !field.is("found"));
                    new.fields.push(Field::new("found", "TRUE"));
                }
            }
            Self::Errors => {
                if FAILING.iter().any(|cmd| old.cmd() == cmd.as_bytes()) {
                    let kept = |field: &Field| field.is("cmd") || field.is("thrid");
                    new.fields.retain(kept);
                    new.fields.push(Field::new("rc", "1"));
                }
            }
        }
        if new == old { (bytes.to_vec(), false) } else { (new.write(false), true) }
    }

    /// How much of an answer travels at once, and how long the next piece waits for it.
    pub(super) const fn pace(self) -> (usize, Duration) {
        match self {
            Self::Split => (1, Duration::from_micros(200)),
            Self::Slow => (usize::MAX, Duration::from_millis(15)),
            _ => (usize::MAX, Duration::ZERO),
        }
    }
}

fn reverse(message: &mut Message) {
    let Message { is_frame, fields } = message;
    let last = fields.iter().position(|field| field.is("value") || field.is("port"));
    // The value of a line reaches to its end for some clients, so nothing may follow it.
    let end = last.filter(|_| !*is_frame).unwrap_or(fields.len());
    if let Some(turned) = fields.get_mut(1..end) {
        turned.reverse();
    }
}

/// Answers of PMI-1 that hydra up to 4.0 and gforker send without `rc`.
const NEEDS_NO_CODE: &[&str] =
    &["maxes", "appnum", "universe_size", "my_kvsname", "barrier_out", "finalize_ack"];

/// Answers with a value that `found` may follow.
const GETS: &[&str] =
    &["get_result", "kvs-get-response", "info-getnodeattr-response", "info-getjobattr-response"];

/// Answers that may say no at any time.
const FAILING: &[&str] = &[
    "get_result",
    "lookup_result",
    "kvs-get-response",
    "info-getnodeattr-response",
    "info-getjobattr-response",
    "name-lookup-response",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(twist: Twist, answer: &str) -> Option<String> {
        let (bytes, is_changed) = twist.answer(answer.as_bytes());
        is_changed.then(|| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn answers_are_changed_as_the_name_says() {
        let get = "cmd=get_result rc=0 value=a b\n";
        assert_eq!(
            changed(Twist::Extra, get).unwrap(),
            "cmd=get_result colour=blue rc=0 value=a b\n"
        );
        assert_eq!(
            changed(Twist::FoundBehind, get).unwrap(),
            "cmd=get_result rc=0 value=a b found=TRUE\n"
        );
        assert_eq!(changed(Twist::Errors, get).unwrap(), "cmd=get_result rc=1\n");
        assert_eq!(changed(Twist::Order, get), None);
        let maxes = "cmd=maxes rc=0 kvsname_max=1 keylen_max=2\n";
        assert_eq!(
            changed(Twist::Order, maxes).unwrap(),
            "cmd=maxes keylen_max=2 kvsname_max=1 rc=0\n"
        );
        assert_eq!(
            changed(Twist::NoCode, maxes).unwrap(),
            "cmd=maxes kvsname_max=1 keylen_max=2\n"
        );
        assert_eq!(changed(Twist::NoCode, get), None);
        let frame = "    46cmd=kvs-get-response;rc=0;found=TRUE;value=v1;";
        assert_eq!(
            changed(Twist::FoundBehind, frame).unwrap(),
            "    46cmd=kvs-get-response;rc=0;value=v1;found=TRUE;"
        );
        assert_eq!(changed(Twist::LengthLeft, frame).unwrap(), frame.replace("    46", "46    "));
        assert_eq!(changed(Twist::LengthLeft, get), None);
    }

    #[test]
    fn only_an_init_for_1_1_becomes_one_for_1_2() {
        let mut init = b"cmd=init pmi_version=1 pmi_subversion=1\n".to_vec();
        assert!(Twist::Newer.request(&mut init));
        assert_eq!(init, b"cmd=init pmi_version=1 pmi_subversion=2\n");
        assert!(!Twist::Newer.request(&mut b"cmd=init pmi_version=2 pmi_subversion=0\n".to_vec()));
        assert!(!Twist::Plain.request(&mut b"cmd=init pmi_version=1 pmi_subversion=1\n".to_vec()));
    }
}
