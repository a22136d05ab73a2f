//! Runs of the simulator.

use crate::json::Json;
use crate::states::StateChanges;
use crate::story::Story;
use crate::view;
use pmi_sim::mutant::MutantKind;
use pmi_sim::world::{Injected, Injection, Options};
use pmi_sim::{Scenario, World, trace};
use wasm_bindgen::prelude::*;

/// A run: its end, and the displayed moment.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Play {
    /// The world at the end of the run.
    whole: World,
    /// The world at the displayed moment.
    then: World,
    /// Messages and events of the whole run.
    story: Story,
    /// States of the ranks, at every moment.
    states: StateChanges,
    /// The known fault of the server.
    mutant: Option<MutantKind>,
}

#[wasm_bindgen]
impl Play {
    /// Plays a scenario to its end, with injections: a line each, as in a trace.
    ///
    /// # Errors
    ///
    /// A scenario that cannot be played, or an invalid line, with the cause.
    #[wasm_bindgen(constructor)]
    pub fn new(scenario: &str, seed: u64, done: &str) -> Result<Self, JsError> {
        Self::read(scenario, seed, done).map_err(|why| JsError::new(&why))
    }

    /// Repeats the run of a trace of the simulator.
    ///
    /// # Errors
    ///
    /// A text that is no such trace.
    pub fn of_trace(text: &str) -> Result<Self, JsError> {
        let trace = trace::read(text)?;
        Self::with(&trace.scenario, trace.seed, &trace.injections, None)
            .map_err(|why| JsError::new(&why))
    }

    /// Events and fences, from the start to the end, and the names that [`numbers`](Self::numbers) refers
    /// to.
    pub fn story(&self) -> String {
        let (scenario, world) = (self.whole.scenario(), &self.whole);
        Json::of(|json| {
            json.text("name", &scenario.name);
            json.list("about", &scenario.about, |json, line| json.word(line));
            json.text("seed", &world.seed().to_string());
            json.plain("steps", world.steps());
            json.plain("end", world.time() * 1000);
            json.plain("cut", !world.is_quiet());
            self.story.write(json);
        })
    }

    /// Eight numbers of each message: lane, flags (1: to the server, 2: made by no client, 4: an error), time
    /// and step of sending, length, number of parts, and the numbers of its name and its wire format.
    pub fn numbers(&self) -> Vec<f64> {
        self.story.numbers()
    }

    /// Three numbers of each part of each message: time and step of its arrival, and the bytes that had
    /// arrived.
    pub fn parts(&self) -> Vec<f64> {
        self.story.parts()
    }

    /// The bytes of all messages.
    pub fn bytes(&self) -> Vec<u8> {
        self.story.bytes()
    }

    /// The fields of one message.
    pub fn fields(&self, index: usize) -> String {
        self.story.fields(index)
    }

    /// The different states of ranks, in words.
    pub fn state_words(&self) -> String {
        self.states.words()
    }

    /// Three numbers of each change of a state, in order: its step, its rank, and the number of the state.
    pub fn state_changes(&self) -> Vec<u32> {
        self.states.numbers()
    }

    /// State of the run after `step` steps.
    pub fn view(&mut self, step: u32) -> String {
        self.seek(step.into());
        view::view(&self.then)
    }

    /// State of one rank after `step` steps.
    pub fn rank(&mut self, step: u32, rank: usize) -> String {
        self.seek(step.into());
        view::rank(&self.then, rank)
    }

    /// Lets something happen after `step` steps, a line each, and plays on from there. What was done later
    /// is dropped.
    ///
    /// # Errors
    ///
    /// Unknown words, with the known ones.
    pub fn inject(&mut self, step: u32, what: &str) -> Result<(), JsError> {
        self.act(step.into(), what).map_err(|why| JsError::new(&why))
    }

    /// Injections of the run, a line each.
    pub fn done(&self) -> String {
        self.whole.injections().iter().map(|injected| format!("{injected}\n")).collect()
    }

    /// The text of the scenario.
    pub fn scenario(&self) -> String {
        self.whole.scenario().to_string()
    }

    /// The whole run as a trace of the simulator.
    pub fn trace(&self) -> String {
        trace::write(&self.whole)
    }
}

#[cfg(feature = "pmix")]
#[wasm_bindgen]
impl Play {
    /// Plays a scenario with a server that has a known fault, by its name.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new), and a name of no fault, with the known ones.
    pub fn of_mutant(scenario: &str, seed: u64, done: &str, mutant: &str) -> Result<Self, JsError> {
        Self::read_mutant(scenario, seed, done, mutant).map_err(|why| JsError::new(&why))
    }
}

/// The same scenario with all ranks in PMIx.
///
/// # Errors
///
/// A scenario that cannot be read, or a sentence on what PMIx ranks cannot do of it.
#[cfg(feature = "pmix")]
#[wasm_bindgen]
pub fn in_pmix(scenario: &str) -> Result<String, JsError> {
    let scenario: Scenario = scenario.parse()?;
    let sentence = |what| JsError::new(&format!("This scenario {what}."));
    scenario.in_pmix().map(|as_pmix| as_pmix.to_string()).map_err(sentence)
}

impl Play {
    fn read(scenario: &str, seed: u64, done: &str) -> Result<Self, String> {
        let scenario: Scenario = scenario.parse().map_err(said)?;
        let done: Result<Vec<Injected>, _> = done.lines().map(str::parse).collect();
        Self::with(&scenario, seed, &done.map_err(said)?, None)
    }

    #[cfg(feature = "pmix")]
    fn read_mutant(scenario: &str, seed: u64, done: &str, mutant: &str) -> Result<Self, String> {
        let scenario: Scenario = scenario.parse().map_err(said)?;
        let done: Result<Vec<Injected>, _> = done.lines().map(str::parse).collect();
        let mutant = mutant.parse().map_err(said)?;
        Self::with(&scenario, seed, &done.map_err(said)?, Some(mutant))
    }

    fn with(
        scenario: &Scenario,
        seed: u64,
        done: &[Injected],
        mutant: Option<MutantKind>,
    ) -> Result<Self, String> {
        let last = done.last().map_or(0, |injected| injected.after);
        if last > STEPS_MAX {
            return Err(format!(
                "an injection is after step {last}; a run ends at step {STEPS_MAX}"
            ));
        }
        let (whole, states) = played(scenario, seed, done, mutant)?;
        let then = World::with(scenario, seed, Options { mutant, ..BRIEF }).map_err(said)?;
        let story = Story::of_world(&whole);
        Ok(Self { whole, then, story, states, mutant })
    }

    fn act(&mut self, step: u64, what: &str) -> Result<(), String> {
        let read = |line: &str| Ok(format!("0 {line}").parse::<Injected>().map_err(said)?.what);
        let all: Vec<Injection> = what.lines().map(read).collect::<Result<_, String>>()?;
        let ranks = self.whole.scenario().ranks;
        for Injection::Fault { rank, .. } | Injection::Order { rank, .. } in &all {
            if *rank >= ranks {
                return Err(format!("there is no rank {rank}; the last one is {}", ranks - 1));
            }
        }
        let mut done = self.whole.injections().to_vec();
        done.retain(|injected| injected.after <= step);
        let mut when_quiet = step >= self.whole.steps() && self.whole.is_quiet();
        let after = step.min(self.whole.steps());
        for what in all {
            done.push(Injected { after, when_quiet, what });
            when_quiet = false;
        }
        let (scenario, seed) = (self.whole.scenario(), self.whole.seed());
        (self.whole, self.states) = played(scenario, seed, &done, self.mutant)?;
        self.story = Story::of_world(&self.whole);
        self.rewind(step);
        Ok(())
    }

    /// Moves to a step: from the displayed one if no injection lies between, else from the start.
    fn seek(&mut self, step: u64) {
        let here = self.then.steps();
        let is_done = |injected: &Injected| (here..=step).contains(&injected.after);
        if step < here || self.whole.injections().iter().any(is_done) {
            self.rewind(step);
        }
        while self.then.steps() < step && self.then.step() {}
        if step >= self.whole.steps() && self.whole.is_quiet() {
            self.then.step();
        }
    }

    fn rewind(&mut self, step: u64) {
        let (scenario, done) = (self.whole.scenario(), self.whole.injections());
        let brief = Options { mutant: self.mutant, ..BRIEF };
        let then = World::again(scenario, self.whole.seed(), brief, done, step);
        // It was made from the same scenario before.
        self.then = then.expect("a run that was played can be played again");
    }
}

/// A run to its end, with injections, and the states of its ranks.
fn played(
    scenario: &Scenario,
    seed: u64,
    done: &[Injected],
    mutant: Option<MutantKind>,
) -> Result<(World, StateChanges), String> {
    let options = Options { mutant, ..Options::default() };
    let mut world = World::with(scenario, seed, options).map_err(said)?;
    let mut states = StateChanges::new(&world);
    for Injected { after, when_quiet, what } in done {
        while world.steps() < *after && step(&mut world, &mut states) {}
        if *when_quiet {
            step(&mut world, &mut states);
        }
        world.inject(what.clone());
        states.on_step(&world);
    }
    while world.steps() < STEPS_MAX && step(&mut world, &mut states) {}
    Ok((world, states))
}

fn step(world: &mut World, states: &mut StateChanges) -> bool {
    let goes_on = world.step();
    states.on_step(world);
    goes_on
}

/// The world at the displayed moment needs no trace.
const BRIEF: Options = Options { records: false, checks_all: false, mutant: None };

/// A run of more steps than this is cut, so that the page answers in any case.
const STEPS_MAX: u64 = 200_000;

fn said(error: impl ToString) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "ranks 2\nscript all\n open\n put k-$r v\n fence\n get k-$next\n finalize\nend";

    fn play() -> Play {
        Play::read(TEXT, 5, "").unwrap()
    }

    #[test]
    fn any_moment_looks_the_same_from_both_sides() {
        let mut play = play();
        let last = u32::try_from(play.whole.steps()).unwrap();
        let forward: Vec<String> = (0..=last).map(|step| play.view(step)).collect();
        for step in (0..=last).rev() {
            assert_eq!(play.view(step), forward[usize::try_from(step).unwrap()]);
        }
        assert!(forward.last().unwrap().contains("\"quiet\":true"));
    }

    #[test]
    fn injections_change_later_events_only() {
        let (whole, mut play) = (play(), play());
        play.act(20, "kill 1").unwrap();
        assert!(play.story().contains("\"kind\":\"report\""));
        assert_eq!(play.done(), "20 kill 1\n");
        let common = whole.whole.entries().iter().zip(play.whole.entries());
        assert!(common.take_while(|(a, b)| a == b).all(|(a, _)| a.step <= 20));
        // Earlier again: what was done later is dropped.
        play.act(10, "kill 0").unwrap();
        assert_eq!(play.done(), "10 kill 0\n");
        let again = Play::read(TEXT, 5, &play.done()).unwrap();
        assert_eq!(again.story(), play.story());
    }

    #[test]
    fn quiet_run_continues_after_an_injection() {
        let text = "ranks 1\nscript all\n open\n manual\nend";
        let mut play = Play::read(text, 0, "").unwrap();
        let end = u32::try_from(play.whole.steps()).unwrap();
        play.act(end.into(), "order 0 put k v").unwrap();
        assert!(play.bytes().windows(7).any(|bytes| bytes == b"cmd=put"));
        let last = u32::try_from(play.whole.steps()).unwrap();
        assert!(play.view(last).contains("\"key\":\"k\""));
        assert!(!play.view(end).contains("\"key\":\"k\""));
        assert_eq!(Play::of_trace(&play.trace()).unwrap().story(), play.story());
        // Taken by the hand in the middle: it waits until it is let go.
        let mut play = self::play();
        play.act(30, "order 1 manual").unwrap();
        assert!(!play.story().contains("rank 1 exit"));
        let end = play.whole.steps();
        play.act(end, "order 1 put by-hand 1\norder 1 manual").unwrap();
        assert!(play.story().contains("by-hand") && !play.story().contains("rank 1 exit"));
        play.act(play.whole.steps(), "order 1 wait").unwrap();
        assert!(play.story().contains("rank 1 exit 0"));
    }

    #[test]
    fn changed_run_is_not_judged_by_the_expectations_of_its_scenario() {
        let with = |expectation: &str| format!("{TEXT}\n{expectation}\n");
        let fails = |play: &mut Play| {
            let last = u32::try_from(play.whole.steps()).unwrap();
            let (story, view) = (play.story(), play.view(last));
            assert_eq!(story.contains("check - expected"), view.contains("\"rule\":\"expected\""));
            story.contains("check - expected")
        };
        let mut play = Play::read(&with("expect finish all"), 5, "").unwrap();
        assert!(!fails(&mut play));
        play.act(20, "kill 1").unwrap();
        assert!(play.story().contains("\"kind\":\"report\"") && !fails(&mut play));
        // The same from a link, and from a trace.
        assert!(!fails(&mut Play::read(&with("expect finish all"), 5, &play.done()).unwrap()));
        assert!(!fails(&mut Play::of_trace(&play.trace()).unwrap()));
        // An unchanged run is judged.
        assert!(fails(&mut Play::read(&with("expect report 1"), 5, "").unwrap()));
    }

    #[test]
    #[cfg(feature = "pmix")]
    fn fault_of_a_server_is_found_by_the_checkers_at_every_moment_of_the_run() {
        let text = "ranks 2\nscript 0\n open\n fence\n finalize\nend\n\
                    script 1\n open\n sleep 900\n fence\n finalize\nend";
        let mut play = Play::read_mutant(text, 1, "", "early-fence").unwrap();
        assert!(play.story().contains("check - fence"));
        let last = u32::try_from(play.whole.steps()).unwrap();
        assert!(play.view(last).contains("\"rule\":\"fence\""));
        assert!(!play.view(5).contains("\"rule\":\"fence\""));
        // A fault of a rank leaves the server as it is.
        play.act(10, "stall 0 5..9").unwrap();
        assert!(play.story().contains("check - fence"));
        assert!(Play::read_mutant(text, 1, "", "no-such").is_err());
        assert!(!Play::read(text, 1, "").unwrap().story().contains("check - "));
    }

    #[test]
    fn words_that_mean_nothing_are_refused_and_change_nothing() {
        let mut play = play();
        for what in [
            "\n",
            "melt 1",
            "kill 1\nmelt 1",
            "kill 7",
            "order 0 jump",
            "order 9 fence",
            "kill any",
        ] {
            assert!(play.act(3, what).is_err(), "{what}");
        }
        assert_eq!(play.story(), self::play().story());
        assert!(Play::read("ranks x", 0, "").is_err());
        assert!(Play::read(TEXT, 0, "nonsense").is_err());
        assert!(Play::read(TEXT, 0, "999999999 kill 1").is_err());
    }
}
