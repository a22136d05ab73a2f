//! Functions of `pmi_client.h`.
#![allow(unsafe_code, reason = "functions for C take pointers")]

use crate::session::{ByteLink, Moved, Session, Status};
use core::ffi::{c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::{ptr, slice};
use pmi_core::command::{FenceGroup, Place, Request, Text, Version};

/// `struct pmi_client_link`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LinkFunctions {
    read: Option<unsafe extern "C" fn(*mut c_void, *mut u8, usize) -> i32>,
    write: Option<unsafe extern "C" fn(*mut c_void, *const u8, usize) -> i32>,
    wait: Option<unsafe extern "C" fn(*mut c_void)>,
    context: *mut c_void,
}

/// `struct pmi_client`: what its memory holds.
#[derive(Debug)]
struct ClientMemory {
    session: Session,
    link: LinkFunctions,
    /// Memory of the caller for the value of the pending get.
    value: *mut u8,
    room_bytes: usize,
}

/// `struct pmi_client` as C sees it.
#[derive(Debug)]
#[repr(C)]
pub struct ClientHandle {
    memory: MaybeUninit<[u64; WORDS]>,
}

/// Number of words in the header.
const WORDS: usize = if size_of::<usize>() > 4 { 244 } else { 232 };
const _: () = assert!(size_of::<ClientMemory>() <= WORDS * 8, "the header has too little memory");
const _: () = assert!(align_of::<ClientMemory>() <= align_of::<u64>());

impl ByteLink for LinkFunctions {
    fn read(&mut self, bytes: &mut [u8]) -> Moved {
        let Some(read) = self.read else { return Moved::Closed };
        // SAFETY: the function is called as the header promises, with memory of that length.
        moved(unsafe { read(self.context, bytes.as_mut_ptr(), bytes.len()) }, bytes.len())
    }

    fn write(&mut self, bytes: &[u8]) -> Moved {
        let Some(write) = self.write else { return Moved::Closed };
        // SAFETY: as above; it only reads them.
        moved(unsafe { write(self.context, bytes.as_ptr(), bytes.len()) }, bytes.len())
    }
}

/// A count beyond the room is an error of the link, and no length to trust.
fn moved(count: i32, room: usize) -> Moved {
    match usize::try_from(count) {
        Ok(0) => Moved::NotNow,
        Ok(len) if len <= room => Moved::Bytes(len),
        _ => Moved::Closed,
    }
}

/// Borrows a client that `pmi_client_init` has prepared.
///
/// # Safety
///
/// `client` is null, or has been prepared and is used by nothing else during the call.
unsafe fn client<'a>(client: *mut ClientHandle) -> Option<&'a mut ClientMemory> {
    // SAFETY: by the contract of this function; size and alignment are asserted above.
    unsafe { client.cast::<ClientMemory>().as_mut() }
}

/// Borrows bytes of the caller.
///
/// # Safety
///
/// `bytes` has `len` readable bytes, or is null.
unsafe fn borrowed<'a>(bytes: *const u8, len: usize) -> Option<&'a [u8]> {
    match bytes.is_null() {
        true if len > 0 => None,
        true => Some(b""),
        // SAFETY: by the contract of this function.
        false => Some(unsafe { slice::from_raw_parts(bytes, len) }),
    }
}

/// Borrows the bytes before the NUL; `None` for a null pointer, or without one within the bound.
///
/// # Safety
///
/// `text` is readable up to its NUL, or is null.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a [u8]> {
    if text.is_null() {
        return None;
    }
    let mut len = 0;
    // SAFETY: no byte behind the NUL is read.
    while unsafe { *text.add(len) } != 0 {
        len += 1;
        if len > TEXT_BYTES_MAX {
            return None;
        }
    }
    // SAFETY: these bytes were just read.
    Some(unsafe { slice::from_raw_parts(text.cast::<u8>(), len) })
}

impl ClientMemory {
    fn start(&mut self, request: &Request<'_>) -> c_int {
        self.session.start(request) as c_int
    }

    fn poll(&mut self) -> Status {
        let value: &mut [u8] = match self.value.is_null() {
            true => &mut [],
            // SAFETY: the caller keeps this memory valid until the call is answered.
            false => unsafe { slice::from_raw_parts_mut(self.value, self.room_bytes) },
        };
        let status = self.session.poll(&mut self.link, value);
        if status != Status::Pending {
            (self.value, self.room_bytes) = (ptr::null_mut(), 0);
        }
        status
    }

    /// Continues a call that was started with this result until it is answered.
    fn complete(&mut self, started: c_int) -> c_int {
        if started != Status::Pending as c_int {
            return started;
        }
        loop {
            match self.poll() {
                Status::Pending => {}
                status => return status as c_int,
            }
            if let Some(wait) = self.link.wait {
                // SAFETY: the function is called as the header promises.
                unsafe { wait(self.link.context) };
            }
        }
    }
}

fn put_request<'a>((key, value): (&'a [u8], &'a [u8])) -> Request<'a> {
    Request::Put { place: OWN, key: Text::plain(key), value: Text::plain(value) }
}

/// Writes the two functions of a call: one that starts it and one that also waits.
macro_rules! call {
    ($start:ident, $wait:ident, ($($name:ident: $type:ty),*), $about:literal, $call:expr) => {
        #[doc = $about]
        ///
        /// # Safety
        ///
        /// As the header states.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $start(handle: *mut ClientHandle, $($name: $type),*) -> c_int {
            // SAFETY: by the contract of the header.
            let Some(client) = (unsafe { client(handle) }) else { return Status::Misuse as c_int };
            #[allow(unused_unsafe, reason = "not every call has a pointer")]
            // SAFETY: as above, for what the arguments point to.
            let request: Option<Request<'_>> = unsafe { $call };
            request.map_or(Status::Misuse as c_int, |request| client.start(&request))
        }

        #[doc = $about]
        ///
        /// # Safety
        ///
        /// As the header states.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $wait(handle: *mut ClientHandle, $($name: $type),*) -> c_int {
            // SAFETY: by the contract of the header.
            let started = unsafe { $start(handle, $($name),*) };
            // SAFETY: as above.
            unsafe { client(handle) }.map_or(started, |client| client.complete(started))
        }
    };
}

#[cfg(feature = "greet")]
call!(pmi_client_start_greet, pmi_client_greet, (id: u64), "`cmd=initack`", Some(Request::InitAck { id }));
call!(
    pmi_client_start_open,
    pmi_client_open,
    (),
    "`cmd=init`, `cmd=get_my_kvsname`",
    Some(Request::Init { version: Version::V1_1 })
);
call!(
    pmi_client_start_fence,
    pmi_client_fence,
    (),
    "`cmd=barrier_in`",
    Some(Request::Fence { group: FenceGroup::World, tag: None })
);
call!(
    pmi_client_start_finalize,
    pmi_client_finalize,
    (),
    "`cmd=finalize`",
    Some(Request::Finalize)
);
call!(
    pmi_client_start_put,
    pmi_client_put,
    (key: *const c_char, value: *const c_void, len: usize),
    "`cmd=put`",
    text(key).zip(borrowed(value.cast(), len)).map(put_request)
);
call!(
    pmi_client_start_abort,
    pmi_client_abort,
    (code: c_int, message: *const c_char),
    "`cmd=abort`",
    Some(Request::Abort {
        code: Some(code),
        world: true,
        message: Text::plain(text(message).unwrap_or(b""))
    })
);

/// `cmd=get`
///
/// # Safety
///
/// As the header states.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmi_client_start_get(
    handle: *mut ClientHandle,
    key: *const c_char,
    value: *mut c_void,
    room: usize,
) -> c_int {
    // SAFETY: by the contract of the header.
    let (client, key) = unsafe { (client(handle), text(key)) };
    let (Some(client), Some(key)) = (client, key) else { return Status::Misuse as c_int };
    let started = client.start(&Request::Get { place: OWN, key: Text::plain(key), wait: false });
    if started == Status::Pending as c_int {
        (client.value, client.room_bytes) = (value.cast(), room);
    }
    started
}

/// `cmd=get`
///
/// # Safety
///
/// As the header states.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmi_client_get(
    handle: *mut ClientHandle,
    key: *const c_char,
    value: *mut c_void,
    room: usize,
) -> c_int {
    // SAFETY: by the contract of the header.
    let started = unsafe { pmi_client_start_get(handle, key, value, room) };
    // SAFETY: as above.
    unsafe { client(handle) }.map_or(started, |client| client.complete(started))
}

/// Prepares the memory of a client.
///
/// # Safety
///
/// `handle` and `link` are null or valid for the structures of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmi_client_init(
    handle: *mut ClientHandle,
    link: *const LinkFunctions,
) -> c_int {
    // SAFETY: by the contract of this function.
    let Some(link) = (unsafe { link.as_ref() }) else { return Status::Misuse as c_int };
    if handle.is_null() || link.read.is_none() || link.write.is_none() {
        return Status::Misuse as c_int;
    }
    let memory = ClientMemory {
        session: Session::new(),
        link: *link,
        value: ptr::null_mut(),
        room_bytes: 0,
    };
    // SAFETY: the memory of the header is large and aligned enough, as asserted above.
    unsafe { handle.cast::<ClientMemory>().write(memory) };
    Status::Success as c_int
}

/// Continues the pending call.
///
/// # Safety
///
/// As the header states.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmi_client_poll(handle: *mut ClientHandle) -> c_int {
    // SAFETY: by the contract of the header.
    unsafe { client(handle) }.map_or(Status::Misuse, ClientMemory::poll) as c_int
}

/// Writes a function that reads from a client.
macro_rules! getter {
    ($name:ident, $type:ty, $about:literal, $read:expr) => {
        #[doc = $about]
        ///
        /// # Safety
        ///
        /// As the header states.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(handle: *const ClientHandle) -> $type {
            // SAFETY: by the contract of the header; the client is only read.
            let client = unsafe { handle.cast::<ClientMemory>().as_ref() };
            client.map_or(0, |client| ($read)(&client.session))
        }
    };
}

getter!(pmi_client_rank, u32, "The rank.", |session: &Session| session.identity().0);
getter!(pmi_client_size, u32, "The number of ranks.", |session: &Session| session.identity().1);
getter!(pmi_client_length, usize, "Length of the last value.", Session::len_bytes);
getter!(pmi_client_code, c_int, "Code of the last refusal.", Session::code);

/// The space of the job.
const OWN: Place<'static> = Place::Job(None);

/// No key and no message is longer.
const TEXT_BYTES_MAX: usize = 4096;
