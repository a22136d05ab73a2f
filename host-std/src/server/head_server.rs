//! Protocol server of the head of a run on several nodes. It has all jobs of the run, without ranks; it holds
//! the published names for the clients of all nodes, and its own clients are PMIx tools.

use super::name_lookups::{self, ClientRequest, NameLookups};
use super::service::Service;
use crate::launch::plan::job::Plan;
use crate::launch::plan::local_ranks::LocalRanks;
use crate::operation::{Asker, ForwardedMessage, NameAnswerMessage, NameMessage};
use crate::placement::PlacedHosts;
use pmi_core::ids::{JobId, ProcId, Rank};
use pmi_core::server::NameRequest;
use pmi_core::server::pmix::{EndedPublisher, ForwardedRequest};
use pmi_host_base::kvs_budget::KvsLimits;
use pmi_host_os::clock;
use pmi_tree::NodeId;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::rc::Rc;

/// Server of the head.
pub(crate) struct HeadServer {
    pub(crate) service: Service,
    /// Jobs of the run at the service, by their numbers in the run: tools are jobs of the service as well.
    jobs: BTreeMap<u32, JobId>,
    /// Spawned jobs that have ended and are still known, the oldest first.
    ended: VecDeque<u32>,
    lookups: NameLookups<(NodeId, Asker)>,
}

/// Answers, with the nodes of the askers.
pub(crate) type NameAnswers = Vec<((NodeId, Asker), NameAnswerMessage)>;

impl HeadServer {
    /// Creates a server without jobs.
    pub(crate) fn new(limits: KvsLimits) -> Self {
        let (jobs, ended, lookups) = (BTreeMap::new(), VecDeque::new(), NameLookups::default());
        Self { service: Service::new(0, limits), jobs, ended, lookups }
    }

    /// Adds the job of `plan`, which has this number in the run, and ranks at these places.
    ///
    /// # Errors
    ///
    /// Errors of a plan that cannot be served, with the cause.
    pub(crate) fn add_job(
        &mut self,
        number: u32,
        plan: &Plan,
        places: &Rc<PlacedHosts>,
    ) -> io::Result<JobId> {
        let job = match plan.placement.hosts {
            Some(_) => self.service.add_job(plan)?,
            // The ranks are those of the node in this process.
            None => {
                let mut plan = plan.clone();
                plan.placement.ranks = LocalRanks::default();
                plan.placement.hosts = Some(Rc::clone(places));
                (plan.pmix, plan.endpoint) = (None, None);
                self.service.add_job(&plan)?
            }
        };
        self.jobs.insert(number, job);
        Ok(job)
    }

    /// Removes published data that does not outlive its job, which has ended, and forgets the oldest of
    /// the spawned jobs that have, of which some stay known: answers and events that are not sent yet
    /// name them.
    pub(crate) fn note_job_end(&mut self, number: u32) {
        if let Some(job) = self.job(number) {
            self.service.server.pmix().names_owner_gone(EndedPublisher::Job(job));
        }
        self.ended.push_back(number);
        if self.ended.len() > ENDED_KEPT
            && let Some(job) = self.ended.pop_front().and_then(|old| self.jobs.remove(&old))
        {
            self.service.remove_job(job);
        }
    }

    /// The job with this number in the run.
    pub(crate) fn job(&self, number: u32) -> Option<JobId> {
        self.jobs.get(&number).copied()
    }

    /// Number in the run of a job of the service; `None` for that of a tool.
    pub(crate) fn number(&self, job: JobId) -> Option<u32> {
        self.jobs().find(|(_, id)| *id == job).map(|(number, _)| number)
    }

    /// Number in the run of the job of this name.
    pub(crate) fn number_of(&self, name: &[u8]) -> Option<u32> {
        let is_its =
            |job| self.service.server.job(job).is_some_and(|job| job.name().as_bytes() == name);
        self.jobs().find(|(_, job)| is_its(*job)).map(|(number, _)| number)
    }

    /// Namespace of a tool, which is this job of the service; `None` for other jobs.
    pub(crate) fn tool_namespace(&self, job: JobId) -> Option<&[u8]> {
        let job = self.service.server.job(job).filter(|_| self.service.is_tool(job))?;
        Some(job.name().as_bytes())
    }

    /// Numbers of all known jobs of the run, each with the job of the service.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = (u32, JobId)> {
        self.jobs.iter().map(|(number, job)| (*number, *job))
    }

    /// The service, and the numbers of jobs there.
    pub(crate) fn parts(&mut self) -> (&mut Service, &BTreeMap<u32, JobId>) {
        (&mut self.service, &self.jobs)
    }

    /// Passes a request of a PMIx client, which all nodes handle, on to the tools.
    pub(crate) fn handle_forwarded(&mut self, message: &ForwardedMessage) {
        if let Some(peer) = self.peer((message.job, message.rank)) {
            let ForwardedMessage { format, body, .. } = message;
            let request = ForwardedRequest { peer, format: *format, body };
            // The node of the client has answered the request, and its errors as well.
            let _ = self.service.server.pmix().handle_forwarded(request);
        }
    }

    fn peer(&self, (job, rank): (u32, u32)) -> Option<ProcId> {
        Some(ProcId { job: self.job(job)?, rank: Rank(rank) })
    }
}

/// Published names.
impl HeadServer {
    /// Executes a request of a node about a name. Returns the answers that are due.
    pub(crate) fn handle_name(
        &mut self,
        from: NodeId,
        asker: Asker,
        request: NameMessage,
    ) -> NameAnswers {
        let mut answers = Vec::new();
        let (by, request) = match &request {
            NameMessage::Publish { by, service, port } => {
                (self.peer(*by).unwrap_or(NO_PROC), NameRequest::Publish { service, port })
            }
            NameMessage::Unpublish { service } => (NO_PROC, NameRequest::Unpublish { service }),
            NameMessage::Lookup { service } => (NO_PROC, NameRequest::Lookup { service }),
            NameMessage::Pmix(ForwardedMessage { job, rank, format, body }) => {
                let peer = self.peer((*job, *rank)).unwrap_or(NO_PROC);
                let body = body.clone();
                let request = ClientRequest { peer, node: from.0, format: *format, body };
                let server = &mut self.service.server;
                self.lookups.serve(server, ((from, asker), request), &mut answers);
                self.drop_expired();
                return answers;
            }
        };
        let server = &mut self.service.server;
        answers.push(((from, asker), name_lookups::serve_pmi(server, by, request)));
        server.pmix().answer_lookups();
        answers.extend(self.answer_waiting());
        answers
    }

    /// Removes names that do not outlive their publisher, which has ended, and its lookups.
    pub(crate) fn remove_names_of(&mut self, rank: (u32, u32)) {
        if let Some(peer) = self.peer(rank) {
            self.service.server.pmix().names_owner_gone(EndedPublisher::Process(peer));
            self.lookups.take_of(|of| of == peer);
        }
    }

    /// Answers waiting lookups as far as names are published for them, in the order of their arrival.
    pub(crate) fn answer_waiting(&mut self) -> NameAnswers {
        let mut answers = Vec::new();
        self.lookups.answer(&mut self.service.server, &mut answers);
        self.drop_expired();
        answers
    }

    /// Forgets lookups that have waited long enough; their nodes have answered them.
    fn drop_expired(&mut self) {
        self.lookups.take_expired(clock::now());
    }
}

/// PMI does not record the process that looks up or unpublishes a name.
const NO_PROC: ProcId = ProcId { job: JobId(0), rank: Rank(0) };

/// Number of ended spawned jobs that stay known.
const ENDED_KEPT: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::plan::job::ParentRank;
    use crate::placement::tests::placed;
    use std::rc::Rc;

    fn asker(session: u32) -> Asker {
        Asker { session, exchange: 1 }
    }

    fn publish(service: &[u8], port: &[u8]) -> NameMessage {
        NameMessage::Publish { by: (0, 3), service: service.to_vec(), port: port.to_vec() }
    }

    /// The plan of a job of four ranks on two nodes, at the head.
    fn places() -> Rc<PlacedHosts> {
        Rc::new(placed("n1:2,n2:2", 4))
    }

    fn plan() -> Plan {
        let mut plan = crate::launch::plan::job::tests::plan(&[("./a", 4)]);
        plan.placement.ranks = Default::default();
        plan.placement.hosts = Some(places());
        plan
    }

    #[test]
    fn names_are_the_same_for_all_nodes() {
        let mut server = HeadServer::new(KvsLimits::default());
        server.add_job(0, &plan(), &places()).unwrap();
        let mut request = |node, request| {
            let answers = server.handle_name(NodeId(node), asker(node), request);
            assert_eq!(answers.len(), 1);
            assert_eq!(answers[0].0, (NodeId(node), asker(node)));
            answers[0].1.clone()
        };
        let lookup = || NameMessage::Lookup { service: b"s".to_vec() };
        assert_eq!(request(1, lookup()), NameAnswerMessage::Unknown);
        assert_eq!(request(1, publish(b"s", b"p;q")), NameAnswerMessage::Done);
        assert_eq!(request(2, publish(b"s", b"p")), NameAnswerMessage::Exists);
        assert_eq!(request(2, lookup()), NameAnswerMessage::Port(b"p;q".to_vec()));
        let unpublish = || NameMessage::Unpublish { service: b"s".to_vec() };
        assert_eq!(request(2, unpublish()), NameAnswerMessage::Done);
        assert_eq!(request(1, unpublish()), NameAnswerMessage::Unknown);
        assert_eq!(request(1, publish(&[b'x'; 2000], b"p")), NameAnswerMessage::NoRoom);
    }

    #[test]
    fn jobs_of_the_run_keep_their_numbers_until_later_ones_have_ended() {
        let mut server = HeadServer::new(KvsLimits::default());
        let numbers = 0..=u32::try_from(ENDED_KEPT).unwrap() + 1;
        for number in numbers.clone() {
            let mut plan = plan();
            plan.kvsname = format!("kvs_{number}");
            let job = server.add_job(number, &plan, &places()).unwrap();
            assert_eq!((server.job(number), server.number(job)), (Some(job), Some(number)));
        }
        numbers.skip(1).for_each(|number| server.note_job_end(number));
        assert_eq!(
            (server.job(0).is_some(), server.job(1), server.job(2).is_some()),
            (true, None, true)
        );
    }

    #[test]
    fn job_is_connected_with_as_many_spawned_ones_as_are_known() {
        let mut server = HeadServer::new(KvsLimits::default());
        let first = plan();
        server.add_job(0, &first, &places()).unwrap();
        let spawn = |server: &mut HeadServer, number: u32| {
            let spawner = ParentRank { kvsname: first.kvsname.clone(), rank: 0 };
            let kvsname = format!("kvs_{number}");
            let plan = Plan { spawner: Some(spawner), kvsname, ..plan() };
            server.add_job(number, &plan, &places())
        };
        let most = u32::try_from(pmi_core::limits::JOB_LINKS).unwrap();
        for number in 1..=most {
            spawn(&mut server, number).unwrap();
        }
        let refused = spawn(&mut server, most + 1).unwrap_err().to_string();
        assert!(refused.contains("connection of the spawning job"), "{refused}");
        (1..=most).for_each(|number| server.note_job_end(number));
        spawn(&mut server, most + 1).unwrap();
    }
}
