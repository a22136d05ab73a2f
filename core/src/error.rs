//! Errors by origin, each with the action that the caller takes.
//!
//! | type | origin | action of the caller |
//! |---|---|---|
//! | [`Malformed`] | the bytes | close the session |
//! | [`PeerError`] | the peer, by order or content | transmit the explanation, close the session, fail its rank |
//! | [`Misuse`] | the caller of this crate | fix the call |
//! | [`Full`] | a lent buffer is too small | lend more and call again; nothing was lost |
//! | [`Code`] | – | the number on the wire or in the C interface |
//!
//! No error holds a received string; an owner that logs one takes it from its own buffer.

use core::fmt;

/// Bytes that are not a message of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Malformed {
    /// Offset of the first byte that cannot be right, from the start of the message.
    pub at: usize,
    /// The expected input.
    pub expected: &'static str,
}

impl Malformed {
    /// Names the input that was expected at byte `at`.
    pub const fn new(at: usize, expected: &'static str) -> Self {
        Self { at, expected }
    }
}

/// An action of the peer that ends its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum PeerError {
    /// The bytes are not a message.
    Malformed(Malformed),
    /// A message does not end within the bytes that this end is willing to hold.
    MessageTooLong {
        /// Largest number of bytes that the session holds.
        limit_bytes: usize,
    },
    /// All unfinished messages of a peer, or of all peers, together are longer than this end is willing
    /// to hold.
    UnfinishedTooLong {
        /// How many bytes may be held.
        limit_bytes: usize,
    },
    /// A message that is right in itself came at the wrong moment.
    OutOfOrder {
        /// The command that came.
        got: &'static str,
        /// The expected message.
        expected: &'static str,
    },
    /// A caller named a rank or identity that this server does not expect, or none.
    UnknownPeer {
        /// The number that was given.
        id: Option<u64>,
    },
    /// A caller named a rank that is connected already.
    AlreadyConnected {
        /// That rank.
        rank: u32,
    },
    /// A caller did not prove its identity.
    Unproven,
    /// No version that both ends speak.
    Version {
        /// Major number asked for.
        major: u16,
        /// Minor number asked for.
        minor: u16,
    },
    /// It wants what this server does not offer.
    NotOffered {
        /// The service.
        what: &'static str,
    },
    /// The other end refused with a non-zero return code where there is no way on.
    Refused(Code),
    /// Nothing useful came within the time allowed.
    TimedOut,
    /// The stream ended before `finalize`.
    LeftEarly,
}

/// A call that the owner of a machine should not have made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Misuse {
    /// Every place for a running exchange is taken; wait for an answer first.
    Busy,
    /// Not possible in the state the machine is in.
    WrongState {
        /// The state that was needed.
        needed: &'static str,
    },
    /// The dialect of the session cannot express the text (a blank in a PMI-1 value, for example).
    NotRepresentable {
        /// The field, and the reason.
        what: &'static str,
    },
    /// A name, key or value is longer than the limit, or empty where it may not be.
    Length {
        /// The field.
        what: &'static str,
        /// Its length.
        len_bytes: usize,
        /// The limit.
        limit_bytes: usize,
    },
    /// No such job, rank or session.
    NoSuch {
        /// The resource.
        what: &'static str,
    },
    /// The storage that was lent has no room for one more.
    NoRoom {
        /// Room for what.
        what: &'static str,
    },
}

/// A lent buffer is too small; nothing was written and nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Full {
    /// Number of bytes that would have been sufficient.
    pub needed: usize,
}

/// A return code as the protocols and their C interfaces number it.
///
/// The numbers are those of `pmi.h` and `pmi2.h`, which agree. Peers on the wire mostly look
/// only at zero or not zero; two of them hand the number on to their caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Code(pub i32);

impl Code {
    /// It worked.
    pub const SUCCESS: Self = Self(0);
    /// It did not, without a better reason.
    pub const FAIL: Self = Self(-1);
    /// The session was not initialised; on the wire also "no such name".
    pub const INIT: Self = Self(1);
    /// No memory (or no room) left.
    pub const NOMEM: Self = Self(2);
    /// An argument is wrong.
    pub const INVALID_ARG: Self = Self(3);
    /// The key is wrong, or there is none of that name.
    pub const INVALID_KEY: Self = Self(4);
    /// The key is too long, or empty.
    pub const INVALID_KEY_LENGTH: Self = Self(5);
    /// The value is wrong.
    pub const INVALID_VAL: Self = Self(6);
    /// The value is too long.
    pub const INVALID_VAL_LENGTH: Self = Self(7);
    /// A length is wrong.
    pub const INVALID_LENGTH: Self = Self(8);
    /// A size is wrong.
    pub const INVALID_SIZE: Self = Self(13);
    /// Anything else.
    pub const OTHER: Self = Self(14);

    /// True for [`Code::SUCCESS`].
    pub const fn is_success(self) -> bool {
        self.0 == 0
    }
}

impl From<Malformed> for PeerError {
    fn from(bad: Malformed) -> Self {
        Self::Malformed(bad)
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed message: expected {} at byte {}", self.expected, self.at)
    }
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(bad) => bad.fmt(f),
            Self::MessageTooLong { limit_bytes } => {
                write!(f, "a message does not end within {limit_bytes} bytes")
            }
            Self::UnfinishedTooLong { limit_bytes } => {
                write!(f, "unfinished requests together exceed {limit_bytes} bytes")
            }
            Self::OutOfOrder { got, expected } => {
                write!(f, "{got} came while {expected} was expected")
            }
            Self::UnknownPeer { id: Some(id) } => write!(f, "identity {id} is not expected"),
            Self::UnknownPeer { id: None } => f.write_str("the peer named no identity"),
            Self::AlreadyConnected { rank } => write!(f, "rank {rank} is connected already"),
            Self::Unproven => f.write_str("the peer did not prove the secret"),
            Self::Version { major, minor } => {
                write!(f, "no common version: the peer speaks PMI {major}.{minor}")
            }
            Self::NotOffered { what } => write!(f, "the peer requests {what}"),
            Self::Refused(code) => write!(f, "the peer refused with code {}", code.0),
            Self::TimedOut => f.write_str("nothing arrived in the allowed time"),
            Self::LeftEarly => f.write_str("the connection ended before finalize"),
        }
    }
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("every place for a running exchange is taken"),
            Self::WrongState { needed } => write!(f, "only possible when {needed}"),
            Self::NotRepresentable { what } => write!(f, "not available in this dialect: {what}"),
            Self::Length { what, len_bytes, limit_bytes } => {
                write!(f, "{what} has {len_bytes} bytes, the limit is {limit_bytes}")
            }
            Self::NoSuch { what } => write!(f, "no such {what}"),
            Self::NoRoom { what } => write!(f, "no room for one more {what}"),
        }
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the buffer is too small, {} bytes are needed", self.needed)
    }
}

impl core::error::Error for Malformed {}
impl core::error::Error for PeerError {}
impl core::error::Error for Misuse {}
impl core::error::Error for Full {}
