//! Parses a scenario, line by line.

mod lines;
mod steps;

pub(super) use self::lines::Line;
use self::lines::ScenarioLines;
pub(super) use self::steps::read_step;
use self::steps::steps;

use super::words::Word;
use super::{
    Dialect, Direction, Expectation, Fault, FaultKind, HostPlan, JobPlan, RANKS_MAX, Scenario,
    ScenarioError, Script, Traits, Who,
};
use crate::ranks::in_order;
use crate::rng::Percent;
use pmi_core::command::Version;

/// Reads a scenario.
///
/// # Errors
///
/// The first invalid line, with the cause.
pub(super) fn read(text: &str) -> Result<Scenario, ScenarioError> {
    let mut scenario = Scenario::default();
    let mut lines = ScenarioLines { lines: text.lines(), number: 0 };
    while let Some(mut line) = lines.next()? {
        let number = lines.number;
        let at = |what| ScenarioError { line: number, what };
        if line.is("script") {
            let who = who(&mut line).and_then(|who| line.end().map(|()| who)).map_err(at)?;
            let steps = steps(&mut lines, number)?;
            scenario.scripts.push(Script { who, steps });
        } else {
            sentence(&mut scenario, &mut line).map_err(at)?;
        }
    }
    whole(&scenario).map_err(|what| ScenarioError { line: 0, what })?;
    Ok(scenario)
}

/// Reads a fault of one rank: `kill 2`.
///
/// # Errors
///
/// A malformed fault.
pub(super) fn read_fault(text: &str) -> Result<(FaultKind, u32), ScenarioError> {
    let error = |what| ScenarioError { line: 1, what };
    let mut line = Line::new(text).map_err(error)?;
    let (what, rank) = trouble(&mut line).map_err(error)?;
    line.end().map_err(error)?;
    Ok((what, rank.ok_or("an injected fault names one rank").map_err(|what| error(what.into()))?))
}

/// Checks the conditions between lines.
fn whole(scenario: &Scenario) -> Result<(), String> {
    let size = scenario.ranks;
    if size == 0 || size > RANKS_MAX {
        return Err(format!("there are 1 to {RANKS_MAX} ranks, not {size}"));
    }
    if scenario.nodes == 0 || scenario.nodes > size {
        return Err(format!("{size} ranks can be on 1 to {size} nodes, not {}", scenario.nodes));
    }
    let scripts = scenario.scripts.iter().map(|script| &script.who);
    let expects = scenario.expects.iter().map(|expect| match expect {
        Expectation::Finish(who) | Expectation::Report(who) | Expectation::ReportAmong(who) => who,
    });
    let named = scripts.chain(expects).filter_map(|who| match who {
        Who::These(ranks) => ranks.iter().max().copied(),
        _ => None,
    });
    let only = scenario.only.keys().copied();
    let struck = scenario.faults.iter().filter_map(|fault| fault.rank);
    scenario.check_jobs().map_err(|error| error.what)?;
    match named.chain(only).chain(struck).find(|rank| *rank >= size) {
        Some(rank) => Err(format!("there is no rank {rank} among {size}")),
        None => Ok(()),
    }
}

/// One line outside of scripts.
fn sentence(scenario: &mut Scenario, line: &mut Line) -> Result<(), String> {
    let word = line.word("a word")?;
    match word.as_str() {
        "name" => scenario.name = line.word("the name")?,
        "about" => {
            let words: Vec<String> = line
                .words
                .by_ref()
                .map(|word| String::from_utf8_lossy(&word.bytes).into())
                .collect();
            scenario.about.push(words.join(" "));
        }
        "seed" => scenario.seed = Some(line.number("the seed")?),
        "ranks" => scenario.ranks = line.number("the number of ranks")?,
        "nodes" => scenario.nodes = line.number("the number of nodes")?,
        "job" => scenario.jobs.push(job(line)?),
        "host" => host(&mut scenario.host, line)?,
        "all" => traits(&mut scenario.all, line)?,
        "rank" => {
            let ranks = match who(line)? {
                Who::These(ranks) => ranks,
                _ => return Err("`rank` takes numbers; for every rank write `all`".into()),
            };
            let mut said = Traits::default();
            traits(&mut said, line)?;
            for rank in ranks {
                merge(scenario.only.entry(rank).or_default(), &said);
            }
        }
        "fault" => scenario.faults.push(fault(line)?),
        "expect" => scenario.expects.push(expect(line)?),
        "end" => return Err("there is no script or loop to end".into()),
        other => {
            return Err(format!(
                "`{other}` begins no line; lines begin with name about seed ranks nodes job host \
                 all rank script fault expect"
            ));
        }
    }
    line.end()
}

/// `job NAME RANKS [spawned]`.
fn job(line: &mut Line) -> Result<JobPlan, String> {
    let name = line.word("the name of the job")?;
    let ranks = match who(line)? {
        Who::These(ranks) => ranks,
        _ => return Err("a job has ranks in a row, `3..5`".into()),
    };
    let first = ranks.first().copied().unwrap_or(0);
    if ranks.is_empty() || ranks.iter().zip(first..).any(|(rank, next)| *rank != next) {
        return Err("the ranks of a job stand in a row, as in `3..5`".into());
    }
    let size = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
    Ok(JobPlan { name, first, size, is_spawned: line.is("spawned") })
}

fn host(host: &mut HostPlan, line: &mut Line) -> Result<(), String> {
    while line.words.peek().is_some() {
        let word = line.word("a trait of the host")?;
        match word.as_str() {
            "kills" => host.kills = true,
            "reports" => host.kills = false,
            "pace" => host.pace = line.span("pace")?,
            "grace" => host.grace = line.span("grace")?,
            "notice" => host.notice = line.span("notice")?,
            "patience" => host.patience = line.number("patience")?,
            "store" => host.store_bytes = line.number("store")?,
            "spawns" => host.spawns = line.span("spawns")?,
            "forgets" => host.forgets = true,
            other => {
                return Err(format!(
                    "a host has kills reports pace grace notice patience store spawns forgets, \
                     not `{other}`"
                ));
            }
        }
    }
    Ok(())
}

fn traits(traits: &mut Traits, line: &mut Line) -> Result<(), String> {
    while line.words.peek().is_some() {
        let word = line.word("a trait of a rank")?;
        match word.as_str() {
            "dialect" => {
                traits.dialect = Some(match line.word("the dialect")?.as_str() {
                    "1.1" => Dialect::Pmi(Version::V1_1),
                    "1.2" => Dialect::Pmi(Version::V1_2),
                    "2.0" => Dialect::Pmi(Version::V2_0),
                    "pmix" => Dialect::Pmix,
                    other => return Err(format!("dialects are 1.1 1.2 2.0 pmix, not `{other}`")),
                });
            }
            "dials" => traits.connects_by_itself = Some(true),
            "inherits" => traits.connects_by_itself = Some(false),
            "start" => traits.start = Some(line.span("start")?),
            "pace" => traits.pace = Some(line.span("pace")?),
            "latency" => traits.latency = Some(line.span("latency")?),
            "split" => traits.split = Some(line.percent("split")?),
            "join" => traits.join = Some(line.percent("join")?),
            "room" => {
                let room = line.number("room")?;
                traits.room =
                    Some(if room > 0 { room } else { return Err("a link without room".into()) });
            }
            "stall" => traits.stall = Some((line.percent("stall")?, line.span("stall")?)),
            "flip" => traits.flip = Some(line.percent("flip")?),
            "reset" => traits.reset = Some(line.percent("reset")?),
            other => {
                return Err(format!(
                    "a rank has dialect dials inherits start pace latency split join room stall flip \
                     reset, not `{other}`"
                ));
            }
        }
    }
    Ok(())
}

/// The last specification counts.
fn merge(into: &mut Traits, said: &Traits) {
    *into = Traits {
        dialect: said.dialect.or(into.dialect),
        connects_by_itself: said.connects_by_itself.or(into.connects_by_itself),
        start: said.start.or(into.start),
        pace: said.pace.or(into.pace),
        latency: said.latency.or(into.latency),
        split: said.split.or(into.split),
        join: said.join.or(into.join),
        room: said.room.or(into.room),
        stall: said.stall.or(into.stall),
        flip: said.flip.or(into.flip),
        reset: said.reset.or(into.reset),
    };
}

fn who(line: &mut Line) -> Result<Who, String> {
    let word = line.word("who")?;
    match word.as_str() {
        "all" => return Ok(Who::All),
        // `nobody` is the former word.
        "none" | "nobody" => return Ok(Who::NoRank),
        _ => {}
    }
    let mut ranks = Vec::new();
    for part in word.split(',') {
        let number = |text: &str| {
            let number = text.parse::<u32>().ok().filter(|rank| *rank < RANKS_MAX);
            number.ok_or_else(|| format!("ranks are written `0,2,4..6` or `all`, not `{word}`"))
        };
        match part.split_once("..") {
            None => ranks.push(number(part)?),
            Some((from, to)) => ranks.extend(number(from)?..=number(to)?),
        }
    }
    Ok(Who::These(in_order(ranks)))
}

fn direction(line: &mut Line) -> Result<Direction, String> {
    match line.word("up or down")?.as_str() {
        "up" => Ok(Direction::Up),
        "down" => Ok(Direction::Down),
        other => Err(format!("a link goes up (to the server) or down, not `{other}`")),
    }
}

fn fault(line: &mut Line) -> Result<Fault, String> {
    let has_chance =
        line.words.peek().and_then(Word::plain).is_some_and(|word| word.ends_with('%'));
    let chance = if has_chance { line.percent("the chance")? } else { Percent(100) };
    if !line.is("at") {
        return Err("after `fault` comes perhaps a chance, then `at` and a time".into());
    }
    let at = line.span("the time")?;
    let (what, rank) = trouble(line)?;
    Ok(Fault { chance, at, what, rank })
}

/// A fault and its rank.
fn trouble(line: &mut Line) -> Result<(FaultKind, Option<u32>), String> {
    let kind = line.word("the fault")?;
    let target = line.word("the rank")?;
    let rank = match target.as_str() {
        "any" => None,
        number => {
            let number = number.parse::<u32>();
            Some(number.map_err(|_| format!("a fault names a rank or `any`, not `{target}`"))?)
        }
    };
    let what = match kind.as_str() {
        "kill" => FaultKind::Kill,
        "stop" if line.is("for") => FaultKind::Stop(Some(line.span("how long")?)),
        "stop" => FaultKind::Stop(None),
        "continue" => FaultKind::Continue,
        "reset" => FaultKind::Reset,
        "cut" => FaultKind::Cut,
        "stall" => FaultKind::Stall(line.span("how long")?),
        "flip" => FaultKind::Flip(direction(line)?),
        "shatter" => FaultKind::Shatter(direction(line)?),
        "say" => FaultKind::Send(line.phrase("the bytes")?.0),
        other => {
            return Err(format!(
                "faults are kill stop continue reset cut stall flip shatter say, not `{other}`"
            ));
        }
    };
    Ok((what, rank))
}

fn expect(line: &mut Line) -> Result<Expectation, String> {
    match line.word("the expectation")?.as_str() {
        "finish" => Ok(Expectation::Finish(who(line)?)),
        "report" if line.is("among") => Ok(Expectation::ReportAmong(who(line)?)),
        "report" => Ok(Expectation::Report(who(line)?)),
        other => Err(format!("`finish` or `report` can be expected, not `{other}`")),
    }
}

#[cfg(test)]
#[path = "../tests.rs"]
mod tests;
