//! The functions of `pmi_server.h`: a server for launchers, whose events are passed to callbacks.

mod handle;
mod name;
mod spawn;

use std::collections::BTreeSet;
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use pmi_core::error::Code;
use pmi_std::server::{JobDescription, JobId, NameAnswer, NameServiceId, SpawnId};
use rustix::event::{PollFd, PollFlags, poll};

pub use self::handle::ServerHandle;
pub use self::name::OutName;
pub use self::spawn::{OutPair, OutProgram, OutSpawn};
use crate::boundary::call;
use crate::code::CodeResult;
use crate::pmi1::KeyValue;
use crate::text::{InArray, InText, OutNumber, OutText, write_number};

/// The parameter that callers pass through to their callbacks.
pub type Context = *mut c_void;

/// `pmi_server *`.
pub type ServerPointer<'a> = Option<&'a ServerHandle>;

/// `pmi_server_callbacks`: null pointers ignore the event.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Callbacks {
    /// A rank requests processes.
    pub spawn: Option<extern "C" fn(&ServerHandle, Context, &OutSpawn)>,
    /// A rank aborts its job or itself.
    pub abort:
        Option<extern "C" fn(&ServerHandle, Context, u32, c_int, c_int, c_int, *const c_char)>,
    /// The connection of a rank has ended.
    pub disconnected: Option<extern "C" fn(&ServerHandle, Context, u32, c_int, c_int)>,
    /// A fence can never end.
    pub fence_stuck: Option<extern "C" fn(&ServerHandle, Context, u32, c_int)>,
    /// A rank requests something about a published name; without it, the server holds the names.
    pub name: Option<extern "C" fn(&ServerHandle, Context, &OutName)>,
}

/// `pmi_server_job`: description of a job.
#[repr(C)]
#[derive(Debug)]
pub struct JobDescriptor<'a> {
    name: InText,
    universe_size: c_int,
    appnums: InArray<c_int>,
    spawner: Option<&'a u32>,
    preput_count: c_int,
    preputs: InArray<KeyValue>,
}

/// Makes a server without jobs.
#[allow(unsafe_code, reason = "a name for programs in C")]
// SAFETY: no other function has this name; likewise below.
#[unsafe(no_mangle)]
pub extern "C" fn pmi_server_new(
    callbacks: Option<&Callbacks>,
    context: Context,
    server: Option<&mut MaybeUninit<*mut ServerHandle>>,
) -> c_int {
    call(|| {
        let callbacks = *callbacks.ok_or(Code::INVALID_ARG)?;
        let place = server.ok_or(Code::INVALID_ARG)?;
        let server = ServerHandle::new(callbacks, context).map_err(|_| Code::NOMEM)?;
        place.write(Box::into_raw(Box::new(server)));
        Ok(())
    })
}

/// Closes all connections and frees the server. Refused in a callback.
///
/// # Safety
///
/// `server` is null, or a pointer of [`pmi_server_new`] that was not freed.
#[allow(unsafe_code, reason = "a name for programs in C, and its pointer")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmi_server_free(server: *mut ServerHandle) -> c_int {
    call(|| {
        // SAFETY: null, or a pointer of `pmi_server_new` that was not freed.
        let handle = unsafe { server.as_ref() }.ok_or(Code::INVALID_ARG)?;
        handle.check_outside_callbacks()?;
        // SAFETY: as above, and no call uses the server: a thread in one is in a callback.
        drop(unsafe { Box::from_raw(server) });
        Ok(())
    })
}

/// Adds a job, one rank for each descriptor.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn pmi_server_add_job(
    server: ServerPointer<'_>,
    job: Option<&JobDescriptor<'_>>,
    ranks: c_int,
    fds: InArray<c_int>,
    id: Option<&mut MaybeUninit<u32>>,
) -> c_int {
    call(|| {
        // First of all, so that the descriptors are closed in every case.
        let count = usize::try_from(ranks).map_err(|_| Code::INVALID_ARG)?;
        let fds = if count == 0 { &[] } else { fds.elements(count).ok_or(Code::INVALID_ARG)? };
        let streams = streams(fds)?;
        let server = server.ok_or(Code::INVALID_ARG)?;
        let job = job.ok_or(Code::INVALID_ARG)?;
        let place = id.ok_or(Code::INVALID_ARG)?;
        let pairs = length(job.preput_count)?;
        let pairs = if pairs == 0 { Some(&[][..]) } else { job.preputs.elements(pairs) };
        let pairs = pairs.ok_or(Code::INVALID_ARG)?.iter();
        let pairs = pairs.map(|KeyValue { key, val }| {
            Ok((key.required(Code::INVALID_ARG)?, val.required(Code::INVALID_ARG)?))
        });
        let preputs = pairs.collect::<CodeResult<Vec<_>>>()?;
        let universe = length(job.universe_size)?;
        let description = JobDescription {
            name: job.name.required(Code::INVALID_ARG)?,
            appnums: job.appnums.elements(count).unwrap_or(&[]),
            universe_size: u32::try_from(universe).ok().filter(|size| *size > 0),
            spawner: job.spawner.map(|job| JobId(*job)),
            preputs: &preputs,
        };
        let job = server.change(|server| server.add_job(&description, streams))?;
        place.write(job.0);
        Ok(())
    })
}

/// Removes a job, its published names, and the connections of its ranks.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn pmi_server_remove_job(server: ServerPointer<'_>, job: u32) -> c_int {
    call(|| required(server)?.change(|server| server.remove_job(JobId(job))))
}

/// Answers a spawn with a job, or as failed.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn pmi_server_answer_spawn(
    server: ServerPointer<'_>,
    spawn: u64,
    job: Option<&u32>,
) -> c_int {
    call(|| {
        let made = job.map(|job| JobId(*job)).ok_or(Code::FAIL.0);
        let spawn = SpawnId::from_bits(spawn);
        required(server)?.change(|server| server.answer_spawn(spawn, made))
    })
}

/// Answers a request about a published name.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn pmi_server_answer_name(
    server: ServerPointer<'_>,
    name: u64,
    code: c_int,
    port: InText,
) -> c_int {
    call(|| {
        let server = required(server)?;
        let port = port.bytes().map_or(NameAnswer::Done, NameAnswer::Port);
        let answer = match Code(code) {
            Code::SUCCESS => port,
            Code::NOMEM => NameAnswer::NoRoom,
            _ => NameAnswer::Unknown,
        };
        server.change(|server| server.answer_name(NameServiceId::from_bits(name), answer))
    })
}

/// Records that the process of a rank has terminated.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn pmi_server_rank_exited(
    server: ServerPointer<'_>,
    job: u32,
    rank: c_int,
) -> c_int {
    call(|| {
        let rank = u32::try_from(rank).map_err(|_| Code::INVALID_ARG)?;
        required(server)?.change(|server| Ok(server.rank_exited(JobId(job), rank)?))
    })
}

/// The descriptor to be watched for input.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn pmi_server_fd(server: ServerPointer<'_>, fd: OutNumber<'_>) -> c_int {
    call(|| write_number(fd, required(server)?.descriptor().as_raw_fd()))
}

/// Number of open connections.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn pmi_server_connected(server: ServerPointer<'_>, ranks: OutNumber<'_>) -> c_int {
    call(|| {
        let connected = required(server)?.connected();
        write_number(ranks, c_int::try_from(connected).map_err(|_| Code::FAIL)?)
    })
}

/// Serves all ranks that have sent something.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn pmi_server_step(server: ServerPointer<'_>) -> c_int {
    call(|| {
        let server = required(server)?;
        server.check_outside_callbacks()?;
        server.change(|server| Ok(server.handle_ready()?))
    })
}

/// Serves all ranks until their connections have ended.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn pmi_server_run(server: ServerPointer<'_>) -> c_int {
    call(|| {
        let server = required(server)?;
        server.check_outside_callbacks()?;
        loop {
            server.change(|server| Ok(server.handle_ready()?))?;
            if server.connected() == 0 {
                return Ok(());
            }
            // An interrupted wait ends early, which does no harm.
            let _ = poll(&mut [PollFd::new(server.descriptor(), PollFlags::IN)], None);
        }
    })
}

/// Copies the reason of the last failure.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn pmi_server_error(
    server: ServerPointer<'_>,
    mut text: OutText,
    size: c_int,
) -> c_int {
    call(|| text.write_start(size, required(server)?.last_error().as_bytes()).map(drop))
}

fn required(server: ServerPointer<'_>) -> CodeResult<&ServerHandle> {
    server.ok_or(Code::INVALID_ARG)
}

fn length(length: c_int) -> CodeResult<usize> {
    usize::try_from(length).map_err(|_| Code::INVALID_ARG)
}

/// Takes the descriptors of a caller. If one of them is not open, the others are closed.
#[allow(unsafe_code, reason = "numbers of a C caller become descriptors")]
fn streams(fds: &[c_int]) -> CodeResult<Vec<UnixStream>> {
    unsafe extern "C" {
        fn fcntl(fd: c_int, command: c_int, ...) -> c_int;
    }
    const F_GETFD: c_int = 1;
    let mut seen = BTreeSet::new();
    let mut take = |fd: &c_int| {
        // SAFETY: a function of the C library with these parameters; it changes nothing.
        let is_open = *fd >= 0 && unsafe { fcntl(*fd, F_GETFD) } >= 0 && seen.insert(*fd);
        // SAFETY: it is open, it occurs once, and the header has the caller give it away.
        is_open.then(|| UnixStream::from(unsafe { OwnedFd::from_raw_fd(*fd) }))
    };
    let taken: Vec<_> = fds.iter().map(&mut take).collect();
    taken.into_iter().collect::<Option<_>>().ok_or(Code::INVALID_ARG)
}
