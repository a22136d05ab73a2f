//! Bridge between a serial line and a process manager, for a rank that has nothing but the line: bytes
//! from the line go to a TCP address, and bytes from there to the line.
//!
//! The bridge interprets no bytes. It reads from one side only as much as the other side has room for, so
//! a slow line delays only the server's answers to it. It ends when the server has closed the connection,
//! as servers do after finalize, or when the line is gone.

mod args;
mod serial_line;

pub use args::define;
use args::{BridgeArgs, read};
use pmi_host_base::exit::{self, USAGE, complain, print, refuse};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::io::Errno;
use serial_line::SerialLine;
use std::io::{self, Write as _};
use std::net::{Shutdown, TcpStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Runs `pmi-host bridge WORDS…`.
pub fn run(args: Vec<std::ffi::OsString>) -> ExitCode {
    let args = match read(args) {
        Ok(Ok(args)) => args,
        Ok(Err(help)) => return print(&help),
        Err(error) => return refuse(&error),
    };
    match bridge(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if matches!(error, BridgeError::NoSerialLine { .. }) => complain(&error, USAGE),
        Err(error) => complain(&error, 1),
    }
}

/// Error that ends the bridge before the server closes the connection. The message names the remedy.
#[derive(Debug, thiserror::Error)]
enum BridgeError {
    /// The device cannot be opened or is no serial line.
    #[error(
        "the serial line '{line}' cannot be opened ({error}); specify a device such as /dev/ttyUSB0, or \
         'pty' for a new pseudo-terminal"
    )]
    NoSerialLine { line: String, error: io::Error },
    /// The server cannot be reached.
    #[error(
        "no server answers at {address} ({error}); 'pmi-host run --listen ADDR:PORT --expect N' prints the \
         address for ranks that connect over TCP"
    )]
    NoServer { address: String, error: io::Error },
    /// The line was unplugged, or the program at its other end has closed it.
    #[error(
        "the board at {line} disconnected before its session ended; the connection to the server was closed"
    )]
    LineClosed { line: String },
    /// The connection to the server broke.
    #[error("the connection between the line and {address} failed: {error}")]
    Broken { address: String, error: io::Error },
}

fn bridge(args: &BridgeArgs) -> Result<(), BridgeError> {
    let mut line = SerialLine::open(&args.serial, args.baud)
        .map_err(|error| BridgeError::NoSerialLine { line: args.serial.clone(), error })?;
    // The user of the board needs the name of the line before anything else happens.
    let report = exit::line(format_args!("{} is bridged to {}", line.name(), args.to));
    let _ = io::stderr().write_all(report.as_bytes());
    let no_server = |error| BridgeError::NoServer { address: args.to.clone(), error };
    // The bridge connects only after the first bytes of the line: a server gives a connection a few
    // seconds to identify its rank, and a board may be switched on much later.
    let first =
        line.recv_first().map_err(|_| BridgeError::LineClosed { line: line.name().to_owned() })?;
    let server = TcpStream::connect(&args.to).map_err(no_server)?;
    server.set_nodelay(true).map_err(no_server)?;
    server.set_nonblocking(true).map_err(no_server)?;
    let mut relay = Relay { up: Pipe::holding(&first), down: Pipe::default() };
    match relay.run(&line, &server) {
        Ok(ClosedSide::Server) => {
            line.drain();
            Ok(())
        }
        // A board that has finalized may close the line before the server closes the connection.
        Ok(ClosedSide::SerialLine) if closes(&server) => Ok(()),
        Ok(ClosedSide::SerialLine) => {
            let _ = server.shutdown(Shutdown::Both);
            Err(BridgeError::LineClosed { line: line.name().to_owned() })
        }
        Err(error) => Err(BridgeError::Broken { address: args.to.clone(), error }),
    }
}

/// True if the server closes the connection without further input and soon.
fn closes(server: &TcpStream) -> bool {
    let until = Instant::now() + CLOSE_TIMEOUT;
    let mut pipe = Pipe::default();
    while let Some(left) = until.checked_duration_since(Instant::now())
        && !pipe.has_ended
    {
        let mut ends = [PollFd::new(server, PollFlags::IN)];
        let waited = poll(&mut ends, Timespec::try_from(left).ok().as_ref());
        pipe.held.clear();
        if waited.is_err_and(|error| error != Errno::INTR) || pipe.read_from(server).is_err() {
            break;
        }
    }
    pipe.has_ended
}

/// Both directions.
struct Relay {
    /// From the line to the server.
    up: Pipe,
    down: Pipe,
}

/// Side that has hung up first.
enum ClosedSide {
    Server,
    SerialLine,
}

/// Bytes on their way in one direction.
#[derive(Default)]
struct Pipe {
    held: Vec<u8>,
    has_ended: bool,
}

impl Relay {
    fn run(&mut self, line: &SerialLine, server: &TcpStream) -> io::Result<ClosedSide> {
        loop {
            if self.down.has_ended && self.down.held.is_empty() {
                return Ok(ClosedSide::Server);
            }
            if self.up.has_ended && self.up.held.is_empty() {
                return Ok(ClosedSide::SerialLine);
            }
            let wants = |from: &Pipe, to: &Pipe| {
                let mut flags = PollFlags::empty();
                flags.set(PollFlags::IN, from.has_room());
                flags.set(PollFlags::OUT, !to.held.is_empty());
                flags
            };
            let mut ends = [
                PollFd::from_borrowed_fd(line.as_fd(), wants(&self.up, &self.down)),
                PollFd::from_borrowed_fd(server.as_fd(), wants(&self.down, &self.up)),
            ];
            match poll(&mut ends, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            self.up.read_from(line)?;
            self.up.write_to(server)?;
            self.down.read_from(server)?;
            // A line that is gone accepts no bytes, and the read has reported its end.
            if !self.up.has_ended {
                self.down.write_to(line)?;
            }
        }
    }
}

impl Pipe {
    fn holding(bytes: &[u8]) -> Self {
        Self { held: bytes.to_vec(), has_ended: false }
    }

    fn has_room(&self) -> bool {
        !self.has_ended && self.held.is_empty()
    }

    /// Reads available bytes, if all earlier ones have been written.
    fn read_from(&mut self, from: impl AsFd) -> io::Result<()> {
        if !self.has_room() {
            return Ok(());
        }
        let mut room = [0; READ_BYTES];
        match rustix::io::read(from, &mut room) {
            // The other end of a pseudo-terminal is closed: the system calls that an error.
            Ok(0) | Err(Errno::IO | Errno::CONNRESET) => self.has_ended = true,
            Ok(len) => self.held.extend_from_slice(&room[..len]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn write_to(&mut self, to: impl AsFd) -> io::Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        match rustix::io::write(to, &self.held) {
            Ok(len) => drop(self.held.drain(..len)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // The reader is gone; the read in the other direction reports how the connection ended.
            Err(Errno::PIPE | Errno::CONNRESET | Errno::IO) => self.held.clear(),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// Time limit for a server to close the connection after finalize.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Number of bytes of one read: a page; serial lines hold less.
const READ_BYTES: usize = 4096;
