//! A second connection of a process, on which the server speaks unasked.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use embedded_io::{Read, Write};
use pmi_core::client::{LISTENER_BYTES, Listener, ListenerEvent};
use pmi_core::command::{Notice, Version};
use pmi_core::error::PeerError;
use pmi_core::machine::Machine;
use pmi_core::time::Instant;
use pmi_link::CallError;

use crate::BoundedBuf;
use crate::connect::{ConnectError, reach};
use crate::env::{Environment, RequestedVersions, Transport};
use crate::stream::Stream;

/// Notices of the server: a request to write a checkpoint, and the end of the job before its processes
/// are terminated.
///
/// ```no_run
/// use pmi_core::command::Notice;
/// use pmi_std::Notices;
///
/// if let Some(mut notices) = Notices::open(None)? {
///     std::thread::spawn(move || {
///         while let Ok(Some(notice)) = notices.wait() {
///             match notice {
///                 Notice::Checkpoint => println!("write a checkpoint"),
///                 Notice::Abort(code) => println!("the job ends with code {code}"),
///             }
///         }
///     });
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Two other ways need no thread: watching the descriptor, or requesting a signal, which follows
/// each notice, so that [`wait`](Self::wait) finds the notice.
#[derive(Debug)]
pub struct Notices {
    stream: Stream,
    listener: Listener<BoundedBuf>,
    /// Input, and the range of it that the machine has not consumed.
    bytes: [u8; READ_BYTES],
    held: std::ops::Range<usize>,
}

impl Notices {
    /// Opens the second connection of this process, if its environment names a TCP address.
    ///
    /// `None` without `PMI_PORT`: a launcher without a listener sends no notices. `signal` is the
    /// name of a signal that follows every notice, as `SIGUSR1`.
    /// Wire: `cmd=init_oob signal=S pmi_version=V pmi_subversion=V pmiid=ID\n`; the version is that
    /// of `PMI_REQUEST_VERSION`, and PMI-2 without it.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]; a server without second connections closes this one, or refuses.
    pub fn open(signal: Option<&str>) -> Result<Option<Self>, ConnectError> {
        Self::open_by(&Environment::second_connection(std::env::vars_os())?, signal)
    }

    /// Does as [`open`](Self::open) for `environment`, which must name a TCP address.
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open).
    pub fn open_by(
        environment: &Environment,
        signal: Option<&str>,
    ) -> Result<Option<Self>, ConnectError> {
        let Transport::Tcp { id, .. } = environment.transport else { return Ok(None) };
        let version = match environment.versions {
            RequestedVersions::Only(version) => version,
            RequestedVersions::Newest => Version::V2_0,
        };
        let buffer = BoundedBuf::new(LISTENER_BYTES);
        let listener = Listener::new(buffer, id, signal, version).map_err(CallError::Misuse)?;
        let stream = reach(environment)?;
        let mut notices = Self { stream, listener, bytes: [0; READ_BYTES], held: 0..0 };
        notices.send_hello()?;
        match notices.next_event()? {
            Some(ListenerEvent::Opened(_)) => Ok(Some(notices)),
            // The machine has no other event before that.
            _ => Err(CallError::Peer(PeerError::LeftEarly).into()),
        }
    }

    /// Waits for the next notice; `None` when the server has closed the connection.
    ///
    /// # Errors
    ///
    /// Of the stream, or of a server that sends another message.
    pub fn wait(&mut self) -> Result<Option<Notice>, CallError<io::Error>> {
        loop {
            match self.next_event()? {
                Some(ListenerEvent::Notice(notice)) => return Ok(Some(notice)),
                Some(ListenerEvent::Opened(_)) => {}
                None => return Ok(None),
            }
        }
    }

    fn send_hello(&mut self) -> Result<(), CallError<io::Error>> {
        let mut line = [0; LISTENER_BYTES];
        while let Some(len) = self.listener.poll_transmit(&mut line)? {
            let mut rest = line.get(..len).unwrap_or(b"");
            while !rest.is_empty() {
                let written = Write::write(&mut self.stream, rest).map_err(CallError::Io)?;
                if written == 0 {
                    return Err(CallError::Peer(PeerError::LeftEarly));
                }
                rest = rest.get(written..).unwrap_or(b"");
            }
        }
        Write::flush(&mut self.stream).map_err(CallError::Io)
    }

    fn next_event(&mut self) -> Result<Option<ListenerEvent>, CallError<io::Error>> {
        loop {
            let bytes = self.bytes.get(self.held.clone()).unwrap_or(b"");
            self.held.start += self.listener.handle_input(NOW, bytes)?;
            if let Some(event) = self.listener.poll_event() {
                return Ok(Some(event));
            }
            let len = Read::read(&mut self.stream, &mut self.bytes).map_err(CallError::Io)?;
            if len == 0 {
                self.listener.handle_end(NOW)?;
                return Ok(None);
            }
            self.held = 0..len;
        }
    }
}

impl AsFd for Notices {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// A listener has no deadlines.
const NOW: Instant = Instant::ZERO;

/// Notices are short and rare.
const READ_BYTES: usize = 64;
