//! Programs that are scripts, good and bad, as found on real machines.

use crate::common::peers::{one_of_three, theirs};
use crate::common::{host, job, run};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes an executable file.
fn script(name: &str, content: &[u8]) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("scripts");
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join(name);
    fs::write(&file, content).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file
}

#[test]
fn script_without_a_first_line_is_run_by_the_shell_as_under_hydra() {
    let plain = script("plain", b"echo \"$0 $# $2\"\nexit 3\n");
    let words = [plain.to_str().unwrap(), "a", "b c"];
    let ours = run(&mut job(1, words)).exits_with(3);
    assert_eq!(ours.out, format!("{} 2 b c\n", plain.display()));
    if Command::new("mpiexec.hydra").arg("--version").output().is_ok() {
        let mut hydra = Command::new("mpiexec.hydra");
        hydra.args(["-n", "1"]).args(words);
        one_of_three(|| theirs(&hydra, None), |ran| (&ran.out, ran.code) == (&ours.out, 3));
    }
    // Every rank, beside another program, by its name alone, and from another directory.
    let directory = plain.parent().unwrap();
    let mut several = host([
        "run",
        "--on-exit-error",
        "ignore",
        "-n",
        "3",
        "plain",
        "x",
        "y",
        ":",
        "-n",
        "1",
        "echo",
        "z",
    ]);
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    let ran = run(several.env("PATH", path));
    assert_eq!(ran.out.matches("2 y\n").count(), 3, "{ran:?}");
    let ran = run(&mut host(["run", "-n", "1", "--wdir", directory.to_str().unwrap(), "./plain"]));
    assert_eq!(ran.out, "./plain 0 \n", "{}", ran.err);
}

#[test]
fn bytes_that_are_no_text_are_refused_and_not_read_as_commands() {
    let elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xff\xff\nrm -r nothing\n";
    for (name, content, cause) in [
        ("foreign", &elf[..], "it is a program for machine 65535"),
        ("empty", b"", "must begin with '#!'"),
    ] {
        let ran = run(&mut job(2, [script(name, content)])).exits_with(126);
        ran.says(&[name, "Exec format error", cause]);
    }
}

#[test]
fn interpreter_that_is_not_there_is_named() {
    run(&mut job(1, [script("gone", b"#!/no/such/python -u\n")])).exits_with(127).says(&[
        "gone",
        "its first line names '/no/such/python'",
        "the interpreter",
    ]);
    run(&mut job(1, [script("windows", b"#!/bin/sh\r\necho x\r\n")])).exits_with(127).says(&[
        "windows",
        "'/bin/sh\\r'",
        "carriage return",
        "sed -i",
    ]);
}

#[test]
fn host_file_in_the_manner_of_others_is_read_or_told_how_it_is_written_here() {
    for other in ["localhost : 2", "localhost 2"] {
        let file = script("hosts", other.as_bytes());
        let words = ["mpiexec", "-f", file.to_str().unwrap(), "-n", "2", "echo", "x"];
        run(&mut host(words)).exits_with(2).says(&["line 1", "after a host", "'slots=4'"]);
    }
    let file = script("slots", b"localhost slots=2\n");
    let words = ["mpiexec", "-f", file.to_str().unwrap(), "-n", "2", "echo", "x"];
    assert_eq!(run(&mut host(words)).exits_with(0).out, "x\nx\n");
    let odd = script("odd", b"\r\n# all here\r\n \t localhost:2   # two\r\n\n");
    let words = ["mpiexec", "-f", odd.to_str().unwrap(), "-n", "2", "echo", "x"];
    assert_eq!(run(&mut host(words)).exits_with(0).out, "x\nx\n");
}
