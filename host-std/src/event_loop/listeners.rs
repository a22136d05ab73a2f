//! Listeners of a run: for ranks that connect by themselves, for PMIx clients, and for pages.

use super::dial_in::DialIn;
use crate::admission::secret::GeneratedSecret;
use crate::admission::{Admission, Policy, Socket, secret};
use crate::launch::plan::Plan;
use crate::launch::pmix::PmixEndpoint;
use crate::poller::{Poller, Token};
use crate::report;
use crate::server::dial_in_peer::DialInPeer;
use crate::server::listen::{Arrival, Listener};
use crate::server::listen_config::WebListenConfig;
use crate::web::{Rejected, Visit, Web};
use pmi_core::wire::pmix::names::Status;
use pmi_std::Stream;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

/// Listeners that are open, and the connections of pages.
pub(super) struct Listeners {
    /// Dial-in of the first job, if its ranks may connect by themselves.
    pub(super) dial_in: Option<DialIn>,
    /// Listener for PMIx clients, if there may be any.
    pmix: Option<Listener>,
    /// Listener for pages, if they may connect, and the configuration they must match.
    pub(super) web: Option<Web>,
    web_listen: Option<WebListenConfig>,
    /// Secret generated for this run; dropping it removes its file.
    secret: Option<GeneratedSecret>,
}

/// Result of accepting a connection.
#[derive(Debug)]
pub(super) enum ListenerEvent {
    /// It has to prove which rank it is.
    Peer(DialInPeer),
    /// It is a PMIx client of the launcher's user; its rank is checked when it claims one.
    PmixPeer {
        link: Stream,
        from: SocketAddr,
        /// Socket at the other end.
        socket: Socket,
    },
    /// It was rejected. The connection stays open until the process at its other end was looked up.
    Rejected(Rejected, Option<Stream>),
    /// It is closed already.
    Gone,
}

impl Listeners {
    pub(super) fn new(
        dial_in: Option<DialIn>,
        (web, web_listen): (Option<Web>, Option<WebListenConfig>),
        secret: Option<GeneratedSecret>,
    ) -> Self {
        Self { dial_in, pmix: None, web, web_listen, secret }
    }

    /// Reports of the addresses at which ranks of `plan` and pages may connect, and of a generated secret.
    pub(super) fn addresses(&self, plan: &Plan) -> Vec<String> {
        let has_ranks = self.dial_in.as_ref().is_some_and(DialIn::has_listener);
        let endpoint = plan.endpoint.as_ref().filter(|_| has_ranks);
        let secret = self.secret.as_ref().map(|secret| {
            let shown = rustix::termios::isatty(io::stderr()).then_some(secret.text.as_str());
            report::generated_secret(&secret.path, shown)
        });
        let web = self.web.as_ref().map(|web| report::for_pages(&web.url(), has_ranks));
        let listening = endpoint.map(|endpoint| report::listening(plan, endpoint));
        [listening, secret, web].into_iter().flatten().collect()
    }

    /// True if there may be PMIx clients.
    pub(super) const fn has_pmix(&self) -> bool {
        self.pmix.is_some()
    }

    /// True while an expected rank is not connected or has not finalized.
    pub(super) fn awaits_peers(&self) -> bool {
        self.dial_in.as_ref().is_some_and(DialIn::awaits_peers)
    }

    /// True while an expected rank is not connected; attendance reports cover that state.
    pub(super) fn awaits_absent(&self) -> bool {
        self.dial_in.as_ref().is_some_and(DialIn::awaits_absent)
    }

    /// Accepts the next connection of a rank, if there is one.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub(super) fn accept_peer(&mut self, poller: &Poller) -> io::Result<Option<ListenerEvent>> {
        self.dial_in.as_mut().map_or(Ok(None), |dial_in| dial_in.accept(poller))
    }

    /// Opens the listener for PMIx clients, if a rank of `plan` may be one and it is not open yet, and
    /// writes its address into the plan.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub(super) fn open_pmix(&mut self, plan: &mut Plan, poller: &Poller) -> io::Result<()> {
        if !plan.has_pmix() {
            return Ok(());
        }
        let listener = match &mut self.pmix {
            Some(listener) => listener,
            None => {
                let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
                let opened = Listener::open(any, Token::PmixListen, Policy::Owner, poller)?;
                self.pmix.insert(opened)
            }
        };
        plan.pmix = Some(PmixEndpoint::new(std::process::id(), listener.address));
        Ok(())
    }

    /// Accepts the next connection of a PMIx client, if there is one.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub(super) fn accept_pmix(&mut self, poller: &Poller) -> io::Result<Option<ListenerEvent>> {
        let Some(listener) = &mut self.pmix else { return Ok(None) };
        let Some(arrival) = listener.accept(poller)? else { return Ok(None) };
        let Arrival { mut stream, from, admission } = arrival;
        Ok(Some(match admission {
            Admission::Admitted(Some(socket)) => {
                ListenerEvent::PmixPeer { link: stream, from, socket }
            }
            Admission::Rejected { socket, why } => {
                // The status is a courtesy; it is dropped if it cannot be written at once.
                let _ = stream.write(&Status::NO_PERMISSIONS.0.to_be_bytes());
                ListenerEvent::Rejected(Rejected { from, socket, why }, Some(stream))
            }
            Admission::Admitted(None) | Admission::Gone => ListenerEvent::Gone,
        }))
    }

    /// Accepts connections of pages, as far as they are admitted, and returns those that are not.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub(super) fn accept_pages(&mut self, poller: &Poller) -> io::Result<Vec<Rejected>> {
        let (Some(web), Some(listen)) = (&mut self.web, &self.web_listen) else {
            return Ok(Vec::new());
        };
        web.accept_clients(|| secret::challenge(listen.secret.as_ref()), poller)
    }

    /// Continues the connection of the page with this number.
    ///
    /// # Errors
    ///
    /// Errors of the system's readiness calls.
    pub(super) fn serve_page(&mut self, number: u32, poller: &Poller) -> io::Result<Option<Visit>> {
        self.web.as_mut().map_or(Ok(None), |web| web.ready(number, poller))
    }

    /// A page that is to be a rank, if ranks may connect.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub(super) fn page_peer(&self, link: Stream, from: SocketAddr) -> io::Result<ListenerEvent> {
        Ok(match &self.dial_in {
            Some(dial_in) => ListenerEvent::Peer(dial_in.page(link, from)?),
            // A rejected page finds its end of the pair closed.
            None => {
                let rejected = Rejected { from, socket: None, why: NO_RANKS.to_owned() };
                ListenerEvent::Rejected(rejected, None)
            }
        })
    }

    /// Handles the deadlines of listeners and pages. Returns true if an attendance report is due.
    ///
    /// # Errors
    ///
    /// Errors of the readiness calls.
    pub(super) fn tick(&mut self, now: Instant, poller: &Poller) -> io::Result<bool> {
        if let Some(listener) = &mut self.pmix {
            listener.tick(now, poller)?;
        }
        let is_due = match &mut self.dial_in {
            Some(dial_in) => dial_in.tick(now, poller)?,
            None => false,
        };
        if let Some(web) = &mut self.web {
            web.tick(now, poller)?;
        }
        Ok(is_due)
    }

    /// Time of the next [`tick`](Self::tick).
    pub(super) fn deadline(&self) -> Option<Instant> {
        let dial_in = self.dial_in.as_ref().and_then(DialIn::deadline);
        let web = self.web.as_ref().and_then(Web::deadline);
        let pmix = self.pmix.as_ref().and_then(|listener| listener.paused_until);
        [dial_in, web, pmix].into_iter().flatten().min()
    }
}

const NO_RANKS: &str = "requested to be a rank from a page, but the run expects no further ranks; specify \
    their number with '--expect N'";
