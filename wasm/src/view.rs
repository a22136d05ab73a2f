//! State of a run at one moment, for the page.

use crate::json::Json;
use pmi_sim::World;
use pmi_sim::scenario::{self, Dialect};
use pmi_sim::sim_rank::{ProcessFlags, ProcessState};
use pmi_sim::snapshot::{PipeView, RankView, Snapshot};

/// Writes the state of `world`.
pub(crate) fn view(world: &World) -> String {
    let snapshot = Snapshot::new(world);
    Json::of(|json| {
        json.plain("time", snapshot.time);
        json.plain("step", snapshot.steps);
        json.plain("quiet", snapshot.is_quiet);
        json.list("ranks", &snapshot.ranks, |json, rank| {
            let dialect = world.scenario().plan(rank.rank).dialect;
            json.object(|json| write_rank(json, rank, dialect));
        });
        json.list("keys", &snapshot.keys, |json, key| {
            json.object(|json| {
                json.text("job", &key.job);
                json.bytes("key", &key.key);
                json.bytes("value", &key.value);
                json.maybe("by", key.by);
                json.maybe("node", key.node);
                json.plain("visible", key.is_visible);
            });
        });
        json.list("fences", &snapshot.fences, |json, fence| {
            json.object(|json| {
                json.text("job", &fence.job);
                json.plain("ranks", fence.ranks);
                json.plain("generation", fence.generation);
                json.plain("inside", fence.inside);
                json.list("missing", &fence.missing, |json, rank| json.value(rank));
            });
        });
        json.list("debts", &snapshot.debts, |json, debt| {
            json.object(|json| {
                json.plain("rank", debt.rank);
                json.text("what", &debt.what);
                json.list("debtors", &debt.debtors, |json, rank| json.value(rank));
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

fn write_rank(json: &mut Json, rank: &RankView, dialect: Dialect) {
    json.plain("rank", rank.rank);
    json.plain("node", rank.node);
    json.text("life", life(rank));
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
const fn life(rank: &RankView) -> &'static str {
    let ProcessFlags { is_deaf, is_hung, has_left, .. } = rank.flags;
    match rank.life {
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

    fn world(text: &str) -> World {
        let mut world = World::new(&text.parse().unwrap(), 0).unwrap();
        assert!(world.run(10_000));
        world
    }

    #[test]
    fn view_contains_states_keys_and_wait_relations() {
        let text = "ranks 2\nscript 0\n open\n put a 1\n fence\nend\nscript 1\n open\n manual\nend";
        let view = view(&world(text));
        for part in [
            r#""key":"a","value":"1","by":0,"node":null,"visible":false"#,
            r#"{"job":"kvs_sim","ranks":2,"generation":0,"inside":1,"missing":[1]}"#,
            r#""debts":[{"rank":0,"what":"fence","debtors":[1]}]"#,
            r#""client":"open","member":"open","session":true,"asks":["fence"]"#,
        ] {
            assert!(view.contains(part), "{part} is not in {view}");
        }
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
        assert_eq!(life(&snapshot.ranks[1]), "killed");
    }
}
