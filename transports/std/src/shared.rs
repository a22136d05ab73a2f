//! The calls of a client that several threads use at once.
//!
//! PMI-2 allows several requests in flight, so that a thread that waits for a spawn or for a missing
//! value does not delay the others. In PMI-1 the same calls take turns, since its servers answer one
//! request at a time.
//!
//! ```no_run
//! # use pmi_std::{SharedPmi, connect_shared};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let member = connect_shared()?.expect("a launcher");
//! let waits = std::thread::spawn({
//!     let pmi: SharedPmi = member.pmi.clone();
//!     move || pmi.get_node(b"leader", true)
//! });
//! member.pmi.put_node(b"leader", b"10.0.0.1")?;
//! assert_eq!(waits.join().expect("no panic")?.as_deref(), Some(&b"10.0.0.1"[..]));
//! # Ok(())
//! # }
//! ```

mod connection;
mod owned_reply;

use std::io;
use std::sync::Arc;

use pmi_core::auth::METHOD;
use pmi_core::command::{
    Answer, FenceGroup, Identity, Maxes, Pair, Place, Reply, Request, Spawn, Text, Verb, Version,
};
use pmi_core::error::{Code, Misuse, PeerError};
use pmi_core::ids::KvsName;
use pmi_link::blocking::Opening;
use pmi_link::{CallError, SpawnError};

use self::connection::SharedConnection;
use self::owned_reply::{HandshakeStep, OwnedReply};
use crate::connect::{Handshake, Opened};
use crate::stream::Stream;

/// A handle of a session; each thread has its own, and all calls may run at once.
///
/// The calls and their messages are those of [`pmi_link::task::AsyncPmi`]; returned values are
/// owned.
///
/// # Errors
///
/// An error that ends the session is returned to every waiting thread, and by every later call.
#[derive(Clone, Debug)]
pub struct SharedPmi(Arc<SharedConnection>);

/// Values of the neighbours in a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbours {
    /// The place of this rank, from 0.
    pub place: u32,
    /// The value that the rank before gave to its right.
    pub left: Vec<u8>,
    /// The value that the rank after gave to its left.
    pub right: Vec<u8>,
}

/// The job that a spawn has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spawned {
    /// Its id; some servers do not report it.
    pub job: Option<Vec<u8>>,
    /// One code for each process; none at all means success for all.
    pub codes: Vec<Code>,
}

type CallResult<T> = Result<T, CallError<io::Error>>;

impl SharedPmi {
    /// Takes a connected stream; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// The error of the system if the stream cannot be shared.
    pub fn new(stream: Stream) -> io::Result<Self> {
        Ok(Self(Arc::new(SharedConnection::new(stream)?)))
    }

    /// Sends the process id of a connection; see [`greet`](pmi_link::task::AsyncPmi::greet).
    pub fn greet(&self, id: u64) -> CallResult<Identity<'static>> {
        self.call(&Request::InitAck { id })?.done()?;
        self.identity().ok_or(CallError::Peer(PeerError::LeftEarly))
    }

    /// Opens the session; see [`open`](pmi_link::task::AsyncPmi::open). Returns the negotiated
    /// version, and the id of the job that has spawned this one.
    pub fn open(&self, opening: &Opening<'_>) -> CallResult<(Version, Option<Vec<u8>>)> {
        self.call(&Request::Init { version: opening.version })?.done()?;
        let version = self.version().unwrap_or(opening.version);
        let spawner = if version.major == 2 { self.join(opening)? } else { None };
        Ok((version, spawner))
    }

    /// The negotiated version.
    pub fn version(&self) -> Option<Version> {
        self.0.state().client.version()
    }

    /// The identity that the server has assigned: in PMI-2, or over TCP.
    pub fn identity(&self) -> Option<Identity<'static>> {
        self.0.state().client.identity()
    }

    /// Requests the longest name, key and value; see [`maxes`](pmi_link::task::AsyncPmi::maxes).
    pub fn maxes(&self) -> CallResult<Maxes> {
        if self.has_frames() {
            return Ok(self.0.state().client.maxes());
        }
        self.call(&Request::Maxes)?.maxes()
    }

    /// Requests the application number; see [`appnum`](pmi_link::task::AsyncPmi::appnum).
    pub fn appnum(&self) -> CallResult<Option<u32>> {
        if self.has_frames() {
            return Ok(self.identity().and_then(|who| u32::try_from(who.appnum).ok()));
        }
        self.call(&Request::AppNum)?.number()
    }

    /// Requests the upper bound of processes; see
    /// [`universe_size`](pmi_link::task::AsyncPmi::universe_size).
    pub fn universe_size(&self) -> CallResult<Option<u32>> {
        if !self.has_frames() {
            return self.call(&Request::UniverseSize)?.number();
        }
        let numbers = self.job_numbers(b"universeSize")?;
        Ok(numbers.and_then(|numbers| u32::try_from(*numbers.first()?).ok()))
    }

    /// The id of the job and the name of its space; asked for once, before the first
    /// [`put`](Self::put) and [`get`](Self::get).
    pub fn job_id(&self) -> CallResult<KvsName> {
        let known = self.0.state().client.kvsname().cloned();
        if let Some(name) = known {
            return Ok(name);
        }
        self.call(&Request::KvsName)?.done()?;
        let learnt = self.0.state().client.kvsname().cloned();
        learnt.ok_or(CallError::Peer(PeerError::LeftEarly))
    }

    /// Stores a value; see [`put`](pmi_link::task::AsyncPmi::put).
    pub fn put(&self, key: &[u8], value: &[u8]) -> CallResult<()> {
        let (key, value) = (Text::plain(key), Text::plain(value));
        self.call(&Request::Put { place: Place::Job(None), key, value })?.done()
    }

    /// Reads a value; see [`get`](pmi_link::task::AsyncPmi::get).
    pub fn get(&self, key: &[u8]) -> CallResult<Option<Vec<u8>>> {
        self.call(&read(Place::Job(None), key, false))?.value()
    }

    /// Reads from the space of another job; see [`get_from`](pmi_link::task::AsyncPmi::get_from).
    pub fn get_from(&self, job: &[u8], key: &[u8]) -> CallResult<Option<Vec<u8>>> {
        self.call(&read(Place::Job(Some(Text::plain(job))), key, false))?.value()
    }

    /// Waits for every rank of the job; see [`fence`](pmi_link::task::AsyncPmi::fence).
    pub fn fence(&self) -> CallResult<()> {
        self.call(&Request::Fence { group: FenceGroup::World, tag: None })?.done()
    }

    /// Waits for every rank of a group; see [`fence_group`](pmi_link::task::AsyncPmi::fence_group).
    pub fn fence_group(&self, group: FenceGroup<'_>, tag: u32) -> CallResult<()> {
        self.call(&Request::Fence { group, tag: Some(tag) })?.done()
    }

    /// Stores an attribute of this node; see [`put_node`](pmi_link::task::AsyncPmi::put_node).
    pub fn put_node(&self, key: &[u8], value: &[u8]) -> CallResult<()> {
        let (key, value) = (Text::plain(key), Text::plain(value));
        self.call(&Request::Put { place: Place::Node, key, value })?.done()
    }

    /// Reads an attribute of this node; see [`get_node`](pmi_link::task::AsyncPmi::get_node).
    pub fn get_node(&self, key: &[u8], wait: bool) -> CallResult<Option<Vec<u8>>> {
        self.call(&read(Place::Node, key, wait))?.value()
    }

    /// Reads an attribute of this node that is numbers; see
    /// [`node_numbers`](pmi_link::task::AsyncPmi::node_numbers).
    pub fn node_numbers(&self, key: &[u8], wait: bool) -> CallResult<Option<Vec<i32>>> {
        self.call(&read(Place::Node, key, wait))?.numbers()
    }

    /// Reads an attribute of the job; see [`job_attribute`](pmi_link::task::AsyncPmi::job_attribute).
    pub fn job_attribute(&self, key: &[u8]) -> CallResult<Option<Vec<u8>>> {
        self.call(&read(self.attributes(), key, false))?.value()
    }

    /// Reads an attribute of the job that is numbers; see
    /// [`job_numbers`](pmi_link::task::AsyncPmi::job_numbers).
    pub fn job_numbers(&self, key: &[u8]) -> CallResult<Option<Vec<i32>>> {
        self.call(&read(self.attributes(), key, false))?.numbers()
    }

    /// Publishes a port; see [`publish`](pmi_link::task::AsyncPmi::publish).
    pub fn publish(&self, service: &[u8], port: &[u8]) -> CallResult<()> {
        let (service, port) = (Text::plain(service), Text::plain(port));
        self.call(&Request::Publish { service, port })?.done()
    }

    /// Reads the port of a service; see [`lookup`](pmi_link::task::AsyncPmi::lookup).
    pub fn lookup(&self, service: &[u8]) -> CallResult<Option<Vec<u8>>> {
        self.call(&Request::Lookup { service: Text::plain(service) })?.value()
    }

    /// Unpublishes a name; see [`unpublish`](pmi_link::task::AsyncPmi::unpublish).
    pub fn unpublish(&self, service: &[u8]) -> CallResult<()> {
        self.call(&Request::Unpublish { service: Text::plain(service) })?.done()
    }

    /// Asks for new processes and waits until they run; see [`spawn`](pmi_link::task::AsyncPmi::spawn).
    /// In PMI-2 no other thread waits with this one.
    ///
    /// # Errors
    ///
    /// [`SpawnError::Refused`] with the codes of the processes.
    pub fn spawn(&self, spawn: Spawn<'_>) -> Result<Spawned, SpawnError<Vec<Code>, io::Error>> {
        let ticket = self.0.send(&Request::Spawn(spawn))?;
        self.0.recv(ticket)?.spawned()
    }

    /// Connects this job with another; see [`connect_job`](pmi_link::task::AsyncPmi::connect_job).
    pub fn connect_job(&self, job: &[u8]) -> CallResult<()> {
        self.call(&Request::Connect { job: Text::plain(job) })?.done()
    }

    /// Disconnects this job from another; see [`disconnect_job`](pmi_link::task::AsyncPmi::disconnect_job).
    pub fn disconnect_job(&self, job: &[u8]) -> CallResult<()> {
        self.call(&Request::Disconnect { job: Text::plain(job) })?.done()
    }

    /// Exchanges a value with both neighbours; see [`ring`](pmi_link::task::AsyncPmi::ring).
    pub fn ring(&self, left: &[u8], right: &[u8]) -> CallResult<Neighbours> {
        self.call(&Request::Ring { left: Text::plain(left), right: Text::plain(right) })?.ring()
    }

    /// Reads the whole space of a job; see [`get_all`](pmi_link::task::AsyncPmi::get_all).
    pub fn get_all(&self, job: &[u8]) -> CallResult<Vec<(Vec<u8>, Vec<u8>)>> {
        let ticket = self.0.send(&Request::GetAll { job: Text::plain(job) })?;
        let mut pairs = Vec::new();
        loop {
            let replies = self.0.recv(ticket)?;
            if !replies.has_more() {
                return replies.done().map(|()| pairs);
            }
            pairs.extend(replies.pair());
        }
    }

    /// Copies pairs into the space of a job; see [`put_all`](pmi_link::task::AsyncPmi::put_all).
    pub fn put_all(&self, job: &[u8], pairs: &[Pair<'_>]) -> CallResult<()> {
        // All announced pairs must follow, so all are checked first.
        for pair in pairs {
            self.0.state().client.message_bytes(&put_pair(*pair))?;
        }
        let count = u32::try_from(pairs.len()).unwrap_or(u32::MAX);
        let ticket = self.0.send(&Request::PutAll { job: Text::plain(job), pairs: count })?;
        for pair in pairs {
            match self.0.send(&put_pair(*pair)) {
                // The server has refused meanwhile; its reply has the reason.
                Err(CallError::Misuse(Misuse::WrongState { .. })) => break,
                pair => drop(pair?),
            }
        }
        self.0.recv(ticket)?.done()
    }

    /// Ends the whole job; see [`abort`](pmi_link::task::AsyncPmi::abort). Every other call fails.
    pub fn abort(&self, code: i32, message: &[u8]) -> CallResult<()> {
        let message = Text::plain(message);
        self.0.send_abort(&Request::Abort { code: Some(code), world: true, message })
    }

    /// Finalizes the session, once every other call has ended; see
    /// [`finalize`](pmi_link::task::AsyncPmi::finalize).
    pub fn finalize(&self) -> CallResult<()> {
        self.call(&Request::Finalize)?.done()
    }

    fn call(&self, request: &Request<'_>) -> CallResult<OwnedReply> {
        let ticket = self.0.send(request)?;
        self.0.recv(ticket)
    }

    fn join(&self, opening: &Opening<'_>) -> CallResult<Option<Vec<u8>>> {
        let Opening { rank, job, prover, .. } = *opening;
        let (job, method) = (job.map(Text::plain), prover.map(|_| Text::plain(METHOD)));
        let request = Request::FullInit { rank, job, threaded: true, method };
        let nonce = match self.call(&request)?.opening()? {
            HandshakeStep::By(spawner) => return Ok(spawner),
            HandshakeStep::Challenged(nonce) => nonce,
        };
        let answer = Answer::Challenge(Text::plain(&nonce));
        let reply = Reply { to: Verb::FullInit, tag: b"", code: Code::SUCCESS, answer };
        let proof = prover.and_then(|prove| prove(&reply));
        let proof = proof.ok_or(CallError::Peer(PeerError::Unproven))?;
        match self.call(&Request::Proof { digits: Text::plain(proof.as_bytes()) })?.opening()? {
            HandshakeStep::By(spawner) => Ok(spawner),
            HandshakeStep::Challenged(_) => {
                Err(CallError::Misuse(Misuse::WrongState { needed: "one challenge" }))
            }
        }
    }

    fn has_frames(&self) -> bool {
        self.version().is_some_and(|version| version.major == 2)
    }

    /// In PMI-1 a manager stores its attributes in the key-value space of the job.
    fn attributes(&self) -> Place<'static> {
        if self.has_frames() { Place::Attributes } else { Place::Job(None) }
    }
}

impl Handshake for SharedPmi {
    fn greet(&mut self, id: u64) -> CallResult<Identity<'static>> {
        Self::greet(self, id)
    }

    fn open(&mut self, opening: &Opening<'_>) -> CallResult<Opened> {
        Self::open(self, opening)?;
        let state = self.0.state();
        Ok(Opened { identity: state.client.identity(), is_spawned: state.client.is_spawned() })
    }

    fn fetch_limits(&mut self) -> CallResult<()> {
        self.maxes()?;
        self.job_id().map(drop)
    }
}

const fn read<'a>(place: Place<'a>, key: &'a [u8], wait: bool) -> Request<'a> {
    Request::Get { place, key: Text::plain(key), wait }
}

const fn put_pair(Pair { key, value }: Pair<'_>) -> Request<'_> {
    Request::PutPair { key, value }
}
