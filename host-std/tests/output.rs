//! Output of ranks: whole lines, behind labels, in files, or once for many.

use crate::common::hosts::local_nodes;
use crate::common::{Running, c_program, job, run, shell, start};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn no_line_of_256_ranks_is_lost_or_mixed() {
    let (ranks, count, bytes) = (256, 10_000, 120);
    let mut command = job(ranks, [c_program("lines")]);
    let mut child =
        command.args([count, bytes].map(|n| n.to_string())).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::with_capacity(1 << 20, child.stdout.take().unwrap());
    let (mut next, mut line) = (vec![0; index(ranks)], Vec::new());
    while out.read_until(b'\n', &mut line).unwrap() > 0 {
        let (rank, number) = tag(&line, bytes);
        assert_eq!(number, next[rank], "rank {rank}");
        next[rank] += 1;
        line.clear();
    }
    assert!(child.wait().unwrap().success());
    assert!(next.iter().all(|seen| *seen == count), "{next:?}");
}

#[test]
fn line_comes_whole_however_much_others_write_before_its_end() {
    let script =
        "[ $PMI_RANK = 0 ] || { sleep 0.4; head -c 3000000 /dev/zero | tr '\\0' '\\n'; exit; }
                  printf 'begin, '; sleep 0.9; echo end";
    for (nodes, options) in [(0, vec![]), (0, vec!["--stdout-to", "out"]), (2, vec![])] {
        let directory = directory("whole");
        let words = [&options[..], &shell(script)].concat();
        let mut command = if nodes > 0 { local_nodes(nodes, 3, &words) } else { job(3, &words) };
        let ran = run(command.current_dir(&directory)).exits_with(0);
        let out = match options.is_empty() {
            true => ran.out,
            false => fs::read_to_string(directory.join("out")).unwrap(),
        };
        assert_eq!(out.len(), 2 * 3_000_000 + "begin, end\n".len(), "{nodes} {options:?}");
        assert!(out.lines().any(|line| line == "begin, end"), "{:?}", out.trim());
        fs::remove_dir_all(directory).unwrap();
    }
}

#[test]
fn line_that_its_rank_does_not_go_on_with_is_ended() {
    let script = "[ $PMI_RANK = 0 ] || { sleep 0.4; echo other; exec sleep 20; }
                  printf begin; exec sleep 20";
    for nodes in [0, 2] {
        let mut command = match nodes {
            0 => job(2, shell(script)),
            _ => local_nodes(nodes, 2, &shell(script)),
        };
        let mut running = dialog(&mut command);
        running.wait_for_output("begin\nother\n");
        running.types("\n");
        running.signal("TERM");
        running.end().exits_with(143);
    }
}

#[test]
fn long_line_comes_whole() {
    let (count, bytes) = (3, 900_000);
    let ran = run(job(4, [c_program("lines")]).args([count, bytes].map(|n| n.to_string())));
    let mut next = BTreeMap::new();
    for line in ran.exits_with(0).out.split_inclusive('\n') {
        let (rank, number) = tag(line.as_bytes(), bytes);
        assert_eq!(number, *next.entry(rank).and_modify(|seen| *seen += 1).or_default());
    }
    assert_eq!(next, (0..4).map(|rank| (rank, count - 1)).collect());
}

/// Rank and number of a line, after a check that all of it belongs together.
fn tag(line: &[u8], bytes: usize) -> (usize, usize) {
    let text = || String::from_utf8_lossy(&line[..line.len().min(80)]);
    assert_eq!((line.len(), line.last()), (bytes, Some(&b'\n')), "{}", text());
    let mut parts = line[..bytes - 1].splitn(3, |byte| *byte == b':');
    let mut number =
        || std::str::from_utf8(parts.next().unwrap()).unwrap().parse::<usize>().unwrap();
    let (rank, place) = (number(), number());
    let letter = b'a' + u8::try_from((rank + place) % 26).unwrap();
    let filler = parts.next().unwrap();
    assert!(filler == vec![letter; filler.len()], "{}", text());
    (rank, place)
}

#[test]
fn last_lines_without_end_are_kept_and_not_mixed() {
    let ran = run(&mut job(3, shell("printf 'a\\nlast'"))).exits_with(0);
    assert_eq!(ran.out.lines().filter(|line| *line == "last").count(), 3, "{:?}", ran.out);
    assert_eq!((ran.out.len(), ran.out.ends_with("last")), (3 * 7 - 1, true), "{:?}", ran.out);
}

/// `command` with a pipe as its standard input, started.
fn dialog(command: &mut Command) -> Running {
    start(command.stdin(Stdio::piped()))
}

#[test]
fn question_without_line_end_reaches_a_pipe() {
    // Other ranks are silent, or have written whole lines.
    let script = "[ $PMI_RANK != 1 ] || echo other; [ $PMI_RANK = 0 ] || exec sleep 60
                  printf 'steps? '; read x; echo \"answer $x\"; exec sleep 60";
    for (ranks, options, label) in
        [(1, vec![], ""), (3, vec![], ""), (3, vec!["-l"], "[0] "), (2, vec!["--collapse"], "[0] ")]
    {
        let mut running = dialog(job(ranks, options).args(shell(script)));
        running.wait_for_output(&format!("{label}steps? "));
        running.types("100\n");
        running.wait_for_output(&format!("{label}steps? answer 100\n"));
        running.signal("TERM");
        running.end().exits_with(143);
    }
}

#[test]
fn question_without_line_end_reaches_a_pipe_from_another_host() {
    let script = "[ $PMI_RANK = 0 ] || { echo other; exec sleep 60; }
                  printf 'steps? '; read x; echo \"answer $x\"; exec sleep 60";
    for options in [vec![], vec!["-l"], vec!["--unbuffered"], vec!["--collapse"]] {
        let mut running = dialog(&mut local_nodes(2, 2, &[&options[..], &shell(script)].concat()));
        running.wait_for_output("steps? ");
        running.types("100\n");
        running.wait_for_output("steps? answer 100\n");
        running.signal("TERM");
        running.end().exits_with(143);
    }
}

#[test]
fn question_without_line_end_reaches_a_file() {
    let directory = directory("question");
    let script = "printf \"name of $PMI_RANK? \"; exec sleep 60";
    let mut command = job(2, ["--stdout-to", "out.%r"]);
    let running = start(command.args(shell(script)).current_dir(&directory));
    for rank in 0..2 {
        let file = directory.join(format!("out.{rank}"));
        let until = Instant::now() + Duration::from_secs(60);
        while fs::read_to_string(&file).unwrap_or_default() != format!("name of {rank}? ") {
            assert!(Instant::now() < until, "rank {rank}");
            thread::sleep(Duration::from_millis(5));
        }
    }
    running.signal("TERM");
    running.end().exits_with(143);
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn lines_that_ranks_write_in_pieces_stay_whole() {
    // Each piece rests for longer than a line is held for, and one of the ranks writes whole lines meanwhile.
    let script =
        "if [ $PMI_RANK = 2 ]; then for i in 1 2 3 4 5 6; do echo whole; sleep 0.12; done; exit; fi
                  for i in 1 2; do printf 'begin '; sleep 0.3; echo end; done; printf last";
    for options in [vec![], vec!["-l"], vec!["--stdout-to", "/dev/stdout"]] {
        let ran = run(job(3, &options).args(shell(script))).exits_with(0);
        let text = |line: &str| line.rsplit("] ").next().unwrap().to_owned();
        let mut lines: Vec<String> = ran.out.lines().map(text).collect();
        lines.sort_unstable();
        let (begun, whole) = (vec!["begin end"; 4], vec!["whole"; 6]);
        assert_eq!(lines, [begun, vec!["last"; 2], whole].concat(), "{}", ran.out);
    }
}

#[test]
fn questions_of_several_ranks_are_passed_on_without_a_buffer_only() {
    let script = "printf \"name of $PMI_RANK? \"; read x; echo \"$PMI_RANK: $x\"";
    for label in ["", "[R] "] {
        let labels: &[&str] = if label.is_empty() { &[] } else { &["-l"] };
        let mut command = job(2, [&["--unbuffered", "--stdin", "all"], labels].concat());
        let mut running = dialog(command.args(shell(script)));
        let label = |rank: &str| label.replace('R', rank);
        for rank in ["0", "1"] {
            running.wait_for_output(&format!("{}name of {rank}? ", label(rank)));
        }
        running.types("x\n");
        let ran = running.end().exits_with(0);
        for rank in ["0", "1"] {
            assert!(ran.out.contains(&format!("{rank}: x\n")), "{}", ran.out);
        }
    }
    // Without the option both lines are unfinished, and come whole.
    let mut running = dialog(job(2, ["--stdin", "all"]).args(shell(script)));
    thread::sleep(Duration::from_millis(500));
    assert_eq!(running.output(), "");
    running.types("x\n");
    let ran = running.end().exits_with(0);
    assert_eq!(ran.lines(), ["name of 0? 0: x", "name of 1? 1: x"]);
}

#[test]
fn label_names_the_rank_of_every_line() {
    let script = "echo one; printf two";
    for (options, label) in [
        (vec!["-l"], "[R] "),
        (vec!["--label-format", "%g/%r on %h 100%%: "], "0/R on HOST 100%: "),
    ] {
        let ran = run(job(2, options).args(shell(script))).exits_with(0);
        let label = label.replace("HOST", &rustix::system::uname().nodename().to_string_lossy());
        let expected = |rank: &str| ["one", "two"].map(|line| label.replace('R', rank) + line);
        assert_eq!(ran.lines(), [expected("0"), expected("1")].concat());
    }
    let ran = run(job(1, ["-l", "--timestamps"]).args(shell("echo one; sleep 0.2; echo two >&2")));
    let times = [&ran.out, &ran.err].map(|text| {
        let (time, line) = text.split_once(' ').unwrap();
        assert!(["[0] one\n", "[0] two\n"].contains(&line), "{text}");
        time.parse::<f64>().unwrap()
    });
    assert!(times[0] < times[1], "{times:?}");
    run(job(2, ["--label-format", "%x"]).arg("true"))
        .exits_with(2)
        .says(&["'%x'", "%r and %R (rank)"]);
}

#[test]
fn ranks_have_files_of_their_own() {
    let directory = directory("own");
    fs::write(directory.join("out.1"), "what was there before, and is longer").unwrap();
    let script = "echo out $PMI_RANK; echo err $PMI_RANK >&2; printf last";
    let mut command = job(3, ["--stdout-to", "out.%r", "--stderr-to", "%r.%h.err"]);
    let ran = run(command.args(shell(script)).current_dir(&directory)).exits_with(0);
    assert_eq!((&*ran.out, &*ran.err), ("", ""));
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    for rank in 0..3 {
        let read = |name: String| fs::read_to_string(directory.join(name)).unwrap();
        assert_eq!(read(format!("out.{rank}")), format!("out {rank}\nlast"));
        assert_eq!(read(format!("{rank}.{host}.err")), format!("err {rank}\n"));
    }
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn ranks_may_share_a_file_and_both_streams_too() {
    let directory = directory("shared");
    let script = "for i in 1 2 3; do echo out $i; echo err $i >&2; done";
    let mut command = job(4, ["-l"]);
    command.args(["--stdout-to", "all", "--stderr-to", "all"]).args(shell(script));
    run(command.current_dir(&directory)).exits_with(0).says_nothing();
    let text = fs::read_to_string(directory.join("all")).unwrap();
    for rank in 0..4 {
        let label = format!("[{rank}] ");
        let own: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(&label)).collect();
        assert_eq!(own, ["out 1", "err 1", "out 2", "err 2", "out 3", "err 3"], "{text}");
    }
    assert_eq!(text.lines().count(), 24);
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn files_that_cannot_be_written_are_told_before_the_start() {
    let directory = directory("before");
    fs::write(directory.join("old.0"), "kept").unwrap();
    fs::create_dir(directory.join("old.1")).unwrap();
    let pipe = directory.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (pattern, said) in [
        ("no/such/out.%r".to_owned(), "mkdir -p no/such"),
        ("old.%r".to_owned(), "it is a directory"),
        // No file can be created there.
        ("/sys/out.%r".to_owned(), "choose a directory where you may write"),
        ("pipe".to_owned(), "start the reader"),
    ] {
        let mut command = job(2, ["--stderr-to", "new.%r", "--stdout-to", &pattern]);
        let ran = run(command.args(["touch", "started"]).current_dir(&directory)).exits_with(1);
        ran.says(&[said, if pattern.contains('/') { "/out.0" } else { "" }]);
    }
    let mut names: Vec<String> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["old.0", "old.1", "pipe"]);
    assert_eq!(fs::read_to_string(directory.join("old.0")).unwrap(), "kept");
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn file_that_takes_no_more_is_named_and_no_success() {
    let mut command = job(2, ["--stdout-to", "/dev/full"]);
    run(command.args(["echo", "lost"])).exits_with(1).says(&["'/dev/full'", "space", "lost"]);
}

#[test]
fn lines_that_ranks_write_alike_come_once() {
    // Without a time limit, so that a busy machine cannot separate identical lines. The rank that differs
    // writes two lines at once: after the first alone, nothing tells that the line of the others follows.
    let options = ["--collapse", "--collapse-wait", "0"];
    let script = "echo hello; if [ $PMI_RANK = 5 ]; then printf 'differs\\nrank 1\\n'; \
                  else echo rank $((PMI_RANK / 4)); fi; echo oops >&2";
    let ran = run(job(8, options).args(shell(script))).exits_with(0);
    let expected = ["[0-3] rank 0", "[0-7] hello", "[4-7] rank 1", "[5] differs"];
    assert_eq!(ran.lines(), expected, "{}", ran.out);
    let at = |line| ran.out.find(line).unwrap();
    assert!(at("hello") < at("differs") && at("differs") < at("rank 1"), "{}", ran.out);
    assert_eq!(ran.err, "[0-7] oops\n");
    let ran = run(job(3, options).args(["--label-format", "%r> "]).args(["printf", "end"]));
    assert_eq!(ran.exits_with(0).out, "0-2> end");
    // Held lines do not wait for a rank that failed.
    let ran =
        run(job(4, options).args(shell("echo hello; [ $PMI_RANK != 0 ] || exit 3; exec sleep 60")));
    assert!(ran.exits_with(3).out.starts_with("[0"));
}

#[test]
fn equal_lines_are_found_although_one_rank_writes_all_of_them_first() {
    let directory = directory("first");
    let script = "until [ $PMI_RANK = 0 ] || [ -e written ]; do sleep 0.05; done; seq 20000
                  if [ $PMI_RANK = 0 ]; then touch written; fi";
    let mut command = job(2, ["--collapse", "--collapse-wait", "0"]);
    let ran = run(command.args(shell(script)).current_dir(&directory)).exits_with(0);
    let expected = (1..=20000).map(|number| format!("[0-1] {number}"));
    assert!(ran.out.lines().eq(expected), "{} lines", ran.out.lines().count());
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn equal_lines_are_found_again_after_more_than_may_be_held() {
    let directory = directory("flood");
    let script =
        "if [ $PMI_RANK = 0 ]; then yes 'a line of rank 0' | head -n 200000; touch written; fi
                  until [ -e written ]; do sleep 0.05; done; seq 1000";
    let mut command = job(3, ["--collapse", "--collapse-wait", "0"]);
    let ran = run(command.args(shell(script)).current_dir(&directory)).exits_with(0);
    let (own, common): (Vec<&str>, _) = ran.out.lines().partition(|line| line.starts_with("[0] "));
    assert_eq!(own.len(), 200_000);
    assert!(common.into_iter().eq((1..=1000).map(|number| format!("[0-2] {number}"))));
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn rank_that_is_silent_holds_lines_for_a_while_only() {
    let script = "if [ $PMI_RANK = 0 ]; then read line; echo $line; else exec sleep 60; fi";
    let mut command = job(3, ["--collapse", "--collapse-wait", "0.1"]);
    let mut child =
        command.args(shell(script)).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"alone\n").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "[0] alone\n");
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn slow_reader_costs_ranks_time_and_us_no_memory() {
    for options in [vec![], vec!["-l"], vec!["--collapse"]] {
        // Each rank has far more output than the launcher may keep.
        let mut command = job(32, &options);
        command.args(shell(
            "yes 'a line of $PMI_RANK that is neither short nor long' | head -n 400000",
        ));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut bytes = [0; 1 << 16];
        let before = memory_kb(&child);
        for _ in 0..20 {
            out.read_exact(&mut bytes[..1000]).unwrap();
            thread::sleep(Duration::from_millis(20));
        }
        let grown = memory_kb(&child).saturating_sub(before);
        assert!(grown < 24_000, "{options:?}: {grown} kB more");
        signal(&child, "KILL");
        child.wait().unwrap();
    }
}

#[test]
fn reader_that_goes_away_ends_every_kind_of_output() {
    let directory = directory("gone");
    for options in ["-l", "--timestamps", "--collapse", "--stderr-to err.%r"] {
        let line = format!("{{ {HOST} run -n 3 {options} yes; echo code $? >&2; }} | head -n 1");
        let ran = run(Command::new("sh").args(["-c", &line]).current_dir(&directory));
        assert_eq!(
            (ran.code, ran.out.lines().count(), ran.err.trim()),
            (0, 1, "code 141"),
            "{options}"
        );
    }
    // Output to files is not affected.
    let line =
        format!("{HOST} run -n 2 --stdout-to %r sh -c 'sleep 0.2; echo out; echo err >&2' | true");
    let ran = run(Command::new("sh").args(["-c", &line]).current_dir(&directory)).exits_with(0);
    assert_eq!(ran.err, "err\nerr\n");
    assert_eq!(fs::read_to_string(directory.join("1")).unwrap(), "out\n");
    fs::remove_dir_all(directory).unwrap();
}

/// A separate directory for the test `name`.
fn directory(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("output-{name}-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// Memory besides pages of the program file, of which a build without optimization has many.
fn memory_kb(child: &Child) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap()
}

const HOST: &str = env!("CARGO_BIN_EXE_pmi-host");
