//! Eight ranks and their server in one small microcontroller, message by message through one line.
#![no_std]
#![no_main]

mod machine;

use machine::LentOnce;
use pmi_core::client::{Client, ClientEvent};
use pmi_core::command::{Answer, FenceGroup, Place, Request, Text, Version};
use pmi_core::ids::{JobId, KvsName, Rank};
use pmi_core::machine::Machine;
use pmi_core::pool::{Pool, PooledBuffer};
use pmi_core::server::{JobOf, JobSpec, Member, Peer, Server, SessionOf, Storage};
use pmi_core::storage::{ArrayBuffer, ArraySlots, Slots};
use pmi_core::store::{Arena, ArenaCell as Cell};
use pmi_core::time::Instant;
use pmi_core::wire::Writer;

const RANKS: usize = 8;
/// Length of the longest line here; longer lines are refused on either side.
const LINE: usize = 96;

type Lines = Pool<LINE, 2>;
/// A client that speaks PMI-1 and nothing else.
type Own = Client<ArrayBuffer<LINE>, 1, 1>;

/// Storage of the board's server.
struct Board;

type Store = Arena<&'static mut [Cell], &'static mut [u8]>;
type Sessions = ArraySlots<SessionOf<Board>, RANKS>;
type Jobs = ArraySlots<JobOf<Board>, 1>;

impl Storage for Board {
    type Inbox = PooledBuffer<LINE, 2>;
    type Pending<T: 'static> = [Option<T>; 1];
    type Sessions<T: 'static> = &'static mut ArraySlots<T, RANKS>;
    type Kvs = Store;
    type Members = &'static mut [Member];
    type Jobs<T: 'static> = &'static mut ArraySlots<T, 1>;
    type Pmix = ();
}

static SESSIONS: LentOnce<Sessions> = LentOnce::new(Sessions::new());
static JOBS: LentOnce<Jobs> = LentOnce::new(Jobs::new());
static MEMBERS: LentOnce<[Member; RANKS]> = LentOnce::new([const { Member::new(0, 0) }; RANKS]);
static CELLS: LentOnce<[Cell; 12]> = LentOnce::new([Cell::FREE; 12]);
static STORE: LentOnce<[u8; 256]> = LentOnce::new([0; 256]);
static CLIENTS: LentOnce<ArraySlots<Own, RANKS>> = LentOnce::new(ArraySlots::new());
static LINES: LentOnce<[[u8; LINE]; 2]> = LentOnce::new([[0; LINE]; 2]);
static POOL: LentOnce<Option<Lines>> = LentOnce::new(None);

fn run() -> ! {
    let good = play().is_some();
    let (used, bytes) = machine::stack();
    let mut text = [0; 64];
    let mut line = Writer::new(&mut text);
    line.bytes(if good { b"board: 8 ranks done" } else { b"board: failed" });
    line.bytes(b", stack ").unsigned(used as u64).bytes(b" of ").unsigned(bytes as u64);
    line.bytes(b"\n\0");
    machine::print(&text);
    machine::exit(good)
}

/// Runs the session of every rank, one request of each in turn.
#[inline(never)]
fn play() -> Option<()> {
    let mut server = serve()?;
    let clients = CLIENTS.lend();
    while clients.insert(Own::new(ArrayBuffer::new())).is_some() {}
    // Put and fence, then a get of every card, then finalize.
    for step in 0..5 + RANKS {
        for rank in 0..RANKS {
            ask(clients.get_mut(rank)?, rank, step)?;
        }
        let mut answers = 0;
        for rank in 0..RANKS {
            let client = clients.get_mut(rank)?;
            tell(&mut server, u32::try_from(rank).ok()?, client)?;
            answers += recv(client, step)?;
        }
        while let Some(id) = server.next_ready() {
            let (_, rank) = server.peer(id)?;
            let client = clients.get_mut(rank?.index())?;
            let mut line = [0; LINE];
            while let Some(len) = server.session(id)?.poll_transmit(&mut line).ok()? {
                client.handle_input(Instant::ZERO, line.get(..len)?).ok()?;
                answers += recv(client, step)?;
            }
        }
        if answers != RANKS {
            return None;
        }
    }
    (0..RANKS).all(|rank| clients.get(rank).is_some_and(Machine::is_finished)).then_some(())
}

/// A server with one job, and a session for each of its ranks.
#[inline(never)]
fn serve() -> Option<Server<Board>> {
    let nothing_published = Arena::new(&mut [][..], &mut [][..]);
    let mut server = Server::<Board>::new(SESSIONS.lend(), JOBS.lend(), nothing_published);
    let job = add_job(&mut server)?;
    let pool: &'static Lines = POOL.lend().insert(Pool::new(LINES.lend()));
    for rank in 0..RANKS {
        let peer = Peer::Member { job, rank: Rank(u32::try_from(rank).ok()?) };
        server.open(peer, pool.buffer(), [None]).ok()?;
    }
    Some(server)
}

#[inline(never)]
fn add_job(server: &mut Server<Board>) -> Option<JobId> {
    let name = KvsName::new(b"kvs_board").ok()?;
    let spec = JobSpec { name, spawner: None, universe_size: None, size: None, has_uplink: false };
    let store = Arena::new(&mut CELLS.lend()[..], &mut STORE.lend()[..]);
    server.add_job(spec, MEMBERS.lend(), store).ok()
}

/// Starts the request of this step.
#[inline(never)]
fn ask(client: &mut Own, rank: usize, step: usize) -> Option<()> {
    let own = Place::Job(None);
    let of = |rank| [b"01234567"[rank & 7]];
    let (digit, peer) = (of(rank), of(step.wrapping_sub(4)));
    let request = match step {
        0 => Request::Init { version: Version::V1_1 },
        1 => Request::KvsName,
        2 => Request::Put { place: own, key: Text::plain(&digit), value: Text::plain(&digit) },
        3 => Request::Fence { group: FenceGroup::World, tag: None },
        _ if step < 4 + RANKS => Request::Get { place: own, key: Text::plain(&peer), wait: false },
        _ => Request::Finalize,
    };
    client.start(&request).ok().map(drop)
}

/// Passes the output of a client to its session.
#[inline(never)]
fn tell(server: &mut Server<Board>, rank: u32, client: &mut Own) -> Option<()> {
    let mut line = [0; LINE];
    let job = server.jobs().next()?;
    let id = server.job(job)?.member(Rank(rank))?.session()?;
    while let Some(len) = client.poll_transmit(&mut line).ok()? {
        server.session(id)?.handle_input(Instant::ZERO, line.get(..len)?).ok()?;
    }
    // A request with an immediate response is in no queue.
    while let Some(len) = server.session(id)?.poll_transmit(&mut line).ok()? {
        client.handle_input(Instant::ZERO, line.get(..len)?).ok()?;
    }
    Some(())
}

/// Number of correct replies that a client has received.
fn recv(client: &mut Own, step: usize) -> Option<usize> {
    let Some(ClientEvent::Reply { reply, .. }) = client.poll_event() else { return Some(0) };
    let expected = [b"01234567"[step.wrapping_sub(4) & 7]];
    let is_right = match reply.answer {
        Answer::Value(value) => value == expected,
        _ => !(4..4 + RANKS).contains(&step),
    };
    (reply.code.is_success() && is_right).then_some(1)
}
