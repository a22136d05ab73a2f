use super::*;
use crate::placement::host_file;

const RULES: FillRules =
    FillRules { order: HostOrder::Slot, slots: None, oversubscribes: true, keeps_idle: false };

fn named(hosts: HostList) -> Allocation {
    Allocation { hosts, source: AllocationSource::Named }
}

fn list(text: &str) -> Allocation {
    named(HostList::parse(text).unwrap())
}

/// Name of the host of each rank.
fn names(placed: &PlacedHosts) -> String {
    let name = |node: u32| &*placed.hosts[node as usize];
    placed.map.nodes_by_rank().map(name).collect::<Vec<_>>().join(" ")
}

fn filled(hosts: &Allocation, ranks: u32, rules: FillRules) -> Result<String, String> {
    place(&[PartHosts { ranks, hosts }], None, rules).map(|placed| names(&placed))
}

#[test]
fn hosts_take_their_slots_in_turn() {
    for (hosts, ranks, expected) in [
        ("a,b", 2, "a b"),
        ("a:2,b:2", 4, "a a b b"),
        ("a:2,b", 2, "a a"),
        ("a:2,b", 7, "a a b a a b a"),
        ("a,b,c", 4, "a b c a"),
        // A host that is listed again has another turn.
        ("a,b,a:2", 5, "a b a a a"),
    ] {
        assert_eq!(filled(&list(hosts), ranks, RULES).as_deref(), Ok(expected), "{hosts} {ranks}");
    }
    let two = FillRules { slots: Some(2), ..RULES };
    assert_eq!(filled(&list("a:9,b"), 6, two).as_deref(), Ok("a a b b a a"));
    assert_eq!(list("a:9,b").hosts.capacity(two), 4);
    assert_eq!(list("a:9,b").hosts.capacity(RULES), 10);
}

#[test]
fn nodes_take_one_rank_in_turn() {
    let rules = FillRules { order: HostOrder::Node, ..RULES };
    for (hosts, ranks, expected) in [
        ("a:2,b:2", 4, "a b a b"),
        ("a:4,b:1", 5, "a b a a a"),
        ("a:3,b:1,c:2", 8, "a b c a c a a b"),
        ("a,b,a", 4, "a b a a"),
    ] {
        assert_eq!(filled(&list(hosts), ranks, rules).as_deref(), Ok(expected), "{hosts} {ranks}");
    }
}

#[test]
fn number_for_each_node_is_a_bound() {
    let rules = FillRules { order: HostOrder::PerNode(2), ..RULES };
    assert_eq!(filled(&list("a:9,b"), 4, rules).as_deref(), Ok("a a b b"));
    assert_eq!(filled(&list("a,b"), 3, rules).as_deref(), Ok("a a b"));
    assert_eq!(list("a,b").hosts.capacity(rules), 4);
    let why = filled(&list("a,b"), 5, rules).unwrap_err();
    assert!(why.contains("5 ranks") && why.contains("ppr:2:node"), "{why}");
    let strict = FillRules { oversubscribes: false, ..rules };
    assert_eq!(filled(&list("a:9,b"), 3, strict).as_deref(), Ok("a a b"));
    assert!(filled(&list("a:9,b"), 4, strict).is_err());
}

#[test]
fn maxima_are_kept_and_slots_if_that_is_wanted() {
    let most = named(host_file::parse("a slots=1 max_slots=3\nb slots=2 max_slots=2\n").unwrap());
    assert_eq!(filled(&most, 5, RULES).as_deref(), Ok("a b b a a"));
    let why = filled(&most, 6, RULES).unwrap_err();
    assert!(
        why.contains("6 ranks are to run on 2 hosts, which take 5") && why.contains("max_slots"),
        "{why}"
    );
    let free = named(host_file::parse("a slots=1 max_slots=2\nb\n").unwrap());
    assert_eq!(filled(&free, 6, RULES).as_deref(), Ok("a b a b b b"));
    let strict = FillRules { oversubscribes: false, ..RULES };
    assert_eq!(filled(&list("a:2,b"), 3, strict).as_deref(), Ok("a a b"));
    let why = filled(&list("a:2,b"), 4, strict).unwrap_err();
    assert!(
        why.contains("take 3 of them, one in each slot") && why.contains("--no-oversubscribe"),
        "{why}"
    );
    assert_eq!(filled(&most, 3, strict).as_deref(), Ok("a b b"));
}

#[test]
fn programs_share_hosts_or_have_their_own() {
    let (ab, b, c) = (list("a:2,b:2"), list("b"), list("c,a"));
    let placed = |parts: &[(u32, &Allocation)]| {
        let parts: Vec<PartHosts<'_>> =
            parts.iter().map(|(ranks, hosts)| PartHosts { ranks: *ranks, hosts }).collect();
        place(&parts, None, RULES).map(|placed| (placed.hosts.join(" "), names(&placed))).unwrap()
    };
    assert_eq!(placed(&[(1, &ab), (2, &ab), (3, &ab)]), ("a b".into(), "a a b b a a".into()));
    assert_eq!(placed(&[(2, &b), (2, &c)]), ("b c a".into(), "b b c a".into()));
    // Slots that another program has taken are taken.
    assert_eq!(placed(&[(1, &ab), (1, &b), (4, &ab)]), ("a b".into(), "a b a b a a".into()));
    // Hosts without ranks have no number.
    assert_eq!(placed(&[(1, &ab), (1, &c)]), ("a c".into(), "a c".into()));
}

#[test]
fn explicit_map_names_hosts_by_number() {
    let hosts = list("a,b,c");
    let mapped = |map: &str, ranks, hosts: &Allocation| {
        let map = RankMap::parse(map).unwrap();
        place(&[PartHosts { ranks, hosts }], Some(&map), RULES)
    };
    let placed = mapped("(vector,(2,1,2),0)", 3, &hosts).unwrap();
    assert_eq!((placed.hosts.join(" "), names(&placed)), ("a c".into(), "c c a".into()));
    assert_eq!(names(&mapped("2,1", 4, &hosts).unwrap()), "c b c b");
    let why = mapped("0,3", 2, &hosts).unwrap_err();
    assert!(why.contains("'--rankmap 0,3' names host 3") && why.contains("3 hosts"), "{why}");
    // Only the ranks that there are count.
    assert_eq!(names(&mapped("0,3", 1, &hosts).unwrap()), "a");
    let most = named(host_file::parse("a max_slots=1\n").unwrap());
    assert!(mapped("0,0", 2, &most).unwrap_err().contains("takes 1 at most"));
    let (a, b, map) = (list("a"), list("b"), RankMap::parse("0").unwrap());
    let parts = [PartHosts { ranks: 1, hosts: &a }, PartHosts { ranks: 1, hosts: &b }];
    assert!(place(&parts, Some(&map), RULES).unwrap_err().contains("leave one of them out"));
}

#[test]
fn many_ranks_take_little_memory() {
    let hosts = list("n[1-10000]");
    let placed = place(&[PartHosts { ranks: 1_000_000, hosts: &hosts }], None, RULES).unwrap();
    let rounds: Vec<NodeRound> = placed.map.clone().into();
    assert_eq!((rounds.len(), rounds[0].blocks.len(), rounds[0].times), (1, 1, 100));
    assert_eq!(placed.map.node_of(999_999), Some(9_999));
    assert_eq!(placed.map.count_on(77), 100);
}

/// A slow placement of one rank after the other.
fn model(hosts: &HostList, ranks: u32, rules: FillRules) -> Option<Vec<usize>> {
    let list = hosts.hosts();
    let most: Vec<u32> = list.iter().map(|host| host.max_slots.unwrap_or(u32::MAX)).collect();
    let slots: Vec<u32> = list.iter().map(|host| rules.slots_of(host)).collect();
    let (mut used, mut placed) = (vec![0; list.len()], Vec::new());
    for limit in [slots, if rules.oversubscribes { most } else { vec![0; list.len()] }] {
        loop {
            let before = placed.len();
            let turns: Vec<HostTurn> = match rules.order {
                HostOrder::Slot => hosts.turns().to_vec(),
                _ => (0..list.len()).map(|host| HostTurn { host, slots: 1 }).collect(),
            };
            for turn in turns {
                for _ in 0..turn.slots {
                    if placed.len() < ranks as usize && used[turn.host] < limit[turn.host] {
                        used[turn.host] += 1;
                        placed.push(turn.host);
                    }
                }
            }
            if placed.len() == before {
                break;
            }
        }
    }
    (placed.len() == ranks as usize).then_some(placed)
}

#[test]
fn random_hosts_are_filled_as_one_rank_after_the_other_would() {
    let mut state = 11_u64;
    let mut below = |bound: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        u32::try_from(state >> 33).unwrap() % bound
    };
    let mut refused = 0;
    for _ in 0..2_000 {
        let lines = (0..=below(5)).map(|_| {
            let slots = 1 + below(4);
            match below(3) {
                0 => format!("n{} slots={slots} max_slots={}\n", below(4), 20 + below(9)),
                _ => format!("n{}:{slots}\n", below(4)),
            }
        });
        let hosts = named(host_file::parse(&lines.collect::<String>()).unwrap());
        let rules = FillRules {
            order: if below(2) == 0 { HostOrder::Slot } else { HostOrder::Node },
            slots: None,
            oversubscribes: below(3) > 0,
            keeps_idle: false,
        };
        let ranks = 1 + below(60);
        let expected = model(&hosts.hosts, ranks, rules).map(|placed| {
            let name = |host: usize| &*hosts.hosts.hosts()[host].name;
            placed.into_iter().map(name).collect::<Vec<_>>().join(" ")
        });
        refused += u32::from(expected.is_none());
        let got = filled(&hosts, ranks, rules);
        assert_eq!(
            got.as_ref().ok(),
            expected.as_ref(),
            "{} {rules:?} {ranks}: {got:?}",
            hosts.hosts
        );
    }
    assert!((100..1_900).contains(&refused), "{refused}");
}

#[test]
fn hosts_without_ranks_follow_the_others() {
    let hosts = list("a:2,b,c:3");
    let map = RankMap::parse("1,1").unwrap();
    let placed = |keeps_idle| {
        let rules = FillRules { keeps_idle, ..RULES };
        place(&[PartHosts { ranks: 2, hosts: &hosts }], Some(&map), rules).unwrap()
    };
    let all = placed(true);
    assert_eq!((&*all.hosts.join(" "), &all.slots[..]), ("b a c", &[1, 2, 3][..]));
    assert_eq!((all.map.nodes(), all.map.ranks()), (3, 2));
    assert_eq!(all.map.count_on(0), 2);
    let used = placed(false);
    assert_eq!((&*used.hosts.join(" "), &used.slots[..], used.map.nodes()), ("b", &[1][..], 1));
}
