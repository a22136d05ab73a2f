//! Why a request was refused: facts first, words when they are written.

use crate::error::Code;

/// Why a server refused a request.
///
/// The codecs render it with [`Reason::pieces`]: PMI-1 allows one word without blanks, PMI-2 a
/// sentence without `;`. Nothing is formatted until there is room for it on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason<'a> {
    /// A field is longer than the limit, or empty.
    Length {
        /// Which field.
        what: &'static str,
        /// The key it belongs to, as far as it is known.
        key: &'a [u8],
        /// How long it is.
        len_bytes: usize,
        /// How long it may be.
        limit_bytes: usize,
        /// Whose request it was.
        rank: u32,
    },
    /// A field is missing or cannot be meant.
    Lacking {
        /// Which field.
        field: &'static str,
    },
    /// We do not know this command.
    NotSupported {
        /// The command.
        word: &'a [u8],
    },
    /// The host has nothing behind this request.
    NotOffered {
        /// What was asked for.
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
        /// What was expected.
        expected: &'static str,
    },
    /// The caller has not proved who it is.
    Unproven,
    /// The versions do not meet.
    Version {
        /// The newest version that the server speaks.
        newest: (u16, u16),
        /// Whose request it was.
        rank: Option<u32>,
    },
    /// The bytes are not a message.
    Malformed {
        /// Offset of the first bad byte.
        at: usize,
        /// What should have been there.
        expected: &'static str,
    },
    /// The fence cannot complete, because this rank is gone.
    Gone {
        /// The rank.
        rank: u32,
    },
}

/// A part of a sentence: words, or a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Words of ours; blanks separate them.
    Words(&'static str),
    /// Bytes of the peer's own message.
    Quoted(&'a [u8]),
    /// A number.
    Number(u64),
}

impl<'a> Reason<'a> {
    /// The code that goes with the reason.
    pub const fn code(&self) -> Code {
        match self {
            Self::Length { what, .. } => match what.as_bytes() {
                b"key" => Code::INVALID_KEY_LENGTH,
                b"value" => Code::INVALID_VAL_LENGTH,
                _ => Code::INVALID_LENGTH,
            },
            Self::Lacking { .. } => Code::INVALID_ARG,
            Self::NoRoom { .. } => Code::NOMEM,
            Self::NoSuch { .. } | Self::Exists { .. } => Code::INIT,
            Self::NotOffered { .. } | Self::Gone { .. } => Code::OTHER,
            _ => Code::FAIL,
        }
    }

    /// The sentence, piece by piece; a blank belongs between any two.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'a>> + use<'a> {
        use Piece::{Number, Quoted, Words};
        let none = [None; 7];
        let mut list = none;
        let mut fill = |pieces: &[Piece<'a>]| {
            list.iter_mut().zip(pieces).for_each(|(to, piece)| *to = Some(*piece));
        };
        match *self {
            Self::Length { what, key, len_bytes, limit_bytes, rank } => fill(&[
                Words(what),
                Quoted(key),
                Number(len_bytes as u64),
                Words("bytes over limit"),
                Number(limit_bytes as u64),
                Words("at rank"),
                Number(u64::from(rank)),
            ]),
            Self::Lacking { field } => fill(&[Words(field), Words("is missing or wrong")]),
            Self::NotSupported { word } => fill(&[Words("not supported"), Quoted(word)]),
            Self::NotOffered { what } => fill(&[Words(what), Words("is not offered here")]),
            Self::NoRoom { what } => fill(&[Words("no room for"), Words(what)]),
            Self::NoSuch { what } => fill(&[Words("no such"), Words(what)]),
            Self::Exists { what } => fill(&[Words(what), Words("exists already")]),
            Self::OutOfOrder { expected } => fill(&[Words("expected"), Words(expected)]),
            Self::Unproven => fill(&[Words("the shared secret is not proven")]),
            Self::Version { newest, rank: None } => fill(&[
                Words("newest version here is"),
                Number(newest.0.into()),
                Number(newest.1.into()),
            ]),
            Self::Version { newest, rank: Some(rank) } => fill(&[
                Words("newest version here is"),
                Number(newest.0.into()),
                Number(newest.1.into()),
                Words("for rank"),
                Number(rank.into()),
            ]),
            Self::Malformed { at, expected } => {
                fill(&[Words("expected"), Words(expected), Words("at byte"), Number(at as u64)]);
            }
            Self::Gone { rank } => {
                fill(&[Words("rank"), Number(rank.into()), Words("has left the job")]);
            }
        }
        list.into_iter().flatten()
    }
}
