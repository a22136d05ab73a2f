//! Sessions that borrow their inboxes from a pool: as many complete a job as with buffers of their own.

use std::boxed::Box;
use std::string::ToString;

use super::*;
use crate::pool::{Pool, PooledBuffer};
use crate::store::{Arena, ArenaCell};
use crate::testkit::server::{Store, store};

const LINE: usize = 64;
type Lines = Pool<LINE, 2>;
type Pooled = Arrays<PooledBuffer<LINE, 2>, Store, Vec<Member>, 4, 1, 1>;

struct PooledServer {
    server: Server<Pooled>,
    pool: &'static Lines,
    sessions: [SessionId; 4],
}

impl PooledServer {
    /// Four ranks, two buffers.
    fn new() -> Self {
        let pool: &'static Lines =
            Box::leak(Box::new(Pool::new(Box::leak(Box::new([[0; LINE]; 2])))));
        let names = Arena::new(vec![ArenaCell::FREE; 0], vec![]);
        let mut server = Server::new([const { None }; 4], [const { None }; 1], names);
        let job = server.add_job(job_spec(JOB_NAME), members(4, 4), store(8, 256)).unwrap();
        let sessions = [0, 1, 2, 3].map(|rank| {
            let peer = Peer::Member { job, rank: Rank(rank) };
            server.open(peer, pool.buffer(), [None]).unwrap()
        });
        Self { server, pool, sessions }
    }

    /// Gives bytes to the session of a rank, and returns the number of those that it consumes.
    fn input(&mut self, rank: usize, bytes: &str) -> Result<usize, PeerError> {
        let id = self.sessions[rank];
        self.server.session(id).unwrap().handle_input(NOW, bytes.as_bytes())
    }

    fn reply(&mut self, rank: usize) -> String {
        let (id, mut out) = (self.sessions[rank], [0; LINE]);
        let len = self.server.session(id).unwrap().poll_transmit(&mut out).unwrap();
        String::from_utf8_lossy(&out[..len.unwrap_or(0)]).to_string()
    }

    /// Ranks that the server names as ready.
    fn ready(&mut self) -> Vec<usize> {
        let mut ranks = Vec::new();
        while let Some(id) = self.server.next_ready() {
            ranks.extend(self.sessions.iter().position(|session| *session == id));
        }
        ranks
    }

    fn init_all(&mut self) {
        for rank in 0..4 {
            let init = "cmd=init pmi_version=1 pmi_subversion=1\n";
            assert_eq!(self.input(rank, init), Ok(init.len()));
            assert!(self.reply(rank).contains("rc=0"));
        }
        self.ready();
    }
}

#[test]
fn whole_message_needs_a_buffer_only_if_it_may_have_to_be_kept() {
    let may_be_kept = parts::SPAWN || cfg!(feature = "pmix");
    let mut world = PooledServer::new();
    let held: Vec<_> = (0..2).map(|rank| world.input(rank, "cmd=ini")).collect();
    assert_eq!((held, world.pool.free_count()), (vec![Ok(7), Ok(7)], 0));
    let init = "cmd=init pmi_version=1 pmi_subversion=1\n";
    if may_be_kept {
        assert_eq!(world.input(2, init), Ok(0));
        assert_eq!(world.input(0, &init[7..]), Ok(init.len() - 7));
        assert_eq!(world.ready(), [2]);
    }
    assert_eq!(world.input(2, init), Ok(init.len()));
    assert!(world.reply(2).contains("rc=0"));
}

#[test]
fn sessions_without_a_buffer_leave_their_input_in_the_link_and_are_ready_one_by_one() {
    let mut world = PooledServer::new();
    world.init_all();
    for rank in 0..4 {
        assert_eq!(world.input(rank, "cmd=get_ap"), Ok(if rank < 2 { 10 } else { 0 }));
    }
    assert_eq!((world.ready(), world.pool.free_count()), (vec![], 0));
    // The end of the first message returns its buffer, which the third session gets.
    assert_eq!(world.input(1, "pnum\n"), Ok(5));
    assert_eq!(world.ready(), [2]);
    assert_eq!(world.input(2, "cmd=get_ap"), Ok(10));
    // The next one is ready too, finds none, and waits again.
    assert_eq!((world.ready(), world.pool.free_count()), (vec![3], 0));
    assert_eq!((world.input(3, "cmd=get_ap"), world.ready()), (Ok(0), vec![]));
    assert_eq!(world.reply(1), "cmd=appnum rc=0 appnum=0\n");
    assert_eq!(world.input(2, "pnum\n"), Ok(5));
    assert_eq!(world.ready(), [3]);
    assert_eq!(world.input(3, "cmd=get_appnum\n"), Ok(15));
    assert_eq!(world.input(0, "pnum\n"), Ok(5));
    assert_eq!(world.pool.free_count(), 2);
    for rank in [0, 2, 3] {
        assert_eq!(world.reply(rank), "cmd=appnum rc=0 appnum=0\n");
    }
}

#[test]
fn session_that_waits_for_a_response_holds_no_buffer() {
    let mut world = PooledServer::new();
    world.init_all();
    let fence = "cmd=barrier_in\n";
    for rank in 0..2 {
        // The second piece ends the fence and begins the next request, which stays in the link.
        assert_eq!(world.input(rank, "cmd=barr"), Ok(8));
        assert_eq!(world.input(rank, "ier_in\ncmd=get_"), Ok(7));
    }
    assert_eq!(world.pool.free_count(), 2);
    for rank in 2..4 {
        for piece in [&fence[..4], &fence[4..]] {
            assert_eq!(world.input(rank, piece), Ok(piece.len()));
        }
    }
    for rank in 0..4 {
        assert_eq!(world.reply(rank), "cmd=barrier_out rc=0\n");
    }
    assert_eq!(world.input(0, "cmd=get_appnum\n"), Ok(15));
    assert_eq!(world.reply(0), "cmd=appnum rc=0 appnum=0\n");
}

#[test]
fn buffer_returns_when_its_session_fails_or_is_closed() {
    let mut world = PooledServer::new();
    world.init_all();
    for rank in 0..2 {
        assert_eq!(world.input(rank, "cmd=get_"), Ok(8));
    }
    assert_eq!(world.input(2, "cmd=get_"), Ok(0));
    assert_eq!(world.input(3, "cmd=get_"), Ok(0));
    let long = "x".repeat(2 * LINE);
    let limit_bytes = LINE;
    assert_eq!(world.input(0, &long), Err(PeerError::MessageTooLong { limit_bytes }));
    assert_eq!(world.ready(), [2]);
    assert_eq!(world.input(2, "cmd=get_"), Ok(8));
    world.server.close(world.sessions[1]);
    assert_eq!(world.ready(), [3]);
    assert_eq!(world.input(3, "cmd=get_"), Ok(8));
}
