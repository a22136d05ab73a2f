//! `pmi-sim tree start`.

use super::args::{SimArgs, StartArgs};
use super::show;
use pmi_sim::Violation;
use pmi_sim::tree::{
    StartCosts, StartLauncher, StartSetting, StartTimes, start, start_bar, start_table,
};
use std::fmt::Write as _;
use std::fs;

/// Simulates a start by each launcher. True: a target that is missed is no broken rule.
pub(super) fn act(args: &SimArgs) -> Result<bool, String> {
    let costs = match &args.tree.start.costs {
        None => StartCosts::measured().map_err(|error| error.to_string())?,
        Some(file) => {
            let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
            StartCosts::read(&text).map_err(|error| format!("{file}: {error}"))?
        }
    };
    let failed = |violation: Violation| format!("{}: {}", violation.rule, violation.what);
    if args.tree.start.is_table {
        return show(&start_table(&costs, usize::MAX).map_err(failed)?);
    }
    let setting = setting(&args.tree.start, args.tree.bytes)?;
    let of = |launcher| start(launcher, &setting, &costs).map_err(failed);
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
    show(&text)
}

fn setting(args: &StartArgs, bytes: Option<u64>) -> Result<StartSetting, String> {
    let usual = StartSetting::default();
    let hosts = limited("hosts", args.hosts, usual.hosts, HOSTS_MAX)?;
    let ranks = limited("ranks-per-host", args.ranks_per_host, usual.ranks_per_host, RANKS_MAX)?;
    if u64::from(hosts) * u64::from(ranks) > u64::from(RANKS_MAX) {
        return Err(format!(
            "{hosts} hosts with {ranks} ranks each are more than {RANKS_MAX} ranks; specify less with \
             --hosts or --ranks-per-host"
        ));
    }
    let bandwidth = match args.bandwidth {
        Some(0) => return Err("--bandwidth needs 1 Gbit/s or more".into()),
        bandwidth => bandwidth.map_or(usual.byte_picos, |gbit| 8_000 / gbit),
    };
    let latency = args.latency.unwrap_or(usual.latency);
    if latency > LATENCY_MAX {
        return Err(format!("--latency needs a number up to {LATENCY_MAX}, in microseconds"));
    }
    if bytes.is_some_and(|bytes| bytes > BYTES_MAX) {
        return Err(format!("--bytes needs a number up to {BYTES_MAX}"));
    }
    Ok(StartSetting {
        hosts,
        ranks_per_host: ranks,
        cores: limited("cores", args.cores, usual.cores, CORES_MAX)?,
        is_shared: args.is_shared,
        latency,
        byte_picos: bandwidth,
        bytes,
        fanout: args.fanout,
        has_copies: args.has_copies,
        ..usual
    })
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
        assert_eq!(setting(&StartArgs::default(), None), Ok(StartSetting::default()));
        let fast = StartArgs { bandwidth: Some(100), ..StartArgs::default() };
        assert_eq!(
            setting(&fast, Some(7)).map(|one| (one.byte_picos, one.bytes)),
            Ok((80, Some(7)))
        );
        for (args, part) in [
            (StartArgs { hosts: Some(0), ..StartArgs::default() }, "--hosts needs a number from 1"),
            (StartArgs { cores: Some(9999), ..StartArgs::default() }, "--cores needs"),
            (StartArgs { bandwidth: Some(0), ..StartArgs::default() }, "--bandwidth"),
            (StartArgs { latency: Some(u64::MAX), ..StartArgs::default() }, "--latency"),
            (StartArgs { hosts: Some(131_072), ..StartArgs::default() }, "more than 1048576 ranks"),
        ] {
            assert!(setting(&args, None).unwrap_err().contains(part), "{args:?}");
        }
    }
}
