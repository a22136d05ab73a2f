//! Interactive jobs, and ranks with a terminal of their own.

use crate::common::terminal::{Terminal, on_terminal};
use crate::common::{job, run, run_with_input, shell};
use rustix::termios::{LocalModes, Termios};
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn prompt_is_shown_before_its_line_ends() {
    for (options, label) in [("--stdin=0", ""), ("-l", "[0] "), ("--collapse", "[0] ")] {
        let script =
            "[ $PMI_RANK = 0 ] || exec sleep 0.3; printf 'name? '; read name; echo hello $name";
        let mut person = on_terminal(&["run", options, "-n", "2", "sh", "-c", script]);
        person.shows(&format!("{label}name? "));
        person.types("Ann\n");
        let (code, seen) = person.ends();
        let seen = seen.replace('\r', "");
        assert_eq!((code, &*seen), (0, &*format!("{label}name? Ann\nhello Ann\n")));
    }
}

#[test]
fn line_of_another_rank_is_not_glued_to_a_prompt() {
    let go = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("go-{}", std::process::id()));
    let script = format!(
        "if [ $PMI_RANK = 0 ]; then printf 'name? '; read name; echo hello $name; \
         else until [ -e {} ]; do sleep 0.01; done; echo other; fi",
        go.display()
    );
    let mut person = on_terminal(&["run", "-n", "2", "sh", "-c", &script]);
    person.shows("name? ");
    fs::write(&go, "").unwrap();
    person.shows("other");
    person.types("Ann\n");
    let (code, seen) = person.ends();
    fs::remove_file(go).unwrap();
    assert_eq!((code, &*seen.replace('\r', "")), (0, "name? \nother\nAnn\nhello Ann\n"));
}

#[test]
fn several_ranks_read_what_a_person_types() {
    let script = "while read line; do echo $PMI_RANK $line; done; echo end";
    let mut person = on_terminal(&["run", "--stdin", "0,2", "-n", "3", "sh", "-c", script]);
    for line in ["one", "two"] {
        person.types(&format!("{line}\n"));
        [0, 2].iter().for_each(|rank| person.shows(&format!("{rank} {line}")));
    }
    person.types("\x04");
    let (code, seen) = person.ends();
    assert_eq!((code, seen.matches("end").count()), (0, 3), "{seen}");
}

#[test]
fn rank_has_a_terminal_of_the_size_of_the_launchers() {
    let script = "for fd in 0 1 2; do [ -t $fd ] && echo $PMI_RANK $fd is one; done; \
                  if [ $PMI_RANK = 1 ]; then stty size; trap 'stty size; exit' WINCH; echo ready; \
                  while :; do sleep 0.01; done; fi; exit 0";
    for way in WAYS {
        let words = [way, &["--pty", "1", "-n", "2", "sh", "-c", script]].concat();
        let mut person = on_terminal(&words);
        person.shows("ready");
        person.resizes(33, 99);
        let (code, seen) = person.ends();
        assert_eq!((code, seen.matches("is one").count()), (0, 3), "{way:?}: {seen}");
        assert!(seen.contains("1 2 is one\r\n50 132\r\nready\r\n33 99\r\n"), "{way:?}: {seen:?}");
    }
}

#[test]
fn rank_with_a_terminal_is_where_signals_of_keys_go() {
    let script = "[ $PMI_RANK = 0 ] || exec sleep 60; trap 'echo caught' INT; echo ready; \
                  until [ _$word = _word ]; do read word; done; echo got $word; exit 4";
    for way in WAYS {
        let words = [way, &["--pty", "0", "-n", "2", "dash", "-c", script]].concat();
        let mut person = on_terminal(&words);
        person.shows("ready");
        person.types("\x03");
        person.shows("caught");
        person.types("x\nword\n");
        let (code, seen) = person.ends();
        assert_eq!((code, seen.contains("got word")), (4, true), "{way:?}: {seen}");
        assert!(!seen.contains("SIGINT"), "{way:?}: {seen}");
    }
}

#[test]
fn our_terminal_is_as_it_was_on_every_way_out() {
    WAYS.into_iter().for_each(check_ways_out);
}

fn check_ways_out(way: &[&str]) {
    let ready = "[ $PMI_RANK = 0 ] || exit 0; stty -g > /dev/null; echo ready; ";
    for (script, act, code) in [
        ("sleep 0.2", None, 0),
        ("exit 7", None, 7),
        ("kill -9 $$", None, 137),
        ("exec sleep 60", Some("TERM"), 143),
        ("exec sleep 60", Some("HUP"), 129),
        ("exec sleep 60", Some("KILL"), 137),
        ("trap '' INT; while :; do sleep 0.01; done", Some("keys"), 130),
    ] {
        let script = format!("{ready}{script}");
        let mut person =
            on_terminal(&[way, &["--pty", "0", "-n", "2", "sh", "-c", &script]].concat());
        let is_plain =
            |modes: &Termios| modes.local_modes.contains(LocalModes::ECHO | LocalModes::ICANON);
        person.shows("ready");
        if act.is_some() {
            assert!(!is_plain(&person.modes()), "{script}");
        }
        match act {
            // Two interrupts mean the launcher itself: a rank that ignores the signal is killed.
            Some("keys") => interrupt(&mut person),
            Some(signal) => person.signal(signal),
            None => {}
        }
        let (ended_with, seen) = person.ends();
        assert_eq!(ended_with, code, "{script}: {seen}");
        // After a kill only the guard restores the terminal, which takes some time.
        let since = Instant::now();
        while !is_plain(&person.modes()) && act == Some("KILL") {
            assert!(since.elapsed() < Duration::from_secs(30), "{script}");
            thread::sleep(Duration::from_millis(2));
        }
        assert!(is_plain(&person.modes()), "{script}");
    }
}

fn interrupt(person: &mut Terminal) {
    person.types("\x03\x03\x03");
    person.shows("SIGINT");
    // Keys pressed in quick succession count as one interrupt.
    thread::sleep(Duration::from_millis(300));
    person.types("\x03\x03\x03");
}

#[test]
fn input_that_is_no_terminal_is_typed_too() {
    let script = "[ -t 0 ] && stty -echo size; while read line; do echo got $line; done; echo end";
    for options in [&[][..], &["--starter", "local:1"]] {
        let mut command = job(1, [options, &["--pty", "0"]].concat());
        let ran = run_with_input(command.args(shell(script)), b"one\nlast").exits_with(0);
        let out = ran.out.replace('\r', "");
        assert!(out.contains("got one\n") && out.ends_with("end\n"), "{options:?}: {out:?}");
    }
    // The null device ends at once.
    let ran = run(job(2, ["--pty", "0"]).arg("cat")).exits_with(0).says_nothing();
    assert!(ran.out.is_empty() || ran.out == "^D\x08\x08", "{:?}", ran.out);
}

#[test]
fn terminal_for_no_rank_is_refused_before_the_start() {
    let ran = run(job(2, ["--pty", "2"]).args(["echo", "started"])).exits_with(2);
    ran.says(&["rank 2 cannot have a terminal", "2 ranks"]);
    let ran = run(job(2, ["--pty", "0", "--stdin", "all"]).args(["echo", "started"])).exits_with(2);
    ran.says(&["forwarded to the terminal of rank 0", "--stdin"]);
}

#[test]
fn launcher_waits_quietly_when_its_rank_with_a_terminal_has_ended() {
    let script = "[ $PMI_RANK = 0 ] || exec sleep 600; echo up";
    let mut person = on_terminal(&["run", "--pty", "0", "-n", "2", "sh", "-c", script]);
    person.shows("up");
    thread::sleep(Duration::from_millis(500));
    // Every wait of a process is a context switch.
    let waits = || {
        let status = fs::read_to_string(format!("/proc/{}/status", person.pid())).unwrap();
        let of = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let counts = ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"].map(of);
        counts.iter().flatten().map(|count| count.trim().parse::<u64>().unwrap()).sum::<u64>()
    };
    let cpu = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", person.pid())).unwrap();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let (waits_before, cpu_before) = (waits(), cpu());
    thread::sleep(Duration::from_secs(3));
    let (waits, cpu) = (waits() - waits_before, cpu() - cpu_before);
    // A loop that never waits uses all the processor time that other processes leave.
    assert!(waits < 100 && cpu < 20, "{waits} waits and {cpu} ticks in three seconds");
    person.signal("TERM");
    assert_eq!(person.ends().0, 143);
}

/// On this host, and on two node servers.
const WAYS: [&[&str]; 2] = [&["run"], &["run", "--starter", "local:2"]];
