//! A client's whole life over a serial line.

use pmi_core::client::{Client, Event, FixedBuffer};
use pmi_core::command::{Group, Place, Request, Text, Version};
use pmi_core::limits::PMI1_LINE;
use pmi_core::machine::Machine;
use pmi_core::time::Instant;

use crate::mcu::{self, Late};

/// PMI-1 alone; the code for the other generation stays out.
#[cfg(not(feature = "pmi2"))]
type Own = Client<FixedBuffer, 1, 1>;
#[cfg(feature = "pmi2")]
type Own = Client<FixedBuffer>;

static CLIENT: Late<Own> = Late::late();

pub(crate) fn run() {
    let client = CLIENT.lend().write(Client::new(FixedBuffer::new()));
    if cfg!(feature = "frames") {
        client.use_own_frames();
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
            version: if cfg!(feature = "frames") { Version::OWN } else { Version::V1_1 },
        },
        Request::Maxes,
        Request::AppNum,
        Request::KvsName,
        Request::Put { place: own, key, value },
        Request::Fence { group: Group::World, tag: None },
        Request::Get { place: own, key, wait: false },
        #[cfg(feature = "all")]
        Request::Publish { service: key, port: value },
        #[cfg(feature = "all")]
        Request::Lookup { service: key },
        Request::Finalize,
    ];
    for request in &life {
        if ask(client, request).is_none() {
            let abort = Request::Abort { code: Some(1), world: true, message: key };
            ask(client, &abort);
            return;
        }
    }
}

#[inline(never)]
fn ask(client: &mut Own, request: &Request<'_>) -> Option<()> {
    let mut line = [0; PMI1_LINE];
    let (_, len) = client.say(request, &mut line).ok()?;
    mcu::send(line.get(..len)?);
    while !client.is_finished() {
        client.handle_input(Instant::ZERO, &[mcu::receive()]).ok()?;
        if let Some(Event::Reply { reply, .. }) = client.poll_event() {
            mcu::send(&[u8::from(reply.code.is_success())]);
            return Some(());
        }
    }
    None
}
