//! Runs over several nodes, which are node servers on this machine here, that continue after failures
//! (`--on-exit-error ignore`).

use crate::common::{Ran, host, labelled, pmix_program, run, shell};
use std::process::Command;

/// `pmi-host run --starter local:NODES -n RANKS --on-exit-error ignore WORDS…`, outside of any allocation.
fn nodes(nodes: u32, ranks: u32, words: &[&str]) -> Command {
    let (starter, ranks) = (format!("local:{nodes}"), ranks.to_string());
    let mut command =
        host(["run", "--starter", &starter, "-n", &ranks, "--on-exit-error", "ignore"]);
    for variable in ["SLURM_JOB_ID", "FLUX_URI", "LSB_MCPU_HOSTS", "PE_HOSTFILE", "HYDRA_LAUNCHER"]
    {
        command.env_remove(variable);
    }
    command.args(words);
    command
}

/// Functions of a rank in PMI-1.
const PMI: &str = "
    ask() { echo \"cmd=$1\" >&$PMI_FD; read answer <&$PMI_FD; }
    fence() { ask barrier_in; }
    finalize() { ask finalize; }
    dead() { ask get_my_kvsname; ask \"get kvsname=${answer#*kvsname=} key=PMI_dead_processes\"
             echo \"$PMI_RANK: ${answer##*value=}\"; }
    ask 'init pmi_version=1 pmi_subversion=1';";

fn script(node_count: u32, ranks: u32, script: &str) -> Ran {
    run(&mut nodes(node_count, ranks, &shell(&format!("{PMI} {script}"))))
}

#[test]
fn fences_of_all_nodes_end_without_a_rank_that_has_failed() {
    let ran = script(
        3,
        6,
        "fence; if [ $PMI_RANK = 4 ]; then exit 7; fi
         fence; fence; finalize; echo $PMI_RANK",
    );
    assert_eq!(ran.lines(), ["0", "1", "2", "3", "5"], "{}", ran.err);
    ran.exits_with(7).says(&["rank 4 of 6", "on local2", "exited with code 7", "continue"]);
}

#[test]
fn fences_end_without_a_node_whose_ranks_have_all_ended() {
    // Rank 1 fails before or after the others enter, and rank 2 ends well without a fence.
    for wait in ["", "sleep 0.5;"] {
        let ran = script(
            3,
            3,
            &format!(
                "case $PMI_RANK in 1) {wait} exit 7;; 2) finalize; exit 0;; esac
                 fence; fence; finalize; echo $PMI_RANK"
            ),
        );
        assert_eq!(ran.lines(), ["0"], "{}", ran.err);
        ran.exits_with(7).says(&["rank 1 of 3", "on local2", "exited with code 7"]);
    }
}

#[test]
fn first_failure_is_the_exit_code_and_every_failure_is_reported() {
    let ran = script(
        2,
        4,
        "fence; if [ $PMI_RANK = 0 ]; then exit 7; fi
         fence; if [ $PMI_RANK = 3 ]; then exit 9; fi
         fence; finalize; echo $PMI_RANK",
    );
    assert_eq!(ran.lines(), ["1", "2"], "{}", ran.err);
    for part in ["code 7 before finalize; the 3 ranks", "code 9 before finalize; the 2 ranks"] {
        assert!(ran.err.contains(part), "{}", ran.err);
    }
    ran.exits_with(7);
}

#[test]
fn ranks_of_all_nodes_read_the_failed_ones() {
    // The second fence cannot end before the failure is known.
    let ran = script(
        3,
        3,
        "fence; if [ $PMI_RANK = 1 ]; then exit 7; fi
         fence; n=0; until dead | grep -q ': 1$' || [ $n = 200 ]; do n=$((n+1)); sleep 0.05; done
         dead; finalize",
    );
    assert_eq!(ran.lines(), ["0: 1", "2: 1"], "{}", ran.err);
    ran.exits_with(7);
}

#[test]
fn ranks_of_a_lost_node_count_as_failed() {
    // The parent of the rank is the agent.
    let ran = script(
        4,
        8,
        "fence; if [ $PMI_RANK = 1 ]; then kill -KILL $PPID; exec sleep 60; fi
         if [ $PMI_RANK = 5 ]; then exec sleep 60; fi
         fence; fence; n=0; until dead | grep -q ': 1,5$' || [ $n = 200 ]; do n=$((n+1)); sleep 0.05; done
         dead; finalize",
    );
    let expected = [0, 2, 3, 4, 6, 7].map(|rank| format!("{rank}: 1,5"));
    assert_eq!(ran.lines(), expected, "{}", ran.err);
    let ran = ran.exits_with(1);
    assert!(ran.err.contains("node local2 (ranks 1,5 of 8) is lost"), "{}", ran.err);
    assert!(ran.err.contains("the 6 ranks still running continue"), "{}", ran.err);
}

#[test]
fn equal_lines_of_all_others_come_once_when_a_node_that_merges_them_is_lost() {
    // The lost node is between the head and two others, or four.
    for (radix, count) in [("2", 6), ("2", 14)] {
        let rank = format!(
            "{PMI} seq 2000
             if [ $PMI_RANK = 1 ]; then kill -KILL $PPID; exec sleep 60; fi; seq 2001 6000; finalize"
        );
        let options = ["--collapse", "--tree-radix", radix];
        let ran = run(&mut nodes(count, count, &[&options[..], &shell(&rank)].concat()));
        let mut lines = vec![Vec::new(); count as usize];
        for line in ran.out.lines() {
            let (ranks, text) = labelled(line);
            ranks.iter().for_each(|rank| lines[*rank as usize].push(text.to_owned()));
        }
        let ran = ran.exits_with(1);
        assert!(ran.err.contains("node local2 (rank 1 of "), "{}", ran.err);
        let all: Vec<String> = (1..=6000).map(|number: u32| number.to_string()).collect();
        for (rank, lines) in lines.iter().enumerate() {
            match rank {
                1 => assert!(all.starts_with(lines), "rank 1, radix {radix}"),
                _ => assert_eq!(*lines, all, "rank {rank}, radix {radix}: {}", ran.err),
            }
        }
    }
}

#[test]
fn clients_of_pmix_receive_the_loss_of_a_node_as_an_event() {
    let Some(program) = pmix_program("pmix_events") else { return };
    let ran = run(&mut nodes(3, 3, &[program.to_str().unwrap(), "down"]));
    // The source is the server.
    let expected =
        [0, 2].map(|rank| format!("rank {rank} receives -231 of rank 0 about local2, node 1"));
    assert_eq!(ran.lines(), expected, "{}", ran.err);
    ran.exits_with(1);
}

#[test]
fn fence_of_pmix_ends_as_partial_on_all_nodes() {
    let Some(program) = pmix_program("pmix_leave") else { return };
    let ran = run(&mut nodes(3, 3, &[program.to_str().unwrap()]));
    assert_eq!(ran.lines(), ["0: one of us is gone", "1: one of us is gone"], "{}", ran.err);
    ran.exits_with(137).says(&["rank 2 of 3", "on local3", "SIGKILL"]);
}

#[test]
fn abort_ends_all_ranks_even_then() {
    let ran = script(2, 2, "if [ $PMI_RANK = 0 ]; then ask 'abort exitcode=9'; fi; exec sleep 60");
    assert!(ran.err.contains("called abort with code 9"), "{}", ran.err);
    ran.exits_with(9);
}

#[test]
fn abort_of_one_rank_alone_ends_only_that_rank() {
    // A frame of PMI-2 has its length in front.
    let rank = "say() { printf '%-6d%s' ${#1} \"$1\" >&$PMI_FD; }
         printf 'cmd=init pmi_version=2 pmi_subversion=0\\n' >&$PMI_FD; read answer <&$PMI_FD
         say \"cmd=fullinit;pmirank=$PMI_RANK;threaded=FALSE;\"; head -c 20 <&$PMI_FD > /dev/null
         if [ $PMI_RANK = 1 ]; then say 'cmd=abort;isworld=false;exitcode=5;msg=alone;'; exec sleep 60; fi
         sleep 1; echo $PMI_RANK; say 'cmd=finalize;'";
    let ran = run(&mut nodes(2, 3, &shell(rank)));
    assert_eq!(ran.lines(), ["0", "2"], "{}", ran.err);
    let ran = ran.exits_with(5);
    assert!(ran.err.contains("rank 1 of 3"), "{}", ran.err);
    assert!(ran.err.contains("called abort with code 5 and message 'alone'"), "{}", ran.err);
    assert!(ran.err.contains("--on-exit-error ignore"), "{}", ran.err);
}
