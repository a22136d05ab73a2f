//! Every scenario under many seeds, and the same run twice.

use pmi_sim::mutant::MutantKind;
use pmi_sim::snapshot::Snapshot;
use pmi_sim::sweep::{Case, run, sweep};
use pmi_sim::{Injection, Options, Scenario, World, scenario, shipped, trace};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn shipped(name: &str) -> Scenario {
    shipped::text(name).unwrap().parse().unwrap()
}

fn traced(scenario: &Scenario, seed: u64) -> String {
    let mut world = World::new(scenario, seed).unwrap();
    world.run(u64::MAX);
    trace::write(&world)
}

/// The step `sweep` of `cargo xtask test` plays 300 with an optimized build.
#[test]
fn scenarios_hold_under_their_first_seeds() {
    let cases = Case::all().unwrap();
    let summary = sweep(&cases, 0, 20, None);
    assert_eq!(summary.broken, []);
    assert_eq!(summary.runs, 20 * cases.len() as u64);
}

#[test]
fn files_of_the_directory_are_shipped_under_their_names() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let files = fs::read_dir(directory).unwrap().map(|file| file.unwrap().file_name());
    let files: BTreeSet<String> =
        files.map(|name| name.to_str().unwrap().strip_suffix(".txt").unwrap().into()).collect();
    let names: BTreeSet<String> = shipped::SHIPPED.iter().map(|(name, _)| (*name).into()).collect();
    assert_eq!(files, names);
    for (name, text) in shipped::SHIPPED {
        let scenario: Scenario = text.parse().unwrap();
        assert_eq!(scenario.name, *name);
        assert_eq!(scenario.about.len(), 1, "{name}");
    }
}

/// Fixed numbers, so that a change of any draw, order or message shows, on any machine.
#[test]
fn runs_are_the_same_bit_for_bit_everywhere() {
    let golden = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden.txt"));
    let mut now = String::new();
    for name in ["put-fence-get", "torn-frames", "dialects", "pmi2", "flipped", "dead-rank-kill"] {
        for seed in [0, 1, 4_000_000_000] {
            let hash = trace::hash(traced(&shipped(name), seed).as_bytes());
            now.push_str(&format!("{name} {seed} {hash:016x}\n"));
        }
    }
    // An intended change is committed by hand, after a review.
    assert!(now == golden.unwrap(), "tests/golden.txt does not say what happens now:\n{now}");
}

#[test]
fn seed_is_a_run_and_another_seed_is_another() {
    for name in ["stopped", "broken-links"] {
        assert_eq!(traced(&shipped(name), 5), traced(&shipped(name), 5));
        assert_ne!(traced(&shipped(name), 5), traced(&shipped(name), 6));
    }
}

#[test]
fn clone_goes_on_as_its_original_does_and_a_branch_leaves_it_alone() {
    let scenario = shipped("flipped");
    let mut world = World::new(&scenario, 3).unwrap();
    world.run(120);
    let mut clone = world.clone();
    assert_eq!(Snapshot::new(&clone), Snapshot::new(&world));
    let mut branch = world.clone();
    branch.inject(Injection::Fault { rank: 1, what: scenario::FaultKind::Kill });
    assert!(branch.run(u64::MAX) && world.run(u64::MAX) && clone.run(u64::MAX));
    assert_eq!(trace::write(&world), trace::write(&clone));
    assert_ne!(trace::write(&world), trace::write(&branch));
    // A branch can be run again as well, past its injection and before.
    assert_eq!(trace::write(&branch.clone()), trace::write(&branch));
    assert_eq!(Snapshot::new(&branch.at_step(120)), Snapshot::new(&branch.at_step(120)));
    assert_eq!(branch.at_step(60).entries(), world.at_step(60).entries());
}

#[test]
fn injected_steps_precede_the_script() {
    let text =
        "ranks 2\nscript 0\n open\n manual\nend\nscript 1\n open\n put k v\n fence\n finalize\nend";
    let mut world = World::new(&text.parse().unwrap(), 0).unwrap();
    assert!(world.run(u64::MAX));
    assert_eq!(Snapshot::new(&world).debts[0].debtors[..], [0]);
    for step in ["fence", "get k is v", "finalize"] {
        world.inject(Injection::order(0, step).unwrap());
        assert!(world.run(u64::MAX));
    }
    assert_eq!(world.violations(), []);
    let finished = world.checks().census().all().filter(|(_, facts)| facts.is_finished);
    assert_eq!(finished.count(), 2);
    assert!(Injection::order(0, "jump").is_err());
    assert_eq!(trace::write(&world.clone()), trace::write(&world));
}

#[test]
fn world_that_records_nothing_breaks_the_same_rules() {
    let scenario = shipped("put-fence-get");
    let options = Options { mutant: Some(MutantKind::WrongValue), ..Options::default() };
    let mut world = World::with(&scenario, 1, options).unwrap();
    world.run(u64::MAX);
    let (broken, steps) = run(&scenario, 1, Some(MutantKind::WrongValue));
    assert_eq!(broken.unwrap().rule, world.violations()[0].rule);
    assert_eq!(steps, world.steps());
}
