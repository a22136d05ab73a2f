//! Variables by which ranks find their servers and their places: the last layer of their environment.
//! Differences between that and the environment of the launcher, with reasons.

use super::other_launchers::{
    pals_of_plan, pals_of_rank, slurm_of_plan, slurm_of_rank, torch_of_plan, torch_of_rank,
};
use super::pmix;
use super::sharing;
use crate::launch::plan::job::{App, Endpoint, Plan};
use crate::launch::plan::program_environment::{
    Inherited, Owner, ProgramEnvironment, Variable, found_by,
};
use crate::launch::plan::protocol_offer::ProtocolOffer;
use pmi_host_base::env::of_job;
use pmi_host_base::variables::{self, MPICH_VERSION, gives_way};
use pmi_host_os::null_device;
use pmi_std::env::{PIN_VARIABLE, SNAPSHOT_VARIABLE};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;

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
        .flat_map(|pin| [("PMI_SOCKTYPE", "OpenSSL".to_owned()), (PIN_VARIABLE, pin.clone())]);
    address.into_iter().chain(tls)
}

/// Variables by which the ranks of part `number` of `plan` find their servers, the same for all of
/// them. Their socket is at `fd`.
pub(crate) fn of_part(plan: &Plan, number: usize, fd: u32) -> Vec<(&'static str, String)> {
    let offer = plan.offer(number);
    let pmi = offer.pmi.then(|| of_plan(plan, fd)).into_iter().flatten();
    let pmi = pmi.chain(offer.pmi.then(|| (SNAPSHOT_VARIABLE, "1".to_owned())));
    let pmix = plan.pmix.as_ref().filter(|_| offer.pmix);
    let pmix = pmix.map(|endpoint| pmix::of_plan(plan, endpoint)).into_iter().flatten();
    let mpich = offer.mpich_version.map(|which| (MPICH_VERSION.name, which.to_owned()));
    let open_mpi = takes_open_mpi(offer, plan).then(|| pmix::open_mpi_of_plan(plan));
    let pmix = pmix.chain(open_mpi.into_iter().flatten());
    let sharing = sharing::of_plan(plan, &offer);
    let others = torch_of_plan(plan).into_iter().chain(slurm_of_plan(plan));
    let others = others.chain(pals_of_plan(plan));
    pmi.chain(pmix).chain(mpich).chain(sharing).chain(others).collect()
}

/// Variables of `rank` alone. A variable that gives way to one of its program is left out.
pub(crate) fn of_rank(
    plan: &Plan,
    rank: u32,
    local_rank: u32,
    program: &ProgramEnvironment,
) -> Vec<(&'static str, String)> {
    let offer = plan.offer(plan.appnum(rank));
    let pmi =
        offer.pmi.then(|| pmi_host_base::env::of_rank(rank, local_rank)).into_iter().flatten();
    let endpoint = plan.endpoint.as_ref().filter(|endpoint| offer.pmi && !endpoint.is_web());
    let endpoint = endpoint.into_iter().flat_map(|endpoint| of_endpoint(endpoint, rank));
    let pmix = offer.pmix.then(|| pmix::of_rank(rank, local_rank)).into_iter().flatten();
    let open_mpi = takes_open_mpi(offer, plan).then(|| pmix::open_mpi_of_rank(rank, local_rank));
    let pmix = pmix.chain(open_mpi.into_iter().flatten());
    let others = torch_of_rank(plan, rank, local_rank).into_iter();
    let others = others.chain(slurm_of_rank(plan, rank, local_rank));
    let others = others.chain(pals_of_rank(plan, rank, local_rank));
    let others = others.filter(|(name, _)| !gives_way(name, |other| program.has(other)));
    let of_place = of_place(plan, local_rank, program);
    pmi.chain(endpoint).chain(pmix).chain(others).chain(of_place).collect()
}

/// Variables of a rank's devices and threads.
fn of_place(
    plan: &Plan,
    local_rank: u32,
    program: &ProgramEnvironment,
) -> Vec<(&'static str, String)> {
    let Some(places) = &plan.placement.places else { return Vec::new() };
    places
        .variables(local_rank, &|name| program.get(name.as_ref())?.value.clone().into_string().ok())
}

/// Variables that ranks have by their places, in place of those of their program.
pub(crate) fn set_for_each_rank(
    plan: &Plan,
    program: &ProgramEnvironment,
) -> BTreeSet<&'static str> {
    let ranks = if plan.placement.places.is_some() { plan.local() } else { 0 };
    let of_ranks = (0..ranks).flat_map(|local_rank| of_place(plan, local_rank, program));
    of_ranks.map(|(name, _)| name).collect()
}

/// True if the program gets the variables of Open MPI's launcher although it is offered no PMIx, with
/// which every program gets them.
fn takes_open_mpi(offer: ProtocolOffer, plan: &Plan) -> bool {
    plan.environment.emulated.open_mpi && !offer.pmix && !offer.may_link_mpi
}

/// Environment of the ranks of part `number` of `plan`, whose socket is at `fd`, without the variables that
/// differ from rank to rank. A variable of the launcher that gives way to another one is left out.
pub(crate) fn of_program(
    plan: &Plan,
    number: usize,
    fd: u32,
    inherited: Inherited,
) -> ProgramEnvironment {
    let Some(part) = plan.parts.get(number) else { return ProgramEnvironment::default() };
    let mut environment = ProgramEnvironment::new(inherited, &plan.environment, &part.program);
    add(&mut environment, of_part(plan, number, fd));
    environment
}

/// Adds variables of the launcher. Settings of a user for a library take precedence.
fn add(environment: &mut ProgramEnvironment, mut ours: Vec<(&'static str, String)>) {
    ours.retain(|(name, _)| !gives_way(name, |other| environment.has(other)));
    for (name, value) in ours {
        environment.set(Variable::new(name, value, Owner::Launcher));
    }
}

/// Variables among `ours` that ranks of `part` have on each host without a value of its own.
pub(crate) fn where_node_has_none(plan: &Plan, part: &App, ours: Inherited) -> Vec<Variable> {
    let seen = ProgramEnvironment::new(ours, &plan.environment, &part.program).variables;
    let may_differ =
        |one: &Variable| one.owner == Owner::Head && plan.environment.is_of_node(&one.name);
    seen.into_iter().filter(may_differ).collect()
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

/// Differences between the environment of `rank`, which runs part `number` of `plan`, and the launcher's, by
/// name.
pub(crate) fn changes(
    plan: &Plan,
    number: usize,
    rank: u32,
    ours: &[(OsString, OsString)],
) -> Vec<EnvChange> {
    let inherited = Inherited::of_head(ours.iter().cloned());
    let mut theirs = of_program(plan, number, socket_fd(), inherited);
    let of_rank = of_rank(plan, rank, rank, &theirs);
    add(&mut theirs, of_rank);
    let ours: BTreeMap<&OsStr, &OsStr> =
        ours.iter().map(|(name, value)| (name.as_ref(), value.as_ref())).collect();
    let gone = ours.keys().filter(|name| theirs.get(name).is_none()).map(|name| EnvChange {
        name: (*name).to_owned(),
        value: None,
        why: variables::removed(name.as_bytes()).map_or("not inherited, as specified", |e| e.why),
    });
    let gone: Vec<EnvChange> = gone.collect();
    let mut added = theirs.variables;
    added.retain(|one| ours.get(&*one.name) != Some(&&*one.value));
    added.sort_by(|one, other| one.name.cmp(&other.name));
    let added = added.into_iter().map(|Variable { name, value, owner }| EnvChange {
        why: why_set(&name, owner),
        name,
        value: Some(value),
    });
    added.chain(gone).collect()
}

/// Reason for the value of a variable.
fn why_set(name: &OsStr, owner: Owner) -> &'static str {
    let tables = variables::TORCH.iter().chain(variables::SLURM).chain(variables::PALS);
    match owner {
        Owner::User => "as requested",
        _ => tables
            .copied()
            .find(|entry| name == entry.name)
            .or_else(|| variables::set(name.as_bytes()))
            .map_or("as requested", |entry| entry.why),
    }
}

/// Descriptor that the sockets of ranks will have: the launcher opens it first of all, so it is the lowest
/// free one. It is 3, unless the launcher inherits open files, as from `flock` or `make`.
fn socket_fd() -> u32 {
    let lowest = null_device::open().map(|file| file.as_raw_fd().unsigned_abs());
    lowest.unwrap_or(3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::plan::job::PmixEndpoint;
    use crate::launch::plan::job::tests::plan;
    use pmi_host_base::variables::SET;
    use pmi_host_os::cleanup::guard_protocol;

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
        let names: Vec<&str> = set.map(|(name, _)| name).chain([guard_protocol::RUN]).collect();
        let table: Vec<&str> = SET.iter().map(|entry| entry.name).collect();
        // Users may choose a store of PMIx data.
        let is_choice = |name: &&str| variables::SHARING.iter().any(|entry| entry.name == *name);
        let (choices, names): (Vec<_>, Vec<_>) = names.into_iter().partition(is_choice);
        assert_eq!(choices, ["PMIX_GDS_MODULE"]);
        assert!(names.iter().all(|name| table.contains(name)), "{names:?}");
        assert_eq!(names.len(), table.len());
    }

    #[test]
    fn variable_of_a_rank_that_the_user_sets_occurs_once() {
        let mut plan = plan(&[("./a", 2)]);
        plan.environment.emulated.slurm = true;
        plan.environment.set = vec![pair("SLURM_PROCID", "7")];
        let inherited = [pair("SLURM_LOCALID", "9"), pair("A", "1")];
        let program = of_program(&plan, 0, 3, Inherited::of_head(inherited.into_iter()));
        let of_rank = of_rank(&plan, 1, 1, &program);
        let of = |name: &str| of_rank.iter().find(|(other, _)| *other == name);
        let values =
            ["SLURM_PROCID", "SLURM_LOCALID"].map(|name| of(name).map(|(_, value)| &**value));
        assert_eq!(values, [None, Some("1")]);
        let common = ["SLURM_PROCID", "SLURM_LOCALID"].map(|name| program.has(name));
        assert_eq!(common, [true, false]);
        let all: Vec<&OsStr> = program.variables.iter().map(|one| &*one.name).collect();
        let unique: BTreeSet<_> = all.iter().collect();
        assert_eq!(all.len(), unique.len(), "{all:?}");
    }

    #[test]
    fn changes_have_their_reasons() {
        let plan = plan(&[("./a", 2)]);
        let ours = [pair("PMIX_RANK", "7"), pair("A", "1"), pair("PMI_RANK", "1")];
        let changes = changes(&plan, 0, 1, &ours);
        let of = |name: &str| changes.iter().find(|change| change.name == name);
        assert_eq!(of("A"), None);
        assert_eq!(of("PMI_RANK"), None);
        assert_eq!(of("PMI_SIZE").and_then(|change| change.value.clone()), Some("2".into()));
        assert!(of("PMIX_RANK").is_some_and(|c| c.value.is_none() && c.why.contains("PMIx")));
    }
}
