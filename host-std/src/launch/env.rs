//! The environment of a rank: what is set, what is taken out, and why.
//!
//! An outer launcher (a batch system's, another `mpiexec`, or this one) leaves variables that would
//! lead the MPI library to the outer job. They go; what a user sets to tune a library stays.

use super::plan::{Dial, Plan};
use super::program::Program;
use crate::settings::Environment;
use crate::settings::environment::Inherit;
use pmi_std::env::PIN_VARIABLE;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Variables that have the same value in every rank of a first job that is all on this node.
pub fn of_job(ranks: u32, fd: u32, host: &str) -> [(&'static str, String); 5] {
    variables([ranks; 2], fd, host, false)
}

/// Variables that have the same value in every rank of the job of `plan`.
pub fn of_plan(plan: &Plan, fd: u32) -> [(&'static str, String); 5] {
    variables([plan.ranks, plan.local()], fd, &plan.host, plan.spawner.is_some())
}

fn variables(
    [ranks, local]: [u32; 2],
    fd: u32,
    host: &str,
    is_spawned: bool,
) -> [(&'static str, String); 5] {
    [
        // One end of a socket pair; the only thing a PMI client needs to find its server.
        ("PMI_FD", fd.to_string()),
        ("PMI_SIZE", ranks.to_string()),
        // Clients look at the number, not at the presence: 0 says "not started by MPI_Comm_spawn".
        ("PMI_SPAWNED", u8::from(is_spawned).to_string()),
        // The name under which this launcher knows the node.
        ("PMI_HOSTNAME", host.to_owned()),
        // Libraries bind ranks to devices by these two before they speak PMI.
        ("MPI_LOCALNRANKS", local.to_string()),
    ]
}

/// Variables that differ from rank to rank.
pub fn of_rank(rank: u32, local_rank: u32) -> [(&'static str, String); 2] {
    [("PMI_RANK", rank.to_string()), ("MPI_LOCALRANKID", local_rank.to_string())]
}

/// How a rank finds us without its socket: nobody needs that who has one, except for a second connection.
pub fn of_dial(dial: &Dial, rank: u32) -> impl Iterator<Item = (&'static str, String)> {
    let address = [("PMI_PORT", dial.port.clone()), ("PMI_ID", dial.id(rank).to_string())];
    // What lies over the connection, and whom to believe there.
    let tls = dial
        .pin
        .iter()
        .flat_map(|pin| [("PMI_SOCKTYPE", "ssl".to_owned()), (PIN_VARIABLE, pin.clone())]);
    address.into_iter().chain(tls)
}

/// What a rank that runs `program` finds besides the variables above: of `ours` what it may see, then what
/// is set for all, then what is set for the program alone.
pub fn of_program<'a>(
    ours: impl Iterator<Item = (OsString, OsString)> + 'a,
    all: &'a Environment,
    program: &'a Program,
) -> impl Iterator<Item = (OsString, OsString)> + 'a {
    let inherit = program.inherit.as_ref().unwrap_or(&all.inherit);
    let set: Vec<&(OsString, OsString)> = all.set.iter().chain(&program.variables).collect();
    // A reader of the environment finds the first of several, a shell the last: there must be one.
    let is_set =
        |name: &OsString, from: usize| set.iter().skip(from).any(|(other, _)| other == name);
    let ours = ours.filter(|(name, _)| is_inherited(name, inherit) && !is_set(name, 0));
    let last = set.iter().enumerate().filter(|(at, pair)| !is_set(&pair.0, at + 1));
    let seen: Vec<_> = inherited(ours.chain(last.map(|(_, pair)| (*pair).clone()))).collect();
    seen.into_iter()
}

/// What of our own environment a program may see that nothing was said about.
pub fn inherited(
    ours: impl Iterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = (OsString, OsString)> {
    ours.filter(|(name, _)| !is_removed(name.as_bytes()))
}

fn is_inherited(name: &OsString, inherit: &Inherit) -> bool {
    match inherit {
        Inherit::All => true,
        Inherit::Nothing => false,
        Inherit::Only(names) => names.contains(name),
    }
}

fn is_removed(name: &[u8]) -> bool {
    let matches = |pattern: &&str| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix.as_bytes()),
        None => name == pattern.as_bytes(),
    };
    REMOVED.iter().any(matches) && !KEPT.iter().any(matches)
}

/// Names of an outer launcher's variables; a star stands for any ending.
const REMOVED: &[&str] = &[
    // PMI-1 and PMI-2: descriptor, address, rank and identity in the outer job. PMI_TOTALVIEW makes a
    // client wait for a line that this server does not send.
    "PMI_*",
    // Spawner's data that the batch system leaks to programs started by MPI_Comm_spawn.
    "SLURM_PMI2_*",
    // PMIx: with PMIX_NAMESPACE set, several libraries turn to the outer server and ignore PMI_FD.
    "PMIX_*",
    // Hydra: a control descriptor that is not ours, and the outer job's place of this node.
    "HYDI_*",
    "MPI_LOCALNRANKS",
    "MPI_LOCALRANKID",
    "MPI_APPNUM",
    "MPI_UNIVERSE_SIZE",
    // Hydra names the interface of the outer node by this one; a user has better ways to.
    "MPIR_CVAR_CH3_INTERFACE_HOSTNAME",
    // Open MPI: rank and size in the outer job, and the components that its daemons force on ranks.
    "OMPI_COMM_WORLD_*",
    "OMPI_UNIVERSE_SIZE",
    "OMPI_APP_CTX_NUM_PROCS",
    "OMPI_FIRST_RANKS",
    "OMPI_NUM_APP_CTX",
    "OMPI_FILE_LOCATION",
    "OMPI_MCA_ess*",
    "OMPI_MCA_orte_*",
    "OMPI_MCA_pmix*",
    "PRTE_*",
    // Flux: leads a program to Flux's own client library, which asks for the outer job.
    "FLUX_PMI_LIBRARY_PATH",
];

/// Exceptions: switches that a user sets for a client on purpose.
const KEPT: &[&str] = &["PMI_DEBUG", "PMI_USE_LOGFILE", "PMI_VERSION", "PMIX_MCA_*"];

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(ours: &[(&str, &str)], all: &Environment, own: &Program) -> Vec<(OsString, OsString)> {
        let ours = ours.iter().map(|(name, value)| (name.into(), value.into()));
        of_program(ours, all, own).collect()
    }

    fn program() -> Program {
        Program::new("/bin/sh".into(), "sh".into(), Vec::new())
    }

    fn pair(name: &str, value: &str) -> (OsString, OsString) {
        (name.into(), value.into())
    }

    fn kept(name: &str) -> bool {
        !seen(&[(name, "")], &Environment::default(), &program()).is_empty()
    }

    #[test]
    fn traces_of_an_outer_launcher_are_removed() {
        for name in [
            "PMI_FD",
            "PMI_PORT",
            "PMI_ID",
            "PMIX_NAMESPACE",
            "HYDI_CONTROL_FD",
            "OMPI_COMM_WORLD_RANK",
            "MPI_LOCALRANKID",
        ] {
            assert!(!kept(name), "{name}");
        }
    }

    #[test]
    fn what_the_user_set_stays() {
        for name in [
            "PATH",
            "PMI_DEBUG",
            "OMPI_MCA_btl",
            "UCX_TLS",
            "MPIR_CVAR_PMI_VERSION",
            "SLURM_JOB_ID",
            "PMI",
            "PMIX_MCA_gds",
        ] {
            assert!(kept(name), "{name}");
        }
    }

    #[test]
    fn what_we_set_is_what_we_take_out_of_an_outer_job() {
        let set = of_job(4, 3, "node1").map(|(name, _)| name);
        let own = of_rank(2, 2).map(|(name, _)| name);
        for name in set.into_iter().chain(own) {
            assert!(is_removed(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn what_a_program_gets_alone_replaces_what_all_get() {
        let all =
            Environment { set: vec![pair("B", "2"), pair("D", "2")], ..Environment::default() };
        let variables = vec![pair("B", "3"), pair("C", "3"), pair("B", "4"), pair("PMI_FD", "9")];
        let own = Program { variables, ..program() };
        let seen = seen(&[("A", "1"), ("B", "1")], &all, &own);
        assert_eq!(seen, [pair("A", "1"), pair("D", "2"), pair("C", "3"), pair("B", "4")]);
    }

    #[test]
    fn what_is_not_inherited_is_not_seen() {
        let ours = [("A", "1"), ("B", "1")];
        let only = Inherit::Only(vec!["B".into()]);
        let all =
            Environment { inherit: only, set: vec![pair("C", "2")], ..Environment::default() };
        assert_eq!(seen(&ours, &all, &program()), [pair("B", "1"), pair("C", "2")]);
        let own = Program { inherit: Some(Inherit::Nothing), ..program() };
        assert_eq!(seen(&ours, &all, &own), [pair("C", "2")]);
    }
}
