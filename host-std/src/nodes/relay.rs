//! Relay: connections of a node server to the head, over the standard input and output of its starter, for a
//! host that does not reach the head.
//!
//! ```text
//! head <── TCP ── relay of the starter ── its stdin and stdout ── relay of the host <── TCP ── node server
//! ```
//!
//! The relay of the host accepts connections on loopback, and that of the starter makes one to the head for
//! each. Both carry bytes only: node server and head prove the key to each other, and check every record.
//!
//! Wire, after the key in one direction and after [`MARK`] in the other: frames of a kind (1 byte: 0 open,
//! 1 data, 2 close), the number of the connection (4 bytes, big-endian), the length of the data (2 bytes,
//! big-endian), and the data.

use super::addresses::own_address;
use super::key::RunKey;
use super::node::OVER_RELAY;
use super::starter::{NODE, RELAY};
use crate::admission::gate::{Arrival, TcpGate};
use crate::admission::{Admission, Policy};
use crate::launch::process_handle::ProcessHandle;
use clap::{Arg, ArgAction, Command};
use pmi_host_base::exit::{FAILED, complain, refuse};
use pmi_host_base::system_file;
use pmi_host_base::usage::UsageError;
use pmi_std::Stream;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::Pid;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{self, Child, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

/// Defines the command of the relay of a starter, which the head runs.
pub(crate) fn define() -> Command {
    let to = Arg::new(TO).long(TO).value_name("ADDRESS:PORT").required(true);
    let program = Arg::new(PROGRAM).long(PROGRAM).action(ArgAction::SetTrue);
    let words = Arg::new(WORDS).num_args(1..).last(true).required(true);
    Command::new(RELAY)
        .about("Run a starter, and carry the connections of its host to the launcher")
        .hide(true)
        .arg(to.value_parser(clap::value_parser!(SocketAddr)))
        .arg(program)
        .arg(words.value_parser(clap::value_parser!(OsString)))
}

/// Runs a starter, with the key of standard input on its own, until it ends. The exit code is its own.
pub(crate) fn run(words: Vec<OsString>) -> ExitCode {
    let matches = match define().no_binary_name(true).try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) => {
            let why = error.to_string().lines().next().unwrap_or_default().to_owned();
            return refuse(&UsageError::Value { given: RELAY.to_owned(), why });
        }
    };
    let starter: Vec<&OsString> = matches.get_many(WORDS).into_iter().flatten().collect();
    let (Some((program, words)), Some(head)) = (starter.split_first(), matches.get_one(TO)) else {
        return ExitCode::from(FAILED);
    };
    let is_sent = matches.get_flag(PROGRAM);
    match relay_starter(process::Command::new(program).args(words), *head, is_sent) {
        Ok(status) => ExitCode::from(code(status)),
        Err(error) => {
            complain(&format_args!("'{}' cannot be executed ({error})", program.display()), FAILED)
        }
    }
}

/// `is_sent` tells that this program follows the key.
fn relay_starter(
    starter: &mut process::Command,
    head: SocketAddr,
    is_sent: bool,
) -> io::Result<ExitStatus> {
    let key = RunKey::read(&mut io::stdin().lock())?;
    // The path may hold another file by now.
    let program = if is_sent { system_file::read("/proc/self/exe")? } else { Vec::new() };
    let mut child = starter.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (Some(mut input), Some(mut output)) = (child.stdin.take(), child.stdout.take()) else {
        return child.wait();
    };
    // A starter that has ended is reported by its status, and so is one that runs no relay.
    if input.write_all(key.line().as_bytes()).and_then(|()| input.write_all(&program)).is_ok()
        && let Ok(Some(rest)) = find_mark(&mut output)
    {
        let (input, output) = (File::from(OwnedFd::from(input)), OwnedFd::from(output).into());
        let mut relay = Relay::new((output, input), RelaySide::Head(head));
        let _ = relay.handle_input(&rest).and_then(|()| relay.run(None));
    }
    child.wait()
}

/// Reads up to the mark of the relay, and returns what was read behind it; `None` if it does not come. What a
/// login shell writes before it is passed on.
fn find_mark(output: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let len_bytes = match output.read(&mut chunk) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read?,
        };
        bytes.extend_from_slice(&chunk[..len_bytes]);
        if let Some(at) = bytes.windows(MARK.len()).position(|window| window == MARK) {
            io::stderr().write_all(&bytes[..at])?;
            return Ok(Some(bytes.split_off(at + MARK.len())));
        }
        let kept = if len_bytes == 0 { 0 } else { bytes.len().min(MARK.len() - 1) };
        io::stderr().write_all(&bytes[..bytes.len() - kept])?;
        bytes.drain(..bytes.len() - kept);
        if len_bytes == 0 {
            return Ok(None);
        }
    }
}

/// True if a connection to one of the addresses of the head can be made.
pub(super) fn reaches(head: &[SocketAddr]) -> bool {
    head.iter().any(|address| TcpStream::connect_timeout(address, REACHED_WITHIN).is_ok())
}

/// Runs a node server with `options` on this host, and carries its connections to the head, one of whose
/// addresses is `head`. The exit code is that of the node server.
pub(super) fn serve_host(
    key: &RunKey,
    head: SocketAddr,
    options: &[String],
) -> io::Result<ExitCode> {
    let listener = TcpGate::open((Ipv4Addr::LOCALHOST, 0).into(), Policy::Owner)?;
    let mut node = process::Command::new(std::env::current_exe()?);
    let to = listener.address.to_string();
    node.args([NODE, "--to", &to, &format!("--{OVER_RELAY}")]).args(options);
    // Other nodes connect there.
    if let Some(address) = own_address(head) {
        node.args(["--address", &address.to_string()]);
    }
    let messages = rustix::io::dup(rustix::stdio::stderr())?;
    let mut node = node.stdin(Stdio::piped()).stdout(messages).spawn()?;
    if let Some(mut input) = node.stdin.take() {
        input.write_all(key.line().as_bytes())?;
    }
    let relayed = relay_host(&node, listener);
    // Without its connections, the node server ends.
    let status = node.wait()?;
    relayed.map(|()| ExitCode::from(code(status)))
}

fn relay_host(node: &Child, listener: TcpGate) -> io::Result<()> {
    let pid = i32::try_from(node.id()).ok().and_then(Pid::from_raw).ok_or(ErrorKind::NotFound)?;
    let handle = ProcessHandle::of_child(pid)?;
    let input = File::from(rustix::io::dup(rustix::stdio::stdin())?);
    let mut output = File::from(rustix::io::dup(rustix::stdio::stdout())?);
    output.write_all(MARK)?;
    Relay::new((input, output), RelaySide::Host(listener)).run(Some(handle.as_fd()))
}

/// Exit code of a process that passes on that of another.
fn code(status: ExitStatus) -> u8 {
    let signal = status.signal().map_or(1, |signal| 128 + signal);
    u8::try_from(status.code().unwrap_or(signal)).unwrap_or(FAILED)
}

/// One end of the channel, with its connections.
#[derive(Debug)]
struct Relay {
    input: File,
    output: File,
    side: RelaySide,
    links: BTreeMap<u32, RelayedLink>,
    /// Number of the next connection, at the host.
    next: u32,
    /// Bytes of an incomplete frame.
    received: Vec<u8>,
    /// Frames that the output has not taken.
    due: Vec<u8>,
}

#[derive(Debug)]
enum RelaySide {
    /// Connects to this address.
    Head(SocketAddr),
    /// Accepts connections of this user.
    Host(TcpGate),
}

/// A connection, with the bytes that it has not taken.
#[derive(Debug)]
struct RelayedLink {
    stream: TcpStream,
    due: Vec<u8>,
    /// True if the other end has closed it.
    is_closing: bool,
}

/// File that is ready.
#[derive(Clone, Copy, Debug)]
enum ReadyFile {
    Input,
    Output,
    Listener,
    End,
    Link(u32, PollFlags),
}

impl Relay {
    fn new((input, output): (File, File), side: RelaySide) -> Self {
        let (links, received, due) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { input, output, side, links, next: 0, received, due }
    }

    /// Carries bytes until the channel is closed, or `end` is readable and all was written. Then connections
    /// get what was received for them.
    ///
    /// # Errors
    ///
    /// Errors of the system, and `InvalidData` for a frame that cannot be.
    fn run(&mut self, end: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let carried = self.carry(end);
        self.hand_over();
        carried
    }

    /// Writes what connections have not taken, and closes them.
    fn hand_over(&mut self) {
        while let Some((_, RelayedLink { mut stream, due, .. })) = self.links.pop_first() {
            if due.is_empty() {
                continue;
            }
            // One that takes nothing, or is closed, would not have taken it before either.
            let _ = stream
                .set_nonblocking(false)
                .and_then(|()| stream.set_write_timeout(Some(TAKEN_WITHIN)))
                .and_then(|()| stream.write_all(&due))
                .and_then(|()| stream.shutdown(Shutdown::Write));
        }
    }

    fn carry(&mut self, end: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut is_over = false;
        while !is_over || !self.due.is_empty() {
            for file in self.wait(end.filter(|_| !is_over))? {
                match file {
                    ReadyFile::Input => {
                        let mut chunk = vec![0; CHUNK];
                        let len_bytes = self.input.read(&mut chunk)?;
                        if len_bytes == 0 {
                            return Ok(());
                        }
                        self.handle_input(&chunk[..len_bytes])?;
                    }
                    ReadyFile::Output => {
                        let len_bytes = self.due.len().min(AT_ONCE_BYTES);
                        match self.output.write(&self.due[..len_bytes]) {
                            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
                            written => drop(self.due.drain(..written?)),
                        }
                    }
                    ReadyFile::Listener => self.accept()?,
                    ReadyFile::End => is_over = true,
                    ReadyFile::Link(number, flags) => self.serve(number, flags),
                }
            }
        }
        Ok(())
    }

    /// Waits for files that can be served. A full buffer stops the other side from reading further.
    fn wait(&self, end: Option<BorrowedFd<'_>>) -> io::Result<Vec<ReadyFile>> {
        let (mut files, mut polled) = (Vec::new(), Vec::new());
        let has_room = self.due.len() < BUFFERED_MAX;
        if self.links.values().all(|link| link.due.len() < BUFFERED_MAX) {
            files.push(ReadyFile::Input);
            polled.push(PollFd::new(&self.input, PollFlags::IN));
        }
        if !self.due.is_empty() {
            files.push(ReadyFile::Output);
            polled.push(PollFd::new(&self.output, PollFlags::OUT));
        }
        if let RelaySide::Host(listener) = &self.side
            && has_room
            && self.links.len() < LINKS_MAX
        {
            files.push(ReadyFile::Listener);
            polled.push(PollFd::new(listener, PollFlags::IN));
        }
        for (number, link) in &self.links {
            let mut wanted = PollFlags::empty();
            wanted.set(PollFlags::IN, has_room && !link.is_closing);
            wanted.set(PollFlags::OUT, !link.due.is_empty());
            if !wanted.is_empty() {
                files.push(ReadyFile::Link(*number, wanted));
                polled.push(PollFd::new(&link.stream, wanted));
            }
        }
        if let Some(end) = &end {
            files.push(ReadyFile::End);
            polled.push(PollFd::new(end, PollFlags::IN));
        }
        match poll(&mut polled, None) {
            Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            result => result?,
        };
        let ready = files.into_iter().zip(&polled).filter(|(_, one)| !one.revents().is_empty());
        Ok(ready
            .map(|(file, one)| match file {
                ReadyFile::Link(number, _) => ReadyFile::Link(number, one.revents()),
                file => file,
            })
            .collect())
    }

    fn accept(&mut self) -> io::Result<()> {
        let RelaySide::Host(listener) = &self.side else { return Ok(()) };
        // Those of other users are closed at once, and take no room.
        let Ok(Some(Arrival { stream: Stream::Tcp(stream), admission, .. })) = listener.accept()
        else {
            return Ok(());
        };
        if !matches!(admission, Admission::Admitted(_)) {
            return Ok(());
        }
        let number = self.next;
        self.next = number.wrapping_add(1);
        self.add(number, stream)?;
        self.send(FrameKind::Open, number, &[]);
        Ok(())
    }

    fn add(&mut self, number: u32, stream: TcpStream) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        self.links.insert(number, RelayedLink { stream, due: Vec::new(), is_closing: false });
        Ok(())
    }

    fn send(&mut self, kind: FrameKind, number: u32, data: &[u8]) {
        self.due.push(kind as u8);
        self.due.extend_from_slice(&number.to_be_bytes());
        // Data is at most one chunk.
        self.due.extend_from_slice(&u16::try_from(data.len()).unwrap_or_default().to_be_bytes());
        self.due.extend_from_slice(data);
    }

    /// Handles bytes of the channel, cut anywhere.
    fn handle_input(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.received.extend_from_slice(bytes);
        let received = std::mem::take(&mut self.received);
        let mut rest = &received[..];
        while let Some((frame, after)) = Frame::read(rest)? {
            rest = after;
            self.handle_frame(frame);
        }
        self.received = rest.to_vec();
        Ok(())
    }

    fn handle_frame(&mut self, Frame { kind, number, data }: Frame<'_>) {
        let has_room = self.links.len() < LINKS_MAX;
        match (kind, self.links.get_mut(&number), &self.side) {
            (FrameKind::Open, None, RelaySide::Head(head)) if has_room => {
                let connected = TcpStream::connect(head);
                if connected.and_then(|stream| self.add(number, stream)).is_err() {
                    self.send(FrameKind::Close, number, &[]);
                }
            }
            (FrameKind::Open, ..) => self.send(FrameKind::Close, number, &[]),
            (FrameKind::Data, Some(link), _) => {
                link.due.extend_from_slice(data);
                self.serve(number, PollFlags::OUT);
            }
            (FrameKind::Close, Some(link), _) => {
                link.is_closing = true;
                self.serve(number, PollFlags::OUT);
            }
            // The connection was closed here meanwhile.
            (FrameKind::Data | FrameKind::Close, None, _) => {}
        }
    }

    /// Reads from a connection and writes to it, as far as it is ready.
    fn serve(&mut self, number: u32, flags: PollFlags) {
        let Some(link) = self.links.get_mut(&number) else { return };
        let mut is_closed = false;
        while !link.due.is_empty() && flags.contains(PollFlags::OUT) && !is_closed {
            match link.stream.write(&link.due) {
                Ok(count) if count > 0 => drop(link.due.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => is_closed = true,
            }
        }
        if link.is_closing && (link.due.is_empty() || is_closed) {
            // Closing a socket with unread bytes would discard those that it has taken.
            let _ = link.stream.shutdown(Shutdown::Write);
            self.links.remove(&number);
            return;
        }
        let mut chunk = [0; CHUNK];
        let mut len_bytes = 0;
        if !is_closed && flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            match link.stream.read(&mut chunk) {
                Ok(count) => (len_bytes, is_closed) = (count, count == 0),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => is_closed = true,
            }
        }
        if len_bytes > 0 {
            self.send(FrameKind::Data, number, &chunk[..len_bytes]);
        }
        if is_closed {
            self.links.remove(&number);
            self.send(FrameKind::Close, number, &[]);
        }
    }
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
    /// `InvalidData` for another kind.
    fn read(bytes: &'a [u8]) -> io::Result<Option<(Self, &'a [u8])>> {
        let kind = match bytes.first() {
            None => return Ok(None),
            Some(0) => FrameKind::Open,
            Some(1) => FrameKind::Data,
            Some(2) => FrameKind::Close,
            Some(_) => return Err(ErrorKind::InvalidData.into()),
        };
        let Some((&[_, a, b, c, d, high, low], rest)) = bytes.split_first_chunk() else {
            return Ok(None);
        };
        let len_bytes = usize::from(u16::from_be_bytes([high, low]));
        let Some((data, rest)) = rest.split_at_checked(len_bytes) else { return Ok(None) };
        Ok(Some((Self { kind, number: u32::from_be_bytes([a, b, c, d]), data }, rest)))
    }
}

const TO: &str = "to";
const WORDS: &str = "words";
const PROGRAM: &str = "send-program";

/// Bytes that begin the output of the relay of a host, behind what a login shell may write.
const MARK: &[u8] = b"\xa8pmi-relay\x01\n";

/// Most bytes of one read, which one frame carries.
const CHUNK: usize = 16 * 1024;

/// Bytes that a pipe takes without blocking if it is writable at all (`PIPE_BUF`).
const AT_ONCE_BYTES: usize = 4096;

/// Bytes that wait for one connection, or the channel, before no more are read for it.
const BUFFERED_MAX: usize = 256 * 1024;

/// Most connections of one host: that of the tree, one that replaces it, and one for starts of other nodes.
const LINKS_MAX: usize = 16;

/// Longest time for which a connection may take nothing of what was received for it before the end.
const TAKEN_WITHIN: Duration = Duration::from_secs(5);

/// Time in which a host reaches an address of the head that it can reach.
const REACHED_WITHIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
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

    #[test]
    fn mark_is_found_behind_the_words_of_a_shell_wherever_they_are_cut() {
        struct Cut<'a>(&'a [u8], usize);
        impl Read for Cut<'_> {
            fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
                let count = self.0.len().min(self.1);
                to[..count].copy_from_slice(&self.0[..count]);
                self.0 = &self.0[count..];
                Ok(count)
            }
        }
        let text = [b"\xa8\n", MARK, b"x"].concat();
        for size in 1..=text.len() {
            let mut input = Cut(&text, size);
            let mut found = find_mark(&mut input).unwrap().unwrap();
            found.extend_from_slice(input.0);
            assert_eq!(found, b"x");
        }
        assert_eq!(find_mark(&mut Cut(&MARK[1..], 3)).unwrap(), None);
    }

    #[test]
    fn connection_gets_what_was_received_before_the_end_of_the_channel() {
        let ((input, _), (_, output)) = (io::pipe().unwrap(), io::pipe().unwrap());
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let head = server.local_addr().unwrap();
        let files = (File::from(OwnedFd::from(input)), File::from(OwnedFd::from(output)));
        let mut relay = Relay::new(files, RelaySide::Head(head));
        relay.add(0, TcpStream::connect(head).unwrap()).unwrap();
        let mut accepted = server.accept().unwrap().0;
        relay.links.get_mut(&0).unwrap().due = b"last words".to_vec();
        relay.run(None).unwrap();
        let mut received = Vec::new();
        accepted.read_to_end(&mut received).unwrap();
        assert_eq!(received, b"last words");
    }

    #[test]
    fn connections_of_another_user_are_closed_and_take_no_room() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can run a program as another user");
            return;
        }
        let listener = TcpGate::open("127.0.0.1:0".parse().unwrap(), Policy::Owner).unwrap();
        let door = listener.address;
        let (input, output) = (io::pipe().unwrap(), io::pipe().unwrap());
        let files = (File::from(OwnedFd::from(input.0)), File::from(OwnedFd::from(output.1)));
        let relay = thread::spawn(move || Relay::new(files, RelaySide::Host(listener)).run(None));
        // More than a relay carries, held open by their user.
        let script = format!(
            "for at in $(seq {}); do exec {{fd}}<>/dev/tcp/127.0.0.1/{}; done; echo held; exec sleep 60",
            2 * LINKS_MAX,
            door.port()
        );
        let mut flood = process::Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-c", &script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        flood.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
        let mut ours = TcpStream::connect(door).unwrap();
        ours.write_all(b"ours").unwrap();
        let (mut carried, mut output) = ([0; 2 * 7 + 4], output.0);
        output.read_exact(&mut carried).unwrap();
        // The only connection was opened, and its bytes came.
        assert_eq!(&carried, b"\x00\0\0\0\0\0\0\x01\0\0\0\0\0\x04ours");
        flood.kill().unwrap();
        flood.wait().unwrap();
        drop(input.1);
        relay.join().unwrap().unwrap();
    }

    /// Two relays with pipes between them, and a server behind that of the head.
    #[test]
    fn connections_are_carried_in_both_directions_until_the_channel_is_closed() {
        let (to_head, from_host) = (io::pipe().unwrap(), io::pipe().unwrap());
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let head = server.local_addr().unwrap();
        let listener = TcpGate::open("127.0.0.1:0".parse().unwrap(), Policy::Owner).unwrap();
        let door = listener.address;
        let file = |end: OwnedFd| File::from(end);
        let of_host = (file(from_host.0.into()), file(to_head.1.into()));
        let of_head = (file(to_head.0.into()), file(from_host.1.into()));
        let host = thread::spawn(move || Relay::new(of_host, RelaySide::Host(listener)).run(None));
        let end = io::pipe().unwrap();
        let relay = thread::spawn(move || {
            Relay::new(of_head, RelaySide::Head(head)).run(Some(end.0.as_fd()))
        });
        let data: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 253) as u8).collect();
        let mut clients = Vec::new();
        for _ in 0..3 {
            let (mut client, data) = (TcpStream::connect(door).unwrap(), data.clone());
            let mut accepted = server.accept().unwrap().0;
            clients.push(thread::spawn(move || {
                let mut sender = client.try_clone().unwrap();
                let sent = data.clone();
                let sending = thread::spawn(move || sender.write_all(&sent).unwrap());
                let mut back = vec![0; data.len()];
                client.read_exact(&mut back).unwrap();
                sending.join().unwrap();
                assert!(back == data, "the bytes differ");
            }));
            // It returns what it reads.
            thread::spawn(move || io::copy(&mut accepted.try_clone().unwrap(), &mut accepted));
        }
        clients.into_iter().for_each(|client| client.join().unwrap());
        let mut last = TcpStream::connect(door).unwrap();
        drop(server.accept().unwrap());
        // The other end has closed it.
        assert_eq!(last.read(&mut [0; 1]).unwrap_or(0), 0);
        drop(end.1);
        relay.join().unwrap().unwrap();
        host.join().unwrap().unwrap();
    }
}
