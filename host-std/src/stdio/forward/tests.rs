use super::*;
use pmi_host_os::clock;

const SESSION: SessionId = SessionId(3);
const JOB: JobId = JobId(1);

/// Output as a tool receives it: rank, channel, text.
type Received = Vec<(u32, u16, String)>;

fn source(rank: u32) -> Rc<OutputSource> {
    let (nspace, host) = ("kvs_1".to_owned(), "node".to_owned());
    Rc::new(OutputSource { job: JOB, rank, pid: 40, nspace, host })
}

fn pull(delivery: OutputDelivery) -> OutputPull {
    OutputPull { sources: vec![(JOB, None)], streams: [true, true], reference: 9, delivery }
}

/// What `forwarder` sends to a tool that takes `count` messages.
fn sent(forwarder: &mut OutputForwarder, now: Instant, mut count: usize) -> Received {
    let mut received = Vec::new();
    forwarder.send(now, |session, output| {
        assert_eq!((session, output.reference), (SESSION, 9));
        count = count.checked_sub(1).ok_or(Misuse::NoRoom { what: "test" })?;
        let text = String::from_utf8(output.bytes.to_vec()).unwrap();
        received.push((output.source.rank, output.channel, text));
        Ok(())
    });
    received
}

fn texts(received: Received) -> Vec<String> {
    received.into_iter().map(|(.., text)| text).collect()
}

#[test]
fn output_of_the_requested_ranks_and_streams_is_sent_and_no_other() {
    let (mut forwarder, now) = (OutputForwarder::default(), clock::now());
    let wanted = OutputPull {
        sources: vec![(JOB, Some(1)), (JobId(4), None)],
        streams: [false, true],
        ..pull(OutputDelivery::default())
    };
    forwarder.add(SESSION, wanted, now);
    for rank in 0..2 {
        forwarder.receive(&source(rank), Stream::Out, b"out", now);
        forwarder.receive(&source(rank), Stream::Err, b"err", now);
        forwarder.receive(&source(rank), Stream::Err, b"", now);
    }
    let expected = [(1, channel::STDERR, "err".to_owned()), (1, channel::STDERR, String::new())];
    assert_eq!(sent(&mut forwarder, now, 9), expected);
    forwarder.remove_session(SESSION);
    forwarder.receive(&source(1), Stream::Err, b"more", now);
    assert_eq!(sent(&mut forwarder, now, 9), []);
}

#[test]
fn output_from_before_the_first_request_is_kept_up_to_a_limit() {
    let (mut forwarder, now) = (OutputForwarder::default(), clock::now());
    forwarder.receive(&source(0), Stream::Out, b"first", now);
    for _ in 0..2 {
        forwarder.receive(&source(0), Stream::Out, &[b'x'; EARLY_MAX / 2], now);
    }
    forwarder.receive(&source(0), Stream::Err, b"", now);
    forwarder.add(SESSION, pull(OutputDelivery::default()), now);
    let lens: Vec<usize> = sent(&mut forwarder, now, 9).iter().map(|one| one.2.len()).collect();
    assert_eq!(lens, [EARLY_MAX / 2, EARLY_MAX / 2, 0]);
    // A second request does not receive it again.
    forwarder.remove_session(SESSION);
    forwarder.add(SESSION, pull(OutputDelivery::default()), now);
    assert_eq!(sent(&mut forwarder, now, 9), []);
}

#[test]
fn slow_reader_loses_new_or_old_bytes_and_that_is_reported_once() {
    let now = clock::now();
    for (drops_oldest, expected) in [(false, ["aaaa", "bb"]), (true, ["bbbb", "cc"])] {
        let mut forwarder = OutputForwarder::default();
        let delivery = OutputDelivery { cache_bytes: 6, drops_oldest, ..Default::default() };
        forwarder.add(SESSION, pull(delivery), now);
        assert_eq!(forwarder.take_dropped(), None);
        for text in ["aaaa", "bbbb", "cc"] {
            forwarder.receive(&source(0), Stream::Out, text.as_bytes(), now);
        }
        assert_eq!(forwarder.take_dropped(), Some((SESSION, 4)));
        assert_eq!(forwarder.take_dropped(), None);
        assert_eq!(texts(sent(&mut forwarder, now, 1)), expected[..1]);
        assert_eq!(texts(sent(&mut forwarder, now, 9)), expected[1..]);
    }
}

#[test]
fn bytes_are_grouped_until_there_are_enough_or_the_time_is_over() {
    let (mut forwarder, now) = (OutputForwarder::default(), clock::now());
    let time = Duration::from_secs(2);
    let delivery =
        OutputDelivery { grouped_bytes: 4, grouped_for: Some(time), ..Default::default() };
    let number = forwarder.add(SESSION, pull(delivery), now);
    forwarder.receive(&source(0), Stream::Out, b"ab", now);
    assert_eq!((sent(&mut forwarder, now, 9), forwarder.deadline()), (vec![], Some(now + time)));
    forwarder.receive(&source(0), Stream::Out, b"cd", now);
    assert_eq!(texts(sent(&mut forwarder, now, 9)), ["abcd"]);
    assert_eq!(forwarder.deadline(), None);
    forwarder.receive(&source(0), Stream::Out, b"e", now);
    assert_eq!(texts(sent(&mut forwarder, now + time, 9)), ["e"]);
    // The end of the request releases them as well, and so does the end of the stream.
    forwarder.receive(&source(1), Stream::Out, b"f", now);
    forwarder.receive(&source(1), Stream::Out, b"", now);
    assert_eq!(texts(sent(&mut forwarder, now, 9)), ["f", ""]);
    forwarder.receive(&source(0), Stream::Out, b"g", now);
    assert!(!forwarder.withdraw(SessionId(8), number), "a request of another tool");
    assert!(forwarder.withdraw(SESSION, number));
    assert!(!forwarder.withdraw(SESSION, number), "it is withdrawn");
    forwarder.receive(&source(0), Stream::Out, b"h", now);
    assert_eq!(texts(sent(&mut forwarder, now, 9)), ["g"]);
}

#[test]
fn lines_are_formatted_one_by_one() {
    let now = clock::now();
    let format = |tag, has_time, is_xml| OutputFormat { tag, has_time, is_xml };
    for (format, expected) in [
        (format(LineTag::Rank, false, false), ["[2]<stdout>: a<b\n", "[2]<stdout>: c\n"]),
        (
            format(LineTag::Process, false, false),
            ["[kvs_1,2]<stdout>: a<b\n", "[kvs_1,2]<stdout>: c\n"],
        ),
        (
            format(LineTag::Detailed, false, false),
            ["[kvs_1,2][node:40]<stdout>: a<b\n", "[kvs_1,2][node:40]<stdout>: c\n"],
        ),
        (
            format(LineTag::Nothing, false, true),
            ["<stdout rank=\"2\">a&lt;b</stdout>\n", "<stdout rank=\"2\">c</stdout>\n"],
        ),
    ] {
        let mut forwarder = OutputForwarder::default();
        let delivery = OutputDelivery { format, ..Default::default() };
        forwarder.add(SESSION, pull(delivery), now);
        forwarder.receive(&source(2), Stream::Out, b"a<", now);
        assert_eq!(sent(&mut forwarder, now, 9), [], "the line is not complete");
        forwarder.receive(&source(2), Stream::Out, b"b\nc", now);
        forwarder.receive(&source(2), Stream::Out, b"", now);
        let expected = [expected[0], expected[1], ""];
        assert_eq!(texts(sent(&mut forwarder, now, 9)), expected);
    }
    let delivery =
        OutputDelivery { format: format(LineTag::Process, true, true), ..Default::default() };
    let mut forwarder = OutputForwarder::default();
    forwarder.add(SESSION, pull(delivery), now);
    forwarder.receive(&source(2), Stream::Err, b"\x1b\n", now);
    let text = texts(sent(&mut forwarder, now, 9)).concat();
    let start = "<stderr nspace=\"kvs_1\" rank=\"2\" timestamp=\"";
    assert!(text.starts_with(start) && text.ends_with("\">\u{fffd}</stderr>\n"), "{text}");
}
