//! Lower bound for a fence of ranks on several hosts: one byte from each rank to its relay, one from each
//! relay to the root, and the same way back. No protocol, no protection, no deadlines.
//!
//! `relay-fence root PORT RELAYS FENCES` prints the time between the ends of two fences;
//! `relay-fence relay ADDRESS:PORT RANKS`, on each host, starts its ranks and ends with the root.
#![forbid(unsafe_code)]

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};
use std::{env, thread};

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["root", port, relays, fences] => match (port.parse(), relays.parse(), fences.parse()) {
            (Ok(port), Ok(relays), Ok(fences)) => root(port, relays, fences),
            _ => return usage(),
        },
        ["relay", address, ranks] => match ranks.parse() {
            Ok(ranks) => relay(address, ranks),
            Err(_) => return usage(),
        },
        ["rank"] => rank(),
        _ => return usage(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("relay-fence: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: relay-fence root PORT RELAYS FENCES | relay ADDRESS:PORT RANKS");
    ExitCode::from(2)
}

fn root(port: u16, relays: usize, fences: usize) -> io::Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", port))?;
    let accept = |_| -> io::Result<TcpStream> {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    let mut relays = (0..relays).map(accept).collect::<io::Result<Vec<_>>>()?;
    let mut took: Vec<Duration> = Vec::new();
    let mut since = Instant::now();
    // The first fence waits for the start of the ranks.
    for _ in 0..=fences {
        gather(&mut relays)?;
        release(&mut relays)?;
        took.push(since.elapsed());
        since = Instant::now();
    }
    let mut took = took.split_off(1);
    took.sort_unstable();
    let (count, sum) = (took.len(), took.iter().sum::<Duration>());
    let median = took.get(count / 2).copied().unwrap_or_default();
    let mean = sum.as_nanos() / count.max(1) as u128;
    println!("fence count={count} median_ns={} mean_ns={mean}", median.as_nanos());
    Ok(())
}

fn relay(address: &str, count: usize) -> io::Result<()> {
    let (mut ranks, mut children): (Vec<UnixStream>, Vec<Child>) = (Vec::new(), Vec::new());
    let program = env::current_exe()?;
    for _ in 0..count {
        let (own, theirs) = UnixStream::pair()?;
        children.push(Command::new(&program).arg("rank").stdin(OwnedFd::from(theirs)).spawn()?);
        ranks.push(own);
    }
    let mut root = [connect(address)?];
    root[0].set_nodelay(true)?;
    // Until the root ends, and the ranks with this relay.
    while gather(&mut ranks).and_then(|()| release(&mut root)).is_ok() {
        if gather(&mut root).and_then(|()| release(&mut ranks)).is_err() {
            break;
        }
    }
    drop(ranks);
    children.iter_mut().try_for_each(|child| child.wait().map(drop))
}

/// The root may start later.
fn connect(address: &str) -> io::Result<TcpStream> {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        match TcpStream::connect(address) {
            Err(_) if Instant::now() < until => thread::sleep(Duration::from_millis(5)),
            connected => return connected,
        }
    }
}

fn rank() -> io::Result<()> {
    let mut relay = [UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?)];
    while release(&mut relay).and_then(|()| gather(&mut relay)).is_ok() {}
    Ok(())
}

/// Reads a byte of each.
fn gather(from: &mut [impl Read]) -> io::Result<()> {
    from.iter_mut().try_for_each(|one| one.read_exact(&mut [0]))
}

/// Writes a byte to each.
fn release(to: &mut [impl Write]) -> io::Result<()> {
    to.iter_mut().try_for_each(|one| one.write_all(&[1]))
}
