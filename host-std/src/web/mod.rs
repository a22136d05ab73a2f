//! Web sockets: a page can be a rank of a job, or watch it live.
//!
//! Wire, with the protocol `pmi`: binary messages whose borders mean nothing carry what a rank says that
//! dials in over TCP; what it has to know is the same. With `pmi-trace`: if there is a secret, the text
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

use crate::poller::{Interest, Poller, Token};
use crate::server::listen::Listener;
use hello::Hello;
use pmi_core::auth::{Challenge, Secret};
use pmi_std::Stream;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};
use visitor::{Turn, Visitor};

/// Where pages dial in, and who may.
#[derive(Clone, Debug)]
pub struct WebGate {
    /// The address.
    pub address: SocketAddr,
    /// What whoever watches must know.
    pub secret: Option<Secret>,
    /// Pages that may, besides those of this machine: `https://host:port`.
    pub origins: Vec<String>,
}

/// The web sockets of a run.
#[derive(Debug)]
pub struct Web {
    /// Where they dial in.
    pub listener: Listener,
    origins: Rc<[String]>,
    visitors: Vec<Option<Visitor>>,
}

/// What came of a visit.
#[derive(Debug)]
pub enum Visit {
    /// Somebody wants to be a rank, and speaks through this stream.
    Rank(Stream, SocketAddr),
    /// Somebody wants to watch: show him what there is so far.
    Watches(u32),
    /// Somebody was sent away, maybe for guessing.
    Refused {
        /// Where he came from.
        from: SocketAddr,
        /// What he did, behind "a caller from there".
        why: String,
        /// Whether he may have been guessing.
        is_guess: bool,
    },
}

impl Web {
    /// Opens the door.
    ///
    /// Errors: a sentence for people.
    pub fn open(gate: &WebGate, poller: &Poller) -> Result<Self, String> {
        let listener = Listener::open(gate.address, Token::WebListen, poller).map_err(|error| {
            format!(
                "no page can dial in at {}: {error}; choose another port, or 0 for any",
                gate.address
            )
        })?;
        Ok(Self { listener, origins: gate.origins.clone().into(), visitors: Vec::new() })
    }

    /// Where pages dial in.
    pub fn url(&self) -> String {
        format!("ws://{}", self.listener.address)
    }

    /// Lets everybody in who waits outside. Too many at once are sent away.
    ///
    /// Errors: those of the system.
    pub fn take_visitors(
        &mut self,
        mut challenge: impl FnMut() -> io::Result<Option<Challenge>>,
        poller: &Poller,
    ) -> io::Result<()> {
        while let Some((stream, from)) = self.listener.accept(poller)? {
            let Stream::Tcp(stream) = stream else { continue };
            let free = self.visitors.iter().position(Option::is_none);
            let place = free.unwrap_or(self.visitors.len());
            let hello = Hello { origins: Rc::clone(&self.origins), verdict: Rc::default() };
            let number = u32::try_from(place).unwrap_or(u32::MAX);
            if number >= VISITORS_MAX {
                continue;
            }
            let visitor = Visitor::new((stream, from), hello, challenge()?, number, poller)?;
            match self.visitors.get_mut(place) {
                Some(free) => *free = Some(visitor),
                None => self.visitors.push(Some(visitor)),
            }
        }
        Ok(())
    }

    /// Goes on with the visitor of this number.
    ///
    /// Errors: those of the system's readiness calls.
    pub fn ready(&mut self, number: u32, poller: &Poller) -> io::Result<Option<Visit>> {
        let Some(place) = self.visitors.get_mut(index(number)) else { return Ok(None) };
        let Some(visitor) = place else { return Ok(None) };
        let turn = visitor.turn(poller)?;
        let visit = match turn {
            Turn::Waits => None,
            Turn::Over => {
                *place = None;
                None
            }
            Turn::Refused { why, is_guess } => {
                let from = visitor.from;
                *place = None;
                Some(Visit::Refused { from, why, is_guess })
            }
            Turn::Rank(stream) => Some(Visit::Rank(stream, visitor.from)),
            Turn::Watches => Some(Visit::Watches(number)),
        };
        Ok(visit)
    }

    /// Whether anybody watches, so that what is recorded has to be kept for them.
    pub fn is_watched(&self) -> bool {
        self.visitors.iter().flatten().any(Visitor::watches)
    }

    /// Shows one visitor what there was so far.
    ///
    /// Errors: those of the system's readiness calls.
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
    /// Errors: those of the system.
    pub fn tick(&mut self, now: Instant, poller: &Poller) -> io::Result<()> {
        for place in &mut self.visitors {
            if place.as_ref().and_then(|v| v.deadline).is_some_and(|deadline| deadline <= now) {
                *place = None;
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
pub const VISITORS_MAX: u32 = 64;

/// How long the end of the run waits for pages.
const GOODBYE: Duration = Duration::from_secs(1);
