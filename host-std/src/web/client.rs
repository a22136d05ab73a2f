//! Server side of one web socket, from the first byte to the last.

use super::link::{WebInput, WebLink};
use super::upgrade::{Purpose, Upgrade};
use pmi_core::auth::Challenge;
use pmi_host_os::clock;
use pmi_host_os::poller::{Interest, Poller, Token};
use pmi_std::Stream;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tungstenite::handshake::server::ServerHandshake;
use tungstenite::handshake::{HandshakeError, MidHandshake};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Message, accept_hdr_with_config};

/// One web socket connection.
#[derive(Debug)]
pub(super) struct WebClient {
    pub(super) from: SocketAddr,
    /// Time at which it is closed unless it progresses.
    pub(super) deadline: Option<Instant>,
    number: u32,
    stage: WebClientState,
    challenge: Option<Challenge>,
    /// Purpose of the connection, or the cause of its rejection, once that is decided.
    verdict: Rc<RefCell<Option<Result<Purpose, String>>>>,
    watched: Option<Interest>,
    pair_watched: Option<Interest>,
}

/// Result of one turn.
#[derive(Debug)]
pub(super) enum Turn {
    /// Nothing is left to do for now.
    Waits,
    /// The peer is gone.
    Over,
    /// The connection was rejected.
    Refused { why: String },
    /// The peer is to be a rank, and uses this stream.
    Rank(Stream),
    /// The peer may observe the run.
    Watches,
}

/// State of a connection.
enum WebClientState {
    /// Nothing was received yet.
    Fresh(TcpStream, Upgrade),
    /// The opening handshake is under way.
    Opening(MidHandshake<ServerHandshake<TcpStream, Upgrade>>),
    /// The peer must prove knowledge of the secret.
    Proving(WebLink),
    /// The peer is a rank.
    Rank {
        line: WebLink,
        pair: UnixStream,
        inward: Vec<u8>,
    },
    /// The peer observes the run.
    Watching(WebLink, Tape),
    /// A close message was sent.
    Leaving(WebLink),
    Over,
}

/// Records that were not sent to an observer yet.
#[derive(Debug, Default)]
struct Tape {
    bytes: VecDeque<u8>,
    /// Maximum size of the backlog, in bytes.
    limit_bytes: usize,
    has_begun: bool,
    ends: bool,
}

impl WebClient {
    pub(super) fn new(
        (stream, from): (TcpStream, SocketAddr),
        hello: Upgrade,
        challenge: Option<Challenge>,
        number: u32,
        poller: &Poller,
    ) -> io::Result<Self> {
        poller.add(Token::Web(number), &stream, Interest::Read)?;
        Ok(Self {
            from,
            deadline: Some(clock::now() + IDENTIFY_WITHIN),
            number,
            verdict: Rc::clone(&hello.verdict),
            stage: WebClientState::Fresh(stream, hello),
            challenge,
            watched: Some(Interest::Read),
            pair_watched: None,
        })
    }

    /// Progresses as far as possible without blocking.
    pub(super) fn turn(&mut self, poller: &Poller) -> io::Result<Turn> {
        let turn = match std::mem::replace(&mut self.stage, WebClientState::Over) {
            WebClientState::Fresh(stream, hello) => {
                let config = WebSocketConfig::default()
                    .read_buffer_size(PIECE_BYTES)
                    .write_buffer_size(0)
                    .max_message_size(Some(MESSAGE_BYTES_MAX))
                    .max_frame_size(Some(MESSAGE_BYTES_MAX));
                self.opened(accept_hdr_with_config(stream, hello, Some(config)))
            }
            WebClientState::Opening(opening) => self.opened(opening.handshake()),
            WebClientState::Proving(line) => self.receive_proof(line),
            WebClientState::Rank { line, pair, inward } => self.carry(line, pair, inward),
            WebClientState::Watching(line, tape) => self.play(line, tape),
            WebClientState::Leaving(line) => self.leave(line),
            WebClientState::Over => Turn::Over,
        };
        self.rewatch(poller)?;
        Ok(turn)
    }

    /// True if the peer receives records.
    pub(super) const fn watches(&self) -> bool {
        matches!(&self.stage, WebClientState::Watching(_, tape) if tape.has_begun)
    }

    /// Begins with the trace so far, or continues with its next piece.
    pub(super) fn begin(&mut self, trace: &[u8]) {
        if let WebClientState::Watching(_, tape) = &mut self.stage {
            tape.bytes.extend(trace);
            tape.limit_bytes = tape.bytes.len() + BACKLOG_BYTES_MAX;
            tape.has_begun = true;
        }
    }

    /// Adds further records. An observer with too large a backlog is disconnected, with the reason in the
    /// close message; false then.
    pub(super) fn feed(&mut self, records: &[u8]) -> bool {
        match std::mem::replace(&mut self.stage, WebClientState::Over) {
            WebClientState::Watching(mut line, tape) if tape.bytes.len() > tape.limit_bytes => {
                line.close(CloseCode::Again, TOO_SLOW);
                self.deadline = Some(clock::now() + IDENTIFY_WITHIN);
                self.stage = WebClientState::Leaving(line);
                false
            }
            WebClientState::Watching(line, mut tape) => {
                tape.bytes.extend(records);
                self.stage = WebClientState::Watching(line, tape);
                true
            }
            other => {
                self.stage = other;
                true
            }
        }
    }

    /// Ends the connection: nothing more will be added.
    pub(super) fn finish(&mut self) {
        match &mut self.stage {
            WebClientState::Watching(_, tape) => tape.ends = true,
            // The last messages to a rank are still in the pair, whose other end is closed.
            WebClientState::Rank { .. } | WebClientState::Leaving(_) => {}
            _ => self.stage = WebClientState::Over,
        }
    }

    fn opened(&mut self, opened: Opened) -> Turn {
        let verdict = self.verdict.take();
        let mut line = match opened {
            Ok(socket) => WebLink::new(socket),
            Err(HandshakeError::Interrupted(opening)) => {
                self.stage = WebClientState::Opening(opening);
                return Turn::Waits;
            }
            Err(HandshakeError::Failure(error)) => {
                let why = verdict
                    .and_then(Result::err)
                    .unwrap_or_else(|| format!("did not open a web socket as it should ({error})"));
                return Turn::Refused { why };
            }
        };
        match (verdict, &self.challenge) {
            (Some(Ok(Purpose::Rank)), _) => {
                let pair = UnixStream::pair().and_then(|(near, far)| {
                    near.set_nonblocking(true)?;
                    far.set_nonblocking(true)?;
                    Ok((near, far))
                });
                let Ok((near, far)) = pair else { return Turn::Over };
                // The server has a deadline of its own for unauthenticated ranks.
                self.deadline = None;
                self.stage = WebClientState::Rank { line, pair: near, inward: Vec::new() };
                Turn::Rank(Stream::Unix(far))
            }
            (Some(Ok(Purpose::Watch)), None) => self.watch_from_now(line),
            (Some(Ok(Purpose::Watch)), Some(challenge)) => {
                let nonce = String::from_utf8_lossy(challenge.nonce().as_bytes());
                if line.send(Message::text(format!("challenge {nonce}"))).is_err() {
                    return Turn::Over;
                }
                self.stage = WebClientState::Proving(line);
                Turn::Waits
            }
            (Some(Err(_)) | None, _) => Turn::Over,
        }
    }

    fn watch_from_now(&mut self, line: WebLink) -> Turn {
        self.deadline = None;
        self.stage = WebClientState::Watching(line, Tape::default());
        Turn::Watches
    }

    fn receive_proof(&mut self, mut line: WebLink) -> Turn {
        line.begin();
        match line.receive() {
            WebInput::Nothing => {
                self.stage = WebClientState::Proving(line);
                Turn::Waits
            }
            WebInput::Text(proof)
                if self
                    .challenge
                    .as_ref()
                    .is_some_and(|challenge| challenge.is_met(proof.as_bytes())) =>
            {
                self.watch_from_now(line)
            }
            WebInput::End => Turn::Over,
            WebInput::Text(_) | WebInput::Bytes(_) => {
                line.close(CloseCode::Policy, "the proof is wrong");
                let why = "requested to observe the run and does not know the secret".to_owned();
                Turn::Refused { why }
            }
        }
    }

    /// Moves bytes between the web socket of a rank and the server.
    fn carry(&mut self, mut line: WebLink, mut pair: UnixStream, mut inward: Vec<u8>) -> Turn {
        line.begin();
        // From the rank to the server, with the back-pressure of the server.
        loop {
            match write_some(&mut pair, &mut inward) {
                Ok(()) if inward.is_empty() => {}
                Ok(()) => break,
                Err(_) => return self.dismiss(line, &mut pair),
            }
            match line.receive() {
                WebInput::Bytes(bytes) => inward = bytes,
                WebInput::Nothing => break,
                // Its end of the pair closes, which the server detects.
                WebInput::End => return Turn::Over,
                WebInput::Text(_) => {
                    line.close(
                        CloseCode::Unsupported,
                        "PMI consists of bytes; send binary messages",
                    );
                    return Turn::Over;
                }
            }
        }
        if self.forward(&mut line, &mut pair) {
            return self.dismiss(line, &mut pair);
        }
        self.stage = WebClientState::Rank { line, pair, inward };
        Turn::Waits
    }

    /// Forwards bytes of the server to the rank, as far as it takes them; true if the server has closed
    /// its end.
    fn forward(&self, line: &mut WebLink, pair: &mut UnixStream) -> bool {
        let mut bytes = [0; PIECE_BYTES];
        while !line.is_full {
            match pair.read(&mut bytes) {
                Ok(0) => return true,
                Ok(len) if line.send(Message::binary(bytes[..len].to_vec())).is_ok() => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Ok(_) | Err(_) => return true,
            }
        }
        false
    }

    /// Handles the end of the server's stream: forwards the rest, and sends a close message.
    fn dismiss(&mut self, mut line: WebLink, pair: &mut UnixStream) -> Turn {
        self.forward(&mut line, pair);
        line.close(CloseCode::Normal, "");
        self.leave(line)
    }

    fn leave(&mut self, mut line: WebLink) -> Turn {
        self.deadline.get_or_insert_with(|| clock::now() + IDENTIFY_WITHIN);
        line.begin();
        loop {
            match line.receive() {
                WebInput::End => return Turn::Over,
                WebInput::Nothing => break,
                WebInput::Bytes(_) | WebInput::Text(_) => {}
            }
        }
        self.stage = WebClientState::Leaving(line);
        Turn::Waits
    }

    /// Sends records, as far as the observer takes them.
    fn play(&mut self, mut line: WebLink, mut tape: Tape) -> Turn {
        line.begin();
        match line.receive() {
            WebInput::Nothing => {}
            WebInput::End => return Turn::Over,
            WebInput::Bytes(_) | WebInput::Text(_) => {
                line.close(CloseCode::Policy, "an observer sends no messages");
                return Turn::Over;
            }
        }
        while !line.is_full && !tape.bytes.is_empty() {
            let len = tape.bytes.len().min(PIECE_BYTES);
            let piece: Vec<u8> = tape.bytes.drain(..len).collect();
            if line.send(Message::binary(piece)).is_err() {
                return Turn::Over;
            }
        }
        if tape.ends && tape.bytes.is_empty() && !line.is_full {
            line.close(CloseCode::Normal, "the run is over");
            return self.leave(line);
        }
        self.stage = WebClientState::Watching(line, tape);
        Turn::Waits
    }

    /// Registers for the next readiness.
    fn rewatch(&mut self, poller: &Poller) -> io::Result<()> {
        let (token, watched) = (Token::Web(self.number), &mut self.watched);
        match &self.stage {
            // Closing a descriptor unregisters it. The reply to an opening is short, and finds room.
            WebClientState::Fresh(..) | WebClientState::Opening(_) | WebClientState::Over => Ok(()),
            WebClientState::Proving(line)
            | WebClientState::Watching(line, _)
            | WebClientState::Leaving(line) => {
                let wanted = Interest::of(true, line.is_full || line.is_held);
                poller.rewatch(token, line.socket().get_ref(), (watched, wanted))
            }
            WebClientState::Rank { line, pair, inward } => {
                let wanted = Interest::of(inward.is_empty(), line.is_full || line.is_held);
                poller.rewatch(token, line.socket().get_ref(), (watched, wanted))?;
                let wanted = Interest::of(!line.is_full, !inward.is_empty());
                let token = Token::WebPair(self.number);
                poller.rewatch(token, pair, (&mut self.pair_watched, wanted))
            }
        }
    }
}

/// Writes as much as fits, and removes it from `bytes`.
fn write_some(pair: &mut UnixStream, bytes: &mut Vec<u8>) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    match pair.write(bytes) {
        Ok(len) => {
            bytes.drain(..len);
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
        Err(error) => Err(error),
    }
}

impl std::fmt::Debug for WebClientState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Fresh(..) | Self::Opening(_) => "opening",
            Self::Proving(_) => "proving",
            Self::Rank { .. } => "rank",
            Self::Watching(..) => "watching",
            Self::Leaving(_) => "leaving",
            Self::Over => "over",
        })
    }
}

type Opened =
    Result<tungstenite::WebSocket<TcpStream>, HandshakeError<ServerHandshake<TcpStream, Upgrade>>>;

/// Deadline of the opening and of the reply to a close message; both are sent at once.
const IDENTIFY_WITHIN: Duration = Duration::from_secs(5);

/// Number of bytes read or written at once.
const PIECE_BYTES: usize = 16 * 1024;

/// Maximum length of a message, the same as in the server; a peer that exceeds it is disconnected.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// Backlog of an observer besides the trace it gets first, in bytes: some seconds of a busy run, and
/// bearable 64 times.
const BACKLOG_BYTES_MAX: usize = 1 << 20;

/// Reason in the close message to an observer that is too slow.
const TOO_SLOW: &str =
    "too slow: records of the run could not be delivered; connect again for the latest";
