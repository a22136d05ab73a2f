//! The table that rank 0 of the demo prints.

use super::{DemoCard, Timing};
use pmi_host_base::columns;
use pmi_host_os::host_name::own;
use std::time::Duration;

/// Renders hosts and durations, one row for each rank, and the median and the worst of all at the end.
pub(crate) fn render(rows: &[(DemoCard, Timing)]) -> String {
    let mut cells = vec![HEAD.map(str::to_owned)];
    for (rank, (card, timing)) in rows.iter().enumerate() {
        let [put, fence, get] = times(timing).map(micros);
        cells.push([rank.to_string(), card.pid.to_string(), card.host.clone(), put, fence, get]);
    }
    let columns = [0, 1, 2].map(|column| {
        let mut all: Vec<Duration> = rows.iter().map(|(_, timing)| times(timing)[column]).collect();
        all.sort_unstable();
        all
    });
    let summary = |name: &str, pick: fn(&[Duration]) -> Duration| {
        let [put, fence, get] = [0, 1, 2].map(|column| micros(pick(&columns[column])));
        [String::new(), String::new(), name.to_owned(), put, fence, get]
    };
    let body_end = cells.len();
    cells.push(summary("median", |all| all.get(all.len() / 2).copied().unwrap_or_default()));
    cells.push(summary("worst", |all| all.last().copied().unwrap_or_default()));

    let lines = columns::lines(&cells, [true, true, false, true, true, true]);
    let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or_default();
    let mut text = String::new();
    for (number, row) in lines.iter().enumerate() {
        if number == 1 || number == body_end {
            line(&mut text, &"-".repeat(width));
        }
        line(&mut text, row);
    }
    text
}

/// Name of this machine, as far as a value of PMI-1 can hold it.
pub(super) fn host_name() -> String {
    let name = own();
    name.chars().map(|c| if c.is_whitespace() { '_' } else { c }).collect()
}

fn line(text: &mut String, what: &str) {
    text.push_str(what);
    text.push('\n');
}

fn times(timing: &Timing) -> [Duration; 3] {
    [timing.put, timing.fence, timing.get]
}

fn micros(time: Duration) -> String {
    let nanos = time.as_nanos();
    format!("{}.{}", nanos / 1000, nanos / 100 % 10)
}

const HEAD: [&str; 6] = ["rank", "pid", "host", "put µs", "fence µs", "get µs"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_each_other_and_the_worst_is_at_the_end() {
        let row = |pid, host: &str, fence| {
            let timing = Timing {
                put: Duration::from_nanos(12_340),
                fence: Duration::from_micros(fence),
                get: Duration::from_nanos(950),
            };
            (DemoCard { pid, host: host.to_owned() }, timing)
        };
        let text = render(&[row(900, "a", 5), row(12_345, "node-12", 1500), row(7, "b", 70)]);
        let expected = "\
rank    pid  host     put µs  fence µs  get µs
----------------------------------------------
   0    900  a          12.3       5.0     0.9
   1  12345  node-12    12.3    1500.0     0.9
   2      7  b          12.3      70.0     0.9
----------------------------------------------
             median     12.3      70.0     0.9
             worst      12.3    1500.0     0.9
";
        assert_eq!(text, expected);
    }
}
