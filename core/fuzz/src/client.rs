//! A client with arbitrary requests of its caller and arbitrary bytes of its server.

use super::script::{self, Step};

use pmi_core::client::{BUFFER_BYTES, Client, ClientEvent, LISTENER_BYTES, Listener, Ticket};
use pmi_core::command::{
    Answer, Argument, FenceGroup, InfoList, Pair, Place, Program, Request, Spawn, Text, Version,
};
use pmi_core::error::{Full, PeerError};
use pmi_core::machine::Machine;
use pmi_core::time::Instant;
use pmi_core::wire::{Framed, WriteError, binary, pmi1, pmi2};

/// Executes the script; the actor of a step does not matter.
pub fn client_bytes(script: &[u8]) {
    listener_bytes(script);
    let mut caller = Caller::new();
    for Step { what, bytes, .. } in script::steps(script).take(STEPS_MAX) {
        match what {
            0..8 => caller.recv(bytes, true),
            8..11 => caller.recv(bytes, false),
            11..14 => bytes.iter().for_each(|byte| caller.recv(&[*byte], true)),
            14 => caller.end(),
            15 => caller.transmit(),
            _ => caller.ask(what - 16, bytes),
        }
        caller.is_new = false;
    }
}

/// The second connection of a process, with arbitrary bytes of the server after the opening.
fn listener_bytes(script: &[u8]) {
    for version in [Version::V1_1, Version::V2_0] {
        let mut listener =
            Listener::new(Buffer::new(), 1, None, version).expect("a version we speak");
        let opening = listener.poll_transmit(&mut [0; LISTENER_BYTES]);
        assert!(matches!(opening, Ok(Some(1..))), "{opening:?}");
        let Version { major, minor } = version;
        let answer =
            format!("cmd=response_to_init_oob rc=0 pmi_version={major} pmi_subversion={minor}\n");
        let said = script::steps(script).take(STEPS_MAX).map(|step| match step.what {
            // A valid reply, so that more than the opening is reached.
            0..4 => answer.as_bytes(),
            _ => step.bytes,
        });
        let mut failed = None;
        for mut bytes in said {
            while failed.is_none() && !bytes.is_empty() {
                match listener.handle_input(NOW, bytes) {
                    Ok(taken) => bytes = &bytes[taken..],
                    Err(error) => failed = Some(error),
                }
                assert_eq!(listener.is_finished(), failed.is_some());
                let told = listener.poll_event();
                assert!(told.is_some() || bytes.is_empty() || failed.is_some());
            }
        }
        assert_eq!(listener.handle_input(NOW, b"").err(), failed, "the first error stays");
    }
}

/// A client and its owner's view of it.
struct Caller {
    client: Client<Buffer, SLOTS>,
    /// Tickets of the requests in flight.
    open: Vec<Ticket>,
    failed: Option<PeerError>,
    /// True if nothing was sent or received yet.
    is_new: bool,
}

impl Caller {
    fn new() -> Self {
        let client = Client::new(Buffer::new());
        Self { client, open: Vec::new(), failed: None, is_new: true }
    }

    fn recv(&mut self, mut bytes: &[u8], polls: bool) {
        loop {
            let taken = match self.client.handle_input(NOW, bytes) {
                Ok(taken) => taken,
                Err(error) => return self.fail(error),
            };
            assert_eq!(self.failed, None, "a client that failed works again");
            bytes = &bytes[taken..];
            let had_event = polls && self.poll();
            if !had_event && (bytes.is_empty() || taken == 0) {
                return;
            }
        }
    }

    /// Polls a reply, if there is one.
    fn poll(&mut self) -> bool {
        let Some(ClientEvent::Reply { ticket, reply }) = self.client.poll_event() else {
            return false;
        };
        // The reply is lent from the buffer, and all of it can be read.
        std::hint::black_box(format!("{reply:?}"));
        let at = self.open.iter().position(|open| *open == ticket);
        let at = at.expect("an answer to a question that is open");
        // For a whole space, these precede the final reply.
        if !matches!(reply.answer, Answer::Count(_) | Answer::Pair(_)) {
            self.open.remove(at);
        }
        true
    }

    fn fail(&mut self, error: PeerError) {
        assert_eq!(*self.failed.get_or_insert(error), error, "the first error stays");
        assert!(self.client.is_finished());
        // A reply that arrived whole before the fault can still be polled, once.
        self.poll();
        assert!(!self.poll());
    }

    fn end(&mut self) {
        if let Err(error) = self.client.handle_end(NOW) {
            self.fail(error);
        }
        assert!(self.client.is_finished());
    }

    /// Transmits one message, in exactly the room that it needs.
    fn transmit(&mut self) {
        let needed = match self.client.poll_transmit(&mut []) {
            Ok(None) => return,
            Ok(Some(len)) => panic!("{len} bytes in no room"),
            Err(Full { needed }) => needed,
        };
        assert_eq!(self.client.poll_transmit(&mut vec![0; needed - 1]), Err(Full { needed }));
        let mut out = vec![0; needed];
        assert_eq!(self.client.poll_transmit(&mut out), Ok(Some(needed)));
        assert_is_message(&out);
        assert_eq!(self.client.poll_transmit(&mut out), Ok(None));
    }

    fn ask(&mut self, number: u8, bytes: &[u8]) {
        let (first, rest) = bytes.split_first().unwrap_or((&0, b""));
        let cut = rest.iter().position(|b| *b == b'=').unwrap_or(rest.len());
        let [key, value] = [&rest[..cut], rest.get(cut + 1..).unwrap_or(b"")].map(Text::plain);
        let service = key;
        let request = match number {
            0 => {
                let version = match first % 8 {
                    0 | 4 => Version::V1_1,
                    1 | 5 => Version::V1_2,
                    6 => self.own_frames(),
                    _ => Version::V2_0,
                };
                Request::Init { version }
            }
            1 => Request::InitAck { id: u64::from(*first) },
            2 => Request::FullInit {
                rank: Some(u32::from(*first)),
                job: None,
                threaded: true,
                method: None,
            },
            3 => Request::KvsName,
            4 => Request::Put { place: place(*first), key, value },
            5 | 6 => Request::Get { place: place(*first), key, wait: first % 2 == 1 },
            7 => Request::Fence { group: FenceGroup::World, tag: None },
            8 => {
                let group = if first % 2 == 0 { FenceGroup::Node } else { FenceGroup::Ranks(rest) };
                Request::Fence { group, tag: Some(u32::from(*first)) }
            }
            9 => Request::Publish { service, port: value },
            10 => Request::Lookup { service },
            11 => Request::Unpublish { service },
            12 => return self.spawn(key, value),
            13 => match first % 10 {
                0 => Request::Maxes,
                1 => Request::AppNum,
                2 => Request::UniverseSize,
                3 => Request::Connect { job: key },
                4 => Request::Disconnect { job: key },
                5 => Request::GetAll { job: key },
                6 => Request::PutAll { job: key, pairs: u32::from(*first) / 10 },
                7 => Request::PutPair { key, value },
                8 => Request::Ring { left: key, right: value },
                _ => Request::Proof { digits: key, is_last: value.is_empty() },
            },
            14 => Request::Abort { code: Some(i32::from(*first)), world: true, message: value },
            _ => Request::Finalize,
        };
        // Some requests are sent at once; of the others, only some are transmitted at once.
        if first % 8 == 5 {
            return self.say(&request);
        }
        if let Ok(ticket) = self.client.start(&request) {
            self.take_up(&request, ticket);
        }
        if first % 8 != 7 {
            self.transmit();
        }
    }

    /// Switches to the binary dialect, if nothing was sent or received yet in another one.
    fn own_frames(&mut self) -> Version {
        if self.is_new {
            self.client.use_binary();
        }
        Version::BINARY
    }

    fn spawn(&mut self, key: Text<'_>, value: Text<'_>) {
        let (arguments, info) = ([value, key], [Pair { key, value }]);
        let program = Program {
            executable: key,
            processes: 3,
            arguments: Argument::Given(&arguments),
            info: InfoList::Given(&info),
        };
        let programs = [program; 2];
        let spawn = Spawn::Given { programs: &programs, preputs: &info };
        self.say(&Request::Spawn(spawn));
    }

    /// Sends a request at once, in exactly the room that it needs.
    fn say(&mut self, request: &Request<'_>) {
        let needed = match self.client.send(request, &mut []) {
            Err(WriteError::Full(Full { needed })) => needed,
            Err(WriteError::Misuse(_)) => return,
            Ok(_) => panic!("a message in no room"),
        };
        let mut out = vec![0; needed];
        assert_eq!(
            self.client.send(request, &mut out[1..]),
            Err(WriteError::Full(Full { needed })),
            "nothing has changed for want of room"
        );
        let (ticket, len) = self.client.send(request, &mut out).expect("room for a message");
        assert_is_message(&out[..len]);
        self.take_up(request, ticket);
    }

    /// Records the request that is now in flight.
    fn take_up(&mut self, request: &Request<'_>, ticket: Ticket) {
        match request {
            Request::Abort { .. } => self.open.clear(),
            // A pair belongs to the exchange that announced it.
            Request::PutPair { .. } => assert!(self.open.contains(&ticket)),
            _ => self.note(ticket),
        }
    }

    fn note(&mut self, ticket: Ticket) {
        assert!(!self.open.contains(&ticket), "two questions of one name");
        self.open.push(ticket);
        // One more may have been answered and not been polled.
        assert!(self.client.outstanding() <= SLOTS && self.open.len() <= SLOTS + 1);
    }
}

/// Buffer of the least size that a client needs.
type Buffer = pmi_core::storage::ArrayBuffer<BUFFER_BYTES>;

fn place(number: u8) -> Place<'static> {
    match number / 2 % 4 {
        0 => Place::Node,
        1 => Place::Attributes,
        2 => Place::Job(Some(Text::plain(b"kvs_2"))),
        _ => Place::Job(None),
    }
}

fn assert_is_message(bytes: &[u8]) {
    let framed = match bytes.first() {
        Some(b'c' | b'm') => pmi1::frame_request(bytes),
        Some(&binary::MAGIC) => binary::frame(bytes),
        _ => pmi2::frame_request(bytes),
    };
    assert_eq!(framed, Ok(Framed::Whole(bytes.len())), "{}", String::from_utf8_lossy(bytes));
}

const SLOTS: usize = 4;
const NOW: Instant = Instant::ZERO;
const STEPS_MAX: usize = 256;
