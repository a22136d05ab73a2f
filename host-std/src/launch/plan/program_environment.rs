//! Environment of a program in layers, each with an owner: variables of the head of the run, of the node, and
//! of the user.
//!
//! The layer of the user travels in the settings of a job, with that of the head; the node that starts a rank
//! composes them with its own. The layer of the launcher comes last:
//! [`rank_variables`](crate::launch::environment::rank_variables).
//!
//! An outer launcher (a batch system's, another `mpiexec`, or this one) leaves variables that would lead
//! the MPI library to the outer job. They are removed; variables that a user sets to tune a library
//! stay.

use super::preload;
use crate::settings::Environment;
use pmi_host_base::env::inherited;
use pmi_host_base::loader::Search;
use pmi_host_base::program::{Inherit, Program};
use pmi_host_base::variables::{
    self, DEFAULTS, DIRECTORY_OF_NODE, IS_PASSED_ON, OF_HOST, SET, covers, is_of_slurm,
};
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Who decides the value of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The environment of the launcher's process, which ranks inherit.
    Head,
    /// The environment of the process that starts ranks on a node: variables that describe its host, and
    /// those that a batch system has set there.
    Node,
    /// The user, by options.
    User,
    /// This launcher.
    Launcher,
}

/// Variable of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) name: OsString,
    pub(crate) value: OsString,
    pub(crate) owner: Owner,
}

impl Variable {
    pub(crate) fn new(name: impl Into<OsString>, value: impl Into<OsString>, owner: Owner) -> Self {
        Self { name: name.into(), value: value.into(), owner }
    }

    /// Wire: `name=value`, as `execve` takes it.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if either holds a NUL.
    pub(crate) fn entry(&self) -> io::Result<CString> {
        Ok(CString::new([self.name.as_bytes(), b"=", self.value.as_bytes()].concat())?)
    }
}

/// Variables of a program, each once: `getenv` returns the first of several entries, and a shell uses the
/// last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgramEnvironment {
    pub(crate) variables: Vec<Variable>,
}

impl ProgramEnvironment {
    /// Composes that of `program` in a job with the settings `all` of what it inherits, then the variables of
    /// the user for all programs, then those for this one.
    pub(crate) fn new(inherited: Inherited, all: &Environment, program: &Program) -> Self {
        let is_inherited = |variable: &Variable| {
            let name = &variable.name;
            let inherit = program.inherit.as_ref().unwrap_or(&all.inherit);
            is_named(name, inherit) && !all.unset.contains(name) && !is_emulated(name, all)
        };
        let mut variables = inherited.variables;
        variables.retain(is_inherited);
        let mut composed = Self { variables };
        // Variables of the launcher itself follow later.
        let is_ours = |name: &OsStr| SET.iter().any(|entry| entry.means(name.as_bytes()));
        for (name, value) in all.set.iter().chain(&program.variables) {
            match is_ours(name) {
                true => composed.remove(name),
                false => composed.set(Variable::new(name, value, Owner::User)),
            }
        }
        if let Some(directory) = all.pmi_libraries.as_ref().filter(|_| all.preload_pmi) {
            preload::add(&mut composed, directory);
        }
        for (entry, value) in DEFAULTS {
            if !composed.has(entry.name) {
                composed.set(Variable::new(entry.name, *value, Owner::Launcher));
            }
        }
        composed
    }

    /// True if it has a variable of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name.as_ref()).is_some()
    }

    /// The variable of this name.
    pub(crate) fn get(&self, name: &OsStr) -> Option<&Variable> {
        self.variables.iter().find(|variable| variable.name == name)
    }

    /// Search of the loader for the libraries of `program`, which has this environment.
    pub(crate) fn search(&self, program: &Program) -> Search {
        let value = |name: &str| self.get(name.as_ref()).map(|variable| variable.value.clone());
        let search = Search::by(&value);
        match &program.directory {
            Some(directory) => search.in_directory(directory),
            None => search,
        }
    }

    /// Sets a variable, in place of another one of its name.
    pub(crate) fn set(&mut self, variable: Variable) {
        self.remove(&variable.name);
        self.variables.push(variable);
    }

    /// Removes the variable of this name.
    fn remove(&mut self, name: &OsStr) {
        self.variables.retain(|other| other.name != name);
    }

    /// Removes the variable of this name, and returns its value.
    pub(super) fn take(&mut self, name: &OsStr) -> Option<OsString> {
        let at = self.variables.iter().position(|other| other.name == name)?;
        Some(self.variables.remove(at).value)
    }
}

/// Variables that ranks may inherit: layers of the head and of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inherited {
    variables: Vec<Variable>,
}

impl Inherited {
    /// Those of this process; at a node of a run with a head elsewhere, those of the head and what is known
    /// better here.
    pub(crate) fn here(all: &Environment) -> Self {
        let own = std::env::vars_os();
        match &all.of_head {
            None => Self::of_head(own),
            Some(of_head) => Self::composed(own, of_head, all, |path| path.is_dir()),
        }
    }

    /// Variables of the process of a launcher.
    pub(crate) fn of_head(all: impl Iterator<Item = (OsString, OsString)>) -> Self {
        let variables = inherited(all).map(|(name, value)| Variable::new(name, value, Owner::Head));
        Self { variables: variables.collect() }
    }

    /// Those that a batch system or a site has set on this node, and the user has not set for all programs.
    pub(crate) fn of_node(self, all: &Environment) -> Vec<(OsString, OsString)> {
        let is_set_there = |one: &Variable| {
            one.owner == Owner::Node
                && !covers(OF_HOST, one.name.as_bytes())
                && all.set.iter().all(|(name, _)| *name != one.name)
        };
        let own = self.variables.into_iter().filter(is_set_there);
        own.map(|Variable { name, value, .. }| (name, value)).collect()
    }

    /// Variables of a node: those of its `own` that it decides, and otherwise those of the head.
    /// Where its starter [passes](IS_PASSED_ON) those of the head on, a task prolog has set or removed what
    /// differs here, as for ranks that the batch system starts itself.
    /// `is_directory` looks for a directory on this node.
    fn composed(
        own: impl Iterator<Item = (OsString, OsString)>,
        of_head: &[(OsString, OsString)],
        all: &Environment,
        is_directory: impl Fn(&Path) -> bool,
    ) -> Self {
        let all_own: Vec<_> = own.collect();
        let is_passed_on = all_own.iter().any(|(name, _)| name == IS_PASSED_ON);
        let is_of_prolog = |name: &OsString| is_passed_on && !is_of_slurm(name.as_bytes());
        let is_removed =
            |name: &OsString| is_of_prolog(name) && all_own.iter().all(|(other, _)| other != name);
        let is_missing = |name: &OsString| {
            covers(DIRECTORY_OF_NODE, name.as_bytes())
                && of_head
                    .iter()
                    .any(|(other, path)| other == name && !is_directory(Path::new(path)))
        };
        let is_own = |name: &OsString| {
            covers(OF_HOST, name.as_bytes()) || all.is_of_node(name) || is_missing(name)
        };
        let differs = |one: &(OsString, OsString)| is_of_prolog(&one.0) && !of_head.contains(one);
        let own = inherited(all_own.iter().cloned()).filter(|one| is_own(&one.0) || differs(one));
        let own: Vec<_> =
            own.map(|(name, value)| Variable::new(name, value, Owner::Node)).collect();
        let is_known =
            |name: &OsString| own.iter().any(|variable| variable.name == *name) || is_removed(name);
        let of_head = of_head.iter().filter(|(name, _)| !is_known(name)).cloned();
        let Self { variables } = Self::of_head(of_head);
        Self { variables: [own, variables].concat() }
    }
}

/// Variables of this process that ranks on other nodes may inherit: all but those that describe a host, or a
/// login there.
pub(crate) fn for_other_nodes() -> Vec<(OsString, OsString)> {
    let is_of_host = |name: &OsString| covers(OF_HOST, name.as_bytes());
    inherited(std::env::vars_os()).filter(|(name, _)| !is_of_host(name)).collect()
}

/// Environment of `program` besides variables of the launcher itself.
pub(crate) fn composed(program: &Program, all: &Environment) -> ProgramEnvironment {
    ProgramEnvironment::new(Inherited::here(all), all, program)
}

/// Value of `name` for `program`, besides variables of the launcher itself.
pub(crate) fn found_by(program: &Program, all: &Environment, name: &str) -> Option<OsString> {
    composed(program, all).take(name.as_ref())
}

fn is_named(name: &OsString, inherit: &Inherit) -> bool {
    match inherit {
        Inherit::All => true,
        Inherit::Nothing => false,
        Inherit::Only(names) => names.contains(name),
    }
}

/// True for variables of a launcher that this one emulates: an outer `torchrun` has left those of its own
/// ranks, and an allocation of Slurm has its own number of tasks.
fn is_emulated(name: &OsString, all: &Environment) -> bool {
    let is_of = |table: &[variables::VariableRule]| table.iter().any(|entry| name == entry.name);
    (all.rendezvous.is_some() && is_of(variables::TORCH))
        || (all.emulated.slurm && is_of(variables::SLURM))
        || (all.emulated.pals && is_of(variables::PALS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(ours: &[(&str, &str)], all: &Environment, own: &Program) -> Vec<(OsString, OsString)> {
        let ours = ours.iter().map(|(name, value)| (name.into(), value.into()));
        let seen = ProgramEnvironment::new(Inherited::of_head(ours), all, own);
        let seen = pairs(seen.variables).into_iter();
        seen.filter(|(name, _)| DEFAULTS.iter().all(|(entry, _)| name != entry.name)).collect()
    }

    fn program() -> Program {
        Program::new("/bin/sh".into(), "sh".into(), Vec::new())
    }

    fn pairs(variables: Vec<Variable>) -> Vec<(OsString, OsString)> {
        variables.into_iter().map(|Variable { name, value, .. }| (name, value)).collect()
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
            let inherited = Inherited::of_head(ours.iter().cloned());
            pairs(ProgramEnvironment::new(inherited, &all, &program()).variables)
        };
        assert_eq!(of(&[]), [pair(entry.name, value)]);
        assert_eq!(of(&[pair(entry.name, "n")]), [pair(entry.name, "n")]);
    }

    // Coverage: SLURM-34
    #[test]
    fn variables_of_a_task_prolog_win_where_the_starter_passes_those_of_the_head_on() {
        let mut own = vec![
            pair("NEW", "n2"),
            pair("OTHER", "n2"),
            pair("SAME", "1"),
            pair("SLURM_STEP_NUM_NODES", "2"),
            pair("SLURM_NTASKS", "2"),
        ];
        let of_head = [
            pair("GONE", "1"),
            pair("OTHER", "n1"),
            pair("SAME", "1"),
            pair("SLURM_NTASKS", "8"),
            pair("SRUN_CPUS_PER_TASK", "4"),
        ];
        let seen = |own: &[(OsString, OsString)]| {
            let all = Environment::default();
            let seen = Inherited::composed(own.iter().cloned(), &of_head, &all, |_| true);
            let mut seen = pairs(seen.variables);
            seen.sort();
            seen
        };
        assert_eq!(seen(&own), of_head);
        own.push(pair(IS_PASSED_ON, "1"));
        let expected = [
            pair("NEW", "n2"),
            pair("OTHER", "n2"),
            pair("SAME", "1"),
            pair("SLURM_NTASKS", "8"),
            pair("SRUN_CPUS_PER_TASK", "4"),
        ];
        assert_eq!(seen(&own), expected);
    }

    // Coverage: PBS-2
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
            let all = Environment::default();
            let seen = Inherited::composed(own, &of_head, &all, |_| has_directory);
            let mut seen = pairs(seen.variables);
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
