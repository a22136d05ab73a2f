//! Programs that talk to rank 0 through pipes. Each text is the answer to the one before, so a conversation
//! in which one is kept back does not end.

use crate::common::hosts::local_nodes;
use crate::common::{Running, job, or_skip, shell, start};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// Hosts (0 for this one, without node servers) and ranks.
const SIZES: [(u32, u32); 4] = [(0, 1), (0, 2), (0, 8), (2, 2)];

fn sized((nodes, ranks): (u32, u32), words: &[&str]) -> Command {
    match nodes {
        0 => job(ranks, words),
        _ => local_nodes(nodes, ranks, words),
    }
}

/// A conversation of bytes.
struct Pipes {
    child: Child,
    received: Receiver<Vec<u8>>,
    unread: Vec<u8>,
}

impl Pipes {
    fn open(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut out, (sender, received)) = (child.stdout.take().unwrap(), channel());
        thread::spawn(move || {
            let mut bytes = [0; 1 << 16];
            while let Ok(count @ 1..) = out.read(&mut bytes)
                && sender.send(bytes[..count].to_vec()).is_ok()
            {}
        });
        Self { child, received, unread: Vec::new() }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.child.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    #[track_caller]
    fn receive(&mut self, len: usize) -> Vec<u8> {
        while self.unread.len() < len {
            match self.received.recv_timeout(Duration::from_secs(60)) {
                Ok(bytes) => self.unread.extend(bytes),
                Err(error) => {
                    let _ = self.child.kill();
                    panic!("{} of {len} bytes: {error}", self.unread.len());
                }
            }
        }
        let rest = self.unread.split_off(len);
        std::mem::replace(&mut self.unread, rest)
    }

    #[track_caller]
    fn receive_line(&mut self) -> String {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            line.extend(self.receive(1));
        }
        String::from_utf8(line).unwrap().trim_end().to_owned()
    }

    /// Closes the input, and waits for the end.
    #[track_caller]
    fn end(mut self) {
        drop(self.child.stdin.take());
        let rest: Vec<u8> = self.received.iter().flatten().collect();
        assert_eq!(String::from_utf8_lossy(&rest), "");
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn messages_with_a_length_and_no_line_end_are_exchanged_unchanged() {
    // The rank returns each message, which has its length in front, as bytes of all values.
    let echo = "import struct, sys
i, o = sys.stdin.buffer, sys.stdout.buffer
while head := i.read(4):
    o.write(head + i.read(struct.unpack('>I', head)[0])); o.flush()";
    for (size, options) in SIZES.into_iter().flat_map(|size| [(size, ""), (size, "--unbuffered")]) {
        let options: Vec<&str> = options.split_whitespace().collect();
        let words = [&options[..], &["python3", "-c", echo]].concat();
        let mut pipes = Pipes::open(&mut sized(size, &words));
        for len in [3, 300_000, 0, 1, 70_000, 4092, 10].into_iter().cycle().take(100) {
            let bytes: Vec<u8> = (0..=255).cycle().skip(len % 13).take(len).collect();
            let message = [&u32::try_from(len).unwrap().to_be_bytes()[..], &bytes].concat();
            pipes.send(&message);
            let back = pipes.receive(message.len());
            assert!(back == message, "{len} bytes of {size:?} with {options:?}");
        }
        pipes.end();
    }
}

#[test]
fn server_of_a_language_answers_an_editor() {
    // JSON-RPC: a body without a line end behind a header.
    let server = "import json, os, sys
if os.environ['PMI_RANK'] != '0': sys.stdin.read(); sys.exit()
i, o = sys.stdin.buffer, sys.stdout.buffer
while head := i.readline():
    i.readline()
    asked = json.loads(i.read(int(head.split(b':')[1])))
    body = json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'result': asked['params']}).encode()
    o.write(b'Content-Length: %d\\r\\n\\r\\n' % len(body) + body); o.flush()";
    for size in SIZES {
        let mut pipes = Pipes::open(&mut sized(size, &["python3", "-c", server]));
        for id in 0..50 {
            let text = "x".repeat(id * 97);
            let body =
                format!(r#"{{"jsonrpc": "2.0", "method": "m", "id": {id}, "params": "{text}"}}"#);
            pipes.send(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
            let header = pipes.receive_line();
            assert_eq!(pipes.receive_line(), "");
            let len = header.strip_prefix("Content-Length: ").unwrap().parse().unwrap();
            let answer = String::from_utf8(pipes.receive(len)).unwrap();
            assert_eq!(answer, format!(r#"{{"jsonrpc": "2.0", "id": {id}, "result": "{text}"}}"#));
        }
        pipes.end();
    }
}

/// `command` with a pipe as its standard input, started.
fn dialog(command: &mut Command) -> Running {
    start(command.stdin(Stdio::piped()))
}

#[test]
fn questions_are_answered_while_other_ranks_are_silent() {
    let script = "[ $PMI_RANK = 0 ] || { read nothing; exec sleep 60; }
                  for i in $(seq 50); do printf \"x $i? \"; read x; done; exec sleep 60";
    for size in SIZES {
        let mut running = dialog(&mut sized(size, &shell(script)));
        for number in 1..=50 {
            running.wait_for_output(&format!("x {number}? "));
            running.types("1\n");
        }
        running.signal("TERM");
        running.end().exits_with(143);
    }
}

#[test]
fn questions_are_answered_while_other_ranks_write_lines() {
    let script = "if [ $PMI_RANK = 0 ]; then
                      for i in $(seq 20); do printf \"x $i? \"; read x; echo \"got $x\"; done
                  else for i in $(seq 100); do echo \"line $i of $PMI_RANK\"; sleep 0.01; done; fi";
    for size in SIZES {
        let mut running = dialog(&mut sized(size, &shell(script)));
        for number in 1..=20 {
            running.wait_for_output(&format!("x {number}? "));
            running.types(&format!("{number}\n"));
        }
        let ran = running.end().exits_with(0);
        let (lines, own): (Vec<&str>, Vec<&str>) =
            ran.out.lines().partition(|line| line.starts_with("line "));
        for rank in 1..size.1 {
            let of_rank: Vec<&str> = lines
                .iter()
                .copied()
                .filter(|line| line.ends_with(&format!(" of {rank}")))
                .collect();
            let expected: Vec<String> = (1..=100).map(|i| format!("line {i} of {rank}")).collect();
            assert_eq!(of_rank, expected);
        }
        // On a busy machine a question whose answer is late ends its line.
        let expected = (1..=20).fold(String::new(), |mut all, number| {
            write!(all, "x {number}? got {number}").unwrap();
            all
        });
        assert_eq!(own.concat(), expected, "{size:?}");
    }
}

#[test]
fn answer_reaches_all_ranks_that_read() {
    let script = "for i in 1 2 3 4 5; do [ $PMI_RANK != 0 ] || printf \"x $i? \"; read x
                  echo \"$PMI_RANK got $x\"; done";
    for size in SIZES {
        let mut running =
            dialog(&mut sized(size, &[&["--stdin", "all"][..], &shell(script)].concat()));
        for number in 1..=5 {
            running.wait_for_output(&format!("x {number}? "));
            running.types(&format!("{number}\n"));
            for rank in 0..size.1 {
                running.wait_for_output(&format!("{rank} got {number}\n"));
            }
        }
        running.end().exits_with(0);
    }
}

#[test]
fn progress_is_seen_on_both_streams() {
    // Each step waits until the one before was seen.
    let script = "[ $PMI_RANK = 0 ] || exec sleep 60
                  for i in $(seq 30); do printf \"\\r$i steps\"; printf \"\\r$i checks\" >&2; read x; done
                  exec sleep 60";
    for (size, options) in SIZES.into_iter().flat_map(|size| [(size, ""), (size, "--merge-stderr")])
    {
        let options: Vec<&str> = options.split_whitespace().collect();
        let mut running = dialog(&mut sized(size, &[&options[..], &shell(script)].concat()));
        for number in 1..=30 {
            running.wait_for_output(&format!("\r{number} steps"));
            let checks = format!("\r{number} checks");
            match options.is_empty() {
                true => running.wait_for_errors(&checks),
                false => running.wait_for_output(&checks),
            }
            running.types("\n");
        }
        running.signal("TERM");
        running.end().exits_with(143);
    }
}

#[test]
fn interpreters_and_debuggers_answer_through_pipes() {
    let debugger = or_skip(
        Command::new("gdb").arg("--version").output().map_err(|error| format!("no gdb: {error}")),
        "Debian's package gdb brings it",
    );
    let gdb = (
        "gdb -q -nx --interpreter=mi",
        [("7-gdb-version\n", "7^done\n(gdb) \n"), ("8-gdb-show width\n", "8^done,value=")],
        "9-gdb-exit\n",
    );
    let python =
        ("python3 -i", [("print(6*7)\n", "42\n"), ("print(2**10)\n", "1024\n")], "exit()\n");
    let shell = ("sh -i", [("echo $((6*7))\n", "42\n"), ("echo end\n", "end\n")], "exit 0\n");
    let known = [debugger.map(|_| gdb), Some(python), Some(shell)];
    for (program, dialogue, end) in known.into_iter().flatten() {
        let program: Vec<&str> = program.split_whitespace().collect();
        for size in SIZES {
            // Ranks without input end by themselves.
            let mut running = dialog(&mut sized(size, &program));
            for (question, answer) in dialogue {
                running.types(question);
                running.wait_for_output(answer);
            }
            running.types(end);
            running.end().exits_with(0);
        }
    }
}

#[test]
fn question_of_an_interpreter_is_seen() {
    // The shell asks on standard error.
    for size in SIZES {
        let mut running = dialog(&mut sized(size, &["env", "PS1=what? ", "sh", "-i"]));
        for number in 1..=10 {
            while running.errors().matches("what? ").count() < number {
                running.wait_for_errors("what? ");
                thread::sleep(Duration::from_millis(2));
            }
            running.types(":\n");
        }
        running.types("exit\n");
        running.end().exits_with(0);
    }
}

#[test]
fn bytes_of_an_open_input_are_there_at_once_and_its_end_is_not_awaited() {
    let script = "[ $PMI_RANK = 0 ] || exit 0
                  for i in 1 2 3; do dd bs=3 count=1 status=none; done";
    for (size, readers) in SIZES.into_iter().flat_map(|size| [(size, "0"), (size, "all")]) {
        let words = [&["--stdin", readers][..], &shell(script)].concat();
        let mut running = dialog(&mut sized(size, &words));
        for (text, answered) in [("abc", "abc"), ("def", "abcdef"), ("ghi", "abcdefghi")] {
            running.types(text);
            running.wait_for_output(answered);
        }
        assert_eq!(running.end().exits_with(0).out, "abcdefghi");
    }
}

#[test]
fn input_waits_for_a_reader_that_is_slow() {
    let text = "0123456789".repeat(300_000);
    let script = "[ $PMI_RANK = 0 ] || exit 0; printf 'ready? '; sleep 0.3; wc -c";
    for size in SIZES {
        let mut pipes = Pipes::open(&mut sized(size, &shell(script)));
        assert_eq!(pipes.receive(7), b"ready? ");
        pipes.send(text.as_bytes());
        drop(pipes.child.stdin.take());
        assert_eq!(pipes.receive_line(), text.len().to_string());
        pipes.end();
    }
}
