//! Connection of the head of a run to a name server.

use super::super::edge::{Edge, EdgeError, EdgeProgress};
use super::super::key::RunKey;
use super::super::record::CONTENT_MAX;
use super::{NameQuery, NameResult, NameServerRequest, OTHER_VERSION, VERSION, read_key};
use crate::operation::{Asker, NameAnswerMessage};
use crate::poller::{Poller, Token};
use crate::server::head_server::NameAnswers;
use crate::settings::names::NameSettings;
use pmi_core::wire::pmix::names::Status;
use pmi_tree::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Connection to a name server, and the requests that it has not answered.
#[derive(Debug)]
pub(crate) struct NameClient {
    /// `None` once the connection is lost.
    edge: Option<Edge>,
    /// The name server, as the user has named it.
    server: String,
    /// Number of the next query.
    next: u64,
    waiting: BTreeMap<u64, WaitingQuery>,
    /// Processes that the server knows, by their namespaces.
    publishers: BTreeMap<Vec<u8>, BTreeSet<u32>>,
    scratch: Vec<u8>,
}

/// A query without a result.
#[derive(Debug)]
struct WaitingQuery {
    /// `None` if no session waits for the result.
    origin: Option<(NodeId, Asker)>,
    /// Answer if the connection is lost.
    otherwise: NameAnswerMessage,
}

impl NameClient {
    /// Connects to the name server of `settings`, if there is one, and proves the key.
    ///
    /// # Errors
    ///
    /// A message for the user, with the remedy.
    pub(crate) fn open(settings: &NameSettings, poller: &Poller) -> Result<Option<Self>, String> {
        let Some(server) = &settings.server else { return Ok(None) };
        let key = read_key(&settings.key_file()?)?;
        let cannot = |why: &dyn std::fmt::Display| {
            format!(
                "the name server '{server}' cannot be used ({why}); start 'pmi-host name-server', which \
                 prints its address"
            )
        };
        let addresses = server.to_socket_addrs().map_err(|error| cannot(&error))?;
        let mut last: Option<EdgeError> = None;
        for address in addresses {
            match connect(address, &key) {
                Ok(mut edge) => {
                    edge.watch(Token::NameServer, poller).map_err(|error| cannot(&error))?;
                    return Ok(Some(Self {
                        edge: Some(edge),
                        server: server.clone(),
                        next: 0,
                        waiting: BTreeMap::new(),
                        publishers: BTreeMap::new(),
                        scratch: vec![0; CONTENT_MAX],
                    }));
                }
                Err(error) => last = Some(error),
            }
        }
        let why = last.map_or_else(|| "it has no address".to_owned(), |error| error.to_string());
        Err(cannot(&why))
    }

    /// Sends a request of a node. Returns its answer if the connection is lost.
    pub(crate) fn send(
        &mut self,
        origin: (NodeId, Asker),
        request: NameServerRequest,
        poller: &Poller,
    ) -> NameUpdate {
        if let NameServerRequest::Publish { by, .. } | NameServerRequest::Pmix { by, .. } = &request
        {
            self.publishers.entry(by.nspace.clone()).or_default().insert(by.rank);
        }
        self.query(Some(origin), &request, poller)
    }

    /// Tells the server that a process has ended, if it knows the process.
    pub(crate) fn end_rank(&mut self, nspace: &[u8], rank: u32, poller: &Poller) -> NameUpdate {
        if !self.publishers.get_mut(nspace).is_some_and(|ranks| ranks.remove(&rank)) {
            return NameUpdate::answers(Vec::new());
        }
        let nspace = nspace.to_vec();
        self.query(None, &NameServerRequest::RankEnded { nspace, rank }, poller)
    }

    /// Tells the server that a job has ended, if it knows one of its processes.
    pub(crate) fn end_job(&mut self, nspace: &[u8], poller: &Poller) -> NameUpdate {
        if self.publishers.remove(nspace).is_none() {
            return NameUpdate::answers(Vec::new());
        }
        self.query(None, &NameServerRequest::JobEnded { nspace: nspace.to_vec() }, poller)
    }

    fn query(
        &mut self,
        origin: Option<(NodeId, Asker)>,
        request: &NameServerRequest,
        poller: &Poller,
    ) -> NameUpdate {
        let refusal = |pmi, status: Status| match request {
            NameServerRequest::Pmix { .. } => NameAnswerMessage::Status(status.0),
            _ => pmi,
        };
        let query = NameQuery { version: VERSION, number: self.next, request: request.clone() };
        let content = postcard::to_stdvec(&query).unwrap_or_default();
        if !(1..=CONTENT_MAX).contains(&content.len()) {
            let answer = refusal(NameAnswerMessage::NoRoom, Status::OUT_OF_RESOURCE);
            return NameUpdate::answers(Vec::from_iter(origin.map(|origin| (origin, answer))));
        }
        let otherwise = match request {
            NameServerRequest::Publish { .. } => NameAnswerMessage::NoRoom,
            _ => refusal(NameAnswerMessage::Unknown, Status::UNREACH),
        };
        let Some(edge) = &mut self.edge else {
            return NameUpdate::answers(Vec::from_iter(origin.map(|origin| (origin, otherwise))));
        };
        edge.send(&content);
        self.waiting.insert(self.next, WaitingQuery { origin, otherwise });
        self.next += 1;
        self.serve(poller)
    }

    /// Moves bytes in both directions. Returns the answers that have arrived.
    pub(crate) fn serve(&mut self, poller: &Poller) -> NameUpdate {
        let mut answers = Vec::new();
        let Some(edge) = &mut self.edge else { return NameUpdate::answers(answers) };
        let waiting = &mut self.waiting;
        let read = edge.read(&mut self.scratch, |content| {
            let NameResult { version, number, answer } = postcard::from_bytes(content)
                .map_err(|_| EdgeError::Protocol("it is malformed"))?;
            if version != VERSION {
                return Err(OTHER_VERSION);
            }
            let of = waiting.remove(&number);
            let WaitingQuery { origin, .. } =
                of.ok_or(EdgeError::Protocol("no query has its number"))?;
            answers.extend(origin.zip(answer));
            Ok(())
        });
        let served = read.and_then(|_| edge.flush());
        let watched = edge.watch(Token::NameServer, poller).map_err(EdgeError::from);
        let Err(error) = served.and(watched) else { return NameUpdate::answers(answers) };
        self.edge = None;
        let left = std::mem::take(&mut self.waiting).into_values();
        answers.extend(left.filter_map(|query| Some((query.origin?, query.otherwise))));
        let report = format!(
            "the name server '{}' {error}; names that this run has published are removed there, and further \
             requests of its ranks fail",
            self.server
        );
        NameUpdate { answers, report: Some(report) }
    }
}

/// Outcome of a turn.
#[derive(Debug)]
pub(crate) struct NameUpdate {
    /// Answers for nodes.
    pub(crate) answers: NameAnswers,
    /// Sentence for the user: the connection is lost.
    pub(crate) report: Option<String>,
}

impl NameUpdate {
    const fn answers(answers: NameAnswers) -> Self {
        Self { answers, report: None }
    }
}

/// Connects, and waits until both sides have proved the key.
fn connect(address: SocketAddr, key: &RunKey) -> Result<Edge, EdgeError> {
    let mut poller = Poller::new()?;
    let mut edge = Edge::connect(address, (key, SILENCE))?;
    let (until, mut ready, mut scratch) = (Instant::now() + CONNECT_WITHIN, Vec::new(), [0; 256]);
    loop {
        edge.watch(Token::NameServer, &poller)?;
        poller.wait(Some(until), &mut ready)?;
        let progress = edge.read(&mut scratch, |_| Ok(()))?;
        edge.flush()?;
        if progress == EdgeProgress::Established {
            edge.unwatch(Token::NameServer, &poller)?;
            return Ok(edge);
        }
        if Instant::now() >= until {
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        }
    }
}

/// Longest time until a name server has proved the key.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Time without a sign of life of the other machine after which the connection is lost.
pub(super) const SILENCE: Duration = Duration::from_secs(20);
