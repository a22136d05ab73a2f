//! Requests of PMIx clients that only the launcher can serve.

use super::control::{Controller, JobControl};
use super::credential::{self, UserIdentity};
use super::forwarding::{self, InputPush};
use super::log::LogRequest;
use super::monitor::MonitorRequest;
use crate::launch::plan::spawn_request::SpawnRequest;
use crate::server::pmix::heap::PmixHeap;
use crate::server::pmix::service::PmixService;
use crate::stdio::forward::OutputPull;
use pmi_core::error::{Code, Misuse};
use pmi_core::ids::{JobId, KvsName, ProcId, Rank, SessionId};
use pmi_core::server::Server;
use pmi_core::server::pmix::{ForwardedOutput, QueryItem};
use pmi_core::wire::pmix::names::{Status, keys};
use pmi_core::wire::pmix::{List, Packer, Query, Request, Type};
use pmi_host_base::storage::Heap;
use pmi_std::Clock;

/// A request that only the launcher can serve. It owns its data, so its message can be dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Job control, by a rank of this job.
    JobControl(JobId, JobControl),
    /// Spawn of new processes.
    Spawn(JobId, u32, SpawnRequest),
    /// Query of the process manager: read with [`PmixCalls::answer_query`].
    Query,
    /// Log entry of a rank or a tool.
    Log(JobId, u32, LogRequest),
    /// Request of a rank about file monitors.
    Monitor(JobId, u32, MonitorRequest),
    /// Credential for a rank.
    Credential(JobId, u32),
    /// Identity of a validated credential; `None` if it is invalid.
    Validated(Option<UserIdentity>),
    /// Request of a tool for output.
    PullOutput(OutputPull),
    /// End of the request with this number.
    WithdrawOutput(u64),
    /// Input of a tool.
    PushInput(InputPush),
    /// Rejected request, with this status.
    Refused(Status),
}

/// Calls of the launcher about pending requests of PMIx clients.
pub(crate) struct PmixCalls<'a> {
    pub(in crate::server) server: &'a mut Server<Heap<PmixHeap>>,
    pub(in crate::server) pmix: &'a mut PmixService,
    pub(in crate::server) clock: &'a Clock,
}

impl PmixCalls<'_> {
    /// Reads the pending request of a client to the launcher, and lets the client continue.
    pub(crate) fn wish(&mut self, session: SessionId) -> Wish {
        let request =
            self.server.pmix_ref().request(session).zip(self.server.pmix_ref().peer(session));
        let Some((request, ProcId { job, rank: Rank(rank) })) = request else {
            return Wish::Refused(Status::NOT_SUPPORTED);
        };
        let is_tool = self.pmix.tools.controls_all(job);
        let own = if is_tool { Controller::Tool(job) } else { Controller::Rank(job) };
        let wish = match request {
            Request::Query(_) => return Wish::Query,
            Request::JobControl { targets, infos } => {
                JobControl::read(self.server, own, &targets, &infos)
                    .map(|control| Wish::JobControl(job, control))
            }
            Request::Spawn { infos, apps } => {
                let request = SpawnRequest::of_apps(&infos, &apps);
                request.map(|request| Wish::Spawn(job, rank, request)).ok_or(Status::NOT_SUPPORTED)
            }
            Request::Log { data, directives, .. } => {
                LogRequest::read(&data, &directives).map(|entry| Wish::Log(job, rank, entry))
            }
            Request::Monitor { what, code, infos } => MonitorRequest::read(&what, code, &infos)
                .map(|request| Wish::Monitor(job, rank, request)),
            Request::GetCredential(infos) => is_ours(&infos).map(|()| Wish::Credential(job, rank)),
            Request::ValidateCredential { credential, infos } => is_ours(&infos).map(|()| {
                Wish::Validated(self.pmix.credentials.check(credential, self.clock.now()))
            }),
            // The library of a rank does not expect output.
            Request::IofPull { procs, infos, channels, reference } if is_tool => {
                let lists = (&procs, &infos);
                forwarding::read_pull(self.server, own, lists, (channels, reference))
                    .map(Wish::PullOutput)
            }
            Request::IofDeregister { reference, .. } if is_tool => {
                Ok(Wish::WithdrawOutput(reference))
            }
            Request::IofPush { procs, infos, data } if is_tool => {
                forwarding::read_push(self.server, own, (&procs, &infos), data).map(Wish::PushInput)
            }
            _ => Err(Status::NOT_SUPPORTED),
        };
        self.server.pmix().request_read(session);
        wish.unwrap_or_else(Wish::Refused)
    }

    /// True if a pending query contains one of these keys.
    pub(crate) fn query_names(&self, session: SessionId, wanted: &[&[u8]]) -> bool {
        let Some(Request::Query(queries)) = self.server.pmix_ref().request(session) else {
            return false;
        };
        let mut queries = queries.each(Type::QUERY, Query::read);
        queries.any(|query| query.keys.iter().any(|key| wanted.contains(&key)))
    }

    /// Answers a query and lets the client continue. `own` provides values that only the launcher knows.
    pub(crate) fn answer_query(
        &mut self,
        (session, exchange): (SessionId, usize),
        own: impl Fn(&QueryItem<'_>, &mut Packer<'_>) -> Result<(), Status>,
    ) {
        // The session may be closed meanwhile.
        let _ = self.server.pmix().answer_query(session, exchange, own);
        self.server.pmix().request_read(session);
    }

    /// Answers a query with a status and lets the client continue.
    pub(crate) fn refuse_query(&mut self, asked: (SessionId, usize), status: Status) {
        self.answer(asked, status);
        self.server.pmix().request_read(asked.0);
    }

    /// Answers a client with a credential for its identity.
    pub(crate) fn answer_credential(
        &mut self,
        (session, exchange): (SessionId, usize),
        identity: UserIdentity,
    ) {
        let made = self.pmix.credentials.make(identity, self.clock.now());
        let Ok(made) = made else {
            return self.answer((session, exchange), Status::NOT_SUPPORTED);
        };
        // The session may be closed meanwhile.
        let _ = self.server.pmix().answer(session, exchange, Status::SUCCESS, |to| {
            to.one(Type::BYTE_OBJECT).blob(&made).one(Type::SIZE).size(1).one(Type::INFO);
            to.text(Some(keys::CREDENTIAL_TYPE)).u32(0).of(Type::STRING);
            to.text(Some(credential::TYPE));
        });
    }

    /// Answers a client with the identity of a validated credential.
    pub(crate) fn answer_validated(
        &mut self,
        (session, exchange): (SessionId, usize),
        identity: Option<UserIdentity>,
    ) {
        let Some(UserIdentity { user, group }) = identity else {
            return self.answer((session, exchange), Status::INVALID_CRED);
        };
        // The session may be closed meanwhile.
        let _ = self.server.pmix().answer(session, exchange, Status::SUCCESS, |to| {
            to.one(Type::SIZE).size(3).op(Type::INFO, 3);
            to.text(Some(keys::CREDENTIAL_TYPE)).u32(0).of(Type::STRING);
            to.text(Some(credential::TYPE));
            to.text(Some(keys::USER_ID)).u32(0).of(Type::UINT32).u32(user);
            to.text(Some(keys::GROUP_ID)).u32(0).of(Type::UINT32).u32(group);
        });
    }

    /// Answers a tool with the number of its request for output.
    pub(crate) fn answer_pull(&mut self, (session, exchange): (SessionId, usize), number: u64) {
        // The session may be closed meanwhile.
        let _ = self.server.pmix().answer(session, exchange, Status::SUCCESS, |to| {
            to.one(Type::SIZE).size(number);
        });
    }

    /// Sends output to a tool.
    pub(crate) fn send_output(
        &mut self,
        session: SessionId,
        output: &ForwardedOutput<'_>,
    ) -> Result<(), Misuse> {
        self.server.pmix().send_output(session, output)
    }

    /// Sessions of tools that were closed since the last call.
    pub(crate) fn take_closed_tools(&mut self) -> Vec<SessionId> {
        self.pmix.tools.take_closed()
    }

    /// True if this is a session of the rank.
    pub(crate) fn is_of(&self, session: SessionId, (job, rank): (JobId, u32)) -> bool {
        self.server.pmix_ref().peer(session) == Some(ProcId { job, rank: Rank(rank) })
    }

    /// Name of the job of a tool.
    pub(crate) fn tool_name(&self, session: SessionId) -> Option<String> {
        self.job_name(self.server.pmix_ref().peer(session)?.job)
    }

    /// Name of a job, which may be that of a tool.
    pub(crate) fn job_name(&self, job: JobId) -> Option<String> {
        let name = self.server.job(job)?.name().as_bytes();
        Some(String::from_utf8_lossy(name).into_owned())
    }

    /// Answers a client with a status.
    pub(crate) fn answer(&mut self, (session, exchange): (SessionId, usize), status: Status) {
        // The session may be closed meanwhile.
        let _ = self.server.pmix().answer(session, exchange, status, |_| {});
    }

    /// Answers a spawn request with the new job, or the cause of its failure.
    pub(in crate::server) fn answer_spawn(
        &mut self,
        (session, exchange): (SessionId, usize),
        made: Result<JobId, Code>,
    ) {
        let name = made.ok().and_then(|job| Some(self.server.job(job)?.name().clone()));
        let status = match made {
            Ok(_) => Status::SUCCESS,
            Err(Code::NOMEM) => Status::JOB_INSUFFICIENT_RESOURCES,
            Err(Code::INVALID_ARG) => Status::JOB_EXE_NOT_FOUND,
            Err(_) => Status::JOB_FAILED_TO_LAUNCH,
        };
        let name = name.as_ref().map(KvsName::as_bytes);
        // The session may be closed meanwhile.
        let _ = self.server.pmix().answer(session, exchange, status, |to| {
            to.one(Type::STRING).text(name);
        });
    }
}

/// Checks that a request accepts this launcher's type of credentials.
fn is_ours(infos: &List<'_>) -> Result<(), Status> {
    let wanted = infos.find(keys::CREDENTIAL_TYPE).and_then(|value| value.text());
    let mut wanted =
        wanted.into_iter().flat_map(|list| list.split(|byte| *byte == b',')).peekable();
    match wanted.peek().is_none() || wanted.any(|kind| kind == credential::TYPE) {
        true => Ok(()),
        false => Err(Status::NOT_SUPPORTED),
    }
}
