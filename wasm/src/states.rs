//! States of all ranks over a whole run: a page asks for those of any moment, forward and back, without a
//! world that has to be played again.

use crate::json::Json;
use crate::view::{self, StateKey};
use pmi_sim::{Entry, SimEvent, World};

/// Changes of states, in the order of their steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StateChanges {
    /// Different states in words, in order, with their numbers.
    words: Vec<(String, u32)>,
    changes: Vec<StateChange>,
    /// The last state of each rank.
    last: Vec<Option<StateKey>>,
    /// Ranks of which the server may learn something without an entry: those that have ended, or whose link
    /// has, and those of jobs that are spawned.
    watched: Vec<usize>,
    /// Number of entries of the world so far.
    seen: usize,
}

/// A change of the state of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StateChange {
    step: u32,
    rank: u32,
    word: u32,
}

impl StateChanges {
    /// The states in a world before its first step.
    pub(crate) fn new(world: &World) -> Self {
        let mut states = Self { last: vec![None; world.sim_ranks().len()], ..Self::default() };
        let scenario = world.scenario();
        let is_later = |rank: &u32| scenario.home(*rank).job > 0;
        let later = (0..scenario.ranks).filter(is_later);
        states.watched.extend(later.filter_map(|rank| usize::try_from(rank).ok()));
        states.record_all(world);
        states
    }

    /// Records what the last step, or an injection after it, has changed: the ranks that its entries name,
    /// and all if one names none.
    pub(crate) fn on_step(&mut self, world: &World) {
        let entries = &world.entries()[self.seen..];
        self.seen = world.entries().len();
        let rank_of = |entry: &Entry| usize::try_from(entry.event.rank()?).ok();
        let ended = entries.iter().filter(|entry| is_end(&entry.event));
        self.watched.extend(ended.filter_map(rank_of));
        if entries.iter().any(|entry| entry.event.rank().is_none()) {
            return self.record_all(world);
        }
        for rank in self.watched.clone() {
            self.record_rank(world, rank);
        }
        for rank in entries.iter().filter_map(rank_of) {
            self.record_rank(world, rank);
        }
    }

    fn record_all(&mut self, world: &World) {
        (0..self.last.len()).for_each(|rank| self.record_rank(world, rank));
    }

    fn record_rank(&mut self, world: &World, rank: usize) {
        let Some(sim_rank) = world.sim_ranks().get(rank) else { return };
        // Most entries change no state, and words are expensive.
        let key = Some(view::state_key(world, sim_rank));
        if std::mem::replace(&mut self.last[rank], key) == key {
            return;
        }
        let state = view::state(world, sim_rank);
        if self.watched.contains(&rank) && view::is_settled(world, sim_rank) {
            self.watched.retain(|other| *other != rank);
        }
        let next = u32::try_from(self.words.len()).unwrap_or(u32::MAX);
        let word = match self.words.binary_search_by(|(known, _)| known.cmp(&state)) {
            Ok(at) => self.words[at].1,
            Err(at) => {
                self.words.insert(at, (state, next));
                next
            }
        };
        let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let (step, rank) = (narrow(world.steps()), narrow(rank as u64));
        self.changes.push(StateChange { step, rank, word });
    }

    /// The states in words, as JSON; a change has the number of one.
    pub(crate) fn words(&self) -> String {
        let mut words = vec![""; self.words.len()];
        for (word, number) in &self.words {
            if let Some(place) = usize::try_from(*number).ok().and_then(|at| words.get_mut(at)) {
                *place = word;
            }
        }
        Json::of(|json| json.list("states", words, |json, word| json.word(word)))
    }

    /// Three numbers of each change: its step, its rank, and the number of the state.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        self.changes.iter().flat_map(|change| [change.step, change.rank, change.word]).collect()
    }
}

/// True for events after which the server may find a link closed.
const fn is_end(event: &SimEvent) -> bool {
    matches!(
        event,
        SimEvent::Left { .. }
            | SimEvent::Process { .. }
            | SimEvent::Broke { .. }
            | SimEvent::Fault { .. }
            | SimEvent::LinkFault { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_sim::scenario::Scenario;
    use pmi_sim::shipped::SHIPPED;
    use pmi_sim::world::Injected;

    /// State of a rank after a step, as a page finds it.
    fn found(states: &StateChanges, step: u64, rank: usize) -> &str {
        let own = states.changes.iter().filter(|change| usize::try_from(change.rank) == Ok(rank));
        let last = own.take_while(|change| u64::from(change.step) <= step).last().unwrap();
        states.words.iter().find(|(_, word)| *word == last.word).unwrap().0.as_str()
    }

    #[test]
    fn states_of_every_moment_are_those_of_the_world() {
        // Each as it is, with a rank that is killed, and with one whose link breaks.
        let faults = ["0 kill 0", "0 reset 0", ""].map(|fault| fault.parse::<Injected>().ok());
        for ((name, text), fault) in
            SHIPPED.iter().flat_map(|one| faults.iter().map(move |fault| (one, fault)))
        {
            let scenario: Scenario = text.parse().unwrap();
            let mut world = World::new(&scenario, 3).unwrap();
            let mut states = StateChanges::new(&world);
            let mut steps = 0;
            while steps < 2_000 {
                let is_over = !world.step();
                states.on_step(&world);
                for (rank, sim_rank) in world.sim_ranks().iter().enumerate() {
                    let expected = view::state(&world, sim_rank);
                    let step = world.steps();
                    assert_eq!(
                        found(&states, step, rank),
                        expected,
                        "{name}, step {step}, rank {rank}"
                    );
                }
                steps += 1;
                if let Some(Injected { what, .. }) = fault.as_ref().filter(|_| steps == 40) {
                    world.inject(what.clone());
                    states.on_step(&world);
                } else if is_over {
                    break;
                }
            }
        }
    }
}
