//! Storage of a request until it is sent, and its encoding.

use super::commits::LocalPuts;
use super::datum::Datum;
use super::request::{Attribute, SpawnApp};
use super::{KEY_BYTES_MAX, PmixRequest, ProcIdentity};
use crate::error::Misuse;
use crate::storage::Buffer;
use crate::wire::pmix::names::{Command, Status, keys};
use crate::wire::pmix::{Format, Packer, Proc, Type, WILDCARD};

/// A queued request. What has no bound is in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueuedPmixRequest {
    Job,
    /// Number of bytes of the put values to send.
    Commit(usize),
    /// The buffer has the body behind the command, packed.
    Packed(Command),
    /// The buffer has the message of the abort.
    Abort {
        code: i32,
    },
}

/// Stores a request, with its texts in `buffer`.
///
/// # Errors
///
/// [`Misuse`]; nothing was stored then.
pub(super) fn keep<B: Buffer>(
    request: &PmixRequest<'_>,
    own: &ProcIdentity,
    puts: &LocalPuts<B>,
    buffer: &mut B,
) -> Result<QueuedPmixRequest, Misuse> {
    match *request {
        PmixRequest::Init => return Ok(QueuedPmixRequest::Job),
        PmixRequest::Commit => return Ok(QueuedPmixRequest::Commit(puts.len())),
        PmixRequest::Abort { code, message } => {
            buffer.extend_fitting(message);
            return Ok(QueuedPmixRequest::Abort { code });
        }
        _ => check(request, own.format)?,
    }
    append_packed(buffer, own.format, "request", |to| write_fields(request, own, to))?;
    Ok(QueuedPmixRequest::Packed(command(request)))
}

impl QueuedPmixRequest {
    /// Command of the request.
    pub(super) const fn command(self) -> Command {
        match self {
            Self::Job => Command::REQ,
            Self::Commit(_) => Command::COMMIT,
            Self::Packed(command) => command,
            Self::Abort { .. } => Command::ABORT,
        }
    }

    /// Writes the body of the message.
    pub(super) fn write<B: Buffer>(self, text: &[u8], puts: &LocalPuts<B>, to: &mut Packer<'_>) {
        to.one(Type::COMMAND).u8(self.command().0);
        match self {
            Self::Job => {}
            Self::Commit(until) => puts.write(until, to),
            Self::Packed(_) => {
                to.raw(text);
            }
            Self::Abort { code } => {
                to.one(Type::STATUS).i32(code);
                to.one(Type::STRING).text(Some(text)).one(Type::SIZE).size(0);
            }
        }
    }
}

/// Appends the bytes that `write` packs; it is called twice: to count, and to write.
///
/// # Errors
///
/// [`Misuse::Length`] without the room; nothing was appended then.
pub(super) fn append_packed(
    buffer: &mut impl Buffer,
    format: Format,
    what: &'static str,
    write: impl Fn(&mut Packer<'_>),
) -> Result<(), Misuse> {
    let mut counted = Packer::new(&mut [], format);
    write(&mut counted);
    let (len_bytes, limit_bytes) = (counted.len(), buffer.room());
    let no_room = Misuse::Length { what, len_bytes, limit_bytes };
    if len_bytes > limit_bytes {
        return Err(no_room);
    }
    let packed = buffer.append_with(
        || len_bytes,
        |room| {
            let mut to = Packer::new(room, format);
            write(&mut to);
            to.finish()
        },
    );
    packed.map(drop).map_err(|_| no_room)
}

/// Checks a text, which has a terminator on the wire.
pub(super) fn check_text(text: &[u8]) -> Result<(), Misuse> {
    if text.contains(&0) {
        return Err(Misuse::NotRepresentable { what: "a text with NUL" });
    }
    Ok(())
}

/// Checks a key of any owner.
pub(super) fn check_key(key: &[u8]) -> Result<(), Misuse> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        let limit_bytes = KEY_BYTES_MAX;
        return Err(Misuse::Length { what: "key", len_bytes: key.len(), limit_bytes });
    }
    check_text(key)
}

/// Command of a request that is packed when it is queued.
const fn command(request: &PmixRequest<'_>) -> Command {
    match request {
        PmixRequest::Init => Command::REQ,
        PmixRequest::Commit => Command::COMMIT,
        PmixRequest::Fence { .. } => Command::FENCE,
        PmixRequest::Get { .. } => Command::GET,
        PmixRequest::Publish { .. } => Command::PUBLISH,
        PmixRequest::Lookup { .. } => Command::LOOKUP,
        PmixRequest::Unpublish { .. } => Command::UNPUBLISH,
        PmixRequest::Spawn { .. } => Command::SPAWN,
        PmixRequest::Connect { .. } => Command::CONNECT,
        PmixRequest::Disconnect { .. } => Command::DISCONNECT,
        PmixRequest::Register { .. } => Command::REGISTER_EVENTS,
        PmixRequest::Deregister { .. } => Command::DEREGISTER_EVENTS,
        PmixRequest::Notify { .. } => Command::NOTIFY,
        PmixRequest::Query { .. } => Command::QUERY,
        PmixRequest::Log { .. } => Command::LOG,
        PmixRequest::JobControl { .. } => Command::JOB_CONTROL,
        PmixRequest::GroupConstruct { .. } => Command::GROUP_CONSTRUCT,
        PmixRequest::GroupDestruct { .. } => Command::GROUP_DESTRUCT,
        PmixRequest::GroupLeave { .. } => Command::GROUP_LEAVE,
        PmixRequest::Finalize => Command::FINALIZE,
        PmixRequest::Abort { .. } => Command::ABORT,
    }
}

/// Checks the texts and numbers of a request.
fn check(request: &PmixRequest<'_>, format: Format) -> Result<(), Misuse> {
    let attributes = |list: &[Attribute<'_>]| list.iter().try_for_each(|one| one.check(format));
    match *request {
        PmixRequest::Fence { procs, .. }
        | PmixRequest::Connect { procs, .. }
        | PmixRequest::Disconnect { procs, .. } => check_procs(procs),
        PmixRequest::Get { of, key, .. } => {
            check_procs(&[of])?;
            match key {
                Some(key) if key.len() > KEY_BYTES_MAX => check_key(key),
                Some(key) => check_text(key),
                None => Ok(()),
            }
        }
        PmixRequest::Publish { key, text } => {
            check_own_key(key)?;
            check_text(text)
        }
        PmixRequest::Lookup { key, .. } | PmixRequest::Unpublish { key } => check_own_key(key),
        PmixRequest::Spawn { apps, directives } => {
            if apps.is_empty() {
                return Err(Misuse::NotRepresentable { what: "a spawn without a program" });
            }
            apps.iter().try_for_each(|app| check_app(app, format))?;
            attributes(directives)
        }
        PmixRequest::Register { directives, .. } => attributes(directives),
        PmixRequest::Notify { attributes: list, .. } => attributes(list),
        PmixRequest::Query { keys, qualifiers } => {
            keys.iter().try_for_each(|key| check_key(key))?;
            attributes(qualifiers)
        }
        PmixRequest::Log { data, directives, .. } => {
            attributes(data)?;
            attributes(directives)
        }
        PmixRequest::JobControl { targets: procs, directives } => {
            check_procs(procs)?;
            attributes(directives)
        }
        PmixRequest::GroupConstruct { name, procs, directives } => {
            check_key(name)?;
            check_procs(procs)?;
            attributes(directives)
        }
        PmixRequest::GroupDestruct { name, .. } | PmixRequest::GroupLeave { name } => {
            check_key(name)
        }
        PmixRequest::Init
        | PmixRequest::Commit
        | PmixRequest::Deregister { .. }
        | PmixRequest::Finalize
        | PmixRequest::Abort { .. } => Ok(()),
    }
}

fn check_procs(procs: &[Proc<'_>]) -> Result<(), Misuse> {
    match procs.iter().any(|proc| proc.nspace.contains(&0)) {
        true => Err(Misuse::NotRepresentable { what: "a name space with NUL" }),
        false => Ok(()),
    }
}

/// Checks a key under which a process may publish.
fn check_own_key(key: &[u8]) -> Result<(), Misuse> {
    check_key(key)?;
    if keys::is_reserved(key) {
        return Err(Misuse::NotRepresentable { what: "a key of the launcher's" });
    }
    Ok(())
}

fn check_app(app: &SpawnApp<'_>, format: Format) -> Result<(), Misuse> {
    if app.command.is_empty() || i32::try_from(app.processes).is_err() {
        return Err(Misuse::NotRepresentable { what: "a program like that" });
    }
    let texts = app.arguments.iter().chain(app.variables).copied();
    let mut texts = texts.chain([app.command]).chain(app.directory);
    texts.try_for_each(check_text)?;
    app.directives.iter().try_for_each(|one| one.check(format))
}

/// Writes the fields behind the command of a request.
fn write_fields(request: &PmixRequest<'_>, own: &ProcIdentity, to: &mut Packer<'_>) {
    match *request {
        PmixRequest::Fence { procs, collect, timeout_s } => {
            let all = [Proc { nspace: b"", rank: WILDCARD }];
            write_procs(if procs.is_empty() { &all } else { procs }, own, to);
            let collect = collect.then_some(Attribute::enabled(keys::COLLECT));
            write_options(collect, timeout_s, to);
        }
        PmixRequest::Connect { procs, timeout_s }
        | PmixRequest::Disconnect { procs, timeout_s } => {
            write_procs(procs, own, to);
            write_options(None, timeout_s, to);
        }
        PmixRequest::Get { of, key, immediate, timeout_s } => {
            to.one(Type::STRING).text(Some(nspace(&of, own)));
            to.one(Type::PROC_RANK).u32(of.rank);
            let immediate = immediate.then_some(Attribute::enabled(keys::IMMEDIATE));
            write_options(immediate, timeout_s, to);
            if let Some(key) = key {
                to.one(Type::STRING).text(Some(key));
            }
        }
        PmixRequest::Publish { key, text } => {
            to.one(Type::UINT32).u32(user(own));
            write_attributes(&[Attribute::new(key, Datum::Text(text))], to);
        }
        PmixRequest::Lookup { key, wait, timeout_s } => {
            write_name(key, own, to);
            // Number of values to wait for: all that are requested.
            let wait = wait.then_some(Attribute::new(keys::WAIT, Datum::Int(0)));
            write_options(wait, timeout_s, to);
        }
        PmixRequest::Unpublish { key } => {
            write_name(key, own, to);
            write_attributes(&[], to);
        }
        PmixRequest::Spawn { apps, directives } => {
            write_attributes(directives, to);
            to.one(Type::SIZE).size(apps.len() as u64).op(Type::APP, count(apps));
            apps.iter().for_each(|app| write_app(app, to));
        }
        PmixRequest::Register { codes, directives } => {
            to.one(Type::SIZE).size(codes.len() as u64);
            if !codes.is_empty() {
                to.op(Type::STATUS, count(codes));
                for code in codes {
                    to.i32(code.0);
                }
            }
            write_attributes(directives, to);
        }
        PmixRequest::Deregister { codes } => {
            let all = [ALL_EVENTS];
            for code in if codes.is_empty() { &all } else { codes } {
                to.one(Type::STATUS).i32(code.0);
            }
        }
        PmixRequest::Notify { code, range, attributes } => {
            to.one(Type::STATUS).i32(code.0).one(Type::DATA_RANGE).u8(range);
            write_attributes(attributes, to);
        }
        PmixRequest::Query { keys, qualifiers } => {
            to.one(Type::SIZE).size(1).one(Type::QUERY);
            write_texts(keys, to.i32(texts(keys.len())));
            write_inner_attributes(qualifiers, to);
        }
        PmixRequest::Log { time_s, data, directives } => {
            to.one(Type::TIME).u64(time_s);
            write_attributes(data, to);
            write_attributes(directives, to);
        }
        PmixRequest::JobControl { targets, directives } => {
            write_procs(targets, own, to);
            write_attributes(directives, to);
        }
        PmixRequest::GroupConstruct { name, procs, directives } => {
            to.one(Type::STRING).text(Some(name));
            write_procs(procs, own, to);
            write_attributes(directives, to);
        }
        PmixRequest::GroupDestruct { name, timeout_s } => {
            to.one(Type::STRING).text(Some(name));
            write_options(None, timeout_s, to);
        }
        PmixRequest::GroupLeave { name } => {
            to.one(Type::STRING).text(Some(name));
            write_attributes(&[], to);
        }
        PmixRequest::Init
        | PmixRequest::Commit
        | PmixRequest::Finalize
        | PmixRequest::Abort { .. } => {}
    }
}

/// Writes processes. Wire: SIZE, PROCs.
fn write_procs(procs: &[Proc<'_>], own: &ProcIdentity, to: &mut Packer<'_>) {
    to.one(Type::SIZE).size(procs.len() as u64);
    if procs.is_empty() {
        return;
    }
    to.op(Type::PROC, count(procs));
    for proc in procs {
        Proc { nspace: nspace(proc, own), ..*proc }.write(to);
    }
}

/// Writes attributes. Wire: SIZE, INFOs.
fn write_attributes(attributes: &[Attribute<'_>], to: &mut Packer<'_>) {
    to.one(Type::SIZE).size(attributes.len() as u64);
    if !attributes.is_empty() {
        to.op(Type::INFO, count(attributes));
    }
    attributes.iter().for_each(|one| one.write(to));
}

/// Writes attributes as inside other values. Wire: `size_t` and as many INFOs.
fn write_inner_attributes(attributes: &[Attribute<'_>], to: &mut Packer<'_>) {
    to.size(attributes.len() as u64);
    attributes.iter().for_each(|one| one.write(to));
}

/// Writes a directive that is enabled, if there is one, and the timeout of the server.
fn write_options(option: Option<Attribute<'_>>, timeout_s: Option<u32>, to: &mut Packer<'_>) {
    match (option, timeout_s.map(Attribute::timeout)) {
        (Some(option), Some(timeout)) => write_attributes(&[option, timeout], to),
        (Some(only), None) | (None, Some(only)) => write_attributes(&[only], to),
        (None, None) => write_attributes(&[], to),
    }
}

/// Writes the front of a request about one published key.
fn write_name(key: &[u8], own: &ProcIdentity, to: &mut Packer<'_>) {
    to.one(Type::UINT32).u32(user(own)).one(Type::SIZE).size(1);
    to.one(Type::STRING).text(Some(key));
}

fn write_app(app: &SpawnApp<'_>, to: &mut Packer<'_>) {
    // The first argument is the name of the program.
    to.text(Some(app.command)).int(texts(app.arguments.len().saturating_add(1)));
    to.text(Some(app.command));
    write_texts(app.arguments, to);
    write_texts(app.variables, to.i32(texts(app.variables.len())));
    to.text(app.directory).int(i32::try_from(app.processes).unwrap_or(i32::MAX));
    write_inner_attributes(app.directives, to);
}

fn write_texts(texts: &[&[u8]], to: &mut Packer<'_>) {
    for text in texts {
        to.text(Some(text));
    }
}

/// Namespace of a process; the own one if it is empty.
fn nspace<'a>(proc: &Proc<'a>, own: &'a ProcIdentity) -> &'a [u8] {
    if proc.nspace.is_empty() { own.nspace.as_bytes() } else { proc.nspace }
}

/// User id under which a client publishes; 0 for a server that takes no proof.
fn user(own: &ProcIdentity) -> u32 {
    own.credential.map_or(0, |credential| credential.user)
}

fn count<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}

fn texts(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Code of the registration for all events.
const ALL_EVENTS: Status = Status(i32::MIN);
