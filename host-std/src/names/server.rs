//! `pmi-host name-server`: published names that several launchers share.

use super::client::SILENCE;
use super::connects::{ConnectDue, Connects};
use super::store::{NameStore, QueryId};
use super::{
    NOTICE, NameOutcome, NameQuery, NameResult, NameServerRequest, OTHER_VERSION, PIECE_BYTES,
    PIECES_BYTES, Piece, VERSION, read, read_or_make_key,
};
use crate::operation::NameAnswerMessage;
use crate::settings::names::NameSettings;
use clap::{Arg, Command};
use pmi_core::wire::pmix::names::Status;
use pmi_host_base::exit::{FAILED, complain, line, print, refuse};
use pmi_host_base::usage::UsageError;
use pmi_host_os::admission::limits::RejectionLog;
use pmi_host_os::admission::pending::Pending;
use pmi_host_os::admission::{EVICTED, PENDING_MAX, Policy};
use pmi_host_os::clock;
use pmi_host_os::host_name;
use pmi_host_os::listen::{ACCEPTED_AT_ONCE, Listener};
use pmi_host_os::poller::{Poller, Token};
use pmi_nodes::edge::{self, Edge, EdgeError, EdgeProgress};
use pmi_nodes::handshake::{HandshakeError, KeyId};
use pmi_nodes::key::RunKey;
use pmi_nodes::record::CONTENT_MAX;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Defines the command.
pub(crate) fn define() -> Command {
    Command::new(NAME_SERVER)
        .about("Hold published names for several launchers (run --name-server)")
        .arg(
            Arg::new(LISTEN)
                .long(LISTEN)
                .value_name("ADDRESS:PORT")
                .value_parser(clap::value_parser!(SocketAddr))
                .default_value("0.0.0.0:0")
                .help("address at which launchers connect; port 0 is any"),
        )
        .arg(
            Arg::new(KEY)
                .long(KEY)
                .value_name("FILE")
                .value_parser(clap::value_parser!(PathBuf))
                .help(
                    "file of the key that launchers prove, which is made if there is none (default: \
                     name-server.key beside the settings file)",
                ),
        )
        .after_help(
            "It runs until it is terminated. A name is removed when the run that has published it \
             ends; PMIx data with PMIX_PERSIST_INDEF stays.\n\n\
             pmi-host name-server --listen 0.0.0.0:7700 &\n\
             pmi-host run -n 1 --name-server localhost:7700 ./server",
        )
}

/// Runs the command.
pub(crate) fn run(words: Vec<OsString>) -> ExitCode {
    let matches = match define().no_binary_name(true).try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) if !error.use_stderr() => return print(&error.to_string()),
        Err(error) => {
            let why = error.to_string().lines().next().unwrap_or_default().to_owned();
            return refuse(&UsageError::Value { given: NAME_SERVER.to_owned(), why });
        }
    };
    let key_file = matches.get_one::<PathBuf>(KEY).cloned();
    let address = matches.get_one::<SocketAddr>(LISTEN).copied();
    let settings = NameSettings { server: None, key_file };
    let key = settings.key_file().and_then(|path| Ok((read_or_make_key(&path)?, path)));
    match (key, address) {
        (Ok((key, path)), Some(address)) => {
            let why = match NameServer::open(key, address) {
                Ok(mut server) => {
                    server.announce(&path);
                    server.serve().map_or_else(|error| error.to_string(), |never| match never {})
                }
                Err(error) => format!(
                    "it cannot accept connections at {address}: {error}; specify another address with \
                     '--listen'"
                ),
            };
            complain(&format_args!("the name server cannot go on: {why}"), FAILED)
        }
        (Err(why), _) => complain(&why, FAILED),
        (_, None) => ExitCode::from(FAILED),
    }
}

/// State of the name server.
struct NameServer {
    key: RunKey,
    poller: Poller,
    listener: Listener,
    links: BTreeMap<u32, NameLink>,
    /// Number of the next connection.
    next: u32,
    /// Connections that have not proved the key.
    pending: Pending<u32>,
    rejections: RejectionLog,
    names: NameStore,
    connects: Connects,
}

/// Connection of a launcher.
struct NameLink {
    edge: Edge,
    /// End of the handshake; `None` once the key is proved.
    deadline: Option<Instant>,
    /// Pieces of the part of an operation that is not complete.
    pieces: Vec<u8>,
    /// Results for which the connection had no room.
    waiting: VecDeque<Vec<u8>>,
}

/// A result, and the query that it belongs to.
type Due = (QueryId, NameOutcome);

/// No value: the server only ends by an error.
enum Never {}

impl NameServer {
    fn open(key: RunKey, address: SocketAddr) -> io::Result<Self> {
        let poller = Poller::new()?;
        let listener = Listener::open(address, Token::NodeListen, Policy::Secret, &poller)?;
        edge::prepare(&listener, SILENCE)?;
        Ok(Self {
            key,
            poller,
            listener,
            links: BTreeMap::new(),
            next: 0,
            pending: Pending::default(),
            rejections: RejectionLog::default(),
            names: NameStore::new(),
            connects: Connects::default(),
        })
    }

    /// Tells the user the address for launchers. One that stands for all of this machine has the name of it.
    fn announce(&self, key_file: &Path) {
        let (ip, port) = (self.listener.address.ip(), self.listener.address.port());
        let shown = match ip {
            ip if ip.is_unspecified() => {
                let name = host_name::own();
                format!("{name}:{port}")
            }
            IpAddr::V4(_) | IpAddr::V6(_) => self.listener.address.to_string(),
        };
        let text = format!(
            "names are held at {shown} for launchers with '--name-server {shown}' and the key in '{}'\n",
            key_file.display()
        );
        // Without a reader of its output it serves as well.
        let mut out = io::stdout();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    fn serve(&mut self) -> io::Result<Never> {
        let mut ready = Vec::new();
        let mut scratch = vec![0; CONTENT_MAX];
        loop {
            let deadlines = self.links.values().filter_map(|link| link.deadline);
            let until =
                deadlines.chain(self.listener.paused_until).chain(self.names.deadline()).min();
            self.poller.wait(until, &mut ready)?;
            for token in &ready {
                match *token {
                    Token::NodeListen => self.accept()?,
                    Token::Node(number) => self.serve_link(number, &mut scratch),
                    _ => {}
                }
            }
            let now = clock::now();
            self.listener.tick(now, &self.poller)?;
            let is_over = |link: &NameLink| link.deadline.is_some_and(|deadline| now >= deadline);
            let over = self.links.iter().filter(|(_, link)| is_over(link));
            for number in Vec::from_iter(over.map(|(number, _)| *number)) {
                self.close(number, &io::Error::from(io::ErrorKind::TimedOut).into());
            }
            let expired = self.names.expire(now).into_iter();
            self.send(expired.map(|(query, _)| (query, NameOutcome::None)).collect());
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        for _ in 0..ACCEPTED_AT_ONCE {
            let Some(arrival) = self.listener.accept(&self.poller)? else { break };
            for surplus in self.pending.surplus(PENDING_MAX) {
                self.close(surplus, &EdgeError::Protocol(EVICTED));
            }
            // A connection that is closed already is no fault of this side.
            let Ok(edge) = Edge::accepted(arrival.stream, arrival.from.to_string(), None) else {
                continue;
            };
            let number = self.next;
            self.next = number.wrapping_add(1);
            let deadline = Some(clock::now() + HANDSHAKE_WITHIN);
            let (pieces, waiting) = (Vec::new(), VecDeque::new());
            self.links.insert(number, NameLink { edge, deadline, pieces, waiting });
            self.pending.insert(number, arrival.from.ip(), None);
            self.watch(number);
        }
        Ok(())
    }

    fn serve_link(&mut self, number: u32, scratch: &mut [u8]) {
        let Self { links, names, connects, pending, key, .. } = self;
        let Some(NameLink { edge, deadline, pieces, waiting }) = links.get_mut(&number) else {
            return;
        };
        let mut due = Vec::new();
        let find = |id| match id {
            KeyId::Start(name) if name == key.key().name() => Ok(key.key().clone()),
            _ => Err(HandshakeError::Proof),
        };
        let served = edge.read(scratch, &find, |content| {
            let NameQuery { version, number: query, request } = read(content)?;
            if version != VERSION {
                return Err(OTHER_VERSION);
            }
            due.extend(handle(names, connects, (number, query), (request, pieces))?);
            Ok(())
        });
        if let Ok(EdgeProgress::Established) = served {
            *deadline = None;
            pending.remove(number);
        }
        match served.and_then(|_| send_waiting(edge, waiting)) {
            Ok(()) => self.watch(number),
            Err(error) => self.close(number, &error),
        }
        self.send(due);
    }

    /// Sends results to the launchers that have asked.
    fn send(&mut self, due: Vec<Due>) {
        let mut receivers = BTreeSet::new();
        for ((number, query), outcome) in due {
            let Some(link) = self.links.get_mut(&number) else { continue };
            let result = NameResult { version: VERSION, number: query, outcome };
            let mut content = postcard::to_stdvec(&result).unwrap_or_default();
            if content.len() > CONTENT_MAX {
                let answer = NameAnswerMessage::Status(Status::OUT_OF_RESOURCE.0);
                let outcome = NameOutcome::Answer(answer);
                content =
                    postcard::to_stdvec(&NameResult { outcome, ..result }).unwrap_or_default();
            }
            link.waiting.push_back(content);
            receivers.insert(number);
        }
        for number in receivers {
            let Some(NameLink { edge, waiting, .. }) = self.links.get_mut(&number) else {
                continue;
            };
            // A launcher that reads no answers gets no further ones.
            match send_waiting(edge, waiting) {
                Ok(()) if waiting.len() <= WAITING_MAX => self.watch(number),
                Ok(()) => self.close(number, &EdgeError::Protocol("it reads no answers")),
                Err(error) => self.close(number, &error),
            }
        }
    }

    fn watch(&mut self, number: u32) {
        let Some(link) = self.links.get_mut(&number) else { return };
        if let Err(error) = link.edge.watch(Token::Node(number), &self.poller) {
            self.close(number, &error.into());
        }
    }

    /// Closes a connection, and removes its names.
    fn close(&mut self, number: u32, error: &EdgeError) {
        let Some(link) = self.links.remove(&number) else { return };
        self.names.end_session(number);
        let due = self.connects.end_session(number);
        let is_stranger = self.pending.remove(number) && !link.edge.was_probed(error);
        if is_stranger && self.rejections.next(clock::now()).is_some() {
            let text = line(format_args!("a connection from {} {error}", link.edge.peer));
            let _ = io::stderr().write_all(text.as_bytes());
        }
        self.send(Vec::from_iter(results(due)));
    }
}

/// Executes a request of a launcher. Returns the results that are due.
///
/// # Errors
///
/// A message that is not part of the protocol.
fn handle(
    names: &mut NameStore,
    connects: &mut Connects,
    query: QueryId,
    (request, pieces): (NameServerRequest, &mut Vec<u8>),
) -> Result<Vec<Due>, EdgeError> {
    let none = (query, NameOutcome::None);
    let ended = match request {
        NameServerRequest::JobStarted { nspace, size } => {
            connects.start_job(query.0, nspace, size);
            return Ok(vec![none]);
        }
        NameServerRequest::Connect(piece) => {
            let part = piece.append_to(pieces)?;
            let due = part.map(|part| connects.add(query, &part));
            return Ok(results(due.unwrap_or_default()).collect());
        }
        NameServerRequest::Withdraw { query: of } => {
            let is_open = connects.withdraw((query.0, of));
            let withdrawn = is_open.then_some(((query.0, of), NameOutcome::None));
            return Ok(withdrawn.into_iter().chain([none]).collect());
        }
        NameServerRequest::RankEnded { ref nspace, rank } => {
            connects.end_rank(query.0, nspace, rank)
        }
        NameServerRequest::JobEnded { ref nspace } => connects.end_job(query.0, nspace),
        _ => Vec::new(),
    };
    let answers = names.handle(query, request).into_iter();
    let answers = answers
        .map(|(query, answer)| (query, answer.map_or(NameOutcome::None, NameOutcome::Answer)));
    Ok(answers.chain(results(ended)).collect())
}

/// The results of operations as they are sent.
fn results(due: Vec<ConnectDue>) -> impl Iterator<Item = Due> {
    due.into_iter().flat_map(|due| match due {
        ConnectDue::Connected(query, content) => {
            let pieces = Piece::all(&content);
            pieces.map(|piece| (query, NameOutcome::Connected(piece))).collect()
        }
        ConnectDue::Failed(query, status) => vec![(query, NameOutcome::Failed(status.0))],
        ConnectDue::Ended(link, nspace) => vec![((link, NOTICE), NameOutcome::Ended(nspace))],
    })
}

/// Sends what waits, as far as the connection has room.
fn send_waiting(edge: &mut Edge, waiting: &mut VecDeque<Vec<u8>>) -> Result<(), EdgeError> {
    loop {
        while edge.has_room()
            && let Some(content) = waiting.pop_front()
        {
            edge.send(&content);
        }
        edge.flush()?;
        edge.set_more(!waiting.is_empty());
        if waiting.is_empty() || !edge.has_room() {
            return Ok(());
        }
    }
}

/// Name of the command.
pub(crate) const NAME_SERVER: &str = "name-server";

const LISTEN: &str = "listen";
const KEY: &str = "name-key";

/// Most results that wait for a launcher: those of some operations, of up to a record each.
const WAITING_MAX: usize = 4 * PIECES_BYTES / PIECE_BYTES;

/// Longest time from a connection to the end of its handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::other_runs::tests::part;
    use crate::other_runs::{ConnectPart, ConnectResult};

    /// A name server without its connections.
    struct Unconnected {
        names: NameStore,
        connects: Connects,
        /// By connection.
        pieces: BTreeMap<u32, Vec<u8>>,
    }

    impl Unconnected {
        fn new() -> Self {
            let (names, connects) = (NameStore::new(), Connects::default());
            let mut server = Self { names, connects, pieces: BTreeMap::new() };
            for (link, nspace) in [(1, "a"), (2, "b")] {
                let started = NameServerRequest::JobStarted { nspace: nspace.into(), size: 2 };
                assert_eq!(server.ask((link, 0), started), [((link, 0), NameOutcome::None)]);
            }
            server
        }

        fn ask(&mut self, query: QueryId, request: NameServerRequest) -> Vec<Due> {
            let pieces = self.pieces.entry(query.0).or_default();
            handle(&mut self.names, &mut self.connects, query, (request, pieces)).unwrap()
        }

        /// Sends a part piece by piece.
        fn connect(&mut self, query: QueryId, part: &ConnectPart) -> Vec<Due> {
            let content = postcard::to_stdvec(part).unwrap();
            let pieces = Piece::all(&content).map(NameServerRequest::Connect);
            pieces.flat_map(|piece| self.ask(query, piece)).collect()
        }
    }

    /// A part with more data than a record holds.
    fn long(nspace: &str, other: &str) -> ConnectPart {
        let mut long = part(nspace, 2, &[(other, None)]);
        long.own[0].data = vec![7; 5 * PIECE_BYTES];
        long
    }

    #[test]
    fn long_parts_and_results_travel_in_pieces() {
        let mut server = Unconnected::new();
        assert_eq!(server.connect((1, 5), &long("a", "b")), []);
        let due = server.connect((2, 9), &long("b", "a"));
        for (query, nspace) in [((1, 5), b"b"), ((2, 9), b"a")] {
            let (mut pieces, mut whole) = (Vec::new(), None);
            let own = due.iter().filter(|(of, _)| *of == query);
            for (_, outcome) in own {
                let NameOutcome::Connected(piece) = outcome else { panic!("{outcome:?}") };
                assert_eq!(whole, None);
                whole = piece.clone().append_to(&mut pieces).unwrap();
            }
            let result: ConnectResult = postcard::from_bytes(&whole.unwrap()).unwrap();
            assert_eq!((&result.jobs[0].nspace[..], result.jobs.len()), (&nspace[..], 1));
            assert_eq!(result.jobs[0].data.len(), 5 * PIECE_BYTES);
        }
    }

    #[test]
    fn withdrawn_operation_has_one_result_and_so_has_the_withdrawal() {
        let mut server = Unconnected::new();
        assert_eq!(server.connect((1, 5), &long("a", "b")), []);
        let none = |number| ((1, number), NameOutcome::None);
        let withdraw = || NameServerRequest::Withdraw { query: 5 };
        assert_eq!(server.ask((1, 6), withdraw()), [none(5), none(6)]);
        assert_eq!(server.ask((1, 7), withdraw()), [none(7)]);
    }

    #[test]
    fn end_of_a_process_and_of_a_job_reaches_names_and_operations() {
        let mut server = Unconnected::new();
        assert_eq!(server.connect((1, 5), &long("a", "b")), []);
        let ended = NameServerRequest::RankEnded { nspace: b"a".to_vec(), rank: 1 };
        let failed = |number| ((1, number), NameOutcome::Failed(Status::LOST_CONNECTION.0));
        assert_eq!(server.ask((1, 6), ended), [((1, 6), NameOutcome::None), failed(5)]);
        server.connect((1, 7), &long("a", "b"));
        assert!(!server.connect((2, 1), &long("b", "a")).is_empty());
        let ended = NameServerRequest::JobEnded { nspace: b"b".to_vec() };
        let notice = ((1, NOTICE), NameOutcome::Ended(b"b".to_vec()));
        assert_eq!(server.ask((2, 2), ended), [((2, 2), NameOutcome::None), notice]);
        assert_eq!(
            server.connect((1, 8), &long("a", "b")),
            [((1, 8), NameOutcome::Failed(Status::NOT_FOUND.0))]
        );
    }

    #[test]
    fn parts_without_an_end_are_refused() {
        let mut server = Unconnected::new();
        let piece = Piece { is_last: false, data: vec![0; PIECE_BYTES] };
        let pieces = server.pieces.entry(1).or_default();
        let mut sent = 0;
        let error = loop {
            let request = NameServerRequest::Connect(piece.clone());
            let (names, connects) = (&mut server.names, &mut server.connects);
            match handle(names, connects, (1, 5), (request, &mut *pieces)) {
                Ok(due) => assert_eq!(due, []),
                Err(error) => break error,
            }
            sent += 1;
        };
        assert!(matches!(error, EdgeError::Protocol("it is too long")), "{error}");
        assert_eq!(sent, PIECES_BYTES / PIECE_BYTES);
    }
}
