//! Events for the owner of a server.

use pmi_core::command::{Pair, Request, Text};
use pmi_core::ids::{JobId, SessionId};
use pmi_core::server::{Event, Server};

use super::HeapStorage;

/// An event for the owner of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerEvent {
    /// A rank aborts its job: terminate the processes.
    Aborted {
        /// Its job.
        job: JobId,
        /// The rank.
        rank: u32,
        /// Exit code that it requests.
        code: Option<i32>,
        /// False if only this rank is to be terminated.
        is_whole_job: bool,
        /// Message of the rank.
        message: Vec<u8>,
    },
    /// A rank requests processes; it waits for [`answer_spawn`](super::PmiServer::answer_spawn).
    SpawnRequested(SpawnRequest),
    /// A rank requests something about a published name, if the owner
    /// [serves them](super::PmiServer::serve_names_by_owner); it waits for
    /// [`answer_name`](super::PmiServer::answer_name).
    NameRequested(NameServiceRequest),
    /// A fence of this job can never end, because a rank is gone.
    FenceStuck {
        /// The job.
        job: JobId,
        /// The rank that is gone.
        gone: u32,
    },
    /// The connection of a rank has ended.
    Disconnected {
        /// Its job.
        job: JobId,
        /// The rank.
        rank: u32,
        /// True if it has ended its session; otherwise it has failed, unless it never uses PMI.
        is_finalized: bool,
    },
}

/// Identity of a spawn that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpawnId {
    pub(super) session: SessionId,
    pub(super) exchange: usize,
}

impl SpawnId {
    /// The identity as a number, for owners in other languages.
    pub fn to_bits(self) -> u64 {
        let exchange = u32::try_from(self.exchange).unwrap_or(u32::MAX);
        u64::from(self.session.0) << 32 | u64::from(exchange)
    }

    /// The identity of this number; [`answer_spawn`](super::PmiServer::answer_spawn) refuses one that no
    /// spawn has.
    pub fn from_bits(bits: u64) -> Self {
        let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or_default();
        Self { session: SessionId(half(bits >> 32)), exchange: half(bits) as usize }
    }
}

/// Identity of a request about a published name, for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameServiceId(pub(super) SpawnId);

impl NameServiceId {
    /// The identity as a number, for owners in other languages.
    pub fn to_bits(self) -> u64 {
        self.0.to_bits()
    }

    /// The identity of this number; [`answer_name`](super::PmiServer::answer_name) refuses one that no
    /// request has.
    pub fn from_bits(bits: u64) -> Self {
        Self(SpawnId::from_bits(bits))
    }
}

/// A request about a published name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameServiceRequest {
    /// Identity, for the answer.
    pub id: NameServiceId,
    /// Job of the rank that requests it.
    pub job: JobId,
    /// The rank.
    pub rank: u32,
    /// Name of the service.
    pub service: Vec<u8>,
    /// What is requested about it.
    pub operation: NameOperation,
}

/// Operation on a published name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameOperation {
    /// The name is published with this port, until the job ends or it is withdrawn.
    Publish(Vec<u8>),
    /// The name is withdrawn.
    Unpublish,
    /// The port of the name is looked up.
    Lookup,
}

/// A request for new processes, which become one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpawnRequest {
    /// Identity, for the answer.
    pub id: SpawnId,
    /// Job of the rank that requests it.
    pub job: JobId,
    /// The programs, in the order of their ranks.
    pub programs: Vec<SpawnProgram>,
    /// Pairs for the key-value space of the new job.
    pub preputs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// One program of a spawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpawnProgram {
    /// The executable.
    pub executable: Vec<u8>,
    /// Its arguments, without its own name.
    pub arguments: Vec<Vec<u8>>,
    /// Number of processes.
    pub processes: u32,
    /// Hints; unknown ones may be ignored.
    pub info: Vec<(Vec<u8>, Vec<u8>)>,
}

impl ServerEvent {
    /// The event as its owner gets it; `None` for one that only a server of several nodes has.
    pub(super) fn of(server: &mut Server<HeapStorage>, event: Event) -> Option<Self> {
        Some(match event {
            Event::Aborted { job, rank, code, world, message } => {
                let message = message.as_bytes().to_vec();
                Self::Aborted { job, rank: rank.0, code, is_whole_job: world, message }
            }
            Event::Spawn { session, exchange } => {
                let request = SpawnRequest::read(server, SpawnId { session, exchange });
                server.spawn_read(session);
                Self::SpawnRequested(request?)
            }
            Event::NameRequested { session, exchange } => {
                let id = NameServiceId(SpawnId { session, exchange });
                Self::NameRequested(NameServiceRequest::read(server, id)?)
            }
            Event::FenceStuck { job, gone } => Self::FenceStuck { job, gone: gone.0 },
            _ => return None,
        })
    }
}

impl NameServiceRequest {
    fn read(server: &Server<HeapStorage>, id: NameServiceId) -> Option<Self> {
        let (job, rank) = server.peer(id.0.session)?;
        let text = |text: Text<'_>| text.bytes().collect::<Vec<u8>>();
        let (service, operation) = match server.name_request(id.0.session)? {
            Request::Publish { service, port } => (service, NameOperation::Publish(text(port))),
            Request::Unpublish { service } => (service, NameOperation::Unpublish),
            Request::Lookup { service } => (service, NameOperation::Lookup),
            _ => return None,
        };
        Some(Self { id, job, rank: rank?.0, service: text(service), operation })
    }
}

impl SpawnRequest {
    fn read(server: &Server<HeapStorage>, id: SpawnId) -> Option<Self> {
        let (job, _) = server.peer(id.session)?;
        let request = server.spawn_request(id.session)?;
        let text = |text: Text<'_>| text.bytes().collect::<Vec<u8>>();
        let pair = |pair: Pair<'_>| (text(pair.key), text(pair.value));
        let programs = request.programs().map(|program| SpawnProgram {
            executable: text(program.executable),
            arguments: program.arguments.iter().map(text).collect(),
            processes: program.processes,
            info: program.info.iter().map(pair).collect(),
        });
        let preputs = request.preputs().map(pair).collect();
        Some(Self { id, job, programs: programs.collect(), preputs })
    }
}
