//! Lower bound for every launcher: starts a program n times and waits for all of them, and nothing else.
//!
//! `spawn-and-wait N PROGRAM`: the standard library starts a program by `posix_spawn` when nothing special
//! is asked for; no pipes, no sockets, no change of the environment.
#![forbid(unsafe_code)]

use std::process::{Child, Command, ExitCode};
use std::{env, io};

fn main() -> ExitCode {
    let mut words = env::args().skip(1);
    let (Some(Ok(count)), Some(program)) = (words.next().map(|word| word.parse()), words.next())
    else {
        eprintln!("usage: spawn-and-wait N PROGRAM");
        return ExitCode::from(2);
    };
    match run(count, &program) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("spawn-and-wait: {program}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(count: usize, program: &str) -> io::Result<bool> {
    let mut command = Command::new(program);
    let mut children: Vec<Child> = (0..count).map(|_| command.spawn()).collect::<Result<_, _>>()?;
    let mut all_well = true;
    for child in &mut children {
        all_well &= child.wait()?.success();
    }
    Ok(all_well)
}
