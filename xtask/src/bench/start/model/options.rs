//! The start that `cargo xtask bench --simulate` prints, by its options.

use super::super::costs::StartCosts;
use super::events::StartTimes;
use super::plan::{StartLauncher, StartSetting};
use super::{StartModel, start_bar};
use lexopt::Parser;
use lexopt::prelude::*;
use std::fmt::Write as _;
use std::fs;

/// Options of a start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::bench) struct StartOptions {
    hosts: Option<u32>,
    ranks_per_host: Option<u32>,
    /// Processors of each host.
    cores: Option<u32>,
    /// Microseconds of a byte on its way.
    latency: Option<u64>,
    /// Gbit/s of an interface.
    bandwidth: Option<u64>,
    /// Bytes that a host publishes.
    bytes: Option<u64>,
    /// Number of hosts that the head starts.
    fanout: Option<u32>,
    /// File with measured costs.
    costs: Option<String>,
    /// True if the launcher travels to the hosts.
    has_copies: bool,
    /// True if all hosts are one machine.
    is_shared: bool,
}

pub(in crate::bench) const START_USAGE: &str = "[--hosts N] [--ranks-per-host N] [--cores N] [--shared] \
     [--latency US] [--bandwidth GBIT] [--bytes N] [--fanout N] [--stage-launcher] [--costs FILE]";

impl StartOptions {
    /// Reads an option with its value; false if it is none of these.
    pub(in crate::bench) fn read(
        &mut self,
        option: &str,
        parser: &mut Parser,
    ) -> Result<bool, lexopt::Error> {
        match option {
            "hosts" => self.hosts = Some(parser.value()?.parse()?),
            "ranks-per-host" => self.ranks_per_host = Some(parser.value()?.parse()?),
            "cores" => self.cores = Some(parser.value()?.parse()?),
            "latency" => self.latency = Some(parser.value()?.parse()?),
            "bandwidth" => self.bandwidth = Some(parser.value()?.parse()?),
            "bytes" => self.bytes = Some(parser.value()?.parse()?),
            "fanout" => self.fanout = Some(parser.value()?.parse()?),
            "costs" => self.costs = Some(parser.value()?.string()?),
            "stage-launcher" => self.has_copies = true,
            "shared" => self.is_shared = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Simulates the start by each launcher, and describes it for a reader.
    pub(in crate::bench) fn simulate(&self) -> Result<String, String> {
        let costs = match &self.costs {
            None => StartCosts::measured()?,
            Some(file) => {
                let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
                StartCosts::read(&text).map_err(|error| format!("{file}: {error}"))?
            }
        };
        let setting = self.setting()?;
        describe(&StartModel::new(costs), &setting)
    }

    fn setting(&self) -> Result<StartSetting, String> {
        let usual = StartSetting::default();
        let hosts = limited("hosts", self.hosts, usual.hosts, HOSTS_MAX)?;
        let ranks =
            limited("ranks-per-host", self.ranks_per_host, usual.ranks_per_host, RANKS_MAX)?;
        if u64::from(hosts) * u64::from(ranks) > u64::from(RANKS_MAX) {
            return Err(format!(
                "{hosts} hosts with {ranks} ranks each are more than {RANKS_MAX} ranks; specify less with \
             --hosts or --ranks-per-host"
            ));
        }
        if self.bandwidth == Some(0) {
            return Err("--bandwidth needs 1 Gbit/s or more".into());
        }
        let latency = self.latency.unwrap_or(usual.latency);
        if latency > LATENCY_MAX {
            return Err(format!("--latency needs a number up to {LATENCY_MAX}, in microseconds"));
        }
        if self.bytes.is_some_and(|bytes| bytes > BYTES_MAX) {
            return Err(format!("--bytes needs a number up to {BYTES_MAX}"));
        }
        Ok(StartSetting {
            hosts,
            ranks_per_host: ranks,
            cores: limited("cores", self.cores, usual.cores, CORES_MAX)?,
            is_shared: self.is_shared,
            latency,
            bandwidth: self.bandwidth.unwrap_or(usual.bandwidth),
            bytes: self.bytes,
            fanout: self.fanout,
            has_copies: self.has_copies,
            ..usual
        })
    }
}

fn describe(model: &StartModel, setting: &StartSetting) -> Result<String, String> {
    let of = |launcher| model.start(launcher, setting);
    let floor = of(StartLauncher::BareSsh)?.starters;
    let own = of(StartLauncher::PmiHost)?;
    let bar = start_bar(floor);
    let mut text = format!(
        "{} hosts with {} processors and {} ranks each. Times are microseconds.\n",
        setting.hosts, setting.cores, setting.ranks_per_host
    );
    let names = ["last ssh", "last node", "last rank", "last MPI_Init"];
    let _ = writeln!(text, "{:10}{}", "", names.map(|name| format!("{name:>15}")).concat());
    let _ = writeln!(text, "{:10}{floor:>15}", "ssh alone");
    let rows = [
        ("pmi-host", own),
        ("Hydra", of(StartLauncher::Hydra)?),
        ("PRRTE", of(StartLauncher::Prrte)?),
    ];
    for (name, StartTimes { starters, joined, ranks, init }) in rows {
        let times = [starters, joined, ranks, init].map(|time| format!("{time:>15}"));
        let _ = writeln!(text, "{name:10}{}", times.concat());
    }
    let verdict = if own.init <= bar { "met" } else { "missed" };
    let _ = writeln!(text, "target    {bar:>60}: {verdict} (1.15 x ssh alone + 500000)");
    Ok(text)
}

fn limited(option: &str, given: Option<u32>, usual: u32, most: u32) -> Result<u32, String> {
    match given.unwrap_or(usual) {
        value if (1..=most).contains(&value) => Ok(value),
        _ => Err(format!("--{option} needs a number from 1 to {most}")),
    }
}

/// As in `pmi-host`.
const HOSTS_MAX: u32 = 131_072;
const RANKS_MAX: u32 = 1 << 20;
const CORES_MAX: u32 = 4096;
/// Ten seconds.
const LATENCY_MAX: u64 = 10_000_000;
/// Of one host.
const BYTES_MAX: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_limits_and_defaults() {
        let usual = StartOptions::default();
        assert_eq!(usual.setting(), Ok(StartSetting::default()));
        let fast = StartOptions { bandwidth: Some(100), bytes: Some(7), ..usual };
        assert_eq!(fast.setting().map(|one| (one.byte_picos(), one.bytes)), Ok((80, Some(7))));
        for (args, part) in [
            (
                StartOptions { hosts: Some(0), ..StartOptions::default() },
                "--hosts needs a number from 1",
            ),
            (StartOptions { cores: Some(9999), ..StartOptions::default() }, "--cores needs"),
            (StartOptions { bandwidth: Some(0), ..StartOptions::default() }, "--bandwidth"),
            (StartOptions { latency: Some(u64::MAX), ..StartOptions::default() }, "--latency"),
            (
                StartOptions { hosts: Some(131_072), ..StartOptions::default() },
                "more than 1048576 ranks",
            ),
        ] {
            assert!(args.setting().unwrap_err().contains(part), "{args:?}");
        }
    }
    #[test]
    fn options_are_read_by_name() {
        let line = "--hosts 4 --ranks-per-host 3 --cores 2 --latency 9 --bandwidth 8 --bytes 7 --fanout 1 \
                    --costs c --stage-launcher --shared";
        let mut parser = Parser::from_args(line.split_whitespace());
        let mut options = StartOptions::default();
        while let Some(Long(name)) = parser.next().unwrap() {
            let name = name.to_owned();
            assert!(options.read(&name, &mut parser).unwrap(), "{name}");
        }
        let expected = StartOptions {
            hosts: Some(4),
            ranks_per_host: Some(3),
            cores: Some(2),
            latency: Some(9),
            bandwidth: Some(8),
            bytes: Some(7),
            fanout: Some(1),
            costs: Some("c".into()),
            has_copies: true,
            is_shared: true,
        };
        assert_eq!(options, expected);
        let mut parser = Parser::from_args(["x"]);
        assert!(StartOptions::default().read("hosts", &mut parser).is_err());
        assert!(!StartOptions::default().read("rank-per-host", &mut parser).unwrap());
    }
}
