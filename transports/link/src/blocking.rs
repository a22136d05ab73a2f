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

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use embedded_io::{ErrorType, Read, Write};
use pmi_core::client::{Client, FixedBuffer, Pmi2Buffer};
use pmi_core::command::{FenceGroup, Identity, Maxes, Pair, Spawn, Version};
use pmi_core::ids::KvsName;
use pmi_core::limits::{PMI1_LINE, PMI2_FRAME};
use pmi_core::storage::Buffer;

use crate::{CallError, SpawnError, task};

pub use crate::task::{Codes, Opened, Opening, Prover, Ring, Spawned};

/// A conversation with a PMI server, in which every call waits for its answer.
///
/// Shape: as for [`task::AsyncPmi`].
#[derive(Debug)]
pub struct Pmi<
    IO,
    B = Pmi2Buffer,
    const MESSAGE_BYTES: usize = PMI2_FRAME,
    const GENERATIONS: u16 = 2,
>(task::AsyncPmi<BlockingIo<IO>, B, MESSAGE_BYTES, GENERATIONS>);

/// A conversation in PMI-1, without the code for more; see [`task::AsyncPmi1`].
pub type Pmi1<IO> = Pmi<IO, FixedBuffer, PMI1_LINE, 1>;

type CallResult<T, IO> = Result<T, CallError<<IO as ErrorType>::Error>>;

impl<IO: Read + Write> Pmi<IO> {
    /// Takes a connected stream; nothing is sent yet.
    pub const fn new(io: IO) -> Self {
        Self(task::AsyncPmi::new(BlockingIo(io)))
    }
}

impl<IO: Read + Write> Pmi1<IO> {
    /// Takes a connected stream; nothing is sent yet.
    pub const fn over(io: IO) -> Self {
        Self(task::AsyncPmi::over(BlockingIo(io)))
    }
}

impl<IO: Read + Write, B: Buffer, const MESSAGE_BYTES: usize, const GENERATIONS: u16>
    Pmi<IO, B, MESSAGE_BYTES, GENERATIONS>
{
    /// Takes a connected stream and an empty buffer; nothing is sent yet.
    pub const fn with_buffer(io: IO, buffer: B) -> Self {
        Self(task::AsyncPmi::with_buffer(BlockingIo(io), buffer))
    }

    /// Sends the process id of a connection and receives its identity; see [`task::AsyncPmi::greet`].
    pub fn greet(&mut self, id: u64) -> CallResult<Identity<'static>, IO> {
        finish(self.0.greet(id))
    }

    /// Opens the conversation; see [`task::AsyncPmi::init`].
    pub fn init(&mut self, version: Version) -> CallResult<Version, IO> {
        finish(self.0.init(version))
    }

    /// Opens the session; see [`task::AsyncPmi::open`].
    pub fn open(&mut self, opening: &Opening<'_>, spawner: &mut [u8]) -> CallResult<Opened, IO> {
        finish(self.0.open(opening, spawner))
    }

    /// The identity that the server has assigned; see [`task::AsyncPmi::identity`].
    pub const fn identity(&self) -> Option<Identity<'static>> {
        self.0.identity()
    }

    /// Asks for the longest name, key and value; see [`task::AsyncPmi::maxes`].
    pub fn maxes(&mut self) -> CallResult<Maxes, IO> {
        finish(self.0.maxes())
    }

    /// Asks which program of the launch this is; see [`task::AsyncPmi::appnum`].
    pub fn appnum(&mut self) -> CallResult<Option<u32>, IO> {
        finish(self.0.appnum())
    }

    /// Asks how many processes there can be; see [`task::AsyncPmi::universe_size`].
    pub fn universe_size(&mut self) -> CallResult<Option<u32>, IO> {
        finish(self.0.universe_size())
    }

    /// Asks for the name of the job's space; see [`task::AsyncPmi::kvsname`].
    pub fn kvsname(&mut self) -> CallResult<&KvsName, IO> {
        finish(self.0.kvsname())
    }

    /// Stores a value; see [`task::AsyncPmi::put`].
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> CallResult<(), IO> {
        finish(self.0.put(key, value))
    }

    /// Reads a value; see [`task::AsyncPmi::get`].
    pub fn get(&mut self, key: &[u8], out: &mut [u8]) -> CallResult<Option<usize>, IO> {
        finish(self.0.get(key, out))
    }

    /// Reads from the space of another job; see [`task::AsyncPmi::get_from`].
    pub fn get_from(
        &mut self,
        job: &[u8],
        key: &[u8],
        out: &mut [u8],
    ) -> CallResult<Option<usize>, IO> {
        finish(self.0.get_from(job, key, out))
    }

    /// Waits for every rank of the job; see [`task::AsyncPmi::fence`].
    pub fn fence(&mut self) -> CallResult<(), IO> {
        finish(self.0.fence())
    }

    /// Waits for every rank of a group; see [`task::AsyncPmi::fence_group`].
    pub fn fence_group(&mut self, group: FenceGroup<'_>, tag: u32) -> CallResult<(), IO> {
        finish(self.0.fence_group(group, tag))
    }

    /// Makes a port known; see [`task::AsyncPmi::publish`].
    pub fn publish(&mut self, service: &[u8], port: &[u8]) -> CallResult<(), IO> {
        finish(self.0.publish(service, port))
    }

    /// Reads the port of a service; see [`task::AsyncPmi::lookup`].
    pub fn lookup(&mut self, service: &[u8], out: &mut [u8]) -> CallResult<Option<usize>, IO> {
        finish(self.0.lookup(service, out))
    }

    /// Takes a published name back; see [`task::AsyncPmi::unpublish`].
    pub fn unpublish(&mut self, service: &[u8]) -> CallResult<(), IO> {
        finish(self.0.unpublish(service))
    }

    /// Asks for new processes; see [`task::AsyncPmi::spawn`].
    pub fn spawn<'s>(
        &mut self,
        spawn: Spawn<'_>,
        scratch: &'s mut [u8],
    ) -> Result<Spawned<'s>, SpawnError<Codes<'s>, IO::Error>> {
        finish(self.0.spawn(spawn, scratch))
    }

    /// Ends the whole job; see [`task::AsyncPmi::abort`].
    pub fn abort(&mut self, code: i32, message: &[u8]) -> CallResult<(), IO> {
        finish(self.0.abort(code, message))
    }

    /// Finalizes the session; see [`task::AsyncPmi::finalize`].
    pub fn finalize(&mut self) -> CallResult<(), IO> {
        finish(self.0.finalize())
    }

    /// Asks for the id of the job; see [`task::AsyncPmi::job_id`].
    pub fn job_id(&mut self) -> CallResult<&KvsName, IO> {
        finish(self.0.job_id())
    }

    /// Stores an attribute of this node; see [`task::AsyncPmi::put_node`].
    pub fn put_node(&mut self, key: &[u8], value: &[u8]) -> CallResult<(), IO> {
        finish(self.0.put_node(key, value))
    }

    /// Reads an attribute of this node; see [`task::AsyncPmi::get_node`].
    pub fn get_node(
        &mut self,
        key: &[u8],
        wait: bool,
        out: &mut [u8],
    ) -> CallResult<Option<usize>, IO> {
        finish(self.0.get_node(key, wait, out))
    }

    /// Reads an attribute of this node that is numbers; see [`task::AsyncPmi::node_numbers`].
    pub fn node_numbers(
        &mut self,
        key: &[u8],
        wait: bool,
        out: &mut [i32],
    ) -> CallResult<Option<usize>, IO> {
        finish(self.0.node_numbers(key, wait, out))
    }

    /// Reads an attribute of the job; see [`task::AsyncPmi::job_attribute`].
    pub fn job_attribute(&mut self, key: &[u8], out: &mut [u8]) -> CallResult<Option<usize>, IO> {
        finish(self.0.job_attribute(key, out))
    }

    /// Reads an attribute of the job that is numbers; see [`task::AsyncPmi::job_numbers`].
    pub fn job_numbers(&mut self, key: &[u8], out: &mut [i32]) -> CallResult<Option<usize>, IO> {
        finish(self.0.job_numbers(key, out))
    }

    /// Connects this job with another; see [`task::AsyncPmi::connect_job`].
    pub fn connect_job(&mut self, job: &[u8]) -> CallResult<(), IO> {
        finish(self.0.connect_job(job))
    }

    /// Takes a connection back; see [`task::AsyncPmi::disconnect_job`].
    pub fn disconnect_job(&mut self, job: &[u8]) -> CallResult<(), IO> {
        finish(self.0.disconnect_job(job))
    }

    /// Exchanges a value with both neighbours; see [`task::AsyncPmi::ring`].
    pub fn ring(&mut self, left: &[u8], right: &[u8], out: [&mut [u8]; 2]) -> CallResult<Ring, IO> {
        finish(self.0.ring(left, right, out))
    }

    /// Reads the whole space of a job; see [`task::AsyncPmi::get_all`].
    pub fn get_all(
        &mut self,
        job: &[u8],
        each: &mut (dyn FnMut(Pair<'_>) + Send),
    ) -> CallResult<usize, IO> {
        finish(self.0.get_all(job, each))
    }

    /// Copies pairs into the space of a job; see [`task::AsyncPmi::put_all`].
    pub fn put_all(&mut self, job: &[u8], pairs: &[Pair<'_>]) -> CallResult<(), IO> {
        finish(self.0.put_all(job, pairs))
    }

    /// The machine behind the calls, to look at.
    pub const fn client(&self) -> &Client<B, 1, GENERATIONS> {
        self.0.client()
    }

    /// Gives the stream back.
    pub fn into_inner(self) -> IO {
        self.0.into_inner().0
    }
}

/// A stream whose futures wait within `poll`, so that they are always ready.
#[derive(Debug)]
struct BlockingIo<IO>(IO);

impl<IO: ErrorType> ErrorType for BlockingIo<IO> {
    type Error = IO::Error;
}

impl<IO: Read> embedded_io_async::Read for BlockingIo<IO> {
    async fn read(&mut self, out: &mut [u8]) -> Result<usize, IO::Error> {
        self.0.read(out)
    }
}

impl<IO: Write> embedded_io_async::Write for BlockingIo<IO> {
    async fn write(&mut self, bytes: &[u8]) -> Result<usize, IO::Error> {
        self.0.write(bytes)
    }

    async fn flush(&mut self) -> Result<(), IO::Error> {
        self.0.flush()
    }
}

/// Runs a call to its end. Over a [`BlockingIo`] stream the first turn is the last one.
fn finish<F: Future>(call: F) -> F::Output {
    let mut call = pin!(call);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(answer) = call.as_mut().poll(&mut context) {
            return answer;
        }
    }
}
