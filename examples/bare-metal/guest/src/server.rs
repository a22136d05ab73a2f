//! The guest as a process manager for others.

use pmi_core::ids::{JobId, KvsName, Rank};
use pmi_core::limits::PMI1_LINE;
use pmi_core::pool::{Pool, PooledBuffer};
use pmi_core::server::{Event, JobOf, JobSpec, Member, Peer, Phase, Server, SessionOf, Storage};
use pmi_core::store::{Arena, ArenaCell, Kvs};
use pmi_core::time::Duration;
use pmi_smoltcp::{Acceptor, AcceptorEvent, ConnBuffer};

use crate::args::Args;
use crate::machine::memory::Lent;
use crate::net::{Net, SOCKETS, core_now};
use crate::say;
use crate::status::{Failure, Status, of_pump};

/// Storage of this node's server.
struct Node;

/// Two lines for all sessions, of which few have half a message.
type Lines = Pool<PMI1_LINE, 2>;
type Inbox = PooledBuffer<PMI1_LINE, 2>;
type Store = Arena<&'static mut [ArenaCell], &'static mut [u8]>;
type Members = heapless::Vec<Member, SOCKETS>;

impl Storage for Node {
    type Inbox = Inbox;
    type Pending<T: 'static> = [Option<T>; 1];
    type Sessions<T: 'static> = &'static mut [Option<T>];
    type Kvs = Store;
    type Members = Members;
    type Jobs<T: 'static> = &'static mut [Option<T>];
    type Pmix = ();
}

static SESSIONS: Lent<[Option<SessionOf<Node>>; SOCKETS]> = Lent::new([const { None }; SOCKETS]);
static JOBS: Lent<[Option<JobOf<Node>>; 1]> = Lent::new([const { None }; 1]);
static PLACES: Lent<[ArenaCell; 32]> = Lent::new([ArenaCell::FREE; 32]);
static BYTES: Lent<[u8; 4096]> = Lent::new([0; 4096]);
static LINES: Lent<[[u8; PMI1_LINE]; 2]> = Lent::new([[0; PMI1_LINE]; 2]);
static POOL: Lent<Option<Lines>> = Lent::new(None);
static SCRATCH: Lent<[u8; 2 * PMI1_LINE]> = Lent::new([0; 2 * PMI1_LINE]);

/// Serves one job, until all its ranks have finalized.
// Not inlined: a guest is one or the other, and needs the stack of one.
#[inline(never)]
pub(crate) fn run(args: &Args, net: &mut Net) -> Status {
    let limit = core_now().plus(Duration::from_millis(args.limit_ms));
    let nothing_published = Arena::new(&mut [][..], &mut [][..]);
    let mut server = Server::<Node>::new(SESSIONS.lend(), JOBS.lend(), nothing_published);
    let Some(job) = add_job(args, &mut server) else { return Status::BadArguments };
    let mut acceptor = Acceptor::<ConnBuffer<256>, ConnBuffer<PMI1_LINE>, SOCKETS>::new(
        net.sockets(),
        args.port,
        Duration::from_secs(5),
    );
    let scratch = SCRATCH.lend();
    let lines: &'static Lines = POOL.lend().insert(Pool::new(LINES.lend()));
    say!("server: {} ranks, port {}", args.size, args.port);
    loop {
        net.poll();
        let now = core_now();
        let mut broken = None;
        let told = |notice| broken = Some(notice);
        let peer = Peer::Unidentified { job, deadline: Some(limit), challenge: None };
        let open = |server: &mut Server<Node>| server.open(peer, lines.buffer(), [None]);
        acceptor.poll(now, &mut net.sockets, &mut server, scratch, open, told);
        while let Some(event) = server.poll_event() {
            if let Event::Joined { rank: Rank(rank), .. } = event {
                say!("server: rank {rank} has joined");
            }
        }
        match broken {
            // The end of an unidentified connection is no lost rank.
            Some(AcceptorEvent::Disconnected { rank: Some(rank), error, .. }) => {
                say!("server: rank {} is lost: {error}", rank.0);
                return of_pump(&error);
            }
            Some(AcceptorEvent::Disconnected { error, .. }) => {
                say!("server: a caller was refused: {error}")
            }
            _ => {}
        }
        if now >= limit {
            return Failure::TooLate.status();
        }
        let Some(state) = server.job(job) else { return Status::Protocol };
        if state.members().iter().all(|m| m.phase() == Phase::Finalized) && acceptor.is_idle() {
            let mut next = state.kvs().next(None);
            while let Some(entry) = next.and_then(|id| state.kvs().entry(id)) {
                let text = |bytes| core::str::from_utf8(bytes).unwrap_or("?");
                say!("server: {} = {}", text(entry.key), text(entry.value));
                next = state.kvs().next(next);
            }
            return Status::Done;
        }
    }
}

fn add_job(args: &Args, server: &mut Server<Node>) -> Option<JobId> {
    let name = KvsName::new(b"kvs_bare").ok()?;
    let spec = JobSpec { name, spawner: None, universe_size: None, size: None, has_uplink: false };
    let ids = (args.id()..).take(args.size);
    let members = ids.map(|id| Member::new(0, 0).with_token(id)).collect();
    server.add_job(spec, members, Arena::new(PLACES.lend(), BYTES.lend())).ok()
}
