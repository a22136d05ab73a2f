//! Hosts that a batch system has allocated, each with the slots that the batch system's own launcher fills.
//!
//! | system | hosts | slots |
//! |---|---|---|
//! | Flux | `nodelist` of the resource set of the job, or of the instance | cores of the node there |
//! | Slurm | `SLURM_JOB_NODELIST` | `SLURM_TASKS_PER_NODE`; without it, and within a step, `SLURM_JOB_CPUS_PER_NODE` by `SLURM_CPUS_PER_TASK` |
//! | Slurm, heterogeneous job | the same variables with `_HET_GROUP_0` and so on behind them, of one component after the other | likewise |
//! | PBS, Torque | lines of `PBS_NODEFILE` | number of lines with the host |
//! | Cobalt | lines of `COBALT_NODEFILE` | likewise |
//! | LSF | `LSB_MCPU_HOSTS`, else lines of `LSB_DJOB_HOSTFILE` | number behind the host; number of lines |
//! | Grid Engine | lines of `PE_HOSTFILE` | second word of the line |
//! | OAR | lines of `OAR_NODEFILE` | number of lines with the host |
//!
//! Of several systems the first of the table counts, as for starters: Flux may run inside of any other one.
//!
//! Spec: srun(1), *Output environment variables*; flux-environment(7) and RFC 20 (Flux), *Resource Set*;
//! pbs_environment(7); *LSF environment variables*; sge_pe(5), `$pe_hostfile`; oarsub(1).

use super::host::{HostList, HostListBuilder, too_many};
use super::{HOSTS_MAX, SLOTS_MAX, flux, host_file, host_item};
use std::borrow::Cow;
use std::io;

/// Hosts that ranks may use, with their origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Allocation {
    /// The hosts.
    pub(crate) hosts: HostList,
    /// Their origin.
    pub(crate) source: AllocationSource,
}

/// Origin of a list of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllocationSource {
    /// An option or a file that the user has named; also this machine alone, if there was none.
    Named,
    /// Flux.
    Flux,
    /// Slurm.
    Slurm,
    /// PBS or Torque.
    Pbs,
    /// Cobalt.
    Cobalt,
    /// LSF.
    Lsf,
    /// Grid Engine.
    GridEngine,
    /// OAR.
    Oar,
}

/// Access to the surroundings in which batch systems describe their allocations.
pub(crate) struct Surroundings<'a> {
    /// Value of an environment variable that is set and not empty.
    pub(crate) variable: &'a dyn Fn(&str) -> Option<String>,
    /// Contents of a file.
    pub(crate) read: &'a dyn Fn(&str) -> io::Result<String>,
    /// Output of a command; the error is a message.
    pub(crate) output: &'a dyn Fn(&[&str]) -> Result<String, String>,
}

/// Hosts that a batch system has allocated to this process; `None` outside of an allocation.
///
/// # Errors
///
/// A message with the variable whose value cannot be used, and the remedy.
pub(crate) fn of_batch_system(around: &Surroundings<'_>) -> Result<Option<Allocation>, String> {
    find(around).map_err(|why| format!("{}; {REMEDY}", shortened(&why)))
}

/// As [`of_batch_system`]; an error lacks the remedy.
fn find(around: &Surroundings<'_>) -> Result<Option<Allocation>, String> {
    let variable = |name: &str| (around.variable)(name);
    let file = |name: &str, parse: fn(&str) -> Result<HostList, String>| {
        let path = variable(name)?;
        let text = (around.read)(&path);
        let text =
            text.map_err(|error| format!("it names '{path}', which cannot be read ({error})"));
        Some((name.to_owned(), text.and_then(|text| parse(&text))))
    };
    let (source, (name, hosts)) = if variable("FLUX_URI").is_some() {
        let id = variable("FLUX_JOB_ID");
        let set = match &id {
            Some(id) => (around.output)(&["flux", "job", "info", id, "R"]),
            None => (around.output)(&["flux", "kvs", "get", "resource.R"]),
        };
        (AllocationSource::Flux, ("FLUX_URI".to_owned(), set.and_then(|set| flux::hosts(&set))))
    } else if let Some(count) = components(&variable) {
        (AllocationSource::Slurm, (HET_SIZE.to_owned(), slurm_components(0..count, &variable)))
    } else if let Some(nodes) = nodes_of_slurm(&variable) {
        (AllocationSource::Slurm, ("SLURM_JOB_NODELIST".to_owned(), slurm(&nodes, &variable)))
    } else if let Some(found) = file("PBS_NODEFILE", host_file::parse) {
        (AllocationSource::Pbs, found)
    } else if let Some(found) = file("COBALT_NODEFILE", host_file::parse) {
        (AllocationSource::Cobalt, found)
    } else if let Some(words) = variable("LSB_MCPU_HOSTS") {
        (AllocationSource::Lsf, ("LSB_MCPU_HOSTS".to_owned(), pairs(&words)))
    } else if let Some(found) = file("LSB_DJOB_HOSTFILE", host_file::parse) {
        (AllocationSource::Lsf, found)
    } else if let Some(found) = file("PE_HOSTFILE", rows) {
        (AllocationSource::GridEngine, found)
    } else if let Some(found) = OAR_FILES.iter().find_map(|name| file(name, host_file::parse)) {
        (AllocationSource::Oar, found)
    } else {
        return Ok(None);
    };
    let hosts = hosts.map_err(|why| format!("{name}: {why}"))?;
    Ok(Some(Allocation { hosts, source }))
}

/// The beginning and the end of a message that has a long value in it.
fn shortened(text: &str) -> Cow<'_, str> {
    let start = text.char_indices().nth(SHOWN_CHARS / 2).map_or(text.len(), |(at, _)| at);
    let end = text.char_indices().nth_back(SHOWN_CHARS / 2).map_or(0, |(at, _)| at);
    match start < end {
        true => format!("{} [{} bytes] {}", &text[..start], end - start, &text[end..]).into(),
        false => text.into(),
    }
}

/// Hosts of components of a heterogeneous job of Slurm.
///
/// # Errors
///
/// A message for the user, with the remedy: there is no such job, or no such component.
pub(crate) fn of_components(
    numbers: &[u32],
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Allocation, String> {
    let count = components(variable).ok_or_else(|| {
        "there is no heterogeneous job of Slurm around this process; leave it out".to_owned()
    })?;
    if let Some(number) = numbers.iter().find(|number| **number >= count) {
        return Err(format!("the job has no component {number}; they are 0-{}", count - 1));
    }
    let hosts = slurm_components(numbers.iter().copied(), variable)?;
    Ok(Allocation { hosts, source: AllocationSource::Slurm })
}

/// Hosts of each component of a heterogeneous job of Slurm, by its number; none outside of one.
pub(crate) fn hosts_by_component(variable: &dyn Fn(&str) -> Option<String>) -> Vec<(String, u32)> {
    let mut all = Vec::new();
    for number in 0..components(variable).unwrap_or_default() {
        let Ok(list) = slurm_components([number], variable) else { break };
        all.extend(list.hosts().iter().map(|host| (host.name.clone(), number)));
    }
    all
}

/// Hosts of these components, one after the other.
fn slurm_components(
    numbers: impl IntoIterator<Item = u32>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<HostList, String> {
    let mut hosts = HostListBuilder::default();
    for number in numbers {
        let of_component = |name: &str| variable(&format!("{name}_HET_GROUP_{number}"));
        let nodes = nodes_of_slurm(&of_component);
        let nodes =
            nodes.ok_or_else(|| format!("SLURM_JOB_NUM_NODES_HET_GROUP_{number} is not set"))?;
        let list =
            slurm(&nodes, &of_component).map_err(|why| format!("component {number}: {why}"))?;
        for host in list.hosts() {
            hosts.add(&host.name, host.slots, None)?;
        }
    }
    hosts.finish()
}

fn nodes_of_slurm(variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    variable("SLURM_JOB_NUM_NODES").or_else(|| variable("SLURM_NNODES"))
}

/// Hosts of a job of Slurm, or of a component, by the variables that describe it.
fn slurm(nodes: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<HostList, String> {
    let nodes: usize = match nodes.parse() {
        Ok(nodes) if nodes > 0 && nodes <= HOSTS_MAX => nodes,
        _ => return Err(format!("SLURM_JOB_NUM_NODES={nodes} is not a number of nodes")),
    };
    // Within a step, `SLURM_TASKS_PER_NODE` and `SLURM_NNODES` are those of the step, which is only where
    // this process runs: all nodes of the job can be used.
    let is_step = variable("SLURM_STEP_ID").is_some();
    let stated = variable("SLURM_TASKS_PER_NODE").filter(|_| !is_step);
    let tasks = match stated {
        Some(tasks) => counts(&tasks).ok_or_else(|| not_counts("SLURM_TASKS_PER_NODE", &tasks))?,
        None if is_step => processors_by_task(variable).ok().flatten().unwrap_or_default(),
        None => processors_by_task(variable)?.unwrap_or_else(|| vec![1; nodes]),
    };
    let Some(list) = variable("SLURM_JOB_NODELIST").or_else(|| variable("SLURM_NODELIST")) else {
        // The only node is the one on which this process runs, under whatever name.
        return match nodes {
            1 => Ok(HostList::single("localhost", tasks.first().copied().unwrap_or(1))),
            _ => Err("it is not set".to_owned()),
        };
    };
    let mut names = Vec::new();
    for word in host_item::split(&list)? {
        names.append(&mut super::host_range::expand(word)?);
        if names.len() > HOSTS_MAX {
            return Err(too_many());
        }
    }
    let tasks = match names.len() == tasks.len() {
        true => tasks,
        // A step without a description of its job.
        false if is_step => vec![1; names.len()],
        false => {
            return Err(format!(
                "it names {} nodes ({list}), and SLURM_TASKS_PER_NODE has numbers for {}",
                names.len(),
                tasks.len()
            ));
        }
    };
    let mut hosts = HostListBuilder::default();
    for (name, slots) in names.iter().zip(tasks) {
        hosts.add(name, slots, None)?;
    }
    hosts.finish()
}

/// Number of components of the heterogeneous job of Slurm around this process.
fn components(variable: &dyn Fn(&str) -> Option<String>) -> Option<u32> {
    variable(HET_SIZE).and_then(|size| size.parse().ok()).filter(|size| *size > 0)
}

/// Processors of each node, divided by those of a task.
fn processors_by_task(
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Vec<u32>>, String> {
    let Some(processors) = variable("SLURM_JOB_CPUS_PER_NODE") else { return Ok(None) };
    let counted = counts(&processors);
    let processors = counted.ok_or_else(|| not_counts("SLURM_JOB_CPUS_PER_NODE", &processors))?;
    let by_task = variable("SLURM_CPUS_PER_TASK");
    let by_task = by_task.and_then(|count| count.parse().ok()).filter(|count| *count > 0);
    let tasks = processors.into_iter().map(|count| (count / by_task.unwrap_or(1)).max(1));
    Ok(Some(tasks.collect()))
}

/// Parses `2(x3),1` as 2, 2, 2, 1.
fn counts(text: &str) -> Option<Vec<u32>> {
    let mut counts = Vec::new();
    for piece in text.split(',') {
        let (count, times) = match piece.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse().ok()?),
            None => (piece, 1_usize),
        };
        let count = count.parse().ok().filter(|count| (1..=SLOTS_MAX).contains(count))?;
        if times == 0 || times > HOSTS_MAX - counts.len().min(HOSTS_MAX) {
            return None;
        }
        counts.resize(counts.len() + times, count);
    }
    Some(counts)
}

fn not_counts(name: &str, text: &str) -> String {
    format!("{name}={text} is not a list of numbers such as '2(x3),1'")
}

/// Parses `a 4 b 2`.
fn pairs(text: &str) -> Result<HostList, String> {
    let mut hosts = HostListBuilder::default();
    let mut words = text.split_whitespace();
    while let Some(name) = words.next() {
        let slots = words.next().ok_or_else(|| format!("there is no number behind '{name}'"))?;
        hosts.add(name, host_item::number(slots, name)?, None)?;
    }
    hosts.finish()
}

/// Parses rows of a host, its slots and further words.
fn rows(text: &str) -> Result<HostList, String> {
    let mut hosts = HostListBuilder::default();
    for row in text.lines() {
        let mut words = row.split_whitespace();
        let Some(name) = words.next() else { continue };
        let slots = words.next().ok_or_else(|| format!("there is no number behind '{name}'"))?;
        hosts.add(name, host_item::number(slots, name)?, None)?;
    }
    hosts.finish()
}

/// Variable with the number of components of a heterogeneous job.
const HET_SIZE: &str = "SLURM_HET_SIZE";

/// Names of the variable of OAR.
const OAR_FILES: [&str; 3] = ["OAR_NODEFILE", "OAR_NODE_FILE", "OAR_FILE_NODES"];

/// Greatest number of characters of a message before its remedy.
const SHOWN_CHARS: usize = 600;

const REMEDY: &str = "name the hosts with '--hosts', or use this one alone with '--no-allocation'";

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Allocation with these variables, where every file and every command has the text `content`.
    fn of(variables: &[(&str, &str)], content: &str) -> Result<Option<Allocation>, String> {
        of_batch_system(&Surroundings {
            variable: &|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            },
            read: &|_| match content {
                "" => Err(io::ErrorKind::NotFound.into()),
                text => Ok(text.to_owned()),
            },
            output: &|_| Ok(content.to_owned()),
        })
    }

    fn shown(variables: &[(&str, &str)], content: &str) -> (String, AllocationSource) {
        let allocation = of(variables, content).unwrap().expect("an allocation");
        (allocation.hosts.to_string(), allocation.source)
    }

    // Coverage: SLURM-3, PBS-1, COBALT-1, LSF-1
    #[test]
    fn batch_systems_name_hosts_in_their_own_ways() {
        let slurm = [
            ("SLURM_JOB_NUM_NODES", "4"),
            ("SLURM_JOB_NODELIST", "n[001-003,130]"),
            ("SLURM_TASKS_PER_NODE", "2(x3),1"),
        ];
        assert_eq!(
            shown(&slurm, ""),
            ("n001:2,n002:2,n003:2,n130".into(), AllocationSource::Slurm)
        );
        let alone = [("SLURM_NNODES", "1"), ("SLURM_TASKS_PER_NODE", "8")];
        assert_eq!(shown(&alone, ""), ("localhost:8".into(), AllocationSource::Slurm));
        let processors = [
            ("SLURM_NNODES", "3"),
            ("SLURM_NODELIST", "a,b[1-2]"),
            ("SLURM_JOB_CPUS_PER_NODE", "72(x2),3"),
            ("SLURM_CPUS_PER_TASK", "8"),
        ];
        assert_eq!(shown(&processors, ""), ("a:9,b1:9,b2".into(), AllocationSource::Slurm));
        let bare = [("SLURM_NNODES", "2"), ("SLURM_NODELIST", "a,b")];
        assert_eq!(shown(&bare, ""), ("a,b".into(), AllocationSource::Slurm));

        let pbs = [("PBS_NODEFILE", "f")];
        assert_eq!(shown(&pbs, "a\na\nb.x\na\n"), ("a:2,b.x,a".into(), AllocationSource::Pbs));
        let cobalt = [("COBALT_NODEFILE", "f")];
        assert_eq!(
            shown(&cobalt, "nid00001\nnid00002"),
            ("nid00001,nid00002".into(), AllocationSource::Cobalt)
        );
        let lsf = [("LSB_MCPU_HOSTS", "a 3 b 1 "), ("LSB_DJOB_HOSTFILE", "f")];
        assert_eq!(shown(&lsf, "x"), ("a:3,b".into(), AllocationSource::Lsf));
        assert_eq!(shown(&lsf[1..], "a\na\nb\n"), ("a:2,b".into(), AllocationSource::Lsf));
        let rows = "a.x 4 all.q@a.x UNDEFINED\nb.x 2 all.q@b.x <NULL>\na.x 1 two.q@a.x UNDEFINED\n";
        let engine = [("PE_HOSTFILE", "f")];
        assert_eq!(shown(&engine, rows), ("a.x:4,b.x:2,a.x".into(), AllocationSource::GridEngine));
        for name in OAR_FILES {
            let oar = [(name, "f")];
            assert_eq!(shown(&oar, "a.x\na.x\nb.x\n"), ("a.x:2,b.x".into(), AllocationSource::Oar));
        }
        assert_eq!(of(&[("HOME", "/")], ""), Ok(None));
    }

    // Coverage: SLURM-4
    #[test]
    fn step_of_slurm_has_the_nodes_and_processors_of_its_job() {
        let step = |more: &[(&str, &str)]| {
            let own = [
                ("SLURM_STEP_ID", "0"),
                ("SLURM_JOB_NUM_NODES", "2"),
                ("SLURM_NNODES", "1"),
                ("SLURM_JOB_NODELIST", "n[1-2]"),
                ("SLURM_TASKS_PER_NODE", "1"),
            ];
            shown(&[&own, more].concat(), "").0
        };
        assert_eq!(step(&[("SLURM_JOB_CPUS_PER_NODE", "5,1")]), "n1:5,n2");
        let by_task = [("SLURM_JOB_CPUS_PER_NODE", "8(x2)"), ("SLURM_CPUS_PER_TASK", "2")];
        assert_eq!(step(&by_task), "n1:4,n2:4");
        for unusable in ["3", "2(x3)", "many"] {
            assert_eq!(step(&[("SLURM_JOB_CPUS_PER_NODE", unusable)]), "n1,n2", "{unusable}");
        }
        assert_eq!(step(&[]), "n1,n2");
        let alone = [
            ("SLURM_STEP_ID", "0"),
            ("SLURM_NNODES", "1"),
            ("SLURM_JOB_CPUS_PER_NODE", "6"),
            ("SLURM_TASKS_PER_NODE", "1"),
        ];
        assert_eq!(shown(&alone, "").0, "localhost:6");
    }

    #[test]
    fn heterogeneous_job_of_slurm_has_the_hosts_of_its_components() {
        // As `sbatch` sets them; `salloc` leaves out those of the first component without a number.
        let job = [
            ("SLURM_HET_SIZE", "2"),
            ("SLURM_JOB_NUM_NODES", "1"),
            ("SLURM_JOB_NODELIST", "n1"),
            ("SLURM_TASKS_PER_NODE", "1"),
            ("SLURM_JOB_NUM_NODES_HET_GROUP_0", "1"),
            ("SLURM_JOB_NODELIST_HET_GROUP_0", "n1"),
            ("SLURM_TASKS_PER_NODE_HET_GROUP_0", "1"),
            ("SLURM_NNODES_HET_GROUP_1", "2"),
            ("SLURM_JOB_NODELIST_HET_GROUP_1", "n[2-3]"),
            ("SLURM_TASKS_PER_NODE_HET_GROUP_1", "3,1"),
        ];
        assert_eq!(shown(&job, ""), ("n1,n2:3,n3".into(), AllocationSource::Slurm));
        // Within a step, which has variables of its own.
        let step = [&job[..], &[("SLURM_STEP_ID", "0")]].concat();
        assert_eq!(shown(&step, "").0, "n1,n2:3,n3");
        let variable = |name: &str| {
            let found = job.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let by_number = hosts_by_component(&variable);
        let by_number: Vec<(&str, u32)> =
            by_number.iter().map(|(host, number)| (host.as_str(), *number)).collect();
        assert_eq!(by_number, [("n1", 0), ("n2", 1), ("n3", 1)]);
        let of_all = of;
        let of = |numbers: &[u32]| {
            of_components(numbers, &variable).map(|allocation| allocation.hosts.to_string())
        };
        assert_eq!(of(&[1]).as_deref(), Ok("n2:3,n3"));
        assert_eq!(of(&[0, 1]).as_deref(), Ok("n1,n2:3,n3"));
        assert!(of(&[2]).unwrap_err().contains("no component 2; they are 0-1"));
        assert!(of_components(&[0], &|_| None).unwrap_err().contains("no heterogeneous job"));
        for size in ["3", "4000000000"] {
            let more = [&[("SLURM_HET_SIZE", size)], &job[1..]].concat();
            let why = of_all(&more, "").unwrap_err();
            assert!(why.contains("SLURM_JOB_NUM_NODES_HET_GROUP_2 is not set"), "{why}");
        }
        assert_eq!(hosts_by_component(&|_| None), []);
    }

    // Coverage: FLUX-1
    #[test]
    fn flux_tells_the_resources_of_the_job_or_of_the_instance() {
        let set = r#"{"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0-3"}}],
                     "nodelist":["n0"]}}"#;
        let asked = RefCell::new(String::new());
        for (id, command) in [(None, "flux kvs get resource.R"), (Some("f1"), "flux job info f1 R")]
        {
            let allocation = of_batch_system(&Surroundings {
                variable: &|name| match name {
                    "FLUX_URI" => Some("local:///x".into()),
                    "FLUX_JOB_ID" => id.map(str::to_owned),
                    // An outer batch system, which has started Flux.
                    _ => Some("1".into()),
                },
                read: &|_| Ok(String::new()),
                output: &|words| {
                    *asked.borrow_mut() = words.join(" ");
                    Ok(set.to_owned())
                },
            });
            let allocation = allocation.unwrap().expect("an allocation");
            assert_eq!(allocation.hosts.to_string(), "n0:4");
            assert_eq!(*asked.borrow(), command);
        }
        let failed = of_batch_system(&Surroundings {
            variable: &|name| (name == "FLUX_URI").then(String::new),
            read: &|_| Ok(String::new()),
            output: &|_| Err("'flux' cannot be started".to_owned()),
        });
        let why = failed.unwrap_err();
        assert!(why.contains("'flux' cannot be started; name the hosts"), "{why}");
    }

    // Coverage: ANY-1
    #[test]
    fn descriptions_that_cannot_be_used_are_named_with_a_remedy() {
        let nodes = ("SLURM_NNODES", "2");
        let list = ("SLURM_JOB_NODELIST", "n[1-2]");
        let megabyte = "n".repeat(1 << 20);
        let bracket = format!("n[{}1]", "0".repeat(1 << 20));
        for (variables, content, part) in [
            (&[nodes, list, ("SLURM_TASKS_PER_NODE", "2")][..], "", "2 nodes (n[1-2]), and"),
            (&[nodes, list, ("SLURM_TASKS_PER_NODE", "2(x3)")], "", "numbers for 3"),
            (&[nodes, list, ("SLURM_TASKS_PER_NODE", "2(x")], "", "2(x is not a list"),
            (&[nodes, list, ("SLURM_TASKS_PER_NODE", "2(x4000000000)")], "", "is not a list"),
            (&[nodes, list, ("SLURM_TASKS_PER_NODE", "9999999(x2)")], "", "is not a list"),
            (&[nodes, list, ("SLURM_TASKS_PER_NODE", "0(x2)")], "", "is not a list"),
            (&[nodes, ("SLURM_JOB_NODELIST", "n[1-")], "", "bracket"),
            (&[nodes, ("SLURM_JOB_NODELIST", "n[0-4000000000]")], "", "131072 hosts"),
            (&[nodes], "", "it is not set"),
            (&[("SLURM_NNODES", "0")], "", "not a number of nodes"),
            (&[("SLURM_NNODES", "4000000000")], "", "not a number of nodes"),
            (&[("PBS_NODEFILE", "/no/f")], "", "PBS_NODEFILE: it names '/no/f', which cannot"),
            (&[("OAR_FILE_NODES", "f")], "a b\n", "OAR_FILE_NODES: line 1: 'b' after a host"),
            (&[("PBS_NODEFILE", "f")], "-x\n", "not the name of a host"),
            (&[("LSB_MCPU_HOSTS", "a 3 b")], "", "no number behind 'b'"),
            (&[("LSB_MCPU_HOSTS", "a x")], "", "'x' is not a number"),
            (&[("LSB_MCPU_HOSTS", " ")], "", "names no host"),
            (&[("PE_HOSTFILE", "f")], "a\n", "no number behind 'a'"),
            (&[("FLUX_URI", "u")], "{}", "resource set"),
            (&[("PBS_NODEFILE", "f")], &megabyte, "line 1: a name has more than 511 bytes"),
            (&[("PE_HOSTFILE", "f")], &megabyte, "no number behind 'nnn"),
            (&[("PE_HOSTFILE", "f")], "\0\u{1b}[31m 1\n", "is not the name of a host"),
            (&[("FLUX_URI", "u")], &megabyte, "resource set"),
            (&[nodes, ("SLURM_JOB_NODELIST", &megabyte)], "", "a name has more than 511 bytes"),
            (&[nodes, ("SLURM_JOB_NODELIST", &bracket)], "", "is not a range of numbers"),
            (&[nodes, list, ("SLURM_TASKS_PER_NODE", &megabyte)], "", "is not a list of numbers"),
            (&[("SLURM_NNODES", &megabyte)], "", "is not a number of nodes"),
            (&[("LSB_MCPU_HOSTS", &format!("a {megabyte}"))], "", "is not a number of ranks"),
        ] {
            let why = of(variables, content).expect_err(part);
            assert!(why.contains(part) && why.contains("--no-allocation"), "{why}");
            assert!(why.len() < 1000, "{}", why.len());
        }
    }

    // Coverage: ANY-2
    #[test]
    fn first_of_several_systems_decides_and_no_other_one_is_tried() {
        let all = [
            ("FLUX_URI", "u"),
            ("SLURM_NNODES", "1"),
            ("PBS_NODEFILE", "f"),
            ("COBALT_NODEFILE", "f"),
            ("LSB_MCPU_HOSTS", "l 1"),
            ("PE_HOSTFILE", "f"),
            ("OAR_NODEFILE", "f"),
        ];
        let sources = [
            AllocationSource::Slurm,
            AllocationSource::Pbs,
            AllocationSource::Cobalt,
            AllocationSource::Lsf,
            AllocationSource::GridEngine,
            AllocationSource::Oar,
        ];
        for (first, source) in (1..).zip(sources) {
            let content = if source == AllocationSource::GridEngine { "a 1" } else { "a" };
            assert_eq!(shown(&all[first..], content).1, source);
        }
        assert!(of(&all, "a").unwrap_err().starts_with("FLUX_URI: "));
        // An allocation that has ended: its file is removed.
        assert!(of(&all[2..], "").unwrap_err().starts_with("PBS_NODEFILE: "));
    }
}
