//! PMIx clients: their listener, authentication, requests to the launcher, and cleanup.

use super::{EventLoop, JobState, index};
use crate::admission::{Admission, Policy, peer};
use crate::launch::descriptors::{CALLERS_MAX, MORE_PER_RANK};
use crate::launch::plan::Plan;
use crate::launch::pmix::PmixDial;
use crate::launch::process::ProcessEnd;
use crate::poller::{Poller, Token};
use crate::report;
use crate::server::event::Asked;
use crate::server::listen::{ACCEPTED_AT_ONCE, Arrival, Listener};
use crate::server::pmix::asked::Wish;
use crate::server::pmix::credential::UserIdentity;
use crate::server::pmix::log::LogRequest;
use pmi_core::ids::JobId;
use pmi_core::server::pmix::ConnectionId;
use pmi_core::wire::pmix::names::Status;
use rustix::process::getuid;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;

impl EventLoop {
    /// Opens the listener for PMIx clients, if a rank of `plan` may be one and it is not open yet, and
    /// writes its address into the plan.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub(super) fn open_for(
        pmix: &mut Option<Listener>,
        plan: &mut Plan,
        poller: &Poller,
    ) -> io::Result<()> {
        if !plan.has_pmix() {
            return Ok(());
        }
        let listener = match pmix {
            Some(listener) => listener,
            None => {
                let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
                pmix.insert(Listener::open(any, Token::PmixListen, Policy::Owner, poller)?)
            }
        };
        plan.pmix = Some(PmixDial::new(std::process::id(), listener.address));
        Ok(())
    }

    /// Accepts connections of the launcher's user; the rank is checked when the connection claims one.
    pub(super) fn accept_pmix_peers(&mut self) -> io::Result<()> {
        let most = self.running_count
            + STRANGERS_MAX.min(self.more_connections(self.service.pmix_links()));
        // Connections that are left are reported again, after other descriptors had their turn.
        for _ in 0..ACCEPTED_AT_ONCE {
            let Some(listener) = &mut self.pmix else { return Ok(()) };
            let Some(arrival) = listener.accept(&self.poller)? else { return Ok(()) };
            let Arrival { mut stream, from, admission } = arrival;
            match admission {
                Admission::Admitted(Some(socket)) => {
                    self.service.add_pmix_peer((stream, from), socket, most, &self.poller)?;
                }
                Admission::Rejected { socket, why } => {
                    // The status is a courtesy; it is dropped if it cannot be written at once.
                    let _ = stream.write(&Status::NO_PERMISSIONS.0.to_be_bytes());
                    self.say_refused(from, socket, &why);
                }
                Admission::Admitted(None) | Admission::Gone => {}
            }
        }
        Ok(())
    }

    /// Authenticates a connection that claims to be a rank: its socket must be held by the process of the
    /// rank or a descendant of it.
    pub(super) fn handle_pmix_connected(
        &mut self,
        connection: ConnectionId,
        (job, rank): (JobId, u32),
        user: Option<u32>,
    ) {
        let Some((from, socket)) = self.service.pmix_caller(connection) else { return };
        let process = self.process_of(job, rank).map(|process| &self.processes[index(process)]);
        let running = process.filter(|started| started.process.is_some());
        let is_it = running.is_some_and(|started| peer::is_held_below(started.pid, socket));
        let (status, why) = match (is_it, user) {
            (true, Some(user)) if user != socket.user => {
                (Status::INVALID_CRED, format!("claimed to be of user {user}, which it is not"))
            }
            (true, _) if self.service.pmix_count(job, rank) >= CONNECTIONS_MAX => {
                let why = format!(
                    "is one too many for rank {rank}, for which {CONNECTIONS_MAX} may speak"
                );
                (Status::OUT_OF_RESOURCE, why)
            }
            // The first connection of each rank has a reserved place.
            (true, _)
                if self.service.pmix_count(job, rank) > 0
                    && self.more_connections(self.service.pmix_links() - 1) == 0 =>
            {
                let why = format!(
                    "is one more for rank {rank}, and the open files that are left are for other ranks \
                     (raise the launcher's limit: 'ulimit -n')"
                );
                (Status::OUT_OF_RESOURCE, why)
            }
            (true, _) => return self.service.admit_pmix(connection),
            (false, _) => {
                let why = format!("claimed to be rank {rank}, which it is not");
                (Status::NO_PERMISSIONS, why)
            }
        };
        self.service.refuse_pmix(connection, status);
        self.say_refused(from, Some(socket), &why);
    }

    /// Number of connections that may be added to `links` existing ones without taking open files that a
    /// rank needs.
    fn more_connections(&self, links: usize) -> usize {
        let spare = usize::try_from(self.launcher.limit.spare()).unwrap_or(usize::MAX);
        let jobs = self.jobs.values();
        let ranks: u32 = jobs.map(|job| job.plan.pmix_ranks().min(job.running_count)).sum();
        spare.saturating_add(index(ranks)).saturating_sub(links)
    }

    /// Executes a request of a PMIx client that only the launcher can serve.
    pub(super) fn handle_pmix_request(&mut self, connection: ConnectionId, pending: usize) {
        let asked = (connection, pending);
        let status = match self.service.pmix_wish(connection) {
            Wish::JobControl(job, wanted) => self.handle_job_control(job, wanted),
            Wish::Spawn(job, rank, request) => {
                return self.handle_spawn(
                    (job, rank),
                    request,
                    Asked::Pmix { connection, pending },
                );
            }
            Wish::Query => return self.handle_pmix_query(asked),
            Wish::Log(job, rank, entry) => self.handle_log((job, rank), &entry),
            Wish::Credential(job, rank) => match self.identity(job, rank) {
                Some(identity) => return self.service.answer_pmix_credential(asked, identity),
                None => Status::NOT_SUPPORTED,
            },
            Wish::Validated(identity) => {
                return self.service.answer_pmix_validated(asked, identity);
            }
            Wish::Refused(status) => status,
        };
        self.service.answer_pmix(asked, status);
    }

    /// Appends a log entry of a rank to the output it has written itself.
    fn handle_log(&mut self, (job, rank): (JobId, u32), entry: &LogRequest) -> Status {
        let Some(process) = self.process_of(job, rank) else { return Status::NOT_SUPPORTED };
        for (stream, text) in &entry.texts {
            if !self.outputs.log(*stream, process, text) {
                return Status::OUT_OF_RESOURCE;
            }
        }
        entry.status()
    }

    /// User and group of a rank: only the launcher's user is ever admitted, and the group is that of its
    /// process.
    fn identity(&self, job: JobId, rank: u32) -> Option<UserIdentity> {
        let process = std::fs::metadata(format!("/proc/{}", self.pid(job, rank)?)).ok()?;
        Some(UserIdentity { user: getuid().as_raw(), group: process.gid() })
    }

    /// Reports a monitored rank that missed its heartbeat.
    pub(super) fn handle_pmix_silent(
        &mut self,
        (job, rank): (JobId, u32),
        code: Status,
        after: pmi_core::time::Duration,
    ) {
        let Some(JobState { plan, .. }) = self.jobs.get(&job.0) else { return };
        let (pid, secs) = (self.pid(job, rank), after.as_micros() / 1_000_000);
        self.outputs.say(report::without_heartbeat(plan, (rank, pid), secs, code));
        self.service.tell_silent(job, rank, code);
    }

    /// Notifies PMIx clients of the exit of a process, before any consequence of it.
    pub(super) fn tell_pmix_of_end(&mut self, (job, rank): (JobId, u32), ending: ProcessEnd) {
        if self.pmix.is_some() {
            self.service.tell_end(job, rank, ending, self.service.phase(job, rank));
        }
    }

    /// Runs the cleanups registered for a rank that has exited.
    pub(super) fn clean_up_after(&mut self, job: JobId, rank: u32) {
        let of_rank = self.cleanups.extract_if(.., |(of, who, _)| (*of, *who) == (job, Some(rank)));
        of_rank.for_each(|(_, _, cleanup)| cleanup.run());
    }

    /// Runs the remaining cleanups when all ranks have exited.
    pub(super) fn clean_up(&mut self) {
        self.cleanups.drain(..).for_each(|(_, _, cleanup)| cleanup.run());
    }
}

/// Maximum number of unauthenticated connections, besides those of all ranks.
const STRANGERS_MAX: usize = CALLERS_MAX as usize;

/// Maximum number of connections per rank. Each may have much in transit.
const CONNECTIONS_MAX: usize = 1 + MORE_PER_RANK as usize;
