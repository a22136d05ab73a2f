//! Web sockets: admission, subprotocols, and the outcome of misbehaviour. The client here is a test client
//! and not a browser's; pages and Node speak with a launcher in the tests of `wasm/node`.

use crate::common::host;
use crate::common::listening::{Host, rest};
use pmi_core::auth::Secret;
use pmi_trace::{Content, Direction, file};
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tungstenite::client::IntoClientRequest;
use tungstenite::{Error, Message, WebSocket, client};

const SECRET: &str = "a secret of more than sixteen bytes";

/// The address in a URL without its scheme.
fn address(port: &str) -> &str {
    port.split('/').next().unwrap()
}

/// Starts a run with pages.
fn start(words: &[&str]) -> Host {
    Host::start_at(&["--websocket", "0"], "ws://", words)
}

/// Opens a web socket for `protocol`, as a page from `origin` does.
fn open(port: &str, protocol: &str, origin: Option<&str>) -> Result<WebSocket<TcpStream>, u16> {
    let mut request = format!("ws://{port}").into_client_request().unwrap();
    let headers = request.headers_mut();
    headers.insert("Sec-WebSocket-Protocol", protocol.parse().unwrap());
    if let Some(origin) = origin {
        headers.insert("Origin", origin.parse().unwrap());
    }
    let stream = TcpStream::connect(address(port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    match client(request, stream) {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::HandshakeError::Failure(Error::Http(response))) => {
            Err(response.status().as_u16())
        }
        Err(error) => panic!("{error}"),
    }
}

/// Reads one line of PMI-1, from as many messages as it takes.
fn line(page: &mut WebSocket<TcpStream>, rest: &mut Vec<u8>) -> String {
    while !rest.contains(&b'\n') {
        match page.read().unwrap() {
            Message::Binary(bytes) => rest.extend(&bytes[..]),
            other => panic!("{other:?}"),
        }
    }
    let end = rest.iter().position(|byte| *byte == b'\n').unwrap();
    String::from_utf8(rest.drain(..=end).collect()).unwrap()
}

/// Acts as rank `rank` of `size`: puts, fences, gets and finalizes. Gives the value it has read.
fn be_rank(port: &str, (rank, size): (u32, u32), id: u64) -> String {
    let mut page = open(port, "pmi", Some("http://localhost:8000")).unwrap();
    let mut rest = Vec::new();
    let mut ask = |lines: &[&str], answers: usize| {
        for part in lines {
            page.send(Message::binary(part.as_bytes().to_vec())).unwrap();
        }
        (0..answers).map(|_| line(&mut page, &mut rest)).collect::<Vec<_>>()
    };
    // Cut within a line, as messages may be.
    let hello = ask(&["cmd=initack pmi", &format!("id={id}\n")], 4);
    assert!(hello[2].contains(&format!("rank={rank}")), "{hello:?}");
    ask(&["cmd=init pmi_version=1 pmi_subversion=1\n"], 1);
    let name = ask(&["cmd=get_my_kvsname\n"], 1);
    let name = name[0].trim().rsplit('=').next().unwrap();
    ask(&[&format!("cmd=put kvsname={name} key=card-{rank} value=of-{rank}\n")], 1);
    ask(&["cmd=barrier_in\n"], 1);
    let next = (rank + 1) % size;
    let got = ask(&[&format!("cmd=get kvsname={name} key=card-{next}\n")], 1);
    ask(&["cmd=finalize\n"], 1);
    // The launcher closes the web socket properly, too.
    assert!(matches!(page.read(), Ok(Message::Close(_)) | Err(Error::ConnectionClosed)));
    got[0].trim().rsplit('=').next().unwrap().to_owned()
}

/// Reads a trace to the end of the run.
fn watch(page: &mut WebSocket<TcpStream>) -> Vec<u8> {
    let mut trace = Vec::new();
    loop {
        match page.read() {
            Ok(Message::Binary(bytes)) => trace.extend(&bytes[..]),
            Ok(Message::Close(_)) | Err(Error::ConnectionClosed) => return trace,
            other => panic!("{other:?}"),
        }
    }
}

/// A rank in shell that puts its card and reads that of the next rank.
const LOCAL: &str = "echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read answer <&$PMI_FD
    echo cmd=get_my_kvsname >&$PMI_FD; read name <&$PMI_FD; name=${name#*kvsname=}
    echo cmd=put kvsname=$name key=card-$PMI_RANK value=of-$PMI_RANK >&$PMI_FD; read answer <&$PMI_FD
    echo cmd=barrier_in >&$PMI_FD; read answer <&$PMI_FD
    echo cmd=get kvsname=$name key=card-$(((PMI_RANK + 1) % PMI_SIZE)) >&$PMI_FD
    read answer <&$PMI_FD; echo $PMI_RANK: ${answer##*=}
    echo cmd=finalize >&$PMI_FD; read answer <&$PMI_FD";

fn secret_file(name: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&path);
    std::fs::write(&path, format!("{SECRET}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

#[test]
fn page_is_a_rank_among_ranks_and_another_watches_them() {
    exchange_and_watch(start(&["--expect", "1", "-n", "2", "sh", "-c", LOCAL]));
}

#[test]
fn pages_are_ranks_and_watch_those_of_all_nodes() {
    let words = ["--starter", "local:2", "--expect", "1", "-n", "2", "sh", "-c", LOCAL];
    exchange_and_watch(start(&words));
}

#[test]
fn page_watches_a_run_on_several_nodes_that_expects_no_rank() {
    let mut host = start(&["--starter", "local:2", "-n", "2", "sleep", "600"]);
    let mut rank = open(&host.port, "pmi", None).unwrap();
    assert!(matches!(rank.read(), Ok(Message::Close(_)) | Err(_)));
    host.says("expects no further ranks; specify their number with '--expect N'");
    let mut watchers = [(); 2].map(|()| open(&host.port, "pmi-trace", None).unwrap());
    for watcher in &mut watchers {
        assert!(matches!(watcher.read(), Ok(Message::Binary(_))));
    }
    drop(watchers);
    let mut watcher = open(&host.port, "pmi-trace", None).unwrap();
    assert!(matches!(watcher.read(), Ok(Message::Binary(_))));
    let pid = rustix::process::Pid::from_child(&host.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    watch(&mut watcher);
    assert_eq!(host.end().0, 143);
}

/// Lets a page be rank 2 of 3 beside two that run [`LOCAL`], and another one watch them.
fn exchange_and_watch(host: Host) {
    assert!(host.said.contains("rank 2 connects at ws://"), "{}", host.said);
    let mut watcher = open(&host.port, "pmi-trace", None).unwrap();
    assert_eq!(be_rank(&host.port, (2, 3), 2), "of-0");
    let read = file::read(&watch(&mut watcher)).unwrap();
    assert_eq!(read.damage, None);
    let records = &read.trace.records;
    assert!(records.iter().any(|record| matches!(record.what, Content::Ended { code: 0 })));
    let fences = records.iter().filter(|record| match &record.what {
        Content::Message { direction: Direction::ToServer, bytes } => bytes == b"cmd=barrier_in\n",
        _ => false,
    });
    let mut ranks: Vec<_> = fences.map(|record| record.rank).collect();
    ranks.sort_unstable();
    assert_eq!(ranks, [Some(0), Some(1), Some(2)]);
    let (code, out, said) = host.end();
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!((code, lines), (0, vec!["0: of-1", "1: of-2"]), "{said}");
}

#[test]
fn secret_is_proved_by_watching_pages_and_ranks_send_their_number() {
    let file = secret_file("pages-secret");
    let secret = Secret::new(SECRET.as_bytes()).unwrap();
    let words = ["--expect", "1", "--secret-file", file.to_str().unwrap()];
    let mut host = start(&words);
    let challenged = |proof: &dyn Fn(&str) -> String| {
        let mut page = open(&host.port, "pmi-trace", None).unwrap();
        let challenge = page.read().unwrap().into_text().unwrap();
        let nonce = challenge.strip_prefix("challenge ").unwrap();
        page.send(Message::text(proof(nonce))).unwrap();
        page
    };
    let prove = |nonce: &str| {
        String::from_utf8(secret.answer(nonce.as_bytes()).unwrap().as_bytes().to_vec()).unwrap()
    };
    let mut guesser = challenged(&|nonce| prove(&format!("{}0", &nonce[1..])));
    assert!(matches!(guesser.read(), Ok(Message::Close(_)) | Err(_)));
    let mut watcher = challenged(&prove);
    let ids = host_output(&["pmiid", "--secret-file", file.to_str().unwrap(), "0"]);
    let id = ids.split_whitespace().last().unwrap().parse().unwrap();
    assert_eq!(be_rank(&host.port, (0, 1), id), "of-0");
    assert_eq!(file::read(&watch(&mut watcher)).unwrap().damage, None);
    host.says("requested to observe the run and does not know the secret");
    assert_eq!(host.end().0, 0);
}

fn host_output(words: &[&str]) -> String {
    String::from_utf8(host(words).output().unwrap().stdout).unwrap()
}

#[test]
fn pages_of_others_and_other_requests_are_refused() {
    let mut host = start(&["--origin", "https://lab.example", "--expect", "1"]);
    let open = |protocol, origin| open(&host.port, protocol, origin).map(drop);
    assert_eq!(open("pmi", Some("https://evil.example")), Err(403));
    assert_eq!(open("pmi-trace", Some("null")), Err(403));
    assert_eq!(open("chat", None), Err(400));
    assert_eq!(open("pmi-trace", Some("https://lab.example")), Ok(()));
    host.says("is a page of https://evil.example, which needs '--origin https://evil.example'");
    assert_eq!(be_rank(&host.port, (0, 1), 0), "of-0");
    assert_eq!(host.end().0, 0);
}

#[test]
fn hostile_openings_and_messages_harm_no_other_peer() {
    let mut host = start(&["--expect", "1"]);
    let dial = || {
        let stream = TcpStream::connect(address(&host.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    };
    // A silent connection, an endless header, bytes that are no upgrade, and as many connections as are
    // allowed.
    let _silent = dial();
    let mut endless = dial();
    let header = format!("GET / HTTP/1.1\r\n{}", "X-A: b\r\n".repeat(200));
    endless.write_all(header.as_bytes()).unwrap();
    let mut garbage = dial();
    garbage.write_all(b"\x16\x03\x01\0\x05hello\r\n\r\n").unwrap();
    rest(&mut garbage);
    rest(&mut endless);
    // A rank that sends text messages, and one that exceeds the size limit of a message.
    let mut texts = open(&host.port, "pmi", None).unwrap();
    texts.send(Message::text("cmd=initack pmiid=0\n")).unwrap();
    assert!(matches!(texts.read(), Ok(Message::Close(Some(_)))));
    let mut huge = open(&host.port, "pmi", None).unwrap();
    let _ = huge.send(Message::binary(vec![b'x'; 2 << 20]));
    assert!(!matches!(huge.read(), Ok(Message::Binary(_))));
    let mut talker = open(&host.port, "pmi-trace", None).unwrap();
    talker.send(Message::text("let me in")).unwrap();
    host.says("did not open a web socket");
    assert_eq!(be_rank(&host.port, (0, 1), 0), "of-0");
    assert_eq!(host.end().0, 0);
}

#[test]
fn page_can_only_watch_where_no_rank_connects() {
    let mut host = start(&["-n", "1", "sleep", "600"]);
    let mut rank = open(&host.port, "pmi", None).unwrap();
    assert!(matches!(rank.read(), Ok(Message::Close(_)) | Err(_)));
    host.says("expects no further ranks; specify their number with '--expect N'");
    let mut watcher = open(&host.port, "pmi-trace", None).unwrap();
    assert!(matches!(watcher.read(), Ok(Message::Binary(_))));
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(i32::try_from(host.child.id()).unwrap()).unwrap(),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    watch(&mut watcher);
    assert_eq!(host.end().0, 143);
}

#[test]
fn observer_that_does_not_read_is_disconnected_with_a_message_and_the_run_goes_on() {
    // Socket buffers of the system hold some megabytes themselves.
    let script = "say() { echo \"$@\" >&$PMI_FD; read l <&$PMI_FD; }; read go; i=0; \
                  v=$(head -c 900 /dev/zero | tr '\\0' v); say cmd=init pmi_version=1 pmi_subversion=1; \
                  say cmd=get_my_kvsname; name=${l##*=}; while [ $i -lt 25000 ]; do \
                  say cmd=put kvsname=$name key=k value=$v; i=$((i+1)); done; say cmd=finalize";
    let words = ["-n", "1", "--trace-ring", "64", "bash", "-c", script];
    let (input, mut go) = std::io::pipe().unwrap();
    let mut host = Host::start_reading(input.into(), &["--websocket", "0"], "ws://", &words);
    let mut page = open(&host.port, "pmi-trace", Some("http://localhost:8000")).unwrap();
    page.read().unwrap();
    go.write_all(b"\n").unwrap();
    drop(go);
    host.says("does not keep up");
    // Data under way arrives, and then the reason.
    let closed = loop {
        match page.read() {
            Ok(Message::Binary(_)) => {}
            Ok(Message::Close(frame)) => break frame.unwrap(),
            other => panic!("{other:?}"),
        }
    };
    assert!(closed.reason.contains("too slow"), "{closed:?}");
    let (code, _, said) = host.end();
    assert_eq!(code, 0, "{said}");
    assert_eq!(said.matches("does not keep up").count(), 1, "{said}");
}
