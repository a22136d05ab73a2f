//! Output of the ranks of this node for PMIx clients, and input of those for its ranks.

use super::Node;
use super::jobs::Jobs;
use super::pmix::PmixRequests;
use super::processes::Processes;
use crate::operation::PushResult;
use crate::requests::forwarding::{send, take_output, without_input};
use crate::server::pmix::forwarding::InputPush;
use crate::stdio::forward::{OutputPull, OutputSource};
use crate::stdio::pushed::Pushed;
use pmi_core::ids::SessionId;
use pmi_host_os::clock;

/// Sends tools the output that they have requested, as far as they take it. Returns true if responses are
/// due.
pub(super) fn send_output(node: &mut Node) -> bool {
    let Node { jobs, processes, io, service, .. } = node;
    send((io, service), |process| source(jobs, processes, process))
}

/// Adds a request of a tool for output, and returns its number.
pub(super) fn pull(parts: &mut PmixRequests<'_>, session: SessionId, pull: OutputPull) -> u64 {
    let PmixRequests { jobs, processes, io, service, .. } = parts;
    io.outputs.tap();
    take_output((io, service), |process| source(jobs, processes, process));
    parts.io.forwarder.add(session, pull, clock::now())
}

/// Ends a request of a tool for output; false if it has none with this number.
pub(super) fn withdraw(parts: &mut PmixRequests<'_>, session: SessionId, number: u64) -> bool {
    let PmixRequests { jobs, processes, io, service, .. } = parts;
    take_output((io, service), |process| source(jobs, processes, process));
    parts.io.forwarder.withdraw(session, number)
}

/// Gives input to ranks that read what tools push; without a target, to all of them.
pub(super) fn push(parts: &mut PmixRequests<'_>, push: &InputPush) -> PushResult {
    let InputPush { readers, input, is_complete } = push;
    let entries = parts.processes.iter().enumerate();
    let of_readers = entries.filter(|(_, entry)| {
        let is_it = |(job, rank): &(_, Option<u32>)| {
            *job == entry.job && rank.is_none_or(|rank| rank == entry.rank)
        };
        entry.process.is_some() && (readers.is_empty() || readers.iter().any(is_it))
    });
    let numbers = of_readers.filter_map(|(number, _)| u32::try_from(number).ok());
    let results = numbers.map(|process| {
        match parts.io.pushed.push(process, (input, *is_complete), parts.poller) {
            Ok(Pushed::Taken) => PushResult::Taken,
            Ok(Pushed::NoPipe) => PushResult::NoReader,
            Ok(Pushed::Full) => PushResult::Full,
            Err(_) => PushResult::Failed,
        }
    });
    let result = results.min().unwrap_or(PushResult::NoReader);
    without_input(result, input)
}

/// The rank that is this process.
fn source(jobs: &Jobs, processes: &Processes, process: u32) -> Option<OutputSource> {
    let entry = processes.get(process)?;
    let plan = jobs.plan(entry.job)?;
    Some(OutputSource {
        job: entry.job,
        rank: entry.rank,
        pid: entry.pid,
        nspace: plan.kvsname.clone(),
        host: plan.host.clone(),
    })
}
