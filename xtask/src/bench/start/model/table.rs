//! The table of simulated starts in `docs/performance.md`.

use super::super::costs::StartCost;
use super::plan::{StartLauncher, StartSetting};
use super::{StartModel, read_time, start_bar};
use std::fmt::Write as _;

impl StartModel {
    /// Simulated starts as a table, and two that were measured as well.
    pub(super) fn table(&self) -> Result<String, String> {
        let mut text = format!("| {} |\n|{}\n", HEADER.join(" | "), " --: |".repeat(HEADER.len()));
        for (hosts, ranks_per_host, cores) in ROWS {
            let setting = StartSetting { hosts, ranks_per_host, cores, ..StartSetting::default() };
            let of = |launcher| self.start(launcher, &setting);
            let [own, hydra, prrte] =
                [of(StartLauncher::PmiHost)?, of(StartLauncher::Hydra)?, of(StartLauncher::Prrte)?];
            let floor = of(StartLauncher::BareSsh)?.starters;
            let bar = start_bar(floor);
            let verdict = if own.init <= bar { "met" } else { "missed" };
            let reads = read_time(&setting, &self.costs);
            let times = [own.starters, own.joined, own.ranks, own.init, reads, floor].map(seconds);
            let _ = writeln!(
                text,
                "| {} | {ranks_per_host} | {cores} | {} | ≤ {}: {verdict} | {} | {} |",
                thousands(hosts),
                times.join(" | "),
                seconds(bar),
                seconds(hydra.init),
                seconds(prrte.init),
            );
        }
        text.push_str(&self.check()?);
        Ok(text)
    }

    /// Compares the model with a start that was measured, where all hosts are one machine.
    fn check(&self) -> Result<String, String> {
        let count = |cost| u32::try_from(self.costs.get(cost)).unwrap_or(u32::MAX).min(CHECK_MAX);
        let setting = StartSetting {
            hosts: count(StartCost::CheckHosts),
            ranks_per_host: count(StartCost::CheckRanks),
            cores: count(StartCost::CheckCores),
            is_shared: true,
            latency: SHARED_LATENCY,
            has_mpi: false,
            ..StartSetting::default()
        };
        let ssh = self.start(StartLauncher::BareSsh, &setting)?.starters;
        let ranks = self.start(StartLauncher::PmiHost, &setting)?.ranks;
        let of = |simulated: u64, measured: StartCost| {
            let measured = self.costs.get(measured);
            format!("{} simulated and {} measured", millis(simulated), millis(measured))
        };
        Ok(format!(
            "\nCheck of the model, with {} hosts on one machine of {} processors: as many `ssh` at once {}; \
             {} ranks on each host until the last is initialized {}.\n",
            setting.hosts,
            setting.cores,
            of(ssh, StartCost::CheckSsh),
            setting.ranks_per_host,
            of(ranks, StartCost::CheckStart),
        ))
    }
}

fn seconds(micros: u64) -> String {
    let hundredths = micros.saturating_add(5_000) / 10_000;
    format!("{}.{:02} s", hundredths / 100, hundredths % 100)
}

fn millis(micros: u64) -> String {
    format!("{} ms", micros.saturating_add(500) / 1000)
}

fn thousands(count: u32) -> String {
    match count {
        0..1000 => count.to_string(),
        _ => format!("{},{:03}", count / 1000, count % 1000),
    }
}

const HEADER: [&str; 12] = [
    "hosts",
    "ranks on each",
    "processors of each",
    "last `ssh`",
    "last node joined",
    "last rank connected",
    "last `MPI_Init`",
    "of it reading addresses",
    "`ssh` alone",
    "target",
    "model of Hydra",
    "model of PRRTE",
];

/// Hosts, ranks on each, and processors of each.
const ROWS: [(u32, u32, u32); 4] =
    [(64, 128, 128), (1024, 128, 128), (1024, 128, 64), (1024, 128, 16)];

/// Between network namespaces of one machine, in microseconds.
const SHARED_LATENCY: u64 = 10;

/// More hosts do not fit on one machine.
const CHECK_MAX: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_readers() {
        assert_eq!((seconds(1_234_999), seconds(5_000)), ("1.23 s".into(), "0.01 s".into()));
        assert_eq!((millis(1_499), millis(1_500)), ("1 ms".into(), "2 ms".into()));
        assert_eq!((thousands(999), thousands(12_007)), ("999".into(), "12,007".into()));
    }
}
