//! Deviations of peers from the specification, each with its source and its test.
//!
//! Everything a codec does for the sake of one implementation has its constant or function here,
//! and nothing else in the crate names an implementation.

use crate::command::{Text, Verb, Version};
use crate::error::Code;

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
/// Seen: Flux sends `msg=command not implemented`; this crate's replies of the name service end with
/// `info=`.
/// Test: `vectors/pmi1-quirks.pmi`, "status behind the message".
pub const BEHIND_MSG: [&str; 2] = ["rc", "info"];

/// Names under which an abort carries its text; it extends to the end of the line.
///
/// Seen: `message=` from MPICH 4.1 on (with blanks, even line feeds), `error_msg=` from Flux.
/// Test: `vectors/pmi1-quirks.pmi`, "text of an abort".
pub const ABORT_TEXT: [&str; 2] = ["message", "error_msg"];

/// Names under which an abort carries its code.
///
/// Seen: `exitcode=` everywhere, `exit_code=` in older Flux.
/// Test: `vectors/pmi1-quirks.pmi`, "code of an abort".
pub const ABORT_CODE: [&str; 2] = ["exitcode", "exit_code"];

/// Field that an old server adds to the replies of the name service besides `rc`.
///
/// Seen: Slurm answers `info=ok` or `info=fail` without `rc`. The codec writes both and reads both.
/// Test: `vectors/pmi1-quirks.pmi`, "info instead of rc".
pub const INFO: &str = "info";

/// End of a message for a missing key, regardless of its return code.
///
/// Seen: gforker answers some missing keys with `rc=0 msg=key_KVSNAME_not_found value=`. A key that
/// was put without a value is answered with `msg=success`.
/// Test: `vectors/pmi1-quirks.pmi`, "missing, but with success".
pub const NOT_FOUND: &str = "_not_found";

/// Version that a client requests although it supports a newer one, and that newer version.
///
/// Seen: MPICH from 4.1 on requests 1.1 and uses 1.2 if the reply names it, as hydra 5 does. Flux's
/// client requests 1.1 in the same bytes and rejects every other reply. The owner of a server
/// declares ranks of the first kind; see `Member::accepting_newer`, and `Server::accept_newer` for a
/// library that a rank has loaded at run time, as Python does.
/// Test: `vectors/pmi1-quirks.pmi`, "a newer version than the one requested".
pub const NEWER_THAN_REQUESTED: [Version; 2] = [Version::V1_1, Version::V1_2];

/// Code in a frame for what has no code of its own: an unknown command, for one.
///
/// Seen: the specification has no number below 0, and names `PMI_ERR_UNKNOWNCMD` and `PMI_ERR_COMMFAILED`
/// without numbers. `pmi2.h` of MPICH and Slurm, which numbers all others, has neither; `PMI2_ERR_OTHER` is
/// its last.
/// Test: `vectors/pmi2-errors.pmi`, "an unknown command".
pub const WITHOUT_NUMBER: Code = Code::OTHER;

/// Code of the reply for a missing key in a line.
///
/// Seen: Flux's library returns the number to its caller, which compares it with
/// `PMI_ERR_INVALID_KEY`; Flux's server answers 4, and every other client distinguishes 0 from all
/// other numbers only.
/// Test: `vectors/pmi1-quirks.pmi`, "no such key, by its number".
pub const MISSING_IN_LINES: Code = Code::INVALID_KEY;

/// Prefix of node-local keys: ranks of the node see such a key as soon as it is put, and ranks of other
/// nodes never do.
///
/// Seen: Flux's library for PMI-2 turns attributes of nodes into such keys and fetches them without
/// a fence in between.
/// Test: `vectors/pmi1-quirks.pmi`, "a key of one node".
pub const NODE_LOCAL: &[u8] = b"local::";

/// A put with an empty key has no effect and is answered with success.
///
/// Seen: MPICH up to 4.0 replays one cached put after a singleton start, even if it is empty.
/// Test: `vectors/pmi1-quirks.pmi`, "empty put of a singleton".
pub const EMPTY_PUT_IS_NOTHING: bool = true;

/// Name of the reply to bytes that are no message.
///
/// Seen: MPD. Clients that do not support it fail the call at once, as intended.
/// Test: `vectors/pmi1-errors.pmi`.
pub const UNREADABLE: &[u8] = b"unparseable_msg";

/// Number of lines in the reply to `initack`, unless the first is a refusal.
///
/// Seen: all servers send `cmd=initack` and three `cmd=set` lines; clients up to MPICH 4.0 read
/// the numbers from the last three, newer ones from the first. The codec writes both.
/// Test: `vectors/pmi1-tcp.pmi`.
pub const INITACK_LINES: usize = 4;

/// Bytes that may fill the last of the six places of a left-aligned length. A peer that aligns left
/// doubles `;` in values, every other peer writes it once.
///
/// Seen: MPICH up to 4.0 and Slurm's library (left, doubled); MPICH from 4.1 on (right, once).
/// Test: `vectors/pmi2-quirks.pmi`, "the place of the length tells how a semicolon is written".
pub const BEHIND_LENGTH: [u8; 2] = *b" \t";

/// Fields of `fullinit` that, behind a length on the right, only clients of the specification write: they
/// double `;`, read `flag=` and write booleans in lower case.
///
/// Seen: MPICH from 4.1 on is the only other client that aligns the length right. Its `fullinit` has the rank
/// alone, and it names no exchange; by the specification `thrid` is the field behind the command.
/// Test: `vectors/pmi2-text.pmi`, "a value with a semicolon".
pub const IN_FULLINIT_OF_TEXT: [&str; 4] = ["pmijobid=", "threaded=", "authtype=", "thrid="];

/// True if the body of a frame with its length on the right is of a client of the specification, see
/// [`IN_FULLINIT_OF_TEXT`].
pub fn follows_text(body: &[u8]) -> bool {
    let rest = body.strip_prefix(b"cmd=").unwrap_or(b"");
    let word = rest.split(|byte| *byte == b';').next().unwrap_or(b"");
    let rest = rest.get(word.len() + 1..).unwrap_or(b"");
    if word != b"fullinit" {
        return rest.starts_with(b"thrid=");
    }
    let is_of_text =
        |field: &[u8]| IN_FULLINIT_OF_TEXT.iter().any(|name| field.starts_with(name.as_bytes()));
    rest.split(|byte| *byte == b';').any(is_of_text)
}

/// Names of the field that tells a present key from a missing one.
///
/// Seen: `found=` everywhere; `flag=` in the specification. The codec writes the second as well to clients
/// for which [`follows_text`] holds, and reads both.
/// Test: `vectors/pmi2-text.pmi`, "a conversation by the text".
pub const FOUND: [&str; 2] = ["found", "flag"];

/// Number of bytes of old memory behind the last field of some frames, counted in the length.
///
/// Seen: MPICH 3.3 to 4.0. They may be anything; if the first of them is `;`, it looks as if the
/// last value went on.
/// Test: `vectors/pmi2-quirks.pmi`, "bytes of old memory behind the last field".
pub const STRAY_BYTES: usize = 6;

/// Prefix of the `thrid` of a frame that carries [`STRAY_BYTES`].
///
/// Seen: MPICH 3.3 to 4.0 names the exchange by a printed address; no other client was seen to send a
/// name.
/// Test: `vectors/pmi2-quirks.pmi`, "old memory that begins like a value that goes on".
pub const STRAYING: &[u8] = b"0x";

/// Names under which `fullinit` carries the rank.
///
/// Seen: `pmirank=` everywhere; `srcid=` from Slurm's library if it connected by itself (source).
/// Test: `vectors/pmi2-quirks.pmi`, "a rank by another name".
pub const RANK: [&str; 2] = ["pmirank", "srcid"];

/// Job id that a client sends if its environment has none: Slurm refuses a `fullinit` without one, and
/// does not check it further.
///
/// Seen: Slurm answers `rc=3`.
/// Test: `vectors/pmi2-quirks.pmi`, "an opening that every server takes".
pub const NO_JOB: &str = "0";

/// True if the job id of a `fullinit` is that of the job, or of none: MPICH and Slurm's library repeat
/// `PMI_JOBID`, which a server of this crate is expected to set to the name of the job.
///
/// Seen: no other server compares the two.
/// `vectors/pmi2-ours.pmi` plays it: "a job that is not the one of the connection".
pub fn is_job(named: Text<'_>, job: &[u8]) -> bool {
    named.is_empty() || named == *NO_JOB.as_bytes() || named == *job
}

/// Names under which the reply to `name-lookup` carries the port.
///
/// Seen: `value=` from Slurm and in the specification, `port=` from hydra; each is the one that its own
/// clients read. The codec writes both and reads both.
/// Test: `vectors/pmi2-quirks.pmi`, "a port by two names".
pub const PORT: [&str; 2] = ["value", "port"];

/// Code of a reply with `found=FALSE`.
///
/// Seen: clients up to MPICH 4.0 and Slurm's treat any other as a failure of the call.
/// Test: `vectors/pmi2-quirks.pmi`, "missing, with success or without".
pub const MISSING: Code = Code::SUCCESS;

/// Requests with replies that signal a missing key by a code other than 0.
///
/// Seen: hydra from 4.1 on answers `rc=1` and nothing else.
/// Test: `vectors/pmi2-quirks.pmi`, "missing, with success or without".
pub const MISSING_BY_CODE: [Verb; 3] = [Verb::Get, Verb::NodeGet, Verb::JobGet];

/// Fields that may stand beside a value. In a frame that does not double `;`, any other is the rest
/// of a value with one, and the request is refused: the part in front is not the intended value.
///
/// Seen: MPICH from 4.1 on sends `value=a;b;` for `a;b`; known servers store `a`.
/// Test: `vectors/pmi2-quirks.pmi`, "a torn value".
pub const BESIDE_VALUE: [&str; 13] = [
    "cmd",
    "thrid",
    "key",
    "value",
    "val",
    "name",
    "port",
    "infokeycount",
    "infokey",
    "infoval",
    "jobid",
    "concat",
    "concatid",
];

/// Spellings of a true boolean; the first is the one that old peers read.
///
/// Seen: `TRUE` everywhere; MPICH from 4.1 on reads all of these, and the specification has the second.
/// Test: `vectors/pmi2-quirks.pmi`, "ways to say yes".
pub const YES: [&str; 3] = ["TRUE", "true", "1"];

/// Names under which an abort in a frame carries its text.
///
/// Seen: `msg=` from MPICH up to 4.0 and Slurm's library, `message=` from MPICH from 4.1 on.
/// Test: `vectors/pmi2-quirks.pmi`, "text of an abort".
pub const FRAME_ABORT_TEXT: [&str; 2] = ["msg", "message"];

/// A `jobid` without a value denotes the caller's own job.
///
/// Seen: MPICH from 4.1 on, after a spawn reply without a job.
/// Test: `vectors/pmi2-quirks.pmi`, "a job without a name".
pub const EMPTY_JOB_IS_OWN: bool = true;

/// Field that the reply to `job-connect` must carry beside its code, or clients fail.
///
/// Seen: a boolean for MPICH up to 4.0 and Slurm's library, a number for MPICH from 4.1 on, which
/// reads any word as 0.
/// Test: `vectors/pmi2-quirks.pmi`, "a connection needs no copy".
pub const KVSCOPY: &str = "kvscopy";

/// Value of [`KVSCOPY`] in the specification, whose other booleans are `true` and `false`.
///
/// Seen: in the specification alone.
/// Test: `vectors/pmi2-text.pmi`, "a connection that needs a copy".
pub const COPY: &str = "yes";
