//! Exit codes of the launcher, and the one sentence that explains them.

mod common;
use common::{host, job, run, shell};

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
    let ran = run(std::process::Command::new("sh").args(["-c", &line]));
    let ran =
        ran.exits_with(1).says(&["100 ranks need 448 open files", "may have 64", "fewer ranks"]);
    assert_eq!(ran.out, "");
}

#[test]
fn ranks_see_the_limit_that_the_user_set() {
    let host = env!("CARGO_BIN_EXE_pmi-host");
    let line = format!("ulimit -Sn 64; exec {host} run -n 100 sh -c 'ulimit -Sn'");
    let ran = run(std::process::Command::new("sh").args(["-c", &line])).exits_with(0);
    assert_eq!(ran.lines(), ["64"; 100]);
}

/// A file with this text and these permissions.
fn file(text: &str, mode: u32, name: &str) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path
}
