//! Requests of ranks of MPI in `MPI_Init`, from a trace.

use super::costs::MeasuredCosts;
use crate::bench::Tools;
use crate::bench::stats::{least, median};
use crate::process;

/// Counts the requests of a program that initializes MPI, on two hosts with two ranks each: the first rank
/// of a host publishes its address and reads those of all.
pub(super) fn measure(
    tools: &Tools,
    program: &str,
    costs: &mut MeasuredCosts,
) -> Result<(), String> {
    let file = tools.directory()?.join("start.trace");
    let file = file.to_string_lossy();
    let show = |words: &[&str]| {
        process::output(process::command(&tools.host).arg("trace").args(words).arg(&*file))
    };
    let mut turns = Vec::new();
    for _ in 0..TURNS {
        let mut recorded = process::command(&tools.host);
        recorded.args(["run", "--starter", "local:2", "-n", "4", "--trace", &file, "--", program]);
        process::output(&mut recorded)?;
        let of_rank = |rank| Ok::<_, String>(RankRequests::read(&show(&["show", "--rank", rank])?));
        turns.push((of_rank("0")?, of_rank("2")?));
    }
    let stats = show(&["stats"])?;
    let bytes = stats.lines().find_map(|line| line.strip_prefix("put "));
    let bytes = bytes.and_then(|rest| rest.split_whitespace().nth(1)?.parse::<f64>().ok());
    let bytes = bytes.ok_or_else(|| format!("the trace has no puts: {stats}"))?;
    let of = |read: fn(&(RankRequests, RankRequests)) -> f64| {
        median(turns.iter().map(read)).unwrap_or(f64::NAN)
    };
    costs.add("mpi-messages", of(|(_, other)| other.before));
    costs.add("mpi-puts", of(|(first, other)| first.before - other.before));
    costs.add("mpi-bytes", bytes / HOSTS);
    costs.add("mpi-gets", of(|(first, _)| first.gets) / HOSTS);
    costs.add("mpi-get", least(turns.iter().map(|(first, _)| first.get_micros)));
    Ok(())
}

/// Requests of a rank.
#[derive(Debug, Default, PartialEq)]
struct RankRequests {
    /// Number up to its first fence.
    before: f64,
    /// Number of gets behind it.
    gets: f64,
    /// Mean time from one of these to the next.
    get_micros: f64,
}

impl RankRequests {
    /// Reads lines `70.583 ms 0 → get_maxes`.
    fn read(text: &str) -> Self {
        let mut found = Self::default();
        let (mut is_behind, mut gets) = (false, Vec::new());
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [time, unit, _, "→", name, ..] = words[..] else { continue };
            match name {
                _ if !is_behind => {
                    found.before += 1.0;
                    is_behind = name == FENCE;
                }
                "get" => gets.extend(micros(time, unit)),
                _ => {}
            }
        }
        found.gets = gets.len() as f64;
        if let [first, .., last] = gets[..] {
            found.get_micros = (last - first) / (found.gets - 1.0);
        }
        found
    }
}

fn micros(time: &str, unit: &str) -> Option<f64> {
    let unit = match unit {
        "ns" => 1e-3,
        "µs" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    };
    Some(time.parse::<f64>().ok()? * unit)
}

const FENCE: &str = "barrier_in";
const TURNS: usize = 25;
const HOSTS: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_up_to_the_fence_and_gets_behind_it() {
        let text = "# run\n 900.0 µs 0 → init version=1.1\n 1.0 ms 0 ← init\n 2.0 ms 0 → put key=a\n \
                    3.0 ms 0 → barrier_in\n 4.0 ms 0 → get key=a\n 4.0 ms 0 ← get value=→\n \
                    4.020 ms 0 → get key=b\n 4.060 ms 0 → get key=c\n 9.0 ms 0 → barrier_in\n";
        let RankRequests { before, gets, get_micros } = RankRequests::read(text);
        assert_eq!((before, gets), (3.0, 3.0));
        assert!((get_micros - 30.0).abs() < 1e-6, "{get_micros}");
        assert_eq!(RankRequests::read(""), RankRequests::default());
    }
}
