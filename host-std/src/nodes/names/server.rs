//! `pmi-host name-server`: published names that several launchers share.

use super::super::edge::{Edge, EdgeError, EdgeProgress};
use super::super::key::RunKey;
use super::super::record::CONTENT_MAX;
use super::client::SILENCE;
use super::store::{NameStore, StoreAnswer};
use super::{NameQuery, NameResult, OTHER_VERSION, VERSION, read_or_make_key};
use crate::admission::limits::RejectionLog;
use crate::admission::pending::Pending;
use crate::admission::{EVICTED, PENDING_MAX, Policy};
use crate::operation::NameAnswerMessage;
use crate::poller::{Poller, Token};
use crate::server::listen::{ACCEPTED_AT_ONCE, Listener};
use crate::settings::names::NameSettings;
use clap::{Arg, Command};
use pmi_core::wire::pmix::names::Status;
use pmi_host_base::exit::{FAILED, complain, line, print, refuse};
use pmi_host_base::usage::UsageError;
use pmi_std::Stream;
use std::collections::{BTreeMap, BTreeSet};
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
}

/// Connection of a launcher.
struct NameLink {
    edge: Edge,
    /// End of the handshake; `None` once the key is proved.
    deadline: Option<Instant>,
}

/// No value: the server only ends by an error.
enum Never {}

impl NameServer {
    fn open(key: RunKey, address: SocketAddr) -> io::Result<Self> {
        let poller = Poller::new()?;
        let listener = Listener::open(address, Token::NodeListen, Policy::Secret, &poller)?;
        Ok(Self {
            key,
            poller,
            listener,
            links: BTreeMap::new(),
            next: 0,
            pending: Pending::default(),
            rejections: RejectionLog::default(),
            names: NameStore::new(),
        })
    }

    /// Tells the user the address for launchers. One that stands for all of this machine has the name of it.
    fn announce(&self, key_file: &Path) {
        let (ip, port) = (self.listener.address.ip(), self.listener.address.port());
        let shown = match ip {
            ip if ip.is_unspecified() => {
                let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
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
            let now = Instant::now();
            self.listener.tick(now, &self.poller)?;
            let is_over = |link: &NameLink| link.deadline.is_some_and(|deadline| now >= deadline);
            let over = self.links.iter().filter(|(_, link)| is_over(link));
            for number in Vec::from_iter(over.map(|(number, _)| *number)) {
                self.close(number, &io::Error::from(io::ErrorKind::TimedOut).into());
            }
            let expired = self.names.expire(now);
            self.send(expired);
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        for _ in 0..ACCEPTED_AT_ONCE {
            let Some(arrival) = self.listener.accept(&self.poller)? else { break };
            let Stream::Tcp(stream) = arrival.stream else { continue };
            if let Some(surplus) = self.pending.surplus(PENDING_MAX) {
                self.close(surplus, &EdgeError::Protocol(EVICTED));
            }
            // A connection that is closed already is no fault of this side.
            let Ok(edge) = Edge::accepted(stream, arrival.from, (&self.key, SILENCE)) else {
                continue;
            };
            let number = self.next;
            self.next = number.wrapping_add(1);
            let deadline = Some(Instant::now() + HANDSHAKE_WITHIN);
            self.links.insert(number, NameLink { edge, deadline });
            self.pending.insert(number, arrival.from.ip(), ());
            self.watch(number);
        }
        Ok(())
    }

    fn serve_link(&mut self, number: u32, scratch: &mut [u8]) {
        let Self { links, names, pending, .. } = self;
        let Some(link) = links.get_mut(&number) else { return };
        let mut answers = Vec::new();
        let read = link.edge.read(scratch, |content| {
            let NameQuery { version, number: query, request } = postcard::from_bytes(content)
                .map_err(|_| EdgeError::Protocol("it is malformed"))?;
            if version != VERSION {
                return Err(OTHER_VERSION);
            }
            answers.extend(names.handle((number, query), request));
            Ok(())
        });
        if let Ok(EdgeProgress::Established) = read {
            link.deadline = None;
            pending.remove(number);
        }
        match read.and_then(|_| link.edge.flush()) {
            Ok(()) => self.watch(number),
            Err(error) => self.close(number, &error),
        }
        self.send(answers);
    }

    /// Sends answers to the launchers that have asked.
    fn send(&mut self, answers: Vec<StoreAnswer>) {
        let mut receivers = BTreeSet::new();
        for ((number, query), answer) in answers {
            let Some(link) = self.links.get_mut(&number) else { continue };
            let result = NameResult { version: VERSION, number: query, answer };
            let mut content = postcard::to_stdvec(&result).unwrap_or_default();
            if content.len() > CONTENT_MAX {
                let answer = Some(NameAnswerMessage::Status(Status::OUT_OF_RESOURCE.0));
                content = postcard::to_stdvec(&NameResult { answer, ..result }).unwrap_or_default();
            }
            link.edge.send(&content);
            receivers.insert(number);
        }
        for number in receivers {
            let Some(link) = self.links.get_mut(&number) else { continue };
            // A launcher that reads no answers gets no further ones.
            match link.edge.flush() {
                Ok(()) if link.edge.has_room() => self.watch(number),
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
        let is_stranger = self.pending.remove(number) && !link.edge.was_probed(error);
        if is_stranger && self.rejections.next(Instant::now()).is_some() {
            let text = line(format_args!("a connection from {} {error}", link.edge.peer));
            let _ = io::stderr().write_all(text.as_bytes());
        }
    }
}

/// Name of the command.
pub(crate) const NAME_SERVER: &str = "name-server";

const LISTEN: &str = "listen";
const KEY: &str = "name-key";

/// Longest time from a connection to the end of its handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);
