//! A server with several sessions, fed by a script; three healthy ones must get their answers.
//!
//! | who | is |
//! |---|---|
//! | 0, 1 | ranks of the first job, on one node |
//! | 2 | a caller of the first job |
//! | 3 | rank 2 of the first job, on another node |
//! | 4 | the one rank of the second job |
//! | 5 | a caller of the third job, which has a secret |
//! | 6 | another caller of the first job |
//! | 7 | the owner of the server |
//!
//! A session that is over is opened anew. The healthy ones are rank 3 of the first job and both
//! ranks of a fourth, whose name and keys follow from the script, so that no script can say them.

mod healthy;
mod link;
mod world;

use super::script::{self, Step};
use world::World;

/// Plays the script.
pub fn session_bytes(script: &[u8]) {
    let mut world = World::new(script);
    world.check_healthy();
    for (at, step) in script::steps(script).take(STEPS_MAX).enumerate() {
        let Step { who, what, bytes } = step;
        match (who, what) {
            (7, _) => world.own(what, bytes),
            (_, 0..12) => world.feed(who, bytes),
            // Without serving anybody in between.
            (_, 12..24) => world.link(who).send(bytes),
            (_, 24..26) => world.end(who),
            (_, 26..28) => world.feed_one_by_one(who, bytes),
            _ => world.settle(),
        }
        if at % 8 == 7 {
            world.check_healthy();
        }
    }
    world.check_healthy();
}

/// A script that is longer says nothing new, and takes its time.
const STEPS_MAX: usize = 256;
