//! A server with several sessions, fed by a script; three healthy ones must get their replies.
//!
//! | number | role |
//! |---|---|
//! | 0, 1 | ranks of the first job, on one node |
//! | 2 | an unauthenticated connection to the first job |
//! | 3 | rank 2 of the first job, on another node |
//! | 4 | the only rank of the second job |
//! | 5 | an unauthenticated connection to the third job, which has a secret |
//! | 6 | another unauthenticated connection to the first job |
//! | 7 | the owner of the server |
//!
//! A session that has ended is opened anew. The healthy sessions are rank 3 of the first job and both
//! ranks of a fourth. Its name and keys follow from the script, so that no script can contain them.

mod healthy;
mod link;
mod world;

use super::script::{self, Step};
use world::World;

/// Executes the script.
pub fn session_bytes(script: &[u8]) {
    let mut world = World::new(script);
    world.check_healthy();
    for (at, step) in script::steps(script).take(STEPS_MAX).enumerate() {
        let Step { who, what, bytes } = step;
        match (who, what) {
            (7, _) => world.own(what, bytes),
            (_, 0..12) => world.feed(who, bytes),
            // Without serving any session in between.
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

/// A longer script covers nothing new, and takes time.
const STEPS_MAX: usize = 256;
