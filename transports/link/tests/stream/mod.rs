//! A server of this project behind awaited streams, for any number of ranks.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::rc::Rc;

use futures_lite::future::yield_now;
use pmi_core::ids::{JobId, Rank, SessionId};
use pmi_core::limits::MESSAGE_BYTES;
use pmi_core::machine::Machine;
use pmi_core::server::Peer;
use pmi_testkit::TestServer;
use pmi_testkit::server::{JOB_NAME, NOW, job_spec, members};

/// A server that its clients share.
pub(crate) type Shared = Rc<RefCell<TestServer>>;

/// Makes a server with a job whose `size` ranks are on one node.
pub(crate) fn server(size: u32) -> (Shared, JobId) {
    let server = TestServer::of(job_spec(JOB_NAME), members(size, size));
    let job = server.job;
    (Rc::new(RefCell::new(server)), job)
}

/// One end of a stream to a server that answers while it is read.
pub(crate) struct Stream {
    server: Shared,
    session: SessionId,
    /// Largest number of bytes that one call moves.
    piece_bytes: usize,
    /// Bytes that the server has not taken.
    input: VecDeque<u8>,
    /// Bytes of the server that are not read.
    output: VecDeque<u8>,
}

impl Stream {
    pub(crate) fn member(server: &Shared, job: JobId, rank: u32, piece_bytes: usize) -> Self {
        Self::open(server, Peer::Member { job, rank: Rank(rank) }, piece_bytes)
    }

    pub(crate) fn open(server: &Shared, peer: Peer, piece_bytes: usize) -> Self {
        let session = server.borrow_mut().open(peer);
        let (input, output) = (VecDeque::new(), VecDeque::new());
        Self { server: Rc::clone(server), session, piece_bytes, input, output }
    }

    /// Lets the server process its input and send its output; true if it closes the connection.
    fn turn(&mut self) -> bool {
        let mut kit = self.server.borrow_mut();
        let Some(mut session) = kit.server.session(self.session) else { return true };
        let input = self.input.make_contiguous();
        let taken = session.handle_input(NOW, input).unwrap_or(input.len());
        self.input.drain(..taken);
        let mut out = [0; 2 * MESSAGE_BYTES];
        while let Some(len) = session.poll_transmit(&mut out).unwrap() {
            self.output.extend(&out[..len]);
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
            let is_over = self.turn();
            let len = out.len().min(self.output.len()).min(self.piece_bytes);
            if len > 0 || is_over {
                out.iter_mut().zip(self.output.drain(..len)).for_each(|(to, byte)| *to = byte);
                return Ok(len);
            }
            yield_now().await;
        }
    }
}

impl embedded_io_async::Write for Stream {
    async fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        let len = bytes.len().min(self.piece_bytes);
        self.input.extend(&bytes[..len]);
        self.turn();
        Ok(len)
    }

    async fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}
