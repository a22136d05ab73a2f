//! Ranks that prove by munge that they run as the user of the launcher: with a daemon of the test, and without one.

use crate::common::listening::Host;
use crate::common::{host, run};
use pmi_core::auth::Secret;
use pmi_core::command::Version;
use pmi_std::env::{Environment, RequestedVersions};
use pmi_std::{ConnectError, ConnectOptions, Member};
use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;

const SECRET: &str = "a secret of more than sixteen bytes";

/// A daemon of munge of this user, with a key and a directory of its own.
struct Munged {
    daemon: Child,
    directory: PathBuf,
}

impl Munged {
    /// Starts one whose key is filled with `key`, and waits until it gives credentials; `None` without munge.
    fn start(name: &str, key: u8) -> Option<Self> {
        let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
        if !has("munged") || !has("unmunge") {
            assert!(std::env::var_os("CI").is_none(), "munge is not installed");
            eprintln!("skipped: munge is not installed; 'cargo xtask setup' installs it");
            return None;
        }
        // Directories above the socket may not be writable by others, as those of the checkout may be.
        let directory = PathBuf::from(format!("/tmp/pmi-munge-{name}-{}", std::process::id()));
        fs::DirBuilder::new().mode(0o755).create(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
        let in_it = |file: &str| directory.join(file);
        fs::write(in_it("key"), [key; 64]).unwrap();
        fs::set_permissions(in_it("key"), fs::Permissions::from_mode(0o600)).unwrap();
        let mut command = Command::new("munged");
        command.args(["--foreground", "--force", "--num-threads=1"]);
        for (option, file) in [
            ("--socket", "socket"),
            ("--key-file", "key"),
            ("--log-file", "log"),
            ("--pid-file", "pid"),
            ("--seed-file", "seed"),
        ] {
            command.arg(option).arg(in_it(file));
        }
        let daemon = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut munged = Self { daemon, directory };
        let answers = |munged: &Self| {
            let mut command = Command::new("munge");
            let command = command.arg("--no-input").arg("--socket").arg(munged.socket());
            command.stderr(Stdio::null()).output().unwrap().status.success()
        };
        while !answers(&munged) {
            let ended = munged.daemon.try_wait().unwrap();
            let log = fs::read_to_string(munged.directory.join("log")).unwrap_or_default();
            assert!(ended.is_none(), "munged has ended: {log}");
            thread::sleep(std::time::Duration::from_millis(20));
        }
        Some(munged)
    }

    fn socket(&self) -> PathBuf {
        self.directory.join("socket")
    }
}

impl Drop for Munged {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn launcher(socket: &Path) -> Host {
    Host::start(&["--expect", "1", "--require-challenge", "--munge", socket.to_str().unwrap()])
}

fn options(port: &str, rank: &str) -> ConnectOptions {
    let variables = [("PMI_PORT".to_owned(), port.to_owned()), ("PMI_ID".into(), rank.to_owned())];
    let environment = Environment::from_variables(variables).unwrap();
    let versions = RequestedVersions::Only(Version::V2_0);
    ConnectOptions::new().environment(Environment { versions, ..environment })
}

fn connect(port: &str, socket: &Path) -> Result<Option<Member>, ConnectError> {
    options(port, "0").munge(Some(socket.to_owned())).connect()
}

fn finish(host: Host, member: Result<Option<Member>, ConnectError>) -> String {
    let mut member = member.unwrap().unwrap();
    assert_eq!((member.rank, member.size), (0, 1));
    member.pmi.put(b"key", b"value").unwrap();
    member.pmi.fence().unwrap();
    assert_eq!(member.pmi.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    member.pmi.finalize().unwrap();
    let (code, _, said) = host.end();
    assert_eq!(code, 0, "{said}");
    said
}

// Coverage: W2-26
#[test]
fn credential_of_munge_makes_a_process_a_rank() {
    let Some(munged) = Munged::start("same", 7) else { return };
    let host = launcher(&munged.socket());
    let port = host.port.clone();
    let said = finish(host, connect(&port, &munged.socket()));
    assert!(!said.contains("credential"), "{said}");
}

#[test]
fn credential_of_another_realm_is_rejected_and_the_job_goes_on() {
    let Some(munged) = Munged::start("own", 7) else { return };
    let Some(other) = Munged::start("other", 8) else { return };
    let host = launcher(&munged.socket());
    let port = host.port.clone();
    let refused = connect(&port, &other.socket()).unwrap_err().to_string();
    assert!(refused.contains("code 14"), "{refused}");
    let said = finish(host, connect(&port, &munged.socket()));
    assert!(said.contains("credential that munge does not accept"), "{said}");
    // One report for one rejection.
    assert_eq!(said.matches("a connection from").count(), 1, "{said}");
}

#[test]
fn daemon_that_is_not_there_is_named_at_both_ends() {
    let Some(munged) = Munged::start("gone", 7) else { return };
    let nowhere = munged.directory.join("nowhere");
    let mut host = launcher(&nowhere);
    let client = connect(&host.port, &nowhere).unwrap_err().to_string();
    assert!(client.contains("munge gives this process no credential"), "{client}");
    assert!(client.contains("nowhere"), "{client}");
    assert!(connect(&host.port, &munged.socket()).is_err());
    host.says("munged does not answer at");
    host.says("nowhere");
    // It is no fault of the client, which may try again at once.
    assert!(!host.said.contains("did not prove"), "{}", host.said);
}

#[test]
fn daemon_that_never_answers_delays_no_other_rank() {
    let Some(munged) = Munged::start("silent", 7) else { return };
    let (silent, secret) = (munged.directory.join("silent"), munged.directory.join("secret"));
    fs::write(&secret, SECRET).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let daemon = UnixListener::bind(&silent).unwrap();
    let (ask, asked) = channel();
    thread::spawn(move || daemon.incoming().try_for_each(|peer| ask.send(peer.unwrap())));
    let words = ["--secret-file", secret.to_str().unwrap(), "--munge", silent.to_str().unwrap()];
    let mut host = Host::start(&[&["--expect", "2", "--universe", "2"], &words[..]].concat());
    let by_secret = |rank: &str| {
        let secret = Secret::new(SECRET.as_bytes()).unwrap();
        options(&host.port, rank).secret(secret).connect().unwrap().unwrap()
    };

    let (port, socket) = (host.port.clone(), munged.socket());
    let by_munge =
        thread::spawn(move || connect(&port, &socket).map(drop).unwrap_err().to_string());
    // The verification is under way from here on; its connection is held and never answered.
    let held = asked.recv().unwrap();
    let mut second = by_secret("1");
    second.pmi.put(b"key-1", b"value").unwrap();
    assert_eq!(second.pmi.universe_size().unwrap(), Some(2));
    let refused = by_munge.join().unwrap();
    assert!(refused.contains("code"), "{refused}");

    // The rank is free again.
    let mut first = by_secret("0");
    let other = thread::spawn(move || {
        second.pmi.fence().unwrap();
        second.pmi.finalize().unwrap();
    });
    first.pmi.fence().unwrap();
    assert_eq!(first.pmi.get(b"key-1").unwrap().as_deref(), Some(&b"value"[..]));
    first.pmi.finalize().unwrap();
    other.join().unwrap();
    host.says("munged does not answer at");
    host.says("silent");
    let (code, _, said) = host.end();
    assert_eq!((code, said.matches("a connection from").count()), (0, 1), "{said}");
    drop(held);
}

#[test]
fn option_needs_a_listener() {
    run(&mut host(["run", "--munge", "/run/munge/munge.socket.2", "-n", "1", "true"]))
        .exits_with(2)
        .says(&["--munge", "--listen"]);
}
