//! A node without operating system, firmware, boot loader or heap, in a job with others.
//!
//! It boots, reads its role from the text after `-append`, finds its network card, and either takes
//! part in a job as a client or serves one. It prints a table and exits with a status that names
//! the result.
#![no_std]
#![no_main]

mod args;
mod client;
mod futures;
mod machine;
mod net;
mod serial;
mod server;
mod status;
mod tree;

use core::fmt::{self, Write};
use core::panic::PanicInfo;

use args::{Args, LinkKind, Role};
use machine::memory;
use net::Net;
use status::{Failure, Status};

/// The serial line.
struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(machine::putc);
        Ok(())
    }
}

/// Prints a line.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::print(format_args!($($text)*)) };
}

fn print(text: fmt::Arguments<'_>) {
    // The serial line takes everything.
    let _ = writeln!(Console, "{text}");
}

/// Entry point after the machine's set-up.
fn start(command_line: Option<&'static [u8]>) -> ! {
    let begin = machine::micros();
    let status = run(core::str::from_utf8(command_line.unwrap_or(b"")).unwrap_or("?"));
    let micros = machine::micros() - begin;
    let (stack, statics) = (memory::stack_used(), memory::statics());
    say!("guest: status {} ({status:?}) {micros} us stack {stack} statics {statics}", status as u8);
    machine::exit(status as u8)
}

fn run(line: &'static str) -> Status {
    let args = match Args::new(line) {
        Ok(args) => args,
        Err(word) => {
            say!("guest: cannot use {word:?} of {line:?}");
            return Status::BadArguments;
        }
    };
    match args.role {
        Role::Trap => machine::fault(),
        Role::Panic => panic!("as requested"),
        Role::Client | Role::Server => {}
    }
    if args.link == LinkKind::Serial {
        return end(serial::run(&args));
    }
    let Some(mut net) = Net::new(args.addr) else {
        say!("guest: no network card");
        return Status::NoDevice;
    };
    if args.role == Role::Server {
        return server::run(&args, &mut net);
    }
    end(match args.has_futures {
        true => futures::run(&args, net),
        false => client::run(&args, &mut net),
    })
}

fn end(done: Result<(), Failure>) -> Status {
    match done {
        Ok(()) => Status::Done,
        Err(why) => {
            say!("guest: {why}");
            why.status()
        }
    }
}

/// Prints the registers of a trap.
fn trapped<'a>(registers: impl Iterator<Item = (&'a &'static str, &'a u64)>) -> ! {
    say!("guest: trap");
    for (name, value) in registers {
        say!("  {name:>8} {value:016x}");
    }
    machine::exit(Status::Trapped as u8)
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    say!("guest: {info}");
    machine::exit(Status::Panicked as u8)
}
