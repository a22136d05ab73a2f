//! Starters: how node servers come to run on the hosts of a job.
//!
//! A starter has to do one thing: run `pmi-host node --to …` on a host, with the key of the run as its
//! standard input. The node server connects to the head by itself, so all starters are alike afterwards.

mod child;
pub(super) mod delegation;
pub(super) mod pool;
mod staging;
mod table;

use crate::launch::spawn_request::{is_node, is_this_machine, slurm_node};
use crate::settings::nodes::{NodeSettings, OFF, StarterFanout, StarterName};
use delegation::StartPlan;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::ffi::OsString;
use table::{ROWS, StarterCall, StarterRow};

/// A host on which a node server is to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StarterHost {
    /// Number of the node.
    pub(crate) node: u32,
    /// Name as the user or the batch system writes it.
    pub(crate) name: String,
    /// True for the machine of the head, where no starter is needed.
    pub(crate) is_here: bool,
    /// True if it may be none of those of the batch system: one call for all of these does not reach it.
    pub(crate) is_apart: bool,
}

impl StarterHost {
    /// The hosts of a run, as nodes from 1 on. With [`AUTOFORK`] switched off, this machine is a host like
    /// the others.
    pub(crate) fn all(
        names: &[String],
        settings: &NodeSettings,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Vec<Self> {
        let is_off = |value: String| OFF.iter().any(|off| value.eq_ignore_ascii_case(off));
        let is_forked = !variable(AUTOFORK).is_some_and(is_off);
        let is_local = settings.starter.as_ref().is_some_and(StarterName::is_here);
        let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let is_single = names.len() == 1;
        let slurm = slurm_node();
        let host = |(name, node): (&String, u32)| Self {
            node,
            name: name.clone(),
            is_here: is_local
                || is_forked
                    && (is_node(name, slurm.as_deref()) || is_this_machine(name, &own, is_single)),
            is_apart: false,
        };
        names.iter().zip(1..).map(host).collect()
    }
}

/// Command that starts node servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StarterCommand {
    /// Program and arguments.
    pub(crate) words: Vec<String>,
    /// Numbers of the nodes that it starts.
    pub(crate) nodes: Vec<u32>,
    /// True if it reads this program behind the key on its standard input.
    pub(crate) sends_program: bool,
}

/// Starter that was chosen, with the arguments that the user has added.
#[derive(Debug)]
pub(crate) struct Starter {
    kind: StarterKind,
    /// Program instead of that of the row.
    program: Option<String>,
    /// Further arguments, in front of the host.
    extra: Vec<String>,
}

#[derive(Debug)]
enum StarterKind {
    Row(&'static StarterRow),
    Template(Vec<String>),
    Local,
    Manual,
}

impl Starter {
    /// Chooses a starter: by the settings, by the variables of other launchers, by the batch system.
    ///
    /// # Errors
    ///
    /// A message for the user, with the remedy.
    pub(crate) fn choose(
        settings: &NodeSettings,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let first =
            |names: &[&'static str]| names.iter().find_map(|name| Some((*name, variable(name)?)));
        if let Some(template) = &settings.template {
            let others = [("exec", &settings.program), ("args", &settings.arguments)];
            if let Some((name, _)) = others.iter().find(|(_, value)| value.is_some()) {
                return Err(format!(
                    "'--starter-cmd' is a whole command, which '--starter-{name}' would not change; \
                     leave one of them out"
                ));
            }
            return Self::of_template(template);
        }
        let split = |name: &str, words: &str| {
            let missing = || format!("a quotation mark is missing in '{words}' of {name}");
            shlex::split(words).ok_or_else(missing)
        };
        let named = match (&settings.starter, first(&LAUNCHERS)) {
            (Some(named), _) => Some(named.clone()),
            (None, Some((name, value))) => Some(StarterName::of_hydra(&value).ok_or_else(|| {
                format!("{name}: there is no launcher '{value}'; '--starter' lists all, 'ssh' is one")
            })?),
            (None, None) => None,
        };
        // The agent of Open MPI is a remote shell, and the first one of a list.
        let agent = first(&AGENTS)
            .map(|(name, value)| split(name, value.split(':').next().unwrap_or_default()));
        let agent = agent.transpose()?.unwrap_or_default();
        let kind = match named {
            Some(StarterName::Row(name)) => of_name(|row| row.name == name),
            Some(StarterName::Local(_) | StarterName::Here) => Some(StarterKind::Local),
            Some(StarterName::Manual) => Some(StarterKind::Manual),
            None if !agent.is_empty() => of_name(|row| row.name == DEFAULT),
            None => {
                let is_there =
                    |row: &StarterRow| row.variable.is_some_and(|name| variable(name).is_some());
                of_name(is_there).or_else(|| of_name(|row| row.name == DEFAULT))
            }
        };
        let kind = kind.ok_or("there is no such starter; '--starter ssh' is one")?;
        let StarterKind::Row(row) = kind else {
            return Ok(Self { kind, program: None, extra: Vec::new() });
        };
        let given = settings.program.clone().or_else(|| first(&PROGRAMS).map(|(_, value)| value));
        let is_shell = matches!(row.call, StarterCall::PerHost { is_quoted: true, .. });
        let (program, mut extra) = match (given, agent.split_first()) {
            (None, Some((agent, words))) if is_shell => (Some(agent.clone()), words.to_vec()),
            (given, _) => (given, Vec::new()),
        };
        let named = settings.arguments.clone().map(|value| ("--starter-args", value));
        let names = if is_shell { &EXTRA_ARGUMENTS[..] } else { &EXTRA_ARGUMENTS[..OF_HYDRA] };
        if let Some((name, value)) = named.or_else(|| first(names)) {
            extra.extend(split(name, &value)?);
        }
        Ok(Self { kind, program, extra })
    }

    fn of_template(template: &str) -> Result<Self, String> {
        let example = "try 'kubectl exec -i {host} -- {cmd}'";
        let words = shlex::split(template).filter(|words| !words.is_empty());
        let words = words.ok_or_else(|| {
            format!("a quotation mark is missing in '--starter-cmd {template}'; {example}")
        })?;
        for part in [HOST, COMMAND] {
            if !words.iter().any(|word| word.contains(part)) {
                return Err(format!("'--starter-cmd {template}' lacks {part}; {example}"));
            }
        }
        Ok(Self { kind: StarterKind::Template(words), program: None, extra: Vec::new() })
    }

    /// True if the user starts node servers by hand.
    pub(crate) const fn is_manual(&self) -> bool {
        matches!(self.kind, StarterKind::Manual)
    }

    /// Commands for all hosts. `node` are the words of the node server, to which its name is added where
    /// each host has a command of its own. If `is_staged`, hosts other than this one receive the program.
    ///
    /// # Errors
    ///
    /// A message for the user, with the remedy.
    pub(crate) fn commands(
        &self,
        hosts: &[StarterHost],
        node: &[String],
        is_staged: bool,
    ) -> Result<Vec<StarterCommand>, String> {
        if let Some(host) = hosts.iter().find(|host| !is_name(&host.name)) {
            return Err(format!(
                "'{}' is not the name of a host; it must not be empty, begin with '-' or have spaces",
                host.name
            ));
        }
        if is_staged && self.is_manual() {
            return Err(STAGED_BY_HAND.to_owned());
        }
        let staged = is_staged.then(|| staging::words(node));
        let remote = staged.as_deref().unwrap_or(node);
        let named = |host: &StarterHost, node: &[String]| {
            let name = host.name.rsplit('@').next().unwrap_or_default().to_owned();
            [node, &["--name".to_owned(), name]].concat()
        };
        if let StarterKind::Row(row) = self.kind
            && let StarterCall::Once(options) = row.call
        {
            let (apart, hosts): (Vec<_>, Vec<_>) =
                hosts.iter().partition(|host| host.is_apart && host.is_here);
            let direct = apart.into_iter().map(|host| StarterCommand {
                words: named(host, node),
                nodes: vec![host.node],
                sends_program: false,
            });
            let mut commands: Vec<StarterCommand> = direct.collect();
            let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
            let program = self.program.clone().unwrap_or_else(|| row.program.to_owned());
            let words = [&[program][..], &options(&names), &self.extra, remote].concat();
            let nodes = hosts.iter().map(|host| host.node).collect();
            if !hosts.is_empty() {
                commands.push(StarterCommand { words, nodes, sends_program: is_staged });
            }
            return Ok(commands);
        }
        let commands = hosts.iter().map(|host| {
            let is_direct = host.is_here || matches!(self.kind, StarterKind::Local);
            let command = named(host, if is_direct { node } else { remote });
            let words = match &self.kind {
                StarterKind::Manual => return Ok(None),
                _ if is_direct => command,
                StarterKind::Row(row) => self.of_row(row, host, command)?,
                StarterKind::Template(words) => fill(words, &host.name, &command)?,
                StarterKind::Local => command,
            };
            let sends_program = is_staged && !is_direct;
            Ok(Some(StarterCommand { words, nodes: vec![host.node], sends_program }))
        });
        commands.filter_map(Result::transpose).collect()
    }

    /// Divides `commands` for `hosts` among the head and the first of these hosts, as `fanout` says.
    pub(crate) fn plan(
        &self,
        commands: Vec<StarterCommand>,
        hosts: &[StarterHost],
        fanout: StarterFanout,
    ) -> StartPlan {
        let is_single = |command: &StarterCommand| command.nodes.len() == 1;
        let is_local = matches!(self.kind, StarterKind::Local);
        let count = commands.iter().filter(|command| is_single(command)).count();
        let own = match fanout {
            StarterFanout::All => return StartPlan::flat(commands),
            StarterFanout::Hosts(own) => usize::try_from(own).unwrap_or(usize::MAX),
            StarterFanout::Auto if self.is_ssh() && count >= DELEGATED_FROM => OWN_HOSTS,
            StarterFanout::Auto => return StartPlan::flat(commands),
        };
        // A host with another starter than a remote one is that of the head.
        let here: Vec<u32> =
            hosts.iter().filter(|host| host.is_here).map(|host| host.node).collect();
        let is_remote = |command: &StarterCommand| {
            is_single(command)
                && (is_local || command.nodes.iter().all(|node| here.binary_search(node).is_err()))
        };
        StartPlan::divided(commands, own, is_remote)
    }

    /// True if hosts are reached by `ssh` itself, which other hosts have as well.
    fn is_ssh(&self) -> bool {
        let program = self.program.as_deref().unwrap_or(DEFAULT);
        matches!(self.kind, StarterKind::Row(row) if row.name == DEFAULT && row.program == program)
    }

    fn of_row(
        &self,
        row: &StarterRow,
        host: &StarterHost,
        command: Vec<String>,
    ) -> Result<Vec<String>, String> {
        let StarterCall::PerHost { options, is_quoted } = row.call else { return Ok(command) };
        let program = self.program.clone().unwrap_or_else(|| row.program.to_owned());
        // Options of one program are errors in another.
        let is_own = program.rsplit('/').next() == Some(row.program);
        let options = if is_own { options } else { &[] };
        let mut words = vec![program];
        words.extend(options.iter().map(|option| (*option).to_owned()));
        words.extend_from_slice(&self.extra);
        words.push(host.name.clone());
        match is_quoted {
            true => words.push(quoted(&command)?),
            false => words.extend(command),
        }
        Ok(words)
    }
}

fn of_name(is_chosen: impl Fn(&StarterRow) -> bool) -> Option<StarterKind> {
    ROWS.iter().find(|row| is_chosen(row)).map(StarterKind::Row)
}

/// Fills a template: a word `{cmd}` becomes the words of the command, and `{cmd}` within a word their
/// quoted form, for a shell.
fn fill(template: &[String], host: &str, command: &[String]) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    for word in template {
        if word == COMMAND {
            words.extend_from_slice(command);
            continue;
        }
        let text = match word.contains(COMMAND) {
            true => Cow::Owned(quoted(command)?),
            false => Cow::Borrowed(""),
        };
        words.push(word.replace(HOST, host).replace(COMMAND, &text));
    }
    Ok(words)
}

/// One word for a shell, which reads it as these words.
fn quoted(words: &[String]) -> Result<String, String> {
    let all: Result<Vec<_>, _> = words.iter().map(|word| shlex::try_quote(word)).collect();
    all.map(|all| all.join(" ")).map_err(|_| "the path of pmi-host has a zero byte".to_owned())
}

/// True if a name cannot be taken for an option, and is one word for any shell.
fn is_name(name: &str) -> bool {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control();
    !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain)
}

/// Words of a node server that connects to `addresses`.
///
/// # Errors
///
/// A message for the user: the path of this program is unknown or no text.
pub(crate) fn node_words(
    addresses: &[std::net::SocketAddr],
    settings: &NodeSettings,
) -> Result<Vec<String>, String> {
    let own = std::env::current_exe().map_err(|error| {
        format!("the path of this pmi-host, which hosts need, cannot be read ({error})")
    })?;
    let own = own.into_os_string().into_string().map_err(|path: OsString| {
        format!("the path '{}' of this pmi-host is not UTF-8; move it", path.display())
    })?;
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let mut words = vec![own, NODE.to_owned(), "--to".to_owned(), addresses.join(",")];
    if let Some(ports) = settings.ports {
        words.extend(["--ports".to_owned(), ports.to_string()]);
    }
    if settings.is_plain {
        words.push("--plain".to_owned());
    }
    Ok(words)
}

/// Command of the node server.
pub(crate) const NODE: &str = "node";

const DEFAULT: &str = "ssh";

/// Number of hosts from which on `ssh` starts the others from [`OWN_HOSTS`] of them: the head starts about 30
/// in a second.
const DELEGATED_FROM: usize = 128;
const OWN_HOSTS: usize = 32;

const STAGED_BY_HAND: &str = "node servers that are started by hand cannot receive this program; leave \
                              '--stage-launcher' out, or choose another starter";

const HOST: &str = "{host}";
const COMMAND: &str = "{cmd}";

/// Variables of other launchers: name of a starter, its program, and further arguments.
const LAUNCHERS: [&str; 4] =
    ["HYDRA_LAUNCHER", "HYDRA_BOOTSTRAP", "I_MPI_HYDRA_BOOTSTRAP", "I_MPI_HYDRA_LAUNCHER"];
const PROGRAMS: [&str; 4] = [
    "HYDRA_LAUNCHER_EXEC",
    "HYDRA_BOOTSTRAP_EXEC",
    "I_MPI_HYDRA_BOOTSTRAP_EXEC",
    "I_MPI_HYDRA_LAUNCHER_EXEC",
];
const EXTRA_ARGUMENTS: [&str; 5] = [
    "HYDRA_LAUNCHER_EXTRA_ARGS",
    "HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
    "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
    "PRTE_MCA_plm_ssh_args",
    "OMPI_MCA_plm_rsh_args",
];

/// Variable of Hydra that has starters start the node server of this machine, too.
const AUTOFORK: &str = "HYDRA_LAUNCHER_AUTOFORK";

/// Number of [`EXTRA_ARGUMENTS`] that hold for every starter; the others are for remote shells.
const OF_HYDRA: usize = 3;

/// Variables of Open MPI that name a remote shell.
const AGENTS: [&str; 2] = ["PRTE_MCA_plm_ssh_agent", "OMPI_MCA_plm_rsh_agent"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::nodes::STARTERS;
    use std::process::Command;

    fn chosen(settings: &NodeSettings, variables: &[(&str, &str)]) -> Result<Starter, String> {
        Starter::choose(settings, |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn lines(starter: &Starter, hosts: &[&str], node: &[&str]) -> Vec<String> {
        let host = |(name, node): (&&str, u32)| StarterHost {
            node,
            name: (*name).to_owned(),
            is_here: *name == "here",
            is_apart: *name == "here",
        };
        let hosts: Vec<StarterHost> = hosts.iter().zip(1..).map(host).collect();
        let node: Vec<String> = node.iter().map(|word| (*word).to_owned()).collect();
        let commands = starter.commands(&hosts, &node, false).unwrap();
        commands.into_iter().map(|command| command.words.join(" ")).collect()
    }

    fn settings(starter: StarterName) -> NodeSettings {
        NodeSettings { starter: Some(starter), ..NodeSettings::default() }
    }

    #[test]
    fn names_of_starters_have_rows() {
        assert_eq!(ROWS.iter().map(|row| row.name).collect::<Vec<_>>(), STARTERS);
    }

    #[test]
    fn environment_chooses_the_starter_and_an_option_overrides_it() {
        let none = NodeSettings::default();
        let line = |settings: &NodeSettings, variables: &[(&str, &str)]| {
            lines(&chosen(settings, variables).unwrap(), &["a", "b"], &["n"]).join("; ")
        };
        let by_ssh =
            "ssh -T -x -o BatchMode=yes a 'n --name a'; ssh -T -x -o BatchMode=yes b 'n --name b'";
        assert_eq!(line(&none, &[]).replace('\'', ""), by_ssh.replace('\'', ""));
        let by_srun = line(&none, &[("SLURM_JOB_ID", "7")]);
        assert!(by_srun.starts_with("srun --overlap --nodes=2 --ntasks=2"), "{by_srun}");
        assert!(by_srun.contains("--nodelist=a,b ") && by_srun.ends_with(" n"), "{by_srun}");
        assert_eq!(line(&none, &[("FLUX_URI", "x")]), "flux exec -r all n");
        // The machine of the head, where ranks connect, may be outside of the allocation.
        let flux = chosen(&none, &[("FLUX_URI", "x")]).unwrap();
        let direct = ["n --name here", "flux exec -r all n"];
        assert_eq!(lines(&flux, &["a", "here"], &["n"]), direct);
        assert_eq!(lines(&flux, &["here"], &["n"]), direct[..1]);
        let lsf = [("LSB_MCPU_HOSTS", "a 1 b 1")];
        assert_eq!(line(&none, &lsf), "blaunch a n --name a; blaunch b n --name b");
        assert_eq!(
            line(&settings(StarterName::Row("rsh")), &lsf),
            "rsh a n --name a; rsh b n --name b"
        );
        assert_eq!(line(&settings(StarterName::Local(2)), &lsf), "n --name a; n --name b");
        assert_eq!(line(&settings(StarterName::Manual), &lsf), "");
    }

    #[test]
    fn variables_of_hydra_keep_their_meaning() {
        let line = |variables: &[(&str, &str)]| {
            let starter = chosen(&NodeSettings::default(), variables);
            starter.map(|starter| lines(&starter, &["u@a"], &["n"]).join("; "))
        };
        assert_eq!(line(&[("HYDRA_LAUNCHER", "lsf")]).unwrap(), "blaunch u@a n --name a");
        let operator = [("HYDRA_LAUNCHER_EXTRA_ARGS", "-o ConnectionAttempts=10")];
        assert_eq!(
            line(&operator).unwrap(),
            "ssh -T -x -o BatchMode=yes -o ConnectionAttempts=10 u@a n --name a"
        );
        let own = [("HYDRA_LAUNCHER", "ssh"), ("HYDRA_LAUNCHER_EXEC", "/etc/mpi/kubexec.sh")];
        assert_eq!(line(&own).unwrap(), "/etc/mpi/kubexec.sh u@a n --name a");
        let intel = [("I_MPI_HYDRA_BOOTSTRAP", "rsh"), ("I_MPI_HYDRA_BOOTSTRAP_EXEC", "/x/rsh")];
        assert_eq!(line(&intel).unwrap(), "/x/rsh u@a n --name a");
        assert!(
            line(&[("HYDRA_LAUNCHER", "persist")]).unwrap_err().contains("HYDRA_LAUNCHER: there")
        );
        assert!(
            line(&[("HYDRA_LAUNCHER_EXTRA_ARGS", "'a")]).unwrap_err().contains("quotation mark")
        );
    }

    #[test]
    fn options_override_variables_of_hydra_and_these_the_batch_system() {
        let line = |settings: &NodeSettings, variables: &[(&str, &str)]| {
            lines(&chosen(settings, variables).unwrap(), &["a"], &["n"]).join("; ")
        };
        let slurm = ("SLURM_JOB_ID", "7");
        let shell = NodeSettings {
            program: Some("/x/sh".to_owned()),
            arguments: Some("-p '2 2'".to_owned()),
            ..settings(StarterName::Row("rsh"))
        };
        let set = [slurm, ("HYDRA_LAUNCHER", "slurm"), ("HYDRA_LAUNCHER_EXEC", "/y")];
        assert_eq!(line(&shell, &set), "/x/sh -p 2 2 a n --name a");
        let none = NodeSettings::default();
        assert_eq!(line(&none, &[slurm, ("HYDRA_LAUNCHER", "lsf")]), "blaunch a n --name a");
        assert_eq!(line(&none, &[slurm, ("HYDRA_LAUNCHER", "fork")]), "n --name a");
    }

    #[test]
    fn remote_shell_of_open_mpi_is_used() {
        let line = |variables: &[(&str, &str)]| {
            lines(&chosen(&NodeSettings::default(), variables).unwrap(), &["a"], &["n"]).join("; ")
        };
        let agent = ("OMPI_MCA_plm_rsh_agent", "/etc/mpi/kubexec.sh");
        assert_eq!(line(&[agent]), "/etc/mpi/kubexec.sh a n --name a");
        assert_eq!(line(&[("PRTE_MCA_plm_ssh_agent", "/x -q : rsh")]), "/x -q a n --name a");
        let args = ("OMPI_MCA_plm_rsh_args", "-o ConnectionAttempts=10");
        let with_args = "ssh -T -x -o BatchMode=yes -o ConnectionAttempts=10 a n --name a";
        assert_eq!(line(&[args]), with_args);
        // Arguments of a remote shell are none of srun.
        assert!(!line(&[args, ("SLURM_JOB_ID", "7")]).contains("Attempts"));
        let both = [agent, ("HYDRA_LAUNCHER_EXEC", "/etc/own.sh")];
        assert_eq!(line(&both), "/etc/own.sh a n --name a");
    }

    #[test]
    fn template_is_filled_with_words_or_with_one_for_a_shell() {
        let of = |template: &str| Starter::of_template(template);
        let starter = of("kubectl exec -i {host} -- {cmd}").unwrap();
        let words = starter.commands(
            &[StarterHost { node: 1, name: "a".to_owned(), is_here: false, is_apart: false }],
            &["/a b/pmi-host".to_owned(), "node".to_owned()],
            false,
        );
        assert_eq!(
            words.unwrap()[0].words,
            ["kubectl", "exec", "-i", "a", "--", "/a b/pmi-host", "node", "--name", "a"]
        );
        let starter = of("sh -c 'exec {cmd}' {host}").unwrap();
        let words = starter.commands(
            &[StarterHost { node: 1, name: "a".to_owned(), is_here: false, is_apart: false }],
            &["/a b/pmi-host".to_owned()],
            false,
        );
        assert_eq!(words.unwrap()[0].words, ["sh", "-c", "exec '/a b/pmi-host' --name a", "a"]);
        assert!(of("x {cmd}").unwrap_err().contains("lacks {host}"));
        assert!(of("x {host}").unwrap_err().contains("lacks {cmd}"));
        assert!(of("x 'y").unwrap_err().contains("quotation mark"));
        assert!(of("").is_err());
    }

    #[test]
    fn host_that_could_be_an_option_is_refused_and_this_machine_needs_no_starter() {
        let starter = chosen(&NodeSettings::default(), &[]).unwrap();
        for name in ["-oProxyCommand=x", "", "a b", "a\nb"] {
            let host =
                StarterHost { node: 1, name: name.to_owned(), is_here: false, is_apart: false };
            assert!(
                starter.commands(&[host], &[], false).unwrap_err().contains("name of a host"),
                "{name}"
            );
        }
        assert_eq!(lines(&starter, &["here"], &["n"]), ["n --name here"]);
    }

    #[test]
    fn many_hosts_of_ssh_are_started_in_two_levels() {
        let hosts = |count: u32, here: u32| -> Vec<StarterHost> {
            let host = |node| StarterHost {
                node,
                name: format!("h{node}"),
                is_here: node == here,
                is_apart: false,
            };
            (1..=count).map(host).collect()
        };
        let own = |settings: &NodeSettings, hosts: &[StarterHost], fanout| {
            let starter = chosen(settings, &[]).unwrap();
            let commands = starter.commands(hosts, &["n".to_owned()], false).unwrap();
            let plan = starter.plan(commands, hosts, fanout);
            (plan.own.len(), plan.delegated.len())
        };
        let (ssh, auto) = (NodeSettings::default(), StarterFanout::Auto);
        assert_eq!(own(&ssh, &hosts(127, 0), auto), (127, 0));
        assert_eq!(own(&ssh, &hosts(128, 0), auto), (32, 32));
        // The head starts its own machine.
        assert_eq!(own(&ssh, &hosts(200, 100), auto), (33, 32));
        assert_eq!(own(&ssh, &hosts(128, 0), StarterFanout::All), (128, 0));
        assert_eq!(own(&ssh, &hosts(20, 0), StarterFanout::Hosts(8)), (8, 8));
        // A program of the user may be on this host only, and one call of srun has all hosts.
        let own_program = NodeSettings { program: Some("/x/kubexec.sh".to_owned()), ..ssh };
        assert_eq!(own(&own_program, &hosts(200, 0), auto), (200, 0));
        let srun = settings(StarterName::Row("srun"));
        assert_eq!(own(&srun, &hosts(200, 0), StarterFanout::Hosts(8)), (1, 0));
    }

    #[test]
    fn quoted_command_is_read_by_a_shell_as_its_words() {
        let words = ["/a b/it's", "$HOME", "a\\b", "*", "!x", "\"q\"", "~", "#", "a\nb", "", "ä"];
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        let script = format!("printf '%s\\0' {}", quoted(&words).unwrap());
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        let read: Vec<String> = output
            .stdout
            .split(|byte| *byte == 0)
            .map(|word| String::from_utf8(word.to_vec()).unwrap())
            .collect();
        assert_eq!(read[..read.len() - 1], words);
    }
}
