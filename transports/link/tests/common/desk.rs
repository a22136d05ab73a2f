//! A server of this project behind awaited streams, for any number of ranks.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::rc::Rc;

use futures_lite::future::yield_now;
use pmi_core::ids::{JobId, KvsName, Rank, SessionId};
use pmi_core::limits::MESSAGE_BYTES;
use pmi_core::machine::Machine;
use pmi_core::server::{Arrays, JobSpec, Member, Peer, Server};
use pmi_core::store::{Arena, ArenaCell as Cell};
use pmi_core::time::Instant;

type Message = heapless::Vec<u8, MESSAGE_BYTES>;
type Store = Arena<Vec<Cell>, Vec<u8>>;

pub(crate) type Desk = Arrays<Message, Store, Vec<Member>, 8, 4, 4>;

/// A server that its clients share.
pub(crate) type Shared = Rc<RefCell<Server<Desk>>>;

fn store() -> Store {
    Arena::new(vec![Cell::FREE; 64], vec![0; 1 << 16])
}

pub(crate) fn server() -> Shared {
    Rc::new(RefCell::new(Server::new([const { None }; 8], [const { None }; 4], store())))
}

/// Adds a job with all ranks on one node.
pub(crate) fn add_job(server: &Shared, name: &str, size: u32, spawner: Option<&str>) -> JobId {
    let named = |name: &str| KvsName::new(name.as_bytes()).unwrap();
    let spec = JobSpec {
        name: named(name),
        spawner: spawner.map(named),
        universe_size: None,
        has_uplink: false,
    };
    let members = (0..size).map(|_| Member::new(0, 0)).collect();
    server.borrow_mut().add_job(spec, members, store()).unwrap()
}

/// One end of a stream to a server that answers while it is read.
pub(crate) struct Stream {
    server: Shared,
    session: SessionId,
    /// Largest number of bytes that one call moves.
    piece_bytes: usize,
    asked: VecDeque<u8>,
    says: VecDeque<u8>,
}

impl Stream {
    pub(crate) fn member(server: &Shared, job: JobId, rank: u32, piece_bytes: usize) -> Self {
        Self::open(server, Peer::Member { job, rank: Rank(rank) }, piece_bytes)
    }

    pub(crate) fn open(server: &Shared, peer: Peer, piece_bytes: usize) -> Self {
        let opened = server.borrow_mut().open(peer, Message::new(), [const { None }; 4]);
        let (asked, says) = (VecDeque::new(), VecDeque::new());
        Self { server: Rc::clone(server), session: opened.unwrap(), piece_bytes, asked, says }
    }

    /// Lets the server process its input and send its output; true if it closes the connection.
    fn turn(&mut self) -> bool {
        let mut server = self.server.borrow_mut();
        let Some(mut session) = server.session(self.session) else { return true };
        let asked = self.asked.make_contiguous();
        let taken = session.handle_input(Instant::ZERO, asked).unwrap_or(asked.len());
        self.asked.drain(..taken);
        let mut out = [0; 2 * MESSAGE_BYTES];
        while let Some(len) = session.poll_transmit(&mut out).unwrap() {
            self.says.extend(&out[..len]);
        }
        session.is_finished()
    }
}

impl embedded_io::ErrorType for Stream {
    type Error = Infallible;
}

impl embedded_io_async::Read for Stream {
    async fn read(&mut self, out: &mut [u8]) -> Result<usize, Infallible> {
        loop {
            let hangs_up = self.turn();
            let len = out.len().min(self.says.len()).min(self.piece_bytes);
            if len > 0 || hangs_up {
                out.iter_mut().zip(self.says.drain(..len)).for_each(|(to, byte)| *to = byte);
                return Ok(len);
            }
            yield_now().await;
        }
    }
}

impl embedded_io_async::Write for Stream {
    async fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        let len = bytes.len().min(self.piece_bytes);
        self.asked.extend(&bytes[..len]);
        self.turn();
        Ok(len)
    }

    async fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}
