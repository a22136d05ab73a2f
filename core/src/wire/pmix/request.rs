//! Requests of clients, command by command.

use super::format::{Family, Format};
use super::names::Command;
use super::parts::{Info, List, Scopes};
use super::types::Type;
use super::unpack::Unpacker;
use crate::error::Malformed;

/// One request; its texts and values are borrowed from its bytes.
///
/// Wire: COMMAND, then the fields of the variant in their order, one pack operation each. Further bytes
/// come from a newer client and are ignored.
#[derive(Clone, Debug)]
pub enum Request<'a> {
    /// Job-level information of the client's job. Wire: no fields.
    Req,
    /// Aborts processes.
    Abort {
        /// The exit code. Wire: STATUS.
        code: i32,
        /// Message. Wire: STRING.
        message: Option<&'a [u8]>,
        /// Processes to abort; the whole job if empty. Wire: SIZE, PROCs.
        targets: List<'a>,
    },
    /// Data put since the last commit. Wire: SCOPE, BUFFER, repeated.
    Commit(Scopes<'a>),
    /// A fence.
    Fence(Collective<'a>),
    /// Committed data of a process.
    Get(Get<'a>),
    /// End of the session. Wire: no fields.
    Finalize,
    /// Data that others can look up.
    Publish {
        /// Wire: UINT32.
        user: u32,
        /// The data, and directives. Wire: SIZE, INFOs.
        infos: List<'a>,
    },
    /// Data that others have published.
    Lookup(Names<'a>),
    /// Withdraws published data; all of it if there are no keys.
    Unpublish(Names<'a>),
    /// New processes.
    Spawn {
        /// Attributes of all applications. Wire: SIZE, INFOs.
        infos: List<'a>,
        /// The programs. Wire: SIZE, APPs.
        apps: List<'a>,
    },
    /// A fence that connects the jobs of the participants.
    Connect(Collective<'a>),
    /// A fence that disconnects them.
    Disconnect(Collective<'a>),
    /// Publishes an event.
    Notify {
        /// Event code. Wire: STATUS.
        code: i32,
        /// Range of the event. Wire: DATA_RANGE.
        range: u8,
        /// Further attributes of the event. Wire: SIZE, INFOs.
        infos: List<'a>,
    },
    /// Event codes that the client registers for.
    RegisterEvents {
        /// Codes; all events if the list is empty. Wire: SIZE, STATUSes.
        codes: List<'a>,
        /// Restrictions. Wire: SIZE, INFOs.
        infos: List<'a>,
    },
    /// Event codes that the client deregisters. Wire: STATUS, repeated.
    DeregisterEvents(EventCodes<'a>),
    /// Information of the process manager. Wire: SIZE, QUERYs.
    Query(List<'a>),
    /// Log entries.
    Log {
        /// Time of the entries, in seconds. Wire: TIME.
        time: Option<u64>,
        /// Data. Wire: SIZE, INFOs.
        data: List<'a>,
        /// Directives. Wire: SIZE, INFOs.
        directives: List<'a>,
    },
    /// Signals, and registration of files for cleanup.
    JobControl {
        /// Targets; the whole session if empty. Wire: SIZE, PROCs.
        targets: List<'a>,
        /// Data. Wire: SIZE, INFOs.
        infos: List<'a>,
    },
    /// Starts or stops a monitor.
    Monitor {
        /// Kind of monitor: heartbeats of a process, or a file. Wire: INFO.
        what: Info<'a>,
        /// Event code of the alert. Wire: STATUS.
        code: i32,
        /// Directives. Wire: SIZE, INFOs.
        infos: List<'a>,
    },
    /// `PMIx_Get_credential`. Wire: SIZE, INFOs.
    GetCredential(List<'a>),
    /// `PMIx_Validate_credential`.
    ValidateCredential {
        /// The proof. Wire: BYTE_OBJECT.
        credential: &'a [u8],
        /// Directives. Wire: SIZE, INFOs.
        infos: List<'a>,
    },
    /// Current data of a process.
    RefreshCache {
        /// The name of its job. Wire: STRING.
        nspace: &'a [u8],
        /// Its rank, or one of [`ranks`](super::ranks). Wire: PROC_RANK.
        rank: u32,
    },
    /// A group of processes.
    GroupConstruct {
        /// Its name. Wire: STRING.
        name: &'a [u8],
        /// Members and directives. Wire: SIZE, PROCs, SIZE, INFOs.
        group: Collective<'a>,
    },
    /// Destructs a group.
    GroupDestruct {
        /// Its name. Wire: STRING.
        name: &'a [u8],
        /// The rest, which differs by version: SIZE, PROCs (from 4.2.4), SIZE, INFOs.
        rest: Unpacker<'a>,
    },
    /// Leaves a group.
    GroupLeave {
        /// Its name. Wire: STRING.
        name: &'a [u8],
        /// Directives. Wire: SIZE, INFOs.
        infos: List<'a>,
    },
    /// Output of processes, for the requester. Wire: SIZE, PROCs, SIZE, INFOs, and the fields.
    IofPull {
        /// The processes.
        procs: List<'a>,
        /// Directives.
        infos: List<'a>,
        /// Bits of [`channel`](super::names::channel). Wire: IOF_CHANNEL.
        channels: u16,
        /// Number of the request at the requester; none before 4.0. Wire: SIZE.
        reference: Option<u64>,
    },
    /// Input for processes. Wire: SIZE, PROCs, SIZE, INFOs, and the field.
    IofPush {
        /// The processes.
        procs: List<'a>,
        /// Directives.
        infos: List<'a>,
        /// The input; empty at its end. Wire: BYTE_OBJECT, or nothing.
        data: &'a [u8],
    },
    /// Ends the forwarding of output. Wire: SIZE, INFOs, and the field.
    IofDeregister {
        /// Directives.
        infos: List<'a>,
        /// Number of the request at the server. Wire: SIZE.
        reference: u64,
    },
    /// The processes of a job on a node.
    ResolvePeers {
        /// The node; all nodes if there is none. Wire: STRING.
        node: Option<&'a [u8]>,
        /// The job; all jobs if there is none. Wire: STRING.
        nspace: Option<&'a [u8]>,
    },
    /// The nodes of a job; of all jobs if there is none. Wire: STRING.
    ResolveNodes(Option<&'a [u8]>),
    /// A known request with fields that are not read.
    Other(Command, Unpacker<'a>),
}

/// A collective request.
///
/// Wire: SIZE, PROCs, SIZE, INFOs.
#[derive(Clone, Copy, Debug)]
pub struct Collective<'a> {
    /// Participants.
    pub procs: List<'a>,
    /// Directives.
    pub infos: List<'a>,
}

/// A request for the committed data of a process.
///
/// Wire: STRING, PROC_RANK, SIZE, INFOs, STRING; without the last one if there is no key.
#[derive(Clone, Copy, Debug)]
pub struct Get<'a> {
    /// The name of its job.
    pub nspace: &'a [u8],
    /// Its rank, or one of [`ranks`](super::ranks).
    pub rank: u32,
    /// Directives.
    pub infos: List<'a>,
    /// Requested key; all data if there is none.
    pub key: Option<&'a [u8]>,
}

/// A request about published data.
///
/// Wire: UINT32 user, SIZE, as many pack operations of one STRING, SIZE, INFOs.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// User id of the client.
    pub user: u32,
    /// Number of keys.
    pub count: u32,
    keys: Unpacker<'a>,
    /// Directives.
    pub infos: List<'a>,
}

/// Status codes up to the end of a message, one pack operation each.
#[derive(Clone, Debug)]
pub struct EventCodes<'a>(Unpacker<'a>);

impl<'a> Request<'a> {
    /// Returns the command at the front of a body, and its length, for any format of the connection;
    /// for readers of single messages.
    pub fn command_of(body: &[u8]) -> Option<(Command, usize)> {
        let read = |format| {
            let mut from = Unpacker::new(body, format);
            let command = Command(from.one(Type::COMMAND).ok()?.u8().ok()?);
            command.name().map(|_| (command, from.at()))
        };
        // If types are described, a wrong format fails at once.
        [true, false].into_iter().find_map(|is_described| {
            let families = [Family::Flex, Family::Fixed].into_iter();
            families.map(|family| Format { family, is_described }).find_map(read)
        })
    }

    /// Reads the body of a message.
    ///
    /// # Errors
    ///
    /// [`Malformed`].
    pub fn read(mut from: Unpacker<'a>) -> Result<Self, Malformed> {
        let from = &mut from;
        let command = Command(from.one(Type::COMMAND)?.u8()?);
        Ok(match command {
            Command::REQ => Self::Req,
            Command::ABORT => Self::Abort {
                code: from.one(Type::STATUS)?.i32()?,
                message: from.one(Type::STRING)?.text()?,
                targets: List::read(from, Type::PROC)?,
            },
            Command::COMMIT => Self::Commit(Scopes::after(*from)),
            Command::FENCE => Self::Fence(Collective::read(from)?),
            Command::GET => Self::Get(Get::read(from)?),
            Command::FINALIZE => Self::Finalize,
            Command::PUBLISH => Self::Publish {
                user: from.one(Type::UINT32)?.u32()?,
                infos: List::read(from, Type::INFO)?,
            },
            Command::LOOKUP => Self::Lookup(Names::read(from)?),
            Command::UNPUBLISH => Self::Unpublish(Names::read(from)?),
            Command::SPAWN => Self::Spawn {
                infos: List::read(from, Type::INFO)?,
                apps: List::read(from, Type::APP)?,
            },
            Command::CONNECT => Self::Connect(Collective::read(from)?),
            Command::DISCONNECT => Self::Disconnect(Collective::read(from)?),
            Command::NOTIFY => Self::Notify {
                code: from.one(Type::STATUS)?.i32()?,
                range: from.one(Type::DATA_RANGE)?.u8()?,
                infos: List::read(from, Type::INFO)?,
            },
            Command::REGISTER_EVENTS => Self::RegisterEvents {
                codes: List::read(from, Type::STATUS)?,
                infos: List::read(from, Type::INFO)?,
            },
            Command::DEREGISTER_EVENTS => Self::DeregisterEvents(EventCodes(*from)),
            Command::QUERY => Self::Query(List::read(from, Type::QUERY)?),
            Command::LOG => Self::read_log(from)?,
            Command::JOB_CONTROL => Self::JobControl {
                targets: List::read(from, Type::PROC)?,
                infos: List::read(from, Type::INFO)?,
            },
            Command::MONITOR => {
                from.one(Type::INFO)?;
                Self::Monitor {
                    what: Info::read(from)?,
                    code: from.one(Type::STATUS)?.i32()?,
                    infos: List::read(from, Type::INFO)?,
                }
            }
            Command::GET_CREDENTIAL => Self::GetCredential(List::read(from, Type::INFO)?),
            Command::VALIDATE_CREDENTIAL => Self::ValidateCredential {
                credential: from.one(Type::BYTE_OBJECT)?.blob()?,
                infos: List::read(from, Type::INFO)?,
            },
            Command::REFRESH_CACHE => {
                Self::RefreshCache { nspace: name(from)?, rank: from.one(Type::PROC_RANK)?.u32()? }
            }
            Command::GROUP_CONSTRUCT => {
                Self::GroupConstruct { name: name(from)?, group: Collective::read(from)? }
            }
            Command::GROUP_DESTRUCT => Self::GroupDestruct { name: name(from)?, rest: *from },
            Command::GROUP_LEAVE => {
                Self::GroupLeave { name: name(from)?, infos: List::read(from, Type::INFO)? }
            }
            Command::IOF_PULL => Self::IofPull {
                procs: List::read(from, Type::PROC)?,
                infos: List::read(from, Type::INFO)?,
                channels: from.one(Type::IOF_CHANNEL)?.u16()?,
                reference: match from.is_empty() {
                    true => None,
                    false => Some(from.one(Type::SIZE)?.size()?),
                },
            },
            Command::IOF_PUSH => Self::IofPush {
                procs: List::read(from, Type::PROC)?,
                infos: List::read(from, Type::INFO)?,
                data: match from.is_empty() {
                    true => b"",
                    false => from.one(Type::BYTE_OBJECT)?.blob()?,
                },
            },
            Command::IOF_DEREGISTER => Self::IofDeregister {
                infos: List::read(from, Type::INFO)?,
                reference: from.one(Type::SIZE)?.size()?,
            },
            Command::RESOLVE_PEERS => Self::ResolvePeers {
                node: from.one(Type::STRING)?.text()?,
                nspace: from.one(Type::STRING)?.text()?,
            },
            Command::RESOLVE_NODES => Self::ResolveNodes(from.one(Type::STRING)?.text()?),
            other => Self::Other(other, *from),
        })
    }

    /// Command of the request.
    pub const fn command(&self) -> Command {
        match self {
            Self::Req => Command::REQ,
            Self::Abort { .. } => Command::ABORT,
            Self::Commit(_) => Command::COMMIT,
            Self::Fence(_) => Command::FENCE,
            Self::Get(_) => Command::GET,
            Self::Finalize => Command::FINALIZE,
            Self::Publish { .. } => Command::PUBLISH,
            Self::Lookup(_) => Command::LOOKUP,
            Self::Unpublish(_) => Command::UNPUBLISH,
            Self::Spawn { .. } => Command::SPAWN,
            Self::Connect(_) => Command::CONNECT,
            Self::Disconnect(_) => Command::DISCONNECT,
            Self::Notify { .. } => Command::NOTIFY,
            Self::RegisterEvents { .. } => Command::REGISTER_EVENTS,
            Self::DeregisterEvents(_) => Command::DEREGISTER_EVENTS,
            Self::Query(_) => Command::QUERY,
            Self::Log { .. } => Command::LOG,
            Self::JobControl { .. } => Command::JOB_CONTROL,
            Self::Monitor { .. } => Command::MONITOR,
            Self::GetCredential(_) => Command::GET_CREDENTIAL,
            Self::ValidateCredential { .. } => Command::VALIDATE_CREDENTIAL,
            Self::RefreshCache { .. } => Command::REFRESH_CACHE,
            Self::GroupConstruct { .. } => Command::GROUP_CONSTRUCT,
            Self::GroupDestruct { .. } => Command::GROUP_DESTRUCT,
            Self::GroupLeave { .. } => Command::GROUP_LEAVE,
            Self::IofPull { .. } => Command::IOF_PULL,
            Self::IofPush { .. } => Command::IOF_PUSH,
            Self::IofDeregister { .. } => Command::IOF_DEREGISTER,
            Self::ResolvePeers { .. } => Command::RESOLVE_PEERS,
            Self::ResolveNodes(_) => Command::RESOLVE_NODES,
            Self::Other(command, _) => *command,
        }
    }

    /// Reads log entries. A client that assumes an old server sends no time.
    fn read_log(from: &mut Unpacker<'a>) -> Result<Self, Malformed> {
        let mut ahead = *from;
        let timed = (|| {
            let time = ahead.one(Type::TIME)?.u64()?;
            let data = List::read(&mut ahead, Type::INFO)?;
            let directives = List::read(&mut ahead, Type::INFO)?;
            Ok(Self::Log { time: Some(time), data, directives })
        })();
        timed.or_else(|_: Malformed| {
            let data = List::read(from, Type::INFO)?;
            let directives = List::read(from, Type::INFO)?;
            Ok(Self::Log { time: None, data, directives })
        })
    }
}

impl<'a> Collective<'a> {
    fn read(from: &mut Unpacker<'a>) -> Result<Self, Malformed> {
        let procs = List::read(from, Type::PROC)?;
        Ok(Self { procs, infos: List::read(from, Type::INFO)? })
    }
}

impl<'a> Get<'a> {
    fn read(from: &mut Unpacker<'a>) -> Result<Self, Malformed> {
        let nspace = name(from)?;
        let rank = from.one(Type::PROC_RANK)?.u32()?;
        let infos = List::read(from, Type::INFO)?;
        let key = if from.is_empty() { None } else { from.one(Type::STRING)?.text()? };
        Ok(Self { nspace, rank, infos, key })
    }
}

impl<'a> Names<'a> {
    fn read(from: &mut Unpacker<'a>) -> Result<Self, Malformed> {
        let user = from.one(Type::UINT32)?.u32()?;
        let count = from.one(Type::SIZE)?.size()?;
        from.check_count(count)?;
        let count = u32::try_from(count).map_err(|_| from.malformed("fewer keys"))?;
        let keys = *from;
        for _ in 0..count {
            from.one(Type::STRING)?.text()?;
        }
        Ok(Self { user, count, keys, infos: List::read(from, Type::INFO)? })
    }

    /// The keys in turn.
    pub fn keys(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut from = self.keys;
        (0..self.count).map_while(move |_| from.one(Type::STRING).ok()?.text().ok()?)
    }
}

impl Iterator for EventCodes<'_> {
    type Item = i32;

    fn next(&mut self) -> Option<i32> {
        if self.0.is_empty() {
            return None;
        }
        self.0.one(Type::STATUS).ok()?.i32().ok()
    }
}

/// Reads a mandatory text.
fn name<'a>(from: &mut Unpacker<'a>) -> Result<&'a [u8], Malformed> {
    let text = from.one(Type::STRING)?.text()?;
    text.ok_or_else(|| from.malformed("a name"))
}
