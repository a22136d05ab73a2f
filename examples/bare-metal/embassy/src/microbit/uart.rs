//! The serial port of the nRF51: bytes arrive by interrupt, and are sent one by one.
//!
//! HALs of later chips move whole buffers by DMA, which this port has not.
//! Spec: nRF51 Series Reference Manual, Universal Asynchronous Receiver/Transmitter.
#![allow(unsafe_code, reason = "registers of a device, and its interrupt")]

use core::convert::Infallible;
use core::future::poll_fn;
use core::task::Poll;

use cortex_m::interrupt::InterruptNumber;
use cortex_m::peripheral::NVIC;
use cortex_m_rt::exception;
use embassy_sync::waitqueue::AtomicWaker;
use embedded_io_async::{ErrorType, Read, Write};

/// The task that waits for a byte.
static READER: AtomicWaker = AtomicWaker::new();

/// The port; there is one.
pub(crate) struct Uart(());

impl Uart {
    /// Switches it on.
    pub(crate) fn open() -> Self {
        write(PIN_SEND, 24);
        write(PIN_RECEIVE, 25);
        write(BAUD_RATE, BAUD_115200);
        write(ENABLE, 4);
        write(START_SEND, 1);
        write(START_RECEIVE, 1);
        // SAFETY: the handler below is complete, and shares only the waker.
        unsafe { NVIC::unmask(UartInterrupt) };
        Self(())
    }
}

impl ErrorType for Uart {
    type Error = Infallible;
}

impl Read for Uart {
    async fn read(&mut self, out: &mut [u8]) -> Result<usize, Infallible> {
        let Some(first) = out.first_mut() else { return Ok(0) };
        // One byte at once: waiting for more could block indefinitely. A dropped read loses none.
        *first = poll_fn(|context| {
            READER.register(context.waker());
            if read(IS_RECEIVED) == 0 {
                write(INTERRUPTS_ON, RECEIVED);
                return Poll::Pending;
            }
            // Cleared before the byte is read, since the next one may come at once.
            write(IS_RECEIVED, 0);
            Poll::Ready(read(RECEIVE).to_le_bytes()[0])
        })
        .await;
        Ok(1)
    }
}

impl Write for Uart {
    async fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        for byte in bytes {
            write(IS_SENT, 0);
            write(SEND, (*byte).into());
            poll_fn(|context| match read(IS_SENT) {
                0 => {
                    // Other tasks run for the duration of a byte, which is too short to sleep.
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                _ => Poll::Ready(()),
            })
            .await;
        }
        Ok(bytes.len())
    }

    async fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct UartInterrupt;

// SAFETY: the number of this port's interrupt.
unsafe impl InterruptNumber for UartInterrupt {
    fn number(self) -> u16 {
        2
    }
}

/// All interrupts come here; that of the port is the only one that is switched on.
// SAFETY: it touches no memory but that of the waker.
#[exception]
unsafe fn DefaultHandler(_number: i16) {
    // The byte stays in the port until the task reads it.
    write(INTERRUPTS_OFF, RECEIVED);
    READER.wake();
}

fn read(register: usize) -> u32 {
    // SAFETY: a register of this board's port.
    unsafe { ((UART + register) as *const u32).read_volatile() }
}

fn write(register: usize, value: u32) {
    // SAFETY: as for `read`; the port touches no memory.
    unsafe { ((UART + register) as *mut u32).write_volatile(value) }
}

const UART: usize = 0x4000_2000;
const START_RECEIVE: usize = 0x000;
const START_SEND: usize = 0x008;
const IS_RECEIVED: usize = 0x108;
const IS_SENT: usize = 0x11c;
const INTERRUPTS_ON: usize = 0x304;
const INTERRUPTS_OFF: usize = 0x308;
const ENABLE: usize = 0x500;
const PIN_SEND: usize = 0x50c;
const PIN_RECEIVE: usize = 0x514;
const RECEIVE: usize = 0x518;
const SEND: usize = 0x51c;
const BAUD_RATE: usize = 0x524;

/// Bit of the event that a byte has arrived.
const RECEIVED: u32 = 1 << 2;
const BAUD_115200: u32 = 0x01d7_e000;
