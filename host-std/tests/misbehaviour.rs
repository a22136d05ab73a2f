//! Clients that break the protocol, or their promise: every job ends, with a code and a sentence.

mod common;
use common::{job, run, shell};

/// Asks for the version as all clients do and reads the answer.
const INIT: &str = "echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read answer <&$PMI_FD;";

#[test]
fn bytes_that_are_not_pmi_are_named() {
    let ran = run(&mut job(2, shell("printf 'GET / HTTP/1.1\\r\\n' >&$PMI_FD; exec sleep 60")));
    ran.exits_with(1).says(&["of 2 (pid ", "sent something that is not PMI", "GET / HTTP/1.1"]);
}

#[test]
fn a_line_without_end_is_not_read_for_ever() {
    let ran = run(&mut job(1, shell("{ printf cmd=; tr '\\0' x < /dev/zero; } >&$PMI_FD")));
    ran.exits_with(1).says(&["not PMI", "does not end"]);
}

#[test]
fn an_unknown_command_is_refused_and_harms_nobody() {
    let script = format!(
        "{INIT} echo cmd=dance >&$PMI_FD; read answer <&$PMI_FD; echo $answer; echo cmd=finalize >&$PMI_FD"
    );
    let ran = run(&mut job(2, shell(&script))).exits_with(0).says_nothing();
    assert_eq!(ran.out.matches("rc=-1").count(), 2, "{}", ran.out);
}

#[test]
fn leaving_between_init_and_finalize_is_a_failure() {
    let script = format!(
        "{INIT} if [ $PMI_RANK = 1 ]; then exit 0; fi; echo cmd=barrier_in >&$PMI_FD; read answer <&$PMI_FD"
    );
    let ran = run(&mut job(3, shell(&script))).exits_with(1);
    ran.says(&["rank 1 of 3", "exited with 0 but without finalize", "MPI_Finalize"]);
    run(&mut job(1, shell(INIT))).exits_with(1).says(&["without finalize"]);
}

#[test]
fn closing_the_connection_and_staying_alive_is_noticed() {
    let script = format!("{INIT} eval \"exec $PMI_FD>&-\"; exec sleep 60");
    run(&mut job(2, shell(&script))).exits_with(1).says(&["closed its PMI connection", "runs on"]);
}

#[test]
fn a_rank_that_never_joins_is_named_when_others_wait_for_it() {
    let script = format!(
        "if [ $PMI_RANK = 2 ]; then exit 0; fi; {INIT} echo cmd=barrier_in >&$PMI_FD; read answer <&$PMI_FD"
    );
    let ran = run(&mut job(4, shell(&script))).exits_with(1);
    ran.says(&["rank 2 of 4", "left without taking part in the fence", "MPI_Init"]);
}

#[test]
fn a_rank_that_finalized_is_named_when_others_wait_for_it() {
    let script = format!(
        "{INIT}
         if [ $PMI_RANK = 0 ]; then echo cmd=finalize >&$PMI_FD; read answer <&$PMI_FD; exec sleep 60; fi;
         echo cmd=barrier_in >&$PMI_FD; read answer <&$PMI_FD"
    );
    run(&mut job(2, shell(&script))).exits_with(1).says(&["rank 0 of 2", "without taking part"]);
}

#[test]
fn ranks_without_pmi_among_themselves_are_no_failure() {
    let script = format!(
        "if [ $PMI_RANK = 0 ]; then exit 0; fi; {INIT} echo cmd=finalize >&$PMI_FD; read answer <&$PMI_FD"
    );
    run(&mut job(3, shell(&script))).exits_with(0).says_nothing();
    run(&mut job(2, shell("eval \"exec $PMI_FD>&-\"; sleep 1.5; exit 0")))
        .exits_with(0)
        .says_nothing();
}

#[test]
fn abort_ends_everybody_with_its_code() {
    for (text, code, said) in [
        ("cmd=abort exitcode=42", 42, "code 42"),
        ("cmd=abort exitcode=42 message=no way on", 42, "said 'no way on'"),
        ("cmd=abort exitcode=300", 44, "code 300"),
        ("cmd=abort exitcode=-1", 255, "code -1"),
        ("cmd=abort exitcode=256", 1, "code 256"),
        ("cmd=abort", 1, "code 1"),
    ] {
        let script =
            format!("{INIT} if [ $PMI_RANK = 1 ]; then echo {text} >&$PMI_FD; fi; exec sleep 60");
        run(&mut job(3, shell(&script))).exits_with(code).says(&[
            "rank 1 of 3",
            "called abort",
            said,
        ]);
    }
}

#[test]
fn an_abort_counts_although_its_rank_exits_at_once() {
    let script = format!("{INIT} echo cmd=abort exitcode=42 >&$PMI_FD; exit 7");
    run(&mut job(1, shell(&script))).exits_with(42).says(&["called abort with code 42"]);
}

#[test]
fn a_client_that_asks_and_does_not_listen_stops_only_itself() {
    // Rank 0 asks far more than a socket holds and reads nothing; the others are served meanwhile.
    let script = format!(
        "{INIT} if [ $PMI_RANK = 0 ]; then yes cmd=get_maxes >&$PMI_FD; fi;
         echo cmd=get_maxes >&$PMI_FD; read answer <&$PMI_FD; echo $answer;
         echo cmd=abort exitcode=9 >&$PMI_FD; exec sleep 60"
    );
    let ran = run(&mut job(2, shell(&script))).exits_with(9);
    assert!(ran.out.contains("cmd=maxes rc=0"), "{}", ran.out);
}
