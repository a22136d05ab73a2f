//! A server with several sessions of PMIx, fed by a script; a job of two healthy ranks must get its answers.
//!
//! | who | is |
//! |---|---|
//! | 0 to 6 | callers, who may claim to be anybody |
//! | 7 | the owner of the server |
//!
//! The owner lets in whoever claims to be a rank of the first job, until it is told not to. A session that is
//! over is opened anew. The healthy ones are [`Client`](pmi_core::client::pmix::Client)s, one of either family of
//! encodings; the name of their job follows from the script, so that no script can say it.

mod healthy;
mod memory;
mod world;

use super::script::{self, Step};
use world::World;

/// Plays the script.
pub fn session_pmix(script: &[u8]) {
    let mut world = World::new(script);
    world.check_healthy();
    for (at, step) in script::steps(script).take(STEPS_MAX).enumerate() {
        let Step { who, what, bytes } = step;
        match (who, what) {
            (7, _) => world.own(what, bytes),
            (_, 0..6) => world.feed(who, bytes),
            // Bytes as the body of a message, so that nobody has to guess how long it is.
            (_, 6..14) => world.feed_message(who, bytes),
            // A greeting that is right as far as possible.
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

/// A script that is longer says nothing new, and takes its time.
const STEPS_MAX: usize = 256;
