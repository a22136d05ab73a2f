//! The codec asks nobody for memory.

// Counting allocations means being the allocator, and its trait is unsafe. Every call goes on to
// the system's allocator with what it was given, so its promises are kept by that one.
#![allow(unsafe_code, reason = "an allocator that counts")]

use pmi_core::command::{
    Answer, Argument, InfoList, Pair, Place, Program, Reply, Request, Spawn, Text, Verb,
};
use pmi_core::error::Code;
use pmi_core::limits::{KEY_BYTES, KVSNAME_BYTES, MESSAGE_BYTES, VALUE_BYTES};
use pmi_core::wire::{Framed, mapping, pmi1};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    /// How often this thread asked for memory; other threads of the test program may.
    static ASKED: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every method passes its arguments on to `System` unchanged and returns what it returns.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.set(ASKED.get() + 1);
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: `ptr` came from `System` by way of `alloc`, with this layout.
        unsafe { System.dealloc(ptr, layout) }
    }
}

const KEY: [u8; KEY_BYTES] = [b'k'; KEY_BYTES];
const VALUE: [u8; VALUE_BYTES] = [b'v'; VALUE_BYTES];
const NAME: [u8; KVSNAME_BYTES] = [b'n'; KVSNAME_BYTES];

#[test]
fn the_counter_counts() {
    assert_eq!(asked(|| drop(std::hint::black_box(Box::new(7)))), 1);
    assert_eq!(asked(|| assert_eq!(std::hint::black_box([7; 64]).len(), 64)), 0);
}

#[test]
fn the_longest_put_is_written_and_read_without_memory() {
    let key = Text::plain(&KEY);
    let put = Request::Put { place: Place::Job(None), key, value: Text::plain(&VALUE) };
    assert_eq!(asked(|| request(&put)), 0);
}

#[test]
fn a_spawn_of_several_programs_is_written_and_read_without_memory() {
    let words = ["a", "b c", "d=e"].map(Text::from);
    let pairs = [Pair { key: Text::from("wdir"), value: Text::from("/tmp") }];
    let program = Program {
        executable: Text::from("a.out"),
        processes: 4,
        arguments: Argument::Given(&words),
        info: InfoList::Given(&pairs),
    };
    let programs = [program; 3];
    let spawn = Spawn::Given { programs: &programs, preputs: &pairs };
    assert_eq!(asked(|| request(&Request::Spawn(spawn))), 0);
}

#[test]
fn replies_are_written_and_read_without_memory() {
    let reply = |to, code, answer| Reply { to, tag: b"", code, answer };
    for reply in [
        reply(Verb::Get, Code::SUCCESS, Answer::Value(Text::plain(&VALUE))),
        reply(Verb::Fence, Code::SUCCESS, Answer::Released { tag: Some(7) }),
        reply(Verb::Lookup, Code::FAIL, Answer::Told(Text::from("no_such_service"))),
    ] {
        let asked = asked(|| {
            let mut out = [0; MESSAGE_BYTES];
            let len = pmi1::write_reply(&reply, b"", &mut out).unwrap();
            assert_eq!(pmi1::frame_reply(&out), Ok(Framed::Whole(len)));
            assert_eq!(pmi1::read_reply(&out[..len]), Ok(reply));
        });
        assert_eq!(asked, 0, "{:?}", reply.to);
    }
}

#[test]
fn a_process_mapping_is_written_and_read_without_memory() {
    let nodes = || (0..64u32).map(|rank| rank / 4);
    let asked = asked(|| {
        let mut out = [0; VALUE_BYTES];
        let len = mapping::write_mapping(nodes(), &mut out).unwrap();
        assert!(mapping::read_mapping(&out[..len], 64).unwrap().eq(nodes()));
    });
    assert_eq!(asked, 0);
}

/// Writes a request and reads it again.
fn request(request: &Request<'_>) {
    let mut out = [0; MESSAGE_BYTES];
    let len = pmi1::write_request(request, &NAME, &mut out).unwrap();
    assert_eq!(pmi1::frame_request(&out), Ok(Framed::Whole(len)));
    let read = pmi1::read_request(&out[..len]).unwrap().unwrap();
    assert_eq!(read.verb(), request.verb());
    if let (Request::Spawn(given), Request::Spawn(read)) = (*request, read) {
        assert!(given == read);
    }
}

/// How often `what` asks for memory.
fn asked(what: impl FnOnce()) -> usize {
    let before = ASKED.get();
    what();
    ASKED.get() - before
}
