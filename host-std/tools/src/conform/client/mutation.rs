//! Mutations: treatments of a client that some known server has, that the documents allow, or that a
//! client meets when something breaks.

use self::MutationKind::{
    Abort, Answer, Bytes, DelayedFence, Disconnect, KvsName, NoMapping, Paced, Plain, Reordered,
    Request,
};
use super::answers;
use super::discovery::Discovery;
use super::message::Message;
use std::time::Duration;

/// One mutation, with the expected behaviour of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mutation {
    /// Name in a matrix.
    pub(crate) name: &'static str,
    /// Short description of the mutation.
    pub(crate) tries: &'static str,
    pub(super) kind: MutationKind,
    pub(super) expectation: Expectation,
}

/// Kind of the mutation.
#[derive(Clone, Copy, Debug)]
pub(super) enum MutationKind {
    /// No mutation.
    Plain,
    /// Answers travel in pieces of this size, with a pause before each.
    Paced(usize, Duration),
    /// The answer to a fence is delayed by this time.
    DelayedFence(Duration),
    /// Answers that several threads wait for overtake each other.
    Reordered,
    /// A request is changed, in place and without changing its length.
    Request(fn(&mut [u8]) -> bool),
    /// An answer is changed.
    Answer(fn(&mut Message)),
    /// Other bytes are sent in place of an answer, and the link may be closed behind them.
    Bytes { of: fn(&Message) -> Option<Vec<u8>>, closes: bool },
    /// The link is closed in place of one of these answers, or after half of it.
    Disconnect { at: &'static [&'static str], is_half: bool },
    /// The job is aborted while ranks wait in a fence: they receive `SIGTERM`, as launchers send it.
    Abort,
    /// The key-value space has this name.
    KvsName(fn() -> Vec<u8>),
    /// There is no process mapping.
    NoMapping,
    /// The client finds the server in another way.
    Discovery(Discovery),
}

/// Expected behaviour of a correct client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expectation {
    /// The client continues as without the mutation.
    Continues,
    /// The client continues, or reports that it cannot.
    ContinuesOrFails,
    /// The client exits with an error.
    Fails,
}

/// Action on one answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
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

impl Mutation {
    /// All mutations, in the order in which they run.
    pub(crate) const ALL: &[Self] = &[
        Self::of("client-plain", "its requests, and whether it exits with 0", Plain),
        Self::of("client-split", "answers arrive byte by byte", Paced(1, PAUSE)),
        Self::of("client-slow", "answers arrive late", Paced(usize::MAX, DELAY)),
        Self::of("client-late-fence", "a fence takes two seconds", DelayedFence(FENCE)),
        Self::of("client-overtaken", "answers overtake each other", Reordered),
        Self::answer("client-extra-field", "answers with an unknown field", answers::extra),
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
        Self::of(
            "client-1.2-offered",
            "1.2 is offered where 1.1 was asked for",
            Request(answers::offer_1_2),
        ),
        Self::of(
            "client-1.1-offered",
            "1.1 is offered where 2.0 was asked for",
            Request(answers::offer_1_1),
        )
        .may_fail(),
        Self::answer(
            "client-2.1-offered",
            "2.1 is offered where 2.0 was asked for",
            answers::offer_2_1,
        )
        .may_fail(),
        Self::answer(
            "client-short-fullinit",
            "fullinit is answered without versions, as hydra 5 does",
            answers::short_fullinit,
        ),
        Self::answer("client-found-behind", "found=TRUE behind the value", answers::found_behind),
        Self::answer("client-length-left", "lengths aligned to the left", answers::length_left),
        Self::answer("client-no-thrid", "thrid is not returned, as by Slurm", answers::no_thrid),
        Self::answer("client-unknown", "appnum and universe size are -1", answers::unknown),
        Self::of("client-no-mapping", "there is no PMI_process_mapping", NoMapping),
        Self::answer("client-large-limits", "limits of 4096, as Intel MPI's", answers::large),
        Self::answer("client-small-limits", "a name of 63 at most, as Flux's", answers::small),
        Self::of("client-space-signs", "the space is called kvs_a=b/ƒ:c", KvsName(signs)),
        Self::of("client-space-long", "the name of the space has 255 bytes", KvsName(long)),
        Self::of("client-dialled", "PMI_PORT and PMI_ID in place of PMI_FD", DIALLED),
        Self::of("client-alone", "no server at all", MutationKind::Discovery(Discovery::Absent))
            .may_fail(),
        Self::of(
            "client-closed-fd",
            "PMI_FD is not open",
            MutationKind::Discovery(Discovery::Closed),
        )
        .fails(),
        Self::answer("client-errors", "every get and lookup fails with rc=1", answers::errors)
            .may_fail(),
        Self::answer("client-errors-text", "the same with a code and a text", answers::errors_text)
            .may_fail(),
        Self::answer(
            "client-missing",
            "no key exists, and a value contains an error text",
            answers::missing,
        )
        .may_fail(),
        Self::answer("client-no-init", "init is refused", answers::no_init).fails(),
        Self::answer("client-no-fullinit", "fullinit is refused", answers::no_fullinit).fails(),
        Self::answer("client-no-put", "every put is refused", answers::no_put).fails(),
        Self::answer("client-no-fence", "every fence is refused", answers::no_fence).fails(),
        Self::answer("client-no-finalize", "finalize is refused", answers::no_finalize).may_fail(),
        Self::answer(
            "client-other-answer",
            "a get is answered as if it were a put",
            answers::other,
        )
        .fails(),
        Self::of(
            "client-nonsense",
            "a get is answered by meaningless bytes",
            Bytes { of: answers::nonsense, closes: false },
        )
        .fails(),
        Self::of(
            "client-endless",
            "a get is answered by 100,000 bytes without an end",
            Bytes { of: answers::endless, closes: true },
        )
        .fails(),
        Self::of("client-gone-init", "the link closes in place of init's answer", AT_INIT).fails(),
        Self::of("client-gone-half", "the link closes in the middle of an answer", IN_GET).fails(),
        Self::of("client-gone-fence", "the link closes during a fence", IN_FENCE).fails(),
        Self::of("client-gone-end", "the link closes in place of finalize's answer", AT_END)
            .may_fail(),
        Self::of("client-abort", "the job is aborted while it waits in a fence", Abort).fails(),
    ];

    const fn of(name: &'static str, tries: &'static str, kind: MutationKind) -> Self {
        Self { name, tries, kind, expectation: Expectation::Continues }
    }

    const fn answer(name: &'static str, tries: &'static str, change: fn(&mut Message)) -> Self {
        Self::of(name, tries, Answer(change))
    }

    const fn may_fail(self) -> Self {
        Self { expectation: Expectation::ContinuesOrFails, ..self }
    }

    const fn fails(self) -> Self {
        Self { expectation: Expectation::Fails, ..self }
    }

    /// Changes a request, in place and without changing its length.
    pub(super) fn request(&self, bytes: &mut [u8]) -> bool {
        match self.kind {
            Request(change) => change(bytes),
            _ => false,
        }
    }

    /// Action on an answer of the server to a client that doubles a `;` in a value, or does not.
    pub(super) fn action(&self, bytes: &[u8], doubles: bool) -> Action {
        let old = Message { doubles, ..Message::read(bytes) };
        let as_it_is =
            |is_changed| Action::Send { bytes: bytes.to_vec(), is_changed, closes: false };
        match self.kind {
            Paced(..) => as_it_is(true),
            DelayedFence(_) => as_it_is(old.cmd_is(answers::FENCES)),
            Answer(change) => {
                let mut new = old.clone();
                change(&mut new);
                let is_changed = new != old;
                let bytes = if is_changed { new.write() } else { bytes.to_vec() };
                Action::Send { bytes, is_changed, closes: false }
            }
            Bytes { of, closes } => match of(&old) {
                Some(bytes) => Action::Send { bytes, is_changed: true, closes },
                None => as_it_is(false),
            },
            Disconnect { at, is_half } if old.cmd_is(at) => {
                let len = if is_half { bytes.len() / 2 } else { 0 };
                Action::Send { bytes: bytes[..len].to_vec(), is_changed: true, closes: true }
            }
            Abort if old.cmd_is(answers::FENCES) => Action::Abort,
            KvsName(_) => as_it_is(old.has("kvsname") || old.has("jobid")),
            Plain
            | Reordered
            | Request(_)
            | Disconnect { .. }
            | Abort
            | NoMapping
            | MutationKind::Discovery(_) => as_it_is(false),
        }
    }

    /// Size of the pieces of an answer, and the pause before each.
    pub(super) fn pace(&self, answer: &[u8]) -> (usize, Duration) {
        match self.kind {
            Paced(size, pause) => (size, pause),
            DelayedFence(time) if Message::read(answer).cmd_is(answers::FENCES) => {
                (usize::MAX, time)
            }
            Reordered => (usize::MAX, DELAY),
            _ => (usize::MAX, Duration::ZERO),
        }
    }

    /// True if this answer may overtake another, since it names its request.
    pub(super) fn overtakes(&self, answer: &[u8]) -> bool {
        matches!(self.kind, Reordered) && Message::read(answer).has("thrid")
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

const DIALLED: MutationKind = MutationKind::Discovery(Discovery::Port);
const AT_INIT: MutationKind = Disconnect { at: &["response_to_init"], is_half: false };
const IN_GET: MutationKind = Disconnect { at: answers::FAILING, is_half: true };
const IN_FENCE: MutationKind = Disconnect { at: answers::FENCES, is_half: false };
const AT_END: MutationKind =
    Disconnect { at: &["finalize_ack", "finalize-response"], is_half: false };

const PAUSE: Duration = Duration::from_micros(200);
const DELAY: Duration = Duration::from_millis(15);
/// Delay longer than the patience of a client with an internal time limit.
const FENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_have_one_name_and_the_first_changes_nothing() {
        let names: Vec<&str> = Mutation::ALL.iter().map(|mutation| mutation.name).collect();
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name) && name.starts_with("client-"), "{name}");
        }
        assert!(matches!(Mutation::PLAIN.kind, Plain));
    }

    #[test]
    fn names_of_spaces_are_such_as_a_server_may_give() {
        for name in [signs(), long()] {
            assert!(pmi_core::ids::KvsName::new(&name).is_ok());
        }
        assert_eq!(long().len(), 255);
    }
}
