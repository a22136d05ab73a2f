//! Jobs in `pmi2.h`: the own one, new ones and connected ones.

use std::ffi::{c_char, c_int, c_void};

use pmi_core::command::{Pair, Text};
use pmi_core::error::Code;

use super::{argument, fact};
use crate::boundary::call;
use crate::code::{self, CodeResult};
use crate::pmi1::{length, positive, requested, start};
use crate::process;
use crate::text::{InArray, InText, OutArray, OutNumber, OutText};

/// `MPID_Info`: a hint of MPI. The first three fields belong to the MPI library.
#[repr(C)]
#[derive(Debug)]
pub struct InfoEntry {
    handle: c_int,
    pobj_mutex: c_int,
    ref_count: c_int,
    next: *const Self,
    key: InText,
    value: InText,
}

/// `const MPID_Info *`: a list of hints, or null.
pub type Info = InArray<InfoEntry>;

/// The id of the job, which is the same in all its processes.
///
/// Returns: `NOMEM` if the id and its NUL do not fit.
#[allow(unsafe_code, reason = "a name for programs in C")]
// SAFETY: no other function has this name; likewise below.
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Job_GetId(jobid: OutText, jobid_size: c_int) -> c_int {
    call(|| {
        let session = process::session()?;
        match jobid.wanted(jobid_size)? {
            Some(mut jobid) => jobid.write(jobid_size, &session.facts().kvsname, Code::NOMEM),
            None => Ok(()),
        }
    })
}

/// The rank of this process. Spec: the common header.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Job_GetRank(rank: OutNumber<'_>) -> c_int {
    fact(rank, |session| code::number(session.facts().rank))
}

/// Connects this job with another. The server has the values of both, so `conn` is not used.
///
/// Returns: `FAIL` if there is no such job, if its values would have to be copied (`kvscopy=yes`), or the
/// server cannot connect jobs (`pmi-host` and servers of PMIx can; under PMIx alone the connection is
/// that of this process).
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Job_Connect(jobid: InText, _conn: *const c_void) -> c_int {
    call(|| process::session()?.connect_job(argument(&jobid)?))
}

/// Disconnects this job from another.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Job_Disconnect(jobid: InText) -> c_int {
    call(|| process::session()?.disconnect_job(argument(&jobid)?))
}

/// Starts processes as a job of their own. Other threads go on meanwhile.
///
/// Shape: `argcs` has the lengths of the lists in `argvs`, or is null if these end with a null pointer;
/// `info_keyval_vectors` has one array of hints for each program, `preput_keyval_vector` one pointer for each
/// pair. `jobid` and `errors` may be null; `jobid` is empty if the server does not report it.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "the prototype of the specification")]
pub extern "C" fn PMI2_Job_Spawn(
    count: c_int,
    cmds: InArray<InText>,
    argcs: InArray<c_int>,
    argvs: InArray<InArray<InText>>,
    maxprocs: InArray<c_int>,
    info_keyval_sizes: InArray<c_int>,
    info_keyval_vectors: InArray<Info>,
    preput_keyval_size: c_int,
    preput_keyval_vector: InArray<Info>,
    mut jobid: OutText,
    jobid_size: c_int,
    mut errors: OutArray,
) -> c_int {
    call(|| {
        let session = process::session()?;
        let count = positive(count)?;
        let info = |at: usize| -> CodeResult<Vec<Pair<'_>>> {
            let Some(sizes) = info_keyval_sizes.elements(count) else { return Ok(Vec::new()) };
            let len = length(sizes[at])?;
            if len == 0 {
                return Ok(Vec::new());
            }
            let vectors = info_keyval_vectors.elements(count).ok_or(Code::INVALID_ARG)?;
            let entries = vectors[at].elements(len).ok_or(Code::INVALID_ARG)?;
            entries.iter().map(pair).collect()
        };
        let programs = requested(count, &cmds, &argvs, argcs.elements(count), &maxprocs, info)?;
        let preputs = match length(preput_keyval_size)? {
            0 => Vec::new(),
            len => {
                let pointers = preput_keyval_vector.elements(len).ok_or(Code::INVALID_ARG)?;
                let entries = pointers.iter().map(|info| info.elements(1).ok_or(Code::INVALID_ARG));
                entries.map(|one| pair(&one?[0])).collect::<CodeResult<Vec<_>>>()?
            }
        };
        let job = start(&*session, &programs, &preputs, &mut errors)?;
        if !jobid.is_null() && jobid_size > 0 {
            jobid.write(jobid_size, &job.unwrap_or_default(), Code::NOMEM)?;
        }
        Ok(())
    })
}

/// The pair of a hint.
fn pair(entry: &InfoEntry) -> CodeResult<Pair<'_>> {
    let texts = entry.key.bytes().zip(entry.value.bytes());
    let (key, value) = texts.ok_or(Code::INVALID_ARG)?;
    Ok(Pair { key: Text::plain(key), value: Text::plain(value) })
}

// The layout of `pmi2.h`: three numbers and padding, then three pointers.
const _: () = assert!(
    size_of::<InfoEntry>()
        == (3 * size_of::<c_int>()).next_multiple_of(align_of::<*const c_char>())
            + 3 * size_of::<*const c_char>()
);
