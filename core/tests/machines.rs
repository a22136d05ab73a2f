//! Replays transcripts with the crate's own machines in the roles.
//!
//! A scenario with a line `@ client` is replayed with a client for each rank. The client receives the
//! requests of the transcript, and must send the same bytes for messages with a star; it is given the
//! server's bytes, from any server, and must read their meaning. With `@ client threads` it names its
//! exchanges. A scenario with a line `@ listener` is replayed with the client's end of a second
//! connection, in the same way.
//!
//! A scenario with a line `@ job` is replayed with a server: the bytes of the clients are its input,
//! and its output must be exactly that of the transcript, no sooner and no later. There:
//!
//! * `@ job NAME nodes=0,0,1` is the job: its name and the node of each rank. `universe=16` may
//!   follow, `newer` for ranks that take a newer version than they request, and `callers` last, for
//!   ranks that connect by themselves.
//! * `@ preset KEY VALUE` and `@ preput KEY VALUE`, `@ spawned NAME nodes=0,1` and `@ not-spawned
//!   CODE`, `@ notify RANK checkpoint` and `@ notify RANK abort CODE`, and `@ end RANK` (the member's
//!   stream ends) are actions of the owner. The ranks of a spawned job, of `@ another NAME nodes=0`,
//!   and of `@ caller` (an unauthenticated connection) have the numbers behind those that are taken.
//! * `secret=TEXT` lets unauthenticated connections prove that they know it; the nonce is all threes.
//! * `!` lines are the events of the owner, in the words of `tests/stage/server.rs`;
//!   `! rank=0: finished` means that the session has ended regularly.
//!
//! The rest of the form is described in `tests/vectors.rs`.

mod meaning;
mod stage;
mod transcript;

use transcript::Scenario;

#[test]
fn our_server_says_exactly_what_the_transcripts_say() {
    let scenarios = scenarios(|scenario| scenario.does("job ").is_some());
    assert!(scenarios.len() >= 10, "{} are played", scenarios.len());
    for piece_bytes in PIECES {
        scenarios.iter().for_each(|scenario| stage::server::play(scenario, piece_bytes));
    }
}

#[test]
fn our_client_says_exactly_what_the_transcripts_say_and_hears_what_they_mean() {
    let scenarios = scenarios(|scenario| scenario.does("client").is_some());
    assert!(scenarios.len() >= 15, "{} are played", scenarios.len());
    for piece_bytes in PIECES {
        let played = scenarios.iter().map(|scenario| stage::client::play(scenario, piece_bytes));
        let messages: usize = played.sum();
        assert!(messages >= 150, "{messages} messages are said and received");
    }
}

#[test]
fn our_listener_opens_as_the_transcripts_do_and_hears_what_they_mean() {
    let scenarios = scenarios(|scenario| scenario.does("listener").is_some());
    for piece_bytes in PIECES {
        let played = scenarios.iter().map(|scenario| stage::listener::play(scenario, piece_bytes));
        let messages: usize = played.sum();
        assert_eq!((scenarios.len(), messages), (4, 9));
    }
}

#[test]
fn client_understands_every_kind_of_server() {
    let played = scenarios(|scenario| scenario.does("client").is_some());
    let lines = ["hydra4", "hydra5", "gforker", "slurm", "flux", "tcp", "spawn", "ours"];
    let frames = ["hydra4-mpich4", "hydra4-slurm", "hydra5", "slurm", "ours"];
    let lines = lines.map(|server| format!("pmi1-{server}.pmi:"));
    let frames = frames.map(|server| format!("pmi2-{server}.pmi:"));
    for file in lines.iter().chain(&frames) {
        assert!(played.iter().any(|s| s.label.starts_with(file)), "no scenario of {file}");
    }
}

fn scenarios(is_meant: impl Fn(&Scenario) -> bool) -> Vec<Scenario> {
    transcript::all().into_iter().flat_map(|t| t.scenarios).filter(is_meant).collect()
}

/// At once, byte by byte, and in pieces that fit nothing.
const PIECES: [usize; 3] = [usize::MAX, 1, 7];
