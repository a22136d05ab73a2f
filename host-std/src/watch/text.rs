//! A table as text for users.

use super::process::State;
use super::table::{Elsewhere, Job, JobNode, NodeLink, Phase, Rank, Table, Wait, WaitCondition};
use super::{cause, graph};
use crate::rank_sets;
use pmi_host_base::columns;
use pmi_host_base::ranges::Ranks;
use std::fmt::Write;

/// Selection of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    /// At most `ROWS_MAX`, to be read between other output.
    Few,
    /// All rows.
    All,
}

/// The whole table: a line for the launcher, then each job.
pub(crate) fn table(table: &Table, rows: Rows) -> String {
    let Table { pid, host, seconds, jobs, idle_nodes, .. } = table;
    let (began, jobs) = (time(*seconds), self::jobs(jobs, rows));
    format!("process {pid} on {host} runs for {began}:{jobs}{}", idle(idle_nodes))
}

/// Nodes without ranks; empty if there are none.
fn idle(nodes: &[JobNode]) -> String {
    let (lost, there): (Vec<&JobNode>, Vec<&JobNode>) =
        nodes.iter().partition(|node| node.link == NodeLink::Lost);
    let line = |what: &str, nodes: &[&JobNode]| match nodes {
        [] => String::new(),
        nodes => format!("\n  {what}: {}", hosts(nodes)),
    };
    line("nodes without ranks", &there) + &line("lost nodes without ranks", &lost)
}

/// All jobs, each on a line of its own.
pub(crate) fn jobs(jobs: &[Job], rows: Rows) -> String {
    let mut text = String::new();
    for job in jobs {
        let _ = write!(text, "\n  {}", headline(job));
        for sentence in sentences(job) {
            let _ = write!(text, "\n    {sentence}");
        }
        text.push_str(&ranks(jobs, job, rows));
        text.push_str(&nodes(job, rows));
    }
    text
}

/// Waiting ranks, one sentence for each operation, and the known state of the ranks they wait for.
pub(crate) fn standstill(table: &Table, lasts: f64) -> String {
    let mut text = format!("no progress for {}", time(lasts));
    let concerns = |job: &&Job| !job.waits.is_empty() || !job.ranks.is_empty();
    for job in table.jobs.iter().filter(concerns) {
        if job.waits.is_empty() {
            let _ = write!(
                text,
                "\n  in job {}, {} of {}:",
                job.name,
                counted(job.size.into(), "rank"),
                job.program
            );
        }
        for sentence in sentences(job) {
            let _ = write!(text, "\n  {sentence}");
        }
        text.push_str(&ranks(&table.jobs, job, Rows::Few));
    }
    text
}

/// Running ranks of `job` and its waits, each on a line of its own.
pub(crate) fn running_ranks(job: &Job) -> String {
    let verb = if job.running.count() == 1 { "runs" } else { "run" };
    let mut text = format!("\n  {} of {} still {verb}", job.running.named(), size(job));
    for sentence in sentences(job) {
        let _ = write!(text, "\n  {sentence}");
    }
    text
}

/// Waits of `job`, one sentence for each operation.
pub(crate) fn sentences(job: &Job) -> Vec<String> {
    let of_wait = |wait| std::iter::once(sentence(job, wait)).chain(nodes_in_fence(job, wait));
    let mut all: Vec<String> = job.waits.iter().flat_map(of_wait).collect();
    if job.more_waits > 0 {
        all.push(format!("{} more wait for other operations", job.more_waits));
    }
    let silent = job.nodes.iter().filter(|node| node.link == NodeLink::Silent);
    let silent = Vec::from_iter(silent);
    if let [first, ..] = silent[..] {
        let verb = if silent.len() == 1 { "does" } else { "do" };
        let ranks = rank_sets::union(silent.iter().map(|node| &node.ranks));
        let last = first.last_message_seconds.filter(|_| silent.len() == 1).map(time);
        let last = last.map(|ago| format!(" for {ago}")).unwrap_or_default();
        all.push(format!(
            "{} {verb} not answer{last}; the state of {} is unknown",
            hosts(&silent),
            ranks.named()
        ));
    }
    let paused = job.nodes.iter().filter(|node| node.link == NodeLink::Paused);
    let paused = Vec::from_iter(paused);
    if !paused.is_empty() {
        let verb = if paused.len() == 1 { "is" } else { "are" };
        let ranks = rank_sets::union(paused.iter().map(|node| &node.ranks));
        let longest = paused.iter().filter_map(|node| node.paused_seconds).reduce(f64::max);
        let since = longest.map(|lasts| format!(" since {}", time(lasts))).unwrap_or_default();
        all.push(format!(
            "{} {verb} paused{since}; the state of {} is unknown",
            hosts(&paused),
            ranks.named()
        ));
    }
    all
}

fn sentence(job: &Job, wait: &Wait) -> String {
    let Wait { what, inside, missing, elsewhere, .. } = wait;
    let verb = if inside.count() == 1 { "waits" } else { "wait" };
    let who = format!("{} of {} {verb}", inside.named(), size(job));
    let awaited = awaited(missing, elsewhere);
    match what {
        WaitCondition::Init { shared_memory } => {
            let (has, waits, is) = match inside.count() {
                1 => ("has", "waits", "is"),
                _ => ("have", "wait", "are"),
            };
            let of = format!("{} of {}", inside.named(), size(job));
            match shared_memory {
                true => format!("{of} {is} in init and {waits} in shared memory{awaited}"),
                false => format!(
                    "{of} {has} called init and may wait{awaited}; the system hides whether they share memory"
                ),
            }
        }
        WaitCondition::Fence(number) => format!("{who} in fence {number}{awaited}"),
        WaitCondition::GroupFence(tag) => {
            format!("{who} in a fence of some ranks with tag {tag}{awaited}")
        }
        WaitCondition::Ring(number) => format!("{who} in ring {number}{awaited}"),
        WaitCondition::Attribute(key) => {
            format!("{who} until a rank on the same node puts '{key}'")
        }
        WaitCondition::Spawn => format!("{who} for a requested job"),
        WaitCondition::Value { key, job, rank } => {
            let key = key.as_ref().map_or("anything".to_owned(), |key| format!("'{key}'"));
            let rank = rank.map_or("any rank".to_owned(), |rank| format!("rank {rank}"));
            let job = job.as_ref().map(|job| format!(" of job {job}")).unwrap_or_default();
            format!("{who} for {key} of {rank}{job}")
        }
        WaitCondition::ListedFence => format!("{who} in a fence of some ranks{awaited}"),
        WaitCondition::Connect(jobs) => format!("{who} in a connect with {}{awaited}", named(jobs)),
        WaitCondition::Disconnect(jobs) => {
            format!("{who} in a disconnect from {}{awaited}", named(jobs))
        }
        WaitCondition::GroupMade(name) => {
            format!("{who} in the construction of group '{name}'{awaited}")
        }
        WaitCondition::GroupEnd(name) => {
            format!("{who} in the destruction of group '{name}'{awaited}")
        }
        WaitCondition::Published(key) => format!("{who} until '{key}' is published"),
        WaitCondition::Message => {
            format!("{who} for the answer to a message that lacks its end")
        }
    }
}

/// Nodes that have entered the fence of a job, if it has several.
fn nodes_in_fence(job: &Job, wait: &Wait) -> Option<String> {
    let WaitCondition::Fence(number) = wait.what else { return None };
    let (inside, outside) = job.nodes_inside(wait);
    let verb = if inside.len() == 1 { "has" } else { "have" };
    let entered = format!("{} of {} nodes {verb} entered", inside.len(), job.nodes.len());
    match &outside[..] {
        [] => None,
        outside => Some(format!("fence {number}: {entered}; missing: {}", hosts(outside))),
    }
}

/// Names of the hosts of nodes, as a list.
fn hosts(nodes: &[&JobNode]) -> String {
    let mut names = Vec::from_iter(nodes.iter().take(HOSTS_MAX).map(|node| &*node.host));
    let more = format!("{} more", nodes.len().saturating_sub(HOSTS_MAX));
    if nodes.len() > HOSTS_MAX {
        names.push(&more);
    }
    match names.split_last() {
        Some((last, rest @ [_, ..])) => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// Ranks that are waited for, as the end of a sentence; empty if unknown.
fn awaited(missing: &Ranks, elsewhere: &[Elsewhere]) -> String {
    let here = (!missing.is_empty()).then(|| missing.named());
    let there = elsewhere.iter().map(|there| format!("{} of {}", there.ranks.named(), there.job));
    let all = Vec::from_iter(here.into_iter().chain(there));
    if all.is_empty() { String::new() } else { format!(" for {}", all.join(" and ")) }
}

/// Names of jobs, as a list.
fn named(jobs: &[String]) -> String {
    match jobs {
        [] => "each other".to_owned(),
        [job] => format!("job {job}"),
        jobs => format!("jobs {}", jobs.join(" and ")),
    }
}

fn headline(job: &Job) -> String {
    let Job { name, program, running, fences, messages, .. } = job;
    let run = match running.count() {
        0 => "none runs".to_owned(),
        all if all == u64::from(job.size) => "all run".to_owned(),
        1 => format!("{} runs", running.named()),
        _ => format!("{} run", running.named()),
    };
    let spawned = job.spawner.as_ref().map(|by| format!(", spawned by {by}")).unwrap_or_default();
    let on = match job.nodes.len() {
        0 => String::new(),
        count => format!(" on {}", counted(u64::try_from(count).unwrap_or(u64::MAX), "node")),
    };
    format!(
        "job {name}{spawned}: {} of {program}{on}, {run}; {}, {}",
        counted(job.size.into(), "rank"),
        counted((*fences).into(), "fence"),
        counted(*messages, "message")
    )
}

/// Ranks of `job`, one of `jobs`, as a table with headings, and sentences about those at which waits end.
fn ranks(jobs: &[Job], job: &Job, rows: Rows) -> String {
    let shown = match rows {
        Rows::Few => job.ranks.len().min(ROWS_MAX),
        Rows::All => job.ranks.len(),
    };
    if shown == 0 {
        return String::new();
    }
    let mut lines = vec![NAMES.map(str::to_owned)];
    lines.extend(job.ranks.iter().take(shown).map(|rank| cells(job, rank)));
    let mut text = String::new();
    for line in columns::lines(&lines, IS_NUMBER) {
        let _ = write!(text, "\n    {line}");
    }
    let omitted = u64::try_from(job.ranks.len().saturating_sub(shown)).unwrap_or(u64::MAX);
    if let more @ 1.. = omitted.saturating_add(job.more_ranks) {
        let _ = write!(text, "\n    and {more} more; 'pmi-host ps' shows all");
    }
    for sentence in cause::sentences(job, &graph::ends(jobs, job), shown) {
        let _ = write!(text, "\n    {sentence}");
    }
    let stopped = |rank: &&Rank| rank.state == Some(State::Stopped);
    if let Some(pid) = job.ranks.iter().find(stopped).and_then(|rank| rank.pid) {
        let _ = write!(text, "\n    a stopped process continues after 'kill -CONT {pid}'");
    }
    let hidden =
        |rank: &Rank| rank.state.is_none() && rank.pid.is_some() && rank.phase != Phase::Ended;
    if job.ranks.iter().all(hidden) {
        text.push_str("\n    the state of these processes cannot be read (/proc)");
    }
    text
}

/// Nodes of `job`, as a table with headings; empty if it has one.
fn nodes(job: &Job, rows: Rows) -> String {
    let shown = match rows {
        Rows::Few => job.nodes.len().min(ROWS_MAX),
        Rows::All => job.nodes.len(),
    };
    if shown == 0 {
        return String::new();
    }
    let mut lines = vec![["node", "ranks", "running", "last message"].map(str::to_owned)];
    lines.extend(job.nodes.iter().take(shown).map(|node| node_cells(job, node)));
    let mut text = String::new();
    for line in columns::lines(&lines, [false; 4]) {
        let _ = write!(text, "\n    {line}");
    }
    if let Some(more @ 1..) = job.nodes.len().checked_sub(shown) {
        let _ = write!(text, "\n    and {more} more nodes; 'pmi-host ps' shows all");
    }
    text
}

fn node_cells(job: &Job, node: &JobNode) -> [String; 4] {
    let running = rank_sets::common(&node.ranks, &job.running);
    let running = match node.link {
        NodeLink::Starting => "starting".to_owned(),
        NodeLink::Lost => "lost".to_owned(),
        NodeLink::Paused => "paused".to_owned(),
        _ if running.is_empty() => "none".to_owned(),
        _ if running == node.ranks => "all".to_owned(),
        _ => running.to_string(),
    };
    let last = node.last_message_seconds.map(|ago| format!("{} ago", time(ago)));
    [node.host.clone(), node.ranks.to_string(), running, last.unwrap_or_else(unknown)]
}

const COLUMNS: usize = 10;
const NAMES: [&str; COLUMNS] =
    ["rank", "pid", "host", "state", "kernel wait", "cpu s", "new", "PMI", "sent", "last message"];
const IS_NUMBER: [bool; COLUMNS] =
    [true, true, false, false, false, true, true, false, true, false];

fn cells(job: &Job, rank: &Rank) -> [String; COLUMNS] {
    let number = |value: Option<f64>| value.map_or_else(unknown, |value| format!("{value:.2}"));
    let last = match (&rank.last_message, rank.last_message_seconds) {
        (Some(word), Some(ago)) => {
            let verb = if rank.last_message_is_answer { "got" } else { "sent" };
            format!("{verb} {word} {} ago", time(ago))
        }
        _ => "none".to_owned(),
    };
    [
        rank.rank.to_string(),
        rank.pid.map_or_else(unknown, |pid| pid.to_string()),
        rank.host.clone().unwrap_or_else(unknown),
        rank.state.map_or_else(unknown, |state| state.text().to_owned()),
        rank.kernel_wait.clone().unwrap_or_else(unknown),
        number(rank.cpu_seconds),
        number(rank.cpu_seconds_new),
        phase(job, rank),
        rank.messages.to_string(),
        last,
    ]
}

fn phase(job: &Job, rank: &Rank) -> String {
    let waits: Vec<String> = job.waits_of(rank.rank).map(place).collect();
    match rank.phase {
        Phase::Open if !waits.is_empty() => waits.join(", "),
        Phase::Open => "init done".to_owned(),
        Phase::Absent => "not connected".to_owned(),
        Phase::Silent => "before init".to_owned(),
        Phase::Finalized => "finalized".to_owned(),
        Phase::Ended => "ended".to_owned(),
    }
}

fn place(what: &WaitCondition) -> String {
    match what {
        WaitCondition::Init { .. } => "in init".to_owned(),
        WaitCondition::Fence(number) => format!("in fence {number}"),
        WaitCondition::GroupFence(_) => "in a fence of some".to_owned(),
        WaitCondition::Ring(number) => format!("in ring {number}"),
        WaitCondition::Attribute(_) => "in a get".to_owned(),
        WaitCondition::Spawn => "in a spawn".to_owned(),
        WaitCondition::Value { .. } => "in a get".to_owned(),
        WaitCondition::ListedFence => "in a fence of some".to_owned(),
        WaitCondition::Connect(_) => "in a connect".to_owned(),
        WaitCondition::Disconnect(_) => "in a disconnect".to_owned(),
        WaitCondition::GroupMade(_) | WaitCondition::GroupEnd(_) => "in a group".to_owned(),
        WaitCondition::Published(_) => "in a lookup".to_owned(),
        WaitCondition::Message => "in a message".to_owned(),
    }
}

fn size(job: &Job) -> String {
    match job.spawner {
        None => job.size.to_string(),
        Some(_) => format!("{} in the spawned job {}", job.size, job.name),
    }
}

fn counted(count: u64, what: &str) -> String {
    let many = if count == 1 { "" } else { "s" };
    format!("{count} {what}{many}")
}

fn unknown() -> String {
    "-".to_owned()
}

/// A duration in the unit that suits its size.
pub(super) fn time(seconds: f64) -> String {
    match seconds {
        ..1.0 => format!("{:.0} ms", seconds * 1000.0),
        ..120.0 => format!("{:.0} s", seconds.floor()),
        ..7200.0 => format!("{:.0} min", (seconds / 60.0).floor()),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

/// More would bury the output of the ranks.
pub(crate) const ROWS_MAX: usize = 16;

/// Number of hosts that a sentence names.
const HOSTS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::table::tests;

    #[test]
    fn standstill_names_who_waits_and_who_is_waited_for() {
        assert_eq!(
            standstill(&tests::table(), 10.5),
            "no progress for 10 s
  ranks 0-2 of 4 wait in fence 0 for rank 3
    rank   pid  host   state    kernel wait     cpu s   new  PMI          sent  last message
       3  4711  node1  stopped  do_signal_stop   0.03  0.00  before init     0  none
    a stopped process continues after 'kill -CONT 4711'"
        );
    }

    #[test]
    fn nodes_that_wait_and_nodes_that_do_not_answer_are_named() {
        let nodes = tests::table_over_nodes();
        let text = standstill(&nodes, 10.5);
        let lines = Vec::from_iter(text.lines());
        assert_eq!(
            lines[1..4],
            [
                "  ranks 0-2 of 4 wait in fence 0 for rank 3",
                "  fence 0: 1 of 2 nodes has entered; missing: node2",
                "  node2 does not answer for 3 s; the state of ranks 2,3 is unknown",
            ]
        );
        let text = table(&nodes, Rows::All);
        assert!(text.contains("4 ranks of ./a.out on 2 nodes, all run; "), "{text}");
        let lines = Vec::from_iter(text.lines());
        assert_eq!(
            lines[lines.len() - 5..],
            [
                "    node   ranks  running  last message",
                "    node1  0,1    all      0 ms ago",
                "    node2  2,3    all      3 s ago",
                "  nodes without ranks: node3",
                "  lost nodes without ranks: node4",
            ]
        );
    }

    #[test]
    fn requests_of_waiting_pmix_clients_are_named() {
        let mut job = tests::table().jobs.remove(0);
        let report = |what, missing: &[u32], elsewhere: &[(&str, u32)]| {
            let there = |(job, rank): &(&str, u32)| Elsewhere {
                job: (*job).to_owned(),
                ranks: [*rank].into_iter().collect(),
            };
            job.waits[0].what = what;
            job.waits[0].missing = missing.iter().copied().collect();
            job.waits[0].elsewhere = elsewhere.iter().map(there).collect();
            sentences(&job).remove(0)
        };
        let mut report = report;
        let value = |key: Option<&str>, job: Option<&str>, rank| WaitCondition::Value {
            key: key.map(str::to_owned),
            job: job.map(str::to_owned),
            rank,
        };
        let who = "ranks 0-2 of 4 wait";
        let text = report(value(Some("card"), None, Some(3)), &[3], &[]);
        assert_eq!(text, format!("{who} for 'card' of rank 3"));
        let text = report(value(None, Some("kvs_9_1"), Some(0)), &[], &[("kvs_9_1", 0)]);
        assert_eq!(text, format!("{who} for anything of rank 0 of job kvs_9_1"));
        let text = report(value(Some("card"), None, None), &[], &[]);
        assert_eq!(text, format!("{who} for 'card' of any rank"));
        let text = report(WaitCondition::ListedFence, &[3], &[]);
        assert_eq!(text, format!("{who} in a fence of some ranks for rank 3"));
        let jobs = vec!["kvs_9_1".to_owned()];
        let text = report(WaitCondition::Connect(jobs.clone()), &[3], &[("kvs_9_1", 0)]);
        assert_eq!(
            text,
            format!("{who} in a connect with job kvs_9_1 for rank 3 and rank 0 of kvs_9_1")
        );
        let text = report(WaitCondition::Disconnect(jobs), &[], &[]);
        assert_eq!(text, format!("{who} in a disconnect from job kvs_9_1"));
        let text = report(WaitCondition::GroupMade("even".to_owned()), &[3], &[]);
        assert_eq!(text, format!("{who} in the construction of group 'even' for rank 3"));
        let text = report(WaitCondition::GroupEnd("even".to_owned()), &[3], &[("kvs_9_1", 0)]);
        assert_eq!(
            text,
            format!("{who} in the destruction of group 'even' for rank 3 and rank 0 of kvs_9_1")
        );
        let text = report(WaitCondition::Published("ocean".to_owned()), &[], &[]);
        assert_eq!(text, format!("{who} until 'ocean' is published"));
    }

    #[test]
    fn ranks_of_another_job_that_are_waited_for_have_a_table_of_their_own() {
        let mut table = tests::table();
        let mut other = table.jobs[0].clone();
        (other.name, other.waits) = ("kvs_9_1".to_owned(), Vec::new());
        table.jobs[0].ranks.clear();
        table.jobs[0].waits[0].elsewhere =
            vec![Elsewhere { job: other.name.clone(), ranks: [3].into_iter().collect() }];
        assert_eq!(Vec::from_iter(other.missing_in(&table.jobs[0])).len(), 1);
        table.jobs.push(other);
        let text = standstill(&table, 10.5);
        let lines = Vec::from_iter(text.lines());
        assert_eq!(lines[1], "  ranks 0-2 of 4 wait in fence 0 for rank 3 and rank 3 of kvs_9_1");
        assert_eq!(lines[2], "  in job kvs_9_1, 4 ranks of ./a.out:");
        assert!(lines[4].contains("do_signal_stop"), "{text}");
    }

    #[test]
    fn table_has_a_line_for_each_job() {
        let text = table(&tests::table(), Rows::All);
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("process 9 on node1 runs for 11 s:"));
        let job = "  job kvs_9_0: 4 ranks of ./a.out, all run; 0 fences, 6 messages";
        assert_eq!(lines.next(), Some(job));
        assert_eq!(lines.next(), Some("    ranks 0-2 of 4 wait in fence 0 for rank 3"));
        assert_eq!(lines.count(), 3);
    }

    #[test]
    fn long_tables_are_cut_between_other_output_and_nowhere_else() {
        let mut long = tests::table();
        let row = long.jobs[0].ranks[0].clone();
        long.jobs[0].ranks = vec![row; ROWS_MAX + 5];
        assert!(standstill(&long, 1.0).contains("\n    and 5 more; 'pmi-host ps' shows all\n"));
        assert_eq!(table(&long, Rows::All).matches("do_signal_stop").count(), ROWS_MAX + 5);
    }

    #[test]
    fn states_that_the_system_hides_are_reported_once() {
        let mut hidden = tests::table();
        hidden.jobs[0].ranks[0].state = None;
        assert!(standstill(&hidden, 1.0).ends_with("cannot be read (/proc)"));
    }

    #[test]
    fn times_are_said_as_people_say_them() {
        let said = [0.25, 9.99, 119.0, 600.0, 7200.0].map(time);
        assert_eq!(said, ["250 ms", "9 s", "119 s", "10 min", "2.0 h"]);
    }
}
