//! A server of a C caller: each call borrows it, and none holds it while a callback runs.

use std::ffi::{CString, c_int};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pmi_core::error::{Code, Misuse};
use pmi_std::server::{
    NameAnswer, NameServiceRequest, PmiServer, ServerError, ServerEvent, SpawnRequest,
};

use super::spawn::SpawnTexts;
use super::{Callbacks, Context, name};
use crate::code::CodeResult;

/// `pmi_server`.
#[derive(Debug)]
pub struct ServerHandle {
    server: Mutex<PmiServer>,
    callbacks: Callbacks,
    context: Context,
    /// True while events are delivered, in which a callback may run.
    is_delivering: AtomicBool,
    last_error: Mutex<String>,
    /// A copy of the descriptor of the server, for waits that do not hold it.
    descriptor: OwnedFd,
}

impl ServerHandle {
    pub(super) fn new(callbacks: Callbacks, context: Context) -> io::Result<Self> {
        let mut server = PmiServer::new()?;
        if callbacks.name.is_some() {
            server.serve_names_by_owner();
        }
        let descriptor = server.as_fd().try_clone_to_owned()?;
        let (server, last_error) = (Mutex::new(server), Mutex::default());
        let is_delivering = AtomicBool::new(false);
        Ok(Self { server, callbacks, context, is_delivering, last_error, descriptor })
    }

    pub(super) const fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }

    pub(super) fn connected(&self) -> usize {
        lock(&self.server).connected()
    }

    pub(super) fn last_error(&self) -> String {
        lock(&self.last_error).clone()
    }

    /// Makes a change and delivers the events that follow from it; in a callback, the call that has made the
    /// callback delivers them.
    ///
    /// # Errors
    ///
    /// The code of the error, whose text is kept.
    pub(super) fn change<T>(
        &self,
        change: impl FnOnce(&mut PmiServer) -> Result<T, ServerError>,
    ) -> CodeResult<T> {
        let changed = change(&mut lock(&self.server));
        if let Err(error) = &changed {
            *lock(&self.last_error) = error.to_string();
        }
        self.deliver();
        changed.map_err(|error| match error {
            ServerError::Misuse(Misuse::NoRoom { .. }) => Code::NOMEM,
            ServerError::Misuse(_) => Code::INVALID_ARG,
            _ => Code::FAIL,
        })
    }

    /// # Errors
    ///
    /// `FAIL` in a callback.
    pub(super) fn check_outside_callbacks(&self) -> CodeResult<()> {
        if !self.is_delivering.load(Ordering::Acquire) {
            return Ok(());
        }
        *lock(&self.last_error) = "a callback must not make this call".to_owned();
        Err(Code::FAIL)
    }

    /// Passes all events to the callbacks, those included that follow from calls of callbacks.
    fn deliver(&self) {
        if self.is_delivering.swap(true, Ordering::AcqRel) {
            return;
        }
        let _end = Delivery(&self.is_delivering);
        loop {
            // The server is free again before a callback runs.
            let event = lock(&self.server).poll_event();
            let Some(event) = event else { return };
            self.call_back(event);
        }
    }

    fn call_back(&self, event: ServerEvent) {
        let context = self.context;
        match event {
            ServerEvent::SpawnRequested(request) => self.request_spawn(&request),
            ServerEvent::NameRequested(request) => self.request_name(&request),
            ServerEvent::Aborted { job, rank, code, is_whole_job, message } => {
                let Some(call) = self.callbacks.abort else { return };
                // A string of C ends at the first NUL.
                let message = message.split(|byte| *byte == 0).next().unwrap_or_default();
                let message = CString::new(message).unwrap_or_default();
                let (code, whole) = (code.unwrap_or(1), c_int::from(is_whole_job));
                call(self, context, job.0, number(rank), code, whole, message.as_ptr());
            }
            ServerEvent::Disconnected { job, rank, is_finalized } => {
                let Some(call) = self.callbacks.disconnected else { return };
                call(self, context, job.0, number(rank), c_int::from(is_finalized));
            }
            ServerEvent::FenceStuck { job, gone } => {
                let Some(call) = self.callbacks.fence_stuck else { return };
                call(self, context, job.0, number(gone));
            }
            _ => {}
        }
    }

    /// A name that C cannot express is one that its owner does not have.
    fn request_name(&self, request: &NameServiceRequest) {
        let call = self.callbacks.name;
        let is_lent =
            call.is_some_and(|call| name::lend(request, |name| call(self, self.context, name)));
        if !is_lent {
            // The rank that has requested it may be gone.
            drop(lock(&self.server).answer_name(request.id, NameAnswer::Unknown));
        }
    }

    /// A request that the owner cannot execute is refused.
    fn request_spawn(&self, request: &SpawnRequest) {
        let texts = SpawnTexts::new(request);
        match (self.callbacks.spawn, texts) {
            (Some(call), Some(texts)) => {
                texts.lend(request, |spawn| call(self, self.context, spawn));
            }
            // The rank that has requested it may be gone.
            _ => drop(lock(&self.server).answer_spawn(request.id, Err(Code::FAIL.0))),
        }
    }
}

/// The end of a delivery, after a panic as well.
struct Delivery<'a>(&'a AtomicBool);

impl Drop for Delivery<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A panic under the lock leaves a server that takes further calls, as [`boundary`](crate::boundary) says.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A rank as C has it: ranks are counted by an `int`.
pub(super) fn number(rank: u32) -> c_int {
    c_int::try_from(rank).unwrap_or(c_int::MAX)
}
