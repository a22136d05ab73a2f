//! A rank over a virtio serial port, without a network.

use embedded_io::{ErrorType, Read, Write};
use pmi_core::time::{Duration, Instant};

use crate::args::Args;
use crate::client::exchange;
use crate::machine::memory::Lent;
use crate::machine::port::{PortMemory, PortState, SerialPort};
use crate::net::core_now;
use crate::status::Failure;

static MEMORY: Lent<PortMemory> = Lent::new(PortMemory::new());

/// Participates in the job once.
// Not inlined: a guest has one link or the other, and needs the stack of one.
#[inline(never)]
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let limit = core_now().plus(Duration::from_millis(args.limit_ms));
    let port = SerialPort::find(MEMORY.lend()).ok_or(Failure::NoDevice)?;
    let mut line = SerialLine { port, limit };
    line.until(|port| (port.poll() == PortState::Open).then_some(()))?;
    exchange(line, args).map(drop)
}

/// The port, until the guest's time is over.
struct SerialLine {
    port: SerialPort,
    limit: Instant,
}

impl SerialLine {
    /// Polls the port until `look` returns a result.
    fn until<T>(
        &mut self,
        mut look: impl FnMut(&mut SerialPort) -> Option<T>,
    ) -> Result<T, Failure> {
        loop {
            // What has arrived before the other end has disconnected is still read.
            let is_over = self.port.poll() == PortState::Ended;
            match look(&mut self.port) {
                Some(found) => return Ok(found),
                None if is_over => return Err(Failure::Gone),
                None if core_now() >= self.limit => return Err(Failure::TooLate),
                None => {}
            }
        }
    }
}

impl ErrorType for SerialLine {
    type Error = Failure;
}

impl Read for SerialLine {
    fn read(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
        if out.is_empty() {
            return Ok(0);
        }
        self.until(|port| Some(port.read(out)).filter(|len| *len > 0))
    }
}

impl Write for SerialLine {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        if bytes.is_empty() {
            return Ok(0);
        }
        self.until(|port| Some(port.write(bytes)).filter(|len| *len > 0))
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.until(|port| port.is_flushed().then_some(()))
    }
}
