//! Requests in flight, in the order in which they were sent.

use heapless::Vec;

use super::Ticket;
use crate::command::{Answer, Reply, Request, Text, Verb};
use crate::error::Misuse;
use crate::parts;
use crate::wire::names;

/// A request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InflightRequest {
    pub(super) ticket: Ticket,
    /// Verb of the expected reply: a proof is part of the opening.
    pub(super) verb: Verb,
    /// Tag that distinguishes a fence from other fences.
    pub(super) tag: Option<u32>,
}

/// The request that a reply belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) ticket: Ticket,
    pub(super) verb: Verb,
}

impl InflightRequest {
    /// Entry for `request`, once it is sent.
    pub(super) const fn new(ticket: Ticket, verb: Verb, request: &Request<'_>) -> Self {
        let tag = match *request {
            Request::Fence { tag, .. } => tag,
            _ => None,
        };
        // A proof is a part of the opening and is answered like it.
        let verb = if is_proof(verb) { Verb::FullInit } else { verb };
        Self { ticket, verb, tag }
    }
}

/// At most `N` requests: one in lock-step, one for each thread that may send requests.
#[derive(Debug)]
pub(super) struct Inflight<const N: usize>(Vec<InflightRequest, N>);

impl<const N: usize> Inflight<N> {
    /// True if exchanges carry names where the dialect has names: only if they could be confused,
    /// since not every server returns the name.
    pub(super) const HAS_NAMES: bool = N > 1;

    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    ///
    /// # Errors
    ///
    /// [`Misuse::Busy`] if every place is taken.
    pub(super) fn push(&mut self, waiting: InflightRequest) -> Result<(), Misuse> {
        self.0.push(waiting).map_err(|_| Misuse::Busy)
    }

    /// Finds the request that `reply` answers, and removes it if no further reply is expected.
    ///
    /// A name that the server returns decides. Without one the oldest request that the reply could
    /// answer is meant: a server answers requests of one kind in their order, except for fences, which
    /// it distinguishes by tag.
    pub(super) fn answered(&mut self, reply: &Reply<'_>) -> Option<Received> {
        let at = self.place(reply)?;
        let waiting = self.0.get(at)?;
        let received = Received { ticket: waiting.ticket, verb: waiting.verb };
        if !(parts::CONNECT && matches!(reply.answer, Answer::Count(_) | Answer::Pair(_))) {
            self.forget(at);
        }
        Some(received)
    }

    /// Index of the request that `reply` answers.
    fn place(&self, reply: &Reply<'_>) -> Option<usize> {
        let is_named = Self::HAS_NAMES && !reply.tag.is_empty();
        let name = if is_named { Text::plain(reply.tag).number() } else { None };
        let is_alone = is_named || self.0.len() == 1;
        // A server that does not support the command may choose any name for its reply. If only one
        // request is in flight, or it is named, a refusal can have no other meaning.
        let is_any = reply.to == Verb::Unknown && !reply.code.is_success() && is_alone;
        let fits = |waiting: &InflightRequest| {
            let is_proof = parts::LISTEN && waiting.verb == Verb::FullInit && is_proof(reply.to);
            (!is_named || name == Some(waiting.ticket.0))
                && (is_any || waiting.verb == reply.to || is_proof)
        };
        match reply.answer {
            Answer::Released { tag: Some(tag) } if parts::GROUPS && reply.to == Verb::Fence => {
                let tagged = |w: &InflightRequest| fits(w) && w.tag.unwrap_or(0) == tag;
                // Some servers return a counter as the tag of a fence that was requested without one.
                let untagged = |w: &InflightRequest| fits(w) && w.tag.is_none();
                self.0.iter().position(tagged).or_else(|| self.0.iter().position(untagged))
            }
            _ => self.0.iter().position(fits),
        }
    }

    /// Removes a request. Those behind it move up, since the order determines the oldest.
    fn forget(&mut self, at: usize) {
        let Some(mut last) = self.0.pop() else { return };
        if N > 1 {
            for place in self.0.iter_mut().skip(at).rev() {
                core::mem::swap(place, &mut last);
            }
        }
    }

    /// Oldest request of this kind.
    pub(super) fn oldest(&self, verb: Verb) -> Option<&InflightRequest> {
        self.0.iter().find(|waiting| waiting.verb == verb)
    }

    /// Name of the next expected reply, for an error report.
    pub(super) fn expected(&self) -> &'static str {
        let oldest = self.0.first();
        oldest.map_or("nothing, since no request is open", |waiting| reported(waiting.verb))
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Name of a reply in a report; that of its request if replies have no names of their
/// own.
pub(super) fn reported(verb: Verb) -> &'static str {
    match names::of(verb) {
        Some(words) if words.line_reply.is_empty() => words.frame,
        Some(words) => words.line_reply,
        None => "an unknown answer",
    }
}

/// True for the messages of a method of authentication.
const fn is_proof(verb: Verb) -> bool {
    matches!(verb, Verb::Proof | Verb::AuthResponse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    fn waiting(ticket: u32, verb: Verb, tag: Option<u32>) -> InflightRequest {
        InflightRequest { ticket: Ticket(ticket), verb, tag }
    }

    fn released(tag: Option<u32>) -> Reply<'static> {
        Reply { to: Verb::Fence, tag: b"", code: Code::SUCCESS, answer: Answer::Released { tag } }
    }

    #[test]
    fn fences_are_told_apart_by_their_tag_and_without_one_the_oldest_is_meant() {
        let mut open = Inflight::<3>::new();
        for (ticket, tag) in [(1, Some(7)), (2, None), (3, Some(9))] {
            open.push(waiting(ticket, Verb::Fence, tag)).unwrap();
        }
        assert_eq!(open.push(waiting(4, Verb::Put, None)), Err(Misuse::Busy));
        assert_eq!(open.answered(&released(Some(9))).unwrap().ticket, Ticket(3));
        assert_eq!(open.answered(&released(Some(5))).unwrap().ticket, Ticket(2));
        assert_eq!(open.answered(&released(Some(5))), None);
        assert_eq!(open.answered(&released(None)).unwrap().ticket, Ticket(1));
        assert!(open.is_empty());
    }

    #[test]
    fn refusal_by_another_name_is_for_the_only_question() {
        let unknown =
            |code| Reply { to: Verb::Unknown, tag: b"", code: Code(code), answer: Answer::Nothing };
        let mut open = Inflight::<2>::new();
        open.push(waiting(1, Verb::Lookup, None)).unwrap();
        assert_eq!(open.answered(&unknown(0)), None);
        open.push(waiting(2, Verb::Fence, None)).unwrap();
        assert_eq!(open.answered(&unknown(-1)), None);
        assert_eq!(open.answered(&released(None)).unwrap().ticket, Ticket(2));
        assert_eq!(open.answered(&unknown(-1)).unwrap().ticket, Ticket(1));
    }

    #[test]
    fn name_that_comes_back_decides_and_must_be_one_that_was_given() {
        let reply = |to, tag, code| Reply { to, tag, code: Code(code), answer: Answer::Nothing };
        let fill = |open: &mut Inflight<3>| {
            for ticket in 1..4 {
                open.push(waiting(ticket, Verb::Put, None)).unwrap();
            }
        };
        let mut open = Inflight::<3>::new();
        fill(&mut open);
        for wrong in [&b"4"[..], b"0", b"-1", b"0x7f", b" 1"] {
            assert_eq!(open.answered(&reply(Verb::Put, wrong, 0)), None);
        }
        assert_eq!(open.answered(&reply(Verb::Get, b"2", 0)), None, "named, but not asked");
        assert_eq!(open.answered(&reply(Verb::Put, b"3", 0)).unwrap().ticket, Ticket(3));
        assert_eq!(open.answered(&reply(Verb::Unknown, b"2", 5)).unwrap().ticket, Ticket(2));
        assert_eq!(open.answered(&reply(Verb::Put, b"", 0)).unwrap().ticket, Ticket(1));

        // A client that sends no names ignores returned ones.
        let mut open = Inflight::<1>::new();
        open.push(waiting(1, Verb::Put, None)).unwrap();
        assert_eq!(open.answered(&reply(Verb::Put, b"0x7f", 0)).unwrap().ticket, Ticket(1));
    }

    #[test]
    fn question_with_many_answers_stays_open_until_the_last() {
        let reply = |answer| Reply { to: Verb::GetAll, tag: b"", code: Code::SUCCESS, answer };
        let pair = crate::command::Pair { key: Text::EMPTY, value: Text::EMPTY };
        let mut open = Inflight::<1>::new();
        open.push(waiting(1, Verb::GetAll, None)).unwrap();
        for answer in [Answer::Count(2), Answer::Pair(pair), Answer::Pair(pair)] {
            assert_eq!(open.answered(&reply(answer)).unwrap().ticket, Ticket(1));
            assert_eq!(open.len(), 1);
        }
        assert_eq!(open.answered(&reply(Answer::Nothing)).unwrap().ticket, Ticket(1));
        assert!(open.is_empty());
    }
}
