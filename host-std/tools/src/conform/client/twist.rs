//! Mutations: treatments of a client that some known server has, that the documents allow, or that a
//! client meets when something breaks.

use super::answers;
use super::door::Door;
use super::message::Message;
use std::time::Duration;

/// One mutation, with the expected behaviour of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Twist {
    /// Name in a matrix.
    pub(crate) name: &'static str,
    /// Short description of the mutation.
    pub(crate) tries: &'static str,
    pub(super) way: Way,
    pub(super) hope: Hope,
}

/// Kind of the mutation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// No mutation.
    Plain,
    /// Answers travel in pieces of this size, with a pause before each.
    Pace(usize, Duration),
    /// The answer to a fence is delayed by this time.
    Late(Duration),
    /// Answers that several threads wait for overtake each other.
    Overtaken,
    /// A request is changed, in place and without changing its length.
    Request(fn(&mut [u8]) -> bool),
    /// An answer is changed.
    Answer(fn(&mut Message)),
    /// Other bytes are sent in place of an answer, and the link may be closed behind them.
    Bytes { of: fn(&Message) -> Option<Vec<u8>>, closes: bool },
    /// The link is closed in place of one of these answers, or after half of it.
    Gone { at: &'static [&'static str], is_half: bool },
    /// The job is aborted while ranks wait in a fence: they receive `SIGTERM`, as launchers send it.
    Abort,
    /// The key-value space has this name.
    Space(fn() -> Vec<u8>),
    /// There is no process mapping.
    NoMapping,
    /// The client finds the server in another way.
    Door(Door),
}

/// Expected behaviour of a correct client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hope {
    /// The client continues as without the mutation.
    GoesOn,
    /// The client continues, or reports that it cannot.
    Either,
    /// The client exits with an error.
    SaysSo,
}

/// Action on one answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// These bytes are sent.
    Send {
        bytes: Vec<u8>,
        /// True if the bytes differ from those of the server, or are sent at another time.
        is_changed: bool,
        /// True if the link is closed after these bytes.
        closes: bool,
    },
    /// The job is aborted.
    Abort,
}

impl Twist {
    /// All mutations, in the order in which they run.
    pub(crate) const ALL: &[Self] = &[
        Self::good("client-plain", "what it asks, and whether it ends well", Way::Plain),
        Self::good("client-split", "answers come byte by byte", Way::Pace(1, PAUSE)),
        Self::good("client-slow", "answers come late", Way::Pace(usize::MAX, DELAY)),
        Self::good("client-late-fence", "a fence takes two seconds", Way::Late(FENCE)),
        Self::good("client-overtaken", "answers overtake each other", Way::Overtaken),
        Self::answer(
            "client-extra-field",
            "answers with a field that nobody knows",
            answers::extra,
        ),
        Self::answer(
            "client-field-inside",
            "in that field, what looks like other fields",
            answers::inside,
        ),
        Self::answer("client-text", "answers with msg=success, as hydra has it", answers::text),
        Self::answer("client-order", "answers with their fields in another order", answers::order),
        Self::answer(
            "client-no-rc",
            "answers without rc where older servers send none",
            answers::no_code,
        ),
        Self::good(
            "client-1.2-offered",
            "1.2 is offered where 1.1 was asked for",
            Way::Request(answers::offer_1_2),
        ),
        Self::either(
            "client-1.1-offered",
            "1.1 is offered where 2.0 was asked for",
            Way::Request(answers::offer_1_1),
        ),
        Self::either(
            "client-2.1-offered",
            "2.1 is offered where 2.0 was asked for",
            Way::Answer(answers::offer_2_1),
        ),
        Self::answer(
            "client-short-fullinit",
            "fullinit is answered without versions, as hydra 5 does",
            answers::short_fullinit,
        ),
        Self::answer("client-found-behind", "found=TRUE behind the value", answers::found_behind),
        Self::answer("client-length-left", "lengths aligned to the left", answers::length_left),
        Self::answer("client-no-thrid", "thrid is not given back, as by Slurm", answers::no_thrid),
        Self::answer("client-unknown", "appnum and universe size are -1", answers::unknown),
        Self::good("client-no-mapping", "there is no PMI_process_mapping", Way::NoMapping),
        Self::answer("client-large-limits", "limits of 4096, as Intel MPI's", answers::large),
        Self::answer("client-small-limits", "a name of 63 at most, as Flux's", answers::small),
        Self::good("client-space-signs", "the space is called kvs_a=b/ƒ:c", Way::Space(signs)),
        Self::good("client-space-long", "the name of the space has 255 bytes", Way::Space(long)),
        Self::good("client-dialled", "PMI_PORT and PMI_ID in place of PMI_FD", DIALLED),
        Self::either("client-alone", "no server at all", Way::Door(Door::Nowhere)),
        Self::ending("client-closed-fd", "PMI_FD is not open", Way::Door(Door::Closed)),
        Self::either(
            "client-errors",
            "every get and lookup fails with rc=1",
            Way::Answer(answers::errors),
        ),
        Self::either(
            "client-errors-text",
            "the same with a code and a text",
            Way::Answer(answers::errors_text),
        ),
        Self::either(
            "client-missing",
            "no key is there, and a value says so in words",
            Way::Answer(answers::missing),
        ),
        Self::ending("client-no-init", "init is refused", Way::Answer(answers::no_init)),
        Self::ending(
            "client-no-fullinit",
            "fullinit is refused",
            Way::Answer(answers::no_fullinit),
        ),
        Self::ending("client-no-put", "every put is refused", Way::Answer(answers::no_put)),
        Self::ending("client-no-fence", "every fence is refused", Way::Answer(answers::no_fence)),
        Self::either(
            "client-no-finalize",
            "finalize is refused",
            Way::Answer(answers::no_finalize),
        ),
        Self::ending(
            "client-other-answer",
            "a get is answered as if it were a put",
            Way::Answer(answers::other),
        ),
        Self::ending(
            "client-nonsense",
            "a get is answered by bytes that mean nothing",
            Way::Bytes { of: answers::nonsense, closes: false },
        ),
        Self::ending(
            "client-endless",
            "a get is answered by 100,000 bytes without an end",
            Way::Bytes { of: answers::endless, closes: true },
        ),
        Self::ending("client-gone-init", "the link closes in place of init's answer", AT_INIT),
        Self::ending("client-gone-half", "the link closes in the middle of an answer", IN_GET),
        Self::ending("client-gone-fence", "the link closes during a fence", IN_FENCE),
        Self::either("client-gone-end", "the link closes in place of finalize's answer", AT_END),
        Self::ending("client-abort", "the job is aborted while it waits in a fence", Way::Abort),
    ];

    const fn good(name: &'static str, tries: &'static str, way: Way) -> Self {
        Self { name, tries, way, hope: Hope::GoesOn }
    }

    const fn answer(name: &'static str, tries: &'static str, change: fn(&mut Message)) -> Self {
        Self::good(name, tries, Way::Answer(change))
    }

    const fn either(name: &'static str, tries: &'static str, way: Way) -> Self {
        Self { name, tries, way, hope: Hope::Either }
    }

    const fn ending(name: &'static str, tries: &'static str, way: Way) -> Self {
        Self { name, tries, way, hope: Hope::SaysSo }
    }

    /// Changes a request, in place and without changing its length.
    pub(super) fn request(&self, bytes: &mut [u8]) -> bool {
        match self.way {
            Way::Request(change) => change(bytes),
            _ => false,
        }
    }

    /// Action on an answer of the server to a client that doubles a `;` in a value, or does not.
    pub(super) fn deed(&self, bytes: &[u8], doubles: bool) -> Deed {
        let old = Message { doubles, ..Message::read(bytes) };
        let as_it_is = |is_changed| Deed::Send { bytes: bytes.to_vec(), is_changed, closes: false };
        match self.way {
            Way::Pace(..) => as_it_is(true),
            Way::Late(_) => as_it_is(old.cmd_is(answers::FENCES)),
            Way::Answer(change) => {
                let mut new = old.clone();
                change(&mut new);
                let is_changed = new != old;
                let bytes = if is_changed { new.write() } else { bytes.to_vec() };
                Deed::Send { bytes, is_changed, closes: false }
            }
            Way::Bytes { of, closes } => match of(&old) {
                Some(bytes) => Deed::Send { bytes, is_changed: true, closes },
                None => as_it_is(false),
            },
            Way::Gone { at, is_half } if old.cmd_is(at) => {
                let len = if is_half { bytes.len() / 2 } else { 0 };
                Deed::Send { bytes: bytes[..len].to_vec(), is_changed: true, closes: true }
            }
            Way::Abort if old.cmd_is(answers::FENCES) => Deed::Abort,
            Way::Space(_) => as_it_is(old.has("kvsname") || old.has("jobid")),
            Way::Plain
            | Way::Overtaken
            | Way::Request(_)
            | Way::Gone { .. }
            | Way::Abort
            | Way::NoMapping
            | Way::Door(_) => as_it_is(false),
        }
    }

    /// Size of the pieces of an answer, and the pause before each.
    pub(super) fn pace(&self, answer: &[u8]) -> (usize, Duration) {
        match self.way {
            Way::Pace(size, pause) => (size, pause),
            Way::Late(time) if Message::read(answer).cmd_is(answers::FENCES) => (usize::MAX, time),
            Way::Overtaken => (usize::MAX, DELAY),
            _ => (usize::MAX, Duration::ZERO),
        }
    }

    /// True if this answer may overtake another, since it names its request.
    pub(super) fn overtakes(&self, answer: &[u8]) -> bool {
        matches!(self.way, Way::Overtaken) && Message::read(answer).has("thrid")
    }

    /// The run without a mutation, with which the others are compared.
    pub(super) const PLAIN: &Self = &Self::ALL[0];
}

/// Name with `=` and UTF-8 characters, as Flux uses them.
fn signs() -> Vec<u8> {
    "kvs_a=b/ƒ:c".into()
}

/// Longest name that a C client can hold.
fn long() -> Vec<u8> {
    [b"kvs_".as_slice(), &[b'n'; 251]].concat()
}

const DIALLED: Way = Way::Door(Door::Port);
const AT_INIT: Way = Way::Gone { at: &["response_to_init"], is_half: false };
const IN_GET: Way = Way::Gone { at: answers::FAILING, is_half: true };
const IN_FENCE: Way = Way::Gone { at: answers::FENCES, is_half: false };
const AT_END: Way = Way::Gone { at: &["finalize_ack", "finalize-response"], is_half: false };

const PAUSE: Duration = Duration::from_micros(200);
const DELAY: Duration = Duration::from_millis(15);
/// Delay longer than the patience of a client with an internal time limit.
const FENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_have_one_name_and_the_first_changes_nothing() {
        let names: Vec<&str> = Twist::ALL.iter().map(|twist| twist.name).collect();
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name) && name.starts_with("client-"), "{name}");
        }
        assert!(matches!(Twist::PLAIN.way, Way::Plain));
    }

    #[test]
    fn names_of_spaces_are_such_as_a_server_may_give() {
        for name in [signs(), long()] {
            assert!(pmi_core::ids::KvsName::new(&name).is_ok());
        }
        assert_eq!(long().len(), 255);
    }
}
