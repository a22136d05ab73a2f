//! Bytes of PMIx messages.

use std::vec;
use std::vec::Vec;

use pmi_core::wire::pmix::greeting::{Greeting, Kind};
use pmi_core::wire::pmix::header::Header;
use pmi_core::wire::pmix::{Family, Format, Packer};

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
