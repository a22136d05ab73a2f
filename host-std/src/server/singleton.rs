//! Connection to a singleton: a program that was started without a launcher and has started this one.
//!
//! It listens at a local port until the launcher connects, and identifies itself. All of this happens
//! before anything else, since only the requesting program waits for it.

use pmi_core::command::{Text, Version};
use pmi_core::wire::pmi1::SingletonGreeting;
use pmi_host_base::system_file;
use pmi_std::{Stream, close_on_exec};
use rustix::fs::OFlags;
use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// Arguments with which a singleton starts its launcher: `-pmi_args PORT INTERFACE KEY PID`.
///
/// Interface and key were meant for more than was ever implemented: every program passes
/// `default_interface` and `default_key`. MPICH determines the pid after the fork of the process that
/// becomes the launcher, so it is the launcher's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SingletonArgs {
    /// Port on which the program listens.
    pub(crate) port: u16,
    /// Pid of the program.
    pub(crate) pid: i32,
}

impl SingletonArgs {
    /// Option that carries the arguments.
    pub(crate) const OPTION: &str = "-pmi_args";

    /// Finds the arguments among `words`; programs may put options of their own in front.
    ///
    /// # Errors
    ///
    /// A message for the user.
    pub(crate) fn among(words: &[OsString]) -> Option<Result<Self, String>> {
        let is_switch = |word: &&OsString| word.as_encoded_bytes().starts_with(b"-");
        let at = words.iter().take_while(is_switch).position(|word| word == Self::OPTION)?;
        let number = |behind: usize| words.get(at + behind)?.to_str()?.parse::<i32>().ok();
        let port = number(1).and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
        let found = port.zip(number(4).filter(|pid| *pid > 0));
        let theirs = |pid| if pid == own_pid() { parent_pid().unwrap_or(pid) } else { pid };
        Some(found.map(|(port, pid)| Self { port, pid: theirs(pid) }).ok_or_else(|| {
            format!(
                "'{}' is for programs that start their own launcher, with port, interface, key \
                 and process behind it; start programs with 'pmi-host run -n 4 ./hello'",
                Self::OPTION
            )
        }))
    }

    /// Connects and sends the program the name of its job, `kvsname`. The connection is non-blocking
    /// then.
    ///
    /// # Errors
    ///
    /// A message for the user.
    pub(crate) fn connect(self, kvsname: &str) -> Result<(Stream, SocketAddr), String> {
        let Self { port, pid } = self;
        let connected = || -> io::Result<(Stream, SocketAddr)> {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let mut stream = TcpStream::connect_timeout(&address, WITHIN)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(WITHIN))?;
            send_greeting(
                &mut stream,
                SingletonGreeting::Hello { version: None, has_streams: false },
            )?;
            let (mut line, mut byte) = (Vec::new(), [0]);
            // Byte by byte, so that nothing of the following messages is consumed.
            while line.last() != Some(&b'\n') && line.len() < LINE_BYTES {
                stream.read_exact(&mut byte)?;
                line.push(byte[0]);
            }
            let version = match SingletonGreeting::read(&line) {
                Ok(SingletonGreeting::Hello { version, .. }) => version,
                _ => {
                    let answer = line.escape_ascii();
                    return Err(io::Error::other(format!("it answered '{answer}'")));
                }
            };
            let speaks_ours = version.is_none_or(|version| version.major == Version::V1_1.major);
            let kvsname = speaks_ours.then(|| Text::from(kvsname));
            send_greeting(&mut stream, SingletonGreeting::Info { kvsname })?;
            if !speaks_ours {
                return Err(io::Error::other("it does not speak PMI-1"));
            }
            stream.set_nonblocking(true)?;
            Ok((stream.into(), address))
        };
        connected().map_err(|error| {
            format!(
                "process {pid} has started this launcher and waits at port {port} of this machine, but \
                 cannot be served: {error}"
            )
        })
    }
}

/// Arguments with which a singleton of PMIx starts its launcher, as Open MPI 5 does: `--singleton NSPACE.RANK
/// --report-uri FD --keepalive FD`, among others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PmixSingletonArgs {
    /// Namespace of the program, which is rank 0 in it.
    pub(crate) nspace: String,
    /// Descriptor to which the address of the server is written; the program reads up to its end.
    pub(crate) uri: u32,
}

impl PmixSingletonArgs {
    /// Finds the arguments among `words`.
    ///
    /// # Errors
    ///
    /// A message for the user.
    pub(crate) fn among(words: &[OsString]) -> Option<Result<Self, String>> {
        let value = |option: &str| {
            let at = words.iter().position(|word| word == option)?;
            words.get(at + 1).and_then(|word| word.to_str())
        };
        words.first()?.to_str()?.strip_prefix("--")?;
        let identity = value(SINGLETON)?;
        let found = identity.rsplit_once('.').filter(|(nspace, rank)| {
            // A name of more than 255 bytes is none, and a singleton has no other ranks.
            (1..=255).contains(&nspace.len()) && *rank == "0"
        });
        let uri = value(REPORT_URI).and_then(|uri| uri.parse().ok());
        let found =
            found.zip(uri).map(|((nspace, _), uri)| Self { nspace: nspace.to_owned(), uri });
        Some(found.ok_or_else(|| {
            format!(
                "'{SINGLETON}' is for programs that start their own launcher, with their namespace and \
                 rank 0 behind it, and '{REPORT_URI}' with a descriptor; start programs with 'pmi-host run \
                 -n 4 ./hello'"
            )
        }))
    }

    /// Process of the program.
    pub(crate) fn pid() -> i32 {
        parent_pid().unwrap_or(0)
    }

    /// Executes this program again with the descriptor for the address as its standard input, which it does
    /// not need, unless that is so already: the descriptor has to be closed when the address is written. It
    /// returns if that fails.
    ///
    /// # Errors
    ///
    /// A message for the user.
    pub(crate) fn move_descriptor(&self) -> Result<(), String> {
        let Self { nspace, uri } = self;
        if *uri == 0 {
            return Ok(());
        }
        let moved = || -> io::Result<Infallible> {
            let stream = system_file::open(format!("/proc/self/fd/{uri}"), OFlags::WRONLY)?;
            close_on_exec(*uri)?;
            let mut again = Command::new(std::env::current_exe()?);
            again.args([SINGLETON, &format!("{nspace}.0"), REPORT_URI, "0"]);
            Err(again.stdin(stream).exec())
        };
        let Err(error) = moved();
        Err(format!("the address of this launcher cannot be sent to descriptor {uri}: {error}"))
    }

    /// Writes the address of the server, and closes the descriptor.
    ///
    /// # Errors
    ///
    /// A message for the user.
    pub(crate) fn report(&self, address: &str) -> Result<(), String> {
        let written = || -> io::Result<()> {
            let pipe = io::stdin().as_fd().try_clone_to_owned()?;
            let nothing = system_file::open("/dev/null", OFlags::RDONLY)?;
            rustix::stdio::dup2_stdin(&nothing)?;
            File::from(pipe).write_all(address.as_bytes())
        };
        written().map_err(|error| {
            format!("the address of this launcher cannot be sent to the program that has started it: {error}")
        })
    }
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

fn parent_pid() -> Option<i32> {
    rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get())
}

fn send_greeting(stream: &mut TcpStream, greeting: SingletonGreeting<'_>) -> io::Result<()> {
    let mut out = [0; LINE_BYTES];
    let len = greeting
        .write(&mut out)
        .map_err(|_| io::Error::other("the name of the job cannot be sent"))?;
    stream.write_all(&out[..len])
}

const SINGLETON: &str = "--singleton";
const REPORT_URI: &str = "--report-uri";

/// Longest wait for the program, which waits for nothing else.
const WITHIN: Duration = Duration::from_secs(10);

/// Maximum length of a line; the longest one carries the name of a job.
const LINE_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_singleton_of_pmix_have_its_namespace_and_a_descriptor() {
        let among = |line: &str| {
            let words = line.split_whitespace().map(OsString::from);
            PmixSingletonArgs::among(&words.collect::<Vec<_>>())
        };
        let line = "--prtemca schizo prte --no-ready-msg --report-uri 18 --singleton a.b.77.0 --keepalive 19";
        let found = PmixSingletonArgs { nspace: "a.b.77".into(), uri: 18 };
        assert_eq!(among(line), Some(Ok(found)));
        for line in [
            "--singleton a.0",
            "--singleton a.1 --report-uri 3",
            "--singleton .0 --report-uri 3",
            "--singleton a.0 --report-uri x",
        ] {
            assert!(among(line).is_some_and(|found| found.is_err()), "{line}");
        }
        assert_eq!(among("run -n 1 ./a --singleton a.0 --report-uri 3"), None);
    }

    fn among(line: &str) -> Option<Result<SingletonArgs, String>> {
        SingletonArgs::among(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn words_of_a_program_are_told_from_those_of_people() {
        let caller = Some(Ok(SingletonArgs { port: 4711, pid: 99 }));
        assert_eq!(among("-pmi_args 4711 default_interface default_key 99"), caller);
        assert_eq!(among("-v -pmi_args 4711 default_interface default_key 99"), caller);
        let own = among(&format!("-pmi_args 4711 default_interface default_key {}", own_pid()));
        assert_eq!(own.unwrap().unwrap().pid, parent_pid().unwrap());
        assert_eq!(among("run -n 4 ./a -pmi_args"), None);
        for line in ["-pmi_args", "-pmi_args 0 a b 1", "-pmi_args 1 a b", "-pmi_args 1 a b -1"] {
            assert!(among(line).is_some_and(|found| found.is_err()), "{line}");
        }
    }
}
