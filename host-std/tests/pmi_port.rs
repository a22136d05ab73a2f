//! Ranks that find the server at a port (`--pmi-port`), for MPI programs that are started by others.

use crate::common::hosts::local_nodes;
use crate::common::wheel::{on_loopback, wheel_program};
use crate::common::{host, mpi_program, run, start};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// A Python program that starts its arguments, with all inherited files closed.
const CLOSING: &str =
    "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:], close_fds=True))";

fn with_port(ranks: &str) -> Command {
    host(["run", "-n", ranks, "--pmi-port"])
}

fn started_by_python(command: &mut Command, program: &Path) -> Vec<String> {
    let command = on_loopback(command.args(["/usr/bin/python3", "-c", CLOSING]).arg(program));
    let ran = run(command).exits_with(0).says_nothing();
    ran.lines().into_iter().map(|line| line.split(" on ").next().unwrap().to_owned()).collect()
}

#[test]
fn ranks_find_a_port_in_place_of_a_descriptor() {
    let script = "echo $PMI_RANK ${PMI_FD-none} ${PMI_PORT%:*} $PMI_ID";
    let mut ran = run(with_port("2").args(["sh", "-c", script])).exits_with(0).says_nothing();
    let mut lines = ran.lines();
    lines.sort_unstable();
    assert_eq!(lines, ["0 none 127.0.0.1 0", "1 none 127.0.0.1 1"]);
    ran = run(host(["mpiexec", "-pmi-port", "-n", "1"]).args(["printenv", "PMI_ID"]));
    assert_eq!(ran.exits_with(0).out, "0\n");
    run(&mut host([
        "run",
        "-n",
        "1",
        "--pmi-port",
        "--listen",
        "127.0.0.1:0",
        "--expect",
        "0",
        "true",
    ]))
    .exits_with(2)
    .says(&["'--pmi-port'", "leave one of the two out"]);
}

#[test]
fn mpich_runs_behind_a_program_that_closes_descriptors() {
    let expected: Vec<String> = (0..3).map(|rank| format!("rank {rank} of 3")).collect();
    for program in [mpi_program("hello"), wheel_program("hello")].into_iter().flatten() {
        assert_eq!(started_by_python(&mut with_port("3"), &program), expected, "{program:?}");
        let ran = run(on_loopback(with_port("3").arg(&program))).exits_with(0).says_nothing();
        assert_eq!(ran.lines().len(), 3);
    }
}

#[test]
fn closed_descriptor_is_reported_with_the_remedy() {
    let Some(program) = mpi_program("hello") else { return };
    let mut command = host(["run", "-n", "2", "/usr/bin/python3", "-c", CLOSING]);
    run(command.arg(&program)).exits_with(15).says(&["'--pmi-port' gives that one a port"]);
}

#[test]
fn closed_descriptor_is_noted_where_the_code_is_dropped() {
    let Some(program) = mpi_program("hello") else { return };
    let closing = "import subprocess, sys; subprocess.call(sys.argv[1:]); print('goes on')";
    let words = ["/usr/bin/python3", "-c", closing, program.to_str().unwrap()];
    for mut command in [host(["run", "-n", "2"]), local_nodes(2, 2, &[])] {
        let ran = run(command.args(words)).exits_with(0);
        assert_eq!(ran.out, "goes on\ngoes on\n");
        for part in ["found PMI_FD closed", "code 0", "'--pmi-port'", "close_fds=False"] {
            assert!(ran.err.contains(part), "no {part} in {}", ran.err);
        }
    }
}

#[test]
fn spawned_ranks_find_the_port_too() {
    let Some(spawn) = wheel_program("spawn") else { return };
    let ran = run(on_loopback(with_port("2").arg(&spawn).arg("2"))).exits_with(0).says_nothing();
    assert!(ran.lines().contains(&"child 1 of 2 has 2 parents"), "{}", ran.out);
}

#[test]
fn nodes_have_ports_of_their_own() {
    let Some(program) = mpi_program("hello") else { return };
    let mut command = local_nodes(2, 4, &["--pmi-port"]);
    let expected: Vec<String> = (0..4).map(|rank| format!("rank {rank} of 4")).collect();
    assert_eq!(started_by_python(&mut command, &program), expected);
}

#[test]
fn process_that_is_not_of_the_rank_is_rejected() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pmi-port-of-rank-0");
    let script = format!("echo $PMI_PORT > '{}'; echo ready; read line", file.display());
    let mut running = start(with_port("1").args(["sh", "-c", &script]).stdin(Stdio::piped()));
    running.wait_for_output("ready");
    let port = std::fs::read_to_string(&file).unwrap();
    let mut stranger = TcpStream::connect(port.trim()).unwrap();
    stranger.write_all(b"cmd=initack pmiid=0\n").unwrap();
    let mut rest = String::new();
    let _ = stranger.read_to_string(&mut rest);
    running.wait_for_errors("claims to be rank 0, and is not");
    running.types("go on\n");
    running.end().exits_with(0);
}
