//! Calls that a sandbox refuses: after an error, which one it is.
//!
//! A filter of system calls answers with an error that says nothing about the call, and most errors pass
//! several layers. So the calls that a run depends on are made once more, each for nothing, when such an
//! error is reported.

use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, fcntl_getfd, ioctl_fionbio};
use rustix::net::sockopt::{set_socket_reuseaddr, socket_type};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, accept_with, bind, connect,
    getpeername, getsockname, listen, recv, send, socket, socketpair,
};
use rustix::process::{WaitId, WaitIdOptions, getpid, waitid};
use rustix::rand::GetRandomFlags;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::Command;

/// The words for `error`: the call that the system refuses if a sandbox has caused it, else its own.
pub fn words(error: &io::Error) -> String {
    let refused =
        Errno::from_io_error(error).filter(|errno| is_refusal(*errno)).and_then(|_| refused());
    refused.unwrap_or_else(|| error.to_string())
}

/// The call that the system refuses to this process, if there is one.
pub fn refused() -> Option<String> {
    CALLS.iter().find_map(|(name, call)| {
        let error = call().err()?;
        is_refusal(error).then(|| sentence(name, &error.into()))
    })
}

/// True for the errors of a sandbox. They have other causes as well.
pub fn is_refusal(error: Errno) -> bool {
    matches!(error, Errno::PERM | Errno::NOSYS)
}

/// The error of a call that the system has refused.
pub fn of_call(name: &str, error: Errno) -> io::Error {
    match is_refusal(error) {
        true => io::Error::other(sentence(name, &error.into())),
        false => error.into(),
    }
}

fn sentence(name: &str, error: &io::Error) -> String {
    let text = error.to_string();
    let what = text.split(" (os error").next().unwrap_or_default();
    format!(
        "the system refuses {name} ({what}); a sandbox that filters system calls has to permit it"
    )
}

/// Makes a call for nothing.
type Call = fn() -> Result<(), Errno>;

/// Calls without which no job runs; what one needs stands in front of it.
const CALLS: &[(&str, Call)] = &[
    ("pipe2", || pipe().map(drop)),
    ("dup2", || {
        let (read, mut written) = pipe()?;
        rustix::io::dup2(read, &mut written)
    }),
    ("fcntl", || fcntl_getfd(pipe()?.0).map(drop)),
    ("socketpair", || pair().map(drop)),
    ("socket", || inet().map(drop)),
    ("setsockopt", || set_socket_reuseaddr(inet()?, true)),
    ("getsockopt", || socket_type(inet()?).map(drop)),
    ("bind", || bound().map(drop)),
    ("listen", || listening().map(drop)),
    ("getsockname", || getsockname(bound()?).map(drop)),
    ("sendto", || send(pair()?.0, &[0], SendFlags::NOSIGNAL).map(drop)),
    ("recvfrom", || {
        let (here, there) = pair()?;
        drop(there);
        recv(here, &mut [0; 1], RecvFlags::empty()).map(drop)
    }),
    ("ioctl", || ioctl_fionbio(pair()?.0, true)),
    ("epoll_create1", || set().map(drop)),
    ("epoll_ctl", || add().map(drop)),
    ("epoll_pwait", || {
        let mut events = Vec::with_capacity(1);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let events = rustix::buffer::spare_capacity(&mut events);
        epoll::wait(add()?.0, events, Some(&at_once)).map(drop)
    }),
    ("waitid", || {
        match waitid(WaitId::Pid(getpid()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
            Err(Errno::CHILD) => Ok(()),
            other => other.map(drop),
        }
    }),
    // The C library goes on to the older call only where the newer one does not exist.
    ("clone3", || spawn().or_else(|error| if error == Errno::PERM { Err(error) } else { Ok(()) })),
    ("clone", spawn),
    ("getrandom", || rustix::rand::getrandom(&mut [0; 1], GetRandomFlags::empty()).map(drop)),
    ("readlink", || refusal_of(std::fs::read_link("/proc/self/exe"))),
    ("connect", || connected().map(drop)),
    ("accept4", || accept_with(connected()?.1, SocketFlags::CLOEXEC).map(drop)),
    ("getpeername", || getpeername(connected()?.0).map(drop)),
];

fn pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
}

fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}

fn inet() -> Result<OwnedFd, Errno> {
    socket(AddressFamily::INET, SocketType::STREAM, None)
}

fn bound() -> Result<OwnedFd, Errno> {
    let socket = inet()?;
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
    Ok(socket)
}

/// A connection that nobody has accepted, and its listener.
fn connected() -> Result<(OwnedFd, OwnedFd), Errno> {
    let there = listening()?;
    let here = inet()?;
    connect(&here, &getsockname(&there)?)?;
    Ok((here, there))
}

#[expect(clippy::disallowed_methods, reason = "for one connection, of this process")]
fn listening() -> Result<OwnedFd, Errno> {
    let socket = bound()?;
    listen(&socket, 1)?;
    Ok(socket)
}

/// Starts a program that does not exist.
fn spawn() -> Result<(), Errno> {
    refusal_of(Command::new("/dev/null/none").spawn())
}

/// The error of a sandbox, of a call that may fail for other reasons.
fn refusal_of<T>(result: io::Result<T>) -> Result<(), Errno> {
    let error = result.err().as_ref().and_then(Errno::from_io_error);
    error.filter(|error| is_refusal(*error)).map_or(Ok(()), Err)
}

fn set() -> Result<OwnedFd, Errno> {
    epoll::create(epoll::CreateFlags::CLOEXEC)
}

/// A set with the end of a pipe.
fn add() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (set, (read, _)) = (set()?, pipe()?);
    epoll::add(&set, &read, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
    Ok((set, read))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_permitted_where_nothing_filters_them() {
        for (name, call) in CALLS {
            assert_eq!(call(), Ok(()), "{name}");
        }
    }

    #[test]
    fn error_that_no_sandbox_has_caused_keeps_its_words() {
        for error in [Errno::PERM, Errno::NOSYS, Errno::NOENT] {
            let error = io::Error::from(error);
            assert_eq!(words(&error), error.to_string());
        }
        let other = io::Error::other("of its own");
        assert_eq!(words(&other), "of its own");
    }

    #[test]
    fn refused_call_is_named_with_a_remedy() {
        assert_eq!(
            of_call("clone", Errno::PERM).to_string(),
            "the system refuses clone (Operation not permitted); a sandbox that filters system calls has to \
             permit it"
        );
        assert_eq!(of_call("clone", Errno::AGAIN).raw_os_error(), Some(11));
    }
}
