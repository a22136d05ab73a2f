//! A complete client session over a serial line.

use pmi_core::client::{Client, ClientEvent};
use pmi_core::command::{Answer, FenceGroup, Place, Request, Text, Version};
use pmi_core::machine::Machine;
use pmi_core::time::Instant;
use pmi_core::wire::WriteError;

use crate::mcu::{self, Late};

/// Room for every line, or for those of a job whose names and values are short.
#[cfg(not(feature = "short"))]
type Line = pmi_core::client::Pmi1Buffer;
#[cfg(feature = "short")]
type Line = pmi_core::storage::ArrayBuffer<192>;

/// PMI-1 alone; the code for PMI-2 stays out.
#[cfg(not(feature = "pmi2"))]
type Own = Client<Line, 1, 1>;
#[cfg(feature = "pmi2")]
type Own = Client<Line>;

static CLIENT: Late<Own> = Late::late();

#[inline(never)]
pub(crate) fn run() {
    let client = CLIENT.lend().write(Client::new(Line::new()));
    if cfg!(feature = "binary") {
        client.use_binary();
    }
    let (key, value) = ([mcu::receive()], [mcu::receive(); 2]);
    let (key, value) = (Text::plain(&key), Text::plain(&value));
    // One at a time: a table of them would be the largest part of the stack.
    for step in u8::from(!cfg!(feature = "all")).. {
        let Some(request) = request(step, key, value) else { return };
        if let Err(failed) = ask(client, &request) {
            mcu::send(&[failed as u8]);
            let abort = Request::Abort { code: Some(failed as i32), world: true, message: key };
            let _nothing_more_can_be_done = ask(client, &abort);
            return;
        }
    }
}

/// Step of the last request.
const LAST: u8 = if cfg!(feature = "all") { 11 } else { 9 };

fn request<'a>(step: u8, key: Text<'a>, value: Text<'a>) -> Option<Request<'a>> {
    let own = Place::Job(None);
    Some(match step {
        #[cfg(feature = "all")]
        0 => Request::InitAck { id: u64::from(mcu::receive()) },
        1 => Request::Init {
            version: if cfg!(feature = "binary") { Version::BINARY } else { Version::V1_1 },
        },
        2 => Request::Maxes,
        3 => Request::AppNum,
        4 => Request::UniverseSize,
        5 => Request::KvsName,
        6 => Request::Put { place: own, key, value },
        7 => Request::Fence { group: FenceGroup::World, tag: None },
        8 => Request::Get { place: own, key, wait: false },
        #[cfg(feature = "all")]
        9 => Request::Publish { service: key, port: value },
        #[cfg(feature = "all")]
        10 => Request::Lookup { service: key },
        step if step == LAST => Request::Finalize,
        _ => return None,
    })
}

/// Reason that a board stops, as the number it shows.
#[derive(Clone, Copy)]
enum Failed {
    /// The call was wrong.
    Misuse = 1,
    /// The buffer is too small.
    Full,
    /// The server broke the protocol, refused the handshake, or disconnected.
    Peer,
    /// The server refused the request.
    Refused,
}

#[inline(never)]
fn ask(client: &mut Own, request: &Request<'_>) -> Result<(), Failed> {
    client.send_in_place(request).map_err(|unwritten| match unwritten {
        WriteError::Full(_) => Failed::Full,
        WriteError::Misuse(_) => Failed::Misuse,
    })?;
    mcu::send(client.outgoing().unwrap_or(b""));
    client.end_outgoing();
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
