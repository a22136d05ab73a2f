//! Environment of a rank: added and removed variables, with reasons.
//!
//! An outer launcher (a batch system's, another `mpiexec`, or this one) leaves variables that would lead
//! the MPI library to the outer job. They are removed; variables that a user sets to tune a library
//! stay.

use super::null;
use super::plan::{App, Endpoint, Plan};
use super::preload;
use super::protocol_offer::ProtocolOffer;
use crate::settings::Environment;
use pmi_host_base::env::{inherited, of_job};
use pmi_host_base::program::Inherit;
use pmi_host_base::program::Program;
use pmi_host_base::variables::{self, BY_NODE, DEFAULTS, DIRECTORY_OF_NODE, OF_HOST, SET, covers};
use pmi_std::env::PIN_VARIABLE;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Variables with the same value in every rank of the job of `plan`. A rank with a port inherits no
/// descriptor.
pub(crate) fn of_plan(
    plan: &Plan,
    fd: u32,
) -> impl Iterator<Item = (&'static str, String)> + use<> {
    let of_job = of_job([plan.ranks, plan.local()], fd, &plan.host, plan.spawner.is_some());
    let has_port = plan.has_port();
    let all = of_job.into_iter().chain([("PMI_JOBID", plan.kvsname.clone())]);
    all.filter(move |(name, _)| !has_port || *name != "PMI_FD")
}

/// Variables with which a rank connects without its socket; with a socket, only for a second connection.
pub(crate) fn of_endpoint(
    endpoint: &Endpoint,
    rank: u32,
) -> impl Iterator<Item = (&'static str, String)> {
    let address = [("PMI_PORT", endpoint.port.clone()), ("PMI_ID", endpoint.id(rank).to_string())];
    // Transport security, and the certificate to trust.
    let tls = endpoint
        .pin
        .iter()
        .flat_map(|pin| [("PMI_SOCKTYPE", "ssl".to_owned()), (PIN_VARIABLE, pin.clone())]);
    address.into_iter().chain(tls)
}

/// Variables of a rank that runs `program`, besides the ones above: inherited variables, then settings
/// for all programs, then settings for this program.
pub(crate) fn of_program<'a>(
    ours: impl Iterator<Item = (OsString, OsString)> + 'a,
    all: &'a Environment,
    program: &'a Program,
) -> impl Iterator<Item = (OsString, OsString)> + 'a {
    let inherit = program.inherit.as_ref().unwrap_or(&all.inherit);
    let chosen: Vec<&(OsString, OsString)> = all.set.iter().chain(&program.variables).collect();
    // `getenv` returns the first of several entries, a shell uses the last: there must be one.
    let is_chosen =
        |name: &OsString, from: usize| chosen.iter().skip(from).any(|(other, _)| other == name);
    // An outer `torchrun` has left those of its own ranks.
    let is_of_torch = |name: &OsString| {
        all.rendezvous.is_some() && variables::TORCH.iter().any(|entry| name == entry.name)
    };
    // The allocation has its own number of tasks.
    let is_of_slurm = |name: &OsString| {
        all.emulated.slurm && variables::SLURM.iter().any(|entry| name == entry.name)
    };
    let ours = inherited(ours).filter(|(name, _)| !is_of_torch(name) && !is_of_slurm(name));
    let is_unset = |name: &OsString| all.unset.contains(name);
    let ours = ours.filter(move |(name, _)| is_inherited(name, inherit) && !is_unset(name));
    let ours = ours.filter(|(name, _)| !is_chosen(name, 0));
    let last = chosen.iter().enumerate().filter(|(at, pair)| !is_chosen(&pair.0, at + 1));
    // Variables of the launcher itself follow later and must not occur twice.
    let is_ours = |name: &OsString| SET.iter().any(|entry| entry.means(name.as_bytes()));
    let last = last.map(|(_, pair)| (*pair).clone()).filter(|(name, _)| !is_ours(name));
    let mut seen: Vec<(OsString, OsString)> = ours.chain(last).collect();
    if let Some(directory) = all.pmi_libraries.as_ref().filter(|_| all.preload_pmi) {
        preload::add(&mut seen, directory, |name| chosen.iter().any(|(other, _)| other == name));
    }
    for (entry, value) in DEFAULTS {
        if seen.iter().all(|(name, _)| name != entry.name) {
            seen.push((entry.name.into(), value.into()));
        }
    }
    seen.into_iter()
}

/// Environment from which ranks inherit: that of this process; on a node of a run with a head, that of the
/// head and what is known better here.
pub(crate) fn ours(all: &Environment) -> impl Iterator<Item = (OsString, OsString)> {
    let own = std::env::vars_os();
    let composed = match &all.of_head {
        None => own.collect(),
        Some(of_head) => composed(own, of_head, |path| path.is_dir()),
    };
    composed.into_iter()
}

/// Variables of a node: those that describe its host, those that a batch system has set here, and otherwise
/// those of the head. `is_directory` looks for a directory on this node.
fn composed(
    own: impl Iterator<Item = (OsString, OsString)>,
    of_head: &[(OsString, OsString)],
    is_directory: impl Fn(&Path) -> bool,
) -> Vec<(OsString, OsString)> {
    let is_missing = |name: &OsString| {
        covers(DIRECTORY_OF_NODE, name.as_bytes())
            && of_head.iter().any(|(other, path)| other == name && !is_directory(Path::new(path)))
    };
    let is_own = |name: &OsString| {
        let bytes = name.as_bytes();
        covers(OF_HOST, bytes) || covers(BY_NODE, bytes) || is_missing(name)
    };
    let mut all: Vec<(OsString, OsString)> = own.filter(|(name, _)| is_own(name)).collect();
    let count = all.len();
    for pair in of_head {
        if all[..count].iter().all(|(name, _)| *name != pair.0) {
            all.push(pair.clone());
        }
    }
    all
}

/// Variables of this process that ranks on other nodes may inherit: all but those that describe a host, or a
/// login there.
pub(crate) fn for_other_nodes() -> Vec<(OsString, OsString)> {
    let is_of_host = |name: &OsString| covers(OF_HOST, name.as_bytes());
    inherited(std::env::vars_os()).filter(|(name, _)| !is_of_host(name)).collect()
}

/// Variables among `ours` that ranks of `part` have on each host without a value of its own.
pub(crate) fn where_node_has_none(
    plan: &Plan,
    part: &App,
    ours: &[(OsString, OsString)],
) -> Vec<(OsString, OsString)> {
    let stated = plan.environment.set.iter().chain(&part.program.variables);
    let stated: Vec<&OsString> = stated.map(|(name, _)| name).collect();
    let seen = of_program(ours.iter().cloned(), &plan.environment, &part.program);
    seen.filter(|(name, _)| covers(BY_NODE, name.as_bytes()) && !stated.contains(&name)).collect()
}

/// Value of `name` for `program`, besides variables of the launcher itself.
pub(crate) fn found_by(program: &Program, all: &Environment, name: &str) -> Option<OsString> {
    of_program(ours(all), all, program).find(|(other, _)| other == name).map(|(_, value)| value)
}

/// True if a program of a job finds a variable by which clients print debug messages, in PMI-2 also if the
/// server says so.
pub(crate) fn is_verbose(plan: &Plan) -> bool {
    plan.parts.iter().any(|part| {
        let found = found_by(&part.program, &plan.environment, DEBUG);
        found.is_some_and(|value| !value.is_empty() && value != "0")
    })
}

/// Variable by which clients print debug messages.
const DEBUG: &str = "PMI_DEBUG";

fn is_inherited(name: &OsString, inherit: &Inherit) -> bool {
    match inherit {
        Inherit::All => true,
        Inherit::Nothing => false,
        Inherit::Only(names) => names.contains(name),
    }
}

/// One difference between the launcher's environment and that of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EnvChange {
    /// The variable.
    pub(crate) name: OsString,
    /// Its value for the rank; `None` if it is removed.
    pub(crate) value: Option<OsString>,
    /// The reason.
    pub(crate) why: &'static str,
}

/// Differences between the environment of `rank`, which runs `part` of `plan`, and the launcher's, by name.
pub(crate) fn changes(
    plan: &Plan,
    part: &App,
    rank: u32,
    ours: &[(OsString, OsString)],
) -> Vec<EnvChange> {
    let ours: BTreeMap<OsString, OsString> = ours.iter().cloned().collect();
    let seen = of_program(ours.clone().into_iter(), &plan.environment, &part.program);
    let mut theirs: BTreeMap<OsString, OsString> = seen.collect();
    let own = ProtocolOffer::of_part(plan, plan.appnum(rank), socket_fd());
    let own = own.into_iter().chain(ProtocolOffer::of_rank(plan, rank, rank));
    let is_set = |name: &str| theirs.contains_key(OsStr::new(name));
    let own: Vec<_> = own.filter(|(name, _)| !variables::gives_way(name, is_set)).collect();
    theirs.extend(own.into_iter().map(|(name, value)| (name.into(), value.into())));
    let slurm = if plan.environment.emulated.slurm { variables::SLURM } else { &[] };
    let torch = plan.environment.rendezvous.as_ref().map_or(&[][..], |_| variables::TORCH);
    let added = theirs.iter().filter(|(name, value)| ours.get(*name) != Some(*value));
    let added = added.map(|(name, value)| EnvChange {
        name: name.clone(),
        value: Some(value.clone()),
        why: torch.iter().chain(slurm).find(|entry| name == entry.name).map_or_else(
            || variables::set(name.as_bytes()).map_or("as requested", |entry| entry.why),
            |entry| entry.why,
        ),
    });
    let gone = ours.keys().filter(|name| !theirs.contains_key(*name)).map(|name| EnvChange {
        name: name.clone(),
        value: None,
        why: variables::removed(name.as_bytes()).map_or("not inherited, as specified", |e| e.why),
    });
    added.chain(gone).collect()
}

/// Descriptor that the sockets of ranks will have: the launcher opens it first of all, so it is the lowest
/// free one. It is 3, unless the launcher inherits open files, as from `flock` or `make`.
fn socket_fd() -> u32 {
    let lowest = null::open().map(|file| file.as_raw_fd().unsigned_abs());
    lowest.unwrap_or(3)
}

#[cfg(test)]
mod tests {
    use super::super::guard;
    use super::super::plan::tests::plan;
    use super::super::pmix::{self, PmixEndpoint};
    use super::*;

    fn seen(ours: &[(&str, &str)], all: &Environment, own: &Program) -> Vec<(OsString, OsString)> {
        let ours = ours.iter().map(|(name, value)| (name.into(), value.into()));
        let seen = of_program(ours, all, own);
        seen.filter(|(name, _)| DEFAULTS.iter().all(|(entry, _)| name != entry.name)).collect()
    }

    fn program() -> Program {
        Program::new("/bin/sh".into(), "sh".into(), Vec::new())
    }

    fn pair(name: &str, value: &str) -> (OsString, OsString) {
        (name.into(), value.into())
    }

    // Coverage: R13-2
    #[test]
    fn variables_that_the_launcher_sets_are_in_the_table() {
        let (port, pin) = ("node1:7".to_owned(), Some("7f".to_owned()));
        let endpoint =
            Endpoint { port, is_for_started: false, ids: None, pin, requires_challenge: false };
        let uri = "server.0;tcp4://127.0.0.1:7".to_owned();
        let pmix = PmixEndpoint { uri, directory: None, store: None };
        let set = of_plan(&plan(&[("./a", 4)]), 3)
            .chain(pmi_host_base::env::of_rank(2, 2))
            .chain(of_endpoint(&endpoint, 2));
        let set = set.chain(pmix::of_plan(&plan(&[("./a", 2)]), &pmix)).chain(pmix::of_rank(2, 2));
        let names: Vec<&str> = set.map(|(name, _)| name).chain([guard::RUN]).collect();
        let table: Vec<&str> = SET.iter().map(|entry| entry.name).collect();
        // Users may choose a store of PMIx data.
        let is_choice = |name: &&str| variables::SHARING.iter().any(|entry| entry.name == *name);
        let (choices, names): (Vec<_>, Vec<_>) = names.into_iter().partition(is_choice);
        assert_eq!(choices, ["PMIX_GDS_MODULE"]);
        assert!(names.iter().all(|name| table.contains(name)), "{names:?}");
        assert_eq!(names.len(), table.len());
    }

    #[test]
    fn variables_of_one_program_replace_those_of_all() {
        let all =
            Environment { set: vec![pair("B", "2"), pair("D", "2")], ..Environment::default() };
        let variables = vec![pair("B", "3"), pair("C", "3"), pair("B", "4"), pair("PMI_FD", "9")];
        let own = Program { variables, ..program() };
        let seen = seen(&[("A", "1"), ("B", "1")], &all, &own);
        assert_eq!(seen, [pair("A", "1"), pair("D", "2"), pair("C", "3"), pair("B", "4")]);
    }

    #[test]
    fn variables_that_are_not_inherited_are_not_seen() {
        let ours = [("A", "1"), ("B", "1")];
        let only = Inherit::Only(vec!["B".into()]);
        let all =
            Environment { inherit: only, set: vec![pair("C", "2")], ..Environment::default() };
        assert_eq!(seen(&ours, &all, &program()), [pair("B", "1"), pair("C", "2")]);
        let own = Program { inherit: Some(Inherit::Nothing), ..program() };
        assert_eq!(seen(&ours, &all, &own), [pair("C", "2")]);
    }

    #[test]
    fn variables_that_are_set_only_if_absent_stay_as_they_were() {
        let (entry, value) = DEFAULTS[0];
        let all = Environment::default();
        let of = |ours: &[(OsString, OsString)]| -> Vec<(OsString, OsString)> {
            of_program(ours.iter().cloned(), &all, &program()).collect()
        };
        assert_eq!(of(&[]), [pair(entry.name, value)]);
        assert_eq!(of(&[pair(entry.name, "n")]), [pair(entry.name, "n")]);
    }

    #[test]
    fn value_of_a_node_wins_where_a_batch_system_sets_it_and_else_that_of_the_head() {
        let own = [
            ("HOSTNAME", "n2"),
            ("CUDA_VISIBLE_DEVICES", "3"),
            ("SLINGSHOT_VNIS", "7"),
            ("PATH", "/of/n2"),
            ("TMPDIR", "/tmp/n2"),
        ];
        let of_head = [
            ("CUDA_VISIBLE_DEVICES", "0"),
            ("SLURM_CPUS_ON_NODE", "4"),
            ("PATH", "/of/n1"),
            ("TMPDIR", "/scratch"),
        ];
        let of_head = of_head.map(|(name, value)| pair(name, value));
        let seen = |has_directory: bool| {
            let own = own.iter().map(|(name, value)| pair(name, value));
            let mut seen = composed(own, &of_head, |_| has_directory);
            seen.sort();
            seen
        };
        let expected = |directory| {
            [
                ("CUDA_VISIBLE_DEVICES", "3"),
                ("HOSTNAME", "n2"),
                ("PATH", "/of/n1"),
                ("SLINGSHOT_VNIS", "7"),
                ("SLURM_CPUS_ON_NODE", "4"),
                ("TMPDIR", directory),
            ]
            .map(|(name, value)| pair(name, value))
        };
        assert_eq!(seen(true), expected("/scratch"));
        assert_eq!(seen(false), expected("/tmp/n2"));
    }

    #[test]
    fn changes_have_their_reasons() {
        let plan = plan(&[("./a", 2)]);
        let ours = [pair("PMIX_RANK", "7"), pair("A", "1"), pair("PMI_RANK", "1")];
        let changes = changes(&plan, &plan.parts[0], 1, &ours);
        let of = |name: &str| changes.iter().find(|change| change.name == name);
        assert_eq!(of("A"), None);
        assert_eq!(of("PMI_RANK"), None);
        assert_eq!(of("PMI_SIZE").and_then(|change| change.value.clone()), Some("2".into()));
        assert!(of("PMIX_RANK").is_some_and(|c| c.value.is_none() && c.why.contains("PMIx")));
    }
}
