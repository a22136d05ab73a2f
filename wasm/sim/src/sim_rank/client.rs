//! The shipped client of a rank: of PMI, or of PMIx.

use super::{Waiting, services};
use crate::event::{Received, ReplyBody};
use crate::scenario::{Dialect, Group, Home, PMIX, RankRequest, Scenario};
use crate::storage::{Bytes, Meter};
use pmi_core::client::pmix::{Datum, Object, PmixBuffers, PmixRequest, ProcIdentity};
use pmi_core::client::{self, BUFFER_BYTES, Client, State, pmix};
use pmi_core::error::{Full, Misuse, PeerError};
use pmi_core::ids::KvsName;
use pmi_core::machine::Machine;
use pmi_core::time::Instant;
use pmi_core::wire::pmix::greeting::Credential;
use pmi_core::wire::pmix::names::keys;
use pmi_core::wire::pmix::{Family, Format, Proc, ranks};

/// A client.
#[derive(Debug)]
pub(super) enum RankClient {
    Pmi(Box<Client<Bytes, SLOTS>>),
    Pmix(Box<pmix::PmixClient<Bytes, SLOTS>>),
}

/// Identifies a request of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestToken {
    Pmi(client::Ticket),
    Pmix(pmix::PmixTicket),
}

/// Output of a client for its rank.
#[derive(Debug)]
pub(super) enum ClientOutput {
    /// Reply to a request.
    Reply(RequestToken, Received),
    /// An event for which the rank has registered.
    Event(PmixEvent),
}

/// An event of PMIx.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PmixEvent {
    /// Its code.
    pub(super) code: i32,
    /// The rank that it concerns, in its own job.
    pub(super) source: u32,
}

impl RankClient {
    /// The client of `rank`, in its initial state.
    pub(super) fn new(scenario: &Scenario, rank: u32, meter: &Meter) -> Self {
        let bytes = |max| Bytes::new(max, meter.clone());
        if !PMIX || scenario.plan(rank).dialect != Dialect::Pmix {
            return Self::Pmi(Box::new(Client::new(bytes(BUFFER_BYTES))));
        }
        let home: Home = scenario.home(rank);
        let name = scenario.all_jobs().nth(home.job).map(|job| job.name).unwrap_or_default();
        // Libraries of several releases meet in one job, and what one has packed the other unpacks.
        let family = if home.own(rank).is_multiple_of(2) { Family::Flex } else { Family::Fixed };
        let identity = ProcIdentity {
            nspace: KvsName::new(name.as_bytes()).expect("names were checked with the scenario"),
            rank: home.own(rank),
            credential: Some(Credential { user: 0, group: 0 }),
            format: Format { family, is_described: false },
        };
        let memory = PmixBuffers {
            request: bytes(PMIX_BYTES),
            response: bytes(PMIX_BYTES),
            puts: bytes(PMIX_BYTES),
            job: bytes(PMIX_BYTES),
        };
        Self::Pmix(Box::new(pmix::PmixClient::new(identity, memory)))
    }

    /// Starts an exchange; the returned bytes must be sent before all later ones.
    ///
    /// # Errors
    ///
    /// Those of the client.
    pub(super) fn start(&mut self, ask: &RankRequest) -> Result<(RequestToken, Vec<u8>), Misuse> {
        let client = match self {
            Self::Pmi(client) => {
                let started = ask.start(client);
                return started.map(|(ticket, bytes)| (RequestToken::Pmi(ticket), bytes));
            }
            Self::Pmix(client) if PMIX => client,
            Self::Pmix(_) => return Err(Misuse::NotRepresentable { what: "PMIx" }),
        };
        let own = client.identity().nspace.clone();
        let proc = |rank| Proc { nspace: own.as_bytes(), rank };
        let unsayable =
            Err(Misuse::NotRepresentable { what: "this in PMIx, as far as the simulator goes" });
        let started = match ask {
            RankRequest::JoinPmix => client.start(&PmixRequest::Init),
            RankRequest::Commit => client.start(&PmixRequest::Commit),
            RankRequest::Fence { group: Group::Job, tag: None } => {
                client.start(&PmixRequest::Fence { procs: &[], collect: true, timeout_s: None })
            }
            RankRequest::Fence { group: Group::Ranks(ranks, _), tag: None } => {
                let procs: Vec<Proc<'_>> = ranks.iter().map(|rank| proc(*rank)).collect();
                client.start(&PmixRequest::Fence { procs: &procs, collect: true, timeout_s: None })
            }
            RankRequest::GetOf { rank, key, now, .. } => client.start(&PmixRequest::Get {
                of: proc(rank.unwrap_or(ranks::UNDEF)),
                key: Some(key),
                immediate: *now,
                timeout_s: None,
            }),
            RankRequest::Finalize => client.start(&PmixRequest::Finalize),
            RankRequest::Abort { code, message } => {
                client.start(&PmixRequest::Abort { code: *code, message })
            }
            other => match services::start(client, other) {
                Some(started) => started,
                None => return unsayable,
            },
        };
        started.map(|ticket| (RequestToken::Pmix(ticket), Vec::new()))
    }

    /// Executes a request that the client completes without the server: it keeps a put until the
    /// commit, and knows the job-level information.
    pub(super) fn answer(&mut self, ask: &RankRequest) -> Option<Result<Received, Misuse>> {
        let client = match self {
            Self::Pmix(client) if PMIX => client,
            _ => return None,
        };
        let said = match ask {
            RankRequest::PutFor { scope, key, value } => {
                client.put(*scope, key, Datum::Text(value)).map(|()| ReplyBody::Nothing)
            }
            RankRequest::AppNum => Ok(number(client, keys::APPNUM)),
            RankRequest::Universe => Ok(number(client, keys::UNIV_SIZE)),
            _ => return None,
        };
        let needed = "the server has described the job";
        let said = match client.state() {
            pmix::PmixState::Open { .. } => said,
            _ => Err(Misuse::WrongState { needed }),
        };
        Some(said.map(|said| Received { code: 0, said }))
    }

    /// Consumes bytes, and returns their number.
    ///
    /// # Errors
    ///
    /// An error of the peer.
    pub(super) fn handle_input(&mut self, now: Instant, bytes: &[u8]) -> Result<usize, PeerError> {
        match self {
            Self::Pmi(client) => client.handle_input(now, bytes),
            Self::Pmix(client) if PMIX => client.handle_input(now, bytes),
            Self::Pmix(_) => Ok(bytes.len()),
        }
    }

    /// Handles the end of the stream.
    ///
    /// # Errors
    ///
    /// An end before finalize.
    pub(super) fn handle_end(&mut self, now: Instant) -> Result<(), PeerError> {
        match self {
            Self::Pmi(client) => client.handle_end(now),
            Self::Pmix(client) if PMIX => client.handle_end(now),
            Self::Pmix(_) => Ok(()),
        }
    }

    /// The next message.
    pub(super) fn transmit(&mut self) -> Option<Vec<u8>> {
        let mut out = vec![0; BUFFER_BYTES];
        loop {
            let sent = match self {
                Self::Pmi(client) => client.poll_transmit(&mut out),
                Self::Pmix(client) if PMIX => client.poll_transmit(&mut out),
                Self::Pmix(_) => return None,
            };
            match sent {
                Ok(len) => {
                    out.truncate(len?);
                    return Some(out);
                }
                Err(Full { needed }) => out.resize(needed.max(out.len() + 1), 0),
            }
        }
    }

    /// The next answer or event; `waiting` are the pending requests.
    pub(super) fn recv(&mut self, waiting: &[Waiting]) -> Option<ClientOutput> {
        match self {
            Self::Pmi(client) => match client.poll_event()? {
                client::ClientEvent::Reply { ticket, reply } => {
                    Some(ClientOutput::Reply(RequestToken::Pmi(ticket), Received::new(&reply)))
                }
                _ => None,
            },
            Self::Pmix(_) if !PMIX => None,
            Self::Pmix(client) => match client.poll_event()? {
                pmix::PmixClientEvent::Reply { ticket, status, answer, .. } => {
                    let token = RequestToken::Pmix(ticket);
                    let asked = waiting.iter().find(|waiting| waiting.ticket == token);
                    let said = match asked.map(|waiting| &waiting.ask) {
                        Some(RankRequest::GetOf { rank, key, .. }) if status.0 == 0 => {
                            let mut objects = answer.objects();
                            let value = objects.find_map(|object| found(object, *rank, key));
                            value.map_or(ReplyBody::Missing, ReplyBody::Text)
                        }
                        Some(ask) => services::said(ask, status, &answer),
                        None => ReplyBody::Nothing,
                    };
                    Some(ClientOutput::Reply(token, Received { code: status.0, said }))
                }
                pmix::PmixClientEvent::Happened { code, source, .. } => {
                    Some(ClientOutput::Event(PmixEvent { code: code.0, source: source.rank }))
                }
                _ => None,
            },
        }
    }

    /// State of the session, by name.
    pub(super) fn state(&self) -> &'static str {
        match self {
            Self::Pmi(client) => pmi_name(client.state()),
            Self::Pmix(_) if !PMIX => "fresh",
            Self::Pmix(client) => pmix_name(client.state()),
        }
    }
}

/// The value under `key` in an object of `rank`, or of any process without `rank`.
fn found(mut object: Object<'_>, rank: Option<u32>, key: &[u8]) -> Option<Vec<u8>> {
    let kval = object.kvals.find_map(|kval| kval.ok().filter(|kval| kval.key == key))?;
    let is_meant = rank.is_none_or(|rank| object.of.rank == rank);
    is_meant.then(|| kval.value.text().unwrap_or_default().to_vec())
}

/// The job-level value under `key`.
fn number(client: &pmix::PmixClient<Bytes, SLOTS>, key: &[u8]) -> ReplyBody {
    let number = client.known(client.identity().rank, key).and_then(|value| value.number());
    number.map_or(ReplyBody::Missing, ReplyBody::Number)
}

/// The name of a state of the client of PMI.
const fn pmi_name(state: State) -> &'static str {
    match state {
        State::Fresh { .. } => "fresh",
        State::Greeting => "greeting",
        State::Opening { .. } => "opening",
        State::Open { .. } => "open",
        State::Finalizing { .. } => "finalizing",
        State::Aborting => "aborting",
        State::Ended => "ended",
        State::Failed(_) => "failed",
        // States of later protocols open the session, too.
        _ => "joining",
    }
}

/// The name of a state of the client of PMIx.
const fn pmix_name(state: pmix::PmixState) -> &'static str {
    match state {
        pmix::PmixState::Fresh => "fresh",
        pmix::PmixState::Greeting => "greeting",
        pmix::PmixState::Open { .. } => "open",
        pmix::PmixState::Finalizing { .. } => "finalizing",
        pmix::PmixState::Aborting { .. } => "aborting",
        pmix::PmixState::Ended => "ended",
        pmix::PmixState::Failed(_) => "failed",
        _ => "joining",
    }
}

/// Upper bound of pending requests of a client where its version allows several.
pub(super) const SLOTS: usize = 4;

/// Buffer size, far above the largest job description and the longest commit here.
const PMIX_BYTES: usize = 1 << 24;
