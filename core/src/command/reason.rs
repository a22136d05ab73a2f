//! Why a request was refused: facts first, words when they are written.

use crate::error::Code;
use crate::parts;

/// Why a server refused a request.
///
/// The codecs render it with [`Writer::sentence`](crate::wire::Writer::sentence): PMI-1 allows one word
/// without blanks, PMI-2 a sentence without `;`. Nothing is formatted until there is room for it on the
/// wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Reason<'a> {
    /// A field is longer than the limit, or empty.
    Length {
        /// The field.
        what: LimitedField,
        /// The key it belongs to, as far as it is known.
        key: &'a [u8],
        /// Its length.
        len_bytes: usize,
        /// The limit.
        limit_bytes: usize,
        /// Rank of the client.
        rank: u32,
    },
    /// A field is missing or cannot be meant.
    Lacking {
        /// The field.
        field: &'static str,
    },
    /// The command is unknown.
    NotSupported {
        /// The command.
        word: &'a [u8],
    },
    /// The host has nothing behind this request.
    NotOffered {
        /// Kind of the missing thing.
        what: &'static str,
    },
    /// The storage is used up.
    NoRoom {
        /// Room for what.
        what: &'static str,
    },
    /// There is no such thing.
    NoSuch {
        /// Such a what.
        what: &'static str,
    },
    /// There is one already.
    Exists {
        /// One what.
        what: &'static str,
    },
    /// The message came at the wrong moment.
    OutOfOrder {
        /// The expected request.
        expected: &'static str,
    },
    /// The caller has not proved its identity.
    Unproven,
    /// Without its line feeds the value would be another one, and a line has none.
    LineFeed,
    /// A `;` of the value was not doubled, so that its end is unknown.
    TornValue,
    /// The versions do not meet.
    Version {
        /// The newest version that the server speaks.
        newest: (u16, u16),
        /// Rank of the client.
        rank: Option<u32>,
    },
    /// The bytes are not a message.
    Malformed {
        /// Offset of the first bad byte.
        at: usize,
        /// The expected input.
        expected: &'static str,
    },
}

/// A field of limited length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[allow(missing_docs, reason = "each is called as it is")]
pub enum LimitedField {
    Key,
    Value,
    Service,
    Port,
    Reply,
}

/// Text of a reason in pieces, before it is written.
pub(crate) struct ReasonText<'a> {
    /// Its words, with `%` where [`what`](Self::what) belongs, `&` where the peer's own word does, and
    /// `#` where the next number does.
    pub(crate) form: &'static str,
    /// Fixed text.
    pub(crate) what: &'static str,
    /// Bytes of the peer's own message.
    pub(crate) quoted: &'a [u8],
    pub(crate) numbers: [usize; 3],
}

impl LimitedField {
    /// Name of the field in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Value => "value",
            Self::Service => "service",
            Self::Port => "port",
            Self::Reply => "reply",
        }
    }
}

impl<'a> Reason<'a> {
    /// The code that goes with the reason.
    pub const fn code(&self) -> Code {
        match self {
            Self::Length { what: LimitedField::Key, .. } => Code::INVALID_KEY_LENGTH,
            Self::Length { .. } => Code::INVALID_VAL_LENGTH,
            Self::Lacking { .. } => Code::INVALID_ARG,
            Self::NoRoom { .. } => Code::NOMEM,
            Self::NoSuch { .. } | Self::Exists { .. } => Code::INIT,
            Self::LineFeed | Self::TornValue => Code::INVALID_VAL,
            Self::NotOffered { .. } => Code::OTHER,
            _ => Code::FAIL,
        }
    }

    /// The text.
    pub(crate) const fn sentence(&self) -> ReasonText<'a> {
        let form = match self {
            Self::Length { .. } => "% & # bytes over limit # at rank #",
            Self::Lacking { .. } => "% is missing or wrong",
            Self::NotSupported { .. } => "not supported &",
            Self::NotOffered { .. } => "% is not offered here",
            Self::NoRoom { .. } => "no room for %",
            Self::NoSuch { .. } => "no such %",
            Self::Exists { .. } if parts::NAMES || parts::LISTEN => "% exists already",
            Self::OutOfOrder { .. } => "expected %",
            Self::Unproven if parts::LISTEN => "the shared secret is not proven",
            Self::LineFeed if parts::PMI2 || parts::BINARY => {
                "the value holds a line feed, which a line cannot carry"
            }
            Self::TornValue if parts::PMI2 => "a value without semicolon is missing or wrong",
            Self::Version { rank: None, .. } => "newest version here is # #",
            Self::Version { rank: Some(_), .. } => "newest version here is # # for rank #",
            Self::Malformed { .. } => "expected % at byte #",
            // Reasons of a part that this build leaves out.
            Self::Exists { .. } | Self::Unproven | Self::LineFeed | Self::TornValue => "",
        };
        let (mut what, mut quoted, mut numbers): (_, &[u8], _) = ("", b"", [0; 3]);
        match *self {
            Self::Length { what: field, key, len_bytes, limit_bytes, rank } => {
                (what, quoted) = (field.name(), key);
                numbers = [len_bytes, limit_bytes, rank as usize];
            }
            Self::NotSupported { word } => quoted = word,
            Self::Lacking { field: words }
            | Self::NotOffered { what: words }
            | Self::NoRoom { what: words }
            | Self::NoSuch { what: words }
            | Self::Exists { what: words }
            | Self::OutOfOrder { expected: words } => what = words,
            Self::Malformed { at, expected } => (what, numbers[0]) = (expected, at),
            Self::Version { newest: (major, minor), rank } => {
                let rank = if let Some(rank) = rank { rank } else { 0 };
                numbers = [major as usize, minor as usize, rank as usize];
            }
            Self::Unproven | Self::LineFeed | Self::TornValue => {}
        }
        ReasonText { form, what, quoted, numbers }
    }
}
