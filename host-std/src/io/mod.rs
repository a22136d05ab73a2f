//! Input and output of ranks, and the launcher's own reports.

mod delivery;

use crate::report;
use crate::stdio::StreamOwner;
use crate::stdio::forward::OutputForwarder;
use crate::stdio::inputs::InputWriter;
use crate::stdio::inputs::Inputs;
use crate::stdio::outputs::Outputs;
use crate::stdio::pushed::PushedInputs;
use delivery::Delivery;
use pmi_host_os::admission::limits::RejectionLog;
use pmi_host_os::admission::{Socket, peer};
use pmi_host_os::clock;
use pmi_host_os::poller::Poller;
use pmi_host_os::stream::Stream;
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Standard streams of ranks and of the launcher.
pub(crate) struct Io {
    pub(crate) inputs: Inputs,
    pub(crate) outputs: Outputs,
    /// Output that tools have requested.
    pub(crate) forwarder: OutputForwarder,
    /// Input that tools push to ranks.
    pub(crate) pushed: PushedInputs,
    /// Reports of rejected connections, with a limit on their number.
    rejections: RejectionLog,
    /// Number of tables printed since the reader last had taken all output.
    unread_count: usize,
    /// Time to stop waiting for output of processes that ranks left behind.
    linger_until: Option<Instant>,
    /// Delivery of remaining output, once the run is over by failure.
    delivery: Option<Delivery>,
}

/// Pipes of a rank that was started; `None` where it has a terminal, or one pipe for both.
pub(crate) struct RankPipes {
    /// `None` also if the launcher writes nothing to it.
    pub(crate) input: Option<InputWriter>,
    pub(crate) output: Option<OwnedFd>,
    pub(crate) errors: Option<OwnedFd>,
}

impl Io {
    pub(crate) fn new(inputs: Inputs, outputs: Outputs) -> Self {
        Self {
            inputs,
            outputs,
            forwarder: OutputForwarder::default(),
            pushed: PushedInputs::default(),
            rejections: RejectionLog::default(),
            unread_count: 0,
            linger_until: None,
            delivery: None,
        }
    }

    /// Writes a report to the user.
    pub(crate) fn report(&mut self, what: impl Display) {
        self.outputs.write_message(what);
    }

    /// Writes a table, unless the reader has not taken several earlier ones.
    pub(crate) fn report_table(&mut self, table: &str) {
        if self.outputs.is_flushed() {
            self.unread_count = 0;
        }
        if self.unread_count < UNREAD_MAX {
            self.unread_count += 1;
            self.report(table);
        }
    }

    /// Reports a rejected connection and the process at its other end.
    pub(crate) fn report_rejected(&mut self, from: SocketAddr, socket: Option<Socket>, why: &str) {
        let Some(unreported) = self.rejections.next(clock::now()) else { return };
        let holder = socket.map(|socket| (peer::holder(socket), socket.user));
        self.report(report::refused(from, holder, why, unreported));
    }

    /// Reports how many connections were rejected without a report of their own, when that is due.
    pub(crate) fn check_rejections(&mut self, now: Instant) {
        if let Some(count) = self.rejections.take_unreported(now) {
            self.report(report::unreported(count));
        }
    }

    /// Finishes input, and returns the number of rejected connections that were not reported.
    pub(crate) fn finish(&mut self) -> Option<u64> {
        let unreported = self.rejections.finish();
        self.inputs.finish();
        unreported
    }

    /// Connects the streams of a rank that was started, whose process has this number.
    pub(crate) fn add_rank(
        &mut self,
        (process, owner): (u32, StreamOwner),
        RankPipes { input, output, errors }: RankPipes,
        poller: &Poller,
    ) -> io::Result<()> {
        match input {
            Some(InputWriter::Fed(pipe)) => self.inputs.add(process, pipe, poller)?,
            Some(InputWriter::Pushed(pipe)) => self.pushed.add(process, pipe),
            None => {}
        }
        let place = (process, owner);
        if let Some(output) = output {
            self.outputs.add(place, Stream::Out, output, poller)?;
        } else if let Some(master) = self.inputs.begin(process, poller)? {
            self.outputs.add_terminal(place, master, poller)?;
        }
        match errors {
            Some(errors) => self.outputs.add(place, Stream::Err, errors, poller),
            None => Ok(()),
        }
    }

    /// Disconnects the input of a process that has exited. `rank` is its rank if it belongs to the first
    /// job. Returns true if the terminal of the user stays its own for its last output, until
    /// [`Inputs::end_terminal`].
    pub(crate) fn end_input(
        &mut self,
        process: u32,
        rank: Option<u32>,
        poller: &Poller,
    ) -> io::Result<bool> {
        self.pushed.end(process);
        if self.inputs.raw_for().is_some_and(|owner| Some(owner.rank) == rank) {
            self.outputs.drain(process);
            return Ok(true);
        }
        self.inputs.end(process, poller)?;
        Ok(false)
    }

    /// Starts to wait for output that is in transit when no rank is left.
    pub(crate) fn begin_linger(&mut self, now: Instant) {
        self.linger_until = Some(now + LINGER);
    }

    /// Stops that wait: ranks of another job follow.
    pub(crate) fn end_linger(&mut self) {
        self.linger_until = None;
    }

    /// Closes pipes that are held open when no rank is left, at the deadline.
    pub(crate) fn check_linger(&mut self, now: Instant) {
        if self.linger_until.is_some_and(|until| now >= until) {
            if self.outputs.close_held(false) > 0 {
                self.report(report::output_left_open(LINGER.as_secs()));
            }
            // Pipes that are open now wait for a slow reader of the launcher's output, which may hide such
            // a process.
            self.linger_until = self.outputs.is_open().then(|| now + LINGER);
        }
    }

    /// Drops output that no reader takes once a failed run `is_over`. Returns true if it did: the run
    /// terminates.
    pub(crate) fn check_delivery(&mut self, now: Instant, is_over: bool) -> bool {
        if !is_over || self.outputs.is_done() {
            self.delivery = None;
            return false;
        }
        let written_bytes = self.outputs.written_bytes();
        let delivery = self.delivery.get_or_insert_with(|| Delivery::new(now, written_bytes));
        let Some(unread) = delivery.check(now, written_bytes) else { return false };
        self.outputs.discard();
        // The report is written at the end of this turn if standard error takes it; nothing waits for that.
        self.report(unread);
        true
    }

    /// Time of the next call of a method with a deadline.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let delivery = self.delivery.as_ref().map(Delivery::deadline);
        let streams = [self.inputs.deadline(), self.outputs.deadline(), delivery];
        let own = [self.linger_until, self.rejections.deadline(), self.forwarder.deadline()];
        streams.into_iter().chain(own).flatten().min()
    }
}

/// Longest wait for output once no rank is left to write any: then a process that a rank left behind
/// holds the pipe.
const LINGER: Duration = Duration::from_secs(2);

/// Maximum number of unread tables; more would add nothing.
const UNREAD_MAX: usize = 4;
