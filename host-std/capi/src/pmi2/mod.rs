//! The functions of `pmi2.h`, for any number of threads at once. Spec: the page "PMI v2 API" of MPICH, with
//! the prototypes of the common header (that of Slurm and MPICH 4.0), which differ from the page in a few
//! parameters.

mod attributes;
mod jobs;

use std::ffi::c_int;

use pmi_core::error::Code;

pub use self::attributes::*;
pub use self::jobs::*;
use crate::boundary::{self, call};
use crate::code::{self, CodeResult};
use crate::pmi1::abort;
use crate::process;
use crate::session::{Generation, Session, read_value};
use crate::text::{InText, OutNumber, OutText, write_number};

/// Opens the session. With a server that does not speak PMI-2 it is one of PMI-1.
///
/// Spec: PMI v2 API, `PMI2_Init`. A second call counts one more user of the session, which `PMI2_Finalize`
/// ends when it was called as often.
#[allow(unsafe_code, reason = "a name for programs in C")]
// SAFETY: no other function has this name; likewise below.
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Init(
    spawned: OutNumber<'_>,
    size: OutNumber<'_>,
    rank: OutNumber<'_>,
    appnum: OutNumber<'_>,
) -> c_int {
    call(|| {
        let places = spawned.zip(size).zip(rank.zip(appnum));
        let ((spawned, size), (rank, appnum)) = places.ok_or(Code::INVALID_ARG)?;
        let session = process::open(Generation::Pmi2)?;
        let facts = session.facts();
        spawned.write(c_int::from(facts.spawned));
        size.write(code::number(facts.size)?);
        rank.write(code::number(facts.rank)?);
        appnum.write(session.appnum()?.map_or(Ok(-1), code::number)?);
        Ok(())
    })
}

/// 1 while the session is open, else 0.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Initialized() -> c_int {
    boundary::value(0, || c_int::from(process::session().is_ok()))
}

/// Ends the session.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Finalize() -> c_int {
    call(process::finalize)
}

/// Prints the message, has the server end the job (or with `flag` 0 only this process), and exits with code
/// 1. It does not return.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Abort(flag: c_int, msg: InText) -> c_int {
    call(|| abort(1, flag != 0, msg.bytes().unwrap_or(b"")))
}

/// Stores a value under a key; others see it after `PMI2_KVS_Fence`.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_KVS_Put(key: InText, value: InText) -> c_int {
    call(|| {
        let session = process::session()?;
        session.put(key_of(&*session, &key)?, value_of(&*session, &value)?)
    })
}

/// Waits until every process of the job has called it; then all see what was put before.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_KVS_Fence() -> c_int {
    call(|| process::session()?.fence())
}

/// Reads a value of this job, or of the connected job `jobid`; `src_pmi_id` is the rank that has put it, or
/// `PMI2_ID_NULL`.
///
/// Shape: `vallen` is the length of the value. If value and NUL do not fit into `maxvalue` bytes, the part
/// that fits is written, and `vallen` is the negative number of bytes needed, the NUL included.
///
/// Returns: `INVALID_KEY` if there is no such key.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_KVS_Get(
    jobid: InText,
    src_pmi_id: c_int,
    key: InText,
    mut value: OutText,
    maxvalue: c_int,
    vallen: OutNumber<'_>,
) -> c_int {
    call(|| {
        let session = process::session()?;
        let key = key_of(&*session, &key)?;
        let vallen = vallen.ok_or(Code::INVALID_ARG)?;
        check_buffer(&value, maxvalue)?;
        let job = jobid.bytes().filter(|job| !job.is_empty());
        let source = u32::try_from(src_pmi_id).ok();
        let mut copy = |found: &[u8]| {
            let written = value.write_start(maxvalue, found)?;
            let len = c_int::try_from(found.len()).map_err(|_| Code::FAIL)?;
            Ok(if written == found.len() { len } else { -(len + 1) })
        };
        let len = match job {
            Some(_) => session.get(job, source, key)?.map(|found| copy(&found)),
            None => read_value(&*session, source, key, copy)?,
        };
        vallen.write(len.ok_or(Code::INVALID_KEY)??);
        Ok(())
    })
}

/// Publishes a port under the name of a service. Known servers ignore hints, so `info_ptr` is not read.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Nameserv_publish(
    service_name: InText,
    _info_ptr: Info,
    port: InText,
) -> c_int {
    call(|| process::session()?.publish(argument(&service_name)?, argument(&port)?))
}

/// Reads the port of a service.
///
/// Returns: `FAIL` if there is no such service, `NOMEM` if the port and its NUL do not fit.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Nameserv_lookup(
    service_name: InText,
    _info_ptr: Info,
    mut port: OutText,
    port_len: c_int,
) -> c_int {
    call(|| {
        let session = process::session()?;
        let service = argument(&service_name)?;
        check_buffer(&port, port_len)?;
        let found = session.lookup(service)?.ok_or(Code::FAIL)?;
        port.write(port_len, &found, Code::NOMEM)
    })
}

/// Withdraws a published name.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Nameserv_unpublish(service_name: InText, _info_ptr: Info) -> c_int {
    call(|| process::session()?.unpublish(argument(&service_name)?))
}

/// Exchanges a value with the ranks before and behind; `rank` and `ranks` are the place of this process in
/// the ring and the length of the ring.
///
/// Shape: `left` and `right` have `maxvalue` bytes each.
/// Spec: Slurm, `contribs/pmi2`, `PMIX_Ring`.
///
/// Returns: `NOMEM` if a value and its NUL do not fit.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMIX_Ring(
    value: InText,
    rank: OutNumber<'_>,
    ranks: OutNumber<'_>,
    mut left: OutText,
    mut right: OutText,
    maxvalue: c_int,
) -> c_int {
    call(|| {
        let session = process::session()?;
        let value = value_of(&*session, &value)?;
        check_buffer(&left, maxvalue)?;
        check_buffer(&right, maxvalue)?;
        let (rank, ranks) = rank.zip(ranks).ok_or(Code::INVALID_ARG)?;
        let neighbours = session.ring(value)?;
        rank.write(code::number(neighbours.place)?);
        ranks.write(code::number(session.facts().size)?);
        left.write(maxvalue, &neighbours.left, Code::NOMEM)?;
        right.write(maxvalue, &neighbours.right, Code::NOMEM)
    })
}

/// A key that a server can have.
fn key_of<'k>(session: &dyn Session, key: &'k InText) -> CodeResult<&'k [u8]> {
    let key = key.required(Code::INVALID_KEY)?;
    match u32::try_from(key.len()) {
        Ok(0) => Err(Code::INVALID_KEY),
        Ok(len) if len < session.facts().maxes.key => Ok(key),
        _ => Err(Code::INVALID_KEY_LENGTH),
    }
}

/// A value that a server can have.
fn value_of<'v>(session: &dyn Session, value: &'v InText) -> CodeResult<&'v [u8]> {
    let value = value.required(Code::INVALID_VAL)?;
    match u32::try_from(value.len()) {
        Ok(len) if len < session.facts().maxes.value => Ok(value),
        _ => Err(Code::INVALID_VAL_LENGTH),
    }
}

/// A text that must be there and must not be empty.
fn argument(text: &InText) -> CodeResult<&[u8]> {
    let text = text.required(Code::INVALID_ARG)?;
    if text.is_empty() { Err(Code::INVALID_ARG) } else { Ok(text) }
}

/// Checks that a buffer has room for a NUL.
fn check_buffer(buffer: &OutText, len: c_int) -> CodeResult<()> {
    if buffer.is_null() {
        return Err(Code::INVALID_ARG);
    }
    if len <= 0 { Err(Code::INVALID_LENGTH) } else { Ok(()) }
}

/// Stores a number that is known during the session.
fn fact(place: OutNumber<'_>, read: impl FnOnce(&dyn Session) -> CodeResult<c_int>) -> c_int {
    call(|| {
        let number = read(&*process::session()?)?;
        write_number(place, number)
    })
}
