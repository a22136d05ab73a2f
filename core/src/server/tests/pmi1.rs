use std::format;
use std::string::ToString;

use super::*;
use crate::command::CodeRun;
use crate::time::Duration;

// Coverage: R13-6
#[test]
fn member_learns_who_it_is_and_how_long_things_may_be() {
    let mut world = TestServer::new(2);
    world.init_all();
    for (line, received) in [
        ("get_maxes", "maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024"),
        ("get_appnum", "appnum rc=0 appnum=0"),
        ("get_universe_size", "universe_size rc=0 size=16"),
        ("get_my_kvsname", "my_kvsname rc=0 kvsname=kvs_1"),
    ] {
        assert_eq!(world.request(1, &format!("cmd={line}\n")), format!("cmd={received}\n"));
    }
    assert_eq!(world.phase(1), Phase::Open);
}

// Coverage: R13-10
#[test]
fn put_is_seen_by_others_after_the_fence_and_by_oneself_at_once() {
    let mut world = TestServer::new(2);
    world.init_all();
    assert_eq!(
        world.request(0, "cmd=put kvsname=kvs_1 key=a value=x y\n"),
        "cmd=put_result rc=0\n"
    );
    let get = "cmd=get kvsname=kvs_1 key=a\n";
    assert_eq!(world.request(0, get), "cmd=get_result rc=0 value=x y\n");
    assert_eq!(world.request(1, get), "cmd=get_result rc=4\n");
    assert_eq!(world.request(1, "cmd=barrier_in\n"), "");
    assert_eq!(world.missing(), [0]);
    assert_eq!(world.request(0, "cmd=barrier_in\n"), "cmd=barrier_out rc=0\n");
    assert!(world.ready().contains(&world.sessions[1].0));
    assert_eq!(world.recv(1), "cmd=barrier_out rc=0\n");
    assert_eq!(world.request(1, get), "cmd=get_result rc=0 value=x y\n");
    assert_eq!(world.request(1, "cmd=get kvsname=other key=a\n"), "cmd=get_result rc=4\n");
}

#[test]
fn node_local_keys_are_visible_on_their_node_before_any_fence_and_never_elsewhere() {
    let mut world = TestServer::new(4);
    world.init_all();
    world.request(0, "cmd=put kvsname=kvs_1 key=local::segment value=/dev/shm/a\n");
    world.request(2, "cmd=put kvsname=kvs_1 key=local::segment value=/dev/shm/b\n");
    let get = "cmd=get kvsname=kvs_1 key=local::segment\n";
    let received: Vec<String> = (0..4).map(|rank| world.request(rank, get)).collect();
    let [first, second] =
        ["a", "b"].map(|name| format!("cmd=get_result rc=0 value=/dev/shm/{name}\n"));
    assert_eq!(received, [&*first, &first, &second, &second]);
    // A rank of another node puts a key of its own, which is no conflict.
    assert!(world.server.poll_event().is_none());
}

// Coverage: A2-19
#[test]
fn values_of_the_manager_cannot_be_replaced() {
    let mut world = TestServer::new(1);
    world.server.preset(world.job, b"PMI_process_mapping", b"(vector,(0,1,1))").unwrap();
    world.server.preput(world.job, b"PARENT", b"port").unwrap();
    world.init_all();
    let mapping = "cmd=get kvsname=kvs_1 key=PMI_process_mapping\n";
    world.request(0, "cmd=put kvsname=kvs_1 key=PMI_process_mapping value=no\n");
    assert_eq!(world.request(0, mapping), "cmd=get_result rc=0 value=(vector,(0,1,1))\n");
    assert_eq!(world.request(0, "cmd=get key=PARENT\n"), "cmd=get_result rc=0 value=port\n");
}

// Coverage: R13-12
#[test]
fn many_fences_follow_each_other_and_a_fast_rank_waits() {
    let mut world = TestServer::new(3);
    world.init_all();
    for _ in 0..4 {
        for rank in 0..3 {
            world.send(rank, "cmd=barrier_in\n").unwrap();
        }
        for rank in 0..3 {
            assert_eq!(world.recv(rank), "cmd=barrier_out rc=0\n");
        }
    }
}

// Coverage: R13-18
#[test]
fn questions_sent_in_one_piece_are_answered_in_their_order() {
    let mut world = TestServer::new(2);
    world.init_all();
    let all = "cmd=put key=a value=1\ncmd=barrier_in\ncmd=get key=b\n";
    assert_eq!(world.request(0, all), "cmd=put_result rc=0\n");
    let other = "cmd=put key=b value=2\ncmd=barrier_in\ncmd=get key=a\n";
    let received = world.request(1, other);
    assert_eq!(
        received,
        "cmd=put_result rc=0\ncmd=barrier_out rc=0\ncmd=get_result rc=0 value=1\n"
    );
    assert_eq!(world.recv(0), "cmd=barrier_out rc=0\ncmd=get_result rc=0 value=2\n");
}

#[test]
fn message_may_come_in_any_pieces() {
    let text = "cmd=init pmi_version=1 pmi_subversion=1\n\r\ncmd=get_maxes\ncmd=finalize\n";
    let mut whole = TestServer::new(1);
    let received = whole.request(0, text);
    assert!(received.ends_with("cmd=finalize_ack rc=0\n"));
    for cut in 0..text.len() {
        let mut world = TestServer::new(1);
        let first = world.request(0, &text[..cut]);
        assert_eq!(first + &world.request(0, &text[cut..]), received, "cut at {cut}");
    }
}

// Coverage: R13-7
#[test]
fn finalize_is_answered_and_then_the_session_is_over() {
    let mut world = TestServer::new(1);
    world.init_all();
    world.send(0, "cmd=finalize\ncmd=get_maxes\n").unwrap();
    assert!(!world.server.session(world.sessions[0]).unwrap().is_finished());
    assert_eq!(world.recv(0), "cmd=finalize_ack rc=0\n");
    assert!(world.server.session(world.sessions[0]).unwrap().is_finished());
    assert_eq!(world.phase(0), Phase::Finalized);
    assert_eq!(world.server.session(world.sessions[0]).unwrap().handle_end(NOW), Ok(()));
}

#[test]
fn abort_is_told_at_once_and_nothing_after_it_is_heard() {
    let mut world = TestServer::new(2);
    world.init_all();
    assert_eq!(world.request(1, "cmd=abort exitcode=42 message=bye bye\ncmd=finalize\n"), "");
    let message = Excerpt::new(*b"bye bye");
    let told =
        Event::Aborted { job: world.job, rank: Rank(1), code: Some(42), world: true, message };
    assert_eq!(world.server.poll_event(), Some(told.clone()));
    assert_eq!(world.server.poll_event(), None);
    assert_eq!(world.phase(1), Phase::Lost);
    // The abort counts even if its sender has closed before the event is polled.
    let mut world = TestServer::new(2);
    world.init_all();
    world.send(1, "cmd=abort exitcode=42 message=bye bye\n").unwrap();
    assert_eq!(world.server.close(world.sessions[1]), Some(told));
}

#[test]
fn mistake_is_told_and_the_session_goes_on() {
    let mut world = TestServer::new(1);
    let early = world.request(0, "cmd=put key=a value=b\n");
    assert_eq!(early, "cmd=put_result rc=-1 msg=expected_init\n");
    world.init_all();
    let long_key = "k".repeat(65);
    let long_value = "v".repeat(1025);
    for (line, received) in [
        ("cmd=dance fast=yes".to_string(), "cmd=dance_result rc=-1 msg=not_supported_dance"),
        ("cmd=put key=a".to_string(), "cmd=put_result rc=3 msg=value_is_missing_or_wrong"),
        ("cmd=put value=a".to_string(), "cmd=put_result rc=3 msg=key_is_missing_or_wrong"),
        ("cmd=put key= value=".to_string(), "cmd=put_result rc=0"),
        (
            format!("cmd=put key={long_key} value=b"),
            "cmd=put_result rc=5 msg=key_kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk_65_bytes_over_limit_64_at_rank_0",
        ),
        (
            format!("cmd=put key=a value={long_value}"),
            "cmd=put_result rc=7 msg=value_a_1025_bytes_over_limit_1024_at_rank_0",
        ),
        ("cmd=spawn".to_string(), "cmd=spawn_result rc=3 msg=mcmd=spawn_is_missing_or_wrong"),
        (
            "cmd=get_maxes".to_string(),
            "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024",
        ),
    ] {
        assert_eq!(world.request(0, &format!("{line}\n")), format!("{received}\n"));
    }
}

// Coverage: R13-21
#[test]
fn bytes_that_are_no_message_end_only_their_session() {
    for garbage in ["GET / HTTP/1.1\r\n", "\0\0\0\0", "x y", "cmd\n", "     41cmd=fullinit;"] {
        let mut world = TestServer::new(2);
        world.init_all();
        let error = world.send(0, garbage).unwrap_err();
        assert!(matches!(error, PeerError::Malformed(_)), "{garbage:?}: {error}");
        assert!(world.recv(0).starts_with("cmd=unparseable_msg rc=-1 msg=expected_cmd=_at_byte_"));
        assert!(world.server.session(world.sessions[0]).unwrap().is_finished());
        assert_eq!(world.send(0, "cmd=get_maxes\n"), Err(error));
        assert!(world.request(1, "cmd=get_appnum\n").starts_with("cmd=appnum"));
    }
}

#[test]
fn message_without_an_end_is_given_up_when_the_memory_is() {
    let mut world = TestServer::new(1);
    world.init_all();
    let piece = format!("cmd=put key=a value={}", "v".repeat(1000));
    world.send(0, &piece).unwrap();
    let error = (0..9).find_map(|_| world.send(0, &"v".repeat(1000)).err()).unwrap();
    assert_eq!(error, PeerError::MessageTooLong { limit_bytes: MESSAGE_BYTES });
    assert!(world.recv(0).contains("the_end_of_a_message"));
}

// Coverage: W2-13, R13-1
#[test]
fn versions_are_agreed_on_or_refused_with_the_name_of_the_rank() {
    for (asked, agreed) in [((1, 0), (1, 1)), ((1, 1), (1, 1)), ((1, 2), (1, 2)), ((1, 9), (1, 2))]
    {
        let mut world = TestServer::new(1);
        let line = format!("cmd=init pmi_version={} pmi_subversion={}\n", asked.0, asked.1);
        let (major, minor) = agreed;
        let received =
            format!("cmd=response_to_init rc=0 pmi_version={major} pmi_subversion={minor}\n");
        assert_eq!(world.request(0, &line), received);
    }
    let mut world = TestServer::new(2);
    let received = world.request(1, "cmd=init pmi_version=3 pmi_subversion=0\n");
    assert!(
        received.starts_with("cmd=response_to_init rc=-1 pmi_version=2 pmi_subversion=0 msg="),
        "{received}"
    );
    assert!(received.ends_with("for_rank_1\n"), "{received}");
}

// Coverage: A2-6
#[test]
fn client_whose_version_was_refused_may_request_another_one() {
    for asked in ["pmi_version=3 pmi_subversion=0", "pmi_version=0 pmi_subversion=9"] {
        let mut world = TestServer::new(2);
        let refused = world.request(0, &format!("cmd=init {asked}\n"));
        assert!(refused.starts_with("cmd=response_to_init rc=-1 pmi_version=2"), "{refused}");
        // It is no member yet.
        assert!(world.request(0, "cmd=barrier_in\n").contains("rc=-1"));
        let agreed = world.request(0, "cmd=init pmi_version=2 pmi_subversion=0\n");
        assert_eq!(agreed, "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n");
        assert_eq!(world.phase(0), Phase::Open);
        // In an open session a further refusal changes nothing.
        assert!(world.request(0, &format!("cmd=init {asked}\n")).contains("rc=-1"));
        assert_eq!(world.phase(0), Phase::Open);
    }
    let mut world = TestServer::without_sessions(2);
    world.open(Peer::Unidentified { job: world.job, deadline: None, challenge: None });
    assert!(world.request(0, "cmd=init pmi_version=3 pmi_subversion=0\n").contains("rc=-1"));
    assert!(world.request(0, "cmd=init pmi_version=2 pmi_subversion=0\n").contains("rc=0"));
}

#[test]
fn client_that_ends_after_its_version_was_refused_has_failed() {
    let mut world = TestServer::new(1);
    world.request(0, "cmd=init pmi_version=3 pmi_subversion=1\n");
    let ended = world.server.session(world.sessions[0]).unwrap().handle_end(NOW);
    assert_eq!(ended, Err(PeerError::Version { major: 3, minor: 1 }));
}

#[test]
fn pairs_of_a_spawn_are_limited_as_those_of_a_put() {
    let text = |key: &str, value: &str| {
        format!(
            "mcmd=spawn\nnprocs=1\nexecname=/bin/a\ntotspawns=1\nspawnssofar=1\nargcnt=0\n\
             preput_num=1\npreput_key_0={key}\npreput_val_0={value}\ninfo_num=0\nendcmd\n"
        )
    };
    let [key, value] = ["k".repeat(65), "v".repeat(1025)];
    for (key, value, refused) in [
        ("k", &*value, "rc=7 msg=value_k_1025_bytes_over_limit_1024_at_rank_0"),
        (
            &*key,
            "v",
            "rc=5 msg=key_kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk_65_bytes_over_limit_64_at_rank_0",
        ),
        ("", "v", "rc=3 msg=key_is_missing_or_wrong"),
    ] {
        let mut world = TestServer::new(1);
        world.init_all();
        let received = world.request(0, &text(key, value));
        assert_eq!(received, format!("cmd=spawn_result {refused}\n"));
        assert_eq!(world.server.poll_event(), None);
    }
    for (key, value) in [("k", &value[1..]), (&key[1..], "v"), ("k", "")] {
        let mut world = TestServer::new(1);
        world.init_all();
        world.send(0, &text(key, value)).unwrap();
        assert!(matches!(world.server.poll_event(), Some(Event::Spawn { .. })));
    }
    let mut world = TestServer::new(1);
    let (job, limit) = (world.job, VALUE_BYTES);
    assert_eq!(world.server.preput(job, b"k", &value.as_bytes()[1..]), Ok(()));
    let long = Misuse::Length { what: "value", len_bytes: limit + 1, limit_bytes: limit };
    assert_eq!(world.server.preput(job, b"k", value.as_bytes()), Err(long));
}

#[test]
fn reply_that_no_buffer_holds_is_a_refusal_and_no_fault_of_the_peer() {
    let mut world = TestServer::new(1);
    world.init_all();
    // Past all checks, as an owner with values of its own might.
    let (key, value) = (b"k", "v".repeat(crate::limits::REPLY_BYTES));
    let job = world.server.shared.job_mut(world.job).unwrap();
    job.preset(Keyspace::Space, key, value.as_bytes()).unwrap();
    world.send(0, "cmd=get kvsname=kvs_1 key=k\n").unwrap();
    let mut out = [0; crate::limits::REPLY_BYTES];
    let mut session = world.server.session(world.sessions[0]).unwrap();
    let len = session.poll_transmit(&mut out).unwrap().unwrap();
    let received = str::from_utf8(&out[..len]).unwrap();
    assert!(received.starts_with("cmd=get_result rc=7 msg=reply_"), "{received}");
    assert!(world.request(0, "cmd=get_appnum\n").contains("rc=0"));
}

#[test]
fn services_of_256_bytes_are_published_and_no_longer_ones() {
    let mut world = TestServer::new(1);
    world.init_all();
    let (longest, port) = ("s".repeat(256), "p".repeat(1024));
    let published = world.request(0, &format!("cmd=publish_name service={longest} port={port}\n"));
    assert!(published.contains("rc=0"), "{published}");
    let found = world.request(0, &format!("cmd=lookup_name service={longest}\n"));
    assert!(found.contains(&port), "{found}");
    let gone = world.request(0, &format!("cmd=unpublish_name service={longest}\n"));
    assert!(gone.contains("rc=0"), "{gone}");
    let name = "s".repeat(32);
    for (service, port, refused) in [
        (
            format!("{longest}s"),
            "p",
            format!("rc=7 msg=service_{name}_257_bytes_over_limit_256_at_rank_0"),
        ),
        (
            "s".into(),
            &*format!("{port}p"),
            "rc=7 msg=port_s_1025_bytes_over_limit_1024_at_rank_0".into(),
        ),
    ] {
        let received =
            world.request(0, &format!("cmd=publish_name service={service} port={port}\n"));
        assert!(received.contains(&refused), "{received}");
    }
}

#[test]
fn member_that_disconnects_early_is_lost_and_reported_to_a_waiting_fence() {
    let mut world = TestServer::new(3);
    world.init_all();
    world.send(0, "cmd=barrier_in\n").unwrap();
    let mut session = world.server.session(world.sessions[2]).unwrap();
    assert_eq!(session.handle_end(NOW), Err(PeerError::LeftEarly));
    world.server.close(world.sessions[2]);
    assert_eq!(world.phase(2), Phase::Lost);
    let stuck = Event::FenceStuck { job: world.job, gone: Rank(2) };
    assert_eq!(world.server.poll_event(), Some(stuck));
    assert_eq!(world.server.poll_event(), None);
    assert_eq!(world.missing(), [1, 2]);
}

#[test]
fn member_that_exits_without_a_message_is_reported_to_a_waiting_fence() {
    let mut world = TestServer::new(2);
    world.request(0, "cmd=init pmi_version=1 pmi_subversion=1\n");
    let mut session = world.server.session(world.sessions[1]).unwrap();
    assert_eq!(session.handle_end(NOW), Ok(()));
    world.server.close(world.sessions[1]);
    assert_eq!(world.phase(1), Phase::Absent);
    world.server.member_gone(world.job, Rank(1));
    assert_eq!(world.server.poll_event(), None);
    world.send(0, "cmd=barrier_in\n").unwrap();
    assert_eq!(
        world.server.poll_event(),
        Some(Event::FenceStuck { job: world.job, gone: Rank(1) })
    );
}

#[test]
fn member_that_closes_its_end_before_init_is_reported_to_a_waiting_fence() {
    let mut world = TestServer::new(2);
    world.request(0, "cmd=init pmi_version=1 pmi_subversion=1\n");
    world.send(0, "cmd=barrier_in\n").unwrap();
    let mut session = world.server.session(world.sessions[1]).unwrap();
    assert_eq!(session.handle_end(NOW), Ok(()));
    // The process may continue to run indefinitely.
    let stuck = Event::FenceStuck { job: world.job, gone: Rank(1) };
    assert_eq!(world.server.poll_event(), Some(stuck.clone()));
    // The same if the link breaks, which only the owner sees.
    let mut world = TestServer::new(2);
    world.request(0, "cmd=init pmi_version=1 pmi_subversion=1\n");
    world.send(0, "cmd=barrier_in\n").unwrap();
    world.server.close(world.sessions[1]);
    assert_eq!(world.server.poll_event(), Some(stuck));
    assert_eq!(world.phase(1), Phase::Absent);
}

#[test]
fn member_that_is_gone_is_reported_to_the_groups_it_was_to_fence_with() {
    let stuck = |world: &TestServer, rank| Event::FenceStuck { job: world.job, gone: Rank(rank) };
    let mut world = TestServer::new(4);
    (0..4).for_each(|rank| drop(world.request(rank, "cmd=init pmi_version=1 pmi_subversion=2\n")));
    world.send(0, "cmd=barrier_in group=0,1,2:5\n").unwrap();
    world.send(1, "cmd=barrier_in group=2,1,0:5\n").unwrap();
    world.request(3, "cmd=finalize\n");
    assert_eq!(world.server.poll_event(), None);
    world.request(2, "cmd=finalize\n");
    assert_eq!(world.server.poll_event(), Some(stuck(&world, 2)));
    assert_eq!(world.server.poll_event(), None);
    // The same if it had gone before.
    world.send(0, "cmd=barrier_in group=0,1:6\n").unwrap();
    world.send(1, "cmd=barrier_in group=WORLD:7\n").unwrap();
    assert!(world.server.poll_event().is_some());
}

#[test]
fn in_a_large_job_only_those_are_named_who_are_surely_missing() {
    let mut world = TestServer::without_sessions(130);
    let job = world.server.shared.jobs[0].as_mut().unwrap();
    let group =
        |ranks: &[u32]| ranks.iter().fold(GroupFence::empty(0), |group, rank| group.with(*rank));
    for gone in [70, 71, 128] {
        job.advance(Rank(gone), Phase::Lost);
    }
    // Two ranks on each node: 0 and 1 are inside.
    let inside = |member: &Member| member.node == 0;
    let all: Vec<u32> = (0..130).collect();
    assert_eq!(job.gone_from(group(&all), inside), Some(Rank(70)));
    assert_eq!(job.gone_from(group(&[0, 1, 128]), inside), Some(Rank(128)));
    assert_eq!(job.gone_from(group(&[0, 1, 64]), inside), None);
    // Two ranks are missing, and the sum does not tell 70 from 6.
    assert_eq!(job.gone_from(group(&[0, 1, 6, 71]), inside), None);
}

// Coverage: A2-11
#[test]
fn same_key_put_twice_between_fences_is_told_with_both_ranks() {
    let mut world = TestServer::new(2);
    world.init_all();
    world.request(0, "cmd=put key=a value=1\n");
    world.request(0, "cmd=put key=a value=2\n");
    assert_eq!(world.server.poll_event(), None);
    world.request(1, "cmd=put key=a value=3\n");
    let key = Key::new(b"a").unwrap();
    let told = Event::PutTwice { job: world.job, key, first: Rank(0), second: Rank(1) };
    assert_eq!(world.server.poll_event(), Some(told));
    assert_eq!(world.request(1, "cmd=get key=a\n"), "cmd=get_result rc=0 value=3\n");
}

#[test]
fn value_that_is_seen_stays_to_be_seen_when_it_is_replaced() {
    let mut world = TestServer::new(2);
    world.init_all();
    world.request(0, "cmd=put key=a value=1\n");
    world.send(0, "cmd=barrier_in\n").unwrap();
    world.request(1, "cmd=barrier_in\n");
    world.recv(0);
    world.request(0, "cmd=put key=a value=2\n");
    // Either value would do; no value would break what the fence has promised.
    assert_eq!(world.request(1, "cmd=get key=a\n"), "cmd=get_result rc=0 value=2\n");
    // A new value still waits for the next fence.
    world.request(0, "cmd=put key=b value=1\n");
    world.request(0, "cmd=put key=b value=2\n");
    assert_eq!(world.request(1, "cmd=get key=b\n"), "cmd=get_result rc=4\n");
}

#[test]
fn key_is_found_by_its_first_writer_after_another_has_put_it_too() {
    let mut world = TestServer::new(2);
    world.init_all();
    world.request(0, "cmd=put key=a value=1\n");
    world.request(1, "cmd=put key=a value=2\n");
    assert!(world.server.poll_event().is_some());
    assert_eq!(world.request(0, "cmd=get key=a\n"), "cmd=get_result rc=0 value=2\n");
}

#[test]
fn session_with_something_to_tell_waits_until_it_was_heard() {
    let mut world = TestServer::new(2);
    world.init_all();
    world.request(0, "cmd=put key=a value=1\n");
    assert_eq!(
        world.request(1, "cmd=put key=a value=3\ncmd=get_appnum\n"),
        "cmd=put_result rc=0\n"
    );
    world.ready();
    assert!(world.server.poll_event().is_some());
    assert_eq!(world.ready(), [world.sessions[1].0]);
    assert_eq!(world.recv(1), "cmd=appnum rc=0 appnum=0\n");
}

// Coverage: R13-15
#[test]
fn names_are_published_for_all_jobs_and_go_with_their_own() {
    let mut world = TestServer::new(2);
    world.init_all();
    let publish = "cmd=publish_name service=ocean port=tag#0$port#1$\n";
    assert_eq!(world.request(0, publish), "cmd=publish_result rc=0 info=ok\n");
    let again = world.request(1, publish);
    assert_eq!(again, "cmd=publish_result rc=1 msg=service_exists_already info=fail\n");
    let received = world.request(1, "cmd=lookup_name service=ocean\n");
    assert_eq!(received, "cmd=lookup_result rc=0 info=ok port=tag#0$port#1$\n");
    let unpublish = "cmd=unpublish_name service=ocean\n";
    assert_eq!(world.request(1, unpublish), "cmd=unpublish_result rc=0 info=ok\n");
    let gone = world.request(0, unpublish);
    assert_eq!(gone, "cmd=unpublish_result rc=1 msg=no_such_service info=fail\n");
    world.request(0, publish);
    for id in world.sessions.clone() {
        assert_eq!(world.server.close(id), None);
    }
    world.server.remove_job(world.job).unwrap();
    assert_eq!(world.server.shared.names.next(None), None);
}

#[test]
fn fence_with_an_uplink_ends_when_the_owner_says_so() {
    let spec = JobSpec { has_uplink: true, ..job_spec(JOB_NAME) };
    let mut world = TestServer::of(spec, members(2, 2));
    world.open_all(2);
    world.init_all();
    assert!(world.server.end_fence(world.job).is_err());
    world.request(0, "cmd=barrier_in\n");
    assert_eq!(world.request(1, "cmd=barrier_in\n"), "");
    let told = Event::FenceHandedUp { job: world.job, generation: 0 };
    assert_eq!(world.server.poll_event(), Some(told));
    world.server.end_fence(world.job).unwrap();
    assert_eq!(world.recv(0), "cmd=barrier_out rc=0\n");
    assert_eq!(world.recv(1), "cmd=barrier_out rc=0\n");
}

#[test]
fn groups_have_fences_of_their_own_told_apart_by_tag() {
    let mut world = TestServer::new(4);
    for rank in 0..4 {
        world.request(rank, "cmd=init pmi_version=1 pmi_subversion=2\n");
    }
    world.request(0, "cmd=put key=a value=1\n");
    world.send(0, "cmd=barrier_in group=0,1:5\ncmd=barrier_in group=1,0:6\n").unwrap();
    assert_eq!(world.request(1, "cmd=barrier_in group=0,1:6\n"), "cmd=barrier_out rc=0 tag=6\n");
    assert_eq!(world.recv(0), "cmd=barrier_out rc=0 tag=6\n");
    assert_eq!(world.request(1, "cmd=get key=a\n"), "cmd=get_result rc=0 value=1\n");
    assert_eq!(world.request(1, "cmd=barrier_in group=0,1:5\n"), "cmd=barrier_out rc=0 tag=5\n");
    assert_eq!(world.recv(0), "cmd=barrier_out rc=0 tag=5\n");
    assert_eq!(world.request(2, "cmd=barrier_in group=NODE:9\n"), "");
    assert_eq!(world.request(3, "cmd=barrier_in group=NODE:9\n"), "cmd=barrier_out rc=0 tag=9\n");
    assert_eq!(world.recv(2), "cmd=barrier_out rc=0 tag=9\n");
    assert_eq!(world.request(3, "cmd=barrier_in group=3\n"), "cmd=barrier_out rc=0 tag=0\n");
    (0..4).for_each(|rank| assert!(world.send(rank, "cmd=barrier_in\n").is_ok()));
    (0..4).for_each(|rank| assert_eq!(world.recv(rank), "cmd=barrier_out rc=0 tag=0\n"));
    for bad in ["0,1", "9", "moon", "3:x"] {
        let received = world.request(3, &format!("cmd=barrier_in group={bad}\n"));
        assert!(
            received.starts_with("cmd=barrier_out rc=") && received.contains("msg="),
            "{received}"
        );
    }
}

#[test]
fn group_that_lists_a_rank_twice_is_refused() {
    const REFUSED: &str =
        "cmd=barrier_out rc=3 msg=a_list_that_names_each_rank_once_is_missing_or_wrong\n";
    let mut world = TestServer::new(4);
    for rank in 0..4 {
        world.request(rank, "cmd=init pmi_version=1 pmi_subversion=2\n");
    }
    for group in ["0,0,1", "0,1,0", "1,0,1", "0,0", "0,00", "0,1,2,3,2"] {
        assert_eq!(
            world.request(0, &format!("cmd=barrier_in group={group}:4\n")),
            REFUSED,
            "{group}"
        );
    }
    // The refused entries left nothing behind that a correct one would meet.
    assert_eq!(world.request(0, "cmd=barrier_in group=0,1:4\n"), "");
    assert_eq!(world.request(1, "cmd=barrier_in group=1,0:4\n"), "cmd=barrier_out rc=0 tag=4\n");
    assert_eq!(world.recv(0), "cmd=barrier_out rc=0 tag=4\n");
}

#[test]
fn member_that_has_failed_is_not_late_as_well() {
    let mut world = TestServer::without_sessions(1);
    let deadline = NOW.plus(Duration::from_secs(1));
    let peer = Peer::Unidentified { job: world.job, deadline: Some(deadline), challenge: None };
    world.open(peer);
    let error = world.send(0, "GET / HTTP/1.1\n").unwrap_err();
    assert_eq!(world.server.poll_timeout(), None);
    world.server.handle_timeout(deadline);
    // The first error stays, and is sent once.
    assert_eq!(world.send(0, ""), Err(error));
    assert_eq!(world.recv(0), "cmd=unparseable_msg rc=-1 msg=expected_cmd=_at_byte_0\n");
}

#[test]
fn caller_says_who_it_is_before_anything_else() {
    let mut world = TestServer::without_sessions(2);
    let deadline = Some(NOW.plus(Duration::from_secs(1)));
    let peer = Peer::Unidentified { job: world.job, deadline, challenge: None };
    for _ in 0..3 {
        world.open(peer);
    }
    let hello = "cmd=initack rc=0 rank=1 size=2 appnum=0 debug=0\n\
                 cmd=set size=2\ncmd=set rank=1\ncmd=set debug=0\n";
    assert_eq!(world.request(0, "cmd=initack pmiid=1\n"), hello);
    assert_eq!(world.server.poll_event(), Some(Event::Joined { job: world.job, rank: Rank(1) }));
    assert!(world.request(0, "cmd=init pmi_version=1 pmi_subversion=1\n").contains("rc=0"));
    let error = world.send(1, "cmd=initack pmiid=1\n").unwrap_err();
    assert_eq!(error, PeerError::AlreadyConnected { rank: 1 });
    assert_eq!(world.server.poll_timeout(), deadline);
    world.server.handle_timeout(NOW);
    assert_eq!(world.server.poll_timeout(), deadline);
    world.server.handle_timeout(NOW.plus(Duration::from_secs(1)));
    assert_eq!(world.server.poll_timeout(), None);
    assert_eq!(world.send(2, "cmd=initack pmiid=0\n"), Err(PeerError::TimedOut));
    assert!(world.recv(2).contains("expected_initack_in_time"));
}

#[test]
fn unexpected_caller_is_refused() {
    for (line, expected) in [
        ("cmd=initack pmiid=2\n", PeerError::UnknownPeer { id: Some(2) }),
        ("cmd=get_maxes\n", PeerError::OutOfOrder { got: "get_maxes", expected: "initack" }),
    ] {
        let mut world = TestServer::without_sessions(2);
        let peer = Peer::Unidentified { job: world.job, deadline: None, challenge: None };
        world.open(peer);
        assert_eq!(world.send(0, line), Err(expected));
        assert!(!world.recv(0).is_empty());
    }
}

// Coverage: R13-28
#[test]
fn spawn_is_lent_to_the_owner_and_answered_later() {
    let text = "mcmd=spawn\nnprocs=2\nexecname=/bin/a b\ntotspawns=1\nspawnssofar=1\n\
                arg1=x=y z\nargcnt=1\npreput_num=1\npreput_key_0=k\npreput_val_0=v w\n\
                info_num=1\ninfo_key_0=wdir\ninfo_val_0=/tmp\nendcmd\n";
    let mut world = TestServer::new(1);
    world.init_all();
    let run = |count, code| CodeRun { count, code: Code(code) };
    for (made, codes, received) in [
        (Ok(world.job), &[][..], "cmd=spawn_result rc=0 jobid=kvs_1\n"),
        (
            Ok(world.job),
            &[run(2, 0), run(1, 13)],
            "cmd=spawn_result rc=0 jobid=kvs_1 errcodes=0,0,13\n",
        ),
        (Err(Code(-1)), &[], "cmd=spawn_result rc=-1\n"),
        (Err(Code(-1)), &[run(1, -1), run(1, 14)], "cmd=spawn_result rc=-1 errcodes=-1,14\n"),
        // For more than these a line is too short for old clients.
        (Err(Code(-1)), &[run(128, -1), run(1, 14)], "cmd=spawn_result rc=-1\n"),
    ] {
        world.send(0, &format!("{text}cmd=get_appnum\n")).unwrap();
        let Some(Event::Spawn { session, exchange }) = world.server.poll_event() else { panic!() };
        let spawn = world.server.spawn_request(session).unwrap();
        let program = spawn.programs().next().unwrap();
        assert_eq!(program.executable, *b"/bin/a b");
        assert_eq!(program.processes, 2);
        assert!(program.arguments.iter().eq([Text::from("x=y z")]));
        assert_eq!(spawn.preputs().next().unwrap().value, *b"v w");
        world.server.spawn_read(session);
        assert_eq!(world.recv(0), "");
        assert_eq!(
            world.server.answer_spawn(session, exchange, made, &[run(1, 0); 9]),
            Err(Misuse::NoRoom { what: "codes" })
        );
        world.server.answer_spawn(session, exchange, made, codes).unwrap();
        assert!(world.server.answer_spawn(session, exchange, made, codes).is_err());
        assert_eq!(world.recv(0), format!("{received}cmd=appnum rc=0 appnum=0\n"));
    }
}

#[test]
fn groups_of_large_jobs_are_named_whole() {
    let mut world = TestServer::without_sessions(200);
    let list = "0,1,5,7,69,71,133,135,197,199";
    for rank in [0, 133] {
        let peer = Peer::Member { job: world.job, rank: Rank(rank) };
        let session = world.server.open(peer, Inbox::new(), [const { None }; 4]).unwrap();
        world.sessions.push(session);
        let at = world.sessions.len() - 1;
        world.request(at, "cmd=init pmi_version=1 pmi_subversion=2\n");
        assert_eq!(world.request(at, &format!("cmd=barrier_in group={list}:4\n")), "");
    }
    let waits = world.server.waits(world.sessions[0]).next();
    let Some(Wait::Group(group)) = waits else { panic!("it waits") };
    let missing = world.server.missing_from_group(world.job, group);
    assert!(missing.map(|rank| rank.0).eq([1, 5, 7, 69, 71, 135, 197, 199]));
    assert_eq!(world.server.poll_event(), None);
    world.server.member_gone(world.job, Rank(70));
    assert_eq!(world.server.poll_event(), None);
    world.server.member_gone(world.job, Rank(135));
    let stuck = Event::FenceStuck { job: world.job, gone: Rank(135) };
    assert_eq!(world.server.poll_event(), Some(stuck));
}

#[test]
fn state_of_a_group_goes_with_its_fence() {
    let mut world = TestServer::without_sessions(65);
    for rank in [0, 64] {
        let peer = Peer::Member { job: world.job, rank: Rank(rank) };
        let session = world.server.open(peer, Inbox::new(), [const { None }; 4]).unwrap();
        world.sessions.push(session);
        world.request(world.sessions.len() - 1, "cmd=init pmi_version=1 pmi_subversion=2\n");
    }
    let entries = |world: &TestServer| {
        let kvs = world.server.job(world.job).unwrap().kvs();
        core::iter::successors(kvs.next(None), |last| kvs.next(Some(*last))).count()
    };
    world.request(0, "cmd=barrier_in group=0,64:1\n");
    assert_eq!(entries(&world), 1);
    assert_eq!(world.request(1, "cmd=barrier_in group=64,0:1\n"), "cmd=barrier_out rc=0 tag=1\n");
    assert_eq!(entries(&world), 0);
}

#[test]
fn answer_to_a_spawn_of_a_closed_session_goes_to_no_other() {
    let text = "mcmd=spawn\nnprocs=1\nexecname=/bin/a\ntotspawns=1\nspawnssofar=1\nendcmd\n";
    let mut world = TestServer::new(1);
    world.init_all();
    let ask = |world: &mut TestServer| {
        world.send(0, text).unwrap();
        let Some(Event::Spawn { session, exchange }) = world.server.poll_event() else { panic!() };
        world.server.spawn_read(session);
        (session, exchange)
    };
    let gone = ask(&mut world);
    // The next peer gets the same session and the same place in it.
    world.server.close(gone.0);
    let peer = Peer::Member { job: world.job, rank: Rank(0) };
    let session = world.server.open(peer, Inbox::new(), [const { None }; 4]).unwrap();
    assert_eq!(session, gone.0);
    world.init_all();
    let (_, exchange) = ask(&mut world);
    let missing = Err(Misuse::NoSuch { what: "spawn" });
    assert_eq!(world.server.answer_spawn(gone.0, gone.1, Ok(world.job), &[]), missing);
    world.server.answer_spawn(session, exchange, Err(Code::FAIL), &[]).unwrap();
    assert_eq!(world.recv(0), "cmd=spawn_result rc=-1\n");
}

#[test]
fn answer_that_does_not_fit_is_kept() {
    let mut world = TestServer::new(1);
    world.init_all();
    world.send(0, "cmd=get_my_kvsname\n").unwrap();
    let mut session = world.server.session(world.sessions[0]).unwrap();
    let needed = "cmd=my_kvsname rc=0 kvsname=kvs_1\n".len();
    for len in 0..needed {
        assert_eq!(session.poll_transmit(&mut [0; 64][..len]), Err(Full { needed }));
    }
    assert_eq!(session.poll_transmit(&mut [0; 64][..needed]), Ok(Some(needed)));
    assert_eq!(session.poll_transmit(&mut []), Ok(None));
}

#[test]
fn spawns_without_names_are_answered_in_their_order() {
    let line = "mcmd=spawn\nnprocs=1\nexecname=/bin/a\ntotspawns=1\nspawnssofar=1\nendcmd\n";
    let frame = |name: &str| {
        let body = format!(
            "cmd=spawn;{name}ncmds=1;preputcount=0;subcmd=/bin/a;maxprocs=1;argc=0;infokeycount=0;"
        );
        format!("{:<6}{body}", body.len())
    };
    let lines = "cmd=init pmi_version=1 pmi_subversion=2\n";
    let frames = "cmd=init pmi_version=2 pmi_subversion=0\n\
                  37    cmd=fullinit;pmirank=0;threaded=TRUE;";
    let (nameless, named) = (frame(""), ["thrid=1;", "thrid=2;"].map(frame));
    for (opening, asked, in_order) in [
        (lines, [line, line], true),
        (frames, [&nameless, &nameless], true),
        (frames, [&named[0], &named[1]], false),
    ] {
        let mut world = TestServer::new(1);
        world.request(0, opening);
        let [first, second] = asked.map(|text| {
            world.send(0, text).unwrap();
            let Some(Event::Spawn { session, exchange }) = world.server.poll_event() else {
                panic!("{text}")
            };
            world.server.spawn_read(session);
            (session, exchange)
        });
        world.server.answer_spawn(second.0, second.1, Err(Code(3)), &[]).unwrap();
        // Otherwise the first session would take it for its own.
        let early = world.recv(0);
        assert_eq!(early.is_empty(), in_order, "{early}");
        world.server.answer_spawn(first.0, first.1, Ok(world.job), &[]).unwrap();
        let received = early + &world.recv(0);
        let [good, bad] = ["rc=0", "rc=3"].map(|code| received.find(code).expect(code));
        assert_eq!(good < bad, in_order, "{received}");
    }
}
