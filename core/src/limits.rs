//! All sizes, and their derivation from the few that the interfaces fix.
//!
//! Two ways of counting are in use. The C headers count the terminating NUL: a `char key[64]`
//! holds 63 bytes. The wire has no terminator, and some peers send 64. So this crate *advertises* the C
//! numbers, *sends* what fits a C buffer, and *accepts* one byte more.

/// Longest key, counting the C terminator. Spec: `pmi2.h`, `PMI2_MAX_KEYLEN`.
pub const PMI2_MAX_KEYLEN: usize = 64;
/// Longest value, counting the C terminator. Spec: `pmi2.h`, `PMI2_MAX_VALLEN`.
pub const PMI2_MAX_VALLEN: usize = 1024;
/// Longest attribute value, counting the C terminator. Spec: `pmi2.h`, `PMI2_MAX_ATTRVALUE`.
pub const PMI2_MAX_ATTRVALUE: usize = 1024;

/// Longest name of a key-value space, counting the C terminator. Spec: hydra, Slurm, `get_maxes`.
pub const PMI1_MAX_KVSNAME: usize = 256;
/// Longest PMI-1 key, counting the C terminator.
pub const PMI1_MAX_KEYLEN: usize = PMI2_MAX_KEYLEN;
/// Longest PMI-1 value, counting the C terminator.
pub const PMI1_MAX_VALLEN: usize = PMI2_MAX_VALLEN;

/// Largest key in bytes: one more than a C client sends, without a terminator.
pub const KEY_BYTES: usize = PMI2_MAX_KEYLEN;
/// Largest value in bytes, without a terminator.
pub const VALUE_BYTES: usize = PMI2_MAX_VALLEN;
/// Largest name of a job in bytes, without a terminator.
pub const KVSNAME_BYTES: usize = PMI1_MAX_KVSNAME;
/// Largest name of a service in bytes, without a terminator. No specification limits it; hydra accepts names
/// of more than 200 bytes. The limit is the longest for which a publication is no longer than other messages.
pub const SERVICE_BYTES: usize = PMI1_MAX_KVSNAME;

/// Longest tag of an exchange: PMI-2's `thrid` is a printed pointer, 18 bytes on 64-bit machines. PMI-1 has
/// none.
pub const TAG_BYTES: usize = if cfg!(any(feature = "pmi2", feature = "binary")) { 24 } else { 0 };
/// Bytes kept of an unknown word, to name it in the reply.
pub const WORD_BYTES: usize = 32;
/// Bytes kept of a free text of a peer, for display; fewer on a board with a fixed set of ranks, where every
/// session has room for one.
pub const EXCERPT_BYTES: usize = if cfg!(feature = "dynamic") { 120 } else { 48 };

/// Largest number of jobs that a job is directly connected to: few on a board, none without spawns, and on a
/// host, which has PMIx, more than jobs spawn.
pub const JOB_LINKS: usize = match (cfg!(feature = "pmix"), cfg!(feature = "dynamic")) {
    (true, _) => 256,
    (false, true) => 8,
    (false, false) => 0,
};

/// Largest number of runs of processes with equal codes in the reply to a spawn; none in a build without
/// spawns.
pub const SPAWN_RUNS: usize = if cfg!(feature = "dynamic") { 8 } else { 0 };
/// Largest number of processes for which a spawn reply lists one code each: MPICH up to 4.0 reads no line
/// of more than 1023 bytes. Beyond that the reply has its own code alone.
pub const SPAWN_CODES: u32 = 128;

/// Room for command words, field names, blanks and small numbers around the long fields.
const FRAME_OVERHEAD: usize = 160;

/// Longest PMI-1 line that is not a spawn: a `put` with every field at its longest.
pub const PMI1_LINE: usize = KVSNAME_BYTES + KEY_BYTES + VALUE_BYTES + FRAME_OVERHEAD;

/// Digits in front of a PMI-2 frame. Spec: PMI-2 wire protocol, "Message Format".
pub const PMI2_LENGTH_DIGITS: usize = 6;
/// Length from which on a PMI-2 message of a client goes on in another frame: half of the 64 KiB that Slurm's
/// client and MPICH allot to a command, so that a frame with a long last field is below them too.
pub const PMI2_SPLIT: usize = 32 << 10;
/// Longest PMI-2 frame that is not a spawn. Every `;` of key, value and job may be doubled.
pub const PMI2_FRAME: usize =
    PMI2_LENGTH_DIGITS + 2 * (KVSNAME_BYTES + KEY_BYTES + VALUE_BYTES) + FRAME_OVERHEAD;

/// A buffer of this size holds any message of a client in any dialect, except a spawn and a ring
/// whose two values are both at their longest and full of `;`.
pub const MESSAGE_BYTES: usize = if PMI1_LINE > PMI2_FRAME { PMI1_LINE } else { PMI2_FRAME };

/// Longest reply: the values of both neighbours in a ring, or a port, which stands under two names,
/// with every `;` doubled.
pub const REPLY_BYTES: usize =
    PMI2_LENGTH_DIGITS + 2 * 2 * VALUE_BYTES + KVSNAME_BYTES + FRAME_OVERHEAD;

// The longest literal frame that each size must hold, so that a change of one shows in all.
const _: () = {
    let put = "cmd=put kvsname= key= value=\n".len() + KVSNAME_BYTES + KEY_BYTES + VALUE_BYTES;
    assert!(put <= PMI1_LINE);
    let get = "      cmd=kvs-get;thrid=;jobid=;srcid=-2147483648;key=;".len();
    assert!(get + TAG_BYTES + 2 * (KVSNAME_BYTES + KEY_BYTES) <= PMI2_FRAME);
    let put = "      cmd=kvs-put;thrid=;key=;value=;".len();
    assert!(put + TAG_BYTES + 2 * (KEY_BYTES + VALUE_BYTES) <= PMI2_FRAME);
    let publish = "cmd=publish_name service= port=\n".len() + SERVICE_BYTES + VALUE_BYTES;
    assert!(publish <= PMI1_LINE);
    let publish = "      cmd=name-publish;thrid=;name=;port=;infokeycount=0;".len();
    assert!(publish + TAG_BYTES + 2 * (SERVICE_BYTES + VALUE_BYTES) <= PMI2_FRAME);
    let found = "      cmd=info-getnodeattr-response;thrid=;rc=0;found=TRUE;value=;".len();
    assert!(found + TAG_BYTES + 2 * VALUE_BYTES <= REPLY_BYTES);
    let port = "      cmd=name-lookup-response;thrid=;rc=0;value=;port=;found=TRUE;".len();
    assert!(port + TAG_BYTES + 2 * 2 * VALUE_BYTES <= REPLY_BYTES);
    let ring = "      cmd=ring-response;thrid=;rc=0;ring-count=4294967295;ring-left=;ring-right=;";
    assert!(ring.len() + TAG_BYTES + 2 * 2 * VALUE_BYTES <= REPLY_BYTES);
    // The interface of PMI-2 gives attributes and values the same room; one buffer serves both.
    assert!(PMI2_MAX_ATTRVALUE <= VALUE_BYTES);
};
