//! Lines that are gathered, on their way from the queues of their ranks to their place.

use super::super::StreamOwner;
use super::super::gather::Gather;
use super::super::outlet::Outlet;
use super::{LineTreatment, OutputPipe, Outputs};
use pmi_host_os::stream::Stream;
use std::time::Instant;

/// Hands out lines that have waited long enough for equal ones.
pub(super) fn tick(outputs: &mut Outputs, now: Instant) {
    let Some(gather) = &mut outputs.gather else { return };
    for stream in Stream::BOTH {
        if gather.is_due(stream, now)
            && let Some(outlet) = outputs.places.outlet(outputs.places.ours(stream))
        {
            gather.tick(stream, now, outlet);
        }
    }
}

/// Hands out the lines of the job of a rank that need not wait any longer.
pub(super) fn release(outputs: &mut Outputs, stream: Stream, process: u32) {
    if let Some((gather, owner, outlet)) = parts(outputs, stream, process) {
        gather.release((stream, owner.group), outlet);
    }
}

/// Hands out all lines of a rank that wait for equal ones.
pub(super) fn hurry(outputs: &mut Outputs, stream: Stream, process: u32) {
    if let Some((gather, owner, outlet)) = parts(outputs, stream, process) {
        gather.hurry(stream, owner, outlet);
    }
}

/// The rank of a stream that is gathered, and the place of its lines.
fn parts(
    outputs: &mut Outputs,
    stream: Stream,
    process: u32,
) -> Option<(&mut Gather, StreamOwner, &mut Outlet)> {
    let Outputs { gather, places, pipes, .. } = outputs;
    let pipe = pipes.get(process, stream);
    let OutputPipe { way: LineTreatment::Gathered, place, seat, .. } = pipe? else { return None };
    Some((gather.as_mut()?, *seat, places.outlet(*place)?))
}
