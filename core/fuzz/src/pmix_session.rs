//! A server with several sessions of PMIx, fed by a script; a job of two healthy ranks must get its
//! replies.
//!
//! | number | role |
//! |---|---|
//! | 0 to 6 | connecting peers, which may claim any identity |
//! | 7 | the owner of the server |
//!
//! The owner admits every peer that claims to be a rank of the first job, until the script forbids it.
//! A session that has ended is opened anew. The healthy ranks are
//! [`PmixClient`](pmi_core::client::pmix::PmixClient)s, one of either family of encodings; the name of
//! their job follows from the script, so that no script can contain it.

mod healthy;
mod memory;
mod world;

use super::script::{self, Step};
use world::World;

/// Executes the script.
pub fn session_pmix(script: &[u8]) {
    let mut world = World::new(script);
    world.check_healthy();
    for (at, step) in script::steps(script).take(STEPS_MAX).enumerate() {
        let Step { who, what, bytes } = step;
        match (who, what) {
            (7, _) => world.own(what, bytes),
            (_, 0..6) => world.feed(who, bytes),
            // Bytes as the body of a message, so that the fuzzer need not guess its length.
            (_, 6..14) => world.feed_message(who, bytes),
            // A greeting that is as valid as possible.
            (_, 14..18) => world.greet(who, bytes),
            (_, 18..22) => world.feed_unread(who, bytes),
            (_, 22..26) => world.feed_one_by_one(who, bytes),
            (_, 26..29) => world.end(who),
            _ => world.settle(),
        }
        world.check_memory();
        if at % 8 == 7 {
            world.check_healthy();
        }
    }
    world.check_healthy();
}

/// A longer script covers nothing new, and takes time.
const STEPS_MAX: usize = 256;
