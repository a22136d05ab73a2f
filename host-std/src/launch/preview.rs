//! Description of a job for users, without starting it.

use crate::launch::environment::rank_variables::{self, EnvChange};
use crate::launch::plan::job::{App, JobSpec, Plan, PmixEndpoint};
use crate::launch::plan::pmix_store;
use crate::launch::plan::program_environment::{Inherited, Variable};
use crate::launch::topology::binding::{allowed, shown};
use crate::launch::topology::resources::OwnResources;
use crate::placement::PlacedHosts;
use crate::settings::placement::{BindTo, Display, MapBy};
use pmi_core::error::Full;
use pmi_core::limits::PMI1_MAX_VALLEN;
use pmi_core::wire::mapping::write_mapping;
use pmi_host_base::columns;
use pmi_host_base::ranges::Ranks;
use pmi_host_hardware::display::{self, PlacedRank};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;

/// Ranks, node, processors, directories and programs, and the differences of their environment from the
/// launcher's.
pub(crate) fn of(spec: JobSpec<'_>, ours: impl Iterator<Item = (OsString, OsString)>) -> String {
    match spec.hosts {
        None if spec.places.places.is_some() => {
            map(spec) + "\n" + &display(spec, Display::Table) + "\n" + &environment(spec, ours)
        }
        None => map(spec) + "\n" + &environment(spec, ours),
        // The environment of other hosts is unknown here.
        Some(_) => map(spec),
    }
}

/// Differences of the environment of ranks from the launcher's, with reasons: `+` for added or changed
/// variables, `-` for removed ones; on several hosts, `=` for those that hosts may have a value of their own
/// for. Variables that differ from rank to rank are shown for the first of each program.
pub(crate) fn environment(
    spec: JobSpec<'_>,
    ours: impl Iterator<Item = (OsString, OsString)>,
) -> String {
    let pid = std::process::id();
    let mut plan = Plan::first(spec, None);
    if spec.hosts.is_none() {
        plan.assign_processors(&OwnResources::default());
        plan.note_idle_processors();
    }
    // The port is unknown until it is open.
    plan.pmix = plan.has_pmix().then(|| {
        let has_store = plan.has_pmix_store() && pmix_store::is_possible();
        let store = has_store.then(|| PathBuf::from("DIRECTORY"));
        PmixEndpoint { store, ..PmixEndpoint::new(pid, "127.0.0.1:PORT") }
    });
    let ours: Vec<(OsString, OsString)> = ours.collect();
    let mut text = String::new();
    let mut first = 0;
    for (number, part) in plan.parts.iter().enumerate() {
        let offer = plan.offer(number);
        let _ = writeln!(text, "environment of {}, which {offer}:", span(first, part.ranks));
        for EnvChange { name, value, why } in rank_variables::changes(&plan, number, first, &ours) {
            let shown = match value {
                Some(value) => format!("+ {}={}", name.display(), value.display()),
                None => format!("- {}", name.display()),
            };
            let _ = writeln!(text, "  {shown:<36}  {why}");
        }
        if spec.hosts.is_some() {
            let inherited = Inherited::of_head(ours.iter().cloned());
            for Variable { name, value, .. } in
                rank_variables::where_node_has_none(&plan, part, inherited)
            {
                let shown = format!("= {}={}", name.display(), value.display());
                let _ = writeln!(
                    text,
                    "  {shown:<36}  of this host, on hosts without a value of their own"
                );
            }
        }
        first += part.ranks;
    }
    text
}

/// Places of the ranks, with memory and devices if options assign any.
pub(crate) fn display(spec: JobSpec<'_>, form: Display) -> String {
    let Some(places) = &spec.places.places else { return map(spec) };
    let place = |rank| {
        let (host, hardware, place) = (spec.host, places.hardware(), places.of(rank)?.clone());
        Some(PlacedRank { rank, host, hardware, place })
    };
    let ranks: Vec<PlacedRank<'_>> = (0..spec.ranks).map_while(place).collect();
    match form {
        Display::Table => {
            let started = spec.parts.iter().map(|part| part.ranks).sum();
            let shared = spec.places.binding.as_ref().and_then(|all| all.shared(started));
            display::table(&ranks) + &shared.map(|text| text + "\n").unwrap_or_default()
        }
        Display::Picture => display::svg(&ranks),
    }
}

/// Ranks, node, processors, directories and programs.
fn map(spec: JobSpec<'_>) -> String {
    if let Some(hosts) = spec.hosts {
        return map_of_hosts(spec, hosts);
    }
    let plan = Plan::first(spec, None);
    // Empty if the system does not list the processors.
    let usable = allowed().unwrap_or_default();
    let mut rows = Vec::new();
    let mut first = 0;
    for part in &plan.parts {
        let directory = directory(part);
        let end = first + part.ranks;
        while first < end {
            let (ranks, processors) = alike(&plan, first, end, &usable);
            let row =
                [span(first, ranks), plan.host.clone(), processors, directory.clone(), words(part)];
            rows.push(row);
            first += ranks;
        }
    }
    if plan.ranks > first {
        let unknown = || "-".to_owned();
        let connected = span(first, plan.ranks - first);
        rows.push([connected, unknown(), unknown(), unknown(), "(connects over TCP)".to_owned()]);
    }
    let mut text = table(rows);
    let shared = match &plan.placement.binding {
        Some(binding) => binding.shared(first),
        None => (usize::try_from(first).is_ok_and(|ranks| ranks > usable.len())).then(|| {
            format!(
                "{first} ranks are on {} processors: all ranks run, but not at the same time",
                usable.len()
            )
        }),
    };
    if let Some(shared) = shared {
        let _ = writeln!(text, "{shared}");
    }
    text
}

/// Lines of a table of ranks, node, processors, directory and program.
fn table(mut rows: Vec<[String; 5]>) -> String {
    rows.insert(0, ["ranks", "node", "processors", "directory", "program"].map(str::to_owned));
    let mut text = String::new();
    for line in columns::lines(&rows, [false; 5]) {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Ranks of each program on each host, and the process mapping that ranks read.
fn map_of_hosts(spec: JobSpec<'_>, hosts: &PlacedHosts) -> String {
    let mut rows = Vec::new();
    let processors = match (&spec.settings.placement.bind_to, spec.settings.placement.map_by) {
        (BindTo::Nothing, None | Some(MapBy::Units(_))) => "any",
        _ => "bound there",
    };
    let mut first = 0;
    for part in spec.parts {
        let end = first + part.ranks;
        let mut by_node: BTreeMap<u32, Ranks> = BTreeMap::new();
        for rank in first..end {
            let node = hosts.map.node_of(rank);
            node.into_iter().for_each(|node| by_node.entry(node).or_default().push(rank));
        }
        for (node, ranks) in by_node {
            let [ranks, host] = [ranks.to_string(), hosts.name(node).to_owned()];
            rows.push([ranks, host, processors.to_owned(), directory(part), words(part)]);
        }
        first = end;
    }
    let mut text = table(rows);
    let counts = (0..hosts.map.nodes()).map(|node| hosts.map.count_on(node));
    let most = counts.max().unwrap_or_default();
    let (all, nodes) = (hosts.map.ranks(), hosts.map.nodes());
    let _ = write!(text, "{all} ranks on {nodes} nodes, at most {most} on each; ");
    let mut mapping = [0; PMI1_MAX_VALLEN - 1];
    // The nodes of ranks that connect follow those of the hosts.
    let expected = spec.settings.job.expected.clone().unwrap_or_default();
    let started = usize::try_from(first).unwrap_or(usize::MAX);
    let others = (0..).take(usize::try_from(all - first).unwrap_or_default());
    let labels = others.map(|number: u32| expected.node_of(number).saturating_add(nodes));
    let by_rank = hosts.map.nodes_by_rank().take(started).chain(labels);
    let _ = match write_mapping(by_rank, &mut mapping) {
        Ok(len) => {
            writeln!(text, "PMI_process_mapping: {}", String::from_utf8_lossy(&mapping[..len]))
        }
        Err(Full { needed }) => writeln!(
            text,
            "PMI_process_mapping would have {needed} bytes, and a value of PMI-1 has {} at most, so \
             MPI libraries exchange the names of hosts instead",
            mapping.len()
        ),
    };
    text
}

/// Working directory of a program.
fn directory(part: &App) -> String {
    let directory = part.program.directory.as_ref();
    directory.map_or(".".to_owned(), |directory| directory.display().to_string())
}

/// Number of ranks from `first` on, before `end`, that run on the same processors, and those processors.
fn alike(plan: &Plan, first: u32, end: u32, usable: &[u32]) -> (u32, String) {
    let Some(binding) = &plan.placement.binding else {
        return (end - first, format!("any of {}", shown(usable)));
    };
    let set = binding.of(first);
    let count = (first..end).take_while(|rank| binding.of(*rank) == set).count();
    (u32::try_from(count).unwrap_or(u32::MAX), shown(set))
}

/// The ranks of a part.
fn span(first: u32, ranks: u32) -> String {
    match ranks {
        1 => first.to_string(),
        _ => format!("{first}-{}", first + ranks - 1),
    }
}

/// Command line in shell syntax.
fn words(part: &App) -> String {
    let words = std::iter::once(part.program.path.as_os_str());
    let words = words.chain(part.program.args.iter().map(OsString::as_os_str));
    let quoted = words.map(|word| {
        let word = word.to_string_lossy();
        let plain = |sign: char| sign.is_alphanumeric() || "-_./=:,+@%".contains(sign);
        match !word.is_empty() && word.chars().all(plain) {
            true => word.into_owned(),
            false => format!("'{}'", word.replace('\'', "'\\''")),
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}
