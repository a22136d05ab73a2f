//! The board: start-up, the debugger's line and exit, memory that is lent once, the stack.
#![allow(unsafe_code, reason = "start-up code, devices, and memory that no other code hands out")]
#![allow(dead_code, reason = "each image uses a part of it")]

use core::arch::asm;
use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::panic::PanicInfo;

/// Prints a text, up to its zero byte, on the debugger's console.
pub(crate) fn print(text: &[u8]) {
    if let Ok(text) = CStr::from_bytes_until_nul(text) {
        say(text);
    }
}

fn say(text: &CStr) {
    semihost(WRITE0, text.as_ptr() as usize);
}

/// The command line that the debugger passes to the program.
pub(crate) fn command_line(room: &mut [u8; 64]) -> Option<&CStr> {
    let block = [room.as_mut_ptr() as usize, room.len()];
    semihost(COMMAND_LINE, block.as_ptr() as usize);
    CStr::from_bytes_until_nul(room).ok()
}

/// The first serial port.
pub(crate) struct Uart(());

impl Uart {
    /// Switches it on.
    pub(crate) fn open() -> Self {
        Self::write(BAUD_DIVISOR, 16);
        Self::write(CONTROL, 0b11);
        // Earlier bytes are not for this program. QEMU also takes the read as the sign to continue.
        Self::read(DATA);
        Self(())
    }

    /// Waits for room, then sends.
    pub(crate) fn send(&mut self, byte: u8) {
        while Self::read(STATE) & 0b01 != 0 {}
        Self::write(DATA, u32::from(byte));
    }

    /// Waits for a byte.
    pub(crate) fn receive(&mut self) -> u8 {
        while Self::read(STATE) & 0b10 == 0 {}
        Self::read(DATA).to_le_bytes()[0]
    }

    fn read(register: usize) -> u32 {
        // SAFETY: a register of this board's serial port.
        unsafe { ((UART + register) as *const u32).read_volatile() }
    }

    fn write(register: usize, value: u32) {
        // SAFETY: as for `read`; the port touches no memory.
        unsafe { ((UART + register) as *mut u32).write_volatile(value) }
    }
}

/// Ends QEMU: status 0, or 1.
pub(crate) fn exit(good: bool) -> ! {
    loop {
        semihost(EXIT, if good { APPLICATION_EXIT } else { RUN_TIME_ERROR });
    }
}

/// Memory with a fixed place.
pub(crate) struct LentOnce<T>(UnsafeCell<T>);

// SAFETY: one core, and no handler that touches it.
unsafe impl<T> Sync for LentOnce<T> {}

impl<T> LentOnce<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Lends it for good.
    #[allow(clippy::mut_from_ref, reason = "that is the purpose; each is lent once, from `run`")]
    pub(crate) fn lend(&'static self) -> &'static mut T {
        // SAFETY: `run` is entered once and lends each once.
        unsafe { &mut *self.0.get() }
    }
}

/// Number of bytes of the stack that were ever used, and its size.
pub(crate) fn stack() -> (usize, usize) {
    let (low, high) = (&raw const bss_end as usize, &raw const stack_top as usize);
    // SAFETY: the addresses are those of the stack.
    let is_painted = |at: &usize| unsafe { (*at as *const u32).read_volatile() } == PAINT;
    let free = (low..high).step_by(4).take_while(is_painted).count();
    (high - low - 4 * free, high - low)
}

fn semihost(operation: usize, argument: usize) {
    // SAFETY: the debugger reads the argument, and writes only to the given block. The compiler
    // must not assume that memory stays unchanged.
    unsafe { asm!("bkpt 0xab", inout("r0") operation => _, in("r1") argument) };
}

unsafe extern "C" {
    static mut bss_start: u32;
    static mut bss_end: u32;
    static mut data_start: u32;
    static mut data_end: u32;
    static data_load: u32;
    static stack_top: u32;
}

/// Entry point of the board: initializes memory, then calls the program.
// SAFETY: no other symbol of the image has this name.
#[unsafe(no_mangle)]
extern "C" fn reset() -> ! {
    let words = |from: *mut u32, to: *mut u32| (to as usize - from as usize) / 4;
    let (bss, data) = (&raw mut bss_start, &raw mut data_start);
    for at in 0..words(bss, &raw mut bss_end) {
        // SAFETY: within the section, which is not in use yet.
        unsafe { bss.add(at).write_volatile(0) };
    }
    for at in 0..words(data, &raw mut data_end) {
        // SAFETY: as above; the image holds as many words.
        unsafe { data.add(at).write_volatile((&raw const data_load).add(at).read_volatile()) };
    }
    let here = 0u32;
    // Below this frame, with room for what the loop itself may need.
    for at in (&raw mut bss_end as usize..&raw const here as usize - 128).step_by(4) {
        // SAFETY: below the frame in use and above all that has a place.
        unsafe { (at as *mut u32).write_volatile(PAINT) };
    }
    crate::run()
}

extern "C" fn fault() {
    say(c"board: fault\n");
    exit(false)
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    say(c"board: panic\n");
    exit(false)
}

/// The first word, the stack, comes from the linker script.
// SAFETY: the processor reads it here, and calls its entries.
#[unsafe(link_section = ".vectors")]
#[used]
static VECTORS: [unsafe extern "C" fn(); 15] = {
    let mut table = [fault as unsafe extern "C" fn(); 15];
    // SAFETY: both are functions without arguments; that one never returns changes nothing.
    table[0] =
        unsafe { core::mem::transmute::<extern "C" fn() -> !, unsafe extern "C" fn()>(reset) };
    table
};

const PAINT: u32 = 0xa5a5_a5a5;
const UART: usize = 0x4000_4000;
const DATA: usize = 0;
const STATE: usize = 4;
const CONTROL: usize = 8;
const BAUD_DIVISOR: usize = 16;

const COMMAND_LINE: usize = 0x15;
const WRITE0: usize = 0x04;
const EXIT: usize = 0x18;
const APPLICATION_EXIT: usize = 0x20026;
const RUN_TIME_ERROR: usize = 0x20023;
