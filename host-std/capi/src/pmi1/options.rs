//! Options of a command line as pairs for `PMI_Spawn_multiple`. Optional functions that RFC 13 calls dropped.
//!
//! An option of PMI is `-pmi-KEY VALUE` or `-pmi-KEY=VALUE`, with one dash or two; KEY is a hint of a spawn
//! (`host`, `wdir`, `path`, ...).
#![allow(unsafe_code, reason = "arrays that a C caller changes, or gives back")]
#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "the callers are C programs, for which all is unsafe"
)]

use std::ffi::{CStr, CString, c_char, c_int};
use std::slice;

use pmi_core::error::Code;

use crate::boundary::call;
use crate::code::{
    CodeResult, INVALID_ARGS, INVALID_KEYVALP, INVALID_NUM_ARGS, INVALID_NUM_PARSED,
};
use crate::text::{OutNumber, OutText};

/// A pair that this library has allocated: `PMI_keyval_t` with two strings of its own.
#[repr(C)]
#[derive(Debug)]
pub struct OwnedKeyValue {
    key: *mut c_char,
    val: *mut c_char,
}

/// Place of the caller for an array of pairs, or null.
pub type OutKeyValues<'a> = Option<&'a mut *mut OwnedKeyValue>;

/// Parses the option at the start of `args`; `num_parsed` is 0 if it is none of PMI.
// SAFETY: no other function has this name; likewise below.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Parse_option(
    num_args: c_int,
    args: *const *const c_char,
    num_parsed: OutNumber<'_>,
    keyvalp: OutKeyValues<'_>,
    size: OutNumber<'_>,
) -> c_int {
    call(|| {
        let count = usize::try_from(num_args).ok().filter(|count| *count > 0);
        let count = count.ok_or(INVALID_NUM_ARGS)?;
        if args.is_null() {
            return Err(INVALID_ARGS);
        }
        let num_parsed = num_parsed.ok_or(INVALID_NUM_PARSED)?;
        let keyvalp = keyvalp.ok_or(INVALID_KEYVALP)?;
        let size = size.ok_or(Code::INVALID_SIZE)?;
        // SAFETY: not null, and the caller has `num_args` strings there.
        let words: Vec<&[u8]> = unsafe { slice::from_raw_parts(args, count) }
            .iter()
            .map(|word| unsafe { text(*word) })
            .collect();
        let (parsed, pair) = parse(&words);
        num_parsed.write(c_int::try_from(parsed).map_err(|_| Code::FAIL)?);
        size.write(c_int::from(pair.is_some()));
        *keyvalp = allocate(pair.into_iter().collect())?;
        Ok(())
    })
}

/// Removes the options of PMI from a command line, and returns them as pairs.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Args_to_keyval(
    argcp: Option<&mut c_int>,
    argvp: Option<&mut *mut *mut c_char>,
    keyvalp: OutKeyValues<'_>,
    size: OutNumber<'_>,
) -> c_int {
    call(|| {
        let (argcp, argvp) = argcp.zip(argvp).ok_or(Code::INVALID_ARG)?;
        let (keyvalp, size) = keyvalp.zip(size).ok_or(Code::INVALID_ARG)?;
        let count = usize::try_from(*argcp).map_err(|_| Code::INVALID_ARG)?;
        if argvp.is_null() {
            return Err(Code::INVALID_ARG);
        }
        // SAFETY: not null, and the caller has `*argcp` strings there, which no other code uses meanwhile.
        let words = unsafe { slice::from_raw_parts_mut(*argvp, count) };
        let mut pairs = Vec::new();
        let (mut from, mut to) = (0, 0);
        while from < count {
            // SAFETY: an element of the command line is a string.
            let rest: Vec<&[u8]> =
                words[from..].iter().map(|word| unsafe { text(word.cast_const()) }).collect();
            let (parsed, pair) = parse(&rest);
            pairs.extend(pair);
            if parsed == 0 {
                words[to] = words[from];
                to += 1;
            }
            from += parsed.max(1);
        }
        if to < count {
            // As behind every command line, and inside this one.
            words[to] = std::ptr::null_mut();
        }
        *argcp = c_int::try_from(to).map_err(|_| Code::FAIL)?;
        size.write(c_int::try_from(pairs.len()).map_err(|_| Code::FAIL)?);
        *keyvalp = allocate(pairs)?;
        Ok(())
    })
}

/// Frees the pairs that one of the two functions above has returned.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Free_keyvals(keyvalp: *mut OwnedKeyValue, size: c_int) -> c_int {
    call(|| {
        let count = usize::try_from(size).map_err(|_| Code::INVALID_ARG)?;
        if keyvalp.is_null() {
            return if count == 0 { Ok(()) } else { Err(Code::INVALID_ARG) };
        }
        // SAFETY: the caller gives back an array of `allocate` and its size, once.
        let pairs = unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(keyvalp, count)) };
        for pair in pairs {
            // SAFETY: strings of `allocate`; the array that had them is consumed.
            unsafe {
                drop(CString::from_raw(pair.key));
                drop(CString::from_raw(pair.val));
            }
        }
        Ok(())
    })
}

/// Describes the options of PMI; if the buffer is too small, only stores the needed length.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Get_options(mut str: OutText, length: Option<&mut c_int>) -> c_int {
    call(|| {
        let length = length.ok_or(Code::INVALID_ARG)?;
        if str.is_null() {
            return Err(Code::INVALID_ARG);
        }
        if *length <= 0 {
            return Err(Code::INVALID_LENGTH);
        }
        let needed = c_int::try_from(DESCRIPTION.len() + 1).map_err(|_| Code::FAIL)?;
        let room = std::mem::replace(length, needed);
        if room < needed { Err(Code::NOMEM) } else { str.write(room, DESCRIPTION, Code::NOMEM) }
    })
}

/// A string of the caller; empty for a null pointer.
///
/// # Safety
///
/// The pointer is null, or leads to a string that ends with a NUL and outlives the call.
unsafe fn text<'a>(word: *const c_char) -> &'a [u8] {
    if word.is_null() {
        return b"";
    }
    // SAFETY: by the contract of this function.
    unsafe { CStr::from_ptr(word) }.to_bytes()
}

/// The number of words that the option at the start takes, and its pair; 0 and none without one.
fn parse(words: &[&[u8]]) -> (usize, Option<(CString, CString)>) {
    let Some(option) = words.first().and_then(|word| word.strip_prefix(b"-")) else {
        return (0, None);
    };
    let option = option.strip_prefix(b"-").unwrap_or(option);
    let Some(option) = option.strip_prefix(b"pmi-").filter(|key| !key.is_empty()) else {
        return (0, None);
    };
    let (key, value, parsed) = match option.iter().position(|byte| *byte == b'=') {
        Some(at) => (&option[..at], &option[at + 1..], 1),
        None => match words.get(1) {
            Some(value) => (option, *value, 2),
            None => return (0, None),
        },
    };
    let pair = CString::new(key).ok().zip(CString::new(value).ok());
    if key.is_empty() || pair.is_none() { (0, None) } else { (parsed, pair) }
}

/// Moves pairs into an array of the caller; null if there are none.
fn allocate(pairs: Vec<(CString, CString)>) -> CodeResult<*mut OwnedKeyValue> {
    if pairs.is_empty() {
        return Ok(std::ptr::null_mut());
    }
    let owned =
        |(key, val): (CString, CString)| OwnedKeyValue { key: key.into_raw(), val: val.into_raw() };
    let pairs: Box<[OwnedKeyValue]> = pairs.into_iter().map(owned).collect();
    Ok(Box::into_raw(pairs).cast())
}

/// Text for users.
const DESCRIPTION: &[u8] =
    b"-pmi-KEY VALUE, -pmi-KEY=VALUE: a hint of a spawn, such as -pmi-wdir DIRECTORY\n";
