//! Ranks in gdb: those that start there (`--gdb`), and those that it attaches to.

use crate::common::terminal::shell_on_terminal;
use crate::common::{Ran, host, host_path, run, start};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// True if these programs are there; prints a note otherwise.
fn has(programs: &[&str]) -> bool {
    programs.iter().all(|program| {
        let option = if *program == "tmux" { "-V" } else { "--version" };
        let found = Command::new(program).arg(option).output().is_ok();
        assert!(found || std::env::var_os("CI").is_none(), "Debian's package {program} is missing");
        if !found {
            eprintln!("skipped: Debian's package {program} is missing");
        }
        found
    })
}

/// A directory with a link to gdb alone, as `PATH`.
fn path_without_tmux() -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gdb-alone");
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    for program in ["gdb", "sh"] {
        let found = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|one| one.join(program))
            .find(|one| one.is_file());
        std::os::unix::fs::symlink(found.unwrap(), path.join(program)).unwrap();
    }
    path
}

#[test]
fn rank_waits_at_its_first_instruction_for_a_debugger_that_the_user_starts() {
    if !has(&["gdb"]) {
        return;
    }
    let script = "echo rank $PMI_RANK; [ $PMI_RANK = 0 ] || exit 7";
    let mut command = host(["run", "--gdb", "1", "-n", "2", "sh", "-c", script]);
    let job = start(command.env("PATH", path_without_tmux()).env_remove("TMUX"));
    job.wait_for_errors("'gdb -p ");
    let told = job.errors();
    assert!(told.contains("tmux is not installed"), "{told}");
    let line = told.lines().find(|line| line.contains("gdb -p")).unwrap().to_owned();
    assert!(line.starts_with("pmi-host: rank 1 of 2 (pid "), "{line}");
    let pid = line.split("gdb -p ").nth(1).unwrap().split('\'').next().unwrap().to_owned();
    let mut gdb = Command::new("gdb");
    gdb.args(["-q", "-nx", "-batch", "-p", &pid, "-ex", "info symbol $pc"]);
    gdb.args(["-ex", "handle SIGCONT nostop noprint pass"]);
    gdb.args(["-ex", &format!("shell kill -CONT {pid}"), "-ex", "continue"]);
    let ran = run(&mut gdb).exits_with(0);
    // The debugger sees the exit, and so does the launcher.
    assert!(ran.out.contains("_start in section .text"), "{} {}", ran.out, ran.err);
    assert!(ran.out.contains("exited with code 07]"), "{} {}", ran.out, ran.err);
    let ran = job.end().exits_with(7);
    assert_eq!(ran.lines(), ["rank 0", "rank 1"]);
}

/// A server of tmux, by its name.
struct Tmux(String);

impl Tmux {
    fn run(&self, words: &[&str]) -> Ran {
        run(Command::new("tmux").args(["-L", &self.0]).args(words))
    }

    /// Waits until a pane shows `text`, in lines that are joined where they were cut.
    fn shows(&self, pane: &str, text: &str) {
        let since = Instant::now();
        loop {
            let shown = self.run(&["capture-pane", "-p", "-J", "-t", pane]);
            if shown.out.contains(text) {
                return;
            }
            assert!(since.elapsed() < LIMIT, "no {text:?} in {}{}", shown.out, shown.err);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until there is no such window.
    fn lacks_window(&self, name: &str) {
        let since = Instant::now();
        while self.run(&["list-windows", "-F", "#{window_name}"]).lines().contains(&name) {
            assert!(since.elapsed() < LIMIT, "the window is still there");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Far above the time of a debugger on a busy machine.
const LIMIT: Duration = Duration::from_secs(50);

#[test]
fn window_of_the_users_tmux_has_a_pane_for_each_rank() {
    if !has(&["gdb", "tmux"]) {
        return;
    }
    let tmux = Tmux(format!("pmi-host-test-{}", std::process::id()));
    // The window of the launcher stays until its user has read it.
    let line = format!(
        "unset TMUX; TERM=xterm tmux -L {} -f /dev/null new-session -s user -n launcher \
         'env XDG_CONFIG_HOME=/nowhere {} run --gdb 0 -n 2 sh -c \"echo rank \\$PMI_RANK\"; \
         echo code $?; read end'",
        tmux.0,
        host_path()
    );
    let mut person = shell_on_terminal(&line);
    let (ranks, launcher) = ("user:ranks.0", "user:launcher.0");
    tmux.shows(ranks, "(gdb)");
    tmux.shows(launcher, "the window 'ranks' of tmux has a gdb for each");
    // The new window has the keyboard.
    person.types("info symbol $pc\n");
    tmux.shows(ranks, "_start in section .text");
    person.types("continue\n");
    tmux.shows(ranks, "exited normally]");
    // The end of the debugger closes its window, and the launcher has the keyboard again.
    person.types("quit\n");
    tmux.lacks_window("ranks");
    tmux.shows(launcher, "code 0");
    tmux.shows(launcher, "rank 0");
    person.types("\n");
    person.ends();
}

#[test]
fn server_of_tmux_that_the_launcher_has_started_ends_with_the_run() {
    if !has(&["gdb", "tmux"]) {
        return;
    }
    let mut command = host(["run", "--gdb", "all", "-n", "2", "sh", "-c", "echo rank $PMI_RANK"]);
    let job = start(command.env_remove("TMUX"));
    job.wait_for_errors(" attach'");
    let tmux = Tmux(format!("pmi-host-{}", job.pid()));
    let told = job.errors();
    assert!(told.contains("ranks 0,1 of 2 (sh on "), "{told}");
    assert!(told.contains(&format!("'tmux -L {} attach'", tmux.0)), "{told}");
    let panes = tmux.run(&["list-panes", "-F", "#{pane_title}"]).exits_with(0);
    assert_eq!(panes.lines(), ["rank 0", "rank 1"]);
    // One debugger lets its rank go: that continues without it.
    for (pane, command) in [("ranks:ranks.0", "continue"), ("ranks:ranks.1", "detach")] {
        tmux.shows(pane, "(gdb)");
        tmux.run(&["send-keys", "-t", pane, command, "Enter"]).exits_with(0);
    }
    let ran = job.end().exits_with(0);
    assert_eq!(ran.lines(), ["rank 0", "rank 1"]);
    assert_ne!(tmux.run(&["list-sessions"]).code, 0, "the server has ended");
}

#[test]
fn ranks_that_do_not_exist_have_no_debugger() {
    if !has(&["gdb"]) {
        return;
    }
    let ran = run(&mut host(["run", "--gdb", "0,4", "-n", "2", "sh"])).exits_with(2);
    ran.says(&["rank 4 cannot start in gdb", "2 ranks are started", "--gdb"]);
    let mut command = host(["run", "--gdb", "0", "-n", "2", "sh"]);
    run(command.env("PATH", "/nowhere")).exits_with(2).says(&["'--gdb' needs gdb"]);
}

#[test]
fn rank_that_is_killed_in_a_debugger_costs_the_launcher_nothing_until_the_debugger_lets_it_go() {
    if !has(&["gdb"]) {
        return;
    }
    let job = start(&mut host(["run", "-n", "1", "sh", "-c", "echo $$ >&2; exec sleep 1000"]));
    job.wait_for_errors("\n");
    let rank: u32 = job.errors().trim().parse().unwrap();
    let mut gdb = Command::new("gdb");
    gdb.args(["-q", "-nx", "-p", &rank.to_string()]).stderr(Stdio::null());
    let mut gdb = gdb.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut shown, mut output) = (Vec::new(), gdb.stdout.take().unwrap());
    while !shown.ends_with(b"(gdb) ") {
        let mut byte = [0];
        output.read_exact(&mut byte).unwrap();
        shown.extend(byte);
    }
    run(Command::new("kill").args(["-s", "KILL", &rank.to_string()])).exits_with(0);
    let is = |pid: u32, state: char| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit(") ").next().unwrap().starts_with(state)
    };
    let since = Instant::now();
    let wait = |done: &dyn Fn() -> bool| {
        while !done() {
            assert!(since.elapsed() < LIMIT, "the rank is no zombie, or the launcher always runs");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait(&|| is(rank, 'Z'));
    // One that handles the exit again and again uses a processor as far as others leave it one.
    let used = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", job.pid())).unwrap();
        let fields = stat.rsplit(") ").next().unwrap().split(' ');
        fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum::<u64>()
    };
    let before = std::cell::Cell::new(used());
    wait(&|| {
        std::thread::sleep(Duration::from_millis(500));
        used() - before.replace(used()) <= 1
    });
    gdb.kill().unwrap();
    gdb.wait().unwrap();
    job.end().exits_with(137).says(&["rank 0 of 1", "killed"]);
}
