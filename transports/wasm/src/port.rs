//! A message port as a link.

use std::rc::Rc;
use std::task::{Context, Poll};

use js_sys::Uint8Array;
use pmi_link::{Link, LinkError, Read, Wrote};
use wasm_bindgen::{JsCast, JsValue};

use crate::inlet::{Awaited, Inlet, Shared};
use crate::js::{self, MessagePort};

/// A `MessagePort`, whose other end is one of these, too.
///
/// Wire: a `Uint8Array` is bytes; a number `N` says that `N` more bytes were taken; `null` is the end.
/// No more than 64 KiB are under way in one direction, so that an end that does not read holds up the
/// other one, which browsers would not do.
/// Shape: dropping it says so and closes the port. A worker that was ended says nothing in browsers
/// whose ports do not know `close` events; whoever ends a worker drops its link as well.
#[derive(Debug)]
pub struct Port {
    port: MessagePort,
    inlet: Shared,
    /// Taken from the inlet, and not said.
    unsaid_bytes: u32,
}

impl Port {
    /// Takes over a port that nobody else listens on.
    pub fn new(port: JsValue) -> Self {
        let inlet = Shared::default();
        let weak = Rc::downgrade(&inlet);
        js::on(&port, "message", move |event| {
            if let Some(inlet) = weak.upgrade() {
                take(&mut inlet.borrow_mut(), &event.data());
            }
        });
        // A message that cannot be read here, and a port whose other end is gone without a word.
        for event in ["messageerror", "close"] {
            let weak = Rc::downgrade(&inlet);
            js::on(&port, event, move |_| {
                if let Some(inlet) = weak.upgrade() {
                    inlet.borrow_mut().finish(Err(LinkError::Reset));
                }
            });
        }
        let port: MessagePort = port.unchecked_into();
        port.start();
        Self { port, inlet, unsaid_bytes: 0 }
    }

    fn post(&self, message: &JsValue) -> Result<(), LinkError> {
        self.port.post(message).map_err(|_| LinkError::Failed(0))
    }
}

fn take(inlet: &mut Inlet, data: &JsValue) {
    if let Some(bytes) = js::bytes(data) {
        inlet.push(&bytes, WINDOW_BYTES);
    } else if let Some(taken) = data.as_f64() {
        // A saturating cast: whatever is no count of bytes is too many.
        #[expect(clippy::cast_possible_truncation, reason = "numbers of JavaScript are floats")]
        let taken = taken as usize;
        match inlet.unacknowledged_bytes.checked_sub(taken) {
            Some(left) => inlet.unacknowledged_bytes = left,
            None => inlet.finish(Err(LinkError::Failed(0))),
        }
        inlet.tell();
    } else if data.is_null() {
        inlet.finish(Ok(()));
    } else {
        inlet.finish(Err(LinkError::Failed(0)));
    }
}

impl Link for Port {
    fn try_read(&mut self, out: &mut [u8]) -> Result<Read, LinkError> {
        let read = self.inlet.borrow_mut().read(out)?;
        if let Read::Bytes(len) = read {
            self.unsaid_bytes += u32::try_from(len).unwrap_or(u32::MAX);
            // Not for every message: whoever has half of the window left is not held up.
            if self.unsaid_bytes as usize >= WINDOW_BYTES / 2 {
                let taken = std::mem::take(&mut self.unsaid_bytes);
                // If nobody is there any more to be told, what has come can still be read.
                let _ = self.post(&JsValue::from(taken));
            }
        }
        Ok(read)
    }

    fn try_write(&mut self, bytes: &[u8]) -> Result<Wrote, LinkError> {
        let room = {
            let inlet = self.inlet.borrow();
            inlet.writable()?;
            WINDOW_BYTES.saturating_sub(inlet.unacknowledged_bytes)
        };
        let part = bytes.get(..room.min(bytes.len())).unwrap_or(b"");
        if part.is_empty() {
            return Ok(Wrote::NotNow);
        }
        self.post(&Uint8Array::from(part))?;
        self.inlet.borrow_mut().unacknowledged_bytes += part.len();
        Ok(Wrote::Bytes(part.len()))
    }
}

impl Awaited for Port {
    fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.inlet.borrow_mut().poll_changed(context)
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // If nobody is there any more, nobody has to know.
        let _ = self.post(&JsValue::NULL);
        self.port.close();
    }
}

/// What may be under way in one direction.
const WINDOW_BYTES: usize = 64 * 1024;
