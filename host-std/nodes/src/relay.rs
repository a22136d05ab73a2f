//! Relay: connections of a host that does not reach the head, over the standard streams of its starter.
//!
//! ```text
//! head, or the node that runs the starter ── pipes ── starter ── standard input and output ── node server
//! ```
//!
//! Each side has a relay, which is driven by its event loop. A connection begins at the node server; there,
//! and at the head, it is a pair of sockets, of which the relay has one. A node that runs the starter has a
//! connection of its own to the head in place of the pair. Relays carry bytes only: node server and head
//! prove the key to each other, and check every record.
//!
//! Wire, after the key in one direction and after [`MARK`] in the other: frames of a kind (1 byte: 0 open,
//! 1 data, 2 close), the number of the connection (4 bytes, big-endian), the length of the data (2 bytes,
//! big-endian), and the data.

use pmi_host_os::clock;
use pmi_host_os::null_device;
use pmi_host_os::poller::{Interest, Poller, Token};
use pmi_std::Stream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{Shutdown, shutdown};
use rustix::stdio::{dup2_stdin, dup2_stdout, stderr, stdin, stdout};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::mem;
use std::os::unix::net::UnixStream;

/// Makes the next part of a connection that the other side has opened.
pub(super) type Continue<'a> = &'a mut dyn FnMut() -> io::Result<Stream>;

/// One end of the channel, with its connections.
#[derive(Debug)]
pub(super) struct Relay {
    /// Watches the channel and the connections.
    poller: Poller,
    /// `None` once it is closed.
    channel: Option<Channel>,
    links: BTreeMap<u32, RelayedLink>,
    /// Number of the next connection that this side opens.
    next: u32,
    /// True until the mark of the other side has come.
    awaits_mark: bool,
    /// Bytes of an incomplete frame.
    received: Vec<u8>,
    /// What has come in front of the mark.
    text: Vec<u8>,
    /// Frames that the output has not taken.
    due: Vec<u8>,
}

#[derive(Debug)]
struct Channel {
    input: OwnedFd,
    output: OwnedFd,
    /// What is watched of each.
    watched: [Option<Interest>; 2],
}

/// A connection, with the bytes that it has not taken.
#[derive(Debug)]
struct RelayedLink {
    stream: Stream,
    due: Vec<u8>,
    /// True if the other side has closed it.
    is_closing: bool,
    watched: Option<Interest>,
}

impl Relay {
    /// Takes over the standard input and output of this node server, in whose places others follow: what it
    /// writes from now on goes to standard error.
    pub(super) fn of_host() -> io::Result<Self> {
        let input = fcntl_dupfd_cloexec(stdin(), FIRST_DESCRIPTOR)?;
        let output = fcntl_dupfd_cloexec(stdout(), FIRST_DESCRIPTOR)?;
        dup2_stdin(null_device::open()?)?;
        dup2_stdout(stderr())?;
        let mut relay = Self::new(input, output, false)?;
        relay.due.extend_from_slice(MARK);
        relay.advance()?;
        Ok(relay)
    }

    /// A relay that reads the standard output of a starter, and writes to its standard input.
    pub(super) fn of_starter(output: OwnedFd, input: OwnedFd) -> io::Result<Self> {
        Self::new(output, input, true)
    }

    fn new(input: OwnedFd, output: OwnedFd, awaits_mark: bool) -> io::Result<Self> {
        let channel = Some(Channel { input, output, watched: [None; 2] });
        let (links, poller) = (BTreeMap::new(), Poller::new()?);
        let (received, text, due) = (Vec::new(), Vec::new(), Vec::new());
        let mut relay = Self { poller, channel, links, next: 0, awaits_mark, received, text, due };
        relay.advance()?;
        Ok(relay)
    }

    /// Opens a connection to the other side, and returns its end, which does not block.
    ///
    /// # Errors
    ///
    /// Errors of the system, and `ConnectionRefused` once the channel is closed.
    pub(super) fn open(&mut self) -> io::Result<UnixStream> {
        if self.channel.is_none() {
            return Err(ErrorKind::ConnectionRefused.into());
        }
        if self.links.len() >= LINKS_MAX {
            return Err(io::Error::other("the starter carries as many connections as it may"));
        }
        let (stream, end) = UnixStream::pair()?;
        end.set_nonblocking(true)?;
        let number = self.next;
        self.next = number.wrapping_add(1);
        self.add(number, stream.into())?;
        self.send(FrameKind::Open, number, &[]);
        self.advance()?;
        Ok(end)
    }

    /// Serves what is ready, and returns whether anything was. Each connection that the other side opens goes
    /// on by `continuing`, or is closed if that fails.
    ///
    /// # Errors
    ///
    /// Errors of the system, and `InvalidData`, with a sentence, for a frame that cannot be. The channel is
    /// closed then.
    pub(super) fn ready(&mut self, continuing: Continue<'_>) -> io::Result<bool> {
        let mut ready = Vec::new();
        let waited = self.poller.wait(Some(clock::now()), &mut ready);
        let served = waited.and_then(|()| {
            ready.iter().try_for_each(|token| match *token {
                Token::Source => self.read(continuing),
                Token::Node(number) => {
                    self.serve(number);
                    Ok(())
                }
                // It is written below.
                _ => Ok(()),
            })
        });
        if served.is_err() {
            self.close();
        }
        self.advance()?;
        served.map(|()| !ready.is_empty())
    }

    /// Moves out what has come in front of the mark since the last call, as from a login shell.
    pub(super) fn take_text(&mut self) -> Vec<u8> {
        mem::take(&mut self.text)
    }

    /// True if bytes have come that may be in front of the mark.
    pub(super) fn has_text(&self) -> bool {
        let channel = self.channel.as_ref().filter(|_| self.awaits_mark);
        channel.is_some_and(|channel| is_ready(&channel.input, PollFlags::IN))
    }

    /// True if nothing waits to be written.
    pub(super) fn is_done(&self) -> bool {
        self.due.is_empty() && self.links.values().all(|link| link.due.is_empty())
    }

    /// True once the channel is closed, and all connections have what was received for them.
    pub(super) fn is_over(&self) -> bool {
        self.channel.is_none() && self.links.is_empty()
    }

    fn add(&mut self, number: u32, stream: Stream) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        let (due, is_closing, watched) = (Vec::new(), false, None);
        self.links.insert(number, RelayedLink { stream, due, is_closing, watched });
        Ok(())
    }

    fn send(&mut self, kind: FrameKind, number: u32, data: &[u8]) {
        self.due.push(kind as u8);
        self.due.extend_from_slice(&number.to_be_bytes());
        // Data is at most one chunk.
        self.due.extend_from_slice(&u16::try_from(data.len()).unwrap_or_default().to_be_bytes());
        self.due.extend_from_slice(data);
    }

    /// Closes the channel. Connections get what was received for them, and are closed then.
    fn close(&mut self) {
        if let Some(Channel { input, output, watched: [of_input, of_output] }) = &mut self.channel {
            // Other processes may have the files open, and then closing them here does not end the watch.
            let _ = self.poller.rewatch(Token::Source, input, (of_input, None));
            let _ = self.poller.rewatch(Token::Outlet(0), output, (of_output, None));
        }
        self.channel = None;
        self.due.clear();
        for number in Vec::from_iter(self.links.keys().copied()) {
            self.handle_close(number);
        }
    }

    fn has_room(&self) -> bool {
        self.channel.is_some() && self.due.len() < BUFFERED_MAX
    }

    /// Writes what is due, and watches all files for what can be done next. A full buffer stops the other
    /// side from reading further.
    fn advance(&mut self) -> io::Result<()> {
        self.write();
        let has_room = self.has_room();
        // The answers to a side that only opens connections are bounded as well.
        let is_taken = self.due.len() < 2 * BUFFERED_MAX
            && self.links.values().all(|link| link.due.len() < BUFFERED_MAX);
        if let Some(Channel { input, output, watched: [of_input, of_output] }) = &mut self.channel {
            let reads = Interest::of(is_taken, false);
            self.poller.rewatch(Token::Source, input, (of_input, reads))?;
            let writes = Interest::of(false, !self.due.is_empty());
            self.poller.rewatch(Token::Outlet(0), output, (of_output, writes))?;
        }
        for (number, RelayedLink { stream, due, is_closing, watched }) in &mut self.links {
            let wanted = Interest::of(has_room && !*is_closing, !due.is_empty());
            self.poller.rewatch(Token::Node(*number), stream, (watched, wanted))?;
        }
        Ok(())
    }

    /// Writes frames, as far as the output takes them: it may block if more is written at once.
    fn write(&mut self) {
        let mut written = 0;
        while let Some(Channel { output, .. }) = &self.channel
            && written < self.due.len()
            && is_ready(output, PollFlags::OUT)
        {
            let rest = &self.due[written..];
            match rustix::io::write(output, &rest[..rest.len().min(AT_ONCE_BYTES)]) {
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => return self.close(),
            }
        }
        self.due.drain(..written);
    }

    fn read(&mut self, continuing: Continue<'_>) -> io::Result<()> {
        let Some(channel) = &self.channel else { return Ok(()) };
        let mut chunk = vec![0; INPUT_BYTES];
        match rustix::io::read(&channel.input, &mut chunk) {
            Ok(0) => {
                if self.awaits_mark {
                    self.text.append(&mut self.received);
                }
                self.close();
                Ok(())
            }
            Ok(len_bytes) => self.handle_input(&chunk[..len_bytes], continuing),
            Err(Errno::INTR | Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Handles bytes of the channel, cut anywhere.
    fn handle_input(&mut self, bytes: &[u8], continuing: Continue<'_>) -> io::Result<()> {
        self.received.extend_from_slice(bytes);
        if self.awaits_mark {
            self.find_mark();
        }
        if self.awaits_mark {
            return Ok(());
        }
        let received = mem::take(&mut self.received);
        let mut rest = &received[..];
        while let Some((frame, after)) = Frame::read(rest)? {
            rest = after;
            self.handle_frame(frame, continuing);
        }
        self.received = rest.to_vec();
        Ok(())
    }

    fn find_mark(&mut self) {
        let at = self.received.windows(MARK.len()).position(|window| window == MARK);
        let len_bytes = at.unwrap_or(self.received.len().saturating_sub(MARK.len() - 1));
        self.text.extend(self.received.drain(..len_bytes));
        if at.is_some() {
            self.received.drain(..MARK.len());
            self.awaits_mark = false;
        }
    }

    fn handle_frame(&mut self, Frame { kind, number, data }: Frame<'_>, continuing: Continue<'_>) {
        let has_room = self.links.len() < LINKS_MAX;
        match (kind, self.links.get_mut(&number)) {
            (FrameKind::Open, None) if has_room => {
                if continuing().and_then(|stream| self.add(number, stream)).is_err() {
                    self.send(FrameKind::Close, number, &[]);
                }
            }
            (FrameKind::Open, _) => self.send(FrameKind::Close, number, &[]),
            (FrameKind::Data, Some(link)) => {
                link.due.extend_from_slice(data);
                self.serve(number);
            }
            (FrameKind::Close, Some(_)) => self.handle_close(number),
            // The connection was closed here meanwhile.
            (FrameKind::Data | FrameKind::Close, None) => {}
        }
    }

    fn handle_close(&mut self, number: u32) {
        if let Some(link) = self.links.get_mut(&number) {
            link.is_closing = true;
        }
        self.serve(number);
    }

    /// Writes to a connection and reads from it, as far as it is ready and there is room.
    fn serve(&mut self, number: u32) {
        let Some(link) = self.links.get_mut(&number) else { return };
        link.write();
        if link.is_closing {
            if link.due.is_empty() {
                // Closing a socket with unread bytes would discard those that it has taken.
                let _ = shutdown(&link.stream, Shutdown::Write);
                self.links.remove(&number);
            }
            return;
        }
        let mut chunk = [0; CHUNK];
        while self.has_room() {
            let Some(link) = self.links.get_mut(&number) else { return };
            match link.stream.read(&mut chunk) {
                Ok(len_bytes) if len_bytes > 0 => {
                    self.send(FrameKind::Data, number, &chunk[..len_bytes]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => {
                    self.links.remove(&number);
                    self.send(FrameKind::Close, number, &[]);
                }
            }
        }
    }
}

/// It is readable if something is ready.
impl AsFd for Relay {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }
}

impl RelayedLink {
    /// Writes as much as the connection takes. One that is closed takes all: what it has sent before is read
    /// all the same.
    fn write(&mut self) {
        let mut written = 0;
        while written < self.due.len() {
            match self.stream.write(&self.due[written..]) {
                Ok(count) if count > 0 => written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => written = self.due.len(),
            }
        }
        self.due.drain(..written);
    }
}

/// True if a file can be used without blocking.
fn is_ready(file: &OwnedFd, flags: PollFlags) -> bool {
    let not_at_all = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(file, flags)], Some(&not_at_all)).is_ok_and(|count| count > 0)
}

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameKind {
    Open = 0,
    Data = 1,
    Close = 2,
}

/// Frame of the channel.
#[derive(Debug, PartialEq, Eq)]
struct Frame<'a> {
    kind: FrameKind,
    number: u32,
    data: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Reads a frame from the start of `bytes`, and returns the rest; `None` if it is incomplete.
    ///
    /// # Errors
    ///
    /// `InvalidData`, with a sentence, for another kind.
    fn read(bytes: &'a [u8]) -> io::Result<Option<(Self, &'a [u8])>> {
        let kind = match bytes.first() {
            None => return Ok(None),
            Some(0) => FrameKind::Open,
            Some(1) => FrameKind::Data,
            Some(2) => FrameKind::Close,
            Some(_) => return Err(io::Error::new(ErrorKind::InvalidData, CHANGED)),
        };
        let Some((&[_, a, b, c, d, high, low], rest)) = bytes.split_first_chunk() else {
            return Ok(None);
        };
        let len_bytes = usize::from(u16::from_be_bytes([high, low]));
        let Some((data, rest)) = rest.split_at_checked(len_bytes) else { return Ok(None) };
        Ok(Some((Self { kind, number: u32::from_be_bytes([a, b, c, d]), data }, rest)))
    }
}

/// Bytes that begin what the relay of a host writes, behind what a login shell may write.
const MARK: &[u8] = b"\xa8pmi-relay\x01\n";

/// Sentence about bytes that are no frame.
const CHANGED: &str = "the connections over the starter are lost: something else was written between them; \
                       the starter has to pass standard input and output on as they are, without a \
                       terminal, as 'kubectl exec -i' does";

/// Least number of a descriptor for the channel: it must not be one of a standard stream.
const FIRST_DESCRIPTOR: i32 = 3;

/// Most bytes of one read of the channel: a full pipe.
const INPUT_BYTES: usize = 64 * 1024;

/// Most bytes of one read of a connection, which one frame carries.
const CHUNK: usize = 16 * 1024;

/// Bytes that a pipe takes without blocking if it is writable at all (`PIPE_BUF`).
const AT_ONCE_BYTES: usize = 4096;

/// Bytes that wait for one connection, or the channel, before no more are read for it.
const BUFFERED_MAX: usize = 256 * 1024;

/// Most connections over one starter: of its node, and of those that this node starts.
pub(super) const LINKS_MAX: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn frame_is_read_whole_and_another_kind_is_an_error() {
        let bytes = [1, 0, 0, 1, 2, 0, 3, b'a', b'b', b'c', 2];
        let whole = Frame { kind: FrameKind::Data, number: 258, data: b"abc" };
        assert_eq!(Frame::read(&bytes).unwrap(), Some((whole, &bytes[10..])));
        for end in 0..10 {
            assert_eq!(Frame::read(&bytes[..end]).unwrap(), None);
        }
        assert_eq!(Frame::read(&[3]).unwrap_err().kind(), ErrorKind::InvalidData);
    }

    /// A relay of a starter, with the host's ends of its pipes.
    fn of_starter() -> (Relay, OwnedFd, OwnedFd) {
        let ((output, to_head), (from_head, input)) = (io::pipe().unwrap(), io::pipe().unwrap());
        let relay = Relay::of_starter(output.into(), input.into()).unwrap();
        (relay, from_head.into(), to_head.into())
    }

    fn nowhere() -> io::Result<Stream> {
        Err(ErrorKind::ConnectionRefused.into())
    }

    fn frame(kind: FrameKind, number: u8, data: &[u8]) -> Vec<u8> {
        let [high, low] = u16::try_from(data.len()).unwrap().to_be_bytes();
        [&[kind as u8, 0, 0, 0, number, high, low], data].concat()
    }

    #[test]
    fn mark_is_found_behind_the_words_of_a_shell_wherever_they_are_cut() {
        // The last byte begins a frame.
        let text = [b"\xa8\n", MARK, &[2]].concat();
        for size in 1..=text.len() {
            let (mut relay, _input, _output) = of_starter();
            for part in text.chunks(size) {
                relay.handle_input(part, &mut nowhere).unwrap();
            }
            assert!(!relay.awaits_mark && relay.received == [2], "{size}");
            assert_eq!(relay.take_text(), b"\xa8\n");
        }
        let (mut relay, _input, output) = of_starter();
        rustix::io::write(&output, &MARK[1..]).unwrap();
        assert!(relay.ready(&mut nowhere).unwrap() && relay.awaits_mark);
        drop(output);
        assert!(relay.has_text() && relay.ready(&mut nowhere).unwrap());
        assert_eq!((&relay.take_text()[..], relay.is_over()), (&MARK[1..], true));
    }

    #[test]
    fn connection_gets_what_was_received_before_the_end_of_the_channel() {
        let (mut relay, _input, output) = of_starter();
        let mut ends = Vec::new();
        let mut accept = || {
            let (stream, end) = UnixStream::pair()?;
            ends.push(end);
            Ok(stream.into())
        };
        relay.handle_input(&[MARK, &frame(FrameKind::Open, 0, &[])].concat(), &mut accept).unwrap();
        // More than the system takes at once.
        let chunk = frame(FrameKind::Data, 0, &[7; CHUNK]);
        (0..100).for_each(|_| relay.handle_input(&chunk, &mut nowhere).unwrap());
        let last = frame(FrameKind::Data, 0, b"last words");
        relay.handle_input(&last, &mut nowhere).unwrap();
        drop(output);
        let mut end = ends.pop().unwrap();
        let reader = thread::spawn(move || {
            let mut received = Vec::new();
            end.read_to_end(&mut received).map(|_| received)
        });
        while !relay.is_over() {
            relay.ready(&mut nowhere).unwrap();
        }
        let received = reader.join().unwrap().unwrap();
        assert_eq!(received.len(), 100 * CHUNK + 10);
        assert!(received.ends_with(b"last words"));
    }

    #[test]
    fn last_words_of_a_connection_that_takes_nothing_more_are_passed_on() {
        let (mut relay, input, _output) = of_starter();
        let (stream, mut end) = UnixStream::pair().unwrap();
        let mut stream = Some(stream);
        let mut accept = || Ok(stream.take().unwrap().into());
        relay.handle_input(&[MARK, &frame(FrameKind::Open, 0, &[])].concat(), &mut accept).unwrap();
        end.write_all(b"last words").unwrap();
        drop(end);
        relay.handle_input(&frame(FrameKind::Data, 0, b"late"), &mut nowhere).unwrap();
        relay.advance().unwrap();
        let expected =
            [frame(FrameKind::Data, 0, b"last words"), frame(FrameKind::Close, 0, &[])].concat();
        let mut received = [0; 64];
        let len_bytes = rustix::io::read(&input, &mut received).unwrap();
        assert_eq!(received[..len_bytes], expected);
    }

    #[test]
    fn bytes_that_are_no_frame_close_the_channel_and_its_connections() {
        let (mut relay, input, output) = of_starter();
        let (stream, mut end) = UnixStream::pair().unwrap();
        let bytes = [MARK, &frame(FrameKind::Open, 0, &[]), b"welcome"].concat();
        rustix::io::write(&output, &bytes).unwrap();
        let mut stream = Some(stream);
        let error = relay.ready(&mut || Ok(stream.take().unwrap().into())).unwrap_err();
        assert_eq!((error.kind(), relay.is_over()), (ErrorKind::InvalidData, true));
        assert_eq!(end.read(&mut [0; 1]).unwrap(), 0);
        assert_eq!(rustix::io::read(&input, &mut [0; 1]), Ok(0));
    }

    #[test]
    fn connections_beyond_the_maximum_are_closed_and_the_others_stay() {
        let (mut relay, _input, _output) = of_starter();
        let mut accept = || Ok(UnixStream::pair()?.0.into());
        relay.handle_input(MARK, &mut accept).unwrap();
        for number in 0..=LINKS_MAX {
            let number = u32::try_from(number).unwrap().to_be_bytes();
            let frame = [&[FrameKind::Open as u8][..], &number, &[0, 0]].concat();
            relay.handle_input(&frame, &mut accept).unwrap();
        }
        assert_eq!(relay.links.len(), LINKS_MAX);
        let number = u32::try_from(LINKS_MAX).unwrap().to_be_bytes();
        assert_eq!(relay.due, [&[FrameKind::Close as u8][..], &number, &[0, 0]].concat());
        // The side that opens them does not open more either.
        assert!(relay.open().is_err());
    }

    /// Serves a relay until it is over, or `is_over` says so.
    fn drive(relay: &mut Relay, continuing: Continue<'_>, is_over: impl Fn() -> bool) {
        let soon = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        while !relay.is_over() && !is_over() {
            poll(&mut [PollFd::new(relay, PollFlags::IN)], Some(&soon)).unwrap();
            relay.ready(continuing).unwrap();
        }
    }

    #[test]
    fn connections_are_carried_in_both_directions_until_the_channel_is_closed() {
        let ((from_host, to_head), (from_head, to_host)) =
            (io::pipe().unwrap(), io::pipe().unwrap());
        let (ends, opened) = mpsc::channel();
        let (stop, stopped) = mpsc::channel::<()>();
        let host = thread::spawn(move || {
            let mut relay = Relay::new(from_head.into(), to_head.into(), false).unwrap();
            relay.due.extend_from_slice(MARK);
            (0..4).for_each(|_| ends.send(relay.open().unwrap()).unwrap());
            drive(&mut relay, &mut nowhere, || stopped.try_recv().is_ok());
        });
        let head = thread::spawn(move || {
            let mut relay = Relay::of_starter(from_host.into(), to_host.into()).unwrap();
            let mut count = 0;
            let mut accept = || {
                let (stream, mut end) = UnixStream::pair()?;
                count += 1;
                // It returns what it reads; the last one is closed at once.
                if count < 4 {
                    thread::spawn(move || io::copy(&mut end.try_clone().unwrap(), &mut end));
                }
                Ok(stream.into())
            };
            drive(&mut relay, &mut accept, || false);
        });
        let data: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 253) as u8).collect();
        let mut clients = Vec::new();
        for _ in 0..3 {
            let (mut client, data) = (opened.recv().unwrap(), data.clone());
            client.set_nonblocking(false).unwrap();
            clients.push(thread::spawn(move || {
                let mut sender = client.try_clone().unwrap();
                let sent = data.clone();
                let sending = thread::spawn(move || sender.write_all(&sent).unwrap());
                let mut back = vec![0; data.len()];
                client.read_exact(&mut back).unwrap();
                sending.join().unwrap();
                assert!(back == data, "the bytes differ");
            }));
        }
        clients.into_iter().for_each(|client| client.join().unwrap());
        let mut last = opened.recv().unwrap();
        last.set_nonblocking(false).unwrap();
        // The other end has closed it.
        assert_eq!(last.read(&mut [0; 1]).unwrap_or(0), 0);
        stop.send(()).unwrap();
        host.join().unwrap();
        head.join().unwrap();
    }
}
