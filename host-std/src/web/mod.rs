//! Web sockets: a page can be a rank of a job, or observe the run.
//!
//! Wire: the URL is `ws://ADDRESS/?token=TOKEN`, with the token that was generated for the run. With the
//! protocol `pmi`, binary messages, whose boundaries have no meaning, carry the bytes of a rank's TCP
//! connection; the rank must know the same secret. With `pmi-trace`: if there is a secret, the text
//! `challenge NONCE` comes first and is answered with the text of the proof, as in PMI-2
//! ([`pmi_core::auth`]). Then binary messages, one behind the other, are a trace in the format of
//! [`pmi_trace::file`]: the recorded part of the run so far, and everything from then on. An observer
//! that does not read fast enough is disconnected.
//!
//! A rank exchanges bytes with the server through a socket pair, so a page is treated as any rank that
//! connects by itself: it has the same time to identify itself, is challenged and recorded alike, and
//! cannot occupy more memory.

mod client;
mod link;
mod upgrade;

use crate::numbers::index;
use crate::server::listen_config::{WITH_SECRET, WebListenConfig};
use client::{Turn, WebClient};
use pmi_core::auth::Challenge;
use pmi_host_os::admission::gate::Arrival;
use pmi_host_os::admission::pending::Pending;
use pmi_host_os::admission::{Admission, EVICTED, PENDING_MAX, Policy, Socket};
use pmi_host_os::clock;
use pmi_host_os::listen::{ACCEPTED_AT_ONCE, Listener};
use pmi_host_os::poller::{Poller, Token};
use pmi_host_os::random::token;
use pmi_std::Stream;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};
use upgrade::{TOKEN, Upgrade};

/// Web sockets of a run.
#[derive(Debug)]
pub(crate) struct Web {
    /// Listener of the web sockets.
    pub(crate) listener: Listener,
    origins: Rc<[String]>,
    /// Token generated for the run, and part of its URL.
    token: Rc<str>,
    visitors: Vec<Option<WebClient>>,
    /// Connections that are neither ranks nor observers yet.
    pending: Pending<u32>,
}

/// Result of serving a connection.
#[derive(Debug)]
pub(crate) enum Visit {
    /// A page is to be a rank, and uses this stream.
    Rank(Stream, SocketAddr),
    /// A page is to observe the run, and needs the trace so far.
    Watches(u32),
    /// The connection was rejected.
    Refused(Rejected),
}

/// A connection that was rejected.
#[derive(Debug)]
pub(crate) struct Rejected {
    /// Address of the other end.
    pub(crate) from: SocketAddr,
    /// Socket at the other end, if it was looked up.
    pub(crate) socket: Option<Socket>,
    /// Reason, as the predicate of a message.
    pub(crate) why: String,
}

impl Web {
    /// Opens the listener.
    ///
    /// # Errors
    ///
    /// A message for the user.
    pub(crate) fn open(listen: &WebListenConfig, poller: &Poller) -> Result<Self, String> {
        let policy = Policy::of(listen.secret.is_some());
        let opened = Listener::open(listen.address, Token::WebListen, policy, poller);
        let listener = opened.map_err(|error| {
            format!(
                "no page can connect at {}: {error}; choose another port, or 0 for any",
                listen.address
            )
        })?;
        let token = token().map_err(|error| format!("no token can be made for pages: {error}"))?;
        Ok(Self {
            listener,
            origins: listen.origins.clone().into(),
            token: token.into(),
            visitors: Vec::new(),
            pending: Pending::default(),
        })
    }

    /// URL for pages, with the token that they need.
    pub(crate) fn url(&self) -> String {
        format!("ws://{}/?{TOKEN}{}", self.listener.address, self.token)
    }

    /// Accepts connections, as far as they are admitted, and returns those that were rejected. If too
    /// many are neither ranks nor observers, one of them is closed.
    pub(crate) fn accept_clients(
        &mut self,
        mut challenge: impl FnMut() -> io::Result<Option<Challenge>>,
        poller: &Poller,
    ) -> io::Result<Vec<Rejected>> {
        let mut rejected = Vec::new();
        // Connections that are left are reported again, after other descriptors had their turn.
        for _ in 0..ACCEPTED_AT_ONCE {
            let Some(Arrival { stream, from, admission }) = self.listener.accept(poller)? else {
                break;
            };
            let Some(Admission { socket, identity }) = admission else { continue };
            if let Some(why) = identity.doubt(WITH_SECRET) {
                rejected.push(Rejected { from, socket, why });
                continue;
            }
            let Stream::Tcp(stream) = stream else { continue };
            for surplus in self.pending.surplus(PENDING_MAX) {
                rejected.extend(self.evict(surplus));
            }
            let free = self.visitors.iter().position(Option::is_none);
            let place = free.unwrap_or(self.visitors.len());
            let (origins, token) = (Rc::clone(&self.origins), Rc::clone(&self.token));
            let hello = Upgrade { origins, token, verdict: Rc::default() };
            let number = u32::try_from(place).unwrap_or(u32::MAX);
            let visitor = WebClient::new((stream, from), hello, challenge()?, number, poller)?;
            match self.visitors.get_mut(place) {
                Some(free) => *free = Some(visitor),
                None => self.visitors.push(Some(visitor)),
            }
            self.pending.insert(number, from.ip(), socket);
        }
        Ok(rejected)
    }

    fn evict(&mut self, number: u32) -> Option<Rejected> {
        self.pending.remove(number);
        let visitor = self.visitors.get_mut(index(number))?.take()?;
        Some(Rejected { from: visitor.from, socket: None, why: EVICTED.to_owned() })
    }

    /// Serves the connection with this number.
    pub(crate) fn ready(&mut self, number: u32, poller: &Poller) -> io::Result<Option<Visit>> {
        let watching = self.visitors.iter().flatten().filter(|visitor| visitor.watches()).count();
        let Some(place) = self.visitors.get_mut(index(number)) else { return Ok(None) };
        let Some(visitor) = place else { return Ok(None) };
        let turn = visitor.turn(poller)?;
        let from = visitor.from;
        if !matches!(turn, Turn::Waits) {
            self.pending.remove(number);
        }
        let refused = |why| Some(Visit::Refused(Rejected { from, socket: None, why }));
        Ok(match turn {
            Turn::Waits => None,
            Turn::Over => {
                *place = None;
                None
            }
            Turn::Refused { why } => {
                *place = None;
                refused(why)
            }
            Turn::Rank(stream) => Some(Visit::Rank(stream, from)),
            Turn::Watches if watching >= WATCHING_MAX => {
                *place = None;
                refused(format!(
                    "is one too many, because there are {WATCHING_MAX} observers \
                                 already"
                ))
            }
            Turn::Watches => Some(Visit::Watches(number)),
        })
    }

    /// True if there are observers, for which records have to be kept.
    pub(crate) fn is_watched(&self) -> bool {
        self.visitors.iter().flatten().any(WebClient::watches)
    }

    /// Sends one observer the trace so far.
    pub(crate) fn show(&mut self, number: u32, trace: &[u8], poller: &Poller) -> io::Result<()> {
        if let Some(Some(visitor)) = self.visitors.get_mut(index(number)) {
            visitor.begin(trace);
            self.ready(number, poller)?;
        }
        Ok(())
    }

    /// Sends all observers further `records`, and returns the addresses of those that were too slow and
    /// are being disconnected.
    pub(crate) fn feed(&mut self, records: &[u8], poller: &Poller) -> io::Result<Vec<SocketAddr>> {
        let mut slow = Vec::new();
        for number in 0..self.len() {
            if let Some(Some(visitor)) = self.visitors.get_mut(index(number))
                && visitor.watches()
            {
                if !visitor.feed(records) {
                    slow.push(visitor.from);
                }
                self.ready(number, poller)?;
            }
        }
        Ok(slow)
    }

    /// Time of the next [`tick`](Self::tick).
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let visitors = self.visitors.iter().flatten().filter_map(|visitor| visitor.deadline);
        visitors.chain(self.listener.paused_until).min()
    }

    /// Closes connections that have exceeded their deadline.
    pub(crate) fn tick(&mut self, now: Instant, poller: &Poller) -> io::Result<()> {
        for (number, place) in (0..).zip(&mut self.visitors) {
            if place.as_ref().and_then(|v| v.deadline).is_some_and(|deadline| deadline <= now) {
                *place = None;
                self.pending.remove(number);
            }
        }
        self.listener.tick(now, poller)
    }

    /// Closes all connections, and waits a moment for the peers to confirm.
    pub(crate) fn finish(&mut self, poller: &mut Poller) {
        for visitor in self.visitors.iter_mut().flatten() {
            visitor.finish();
        }
        let until = clock::now() + GOODBYE;
        let mut ready = Vec::new();
        for number in 0..self.len() {
            let _ = self.ready(number, poller);
        }
        // The exit code is decided, so an error of a page connection has no effect.
        while self.visitors.iter().any(Option::is_some) && clock::now() < until {
            if poller.wait(Some(until), &mut ready).is_err() {
                return;
            }
            for &token in &ready {
                if let Token::Web(number) | Token::WebPair(number) = token {
                    let _ = self.ready(number, poller);
                }
            }
        }
    }

    fn len(&self) -> u32 {
        u32::try_from(self.visitors.len()).unwrap_or(u32::MAX)
    }
}

/// Maximum number of observers: a page has a few tabs, and a class a few dozen pages.
pub(crate) const WATCHING_MAX: usize = 64;

/// Longest time that the end of the run waits for pages.
const GOODBYE: Duration = Duration::from_secs(1);
