//! Commands, status codes, keys, and the numbers of small sets.

pub mod keys;
mod sets;
mod status;

pub use sets::{channel, device, flags, job_state, persistence, proc_state, range, scope};

use crate::command::Verb;

/// A request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Command(pub u8);

impl Command {
    /// The equivalent exchange of PMI; `None` for requests that only PMIx has.
    pub const fn verb(self) -> Option<Verb> {
        Some(match self {
            Self::ABORT => Verb::Abort,
            Self::COMMIT => Verb::Put,
            Self::FENCE => Verb::Fence,
            Self::GET => Verb::Get,
            Self::FINALIZE => Verb::Finalize,
            Self::PUBLISH => Verb::Publish,
            Self::LOOKUP => Verb::Lookup,
            Self::UNPUBLISH => Verb::Unpublish,
            Self::SPAWN => Verb::Spawn,
            Self::CONNECT => Verb::Connect,
            Self::DISCONNECT => Verb::Disconnect,
            _ => return None,
        })
    }
}

/// A result code or an event code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Status(pub i32);

macro_rules! numbers {
    ($kind:ident, $other:expr; $($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        impl $kind {
            $($(#[$doc])* pub const $name: Self = Self($number);)*

            /// Name in the standard; `None` for an unknown number.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some($text),)*
                    other => $other(other),
                }
            }
        }
    };
}

numbers! { Command, no_name;
    /// Job-level information of the client's job.
    REQ = 0, "REQ";
    /// Abort of the job.
    ABORT = 1, "ABORT";
    /// Data put since the last commit.
    COMMIT = 2, "COMMIT";
    /// A fence of any processes.
    FENCE = 3, "FENCENB";
    /// Committed data of a process.
    GET = 4, "GETNB";
    /// End of the session.
    FINALIZE = 5, "FINALIZE";
    /// Data that others can look up.
    PUBLISH = 6, "PUBLISHNB";
    /// Data that others have published.
    LOOKUP = 7, "LOOKUPNB";
    /// Withdraws published data.
    UNPUBLISH = 8, "UNPUBLISHNB";
    /// New processes.
    SPAWN = 9, "SPAWNNB";
    /// A fence that connects the jobs of the participants.
    CONNECT = 10, "CONNECTNB";
    /// A fence that disconnects them.
    DISCONNECT = 11, "DISCONNECTNB";
    /// Publishes an event.
    NOTIFY = 12, "NOTIFY";
    /// Event codes that the client registers for.
    REGISTER_EVENTS = 13, "REGEVENTS";
    /// Event codes that the client deregisters. No response.
    DEREGISTER_EVENTS = 14, "DEREGEVENTS";
    /// Information of the process manager.
    QUERY = 15, "QUERY";
    /// Log entries.
    LOG = 16, "LOG";
    /// More or fewer resources.
    ALLOC = 17, "ALLOC";
    /// Signals, and registration of files for cleanup.
    JOB_CONTROL = 18, "JOB_CONTROL";
    /// Liveness of a process.
    MONITOR = 19, "MONITOR";
    /// `PMIx_Get_credential`.
    GET_CREDENTIAL = 20, "GET_CREDENTIAL";
    /// `PMIx_Validate_credential`.
    VALIDATE_CREDENTIAL = 21, "VALIDATE_CRED";
    /// Output of processes.
    IOF_PULL = 22, "IOF_PULL";
    /// Input for processes.
    IOF_PUSH = 23, "IOF_PUSH";
    /// A group of processes.
    GROUP_CONSTRUCT = 24, "GROUP_CONSTRUCT";
    /// `PMIx_Group_join`; unused on the wire, clients use events.
    GROUP_JOIN = 25, "GROUP_JOIN";
    /// `PMIx_Group_invite`; unused on the wire, clients use events.
    GROUP_INVITE = 26, "GROUP_INVITE";
    /// `PMIx_Group_leave`.
    GROUP_LEAVE = 27, "GROUP_LEAVE";
    /// Destruction of a group.
    GROUP_DESTRUCT = 28, "GROUP_DESTRUCT";
    /// Ends the forwarding of output.
    IOF_DEREGISTER = 29, "IOF_DEREG";
    /// Registration of a fabric.
    FABRIC_REGISTER = 30, "FABRIC_REGISTER";
    /// Update of a fabric.
    FABRIC_UPDATE = 31, "FABRIC_UPDATE";
    /// Distances to devices.
    DEVICE_DISTANCES = 32, "COMPUTE_DEVICE_DISTANCES";
    /// Current data of a process.
    REFRESH_CACHE = 33, "REFRESH_CACHE";
    /// A block of resources.
    RESOURCE_BLOCK = 34, "RESBLK";
    /// Control of a session.
    SESSION_CONTROL = 35, "SESSION_CTRL";
    /// Information of the system.
    REQ_SYSTEM = 36, "REQ_SYSINFO";
    /// The processes of a node.
    RESOLVE_PEERS = 37, "RESOLVE_PEERS";
    /// The nodes of a job.
    RESOLVE_NODES = 38, "RESOLVE_NODE";
}

numbers! { Status, status::name;
    /// Success.
    SUCCESS = 0, "SUCCESS";
    /// Failure without a more specific code.
    ERROR = -1, "ERROR";
    /// A process that was stopped for a debugger may go on.
    DEBUGGER_RELEASE = -3, "DEBUGGER_RELEASE";
    /// The object exists already.
    EXISTS = -11, "EXISTS";
    /// The credential is invalid.
    INVALID_CRED = -12, "INVALID_CRED";
    /// The bytes cannot be unpacked.
    UNPACK_FAILURE = -20, "UNPACK_FAILURE";
    /// The peer has no permission.
    NO_PERMISSIONS = -23, "NO_PERMISSIONS";
    /// The request timed out.
    TIMEOUT = -24, "TIMEOUT";
    /// No peer can be reached.
    UNREACH = -25, "UNREACH";
    /// The request is invalid.
    BAD_PARAM = -27, "BAD_PARAM";
    /// A resource is exhausted.
    OUT_OF_RESOURCE = -29, "OUT_OF_RESOURCE";
    /// No memory left.
    NOMEM = -32, "NOMEM";
    /// The object does not exist.
    NOT_FOUND = -46, "NOT_FOUND";
    /// The operation is not supported.
    NOT_SUPPORTED = -47, "NOT_SUPPORTED";
    /// The operation succeeded in part.
    PARTIAL_SUCCESS = -52, "PARTIAL_SUCCESS";
    /// The key is already published.
    DUPLICATE_KEY = -53, "DUPLICATE_KEY";
    /// A process waits for a debugger.
    READY_FOR_DEBUG = -58, "READY_FOR_DEBUG";
    /// A connection is lost.
    LOST_CONNECTION = -61, "LOST_CONNECTION";
    /// A process missed its heartbeats.
    MONITOR_HEARTBEAT_ALERT = -109, "MONITOR_HEARTBEAT_ALERT";
    /// The query is answered in part.
    QUERY_PARTIAL_SUCCESS = -104, "QUERY_PARTIAL_SUCCESS";
    /// A job has ended.
    JOB_END = -145, "EVENT_JOB_END";
    /// A process is invited to a group.
    GROUP_INVITED = -159, "GROUP_INVITED";
    /// A process has left a group.
    GROUP_LEFT = -160, "GROUP_LEFT";
    /// A group is not constructed.
    GROUP_CONSTRUCT_ABORT = -165, "GROUP_CONSTRUCT_ABORT";
    /// A group is constructed.
    GROUP_CONSTRUCT_COMPLETE = -166, "GROUP_CONSTRUCT_COMPLETE";
    /// A process of a group has terminated.
    GROUP_MEMBER_FAILED = -170, "GROUP_MEMBER_FAILED";
    /// All processes of a job run.
    LAUNCH_COMPLETE = -174, "LAUNCH_COMPLETE";
    /// A job has begun.
    JOB_START = -191, "EVENT_JOB_START";
    /// A program cannot be run.
    JOB_APP_NOT_EXECUTABLE = -177, "JOB_APP_NOT_EXECUTABLE";
    /// A job could not be started.
    JOB_FAILED_TO_LAUNCH = -181, "JOB_FAILED_TO_LAUNCH";
    /// There is no such program.
    JOB_EXE_NOT_FOUND = -190, "JOB_EXE_NOT_FOUND";
    /// A process exited without finalize.
    PROC_TERM_WO_SYNC = -200, "PROC_TERM_WO_SYNC";
    /// A process has terminated.
    PROC_TERMINATED = -201, "EVENT_PROC_TERMINATED";
    /// A node is lost.
    NODE_DOWN = -231, "EVENT_NODE_DOWN";
    /// The working directory of a program does not exist.
    JOB_WDIR_NOT_FOUND = -233, "JOB_WDIR_NOT_FOUND";
    /// The resources do not suffice for the job.
    JOB_INSUFFICIENT_RESOURCES = -234, "JOB_INSUFFICIENT_RESOURCES";
    /// A process was terminated by a signal.
    PROC_ABORTED_BY_SIG = -402, "PROC_ABORTED_BY_SIG";
    /// A process has exited with a code other than zero.
    EXIT_NONZERO_TERM = -404, "EXIT_NONZERO_TERM";
}

/// True if a text enables a directive.
pub(super) fn means_true(text: &[u8]) -> bool {
    matches!(text, [b't' | b'T' | b'y' | b'Y' | b'1', ..])
}

/// Every command has a constant.
const fn no_name(_number: u8) -> Option<&'static str> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    // Coverage: X2-18
    #[test]
    fn numbers_have_the_names_of_the_standard() {
        assert_eq!(Status::NOT_FOUND.name(), Some("NOT_FOUND"));
        assert_eq!(
            (Status(-166).name(), Status(-231).name()),
            (Some("GROUP_CONSTRUCT_COMPLETE"), Some("EVENT_NODE_DOWN"),)
        );
        assert_eq!(
            (Status(-2999).name(), Status(5).name(), Command(99).name()),
            (None, None, None)
        );
        assert_eq!(Command::IOF_PULL.name(), Some("IOF_PULL"));
        assert_eq!((scope::name(3), scope::name(9)), (Some("GLOBAL"), None));
        assert_eq!((range::name(0), range::name(7)), (Some("UNDEF"), Some("PROC_LOCAL")));
        assert_eq!(persistence::name(persistence::FIRST_READ), Some("FIRST_READ"));
        assert_eq!(
            (proc_state::name(6), proc_state::name(54)),
            (Some("CONNECTED"), Some("ABORTED_BY_SIG"),)
        );
        assert_eq!(
            (job_state::name(3), job_state::name(50)),
            (Some("RUNNING"), Some("TERMINATED_WITH_ERROR"),)
        );
        assert_eq!((flags::name(1), channel::name(4)), (Some("REQUIRED"), Some("STDERR")));
    }
}
