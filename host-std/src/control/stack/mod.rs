//! `pmi-host stack`: the calls in which the ranks of running jobs are, merged.
//!
//! ```text
//! frame      one call, and the calls of one thread
//! debugger   stacks from gdb
//! last_call  without a debugger: the last call, as the kernel reports it
//! python     calls of Python in place of those of its interpreter
//! stall      the command as a part of a report of no progress
//! unlisted   ranks that no launcher on this host lists
//! tree       equal calls of many ranks as one line
//! ```

mod debugger;
mod frame;
mod last_call;
mod python;
mod stall;
mod tree;
mod unlisted;

pub(crate) use stall::StackReport;

use super::query::{Answers, nothing};
use crate::cli::explain;
use crate::watch::table::{Job, Table};
use clap::{Arg, ArgAction, Command};
use debugger::DebuggerError;
use frame::{StackFrame, ThreadStack};
use pmi_host_base::exit::{FAILED, complain, print, print_json};
use pmi_host_base::ranges::Ranks;
use pmi_host_base::system_file;
use procfs::process::{Process, all_processes};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use tree::StackTree;
use unlisted::UnlistedRanks;

/// Command line of `stack`.
pub(crate) fn define() -> Command {
    Command::new("stack")
        .about("Show in which calls the ranks of running jobs are, equal ones once")
        .arg(Arg::new(JOB).help("only this launcher (its process) or this job (its name)"))
        .arg(
            Arg::new(THREADS)
                .long(THREADS)
                .action(ArgAction::SetTrue)
                .help("show all threads, not only the first one of each process"),
        )
        .arg(
            Arg::new(JSON)
                .long(JSON)
                .action(ArgAction::SetTrue)
                .help("print JSON: a list with one object for each job"),
        )
        .after_help(
            "gdb reads the calls, and stops each process for a moment; without gdb only the last call of \
             each process is known. Calls of Python are shown where py-spy or the debugging symbols of the \
             interpreter are installed.",
        )
}

/// Reads the stacks of all ranks on this host, prints them and returns the exit code: 1 if a launcher does
/// not answer, the wanted one does not exist, or a process cannot be inspected.
pub(crate) fn run(words: Vec<OsString>) -> ExitCode {
    let matches = match explain::parse(define(), words) {
        Ok(matches) => matches,
        Err(code) => return code,
    };
    let wanted = matches.get_one::<String>(JOB).map(String::as_str);
    let Answers { tables, mut failures } = Answers::request(wanted);
    let shows = Shows { threads: matches.get_flag(THREADS) };
    let children = Children::read();
    let listed = tables.iter().flat_map(|table| table.jobs.iter().map(move |job| (table, job)));
    let stacks = listed.map(|(table, job)| job_stacks(table, job, &children, shows));
    let mut jobs: Vec<JobStacks> = stacks.collect();
    if wanted.is_none() {
        let listed = tables.iter().flat_map(local_processes).collect();
        jobs.extend(
            unlisted::find(&listed)
                .into_iter()
                .map(|ranks| unlisted_stacks(ranks, &children, shows)),
        );
    }
    failures.extend(jobs.iter().flat_map(JobStacks::failures));
    let printed = match matches.get_flag(JSON) {
        true => print_json(&format!("{}\n", serde_json::to_string(&jobs).unwrap_or_default())),
        false => print(&jobs.iter().map(JobStacks::text).collect::<String>()),
    };
    match failures.is_empty() {
        true if jobs.is_empty() && !matches.get_flag(JSON) => complain(&nothing(), SUCCESS),
        true => printed,
        false => complain(&failures.join("; "), FAILED),
    }
}

/// Processes of ranks that the launcher of `table` has started on its own host.
fn local_processes(table: &Table) -> impl Iterator<Item = i32> {
    let ranks = table.jobs.iter().flat_map(|job| &job.ranks);
    ranks.filter(|rank| rank.host.as_ref() == Some(&table.host)).filter_map(|rank| rank.pid)
}

/// Selection of stacks.
#[derive(Clone, Copy)]
struct Shows {
    /// All threads of a process.
    threads: bool,
}

/// Stacks of the ranks of one job.
#[derive(Debug, Default, Serialize)]
struct JobStacks {
    /// Process that has started the ranks: the launcher or a node server.
    pid: i32,
    /// Name of the job, if its launcher runs here.
    name: Option<String>,
    /// Number of ranks, if it is known.
    size: Option<u32>,
    #[serde(skip)]
    heading: String,
    /// True if only the last call of each process is known, since there is no debugger.
    is_last_call_only: bool,
    /// Equal stacks, and the ranks that have them.
    stacks: Vec<SharedStack>,
    /// Ranks without a stack, and the reason.
    unknown: Vec<UnknownStack>,
    #[serde(skip)]
    tree: StackTree,
}

/// A stack, and the ranks that have it.
#[derive(Debug, Serialize)]
struct SharedStack {
    ranks: Ranks,
    name: String,
    /// The calls, the outermost one first.
    frames: Vec<StackFrame>,
}

/// Ranks whose stacks are not known.
#[derive(Debug, Serialize)]
struct UnknownStack {
    ranks: Ranks,
    why: String,
    /// True if the ranks are where this program cannot look, which is no failure of it.
    #[serde(skip)]
    is_elsewhere: bool,
}

/// Adds a rank without a stack to those that have the same reason.
fn note(unknown: &mut Vec<UnknownStack>, rank: u32, why: String, is_elsewhere: bool) {
    match unknown.iter_mut().find(|known| known.why == why) {
        Some(known) => known.ranks.push(rank),
        None => unknown.push(UnknownStack { ranks: Ranks::from_iter([rank]), why, is_elsewhere }),
    }
}

/// Stacks of one rank, or the reason why there are none.
#[derive(Debug)]
struct RankStacks {
    stacks: Vec<ThreadStack>,
    is_last_call_only: bool,
    failure: Option<String>,
}

fn job_stacks(table: &Table, job: &Job, children: &Children, shows: Shows) -> JobStacks {
    let mut unknown = Vec::new();
    let mut local = Vec::new();
    for rank in job.ranks.iter().filter(|rank| job.running.contains(rank.rank)) {
        match (rank.pid, &rank.host) {
            (Some(pid), Some(host)) if *host == table.host => local.push((rank.rank, pid)),
            (_, Some(host)) => {
                let why = format!("on {host}; 'pmi-host stack' there shows it");
                note(&mut unknown, rank.rank, why, true);
            }
            _ => {
                note(&mut unknown, rank.rank, "not started by this launcher".to_owned(), true);
            }
        }
    }
    let Job { name, size, program, .. } = job;
    let plural = if *size == 1 { "rank" } else { "ranks" };
    let mut stacks = JobStacks {
        pid: i32::try_from(table.pid).unwrap_or_default(),
        name: Some(name.clone()),
        size: Some(*size),
        heading: format!("job {name}: {size} {plural} of {program}, launcher {}", table.pid),
        unknown,
        ..JobStacks::default()
    };
    stacks.read(&local, children, shows);
    stacks
}

fn unlisted_stacks(found: UnlistedRanks, children: &Children, shows: Shows) -> JobStacks {
    let UnlistedRanks { parent, launcher, program, size, ranks } = found;
    let of = size.map(|size| format!(" of {size}")).unwrap_or_default();
    let named = Ranks::from_iter(ranks.iter().map(|(rank, _)| *rank)).named();
    let mut stacks = JobStacks {
        pid: parent,
        size,
        heading: format!("{named}{of}, {program}, started by {launcher} (process {parent})"),
        ..JobStacks::default()
    };
    stacks.read(&ranks, children, shows);
    stacks
}

/// Stacks of all ranks, in ascending order; several debuggers at a time, as many as there are processors.
fn read_all(ranks: &[(u32, i32)], children: &Children, shows: Shows) -> BTreeMap<u32, RankStacks> {
    let (next, found) = (Mutex::new(ranks.iter()), Mutex::new(BTreeMap::new()));
    let workers = thread::available_parallelism().map_or(1, usize::from).min(ranks.len());
    let take = || next.lock().ok()?.next();
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((rank, pid)) = take() {
                    let stacks = rank_stacks(*pid, children, shows);
                    if let Ok(mut found) = found.lock() {
                        found.insert(*rank, stacks);
                    }
                }
            });
        }
    });
    found.into_inner().unwrap_or_default()
}

fn rank_stacks(pid: i32, children: &Children, shows: Shows) -> RankStacks {
    let mut rank = RankStacks { stacks: Vec::new(), is_last_call_only: false, failure: None };
    for pid in children.leaves(pid) {
        let Some(program) = name_of(pid) else { continue };
        match debugger::stacks(pid, &program) {
            Ok(mut stacks) => {
                if !shows.threads {
                    stacks.truncate(1);
                }
                if let Some(first) =
                    stacks.first_mut().filter(|one| python::is_interpreter(&one.frames))
                {
                    let sampled = python::of_sampler(pid).unwrap_or_default();
                    python::insert(&mut first.frames, sampled);
                }
                rank.stacks.extend(stacks);
            }
            Err(error) => {
                rank.is_last_call_only = true;
                let last = last_call::stack(pid, &program);
                if last.is_none()
                    && let DebuggerError::Refused(why) = error
                {
                    rank.failure.get_or_insert(format!("{why}{}", remedy()));
                }
                rank.stacks.extend(last);
            }
        }
    }
    if rank.stacks.is_empty() {
        rank.failure.get_or_insert("its process has ended or may not be inspected".to_owned());
    }
    rank
}

/// Remedy for a debugger that may not attach, where the system restricts debuggers.
fn remedy() -> &'static str {
    let scope =
        system_file::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    match scope.trim() {
        "" | "0" => "",
        _ => {
            " (kernel.yama.ptrace_scope permits debuggers of root only; run 'pmi-host stack' as root)"
        }
    }
}

/// Name of the program of a process.
fn name_of(pid: i32) -> Option<String> {
    Process::new(pid).ok()?.stat().ok().map(|stat| stat.comm)
}

/// Processes by their parents.
struct Children(BTreeMap<i32, Vec<i32>>);

impl Children {
    fn read() -> Self {
        let mut children = BTreeMap::<i32, Vec<i32>>::new();
        let all = all_processes().into_iter().flatten().flatten();
        for stat in all.filter_map(|process| process.stat().ok()) {
            children.entry(stat.ppid).or_default().push(stat.pid);
        }
        Self(children)
    }

    /// The processes below `pid` that have no children themselves, `pid` if there are none: a script that
    /// waits for its program says nothing.
    fn leaves(&self, pid: i32) -> Vec<i32> {
        let mut leaves = Vec::new();
        let mut left = vec![pid];
        while let Some(pid) = left.pop() {
            match self.0.get(&pid) {
                Some(below) => left.extend(below.iter().rev()),
                None => leaves.push(pid),
            }
        }
        leaves
    }
}

impl JobStacks {
    /// Reads the stacks of processes on this host.
    fn read(&mut self, ranks: &[(u32, i32)], children: &Children, shows: Shows) {
        for (rank, found) in read_all(ranks, children, shows) {
            self.is_last_call_only |= found.is_last_call_only;
            if let Some(why) = found.failure {
                note(&mut self.unknown, rank, why, false);
            }
            for stack in found.stacks {
                self.tree.add(rank, &stack);
                self.add(rank, stack);
            }
        }
    }

    fn add(&mut self, rank: u32, stack: ThreadStack) {
        let ThreadStack { name, frames } = stack;
        let is_same = |one: &&mut SharedStack| one.name == name && one.frames == frames;
        match self.stacks.iter_mut().find(is_same) {
            Some(one) if one.ranks.contains(rank) => {}
            Some(one) => one.ranks.push(rank),
            None => {
                let ranks = Ranks::from_iter([rank]);
                self.stacks.push(SharedStack { ranks, name, frames });
            }
        }
    }

    fn failures(&self) -> impl Iterator<Item = String> {
        let own = self.unknown.iter().filter(|unknown| !unknown.is_elsewhere);
        own.map(|unknown| format!("{}: {}", unknown.ranks.named(), unknown.why))
    }

    fn text(&self) -> String {
        let mut text = self.heading.clone();
        text.push_str(&self.tree.text(2));
        for unknown in self.unknown.iter().filter(|unknown| unknown.is_elsewhere) {
            text.push_str(&format!("\n  {}: {}", unknown.ranks.named(), unknown.why));
        }
        if self.is_last_call_only {
            text.push_str(
                "\n  only the last call is known; with gdb installed, all calls are shown",
            );
        }
        text + "\n"
    }
}

const JOB: &str = "JOB";
const JSON: &str = "json";
const THREADS: &str = "threads";

/// No failure, but nothing to show.
const SUCCESS: u8 = 0;
