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
use crate::text::{InText, OutNumber, OutText, write_number, write_wanted};

/// Opens the session. With a server that does not speak PMI-2 it is one of PMI-1.
///
/// Spec: PMI v2 API, `PMI2_Init`. A second call counts one more user of the session, which `PMI2_Finalize`
/// ends when it was called as often.
#[allow(unsafe_code, reason = "a name for programs in C")]
// SAFETY: no other function has this name; likewise below.
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Init(
    mut spawned: OutNumber<'_>,
    mut size: OutNumber<'_>,
    mut rank: OutNumber<'_>,
    mut appnum: OutNumber<'_>,
) -> c_int {
    call(|| {
        let session = process::open(Generation::Pmi2)?;
        let facts = session.facts();
        write_wanted(&mut spawned, c_int::from(facts.spawned));
        write_wanted(&mut size, code::number(facts.size)?);
        write_wanted(&mut rank, code::number(facts.rank)?);
        if appnum.is_some() {
            write_wanted(&mut appnum, session.appnum()?.map_or(Ok(-1), code::number)?);
        }
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
/// Shape: `vallen` is the length of the value. If value and NUL do not fit into `maxvalue` bytes, which may
/// be none, the part that fits is written, and `vallen` is the negative number of bytes needed, the NUL
/// included.
///
/// Returns: `INVALID_KEY` if there is no such key, `NOMEM` for a value that does not fit if `vallen` is null.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_KVS_Get(
    jobid: InText,
    src_pmi_id: c_int,
    key: InText,
    mut value: OutText,
    maxvalue: c_int,
    mut vallen: OutNumber<'_>,
) -> c_int {
    call(|| {
        let session = process::session()?;
        let key = key_of(&*session, &key)?;
        if maxvalue < 0 {
            return Err(Code::INVALID_LENGTH);
        }
        if value.is_null() && maxvalue > 0 {
            return Err(Code::INVALID_ARG);
        }
        let job = jobid.bytes().filter(|job| !job.is_empty());
        let source = u32::try_from(src_pmi_id).ok();
        let mut copy = |found: &[u8]| {
            let is_whole = maxvalue > 0 && value.write_start(maxvalue, found)? == found.len();
            let len = c_int::try_from(found.len()).map_err(|_| Code::FAIL)?;
            Ok(if is_whole { len } else { -(len + 1) })
        };
        let len = match job {
            Some(_) => session.get(job, source, key)?.map(|found| copy(&found)),
            None => read_value(&*session, source, key, copy)?,
        };
        let len = len.ok_or(Code::INVALID_KEY)??;
        // Without the length, a caller would take the part for the whole.
        if len < 0 && vallen.is_none() {
            return Err(Code::NOMEM);
        }
        write_wanted(&mut vallen, len);
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
    port: OutText,
    port_len: c_int,
) -> c_int {
    call(|| {
        let session = process::session()?;
        let service = argument(&service_name)?;
        let port = port.wanted(port_len)?;
        let found = session.lookup(service)?.ok_or(Code::FAIL)?;
        match port {
            Some(mut port) => port.write(port_len, &found, Code::NOMEM),
            None => Ok(()),
        }
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
    mut rank: OutNumber<'_>,
    mut ranks: OutNumber<'_>,
    left: OutText,
    right: OutText,
    maxvalue: c_int,
) -> c_int {
    call(|| {
        let session = process::session()?;
        let value = value_of(&*session, &value)?;
        let buffers = [left.wanted(maxvalue)?, right.wanted(maxvalue)?];
        let neighbours = session.ring(value)?;
        write_wanted(&mut rank, code::number(neighbours.place)?);
        write_wanted(&mut ranks, code::number(session.facts().size)?);
        for (buffer, value) in buffers.into_iter().zip([&neighbours.left, &neighbours.right]) {
            if let Some(mut buffer) = buffer {
                buffer.write(maxvalue, value, Code::NOMEM)?;
            }
        }
        Ok(())
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

/// Stores a number that is known during the session.
fn fact(place: OutNumber<'_>, read: impl FnOnce(&dyn Session) -> CodeResult<c_int>) -> c_int {
    call(|| {
        let number = read(&*process::session()?)?;
        write_number(place, number)
    })
}
