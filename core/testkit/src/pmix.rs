//! Storage of PMIx sessions, and bytes of PMIx messages.

use std::vec;
use std::vec::Vec;

use pmi_core::server::pmix::{PmixStorage, PmixTables};
use pmi_core::storage::{ArrayBuffer, Slots};
use pmi_core::wire::pmix::greeting::{Greeting, Kind};
use pmi_core::wire::pmix::header::Header;
use pmi_core::wire::pmix::{Family, Format, Packer};

/// Storage of the PMIx sessions of a test server.
#[derive(Debug)]
pub struct Lent;

/// Bytes of a response or of a committed value.
pub type Block = ArrayBuffer<1024>;

/// Input buffer of one PMIx session.
pub type Letters = ArrayBuffer<2048>;

/// Up to eight slots, which take memory when they are used.
#[derive(Debug)]
pub struct Slots8<T>(Vec<Option<T>>);

impl PmixStorage for Lent {
    const ADMITS_TOOLS: bool = true;

    type Bytes = Block;
    type Inbox = Letters;
    type Pending<T: 'static> = [Option<T>; 8];
    type Sessions<T: 'static> = Slots8<T>;
    type Ranks<T: 'static> = Vec<T>;
    type Namespaces<T: 'static> = Slots8<T>;
    type Collectives<T: 'static> = Slots8<T>;
    type Names<T: 'static> = Slots8<T>;
    type Events<T: 'static> = Slots8<T>;
    type Groups<T: 'static> = Slots8<T>;
}

impl<T> Slots<T> for Slots8<T> {
    fn end(&self) -> usize {
        self.0.iter().rposition(Option::is_some).map_or(0, |last| last + 1)
    }

    fn capacity(&self) -> usize {
        8
    }

    fn get(&self, index: usize) -> Option<&T> {
        self.0.get(index)?.as_ref()
    }

    fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.0.get_mut(index)?.as_mut()
    }

    fn insert(&mut self, item: T) -> Option<usize> {
        let free = self.0.iter().position(Option::is_none);
        let index = free.unwrap_or(self.0.len());
        if index == self.0.len() && index < self.capacity() {
            self.0.push(None);
        }
        *self.0.get_mut(index)? = Some(item);
        Some(index)
    }

    fn remove(&mut self, index: usize) -> Option<T> {
        self.0.get_mut(index)?.take()
    }
}

/// Empty tables.
pub fn tables() -> PmixTables<Lent> {
    PmixTables {
        sessions: Slots8(Vec::new()),
        jobs: Slots8(Vec::new()),
        collectives: Slots8(Vec::new()),
        names: Slots8(Vec::new()),
        events: Slots8(Vec::new()),
        groups: Slots8(Vec::new()),
    }
}

/// Packs values.
pub fn packed(format: Format, write: &dyn Fn(&mut Packer<'_>)) -> Vec<u8> {
    let mut bytes = vec![0; 2048];
    let mut to = Packer::new(&mut bytes, format);
    write(&mut to);
    let len = to.finish().expect("room for the values");
    bytes.truncate(len);
    bytes
}

/// Puts the header of a message in front of its body.
pub fn message(index: u32, tag: u32, body: &[u8]) -> Vec<u8> {
    let body_bytes = u32::try_from(body.len()).expect("a short message");
    [&Header { index, tag, body_bytes }.bytes()[..], body].concat()
}

/// Describes the greeting of a client with user 7 and group 8, of an early library release with this format.
pub fn greeting(nspace: &[u8], rank: u32, format: Format) -> Greeting<'_> {
    let is_fixed = format.family == Family::Fixed;
    Greeting {
        credential_type: b"native",
        credential: CREDENTIAL,
        kind: Kind::Client,
        owner: None,
        identity: Some((nspace, rank)),
        version: if is_fixed { b"3.2.3" } else { b"4.2.2" },
        encoding: if is_fixed { b"v3" } else { b"v41" },
        format,
        store: b"hash",
        extra: None,
    }
}

/// Writes a greeting.
pub fn greeting_bytes(greeting: &Greeting<'_>) -> Vec<u8> {
    let mut bytes = vec![0; 256];
    let len = greeting.write(&mut bytes).expect("room for a greeting");
    bytes.truncate(len);
    bytes
}

/// User and group, in the byte order of the machine.
const CREDENTIAL: &[u8] = if cfg!(target_endian = "little") {
    &[7, 0, 0, 0, 8, 0, 0, 0]
} else {
    &[0, 0, 0, 7, 0, 0, 0, 8]
};
