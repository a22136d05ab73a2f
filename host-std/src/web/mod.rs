//! Web sockets: a page can be a rank of a job, or watch it live.
//!
//! Wire: the URL is `ws://ADDRESS/?token=TOKEN`, with the token that was made for the run. With the protocol
//! `pmi`, binary messages whose borders mean nothing carry what a rank sends that connects over TCP; what it
//! has to know is the same. With `pmi-trace`: if there is a secret, the text
//! `challenge NONCE` comes first and is answered with the text of the proof, as in PMI-2
//! ([`pmi_core::auth`]). Then binary messages, one behind the other, are a trace as [`pmi_trace::file`]
//! has it: what is remembered of the run so far, and everything from then on. Whoever does not read
//! fast enough misses some, and is told how much.
//!
//! A rank speaks through a pair of sockets with the part of the launcher that serves all who dial in, so
//! a page is a caller like any other: it has as long to say who it is, is challenged and recorded as
//! they are, and cannot make anybody hold more.

mod hello;
mod line;
mod visitor;

use crate::admission::pending::Pending;
use crate::admission::{Admission, EVICTED, PENDING_MAX, Policy, Socket, secret};
use crate::poller::{Interest, Poller, Token};
use crate::server::gate::WebGate;
use crate::server::listen::{ACCEPTED_AT_ONCE, Arrival, Listener};
use hello::{Hello, TOKEN};
use pmi_core::auth::Challenge;
use pmi_std::Stream;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};
use visitor::{Turn, Visitor};

/// The web sockets of a run.
#[derive(Debug)]
pub struct Web {
    /// Where they dial in.
    pub listener: Listener,
    origins: Rc<[String]>,
    /// Made for the run, and part of its URL.
    token: Rc<str>,
    visitors: Vec<Option<Visitor>>,
    /// Those that are neither ranks nor watch yet.
    pending: Pending<u32>,
}

/// What came of a visit.
#[derive(Debug)]
pub enum Visit {
    /// Somebody wants to be a rank, and speaks through this stream.
    Rank(Stream, SocketAddr),
    /// Somebody wants to watch: show him what there is so far.
    Watches(u32),
    /// It was rejected.
    Refused(Rejected),
}

/// A connection that was rejected.
#[derive(Debug)]
pub struct Rejected {
    /// The address of the other end.
    pub from: SocketAddr,
    /// The socket there, if it was asked for.
    pub socket: Option<Socket>,
    /// The reason, as the rest of a sentence about the peer.
    pub why: String,
}

impl Web {
    /// Opens the door.
    ///
    /// # Errors
    ///
    /// A sentence for people.
    pub fn open(gate: &WebGate, poller: &Poller) -> Result<Self, String> {
        let policy = Policy::of(gate.secret.is_some());
        let opened = Listener::open(gate.address, Token::WebListen, policy, poller);
        let listener = opened.map_err(|error| {
            format!(
                "no page can dial in at {}: {error}; choose another port, or 0 for any",
                gate.address
            )
        })?;
        let token = secret::token();
        let token = token.map_err(|error| format!("no token can be made for pages: {error}"))?;
        Ok(Self {
            listener,
            origins: gate.origins.clone().into(),
            token: token.into(),
            visitors: Vec::new(),
            pending: Pending::default(),
        })
    }

    /// Where pages dial in, with the token that they need.
    pub fn url(&self) -> String {
        format!("ws://{}/?{TOKEN}{}", self.listener.address, self.token)
    }

    /// Takes connections, as far as they are admitted, and gives those that were rejected. If too many are
    /// neither ranks nor watch, one of them makes room.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn take_visitors(
        &mut self,
        mut challenge: impl FnMut() -> io::Result<Option<Challenge>>,
        poller: &Poller,
    ) -> io::Result<Vec<Rejected>> {
        let mut rejected = Vec::new();
        // Those that are left are announced again, after others had their turn.
        for _ in 0..ACCEPTED_AT_ONCE {
            let Some(Arrival { stream, from, admission }) = self.listener.accept(poller)? else {
                break;
            };
            match admission {
                Admission::Admitted(_) => {}
                Admission::Rejected { socket, why } => {
                    rejected.push(Rejected { from, socket, why });
                    continue;
                }
                Admission::Gone => continue,
            }
            let Stream::Tcp(stream) = stream else { continue };
            while let Some(surplus) = self.pending.surplus(PENDING_MAX) {
                rejected.extend(self.evict(surplus));
            }
            let free = self.visitors.iter().position(Option::is_none);
            let place = free.unwrap_or(self.visitors.len());
            let (origins, token) = (Rc::clone(&self.origins), Rc::clone(&self.token));
            let hello = Hello { origins, token, verdict: Rc::default() };
            let number = u32::try_from(place).unwrap_or(u32::MAX);
            let visitor = Visitor::new((stream, from), hello, challenge()?, number, poller)?;
            match self.visitors.get_mut(place) {
                Some(free) => *free = Some(visitor),
                None => self.visitors.push(Some(visitor)),
            }
            self.pending.insert(number, from.ip(), ());
        }
        Ok(rejected)
    }

    fn evict(&mut self, number: u32) -> Option<Rejected> {
        self.pending.remove(number);
        let visitor = self.visitors.get_mut(index(number))?.take()?;
        Some(Rejected { from: visitor.from, socket: None, why: EVICTED.to_owned() })
    }

    /// Goes on with the visitor of this number.
    ///
    /// # Errors
    ///
    /// Those of the system's readiness calls.
    pub fn ready(&mut self, number: u32, poller: &Poller) -> io::Result<Option<Visit>> {
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
                refused(format!("is one too many, since {WATCHING_MAX} watch already"))
            }
            Turn::Watches => Some(Visit::Watches(number)),
        })
    }

    /// Whether anybody watches, so that what is recorded has to be kept for them.
    pub fn is_watched(&self) -> bool {
        self.visitors.iter().flatten().any(Visitor::watches)
    }

    /// Shows one visitor what there was so far.
    ///
    /// # Errors
    ///
    /// Those of the system's readiness calls.
    pub fn show(&mut self, number: u32, trace: &[u8], poller: &Poller) -> io::Result<()> {
        if let Some(Some(visitor)) = self.visitors.get_mut(index(number)) {
            visitor.begin(trace);
            self.ready(number, poller)?;
        }
        Ok(())
    }

    /// Shows all observers further `records`, and gives the addresses of those that were too slow and are
    /// being disconnected.
    ///
    /// # Errors
    ///
    /// Those of the system's readiness calls.
    pub fn feed(&mut self, records: &[u8], poller: &Poller) -> io::Result<Vec<SocketAddr>> {
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

    /// When to call [`tick`](Self::tick).
    pub fn deadline(&self) -> Option<Instant> {
        let visitors = self.visitors.iter().flatten().filter_map(|visitor| visitor.deadline);
        visitors.chain(self.listener.paused_until).min()
    }

    /// Sends away who takes too long.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn tick(&mut self, now: Instant, poller: &Poller) -> io::Result<()> {
        for (number, place) in (0..).zip(&mut self.visitors) {
            if place.as_ref().and_then(|v| v.deadline).is_some_and(|deadline| deadline <= now) {
                *place = None;
                self.pending.remove(number);
            }
        }
        self.listener.tick(now, poller)
    }

    /// Says goodbye to all, and waits a moment until they have heard it.
    pub fn finish(&mut self, poller: &mut Poller) {
        for visitor in self.visitors.iter_mut().flatten() {
            visitor.finish();
        }
        let until = Instant::now() + GOODBYE;
        let mut ready = Vec::new();
        for number in 0..self.len() {
            let _ = self.ready(number, poller);
        }
        // The run is over and its code is known, so trouble with a page matters to nobody.
        while self.visitors.iter().any(Option::is_some) && Instant::now() < until {
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

/// What to be told about a descriptor, if it has changed.
fn watch(
    descriptor: &impl rustix::fd::AsFd,
    token: Token,
    (watched, wanted): (&mut Option<Interest>, Option<Interest>),
    poller: &Poller,
) -> io::Result<()> {
    match (*watched, wanted) {
        (was, is) if was == is => return Ok(()),
        (Some(_), Some(interest)) => poller.change(token, descriptor, interest)?,
        (None, Some(interest)) => poller.add(token, descriptor, interest)?,
        (_, None) => poller.remove(token, descriptor)?,
    }
    *watched = wanted;
    Ok(())
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// A page has a few tabs, and a class a few dozen pages.
pub const WATCHING_MAX: usize = 64;

/// How long the end of the run waits for pages.
const GOODBYE: Duration = Duration::from_secs(1);
