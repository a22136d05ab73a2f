//! The conformance check, run as a user runs it: against the launcher and client of this project, against
//! those of others, and against some that are none.
//!
//! The expectation of a launcher is a matrix that was recorded with the tool itself and lies in
//! `tests/conform`. When a verdict changes for a good reason, record it again:
//! `pmi-host conform --launcher '...' >host-std/tests/conform/NAME.txt`.

use crate::common::hosts::slurm;
use crate::common::peers::{bounded, one_of_three, theirs};
use crate::common::{Ran, host, run};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn own() -> &'static str {
    env!("CARGO_BIN_EXE_pmi-host")
}

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conform").join(name)
}

/// Checks a launcher, with more patience than a busy machine needs.
fn check(launcher: &str, words: &[&str]) -> Ran {
    run(&mut bounded(host(["conform", "--timeout", "40", "--launcher", launcher]).args(words), 55))
}

fn is_good(ran: &Ran) -> bool {
    ran.code == 0
}

/// True if a command can be started and prints `part`.
fn says(words: &[&str], part: &str) -> bool {
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(part))
}

fn skip(what: &str) {
    eprintln!("skipped: {what}");
}

#[test]
fn our_own_launcher_is_as_recorded() {
    // With a port, so that second connections can be made, and TLS over it.
    let options = "--listen 127.0.0.1:0 --expect 0 --tls";
    let launcher = format!("'{}' run {options} -n {{n}} {{prog}}", own());
    let file = recorded("pmi-host.txt");
    let ran = check(&launcher, &["--expect", file.to_str().unwrap()]).exits_with(0);
    assert!(ran.out.lines().count() > 100, "{}", ran.out);
    assert!(!ran.out.contains("  wrong  "), "{}", ran.out);
}

#[test]
fn hydra_of_mpich_4_is_as_recorded() {
    if !says(&["mpiexec.hydra", "--version"], "4.0.2") {
        return skip("there is no mpiexec.hydra 4.0.2; Debian's package mpich brings it");
    }
    let file = recorded("hydra-4.0.2.txt");
    let launcher = "mpiexec.hydra -n {n} {prog}";
    one_of_three(|| check(launcher, &["--expect", file.to_str().unwrap()]), is_good);
    // The same server over TCP: address and identity come by other variables.
    let launcher = "mpiexec.hydra -pmi-port -n {n} {prog}";
    let words = ["--only", "pmi1-put-get", "--only", "pmi1-maxes", "--only", "pmi1-mapping"];
    // It does not support a second connection.
    let is_rejected =
        |ran: &Ran| ran.code == 0 && ran.out.contains("Unrecognized PMI command: init_oob");
    one_of_three(|| check(launcher, &["--only", "oob-lines"]), is_rejected);
    let words = [&words[..], &["--expect", file.to_str().unwrap()]].concat();
    one_of_three(|| check(launcher, &words), |ran| is_good(ran) && ran.out.lines().count() == 4);
}

#[test]
fn slurm_is_as_recorded_and_serves_our_client() {
    let Some(slurm) = slurm("conform") else { return };
    let conf = slurm.conf();
    let launcher = format!("env SLURM_CONF='{}' srun --mpi=pmi2 -n {{n}} {{prog}}", conf.display());
    // Only cases with a reply: the timeouts of the rest take minutes.
    let parts = "init-1.1 kvsname pmi1-barrier value-signs mapping fullinit getid length thrid \
                 pmi2-put-get pmi2-fence missing ring lookup pmi2-finalize";
    let only = parts.split_whitespace().flat_map(|part| ["--only", part]);
    let file = recorded("slurm-22.05.8.txt");
    let words: Vec<&str> = only.chain(["--expect", file.to_str().unwrap()]).collect();
    let is_right = |ran: &Ran| is_good(ran) && ran.out.lines().count() > 25;
    one_of_three(|| check(&launcher, &words), is_right);

    let mut srun = Command::new("srun");
    srun.env("SLURM_CONF", conf).args(["--mpi=pmi2", "-n", "3", own(), "demo-rank"]);
    one_of_three(|| theirs(&srun, None), |ran| is_good(ran) && ran.out.contains("median"));
}

#[test]
fn launcher_that_is_none_is_told_from_one() {
    let only = ["--only", "pmi1-maxes", "--only", "pmi1-kvsname"];
    let ran = check("false {n} {prog}", &only).exits_with(0);
    assert_eq!(ran.out.matches("job killed").count(), 3, "{}", ran.out);
    // It starts the program and serves no PMI.
    let ran = check("sh -c 'exec {prog}' {n}", &only).exits_with(1);
    assert!(ran.out.contains("neither PMI_FD nor PMI_PORT is set"), "{}", ran.out);
    // It starts one rank for any requested number.
    let ran = check(&format!("'{}' run -n 1 {{prog}} {{n}}", own()), &only).exits_with(1);
    assert!(ran.out.contains("rank 0 of 1 where 2 were asked for"), "{}", ran.out);
    let words = ["conform", "--timeout", "1", "--launcher", "sleep 600 {n} {prog}"];
    let ran = run(host(words).args(only)).exits_with(0);
    assert!(
        ran.out.contains("the launcher had not exited after 1s") || ran.out.contains("job killed")
    );
}

#[test]
fn launcher_that_hangs_is_ended() {
    let words = ["conform", "--timeout", "1", "--launcher", "sh -c 'sleep 600' {n} {prog}"];
    let ran = run(host(words).args(["--only", "pmi1-maxes"])).exits_with(0);
    assert!(ran.out.contains("no answer"), "{}", ran.out);
    assert!(ran.out.contains("had not exited after 1s"), "{}", ran.out);
}

#[test]
fn matrix_that_differs_from_the_recorded_one_is_a_failure() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = directory.join("recorded.txt");
    std::fs::write(&file, "# by hand\npmi1-maxes  refused  something\n").unwrap();
    let launcher = format!("'{}' run -n {{n}} {{prog}}", own());
    let words =
        ["--only", "pmi1-maxes", "--only", "pmi1-appnum", "--expect", file.to_str().unwrap()];
    check(&launcher, &words)
        .exits_with(1)
        .says(&["pmi1-maxes: as specified", "recorded as refused"]);
}

/// Checks a client, with more patience than a busy machine needs.
fn check_client(client: &str, words: &[&str]) -> Ran {
    run(host(["conform", "--timeout", "40", "--client", client]).args(words))
}

/// The rows of a check, as pairs of a case and its result.
fn rows(ran: &Ran) -> Vec<(&str, &str)> {
    let lines = ran.out.lines().filter(|line| line.starts_with("client-"));
    lines
        .map(|line| line.split_once(' ').unwrap())
        .map(|(case, rest)| (case, rest.trim()))
        .collect()
}

#[test]
fn our_own_client_does_what_can_be_hoped_for_in_both_generations() {
    let own = own();
    for (client, asks) in [
        (format!("env PMI_REQUEST_VERSION=1 '{own}' demo-rank"), "rank 0 sent: init get_maxes"),
        (format!("env PMI_REQUEST_VERSION=2 '{own}' demo-rank"), "rank 0 sent: init fullinit"),
    ] {
        let ran = check_client(&client, &["-n", "3"]).exits_with(0);
        let rows = rows(&ran);
        assert!(rows.len() > 40, "{}", ran.out);
        for (case, found) in &rows {
            assert!(found.starts_with("as specified"), "{case} {found}");
        }
        let found = |case: &str| rows.iter().find(|row| row.0 == case).unwrap().1;
        assert!(found("client-plain").contains(asks), "{}", ran.out);
        // A fatal deviation is reported in words, and a harmless one is tolerated.
        for case in
            ["gone-init", "gone-half", "gone-fence", "endless", "nonsense", "no-put", "no-init"]
        {
            let found = found(&format!("client-{case}"));
            assert!(found.contains("reports it: exit code 1, 'pmi-host: "), "{case} {found}");
        }
        for case in ["split", "late-fence", "field-inside", "space-signs", "space-long", "dialled"]
        {
            assert!(found(&format!("client-{case}")).ends_with("continues"), "{case}");
        }
        assert!(found("client-abort").ends_with("terminates on the signal"), "{}", ran.out);
    }
    // A client that requests the newest version falls back to the offered one.
    let client = format!("env PMI_REQUEST_VERSION=newest '{own}' demo-rank");
    let ran = check_client(&client, &["--only", "1.1-offered"]).exits_with(0);
    assert!(rows(&ran)[0].1.ends_with("continues"), "{}", ran.out);
}

#[test]
fn faults_of_a_client_are_reported_by_their_effects() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/pmi_client.py");
    let client = |fault: &str| format!("/usr/bin/python3 '{}' {fault}", program.display());
    for (fault, only, verdict, does) in [
        (
            "sound",
            "client-errors-text",
            "as specified",
            "reports it: exit code 1, 'get_result says rc=7'",
        ),
        (
            "sound",
            "client-missing",
            "as specified",
            "reports it: exit code 1, 'get_result says rc=-1'",
        ),
        ("sound", "client-dialled", "as specified", "continues"),
        ("sound", "client-alone", "as specified", "reports it: exit code 1, 'there is no server'"),
        ("searching", "client-field-inside", "wrong", "takes a wrong value"),
        ("trusting", "client-missing", "wrong", "takes a wrong value"),
        (
            "trusting",
            "client-errors-text",
            "as specified",
            "continues: it writes 'None' in place of 'of-1'",
        ),
        (
            "careless",
            "client-no-put",
            "tolerated difference",
            "continues, as if nothing were wrong",
        ),
        (
            "careless",
            "client-no-fence",
            "tolerated difference",
            "continues, as if nothing were wrong",
        ),
        ("brittle", "client-errors-text", "wrong", "crashes: signal 11"),
        ("threads", "client-overtaken", "as specified", "continues"),
        (
            "threads",
            "client-1.1-offered",
            "as specified",
            "reports it: exit code 1, 'the server does not",
        ),
        (
            "ordered",
            "client-overtaken",
            "wrong",
            "takes a wrong value: it writes 'b a' in place of 'a b'",
        ),
    ] {
        let ran = check_client(&client(fault), &["--only", only]);
        let rows = rows(&ran);
        let found = rows.iter().find(|row| row.0 == only).unwrap_or_else(|| panic!("{ran:?}")).1;
        let rest = found.strip_prefix(verdict).map(str::trim_start);
        assert!(rest.is_some_and(|rest| rest.starts_with(does)), "{fault} {only}: {found}");
        assert_eq!(ran.code, i32::from(verdict == "wrong"), "{fault} {only}");
    }
    // The wait ends at the given timeout.
    let words =
        ["conform", "--timeout", "12", "--client", &client("patient"), "--only", "gone-fence"];
    let ran = run(&mut host(words)).exits_with(0);
    let found = "client-gone-fence          no answer             hangs; rank 0 sent: init \
                get_my_kvsname put";
    assert!(ran.out.starts_with(found), "{}", ran.out);
}

#[test]
fn client_that_fails_under_a_good_server_is_not_tried_under_others() {
    let ran = check_client("sh -c 'exit 3'", &["--only", "plain", "--only", "order"]).exits_with(0);
    let found = rows(&ran);
    assert!(
        found[0].1.contains("speaks none of the offered protocols: exit code 3"),
        "{}",
        ran.out
    );
    assert!(found[1].1.ends_with("not tested after client-plain"), "{}", ran.out);
}

#[test]
fn clients_that_fail_crash_or_hang_are_told_apart() {
    let only = ["--only", "plain", "--only", "slow"];
    let client = |line: &str, words: &[&str]| run(host(["conform", "--client", line]).args(words));
    let ran = client("sh -c 'echo rubbish >&$PMI_FD; sleep 1'", &only).exits_with(1);
    assert!(ran.out.contains("  wrong  "), "{}", ran.out);
    let ran = client("sleep 600", &["--only", "plain", "--timeout", "1"]).exits_with(0);
    assert!(
        ran.out.contains("no answer") && ran.out.contains("rank 0 sent nothing"),
        "{}",
        ran.out
    );
    client("./no-such-program", &only).exits_with(1).says(&["./no-such-program", "check its name"]);
}

#[test]
fn wrong_usage_is_told_with_the_way_out() {
    for words in [&["--launcher"][..], &["--frobnicate"], &[], &["--launcher", "a 'b"]] {
        run(host(["conform"]).args(words)).exits_with(2).says(&["pmi-host conform --help"]);
    }
    let ran = run(&mut host(["conform", "--launcher", "mpiexec {prog}"]));
    ran.exits_with(1).says(&["no {n}", "mpiexec.hydra -n {n} {prog}"]);
    let ran = check("mpiexec {n} {prog}", &["--only", "no-such-case"]);
    ran.exits_with(1).says(&["no-such-case", "--list"]);
    let ran = check_client("true", &["--only", "no-such-mutation"]);
    ran.exits_with(1).says(&["no-such-mutation", "--list"]);
    let list = run(&mut host(["conform", "--list"])).exits_with(0);
    assert!(list.lines().len() > 100);
    assert!(list.out.contains("client-split "), "{}", list.out);
    let json = run(&mut host(["conform", "--client", "true", "--only", "plain", "--json"]));
    assert!(json.exits_with(0).out.contains("\"verdict\":\"refused\""));
}

#[test]
fn recorded_matrices_become_one_table() {
    let [ours, hydra] = ["pmi-host.txt", "hydra-4.0.2.txt"].map(recorded);
    let titled = [format!("ours={}", ours.display()), format!("hydra={}", hydra.display())];
    let words = ["conform", "--join", &titled[0], "--join", &titled[1]];
    let ran = run(&mut host(words)).exits_with(0);
    assert!(ran.out.starts_with("| case | test | ours | hydra |\n"), "{}", ran.out);
    assert!(ran.out.contains("| `pmi1-unknown` | an unknown command | yes | job killed |"));
}
