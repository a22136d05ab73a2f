//! Output of ranks that PMIx tools have requested.
//!
//! The launcher writes the output of ranks as without any tool; a copy goes to each tool that requested it.
//! A tool that reads slowly delays nothing: what it has not read is kept up to the size that it chose, and
//! bytes beyond that are dropped and counted. Output from before the first request for it is kept as well,
//! up to [`EARLY_MAX`] bytes of the run.

mod format;

pub(crate) use format::{LineTag, OutputFormat};

use pmi_core::error::Misuse;
use pmi_core::ids::{JobId, SessionId};
use pmi_core::server::pmix::ForwardedOutput;
use pmi_core::wire::pmix::Proc;
use pmi_core::wire::pmix::names::channel;
use pmi_host_os::stream::Stream;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Request of a tool for output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutputPull {
    /// Sources: jobs, each with one rank or as a whole.
    pub(crate) sources: Vec<(JobId, Option<u32>)>,
    /// Requested streams, by index.
    pub(crate) streams: [bool; 2],
    /// Number of the request at the tool.
    pub(crate) reference: u64,
    /// Treatment of the output on its way.
    pub(crate) delivery: OutputDelivery,
}

/// Treatment of requested output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutputDelivery {
    /// Number of bytes kept while the tool does not read.
    pub(crate) cache_bytes: usize,
    /// True if the oldest of them are dropped to make room, false if new ones are dropped.
    pub(crate) drops_oldest: bool,
    /// Number of bytes of a stream that are sent together; 0 for no minimum.
    pub(crate) grouped_bytes: usize,
    /// Longest time for which fewer bytes are kept back.
    pub(crate) grouped_for: Option<Duration>,
    /// Text added to lines.
    pub(crate) format: OutputFormat,
}

/// A rank as the source of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutputSource {
    /// Its job.
    pub(crate) job: JobId,
    /// Its rank.
    pub(crate) rank: u32,
    /// Id of its process.
    pub(crate) pid: i32,
    /// Name of its job.
    pub(crate) nspace: String,
    /// Its host.
    pub(crate) host: String,
}

/// Output of one stream of a rank; empty at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chunk {
    source: Rc<OutputSource>,
    stream: Stream,
    bytes: Vec<u8>,
}

/// Requests of tools, and the output that they have not received yet.
#[derive(Debug, Default)]
pub(crate) struct OutputForwarder {
    /// By their numbers at the server.
    pulls: BTreeMap<u64, PullState>,
    last_number: u64,
    /// Output that no tool has requested so far.
    early: VecDeque<Chunk>,
    early_bytes: usize,
}

/// State of a request.
#[derive(Debug)]
struct PullState {
    session: SessionId,
    pull: OutputPull,
    /// By job, rank and stream.
    streams: BTreeMap<(u32, u32, Stream), StreamState>,
    queue: VecDeque<Chunk>,
    queued_bytes: usize,
    dropped_bytes: u64,
    is_drop_reported: bool,
    /// The tool has withdrawn the request: what is queued is still sent.
    is_ending: bool,
}

/// Output of a stream that is not queued yet.
#[derive(Debug)]
struct StreamState {
    source: Rc<OutputSource>,
    /// Unfinished line, of formatted output.
    partial: Vec<u8>,
    /// Bytes that wait for more.
    group: Vec<u8>,
    /// Time at which they are sent.
    due_at: Option<Instant>,
}

impl OutputForwarder {
    /// Adds a request of a tool, and returns its number. Output that was kept for it is queued.
    pub(crate) fn add(&mut self, session: SessionId, pull: OutputPull, now: Instant) -> u64 {
        self.last_number += 1;
        let mut state = PullState {
            session,
            pull,
            streams: BTreeMap::new(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            dropped_bytes: 0,
            is_drop_reported: false,
            is_ending: false,
        };
        let early = std::mem::take(&mut self.early);
        let (its, others): (VecDeque<Chunk>, _) =
            early.into_iter().partition(|chunk| state.wants(&chunk.source, chunk.stream));
        self.early = others;
        self.early_bytes = self.early.iter().map(|chunk| chunk.bytes.len()).sum();
        for Chunk { source, stream, bytes } in its {
            state.receive(&source, stream, &bytes, now);
        }
        self.pulls.insert(self.last_number, state);
        self.last_number
    }

    /// Ends a request of this tool, and queues what was kept back; false if there is none with this number.
    pub(crate) fn withdraw(&mut self, session: SessionId, number: u64) -> bool {
        let found = self.pulls.get_mut(&number);
        let Some(state) = found.filter(|state| state.session == session && !state.is_ending) else {
            return false;
        };
        state.release_all();
        state.is_ending = true;
        true
    }

    /// Removes the requests of a tool that is gone.
    pub(crate) fn remove_session(&mut self, session: SessionId) {
        self.pulls.retain(|_, state| state.session != session);
    }

    /// Takes output of a stream of a rank; none is its end.
    pub(crate) fn receive(
        &mut self,
        source: &Rc<OutputSource>,
        stream: Stream,
        bytes: &[u8],
        now: Instant,
    ) {
        let mut is_wanted = false;
        for state in self.pulls.values_mut().filter(|state| state.wants(source, stream)) {
            state.receive(source, stream, bytes, now);
            is_wanted = true;
        }
        if !is_wanted {
            self.keep_early(source, stream, bytes);
        }
    }

    /// Sends queued output as far as tools take it. Returns true if anything was sent.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        mut to: impl FnMut(SessionId, &ForwardedOutput<'_>) -> Result<(), Misuse>,
    ) -> bool {
        let mut has_sent = false;
        self.pulls.retain(|_, state| {
            state.release_due(now);
            while let Some(chunk) = state.queue.front() {
                match to(state.session, &chunk.output(state.pull.reference)) {
                    Ok(()) => {}
                    Err(Misuse::NoRoom { .. }) => return true,
                    Err(_) => return false,
                }
                has_sent = true;
                state.queued_bytes -= chunk.bytes.len();
                state.queue.pop_front();
            }
            !state.is_ending
        });
        has_sent
    }

    /// A tool that has lost output, the first time that this is seen, and the number of lost bytes.
    pub(crate) fn take_dropped(&mut self) -> Option<(SessionId, u64)> {
        let mut pulls = self.pulls.values_mut();
        let state = pulls.find(|state| state.dropped_bytes > 0 && !state.is_drop_reported)?;
        state.is_drop_reported = true;
        Some((state.session, state.dropped_bytes))
    }

    /// Time at which bytes are sent that wait for more.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let streams = self.pulls.values().flat_map(|state| state.streams.values());
        streams.filter_map(|stream| stream.due_at).min()
    }

    /// Keeps output that no tool has requested, and drops the oldest.
    fn keep_early(&mut self, source: &Rc<OutputSource>, stream: Stream, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(EARLY_MAX)..];
        self.early_bytes += bytes.len();
        self.early.push_back(Chunk { source: Rc::clone(source), stream, bytes: bytes.to_vec() });
        while self.early_bytes > EARLY_MAX || self.early.len() > EARLY_CHUNKS_MAX {
            let Some(oldest) = self.early.pop_front() else { break };
            self.early_bytes -= oldest.bytes.len();
        }
    }
}

impl PullState {
    fn wants(&self, source: &OutputSource, stream: Stream) -> bool {
        let is_it = |(job, rank): &(JobId, Option<u32>)| {
            *job == source.job && rank.is_none_or(|rank| rank == source.rank)
        };
        !self.is_ending && self.pull.streams[stream.index()] && self.pull.sources.iter().any(is_it)
    }

    fn receive(&mut self, source: &Rc<OutputSource>, stream: Stream, bytes: &[u8], now: Instant) {
        let OutputDelivery { grouped_bytes, grouped_for, format, .. } = &self.pull.delivery;
        let key = (source.job.0, source.rank, stream);
        let of = self.streams.entry(key).or_insert_with(|| StreamState::new(source));
        let is_end = bytes.is_empty();
        match format.is_plain() {
            true => of.group.extend_from_slice(bytes),
            false => {
                of.partial.extend_from_slice(bytes);
                format.take_lines((source, stream), is_end, &mut of.partial, &mut of.group);
            }
        }
        if is_end || of.group.len() >= (*grouped_bytes).max(1) {
            of.due_at = None;
            let group = std::mem::take(&mut of.group);
            self.enqueue(source, stream, group);
        } else if !of.group.is_empty() && of.due_at.is_none() {
            of.due_at = grouped_for.map(|time| now + time);
        }
        if is_end {
            self.streams.remove(&key);
            // An end has no bytes, so it always has room.
            self.queue.push_back(Chunk { source: Rc::clone(source), stream, bytes: Vec::new() });
        }
    }

    /// Queues bytes that were kept back long enough.
    fn release_due(&mut self, now: Instant) {
        let is_due = |state: &StreamState| state.due_at.is_some_and(|at| at <= now);
        let due = self.streams.iter_mut().filter(|(_, state)| is_due(state));
        let due = due.map(|((.., stream), state)| {
            state.due_at = None;
            (Rc::clone(&state.source), *stream, std::mem::take(&mut state.group))
        });
        for (source, stream, group) in due.collect::<Vec<_>>() {
            self.enqueue(&source, stream, group);
        }
    }

    /// Queues all bytes that were kept back. The rest of a line goes out without its label.
    fn release_all(&mut self) {
        for ((.., stream), mut state) in std::mem::take(&mut self.streams) {
            state.group.append(&mut state.partial);
            self.enqueue(&state.source, stream, state.group);
        }
    }

    /// Queues bytes as far as the cache has room.
    fn enqueue(&mut self, source: &Rc<OutputSource>, stream: Stream, mut bytes: Vec<u8>) {
        let OutputDelivery { cache_bytes, drops_oldest, .. } = self.pull.delivery;
        let before = bytes.len();
        if drops_oldest {
            bytes.drain(..bytes.len().saturating_sub(cache_bytes));
            let mut kept = VecDeque::new();
            while self.queued_bytes + bytes.len() > cache_bytes
                && let Some(oldest) = self.queue.pop_front()
            {
                self.queued_bytes -= oldest.bytes.len();
                self.dropped_bytes += wide(oldest.bytes.len());
                // The end of a stream is never dropped.
                kept.extend(Some(oldest).filter(|oldest| oldest.bytes.is_empty()));
            }
            kept.into_iter().rev().for_each(|end| self.queue.push_front(end));
        } else {
            bytes.truncate(cache_bytes.saturating_sub(self.queued_bytes));
        }
        self.dropped_bytes += wide(before - bytes.len());
        if !bytes.is_empty() {
            self.queued_bytes += bytes.len();
            self.queue.push_back(Chunk { source: Rc::clone(source), stream, bytes });
        }
    }
}

impl StreamState {
    fn new(source: &Rc<OutputSource>) -> Self {
        Self { source: Rc::clone(source), partial: Vec::new(), group: Vec::new(), due_at: None }
    }
}

impl Chunk {
    fn output(&self, reference: u64) -> ForwardedOutput<'_> {
        let OutputSource { nspace, rank, .. } = &*self.source;
        ForwardedOutput {
            source: Proc { nspace: nspace.as_bytes(), rank: *rank },
            channel: match self.stream {
                Stream::Out => channel::STDOUT,
                Stream::Err => channel::STDERR,
            },
            reference,
            bytes: &self.bytes,
        }
    }
}

impl Default for OutputDelivery {
    fn default() -> Self {
        Self {
            cache_bytes: CACHE_BYTES,
            drops_oldest: false,
            grouped_bytes: 0,
            grouped_for: None,
            format: OutputFormat::default(),
        }
    }
}

fn wide(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Number of bytes kept for a tool that names none.
const CACHE_BYTES: usize = 1 << 20;

/// Number of bytes kept until a tool requests them.
const EARLY_MAX: usize = 64 << 10;

/// Number of pieces among these.
const EARLY_CHUNKS_MAX: usize = 1 << 10;

#[cfg(test)]
mod tests;
