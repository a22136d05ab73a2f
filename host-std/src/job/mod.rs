//! One job from its first rank to its exit code, in one loop.
//!
//! 1. Start the next rank, if there is one. Ranks that run are served between two starts.
//! 2. Wait until something is ready, or until a deadline.
//! 3. Take what came: signals, messages of ranks, output of ranks, and last the ends of ranks, so that
//!    what a rank said before it ended counts.
//! 4. Answer everybody who is owed something, and act on what the server wants done.
//! 5. Look at the clock: ranks that were asked to end, connections that were closed.
//! 6. Write our own output as far as its reader takes it.
//!
//! The first failure decides the exit code and starts the way down; see [`Ladder`].

mod ending;
mod output;

use crate::cli::config::Config;
use crate::launch::descriptors::DescriptorLimit;
use crate::launch::ladder::Ladder;
use crate::launch::outlet::streams_are_one;
use crate::launch::plan::Plan;
use crate::launch::process::{Launcher, Process, Started, start_code};
use crate::launch::signal::Signals;
use crate::launch::stdio::Stream;
use crate::report;
use crate::server::ready::{Interest, Poller, Token};
use crate::server::service::{News, Service};
use crate::verdict::Failure;
use output::{Outputs, index};
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Runs the job and gives its exit code. Everything there is to say has been said then.
pub fn run(config: Config) -> u8 {
    let plan = Plan::new(config, std::process::id());
    let prepared = match DescriptorLimit::raise_for(plan.ranks) {
        Ok(limit) => {
            Job::new(plan, limit).map_err(|error| format!("the job cannot be prepared: {error}"))
        }
        Err(error) => Err(error.to_string()),
    };
    match prepared {
        Ok(job) => job.run(),
        Err(what) => {
            let _ = io::stderr().write_all(report::line(what).as_bytes());
            Failure::Launcher { what: String::new() }.exit_code()
        }
    }
}

struct Job {
    plan: Plan,
    /// Until the last rank was started.
    launcher: Option<Launcher>,
    poller: Poller,
    signals: Signals,
    service: Service,
    outputs: Outputs,
    /// By rank, as far as they were started.
    ranks: Vec<Rank>,
    running_count: usize,
    failure: Option<Failure>,
    ladder: Ladder,
    interrupted_at: Option<Instant>,
    /// Ranks whose connection ended while they ran, with the moment from which that counts.
    closed_early: Vec<(Instant, u32)>,
    /// When to stop waiting for output of processes that ranks left behind.
    linger_until: Option<Instant>,
    /// When to look next for processes that ranks left behind.
    sweep_at: Option<Instant>,
    all_have_ended: bool,
    /// Somebody who did not want to wait any longer said so by a signal.
    is_abandoned: bool,
}

struct Rank {
    pid: i32,
    /// Until its end was seen.
    process: Option<Process>,
}

impl Job {
    fn new(plan: Plan, limit: DescriptorLimit) -> io::Result<Self> {
        // Before all else, so that ranks find their socket at a number of one digit: a shell can name no
        // other.
        let launcher = Launcher::new(&plan, limit, streams_are_one())?;
        let poller = Poller::new()?;
        let signals = Signals::new()?;
        poller.add(Token::Signal, signals.source(), Interest::Read)?;
        Ok(Self {
            launcher: Some(launcher),
            service: Service::new(&plan)?,
            outputs: Outputs::new(plan.ranks),
            poller,
            signals,
            ranks: Vec::with_capacity(index(plan.ranks)),
            running_count: 0,
            failure: None,
            ladder: Ladder::default(),
            interrupted_at: None,
            closed_early: Vec::new(),
            linger_until: None,
            sweep_at: None,
            all_have_ended: false,
            is_abandoned: false,
            plan,
        })
    }

    fn run(mut self) -> u8 {
        if let Err(error) = self.turn_until_done() {
            // Only the system's own calls fail here (no memory, no descriptors left), and there is no
            // loop to wait in any more: nobody may be left running, and what is said must get out.
            self.kill_everybody();
            let what = format!("the launcher cannot go on: {error}");
            let _ = io::stderr().write_all(report::line(&what).as_bytes());
            self.failure.get_or_insert(Failure::Launcher { what });
        }
        match &self.failure {
            Some(failure) => failure.exit_code(),
            None => u8::from(self.outputs.has_failed()),
        }
    }

    fn turn_until_done(&mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        while !self.is_done() {
            let starts = self.start_next()?;
            let until = if starts { Some(Instant::now()) } else { self.deadline() };
            self.poller.wait(until, &mut ready)?;
            self.take(&ready)?;
            self.settle()?;
            self.look_at_the_clock(Instant::now())?;
            self.outputs.flush(&mut self.poller)?;
        }
        Ok(())
    }

    /// Starts one rank and says whether there are more.
    fn start_next(&mut self) -> io::Result<bool> {
        let (Some(launcher), true) = (&mut self.launcher, self.failure.is_none()) else {
            self.launcher = None;
            return Ok(false);
        };
        let rank = u32::try_from(self.ranks.len()).unwrap_or(u32::MAX);
        match launcher.start(rank, rank) {
            Ok(started) => self.add(rank, started)?,
            Err(error) => {
                self.fail(Failure::Start {
                    rank,
                    code: start_code(&error),
                    why: error.to_string(),
                });
            }
        }
        if self.failure.is_some() || rank + 1 == self.plan.ranks {
            self.launcher = None;
        }
        Ok(self.launcher.is_some())
    }

    fn add(&mut self, rank: u32, started: Started) -> io::Result<()> {
        let Started { process, link, output, errors } = started;
        self.poller.add(Token::Exit(rank), process.handle(), Interest::Read)?;
        self.ranks.push(Rank { pid: process.pid(), process: Some(process) });
        self.running_count += 1;
        self.outputs.add(rank, Stream::Out, output, &self.poller)?;
        if let Some(errors) = errors {
            self.outputs.add(rank, Stream::Err, errors, &self.poller)?;
        }
        self.service.add(rank, link, &self.poller)
    }

    fn take(&mut self, ready: &[Token]) -> io::Result<()> {
        for &token in ready {
            match token {
                Token::Signal => self.take_signals(),
                Token::Link(rank) => self.service.ready(rank, &self.poller)?,
                Token::Output(stream, rank) => self.outputs.read(stream, rank),
                // Written to at the end of every turn.
                Token::Outlet(_) | Token::Exit(_) => {}
            }
        }
        self.take_news();
        for &token in ready {
            if let Token::Exit(rank) = token {
                self.take_end(rank)?;
            }
        }
        Ok(())
    }

    /// Answers who is owed. News may free a session to go on, so it takes turns until all is quiet.
    fn settle(&mut self) -> io::Result<()> {
        self.service.flush(&self.poller)?;
        while self.take_news() {
            self.service.flush(&self.poller)?;
        }
        Ok(())
    }

    /// Acts on what the server wants done, and says whether there was anything.
    fn take_news(&mut self) -> bool {
        let mut any = false;
        while let Some(news) = self.service.next_news() {
            any = true;
            match news {
                News::Failed(failure) => self.fail(failure),
                News::Closed { rank } => self.take_closed(rank),
            }
        }
        any
    }

    /// A connection ended. Mostly its process is ending too, and how it ends says more.
    fn take_closed(&mut self, rank: u32) {
        if self.ranks[index(rank)].process.is_some() {
            self.closed_early.push((Instant::now() + ENDING, rank));
        } else {
            self.service.set_gone(rank);
        }
    }

    fn is_done(&self) -> bool {
        let quiet = self.running_count == 0 && self.sweep_at.is_none() && self.outputs.is_done();
        (quiet && !self.starts_more()) || self.is_abandoned
    }

    fn starts_more(&self) -> bool {
        self.launcher.is_some() && self.failure.is_none()
    }

    fn deadline(&self) -> Option<Instant> {
        let closed = self.closed_early.first().map(|(at, _)| *at);
        [self.ladder.deadline(), closed, self.linger_until, self.sweep_at]
            .into_iter()
            .flatten()
            .min()
    }

    fn pid(&self, rank: u32) -> Option<i32> {
        self.ranks.get(index(rank)).map(|rank| rank.pid)
    }
}

/// How long the end of a process may come after the end of its connection. The system closes files
/// first and tells the parent last; on a loaded machine with a large process there is time between.
const ENDING: Duration = Duration::from_secs(1);
