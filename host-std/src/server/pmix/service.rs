//! Connections of PMIx clients, and their events for the rest of the launcher.

use super::credential::Credentials;
use super::facts;
use super::hardware::ToldHardware;
use super::heap::PmixHeap;
use super::store::{JobStore, PublishingSession, StoredJob};
use super::tools::Tools;
use crate::launch::plan::job::Plan;
use crate::server::connections::Connections;
use crate::server::event::{ServerEvent, nonsense, unanswerable};
use crate::server::fetches::Fetches;
use crate::server::flush::{Connection, Occasion, Served, Traffic};
use crate::server::service::Service;
use crate::trace::TraceSource;
use crate::verdict::Failure;
use pmi_core::error::PeerError;
use pmi_core::ids::{JobId, KvsName, ProcId, Rank, SessionId};
use pmi_core::server::pmix::{PmixTables, RankData, UnfinishedLimits};
use pmi_core::server::{JobSpec, Member, Server};
use pmi_core::time::Duration;
use pmi_core::wire::pmix::names::Status;
use pmi_host_base::map_kvs::MapKvs;
use pmi_host_base::storage::{Heap, Slab, UniqueSlots};
use pmi_host_os::admission::pending::Pending;
use pmi_host_os::admission::{EVICTED, Socket};
use pmi_host_os::cleanup::files::remove_directory;
use pmi_host_os::clock;
use pmi_host_os::poller::{Poller, Token};
use pmi_std::{BoundedBuf, Stream};
use pmi_trace::Content;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

/// The PMIx part of a [`Service`]. It is empty, and costs nothing, until a client connects.
#[derive(Debug)]
pub(crate) struct PmixService {
    /// By the place of the session.
    connections: Connections,
    /// Number of open connections.
    links: usize,
    pub(super) credentials: Credentials,
    /// Unauthenticated connections, with the sockets at their other ends.
    pending: Pending<SessionId>,
    pub(super) tools: Tools,
    /// Stores in shared memory, by job.
    stores: BTreeMap<u32, JobStore>,
    /// Committed data that is fetched from other nodes, and by them.
    pub(in crate::server) fetches: Fetches,
    /// True if a connect with a job of another launcher was reported.
    pub(in crate::server) has_unknown_connect: bool,
    /// Hardware of this node, once a client needs it.
    hardware: OnceCell<Option<ToldHardware>>,
    /// Buffer for the connection that is being served. PMIx replies are long.
    scratch: Box<[u8]>,
}

impl PmixService {
    /// Creates the PMIx part without connections.
    pub(crate) fn new() -> Self {
        Self {
            connections: Connections::default(),
            links: 0,
            credentials: Credentials::default(),
            pending: Pending::default(),
            tools: Tools::default(),
            stores: BTreeMap::new(),
            fetches: Fetches::default(),
            has_unknown_connect: false,
            hardware: OnceCell::new(),
            scratch: Box::default(),
        }
    }

    /// Jobs of connected tools.
    pub(in crate::server) const fn tools(&self) -> &Tools {
        &self.tools
    }

    /// The same, to add jobs of daemons.
    pub(in crate::server) const fn tools_mut(&mut self) -> &mut Tools {
        &mut self.tools
    }
}

/// Creates a server without jobs, for clients of all protocols.
pub(crate) fn new_server(names: MapKvs) -> Server<Heap<PmixHeap>> {
    let tables = PmixTables {
        sessions: Slab::new(SESSIONS_MAX),
        jobs: Slab::new(JOBS_MAX),
        collectives: Slab::new(COLLECTIVES_MAX),
        names: Slab::new(NAMES_MAX),
        events: Slab::new(EVENTS_MAX),
        groups: Slab::new(GROUPS_MAX),
    };
    let (sessions, jobs) = (Slab::new(SESSIONS_MAX), UniqueSlots::new(JOBS_MAX));
    let mut server = Server::with_pmix(sessions, jobs, names, tables);
    let (rank_bytes, all_bytes) = (INBOX_MAX, UNFINISHED_MAX);
    server.pmix().limit_unfinished(UnfinishedLimits { rank_bytes, all_bytes });
    server
}

impl Service {
    /// Leaves the memory of all jobs to the end of the process, which frees it at once.
    pub(crate) fn leave_memory(&mut self) {
        std::mem::forget(std::mem::replace(&mut self.server, new_server(MapKvs::default())));
    }

    /// Admits PMIx clients to the job of `plan`.
    ///
    /// # Errors
    ///
    /// The tables or the memory are exhausted.
    pub(crate) fn add_pmix_job(&mut self, job: JobId, plan: &Plan) -> io::Result<()> {
        let hosts = plan.placement.hosts.as_deref();
        let info =
            facts::describe(plan, hosts, std::process::id()).ok_or(io::ErrorKind::OutOfMemory)?;
        let posts = plan.served().iter().map(|rank| RankData::of(Rank(rank))).collect();
        let stored = plan.pmix.as_ref().and_then(|pmix| pmix.store.as_ref()).map(|directory| {
            let nspace = &plan.kvsname;
            let (ranks, local) = (plan.ranks, plan.local());
            let stored = StoredJob { nspace, ranks, local, info: info.as_ref() };
            JobStore::create(directory, stored).inspect_err(|_| remove_directory(directory))
        });
        self.server.pmix().add_job(job, info, posts).map_err(io::Error::other)?;
        // Clients that find no store take its values from messages.
        if let Some(Ok(store)) = stored {
            self.server.pmix().set_shared_store(job).map_err(io::Error::other)?;
            self.pmix.stores.insert(job.0, store);
        }
        Ok(())
    }

    /// Removes what a job shares with its ranks.
    pub(in crate::server) fn remove_shared_memory(&mut self, job: JobId) {
        self.connections.snapshots.remove(job);
        self.pmix.stores.remove(&job.0);
    }

    /// Adds an unauthenticated connection, with the socket at its other end. If more than `most` are
    /// unauthenticated, some are closed, as [`Pending::surplus`] chooses them.
    pub(crate) fn add_pmix_peer(
        &mut self,
        (link, from): (Stream, SocketAddr),
        socket: Socket,
        most: usize,
        poller: &Poller,
    ) -> io::Result<()> {
        for surplus in self.pmix.pending.surplus(most.max(1)) {
            let refused = self.refused_pmix(surplus, EVICTED.to_owned());
            self.launcher_events.extend(refused);
            self.close_pmix(surplus);
        }
        let pmix = &mut self.pmix;
        if pmix.scratch.is_empty() {
            pmix.scratch = vec![0; SCRATCH].into();
        }
        let deadline = self.clock.now().plus(IDENTIFY_WITHIN);
        let (inbox, pending) = (BoundedBuf::new(INBOX_MAX), Slab::new(PENDINGS_MAX));
        // A connection beyond the maximum is closed.
        let Ok(id) = self.server.pmix().open(inbox, pending, Some(deadline)) else { return Ok(()) };
        let token = Token::Link(id.0);
        let connection = Connection::carrying(SCRATCH / 2, (link, Some(from)), token, poller)?;
        pmix.connections.insert(id.place(), connection);
        pmix.links += 1;
        pmix.pending.insert(id, from.ip(), Some(socket));
        let from = Some(from.to_string());
        self.tracer.event(subject(&self.server, id), Content::Connected { from });
        Ok(())
    }

    /// Serves all connections of a rank.
    pub(in crate::server) fn serve_pmix_rank(
        &mut self,
        job: JobId,
        rank: u32,
        poller: &Poller,
        occasion: Occasion,
    ) -> io::Result<()> {
        for id in self.pmix_sessions(job, rank) {
            self.serve_pmix(id, poller, occasion)?;
        }
        Ok(())
    }

    /// Admits a connection as the rank it claims to be, one of `plan`. To the first rank whose library would
    /// detect the hardware, it is described.
    pub(crate) fn admit_pmix(&mut self, session: SessionId, plan: Option<&Plan>) {
        self.pmix.pending.remove(session);
        if let (Some(job), Some(plan)) = (self.server.pmix_ref().lacks_hardware(session), plan) {
            let read = || ToldHardware::read(Path::new("/")).ok();
            let hardware = self.pmix.hardware.get_or_init(read).as_ref();
            // Without a description, or memory for it, ranks detect the hardware.
            if let Some(hardware) = hardware.and_then(|hardware| hardware.describe(plan)) {
                let _ = self.server.pmix().describe_hardware(job, hardware);
            }
        }
        // The session may be closed meanwhile.
        let _ = self.server.pmix().admit(session);
    }

    /// Admits a tool, as the namespace that it brings or a new one.
    ///
    /// # Errors
    ///
    /// The tables or the memory are exhausted.
    pub(crate) fn admit_tool(&mut self, session: SessionId, host: &str) -> io::Result<()> {
        let pid = std::process::id();
        let brought = self.server.pmix_ref().tool_identity(session);
        let brought = brought.map(|(nspace, rank)| (nspace.to_vec(), rank));
        let (name, rank) = brought.unwrap_or_else(|| (self.pmix.tools.next_name(pid), Rank(0)));
        let name = KvsName::new(&name).map_err(io::Error::other)?;
        let info = facts::describe_tool((name.as_bytes(), rank.0), host, pid);
        let info = info.ok_or(io::ErrorKind::OutOfMemory)?;
        let kvs = self.new_kvs(&String::from_utf8_lossy(name.as_bytes()));
        let spec =
            JobSpec { name, spawner: None, universe_size: None, size: None, has_uplink: false };
        let members = vec![Member::new(0, 0).with_rank(rank)];
        let job = self.server.add_job(spec, members, kvs).map_err(io::Error::other)?;
        if self.pmix.tools.hands_names_up() {
            self.server.hand_names_up(job).map_err(io::Error::other)?;
        }
        let described = self.server.pmix().add_job(job, info, vec![RankData::of(rank)]);
        let admitted = described.and_then(|()| self.server.pmix().admit_tool(session, job));
        match admitted {
            Ok(()) => {
                self.pmix.pending.remove(session);
                self.pmix.tools.insert(job);
                Ok(())
            }
            Err(error) => {
                let _ = self.server.remove_job(job);
                Err(io::Error::other(error))
            }
        }
    }

    /// Describes a job to tools whose ranks use other protocols.
    pub(crate) fn describe_to_tools(&mut self, job: JobId, plan: &Plan) {
        if self.pmix.tools.is_any() && !self.server.pmix_ref().has_job(job) {
            // Without memory the job is unknown to tools, and unaffected.
            let _ = self.add_pmix_job(job, plan);
        }
    }

    /// Hands requests of tools about published names up, as events, from now on.
    pub(crate) fn hand_names_of_tools_up(&mut self) {
        self.pmix.tools.hand_names_up();
    }

    /// True for the job of a tool.
    pub(crate) fn is_tool(&self, job: JobId) -> bool {
        self.pmix.tools.has(job)
    }

    /// Removes the job of a tool whose connection is closed.
    fn remove_tool(&mut self, peer: Option<ProcId>) {
        let Some(ProcId { job, .. }) = peer else { return };
        if self.pmix.tools.remove(job) {
            // Removal fails only while a session of the job is open; it has one.
            let _ = self.server.remove_job(job);
        }
    }

    /// Rejects a connection.
    pub(crate) fn refuse_pmix(&mut self, session: SessionId, status: Status) {
        self.server.pmix().refuse(session, status);
    }

    /// Address of an unauthenticated connection, and the socket at its other end.
    pub(crate) fn pmix_caller(&self, session: SessionId) -> Option<(SocketAddr, Socket)> {
        let from = self.pmix.connections.get(session.place())?.from?;
        Some((from, self.pmix.pending.socket(session)?))
    }

    /// Number of connections of a rank.
    pub(crate) fn pmix_count(&self, job: JobId, rank: u32) -> usize {
        self.pmix_sessions(job, rank).len()
    }

    /// Number of connections, of ranks and unauthenticated.
    pub(crate) fn pmix_links(&self) -> usize {
        self.pmix.links
    }

    /// Closes the remaining connections of a rank that is gone.
    pub(in crate::server) fn close_pmix_rank(&mut self, job: JobId, rank: u32) {
        for id in self.pmix_sessions(job, rank) {
            self.close_pmix(id);
        }
    }

    /// Serves the session of a PMIx client.
    pub(in crate::server) fn serve_pmix(
        &mut self,
        id: SessionId,
        poller: &Poller,
        occasion: Occasion,
    ) -> io::Result<()> {
        let moment = clock::now();
        let pmix = &mut self.pmix;
        let Some(connection) = pmix.connections.get_mut(id.place()) else { return Ok(()) };
        let subject = subject(&self.server, id);
        let peer = self.server.pmix_ref().peer(id);
        let Some(session) = self.server.session(id) else { return Ok(()) };
        let session = self.tracer.tap(session, subject, moment);
        let store = peer.and_then(|peer| Some((pmix.stores.get_mut(&peer.job.0)?, peer)));
        let mut session = PublishingSession::new(session, store);
        let wire = (Token::Link(id.0), poller);
        let now = self.clock.at(moment);
        let served = connection.serve(&mut session, now, &mut pmix.scratch, occasion, wire)?;
        let peer = self.server.pmix_ref().peer(id);
        let is_tool = self.server.pmix_ref().is_tool(id);
        match (served, peer) {
            (Served::Waiting, _) => return Ok(()),
            // The end of a tool, in whatever way, concerns no job.
            (_, Some(_)) if is_tool => {}
            (Served::Unanswerable(reply_bytes), Some(ProcId { job, rank: Rank(rank) })) => {
                let failure = Failure::Nonsense { rank, why: unanswerable(reply_bytes) };
                self.launcher_events.push_back(ServerEvent::Failed { job, failure });
            }
            (Served::Broken(error, _), Some(ProcId { job, rank: Rank(rank) })) => {
                let failure = Failure::Nonsense { rank, why: nonsense(error, b"") };
                self.launcher_events.push_back(ServerEvent::Failed { job, failure });
            }
            // A connection that the launcher rejected was reported already.
            (Served::Broken(PeerError::Unproven, _), None) => {}
            (Served::Broken(error, _), None) => {
                let refused = self.refused_pmix(id, nonsense(error, b""));
                self.launcher_events.extend(refused);
            }
            (_, Some(ProcId { job, rank: Rank(rank) }))
                if self.server.pmix_ref().has_left_early(job, Rank(rank)) =>
            {
                self.launcher_events.push_back(ServerEvent::Closed { job, rank });
            }
            _ => {}
        }
        self.close_pmix(id);
        Ok(())
    }

    /// Event that reports the rejection of an unauthenticated connection.
    pub(in crate::server) fn refused_pmix(
        &self,
        id: SessionId,
        why: String,
    ) -> Option<ServerEvent> {
        let (from, socket) = self.pmix_caller(id)?;
        Some(ServerEvent::PmixRefused { from, socket, why })
    }

    fn close_pmix(&mut self, id: SessionId) {
        self.pmix.pending.remove(id);
        if let Some(connection) = self.pmix.connections.remove(id.place()) {
            self.pmix.links -= 1;
            self.tracer.event(subject(&self.server, id), Content::Closed);
            let peer = self.server.pmix_ref().peer(id);
            if let Some(rank_conn) = peer.and_then(|of| self.rank_conns.get_mut(of.job, of.rank.0))
            {
                rank_conn.last_traffic.add(connection.traffic);
            }
        }
        let peer = self.server.pmix_ref().peer(id);
        if peer.is_some_and(|of| self.pmix.tools.controls_all(of.job)) {
            self.pmix.tools.note_closed(id);
        }
        let tool = peer.filter(|_| self.server.pmix_ref().is_tool(id));
        let event = self.server.close(id).filter(|_| tool.is_none());
        self.events.extend(event.map(|event| (event, None)));
        self.remove_tool(tool);
    }

    /// Traffic of each open connection of a rank.
    pub(in crate::server) fn pmix_traffic(
        &self,
        job: JobId,
        rank: u32,
    ) -> impl Iterator<Item = Traffic> {
        let open = self.pmix_sessions(job, rank).into_iter();
        let open = open.filter_map(|id| self.pmix.connections.get(id.place()));
        open.map(|connection| connection.traffic)
    }

    fn pmix_sessions(&self, job: JobId, rank: u32) -> Vec<SessionId> {
        self.server.pmix_ref().sessions(job, Rank(rank)).collect()
    }
}

/// Job, rank and number of a session, for records.
fn subject(server: &Server<Heap<PmixHeap>>, id: SessionId) -> TraceSource {
    let peer = server.pmix_ref().peer(id).filter(|_| !server.pmix_ref().is_tool(id));
    TraceSource::pmix(peer.map_or(0, |of| of.job.0), peer.map(|of| of.rank.0), id.place())
}

/// Maximum number of sessions of each protocol, above the number of files that one process may open.
const SESSIONS_MAX: usize = 1 << 21;

/// Maximum number of jobs that run at once; each has at least one process.
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
