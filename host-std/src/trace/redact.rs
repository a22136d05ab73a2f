//! Removal of proofs from records: readers of a trace may not be allowed to become a rank.

use pmi_core::wire::binary::{HEAD_BYTES, MAGIC};

/// `message` with every byte of an id, a nonce or a proof replaced by the digit 0, so that its length
/// and the rest stay; the message itself if it has none.
pub(crate) fn redacted<'a>(message: &'a [u8], room: &'a mut Vec<u8>) -> &'a [u8] {
    let is_join = message.first() == Some(&MAGIC);
    if !is_join && !FIELDS.iter().any(|field| contains(message, field)) {
        return message;
    }
    room.clear();
    room.extend_from_slice(message);
    match is_join {
        true => redact_join(room),
        false => FIELDS.iter().for_each(|field| redact_field(room, field)),
    }
    room
}

/// A join request of the binary dialect ends with the number; the tag and the kind, 0, precede it.
fn redact_join(frame: &mut [u8]) {
    let tag = frame.get(HEAD_BYTES).copied().map_or(0, usize::from);
    let kind = HEAD_BYTES + 1 + tag;
    if frame.get(kind) == Some(&JOIN) {
        // The upper bit marks that another byte follows.
        frame.iter_mut().skip(kind + 1).for_each(|byte| *byte &= 0x80);
    }
}

fn redact_field(message: &mut [u8], field: &[u8]) {
    let mut at = 0;
    while let Some(found) = message.get(at..).and_then(|rest| position(rest, field)) {
        at += found + field.len();
        let value = message.iter_mut().skip(at);
        value.take_while(|byte| !ENDS.contains(byte)).for_each(|byte| *byte = b'0');
    }
}

fn contains(message: &[u8], field: &[u8]) -> bool {
    position(message, field).is_some()
}

fn position(message: &[u8], field: &[u8]) -> Option<usize> {
    message.windows(field.len()).position(|window| window == field)
}

/// Fields with identifiers and proofs as values.
const FIELDS: [&[u8]; 2] = [b"pmiid=", b"authinfo="];

/// Bytes that end a value in PMI-1 lines and PMI-2 frames.
const ENDS: &[u8] = b" \n;";

/// Number of the join request in the binary dialect.
const JOIN: u8 = 0;

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_core::command::Request;
    use pmi_core::wire::binary;

    fn text(message: &str) -> String {
        String::from_utf8(redacted(message.as_bytes(), &mut Vec::new()).to_vec()).unwrap()
    }

    #[test]
    fn ids_nonces_and_proofs_are_zeros_of_the_same_length() {
        for (message, left) in [
            ("cmd=initack pmiid=4711\n", "cmd=initack pmiid=0000\n"),
            (
                "cmd=init_oob signal=NONE pmiid=17 pmi_version=2\n",
                "cmd=init_oob signal=NONE pmiid=00 pmi_version=2\n",
            ),
            (
                "    35cmd=auth-response;authinfo=123;rc=0;",
                "    35cmd=auth-response;authinfo=000;rc=0;",
            ),
            (
                "    40cmd=auth-response-complete;authinfo=9f;",
                "    40cmd=auth-response-complete;authinfo=00;",
            ),
            ("cmd=initack pmiid=12", "cmd=initack pmiid=00"),
            ("cmd=put key=a value=4711\n", "cmd=put key=a value=4711\n"),
        ] {
            assert_eq!(text(message), left);
        }
    }

    #[test]
    fn number_in_our_own_frames_is_zero() {
        let mut frame = [0; 64];
        let ask = Request::InitAck { id: u64::MAX >> 1 };
        let len = binary::write_request(&ask, b"tag", &mut frame).unwrap();
        let mut room = Vec::new();
        let left = redacted(&frame[..len], &mut room);
        assert_eq!(left.len(), len);
        let (tag, ask) = binary::read_request(left).unwrap();
        assert_eq!((tag, ask), (&b"tag"[..], Request::InitAck { id: 0 }));
        let len = binary::write_request(&Request::Finalize, b"", &mut frame).unwrap();
        assert_eq!(redacted(&frame[..len], &mut Vec::new()), &frame[..len]);
    }
}
