//! Result codes of a spawn, one for each process: success, or the cause of the failure.

use pmi_core::command::CodeRun;
use pmi_core::error::Code;
use pmi_core::limits::SPAWN_RUNS;

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
