//! A complete client session over a serial line.

use pmi_core::client::{Client, ClientEvent, FixedBuffer};
use pmi_core::command::{Answer, FenceGroup, Place, Request, Text, Version};
use pmi_core::limits::PMI1_LINE;
use pmi_core::machine::Machine;
use pmi_core::time::Instant;
use pmi_core::wire::WriteError;

use crate::mcu::{self, Late};

/// PMI-1 alone; the code for PMI-2 stays out.
#[cfg(not(feature = "pmi2"))]
type Own = Client<FixedBuffer, 1, 1>;
#[cfg(feature = "pmi2")]
type Own = Client<FixedBuffer>;

static CLIENT: Late<Own> = Late::late();

pub(crate) fn run() {
    let client = CLIENT.lend().write(Client::new(FixedBuffer::new()));
    if cfg!(feature = "binary") {
        client.use_binary();
    }
    #[cfg(feature = "all")]
    let id = u64::from(mcu::receive());
    let (key, value) = ([mcu::receive()], [mcu::receive(); 2]);
    let (key, value) = (Text::plain(&key), Text::plain(&value));
    let own = Place::Job(None);
    let life = [
        #[cfg(feature = "all")]
        Request::InitAck { id },
        Request::Init {
            version: if cfg!(feature = "binary") { Version::BINARY } else { Version::V1_1 },
        },
        Request::Maxes,
        Request::AppNum,
        Request::UniverseSize,
        Request::KvsName,
        Request::Put { place: own, key, value },
        Request::Fence { group: FenceGroup::World, tag: None },
        Request::Get { place: own, key, wait: false },
        #[cfg(feature = "all")]
        Request::Publish { service: key, port: value },
        #[cfg(feature = "all")]
        Request::Lookup { service: key },
        Request::Finalize,
    ];
    for request in &life {
        if let Err(failed) = ask(client, request) {
            mcu::send(&[failed as u8]);
            let abort = Request::Abort { code: Some(failed as i32), world: true, message: key };
            let _nothing_more_can_be_done = ask(client, &abort);
            return;
        }
    }
}

/// Reason that a board stops, as the number it shows.
#[derive(Clone, Copy)]
enum Failed {
    /// The call was wrong.
    Misuse = 1,
    /// The slice is too small.
    Full,
    /// The server broke the protocol, refused the handshake, or disconnected.
    Peer,
    /// The server refused the request.
    Refused,
}

#[inline(never)]
fn ask(client: &mut Own, request: &Request<'_>) -> Result<(), Failed> {
    let mut line = [0; PMI1_LINE];
    let (_, len) = client.send(request, &mut line).map_err(|unwritten| match unwritten {
        WriteError::Full(_) => Failed::Full,
        WriteError::Misuse(_) => Failed::Misuse,
    })?;
    mcu::send(line.get(..len).unwrap_or(b""));
    while !client.is_finished() {
        let input = [mcu::receive()];
        client.handle_input(Instant::ZERO, &input).map_err(|_| Failed::Peer)?;
        if let Some(ClientEvent::Reply { reply, .. }) = client.poll_event() {
            let is_fine = reply.code.is_success() || reply.answer == Answer::Missing;
            show(reply.answer);
            return if is_fine { Ok(()) } else { Err(Failed::Refused) };
        }
    }
    // The line is dead, or an abort was sent.
    client.handle_end(Instant::ZERO).map_err(|_| Failed::Peer)
}

/// Shows the result of the requests.
fn show(answer: Answer<'_>) {
    match answer {
        Answer::Number(number) => mcu::send(&number.to_le_bytes()),
        Answer::Name(text) | Answer::Value(text) | Answer::Message(text) => {
            mcu::send(text.as_plain().unwrap_or(b""));
        }
        _ => {}
    }
}
