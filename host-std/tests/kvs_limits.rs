//! Limits of the key-value spaces, and maxima of the administrator that users cannot raise.

use crate::common::{host_path, job, run, shell};
use std::path::PathBuf;
use std::process::Command;

/// Puts 40 pairs in PMI-1 and prints the last reply.
const PUTS: &str = "say() { echo cmd=$@ >&$PMI_FD; read l <&$PMI_FD; }; \
                    say init pmi_version=1 pmi_subversion=1; say get_my_kvsname; name=${l##*=}; i=0; \
                    while [ $i -lt 40 ]; do say put kvsname=$name key=k$i value=some-value; \
                    i=$((i+1)); done; echo $l; say get kvsname=$name key=k0; echo $l; say finalize";

#[test]
fn more_pairs_than_the_limit_are_refused_to_the_rank_and_reported_once() {
    for options in [["--kvs-pairs", "30"], ["--kvs-bytes", "300"]] {
        let mut command = job(1, options);
        let ran = run(command.args(shell(PUTS))).exits_with(0).says(&[
            "put of 'k",
            "by rank 0",
            "--kvs-pairs",
            "--kvs-bytes",
            options[1],
        ]);
        let lines: Vec<&str> = ran.out.lines().collect();
        assert!(lines[0].starts_with("cmd=put_result rc=2 msg=no_room"), "{lines:?}");
        // Earlier values stay.
        assert!(lines[1].contains("value=some-value"), "{lines:?}");
    }
    let ran = run(job(1, ["--kvs-pairs", "60"]).args(shell(PUTS))).exits_with(0).says_nothing();
    assert!(ran.out.starts_with("cmd=put_result rc=0"), "{}", ran.out);
}

#[test]
fn job_that_exceeds_the_limit_from_the_start_is_not_started() {
    let ran = run(&mut job(1, ["--kvs-pairs", "1", "echo", "started"])).exits_with(1);
    assert_eq!(ran.out, "");
    ran.says(&["--kvs-pairs"]);
}

/// A launcher that sees `text` as the settings file of the administrator, in a mount namespace of its own;
/// prints a note if that namespace cannot be made.
fn with_system_file(text: &str, words: &str) -> Option<Command> {
    let can =
        Command::new("unshare").args(["-m", "mount", "-t", "tmpfs", "tmpfs", "/etc"]).status();
    if !can.is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("CI").is_none(), "CI runs as root");
        eprintln!("skipped: only root can make a mount namespace");
        return None;
    }
    let line = format!(
        "mount -t tmpfs tmpfs /etc && mkdir /etc/pmi-host && printf %s \"$0\" > /etc/pmi-host/config.toml && \
         exec {} run {words}",
        host_path()
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &line, text]).env("XDG_CONFIG_HOME", "/nowhere");
    Some(command)
}

const SYSTEM: &str =
    "collapse = true\nkvs-bytes = 500\n[maximum]\nkvs-pairs = 1000\ntimeout = 3600\n";

#[test]
fn administrator_sets_defaults_and_maxima() {
    let Some(mut command) = with_system_file(SYSTEM, "--show-config -n 1 true") else { return };
    let ran = run(&mut command).exits_with(0);
    let row = |name: &str| {
        let line = ran.out.lines().find(|line| line.split(' ').next() == Some(name)).unwrap();
        line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("collapse"), "true /etc/pmi-host/config.toml");
    assert_eq!(row("kvs-bytes"), "500 /etc/pmi-host/config.toml");
    assert_eq!(row("kvs-pairs"), "1000 /etc/pmi-host/config.toml (maximum)");
    assert_eq!(row("timeout"), "3600 /etc/pmi-host/config.toml (maximum)");
}

#[test]
fn no_user_raises_a_maximum_in_any_way() {
    let file = file("raised.toml", "kvs-pairs = 1001\n");
    for (words, variable) in [
        ("--kvs-pairs 1001 -n 1 true", ("A", "a")),
        ("-n 1 true", ("PMI_HOST_KVS_PAIRS", "1001")),
        ("-n 1 true", ("PMI_HOST_CONFIG", file.to_str().unwrap())),
        (&format!("--config {} -n 1 true", file.display()), ("A", "a")),
        ("--timeout 3601 -n 1 true", ("A", "a")),
    ] {
        let Some(mut command) = with_system_file(SYSTEM, words) else { return };
        let ran = run(command.env(variable.0, variable.1)).exits_with(2);
        ran.says(&["more than the maximum", "/etc/pmi-host/config.toml"]);
    }
    // A user may choose a lower value, and any setting without a maximum.
    let words = "--kvs-pairs 1000 --kvs-bytes 100000 --timeout 9 -n 1 echo fine";
    let Some(mut command) = with_system_file(SYSTEM, words) else { return };
    assert_eq!(run(&mut command).exits_with(0).out, "[0] fine\n");
}

#[test]
fn file_of_the_administrator_that_is_wrong_starts_nothing() {
    for (text, part) in [("[maximum]\nlabel = true\n", "has no maximum"), ("a = [\n", "line")] {
        let Some(mut command) = with_system_file(text, "-n 1 echo started") else { return };
        let ran = run(&mut command).exits_with(2);
        assert_eq!(ran.out, "");
        ran.says(&["/etc/pmi-host/config.toml", part]);
    }
    // A maximum in the file of a user could be removed by that user.
    let file = file("own.toml", "[maximum]\nkvs-pairs = 3\n");
    let ran = run(job(1, ["--config"]).arg(&file).arg("true")).exits_with(2);
    ran.says(&["own.toml", "/etc/pmi-host/config.toml"]);
}

/// A file of settings.
fn file(name: &str, text: &str) -> PathBuf {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("kvs-{}-{name}", std::process::id()));
    std::fs::write(&file, text).unwrap();
    file
}
