//! Environment of a program as its user specifies it: inherited and set variables.
//!
//! An outer launcher (a batch system's, another `mpiexec`, or this one) leaves variables that would lead
//! the MPI library to the outer job. They are removed; variables that a user sets to tune a library
//! stay.

use super::preload;
use crate::settings::Environment;
use pmi_host_base::env::inherited;
use pmi_host_base::program::{Inherit, Program};
use pmi_host_base::variables::{self, BY_NODE, DEFAULTS, DIRECTORY_OF_NODE, OF_HOST, SET, covers};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Variables of a rank that runs `program`, besides those of the launcher: inherited variables, then settings
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

/// Value of `name` for `program`, besides variables of the launcher itself.
pub(crate) fn found_by(program: &Program, all: &Environment, name: &str) -> Option<OsString> {
    of_program(ours(all), all, program).find(|(other, _)| other == name).map(|(_, value)| value)
}

fn is_inherited(name: &OsString, inherit: &Inherit) -> bool {
    match inherit {
        Inherit::All => true,
        Inherit::Nothing => false,
        Inherit::Only(names) => names.contains(name),
    }
}

#[cfg(test)]
mod tests {
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
}
