//! A request between the call and the wire: what it is, and how long its texts are.
//!
//! The texts lie behind each other in the client's buffer. A rendered line would need room for the
//! name of the space and the words around as well, and that room twice.

use crate::command::{Group, Place, Request, Text, Version};
use crate::parts;

/// A request without its texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    what: What,
    /// How long the two texts are; no request has more.
    pub(super) lens: [usize; 2],
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Init(Version),
    InitAck(u64),
    /// Texts: job, method; an empty one is none.
    FullInit {
        rank: Option<u32>,
        threaded: bool,
    },
    /// Texts: digits.
    Proof,
    Maxes,
    AppNum,
    UniverseSize,
    KvsName,
    /// Texts: key, value.
    Put(Where),
    /// Texts: name of the other space, key.
    Get(Where, bool),
    /// Texts: list of ranks.
    Fence(Who, Option<u32>),
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
enum Where {
    Own,
    Other,
    Node,
    Attributes,
}

/// A [`Group`] without its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    World,
    Node,
    Listed,
}

impl Kept {
    /// Takes `request` apart; `own` is the name of the caller's space. `None` is a request that no
    /// client starts, or not by this way.
    pub(super) fn new<'a>(request: &Request<'a>, own: &[u8]) -> Option<(Self, [Text<'a>; 2])> {
        let none = Text::EMPTY;
        let (what, texts) = match *request {
            Request::Init { version } => (What::Init(version), [none; 2]),
            Request::InitAck { id } if parts::DIAL => (What::InitAck(id), [none; 2]),
            Request::FullInit { rank, job, threaded, method } if parts::FRAMES => {
                let texts = [job.unwrap_or_default(), method.unwrap_or_default()];
                (What::FullInit { rank, threaded }, texts)
            }
            Request::Proof { digits } if parts::DIAL => (What::Proof, [digits, none]),
            Request::Maxes => (What::Maxes, [none; 2]),
            Request::AppNum => (What::AppNum, [none; 2]),
            Request::UniverseSize => (What::UniverseSize, [none; 2]),
            Request::KvsName => (What::KvsName, [none; 2]),
            Request::Put { place, key, value } => (What::Put(place_of(place, own).0), [key, value]),
            Request::Get { place, key, wait } => {
                let (place, name) = place_of(place, own);
                (What::Get(place, wait), [name, key])
            }
            Request::Fence { group, tag } => match group {
                Group::World => (What::Fence(Who::World, tag), [none; 2]),
                Group::Node => (What::Fence(Who::Node, tag), [none; 2]),
                _ if !parts::GROUPS => return None,
                Group::Ranks(list) => (What::Fence(Who::Listed, tag), [Text::plain(list), none]),
            },
            Request::Publish { service, port } if parts::NAMES => (What::Publish, [service, port]),
            Request::Unpublish { service } if parts::NAMES => (What::Unpublish, [service, none]),
            Request::Lookup { service } if parts::NAMES => (What::Lookup, [service, none]),
            Request::Connect { job } if parts::CIRCLES => (What::Connect, [job, none]),
            Request::Disconnect { job } if parts::CIRCLES => (What::Disconnect, [job, none]),
            Request::GetAll { job } if parts::CIRCLES => (What::GetAll, [job, none]),
            Request::PutAll { job, pairs } if parts::CIRCLES => (What::PutAll(pairs), [job, none]),
            Request::PutPair { key, value } if parts::CIRCLES => (What::PutPair, [key, value]),
            Request::Ring { left, right } if parts::CIRCLES => (What::Ring, [left, right]),
            Request::Abort { code, world, message } => {
                (What::Abort { code, world }, [message, none])
            }
            Request::Finalize => (What::Finalize, [none; 2]),
            _ => return None,
        };
        Some((Self { what, lens: [0; 2] }, texts))
    }

    /// Puts the request together again; its texts are at the front of `texts`.
    pub(super) fn request<'a>(&self, texts: &'a [u8]) -> Request<'a> {
        let (first, rest) = texts.split_at_checked(self.lens[0]).unwrap_or((texts, b""));
        let second = Text::plain(rest.get(..self.lens[1]).unwrap_or(rest));
        let listed = first;
        let first = Text::plain(first);
        match self.what {
            What::Init(version) => Request::Init { version },
            What::InitAck(id) if parts::DIAL => Request::InitAck { id },
            What::FullInit { rank, threaded } if parts::FRAMES => {
                let given = |text: Text<'a>| (!text.is_empty()).then_some(text);
                Request::FullInit { rank, job: given(first), threaded, method: given(second) }
            }
            What::Proof if parts::DIAL => Request::Proof { digits: first },
            What::Maxes => Request::Maxes,
            What::AppNum => Request::AppNum,
            What::UniverseSize => Request::UniverseSize,
            What::KvsName => Request::KvsName,
            What::Put(place) => {
                Request::Put { place: place.with(Text::EMPTY), key: first, value: second }
            }
            What::Get(place, wait) => Request::Get { place: place.with(first), key: second, wait },
            What::Fence(Who::World, tag) => Request::Fence { group: Group::World, tag },
            What::Fence(Who::Node, tag) if parts::GROUPS => {
                Request::Fence { group: Group::Node, tag }
            }
            What::Fence(Who::Listed, tag) if parts::GROUPS => {
                Request::Fence { group: Group::Ranks(listed), tag }
            }
            What::Publish if parts::NAMES => Request::Publish { service: first, port: second },
            What::Unpublish if parts::NAMES => Request::Unpublish { service: first },
            What::Lookup if parts::NAMES => Request::Lookup { service: first },
            What::Connect if parts::CIRCLES => Request::Connect { job: first },
            What::Disconnect if parts::CIRCLES => Request::Disconnect { job: first },
            What::GetAll if parts::CIRCLES => Request::GetAll { job: first },
            What::PutAll(pairs) if parts::CIRCLES => Request::PutAll { job: first, pairs },
            What::PutPair if parts::CIRCLES => Request::PutPair { key: first, value: second },
            What::Ring if parts::CIRCLES => Request::Ring { left: first, right: second },
            What::Abort { code, world } => Request::Abort { code, world, message: first },
            // What this build leaves out is not kept either.
            _ => Request::Finalize,
        }
    }
}

impl Where {
    fn with(self, name: Text<'_>) -> Place<'_> {
        match self {
            Self::Own => Place::Job(None),
            Self::Other => Place::Job(Some(name)),
            Self::Node => Place::Node,
            Self::Attributes => Place::Attributes,
        }
    }
}

fn place_of<'a>(place: Place<'a>, own: &[u8]) -> (Where, Text<'a>) {
    match place {
        Place::Job(Some(name)) if name != *own => (Where::Other, name),
        Place::Job(_) => (Where::Own, Text::EMPTY),
        Place::Node => (Where::Node, Text::EMPTY),
        Place::Attributes => (Where::Attributes, Text::EMPTY),
    }
}
