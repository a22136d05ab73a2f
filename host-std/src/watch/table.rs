//! A run at one moment, as data. Programs read it as JSON, users as the text of `pmi-host ps`.
//!
//! In JSON all times are in seconds, and unknown values are `null`. New fields may be added; if one
//! changes its meaning, [`VERSION`] goes up.

use super::process::State;
use crate::rank_sets;
use pmi_host_base::ranges::Ranks;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Value of the field `version`.
pub const VERSION: u32 = 1;

/// A launcher and all its jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// [`VERSION`].
    pub version: u32,
    /// The process of the launcher.
    pub pid: u32,
    /// Its host.
    pub host: String,
    /// Time since its start.
    pub seconds: f64,
    /// Its unfinished jobs, the first one first.
    pub jobs: Vec<Job>,
    /// Its hosts whose nodes have joined and are not lost, with what they offer to ranks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<Host>,
    /// Nodes of the run without ranks of these jobs, which spawned jobs may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle_nodes: Vec<JobNode>,
}

/// A job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Name of its key-value space, unique among jobs.
    pub name: String,
    /// Name of the job that spawned it.
    pub spawner: Option<String>,
    /// Program of its ranks.
    pub program: String,
    /// Number of ranks.
    pub size: u32,
    /// Ranks with a running process.
    pub running: Ranks,
    /// Number of completed fences of the whole job.
    pub fences: u32,
    /// Number of messages its ranks have sent.
    pub messages: u64,
    /// Waiting ranks, and the ranks they wait for.
    pub waits: Vec<Wait>,
    /// Number of further waits; a table has at most [`WAITS_MAX`].
    pub more_waits: u64,
    /// Its ranks; in a report on a run without progress, those that are waited for.
    pub ranks: Vec<Rank>,
    /// Number of further ranks of that kind, which this table omits.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_ranks: u64,
    /// Its nodes, if it has several hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<JobNode>,
}

/// A host of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub host: String,
    /// Processors that ranks may use. A node server tells them before it knows of a `--cpu-set`.
    pub processors: Ranks,
    /// Number of these that run at the same time, which a control group may limit.
    pub parallelism: u32,
    /// Memory that ranks may use together.
    pub memory_bytes: Option<u64>,
    /// Processors of each memory domain, in the order of their numbers.
    pub numa_nodes: Vec<Ranks>,
}

/// A node of a job on several hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobNode {
    /// Its host.
    pub host: String,
    /// Ranks of the job on it.
    pub ranks: Ranks,
    /// Its connection to the launcher.
    pub link: NodeLink,
    /// Time since its last message.
    pub last_message_seconds: Option<f64>,
    /// Time for which it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_seconds: Option<f64>,
}

/// Connection of a node to the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeLink {
    /// It has not started ranks yet.
    Starting,
    /// It has reported the state of its ranks.
    Connected,
    /// It has not reported the state of its ranks in time.
    Silent,
    /// It is stopped: its host answers, and its node server does not.
    Paused,
    /// It is lost, with its ranks.
    Lost,
}

/// Ranks that wait in the same operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wait {
    /// The operation that they wait in.
    pub what: WaitCondition,
    /// The waiting ranks.
    pub inside: Ranks,
    /// Ranks they wait for, as far as known.
    pub missing: Ranks,
    /// Ranks of other jobs they wait for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<Elsewhere>,
    /// Time since the first of them began to wait.
    pub seconds: Option<f64>,
}

/// Ranks of another job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Elsewhere {
    /// Name of the job.
    pub job: String,
    /// Its ranks.
    pub ranks: Ranks,
}

/// Operation that ranks wait in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitCondition {
    /// `MPI_Init` before its first fence, while others have not called it: MPI libraries wait in memory that
    /// they share, where the launcher does not see it.
    Init {
        /// True if all that wait are known to share memory; false if the system hides that of some.
        shared_memory: bool,
    },
    /// The job's fence with this number.
    Fence(u32),
    /// A fence of some ranks; the tag identifies it.
    GroupFence(u32),
    /// The job's ring with this number.
    Ring(u32),
    /// The attribute with this name, put by a process on the same node.
    Attribute(String),
    /// A spawn.
    Spawn,
    /// Data of a rank, in PMIx.
    Value {
        /// The key; `None` for any.
        key: Option<String>,
        /// The job, if it is another one.
        job: Option<String>,
        /// The rank; `None` for any.
        rank: Option<u32>,
    },
    /// A fence of listed processes, in PMIx.
    ListedFence,
    /// A connect, in PMIx: names of the other jobs.
    Connect(Vec<String>),
    /// A disconnect, in PMIx: names of the other jobs.
    Disconnect(Vec<String>),
    /// Construction of the group of this name, in PMIx.
    GroupMade(String),
    /// Destruction of the group of this name, in PMIx.
    GroupEnd(String),
    /// Data published under this key, in PMIx.
    Published(String),
    /// The answer to a message of which a part has arrived.
    Message,
}

/// A rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rank {
    /// Its rank.
    pub rank: u32,
    /// Its process, if it was started here.
    pub pid: Option<i32>,
    /// Its host, or the address it has connected from.
    pub host: Option<String>,
    /// Its PMI phase.
    pub phase: Phase,
    /// State of its process.
    pub state: Option<State>,
    /// Kernel function that its process waits in.
    pub kernel_wait: Option<String>,
    /// Processor time of its process.
    pub cpu_seconds: Option<f64>,
    /// Processor time since the previous table of this rank.
    pub cpu_seconds_new: Option<f64>,
    /// Number of messages it has sent.
    pub messages: u32,
    /// Command of the last message between it and the launcher, as written on the wire.
    pub last_message: Option<String>,
    /// True if that was an answer of the launcher.
    pub last_message_is_answer: bool,
    /// Time since that message.
    pub last_message_seconds: Option<f64>,
    /// What it does, unless it waits in an operation.
    #[serde(default)]
    pub activity: Option<RankActivity>,
}

/// What a rank does that others may wait for, as its host sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankActivity {
    /// Time since the start of its process.
    pub started_seconds: Option<f64>,
    /// Exit code of its process, or 128 and the number of the signal, if that has ended.
    pub exit_code: Option<u8>,
    /// Descendant of its process that it waits for; the other fields describe that one.
    pub child: Option<NamedProcess>,
    /// State of the process.
    pub state: Option<State>,
    /// System call in which it waits.
    pub call: Option<String>,
    /// File that the call is about: a path, `standard input`, `a pipe` or `a socket`.
    pub file: Option<String>,
    /// True if it waits for a lock of that file.
    pub waits_for_lock: bool,
    /// Process that holds the lock, or the debugger that holds the process.
    pub holder: Option<NamedProcess>,
}

/// A process, with what it is to a reader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedProcess {
    /// Its number.
    pub pid: i32,
    /// Its program.
    pub program: Option<String>,
    /// Its rank in the same job, if it has one.
    pub rank: Option<u32>,
}

/// PMI phase of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Not started yet, or not connected.
    Absent,
    /// Running, without `init`.
    Silent,
    /// Between `init` and `finalize`.
    Open,
    /// After `finalize`.
    Finalized,
    /// Its process has terminated.
    Ended,
}

impl Table {
    /// Keeps only the job with this name or index.
    ///
    /// # Errors
    ///
    /// No such job; the table is unchanged.
    pub fn keep(&mut self, job: &str) -> Result<(), NoSuchJob> {
        let place = job.parse().ok();
        let is = |(at, found): (usize, &Job)| found.name == job || Some(at) == place;
        let at = self.jobs.iter().enumerate().position(is).ok_or(NoSuchJob)?;
        self.jobs = vec![self.jobs.swap_remove(at)];
        Ok(())
    }
}

/// Error: no job of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchJob;

impl Job {
    /// All ranks of job `of`, which may be this one, that ranks of this job wait for.
    pub fn missing_in<'a>(&'a self, of: &'a Self) -> impl Iterator<Item = &'a Ranks> {
        let own = of.waits.iter().filter(|_| self.name == of.name).map(|wait| &wait.missing);
        let elsewhere = of.waits.iter().flat_map(|wait| &wait.elsewhere);
        own.chain(elsewhere.filter(|there| there.job == self.name).map(|there| &there.ranks))
    }

    /// Nodes whose ranks all wait in `wait`, and the others.
    pub fn nodes_inside(&self, wait: &Wait) -> (Vec<&JobNode>, Vec<&JobNode>) {
        self.nodes.iter().partition(|node| rank_sets::without(&node.ranks, &wait.inside).is_empty())
    }

    /// Operations that `rank` waits in.
    pub fn waits_of(&self, rank: u32) -> impl Iterator<Item = &WaitCondition> {
        let waits = self.waits.iter().filter(move |wait| wait.inside.contains(rank));
        waits.map(|wait| &wait.what)
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A duration as a table holds it: in seconds, to the millisecond.
pub fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1000.0).round() / 1000.0
}

/// Maximum number of different waits of a job in a table. Threads of one client may wait for hundreds.
pub const WAITS_MAX: usize = 16;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Rank 3 of 4 is missing in the fence.
    pub(in crate::watch) fn table() -> Table {
        let rank = Rank {
            rank: 3,
            pid: Some(4711),
            host: Some("node1".to_owned()),
            phase: Phase::Silent,
            state: Some(State::Stopped),
            kernel_wait: Some("do_signal_stop".to_owned()),
            cpu_seconds: Some(0.03),
            cpu_seconds_new: Some(0.0),
            messages: 0,
            last_message: None,
            last_message_is_answer: false,
            last_message_seconds: None,
            activity: None,
        };
        let wait = Wait {
            what: WaitCondition::Fence(0),
            inside: (0..3).collect(),
            missing: [3].into_iter().collect(),
            elsewhere: Vec::new(),
            seconds: Some(10.5),
        };
        let job = Job {
            name: "kvs_9_0".to_owned(),
            spawner: None,
            program: "./a.out".to_owned(),
            size: 4,
            running: (0..4).collect(),
            messages: 6,
            waits: vec![wait],
            ranks: vec![rank],
            ..Job::default()
        };
        let host = "node1".to_owned();
        Table {
            version: VERSION,
            pid: 9,
            host,
            seconds: 11.25,
            jobs: vec![job],
            hosts: Vec::new(),
            idle_nodes: Vec::new(),
        }
    }

    /// The same job on two hosts, of which the second one does not answer.
    pub(in crate::watch) fn table_over_nodes() -> Table {
        let mut table = table();
        let node = |host: &str, ranks, link, seconds| JobNode {
            host: host.to_owned(),
            ranks: Ranks::from_iter(ranks),
            link,
            last_message_seconds: Some(seconds),
            paused_seconds: None,
        };
        table.jobs[0].nodes = vec![
            node("node1", [0, 1], NodeLink::Connected, 0.0),
            node("node2", [2, 3], NodeLink::Silent, 3.0),
        ];
        let idle =
            |host, link| JobNode { ranks: Ranks::default(), ..node(host, [0, 0], link, 1.0) };
        table.idle_nodes = vec![idle("node3", NodeLink::Connected), idle("node4", NodeLink::Lost)];
        table.hosts = vec![Host {
            host: "node1".to_owned(),
            processors: (0..4).collect(),
            parallelism: 4,
            memory_bytes: Some(1 << 34),
            numa_nodes: vec![Ranks::from_iter([0, 2]), Ranks::from_iter([1, 3])],
        }];
        table
    }

    #[test]
    fn nodes_are_a_field_of_runs_that_have_several() {
        let text = serde_json::to_string(&table_over_nodes()).unwrap();
        assert_eq!(serde_json::from_str::<Table>(&text).unwrap(), table_over_nodes());
        assert!(text.contains(r#""nodes":[{"host":"node1","ranks":[[0,1]],"link":"connected""#));
        assert!(text.contains(r#""idle_nodes":[{"host":"node3","ranks":[],"link":"connected""#));
        assert!(text.contains(r#""hosts":[{"host":"node1","processors":[[0,3]],"parallelism":4,"#));
    }

    #[test]
    fn programs_get_back_what_was_written() {
        let text = serde_json::to_string(&table()).unwrap();
        assert_eq!(serde_json::from_str::<Table>(&text).unwrap(), table());
        for part in [
            r#""version":1"#,
            r#""waits":[{"what":{"fence":0},"inside":[[0,2]],"missing":[[3,3]],"seconds":10.5}]"#,
            r#""phase":"silent","state":"stopped""#,
            r#""last_message":null"#,
        ] {
            assert!(text.contains(part), "no {part} in {text}");
        }
    }

    #[test]
    fn job_is_picked_by_name_or_place() {
        for name in ["kvs_9_0", "0"] {
            assert_eq!(table().keep(name), Ok(()));
        }
        let mut table = table();
        assert_eq!(table.keep("1"), Err(NoSuchJob));
        assert_eq!(table.jobs.len(), 1);
    }
}
