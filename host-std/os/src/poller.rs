//! Readiness of all descriptors of this process, as one stream of small tokens.

mod alarm;
mod spin;

use crate::clock;
use crate::stream::Stream;
use alarm::Alarm;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use spin::{AdaptiveSpin, SPIN};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::hint;
use std::io;
use std::mem;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Source of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// A signal for this process has arrived.
    Signal,
    /// The connection with this number is readable or writable.
    Link(u32),
    /// The process with this number has exited.
    Exit(u32),
    /// The process with this number has written to one of its streams, or closed it.
    Output(Stream, u32),
    /// The output file or stream with this number is writable.
    Outlet(u32),
    /// The pipe to standard input of the process with this number is writable, or its reader is gone.
    Input(u32),
    /// The launcher's standard input is readable.
    Source,
    /// A connection waits at the listener.
    Listen,
    /// A connection waits at the control socket.
    StatusSocket,
    /// The control connection with this number is writable, to receive more of its answer.
    StatusClient(u32),
    /// A PMIx connection waits at its listener.
    PmixListen,
    /// A connection of a page waits at its listener.
    WebListen,
    /// The socket of the page with this number is readable or writable.
    Web(u32),
    /// The server's end of the pair for the page with this number is readable or writable.
    WebPair(u32),
    /// A connection waits at the listener for node servers.
    NodeListen,
    /// The connection to another node with this number is readable or writable.
    Node(u32),
    /// The starter with this number has written output, or closed it.
    StarterOutput(u32),
    /// The standard input of the starter with this number is writable.
    StarterInput(u32),
    /// The starter with this number has exited.
    StarterExit(u32),
    /// The relay over the starter with this number is ready.
    StarterRelay(u32),
    /// The relay of this node server to the head is ready.
    HeadRelay,
    /// The pipe to the readers of standard input on a node is writable, or they are gone.
    NodeInput,
    /// The connection to the name server is readable or writable.
    NameServer,
    /// A verdict on a credential of munge is there.
    Credential,
    /// A monitored file shows no sign of life.
    FileAlert,
    /// The time until which a wait should last has passed, or that of an earlier one.
    Alarm,
    /// Something is ready for the run in this process.
    Run,
}

/// Waits for the readiness of many descriptors.
///
/// Output of ranks is watched through a set of its own per stream, which itself is one member of the main
/// set: when the reader of the launcher's output is slow, one call removes the whole set, for any number
/// of ranks.
#[derive(Clone)]
pub struct Poller {
    set: Rc<Set>,
    owner: Owner,
}

/// The part of a process that waits for a descriptor. In a process that serves its own ranks, the run and
/// the node number their descriptors independently of each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The node, or whichever part is alone in its process.
    #[default]
    Node,
    /// The run.
    Run,
}

/// Descriptors of all owners.
struct Set {
    main: OwnedFd,
    outputs: [OwnedFd; 2],
    paused: Cell<[bool; 2]>,
    wait: RefCell<Wait>,
}

/// State of the wait.
#[derive(Default)]
struct Wait {
    batch: Vec<epoll::Event>,
    spin: AdaptiveSpin,
    alarm: Alarm,
    /// True if the last wait found messages of ranks.
    follows_ranks: bool,
    /// Tokens of the run that the last wait of the node found.
    of_run: Vec<Token>,
}

/// Readiness to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Readable, or closed by the other end.
    Read,
    /// Writable.
    Write,
    /// Readable or writable.
    Both,
}

impl Poller {
    /// Creates an empty set.
    pub fn new() -> io::Result<Self> {
        let create = || epoll::create(epoll::CreateFlags::CLOEXEC);
        let wait = Wait { batch: Vec::with_capacity(BATCH), ..Wait::default() };
        let set = Set {
            main: create()?,
            outputs: [create()?, create()?],
            paused: Cell::default(),
            wait: RefCell::new(wait),
        };
        for output in [Stream::Out, Stream::Err] {
            set.show(output)?;
        }
        Ok(Self { set: Rc::new(set), owner: Owner::Node })
    }

    /// The same set for the run in the process of its node. Tokens of the run are those of
    /// [`take_ready`](Self::take_ready).
    pub fn for_run(&self) -> Self {
        Self { set: Rc::clone(&self.set), owner: Owner::Run }
    }

    /// Watches `source` until it is closed or [`remove`](Self::remove)d.
    pub fn add(&self, token: Token, source: impl AsFd, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(self.set.of(token), source, self.data(token), interest.flags())?)
    }

    /// Changes the interest in `source`.
    fn change(&self, token: Token, source: impl AsFd, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(self.set.of(token), source, self.data(token), interest.flags())?)
    }

    /// Reports `wanted` of `source` from now on, in place of `watched`.
    pub fn rewatch(
        &self,
        token: Token,
        source: impl AsFd,
        (watched, wanted): (&mut Option<Interest>, Option<Interest>),
    ) -> io::Result<()> {
        match (*watched, wanted) {
            (was, is) if was == is => return Ok(()),
            (Some(_), Some(interest)) => self.change(token, source, interest)?,
            (None, Some(interest)) => self.add(token, source, interest)?,
            (_, None) => self.remove(token, source)?,
        }
        *watched = wanted;
        Ok(())
    }

    /// Stops watching `source`.
    pub fn remove(&self, token: Token, source: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(self.set.of(token), source)?)
    }

    /// Pauses or resumes the events of one output stream of all ranks.
    pub fn pause(&mut self, output: Stream, pause: bool) -> io::Result<()> {
        let Set { main, outputs, paused, .. } = &*self.set;
        let mut all = paused.get();
        if mem::replace(&mut all[output.index()], pause) == pause {
            return Ok(());
        }
        paused.set(all);
        match pause {
            true => Ok(epoll::delete(main, &outputs[output.index()])?),
            false => self.set.show(output),
        }
    }

    /// Sets whether a wait after messages of ranks may begin by spinning: only while each rank has a
    /// processor, since another process could use that of a spinning one.
    pub fn allow_spinning(&mut self, is_allowed: bool) {
        self.set.wait.borrow_mut().spin.allow(is_allowed);
    }

    /// Waits until a descriptor is ready or `until` has passed, and stores the tokens in `ready`;
    /// [`Token::Run`] stands for all of a [run](Self::for_run).
    pub fn wait(&mut self, until: Option<Instant>, ready: &mut Vec<Token>) -> io::Result<()> {
        let set = &*self.set;
        set.wait.borrow_mut().wait(set, until, ready)
    }

    /// Moves the tokens of the run that the last [`wait`](Self::wait) has found to `ready`.
    pub fn take_ready(&self, ready: &mut Vec<Token>) {
        ready.clear();
        ready.append(&mut self.set.wait.borrow_mut().of_run);
    }

    fn data(&self, token: Token) -> epoll::EventData {
        match self.owner {
            Owner::Node => data(token),
            Owner::Run => epoll::EventData::new_u64(data(token).u64() | OF_RUN),
        }
    }
}

impl Wait {
    fn wait(
        &mut self,
        set: &Set,
        until: Option<Instant>,
        ready: &mut Vec<Token>,
    ) -> io::Result<()> {
        ready.clear();
        self.batch.clear();
        self.of_run.clear();
        let left = self.alarm.set(until, &set.main)?;
        let has_found = mem::take(&mut self.follows_ranks)
            && left.is_none()
            && self.spin.begins()
            && self.spin_for(SPIN, &set.main)?;
        if !has_found {
            let left = left.map(timespec);
            match epoll::wait(&set.main, spare_capacity(&mut self.batch), left.as_ref()) {
                // A signal; its token comes with the next call.
                Err(Errno::INTR) => return Ok(()),
                other => other?,
            };
        }
        let mut sets = [false; 2];
        for event in &self.batch {
            match event.data.u64() {
                SET_OUT => sets[0] = true,
                SET_ERR => sets[1] = true,
                ALARM => {
                    self.alarm.rang()?;
                    ready.push(Token::Alarm);
                }
                of_run if of_run & OF_RUN != 0 => self.of_run.extend(token(of_run & !OF_RUN)),
                other => ready.extend(token(other)),
            }
        }
        if !self.of_run.is_empty() {
            ready.push(Token::Run);
        }
        self.follows_ranks = ready.iter().any(|token| matches!(token, Token::Link(_)));
        for (outputs, _) in set.outputs.iter().zip(sets).filter(|(_, is_ready)| *is_ready) {
            self.batch.clear();
            epoll::wait(outputs, spare_capacity(&mut self.batch), Some(&NOT_AT_ALL))?;
            ready.extend(self.batch.iter().filter_map(|event| token(event.data.u64())));
        }
        Ok(())
    }

    /// Fills the batch without sleeping. Returns false if nothing was ready for this time.
    fn spin_for(&mut self, time: Duration, main: &OwnedFd) -> io::Result<bool> {
        let end = clock::now() + time;
        loop {
            match epoll::wait(main, spare_capacity(&mut self.batch), Some(&NOT_AT_ALL)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let is_late = clock::now() >= end;
            if !self.batch.is_empty() || is_late {
                self.spin.ended(!self.batch.is_empty() && !is_late);
                return Ok(!self.batch.is_empty());
            }
            hint::spin_loop();
        }
    }
}

impl Set {
    fn show(&self, output: Stream) -> io::Result<()> {
        let set = epoll::EventData::new_u64([SET_OUT, SET_ERR][output.index()]);
        Ok(epoll::add(&self.main, &self.outputs[output.index()], set, epoll::EventFlags::IN)?)
    }

    fn of(&self, token: Token) -> &OwnedFd {
        match token {
            Token::Output(output, _) => &self.outputs[output.index()],
            _ => &self.main,
        }
    }
}

/// For a set that is one member of another: it is readable if something in it is ready.
impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.main.as_fd()
    }
}

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller").field("owner", &self.owner).finish_non_exhaustive()
    }
}

impl Interest {
    /// Combines two interests; `None` for neither.
    pub const fn of(read: bool, write: bool) -> Option<Self> {
        match (read, write) {
            (true, true) => Some(Self::Both),
            (true, false) => Some(Self::Read),
            (false, true) => Some(Self::Write),
            (false, false) => None,
        }
    }

    fn flags(self) -> epoll::EventFlags {
        match self {
            Self::Read => epoll::EventFlags::IN,
            Self::Write => epoll::EventFlags::OUT,
            Self::Both => epoll::EventFlags::IN.union(epoll::EventFlags::OUT),
        }
    }
}

/// Encodes a token: kind in the upper half, number in the lower.
fn data(token: Token) -> epoll::EventData {
    let (kind, number): (u64, u32) = match token {
        Token::Signal => (0, 0),
        Token::Link(number) => (1, number),
        Token::Exit(number) => (2, number),
        Token::Output(Stream::Out, number) => (3, number),
        Token::Output(Stream::Err, number) => (4, number),
        Token::Outlet(number) => (5, number),
        Token::Input(number) => (6, number),
        Token::Listen => (LISTEN, 0),
        Token::Source => (SOURCE, 0),
        Token::StatusSocket => (CONTROL, 0),
        Token::StatusClient(number) => (ASKER, number),
        Token::PmixListen => (PMIX_LISTEN, 0),
        Token::WebListen => (WEB_LISTEN, 0),
        Token::Web(number) => (WEB, number),
        Token::WebPair(number) => (WEB_PAIR, number),
        Token::NodeListen => (NODE_LISTEN, 0),
        Token::Node(number) => (NODE, number),
        Token::StarterOutput(number) => (STARTER_OUTPUT, number),
        Token::StarterInput(number) => (STARTER_INPUT, number),
        Token::StarterExit(number) => (STARTER_EXIT, number),
        Token::StarterRelay(number) => (STARTER_RELAY, number),
        Token::HeadRelay => (HEAD_RELAY, 0),
        Token::NodeInput => (NODE_INPUT, 0),
        Token::Credential => (CREDENTIAL, 0),
        Token::FileAlert => (FILE_ALERT, 0),
        Token::NameServer => (NAME_SERVER, 0),
        Token::Alarm => (ALARM >> 32, 0),
        Token::Run => (RUN, 0),
    };
    epoll::EventData::new_u64(kind << 32 | u64::from(number))
}

fn token(data: u64) -> Option<Token> {
    let number = u32::try_from(data & u64::from(u32::MAX)).ok()?;
    Some(match data >> 32 {
        0 => Token::Signal,
        1 => Token::Link(number),
        2 => Token::Exit(number),
        3 => Token::Output(Stream::Out, number),
        4 => Token::Output(Stream::Err, number),
        5 => Token::Outlet(number),
        6 => Token::Input(number),
        LISTEN => Token::Listen,
        SOURCE => Token::Source,
        CONTROL => Token::StatusSocket,
        ASKER => Token::StatusClient(number),
        PMIX_LISTEN => Token::PmixListen,
        WEB_LISTEN => Token::WebListen,
        WEB => Token::Web(number),
        WEB_PAIR => Token::WebPair(number),
        NODE_LISTEN => Token::NodeListen,
        NODE => Token::Node(number),
        STARTER_OUTPUT => Token::StarterOutput(number),
        STARTER_INPUT => Token::StarterInput(number),
        STARTER_EXIT => Token::StarterExit(number),
        STARTER_RELAY => Token::StarterRelay(number),
        HEAD_RELAY => Token::HeadRelay,
        NODE_INPUT => Token::NodeInput,
        CREDENTIAL => Token::Credential,
        FILE_ALERT => Token::FileAlert,
        NAME_SERVER => Token::NameServer,
        _ => return None,
    })
}

fn timespec(duration: Duration) -> Timespec {
    Timespec::try_from(duration).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
}

/// Mark of the tokens of a run.
const OF_RUN: u64 = 1 << 63;

/// The wait that only looks.
const NOT_AT_ALL: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Kinds of the two sets of outputs in the main set.
const SET_OUT: u64 = 7 << 32;
const SET_ERR: u64 = 8 << 32;

/// The alarm, which [`Poller::wait`] turns off itself.
const ALARM: u64 = 27 << 32;

/// Kinds after those of the two sets.
const LISTEN: u64 = 9;
const SOURCE: u64 = 10;
const CONTROL: u64 = 11;
const ASKER: u64 = 12;
const PMIX_LISTEN: u64 = 13;
const WEB_LISTEN: u64 = 15;
const WEB: u64 = 16;
const WEB_PAIR: u64 = 17;
const NODE_LISTEN: u64 = 18;
const NODE: u64 = 19;
const STARTER_OUTPUT: u64 = 20;
const STARTER_EXIT: u64 = 21;
const NODE_INPUT: u64 = 22;
const CREDENTIAL: u64 = 23;
const STARTER_INPUT: u64 = 24;
const FILE_ALERT: u64 = 25;
const NAME_SERVER: u64 = 26;
const STARTER_RELAY: u64 = 29;
const HEAD_RELAY: u64 = 30;

/// What no descriptor reports.
const RUN: u64 = 28;

/// Number of events per system call. Twelve bytes each.
const BATCH: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn tokens_survive_the_way_through_the_system() {
        for rank in [0, 1, u32::MAX] {
            let tokens = [
                Token::Signal,
                Token::Link(rank),
                Token::Exit(rank),
                Token::Output(Stream::Out, rank),
                Token::Output(Stream::Err, rank),
                Token::Outlet(rank),
                Token::Input(rank),
                Token::Listen,
                Token::Source,
                Token::StatusSocket,
                Token::StatusClient(rank),
                Token::PmixListen,
                Token::WebListen,
                Token::Web(rank),
                Token::WebPair(rank),
                Token::NodeListen,
                Token::Node(rank),
                Token::StarterOutput(rank),
                Token::StarterInput(rank),
                Token::StarterExit(rank),
                Token::StarterRelay(rank),
                Token::HeadRelay,
                Token::NodeInput,
                Token::Credential,
                Token::FileAlert,
                Token::NameServer,
            ];
            for sent in tokens {
                assert_eq!(token(data(sent).u64()), Some(sent));
            }
        }
        assert_eq!([SET_OUT, SET_ERR, ALARM].map(token), [None; 3]);
    }

    #[test]
    fn run_and_node_of_one_process_have_tokens_of_their_own() {
        let (mut poller, mut ready) = (Poller::new().unwrap(), Vec::new());
        let run = poller.for_run();
        let pairs = [UnixStream::pair().unwrap(), UnixStream::pair().unwrap()];
        for ((read, write), owner) in pairs.iter().zip([&poller, &run]) {
            (&*write).write_all(b"x").unwrap();
            owner.add(Token::Link(7), read, Interest::Read).unwrap();
        }
        for _ in 0..2 {
            poller.wait(Some(clock::now()), &mut ready).unwrap();
            assert_eq!(ready, [Token::Link(7), Token::Run]);
            run.take_ready(&mut ready);
            assert_eq!(ready, [Token::Link(7)]);
            run.take_ready(&mut ready);
            assert_eq!(ready, []);
        }
        // Nothing piles up that the run does not take.
        poller.wait(Some(clock::now()), &mut ready).unwrap();
        poller.wait(Some(clock::now()), &mut ready).unwrap();
        run.take_ready(&mut ready);
        assert_eq!(ready, [Token::Link(7)]);
    }

    #[test]
    fn paused_stream_is_silent_until_it_is_resumed() {
        let (mut poller, mut ready) = (Poller::new().unwrap(), Vec::new());
        let (read, mut write) = UnixStream::pair().unwrap();
        write.write_all(b"x").unwrap();
        poller.add(Token::Output(Stream::Err, 5), &read, Interest::Read).unwrap();
        let now = Some(clock::now());
        poller.pause(Stream::Err, true).unwrap();
        poller.wait(now, &mut ready).unwrap();
        assert_eq!(ready, []);
        poller.pause(Stream::Err, false).unwrap();
        poller.wait(now, &mut ready).unwrap();
        assert_eq!(ready, [Token::Output(Stream::Err, 5)]);
    }
}
