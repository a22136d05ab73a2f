//! The format: a written trace is read again, and other bytes do no harm.

use pmi_trace::file::{self, Damage, MAGIC, NotATrace, RecordReader};
use pmi_trace::{Content, Direction, Head, JobFacts, Record, Trace, json};
use proptest::prelude::*;

fn message(time_ns: u64, rank: u32, direction: Direction, bytes: &[u8]) -> Record {
    let what = Content::Message { direction, bytes: bytes.to_vec() };
    Record { time_ns, job: 0, rank: Some(rank), session: Some(rank), what }
}

fn event(time_ns: u64, rank: Option<u32>, what: Content) -> Record {
    Record { time_ns, job: 0, rank, session: rank, what }
}

fn facts(job: u32, spawner: Option<u32>) -> JobFacts {
    JobFacts { job, name: format!("kvs_{job}"), ranks: 2, spawner }
}

/// One record of every kind.
fn every_kind() -> Trace {
    let head = Head {
        started_unix_ns: 1_790_000_000_123_456_789,
        recorder: "pmi-host 0.1.0".into(),
        host: "n0".into(),
        command: vec!["pmi-host".into(), "run".into(), "./a \"b\"".into()],
        jobs: vec![facts(0, None)],
    };
    let records = vec![
        event(1, Some(0), Content::Started { pid: 4711, host: "n0".into() }),
        event(2, Some(0), Content::Connected { from: None }),
        event(2, Some(1), Content::Connected { from: Some("127.0.0.1:4000".into()) }),
        message(3, 0, Direction::ToServer, b"cmd=init pmi_version=1 pmi_subversion=1\n"),
        message(5, 0, Direction::ToClient, b"cmd=x value=\xff\x00\n"),
        event(u64::MAX / 2, None, Content::Spawned(facts(7, Some(0)))),
        event(u64::MAX / 2, Some(0), Content::Closed),
        event(u64::MAX / 2, Some(0), Content::Exited { code: -3 }),
        event(u64::MAX / 2, Some(1), Content::Killed { signal: 9 }),
        event(u64::MAX / 2, None, Content::Report { text: "rank 1 was ended by SIGKILL".into() }),
        event(u64::MAX / 2, None, Content::Lost { count: 12 }),
        event(u64::MAX, None, Content::Ended { code: 137 }),
    ];
    Trace { head, records }
}

#[test]
fn written_scenarios_are_read_again() {
    let trace = every_kind();
    let read = file::read(&file::write(&trace)).unwrap();
    assert_eq!((read.trace, read.damage, read.unknown_count), (trace, None, 0));
}

#[test]
fn json_lines_hold_the_same() {
    let trace = every_kind();
    let text = json::write(&trace);
    assert_eq!(json::read(&text).unwrap(), (trace.clone(), None));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), trace.records.len() + 1);
    assert!(lines[0].starts_with(r#"{"pmi_trace":1,"started_unix_ns":1790000000123456789,"#));
    assert_eq!(
        lines[4],
        r#"{"time_ns":3,"job":0,"rank":0,"session":0,"message":{"direction":"to_server","bytes":"cmd=init pmi_version=1 pmi_subversion=1\n"}}"#
    );
    assert!(lines[5].contains(r#""bytes":{"hex":"636d643d782076616c75653dff000a"}"#));
    assert!(lines[7].ends_with(r#""closed":null}"#), "{}", lines[7]);
}

#[test]
fn bytes_of_a_file_are_those_of_the_document() {
    let trace = Trace {
        head: Head { recorder: "r".into(), jobs: vec![facts(0, None)], ..Head::default() },
        records: vec![message(300, 1, Direction::ToClient, b"cmd=x\n")],
    };
    let expected: &[&[u8]] = &[
        b"PMItrace",
        &[1, 0],
        // No start time, recorder, no host, no command, one job: number, name, ranks, no spawner.
        &[15, 0, 0, 0, 0, 1, b'r', 0, 0, 1, 0, 5, b'k', b'v', b's', b'_', b'0', 2, 0],
        // Time as a variable-length number, job, rank, session; kind 0, direction, length, bytes.
        &[16, 0, 0, 0, 0xac, 0x02, 0, 1, 1, 1, 1, 0, 1, 6],
        b"cmd=x\n",
    ];
    assert_eq!(file::write(&trace), expected.concat());
}

#[test]
fn trace_cut_anywhere_gives_what_was_whole_before() {
    let trace = every_kind();
    let whole = file::write(&trace);
    let mut ends = vec![];
    let mut out = vec![];
    file::write_head(&trace.head, &mut out);
    ends.push(out.len());
    for record in &trace.records {
        file::write_record(record, &mut out);
        ends.push(out.len());
    }
    assert_eq!(out, whole);
    for cut in 0..whole.len() {
        let read = file::read(&whole[..cut]);
        let Some(complete) = ends.iter().rposition(|end| *end <= cut) else {
            let expected = if cut < MAGIC.len() { NotATrace::Magic } else { NotATrace::Head };
            assert_eq!(read, Err(expected), "cut at {cut}");
            continue;
        };
        let read = read.unwrap();
        assert_eq!(read.trace.records, trace.records[..complete], "cut at {cut}");
        let at = ends[complete];
        assert_eq!(read.damage, (at != cut).then_some(Damage::Cut { at }), "cut at {cut}");
    }
}

#[test]
fn another_version_is_named() {
    let mut bytes = file::write(&every_kind());
    for (version, expected) in [(0, Some(0)), (1, None), (2, Some(2)), (0xabcd, Some(0xabcd))] {
        bytes[8..10].copy_from_slice(&u16::to_le_bytes(version));
        let error = file::read(&bytes).err();
        assert_eq!(error, expected.map(|found| NotATrace::Version { found }));
    }
    let said = NotATrace::Version { found: 2 }.to_string();
    assert!(said.contains("version 2") && said.contains("JSON"), "{said}");
    let error = json::read(r#"{"pmi_trace":2,"new":1}"#).unwrap_err();
    assert_eq!(error.line, 1);
}

#[test]
fn records_of_later_kinds_and_later_fields_are_passed_over() {
    let trace = every_kind();
    let mut bytes = Vec::new();
    file::write_head(&trace.head, &mut bytes);
    file::write_record(&trace.records[0], &mut bytes);
    // Time 1, job 0, rank 0, no session, kind 77 with something in it.
    bytes.extend([7, 0, 0, 0, 1, 0, 1, 0, 0, 77, 5]);
    let at = bytes.len();
    file::write_record(&trace.records[1], &mut bytes);
    // One more byte at the end of that record.
    bytes[at] += 1;
    bytes.push(9);
    let read = file::read(&bytes).unwrap();
    assert_eq!(read.trace.records, trace.records[..2]);
    assert_eq!((read.damage, read.unknown_count), (None, 1));
    // Kind 3 is known, so bytes that do not read as one are damage.
    let at = bytes.len();
    bytes.extend([6, 0, 0, 0, 1, 0, 1, 0, 0, 3]);
    assert_eq!(file::read(&bytes).unwrap().damage, Some(Damage::Malformed { at }));
}

#[test]
fn json_lines_are_read_up_to_the_first_that_is_wrong() {
    let trace = every_kind();
    let text = json::write(&trace);
    let broken = text.replacen("\"killed\":{\"signal\":9}", "\"killed\":{\"signal\":\"nine\"}", 1);
    let (read, error) = json::read(&broken).unwrap();
    assert_eq!((read.records.len(), error.map(|error| error.line)), (8, Some(10)));
    assert_eq!(read.head, trace.head);
    for nothing in ["", "\n\n", "hello", "{}", "[1]", "{\"pmi_trace\":1}"] {
        assert!(json::read(nothing).is_err(), "{nothing:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_reader_panic(noise in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = file::read(&noise);
        let mut bytes = Vec::new();
        file::write_head(&Head::default(), &mut bytes);
        let head_len = bytes.len();
        bytes.extend(&noise);
        let read = file::read(&bytes).unwrap();
        prop_assert!(read.trace.records.len() <= noise.len());
        let mut reader = RecordReader::new(&bytes).unwrap();
        prop_assert_eq!(reader.head(), &Head::default());
        let count = reader.by_ref().count();
        prop_assert_eq!(count, read.trace.records.len());
        prop_assert_eq!(reader.damage(), read.damage);
        if let Some(Damage::Cut { at } | Damage::Malformed { at }) = read.damage {
            prop_assert!(at >= head_len && at < bytes.len());
        }
    }

    #[test]
    fn no_flipped_byte_makes_a_reader_panic(at in 0usize..400, flip in 1u8..) {
        let mut bytes = file::write(&every_kind());
        let at = at % bytes.len();
        bytes[at] ^= flip;
        let _ = file::read(&bytes);
    }

    #[test]
    fn any_bytes_of_a_message_survive_both_formats(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        time_ns in any::<u64>(),
        rank in any::<u32>(),
    ) {
        let record = message(time_ns, rank, Direction::ToServer, &bytes);
        let trace = Trace { head: Head::default(), records: vec![record] };
        prop_assert_eq!(&file::read(&file::write(&trace)).unwrap().trace, &trace);
        prop_assert_eq!(json::read(&json::write(&trace)).unwrap(), (trace, None));
    }
}
