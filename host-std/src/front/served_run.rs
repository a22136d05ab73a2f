//! The loop of this process: its signals, its run, and the node of the ranks if they are all on this machine.

use super::mpir;
use crate::launch::signal::{Arrived, Meaning, OnSignal, Signals};
use crate::link::LocalLink;
use crate::node::Node;
use crate::run::{Run, RunEnd, RunEvent};
use crate::verdict::Failure;
use pmi_host_base::exit;
use pmi_host_os::clock;
use pmi_host_os::poller::{Interest, Poller, Token};
use pmi_host_os::target;
use pmi_nodes::failed_host::HostsLeftOut;
use std::io::{Error, Result as IoResult};
use std::rc::Rc;
use std::time::Instant;

/// A run that is served, with its only node if that is in this process.
///
/// It uses nothing of the process but its own descriptors, so several of them may be served in turn.
pub(super) struct ServedRun {
    pub(super) run: Box<Run>,
    pub(super) own: Option<OwnNode>,
    /// Waits for the descriptors of both.
    pub(super) poller: Poller,
    ready: Vec<Token>,
    /// What is ready for the run.
    of_run: Vec<Token>,
}

/// The only node of a run, in the process of the run.
pub(super) struct OwnNode {
    pub(super) node: Box<Node>,
    pub(super) link: Rc<LocalLink>,
}

impl ServedRun {
    pub(super) const fn new(run: Box<Run>, own: Option<OwnNode>, poller: Poller) -> Self {
        Self { run, own, poller, ready: Vec::new(), of_run: Vec::new() }
    }

    /// Serves the run until its end, with the signals to this process.
    pub(super) fn serve(mut self, signals: Signals) -> RunEnd {
        if let Err(error) = self.turn_until_done(signals) {
            self.give_up(&error);
        }
        self.finish()
    }

    fn turn_until_done(&mut self, mut signals: Signals) -> IoResult<()> {
        self.poller.for_run().add(Token::Signal, signals.source(), Interest::Read)?;
        // A user who waits for the listening address reads it before anything else happens.
        self.begin()?;
        while !self.run.is_done() {
            self.turn(None, Some(&mut signals))?;
        }
        Ok(())
    }

    /// Handles what is due before the first turn.
    fn begin(&mut self) -> IoResult<()> {
        self.run.apply(RunEvent::Time(clock::now()))?;
        self.settle()
    }

    /// Waits once, up to `until` if that is earlier than all deadlines, and handles what is ready.
    fn turn(&mut self, until: Option<Instant>, signals: Option<&mut Signals>) -> IoResult<()> {
        let has_started = match &mut self.own {
            Some(own) => own.node.start_next()?,
            None => false,
        };
        if has_started {
            self.settle()?;
        }
        let until = match has_started {
            true => Some(clock::now()),
            false => {
                let of_node = self.own.as_ref().and_then(|own| own.node.deadline());
                [until, self.run.deadline(), of_node].into_iter().flatten().min()
            }
        };
        self.poller.wait(until, &mut self.ready)?;
        if let Some(own) = &mut self.own {
            own.node.serve(until, &mut self.ready)?;
        }
        self.poller.take_ready(&mut self.of_run);
        if let Some(signals) = signals.filter(|_| self.of_run.contains(&Token::Signal)) {
            signals.handle(self)?;
        }
        for token in self.of_run.iter().filter(|token| **token != Token::Signal) {
            self.run.apply(RunEvent::Ready(*token))?;
        }
        self.run.apply(RunEvent::Time(clock::now()))?;
        self.settle()
    }

    /// Exchanges messages until run and node have all of them.
    fn settle(&mut self) -> IoResult<()> {
        let Some(OwnNode { node, link }) = &mut self.own else {
            self.run.advance()?;
            self.show_to_debugger();
            return Ok(());
        };
        loop {
            // First what the guard has to know.
            if link.take_activity() {
                node.exchange()?;
            }
            self.run.advance()?;
            if !link.take_activity() {
                break;
            }
            node.exchange()?;
        }
        if node.is_done() {
            link.set_over();
            self.run.advance()?;
        }
        self.show_to_debugger();
        Ok(())
    }

    /// Lets a debugger attach to the first job once all its ranks were started.
    fn show_to_debugger(&mut self) {
        if let Some(parts) = self.run.take_published() {
            mpir::publish(&parts);
        }
    }

    /// The loop cannot continue. Connections close with this process, and nodes without a head kill their
    /// ranks.
    fn give_up(&mut self, error: &Error) {
        if let Some(own) = &mut self.own {
            own.node.give_up();
        }
        self.run.give_up(error);
    }

    fn finish(self) -> RunEnd {
        let of_node = self.own.map(|mut own| own.node.finish());
        if self.run.has_failed() {
            mpir::abort();
        }
        let mut end = self.run.finish();
        end.last.insert_str(0, &of_node.unwrap_or_default());
        end
    }
}

impl OnSignal for ServedRun {
    fn handle_signal(&mut self, arrived: Arrived, meaning: Meaning) -> IoResult<()> {
        self.run.apply(RunEvent::Signal(arrived, meaning))?;
        if meaning == Meaning::Stop {
            // Ranks stop before the launcher.
            self.run.send_all_now()?;
            self.own.as_mut().map_or(Ok(()), |own| own.node.exchange())?;
        }
        Ok(())
    }

    fn handle_continued(&mut self) -> IoResult<()> {
        self.run.apply(RunEvent::Continued)
    }
}

/// Writes the last lines of a run, or why it was not prepared, and returns the exit code.
pub(super) fn write_last(end: Result<RunEnd, String>) -> u8 {
    let RunEnd { code, last, .. } = end.unwrap_or_else(|what| {
        let last = exit::line(&what);
        let code = Failure::Launcher { what }.exit_code();
        RunEnd { code, last, left_out: HostsLeftOut::default() }
    });
    if !last.is_empty() {
        target::write_last(last.as_bytes());
    }
    code
}

#[cfg(test)]
mod tests {
    use super::super::local;
    use super::*;
    use crate::cli::args;
    use crate::cli::config::Config;
    use crate::launch::signal::UserSignals;
    use pmi_host_os::descriptors::DescriptorLimit;
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    /// One of several runs on this machine, whose output goes to files.
    fn shared(options: &[&str], output: &Path, script: &str) -> ServedRun {
        let usual =
            ["--stdin", "none", "--output-dir", output.to_str().unwrap(), "sh", "-c", script];
        let words = options.iter().copied().chain(usual);
        let args = args::parse(words.map(Into::into).collect()).unwrap();
        let config = Config::resolve(args).unwrap();
        let limit = DescriptorLimit::new(config.settings.output.files_per_rank(), 0);
        let (reserved, signals) = (local::reserve().unwrap(), UserSignals::read().unwrap());
        let mut run = local::prepare(config, None, limit, reserved, signals).unwrap();
        run.own.as_mut().unwrap().node.share_process();
        run
    }

    fn soon() -> Option<Instant> {
        Some(clock::now() + Duration::from_millis(1))
    }

    /// Lets the stopped clock go on as slowly as that of the system.
    fn turn_until(run: &mut ServedRun, is_so: impl Fn(&ServedRun) -> bool) {
        while !is_so(run) {
            run.turn(soon(), None).unwrap();
            clock::go_on(Duration::from_millis(1));
        }
    }

    fn written(output: &Path, rank: u32) -> String {
        fs::read_to_string(output.join(format!("1/rank.{rank}/stdout"))).unwrap()
    }

    #[test]
    fn two_runs_of_one_process_on_one_node_end_apart() {
        clock::stop();
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let (fails, goes_on) = (path("fails"), path("goes on"));
        let script = "echo rank $PMI_RANK; [ $PMI_RANK = 0 ] || exec sleep 60; exit 3";
        let mut short = shared(&["-n", "2"], &fails, script);
        let go = path("go");
        let script = format!("until [ -e {} ]; do sleep 0.01; done; echo $PMI_SIZE", go.display());
        let mut long = shared(&["-n", "3"], &goes_on, &script);
        short.begin().unwrap();
        long.begin().unwrap();
        while !short.run.is_done() {
            short.turn(soon(), None).unwrap();
            long.turn(soon(), None).unwrap();
            clock::go_on(Duration::from_millis(1));
        }
        let end = short.finish();
        assert_eq!((end.code, end.left_out.names.len()), (3, 0));
        assert_eq!(written(&fails, 0), "rank 0\n");
        // The failure of the one has ended no rank of the other.
        for _ in 0..20 {
            long.turn(soon(), None).unwrap();
        }
        assert!(!long.run.is_done() && !long.run.has_failed());
        fs::write(go, "").unwrap();
        turn_until(&mut long, |long| long.run.is_done());
        assert_eq!(long.finish().code, 0);
        (0..3).for_each(|rank| assert_eq!(written(&goes_on, rank), "3\n"));
    }

    #[test]
    fn ranks_that_ignore_the_end_of_the_time_limit_are_killed_after_their_grace_period() {
        clock::stop();
        let directory = tempfile::tempdir().unwrap();
        let ready = directory.path().join("1/rank.0/stdout");
        let script = "trap '' TERM; echo ready; while :; do sleep 0.01; done";
        let mut run = shared(&["-n", "1", "--timeout", "3600"], directory.path(), script);
        run.begin().unwrap();
        turn_until(&mut run, |_| fs::read(&ready).is_ok_and(|text| text == b"ready\n"));
        clock::go_on(Duration::from_secs(3599));
        (0..50).for_each(|_| run.turn(soon(), None).unwrap());
        assert!(!run.run.has_failed());
        clock::go_on(Duration::from_secs(1));
        turn_until(&mut run, |run| run.run.has_failed());
        // It has 3 s to follow SIGTERM.
        clock::go_on(Duration::from_millis(2900));
        (0..50).for_each(|_| run.turn(soon(), None).unwrap());
        assert!(!run.run.is_done());
        clock::go_on(Duration::from_millis(100));
        turn_until(&mut run, |run| run.run.is_done());
        assert_eq!(run.finish().code, 124);
    }

    #[test]
    fn process_that_holds_the_output_of_a_rank_is_waited_for_two_seconds() {
        clock::stop();
        let directory = tempfile::tempdir().unwrap();
        let script = "sleep 1000 & echo $! > $0/pid; echo done";
        let script = script.replace("$0", directory.path().to_str().unwrap());
        let mut run = shared(&["-n", "1"], directory.path(), &script);
        run.begin().unwrap();
        let has_ended = |run: &ServedRun| run.own.as_ref().unwrap().node.has_no_rank_left();
        turn_until(&mut run, has_ended);
        clock::go_on(Duration::from_millis(1900));
        (0..50).for_each(|_| run.turn(soon(), None).unwrap());
        assert!(!run.run.is_done());
        clock::go_on(Duration::from_millis(100));
        turn_until(&mut run, |run| run.run.is_done());
        assert_eq!(run.finish().code, 0);
        assert_eq!(written(directory.path(), 0), "done\n");
        let pid: i32 =
            fs::read_to_string(directory.path().join("pid")).unwrap().trim().parse().unwrap();
        // A run that went well leaves it alone.
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
}
