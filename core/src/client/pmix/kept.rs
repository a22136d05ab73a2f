//! What is kept of a request until it is sent, and how it is written.

use super::posts::{Posts, SHORT_BYTES, short};
use super::{Identity, KEY_BYTES_MAX, Request};
use crate::error::Misuse;
use crate::storage::Buffer;
use crate::wire::pmix::names::{Command, keys};
use crate::wire::pmix::{Packer, Proc, Type, WILDCARD};

/// A request, whose texts lie behind each other in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    Job,
    /// The first so many bytes of what was put.
    Commit(usize),
    /// The text is so many processes, packed.
    Fence {
        count: u32,
        collect: bool,
        timeout_s: Option<u32>,
    },
    /// The text is a name space and a key.
    Get {
        nspace_bytes: usize,
        has_key: bool,
        rank: u32,
        immediate: bool,
        timeout_s: Option<u32>,
    },
    Finalize,
    /// The text is what is said about it.
    Abort {
        code: i32,
    },
}

/// Copies the texts of a request behind each other.
///
/// Errors: [`Misuse`]; nothing was copied then.
pub(super) fn keep<B: Buffer>(
    request: &Request<'_>,
    own: &Identity,
    posts: &Posts<B>,
    said: &mut B,
) -> Result<Kept, Misuse> {
    let own_nspace = own.nspace.as_bytes();
    Ok(match *request {
        Request::Init => Kept::Job,
        Request::Commit => Kept::Commit(posts.len()),
        Request::Finalize => Kept::Finalize,
        Request::Fence { procs, collect, timeout_s } => {
            let all = [Proc { nspace: b"", rank: WILDCARD }];
            let procs = if procs.is_empty() { &all } else { procs };
            let mut counted = Packer::new(&mut [], own.format);
            for proc in procs {
                Proc { nspace: name(proc, own_nspace)?, ..*proc }.write(&mut counted);
            }
            check_room("processes of a fence", counted.len(), said.room())?;
            for proc in procs {
                let (nspace, rank) = (name(proc, own_nspace)?, proc.rank);
                let (mut front, mut back) = ([0; SHORT_BYTES], [0; SHORT_BYTES]);
                let len = i32::try_from(nspace.len() + 1).unwrap_or(i32::MAX);
                let front = short(&mut front, own.format, |to| {
                    to.i32(len);
                });
                let back = short(&mut back, own.format, |to| {
                    to.u8(0).u32(rank);
                });
                extend(said, &[front, nspace, back])?;
            }
            let count = u32::try_from(procs.len()).unwrap_or(u32::MAX);
            Kept::Fence { count, collect, timeout_s }
        }
        Request::Get { of, key, immediate, timeout_s } => {
            let nspace = name(&of, own_nspace)?;
            let text = key.unwrap_or(b"");
            if text.len() > KEY_BYTES_MAX {
                let (len_bytes, limit_bytes) = (text.len(), KEY_BYTES_MAX);
                return Err(Misuse::Length { what: "key", len_bytes, limit_bytes });
            }
            check_room("name space and key", nspace.len() + text.len(), said.room())?;
            extend(said, &[nspace, text])?;
            let (nspace_bytes, has_key) = (nspace.len(), key.is_some());
            Kept::Get { nspace_bytes, has_key, rank: of.rank, immediate, timeout_s }
        }
        Request::Abort { code, message } => {
            let fitting = message.len().min(said.room());
            extend(said, &[message.get(..fitting).unwrap_or(b"")])?;
            Kept::Abort { code }
        }
    })
}

impl Kept {
    /// What is asked.
    pub(super) const fn command(self) -> Command {
        match self {
            Self::Job => Command::REQ,
            Self::Commit(_) => Command::COMMIT,
            Self::Fence { .. } => Command::FENCE,
            Self::Get { .. } => Command::GET,
            Self::Finalize => Command::FINALIZE,
            Self::Abort { .. } => Command::ABORT,
        }
    }

    /// Writes the body of the message.
    pub(super) fn write<B: Buffer>(self, said: &[u8], posts: &Posts<B>, to: &mut Packer<'_>) {
        to.one(Type::COMMAND).u8(self.command().0);
        match self {
            Self::Job | Self::Finalize => {}
            Self::Commit(until) => posts.write(until, to),
            Self::Fence { count, collect, timeout_s } => {
                to.one(Type::SIZE).size(count.into()).op(Type::PROC, count).raw(said);
                directives(collect.then_some(keys::COLLECT), timeout_s, to);
            }
            Self::Get { nspace_bytes, has_key, rank, immediate, timeout_s } => {
                let (nspace, key) = said.split_at(nspace_bytes.min(said.len()));
                to.one(Type::STRING).text(Some(nspace)).one(Type::PROC_RANK).u32(rank);
                directives(immediate.then_some(keys::IMMEDIATE), timeout_s, to);
                if has_key {
                    to.one(Type::STRING).text(Some(key));
                }
            }
            Self::Abort { code } => {
                to.one(Type::STATUS).i32(code);
                to.one(Type::STRING).text(Some(said)).one(Type::SIZE).size(0);
            }
        }
    }
}

/// Writes a directive that is switched on, if there is one, and how long the server may wait.
fn directives(switch: Option<&[u8]>, timeout_s: Option<u32>, to: &mut Packer<'_>) {
    let count = u32::from(switch.is_some()) + u32::from(timeout_s.is_some());
    to.one(Type::SIZE).size(count.into());
    if count == 0 {
        return;
    }
    to.op(Type::INFO, count);
    if let Some(key) = switch {
        to.text(Some(key)).u32(0).of(Type::BOOL).u8(1);
    }
    if let Some(seconds) = timeout_s {
        let seconds = i32::try_from(seconds).unwrap_or(i32::MAX);
        to.text(Some(keys::TIMEOUT)).u32(0).of(Type::INT).int(seconds);
    }
}

/// The name space of a process; the own one if it is not said.
fn name<'a>(proc: &Proc<'a>, own: &'a [u8]) -> Result<&'a [u8], Misuse> {
    match proc.nspace {
        b"" => Ok(own),
        name if name.contains(&0) => Err(Misuse::NotSayable { what: "a name space with NUL" }),
        name => Ok(name),
    }
}

const fn check_room(what: &'static str, len: usize, room: usize) -> Result<(), Misuse> {
    if len <= room {
        return Ok(());
    }
    Err(Misuse::Length { what, len_bytes: len, limit_bytes: room })
}

/// Adds what was found to have room.
fn extend(said: &mut impl Buffer, pieces: &[&[u8]]) -> Result<(), Misuse> {
    pieces.iter().try_for_each(|piece| said.extend(piece)).map_err(|full| Misuse::Length {
        what: "request",
        len_bytes: full.needed,
        limit_bytes: said.room(),
    })
}
