//! Costs of the parts of a start: a text file has them as they were measured, and the model reads it.

use crate::process;

/// A cost of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartCost {
    SshClient,
    SshServer,
    SshAlone,
    HeadStart,
    HeadHost,
    NodeStart,
    NodeBytes,
    RankStart,
    Rank,
    Message,
    MpiInit,
    MpiMessages,
    MpiPuts,
    MpiBytes,
    MpiGets,
    MpiGet,
    LauncherBytes,
    CopyClient,
    CopyServer,
    HydraStart,
    HydraHost,
    HydraNode,
    HydraRank,
    PrteStart,
    PrteHost,
    PrteNode,
    PrteRank,
    CheckCores,
    CheckHosts,
    CheckRanks,
    CheckSsh,
    CheckStart,
}

impl StartCost {
    /// All, with their names, units and meanings, in the order of the file.
    pub(super) const ALL: [(Self, &'static str, &'static str, &'static str); 32] = [
        (
            Self::SshClient,
            "ssh-client",
            "us",
            "processor time of an ssh, at the side that starts it",
        ),
        (Self::SshServer, "ssh-server", "us", "processor time of sshd and the login shell"),
        (Self::SshAlone, "ssh-alone", "us", "time of an ssh that is alone, the least of many"),
        (
            Self::HeadStart,
            "head-start",
            "us",
            "processor time of the head, besides that for each host",
        ),
        (
            Self::HeadHost,
            "head-host",
            "us",
            "processor time of the head for a host, most of which others start",
        ),
        (
            Self::NodeStart,
            "node-start",
            "us",
            "processor time of a node server and its guard up to the first rank",
        ),
        (Self::NodeBytes, "node-bytes", "bytes", "bytes to a host besides those of ssh"),
        (
            Self::RankStart,
            "rank-start",
            "us",
            "processor time of a node server for a rank: start, init, fence",
        ),
        (Self::Rank, "rank", "us", "processor time of a rank itself: start, init, fence, end"),
        (
            Self::Message,
            "message",
            "us",
            "processor time of a node server for a message of a rank and its response",
        ),
        (
            Self::MpiInit,
            "mpi-init",
            "us",
            "processor time of a rank in MPI_Init and MPI_Finalize of MPICH 5, without its messages",
        ),
        (
            Self::MpiMessages,
            "mpi-messages",
            "messages",
            "requests of such a rank up to its fence in MPI_Init",
        ),
        (Self::MpiPuts, "mpi-puts", "messages", "further requests of the first rank of a host"),
        (Self::MpiBytes, "mpi-bytes", "bytes", "bytes of these requests"),
        (
            Self::MpiGets,
            "mpi-gets",
            "messages",
            "requests of that rank behind the fence, for each host",
        ),
        (
            Self::MpiGet,
            "mpi-get",
            "us",
            "time from one of these to the next, while messages are recorded, the least of 25",
        ),
        (Self::LauncherBytes, "launcher-bytes", "bytes", "size of pmi-host"),
        (Self::CopyClient, "copy-client", "us", "processor time of an ssh for a copy of it"),
        (
            Self::CopyServer,
            "copy-server",
            "us",
            "processor time of sshd and the host for a copy of it",
        ),
        (
            Self::HydraStart,
            "hydra-start",
            "us",
            "processor time of mpiexec of MPICH 5, besides that for each host",
        ),
        (Self::HydraHost, "hydra-host", "us", "processor time of mpiexec for each host"),
        (Self::HydraNode, "hydra-node", "us", "processor time of a proxy up to the first rank"),
        (Self::HydraRank, "hydra-rank", "us", "processor time of a proxy for a rank"),
        (
            Self::PrteStart,
            "prte-start",
            "us",
            "processor time of prterun 5.0.11, besides that for each host",
        ),
        (Self::PrteHost, "prte-host", "us", "processor time of prterun for each host"),
        (Self::PrteNode, "prte-node", "us", "processor time of a daemon up to the first process"),
        (
            Self::PrteRank,
            "prte-rank",
            "us",
            "processor time of a daemon for the start of a process",
        ),
        (Self::CheckCores, "check-cores", "processors", "of the machine, on which all hosts are"),
        (Self::CheckHosts, "check-hosts", "hosts", "network namespaces with an sshd each"),
        (Self::CheckRanks, "check-ranks", "ranks", "on each of them"),
        (Self::CheckSsh, "check-ssh", "us", "time of as many ssh at once, the least of several"),
        (
            Self::CheckStart,
            "check-start",
            "us",
            "time from the start of pmi-host until the last init, the least of several",
        ),
    ];
}

/// Costs as they are measured, by name, in their units.
#[derive(Debug, Default)]
pub(super) struct MeasuredCosts {
    values: Vec<(String, f64)>,
}

impl MeasuredCosts {
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
        StartCost::ALL.iter().map(|(_, name, unit, meaning)| {
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

pub(super) const FILE: &str = "xtask/start-costs.txt";

/// Costs as the file has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StartCosts {
    /// In the order of [`StartCost::ALL`].
    values: [u64; StartCost::ALL.len()],
}

impl StartCosts {
    /// The costs of the repository.
    ///
    /// # Errors
    ///
    /// Its file is damaged.
    pub(super) fn measured() -> Result<Self, String> {
        Self::read(include_str!("../../../start-costs.txt"))
    }

    /// Reads lines `NAME VALUE UNIT TEXT...`; `#` begins a comment.
    ///
    /// # Errors
    ///
    /// The first line that is none, or a cost without a line.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut found = [None; StartCost::ALL.len()];
        for (line, number) in text.lines().zip(1..) {
            let failed = |why: String| format!("line {number}: {why}");
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let Some(name) = words.next() else { continue };
            let mut rows = found.iter_mut().zip(StartCost::ALL);
            let row = rows.find(|(_, (_, known, ..))| *known == name);
            let (value, (_, _, unit, _)) =
                row.ok_or_else(|| failed(format!("there is no cost `{name}`")))?;
            let number = words.next().and_then(|word| word.parse::<u64>().ok());
            let number = number.filter(|number| *number <= VALUE_MAX);
            let number = number.ok_or_else(|| {
                failed(format!("`{name}` needs a whole number up to {VALUE_MAX} behind it"))
            })?;
            if words.next() != Some(unit) {
                return Err(failed(format!("the unit of `{name}` is {unit}")));
            }
            if value.replace(number).is_some() {
                return Err(failed(format!("`{name}` has a line already")));
            }
        }
        let mut values = [0; StartCost::ALL.len()];
        for ((value, found), (_, name, ..)) in values.iter_mut().zip(found).zip(StartCost::ALL) {
            let missing = || format!("`{name}` has no line");
            *value = found.ok_or_else(missing)?;
        }
        Ok(Self { values })
    }

    /// A cost, in its unit.
    pub(super) fn get(&self, cost: StartCost) -> u64 {
        let place = StartCost::ALL.iter().position(|(known, ..)| *known == cost);
        place.and_then(|place| self.values.get(place)).copied().unwrap_or(0)
    }

    /// The same with another value.
    #[cfg(test)]
    pub(super) fn with(mut self, cost: StartCost, value: u64) -> Self {
        let place = StartCost::ALL.iter().position(|(known, ..)| *known == cost).unwrap();
        self.values[place] = value;
        self
    }

    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self { values: [0; StartCost::ALL.len()] }
    }
}

/// Largest value: more would not be a cost, and sums of values have room.
const VALUE_MAX: u64 = 1 << 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_has_a_line_for_each_cost() {
        let mut costs = MeasuredCosts::default();
        costs.add("message", 9.6);
        costs.add("rank", -0.4);
        let text = costs.text(&["2 cores".to_owned()]);
        assert!(text.contains("\n# 2 cores\nssh-client"), "{text}");
        assert!(text.contains("\nmessage                10 us         processor time"), "{text}");
        assert!(text.contains("\nrank                    0 us "), "{text}");
        assert_eq!(text.lines().count(), 2 + StartCost::ALL.len());
    }
    fn text(line: &str) -> String {
        let rows =
            StartCost::ALL.iter().map(|(_, name, unit, _)| format!("{name} 7 {unit} text\n"));
        format!("# machine\n\n{line}\n{}", rows.collect::<String>())
    }

    #[test]
    fn costs_are_read_by_name_and_those_of_the_repository_are_complete() {
        let costs = StartCosts::read(&text("")).unwrap();
        assert!(StartCost::ALL.iter().all(|(cost, ..)| costs.get(*cost) == 7));
        let costs = costs.with(StartCost::Message, 8);
        assert_eq!((costs.get(StartCost::Message), costs.get(StartCost::Rank)), (8, 7));
        let measured = StartCosts::measured().unwrap();
        assert!(measured.get(StartCost::SshAlone) > 0);
    }

    #[test]
    fn errors_name_line_and_cost() {
        for (line, part) in [
            ("sshclient 7 us", "line 3: there is no cost `sshclient`"),
            ("ssh-client", "line 3: `ssh-client` needs a whole number"),
            ("ssh-client 1.5 us", "line 3: `ssh-client` needs a whole number"),
            ("ssh-client 99999999999999 us", "up to 1099511627776"),
            ("ssh-client 7 ms", "line 3: the unit of `ssh-client` is us"),
            ("message 7 us", "line 13: `message` has a line already"),
        ] {
            let why = StartCosts::read(&text(line)).unwrap_err();
            assert!(why.contains(part), "{line}: {why}");
        }
        let why = StartCosts::read("message 7 us").unwrap_err();
        assert_eq!(why, "`ssh-client` has no line");
    }
}
