//! The connection of one rank.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use pmi_core::ids::SessionId;
use pmi_core::machine::Machine;
use pmi_core::time::Instant;
use pmi_link::PumpState;
use rustix::event::epoll;

use super::SCRATCH;
use crate::snapshot::server::{SnapshotLink, SnapshotPeer, Snapshots};
use crate::{BoundedBuf, NonBlocking};

/// The connection of one rank, and the readiness that it waits for.
#[derive(Debug)]
pub(super) struct ServerLink {
    link: NonBlocking<UnixStream>,
    /// State of a client that shares a snapshot.
    pub(super) snapshot: SnapshotPeer,
    pump: PumpState<BoundedBuf>,
    watched: epoll::EventFlags,
    id: SessionId,
}

/// State of a connection after it was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServedLink {
    /// It was served as far as possible.
    Waits,
    /// Bytes were read, and there may be more.
    HasMoved,
    /// It is over.
    Ended,
}

impl ServerLink {
    /// Watches a stream for input.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub(super) fn new(stream: UnixStream, id: SessionId, epoll: &OwnedFd) -> io::Result<Self> {
        let link = NonBlocking::unix(stream)?;
        let watched = epoll::EventFlags::IN;
        epoll::add(epoll, &link, data_of(id), watched)?;
        let half = || BoundedBuf::new(SCRATCH / 2);
        let (snapshot, pump) = (SnapshotPeer::of_rank(), PumpState::new(half(), half()));
        Ok(Self { link, snapshot, pump, watched, id })
    }

    /// Takes the segment that the rank may offer with its first bytes.
    pub(super) fn accept_segment(&mut self, snapshots: &Snapshots) {
        snapshots.accept(&mut self.snapshot, &self.link);
    }

    /// Moves bytes between the stream and its session; with `reads` false, it sends only.
    ///
    /// # Errors
    ///
    /// Errors of the readiness calls of the system.
    pub(super) fn serve(
        &mut self,
        session: &mut impl Machine,
        now: Instant,
        scratch: &mut [u8],
        reads: bool,
        epoll: &OwnedFd,
    ) -> io::Result<ServedLink> {
        let call = if reads { pmi_link::pump } else { pmi_link::flush };
        let mut link = SnapshotLink::new(&mut self.link, &self.snapshot);
        let Ok(progress) = call(now, session, &mut link, &mut self.pump, scratch) else {
            // A rank that violates the protocol has its answer, and no other one is affected.
            return Ok(ServedLink::Ended);
        };
        if progress.finished || progress.ended {
            return Ok(ServedLink::Ended);
        }
        let mut wanted = epoll::EventFlags::empty();
        wanted.set(epoll::EventFlags::IN, progress.wants_read);
        wanted.set(epoll::EventFlags::OUT, progress.wants_write);
        if wanted != self.watched {
            epoll::modify(epoll, &self.link, data_of(self.id), wanted)?;
            self.watched = wanted;
        }
        Ok(if progress.read_bytes > 0 { ServedLink::HasMoved } else { ServedLink::Waits })
    }
}

fn data_of(id: SessionId) -> epoll::EventData {
    epoll::EventData::new_u64(id.0.into())
}
