//! Recorded runs, views of their records, and replay of the records.

use crate::common::library::MPICH_5;
use crate::common::{Ran, host, job, mpi_program, openmpi_program, run, shell, start};
use pmi_trace::open::{self, OpenedTrace};
use pmi_trace::{Content, Direction, Trace};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A separate file for this test.
fn file(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("trace-{name}"));
    // An earlier run may have left it.
    let _ = std::fs::remove_file(&path);
    path
}

fn read(path: &Path) -> OpenedTrace {
    open::read(&std::fs::read(path).unwrap()).unwrap()
}

/// Records a run of `program`, which must succeed.
fn recorded(name: &str, ranks: u32, words: &[&Path]) -> PathBuf {
    let path = file(name);
    let mut words: Vec<&Path> = words.to_vec();
    words.splice(..0, [Path::new("--trace"), &path]);
    run(&mut job(ranks, words)).exits_with(0).says_nothing();
    path
}

/// `pmi-host WORDS… FILES…`
fn with<'a>(words: &[&str], files: impl IntoIterator<Item = &'a Path>) -> Ran {
    run(host(words).args(files))
}

/// Number of requests with this command.
fn asked(trace: &Trace, word: &[u8]) -> usize {
    let is_asked = |(_, _, direction, bytes): &(usize, &pmi_trace::Record, Direction, &[u8])| {
        *direction == Direction::ToServer && pmi_trace::message::word(bytes) == word
    };
    trace.messages().filter(is_asked).count()
}

#[test]
fn real_run_is_recorded_shown_counted_and_drawn() {
    let Some(hello) = mpi_program("hello") else { return };
    let path = recorded("hello", 4, &[&hello]);
    let OpenedTrace { trace, notes, .. } = read(&path);
    assert_eq!(notes, [""; 0]);
    assert_eq!((trace.head.jobs[0].ranks, trace.exit_code()), (4, Some(0)));
    assert!(trace.head.started_unix_ns > 0 && trace.head.recorder.starts_with("pmi-host "));
    for word in [&b"init"[..], b"get_maxes", b"finalize"] {
        assert_eq!(asked(&trace, word), 4);
    }
    let count = |is: fn(&Content) -> bool| trace.records.iter().filter(|one| is(&one.what)).count();
    assert_eq!(count(|what| matches!(what, Content::Started { .. })), 4);
    assert_eq!(count(|what| matches!(what, Content::Exited { code: 0 })), 4);
    assert_eq!(count(|what| *what == Content::Closed), 4);
    assert!(trace.records.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns));

    let shown = with(&["trace", "show"], [path.as_path()]).exits_with(0).says_nothing();
    assert_eq!(shown.out.lines().filter(|line| line.contains(" → init version=1.1")).count(), 4);
    let one = with(&["trace", "show", "--raw", "--rank", "2"], [path.as_path()]).exits_with(0);
    assert!(one.out.contains(" 2 → cmd=init pmi_version=1 pmi_subversion=1\\n"), "{}", one.out);
    assert!(!one.out.contains(" 1 →"), "{}", one.out);
    let counted = with(&["trace", "stats"], [path.as_path()]).exits_with(0);
    let line = counted.out.lines().find(|line| line.starts_with("finalize ")).unwrap();
    assert_eq!(line.split_whitespace().nth(1), Some("4"), "{line}");
    let drawn = with(&["trace", "export", "--format", "svg"], [path.as_path()]).exits_with(0);
    assert!(drawn.out.starts_with("<svg ") && drawn.out.contains("fence 1 · ranks 0-3"));
    let other = with(&["trace", "export", "--format", "chrome"], [path.as_path()]).exits_with(0);
    assert!(other.out.starts_with('{') && other.out.contains("\"traceEvents\""));
}

/// Records a run of `program` on node servers, which must succeed.
fn recorded_on_nodes(name: &str, (nodes, ranks): (u32, u32), words: &[&Path]) -> PathBuf {
    let path = file(name);
    let (starter, ranks) = (format!("local:{nodes}"), ranks.to_string());
    let mut command = host(["run", "--starter", &starter, "-n", &ranks, "--trace"]);
    run(command.arg(&path).args(words)).exits_with(0).says_nothing();
    path
}

#[test]
fn run_on_several_nodes_is_recorded_as_one() {
    let Some(ring) = mpi_program("ring") else { return };
    let path = recorded_on_nodes("nodes", (3, 6), &[&ring]);
    let OpenedTrace { trace, notes, .. } = read(&path);
    assert_eq!(notes, [""; 0]);
    assert_eq!((trace.head.jobs[0].ranks, trace.exit_code()), (6, Some(0)));
    for word in [&b"init"[..], b"get_maxes", b"finalize"] {
        assert_eq!(asked(&trace, word), 6);
    }
    let mut hosts: Vec<(u32, &str)> = Vec::new();
    for record in &trace.records {
        if let Content::Started { host, .. } = &record.what {
            hosts.push((record.rank.unwrap(), host));
        }
    }
    hosts.sort_unstable();
    let expected = ["local1", "local2", "local3", "local1", "local2", "local3"];
    assert_eq!(hosts, (0..).zip(expected).collect::<Vec<_>>());
    assert!(trace.records.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns));
    // Connections of different ranks have different numbers, and all of them are closed.
    let is_new = |what: &Content| matches!(what, Content::Connected { .. });
    let opened = trace.records.iter().filter(|one| is_new(&one.what)).filter_map(|one| one.session);
    assert_eq!(opened.collect::<std::collections::BTreeSet<u32>>().len(), 6);
    let count = |is: fn(&Content) -> bool| trace.records.iter().filter(|one| is(&one.what)).count();
    assert_eq!(count(|what| *what == Content::Closed), 6);
    assert_eq!(count(|what| matches!(what, Content::Exited { code: 0 })), 6);
    // No rank leaves a fence before the last one has entered it, by the times of the trace.
    let mut entered = 0;
    for (_, record, direction, bytes) in trace.messages() {
        match (direction, pmi_trace::message::word(bytes)) {
            (Direction::ToServer, b"barrier_in") => entered += 1,
            (Direction::ToClient, b"barrier_out") => {
                assert!(entered >= 6, "rank {:?} at {}", record.rank, record.time_ns);
            }
            _ => {}
        }
    }
    let drawn = with(&["trace", "export", "--format", "svg"], [path.as_path()]).exits_with(0);
    assert!(drawn.out.contains("fence 1 · ranks 0-5"));
}

#[test]
fn spawned_job_on_several_nodes_is_recorded_once() {
    let Some(spawn) = (MPICH_5.build)("spawn") else { return };
    let path = recorded_on_nodes("nodes-spawn", (2, 2), &[&spawn, Path::new("2")]);
    let trace = read(&path).trace;
    let jobs: Vec<_> = trace.jobs().map(|job| (job.job, job.spawner)).collect();
    assert_eq!(jobs, [(0, None), (1, Some(0))]);
    let of_spawned = |record: &&pmi_trace::Record| record.job == 1 && record.rank.is_some();
    let children: Vec<_> = trace.records.iter().filter(of_spawned).collect();
    assert!(!children.is_empty());
}

#[test]
fn failure_on_several_nodes_is_recorded_with_its_report() {
    let path = file("nodes-failure");
    let words = ["run", "--starter", "local:2", "-n", "4", "--trace"];
    let script = ["sh", "-c", "[ $PMI_RANK = 3 ] && exit 7; exec sleep 60"];
    run(host(words).arg(&path).args(script)).exits_with(7);
    let trace = read(&path).trace;
    let reports: Vec<&str> = trace
        .records
        .iter()
        .filter_map(|one| match &one.what {
            Content::Report { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(reports[0].contains("rank 3 of 4") && reports[0].contains("local2"), "{reports:?}");
    assert_eq!(trace.exit_code(), Some(7));
    let is_seven = |one: &pmi_trace::Record| one.what == Content::Exited { code: 7 };
    assert!(trace.records.iter().any(|one| is_seven(one) && one.rank == Some(3)));
}

#[test]
fn messages_of_several_nodes_are_shown_as_they_pass() {
    let Some(hello) = mpi_program("hello") else { return };
    let words = ["run", "--starter", "local:2", "-n", "4", "--show-messages"];
    let ran = run(host(words).arg(hello)).exits_with(0);
    for rank in 0..4 {
        for part in [format!("rank {rank} → init "), format!("rank {rank} ← finalize")] {
            assert!(ran.err.contains(&part), "{part}: {}", ran.err);
        }
    }
}

#[test]
fn trace_of_several_nodes_that_cannot_be_written_is_refused_before_the_start() {
    let words = ["run", "--starter", "local:2", "-n", "2", "--trace", "/no/such/file", "echo", "x"];
    let ran = run(&mut host(words)).exits_with(1);
    assert_eq!(ran.out, "");
    ran.says(&["the trace cannot be written to '/no/such/file'", "--trace"]);
}

#[test]
fn real_run_is_played_again_from_both_sides() {
    let Some(ring) = mpi_program("ring") else { return };
    let path = recorded("ring", 3, &[&ring]);
    let clients = with(&["replay"], [path.as_path()]).exits_with(0).says_nothing();
    assert!(clients.out.ends_with("of 3 ranks: every reply is as recorded\n"), "{}", clients.out);
    let server = with(&["replay"], [path.as_path(), &ring]).exits_with(0).says_nothing();
    assert!(server.out.contains("ring of 3: token 3\n"), "{}", server.out);
    assert!(server.out.ends_with("of 3 ranks: all as recorded\n"), "{}", server.out);
}

#[test]
fn messages_of_open_mpi_are_recorded_too() {
    let Some(hello) = openmpi_program("hello") else { return };
    let path = recorded("openmpi", 2, &[&hello]);
    let counted = with(&["trace", "stats"], [path.as_path()]).exits_with(0).says_nothing();
    for operation in ["pmix greeting", "FENCENB", "COMMIT", "FINALIZE"] {
        let line = counted.out.lines().find(|line| line.starts_with(operation));
        let line = line.unwrap_or_else(|| panic!("no {operation} in {}", counted.out));
        assert!(!line.contains('–'), "every one is answered: {line}");
    }
    let shown = with(&["trace", "show", "--rank", "1"], [path.as_path()]).exits_with(0);
    assert!(shown.out.contains(" 1 → FENCENB tag="), "{}", shown.out);
    let again = with(&["replay"], [path.as_path()]).exits_with(0).says_nothing();
    assert!(again.out.ends_with("of 2 ranks: every reply is as recorded\n"), "{}", again.out);
}

#[test]
fn requests_of_pmix_clients_are_played_again() {
    // Gets, names and timeouts, queries, which the launcher has answered, and a job that a rank spawns.
    let replayed = |name: &str, ranks: u32, words: &[&str]| {
        let path = file(name);
        let options = ["run", "--trace", path.to_str().unwrap(), "-n", &ranks.to_string()];
        run(host(options).args(words)).exits_with(0);
        let again = with(&["replay"], [path.as_path()]).exits_with(0).says_nothing();
        let all = "ranks: every reply is as recorded\n";
        assert!(again.out.ends_with(all), "{name}: {}", again.out);
        path
    };
    for name in ["pmix_get", "pmix_names", "pmix_query"] {
        let Some(program) = crate::common::pmix_program(name) else { return };
        replayed(name, 3, &[program.to_str().unwrap()]);
    }
    if let Some(spawn) = openmpi_program("spawn") {
        let words = [spawn.to_str().unwrap(), "2"];
        let hash = ["--env", "PMIX_GDS_MODULE=hash"];
        replayed("pmix-spawn", 2, &[&hash[..], &words].concat());
        // With a store, the record lacks what ranks get of the other job.
        let path = file("pmix-spawn-store");
        let options = ["run", "--trace", path.to_str().unwrap(), "-n", "2"];
        run(host(options).args(words)).exits_with(0);
        let again = with(&["replay"], [path.as_path()]).exits_with(1).says_nothing();
        assert!(again.out.contains(&hash.join(" ")), "{}", again.out);
    }
    // A reply that the record has in another form is shown with its request.
    let Some(fence) = crate::common::pmix_program("pmix_fence") else { return };
    let path = replayed("pmix-changed", 2, &[fence.to_str().unwrap()]);
    let OpenedTrace { mut trace, .. } = read(&path);
    let is_status = |direction: Direction, bytes: &[u8]| {
        direction == Direction::ToClient && bytes.len() == 18 && bytes.ends_with(&[2, 0])
    };
    let reply = trace.records.iter_mut().find_map(|record| match &mut record.what {
        Content::Message { direction, bytes } if is_status(*direction, bytes) => Some(bytes),
        _ => None,
    });
    *reply.expect("a status").last_mut().unwrap() = 0x5b;
    let changed = file("pmix-changed.json");
    std::fs::write(&changed, pmi_trace::json::write(&trace)).unwrap();
    let ran = with(&["replay"], [changed.as_path()]).exits_with(1);
    assert!(ran.out.contains("status=NOT_FOUND bytes=2\n  now:      pmix answer"), "{}", ran.out);
    assert!(ran.out.contains(", other bytes from 1 on\n"), "{}", ran.out);
    assert!(ran.out.ends_with("1 replies differ\n"), "{}", ran.out);
    // Each of several nodes has a server of its own.
    let nodes = file("pmix-nodes");
    let words = ["run", "--starter", "local:2", "-n", "2", "--trace", nodes.to_str().unwrap()];
    run(host(words).arg(&fence)).exits_with(0);
    with(&["replay"], [nodes.as_path()]).exits_with(1).says(&["several nodes"]);
}

#[test]
fn program_that_leaves_its_record_is_told_where() {
    let demo = recorded("left", 2, &[]);
    let ran = with(&["replay"], [demo.as_path(), Path::new("true")]).exits_with(1);
    assert!(
        ran.out.contains("differs from the record at message 1\n  recorded: → init"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("now:      it has ended"), "{}", ran.out);
    let talks = "echo cmd=get_maxes >&$PMI_FD; sleep 60";
    let ran = run(host(["replay"]).arg(&demo).args(shell(talks))).exits_with(1);
    assert!(ran.out.contains("now:      → get_maxes"), "{}", ran.out);
    // The wait for a silent rank is bounded.
    let ran =
        run(host(["replay", "--timeout", "1"]).arg(&demo).args(["sleep", "60"])).exits_with(1);
    assert!(ran.out.contains("rank 1 has not sent 'init version=2.0'"), "{}", ran.out);
    // A silent rank does not prevent a termination by signal either.
    let running = start(host(["replay"]).arg(&demo).args(["sh", "-c", "echo started; sleep 60"]));
    running.signal("TERM");
    let code = running.end().code;
    assert!(code == 143, "{code}");
    run(host(["replay"]).arg(&demo).arg("./nowhere"))
        .exits_with(1)
        .says(&["'./nowhere' cannot be started"]);
}

#[test]
fn answer_that_differs_is_told_with_its_question() {
    let demo = recorded("changed", 2, &[]);
    let json = with(&["trace", "export", "--format", "json"], [demo.as_path()]).exits_with(0).out;
    assert!(json.contains("cmd=kvs-put-response;rc=0"));
    let path = file("changed.json");
    std::fs::write(
        &path,
        json.replacen("cmd=kvs-put-response;rc=0", "cmd=kvs-put-response;rc=7", 1),
    )
    .unwrap();
    let ran = with(&["replay"], [path.as_path()]).exits_with(1);
    assert!(ran.out.contains("was answered to 'put key="), "{}", ran.out);
    assert!(ran.out.contains("recorded: put rc=7\n  now:      put rc=0"), "{}", ran.out);
    assert!(ran.out.ends_with("1 replies differ\n"), "{}", ran.out);
}

#[test]
fn two_runs_of_one_program_do_not_differ_and_those_of_two_do() {
    let (first, second) = (recorded("first", 2, &[]), recorded("second", 2, &[]));
    let same = with(&["trace", "diff"], [first.as_path(), &second]).exits_with(0).says_nothing();
    assert_eq!(same.out, "no difference, values of keys aside (--values compares them)\n");
    let itself = with(&["trace", "diff", "--values"], [first.as_path(), &first]).exits_with(0);
    assert_eq!(itself.out, "no difference\n");
    let third = recorded("third", 3, &[]);
    let ran = with(&["trace", "diff"], [first.as_path(), &third]).exits_with(1);
    assert!(ran.out.starts_with("rank ") && ran.out.contains("second: "), "{}", ran.out);
}

#[test]
fn forms_hold_the_same() {
    let path = recorded("forms", 2, &[]);
    let json = file("forms.json");
    with(&["trace", "export", "--format", "json", "-o"], [json.as_path(), &path]).exits_with(0);
    let again = file("forms.again");
    with(&["trace", "export", "--format", "trace", "-o"], [again.as_path(), &json]).exits_with(0);
    assert_eq!(std::fs::read(&again).unwrap(), std::fs::read(&path).unwrap());
}

#[test]
fn file_that_cannot_be_written_is_told_before_anything_starts() {
    let pipe = file("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (path, why) in [
        (Path::new("/"), "directory"),
        (Path::new("/nowhere/trace"), "No such file"),
        (Path::new("/dev/full"), "No space left"),
        (&pipe, "without a reader"),
    ] {
        let ran = run(job(2, ["--trace"]).arg(path).args(["echo", "started"])).exits_with(1);
        let ran = ran.says(&["the trace cannot be written to", why, "--trace"]);
        assert_eq!(ran.out, "", "{path:?}");
    }
}

#[test]
fn full_disk_is_told_once_and_the_run_goes_on() {
    let path = file("full");
    // A limit on the size of files: only the first kilobyte fits.
    let binary = env!("CARGO_BIN_EXE_pmi-host");
    let script = format!(
        "ulimit -f 2; exec {binary} run -n 16 --trace {} -- sh -c 'echo $PMI_RANK'",
        path.display()
    );
    let ran = run(Command::new("sh").args(["-c", &script])).exits_with(0);
    assert_eq!(ran.lines().len(), 16);
    // Ranks that send nothing leave few records; their starts alone fill the file.
    let ran = ran.says(&["the trace in", "ends here", "File too large", "the run continues"]);
    assert!(!ran.err.is_empty());
    let notes = read(&path).notes;
    assert!(
        notes.iter().any(|note| note.contains("cut off") || note.contains("no end")),
        "{notes:?}"
    );
}

#[test]
fn launcher_that_is_killed_leaves_a_record_that_can_be_read() {
    let path = file("killed");
    let demo = env!("CARGO_BIN_EXE_pmi-host");
    let script = format!("{demo} demo-rank >/dev/null; sleep 60");
    let running = start(job(2, ["--trace"]).arg(&path).args(shell(&script)));
    let since = Instant::now();
    let is_written = || {
        std::fs::read(&path)
            .ok()
            .and_then(|bytes| open::read(&bytes).ok())
            .is_some_and(|read| asked(&read.trace, b"finalize") == 2)
    };
    while !is_written() {
        assert!(
            since.elapsed() < Duration::from_secs(60),
            "nothing is written while the run goes on"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    running.signal("KILL");
    running.end().exits_with(137);
    let shown = with(&["trace", "show"], [path.as_path()]).exits_with(0);
    assert!(shown.err.contains("no end"), "{}", shown.err);
    assert!(shown.out.contains("finalize"), "{}", shown.out);
}

#[test]
fn logs_of_others_are_shown_and_nothing_at_all_is_refused() {
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/tests/logs");
    let shown = with(&["trace", "show"], [logs.join("flux-0.88.0-hello.log").as_path()]);
    assert!(shown.exits_with(0).out.contains(" 1 ← barrier_in"));
    // The server of this project answers as Hydra did.
    let ran = with(&["replay"], [logs.join("hydra-4.0.2-hello.log").as_path()]).exits_with(0);
    assert!(ran.out.contains("every reply is as recorded"), "{}", ran.out);
    let nothing = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    with(&["trace", "show"], [nothing.as_path()])
        .exits_with(1)
        .says(&["cannot be shown", "no PMI in it"]);
    with(&["trace", "stats"], [Path::new("/nowhere")])
        .exits_with(1)
        .says(&["'/nowhere' cannot be read"]);
    run(&mut host(["trace", "dance"])).exits_with(2);
    run(&mut host(["replay"])).exits_with(2);
}
