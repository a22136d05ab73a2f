//! Exit codes of the launcher, and the one sentence that explains them.

use crate::common::{copy_program, host, job, run, shell, start};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn job_of_programs_that_know_no_mpi_ends_well() {
    for ranks in [1, 2, 8, 32] {
        run(&mut job(ranks, ["true"])).exits_with(0).says_nothing();
    }
}

#[test]
fn code_of_the_failing_rank_is_the_code_of_the_job() {
    let script = "if [ $PMI_RANK = 1 ]; then exit 5; fi; exec sleep 60";
    run(&mut job(3, shell(script))).exits_with(5).says(&[
        "rank 1 of 3 (pid ",
        ", sh on ",
        "exited with code 5",
    ]);
    run(&mut job(1, shell("exit 255"))).exits_with(255).says(&["exited with code 255"]);
}

#[test]
fn death_by_a_signal_is_128_and_the_signal() {
    run(&mut job(2, shell("kill -9 $$")))
        .exits_with(137)
        .says(&["killed by signal 9 (SIGKILL)", "memory"]);
    run(&mut job(1, shell("kill -TERM $$"))).exits_with(143).says(&["signal 15 (SIGTERM)"]);
}

#[test]
fn ranks_that_ignore_the_request_to_end_are_killed() {
    // The second rank signals the first through a file that it ignores requests to terminate.
    let directory = tempfile::tempdir().unwrap();
    let script = "if [ $PMI_RANK = 1 ]; then trap '' TERM; : > $FLAG; while :; do sleep 1; done; fi
                  while [ ! -e $FLAG ]; do sleep 0.01; done; exit 4";
    let ran = run(job(2, shell(script)).env("FLAG", directory.path().join("flag")));
    ran.exits_with(4).says(&["rank 0 of 2", "the 1 rank still running is terminated"]);
}

#[test]
fn children_of_a_script_end_with_the_job() {
    // The rank is the shell; the sleep is its child and holds the output open.
    let script = "if [ $PMI_RANK = 1 ]; then sleep 60; exit 0; fi; sleep 0.2; exit 6";
    run(&mut job(2, shell(script))).exits_with(6).says(&["exited with code 6"]);
}

#[test]
fn program_that_is_not_there_is_127() {
    run(&mut job(4, ["no-such-program"])).exits_with(127).says(&["'no-such-program'", "PATH"]);
    run(&mut job(4, ["./no/such/program"]))
        .exits_with(127)
        .says(&["no program './no/such/program'"]);
    let script = file("#!/no/such/interpreter\n", 0o755, "interpreter");
    run(&mut job(2, [&script])).exits_with(127).says(&["could not be started", "interpreter"]);
}

#[test]
fn program_that_cannot_run_is_126() {
    run(&mut job(2, ["/"])).exits_with(126).says(&["directory"]);
    let plain = file("#!/bin/sh\n", 0o644, "plain");
    run(&mut job(2, [&plain])).exits_with(126).says(&["chmod +x"]);
    // A shell would interpret a text file.
    let no_format = file("\0no program at all\n", 0o755, "format");
    run(&mut job(2, [&no_format])).exits_with(126).says(&["could not be started", "'#!'"]);
}

#[test]
fn binary_for_another_machine_or_without_its_loader_is_named() {
    let own = fs::read("/bin/true").unwrap();
    // `e_machine` of the header is that of s390x.
    let mut foreign = own.clone();
    foreign[18..20].copy_from_slice(if own[5] == 2 { &[0, 22] } else { &[22, 0] });
    let foreign = binary(&foreign, "foreign");
    let ran = run(&mut job(2, [&foreign])).exits_with(126);
    let ran = ran.says(&["it is a program for s390x, and ", "build it for"]);
    assert!(!ran.err.contains("#!"), "{}", ran.err);
    let mut without = own;
    let at = without.windows(5).position(|bytes| bytes == b"/lib/" || bytes == b"/lib6").unwrap();
    without[at + 1..at + 4].copy_from_slice(b"xyz");
    let without = binary(&without, "no-loader");
    let ran = run(&mut job(2, [&without])).exits_with(127);
    let ran = ran.says(&["its loader '/xyz", "is missing on "]);
    assert!(!ran.err.contains("interpreter"), "{}", ran.err);
}

#[test]
fn data_in_place_of_a_program_is_not_to_be_made_executable() {
    let data = file("1 2 3\n", 0o644, "data");
    let ran = run(&mut job(2, [&data])).exits_with(126).says(&["in front of it"]);
    assert!(!ran.err.contains("chmod"), "{}", ran.err);
}

#[test]
fn program_that_others_may_execute_is_told_with_their_names() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can start a program as another user");
    }
    // The build directory may be closed to other users.
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str, mode: u32| {
        let path = directory.path().join(name);
        let from = if name == "pmi-host" { crate::common::host_path() } else { "/bin/true" };
        copy_program(from, &path, mode);
        path
    };
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let launcher = path("pmi-host", 0o755);
    let closed = directory.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
    let inside = closed.join("program");
    for (program, parts) in [
        (path("private", 0o700), ["only user root may execute it (mode 0700)", "user 60001"]),
        (inside, ["only user root may enter the directory", "(mode 0700)"]),
        (path("plain", 0o644), ["its owner, user root", "chmod +x"]),
    ] {
        let mut command = Command::new(&launcher);
        command.args(["run", "-n", "1"]).arg(&program).uid(60001).gid(60001);
        let ran = run(command.current_dir("/").env("XDG_CONFIG_HOME", "/nowhere"));
        ran.exits_with(126).says(&parts);
    }
}

#[test]
fn signal_of_a_timer_ends_the_run_with_a_sentence() {
    for (name, number) in [("ALRM", 14), ("PROF", 27), ("VTALRM", 26)] {
        let running = start(&mut job(2, shell("echo up; exec sleep 60")));
        (0..2).for_each(|_| running.wait_for_output("up\n"));
        running.signal(name);
        let signal = format!("signal {number} (SIG{name})");
        running.end().exits_with(128 + number).says(&[&signal, "forwarded"]);
        let ran = run(&mut job(1, shell(&format!("kill -s {name} $$")))).exits_with(128 + number);
        ran.says(&[&format!("was killed by {signal}; a timer of the program")]);
    }
}

#[test]
fn word_of_an_option_leads_to_the_topic_that_explains_it() {
    let ran = run(&mut host(["help", "stall"])).exits_with(2);
    ran.says(&["--stall-report", "'pmi-host help watching'"]);
}

#[test]
fn wrong_usage_is_2_and_says_the_way_out() {
    for (words, parts) in [
        (&["run", "-n", "0", "true"][..], &["-n 0", "at least one"][..]),
        (&["run", "-n", "many", "true"], &["not a number"]),
        (&["run", "true"], &["-n"]),
        (&["run", "-n"], &["needs N"]),
        (&["run", "-n", "1", "--stdout-to", "out.%q", "true"], &["'%q'", "%r and %R (rank)"]),
        (&["run", "-n", "1", "--label-format", "%", "true"], &["lone '%'"]),
        (&["run", "--rank", "4", "true"], &["--rank", "nearest is '--ranks'"]),
        (&["run", "-m", "4", "true"], &["'-m'", "of srun is '--map-by WHAT'"]),
        (&["run", "-z", "true"], &["'pmi-host run --help' lists all"]),
        (&["run", "-n", "2", "--stdin", "5", "true"], &["rank 5 cannot read", "--stdin"]),
        (&["run", "-n", "2", "--pty", "5", "true"], &["rank 5 cannot have a terminal", "--pty"]),
        (&["run", "--starter", "local:2", "-n", "2", "--stdin", "5", "true"], &["rank 5"]),
        (&["run", "-timeout", "4", "true"], &["'-timeout'", "two dashes: '--timeout'"]),
        (&["run", "-n", "2", "-label", "true"], &["'-label'", "two dashes: '--label'"]),
        (&["run", "-n", "2", "-nodes", "2", "true"], &["'-nodes'", "two dashes: '--nodes'"]),
        (&["run", "-genv", "A", "1", "true"], &["'-genv'", "of Hydra is '--env'"]),
        (&["run", "--tag-output", "true"], &["of Open MPI is '--label'"]),
        (&["run", "--ntasks-per-node=2", "true"], &["'--ntasks-per-node'", "'--ppn N'"]),
        (&["./a"], &["'pmi-host run -n 4 ./a' starts a program"]),
        (&["-n", "2", "./a"], &["'pmi-host run -n 2 ./a' starts a program"]),
        (&["urn", "-n", "4"], &["nearest is 'run'"]),
    ] {
        run(&mut host(words)).exits_with(2).says(parts).says(&["pmi-host help"]);
    }
}

#[test]
fn help_and_version_are_no_failures() {
    for words in [&["help"][..], &["--help"], &[], &["run", "--help"]] {
        assert!(run(&mut host(words)).exits_with(0).out.contains("usage: pmi-host run"));
    }
    assert!(run(&mut host(["version"])).exits_with(0).out.starts_with("pmi-host "));
}

#[test]
fn too_few_descriptors_are_noticed_before_anything_starts() {
    let host = env!("CARGO_BIN_EXE_pmi-host");
    let line = format!("ulimit -n 64; exec {host} run -n 100 echo started");
    let ran = run(Command::new("sh").args(["-c", &line]));
    let ran =
        ran.exits_with(1).says(&["100 ranks need 448 open files", "may have 64", "fewer ranks"]);
    assert_eq!(ran.out, "");
}

#[test]
fn ranks_see_the_limit_that_the_user_set() {
    let host = env!("CARGO_BIN_EXE_pmi-host");
    let line = format!("ulimit -Sn 64; exec {host} run -n 100 sh -c 'ulimit -Sn'");
    let ran = run(Command::new("sh").args(["-c", &line])).exits_with(0);
    assert_eq!(ran.lines(), ["64"; 100]);
}

/// A file with this text and these permissions.
fn file(text: &str, mode: u32, name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

/// An executable file with this content.
fn binary(content: &[u8], name: &str) -> PathBuf {
    let path = file("", 0o755, name);
    fs::write(&path, content).unwrap();
    path
}
