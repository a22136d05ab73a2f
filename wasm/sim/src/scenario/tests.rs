use super::*;
use crate::scenario::{Home, RankRequest, ScriptAct, acts};

const WHOLE: &str = r#"
# everything the grammar has
name whole
about "shows all  # of it"
seed 7
ranks 4
nodes 2
host kills pace 0..5 grace 100 notice 1..9 patience 5000 store 4096
all pace 0..20 latency 5..50 split 20% join 10% room 200 stall 3% 5..500 flip 1% reset 1%
rank 1,3 dialect 1.2 dials start 50
rank 3 inherits
script all
  open
  put card-$r "addr $r"
  each p
    get card-$p is "addr $p"
    get "" missing
  end
  repeat 2 as i
    fence
  end
  finalize
end
script 2..3
  init
  maxes
  appnum
  universe
  name
  also fence 0,1 tag 9
  also fence world tag 8
  fence node
  wait
  node-put a b
  node-get a wait is b
  publish s p
  lookup s is p
  lookup q missing
  unpublish s
  sleep 5..9
  deaf
  hear
  say "cmd=x\n\x00"
  await 2
  garbage 5..9
  stop
  hang
  leave
  manual
  die
  abort 3 "bye bye"
  abort 3
  exit 4
end
fault at 5 kill 1
fault 20% at 5..9 stop any for 100..200
fault at 1 stop 0
fault at 2 continue 0
fault at 3 reset 1
fault at 3 cut 1
fault at 3 stall 1 50
fault at 3 flip any up
fault at 3 shatter any down
fault at 3 say 2 "x y\n"
expect finish all
expect report none
expect report 1..2
expect report among 2
"#;

#[test]
fn scenario_is_written_as_it_was_read() {
    let scenario: Scenario = WHOLE.parse().unwrap();
    let text = scenario.to_string();
    assert_eq!(text.parse::<Scenario>().unwrap(), scenario, "{text}");
    assert_eq!((scenario.ranks, scenario.nodes, scenario.seed), (4, 2, Some(7)));
    assert_eq!(scenario.plan(1).dialect, Dialect::Pmi(Version::V1_2));
    assert!(
        scenario.plan(1).connects_by_itself
            && !scenario.plan(3).connects_by_itself
            && !scenario.plan(0).connects_by_itself
    );
    assert_eq!([0, 1, 2, 3].map(|rank| scenario.node(rank)), [0, 0, 1, 1]);
    assert_eq!(scenario.steps(2).len(), 29);
}

#[test]
fn scripts_are_unrolled_with_their_names_filled_in() {
    let text = "ranks 2\nscript all\n init\n each p\n get k-$p-$r\n end\n\
                repeat 2 as i\n fence $i,1 tag 4\n end\nend";
    let scenario: Scenario = text.parse().unwrap();
    let said: Vec<String> = acts(&scenario, 1)
        .unwrap()
        .iter()
        .map(|act| match act {
            ScriptAct::RankRequest { ask, .. } => ask.to_string(),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(said, ["init 1.1", "get k-0-1", "get k-1-1", "fence 0,1 tag 4", "fence 1,1 tag 4"]);
    let caller: Scenario = "all dials\nscript all\ninit\nend".parse().unwrap();
    assert_eq!(
        acts(&caller, 0).unwrap()[0],
        ScriptAct::RankRequest { ask: RankRequest::InitAck(0), also: false }
    );
    let unknown: Scenario = "script all\nput $x y\nend".parse().unwrap();
    assert!(acts(&unknown, 0).unwrap_err().to_string().contains("$x"));
    let endless = "script all\nrepeat 4000\nrepeat 4000\nfence\nend\nend\nend";
    assert!(acts(&endless.parse().unwrap(), 0).is_err());
}

#[test]
fn ranks_of_several_jobs_are_numbered_in_each() {
    let text = "ranks 5\njob sea 2..4 spawned\nhost spawns 7 forgets\nscript 0\n spawn sea k v$r w \"x y\"\n \
                connect sea\n get k of sea is v\nend\nscript 3\n put a$r b$n\n ring $prev $next\nend";
    let scenario: Scenario = text.parse().unwrap();
    assert_eq!(scenario.to_string().parse::<Scenario>().unwrap(), scenario);
    assert_eq!(scenario.home(4), Home { job: 1, first: 2, size: 3 });
    assert_eq!([0, 1, 2, 4].map(|rank| scenario.home(rank).own(rank)), [0, 1, 0, 2]);
    let said = |rank| {
        let acts = acts(&scenario, rank).unwrap();
        let asks = acts.iter().map(|act| match act {
            ScriptAct::RankRequest { ask, .. } => ask.to_string(),
            other => format!("{other:?}"),
        });
        asks.collect::<Vec<_>>()
    };
    assert_eq!(said(0), ["spawn sea k v0 w x y", "connect sea", "get k of sea"]);
    assert_eq!(said(3), ["put a1 b3", "ring 0 2"]);
}

#[test]
fn steps_of_pmi_become_steps_of_pmix_with_commits_and_without_tags() {
    let text = "name x\nranks 3\nall dialect 2.0 pace 5\nrank 1 dials\nrank 2 dialect pmix latency 9\n\
                script all\n open\n maxes\n put a 1\n also put b 2\n repeat 2\n  put c 3\n  get a is 1\n end\n \
                also fence node tag 4\n wait\n put d 4\nend\n\
                script 2\n open\n put e 5\n put-local f 6\n commit\n fence\nend\n\
                expect finish all\nexpect report nobody\nexpect report 1";
    let scenario: Scenario = text.parse().unwrap();
    let wanted = "name x-as-pmix\nranks 3\nall dialect pmix pace 5\nrank 2 latency 9\n\
                  script all\n open\n put a 1\n also put b 2\n commit\n repeat 2\n  put c 3\n  commit\n  \
                  get a is 1\n end\n also fence node\n wait\n put d 4\n commit\nend\n\
                  script 2\n open\n put e 5\n put-local f 6\n commit\n fence\nend\n\
                  expect finish all\nexpect report none";
    let as_pmix = scenario.in_pmix().unwrap();
    assert_eq!(as_pmix, wanted.parse().unwrap(), "{as_pmix}");
    assert_eq!(as_pmix.in_pmix(), Ok(as_pmix.clone()));
    let words: Vec<String> = acts(&as_pmix, 0)
        .unwrap()
        .iter()
        .filter_map(|act| match act {
            ScriptAct::RankRequest { ask, .. } => Some(ask.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(
        words,
        [
            "init pmix",
            "put a 1",
            "put b 2",
            "commit",
            "put c 3",
            "commit",
            "get a",
            "put c 3",
            "commit",
            "get a",
            "fence",
            "put d 4",
            "commit"
        ]
    );
}

#[test]
fn steps_without_pmix_form_are_named() {
    for (text, part) in [
        ("script all\n each p\n  ring a b\n end\nend", "requests a ring, which PMIx"),
        ("script all\n also node-get a\nend", "attributes of a node"),
        ("script all\n node-put a b\nend", "attributes of a node"),
        ("script all\n say x\nend", "bytes of PMI"),
        ("script all\n await 3\nend", "bytes of PMI"),
        ("fault at 5 say 0 x", "bytes of PMI"),
        ("host store 500", "store"),
        ("script all\n put k ~1024\nend", "too long for PMI"),
        ("script all\n put ~64 v\nend", "too long for PMI"),
        ("script all\n get k of sea\nend", "keys of a whole job"),
        ("script all\n connect sea\nend", "connects jobs by one rank"),
        ("script all\n spawn sea k v\nend", "with preset keys"),
    ] {
        let scenario: Scenario = text.parse().unwrap();
        let what = scenario.in_pmix().unwrap_err();
        assert!(what.contains(part), "{text}: {what}");
    }
    for text in
        ["script all\n put ~63 ~1023\nend", "script all\n publish s p\n lookup s\n spawn sea\nend"]
    {
        assert!(text.parse::<Scenario>().unwrap().in_pmix().is_ok(), "{text}");
    }
}

#[test]
fn error_names_its_line_and_the_way_out() {
    for (text, line, part) in [
        ("\nfoo", 2, "lines begin with"),
        ("ranks x", 1, "a number, not `x`"),
        ("ranks", 1, "missing"),
        ("ranks 0", 0, "there are 1 to"),
        ("ranks 2\nnodes 3", 0, "1 to 2 nodes"),
        ("rank 5 dials", 0, "no rank 5 among 1"),
        ("rank all dials", 1, "write `all`"),
        ("all dialect 3.0", 1, "1.1 1.2 2.0"),
        ("all split 101%", 1, "`0%` to `100%`"),
        ("all latency 9..3", 1, "backwards"),
        ("all room 0", 1, "without room"),
        ("host slow", 1, "a host has"),
        ("script all\n open\n jump\nend", 3, "`jump` is no step"),
        ("script all\n open", 1, "no `end`"),
        ("script all\n repeat 2\n open\nend", 1, "no `end`"),
        ("script all\n put k\nend", 2, "the value is missing"),
        ("script all\n also finalize\nend", 2, "overtake"),
        ("script all\n open now\nend", 2, "too many"),
        ("end", 1, "no script"),
        ("fault kill 1", 1, "`at`"),
        ("fault at 3 melt 0", 1, "faults are"),
        ("fault at 3 flip 0 left", 1, "up (to the server)"),
        ("fault at 3 kill 9", 0, "no rank 9"),
        ("expect luck", 1, "`finish` or `report`"),
        ("about \"x", 1, "closing quote"),
        ("job sea all", 1, "ranks in a row"),
        ("ranks 4\njob sea 1,3", 2, "in a row"),
        ("ranks 4\njob sea 0..3", 0, "no ranks"),
        ("ranks 4\njob sea 1..2", 0, "ends with rank 3"),
        ("ranks 4\njob sea 1..2\njob sea 3", 0, "name of one more"),
        ("ranks 4\njob sea 1\njob lake 3", 0, "begins with rank 2"),
        ("script all\n spawn sea key\nend", 2, "its value is missing"),
    ] {
        let error = text.parse::<Scenario>().expect_err(text);
        assert_eq!(error.line, line, "{text}: {error}");
        assert!(error.to_string().contains(part), "{text}: {error}");
    }
}
