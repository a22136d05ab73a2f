//! Reports of ends of ranks: one line for users for all ranks that ended alike, JSON for programs; and the
//! effect of one failure on the other ranks.

use crate::common::{Ran, host, mpi_program, openmpi_program, run, shell, start};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `pmi-host run -n RANKS OPTIONS… sh -c SCRIPT`.
fn told(ranks: u32, options: &[&str], script: &str) -> Ran {
    let ranks = ranks.to_string();
    let words = [&["run", "-n", &ranks], options, &shell(script)].concat();
    run(&mut host(words))
}

fn file(name: &str) -> PathBuf {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_file(&file);
    file
}

fn json(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

#[test]
fn all_exit_codes_are_told_by_ranges_of_ranks() {
    let script = "case $PMI_RANK in 3) sleep 0.3; kill -SEGV $$;; 4) exec sleep 60;; esac";
    let ran = told(6, &["--print-all-exitcodes"], script).exits_with(139);
    let lines: Vec<&str> = ran.err.lines().skip_while(|line| !line.contains("how the")).collect();
    assert_eq!(lines[0], "pmi-host: how the 6 ranks ended:");
    assert_eq!(lines[1], "    ranks 0-2,5      exited with code 0");
    assert!(
        lines[2].starts_with("    rank 3           was killed by signal 11 (SIGSEGV)"),
        "{}",
        ran.err
    );
    let last = "    rank 4           was killed by signal 15 (SIGTERM), after the run had ended";
    assert_eq!(lines[3..], [last]);
    assert_eq!(told(2, &[], "exit 0").exits_with(0).err, "");
}

#[test]
fn rank_that_disconnects_without_finalize_is_reported() {
    let init = "echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read answer <&$PMI_FD";
    let ran = told(1, &["--print-all-exitcodes"], init).exits_with(1);
    assert!(ran.err.contains("exited with 0 but without finalize"), "{}", ran.err);
    assert!(
        ran.err.contains("rank 0           exited with code 0 but without finalize"),
        "{}",
        ran.err
    );
}

#[test]
fn report_says_how_every_rank_and_the_run_went() {
    let file = file("result.json");
    let name = file.to_str().unwrap();
    let script = "if [ $PMI_RANK = 1 ]; then
            echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read answer <&$PMI_FD
            echo cmd=finalize >&$PMI_FD; read answer <&$PMI_FD
        fi
        if [ $PMI_RANK = 2 ]; then sleep 0.3; kill -TERM $$; fi";
    told(4, &["--result", name], script).exits_with(143);
    let report = json(&file);
    assert_eq!((&report["version"], &report["exit_code"]), (&1.into(), &143.into()));
    let failure = report["failure"].as_str().unwrap();
    assert!(failure.starts_with("rank 2 of 4 (pid ") && failure.contains("SIGTERM"), "{failure}");
    assert_eq!(report["jobs"].as_array().unwrap().len(), 1);
    let ranks = report["jobs"][0]["ranks"].as_array().unwrap();
    assert_eq!(ranks.len(), 4);
    let (silent, spoke, killed) = (&ranks[0], &ranks[1], &ranks[2]);
    assert_eq!((&silent["exit_code"], &silent["finalized"]), (&0.into(), &Value::Null));
    assert_eq!((&spoke["finalized"], &spoke["requests"]), (&true.into(), &2.into()));
    let sent = "cmd=init pmi_version=1 pmi_subversion=1\ncmd=finalize\n".len();
    assert_eq!(spoke["bytes_in"], sent);
    assert!(spoke["bytes_out"].as_u64().unwrap() > 40, "{report}");
    assert_eq!((&killed["exit_code"], &killed["signal"]["number"]), (&143.into(), &15.into()));
    assert_eq!(
        (&killed["signal"]["name"], &killed["ended_by_launcher"]),
        (&"SIGTERM".into(), &false.into())
    );
    let seconds = &report["seconds"];
    assert!(seconds["ending"].as_f64().unwrap() > 0.2, "{report}");
    assert!(seconds["total"].as_f64().unwrap() >= killed["ended"].as_f64().unwrap(), "{report}");
    assert!(killed["ended"].as_f64().unwrap() > killed["started"].as_f64().unwrap(), "{report}");
}

#[test]
fn run_that_goes_well_has_no_failure_in_its_report() {
    let file = file("well.json");
    told(2, &["--result", file.to_str().unwrap()], "exit 0").exits_with(0).says_nothing();
    let report = json(&file);
    assert_eq!((&report["exit_code"], &report["failure"]), (&0.into(), &Value::Null));
    assert_eq!(report["jobs"][0]["ranks"][1]["program"], "sh");
}

#[test]
fn report_for_ci_systems_has_a_case_for_the_run_and_for_every_rank() {
    let file = file("result.xml");
    let script = "case $PMI_RANK in 1) exit 3;; 2) exec sleep 60;; *) exit 0;; esac";
    // The name of the program is text of the user.
    let words = ["--on-exit-error=kill", "--result", file.to_str().unwrap()];
    let wait = format!("[ $PMI_RANK = 1 ] && sleep 0.3; {script}");
    told(4, &words, &wait).exits_with(3);
    let text = fs::read_to_string(&file).unwrap();
    let document = roxmltree::Document::parse(&text).unwrap();
    let root = document.root_element();
    assert_eq!(root.tag_name().name(), "testsuites");
    let counts = |node: roxmltree::Node| {
        ["tests", "failures", "skipped"].map(|name| node.attribute(name).unwrap().to_owned())
    };
    assert_eq!(counts(root), ["5", "2", "1"]);
    let is = |name: &'static str| move |node: &roxmltree::Node| node.has_tag_name(name);
    let suites: Vec<_> = root.children().filter(is("testsuite")).collect();
    assert_eq!(
        (counts(suites[0]), counts(suites[1])),
        (["1", "1", "0"].map(str::to_owned), ["4", "1", "1"].map(str::to_owned))
    );
    let message = |case: roxmltree::Node| -> Option<(String, String)> {
        let verdict = case.children().find(roxmltree::Node::is_element)?;
        Some((verdict.tag_name().name().to_owned(), verdict.attribute("message")?.to_owned()))
    };
    let case = |name: &str| {
        let mut all = document.descendants().filter(is("testcase"));
        all.find(|case| case.attribute("name") == Some(name)).unwrap_or_else(|| panic!("{text}"))
    };
    let (tag, report) = message(case("run")).unwrap();
    assert!(tag == "failure" && report.starts_with("rank 1 of 4 (pid "), "{text}");
    assert_eq!(message(case("rank 0 of 4")), None);
    assert_eq!(case("rank 0 of 4").attribute("classname"), Some("sh"));
    let (tag, how) = message(case("rank 1 of 4")).unwrap();
    assert!(tag == "failure" && how.starts_with("exited with code 3 on "), "{text}");
    let (tag, how) = message(case("rank 2 of 4")).unwrap();
    assert!(tag == "skipped" && how.contains("SIGTERM"), "{text}");
    let seconds: f64 = case("rank 1 of 4").attribute("time").unwrap().parse().unwrap();
    assert!(seconds > 0.2, "{text}");
}

#[test]
fn report_for_ci_systems_is_xml_whatever_a_rank_says() {
    let file = file("hostile.XML");
    let script = "echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read a <&$PMI_FD; \
                  printf 'cmd=abort exitcode=9 message=<&\"\\033[2J>\\n' >&$PMI_FD; exec sleep 60";
    told(1, &["--result", file.to_str().unwrap()], script).exits_with(9);
    let text = fs::read_to_string(&file).unwrap();
    assert!(roxmltree::Document::parse(&text).is_ok(), "{text}");
}

#[test]
fn run_is_summed_up_in_one_line() {
    let start = "pmi-host: 3 ranks on 1 host: 3 succeeded; exit code 0 after ";
    let ran = told(3, &["--summary"], "exit 0").exits_with(0);
    assert!(ran.err.starts_with(start) && ran.err.lines().count() == 1, "{}", ran.err);
    let script = "[ $PMI_RANK = 0 ] && exit 5; exec sleep 60";
    let ran = told(2, &["--summary"], script).exits_with(5);
    let last = ran.err.lines().last().unwrap();
    let start =
        "pmi-host: 2 ranks on 1 host: 1 failed, 1 terminated by the launcher; exit code 5 after ";
    assert!(last.starts_with(start), "{}", ran.err);
}

#[test]
fn report_that_cannot_be_written_is_told_before_anything_starts() {
    let flag = file("not-started");
    let words = ["run", "-n", "1", "--result", "/no/such/directory/r.json", "touch"];
    let mut command = host(words);
    run(command.arg(&flag)).exits_with(1).says(&["'/no/such/directory/r.json'", "--result"]);
    assert!(!flag.exists());
}

#[test]
fn with_ignore_the_others_go_on_and_the_first_failure_is_the_code() {
    // The launcher has noticed the end of a process that is not in the table of processes any more.
    let script =
        "await() { until pid=$(cat $1.$2 2>&-) && ! kill -0 $pid 2>&-; do sleep 0.01; done; }
        echo $$ > $0.new.$PMI_RANK; mv $0.new.$PMI_RANK $0.$PMI_RANK
        case $PMI_RANK in 1) exit 5;; 2) await $0 1; exit 6;; esac
        await $0 2; echo $PMI_RANK ended";
    let pids = file(&format!("ignored-{}", std::process::id()));
    let words = ["run", "-n", "4", "--on-exit-error", "ignore", "sh", "-c", script];
    let ran = run(host(words).arg(&pids)).exits_with(5);
    assert_eq!(ran.lines(), ["0 ended", "3 ended"]);
    assert!(
        ran.err.contains("exited with code 5; the 3 ranks still running continue"),
        "{}",
        ran.err
    );
    assert!(
        ran.err.contains("exited with code 6; the 2 ranks still running continue"),
        "{}",
        ran.err
    );
    (0..4).for_each(|rank| fs::remove_file(format!("{}.{rank}", pids.display())).unwrap());
}

// Coverage: A2-18
#[test]
fn dead_are_where_mpi_libraries_look_and_who_catches_the_news_is_woken() {
    let script = "if [ $PMI_RANK = 1 ]; then exit 5; fi
        if [ $PMI_RANK = 2 ]; then exec sleep 0.7; fi
        trap 'echo woken' USR1; sleep 0.5; wait
        echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read answer <&$PMI_FD
        echo cmd=get_my_kvsname >&$PMI_FD; read name <&$PMI_FD
        echo cmd=get kvsname=${name#*kvsname=} key=PMI_dead_processes >&$PMI_FD; read dead <&$PMI_FD
        echo $dead; echo cmd=finalize >&$PMI_FD; read answer <&$PMI_FD";
    let ran = told(3, &["--on-exit-error", "ignore"], script).exits_with(5);
    // Rank 2 has no handler, and survives.
    assert!(ran.out.contains("cmd=get_result rc=0 value=1\n"), "{} {}", ran.out, ran.err);
    assert!(!ran.err.contains("SIGUSR1"), "{}", ran.err);
}

#[test]
fn fence_that_can_never_end_ends_the_run_even_then() {
    let script = "echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read answer <&$PMI_FD
        if [ $PMI_RANK = 1 ]; then exit 5; fi
        echo cmd=barrier_in >&$PMI_FD; read answer <&$PMI_FD; exec sleep 60";
    let ran = told(3, &["--on-exit-error", "ignore"], script);
    assert_ne!(ran.code, 0);
    assert!(ran.err.contains("exited without taking part in the fence"), "{}", ran.err);
}

#[test]
fn abort_ends_all_ranks_even_then() {
    let script = "echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read answer <&$PMI_FD
        if [ $PMI_RANK = 0 ]; then echo cmd=abort exitcode=9 >&$PMI_FD; fi; exec sleep 60";
    let ran = told(3, &["--on-exit-error", "ignore"], script).exits_with(9);
    assert!(ran.err.contains("called abort with code 9"), "{}", ran.err);
}

#[test]
fn ranks_that_run_on_too_long_after_the_first_are_ended() {
    let script = "if [ $PMI_RANK = 2 ]; then exec sleep 60; fi";
    let ran = told(3, &["--exit-timeout", "0.3"], script).exits_with(124);
    assert!(
        ran.err.contains("the first rank exited with code 0 0.3 s ago and others still run"),
        "{}",
        ran.err
    );
    told(3, &["--exit-timeout", "20"], "sleep 0.1").exits_with(0).says_nothing();
}

// Coverage: A2-6
#[test]
fn rank_that_ends_without_a_supported_version_is_named() {
    let script = "if [ $PMI_RANK = 1 ]; then
            echo cmd=init pmi_version=3 pmi_subversion=0 >&$PMI_FD; read answer <&$PMI_FD; echo $answer
            exit 0
        fi; exec sleep 60";
    let ran = told(2, &[], script).exits_with(1);
    assert!(ran.err.contains("rank 1 of 2 (pid "), "{}", ran.err);
    assert!(ran.err.contains("no common version: the peer speaks PMI 3.0"), "{}", ran.err);
}

// Coverage: A2-6
#[test]
fn rank_tries_an_older_version_after_its_own_was_refused() {
    let script = "ask() { echo cmd=init pmi_version=$1 pmi_subversion=0 >&$PMI_FD; read a <&$PMI_FD; echo $a; }
        ask 3; ask 1; echo cmd=finalize >&$PMI_FD; read a <&$PMI_FD; echo $a";
    let ran = told(2, &[], script).exits_with(0);
    assert_eq!(ran.out.matches("rc=-1 pmi_version=2 pmi_subversion=0").count(), 2, "{}", ran.out);
    assert_eq!(ran.out.matches("rc=0 pmi_version=1 pmi_subversion=1").count(), 2, "{}", ran.out);
    assert_eq!(ran.out.matches("cmd=finalize_ack").count(), 2, "{}", ran.out);
}

#[test]
fn rank_of_a_real_mpi_program_is_in_the_report() {
    // Of PMI, and of PMIx.
    for hello in [mpi_program("hello"), openmpi_program("hello")].into_iter().flatten() {
        let file = file("mpi.json");
        let mut command = host(["run", "-n", "3", "--result", file.to_str().unwrap()]);
        run(command.arg(hello)).exits_with(0);
        for rank in json(&file)["jobs"][0]["ranks"].as_array().unwrap() {
            assert_eq!(rank["finalized"], true);
            assert!(rank["requests"].as_u64().unwrap() >= 5, "{rank}");
            assert!(rank["bytes_in"].as_u64().unwrap() > 100, "{rank}");
            assert!(rank["bytes_out"].as_u64().unwrap() > 100, "{rank}");
        }
    }
}

#[test]
fn memory_exhaustion_is_reported_where_the_control_group_records_it() {
    // A control group with little memory, if the system permits one.
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap();
    let v1 = groups.lines().find_map(|line| line.split_once(":memory:")).map(|(_, path)| path);
    let (directory, limit) = match v1 {
        Some(path) => (format!("/sys/fs/cgroup/memory{path}"), "memory.limit_in_bytes"),
        None => ("/sys/fs/cgroup".to_owned(), "memory.max"),
    };
    let group = Path::new(&directory).join(format!("pmi-host-{}", std::process::id()));
    let made = fs::create_dir(&group).and_then(|()| fs::write(group.join(limit), "60M"));
    if let Err(error) = made {
        let _ = fs::remove_dir(&group);
        eprintln!("skipped: no control group can be made here ({error})");
        return;
    }
    // The limit on memory and swap together, where there is one.
    let _ = fs::write(group.join("memory.memsw.limit_in_bytes"), "60M");
    let _ = fs::write(group.join("memory.swap.max"), "0");
    let line = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", group.display());
    let awk = "exec awk 'BEGIN { all = \"x\"; while (1) all = all all }'";
    let hungry = format!("if [ $PMI_RANK = 1 ]; then {awk}; fi; exec sleep 60");
    let mut command = Command::new("sh");
    let own = env!("CARGO_BIN_EXE_pmi-host");
    command.args(["-c", &line, "sh", own, "run", "-n", "2"]).args(shell(&hungry));
    let ran = start(&mut command).end();
    let _ = fs::remove_dir(&group);
    if ran.code == 137 && !ran.err.contains("rank 1 of 2") {
        eprintln!("skipped: the system took the launcher instead");
        return;
    }
    ran.exits_with(137).says(&["rank 1 of 2", "killed by the system for lack of memory"]);
}

#[test]
fn two_hundred_endings_are_one_line() {
    let ran = told(200, &["--print-all-exitcodes"], "exit 0").exits_with(0);
    assert_eq!(
        ran.err,
        "pmi-host: how the 200 ranks ended:\n    ranks 0-199      exited with code 0\n"
    );
}
