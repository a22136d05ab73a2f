//! The key-value space in `pmi.h`.

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};
use std::vec::IntoIter;

use pmi_core::error::Code;
use pmi_std::OwnedPair;

use super::fact;
use crate::boundary::call;
use crate::code::{CodeResult, INVALID_KVS};
use crate::process;
use crate::session::{Session, read_value};
use crate::text::{InText, OutNumber, OutText};

/// The name of the key-value space of the job.
#[allow(unsafe_code, reason = "a name for programs in C")]
// SAFETY: no other function has this name; likewise below.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_KVS_Get_my_name(mut kvsname: OutText, length: c_int) -> c_int {
    call(|| {
        let session = process::session()?;
        kvsname.write(length, &session.facts().kvsname, Code::INVALID_LENGTH)
    })
}

/// The length of a buffer for any name of a key-value space.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI_KVS_Get_name_length_max(length: OutNumber<'_>) -> c_int {
    fact(length, |facts| facts.maxes.kvsname)
}

/// The length of a buffer for any key.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI_KVS_Get_key_length_max(length: OutNumber<'_>) -> c_int {
    fact(length, |facts| facts.maxes.key)
}

/// The length of a buffer for any value.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI_KVS_Get_value_length_max(length: OutNumber<'_>) -> c_int {
    fact(length, |facts| facts.maxes.value)
}

/// Stores a value under a key; others see it after `PMI_KVS_Commit` and `PMI_Barrier`.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI_KVS_Put(kvsname: InText, key: InText, value: InText) -> c_int {
    call(|| {
        let session = process::session()?;
        own_space(&*session, &kvsname)?;
        let key = key_of(&*session, &key)?;
        let value = value.required(Code::INVALID_VAL)?;
        if !fits(value, session.facts().maxes.value) {
            return Err(Code::INVALID_VAL);
        }
        session.put(key, value)
    })
}

/// Commits values; they are sent when they are put, so there is nothing left to do.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI_KVS_Commit(kvsname: InText) -> c_int {
    call(|| {
        let session = process::session()?;
        own_space(&*session, &kvsname).map_err(|_| Code::INVALID_ARG)
    })
}

/// Reads the value of a key.
///
/// Returns: `INVALID_KEY` if there is no such key, `INVALID_LENGTH` if the value and its NUL do not fit.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI_KVS_Get(
    kvsname: InText,
    key: InText,
    mut value: OutText,
    length: c_int,
) -> c_int {
    call(|| {
        let session = process::session()?;
        own_space(&*session, &kvsname)?;
        let key = key_of(&*session, &key)?;
        if value.is_null() {
            return Err(Code::INVALID_VAL);
        }
        if length <= 0 {
            return Err(Code::INVALID_LENGTH);
        }
        let written = read_value(&*session, None, key, |found| {
            value.write(length, found, Code::INVALID_LENGTH)
        });
        written?.ok_or(Code::INVALID_KEY)?
    })
}

/// Optional in RFC 13. Servers of PMI-1.1 have one space for each job, so it fails without effect.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI_KVS_Create(kvsname: OutText, length: c_int) -> c_int {
    call(|| {
        let session = process::session()?;
        if kvsname.is_null() {
            return Err(Code::INVALID_ARG);
        }
        match c_int::try_from(session.facts().maxes.kvsname) {
            Ok(needed) if length >= needed => Err(Code::FAIL),
            _ => Err(Code::INVALID_LENGTH),
        }
    })
}

/// Optional in RFC 13; see [`PMI_KVS_Create`]. The space of the job cannot be destroyed.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI_KVS_Destroy(kvsname: InText) -> c_int {
    call(|| {
        process::session()?;
        kvsname.required(Code::INVALID_ARG)?;
        Err(Code::FAIL)
    })
}

/// Pairs that [`PMI_KVS_Iter_next`] has still to return.
static ITERATION: Mutex<Option<IntoIter<OwnedPair>>> = Mutex::new(None);

/// Reads the pairs of the space and stores the first one; an empty key if there is none. Optional in RFC 13:
/// PMI-1.1 has no request for it, so it fails with a server that speaks nothing newer.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI_KVS_Iter_first(
    kvsname: InText,
    key: OutText,
    key_len: c_int,
    val: OutText,
    val_len: c_int,
) -> c_int {
    call(|| {
        let session = process::session()?;
        own_space(&*session, &kvsname)?;
        check_pair(&key, key_len, &val, val_len)?;
        let mut pairs = session.pairs()?.into_iter();
        let first = pairs.next();
        *ITERATION.lock().unwrap_or_else(PoisonError::into_inner) = Some(pairs);
        write_pair(first, key, key_len, val, val_len)
    })
}

/// Stores the next pair; an empty key behind the last one.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI_KVS_Iter_next(
    kvsname: InText,
    key: OutText,
    key_len: c_int,
    val: OutText,
    val_len: c_int,
) -> c_int {
    call(|| {
        let session = process::session()?;
        own_space(&*session, &kvsname)?;
        check_pair(&key, key_len, &val, val_len)?;
        let next = {
            let mut iteration = ITERATION.lock().unwrap_or_else(PoisonError::into_inner);
            iteration.as_mut().ok_or(Code::FAIL)?.next()
        };
        write_pair(next, key, key_len, val, val_len)
    })
}

fn check_pair(key: &OutText, key_len: c_int, val: &OutText, val_len: c_int) -> CodeResult<()> {
    if key.is_null() {
        return Err(Code::INVALID_KEY);
    }
    if key_len <= 0 {
        return Err(Code::INVALID_KEY_LENGTH);
    }
    if val.is_null() {
        return Err(Code::INVALID_VAL);
    }
    if val_len <= 0 { Err(Code::INVALID_VAL_LENGTH) } else { Ok(()) }
}

fn write_pair(
    pair: Option<OwnedPair>,
    mut key: OutText,
    key_len: c_int,
    mut val: OutText,
    val_len: c_int,
) -> CodeResult<()> {
    let (name, value) = pair.unwrap_or_default();
    key.write(key_len, &name, Code::INVALID_KEY_LENGTH)?;
    val.write(val_len, &value, Code::INVALID_VAL_LENGTH)
}

/// Checks that the caller names the space of its job.
fn own_space(session: &dyn Session, kvsname: &InText) -> CodeResult<()> {
    let is_own = kvsname.bytes().is_some_and(|name| name == session.facts().kvsname);
    if is_own { Ok(()) } else { Err(INVALID_KVS) }
}

/// A key that the server can have. Spec: RFC 13, "Wire Protocol", `word`.
fn key_of<'k>(session: &dyn Session, key: &'k InText) -> CodeResult<&'k [u8]> {
    let key = key.required(Code::INVALID_KEY)?;
    let is_word =
        !key.is_empty() && key.iter().all(|byte| *byte > b' ' && !b"=\x7f".contains(byte));
    let is_key = is_word && fits(key, session.facts().maxes.key);
    if is_key { Ok(key) } else { Err(Code::INVALID_KEY) }
}

/// True for a text that fits into `max` bytes with its NUL.
fn fits(text: &[u8], max: u32) -> bool {
    u32::try_from(text.len()).is_ok_and(|len| len < max)
}
