//! A scenario of PMI, played by ranks that speak PMIx.
//!
//! Requests of PMI have the same meaning there, with three differences. The client keeps a `put`
//! until a `commit`, so one follows every row of puts. A `get` names no owner: it requests the
//! value of any rank that has put the key, and waits for it, two seconds at most. Fences have no
//! tags; those of the same ranks are distinguished by their order. Requests that a PMIx client
//! answers itself are omitted: the limits of lengths, and the name of the job.

use super::{
    Dialect, Expectation, FaultKind, RankRequest, Scenario, ScriptAct, Step, Traits, Who, acts,
};
use pmi_core::limits::{KEY_BYTES, VALUE_BYTES};

impl Scenario {
    /// The same with all ranks in PMIx, under a name of its own; unchanged if all of them speak it
    /// already.
    ///
    /// # Errors
    ///
    /// A part that PMIx ranks cannot execute, as the predicate of a sentence about the scenario.
    pub fn in_pmix(&self) -> Result<Self, &'static str> {
        let mut scenario = self.clone();
        if (0..self.ranks).all(|rank| self.plan(rank).dialect == Dialect::Pmix) {
            return Ok(scenario);
        }
        if self.host.store_bytes > 0 {
            return Err("fills the store of PMI, which does not hold what PMIx ranks put");
        }
        if self.faults.iter().any(|fault| matches!(fault.what, FaultKind::Send(_))) {
            return Err(RAW);
        }
        if (0..self.ranks).any(|rank| self.puts_long(rank)) {
            return Err("puts values that are too long for PMI and not for PMIx");
        }
        for script in &mut scenario.scripts {
            script.steps = said(std::mem::take(&mut script.steps))?;
        }
        scenario.expects.retain(holds);
        scenario.name.push_str(AS_PMIX);
        for (_, traits) in scenario.only.iter_mut() {
            (traits.dialect, traits.connects_by_itself) = (None, None);
        }
        scenario.only.retain(|_, traits| *traits != Traits::default());
        (scenario.all.dialect, scenario.all.connects_by_itself) = (Some(Dialect::Pmix), None);
        Ok(scenario)
    }

    /// True if a rank puts what PMI refuses for its length. A script that cannot be played puts nothing.
    fn puts_long(&self, rank: u32) -> bool {
        let is_long = |act: &ScriptAct| match act {
            ScriptAct::RankRequest { ask: RankRequest::Put { key, value, .. }, .. } => {
                key.len() >= KEY_BYTES || value.len() >= VALUE_BYTES
            }
            _ => false,
        };
        acts(self, rank).is_ok_and(|acts| acts.iter().any(is_long))
    }
}

/// True if an expectation of PMI holds in PMIx. PMI names the ranks that delay others; a fence of
/// PMIx completes without exited ranks, and waits for finalized ones, which may come back.
const fn holds(expect: &Expectation) -> bool {
    match expect {
        Expectation::Finish(_) => true,
        Expectation::Report(who) | Expectation::ReportAmong(who) => matches!(who, Who::NoRank),
    }
}

/// The steps in PMIx.
fn said(steps: Vec<Step>) -> Result<Vec<Step>, &'static str> {
    let mut all = Vec::new();
    let mut is_uncommitted = false;
    for step in steps {
        let is_put = puts(&step);
        if is_uncommitted && !is_put && step != Step::Commit {
            all.push(Step::Commit);
        }
        is_uncommitted = is_put;
        if let Some(step) = sent_once(step)? {
            all.push(step);
        }
    }
    if is_uncommitted {
        all.push(Step::Commit);
    }
    Ok(all)
}

/// True if a step is a put.
fn puts(step: &Step) -> bool {
    match step {
        Step::Put { .. } | Step::PutFor { .. } => true,
        Step::Also(step) => puts(step),
        _ => false,
    }
}

/// A step in PMIx; `None` if the client needs no request for it.
fn sent_once(mut step: Step) -> Result<Option<Step>, &'static str> {
    if let Some(what) = lacks(&step) {
        return Err(what);
    }
    match &mut step {
        Step::Maxes | Step::Name => return Ok(None),
        Step::Also(other) => {
            let other = sent_once(std::mem::replace(&mut **other, Step::Wait))?;
            return Ok(other.map(|step| Step::Also(Box::new(step))));
        }
        Step::Repeat { steps, .. } | Step::Each { steps, .. } => {
            *steps = said(std::mem::take(steps))?;
        }
        Step::Fence { tag, .. } => *tag = None,
        _ => {}
    }
    Ok(Some(step))
}

/// The part that PMIx does not have.
fn lacks(step: &Step) -> Option<&'static str> {
    Some(match step {
        Step::Ring { .. } => "requests a ring, which PMIx does not have",
        Step::Put { node: true, .. } | Step::Get { node: true, .. } => {
            "shares attributes of a node, which PMIx does not have"
        }
        Step::Get { of: Some(_), .. } => {
            "requests keys of a whole job, and in PMIx ranks have them"
        }
        Step::Connect { .. } | Step::Disconnect { .. } => {
            "connects jobs by one rank, and in PMIx all ranks of both jobs do that"
        }
        Step::Spawn { preputs, .. } if !preputs.is_empty() => {
            "spawns a job with preset keys, which PMIx does not have"
        }
        Step::Send(_) | Step::Await(_) => RAW,
        _ => return None,
    })
}

const RAW: &str = "sends raw bytes of PMI, which have no meaning in PMIx";

/// Behind the name of a scenario.
pub const AS_PMIX: &str = "-as-pmix";
