//! The functions of `pmi.h`. Spec: RFC 13, "Application Programming Interface", and for functions that it
//! calls dropped, the header of MPICH before 2011.

mod kvs;
mod options;
mod spawn;

use std::ffi::c_int;

use pmi_core::error::Code;

pub use self::kvs::*;
pub use self::options::*;
pub use self::spawn::{KeyValue, PMI_Spawn_multiple};
pub(crate) use self::spawn::{length, positive, requested, start};
use crate::boundary::call;
use crate::code::{self, CodeResult};
use crate::session::{Generation, Session, SessionFacts};
use crate::text::{InText, OutArray, OutNumber, OutText, write_number};
use crate::{node, process};

/// Opens the session; `spawned` is 1 if another job has started this one.
///
/// Spec: RFC 13, `PMI_Init`. A second call counts one more user of the session, which `PMI_Finalize` ends
/// when it was called as often.
#[allow(unsafe_code, reason = "a name for programs in C")]
// SAFETY: no other function has this name; likewise below.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Init(spawned: OutNumber<'_>) -> c_int {
    call(|| {
        let spawned = spawned.ok_or(Code::INVALID_ARG)?;
        let session = process::open(Generation::Pmi1)?;
        spawned.write(c_int::from(session.facts().spawned));
        Ok(())
    })
}

/// Stores 1 if the session is open, else 0.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Initialized(initialized: OutNumber<'_>) -> c_int {
    call(|| write_number(initialized, c_int::from(process::session().is_ok())))
}

/// Ends the session.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Finalize() -> c_int {
    call(process::finalize)
}

/// Prints the message, has the server end the job, and exits. It does not return.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Abort(exit_code: c_int, error_msg: InText) -> c_int {
    call(|| abort(exit_code, true, error_msg.bytes().unwrap_or(b"")))
}

/// Prints the message, reports the abort, and exits.
pub(crate) fn abort(exit_code: c_int, world: bool, message: &[u8]) -> ! {
    eprintln!("{}", String::from_utf8_lossy(message).trim_end());
    if let Ok(session) = process::session() {
        session.abort(exit_code, world, message);
    }
    std::process::exit(exit_code)
}

/// The number of processes of the job.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Get_size(size: OutNumber<'_>) -> c_int {
    number(size, |session| code::number(session.facts().size))
}

/// The rank of this process.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Get_rank(rank: OutNumber<'_>) -> c_int {
    number(rank, |session| code::number(session.facts().rank))
}

/// The largest number of processes; -1 if the server does not know it.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Get_universe_size(size: OutNumber<'_>) -> c_int {
    number(size, |session| session.universe_size()?.map_or(Ok(-1), code::number))
}

/// The number of this program in its launch; -1 if the server does not know it.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Get_appnum(appnum: OutNumber<'_>) -> c_int {
    number(appnum, |session| session.appnum()?.map_or(Ok(-1), code::number))
}

/// The name of the key-value space. Spec: RFC 13 makes it an alias of `PMI_KVS_Get_my_name`.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Get_id(id_str: OutText, length: c_int) -> c_int {
    PMI_KVS_Get_my_name(id_str, length)
}

/// The name of the key-value space. Spec: RFC 13 makes it an alias of `PMI_KVS_Get_my_name`.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Get_kvs_domain_id(id_str: OutText, length: c_int) -> c_int {
    PMI_KVS_Get_my_name(id_str, length)
}

/// The length of a buffer for any name of a key-value space.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Get_id_length_max(length: OutNumber<'_>) -> c_int {
    PMI_KVS_Get_name_length_max(length)
}

/// Waits until every process of the job has called it; then all see what was put before.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Barrier() -> c_int {
    call(|| process::session()?.fence())
}

/// The number of processes on this node.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Get_clique_size(size: OutNumber<'_>) -> c_int {
    number(size, |session| {
        let count = node::local_ranks(session)?.len();
        c_int::try_from(count).map_err(|_| Code::FAIL)
    })
}

/// The ranks on this node, of which there are `PMI_Get_clique_size`.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Get_clique_ranks(mut ranks: OutArray, length: c_int) -> c_int {
    call(|| {
        let session = process::session()?;
        if ranks.is_null() {
            return Err(Code::INVALID_ARG);
        }
        let local = node::local_ranks(&*session)?;
        if usize::try_from(length).is_ok_and(|length| length >= local.len()) {
            ranks.write_start(length, &local)
        } else {
            Err(Code::INVALID_LENGTH)
        }
    })
}

/// Publishes a port under the name of a service.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Publish_name(service_name: InText, port: InText) -> c_int {
    call(|| {
        let session = process::session()?;
        session.publish(argument(&service_name)?, argument(&port)?)
    })
}

/// Withdraws a published name.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Unpublish_name(service_name: InText) -> c_int {
    call(|| process::session()?.unpublish(argument(&service_name)?))
}

/// The port of a service. The function has no length: the buffer holds a value of the greatest length
/// (`PMI_KVS_Get_value_length_max`), as the callers of this function have it.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Lookup_name(service_name: InText, mut port: OutText) -> c_int {
    call(|| {
        let session = process::session()?;
        let service = argument(&service_name)?;
        if port.is_null() {
            return Err(Code::INVALID_ARG);
        }
        let found = session.lookup(service)?.ok_or(Code::FAIL)?;
        port.write(length_of(session.facts().maxes.value)?, &found, Code::FAIL)
    })
}

/// Stores the number that `read` returns.
fn number(place: OutNumber<'_>, read: impl FnOnce(&dyn Session) -> CodeResult<c_int>) -> c_int {
    call(|| {
        let session = process::session()?;
        let place = place.ok_or(Code::INVALID_ARG)?;
        place.write(read(&*session)?);
        Ok(())
    })
}

/// Stores one of the facts, which are known without the server.
fn fact(place: OutNumber<'_>, read: impl FnOnce(&SessionFacts) -> u32) -> c_int {
    number(place, |session| length_of(read(session.facts())))
}

/// A text that must be there and must not be empty.
fn argument(text: &InText) -> CodeResult<&[u8]> {
    let text = text.required(Code::INVALID_ARG)?;
    if text.is_empty() { Err(Code::INVALID_ARG) } else { Ok(text) }
}

fn length_of(max: u32) -> CodeResult<c_int> {
    code::number(max)
}
