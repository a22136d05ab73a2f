//! A server for eight ranks, each with a serial line of its own. The store's memory is lent, and two lines
//! serve all of them: for input that has not ended, and for output.

use pmi_core::error::Full;
use pmi_core::ids::{JobId, KvsName, Rank};
use pmi_core::limits::PMI1_LINE;
use pmi_core::machine::Machine;
use pmi_core::pool::{Pool, PooledBuffer};
use pmi_core::server::{JobOf, JobSpec, Member, Peer, Server, SessionOf, Storage};
use pmi_core::storage::{ArraySlots, Buffer};
use pmi_core::store::{Arena, ArenaCell};
use pmi_core::time::Instant;

use crate::mcu::{self, Late, Lent};

struct Board;

type Lines = Pool<PMI1_LINE, 2>;
type Store = Arena<&'static mut [ArenaCell], &'static mut [u8]>;
// They grow, since a table of places would have to stand in flash.
type Sessions = ArraySlots<SessionOf<Board>, RANKS>;
type Jobs = ArraySlots<JobOf<Board>, 1>;

impl Storage for Board {
    type Inbox = PooledBuffer<PMI1_LINE, 2>;
    type Pending<T: 'static> = [Option<T>; 1];
    type Sessions<T: 'static> = &'static mut ArraySlots<T, RANKS>;
    type Kvs = Store;
    type Members = &'static mut [Member];
    type Jobs<T: 'static> = &'static mut ArraySlots<T, 1>;
    type Pmix = ();
}

const RANKS: usize = 8;

static SESSIONS: Lent<Sessions> = Lent::new(Sessions::new());
static JOBS: Lent<Jobs> = Lent::new(Jobs::new());
static MEMBERS: Lent<[Member; RANKS]> = Lent::new([const { Member::new(0, 0) }; RANKS]);
static PLACES: Lent<[ArenaCell; 16]> = Lent::new([ArenaCell::FREE; 16]);
static BYTES: Lent<[u8; 2048]> = Lent::new([0; 2048]);
static LINES: Lent<[[u8; PMI1_LINE]; 2]> = Lent::new([[0; PMI1_LINE]; 2]);
static POOL: Late<Lines> = Late::late();

#[inline(never)]
pub(crate) fn run() {
    let pool: &'static Lines = POOL.lend().write(Pool::new(LINES.lend()));
    let nothing_published = Arena::new(&mut [][..], &mut [][..]);
    let mut server = Server::<Board>::new(SESSIONS.lend(), JOBS.lend(), nothing_published);
    let Some(job) = add_job(&mut server) else { return };
    if open_sessions(&mut server, job, pool).is_none() {
        return;
    }
    loop {
        // The line with input, and its first byte, which stays first until it is acknowledged.
        let (rank, byte) = (mcu::receive(), mcu::receive());
        let session = server.job(job).and_then(|job| job.member(Rank(rank.into()))?.session());
        let Some(mut session) = session.and_then(|id| server.session(id)) else { return };
        if session.handle_input(Instant::ZERO, &[byte]) != Ok(0) {
            mcu::send(&[rank]);
        }
        transmit(&mut server, pool);
        while server.poll_event().is_some() {}
    }
}

// Not inlined: what is built and moved passes through the stack before the first message.
#[inline(never)]
fn open_sessions(server: &mut Server<Board>, job: JobId, pool: &'static Lines) -> Option<()> {
    for rank in 0..8 {
        let peer = Peer::Member { job, rank: Rank(rank) };
        server.open(peer, pool.buffer(), [None]).ok()?;
    }
    Some(())
}

#[inline(never)]
fn add_job(server: &mut Server<Board>) -> Option<JobId> {
    let store = Arena::new(&mut PLACES.lend()[..], &mut BYTES.lend()[..]);
    let members = &mut MEMBERS.lend()[..];
    let name = KvsName::new(b"kvs").ok()?;
    let spec = JobSpec { name, spawner: None, universe_size: None, size: None, has_uplink: false };
    server.add_job(spec, members, store).ok()
}

fn transmitted(session: &mut impl Machine, out: &mut [u8]) -> Result<usize, Full> {
    session.poll_transmit(out).map(|len| len.unwrap_or(0))
}

/// Sends what is due, as long as a line is free for it; the rest follows after further input.
fn transmit(server: &mut Server<Board>, pool: &'static Lines) {
    while pool.free_count() > 0
        && let Some(id) = server.next_ready()
    {
        let Some(mut session) = server.session(id) else { continue };
        let mut line = pool.buffer();
        while let Ok(1..) = line.append_with(|| PMI1_LINE, |out| transmitted(&mut session, out)) {
            mcu::send(line.as_slice());
            line.clear();
        }
    }
}
