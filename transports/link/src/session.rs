//! The part of a client over a stream that waits for nothing: one client machine, and the bytes before and
//! after it.

use pmi_core::client::{Client, ClientEvent, State};
use pmi_core::command::{Answer, Pair, Reply, Request, Spawn};
use pmi_core::error::{Full, Misuse, PeerError};
use pmi_core::machine::Machine;
use pmi_core::storage::Buffer;
use pmi_core::time::Instant;

use crate::CallError;
use crate::calls::{SPAWNED_BYTES, put_pair};

/// Writes the methods of a driver over a stream, which the tables of calls use.
///
/// Parameters: `async` or nothing, `await` or nothing.
macro_rules! stream_driver {
    ([$($async:ident)?] [$($await:ident)*]) => {
        /// Sends any request and returns what `reply` reads from the replies: the way of every call.
        ///
        /// # Errors
        ///
        /// [`CallError`] of the session, and those of `reply`.
        pub $($async)? fn call<R: ReadReply>(
            &mut self,
            request: &Request<'_>,
            mut reply: R,
        ) -> CallResult<R::Output, IO> {
            let mut result = Err(ReplyError::Unanswered);
            self.exchange(request, &mut |received| result = reply.on_reply(received))$(.$await)*?;
            Ok(result?)
        }

        /// Makes this client use the binary dialect from the first byte on; see [`Client::use_binary`].
        pub const fn use_binary(&mut self) {
            self.session.client.use_binary();
        }

        fn read_client<T>(&self, read: impl FnOnce(&Client<B, 1, GENERATIONS>) -> T) -> T {
            read(&self.session.client)
        }

        // All calls share this, and read by a pointer: a copy for each would cost a small board more
        // than the calls themselves.
        $($async)? fn exchange(
            &mut self,
            request: &Request<'_>,
            read: &mut Reader<'_>,
        ) -> CallResult<(), IO> {
            self.drain()$(.$await)*?;
            self.session.check_state()?;
            self.send(request)$(.$await)*?;
            self.recv_last(read)$(.$await)*
        }

        $($async)? fn send_abort(&mut self, code: i32, message: &[u8]) -> CallResult<(), IO> {
            // The rest of a request whose call was dropped: the server would take the abort for a part of it.
            self.write_outgoing()$(.$await)*?;
            let room = self.session.client.buffer_bytes();
            let len = message.len().min(room.saturating_sub(ABORT_WORDS) / 2);
            self.send(&calls::abort(code, message.get(..len).unwrap_or(b"")))$(.$await)*
        }

        $($async)? fn send(&mut self, request: &Request<'_>) -> CallResult<(), IO> {
            self.session.client.send_in_place(request)?;
            self.write_outgoing()$(.$await)*
        }

        // The message and its progress are in the client, so that a call which was dropped here leaves the
        // rest to the next one.
        $($async)? fn write_outgoing(&mut self) -> CallResult<(), IO> {
            while let Some(rest) = self.session.client.outgoing() {
                if rest.is_empty() {
                    self.io.flush()$(.$await)*.map_err(CallError::Io)?;
                    self.session.client.end_outgoing();
                    break;
                }
                let len = self.io.write(rest)$(.$await)*.map_err(CallError::Io)?;
                if len == 0 {
                    return Err(CallError::Peer(PeerError::LeftEarly));
                }
                self.session.client.advance_outgoing(len);
            }
            Ok(())
        }

        $($async)? fn write(&mut self, bytes: &[u8]) -> CallResult<(), IO> {
            let mut rest = bytes;
            while !rest.is_empty() {
                let len = self.io.write(rest)$(.$await)*.map_err(CallError::Io)?;
                if len == 0 {
                    return Err(CallError::Peer(PeerError::LeftEarly));
                }
                rest = rest.get(len..).unwrap_or(b"");
            }
            self.io.flush()$(.$await)*.map_err(CallError::Io)
        }

        $($async)? fn recv_reply<R: ReadReply>(&mut self, mut reply: R) -> CallResult<R::Output, IO> {
            let mut result = Err(ReplyError::Unanswered);
            self.recv_last(&mut |received| result = reply.on_reply(received))$(.$await)*?;
            Ok(result?)
        }

        $($async)? fn recv_last(&mut self, read: &mut Reader<'_>) -> CallResult<(), IO> {
            while !self.recv(read)$(.$await)*? {}
            Ok(())
        }

        // What a call that was dropped has left: the rest of its request, and its reply.
        $($async)? fn drain(&mut self) -> CallResult<(), IO> {
            self.session.check_whole()?;
            self.write_outgoing()$(.$await)*?;
            while self.session.has_leftovers() {
                self.recv(&mut |_| {})$(.$await)*?;
            }
            Ok(())
        }

        /// Reads once; true if the last reply was in it.
        $($async)? fn recv(&mut self, read: &mut Reader<'_>) -> CallResult<bool, IO> {
            let mut bytes = [0; READ_BYTES];
            let len = self.io.read(&mut bytes)$(.$await)*.map_err(CallError::Io)?;
            Ok(self.session.on_read(bytes.get(..len).unwrap_or(b""), read)?)
        }
    };
}
pub(crate) use stream_driver;

/// Receives each reply to a request.
pub(crate) type Reader<'r> = dyn FnMut(&Reply<'_>) + Send + 'r;

/// The session of a client with one request at a time.
#[derive(Debug)]
pub(crate) struct StreamSession<B, const GENERATIONS: u16> {
    pub(crate) client: Client<B, 1, GENERATIONS>,
    /// A message with bytes of the caller is being sent; if its call is dropped, no other can complete it.
    pub(crate) is_borrowing: bool,
}

impl<B: Buffer, const GENERATIONS: u16> StreamSession<B, GENERATIONS> {
    pub(crate) const fn new(buffer: B) -> Self {
        Self { client: Client::new(buffer), is_borrowing: false }
    }

    /// Reports an error that was found in bytes after the last reply.
    pub(crate) const fn check_state(&self) -> Result<(), PeerError> {
        match self.client.state() {
            State::Failed(error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Reports a message that was sent in part and cannot be completed.
    pub(crate) const fn check_whole(&self) -> Result<(), Misuse> {
        match self.is_borrowing {
            true => Err(Misuse::WrongState { needed: "`spawn` or `put_all` has sent its request" }),
            false => Ok(()),
        }
    }

    /// Checks pairs before the first one is announced, since all announced pairs must follow.
    pub(crate) fn check_pairs<E>(&self, pairs: &[Pair<'_>]) -> Result<(), CallError<E>> {
        for pair in pairs {
            let needed = self.client.message_bytes(&put_pair(*pair))?;
            if needed > self.client.buffer_bytes() {
                return Err(CallError::Full(Full { needed }));
            }
        }
        Ok(())
    }

    /// Renders a spawn into `scratch`, which has room for the reply too, and returns its length.
    pub(crate) fn begin_spawn<E>(
        &mut self,
        spawn: Spawn<'_>,
        scratch: &mut [u8],
    ) -> Result<usize, CallError<E>> {
        self.check_state()?;
        if scratch.len() < SPAWNED_BYTES {
            return Err(CallError::Full(Full { needed: SPAWNED_BYTES }));
        }
        let (_, len) = self.client.send(&Request::Spawn(spawn), scratch)?;
        Ok(len)
    }

    /// True if a reply without a pending call is to be read: that to a call which was dropped, or those that
    /// a refused `put_all` may leave behind.
    pub(crate) fn has_leftovers(&self) -> bool {
        self.client.outstanding() > 0 || self.client.is_receiving()
    }

    /// Handles the bytes of one read, none of which means the end; true if the last reply was in them.
    pub(crate) fn on_read(
        &mut self,
        bytes: &[u8],
        read: &mut Reader<'_>,
    ) -> Result<bool, PeerError> {
        if bytes.is_empty() {
            self.client.handle_end(NOW)?;
            return Err(PeerError::LeftEarly);
        }
        let mut rest = bytes;
        loop {
            let taken = self.client.handle_input(NOW, rest)?;
            rest = rest.get(taken..).unwrap_or(b"");
            let Some(ClientEvent::Reply { reply, .. }) = self.client.poll_event() else {
                return Ok(false);
            };
            read(&reply);
            if !matches!(reply.answer, Answer::Count(_) | Answer::Pair(_)) {
                // No bytes may follow the last reply. If some do, the machine keeps the error and
                // the next call reports it: this one has its reply.
                let _reported_by_the_next_call = self.client.handle_input(NOW, rest);
                return Ok(true);
            }
        }
    }
}

/// A client has no deadlines.
const NOW: Instant = Instant::ZERO;

/// Most replies fit at once; the longest takes a few reads. The bytes are a part of every future.
pub(crate) const READ_BYTES: usize = 128;

/// Room for everything but the text of an abort, in either generation; each byte of the text may take two.
pub(crate) const ABORT_WORDS: usize =
    "123456cmd=abort;isworld=TRUE;exitcode=-2147483648;msg=;".len();
