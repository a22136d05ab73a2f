//! Connections of PMIx clients, and their events for the rest of the launcher.

use super::credential::Credentials;
use super::facts;
use super::heap::PmixHeap;
use crate::admission::pending::Pending;
use crate::admission::{EVICTED, Socket};
use crate::launch::plan::Plan;
use crate::poller::{Poller, Token};
use crate::server::connections::Connections;
use crate::server::event::{ServerEvent, nonsense, printable};
use crate::server::flush::{Connection, Occasion, Served, Traffic};
use crate::server::service::Service;
use crate::trace::TraceSource;
use crate::verdict::Failure;
use pmi_core::error::PeerError;
use pmi_core::ids::{JobId, ProcId, Rank};
use pmi_core::server::pmix::{
    ConnectionId, Pmix, PmixEvent, PmixTables, RankData, UnfinishedLimits,
};
use pmi_core::time::Duration;
use pmi_core::wire::pmix::names::Status;
use pmi_host_base::storage::Slab;
use pmi_std::{BoundedBuf, Stream};
use pmi_trace::Content;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

/// The PMIx part of a [`Service`]. It is empty, and costs nothing, until a client connects.
#[derive(Debug)]
pub(crate) struct PmixService {
    pub(in crate::server) server: Pmix<PmixHeap>,
    /// By connection number.
    connections: Connections,
    /// Number of open connections.
    links: usize,
    /// Events that were left when their connection was closed.
    events: VecDeque<PmixEvent>,
    pub(super) credentials: Credentials,
    /// Unauthenticated connections, with the sockets at their other ends.
    pending: Pending<ConnectionId, Socket>,
    /// Buffer for the connection that is being served. PMIx replies are long.
    scratch: Box<[u8]>,
}

impl PmixService {
    /// Creates the PMIx part without connections.
    pub(crate) fn new() -> Self {
        let tables = PmixTables {
            connections: Slab::new(CONNECTIONS_MAX),
            jobs: Slab::new(JOBS_MAX),
            collectives: Slab::new(COLLECTIVES_MAX),
            names: Slab::new(NAMES_MAX),
            events: Slab::new(EVENTS_MAX),
            groups: Slab::new(GROUPS_MAX),
        };
        let mut server = Pmix::new(tables);
        let (rank_bytes, all_bytes) = (INBOX_MAX, UNFINISHED_MAX);
        server.limit_unfinished(UnfinishedLimits { rank_bytes, all_bytes });
        Self {
            server,
            connections: Connections::default(),
            links: 0,
            events: VecDeque::new(),
            credentials: Credentials::default(),
            pending: Pending::default(),
            scratch: Box::default(),
        }
    }
}

impl Service {
    /// Admits PMIx clients to the job of `plan`.
    ///
    /// # Errors
    ///
    /// The tables or the memory are exhausted.
    pub(crate) fn add_pmix_job(&mut self, job: JobId, plan: &Plan) -> io::Result<()> {
        let info =
            facts::describe(plan, None, std::process::id()).ok_or(io::ErrorKind::OutOfMemory)?;
        let posts = plan.served().iter().map(|rank| RankData::of(Rank(rank))).collect();
        self.pmix.server.add_job(job, info, posts).map_err(io::Error::other)
    }

    /// Adds an unauthenticated connection, with the socket at its other end. If more than `most` are
    /// unauthenticated, the one that has waited longest is closed: ranks identify themselves at once.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub(crate) fn add_pmix_peer(
        &mut self,
        (link, from): (Stream, SocketAddr),
        socket: Socket,
        most: usize,
        poller: &Poller,
    ) -> io::Result<()> {
        while let Some(surplus) = self.pmix.pending.surplus(most.max(1)) {
            let refused = self.refused(surplus, EVICTED.to_owned());
            self.launcher_events.extend(refused);
            self.close_pmix(surplus);
        }
        let pmix = &mut self.pmix;
        if pmix.scratch.is_empty() {
            pmix.scratch = vec![0; SCRATCH].into();
        }
        let deadline = self.clock.now().plus(IDENTIFY_WITHIN);
        let opened =
            pmix.server.open(BoundedBuf::new(INBOX_MAX), Slab::new(PENDINGS_MAX), Some(deadline));
        // A connection beyond the maximum is closed.
        let Ok(id) = opened else { return Ok(()) };
        let token = Token::Pmix(id.0);
        let connection = Connection::carrying(SCRATCH / 2, (link, Some(from)), token, poller)?;
        pmix.connections.insert(id.0, connection);
        pmix.links += 1;
        pmix.pending.insert(id, from.ip(), socket);
        let from = Some(from.to_string());
        self.tracer.event(subject(&pmix.server, id), Content::Connected { from });
        Ok(())
    }

    /// Serves the PMIx connection with this number, whose socket is readable or writable.
    ///
    /// # Errors
    ///
    /// Errors of the system's readiness calls; errors of the peer become events.
    pub(crate) fn pmix_ready(&mut self, connection: u32, poller: &Poller) -> io::Result<()> {
        self.serve_pmix(ConnectionId(connection), poller, Occasion::Ready)
    }

    /// Serves every PMIx client that has a response due. True if there was any.
    ///
    /// # Errors
    ///
    /// As for [`pmix_ready`](Self::pmix_ready).
    pub(in crate::server) fn flush_pmix(&mut self, poller: &Poller) -> io::Result<bool> {
        let mut any = false;
        while let Some(id) = self.server.pmix(&mut self.pmix.server).next_ready() {
            any = true;
            self.serve_pmix(id, poller, Occasion::Due)?;
        }
        Ok(any)
    }

    /// Reads everything that a rank sent before it exited.
    ///
    /// # Errors
    ///
    /// As for [`pmix_ready`](Self::pmix_ready).
    pub(in crate::server) fn drain_pmix(
        &mut self,
        job: JobId,
        rank: u32,
        poller: &Poller,
    ) -> io::Result<()> {
        for id in self.pmix_connections(job, rank) {
            self.serve_pmix(id, poller, Occasion::Ended)?;
        }
        Ok(())
    }

    /// Admits a connection as the rank it claims to be.
    pub(crate) fn admit_pmix(&mut self, connection: ConnectionId) {
        self.pmix.pending.remove(connection);
        // The connection may be closed meanwhile.
        let _ = self.server.pmix(&mut self.pmix.server).admit(connection);
    }

    /// Rejects a connection.
    pub(crate) fn refuse_pmix(&mut self, connection: ConnectionId, status: Status) {
        self.pmix.server.refuse(connection, status);
    }

    /// Address of an unauthenticated connection, and the socket at its other end.
    pub(crate) fn pmix_caller(&self, connection: ConnectionId) -> Option<(SocketAddr, Socket)> {
        let from = self.pmix.connections.get(connection.0)?.from?;
        Some((from, *self.pmix.pending.get(connection)?))
    }

    /// Number of connections of a rank.
    pub(crate) fn pmix_count(&self, job: JobId, rank: u32) -> usize {
        self.pmix_connections(job, rank).len()
    }

    /// Number of connections, of ranks and unauthenticated.
    pub(crate) fn pmix_links(&self) -> usize {
        self.pmix.links
    }

    /// Closes the remaining connections of a rank that is gone, and fails requests that wait for it.
    pub(in crate::server) fn set_pmix_gone(&mut self, job: JobId, rank: u32) {
        for id in self.pmix_connections(job, rank) {
            self.close_pmix(id);
        }
        self.server.pmix(&mut self.pmix.server).member_gone(job, Rank(rank));
    }

    /// The next event for the rest of the launcher.
    pub(in crate::server) fn poll_pmix_event(&mut self) -> Option<ServerEvent> {
        let event = self.pmix.events.pop_front().or_else(|| self.pmix.server.poll_event())?;
        Some(match event {
            PmixEvent::AdmissionRequested { connection, job, rank, user } => {
                ServerEvent::PmixDialled { connection, job, rank: rank.0, user }
            }
            PmixEvent::Aborted { job, rank, code, message } => {
                let message = printable(message.as_bytes());
                ServerEvent::Failed { job, failure: Failure::Abort { rank: rank.0, code, message } }
            }
            PmixEvent::AdmissionInvalid { connection, status, why } => {
                let refused = self.refused(connection, nonsense(why, b""));
                self.refuse_pmix(connection, status);
                return refused.or_else(|| self.poll_pmix_event());
            }
            PmixEvent::HeartbeatLost { job, rank, code, after } => {
                ServerEvent::PmixSilent { job, rank: rank.0, code, after }
            }
            PmixEvent::HostRequest { connection, pending } => {
                ServerEvent::PmixHostRequest { connection, pending }
            }
            _ => return None,
        })
    }

    fn serve_pmix(
        &mut self,
        id: ConnectionId,
        poller: &Poller,
        occasion: Occasion,
    ) -> io::Result<()> {
        let now = self.clock.now();
        let pmix = &mut self.pmix;
        let Some(connection) = pmix.connections.get_mut(id.0) else { return Ok(()) };
        let subject = subject(&pmix.server, id);
        let Some(machine) = self.server.pmix(&mut pmix.server).connection(id) else {
            return Ok(());
        };
        let mut machine = self.tracer.tap(machine, subject);
        let wire = (Token::Pmix(id.0), poller);
        let served = connection.serve(&mut machine, now, &mut pmix.scratch, occasion, wire)?;
        let peer = pmix.server.peer(id);
        match (served, peer) {
            (Served::Waiting, _) => return Ok(()),
            (Served::Broken(error, _), Some(ProcId { job, rank: Rank(rank) })) => {
                let failure = Failure::Nonsense { rank, why: nonsense(error, b"") };
                self.launcher_events.push_back(ServerEvent::Failed { job, failure });
            }
            // A connection that the launcher rejected was reported already.
            (Served::Broken(PeerError::Unproven, _), None) => {}
            (Served::Broken(error, _), None) => {
                let refused = self.refused(id, nonsense(error, b""));
                self.launcher_events.extend(refused);
            }
            (_, Some(ProcId { job, rank: Rank(rank) }))
                if self.server.pmix_ref(&pmix.server).has_left_early(job, Rank(rank)) =>
            {
                self.launcher_events.push_back(ServerEvent::Closed { job, rank });
            }
            _ => {}
        }
        self.close_pmix(id);
        Ok(())
    }

    /// Event that reports the rejection of an unauthenticated connection.
    fn refused(&self, id: ConnectionId, why: String) -> Option<ServerEvent> {
        let (from, socket) = self.pmix_caller(id)?;
        Some(ServerEvent::PmixRefused { from, socket, why })
    }

    fn close_pmix(&mut self, id: ConnectionId) {
        self.pmix.pending.remove(id);
        if let Some(connection) = self.pmix.connections.remove(id.0) {
            self.pmix.links -= 1;
            self.tracer.event(subject(&self.pmix.server, id), Content::Closed);
            let peer = self.pmix.server.peer(id);
            if let Some(rank_conn) = peer.and_then(|of| self.rank_conns.get_mut(of.job, of.rank.0))
            {
                rank_conn.last_traffic.add(connection.traffic);
            }
        }
        self.pmix.events.extend(self.server.pmix(&mut self.pmix.server).close(id));
    }

    /// Traffic of each open connection of a rank.
    pub(in crate::server) fn pmix_traffic(
        &self,
        job: JobId,
        rank: u32,
    ) -> impl Iterator<Item = Traffic> {
        let open = self.pmix_connections(job, rank).into_iter();
        let open = open.filter_map(|id| self.pmix.connections.get(id.0));
        open.map(|connection| connection.traffic)
    }

    fn pmix_connections(&self, job: JobId, rank: u32) -> Vec<ConnectionId> {
        self.server.pmix_ref(&self.pmix.server).connections(job, Rank(rank)).collect()
    }
}

/// Job, rank and number of a connection, for records.
fn subject(pmix: &Pmix<PmixHeap>, id: ConnectionId) -> TraceSource {
    let peer = pmix.peer(id);
    TraceSource::pmix(peer.map_or(0, |of| of.job.0), peer.map(|of| of.rank.0), id.0)
}

/// Maximum number of connections, above the number of files that one process may open.
const CONNECTIONS_MAX: usize = 1 << 21;

/// Maximum number of jobs, the same as in the server.
const JOBS_MAX: usize = 1 << 20;

/// Maximum number of open collectives of listed processes.
const COLLECTIVES_MAX: usize = 1 << 16;

/// Maximum number of published keys.
const NAMES_MAX: usize = 1 << 16;

/// Maximum number of events cached for processes that register later.
const EVENTS_MAX: usize = 512;

/// Maximum number of groups.
const GROUPS_MAX: usize = 1 << 16;

/// Maximum number of pending replies per client.
const PENDINGS_MAX: usize = 1024;

/// Maximum length of a message, and of the unfinished messages of one rank over all its connections. A
/// commit of large values is as long as they are.
const INBOX_MAX: usize = 64 << 20;

/// Maximum length of all unfinished messages: eight ranks at their limit, or 64 KiB for each of 8192.
const UNFINISHED_MAX: usize = 512 << 20;

/// Longest time until a new connection must have identified itself; clients do so at once.
const IDENTIFY_WITHIN: Duration = Duration::from_secs(5);

/// Size of the buffer: one half for reading and one for writing.
const SCRATCH: usize = 128 * 1024;
