//! Listeners of a run: for ranks that connect by themselves, for PMIx clients, and for pages.

pub(crate) mod dial_in;
mod tool_access;

use crate::cli::config::Config;
use crate::control::rendezvous::ServerAddress;
use crate::launch::plan::job::{Endpoint, Plan, PmixEndpoint, server_nspace};
use crate::launch::plan::pmix_store::{self, SHARED_MEMORY};
use crate::report;
use crate::server::dial_in_peer::DialInPeer;
use crate::server::listen_config::WebListenConfig;
use crate::settings::Watching;
use crate::web::{Rejected, Visit, WATCHING_MAX, Web};
use dial_in::DialIn;
use pmi_core::wire::pmix::names::Status;
use pmi_host_base::exit::print_to;
use pmi_host_base::user_file::Readers;
use pmi_host_os::admission::gate::Arrival;
use pmi_host_os::admission::secret::GeneratedSecret;
use pmi_host_os::admission::{Admission, PENDING_MAX, Policy, Socket, secret};
use pmi_host_os::cleanup::files::SessionDirectory;
use pmi_host_os::cleanup::guard::Guard;
use pmi_host_os::clock;
use pmi_host_os::listen::Listener;
use pmi_host_os::poller::{Poller, Token};
use pmi_std::Stream;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tool_access::ToolAccess;

/// Listeners that are open, and the connections of pages.
pub(crate) struct Listeners {
    /// Dial-in of the first job, if its ranks may connect by themselves.
    pub(crate) dial_in: Option<DialIn>,
    /// Listener for PMIx clients, if there may be any.
    pmix: Option<Listener>,
    /// Rejected PMIx clients, the oldest first, each with the time at which its connection is closed.
    rejected: VecDeque<(Instant, Stream)>,
    /// True if ranks may be PMIx clients.
    has_pmix_ranks: bool,
    /// Directory for temporary files of these ranks.
    session_directory: Option<SessionDirectory>,
    /// Directory for their stores in shared memory.
    stores: Option<SessionDirectory>,
    /// Access of tools, at the listener for PMIx clients.
    pub(crate) tools: ToolAccess,
    /// Names of this host and of the first job, for tools.
    names: [String; 2],
    /// Listener for pages, if they may connect, and the configuration they must match.
    pub(crate) web: Option<Web>,
    web_listen: Option<WebListenConfig>,
    /// Secret generated for this run; dropping it removes its file.
    secret: Option<GeneratedSecret>,
}

/// Number of open files that ranks which connect by themselves and pages need.
pub(crate) fn open_files(config: &Config) -> u32 {
    let expected = config.listen.as_ref().map_or(0, |listen| listen.expected);
    let callers = config.listen.as_ref().map_or(0, |_| expected.saturating_add(PENDING));
    // A page that is a rank needs an open file and both ends of a pair; one that watches needs an open
    // file.
    let most = expected.saturating_mul(2).saturating_add(3 * PENDING + WATCHING);
    callers.saturating_add(config.web.as_ref().map_or(0, |_| most))
}

/// Creates a directory for ranks, which `guard` removes if this process is killed. `None` if it cannot be
/// created.
fn guarded_directory(
    parent: Option<&Path>,
    kind: &str,
    guard: Option<&mut Guard>,
) -> Option<SessionDirectory> {
    let announce = |path: &Path| {
        if let Some(guard) = guard {
            guard.report_directory(path);
        }
    };
    SessionDirectory::create(parent, kind, announce).ok()
}

/// Result of accepting a connection.
#[derive(Debug)]
pub(crate) enum ListenerEvent {
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
    pub(crate) fn new(
        dial_in: Option<DialIn>,
        (web, web_listen): (Option<Web>, Option<WebListenConfig>),
        secret: Option<GeneratedSecret>,
    ) -> Self {
        let (tools, names) = (ToolAccess::default(), Default::default());
        Self {
            dial_in,
            pmix: None,
            rejected: VecDeque::new(),
            has_pmix_ranks: false,
            session_directory: None,
            stores: None,
            tools,
            names,
            web,
            web_listen,
            secret,
        }
    }

    /// Reports of the addresses at which ranks of `plan` and pages may connect, and of a generated secret.
    pub(crate) fn addresses(&self, plan: &Plan) -> Vec<String> {
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
    pub(crate) const fn has_pmix(&self) -> bool {
        self.pmix.is_some()
    }

    /// Address for PMIx clients, if there may be any.
    pub(crate) fn pmix_uri(&self) -> Option<String> {
        let listener = self.pmix.as_ref()?;
        Some(PmixEndpoint::new(std::process::id(), listener.address).uri)
    }

    /// True if ranks may be PMIx clients.
    pub(crate) const fn has_pmix_ranks(&self) -> bool {
        self.has_pmix_ranks
    }

    /// True while an expected rank is not connected or has not finalized.
    pub(crate) fn awaits_peers(&self) -> bool {
        self.dial_in.as_ref().is_some_and(DialIn::awaits_peers)
    }

    /// True while an expected rank is not connected; attendance reports cover that state.
    pub(crate) fn awaits_absent(&self) -> bool {
        self.dial_in.as_ref().is_some_and(DialIn::awaits_absent)
    }

    /// Maximum number of connections that have not proved which rank they are. At a port for ranks that are
    /// started, all that run may connect at once; else all expected ones that are absent.
    pub(crate) fn unauthenticated_max(&self, running: usize) -> usize {
        let ranks = self
            .dial_in
            .as_ref()
            .map_or(0, |dial_in| if dial_in.is_for_started() { running } else { dial_in.absent() });
        PENDING_MAX + ranks
    }

    /// Address for `ranks` ranks of a job that is spawned by one of `parent`, if its ranks have one.
    pub(crate) fn endpoint_of_spawned(&mut self, parent: &Plan, ranks: u32) -> Option<Endpoint> {
        let (dial_in, endpoint) = self.dial_in.as_mut().zip(parent.endpoint.as_ref())?;
        Some(dial_in.endpoint_of_spawned(endpoint, ranks))
    }

    /// Accepts the next connection of a rank, if there is one.
    pub(crate) fn accept_peer(&mut self, poller: &Poller) -> io::Result<Option<ListenerEvent>> {
        self.dial_in.as_mut().map_or(Ok(None), |dial_in| dial_in.accept(poller))
    }

    /// Opens the listener for PMIx clients, if a rank of `plan` may be one and it is not open yet, and
    /// writes its address into the plan. The guard removes the directory of these ranks if the launcher
    /// cannot do it.
    pub(crate) fn open_pmix(
        &mut self,
        plan: &mut Plan,
        mut guard: Option<&mut Guard>,
        poller: &Poller,
    ) -> io::Result<()> {
        if !plan.has_pmix() {
            return Ok(());
        }
        if self.session_directory.is_none() {
            let parent = plan.environment.temporary.as_deref();
            // Without it libraries choose directories by themselves.
            self.session_directory = guarded_directory(parent, "ranks", guard.as_deref_mut());
        }
        let directory = self.session_directory.as_ref().map(|own| own.path().to_owned());
        let store = self.store_directory(plan, guard);
        plan.pmix = Some(PmixEndpoint { directory, store, ..self.listen_pmix(poller)? });
        self.has_pmix_ranks = true;
        Ok(())
    }

    /// Directory for the store of the job of `plan`, if the libraries of all its ranks read one. The guard
    /// removes it if the launcher cannot do it.
    fn store_directory(&mut self, plan: &Plan, guard: Option<&mut Guard>) -> Option<PathBuf> {
        if !plan.has_pmix_store() || !pmix_store::is_possible() {
            return None;
        }
        if self.stores.is_none() {
            self.stores = guarded_directory(Some(Path::new(SHARED_MEMORY)), "store", guard);
        }
        Some(self.stores.as_ref()?.path().join(&plan.kvsname))
    }

    /// Opens the listener for PMIx clients unless it is open, and returns its address.
    fn listen_pmix(&mut self, poller: &Poller) -> io::Result<PmixEndpoint> {
        let listener = match &mut self.pmix {
            Some(listener) => listener,
            None => {
                let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
                let opened = Listener::open(any, Token::PmixListen, Policy::Owner, poller)?;
                self.pmix.insert(opened)
            }
        };
        Ok(PmixEndpoint::new(std::process::id(), listener.address))
    }

    /// Admits tools to the run of `plan` as the user has set it: the system server at once, others when the
    /// run has lasted for a moment.
    ///
    /// # Errors
    ///
    /// A message for the user, if this cannot be the system server.
    pub(crate) fn admit_tools(
        &mut self,
        settings: &Watching,
        plan: &Plan,
        poller: &Poller,
    ) -> Result<(), String> {
        self.tools = ToolAccess::new(settings);
        self.names = [plan.host.clone(), plan.kvsname.clone()];
        if settings.is_system_server {
            let server = self.server_address(poller).map_err(|error| {
                format!("the system server cannot listen for PMIx tools: {error}")
            })?;
            self.tools.open_system(&server)?;
        }
        if let Some(place) = &settings.report_uri {
            let written = self
                .server_address(poller)
                .and_then(|server| print_to(place, server.uri, Readers::Owner));
            written.map_err(|error| {
                format!("'--report-uri {}' cannot be written ({error})", place.display())
            })?;
        }
        Ok(())
    }

    fn server_address(&mut self, poller: &Poller) -> io::Result<ServerAddress> {
        let uri = self.listen_pmix(poller)?.uri;
        let [host, job] = self.names.clone();
        Ok(ServerAddress { host, nspaces: vec![server_nspace(std::process::id()), job], uri })
    }

    /// Accepts the next connection of a PMIx client, if there is one.
    pub(crate) fn accept_pmix(&mut self, poller: &Poller) -> io::Result<Option<ListenerEvent>> {
        let Some(listener) = &mut self.pmix else { return Ok(None) };
        let Some(arrival) = listener.accept(poller)? else { return Ok(None) };
        let Arrival { mut stream, from, admission } = arrival;
        let Some(Admission { socket, identity }) = admission else {
            return Ok(Some(ListenerEvent::Gone));
        };
        Ok(Some(match (identity.doubt(WITHOUT_PMIX), socket) {
            (None, Some(socket)) => ListenerEvent::PmixPeer { link: stream, from, socket },
            (None, None) => ListenerEvent::Gone,
            (Some(why), socket) => {
                // The status is a courtesy; it is dropped if it cannot be written at once.
                let _ = stream.write(&Status::NO_PERMISSIONS.0.to_be_bytes());
                // libpmix waits forever if the connection is reset while it sends its own message.
                if self.rejected.len() >= REJECTED_MAX {
                    self.rejected.pop_front();
                }
                self.rejected.push_back((clock::now() + REJECTED_FOR, stream));
                ListenerEvent::Rejected(Rejected { from, socket, why }, None)
            }
        }))
    }

    /// Accepts connections of pages, as far as they are admitted, and returns those that are not.
    pub(crate) fn accept_pages(&mut self, poller: &Poller) -> io::Result<Vec<Rejected>> {
        let (Some(web), Some(listen)) = (&mut self.web, &self.web_listen) else {
            return Ok(Vec::new());
        };
        web.accept_clients(|| secret::challenge(listen.secret.as_ref(), false), poller)
    }

    /// Continues the connection of the page with this number.
    ///
    /// # Errors
    ///
    /// Errors of the system's readiness calls.
    pub(crate) fn serve_page(&mut self, number: u32, poller: &Poller) -> io::Result<Option<Visit>> {
        self.web.as_mut().map_or(Ok(None), |web| web.ready(number, poller))
    }

    /// A page that is to be a rank, if ranks may connect.
    pub(crate) fn page_peer(&self, link: Stream, from: SocketAddr) -> io::Result<ListenerEvent> {
        Ok(match &self.dial_in {
            Some(dial_in) if !dial_in.is_for_started() => {
                ListenerEvent::Peer(dial_in.page(link, from)?)
            }
            // A rejected page finds its end of the pair closed.
            _ => {
                let rejected = Rejected { from, socket: None, why: NO_RANKS.to_owned() };
                ListenerEvent::Rejected(rejected, None)
            }
        })
    }

    /// Handles the deadlines of listeners and pages. Returns true if an attendance report is due.
    pub(crate) fn tick(
        &mut self,
        now: Instant,
        poller: &Poller,
        guard_file: &mut dyn FnMut(&Path),
    ) -> io::Result<bool> {
        if self.tools.deadline().is_some_and(|at| now >= at) {
            // Without a listener the run is unaffected.
            match self.server_address(poller) {
                Ok(server) => self.tools.open(&server, guard_file),
                Err(_) => self.tools = ToolAccess::default(),
            }
        }
        if let Some(listener) = &mut self.pmix {
            listener.tick(now, poller)?;
        }
        while self.rejected.front().is_some_and(|(until, _)| now >= *until) {
            self.rejected.pop_front();
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
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let dial_in = self.dial_in.as_ref().and_then(DialIn::deadline);
        let web = self.web.as_ref().and_then(Web::deadline);
        let pmix = self.pmix.as_ref().and_then(|listener| listener.paused_until);
        let rejected = self.rejected.front().map(|(until, _)| *until);
        [dial_in, web, pmix, rejected, self.tools.deadline()].into_iter().flatten().min()
    }
}

/// Maximum number of rejected PMIx clients whose connections are kept; the oldest is closed for the next one.
const REJECTED_MAX: usize = 8;

/// Time that a rejected PMIx client has to send its message and to read the status.
const REJECTED_FOR: Duration = Duration::from_secs(1);

const WITHOUT_PMIX: &str = "with '--pmi 2' or '--pmi 1' ranks inherit their connections";

const NO_RANKS: &str = "requested to be a rank from a page, but the run expects no further ranks; specify \
    their number with '--expect N'";

/// Number of unauthenticated connections that have room.
const PENDING: u32 = 64;
const _: () = assert!(PENDING as usize == PENDING_MAX);

/// Number of watching pages that have room.
const WATCHING: u32 = 64;
const _: () = assert!(WATCHING as usize == WATCHING_MAX);
