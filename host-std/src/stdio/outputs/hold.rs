//! Pipes whose places are full: they are not read until all their places take more.

use super::{OutputPipe, Outputs};
use crate::numbers::number;
use pmi_host_os::poller::{Interest, Poller, Token};
use pmi_host_os::stream::Stream;
use std::io;

/// Stops or resumes reading the pipes that lead to a place.
///
/// # Errors
///
/// Of the system, if a pipe cannot be watched.
pub(super) fn hold_up(
    outputs: &mut Outputs,
    place: u32,
    hold: bool,
    poller: &mut Poller,
) -> io::Result<()> {
    // Without files, all pipes of a stream lead to one place.
    let at_once = |stream| outputs.places.ours(stream) == place && outputs.places.is_ours(stream);
    for stream in Stream::BOTH.into_iter().filter(|stream| at_once(*stream)) {
        poller.pause(stream, hold)?;
    }
    if Stream::BOTH.into_iter().all(|stream| outputs.places.is_ours(stream)) {
        return Ok(());
    }
    for (process, pipes) in outputs.pipes.iter_mut().enumerate() {
        for (pipe, stream) in pipes.iter_mut().zip(Stream::BOTH) {
            let token = Token::Output(stream, number(process));
            let leads_here =
                |pipe: &&mut OutputPipe| pipe.place == place || pipe.copy == Some(place);
            let pipe = pipe.as_mut().filter(|_| !at_once(stream)).filter(leads_here);
            let Some(pipe) = pipe else { continue };
            let is_full = |place: &u32| outputs.places.is_full(*place);
            let is_held = hold || is_full(&pipe.place) || pipe.copy.as_ref().is_some_and(is_full);
            let Some(fd) = pipe.fd.as_ref().filter(|_| pipe.is_held != is_held) else {
                continue;
            };
            match is_held {
                true => poller.remove(token, fd)?,
                false => poller.add(token, fd, Interest::Read)?,
            }
            pipe.is_held = is_held;
        }
    }
    Ok(())
}
