//! Keys with a meaning for a server. All begin with `pmix`.

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
    /// The processors to which a process is bound, as a list. STRING.
    CPUSET = b"pmix.cpuset";
    /// Where these are in the machine, in the form of hwloc. STRING.
    LOCALITY_STRING = b"pmix.locstr";
    /// Index of a process among those of its job in its package. UINT16.
    PACKAGE_RANK = b"pmix.pkgrank";
    /// The processors of the processes of the job on the node. STRING, lists with colons between them.
    LOCAL_CPUSETS = b"pmix.lcpus";
    /// The hardware of the node in the XML of hwloc 2. STRING.
    HWLOC_XML_V2 = b"pmix.hwlocxml2";
    /// Memory of the node in bytes. UINT64.
    AVAIL_PHYS_MEMORY = b"pmix.pmem";
    /// How far the devices of the node are from a process. DATA_ARRAY of DEVICE_DIST.
    DEVICE_DISTANCES = b"pmix.dev.dist";
    /// Network cards of a node. DATA_ARRAY of INFO, each a `FABRIC_DEVICE`.
    FABRIC_DEVICES = b"pmix.fab.devs";
    /// A network card. DATA_ARRAY of INFO, `DEVICE_ID` first.
    FABRIC_DEVICE = b"pmix.fabdev";
    /// Name of a device on all nodes. STRING.
    DEVICE_ID = b"pmix.dev.id";
    /// Name of a network card on its node. STRING.
    FABRIC_DEVICE_NAME = b"pmix.fabdev.nm";
    /// Bus of a network card. STRING.
    FABRIC_DEVICE_BUS_TYPE = b"pmix.fabdev.btyp";
    /// Its address on the link. STRING.
    FABRIC_DEVICE_ADDRESS = b"pmix.fabdev.addr";
    /// Its kind of network. STRING.
    FABRIC_DEVICE_TYPE = b"pmix.fabdev.type";
    /// Its place on the PCI bus, in four parts with colons between them. STRING.
    FABRIC_DEVICE_PCI_DEVID = b"pmix.fabdev.pcidevid";
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
    /// Spawn: hosts that are added to those of the run. STRING.
    ADD_HOST = b"pmix.addhost";
    /// Spawn: file of such hosts. STRING.
    ADD_HOSTFILE = b"pmix.addhostfile";
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
    /// Supported attributes of debuggers. STRING, a comma list.
    QUERY_DEBUG_SUPPORT = b"pmix.qry.debug";
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
    /// A file is expected to change: its path. STRING.
    MONITOR_FILE = b"pmix.monitor.fmon";
    /// The size of the file is expected to change. BOOL.
    MONITOR_FILE_SIZE = b"pmix.monitor.fsize";
    /// The file is expected to be read. BOOL or STRING.
    MONITOR_FILE_ACCESS = b"pmix.monitor.faccess";
    /// The file is expected to be written. BOOL or STRING.
    MONITOR_FILE_MODIFY = b"pmix.monitor.fmod";
    /// Interval of the checks of the file in seconds. UINT32.
    MONITOR_FILE_CHECK_TIME = b"pmix.monitor.ftime";
    /// Checks without a change before the event. UINT32.
    MONITOR_FILE_DROPS = b"pmix.monitor.fdrop";
    /// Name of a monitor. STRING.
    MONITOR_ID = b"pmix.monitor.id";
    /// Cancels the monitor of this name. STRING.
    MONITOR_CANCEL = b"pmix.monitor.cancel";
    /// Largest number of output bytes kept for a slow reader. UINT32.
    IOF_CACHE_SIZE = b"pmix.iof.csize";
    /// The oldest bytes of a full cache are dropped. BOOL.
    IOF_DROP_OLDEST = b"pmix.iof.old";
    /// New bytes are dropped while the cache is full. BOOL.
    IOF_DROP_NEWEST = b"pmix.iof.new";
    /// Number of bytes that are delivered together. UINT32.
    IOF_BUFFERING_SIZE = b"pmix.iof.bsize";
    /// Longest time for which bytes are kept to be delivered together, in seconds. UINT32.
    IOF_BUFFERING_TIME = b"pmix.iof.btime";
    /// Input or output is complete. BOOL.
    IOF_COMPLETE = b"pmix.iof.cmp";
    /// Lines begin with the process and the stream. BOOL.
    IOF_TAG_OUTPUT = b"pmix.iof.tag";
    /// The same. BOOL.
    IOF_TAG_FULLNAME = b"pmix.iof.tagfull";
    /// The same, with the host and the id of the process. BOOL.
    IOF_TAG_DETAILED = b"pmix.iof.tagdet";
    /// Lines begin with the rank and the stream. BOOL.
    IOF_RANK_OUTPUT = b"pmix.iof.rank";
    /// Lines begin with the time. BOOL.
    IOF_TIMESTAMP_OUTPUT = b"pmix.iof.ts";
    /// Lines are elements of XML. BOOL.
    IOF_XML_OUTPUT = b"pmix.iof.xml";
    /// The processes read input of the requester. BOOL.
    FORWARD_STDIN = b"pmix.fwd.stdin";
    /// The process that reads input of the requester. PROC.
    STDIN_TARGET = b"pmix.stdin";
    /// Standard output of the processes goes to the requester. BOOL.
    FORWARD_STDOUT = b"pmix.fwd.stdout";
    /// Standard error of the processes goes to the requester. BOOL.
    FORWARD_STDERR = b"pmix.fwd.stderr";
    /// Diagnostics of the library go to the requester. BOOL.
    FORWARD_STDDIAG = b"pmix.fwd.stddiag";
    /// Processes wait in init for a debugger: this rank or all. PROC_RANK or BOOL.
    DEBUG_STOP_IN_INIT = b"pmix.dbg.init";
    /// Processes wait for a debugger where they choose: this rank or all. PROC_RANK or BOOL.
    DEBUG_STOP_IN_APP = b"pmix.dbg.notify";
    /// Processes are stopped before their first instruction: this rank or all. PROC_RANK or BOOL.
    DEBUG_STOP_ON_EXEC = b"pmix.dbg.exec";
    /// The processes are daemons of a debugger. BOOL.
    DEBUGGER_DAEMONS = b"pmix.debugger";
    /// The processes that a debugger controls. PROC.
    DEBUG_TARGET = b"pmix.dbg.tgt";
    /// The job that a debugger controls. STRING.
    DEBUG_JOB = b"pmix.dbg.job";
    /// Number of daemons for each node. UINT16.
    DEBUG_DAEMONS_PER_NODE = b"pmix.dbg.dpnd";
    /// Number of daemons for each process. UINT16.
    DEBUG_DAEMONS_PER_PROC = b"pmix.dbg.dpproc";
    /// Name of the place at which a process waits for a debugger. STRING.
    BREAKPOINT = b"pmix.brkpnt";
    /// Text for standard output. STRING.
    LOG_STDOUT = b"pmix.log.stdout";
    /// Text for standard error. STRING.
    LOG_STDERR = b"pmix.log.stderr";
    /// Text for the system log. STRING.
    LOG_SYSLOG = b"pmix.log.syslog";
    /// Text for the system log of the host. STRING.
    LOG_LOCAL_SYSLOG = b"pmix.log.lsys";
    /// Severity in the system log. INT.
    LOG_SYSLOG_PRI = b"pmix.log.syspri";
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
