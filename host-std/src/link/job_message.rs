//! Description of a job for its nodes: the same bytes for all of them, whose size depends on
//! programs, hosts and runs of ranks, and not on the number of ranks.

use crate::launch::plan::job::App;
use crate::placement::{ExpectedRanks, NodeMap};
use crate::server::listen_config::{ListenConfig, WebListenConfig};
use crate::settings::UniverseSize;
use crate::settings::ending::{OnExitError, OnSingletons};
use crate::settings::environment::Environment;
use crate::settings::job::FenceData;
use crate::settings::output::StdinTo;
use crate::settings::placement::Placement;
use crate::stdio::outputs::NodeOutput;
use pmi_host_base::kvs_budget::KvsLimits;
use pmi_host_base::program::{Inherit, Program};
use pmi_host_os::admission::secret::{IdWidth, read_secret};
use pmi_nodes::stage::{SentPrograms, StagedPrograms};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A job on several nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobMessage {
    /// Name of the run, which begins the names of its jobs.
    pub(crate) run: String,
    /// Names of the hosts; their indices are the numbers of the nodes.
    pub(crate) hosts: Vec<String>,
    /// Node of every rank.
    pub(crate) map: NodeMap,
    /// Listeners for ranks that connect by themselves, which follow the others, and for pages; `None` without
    /// any.
    pub(crate) dial_in: Option<DialInMessage>,
    /// Programs, in the order of the ranks.
    pub(crate) apps: Vec<AppMessage>,
    /// Facts about the job that ranks may read.
    pub(crate) facts: FactsMessage,
    /// Data that the ranks exchange.
    pub(crate) exchange: ExchangeMessage,
    /// Environment of the ranks, with that of the head.
    pub(crate) environment: Environment,
    /// State of the head's process that ranks take over.
    pub(crate) origin: Origin,
    /// Processors of the ranks.
    pub(crate) placement: Placement,
    /// Standard streams of the ranks.
    pub(crate) streams: StreamsMessage,
    /// Supervision of the ranks.
    pub(crate) supervision: Supervision,
}

/// Facts about a job that its ranks may read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FactsMessage {
    /// Number of processes that all jobs together may have.
    pub(crate) universe: UniverseSize,
    /// Job attributes.
    pub(crate) attributes: Vec<(String, String)>,
}

/// Listeners for ranks that connect by themselves, and for pages, at the node of the head's machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DialInMessage {
    /// Number of that node.
    node: u32,
    /// Address for ranks; `None` if they connect through web sockets only.
    address: Option<SocketAddr>,
    /// Address for pages, and origins of those that are admitted.
    web: Option<(SocketAddr, Vec<String>)>,
    /// The ranks, and their nodes.
    pub(crate) expected: ExpectedRanks,
    /// File with the secret that they must know: it does not travel itself.
    secret_file: Option<OsString>,
    is_secured: bool,
    requires_challenge: bool,
    has_short_ids: bool,
    /// Absolute path of the socket of munged, if a credential of munge is a proof, too.
    munge: Option<OsString>,
}

/// Data that the ranks of a job exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExchangeMessage {
    /// Limits of the key-value space on each node.
    pub(crate) kvs: KvsLimits,
    /// Way of committed data to other nodes.
    pub(crate) fence: FenceData,
    /// Name server of the head, through which ranks are connected with other runs.
    pub(crate) name_server: Option<String>,
}

/// Supervision of the ranks of a job on each node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Supervision {
    /// Time limit of the run.
    pub(crate) timeout: Option<Duration>,
    /// Time without progress after which a node with waiting ranks reports it to the head.
    pub(crate) standstill: Option<Duration>,
    /// Effect of the failure of one rank on the others.
    pub(crate) on_exit_error: OnExitError,
    /// Effect of ranks that all call `MPI_Init` as singletons.
    pub(crate) on_singletons: OnSingletons,
    /// True if all messages of ranks are recorded and sent to the head.
    pub(crate) is_traced: bool,
    /// Further signals to the node server that are forwarded to the ranks, by number.
    pub(crate) forward_signals: Vec<i32>,
}

/// Ranks that run the same program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AppMessage {
    /// Path of the program.
    path: OsString,
    /// Its name as typed.
    name: OsString,
    /// Its arguments.
    args: Vec<OsString>,
    /// Its working directory, if not that of the head.
    directory: Option<OsString>,
    /// Selection of inherited variables, if it differs from that of all programs.
    inherit: Option<Inherit>,
    /// Variables for this program alone.
    variables: Vec<(OsString, OsString)>,
    /// Number of ranks.
    ranks: u32,
    /// Number of the program among those that were sent before the job.
    sent_as: Option<u32>,
}

/// State of the head's process that ranks take over on every node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// Working directory.
    pub(crate) directory: OsString,
    /// Permissions that new files lack.
    pub(crate) umask: u32,
    /// True if all nodes are on the machine of the head.
    pub(crate) is_one_machine: bool,
}

/// Terminal of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TerminalMessage {
    /// The rank.
    pub(crate) rank: u32,
    /// Lines of the terminal.
    pub(crate) rows: u16,
    /// Characters of a line.
    pub(crate) columns: u16,
}

/// Standard streams of the ranks of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StreamsMessage {
    /// Readers of standard input.
    pub(crate) readers: StdinTo,
    /// Rank with a terminal of its own, which reads all input then.
    pub(crate) terminal: Option<TerminalMessage>,
    /// Output.
    pub(crate) output: NodeOutput,
}

/// Error in a description of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JobError {
    /// The nodes of the ranks are others than the hosts.
    #[error("its ranks are on other nodes than its hosts")]
    Hosts,
    /// The programs have another number of ranks than the nodes.
    #[error("its programs have another number of ranks than its nodes")]
    Programs,
}

impl JobMessage {
    /// Checks that the parts of the description agree with each other.
    ///
    /// # Errors
    ///
    /// [`JobError`].
    pub(crate) fn check(&self) -> Result<(), JobError> {
        if u32::try_from(self.hosts.len()).is_ok_and(|hosts| hosts < self.map.nodes()) {
            return Err(JobError::Hosts);
        }
        let expected = self.dial_in.as_ref().map_or(0, |dial_in| dial_in.expected.count());
        let of_apps = self.apps.iter().try_fold(expected, |sum, app| sum.checked_add(app.ranks));
        match of_apps == Some(self.map.ranks()) {
            true => Ok(()),
            false => Err(JobError::Programs),
        }
    }
}

impl DialInMessage {
    /// Listeners at `node` for the `expected` ranks, of which `secret_file` has the secret.
    ///
    /// # Errors
    ///
    /// A sentence for the user.
    pub(crate) fn new(
        (listen, web): (Option<&ListenConfig>, Option<&WebListenConfig>),
        expected: ExpectedRanks,
        secret_file: Option<&Path>,
        node: u32,
    ) -> Result<Self, String> {
        let absolute = secret_file.map(std::path::absolute).transpose();
        let absolute =
            absolute.map_err(|error| format!("the file of the secret has no path: {error}"))?;
        let id_width = listen.map(|listen| listen.id_width);
        Ok(Self {
            node,
            address: listen.and_then(|listen| listen.address),
            web: web.map(|web| (web.address, web.origins.clone())),
            expected,
            secret_file: absolute.map(OsString::from),
            is_secured: listen.is_some_and(|listen| listen.is_secured),
            requires_challenge: listen.is_some_and(|listen| listen.requires_challenge),
            has_short_ids: id_width == Some(IdWidth::Bits31),
            munge: listen.and_then(|listen| listen.munge.clone()).map(OsString::from),
        })
    }

    /// Configuration of the listeners for ranks and for pages, at their node; none at other nodes.
    ///
    /// # Errors
    ///
    /// A sentence for the user: the secret cannot be read.
    pub(crate) fn config(
        self,
        node: u32,
    ) -> Result<(Option<ListenConfig>, Option<WebListenConfig>), String> {
        if node != self.node {
            return Ok((None, None));
        }
        let secret = self.secret_file.as_deref().map(read_secret).transpose()?;
        let listen = ListenConfig {
            address: self.address,
            expected: self.expected.count(),
            secret: secret.clone(),
            is_secured: self.is_secured,
            requires_challenge: self.requires_challenge,
            id_width: if self.has_short_ids { IdWidth::Bits31 } else { IdWidth::Bits63 },
            munge: self.munge.map(PathBuf::from),
            is_for_started: false,
        };
        let web = self.web.map(|(address, origins)| WebListenConfig { address, secret, origins });
        Ok((Some(listen).filter(|listen| listen.expected > 0), web))
    }
}

impl AppMessage {
    /// Forgets that the program was sent: a node that joins later starts no rank of it.
    pub(crate) fn clear_sent(&mut self) {
        self.sent_as = None;
    }

    /// Reads the program at the head, to send it to all nodes.
    ///
    /// # Errors
    ///
    /// A sentence for the user.
    pub(crate) fn send_with(&mut self, sent: &mut SentPrograms) -> Result<(), String> {
        let directory = Path::new(self.directory.as_deref().unwrap_or(OsStr::new(".")));
        self.sent_as = Some(sent.add(&directory.join(&self.path))?);
        Ok(())
    }

    /// Makes files of the programs that were sent for these ones.
    ///
    /// # Errors
    ///
    /// A sentence for the user.
    pub(crate) fn stage(
        all: &mut [Self],
        programs: &mut StagedPrograms,
        parent: Option<&Path>,
    ) -> Result<(), String> {
        let named = all.iter_mut().filter_map(|app| {
            let (number, path) = (app.sent_as?, app.path.clone());
            Some((app, number, path))
        });
        programs.stage(named, (parent, |app: &mut Self, path| app.path = path.into()))
    }
}

impl From<&App> for AppMessage {
    fn from(App { program, ranks }: &App) -> Self {
        let Program { path, name, args, directory, inherit, variables } = program.clone();
        Self {
            path: path.into(),
            name,
            args,
            directory: directory.map(OsString::from),
            inherit,
            variables,
            ranks: *ranks,
            sent_as: None,
        }
    }
}

impl From<AppMessage> for App {
    fn from(message: AppMessage) -> Self {
        let AppMessage { path, name, args, directory, inherit, variables, ranks, .. } = message;
        let directory = directory.map(PathBuf::from);
        let program = Program { path: path.into(), name, args, directory, inherit, variables };
        Self { program, ranks }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::launch::plan::job::tests::plan;
    use crate::placement::tests::placed;
    use crate::stdio::gather::NodeGather;
    use std::os::unix::ffi::OsStringExt;

    /// Five ranks of two programs on two hosts.
    pub(in crate::link) fn job() -> JobMessage {
        let plan = plan(&[("./a", 3), ("./b", 2)]);
        let pair = |name: &str, value: &[u8]| (name.into(), OsString::from_vec(value.to_vec()));
        JobMessage {
            run: "kvs_n1_7".to_owned(),
            hosts: vec!["n1".to_owned(), "n2".to_owned()],
            map: placed("n1:2,n2:2", 5).map,
            apps: plan.parts.iter().map(AppMessage::from).collect(),
            facts: FactsMessage {
                universe: UniverseSize { pmi: None, pmix: 9 },
                attributes: vec![("a".to_owned(), "b".to_owned())],
            },
            dial_in: None,
            exchange: ExchangeMessage {
                kvs: KvsLimits::default(),
                fence: FenceData::Pull,
                name_server: Some("n1:7700".to_owned()),
            },
            environment: Environment {
                inherit: Inherit::Only(vec!["A".into()]),
                set: vec![pair("B", b"\xff=")],
                of_head: Some(vec![pair("PATH", b"/bin")]),
                ..Environment::default()
            },
            origin: Origin { directory: "/tmp".into(), umask: 0o22, is_one_machine: true },
            placement: Placement::default(),
            streams: StreamsMessage {
                readers: StdinTo::First,
                terminal: Some(TerminalMessage { rank: 4, rows: 24, columns: 300 }),
                output: NodeOutput {
                    are_one: false,
                    gather: Some(NodeGather { streams: [true, false], wait: None }),
                },
            },
            supervision: Supervision {
                timeout: Some(Duration::from_secs(9)),
                standstill: Some(Duration::from_secs(10)),
                on_exit_error: OnExitError::Ignore,
                on_singletons: OnSingletons::Ignore,
                is_traced: true,
                forward_signals: vec![10],
            },
        }
    }

    #[test]
    fn contradictory_descriptions_are_rejected() {
        let with = |change: fn(&mut JobMessage)| {
            let mut job = job();
            change(&mut job);
            job.check()
        };
        assert_eq!(with(|_| ()), Ok(()));
        assert_eq!(with(|job| drop(job.hosts.pop())), Err(JobError::Hosts));
        assert_eq!(with(|job| drop(job.apps.pop())), Err(JobError::Programs));
        assert_eq!(with(|job| job.apps[0].ranks = u32::MAX), Err(JobError::Programs));
        // Ranks that connect have nodes and no program.
        let listen = ListenConfig::for_started();
        let dial_in = |expected: &str| {
            let expected = ExpectedRanks::parse(expected, 9).unwrap();
            DialInMessage::new((Some(&listen), None), expected, None, 1).ok()
        };
        let mut job = job();
        job.dial_in = dial_in("1x2");
        assert_eq!(job.check(), Err(JobError::Programs));
        job.apps.pop();
        assert_eq!(job.check(), Ok(()));
        let dial_in = job.dial_in.unwrap();
        assert!(matches!(dial_in.clone().config(0), Ok((None, None))));
        assert!(matches!(dial_in.config(1), Ok((Some(_), None))));
    }

    #[test]
    fn programs_are_the_same_on_every_node() {
        let mut app = plan(&[("./a", 3)]).parts.remove(0);
        app.program.path = OsString::from_vec(b"./\xff".to_vec()).into();
        app.program.directory = Some("/tmp".into());
        app.program.inherit = Some(Inherit::Nothing);
        assert_eq!(App::from(AppMessage::from(&app)), app);
    }
}
