//! Output of ranks for PMIx tools, and input of tools for ranks.

use super::EventLoop;
use super::io::Io;
use super::jobs::Jobs;
use super::pmix::PmixRequests;
use super::processes::Processes;
use crate::operation::PushResult;
use crate::report;
use crate::server::pmix::forwarding::InputPush;
use crate::server::service::Service;
use crate::stdio::forward::{OutputPull, OutputSource};
use crate::stdio::pushed::Pushed;
use pmi_core::ids::SessionId;
use pmi_core::wire::pmix::names::Status;
use std::rc::Rc;
use std::time::Instant;

/// Sends tools the output that they have requested, as far as they take it. Returns true if responses are
/// due.
pub(super) fn send_output(run: &mut EventLoop) -> bool {
    if !run.listeners.tools.is_on() {
        return false;
    }
    let EventLoop { jobs, processes, io, service, .. } = run;
    send((io, service), |process| source(jobs, processes, process))
}

/// As [`send_output`], for processes that `source` describes.
pub(super) fn send(
    (io, service): (&mut Io, &mut Service),
    source: impl Fn(u32) -> Option<OutputSource>,
) -> bool {
    take_output((io, service), source);
    let forwarder = &mut io.forwarder;
    let has_sent = forwarder
        .send(Instant::now(), |session, output| service.pmix_calls().send_output(session, output));
    while let Some((session, bytes)) = io.forwarder.take_dropped() {
        if let Some(name) = service.pmix_calls().tool_name(session) {
            io.report(report::output_dropped(&name, bytes));
        }
    }
    has_sent
}

/// Hands output of ranks over to the requests for it: what comes before a request belongs to earlier ones.
pub(super) fn take_output(
    (io, service): (&mut Io, &mut Service),
    source: impl Fn(u32) -> Option<OutputSource>,
) {
    // A number of a closed session may be that of a new one.
    for session in service.pmix_calls().take_closed_tools() {
        io.forwarder.remove_session(session);
    }
    let now = Instant::now();
    for (process, stream, bytes) in io.outputs.take_tapped() {
        if let Some(source) = source(process) {
            io.forwarder.receive(&Rc::new(source), stream, &bytes, now);
        }
    }
}

/// Adds a request of a tool for output, and answers it.
pub(super) fn pull(parts: &mut PmixRequests<'_>, asked: (SessionId, usize), pull: OutputPull) {
    let PmixRequests { jobs, processes, io, service, .. } = parts;
    take_output((io, service), |process| source(jobs, processes, process));
    let number = parts.io.forwarder.add(asked.0, pull, Instant::now());
    parts.service.pmix_calls().answer_pull(asked, number);
}

/// Ends a request of a tool for output.
pub(super) fn withdraw(parts: &mut PmixRequests<'_>, session: SessionId, number: u64) -> Status {
    let PmixRequests { jobs, processes, io, service, .. } = parts;
    take_output((io, service), |process| source(jobs, processes, process));
    match parts.io.forwarder.withdraw(session, number) {
        true => Status::SUCCESS,
        false => Status::NOT_FOUND,
    }
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

/// The result of a push: the end of input is no news for ranks that read none.
pub(super) fn without_input(result: PushResult, input: &[u8]) -> PushResult {
    match result {
        PushResult::NoReader if input.is_empty() => PushResult::Taken,
        result => result,
    }
}

/// Status of the answer to a push.
pub(super) const fn status(result: PushResult) -> Status {
    match result {
        PushResult::Taken => Status::SUCCESS,
        PushResult::NoReader => Status::NOT_SUPPORTED,
        PushResult::Full => Status::OUT_OF_RESOURCE,
        PushResult::Failed => Status::ERROR,
    }
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
