//! Rejected connections: one report of each, as far as the log has room.

use super::EventLoop;
use crate::admission::{Socket, peer};
use crate::report;
use std::net::SocketAddr;
use std::time::Instant;

impl EventLoop {
    /// Reports a rejected connection and the process at its other end.
    pub(super) fn say_refused(&mut self, from: SocketAddr, socket: Option<Socket>, why: &str) {
        let Some(unreported) = self.rejections.next(Instant::now()) else { return };
        let holder = socket.map(|socket| (peer::holder(socket), socket.user));
        self.outputs.say(report::refused(from, holder, why, unreported));
    }

    /// Reports how many connections were rejected without a report of their own.
    pub(super) fn say_unreported(&mut self, now: Instant) {
        if let Some(count) = self.rejections.take_unreported(now) {
            self.outputs.say(report::unreported(count));
        }
    }
}
