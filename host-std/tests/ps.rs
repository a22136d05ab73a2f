//! Status of a launcher, requested from another terminal.

use crate::common::{Ran, host, run, shell, start};
use pmi_host::State;
use pmi_host::table::{Phase, Table, VERSION, WaitCondition};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A directory for the sockets of one test.
struct Runtime(TempDir);

impl Runtime {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = host(words);
        command.env("XDG_RUNTIME_DIR", self.0.path());
        command
    }

    fn job(&self, ranks: u32, script: &str) -> Command {
        let ranks = ranks.to_string();
        let words = ["run", "-n", &ranks].into_iter().chain(shell(script));
        self.command(&words.collect::<Vec<_>>())
    }

    fn ps(&self, words: &[&str]) -> Ran {
        run(&mut self.command(&[&["ps"], words].concat()))
    }

    /// The table of the launcher with this process number, as soon as it serves requests.
    fn table(&self, pid: u32) -> Table {
        let (pid, since) = (pid.to_string(), Instant::now());
        loop {
            let ran = self.ps(&["--json", &pid]);
            if ran.code == 0 {
                let mut tables: Vec<Table> = serde_json::from_str(&ran.out).unwrap();
                return tables.remove(0);
            }
            assert!(since.elapsed() < Duration::from_secs(60), "{}", ran.err);
        }
    }

    fn sockets(&self) -> Vec<PathBuf> {
        list(&self.0.path().join("pmi-host"))
    }
}

fn list(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Rank 1 is outside of the fence and stopped; the others are inside.
const HUNG: &str = "echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read answer <&$PMI_FD
    if [ $PMI_RANK = 1 ]; then kill -STOP $$; fi
    echo cmd=barrier_in >&$PMI_FD; read answer <&$PMI_FD
    echo cmd=finalize >&$PMI_FD; read answer <&$PMI_FD";

#[test]
fn directory_of_sockets_is_removed_with_the_last_run_that_uses_it() {
    let runtime = Runtime::new();
    let directory = runtime.0.path().join("pmi-host");
    let mut first = start(runtime.job(1, "read line").stdin(Stdio::piped()));
    let mut second = start(runtime.job(1, "read line").stdin(Stdio::piped()));
    [&first, &second].iter().for_each(|job| drop(runtime.table(job.pid())));
    first.types("\n");
    first.end().exits_with(0);
    assert_eq!(runtime.sockets().len(), 1);
    second.types("\n");
    second.end().exits_with(0);
    assert!(!directory.exists(), "{:?}", list(&directory));
}

#[test]
fn programs_read_what_a_run_does() {
    let runtime = Runtime::new();
    let running = start(&mut runtime.job(3, HUNG));
    let table = loop {
        let table = runtime.table(running.pid());
        let hung = &table.jobs[0].waits;
        if hung.first().is_some_and(|wait| wait.inside.count() == 2)
            && table.jobs[0].ranks[1].state == Some(State::Stopped)
        {
            break table;
        }
    };
    assert_eq!((table.version, table.pid), (VERSION, running.pid()));
    let job = &table.jobs[0];
    assert_eq!((job.size, job.running.to_string().as_str(), job.messages), (3, "0-2", 5));
    assert_eq!(job.waits[0].what, WaitCondition::Fence(0));
    assert_eq!(
        (job.waits[0].inside.to_string(), job.waits[0].missing.to_string()),
        ("0,2".into(), "1".into())
    );
    let [waiting, stopped] = [&job.ranks[0], &job.ranks[1]];
    assert_eq!((waiting.phase, waiting.messages), (Phase::Open, 2));
    assert_eq!(waiting.last_message.as_deref(), Some("barrier_in"));
    assert_eq!((stopped.messages, stopped.last_message_is_answer), (1, true));
    // The table names the process that has to be continued.
    let pid = stopped.pid.unwrap().to_string();
    assert!(Command::new("kill").args(["-s", "CONT", &pid]).status().unwrap().success());
    running.end().exits_with(0).says_nothing();
    assert_eq!(runtime.sockets(), [""; 0].map(PathBuf::from));
}

#[test]
fn people_read_it_as_a_table() {
    let runtime = Runtime::new();
    let running = start(&mut runtime.job(3, HUNG));
    let name = runtime.table(running.pid()).jobs[0].name.clone();
    for words in [vec![], vec![&*name], vec!["0"]] {
        let ran = runtime.ps(&words).exits_with(0).says_nothing();
        let lines: Vec<&str> = ran.out.lines().collect();
        assert!(lines[0].starts_with(&format!("process {} on ", running.pid())), "{}", ran.out);
        assert!(
            lines[1].starts_with(&format!("  job {name}: 3 ranks of sh, all run")),
            "{}",
            ran.out
        );
    }
    running.signal("TERM");
    running.end().exits_with(143);
}

/// Checks that no launcher is shown and that this is reported. The user of the tests may have other
/// launchers.
fn nobody_but_others(ran: Ran) {
    let ran = ran.exits_with(0);
    match ran.out.is_empty() {
        true => drop(ran.says(&["no launcher of yours runs here", "looked in"])),
        false => assert!(ran.out.starts_with("process "), "{}", ran.out),
    }
}

#[test]
fn empty_table_is_shown() {
    let runtime = Runtime::new();
    nobody_but_others(runtime.ps(&[]));
    let json = runtime.ps(&["--json"]).exits_with(0).says_nothing().out;
    assert!(json == "[]\n" || json.contains("\"pid\""), "{json}");
    runtime.ps(&["4711"]).exits_with(1).says(&["no launcher and no job '4711'"]);
    runtime.ps(&["--yaml"]).exits_with(2);
}

#[test]
fn launcher_without_a_socket_has_none() {
    let runtime = Runtime::new();
    let script = "echo ready; sleep 0.5";
    let words = ["run", "-n", "1", "--no-control"].into_iter().chain(shell(script));
    let running = start(&mut runtime.command(&words.collect::<Vec<_>>()));
    running.end().exits_with(0);
    assert!(!runtime.0.path().join("pmi-host").exists());
}

#[test]
fn leftovers_of_a_killed_launcher_are_removed_by_the_next() {
    let runtime = Runtime::new();
    let running = start(&mut runtime.job(1, "exec sleep 60"));
    runtime.table(running.pid());
    let socket = runtime.sockets().remove(0);
    running.signal("KILL");
    running.end().exits_with(137);
    // Its guard removes the socket with its directory; a guard that was killed as well leaves both.
    let directory = socket.parent().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while directory.exists() && Instant::now() < deadline {
        sleep(Duration::from_millis(20));
    }
    std::fs::create_dir(directory).unwrap();
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700)).unwrap();
    drop(UnixListener::bind(&socket).unwrap());
    assert_eq!(runtime.sockets().len(), 1);
    // No launcher runs, and that is no error.
    nobody_but_others(runtime.ps(&[]));
    run(&mut runtime.job(1, "sleep 0.5")).exits_with(0);
    assert_eq!(runtime.sockets(), [""; 0].map(PathBuf::from));
}

#[test]
fn folder_that_is_not_ours_alone_is_not_used() {
    let runtime = Runtime::new();
    let directory = runtime.0.path().join("pmi-host");
    std::fs::create_dir(&directory).unwrap();
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o777)).unwrap();
    run(&mut runtime.job(1, "sleep 0.4")).exits_with(0).says_nothing();
    std::fs::remove_dir(&directory).unwrap();
    let trap = runtime.0.path().join("trap");
    std::fs::create_dir(&trap).unwrap();
    symlink(&trap, &directory).unwrap();
    let running = start(&mut runtime.job(1, "exec sleep 60"));
    // The launcher is found in the directory that replaces it.
    runtime.table(running.pid());
    assert_eq!(list(&trap), [""; 0].map(PathBuf::from));
    running.signal("TERM");
    running.end().exits_with(143);
}

#[test]
fn name_that_another_user_has_taken_in_tmp_hides_no_launcher() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can make a file of another user");
        return;
    }
    // In a mount namespace of its own, whose `/tmp` disappears with its last process.
    let directory = tempfile::tempdir().unwrap();
    let script = format!(
        "mount -t tmpfs -o mode=1777 tmpfs {0} && cp {1} {0}/launcher && mount --bind {0} /tmp && cd / && \
         mkdir /tmp/pmi-host-0 && chown 65534 /tmp/pmi-host-0 && unset XDG_RUNTIME_DIR && \
         {{ /tmp/launcher run -n 1 sh -c 'sleep 1; sleep 60' & }} && pid=$! && sleep 2 && /tmp/launcher ps; \
         ls -d /tmp/pmi-host-0-*/pmix.*.tool.$pid; kill $pid; wait $pid; ls /tmp",
        directory.path().display(),
        crate::common::host_path()
    );
    let ran = run(Command::new("unshare").args(["-m", "sh", "-c", &script])).exits_with(0);
    assert!(ran.out.contains("rank 0") || ran.out.contains("1 rank"), "{}{}", ran.out, ran.err);
    // The file for tools of PMIx is there too, and nothing of either is left.
    assert!(ran.out.contains(".tool."), "{}{}", ran.out, ran.err);
    assert!(ran.out.ends_with("\nlauncher\npmi-host-0\n"), "{}", ran.out);
}

#[test]
fn stopped_launcher_does_not_block_ps() {
    let runtime = Runtime::new();
    let running = start(&mut runtime.job(1, "exec sleep 60"));
    runtime.table(running.pid());
    running.signal("STOP");
    let pid = running.pid().to_string();
    runtime.ps(&[]).exits_with(1).says(&[&pid, "does not answer", "kill -CONT"]);
    running.signal("KILL");
    running.signal("CONT");
    running.end().exits_with(137);
}
