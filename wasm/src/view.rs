//! State of a run at one moment, for the page.

use crate::json::Json;
use pmi_sim::World;
use pmi_sim::scenario::{self, Dialect};
use pmi_sim::sim_rank::{ProcessFlags, ProcessState, SimRank, Waiting};
use pmi_sim::snapshot::{self, PipeView, RankView};

/// Writes the state of `world`. Of long lists it has the beginning, and the length.
pub(crate) fn view(world: &World) -> String {
    Json::of(|json| {
        json.plain("time", world.time());
        json.plain("step", world.steps());
        json.plain("quiet", world.is_quiet());
        let keys = snapshot::keys(world);
        json.plain("key_count", keys.len());
        json.plain("hidden_count", keys.iter().filter(|key| !key.is_visible).count());
        json.list("keys", keys.iter().take(KEYS_MAX), |json, key| {
            json.object(|json| {
                json.text("job", &key.job);
                json.bytes("key", &key.key);
                json.bytes("value", &key.value);
                json.maybe("by", key.by);
                json.maybe("node", key.node);
                json.plain("visible", key.is_visible);
            });
        });
        json.list("fences", snapshot::fences(world), |json, fence| {
            json.object(|json| {
                json.text("job", &fence.job);
                json.plain("ranks", fence.ranks);
                json.plain("generation", fence.generation);
                json.plain("inside", fence.inside);
                let own = || keys.iter().filter(|key| key.job == fence.job);
                json.plain("key_count", own().count());
                json.plain("hidden_count", own().filter(|key| !key.is_visible).count());
                some_ranks(json, "missing", &fence.missing);
            });
        });
        let debts = snapshot::debts(world);
        json.plain("debt_count", debts.len());
        json.list("debts", debts.iter().take(DEBTS_MAX), |json, debt| {
            json.object(|json| {
                json.plain("rank", debt.rank);
                json.text("what", &debt.what);
                some_ranks(json, "debtors", &debt.debtors);
            });
        });
        json.list("broken", world.violations(), |json, violation| {
            json.object(|json| {
                json.text("rule", violation.rule);
                json.text("what", &violation.what);
            });
        });
    })
}

/// Writes the state of one rank with its link and its session.
pub(crate) fn rank(world: &World, rank: usize) -> String {
    Json::of(|json| {
        let Some(sim_rank) = world.sim_ranks().get(rank) else { return };
        let dialect = world.scenario().plan(sim_rank.rank()).dialect;
        write_rank(json, &RankView::new(world, sim_rank), dialect);
    })
}

/// The states of a rank in one line: its process, its client, and the server's of it; and a line for each
/// pending request.
pub(crate) fn state(world: &World, rank: &SimRank) -> String {
    let process = life(rank.life(), rank.flags());
    let member = snapshot::member_state(world, rank.rank());
    let mut all = format!("{process} {} {member}", rank.client_state());
    for waiting in rank.waiting() {
        all.push('\n');
        all.push_str(&waiting.ask.to_string());
    }
    all
}

/// What the words of a state follow from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateKey {
    process: &'static str,
    client: &'static str,
    member: &'static str,
    /// Numbers of the first and the last pending request, and how many there are.
    pending: (u32, u32, usize),
}

/// The key of a state: two with the same key have the same words.
pub(crate) fn state_key(world: &World, rank: &SimRank) -> StateKey {
    let waiting = rank.waiting();
    let number = |one: Option<&Waiting>| one.map_or(0, |one| one.number);
    StateKey {
        process: life(rank.life(), rank.flags()),
        client: rank.client_state(),
        member: snapshot::member_state(world, rank.rank()),
        pending: (number(waiting.first()), number(waiting.last()), waiting.len()),
    }
}

/// True if the server knows that a rank has ended: its state of it is the last one.
pub(crate) fn is_settled(world: &World, rank: &SimRank) -> bool {
    let member = snapshot::member_state(world, rank.rank());
    rank.life() != ProcessState::Unborn && matches!(member, "finalized" | "lost" | "unknown")
}

/// Writes the first of many ranks under `name`, and how many they are.
fn some_ranks(json: &mut Json, name: &str, ranks: &[u32]) {
    json.list(name, ranks.iter().take(RANKS_MAX), |json, rank| json.value(rank));
    json.plain(&format!("{name}_count"), ranks.len());
}

/// More cards are not told apart on the shelf of the ring.
const KEYS_MAX: usize = 400;

/// More wait-for relations are not read.
const DEBTS_MAX: usize = 100;

/// More ranks are counted, and not named.
const RANKS_MAX: usize = 8;

fn write_rank(json: &mut Json, rank: &RankView, dialect: Dialect) {
    json.plain("rank", rank.rank);
    json.plain("node", rank.node);
    json.text("life", life(rank.life, rank.flags));
    json.text("client", rank.client);
    json.text("member", rank.member);
    json.plain("session", rank.has_session);
    json.list("asks", &rank.asks, |json, ask| json.word(ask));
    json.text("next", rank.next.as_deref().unwrap_or_default());
    json.plain("unsent", rank.unsent_bytes);
    json.part("up", |json| write_pipe(json, &rank.up));
    json.part("down", |json| write_pipe(json, &rank.down));
    json.plain("untaken", rank.host_untaken_bytes);
    json.plain("owed", rank.host_unsent_bytes);
    json.list("may", legal(rank, dialect), |json, order| json.word(order));
}

fn write_pipe(json: &mut Json, pipe: &PipeView) {
    let flying: usize = pipe.flying.iter().map(|segment| segment.bytes.len()).sum();
    json.plain("flying", flying);
    json.plain("landed", pipe.landed.len());
    json.plain("over", pipe.is_over);
}

/// State of the process, in one word.
const fn life(state: ProcessState, flags: ProcessFlags) -> &'static str {
    let ProcessFlags { is_deaf, is_hung, has_left, .. } = flags;
    match state {
        ProcessState::Unborn => "unborn",
        ProcessState::Stopped => "stopped",
        ProcessState::Killed => "killed",
        ProcessState::Exited(0) => "exited",
        ProcessState::Exited(_) => "failed",
        ProcessState::Running if is_hung => "hung",
        ProcessState::Running if has_left => "left",
        ProcessState::Running if is_deaf => "deaf",
        ProcessState::Running => "running",
    }
}

/// Requests that the client of a rank may make now, as written in a script.
fn legal(rank: &RankView, dialect: Dialect) -> &'static [&'static str] {
    let is_free = rank.life == ProcessState::Running && rank.asks.is_empty() && !rank.flags.is_rude;
    match rank.client {
        _ if !is_free || rank.flags.has_left => &[],
        "fresh" => &["open", "init"],
        "open" if scenario::PMIX && dialect == Dialect::Pmix => &PMIX,
        "open" if dialect.is_pmi(2) => &FRAMES,
        "open" => &LINES,
        _ => &[],
    }
}

const LINES: [&str; 12] = [
    "put KEY VALUE",
    "get KEY",
    "fence",
    "finalize",
    "maxes",
    "name",
    "appnum",
    "universe",
    "publish SERVICE PORT",
    "lookup SERVICE",
    "unpublish SERVICE",
    "abort 1 TEXT",
];

const PMIX: [&str; 11] = [
    "put KEY VALUE",
    "put-local KEY VALUE",
    "put-remote KEY VALUE",
    "commit",
    "fence",
    "get KEY",
    "get-of 0 KEY",
    "appnum",
    "universe",
    "finalize",
    "abort 1 TEXT",
];

const FRAMES: [&str; 11] = [
    "put KEY VALUE",
    "get KEY",
    "fence",
    "finalize",
    "name",
    "node-put KEY VALUE",
    "node-get KEY",
    "publish SERVICE PORT",
    "lookup SERVICE",
    "unpublish SERVICE",
    "abort 1 TEXT",
];

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_sim::Injection;
    use pmi_sim::snapshot::Snapshot;

    fn world(text: &str) -> World {
        let mut world = World::new(&text.parse().unwrap(), 0).unwrap();
        assert!(world.run(10_000));
        world
    }

    #[test]
    fn view_contains_states_keys_and_wait_relations() {
        let text = "ranks 2\nscript 0\n open\n put a 1\n fence\nend\nscript 1\n open\n manual\nend";
        let world = world(text);
        let view = view(&world);
        for part in [
            r#""key":"a","value":"1","by":0,"node":null,"visible":false"#,
            r#""ranks":2,"generation":0,"inside":1,"key_count":2,"hidden_count":1,"#,
            r#""missing":[1],"missing_count":1"#,
            r#""debts":[{"rank":0,"what":"fence","debtors":[1],"debtors_count":1}]"#,
            r#""key_count":2,"hidden_count":1"#,
        ] {
            assert!(view.contains(part), "{part} is not in {view}");
        }
        let states = world.sim_ranks().iter().map(|rank| state(&world, rank));
        assert_eq!(states.collect::<Vec<_>>(), ["running open open\nfence", "running open open"]);
        let part = r#""client":"open","member":"open","session":true,"asks":["fence"]"#;
        assert!(rank(&world, 0).contains(part), "{}", rank(&world, 0));
        assert_eq!(rank(&world, 2), "{}");
    }

    #[test]
    fn long_lists_are_cut_and_counted() {
        let text = "ranks 600\nscript 0..499\n open\n put k-$r v\n fence\nend\n\
                    script 500..599\n open\n manual\nend";
        let mut world = World::new(&text.parse().unwrap(), 0).unwrap();
        assert!(world.run(100_000));
        let view = view(&world);
        assert!(
            view.contains(r#""missing":[500,501,502,503,504,505,506,507],"missing_count":100"#)
        );
        assert!(view.contains(r#""debt_count":500"#));
        assert!(view.contains(r#""key_count":501,"hidden_count":500"#));
        assert_eq!(view.matches(r#""key":"k-"#).count(), 399);
    }

    #[test]
    fn legal_steps_are_not_refused() {
        for version in ["1.1", "1.2", "2.0", "pmix"] {
            let text = format!("ranks 1\nall dialect {version}\nscript all\n open\n manual\nend");
            let start = world(&text);
            let rank = Snapshot::new(&start).ranks.remove(0);
            let orders = legal(&rank, start.scenario().plan(0).dialect);
            assert!(orders.len() >= 8);
            for order in orders {
                let mut world = start.clone();
                world.inject(Injection::order(0, order).unwrap());
                world.run(10_000);
                let refused = |entry: &pmi_sim::Entry| entry.event.to_string().contains("cannot");
                assert!(!world.entries().iter().any(refused), "{version}: {order}");
            }
        }
    }

    #[test]
    fn waiting_and_exited_ranks_have_no_legal_steps() {
        let text = "ranks 2\nscript 0\n open\n fence\nend\nscript 1\n open\n die\nend";
        let world = world(text);
        let (snapshot, dialect) = (Snapshot::new(&world), world.scenario().plan(0).dialect);
        for rank in &snapshot.ranks {
            assert!(legal(rank, dialect).is_empty() || rank.client == "open");
        }
        assert!(legal(&snapshot.ranks[1], dialect).is_empty());
        assert_eq!(life(snapshot.ranks[1].life, snapshot.ranks[1].flags), "killed");
    }
}
