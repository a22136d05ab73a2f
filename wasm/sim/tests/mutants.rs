//! The checkers can fail: each fault that is built into the server is seen, by the rule it breaks.

use pmi_sim::mutant::MutantKind;
use pmi_sim::shrink::shrink;
use pmi_sim::sweep::run;
use pmi_sim::{Options, Scenario, World, shipped};
use std::collections::BTreeSet;

/// The rules that break under some seeds of a scenario.
fn rules(scenario: &Scenario, mutant: MutantKind) -> BTreeSet<&'static str> {
    let options = Options { mutant: Some(mutant), ..Options::default() };
    let worlds = (0..20).map(|seed| World::with(scenario, seed, options).unwrap());
    let violations = worlds.flat_map(|mut world| {
        world.run(u64::MAX);
        world.violations().to_vec()
    });
    violations.map(|violation| violation.rule).collect()
}

fn breaks(name: &str, mutant: MutantKind, rule: &str) {
    let scenario: Scenario = shipped::text(name).unwrap().parse().unwrap();
    let rules = rules(&scenario, mutant);
    assert!(rules.contains(rule), "{mutant} in {name} breaks {rules:?}");
}

#[test]
fn fence_that_lets_go_early_is_seen() {
    breaks("put-fence-get", MutantKind::EarlyFence, "fence");
}

#[test]
fn put_that_is_lost_is_seen() {
    breaks("put-fence-get", MutantKind::LosePut, "value");
}

#[test]
fn value_without_put_is_detected() {
    breaks("put-again", MutantKind::WrongValue, "value");
}

#[test]
fn port_without_publish_is_detected() {
    breaks("names", MutantKind::WrongPort, "name");
}

#[test]
fn second_answer_is_seen() {
    breaks("put-fence-get", MutantKind::AnswerTwice, "reply");
}

#[test]
fn answers_in_the_wrong_order_are_seen() {
    breaks("pipelined", MutantKind::Swap, "reply");
}

#[test]
fn answer_that_never_comes_is_seen() {
    breaks("put-fence-get", MutantKind::SwallowReply, "waits");
    breaks("nobody-left", MutantKind::SwallowReply, "waits");
}

#[test]
fn rank_that_a_fence_does_not_release_is_detected() {
    breaks("put-fence-get", MutantKind::SwallowRelease, "waits");
}

#[test]
fn unreported_failure_is_detected() {
    breaks("leave-early", MutantKind::ForgetReport, "named");
    // No rank has failed here, and a rank waits.
    breaks("finalize-early", MutantKind::ForgetReport, "waits");
    breaks("abort", MutantKind::ForgetReport, "named");
}

#[test]
fn innocent_who_is_blamed_is_seen() {
    breaks("unread-version", MutantKind::BlameAnother, "blamed");
}

#[test]
fn server_that_hoards_what_it_does_not_answer_is_seen() {
    breaks("slow-reader", MutantKind::Greedy, "bound");
}

#[test]
fn neighbour_that_is_harmed_is_seen() {
    breaks("garbage", MutantKind::HarmAnother, "harmed");
}

#[test]
fn spawn_that_is_denied_or_comes_half_is_seen() {
    breaks("spawn", MutantKind::DenySpawn, "spawn");
    breaks("spawn", MutantKind::ForgetPreput, "value");
    breaks("spawn-twice", MutantKind::GrantSpawn, "spawn");
}

#[test]
fn job_that_reads_where_it_may_not_is_seen() {
    breaks("connect-and-die", MutantKind::Leak, "apart");
}

#[test]
fn ring_that_is_wrong_or_lets_go_early_is_seen() {
    breaks("ring", MutantKind::WrongNeighbour, "ring");
    breaks("ring", MutantKind::EarlyRing, "fence");
    // The ring never completes, and no report names the cause.
    breaks("ring-broken", MutantKind::ForgetReport, "waits");
}

#[test]
fn pmix_mutants_are_detected() {
    breaks("pmix", MutantKind::OneNode, "scope");
    breaks("pmix", MutantKind::SwallowReply, "waits");
    breaks("pmix-mixed", MutantKind::EarlyFence, "fence");
    breaks("pmix-mixed-dead", MutantKind::ForgetReport, "named");
    breaks("pmix-dead", MutantKind::BlameAnother, "blamed");
    breaks("pmix-finalize-early", MutantKind::MissEnd, "waits");
}

#[test]
fn pmix_mutants_of_names_programs_and_jobs_are_detected() {
    breaks("pmix-names", MutantKind::WrongPort, "name");
    breaks("pmix-names", MutantKind::SwallowReply, "waits");
    breaks("pmix-spawn", MutantKind::DenySpawn, "spawn");
    breaks("pmix-spawn", MutantKind::GrantSpawn, "spawn");
    breaks("pmix-connect", MutantKind::EarlyFence, "fence");
    breaks("pmix-connect", MutantKind::EarlyFence, "connect");
}

/// Scenarios of PMI that are played by PMIx ranks: each fault breaks a rule.
#[test]
fn pmix_mutants_in_scenarios_of_pmi_are_detected() {
    for (name, mutant, rule) in [
        ("put-fence-get", MutantKind::EarlyFence, "fence"),
        ("group-fences", MutantKind::EarlyFence, "fence"),
        ("put-fence-get", MutantKind::LosePut, "value"),
        ("put-again", MutantKind::WrongValue, "value"),
        ("put-fence-get", MutantKind::WrongValue, "wanted"),
        ("put-fence-get", MutantKind::AnswerTwice, "reply"),
        ("put-fence-get", MutantKind::AnswerTwice, "harmed"),
        ("put-fence-get", MutantKind::SwallowReply, "waits"),
        ("put-fence-get", MutantKind::SwallowRelease, "waits"),
        ("put-fence-get", MutantKind::SwallowRelease, "expected"),
        ("leave-early", MutantKind::ForgetReport, "named"),
        ("names", MutantKind::WrongPort, "name"),
        ("abort", MutantKind::ForgetReport, "named"),
        ("leave-early", MutantKind::BlameAnother, "blamed"),
    ] {
        let scenario: Scenario = shipped::text(name).unwrap().parse().unwrap();
        let rules = rules(&scenario.in_pmix().unwrap(), mutant);
        assert!(rules.contains(rule), "{mutant} in {name} breaks {rules:?}");
    }
}

#[test]
fn name_that_outlives_its_job_is_seen() {
    breaks("publisher-gone", MutantKind::KeepName, "name");
}

#[test]
fn server_that_panics_is_seen() {
    let scenario: Scenario = shipped::text("names").unwrap().parse().unwrap();
    let broken = run(&scenario, 0, Some(MutantKind::Crash)).0.unwrap();
    assert_eq!((&*broken.rule, &*broken.what), ("panic", "a mutant crashes as it should"));
}

#[test]
fn required_replies_and_expected_results_are_checked() {
    let wants = "script all\n open\n put a 1\n get a is 2\n finalize\nend".parse().unwrap();
    assert_eq!(run(&wants, 0, None).0.unwrap().rule, "wanted");
    for expects in ["finish 0", "report 0", "report among 0"] {
        let text = format!("ranks 2\nscript all\n open\nend\nscript 0\nend\nexpect {expects}");
        let broken = run(&text.parse().unwrap(), 0, None).0.unwrap();
        assert_eq!(broken.rule, "expected", "{expects}");
    }
}

#[test]
fn shrunk_scenarios_still_fail() {
    let scenario: Scenario = shipped::text("put-fence-get").unwrap().parse().unwrap();
    let mutant = Some(MutantKind::EarlyFence);
    let broken = run(&scenario, 3, mutant).0.unwrap();
    let small = shrink(&broken, mutant).broken;
    assert_eq!(small.rule, broken.rule);
    assert_eq!(small.scenario.ranks, 2);
    let steps: usize = small.scenario.scripts.iter().map(|script| script.steps.len()).sum();
    assert!(steps <= 3, "{}", small.scenario);
    // It is a file like any other.
    let read: Scenario = small.scenario.to_string().parse().unwrap();
    assert_eq!(run(&read, read.seed.unwrap(), mutant).0.unwrap().rule, small.rule);
}
