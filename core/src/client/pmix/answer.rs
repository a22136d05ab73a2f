//! Content of replies and events behind their heads.

use super::JobInfo;
use super::recv::PmixClientEvent;
use crate::error::Malformed;
use crate::wire::pmix::names::{Command, Status};
use crate::wire::pmix::{Format, Kvals, List, Proc, Type, Unpacker, Value};

/// Content behind the status of a reply. For a request with another kind of reply each accessor is
/// empty.
#[derive(Clone, Debug)]
pub struct PmixAnswer<'a> {
    command: Command,
    from: Unpacker<'a>,
    own_rank: u32,
}

/// Published data under the requested keys.
///
/// Wire: SIZE, then as many PDATAs in one pack operation: process, key, value.
#[derive(Clone, Debug)]
pub struct PublishedData<'a> {
    from: Unpacker<'a>,
    left: u32,
}

/// One published value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published<'a> {
    /// Process that published it.
    pub of: Proc<'a>,
    /// The key.
    pub key: &'a [u8],
    /// Published value.
    pub value: Value<'a>,
}

/// Result of the construction of a group.
///
/// Wire: SIZE context id; of later servers SIZE, PROCs, SIZE context id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupResult<'a> {
    /// Context id, if the server has assigned one.
    pub context: Option<u64>,
    /// Members, if the server lists them.
    pub members: Option<List<'a>>,
}

/// Job-level information of several jobs.
///
/// Wire: BYTE_OBJECT, repeated; each has the content of a reply to REQ.
#[derive(Clone, Debug)]
pub struct JobDescriptions<'a> {
    from: Unpacker<'a>,
    own_rank: u32,
}

/// Committed data, process by process.
///
/// Wire: BYTE_OBJECT, repeated; in each PROC, then KVALs.
#[derive(Clone, Debug)]
pub struct Objects<'a>(Unpacker<'a>);

/// Committed data of one process, or known data of a job.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    /// The process; [`WILDCARD`](crate::wire::pmix::WILDCARD) for the job.
    pub of: Proc<'a>,
    /// All data that the client may see, not only the requested key.
    pub kvals: Kvals<'a>,
}

impl<'a> PmixAnswer<'a> {
    /// Reply to a command with this content behind its status.
    pub(super) const fn new(command: Command, from: Unpacker<'a>, own_rank: u32) -> Self {
        Self { command, from, own_rank }
    }

    /// Reply with a status only.
    pub(super) const fn nothing(command: Command, format: Format) -> Self {
        Self::new(command, Unpacker::new(b"", format), 0)
    }

    /// Data that a get has found.
    pub const fn objects(&self) -> Objects<'a> {
        Objects(self.of(Command::GET))
    }

    /// Data that a lookup has found.
    pub fn published(&self) -> PublishedData<'a> {
        let mut from = self.of(Command::LOOKUP);
        // It was checked on arrival.
        let left = read_count(&mut from).unwrap_or(0);
        PublishedData { from, left }
    }

    /// Name of the spawned job.
    pub fn nspace(&self) -> Option<&'a [u8]> {
        self.of(Command::SPAWN).one(Type::STRING).ok()?.text().ok()?
    }

    /// Entries of the reply to a query or to the control of jobs.
    pub fn infos(&self) -> Option<List<'a>> {
        let mut from = match self.command {
            Command::QUERY | Command::JOB_CONTROL if !self.from.is_empty() => self.from,
            _ => return None,
        };
        List::read(&mut from, Type::INFO).ok()
    }

    /// The constructed group.
    pub fn group(&self) -> Option<GroupResult<'a>> {
        let from = self.of(Command::GROUP_CONSTRUCT);
        if from.is_empty() { None } else { read_group(from).ok() }
    }

    /// Jobs that this process is now connected with.
    pub const fn jobs(&self) -> JobDescriptions<'a> {
        JobDescriptions { from: self.of(Command::CONNECT), own_rank: self.own_rank }
    }

    const fn of(&self, command: Command) -> Unpacker<'a> {
        if self.command.0 == command.0 {
            return self.from;
        }
        Unpacker::new(b"", self.from.format())
    }
}

impl<'a> Iterator for PublishedData<'a> {
    type Item = Published<'a>;

    fn next(&mut self) -> Option<Published<'a>> {
        self.left = self.left.checked_sub(1)?;
        read_published(&mut self.from).ok()
    }
}

impl<'a> Iterator for JobDescriptions<'a> {
    type Item = JobInfo<'a>;

    fn next(&mut self) -> Option<JobInfo<'a>> {
        if self.from.is_empty() {
            return None;
        }
        let bytes = self.from.one(Type::BYTE_OBJECT).ok()?.blob().ok()?;
        Some(JobInfo::new(bytes, self.from.format(), self.own_rank))
    }
}

impl<'a> Iterator for Objects<'a> {
    type Item = Object<'a>;

    fn next(&mut self) -> Option<Object<'a>> {
        if self.0.is_empty() {
            return None;
        }
        read_object(&mut self.0).ok()
    }
}

/// Status of a reply.
pub(super) fn read_status(from: &mut Unpacker<'_>) -> Result<Status, Malformed> {
    Ok(Status(from.one(Type::STATUS)?.i32()?))
}

/// Reads everything behind the status of a reply, so that a later reader finds no fault.
pub(super) fn read_all(command: Command, mut from: Unpacker<'_>) -> Result<(), Malformed> {
    match command {
        _ if from.is_empty() => {}
        Command::GET => {
            while !from.is_empty() {
                read_object(&mut from)?;
            }
        }
        Command::LOOKUP => {
            for _ in 0..read_count(&mut from)? {
                read_published(&mut from)?;
            }
        }
        Command::SPAWN => {
            from.one(Type::STRING)?.text()?;
        }
        Command::CONNECT => {
            while !from.is_empty() {
                from.one(Type::BYTE_OBJECT)?.blob()?;
            }
        }
        Command::QUERY | Command::JOB_CONTROL => {
            List::read(&mut from, Type::INFO)?;
        }
        Command::GROUP_CONSTRUCT => {
            read_group(from)?;
        }
        _ => {}
    }
    Ok(())
}

/// Number of published values that follow.
fn read_count(from: &mut Unpacker<'_>) -> Result<u32, Malformed> {
    let said = from.one(Type::SIZE)?.size()?;
    if said == 0 {
        return Ok(0);
    }
    let count = from.op(Type::PDATA)?;
    if u64::from(count) == said {
        Ok(count)
    } else {
        Err(Malformed::new(from.at(), "as much data as announced"))
    }
}

fn read_published<'a>(from: &mut Unpacker<'a>) -> Result<Published<'a>, Malformed> {
    let of = Proc::read(from)?;
    let key = from.text()?.unwrap_or(b"");
    Ok(Published { of, key, value: from.value()? })
}

/// Reads the result of a construction. The members stand only in replies of later servers, which have
/// something behind the first number.
fn read_group(mut from: Unpacker<'_>) -> Result<GroupResult<'_>, Malformed> {
    let mut ahead = from;
    let first = ahead.one(Type::SIZE)?.size()?;
    let (members, context) = match ahead.is_empty() {
        true => (None, first),
        false => {
            let members = List::read(&mut from, Type::PROC)?;
            (Some(members), from.one(Type::SIZE)?.size()?)
        }
    };
    Ok(GroupResult { context: (context != NO_CONTEXT).then_some(context), members })
}

/// Reads the body of an event.
pub(super) fn read_event(mut from: Unpacker<'_>) -> Result<PmixClientEvent<'_>, Malformed> {
    let from = &mut from;
    if Command(from.one(Type::COMMAND)?.u8()?) != Command::NOTIFY {
        return Err(Malformed::new(from.at(), "an event"));
    }
    let code = read_status(from)?;
    let source = Proc::read(from.one(Type::PROC)?)?;
    let infos = List::read(from, Type::INFO)?;
    let range = from.one(Type::DATA_RANGE)?.u8()?;
    Ok(PmixClientEvent::Happened { code, source, range, infos })
}

fn read_object<'a>(from: &mut Unpacker<'a>) -> Result<Object<'a>, Malformed> {
    let format = from.format();
    let mut inside = Unpacker::new(from.one(Type::BYTE_OBJECT)?.blob()?, format);
    let of = Proc::read(inside.one(Type::PROC)?)?;
    Ok(Object { of, kvals: Kvals::after(inside) })
}

/// Number in place of a context id that was not requested.
const NO_CONTEXT: u64 = u64::MAX;
