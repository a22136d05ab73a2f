//! Runs of the tree of nodes.

use crate::fields::nodes;
use crate::json::Json;
use crate::story::Story;
use pmi_sim::tree::{NodeId, TreeFault, TreeNodeLife, TreeNodeView, TreeScenario, TreeWorld};
use wasm_bindgen::prelude::*;

/// A run of a tree: its end, and the displayed moment. The page calls it as it calls a [`Play`](crate::Play).
#[wasm_bindgen]
#[derive(Debug)]
pub struct TreePlay {
    scenario: TreeScenario,
    seed: u64,
    injections: Vec<InjectedFault>,
    whole: TreeWorld,
    then: TreeWorld,
    story: Story,
}

/// A fault, and the number of steps before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InjectedFault {
    after: u64,
    fault: TreeFault,
}

#[wasm_bindgen]
impl TreePlay {
    /// Plays a tree to its end, with injections: a line each, as in a link.
    ///
    /// # Errors
    ///
    /// A scenario that cannot be played, or an invalid line, with the cause.
    #[wasm_bindgen(constructor)]
    pub fn new(scenario: &str, seed: u64, done: &str) -> Result<Self, JsError> {
        Self::read(scenario, seed, done).map_err(|why| JsError::new(&why))
    }

    /// Events and fences, from the start to the end, and the names that [`numbers`](Self::numbers) refers
    /// to.
    pub fn story(&self) -> String {
        Json::of(|json| {
            json.text("name", &self.scenario.name);
            json.list("about", &self.scenario.about, |json, line| json.word(line));
            json.text("seed", &self.seed.to_string());
            json.plain("steps", self.whole.steps());
            json.plain("end", self.whole.time() * 1000);
            json.plain("cut", !self.whole.is_over());
            json.text("unit", "node");
            json.text("hub", "head");
            json.plain("radix", self.scenario.plan.radix);
            json.plain("ranks", self.scenario.plan.members);
            self.story.write(json);
        })
    }

    /// Eight numbers of each message, as those of a run.
    pub fn numbers(&self) -> Vec<f64> {
        self.story.numbers()
    }

    /// For each message the lane of the upper end of its edge; -1 if that is the head.
    pub fn peers(&self) -> Vec<i32> {
        let peer =
            |peer: Option<usize>| peer.and_then(|peer| i32::try_from(peer).ok()).unwrap_or(-1);
        self.story.messages.iter().map(|message| peer(message.peer)).collect()
    }

    /// Three numbers of each part of each message, as those of a run.
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

    /// State of the run after `step` steps.
    pub fn view(&mut self, step: u32) -> String {
        self.seek(step.into());
        view(&self.then)
    }

    /// State of one node after `step` steps.
    pub fn rank(&mut self, step: u32, lane: usize) -> String {
        self.seek(step.into());
        node(&self.then, lane)
    }

    /// Lets faults happen after `step` steps, a line each, and plays on from there. What was done later is
    /// dropped.
    ///
    /// # Errors
    ///
    /// Unknown words, with the known ones.
    pub fn inject(&mut self, step: u32, what: &str) -> Result<(), JsError> {
        self.act(step.into(), what).map_err(|why| JsError::new(&why))
    }

    /// Injections of the run, a line each.
    pub fn done(&self) -> String {
        self.injections.iter().map(|one| format!("{} {}\n", one.after, one.fault)).collect()
    }

    /// The text of the scenario.
    pub fn scenario(&self) -> String {
        self.scenario.to_string()
    }
}

impl TreePlay {
    fn read(scenario: &str, seed: u64, done: &str) -> Result<Self, String> {
        let scenario: TreeScenario = scenario.parse().map_err(|error| format!("{error}"))?;
        let injections = done
            .lines()
            .map(|line| read_injection(line, &scenario))
            .collect::<Result<Vec<_>, _>>()?;
        let then = TreeWorld::new(scenario.plan.clone(), seed, None);
        let whole = played(&scenario, seed, &injections, u64::MAX, true);
        let story = Story::of_tree(&whole);
        Ok(Self { scenario, seed, injections, whole, then, story })
    }

    fn act(&mut self, step: u64, what: &str) -> Result<(), String> {
        let mut injections: Vec<InjectedFault> = self.injections.clone();
        injections.retain(|one| one.after <= step);
        for line in what.lines() {
            injections.push(read_injection(&format!("{step} {line}"), &self.scenario)?);
        }
        self.whole = played(&self.scenario, self.seed, &injections, u64::MAX, true);
        self.story = Story::of_tree(&self.whole);
        self.injections = injections;
        self.rewind(step);
        Ok(())
    }

    /// Moves to a step: from the displayed one if no injection lies between, else from the start.
    fn seek(&mut self, step: u64) {
        let here = self.then.steps();
        let is_between = |one: &InjectedFault| (here..=step).contains(&one.after);
        if step < here || self.injections.iter().any(is_between) {
            return self.rewind(step);
        }
        while self.then.steps() < step && self.then.step() {}
    }

    fn rewind(&mut self, step: u64) {
        self.then = played(&self.scenario, self.seed, &self.injections, step, false);
    }
}

/// A run up to a step, with the injections up to then.
fn played(
    scenario: &TreeScenario,
    seed: u64,
    injections: &[InjectedFault],
    step: u64,
    is_recorded: bool,
) -> TreeWorld {
    let mut world = TreeWorld::new(scenario.plan.clone(), seed, None);
    if is_recorded {
        world.record();
    }
    for one in injections.iter().take_while(|one| one.after <= step) {
        while world.steps() < one.after && world.step() {}
        world.inject(one.fault);
    }
    while world.steps() < step.min(STEPS_MAX) && world.step() {}
    world
}

fn read_injection(line: &str, scenario: &TreeScenario) -> Result<InjectedFault, String> {
    let words: Vec<&str> = line.split_whitespace().filter(|word| *word != "quiet").collect();
    let error = || format!("`{line}` is not `STEP FAULT NODE`");
    let [after, word, node] = *words.as_slice() else { return Err(error()) };
    let after = after.parse().ok().filter(|after| *after <= STEPS_MAX).ok_or_else(error)?;
    let node: u32 = node.parse().map_err(|_| error())?;
    let last = scenario.plan.nodes - 1;
    if node > last {
        return Err(format!("there is no node {node}; the last one is {last}"));
    }
    Ok(InjectedFault { after, fault: TreeFault::read(word, NodeId(node))? })
}

/// Writes the state of all nodes.
fn view(world: &TreeWorld) -> String {
    let nodes = world.plan().nodes;
    let views: Vec<TreeNodeView> = (0..nodes).map(|node| world.view(NodeId(node))).collect();
    let (head, below) = (views[0], &views[1..]);
    let is_running = |view: &TreeNodeView| view.life == TreeNodeLife::Running;
    let fence = head.ended + 1;
    let waiting = || {
        below.iter().enumerate().filter(|(_, view)| is_running(view) && view.entered > view.ended)
    };
    let missing: Vec<usize> =
        (0..below.len()).filter(|lane| below[*lane].entered < fence).collect();
    let inside = below.len() - missing.len();
    let some = |json: &mut Json, name: &str| {
        json.list(name, missing.iter().take(NAMED_MAX), |json, lane| json.value(lane + 1));
        json.plain(&format!("{name}_count"), missing.len());
    };
    Json::of(|json| {
        json.plain("time", world.time());
        json.plain("step", world.steps());
        json.plain("quiet", world.is_over());
        json.list("ranks", below, |json, view| json.word(&state(*view)));
        json.list("parents", below, |json, view| match view.parent {
            Some(parent) => json.value(parent.0),
            None => json.value("null"),
        });
        json.text("head", life(head.life));
        json.plain("key_count", 0);
        json.plain("hidden_count", 0);
        json.list("keys", [(); 0], |_, ()| {});
        let is_open = fence <= world.plan().operations && is_running(&head);
        json.list("fences", is_open.then_some(()), |json, ()| {
            json.object(|json| {
                json.text("job", "tree");
                json.plain("ranks", below.len());
                json.plain("generation", head.ended);
                json.plain("inside", inside);
                json.plain("key_count", 0);
                json.plain("hidden_count", 0);
                some(json, "missing");
            });
        });
        json.plain("debt_count", waiting().count());
        json.list("debts", waiting().take(DEBTS_MAX), |json, (lane, view)| {
            json.object(|json| {
                json.plain("rank", lane + 1);
                json.text("what", &format!("fence {}", view.ended + 1));
                some(json, "debtors");
            });
        });
        json.list("broken", world.checks().violations(), |json, violation| {
            json.object(|json| {
                json.text("rule", violation.rule);
                json.text("what", &violation.what);
            });
        });
    })
}

/// Writes the state of the node of a lane.
fn node(world: &TreeWorld, lane: usize) -> String {
    let number = u32::try_from(lane + 1).unwrap_or(u32::MAX);
    Json::of(|json| {
        if number >= world.plan().nodes {
            return;
        }
        let view = world.view(NodeId(number));
        json.plain("rank", number);
        json.plain("node", number);
        json.text("life", life(view.life));
        json.text("client", client(view));
        json.text("member", nodes::DIALECT);
        json.maybe("parent", view.parent.map(|parent| parent.0));
        json.plain("entered", view.entered);
        json.plain("ended", view.ended);
        let asks = (view.entered > view.ended).then(|| format!("fence {}", view.ended + 1));
        json.list("asks", asks, |json, ask| json.word(&ask));
        json.text("next", "");
        json.list("may", [(); 0], |_, ()| {});
    })
}

/// As the line of a rank: its process, its edge, and its request.
fn state(view: TreeNodeView) -> String {
    let mut all = format!("{} {} {}", life(view.life), client(view), nodes::DIALECT);
    if view.entered > view.ended {
        all.push_str(&format!("\nfence {}", view.ended + 1));
    }
    all
}

const fn client(view: TreeNodeView) -> &'static str {
    if view.parent.is_some() { "attached" } else { "detached" }
}

const fn life(life: TreeNodeLife) -> &'static str {
    match life {
        TreeNodeLife::Running => "running",
        TreeNodeLife::Stopped => "stopped",
        TreeNodeLife::Killed => "killed",
        TreeNodeLife::Left => "left",
    }
}

/// More nodes are counted, and not named.
const NAMED_MAX: usize = 8;

/// More wait-for relations are not read.
const DEBTS_MAX: usize = 100;

/// A run of more steps than this is cut, so that the page answers in any case.
const STEPS_MAX: u64 = 200_000;

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "tree 20\nranks 16\nfences 2\nbytes 40..80\npace 0..300\nlatency 30..60";

    fn play() -> TreePlay {
        TreePlay::read(TEXT, 5, "").unwrap()
    }

    #[test]
    fn any_moment_of_a_tree_looks_the_same_from_both_sides() {
        let mut play = play();
        let last = u32::try_from(play.whole.steps()).unwrap();
        let forward: Vec<String> = (0..=last).map(|step| play.view(step)).collect();
        for step in (0..=last).rev().step_by(7) {
            assert_eq!(play.view(step), forward[usize::try_from(step).unwrap()]);
        }
        assert!(forward[0].contains(r#""parents":[null,null"#));
        let end = &forward[forward.len() - 1];
        assert!(end.contains(r#""parents":[0,0,0,0,1,1,1,1,2"#), "{end}");
        assert!(end.contains(r#""ranks":["running attached nodes","#), "{end}");
        let is_waiting =
            |view: &&String| view.contains(r#""inside":7,"#) && view.contains("\\nfence 1");
        assert!(forward.iter().any(|view| is_waiting(&view)));
    }

    #[test]
    fn killed_node_is_replaced_by_its_parent_and_reported() {
        let mut play = play();
        let messages = &play.story.messages;
        let one = messages.iter().find(|one| one.summary.name == "contribution").unwrap();
        let step = u32::try_from(one.sent.step).unwrap();
        play.act(step.into(), "kill 1").unwrap();
        assert_eq!(play.done(), format!("{step} kill 1\n"));
        let last = u32::try_from(play.whole.steps()).unwrap();
        let view = play.view(last);
        assert!(view.contains(r#""parents":[null,0,0,0,0,0,0,0,2"#), "{view}");
        assert!(view.contains(r#""ranks":["killed detached"#), "{view}");
        assert!(play.story().contains("head report 1"));
        assert!(!play.story().contains("\"kind\":\"rule\""));
        let again = TreePlay::read(TEXT, 5, &play.done()).unwrap();
        assert_eq!(again.story(), play.story());
        // Earlier again: what was done later is dropped.
        play.act(10, "reset 3").unwrap();
        assert_eq!(play.done(), "10 reset 3\n");
    }

    #[test]
    fn lost_head_ends_all_nodes() {
        let mut play = play();
        play.act(60, "kill 0").unwrap();
        let last = u32::try_from(play.whole.steps()).unwrap();
        let view = play.view(last);
        assert_eq!(view.matches("left detached").count(), 20, "{view}");
        assert!(view.contains(r#""head":"killed""#));
    }

    #[test]
    fn words_that_mean_nothing_to_a_tree_are_refused_and_change_nothing() {
        let mut play = play();
        for what in ["melt 1", "kill 1\nmelt 1", "kill 21", "order 1 fence", "kill any", "kill"] {
            assert!(play.act(3, what).is_err(), "{what}");
        }
        assert_eq!(play.story(), self::play().story());
        assert!(TreePlay::read("ranks 3", 0, "").is_err());
        assert!(TreePlay::read(TEXT, 0, "999999999 kill 1").is_err());
        assert_eq!(play.rank(0, 20), "{}");
    }
}
