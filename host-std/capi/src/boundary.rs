//! The end of every call: a result becomes a number, and a panic becomes a failure.

use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use pmi_core::error::Code;

use crate::code::CodeResult;

/// Makes the next call of this process panic, so that a test sees that the panic ends as a return code.
static PANICS: AtomicBool = AtomicBool::new(false);

/// Runs the body of a function and returns its code. After a panic that is `PMI_FAIL`, and the
/// message is on standard error.
pub(crate) fn call(body: impl FnOnce() -> CodeResult<()>) -> c_int {
    value(Code::FAIL.0, || body().err().unwrap_or(Code::SUCCESS).0)
}

/// Does as [`call`] for a function whose result is a number of its own.
pub(crate) fn value(after_panic: c_int, body: impl FnOnce() -> c_int) -> c_int {
    // What a panic interrupts stays usable: locks are taken again, and the machine takes whole steps.
    let body = AssertUnwindSafe(|| {
        // A swap alone would write to shared memory in every call.
        let injected = PANICS.load(Ordering::Relaxed) && PANICS.swap(false, Ordering::Relaxed);
        assert!(!injected, "injected by a test");
        body()
    });
    catch_unwind(body).unwrap_or(after_panic)
}

/// Makes the next call of this process panic. For tests that link the archive; the shared libraries do not
/// export it.
#[allow(unsafe_code, reason = "a name for programs in C")]
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
pub extern "C" fn pmi_capi_inject_panic() {
    PANICS.store(true, Ordering::Relaxed);
}

/// The version of this library, by which programs recognise it: `pmi-host doctor` looks for the symbol.
#[allow(unsafe_code, reason = "a name for programs in C")]
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
pub extern "C" fn pmi_capi_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
