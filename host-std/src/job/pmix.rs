//! PMIx clients: where they dial in, whether they are who they say, and what they want done.

use super::{Job, Run, index};
use crate::admission::{Admission, Policy, peer};
use crate::launch::descriptors::{CALLERS_MAX, MORE_PER_RANK};
use crate::launch::plan::Plan;
use crate::launch::pmix::PmixDial;
use crate::launch::process::Ending;
use crate::poller::{Poller, Token};
use crate::report;
use crate::server::listen::{ACCEPTED_AT_ONCE, Arrival, Listener};
use crate::server::news::Asked;
use crate::server::pmix::asked::Wish;
use crate::server::pmix::credential::Identity;
use crate::server::pmix::log::Entry;
use pmi_core::ids::JobId;
use pmi_core::server::pmix::ConnectionId;
use pmi_core::wire::pmix::names::Status;
use rustix::process::getuid;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;

impl Run {
    /// Opens the place where PMIx clients dial in, if a rank of `plan` may be one and it is not open, and
    /// writes into the plan where that is.
    ///
    /// Errors: those of the system.
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

    /// Takes connections of our user; which rank each is for is checked when it claims one.
    pub(super) fn take_pmix_callers(&mut self) -> io::Result<()> {
        let most = self.running_count
            + STRANGERS_MAX.min(self.more_connections(self.service.pmix_links()));
        // Those who are left are told again, after others had their turn.
        for _ in 0..ACCEPTED_AT_ONCE {
            let Some(listener) = &mut self.pmix else { return Ok(()) };
            let Some(arrival) = listener.accept(&self.poller)? else { return Ok(()) };
            let Arrival { mut stream, from, admission } = arrival;
            match admission {
                Admission::Admitted(Some(socket)) => {
                    self.service.add_pmix_caller((stream, from), socket, most, &self.poller)?;
                }
                Admission::Rejected { socket, why } => {
                    // It need not be told; what it cannot take at once it is not.
                    let _ = stream.write(&Status::NO_PERMISSIONS.0.to_be_bytes());
                    self.say_refused(from, socket, &why);
                }
                Admission::Admitted(None) | Admission::Gone => {}
            }
        }
        Ok(())
    }

    /// Somebody claims to be a rank. It is, if its socket is held by the process of the rank or one that
    /// comes from it.
    pub(super) fn take_pmix_dialled(
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
            // The first one of each rank has its place.
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

    /// How many connections there may be besides so many `links`, without taking from a rank the open files
    /// that it needs.
    fn more_connections(&self, links: usize) -> usize {
        let spare = usize::try_from(self.launcher.limit.spare()).unwrap_or(usize::MAX);
        let jobs = self.jobs.values();
        let ranks: u32 = jobs.map(|job| job.plan.pmix_ranks().min(job.running_count)).sum();
        spare.saturating_add(index(ranks)).saturating_sub(links)
    }

    /// A PMIx client asks for what only we can do.
    pub(super) fn take_pmix_asked(&mut self, connection: ConnectionId, pending: usize) {
        let asked = (connection, pending);
        let status = match self.service.pmix_wish(connection) {
            Wish::Control(job, wanted) => self.take_control(job, wanted),
            Wish::Spawn(job, rank, order) => {
                return self.take_spawn((job, rank), order, Asked::Pmix { connection, pending });
            }
            Wish::Query => return self.take_pmix_query(asked),
            Wish::Log(job, rank, entry) => self.take_log((job, rank), &entry),
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

    /// A rank has something to be written down, behind what it has written itself.
    fn take_log(&mut self, (job, rank): (JobId, u32), entry: &Entry) -> Status {
        let Some(process) = self.process_of(job, rank) else { return Status::NOT_SUPPORTED };
        for (stream, text) in &entry.texts {
            if !self.outputs.log(*stream, process, text) {
                return Status::OUT_OF_RESOURCE;
            }
        }
        entry.status()
    }

    /// Whom a rank runs as: only our user is ever let in, and its group is that of its process.
    fn identity(&self, job: JobId, rank: u32) -> Option<Identity> {
        let process = std::fs::metadata(format!("/proc/{}", self.pid(job, rank)?)).ok()?;
        Some(Identity { user: getuid().as_raw(), group: process.gid() })
    }

    /// A rank that wanted to be watched has not said that it lives.
    pub(super) fn take_pmix_silent(
        &mut self,
        (job, rank): (JobId, u32),
        code: Status,
        after: pmi_core::time::Duration,
    ) {
        let Some(Job { plan, .. }) = self.jobs.get(&job.0) else { return };
        let (pid, secs) = (self.pid(job, rank), after.as_micros() / 1_000_000);
        self.outputs.say(report::without_heartbeat(plan, (rank, pid), secs, code));
        self.service.tell_silent(job, rank, code);
    }

    /// Tells PMIx clients how a process has ended, before anything that follows from it.
    pub(super) fn tell_pmix_of_end(&mut self, (job, rank): (JobId, u32), ending: Ending) {
        if self.pmix.is_some() {
            self.service.tell_end(job, rank, ending, self.service.phase(job, rank));
        }
    }

    /// Removes what a rank that has ended has left behind.
    pub(super) fn clean_up_after(&mut self, job: JobId, rank: u32) {
        let of_rank = self.cleanups.extract_if(.., |(of, who, _)| (*of, *who) == (job, Some(rank)));
        of_rank.for_each(|(_, _, cleanup)| cleanup.run());
    }

    /// Removes what is left behind when all have ended.
    pub(super) fn clean_up(&mut self) {
        self.cleanups.drain(..).for_each(|(_, _, cleanup)| cleanup.run());
    }
}

/// How many may call, besides all ranks, who have not said who they are.
const STRANGERS_MAX: usize = CALLERS_MAX as usize;

/// How many processes may speak for one rank at once. Each may have much on its way.
const CONNECTIONS_MAX: usize = 1 + MORE_PER_RANK as usize;
