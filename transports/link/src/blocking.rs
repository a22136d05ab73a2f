//! Client calls that wait, over the `embedded-io` traits.
//!
//! ```
//! use pmi_core::command::Version;
//! use pmi_link::blocking::Pmi;
//! # use embedded_io::{ErrorType, Read, Write};
//! #
//! # /// A server of one rank, with fixed replies.
//! # #[derive(Default)]
//! # struct Script { asked: Vec<u8>, says: Vec<u8> }
//! # impl ErrorType for Script { type Error = core::convert::Infallible; }
//! # impl Write for Script {
//! #     fn write(&mut self, bytes: &[u8]) -> Result<usize, Self::Error> {
//! #         self.asked.extend_from_slice(bytes);
//! #         while let Some(end) = self.asked.iter().position(|b| *b == b'\n') {
//! #             let line: Vec<u8> = self.asked.drain(..=end).collect();
//! #             self.says.extend_from_slice(match &line[..] {
//! #                 b"cmd=init pmi_version=1 pmi_subversion=1\n" =>
//! #                     b"cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n",
//! #                 b"cmd=get_my_kvsname\n" => b"cmd=my_kvsname rc=0 kvsname=kvs_0\n",
//! #                 b"cmd=put kvsname=kvs_0 key=card-0 value=10.0.0.1:4000\n" =>
//! #                     b"cmd=put_result rc=0\n",
//! #                 b"cmd=barrier_in\n" => b"cmd=barrier_out rc=0\n",
//! #                 b"cmd=get kvsname=kvs_0 key=card-0\n" =>
//! #                     b"cmd=get_result rc=0 value=10.0.0.1:4000\n",
//! #                 b"cmd=get kvsname=kvs_0 key=card-9\n" => b"cmd=get_result rc=1\n",
//! #                 b"cmd=finalize\n" => b"cmd=finalize_ack rc=0\n",
//! #                 other => panic!("{}", String::from_utf8_lossy(other)),
//! #             });
//! #         }
//! #         Ok(bytes.len())
//! #     }
//! #     fn flush(&mut self) -> Result<(), Self::Error> { Ok(()) }
//! # }
//! # impl Read for Script {
//! #     fn read(&mut self, out: &mut [u8]) -> Result<usize, Self::Error> {
//! #         let len = out.len().min(self.says.len());
//! #         out[..len].copy_from_slice(&self.says[..len]);
//! #         self.says.drain(..len);
//! #         Ok(len)
//! #     }
//! # }
//! # fn connect() -> Script { Script::default() }
//!
//! let stream = connect(); // anything that implements `embedded_io::{Read, Write}`
//! let mut pmi = Pmi::new(stream);
//! pmi.init(Version::V1_1)?;
//! pmi.kvsname()?; // names the space, once, before put and get
//!
//! pmi.put(b"card-0", b"10.0.0.1:4000")?;
//! pmi.fence()?; // all ranks have put, all see the values
//!
//! let mut card = [0; 1024];
//! let len = pmi.get(b"card-0", &mut card)?.expect("rank 0 has put it");
//! assert_eq!(&card[..len], b"10.0.0.1:4000");
//! assert_eq!(pmi.get(b"card-9", &mut card)?, None);
//! pmi.finalize()?;
//! # Ok::<(), pmi_link::CallError<core::convert::Infallible>>(())
//! ```

use embedded_io::{Read, Write};
use pmi_core::client::{Client, Pmi1Buffer, Pmi2Buffer};
use pmi_core::storage::Buffer;

use crate::SpawnError;
use crate::calls::{self, *};
use crate::session::{ABORT_WORDS, READ_BYTES, Reader, StreamSession};

pub use crate::calls::{Codes, Opened, Opening, Prover, Ring, Spawned};

/// A session with a PMI server, in which every call waits for its reply.
///
/// Shape: as for [`task::AsyncStreamClient`](crate::task::AsyncStreamClient).
#[derive(Debug)]
pub struct StreamClient<IO, B, const GENERATIONS: u16> {
    io: IO,
    session: StreamSession<B, GENERATIONS>,
}

/// A session in PMI-1 or PMI-2, with room for every message: 2.9 KiB.
pub type Pmi<IO> = StreamClient<IO, Pmi2Buffer, 2>;

/// A session in PMI-1, without the code for more; see [`task::AsyncPmi1`](crate::task::AsyncPmi1).
pub type Pmi1<IO> = StreamClient<IO, Pmi1Buffer, 1>;

type CallResult<T, IO> = Result<T, CallError<<IO as embedded_io::ErrorType>::Error>>;

impl<IO: Read + Write> Pmi<IO> {
    /// Takes a connected stream; nothing is sent yet.
    pub const fn new(io: IO) -> Self {
        Self::with_buffer(io, Pmi2Buffer::new())
    }
}

impl<IO: Read + Write> Pmi1<IO> {
    /// Takes a connected stream; nothing is sent yet.
    pub const fn new(io: IO) -> Self {
        Self::with_buffer(io, Pmi1Buffer::new())
    }
}

impl<IO: Read + Write, B: Buffer, const GENERATIONS: u16> StreamClient<IO, B, GENERATIONS> {
    /// Takes a connected stream and an empty buffer; nothing is sent yet.
    pub const fn with_buffer(io: IO, buffer: B) -> Self {
        Self { io, session: StreamSession::new(buffer) }
    }

    crate::session::stream_driver! { [] [] }
    crate::client_calls! {
        [] [] [&mut Self] IO::Error, generations: GENERATIONS, threaded: false
    }
    calls::lent_calls! { [] [] [&mut Self] IO::Error }

    /// The client machine behind the calls.
    pub const fn client(&self) -> &Client<B, 1, GENERATIONS> {
        &self.session.client
    }

    /// Gives the stream back.
    pub fn into_inner(self) -> IO {
        self.io
    }
}
