//! The smallest process manager that ranks connect to.
//!
//! ```text
//! pmi-manager RANKS FIRST-ID SECRET      serves one job until all ranks have finalized
//! pmi-manager gone|long|malformed        plays a server that breaks the rules, for one connection
//! ```
//!
//! It listens on a free port of the loopback interface and prints it in its first line. In PMI-1,
//! rank N connects with the process id FIRST-ID + N; in PMI-2 it has to prove that it knows the
//! secret.

mod job;
mod rogue;

use std::env;
use std::io;
use std::net::TcpListener;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("manager: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> io::Result<bool> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("manager: port {}", listener.local_addr()?.port());
    match *arguments {
        [ranks, first_id, secret] => match (ranks.parse(), first_id.parse()) {
            (Ok(ranks), Ok(first_id)) => job::serve(&listener, ranks, first_id, secret),
            _ => Err(io::Error::other("RANKS and FIRST-ID are numbers")),
        },
        [fault] => rogue::serve(&listener, fault).map(|()| true),
        _ => Err(io::Error::other("give RANKS FIRST-ID SECRET, or the name of a fault")),
    }
}
