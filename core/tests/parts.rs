//! A build that leaves parts out: the other parts work, and a request of a missing part is refused like
//! any unknown command. `cargo test -p pmi-core --no-default-features --test parts` runs it; with all
//! parts there is nothing to check, and the test reports so.

use pmi_core::client::{BUFFER_BYTES, Client};
use pmi_core::command::{FenceGroup, Place as At, Request, Text, Verb, Version};
use pmi_core::error::Misuse;
use pmi_core::machine::Machine;
use pmi_core::parts;
use pmi_core::storage::ArrayBuffer;
use pmi_core::time::Instant;
use pmi_core::wire::names;
use pmi_testkit::TestServer;
use pmi_testkit::server::{Inbox, JOB_NAME, unidentified};

/// The reply to a rank's `line`.
fn reply(server: &mut TestServer, rank: usize, line: &str) -> String {
    // An unsupported version ends the session, and is still answered.
    let taken = server.send(rank, line);
    assert!(taken == Ok(line.len()) || line.contains("pmi_version=2"), "{line}{taken:?}");
    server.recv(rank)
}

#[test]
fn word_of_a_part_is_known_just_where_the_part_is() {
    for (word, is_there) in [
        ("put", true),
        ("barrier_in", true),
        ("publish_name", parts::NAMES),
        ("lookup_name", parts::NAMES),
        ("spawn", parts::SPAWN),
        ("initack", parts::LISTEN),
        ("init_oob", parts::LISTEN),
    ] {
        assert_eq!(names::find(word.as_bytes(), |w| w.line).is_some(), is_there, "{word}");
    }
    assert_eq!(names::find(b"kvs-getall", |w| w.frame).is_some(), parts::CONNECT);
    assert!(names::has(Verb::Put) && names::has(Verb::Unknown));
}

#[test]
fn put_fence_get_needs_no_part() {
    let mut server = TestServer::new(2);
    server.init_all();
    let put = format!("cmd=put kvsname={JOB_NAME} key=a value=x y\n");
    assert_eq!(server.request(0, &put), "cmd=put_result rc=0\n");
    assert_eq!(server.request(0, "cmd=barrier_in\n"), "");
    assert!(server.request(1, "cmd=barrier_in\n").starts_with("cmd=barrier_out rc=0"));
    assert!(server.recv(0).starts_with("cmd=barrier_out rc=0"));
    let get = format!("cmd=get kvsname={JOB_NAME} key=a\n");
    assert_eq!(server.request(1, &get), "cmd=get_result rc=0 value=x y\n");
    assert_eq!(server.request(0, "cmd=finalize\n"), "cmd=finalize_ack rc=0\n");
}

#[test]
fn server_refuses_what_it_leaves_out_and_goes_on() {
    let mut server = TestServer::new(2);
    let newest = reply(&mut server, 0, "cmd=init pmi_version=1 pmi_subversion=2\n");
    assert_eq!(newest.contains("pmi_subversion=2"), parts::GROUPS, "{newest}");
    for (line, is_there) in [
        ("cmd=publish_name service=s port=p\n", parts::NAMES),
        ("cmd=barrier_in group=0\n", parts::GROUPS),
        ("cmd=barrier_in group=0:5\n", parts::GROUPS),
    ] {
        let answer = reply(&mut server, 0, line);
        assert_eq!(answer.contains("rc=0"), is_there, "{line}{answer}");
        assert!(answer.ends_with('\n'), "{line}{answer}");
        assert!(reply(&mut server, 0, "cmd=get_appnum\n").starts_with("cmd=appnum rc=0"));
    }
    let display_name = reply(&mut server, 1, "cmd=init pmi_version=2 pmi_subversion=0\n");
    assert_eq!(display_name.contains("rc=0"), parts::PMI2, "{display_name}");
    assert_eq!(
        display_name.contains("pmi_version=1 pmi_subversion=1"),
        !parts::PMI2 && !parts::GROUPS
    );

    server.server.close(server.sessions[1]);
    let caller = unidentified(server.job);
    let opened = server.server.open(caller, Inbox::new(), [const { None }; 4]);
    assert_eq!(opened.is_ok(), parts::LISTEN);
}

#[test]
fn client_does_not_start_what_it_leaves_out() {
    let mut client: Client<ArrayBuffer<BUFFER_BYTES>> = Client::fixed();
    let starts = |client: &mut Client<_>, request| match client.start(&request) {
        Ok(_) => true,
        Err(Misuse::NotRepresentable { .. }) => false,
        Err(other) => panic!("{request:?}: {other:?}"),
    };
    if !parts::PMI2 {
        assert!(!starts(&mut client, Request::Init { version: Version::V2_0 }));
    }
    assert!(starts(&mut client, Request::Init { version: Version::V1_2 }));
    client.poll_transmit(&mut [0; 64]).expect("room for a line");
    let answer = b"cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2\n";
    assert_eq!(client.handle_input(Instant::ZERO, answer), Ok(answer.len()));
    assert!(client.poll_event().is_some());

    let text = Text::from("s");
    assert_eq!(starts(&mut client, Request::Lookup { service: text }), parts::NAMES);
    if !parts::NAMES {
        let group = FenceGroup::Ranks(b"0");
        assert_eq!(starts(&mut client, Request::Fence { group, tag: None }), parts::GROUPS);
    }
    if !parts::NAMES && !parts::GROUPS {
        let other = At::Job(Some(Text::from("kvs")));
        assert!(starts(&mut client, Request::Get { place: other, key: text, wait: false }));
    }
}

#[test]
fn client_names_the_part_that_a_request_lacks() {
    let mut client: Client<ArrayBuffer<BUFFER_BYTES>> = Client::fixed();
    let dialling = client.start(&Request::InitAck { id: 7 });
    match dialling {
        Err(Misuse::NotRepresentable { what }) => {
            assert!(!parts::LISTEN && what.contains("`listen`"), "{what}")
        }
        other => assert!(parts::LISTEN && other.is_ok(), "{other:?}"),
    }
    let mut client: Client<ArrayBuffer<BUFFER_BYTES>> = Client::fixed();
    client.start(&Request::Init { version: Version::V1_2 }).unwrap();
    client.poll_transmit(&mut [0; 128]).unwrap();
    let answer = b"cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2\n";
    assert_eq!(client.handle_input(Instant::ZERO, answer), Ok(answer.len()));
    while client.poll_event().is_some() {}
    match client.start(&Request::Fence { group: FenceGroup::Node, tag: Some(1) }) {
        Err(Misuse::NotRepresentable { what }) => {
            assert!(!parts::GROUPS && what.contains("`dynamic`"), "{what}");
        }
        other => assert!(parts::GROUPS && other.is_ok(), "{other:?}"),
    }
}
