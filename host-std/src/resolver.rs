//! Resolver of the executable: the C functions by which the standard library looks up names of hosts.
//!
//! The program is linked with the archive of the C library, whose functions load the name services of the
//! system as libraries, and these belong to one version of the shared C library. So a process that the
//! system provides looks the name up: `getent ahosts NAME`. An address and `localhost` need no process.

use nix::libc::{
    AF_INET, AF_INET6, EAI_AGAIN, EAI_FAIL, EAI_NONAME, EAI_SERVICE, SOCK_STREAM, addrinfo, c_char,
    c_int, sa_family_t, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ffi::CStr;
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use std::{mem, ptr};

/// Addresses of a host, all for streams; `service` must be null, as the standard library passes it.
#[allow(unsafe_code, reason = "the standard library calls it by this name")]
// SAFETY: the program has no other function of this name, since the archive's one is not linked then.
#[unsafe(no_mangle)]
unsafe extern "C" fn getaddrinfo(
    name: *const c_char,
    service: *const c_char,
    _hints: *const addrinfo,
    found: *mut *mut addrinfo,
) -> c_int {
    if !service.is_null() || name.is_null() {
        return EAI_SERVICE;
    }
    // SAFETY: by the contract of this function it is a string that ends with a zero.
    let name = unsafe { CStr::from_ptr(name) };
    let addresses = match name.to_str().map_err(|_| LookupFailure::Unknown).and_then(resolve) {
        Ok(addresses) => addresses,
        Err(failure) => return failure.code(),
    };
    let list = addresses.into_iter().rev().fold(ptr::null_mut(), |next, address| {
        let node = Box::leak(Box::new(AddressNode::new(address)));
        node.info.ai_addr = (&raw mut node.address).cast::<sockaddr>();
        node.info.ai_next = next;
        ptr::from_mut(node).cast::<addrinfo>()
    });
    // SAFETY: by the contract of this function the pointer can be written to.
    unsafe { found.write(list) };
    0
}

/// Releases a list of [`getaddrinfo`].
#[allow(unsafe_code, reason = "the standard library calls it by this name")]
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn freeaddrinfo(mut list: *mut addrinfo) {
    while !list.is_null() {
        // SAFETY: `getaddrinfo` has leaked each node, whose first field this is.
        list = unsafe { Box::from_raw(list.cast::<AddressNode>()) }.info.ai_next;
    }
}

/// Text for a code of [`getaddrinfo`].
#[allow(unsafe_code, reason = "the standard library calls it by this name")]
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn gai_strerror(code: c_int) -> *const c_char {
    let text = match code {
        EAI_NONAME => c"the name has no address",
        EAI_AGAIN => c"no name service has answered in time",
        NO_GETENT => c"the command 'getent' of the system, which looks names up, cannot be started",
        _ => c"the name service has failed",
    };
    text.as_ptr()
}

/// Reason why a name has no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LookupFailure {
    /// No name service has it, or it is no name.
    Unknown,
    /// There is no answer after [`LOOKUP_MAX`].
    TimedOut,
    /// `getent` cannot be started.
    NoProgram,
    /// `getent` has failed otherwise.
    Failed,
}

impl LookupFailure {
    const fn code(self) -> c_int {
        match self {
            Self::Unknown => EAI_NONAME,
            Self::TimedOut => EAI_AGAIN,
            Self::NoProgram => NO_GETENT,
            Self::Failed => EAI_FAIL,
        }
    }
}

/// A node of a list, with its address.
#[repr(C)]
struct AddressNode {
    info: addrinfo,
    address: sockaddr_storage,
}

impl AddressNode {
    /// A node without a successor, whose pointer to the address is not set.
    #[allow(unsafe_code, reason = "these types of C have no other initial value")]
    #[allow(clippy::cast_possible_truncation, reason = "families and sizes of addresses are small")]
    fn new(address: SocketAddr) -> Self {
        // SAFETY: zeroes are a value of both types: numbers, and pointers that are null.
        let mut node: Self = unsafe { mem::zeroed() };
        node.info.ai_socktype = SOCK_STREAM;
        let place = &raw mut node.address;
        let len = match address {
            SocketAddr::V4(v4) => {
                node.info.ai_family = AF_INET;
                let place = place.cast::<sockaddr_in>();
                // SAFETY: the storage has room, and the alignment, of an address of each family.
                let place = unsafe { &mut *place };
                place.sin_family = AF_INET as sa_family_t;
                place.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
                size_of::<sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                node.info.ai_family = AF_INET6;
                let place = place.cast::<sockaddr_in6>();
                // SAFETY: as above.
                let place = unsafe { &mut *place };
                place.sin6_family = AF_INET6 as sa_family_t;
                place.sin6_addr.s6_addr = v6.ip().octets();
                place.sin6_scope_id = v6.scope_id();
                size_of::<sockaddr_in6>()
            }
        };
        node.info.ai_addrlen = len as socklen_t;
        node
    }
}

/// Addresses of a host, at least one; their ports are 0.
fn resolve(name: &str) -> Result<Vec<SocketAddr>, LookupFailure> {
    if let Some(address) = address(name) {
        return Ok(vec![address]);
    }
    if name.eq_ignore_ascii_case("localhost") {
        let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()];
        return Ok(loopback.map(|ip| SocketAddr::new(ip, 0)).into());
    }
    // An option for the command is no name of a host.
    if name.is_empty() || name.starts_with('-') {
        return Err(LookupFailure::Unknown);
    }
    let mut command = Command::new("getent");
    command.args(["ahosts", name]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|_| LookupFailure::NoProgram)?;
    let output = output_within(&mut child, LOOKUP_MAX);
    if output.is_none() {
        // It fails only if the process has exited by itself.
        let _ = child.kill();
    }
    let status = child.wait();
    let found = addresses(&output.ok_or(LookupFailure::TimedOut)?);
    match status.map(|status| status.code()) {
        _ if !found.is_empty() => Ok(found),
        Ok(Some(0 | NOT_FOUND)) => Err(LookupFailure::Unknown),
        _ => Err(LookupFailure::Failed),
    }
}

/// Output of a process until its end; `None` if it lasts too long, or cannot be read.
fn output_within(child: &mut Child, within: Duration) -> Option<Vec<u8>> {
    let mut stdout: ChildStdout = child.stdout.take()?;
    let deadline = Instant::now() + within;
    let mut output = vec![0; OUTPUT_BYTES_MAX];
    let mut len = 0;
    while len < output.len() {
        let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now())).ok()?;
        match poll(&mut [PollFd::new(&stdout, PollFlags::IN)], Some(&left)) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return None,
        }
        match stdout.read(&mut output[len..]) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    output.truncate(len);
    Some(output)
}

/// Addresses in lines `ADDRESS KIND [NAME]`. Each address has a line for each kind of socket.
fn addresses(output: &[u8]) -> Vec<SocketAddr> {
    let mut found = Vec::new();
    for line in String::from_utf8_lossy(output).lines() {
        let mut words = line.split_whitespace();
        if let (Some(text), Some("STREAM")) = (words.next(), words.next())
            && let Some(address) = address(text)
            && !found.contains(&address)
        {
            found.push(address);
        }
    }
    found
}

/// An address in digits, which may have the number of an interface: `fe80::1%2`.
fn address(text: &str) -> Option<SocketAddr> {
    let plain = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 0));
    let scoped = || format!("[{text}]:0").parse::<SocketAddrV6>().map(SocketAddr::V6);
    plain.or_else(|_| scoped()).ok()
}

/// Limit of a look-up. The name services of the system have shorter ones.
const LOOKUP_MAX: Duration = Duration::from_secs(60);

/// Upper bound of what is read of the answer: some hundred addresses.
const OUTPUT_BYTES_MAX: usize = 16 << 10;

/// Exit code of `getent` for a name that no service has.
const NOT_FOUND: i32 = 2;

/// Code for which [`gai_strerror`] has a text; the C library has no such code.
const NO_GETENT: c_int = -10_000;
