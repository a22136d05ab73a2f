//! The file of costs that `pmi-sim tree start` reads.

use crate::process;

/// Costs by name, in the units of [`ROWS`].
#[derive(Debug, Default)]
pub(super) struct StartCosts {
    values: Vec<(String, f64)>,
}

impl StartCosts {
    /// Adds a cost, and prints it.
    pub(super) fn add(&mut self, name: &str, value: f64) {
        println!("{name}  {}", shown(value));
        self.values.push((name.to_owned(), value));
    }

    /// A cost; 0 before it was added.
    pub(super) fn get(&self, name: &str) -> f64 {
        let found = self.values.iter().find(|(known, _)| known == name);
        found.map_or(0.0, |(_, value)| *value)
    }

    /// Name, value, unit and meaning of all.
    pub(super) fn rows(&self) -> impl Iterator<Item = [String; 4]> {
        ROWS.iter().map(|(name, unit, meaning)| {
            [(*name).to_owned(), shown(self.get(name)), (*unit).to_owned(), (*meaning).to_owned()]
        })
    }

    /// The file, with the conditions `facts`.
    pub(super) fn text(&self, facts: &[String]) -> String {
        let date = process::output(process::command("date").arg("+%Y-%m-%d")).unwrap_or_default();
        let mut text = format!(
            "# Costs of a start over ssh, written by `cargo xtask bench start --write` on {}.\n",
            date.trim()
        );
        facts.iter().for_each(|fact| text += &format!("# {fact}\n"));
        for [name, value, unit, meaning] in self.rows() {
            text += &format!("{name:<15} {value:>9} {unit:<10} {meaning}\n");
        }
        text
    }
}

/// A whole number. A difference below zero is none that could be measured.
fn shown(value: f64) -> String {
    format!("{:.0}", value.max(0.0))
}

pub(super) const FILE: &str = "wasm/sim/start-costs.txt";

/// Names, units and meanings, in the order of the file.
const ROWS: [(&str, &str, &str); 32] = [
    ("ssh-client", "us", "processor time of an ssh, at the side that starts it"),
    ("ssh-server", "us", "processor time of sshd and the login shell"),
    ("ssh-alone", "us", "time of an ssh that is alone, the least of many"),
    ("head-start", "us", "processor time of the head, besides that for each host"),
    ("head-host", "us", "processor time of the head for a host, most of which others start"),
    ("node-start", "us", "processor time of a node server and its guard up to the first rank"),
    ("node-bytes", "bytes", "bytes to a host besides those of ssh"),
    ("rank-start", "us", "processor time of a node server for a rank: start, init, fence"),
    ("rank", "us", "processor time of a rank itself: start, init, fence, end"),
    ("message", "us", "processor time of a node server for a message of a rank and its response"),
    (
        "mpi-init",
        "us",
        "processor time of a rank in MPI_Init and MPI_Finalize of MPICH 5, without its messages",
    ),
    ("mpi-messages", "messages", "requests of such a rank up to its fence in MPI_Init"),
    ("mpi-puts", "messages", "further requests of the first rank of a host"),
    ("mpi-bytes", "bytes", "bytes of these requests"),
    ("mpi-gets", "messages", "requests of that rank behind the fence, for each host"),
    (
        "mpi-get",
        "us",
        "time from one of these to the next, while messages are recorded, the least of 25",
    ),
    ("launcher-bytes", "bytes", "size of pmi-host"),
    ("copy-client", "us", "processor time of an ssh for a copy of it"),
    ("copy-server", "us", "processor time of sshd and the host for a copy of it"),
    ("hydra-start", "us", "processor time of mpiexec of MPICH 5, besides that for each host"),
    ("hydra-host", "us", "processor time of mpiexec for each host"),
    ("hydra-node", "us", "processor time of a proxy up to the first rank"),
    ("hydra-rank", "us", "processor time of a proxy for a rank"),
    ("prte-start", "us", "processor time of prterun 5.0.11, besides that for each host"),
    ("prte-host", "us", "processor time of prterun for each host"),
    ("prte-node", "us", "processor time of a daemon up to the first process"),
    ("prte-rank", "us", "processor time of a daemon for the start of a process"),
    ("check-cores", "processors", "of the machine, on which all hosts are"),
    ("check-hosts", "hosts", "network namespaces with an sshd each"),
    ("check-ranks", "ranks", "on each of them"),
    ("check-ssh", "us", "time of as many ssh at once, the least of several"),
    (
        "check-start",
        "us",
        "time from the start of pmi-host until the last init, the least of several",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_has_a_line_for_each_cost() {
        let mut costs = StartCosts::default();
        costs.add("message", 9.6);
        costs.add("rank", -0.4);
        let text = costs.text(&["2 cores".to_owned()]);
        assert!(text.contains("\n# 2 cores\nssh-client"), "{text}");
        assert!(text.contains("\nmessage                10 us         processor time"), "{text}");
        assert!(text.contains("\nrank                    0 us "), "{text}");
        assert_eq!(text.lines().count(), 2 + ROWS.len());
    }
}
