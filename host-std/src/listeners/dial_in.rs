//! Ranks that connect by themselves: admission and attendance.

use crate::cli::config::Config;
use crate::launch::plan::job::{Endpoint, Plan};
use crate::listeners::ListenerEvent;
use crate::numbers::index;
use crate::report;
use crate::server::dial_in_peer::DialInPeer;
use crate::server::listen_config::{ListenConfig, WITH_SECRET};
use crate::server::secure::Certificate;
use crate::web::{Rejected, Web};
use pmi_host_os::admission::gate::Arrival;
use pmi_host_os::admission::munge::MungeVerifier;
use pmi_host_os::admission::{Admission, Policy, Socket, secret};
use pmi_host_os::clock;
use pmi_host_os::listen::Listener;
use pmi_host_os::poller::{Interest, Poller, Token};
use pmi_std::Stream;
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Dial-in of the first job: listener, identities and attendance.
pub(crate) struct DialIn {
    /// `None` if ranks connect through web sockets only.
    listener: Option<Listener>,
    listen: ListenConfig,
    /// Certificate by which ranks authenticate the server under TLS.
    certificate: Option<Certificate>,
    /// Verifies credentials of munge, if ranks may prove themselves by it.
    pub(crate) munge: Option<MungeVerifier>,
    opened_at: Instant,
    /// Time of the next attendance report; `None` once all expected ranks are connected.
    table_at: Option<Instant>,
    /// Number of expected ranks that are not connected.
    absent_count: u32,
    /// Number of expected ranks that have not finalized.
    left_count: u32,
    /// Identities assigned to ranks of all jobs.
    given: BTreeSet<u64>,
    /// Number of identities assigned or skipped.
    given_count: u32,
}

impl DialIn {
    /// Opens the listener.
    pub(crate) fn open(listen: ListenConfig, poller: &Poller) -> Result<Self, String> {
        let open = |address| {
            let policy = Policy::of(listen.secret.is_some());
            Listener::open(address, Token::Listen, policy, poller).map_err(|error| {
                format!(
                    "no rank can connect at {address}: {error}; choose another port, or 0 for any"
                )
            })
        };
        let listener = listen.address.map(open).transpose()?;
        let certificate = listen.certificate()?;
        let munge = listen.munge.clone().map(|socket| {
            let verifier = MungeVerifier::new(socket)?;
            poller.add(Token::Credential, verifier.source(), Interest::Read)?;
            Ok(verifier)
        });
        let munge = munge.transpose().map_err(|error: io::Error| {
            format!("credentials of munge cannot be verified: {error}; leave '--munge' out")
        })?;
        let now = clock::now();
        let (absent_count, left_count) = (listen.expected, listen.expected);
        let table_at = (listen.expected > 0).then_some(now + FIRST_TABLE);
        Ok(Self {
            listener,
            listen,
            certificate,
            munge,
            opened_at: now,
            table_at,
            absent_count,
            left_count,
            given: BTreeSet::new(),
            given_count: 0,
        })
    }

    /// True if ranks are expected that this launcher does not start.
    pub(crate) fn has_listener(&self) -> bool {
        self.listen.expected > 0
    }

    /// True if ranks that the launcher starts connect here, and no others.
    pub(crate) const fn is_for_started(&self) -> bool {
        self.listen.is_for_started
    }

    /// Connection parameters for the ranks of the first job.
    pub(crate) fn endpoint(
        &mut self,
        config: &Config,
        web: Option<&Web>,
    ) -> Result<Endpoint, String> {
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
        let ListenConfig { is_for_started, requires_challenge, .. } = self.listen;
        Ok(Endpoint { port, is_for_started, ids, pin, requires_challenge })
    }

    /// Parameters of the second connection for ranks of a spawned job, at the listener of `parent`.
    pub(crate) fn endpoint_of_spawned(&mut self, parent: &Endpoint, ranks: u32) -> Endpoint {
        Endpoint { ids: Some(self.identities(ranks)), ..parent.clone() }
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

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let paused_until = self.listener.as_ref().and_then(|listener| listener.paused_until);
        [self.table_at, paused_until].into_iter().flatten().min()
    }
}

/// Attendance of the expected ranks.
impl DialIn {
    /// Accepts the next connection of a rank, if there is one.
    pub(crate) fn accept(&mut self, poller: &Poller) -> io::Result<Option<ListenerEvent>> {
        let Some(listener) = &mut self.listener else { return Ok(None) };
        let Some(arrival) = listener.accept(poller)? else { return Ok(None) };
        let Arrival { stream, from, admission } = arrival;
        let Some(Admission { socket, identity }) = admission else {
            return Ok(Some(ListenerEvent::Gone));
        };
        let remedy = if self.is_for_started() { WITHOUT_PORT } else { WITH_SECRET };
        Ok(Some(match identity.doubt(remedy) {
            None => {
                let certificate = self.certificate.clone();
                ListenerEvent::Peer(self.peer(stream, (from, socket), certificate)?)
            }
            Some(why) => ListenerEvent::Rejected(Rejected { from, socket, why }, Some(stream)),
        }))
    }

    /// A page that is to be a rank. It has its own protection, so its link needs no certificate.
    ///
    /// # Errors
    ///
    /// Errors of the system's random numbers.
    pub(crate) fn page(&self, link: Stream, from: SocketAddr) -> io::Result<DialInPeer> {
        self.peer(link, (from, None), None)
    }

    fn peer(
        &self,
        link: Stream,
        (from, socket): (SocketAddr, Option<Socket>),
        certificate: Option<Certificate>,
    ) -> io::Result<DialInPeer> {
        let challenge = secret::challenge(self.listen.secret.as_ref(), self.munge.is_some())?;
        Ok(DialInPeer { link, from, socket, challenge, certificate })
    }

    /// True while an expected rank is not connected or has not finalized.
    pub(crate) const fn awaits_peers(&self) -> bool {
        self.left_count > 0
    }

    /// True while an expected rank is not connected; attendance reports cover that state.
    pub(crate) const fn awaits_absent(&self) -> bool {
        self.absent_count > 0
    }

    /// Number of expected ranks that are not connected.
    pub(crate) fn absent(&self) -> usize {
        index(self.absent_count)
    }

    /// Counts an expected rank that has connected.
    pub(crate) fn note_joined(&mut self) {
        self.absent_count -= 1;
        if self.absent_count == 0 {
            self.table_at = None;
        }
    }

    /// Counts an expected rank that has disconnected before it began, and may connect again.
    pub(crate) fn note_absent(&mut self) {
        self.absent_count += 1;
        self.table_at.get_or_insert(clock::now() + FIRST_TABLE);
    }

    /// Counts an expected rank that has finalized.
    pub(crate) fn note_left(&mut self) {
        self.left_count = self.left_count.saturating_sub(1);
    }

    /// Handles the deadlines of the listener. Returns true if an attendance report is due.
    pub(crate) fn tick(&mut self, now: Instant, poller: &Poller) -> io::Result<bool> {
        if let Some(listener) = &mut self.listener {
            listener.tick(now, poller)?;
        }
        let is_due = self.table_at.is_some_and(|at| now >= at);
        if is_due {
            self.table_at = Some(now + NEXT_TABLE);
        }
        Ok(is_due)
    }

    /// Report of the expected ranks of the job of `plan` that are connected, unless all are. `from` is the
    /// address of a rank.
    pub(crate) fn attendance(
        &self,
        plan: &Plan,
        from: impl Fn(u32) -> Option<SocketAddr>,
    ) -> Option<String> {
        let secs = clock::since(self.opened_at).as_secs();
        self.awaits_absent().then(|| report::attendance(plan, secs, from))
    }
}

const WITHOUT_PORT: &str = "without '--pmi-port' ranks inherit their connections";

/// Time of the first attendance report: ranks that were started together with the launcher are connected
/// by then.
const FIRST_TABLE: Duration = Duration::from_secs(10);

/// Interval of further attendance reports: the user has read the first one.
const NEXT_TABLE: Duration = Duration::from_secs(60);
