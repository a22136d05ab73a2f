//! Replays every transcript in `core/vectors` through the codec.
//!
//! A transcript is text. Its first line is `# source: ` and names the recorded peers, or the
//! specification from which the lines are taken; other lines that begin with `#` are remarks. A
//! scenario begins with `== NAME`; each has connections of its own. Each following line is a
//! transmission of one side. The lines below it, four blanks deep, are the meanings of the messages
//! that end there:
//!
//! ```text
//! == two puts in one segment
//! C>S cmd=put  value=v key=k kvsname=n\ncmd=put kvsname=n key=k value=w\n
//!     put kvsname=n key=k value=v
//!     put kvsname=n key=k value=w
//! 1 S>C* cmd=barrier_out rc=0 tag=7\n
//!     fence rc=0 released tag=7
//! ```
//!
//! * A number in front is the rank; without one it is rank 0.
//! * Bytes are written `\n`, `\r`, `\\`, `\xNN`; `{v*1023}` is 1023 times the letter v. A transmission
//!   need not be a whole message; the bytes of a side are joined and cut again.
//! * A star marks the codec's own form: writing the read message gives the same bytes. A message
//!   without a star has another form. A missing star is an error like a superfluous one.
//! * In a file with a name that begins with `pmi2` messages are frames, unless they begin like a line.
//!   The tag of the client's exchange stands at the end of its meaning: `called=0x7ffe994a9a30`.
//! * The words of the meaning are listed in `tests/meaning/mod.rs`. A meaning of several lines
//!   continues in deeper ones. `malformed` means that the bytes are refused, `nothing` that
//!   they are accepted and have no meaning.
//! * A scenario ends with no bytes left over on either side.

mod meaning;
mod transcript;
mod wording;

use pmi_core::command::Verb;
use pmi_core::limits::PMI2_LENGTH_DIGITS;
use pmi_core::wire::names;
use transcript::{Side, Step, escaped};

#[test]
fn messages_mean_what_their_transcripts_state() {
    let mut wrong = String::new();
    for message in transcript::all().iter().flat_map(|t| &t.scenarios).flat_map(|s| s.messages()) {
        let means = meaning::of(&message);
        if means != message.means {
            wrong += &format!(
                "\n{}: {}\n  should mean {}\n  but is read {}",
                message.label,
                escaped(&message.bytes),
                escaped(&message.means),
                escaped(&means)
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn messages_with_a_star_and_no_others_are_written_byte_for_byte() {
    let mut wrong = String::new();
    for message in transcript::all().iter().flat_map(|t| &t.scenarios).flat_map(|s| s.messages()) {
        if wording::is_ours(message.from, &message.bytes) == message.ours {
            continue;
        }
        let mut out = [0; 4096];
        let written = match wording::write(message.from, &message.bytes, &mut out) {
            Some(Ok(len)) => escaped(&out[..len]),
            _ => "nothing".to_owned(),
        };
        let star = if message.ours { "a star" } else { "no star" };
        let (label, bytes) = (&message.label, escaped(&message.bytes));
        wrong += &format!("\n{label}: {star} on {bytes}\n  we write {written}");
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn exchanges_of_the_table_of_words_are_in_transcripts() {
    let steps = steps();
    for words in &names::TABLE {
        for (from, word) in [(Side::Client, words.line), (Side::Server, words.line_reply)] {
            assert!(word.is_empty() || is_said(&steps, from, word), "no vector contains {word}");
        }
    }
}

#[test]
fn exchanges_in_frames_are_in_transcripts() {
    let steps = steps();
    let is_framed = |from, word: &[u8]| is_framed(&steps, from, word);
    for words in names::TABLE.iter().filter(|words| !words.frame.is_empty()) {
        assert!(
            is_framed(Side::Client, words.frame.as_bytes()),
            "no vector contains {}",
            words.frame
        );
        // These have no reply of their own.
        if !matches!(words.verb, Verb::Proof | Verb::AuthResponse | Verb::PutPair | Verb::Abort) {
            let answer = [words.frame.as_bytes(), names::RESPONSE].concat();
            assert!(is_framed(Side::Server, &answer), "no vector contains {}", escaped(&answer));
        }
    }
    let others = [names::CHALLENGE, names::GETALL_COUNT, names::GETALL_PAIR];
    for word in others.into_iter().chain([names::CHECKPOINT, names::ABORT]) {
        assert!(is_framed(Side::Server, word), "no vector contains {}", escaped(word));
    }
    assert!(is_framed(Side::Client, names::CONCAT.as_bytes()));
}

fn steps() -> Vec<Step> {
    let transcripts = transcript::all();
    transcripts.iter().flat_map(|t| &t.scenarios).flat_map(|s| s.steps()).cloned().collect()
}

/// True if a line of this side begins with this command.
fn is_said(steps: &[Step], from: Side, word: &str) -> bool {
    let starts = [format!("cmd={word}"), format!("mcmd={word}")];
    let ends_word = |bytes: &[u8]| matches!(bytes.first(), None | Some(b' ' | b'\n'));
    steps.iter().filter(|step| step.from.side == from).any(|step| {
        let begins = |start: &String| step.bytes.strip_prefix(start.as_bytes());
        starts.iter().filter_map(begins).any(ends_word)
    })
}

/// True if a frame of this side begins with this command.
fn is_framed(steps: &[Step], from: Side, word: &[u8]) -> bool {
    let start = [b"cmd=", word, b";"].concat();
    steps.iter().filter(|step| step.from.side == from).any(|step| {
        let body = step.bytes.get(PMI2_LENGTH_DIGITS..).unwrap_or(b"");
        // A continuation stands behind the frame that it continues.
        let goes_on = word == names::CONCAT.as_bytes();
        body.starts_with(&start) || goes_on && body.windows(start.len()).any(|part| part == start)
    })
}

#[test]
fn quirks_have_the_scenarios_that_they_name() {
    let quirks = include_str!("../src/wire/quirks.rs");
    let mut named = 0;
    for test in quirks.lines().filter_map(|line| line.strip_prefix("/// Test: ")) {
        let path = test.split('`').nth(1).expect("a file in quotes");
        let transcript = transcript::file(path.strip_prefix("vectors/").expect("a vector"));
        if let Some(name) = test.split('"').nth(1) {
            let found = transcript.scenarios.iter().any(|s| s.name == name);
            assert!(found, "{path} has no scenario {name:?}");
        }
        named += 1;
    }
    assert!(named > 5, "{named} quirks name their test");
}

#[test]
fn transcripts_have_content_and_no_two_scenarios_share_a_name() {
    for transcript in transcript::all() {
        let file = &transcript.file;
        assert!(!transcript.source.is_empty(), "{file} names no source");
        assert!(!transcript.scenarios.is_empty(), "{file} is empty");
        for (at, scenario) in transcript.scenarios.iter().enumerate() {
            assert!(scenario.steps().next().is_some(), "{}: nothing is said", scenario.label);
            let first = transcript.scenarios.iter().position(|s| s.name == scenario.name);
            assert_eq!(first, Some(at), "{}", scenario.label);
        }
    }
}
