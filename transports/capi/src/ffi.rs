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

/// The functions of a link that has both.
#[derive(Clone, Copy, Debug)]
struct ClientLink {
    read: unsafe extern "C" fn(*mut c_void, *mut u8, usize) -> i32,
    write: unsafe extern "C" fn(*mut c_void, *const u8, usize) -> i32,
    wait: Option<unsafe extern "C" fn(*mut c_void)>,
    context: *mut c_void,
}

/// `struct pmi_client`: what its memory holds.
#[derive(Debug)]
struct ClientMemory {
    session: Session,
    link: ClientLink,
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

impl ByteLink for ClientLink {
    fn read(&mut self, bytes: &mut [u8]) -> Moved {
        // SAFETY: the function is called as the header promises, with memory of that length.
        moved(unsafe { (self.read)(self.context, bytes.as_mut_ptr(), bytes.len()) }, bytes.len())
    }

    fn write(&mut self, bytes: &[u8]) -> Moved {
        // SAFETY: as above; it only reads them.
        moved(unsafe { (self.write)(self.context, bytes.as_ptr(), bytes.len()) }, bytes.len())
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
}

/// A call of the header.
#[derive(Clone, Copy)]
enum ClientCall {
    #[cfg(feature = "greet")]
    Greet {
        id: u64,
    },
    Open,
    Fence,
    Finalize,
    Put,
    Get,
    Abort {
        code: c_int,
    },
}

/// Arguments of a call that point to memory of the caller.
#[derive(Clone, Copy)]
struct CallMemory {
    /// The key of a put or get, or the message of an abort.
    text: *const c_char,
    /// The value of a put, or memory for that of a get.
    value: *mut u8,
    value_bytes: usize,
}

/// Starts a call.
///
/// # Safety
///
/// As for [`client`], and the memory is that of the header.
#[inline(never)]
unsafe fn start(handle: *mut ClientHandle, call: ClientCall, memory: &CallMemory) -> c_int {
    let CallMemory { text: key, value, value_bytes } = *memory;
    // SAFETY: by the contract of this function.
    let (client, key) = unsafe { (client(handle), text(key)) };
    let Some(client) = client else { return Status::Misuse as c_int };
    let request = match (call, key) {
        #[cfg(feature = "greet")]
        (ClientCall::Greet { id }, _) => Request::InitAck { id },
        (ClientCall::Open, _) => Request::Init { version: Version::V1_1 },
        (ClientCall::Fence, _) => Request::Fence { group: FenceGroup::World, tag: None },
        (ClientCall::Finalize, _) => Request::Finalize,
        (ClientCall::Put, Some(key)) => {
            // SAFETY: by the contract of this function.
            let Some(value) = (unsafe { borrowed(value, value_bytes) }) else {
                return Status::Misuse as c_int;
            };
            Request::Put { place: OWN, key: Text::plain(key), value: Text::plain(value) }
        }
        (ClientCall::Get, Some(key)) => {
            Request::Get { place: OWN, key: Text::plain(key), wait: false }
        }
        (ClientCall::Abort { code }, text) => Request::Abort {
            code: Some(code),
            world: true,
            message: Text::plain(text.unwrap_or(b"")),
        },
        (ClientCall::Put | ClientCall::Get, None) => return Status::Misuse as c_int,
    };
    let status = client.session.start(&request);
    // A call that is pending already keeps its memory; that of a put is not written to.
    if status == Status::Pending {
        client.value = value;
        client.room_bytes = if matches!(call, ClientCall::Put) { 0 } else { value_bytes };
    }
    status as c_int
}

/// Makes a call, and continues it until it is answered.
///
/// # Safety
///
/// As for [`start`].
#[inline(never)]
unsafe fn complete(handle: *mut ClientHandle, call: ClientCall, memory: &CallMemory) -> c_int {
    // SAFETY: by the contract of this function.
    let mut status = unsafe { start(handle, call, memory) };
    while status == Status::Pending as c_int {
        // SAFETY: by the contract of this function.
        let Some(client) = (unsafe { client(handle) }) else { break };
        status = client.poll() as c_int;
        if status == Status::Pending as c_int
            && let Some(wait) = client.link.wait
        {
            // SAFETY: the function is called as the header promises.
            unsafe { wait(client.link.context) };
        }
    }
    status
}

/// Writes the two functions of a call: one that starts it and one that also waits.
macro_rules! call {
    ($start:ident, $wait:ident, ($($name:ident: $type:ty),*), $about:literal, $call:expr, $memory:expr) => {
        #[doc = $about]
        ///
        /// # Safety
        ///
        /// As the header states.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $start(handle: *mut ClientHandle, $($name: $type),*) -> c_int {
            // SAFETY: by the contract of the header.
            unsafe { start(handle, $call, &$memory) }
        }

        #[doc = $about]
        ///
        /// # Safety
        ///
        /// As the header states.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $wait(handle: *mut ClientHandle, $($name: $type),*) -> c_int {
            // SAFETY: by the contract of the header.
            unsafe { complete(handle, $call, &$memory) }
        }
    };
}

#[cfg(feature = "greet")]
call!(
    pmi_client_start_greet,
    pmi_client_greet,
    (id: u64),
    "`cmd=initack`",
    ClientCall::Greet { id },
    NOTHING
);
call!(
    pmi_client_start_open,
    pmi_client_open,
    (),
    "`cmd=init`, `cmd=get_my_kvsname`",
    ClientCall::Open,
    NOTHING
);
call!(pmi_client_start_fence, pmi_client_fence, (), "`cmd=barrier_in`", ClientCall::Fence, NOTHING);
call!(
    pmi_client_start_finalize,
    pmi_client_finalize,
    (),
    "`cmd=finalize`",
    ClientCall::Finalize,
    NOTHING
);
call!(
    pmi_client_start_put,
    pmi_client_put,
    (key: *const c_char, value: *const c_void, len: usize),
    "`cmd=put`",
    ClientCall::Put,
    CallMemory { text: key, value: value.cast_mut().cast(), value_bytes: len }
);
call!(
    pmi_client_start_get,
    pmi_client_get,
    (key: *const c_char, value: *mut c_void, room: usize),
    "`cmd=get`",
    ClientCall::Get,
    CallMemory { text: key, value: value.cast(), value_bytes: room }
);
call!(
    pmi_client_start_abort,
    pmi_client_abort,
    (code: c_int, message: *const c_char),
    "`cmd=abort`",
    ClientCall::Abort { code },
    CallMemory { text: message, ..NOTHING }
);

/// Memory of a call without texts.
const NOTHING: CallMemory =
    CallMemory { text: ptr::null(), value: ptr::null_mut(), value_bytes: 0 };

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
    let Some(&LinkFunctions { read: Some(read), write: Some(write), wait, context }) =
        (unsafe { link.as_ref() })
    else {
        return Status::Misuse as c_int;
    };
    if handle.is_null() {
        return Status::Misuse as c_int;
    }
    let memory = handle.cast::<ClientMemory>();
    let link = ClientLink { read, write, wait, context };
    // SAFETY: the memory of the header is large and aligned enough, as asserted above. Written field by
    // field, since a whole one would pass through the stack.
    unsafe {
        (&raw mut (*memory).session).write(Session::new());
        (&raw mut (*memory).link).write(link);
        (&raw mut (*memory).value).write(ptr::null_mut());
        (&raw mut (*memory).room_bytes).write(0);
    }
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
