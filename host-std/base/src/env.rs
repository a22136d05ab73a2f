//! Variables of a rank that follow from its job alone, and the inherited ones: `pmi-host run` and the tools
//! start programs with them.

use crate::variables;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Variables with the same value in every rank of a job with this number of ranks, in all and on this node.
pub fn of_job(
    [ranks, local]: [u32; 2],
    fd: u32,
    host: &str,
    is_spawned: bool,
) -> [(&'static str, String); 5] {
    [
        ("PMI_FD", fd.to_string()),
        ("PMI_SIZE", ranks.to_string()),
        ("PMI_SPAWNED", u8::from(is_spawned).to_string()),
        ("PMI_HOSTNAME", host.to_owned()),
        ("MPI_LOCALNRANKS", local.to_string()),
    ]
}

/// Variables that differ from rank to rank.
pub fn of_rank(rank: u32, local_rank: u32) -> [(&'static str, String); 2] {
    [("PMI_RANK", rank.to_string()), ("MPI_LOCALRANKID", local_rank.to_string())]
}

/// Variables of the launcher that a program may inherit by default.
pub fn inherited(
    ours: impl Iterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = (OsString, OsString)> {
    ours.filter(|(name, _)| variables::removed(name.as_bytes()).is_none())
}
