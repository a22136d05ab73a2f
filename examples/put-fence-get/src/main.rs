//! One rank of a job that puts, fences and gets, and reports the time of each.
//!
//! `pmi-host run -n 8 put-fence-get time pmi1 64 500 500 100` (or the same under any other launcher): every
//! rank puts 500 values of 64 bytes under keys of its own, fences, gets 500 values of others, and fences 100
//! times more. Rank 0 prints one line per operation: count, median and mean in nanoseconds. The line `data`
//! has the time of all puts together with the fence that carries them.
//!
//! `put-fence-get lone-get pmi1 64 20 1000`: every rank puts 20 values and fences, and rank 0 gets 1000
//! values while the others wait in the next fence.
//!
//! `put-fence-get memory pmi1 1023`: every rank puts one value, all fence, and rank 0 prints memory and
//! processor time of all other processes, the launcher among them. `put-fence-get work pmi1 64 10 10 10`
//! prints them before and after so many puts, gets and fences of every rank.
//!
//! `put-fence-get processes LABEL` is no rank: it prints the processes at once.
//!
//! No operation waits longer than a fixed time, so a launcher that loses a reply fails and does not hang.
#![forbid(unsafe_code)]

mod processes;
mod wire;

use std::env;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use wire::{Wire, WireDialect};

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let rank = env::var("PMI_RANK").unwrap_or_default();
            eprintln!("put-fence-get: rank {rank}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> io::Result<()> {
    if let [mode, label] = words
        && mode == "processes"
    {
        return processes::report(label);
    }
    let (Ok(rank), Ok(size)) = (variable("PMI_RANK"), variable("PMI_SIZE")) else {
        return Err(io::Error::other(
            "PMI_RANK and PMI_SIZE are not set: start this by a launcher",
        ));
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some((ON_STDIN, words)) = words.split_last().map(|(last, rest)| (*last, rest)) else {
        return Err(with_socket_on_stdin());
    };
    let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    stream.set_read_timeout(Some(PATIENCE))?;
    let job = Membership { rank, size };
    match *words {
        ["time", dialect, value_len, puts, gets, fences] => {
            let mut wire = Wire::open(stream, self::dialect(dialect)?, rank)?;
            let counts =
                Counts { puts: number(puts)?, gets: number(gets)?, fences: number(fences)? };
            job.time(&mut wire, number(value_len)?, counts)?;
            wire.finalize()
        }
        ["work", dialect, value_len, puts, gets, fences] => {
            let mut wire = Wire::open(stream, self::dialect(dialect)?, rank)?;
            let counts =
                Counts { puts: number(puts)?, gets: number(gets)?, fences: number(fences)? };
            job.report("before", &mut wire)?;
            job.time(&mut wire, number(value_len)?, counts)?;
            job.report("after", &mut wire)?;
            wire.finalize()
        }
        ["lone-get", dialect, value_len, puts, gets] => {
            let mut wire = Wire::open(stream, self::dialect(dialect)?, rank)?;
            let counts = Counts { puts: number(puts)?, gets: number(gets)?, fences: 0 };
            job.lone_get(&mut wire, number(value_len)?, counts)?;
            wire.finalize()
        }
        ["memory", dialect, value_len] => {
            let mut wire = Wire::open(stream, self::dialect(dialect)?, rank)?;
            job.fill(&mut wire, number(value_len)?)?;
            wire.finalize()
        }
        _ => Err(io::Error::other(
            "usage: put-fence-get time|work pmi1|pmi2 VALUE_BYTES PUTS GETS FENCES | \
             lone-get pmi1|pmi2 VALUE_BYTES PUTS GETS | memory pmi1|pmi2 VALUE_BYTES | processes LABEL",
        )),
    }
}

#[derive(Clone, Copy)]
struct Membership {
    rank: u32,
    size: u32,
}

struct Counts {
    puts: u32,
    gets: u32,
    fences: u32,
}

impl Membership {
    fn time(self, wire: &mut Wire, value_len: u32, counts: Counts) -> io::Result<()> {
        warm_up(wire)?;
        let begin = Instant::now();
        let puts = self.put_all(wire, value_len, &counts)?;
        wire.fence()?;
        // Ranks do not put at the same pace: the fence alone would include waits for the slowest.
        let data = begin.elapsed();
        let gets = self.get_all(wire, value_len, &counts)?;
        wire.fence()?;
        let fences = timed(counts.fences, |_| {
            let start = Instant::now();
            wire.fence()?;
            Ok(start.elapsed())
        })?;
        if self.rank == 0 {
            let all = [("put", puts), ("get", gets), ("fence", fences), ("data", vec![data])];
            for (name, took) in all {
                report(name, took);
            }
        }
        Ok(())
    }

    /// Gets of rank 0, while all others wait in a fence and need no processor.
    fn lone_get(self, wire: &mut Wire, value_len: u32, counts: Counts) -> io::Result<()> {
        warm_up(wire)?;
        self.put_all(wire, value_len, &counts)?;
        wire.fence()?;
        if self.rank == 0 {
            report("get", self.get_all(wire, value_len, &counts)?);
        }
        wire.fence()
    }

    fn put_all(
        self,
        wire: &mut Wire,
        value_len: u32,
        counts: &Counts,
    ) -> io::Result<Vec<Duration>> {
        let value = value(self.rank, value_len);
        timed(counts.puts, |turn| {
            let key = key(self.rank, turn);
            let start = Instant::now();
            wire.put(&key, &value)?;
            let took = start.elapsed();
            wire.expect("rc=0")?;
            Ok(took)
        })
    }

    fn get_all(
        self,
        wire: &mut Wire,
        value_len: u32,
        counts: &Counts,
    ) -> io::Result<Vec<Duration>> {
        timed(counts.gets, |turn| {
            // Another rank and another key each time, so that no reply comes from a cache of the
            // last request.
            let of = (self.rank + 1 + turn) % self.size;
            let (key, value) = (key(of, turn % counts.puts), value(of, value_len));
            let start = Instant::now();
            wire.get(&key)?;
            let took = start.elapsed();
            wire.expect_value(&value)?;
            Ok(took)
        })
    }

    fn fill(self, wire: &mut Wire, value_len: u32) -> io::Result<()> {
        wire.put(&key(self.rank, 0), &value(self.rank, value_len))?;
        wire.expect("rc=0")?;
        wire.fence()?;
        wire.get(&key((self.rank + 1) % self.size, 0))?;
        wire.expect_value(&value((self.rank + 1) % self.size, value_len))?;
        // No rank exits, and releases memory, before rank 0 has measured.
        self.report("process", wire)
    }

    /// Prints the processes of the machine once all ranks are here, and lets none go on before.
    fn report(self, label: &str, wire: &mut Wire) -> io::Result<()> {
        wire.fence()?;
        if self.rank == 0 {
            processes::report(label)?;
        }
        wire.fence()
    }
}

/// Ranks are started one after the other; measure only once all are present and the system has placed each
/// on a processor.
fn warm_up(wire: &mut Wire) -> io::Result<()> {
    (0..WARMING).try_for_each(|_| wire.fence())
}

fn timed(
    count: u32,
    mut once: impl FnMut(u32) -> io::Result<Duration>,
) -> io::Result<Vec<Duration>> {
    (0..count).map(&mut once).collect()
}

fn report(name: &str, mut took: Vec<Duration>) {
    took.sort_unstable();
    let Some(median) = took.get(took.len() / 2) else { return };
    let total: Duration = took.iter().sum();
    let mean = total.as_nanos() / took.len() as u128;
    println!("{name} count={} median_ns={} mean_ns={mean}", took.len(), median.as_nanos());
}

fn key(rank: u32, turn: u32) -> String {
    format!("r{rank}-{turn}")
}

/// A value that identifies its rank.
fn value(rank: u32, len: u32) -> Vec<u8> {
    let start = format!("{rank:08}");
    start.bytes().chain(std::iter::repeat(b'v')).take(len as usize).collect()
}

/// Starts this program again with the launcher's socket as standard input, and returns only on
/// failure.
///
/// The environment contains a number, and only a shell turns that into an open file without
/// `unsafe`; the plain `sh` of some systems cannot do it for numbers above 9.
fn with_socket_on_stdin() -> io::Error {
    let myself = match env::current_exe() {
        Ok(myself) => myself,
        Err(error) => return error,
    };
    let mut shell = Command::new("bash");
    // A shell whose standard input is a socket, as under Intel's launcher, reads the user's start-up file.
    shell.args(["--norc", "-c", r#"exec "$0" "$@" <&"$PMI_FD""#]).arg(myself);
    shell.args(env::args().skip(1)).arg(ON_STDIN).exec()
}

fn variable(name: &str) -> io::Result<u32> {
    number(&env::var(name).map_err(io::Error::other)?)
}

fn number(word: &str) -> io::Result<u32> {
    word.parse().map_err(|_| io::Error::other(format!("{word:?} is not a number")))
}

fn dialect(word: &str) -> io::Result<WireDialect> {
    match word {
        "pmi1" => Ok(WireDialect::Pmi1),
        "pmi2" => Ok(WireDialect::Pmi2),
        _ => Err(io::Error::other(format!("{word:?} is neither pmi1 nor pmi2"))),
    }
}

/// Number of fences before the measurement.
const WARMING: u32 = 10;
/// The last argument when standard input is the socket.
const ON_STDIN: &str = "on-stdin";
/// Far more than any operation takes, also on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(20);
