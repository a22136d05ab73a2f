//! What a third party sees of the connections between nodes, and what a key of a starter opens.

use crate::common::{Running, host, run, start};
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A third party between the head and its node servers, which passes on and keeps all bytes.
struct Tap {
    address: String,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Tap {
    /// Carries connections to the address that stands in the file `head` once there is one.
    fn open(head: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&seen);
        thread::spawn(move || {
            for from in listener.incoming() {
                let (from, head) = (from.unwrap(), fs::read_to_string(&head).unwrap());
                let to = TcpStream::connect(head.trim()).unwrap();
                let back = (to.try_clone().unwrap(), from.try_clone().unwrap());
                for (from, to) in [(from, to), back] {
                    let all = Arc::clone(&all);
                    thread::spawn(move || carry(from, to, &all));
                }
            }
        });
        Self { address, seen }
    }

    fn has_seen(&self, text: &str) -> bool {
        let seen = self.seen.lock().unwrap();
        seen.windows(text.len()).any(|part| part == text.as_bytes())
    }

    fn seen_bytes(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, all: &Mutex<Vec<u8>>) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        all.lock().unwrap().extend(&bytes[..count]);
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// A starter that runs `script`, whose arguments are the words of a node server and whose input is its key.
fn starter(directory: &Path, script: &str) -> String {
    let path = directory.join("starter");
    fs::write(&path, format!("#!/bin/sh\nshift; read key\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{} {{host}} {{cmd}}", path.display())
}

/// A run on one host, by this starter.
fn job(starter: &str, options: &[&str], script: &str) -> Command {
    let mut command = host(["run", "--hosts", "a", "--node-interface", "127.0.0.1"]);
    command.args(["--starter-cmd", starter]).args(options).args(["-n", "1", "sh", "-c", script]);
    command
}

#[test]
fn content_is_readable_on_the_wire_only_with_plain() {
    const ARGUMENT: &str = "argument-that-a-third-party-may-not-read";
    const VARIABLE: &str = "variable-that-a-third-party-may-not-read";
    const OUTPUT: &str = "output-that-a-third-party-may-not-read";
    for (options, is_readable) in [(&[][..], false), (&["--plain"], true)] {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let tap = Tap::open(at("head"));
        // The node server connects to the tap in place of the head.
        let script = format!(
            "echo \"$key\" >'{}'\n\
             for word; do\n\
             shift\n\
             [ \"$last\" != --to ] || {{ echo \"${{word%%,*}}\" >'{}'; word={}; }}\n\
             last=$word\n\
             set -- \"$@\" \"$word\"\n\
             done\n\
             echo \"$key\" | exec \"$@\"",
            at("key").display(),
            at("head").display(),
            tap.address
        );
        let variable = format!("SEEN={VARIABLE}");
        let options = [options, &["--env", &variable]].concat();
        let printed =
            format!(": {ARGUMENT}; printf '%s-%s\\n' output that-a-third-party-may-not-read");
        let ran = run(&mut job(&starter(directory.path(), &script), &options, &printed));
        let ran = ran.exits_with(0).says_nothing();
        assert!(ran.out.contains(OUTPUT), "{}", ran.out);
        assert!(tap.seen_bytes() > 500, "{}", tap.seen_bytes());
        for text in [ARGUMENT, VARIABLE, OUTPUT] {
            assert_eq!(tap.has_seen(text), is_readable, "{options:?}: {text}");
        }
        let key = fs::read_to_string(at("key")).unwrap();
        assert!(!tap.has_seen(key.trim_end()));
    }
}

/// A node server with the words and the key that another one has got from its starter.
fn second_node(directory: &TempDir) -> Running {
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    let words = read("words");
    let mut words = words.lines();
    let mut command = Command::new(words.next().unwrap());
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = start(&mut command);
    running.types(&read("key"));
    running
}

fn wait_for_file(path: &Path) {
    let until = Instant::now() + Duration::from_secs(30);
    while !path.exists() {
        assert!(Instant::now() < until, "{} is missing", path.display());
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn key_of_a_starter_opens_nothing_once_its_node_server_has_joined() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let script = format!(
        "echo \"$key\" >'{}'; printf '%s\\n' \"$@\" >'{}'; echo \"$key\" | exec \"$@\"",
        at("key"),
        at("words")
    );
    let rank =
        format!("touch '{}'; while ! [ -e '{}' ]; do sleep 0.02; done", at("up"), at("over"));
    let head = start(&mut job(&starter(directory.path(), &script), &[], &rank));
    wait_for_file(&directory.path().join("up"));
    let ran = second_node(&directory).end().exits_with(1);
    assert!(ran.err.contains("or its host has joined"), "{}", ran.err);
    head.wait_for_errors("has the key of a node server that has joined already");
    // The run has lost nothing by that.
    fs::write(at("over"), "").unwrap();
    head.end().exits_with(0);
}
