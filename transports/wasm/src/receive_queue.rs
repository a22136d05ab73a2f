//! What has come from the other end and was not read, and who waits for more.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use js_sys::Uint8Array;
use pmi_link::{Link, LinkError, Read};

/// A link that wakes whoever waits for it.
pub trait AsyncLink: Link {
    /// Ready when something may have changed since this was asked last: bytes have come, there is room
    /// for more, or the link is at its end.
    fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// Waits until something may have changed.
    fn changed(&mut self) -> impl Future<Output = ()> {
        poll_fn(|context| self.poll_changed(context))
    }
}

/// What event listeners and a link share. Listeners outlive it and then find nothing.
pub(crate) type SharedQueue = Rc<RefCell<ReceiveQueue>>;

/// What has come and was not read.
#[derive(Debug, Default)]
pub(crate) struct ReceiveQueue {
    bytes: VecDeque<u8>,
    /// Behind the bytes nothing comes any more, and why.
    end: Option<Result<(), LinkError>>,
    /// Bytes that were sent and not taken by the other end, where it says so.
    pub(crate) unacknowledged_bytes: usize,
    is_changed: bool,
    waker: Option<Waker>,
}

impl ReceiveQueue {
    /// Takes what has come; more than `max_bytes` unread is the end, since nobody may make us hold
    /// whatever he likes.
    pub(crate) fn push(&mut self, data: &Uint8Array, max_bytes: usize) {
        let len = usize::try_from(data.length()).unwrap_or(usize::MAX);
        match self.bytes.len().checked_add(len).filter(|sum| *sum <= max_bytes) {
            _ if self.end.is_some() => {}
            Some(_) => self.bytes.extend(data.to_vec()),
            None => self.finish(Err(LinkError::Failed(0))),
        }
        self.notify();
    }

    /// Nothing more comes. The first reason stays.
    pub(crate) fn finish(&mut self, why: Result<(), LinkError>) {
        self.end.get_or_insert(why);
        self.notify();
    }

    /// Something has changed.
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

    /// Whether anybody is there to write to.
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
