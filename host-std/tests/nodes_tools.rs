//! PMIx tools of a run on several nodes, which are node servers on this machine here: tools connect to the head and
//! reach the ranks of all nodes, and ranks reach each other by the same requests.

use crate::common::hosts::local_nodes;
use crate::common::tools::{
    ENDLESS, ENDS_OF_RANKS, Place, debugger_attaches_to_a_running_job, debugger_controls_a_job,
    debugger_starts_a_job_with_its_daemons, input_of_a_tool_reaches_its_job,
    output_reaches_a_tool_and_the_launcher,
};
use crate::common::{Ran, Running, host, pmix_program, run, shell};
use pmi_std::pmix::Pmix;
use pmi_std::pmix::Status;
use pmi_std::pmix::tool::{self, ToolServer};
use std::fs;

/// Starts `pmi-host run --starter local:3 WORDS…`, and waits until tools can find it.
fn started(place: &Place, words: &[&str]) -> Running {
    place.start(["--starter", "local:3"].iter().chain(words))
}

/// Runs `pmi-host pmix` with these words.
fn command(place: &Place, words: &[&str]) -> Ran {
    run(place.within(host(["pmix"]).args(words)))
}

/// Waits until the process table has this many lines with `state`, and returns their words.
#[track_caller]
fn table(place: &Place, state: &str, count: usize) -> Vec<Vec<String>> {
    for _ in 0..600 {
        let ran = command(place, &["ps"]);
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        let lines: Vec<Vec<String>> = ran.out.lines().skip(1).map(words).collect();
        if lines.iter().filter(|line| line[2] == state).count() == count {
            return lines;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("there are never {count} processes with {state}");
}

/// A tool of this process.
fn connected(place: &Place, nspace: &str) -> Pmix {
    let file = place.files().into_iter().find(|path| path.to_string_lossy().ends_with(nspace));
    let file = format!("file:{}", file.expect("the file of the job").display());
    tool::connect(&ToolServer::Uri(file)).unwrap()
}

#[test]
fn processes_of_all_nodes_are_listed_queried_and_terminated() {
    let place = Place::new("nodes-command");
    let job = started(&place, &["-n", "4", ENDLESS[0], ENDLESS[1]]);
    let nspace = &*place.first_job(job.pid());
    let lines = table(&place, "RUNNING", 4);
    let hosts = ["local1", "local2", "local3", "local1"];
    for (rank, (line, host)) in lines.iter().zip(hosts).enumerate() {
        let expected = [nspace, &rank.to_string(), "RUNNING", &line[3], host, "sleep"];
        assert_eq!(line.iter().map(String::as_str).collect::<Vec<_>>(), expected);
        let program = fs::read_to_string(format!("/proc/{}/comm", line[3])).unwrap();
        assert_eq!(program.trim_end(), "sleep");
    }
    let query = |words: &[&str]| {
        let ran = command(&place, &[&["query", "--job", nspace], words].concat());
        ran.exits_with(0).out.trim_end().to_owned()
    };
    assert_eq!(query(&["pmix.qry.jst"]), "pmix.qry.jst: RUNNING");
    assert_eq!(query(&["--rank", "2", "pmix.ppid"]), format!("pmix.ppid: {}", lines[2][3]));
    let has_tools = pmix_program("pmix_tool").is_some();
    place.tools(&["show", nspace], |ran| {
        let ran = ran.exits_with(0).says_nothing();
        let row = |rank| format!("PROC EXECUTING rank {rank} of {nspace}: sleep, process exists");
        let mut expected: Vec<String> = (0..4).map(row).collect();
        expected.extend(["job RUNNING".into(), "size 4".into(), "applications 1".into()]);
        assert_eq!(ran.out.lines().collect::<Vec<_>>(), expected);
    });
    assert!(has_tools || std::env::var_os("CI").is_none());

    let state = |rank: usize| {
        let stat = fs::read_to_string(format!("/proc/{}/stat", lines[rank][3])).unwrap();
        stat.rsplit(") ").next().and_then(|rest| rest.chars().next())
    };
    command(&place, &["ctrl", "--job", nspace, "--rank", "1", "pause"]).exits_with(0);
    while state(1) != Some('T') {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_ne!(state(2), Some('T'));
    command(&place, &["ctrl", "--job", nspace, "--rank", "1", "resume"]).exits_with(0);
    let ran = command(&place, &["ctrl", "--job", nspace, "--rank", "7", "kill"]).exits_with(1);
    ran.says(&[&format!("the PMIx server knows no rank 7 of a job '{nspace}'")]);
    command(&place, &["ctrl", "--job", nspace, "terminate"]).exits_with(0).says_nothing();
    job.end().exits_with(143);
    assert_eq!(place.files().len(), 0, "{:?}", place.files());
}

#[test]
fn ranks_query_and_control_those_of_other_nodes() {
    let over_nodes = |program: &str, words: &[&str], ranks: u32| {
        let program = pmix_program(program)?.display().to_string();
        let ran = run(&mut local_nodes(2, ranks, &[&[&*program], words].concat()));
        let mut lines: Vec<String> = ran.lines().iter().map(|line| (*line).to_owned()).collect();
        lines.sort_unstable();
        Some((ran, lines))
    };
    let Some((ran, lines)) = over_nodes("pmix_query", &[], 2) else { return };
    let known = |rank| format!("{rank}: all that was asked is known");
    assert_eq!((ran.code, lines), (0, vec![known(0), known(1)]), "{}", ran.err);
    let (ran, lines) = over_nodes("pmix_control", &["ends"], 2).expect("was built");
    let expected =
        ["0: the children ended", "0: the other stopped and went on", "1: a signal came"];
    assert_eq!((ran.code, lines), (0, expected.map(str::to_owned).to_vec()), "{}", ran.err);
    let program = pmix_program("pmix_query").expect("was built").display().to_string();
    let words = ["--on-exit-error", "ignore", &program, "ends"];
    let ran = run(&mut local_nodes(3, 6, &words));
    assert_eq!(ran.lines(), ENDS_OF_RANKS, "{}", ran.err);
}

#[test]
fn tool_starts_a_job_on_the_nodes_and_waits_for_its_end() {
    let place = Place::new("nodes-spawn");
    let job = started(&place, &["-n", "3", ENDLESS[0], ENDLESS[1]]);
    table(&place, "RUNNING", 3);
    let command =
        "echo rank $PMI_RANK of $PMI_SIZE, spawned: $PMI_SPAWNED, parent: $PMIX_PARENT_ID";
    place.tools(&["spawn", command], |ran| {
        let ran = ran.exits_with(0).says_nothing();
        assert_eq!(ran.lines(), ["the job has ended"]);
    });
    job.signal("TERM");
    let ran = job.end().exits_with(143);
    let mut lines = ran.lines();
    lines.sort_unstable();
    // Once for each library, if both are there.
    lines.dedup();
    let expected = match pmix_program("pmix_tool") {
        Some(_) => vec!["rank 0 of 2, spawned: 0, parent:", "rank 1 of 2, spawned: 0, parent:"],
        None => vec![],
    };
    assert_eq!(lines, expected, "{}", ran.err);
}

#[test]
fn tool_starts_a_job_on_a_host_that_is_added() {
    let place = Place::new("nodes-spawn-added");
    let options = ["--label-format", "%h ", "-n", "3", ENDLESS[0], ENDLESS[1]];
    let job = started(&place, &options);
    table(&place, "RUNNING", 3);
    // The second library finds it in the run.
    place.tools(&["spawn-added", "local4 echo rank $PMI_RANK of $PMI_SIZE"], |ran| {
        let ran = ran.exits_with(0).says_nothing();
        assert_eq!(ran.lines(), ["the job has ended"]);
    });
    job.signal("TERM");
    let ran = job.end().exits_with(143);
    let mut lines = ran.lines();
    lines.dedup();
    let expected = match pmix_program("pmix_tool") {
        Some(_) => vec!["local4 rank 0 of 2", "local4 rank 1 of 2"],
        None => vec![],
    };
    assert_eq!(lines, expected, "{}", ran.err);
}

#[test]
fn tool_receives_the_output_of_ranks_on_all_nodes() {
    output_reaches_a_tool_and_the_launcher("nodes-iof", &["--starter", "local:3"], |place| {
        table(place, "RUNNING", 2);
    });
}

#[test]
fn tool_provides_the_input_of_a_job_on_the_nodes() {
    input_of_a_tool_reaches_its_job("nodes-input", &["--starter", "local:3", "-n", "2"]);
}

/// Options of a run with one rank on each of three nodes. The ranks of the next job begin on the first node.
const THREE_NODES: [&str; 4] = ["--starter", "local:3", "-n", "3"];

/// Lines of daemons on these nodes: a job of four ranks has two on the first node.
fn daemons(nodes: &[u32]) -> Vec<String> {
    let line = |node: &u32| format!("{} processes on local{node}", if *node == 1 { 2 } else { 1 });
    nodes.iter().map(line).collect()
}

// Coverage: X2-6
#[test]
fn debugger_holds_a_job_in_init_and_starts_daemons_beside_each_rank_on_its_node() {
    let wanted = ("init", "proc", 4);
    debugger_controls_a_job("nodes-debug", &THREE_NODES, wanted, &daemons(&[1, 2, 3, 1]));
}

// Coverage: X2-6
#[test]
fn debugger_stops_a_job_in_its_program_and_starts_a_daemon_on_each_of_its_nodes() {
    let wanted = ("app", "node", 4);
    debugger_controls_a_job("nodes-debug-app", &THREE_NODES, wanted, &daemons(&[1, 2, 3]));
}

// Coverage: X2-6
#[test]
fn debugger_starts_a_job_and_its_daemons_by_one_request_on_the_nodes() {
    debugger_starts_a_job_with_its_daemons("nodes-cospawn", &THREE_NODES);
}

// Coverage: X2-6
#[test]
fn daemons_on_the_nodes_of_a_running_job_end_with_it() {
    let line = |rank: u32| format!("daemon {rank}: 1 processes on local{}", rank + 1);
    let options = ["--starter", "local:3", "-n", "2"];
    debugger_attaches_to_a_running_job("nodes-attach", &options, &[0, 1].map(line));
}

// Coverage: X2-6
#[test]
fn debugger_stops_ranks_of_all_nodes_at_their_first_instruction() {
    let place = Place::new("nodes-exec");
    let job = place.start(THREE_NODES.iter().chain(&ENDLESS));
    place.programs("pmix_debug", &["exec"], |ran| {
        let ran = ran.exits_with(0);
        let at = |line: &str| ran.out.find(line).unwrap_or_else(|| panic!("{line}: {}", ran.out));
        for rank in 0..2 {
            assert!(at("the job waits\n") < at(&format!("{rank}: released\n")), "{}", ran.out);
        }
        at("the job has ended\n");
    });
    job.signal("TERM");
    job.end().exits_with(143);
}

#[test]
fn tools_and_ranks_of_all_nodes_share_names_and_events() {
    let place = Place::new("nodes-events");
    let script = "say() { echo \"$@\" >&$PMI_FD; read answer <&$PMI_FD; }
        say cmd=init pmi_version=1 pmi_subversion=1
        say cmd=publish_name service=lake-$PMI_RANK port=of-$PMI_RANK
        until say cmd=lookup_name service=ocean; [ \"${answer#*port=}\" = far ]; do sleep 0.05; done
        say cmd=finalize; echo $PMI_RANK: found";
    let [sh, option, script] = shell(script);
    let job = started(&place, &["-n", "2", sh, option, script]);
    let nspace = place.first_job(job.pid());
    let mut pmix = connected(&place, &nspace);
    let ran = command(&place, &["lookup", "--wait", "60", "lake-0", "lake-1"]).exits_with(0);
    assert_eq!(ran.lines(), ["lake-0: of-0", "lake-1: of-1"]);
    // Ends of ranks of all nodes are events of the head.
    pmix.register(&[Status(-201)], &[]).unwrap();
    pmix.register(&[Status(-231)], &[]).unwrap();
    command(&place, &["event", "EVENT_NODE_DOWN"]).exits_with(0).says_nothing();
    let event = pmix.next_event(None).unwrap().expect("an event without a limit of time");
    assert_eq!(event.code, Status(-231));
    pmix.publish(b"ocean", b"far").unwrap();
    for _ in 0..2 {
        let event = pmix.next_event(None).unwrap().expect("an event without a limit of time");
        assert_eq!(event.code, Status(-201));
    }
    let mut lines: Vec<String> = job.end().exits_with(0).out.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0: found", "1: found"]);
}

#[test]
fn event_of_a_tool_reaches_clients_on_all_nodes() {
    let Some(events) = pmix_program("pmix_events") else { return };
    let place = Place::new("nodes-told");
    let program = events.display().to_string();
    let job = started(&place, &["-n", "3", &program, "told"]);
    for rank in 0..3 {
        job.wait_for_output(&format!("rank {rank} listens\n"));
    }
    command(&place, &["event", "-3001"]).exits_with(0).says_nothing();
    let ran = job.end().exits_with(0);
    let mut lines: Vec<&str> = ran.out.lines().filter(|line| line.contains("receives")).collect();
    lines.sort_unstable();
    assert_eq!(lines, [0, 1, 2].map(|rank| format!("rank {rank} receives -3001 of rank 0")));
}

#[test]
fn address_of_the_head_is_reported_and_it_is_the_one_system_server() {
    let place = Place::new("nodes-system");
    let address = place.0.with_extension("uri");
    let uri = address.to_str().unwrap();
    let words = ["--system-server", "--report-uri", uri, "-n", "2", ENDLESS[0], ENDLESS[1]];
    let job = started(&place, &words);
    let uri = fs::read_to_string(&address).unwrap();
    assert!(uri.starts_with(&format!("pmi-host-{}.0;tcp4://127.0.0.1:", job.pid())), "{uri}");
    let mut second = host(["run"]);
    let ran = run(place.within(second.args(["--starter", "local:2"]).args(words))).exits_with(1);
    ran.says(&["this host has a system server already", &job.pid().to_string()]);
    table(&place, "RUNNING", 2);
    let nspace = place.first_job(job.pid());
    place.tools(&["show", &nspace, "pmix.cnct.sys", "yes"], |ran| {
        ran.exits_with(0).says_nothing();
    });
    place.tools(&["show", &nspace, "pmix.srvr.uri", uri.trim_end()], |ran| {
        ran.exits_with(0).says_nothing();
    });
    job.signal("TERM");
    job.end().exits_with(143);
    assert_eq!(place.files().len(), 0, "{:?}", place.files());
}

#[test]
fn run_that_admits_no_tools_has_no_files() {
    let place = Place::new("nodes-none");
    let mut run_command = local_nodes(2, 2, &["--no-tools"]);
    let ran = run(place.within(run_command.args(shell("sleep 0.3")))).exits_with(0).says_nothing();
    assert_eq!((ran.out.as_str(), place.files().len()), ("", 0));
}
