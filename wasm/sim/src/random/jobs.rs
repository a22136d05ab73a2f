//! Several jobs that spawn, connect and look each other up, and ranks of every dialect beside each other.

use super::{faults, fence, get, host, own_traits, put, script, traits};
use crate::ranks::index;
use crate::rng::{Percent, Rng, Span};
use crate::scenario::{
    Dialect, FIRST_JOB, Fault, FaultKind, GroupPhrase, HostPlan, JobPlan, Phrase, Scenario, Step,
};
use litemap::LiteMap;
use pmi_core::client::pmix::Scope;
use pmi_core::command::Version;

/// Generates the scenario of `seed`.
pub(super) fn scenario(seed: u64) -> Scenario {
    let mut rng = Rng::new(seed, STREAM);
    let teams = teams(&mut rng);
    let ranks = teams.iter().map(|team| team.plan.size).sum();
    let spawns = spawns(&mut rng, &teams);
    let meetings = meetings(&mut rng, &teams);
    let mut only = LiteMap::new();
    let mut scripts = Vec::new();
    for (at, team) in teams.iter().enumerate() {
        let mut beats = beats(&mut rng, &teams, at);
        for (one, two) in meetings.iter().filter(|(one, two)| [one, two].contains(&&at)) {
            let other = &teams[if *one == at { *two } else { *one }].plan.name;
            let place = rng.index(beats.len() + 1);
            beats.insert(place, Beat::Connect(other.clone()));
            if rng.chance(Percent(80)) {
                let place = place + 1 + rng.index(beats.len() - place);
                beats.insert(place, Beat::Disconnect(other.clone()));
            }
        }
        for (own, rank) in (0..).zip(team.plan.first..team.plan.first + team.plan.size) {
            let dialect = team.dialects[index(own)];
            only.insert(rank, own_traits(dialect, rng.chance(Percent(20))));
            let mut steps = vec![Step::Open];
            steps.extend(beats.iter().flat_map(|beat| said(&mut rng, team, dialect, beat)));
            for spawn in spawns.iter().filter(|spawn| spawn.by == rank) {
                let at = 1 + rng.index(steps.len());
                steps.insert(at, spawn.step(&mut rng, dialect));
            }
            steps.push(Step::Finalize);
            scripts.push(script(&mut rng, rank, steps));
        }
    }
    let mut faults = faults(&mut rng);
    // The requester of a job exits before the job begins.
    let spawners = spawns.iter().map(|spawn| spawn.by);
    faults.extend(spawners.filter_map(|rank| {
        let (at, what) = (Span::new(0, 2500), FaultKind::Kill);
        let is_struck = rng.chance(Percent(20));
        is_struck.then_some(Fault { chance: Percent(100), at, what, rank: Some(rank) })
    }));
    let (spawns, forgets) = (Span::new(0, rng.below(900)), rng.chance(Percent(40)));
    Scenario {
        name: format!("random-{seed}"),
        seed: Some(seed),
        ranks,
        nodes: 1 + u32::try_from(rng.below(u64::from(ranks))).unwrap_or(0),
        jobs: teams.into_iter().skip(1).map(|team| team.plan).collect(),
        host: HostPlan { spawns, forgets, ..host(&mut rng) },
        all: traits(&mut rng),
        only,
        scripts,
        faults,
        ..Scenario::default()
    }
}

/// A job, and the dialects of its ranks.
struct Team {
    plan: JobPlan,
    dialects: Vec<Dialect>,
}

/// A rank that spawns a job.
struct Spawning {
    by: u32,
    job: String,
}

/// An action of all ranks of a job, each in its dialect.
enum Beat {
    /// Values of their own, or under keys that others use as well.
    Put(Phrase),
    Get(Phrase),
    Fence,
    /// Each rank puts a card and reads all others after a fence.
    Cards,
    /// The fence of a few.
    Few(Vec<u32>),
    Ring,
    Node {
        waits: bool,
    },
    /// A few operations on published names.
    Names,
    Connect(String),
    Disconnect(String),
    /// Reads data of another job.
    Look(String),
    Sleep(Span),
}

fn teams(rng: &mut Rng) -> Vec<Team> {
    let count = 1 + rng.index(3);
    let mut teams: Vec<Team> = Vec::new();
    for at in 0..count {
        let size = 1 + u32::try_from(rng.below(if at == 0 { 4 } else { 3 })).unwrap_or(0);
        let first = teams.last().map_or(0, |team| team.plan.first + team.plan.size);
        let is_spawned = at > 0 && rng.chance(Percent(60));
        let name = if at == 0 { FIRST_JOB.into() } else { format!("job-{at}") };
        let plan = JobPlan { name, first, size, is_spawned };
        // A single job of PMI is what even seeds make.
        let tongue = rng.below(if count == 1 { 2 } else { 4 });
        let dialects = (0..size).map(|_| dialect(rng, tongue)).collect();
        teams.push(Team { plan, dialects });
    }
    teams
}

fn dialect(rng: &mut Rng, tongue: u64) -> Dialect {
    let (v1_1, v1_2) = (Dialect::Pmi(Version::V1_1), Dialect::Pmi(Version::V1_2));
    let v2_0 = Dialect::Pmi(Version::V2_0);
    match tongue {
        0 => Dialect::Pmix,
        1 => [v1_1, v1_2, v2_0, Dialect::Pmix, Dialect::Pmix][rng.index(5)],
        2 => v2_0,
        _ => [v1_1, v1_1, v1_2][rng.index(3)],
    }
}

/// Connects PMIx jobs, which completes only if both request it.
fn meetings(rng: &mut Rng, teams: &[Team]) -> Vec<(usize, usize)> {
    let is_pmix = |at: &usize| teams[*at].dialects.iter().all(|own| *own == Dialect::Pmix);
    let able: Vec<usize> = (0..teams.len()).filter(is_pmix).collect();
    let pairs = able.iter().flat_map(|one| able.iter().map(move |two| (*one, *two)));
    pairs.filter(|(one, two)| one < two && rng.chance(Percent(60))).collect()
}

/// Spawns of jobs. A job may be requested twice, and by itself; some exist from the start.
fn spawns(rng: &mut Rng, teams: &[Team]) -> Vec<Spawning> {
    let ranks: u32 = teams.iter().map(|team| team.plan.size).sum();
    let any =
        |rng: &mut Rng, below: u32| u32::try_from(rng.below(u64::from(below))).unwrap_or_default();
    let mut all = Vec::new();
    for team in teams.iter().filter(|team| team.plan.is_spawned) {
        if rng.chance(Percent(90)) {
            all.push(Spawning { by: any(rng, team.plan.first), job: team.plan.name.clone() });
        }
        if rng.chance(Percent(25)) {
            all.push(Spawning { by: any(rng, ranks), job: team.plan.name.clone() });
        }
    }
    if rng.chance(Percent(15)) {
        all.push(Spawning { by: any(rng, ranks), job: "nobody".into() });
    }
    all
}

impl Spawning {
    fn step(&self, rng: &mut Rng, dialect: Dialect) -> Step {
        let preputs = match rng.below(2) {
            0 => vec![],
            _ if dialect == Dialect::Pmix => vec![],
            _ => vec![("parent".into(), "of-$r".into()), ("order".into(), "a b".into())],
        };
        aside(rng, dialect, Step::Spawn { job: self.job.clone(), preputs })
    }
}

/// The actions of a job between `open` and `finalize`.
fn beats(rng: &mut Rng, teams: &[Team], at: usize) -> Vec<Beat> {
    let team = &teams[at];
    let is_all = |wanted: Dialect| team.dialects.iter().all(|dialect| *dialect == wanted);
    let (all_pmi2, all_pmix) = (is_all(Dialect::Pmi(Version::V2_0)), is_all(Dialect::Pmix));
    let mut beats = Vec::new();
    if team.plan.is_spawned && rng.chance(Percent(50)) {
        beats.push(Beat::Get("parent".into()));
    }
    for phase in 0..1 + rng.below(6) {
        let shared = Phrase::from(&*format!("shared-{}", rng.below(2)));
        // Including the own name, and that of a job that has not started.
        let other = teams[rng.index(teams.len())].plan.name.clone();
        beats.push(match rng.below(16) {
            0 => Beat::Put(Phrase::from(&*format!("own-{phase}-$r"))),
            1 => Beat::Put(shared),
            2 => Beat::Get(shared),
            3 | 4 => Beat::Fence,
            5 | 6 => Beat::Cards,
            7 if all_pmi2 => Beat::Ring,
            7 if all_pmix => {
                let all = 0..team.plan.size;
                Beat::Few(all.filter(|_| rng.chance(Percent(60))).collect())
            }
            8 | 9 => Beat::Node { waits: rng.chance(Percent(40)) },
            10 | 11 => Beat::Names,
            12 => Beat::Connect(other),
            13 => Beat::Disconnect(other),
            14 => Beat::Look(other),
            _ => Beat::Sleep(Span::new(0, rng.below(1500))),
        });
    }
    beats
}

/// One round in the script of one rank.
fn said(rng: &mut Rng, team: &Team, dialect: Dialect, beat: &Beat) -> Vec<Step> {
    let is_pmix = dialect == Dialect::Pmix;
    let is_pmi2 = dialect == Dialect::Pmi(Version::V2_0);
    match beat {
        Beat::Put(key) => {
            let (key, value) = (key.clone(), Phrase::from(&*format!("v-{}-$r", rng.below(9))));
            if !is_pmix {
                return vec![Step::Put { node: false, key, value }];
            }
            let scope = [Scope::Global, Scope::Local, Scope::Remote][rng.index(3)];
            // A put for all has one form, which PMI has as well.
            let put = match scope {
                Scope::Global => Step::Put { node: false, key, value },
                scope => Step::PutFor { scope, key, value },
            };
            if rng.chance(Percent(70)) { vec![put, Step::Commit] } else { vec![put] }
        }
        Beat::Get(key) if is_pmix => {
            let (now, wanted) = (rng.chance(Percent(60)), None);
            vec![Step::GetOf { rank: "$prev".into(), key: key.clone(), now, wanted }]
        }
        Beat::Get(key) => {
            let (key, of, wait, wanted) = (key.clone(), None, false, None);
            vec![aside(rng, dialect, Step::Get { node: false, key, of, wait, wanted })]
        }
        Beat::Fence => vec![fence(GroupPhrase::Job, None)],
        Beat::Cards => cards(rng, team, is_pmix),
        Beat::Few(ranks) if !ranks.is_empty() => {
            let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
            vec![fence(GroupPhrase::Ranks(Phrase::from(&*ranks.join(","))), None)]
        }
        Beat::Ring => vec![Step::Ring { left: "left-$r".into(), right: "right-$r".into() }],
        Beat::Node { waits } if is_pmi2 => {
            let (wait, wanted, of) = (*waits, None, None);
            let read = Step::Get { node: true, key: "n-$prev".into(), of, wait, wanted };
            let write = Step::Put { node: true, key: "n-$r".into(), value: "of-$r".into() };
            // A rank that reads first may wait for one that waits as well.
            if rng.chance(Percent(80)) { vec![write, read] } else { vec![read, write] }
        }
        Beat::Names => (0..1 + rng.below(3)).map(|_| name(rng, dialect)).collect(),
        Beat::Connect(job) if is_pmi2 || is_pmix => {
            vec![aside(rng, dialect, Step::Connect { job: job.clone() })]
        }
        Beat::Disconnect(job) if is_pmi2 || is_pmix => vec![Step::Disconnect { job: job.clone() }],
        Beat::Look(job) if !is_pmix => {
            let (of, key) = (Some(job.clone()), ["card-0", "shared-0"][rng.index(2)].into());
            vec![Step::Get { node: false, key, of, wait: false, wanted: None }]
        }
        Beat::Sleep(span) => vec![Step::Sleep(*span)],
        _ => vec![],
    }
}

fn cards(rng: &mut Rng, team: &Team, is_pmix: bool) -> Vec<Step> {
    let fence = || fence(GroupPhrase::Job, None);
    let value = format!("v-{}-$r", rng.below(9));
    if !is_pmix {
        let read = Step::Each { name: "p".into(), steps: vec![get("card-$p")] };
        return vec![put("card-$r", &value), fence(), read];
    }
    let mut steps = vec![put("card-$r", &value), Step::Commit, fence()];
    let now = rng.chance(Percent(30));
    for (own, dialect) in team.dialects.iter().enumerate() {
        // A put of a PMI rank is no commit.
        if *dialect == Dialect::Pmix || rng.chance(Percent(10)) {
            let (rank, key) = (Phrase::from(&*own.to_string()), format!("card-{own}"));
            steps.push(Step::GetOf { rank, key: Phrase::from(&*key), now, wanted: None });
        }
    }
    steps
}

/// An action on a published name: one of a few common ones, or its own.
fn name(rng: &mut Rng, dialect: Dialect) -> Step {
    let service = match rng.below(5) {
        0 => Phrase::from("s-$r"),
        number => Phrase::from(&*format!("s-{}", number % 3)),
    };
    let port = Phrase::from(&*format!("port-{}-$r", rng.below(1000)));
    let step = match rng.below(5) {
        0 | 1 => Step::Publish { service, port },
        2 => Step::Unpublish { service },
        _ => {
            let wait = dialect == Dialect::Pmix && rng.chance(Percent(30));
            Step::Lookup { service, wait, wanted: None }
        }
    };
    aside(rng, dialect, step)
}

/// Lets the next step overtake a request at random, where the dialect allows it.
fn aside(rng: &mut Rng, dialect: Dialect, step: Step) -> Step {
    let may = dialect != Dialect::Pmi(Version::V1_1) && rng.chance(Percent(10));
    if may { Step::Also(Box::new(step)) } else { step }
}

const STREAM: u64 = 3;
