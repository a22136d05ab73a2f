//! One session with a server: the machine, its socket, and what has arrived. No call here waits, except
//! [`PmixConnection::wait_ready`].

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant as Time};

use pmi_core::client::pmix::{
    Object, PmixBuffers, PmixClient, PmixClientEvent, PmixRequest, PmixState, PmixTicket,
};
use pmi_core::error::{Full, Misuse, PeerError};
use pmi_core::machine::Machine;
use pmi_core::time::Instant;
use pmi_core::wire::pmix::names::{Command, keys};
use pmi_core::wire::pmix::{Format, Kvals, Value};
use pmi_link::heap::BoundedBuf;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::error::{CallError, PmixConnectError};
use super::prefetch::Prefetches;
use super::reply::{Infos, OwnedProc, PmixEvent, PmixReply};
use crate::stream::retry_interrupted;

pub(super) type HeapClient = PmixClient<BoundedBuf, SLOTS>;

#[derive(Debug)]
pub(super) struct PmixConnection {
    stream: TcpStream,
    pub(super) client: HeapClient,
    /// Input that the machine has not consumed.
    unread: Vec<u8>,
    /// Output that the socket has not taken.
    unsent: Vec<u8>,
    replies: Vec<(PmixTicket, PmixReply)>,
    events: VecDeque<PmixEvent>,
    events_lost: u64,
    /// Gets in flight for values of the launcher, which arrive one by one.
    reserved: Vec<PmixTicket>,
    /// Data of processes, packed, as received since the last fence.
    received: BTreeMap<ProcKey, ReceivedData>,
    /// Requests for data that no get has asked for yet.
    pub(super) prefetches: Prefetches,
    /// The last request, which may end the session without a reply.
    last: Option<(PmixTicket, Command)>,
    fault: Option<PmixFault>,
    message: Vec<u8>,
}

/// A process: its namespace, which is empty for the own one, and its rank.
pub(super) type ProcKey = (Vec<u8>, u32);

/// Data of a process.
#[derive(Debug, Default)]
struct ReceivedData {
    /// What it has committed, which arrives complete.
    committed: Option<Vec<u8>>,
    /// Values of the launcher for it, which arrive as they are requested.
    provided: Vec<u8>,
    /// True if a fence has begun or ended since. The data is only for the gets that have requested it.
    is_stale: bool,
}

/// Reason why no more replies will arrive, for every later call.
#[derive(Clone, Copy, Debug)]
enum PmixFault {
    Peer(PeerError),
    System(ErrorKind, Option<i32>),
}

impl PmixConnection {
    /// Connects, joins, and waits for the job-level information.
    pub(super) fn open(
        address: SocketAddr,
        client: impl FnOnce(PmixBuffers<BoundedBuf>) -> Result<HeapClient, Misuse>,
    ) -> Result<Self, PmixConnectError> {
        let dial = |error| PmixConnectError::Connect { address, error };
        let stream = TcpStream::connect(address).map_err(dial)?;
        // Most messages wait for their replies, so nothing is gained by holding one back.
        stream.set_nodelay(true).map_err(dial)?;
        stream.set_nonblocking(true).map_err(dial)?;
        let lent = || BoundedBuf::new(MESSAGE_BYTES_MAX);
        let memory = PmixBuffers { request: lent(), response: lent(), puts: lent(), job: lent() };
        let mut connection = Self {
            stream,
            client: client(memory).map_err(CallError::Misuse)?,
            unread: Vec::new(),
            unsent: Vec::new(),
            replies: Vec::new(),
            events: VecDeque::new(),
            events_lost: 0,
            reserved: Vec::new(),
            received: BTreeMap::new(),
            prefetches: Prefetches::default(),
            last: None,
            fault: None,
            message: vec![0; READ_BYTES],
        };
        let ticket = connection.start(&PmixRequest::Init)?;
        connection.wait(ticket)?.done()?;
        Ok(connection)
    }

    /// Starts a request, and sends what the socket takes of it.
    ///
    /// # Errors
    ///
    /// [`CallError::Misuse`] with [`Misuse::Busy`] if no further request can be in flight.
    pub(super) fn start(&mut self, request: &PmixRequest<'_>) -> Result<PmixTicket, CallError> {
        self.check()?;
        let ticket = self.client.start(request)?;
        self.prefetches.on_start(request);
        let command = match request {
            PmixRequest::Abort { .. } => Command::ABORT,
            _ => Command::FINALIZE,
        };
        self.last = Some((ticket, command));
        if let PmixRequest::Get { key: Some(key), .. } = request
            && keys::is_reserved(key)
        {
            self.reserved.push(ticket);
        }
        if let PmixRequest::Fence { .. } = request {
            outdate(&mut self.received, &self.replies);
        }
        self.transmit().map_err(|error| self.fail(error))?;
        Ok(ticket)
    }

    /// Sends and receives what can be sent and received now.
    ///
    /// # Errors
    ///
    /// The fault of the session, unless something has arrived in front of it: this is returned to its callers
    /// first, and the next turn fails.
    pub(super) fn turn(&mut self) -> Result<(), CallError> {
        self.check()?;
        let arrived = |of: &Self| (of.replies.len(), of.events.len(), of.events_lost);
        let before = arrived(self);
        let sent = self.transmit();
        let done = self.receive().and(sent).and_then(|()| self.request_ahead());
        match done.map_err(|error| self.fail(error)) {
            Err(_) if arrived(self) != before => Ok(()),
            done => done,
        }
    }

    /// Sends what can be sent now, and receives nothing.
    pub(super) fn flush(&mut self) -> Result<(), CallError> {
        self.check()?;
        self.transmit().map_err(|error| self.fail(error))
    }

    /// Waits until something can be received, or sent if something has to be; false at the deadline.
    pub(super) fn wait_ready(
        stream: impl AsFd,
        is_sending: bool,
        deadline: Option<Time>,
    ) -> io::Result<bool> {
        let sending = if is_sending { PollFlags::OUT } else { PollFlags::empty() };
        Self::wait_for(stream, PollFlags::IN | sending, deadline)
    }

    /// Waits until something can be sent; false at the deadline.
    pub(super) fn wait_writable(stream: impl AsFd, deadline: Option<Time>) -> io::Result<bool> {
        Self::wait_for(stream, PollFlags::OUT, deadline)
    }

    fn wait_for(stream: impl AsFd, events: PollFlags, deadline: Option<Time>) -> io::Result<bool> {
        loop {
            let left = deadline.map(|time| time.saturating_duration_since(Time::now()));
            let timeout = left.map(|left| Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            });
            let mut ready = [PollFd::new(&stream, events)];
            match poll(&mut ready, timeout.as_ref()) {
                Ok(0) if left.is_none_or(|left| left > Duration::ZERO) => {}
                Ok(count) => return Ok(count > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for the reply to a request.
    pub(super) fn wait(&mut self, ticket: PmixTicket) -> Result<PmixReply, CallError> {
        loop {
            if let Some(reply) = self.take(ticket)? {
                return Ok(reply);
            }
            Self::wait_ready(&self.stream, self.is_sending(), None)?;
            self.turn()?;
        }
    }

    /// The reply to a request, if it has arrived.
    ///
    /// # Errors
    ///
    /// The fault of the session if it will not arrive.
    pub(super) fn take(&mut self, ticket: PmixTicket) -> Result<Option<PmixReply>, CallError> {
        if let Some(at) = self.replies.iter().position(|(of, _)| *of == ticket) {
            return Ok(Some(self.replies.swap_remove(at).1));
        }
        match self.last {
            _ if self.client.state() != PmixState::Ended => {}
            Some((last, command)) if last == ticket => return Ok(Some(PmixReply::end(command))),
            _ => return Err(NOT_OPEN.into()),
        }
        self.check().map(|()| None)
    }

    /// Fails once nothing more will arrive: after a fault, and after the end of the session.
    pub(super) fn check_open(&self) -> Result<(), CallError> {
        self.check()?;
        match self.client.state() {
            PmixState::Ended => Err(NOT_OPEN.into()),
            _ => Ok(()),
        }
    }

    /// True if the reply to a request has arrived.
    pub(super) fn has_reply(&self, ticket: PmixTicket) -> bool {
        self.replies.iter().any(|(of, _)| *of == ticket)
    }

    pub(super) fn take_event(&mut self) -> Option<PmixEvent> {
        self.events.pop_front()
    }

    /// Number of events that were dropped because nothing has taken them.
    pub(super) const fn events_lost(&self) -> u64 {
        self.events_lost
    }

    /// True if the socket has not taken everything.
    pub(super) const fn is_sending(&self) -> bool {
        !self.unsent.is_empty()
    }

    pub(super) fn format(&self) -> Format {
        self.client.identity().format
    }

    /// A copy of the descriptor, for waiting without the connection.
    pub(super) fn try_clone_stream(&self) -> io::Result<TcpStream> {
        self.stream.try_clone()
    }

    /// A value that is known without a request.
    pub(super) fn cached(&self, of: &ProcKey, key: &[u8]) -> Option<Value<'_>> {
        let (nspace, rank) = of;
        let own = if nspace.is_empty() { self.client.known(*rank, key) } else { None };
        own.or_else(|| {
            let is_current = self.received.get(of).is_some_and(|data| !data.is_stale);
            if is_current { self.found(of, key) } else { None }
        })
    }

    /// True if the committed data of a process is known.
    pub(super) fn is_received(&self, of: &ProcKey) -> bool {
        self.received.get(of).is_some_and(|data| !data.is_stale && data.committed.is_some())
    }

    /// A value that a get has received.
    pub(super) fn found(&self, of: &ProcKey, key: &[u8]) -> Option<Value<'_>> {
        let provided = &self.received.get(of)?.provided;
        let committed = last_value(self.received(of), key);
        committed.or_else(|| last_value(Kvals::new(provided, self.format()), key))
    }

    /// All committed data of a process that was received.
    pub(super) fn received(&self, of: &ProcKey) -> Kvals<'_> {
        let data = self.received.get(of).and_then(|data| data.committed.as_deref());
        Kvals::new(data.unwrap_or_default(), self.format())
    }

    /// Forgets the received data of a process.
    pub(super) fn forget(&mut self, of: &ProcKey) {
        self.received.remove(of);
    }

    /// Fails once no more replies will arrive.
    fn check(&self) -> Result<(), CallError> {
        match self.fault {
            None => Ok(()),
            Some(PmixFault::Peer(error)) => Err(error.into()),
            Some(PmixFault::System(_, Some(code))) => {
                Err(io::Error::from_raw_os_error(code).into())
            }
            Some(PmixFault::System(kind, None)) => Err(io::Error::from(kind).into()),
        }
    }

    /// Keeps an error that ends the session.
    pub(super) fn fail(&mut self, error: CallError) -> CallError {
        self.fault = self.fault.or(match &error {
            CallError::Peer(error) => Some(PmixFault::Peer(*error)),
            CallError::Io(error) => Some(PmixFault::System(error.kind(), error.raw_os_error())),
            _ => None,
        });
        error
    }

    /// Sends what can be sent now.
    pub(super) fn transmit(&mut self) -> Result<(), CallError> {
        loop {
            match self.client.poll_transmit(&mut self.message) {
                Ok(Some(len)) => {
                    self.unsent.extend_from_slice(self.message.get(..len).unwrap_or(b""));
                }
                Ok(None) => break,
                Err(Full { needed }) => self.message.resize(needed, 0),
            }
        }
        let mut sent = 0;
        while let Some(rest) = self.unsent.get(sent..).filter(|rest| !rest.is_empty()) {
            match retry_interrupted(|| self.stream.write(rest)) {
                Ok(0) => return Err(io::Error::from(ErrorKind::WriteZero).into()),
                Ok(len) => sent += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // A server that ends the process that it was asked to end may not read on.
                Err(_) if matches!(self.client.state(), PmixState::Aborting { .. }) => break,
                Err(error) => return Err(error.into()),
            }
        }
        self.unsent.drain(..sent);
        Ok(())
    }

    fn receive(&mut self) -> Result<(), CallError> {
        let mut piece = [0; READ_BYTES];
        loop {
            match retry_interrupted(|| self.stream.read(&mut piece)) {
                Ok(0) => {
                    self.client.handle_end(NOW)?;
                    return Ok(());
                }
                Ok(len) => self.unread.extend_from_slice(piece.get(..len).unwrap_or(b"")),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(_) if matches!(self.client.state(), PmixState::Aborting { .. }) => {
                    self.client.handle_end(NOW)?;
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
            self.feed()?;
            if self.client.state() == PmixState::Ended {
                return Ok(());
            }
        }
    }

    /// Passes the input to the machine, and stores what it returns.
    fn feed(&mut self) -> Result<(), CallError> {
        let mut taken = 0;
        let done = loop {
            let rest = self.unread.get(taken..).unwrap_or(b"");
            let is_over = rest.is_empty();
            match self.client.handle_input(NOW, rest) {
                Ok(len) => taken += len,
                Err(error) => break Err(CallError::from(error)),
            }
            let had_event = self.store_event();
            if is_over && !had_event {
                break Ok(());
            }
        };
        self.unread.drain(..taken);
        done?;
        // The greeting is answered with no event; what has to follow it is sent now.
        self.transmit()
    }

    /// Stores a reply or an event; false if there is none.
    fn store_event(&mut self) -> bool {
        let own = self.client.identity().nspace.clone();
        match self.client.poll_event() {
            Some(PmixClientEvent::Reply { ticket, command, status, answer }) => {
                let reserved = self.reserved.iter().position(|of| *of == ticket);
                if let Some(at) = reserved {
                    self.reserved.swap_remove(at);
                }
                if command == Command::FENCE {
                    // What was fetched before the end of the fence may be older than it.
                    outdate(&mut self.received, &self.replies);
                }
                for Object { of, kvals } in answer.objects() {
                    let nspace = if of.nspace == own.as_bytes() { b"" } else { of.nspace };
                    let received = self.received.entry((nspace.to_vec(), of.rank)).or_default();
                    if received.is_stale {
                        *received = ReceivedData::default();
                    }
                    match reserved {
                        Some(_) => received.provided.extend_from_slice(kvals.rest()),
                        None => received.committed = Some(kvals.rest().to_vec()),
                    }
                }
                if !self.prefetches.take(ticket) {
                    self.replies.push((ticket, PmixReply::new(command, status, &answer)));
                }
            }
            Some(PmixClientEvent::Happened { code, source, range, infos }) => {
                let (source, infos) = (OwnedProc::from(source), Infos::new(&infos));
                if self.events.len() == EVENTS_MAX {
                    self.events.pop_front();
                    self.events_lost += 1;
                }
                self.events.push_back(PmixEvent { code, source, range, infos });
            }
            _ => return false,
        }
        true
    }
}

/// The value of a key; of several under one key the last one counts.
fn last_value<'a>(kvals: Kvals<'a>, key: &[u8]) -> Option<Value<'a>> {
    kvals.map_while(Result::ok).filter(|kval| kval.key == key).last().map(|kval| kval.value)
}

/// Removes the received data, because values may have changed. What a get has received and its caller has not
/// read is kept for it.
fn outdate(received: &mut BTreeMap<ProcKey, ReceivedData>, unread: &[(PmixTicket, PmixReply)]) {
    if unread.iter().any(|(_, reply)| reply.is_get()) {
        received.values_mut().for_each(|data| data.is_stale = true);
    } else {
        received.clear();
    }
}

impl AsFd for PmixConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Error of a call after the end of the session.
const NOT_OPEN: Misuse = Misuse::WrongState { needed: "the session is open" };
/// Number of requests that may be in flight; further ones wait.
const SLOTS: usize = 64;
/// Number of events that wait to be taken, as many as a server keeps for later registrations; then the oldest
/// are dropped.
const EVENTS_MAX: usize = 512;
/// The machine has no deadlines.
const NOW: Instant = Instant::ZERO;
/// For one message. The longest one is what a process has posted, or the description of a job.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
const READ_BYTES: usize = 4096;
