use std::format;

use super::*;
use crate::command::CodeRun;

/// A frame as MPICH from 4.1 on writes it.
fn right(body: &str) -> String {
    format!("{:>6}{body}", body.len())
}

/// A frame as MPICH up to 4.0 and Slurm's library write it.
fn left(body: &str) -> String {
    format!("{:<6}{body}", body.len())
}

fn world(size: u32) -> TestServer {
    let mut world = TestServer::new(size);
    for rank in 0..size as usize {
        let received = world.request(rank, "cmd=init pmi_version=2 pmi_subversion=0\n");
        assert_eq!(received, "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n");
        let received =
            world.request(rank, &left(&format!("cmd=fullinit;pmirank={rank};threaded=TRUE;")));
        assert_eq!(
            received,
            right(&format!(
                "cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank={rank};size={size};\
                 appnum=0;debugged=FALSE;pmiverbose=FALSE;"
            ))
        );
    }
    world
}

// Coverage: W2-7
#[test]
fn questions_are_answered_in_frames_with_the_name_of_the_exchange() {
    let mut world = world(2);
    for (asked, received) in [
        ("job-getid;thrid=0x7f;", "job-getid-response;thrid=0x7f;rc=0;jobid=kvs_1;"),
        ("kvs-put;key=a;value=b c=d;", "kvs-put-response;rc=0;"),
        ("kvs-get;key=a;thrid=9;", "kvs-get-response;thrid=9;rc=0;found=TRUE;value=b c=d;"),
        ("kvs-get;jobid=kvs_1;srcid=-1;key=x;", "kvs-get-response;rc=0;found=FALSE;"),
        ("kvs-get;jobid=other;srcid=-1;key=a;", "kvs-get-response;rc=0;found=FALSE;"),
        ("info-getjobattr;key=cartDims;", "info-getjobattr-response;rc=0;found=FALSE;"),
        ("info-putnodeattr;key=n;value=v;", "info-putnodeattr-response;rc=0;"),
        ("info-getnodeattr;key=n;", "info-getnodeattr-response;rc=0;found=TRUE;value=v;"),
        ("info-getnodeattr;key=m;wait=FALSE;", "info-getnodeattr-response;rc=0;found=FALSE;"),
        ("name-publish;name=s;port=p;infokeycount=0;", "name-publish-response;rc=0;"),
        ("name-lookup;name=s;", "name-lookup-response;rc=0;value=p;port=p;found=TRUE;"),
        ("name-unpublish;name=s;", "name-unpublish-response;rc=0;"),
        ("name-lookup;name=s;", "name-lookup-response;rc=1;errmsg=no such service;found=FALSE;"),
        ("ballet;thrid=1;", "ballet-response;thrid=1;rc=14;errmsg=not supported ballet;"),
        ("kvs-put;key=a;", "kvs-put-response;rc=3;errmsg=value is missing or wrong;"),
        ("job-connect;jobid=moon;", "job-connect-response;rc=1;errmsg=no such job;"),
        ("job-connect;jobid=kvs_1;", "job-connect-response;rc=0;kvscopy=FALSE;"),
    ] {
        let received = right(&format!("cmd={received}"));
        assert_eq!(world.request(0, &left(&format!("cmd={asked}"))), received);
    }
}

// Coverage: W2-16
#[test]
fn semicolon_is_stored_as_one_and_told_in_the_habit_of_the_reader() {
    let mut world = world(2);
    let put = "cmd=kvs-put;key=a;value=x;;y;;;";
    assert_eq!(world.request(0, &left(put)), right("cmd=kvs-put-response;rc=0;"));
    let get = "cmd=kvs-get;key=a;";
    let doubled = right("cmd=kvs-get-response;rc=0;found=TRUE;value=x;;y;;;");
    assert_eq!(world.request(0, &left(get)), doubled);
    // A client that does not double cannot read the value, and gets a refusal instead of half of
    // it.
    assert!(world.request(0, &right(get)).contains("rc=6;errmsg=the value holds a semicolon"));
}

#[test]
fn values_that_a_client_cannot_read_are_refused_at_every_place() {
    let refusal = |word: &str| {
        right(&format!(
            "cmd={word}-response;rc=6;errmsg=the value holds a semicolon, which this client has no \
             way to read;"
        ))
    };
    let mut ring = world(2);
    let value = "ring-count=1;ring-left=a;;b;ring-right=c;";
    assert_eq!(ring.request(0, &left(&format!("cmd=ring;{value}"))), "");
    let received = ring.request(1, &right("cmd=ring;ring-count=1;ring-left=d;ring-right=e;"));
    assert_eq!(received, refusal("ring"));
    let received = "cmd=ring-response;rc=0;ring-count=0;ring-left=e;ring-right=d;";
    assert_eq!(ring.recv(0), right(received));

    let mut space = world(2);
    for pair in ["key=a;value=1", "key=b;value=x;;y", "key=c;value=2"] {
        space.request(0, &left(&format!("cmd=kvs-put;{pair};")));
    }
    let received = space.request(0, &right("cmd=kvs-getall;jobid=kvs_1;"));
    // The list ends there: an omitted pair would look like one that was never put.
    let listed = right("cmd=kvs-getall-paircount-response;npair=3;")
        + &right("cmd=kvs-getall-pair-response;key=a;val=1;")
        + &refusal("kvs-getall");
    assert_eq!(received, listed);
    let listed = space.request(0, &left("cmd=kvs-getall;jobid=kvs_1;"));
    assert!(listed.contains("key=b;val=x;;y;"), "{listed}");
}

#[test]
fn lines_are_still_answered_after_frames_were_agreed_on() {
    let mut world = world(1);
    assert!(world.request(0, "cmd=get_maxes\n").starts_with("cmd=maxes rc=0"));
    let long = "v".repeat(1025);
    let received = world.request(0, &right(&format!("cmd=kvs-put;key=k;value={long};")));
    assert!(
        received.ends_with("rc=7;errmsg=value k 1025 bytes over limit 1024 at rank 0;"),
        "{received}"
    );
}

// Coverage: W2-5
#[test]
fn several_threads_wait_at_once_and_each_gets_its_own_answer() {
    let mut world = world(2);
    let wait = |key: &str, thread: u8| {
        left(&format!("cmd=info-getnodeattr;thrid={thread};key={key};wait=TRUE;"))
    };
    let asked = wait("a", 1) + &wait("b", 2) + &left("cmd=kvs-fence;thrid=3;");
    assert_eq!(world.request(0, &asked), "");
    let received = world.request(0, &left("cmd=job-getid;thrid=4;"));
    assert_eq!(received, right("cmd=job-getid-response;thrid=4;rc=0;jobid=kvs_1;"));
    world.request(1, &left("cmd=info-putnodeattr;key=b;value=2;"));
    assert!(world.ready().contains(&0));
    let received = world.recv(0);
    assert_eq!(received, right("cmd=info-getnodeattr-response;thrid=2;rc=0;found=TRUE;value=2;"));
    let received = world.request(1, &right("cmd=kvs-fence;"));
    assert_eq!(received, right("cmd=kvs-fence-response;rc=0;"));
    assert_eq!(world.recv(0), right("cmd=kvs-fence-response;thrid=3;rc=0;"));
    world.request(1, &left("cmd=info-putnodeattr;key=a;value=1;"));
    let received = world.recv(0);
    assert_eq!(received, right("cmd=info-getnodeattr-response;thrid=1;rc=0;found=TRUE;value=1;"));
}

// Coverage: W2-45
#[test]
fn attributes_of_a_node_stay_on_it() {
    let mut world = world(3);
    world.request(0, &left("cmd=info-putnodeattr;key=a;value=1;"));
    let get = left("cmd=info-getnodeattr;key=a;");
    assert!(world.request(1, &get).contains("value=1;"));
    assert!(world.request(2, &get).contains("found=FALSE;"));
}

// Coverage: W2-38
#[test]
fn connected_jobs_read_each_other_and_no_other_job_does() {
    let mut world = world(1);
    let name = crate::ids::KvsName::new(b"kvs_2").unwrap();
    let spec = JobSpec { name, spawner: None, universe_size: None, size: None, has_uplink: false };
    let other = world.add_job(spec, vec![Member::new(0, 0)]);
    let peer = Peer::Member { job: other, rank: Rank(0) };
    world.open(peer);
    world.request(1, "cmd=init pmi_version=2 pmi_subversion=0\n");
    world.request(1, &left("cmd=kvs-put;key=a;value=1;"));
    world.request(1, &left("cmd=kvs-put;key=b;value=2;"));
    assert!(world.request(1, &left("cmd=kvs-fence;")).contains("rc=0"));
    world.request(1, &left("cmd=kvs-put;key=late;value=3;"));
    let get = |key: &str| left(&format!("cmd=kvs-get;jobid=kvs_2;key={key};"));
    assert!(world.request(0, &get("a")).contains("found=FALSE"));
    assert!(world.request(0, &left("cmd=job-connect;jobid=kvs_2;")).contains("rc=0"));
    assert!(world.request(0, &get("a")).contains("found=TRUE;value=1;"));
    assert!(world.request(0, &get("late")).contains("found=FALSE"));
    assert!(world.request(0, &left("cmd=job-disconnect;jobid=kvs_2;")).contains("rc=0"));
    assert!(world.request(0, &get("a")).contains("found=FALSE"));
    assert!(
        world.request(0, &left("cmd=job-disconnect;jobid=kvs_2;")).contains("no such connection")
    );
}

// Coverage: W2-23
#[test]
fn caller_of_this_generation_says_who_it_is_in_fullinit() {
    let mut world = TestServer::without_sessions(2);
    let peer = Peer::Unidentified { job: world.job, deadline: None, challenge: None };
    for _ in 0..3 {
        world.open(peer);
        let at = world.sessions.len() - 1;
        let received = world.request(at, "cmd=init pmi_version=2 pmi_subversion=0\n");
        assert_eq!(received, "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n");
    }
    assert!(world.request(0, &left("cmd=fullinit;pmirank=1;")).contains("rank=1;size=2;"));
    assert_eq!(world.server.poll_event(), Some(Event::Joined { job: world.job, rank: Rank(1) }));
    assert_eq!(world.phase(1), Phase::Open);
    let taken = world.send(1, &left("cmd=fullinit;pmirank=1;"));
    assert_eq!(taken, Err(PeerError::AlreadyConnected { rank: 1 }));
    let early = PeerError::OutOfOrder { got: "put", expected: "fullinit" };
    assert_eq!(world.send(2, &left("cmd=kvs-put;key=a;value=b;")), Err(early));
    assert!(world.recv(2).contains("errmsg=expected fullinit;"));
}

// Coverage: W2-23
#[test]
fn fullinit_with_a_rank_that_is_none_is_refused_with_the_reason() {
    let mut world = TestServer::without_sessions(2);
    let peer = Peer::Unidentified { job: world.job, deadline: None, challenge: None };
    let lacking = PeerError::OutOfOrder {
        got: "fullinit without the number of a rank",
        expected: "a number in pmirank",
    };
    for (said, error, why) in [
        ("", lacking, "expected a number in pmirank"),
        ("pmirank=x;", lacking, "expected a number in pmirank"),
        ("pmirank=-1;", lacking, "expected a number in pmirank"),
        ("pmirank=2;", PeerError::UnknownPeer { id: Some(2) }, "no such rank"),
    ] {
        let id = world.server.open(peer, Inbox::new(), [const { None }; 4]).unwrap();
        world.sessions.push(id);
        let at = world.sessions.len() - 1;
        world.request(at, "cmd=init pmi_version=2 pmi_subversion=0\n");
        assert_eq!(world.send(at, &left(&format!("cmd=fullinit;{said}"))), Err(error), "{said}");
        let received = world.recv(at);
        assert!(received.contains("cmd=fullinit-response;rc="), "{received}");
        assert!(received.ends_with(&format!("errmsg={why};")), "{received}");
    }
    // An identified peer keeps its rank, whatever it claims later, and may identify itself again.
    let mut world = TestServer::new(2);
    world.request(1, "cmd=init pmi_version=2 pmi_subversion=0\n");
    assert_eq!(
        world.request(1, &left("cmd=fullinit;pmirank=0;")),
        right(
            "cmd=fullinit-response;rc=3;errmsg=the caller's own rank in pmirank is missing or wrong;"
        )
    );
    assert!(world.request(1, &left("cmd=fullinit;pmirank=1;")).contains("rank=1;size=2;"));
}

// Coverage: W2-43
#[test]
fn attribute_wakes_only_the_sessions_that_wait_for_it() {
    let mut world = world(4);
    for rank in 0..4 {
        world.request(rank, &left("cmd=info-getnodeattr;key=none;"));
    }
    world.ready();
    world.request(0, &left("cmd=info-getnodeattr;key=a;wait=TRUE;"));
    world.request(2, &left("cmd=info-getnodeattr;key=a;wait=TRUE;"));
    world.ready();
    world.request(1, &left("cmd=info-putnodeattr;key=b;value=1;"));
    assert_eq!(world.ready(), []);
    world.request(1, &left("cmd=info-putnodeattr;key=a;value=1;"));
    assert_eq!(world.ready(), [world.sessions[0].0]);
    let found = right("cmd=info-getnodeattr-response;rc=0;found=TRUE;value=1;");
    assert_eq!(world.recv(0), found);
    assert_eq!(world.recv(2), "", "the other node has not put it");
}

// Coverage: W2-24, W2-44
#[test]
fn attribute_that_no_rank_is_left_to_put_is_not_waited_for() {
    let wait = |key: &str| left(&format!("cmd=info-getnodeattr;key={key};wait=TRUE;"));
    let missing = right("cmd=info-getnodeattr-response;rc=0;found=FALSE;");
    let open = |threaded: &str| {
        let mut world = TestServer::new(4);
        for rank in 0..4 {
            world.request(rank, "cmd=init pmi_version=2 pmi_subversion=0\n");
            let hello = format!("cmd=fullinit;pmirank={rank};threaded={threaded};");
            world.request(rank, &left(&hello));
        }
        world
    };
    let recv = |world: &mut TestServer, rank| {
        world.ready();
        world.recv(rank)
    };
    // The last neighbour finalizes; ranks of other nodes do not matter.
    let mut world = open("FALSE");
    world.request(0, &wait("a"));
    assert_eq!(recv(&mut world, 0), "");
    world.request(1, &left("cmd=finalize;"));
    assert_eq!(recv(&mut world, 0), missing);
    world.request(0, &wait("a"));
    assert_eq!(recv(&mut world, 0), missing);
    // Two wait for each other.
    let mut world = open("FALSE");
    world.request(2, &wait("a"));
    world.request(3, &wait("b"));
    assert_eq!((recv(&mut world, 2), recv(&mut world, 3)), (missing.clone(), missing.clone()));
    // The process of a neighbour ends.
    let mut world = open("FALSE");
    world.request(2, &wait("a"));
    world.server.member_gone(world.job, Rank(3));
    assert_eq!(recv(&mut world, 2), missing);
    // Another thread may still put it.
    let mut world = open("TRUE");
    world.request(0, &wait("a"));
    world.request(1, &left("cmd=finalize;"));
    assert_eq!(recv(&mut world, 0), "");
    world.send(0, &left("cmd=info-putnodeattr;thrid=2;key=a;value=v;")).unwrap();
    assert!(recv(&mut world, 0).contains("found=TRUE;value=v;"));
}

// Coverage: W2-4
#[test]
fn spawn_lets_other_threads_go_on() {
    let text = "cmd=spawn;thrid=7;ncmds=2;preputcount=1;ppkey0=k;ppval0=v;;w;subcmd=/bin/a;maxprocs=2;\
                argc=2;argv0=a b;argv1=c=d;infokeycount=1;infokey0=wdir;infoval0=/tmp;\
                subcmd=/bin/b;maxprocs=1;argc=0;infokeycount=0;";
    let mut world = world(1);
    world.send(0, &(left(text) + &left("cmd=job-getid;thrid=8;"))).unwrap();
    let Some(Event::Spawn { session, exchange }) = world.server.poll_event() else { panic!() };
    let spawn = world.server.spawn_request(session).unwrap();
    let programs: Vec<_> = spawn.programs().collect();
    assert_eq!(programs.len(), 2);
    assert!(programs[0].arguments.iter().eq([b"a b", b"c=d"].map(Text::from)));
    assert_eq!(programs[1].executable, *b"/bin/b");
    assert_eq!(spawn.preputs().next().unwrap().value, *b"v;w");
    world.server.spawn_read(session);
    assert!(world.recv(0).contains("thrid=8;rc=0;jobid="));
    let codes = [(2, 0), (1, 13)].map(|(count, code)| CodeRun { count, code: Code(code) });
    world.server.answer_spawn(session, exchange, Ok(world.job), &codes).unwrap();
    assert_eq!(
        world.recv(0),
        right("cmd=spawn-response;thrid=7;rc=0;jobid=kvs_1;nerrs=1;errcodes=0,0,13;")
    );
}

#[test]
fn lengths_of_nothing_and_of_too_much_end_the_session() {
    for (bytes, says) in [
        ("     0", "a length above 0"),
        ("      ", "a length above 0"),
        ("12a456", "six characters of length"),
        ("-00041", "six characters of length"),
    ] {
        let mut world = world(1);
        let error = world.send(0, bytes).unwrap_err();
        assert!(matches!(error, PeerError::Malformed(bad) if bad.expected == says), "{error}");
        assert!(world.recv(0).contains("unparseable_msg-response;rc=14;errmsg=expected"));
    }
    let mut world = world(1);
    world.send(0, "999999cmd=kvs-put;").unwrap();
    let error = (0..9).find_map(|_| world.send(0, &"v".repeat(1000)).err()).unwrap();
    assert_eq!(error, PeerError::MessageTooLong { limit_bytes: MESSAGE_BYTES });
}

// Coverage: W2-30
#[test]
fn abort_of_one_member_says_so() {
    let mut world = world(1);
    world.send(0, &left("cmd=abort;isworld=FALSE;msg=a;;b;")).unwrap();
    let told = world.server.poll_event();
    let Some(Event::Aborted { code: None, world: false, message, .. }) = told else {
        panic!("{told:?}")
    };
    assert_eq!(message.as_bytes(), b"a;b");
}

// Coverage: W2-25
#[test]
fn caller_proves_that_it_knows_the_secret_once() {
    use crate::auth::{Challenge, Nonce, Secret};
    let secret = Secret::new(b"0123456789abcdef").unwrap();
    let nonce = Nonce::new([3; 18]);
    let nonce_digits = core::str::from_utf8(nonce.as_bytes()).unwrap();
    let proof = secret.answer(nonce.as_bytes()).unwrap();
    let right_proof = core::str::from_utf8(proof.as_bytes()).unwrap();
    let hello = left("cmd=fullinit;pmirank=0;authtype=challenge-hmac-sha256;");
    for (first, second, is_believed) in [
        (hello.as_str(), right_proof, true),
        (hello.as_str(), &right_proof.replace('1', "2"), false),
        (hello.as_str(), "", false),
        (&left("cmd=fullinit;pmirank=0;"), right_proof, false),
        (&left("cmd=fullinit;pmirank=0;authtype=none;"), right_proof, false),
        ("", right_proof, false),
        ("cmd=initack pmiid=0\n", right_proof, false),
    ] {
        let mut world = TestServer::without_sessions(1);
        let challenge = Some(Challenge::new(&secret, nonce));
        let peer = Peer::Unidentified { job: world.job, deadline: None, challenge };
        world.open(peer);
        world.request(0, "cmd=init pmi_version=2 pmi_subversion=0\n");
        let asked = world.send(0, first).map(|_| world.recv(0));
        if first == hello {
            assert_eq!(asked, Ok(right(&format!("cmd=auth-response;authinfo={nonce_digits};"))));
        }
        let proof = left(&format!("cmd=auth-response-complete;authinfo={second};"));
        let told = world.send(0, &proof);
        let received = world.recv(0);
        assert_eq!(told.is_ok(), is_believed, "{first} {second}");
        if is_believed {
            assert!(received.contains("cmd=fullinit-response;rc=0;"), "{received}");
            assert_eq!(
                world.server.poll_event(),
                Some(Event::Joined { job: world.job, rank: Rank(0) })
            );
            assert!(
                world.request(0, &proof).contains("rc=14;errmsg=this request is not offered here;")
            );
        } else {
            assert_eq!(told, Err(PeerError::Unproven));
            assert_eq!(world.phase(0), Phase::Absent);
        }
    }
}

// Coverage: W2-26
#[test]
fn credential_of_munge_is_verified_by_the_owner() {
    use crate::auth::{Challenge, Nonce};
    let hello = left("cmd=fullinit;pmirank=0;authtype=munge;");
    let credential = left("cmd=auth-response-complete;authinfo=MUNGE:AwQ=:;");
    for is_valid in [true, false] {
        let mut world = TestServer::without_sessions(1);
        let challenge = Some(Challenge::munge(Nonce::new([3; 18])));
        world.open(Peer::Unidentified { job: world.job, deadline: None, challenge });
        world.request(0, "cmd=init pmi_version=2 pmi_subversion=0\n");
        assert!(world.request(0, &hello).contains("authinfo=333333333333333333;"));
        // What follows at once waits for the owner, too.
        let early = left("cmd=job-getid;");
        assert_eq!(world.request(0, &format!("{credential}{early}")), "");
        let Some(Event::CredentialGiven { session, exchange, rank, .. }) =
            world.server.poll_event()
        else {
            panic!("no event")
        };
        assert_eq!((world.phase(0), rank), (Phase::Absent, Rank(0)));
        let given = world.server.credential(session).unwrap();
        assert_eq!(
            (given.text, given.nonce.as_bytes()),
            (b"MUNGE:AwQ=:"[..].into(), &[b'3'; 18][..])
        );
        let now = Instant::ZERO;
        let later = Instant::from_micros(9);
        assert_eq!(world.server.poll_timeout(), None);
        world.server.set_credential_deadline(session, later).unwrap();
        assert_eq!(world.server.poll_timeout(), Some(later));
        assert!(world.server.answer_credential(session, exchange + 1, now, true).is_err());
        world.server.answer_credential(session, exchange, now, is_valid).unwrap();
        assert!(world.server.answer_credential(session, exchange, now, true).is_err());
        assert!(world.server.credential(session).is_none());
        assert!(world.server.set_credential_deadline(session, later).is_err());
        let received = world.recv(0);
        assert_eq!(received.contains("cmd=fullinit-response;rc=0;"), is_valid, "{received}");
        let event = world.server.poll_event();
        if is_valid {
            assert_eq!(event, Some(Event::Joined { job: world.job, rank: Rank(0) }));
            assert!(world.request(0, "").contains("cmd=job-getid-response;"));
        } else {
            assert!(received.contains("rc=14;"), "{received}");
            assert_eq!((event, world.phase(0)), (None, Phase::Absent));
            assert_eq!(world.send(0, &early).map(drop), Err(PeerError::Unproven));
        }
    }
}

#[test]
fn caller_that_can_only_name_itself_needs_an_unguessable_name() {
    use crate::auth::{Challenge, Nonce, Secret};
    let secret = Secret::new(b"0123456789abcdef").unwrap();
    let mut world = TestServer::without_sessions(1);
    let spec = JobSpec {
        name: crate::ids::KvsName::new(b"kvs_2").unwrap(),
        spawner: None,
        universe_size: None,
        size: None,
        has_uplink: false,
    };
    let members = vec![Member::new(0, 0), Member::new(0, 0).with_token(816_351)];
    let job = world.add_job(spec, members);
    let challenge = Some(Challenge::new(&secret, Nonce::new([3; 18])));
    for (id, told) in
        [(0, Err(PeerError::Unproven)), (1, Err(PeerError::Unproven)), (816_351, Ok(()))]
    {
        let peer = Peer::Unidentified { job, deadline: None, challenge };
        world.open(peer);
        let at = world.sessions.len() - 1;
        assert_eq!(world.send(at, &format!("cmd=initack pmiid={id}\n")).map(drop), told);
    }
    assert!(world.recv(2).starts_with("cmd=initack rc=0 rank=1 size=2"));
}

// Coverage: W2-40
#[test]
fn whole_space_is_listed_and_filled_pair_by_pair() {
    let mut world = world(2);
    let received = world.request(0, &left("cmd=kvs-getall;thrid=1;jobid=kvs_1;"));
    let nothing = right("cmd=kvs-getall-paircount-response;thrid=1;npair=0;")
        + &right("cmd=kvs-getall-response;thrid=1;rc=0;");
    assert_eq!(received, nothing);
    world.request(0, &left("cmd=kvs-put;key=own;value=1;"));
    world.request(1, &left("cmd=kvs-put;key=other;value=2;"));
    assert_eq!(world.request(0, &left("cmd=kvs-putall;thrid=4;jobid=kvs_1;npair=2;")), "");
    assert_eq!(world.request(0, &left("cmd=kvs-putall-pair;thrid=4;key=x;val=3;")), "");
    let received = world.request(0, &left("cmd=kvs-putall-pair;thrid=4;key=y;val=a;;b;"));
    assert_eq!(received, right("cmd=kvs-putall-response;thrid=4;rc=0;"));
    let received = world.request(0, &left("cmd=kvs-getall;jobid=kvs_1;"));
    let pair = |key: &str, value: &str| {
        right(&format!("cmd=kvs-getall-pair-response;key={key};val={value};"))
    };
    let listed = right("cmd=kvs-getall-paircount-response;npair=3;")
        + &pair("own", "1")
        + &pair("x", "3")
        + &pair("y", "a;;b")
        + &right("cmd=kvs-getall-response;rc=0;");
    assert_eq!(received, listed);
    assert!(world.request(1, &left("cmd=kvs-get;key=x;")).contains("value=3;"));
    for (asked, received) in [
        (
            "kvs-putall-pair;key=x;val=3;",
            "kvs-putall-pair-response;rc=14;errmsg=expected kvs-putall;",
        ),
        (
            "kvs-putall;jobid=moon;npair=0;",
            "kvs-putall-response;rc=1;errmsg=no such connected job;",
        ),
        ("kvs-getall;jobid=moon;", "kvs-getall-response;rc=1;errmsg=no such connected job;"),
        ("kvs-putall;jobid=kvs_1;npair=0;", "kvs-putall-response;rc=0;"),
    ] {
        let received = right(&format!("cmd={received}"));
        assert_eq!(world.request(0, &left(&format!("cmd={asked}"))), received);
    }
}

#[test]
fn pairs_for_a_job_out_of_reach_are_refused_once_behind_the_last() {
    let mut world = world(1);
    assert_eq!(world.request(0, &left("cmd=kvs-putall;jobid=moon;npair=2;")), "");
    assert_eq!(world.request(0, &left("cmd=kvs-putall-pair;key=x;val=1;")), "");
    let received = world.request(0, &left("cmd=kvs-putall-pair;key=y;val=2;"));
    assert_eq!(received, right("cmd=kvs-putall-response;rc=1;errmsg=no such connected job;"));
    assert!(world.request(0, &left("cmd=kvs-get;key=x;")).contains("found=FALSE"));
}

#[test]
fn ring_gives_each_rank_the_values_of_both_neighbours() {
    let mut world = world(3);
    for round in 0..3 {
        for rank in 0..3 {
            let value = |side| format!("{side}{rank}.{round}");
            let (to_left, to_right) = (value('l'), value('r'));
            let ring = format!("cmd=ring;ring-count=1;ring-left={to_left};ring-right={to_right};");
            world.send(rank, &left(&ring)).unwrap();
        }
        // The first rank requests again before the others have received their answers.
        for rank in [0, 2, 1] {
            let (before, behind) = ((rank + 2) % 3, (rank + 1) % 3);
            let received = format!(
                "cmd=ring-response;rc=0;ring-count={rank};ring-left=r{before}.{round};\
                 ring-right=l{behind}.{round};"
            );
            assert_eq!(world.recv(rank), right(&received));
        }
    }
}

#[test]
fn ring_that_can_never_end_is_told_once_with_the_one_who_is_gone() {
    let ring = left("cmd=ring;ring-count=1;ring-left=a;ring-right=b;");
    for goes_first in [true, false] {
        let mut world = world(3);
        let event = |world: &mut TestServer| world.server.poll_event();
        if goes_first {
            world.server.member_gone(world.job, Rank(1));
            assert_eq!(event(&mut world), None);
        }
        assert_eq!(world.request(0, &ring), "");
        if !goes_first {
            assert_eq!(event(&mut world), None);
            world.server.member_gone(world.job, Rank(1));
        }
        let stuck = Event::FenceStuck { job: world.job, gone: Rank(1) };
        assert_eq!(event(&mut world), Some(stuck), "first: {goes_first}");
        assert_eq!(world.request(2, &ring), "");
        assert_eq!(event(&mut world), None);
    }
}

// Coverage: W2-20
#[test]
fn message_may_go_on_in_another_frame() {
    let mut world = world(1);
    let first = left("cmd=kvs-put;thrid=3;key=a;concat=77;");
    for second in
        [left("cmd=concat;concatid=77;value=b;"), right("cmd=concat;concatid=77;value=b;")]
    {
        assert_eq!(world.request(0, &first), "");
        assert_eq!(world.request(0, &second), right("cmd=kvs-put-response;thrid=3;rc=0;"));
    }
    assert!(world.request(0, &left("cmd=kvs-get;key=a;")).contains("value=b;"));
    // Lengths on the right, and all four requests with a value.
    for (word, front, behind) in [
        ("kvs-put", "key=b", "value=c;"),
        ("info-putnodeattr", "key=b", "value=c;"),
        ("name-publish", "name=b", "port=c;infokeycount=0;"),
    ] {
        let begun = right(&format!("cmd={word};{front};concat=9;"));
        assert_eq!(world.request(0, &begun), "");
        let rest = right(&format!("cmd=concat;concatid=9;{behind}"));
        assert_eq!(world.request(0, &rest), right(&format!("cmd={word}-response;rc=0;")));
    }
    world.request(0, &right("cmd=kvs-putall;jobid=kvs_1;npair=1;"));
    world.request(0, &right("cmd=kvs-putall-pair;key=d;concat=9;"));
    let heard = world.request(0, &right("cmd=concat;concatid=9;val=e;"));
    assert_eq!(heard, right("cmd=kvs-putall-response;rc=0;"));
    // A torn value stays one.
    world.request(0, &right("cmd=kvs-put;key=f;concat=9;"));
    let heard = world.request(0, &right("cmd=concat;concatid=9;value=g;h;"));
    assert!(heard.contains("rc=6;errmsg=a value without semicolon"), "{heard}");
    // A value may hold the word.
    assert!(world.request(0, &left("cmd=kvs-put;key=concat;value=concat=;")).contains("rc=0;"));
}

// Coverage: W2-20
#[test]
fn frames_of_another_message_are_no_continuation() {
    let begin =
        |id: u32, key: &str| right(&format!("cmd=kvs-put;thrid=t{id};key={key};concat={id};"));
    let go_on = |id: u32, rest: &str| right(&format!("cmd=concat;concatid={id};{rest}"));
    let put = |id: u32| right(&format!("cmd=kvs-put-response;thrid=t{id};rc=0;"));
    let get = |key: &str| right(&format!("cmd=kvs-get;thrid=g;key={key};"));
    let value = |value: &str| {
        right(&format!("cmd=kvs-get-response;thrid=g;rc=0;flag=true;found=TRUE;value={value};"))
    };
    for pieces in [1, 7, 1000] {
        let mut world = world(1);
        let mut request = |text: &str| {
            let mut heard = String::new();
            for piece in text.as_bytes().chunks(pieces) {
                heard.push_str(&world.request(0, str::from_utf8(piece).unwrap()));
            }
            heard
        };
        // A continuation of no message is a command that nobody knows, and the first one goes on.
        assert_eq!(request(&begin(1, "a")), "");
        let stray = request(&go_on(2, "value=OTHER;"));
        assert!(stray.contains("errmsg=not supported concat"), "{stray}");
        assert_eq!(request(&go_on(1, "value=own;")), put(1));
        assert!(request(&get("a")).contains("value=own;"), "in pieces of {pieces}");
        // Two at once, of which the second ends first.
        assert_eq!(request(&(begin(1, "b") + &begin(2, "c"))), "");
        assert_eq!(request(&go_on(2, "value=two;")), put(2));
        assert_eq!(request(&go_on(1, "value=one;")), put(1));
        // In the order of their beginnings, each in three frames.
        assert_eq!(request(&(begin(1, "d") + &begin(2, "e"))), "");
        assert_eq!(request(&(go_on(1, "concat=1;") + &go_on(2, "concat=2;"))), "");
        assert_eq!(request(&go_on(1, "value=three;")), put(1));
        assert_eq!(request(&go_on(2, "value=four;")), put(2));
        // A whole command between.
        assert_eq!(request(&begin(1, "f")), "");
        let heard = request(&get("e"));
        assert!(heard.contains("value=four;"), "{heard}");
        assert_eq!(request(&go_on(1, "value=five;")), put(1));
        for (key, stored) in
            [("b", "one"), ("c", "two"), ("d", "three"), ("e", "four"), ("f", "five")]
        {
            let heard = request(&get(key));
            assert!(heard.contains(&format!("value={stored};")), "{heard} {}", value(stored));
        }
        // All four, the last one first.
        let begun: String = (1..=4).map(|id| begin(id, &format!("g{id}"))).collect();
        assert_eq!(request(&begun), "");
        for id in (1..=4).rev() {
            assert_eq!(request(&go_on(id, "value=v;")), put(id));
        }
    }
    let mut world = world(1);
    let begun: String = (1..=5).map(|id| begin(id, "k")).collect();
    let error = world.send(0, &begun).unwrap_err();
    assert!(matches!(error, PeerError::Malformed(bad) if bad.expected == "cmd=concat"), "{error}");
}

// Coverage: W2-19
#[test]
fn rest_of_a_torn_value_is_not_stored() {
    let mut world = world(1);
    let received = world.request(0, &right("cmd=kvs-put;key=a;value=x;y;"));
    assert!(
        received.contains("rc=6;errmsg=a value without semicolon is missing or wrong;"),
        "{received}"
    );
    assert!(world.request(0, &right("cmd=kvs-get;key=a;")).contains("found=FALSE"));
}

// Coverage: W2-48
#[test]
fn second_connection_receives_notices_without_a_request() {
    use crate::command::Notice;
    for (asked, agreed, checkpoint, abort) in [
        ("1 pmi_subversion=1", "1 pmi_subversion=1", "cmd=checkpoint\n", "cmd=abort exitcode=9\n"),
        (
            "2 pmi_subversion=0",
            "2 pmi_subversion=0",
            "    15cmd=checkpoint;",
            "    21cmd=abort;exitcode=9;",
        ),
    ] {
        for (signal, wants) in [("NONE", None), ("SIGUSR1", Some(Word::new(b"SIGUSR1")))] {
            let mut world = world(2);
            let peer = Peer::Unidentified { job: world.job, deadline: None, challenge: None };
            assert!(world.server.notify(world.job, Rank(1), Notice::Checkpoint).is_err());
            world
                .sessions
                .push(world.server.open(peer, Inbox::new(), [const { None }; 4]).unwrap());
            let hello = format!("cmd=init_oob signal={signal} pmi_version={asked} pmiid=1\n");
            let received = world.request(2, &hello);
            assert_eq!(received, format!("cmd=response_to_init_oob rc=0 pmi_version={agreed}\n"));
            world.server.notify(world.job, Rank(1), Notice::Checkpoint).unwrap();
            world.ready();
            assert_eq!(world.recv(2), checkpoint);
            let told =
                wants.clone().map(|signal| Event::Signal { job: world.job, rank: Rank(1), signal });
            assert_eq!(world.server.poll_event(), told);
            world.server.notify(world.job, Rank(1), Notice::Abort(9)).unwrap();
            assert_eq!(world.recv(2), abort);
            assert_eq!(world.server.session(world.sessions[2]).unwrap().handle_end(NOW), Ok(()));
            world.server.close(world.sessions[2]);
            assert!(world.server.notify(world.job, Rank(1), Notice::Checkpoint).is_err());
            assert!(world.request(1, &left("cmd=job-getid;")).contains("rc=0"));
        }
    }
    for bad in ["pmi_version=1 pmiid=7", "pmi_version=1"] {
        let mut world = TestServer::without_sessions(2);
        let peer = Peer::Unidentified { job: world.job, deadline: None, challenge: None };
        world.open(peer);
        assert!(world.send(0, &format!("cmd=init_oob signal=NONE {bad}\n")).is_err());
    }
}

#[test]
fn rank_of_another_job_is_known_by_its_own_number() {
    use crate::command::Notice;
    let mut world = TestServer::without_sessions(2);
    let name = crate::ids::KvsName::new(b"kvs_2").unwrap();
    let spec = JobSpec { name, spawner: None, universe_size: None, size: None, has_uplink: false };
    let members = vec![Member::new(0, 0).with_token(70), Member::new(0, 0).with_token(71)];
    let other = world.add_job(spec, members);
    let name = crate::ids::KvsName::new(b"kvs_3").unwrap();
    let spec = JobSpec { name, spawner: None, universe_size: None, size: None, has_uplink: false };
    let members = (0..4).map(|_| Member::new(0, 0)).collect();
    world.add_job(spec, members);
    for (id, is_known) in [(71, true), (1, true), (3, false), (72, false)] {
        let peer = Peer::Unidentified { job: world.job, deadline: None, challenge: None };
        let session = world.server.open(peer, Inbox::new(), [const { None }; 4]).unwrap();
        world.sessions = vec![session];
        let hello = format!("cmd=init_oob signal=NONE pmi_version=1 pmi_subversion=1 pmiid={id}\n");
        assert_eq!(world.send(0, &hello).is_ok(), is_known, "{id}");
    }
    for (job, rank, listens) in [(other, 1, true), (world.job, 1, true), (other, 0, false)] {
        let told = world.server.notify(job, Rank(rank), Notice::Checkpoint);
        assert_eq!(told.is_ok(), listens, "{rank}");
    }
}

// Coverage: W2-8, W2-14, W2-35
#[test]
fn client_of_the_text_alone_is_understood_and_answered_in_its_words() {
    let mut world = TestServer::new(1);
    world.request(0, "cmd=init pmi_version=2 pmi_subversion=0\n");
    let heard = world.request(0, &right("cmd=fullinit;pmijobid=kvs_1;pmirank=0;threaded=true;"));
    assert_eq!(
        heard,
        right(
            "cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=0;size=1;appnum=0;\
             debugged=false;pmiverbose=false;"
        )
    );
    for (asked, heard) in [
        // Where the client gives no name of the exchange, its opening tells.
        ("kvs-put;key=a;value=x;;y;;;", "kvs-put-response;rc=0;"),
        (
            "kvs-get;thrid=1;key=a;",
            "kvs-get-response;thrid=1;rc=0;found=true;flag=true;value=x;;y;;;",
        ),
        ("kvs-get;key=none;", "kvs-get-response;rc=0;found=false;flag=false;"),
        ("name-publish;name=s;port=a;;b;infokeycount=0;", "name-publish-response;rc=0;"),
        (
            "name-lookup;name=s;infokeycount=0;",
            "name-lookup-response;rc=0;value=a;;b;port=a;;b;found=true;flag=true;",
        ),
        ("job-connect;jobid=kvs_1;", "job-connect-response;rc=0;kvscopy=false;"),
        (
            "unheard-of;thrid=1;",
            "unheard-of-response;thrid=1;rc=14;errmsg=not supported unheard-of;",
        ),
    ] {
        let heard = right(&format!("cmd={heard}"));
        assert_eq!(world.request(0, &right(&format!("cmd={asked}"))), heard);
    }
}

// Coverage: W2-32
#[test]
fn spawn_may_have_a_message_for_each_program() {
    let messages = [
        "cmd=spawn;thrid=7;ncmds=2;preputcount=1;ppkey0=k;ppval0=v;;w;",
        "cmd=spawn-cmd;thrid=7;maxprocs=2;argc=3;argv0=/bin/a;argv1=x;;y;argv2=cmd=z;\
         infokeycount=1;infokey0=wdir;infoval0=/tmp;",
        "cmd=spawn-cmd;thrid=7;maxprocs=1;argc=1;concat=1;",
        "cmd=concat;concatid=1;argv0=/bin/b;infokeycount=0;",
    ]
    .map(right);
    let mut world = world(1);
    for message in &messages {
        assert_eq!(world.server.poll_event(), None);
        world.send(0, message).unwrap();
    }
    let Some(Event::Spawn { session, exchange }) = world.server.poll_event() else { panic!() };
    let spawn = world.server.spawn_request(session).unwrap();
    let programs: Vec<_> = spawn.programs().collect();
    let found = programs.iter().map(|program| {
        let arguments: Vec<String> = program.arguments.iter().map(text).collect();
        (text(program.executable), program.processes, arguments)
    });
    let [a, b] = ["/bin/a", "/bin/b"].map(String::from);
    let arguments = ["x;y", "cmd=z"].map(String::from);
    assert!(found.eq([(a, 2, arguments.into()), (b, 1, Vec::new())]));
    assert!(programs[0].info.iter().map(|pair| text(pair.value)).eq([String::from("/tmp")]));
    assert_eq!(spawn.preputs().next().unwrap().value, *b"v;w");
    world.server.spawn_read(session);
    let codes = [(2, 0), (1, 13)].map(|(count, code)| CodeRun { count, code: Code(code) });
    world.server.answer_spawn(session, exchange, Ok(world.job), &codes).unwrap();
    assert_eq!(
        world.recv(0),
        right(
            "cmd=spawn-response;thrid=7;rc=0;jobid=kvs_1;nerrs=3;err0=0;err1=0;err2=13;errcodes=0,0,13;"
        )
    );
    // Nothing may stand between them.
    world.send(0, &messages[0]).unwrap();
    assert!(world.send(0, &right("cmd=job-getid;thrid=8;")).is_err());
}

fn text(text: Text<'_>) -> String {
    String::from_utf8(text.bytes().collect()).unwrap()
}

// Coverage: W2-29
#[test]
fn spawned_job_alone_is_told_the_name_of_its_spawner() {
    let mut world = world(1);
    let spec = JobSpec {
        spawner: Some(crate::ids::KvsName::new(JOB_NAME.as_bytes()).unwrap()),
        ..job_spec("child")
    };
    let job = world.add_job(spec, vec![Member::new(0, 0)]);
    world.open(Peer::Member { job, rank: Rank(0) });
    let child = world.sessions.len() - 1;
    world.request(child, "cmd=init pmi_version=2 pmi_subversion=0\n");
    for (session, field) in [(child, format!("spawner-jobid={JOB_NAME};")), (0, String::new())] {
        let received = world.request(session, &left("cmd=fullinit;pmirank=0;"));
        let (_, behind) = received.split_once("pmiverbose=FALSE;").unwrap();
        assert_eq!(behind, field);
    }
}

// Coverage: W2-18
#[test]
fn keys_of_64_and_values_of_1024_bytes_are_stored_and_no_longer_ones() {
    let mut world = world(1);
    for (key_bytes, value_bytes, is_stored) in
        [(64, 1, true), (64, 1024, true), (65, 1, false), (1, 1025, false)]
    {
        let (key, value) = ("k".repeat(key_bytes), "v".repeat(value_bytes));
        let put = world.request(0, &left(&format!("cmd=kvs-put;key={key};value={value};")));
        assert_eq!(put.contains("rc=0;"), is_stored, "{put}");
        let got = world.request(0, &left(&format!("cmd=kvs-get;key={key};")));
        assert_eq!(got.contains(&format!("value={value};")), is_stored, "{got}");
    }
}

// Coverage: A2-1
#[test]
fn spawned_job_and_its_spawner_read_each_other() {
    let mut world = world(1);
    let mut children = Vec::new();
    // More than a board has room for.
    for number in 0..12 {
        let spec = JobSpec {
            spawner: Some(crate::ids::KvsName::new(JOB_NAME.as_bytes()).unwrap()),
            ..job_spec(&format!("child_{number}"))
        };
        let job = world.add_job(spec, vec![Member::new(0, 0)]);
        world.open(Peer::Member { job, rank: Rank(0) });
        children.push(job);
        if number < 11 {
            let session = world.sessions.pop().unwrap();
            world.server.close(session);
            if number < 10 {
                // The table of the kit has few places.
                world.server.remove_job(job).unwrap();
            }
        }
    }
    let of_child = world.sessions.len() - 1;
    world.request(of_child, "cmd=init pmi_version=2 pmi_subversion=0\n");
    for (session, other) in [(0, "child_11"), (of_child, "kvs_1")] {
        let own = if session == 0 { of_child } else { 0 };
        world.request(own, &left("cmd=kvs-put;key=a;value=1;"));
        world.request(own, &left("cmd=kvs-fence;"));
        let received = world.request(session, &left(&format!("cmd=kvs-get;jobid={other};key=a;")));
        assert!(received.contains("found=TRUE;value=1;"), "{received}");
    }
}

// Coverage: A2-13
#[test]
fn attribute_of_a_node_may_be_there_from_the_start() {
    let mut world = world(4);
    world.server.preset_node(world.job, 1, b"localRanks", b"2,3").unwrap();
    let get = left("cmd=info-getnodeattr;key=localRanks;wait=TRUE;");
    assert!(world.request(2, &get).contains("found=TRUE;value=2,3;"));
    assert_eq!(world.request(0, &get), "");
}

// Coverage: W2-31
#[test]
fn text_of_an_abort_is_there_as_long_as_its_session() {
    let text = "x;".repeat(500);
    for (opening, abort) in [
        (
            "cmd=init pmi_version=1 pmi_subversion=1\n",
            format!("cmd=abort exitcode=3 message={text}\n"),
        ),
        (
            "cmd=init pmi_version=2 pmi_subversion=0\n",
            left(&format!("cmd=abort;isworld=FALSE;msg={};", text.replace(';', ";;"))),
        ),
    ] {
        let mut world = TestServer::new(1);
        world.request(0, opening);
        assert_eq!(world.server.abort_message(world.sessions[0]), None);
        world.send(0, &abort).unwrap();
        assert!(matches!(world.server.poll_event(), Some(Event::Aborted { .. })));
        let whole = world.server.abort_message(world.sessions[0]).unwrap();
        assert!(whole == *text.as_bytes());
    }
}

// Coverage: W2-50
#[test]
fn second_connection_needs_no_identity_where_only_one_rank_is() {
    for (size, is_known) in [(1, true), (2, false)] {
        let mut world = TestServer::without_sessions(size);
        let peer = Peer::Unidentified { job: world.job, deadline: None, challenge: None };
        world.open(peer);
        let hello = "cmd=init_oob signal=SIGSTOP pmi_version=2 pmi_subversion=0\n";
        assert_eq!(world.send(0, hello).is_ok(), is_known, "{size}");
    }
}

// Coverage: W2-28
#[test]
fn client_is_told_whether_a_debugger_controls_its_job() {
    for (is_debugged, debugged) in [(true, "TRUE"), (false, "FALSE")] {
        let mut world = TestServer::new(1);
        world.server.set_debugged(world.job, is_debugged).unwrap();
        world.request(0, "cmd=init pmi_version=2 pmi_subversion=0\n");
        let heard = world.request(0, &left("cmd=fullinit;pmirank=0;threaded=FALSE;"));
        assert!(heard.contains(&format!(";debugged={debugged};pmiverbose=FALSE;")), "{heard}");
    }
}

// Coverage: W2-58
#[test]
fn client_is_told_whether_it_shall_print_debug_messages() {
    let mut world = TestServer::new(1);
    world.server.set_verbose(world.job, true).unwrap();
    world.request(0, "cmd=init pmi_version=2 pmi_subversion=0\n");
    let heard = world.request(0, &left("cmd=fullinit;pmirank=0;threaded=FALSE;"));
    assert!(heard.contains(";debugged=FALSE;pmiverbose=TRUE;"), "{heard}");
}
