//! A rank on a board that has nothing but a serial line, with the calls of `pmi-link`.
//!
//! The program at the other end of the line passes its bytes to a process manager: here QEMU does, over
//! TCP. The process id follows the program's name on the debugger's command line.
#![no_std]
#![no_main]

#[path = "../machine.rs"]
mod machine;

use core::convert::Infallible;
use core::ffi::CStr;

use embedded_io::{ErrorType, Read, Write};
use machine::{Uart, print};
use pmi_core::command::{Text, Version};
use pmi_core::wire::Writer;
use pmi_link::blocking::Pmi;

type Failed = pmi_link::CallError<Infallible>;

/// The serial line; reading waits for a byte.
struct Serial(Uart);

impl ErrorType for Serial {
    type Error = Infallible;
}

impl Read for Serial {
    fn read(&mut self, out: &mut [u8]) -> Result<usize, Infallible> {
        // One byte at once: waiting for more could block indefinitely.
        let Some(first) = out.first_mut() else { return Ok(0) };
        *first = self.0.receive();
        Ok(1)
    }
}

impl Write for Serial {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        bytes.iter().for_each(|byte| self.0.send(*byte));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

fn run() -> ! {
    let mut room = [0; 64];
    let words = machine::command_line(&mut room).map_or(&b""[..], CStr::to_bytes);
    let id = words.rsplit(|byte| *byte == b' ').next().and_then(|id| Text::plain(id).signed());
    let good = id.and_then(|id| u64::try_from(id).ok()).is_some_and(|id| exchange(id).is_ok());
    print(if good { b"serial: done\n\0" } else { b"serial: failed\n\0" });
    machine::exit(good)
}

#[inline(never)]
fn exchange(id: u64) -> Result<(), Failed> {
    let mut pmi = Pmi::new(Serial(Uart::open()));
    let identity = pmi.greet(id)?;
    pmi.init(Version::V1_1)?;
    pmi.kvsname()?;
    let (mut key, mut card) = ([0; 16], [0; 32]);
    let own = numbered(b"card-", identity.rank, b"", &mut key);
    pmi.put(own, numbered(b"rank-", identity.rank, b"@serial", &mut card))?;
    pmi.fence()?;
    for peer in 0..identity.size {
        let (mut key, mut card, mut line) = ([0; 16], [0; 64], [0; 128]);
        let key = numbered(b"card-", peer, b"", &mut key);
        let len = pmi.get(key, &mut card)?.unwrap_or(0);
        let mut text = Writer::new(&mut line);
        text.bytes(b"rank ").number(identity.rank).bytes(b" of ").number(identity.size);
        text.bytes(b": ").bytes(key).bytes(b" = ").bytes(card.get(..len).unwrap_or(b""));
        text.bytes(b"\n\0");
        print(&line);
    }
    pmi.finalize()
}

fn numbered<'a>(before: &[u8], number: u32, behind: &[u8], out: &'a mut [u8]) -> &'a [u8] {
    let mut writer = Writer::new(out);
    let len = writer.bytes(before).number(number).bytes(behind).len();
    out.get(..len).unwrap_or(b"")
}
