//! Properties of the model of a start.

use super::*;

/// Costs that tell the parts apart, in microseconds.
fn costs() -> StartCosts {
    [
        (StartCost::SshClient, 4_000),
        (StartCost::SshServer, 8_000),
        (StartCost::SshAlone, 100_000),
        (StartCost::HeadStart, 1_500),
        (StartCost::HeadHost, 200),
        (StartCost::NodeStart, 5_000),
        (StartCost::NodeBytes, 10_000),
        (StartCost::RankStart, 300),
        (StartCost::Rank, 700),
        (StartCost::Message, 20),
        (StartCost::MpiInit, 6_000),
        (StartCost::MpiMessages, 9),
        (StartCost::MpiPuts, 3),
        (StartCost::MpiBytes, 600),
        (StartCost::MpiGets, 2),
        (StartCost::MpiGet, 25),
        (StartCost::LauncherBytes, 1_000_000),
        (StartCost::CopyClient, 2_000),
        (StartCost::CopyServer, 1_000),
        (StartCost::HydraHost, 200),
        (StartCost::PrteHost, 200),
    ]
    .into_iter()
    .fold(StartCosts::none(), |costs, (cost, value)| costs.with(cost, value))
}

fn setting(hosts: u32, ranks_per_host: u32, cores: u32) -> StartSetting {
    StartSetting { hosts, ranks_per_host, cores, ..StartSetting::default() }
}

fn start(launcher: StartLauncher, setting: &StartSetting, costs: &StartCosts) -> StartTimes {
    let model =
        StartModel { costs: costs.clone(), fence: Box::new(|fence| Ok(fence_micros(fence))) };
    model.start(launcher, setting).unwrap()
}

/// Grows with hosts and data, as that of real nodes does.
fn fence_micros(TreeFence { hosts, bytes, latency_micros, bandwidth }: TreeFence) -> u64 {
    2 * latency_micros + u64::from(hosts) * bytes / bandwidth
}

fn times(launcher: StartLauncher, setting: &StartSetting) -> StartTimes {
    start(launcher, setting, &costs())
}

fn own(setting: &StartSetting) -> StartTimes {
    times(StartLauncher::PmiHost, setting)
}

#[test]
fn start_of_one_rank_is_the_sum_of_its_parts() {
    let setting = setting(1, 1, 2);
    let times = own(&setting);
    // Preparation, `ssh`; the node server, its handshake, the head's part; the description of the job.
    assert_eq!(times.starters, 1_500 + 100_000);
    assert_eq!(times.joined, times.starters + 5_000 + 7 * 30 + 200);
    // Place, description of 10,000 bytes (8 us), start of the rank, and its own time.
    assert_eq!(times.ranks, times.joined + 30 + 30 + 8 + 300 + 700);
    let fence = fence_micros(TreeFence { hosts: 1, bytes: 600, latency_micros: 30, bandwidth: 10 });
    assert_eq!(times.init, times.ranks + 6_000 + (9 + 3) * 20 + fence + 2 * 25);
}

#[test]
fn copy_of_the_launcher_adds_its_processor_time_and_its_bytes() {
    let without = setting(1, 1, 2);
    let with = StartSetting { has_copies: true, ..without };
    // The processor time is a part of the time of `ssh`, most of which is waiting; the bytes take 800 us.
    let costs = costs().with(StartCost::SshAlone, 0);
    let times = |setting| start(StartLauncher::PmiHost, setting, &costs);
    assert_eq!(times(&with).joined, times(&without).joined + 3_000 + 800);
    assert_eq!(
        start(StartLauncher::BareSsh, &with, &costs),
        start(StartLauncher::BareSsh, &without, &costs)
    );
}

#[test]
fn floor_is_the_time_of_ssh_by_the_same_schedule() {
    for hosts in [1, 64, 127, 128, 300] {
        let setting = setting(hosts, 1, 128);
        let floor = times(StartLauncher::BareSsh, &setting).starters;
        let levels = if hosts >= 128 { 2 } else { 1 };
        let turns = if hosts < 128 { u64::from(hosts.div_ceil(64)) } else { 1 };
        assert_eq!(floor, levels * turns * 100_000, "{hosts} hosts");
        assert!(own(&setting).starters > floor, "{hosts} hosts");
    }
}

#[test]
fn target_follows_from_the_floor() {
    assert_eq!((start_bar(0), start_bar(1_000_000)), (500_000, 1_650_000));
}

#[test]
fn two_levels_are_earlier_than_one_where_the_head_has_few_processors() {
    let setting = setting(256, 1, 1);
    let flat = StartSetting { fanout: Some(256), ..setting };
    let [two, one] = [&setting, &flat].map(|setting| own(setting).init);
    // The client of each `ssh` takes 4 ms of the only processor of the head.
    assert!(one > 256 * 4_000 && two < one, "{two} {one}");
}

#[test]
fn more_processors_are_never_later_and_more_hosts_and_ranks_never_earlier() {
    for launcher in
        [StartLauncher::BareSsh, StartLauncher::PmiHost, StartLauncher::Hydra, StartLauncher::Prrte]
    {
        let of = |hosts, ranks, cores| times(launcher, &setting(hosts, ranks, cores)).init;
        let growing = [
            [1, 2, 4, 16, 64].map(|cores| u64::MAX - of(100, 16, cores)),
            [1, 8, 64, 100, 200].map(|hosts| of(hosts, 4, 8)),
            [1, 2, 8, 32, 100].map(|ranks| of(20, ranks, 4)),
        ];
        for times in growing {
            assert!(times.is_sorted(), "{launcher:?}: {times:?}");
        }
    }
}

#[test]
fn hosts_on_one_machine_share_its_processors() {
    let apart = setting(16, 8, 2);
    let shared = StartSetting { is_shared: true, ..apart };
    let ssh = times(StartLauncher::BareSsh, &shared).starters;
    // 16 times 12 ms on two processors, at least.
    assert!(ssh >= 16 * 12_000 / 2, "{ssh}");
    assert!(own(&shared).init > own(&apart).init);
}

#[test]
fn peers_start_ranks_by_their_own_rules() {
    let setting = setting(100, 2, 128);
    // Hydra describes each host when it has joined: its first ranks run before the last host has.
    let hydra = times(StartLauncher::Hydra, &setting);
    assert!(hydra.joined >= 100_000 + 100 * 200, "{hydra:?}");
    assert!(hydra.ranks < hydra.joined + 2_000, "{hydra:?}");
    // 36 daemons of PRRTE are started by the first one.
    let prrte = times(StartLauncher::Prrte, &setting);
    assert!(prrte.starters >= 200_000 && hydra.starters < 101_000, "{prrte:?} {hydra:?}");
}
