//! Real clients and a real server through the driver loop, over pipes and a clock that does not advance.

use futures_lite::future::{block_on, zip};
use pmi_core::client::{Client, ClientEvent, FixedBuffer, State};
use pmi_core::command::{Answer, FenceGroup, Place, Request, Text, Version};
use pmi_core::error::PeerError;
use pmi_core::ids::Rank;
use pmi_core::machine::Machine;
use pmi_core::server::{self, Peer};
use pmi_link::{PumpError, PumpState, pump, task};
use pmi_testkit::pipe::{ALL, GOOD, Pipe, PipeRules, STUTTERING, pipe};
use pmi_testkit::server::{Inbox, JOB_NAME, NOW, job_spec, members, unidentified};
use pmi_testkit::{LinkedServer, TestServer};

const SIZE: u32 = 5;

/// A member of the job: sends one request after the other and records the replies.
struct Asker {
    link: Pipe,
    state: PumpState<Inbox>,
    client: Client<FixedBuffer>,
    requests: std::vec::IntoIter<Request<'static>>,
    received: Vec<String>,
}

/// A job on one node, whose ranks are connected by pipes.
struct World {
    server: LinkedServer<Pipe>,
    askers: Vec<Asker>,
}

impl World {
    fn new(rules: PipeRules, dials: bool, requests: impl Fn(u32) -> Vec<Request<'static>>) -> Self {
        let server = TestServer::of(job_spec(JOB_NAME), members(SIZE, SIZE));
        let (job, mut server) = (server.job, LinkedServer::new(server));
        let mut askers = Vec::new();
        for rank in 0..SIZE {
            let (near, link) = pipe(rules);
            let member = Peer::Member { job, rank: Rank(rank) };
            server.connect(if dials { unidentified(job) } else { member }, near);
            askers.push(Asker {
                link,
                state: PumpState::new(Inbox::new(), Inbox::new()),
                client: Client::fixed(),
                requests: requests(rank).into_iter(),
                received: Vec::new(),
            });
        }
        Self { server, askers }
    }

    /// Repeats until nothing moves any more.
    fn run(&mut self) {
        let mut quiet_rounds = 0;
        // More than one round, since a link that stutters may be silent for a while.
        while quiet_rounds < 20 {
            let mut moved = false;
            for asker in &mut self.askers {
                moved |= asker.step();
            }
            moved |= self.server.serve_once();
            quiet_rounds = if moved { 0 } else { quiet_rounds + 1 };
        }
    }
}

impl Asker {
    /// Sends the next request if the last one has its reply, and moves bytes. True if any moved.
    fn step(&mut self) -> bool {
        if self.client.outstanding() == 0
            && let Some(request) = self.requests.next()
        {
            self.client.start(&request).unwrap();
        }
        let (link, state) = (&mut self.link, &mut self.state);
        let moved = match pump(NOW, &mut self.client, link, state, &mut [0; 4096]) {
            Ok(progress) => progress.has_moved(),
            Err(PumpError::Peer { .. }) => false,
            Err(error) => panic!("{error}"),
        };
        while let Some(ClientEvent::Reply { reply, .. }) = self.client.poll_event() {
            self.received.push(match reply.answer {
                Answer::Value(text) => String::from_utf8(text.bytes().collect()).unwrap(),
                other if reply.code.is_success() => format!("{other:?}"),
                _ => format!("{:?} {}", reply.to, reply.code.0),
            });
        }
        moved
    }
}

const INIT: Request<'_> = Request::Init { version: Version::V1_1 };
const FENCE: Request<'_> = Request::Fence { group: FenceGroup::World, tag: None };

fn leak(text: String) -> Text<'static> {
    Text::plain(text.leak().as_bytes())
}

fn put(key: String, value: String) -> Request<'static> {
    Request::Put { place: Place::Job(None), key: leak(key), value: leak(value) }
}

fn get(key: String) -> Request<'static> {
    Request::Get { place: Place::Job(None), key: leak(key), wait: false }
}

/// The requests with which all ranks find each other: put a card, fence, get all cards.
fn cards(rank: u32) -> Vec<Request<'static>> {
    let mut requests = vec![
        INIT,
        Request::Maxes,
        Request::KvsName,
        get("card-0".into()),
        put(format!("card-{rank}"), format!("{rank}").repeat(1000)),
        FENCE,
    ];
    requests.extend((0..SIZE).map(|other| get(format!("card-{other}"))));
    requests.extend([FENCE, Request::Finalize]);
    requests
}

#[test]
fn job_exchanges_its_cards_over_every_kind_of_link() {
    for rules in ALL {
        for dials in [false, true] {
            let mut world = World::new(rules, dials, |rank| {
                let greeting = Request::InitAck { id: u64::from(rank) };
                let mut requests = if dials { vec![greeting] } else { Vec::new() };
                requests.extend(cards(rank));
                requests
            });
            world.run();
            assert_eq!(world.server.faults, []);
            for (rank, asker) in world.askers.iter().enumerate() {
                assert_eq!(asker.client.state(), State::Ended, "{rules:?}: {:?}", asker.received);
                let first = asker.received.len() - SIZE as usize - 2;
                for (other, card) in asker.received[first..][..SIZE as usize].iter().enumerate() {
                    assert_eq!(*card, other.to_string().repeat(1000), "rank {rank}");
                }
                if dials {
                    let identity = asker.client.identity().unwrap();
                    assert_eq!((identity.rank as usize, identity.size), (rank, SIZE));
                }
            }
            let fence = world.server.inner.server.job(world.server.inner.job).unwrap().fence();
            assert_eq!((fence.generation(), fence.inside()), (2, 0));
        }
    }
}

/// The same in frames, and the requests that only frames have.
fn frames(rank: u32) -> Vec<Request<'static>> {
    let key = |text: &str| leak(text.into());
    let node = |text: &str, wait| Request::Get { place: Place::Node, key: key(text), wait };
    let mut requests = vec![
        Request::Init { version: Version::V2_0 },
        Request::FullInit { rank: Some(rank), job: None, threaded: false, method: None },
        Request::KvsName,
        put(format!("card-{rank}"), format!("{rank};").repeat(300)),
        FENCE,
    ];
    requests.extend((0..SIZE).map(|other| get(format!("card-{other}"))));
    // The last rank puts the value that all others wait for.
    if rank + 1 == SIZE {
        let (key, value) = (key("leader"), leak("here".into()));
        requests.push(Request::Put { place: Place::Node, key, value });
    }
    requests.push(node("leader", true));
    requests.push(node("nobody", false));
    requests.push(Request::Ring { left: leak(format!("l{rank}")), right: Text::EMPTY });
    requests.extend([FENCE, Request::Finalize]);
    requests
}

#[test]
fn job_exchanges_its_cards_in_frames_over_every_kind_of_link() {
    for rules in ALL {
        for dials in [false, true] {
            let mut world = World::new(rules, dials, frames);
            world.run();
            assert_eq!(world.server.faults, []);
            for (rank, asker) in world.askers.iter().enumerate() {
                assert_eq!(asker.client.state(), State::Ended, "{rules:?}: {:?}", asker.received);
                let identity = asker.client.identity().unwrap();
                assert_eq!((identity.rank as usize, identity.size), (rank, SIZE));
                let first =
                    asker.received.iter().position(|received| received.starts_with("0;")).unwrap();
                for (other, card) in asker.received[first..][..SIZE as usize].iter().enumerate() {
                    assert_eq!(*card, format!("{other};").repeat(300), "rank {rank}");
                }
                assert!(asker.received.contains(&"here".into()), "{:?}", asker.received);
                let ring = format!("Ring {{ count: {rank}");
                assert!(asker.received.iter().any(|received| received.starts_with(&ring)));
            }
        }
    }
}

#[test]
fn ranks_of_both_generations_meet_in_one_job() {
    for rules in ALL {
        let mut world = World::new(rules, false, |rank| match rank % 2 {
            0 => cards(rank),
            _ => {
                let mut requests = cards(rank);
                // In frames there are no requests for sizes.
                requests[0] = Request::Init { version: Version::V2_0 };
                let rank = Some(rank);
                requests[1] = Request::FullInit { rank, job: None, threaded: false, method: None };
                requests
            }
        });
        world.run();
        assert_eq!(world.server.faults, []);
        for asker in &world.askers {
            assert_eq!(asker.client.state(), State::Ended, "{rules:?}: {:?}", asker.received);
            let found = asker.received.iter().filter(|received| received.len() == 1000).count();
            assert_eq!(found, SIZE as usize);
        }
    }
}

#[test]
fn member_that_disconnects_in_a_fence_is_reported_and_the_others_wait() {
    let mut world = World::new(GOOD, false, |rank| match rank {
        0 => vec![INIT],
        _ => vec![INIT, FENCE],
    });
    world.run();
    // The first rank disconnects without a finalize.
    let gone = world.askers.remove(0);
    drop(gone);
    world.run();
    assert_eq!(world.server.faults, [PeerError::LeftEarly]);
    assert!(world.askers.iter().all(|asker| asker.client.outstanding() == 1));
    let stuck = server::Event::FenceStuck { job: world.server.inner.job, gone: Rank(0) };
    assert!(world.server.events.contains(&stuck), "{:?}", world.server.events);
}

#[test]
fn abort_reaches_the_owner_of_the_server() {
    for rules in ALL {
        let abort =
            Request::Abort { code: Some(42), world: true, message: Text::from("no way on") };
        let mut world = World::new(rules, false, |rank| match rank {
            3 => vec![INIT, abort],
            _ => vec![INIT, FENCE],
        });
        world.run();
        let aborted = world.server.events.iter().find_map(|event| match event {
            server::Event::Aborted { rank, code, message, .. } => {
                Some((*rank, *code, message.as_bytes().to_vec()))
            }
            _ => None,
        });
        assert_eq!(aborted, Some((Rank(3), Some(42), b"no way on".to_vec())), "{rules:?}");
    }
}

#[test]
fn unexpected_client_receives_the_reason() {
    for rules in ALL {
        let mut world = World::new(rules, true, |rank| match rank {
            0 => vec![Request::InitAck { id: 99 }],
            _ => Vec::new(),
        });
        world.run();
        assert_eq!(world.server.faults, [PeerError::UnknownPeer { id: Some(99) }]);
        let State::Failed(error) = world.askers[0].client.state() else { panic!() };
        assert!(matches!(error, PeerError::Refused(_) | PeerError::LeftEarly), "{error}");
    }
}

#[test]
fn refused_call_does_not_end_the_conversation() {
    let mut world = World::new(GOOD, false, |rank| match rank {
        0 => vec![
            INIT,
            Request::KvsName,
            put("PMI_process_mapping".into(), "mine".into()),
            Request::Lookup { service: leak("nobody".into()) },
            get("nothing".into()),
            Request::Finalize,
        ],
        _ => vec![INIT],
    });
    world.run();
    assert_eq!(world.server.faults, []);
    assert_eq!(world.askers[0].client.state(), State::Ended);
    assert_eq!(world.askers[0].received.len(), 6, "{:?}", world.askers[0].received);
}

#[test]
fn server_and_a_client_take_turns_as_two_tasks() {
    let World { mut server, mut askers } = World::new(STUTTERING, false, |_| Vec::new());
    let (id, mut near) = server.take_link(2).unwrap();
    let Asker { link, state, client, .. } = &mut askers[2];
    let serve = async {
        let mut session = server.inner.server.session(id).unwrap();
        let mut kept = PumpState::new(Inbox::new(), Inbox::new());
        let mut pump = async || {
            task::pump(|| NOW, &mut session, &mut near, &mut kept, &mut [0; 8192]).await.unwrap()
        };
        while !pump().await.finished {}
    };
    let ask = async {
        for request in [INIT, Request::AppNum, Request::Finalize] {
            client.start(&request).unwrap();
            while client.poll_event().is_none() {
                task::pump(|| NOW, client, link, state, &mut [0; 4096]).await.unwrap();
            }
        }
    };
    block_on(zip(serve, ask));
    assert_eq!(askers[2].client.state(), State::Ended);
}
