//! Generates the first corpora from the transcripts: `cargo run --example seeds -- DIRECTORY`.
//!
//! The committed files are the ones that libFuzzer's `-merge=1` keeps of them and of later findings.

mod nodes;
mod pmix;
mod snapshot;
#[path = "../../../tests/transcript/mod.rs"]
mod transcript;

use pmi_core::command::{Request, Version};
use pmi_core::wire::{Framed, binary, pmi1, pmi2};
use pmi_fuzz::{Step, write_step};
use std::fs;
use std::path::Path;
use transcript::{Line, Scenario, Side, Voice};

fn main() {
    let directory = std::env::args().nth(1).expect("the directory to write into");
    let write = |target: &str, name: &str, bytes: &[u8]| {
        let directory = Path::new(&directory).join(target);
        fs::create_dir_all(&directory).expect("a directory can be made");
        fs::write(directory.join(name), bytes).expect("a file can be written");
    };
    for transcript in transcript::all() {
        let target =
            if transcript.file.starts_with("pmi2") { "decode_pmi2" } else { "decode_pmi1" };
        for (at, scenario) in transcript.scenarios.iter().enumerate() {
            let name = |number: usize| format!("{}-{at}-{number}", transcript.file);
            for (number, message) in scenario.messages().iter().enumerate() {
                write(target, &name(number), &message.bytes);
                if let Some(frame) = in_frames(message.from, &message.bytes) {
                    write("decode_binary", &name(number), &frame);
                }
            }
            write("session_bytes", &name(0), &session(scenario, false));
            write("session_bytes", &name(1), &session(scenario, true));
            write("client_bytes", &name(0), &client(scenario));
        }
    }
    for (number, frame) in nodes::frames().into_iter().enumerate() {
        write("decode_nodes", &format!("frame-{number:02}"), &frame);
    }
    for (number, bytes) in snapshot::seeds().into_iter().enumerate() {
        write("decode_snapshot", &format!("seed-{number:02}"), &bytes);
    }
    for way in 0..4 {
        write("session_pmix", &format!("asked-{way}"), &pmix::session(way, false));
        write("session_pmix", &format!("refused-{way}"), &pmix::session(way, true));
        for (number, body) in pmix::requests(way).into_iter().enumerate() {
            // The kind of data: a request, in this format.
            write("decode_pmix", &format!("{way}-{number}"), &[&[4 + way][..], &body].concat());
        }
    }
}

/// The message in the binary dialect, if it can be expressed.
fn in_frames(from: Voice, message: &[u8]) -> Option<Vec<u8>> {
    let mut out = vec![0; 4096];
    let dialect = from.dialect(message);
    let len = match from.side {
        Side::Client => {
            let said = dialect.read_request(message).ok()?;
            let request = match said.request? {
                Request::FullInit { .. } | Request::Init { .. } => {
                    Request::Init { version: Version::BINARY }
                }
                request => request,
            };
            binary::write_request(&request, b"", &mut out).ok()?
        }
        Side::Server => {
            let is_line = message.starts_with(b"c");
            let reply = if is_line { pmi1::read_reply(message) } else { pmi2::read_reply(message) };
            binary::write_reply(&reply.ok()?, &mut out).ok()?
        }
    };
    out.truncate(len);
    Some(out)
}

/// Messages of the clients, each by a link of its dialect, and actions of the owner; in the bytes of
/// the transcript or, as far as possible, in the binary dialect.
fn session(scenario: &Scenario, ours: bool) -> Vec<u8> {
    let mut script = Vec::new();
    let dials_in = scenario.does("job ").is_some_and(|spec| spec.ends_with(" callers"));
    for line in &scenario.lines {
        match line {
            Line::Said(step) if step.from.side == Side::Client => {
                let who = match (dials_in, step.rank) {
                    (false, 2) => 3,
                    (false, 3) => 2,
                    (true, 0) => 5,
                    (true, 1) => 2,
                    (true, _) => 6,
                    (_, rank) => rank as u8 % 5,
                };
                let frames = if ours { in_frames(step.from, &step.bytes) } else { None };
                let bytes = frames.as_deref().unwrap_or(&step.bytes);
                write_step(&mut script, Step { who, what: 0, bytes });
            }
            Line::Does(note) if note.text.starts_with("spawned") => {
                write_step(&mut script, Step { who: 7, what: 0, bytes: b"\x01" });
            }
            Line::Does(note) if note.text.starts_with("notify") => {
                write_step(&mut script, Step { who: 7, what: 2, bytes: b"\x01\x00" });
            }
            Line::Does(note) if note.text.starts_with("end") => {
                write_step(&mut script, Step { who: 1, what: 24, bytes: b"" });
            }
            _ => {}
        }
    }
    script
}

/// A client with the requests and replies of rank 0.
fn client(scenario: &Scenario) -> Vec<u8> {
    let mut script = Vec::new();
    for step in scenario.steps().filter(|step| step.rank == 0) {
        if step.from.side == Side::Server {
            write_step(&mut script, Step { who: 0, what: 0, bytes: &step.bytes });
            continue;
        }
        let mut rest = &step.bytes[..];
        while let Ok(Framed::Whole(len)) = step.from.frame(rest) {
            let (what, bytes) = ask(step.from, &rest[..len]);
            write_step(&mut script, Step { who: 0, what: what + 16, bytes: &bytes });
            rest = &rest[len..];
        }
    }
    script
}

/// Number of a request in the target, and its bytes.
fn ask(from: Voice, message: &[u8]) -> (u8, Vec<u8>) {
    use pmi_core::command::Verb;
    let Ok(said) = from.dialect(message).read_request(message) else { return (15, Vec::new()) };
    let Some(request) = said.request else { return (15, Vec::new()) };
    let pair = |first: u8, key: &[u8], value: &[u8]| [&[first][..], key, b"=", value].concat();
    match request {
        Request::Init { version } => {
            (0, vec![(version.major as u8 - 1) * 2 + version.minor as u8 / 2])
        }
        Request::InitAck { id } => (1, vec![id as u8]),
        Request::FullInit { rank, .. } => (2, vec![rank.unwrap_or(0) as u8]),
        Request::KvsName => (3, Vec::new()),
        Request::Put { .. } => (4, pair(6, b"key-0", b"value")),
        Request::Get { .. } => (5, pair(6, b"key-0", b"")),
        Request::Fence { tag: None, .. } => (7, Vec::new()),
        Request::Fence { .. } => (8, pair(5, b"0,1", b"")),
        Request::Publish { .. } => (9, pair(0, b"svc", b"port")),
        Request::Lookup { .. } => (10, pair(0, b"svc", b"")),
        Request::Unpublish { .. } => (11, pair(0, b"svc", b"")),
        Request::Spawn(_) => (12, pair(0, b"a.out", b"x")),
        Request::Abort { .. } => (14, pair(1, b"", b"bye")),
        _ => match request.verb() {
            Verb::Maxes => (13, vec![0]),
            Verb::AppNum => (13, vec![1]),
            Verb::UniverseSize => (13, vec![2]),
            Verb::Connect => (13, pair(3, b"kvs_2", b"")),
            Verb::Disconnect => (13, pair(4, b"kvs_2", b"")),
            Verb::GetAll => (13, pair(5, b"kvs_1", b"")),
            Verb::PutAll => (13, pair(26, b"kvs_1", b"")),
            Verb::PutPair => (13, pair(7, b"key", b"value")),
            Verb::Ring => (13, pair(8, b"left", b"right")),
            Verb::Proof => (13, pair(9, b"0123456789abcdef", b"")),
            _ => (15, Vec::new()),
        },
    }
}
