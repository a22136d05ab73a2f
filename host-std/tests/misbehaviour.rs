//! Clients that break the protocol, or their obligations: every job ends, with a code and a message.

use crate::common::{Ran, job, run, shell};

/// Negotiates the version as all clients do.
const INIT: &str = "echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read answer <&$PMI_FD;";

// Coverage: R13-21
#[test]
fn bytes_that_are_not_pmi_are_named() {
    let ran = run(&mut job(2, shell("printf 'GET / HTTP/1.1\\r\\n' >&$PMI_FD; exec sleep 60")));
    ran.exits_with(1).says(&["of 2 (pid ", "sent bytes that are not PMI", "GET / HTTP/1.1"]);
}

#[test]
fn line_without_end_is_not_read_for_ever() {
    let ran = run(&mut job(1, shell("{ printf cmd=; tr '\\0' x < /dev/zero; } >&$PMI_FD")));
    ran.exits_with(1).says(&["not PMI", "does not end"]);
}

// Coverage: R13-22
#[test]
fn unknown_command_is_refused_and_harms_no_other_rank() {
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
    run(&mut job(2, shell(&script)))
        .exits_with(1)
        .says(&["closed its PMI connection", "still runs"]);
}

#[test]
fn rank_that_never_joins_is_named_when_others_wait_for_it() {
    let script = format!(
        "if [ $PMI_RANK = 2 ]; then exit 0; fi; {INIT} echo cmd=barrier_in >&$PMI_FD; read answer <&$PMI_FD"
    );
    let ran = run(&mut job(4, shell(&script))).exits_with(1);
    ran.says(&["rank 2 of 4", "exited without taking part in the fence", "MPI_Init"]);
}

#[test]
fn rank_that_finalized_is_named_when_others_wait_for_it() {
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

// Coverage: R13-8
#[test]
fn abort_ends_all_ranks_with_its_code() {
    for (text, code, said) in [
        ("cmd=abort exitcode=42", 42, "code 42"),
        ("cmd=abort exitcode=42 message=no way on", 42, "message 'no way on'"),
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
fn abort_counts_although_its_rank_exits_at_once() {
    let script = format!("{INIT} echo cmd=abort exitcode=42 >&$PMI_FD; exit 7");
    run(&mut job(1, shell(&script))).exits_with(42).says(&["called abort with code 42"]);
}

#[test]
fn client_that_asks_and_does_not_listen_stops_only_itself() {
    // Rank 0 sends far more requests than a socket holds and reads nothing; the others are served
    // meanwhile.
    let script = format!(
        "{INIT} if [ $PMI_RANK = 0 ]; then yes cmd=get_maxes >&$PMI_FD; fi;
         echo cmd=get_maxes >&$PMI_FD; read answer <&$PMI_FD; echo $answer;
         echo cmd=abort exitcode=9 >&$PMI_FD; exec sleep 60"
    );
    let ran = run(&mut job(2, shell(&script))).exits_with(9);
    assert!(ran.out.contains("cmd=maxes rc=0"), "{}", ran.out);
}

/// The same in PMI-2, where frames follow.
const INIT_2: &str =
    "echo cmd=init pmi_version=2 pmi_subversion=0 >&$PMI_FD; read answer <&$PMI_FD;";

/// A shell that sends `bytes`, as printf writes them, and prints all replies until the end.
fn talk(init: &str, bytes: &str) -> String {
    format!("{init} printf '{bytes}' >&$PMI_FD; cat <&$PMI_FD; echo")
}

#[test]
fn frame_of_no_length_ends_its_sender_only_by_the_rules_of_failure() {
    let script = format!(
        "if [ $PMI_RANK = 1 ]; then {} exec sleep 60; fi; exec sleep 60",
        talk(INIT_2, "     0")
    );
    run(&mut job(2, shell(&script))).exits_with(1).says(&[
        "rank 1 of 2",
        "a length above 0",
        "the 2 ranks still running are terminated",
    ]);
}

#[test]
fn frame_of_the_greatest_length_is_read_to_its_end() {
    // Bytes after the last field are ignored, as in the frames of old clients; then comes nonsense.
    let fill = "head -c 999985 /dev/zero | tr '\\0' x >&$PMI_FD;";
    let script = format!(
        "{INIT_2} printf '999999cmd=job-getid;' >&$PMI_FD; {fill} printf '    13cmd=finalize;' >&$PMI_FD; \
         cat <&$PMI_FD"
    );
    let ran = run(&mut job(1, shell(&script))).exits_with(0).says_nothing();
    assert!(ran.out.contains("cmd=job-getid-response;rc=0;jobid=kvs_"), "{}", ran.out);
    assert!(ran.out.ends_with("cmd=finalize-response;rc=0;"), "{}", ran.out);
}

#[test]
fn half_a_frame_and_silence_block_no_other_rank() {
    // Rank 1 never ends its frame; rank 0 is served meanwhile and then ends the job.
    let script = format!(
        "if [ $PMI_RANK = 1 ]; then {INIT_2} printf '    16cmd=job' >&$PMI_FD; exec sleep 60; fi; \
         {INIT} for i in 1 2 3; do echo cmd=get_maxes >&$PMI_FD; read answer <&$PMI_FD; echo $answer; done; \
         echo cmd=abort exitcode=9 >&$PMI_FD; exec sleep 60"
    );
    let ran = run(&mut job(2, shell(&script))).exits_with(9);
    assert_eq!(ran.out.matches("cmd=maxes rc=0").count(), 3, "{}", ran.out);
    let script = format!("{INIT_2} printf '    16cmd=job' >&$PMI_FD");
    run(&mut job(1, shell(&script))).exits_with(1).says(&["without finalize"]);
}

#[test]
fn second_init_is_answered_like_the_first() {
    let hello = "cmd=init pmi_version=1 pmi_subversion=1\\n";
    let ran = run(&mut job(1, shell(&talk(INIT, &format!("{hello}cmd=finalize\\n")))));
    let answer =
        "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\ncmd=finalize_ack rc=0\n";
    assert_eq!(ran.exits_with(0).says_nothing().out.trim(), answer.trim());
    let hello = "cmd=init pmi_version=2 pmi_subversion=0\\n";
    let ran = run(&mut job(1, shell(&talk(INIT_2, &format!("{hello}    13cmd=finalize;")))));
    let answer = "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n    27cmd=finalize-response;rc=0;";
    assert_eq!(ran.exits_with(0).says_nothing().out.trim(), answer);
}

#[test]
fn fence_that_is_entered_twice_is_refused_the_second_time() {
    // Requests may overlap in frames, so both arrive before the other rank enters.
    let fence = "    14cmd=kvs-fence;";
    let script = format!(
        "if [ $PMI_RANK = 0 ]; then {INIT_2} printf '{fence}{fence}' >&$PMI_FD; \
         head -c 68 <&$PMI_FD > $ANSWER.part; mv $ANSWER.part $ANSWER; \
         printf '    13cmd=finalize;' >&$PMI_FD; cat <&$PMI_FD; echo; exit 0; fi; \
         {INIT_2} while [ ! -e $ANSWER ]; do sleep 0.01; done; \
         printf '{fence}    13cmd=finalize;' >&$PMI_FD; cat <&$PMI_FD > /dev/null"
    );
    let answer = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("twice");
    let _ = std::fs::remove_file(&answer);
    let ran = run(job(2, shell(&script)).env("ANSWER", &answer)).exits_with(0).says_nothing();
    let refused = std::fs::read_to_string(&answer).unwrap();
    assert!(
        refused.contains("cmd=kvs-fence-response;rc=") && !refused.contains("rc=0;"),
        "{refused}"
    );
    assert!(ran.out.contains("cmd=kvs-fence-response;rc=0;"), "{}", ran.out);
}

#[test]
fn messages_after_finalize_are_ignored() {
    let ran =
        run(&mut job(1, shell(&talk(INIT, "cmd=finalize\\ncmd=put kvsname=a key=b value=c\\n"))));
    assert_eq!(ran.exits_with(0).says_nothing().out.trim(), "cmd=finalize_ack rc=0");
}

// Coverage: W2-54
#[test]
fn endless_message_takes_no_more_memory_than_a_long_one() {
    // The launcher's own highest use of memory, when it has read as much of a line as it does, without the
    // pages of its file.
    let line = "{ printf cmd=put; tr '\\0' x < /dev/zero; } >&$PMI_FD 2>/dev/null";
    let memory = "sleep 0.5; grep -E 'VmHWM|RssFile' /proc/$PPID/status";
    let script = format!("trap '' TERM; ({line}) & {memory}; kill $!; wait");
    let ran = run(&mut job(1, shell(&script))).exits_with(1);
    let kilobytes = |name: &str| -> Option<u32> {
        let line = ran.out.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let own = kilobytes("VmHWM:").zip(kilobytes("RssFile:")).map(|(all, file)| all - file);
    assert!(own.is_some_and(|own| own < 8 * 1024), "{}", ran.out);
    ran.says(&["does not end within 1048576 bytes"]);
}

/// One rank aborts itself alone, in a PMI-2 frame, while the other waits a moment and ends well.
fn abort_of_one(options: &[&str], message: &str) -> Ran {
    let body = format!("cmd=abort;isworld=false;exitcode=5;msg={message};");
    let script = format!(
        "{INIT_2} if [ $PMI_RANK = 1 ]; then printf '%-6d%s' {} '{body}' >&$PMI_FD; exec sleep 60; fi;
         sleep 1; echo rank 0 is well; printf '13    cmd=finalize;' >&$PMI_FD",
        body.len()
    );
    let words: Vec<_> = options.iter().copied().chain(shell(&script)).collect();
    run(&mut job(2, words))
}

// Coverage: W2-30
#[test]
fn abort_of_one_rank_ends_that_rank_and_others_by_the_rules_of_failure() {
    let message = "no way on ".repeat(30);
    let ran = abort_of_one(&[], &message).exits_with(5);
    // The whole text is shown, not only its front.
    let ran = ran.says(&["rank 1 of 2", "called abort with code 5", message.trim()]);
    assert!(!ran.out.contains("well"), "{}", ran.out);
    let ran = abort_of_one(&["--on-exit-error", "ignore"], "bye").exits_with(5);
    let ran = ran.says(&["called abort with code 5 and message 'bye'"]);
    assert!(ran.out.contains("rank 0 is well"), "{}", ran.out);
}
