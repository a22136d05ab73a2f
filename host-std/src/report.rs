//! All messages of this program. Each is one line on standard error, names the affected component and
//! host, and gives the remedy if there is one.

use crate::launch::environment::singletons::MpiSingleton;
use crate::launch::plan::job::{Endpoint, Plan};
use crate::launch::signal;
use crate::launch::start::gdb::HeldRank;
use crate::launch::start::process::ProcessEnd;
use crate::rank_sets;
use crate::verdict::{Failure, NodeLoss, PmiPhase, SilentNode};
use pmi_core::wire::pmix::names::Status;
use pmi_host_base::library::{Family, Library};
use pmi_host_base::ranges::Ranks;
use pmi_host_os::refusal;
use pmi_std::env::PIN_VARIABLE;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Cause of the failure of a job. `pid` gives the process of a rank that was started; `running` is the
/// number of ranks that still run and are now terminated.
pub(crate) fn failure(
    about: &Failure,
    plan: &Plan,
    pid: impl Fn(u32) -> Option<i32>,
    running: usize,
) -> String {
    let who = |rank: &u32| match *rank < plan.started() {
        true => local_rank(plan, *rank, pid(*rank)),
        false => format!("rank {rank} of {} (connected over TCP)", size(plan)),
    };
    let what = match about {
        Failure::Interrupted { signal: number } => return interrupted(*number, running),
        Failure::AgentInterrupted { host, signal: number } => {
            return agent_interrupted(host, *number, running);
        }
        Failure::Start { rank, why, .. } => format!("{} could not be started: {why}", who(rank)),
        Failure::Ended { rank, ending, phase } => {
            let hint = closed_descriptor_hint(plan, *rank, (*ending, *phase));
            format!("{} {}{hint}", who(rank), ended(*ending, *phase))
        }
        Failure::LeftEarly { rank } => format!(
            "{} exited with 0 but without finalize; an MPI program must call MPI_Finalize first",
            who(rank)
        ),
        Failure::Disconnected { rank } => {
            format!("{} closed its PMI connection without finalize and still runs", who(rank))
        }
        Failure::Vanished { rank, from } => format!(
            "rank {rank} of {} (connected from {from}) disconnected before finalize",
            size(plan)
        ),
        Failure::Nonsense { rank, why } => format!("{} {why}", who(rank)),
        Failure::Abort { rank, code, message } if message.is_empty() => {
            format!("{} called abort with code {code}", who(rank))
        }
        Failure::Abort { rank, code, message } => {
            format!("{} called abort with code {code} and message '{message}'", who(rank))
        }
        Failure::Missing { gone, gone_count, waiting_count } => format!(
            "{} of {} ({} on {}) exited without taking part in the fence that {} in; either all \
             ranks call MPI_Init and MPI_Finalize, or none",
            ranks(gone, *gone_count),
            size(plan),
            plan.program_names(),
            gone.first().map_or(&*plan.host, |rank| plan.host_of(*rank)),
            if *waiting_count == 1 {
                "1 rank waits".into()
            } else {
                format!("{waiting_count} ranks wait")
            },
        ),
        Failure::TimedOut { limit } => {
            format!("the run has reached its time limit of {} s (--timeout)", limit.as_secs_f64())
        }
        Failure::Stalled { limit } => {
            format!("no progress for {} s (--stall-abort)", limit.as_secs_f64())
        }
        Failure::Overdue { limit } => format!(
            "the first rank exited with code 0 {} s ago and others still run (--exit-timeout)",
            limit.as_secs_f64()
        ),
        Failure::Singletons => format!("all ranks of {} ran without this launcher", size(plan)),
        Failure::NodeLost(loss) => node_lost(loss, plan),
        Failure::Launcher { what } | Failure::Impossible { what } => what.clone(),
    };
    match running {
        0 => what,
        1 => format!("{what}; the 1 rank still running is terminated"),
        _ => format!("{what}; the {running} ranks still running are terminated"),
    }
}

/// Cause of the failure of a job that has lost a node.
fn node_lost(loss: &NodeLoss, plan: &Plan) -> String {
    let NodeLoss { host, ranks, silent_for, why, output } = loss;
    let seconds = silent_for.as_secs_f64();
    let mut text = format!(
        "node {host} ({} of {}) is lost: {why}; its last message came {seconds:.1} s ago",
        ranks.named(),
        size(plan)
    );
    if !output.is_empty() {
        text.push_str(&format!("; its starter wrote '{}'", output.replace('\n', " / ")));
    }
    text
}

/// Report on nodes that are stopped, of a run whose first job has `size` ranks; `None` if there are none.
pub(crate) fn paused(nodes: &[SilentNode], size: u32) -> Option<String> {
    let first = nodes.first()?;
    let ranks = rank_sets::union(nodes.iter().map(|node| &node.ranks)).named();
    let lasts = nodes.iter().map(|node| node.lasts).max()?.as_secs();
    let (who, silent, until) = match nodes.len() {
        1 => (
            format!("node {} is", first.host),
            "its host answers, and its node server does not",
            "it, and the run waits until it continues",
        ),
        _ => (
            format!("nodes {} are", hosts(nodes)),
            "their hosts answer, and their node servers do not",
            "them, and the run waits until they continue",
        ),
    };
    Some(format!(
        "{who} paused since {lasts} s ({ranks} of {size}): {silent}; a signal or the batch system has \
         stopped {until}"
    ))
}

/// Report on nodes that are silent with their hosts and lost after a silence of `limit`, of a run whose
/// first job has `size` ranks; `None` if there are none.
pub(crate) fn cut_off(nodes: &[SilentNode], size: u32, limit: Duration) -> Option<String> {
    let ranks = rank_sets::union(nodes.iter().map(|node| &node.ranks)).named();
    let lasts = nodes.iter().map(|node| node.lasts).max()?.as_secs();
    let (which, silent, lost) = match nodes.len() {
        1 => ("node", "does not answer, nor does its host,", "it is"),
        _ => ("nodes", "do not answer, nor do their hosts,", "they are"),
    };
    Some(format!(
        "{which} {} ({ranks} of {size}) {silent} since {lasts} s; after {} s {lost} lost",
        hosts(nodes),
        limit.as_secs()
    ))
}

/// Table of the variables that hosts decide, each with its values and their hosts.
pub(crate) fn variables_of_hosts(of_hosts: &[(String, Vec<(OsString, OsString)>)]) -> String {
    let mut found: BTreeMap<&OsStr, BTreeMap<&OsStr, Vec<&str>>> = BTreeMap::new();
    for (host, variables) in of_hosts {
        for (name, value) in variables {
            found.entry(name).or_default().entry(value).or_default().push(host);
        }
    }
    if found.is_empty() {
        return "no host has a value of its own for a variable of the environment".to_owned();
    }
    let mut text = "variables of the environment that hosts decide:".to_owned();
    for (name, values) in found {
        for (value, hosts) in values.iter().take(HOSTS_SHOWN) {
            let shown = format!("= {}={}", name.display(), value.display());
            text.push_str(&format!("\n  {shown:<36}  of {}", listed(hosts)));
        }
        if let Some(more) = values.len().checked_sub(HOSTS_SHOWN).filter(|more| *more > 0) {
            text.push_str(&format!("\n  = {} has {more} more values", name.display()));
        }
    }
    text
}

/// Report on nodes that continue after a silence; `None` if there are none.
pub(crate) fn continued(nodes: &[SilentNode]) -> Option<String> {
    let lasts = nodes.iter().map(|node| node.lasts).max()?.as_secs();
    let (which, verb) = match nodes.len() {
        1 => ("node", "continues"),
        _ => ("nodes", "continue"),
    };
    Some(format!("{which} {} {verb} after {lasts} s", hosts(nodes)))
}

fn hosts(nodes: &[SilentNode]) -> String {
    listed(&nodes.iter().map(|node| &*node.host).collect::<Vec<_>>())
}

fn listed(hosts: &[&str]) -> String {
    let shown = &hosts[..hosts.len().min(HOSTS_SHOWN)];
    match hosts.len().saturating_sub(HOSTS_SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Most hosts in one sentence.
const HOSTS_SHOWN: usize = 8;

/// Cause of a refused spawn; the job of the requesting rank continues.
pub(crate) fn not_spawned(
    plan: &Plan,
    (rank, pid): (u32, Option<i32>),
    why: impl Display,
) -> String {
    format!("the spawn of {} is refused: {why}", local_rank(plan, rank, pid))
}

/// Report on a host that has joined the run after its start.
pub(crate) fn missing_caller(pid: i32, error: &io::Error) -> String {
    format!("process {pid}, which has started this launcher, does not exist: {error}")
}

pub(crate) fn late_host(name: &str, after: Duration) -> String {
    let secs = after.as_secs_f64().round();
    format!("host {name} has joined the run after {secs} s; spawned jobs may use it")
}

/// Report on a rank or tool with an overdue heartbeat.
pub(crate) fn without_heartbeat(who: &str, secs: u64, code: Status) -> String {
    let code = code.name().map_or_else(|| code.0.to_string(), str::to_owned);
    format!(
        "{who} has sent no heartbeat for {secs} s, although it announced one ({code}); it may hang"
    )
}

/// Report on a rank whose file shows no sign of life.
pub(crate) fn without_change(
    plan: &Plan,
    (rank, pid): (u32, Option<i32>),
    (file, secs): (&Path, u64),
    code: Status,
) -> String {
    let code = code.name().map_or_else(|| code.0.to_string(), str::to_owned);
    let file = file.display().to_string();
    format!(
        "{} has left the file '{}' unchanged for {secs} s, although it announced changes ({code}); it may \
         hang",
        local_rank(plan, rank, pid),
        file.escape_debug()
    )
}

/// Ranks that have stopped for their debuggers, which the `hint` finds.
pub(crate) fn in_gdb(plan: &Plan, held: &[HeldRank], hint: &str) -> String {
    let (ranks, programs) = (held.iter().map(|one| one.rank), plan.program_names());
    let ranks: Ranks = ranks.collect();
    let (named, host) = (ranks.named(), &plan.host);
    let verb = if ranks.count() == 1 { "has" } else { "have" };
    format!(
        "{named} of {} ({programs} on {host}) {verb} stopped at the first instruction; {hint}, and \
         'continue' there starts the program",
        size(plan)
    )
}

/// A rank that has stopped for a debugger, which the user is to start.
pub(crate) fn awaits_gdb(plan: &Plan, HeldRank { rank, pid }: HeldRank) -> String {
    format!(
        "{} has stopped at its first instruction; attach to it in another terminal by 'gdb -p {pid}', and \
         let it continue by 'kill -CONT {pid}'",
        local_rank(plan, rank, Some(pid))
    )
}

/// Report on a tool that has not read all output it requested; once for each request.
pub(crate) fn output_dropped(tool: &str, bytes: u64) -> String {
    format!(
        "tool {tool} reads output more slowly than ranks write it, and has lost {bytes} bytes so far; a \
         larger PMIX_IOF_CACHE_SIZE would keep more"
    )
}

/// Report on a key that two ranks put; once for a job.
pub(crate) fn put_twice(plan: &Plan, key: &str, [first, second]: [u32; 2]) -> String {
    format!(
        "ranks {first} and {second} of {} ({} on {}) have both put '{key}' without a fence \
         between; the value of rank {second} is kept; if both are needed, include the rank in the \
         key (reported once)",
        size(plan),
        plan.program_names(),
        plan.host_of(second)
    )
}

/// Report on a connect with a job that this launcher does not know.
pub(crate) fn other_launcher(plan: &Plan, rank: u32, nspace: &str) -> String {
    format!(
        "rank {rank} of {} ({} on {}) cannot connect with job '{nspace}', which this launcher does not \
         know; start both with '--name-server' if it is that of another launcher (reported once)",
        size(plan),
        plan.program_names(),
        plan.host_of(rank)
    )
}

/// Report on a process mapping that is longer than a value may be; clients then compare host names.
pub(crate) fn mapping_omitted(plan: &Plan, len_bytes: usize) -> String {
    format!(
        "PMI_process_mapping of job {} ({}) takes {len_bytes} bytes, a value at most {}, so it is \
         left out and MPI libraries compare host names instead; equal numbers of ranks on \
         consecutive nodes make it shorter",
        plan.kvsname,
        plan.program_names(),
        pmi_core::limits::PMI1_MAX_VALLEN - 1,
    )
}

/// Message after the port is open: the address and secret a rank needs to connect.
pub(crate) fn listening(plan: &Plan, endpoint: &Endpoint) -> String {
    let (first, last) = (plan.started(), plan.ranks - 1);
    let who = match first == last {
        true => format!("rank {first} connects"),
        false => format!("ranks {first} to {last} connect"),
    };
    let how = match endpoint.ids {
        None => "PMI_ID is the rank",
        Some(_) if endpoint.requires_challenge => "each proves the secret by PMI-2's challenge",
        Some(_) => {
            "PMI_ID comes from 'pmi-host pmiid --secret-file FILE RANK', or the secret is proved \
             by PMI-2's challenge"
        }
    };
    let tls = match &endpoint.pin {
        Some(pin) => format!(" PMI_SOCKTYPE=OpenSSL {PIN_VARIABLE}={pin}"),
        None => String::new(),
    };
    let name = if endpoint.is_web() { "" } else { "PMI_PORT=" };
    format!("{who} at {name}{}{tls}; {how}", endpoint.port)
}

/// Address at which pages observe the run or connect.
pub(crate) fn for_pages(url: &str, has_callers: bool) -> String {
    let rank = if has_callers { ", or connect there as ranks (protocol 'pmi')" } else { "" };
    format!("pages can observe the run at {url} (protocol 'pmi-trace'){rank}")
}

/// Table of the ranks that connect by themselves: connected and missing ones, under one line.
pub(crate) fn attendance(
    plan: &Plan,
    secs: u64,
    from: impl Fn(u32) -> Option<SocketAddr>,
) -> String {
    let expected = plan.started()..plan.ranks;
    let there = { expected.clone() }.filter(|rank| from(*rank).is_some()).count();
    let port = plan.endpoint.as_ref().map_or("", |endpoint| &endpoint.port);
    let mut text =
        format!("after {secs} s {there} of {} ranks have connected at {port}:", expected.len());
    for rank in { expected.clone() }.take(ROWS_MAX) {
        let place = from(rank).map_or("not connected".to_owned(), |from| from.to_string());
        text.push_str(&format!("\n    rank {rank:<8} {place}"));
    }
    if let Some(more @ 1..) = expected.len().checked_sub(ROWS_MAX) {
        text.push_str(&format!("\n    and {more} more"));
    }
    text
}

/// A rejected connection: the process that holds its socket, if the kernel reports it, and its user; and
/// the number of rejections before it that were not reported.
pub(crate) fn refused(
    from: SocketAddr,
    holder: Option<(Option<i32>, u32)>,
    why: &str,
    unreported: u64,
) -> String {
    let holder = match holder {
        Some((Some(pid), user)) => format!(" (pid {pid}, user {user})"),
        Some((None, user)) => format!(" (user {user})"),
        None => String::new(),
    };
    let more = match unreported {
        0 => String::new(),
        _ => format!(", as were {unreported} before it"),
    };
    format!("a connection from {from}{holder} {why}; it was rejected{more}, and the job continues")
}

/// Number of rejections that were not reported, if no later rejection can include it.
pub(crate) fn unreported(count: u64) -> String {
    match count {
        1 => "1 more connection was rejected, and the job continues".to_owned(),
        _ => format!("{count} more connections were rejected, and the job continues"),
    }
}

/// File of the generated secret. Only a terminal shows the secret itself.
pub(crate) fn generated_secret(file: &Path, shown: Option<&str>) -> String {
    let file = file.display();
    let shown = shown.map(|secret| format!(" ({secret})")).unwrap_or_default();
    format!("a secret was generated for ranks and pages of this run{shown}; 'cat {file}' prints it")
}

/// A rank that was started here, with its process and program.
pub(crate) fn local_rank(plan: &Plan, rank: u32, pid: Option<i32>) -> String {
    let pid = pid.map(|pid| format!("pid {pid}, ")).unwrap_or_default();
    let (program, host) = (plan.program_name(rank), plan.host_of(rank));
    format!("rank {rank} of {} ({pid}{program} on {host})", size(plan))
}

/// Number of ranks, and the job unless it is the first.
fn size(plan: &Plan) -> String {
    match plan.spawner {
        None => plan.ranks.to_string(),
        Some(_) => format!("{} in the spawned job {}", plan.ranks, plan.kvsname),
    }
}

fn interrupted(number: i32, running: usize) -> String {
    let name = signal::name(number);
    match running {
        0 => format!("{name} terminated the job"),
        1 => format!(
            "{name} was forwarded to the 1 running rank; a second one within {AGAIN_SECS} s kills \
             it"
        ),
        _ => format!(
            "{name} was forwarded to the {running} running ranks; a second one within \
             {AGAIN_SECS} s kills them"
        ),
    }
}

/// Message of a node that is none of the protocol; `which` tells it from others.
pub(crate) fn invalid_message(which: &str) -> String {
    format!("the agent {which} sent a message that is not one of the protocol")
}

/// Signal to the node server, which a batch system sends to the node servers of all nodes.
fn agent_interrupted(host: &str, number: i32, running: usize) -> String {
    let (name, s) = (signal::name(number), if running == 1 { "" } else { "s" });
    format!(
        "{name} arrived at the agent on {host}, as from a batch system that ends the job (scancel, \
         preemption, a time limit), and was forwarded to the {running} running rank{s}"
    )
}

/// Remedy if a rank seems to have started a program of MPICH that has found its descriptor closed: such a
/// program fails with this code.
fn closed_descriptor_hint(plan: &Plan, rank: u32, end: (ProcessEnd, PmiPhase)) -> &'static str {
    match end {
        (ProcessEnd::Exited(MPICH_FAILED), PmiPhase::Silent)
            if may_close_descriptor(plan, rank) =>
        {
            "; if it starts an MPI program with closed files, as Python's subprocess does, '--pmi-port' \
             gives that one a port in place of PMI_FD"
        }
        _ => "",
    }
}

/// True if a rank may start a program of MPICH without the descriptor that it needs.
pub(crate) fn may_close_descriptor(plan: &Plan, rank: u32) -> bool {
    let offer = plan.offer(plan.appnum(rank));
    offer.pmi && offer.may_load_pmi1 && !plan.has_port()
}

/// Note on ranks that have ended well although an MPI program below them has failed for that reason.
pub(crate) fn closed_descriptor(plan: &Plan, ranks: &Ranks) -> String {
    let first = ranks.iter().next().unwrap_or_default();
    let programs = if ranks.count() == 1 { "an MPI program" } else { "MPI programs" };
    format!(
        "{} of {} ({} on {}) started {programs} that found PMI_FD closed, and ended with code 0; \
         Python's subprocess closes files ('close_fds=False' keeps them), and '--pmi-port' gives such \
         programs a port in place of PMI_FD",
        ranks.named(),
        size(plan),
        plan.program_name(first),
        plan.host_of(first)
    )
}

/// Exit code of a program of MPICH whose `MPI_Init` has failed.
const MPICH_FAILED: u8 = 15;

/// End of a rank, as the predicate of a sentence about it.
pub(crate) fn ended(ending: ProcessEnd, phase: PmiPhase) -> String {
    let when = match phase {
        PmiPhase::Open => " before finalize",
        PmiPhase::Silent | PmiPhase::Finalized => "",
    };
    match ending {
        ProcessEnd::Exited(code) => format!("exited with code {code}{when}"),
        ProcessEnd::Unseen => format!("ended{when}"),
        ProcessEnd::OutOfMemory => {
            format!("was killed by the system for lack of memory{when}")
        }
        ProcessEnd::Killed { signal: number, dumped } => {
            let core = if dumped { ", core dumped" } else { "" };
            format!("was killed by {}{core}{when}{}", signal::name(number), signal_hint(number))
        }
    }
}

/// Usual cause of a signal that terminated a rank, behind the report of its end.
fn signal_hint(number: i32) -> &'static str {
    match Signal::from_named_raw(number) {
        Some(Signal::KILL) => "; unless a user sent it, the system may have run out of memory",
        Some(Signal::ALARM) => {
            "; a timer of the program (alarm, setitimer) has expired, and the program does not handle its \
             signal"
        }
        Some(Signal::VTALARM | Signal::PROF) => {
            "; a timer of the program, as that of a profiler, has expired, and the program does not handle \
             its signal"
        }
        Some(Signal::XCPU) => "; it has used the processor time that 'ulimit -t' allows",
        Some(Signal::XFSZ) => "; it has written a file of the size that 'ulimit -f' allows",
        Some(Signal::BUS) => {
            "; a file that it maps may have become shorter, or the file system of shared memory, /dev/shm, \
             may be full"
        }
        Some(Signal::SYS) => "; a sandbox (seccomp) does not allow one of its system calls",
        _ => "",
    }
}

fn ranks(first: &[u32], count: usize) -> String {
    let list: Vec<String> = first.iter().map(u32::to_string).collect();
    match count - first.len().min(count) {
        0 if count == 1 => format!("rank {}", list.join(", ")),
        0 => format!("ranks {}", list.join(", ")),
        more => format!("ranks {} and {more} more", list.join(", ")),
    }
}

/// Warning about ranks that ended well, are linked with MPI and never used PMI with this launcher.
pub(crate) fn singletons(
    plan: &Plan,
    ranks: &Ranks,
    program: impl Display,
    mpi: &Library,
    family: Family,
) -> String {
    format!(
        "{} of {} ({program} on {}) never connected to this launcher although the program is \
         linked with {family} ({}); if it calls MPI_Init, each process was rank 0 of 1: check \
         whether a program in between removes PMI_FD or PMIX_*, and run 'pmi-host doctor \
         {program}' in its place",
        ranks.named(),
        size(plan),
        plan.host,
        mpi.name,
    )
}

/// Report of ranks that all run without this launcher, with the first one that was found.
pub(crate) fn all_singletons(plan: &Plan, found: &MpiSingleton) -> String {
    let code = match plan.placement.hosts {
        None => "; the exit code will be 1",
        // The other ranks may have found it.
        Some(_) => "",
    };
    let ranks: Ranks = plan.placement.ranks.iter().collect();
    let MpiSingleton { program, library, family, variable, was_offered, .. } = found;
    let remedy = match was_offered {
        true => "start it without the program that removes the variables of the launcher",
        false => "offer it PMIx with '--pmi x'",
    };
    format!(
        "{} of {} ({} on {}) run {} without {variable}: its {family} ({library}) cannot find this launcher, \
         so each is rank 0 of 1; {remedy}, or accept that with '--on-singletons ignore'{code}",
        ranks.named(),
        size(plan),
        plan.program_names(),
        plan.host,
        program.display(),
    )
}

/// Heading of the table of ranks that still run a moment after a signal was forwarded.
pub(crate) const STILL_RUNNING: &str = "these still run:";

/// Message if the system refuses what a job needs before its start.
pub(crate) fn cannot_prepare(error: io::Error) -> String {
    format!("the job cannot be prepared: {}", refusal::words(&error))
}

/// Message if a rank cannot be killed.
pub(crate) fn given_up(running: usize) -> String {
    format!(
        "{running} killed ranks do not exit (the system holds them); the launcher exits \
             without them"
    )
}

/// Message if all ranks have terminated and their output is still open.
pub(crate) fn output_left_open(secs: u64) -> String {
    format!(
        "all ranks have exited but a process they left behind still holds their output; the \
         launcher waits at most {secs} s"
    )
}

/// Message, once for a run, that the data of PMIx clients exceeds its limit.
pub(crate) fn pmix_full(limit_bytes: u64) -> String {
    format!(
        "a PMIx request is refused: the data that PMIx clients of the run commit, publish and wait for takes \
         at most {limit_bytes} bytes (--kvs-bytes); reported once"
    )
}

/// Message about an observer that reads more slowly than the run produces.
pub(crate) fn observer_disconnected(from: SocketAddr) -> String {
    format!(
        "the observer at {from} does not keep up with the run and is disconnected; the run \
         continues, and the observer may connect again"
    )
}

/// Message if a run has failed, no rank is left, and output of ranks cannot be delivered.
pub(crate) fn output_unread(secs: u64, has_read: bool) -> String {
    let how =
        if has_read { "has not accepted all of it within" } else { "has accepted nothing for" };
    format!("the run is over and the reader of its output {how} {secs} s; the rest is dropped")
}

/// A longer table would not be read.
const ROWS_MAX: usize = 64;

/// Time within which a second signal kills.
pub(crate) const AGAIN_SECS: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::plan::job::tests::plan;

    fn message_of(about: &Failure, running: usize) -> String {
        let plan = plan(&[("./a.out", 4)]);
        failure(about, &plan, |rank| (rank < 4).then_some(100 + rank.cast_signed()), running)
    }

    #[test]
    fn failure_names_rank_process_program_host_and_how_it_ended() {
        let killed = ProcessEnd::Killed { signal: 11, dumped: true };
        assert_eq!(
            message_of(&Failure::Ended { rank: 2, ending: killed, phase: PmiPhase::Open }, 3),
            "rank 2 of 4 (pid 102, ./a.out on node1) was killed by signal 11 (SIGSEGV), core \
             dumped before finalize; the 3 ranks still running are terminated"
        );
        assert_eq!(
            message_of(&Failure::Abort { rank: 0, code: 42, message: "bye bye".to_owned() }, 0),
            "rank 0 of 4 (pid 100, ./a.out on node1) called abort with code 42 and message 'bye \
             bye'"
        );
    }

    #[test]
    fn those_who_are_missing_are_named() {
        let missing = |gone: &[u32], gone_count, waiting_count| {
            message_of(&Failure::Missing { gone: gone.to_vec(), gone_count, waiting_count }, 0)
        };
        assert!(
            missing(&[3], 1, 1)
                .starts_with("rank 3 of 4 (./a.out on node1) exited without taking part")
        );
        assert!(missing(&[1, 3], 2, 2).contains("that 2 ranks wait in"));
        assert!(missing(&[0, 1], 9, 1).starts_with("ranks 0, 1 and 7 more of 4"));
    }

    #[test]
    fn rank_of_a_spawned_job_is_not_taken_for_one_of_the_first() {
        let child = plan(&[("./a", 1)]).spawned(0, plan(&[("./b", 2)]).parts, Vec::new(), 1);
        let text = failure(&Failure::LeftEarly { rank: 1 }, &child, |_| Some(9), 0);
        assert!(text.starts_with("rank 1 of 2 in the spawned job kvs_7_1 (pid 9, ./b on node1)"));
        let text = not_spawned(&child, (0, None), "there is no room");
        assert!(
            text.starts_with("the spawn of rank 0 of 2 in the spawned job kvs_7_1 (./b on node1)")
        );
    }
}
