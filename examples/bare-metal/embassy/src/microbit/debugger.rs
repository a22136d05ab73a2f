//! The debugger of the board: console, command line, end of the run.
#![allow(unsafe_code, reason = "the debugger reads and writes memory by its address")]

use core::arch::asm;
use core::ffi::CStr;
use core::panic::PanicInfo;

/// Prints a text, up to its zero byte, on the debugger's console.
pub(crate) fn print(text: &[u8]) {
    if let Ok(text) = CStr::from_bytes_until_nul(text) {
        call(WRITE0, text.as_ptr() as usize);
    }
}

/// The command line that the debugger passes to the program.
pub(crate) fn command_line(room: &mut [u8; 64]) -> &[u8] {
    let block = [room.as_mut_ptr() as usize, room.len()];
    call(COMMAND_LINE, block.as_ptr() as usize);
    CStr::from_bytes_until_nul(room).map_or(b"", CStr::to_bytes)
}

/// Ends the run: status 0, or 1.
pub(crate) fn exit(is_good: bool) -> ! {
    loop {
        call(EXIT, if is_good { APPLICATION_EXIT } else { RUN_TIME_ERROR });
    }
}

fn call(operation: usize, argument: usize) {
    // SAFETY: the debugger reads the argument, and writes only to the given block. The compiler must not
    // assume that memory stays unchanged.
    unsafe { asm!("bkpt 0xab", inout("r0") operation => _, in("r1") argument) };
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    print(b"microbit: panic\n\0");
    exit(false)
}

const WRITE0: usize = 0x04;
const COMMAND_LINE: usize = 0x15;
const EXIT: usize = 0x18;
const APPLICATION_EXIT: usize = 0x20026;
const RUN_TIME_ERROR: usize = 0x20023;
