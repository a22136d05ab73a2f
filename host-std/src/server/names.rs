//! Published names of a job on several nodes, at the head: the protocol server that holds them, without
//! ranks.

use super::pmix::heap::{self, PmixHeap};
use super::pmix::service::new_server;
use crate::operation::{Asker, ForwardedMessage, NameAnswerMessage, NameMessage};
use pmi_core::ids::{JobId, KvsName, ProcId, Rank};
use pmi_core::server::pmix::{ForwardedRequest, NamesReply};
use pmi_core::server::{JobSpec, NameAnswer, NameRequest, Server};
use pmi_host_base::kvs_budget::{KvsBudget, KvsLimits};
use pmi_host_base::map_kvs::MapKvs;
use pmi_host_base::storage::Heap;
use pmi_tree::NodeId;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Published names, and lookups that wait for one.
#[derive(Debug)]
pub(crate) struct PublishedNames {
    server: Server<Heap<PmixHeap>>,
    budget: Rc<KvsBudget>,
    waiting: Vec<WaitingLookup>,
}

/// A lookup of a PMIx client that waits for a publication.
#[derive(Debug)]
struct WaitingLookup {
    from: NodeId,
    asker: Asker,
    message: ForwardedMessage,
    deadline: Option<Instant>,
}

/// Answers, with the nodes of the askers.
pub(crate) type NameAnswers = Vec<(NodeId, Asker, NameAnswerMessage)>;

impl PublishedNames {
    /// Creates the table for a job of this name and size.
    ///
    /// # Errors
    ///
    /// A name that cannot be served.
    pub(crate) fn new(name: &str, ranks: u32, limits: KvsLimits) -> io::Result<Self> {
        let budget = Rc::new(KvsBudget::new(limits));
        heap::limit_blocks(limits.bytes);
        let server = new_server(MapKvs::new(&budget, "of published names"));
        let mut names = Self { server, budget, waiting: Vec::new() };
        names.add_job(name, ranks)?;
        Ok(names)
    }

    /// Adds the next job of the run, and returns its number.
    ///
    /// # Errors
    ///
    /// A name that cannot be served.
    pub(crate) fn add_job(&mut self, name: &str, ranks: u32) -> io::Result<JobId> {
        let spec = JobSpec {
            name: KvsName::new(name.as_bytes()).map_err(io::Error::other)?,
            spawner: None,
            universe_size: None,
            size: Some(ranks),
            has_uplink: true,
        };
        let kvs = MapKvs::new(&self.budget, name);
        self.server.add_job(spec, Vec::new(), kvs).map_err(io::Error::other)
    }

    /// Executes a request of a node. Returns the answers that are due.
    pub(crate) fn handle(
        &mut self,
        from: NodeId,
        asker: Asker,
        request: NameMessage,
    ) -> NameAnswers {
        let mut answers = Vec::new();
        let request = match &request {
            NameMessage::Publish { by: (job, rank), service, port } => {
                let by = ProcId { job: JobId(*job), rank: Rank(*rank) };
                (by, NameRequest::Publish { service, port })
            }
            NameMessage::Unpublish { service } => (NO_PROC, NameRequest::Unpublish { service }),
            NameMessage::Lookup { service } => (NO_PROC, NameRequest::Lookup { service }),
            NameMessage::Pmix(message) => {
                let (message, deadline) = (message.clone(), None);
                self.serve(WaitingLookup { from, asker, message, deadline }, &mut answers);
                self.retry(&mut answers);
                return answers;
            }
        };
        let answer = match self.server.serve_name(request.0, request.1) {
            NameAnswer::Done => NameAnswerMessage::Done,
            NameAnswer::Port(port) => NameAnswerMessage::Port(port.to_vec()),
            NameAnswer::Exists => NameAnswerMessage::Exists,
            NameAnswer::Unknown => NameAnswerMessage::Unknown,
            NameAnswer::NoRoom => NameAnswerMessage::NoRoom,
        };
        answers.push((from, asker, answer));
        self.retry(&mut answers);
        answers
    }

    /// Removes names that do not outlive their publisher, which has ended.
    pub(crate) fn remove_of(&mut self, (job, rank): (u32, u32)) {
        self.server.pmix().names_owner_gone(JobId(job), Rank(rank));
    }

    /// Answers waiting lookups as far as names are published for them, in the order of their arrival.
    fn retry(&mut self, answers: &mut NameAnswers) {
        let now = Instant::now();
        for lookup in std::mem::take(&mut self.waiting) {
            if lookup.deadline.is_none_or(|deadline| deadline > now) {
                self.serve(lookup, answers);
            }
        }
    }

    fn serve(&mut self, lookup: WaitingLookup, answers: &mut NameAnswers) {
        let ForwardedMessage { job, rank, format, body } = &lookup.message;
        let peer = ProcId { job: JobId(*job), rank: Rank(*rank) };
        let request = ForwardedRequest { peer, format: *format, body };
        match self.server.pmix().serve_names(request, lookup.from.0) {
            NamesReply::Answer(body) => {
                let body = body.map(|body| body.as_ref().to_vec()).unwrap_or_default();
                answers.push((lookup.from, lookup.asker, NameAnswerMessage::Pmix(body)));
            }
            NamesReply::Wait { seconds } => {
                let limit = seconds.map(Duration::from_secs);
                let until = limit.and_then(|limit| Instant::now().checked_add(limit));
                let deadline = lookup.deadline.or(until);
                self.waiting.push(WaitingLookup { deadline, ..lookup });
            }
        }
    }
}

/// PMI does not record the process that looks up or unpublishes a name.
const NO_PROC: ProcId = ProcId { job: JobId(0), rank: Rank(0) };

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(session: u32) -> Asker {
        Asker { session, exchange: 1 }
    }

    fn publish(service: &[u8], port: &[u8]) -> NameMessage {
        NameMessage::Publish { by: (0, 3), service: service.to_vec(), port: port.to_vec() }
    }

    #[test]
    fn names_are_the_same_for_all_nodes() {
        let mut names = PublishedNames::new("job", 4, KvsLimits::default()).unwrap();
        let mut request = |node, request| {
            let answers = names.handle(NodeId(node), asker(node), request);
            assert_eq!(answers.len(), 1);
            assert_eq!((answers[0].0, answers[0].1), (NodeId(node), asker(node)));
            answers[0].2.clone()
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
}
