//! Effect of a request on its session, on the owner and on other sessions.

use super::response::Response;
use crate::command::Reason;
use crate::ids::Rank;
use crate::store::EntryId;

/// Effect of a request that a job has handled.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// The response to the request, due now or later.
    pub(super) reply: Response,
    /// An event for the owner.
    pub(super) event: Option<PutTwice>,
    /// Sessions besides the requester's that the request concerns.
    pub(super) wake: Wake,
}

/// Two members have put the same key between two fences
/// ([`Event::PutTwice`](super::Event::PutTwice)). The entry has the key, which is large.
#[derive(Clone, Copy, Debug)]
pub(super) struct PutTwice {
    pub(super) entry: EntryId,
    pub(super) first: Rank,
    pub(super) second: Rank,
}

/// Sessions that a request concerns besides the one that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// No other session.
    None,
    /// All of the job: its fence is complete.
    FenceEnded,
    /// The members of the group that it has entered, if its fence is complete.
    GroupEntered,
    /// All of the job: its ring is complete.
    RingEnded,
    /// Those of its node that wait for an attribute.
    NodePut,
    /// PMIx clients that wait for a published name.
    #[cfg(feature = "pmix")]
    Published,
}

impl Outcome {
    /// A response that concerns no other session.
    pub(super) const fn reply(reply: Response) -> Self {
        Self { reply, event: None, wake: Wake::None }
    }

    /// A response, and the sessions that the request concerns.
    pub(super) const fn wake(reply: Response, wake: Wake) -> Self {
        Self { reply, event: None, wake }
    }

    /// A refusal whose reason quotes nothing of the request.
    pub(super) fn refused(reason: Reason<'static>) -> Self {
        Self::reply(Response::refused(reason))
    }
}
