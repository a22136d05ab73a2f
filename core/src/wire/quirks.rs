//! How peers differ from the text: what, seen where, and which test holds it.
//!
//! Everything a codec does for the sake of one implementation has its constant or function here,
//! and nothing else in the crate names an implementation.

/// Fields that some servers write behind `value=` in `get_result`.
///
/// Seen: hydra 4.1 and 4.2 (`rc=0 value=V found=TRUE`). A value itself may hold blanks (Flux), so
/// these names end it only when they stand at the end of the line and nowhere before.
/// Test: `vectors/pmi1-quirks.pmi`, "found behind the value".
pub const BEHIND_VALUE: [&str; 4] = ["found", "rc", "msg", "tag"];

/// Fields that may stand behind `value=` of a `put`, since pairs come in any order.
///
/// Seen: raw probes; hydra, gforker and Slurm take pairs in any order.
/// Test: `vectors/pmi1-quirks.pmi`, "value before key".
pub const BEHIND_PUT: [&str; 2] = ["key", "kvsname"];

/// Fields that may stand behind `port=`.
///
/// Seen: hydra up to 4.0 writes `port=P info=ok rc=0 msg=success`.
/// Test: `vectors/pmi1-quirks.pmi`, "status behind the port".
pub const BEHIND_PORT: [&str; 4] = ["service", "info", "rc", "msg"];

/// Fields that may stand behind `msg=`, which some servers fill with several words.
///
/// Seen: Flux says `msg=command not implemented`; our own answers of the name service end with
/// `info=`.
/// Test: `vectors/pmi1-quirks.pmi`, "status behind the message".
pub const BEHIND_MSG: [&str; 2] = ["rc", "info"];

/// Names under which an abort carries its text; it goes on to the end of the line.
///
/// Seen: `message=` from MPICH 4.1 on (with blanks, even line feeds), `error_msg=` from Flux.
/// Test: `vectors/pmi1-quirks.pmi`, "text of an abort".
pub const ABORT_TEXT: [&str; 2] = ["message", "error_msg"];

/// Names under which an abort carries its code.
///
/// Seen: `exitcode=` everywhere, `exit_code=` in older Flux.
/// Test: `vectors/pmi1-quirks.pmi`, "code of an abort".
pub const ABORT_CODE: [&str; 2] = ["exitcode", "exit_code"];

/// What an old server adds to the answers of the name service besides `rc`.
///
/// Seen: Slurm answers `info=ok` or `info=fail` without `rc`; we write both and read both.
/// Test: `vectors/pmi1-quirks.pmi`, "info instead of rc".
pub const INFO: &str = "info";

/// How a message ends that says "no such key", whatever the return code says.
///
/// Seen: gforker answers some missing keys with `rc=0 msg=key_KVSNAME_not_found value=`. A key that
/// was put without a value is answered with `msg=success`.
/// Test: `vectors/pmi1-quirks.pmi`, "missing, but with success".
pub const NOT_FOUND: &str = "_not_found";

/// A put with an empty key carries nothing and is answered with success.
///
/// Seen: MPICH up to 4.0 replays one cached put after a singleton start, even if it is empty.
/// Test: `vectors/pmi1-quirks.pmi`, "empty put of a singleton".
pub const EMPTY_PUT_IS_NOTHING: bool = true;

/// The name of the reply to bytes that are no message.
///
/// Seen: MPD. Clients that do not know it fail the call at once, which is what should happen.
/// Test: `vectors/pmi1-errors.pmi`.
pub const UNREADABLE: &[u8] = b"unparseable_msg";

/// How many lines answer `initack`, unless the first is a refusal.
///
/// Seen: all servers send `cmd=initack` and three `cmd=set` lines; clients up to MPICH 4.0 read
/// the numbers from the last three, newer ones from the first. We write both.
/// Test: `vectors/pmi1-tcp.pmi`.
pub const INITACK_LINES: usize = 4;
