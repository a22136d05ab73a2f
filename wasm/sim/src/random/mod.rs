//! Scenarios generated from a seed: random programs, in worlds with random faults.
//!
//! An even seed makes one job of PMI, an odd one several connected jobs, in which ranks may speak
//! PMIx.

mod jobs;

use crate::rng::{Percent, Rng, Span};
use crate::scenario::{
    Dialect, Direction, Fault, FaultKind, GroupPhrase, HostPlan, Phrase, Scenario, Script, Step,
    Traits, Who,
};
use litemap::LiteMap;
use pmi_core::command::Version;

/// Generates the scenario of `seed`, the same one on every machine.
pub fn scenario(seed: u64) -> Scenario {
    if seed % 2 == 1 { jobs::scenario(seed) } else { one_job(seed) }
}

fn one_job(seed: u64) -> Scenario {
    let mut rng = Rng::new(seed, STREAM);
    let ranks = 1 + u32::try_from(rng.below(5)).unwrap_or(0);
    let nodes = 1 + u32::try_from(rng.below(u64::from(ranks))).unwrap_or(0);
    let program = program(&mut rng, ranks);
    let mut only = LiteMap::new();
    let mut scripts = Vec::new();
    for rank in 0..ranks {
        let version = match program.needs {
            Some(version) => version,
            None => [Version::V1_1, Version::V1_1, Version::V1_2, Version::V2_0][rng.index(4)],
        };
        let dialect = Dialect::Pmi(version);
        let connects_by_itself = rng.chance(Percent(20));
        only.insert(rank, own_traits(dialect, connects_by_itself));
        scripts.push(script(&mut rng, rank, program.steps.clone()));
    }
    Scenario {
        name: format!("random-{seed}"),
        seed: Some(seed),
        ranks,
        nodes,
        host: host(&mut rng),
        all: traits(&mut rng),
        only,
        scripts,
        faults: faults(&mut rng),
        ..Scenario::default()
    }
}

/// The program of all ranks.
struct RankScript {
    steps: Vec<Step>,
    /// The version that a part of it requires.
    needs: Option<Version>,
}

fn program(rng: &mut Rng, ranks: u32) -> RankScript {
    let needs = match rng.below(10) {
        0..3 if ranks > 1 => Some(Version::V1_2),
        3..5 => Some(Version::V2_0),
        _ => None,
    };
    let mut steps = vec![Step::Open];
    for phase in 0..1 + rng.below(6) {
        let key = |name: &str| Phrase::from(name);
        let shared = format!("shared-{}", rng.below(3));
        let choices = match needs {
            None => 8,
            Some(Version::V1_2) => 11,
            Some(_) => 10,
        };
        match rng.below(choices) {
            0 | 1 => steps.push(put(&format!("own-{phase}-$r"), &format!("v-{phase}-$r"))),
            2 => steps.push(put(&shared, &format!("v-{phase}-$r"))),
            3 => steps.push(fence(GroupPhrase::Job, None)),
            4 => {
                steps.push(put("card-$r", &format!("v-{phase}-$r")));
                steps.push(fence(GroupPhrase::Job, None));
                steps.push(Step::Each { name: "p".into(), steps: vec![get("card-$p")] });
            }
            5 => steps.push(get(&shared)),
            6 => {
                steps.push(Step::Publish { service: key("s-$r"), port: key("port-$r") });
                steps.push(Step::Lookup { service: key("s-$r"), wait: false, wanted: None });
                steps.push(Step::Unpublish { service: key("s-$r") });
            }
            7 => steps.extend([
                Step::AppNum,
                Step::Universe,
                put("long-$r", "~700"),
                get("long-$prev"),
            ]),
            8 | 9 if needs == Some(Version::V2_0) => {
                steps.push(Step::Put { node: true, key: key("n-$r"), value: key("of-$r") });
                let (wait, wanted) = (rng.below(2) == 0, None);
                steps.push(Step::Get { node: true, key: key("n-$prev"), of: None, wait, wanted });
            }
            8 => steps.push(fence(GroupPhrase::Node, Some(3))),
            9 => steps.push(fence(GroupPhrase::World, Some(5))),
            _ => {
                steps.push(Step::Also(Box::new(fence(GroupPhrase::World, Some(7)))));
                steps.push(Step::Also(Box::new(fence(GroupPhrase::Node, Some(9)))));
                steps.push(Step::Wait);
                steps.push(get(&shared));
            }
        }
    }
    steps.push(Step::Finalize);
    RankScript { steps, needs }
}

fn own_traits(dialect: Dialect, connects_by_itself: bool) -> Traits {
    Traits {
        dialect: Some(dialect),
        connects_by_itself: Some(connects_by_itself),
        ..Traits::default()
    }
}

/// The script of one rank; a few ranks deviate from their steps at random places.
fn script(rng: &mut Rng, rank: u32, mut steps: Vec<Step>) -> Script {
    if rng.chance(Percent(15)) {
        let at = rng.index(steps.len() + 1);
        steps.splice(at..at, mischief(rng));
    }
    Script { who: Who::These(vec![rank]), steps }
}

fn put(key: &str, value: &str) -> Step {
    Step::Put { node: false, key: key.into(), value: value.into() }
}

fn get(key: &str) -> Step {
    Step::Get { node: false, key: key.into(), of: None, wait: false, wanted: None }
}

const fn fence(group: GroupPhrase, tag: Option<u32>) -> Step {
    Step::Fence { group, tag }
}

fn mischief(rng: &mut Rng) -> Vec<Step> {
    match rng.below(12) {
        0 => vec![Step::Die],
        1 => vec![Step::Exit(0)],
        2 => vec![Step::Exit(3)],
        3 => vec![Step::Finalize, Step::Sleep(Span::new(0, 5000))],
        4 => vec![Step::Leave, Step::Sleep(Span::new(0, 5000))],
        5 => vec![Step::Stop],
        6 => vec![Step::Hang],
        7 => vec![Step::Garbage(Span::new(1, 80)), Step::Sleep(Span::new(0, 3000))],
        8 => {
            vec![Step::Send(Phrase(b"cmd=frobnicate x=1\ncmd=get_maxes\ncmd=get_appnum\n".into()))]
        }
        9 => vec![Step::Abort { code: 7, message: Some("no way".into()) }],
        10 => vec![Step::Finalize, Step::Hang],
        _ => vec![fence(GroupPhrase::Job, None)],
    }
}

fn host(rng: &mut Rng) -> HostPlan {
    HostPlan {
        kills: rng.chance(Percent(30)),
        pace: Span::new(0, rng.below(60)),
        grace: Span::new(0, 100),
        notice: Span::new(0, rng.below(600)),
        store_bytes: if rng.chance(Percent(10)) { 512 } else { 0 },
        ..HostPlan::default()
    }
}

fn traits(rng: &mut Rng) -> Traits {
    let rare = |rng: &mut Rng, percent| {
        let is_bad = rng.chance(Percent(25));
        Some(Percent(if is_bad { percent } else { 0 }))
    };
    let room = [1, 7, 40, 300, 8192][rng.index(5)];
    Traits {
        start: Some(Span::new(0, rng.below(500))),
        pace: Some(Span::new(0, rng.below(50))),
        latency: Some(Span::new(0, rng.below(300))),
        split: rare(rng, 60),
        join: rare(rng, 40),
        room: Some(room),
        stall: Some((rare(rng, 5).unwrap_or_default(), Span::new(10, 2000))),
        flip: rare(rng, 2),
        reset: rare(rng, 1),
        ..Traits::default()
    }
}

fn faults(rng: &mut Rng) -> Vec<Fault> {
    let count = if rng.chance(Percent(50)) { rng.below(3) } else { 0 };
    let span = Span::new(0, 4000);
    let fault = |rng: &mut Rng| Fault {
        chance: Percent(100),
        at: span,
        what: match rng.below(9) {
            0 | 1 => FaultKind::Kill,
            2 => FaultKind::Stop(Some(Span::new(1, 3000))),
            3 => FaultKind::Stop(None),
            4 => FaultKind::Reset,
            5 => FaultKind::Cut,
            6 => FaultKind::Stall(Span::new(1, 3000)),
            7 => FaultKind::Flip(if rng.below(2) == 0 { Direction::Up } else { Direction::Down }),
            _ => {
                FaultKind::Shatter(if rng.below(2) == 0 { Direction::Up } else { Direction::Down })
            }
        },
        rank: None,
    };
    (0..count).map(|_| fault(rng)).collect()
}

const STREAM: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_scenarios_can_be_written_and_read() {
        for seed in 0..400 {
            let made = scenario(seed);
            let text = made.to_string();
            assert_eq!(text.parse::<Scenario>().as_ref(), Ok(&made), "{text}");
        }
    }
}
