//! The second connection, with a server that violates the protocol.

use super::NOW;
use crate::client::{LISTENER_BYTES, Listener, ListenerEvent};
use crate::command::{Notice, Version};
use crate::error::{Code, Full, Misuse, PeerError};
use crate::machine::Machine;
use crate::storage::ArrayBuffer;

type Small = ArrayBuffer<LISTENER_BYTES>;

fn opening(version: Version) -> Listener<Small> {
    let mut listener = Listener::new(Small::new(), 3, None, version).unwrap();
    assert!(listener.poll_transmit(&mut [0; 128]).unwrap().is_some());
    listener
}

fn open(version: Version) -> Listener<Small> {
    let mut listener = opening(version);
    let Version { major, minor } = version;
    let answer =
        std::format!("cmd=response_to_init_oob rc=0 pmi_version={major} pmi_subversion={minor}\n");
    assert_eq!(listener.handle_input(NOW, answer.as_bytes()), Ok(answer.len()));
    assert_eq!(listener.poll_event(), Some(ListenerEvent::Opened(version)));
    assert_eq!(listener.version(), Some(version));
    listener
}

#[test]
fn invalid_openings_are_refused_before_anything_is_sent() {
    let new = |signal, version| Listener::new(Small::new(), 0, signal, version).map(drop);
    assert_eq!(new(Some("SIGRTMIN-3"), Version::V1_1), Ok(()));
    for signal in ["SIG USR1", "USR1\n", "\u{e9}"] {
        assert!(matches!(new(Some(signal), Version::V1_1), Err(Misuse::NotRepresentable { .. })));
    }
    for signal in ["", "SIGUSR1SIGUSR1SIGUSR1SIGUSR1SIGUSR1"] {
        assert!(matches!(new(Some(signal), Version::V2_0), Err(Misuse::Length { .. })));
    }
    for version in [Version { major: 3, minor: 0 }, Version::BINARY] {
        assert!(matches!(new(None, version), Err(Misuse::NotRepresentable { .. })));
    }
}

#[test]
fn opening_that_does_not_fit_is_owed_until_it_does() {
    let mut listener = Listener::new(Small::new(), 3, None, Version::V1_1).unwrap();
    let mut out = [0; 128];
    let Err(Full { needed }) = listener.poll_transmit(&mut out[..5]) else { panic!("it fits") };
    assert_eq!(listener.poll_transmit(&mut out[..needed]), Ok(Some(needed)));
    assert_eq!(listener.poll_transmit(&mut out), Ok(None));
}

#[test]
fn server_that_does_not_open_is_told_as_what_it_is() {
    for (answer, error) in [
        ("cmd=response_to_init_oob rc=1 msg=no\n", PeerError::Refused(Code(1))),
        ("cmd=unknown rc=-1\n", PeerError::Refused(Code(-1))),
        (
            "cmd=response_to_init_oob rc=0 pmi_version=1 pmi_subversion=1\n",
            PeerError::Version { major: 1, minor: 1 },
        ),
        (
            "cmd=checkpoint\n",
            PeerError::OutOfOrder { got: "an unknown answer", expected: "response_to_init_oob" },
        ),
    ] {
        let mut listener = opening(Version::V2_0);
        assert_eq!(listener.handle_input(NOW, answer.as_bytes()), Err(error), "{answer}");
        assert_eq!(listener.handle_input(NOW, b"more"), Err(error), "the first error stays");
        assert_eq!(listener.handle_end(NOW), Err(error));
        assert!(listener.is_finished());
    }
    let mut listener = opening(Version::V1_1);
    assert_eq!(listener.handle_end(NOW), Err(PeerError::LeftEarly));
    // No input may arrive before the opening was sent.
    let mut fresh = Listener::new(Small::new(), 3, None, Version::V1_1).unwrap();
    let answer = b"cmd=response_to_init_oob rc=0 pmi_version=1 pmi_subversion=1\n";
    assert!(matches!(fresh.handle_input(NOW, answer), Err(PeerError::OutOfOrder { .. })));
}

#[test]
fn notices_come_one_by_one_and_nothing_else_may() {
    let mut listener = open(Version::V2_0);
    let two = b"    15cmd=checkpoint;    22cmd=abort;exitcode=42;";
    assert_eq!(listener.handle_input(NOW, two), Ok(21));
    assert_eq!(listener.handle_input(NOW, &two[21..]), Ok(0), "the first was not polled");
    assert_eq!(listener.poll_event(), Some(ListenerEvent::Notice(Notice::Checkpoint)));
    assert_eq!(listener.poll_event(), None);
    assert_eq!(listener.handle_input(NOW, &two[21..]), Ok(28));
    assert_eq!(listener.handle_end(NOW), Ok(()));
    assert!(!listener.is_finished(), "the last notice was not polled");
    assert_eq!(listener.poll_event(), Some(ListenerEvent::Notice(Notice::Abort(42))));
    assert!(listener.is_finished());

    let mut listener = open(Version::V1_1);
    let error = listener.handle_input(NOW, b"cmd=put_result rc=0\n").unwrap_err();
    assert!(matches!(error, PeerError::OutOfOrder { got: "put_result", .. }), "{error}");
    let mut listener = open(Version::V2_0);
    let limit_bytes = LISTENER_BYTES;
    let error = Err(PeerError::MessageTooLong { limit_bytes });
    let long = [b"   300".as_slice(), &[b'x'; 300]].concat();
    assert_eq!(listener.handle_input(NOW, &long), error);
}
