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

/// Borrows the bytes before the NUL; `None` for a null pointer.
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
    }
    // SAFETY: these bytes were just read.
    Some(unsafe { slice::from_raw_parts(text.cast::<u8>(), len) })
}

impl ClientMemory {
    /// Starts a call whose answer has a value for `room_bytes` bytes of memory, if any.
    fn start(&mut self, request: &Request<'_>, value: *mut u8, room_bytes: usize) -> c_int {
        let status = self.session.start(request);
        // A call that is pending already keeps its memory.
        if status == Status::Pending {
            (self.value, self.room_bytes) = (value, room_bytes);
        }
        status as c_int
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
}

/// A call of the header.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClientCall {
    Open,
    Fence,
    Finalize,
    Put,
    Get,
    Abort,
}

/// Starts a call. The arguments stand as those of [`pmi_client_put`], whose registers they are in: the key,
/// or the message of an abort; the value, or memory for it; and its length, or the code of an abort.
///
/// # Safety
///
/// As for [`client`], and the memory is that of the header.
unsafe fn start(
    handle: *mut ClientHandle,
    key: *const c_char,
    value: *mut u8,
    value_bytes: usize,
    call: ClientCall,
) -> c_int {
    // SAFETY: by the contract of this function.
    let (client, key) = unsafe { (client(handle), text(key)) };
    let Some(client) = client else { return Status::Misuse as c_int };
    let request = match (call, key) {
        (ClientCall::Open, _) => Request::Init { version: Version::V1_1 },
        (ClientCall::Fence, _) => Request::Fence { group: FenceGroup::World, tag: None },
        (ClientCall::Finalize, _) => Request::Finalize,
        (ClientCall::Put, Some(key)) if !value.is_null() => {
            // SAFETY: by the contract of this function.
            let value = unsafe { slice::from_raw_parts(value, value_bytes) };
            Request::Put { place: OWN, key: Text::plain(key), value: Text::plain(value) }
        }
        (ClientCall::Get, Some(key)) => {
            Request::Get { place: OWN, key: Text::plain(key), wait: false }
        }
        #[allow(
            clippy::cast_possible_wrap,
            clippy::cast_possible_truncation,
            reason = "it was one"
        )]
        (ClientCall::Abort, text) => Request::Abort {
            code: Some(value_bytes as c_int),
            world: true,
            message: Text::plain(text.unwrap_or(b"")),
        },
        _ => return Status::Misuse as c_int,
    };
    client.start(
        &request,
        if call == ClientCall::Get { value } else { ptr::null_mut() },
        value_bytes,
    )
}

/// Makes a call, and continues it until it is answered; the arguments are those of [`start`].
///
/// # Safety
///
/// As for [`start`].
#[inline(never)]
unsafe fn complete(
    handle: *mut ClientHandle,
    key: *const c_char,
    value: *mut u8,
    value_bytes: usize,
    call: ClientCall,
) -> c_int {
    // SAFETY: by the contract of this function.
    let started = unsafe { start(handle, key, value, value_bytes, call) };
    // SAFETY: as above.
    unsafe { wait(handle, started) }
}

/// Continues a started call until it is answered.
///
/// # Safety
///
/// As for [`client`].
unsafe fn wait(handle: *mut ClientHandle, mut status: c_int) -> c_int {
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
    (
        $start:ident,
        $wait:ident,
        ($($name:ident: $type:ty),*),
        $about:literal,
        $call:ident,
        $key:expr,
        $value:expr,
        $bytes:expr
    ) => {
        #[doc = $about]
        ///
        /// # Safety
        ///
        /// As the header states.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $start(handle: *mut ClientHandle, $($name: $type),*) -> c_int {
            // SAFETY: by the contract of the header.
            unsafe { start(handle, $key, $value, $bytes, ClientCall::$call) }
        }

        #[doc = $about]
        ///
        /// # Safety
        ///
        /// As the header states.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $wait(handle: *mut ClientHandle, $($name: $type),*) -> c_int {
            // SAFETY: by the contract of the header.
            unsafe { complete(handle, $key, $value, $bytes, ClientCall::$call) }
        }
    };
}

/// Starts `cmd=initack`.
///
/// # Safety
///
/// As the header states.
#[cfg(feature = "greet")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmi_client_start_greet(handle: *mut ClientHandle, id: u64) -> c_int {
    // SAFETY: by the contract of the header.
    let client = unsafe { client(handle) };
    client.map_or(Status::Misuse as c_int, |client| {
        client.start(&Request::InitAck { id }, ptr::null_mut(), 0)
    })
}

/// `cmd=initack`
///
/// # Safety
///
/// As the header states.
#[cfg(feature = "greet")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmi_client_greet(handle: *mut ClientHandle, id: u64) -> c_int {
    // SAFETY: by the contract of the header.
    unsafe { wait(handle, pmi_client_start_greet(handle, id)) }
}

call!(
    pmi_client_start_open,
    pmi_client_open,
    (),
    "`cmd=init`, `cmd=get_my_kvsname`",
    Open,
    ptr::null(),
    ptr::null_mut(),
    0
);
call!(
    pmi_client_start_fence,
    pmi_client_fence,
    (),
    "`cmd=barrier_in`",
    Fence,
    ptr::null(),
    ptr::null_mut(),
    0
);
call!(
    pmi_client_start_finalize,
    pmi_client_finalize,
    (),
    "`cmd=finalize`",
    Finalize,
    ptr::null(),
    ptr::null_mut(),
    0
);
call!(
    pmi_client_start_put,
    pmi_client_put,
    (key: *const c_char, value: *const c_void, len: usize),
    "`cmd=put`",
    Put,
    key,
    value.cast_mut().cast(),
    len
);
call!(
    pmi_client_start_get,
    pmi_client_get,
    (key: *const c_char, value: *mut c_void, room: usize),
    "`cmd=get`",
    Get,
    key,
    value.cast(),
    room
);
call!(
    pmi_client_start_abort,
    pmi_client_abort,
    (code: c_int, message: *const c_char),
    "`cmd=abort`",
    Abort,
    message,
    ptr::null_mut(),
    code.cast_unsigned() as usize
);

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
