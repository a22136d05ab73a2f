//! Ranks that spawn further ranks, with requests written by hand: the request, the environment of the new
//! ranks, and the end of all ranks when one of them fails.

use crate::common::library::{MPICH_5, OPEN_MPI_4, OPEN_MPI_5};
use crate::common::{Ran, host, job, run, shell};

/// Negotiates the version as all clients do.
const INIT: &str = "echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read answer <&$PMI_FD;";

/// Finalizes and waits for the reply.
const FINALIZE: &str = "echo cmd=finalize >&$PMI_FD; read answer <&$PMI_FD;";

/// Output of a spawning rank after a success.
const SPAWNED: &str = "parent: cmd=spawn_result rc=0 jobid=kvs_";

/// One program of a spawn in PMI-1.
struct Block<'a> {
    processes: u32,
    words: &'a [&'a str],
    hints: &'a [(&'a str, &'a str)],
}

/// A rank that spawns `blocks` and prints the reply.
fn spawner(blocks: &[Block<'_>]) -> String {
    let mut lines = Vec::new();
    for (number, block) in (1..).zip(blocks) {
        lines.push("mcmd=spawn".to_owned());
        lines.push(format!("nprocs={}\nexecname={}", block.processes, block.words[0]));
        lines.push(format!("totspawns={}\nspawnssofar={number}", blocks.len()));
        let args = &block.words[1..];
        lines.extend((1..).zip(args).map(|(at, word)| format!("arg{at}={word}")));
        lines.push(format!("argcnt={}", args.len()));
        lines.push("preput_num=1\npreput_key_0=colour\npreput_val_0=dark blue".to_owned());
        lines.push(format!("info_num={}", block.hints.len()));
        for (at, (key, value)) in block.hints.iter().enumerate() {
            lines.push(format!("info_key_{at}={key}\ninfo_val_{at}={value}"));
        }
        lines.push("endcmd".to_owned());
    }
    let text = lines.join("\n");
    assert!(!text.contains("EOT"), "the end of the text must be its end");
    format!(
        "{INIT} cat >&$PMI_FD <<'EOT'\n{text}\nEOT\nread answer <&$PMI_FD; echo parent: $answer;\n"
    )
}

/// Runs one rank that spawns and finalizes.
fn spawn(blocks: &[Block<'_>]) -> Ran {
    run(&mut job(1, shell(&format!("{}{FINALIZE}", spawner(blocks)))))
}

// Coverage: R13-3
#[test]
fn new_ranks_are_a_job_of_their_own() {
    let child = format!(
        "{INIT} echo cmd=get_appnum >&$PMI_FD; read appnum <&$PMI_FD; \
         echo cmd=get_my_kvsname >&$PMI_FD; read name <&$PMI_FD; \
         echo cmd=get kvsname=${{name#*kvsname=}} key=colour >&$PMI_FD; read colour <&$PMI_FD; \
         echo cmd=get kvsname=${{name#*kvsname=}} key=PMI_process_mapping >&$PMI_FD; read map <&$PMI_FD; \
         echo rank $PMI_RANK of $PMI_SIZE spawned $PMI_SPAWNED: ${{appnum##* }} ${{colour#*rc=0 }} ${{map##* }}; \
         echo cmd=barrier_in >&$PMI_FD; read answer <&$PMI_FD; {FINALIZE}"
    );
    let words = ["sh", "-c", &child];
    let block = |processes| Block { processes, words: &words, hints: &[] };
    let ran = spawn(&[block(2), block(1)]).exits_with(0).says_nothing();
    let row = |rank: u32, appnum: u32| {
        format!(
            "rank {rank} of 3 spawned 1: appnum={appnum} value=dark blue value=(vector,(0,1,3))"
        )
    };
    assert!(ran.lines()[0].starts_with(SPAWNED), "{}", ran.out);
    assert_eq!(ran.lines()[1..], [row(0, 0), row(1, 0), row(2, 1)]);
}

// Coverage: R13-13
#[test]
fn words_arrive_as_they_were_sent() {
    let many: Vec<String> = (0..200).map(|number| format!("word {number}=x")).collect();
    let mut words = vec!["printf", "[%s]\\n"];
    words.extend(many.iter().map(String::as_str));
    let ran = spawn(&[Block { processes: 1, words: &words, hints: &[] }]).exits_with(0);
    let printed = ran.out.lines().filter(|line| line.starts_with('['));
    let expected: Vec<String> = many.iter().map(|word| format!("[{word}]")).collect();
    assert_eq!(Vec::from_iter(printed), expected);
}

#[test]
fn output_of_new_ranks_is_labelled_with_the_number_of_their_job() {
    let words = ["sh", "-c", "echo child"];
    let parent = spawner(&[Block { processes: 2, words: &words, hints: &[] }]);
    let script = format!("{parent}{FINALIZE}");
    let ran = run(job(1, ["--label-format", "%g.%r "]).args(shell(&script))).exits_with(0);
    assert!(ran.lines()[0].starts_with(&format!("0.0 {SPAWNED}")), "{}", ran.out);
    assert_eq!(ran.lines()[1..], ["1.0 child", "1.1 child"]);

    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("spawn-files");
    std::fs::create_dir_all(directory.join("0")).unwrap();
    let mut command = job(1, ["--stdout-to", "%g.%r"]);
    run(command.args(shell(&script)).current_dir(&directory)).exits_with(0).says_nothing();
    assert_eq!(std::fs::read_to_string(directory.join("1.1")).unwrap(), "child\n");
    // The first job has a directory and the second one has none.
    let mut command = job(1, ["--stdout-to", "%g/%r"]);
    let ran = run(command.args(shell(&script)).current_dir(&directory)).exits_with(0);
    ran.says(&["the spawn of rank 0", "output of ranks cannot go to '1/0'", "mkdir -p 1"]);
    let told = std::fs::read_to_string(directory.join("0/0")).unwrap();
    assert!(told.starts_with("parent: cmd=spawn_result rc=") && !told.contains("rc=0"), "{told}");
    std::fs::remove_dir_all(directory).unwrap();
}

// Coverage: W2-36
#[test]
fn hints_are_followed() {
    let script = "echo in $(pwd) $COLOUR/$SHAPE of $PMI_SIZE";
    let hints = [
        ("wdir", "/usr"),
        ("host", "localhost"),
        ("soft", "3:20:4"),
        ("env", "COLOUR=red,green,SHAPE=round"),
        ("no_such_hint", "x"),
    ];
    let words = ["sh", "-c", script];
    let ran = spawn(&[Block { processes: 8, words: &words, hints: &hints }]).exits_with(0);
    let lines: Vec<&str> = ran.out.lines().filter(|line| line.starts_with("in")).collect();
    assert_eq!(lines, ["in /usr red,green/round of 7"; 7]);
}

// Coverage: W2-57
#[test]
fn spawn_that_takes_longer_than_its_time_is_undone() {
    let words = ["sleep", "60"];
    let hints = [("timeout", "1")];
    // No system starts as many processes in a millisecond.
    let ran = spawn(&[Block { processes: 200, words: &words, hints: &hints }]).exits_with(0);
    assert!(ran.out.starts_with("parent: cmd=spawn_result rc=-1"), "{}", ran.out);
    ran.says(&["is refused", "the time of the hint 'timeout' is over"]);
}

#[test]
fn program_is_looked_for_in_the_path_of_the_hint_first() {
    use std::os::unix::fs::PermissionsExt;
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("spawn-path");
    std::fs::create_dir_all(&directory).unwrap();
    let program = directory.join("hostname");
    std::fs::write(&program, "#!/bin/sh\necho ours\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = directory.to_str().unwrap();
    for hints in [&[("path", path)][..], &[("wdir", path), ("path", ".")]] {
        let ran = spawn(&[Block { processes: 1, words: &["hostname"], hints }]).exits_with(0);
        assert!(ran.out.contains("ours"), "{}", ran.out);
    }
    let hints = [("wdir", path)];
    let ran = spawn(&[Block { processes: 1, words: &["./hostname"], hints: &hints }]).exits_with(0);
    assert!(ran.out.contains("ours"), "{}", ran.out);
}

#[test]
fn program_that_cannot_be_started_is_refused_and_the_spawner_goes_on() {
    let told = "rc=3 errcodes=3,3";
    let refused =
        |told: &str, words: &[&str], processes, hints: &[(&str, &str)], parts: &[&str]| {
            let ran = spawn(&[Block { processes, words, hints }]).exits_with(0);
            assert_eq!(ran.out, format!("parent: cmd=spawn_result {told}\n"));
            ran.says(&["the spawn of rank 0 of 1 (pid ", ", sh on ", "is refused"]).says(parts);
        };
    refused(told, &["no-such-program"], 2, &[], &["'no-such-program' is in no directory of PATH"]);
    refused(told, &["true"], 2, &[("host", "elsewhere")], &["'elsewhere'", "leave the hint"]);
    refused(told, &["true"], 2, &[("hostfile", "/no/such")], &["'/no/such', which cannot be read"]);
    refused(told, &["true"], 2, &[("wdir", "/no/such")], &["'/no/such', which is not a directory"]);
    refused(told, &["true"], 2, &[("soft", "5:9")], &["soft=5:9"]);
    // More codes than fit in the buffers of old clients.
    let told = "rc=2";
    refused(told, &["true"], 2_000_000_000, &[], &["2000000000 times", "open files"]);
    // Found and executable, but of no format that the system can run: the error occurs only at the start.
    let words = [env!("CARGO_TARGET_TMPDIR"), "/no-format"].concat();
    std::fs::write(&words, "\0no program at all\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&words, mode).unwrap();
    let told = "rc=-1 errcodes=-1,-1";
    refused(told, &[&words], 2, &[], &["could not be started", "'#!'"]);
}

#[test]
fn spawn_whose_second_program_is_bad_starts_neither() {
    let blocks = [
        Block { processes: 1, words: &["echo", "started"], hints: &[] },
        Block { processes: 1, words: &["no-such-program"], hints: &[] },
    ];
    let ran = spawn(&blocks).exits_with(0);
    // The second one is the cause of the failure.
    assert_eq!(ran.out, "parent: cmd=spawn_result rc=3 errcodes=14,3\n");
}

// Coverage: R13-14
#[test]
fn hint_that_leaves_ranks_out_has_a_code_of_its_own() {
    let blocks = [
        Block { processes: 1, words: &["true"], hints: &[] },
        Block { processes: 4, words: &["true"], hints: &[("soft", "1:3")] },
    ];
    let ran = spawn(&blocks).exits_with(0);
    assert!(ran.out.ends_with(" errcodes=0,0,0,0,13\n"), "{}", ran.out);
}

#[test]
fn words_with_line_ends_arrive_whole() {
    let lines = ["a\nb=c", "\n", "x\n\ny\n", "z"];
    // One piece that ends a line: no line of the parent comes into it.
    let words = [&["sh", "-c", "printf '<%s><%s><%s><%s>\\n' \"$@\"", "sh"], &lines[..]].concat();
    let ran = spawn(&[Block { processes: 1, words: &words, hints: &[] }]).exits_with(0);
    assert!(ran.out.contains("<a\nb=c><\n><x\n\ny\n><z>"), "{}", ran.out);
}

#[test]
fn pair_that_is_too_long_refuses_the_spawn_and_harms_nobody() {
    let block = |value: &str| {
        let block = "mcmd=spawn\nnprocs=1\nexecname=true\ntotspawns=1\nspawnssofar=1\nargcnt=0\n\
                     preput_num=1\npreput_key_0=k\npreput_val_0=";
        format!(
            "cat >&$PMI_FD <<'EOT'\n{block}{value}\ninfo_num=0\nendcmd\nEOT\nread a <&$PMI_FD; echo $a;\n"
        )
    };
    let [long, longest] = [20_000, 1024].map(|len| block(&"v".repeat(len)));
    let ran = run(&mut job(1, shell(&format!("{INIT} {long}{longest}{FINALIZE}")))).exits_with(0);
    assert!(ran.out.contains("rc=7 msg=value_k_20000_bytes_over_limit_1024"), "{}", ran.out);
    assert!(ran.out.contains("cmd=spawn_result rc=0 jobid="), "{}", ran.out);
}

#[test]
fn launcher_waits_for_the_last_of_all_jobs() {
    let words = ["sh", "-c", "sleep 0.5; echo late"];
    let ran = spawn(&[Block { processes: 2, words: &words, hints: &[] }]).exits_with(0);
    assert_eq!(ran.lines()[..2], ["late", "late"]);
    assert!(ran.lines()[2].starts_with(SPAWNED), "{}", ran.out);
}

#[test]
fn spawned_rank_that_fails_ends_all_jobs_and_gives_the_code() {
    let words = ["sh", "-c", "if [ $PMI_RANK = 1 ]; then exit 7; fi; exec sleep 60"];
    let script = spawner(&[Block { processes: 2, words: &words, hints: &[] }]);
    run(&mut job(2, shell(&format!("{script} exec sleep 60")))).exits_with(7).says(&[
        "rank 1 of 2 in the spawned job kvs_",
        "exited with code 7",
        "still running are terminated",
    ]);
}

#[test]
fn spawned_job_that_has_finalized_fails_alone_and_its_code_is_that_of_the_run() {
    // Rank 1 has finalized as well, and is terminated with its job.
    let child =
        format!("{INIT} {FINALIZE} if [ $PMI_RANK = 1 ]; then exec sleep 60; fi; sleep 1; exit 5");
    let words = ["sh", "-c", &child];
    let script = spawner(&[Block { processes: 2, words: &words, hints: &[] }]);
    let ran = run(&mut job(1, shell(&format!("{script} sleep 3; echo goes on; {FINALIZE}"))))
        .exits_with(5)
        .says(&[
            "rank 0 of 2 in the spawned job kvs_",
            "exited with code 5",
            "other jobs continue",
        ]);
    assert!(ran.out.ends_with("goes on\n"), "{}", ran.out);
    // One that has not finalized is connected with its spawner, whatever the others have done.
    let child = format!("{INIT} if [ $PMI_RANK = 1 ]; then exec sleep 60; fi; {FINALIZE} exit 5");
    let words = ["sh", "-c", &child];
    let script = spawner(&[Block { processes: 2, words: &words, hints: &[] }]);
    run(&mut job(1, shell(&format!("{script} exec sleep 60"))))
        .exits_with(5)
        .says(&["still running are terminated"]);
}

#[test]
fn mpi_job_that_has_disconnected_fails_alone() {
    for (library, name) in
        [(MPICH_5, "MPICH 5"), (OPEN_MPI_4, "Open MPI 4"), (OPEN_MPI_5, "Open MPI 5")]
    {
        let Some(program) = (library.build)("disconnect") else { continue };
        let mut command = job(1, [&program]);
        library.prepare(&mut command);
        let ran = run(command.arg("code")).exits_with(5).says(&["other jobs continue"]);
        assert_eq!(ran.out, "the parent goes on\n", "{name}: {}", ran.err);
        let mut command = job(1, [&program]);
        library.prepare(&mut command);
        run(command.arg("joined")).exits_with(5).says(&["the 1 rank still running is terminated"]);
    }
}

#[test]
fn abort_of_either_side_ends_both() {
    let child = format!("{INIT} echo cmd=abort exitcode=33 >&$PMI_FD; exec sleep 60");
    let words = ["sh", "-c", &child];
    let script = spawner(&[Block { processes: 1, words: &words, hints: &[] }]);
    run(&mut job(1, shell(&format!("{script} exec sleep 60"))))
        .exits_with(33)
        .says(&["rank 0 of 1 in the spawned job", "abort with code 33"]);
    let words = ["sleep", "60"];
    let script = spawner(&[Block { processes: 3, words: &words, hints: &[] }]);
    run(&mut job(1, shell(&format!("{script} echo cmd=abort exitcode=34 >&$PMI_FD; sleep 60"))))
        .exits_with(34)
        .says(&[
            "rank 0 of 1 (pid",
            "abort with code 34",
            "the 4 ranks still running are terminated",
        ]);
}

#[test]
fn spawned_ranks_spawn_in_their_turn() {
    // Each generation starts the next one with one word less, and the last one prints that it is the last.
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let script = directory.join("generations.sh");
    let text = format!(
        "if [ $# = 0 ]; then echo the last; exit 0; fi\nshift\n{INIT}\n\
         {{ echo mcmd=spawn; echo nprocs=1; echo execname=sh; echo totspawns=1; echo spawnssofar=1\n\
         echo arg1={0}; n=1; for word; do n=$((n + 1)); echo arg$n=$word; done; echo argcnt=$n\n\
         echo preput_num=0; echo info_num=0; echo endcmd; }} >&$PMI_FD\n\
         read answer <&$PMI_FD; echo $answer\n{FINALIZE}\n",
        script.display()
    );
    std::fs::write(&script, text).unwrap();
    let mut command = job(1, [std::ffi::OsStr::new("sh"), script.as_os_str()]);
    // More generations than the number of ended jobs that the launcher keeps.
    let ran = run(command.args(["x"; 40])).exits_with(0).says_nothing();
    assert_eq!(ran.out.matches("cmd=spawn_result rc=0").count(), 40, "{}", ran.out);
    assert!(ran.out.contains("the last\n"), "{}", ran.out);
}

// Coverage: A2-16
#[test]
fn names_are_seen_by_jobs_that_are_not_connected() {
    let child = format!(
        "{INIT} echo cmd=lookup_name service=desk >&$PMI_FD; read answer <&$PMI_FD; echo child: $answer; \
         {FINALIZE}"
    );
    let words = ["sh", "-c", &child];
    let publish =
        "echo cmd=publish_name service=desk port=room-12 >&$PMI_FD; read answer <&$PMI_FD;";
    let script = spawner(&[Block { processes: 1, words: &words, hints: &[] }]);
    let script = script.replacen(INIT, &format!("{INIT} {publish}"), 1);
    let ran = run(&mut job(1, shell(&format!("{script}{FINALIZE}")))).exits_with(0);
    assert!(ran.out.contains("child: cmd=lookup_result rc=0 info=ok port=room-12"), "{}", ran.out);
}

// Coverage: W2-29, A2-10
#[test]
fn pmi_2_spawn_tells_the_name_of_the_new_job_and_of_its_spawner() {
    let ask = |body: &str| format!("printf '%6d%s' {} '{body}' >&$PMI_FD;", body.len());
    let init = "echo cmd=init pmi_version=2 pmi_subversion=0 >&$PMI_FD; read answer <&$PMI_FD;";
    // Frames have no line ends, so they are read when the server closes: after finalize.
    let child = format!(
        "{init} {} {} cat <&$PMI_FD; echo",
        ask("cmd=fullinit;pmirank=0;"),
        ask("cmd=finalize;")
    );
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("pmi2-child.sh");
    std::fs::write(&directory, child).unwrap();
    let spawn = format!(
        "cmd=spawn;ncmds=1;preputcount=0;subcmd=sh;maxprocs=1;argc=1;argv0={};infokeycount=0;",
        directory.display()
    );
    let script = format!(
        "{init} {} {} {} cat <&$PMI_FD; echo",
        ask("cmd=fullinit;pmirank=0;"),
        ask(&spawn),
        ask("cmd=finalize;")
    );
    let ran = run(&mut job(1, shell(&script))).exits_with(0).says_nothing();
    let spawned = ran.out.split("cmd=spawn-response;rc=0;jobid=").nth(1).expect(&ran.out);
    let name = spawned.split(';').next().unwrap();
    let launcher = name.strip_suffix("_1").expect(name);
    let spawner = ran.out.split("spawner-jobid=").nth(1).expect(&ran.out);
    assert_eq!(spawner.split(';').next().unwrap(), format!("{launcher}_0"), "{}", ran.out);
}

// Coverage: A2-14, A2-15
#[test]
fn universe_and_what_is_configured_can_be_asked_for() {
    let ask = |key: &str| {
        format!(
            "echo cmd=get kvsname=$name key={key} >&$PMI_FD; read answer <&$PMI_FD; echo $answer;"
        )
    };
    let script = format!(
        "{INIT} echo cmd=get_my_kvsname >&$PMI_FD; read name <&$PMI_FD; name=${{name#*kvsname=}};
         echo cmd=get_universe_size >&$PMI_FD; read answer <&$PMI_FD; echo $answer;
         {} {} {} {} {} {FINALIZE}",
        ask("universeSize"),
        ask("hasNameServ"),
        ask("cartDims"),
        ask("physTopology"),
        ask("cartCoords")
    );
    let words = ["run", "-n", "1", "--universe", "9", "--attribute", "cartDims=3,3", "sh", "-c"];
    let ran = run(host(words).arg(&script)).exits_with(0);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines[0], "cmd=universe_size rc=0 size=9");
    assert!(lines[1].ends_with("value=9") && lines[2].ends_with("value=TRUE"), "{}", ran.out);
    assert!(lines[3].ends_with("value=3,3") && lines[4].ends_with("value=complete"), "{}", ran.out);
    assert!(!lines[5].contains("value="), "{}", ran.out);
}

#[test]
fn universe_has_the_slots_of_the_hosts_that_are_named_and_at_least_the_ranks() {
    let script = format!(
        "{INIT} echo cmd=get_universe_size >&$PMI_FD; read answer <&$PMI_FD;
         [ $PMI_RANK = 0 ] && echo ${{answer##*size=}} $OMPI_UNIVERSE_SIZE; {FINALIZE}"
    );
    let processors = std::thread::available_parallelism().unwrap().get();
    let starter = "env STARTED_AS={host} {cmd}";
    let on_hosts =
        ["--node-interface", "127.0.0.1", "--starter-cmd", starter, "--hosts", "n1:2,n2:3"];
    for (options, expected) in [
        (&["-n", "1"][..], format!("-1 {processors}")),
        (&["-n", "1", "--hosts", "localhost:4"], "4 4".to_owned()),
        (&["-n", "3", "--hosts", "localhost:2"], "3 3".to_owned()),
        (&["-n", "1", "--universe", "9"], "9 9".to_owned()),
        (&["-n", "1", "--universe", "endless", "--hosts", "localhost:4"], "-1 4".to_owned()),
        (&[&on_hosts[..], &["-n", "1"]].concat(), "5 5".to_owned()),
        (&[&on_hosts[..], &["-n", "2", "--universe", "4"]].concat(), "4 4".to_owned()),
    ] {
        let mut command = host(["run", "--pmi", "all"]);
        let ran = run(command.args(options).args(shell(&script))).exits_with(0);
        assert_eq!(ran.out.trim_end(), expected, "{options:?}");
    }
}

#[test]
fn two_ranks_that_put_one_key_are_named_once() {
    let script = format!(
        "{INIT} for key in a b; do echo cmd=put kvsname=x key=$key value=$PMI_RANK >&$PMI_FD; \
         read answer <&$PMI_FD; done; echo cmd=barrier_in >&$PMI_FD; read answer <&$PMI_FD; {FINALIZE}"
    );
    run(&mut job(2, shell(&script))).exits_with(0).says(&["have both put", "of 2 (sh on"]);
}
