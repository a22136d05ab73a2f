//! The steps of a script.

use super::lines::{Line, ScenarioLines};
use crate::scenario::words::Phrase;
use crate::scenario::{GroupPhrase, PMIX, ScenarioError, Step};
use pmi_core::client::pmix::Scope;

/// Reads one step, on one line.
///
/// # Errors
///
/// A malformed step.
pub(in crate::scenario) fn read_step(text: &str) -> Result<Step, ScenarioError> {
    let error = |what| ScenarioError { line: 1, what };
    let mut line = Line::new(text).map_err(error)?;
    step(&mut line).and_then(|step| line.end().map(|()| step)).map_err(error)
}

/// The steps up to `end`.
pub(super) fn steps(
    lines: &mut ScenarioLines<'_>,
    begun: usize,
) -> Result<Vec<Step>, ScenarioError> {
    let mut steps_read = Vec::new();
    loop {
        let Some(mut line) = lines.next()? else {
            let what = "this is never ended with `end`".into();
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
            let step = step(&mut line).map_err(at)?;
            line.end().map_err(at)?;
            step
        };
        steps_read.push(step);
    }
}

fn step(line: &mut Line) -> Result<Step, String> {
    let word = line.word("a step")?;
    Ok(match word.as_str() {
        "open" => Step::Open,
        "init" => Step::Init,
        "maxes" => Step::Maxes,
        "appnum" => Step::AppNum,
        "universe" => Step::Universe,
        "name" => Step::Name,
        "put" | "node-put" => Step::Put {
            node: word == "node-put",
            key: line.phrase("the key")?,
            value: line.phrase("the value")?,
        },
        "put-local" | "put-remote" if PMIX => Step::PutFor {
            scope: if word == "put-local" { Scope::Local } else { Scope::Remote },
            key: line.phrase("the key")?,
            value: line.phrase("the value")?,
        },
        "commit" if PMIX => Step::Commit,
        "get-of" if PMIX => Step::GetOf {
            rank: line.phrase("the rank")?,
            key: line.phrase("the key")?,
            now: line.is("now"),
            wanted: wanted(line)?,
        },
        "get" | "node-get" => Step::Get {
            node: word == "node-get",
            key: line.phrase("the key")?,
            of: match line.is("of") {
                true => Some(line.word("the job")?),
                false => None,
            },
            wait: line.is("wait"),
            wanted: wanted(line)?,
        },
        "fence" => fence(line)?,
        "publish" => {
            Step::Publish { service: line.phrase("the service")?, port: line.phrase("the port")? }
        }
        "unpublish" => Step::Unpublish { service: line.phrase("the service")? },
        "lookup" => Step::Lookup {
            service: line.phrase("the service")?,
            wait: line.is("wait"),
            wanted: wanted(line)?,
        },
        "spawn" => {
            let job = line.word("the job")?;
            let mut preputs = Vec::new();
            while line.words.peek().is_some() {
                preputs.push((line.phrase("a key")?, line.phrase("its value")?));
            }
            Step::Spawn { job, preputs }
        }
        "connect" => Step::Connect { job: line.word("the job")? },
        "disconnect" => Step::Disconnect { job: line.word("the job")? },
        "ring" => Step::Ring {
            left: line.phrase("what goes to the left")?,
            right: line.phrase("what goes to the right")?,
        },
        "abort" => {
            let code = if line.words.peek().is_some() { line.number("the code")? } else { 1 };
            let message = if line.words.peek().is_some() {
                line.phrase("the text")?
            } else {
                Phrase::default()
            };
            Step::Abort { code, message }
        }
        "finalize" => Step::Finalize,
        "sleep" => Step::Sleep(line.span("the time")?),
        "exit" => Step::Exit(line.number("the code")?),
        "die" => Step::Die,
        "stop" => Step::Stop,
        "hang" => Step::Hang,
        "leave" => Step::Leave,
        "deaf" => Step::Deaf,
        "hear" => Step::Hear,
        "say" => Step::Say(line.phrase("the bytes")?),
        "garbage" => Step::Garbage(line.span("the number of bytes")?),
        "await" => Step::Await(line.number("the number of lines")?),
        "manual" => Step::Manual,
        "wait" => Step::Wait,
        "also" => match step(line)? {
            question @ (Step::Maxes
            | Step::AppNum
            | Step::Universe
            | Step::Put { .. }
            | Step::Get { .. }
            | Step::GetOf { .. }
            | Step::Fence { .. }
            | Step::Publish { .. }
            | Step::Unpublish { .. }
            | Step::Lookup { .. }
            | Step::Spawn { .. }
            | Step::Connect { .. }
            | Step::Disconnect { .. }
            | Step::Ring { .. }) => Step::Also(Box::new(question)),
            _ => return Err("`also` stands before a question that others can overtake".into()),
        },
        other => {
            return Err(format!(
                "`{other}` is no step; steps are open init maxes appnum universe name put get \
                 node-put node-get fence publish unpublish lookup spawn connect disconnect ring \
                 abort finalize also wait repeat each sleep exit die stop hang leave deaf hear \
                 say garbage await manual"
            ));
        }
    })
}

fn wanted(line: &mut Line) -> Result<Option<Option<Phrase>>, String> {
    Ok(if line.is("missing") {
        Some(None)
    } else if line.is("is") {
        Some(Some(line.phrase("the value")?))
    } else {
        None
    })
}

fn fence(line: &mut Line) -> Result<Step, String> {
    let group = if line.is("world") {
        GroupPhrase::World
    } else if line.is("node") {
        GroupPhrase::Node
    } else if line.words.peek().is_none_or(|word| word.plain() == Some("tag")) {
        GroupPhrase::Job
    } else {
        GroupPhrase::Ranks(line.phrase("the ranks")?)
    };
    let tag = if line.is("tag") { Some(line.number("the tag")?) } else { None };
    Ok(Step::Fence { group, tag })
}
