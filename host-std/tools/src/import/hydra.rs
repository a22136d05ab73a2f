//! Logs of `mpiexec -verbose`, as Hydra of MPICH 4.x and 5.x writes them.
//!
//! Each node has a proxy. Its log has the requests of its clients and its replies, but not the client of a
//! reply: that is the client that has waited longest for such a reply. A proxy passes on requests that it
//! cannot answer, and then only `mpiexec` shows the reply. 4.x shows requests in parts, by descriptor; 5.x
//! shows them as received, by job and place on the node.
//!
//! ```text
//! 4.x  [proxy:0:0@n0] got pmi command (from 6): init
//!      pmi_version=1 pmi_subversion=1
//!      [proxy:0:0@n0] PMI response: cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024
//!      [mpiexec@n0] PMI response to fd 6 pid 0: cmd=spawn_result rc=0
//!
//! 5.x  [proxy:0@n0] got pmi command from downstream 0-1:
//!          cmd=init pmi_version=1 pmi_subversion=1
//!      [proxy:0@n0] Sending PMI command:
//!          cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024
//!      [mpiexec@n0] Sending internal PMI command (proxy:0:0):
//!          cmd=spawn_result rc=0
//! ```

mod ranks;
mod text;

use self::ranks::LogJobs;
use self::text::{rebuilt, whole};
use super::log::Log;
use pmi_trace::message;
use pmi_trace::{Direction, Head, Trace};
use std::iter::Peekable;
use std::slice::Split;

/// Key of a connection in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    job: u32,
    proxy: u32,
    /// A descriptor in 4.x, a place on the node in 5.x.
    id: u32,
}

/// A reply that `mpiexec` gave and the proxy has not passed on yet, or the other way round.
#[derive(Debug)]
struct Passed {
    word: Vec<u8>,
    /// A line of `mpiexec`: the job, the client if it names one, and the text.
    text: Option<(Option<u32>, Option<u32>, Vec<u8>)>,
    /// The proxy that has passed it on.
    proxy: Option<u32>,
}

/// One pass over the lines of a log.
struct HydraReader<'a, P: FnMut(&u8) -> bool> {
    lines: Peekable<Split<'a, u8, P>>,
    log: Log<Key>,
    jobs: LogJobs,
    passed: Vec<Passed>,
    unclaimed_count: usize,
    was_rebuilt: bool,
}

/// A trace and notes, if there is PMI in the log.
pub(super) fn read(bytes: &[u8]) -> Option<(Trace, Vec<String>)> {
    let mut reader = HydraReader {
        lines: bytes.split(|byte| *byte == b'\n').peekable(),
        log: Log::new(),
        jobs: LogJobs::default(),
        passed: Vec::new(),
        unclaimed_count: 0,
        was_rebuilt: false,
    };
    while let Some(line) = reader.lines.next() {
        reader.take(line.strip_suffix(b"\r").unwrap_or(line));
    }
    let HydraReader { log, jobs, unclaimed_count, was_rebuilt, .. } = reader;
    if log.is_empty() {
        return None;
    }
    let mut notes = vec![
        "the log has no times, and ranks follow from the order of clients on their nodes".into(),
    ];
    if was_rebuilt {
        notes.push("requests are reassembled from the fields that the log shows".into());
    }
    if unclaimed_count > 0 {
        notes.push(format!("{unclaimed_count} replies without a request were left out"));
    }
    let ranks = jobs.ranks(log.keys());
    let who: Vec<_> = log.keys().iter().map(|key| (key.job, ranks.get(key).copied())).collect();
    let head = Head {
        recorder: "a log of Hydra's mpiexec -verbose".into(),
        host: jobs.host.clone(),
        jobs: jobs.facts(log.keys()),
        ..Head::default()
    };
    let records = log.into_records(&who);
    Some((Trace { head, records }, notes))
}

impl<'a, P: FnMut(&u8) -> bool> HydraReader<'a, P> {
    fn take(&mut self, line: &'a [u8]) {
        if let Some((job, proxy, text)) = proxy_line(line) {
            self.take_proxy(job, proxy, text);
        } else if let Some(text) = mpiexec_line(line) {
            self.take_mpiexec(text);
        } else if let Some(rest) = line.strip_prefix(b"Arguments being passed to proxy ") {
            let arguments = self.lines.next_if(|line| line.starts_with(b"--"));
            if let (Some((proxy, _)), Some(arguments)) = (number(rest), arguments) {
                self.jobs.learn(proxy, arguments);
            }
        } else if let Some(host) = line.strip_prefix(b"host: ")
            && self.jobs.host.is_empty()
        {
            self.jobs.host = String::from_utf8_lossy(host.trim_ascii()).into_owned();
        }
    }

    fn take_proxy(&mut self, job: Option<u32>, proxy: u32, text: &'a [u8]) {
        if let Some(rest) = text.strip_prefix(b"got pmi command (from ") {
            // 4.x: the word here, the fields in the next line.
            let Some((id, word)) =
                number(rest).and_then(|(id, rest)| Some((id, rest.strip_prefix(b"): ")?)))
            else {
                return;
            };
            let fields = self.lines.next_if(|line| !line.starts_with(b"[")).unwrap_or_default();
            let conn = self.log.conn(Key { job: job.unwrap_or(0), proxy, id });
            let version = self.log.version(conn);
            self.was_rebuilt = true;
            self.log.ask(0, conn, rebuilt(word.trim_ascii(), fields, version));
        } else if let Some(rest) = text.strip_prefix(b"got pmi command from downstream ") {
            let ids = number(rest).and_then(|(job, rest)| {
                let (id, _) = number(rest.strip_prefix(b"-")?)?;
                Some((job, id))
            });
            if let (Some((job, id)), Some(bytes)) = (ids, self.indented()) {
                let conn = self.log.conn(Key { job, proxy, id });
                self.log.ask(0, conn, bytes);
            }
        } else if text.starts_with(b"we don't understand this command, forwarding upstream") {
            // 5.x shows a spawn only here, without its client: one that waits for no other reply.
            let shown = self.lines.next_if(|line| proxy_line(line).is_some()).and_then(proxy_line);
            let Some((_, _, first)) = shown else { return };
            let bytes = self.whole(first);
            match self.log.is_free(|key| key.proxy == proxy) {
                Some(conn) => self.log.ask(0, conn, bytes),
                None => self.unclaimed_count += 1,
            }
        } else if let Some(answer) = text.strip_prefix(b"PMI response: ") {
            self.answer(job, Some(proxy), None, whole(answer));
        } else if text == b"Sending PMI command:" {
            if let Some(bytes) = self.indented() {
                self.answer(None, Some(proxy), None, bytes);
            }
        } else if let Some(rest) = text.strip_prefix(b"we don't understand the response ") {
            let end = rest.iter().position(|byte| *byte == b';').unwrap_or(rest.len());
            let word = rest.get(..end).unwrap_or_default().to_vec();
            self.pass(Passed { word, text: None, proxy: Some(proxy) });
        }
    }

    fn take_mpiexec(&mut self, text: &'a [u8]) {
        let (job, id, bytes) = if let Some(rest) = text.strip_prefix(b"PMI response to fd ") {
            let mark = b" pid ";
            let at = rest.windows(mark.len()).position(|window| window == mark);
            let rest = at.and_then(|at| rest.get(at + mark.len()..));
            let Some((id, rest)) = rest.and_then(number) else { return };
            let Some(answer) = rest.strip_prefix(b": ") else { return };
            (None, Some(id), whole(answer))
        } else if let Some(rest) = text.strip_prefix(b"Sending internal PMI command (proxy:") {
            let job = number(rest).map(|(job, _)| job);
            let Some(bytes) = self.indented() else { return };
            (job, None, bytes)
        } else {
            return;
        };
        let word = message::word(&bytes).to_vec();
        // The proxies answer these themselves once they have the values.
        if ![&b"barrier_out"[..], b"keyval_cache"].contains(&word.as_slice()) {
            self.pass(Passed { word, text: Some((job, id, bytes)), proxy: None });
        }
    }

    /// Joins both halves of a reply that was passed on, in either order.
    fn pass(&mut self, half: Passed) {
        let fits =
            |other: &Passed| other.word == half.word && other.text.is_some() != half.text.is_some();
        let Some(at) = self.passed.iter().position(fits) else {
            return self.passed.push(half);
        };
        let other = self.passed.remove(at);
        let proxy = half.proxy.or(other.proxy);
        if let Some((job, id, bytes)) = half.text.or(other.text) {
            self.answer(job, proxy, id, bytes);
        }
    }

    /// Assigns a reply to the client that has waited for it longest.
    fn answer(&mut self, job: Option<u32>, proxy: Option<u32>, id: Option<u32>, bytes: Vec<u8>) {
        let verb = message::verb(Direction::ToClient, &bytes);
        let is_meant = |key: &Key| {
            job.is_none_or(|job| key.job == job)
                && proxy.is_none_or(|proxy| key.proxy == proxy)
                && id.is_none_or(|id| key.id == id)
        };
        match self.log.waits_for(verb, is_meant) {
            Some(conn) => self.log.answer(0, conn, bytes),
            None => self.unclaimed_count += 1,
        }
    }

    /// The message in the next lines; the first of them is indented.
    fn indented(&mut self) -> Option<Vec<u8>> {
        let first = self.lines.next_if(|line| line.starts_with(INDENT))?;
        Some(self.whole(first))
    }

    /// A message that may continue in further lines.
    fn whole(&mut self, first: &[u8]) -> Vec<u8> {
        let mut bytes = whole(first.trim_ascii_start());
        while bytes.starts_with(b"mcmd=") && !text::has_ended(&bytes) {
            let Some(line) = self.lines.next_if(|line| !line.starts_with(b"[")) else { break };
            bytes.extend(line);
            bytes.push(b'\n');
        }
        bytes
    }
}

/// Job if it is named, proxy, and text of a line of a proxy.
fn proxy_line(line: &[u8]) -> Option<(Option<u32>, u32, &[u8])> {
    let (first, rest) = number(line.strip_prefix(b"[proxy:")?)?;
    let (job, proxy, rest) = match rest.strip_prefix(b":") {
        Some(rest) => {
            let (proxy, rest) = number(rest)?;
            (Some(first), proxy, rest)
        }
        None => (None, first, rest),
    };
    Some((job, proxy, behind_host(rest)?))
}

fn mpiexec_line(line: &[u8]) -> Option<&[u8]> {
    behind_host(line.strip_prefix(b"[mpiexec")?)
}

/// The text after `@HOST] `.
fn behind_host(rest: &[u8]) -> Option<&[u8]> {
    let rest = rest.strip_prefix(b"@")?;
    let end = rest.windows(2).position(|window| window == b"] ")?;
    rest.get(end + 2..)
}

/// The number at the front, and the text after it.
fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len());
    let (digits, rest) = bytes.split_at_checked(end)?;
    Some((str::from_utf8(digits).ok()?.parse().ok()?, rest))
}

/// Indentation of messages in 5.x.
const INDENT: &[u8] = b"    ";
