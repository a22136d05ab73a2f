//! The host's part for ranks that speak PMIx.

use super::{EXCHANGES, Host, instant};
use crate::event::SimEvent;
use crate::ranks::index;
use crate::scenario::{JobPlan, Scenario};
use crate::storage::{Bytes, Meter, MeteredPmix, MeteredSlab, Shared};
use pmi_core::ids::SessionId;
use pmi_core::server::Event;
use pmi_core::server::pmix::{PmixTables, SharedBytes};
use pmi_core::wire::pmix::names::{Status, keys};
use pmi_core::wire::pmix::{Format, Packer, Request, Type};

/// Storage of PMIx sessions for this scenario.
pub(super) fn tables(scenario: &Scenario, meter: &Meter) -> PmixTables<MeteredPmix> {
    let ranks = index(scenario.ranks);
    PmixTables {
        sessions: MeteredSlab::new(ranks, meter.clone()),
        jobs: MeteredSlab::new(scenario.all_jobs().count(), meter.clone()),
        collectives: MeteredSlab::new(ranks * EXCHANGES, meter.clone()),
        names: MeteredSlab::new(ranks * EXCHANGES, meter.clone()),
        groups: MeteredSlab::new(ranks * EXCHANGES, meter.clone()),
        events: MeteredSlab::new(EVENTS, meter.clone()),
    }
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
    /// Opens the session of a rank that speaks PMIx.
    pub(super) fn open_pmix(&mut self, rank: u32, now: u64) {
        self.has_callers = true;
        let inbox = Bytes::new(INBOX_BYTES, self.meter.clone());
        let pendings = MeteredSlab::new(EXCHANGES, self.meter.clone());
        let deadline = Some(instant(now + self.patience));
        // There is a place for the session of every rank, and each has one.
        let opened = self.server.pmix().open(inbox, pendings, deadline);
        self.connect(rank, opened);
    }

    /// Handles an event of a rank that speaks PMIx.
    pub(super) fn pmix_event(&mut self, event: Event, now: u64, events: &mut Vec<SimEvent>) {
        match event {
            Event::AdmissionRequested { session, job, rank, .. } => {
                // A host identifies a peer by the process at the other end.
                let own = self.ranks.get(&session.0).copied();
                let claimed = self.jobs.rank(job, rank);
                if own.is_some() && own == claimed {
                    let admitted = self.server.pmix().admit(session);
                    events.extend(admitted.ok().and(own).map(|rank| SimEvent::Joined { rank }));
                } else {
                    self.server.pmix().refuse(session, Status::INVALID_CRED);
                }
            }
            Event::HostRequest { session, exchange } => self.take_request(session, exchange, now),
            _ => {}
        }
    }

    /// Starts the requested job; other requests to the owner are not supported by this host.
    fn take_request(&mut self, session: SessionId, exchange: usize, now: u64) {
        let (is_spawn, asked) = match self.server.pmix_ref().request(session) {
            Some(Request::Spawn { infos, apps }) => (true, self.jobs.wanted_in_pmix(&infos, &apps)),
            _ => (false, None),
        };
        self.server.pmix().request_read(session);
        let begun = asked.and_then(|job| {
            let by = (*self.ranks.get(&session.0)?, self.server.peer(session)?.0);
            self.begin(job, &[], by, (session, exchange), now)
        });
        if begun.is_none() {
            let status =
                if is_spawn { Status::JOB_FAILED_TO_LAUNCH } else { Status::NOT_SUPPORTED };
            // The session waits for exactly this answer.
            let _ = self.server.pmix().answer(session, exchange, status, |_| {});
        }
    }

    /// Sends a rank the name of the job that was started for it.
    pub(super) fn answer_pmix_spawn(&mut self, id: SessionId, exchange: usize, job: usize) {
        let name = self.jobs.plan(job).name.as_bytes();
        // The requester may have exited.
        let _ = self.server.pmix().answer(id, exchange, Status::SUCCESS, |to| {
            to.one(Type::STRING).text(Some(name));
        });
    }
}

/// Bytes of a message that the server holds for one rank: a commit must fit.
const INBOX_BYTES: usize = 1 << 20;

/// Number of cached events for clients that register later.
const EVENTS: usize = 64;
