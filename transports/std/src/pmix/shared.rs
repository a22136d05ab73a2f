//! The calls of several threads.
//!
//! No thread is reserved for receiving. A thread that waits while no other does waits at the socket, and
//! stores what arrives for its thread; the others wait for a change.

use std::io;
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as Time, SystemTime};

use pmi_core::client::pmix::{
    Attribute, DataRealm, Datum, JobInfo, PmixRequest, PmixTicket, Scope, SpawnApp,
};
use pmi_core::error::Misuse;
use pmi_core::wire::pmix::names::Status;
use pmi_core::wire::pmix::{Format, Kvals, Proc, Value};

use super::calls::{Pmix, Within, get_request, whole_seconds};
use super::connection::{PmixConnection, ProcKey};
use super::error::CallError;
use super::reply::{Infos, PmixEvent, PmixGroup, PmixReply};
use super::services::service_calls;

/// A handle of a session that several threads use at once; each has its own, and up to 64 calls wait at the
/// same time.
///
/// # Errors
///
/// An error that ends the session is returned to every waiting thread, and by every later call.
#[derive(Clone, Debug)]
pub struct SharedPmix(Arc<SharedSession>);

#[derive(Debug)]
struct SharedSession {
    state: Mutex<SharedState>,
    /// A reply or an event was stored, or the session has ended.
    changed: Condvar,
    /// The socket, to wait at it without the lock.
    socket: TcpStream,
    nspace: Vec<u8>,
    rank: u32,
    size: u32,
}

#[derive(Debug)]
struct SharedState {
    connection: PmixConnection,
    /// True while a thread waits at the socket for all.
    is_polled: bool,
}

type Guard<'a> = MutexGuard<'a, SharedState>;

impl SharedPmix {
    /// Makes a session one of several threads.
    ///
    /// # Errors
    ///
    /// The error of the system if the socket cannot be shared.
    pub fn new(pmix: Pmix) -> io::Result<Self> {
        let (nspace, rank, size) = (pmix.nspace().to_vec(), pmix.rank(), pmix.size());
        let connection = pmix.into_connection();
        let socket = connection.try_clone_stream()?;
        let state = Mutex::new(SharedState { connection, is_polled: false });
        let changed = Condvar::new();
        Ok(Self(Arc::new(SharedSession { state, changed, socket, nspace, rank, size })))
    }

    /// The rank of this process.
    pub fn rank(&self) -> u32 {
        self.0.rank
    }

    /// Number of processes of the job.
    pub fn size(&self) -> u32 {
        self.0.size
    }

    /// The name of the job.
    pub fn nspace(&self) -> &[u8] {
        &self.0.nspace
    }

    /// Job-level information from the launcher, lent while no other thread can use the session.
    pub fn read_job_info<T>(&self, read: impl FnOnce(JobInfo<'_>) -> T) -> T {
        read(self.state().connection.client.job_info())
    }

    /// Stores a value under a key until it is committed, by any thread; the last of several counts. Nothing
    /// is sent.
    ///
    /// # Errors
    ///
    /// [`CallError::Misuse`], for example for a reserved key (`pmix…`).
    pub fn put(&self, scope: Scope, key: &[u8], value: Datum<'_>) -> Result<(), CallError> {
        Ok(self.state().connection.client.put(scope, key, value)?)
    }

    service_calls! { &Self }

    /// Reads a value that a process has committed, or that the launcher provides for it; `None` if there is
    /// none. `read` gets the value, while no other thread can use the session. Wire: GETNB.
    /// Spec: PMIx Standard, `PMIx_Get`.
    pub fn get<T>(
        &self,
        of: Proc<'_>,
        key: &[u8],
        within: Within,
        read: impl FnOnce(Value<'_>) -> T,
    ) -> Result<Option<T>, CallError> {
        let at = self.proc_key(of);
        let joined = self.state().connection.join_prefetch(&at, key, within);
        if let Some(ticket) = joined {
            // If the data does not have the key, the get requests it itself.
            drop(self.wait(self.state(), ticket)?);
        }
        if let Some(value) = self.state().connection.cached(&at, key) {
            return Ok(Some(read(value)));
        }
        let of = Proc { nspace: &at.0, rank: at.1 };
        let (state, ticket) = self.start(&get_request(of, key, within))?;
        // The value is read before another thread can begin a fence, which would forget it.
        let (state, reply) = self.wait(state, ticket)?;
        if reply.is_missing() {
            return Ok(None);
        }
        reply.done()?;
        Ok(state.connection.found(&at, key).or_else(|| state.connection.cached(&at, key)).map(read))
    }

    /// Requests all that a process has committed so far, and has `read` read it; see [`Pmix::get_all`].
    pub fn get_all<T>(
        &self,
        of: Proc<'_>,
        read: impl FnOnce(Kvals<'_>) -> T,
    ) -> Result<T, CallError> {
        let at = self.proc_key(of);
        let of = Proc { nspace: &at.0, rank: at.1 };
        let get = PmixRequest::Get { of, key: None, immediate: true, timeout_s: None };
        let (state, ticket) = self.start(&get)?;
        let (state, reply) = self.wait(state, ticket)?;
        if reply.is_missing() {
            return Ok(read(Kvals::new(b"", state.connection.format())));
        }
        reply.done()?;
        Ok(read(state.connection.received(&at)))
    }

    /// Requests the data of processes ahead; see [`Pmix::prefetch`]. What arrives is stored while any thread
    /// waits.
    pub fn prefetch(&self, of: Proc<'_>, realm: DataRealm) -> Result<(), CallError> {
        self.state().connection.prefetch(&self.proc_key(of), realm)
    }

    /// The next event that this process has registered for, waiting for it at most as long as `timeout`, or
    /// without a limit. Of several waiting threads one receives it.
    ///
    /// # Errors
    ///
    /// [`Misuse::WrongState`] once another thread has ended the session and no event is left.
    pub fn next_event(&self, timeout: Option<Duration>) -> Result<Option<PmixEvent>, CallError> {
        let deadline = timeout.and_then(|timeout| Time::now().checked_add(timeout));
        let mut state = self.state();
        loop {
            if let Some(event) = state.connection.take_event() {
                return Ok(Some(event));
            }
            state.connection.check_open()?;
            if deadline.is_some_and(|deadline| deadline <= Time::now()) {
                return Ok(None);
            }
            state = self.progress(state, deadline)?;
        }
    }

    /// Finalizes the session and waits for the reply; no other call may be waiting. Wire: FINALIZE.
    /// Spec: PMIx Standard, `PMIx_Finalize`.
    ///
    /// # Errors
    ///
    /// [`Misuse::Busy`] while one is.
    pub fn finalize(&self) -> Result<(), CallError> {
        let mut state = self.state();
        while state.connection.prefetches.end() {
            state = self.progress(state, None)?;
        }
        drop(state);
        self.call(&PmixRequest::Finalize)?.done()
    }

    /// Terminates the whole job with an exit code and a message. Wire: ABORT.
    /// Spec: PMIx Standard, `PMIx_Abort`.
    pub fn abort(&self, code: i32, message: &str) -> Result<(), CallError> {
        self.call(&PmixRequest::Abort { code, message: message.as_bytes() })?.done()
    }

    fn format(&self) -> Format {
        self.state().connection.format()
    }

    fn proc_key(&self, of: Proc<'_>) -> ProcKey {
        (if of.nspace == self.nspace() { b"" } else { of.nspace }.to_vec(), of.rank)
    }

    fn call(&self, request: &PmixRequest<'_>) -> Result<PmixReply, CallError> {
        let (state, ticket) = self.start(request)?;
        self.wait(state, ticket).map(|(_, reply)| reply)
    }

    /// Sends one request that has no reply.
    fn send(&self, request: &PmixRequest<'_>) -> Result<(), CallError> {
        let (mut state, _) = self.start(request)?;
        while state.connection.is_sending() {
            state.connection.check_open()?;
            state = self.progress(state, None)?;
        }
        Ok(())
    }

    /// Starts a request as soon as it can be in flight.
    fn start(&self, request: &PmixRequest<'_>) -> Result<(Guard<'_>, PmixTicket), CallError> {
        let mut state = self.state();
        loop {
            match state.connection.start(request) {
                Err(CallError::Misuse(Misuse::Busy)) if *request != PmixRequest::Finalize => {
                    state = self.progress(state, None)?;
                }
                started => return started.map(|ticket| (state, ticket)),
            }
        }
    }

    /// Waits for the reply to a request.
    fn wait<'a>(
        &'a self,
        mut state: Guard<'a>,
        ticket: PmixTicket,
    ) -> Result<(Guard<'a>, PmixReply), CallError> {
        loop {
            if let Some(reply) = state.connection.take(ticket)? {
                return Ok((state, reply));
            }
            state = self.progress(state, None)?;
        }
    }

    /// Waits until something has changed, or until the deadline.
    ///
    /// Only the thread that waits at the socket for all receives: a reply that another one received would
    /// leave it asleep.
    fn progress<'a>(
        &'a self,
        mut state: Guard<'a>,
        deadline: Option<Time>,
    ) -> Result<Guard<'a>, CallError> {
        let is_sending = state.connection.is_sending();
        let is_leader = !state.is_polled;
        if !is_leader && !is_sending {
            return Ok(match deadline {
                None => self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Time::now());
                    let waited = self.0.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            });
        }
        state.is_polled = true;
        drop(state);
        let ready = if is_leader {
            PmixConnection::wait_ready(&self.0.socket, is_sending, deadline)
        } else {
            // The thread at the socket may have begun before there was something to send. It may leave, too,
            // and a server that cannot send may not receive.
            let soon = Time::now().checked_add(TAKEOVER_TIME);
            let until = [soon, deadline].into_iter().flatten().min();
            PmixConnection::wait_writable(&self.0.socket, until)
        };
        let mut state = self.state();
        if is_leader {
            state.is_polled = false;
        }
        let done = ready.map_err(CallError::from).and_then(|_| match is_leader {
            true => state.connection.turn(),
            false => state.connection.flush(),
        });
        self.0.changed.notify_all();
        done.map(|()| state)
    }

    /// A thread that has panicked has left nothing half done: the machine takes whole steps.
    fn state(&self) -> Guard<'_> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Time after which a thread that sends checks whether it has to receive as well.
const TAKEOVER_TIME: Duration = Duration::from_millis(10);
