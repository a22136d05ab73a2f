//! Published names that this server does not hold: those of a job on several nodes, which the server of the
//! head has, and those that the owner serves itself.
//!
//! A server hands requests of its ranks up to the owner, and answers them with what the server of the head
//! has answered.

use super::response::Response;
use super::services::{look_up, publish, unpublish};
use super::session_table::READY;
use super::{NO_JOB, Server, Session, Storage};
use crate::command::{Reason, Request, Text};
use crate::error::Misuse;
use crate::ids::{JobId, ProcId, SessionId, check_service};
use crate::limits::{SERVICE_BYTES, VALUE_BYTES};
use crate::storage::Slots;
use crate::store::{Keyspace, Kvs, Visibility};

/// A request about a published name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRequest<'a> {
    /// Publishes a name.
    Publish {
        /// The name.
        service: &'a [u8],
        /// Its port.
        port: &'a [u8],
    },
    /// Unpublishes a name.
    Unpublish {
        /// The name.
        service: &'a [u8],
    },
    /// Looks up a name.
    Lookup {
        /// The name.
        service: &'a [u8],
    },
}

/// Answer to a [`NameRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameAnswer<'a> {
    /// The name was published or unpublished.
    Done,
    /// The port of the name.
    Port(&'a [u8]),
    /// The name exists already.
    Exists,
    /// There is no such name.
    Unknown,
    /// There is no room for the name.
    NoRoom,
}

impl<S: Storage> Server<S> {
    /// Has the owner serve the published names of a job, as it has to for a job on several nodes
    /// ([`Event::NameRequested`](super::Event::NameRequested), and
    /// [`Event::HostRequest`](super::Event::HostRequest) of a PMIx client). Names that are published
    /// already stay where they are.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoSuch`] for an unknown job.
    pub fn hand_names_up(&mut self, job: JobId) -> Result<(), Misuse> {
        self.shared.job_mut(job).ok_or(NO_JOB)?.hand_names_up();
        Ok(())
    }

    /// Has the owner take part in what concerns clients of the run that are no ranks of this server, such as
    /// tools: names, as after [`hand_names_up`](Self::hand_names_up), events of PMIx clients, and new groups.
    /// Fences and connections of the job end here, since all its ranks are members.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoSuch`] for an unknown job.
    pub fn share_with_run(&mut self, job: JobId) -> Result<(), Misuse> {
        self.shared.job_mut(job).ok_or(NO_JOB)?.share_with_run();
        Ok(())
    }

    /// Borrows the request of a session about a published name, until [`answer_name`](Self::answer_name).
    pub fn name_request(&self, session: SessionId) -> Option<Request<'_>> {
        self.held_request(session).filter(|request| {
            matches!(
                request,
                Request::Publish { .. } | Request::Unpublish { .. } | Request::Lookup { .. }
            )
        })
    }

    /// At the head: executes a request of a process of another node. Lookups of PMIx clients that wait
    /// for the name are not answered here; `PmixServer::answer_lookups` answers those of the head's own.
    pub fn serve_name(&mut self, by: ProcId, request: NameRequest<'_>) -> NameAnswer<'_> {
        let names = &mut self.shared.names;
        let response = match request {
            NameRequest::Publish { service, port } => {
                publish(names, Text::plain(service), Text::plain(port), by)
            }
            NameRequest::Unpublish { service } => unpublish(names, Text::plain(service)),
            NameRequest::Lookup { service } => look_up(names, Text::plain(service)),
        };
        match response {
            Response::Done => NameAnswer::Done,
            Response::Port(id) => {
                names.entry(id).map_or(NameAnswer::Unknown, |entry| NameAnswer::Port(entry.value))
            }
            Response::Refused(Reason::Exists { .. }, _) => NameAnswer::Exists,
            Response::Refused(Reason::NoSuch { .. }, _) => NameAnswer::Unknown,
            _ => NameAnswer::NoRoom,
        }
    }

    /// The process that has published a name.
    pub fn name_owner(&self, service: &[u8]) -> Option<ProcId> {
        let names = &self.shared.names;
        match names.entry(names.find(Keyspace::Names, service)?)?.visibility {
            Visibility::Published(owner) => Some(owner),
            _ => None,
        }
    }

    /// Answers the request of a session about a published name.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoSuch`] if the session does not wait for this answer, or not any more.
    pub fn answer_name(
        &mut self,
        session: SessionId,
        exchange: usize,
        answer: NameAnswer<'_>,
    ) -> Result<(), Misuse> {
        let missing = Misuse::NoSuch { what: "request about a name" };
        let number = u32::try_from(exchange).map_err(|_| missing)?;
        let mut service = heapless::Vec::<u8, SERVICE_BYTES>::new();
        if let Some(Request::Lookup { service: asked }) = self.name_request(session) {
            // A longer name has no port.
            for byte in asked.bytes() {
                let _ = service.push(byte);
            }
        }
        let of = self.sessions.get_mut(session).ok_or(missing)?;
        let is_it = |waits: &Response| *waits == Response::Head(number);
        let mut pending = of.state.pending_requests();
        let (place, _) = pending.find(|(_, waits)| is_it(&waits.response)).ok_or(missing)?;
        drop(pending);
        let refused = |reason| Response::refused(reason);
        let by =
            ProcId { job: of.state.protocol.job, rank: of.state.protocol.rank.ok_or(missing)? };
        let response = match answer {
            NameAnswer::Done => Response::Done,
            NameAnswer::Port(port) => keep_port(&mut self.shared.names, &service, port, by),
            NameAnswer::Exists => refused(Reason::Exists { what: "service" }),
            NameAnswer::Unknown => refused(Reason::NoSuch { what: "service" }),
            NameAnswer::NoRoom => refused(Reason::NoRoom { what: "names" }),
        };
        if let Some(waits) = of.state.pending.get_mut(place) {
            waits.response = response;
        }
        Session::drop_held(of);
        self.sessions.push(READY, session);
        Ok(())
    }
}

/// Stores a port until it is sent, in place of what an earlier lookup has left.
fn keep_port<K: Kvs>(names: &mut K, service: &[u8], port: &[u8], by: ProcId) -> Response {
    if let Some(id) = names.find(Keyspace::Names, service) {
        // The answer to an earlier lookup may not be sent yet.
        if names.entry(id).is_some_and(|kept| kept.value == port) {
            return Response::Port(id);
        }
        names.remove(id);
    }
    let is_valid = check_service(service).is_ok() && port.len() <= VALUE_BYTES;
    let put =
        is_valid.then(|| names.put(Keyspace::Names, service, port, Visibility::Published(by)));
    match put {
        Some(Ok((id, _))) => Response::Port(id),
        _ => Response::refused(Reason::NoRoom { what: "names" }),
    }
}
