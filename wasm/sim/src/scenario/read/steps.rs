//! The steps of a script.

use super::lines::{Line, ScenarioLines};
use crate::scenario::{ScenarioError, Step, step};

/// Reads one step, on one line.
///
/// # Errors
///
/// A malformed step.
pub(in crate::scenario) fn read_step(text: &str) -> Result<Step, ScenarioError> {
    let error = |what| ScenarioError { line: 1, what };
    let mut line = Line::new(text).map_err(error)?;
    step::read(&mut line).and_then(|step| line.end().map(|()| step)).map_err(error)
}

/// The steps up to `end`.
pub(super) fn steps(
    lines: &mut ScenarioLines<'_>,
    begun: usize,
) -> Result<Vec<Step>, ScenarioError> {
    let mut steps_read = Vec::new();
    loop {
        let Some(mut line) = lines.next()? else {
            let what = "this has no `end`".into();
            return Err(ScenarioError { line: begun, what });
        };
        let number = lines.number;
        let at = |what| ScenarioError { line: number, what };
        if line.is("end") {
            line.end().map_err(at)?;
            return Ok(steps_read);
        }
        let step = if line.is("repeat") {
            let times = line.number("how often").map_err(at)?;
            let name = match line.is("as") {
                true => Some(line.word("the name").map_err(at)?),
                false => None,
            };
            line.end().map_err(at)?;
            Step::Repeat { times, name, steps: steps(lines, number)? }
        } else if line.is("each") {
            let name = line.word("the name").map_err(at)?;
            line.end().map_err(at)?;
            Step::Each { name, steps: steps(lines, number)? }
        } else {
            let read = step::read(&mut line).map_err(at)?;
            line.end().map_err(at)?;
            read
        };
        steps_read.push(step);
    }
}
