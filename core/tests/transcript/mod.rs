//! Reads the transcripts in `core/vectors`. `tests/vectors.rs` describes their form.

#![allow(dead_code, reason = "each test program uses its own part of this module")]

mod voice;

use pmi_core::error::Malformed;
use pmi_core::wire::Framed;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
pub(crate) use voice::{Side, Voice};

/// One file.
pub(crate) struct Transcript {
    /// Name of the file, without the directory.
    pub(crate) file: String,
    /// Source of its lines.
    pub(crate) source: String,
    pub(crate) scenarios: Vec<Scenario>,
}

/// All messages between one job and its server.
pub(crate) struct Scenario {
    /// `file:line name`, for failure messages.
    pub(crate) label: String,
    pub(crate) name: String,
    pub(crate) lines: Vec<Line>,
}

/// One line of a scenario.
pub(crate) enum Line {
    /// A transmission of one side.
    Said(Step),
    /// `@`: an action of the owner of the machines.
    Does(Note),
    /// `!`: an event for the owner of the server.
    Told(Note),
}

/// Words for the machines; they have no meaning for the codec.
pub(crate) struct Note {
    /// `file:line`.
    pub(crate) label: String,
    pub(crate) text: String,
}

/// Bytes that one side sent at once.
#[derive(Clone)]
pub(crate) struct Step {
    /// `file:line`.
    pub(crate) label: String,
    pub(crate) rank: u32,
    pub(crate) from: Voice,
    pub(crate) bytes: Vec<u8>,
    /// True if the messages that end here have the codec's own form.
    pub(crate) ours: bool,
    /// Meaning of each message that ends here.
    pub(crate) means: Vec<Vec<u8>>,
}

/// One message, cut from the bytes of its side.
pub(crate) struct Message {
    /// `file:line` of its last byte.
    pub(crate) label: String,
    pub(crate) rank: u32,
    pub(crate) from: Voice,
    pub(crate) bytes: Vec<u8>,
    /// Error of framing, if no end of the bytes was found.
    pub(crate) unframed: Option<Malformed>,
    pub(crate) ours: bool,
    pub(crate) means: Vec<u8>,
}

impl Scenario {
    /// Transmissions in order.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.lines.iter().filter_map(|line| match line {
            Line::Said(step) => Some(step),
            _ => None,
        })
    }

    /// Text behind `@ WORD`, if the scenario has such a line.
    pub(crate) fn does(&self, word: &str) -> Option<&str> {
        self.lines.iter().find_map(|line| match line {
            Line::Does(Note { text, .. }) => text.strip_prefix(word),
            _ => None,
        })
    }

    /// Every message in the order in which they end, each with its meaning.
    pub(crate) fn messages(&self) -> Vec<Message> {
        let mut streams: BTreeMap<(u32, Voice), Vec<u8>> = BTreeMap::new();
        let mut messages = Vec::new();
        for step in self.steps() {
            let stream = streams.entry((step.rank, step.from)).or_default();
            stream.extend(&step.bytes);
            let mut means = step.means.iter();
            while let Some((bytes, unframed)) = cut(step.from, stream) {
                let means = means.next().unwrap_or_else(|| {
                    panic!("{}: no meaning is given for {}", step.label, escaped(&bytes))
                });
                messages.push(Message {
                    label: step.label.clone(),
                    rank: step.rank,
                    from: step.from,
                    bytes,
                    unframed,
                    ours: step.ours,
                    means: means.clone(),
                });
            }
            if let Some(more) = means.next() {
                panic!("{}: no message ends here that could mean {}", step.label, escaped(more));
            }
        }
        for ((rank, from), left) in streams {
            assert!(left.is_empty(), "{}: {from:?} {rank} leaves {}", self.label, escaped(&left));
        }
        messages
    }
}

/// Cuts the first message off the bytes of one side.
pub(crate) fn cut(from: Voice, stream: &mut Vec<u8>) -> Option<(Vec<u8>, Option<Malformed>)> {
    if stream.is_empty() {
        return None;
    }
    match from.frame(stream) {
        Ok(Framed::Whole(len)) => Some((stream.drain(..len).collect(), None)),
        Ok(Framed::Partial) if from.reorder(stream) => cut(from, stream),
        Ok(Framed::Partial) => None,
        // Nothing behind such bytes can be trusted to begin a message.
        Err(bad) => Some((std::mem::take(stream), Some(bad))),
    }
}

/// Every transcript, in the order of their names.
pub(crate) fn all() -> Vec<Transcript> {
    // Also from the fuzzers' crate, which lies below.
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let directory = above.map(|above| above.join("vectors")).find(|directory| directory.is_dir());
    let mut files: Vec<_> = fs::read_dir(directory.expect("the vectors are part of the crate"))
        .expect("the directory of vectors can be read")
        .map(|entry| entry.expect("the directory can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "pmi"))
        .collect();
    files.sort();
    files
        .iter()
        .map(|path| parse(&file_name(path), &fs::read_to_string(path).expect("a text file")))
        .collect()
}

/// The transcript in the file of this name.
pub(crate) fn file(name: &str) -> Transcript {
    all().into_iter().find(|t| t.file == name).unwrap_or_else(|| panic!("{name} is not there"))
}

fn file_name(path: &Path) -> String {
    path.file_name().and_then(|name| name.to_str()).expect("a name in plain letters").to_owned()
}

fn parse(file: &str, text: &str) -> Transcript {
    let mut lines = (1..).zip(text.lines());
    let source = lines.next().and_then(|(_, line)| line.strip_prefix("# source: "));
    let source = source.unwrap_or_else(|| panic!("{file}: line 1 does not name its source"));
    let mut transcript =
        Transcript { file: file.to_owned(), source: source.to_owned(), scenarios: Vec::new() };
    for (number, line) in lines {
        let label = format!("{file}:{number}");
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix("== ") {
            transcript.scenarios.push(Scenario {
                label: format!("{label} {name}"),
                name: name.to_owned(),
                lines: Vec::new(),
            });
            continue;
        }
        let scenario = transcript.scenarios.last_mut();
        let scenario = scenario.unwrap_or_else(|| panic!("{label}: no scenario has begun"));
        let note = |text: &str| Note { label: label.clone(), text: text.to_owned() };
        if let Some(means) = line.strip_prefix("    ") {
            add_meaning(scenario, means, &label);
        } else if let Some(text) = line.strip_prefix("@ ") {
            scenario.lines.push(Line::Does(note(text)));
        } else if let Some(text) = line.strip_prefix("! ") {
            scenario.lines.push(Line::Told(note(text)));
        } else {
            scenario.lines.push(Line::Said(step(line, &label)));
        }
    }
    transcript
}

fn add_meaning(scenario: &mut Scenario, means: &str, label: &str) {
    let Some(Line::Said(step)) = scenario.lines.last_mut() else {
        panic!("{label}: nothing was said");
    };
    let bytes = unescaped(means, label);
    match step.means.last_mut() {
        // Deeper lines continue the meaning above them.
        Some(above) if means.starts_with(' ') => {
            above.push(b'\n');
            above.extend(bytes);
        }
        _ => step.means.push(bytes),
    }
}

/// Reads `RANK C>S* BYTES`; the label begins with the name of the file.
pub(crate) fn step(line: &str, label: &str) -> Step {
    let (rank, line) = match line.split_once(' ') {
        Some((rank, rest)) if rank.bytes().all(|b| b.is_ascii_digit()) => {
            (rank.parse().expect("a small number"), rest)
        }
        _ => (0, line),
    };
    let (from, ours, text) = [
        ("C>S ", Side::Client, false),
        ("C>S* ", Side::Client, true),
        ("S>C ", Side::Server, false),
        ("S>C* ", Side::Server, true),
    ]
    .into_iter()
    .find_map(|(mark, side, ours)| line.strip_prefix(mark).map(|text| (side, ours, text)))
    .unwrap_or_else(|| panic!("{label}: neither a message nor its meaning"));
    let bytes = unescaped(text, label);
    let from = Voice::in_file(from, label.rsplit('/').next().unwrap_or(label));
    Step { label: label.to_owned(), rank, from, bytes, ours, means: Vec::new() }
}

/// Reads `\n`, `\r`, `\\`, `\xNN`, and `{v*N}` for N times the letter v.
fn unescaped(text: &str, label: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (piece, len) = match first {
            '\\' => escape(rest).unwrap_or_else(|| panic!("{label}: what is {rest:.4}")),
            '{' => repeat(rest).unwrap_or((vec![b'{'], 1)),
            other => (other.to_string().into_bytes(), other.len_utf8()),
        };
        bytes.extend(piece);
        rest = &rest[len..];
    }
    bytes
}

fn escape(text: &str) -> Option<(Vec<u8>, usize)> {
    Some(match text.get(1..2)? {
        "n" => (vec![b'\n'], 2),
        "r" => (vec![b'\r'], 2),
        "\\" => (vec![b'\\'], 2),
        "x" => (vec![u8::from_str_radix(text.get(2..4)?, 16).ok()?], 4),
        _ => return None,
    })
}

fn repeat(text: &str) -> Option<(Vec<u8>, usize)> {
    let (inside, _) = text.strip_prefix('{')?.split_once('}')?;
    let (letter, count) = inside.split_once('*')?;
    let [letter] = letter.as_bytes() else { return None };
    Some((vec![*letter; count.parse().ok()?], inside.len() + 2))
}

/// Writes bytes as a transcript would.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| match byte {
        b'\n' => text + "\\n",
        b'\\' => text + "\\\\",
        b' '..=b'~' => text + &char::from(*byte).to_string(),
        other => text + &format!("\\x{other:02x}"),
    })
}
