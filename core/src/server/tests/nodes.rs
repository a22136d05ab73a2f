//! Jobs with ranks on several nodes, of which a server has some.

use super::*;

/// Node server of a job of `size` ranks with the members `ranks`, whose sessions are open in this order.
fn node_server(size: u32, ranks: &[u32]) -> TestServer {
    let spec = JobSpec { size: Some(size), has_uplink: true, ..job_spec(JOB_NAME) };
    let member = |rank: &u32| Member::new(0, 1).with_rank(Rank(*rank));
    let mut world = TestServer::of(spec, ranks.iter().map(member).collect());
    for rank in ranks {
        world.open(Peer::Member { job: world.job, rank: Rank(*rank) });
    }
    world
}

#[test]
fn ranks_and_size_are_those_of_the_whole_job() {
    let mut world = node_server(7, &[2, 5]);
    let reply = world.request(1, "cmd=initack pmiid=5\n");
    assert!(reply.starts_with("cmd=initack rc=0 rank=5 size=7 "), "{reply}");
    let job = world.server.job(world.job).unwrap();
    assert_eq!((job.size(), job.members().len(), job.has_remote()), (7, 2, true));
    let present = (0..9).map(|rank| (job.member(Rank(rank)).is_some(), job.is_remote(Rank(rank))));
    let present: Vec<_> = present.collect();
    assert_eq!(present.iter().filter(|rank| rank.0).count(), 2);
    assert_eq!(present.iter().filter(|rank| rank.1).count(), 5);
    assert_eq!(
        (present[5], present[6], present[7]),
        ((true, false), (false, true), (false, false))
    );
    let remote = Peer::Member { job: world.job, rank: Rank(3) };
    let refused = world.server.open(remote, Inbox::new(), [const { None }; 4]);
    assert_eq!(refused, Err(Misuse::NoSuch { what: "rank" }));
}

#[test]
fn members_out_of_order_are_rejected() {
    for ranks in [&[5, 2][..], &[1, 1], &[6, 7]] {
        let spec = JobSpec { size: Some(7), ..job_spec("other") };
        let member = |rank: &u32| Member::new(0, 0).with_rank(Rank(*rank));
        let members = ranks.iter().map(member).collect();
        let added = TestServer::new(1).server.add_job(spec, members, testkit_store());
        assert!(matches!(added, Err(Misuse::WrongState { .. })), "{ranks:?}");
    }
}

fn testkit_store() -> crate::testkit::server::Store {
    crate::testkit::server::store(8, 256)
}

#[test]
fn fence_is_complete_here_when_the_local_ranks_are_inside() {
    let mut world = node_server(1000, &[2, 5]);
    world.init_all();
    for generation in 0..3 {
        assert_eq!(world.missing(), [2, 5]);
        assert_eq!(world.request(1, "cmd=barrier_in\n"), "");
        assert_eq!(world.missing(), [2]);
        assert_eq!(world.server.poll_event(), None);
        assert_eq!(world.request(0, "cmd=barrier_in\n"), "");
        let told = Event::FenceHandedUp { job: world.job, generation };
        assert_eq!((world.server.poll_event(), world.server.poll_event()), (Some(told), None));
        assert_eq!((world.recv(0), world.recv(1)), (String::new(), String::new()));
        world.server.end_fence(world.job).unwrap();
        assert_eq!(world.recv(0), "cmd=barrier_out rc=0\n");
        assert_eq!(world.recv(1), "cmd=barrier_out rc=0\n");
    }
}

#[test]
fn rank_that_is_gone_is_named_by_its_rank() {
    let mut world = node_server(9, &[3, 6]);
    world.init_all();
    world.request(0, "cmd=barrier_in\n");
    world.server.close(world.sessions[1]);
    world.server.member_gone(world.job, Rank(6));
    let told = Event::FenceStuck { job: world.job, gone: Rank(6) };
    assert_eq!(world.server.poll_event(), Some(told));
}

#[test]
fn requests_that_need_ranks_of_other_nodes_are_refused_with_the_reason() {
    let mut world = node_server(4, &[0, 1]);
    for rank in 0..2 {
        world.request(rank, "cmd=init pmi_version=1 pmi_subversion=2\n");
    }
    let over_nodes = "a_fence_of_some_ranks_over_several_nodes";
    for group in ["group=0,2", "group=0,1,2,3", "group=WORLD:3"] {
        let reply = world.request(0, &std::format!("cmd=barrier_in {group}\n"));
        assert!(reply.contains("rc=14") && reply.contains(over_nodes), "{group}: {reply}");
    }
    for request in ["cmd=publish_name service=a port=b\n", "cmd=lookup_name service=a\n"] {
        let reply = world.request(0, request);
        assert!(reply.contains("published_name_over_several_nodes"), "{reply}");
    }
    // Those of this node are enough for these.
    assert_eq!(world.request(0, "cmd=barrier_in group=0,1\n"), "");
    assert!(world.request(1, "cmd=barrier_in group=0,1\n").contains("rc=0"));
    assert_eq!(world.request(1, "cmd=barrier_in group=NODE\n"), "");
}

#[test]
fn pmi2_requests_that_need_other_nodes_are_refused_with_the_reason() {
    let mut world = node_server(4, &[1, 3]);
    let other = world.add_job(job_spec("other"), vec![Member::new(0, 0)]);
    assert_ne!(other, world.job);
    world.request(0, "cmd=init pmi_version=2 pmi_subversion=0\n");
    let frame = |text: &str| std::format!("{:6}{text}", text.len());
    for (request, what) in [
        ("cmd=ring;ring-count=1;ring-left=a;ring-right=b;", "a ring over several nodes"),
        ("cmd=name-publish;name=a;port=b;infokeycount=0;", "a published name over several nodes"),
        ("cmd=job-connect;jobid=other;", "a connection of jobs over several nodes"),
        (
            "cmd=kvs-putall;jobid=kvs_1;npair=0;",
            "a put of several pairs at once over several nodes",
        ),
    ] {
        let reply = world.request(0, &frame(request));
        assert!(reply.contains(what), "{request}: {reply}");
    }
}
