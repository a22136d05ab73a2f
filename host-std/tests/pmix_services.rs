//! Calls of the PMIx client of this project beyond the exchange of values, by ranks and by tools.
//!
//! The program of the jobs is this one: started by a launcher with the name of one test, it is a rank.

use crate::common::tools::{ENDLESS, Place};
use crate::common::{Ran, host, run};
use pmi_core::error::Misuse;
use pmi_std::pmix::tool::{self, ToolServer};
use pmi_std::pmix::{
    self, Attribute, CallError, Datum, Pmix, Proc, Scope, SharedPmix, SpawnApp, Status, WILDCARD,
    Within, keys, proc_state, range,
};
use std::time::Duration;

/// Runs `ranks` of `rank_process`; `part` selects their behaviour.
fn ran(ranks: u32, part: &str) -> Ran {
    let own = std::env::current_exe().expect("a test knows where it is");
    let mut launcher = host(["run", "--pmi", "x", "-n", &ranks.to_string()]);
    launcher
        .arg(own)
        .args(["--exact", "pmix_services::rank_process", "--nocapture"])
        .env(PART, part);
    run(&mut launcher)
}

fn said(ran: &Ran) -> Vec<&str> {
    ran.lines().into_iter().filter(|line| line.starts_with("rank ")).collect()
}

// Coverage: X1-10, X1-12
#[test]
fn fences_and_gets_are_started_and_finished_later() {
    let ran = ran(3, "started").exits_with(0).says_nothing();
    assert_eq!(said(&ran), ["rank 0 has all", "rank 1 has all", "rank 2 has all"]);
}

// Coverage: X1-15
#[test]
fn threads_share_one_connection() {
    let ran = ran(2, "threads").exits_with(0).says_nothing();
    assert_eq!(said(&ran), ["rank 0 has all", "rank 1 has all"]);
}

// Coverage: X1-11
#[test]
fn events_reach_the_ranks_that_have_registered() {
    let ran = ran(2, "events").exits_with(0).says_nothing();
    assert_eq!(said(&ran), ["rank 0 has notified", "rank 1 has been notified"]);
}

// Coverage: X1-16
#[test]
fn job_is_spawned_and_connected() {
    let ran = ran(1, "spawn").exits_with(0).says(&["there is no program './no-such-program'"]);
    assert_eq!(
        said(&ran),
        ["rank 0 of 1 has met 2", "rank 0 of 2 has met 1", "rank 1 of 2 has met 1"]
    );
}

// Coverage: X2-14, X2-23
#[test]
fn rank_queries_logs_and_controls_a_spawned_job() {
    let ran = ran(1, "control").exits_with(0);
    let lines: Vec<&str> = ran.err.lines().filter(|line| line.contains("logged")).collect();
    assert_eq!(lines, ["logged by rank 0"], "{}", ran.err);
    assert_eq!(said(&ran), ["rank 0 has ended its job"]);
}

#[test]
fn groups_are_constructed_left_and_destructed() {
    let ran = ran(3, "groups").exits_with(0).says_nothing();
    assert_eq!(said(&ran), ["rank 0 has left", "rank 1 is done", "rank 2 is done"]);
}

/// Acts as a rank if a launcher has started it as one; otherwise an empty test.
#[test]
fn rank_process() {
    let Ok(part) = std::env::var(PART) else { return };
    let pmix = pmix::connect().unwrap().expect("a launcher");
    match part.as_str() {
        "started" => started(pmix),
        "threads" => threads(pmix),
        "events" => events(pmix),
        "spawn" => spawn(pmix),
        "control" => control(pmix),
        "sleep" => std::thread::sleep(Duration::from_secs(600)),
        _ => groups(pmix),
    }
}

fn started(mut pmix: Pmix) {
    let (rank, size) = (pmix.rank(), pmix.size());
    for key in 0..KEYS {
        let key = format!("key-{key}");
        pmix.put(Scope::Global, key.as_bytes(), Datum::U32(rank)).unwrap();
    }
    pmix.commit().unwrap();
    // Gets wait for the commits of the others, while a fence is in progress; more than can be in flight.
    let of = |rank| Proc { nspace: b"", rank };
    let within = Within::Time(Duration::from_secs(60));
    let gets: Vec<_> = (0..KEYS)
        .map(|at| pmix.start_get(of((rank + 1) % size), format!("key-{at}").as_bytes(), within))
        .collect();
    let fence = pmix.start_fence(&[], false, None).unwrap();
    for get in gets {
        let value = pmix.wait_get(get.unwrap()).unwrap().and_then(|value| value.number());
        assert_eq!(value, Some(((rank + 1) % size).into()));
    }
    while !pmix.is_done(&fence).unwrap() {
        std::thread::yield_now();
    }
    pmix.wait(fence).unwrap();
    // A value without a request, and one that nothing has put.
    let own = pmix.start_get(of(rank), keys::RANK, Within::Immediate).unwrap();
    pmix.wait_get(own).unwrap();
    let none = pmix.start_get(of(0), b"nothing", Within::Immediate).unwrap();
    assert!(pmix.wait_get(none).unwrap().is_none());
    let fence = pmix.start_fence(&[], false, None).unwrap();
    pmix.wait(fence).unwrap();
    pmix.finalize().unwrap();
    println!("\nrank {rank} has all");
}

fn threads(pmix: Pmix) {
    let shared = SharedPmix::new(pmix).unwrap();
    let (rank, size) = (shared.rank(), shared.size());
    let other = Proc { nspace: b"", rank: (rank + 1) % size };
    std::thread::scope(|scope| {
        // Each waits for a value of the other rank, while others commit, wait for events and ask.
        for thread in 0..24_u32 {
            let shared = &shared;
            scope.spawn(move || {
                let key = format!("key-{thread}");
                let within = Within::Time(Duration::from_secs(60));
                let read = |value: pmix::Value<'_>| value.number();
                let value = shared.get(other, key.as_bytes(), within, read).unwrap();
                assert_eq!(value, Some(Some(thread.into())));
            });
        }
        let shared = &shared;
        scope.spawn(move || {
            for thread in 0..24_u32 {
                let key = format!("key-{thread}");
                shared.put(Scope::Global, key.as_bytes(), Datum::U32(thread)).unwrap();
                shared.commit().unwrap();
            }
        });
        scope.spawn(move || {
            let nothing = shared.next_event(Some(Duration::from_millis(1)));
            assert!(nothing.unwrap().is_none());
            let known = shared.query(&[keys::JOB_SIZE], &[]).unwrap();
            assert_eq!(known.find(keys::JOB_SIZE).unwrap().number(), Some(size.into()));
        });
    });
    shared.fence().unwrap();
    // Threads that wait for events end with the session.
    std::thread::scope(|scope| {
        let waiting = [(); 2].map(|()| scope.spawn(|| shared.next_event(None)));
        shared.finalize().unwrap();
        for thread in waiting {
            let ended = thread.join().unwrap();
            assert!(
                matches!(ended, Err(CallError::Misuse(Misuse::WrongState { .. }))),
                "{ended:?}"
            );
        }
    });
    // The error of a session that is over reaches every later call.
    assert!(shared.fence().is_err());
    println!("\nrank {rank} has all");
}

fn events(mut pmix: Pmix) {
    let code = Status(-3001);
    if pmix.rank() == 1 {
        pmix.register(&[code], &[]).unwrap();
    }
    pmix.fence().unwrap();
    if pmix.rank() == 0 {
        let text = [Attribute::new(b"my.text", Datum::Text(b"hello"))];
        pmix.notify(code, range::NAMESPACE, &text).unwrap();
        pmix.notify(Status(-3002), range::NAMESPACE, &[]).unwrap();
        pmix.fence().unwrap();
        pmix.finalize().unwrap();
        println!("\nrank 0 has notified");
        return;
    }
    let event = pmix.next_event(None).unwrap().expect("an event without a limit of time");
    assert_eq!((event.code, event.range, event.source.rank), (code, range::NAMESPACE, 0));
    assert_eq!(event.source.nspace, pmix.nspace());
    assert_eq!(event.infos.find(b"my.text").unwrap().text(), Some(&b"hello"[..]));
    pmix.deregister(&[code]).unwrap();
    pmix.fence().unwrap();
    // Nothing was sent for the other code.
    assert!(pmix.next_event(Some(Duration::ZERO)).unwrap().is_none());
    assert_eq!(pmix.events_lost(), 0);
    pmix.finalize().unwrap();
    println!("\nrank 1 has been notified");
}

/// The description of a job of `rank_process`.
fn spawned<'a>(own: &'a [u8], part: &'a [&'a [u8]], processes: u32) -> SpawnApp<'a> {
    SpawnApp { arguments: &ARGUMENTS, variables: part, ..SpawnApp::new(own, processes) }
}

fn own_program() -> Vec<u8> {
    std::env::current_exe().unwrap().to_str().unwrap().as_bytes().to_vec()
}

fn spawn(mut pmix: Pmix) {
    let (rank, size) = (pmix.rank(), pmix.size());
    let parent = pmix.job_info().find(rank, keys::PARENT).and_then(|parent| {
        let parent = parent.proc()?;
        (parent.rank < size).then(|| parent.nspace.to_vec())
    });
    let other = match parent {
        Some(parent) => parent,
        None => {
            let (own, part) = (own_program(), format!("{PART}=spawn"));
            let missing = pmix.spawn(&[SpawnApp::new(b"./no-such-program", 1)], &[]);
            assert!(matches!(missing, Err(CallError::Refused { .. })), "{missing:?}");
            pmix.spawn(&[spawned(&own, &[part.as_bytes()], 2)], &[]).unwrap()
        }
    };
    let own = pmix.nspace().to_vec();
    let both = [&own, &other].map(|nspace| Proc { nspace, rank: WILDCARD });
    pmix.connect(&both, None).unwrap();
    let of = Proc { nspace: &other, rank: WILDCARD };
    let met = pmix.get_of(of, keys::JOB_SIZE, Within::Usual).unwrap();
    let met = met.and_then(|met| met.number()).expect("the size of the other job");
    pmix.disconnect(&both, Some(Duration::from_secs(60))).unwrap();
    pmix.finalize().unwrap();
    println!("\nrank {rank} of {size} has met {met}");
}

fn control(mut pmix: Pmix) {
    let (own, part) = (own_program(), format!("{PART}=sleep"));
    pmix.register(&[Status::JOB_END], &[]).unwrap();
    let job = pmix.spawn(&[spawned(&own, &[part.as_bytes()], 2)], &[]).unwrap();
    let qualifiers = [Attribute::new(keys::NSPACE, Datum::Text(&job))];
    let known = pmix.query(&[keys::JOB_SIZE, keys::QUERY_PROC_TABLE], &qualifiers).unwrap();
    assert_eq!(known.find(keys::JOB_SIZE).unwrap().number(), Some(2));
    assert!(known.find(keys::QUERY_PROC_TABLE).unwrap().array().is_some_and(|all| all.count == 2));
    let part = pmix.query(&[keys::JOB_SIZE, b"pmix.no.such"], &qualifiers).unwrap();
    assert_eq!(part.iter().count(), 1);
    let none = pmix.query(&[b"pmix.no.such"], &[]);
    assert!(matches!(none, Err(CallError::Refused { .. })), "{none:?}");

    let text = [Attribute::new(keys::LOG_STDERR, Datum::Text(b"logged by rank 0"))];
    pmix.log(&text, &[]).unwrap();
    let nowhere = [Attribute::new(b"pmix.log.gstore", Datum::Text(b"x"))];
    let refused = pmix.log(&nowhere, &[]);
    let expected = Status::NOT_SUPPORTED;
    assert!(matches!(refused, Err(CallError::Refused { status, .. }) if status == expected));

    let target = [Proc { nspace: &job, rank: WILDCARD }];
    let directives = [Attribute::enabled(keys::CONTROL_TERMINATE).required()];
    pmix.job_control(&target, &directives).unwrap();
    let unknown = [Attribute::enabled(b"pmix.jctrl.unknown").required()];
    let refused = pmix.job_control(&target, &unknown);
    assert!(matches!(refused, Err(CallError::Refused { status, .. }) if status == expected));
    let event = pmix.next_event(None).unwrap().expect("an event without a limit of time");
    assert_eq!(event.infos.find(keys::NSPACE).unwrap().text(), Some(&job[..]));
    pmix.finalize().unwrap();
    println!("\nrank 0 has ended its job");
}

fn groups(mut pmix: Pmix) {
    let (rank, size) = (pmix.rank(), pmix.size());
    let all: Vec<Proc<'_>> = (0..size).map(|rank| Proc { nspace: b"", rank }).collect();
    let assigned = [Attribute::enabled(keys::GROUP_ASSIGN_CONTEXT_ID)];
    let group = pmix.group_construct(b"ends", &all, &assigned).unwrap();
    assert!(group.context.is_some());
    pmix.register(&[Status::GROUP_LEFT], &[]).unwrap();
    pmix.fence().unwrap();
    if rank == 0 {
        pmix.group_leave(b"ends").unwrap();
        println!("\nrank 0 has left");
    } else {
        let event = pmix.next_event(None).unwrap().expect("an event without a limit of time");
        assert_eq!((event.code, event.source.rank), (Status::GROUP_LEFT, 0));
        pmix.group_destruct(b"ends", Some(Duration::from_secs(60))).unwrap();
        println!("\nrank {rank} is done");
    }
    pmix.fence().unwrap();
    pmix.finalize().unwrap();
}

#[test]
fn tool_finds_its_server_and_knows_the_processes() {
    let place = Place::new("client");
    let job = place.start(["-n", "2"].into_iter().chain(ENDLESS));
    let nspace = place.first_job(job.pid());
    let file = place.files().into_iter().find(|path| path.to_string_lossy().ends_with(&nspace));
    let file = format!("file:{}", file.expect("the file of the job").display());
    let mut pmix = tool::connect(&ToolServer::Uri(file)).unwrap();
    assert_eq!((pmix.rank(), pmix.size()), (0, 1));
    assert!(pmix.nspace().starts_with(b"tool_"));
    let qualifiers = [Attribute::new(keys::NSPACE, Datum::Text(nspace.as_bytes()))];
    let known = pmix.query(&[keys::QUERY_NAMESPACES], &[]).unwrap();
    let names = known.find(keys::QUERY_NAMESPACES).unwrap().text().unwrap().to_vec();
    assert!(String::from_utf8(names).unwrap().split(',').any(|name| name == nspace));
    for rank in 0..2 {
        let of = Datum::Proc(Proc { nspace: nspace.as_bytes(), rank });
        let of = [Attribute::new(keys::PROC_ID, of)];
        let known = pmix.query(&[keys::PROC_STATE], &of).unwrap();
        let state = known.find(keys::PROC_STATE).unwrap().number();
        assert_eq!(state, Some(proc_state::RUNNING.into()));
    }
    let known = pmix.query(&[keys::JOB_SIZE], &qualifiers).unwrap();
    assert_eq!(known.find(keys::JOB_SIZE).unwrap().number(), Some(2));
    let target = [Proc { nspace: nspace.as_bytes(), rank: WILDCARD }];
    pmix.job_control(&target, &[Attribute::enabled(keys::CONTROL_TERMINATE)]).unwrap();
    // The launcher ends with its job, maybe before it answers this.
    let _ = pmix.finalize();
    job.end().exits_with(143);
}

/// Number of keys, of which a rank requests all at once.
const KEYS: u32 = 100;
/// Arguments of this program as a rank.
const ARGUMENTS: [&[u8]; 3] = [b"--exact", b"pmix_services::rank_process", b"--nocapture"];
/// Variable with the behaviour of a rank.
const PART: &str = "PART_OF_THE_RANK";
