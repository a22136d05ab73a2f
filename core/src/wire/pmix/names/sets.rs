//! Numbers of small sets, and their names.

/// Declares a set: named constants, and `name`.
macro_rules! set {
    ($(#[$about:meta])* $set:ident: $int:ty: $($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        $(#[$about])*
        pub mod $set {
            $($(#[$doc])* pub const $name: $int = $number;)*

            /// Name in the standard; `None` for an unknown number.
            pub const fn name(number: $int) -> Option<&'static str> {
                match number {
                    $($number => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

set! {
    /// Scopes of committed data. An open set.
    scope: u8:
    /// None was set.
    UNDEF = 0;
    /// Processes on its node.
    LOCAL = 1;
    /// Processes on other nodes.
    REMOTE = 2;
    /// All processes.
    GLOBAL = 3;
    /// The process itself.
    INTERNAL = 4;
}

set! {
    /// Kinds of devices, of which each has a bit.
    device: u64:
    /// A block device.
    BLOCK = 1;
    /// A GPU.
    GPU = 2;
    /// A link to a network.
    NETWORK = 4;
    /// A card of a fabric, as InfiniBand.
    OPENFABRICS = 8;
    /// An engine that copies memory.
    DMA = 16;
    /// A coprocessor.
    COPROC = 32;
}

set! {
    /// Lifetimes of published data. An open set.
    persistence: u8:
    /// Until it is unpublished.
    INDEFINITE = 0;
    /// Until it was looked up once.
    FIRST_READ = 1;
    /// Until its publisher terminates.
    PROC = 2;
    /// Until the job of its publisher ends.
    APP = 3;
    /// Until the session ends.
    SESSION = 4;
}

set! {
    /// Ranges of published data and events. An open set.
    range: u8:
    /// None was set: as `GLOBAL`.
    UNDEF = 0;
    /// The process manager.
    RM = 1;
    /// The node.
    LOCAL = 2;
    /// The namespace.
    NAMESPACE = 3;
    /// The session.
    SESSION = 4;
    /// All processes.
    GLOBAL = 5;
    /// The listed processes.
    CUSTOM = 6;
    /// The process itself.
    PROC_LOCAL = 7;
}

set! {
    /// States of a process. An open set.
    proc_state: u8:
    /// Unknown.
    UNDEF = 0;
    /// The process is about to be started.
    PREPPED = 1;
    /// The process is being started.
    LAUNCH_UNDERWAY = 2;
    /// The process is about to be started again.
    RESTART = 3;
    /// The process is to be terminated.
    TERMINATE = 4;
    /// The process runs.
    RUNNING = 5;
    /// The process runs and has connected.
    CONNECTED = 6;
    /// Upper bound of the states of a process that has not terminated.
    UNTERMINATED = 15;
    /// The process has terminated.
    TERMINATED = 20;
    /// Lower bound of the states after an error.
    ERROR = 50;
    /// It was killed on request.
    KILLED_BY_CMD = 51;
    /// It has aborted.
    ABORTED = 52;
    /// It could not be started.
    FAILED_TO_START = 53;
    /// A signal has terminated it.
    ABORTED_BY_SIG = 54;
    /// It has exited without finalize.
    TERM_WO_SYNC = 55;
    /// Its connection is lost.
    COMM_FAILED = 56;
    /// It has exceeded a limit.
    SENSOR_BOUND_EXCEEDED = 57;
    /// It has called `PMIx_Abort`.
    CALLED_ABORT = 58;
    /// It missed its heartbeats.
    HEARTBEAT_FAILED = 59;
    /// It waits for resources of another node.
    MIGRATING = 60;
    /// It cannot be started again.
    CANNOT_RESTART = 61;
    /// It has exited with a code other than zero.
    TERM_NON_ZERO = 62;
    /// It could not be launched.
    FAILED_TO_LAUNCH = 63;
}

set! {
    /// States of a job. An open set.
    job_state: u8:
    /// Unknown.
    UNDEF = 0;
    /// It waits for resources.
    AWAITING_ALLOC = 1;
    /// Its processes are being started.
    LAUNCH_UNDERWAY = 2;
    /// The processes run.
    RUNNING = 3;
    /// The processes are suspended.
    SUSPENDED = 4;
    /// All its processes run and have connected.
    CONNECTED = 5;
    /// Upper bound of the states of a job that has not terminated.
    UNTERMINATED = 15;
    /// The processes have terminated.
    TERMINATED = 20;
    /// The processes have terminated after an error.
    TERMINATED_WITH_ERROR = 50;
}

set! {
    /// Flags of an info.
    flags: u32:
    /// The request fails if the server does not support this directive.
    REQUIRED = 1;
    /// The info is the last of its array.
    ARRAY_END = 2;
    /// The directive was executed.
    REQUIRED_PROCESSED = 4;
    /// The info distinguishes one of several values.
    QUALIFIER = 8;
    /// The reader must not release the value.
    PERSISTENT = 16;
}

set! {
    /// Standard streams, as bits of a mask.
    channel: u16:
    /// Standard input.
    STDIN = 1;
    /// Standard output.
    STDOUT = 2;
    /// Standard error.
    STDERR = 4;
    /// Diagnostics of the library.
    STDDIAG = 8;
}
