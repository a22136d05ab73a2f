//! A message port as a link.

use std::rc::Rc;
use std::task::{Context, Poll};

use js_sys::Uint8Array;
use pmi_link::{Link, LinkError, Read, Wrote};
use wasm_bindgen::{JsCast, JsValue};

use crate::js::{self, MessagePort};
use crate::receive_queue::{AsyncLink, ReceiveQueue, SharedQueue};

/// A `MessagePort` whose other end is a `Port`, too.
///
/// Wire: a `Uint8Array` is bytes; a number `N` acknowledges `N` more bytes; `null` is the end. At
/// most 64 KiB are in flight in one direction, so that a receiver that does not read stops the
/// sender, which browsers would not do.
/// Shape: dropping it sends the end and closes the port. A worker that was terminated sends nothing
/// in browsers without `close` events of ports; code that terminates a worker drops its link as
/// well.
#[derive(Debug)]
pub struct Port {
    port: MessagePort,
    queue: SharedQueue,
    /// Taken from the queue and not acknowledged yet.
    consumed_bytes: u32,
}

impl Port {
    /// Takes over a port that no other component listens on.
    pub fn new(port: JsValue) -> Self {
        let queue = SharedQueue::default();
        let weak = Rc::downgrade(&queue);
        js::on(&port, "message", move |event| {
            if let Some(queue) = weak.upgrade() {
                receive(&mut queue.borrow_mut(), &event.data());
            }
        });
        // A message that cannot be read here, and a port whose other end has closed.
        for event in ["messageerror", "close"] {
            let weak = Rc::downgrade(&queue);
            js::on(&port, event, move |_| {
                if let Some(queue) = weak.upgrade() {
                    queue.borrow_mut().finish(Err(LinkError::Reset));
                }
            });
        }
        let port: MessagePort = port.unchecked_into();
        port.start();
        Self { port, queue, consumed_bytes: 0 }
    }

    fn post(&self, message: &JsValue) -> Result<(), LinkError> {
        self.port.post(message).map_err(|_| LinkError::Failed(0))
    }
}

fn receive(queue: &mut ReceiveQueue, data: &JsValue) {
    if let Some(bytes) = js::bytes(data) {
        queue.push(&bytes, WINDOW_BYTES);
    } else if let Some(taken) = data.as_f64() {
        // A saturating cast: any value that is no count of bytes becomes too large.
        #[expect(clippy::cast_possible_truncation, reason = "numbers of JavaScript are floats")]
        let taken = taken as usize;
        match queue.unacknowledged_bytes.checked_sub(taken) {
            Some(left) => queue.unacknowledged_bytes = left,
            None => queue.finish(Err(LinkError::Failed(0))),
        }
        queue.notify();
    } else if data.is_null() {
        queue.finish(Ok(()));
    } else {
        queue.finish(Err(LinkError::Failed(0)));
    }
}

impl Link for Port {
    fn try_read(&mut self, out: &mut [u8]) -> Result<Read, LinkError> {
        let read = self.queue.borrow_mut().read(out)?;
        if let Read::Bytes(len) = read {
            self.consumed_bytes += u32::try_from(len).unwrap_or(u32::MAX);
            // Not for every message: half of the window is enough to keep the sender going.
            if self.consumed_bytes as usize >= WINDOW_BYTES / 2 {
                let taken = std::mem::take(&mut self.consumed_bytes);
                // Without a receiver at the other end the remaining input can still be read.
                let _ = self.post(&JsValue::from(taken));
            }
        }
        Ok(read)
    }

    fn try_write(&mut self, bytes: &[u8]) -> Result<Wrote, LinkError> {
        let room = {
            let queue = self.queue.borrow();
            queue.writable()?;
            WINDOW_BYTES.saturating_sub(queue.unacknowledged_bytes)
        };
        let part = bytes.get(..room.min(bytes.len())).unwrap_or(b"");
        if part.is_empty() {
            return Ok(Wrote::NotNow);
        }
        self.post(&Uint8Array::from(part))?;
        self.queue.borrow_mut().unacknowledged_bytes += part.len();
        Ok(Wrote::Bytes(part.len()))
    }
}

impl AsyncLink for Port {
    fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.queue.borrow_mut().poll_changed(context)
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // Without a receiver at the other end the message is not needed.
        let _ = self.post(&JsValue::NULL);
        self.port.close();
    }
}

/// Number of bytes that may be in flight in one direction.
const WINDOW_BYTES: usize = 64 * 1024;
