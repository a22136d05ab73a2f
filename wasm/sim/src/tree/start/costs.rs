//! Measured costs of the parts of a start, as a text file has them.

use std::fmt;

/// A cost of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartCost {
    /// Processor time of an `ssh`, at the side that starts it.
    SshClient,
    /// Processor time of `sshd` and of the login shell.
    SshServer,
    /// Time of an `ssh` that is alone.
    SshAlone,
    /// Processor time of the head before its first starter.
    HeadStart,
    /// Processor time of the head for a host.
    HeadHost,
    /// Processor time of a node server until its first rank.
    NodeStart,
    /// Bytes between a host and the others of the tree until its ranks have fenced.
    NodeBytes,
    /// Processor time of a node server for a rank, until its first fence.
    RankStart,
    /// Processor time of a rank that initializes PMI and fences.
    Rank,
    /// Processor time of a node server for a message of a rank, and its response.
    Message,
    /// Processor time of a rank in the library of MPI, besides that.
    MpiInit,
    /// Requests of a rank in `MPI_Init`, up to its fence.
    MpiMessages,
    /// Requests of the first rank of a host besides, with which it publishes the address of the host.
    MpiPuts,
    /// Bytes of these.
    MpiBytes,
    /// Requests of that rank behind the fence, for each host.
    MpiGets,
    /// Time of each of them.
    MpiGet,
    /// Size of the launcher, for its copies.
    LauncherBytes,
    /// Processor time of an `ssh` for a copy.
    CopyClient,
    /// Processor time of the host for a copy.
    CopyServer,
    /// As `HeadStart`, under Hydra.
    HydraStart,
    /// As `HeadHost`.
    HydraHost,
    /// As `NodeStart`.
    HydraNode,
    /// As `RankStart`.
    HydraRank,
    /// As `HeadStart`, under `prterun`.
    PrteStart,
    /// As `HeadHost`.
    PrteHost,
    /// As `NodeStart`.
    PrteNode,
    /// As `RankStart`.
    PrteRank,
    /// Processors of the machine of the check, on which all its hosts are.
    CheckCores,
    /// Hosts of the check.
    CheckHosts,
    /// Ranks on each of them.
    CheckRanks,
    /// Time of as many `ssh` at once.
    CheckSsh,
    /// Time until the last rank of the check is initialized.
    CheckStart,
}

impl StartCost {
    /// All, with their names and units, in the order of the file.
    pub const ALL: [(Self, &'static str, &'static str); 32] = [
        (Self::SshClient, "ssh-client", MICROS),
        (Self::SshServer, "ssh-server", MICROS),
        (Self::SshAlone, "ssh-alone", MICROS),
        (Self::HeadStart, "head-start", MICROS),
        (Self::HeadHost, "head-host", MICROS),
        (Self::NodeStart, "node-start", MICROS),
        (Self::NodeBytes, "node-bytes", BYTES),
        (Self::RankStart, "rank-start", MICROS),
        (Self::Rank, "rank", MICROS),
        (Self::Message, "message", MICROS),
        (Self::MpiInit, "mpi-init", MICROS),
        (Self::MpiMessages, "mpi-messages", MESSAGES),
        (Self::MpiPuts, "mpi-puts", MESSAGES),
        (Self::MpiBytes, "mpi-bytes", BYTES),
        (Self::MpiGets, "mpi-gets", MESSAGES),
        (Self::MpiGet, "mpi-get", MICROS),
        (Self::LauncherBytes, "launcher-bytes", BYTES),
        (Self::CopyClient, "copy-client", MICROS),
        (Self::CopyServer, "copy-server", MICROS),
        (Self::HydraStart, "hydra-start", MICROS),
        (Self::HydraHost, "hydra-host", MICROS),
        (Self::HydraNode, "hydra-node", MICROS),
        (Self::HydraRank, "hydra-rank", MICROS),
        (Self::PrteStart, "prte-start", MICROS),
        (Self::PrteHost, "prte-host", MICROS),
        (Self::PrteNode, "prte-node", MICROS),
        (Self::PrteRank, "prte-rank", MICROS),
        (Self::CheckCores, "check-cores", "processors"),
        (Self::CheckHosts, "check-hosts", "hosts"),
        (Self::CheckRanks, "check-ranks", "ranks"),
        (Self::CheckSsh, "check-ssh", MICROS),
        (Self::CheckStart, "check-start", MICROS),
    ];
}

const MICROS: &str = "us";
const BYTES: &str = "bytes";
const MESSAGES: &str = "messages";

/// All costs of a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartCosts {
    /// In the order of [`StartCost::ALL`].
    values: [u64; StartCost::ALL.len()],
}

/// Reason why a text has no costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartCostsError {
    /// Line, from 1; `None` if something is missing.
    line: Option<usize>,
    why: String,
}

impl StartCosts {
    /// The costs that `cargo xtask bench start` has measured.
    ///
    /// # Errors
    ///
    /// The file of this package is damaged.
    pub fn measured() -> Result<Self, StartCostsError> {
        Self::read(include_str!("../../../start-costs.txt"))
    }

    /// Reads lines `NAME VALUE UNIT TEXT...`; `#` begins a comment.
    ///
    /// # Errors
    ///
    /// The first line that is none, or a cost without a line.
    pub fn read(text: &str) -> Result<Self, StartCostsError> {
        let mut found = [None; StartCost::ALL.len()];
        for (line, number) in text.lines().zip(1..) {
            let failed = |why: String| StartCostsError { line: Some(number), why };
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let Some(name) = words.next() else { continue };
            let mut rows = found.iter_mut().zip(StartCost::ALL);
            let row = rows.find(|(_, (_, known, _))| *known == name);
            let (value, (_, _, unit)) =
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
        for ((value, found), (_, name, _)) in values.iter_mut().zip(found).zip(StartCost::ALL) {
            let missing = || StartCostsError { line: None, why: format!("`{name}` has no line") };
            *value = found.ok_or_else(missing)?;
        }
        Ok(Self { values })
    }

    /// A cost, in its unit.
    pub fn get(&self, cost: StartCost) -> u64 {
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

impl fmt::Display for StartCostsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.why),
            None => f.write_str(&self.why),
        }
    }
}

impl std::error::Error for StartCostsError {}

/// Largest value: more would not be a cost, and sums of values have room.
const VALUE_MAX: u64 = 1 << 40;

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &str) -> String {
        let rows = StartCost::ALL.iter().map(|(_, name, unit)| format!("{name} 7 {unit} text\n"));
        format!("# machine\n\n{line}\n{}", rows.collect::<String>())
    }

    #[test]
    fn costs_are_read_by_name_and_those_of_the_package_are_complete() {
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
            let why = StartCosts::read(&text(line)).unwrap_err().to_string();
            assert!(why.contains(part), "{line}: {why}");
        }
        let why = StartCosts::read("message 7 us").unwrap_err().to_string();
        assert_eq!(why, "`ssh-client` has no line");
    }
}
