//! Connection of the head of a run to a name server.

use super::{
    NOTICE, NameOutcome, NameQuery, NameResult, NameServerRequest, OTHER_VERSION, Piece, VERSION,
    read, read_key,
};
use crate::operation::{Asker, NameAnswerMessage};
use crate::other_runs::{CONNECT_BYTES, ConnectPart, ConnectResult};
use crate::server::head_server::NameAnswers;
use crate::settings::names::NameSettings;
use pmi_core::wire::pmix::names::Status;
use pmi_host_os::clock;
use pmi_host_os::poller::{Poller, Token};
use pmi_host_os::resolver;
use pmi_nodes::edge::{Edge, EdgeError, EdgeProgress};
use pmi_nodes::handshake::{KnownKey, none};
use pmi_nodes::key::RunKey;
use pmi_nodes::record::CONTENT_MAX;
use pmi_tree::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

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
    /// Jobs of this run: their ends, and those of their processes, are reported to the server.
    jobs: BTreeSet<Vec<u8>>,
    /// Tools that the server knows, by their namespaces.
    publishers: BTreeSet<Vec<u8>>,
    /// Pieces of a result that is not complete.
    pieces: Vec<u8>,
    scratch: Vec<u8>,
}

/// A query without a result.
#[derive(Debug)]
enum WaitingQuery {
    /// Nothing waits for the result.
    Notice,
    /// A session waits for an answer.
    Name {
        /// The session.
        origin: (NodeId, Asker),
        /// Answer if the connection is lost.
        otherwise: NameAnswerMessage,
    },
    /// An operation with processes of other runs.
    Connect,
}

/// Outcome of an operation with processes of other runs.
#[derive(Debug)]
pub(crate) enum ConnectOutcome {
    /// All runs take part.
    Connected(ConnectResult),
    /// It is impossible.
    Failed(Status),
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
        let addresses = resolver::resolve(server).map_err(|error| cannot(&error))?;
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
                        jobs: BTreeSet::new(),
                        publishers: BTreeSet::new(),
                        pieces: Vec::new(),
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
            self.publishers.insert(by.nspace.clone());
        }
        self.query(origin, &request, poller)
    }

    /// Tells the server that a job has been started.
    pub(crate) fn start_job(&mut self, nspace: &[u8], size: u32, poller: &Poller) -> NameUpdate {
        let nspace = nspace.to_vec();
        self.jobs.insert(nspace.clone());
        self.notify(NameServerRequest::JobStarted { nspace, size }, poller)
    }

    /// Tells the server that a process of a job has ended.
    pub(crate) fn end_rank(&mut self, nspace: &[u8], rank: u32, poller: &Poller) -> NameUpdate {
        if !self.jobs.contains(nspace) {
            return NameUpdate::default();
        }
        let nspace = nspace.to_vec();
        self.notify(NameServerRequest::RankEnded { nspace, rank }, poller)
    }

    /// Tells the server that a job has ended, or a tool that it knows.
    pub(crate) fn end_job(&mut self, nspace: &[u8], poller: &Poller) -> NameUpdate {
        if !(self.jobs.remove(nspace) | self.publishers.remove(nspace)) {
            return NameUpdate::default();
        }
        self.notify(NameServerRequest::JobEnded { nspace: nspace.to_vec() }, poller)
    }

    /// Sends the part of this run in an operation with processes of others. Returns the number of the query.
    pub(crate) fn connect(&mut self, part: &ConnectPart, poller: &Poller) -> (u64, NameUpdate) {
        let number = self.next;
        self.next += 1;
        // The types have no serialization that can fail.
        let content = postcard::to_stdvec(part).unwrap_or_default();
        let is_refused = content.len() > CONNECT_BYTES;
        let Some(edge) = self.edge.as_mut().filter(|_| !is_refused) else {
            let status = if is_refused { Status::OUT_OF_RESOURCE } else { Status::UNREACH };
            let connects = vec![(number, ConnectOutcome::Failed(status))];
            return (number, NameUpdate { connects, ..NameUpdate::default() });
        };
        for piece in Piece::all(&content) {
            edge.send(&NameQuery::encode(number, NameServerRequest::Connect(piece)));
        }
        self.waiting.insert(number, WaitingQuery::Connect);
        (number, self.serve(poller))
    }

    /// Withdraws the part of a query.
    pub(crate) fn withdraw(&mut self, query: u64, poller: &Poller) -> NameUpdate {
        self.notify(NameServerRequest::Withdraw { query }, poller)
    }

    fn notify(&mut self, request: NameServerRequest, poller: &Poller) -> NameUpdate {
        let Some(edge) = &mut self.edge else { return NameUpdate::default() };
        edge.send(&NameQuery::encode(self.next, request));
        self.waiting.insert(self.next, WaitingQuery::Notice);
        self.next += 1;
        self.serve(poller)
    }

    fn query(
        &mut self,
        origin: (NodeId, Asker),
        request: &NameServerRequest,
        poller: &Poller,
    ) -> NameUpdate {
        let refusal = |pmi, status: Status| match request {
            NameServerRequest::Pmix { .. } => NameAnswerMessage::Status(status.0),
            _ => pmi,
        };
        let content = NameQuery::encode(self.next, request.clone());
        if !(1..=CONTENT_MAX).contains(&content.len()) {
            let answer = refusal(NameAnswerMessage::NoRoom, Status::OUT_OF_RESOURCE);
            return NameUpdate::answers(vec![(origin, answer)]);
        }
        let otherwise = match request {
            NameServerRequest::Publish { .. } => NameAnswerMessage::NoRoom,
            _ => refusal(NameAnswerMessage::Unknown, Status::UNREACH),
        };
        let Some(edge) = &mut self.edge else {
            return NameUpdate::answers(vec![(origin, otherwise)]);
        };
        edge.send(&content);
        self.waiting.insert(self.next, WaitingQuery::Name { origin, otherwise });
        self.next += 1;
        self.serve(poller)
    }

    /// Moves bytes in both directions. Returns what has arrived.
    pub(crate) fn serve(&mut self, poller: &Poller) -> NameUpdate {
        let mut update = NameUpdate::default();
        let Some(edge) = &mut self.edge else { return update };
        let (waiting, pieces) = (&mut self.waiting, &mut self.pieces);
        let received = edge
            .read(&mut self.scratch, &none, |content| update.add(read(content)?, waiting, pieces));
        let served = received.and_then(|_| edge.flush());
        let watched = edge.watch(Token::NameServer, poller).map_err(EdgeError::from);
        let Err(error) = served.and(watched) else { return update };
        self.edge = None;
        for (number, query) in std::mem::take(&mut self.waiting) {
            match query {
                WaitingQuery::Notice => {}
                WaitingQuery::Name { origin, otherwise } => {
                    update.answers.push((origin, otherwise))
                }
                WaitingQuery::Connect => {
                    update.connects.push((number, ConnectOutcome::Failed(Status::UNREACH)));
                }
            }
        }
        let report = format!(
            "the name server '{}' {error}; names that this run has published are removed there, and further \
             requests of its ranks fail",
            self.server
        );
        NameUpdate { report: Some(report), ..update }
    }
}

/// Outcome of a turn.
#[derive(Debug, Default)]
pub(crate) struct NameUpdate {
    /// Answers for nodes.
    pub(crate) answers: NameAnswers,
    /// Outcomes of operations with processes of other runs, by the numbers of their queries.
    pub(crate) connects: Vec<(u64, ConnectOutcome)>,
    /// Namespaces of jobs of other runs that have ended.
    pub(crate) ended: Vec<Vec<u8>>,
    /// Sentence for the user: the connection is lost.
    pub(crate) report: Option<String>,
}

impl NameUpdate {
    fn answers(answers: NameAnswers) -> Self {
        Self { answers, ..Self::default() }
    }

    /// Adds a result.
    ///
    /// # Errors
    ///
    /// A message that is not part of the protocol.
    fn add(
        &mut self,
        NameResult { version, number, outcome }: NameResult,
        waiting: &mut BTreeMap<u64, WaitingQuery>,
        pieces: &mut Vec<u8>,
    ) -> Result<(), EdgeError> {
        if version != VERSION {
            return Err(OTHER_VERSION);
        }
        if let (NOTICE, NameOutcome::Ended(nspace)) = (number, &outcome) {
            let nspace = nspace.clone();
            self.ended.push(nspace);
            return Ok(());
        }
        let query = waiting.remove(&number);
        let query = query.ok_or(EdgeError::Protocol("no query has its number"))?;
        let outcome = match (query, outcome) {
            (_, NameOutcome::None) => return Ok(()),
            (WaitingQuery::Name { origin, .. }, NameOutcome::Answer(answer)) => {
                self.answers.push((origin, answer));
                return Ok(());
            }
            (WaitingQuery::Connect, NameOutcome::Failed(status)) => {
                ConnectOutcome::Failed(Status(status))
            }
            (WaitingQuery::Connect, NameOutcome::Connected(piece)) => {
                let Some(content) = piece.append_to(pieces)? else {
                    waiting.insert(number, WaitingQuery::Connect);
                    return Ok(());
                };
                ConnectOutcome::Connected(read(&content)?)
            }
            _ => return Err(EdgeError::Protocol("it does not answer its query")),
        };
        self.connects.push((number, outcome));
        Ok(())
    }
}

/// Connects, and waits until both sides have proved the key.
fn connect(address: SocketAddr, key: &RunKey) -> Result<Edge, EdgeError> {
    let mut poller = Poller::new()?;
    let mut edge = Edge::connect(address, (KnownKey::start(key.key()), SILENCE))?;
    let (until, mut ready, mut scratch) = (clock::now() + CONNECT_WITHIN, Vec::new(), [0; 256]);
    loop {
        edge.watch(Token::NameServer, &poller)?;
        poller.wait(Some(until), &mut ready)?;
        let progress = edge.read(&mut scratch, &none, |_| Ok(()))?;
        edge.flush()?;
        if progress == EdgeProgress::Established {
            edge.unwatch(Token::NameServer, &poller)?;
            return Ok(edge);
        }
        if clock::now() >= until {
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        }
    }
}

/// Longest time until a name server has proved the key.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Time without a sign of life of the other machine after which the connection is lost.
pub(super) const SILENCE: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::other_runs::tests::job_part;

    #[test]
    fn results_are_those_of_their_queries() {
        let mut update = NameUpdate::default();
        let origin = (NodeId(1), Asker { session: 2, exchange: 3 });
        let otherwise = NameAnswerMessage::Unknown;
        let mut waiting = BTreeMap::from([
            (0, WaitingQuery::Notice),
            (1, WaitingQuery::Name { origin, otherwise }),
            (2, WaitingQuery::Connect),
            (3, WaitingQuery::Connect),
            (4, WaitingQuery::Connect),
        ]);
        let mut pieces = Vec::new();
        let mut add = |number, outcome| {
            update.add(NameResult { version: VERSION, number, outcome }, &mut waiting, &mut pieces)
        };
        let mut result = ConnectResult { is_partial: true, jobs: vec![job_part()] };
        result.jobs[0].data = vec![7; CONTENT_MAX];
        let content = postcard::to_stdvec(&result).unwrap();
        let split = Vec::from_iter(Piece::all(&content).map(NameOutcome::Connected));
        assert!(split.len() > 1);
        for piece in split {
            add(2, piece).unwrap();
        }
        let answer = || NameOutcome::Answer(NameAnswerMessage::Done);
        add(1, answer()).unwrap();
        add(0, NameOutcome::None).unwrap();
        add(3, NameOutcome::Failed(-61)).unwrap();
        add(NOTICE, NameOutcome::Ended(b"a".to_vec())).unwrap();
        // No query, one that has its result, and another kind of result.
        assert!(add(7, NameOutcome::None).is_err() && add(3, NameOutcome::None).is_err());
        assert!(add(4, answer()).is_err());
        assert_eq!(update.answers, [(origin, NameAnswerMessage::Done)]);
        assert_eq!(update.ended, [b"a".to_vec()]);
        let connects = &update.connects[..];
        let [(2, ConnectOutcome::Connected(read)), (3, ConnectOutcome::Failed(status))] = connects
        else {
            panic!("{connects:?}");
        };
        assert_eq!((read, *status), (&result, Status::LOST_CONNECTION));
    }
}
