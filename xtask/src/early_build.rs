//! Builds for later steps, made beside steps that leave a processor free.
//!
//! They print nothing: the step that needs a result runs the same command after [`EarlyBuilds::finish`], and
//! reports what has failed. Cargo locks the directory of a profile or target, so builds of others go on
//! meanwhile.

use crate::process;
use crate::processes::MARK;
use std::collections::VecDeque;
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// One command for the step of this name.
pub(crate) struct EarlyBuild {
    pub(crate) step: &'static str,
    pub(crate) command: Command,
}

/// Builds that are made one after the other.
#[derive(Default)]
pub(crate) struct EarlyBuilds {
    queue: Arc<BuildQueue>,
}

#[derive(Default)]
struct BuildQueue {
    state: Mutex<BuildState>,
    /// Notified when a build has ended.
    has_ended: Condvar,
}

#[derive(Default)]
struct BuildState {
    waiting: VecDeque<EarlyBuild>,
    /// The step whose build runs.
    running: Option<&'static str>,
}

impl EarlyBuilds {
    /// Starts the first one.
    pub(crate) fn start(builds: impl IntoIterator<Item = EarlyBuild>) -> Self {
        let waiting: VecDeque<EarlyBuild> = builds.into_iter().collect();
        if let Some(build) = waiting.front() {
            println!("meanwhile: builds for {} and {} more", build.step, waiting.len() - 1);
        }
        let early = Self::default();
        early.queue.lock().waiting = waiting;
        let queue = early.queue.clone();
        thread::spawn(move || {
            while let Some(build) = queue.next() {
                make(build.command);
                queue.lock().running = None;
                queue.has_ended.notify_all();
            }
        });
        early
    }

    /// Waits for the build of a step that runs. Those that have not begun are left to the step itself.
    pub(crate) fn finish(&self, step: &str) {
        let mut state = self.queue.lock();
        state.waiting.retain(|build| build.step != step);
        while state.running == Some(step) {
            state = self.queue.has_ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl BuildQueue {
    fn lock(&self) -> MutexGuard<'_, BuildState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<EarlyBuild> {
        let mut state = self.lock();
        let next = state.waiting.pop_front()?;
        state.running = Some(next.step);
        Some(next)
    }
}

/// Runs a command to its end, whatever its result.
fn make(mut command: Command) {
    // Marked processes are terminated at the end of each step.
    command.env_remove(MARK).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _ = command.status();
}

/// The same command with the least share of the processors: what it runs beside depends on time.
pub(crate) fn in_background(command: &Command) -> Command {
    let mut background = process::command("nice");
    background.args(["-n", "19"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => background.env(name, value),
            None => background.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        background.current_dir(directory);
    }
    background
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn shell(step: &'static str, script: &str, directory: &Path) -> EarlyBuild {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).current_dir(directory);
        EarlyBuild { step, command: in_background(&shell) }
    }

    #[test]
    fn step_waits_for_its_build_that_runs_and_makes_the_others_itself() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        // A pipe that blocks the first build until it is opened for reading, too.
        assert!(Command::new("mkfifo").arg(directory.join("gate")).status().unwrap().success());
        let early = EarlyBuilds::start([
            shell("one", "echo > begun; echo > gate; echo > first", directory),
            shell("one", "echo > second", directory),
            shell("two", "echo > third", directory),
        ]);
        while !directory.join("begun").exists() {
            thread::yield_now();
        }
        let gate = directory.join("gate");
        let opener = thread::spawn(move || fs::read(gate));
        early.finish("one");
        opener.join().unwrap().unwrap();
        assert!(directory.join("first").exists(), "it has ended");
        while !directory.join("third").exists() {
            thread::yield_now();
        }
        assert!(!directory.join("second").exists(), "the step makes it");
        early.finish("two");
        early.finish("three");
    }

    #[test]
    fn build_that_fails_does_not_keep_those_behind_it_from_being_made() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let missing = Command::new("/no/such/program");
        let early = EarlyBuilds::start([
            EarlyBuild { step: "one", command: missing },
            shell("one", "exit 3", directory),
            shell("two", "echo $NAME > made", directory),
        ]);
        while !directory.join("made").exists() {
            thread::yield_now();
        }
        early.finish("one");
        early.finish("two");
    }

    #[test]
    fn command_in_background_keeps_its_words_and_variables() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo $NAME $(pwd) $(nice)"]).env("NAME", "value").current_dir("/");
        let output = in_background(&shell).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "value / 19\n");
    }
}
