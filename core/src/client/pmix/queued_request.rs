//! Storage of a request until it is sent, and its encoding.

use super::commits::{LocalPuts, SHORT_BYTES, short};
use super::{KEY_BYTES_MAX, PmixProgram, PmixRequest, ProcIdentity};
use crate::error::Misuse;
use crate::storage::Buffer;
use crate::wire::pmix::names::{Command, Status, keys};
use crate::wire::pmix::{Format, Packer, Proc, Type, WILDCARD};

/// A queued request. Its texts lie one after the other in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueuedPmixRequest {
    Job,
    /// Number of bytes of the put values to send.
    Commit(usize),
    /// A collective operation. The text is so many processes, packed.
    Meeting {
        command: Command,
        count: u32,
        collect: bool,
        timeout_s: Option<u32>,
    },
    /// The text is a namespace and a key.
    Get {
        nspace_bytes: usize,
        has_key: bool,
        rank: u32,
        immediate: bool,
        timeout_s: Option<u32>,
    },
    /// The text is a key and its published value.
    Publish {
        user: u32,
        key_bytes: usize,
    },
    /// A lookup or an unpublish. The text is a key.
    Name {
        command: Command,
        user: u32,
        wait: bool,
        timeout_s: Option<u32>,
    },
    /// The text is so many programs, packed.
    Spawn {
        count: u32,
    },
    Register {
        code: Option<Status>,
    },
    Notify {
        code: Status,
        range: u8,
    },
    Finalize,
    /// The text is the message of the abort.
    Abort {
        code: i32,
    },
}

/// Copies the texts of a request one after the other.
///
/// # Errors
///
/// [`Misuse`]; nothing was copied then.
pub(super) fn keep<B: Buffer>(
    request: &PmixRequest<'_>,
    own: &ProcIdentity,
    posts: &LocalPuts<B>,
    said: &mut B,
) -> Result<QueuedPmixRequest, Misuse> {
    let own_nspace = own.nspace.as_bytes();
    Ok(match *request {
        PmixRequest::Init => QueuedPmixRequest::Job,
        PmixRequest::Commit => QueuedPmixRequest::Commit(posts.len()),
        PmixRequest::Finalize => QueuedPmixRequest::Finalize,
        PmixRequest::Fence { procs, collect, timeout_s } => {
            let all = [Proc { nspace: b"", rank: WILDCARD }];
            let procs = if procs.is_empty() { &all } else { procs };
            let count = keep_procs(procs, own, said)?;
            QueuedPmixRequest::Meeting { command: Command::FENCE, count, collect, timeout_s }
        }
        PmixRequest::Connect { procs, timeout_s }
        | PmixRequest::Disconnect { procs, timeout_s } => {
            let is_connect = matches!(request, PmixRequest::Connect { .. });
            let command = if is_connect { Command::CONNECT } else { Command::DISCONNECT };
            let count = keep_procs(procs, own, said)?;
            QueuedPmixRequest::Meeting { command, count, collect: false, timeout_s }
        }
        PmixRequest::Publish { key, text } => {
            check_name(key)?;
            if text.contains(&0) {
                return Err(Misuse::NotRepresentable { what: "a text with NUL" });
            }
            check_room("key and text", key.len() + text.len(), said.room())?;
            extend(said, &[key, text])?;
            QueuedPmixRequest::Publish { user: user(own), key_bytes: key.len() }
        }
        PmixRequest::Lookup { key, wait, timeout_s } => {
            check_name(key)?;
            check_room("key", key.len(), said.room())?;
            extend(said, &[key])?;
            QueuedPmixRequest::Name { command: Command::LOOKUP, user: user(own), wait, timeout_s }
        }
        PmixRequest::Unpublish { key } => {
            check_name(key)?;
            check_room("key", key.len(), said.room())?;
            extend(said, &[key])?;
            let (command, user) = (Command::UNPUBLISH, user(own));
            QueuedPmixRequest::Name { command, user, wait: false, timeout_s: None }
        }
        PmixRequest::Spawn { programs } => {
            QueuedPmixRequest::Spawn { count: keep_programs(programs, own.format, said)? }
        }
        PmixRequest::Register { code } => QueuedPmixRequest::Register { code },
        PmixRequest::Notify { code, range } => QueuedPmixRequest::Notify { code, range },
        PmixRequest::Get { of, key, immediate, timeout_s } => {
            let nspace = name(&of, own_nspace)?;
            let text = key.unwrap_or(b"");
            if text.len() > KEY_BYTES_MAX {
                let (len_bytes, limit_bytes) = (text.len(), KEY_BYTES_MAX);
                return Err(Misuse::Length { what: "key", len_bytes, limit_bytes });
            }
            check_room("name space and key", nspace.len() + text.len(), said.room())?;
            extend(said, &[nspace, text])?;
            let (nspace_bytes, has_key) = (nspace.len(), key.is_some());
            QueuedPmixRequest::Get { nspace_bytes, has_key, rank: of.rank, immediate, timeout_s }
        }
        PmixRequest::Abort { code, message } => {
            let fitting = message.len().min(said.room());
            extend(said, &[message.get(..fitting).unwrap_or(b"")])?;
            QueuedPmixRequest::Abort { code }
        }
    })
}

impl QueuedPmixRequest {
    /// Command of the request.
    pub(super) const fn command(self) -> Command {
        match self {
            Self::Job => Command::REQ,
            Self::Commit(_) => Command::COMMIT,
            Self::Meeting { command, .. } | Self::Name { command, .. } => command,
            Self::Publish { .. } => Command::PUBLISH,
            Self::Spawn { .. } => Command::SPAWN,
            Self::Register { .. } => Command::REGISTER_EVENTS,
            Self::Notify { .. } => Command::NOTIFY,
            Self::Get { .. } => Command::GET,
            Self::Finalize => Command::FINALIZE,
            Self::Abort { .. } => Command::ABORT,
        }
    }

    /// Writes the body of the message.
    pub(super) fn write<B: Buffer>(self, said: &[u8], posts: &LocalPuts<B>, to: &mut Packer<'_>) {
        to.one(Type::COMMAND).u8(self.command().0);
        match self {
            Self::Job | Self::Finalize => {}
            Self::Commit(until) => posts.write(until, to),
            Self::Meeting { count, collect, timeout_s, .. } => {
                to.one(Type::SIZE).size(count.into()).op(Type::PROC, count).raw(said);
                directives(collect.then_some(keys::COLLECT), timeout_s, to);
            }
            Self::Publish { user, key_bytes } => {
                let (key, text) = said.split_at(key_bytes.min(said.len()));
                to.one(Type::UINT32).u32(user).one(Type::SIZE).size(1).one(Type::INFO);
                to.text(Some(key)).u32(0).of(Type::STRING).text(Some(text));
            }
            Self::Name { user, wait, timeout_s, .. } => {
                to.one(Type::UINT32).u32(user).one(Type::SIZE).size(1);
                to.one(Type::STRING).text(Some(said));
                directives(wait.then_some(keys::WAIT), timeout_s, to);
            }
            Self::Spawn { count } => {
                // No directives for the job.
                to.one(Type::SIZE).size(0).one(Type::SIZE).size(count.into());
                to.op(Type::APP, count).raw(said);
            }
            Self::Register { code } => {
                to.one(Type::SIZE).size(code.is_some().into());
                if let Some(code) = code {
                    to.one(Type::STATUS).i32(code.0);
                }
                to.one(Type::SIZE).size(0);
            }
            Self::Notify { code, range } => {
                to.one(Type::STATUS).i32(code.0).one(Type::DATA_RANGE).u8(range);
                to.one(Type::SIZE).size(0);
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

/// Writes a directive that is switched on, if there is one, and the timeout of the server.
fn directives(switch: Option<&[u8]>, timeout_s: Option<u32>, to: &mut Packer<'_>) {
    let count = u32::from(switch.is_some()) + u32::from(timeout_s.is_some());
    to.one(Type::SIZE).size(count.into());
    if count == 0 {
        return;
    }
    to.op(Type::INFO, count);
    match switch {
        // Number of values to wait for: all that are requested.
        Some(keys::WAIT) => {
            to.text(Some(keys::WAIT)).u32(0).of(Type::INT).int(0);
        }
        Some(key) => {
            to.text(Some(key)).u32(0).of(Type::BOOL).u8(1);
        }
        None => {}
    }
    if let Some(seconds) = timeout_s {
        let seconds = i32::try_from(seconds).unwrap_or(i32::MAX);
        to.text(Some(keys::TIMEOUT)).u32(0).of(Type::INT).int(seconds);
    }
}

/// Copies processes in their encoding; returns their number.
fn keep_procs(
    procs: &[Proc<'_>],
    own: &ProcIdentity,
    said: &mut impl Buffer,
) -> Result<u32, Misuse> {
    let own_nspace = own.nspace.as_bytes();
    let mut counted = Packer::new(&mut [], own.format);
    for proc in procs {
        Proc { nspace: name(proc, own_nspace)?, ..*proc }.write(&mut counted);
    }
    check_room("processes", counted.len(), said.room())?;
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
    Ok(u32::try_from(procs.len()).unwrap_or(u32::MAX))
}

/// Copies programs in their encoding; returns their number.
fn keep_programs(
    programs: &[PmixProgram<'_>],
    format: Format,
    said: &mut impl Buffer,
) -> Result<u32, Misuse> {
    let unfit = Misuse::NotRepresentable { what: "a program like that" };
    let mut len = 0_usize;
    for program in programs {
        let PmixProgram { words, variables, directory, processes } = program;
        let mut texts = words.iter().chain(*variables).chain(directory);
        let command = words.first().filter(|word| !word.is_empty()).ok_or(unfit)?;
        let processes = i32::try_from(*processes).map_err(|_| unfit)?;
        if texts.any(|text| text.contains(&0)) {
            return Err(unfit);
        }
        let mut counted = Packer::new(&mut [], format);
        counted.text(Some(command)).int(count(words));
        for word in *words {
            counted.text(Some(word));
        }
        counted.i32(count(variables));
        for variable in *variables {
            counted.text(Some(variable));
        }
        counted.text(*directory).int(processes).size(0);
        len = len.saturating_add(counted.len());
    }
    if programs.is_empty() {
        return Err(unfit);
    }
    check_room("programs", len, said.room())?;
    for PmixProgram { words, variables, directory, processes } in programs {
        let processes = i32::try_from(*processes).unwrap_or(i32::MAX);
        let numbers = |said: &mut _, write: &dyn Fn(&mut Packer<'_>)| {
            let mut scratch = [0; SHORT_BYTES];
            extend(said, &[short(&mut scratch, format, |to| write(to))])
        };
        let text = |said: &mut _, text: Option<&[u8]>| {
            // The length counts the NUL.
            let len = text.map_or(0, |text| i32::try_from(text.len() + 1).unwrap_or(i32::MAX));
            numbers(said, &|to| {
                to.i32(len);
            })?;
            text.map_or(Ok(()), |text| extend(said, &[text, &[0]]))
        };
        text(said, words.first().copied())?;
        numbers(said, &|to| {
            to.int(count(words));
        })?;
        words.iter().try_for_each(|word| text(said, Some(word)))?;
        numbers(said, &|to| {
            to.i32(count(variables));
        })?;
        variables.iter().try_for_each(|variable| text(said, Some(variable)))?;
        text(said, *directory)?;
        numbers(said, &|to| {
            to.int(processes).size(0);
        })?;
    }
    u32::try_from(programs.len()).map_err(|_| unfit)
}

fn count(texts: &[&[u8]]) -> i32 {
    i32::try_from(texts.len()).unwrap_or(i32::MAX)
}

/// User id under which a client publishes; 0 for a server that takes no proof.
fn user(own: &ProcIdentity) -> u32 {
    own.credential.map_or(0, |credential| credential.user)
}

/// Checks that a key is valid for publishing.
fn check_name(key: &[u8]) -> Result<(), Misuse> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        let limit_bytes = KEY_BYTES_MAX;
        return Err(Misuse::Length { what: "key", len_bytes: key.len(), limit_bytes });
    }
    if keys::is_reserved(key) {
        return Err(Misuse::NotRepresentable { what: "a key of the launcher's" });
    }
    if key.contains(&0) {
        return Err(Misuse::NotRepresentable { what: "a text with NUL" });
    }
    Ok(())
}

/// Namespace of a process; the own one if it is empty.
fn name<'a>(proc: &Proc<'a>, own: &'a [u8]) -> Result<&'a [u8], Misuse> {
    match proc.nspace {
        b"" => Ok(own),
        name if name.contains(&0) => {
            Err(Misuse::NotRepresentable { what: "a name space with NUL" })
        }
        name => Ok(name),
    }
}

const fn check_room(what: &'static str, len: usize, room: usize) -> Result<(), Misuse> {
    if len <= room {
        return Ok(());
    }
    Err(Misuse::Length { what, len_bytes: len, limit_bytes: room })
}

/// Appends pieces for which there is room.
fn extend(said: &mut impl Buffer, pieces: &[&[u8]]) -> Result<(), Misuse> {
    pieces.iter().try_for_each(|piece| said.extend(piece)).map_err(|full| Misuse::Length {
        what: "request",
        len_bytes: full.needed,
        limit_bytes: said.room(),
    })
}
