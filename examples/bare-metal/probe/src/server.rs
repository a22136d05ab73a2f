//! A server for eight ranks, each with a serial line of its own. The store's memory is lent.

use pmi_core::ids::{KvsName, Rank};
use pmi_core::limits::PMI1_LINE;
use pmi_core::machine::Machine;
use pmi_core::server::{JobOf, JobSpec, Member, Peer, Server, SessionOf, Storage};
use pmi_core::store::{Arena, ArenaCell};
use pmi_core::time::Instant;

use crate::mcu::{self, Lent};

struct Board;

type Inbox = heapless::Vec<u8, PMI1_LINE>;
type Store = Arena<&'static mut [ArenaCell], &'static mut [u8]>;
type Table = &'static mut [Member];
// They grow, since a table of places would have to stand in flash.
type Sessions = heapless::Vec<Option<SessionOf<Board>>, RANKS>;
type Jobs = heapless::Vec<Option<JobOf<Board>>, 1>;

impl Storage for Board {
    type Inbox = Inbox;
    type Pending<T: 'static> = [Option<T>; 1];
    type Sessions<T: 'static> = &'static mut heapless::Vec<Option<T>, RANKS>;
    type Kvs = Store;
    type Members = Table;
    type Jobs<T: 'static> = &'static mut heapless::Vec<Option<T>, 1>;
    type Pmix = ();
}

const RANKS: usize = 8;

static SESSIONS: Lent<Sessions> = Lent::new(Sessions::new());
static JOBS: Lent<Jobs> = Lent::new(Jobs::new());
static MEMBERS: Lent<[Member; RANKS]> = Lent::new([const { Member::new(0, 0) }; RANKS]);
static PLACES: Lent<[ArenaCell; 32]> = Lent::new([ArenaCell::FREE; 32]);
static BYTES: Lent<[u8; 4096]> = Lent::new([0; 4096]);
static SCRATCH: Lent<[u8; PMI1_LINE]> = Lent::new([0; PMI1_LINE]);

#[inline(never)]
pub(crate) fn run() {
    let nothing_published = Arena::new(&mut [][..], &mut [][..]);
    let mut server = Server::<Board>::new(SESSIONS.lend(), JOBS.lend(), nothing_published);
    let store = Arena::new(&mut PLACES.lend()[..], &mut BYTES.lend()[..]);
    let members = &mut MEMBERS.lend()[..];
    let Ok(name) = KvsName::new(b"kvs") else { return };
    let spec = JobSpec { name, spawner: None, universe_size: None, size: None, has_uplink: false };
    let Ok(job) = server.add_job(spec, members, store) else { return };
    for rank in 0..8 {
        let peer = Peer::Member { job, rank: Rank(rank) };
        if server.open(peer, Inbox::new(), [None]).is_err() {
            return;
        }
    }
    let line = SCRATCH.lend();
    loop {
        // The line with input, and its byte.
        let (rank, byte) = (mcu::receive(), mcu::receive());
        let session = server.job(job).and_then(|job| job.member(Rank(rank.into()))?.session());
        let Some(mut session) = session.and_then(|id| server.session(id)) else { return };
        if session.handle_input(Instant::ZERO, &[byte]).is_err() {
            mcu::send(&[rank]);
        }
        while let Some(id) = server.next_ready() {
            let Some(mut session) = server.session(id) else { continue };
            while let Ok(Some(len)) = session.poll_transmit(line) {
                mcu::send(line.get(..len).unwrap_or(b""));
            }
        }
        while server.poll_event().is_some() {}
    }
}
