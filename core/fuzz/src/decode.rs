//! The codecs: any bytes are framed and read without harm, and every read message can be written again.

use pmi_core::command::{Answer, Reply, Request, Text, Verb};
use pmi_core::error::{Full, Malformed};
use pmi_core::wire::pmi2::{self, FrameStyle};
use pmi_core::wire::{Framed, WriteError, binary, pmi1};

/// Lines and blocks of lines.
pub fn decode_pmi1(bytes: &[u8]) {
    if let Some(message) = front(bytes, pmi1::frame_request)
        && let Ok(Some(request)) = pmi1::read_request(message)
    {
        let space = b"kvs_1";
        walk(&request);
        if let Some(out) = written(|out| pmi1::write_request(&request, space, out)) {
            assert_eq!(pmi1::frame_request(&out), Ok(Framed::Whole(out.len())), "{request:?}");
            let again = pmi1::read_request(&out).expect("we read what we write");
            let again = again.expect("we write no empty line");
            assert_eq!(again.verb(), request.verb(), "{request:?}");
            let once_more = written(|out| pmi1::write_request(&again, space, out));
            // A message that ends with a carriage return loses it to the end of the line.
            if !out.ends_with(b"\r\n") {
                assert_eq!(once_more.as_deref(), Some(&out[..]), "{request:?}");
            }
        }
    }
    if let Some(message) = front(bytes, pmi1::frame_reply)
        && let Ok(reply) = pmi1::read_reply(message)
    {
        let write = |reply: &Reply<'_>| fits(|out| pmi1::write_reply(reply, b"word", out));
        let out = write(&reply);
        assert_eq!(pmi1::frame_reply(&out), Ok(Framed::Whole(out.len())), "{reply:?}");
        let again = pmi1::read_reply(&out).expect("we read what we write");
        // A value need not be read back whole: its end may look like a field.
        assert_eq!((again.to, again.code), (reply.to, reply.code));
    }
}

/// Frames.
pub fn decode_pmi2(bytes: &[u8]) {
    if let Some(message) = front(bytes, pmi2::frame_request)
        && let Ok((tag, request)) = pmi2::read_request(message)
    {
        let space = b"kvs_1";
        walk(&request);
        if let Some(out) = written(|out| pmi2::write_request(&request, tag, space, out)) {
            assert_eq!(pmi2::frame_request(&out), Ok(Framed::Whole(out.len())), "{request:?}");
            assert_eq!(pmi2::detect_style(&out), FrameStyle::LeftAligned);
            let (again_tag, again) = pmi2::read_request(&out).expect("we read what we write");
            assert_eq!((again_tag, again.verb()), (tag, request.verb()));
            assert_says_the_same(&again, &request);
        }
    }
    if let Some(message) = front(bytes, pmi2::frame)
        && let Ok(reply) = pmi2::read_reply(message)
    {
        for semicolons in [FrameStyle::LeftAligned, FrameStyle::RightAligned] {
            let out = fits(|out| pmi2::write_reply(&reply, b"word", semicolons, out));
            assert_eq!(pmi2::frame(&out), Ok(Framed::Whole(out.len())), "{reply:?}");
            let again = pmi2::read_reply(&out).expect("we read what we write");
            assert_eq!((again.to, again.tag), (reply.to, reply.tag), "{reply:?}");
            // A missing key is success.
            let is_same = again.answer == reply.answer
                && (again.code == reply.code || reply.answer == Answer::Missing);
            // If `;` is written once, some texts cannot be expressed and are refused, or changed in a
            // message text.
            let is_told = !again.code.is_success() && semicolons == FrameStyle::RightAligned;
            assert!(is_same || is_told || reply.to == Verb::Unknown, "{again:?} for {reply:?}");
        }
    }
}

/// The binary dialect. A number may be longer than needed, so the bytes need not be the same after
/// writing, but their meaning is.
pub fn decode_binary(bytes: &[u8]) {
    let Some(message) = front(bytes, binary::frame) else { return };
    if let Ok((tag, request)) = binary::read_request(message)
        && let Some(out) = written(|out| binary::write_request(&request, tag, out))
    {
        assert_eq!(binary::frame(&out), Ok(Framed::Whole(out.len())), "{request:?}");
        assert_eq!(binary::read_request(&out), Ok((tag, request)));
    }
    if let Ok(reply) = binary::read_reply(message) {
        let out = fits(|out| binary::write_reply(&reply, out));
        assert_eq!(binary::frame(&out), Ok(Framed::Whole(out.len())), "{reply:?}");
        assert_eq!(binary::read_reply(&out), Ok(reply));
    }
}

/// Cuts off the first message; it is the same for any bytes behind it, and for any cut of the bytes.
pub(crate) fn front(bytes: &[u8], frame: fn(&[u8]) -> Result<Framed, Malformed>) -> Option<&[u8]> {
    let Ok(Framed::Whole(len)) = frame(bytes) else { return None };
    assert!(0 < len && len <= bytes.len());
    let message = &bytes[..len];
    assert_eq!(frame(message), Ok(Framed::Whole(len)));
    for cut in [len - 1, len / 2] {
        assert!(!matches!(frame(&message[..cut]), Ok(Framed::Whole(_))), "cut at {cut} of {len}");
    }
    Some(message)
}

/// Reads every part of a request that is read only on demand.
fn walk(request: &Request<'_>) {
    let Request::Spawn(spawn) = request else { return };
    let len = |text: Text<'_>| text.bytes().count();
    let mut sum = 0;
    for program in spawn.programs() {
        sum += len(program.executable);
        sum += program.arguments.iter().map(len).sum::<usize>();
        sum += program.info.iter().map(|pair| len(pair.key) + len(pair.value)).sum::<usize>();
    }
    sum += spawn.preputs().map(|pair| len(pair.key) + len(pair.value)).sum::<usize>();
    std::hint::black_box(sum);
}

/// Checks that a written frame has the same meaning. Only content of lines has no place in a frame.
fn assert_says_the_same(again: &Request<'_>, request: &Request<'_>) {
    match (*again, *request) {
        (Request::FullInit { rank: a, .. }, Request::FullInit { rank: b, .. }) => assert_eq!(a, b),
        (Request::Get { key: a, wait: b, .. }, Request::Get { key: c, wait: d, .. }) => {
            assert_eq!((a, b), (c, d));
        }
        (
            Request::Abort { world: a, message: b, .. },
            Request::Abort { world: c, message: d, .. },
        ) => {
            assert_eq!((a, b), (c, d));
        }
        (again, request) => assert_eq!(again, request),
    }
}

/// Writes a request in as much room as it needs; `None` if the dialect cannot express it.
fn written(write: impl Fn(&mut [u8]) -> Result<usize, WriteError>) -> Option<Vec<u8>> {
    match write(&mut []) {
        Err(WriteError::Full(_)) => {}
        Err(WriteError::Misuse(_)) => return None,
        Ok(len) => panic!("{len} bytes are written into none"),
    }
    Some(fits(|out| {
        write(out).map_err(|unwritten| match unwritten {
            WriteError::Full(full) => full,
            WriteError::Misuse(misuse) => panic!("{misuse} shows only when there is room"),
        })
    }))
}

/// Writes into exactly the room that `write` requires.
pub(crate) fn fits(write: impl Fn(&mut [u8]) -> Result<usize, Full>) -> Vec<u8> {
    let Err(Full { needed }) = write(&mut []) else { panic!("nothing is written into no room") };
    let mut tight = vec![0; needed - 1];
    assert_eq!(write(&mut tight), Err(Full { needed }));
    let mut out = vec![0; needed];
    assert_eq!(write(&mut out), Ok(needed));
    out
}
