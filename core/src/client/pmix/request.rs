//! Requests of a client.

use super::datum::Datum;
use crate::error::Misuse;
use crate::wire::pmix::names::{Status, flags, keys};
use crate::wire::pmix::{Format, Packer, Proc};

/// Request of a client. An empty namespace is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PmixRequest<'a> {
    /// Connects, and requests the job-level information. Always the first request.
    Init,
    /// Makes the values that were put since the last commit visible to other processes.
    Commit,
    /// Waits until all of `procs` have entered the same fence.
    Fence {
        /// Participants; all processes of the own job if the list is empty.
        procs: &'a [Proc<'a>],
        /// True if committed data is exchanged before the fence ends.
        collect: bool,
        /// Number of seconds after which the server gives up; `None` for no timeout.
        timeout_s: Option<u32>,
    },
    /// Reads the committed data of a process.
    Get {
        /// The process, or one of [`ranks`](crate::wire::pmix::ranks).
        of: Proc<'a>,
        /// Requested key; all data if there is none.
        key: Option<&'a [u8]>,
        /// True if the request fails instead of waiting for missing data.
        immediate: bool,
        /// Number of seconds after which the server gives up; a server has a limit of its own
        /// otherwise.
        timeout_s: Option<u32>,
    },
    /// Publishes a text under a key for every job of the launcher, until this job has ended.
    Publish {
        /// The key.
        key: &'a [u8],
        /// The text.
        text: &'a [u8],
    },
    /// Looks up published data.
    Lookup {
        /// The key.
        key: &'a [u8],
        /// True if the server waits for missing data.
        wait: bool,
        /// Number of seconds after which the server gives up; `None` for no timeout.
        timeout_s: Option<u32>,
    },
    /// Withdraws the data that this process has published under a key.
    Unpublish {
        /// The key.
        key: &'a [u8],
    },
    /// Starts programs as a job of their own.
    Spawn {
        /// The programs; at least one.
        apps: &'a [SpawnApp<'a>],
        /// Directives for all of them.
        directives: &'a [Attribute<'a>],
    },
    /// A fence that connects the jobs of the processes.
    Connect {
        /// Participants, this process among them.
        procs: &'a [Proc<'a>],
        /// Number of seconds after which the server gives up; `None` for no timeout.
        timeout_s: Option<u32>,
    },
    /// A fence that disconnects them.
    Disconnect {
        /// Participants, this process among them.
        procs: &'a [Proc<'a>],
        /// Number of seconds after which the server gives up; `None` for no timeout.
        timeout_s: Option<u32>,
    },
    /// Registers for events; they arrive as [`PmixClientEvent::Happened`](super::PmixClientEvent::Happened).
    Register {
        /// Codes of the events; all events if the list is empty.
        codes: &'a [Status],
        /// Restrictions of the registration.
        directives: &'a [Attribute<'a>],
    },
    /// Deregisters codes. It has no reply.
    Deregister {
        /// Codes of the events; the registration for all events if the list is empty.
        codes: &'a [Status],
    },
    /// Notifies other processes of an event of this process.
    Notify {
        /// Code of the event.
        code: Status,
        /// Processes to notify: one of [`range`](crate::wire::pmix::names::range).
        range: u8,
        /// Further attributes of the event.
        attributes: &'a [Attribute<'a>],
    },
    /// Queries the process manager.
    Query {
        /// Keys of the query; each has an entry in the reply, or none.
        keys: &'a [&'a [u8]],
        /// Job, process or nodes of the query.
        qualifiers: &'a [Attribute<'a>],
    },
    /// Writes log entries.
    Log {
        /// Time of the entries, in seconds since 1970.
        time_s: u64,
        /// Channels with their texts.
        data: &'a [Attribute<'a>],
        /// Directives for all of them.
        directives: &'a [Attribute<'a>],
    },
    /// Controls processes.
    JobControl {
        /// The processes; the whole session if the list is empty.
        targets: &'a [Proc<'a>],
        /// The operation.
        directives: &'a [Attribute<'a>],
    },
    /// Constructs a group, together with the other members.
    GroupConstruct {
        /// Name of the group.
        name: &'a [u8],
        /// Its members, this process among them.
        procs: &'a [Proc<'a>],
        /// Directives.
        directives: &'a [Attribute<'a>],
    },
    /// Destructs a group, together with the other members.
    GroupDestruct {
        /// Name of the group.
        name: &'a [u8],
        /// Number of seconds after which the server gives up; `None` for no timeout.
        timeout_s: Option<u32>,
    },
    /// Leaves a group.
    GroupLeave {
        /// Name of the group.
        name: &'a [u8],
    },
    /// Finalizes the session.
    Finalize,
    /// Aborts the whole job, with an exit code and a message.
    Abort {
        /// The exit code.
        code: i32,
        /// Human-readable message; cut to the available room.
        message: &'a [u8],
    },
}

/// A key with a value: a directive of a request, or a piece of data.
///
/// Wire: INFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: Datum<'a>,
    /// True if the request fails in a server that does not support the attribute.
    pub is_required: bool,
}

/// A program to start.
///
/// Wire: APP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpawnApp<'a> {
    /// Program to start.
    pub command: &'a [u8],
    /// Its arguments, without its name.
    pub arguments: &'a [&'a [u8]],
    /// Variables of its environment, as `NAME=VALUE`.
    pub variables: &'a [&'a [u8]],
    /// Working directory; that of the launcher if there is none.
    pub directory: Option<&'a [u8]>,
    /// Number of processes.
    pub processes: u32,
    /// Directives for this program.
    pub directives: &'a [Attribute<'a>],
}

impl<'a> Attribute<'a> {
    /// Creates an attribute that a server may ignore.
    pub const fn new(key: &'a [u8], value: Datum<'a>) -> Self {
        Self { key, value, is_required: false }
    }

    /// Creates an attribute that is enabled.
    pub const fn enabled(key: &'a [u8]) -> Self {
        Self::new(key, Datum::Bool(true))
    }

    /// The same attribute, which the server must support.
    #[must_use]
    pub const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    /// Number of seconds after which a server gives up.
    pub(super) fn timeout(seconds: u32) -> Self {
        let seconds = i32::try_from(seconds).unwrap_or(i32::MAX);
        Self::new(keys::TIMEOUT, Datum::Int(seconds))
    }

    /// Checks that the attribute can be written.
    pub(super) fn check(&self, format: Format) -> Result<(), Misuse> {
        super::queued_request::check_key(self.key)?;
        self.value.check(format)
    }

    /// Writes the attribute without a pack operation, as inside other values.
    pub(super) fn write(&self, to: &mut Packer<'_>) {
        let flags = if self.is_required { flags::REQUIRED } else { 0 };
        to.text(Some(self.key)).u32(flags).of(self.value.of());
        self.value.write(to);
    }
}

impl<'a> SpawnApp<'a> {
    /// Creates a program with neither arguments nor variables.
    pub const fn new(command: &'a [u8], processes: u32) -> Self {
        Self {
            command,
            arguments: &[],
            variables: &[],
            directory: None,
            processes,
            directives: &[],
        }
    }
}
