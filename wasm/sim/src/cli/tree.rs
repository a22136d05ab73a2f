//! `pmi-sim tree sweep | run | scale | fence`.

use super::SHOWN_MAX;
use super::args::SimArgs;
use super::cursor::SeedCursor;
use super::show;
use pmi_sim::tree::{self, TreeLinks, TreeSummary};

/// True if every rule held.
pub(super) fn act(name: &str, args: &SimArgs) -> Result<bool, String> {
    match name {
        "sweep" => match &args.tree.cursor {
            Some(cursor) => sweep_on(args, cursor),
            None => Ok(sweep(args.from, args)),
        },
        "run" => run(args),
        "scale" => scale(args),
        "fence" => fence(args),
        other => Err(format!("tree needs sweep, run, scale or fence, not `{other}`")),
    }
}

fn sweep(from: u64, args: &SimArgs) -> bool {
    let seeds = args.seeds.unwrap_or(2_000);
    report(from, seeds, &tree::sweep(from, seeds, args.tree.mutant))
}

/// Runs seeds behind those of a file, which is written every few seconds.
fn sweep_on(args: &SimArgs, path: &str) -> Result<bool, String> {
    let mut cursor = SeedCursor::read(path)?;
    let (from, seeds) = (cursor.next, args.seeds.unwrap_or(2_000));
    let mut all = TreeSummary::default();
    while all.runs < seeds {
        let summary = tree::sweep(cursor.next, BATCH.min(seeds - all.runs), args.tree.mutant);
        cursor.next += summary.runs;
        cursor.broken.extend(summary.broken.iter().map(|run| run.seed));
        cursor.write(path)?;
        all.runs += summary.runs;
        all.steps += summary.steps;
        all.broken.extend(summary.broken);
    }
    println!("{path}: {} seeds, {} of them broke a rule.", cursor.next, cursor.broken.len());
    Ok(report(from, seeds, &all))
}

fn report(from: u64, seeds: u64, summary: &TreeSummary) -> bool {
    for run in summary.broken.iter().take(SHOWN_MAX) {
        if let Some(violation) = &run.violation {
            println!("seed {}: {}: {}", run.seed, violation.rule, violation.what);
        }
    }
    if summary.broken.len() > SHOWN_MAX {
        println!("and {} more", summary.broken.len() - SHOWN_MAX);
    }
    println!(
        "trees with {seeds} seeds from {}: {} runs, {} steps, {} broken.",
        from,
        summary.runs,
        summary.steps,
        summary.broken.len()
    );
    summary.broken.is_empty()
}

fn run(args: &SimArgs) -> Result<bool, String> {
    let seed = args.seed.ok_or("tree run needs --seed")?;
    println!("{:?}", tree::TreePlan::of_seed(seed));
    let run = tree::run(seed, args.tree.mutant);
    if let Some(violation) = &run.violation {
        println!("at {}: {}: {}", violation.at, violation.rule, violation.what);
    }
    let result = if run.violation.is_some() { "a rule is broken" } else { "all rules hold" };
    println!("seed {seed}: {} steps, {result}.", run.steps);
    Ok(run.violation.is_none())
}

fn scale(args: &SimArgs) -> Result<bool, String> {
    let nodes = args.tree.nodes.unwrap_or(10_000);
    let bytes = args.tree.bytes.unwrap_or(0);
    check_memory(nodes, bytes, available_bytes())?;
    let failed = |violation: pmi_sim::Violation| format!("{}: {}", violation.rule, violation.what);
    let cost = tree::cost(nodes, bytes).map_err(failed)?;
    println!("nodes            {} with the head, depth {}", cost.nodes, cost.depth());
    println!("steps            {}", cost.steps);
    println!("result           {} bytes, received by every node", cost.total);
    println!("frames           {} at the busiest node, sent and received", cost.frames);
    println!("bytes            {} at the busiest node, in one direction", cost.bytes);
    println!("simulated time   {} us", cost.micros);
    if cost.total > 0 {
        let hundredths = |value: u64| format!("{}.{:02}", value / 100, value % 100);
        println!("bandwidth floor  {} us", cost.floor_micros);
        println!("time / floor     {}", hundredths(cost.percent_of_floor()));
        println!("bytes / floor    {}", hundredths(cost.percent_of_bytes()));
    }
    Ok(true)
}

/// Prints the time of one operation alone, for programs.
fn fence(args: &SimArgs) -> Result<bool, String> {
    let (nodes, bytes) = (args.tree.nodes.unwrap_or(1024), args.tree.bytes.unwrap_or(0));
    let latency_micros = args.tree.latency.unwrap_or(30);
    if latency_micros > LATENCY_MAX {
        return Err(format!("--latency needs a number up to {LATENCY_MAX}, in microseconds"));
    }
    let byte_picos = match args.tree.bandwidth.unwrap_or(10) {
        0 => return Err("--bandwidth needs 1 Gbit/s or more".into()),
        gbit => 8_000 / gbit,
    };
    let micros = tree::fence_micros(nodes, bytes, TreeLinks { latency_micros, byte_picos });
    let micros = micros.map_err(|violation| format!("{}: {}", violation.rule, violation.what))?;
    show(&format!("{micros}\n"))
}

/// Ten seconds.
const LATENCY_MAX: u64 = 10_000_000;

/// Refuses an operation that does not fit into this much memory.
fn check_memory(nodes: u32, bytes: u64, available: u64) -> Result<(), String> {
    let needed = tree::memory_bytes(nodes, bytes);
    if needed <= available {
        return Ok(());
    }
    Err(format!(
        "{nodes} nodes that contribute {bytes} bytes each need {} MiB of memory, since each keeps the \
         result, and {} MiB are available; specify less with --nodes or --bytes",
        needed >> 20,
        available >> 20
    ))
}

/// Memory that can be used without harm to others; an estimate where the system does not say.
fn available_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(MEMORY_BYTES, |kib| kib.saturating_mul(1024))
}

/// Memory of a small machine.
const MEMORY_BYTES: u64 = 4 << 30;

/// Seeds between two writes of a cursor.
const BATCH: u64 = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_that_does_not_fit_into_memory_is_refused() {
        assert_eq!(check_memory(10_000, 0, 1 << 30), Ok(()));
        assert_eq!(check_memory(1024, 1500, 4 << 30), Ok(()));
        let why = check_memory(1024, 19_200, 16 << 30).unwrap_err();
        assert!(
            why.starts_with("1024 nodes that contribute 19200 bytes each need 24016 MiB"),
            "{why}"
        );
        assert!(why.contains("16384 MiB are available; specify less with --nodes"), "{why}");
        assert!(check_memory(u32::MAX, u64::MAX, u64::MAX - 1).is_err());
    }
}
