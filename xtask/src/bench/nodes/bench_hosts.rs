//! Hosts of the comparisons, and the launchers that start jobs on them.

use crate::bench::Tools;
use crate::bench::open_mpi::OpenMpi;
use crate::bench::tools::HYDRA;
use pmi_host_testkit::ssh::{HostFamily, SshHosts, address};
use std::path::Path;
use std::process::{Command, Stdio};

/// The hosts, and the programs of the peers.
pub(in crate::bench) struct BenchHosts<'a> {
    pub(in crate::bench) tools: &'a Tools,
    pub(in crate::bench) hosts: SshHosts,
    pub(in crate::bench) open_mpi: OpenMpi,
    /// Newer Hydra, of a wheel.
    newer_hydra: String,
}

/// A launcher that starts ranks on other hosts over `ssh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench) enum SshLauncher {
    PmiHost,
    Hydra,
    NewerHydra,
    /// `pmi-host` that starts ranks before all hosts have joined.
    EarlyPmiHost,
    Prterun,
}

impl SshLauncher {
    pub(in crate::bench) const ALL: [Self; 5] =
        [Self::PmiHost, Self::Hydra, Self::NewerHydra, Self::EarlyPmiHost, Self::Prterun];

    /// Name in the table.
    pub(in crate::bench) const fn name(self) -> &'static str {
        match self {
            Self::PmiHost => "pmi-host",
            Self::Hydra => "Hydra 4.0.2",
            Self::NewerHydra => "Hydra 5.0.2",
            Self::EarlyPmiHost => "`--start-early`",
            Self::Prterun => "prterun 5.0.11",
        }
    }
}

impl<'a> BenchHosts<'a> {
    /// Starts `count` hosts.
    ///
    /// # Errors
    ///
    /// With what is missing.
    pub(in crate::bench) fn start(tools: &'a Tools, count: u32) -> Result<Self, String> {
        let directory = tools.directory()?;
        let open_mpi = OpenMpi::prepare(tools)?;
        let newer_hydra = tools.hydra5.to_string_lossy().into_owned();
        println!("starting {count} hosts");
        let hosts = SshHosts::start(
            Path::new(&tools.host),
            directory.join("ssh"),
            count,
            HostFamily::Ipv4,
        )?;
        Ok(Self { tools, hosts, open_mpi, newer_hydra })
    }

    /// A launcher with `ranks` ranks, as many on each of `hosts` hosts; the program follows.
    pub(in crate::bench) fn launcher(
        &self,
        launcher: SshLauncher,
        hosts: u32,
        ranks: u32,
    ) -> Command {
        let (per_host, ranks) = ((ranks / hosts).to_string(), ranks.to_string());
        // By their addresses: name servers are not what is compared.
        let names = |slots: &str| {
            let all = (1..=hosts).map(|host| format!("{}{slots}", address(host)));
            all.collect::<Vec<_>>().join(",")
        };
        let mut command = match launcher {
            SshLauncher::PmiHost | SshLauncher::EarlyPmiHost => {
                let list = names(&format!(":{per_host}"));
                let early = (launcher == SshLauncher::EarlyPmiHost).then_some("--start-early");
                let words = ["run", "-n", &ranks, "--hosts", &list].into_iter();
                self.hosts.head(&words.chain(early).chain(["--"]).collect::<Vec<_>>())
            }
            SshLauncher::Hydra | SshLauncher::NewerHydra => {
                let is_newer = launcher == SshLauncher::NewerHydra;
                let program = if is_newer { &self.newer_hydra } else { HYDRA };
                let mut command = self.hosts.command(0, program);
                command.args(["-launcher", "ssh", "-localhost", &address(0), "-hosts", &names("")]);
                command.args(["-ppn", &per_host, "-n", &ranks]);
                let extra = format!("-F {}", self.hosts.client());
                command.env("HYDRA_LAUNCHER_EXTRA_ARGS", extra);
                command
            }
            SshLauncher::Prterun => {
                let mut command = self.hosts.command(0, &self.open_mpi.prterun);
                let list = names(&format!(":{per_host}"));
                // The wheel contains the paths of the machine that it was built on.
                let prefix = Path::new(&self.open_mpi.prterun).ancestors().nth(2);
                command.arg("--prefix").arg(prefix.unwrap_or(Path::new("/")));
                command.args(["--allow-run-as-root", "--host", &list, "-n", &ranks]);
                let ssh = format!("-F {}", self.hosts.client());
                command.args(["--prtemca", "plm_ssh_args", &ssh, "-x", STARTED]);
                command.env(STARTED, "0");
                command
            }
        };
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// As many `ssh` at once as there are hosts, each for `/bin/true` and in a session of its own. Where the
    /// kernel divides the processors by session, other load takes less from each; launchers have that, too.
    pub(in crate::bench) fn bare_ssh(&self, hosts: u32) -> Command {
        self.bare_ssh_with(hosts, "")
    }

    /// The same with further options of `ssh`.
    pub(in crate::bench) fn bare_ssh_with(&self, hosts: u32, options: &str) -> Command {
        let script = "config=$1 options=$2; shift 2; for host; do setsid ssh -T -x -o BatchMode=yes \
                      -F \"$config\" $options \"$host\" /bin/true & done; wait";
        let mut command = self.hosts.command(0, "sh");
        command.args(["-c", script, "sh", &self.hosts.client(), options]);
        command.args((1..=hosts).map(address)).stdin(Stdio::null());
        command
    }
}

/// Variable that the PMIx program reads.
const STARTED: &str = "LAUNCHER_STARTED_NS";
