//! A web socket as a link.

use std::rc::Rc;
use std::task::{Context, Poll};

use js_sys::Uint8Array;
use pmi_link::{Link, LinkError, Read, Wrote};
use wasm_bindgen::{JsCast, JsValue};

use crate::js::{self, WebSocket};
use crate::receive_queue::{AsyncLink, SharedQueue};

/// A `WebSocket` whose other end is a launcher, or another `Socket`.
///
/// Wire: binary messages, whose boundaries have no meaning; a text message is an error.
///
/// Shape: the link can be used before it is open, and transfers nothing until then. At most 64 KiB
/// wait in the browser to be sent. A page cannot slow down a sender; unread input is kept up to 32
/// MiB, and more than that ends the connection. Dropping the link closes the socket.
#[derive(Debug)]
pub struct Socket {
    socket: WebSocket,
    queue: SharedQueue,
    /// A write found no room; browsers do not report when there is some again.
    wants_room: bool,
}

impl Socket {
    /// Takes over a socket that no other component listens on.
    pub fn new(socket: JsValue) -> Self {
        let queue = SharedQueue::default();
        let weak = Rc::downgrade(&queue);
        js::on(&socket, "open", move |_| {
            if let Some(queue) = weak.upgrade() {
                queue.borrow_mut().notify();
            }
        });
        let weak = Rc::downgrade(&queue);
        js::on(&socket, "message", move |event| {
            if let Some(queue) = weak.upgrade() {
                match js::bytes(&event.data()) {
                    Some(bytes) => queue.borrow_mut().push(&bytes, HELD_BYTES_MAX),
                    None => queue.borrow_mut().finish(Err(LinkError::Failed(0))),
                }
            }
        });
        let weak = Rc::downgrade(&queue);
        js::on(&socket, "close", move |event| {
            if let Some(queue) = weak.upgrade() {
                let is_clean = event.was_clean().unwrap_or_default();
                queue.borrow_mut().finish(if is_clean { Ok(()) } else { Err(LinkError::Reset) });
            }
        });
        // A socket that has failed closes too, with a better reason; but some environments report
        // an error event without a listener as unhandled.
        js::on(&socket, "error", |_| {});
        let socket: WebSocket = socket.unchecked_into();
        // Otherwise bytes come as blobs, which have to be waited for.
        socket.set_binary_type("arraybuffer");
        Self { socket, queue, wants_room: false }
    }

    /// Number of bytes that may be written now.
    fn room(&self) -> usize {
        // A saturating cast of a count that is never negative.
        #[expect(clippy::cast_possible_truncation, reason = "numbers of JavaScript are floats")]
        let waiting = self.socket.buffered_amount() as usize;
        match self.socket.ready_state() {
            OPEN => WAITING_BYTES_MAX.saturating_sub(waiting),
            _ => 0,
        }
    }
}

impl Link for Socket {
    fn try_read(&mut self, out: &mut [u8]) -> Result<Read, LinkError> {
        self.queue.borrow_mut().read(out)
    }

    fn try_write(&mut self, bytes: &[u8]) -> Result<Wrote, LinkError> {
        self.queue.borrow().writable()?;
        if self.socket.ready_state() > OPEN {
            return Err(LinkError::Closed);
        }
        let part = bytes.get(..self.room().min(bytes.len())).unwrap_or(b"");
        if part.is_empty() {
            self.wants_room = !bytes.is_empty();
            return Ok(Wrote::NotNow);
        }
        self.socket.send(&Uint8Array::from(part)).map_err(|_| LinkError::Failed(0))?;
        Ok(Wrote::Bytes(part.len()))
    }
}

impl AsyncLink for Socket {
    fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let changed = self.queue.borrow_mut().poll_changed(context);
        if changed.is_pending() && self.wants_room && self.socket.ready_state() == OPEN {
            if self.room() > 0 {
                self.wants_room = false;
                return Poll::Ready(());
            }
            let waker = context.waker().clone();
            js::call_later(RETRY_MS, || waker.wake());
        }
        changed
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.socket.close();
    }
}

/// The state of a socket that can be written to; those that are closing, or closed, come behind.
const OPEN: u32 = 1;

/// Upper bound of unsent bytes, as in an operating system.
const WAITING_BYTES_MAX: usize = 64 * 1024;

/// Upper bound of unread bytes, far above what a server sends to one client.
const HELD_BYTES_MAX: usize = 32 << 20;

/// Interval at which the room for a write is checked.
const RETRY_MS: u32 = 5;
