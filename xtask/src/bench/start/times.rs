//! `ssh` alone and at once, bytes on the wire, and a whole start to check the model by.

use super::*;
use crate::bench::init;
use crate::bench::stats::least;
use pmi_host_testkit::ssh::SshHosts;

/// `ssh` without a launcher.
pub(super) fn measure_ssh(bench: &BenchHosts<'_>, costs: &mut MeasuredCosts) -> Result<(), String> {
    let seconds = |mut command: Command| -> Contestant<'_, f64> {
        Box::new(move || run(&mut command).map(|outcome| outcome.took.as_secs_f64() * 1e6))
    };
    // What leads into a namespace costs as much without `ssh`.
    let mut nothing = bench.bare_ssh(0);
    nothing.stdin(Stdio::null());
    let contestants = &mut [seconds(nothing), seconds(bench.bare_ssh(1))];
    let took = take_turns(contestants, ALONE_TURNS, BUDGET)?;
    let at_once = take_turns(&mut [seconds(bench.bare_ssh(HOSTS))], SSH_TURNS, BUDGET)?;
    let of = |place| least(took.of(place).iter().copied());
    let [client, server] = both_sides(bench, || bench.bare_ssh(HOSTS))?;
    let [nothing, _] = both_sides(bench, || bench.bare_ssh(0))?;
    costs.add("ssh-client", client - nothing);
    costs.add("ssh-server", server);
    costs.add("ssh-alone", of(1) - of(0));
    costs.add("check-ssh", least(at_once.of(0).iter().copied()) - of(0));
    Ok(())
}

/// Processor time of a host, as mean over runs of `command` on all hosts: of what waits here, and of `sshd`.
fn both_sides(bench: &BenchHosts<'_>, command: impl Fn() -> Command) -> Result<[f64; 2], String> {
    let servers = sshd_pids(&bench.hosts)?;
    let of_servers = || {
        servers
            .iter()
            .map(|pid| processes::children_micros(&pid.to_string()))
            .sum::<Result<f64, _>>()
    };
    let (mut client, before) = (0.0, of_servers()?);
    for _ in 0..SSH_TURNS {
        client += processes::of_children(|| run(&mut command()).map(drop))?;
    }
    // The servers wait for what has ended.
    thread::sleep(Duration::from_millis(500));
    let all = SSH_TURNS as f64 * f64::from(HOSTS);
    Ok([client / all, (of_servers()? - before) / all])
}

/// The server of each host, which nothing else runs on.
pub(super) fn sshd_pids(hosts: &SshHosts) -> Result<Vec<u32>, String> {
    let of_host = |host| {
        let pids = hosts.pids(host);
        pids.iter().min().copied().ok_or_else(|| format!("host {host} has no sshd"))
    };
    (1..=HOSTS).map(of_host).collect()
}

/// Bytes to hosts, and copies of the launcher.
pub(super) fn measure_bytes(
    bench: &BenchHosts<'_>,
    costs: &mut MeasuredCosts,
) -> Result<(), String> {
    let launcher = |options: &[&str]| {
        let list = (1..=HOSTS).map(pmi_host_testkit::ssh::address).collect::<Vec<_>>().join(",");
        let words = [&["run", "--hosts", &list][..], options, &["--", "/bin/true"]].concat();
        let mut command = bench.hosts.head(&words);
        command.stderr(Stdio::null());
        command
    };
    let bytes = |mut command: Command| {
        let before = sent_bytes(bench)?;
        run(&mut command)?;
        Ok::<_, String>(sent_bytes(bench)? - before)
    };
    let measured = || Ok::<_, String>([bytes(bench.bare_ssh(HOSTS))?, bytes(launcher(&[]))?]);
    let all = (0..TURNS).map(|_| measured()).collect::<Result<Vec<_>, _>>()?;
    let added = median(all.iter().map(|[bare, own]| own - bare)).unwrap_or(f64::NAN);
    costs.add("node-bytes", added / f64::from(HOSTS));
    let size = fs::metadata(&bench.tools.host).map_err(|error| error.to_string())?.len();
    costs.add("launcher-bytes", size as f64);
    let [client, server] = both_sides(bench, || launcher(&[]))?;
    let [copying, storing] = both_sides(bench, || launcher(&["--stage-launcher"]))?;
    costs.add("copy-client", copying - client);
    costs.add("copy-server", storing - server);
    Ok(())
}

/// Bytes that the bridge has sent to the hosts.
fn sent_bytes(bench: &BenchHosts<'_>) -> Result<f64, String> {
    let table = process::output(bench.hosts.command(0, "cat").arg("/proc/net/dev"))?;
    let sent = |line: &str| {
        let (name, counts) = line.trim().split_once(':')?;
        // Eight counts of what was received are in front of it.
        let sent = counts.split_whitespace().nth(8)?;
        name.starts_with('v').then(|| sent.parse::<f64>().ok())?
    };
    Ok(table.lines().filter_map(sent).sum())
}

/// A whole start, on the hosts of this machine.
pub(super) fn check(bench: &BenchHosts<'_>, costs: &mut MeasuredCosts) -> Result<(), String> {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    costs.add("check-cores", cores as f64);
    costs.add("check-hosts", f64::from(HOSTS));
    costs.add("check-ranks", f64::from(CHECK_RANKS));
    let mut command = bench.launcher(SshLauncher::PmiHost, HOSTS, HOSTS * CHECK_RANKS);
    command.arg(bench.tools.directory()?.join("pmi-init"));
    let mut nothing = bench.bare_ssh(0);
    let nothing: Contestant<'_, f64> =
        Box::new(move || run(&mut nothing).map(|outcome| outcome.took.as_secs_f64()));
    let took = take_turns(&mut [init::last_init(command), nothing], SSH_TURNS, BUDGET)?;
    let of = |place| least(took.of(place).iter().copied()) * 1e6;
    costs.add("check-start", of(0) - of(1));
    Ok(())
}

const CHECK_RANKS: u32 = 8;
const SSH_TURNS: usize = 15;
const ALONE_TURNS: usize = 101;
