//! The faults, the phases, which of them can meet, and the exit code that each meeting must end with.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A fault; described in [`FAULTS`], [`NODE_FAULTS`] and [`HOST_FAULTS`].
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Fault {
    Exit,
    Signal,
    Stop,
    Abort,
    Close,
    Malformed,
    Flood,
    Unread,
    Streams,
    LauncherSignal,
    LauncherStop,
    LauncherKill,
    GuardKill,
    HangUp,
    Daemon,
    Clean,
    ExecFailure,
    Children,
    DiskFull,
    Inherited,
    LauncherSignalTwice,
    Pause,
    UnreadableProc,
    NodeKill,
    NodeStop,
    Stage,
    KeyEcho,
    Wire,
}

/// The time of a fault; described in [`PHASES`].
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FaultPhase {
    Before,
    Starting,
    Started,
    Init,
    Put,
    Fence,
    Get,
    Spawn,
    Finalize,
    Ending,
}

/// Description of every fault, in the order of the report.
pub(super) const FAULTS: &[(Fault, &str)] = &[
    (Fault::Exit, "a rank exits with a code between 0 and 255, without finalize"),
    (Fault::Signal, "a rank is killed by SEGV, ABRT, BUS, FPE, ILL, KILL, TERM or PIPE"),
    (Fault::Stop, "a rank stops itself with SIGSTOP, and another one exits with a code"),
    (Fault::Abort, "a rank calls abort with a code"),
    (Fault::Close, "a rank closes its PMI connection"),
    (Fault::Malformed, "a rank sends random bytes, or a broken line, over PMI"),
    (Fault::Flood, "a rank writes 20,000 lines at once and exits with a code"),
    (Fault::Unread, "output is not read while a rank writes without end; another one exits"),
    (Fault::Streams, "standard input of the launcher, or the reader of its output, is closed"),
    (Fault::LauncherSignal, "the launcher receives INT, TERM or HUP"),
    (Fault::LauncherStop, "the launcher's process group receives TSTP, later CONT"),
    (Fault::LauncherKill, "the launcher receives KILL"),
    (Fault::GuardKill, "the launcher's helper process (guard, proxy) receives KILL"),
    (Fault::HangUp, "the terminal of the launcher hangs up"),
    (Fault::Daemon, "a rank leaves a process in a session of its own, and exits with a code"),
    (Fault::Clean, "all ranks have an empty environment, and the launcher receives KILL"),
    (Fault::ExecFailure, "one program of several does not exist, or is no program"),
    (Fault::Children, "a rank leaves 64 processes in its group, and exits with a code"),
    (Fault::DiskFull, "output goes to a full disk"),
    (Fault::Inherited, "the launcher has a child of the shell it replaced; a rank exits"),
    (
        Fault::LauncherSignalTwice,
        "ranks leave daemons, and the launcher receives INT, TERM or HUP twice, 0 to 4 s apart",
    ),
    (
        Fault::Pause,
        "a node server, the launcher or all processes are stopped for longer than a silent node may be",
    ),
    (
        Fault::UnreadableProc,
        "/proc of PMIx ranks cannot be read: mode 711 and another user, or not dumpable; a rank exits",
    ),
];

/// Description of the faults of runs over several nodes.
pub(super) const NODE_FAULTS: &[(Fault, &str)] = &[
    (Fault::NodeKill, "the server of a node receives KILL"),
    (Fault::NodeStop, "the server of a node receives STOP, and up to 7 s later the launcher TERM"),
];

/// Description of the faults of runs over hosts, which a command starts.
pub(super) const HOST_FAULTS: &[(Fault, &str)] = &[
    (
        Fault::Stage,
        "the launcher receives INT or TERM while it sends itself to the hosts and starts",
    ),
    (
        Fault::KeyEcho,
        "the starter writes its input to an output; half of the time a node is killed",
    ),
    (
        Fault::Wire,
        "the wire of a host is cut for up to 3 s, loses 40 % of its packets, or delays them by up to 2.5 s",
    ),
];

/// Description of every phase.
pub(super) const PHASES: &[(FaultPhase, &str)] = &[
    (FaultPhase::Before, "the launcher runs and no rank does; for a rank: as the first of all"),
    (FaultPhase::Starting, "some ranks run, others are still being started"),
    (FaultPhase::Started, "all ranks run, none has sent init"),
    (FaultPhase::Init, "the rank has sent init and has not read the answer"),
    (FaultPhase::Put, "all ranks have put a value, none has entered the fence"),
    (FaultPhase::Fence, "all ranks but one are in the fence"),
    (FaultPhase::Get, "the rank has sent a get and has not read the answer"),
    (FaultPhase::Spawn, "the first process of a spawned job runs"),
    (FaultPhase::Finalize, "all ranks have passed their last fence"),
    (FaultPhase::Ending, "all ranks have finalized, and half of them have exited"),
];

/// The name of a fault or a phase, in state files and on the command line.
pub(super) fn name(of: impl Serialize) -> String {
    serde_json::json!(of).as_str().unwrap_or_default().to_owned()
}

/// The fault or phase of this name.
pub(super) fn named<T: DeserializeOwned>(name: &str) -> Option<T> {
    serde_json::from_value(name.into()).ok()
}

/// Numbers of ranks.
pub(super) const SIZES: &[u32] = &[2, 16, 128];

impl Fault {
    /// It kills the launcher, which then cannot pass on what ranks have written, nor choose an exit code.
    pub(super) const fn kills_launcher(self) -> bool {
        matches!(self, Self::LauncherKill | Self::Clean)
    }

    /// The output of ranks has no reader from some point on, by the fault or with the terminal.
    pub(super) const fn loses_output(self) -> bool {
        self.kills_launcher()
            || matches!(self, Self::Unread | Self::Streams | Self::DiskFull | Self::HangUp)
            // The second signal ends the wait for the reader.
            || matches!(self, Self::LauncherSignalTwice | Self::Stage)
            || self.is_of_node()
    }

    /// It takes a node from the run.
    pub(super) const fn is_of_node(self) -> bool {
        matches!(self, Self::NodeKill | Self::NodeStop | Self::KeyEcho)
    }

    /// Only `pmi-host` is played with it.
    pub(super) const fn is_of_ours(self) -> bool {
        matches!(
            self,
            Self::Pause | Self::UnreadableProc | Self::Stage | Self::KeyEcho | Self::Wire
        )
    }

    /// A rank does it by itself. Else it happens to the launcher or around it.
    pub(super) const fn is_of_rank(self) -> bool {
        matches!(
            self,
            Self::Exit
                | Self::Signal
                | Self::Stop
                | Self::Abort
                | Self::Close
                | Self::Malformed
                | Self::Flood
                | Self::Unread
                | Self::Daemon
                | Self::Children
                | Self::Inherited
                | Self::UnreadableProc
        )
    }

    /// There is such a case. A program that does not exist is found on the command line (`before`,
    /// `starting`) or in a spawn, which a rank can only ask for between two other requests. A node that is
    /// silent before its ranks start may be one that takes long, for a minute; a pause, and an echo that a
    /// lost node shows, come when all hosts have joined. A spawn with PMIx takes a program that PMIx knows.
    pub(super) const fn meets(self, phase: FaultPhase) -> bool {
        match self {
            Self::ExecFailure => matches!(
                phase,
                FaultPhase::Before
                    | FaultPhase::Starting
                    | FaultPhase::Put
                    | FaultPhase::Get
                    | FaultPhase::Spawn
                    | FaultPhase::Finalize
            ),
            Self::NodeStop => !matches!(phase, FaultPhase::Before),
            Self::Pause | Self::KeyEcho | Self::Wire => {
                !matches!(phase, FaultPhase::Before | FaultPhase::Starting)
            }
            Self::Stage => matches!(phase, FaultPhase::Before),
            Self::UnreadableProc => !matches!(phase, FaultPhase::Spawn),
            _ => true,
        }
    }
}

impl FaultPhase {
    /// The rank has not sent init, which makes it a client of PMI.
    pub(super) const fn is_before_init(self) -> bool {
        matches!(self, Self::Before | Self::Starting | Self::Started)
    }
}

/// The exit code of the run as a shell sees it; see docs/ending.md. `variant` is what the case has drawn: an
/// exit code, the number of a signal, or which of several forms of the fault.
///
/// Other launchers need only a 0 where this is 0, and any other code where it is not; where [`is_free`]
/// holds, any code.
pub(super) fn expected_code(fault: Fault, phase: FaultPhase, variant: i32) -> i32 {
    match fault {
        // To leave without finalize is a failure, and so is to leave a fence waiting for ever.
        Fault::Exit if variant == 0 => i32::from(phase != FaultPhase::Ending),
        Fault::Exit | Fault::Stop | Fault::Abort | Fault::Flood | Fault::Unread => variant,
        Fault::Daemon | Fault::Children | Fault::Inherited | Fault::UnreadableProc => variant,
        Fault::Signal | Fault::LauncherSignal => 128 + variant,
        Fault::LauncherSignalTwice | Fault::Stage => 128 + variant,
        // After finalize, the connection is not used any more.
        Fault::Close | Fault::Malformed => i32::from(phase != FaultPhase::Ending),
        Fault::Streams | Fault::LauncherStop | Fault::GuardKill | Fault::Pause => 0,
        Fault::Wire => 0,
        // A node is killed, or nothing happens.
        Fault::KeyEcho => variant,
        Fault::LauncherKill | Fault::Clean => 128 + 9,
        Fault::HangUp => 128 + 1,
        // A spawn that cannot be done is answered with an error, and the job goes on.
        Fault::ExecFailure if matches!(phase, FaultPhase::Before | FaultPhase::Starting) => variant,
        Fault::ExecFailure => 0,
        // No rank fails, but its output is lost, or its node.
        Fault::DiskFull | Fault::NodeKill => 1,
        // A stopped node is waited for until the signal.
        Fault::NodeStop => 128 + 15,
    }
}

/// The code is not documented by the other launchers.
pub(super) const fn is_free(fault: Fault) -> bool {
    matches!(fault, Fault::Streams | Fault::GuardKill | Fault::DiskFull | Fault::ExecFailure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn faults_phases_and_sizes_have_names_of_their_own() {
        assert_eq!((FAULTS.len(), PHASES.len(), SIZES.len()), (23, 10, 3));
        let faults: BTreeSet<String> = FAULTS.iter().map(|(fault, _)| name(fault)).collect();
        let phases: BTreeSet<String> = PHASES.iter().map(|(phase, _)| name(phase)).collect();
        assert_eq!((faults.len(), phases.len()), (23, 10));
        assert!(NODE_FAULTS.iter().all(|(fault, _)| fault.is_of_node()));
        let mut others = NODE_FAULTS.iter().chain(HOST_FAULTS);
        assert!(others.all(|(fault, _)| !faults.contains(&name(fault))));
        assert!(faults.contains("launcher-kill") && phases.contains("finalize"));
        assert!(FAULTS.iter().all(|(fault, _)| named(&name(fault)) == Some(*fault)));
        assert!(PHASES.iter().all(|(phase, _)| named(&name(phase)) == Some(*phase)));
        assert_eq!((named::<Fault>("none"), named::<FaultPhase>("none")), (None, None));
    }

    #[test]
    fn codes_follow_the_shell_in_every_phase() {
        for &(phase, ..) in PHASES {
            assert_eq!(expected_code(Fault::Exit, phase, 77), 77);
            assert_eq!(expected_code(Fault::Signal, phase, 11), 139);
            assert_eq!(expected_code(Fault::LauncherSignal, phase, 2), 130);
            assert_eq!(expected_code(Fault::HangUp, phase, 0), 129);
            assert_eq!(expected_code(Fault::LauncherKill, phase, 0), 137);
            assert_eq!(expected_code(Fault::LauncherStop, phase, 0), 0);
        }
    }

    #[test]
    fn run_that_was_paused_or_whose_key_was_echoed_or_wire_was_bad_is_unharmed() {
        assert_eq!(expected_code(Fault::Pause, FaultPhase::Fence, 2), 0);
        assert_eq!(expected_code(Fault::Wire, FaultPhase::Put, 1), 0);
        assert_eq!(expected_code(Fault::KeyEcho, FaultPhase::Fence, 0), 0);
        assert_eq!(expected_code(Fault::KeyEcho, FaultPhase::Fence, 1), 1);
        assert_eq!(expected_code(Fault::LauncherSignalTwice, FaultPhase::Put, 15), 143);
        assert!(Fault::Stage.meets(FaultPhase::Before) && !Fault::Stage.meets(FaultPhase::Put));
    }

    #[test]
    fn leaving_without_a_word_is_a_failure_until_finalize() {
        for &(phase, ..) in PHASES {
            let failure = i32::from(phase != FaultPhase::Ending);
            for fault in [Fault::Exit, Fault::Close, Fault::Malformed] {
                assert_eq!(expected_code(fault, phase, 0), failure, "{fault:?} {phase:?}");
            }
        }
    }

    #[test]
    fn missing_program_ends_the_run_on_the_command_line_and_not_in_a_spawn() {
        assert_eq!(expected_code(Fault::ExecFailure, FaultPhase::Before, 127), 127);
        assert_eq!(expected_code(Fault::ExecFailure, FaultPhase::Starting, 126), 126);
        assert_eq!(expected_code(Fault::ExecFailure, FaultPhase::Spawn, 127), 0);
        assert!(
            !Fault::ExecFailure.meets(FaultPhase::Fence) && Fault::Exit.meets(FaultPhase::Fence)
        );
    }
}
