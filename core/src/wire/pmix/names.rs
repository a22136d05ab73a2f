//! Commands, status codes, keys, and the numbers of small sets.

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
pub struct Status(pub i32);

macro_rules! numbers {
    ($kind:ident: $($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        impl $kind {
            $($(#[$doc])* pub const $name: Self = Self($number);)*

            /// Name in the standard; `None` for an unknown number.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

numbers! { Command:
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

numbers! { Status:
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
    /// The working directory of a program does not exist.
    JOB_WDIR_NOT_FOUND = -233, "JOB_WDIR_NOT_FOUND";
    /// The resources do not suffice for the job.
    JOB_INSUFFICIENT_RESOURCES = -234, "JOB_INSUFFICIENT_RESOURCES";
    /// A process was terminated by a signal.
    PROC_ABORTED_BY_SIG = -402, "PROC_ABORTED_BY_SIG";
    /// A process has exited with a code other than zero.
    EXIT_NONZERO_TERM = -404, "EXIT_NONZERO_TERM";
}

/// Keys with a meaning for a server. All begin with `pmix`.
pub mod keys {
    macro_rules! keys {
        ($($(#[$doc:meta])* $name:ident = $key:literal;)*) => {
            $($(#[$doc])* pub const $name: &[u8] = $key;)*
        };
    }

    keys! {
        /// Number of processes of the job. UINT32.
        JOB_SIZE = b"pmix.job.size";
        /// Largest number of processes of the job. UINT32.
        MAX_SIZE = b"pmix.max.size";
        /// Largest number of processes of the session. UINT32.
        UNIV_SIZE = b"pmix.univ.size";
        /// The number of the session. UINT32.
        SESSION_ID = b"pmix.session.id";
        /// Printable name of the job. STRING.
        JOBID = b"pmix.jobid";
        /// Number of applications of the job. UINT32.
        JOB_NAPPS = b"pmix.job.napps";
        /// Number of nodes of the job. UINT32.
        NUM_NODES = b"pmix.num.nodes";
        /// These nodes. STRING, a comma list.
        NODE_LIST = b"pmix.nlist";
        /// These nodes, in the form of [`regex`](super::super::regex). STRING.
        NODE_MAP = b"pmix.nmap";
        /// The ranks of each of them: ranges, the nodes separated by semicolons, in the same form. STRING.
        PROC_MAP = b"pmix.pmap";
        /// The first rank over all jobs. UINT32.
        OFFSET = b"pmix.offset";
        /// The namespace of the server. STRING.
        SERVER_NSPACE = b"pmix.srv.nspace";
        /// The rank of the server. PROC_RANK.
        SERVER_RANK = b"pmix.srv.rank";
        /// The job was spawned by a process. BOOL.
        SPAWNED = b"pmix.spawned";
        /// The process that spawned the job. PROC.
        PARENT = b"pmix.parent";
        /// Directory of the session. STRING.
        TMPDIR = b"pmix.tmpdir";
        /// Directory of the job. STRING.
        NSDIR = b"pmix.nsdir";
        /// The launcher removes these directories. BOOL.
        TDIR_RMCLEAN = b"pmix.tdir.rmclean";
        /// Data of the session. DATA_ARRAY of INFO.
        SESSION_ARRAY = b"pmix.ssn.arr";
        /// Data of a node. DATA_ARRAY of INFO.
        NODE_ARRAY = b"pmix.node.arr";
        /// Data of an application. DATA_ARRAY of INFO.
        APP_ARRAY = b"pmix.app.arr";
        /// Data of a process. BYTE_OBJECT of PROC_RANK and KVALs.
        PROC_BLOB = b"pmix.pblob";
        /// Data of a job. DATA_ARRAY of INFO.
        JOB_ARRAY = b"pmix.job.arr";
        /// Data of a process, in the job-level information for other jobs. DATA_ARRAY of INFO.
        PROC_DATA = b"pmix.pdata";
        /// The name of a job. STRING.
        NSPACE = b"pmix.nspace";
        /// A rank. PROC_RANK.
        RANK = b"pmix.rank";
        /// A process. PROC.
        PROC_ID = b"pmix.procid";
        /// The id of a process. PID.
        PROC_PID = b"pmix.ppid";
        /// State of a process. PROC_STATE.
        PROC_STATE = b"pmix.proc.state";
        /// A command line. STRING.
        COMMAND_LINE = b"pmix.cmd.line";
        /// The name of a node. STRING.
        HOSTNAME = b"pmix.hname";
        /// Other names of a node. STRING, a comma list.
        HOSTNAME_ALIASES = b"pmix.alias";
        /// The number of a node. UINT32.
        NODEID = b"pmix.nodeid";
        /// Number of processes of the session on the node. UINT32.
        NODE_SIZE = b"pmix.node.size";
        /// Number of processes of the job on the node. UINT32.
        LOCAL_SIZE = b"pmix.local.size";
        /// Their ranks. STRING, a comma list.
        LOCAL_PEERS = b"pmix.lpeers";
        /// These processes. DATA_ARRAY of PROC.
        LOCAL_PROCS = b"pmix.lprocs";
        /// The lowest of them. PROC_RANK.
        LOCAL_LEADER = b"pmix.lldr";
        /// There are more processes than processors on the node. BOOL.
        OVERSUBSCRIBED = b"pmix.ndosub";
        /// The number of an application. UINT32.
        APPNUM = b"pmix.appnum";
        /// Number of processes of an application. UINT32.
        APP_SIZE = b"pmix.app.size";
        /// Its first rank. PROC_RANK.
        APP_LEADER = b"pmix.aldr";
        /// Its working directory. STRING.
        WDIR = b"pmix.wdir";
        /// Its command line. STRING.
        APP_ARGV = b"pmix.app.argv";
        /// Index of a process among those of its job on its node. UINT16.
        LOCAL_RANK = b"pmix.lrank";
        /// Index of a process among all on its node. UINT16.
        NODE_RANK = b"pmix.nrank";
        /// Index of a process in the session. PROC_RANK.
        GLOBAL_RANK = b"pmix.grank";
        /// Index of a process in its application. PROC_RANK.
        APP_RANK = b"pmix.apprank";
        /// Number of restarts of a process. UINT32.
        REINCARNATION = b"pmix.reinc";
        /// Committed data is exchanged by the fence. BOOL.
        COLLECT = b"pmix.collect";
        /// Seconds after which the request times out. Any number.
        TIMEOUT = b"pmix.timeout";
        /// Algorithms of the collective, tried in order. STRING, a comma list.
        ALGORITHM = b"pmix.calgo";
        /// One of these algorithms is required. BOOL.
        ALGORITHM_REQUIRED = b"pmix.calreqd";
        /// Only data that is known at once. BOOL.
        IMMEDIATE = b"pmix.immediate";
        /// Only data that the client itself holds. BOOL.
        OPTIONAL = b"pmix.optional";
        /// The client lends the value. BOOL.
        GET_POINTER = b"pmix.get.pntrs";
        /// The client copies the value into memory of the caller's. BOOL.
        GET_STATIC = b"pmix.get.static";
        /// Cached data is fetched again. BOOL.
        GET_REFRESH = b"pmix.get.refresh";
        /// Scope of committed data. SCOPE.
        SCOPE = b"pmix.scope";
        /// Range of published data or of an event. DATA_RANGE.
        RANGE = b"pmix.range";
        /// Lifetime of published data. PERSIST.
        PERSIST = b"pmix.persist";
        /// Access permissions beyond the range. DATA_ARRAY.
        ACCESS_PERMISSIONS = b"pmix.aperms";
        /// Users with access. DATA_ARRAY.
        ACCESS_USERS = b"pmix.auids";
        /// Groups with access. DATA_ARRAY.
        ACCESS_GROUPS = b"pmix.agids";
        /// Hosts to start on. STRING, a comma list.
        HOST = b"pmix.host";
        /// A file with hosts to start on. STRING.
        HOSTFILE = b"pmix.hostfile";
        /// The personality of a program: the library that will connect. STRING.
        PERSONALITY = b"pmix.pers";
        /// Sets a variable. ENVAR.
        SET_ENVAR = b"pmix.envar.set";
        /// Sets a variable unless it is there. ENVAR.
        ADD_ENVAR = b"pmix.envar.add";
        /// Waits until the data is available: BOOL, or the number of values.
        WAIT = b"pmix.wait";
        /// The request is about a node. BOOL.
        NODE_INFO = b"pmix.node.info";
        /// The request is about an application. BOOL.
        APP_INFO = b"pmix.app.info";
        /// The request is about a session. BOOL.
        SESSION_INFO = b"pmix.ssn.info";
        /// The request is about a job. BOOL.
        JOB_INFO = b"pmix.job.info";
        /// The names of all jobs. STRING, a comma list.
        QUERY_NAMESPACES = b"pmix.qry.ns";
        /// All jobs and their processes. DATA_ARRAY of INFO.
        QUERY_NAMESPACE_INFO = b"pmix.qry.nsinfo";
        /// State of a job. JOB_STATE.
        QUERY_JOB_STATUS = b"pmix.qry.jst";
        /// The processes of a job. DATA_ARRAY of PROC_INFO.
        QUERY_PROC_TABLE = b"pmix.qry.ptable";
        /// Those of them that are on this node. DATA_ARRAY of PROC_INFO.
        QUERY_LOCAL_PROC_TABLE = b"pmix.qry.lptable";
        /// Supported attributes of a spawn. STRING, a comma list.
        QUERY_SPAWN_SUPPORT = b"pmix.qry.spawn";
        /// Number of process sets. SIZE.
        QUERY_NUM_PSETS = b"pmix.qry.psetnum";
        /// Their names. STRING, a comma list.
        QUERY_PSET_NAMES = b"pmix.qry.psets";
        /// The processes of one of them. DATA_ARRAY of PROC.
        QUERY_PSET_MEMBERSHIP = b"pmix.qry.pmems";
        /// Number of groups. SIZE.
        QUERY_NUM_GROUPS = b"pmix.qry.pgrpnum";
        /// Their names. DATA_ARRAY of STRING.
        QUERY_GROUP_NAMES = b"pmix.qry.pgrp";
        /// The processes of one of them. DATA_ARRAY of PROC.
        QUERY_GROUP_MEMBERSHIP = b"pmix.qry.pgrpmems";
        /// Memory usage of processes. DATA_ARRAY.
        QUERY_MEMORY_USAGE = b"pmix.qry.mem";
        /// Cached data is fetched again. BOOL.
        QUERY_REFRESH = b"pmix.qry.rfsh";
        /// The query is restricted to this node. BOOL.
        QUERY_LOCAL_ONLY = b"pmix.qry.local";
        /// Averages only. BOOL.
        QUERY_AVERAGE = b"pmix.qry.avg";
        /// Minima and maxima only. BOOL.
        QUERY_MIN_MAX = b"pmix.qry.minmax";
        /// The memory of the server, in MB. FLOAT.
        DAEMON_MEMORY = b"pmix.dmn.mem";
        /// The memory of the processes of a node on average, in MB. FLOAT.
        CLIENT_AVERAGE_MEMORY = b"pmix.cl.mem.avg";
        /// Seconds left for the session. UINT32.
        TIME_REMAINING = b"pmix.time.remaining";
        /// Address of the server. STRING.
        SERVER_URI = b"pmix.srvr.uri";
        /// Heartbeats are expected. BOOL.
        MONITOR_HEARTBEAT = b"pmix.monitor.mbeat";
        /// Interval of the heartbeats in seconds. UINT32.
        MONITOR_HEARTBEAT_TIME = b"pmix.monitor.btime";
        /// Missed heartbeats before the event. UINT32.
        MONITOR_HEARTBEAT_DROPS = b"pmix.monitor.bdrop";
        /// Name of a monitor. STRING.
        MONITOR_ID = b"pmix.monitor.id";
        /// Cancels the monitor of this name. STRING.
        MONITOR_CANCEL = b"pmix.monitor.cancel";
        /// Text for standard output. STRING.
        LOG_STDOUT = b"pmix.log.stdout";
        /// Text for standard error. STRING.
        LOG_STDERR = b"pmix.log.stderr";
        /// The client has added the time in front. BOOL.
        LOG_GENERATE_TIMESTAMP = b"pmix.log.gtstmp";
        /// Time of a log entry. TIME.
        LOG_TIMESTAMP = b"pmix.log.tstmp";
        /// Logs to the first available of several channels only. BOOL.
        LOG_ONCE = b"pmix.log.once";
        /// Source of a log entry. PROC.
        LOG_SOURCE = b"pmix.log.source";
        /// Type of a credential. STRING.
        CREDENTIAL_TYPE = b"pmix.sec.ctype";
        /// User id. UINT32.
        USER_ID = b"pmix.euid";
        /// Group id. UINT32.
        GROUP_ID = b"pmix.egid";
        /// Kills the targets. BOOL.
        CONTROL_KILL = b"pmix.jctrl.kill";
        /// Terminates the targets politely. BOOL.
        CONTROL_TERMINATE = b"pmix.jctrl.term";
        /// Sends a signal to the targets. INT.
        CONTROL_SIGNAL = b"pmix.jctrl.sig";
        /// Pauses the targets. BOOL.
        CONTROL_PAUSE = b"pmix.jctrl.pause";
        /// Resumes paused targets. BOOL.
        CONTROL_RESUME = b"pmix.jctrl.resume";
        /// The job can be preempted; a hint. BOOL.
        CONTROL_PREEMPTIBLE = b"pmix.jctrl.preempt";
        /// Checkpoints are triggered by an event; a hint. BOOL.
        CONTROL_CHECKPOINT_EVENT = b"pmix.jctrl.ckptev";
        /// Checkpoints are triggered by this signal; a hint. INT.
        CONTROL_CHECKPOINT_SIGNAL = b"pmix.jctrl.ckptsig";
        /// Ways in which a process can be checkpointed; a hint. DATA_ARRAY of INFO.
        CONTROL_CHECKPOINT_METHOD = b"pmix.jctrl.ckmethod";
        /// Name of a request. STRING.
        CONTROL_ID = b"pmix.jctrl.id";
        /// Files to remove when a process terminates. STRING, a comma list.
        REGISTER_CLEANUP = b"pmix.reg.cleanup";
        /// Directories to empty when a process terminates. STRING, a comma list.
        REGISTER_CLEANUP_DIR = b"pmix.reg.cleanupdir";
        /// Subdirectories included. BOOL.
        CLEANUP_RECURSIVE = b"pmix.clnup.recurse";
        /// Empty directories only. BOOL.
        CLEANUP_EMPTY = b"pmix.clnup.empty";
        /// All but these. STRING, a comma list.
        CLEANUP_IGNORE = b"pmix.clnup.ignore";
        /// The topmost directory stays. BOOL.
        CLEANUP_LEAVE_TOPDIR = b"pmix.clnup.lvtop";
        /// A value with the qualifiers that distinguish it from others. DATA_ARRAY of INFO.
        QUALIFIED_VALUE = b"pmix.qual.val";
        /// The name of a group. STRING.
        GROUP_NAME = b"pmix.grp.id";
        /// Members of a group. DATA_ARRAY of PROC.
        GROUP_MEMBERSHIP = b"pmix.grp.mbrs";
        /// The server assigns a context id to the group. BOOL.
        GROUP_ASSIGN_CONTEXT_ID = b"pmix.grp.actxid";
        /// Context id of a group. SIZE.
        GROUP_CONTEXT_ID = b"pmix.grp.ctxid";
        /// Contribution of a process to a group. DATA_ARRAY of INFO.
        GROUP_INFO = b"pmix.grp.info";
        /// Number of leaders of a group. SIZE.
        GROUP_BOOTSTRAP = b"pmix.grp.btstrp";
        /// Members that a leader adds to a group. DATA_ARRAY of PROC.
        GROUP_ADD_MEMBERS = b"pmix.grp.add";
        /// The group is constructed without exited processes. BOOL.
        GROUP_OPTIONAL = b"pmix.grp.opt";
        /// The collective completes without exited processes. BOOL.
        GROUP_FT_COLLECTIVE = b"pmix.grp.ftcoll";
        /// Members are notified when one of them terminates. BOOL.
        GROUP_NOTIFY_TERMINATION = b"pmix.grp.notterm";
        /// The process that an event affects, or that a request is about. PROC.
        EVENT_AFFECTED_PROC = b"pmix.evproc";
        /// The processes that an event affects. DATA_ARRAY of PROC.
        EVENT_AFFECTED_PROCS = b"pmix.evaffected";
        /// The processes that an event is for. DATA_ARRAY of PROC, or PROC.
        EVENT_CUSTOM_RANGE = b"pmix.evrange";
        /// An event is not cached for late registrations. BOOL.
        EVENT_DO_NOT_CACHE = b"pmix.evnocache";
        /// An event is not for handlers of all codes. BOOL.
        EVENT_NON_DEFAULT = b"pmix.evnondef";
        /// Exit code of a process. INT.
        EXIT_CODE = b"pmix.exit.code";
        /// Termination status of a process. STATUS.
        PROC_TERM_STATUS = b"pmix.proc.term.status";
        /// Termination status of a job. STATUS.
        JOB_TERM_STATUS = b"pmix.job.term.status";
    }

    /// True if only process managers set the key.
    pub fn is_reserved(key: &[u8]) -> bool {
        key.starts_with(b"pmix")
    }
}

/// Scopes of committed data. An open set.
pub mod scope {
    /// Processes on its node.
    pub const LOCAL: u8 = 1;
    /// Processes on other nodes.
    pub const REMOTE: u8 = 2;
    /// All processes.
    pub const GLOBAL: u8 = 3;
    /// The process itself.
    pub const INTERNAL: u8 = 4;
}

/// Lifetimes of published data. An open set.
pub mod persistence {
    /// Until it is unpublished.
    pub const INDEFINITE: u8 = 0;
    /// Until it was looked up once.
    pub const FIRST_READ: u8 = 1;
    /// Until its publisher terminates.
    pub const PROC: u8 = 2;
    /// Until the job of its publisher ends.
    pub const APP: u8 = 3;
    /// Until the session ends.
    pub const SESSION: u8 = 4;
}

/// Ranges of published data and events. An open set.
pub mod range {
    /// The process manager.
    pub const RM: u8 = 1;
    /// The node.
    pub const LOCAL: u8 = 2;
    /// The namespace.
    pub const NAMESPACE: u8 = 3;
    /// The session.
    pub const SESSION: u8 = 4;
    /// All processes.
    pub const GLOBAL: u8 = 5;
    /// The listed processes.
    pub const CUSTOM: u8 = 6;
    /// The process itself.
    pub const PROC_LOCAL: u8 = 7;
}

/// States of a process. An open set.
pub mod proc_state {
    /// Unknown.
    pub const UNDEF: u8 = 0;
    /// The process runs.
    pub const RUNNING: u8 = 5;
    /// The process runs and has connected.
    pub const CONNECTED: u8 = 6;
    /// The process has terminated.
    pub const TERMINATED: u8 = 20;
}

/// States of a job. An open set.
pub mod job_state {
    /// Its processes are being started.
    pub const LAUNCH_UNDERWAY: u8 = 2;
    /// The processes run.
    pub const RUNNING: u8 = 3;
    /// All its processes run and have connected.
    pub const CONNECTED: u8 = 5;
    /// The processes have terminated.
    pub const TERMINATED: u8 = 20;
}

/// Flags of an info.
pub mod flags {
    /// The request fails if the server does not support this directive.
    pub const REQUIRED: u32 = 1;
    /// The info distinguishes one of several values.
    pub const QUALIFIER: u32 = 8;
}

/// True if a text enables a directive.
pub(super) fn means_true(text: &[u8]) -> bool {
    matches!(text, [b't' | b'T' | b'y' | b'Y' | b'1', ..])
}
