//! The client calls, blocking and awaited, against a peer with scripted replies.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::task::Poll;

use futures_lite::future::{block_on, yield_now, zip};
use pmi_core::command::{
    Argument, FenceGroup, InfoList, Maxes, Program, Spawn, Text, Verb, Version,
};
use pmi_core::error::{Code, Full, Misuse, PeerError};
use pmi_link::{CallError, SpawnError, blocking, task};

/// A peer that waits for a line and sends the next reply of its list, cut into pieces.
struct Script {
    answers: VecDeque<&'static str>,
    piece_bytes: usize,
    asked: Vec<u8>,
    says: VecDeque<u8>,
    /// Every second awaited call is pending once.
    turn: bool,
}

fn script(piece_bytes: usize, answers: &[&'static str]) -> Script {
    let answers = answers.iter().copied().collect();
    Script { answers, piece_bytes, asked: Vec::new(), says: VecDeque::new(), turn: false }
}

impl Script {
    fn take(&mut self, bytes: &[u8]) -> usize {
        let len = bytes.len().min(self.piece_bytes);
        for byte in &bytes[..len] {
            self.asked.push(*byte);
            if *byte == b'\n' {
                self.says.extend(self.answers.pop_front().unwrap_or("").bytes());
            }
        }
        len
    }

    fn give(&mut self, out: &mut [u8]) -> usize {
        let len = out.len().min(self.says.len()).min(self.piece_bytes);
        out.iter_mut().zip(self.says.drain(..len)).for_each(|(to, byte)| *to = byte);
        len
    }

    fn asked(&self) -> &str {
        std::str::from_utf8(&self.asked).unwrap()
    }

    async fn wait_a_turn(&mut self) {
        self.turn = !self.turn;
        if self.turn {
            yield_now().await;
        }
    }
}

/// The same peer with the traits of the two kinds of call, since one type has one error.
struct Waits(Script);
struct Awaited(Script);

impl embedded_io::ErrorType for Waits {
    type Error = Infallible;
}

impl embedded_io::Read for Waits {
    fn read(&mut self, out: &mut [u8]) -> Result<usize, Infallible> {
        Ok(self.0.give(out))
    }
}

impl embedded_io::Write for Waits {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        Ok(self.0.take(bytes))
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

impl embedded_io::ErrorType for Awaited {
    type Error = Infallible;
}

impl embedded_io_async::Read for Awaited {
    async fn read(&mut self, out: &mut [u8]) -> Result<usize, Infallible> {
        self.0.wait_a_turn().await;
        Ok(self.0.give(out))
    }
}

impl embedded_io_async::Write for Awaited {
    async fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        self.0.wait_a_turn().await;
        Ok(self.0.take(bytes))
    }

    async fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

const INIT: &str = "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n";
const INIT_1_2: &str = "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2\n";
const NAME: &str = "cmd=my_kvsname rc=0 kvsname=kvs_0\n";
const GREETING: &str = "cmd=initack rc=0 rank=2 size=4 appnum=0 debug=0\n\
    cmd=set size=4\ncmd=set rank=2\ncmd=set debug=0\n";

const ANSWERS: [&str; 15] = [
    GREETING,
    INIT,
    "cmd=maxes rc=0 kvsname_max=256 keylen_max=32 vallen_max=512\n",
    "cmd=appnum rc=0 appnum=-1\n",
    "cmd=universe_size rc=0 size=16\n",
    NAME,
    "cmd=put_result rc=0\n",
    "cmd=barrier_out rc=0\n",
    "cmd=get_result rc=0 value=10.0.0.1 found=TRUE\n",
    "cmd=get_result rc=1\n",
    "cmd=publish_result rc=0 info=ok\n",
    "cmd=lookup_result rc=0 info=ok port=h:1\n",
    "cmd=lookup_result rc=1 info=fail\n",
    "cmd=unpublish_result rc=0 info=ok\n",
    "cmd=finalize_ack rc=0\n",
];

const ASKED: &str = "cmd=initack pmiid=2\n\
    cmd=init pmi_version=1 pmi_subversion=1\n\
    cmd=get_maxes\ncmd=get_appnum\ncmd=get_universe_size\ncmd=get_my_kvsname\n\
    cmd=put kvsname=kvs_0 key=card-2 value=10.0.0.1\n\
    cmd=barrier_in\n\
    cmd=get kvsname=kvs_0 key=card-2\n\
    cmd=get kvsname=kvs_0 key=card-9\n\
    cmd=publish_name service=s port=h:1\n\
    cmd=lookup_name service=s\ncmd=lookup_name service=t\ncmd=unpublish_name service=s\n\
    cmd=finalize\n";

/// Every call in turn; the two kinds differ by the suffix of a call.
macro_rules! every_call {
    ($pmi:ident $(, $wait:tt)*) => {{
        let identity = $pmi.greet(2)$(.$wait)*.unwrap();
        assert_eq!((identity.rank, identity.size), (2, 4));
        assert_eq!($pmi.init(Version::V1_1)$(.$wait)*, Ok(Version::V1_1));
        assert_eq!($pmi.maxes()$(.$wait)*, Ok(Maxes { kvsname: 256, key: 32, value: 512 }));
        assert_eq!($pmi.appnum()$(.$wait)*, Ok(None));
        assert_eq!($pmi.universe_size()$(.$wait)*, Ok(Some(16)));
        assert_eq!($pmi.kvsname()$(.$wait)*.unwrap().as_bytes(), b"kvs_0");
        assert_eq!($pmi.put(b"card-2", b"10.0.0.1")$(.$wait)*, Ok(()));
        assert_eq!($pmi.fence()$(.$wait)*, Ok(()));
        let mut out = [0; 64];
        assert_eq!($pmi.get(b"card-2", &mut out)$(.$wait)*, Ok(Some(8)));
        assert_eq!(&out[..8], b"10.0.0.1");
        assert_eq!($pmi.get(b"card-9", &mut out)$(.$wait)*, Ok(None));
        assert_eq!($pmi.publish(b"s", b"h:1")$(.$wait)*, Ok(()));
        assert_eq!($pmi.lookup(b"s", &mut out)$(.$wait)*, Ok(Some(3)));
        assert_eq!(&out[..3], b"h:1");
        assert_eq!($pmi.lookup(b"t", &mut out)$(.$wait)*, Ok(None));
        assert_eq!($pmi.unpublish(b"s")$(.$wait)*, Ok(()));
        assert_eq!($pmi.finalize()$(.$wait)*, Ok(()));
        let over = CallError::Misuse(Misuse::WrongState { needed: "the session is open" });
        assert_eq!($pmi.fence()$(.$wait)*, Err(over));
    }};
}

#[test]
fn calls_wait_for_their_answers_however_they_are_cut() {
    for piece_bytes in [1, 2, 13, 1000] {
        let mut pmi = blocking::Pmi::new(Waits(script(piece_bytes, &ANSWERS)));
        every_call!(pmi);
        assert_eq!(pmi.into_inner().0.asked(), ASKED);
    }
}

#[test]
fn calls_can_be_awaited_however_they_are_cut() {
    for piece_bytes in [1, 2, 13, 1000] {
        let mut pmi = task::AsyncPmi::new(Awaited(script(piece_bytes, &ANSWERS)));
        block_on(async { every_call!(pmi, await) });
        assert_eq!(pmi.into_inner().0.asked(), ASKED);
    }
}

/// A blocking client after its handshake, and the later replies of its peer.
fn open(answers: &[&'static str]) -> blocking::Pmi<Waits> {
    let mut all = vec![INIT, NAME];
    all.extend(answers);
    let mut pmi = blocking::Pmi::new(Waits(script(1000, &all)));
    pmi.init(Version::V1_1).unwrap();
    pmi.kvsname().unwrap();
    pmi
}

#[test]
fn refusal_names_what_was_refused_and_the_conversation_goes_on() {
    let mut pmi = open(&[
        "cmd=put_result rc=5\n",
        "cmd=maxes rc=-1\n",
        "cmd=appnum rc=-1\n",
        "cmd=get_my_kvsname_result rc=-1 msg=not_supported\n",
        "cmd=barrier_out rc=14 msg=rank_3_has_left_the_job\n",
        "cmd=publish_result rc=1 info=fail msg=service_exists_already\n",
        "cmd=finalize_ack\n",
    ]);
    let no = |verb, code| CallError::Refused { verb, code: Code(code) };
    assert_eq!(pmi.put(b"k", b"v"), Err(no(Verb::Put, 5)));
    assert_eq!(pmi.maxes(), Err(no(Verb::Maxes, -1)));
    assert_eq!(pmi.appnum(), Err(no(Verb::AppNum, -1)));
    assert_eq!(pmi.kvsname(), Err(no(Verb::KvsName, -1)));
    assert_eq!(pmi.fence(), Err(no(Verb::Fence, 14)));
    let taken = no(Verb::Publish, 1);
    assert_eq!(taken.to_string(), "the server refused publish_name with code 1");
    assert_eq!(pmi.publish(b"s", b"p"), Err(taken));
    assert_eq!(pmi.finalize(), Ok(()));
}

// Coverage: A2-12
#[test]
fn value_that_does_not_fit_can_be_asked_for_again() {
    let answer = "cmd=get_result rc=0 value=12345\n";
    let mut pmi = open(&[answer, answer]);
    assert_eq!(pmi.get(b"k", &mut [0; 4]), Err(CallError::Full(Full { needed: 5 })));
    assert_eq!(pmi.get(b"k", &mut [0; 5]), Ok(Some(5)));
}

#[test]
fn call_that_cannot_be_meant_sends_nothing() {
    let mut pmi = open(&["cmd=put_result rc=0\n"]);
    let asked = pmi.put(b"a b", b"v");
    assert!(matches!(asked, Err(CallError::Misuse(Misuse::NotRepresentable { .. }))));
    assert!(matches!(pmi.put(&[b'k'; 64], b"v"), Err(CallError::Misuse(Misuse::Length { .. }))));
    let group = pmi.fence_group(FenceGroup::Node, 1);
    assert!(matches!(group, Err(CallError::Misuse(Misuse::NotRepresentable { .. }))));
    assert_eq!(pmi.put(b"k", b"v"), Ok(()));
    assert!(
        pmi.into_inner()
            .0
            .asked()
            .ends_with("get_my_kvsname\ncmd=put kvsname=kvs_0 key=k value=v\n")
    );
}

#[test]
fn bytes_after_a_reply_fail_the_next_call() {
    let mut pmi = open(&["cmd=put_result rc=0\ncmd=put_result rc=0\n"]);
    assert_eq!(pmi.put(b"k", b"v"), Ok(()));
    let fault = pmi.put(b"k", b"v");
    assert!(matches!(fault, Err(CallError::Peer(PeerError::OutOfOrder { .. }))), "{fault:?}");
}

#[test]
fn server_that_disconnects_or_refuses_the_handshake_is_reported() {
    let mut pmi = open(&[]);
    assert_eq!(pmi.fence(), Err(CallError::Peer(PeerError::LeftEarly)));
    assert_eq!(pmi.fence(), Err(CallError::Peer(PeerError::LeftEarly)));
    let mut pmi = blocking::Pmi::new(Waits(script(9, &["cmd=response_to_init rc=-1\n"])));
    let refused = CallError::Peer(PeerError::Refused(Code::FAIL));
    assert_eq!(pmi.init(Version::V1_1), Err(refused));
}

#[test]
fn abort_is_sent_and_not_waited_for() {
    let mut pmi = open(&[]);
    assert_eq!(pmi.abort(3, b"out of luck"), Ok(()));
    assert!(pmi.client().state() == pmi_core::client::State::Ended);
    assert!(matches!(pmi.abort(3, b""), Err(CallError::Misuse(_))));
    assert!(pmi.into_inner().0.asked().ends_with("cmd=abort exitcode=3 message=out of luck\n"));
}

#[test]
fn spawn_uses_the_room_that_is_lent_for_it() {
    let arguments = [Text::from("-v")];
    let program = Program {
        executable: "./child".into(),
        processes: 2,
        arguments: Argument::Given(&arguments),
        info: InfoList::Given(&[]),
    };
    let spawn = Spawn::Given { programs: &[program], preputs: &[] };
    // The block has nine lines, and the peer replies to the last one.
    let mut answers = [""; 9];
    for (answer, job, codes) in [
        ("cmd=spawn_result rc=0\n", None, &[][..]),
        ("cmd=spawn_result rc=0 jobid=7.1\n", Some(&b"7.1"[..]), &[]),
        ("cmd=spawn_result rc=0 errcodes=0,-3,x\n", None, &[0, -3, -1]),
        ("cmd=spawn_result rc=0 jobid=7.1 errcodes=14\n", Some(b"7.1"), &[14]),
    ] {
        answers[8] = answer;
        let mut pmi = open(&answers);
        let needed = CallError::Full(Full { needed: 320 });
        assert_eq!(pmi.spawn(spawn, &mut [0; 319]), Err(SpawnError::Call(needed)));
        let mut scratch = [0; 320];
        let spawned = pmi.spawn(spawn, &mut scratch).unwrap();
        assert_eq!(spawned.job, job, "{answer}");
        assert!(spawned.codes().eq(codes.iter().map(|code| Code(*code))), "{answer}");
        assert!(pmi.into_inner().0.asked().contains("mcmd=spawn\nnprocs=2\nexecname=./child\n"));
    }
    for (answer, code, expected) in [
        ("cmd=spawn_result rc=5\n", 5, &[][..]),
        ("cmd=spawn_result rc=-1 msg=no_room\n", -1, &[]),
        ("cmd=spawn_result rc=3 errcodes=0,14\n", 3, &[0, 14]),
    ] {
        answers[8] = answer;
        let mut scratch = [0; 320];
        let mut pmi = open(&answers);
        let error = pmi.spawn(spawn, &mut scratch).unwrap_err();
        let SpawnError::Refused { code: told, codes } = error else { panic!("{error:?}") };
        assert_eq!(told, Code(code), "{answer}");
        assert!(codes.iter().eq(expected.iter().map(|code| Code(*code))), "{answer}");
        let refused = CallError::Refused { verb: Verb::Spawn, code: Code(code) };
        assert_eq!(CallError::from(error), refused);
    }
}

#[test]
fn codes_of_a_spawn_that_do_not_fit_are_left_out_whole() {
    let codes: &'static str = "12,".repeat(600).leak();
    let answer: &'static str =
        format!("cmd=spawn_result rc=0 errcodes={}\n", &codes[..1000]).leak();
    let program = Program {
        executable: "./child".into(),
        processes: 334,
        arguments: Argument::Given(&[]),
        info: InfoList::Given(&[]),
    };
    let mut answers = [""; 8];
    answers[7] = answer;
    let mut pmi = open(&answers);
    let mut scratch = [0; 320];
    let spawned = pmi.spawn(Spawn::Given { programs: &[program], preputs: &[] }, &mut scratch);
    assert!(spawned.unwrap().codes().eq(std::iter::repeat_n(Code(12), 106)));
}

#[test]
fn group_meets_where_the_version_has_groups() {
    let answers = [INIT_1_2, "cmd=barrier_out rc=0 tag=7\n"];
    let mut pmi = task::AsyncPmi::new(Awaited(script(5, &answers)));
    block_on(async {
        pmi.init(Version::V1_2).await.unwrap();
        pmi.fence_group(FenceGroup::Ranks(b"0,2"), 7).await.unwrap();
    });
    assert!(pmi.into_inner().0.asked().ends_with("cmd=barrier_in group=0,2:7\n"));
}

#[test]
fn calls_of_two_tasks_take_turns() {
    let order = RefCell::new(Vec::new());
    let talk = |name: &'static str| {
        let order = &order;
        async move {
            let mut pmi = task::AsyncPmi::new(Awaited(script(3, &[INIT, "cmd=barrier_out\n"])));
            pmi.init(Version::V1_1).await.unwrap();
            order.borrow_mut().push(name);
            pmi.fence().await.unwrap();
            order.borrow_mut().push(name);
        }
    };
    block_on(zip(talk("a"), talk("b")));
    assert_eq!(*order.borrow(), ["a", "b", "a", "b"]);
}

#[test]
fn future_of_a_call_waits_without_spinning() {
    // The peer never answers; the future is pending once for every poll and does not return.
    struct Silent;
    impl embedded_io::ErrorType for Silent {
        type Error = Infallible;
    }
    impl embedded_io_async::Read for Silent {
        async fn read(&mut self, _: &mut [u8]) -> Result<usize, Infallible> {
            pending().await
        }
    }
    impl embedded_io_async::Write for Silent {
        async fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
            Ok(bytes.len())
        }
        async fn flush(&mut self) -> Result<(), Infallible> {
            Ok(())
        }
    }
    let mut pmi = task::AsyncPmi::new(Silent);
    let mut call = pin!(pmi.init(Version::V1_1));
    block_on(poll_fn(|context| {
        assert!(call.as_mut().poll(context).is_pending());
        assert!(call.as_mut().poll(context).is_pending());
        Poll::Ready(())
    }));
}

#[test]
fn call_can_go_on_in_another_thread_than_it_began_in() {
    fn other_thread<F: Future + Send>(call: F) -> F {
        call
    }
    let opening = task::Opening::new(Version::V2_0);
    let mut pmi = task::AsyncPmi::new(Awaited(script(1000, &[INIT, NAME])));
    let fault = block_on(other_thread(pmi.open(&opening, &mut [])));
    assert!(matches!(fault, Err(CallError::Peer(PeerError::Version { .. }))), "{fault:?}");
    let mut out = [0; 4];
    assert!(block_on(other_thread(pmi.get_node(b"k", true, &mut out))).is_err());
    assert!(block_on(other_thread(pmi.get_all(b"j", &mut |_| ()))).is_err());
}

#[test]
fn error_of_the_stream_is_reported_in_its_own_words() {
    let io: CallError<std::io::Error> = CallError::Io(std::io::ErrorKind::BrokenPipe.into());
    assert_eq!(io.to_string(), "broken pipe");
}

#[test]
fn server_of_one_generation_is_asked_again_for_what_it_speaks() {
    for answer in [
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n",
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
        "cmd=response_to_init rc=-1\n",
    ] {
        let mut pmi = blocking::Pmi::new(Waits(script(7, &[answer, INIT, NAME])));
        let fault = match pmi.init(Version::V2_0).unwrap_err() {
            CallError::Peer(fault) => fault,
            other => panic!("{other}"),
        };
        let none = PeerError::Version { major: 1, minor: 1 };
        assert!([none, PeerError::Refused(Code::FAIL)].contains(&fault), "{fault}");
        let mut pmi = blocking::Pmi::new(pmi.into_inner());
        assert_eq!(pmi.init(Version::V1_1), Ok(Version::V1_1));
        assert_eq!(pmi.job_id().unwrap().as_bytes(), b"kvs_0");
    }
}

#[test]
fn calls_of_the_other_version_are_not_sent() {
    let mut pmi = open(&["cmd=get_result rc=0 value=(vector,(0,1,1))\n"]);
    let mut out = [0; 32];
    let nothing = &mut |_: pmi_core::command::Pair<'_>| panic!("nothing was asked");
    for said in [
        pmi.put_node(b"k", b"v"),
        pmi.get_node(b"k", true, &mut out).map(drop),
        pmi.node_numbers(b"k", false, &mut []).map(drop),
        pmi.connect_job(b"j").map(drop),
        pmi.disconnect_job(b"j"),
        pmi.ring(b"", b"", [&mut [], &mut []]).map(drop),
        pmi.get_all(b"j", nothing).map(drop),
        pmi.put_all(b"j", &[]),
    ] {
        assert!(
            matches!(said, Err(CallError::Misuse(Misuse::NotRepresentable { .. }))),
            "{said:?}"
        );
    }
    // Values of a process manager lie in the space of the job.
    assert_eq!(pmi.job_attribute(b"PMI_process_mapping", &mut out), Ok(Some(16)));
    let asked = pmi.into_inner().0;
    assert!(asked.asked().ends_with("kvsname\ncmd=get kvsname=kvs_0 key=PMI_process_mapping\n"));
}
