//! Calls of Python, which stand on the stack of a process as calls of the interpreter.

use super::debugger::PATIENCE;
use super::frame::StackFrame;
use pmi_host_os::command_output::output_within;
use serde::Deserialize;
use std::process::{Command, Stdio};

/// Command of `gdb` that prints the calls of Python; the interpreter's package of debugging symbols defines
/// it.
pub(super) const GDB_COMMAND: &str = "py-bt";

/// Reads the calls that [`GDB_COMMAND`] has printed, the outermost one first.
pub(super) fn of_debugger(text: &str) -> Vec<StackFrame> {
    let calls = text.split("Traceback (most recent call first):").nth(1).unwrap_or_default();
    let lines = calls.lines().map(str::trim);
    let frames = lines.filter_map(|line| {
        let (file, rest) = line.strip_prefix("File \"")?.split_once("\", line ")?;
        let (line, function) = rest.split_once(", in ")?;
        Some(StackFrame::in_source(function, file, line.parse().ok()?))
    });
    let mut frames: Vec<_> = frames.collect();
    frames.reverse();
    frames
}

/// Requests the calls of the first thread of a process from `py-spy`, the outermost one first. `None` if it
/// is not installed or has failed.
pub(super) fn of_sampler(pid: i32) -> Option<Vec<StackFrame>> {
    let mut command = Command::new("py-spy");
    command.args(["dump", "--json", "--pid", &pid.to_string()]);
    let output = output_within(command.stderr(Stdio::null()), PATIENCE).ok()??;
    parse_sample(&output.stdout)
}

fn parse_sample(output: &[u8]) -> Option<Vec<StackFrame>> {
    let threads: Vec<SampledThread> = serde_json::from_slice(output).ok()?;
    let is_main = |thread: &&SampledThread| thread.thread_name.as_deref() == Some("MainThread");
    let thread = threads.iter().find(is_main).or_else(|| threads.first())?;
    let frames = thread.frames.iter().rev();
    Some(frames.map(|call| StackFrame::in_source(&call.name, &call.filename, call.line)).collect())
}

/// A thread in the output of `py-spy dump --json`, the innermost call first.
#[derive(Deserialize)]
struct SampledThread {
    thread_name: Option<String>,
    frames: Vec<SampledCall>,
}

#[derive(Deserialize)]
struct SampledCall {
    name: String,
    filename: String,
    line: u32,
}

/// True if `frames` are those of an interpreter.
pub(super) fn is_interpreter(frames: &[StackFrame]) -> bool {
    frames.iter().any(is_evaluation)
}

/// Puts the calls of Python in the place of those of the interpreter: between the start of the program and
/// what Python has called.
pub(super) fn insert(frames: &mut Vec<StackFrame>, python: Vec<StackFrame>) {
    let first = frames.iter().position(is_evaluation);
    let last = frames.iter().rposition(is_evaluation);
    if let (Some(first), Some(last), false) = (first, last, python.is_empty()) {
        frames.splice(first..=last, python);
    }
}

fn is_evaluation(frame: &StackFrame) -> bool {
    frame.function.starts_with("_PyEval_EvalFrame")
        || frame.function.starts_with("PyEval_EvalFrame")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(frames: &[StackFrame]) -> Vec<String> {
        frames.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn calls_of_python_replace_those_of_the_interpreter() {
        let text = "Traceback (most recent call first):\n  <built-in method recv>\n  \
                    File \"/data/ring.py\", line 7, in step\n    world.recv()\n  \
                    File \"/data/ring.py\", line 12, in <module>\n    step()\n";
        let native = [
            "main",
            "Py_RunMain",
            "_PyEval_EvalFrameDefault",
            "??",
            "_PyEval_EvalFrameDefault",
            "PMPI_Recv",
        ];
        let mut frames = native.map(|name| StackFrame::in_image(name, "x")).to_vec();
        assert!(is_interpreter(&frames));
        insert(&mut frames, of_debugger(text));
        let expected = [
            "main in x",
            "Py_RunMain in x",
            "<module> at ring.py:12",
            "step at ring.py:7",
            "PMPI_Recv in x",
        ];
        assert_eq!(names(&frames), expected);
        let before = frames.clone();
        insert(&mut frames, Vec::new());
        assert_eq!(frames, before);
    }

    #[test]
    fn main_thread_of_a_sample_is_read() {
        let sample = br#"[{"pid":1,"thread_id":2,"thread_name":"worker","owns_gil":false,"frames":[]},
            {"pid":1,"thread_id":1,"thread_name":"MainThread","owns_gil":true,"frames":[
            {"name":"step","filename":"/data/ring.py","module":null,"line":7,"locals":null},
            {"name":"<module>","filename":"/data/ring.py","module":null,"line":12,"locals":null}]}]"#;
        let frames = parse_sample(sample).unwrap();
        assert_eq!(names(&frames), ["<module> at ring.py:12", "step at ring.py:7"]);
        assert_eq!(parse_sample(b"Error: Permission denied"), None);
    }
}
