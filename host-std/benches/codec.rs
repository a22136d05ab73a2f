//! Time and memory of reading and writing one message, in lines and in frames.
//!
//! `cargo bench -p pmi-host --bench codec` prints the time of each. Allocations would be listed
//! below the times; there are none, and `core/tests/no_alloc.rs` checks it. It is here because what measures
//! takes longer to compile than the core, for each combination of features and target of its tests.

use divan::{AllocProfiler, Bencher, black_box};
use pmi_core::command::{Answer, FenceGroup, Place, Reply, Request, Text, Verb};
use pmi_core::error::Code;
use pmi_core::limits::{KEY_BYTES, KVSNAME_BYTES, MESSAGE_BYTES, VALUE_BYTES};
use pmi_core::wire::{Framed, pmi1};

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

const KEY: [u8; KEY_BYTES] = [b'k'; KEY_BYTES];
const VALUE: [u8; VALUE_BYTES] = [b'v'; VALUE_BYTES];
const NAME: [u8; KVSNAME_BYTES] = [b'n'; KVSNAME_BYTES];

fn main() {
    divan::main();
}

mod emit {
    use super::*;

    #[divan::bench]
    fn longest_put(bencher: Bencher) {
        request(bencher, LONGEST_PUT);
    }

    #[divan::bench]
    fn get_reply(bencher: Bencher) {
        reply(bencher, GET_REPLY);
    }

    #[divan::bench]
    fn barrier_in(bencher: Bencher) {
        request(bencher, BARRIER_IN);
    }

    #[divan::bench]
    fn barrier_out(bencher: Bencher) {
        reply(bencher, BARRIER_OUT);
    }

    fn request(bencher: Bencher, request: Request<'static>) {
        let mut out = [0; MESSAGE_BYTES];
        bencher
            .bench_local(|| pmi1::write_request(black_box(&request), &NAME, black_box(&mut out)));
    }

    fn reply(bencher: Bencher, reply: Reply<'static>) {
        let mut out = [0; MESSAGE_BYTES];
        bencher.bench_local(|| pmi1::write_reply(black_box(&reply), b"", black_box(&mut out)));
    }
}

mod parse {
    use super::*;

    #[divan::bench]
    fn longest_put(bencher: Bencher) {
        request(bencher, LONGEST_PUT);
    }

    #[divan::bench]
    fn get_reply(bencher: Bencher) {
        reply(bencher, GET_REPLY);
    }

    #[divan::bench]
    fn barrier_in(bencher: Bencher) {
        request(bencher, BARRIER_IN);
    }

    #[divan::bench]
    fn barrier_out(bencher: Bencher) {
        reply(bencher, BARRIER_OUT);
    }

    fn request(bencher: Bencher, request: Request<'static>) {
        let mut bytes = [0; MESSAGE_BYTES];
        pmi1::write_request(&request, &NAME, &mut bytes).expect("a message that fits");
        bencher.bench_local(|| {
            let bytes = black_box(&bytes);
            let Ok(Framed::Whole(len)) = pmi1::frame_request(bytes) else { return None };
            black_box(pmi1::read_request(&bytes[..len]).ok()).map(|_| len)
        });
    }

    fn reply(bencher: Bencher, reply: Reply<'static>) {
        let mut bytes = [0; MESSAGE_BYTES];
        pmi1::write_reply(&reply, b"", &mut bytes).expect("a message that fits");
        bencher.bench_local(|| {
            let bytes = black_box(&bytes);
            let Ok(Framed::Whole(len)) = pmi1::frame_reply(bytes) else { return None };
            black_box(pmi1::read_reply(&bytes[..len]).ok()).map(|_| len)
        });
    }
}

/// The same in the frames of old clients: the length on the left, and `;` doubled.
mod frames {
    use super::*;
    use pmi_core::limits::REPLY_BYTES;
    use pmi_core::wire::pmi2::{self, FrameStyle};

    #[divan::bench]
    fn emit_longest_put(bencher: Bencher) {
        let mut out = [0; MESSAGE_BYTES];
        let put = LONGEST_PUT;
        bencher
            .bench_local(|| pmi2::write_request(black_box(&put), b"7", &NAME, black_box(&mut out)));
    }

    #[divan::bench(args = [GET_REPLY, BARRIER_OUT].map(Shown))]
    fn emit_reply(bencher: Bencher, Shown(reply): Shown) {
        let mut out = [0; REPLY_BYTES];
        bencher.bench_local(|| {
            let out = black_box(&mut out);
            pmi2::write_reply(black_box(&reply), b"", FrameStyle::LeftAligned, out)
        });
    }

    #[divan::bench]
    fn parse_longest_put(bencher: Bencher) {
        let mut bytes = [0; MESSAGE_BYTES];
        pmi2::write_request(&LONGEST_PUT, b"7", &NAME, &mut bytes).expect("a message that fits");
        bencher.bench_local(|| {
            let bytes = black_box(&bytes);
            let Ok(Framed::Whole(len)) = pmi2::frame_request(bytes) else { return None };
            black_box(pmi2::read_request(&bytes[..len]).ok()).map(|_| len)
        });
    }

    #[divan::bench(args = [GET_REPLY, BARRIER_OUT].map(Shown))]
    fn parse_reply(bencher: Bencher, Shown(reply): Shown) {
        let mut bytes = [0; REPLY_BYTES];
        pmi2::write_reply(&reply, b"", FrameStyle::LeftAligned, &mut bytes)
            .expect("a message that fits");
        bencher.bench_local(|| {
            let bytes = black_box(&bytes);
            let Ok(Framed::Whole(len)) = pmi2::frame(bytes) else { return None };
            black_box(pmi2::read_reply(&bytes[..len]).ok()).map(|_| len)
        });
    }

    /// A reply, named by its request.
    #[derive(Clone, Copy)]
    struct Shown(Reply<'static>);

    impl std::fmt::Display for Shown {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{:?}", self.0.to)
        }
    }
}

const LONGEST_PUT: Request<'static> =
    Request::Put { place: Place::Job(None), key: Text::plain(&KEY), value: Text::plain(&VALUE) };

const BARRIER_IN: Request<'static> = Request::Fence { group: FenceGroup::World, tag: None };

const GET_REPLY: Reply<'static> = Reply {
    to: Verb::Get,
    tag: b"",
    code: Code::SUCCESS,
    answer: Answer::Value(Text::plain(&VALUE)),
};

const BARRIER_OUT: Reply<'static> = Reply {
    to: Verb::Fence,
    tag: b"",
    code: Code::SUCCESS,
    answer: Answer::Released { tag: None },
};
