//! Requests of PMIx clients that only the launcher can serve: read in one place for the clients of a node,
//! which are ranks, and those of the run, which are tools.

use super::forwarding;
use crate::launch::plan::spawn_request::SpawnRequest;
use crate::operation::PushResult;
use crate::server::pmix::control::JobControl;
use crate::server::pmix::credential::UserIdentity;
use crate::server::pmix::forwarding::InputPush;
use crate::server::pmix::host_request::{PmixCalls, Wish};
use crate::server::pmix::log::LogRequest;
use crate::server::pmix::monitor::MonitorRequest;
use crate::stdio::forward::OutputPull;
use pmi_core::ids::{JobId, SessionId};
use pmi_core::wire::pmix::names::{Status, keys};

/// A request: its session, and its number there.
pub(crate) type Asked = (SessionId, usize);

/// Part of the launcher whose server has PMIx clients. Functions that return `None` have answered, or will.
pub(crate) trait ClientHost {
    /// The server's calls about pending requests.
    fn calls(&mut self) -> PmixCalls<'_>;

    /// Executes job control of a rank of this job, or of a tool.
    fn control(&mut self, asked: Asked, by: JobId, request: JobControl) -> Option<Status>;

    /// Starts a job for a rank, or for a tool.
    fn spawn(&mut self, asked: Asked, by: (JobId, u32), request: SpawnRequest);

    /// Answers a query, for the memory of processes, too, if that is wanted.
    fn query(&mut self, asked: Asked, wants_memory: bool);

    /// Writes a log entry.
    fn log(&mut self, by: (JobId, u32), entry: &LogRequest) -> Status;

    /// Starts or ends monitors of files for a session of a rank.
    fn monitor(&mut self, session: SessionId, by: (JobId, u32), request: MonitorRequest) -> Status;

    /// User and group of a rank, if its process is known.
    fn identity(&self, rank: (JobId, u32)) -> Option<UserIdentity>;

    /// Adds a request for output, and returns its number; `None` if the output is elsewhere.
    fn pull(&mut self, session: SessionId, pull: OutputPull) -> Option<u64>;

    /// Ends a request for output; false if the session has none with this number.
    fn withdraw(&mut self, session: SessionId, number: u64) -> bool;

    /// Gives input to ranks.
    fn push(&mut self, asked: Asked, push: InputPush) -> Option<PushResult>;
}

/// Reads and executes the pending request of a client.
pub(crate) fn serve(host: &mut impl ClientHost, asked: Asked) {
    let status = match host.calls().wish(asked.0) {
        Wish::JobControl(by, request) => host.control(asked, by, request),
        Wish::Spawn(job, rank, request) => {
            host.spawn(asked, (job, rank), request);
            None
        }
        Wish::Query => {
            let wants_memory = host.calls().query_names(asked.0, &[keys::QUERY_MEMORY_USAGE]);
            host.query(asked, wants_memory);
            None
        }
        Wish::Log(job, rank, entry) => Some(host.log((job, rank), &entry)),
        Wish::Monitor(job, rank, request) => Some(host.monitor(asked.0, (job, rank), request)),
        Wish::Credential(job, rank) => match host.identity((job, rank)) {
            Some(identity) => {
                host.calls().answer_credential(asked, identity);
                None
            }
            None => Some(Status::NOT_SUPPORTED),
        },
        Wish::Validated(identity) => {
            host.calls().answer_validated(asked, identity);
            None
        }
        Wish::PullOutput(pull) => match host.pull(asked.0, pull) {
            Some(number) => {
                host.calls().answer_pull(asked, number);
                None
            }
            None => Some(Status::NOT_SUPPORTED),
        },
        Wish::WithdrawOutput(number) => Some(match host.withdraw(asked.0, number) {
            true => Status::SUCCESS,
            false => Status::NOT_FOUND,
        }),
        Wish::PushInput(push) => host.push(asked, push).map(forwarding::status),
        Wish::Refused(status) => Some(status),
    };
    if let Some(status) = status {
        host.calls().answer(asked, status);
    }
}
