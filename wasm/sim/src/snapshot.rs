//! State of a run at one moment, copied for the page.

use crate::check::FenceId;
use crate::pipe::{Pipe, Segment};
use crate::scenario::{Direction, RankRequest, ScriptAct};
use crate::sim_rank::{ProcessFlags, ProcessState, SimRank};
use crate::storage::Store;
use crate::world::World;
use pmi_core::server::{Job, Member, Phase};
use pmi_core::store::{Keyspace, Kvs};
use std::rc::Rc;

/// State of a run at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The time.
    pub time: u64,
    /// Number of steps so far.
    pub steps: u64,
    /// True if nothing more will happen by itself.
    pub is_quiet: bool,
    /// Every rank, its link and its session.
    pub ranks: Vec<RankView>,
    /// Keys and values of all jobs, in the order in which they were put.
    pub keys: Vec<KeyView>,
    /// The fence of every job that the server knows.
    pub fences: Vec<FenceView>,
    /// Wait-for relations.
    pub debts: Vec<WaitRelation>,
}

/// A rank, its link and its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankView {
    /// Its number.
    pub rank: u32,
    /// Its node.
    pub node: u32,
    /// True if its process exists.
    pub life: ProcessState,
    /// Properties of its process.
    pub flags: ProcessFlags,
    /// The state of its client, by name.
    pub client: &'static str,
    /// The server's state of it, by name.
    pub member: &'static str,
    /// True if the server has a session with it.
    pub has_session: bool,
    /// Its pending requests.
    pub asks: Vec<String>,
    /// Its next step.
    pub next: Option<String>,
    /// Bytes for which its link had no room.
    pub unsent_bytes: usize,
    /// From the rank to the server.
    pub up: PipeView,
    /// From the server to the rank.
    pub down: PipeView,
    /// Bytes that the host has taken from the link, and the session not.
    pub host_untaken_bytes: usize,
    /// Bytes of the session that the link has not accepted.
    pub host_unsent_bytes: usize,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipeView {
    /// Bytes in transit; an empty segment is the end.
    pub flying: Vec<Segment>,
    /// Bytes that have arrived and were not read.
    pub landed: Vec<u8>,
    /// True if it has ended.
    pub is_over: bool,
}

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyView {
    /// The job of its key-value space.
    pub job: String,
    /// The key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// Rank that has put it; `None` for the process manager.
    pub by: Option<u32>,
    /// The node that shares it, if it is an attribute of a node.
    pub node: Option<u32>,
    /// True if all ranks see it, rather than its writer alone.
    pub is_visible: bool,
}

/// The fence of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FenceView {
    /// The job.
    pub job: String,
    /// Number of ranks of the job.
    pub ranks: u32,
    /// Number of fences of the job that have completed.
    pub generation: u32,
    /// Number of ranks inside the fence.
    pub inside: u32,
    /// The ranks it waits for.
    pub missing: Vec<u32>,
}

/// A wait-for relation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitRelation {
    /// Ranks that must act first, shared by all that wait in one fence; empty for the server.
    pub debtors: Rc<[u32]>,
    /// The rank that waits.
    pub rank: u32,
    /// Reason of the wait.
    pub what: String,
}

impl Snapshot {
    /// Takes a snapshot of `world`.
    pub fn new(world: &World) -> Self {
        Self {
            time: world.time(),
            steps: world.steps(),
            is_quiet: world.is_quiet(),
            ranks: world.sim_ranks().iter().map(|rank| RankView::new(world, rank)).collect(),
            keys: keys(world),
            fences: fences(world),
            debts: debts(world),
        }
    }
}

impl RankView {
    /// Copies the state of a rank.
    pub fn new(world: &World, sim_rank: &SimRank) -> Self {
        let rank = sim_rank.rank();
        let line = world.host().line(rank);
        let link = world.net().link(rank);
        let pipe =
            |direction| link.map(|link| PipeView::new(link.get(direction))).unwrap_or_default();
        Self {
            rank,
            node: world.scenario().node(rank),
            life: sim_rank.life(),
            flags: sim_rank.flags(),
            client: sim_rank.client_state(),
            member: member_state(world, rank),
            has_session: line.is_some_and(|line| line.is_open()),
            asks: sim_rank.waiting().iter().map(|waiting| waiting.ask.to_string()).collect(),
            next: sim_rank.next_act().map(act_text),
            unsent_bytes: sim_rank.unsent_bytes(),
            up: pipe(Direction::Up),
            down: pipe(Direction::Down),
            host_untaken_bytes: line.map_or(0, |line| line.unconsumed_bytes()),
            host_unsent_bytes: line.map_or(0, |line| line.unsent_bytes()),
        }
    }
}

/// The server's state of a rank, by name.
pub fn member_state(world: &World, rank: u32) -> &'static str {
    world.host().member(rank).map_or("unknown", |member| phase_name(member.phase()))
}

/// The jobs that the server knows, and the first rank of each.
fn jobs(world: &World) -> impl Iterator<Item = (u32, &Job<Store, Vec<Member>>)> {
    let plans = world.scenario().all_jobs().enumerate();
    plans.filter_map(|(at, plan)| Some((plan.first, world.host().job(at)?)))
}

fn job_name(job: &Job<Store, Vec<Member>>) -> String {
    String::from_utf8_lossy(job.name().as_bytes()).into()
}

/// Keys and values of all jobs, in the order in which they were put.
pub fn keys(world: &World) -> Vec<KeyView> {
    let mut keys = Vec::new();
    for (first, job) in jobs(world) {
        let fences = job.fence().generation();
        let mut last = job.kvs().next(None);
        while let Some(id) = last {
            last = job.kvs().next(Some(id));
            let Some(entry) = job.kvs().entry(id) else { continue };
            keys.push(KeyView {
                job: job_name(job),
                key: entry.key.into(),
                value: entry.value.into(),
                by: entry.visibility.writer().map(|writer| first + writer.0),
                node: match entry.keyspace {
                    Keyspace::Node(node) => Some(node),
                    _ => None,
                },
                is_visible: entry.visibility.is_visible(None, fences),
            });
        }
    }
    keys
}

/// The fence of every job that the server knows.
pub fn fences(world: &World) -> Vec<FenceView> {
    let view = |(first, job): (u32, &Job<Store, Vec<Member>>)| FenceView {
        job: job_name(job),
        ranks: job.size(),
        generation: job.fence().generation(),
        inside: job.fence().inside(),
        missing: job.missing().map(|rank| first + rank.0).collect(),
    };
    jobs(world).map(view).collect()
}

/// Wait-for relations.
pub fn debts(world: &World) -> Vec<WaitRelation> {
    let fences = world.checks().fences();
    // Ranks that wait together wait for the same ones.
    let mut last: Option<(FenceId, Rc<[u32]>)> = None;
    let waiting = world
        .sim_ranks()
        .iter()
        .flat_map(|sim_rank| sim_rank.waiting().iter().map(|waiting| (sim_rank.rank(), waiting)));
    let mut debt = |(rank, waiting): (u32, &crate::sim_rank::Waiting)| {
        let fence = match waiting.ask {
            RankRequest::Fence { .. } => fences.entered(rank, waiting.number),
            _ => None,
        };
        let debtors = fence.map(|fence| match &last {
            Some((known, debtors)) if *known == fence => debtors.clone(),
            _ => {
                let debtors: Rc<[u32]> = fences.missing(fence).into();
                last = Some((fence, debtors.clone()));
                debtors
            }
        });
        let debtors = debtors.unwrap_or_default();
        WaitRelation { debtors, rank, what: waiting.ask.to_string() }
    };
    waiting.map(&mut debt).collect()
}

impl PipeView {
    fn new(pipe: &Pipe) -> Self {
        Self {
            flying: pipe.flying().cloned().collect(),
            landed: pipe.landed().into(),
            is_over: pipe.is_over(),
        }
    }
}

impl Default for PipeView {
    fn default() -> Self {
        Self { flying: Vec::new(), landed: Vec::new(), is_over: true }
    }
}

/// The name of a member's phase.
const fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Absent => "absent",
        Phase::Connected => "connected",
        Phase::Open => "open",
        Phase::Finalized => "finalized",
        Phase::Lost => "lost",
    }
}

/// Description of an act.
fn act_text(act: &ScriptAct) -> String {
    match act {
        ScriptAct::RankRequest { ask, also: false } => ask.to_string(),
        ScriptAct::RankRequest { ask, also: true } => format!("also {ask}"),
        ScriptAct::Send(bytes) => format!("say {}", bytes.escape_ascii()),
        ScriptAct::Sleep(span) => format!("sleep {span}"),
        ScriptAct::Garbage(span) => format!("garbage {span}"),
        ScriptAct::Exit(code) => format!("exit {code}"),
        ScriptAct::Await(lines) => format!("await {lines}"),
        ScriptAct::AwaitEvent { code, from: Some(from) } => format!("event {code} from {from}"),
        ScriptAct::AwaitEvent { code, from: None } => format!("event {code}"),
        ScriptAct::Wait => "wait".into(),
        ScriptAct::Die => "die".into(),
        ScriptAct::Stop => "stop".into(),
        ScriptAct::Hang => "hang".into(),
        ScriptAct::Leave => "leave".into(),
        ScriptAct::Deaf => "deaf".into(),
        ScriptAct::ReadAgain => "hear".into(),
        ScriptAct::Manual => "manual".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs until rank 0 is in its fence and rank 1 has put a value.
    fn in_the_fence() -> World {
        let text = "ranks 3\nall latency 10\nrank 1 start 500\nscript 0\n open\n put a 1\n fence\nend\n\
                    script 1\n open\n put b 2\n manual\nend\nscript 2\n manual\nend";
        let mut world = World::new(&text.parse().unwrap(), 0).unwrap();
        assert!(world.run(1000));
        world
    }

    #[test]
    fn snapshot_contains_wait_relations_and_visible_keys() {
        let snapshot = Snapshot::new(&in_the_fence());
        let debt = WaitRelation { debtors: [1, 2].into(), rank: 0, what: "fence".into() };
        assert_eq!(snapshot.debts, [debt]);
        let missing = vec![1, 2];
        let fence =
            FenceView { job: "kvs_sim".into(), ranks: 3, generation: 0, inside: 1, missing };
        assert_eq!(snapshot.fences, [fence]);
        let seen: Vec<_> = snapshot
            .keys
            .iter()
            .map(|key| (String::from_utf8_lossy(&key.key), key.by, key.is_visible))
            .collect();
        let mapping = ("PMI_process_mapping".into(), None, true);
        assert_eq!(seen, [mapping, ("a".into(), Some(0), false), ("b".into(), Some(1), false)]);
        let states: Vec<_> = snapshot.ranks.iter().map(|rank| (rank.client, rank.member)).collect();
        assert_eq!(states, [("open", "open"), ("open", "open"), ("fresh", "connected")]);
        assert_eq!(snapshot.ranks[1].next.as_deref(), Some("manual"));
    }

    #[test]
    fn bytes_on_their_way_are_shown_before_they_arrive() {
        let text = "all latency 10\nscript all\n init\n manual\nend";
        let mut world = World::new(&text.parse().unwrap(), 0).unwrap();
        while Snapshot::new(&world).ranks[0].up.flying.is_empty() {
            assert!(world.step());
        }
        let view = Snapshot::new(&world).ranks.remove(0);
        assert_eq!(view.up.flying[0].bytes, b"cmd=init pmi_version=1 pmi_subversion=1\n");
        assert_eq!((view.client, view.asks), ("opening", vec!["init 1.1".into()]));
    }
}
