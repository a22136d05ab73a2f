//! Protocol server of all jobs, and its connections.

use crate::launch::environment::rank_variables;
use crate::launch::plan::job::Plan;
use crate::server::connections::Connections;
use crate::server::dial_in_peer::{
    self, DialInPeer, IDENTIFY_WITHIN, TAKEN, Unauthenticated, excerpt, subject,
};
use crate::server::event::{
    PendingSpawn, ServerEvent, abort_message, disconnect_event, nonsense, translate_event,
    unanswerable,
};
use crate::server::flush::{Connection, Occasion, Served, Traffic};
use crate::server::job_setup;
use crate::server::pmix::events::PmixNotifier;
use crate::server::pmix::heap::{self, PmixHeap};
use crate::server::pmix::host_request::PmixCalls;
use crate::server::pmix::service::{PmixService, new_server};
use crate::server::rank_conn::RankConns;
use crate::server::waiting::ProgressView;
use crate::trace::Tracer;
use crate::verdict::{Failure, PmiPhase};
use pmi_core::command::{CodeRun, Notice};
use pmi_core::error::{Code, PeerError};
use pmi_core::ids::{JobId, Rank, SessionId};
use pmi_core::machine::Machine;
use pmi_core::server::{self, Event, Member, Peer, Server};
use pmi_host_base::kvs_budget::{KvsBudget, KvsLimits, RefusedPut};
use pmi_host_base::map_kvs::MapKvs;
use pmi_host_base::storage::{Heap, Slab};
use pmi_host_os::admission::{EVICTED, Identity, peer};
use pmi_host_os::clock;
use pmi_host_os::poller::{Poller, Token};
use pmi_std::snapshot::server::SnapshotPeer;
use pmi_std::{BoundedBuf, Clock, Stream};
use pmi_trace::{Content, JobFacts};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

/// Server of the ranks of all jobs.
#[derive(Debug)]
pub(crate) struct Service {
    pub(super) server: Server<Heap<PmixHeap>>,
    /// Memory budget of the spaces of all jobs.
    kvs_budget: Rc<KvsBudget>,
    /// Connections of ranks, and their clients.
    pub(super) rank_conns: RankConns,
    /// By session.
    pub(super) connections: Connections,
    /// Events of sessions that were left when they were closed, an abort with its text.
    pub(super) events: VecDeque<(Event, Option<Vec<u8>>)>,
    pub(super) launcher_events: VecDeque<ServerEvent>,
    /// Ranks whose closed connection blocks a fence. Their exit status, which follows soon, tells more.
    pub(super) suspects: Vec<(JobId, Rank)>,
    /// Sessions whose peers have not identified themselves.
    pub(super) unauthenticated: Unauthenticated,
    pub(super) clock: Clock,
    /// PMIx part of the service.
    pub(super) pmix: PmixService,
    /// Buffer for the connection that is being served.
    scratch: Box<[u8]>,
    /// Recorder of messages and other events that the launcher observes.
    pub(crate) tracer: Tracer,
    /// True if all ranks of the run are here, and its other clients are not.
    is_shared: bool,
    /// True if a debugger has started the launcher.
    is_debugged: bool,
}

impl Service {
    /// Creates a server without jobs, which remembers about `recent` messages and as many pairs as
    /// `limits` allow.
    pub(crate) fn new(recent: usize, limits: KvsLimits) -> Self {
        let kvs_budget = Rc::new(KvsBudget::new(limits));
        let names = MapKvs::new(&kvs_budget, "of published names");
        heap::limit_blocks(limits.bytes);
        Self {
            server: new_server(names),
            kvs_budget,
            rank_conns: RankConns::default(),
            connections: Connections::default(),
            events: VecDeque::new(),
            launcher_events: VecDeque::new(),
            suspects: Vec::new(),
            unauthenticated: Unauthenticated::default(),
            clock: Clock::start(),
            pmix: PmixService::new(),
            scratch: vec![0; SCRATCH].into(),
            tracer: Tracer::new(recent),
            is_shared: false,
            is_debugged: false,
        }
    }

    /// Adds the job of `plan`.
    ///
    /// # Errors
    ///
    /// Errors of a plan that cannot be served, with the cause.
    pub(crate) fn add_job(&mut self, plan: &Plan) -> io::Result<JobId> {
        let (spec, members) = job_setup::describe(plan)?;
        let kvs = self.new_kvs(&plan.kvsname);
        let job = self.server.add_job(spec, members, kvs).map_err(io::Error::other)?;
        if self.is_shared {
            self.server.share_with_run(job).map_err(io::Error::other)?;
        }
        // A debugger is not shown the ranks of spawned jobs.
        let is_debugged = plan.spawner.is_none() && self.is_debugged;
        self.server.set_debugged(job, is_debugged).map_err(io::Error::other)?;
        self.server.set_verbose(job, rank_variables::is_verbose(plan)).map_err(io::Error::other)?;
        let filled = job_setup::fill(&mut self.server, job, plan).map_err(|error| {
            match self.kvs_budget.take_refused() {
                Some(put) => io::Error::other(put.to_string()),
                None => io::Error::other(error),
            }
        });
        let opened = filled.and_then(|omitted| {
            plan.pmix.as_ref().map_or(Ok(()), |_| self.add_pmix_job(job, plan))?;
            Ok(omitted)
        });
        match opened {
            Ok(None) => {}
            Ok(Some(len_bytes)) => {
                self.launcher_events.push_back(ServerEvent::MappingOmitted { job, len_bytes });
            }
            Err(error) => {
                self.remove_job(job);
                return Err(error);
            }
        }
        self.pmix.tools_mut().set_daemons(job, plan.pairs.directives.are_daemons);
        self.rank_conns.add_job(job, plan.served());
        self.tracer.add_job(self.facts(job, plan), plan.spawner.is_some());
        Ok(job)
    }

    /// Shares with the run what concerns its clients that are no ranks. For a node with all ranks.
    pub(crate) const fn share_with_run(&mut self) {
        self.is_shared = true;
    }

    /// Lets the ranks of jobs that are added know that a debugger has started the launcher.
    pub(crate) const fn expect_debugger(&mut self) {
        self.is_debugged = true;
    }

    /// Creates the key-value space of a job.
    pub(super) fn new_kvs(&self, name: &str) -> MapKvs {
        MapKvs::new(&self.kvs_budget, name)
    }

    /// The first put that exceeded the limits of the run, once.
    pub(crate) fn take_refused_put(&mut self) -> Option<RefusedPut> {
        self.kvs_budget.take_refused()
    }

    /// The limit that the modex, published data and pending requests of PMIx clients exceeded, once.
    pub(crate) fn take_refused_block(&mut self) -> Option<u64> {
        heap::take_refused()
    }

    /// Description of a job in a trace.
    pub(crate) fn facts(&self, job: JobId, plan: &Plan) -> JobFacts {
        job_setup::facts(&self.server, job, plan)
    }

    /// Removes a job whose ranks have all been given up.
    pub(crate) fn remove_job(&mut self, job: JobId) {
        // Removal fails only while a rank may still send requests; the job then costs memory only.
        if self.server.remove_job(job).is_ok() && self.rank_conns.remove_job(job) {
            self.tracer.remove_job(job.0);
            self.remove_shared_memory(job);
        }
    }

    /// Adds the server's end of the socket of a rank that was started.
    pub(crate) fn add_member(
        &mut self,
        (job, rank): (JobId, u32),
        (link, from): (Stream, Option<SocketAddr>),
        poller: &Poller,
    ) -> io::Result<()> {
        let peer = Peer::Member { job, rank: Rank(rank) };
        let session = self.open(peer, link, from, poller)?;
        if let Some(connection) = self.connections.get_mut(session.0) {
            connection.is_unauthenticated = false;
            connection.snapshot = SnapshotPeer::of_rank();
        }
        if let Some(rank_conn) = self.rank_conns.get_mut(job, rank) {
            (rank_conn.session, rank_conn.is_local) = (Some(session), true);
        }
        Ok(())
    }

    /// Sets the number of ranks that may share memory with the server.
    pub(crate) fn set_segments_max(&mut self, count: usize) {
        self.connections.snapshots.set_peers_max(count);
    }

    /// Sets the process of a rank that was started and connects to the port.
    pub(crate) fn expect_at_port(&mut self, (job, rank): (JobId, u32), pid: i32) {
        if let Some(rank_conn) = self.rank_conns.get_mut(job, rank) {
            rank_conn.port_process = Some(pid);
        }
    }

    /// Sets the process of a rank that may load its client of PMI-1 at run time: the client is identified
    /// when the rank sends its first request.
    pub(crate) fn set_unknown_client(&mut self, job: JobId, rank: u32, pid: i32) {
        if let Some(rank_conn) = self.rank_conns.get_mut(job, rank) {
            rank_conn.unknown_client = Some(pid);
        }
    }

    /// Identifies the client of PMI-1 of a rank, once.
    fn identify_client(&mut self, id: SessionId) {
        let Some((job, Some(rank))) = self.server.peer(id) else { return };
        if self.rank_conns.identify_newer_client(job, rank) {
            self.server.accept_newer(job, rank);
        }
    }

    pub(super) fn open(
        &mut self,
        peer: Peer,
        link: Stream,
        from: Option<SocketAddr>,
        poller: &Poller,
    ) -> io::Result<SessionId> {
        let session = self
            .server
            .open(peer, BoundedBuf::new(INBOX_MAX), Slab::new(THREADS_MAX))
            .map_err(io::Error::other)?;
        let connection = Connection::new(link, from, Token::Link(session.0), poller)?;
        self.connections.insert(session.0, connection);
        let from = from.map(|from| from.to_string());
        self.tracer.event(subject(&self.server, session), Content::Connected { from });
        Ok(session)
    }

    /// Serves the connection with this number, whose socket is readable or writable.
    ///
    /// # Errors
    ///
    /// Errors of the system's readiness calls; errors of the peer become events.
    pub(crate) fn ready(&mut self, session: u32, poller: &Poller) -> io::Result<()> {
        let session = SessionId(session);
        if session.is_pmix() {
            return self.serve_pmix(session, poller, Occasion::Ready);
        }
        self.identify_client(session);
        self.serve(session, poller, Occasion::Ready)
    }

    /// True if a job is connected with another one.
    pub(crate) fn is_connected(&self, job: JobId) -> bool {
        self.server.is_connected(job)
    }

    /// True if the failure of a rank of a job concerns no other job: it is connected with none, or all its
    /// ranks of this node have finalized. PMI-1 has no message for the end of a connection, and Open MPI
    /// sends none in PMIx; the finalization of MPI ends all connections.
    pub(crate) fn is_apart(
        &mut self,
        job: JobId,
        ranks: &[u32],
        poller: &Poller,
    ) -> io::Result<bool> {
        if !self.server.is_connected(job) {
            return Ok(true);
        }
        for rank in ranks {
            // What the others have sent may not be read yet.
            let session = self.rank_conns.get(job, *rank).and_then(|rank_conn| rank_conn.session);
            session.map_or(Ok(()), |session| self.serve(session, poller, Occasion::Ready))?;
            self.serve_pmix_rank(job, *rank, poller, Occasion::Ready)?;
        }
        Ok(ranks.iter().all(|rank| self.phase(job, *rank) == PmiPhase::Finalized))
    }

    /// Reads everything that a rank sent before it exited.
    pub(crate) fn drain(&mut self, job: JobId, rank: u32, poller: &Poller) -> io::Result<()> {
        self.serve_pmix_rank(job, rank, poller, Occasion::Ended)?;
        match self.rank_conns.get(job, rank).and_then(|rank_conn| rank_conn.session) {
            Some(session) => self.serve(session, poller, Occasion::Ended),
            None => Ok(()),
        }
    }

    /// Serves every session that has a response due or was blocked by others.
    pub(crate) fn flush(&mut self, poller: &Poller) -> io::Result<()> {
        while let Some(id) = self.server.next_ready() {
            match id.is_pmix() {
                true => self.serve_pmix(id, poller, Occasion::Due)?,
                false => self.serve(id, poller, Occasion::Due)?,
            }
        }
        Ok(())
    }

    /// The next event for the rest of the launcher. Each may make responses due, which requires a
    /// [`flush`](Self::flush).
    pub(crate) fn poll_event(&mut self) -> Option<ServerEvent> {
        let next = |service: &mut Self| {
            let left = service.events.pop_front();
            left.or_else(|| service.server.poll_event().map(|event| (event, None)))
        };
        while let Some((event, text)) = next(self) {
            let events = translate_event(self, event, text);
            self.launcher_events.extend(events);
        }
        let stuck = disconnect_event(self);
        self.launcher_events.extend(stuck);
        self.launcher_events.pop_front()
    }

    /// The conversations of all ranks, for reports on their progress.
    pub(crate) fn progress(&self) -> ProgressView<'_> {
        let Self { server, tracer, clock, pmix, .. } = self;
        ProgressView { server, tracer, clock, tools: pmix.tools() }
    }

    /// Calls about pending requests of PMIx clients.
    pub(crate) fn pmix_calls(&mut self) -> PmixCalls<'_> {
        let Self { server, pmix, clock, .. } = self;
        PmixCalls { server, pmix, clock }
    }

    /// Sender of the launcher's events to PMIx clients.
    pub(crate) fn pmix_notifier(&mut self) -> PmixNotifier<'_> {
        PmixNotifier { server: &mut self.server }
    }

    /// Answers a spawn request: with the job that runs now, or with the code of its failure.
    pub(crate) fn answer_spawn(
        &mut self,
        asked: PendingSpawn,
        made: Result<JobId, Code>,
        codes: &[CodeRun],
    ) {
        // The requesting client may be gone; then the answer is dropped.
        let PendingSpawn { session, exchange } = asked;
        if session.is_pmix() {
            self.pmix_calls().answer_spawn((session, exchange), made);
        } else {
            let _ = self.server.answer_spawn(session, exchange, made, codes);
        }
    }

    /// Records that a rank will send nothing more, so that no other waits for it.
    pub(crate) fn set_gone(&mut self, job: JobId, rank: u32) {
        let phase = self.phase(job, rank);
        let Some(rank_conn) = self.rank_conns.get_mut(job, rank) else { return };
        // The server does not distinguish how a rank left; the evaluation of its exit does.
        rank_conn.last_phase = Some(phase);
        let session = rank_conn.session.take();
        if let Some(connection) = session.and_then(|session| self.connection(session)) {
            let traffic = connection.traffic;
            self.rank_conns
                .get_mut(job, rank)
                .into_iter()
                .for_each(|rank_conn| rank_conn.last_traffic.add(traffic));
        }
        session.into_iter().for_each(|session| self.close(session));
        self.close_pmix_rank(job, rank);
        self.server.member_gone(job, Rank(rank));
    }

    /// Traffic of all connections of a rank.
    pub(crate) fn traffic(&self, job: JobId, rank: u32) -> Traffic {
        let rank_conn = self.rank_conns.get(job, rank).copied().unwrap_or_default();
        let mut traffic = rank_conn.last_traffic;
        let connection = rank_conn.session.and_then(|session| self.connection(session));
        connection.into_iter().for_each(|connection| traffic.add(connection.traffic));
        self.pmix_traffic(job, rank).for_each(|open| traffic.add(open));
        let member = self.server.job(job).and_then(|job| job.member(Rank(rank)));
        Traffic { requests: member.map_or(0, Member::request_count), ..traffic }
    }

    /// Publishes the failed ranks of a job where MPI libraries look for them.
    pub(crate) fn publish_failed(&mut self, job: JobId, ranks: &[u32]) {
        job_setup::publish_failed(&mut self.server, job, ranks);
    }

    /// Progress of a rank through the protocol.
    pub(crate) fn phase(&self, job: JobId, rank: u32) -> PmiPhase {
        if let Some(phase) =
            self.rank_conns.get(job, rank).and_then(|rank_conn| rank_conn.last_phase)
        {
            return phase;
        }
        match self.server.job(job).and_then(|job| job.member(Rank(rank))).map(Member::phase) {
            None | Some(server::Phase::Absent | server::Phase::Connected) => PmiPhase::Silent,
            Some(server::Phase::Open | server::Phase::Lost) => PmiPhase::Open,
            Some(server::Phase::Finalized) => PmiPhase::Finalized,
        }
    }

    /// True if the connection of a rank is closed.
    pub(crate) fn is_closed(&self, job: JobId, rank: u32) -> bool {
        let session = self.rank_conns.get(job, rank).and_then(|rank_conn| rank_conn.session);
        session.and_then(|id| self.connection(id)).is_none_or(Connection::is_closed)
    }

    /// True if a rank has finalized or was given up.
    pub(super) fn has_left(&self, job: JobId, rank: u32) -> bool {
        self.phase(job, rank) == PmiPhase::Finalized
            || self
                .rank_conns
                .get(job, rank)
                .is_some_and(|rank_conn| rank_conn.last_phase.is_some())
    }

    fn serve(&mut self, id: SessionId, poller: &Poller, occasion: Occasion) -> io::Result<()> {
        let Some((connection, snapshots)) = self.connections.get_with_snapshots(id.0) else {
            return Ok(());
        };
        let moment = clock::now();
        if connection.is_unauthenticated && self.unauthenticated.guesses.is_paused(moment) {
            self.unauthenticated.pending.hold(id);
            return connection.hold(Token::Link(id.0), poller);
        }
        let subject = subject(&self.server, id);
        if occasion == Occasion::Ready {
            connection.accept_segment(snapshots);
        }
        let Some((job, _)) = self.server.peer(id) else { return Ok(()) };
        let Some(session) = self.server.session(id) else { return Ok(()) };
        let session = self.tracer.tap(session, subject, moment);
        let peer = connection.snapshot.clone();
        let mut on_event = |event| self.events.push_back((event, None));
        let mut session = snapshots.session(session, peer, job, &mut on_event);
        let (now, wire) = (self.clock.at(moment), (Token::Link(id.0), poller));
        let mut served = connection.serve(&mut session, now, &mut self.scratch, occasion, wire)?;
        // A peer that has identified itself has no deadline any more.
        if connection.is_unauthenticated
            && self.server.session(id).is_none_or(|s| s.poll_timeout().is_none())
        {
            connection.is_unauthenticated = false;
            self.unauthenticated.pending.remove(id);
            // Nothing can be sent through a handshake that does not complete.
            if served == Served::Waiting && !connection.is_ready() {
                connection.close();
                served = Served::Broken(PeerError::TimedOut, 0);
            }
        }
        if connection.is_closed() && served != Served::Waiting {
            self.tracer.event(subject, Content::Closed);
        }
        let Some((job, Some(Rank(rank)))) = self.server.peer(id) else {
            self.serve_unauthenticated(id, served);
            return Ok(());
        };
        match served {
            Served::Waiting => {}
            // A rank has completed its handshake, so the last two mean the end of a connection.
            Served::Closed | Served::Plain | Served::Untrusted => {
                self.launcher_events.push_back(ServerEvent::Closed { job, rank });
            }
            Served::Unanswerable(reply_bytes) => {
                let failure = Failure::Nonsense { rank, why: unanswerable(reply_bytes) };
                self.launcher_events.push_back(ServerEvent::Failed { job, failure });
            }
            Served::Broken(error, received_bytes) => {
                let input = excerpt(&self.scratch, received_bytes);
                let failure = Failure::Nonsense { rank, why: nonsense(error, input) };
                self.launcher_events.push_back(ServerEvent::Failed { job, failure });
            }
            // Only after finalize: some clients crash when the stream ends at any other moment.
            Served::Finished => {
                if self.phase(job, rank) == PmiPhase::Finalized
                    && let Some(connection) = self.connections.get_mut(id.0)
                {
                    connection.close();
                    self.tracer.event(subject, Content::Closed);
                    // The exit of a local process is reported separately; a remote rank has only its
                    // connection.
                    if connection.from.is_some() {
                        self.launcher_events.push_back(ServerEvent::Closed { job, rank });
                    }
                }
            }
        }
        Ok(())
    }

    /// Handles a connection without a rank: unauthenticated, or a second connection.
    fn serve_unauthenticated(&mut self, id: SessionId, served: Served) {
        let why = self.unauthenticated.rejection(id, &served, &self.scratch);
        if let (Some(why), Some(from)) = (why, self.connection(id).and_then(|one| one.from)) {
            self.launcher_events.push_back(ServerEvent::Refused { from, why });
        }
        if served != Served::Waiting {
            self.close(id);
        }
    }

    pub(super) fn close(&mut self, session: SessionId) {
        let connection = self.connections.remove(session.0);
        if connection.as_ref().is_some_and(|connection| !connection.is_closed()) {
            self.tracer.event(subject(&self.server, session), Content::Closed);
        }
        self.unauthenticated.pending.remove(session);
        self.unauthenticated.rejections.remove(&session);
        let text = abort_message(&self.server, session);
        self.events.extend(self.server.close(session).map(|event| (event, text)));
    }

    /// The text of the abort of a rank whose session is open.
    pub(super) fn abort_message(&self, job: JobId, rank: Rank) -> Option<Vec<u8>> {
        let session = self.server.job(job)?.member(rank)?.session()?;
        abort_message(&self.server, session)
    }

    pub(super) fn connection(&self, session: SessionId) -> Option<&Connection> {
        self.connections.get(session.0)
    }

    /// Adds a connection whose peer has to identify itself. If more than `most` are unauthenticated, some
    /// are closed, as [`Pending::surplus`](pmi_host_os::admission::pending::Pending::surplus) chooses them.
    pub(crate) fn add_peer(
        &mut self,
        job: JobId,
        peer: DialInPeer,
        most: usize,
        poller: &Poller,
    ) -> io::Result<()> {
        let DialInPeer { link, from, socket, challenge, certificate } = peer;
        for surplus in self.unauthenticated.pending.surplus(most) {
            let from = self.connection(surplus).and_then(|connection| connection.from);
            let refused = from.map(|from| ServerEvent::Refused { from, why: EVICTED.to_owned() });
            self.launcher_events.extend(refused);
            self.close(surplus);
        }
        let deadline = self.clock.now().plus(IDENTIFY_WITHIN);
        let peer = Peer::Unidentified { job, deadline: Some(deadline), challenge };
        let session = self.open(peer, link, Some(from), poller)?;
        if let Some(connection) = self.connections.get_mut(session.0) {
            (connection.certificate, connection.socket) = (certificate, socket);
        }
        self.unauthenticated.pending.insert(session, from.ip(), socket);
        Ok(())
    }

    /// Assigns a connection to the rank as which it has identified itself.
    pub(super) fn handle_joined(&mut self, job: JobId, rank: Rank) -> Option<ServerEvent> {
        let member = self.server.job(job)?.member(rank)?;
        let session = member.session()?;
        let connection = self.connection(session)?;
        let (from, socket) = (connection.from?, connection.socket);
        self.suspects.retain(|suspect| *suspect != (job, rank));
        let rank_conn = self.rank_conns.get_mut(job, rank.0)?;
        if rank_conn.is_local || rank_conn.last_phase.is_some() {
            // A rank that was started by the launcher, or has been given up, cannot be replaced.
            self.close(session);
            return Some(ServerEvent::Refused { from, why: TAKEN.to_owned() });
        }
        let Some(pid) = rank_conn.port_process else {
            (rank_conn.session, rank_conn.from) = (Some(session), Some(from));
            return Some(ServerEvent::Joined);
        };
        let others = self.rank_conns.port_processes().filter(|other| *other != pid);
        let others: Vec<i32> = others.collect();
        debug_assert!(socket.is_some(), "the listener has looked the user of the socket up");
        let identity = peer::rank_identity(pid, socket?, &others);
        let Identity::Refused(why) = identity else {
            // Where it cannot be known: the kernel names the user, who could trace the rank.
            let rank_conn = self.rank_conns.get_mut(job, rank.0)?;
            rank_conn.session = Some(session);
            return None;
        };
        self.close(session);
        let why = format!("claims to be rank {}, and is not: {why}", rank.0);
        Some(ServerEvent::Refused { from, why })
    }

    /// Resets a rank to unconnected: it has not started the protocol, and may connect again.
    pub(crate) fn set_absent(&mut self, job: JobId, rank: u32) {
        let session =
            self.rank_conns.get_mut(job, rank).and_then(|rank_conn| rank_conn.session.take());
        session.into_iter().for_each(|session| self.close(session));
    }

    /// Address from which a rank has connected.
    pub(crate) fn from(&self, job: JobId, rank: u32) -> Option<SocketAddr> {
        self.rank_conns.get(job, rank)?.from
    }

    /// Sends a notice to all ranks that listen on a second connection. Returns the notified ranks.
    pub(crate) fn notify_all(&mut self, notice: Notice) -> Vec<(JobId, u32)> {
        dial_in_peer::notify_all(&mut self.server, notice)
    }

    /// Time of the next [`tick`](Self::tick): unauthenticated connections and timed PMIx requests have
    /// deadlines.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let later = self.may_time_out().then(|| self.server.poll_timeout()).flatten();
        let later = later.map(|later| clock::now() + Clock::until(self.clock.now(), later));
        later.into_iter().chain(self.unauthenticated.held_until()).min()
    }

    /// Closes connections that have not identified themselves in time, and answers PMIx requests that
    /// have timed out; then serves connections that were held after a wrong guess. Returns true if
    /// responses may be due then.
    pub(crate) fn tick(&mut self, moment: Instant, poller: &Poller) -> io::Result<bool> {
        let has_unauthenticated = !self.unauthenticated.pending.is_empty();
        let now = self.clock.at(moment);
        let is_late = self.may_time_out() && self.server.poll_timeout().is_some_and(|at| at <= now);
        if is_late {
            self.server.handle_timeout(now);
        }
        while let Some(held) = self.unauthenticated.next_held(moment) {
            self.ready(held.0, poller)?;
        }
        Ok(has_unauthenticated || is_late)
    }

    /// False if no session has a deadline, so that the server need not look at all of them.
    pub(crate) fn may_time_out(&self) -> bool {
        !self.unauthenticated.pending.is_empty() || self.pmix_links() > 0
    }
}

/// Maximum number of pending replies per client: one for each thread that calls PMI.
const THREADS_MAX: usize = 256;

/// Longest message of a client, and so the memory that one client can occupy. A spawn with more arguments
/// than the system accepts is useless, and other messages are far shorter.
const INBOX_MAX: usize = 1 << 20;

/// Size of the buffer: one half for reading and one for writing, where the longest reply fits.
pub(super) const SCRATCH: usize = 16 * 1024;
const _: () = assert!(SCRATCH / 2 > pmi_core::limits::REPLY_BYTES);
