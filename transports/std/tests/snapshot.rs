//! A session whose server shares values in memory, or only seems to.
#![cfg(feature = "snapshot")]

use pmi_core::command::Version;
use pmi_core::error::Code;
use pmi_core::wire::snapshot::split_message;
use pmi_link::CallError;
use pmi_std::SharedPmi;
use pmi_std::snapshot::{
    GenerationBuilder, SegmentReader, peek_descriptors, publish, recv_with, send_with,
};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

/// What a server answers to a line that begins so, and the files beside the answer.
type Answer = (&'static str, &'static str, Vec<OwnedFd>);

fn generation(numbers: [u32; 2], pairs: &[(&str, &str)]) -> OwnedFd {
    let mut builder = GenerationBuilder::default();
    pairs.iter().for_each(|(key, value)| builder.insert(key.as_bytes(), value.as_bytes()));
    publish(&builder.finish(numbers[0], numbers[1]).unwrap()).unwrap()
}

/// A client in PMI-1.1 whose server gives these answers, after `first` beside that to `init`. The server returns
/// the requests that it has read from the segment.
fn session(first: Vec<OwnedFd>, answers: Vec<Answer>) -> (SharedPmi, JoinHandle<Vec<String>>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let opening = [
        ("cmd=init", "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n", first),
        ("cmd=get_my_kvsname", "cmd=my_kvsname rc=0 kvsname=kvs\n", Vec::new()),
    ];
    let server = thread::spawn(move || {
        let mut requests = Vec::new();
        let offered = peek_first(&theirs);
        let mut segment = offered.and_then(|file| SegmentReader::new(file).ok());
        for (expected, reply, files) in opening.into_iter().chain(answers) {
            let mut line = [0; 2048];
            let len = recv_with(&theirs, &mut line).unwrap().len;
            let line = String::from_utf8_lossy(&line[..len]).into_owned();
            assert!(line.starts_with(expected), "{line:?} instead of {expected:?}");
            let mut batch = Vec::new();
            if let Some(segment) = &mut segment
                && segment.read(&mut batch).unwrap()
            {
                let mut rest = &batch[..];
                while let Some((message, more)) = split_message(rest) {
                    requests.push(String::from_utf8(message.to_vec()).unwrap());
                    rest = more;
                }
                if requests.last().is_some_and(|last| last.contains("refused")) {
                    segment.set_refused(Code(2)).unwrap();
                }
            }
            let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
            send_with(&theirs, reply.as_bytes(), &files).unwrap();
        }
        requests
    });
    let pmi = SharedPmi::with_snapshot(ours.into()).unwrap();
    pmi.init(Version::V1_1).unwrap();
    pmi.kvsname().unwrap();
    (pmi, server)
}

/// The descriptor that comes with the first bytes.
fn peek_first(socket: &UnixStream) -> Option<OwnedFd> {
    loop {
        match peek_descriptors(socket) {
            Ok(mut received) => return received.descriptors.pop(),
            Err(_) => thread::yield_now(),
        }
    }
}

const RELEASED: &str = "cmd=barrier_out rc=0\n";
const MISSING: &str = "cmd=get_result rc=-1 msg=key_not_found value=unknown\n";

#[test]
fn values_of_the_newest_generation_are_found_without_a_message() {
    let fences = vec![
        ("cmd=barrier_in", RELEASED, vec![generation([1, 1], &[("a", "1"), ("b", "1")])]),
        ("cmd=barrier_in", RELEASED, vec![generation([2, 2], &[("a", "2")])]),
        ("cmd=get kvsname=kvs key=missing", MISSING, Vec::new()),
        ("cmd=barrier_in", RELEASED, vec![generation([1, 3], &[("a", "3")])]),
        ("cmd=get kvsname=kvs key=b", MISSING, Vec::new()),
        ("cmd=get kvsname=other key=a", MISSING, Vec::new()),
    ];
    let (pmi, server) = session(vec![generation([0, 0], &[("mapping", "x")])], fences);
    let get = |key: &str| pmi.get(key.as_bytes()).unwrap().map(|v| String::from_utf8(v).unwrap());
    assert_eq!(get("mapping").as_deref(), Some("x"));
    pmi.fence().unwrap();
    assert_eq!((get("a").as_deref(), get("b").as_deref()), (Some("1"), Some("1")));
    let in_memory = |key: &[u8]| pmi.read_in_memory(key, <[u8]>::to_vec);
    assert_eq!((in_memory(b"a"), in_memory(b"missing")), (Some(b"1".to_vec()), None));
    pmi.fence().unwrap();
    assert_eq!((get("a").as_deref(), get("b").as_deref()), (Some("2"), Some("1")));
    assert_eq!((get("missing"), get("mapping").as_deref()), (None, Some("x")));
    pmi.fence().unwrap();
    // The last one replaces both.
    assert_eq!((get("a").as_deref(), get("b")), (Some("3"), None));
    assert_eq!(pmi.get_from(b"other", b"a").unwrap(), None);
    assert_eq!(server.join().unwrap(), [""; 0]);
}

#[test]
fn puts_are_in_the_segment_and_own_ones_are_asked_for_until_the_fence() {
    let answers = vec![
        ("cmd=get kvsname=kvs key=a", "cmd=get_result rc=0 value=new\n", Vec::new()),
        ("cmd=barrier_in", RELEASED, vec![generation([1, 1], &[("a", "new"), ("c", "3")])]),
        ("cmd=put kvsname=kvs key=local::x", "cmd=put_result rc=0\n", Vec::new()),
        ("cmd=barrier_in", RELEASED, Vec::new()),
    ];
    let (pmi, server) = session(vec![generation([0, 0], &[("a", "old")])], answers);
    pmi.put(b"b", b"2").unwrap();
    pmi.put(b"a", b"new").unwrap();
    assert_eq!(pmi.read_in_memory(b"a", <[u8]>::len), None, "an own put that is not visible yet");
    assert_eq!(pmi.get(b"a").unwrap().unwrap(), b"new");
    pmi.put(b"c", b"3").unwrap();
    assert!(pmi.put(b"key with a blank", b"1").is_err());
    pmi.fence().unwrap();
    assert_eq!(pmi.get(b"c").unwrap().unwrap(), b"3");
    // Ranks of the node see it at once.
    pmi.put(b"local::x", b"1").unwrap();
    pmi.put(b"d", b"refused").unwrap();
    let refused = pmi.fence().unwrap_err();
    assert!(matches!(refused, CallError::Refused { code: Code(2), .. }), "{refused}");
    let expected = [("b", "2"), ("a", "new"), ("c", "3"), ("d", "refused")];
    let expected =
        expected.map(|(key, value)| format!("cmd=put kvsname=kvs key={key} value={value}\n"));
    assert_eq!(server.join().unwrap(), expected);
}

#[test]
fn server_without_a_snapshot_or_with_an_unreadable_one_is_asked_for_everything() {
    let unsealed = || std::fs::File::open("/dev/null").unwrap().into();
    let [garbage, loose]: [fn() -> Vec<OwnedFd>; 2] =
        [|| vec![publish(b"PMIsnap1 and nothing").unwrap()], || Vec::new()];
    for first in [loose(), garbage(), vec![unsealed()]] {
        let answers = vec![
            ("cmd=put kvsname=kvs key=a value=1", "cmd=put_result rc=0\n", Vec::new()),
            ("cmd=barrier_in", RELEASED, Vec::new()),
            ("cmd=get kvsname=kvs key=a", "cmd=get_result rc=0 value=1\n", Vec::new()),
        ];
        let (pmi, server) = session(first, answers);
        pmi.put(b"a", b"1").unwrap();
        pmi.fence().unwrap();
        assert_eq!(pmi.get(b"a").unwrap().unwrap(), b"1");
        assert_eq!(server.join().unwrap(), [""; 0]);
    }
    // One that becomes unreadable later: the segment is in use, and values are asked for.
    let answers = vec![
        ("cmd=barrier_in", RELEASED, vec![unsealed()]),
        ("cmd=get kvsname=kvs key=mapping", "cmd=get_result rc=0 value=y\n", Vec::new()),
    ];
    let (pmi, server) = session(vec![generation([0, 0], &[("mapping", "x")])], answers);
    pmi.put(b"a", b"1").unwrap();
    pmi.fence().unwrap();
    assert_eq!(pmi.get(b"mapping").unwrap().unwrap(), b"y");
    assert_eq!(server.join().unwrap(), ["cmd=put kvsname=kvs key=a value=1\n"]);
}
