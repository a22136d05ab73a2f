//! Received bytes that were not read yet, and the waker of their reader.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use js_sys::Uint8Array;
use pmi_link::{Link, LinkError, Read};

/// A link that wakes the task that waits for it.
pub trait AsyncLink: Link {
    /// Ready when something may have changed since this was asked last: bytes have come, there is room
    /// for more, or the link is at its end.
    fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// Waits until something may have changed.
    fn changed(&mut self) -> impl Future<Output = ()> {
        poll_fn(|context| self.poll_changed(context))
    }
}

/// The queue that event listeners and a link share. Listeners outlive the link and then find no
/// queue.
pub(crate) type SharedQueue = Rc<RefCell<ReceiveQueue>>;

/// Received bytes that were not read.
#[derive(Debug, Default)]
pub(crate) struct ReceiveQueue {
    bytes: VecDeque<u8>,
    /// End of the input behind the bytes, with its reason.
    end: Option<Result<(), LinkError>>,
    /// Bytes that were sent and not acknowledged, where the other end acknowledges.
    pub(crate) unacknowledged_bytes: usize,
    is_changed: bool,
    waker: Option<Waker>,
}

impl ReceiveQueue {
    /// Appends received bytes; more than `max_bytes` unread ends the connection, since a peer must
    /// not exhaust memory.
    pub(crate) fn push(&mut self, data: &Uint8Array, max_bytes: usize) {
        let len = usize::try_from(data.length()).unwrap_or(usize::MAX);
        match self.bytes.len().checked_add(len).filter(|sum| *sum <= max_bytes) {
            _ if self.end.is_some() => {}
            Some(_) => self.bytes.extend(data.to_vec()),
            None => self.finish(Err(LinkError::Failed(0))),
        }
        self.notify();
    }

    /// Ends the input. The first reason stays.
    pub(crate) fn finish(&mut self, why: Result<(), LinkError>) {
        self.end.get_or_insert(why);
        self.notify();
    }

    /// Wakes the reader after a change.
    pub(crate) fn notify(&mut self) {
        self.is_changed = true;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// As [`Link::try_read`].
    pub(crate) fn read(&mut self, out: &mut [u8]) -> Result<Read, LinkError> {
        let len = out.len().min(self.bytes.len());
        if len > 0 {
            out.iter_mut().zip(self.bytes.drain(..len)).for_each(|(to, byte)| *to = byte);
            return Ok(Read::Bytes(len));
        }
        match self.end {
            None => Ok(Read::NotNow),
            _ if out.is_empty() => Ok(Read::NotNow),
            Some(Ok(())) => Ok(Read::End),
            Some(Err(error)) => Err(error),
        }
    }

    /// Ok if the other end still receives.
    pub(crate) const fn writable(&self) -> Result<(), LinkError> {
        match self.end {
            None => Ok(()),
            Some(Ok(())) => Err(LinkError::Closed),
            Some(Err(error)) => Err(error),
        }
    }

    /// As [`AsyncLink::poll_changed`].
    pub(crate) fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::take(&mut self.is_changed) {
            return Poll::Ready(());
        }
        self.waker = Some(context.waker().clone());
        Poll::Pending
    }
}
