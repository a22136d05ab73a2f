//! The suite that every [`Link`] passes.
//!
//! A crate with a link of its own calls [`all`] from one of its tests, with a function that makes
//! connected pairs and one that lets time pass between two tries: a pause for sockets, a turn of
//! the stack for a network in the same program, nothing for a pipe in memory. Where nothing moves
//! before the caller has gone back to its event loop, it awaits [`awaited::all`] instead.
//!
//! A pair has room for at least 16 bytes that were written and not yet read. Every function here
//! panics, with what was broken, if the link does not conform.

pub mod awaited;

use core::pin::pin;
use core::task::{Context, Waker};

use crate::link::Link;

/// Runs every check.
pub fn all<A: Link, B: Link>(mut connect: impl FnMut() -> (A, B), mut pause: impl FnMut()) {
    at_once(awaited::all(&mut async || connect(), &mut async || pause()));
}

/// A reader with little room gets everything, in order.
pub fn short_reads<A: Link, B: Link>(mut connect: impl FnMut() -> (A, B), mut pause: impl FnMut()) {
    at_once(awaited::short_reads(&mut async || connect(), &mut async || pause()));
}

/// Bytes that are written and read one by one arrive in order, both ways.
pub fn one_byte_at_a_time<A: Link, B: Link>(
    mut connect: impl FnMut() -> (A, B),
    mut pause: impl FnMut(),
) {
    at_once(awaited::one_byte_at_a_time(&mut async || connect(), &mut async || pause()));
}

/// A read without bytes reports that, at the start and in the middle, and loses nothing.
pub fn not_now_in_the_middle<A: Link, B: Link>(
    mut connect: impl FnMut() -> (A, B),
    mut pause: impl FnMut(),
) {
    at_once(awaited::not_now_in_the_middle(&mut async || connect(), &mut async || pause()));
}

/// A peer that does not read is noticed, or everything is kept for it; nothing is lost either way.
pub fn back_pressure<A: Link, B: Link>(
    mut connect: impl FnMut() -> (A, B),
    mut pause: impl FnMut(),
) {
    at_once(awaited::back_pressure(&mut async || connect(), &mut async || pause()));
}

/// Bytes that were sent before the end are read before the end, which then stays.
pub fn end_of_stream<A: Link, B: Link>(
    mut connect: impl FnMut() -> (A, B),
    mut pause: impl FnMut(),
) {
    at_once(awaited::end_of_stream(&mut async || connect(), &mut async || pause()));
}

/// A peer that goes with bytes unread is an end or an error, and writing to it fails in the end.
pub fn gone_without_reading<A: Link, B: Link>(
    mut connect: impl FnMut() -> (A, B),
    mut pause: impl FnMut(),
) {
    at_once(awaited::gone_without_reading(&mut async || connect(), &mut async || pause()));
}

/// A lot arrives unchanged, both ways at once.
pub fn big_transfer<A: Link, B: Link>(
    mut connect: impl FnMut() -> (A, B),
    mut pause: impl FnMut(),
) {
    at_once(awaited::big_transfer(&mut async || connect(), &mut async || pause()));
}

/// Runs checks that wait for nothing. (Executors such as `futures_lite::future::block_on` need the standard
/// library.)
fn at_once(checks: impl Future<Output = ()>) {
    let polled = pin!(checks).poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_ready(), "functions that wait are for the awaited suite");
}
