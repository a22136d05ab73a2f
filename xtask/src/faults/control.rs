//! The view that a case has of a run: the ranks over their sockets, the launcher's output, and its end.
//!
//! Everything arrives as an [`Event`] in one queue; the time of the last one is what a hang is measured from.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::output::OutputLines;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;

/// Something that happened to the run.
#[derive(Debug)]
pub(super) enum Event {
    /// A process of the rank program runs.
    Hello { connection: u32, rank: u32, socket: UnixStream },
    /// It reports about an order: `done`, `failed` or `at`, and which.
    Report { connection: u32, what: String, order: String },
    /// It is gone.
    Gone { connection: u32 },
    /// The launcher has written something.
    Output,
    /// The launcher has ended.
    Ended(ExitStatus),
}

/// A process of the rank program.
#[derive(Debug)]
pub(super) struct ControlledRank {
    connection: u32,
    pub(super) rank: u32,
    /// A rank of a job that a rank has spawned.
    pub(super) is_spawned: bool,
    socket: UnixStream,
    orders: VecDeque<String>,
    is_busy: bool,
    /// Its request for this is on the way.
    pub(super) at: Option<String>,
    pub(super) is_gone: bool,
    /// The fault has happened to it: nothing is ordered or expected any more.
    pub(super) is_retired: bool,
    /// OutputLines that it has written for certain.
    pub(super) lines: u64,
    /// Orders that failed.
    pub(super) failures: Vec<String>,
}

impl ControlledRank {
    /// Everything it was ordered is done.
    fn is_idle(&self) -> bool {
        self.is_gone || self.is_retired || (!self.is_busy && self.orders.is_empty())
    }

    fn send_next(&mut self) {
        if self.is_busy {
            return;
        }
        if let Some(order) = self.orders.front() {
            self.is_busy = true;
            // If it is gone, that is reported by its connection.
            let _ = self.socket.write_all(format!("{order}\n").as_bytes());
        }
    }

    fn on_report(&mut self, what: &str, order: &str) {
        if what == "at" {
            self.at = Some(order.to_owned());
            let is_all = order.starts_with("begin-") || order == "stop";
            if !is_all {
                return;
            }
        }
        let Some(current) = self.orders.pop_front() else { return };
        self.is_busy = false;
        match current.strip_prefix("lines ") {
            Some(count) if what == "done" => self.lines += count.parse::<u64>().unwrap_or(0),
            _ if what == "failed" => self.failures.push(current),
            _ => {}
        }
        self.send_next();
    }
}

/// Why nothing further can be done with a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The launcher has ended.
    Ended(ExitStatus),
    /// There was no event for as long as defines a hang.
    Silent,
    /// The case has taken longer than any may.
    Limit,
}

/// The run as it is seen.
#[derive(Debug)]
pub(super) struct Control {
    events: Receiver<Event>,
    pub(super) ranks: Vec<ControlledRank>,
    /// Number of processes that the launcher starts itself; the others are spawned.
    first_job: u32,
    end: Option<ExitStatus>,
    last_event: Instant,
    limit: Instant,
    silence: Duration,
}

impl Control {
    pub(super) fn new(
        events: Receiver<Event>,
        first_job: u32,
        silence: Duration,
        limit: Duration,
    ) -> Self {
        let now = Instant::now();
        Self {
            events,
            ranks: Vec::new(),
            first_job,
            end: None,
            last_event: now,
            limit: now + limit,
            silence,
        }
    }

    /// The place of a rank of the first job among [`Control::ranks`].
    pub(super) fn place(&self, rank: u32) -> Option<usize> {
        self.ranks.iter().position(|known| known.rank == rank && !known.is_spawned)
    }

    /// Orders something of one process, after all that it was ordered before.
    pub(super) fn order(&mut self, place: usize, order: &str) {
        let rank = &mut self.ranks[place];
        if !rank.is_gone && !rank.is_retired {
            rank.orders.push_back(order.to_owned());
            rank.send_next();
        }
    }

    /// Orders something of a process that the case is done with.
    pub(super) fn order_last(&mut self, place: usize, order: &str) {
        self.order(place, order);
        self.ranks[place].is_retired = true;
    }

    /// Waits until everything that was ordered is done.
    ///
    /// # Errors
    ///
    /// The run has ended or makes no progress.
    pub(super) fn settle(&mut self) -> Result<(), Stop> {
        self.wait(|control| control.ranks.iter().all(ControlledRank::is_idle))
    }

    /// Waits until everything that one process was ordered is done, while others may be in a fence.
    ///
    /// # Errors
    ///
    /// As for [`Control::settle`].
    pub(super) fn settle_one(&mut self, place: usize) -> Result<(), Stop> {
        self.wait(|control| control.ranks[place].is_idle())
    }

    /// Waits until something holds.
    ///
    /// # Errors
    ///
    /// As for [`Control::settle`].
    pub(super) fn wait(&mut self, holds: impl Fn(&Self) -> bool) -> Result<(), Stop> {
        while !holds(self) {
            self.step(self.silence)?;
        }
        Ok(())
    }

    /// Waits for some time, and takes what happens meanwhile.
    ///
    /// # Errors
    ///
    /// The run has ended.
    pub(super) fn pause(&mut self, duration: Duration) -> Result<(), Stop> {
        let until = Instant::now() + duration;
        while let Some(rest) = until.checked_duration_since(Instant::now()) {
            if rest.is_zero() {
                break;
            }
            match self.events.recv_timeout(rest) {
                Ok(event) => self.take(event),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return Err(Stop::Silent),
            }
            if let Some(status) = self.end {
                return Err(Stop::Ended(status));
            }
        }
        self.last_event = Instant::now();
        Ok(())
    }

    /// Waits for the end of the launcher.
    pub(super) fn wait_for_end(&mut self) -> Stop {
        loop {
            if let Err(stop) = self.step(self.silence) {
                return stop;
            }
        }
    }

    /// Counts an action from outside as an event.
    pub(super) fn touch(&mut self) {
        self.last_event = Instant::now();
    }

    fn step(&mut self, silence: Duration) -> Result<(), Stop> {
        if let Some(status) = self.end {
            return Err(Stop::Ended(status));
        }
        let now = Instant::now();
        if now >= self.limit {
            return Err(Stop::Limit);
        }
        let until = (self.last_event + silence).min(self.limit);
        match self.events.recv_timeout(until.saturating_duration_since(now)) {
            Ok(event) => self.take(event),
            Err(_) if Instant::now() >= self.limit => return Err(Stop::Limit),
            Err(_) => return Err(Stop::Silent),
        }
        match self.end {
            Some(status) => Err(Stop::Ended(status)),
            None => Ok(()),
        }
    }

    fn take(&mut self, event: Event) {
        self.last_event = Instant::now();
        match event {
            Event::Hello { connection, rank, socket } => {
                let known = self.ranks.iter().filter(|known| !known.is_spawned).count();
                self.ranks.push(ControlledRank {
                    connection,
                    rank,
                    is_spawned: u32::try_from(known).is_ok_and(|known| known >= self.first_job),
                    socket,
                    orders: VecDeque::new(),
                    is_busy: false,
                    at: None,
                    is_gone: false,
                    is_retired: false,
                    lines: 0,
                    failures: Vec::new(),
                });
            }
            Event::Report { connection, what, order } => {
                if let Some(rank) = self.ranks.iter_mut().find(|r| r.connection == connection) {
                    rank.on_report(&what, &order);
                }
            }
            Event::Gone { connection } => {
                if let Some(rank) = self.ranks.iter_mut().find(|r| r.connection == connection) {
                    rank.is_gone = true;
                }
            }
            Event::Output => {}
            Event::Ended(status) => self.end = Some(status),
        }
    }
}

/// Takes connections of ranks until the process ends.
pub(super) fn accept(listener: UnixListener, events: Sender<Event>) {
    let count = AtomicU32::new(0);
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let connection = count.fetch_add(1, Ordering::Relaxed);
            let events = events.clone();
            thread::spawn(move || attend(connection, &socket, &events));
        }
    });
}

fn attend(connection: u32, socket: &UnixStream, events: &Sender<Event>) {
    for line in BufReader::new(socket).lines() {
        let Ok(line) = line else { break };
        let mut words = line.split(' ');
        let (what, order) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let event = match (what, order.parse(), socket.try_clone()) {
            ("hello", Ok(rank), Ok(socket)) => Event::Hello { connection, rank, socket },
            _ => Event::Report { connection, what: what.to_owned(), order: order.to_owned() },
        };
        if events.send(event).is_err() {
            return;
        }
    }
    let _ = events.send(Event::Gone { connection });
}

/// State of a stream of the launcher: read, left unread, or closed.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading(Arc<AtomicU8>);

const READ: u8 = 0;
const LEFT: u8 = 1;
const CLOSED: u8 = 2;

impl Reading {
    pub(super) fn resume(&self) {
        self.0.store(READ, Ordering::SeqCst);
    }

    /// Nothing is read any more; the stream stays open.
    pub(super) fn leave(&self) {
        self.0.store(LEFT, Ordering::SeqCst);
    }

    /// The stream is closed.
    pub(super) fn close(&self) {
        self.0.store(CLOSED, Ordering::SeqCst);
    }
}

/// Reads a stream in a thread, under the control of `reading`, into `lines`. The thread ends with
/// the stream; `Ok(())` arrives at the receiver then.
pub(super) fn read(
    mut stream: impl Read + AsFd + Send + 'static,
    reading: Reading,
    lines: Arc<Mutex<OutputLines>>,
    events: Sender<Event>,
) -> Receiver<()> {
    let (done, is_done) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let moment = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        let mut bytes = vec![0; 1 << 16];
        loop {
            match reading.0.load(Ordering::SeqCst) {
                CLOSED => break,
                LEFT => thread::sleep(Duration::from_millis(10)),
                _ => {
                    let mut ready = [PollFd::new(&stream, PollFlags::IN)];
                    if !matches!(poll(&mut ready, Some(&moment)), Ok(1..)) {
                        continue;
                    }
                    match stream.read(&mut bytes) {
                        Ok(0) | Err(_) => break,
                        Ok(count) => {
                            if let Ok(mut lines) = lines.lock() {
                                lines.take(&bytes[..count]);
                            }
                            let _ = events.send(Event::Output);
                        }
                    }
                }
            }
        }
        drop(stream);
        let _ = done.send(());
    });
    is_done
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// A run with one connected rank, and the rank's end of the connection.
    fn run() -> (Control, Sender<Event>, BufReader<UnixStream>) {
        let (events, received) = channel();
        let second = Duration::from_secs(20);
        let mut control = Control::new(received, 1, Duration::from_millis(200), second);
        let (socket, rank) = UnixStream::pair().unwrap();
        events.send(Event::Hello { connection: 4, rank: 0, socket }).unwrap();
        control.wait(|control| !control.ranks.is_empty()).unwrap();
        (control, events, BufReader::new(rank))
    }

    fn next(rank: &mut BufReader<UnixStream>) -> String {
        let mut line = String::new();
        rank.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn report(events: &Sender<Event>, what: &str, order: &str) {
        let (what, order) = (what.to_owned(), order.to_owned());
        events.send(Event::Report { connection: 4, what, order }).unwrap();
    }

    #[test]
    fn order_is_sent_when_the_one_before_is_done() {
        let (mut control, events, mut rank) = run();
        control.order(0, "lines 10");
        control.order(0, "get 1");
        assert_eq!(next(&mut rank), "lines 10");
        report(&events, "done", "lines");
        control.wait(|control| control.ranks[0].lines == 10).unwrap();
        assert_eq!(next(&mut rank), "get 1");
        report(&events, "failed", "get");
        assert_eq!(control.settle(), Ok(()));
        assert_eq!(control.ranks[0].failures, ["get 1"]);
    }

    #[test]
    fn order_that_is_not_carried_out_is_silence() {
        let (mut control, _events, _rank) = run();
        control.order(0, "fence");
        assert_eq!(control.settle(), Err(Stop::Silent));
    }

    #[test]
    fn rank_that_is_gone_or_retired_is_not_waited_for() {
        let (mut control, events, _rank) = run();
        control.order_last(0, "exit 3");
        assert_eq!(control.settle(), Ok(()));
        control.ranks[0].is_retired = false;
        control.order(0, "fence");
        events.send(Event::Gone { connection: 4 }).unwrap();
        assert_eq!(control.settle(), Ok(()));
    }

    #[test]
    fn process_beyond_the_first_job_is_spawned() {
        let (mut control, events, _rank) = run();
        let (socket, _other) = UnixStream::pair().unwrap();
        events.send(Event::Hello { connection: 5, rank: 0, socket }).unwrap();
        control.wait(|control| control.ranks.len() == 2).unwrap();
        assert_eq!((control.ranks[0].is_spawned, control.ranks[1].is_spawned), (false, true));
        assert_eq!(control.place(0), Some(0));
    }
}
