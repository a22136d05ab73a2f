//! Views of a trace: text, figures, differences, pictures.

use pmi_trace::exchange::exchanges;
use pmi_trace::view::{chrome, diff, stats, svg, text};
use pmi_trace::{Content, Direction, Head, JobFacts, Record, Trace};
use serde_json::Value;

const US: u64 = 1_000;

/// Two ranks that put, fence and get, one of which stays in its second fence.
fn story() -> Trace {
    let job = JobFacts { job: 0, name: "kvs_1_0".into(), ranks: 2, spawner: None };
    let head = Head {
        recorder: "pmi-host 0.1.0".into(),
        host: "n0".into(),
        command: vec!["pmi-host".into(), "run".into(), "./a<b>&\"c\"".into()],
        jobs: vec![job],
        ..Head::default()
    };
    let mut trace = Trace { head, records: Vec::new() };
    let mut add = |time_us: u64, rank: u32, what: Content| {
        let session = Some(rank + 4);
        trace.records.push(Record {
            time_ns: time_us * US,
            job: 0,
            rank: Some(rank),
            session,
            what,
        });
    };
    let asks = |text: &str| Content::Message { direction: Direction::ToServer, bytes: text.into() };
    let says = |text: &str| Content::Message { direction: Direction::ToClient, bytes: text.into() };
    add(1, 0, Content::Started { pid: 71, host: "n0".into() });
    add(2, 0, Content::Connected { from: None });
    add(3, 1, Content::Connected { from: Some("127.0.0.1:4000".into()) });
    for (time, rank) in [(10, 0), (20, 1)] {
        add(time, rank, asks("cmd=init pmi_version=1 pmi_subversion=1\n"));
        add(time + 2, rank, says("cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n"));
    }
    add(30, 0, asks("cmd=put kvsname=kvs_1_0 key=card-0 value=tcp://10.0.0.7:4711\n"));
    add(34, 0, says("cmd=put_result rc=0\n"));
    add(40, 0, asks("cmd=barrier_in\n"));
    add(90, 1, asks("cmd=barrier_in\n"));
    add(91, 0, says("cmd=barrier_out rc=0\n"));
    add(92, 1, says("cmd=barrier_out rc=0\n"));
    add(100, 1, asks("cmd=get kvsname=kvs_1_0 key=card-0\n"));
    add(101, 1, says("cmd=get_result rc=0 value=tcp://10.0.0.7:4711\n"));
    add(110, 1, asks("cmd=get kvsname=kvs_1_0 key=nobody\n"));
    add(111, 1, says("cmd=get_result rc=1 msg=no\n"));
    add(120, 0, asks("cmd=barrier_in\n"));
    add(130, 1, asks("cmd=abort exitcode=3\n"));
    add(140, 1, Content::Exited { code: 3 });
    trace.records.push(Record {
        time_ns: 150 * US,
        job: 0,
        rank: None,
        session: None,
        what: Content::Report { text: "rank 1 of 2 called abort with code 3".into() },
    });
    trace
}

#[test]
fn answers_are_found_for_questions_by_kind_and_by_name() {
    let mut trace = story();
    let times: Vec<_> = exchanges(&trace).iter().map(|one| one.latency_ns(&trace)).collect();
    let us = |us: u64| Some(us * US);
    assert_eq!(times, [us(2), us(2), us(4), us(51), us(2), us(1), us(1), None]);

    // Two threads of one client: the second request gets its reply first.
    trace.records.clear();
    for (time_ns, direction, text) in [
        (1, Direction::ToServer, "    34cmd=info-getnodeattr;thrid=a;key=k;"),
        (2, Direction::ToServer, "    34cmd=info-getnodeattr;thrid=b;key=l;"),
        (5, Direction::ToClient, "    44cmd=info-getnodeattr-response;thrid=b;rc=0;"),
        (9, Direction::ToClient, "    44cmd=info-getnodeattr-response;thrid=a;rc=0;"),
    ] {
        let what = Content::Message { direction, bytes: text.into() };
        trace.records.push(Record { time_ns, job: 0, rank: Some(0), session: Some(0), what });
    }
    let times: Vec<_> = exchanges(&trace).iter().map(|one| one.latency_ns(&trace)).collect();
    assert_eq!(times, [Some(8), Some(3)]);
}

#[test]
fn question_on_a_connection_that_ends_stays_without_answer() {
    let mut trace = story();
    let closed = Record { what: Content::Closed, ..trace.records[3].clone() };
    trace.records.insert(4, closed);
    assert_eq!(exchanges(&trace)[0].answered, None);
}

#[test]
fn conversation_is_legible() {
    let shown = text::write(&story(), &text::TextOptions::default());
    let expected = "\
# pmi-host 0.1.0 on n0
# pmi-host run ./a<b>&\"c\"
# job 0: 2 ranks, space kvs_1_0
   0.001 ms 0 · started as pid 71 on n0
   0.002 ms 0 · connected
   0.003 ms 1 · connected from 127.0.0.1:4000
   0.010 ms 0 → init version=1.1
   0.012 ms 0 ← init version=1.1                                                2.0 µs
   0.020 ms 1 → init version=1.1
   0.022 ms 1 ← init version=1.1                                                2.0 µs
   0.030 ms 0 → put key=card-0 value=tcp://10.0.0.7:4711
   0.034 ms 0 ← put                                                             4.0 µs
   0.040 ms 0 → barrier_in
   0.090 ms 1 → barrier_in
   0.091 ms 0 ← barrier_in                                                     51.0 µs
   0.092 ms 1 ← barrier_in                                                      2.0 µs
   0.100 ms 1 → get key=card-0
   0.101 ms 1 ← get value=tcp://10.0.0.7:4711                                   1.0 µs
   0.110 ms 1 → get key=nobody
   0.111 ms 1 ← get rc=1 found=false                                            1.0 µs
   0.120 ms 0 → barrier_in
   0.130 ms 1 → abort code=3
   0.140 ms 1 · exited with 3
   0.150 ms - · rank 1 of 2 called abort with code 3
";
    assert_eq!(shown, expected);
    let raw = text::TextOptions { ranks: vec![1], is_raw: true, is_long: false };
    let shown = text::write(&story(), &raw);
    assert!(shown.contains("1 → cmd=get kvsname=kvs_1_0 key=nobody\\n\n"), "{shown}");
    assert!(!shown.contains(" 0 →") && !shown.contains("card-0 value"), "{shown}");
}

#[test]
fn input_of_clients_cannot_harm_a_terminal_or_a_page() {
    let mut trace = story();
    let evil = "cmd=put kvsname=k key=\x1b[2J<script>&amp; value=\u{9b}\u{fffe}\0]]>\n";
    let what = Content::Message { direction: Direction::ToServer, bytes: evil.into() };
    trace.records[7].what = what;
    trace.records[8].what = Content::Report { text: "\x1b]0;title\x07<b>".into() };
    trace.head.command = vec!["\x1b[31m<i>".into()];
    for is_raw in [false, true] {
        let options = text::TextOptions { is_raw, ..text::TextOptions::default() };
        let shown = text::write(&trace, &options);
        assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{shown:?}");
    }
    let picture = svg::write(&trace, &svg::SvgOptions::default());
    roxmltree::Document::parse(&picture).unwrap();
    assert!(!picture.contains("<script>") && !picture.contains('\x1b'));
}

#[test]
fn figures_are_those_of_the_messages() {
    let stats = stats::stats(&story());
    assert_eq!(stats.duration_ns, 149 * US);
    let fence = &stats.operations["barrier_in"];
    assert_eq!((fence.asked_count, fence.unanswered_count, fence.asked_bytes), (3, 1, 45));
    assert_eq!(fence.latencies_ns, [2 * US, 51 * US]);
    assert_eq!(fence.percentile_ns(50), Some(2 * US));
    assert_eq!((fence.percentile_ns(0), fence.percentile_ns(99)), (Some(2 * US), Some(51 * US)));
    assert_eq!(stats::Operation::default().percentile_ns(50), None);
    let first = stats.ranks[&(0, Some(0))];
    assert_eq!((first.sent_count, first.got_count, first.waited_ns), (4, 3, 57 * US));
    let table = stats::write(&story());
    assert!(table.starts_with("16 messages, 526 bytes in 149.0 µs\n"), "{table}");
    assert!(
        table.lines().any(|line| line.starts_with("get ") && line.contains("1.0 µs")),
        "{table}"
    );
}

#[test]
fn messages_alone_make_a_difference() {
    let first = story();
    let differs = |second: &Trace| diff::diff(&first, second, diff::DiffOptions::default());
    // Another time, another space, another address, another order between ranks.
    let mut second = first.clone();
    second.head.jobs[0].name = "kvs_2_0".into();
    for record in &mut second.records {
        record.time_ns += 1_000_000 * US;
        record.session = record.session.map(|session| session + 9);
        if let Content::Message { bytes, .. } = &mut record.what {
            *bytes = String::from_utf8_lossy(bytes)
                .replace("kvs_1_0", "kvs_2_0")
                .replace("4711", "4712")
                .into();
        }
    }
    second.records.swap(9, 10);
    assert_eq!(differs(&second), None);
    let values = diff::DiffOptions { values: true };
    let difference = diff::diff(&first, &second, values).unwrap();
    assert_eq!((difference.who.as_str(), difference.number, difference.others_count), ("0", 3, 1));

    // Another key, and another end.
    let mut third = first.clone();
    third.records[15].what = Content::Message {
        direction: Direction::ToServer,
        bytes: b"cmd=get kvsname=kvs_1_0 key=card-9\n".into(),
    };
    let difference = differs(&third).unwrap();
    assert_eq!((difference.who.as_str(), difference.number), ("1", 7));
    let shown = difference.to_string();
    assert!(
        shown.contains("first:  → get key=nobody") && shown.contains("second: → get key=card-9"),
        "{shown}"
    );
    let mut fourth = first.clone();
    fourth.records.truncate(18);
    let shown = differs(&fourth).unwrap().to_string();
    assert!(
        shown.contains("rank 1 differs in message 9") && shown.contains("second: nothing more"),
        "{shown}"
    );
}

#[test]
fn other_viewers_get_slices_and_names() {
    let written: Value = serde_json::from_str(&chrome::write(&story())).unwrap();
    let events = written["traceEvents"].as_array().unwrap();
    let of = |kind: &str| events.iter().filter(|event| event["ph"] == kind).collect::<Vec<_>>();
    let slices = of("X");
    assert_eq!(slices.len(), 8);
    let put = slices.iter().find(|slice| slice["name"] == "put").unwrap();
    assert_eq!((put["pid"].as_u64(), put["tid"].as_u64()), (Some(0), Some(1)));
    assert_eq!((put["ts"].as_f64(), put["dur"].as_f64()), (Some(30.0), Some(4.0)));
    assert_eq!(put["args"]["request"], "put key=card-0 value=tcp://10.0.0.7:4711 space=kvs_1_0");
    // The open fence extends to the end.
    let last = slices.iter().rfind(|slice| slice["cat"] == "fence").unwrap();
    assert_eq!(last["dur"].as_f64(), Some(30.0));
    assert!(of("M").iter().any(|event| event["args"]["name"] == "rank 1"));
    assert!(of("i").iter().any(|event| event["name"] == "exited with 3"));
}

/// The elements of a picture that have all these words in their class.
fn of_class<'a>(
    page: &'a roxmltree::Document<'a>,
    tag: &str,
    words: &[&str],
) -> Vec<roxmltree::Node<'a, 'a>> {
    let has = |node: &roxmltree::Node<'_, '_>, word: &&str| {
        node.attribute("class").is_some_and(|class| class.split(' ').any(|one| one == *word))
    };
    let nodes = page.descendants().filter(|node| node.has_tag_name(tag));
    nodes.filter(|node| words.iter().all(|word| has(node, word))).collect()
}

fn number(node: &roxmltree::Node<'_, '_>, name: &str) -> f64 {
    node.attribute(name).unwrap().parse().unwrap()
}

#[test]
fn picture_has_a_lane_for_each_rank_an_arrow_for_each_message_and_a_bar_for_each_fence() {
    let picture = svg::write(&story(), &svg::SvgOptions::default());
    let page = roxmltree::Document::parse(&picture).unwrap();
    let lanes: Vec<_> = of_class(&page, "g", &["lane"])
        .iter()
        .map(|lane| {
            lane.descendants()
                .find(|node| node.has_tag_name("text"))
                .unwrap()
                .text()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(lanes, ["server", "rank 0", "rank 1"]);
    // Both ranks share the arrows of init and of the first fence; nothing but a bar ends a fence.
    let arrows = |class| of_class(&page, "path", &[class]).len();
    assert_eq!((arrows("ask"), arrows("tell")), (1 + 1 + 1 + 2 + 1, 1 + 1 + 2));
    assert_eq!(of_class(&page, "rect", &["bar"]).len(), 1);
    // Both ranks waited in the first fence, and rank 0 waits indefinitely in the second.
    assert_eq!(of_class(&page, "rect", &["fence", "stripe"]).len(), 2);
    assert_eq!(of_class(&page, "rect", &["stuck", "stripe"]).len(), 1);
    let text = page.descendants().filter_map(|node| node.text()).collect::<Vec<_>>().join("\n");
    for said in [
        "fence 1 · ranks 0-1 · 51.0 µs",
        "ranks 0 were never answered",
        "rank 1 exited with 3",
        "abort code=3",
    ] {
        assert!(text.contains(said), "{said}");
    }
    // Nothing lies outside of the page.
    let paper = of_class(&page, "rect", &["paper"])[0];
    let (width, height) = (number(&paper, "width"), number(&paper, "height"));
    for node in
        page.descendants().filter(|node| node.has_tag_name("rect") || node.has_tag_name("text"))
    {
        let (x, y) = (node.attribute("x").unwrap_or("0"), node.attribute("y").unwrap_or("0"));
        let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
        assert!((0.0..=width).contains(&x) && (0.0..=height).contains(&y), "{node:?}");
    }
    assert!(picture.contains("prefers-color-scheme: dark"));
    // Colours stand for directions, not for commands: all requests have one, and all replies but refusals.
    assert_eq!(of_class(&page, "g", &["up"]).len(), arrows("ask"));
    assert_eq!(of_class(&page, "g", &["down"]).len(), arrows("tell") - 1);
    let signs = of_class(&page, "rect", &["sign"]);
    let signs = signs.iter().map(|sign| sign.attribute("class").unwrap_or_default());
    let signs: Vec<_> = signs.map(|class| class.replace("sign ", "")).collect();
    assert_eq!(signs, ["up", "down", "wait", "fence", "fault"]);
    // Only one rank, on request.
    let picture = svg::write(&story(), &svg::SvgOptions { ranks: vec![1] });
    let page = roxmltree::Document::parse(&picture).unwrap();
    assert_eq!(of_class(&page, "g", &["lane"]).len(), 2);
}

#[test]
fn omissions_of_a_picture_are_listed_at_its_foot() {
    let mut trace = Trace { head: Head::default(), records: Vec::new() };
    for rank in 0..100 {
        for _ in 0..20 {
            let what =
                Content::Message { direction: Direction::ToServer, bytes: b"cmd=abort\n".into() };
            trace.records.push(Record {
                time_ns: 0,
                job: 0,
                rank: Some(rank),
                session: None,
                what,
            });
        }
    }
    let picture = svg::write(&trace, &svg::SvgOptions::default());
    assert!(
        picture.contains("280 more steps are not drawn; 36 more ranks have no lane"),
        "{}",
        &picture[picture.len() - 600..]
    );
    let empty = svg::write(&Trace::default(), &svg::SvgOptions::default());
    roxmltree::Document::parse(&empty).unwrap();
}

#[test]
fn latency_that_was_not_measured_is_not_drawn() {
    let mut trace = story();
    assert!(svg::write(&trace, &svg::SvgOptions::default()).contains(">4.0 µs<"));
    for record in &mut trace.records {
        record.time_ns = 5 * US;
    }
    let picture = svg::write(&trace, &svg::SvgOptions::default());
    assert!(picture.contains(">5.0 µs<") && !picture.contains(">0 ns<"), "{picture}");
}

#[test]
fn views_hold_no_control_characters_of_a_file() {
    const CLEAR: &str = "\u{1b}[2J\u{9b}1m\u{7}";
    let mut trace = story();
    let mark = |text: &mut String| text.push_str(CLEAR);
    mark(&mut trace.head.recorder);
    mark(&mut trace.head.host);
    trace.head.command.iter_mut().for_each(mark);
    trace.head.jobs.iter_mut().for_each(|job| mark(&mut job.name));
    let other = trace.clone();
    for record in &mut trace.records {
        match &mut record.what {
            Content::Message { bytes, .. } => {
                let end = bytes.pop();
                bytes.extend(CLEAR.as_bytes());
                bytes.extend(end);
            }
            Content::Started { host, .. } => mark(host),
            Content::Connected { from: Some(text) } | Content::Report { text } => mark(text),
            _ => {}
        }
    }
    let is_obeyed = |text: &str| text.contains(|sign: char| sign.is_control() && sign != '\n');
    let raw = text::TextOptions { is_raw: true, is_long: true, ..text::TextOptions::default() };
    let difference = diff::diff(&trace, &other, diff::DiffOptions { values: true }).unwrap();
    for view in [
        text::write(&trace, &text::TextOptions::default()),
        text::write(&trace, &raw),
        stats::write(&trace),
        svg::write(&trace, &svg::SvgOptions::default()),
        difference.to_string(),
    ] {
        assert!(!is_obeyed(&view), "{}", view.escape_debug());
    }
    trace.head.command.clear();
    assert!(!is_obeyed(&svg::write(&trace, &svg::SvgOptions::default())));
}
