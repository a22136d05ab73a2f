//! The host's part for ranks that speak PMIx.

use super::jobs::SpawnOrigin;
use super::{EXCHANGES, Endpoint, Host, instant};
use crate::event::{ReportedFailure, SimEvent};
use crate::ranks::index;
use crate::scenario::{JobPlan, PMIX, Scenario};
use crate::storage::{Bytes, Meter, MeteredPmix, MeteredSlab, Shared};
use pmi_core::ids::{JobId, Rank};
use pmi_core::server::pmix::{ConnectionId, Pmix, PmixEvent, PmixTables, SharedBytes};
use pmi_core::wire::pmix::names::{Status, keys};
use pmi_core::wire::pmix::{Format, Packer, Request, Type};

/// Storage of PMIx sessions for this scenario.
pub(super) fn tables(scenario: &Scenario, meter: &Meter) -> Pmix<MeteredPmix> {
    let ranks = index(scenario.ranks);
    Pmix::new(PmixTables {
        connections: MeteredSlab::new(ranks, meter.clone()),
        jobs: MeteredSlab::new(scenario.all_jobs().count(), meter.clone()),
        collectives: MeteredSlab::new(ranks * EXCHANGES, meter.clone()),
        names: MeteredSlab::new(ranks * EXCHANGES, meter.clone()),
        groups: MeteredSlab::new(ranks * EXCHANGES, meter.clone()),
        events: MeteredSlab::new(EVENTS, meter.clone()),
    })
}

/// Job-level information for the ranks of a job.
pub(super) fn describe(scenario: &Scenario, plan: &JobPlan) -> Option<Shared> {
    let write = |to: &mut Packer<'_>| {
        to.one(Type::KVAL).text(Some(keys::JOB_SIZE)).of(Type::UINT32).u32(plan.size);
        to.one(Type::KVAL).text(Some(keys::SESSION_ARRAY)).of(Type::DATA_ARRAY).of(Type::INFO);
        to.size(1).text(Some(keys::UNIV_SIZE)).u32(0).of(Type::UINT32).u32(scenario.ranks);
        for rank in 0..plan.size {
            to.one(Type::KVAL).text(Some(keys::PROC_BLOB)).of(Type::BYTE_OBJECT).nested(|to| {
                let node = scenario.node(plan.first + rank);
                to.one(Type::PROC_RANK).u32(rank);
                to.one(Type::KVAL).text(Some(keys::NODEID)).of(Type::UINT32).u32(node);
                to.one(Type::KVAL).text(Some(keys::APPNUM)).of(Type::UINT32).u32(0);
            });
        }
    };
    let mut counted = Packer::new(&mut [], Format::PLAIN);
    write(&mut counted);
    Shared::make(counted.len(), |bytes| write(&mut Packer::new(bytes, Format::PLAIN)))
}

impl Host {
    /// Opens the connection of a rank that speaks PMIx.
    pub(super) fn open_pmix(&mut self, rank: u32, now: u64) {
        self.has_callers = true;
        let inbox = Bytes::new(INBOX_BYTES, self.meter.clone());
        let pendings = MeteredSlab::new(EXCHANGES, self.meter.clone());
        let deadline = Some(instant(now + self.patience));
        // There is a place for the connection of every rank, and each has one.
        if let Ok(id) = self.pmix.open(inbox, pendings, deadline)
            && let Some(line) = self.lines.get_mut(index(rank))
        {
            line.talk = Some(Endpoint::Pmix(id));
            self.dialled.insert(id.0, rank);
            self.attention.push(rank);
        }
    }

    /// A client of PMIx may wait for a rank that has exited.
    pub(super) fn report_pmix_gone(&mut self, job: JobId, rank: Rank) {
        if PMIX {
            self.server.pmix(&mut self.pmix).member_gone(job, rank);
        }
    }

    /// Handles an event of a rank that speaks PMIx.
    pub(super) fn pmix_event(&mut self, event: PmixEvent, now: u64, events: &mut Vec<SimEvent>) {
        match event {
            PmixEvent::AdmissionRequested { connection, job, rank, .. } => {
                // A host identifies a peer by the process at the other end.
                let own = self.dialled.get(&connection.0).copied();
                let claimed = self.jobs.rank(job, rank);
                if own.is_some() && own == claimed {
                    let admitted = self.server.pmix(&mut self.pmix).admit(connection);
                    events.extend(admitted.ok().and(own).map(|rank| SimEvent::Joined { rank }));
                } else {
                    self.pmix.refuse(connection, Status::INVALID_CRED);
                }
            }
            PmixEvent::Aborted { job, rank, code, .. } => {
                let named = self.jobs.rank(job, rank);
                self.report_failure(named, ReportedFailure::Aborted(Some(code)), events);
            }
            PmixEvent::HostRequest { connection, pending } => {
                self.take_request(connection, pending, now)
            }
            _ => {}
        }
    }

    /// Starts the requested job; other requests to the owner are not supported by this host.
    fn take_request(&mut self, connection: ConnectionId, pending: usize, now: u64) {
        let (is_spawn, asked) = match self.pmix.request(connection) {
            Some(Request::Spawn { infos, apps }) => (true, self.jobs.wanted_in_pmix(&infos, &apps)),
            _ => (false, None),
        };
        self.pmix.request_read(connection);
        let begun = asked.and_then(|job| {
            let by = (*self.dialled.get(&connection.0)?, self.pmix.peer(connection)?.job);
            self.begin(job, &[], by, SpawnOrigin::Pmix(connection, pending), now)
        });
        if begun.is_none() {
            let status =
                if is_spawn { Status::JOB_FAILED_TO_LAUNCH } else { Status::NOT_SUPPORTED };
            // The connection waits for exactly this answer.
            let _ = self.pmix.answer(connection, pending, status, |_| {});
        }
    }

    /// Sends a rank the name of the job that was started for it.
    pub(super) fn answer_pmix_spawn(&mut self, id: ConnectionId, pending: usize, job: usize) {
        let name = self.jobs.plan(job).name.as_bytes();
        // The requester may have exited.
        let _ = self.pmix.answer(id, pending, Status::SUCCESS, |to| {
            to.one(Type::STRING).text(Some(name));
        });
    }
}

/// Bytes of a message that the server holds for one rank: a commit must fit.
const INBOX_BYTES: usize = 1 << 20;

/// Number of cached events for clients that register later.
const EVENTS: usize = 64;
