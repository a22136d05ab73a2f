//! Ranks and processors: the binding of each rank, and its report.

mod common;
use common::{host, job, run};

/// Prints the processors that a rank may run on, as the system reports them.
const TELL: [&str; 3] = ["sh", "-c", "grep Cpus_allowed_list: /proc/self/status | cut -f 2"];

#[test]
fn rank_runs_where_it_is_bound_from_its_first_instruction_on() {
    let bound = |to: &str| {
        let mut command = host(["run", "-n", "3", "--bind-to", to]);
        run(command.args(TELL)).exits_with(0).lines().join(" ")
    };
    let all = run(&mut job(1, TELL)).exits_with(0).out.trim().to_owned();
    assert_eq!(bound("none"), [&*all; 3].join(" "));
    assert_eq!(bound("machine"), [&*all; 3].join(" "));
    let first = all.split([',', '-']).next().unwrap();
    assert_eq!(bound(&format!("user:{first}")), [first; 3].join(" "));
    for one in bound("hwthread").split(' ') {
        assert!(one.parse::<u32>().is_ok(), "{one}");
    }
}

#[test]
fn launcher_itself_stays_where_it_was() {
    // Between two ranks the launcher restores its own binding; otherwise the second one would have no
    // choice of processors.
    let mut command =
        host(["run", "--bind-to", "hwthread", ":", "-n", "1", "true", ":", "-n", "1"]);
    let all = run(&mut job(1, TELL)).exits_with(0).out;
    // A rank may run before its launcher has restored its binding.
    let wait = "for _ in $(seq 500); do
        now=$(grep Cpus_allowed_list: /proc/$PPID/status | cut -f 2)
        if [ \"$now\" = \"$1\" ]; then break; fi
        sleep 0.01
    done
    echo \"$now\"";
    let ran = run(command.args(["sh", "-c", wait, "sh", all.trim()])).exits_with(0);
    assert_eq!(ran.out, all);
}

#[test]
fn impossible_binding_is_reported_before_anything_starts() {
    for (words, parts) in [
        (&["--bind-to", "user:65535"][..], &["processor 65535", "may be used here"][..]),
        (&["--map-by", "core"], &["'--map-by'", "--bind-to core"]),
        (&["--map-by", "core", "--bind-to", "user:0"], &["leave '--map-by' out"]),
    ] {
        let ran = run(host(["run", "-n", "1"]).args(words).args(["echo", "started"]));
        assert_eq!(ran.out, "");
        ran.exits_with(1).says(parts);
    }
}

#[test]
fn more_ranks_than_processors_are_allowed_and_told() {
    let words = ["run", "-n", "3", "--bind-to", "user:0", "echo", "x"];
    let ran = run(&mut host(words)).exits_with(0);
    assert_eq!(ran.lines(), ["x"; 3]);
    ran.says(&["3 ranks are bound to 1 processor,", "up to 3"]);
}

#[test]
fn map_shows_who_runs_where() {
    let words = ["run", "-n", "2", "--bind-to", "user:0", "--display", "map", "echo", "x"];
    let ran = run(&mut host(words)).exits_with(0);
    assert_eq!(ran.lines(), ["x"; 2]);
    let mut lines = ran.err.lines();
    assert!(lines.next().unwrap().starts_with("ranks  node"), "{}", ran.err);
    let row: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!((row[0], row[2]), ("0-1", "0"), "{}", ran.err);
}
