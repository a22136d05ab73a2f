//! A scenario of PMI, played by ranks that speak PMIx.
//!
//! What PMI says has the same meaning there, with three differences. A `put` is kept by the client until a
//! `commit` hands it over, so one stands behind every row of puts. A `get` names no owner: it asks for the
//! value of whoever has put the key, and waits for it, two seconds at most. Fences have no tags;
//! those of the same ranks are told apart by their order. What a client of PMI asks for and one of PMIx
//! knows is left out: how long words may be, and the name of the job.

use super::{Act, Ask, Dialect, Expect, Scenario, Step, Traits, Trouble, Who, acts};
use pmi_core::limits::{KEY_BYTES, VALUE_BYTES};

impl Scenario {
    /// The same with all ranks in PMIx, under a name of its own; as it is if all of them speak it already.
    ///
    /// Errors: what PMIx ranks cannot do of it, as a sentence goes on that begins with the scenario.
    pub fn in_pmix(&self) -> Result<Self, String> {
        if (0..self.ranks).all(|rank| self.plan(rank).dialect == Dialect::Pmix) {
            return Ok(self.clone());
        }
        if self.host.store_bytes > 0 {
            return Err("fills the store of PMI, and what PMIx ranks put is not kept there".into());
        }
        if self.faults.iter().any(|fault| matches!(fault.what, Trouble::Say(_))) {
            return Err(RAW.into());
        }
        let mut scenario = self.clone();
        scenario.expects.retain(holds);
        for script in &mut scenario.scripts {
            script.steps = said(&script.steps)?;
        }
        (0..self.ranks).try_for_each(|rank| self.check_lengths(rank))?;
        scenario.name.push_str(AS_PMIX);
        let plain = |traits: &Traits| Traits { dialect: None, dials: None, ..*traits };
        scenario.all = Traits { dialect: Some(Dialect::Pmix), ..plain(&self.all) };
        let only = self.only.iter().map(|(rank, traits)| (*rank, plain(traits)));
        scenario.only = only.filter(|(_, traits)| *traits != Traits::default()).collect();
        Ok(scenario)
    }

    /// What PMI refuses for its length, PMIx takes.
    fn check_lengths(&self, rank: u32) -> Result<(), String> {
        let is_long = |act: &Act| match act {
            Act::Ask { ask: Ask::Put { key, value, .. }, .. } => {
                key.len() >= KEY_BYTES || value.len() >= VALUE_BYTES
            }
            _ => false,
        };
        match acts(self, rank).map_err(|error| error.what)?.iter().any(is_long) {
            true => Err("puts what is too long for PMI, and is not for PMIx".into()),
            false => Ok(()),
        }
    }
}

/// Whether what is expected of PMI is to be expected of PMIx. PMI names whoever keeps others waiting; a fence
/// of PMIx goes on without who is gone, and waits for who has said goodbye and may come back.
const fn holds(expect: &Expect) -> bool {
    match expect {
        Expect::Finish(_) => true,
        Expect::Report(who) | Expect::ReportAmong(who) => matches!(who, Who::Nobody),
    }
}

/// The steps as PMIx ranks say them.
fn said(steps: &[Step]) -> Result<Vec<Step>, String> {
    let mut all = Vec::new();
    let mut is_uncommitted = false;
    for step in steps {
        if is_uncommitted && !puts(step) && *step != Step::Commit {
            all.push(Step::Commit);
        }
        is_uncommitted = puts(step);
        all.extend(said_once(step)?);
    }
    if is_uncommitted {
        all.push(Step::Commit);
    }
    Ok(all)
}

/// Whether a step is a put.
fn puts(step: &Step) -> bool {
    match step {
        Step::Put { .. } | Step::PutFor { .. } => true,
        Step::Also(step) => puts(step),
        _ => false,
    }
}

/// A step as PMIx ranks say it; nothing if they know the answer.
fn said_once(step: &Step) -> Result<Option<Step>, String> {
    Ok(Some(match step {
        Step::Maxes | Step::Name => return Ok(None),
        Step::Also(step) => return Ok(said_once(step)?.map(|step| Step::Also(Box::new(step)))),
        Step::Repeat { times, name, steps } => {
            Step::Repeat { times: *times, name: name.clone(), steps: said(steps)? }
        }
        Step::Each { name, steps } => Step::Each { name: name.clone(), steps: said(steps)? },
        Step::Fence { group, tag: _ } => Step::Fence { group: group.clone(), tag: None },
        lacking => match lacks(lacking) {
            Some(what) => return Err(what.into()),
            None => lacking.clone(),
        },
    }))
}

/// What is not to be had in PMIx.
fn lacks(step: &Step) -> Option<&'static str> {
    Some(match step {
        Step::Ring { .. } => "asks for a ring, which PMIx does not have",
        Step::Put { node: true, .. } | Step::Get { node: true, .. } => {
            "shares attributes of a node, which PMIx does not have"
        }
        Step::Get { of: Some(_), .. } => {
            "asks for keys of a whole job, and in PMIx ranks have them"
        }
        Step::Connect { .. } | Step::Disconnect { .. } => {
            "connects jobs by one rank, and in PMIx all ranks of both jobs do that"
        }
        Step::Spawn { preputs, .. } if !preputs.is_empty() => {
            "spawns a job that finds keys, which PMIx does not have"
        }
        Step::Say(_) | Step::Await(_) => RAW,
        _ => return None,
    })
}

const RAW: &str = "says bytes of PMI past the client, which mean nothing in PMIx";

/// Behind the name of a scenario.
pub const AS_PMIX: &str = "-as-pmix";
