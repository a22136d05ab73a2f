//! The session of this process: opened once, used by all threads, and not by forked children.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use pmi_core::error::Code;

use crate::code::CodeResult;
use crate::environment;
use crate::session::{Generation, Session};

/// The open session, and how often it was opened.
struct OpenSession {
    session: Arc<dyn Session>,
    users: u32,
}

/// State of the process. After the end of a session with a server no other can be opened.
enum ProcessState {
    Closed,
    Open(OpenSession),
    Ended,
}

static STATE: Mutex<ProcessState> = Mutex::new(ProcessState::Closed);

/// True while a session is open or being opened. A forked child reads it before it takes the lock, which
/// another thread of its parent may have held.
static IS_IN_USE: AtomicBool = AtomicBool::new(false);

/// True in a child that was forked while its parent used PMI. The connection is the parent's: a child that
/// wrote to it would mix two conversations.
static IS_FORKED: AtomicBool = AtomicBool::new(false);

/// Opens the session, or counts one more user of the open one.
///
/// # Errors
///
/// `FAIL` if the server cannot be reached, in a forked child, or after the end of a session; the reason is
/// printed.
pub(crate) fn open(generation: Generation) -> CodeResult<Arc<dyn Session>> {
    watch_forks();
    if IS_FORKED.load(Ordering::Acquire) {
        return refuse(
            "this process was forked by one that uses PMI, whose connection it must not use",
        );
    }
    let mut state = lock();
    match &mut *state {
        ProcessState::Open(open) => {
            open.users += 1;
            Ok(Arc::clone(&open.session))
        }
        ProcessState::Ended => refuse("PMI was finalized in this process"),
        ProcessState::Closed => {
            IS_IN_USE.store(true, Ordering::Release);
            let session = environment::connect(generation).or_else(|error| {
                IS_IN_USE.store(false, Ordering::Release);
                refuse(&error)
            })?;
            *state = ProcessState::Open(OpenSession { session: Arc::clone(&session), users: 1 });
            Ok(session)
        }
    }
}

/// The open session.
///
/// # Errors
///
/// `INIT` without one.
pub(crate) fn session() -> CodeResult<Arc<dyn Session>> {
    if !is_open() {
        return Err(Code::INIT);
    }
    match &*lock() {
        ProcessState::Open(open) => Ok(Arc::clone(&open.session)),
        _ => Err(Code::INIT),
    }
}

/// True if a session is open, or another thread is opening it.
pub(crate) fn is_open() -> bool {
    IS_IN_USE.load(Ordering::Acquire) && !IS_FORKED.load(Ordering::Acquire)
}

/// Ends the session when its last user does.
///
/// # Errors
///
/// `INIT` without a session; the error of the server.
pub(crate) fn finalize() -> CodeResult<()> {
    if !is_open() {
        return Err(Code::INIT);
    }
    let session = {
        let mut state = lock();
        let ProcessState::Open(open) = &mut *state else { return Err(Code::INIT) };
        open.users -= 1;
        if open.users > 0 {
            return Ok(());
        }
        let session = Arc::clone(&open.session);
        *state = if session.has_server() { ProcessState::Ended } else { ProcessState::Closed };
        IS_IN_USE.store(false, Ordering::Release);
        session
    };
    session.finalize()
}

/// Prints the reason why PMI cannot be used; the callers return a number only.
fn refuse<T>(reason: &str) -> CodeResult<T> {
    eprintln!("libpmi: {reason}");
    Err(Code::FAIL)
}

/// A panic under the lock leaves no half-made state: the state is replaced in one step.
fn lock() -> MutexGuard<'static, ProcessState> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the system report forks to [`on_fork`], once.
#[allow(
    unsafe_code,
    reason = "std has no report of forks; a process id would cost a system call each time"
)]
fn watch_forks() {
    unsafe extern "C" {
        fn pthread_atfork(
            prepare: Option<extern "C" fn()>,
            parent: Option<extern "C" fn()>,
            child: Option<extern "C" fn()>,
        ) -> std::ffi::c_int;
    }
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // SAFETY: a function of the C library with these parameters. The handler stores a flag, which is
        // safe in a child with one thread, and the libraries are never unloaded (`-z nodelete`). It fails
        // for lack of memory only; a child is not detected then.
        unsafe { pthread_atfork(None, None, Some(on_fork)) };
    });
}

/// Runs in each forked child.
extern "C" fn on_fork() {
    if IS_IN_USE.load(Ordering::Acquire) {
        IS_FORKED.store(true, Ordering::Release);
    }
}
