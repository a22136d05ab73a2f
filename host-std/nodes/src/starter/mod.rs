//! Starters: how node servers come to run on the hosts of a job.
//!
//! A starter has to do one thing: run `pmi-host node --to …` on a host, with the key of the run as its
//! standard input. The node server connects to the head by itself, so all starters are alike afterwards.

mod child;
pub(super) mod delegation;
mod output;
pub(super) mod pool;
mod refusal;
mod staging;
mod start;
pub(crate) mod start_keys;
mod table;

use crate::key::LinkKey;
use crate::settings::{NodeSettings, OFF, StarterFanout, StarterName};
use delegation::StartPlan;
use pmi_host_os::host_name::{self, is_node, is_this_machine, slurm_node};
use pool::StarterEnd;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use table::{BATCH_SYSTEMS, FLUX, ROWS, SRUN, SSH, StarterCall, StarterRow, of_component};

/// A host on which a node server is to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StarterHost {
    /// Number of the node.
    pub node: u32,
    /// Name as the user or the batch system writes it.
    pub(crate) name: String,
    /// True for the machine of the head, where no starter is needed.
    pub(crate) is_here: bool,
    /// True if it may be none of those of the batch system: one call for all of these does not reach it.
    pub is_apart: bool,
}

impl StarterHost {
    /// The hosts of a run, as nodes from 1 on. With `HYDRA_LAUNCHER_AUTOFORK` switched off, this
    /// machine is a host like the others.
    pub fn all(
        names: &[String],
        settings: &NodeSettings,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Vec<Self> {
        let is_off = |value: String| OFF.iter().any(|off| value.eq_ignore_ascii_case(off));
        let is_forked = !variable(AUTOFORK).is_some_and(is_off);
        let is_local = settings.starter.as_ref().is_some_and(StarterName::is_here);
        let own = host_name::own();
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

/// Command of a node server, for the starters of all hosts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeCommand<'a> {
    /// Its words, of which the first is the path of this program. Its name is added where each host has a
    /// command of its own.
    pub(crate) words: &'a [String],
    /// True if hosts other than this one receive the program.
    pub(crate) is_staged: bool,
    /// True if hosts that do not reach the head connect over their starters.
    pub(crate) is_relayed: bool,
}

/// Host that the starter of a batch system knows by a number: that of a broker of Flux, or of a component of
/// a heterogeneous job of Slurm, which `srun` starts a step in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedHost {
    /// Name of the host.
    pub host: String,
    /// Its number; a host with several has that of the first.
    pub number: u32,
}

/// Starter of a batch system that knows hosts by numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchStarter {
    /// `flux exec`.
    Flux,
    /// `srun`.
    Srun,
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
    /// True if its standard input and output may carry the connections of its host to the head.
    pub(crate) is_relayed: bool,
    /// True if it is `srun`, which gets no [options](table::is_option_of_srun) by variables.
    pub(crate) is_srun: bool,
    /// Key that it hands over; `None` for that of the run, without encryption.
    pub(crate) key: Option<LinkKey>,
}

impl StarterCommand {
    /// Its end, if it could not be executed.
    fn cannot_start(self, error: &io::Error) -> StarterEnd {
        let how = not_executed(self.program(), error);
        let (awaited, output) = (self.nodes.clone(), String::new());
        StarterEnd { nodes: self.nodes, awaited, how, output }
    }

    /// Its program, for messages.
    fn program(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }
}

/// Sentence about a starter that cannot be executed, with the remedy.
fn not_executed(program: &str, error: &io::Error) -> String {
    let system = SYSTEMS.iter().find(|(name, _)| *name == program);
    let host = host_name::own();
    match (error.kind(), system) {
        (io::ErrorKind::NotFound, Some((_, system))) => format!(
            "'{program}' is missing on {host}, as in a container without the programs of {system}; start \
             there where it is installed, or take another starter, as by '--starter ssh'"
        ),
        (io::ErrorKind::NotFound, None) => format!(
            "'{program}' is missing on {host}; install it, or take another starter by '--starter' or \
             '--starter-cmd'"
        ),
        _ => format!("'{program}' cannot be executed ({})", pmi_host_os::refusal::words(error)),
    }
}

/// Starters that a batch system brings.
const SYSTEMS: [(&str, &str); 5] = [
    ("srun", "Slurm"),
    (FLUX, "Flux"),
    ("blaunch", "LSF"),
    ("qrsh", "Grid Engine"),
    ("oarsh", "OAR"),
];

/// Starter that was chosen, with the arguments that the user has added.
#[derive(Debug)]
pub(crate) struct Starter {
    kind: StarterKind,
    /// Program instead of that of the row.
    program: Option<String>,
    /// Further arguments, in front of the host.
    extra: Vec<String>,
    /// Numbers that the batch system has for hosts, by their names.
    numbers: HashMap<String, u32>,
}

#[derive(Debug)]
enum StarterKind {
    Row(&'static StarterRow),
    Template(Vec<String>),
    Local,
    Manual,
}

/// Name of the starter of the batch system around this process.
pub(crate) fn of_batch_system(variable: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
    let system = BATCH_SYSTEMS.iter().find(|(name, _)| variable(name).is_some());
    system.map(|(_, starter)| *starter)
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
        let is_of_slurm = |name: &str, value: &str| {
            SET_BY_SLURM.contains(&name) && value == "slurm" && variable("SLURM_JOB_ID").is_some()
        };
        let launcher = LAUNCHERS.iter().find_map(|name| {
            Some((*name, variable(name)?)).filter(|(name, value)| !is_of_slurm(name, value))
        });
        let named = match (&settings.starter, launcher) {
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
            None if !agent.is_empty() => of_name(|row| row.name == SSH),
            None => {
                let starter = of_batch_system(&variable).unwrap_or(SSH);
                of_name(|row| row.name == starter)
            }
        };
        let kind = kind.ok_or("there is no such starter; '--starter ssh' is one")?;
        let StarterKind::Row(row) = kind else {
            return Ok(Self { kind, program: None, extra: Vec::new(), numbers: HashMap::new() });
        };
        let given = settings.program.clone().or_else(|| first(&PROGRAMS).map(|(_, value)| value));
        let is_shell = matches!(row.call, StarterCall::PerHost { is_quoted: true, .. });
        let (program, mut extra) = match (given, agent.split_first()) {
            (None, Some((agent, words))) if is_shell => (Some(agent.clone()), words.to_vec()),
            (given, _) => (given, Vec::new()),
        };
        let named = settings.arguments.clone().map(|value| ("--starter-args", value));
        let names = if is_shell { &EXTRA_ARGUMENTS[..] } else { &EXTRA_ARGUMENTS[..OF_HYDRA] };
        let is_foreign = |value: &str| row.name != SRUN && value == EXTERNAL_LAUNCHER;
        let found = || {
            names.iter().find_map(|name| {
                Some((*name, variable(name)?)).filter(|(_, value)| !is_foreign(value))
            })
        };
        if let Some((name, value)) = named.or_else(found) {
            extra.extend(split(name, &value)?);
        }
        Ok(Self { kind, program, extra, numbers: HashMap::new() })
    }

    /// The same starter with the numbers of hosts, which it `finds` if it needs them.
    pub(crate) fn with_numbers(
        mut self,
        find: impl FnOnce(BatchStarter) -> Vec<NumberedHost>,
    ) -> Self {
        let batch = match &self.kind {
            StarterKind::Row(row) if row.name == FLUX => BatchStarter::Flux,
            StarterKind::Row(row) if row.name == SRUN => BatchStarter::Srun,
            _ => return self,
        };
        // The first number of a host stays.
        let numbered = find(batch).into_iter().rev();
        self.numbers = numbered.map(|NumberedHost { host, number }| (host, number)).collect();
        self
    }

    /// Words that stand for hosts in a call of the starter for all of them. For Flux, all brokers if it does
    /// not list one of the hosts: node servers on the others are refused their place, and exit.
    fn targets(&self, row: &StarterRow, names: &[&str]) -> Vec<String> {
        if row.name != FLUX {
            return names.iter().map(|name| (*name).to_owned()).collect();
        }
        let ranks = names.iter().map(|name| self.numbers.get(*name).map(u32::to_string));
        ranks.collect::<Option<_>>().unwrap_or_else(|| vec!["all".to_owned()])
    }

    /// Component of the heterogeneous job of Slurm that `srun` reaches a host in.
    fn component(&self, row: &StarterRow, host: &StarterHost) -> Option<u32> {
        self.numbers.get(&host.name).copied().filter(|_| row.name == SRUN)
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
        Ok(Self {
            kind: StarterKind::Template(words),
            program: None,
            extra: Vec::new(),
            numbers: HashMap::new(),
        })
    }

    /// True if each host has, or may have, a command of its own.
    pub(crate) const fn has_command_for_each(&self) -> bool {
        match &self.kind {
            StarterKind::Row(row) => !matches!(row.call, StarterCall::Once { of_one: None, .. }),
            StarterKind::Template(_) | StarterKind::Local => true,
            StarterKind::Manual => false,
        }
    }

    /// Name of a starter that reaches no other hosts than those that its batch system has allocated.
    pub(crate) fn of_allocation(&self) -> Option<&'static str> {
        let StarterKind::Row(row) = self.kind else { return None };
        let is_of_system = BATCH_SYSTEMS.iter().any(|(_, starter)| *starter == row.name);
        (is_of_system && row.name != SSH && self.program.is_none()).then_some(row.name)
    }

    /// True if the user starts node servers by hand.
    pub(crate) const fn is_manual(&self) -> bool {
        matches!(self.kind, StarterKind::Manual)
    }

    /// Commands for all hosts, without their keys.
    ///
    /// # Errors
    ///
    /// A message for the user, with the remedy.
    pub(crate) fn commands(
        &self,
        hosts: &[StarterHost],
        node: &NodeCommand<'_>,
    ) -> Result<Vec<StarterCommand>, String> {
        if let Some(host) = hosts.iter().find(|host| !is_name(&host.name)) {
            return Err(format!(
                "'{}' is not the name of a host; it must not be empty, begin with '-' or have spaces",
                host.name
            ));
        }
        let &NodeCommand { words: node, is_staged, is_relayed } = node;
        let is_once = matches!(
            self.kind,
            StarterKind::Row(StarterRow { call: StarterCall::Once { .. }, .. })
        );
        if is_staged && self.is_manual() {
            return Err(STAGED_BY_HAND.to_owned());
        }
        if is_relayed && !self.has_command_for_each() {
            return Err(RELAYED_BY_EACH.to_owned());
        }
        let relayed = is_relayed.then(|| [node, &["--relayed".to_owned()]].concat());
        let remote = relayed.as_deref().unwrap_or(node);
        let staged = is_staged.then(|| match is_relayed {
            true => staging::relayed_words(remote),
            false => Ok(staging::words(remote)),
        });
        let staged = staged.transpose()?;
        let remote = staged.as_deref().unwrap_or(remote);
        let named = |host: &StarterHost, node: &[String]| {
            let name = host.name.rsplit('@').next().unwrap_or_default().to_owned();
            [node, &["--name".to_owned(), name]].concat()
        };
        if let StarterKind::Row(row) = self.kind
            && let StarterCall::Once { options, .. } = row.call
            && !is_relayed
        {
            let (apart, hosts): (Vec<_>, Vec<_>) =
                hosts.iter().partition(|host| host.is_apart && host.is_here);
            let direct = apart.into_iter().map(|host| StarterCommand {
                words: named(host, node),
                nodes: vec![host.node],
                sends_program: false,
                is_relayed: false,
                is_srun: false,
                key: None,
            });
            let mut commands: Vec<StarterCommand> = direct.collect();
            // A step has hosts of one component.
            let mut calls: BTreeMap<Option<u32>, Vec<&StarterHost>> = BTreeMap::new();
            for host in hosts {
                calls.entry(self.component(row, host)).or_default().push(host);
            }
            let program = self.program.clone().unwrap_or_else(|| row.program.to_owned());
            for (component, hosts) in calls {
                let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
                let options = options(&self.targets(row, &names));
                let component = component.map(of_component);
                let words =
                    [&[program.clone()][..], &options, component.as_slice(), &self.extra, remote];
                commands.push(StarterCommand {
                    words: words.concat(),
                    nodes: hosts.iter().map(|host| host.node).collect(),
                    sends_program: is_staged,
                    is_relayed,
                    is_srun: row.name == SRUN,
                    key: None,
                });
            }
            return Ok(commands);
        }
        let commands = hosts.iter().map(|host| {
            // Within a batch system, its own starter reaches this host as well.
            let is_direct = host.is_here && (host.is_apart || !is_once)
                || matches!(self.kind, StarterKind::Local);
            let command = named(host, if is_direct { node } else { remote });
            let words = match &self.kind {
                StarterKind::Manual => return Ok(None),
                _ if is_direct => command,
                StarterKind::Row(row) => self.of_row(row, host, command)?,
                StarterKind::Template(words) => fill(words, &host.name, &command)?,
                StarterKind::Local => command,
            };
            let (nodes, key) = (vec![host.node], None);
            let (sends_program, is_relayed) = (is_staged && !is_direct, is_relayed && !is_direct);
            let is_srun =
                !is_direct && matches!(self.kind, StarterKind::Row(row) if row.name == SRUN);
            Ok(Some(StarterCommand { words, nodes, sends_program, is_relayed, is_srun, key }))
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
        let program = self.program.as_deref().unwrap_or(SSH);
        matches!(self.kind, StarterKind::Row(row) if row.name == SSH && row.program == program)
    }

    fn of_row(
        &self,
        row: &StarterRow,
        host: &StarterHost,
        command: Vec<String>,
    ) -> Result<Vec<String>, String> {
        let program = self.program.clone().unwrap_or_else(|| row.program.to_owned());
        let (options, is_quoted) = match row.call {
            StarterCall::PerHost { options, is_quoted } => (options, is_quoted),
            StarterCall::Once { of_one, .. } => {
                let mut options = of_one.map(|of_one| of_one(&host.name)).unwrap_or_default();
                options.extend(self.component(row, host).map(of_component));
                return Ok([&[program][..], &options, &self.extra, &command].concat());
            }
        };
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
    addresses: &[SocketAddr],
    settings: &NodeSettings,
) -> Result<Vec<String>, String> {
    let own = std::env::current_exe().map_err(|error| {
        format!(
            "the path of this pmi-host, which hosts need, cannot be read ({})",
            pmi_host_os::refusal::words(&error)
        )
    })?;
    let own = own.into_os_string().into_string().map_err(|path: OsString| {
        format!("the path '{}' of this pmi-host is not UTF-8; move it", path.display())
    })?;
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let mut words = vec![own, NODE.to_owned(), "--to".to_owned(), addresses.join(",")];
    if let Some(ports) = settings.ports {
        words.extend(["--ports".to_owned(), ports.to_string()]);
    }
    if settings.links.is_plain {
        words.push("--plain".to_owned());
    }
    Ok(words)
}

/// Command of the node server.
pub const NODE: &str = "node";

/// Number of hosts from which on `ssh` starts the others from [`OWN_HOSTS`] of them: the head starts about 30
/// in a second.
const DELEGATED_FROM: usize = 128;
const OWN_HOSTS: usize = 32;

const RELAYED_BY_EACH: &str = "connections are carried by starters with a command for each host; leave \
                               '--node-relay' out, or name another starter, as '--starter ssh'";

const STAGED_BY_HAND: &str = "node servers that are started by hand cannot receive this program; leave \
                              '--stage-launcher' out, or choose another starter";

/// Number of ranks, of four open files each, that need as many as a starter that carries connections: it has
/// three pipes and its process, its relay three, and each of up to three connections of its node two.
pub(super) const RELAYED_FILES: usize = 4;

const HOST: &str = "{host}";
const COMMAND: &str = "{cmd}";

/// Variables of other launchers: name of a starter, its program, and further arguments.
const LAUNCHERS: [&str; 4] =
    ["HYDRA_LAUNCHER", "HYDRA_BOOTSTRAP", "I_MPI_HYDRA_BOOTSTRAP", "I_MPI_HYDRA_LAUNCHER"];
/// Those that Slurm sets to `slurm` in each job, since 23.11. They choose no starter there.
const SET_BY_SLURM: [&str; 2] = ["HYDRA_BOOTSTRAP", "I_MPI_HYDRA_BOOTSTRAP"];

/// Value to which Slurm sets further arguments then: an option of `srun` alone.
const EXTERNAL_LAUNCHER: &str = "--external-launcher";

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
mod tests;
