//! Bodies of requests, in the order of their numbers.

use super::fields::{BodyFields, Bytes, put_bytes, put_long, put_number, put_optional, zigzag};
use crate::command::{FenceGroup, Place, Request, Version};
use crate::error::Misuse;
use crate::parts;
use crate::wire::Writer;

/// A request; its tag is written before it.
#[derive(Clone, Copy)]
pub(super) enum RequestBody<'a> {
    Join { id: u64 },
    Open { major: u16, minor: u16 },
    Limits,
    AppNum,
    Universe,
    Name,
    Put { job: Option<Bytes<'a>>, key: Bytes<'a>, value: Bytes<'a> },
    Get { job: Option<Bytes<'a>>, key: Bytes<'a> },
    NodePut { key: Bytes<'a>, value: Bytes<'a> },
    NodeGet { key: Bytes<'a>, wait: bool },
    JobGet { key: Bytes<'a> },
    Fence,
    Publish { service: Bytes<'a>, port: Bytes<'a> },
    Unpublish { service: Bytes<'a> },
    Lookup { service: Bytes<'a> },
    Connect { job: Bytes<'a> },
    Disconnect { job: Bytes<'a> },
    GetAll { job: Bytes<'a> },
    PutAll { job: Bytes<'a>, pairs: u32 },
    PutPair { key: Bytes<'a>, value: Bytes<'a> },
    Abort { code: Option<i32>, world: bool, message: Bytes<'a> },
    Finalize,
}

impl<'a> RequestBody<'a> {
    pub(super) fn write(&self, to: &mut Writer<'_>) {
        to.byte(self.number());
        match *self {
            Self::Join { id } => {
                if parts::LISTEN {
                    put_long(to, id);
                }
            }
            Self::Open { major, minor } => {
                put_number(to, major.into());
                put_number(to, minor.into());
            }
            Self::Put { job, key, value } => {
                put_optional(to, job);
                put_bytes(to, key);
                put_bytes(to, value);
            }
            Self::Get { job, key } => {
                put_optional(to, job);
                put_bytes(to, key);
            }
            Self::NodePut { key: one, value: two }
            | Self::Publish { service: one, port: two }
            | Self::PutPair { key: one, value: two } => {
                put_bytes(to, one);
                put_bytes(to, two);
            }
            Self::NodeGet { key, wait } => {
                put_bytes(to, key);
                to.byte(wait.into());
            }
            Self::JobGet { key: one }
            | Self::Unpublish { service: one }
            | Self::Lookup { service: one }
            | Self::Connect { job: one }
            | Self::Disconnect { job: one }
            | Self::GetAll { job: one } => put_bytes(to, one),
            Self::PutAll { job, pairs } => {
                put_bytes(to, job);
                put_number(to, pairs);
            }
            Self::Abort { code, world, message } => {
                to.byte(code.is_some().into());
                if let Some(code) = code {
                    put_number(to, zigzag(code));
                }
                to.byte(world.into());
                put_bytes(to, message);
            }
            Self::Limits
            | Self::AppNum
            | Self::Universe
            | Self::Name
            | Self::Fence
            | Self::Finalize => {}
        }
    }

    /// Number of the request, as in `docs/binary.md`.
    const fn number(&self) -> u8 {
        match self {
            Self::Join { .. } => 0,
            Self::Open { .. } => 1,
            Self::Limits => 2,
            Self::AppNum => 3,
            Self::Universe => 4,
            Self::Name => 5,
            Self::Put { .. } => 6,
            Self::Get { .. } => 7,
            Self::NodePut { .. } => 8,
            Self::NodeGet { .. } => 9,
            Self::JobGet { .. } => 10,
            Self::Fence => 11,
            Self::Publish { .. } => 12,
            Self::Unpublish { .. } => 13,
            Self::Lookup { .. } => 14,
            Self::Connect { .. } => 15,
            Self::Disconnect { .. } => 16,
            Self::GetAll { .. } => 17,
            Self::PutAll { .. } => 18,
            Self::PutPair { .. } => 19,
            Self::Abort { .. } => 20,
            Self::Finalize => 21,
        }
    }

    pub(super) fn read(from: &mut BodyFields<'a>) -> Option<Self> {
        Some(match from.byte()? {
            0 => Self::Join { id: from.long()? },
            1 => Self::Open { major: from.short()?, minor: from.short()? },
            2 => Self::Limits,
            3 => Self::AppNum,
            4 => Self::Universe,
            5 => Self::Name,
            6 => Self::Put { job: from.optional()?, key: from.bytes()?, value: from.bytes()? },
            7 => Self::Get { job: from.optional()?, key: from.bytes()? },
            8 => Self::NodePut { key: from.bytes()?, value: from.bytes()? },
            9 => Self::NodeGet { key: from.bytes()?, wait: from.flag()? },
            10 => Self::JobGet { key: from.bytes()? },
            11 => Self::Fence,
            12 => Self::Publish { service: from.bytes()?, port: from.bytes()? },
            13 => Self::Unpublish { service: from.bytes()? },
            14 => Self::Lookup { service: from.bytes()? },
            15 => Self::Connect { job: from.bytes()? },
            16 => Self::Disconnect { job: from.bytes()? },
            17 => Self::GetAll { job: from.bytes()? },
            18 => Self::PutAll { job: from.bytes()?, pairs: from.number(u32::BITS)? },
            19 => Self::PutPair { key: from.bytes()?, value: from.bytes()? },
            20 => {
                let code = if from.flag()? { Some(from.signed()?) } else { None };
                Self::Abort { code, world: from.flag()?, message: from.bytes()? }
            }
            21 => Self::Finalize,
            _ => return None,
        })
    }

    pub(super) fn of(request: &Request<'a>) -> Result<Self, Misuse> {
        let unsayable = Misuse::NotRepresentable { what: "a request that our frames do not have" };
        Ok(match *request {
            Request::InitAck { id } => Self::Join { id },
            Request::Init { version: Version { major, minor } } => Self::Open { major, minor },
            Request::Maxes => Self::Limits,
            Request::AppNum => Self::AppNum,
            Request::UniverseSize => Self::Universe,
            Request::KvsName => Self::Name,
            Request::Put { place: Place::Job(job), key, value } => {
                Self::Put { job: job.map(Bytes), key: Bytes(key), value: Bytes(value) }
            }
            Request::Put { place: Place::Node, key, value } => {
                Self::NodePut { key: Bytes(key), value: Bytes(value) }
            }
            Request::Get { place: Place::Job(job), key, .. } => {
                Self::Get { job: job.map(Bytes), key: Bytes(key) }
            }
            Request::Get { place: Place::Node, key, wait } => {
                Self::NodeGet { key: Bytes(key), wait }
            }
            Request::Get { place: Place::Attributes, key, .. } => Self::JobGet { key: Bytes(key) },
            Request::Fence { group: FenceGroup::World, tag: None } => Self::Fence,
            Request::Publish { service, port } => {
                Self::Publish { service: Bytes(service), port: Bytes(port) }
            }
            Request::Unpublish { service } => Self::Unpublish { service: Bytes(service) },
            Request::Lookup { service } => Self::Lookup { service: Bytes(service) },
            Request::Connect { job } => Self::Connect { job: Bytes(job) },
            Request::Disconnect { job } => Self::Disconnect { job: Bytes(job) },
            Request::GetAll { job } => Self::GetAll { job: Bytes(job) },
            Request::PutAll { job, pairs } => Self::PutAll { job: Bytes(job), pairs },
            Request::PutPair { key, value } => {
                Self::PutPair { key: Bytes(key), value: Bytes(value) }
            }
            Request::Abort { code, world, message } => {
                Self::Abort { code, world, message: Bytes(message) }
            }
            Request::Finalize => Self::Finalize,
            _ => return Err(unsayable),
        })
    }

    pub(super) fn request(self) -> Request<'a> {
        let text = |bytes: Option<Bytes<'a>>| bytes.map(|bytes| bytes.0);
        match self {
            Self::Join { id } => Request::InitAck { id },
            Self::Open { major, minor } => Request::Init { version: Version { major, minor } },
            Self::Limits => Request::Maxes,
            Self::AppNum => Request::AppNum,
            Self::Universe => Request::UniverseSize,
            Self::Name => Request::KvsName,
            Self::Put { job, key, value } => {
                Request::Put { place: Place::Job(text(job)), key: key.0, value: value.0 }
            }
            Self::Get { job, key } => {
                Request::Get { place: Place::Job(text(job)), key: key.0, wait: false }
            }
            Self::NodePut { key, value } => {
                Request::Put { place: Place::Node, key: key.0, value: value.0 }
            }
            Self::NodeGet { key, wait } => Request::Get { place: Place::Node, key: key.0, wait },
            Self::JobGet { key } => {
                Request::Get { place: Place::Attributes, key: key.0, wait: false }
            }
            Self::Fence => Request::Fence { group: FenceGroup::World, tag: None },
            Self::Publish { service, port } => {
                Request::Publish { service: service.0, port: port.0 }
            }
            Self::Unpublish { service } => Request::Unpublish { service: service.0 },
            Self::Lookup { service } => Request::Lookup { service: service.0 },
            Self::Connect { job } => Request::Connect { job: job.0 },
            Self::Disconnect { job } => Request::Disconnect { job: job.0 },
            Self::GetAll { job } => Request::GetAll { job: job.0 },
            Self::PutAll { job, pairs } => Request::PutAll { job: job.0, pairs },
            Self::PutPair { key, value } => Request::PutPair { key: key.0, value: value.0 },
            Self::Abort { code, world, message } => {
                Request::Abort { code, world, message: message.0 }
            }
            Self::Finalize => Request::Finalize,
        }
    }
}
