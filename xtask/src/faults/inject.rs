//! The injection of each fault into a run.

use super::control::Stop;
use super::launcher::{NODE_TIMEOUT_S, missing_program};
use super::play::Play;
use super::table::Fault;
use crate::processes::{self, Process};
use pmi_host_testkit::wire::WireDelays;
use rustix::process::{Pid, Signal, kill_process_group};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

impl Play<'_> {
    /// Notes what ranks have written until now, all of which must come out.
    fn promise(&mut self) {
        self.promised = self.control.ranks.iter().map(|rank| (rank.rank, rank.lines)).collect();
    }

    /// The fault.
    pub(super) fn happen(&mut self) -> Result<(), Stop> {
        if std::mem::replace(&mut self.has_happened, true) {
            return Ok(());
        }
        self.promise();
        self.control.touch();
        match self.case.fault.is_of_rank() {
            true => self.happen_to_rank(),
            false => self.happen_to_launcher(),
        }
    }

    fn happen_to_rank(&mut self) -> Result<(), Stop> {
        let case = self.case;
        let Some(victim) = self.control.place(self.victim) else { return Ok(()) };
        let exit = format!("exit {}", case.variant);
        match case.fault {
            Fault::Signal => self.control.order_last(victim, &format!("signal {}", case.variant)),
            Fault::Stop | Fault::Unread => {
                if case.fault == Fault::Stop {
                    self.control.order_last(victim, "stop");
                } else {
                    self.reading.leave();
                    self.control.order_last(victim, "lines 2000000000");
                }
                self.control.pause(Duration::from_millis(300))?;
                if let Some(partner) = self.control.place(self.partner) {
                    // It does not wait for an answer: the fence has not let it in yet.
                    self.control.order_last(partner, &exit);
                }
            }
            Fault::Abort => {
                if case.phase.is_before_init() {
                    self.control.order(victim, "init");
                    self.control.settle_one(victim)?;
                }
                self.control.order_last(victim, &format!("abort {}", case.variant));
            }
            Fault::Close | Fault::Malformed => {
                let order = match case.fault {
                    Fault::Close => "close".to_owned(),
                    _ => format!("garbage {}", case.garbage),
                };
                self.control.order(victim, &order);
                // Half of those that close their connection live on for a while, and then leave with 0.
                let stays = case.fault == Fault::Close && case.variant == 0;
                self.control.pause(Duration::from_millis(if stays { 2000 } else { 200 }))?;
                self.control.order(victim, "exit 0");
                self.control.ranks[victim].is_retired = true;
            }
            Fault::Flood => {
                self.control.order(victim, "lines 20000");
                self.control.settle_one(victim)?;
                self.promise();
                self.control.order_last(victim, &exit);
            }
            Fault::Daemon => {
                let how = if case.is_stubborn { "daemon bare" } else { "daemon" };
                self.control.order(victim, how);
                self.control.order_last(victim, &exit);
            }
            Fault::Children => {
                self.control.order(victim, "children 32");
                self.control.order_last(victim, &exit);
            }
            _ => self.control.order_last(victim, &exit),
        }
        Ok(())
    }

    fn happen_to_launcher(&mut self) -> Result<(), Stop> {
        let (case, launcher) = (self.case, self.run.launcher);
        match case.fault {
            Fault::LauncherSignal => {
                processes::send(launcher, None, signal_numbered(case.variant));
            }
            Fault::LauncherKill | Fault::Clean => {
                processes::send(launcher, None, Signal::KILL);
            }
            Fault::LauncherStop => {
                self.signal_group(Signal::TSTP);
                let until = Instant::now() + Duration::from_secs(5);
                while processes::process(launcher).is_some_and(|process| process.state != 'T') {
                    if Instant::now() > until {
                        self.note = "the launcher did not stop within 5 s".into();
                        break;
                    }
                    self.control.pause(Duration::from_millis(10))?;
                }
                self.control.pause(Duration::from_millis(150))?;
                self.signal_group(Signal::CONT);
            }
            Fault::LauncherSignalTwice => {
                let signal = signal_numbered(case.variant);
                processes::send(launcher, None, signal);
                self.control.pause(Duration::from_micros(case.delay_us))?;
                processes::send(launcher, None, signal);
            }
            Fault::Stage => {
                processes::send(launcher, None, signal_numbered(case.variant));
            }
            Fault::Pause => self.pause_processes()?,
            Fault::Wire => self.impair_wire()?,
            Fault::KeyEcho => {
                self.list_jobs();
                if case.variant == 1 {
                    self.signal_node(Signal::KILL)?;
                }
            }
            Fault::GuardKill => self.kill_guard()?,
            Fault::NodeKill => self.signal_node(Signal::KILL)?,
            Fault::NodeStop => {
                self.signal_node(Signal::STOP)?;
                self.control.pause(Duration::from_millis(1000 + u64::from(case.form) * 100))?;
                processes::send(launcher, None, Signal::TERM);
                // Ranks that go on may wait for those of the stopped node.
                if case.is_stubborn {
                    self.control.pause(AGAIN_AFTER)?;
                    processes::send(launcher, None, Signal::TERM);
                }
            }
            Fault::HangUp => drop(self.terminal.take()),
            Fault::Streams if case.variant == 0 => drop(self.input.take()),
            Fault::Streams => {
                self.reading.close();
                self.control.pause(Duration::from_millis(50))?;
                self.write_more();
            }
            Fault::DiskFull => self.write_more(),
            Fault::ExecFailure => {
                if let Some(place) = self.control.place(self.victim) {
                    let program = missing_program(case, self.directory);
                    self.control.order(place, &format!("spawn {}", program.display()));
                    self.control.settle_one(place)?;
                    if self.control.ranks[place].failures.is_empty() {
                        self.note = "the spawn of a program that does not exist succeeded".into();
                    }
                }
            }
            _ => {}
        }
        self.control.touch();
        Ok(())
    }

    /// Impairs the wire of a host for a while.
    fn impair_wire(&mut self) -> Result<(), Stop> {
        let case = self.case;
        let host = 1 + case.victim % self.launcher.nodes;
        let form = u64::from(case.form);
        let (impaired, lasts_ms) = match case.variant {
            0 => (self.hosts.cut(host), 1000 + form * 31),
            1 => (self.hosts.lose(host, LOST_PERCENT), 8000 + form * 40),
            _ => (
                self.hosts.delay(host, WireDelays { seed: form, longest_ms: LONGEST_DELAY_MS }),
                8000 + form * 40,
            ),
        };
        if let Err(why) = impaired {
            self.note = why;
        }
        self.run.others = self.hosts.holders();
        let lasts = Duration::from_millis(lasts_ms);
        // A silence of the run is no sign of a hang meanwhile.
        let impaired = self.control.pause(lasts);
        if let Err(why) = self.hosts.mend(host) {
            self.note = why;
        }
        impaired
    }

    /// Stops the launcher, one node server with its guard, or all processes of the run, for longer than a
    /// node may be silent, and continues them.
    fn pause_processes(&mut self) -> Result<(), Stop> {
        let (case, launcher) = (self.case, self.run.launcher);
        let of_run = self.run.alive();
        let servers = self.launcher.node_servers(launcher, &of_run);
        let meant: Vec<Process> = match case.variant {
            0 if !servers.is_empty() => {
                let server = &servers[case.victim as usize % servers.len()];
                of_run.into_iter().filter(|process| process.is_same(server)).collect()
            }
            0 | 1 => of_run.into_iter().filter(|process| process.pid == launcher).collect(),
            _ => {
                // The launcher last, or first.
                let mut all = of_run;
                all.sort_by_key(|process| (process.pid == launcher) == (case.form & 1 == 0));
                all
            }
        };
        let send = |process: &Process, signal| {
            processes::send(process.pid, Some(process.since), signal);
        };
        meant.iter().for_each(|process| send(process, Signal::STOP));
        let pause = Duration::from_millis(NODE_TIMEOUT_S * 1000 + 500 + u64::from(case.form) * 40);
        let paused = self.control.pause(pause);
        meant.iter().rev().for_each(|process| send(process, Signal::CONT));
        // A starter stops with the process that it has started.
        let starters = self.run.alive().into_iter().filter(Process::is_stopped_starter);
        starters.for_each(|process| send(&process, Signal::CONT));
        paused
    }

    /// Keeps what `pmi-host ps` shows of the run.
    fn list_jobs(&mut self) {
        let listed = Command::new(&self.launcher.words[0]).arg("ps").stdin(Stdio::null()).output();
        if let Ok(listed) = listed {
            self.shown.extend([listed.stdout, listed.stderr].concat());
        }
    }

    /// Every rank that is there writes again.
    fn write_more(&mut self) {
        for place in self.first_job() {
            self.control.order(place, "lines 10");
        }
    }

    fn signal_group(&self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.run.launcher) {
            let _ = kill_process_group(group, signal);
        }
    }

    /// Sends a signal to the server of the node where the victim runs; to one that follows from the number of
    /// the victim if it does not run yet. The loss of a node whose ranks have all exited is no failure if the
    /// run ends at the same time.
    fn signal_node(&mut self, signal: Signal) -> Result<(), Stop> {
        let until = Instant::now() + Duration::from_secs(5);
        let nodes = self.launcher.nodes.min(self.case.ranks);
        let entry = format!("PMI_RANK={}", self.case.victim);
        loop {
            let all = processes::processes();
            let servers = self.launcher.node_servers(self.run.launcher, &all);
            if servers.len() >= nodes as usize {
                let has_victim = |server: &&Process| {
                    let mut ranks = all.iter().filter(|one| one.parent == server.pid);
                    ranks.any(|rank| processes::has_entry(rank.pid, &entry))
                };
                let place = self.case.victim as usize % servers.len();
                let server = servers.iter().find(has_victim).unwrap_or(&servers[place]);
                processes::send(server.pid, Some(server.since), signal);
                return Ok(());
            }
            if Instant::now() > until {
                self.note = "the node servers do not run".into();
                return Ok(());
            }
            self.control.pause(Duration::from_millis(2))?;
        }
    }

    fn kill_guard(&mut self) -> Result<(), Stop> {
        let until = Instant::now() + Duration::from_secs(5);
        loop {
            let guard = self.launcher.guard(self.run.launcher, &processes::processes());
            if let Some(Process { pid, since, .. }) = guard {
                processes::send(pid, Some(since), Signal::KILL);
                return Ok(());
            }
            if Instant::now() > until {
                self.note = "there is no guard".into();
                return Ok(());
            }
            self.control.pause(Duration::from_millis(2))?;
        }
    }
}

/// A signal that ends a run, by its number.
const fn signal_numbered(number: i32) -> Signal {
    match number {
        1 => Signal::HUP,
        2 => Signal::INT,
        _ => Signal::TERM,
    }
}

/// Packets of a hundred that a bad wire loses.
const LOST_PERCENT: u32 = 40;

/// Longest delay on a slow wire.
const LONGEST_DELAY_MS: u32 = 2500;

/// Time between two signals that end a run: those of one act come sooner.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
