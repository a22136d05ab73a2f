//! The built-in demo: a client that every rank runs when no program is named.
//!
//! Each rank publishes a card (its process and host), enters a fence, reads the cards of all others and
//! checks them. Then all publish the durations of their calls, and rank 0 prints a [`table`] of them. It
//! needs nothing but the environment that any PMI-1 launcher sets, so it also runs under others.

pub(crate) mod table;

use pmi_host_os::clock;
use pmi_link::CallError;
use pmi_std::{ConnectError, Member, Pmi};
use std::io::{self, Write};
use std::time::Duration;

/// The command word that turns this program into a rank of the demo; only `run` without a program starts
/// this.
pub(crate) const DEMO_RANK: &str = "demo-rank";

/// Process and host of a rank, as it publishes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DemoCard {
    /// Process id.
    pub(crate) pid: u32,
    /// Host name.
    pub(crate) host: String,
}

/// Durations of the calls of one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Timing {
    /// Duration of the put.
    pub(crate) put: Duration,
    /// Duration of the fence, including the wait for the slowest rank.
    pub(crate) fence: Duration,
    /// Duration of one get, as the mean over all other ranks.
    pub(crate) get: Duration,
}

/// Error of a rank of the demo.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum DemoError {
    /// The session could not be opened.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A call failed.
    #[error(transparent)]
    Call(#[from] CallError<io::Error>),
    /// A key is missing after the fence, or has a wrong value.
    #[error("{}", wrong(.key, .found))]
    Wrong {
        /// The key.
        key: String,
        /// Value of the key, if it is there.
        found: Option<String>,
    },
}

/// Runs one rank; rank 0 writes the table to `out`.
///
/// Without a launcher it is a singleton, which talks to no server.
pub(crate) fn run_rank(out: &mut impl Write) -> Result<(), DemoError> {
    let own = DemoCard { pid: std::process::id(), host: table::host_name() };
    let Some(Member { mut pmi, rank, size, .. }) = pmi_std::connect()? else {
        let alone = table::render(&[(own, Timing::default())]);
        return print(out, &format!("{alone}There is no launcher: one rank, alone.\n"));
    };
    // Ranks start one after the other; the fence excludes their start from the measured durations.
    pmi.fence()?;

    let started = clock::now();
    pmi.put(key("card", rank).as_bytes(), own.to_value(rank).as_bytes())?;
    let put = clock::since(started);

    let started = clock::now();
    pmi.fence()?;
    let fence = clock::since(started);

    let mut cards = Vec::new();
    let mut reading = Duration::ZERO;
    for other in 0..size {
        let key = key("card", other);
        let started = clock::now();
        let value = read(&mut pmi, &key)?;
        reading += clock::since(started);
        let card = value.as_deref().and_then(|value| DemoCard::from_value(value, other));
        cards.push(card.ok_or(DemoError::Wrong { key, found: value })?);
    }
    let timing = Timing { put, fence, get: reading / size.max(1) };

    pmi.put(key("time", rank).as_bytes(), timing.to_value().as_bytes())?;
    pmi.fence()?;
    if rank == 0 {
        let mut rows = Vec::new();
        for (other, card) in (0..size).zip(cards) {
            let key = key("time", other);
            let value = read(&mut pmi, &key)?;
            let timing = value.as_deref().and_then(Timing::from_value);
            rows.push((card, timing.ok_or(DemoError::Wrong { key, found: value })?));
        }
        print(out, &table::render(&rows))?;
    }
    pmi.finalize()?;
    Ok(())
}

fn key(what: &str, rank: u32) -> String {
    format!("demo-{what}-{rank}")
}

fn read(pmi: &mut Pmi, key: &str) -> Result<Option<String>, DemoError> {
    let value = pmi.get(key.as_bytes())?;
    Ok(value.map(|value| String::from_utf8_lossy(&value).into_owned()))
}

/// Prints the table. A reader such as `head` that closes the output early is no failure of the job.
fn print(out: &mut impl Write, text: &str) -> Result<(), DemoError> {
    let _ = out.write_all(text.as_bytes());
    Ok(())
}

impl DemoCard {
    /// Shape: `RANK/PID/HOST`; no blank, which a value of PMI-1 cannot hold.
    fn to_value(&self, rank: u32) -> String {
        format!("{rank}/{}/{}", self.pid, self.host)
    }

    fn from_value(value: &str, rank: u32) -> Option<Self> {
        let mut parts = value.splitn(3, '/');
        let of: u32 = parts.next()?.parse().ok()?;
        let card = Self { pid: parts.next()?.parse().ok()?, host: parts.next()?.to_owned() };
        (of == rank).then_some(card)
    }
}

impl Timing {
    /// Shape: three numbers of nanoseconds.
    fn to_value(self) -> String {
        let Self { put, fence, get } = self;
        format!("{}/{}/{}", put.as_nanos(), fence.as_nanos(), get.as_nanos())
    }

    fn from_value(value: &str) -> Option<Self> {
        let mut parts = value.split('/').map(|nanos| nanos.parse().ok().map(Duration::from_nanos));
        Some(Self { put: parts.next()??, fence: parts.next()??, get: parts.next()?? })
    }
}

fn wrong(key: &str, found: &Option<String>) -> String {
    match found {
        None => format!("nothing is stored under {key} after the fence"),
        Some(found) => {
            format!("'{found}' is stored under {key}, which is not what its rank has put there")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_and_timings_survive_the_way_through_the_space() {
        let card = DemoCard { pid: 77, host: "node/1".to_owned() };
        assert_eq!(DemoCard::from_value(&card.to_value(3), 3), Some(card.clone()));
        assert_eq!(DemoCard::from_value(&card.to_value(3), 4), None);
        assert_eq!(DemoCard::from_value("3/x/y", 3), None);
        let timing = Timing {
            put: Duration::from_nanos(1),
            fence: Duration::from_secs(2),
            get: Duration::ZERO,
        };
        assert_eq!(Timing::from_value(&timing.to_value()), Some(timing));
        assert_eq!(Timing::from_value("1/2"), None);
    }
}
