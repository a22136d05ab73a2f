//! What `pmi-host` asks of Linux. It knows neither jobs nor protocols.
//!
//! ```text
//! poller         epoll, as a stream of tokens, one kind for each use of a descriptor in the launcher
//! listen         listening sockets; admission: which connections are admitted, and by which proof
//! processes      processes of this machine; process_handle: one of them
//! cleanup        what processes leave behind: files, descendants, and the guard of a process that is killed
//! descriptors    limit on open files; refusal: which call a sandbox refuses
//! console        terminal of the launcher; target: writing without blocking
//! runtime_dir    directory for sockets and secrets of launchers of one user
//! host_name      names of this machine and of others; resolver: their addresses
//! clock, random  time of all deadlines, and random numbers
//! command_output output of a command that has a time limit
//! null_device, stream, byte_vec  `/dev/null`, names of standard streams, bytes in messages
//! ```
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![deny(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!(
    "pmi-host runs on Linux only; pmi-core, pmi-link, pmi-sim and the playground build on this system"
);

pub mod admission;
pub mod byte_vec;
pub mod cleanup;
pub mod clock;
pub mod command_output;
pub mod console;
pub mod descriptors;
pub mod host_name;
pub mod listen;
pub mod null_device;
pub mod poller;
pub mod process_handle;
pub mod processes;
pub mod random;
pub mod refusal;
pub mod resolver;
pub mod runtime_dir;
pub mod stream;
pub mod target;
