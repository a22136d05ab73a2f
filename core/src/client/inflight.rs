//! The questions that have no answer yet, in the order they were asked.

use heapless::Vec;

use super::Ticket;
use crate::command::{Answer, Reply, Verb};
use crate::error::Misuse;
use crate::wire::names;

/// A question without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) ticket: Ticket,
    pub(super) verb: Verb,
    /// What tells it from another question of the same kind.
    pub(super) tag: Option<u32>,
}

/// At most `N` questions: one in lock-step, one for each thread that may ask.
#[derive(Debug)]
pub(super) struct Inflight<const N: usize>(Vec<Waiting, N>);

impl<const N: usize> Inflight<N> {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Errors: [`Misuse::Busy`] if every place is taken.
    pub(super) fn push(&mut self, waiting: Waiting) -> Result<(), Misuse> {
        self.0.push(waiting).map_err(|_| Misuse::Busy)
    }

    /// Takes out the question that `reply` answers.
    ///
    /// Of several that it could answer, the oldest is meant: a server answers questions of one
    /// kind in their order, except for fences, which it tells apart by tag.
    pub(super) fn answered(&mut self, reply: &Reply<'_>) -> Option<Waiting> {
        let place = |fits: &dyn Fn(&Waiting) -> bool| self.0.iter().position(fits);
        let same = |waiting: &Waiting| waiting.verb == reply.to;
        let at = match (reply.to, reply.answer) {
            // A server that does not know the command names its answer as it likes. Where only
            // one question is open, a refusal can have no other meaning.
            (Verb::Unknown, _) if self.0.len() == 1 && !reply.code.is_success() => Some(0),
            (Verb::Unknown, _) => None,
            (Verb::Fence, Answer::Released { tag: Some(tag) }) => {
                let tagged = |w: &Waiting| same(w) && w.tag.unwrap_or(0) == tag;
                // Some servers count in the tag of a fence that was asked for without one.
                let untagged = |w: &Waiting| same(w) && w.tag.is_none();
                place(&tagged).or_else(|| place(&untagged))
            }
            _ => place(&same),
        }?;
        // Those behind it move up, since the order is what tells the oldest.
        let mut out = self.0.pop()?;
        for place in self.0.iter_mut().skip(at).rev() {
            core::mem::swap(place, &mut out);
        }
        Some(out)
    }

    /// What the next answer should be, for a report.
    pub(super) fn expected(&self) -> &'static str {
        let oldest = self.0.first().and_then(|waiting| names::of(waiting.verb));
        oldest.map_or("nothing, since no question is open", |words| words.line_reply)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    fn waiting(ticket: u32, verb: Verb, tag: Option<u32>) -> Waiting {
        Waiting { ticket: Ticket(ticket), verb, tag }
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
    fn a_refusal_by_another_name_is_for_the_only_question() {
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
}
