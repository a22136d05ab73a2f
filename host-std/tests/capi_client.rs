//! The client in C for kernels without libc, as a rank of this launcher and of others.

use crate::common::capi::{program_of, valgrind, variant_of};
use crate::common::listening::Host;
use crate::common::{Ran, job, run};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// A program over the static library.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| program_of("kernel_client", flags()))
}

/// Flags for a program over the static library, as it is built for targets without an operating system.
fn flags() -> &'static str {
    static FLAGS: OnceLock<String> = OnceLock::new();
    FLAGS.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernel-client");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["rustc", "--quiet", "--package", "pmi-client", "--lib", "--release"]);
        cargo.args(["--crate-type", "staticlib", "--features", "greet,panic-handler"]);
        cargo.arg("--target-dir").arg(&target).current_dir(&root);
        let made = cargo.output().expect("cargo has started this test");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let library = target.join("release/libpmi_client.a").display().to_string();
        let include = format!("-I{}", root.join("transports/capi/include").display());
        format!("{include} {library} -Wl,--gc-sections")
    })
}

/// The rank over `pmi_client_socket.h`, as `name`, with these flags for the stack.
fn over_a_socket(name: &str, stack: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let adapter = root.join("transports/capi/sockets/pmi_client_socket.c");
    let flags = format!("{} {} -pthread {stack}", adapter.display(), flags());
    variant_of("socket_client", name, flags.trim_end())
}

/// Three processes of this program, which connect to the launcher by themselves, end as ranks of one job.
fn connects(program: &Path) {
    let host = Host::start(&["--expect", "3"]);
    let start = |rank: u32| {
        let mut client = Command::new(program);
        client.args([&host.port, &rank.to_string()]).stdout(Stdio::piped()).spawn().unwrap()
    };
    let clients = [0, 1, 2].map(start);
    for (rank, client) in clients.into_iter().enumerate() {
        let output = client.wait_with_output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_eq!(printed, format!("rank {rank} of 3 is done\n"));
    }
    let (code, _, said) = host.end();
    assert_eq!(code, 0, "{said}");
}

fn is_done(ran: Ran, ranks: usize) {
    let mut lines: Vec<String> =
        ran.exits_with(0).lines().iter().map(ToString::to_string).collect();
    lines.sort();
    let expected: Vec<_> =
        (0..ranks).map(|rank| format!("rank {rank} of {ranks} is done")).collect();
    assert_eq!(lines, expected);
}

#[test]
fn calls_that_wait_and_calls_that_are_polled_work_together() {
    is_done(run(&mut job(4, [program()])), 4);
}

#[test]
fn abort_ends_the_job_with_its_code_and_message() {
    let mut command = job(4, [program()]);
    let ran = run(command.env("ABORTS", "1")).exits_with(7);
    assert!(ran.err.contains("the third rank ends the job"), "{}", ran.err);
}

#[test]
fn memory_of_the_caller_is_all_that_is_used() {
    let Some(checked) = valgrind() else { return };
    let words = checked.get_args().map(OsStr::to_owned);
    let words = std::iter::once(OsStr::new("valgrind").to_owned()).chain(words);
    is_done(run(&mut job(2, words.chain([program().into()]))), 2);
}

#[test]
fn socket_of_this_system_is_its_link() {
    connects(&over_a_socket("socket_client", ""));
}

#[test]
fn socket_of_lwip_is_its_link() {
    let mut query = Command::new("pkg-config");
    let found = query.args(["--cflags", "--libs", "lwip"]).output();
    let Some(found) = found.ok().filter(|found| found.status.success()) else {
        assert!(std::env::var_os("CI").is_none(), "there is no lwIP");
        eprintln!("skipped: there is no lwIP; Debian's package liblwip-dev brings it");
        return;
    };
    let stack = String::from_utf8_lossy(&found.stdout);
    let stack: Vec<&str> = stack.split_whitespace().collect();
    let stack = format!("-DPMI_CLIENT_LWIP {}", stack.join(" "));
    connects(&over_a_socket("socket_client_lwip", &stack));
}

#[test]
fn hydra_serves_it_as_well() {
    let mut hydra = Command::new("mpiexec.hydra");
    if hydra.arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "there is no mpiexec.hydra");
        eprintln!("skipped: there is no mpiexec.hydra; Debian's package mpich brings it");
        return;
    }
    let mut hydra = Command::new("timeout");
    hydra.args(["60", "mpiexec.hydra", "-n", "3"]).arg(program());
    is_done(run(&mut hydra), 3);
}
