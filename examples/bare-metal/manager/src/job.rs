//! One job, served until all its ranks have finalized.

use std::fs::File;
use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time;

use pmi_core::auth::{Challenge, NONCE_DIGITS, Nonce, Secret};
use pmi_core::error::Misuse;
use pmi_core::ids::{JobId, KvsName, Rank, SessionId};
use pmi_core::limits::MESSAGE_BYTES;
use pmi_core::server::{Arrays, Event, Job, JobSpec, Member, Peer, Phase, Server};
use pmi_core::storage::ArrayBuffer;
use pmi_core::store::{Arena, ArenaCell, Kvs};
use pmi_link::{PumpState, pump};
use pmi_std::{BoundedBuf, Clock, NonBlocking};

type Inbox = ArrayBuffer<MESSAGE_BYTES>;
type Store = Arena<Vec<ArenaCell>, Vec<u8>>;

/// Storage of the server.
type Host = Arrays<Inbox, Store, Vec<Member>, SESSIONS, 4, 1>;

/// A connection of a rank.
struct Caller {
    session: SessionId,
    link: NonBlocking<TcpStream>,
    carry: PumpState<BoundedBuf>,
}

/// Serves the job; false if a rank was lost, or if there was no message for too long.
pub(crate) fn serve(
    listener: &TcpListener,
    ranks: usize,
    first_id: u64,
    secret: &str,
) -> io::Result<bool> {
    let secret = Secret::new(secret.as_bytes()).map_err(misuse)?;
    listener.set_nonblocking(true)?;
    let store = || Arena::new(vec![ArenaCell::FREE; 256], vec![0; 64 << 10]);
    let mut server = Server::<Host>::new([const { None }; SESSIONS], [None], store());
    let members = (first_id..).take(ranks).map(|id| Member::new(0, 0).with_token(id)).collect();
    let name = KvsName::new(b"kvs_manager").map_err(misuse)?;
    let spec = JobSpec { name, spawner: None, universe_size: None, size: None, has_uplink: false };
    let job = server.add_job(spec, members, store()).map_err(misuse)?;

    let clock = Clock::start();
    let mut callers = Vec::new();
    let mut scratch = [0; 4 * MESSAGE_BYTES];
    let mut moved = time::Instant::now();
    let mut is_whole = true;
    while !is_over(&server, job) || !callers.is_empty() {
        if let Ok((stream, _)) = listener.accept() {
            callers.push(pick_up(&mut server, job, &secret, stream)?);
        }
        let mut kept = Vec::new();
        for mut caller in callers {
            let Some(mut session) = server.session(caller.session) else { continue };
            let Caller { link, carry, .. } = &mut caller;
            match pump(clock.now(), &mut session, link, carry, &mut scratch) {
                Ok(progress) => {
                    if progress.has_moved() {
                        moved = time::Instant::now();
                    }
                    if !progress.finished {
                        kept.push(caller);
                        continue;
                    }
                }
                Err(error) => {
                    let who = server.peer(caller.session).and_then(|(_, rank)| rank);
                    println!("manager: {}: {error}", name_of(who));
                    is_whole &= who.is_none();
                }
            }
            server.close(caller.session);
        }
        callers = kept;
        while let Some(event) = server.poll_event() {
            if let Event::Joined { rank, .. } = event {
                println!("manager: {} has joined", name_of(Some(rank)));
            }
        }
        if moved.elapsed() > PATIENCE {
            println!("manager: no message from any rank");
            return Ok(false);
        }
        thread::sleep(PAUSE);
    }
    print_table(&server, job);
    Ok(is_whole)
}

fn pick_up(
    server: &mut Server<Host>,
    job: JobId,
    secret: &Secret,
    stream: TcpStream,
) -> io::Result<Caller> {
    let mut random = [0; NONCE_DIGITS];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    let challenge = Some(Challenge::new(secret, Nonce::new(random)));
    let peer = Peer::Unidentified { job, deadline: None, challenge };
    let session = server.open(peer, Inbox::new(), [const { None }; 4]).map_err(misuse)?;
    let carry = PumpState::new(BoundedBuf::new(MESSAGE_BYTES), BoundedBuf::new(MESSAGE_BYTES));
    Ok(Caller { session, link: NonBlocking::tcp(stream)?, carry })
}

fn is_over(server: &Server<Host>, job: JobId) -> bool {
    let gone = |member: &Member| matches!(member.phase(), Phase::Finalized | Phase::Lost);
    server.job(job).is_none_or(|job| job.members().iter().all(gone))
}

fn print_table(server: &Server<Host>, job: JobId) {
    let Some(kvs) = server.job(job).map(Job::kvs) else { return };
    let mut next = kvs.next(None);
    while let Some(entry) = next.and_then(|id| kvs.entry(id)) {
        let text = String::from_utf8_lossy;
        println!("manager: {} = {}", text(entry.key), text(entry.value));
        next = kvs.next(next);
    }
}

fn name_of(rank: Option<Rank>) -> String {
    rank.map_or("a caller".into(), |rank| format!("rank {}", rank.0))
}

fn misuse(misuse: Misuse) -> io::Error {
    io::Error::other(misuse)
}

const SESSIONS: usize = 64;
const PAUSE: time::Duration = time::Duration::from_millis(1);
const PATIENCE: time::Duration = time::Duration::from_secs(30);
