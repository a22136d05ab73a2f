//! Outcome of a spawn request: the cause of a refusal, and the result code of each process.

use pmi_core::command::CodeRun;
use pmi_core::error::Code;
use pmi_core::limits::SPAWN_RUNS;
use pmi_host_base::program::ProgramError;
use std::ffi::OsString;
use std::path::PathBuf;

/// Cause of a refused order. The text ends with the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum SpawnError {
    /// A program cannot be started.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A program is requested on another host.
    #[error(
        "program '{}' is to run on '{wanted}', and this launcher starts programs on '{host}' only; leave the \
         hint 'host' out",
        .name.display()
    )]
    Elsewhere {
        /// The program.
        name: OsString,
        /// Requested host.
        wanted: String,
        /// The name of this host.
        host: String,
    },
    /// A host is to be added to a run on one host.
    #[error(
        "program '{}' is to run on '{wanted}', and '{wanted}' cannot be added to a run on one host without \
         node servers; start the run with '--all-hosts', or name the host with '--hosts'",
        .name.display()
    )]
    Alone {
        /// The program.
        name: OsString,
        /// Requested host.
        wanted: String,
    },
    /// A program is requested on a host that is none of the run.
    #[error(
        "program '{}' is to run on '{wanted}', which is no host of this run; name one of its hosts, or leave \
         the hint 'host' out",
        .name.display()
    )]
    Unknown {
        /// The program.
        name: OsString,
        /// Requested host.
        wanted: String,
    },
    /// The file of hosts for a program cannot be read.
    #[error(
        "program '{}' is to run on the hosts in '{}', which cannot be read ({why}); leave the hint \
         'hostfile' out",
        .name.display(),
        .file.display()
    )]
    HostFile {
        /// The program.
        name: OsString,
        /// The file.
        file: PathBuf,
        /// The error.
        why: String,
    },
    /// A hint cannot be followed.
    #[error(
        "program '{}' has the hint '{key}={value}', {reason}; leave the hint '{key}' out",
        .name.display()
    )]
    Hint {
        /// The program.
        name: OsString,
        /// Its key.
        key: String,
        /// Its value.
        value: String,
        /// The reason, behind a comma.
        reason: &'static str,
    },
    /// None of the acceptable numbers is possible.
    #[error(
        "program '{}' is to run as many times as 'soft={soft}' specifies, and no number from 0 to {most} is \
         in that set; add a smaller one, as in 'soft=1:{most}'",
        .name.display()
    )]
    Soft {
        /// The program.
        name: OsString,
        /// The set of numbers.
        soft: String,
        /// Maximum possible number.
        most: u32,
    },
    /// The processes need more open files than this launcher may have.
    #[error(
        "program '{}' is to run {processes} times and there are open files for {most} more; request fewer, \
         or raise the hard limit ('ulimit -Hn')",
        .name.display()
    )]
    TooMany {
        /// The program.
        name: OsString,
        /// Number of its processes.
        processes: u32,
        /// Maximum possible number.
        most: u32,
    },
    /// The order is empty.
    #[error("it requests 0 processes; request at least one ('maxprocs', 'soft')")]
    Nothing,
}

/// Commands of one spawn, with the numbers of requested and granted processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Commands(Vec<Command>);

/// A command of a spawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    /// Number of requested processes.
    pub(crate) asked: u32,
    /// Number of granted processes.
    pub(crate) taken: u32,
}

impl SpawnError {
    /// Code for the client.
    pub(crate) const fn code(&self) -> Code {
        match self {
            Self::TooMany { .. } => Code::NOMEM,
            Self::Program(_)
            | Self::Elsewhere { .. }
            | Self::Alone { .. }
            | Self::Unknown { .. }
            | Self::HostFile { .. }
            | Self::Hint { .. }
            | Self::Soft { .. }
            | Self::Nothing => Code::INVALID_ARG,
        }
    }
}

impl Commands {
    /// Takes the commands in the order of the spawn.
    pub(crate) fn new(commands: Vec<Command>) -> Self {
        Self(commands)
    }

    /// Codes of a successful spawn: processes omitted by a hint have an error code.
    pub(crate) fn done(&self) -> Vec<CodeRun> {
        merged(self.0.iter().flat_map(|Command { asked, taken }| {
            [(*taken, Code::SUCCESS), (asked.saturating_sub(*taken), LEFT_OUT)]
        }))
    }

    /// Codes of a spawn that failed as a whole because of one command: the cause for that command, and
    /// for the others the code for a failure elsewhere.
    pub(crate) fn refused(&self, because_of: usize, why: Code) -> Vec<CodeRun> {
        let code = |at| if at == because_of { why } else { OTHERS };
        merged(self.0.iter().enumerate().map(|(at, command)| (command.asked, code(at))))
    }

    /// Index of the command that a rank of the new job comes from.
    pub(crate) fn of_rank(&self, rank: u32) -> usize {
        let mut end = 0;
        let ends = self.0.iter().map(|command| {
            end += command.taken;
            end
        });
        { ends }.take_while(|end| *end <= rank).count()
    }
}

/// Merges runs of the same code; empty if there are more than an answer has room for, and if all
/// succeeded, as with most servers.
fn merged(stretches: impl Iterator<Item = (u32, Code)>) -> Vec<CodeRun> {
    let mut runs: Vec<CodeRun> = Vec::new();
    for (count, code) in stretches.filter(|(count, _)| *count > 0) {
        match runs.last_mut().filter(|last| last.code == code) {
            Some(last) => last.count = last.count.saturating_add(count),
            None => runs.push(CodeRun { count, code }),
        }
    }
    let is_plain = runs.iter().all(|run| run.code.is_success());
    if is_plain || runs.len() > SPAWN_RUNS { Vec::new() } else { runs }
}

/// The largest number that a hint allows is smaller than the requested one.
const LEFT_OUT: Code = Code::INVALID_SIZE;

/// The command is valid, but a spawn succeeds as a whole or not at all.
const OTHERS: Code = Code::OTHER;

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(of: &[(u32, i32)]) -> Vec<CodeRun> {
        of.iter().map(|(count, code)| CodeRun { count: *count, code: Code(*code) }).collect()
    }

    #[test]
    fn process_has_one_code() {
        let command = |(asked, taken)| Command { asked, taken };
        let commands =
            |all: &[(u32, u32)]| Commands::new(all.iter().copied().map(command).collect());
        let some = commands(&[(2, 2), (8, 7), (4, 0), (1, 1)]);
        assert_eq!(some.done(), runs(&[(9, 0), (5, 13), (1, 0)]));
        assert_eq!(some.refused(1, Code::FAIL), runs(&[(2, 14), (8, -1), (5, 14)]));
        assert_eq!([1, 2, 8, 9].map(|rank| some.of_rank(rank)), [0, 1, 1, 3]);
        assert_eq!(commands(&[(2, 2), (1, 1)]).done(), []);
        assert_eq!(commands(&[(2, 1); 9]).done(), [], "more than an answer tells apart");
    }
}
