//! Names and numbers that are valid by construction, so that no later check is needed.

use heapless::Vec;

use crate::error::Misuse;
use crate::limits::{
    EXCERPT_BYTES, KEY_BYTES, KVSNAME_BYTES, SERVICE_BYTES, TAG_BYTES, VALUE_BYTES, WORD_BYTES,
};

/// The number of a process within its job, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rank(pub u32);

/// Number of a job at its server: its place in [`Storage::Jobs`](crate::server::Storage::Jobs).
///
/// Unique among the present jobs. A later job may get the number of a removed one, so an owner drops its
/// state of a job together with the job; the name of the job's space distinguishes the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct JobId(pub u32);

/// One process of a server: a rank of a job.
///
/// Spec: PMIx, `pmix_proc_t`, whose namespace is the name of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ProcId {
    /// The job.
    pub job: JobId,
    /// The rank in it.
    pub rank: Rank,
}

/// Number of a session at its server. Reused after the session was closed.
///
/// Sessions of PMIx clients are in a range of their own, from 2³¹.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SessionId(pub u32);

/// A key: 1 to [`KEY_BYTES`] bytes, no NUL and no line feed.
///
/// The writer of a dialect rejects further bytes that it cannot express (a blank in PMI-1).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(Vec<u8, KEY_BYTES>);

/// A value: 0 to [`VALUE_BYTES`] bytes of anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value(Vec<u8, VALUE_BYTES>);

/// Name of a job's key-value space, in PMI-2 also the job's id: 1 to [`KVSNAME_BYTES`] bytes
/// without blanks, `;` or control characters, so that every dialect can express it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvsName(Vec<u8, KVSNAME_BYTES>);

/// Tag of an exchange, chosen by the peer; returned byte for byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tag(Vec<u8, TAG_BYTES>);

/// Start of a text of a peer, kept for display.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excerpt(Vec<u8, EXCERPT_BYTES>);

/// An unknown word, kept to be named in the reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word(Vec<u8, WORD_BYTES>);

impl SessionId {
    /// True for the session of a PMIx client.
    pub const fn is_pmix(self) -> bool {
        self.0 & PMIX_SESSIONS != 0
    }

    /// Number within its range: small, so that an owner can index a table with it.
    pub const fn place(self) -> u32 {
        self.0 & !PMIX_SESSIONS
    }

    /// The session of a PMIx client with this number within its range; `None` beyond the range.
    #[cfg(feature = "pmix")]
    pub(crate) const fn pmix(place: u32) -> Option<Self> {
        if place < PMIX_SESSIONS { Some(Self(PMIX_SESSIONS | place)) } else { None }
    }

    /// Index among the sessions of PMIx clients; `None` for other sessions.
    #[cfg(feature = "pmix")]
    pub(crate) const fn pmix_place(self) -> Option<usize> {
        if self.is_pmix() { Some(self.place() as usize) } else { None }
    }
}

impl Key {
    /// Checks and copies a key.
    ///
    /// # Errors
    ///
    /// [`Misuse::Length`] if empty or too long, [`Misuse::NotRepresentable`] for NUL and LF.
    pub fn new(bytes: &[u8]) -> Result<Self, Misuse> {
        Self::check(bytes)?;
        Ok(Self::copy(bytes))
    }

    /// Copies a key that was checked.
    pub(crate) fn copy(bytes: &[u8]) -> Self {
        debug_assert!(Self::check(bytes).is_ok());
        Self(front(bytes.iter().copied()))
    }

    /// Checks a key without copying it.
    ///
    /// # Errors
    ///
    /// As for [`Key::new`].
    pub fn check(bytes: &[u8]) -> Result<(), Misuse> {
        if bytes.is_empty() || bytes.len() > KEY_BYTES {
            return Err(length("key", bytes.len(), KEY_BYTES));
        }
        if bytes.iter().any(|b| matches!(b, 0 | b'\n')) {
            return Err(Misuse::NotRepresentable { what: "a key with NUL or line feed" });
        }
        Ok(())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Checks the name of a service: 1 to [`SERVICE_BYTES`] bytes, no NUL and no line feed.
pub(crate) fn check_service(bytes: &[u8]) -> Result<(), Misuse> {
    if bytes.is_empty() || bytes.len() > SERVICE_BYTES {
        return Err(length("service", bytes.len(), SERVICE_BYTES));
    }
    if bytes.iter().any(|b| matches!(b, 0 | b'\n')) {
        return Err(Misuse::NotRepresentable { what: "a service with NUL or line feed" });
    }
    Ok(())
}

impl Value {
    /// Checks and copies a value.
    ///
    /// # Errors
    ///
    /// [`Misuse::Length`] if too long.
    pub fn new(bytes: &[u8]) -> Result<Self, Misuse> {
        Ok(Self(copy("value", bytes)?))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl KvsName {
    /// Checks and copies the name of a space.
    ///
    /// # Errors
    ///
    /// [`Misuse::Length`] if empty or too long, [`Misuse::NotRepresentable`] for a blank, `;` or
    /// a control character.
    pub fn new(bytes: &[u8]) -> Result<Self, Misuse> {
        let mut name = Self::none();
        name.become_name(bytes)?;
        Ok(name)
    }

    /// Placeholder until the name is known; only its holder sees it.
    pub(crate) const fn none() -> Self {
        Self(Vec::new())
    }

    /// Sets the name in place.
    ///
    /// # Errors
    ///
    /// As for [`KvsName::new`]; nothing has changed then.
    pub(crate) fn become_name(&mut self, bytes: &[u8]) -> Result<(), Misuse> {
        if bytes.is_empty() || bytes.len() > KVSNAME_BYTES {
            return Err(length("kvsname", bytes.len(), KVSNAME_BYTES));
        }
        if bytes.iter().any(|&b| b <= b' ' || b == b';' || b == 0x7f) {
            return Err(Misuse::NotRepresentable {
                what: "a kvsname with blank, `;` or control character",
            });
        }
        self.0.clear();
        let bad = |_| length("kvsname", bytes.len(), KVSNAME_BYTES);
        self.0.extend_from_slice(bytes).map_err(bad)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Tag {
    /// No name at all.
    pub const EMPTY: Self = Self(Vec::new());

    /// Checks and copies a tag.
    ///
    /// # Errors
    ///
    /// [`Misuse::Length`] if too long.
    pub fn new(bytes: &[u8]) -> Result<Self, Misuse> {
        Ok(Self(copy("tag", bytes)?))
    }

    /// The bytes; empty when the peer gave none.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// True when the peer gave none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Excerpt {
    /// Keeps as much of `bytes` as there is room for.
    pub fn new(bytes: impl IntoIterator<Item = u8>) -> Self {
        Self(front(bytes.into_iter()))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Word {
    /// Keeps as much of `bytes` as there is room for, and only letters, digits, `-` and `_`: the
    /// word goes back on the wire, where anything else might be taken for syntax.
    pub fn new(bytes: &[u8]) -> Self {
        let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        Self(front(bytes.iter().copied().filter(plain)))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Rank {
    /// The rank as an index into a table of members.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

const fn length(what: &'static str, len_bytes: usize, limit_bytes: usize) -> Misuse {
    Misuse::Length { what, len_bytes, limit_bytes }
}

/// As much as there is room for. Collecting would end in a panic for one more.
fn front<const N: usize>(bytes: impl Iterator<Item = u8>) -> Vec<u8, N> {
    let mut front = Vec::new();
    for byte in bytes {
        if front.push(byte).is_err() {
            break;
        }
    }
    front
}

fn copy<const N: usize>(what: &'static str, bytes: &[u8]) -> Result<Vec<u8, N>, Misuse> {
    Vec::from_slice(bytes).map_err(|_| length(what, bytes.len(), N))
}

/// First number of a session of a PMIx client.
const PMIX_SESSIONS: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_checked_at_one_less_at_and_one_over_the_limit() {
        for (len, ok) in [(0, false), (1, true), (63, true), (64, true), (65, false)] {
            assert_eq!(Key::new(&[b'k'; 80][..len]).is_ok(), ok, "{len}");
        }
        assert!(Key::new(b"a\nb").is_err());
        assert!(Key::new(b"a\0b").is_err());
        assert_eq!(Key::new(b"a;b=c d").unwrap().as_bytes(), b"a;b=c d");
    }

    #[test]
    fn value_may_hold_anything_up_to_its_limit() {
        for (len, ok) in [(0, true), (1023, true), (1024, true), (1025, false)] {
            assert_eq!(Value::new(&[0; 1100][..len]).is_ok(), ok, "{len}");
        }
    }

    #[test]
    fn name_of_a_space_fits_every_dialect() {
        for (len, ok) in [(0, false), (255, true), (256, true), (257, false)] {
            assert_eq!(KvsName::new(&[b'k'; 300][..len]).is_ok(), ok, "{len}");
        }
        assert!(KvsName::new("\u{192}EgANmV".as_bytes()).is_ok());
        for bad in [&b"a b"[..], b"a;b", b"a\nb", b"a\0"] {
            assert!(KvsName::new(bad).is_err());
        }
    }

    #[test]
    fn word_keeps_nothing_that_could_be_syntax() {
        assert_eq!(Word::new(b"do it;now=1\n").as_bytes(), b"doitnow1");
        assert_eq!(Word::new(&[b'x'; 100]).as_bytes().len(), WORD_BYTES);
    }
}
