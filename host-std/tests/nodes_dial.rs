//! Ranks that connect by themselves to a run on several nodes (`--listen`): they do so on the machine of the head,
//! while the nodes serve those that were started.

use crate::common::listening::{Host, ask, client, local_rank};
use crate::common::{host, run};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A run on nodes that are this machine, with ranks that connect.
fn start(nodes: u32, words: &[&str]) -> Host {
    Host::start(&[&["--starter", &format!("local:{nodes}")], words].concat())
}

#[test]
fn ranks_that_connect_and_ranks_of_all_nodes_are_one_job() {
    let script = local_rank();
    let host = start(3, &["--expect", "2", "-n", "4", "sh", "-c", &script]);
    assert!(host.said.contains("ranks 4 to 5 connect"), "{}", host.said);
    let clients = [5, 4].map(|id| client(&host.port, id));
    let mut seen: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    seen.sort();
    assert_eq!(seen, [(4, "of-5".to_owned()), (5, "of-0".to_owned())]);
    let (code, out, said) = host.end();
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!((code, lines), (0, vec!["0: of-1", "1: of-2", "2: of-3", "3: of-4"]), "{said}");
}

#[test]
fn run_waits_for_ranks_that_connect_after_the_others_have_ended() {
    let host = start(2, &["--expect", "1", "-n", "2", "true"]);
    let mut late = host.dial();
    ask(&mut late, "cmd=initack pmiid=2\ncmd=init pmi_version=1 pmi_subversion=1\n");
    // It has not finalized.
    drop(late);
    let (code, _, said) = host.end();
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("rank 2 of 3 (connected from 127.0.0.1:"), "{said}");
}

#[test]
fn rank_that_vanishes_ends_the_ranks_of_all_nodes() {
    let word = format!("61{}", std::process::id());
    let host = start(2, &["--expect", "2", "-n", "2", "sleep", &word]);
    let mut gone = host.dial();
    ask(&mut gone, "cmd=initack pmiid=2\ncmd=init pmi_version=1 pmi_subversion=1\n");
    drop(gone);
    let (code, _, said) = host.end();
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("rank 2 of 4 (connected from 127.0.0.1:"), "{said}");
    assert!(said.contains("disconnected") && said.contains("terminated"), "{said}");
}

#[test]
fn ranks_prove_the_secret_of_a_file_on_the_machine_of_the_head() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = directory.join("nodes-dial.secret");
    let _ = fs::remove_file(&file);
    fs::write(&file, "a secret of more than sixteen bytes\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let shown = file.to_str().unwrap();
    let script = local_rank();
    let words = ["--expect", "1", "--secret-file", shown, "-n", "2", "sh", "-c", &script];
    let host = start(2, &words);
    let mut wrong = host.dial();
    let answer = ask(&mut wrong, "cmd=initack pmiid=2\n");
    assert!(answer.contains("secret_is_not_proven"), "{answer}");
    let id =
        run(&mut crate::common::host(["pmiid", "--secret-file", shown, "2"])).exits_with(0).out;
    let seen = client(&host.port, id.trim().parse().unwrap()).join().unwrap();
    assert_eq!(seen, (2, "of-0".to_owned()));
    let (code, out, said) = host.end();
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!((code, lines), (0, vec!["0: of-1", "1: of-2"]), "{said}");
}

#[test]
fn port_that_cannot_be_opened_ends_the_run_with_its_reason() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let words = ["--starter", "local:2", "--listen", &address, "--expect", "1", "-n", "2", "true"];
    run(host(["run"]).args(words)).exits_with(1).says(&["no rank can connect", &address]);
}

#[test]
fn rank_that_connects_has_a_node_of_its_own() {
    let words =
        ["--dry-run", "--hosts", "a:2,b:2", "--listen", "127.0.0.1:0", "--expect", "2", "true"];
    let ran = run(host(["run"]).args(words)).exits_with(0);
    assert!(ran.out.contains("6 ranks on 3 nodes, at most 2 on each"), "{}", ran.out);
    assert!(ran.out.contains("(vector,(0,2,2),(3,2,1))"), "{}", ran.out);
    let script = "echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read answer <&$PMI_FD
         echo cmd=get kvsname=x key=PMI_process_mapping >&$PMI_FD; read answer <&$PMI_FD
         echo ${answer#*value=}; echo cmd=finalize >&$PMI_FD; read answer <&$PMI_FD";
    let script = script.replace("=x key", "=$name key").replace(
        "echo cmd=get kv",
        "echo cmd=get_my_kvsname >&$PMI_FD; read name <&$PMI_FD; name=${name#*kvsname=}
         echo cmd=get kv",
    );
    let host = start(2, &["--expect", "2", "-n", "2", "sh", "-c", &script]);
    for id in [2, 3] {
        let mut rank = host.dial();
        ask(&mut rank, &format!("cmd=initack pmiid={id}\n"));
        ask(&mut rank, "cmd=init pmi_version=1 pmi_subversion=1\n");
        ask(&mut rank, "cmd=finalize\n");
    }
    let (code, out, said) = host.end();
    assert_eq!((code, &*out), (0, "(vector,(0,2,1),(3,2,1))\n".repeat(2).as_str()), "{said}");
}
