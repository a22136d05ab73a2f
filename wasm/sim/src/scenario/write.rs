//! Writes a scenario as text that parses to the same scenario.

use super::words::quote;
use super::{
    Direction, Expectation, Fault, FaultKind, HostPlan, JobPlan, Scenario, Script, Step, Traits,
    Who,
};
use crate::rng::Percent;
use std::fmt::{self, Display, Formatter};

impl Display for Scenario {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "name {}", self.name)?;
        for about in &self.about {
            writeln!(f, "about {}", quote(about.as_bytes()))?;
        }
        if let Some(seed) = self.seed {
            writeln!(f, "seed {seed}")?;
        }
        writeln!(f, "ranks {}", self.ranks)?;
        if self.nodes > 1 {
            writeln!(f, "nodes {}", self.nodes)?;
        }
        for JobPlan { name, first, size, is_spawned } in &self.jobs {
            let spawned = if *is_spawned { " spawned" } else { "" };
            writeln!(f, "job {name} {first}..{}{spawned}", first + size - 1)?;
        }
        if self.host != HostPlan::default() {
            writeln!(f, "host{}", self.host)?;
        }
        if self.all != Traits::default() {
            writeln!(f, "all{}", self.all)?;
        }
        for (rank, traits) in &self.only {
            writeln!(f, "rank {rank}{traits}")?;
        }
        for Script { who, steps } in &self.scripts {
            writeln!(f, "\nscript {who}")?;
            write_steps(f, steps, 1)?;
            writeln!(f, "end")?;
        }
        if !self.faults.is_empty() || !self.expects.is_empty() {
            writeln!(f)?;
        }
        self.faults.iter().try_for_each(|fault| writeln!(f, "{fault}"))?;
        self.expects.iter().try_for_each(|expect| writeln!(f, "{expect}"))
    }
}

fn write_steps(f: &mut Formatter<'_>, steps: &[Step], depth: usize) -> fmt::Result {
    for step in steps {
        write!(f, "{:1$}", "", 2 * depth)?;
        match step {
            Step::Repeat { times, name, steps } => {
                write!(f, "repeat {times}")?;
                if let Some(name) = name {
                    write!(f, " as {name}")?;
                }
                writeln!(f)?;
                write_steps(f, steps, depth + 1)?;
                writeln!(f, "{:1$}end", "", 2 * depth)?;
            }
            Step::Each { name, steps } => {
                writeln!(f, "each {name}")?;
                write_steps(f, steps, depth + 1)?;
                writeln!(f, "{:1$}end", "", 2 * depth)?;
            }
            other => writeln!(f, "{other}")?,
        }
    }
    Ok(())
}

impl Display for HostPlan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let usual = Self::default();
        if self.kills {
            f.write_str(" kills")?;
        }
        for (word, own, usual) in [
            ("pace", self.pace, usual.pace),
            ("grace", self.grace, usual.grace),
            ("notice", self.notice, usual.notice),
            ("spawns", self.spawns, usual.spawns),
        ] {
            if own != usual {
                write!(f, " {word} {own}")?;
            }
        }
        if self.patience != usual.patience {
            write!(f, " patience {}", self.patience)?;
        }
        if self.store_bytes != 0 {
            write!(f, " store {}", self.store_bytes)?;
        }
        if self.forgets { f.write_str(" forgets") } else { Ok(()) }
    }
}

impl Display for Traits {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(dialect) = self.dialect {
            write!(f, " dialect {dialect}")?;
        }
        match self.connects_by_itself {
            Some(true) => f.write_str(" dials")?,
            Some(false) => f.write_str(" inherits")?,
            None => {}
        }
        let spans = [("start", self.start), ("pace", self.pace), ("latency", self.latency)];
        for (word, span) in spans {
            span.map_or(Ok(()), |span| write!(f, " {word} {span}"))?;
        }
        let percent = |f: &mut Formatter<'_>, word, percent: Option<Percent>| {
            percent.map_or(Ok(()), |percent| write!(f, " {word} {percent}"))
        };
        percent(f, "split", self.split)?;
        percent(f, "join", self.join)?;
        self.room.map_or(Ok(()), |room| write!(f, " room {room}"))?;
        self.stall.map_or(Ok(()), |(chance, span)| write!(f, " stall {chance} {span}"))?;
        percent(f, "flip", self.flip)?;
        percent(f, "reset", self.reset)
    }
}

impl Display for Who {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::NoRank => f.write_str("none"),
            Self::These(ranks) => {
                let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
                f.write_str(&ranks.join(","))
            }
        }
    }
}

impl Display for Direction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Up { "up" } else { "down" })
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("fault")?;
        if self.chance != Percent(100) {
            write!(f, " {}", self.chance)?;
        }
        let rank = self.rank.map_or("any".into(), |rank| rank.to_string());
        write!(f, " at {} ", self.at)?;
        self.what.write(f, &rank)
    }
}

impl FaultKind {
    /// Its keyword.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Stop(_) => "stop",
            Self::Continue => "continue",
            Self::Reset => "reset",
            Self::Cut => "cut",
            Self::Stall(_) => "stall",
            Self::Flip(_) => "flip",
            Self::Shatter(_) => "shatter",
            Self::Send(_) => "say",
        }
    }

    /// Writes the fault with its rank.
    pub(crate) fn write(&self, f: &mut Formatter<'_>, rank: &str) -> fmt::Result {
        write!(f, "{} {rank}", self.word())?;
        match self {
            Self::Stop(Some(span)) => write!(f, " for {span}"),
            Self::Stall(span) => write!(f, " {span}"),
            Self::Flip(direction) | Self::Shatter(direction) => write!(f, " {direction}"),
            Self::Send(bytes) => write!(f, " {}", quote(bytes)),
            _ => Ok(()),
        }
    }
}

impl Display for Expectation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finish(who) => write!(f, "expect finish {who}"),
            Self::Report(who) => write!(f, "expect report {who}"),
            Self::ReportAmong(who) => write!(f, "expect report among {who}"),
        }
    }
}
