//! Ranks behind serial lines: `pmi-host bridge` between a pseudo-terminal, where a board would be, and a job.

use crate::common::host;
use crate::common::listening::Host;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, ChildStderr, Stdio};
use std::thread;

/// A bridge with a line of its own, and the board's end of that line.
struct Bridge {
    child: Child,
    said: BufReader<ChildStderr>,
    board: Board,
}

struct Board(BufReader<File>);

impl Bridge {
    fn to(address: &str) -> Self {
        let mut command = host(["bridge", "--serial", "pty", "--to", address]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let name = line.strip_prefix("pmi-host: ").and_then(|rest| rest.split(' ').next());
        let name = name.unwrap_or_else(|| panic!("no line in {line:?}"));
        let mut options = OpenOptions::new();
        let flags = OFlags::NOCTTY.bits().cast_signed();
        let file = options.read(true).write(true).custom_flags(flags).open(name).unwrap();
        Self { child, said, board: Board(BufReader::new(file)) }
    }

    fn end(mut self) -> (i32, String) {
        drop(self.board);
        let mut said = String::new();
        self.said.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code().unwrap(), said)
    }
}

impl Board {
    fn ask(&mut self, line: &str) -> String {
        self.0.get_mut().write_all(line.as_bytes()).unwrap();
        self.recv()
    }

    fn recv(&mut self) -> String {
        let mut answer = String::new();
        self.0.read_line(&mut answer).unwrap();
        answer
    }

    /// Identifies the client and opens the session.
    fn join(&mut self, id: u32) {
        assert!(self.ask(&format!("cmd=initack pmiid={id}\n")).starts_with("cmd=initack rc=0"));
        (0..3).for_each(|_| assert!(self.recv().starts_with("cmd=set ")));
        let opened = self.ask("cmd=init pmi_version=1 pmi_subversion=1\n");
        assert!(opened.starts_with("cmd=response_to_init rc=0"), "{opened}");
    }

    /// Puts a value of maximal length, and gives the value that the other rank has put.
    fn exchange(&mut self, id: u32) -> String {
        self.join(id);
        let name = self.ask("cmd=get_my_kvsname\n");
        let name = name.trim_end().rsplit('=').next().unwrap().to_owned();
        let put = format!("cmd=put kvsname={name} key=k{id} value={}\n", value(id));
        assert!(self.ask(&put).starts_with("cmd=put_result rc=0"));
        assert!(self.ask("cmd=barrier_in\n").starts_with("cmd=barrier_out"));
        let got = self.ask(&format!("cmd=get kvsname={name} key=k{}\n", 1 - id));
        assert!(self.ask("cmd=finalize\n").starts_with("cmd=finalize_ack"));
        got
    }
}

fn value(id: u32) -> String {
    format!("{id}").repeat(1000)
}

#[test]
fn two_boards_behind_serial_lines_are_one_job() {
    let host = Host::start(&["--expect", "2"]);
    let boards = [0, 1].map(|id| {
        let mut bridge = Bridge::to(&host.port);
        thread::spawn(move || {
            let got = bridge.board.exchange(id);
            (got, bridge.end())
        })
    });
    for (id, board) in (0..).zip(boards) {
        let (got, (code, said)) = board.join().unwrap();
        assert_eq!(got, format!("cmd=get_result rc=0 value={}\n", value(1 - id)));
        assert_eq!((code, &*said), (0, ""));
    }
    let (code, _, said) = host.end();
    assert_eq!(code, 0, "{said}");
}

#[test]
fn board_that_goes_away_is_told_to_the_server_and_to_the_person() {
    let host = Host::start(&["--expect", "1"]);
    let mut bridge = Bridge::to(&host.port);
    bridge.board.join(0);
    let (code, said) = bridge.end();
    assert_eq!(code, 1);
    assert!(said.contains("disconnected before its session ended"), "{said}");
    let (code, _, said) = host.end();
    assert_eq!(code, 1);
    assert!(said.contains("rank 0 of 1 (connected from"), "{said}");
}

#[test]
fn missing_line_and_missing_server_are_named() {
    let said = |words: &[&str]| {
        let out = host(["bridge"]).args(words).output().unwrap();
        (out.status.code().unwrap(), String::from_utf8(out.stderr).unwrap())
    };
    let (code, text) = said(&["--serial", "/dev/null", "--to", "127.0.0.1:1"]);
    assert_eq!(code, 2);
    assert!(
        text.contains("the serial line '/dev/null' cannot be opened")
            && text.contains("/dev/ttyUSB0"),
        "{text}"
    );
    let (code, text) = said(&["--serial", "pty"]);
    assert_eq!(code, 2);
    assert!(text.contains("--to"), "{text}");

    let mut bridge = Bridge::to("127.0.0.1:1");
    bridge.board.0.get_mut().write_all(b"cmd=initack pmiid=0\n").unwrap();
    let mut text = String::new();
    bridge.said.read_to_string(&mut text).unwrap();
    assert_eq!(bridge.child.wait().unwrap().code(), Some(1));
    assert!(text.contains("no server answers at 127.0.0.1:1"), "{text}");
}
