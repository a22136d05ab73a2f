//! The first message of a connection, and both forms of its response.

#![expect(clippy::host_endian_bytes, reason = "both ends of a greeting are on one machine")]

use super::format::{Format, Release};
use super::pack::Packer;
use super::parts::List;
use super::types::Type;
use super::unpack::Unpacker;
use crate::error::{Full, Malformed};
use crate::wire::{Framed, Writer};

/// First message of a peer, with its identity.
///
/// Wire: `i32` -1, `u32` all ones, `u32` length, four bytes of zero, all in the order of the sender's
/// machine; then texts that end with NUL and big endian numbers: credential type, length of the
/// credential, credential, kind (one byte), user and group (but for kind 0), namespace and rank
/// (but for kinds 3 and 6), version, encoding, type of buffers (one byte), store. Then nothing, or
/// a packed SIZE and INFOs, or a surplus byte of some libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting<'a> {
    /// `native`, `none` or `munge`.
    pub credential_type: &'a [u8],
    /// Proof of identity; see [`Credential`].
    pub credential: &'a [u8],
    /// Kind of the peer.
    pub kind: Kind,
    /// User and group of the peer, if given.
    pub owner: Option<(u32, u32)>,
    /// Namespace and rank of the peer, if it has them.
    pub identity: Option<(&'a [u8], u32)>,
    /// Version of the peer's library, as a text.
    pub version: &'a [u8],
    /// Name of the peer's encoding.
    pub encoding: &'a [u8],
    /// Format of its values, in both directions.
    pub format: Format,
    /// Its store of job data: `hash`, or a name of shared memory.
    pub store: &'a [u8],
    /// Further information about the peer.
    pub extra: Option<List<'a>>,
}

/// Kinds of connecting peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A process that was started by the launcher.
    Client,
    /// A tool that needs an identity.
    Tool,
    /// A tool that has an identity of its own.
    NamedTool,
    /// A tool that a server has started.
    StartedTool,
    /// A launcher that needs an identity.
    Launcher,
    /// A launcher that has an identity of its own.
    NamedLauncher,
    /// A launcher that a server has started.
    StartedLauncher,
    /// A process that was started by hand.
    Singleton,
    /// A scheduler.
    Scheduler,
}

/// User and group of a `native` credential.
///
/// Wire: two `u32` in the order of the sender's machine. Over TCP it proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credential {
    /// The user that the process runs as.
    pub user: u32,
    /// The group that the process runs as.
    pub group: u32,
}

/// Layout of the response to a greeting. A peer cannot detect a wrong one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Status and index.
    Client,
    /// Status, the identity that the server assigns to a peer without one, that of the server, and the
    /// status of the credential.
    Tool {
        /// True if the server assigns an identity, since the peer has none of its own.
        gives_identity: bool,
    },
}

impl Layout {
    /// Length of the response that admits a peer; one that rejects a peer has four bytes.
    pub const fn welcome_bytes(self) -> usize {
        match self {
            Self::Client => 8,
            Self::Tool { gives_identity: true } => TOOL_WELCOME_BYTES,
            Self::Tool { gives_identity: false } => TOOL_WELCOME_BYTES - IDENTITY_BYTES,
        }
    }
}

impl<'a> Greeting<'a> {
    /// Length of the longest accepted greeting, without its header.
    pub const BODY_BYTES_MAX: usize = 131_072;

    /// Finds the end of the greeting at the front of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Malformed`] as early as possible if the bytes are no greeting, or it is too long.
    pub fn frame(bytes: &[u8]) -> Result<Framed, Malformed> {
        // The first eight bytes are the same in either order.
        if let Some(at) = bytes.iter().take(8).position(|byte| *byte != 0xff) {
            return Err(Malformed::new(at, "the greeting of a PMIx library"));
        }
        let Some(length) = bytes.get(8..12) else { return Ok(Framed::Partial) };
        let body = <[u8; 4]>::try_from(length).map_or(u32::MAX, u32::from_ne_bytes);
        let body = usize::try_from(body).unwrap_or(usize::MAX);
        if body > Self::BODY_BYTES_MAX {
            return Err(Malformed::new(8, "a greeting of no more than 131072 bytes"));
        }
        let len = HEADER_BYTES + body;
        Ok(if len <= bytes.len() { Framed::Whole(len) } else { Framed::Partial })
    }

    /// Reads a whole greeting.
    ///
    /// # Errors
    ///
    /// [`Malformed`]; also for a library that is older than 2.1, and for kinds that are.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut from = Fields { bytes, at: HEADER_BYTES };
        let credential_type = from.text()?;
        let credential_bytes = from.number()?;
        let credential = from.take(usize::try_from(credential_bytes).unwrap_or(usize::MAX))?;
        let kind = from.byte()?;
        let kind = Kind::numbered(kind).ok_or_else(|| from.malformed("a kind of peer"))?;
        let owner = match kind {
            Kind::Client => None,
            _ => Some((from.number()?, from.number()?)),
        };
        let identity = match kind {
            Kind::Tool | Kind::Launcher => None,
            _ => Some((from.text()?, from.number()?)),
        };
        let version = from.text()?;
        let at = from.at;
        let encoding = from.text()?;
        let format = Format::announced(encoding, from.byte()?, at)?;
        let store = from.text()?;
        let extra = List::read(&mut Unpacker::new(from.rest(), format), Type::INFO).ok();
        let read = Self {
            credential_type,
            credential,
            kind,
            owner,
            identity,
            version,
            encoding,
            format,
            store,
            extra,
        };
        Ok(read)
    }

    /// Writes the greeting. [`extra`](Self::extra) is already in its format.
    ///
    /// # Errors
    ///
    /// [`Full`].
    pub fn write(&self, out: &mut [u8]) -> Result<usize, Full> {
        let mut counted = Writer::new(&mut []);
        self.write_body(&mut counted);
        let body = u32::try_from(counted.len()).unwrap_or(u32::MAX);
        let mut writer = Writer::new(out);
        writer.bytes(&[0xff; 8]).bytes(&body.to_ne_bytes()).bytes(&[0; 4]);
        self.write_body(&mut writer);
        writer.finish()
    }

    fn write_body(&self, out: &mut Writer<'_>) {
        let credential_bytes = u32::try_from(self.credential.len()).unwrap_or(u32::MAX);
        out.bytes(self.credential_type).byte(0);
        out.bytes(&credential_bytes.to_be_bytes()).bytes(self.credential);
        out.byte(self.kind.number());
        if let Some((user, group)) = self.owner {
            out.bytes(&user.to_be_bytes()).bytes(&group.to_be_bytes());
        }
        if let Some((nspace, rank)) = self.identity {
            out.bytes(nspace).byte(0).bytes(&rank.to_be_bytes());
        }
        out.bytes(self.version).byte(0).bytes(self.encoding).byte(0);
        out.byte(self.format.buffer()).bytes(self.store).byte(0);
        if let Some(extra) = self.extra {
            let mut head = [0; 32];
            let mut to = Packer::new(&mut head, extra.format);
            to.one(Type::SIZE).size(extra.count.into());
            if !extra.is_empty() {
                to.op(Type::INFO, extra.count);
            }
            let len = to.len();
            out.bytes(head.get(..len).unwrap_or(b"")).bytes(extra.bytes);
        }
    }

    /// Version of the peer's library.
    pub fn release(&self) -> Release {
        Release::read(self.version)
    }

    /// Layout of the response to this greeting.
    pub fn layout(&self) -> Layout {
        let release = self.release();
        let is_new = match release.major {
            0..=4 => false,
            5 => release >= Release::new(5, 0, 9),
            6 => release >= Release::new(6, 1, 0),
            _ => true,
        };
        match self.kind {
            Kind::Client => Layout::Client,
            Kind::Singleton if is_new => Layout::Client,
            Kind::Tool | Kind::Launcher => Layout::Tool { gives_identity: true },
            _ => Layout::Tool { gives_identity: false },
        }
    }
}

impl Kind {
    /// The kind with this number on the wire; `None` for the kinds of the oldest tools.
    pub const fn numbered(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Client,
            3 => Self::Tool,
            4 => Self::NamedTool,
            5 => Self::StartedTool,
            6 => Self::Launcher,
            7 => Self::NamedLauncher,
            8 => Self::StartedLauncher,
            9 => Self::Singleton,
            10 => Self::Scheduler,
            _ => return None,
        })
    }

    /// Number of the kind on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Self::Client => 0,
            Self::Tool => 3,
            Self::NamedTool => 4,
            Self::StartedTool => 5,
            Self::Launcher => 6,
            Self::NamedLauncher => 7,
            Self::StartedLauncher => 8,
            Self::Singleton => 9,
            Self::Scheduler => 10,
        }
    }
}

impl Credential {
    /// Reads a credential.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (user, group) = bytes.split_at_checked(4)?;
        Some(Self {
            user: u32::from_ne_bytes(user.try_into().ok()?),
            group: u32::from_ne_bytes(group.try_into().ok()?),
        })
    }

    /// Bytes of the credential.
    pub fn bytes(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        let mut writer = Writer::new(&mut bytes);
        writer.bytes(&self.user.to_ne_bytes()).bytes(&self.group.to_ne_bytes());
        bytes
    }
}

/// Writes the response that admits a client. `index` goes into the headers of its messages.
///
/// Wire: `i32` 0, `u32` index.
///
/// # Errors
///
/// [`Full`].
pub fn write_welcome(index: u32, out: &mut [u8]) -> Result<usize, Full> {
    let mut writer = Writer::new(out);
    writer.bytes(&0_i32.to_be_bytes()).bytes(&index.to_be_bytes());
    writer.finish()
}

/// Writes the response that admits a tool: its identity, if it has none, and the server's.
///
/// Wire: `i32` 0; namespace of 256 bytes and `u32` rank, once or twice; `i32` 0.
///
/// # Errors
///
/// [`Full`].
pub fn write_tool_welcome(
    given: Option<(&[u8], u32)>,
    server: (&[u8], u32),
    out: &mut [u8],
) -> Result<usize, Full> {
    let mut writer = Writer::new(out);
    writer.bytes(&0_i32.to_be_bytes());
    for (nspace, rank) in given.into_iter().chain([server]) {
        writer.bytes(nspace);
        for _ in nspace.len()..NSPACE_FIELD_BYTES {
            writer.byte(0);
        }
        writer.bytes(&rank.to_be_bytes());
    }
    writer.bytes(&0_i32.to_be_bytes());
    writer.finish()
}

/// Length of the longest response to a tool.
pub const TOOL_WELCOME_BYTES: usize = 4 + 2 * IDENTITY_BYTES + 4;

/// Length of an identity there: namespace and rank.
const IDENTITY_BYTES: usize = NSPACE_FIELD_BYTES + 4;

/// Writes the response that rejects a peer.
///
/// Wire: `i32` status, not 0.
///
/// # Errors
///
/// [`Full`].
pub fn write_refusal(status: i32, out: &mut [u8]) -> Result<usize, Full> {
    let mut writer = Writer::new(out);
    writer.bytes(&status.to_be_bytes());
    writer.finish()
}

/// Reads the response to a client: its index, or the status of the rejection; `None`
/// while it is incomplete. The second number is its length in bytes.
pub fn read_welcome(bytes: &[u8]) -> Option<(Result<u32, i32>, usize)> {
    let (numbers, _) = bytes.as_chunks::<4>();
    let status = i32::from_be_bytes(*numbers.first()?);
    if status != 0 {
        return Some((Err(status), 4));
    }
    Some((Ok(u32::from_be_bytes(*numbers.get(1)?)), 8))
}

/// Reads the response to a tool without an identity: its namespace and rank, or the status of the
/// rejection; `None` while it is incomplete.
pub fn read_tool_welcome(bytes: &[u8]) -> Option<Result<(&[u8], u32), i32>> {
    let number = |at: usize| bytes.get(at..at.checked_add(4)?)?.first_chunk::<4>().copied();
    let status = i32::from_be_bytes(number(0)?);
    if status != 0 {
        return Some(Err(status));
    }
    // Behind the identity of the tool is that of the server, and the result of the credential.
    let proven = i32::from_be_bytes(number(TOOL_WELCOME_BYTES - 4)?);
    if proven != 0 {
        return Some(Err(proven));
    }
    let field = bytes.get(4..4 + NSPACE_FIELD_BYTES)?;
    let nspace = field.split(|byte| *byte == 0).next()?;
    let rank = u32::from_be_bytes(number(4 + NSPACE_FIELD_BYTES)?);
    Some(Ok((nspace, rank)))
}

/// Texts that end with NUL, and big endian numbers.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    fn text(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.rest().iter().position(|byte| *byte == 0);
        let len = len.ok_or_else(|| self.malformed("a text that ends"))?;
        let text = self.take(len)?;
        self.at += 1;
        Ok(text)
    }

    fn number(&mut self) -> Result<u32, Malformed> {
        let bytes = <[u8; 4]>::try_from(self.take(4)?);
        bytes.map(u32::from_be_bytes).map_err(|_| self.malformed("a number of four bytes"))
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        self.take(1)?.first().copied().ok_or_else(|| self.malformed("a byte"))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(len);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| self.malformed("more bytes"))?;
        self.at += len;
        Ok(taken)
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or(b"")
    }

    const fn malformed(&self, expected: &'static str) -> Malformed {
        Malformed::new(self.at, expected)
    }
}

const HEADER_BYTES: usize = 16;

/// Room for the name of a namespace in a response to a tool.
const NSPACE_FIELD_BYTES: usize = 256;
