//! Arguments of C callers. Each type has the layout of a C parameter and no constructor, so that a value of
//! it comes from a C caller only; the caller vouches for it as the headers require: a string ends with a
//! NUL, and an array has as many elements as its length parameter states.
#![allow(unsafe_code, reason = "pointers of C callers; see the page")]

use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;
use std::slice;

use pmi_core::error::Code;

use crate::code::CodeResult;

/// `const char s[]`: a string to read, or null.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct InText(*const c_char);

/// `char s[]`: a buffer for a string, or null. Its length is another parameter.
#[repr(transparent)]
#[derive(Debug)]
pub struct OutText(*mut c_char);

/// `const T a[]`: an array to read, or null. Its length is another parameter.
#[repr(transparent)]
#[derive(Debug)]
pub struct InArray<T>(*const T);

/// `int a[]`: an array to write, or null. Its length is another parameter.
#[repr(transparent)]
#[derive(Debug)]
pub struct OutArray(*mut c_int);

/// `int *n`: a number to write, or null. Nothing is read from it.
pub type OutNumber<'a> = Option<&'a mut MaybeUninit<c_int>>;

impl InText {
    /// The bytes before the NUL; `None` for a null pointer.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        // SAFETY: not null, and it ends with a NUL, as the page says; it is read during the call only.
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) }.to_bytes())
    }

    /// The bytes before the NUL, or `missing` for a null pointer.
    ///
    /// # Errors
    ///
    /// `missing`.
    pub(crate) fn required(&self, missing: Code) -> CodeResult<&[u8]> {
        self.bytes().ok_or(missing)
    }
}

impl OutText {
    /// True for a null pointer.
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// The buffer, or `None` if the caller does not want the string: for a null pointer with length 0, which
    /// other libraries of PMI-2 accept as well.
    ///
    /// # Errors
    ///
    /// `INVALID_ARG` for another null pointer, `INVALID_LENGTH` for a buffer without room for the NUL.
    pub(crate) fn wanted(self, len: c_int) -> CodeResult<Option<Self>> {
        match (self.is_null(), len) {
            (true, 0) => Ok(None),
            (true, _) => Err(Code::INVALID_ARG),
            (false, ..=0) => Err(Code::INVALID_LENGTH),
            (false, _) => Ok(Some(self)),
        }
    }

    /// Writes a string and its NUL, if both fit into `len` bytes; otherwise nothing.
    ///
    /// # Errors
    ///
    /// `too_small`.
    pub(crate) fn write(&mut self, len: c_int, text: &[u8], too_small: Code) -> CodeResult<()> {
        if self.write_start(len, text)? == text.len() { Ok(()) } else { Err(too_small) }
    }

    /// Writes the part of a string that fits into `len` bytes, and a NUL; returns the length of the part.
    ///
    /// # Errors
    ///
    /// `INVALID_ARG` for a null pointer, `INVALID_LENGTH` for a buffer without room for the NUL.
    pub(crate) fn write_start(&mut self, len: c_int, text: &[u8]) -> CodeResult<usize> {
        if self.is_null() {
            return Err(Code::INVALID_ARG);
        }
        let room =
            usize::try_from(len).ok().filter(|room| *room > 0).ok_or(Code::INVALID_LENGTH)?;
        // A NUL inside would end the string early, and text behind it would be lost unnoticed.
        let text = text.split(|byte| *byte == 0).next().unwrap_or(text);
        let part = &text[..text.len().min(room - 1)];
        // SAFETY: not null, and the caller has `len` bytes there; `part` and a NUL are no more. Memory of
        // the library is not the caller's, so the two do not overlap.
        unsafe {
            self.0.copy_from_nonoverlapping(part.as_ptr().cast(), part.len());
            self.0.add(part.len()).write(0);
        }
        Ok(part.len())
    }
}

impl<T> InArray<T> {
    /// The first `len` elements; `None` for a null pointer.
    pub(crate) fn elements(&self, len: usize) -> Option<&[T]> {
        // SAFETY: not null, and the caller has so many elements there, which do not change during the
        // call.
        (!self.0.is_null()).then(|| unsafe { slice::from_raw_parts(self.0, len) })
    }

    /// The elements before the first that `is_end` marks; `None` for a null pointer.
    pub(crate) fn until(&self, is_end: impl Fn(&T) -> bool) -> Option<&[T]> {
        if self.0.is_null() {
            return None;
        }
        let mut len = 0;
        // SAFETY: the caller ends the array with such an element, so everything up to it is there.
        while !is_end(unsafe { &*self.0.add(len) }) {
            len += 1;
        }
        self.elements(len)
    }
}

impl OutArray {
    /// Writes the numbers that fit into `len` elements.
    ///
    /// # Errors
    ///
    /// `INVALID_ARG` for a null pointer, `INVALID_LENGTH` for a negative length.
    pub(crate) fn write_start(&mut self, len: c_int, numbers: &[c_int]) -> CodeResult<()> {
        if self.0.is_null() {
            return Err(Code::INVALID_ARG);
        }
        let room = usize::try_from(len).map_err(|_| Code::INVALID_LENGTH)?;
        let count = numbers.len().min(room);
        // SAFETY: not null, and the caller has `len` elements there, which are not the library's.
        unsafe { self.0.copy_from_nonoverlapping(numbers.as_ptr(), count) };
        Ok(())
    }

    /// The array, or `None` if the caller does not want the numbers: for a null pointer with length 0.
    ///
    /// # Errors
    ///
    /// `INVALID_ARG` for another null pointer, `INVALID_LENGTH` for a negative length.
    pub(crate) fn wanted(self, len: c_int) -> CodeResult<Option<Self>> {
        match (self.is_null(), len) {
            (true, 0) => Ok(None),
            (true, _) => Err(Code::INVALID_ARG),
            (false, ..0) => Err(Code::INVALID_LENGTH),
            (false, _) => Ok(Some(self)),
        }
    }

    /// True for a null pointer.
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }
}

/// Writes a number to a place of the caller, unless the caller does not want it: for a null pointer.
pub(crate) fn write_wanted(place: &mut OutNumber<'_>, number: c_int) {
    if let Some(place) = place {
        place.write(number);
    }
}

/// Writes a number to a place of the caller.
///
/// # Errors
///
/// `INVALID_ARG` for a null pointer.
pub(crate) fn write_number(place: OutNumber<'_>, number: c_int) -> CodeResult<()> {
    place.ok_or(Code::INVALID_ARG)?.write(number);
    Ok(())
}
