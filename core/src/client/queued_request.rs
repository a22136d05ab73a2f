//! A request between the call and the wire: its kind, and the lengths of its texts.
//!
//! The texts lie one after the other in the client's buffer. A rendered line would need room for the
//! name of the space and the surrounding words as well, and that room twice.

use crate::command::{FenceGroup, Place, Request, Text, Version};
use crate::parts;

/// A request without its texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueuedRequest {
    what: QueuedVerb,
    /// Lengths of the two texts; no request has more.
    pub(super) lens: [usize; 2],
}

/// Kind of a queued request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueuedVerb {
    Init(Version),
    InitAck(u64),
    /// Texts: job, method; an empty one is none.
    FullInit {
        rank: Option<u32>,
        threaded: bool,
    },
    /// Texts: digits.
    Proof {
        is_last: bool,
    },
    Maxes,
    AppNum,
    UniverseSize,
    KvsName,
    /// Texts: key, value.
    Put(QueuedPlace),
    /// Texts: name of the other space, key.
    Get(QueuedPlace, bool),
    /// Texts: list of ranks.
    Fence(QueuedGroup, Option<u32>),
    /// Texts: service, port.
    Publish,
    /// Texts: service.
    Unpublish,
    /// Texts: service.
    Lookup,
    /// Texts: job.
    Connect,
    /// Texts: job.
    Disconnect,
    /// Texts: job.
    GetAll,
    /// Texts: job.
    PutAll(u32),
    /// Texts: key, value.
    PutPair,
    /// Texts: left, right.
    Ring,
    /// Texts: message.
    Abort {
        code: Option<i32>,
        world: bool,
    },
    Finalize,
}

/// A [`Place`] without its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueuedPlace {
    Own,
    Other,
    Node,
    Attributes,
}

/// A [`FenceGroup`] without its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueuedGroup {
    World,
    Node,
    Listed,
}

impl QueuedRequest {
    /// Splits `request`; `own` is the name of the caller's space. `None` is a request that no
    /// client starts, or not in this way.
    pub(super) fn new<'a>(request: &Request<'a>, own: &[u8]) -> Option<(Self, [Text<'a>; 2])> {
        let none = Text::EMPTY;
        let (what, texts) = match *request {
            Request::Init { version } => (QueuedVerb::Init(version), [none; 2]),
            Request::InitAck { id } if parts::LISTEN => (QueuedVerb::InitAck(id), [none; 2]),
            Request::FullInit { rank, job, threaded, method } if parts::PMI2 => {
                let texts = [job.unwrap_or_default(), method.unwrap_or_default()];
                (QueuedVerb::FullInit { rank, threaded }, texts)
            }
            Request::Proof { digits, is_last } if parts::LISTEN => {
                (QueuedVerb::Proof { is_last }, [digits, none])
            }
            Request::Maxes => (QueuedVerb::Maxes, [none; 2]),
            Request::AppNum => (QueuedVerb::AppNum, [none; 2]),
            Request::UniverseSize => (QueuedVerb::UniverseSize, [none; 2]),
            Request::KvsName => (QueuedVerb::KvsName, [none; 2]),
            Request::Put { place, key, value } => {
                (QueuedVerb::Put(place_of(place, own).0), [key, value])
            }
            Request::Get { place, key, wait } => {
                let (place, name) = place_of(place, own);
                (QueuedVerb::Get(place, wait), [name, key])
            }
            Request::Fence { group, tag } => match group {
                FenceGroup::World => (QueuedVerb::Fence(QueuedGroup::World, tag), [none; 2]),
                FenceGroup::Node => (QueuedVerb::Fence(QueuedGroup::Node, tag), [none; 2]),
                _ if !parts::GROUPS => return None,
                FenceGroup::Ranks(list) => {
                    (QueuedVerb::Fence(QueuedGroup::Listed, tag), [Text::plain(list), none])
                }
            },
            Request::Publish { service, port } if parts::NAMES => {
                (QueuedVerb::Publish, [service, port])
            }
            Request::Unpublish { service } if parts::NAMES => {
                (QueuedVerb::Unpublish, [service, none])
            }
            Request::Lookup { service } if parts::NAMES => (QueuedVerb::Lookup, [service, none]),
            Request::Connect { job } if parts::CONNECT => (QueuedVerb::Connect, [job, none]),
            Request::Disconnect { job } if parts::CONNECT => (QueuedVerb::Disconnect, [job, none]),
            Request::GetAll { job } if parts::CONNECT => (QueuedVerb::GetAll, [job, none]),
            Request::PutAll { job, pairs } if parts::CONNECT => {
                (QueuedVerb::PutAll(pairs), [job, none])
            }
            Request::PutPair { key, value } if parts::CONNECT => {
                (QueuedVerb::PutPair, [key, value])
            }
            Request::Ring { left, right } if parts::CONNECT => (QueuedVerb::Ring, [left, right]),
            Request::Abort { code, world, message } => {
                (QueuedVerb::Abort { code, world }, [message, none])
            }
            Request::Finalize => (QueuedVerb::Finalize, [none; 2]),
            _ => return None,
        };
        Some((Self { what, lens: [0; 2] }, texts))
    }

    /// Restores the request; its texts are at the front of `texts`.
    pub(super) fn request<'a>(&self, texts: &'a [u8]) -> Request<'a> {
        let (first, rest) = texts.split_at_checked(self.lens[0]).unwrap_or((texts, b""));
        let second = Text::plain(rest.get(..self.lens[1]).unwrap_or(rest));
        let listed = first;
        let first = Text::plain(first);
        match self.what {
            QueuedVerb::Init(version) => Request::Init { version },
            QueuedVerb::InitAck(id) if parts::LISTEN => Request::InitAck { id },
            QueuedVerb::FullInit { rank, threaded } if parts::PMI2 => {
                let given = |text: Text<'a>| (!text.is_empty()).then_some(text);
                Request::FullInit { rank, job: given(first), threaded, method: given(second) }
            }
            QueuedVerb::Proof { is_last } if parts::LISTEN => {
                Request::Proof { digits: first, is_last }
            }
            QueuedVerb::Maxes => Request::Maxes,
            QueuedVerb::AppNum => Request::AppNum,
            QueuedVerb::UniverseSize => Request::UniverseSize,
            QueuedVerb::KvsName => Request::KvsName,
            QueuedVerb::Put(place) => {
                Request::Put { place: place.with(Text::EMPTY), key: first, value: second }
            }
            QueuedVerb::Get(place, wait) => {
                Request::Get { place: place.with(first), key: second, wait }
            }
            QueuedVerb::Fence(QueuedGroup::World, tag) => {
                Request::Fence { group: FenceGroup::World, tag }
            }
            QueuedVerb::Fence(QueuedGroup::Node, tag) if parts::GROUPS => {
                Request::Fence { group: FenceGroup::Node, tag }
            }
            QueuedVerb::Fence(QueuedGroup::Listed, tag) if parts::GROUPS => {
                Request::Fence { group: FenceGroup::Ranks(listed), tag }
            }
            QueuedVerb::Publish if parts::NAMES => {
                Request::Publish { service: first, port: second }
            }
            QueuedVerb::Unpublish if parts::NAMES => Request::Unpublish { service: first },
            QueuedVerb::Lookup if parts::NAMES => Request::Lookup { service: first },
            QueuedVerb::Connect if parts::CONNECT => Request::Connect { job: first },
            QueuedVerb::Disconnect if parts::CONNECT => Request::Disconnect { job: first },
            QueuedVerb::GetAll if parts::CONNECT => Request::GetAll { job: first },
            QueuedVerb::PutAll(pairs) if parts::CONNECT => Request::PutAll { job: first, pairs },
            QueuedVerb::PutPair if parts::CONNECT => Request::PutPair { key: first, value: second },
            QueuedVerb::Ring if parts::CONNECT => Request::Ring { left: first, right: second },
            QueuedVerb::Abort { code, world } => Request::Abort { code, world, message: first },
            // A request that this build leaves out is never queued.
            _ => Request::Finalize,
        }
    }
}

impl QueuedPlace {
    fn with(self, name: Text<'_>) -> Place<'_> {
        match self {
            Self::Own => Place::Job(None),
            Self::Other => Place::Job(Some(name)),
            Self::Node => Place::Node,
            Self::Attributes => Place::Attributes,
        }
    }
}

fn place_of<'a>(place: Place<'a>, own: &[u8]) -> (QueuedPlace, Text<'a>) {
    match place {
        Place::Job(Some(name)) if name != *own => (QueuedPlace::Other, name),
        Place::Job(_) => (QueuedPlace::Own, Text::EMPTY),
        Place::Node => (QueuedPlace::Node, Text::EMPTY),
        Place::Attributes => (QueuedPlace::Attributes, Text::EMPTY),
    }
}
