//! One case: the parameters drawn for it from the seed, and its form in a state file.

use super::table::{FAULTS, Fault, FaultPhase, HOST_FAULTS, NODE_FAULTS, PHASES, expected_code};
use crate::random::SplitMix;
use serde::{Deserialize, Serialize};

/// All that decides the course of a case, except the machine.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct FaultCase {
    /// Its place in the list of its seed.
    pub(super) id: u32,
    pub(super) fault: Fault,
    pub(super) phase: FaultPhase,
    pub(super) ranks: u32,
    /// The rank that it happens to, and another one.
    pub(super) victim: u32,
    pub(super) partner: u32,
    /// An exit code, a signal, or a form of the fault; see [`expected_code`].
    pub(super) variant: i32,
    /// Number of ranks that run at the time of the fault in [`FaultPhase::Starting`].
    pub(super) started: u32,
    /// Age of the launcher at the time of the fault in [`FaultPhase::Before`]; with two signals, the time
    /// between them.
    pub(super) delay_us: u64,
    /// All ranks but the victim catch SIGTERM and go on.
    #[serde(rename = "stubborn")]
    pub(super) is_stubborn: bool,
    /// Bytes sent instead of PMI, as hexadecimal digits.
    pub(super) garbage: String,
    /// Bits that choose further forms of some faults.
    #[serde(default)]
    pub(super) form: u32,
}

impl FaultCase {
    /// The exit code that it must end with.
    pub(super) fn expected(&self) -> i32 {
        expected_code(self.fault, self.phase, self.variant)
    }
}

/// A choice of cases.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct Selection {
    pub(super) seed: u64,
    /// Their number; `None` for every combination once.
    pub(super) cases: Option<u32>,
    pub(super) sizes: Vec<u32>,
    /// Number of nodes of each run; 0 for runs without nodes.
    #[serde(default)]
    pub(super) nodes: u32,
    /// Each node is a host in name spaces of its own.
    #[serde(default)]
    pub(super) has_hosts: bool,
    /// All if empty.
    pub(super) faults: Vec<Fault>,
    pub(super) phases: Vec<FaultPhase>,
}

/// The cases of a seed: the same list on every machine. Each combination of fault, phase and size comes once
/// before any of them comes again with other parameters.
pub(super) fn list(selection: &Selection) -> Vec<FaultCase> {
    let mut grid = Vec::new();
    let of_nodes = if selection.nodes > 0 { NODE_FAULTS } else { &[] };
    let of_hosts = if selection.has_hosts { HOST_FAULTS } else { &[] };
    for &(fault, ..) in FAULTS.iter().chain(of_nodes).chain(of_hosts) {
        // There the launcher is root, to which every process is readable.
        if selection.has_hosts && fault == Fault::UnreadableProc {
            continue;
        }
        for &(phase, ..) in PHASES {
            let wanted = (selection.faults.is_empty() || selection.faults.contains(&fault))
                && (selection.phases.is_empty() || selection.phases.contains(&phase))
                && (selection.nodes == 0 || phase != FaultPhase::Spawn);
            if wanted && fault.meets(phase) {
                grid.extend(selection.sizes.iter().map(|&ranks| (fault, phase, ranks)));
            }
        }
    }
    let count = selection.cases.unwrap_or(u32::try_from(grid.len()).unwrap_or(u32::MAX));
    let mut order = SplitMix::new(selection.seed);
    let mut cases = Vec::new();
    for id in 0..count {
        if grid.is_empty() {
            break;
        }
        let at = id as usize % grid.len();
        if at == 0 {
            order.shuffle(&mut grid);
        }
        let (fault, phase, ranks) = grid[at];
        // Each case has a sequence of its own, so that it does not depend on the choice of others.
        let mut random =
            SplitMix::new(selection.seed ^ (u64::from(id) + 1).wrapping_mul(0x9e37_79b9));
        cases.push(draw(id, fault, phase, ranks, &mut random));
    }
    cases
}

fn draw(id: u32, fault: Fault, phase: FaultPhase, ranks: u32, random: &mut SplitMix) -> FaultCase {
    let victim = random.below(ranks);
    let partner = (victim + 1 + random.below(ranks - 1)) % ranks;
    let code = *random.pick(&[1, 2, 3, 7, 42, 77, 126, 200, 255]);
    let variant = match fault {
        Fault::Exit => *random.pick(&[0, 0, code]),
        Fault::Signal => *random.pick(&[11, 6, 7, 8, 4, 9, 15, 13]),
        Fault::LauncherSignal | Fault::LauncherSignalTwice => *random.pick(&[2, 15, 1]),
        Fault::Stage => *random.pick(&[2, 15]),
        Fault::Pause | Fault::Wire => *random.pick(&[0, 1, 2]),
        Fault::KeyEcho => *random.pick(&[0, 1]),
        Fault::ExecFailure => *random.pick(&[127, 126]),
        Fault::Streams | Fault::Close => *random.pick(&[0, 1]),
        _ => code,
    };
    FaultCase {
        id,
        fault,
        phase,
        ranks,
        victim,
        partner,
        variant,
        started: 1 + random.below((ranks / 2).max(1)),
        delay_us: u64::from(random.below(match fault {
            Fault::LauncherSignalTwice => 4_000_000,
            Fault::Stage => 1_000_000,
            _ => 6000,
        })),
        is_stubborn: random.below(8) == 0,
        garbage: garbage(random),
        form: random.below(64),
    }
}

fn garbage(random: &mut SplitMix) -> String {
    let texts: [&[u8]; 7] = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"cmd=\n",
        b"cmd\n",
        b"kvsname=x key=y\n",
        b"\0\0\0\0\n",
        b"999999cmd=\xff\n",
        b"mcmd=spawn\nendcmd\nendcmd\n",
    ];
    let mut bytes = random.pick(&texts).to_vec();
    if random.below(2) == 0 {
        bytes = (0..1 + random.below(64)).map(|_| random.below(256).to_le_bytes()[0]).collect();
        // Else it is a line that does not end, for which a server may wait.
        bytes.push(b'\n');
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::table::SIZES;
    use super::*;
    use std::collections::BTreeSet;

    /// Faults, phases and sizes, without 7 pairs of a fault and a phase that do not meet.
    const COMBINATIONS: usize = (23 * 10 - 7) * 3;

    fn selection(seed: u64, cases: Option<u32>) -> Selection {
        Selection { seed, cases, sizes: SIZES.to_vec(), ..Selection::default() }
    }

    #[test]
    fn seed_gives_the_same_cases_again_and_another_one_others() {
        let cases = list(&selection(7, None));
        assert_eq!(cases, list(&selection(7, None)));
        assert_ne!(cases, list(&selection(8, None)));
        // Fewer are the first of them.
        assert_eq!(cases[..50], list(&selection(7, Some(50))));
    }

    #[test]
    fn combinations_come_once_before_any_comes_again() {
        let cases = list(&selection(1, None));
        let key = |case: &FaultCase| (case.fault, case.phase, case.ranks);
        let all: BTreeSet<_> = cases.iter().map(key).collect();
        assert_eq!((all.len(), cases.len()), (COMBINATIONS, COMBINATIONS));
        let more = list(&selection(1, u32::try_from(2 * COMBINATIONS).ok()));
        let (first, second) = more.split_at(COMBINATIONS);
        assert_eq!(second.iter().map(key).collect::<BTreeSet<_>>().len(), COMBINATIONS);
        assert_ne!(
            first.iter().map(key).collect::<Vec<_>>(),
            second.iter().map(key).collect::<Vec<_>>()
        );
    }

    #[test]
    fn case_names_two_different_ranks_of_the_job() {
        for case in list(&selection(3, Some(2000))) {
            assert!(case.victim < case.ranks && case.partner < case.ranks, "{case:?}");
            assert_ne!(case.victim, case.partner, "{case:?}");
            assert!((1..=case.ranks).contains(&case.started), "{case:?}");
        }
    }

    #[test]
    fn case_survives_the_state_file() {
        for case in list(&selection(5, Some(300))) {
            let text = serde_json::to_string(&case).unwrap();
            assert_eq!(serde_json::from_str::<FaultCase>(&text).unwrap(), case);
        }
        let lacking = serde_json::from_str::<FaultCase>("{\"id\": 1}");
        assert!(lacking.is_err_and(|why| why.to_string().contains("`fault`")));
    }

    #[test]
    fn hosts_add_their_faults_and_have_none_that_needs_another_user() {
        let nodes = Selection { nodes: 3, ..selection(1, None) };
        let hosts = Selection { has_hosts: true, ..nodes.clone() };
        let has =
            |selection: &Selection, fault| list(selection).iter().any(|case| case.fault == fault);
        for fault in [Fault::Stage, Fault::KeyEcho] {
            assert!(has(&hosts, fault) && !has(&nodes, fault), "{fault:?}");
        }
        assert!(has(&nodes, Fault::UnreadableProc) && !has(&hosts, Fault::UnreadableProc));
        assert!(has(&hosts, Fault::NodeKill) && has(&nodes, Fault::Pause));
    }

    #[test]
    fn selection_keeps_only_what_it_names() {
        let chosen = Selection {
            faults: vec![Fault::Daemon],
            phases: vec![FaultPhase::Get, FaultPhase::Put],
            sizes: vec![2],
            ..Selection::default()
        };
        let cases = list(&chosen);
        assert_eq!(cases.len(), 2);
        assert!(cases.iter().all(|case| case.fault == Fault::Daemon && case.ranks == 2));
    }
}
