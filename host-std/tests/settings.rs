//! Sources of settings, their report, and several programs in one job.

use crate::common::{host, host_path, job, run, shell};
use std::path::PathBuf;
use std::process::Command;

/// The value and the origin of a setting, as `--show-config` prints them.
fn shown(out: &str, name: &str) -> (String, String) {
    let line = out.lines().find(|line| line.split(' ').next() == Some(name)).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    (words[1].to_owned(), words[2..].join(" "))
}

#[test]
fn options_count_more_than_variables_and_these_more_than_a_file() {
    let file =
        file("layers.toml", "ranks = 3\ntimeout = 30\nexit-timeout = 20\nstall-abort = 10\n");
    let words = ["run", "--show-config", "--timeout", "31", "true"];
    let mut command = host(words);
    command.env("PMI_HOST_CONFIG", &file).env("PMI_HOST_EXIT_TIMEOUT", "21");
    let ran = run(command.env("PMI_HOST_TIMEOUT", "32")).exits_with(0);
    let of = |name| shown(&ran.out, name);
    assert_eq!(of("timeout"), ("31".to_owned(), "command line".to_owned()));
    assert_eq!(of("exit-timeout"), ("21".to_owned(), "PMI_HOST_EXIT_TIMEOUT".to_owned()));
    assert_eq!(of("stall-abort"), ("10".to_owned(), file.display().to_string()));
    assert_eq!(of("trace-ring"), ("4096".to_owned(), "default".to_owned()));
    let ran = run(host(["run", "--config"]).arg(&file).args(["echo", "hi"])).exits_with(0);
    assert_eq!(ran.lines(), ["hi"; 3]);
}

#[test]
fn file_of_a_user_is_found_without_being_named() {
    let home = file("home/.config/pmi-host/config.toml", "[env]\nFROM_FILE = 7\n");
    let home = home.ancestors().nth(3).unwrap();
    let mut command = job(1, shell("echo $FROM_FILE $PMI_HOST_COLLAPSE"));
    command.env_remove("XDG_CONFIG_HOME").env("HOME", home).env("PMI_HOST_COLLAPSE", "0");
    assert_eq!(run(&mut command).exits_with(0).out, "7\n");
    command.env("XDG_CONFIG_HOME", home.join(".config")).env("HOME", "/nowhere");
    assert_eq!(run(&mut command).exits_with(0).out, "7\n");
    command.env("XDG_CONFIG_HOME", "/nowhere");
    assert_eq!(run(&mut command).exits_with(0).out, "\n");
}

#[test]
fn setting_that_is_wrong_is_told_with_its_place() {
    let wrong = file("wrong.toml", "timeuot = 3\n");
    let shown = wrong.display().to_string();
    for (variable, value, parts) in [
        ("PMI_HOST_CONFIG", &*shown, ["wrong.toml", "nearest is 'timeout'"]),
        ("PMI_HOST_CONFIG", "/no/such/file", ["/no/such/file", "--config FILE"]),
        ("PMI_HOST_TIMEOUT", "soon", ["PMI_HOST_TIMEOUT=soon", "seconds"]),
        ("PMI_HOST_TIMEOT", "1", ["PMI_HOST_TIMEOT", "nearest is 'PMI_HOST_TIMEOUT'"]),
    ] {
        let mut command = job(1, ["true"]);
        run(command.env(variable, value)).exits_with(2).says(&parts);
    }
}

#[test]
fn dry_run_says_who_would_run_and_starts_nothing() {
    let mark = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("started");
    let _ = std::fs::remove_file(&mark);
    let mut command =
        host(["run", "--dry-run", "-n", "2", "--env", "A=b c", "--wdir", "/", "touch"]);
    command.arg(&mark).args([":", "-n", "1", "--inherit", "none", "sh", "-c", "echo 'x'"]);
    let ran = run(command.env("PMIX_STALE", "7")).exits_with(0);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines[0].split_whitespace().next(), Some("ranks"));
    assert!(lines[1].starts_with("0-1 ") && lines[1].contains("/touch "), "{}", ran.out);
    assert!(
        lines[2].starts_with("2 ") && lines[2].ends_with(r"-c 'echo '\''x'\'''"),
        "{}",
        ran.out
    );
    for line in ["  + A=b c", "  + PMI_SIZE=3", "  - PMIX_STALE", "  - PATH"] {
        let is_there = lines.iter().any(|other| other.starts_with(&format!("{line} ")));
        assert!(is_there, "{line}: {}", ran.out);
    }
    assert!(!mark.exists());
    run(&mut host(["run", "--dry-run", "-n", "1", "no-such-program"])).exits_with(127);
}

#[test]
fn several_programs_are_one_job() {
    let mut command =
        host(["run", "--env", "ALL=x", ":", "-n", "1", "--env", "OWN=y", "--wdir", "/"]);
    let script = "echo $PMI_RANK/$PMI_SIZE all=$ALL own=$OWN in=$(pwd)";
    command.args(shell(script)).args([":", "-np", "2", "--wdir", "/usr"]).args(shell(script));
    let ran = run(&mut command).exits_with(0).says_nothing();
    assert_eq!(
        ran.lines(),
        ["0/3 all=x own=y in=/", "1/3 all=x own= in=/usr", "2/3 all=x own= in=/usr"]
    );
    run(&mut host(["run", "-n", "1", "true", ":", "true"]))
        .exits_with(2)
        .says(&["number of ranks"]);
    run(&mut host(["run", "-n", "1", "true", ":", "-l", "true"]))
        .exits_with(2)
        .says(&["'-l'", "first"]);
}

#[test]
fn programs_of_torchrun_find_their_variables() {
    let script = "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE \
                  $MASTER_ADDR ${MASTER_PORT:-none}";
    let torch = |words: &[&str], script: &str| {
        let mut command = host(["run", "-n", "3"]);
        command.args(words).args(shell(script));
        // Those of an outer torchrun.
        command.env("RANK", "7").env("MASTER_PORT", "29500").env("GROUP_RANK", "5");
        run(&mut command)
    };
    let ran = torch(&["--env-for", "torch"], script).exits_with(0).says_nothing();
    let port = ran.lines()[0].rsplit(' ').next().unwrap().parse::<u16>().unwrap();
    assert_ne!(port, 29500);
    let line = |rank| format!("{rank}/3 {rank}/3 0/1 127.0.0.1 {port}");
    assert_eq!(ran.lines(), [line(0), line(1), line(2)]);
    // The port is free for rank 0.
    drop(std::net::TcpListener::bind(("127.0.0.1", port)).unwrap());
    let words = ["--env-for", "torch", "--env", "MASTER_ADDR=node1", "--env", "MASTER_PORT=7"];
    let ran = torch(&words, "echo $MASTER_ADDR $MASTER_PORT").exits_with(0);
    assert_eq!(ran.lines(), ["node1 7"; 3]);
    let ran = torch(&["--env-for", "torch"], "env | grep -c '^RANK='").exits_with(0);
    assert_eq!(ran.lines(), ["1"; 3]);
    let refused = torch(&["--env-for", "torch", "--env", "RANK=1"], "true").exits_with(2);
    refused.says(&["'--env-for torch' sets RANK", "'--env RANK=…'"]);
    // Three hosts that are this machine, and two of which one has the name of another machine.
    let spread = |words: &[&str], local: bool| {
        let words = [&["--env-for", "torch"], words].concat();
        let ran = torch(&words, script).exits_with(0);
        let mut lines: Vec<String> = ran.lines().into_iter().map(str::to_owned).collect();
        lines.sort_unstable();
        let port = lines[0].rsplit(' ').next().unwrap().to_owned();
        let address = if local { "127.0.0.1" } else { "n7" };
        (lines, format!("{address} {port}"))
    };
    let (lines, at) = spread(&["--starter", "local:3"], true);
    let line = |rank| format!("{rank}/3 0/1 {rank}/3 {at}");
    assert_eq!(lines, [line(0), line(1), line(2)]);
    let starter = "sh -c 'exec {cmd}' {host}";
    let (lines, at) = spread(&["--hosts", "me@n7:2,n8", "--starter-cmd", starter], false);
    let line = |rank, local, count, group| format!("{rank}/3 {local}/{count} {group}/2 {at}");
    assert_eq!(lines, [line(0, 0, 2, 0), line(1, 1, 2, 0), line(2, 0, 1, 1)]);
    assert_eq!(torch(&[], "echo $RANK").exits_with(0).lines(), ["7"; 3]);
}

#[test]
fn part_of_a_job_that_fails_is_named() {
    let mut command = host(["run", "-n", "1", "sleep", "60", ":", "-n", "1"]);
    command.args(shell("exit 7"));
    run(&mut command).exits_with(7).says(&["rank 1 of 2", "sh on"]);
}

#[test]
fn variables_that_are_not_inherited_are_not_seen() {
    let mut command = host(["run", "-n", "1", "--inherit", "KEPT,PATH", "--env", "SET=1", "env"]);
    let ran = run(command.env("KEPT", "yes").env("LOST", "yes")).exits_with(0);
    let lines = ran.lines();
    assert!(lines.contains(&"KEPT=yes") && lines.contains(&"SET=1"), "{lines:?}");
    assert!(lines.contains(&"PMI_RANK=0") && !lines.contains(&"LOST=yes"), "{lines:?}");
}

#[test]
fn report_says_what_was_done_to_the_environment_and_why() {
    let mut command = host(["run", "-n", "2", "--env-report", "--env", "A=1", "env"]);
    for (stale, value) in [("PMIX_STALE", "7"), ("SLURM_PROCID", "0"), ("FLUX_TASK_RANK", "0")] {
        command.env(stale, value);
    }
    let ran = run(command.env("SLURM_JOB_ID", "9")).exits_with(0);
    let lines = ran.lines();
    for stale in ["PMIX_STALE", "SLURM_PROCID", "FLUX_TASK_RANK"] {
        assert!(!lines.iter().any(|line| line.starts_with(stale)), "{stale}");
    }
    assert_eq!(lines.iter().filter(|line| **line == "SLURM_JOB_ID=9").count(), 2);
    let said = |start: &str, why: &str| {
        let mut lines = ran.err.lines();
        let found = lines.any(|line| line.trim().starts_with(start) && line.contains(why));
        assert!(found, "{start}: {}", ran.err);
    };
    said("environment of 0-1", "");
    said("+ A=1 ", "as requested");
    said("+ PMI_FD=", "connection to the server");
    said("- PMIX_STALE ", "PMIx");
    said("- SLURM_PROCID ", "Slurm");
    assert!(!ran.err.contains("SLURM_JOB_ID"), "{}", ran.err);
    let refused = ["run", "-n", "1", "--env", "PMI_RANK=3", "true"];
    run(&mut host(refused)).exits_with(2).says(&["PMI_RANK=3", "the launcher itself"]);
}

#[test]
fn report_tells_the_number_of_the_socket_that_there_is() {
    let words = ["run", "-n", "1", "--env-report", "sh", "-c", "echo $PMI_FD"];
    // Also with open files that the launcher inherits.
    let mut opener = Command::new("sh");
    opener.args(["-c", "exec \"$@\" 3</dev/null 4</dev/null", "sh", host_path()]).args(words);
    for command in [&mut host(words), &mut opener] {
        let ran = run(command).exits_with(0);
        let socket = ran.out.trim();
        assert!(ran.err.contains(&format!("+ PMI_FD={socket} ")), "{socket}: {}", ran.err);
    }
}

#[test]
fn completions_are_made_for_every_shell_and_bash_reads_them() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ran = run(&mut host(["completions", shell])).exits_with(0);
        for word in ["show-config", "bind-to", "print-all-exitcodes"] {
            assert!(ran.out.contains(word), "{shell} lacks {word}");
        }
        let ran = run(&mut host(["completions", shell, "mpiexec"])).exits_with(0);
        assert!(ran.out.contains("genvlist"), "{shell}");
    }
    // The function that bash would call is the one that the script registered.
    let script = "source <(\"$0\" completions bash) && COMP_WORDS=(pmi-host run --bi) COMP_CWORD=2 && \
                  words=($(complete -p pmi-host)) && for word in \"${words[@]}\"; do case $word in _*) \
                  $word pmi-host --bi run;; esac; done && echo \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    let ran = run(bash.args(["-c", script, env!("CARGO_BIN_EXE_pmi-host")])).exits_with(0);
    assert_eq!(ran.out, "--bind-to\n");
    run(&mut host(["completions", "cobol"])).exits_with(2).says(&["cobol"]);
    run(&mut host(["completions", "bash", "other"])).exits_with(2).says(&["'other'"]);
}

#[test]
fn pages_for_man_are_made() {
    for (words, parts) in [
        (&["man"][..], &[".TH pmi-host 1", "conform", "mpiexec"][..]),
        (&["man", "run"], &[".TH pmi-host-run 1", "exit\\-timeout", "END OF A RUN"]),
        (&["man", "mpiexec"], &[".TH mpiexec 1", "genvlist", "configfile"]),
    ] {
        let ran = run(&mut host(words)).exits_with(0);
        for part in parts {
            assert!(ran.out.contains(part), "{words:?} lacks {part}: {:.2000}", ran.out);
        }
    }
    run(&mut host(["man", "nothing"])).exits_with(2).says(&["'nothing'"]);
}

#[test]
fn variable_without_a_value_is_that_of_the_launcher() {
    let words = ["run", "-n", "1", "--inherit", "PATH", "--env", "TAKEN", "--env", "EMPTY=", "env"];
    let ran = run(host(words).env("TAKEN", "a=b c")).exits_with(0);
    for line in ["TAKEN=a=b c", "EMPTY="] {
        assert!(ran.out.lines().any(|printed| printed == line), "{}", ran.out);
    }
    let unset = run(host(words).env_remove("TAKEN")).exits_with(2);
    unset.says(&["--env TAKEN", "no variable of this name", "NAME=VALUE"]);
}

/// A file of this text, with the directories it needs.
fn file(name: &str, text: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("settings").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}
