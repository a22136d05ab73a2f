//! Ranks that connect by themselves: admission, attendance, disconnects and notices.

use super::EventLoop;
use crate::admission::{Admission, Policy, secret};
use crate::cli::config::Config;
use crate::launch::plan::Dial;
use crate::poller::{Poller, Token};
use crate::report;
use crate::server::dial_in_peer::DialInPeer;
use crate::server::listen::{ACCEPTED_AT_ONCE, Arrival, Listener};
use crate::server::listen_config::ListenConfig;
use crate::server::secure::Certificate;
use crate::stdio::index;
use crate::verdict::{Failure, PmiPhase};
use crate::web::Web;
use pmi_core::command::Notice;
use pmi_core::ids::JobId;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

/// Dial-in of the first job: listener, identities and attendance.
pub(super) struct DialIn {
    /// `None` if ranks connect through web sockets only.
    pub(super) listener: Option<Listener>,
    pub(super) listen: ListenConfig,
    /// Certificate by which ranks authenticate the server under TLS.
    pub(super) certificate: Option<Certificate>,
    pub(super) opened_at: Instant,
    /// Time of the next attendance report; `None` once all expected ranks are connected.
    pub(super) table_at: Option<Instant>,
    /// Number of expected ranks that are not connected.
    pub(super) absent_count: u32,
    /// Number of expected ranks that have not finalized.
    pub(super) left_count: u32,
    /// Identities assigned to ranks of all jobs.
    given: BTreeSet<u64>,
    /// Number of identities assigned or skipped.
    given_count: u32,
}

impl DialIn {
    /// Opens the listener.
    ///
    /// # Errors
    ///
    /// A message for the user.
    pub(super) fn open(listen: ListenConfig, poller: &Poller) -> Result<Self, String> {
        let open = |address| {
            let policy = Policy::of(listen.secret.is_some());
            Listener::open(address, Token::Listen, policy, poller).map_err(|error| {
                format!(
                    "nobody can dial in at {address}: {error}; choose another port, or 0 for any"
                )
            })
        };
        let listener = listen.address.map(open).transpose()?;
        let certificate = listen.certificate()?;
        let now = Instant::now();
        let (absent_count, left_count) = (listen.expected, listen.expected);
        let table_at = (listen.expected > 0).then_some(now + FIRST_TABLE);
        Ok(Self {
            listener,
            listen,
            certificate,
            opened_at: now,
            table_at,
            absent_count,
            left_count,
            given: BTreeSet::new(),
            given_count: 0,
        })
    }

    /// True if ranks are expected that this launcher does not start.
    pub(super) fn has_listener(&self) -> bool {
        self.listen.expected > 0
    }

    /// Connection parameters for the ranks of the first job.
    ///
    /// # Errors
    ///
    /// A message for the user.
    pub(super) fn dial(&mut self, config: &Config, web: Option<&Web>) -> Result<Dial, String> {
        let ranks = config.ranks + self.listen.expected;
        let ids = self.identities(ranks);
        // The starter of a remote rank computes its identity from the secret and the rank, so none may be
        // skipped.
        if self.given_count != ranks {
            return Err("with this secret two ranks would have the same number; use another".into());
        }
        // Without a secret the identity is the rank, which needs no distribution.
        let ids = self.listen.secret.is_some().then_some(ids);
        let pin = self.certificate.as_ref().map(|certificate| certificate.pin());
        let port = match (&self.listener, web) {
            (Some(listener), _) => listener.address.to_string(),
            (None, Some(web)) => web.url(),
            (None, None) => String::new(),
        };
        let requires_challenge = self.listen.requires_challenge;
        Ok(Dial { port, ids, pin, requires_challenge })
    }

    /// Parameters of the second connection for ranks of a spawned job, at the listener of `parent`.
    pub(super) fn dial_again(&mut self, parent: &Dial, ranks: u32) -> Dial {
        Dial { ids: Some(self.identities(ranks)), ..parent.clone() }
    }

    /// Unused identities for `ranks` ranks.
    fn identities(&mut self, ranks: u32) -> Vec<u64> {
        let mut ids = Vec::new();
        for _ in 0..ranks {
            loop {
                let id = self.listen.identity(self.given_count);
                self.given_count += 1;
                if self.given.insert(id) {
                    ids.push(id);
                    break;
                }
            }
        }
        ids
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let paused_until = self.listener.as_ref().and_then(|listener| listener.paused_until);
        [self.table_at, paused_until].into_iter().flatten().min()
    }
}

impl EventLoop {
    /// Accepts connections of ranks, as far as they are admitted.
    pub(super) fn accept_peers(&mut self) -> io::Result<()> {
        // Connections that are left are reported again, after other descriptors had their turn.
        for _ in 0..ACCEPTED_AT_ONCE {
            let Some(dial_in) = &mut self.dial_in else { return Ok(()) };
            let Some(listener) = &mut dial_in.listener else { return Ok(()) };
            let Some(arrival) = listener.accept(&self.poller)? else { return Ok(()) };
            let Arrival { stream, from, admission } = arrival;
            match admission {
                Admission::Admitted(_) => {
                    let challenge = secret::challenge(dial_in.listen.secret.as_ref())?;
                    let certificate = dial_in.certificate.clone();
                    let peer = DialInPeer { link: stream, from, challenge, certificate };
                    self.service.add_peer(self.first, peer, &self.poller)?;
                }
                Admission::Rejected { socket, why } => self.say_refused(from, socket, &why),
                Admission::Gone => {}
            }
        }
        Ok(())
    }

    /// True while an expected rank is not connected or has not finalized.
    pub(super) fn awaits_peers(&self) -> bool {
        self.failure.is_none()
            && self.dial_in.as_ref().is_some_and(|dial_in| dial_in.left_count > 0)
    }

    /// True while an expected rank is not connected; attendance reports cover that state.
    pub(super) fn awaits_absent(&self) -> bool {
        self.dial_in.as_ref().is_some_and(|dial_in| dial_in.absent_count > 0)
    }

    pub(super) fn handle_joined(&mut self) {
        let Some(dial_in) = &mut self.dial_in else { return };
        dial_in.absent_count -= 1;
        if dial_in.absent_count == 0 {
            dial_in.table_at = None;
        }
    }

    /// Handles the end of a rank's connection to the listener, closed by either side.
    pub(super) fn handle_peer_closed(&mut self, job: JobId, rank: u32) {
        let Some(from) = self.service.from(job, rank) else { return };
        match self.service.phase(job, rank) {
            PmiPhase::Open => {
                self.service.set_gone(job, rank);
                self.fail(job, Failure::Vanished { rank, from });
            }
            // The rank has not started the protocol, so another connection may take its place.
            PmiPhase::Silent => {
                self.service.set_absent(job, rank);
                if let Some(dial_in) = &mut self.dial_in {
                    dial_in.absent_count += 1;
                    dial_in.table_at.get_or_insert(Instant::now() + FIRST_TABLE);
                }
            }
            PmiPhase::Finalized => {
                self.service.set_gone(job, rank);
                if let Some(dial_in) = &mut self.dial_in {
                    dial_in.left_count = dial_in.left_count.saturating_sub(1);
                }
                self.check_all_ended();
            }
        }
    }

    /// Handles the deadlines of connections: timeouts, deferred reports, paused listeners, attendance.
    pub(super) fn check_dial_in(&mut self, now: Instant) -> io::Result<()> {
        if self.service.tick(&self.poller)? {
            self.settle()?;
        }
        self.say_unreported(now);
        if let Some(listener) = &mut self.pmix {
            listener.tick(now, &self.poller)?;
        }
        let Some(dial_in) = &mut self.dial_in else { return Ok(()) };
        if let Some(listener) = &mut dial_in.listener {
            listener.tick(now, &self.poller)?;
        }
        if dial_in.table_at.is_some_and(|at| now >= at) {
            dial_in.table_at = Some(now + NEXT_TABLE);
            self.say_who_is_there();
        }
        Ok(())
    }

    /// Reports which expected ranks are connected, unless all are.
    pub(super) fn say_who_is_there(&mut self) {
        let Some(dial_in) = self.dial_in.as_ref().filter(|dial_in| dial_in.absent_count > 0) else {
            return;
        };
        let secs = dial_in.opened_at.elapsed().as_secs();
        if let Some(job) = self.jobs.get(&self.first.0) {
            let from = |rank| self.service.from(self.first, rank);
            self.outputs.say(report::attendance(&job.plan, secs, from));
        }
    }

    /// Sends a notice to ranks that listen on a second connection, and flushes it before anything else
    /// affects them. Returns the notified ranks.
    pub(super) fn notify(&mut self, notice: Notice) -> Vec<(JobId, u32)> {
        let told = self.service.notify_all(notice);
        if !told.is_empty() && self.service.flush(&self.poller).is_ok() {
            self.handle_server_events();
        }
        told
    }

    /// Sends a local process the signal it requested to follow a notice.
    pub(super) fn take_requested_signal(&mut self, job: JobId, rank: u32, signal: Option<Signal>) {
        let process = self.process_of(job, rank).map(|number| &self.processes[index(number)]);
        if let (Some(started), Some(signal)) = (process, signal)
            && let Some(process) = &started.process
        {
            process.signal(signal);
        }
    }
}

/// Time of the first attendance report: ranks that were started together with the launcher are connected
/// by then.
const FIRST_TABLE: Duration = Duration::from_secs(10);

/// Interval of further attendance reports: the user has read the first one.
const NEXT_TABLE: Duration = Duration::from_secs(60);
