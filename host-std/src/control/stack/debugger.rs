//! Stacks from `gdb`, which attaches to a process for a moment.

use super::frame::{StackFrame, ThreadStack};
use super::python;
use pmi_host_os::command_output::output_within;
use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Stacks of all threads of a process, the first thread first.
///
/// # Errors
///
/// The reason for which there is none, for the user; [`DebuggerError::Missing`] if there is no `gdb`.
pub(super) fn stacks(pid: i32, program: &str) -> Result<Vec<ThreadStack>, DebuggerError> {
    let text = run(pid)?;
    let stacks = parse(&text.out, program);
    match stacks.is_empty() {
        true => Err(DebuggerError::Refused(refusal(&text.err))),
        false => Ok(stacks),
    }
}

/// Reason for which the debugger has returned no stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DebuggerError {
    /// It is not installed.
    Missing,
    /// It may not attach to the process, or has failed; its message.
    Refused(String),
}

struct DebuggerOutput {
    out: String,
    err: String,
}

fn run(pid: i32) -> Result<DebuggerOutput, DebuggerError> {
    let mut command = Command::new("gdb");
    // Neither files of the user nor those of the program's directory are read, and nothing is downloaded.
    command.args(["-nx", "-batch", "-iex", "set debuginfod enabled off"]);
    command.args(["-iex", "set auto-load safe-path /usr"]);
    for setting in ["width 0", "print address off", "print frame-arguments presence"] {
        command.args(["-iex", &format!("set {setting}")]);
    }
    command.arg("-p").arg(pid.to_string());
    command.args(["-ex", &format!("thread apply all bt {FRAMES_MAX}"), "-ex", python::GDB_COMMAND]);
    command.stderr(Stdio::piped());
    // The language of its messages is that of the parser.
    command.env("LC_ALL", "C").env_remove("DEBUGINFOD_URLS");
    // After it was killed, the kernel detaches it from the process, which then continues.
    match output_within(&mut command, PATIENCE) {
        Ok(Some(output)) => Ok(DebuggerOutput {
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }),
        Ok(None) => {
            let why = format!("gdb did not end within {} s", PATIENCE.as_secs());
            Err(DebuggerError::Refused(why))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(DebuggerError::Missing),
        Err(error) => Err(DebuggerError::Refused(error.to_string())),
    }
}

/// The message of a debugger that could not attach, without its own prefixes.
fn refusal(text: &str) -> String {
    let is_reason = |line: &&str| line.contains("ptrace") || line.contains("not attach");
    let line = text.lines().find(is_reason).or_else(|| text.lines().next());
    line.unwrap_or("gdb printed no stack").trim().trim_end_matches('.').to_owned()
}

/// Reads the output of `thread apply all bt`.
///
/// A thread begins with `Thread 2 (Thread 0x7fc6 (LWP 16916) "name"):` and has a line `#0  function (...)
/// at file:line` or `#1  function () from image` for each call, the innermost one first.
pub(super) fn parse(text: &str, program: &str) -> Vec<ThreadStack> {
    let mut stacks: Vec<(u32, ThreadStack)> = Vec::new();
    for line in text.lines() {
        if let Some((number, name)) = thread_line(line) {
            let name = match number {
                1 => program.to_owned(),
                _ => format!("{program}, thread {name}"),
            };
            stacks.push((number, ThreadStack { name, frames: Vec::new() }));
        } else if let (Some((_, stack)), Some(frame)) = (stacks.last_mut(), frame_line(line)) {
            stack.frames.insert(0, frame);
        }
    }
    stacks.retain(|(_, stack)| !stack.frames.is_empty());
    stacks.sort_by_key(|(number, _)| *number);
    let mut stacks: Vec<_> = stacks.into_iter().map(|(_, stack)| stack).collect();
    if let Some(first) = stacks.first_mut() {
        python::insert(&mut first.frames, python::of_debugger(text));
    }
    stacks
}

/// Number and name of a thread.
fn thread_line(line: &str) -> Option<(u32, &str)> {
    let rest = line.strip_prefix("Thread ")?.strip_suffix("):")?;
    let (number, rest) = rest.split_once(' ')?;
    let name = rest.split('"').nth(1).unwrap_or("without a name");
    Some((number.parse().ok()?, name))
}

fn frame_line(line: &str) -> Option<StackFrame> {
    let rest = line.strip_prefix('#')?;
    let (number, rest) = rest.split_once(' ')?;
    number.parse::<u32>().ok()?;
    let rest = rest.trim_start();
    // A frame within a line shows its address in spite of the setting.
    let rest = match rest.strip_prefix("0x") {
        Some(address) => address.split_once(" in ").map_or(rest, |(_, rest)| rest),
        None => rest,
    };
    // The arguments end the name, in which blanks and brackets are possible.
    let end = rest.rfind(" (...)").or_else(|| rest.rfind(" ()"));
    let (function, behind) = match end {
        Some(end) => (&rest[..end], rest[end..].split_once(')').map_or("", |(_, behind)| behind)),
        None => (rest, ""),
    };
    if let Some((file, line)) = behind.strip_prefix(" at ").and_then(|at| at.rsplit_once(':'))
        && let Ok(line) = line.trim().parse()
    {
        return Some(StackFrame::in_source(function, file, line));
    }
    match behind.strip_prefix(" from ") {
        Some(image) => Some(StackFrame::in_image(function, image)),
        None => Some(StackFrame { function: function.to_owned(), source: None, image: None }),
    }
}

/// Calls per thread; deeper recursions are cut at the outer end.
const FRAMES_MAX: u32 = 100;

/// Symbols of a large program take seconds to read.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = r#"[New LWP 16916]
Using host libthread_db library "/lib/x86_64-linux-gnu/libthread_db.so.1".
26	../sysdeps/unix/sysv/linux/read.c: No such file or directory.

Thread 2 (Thread 0x7fc629dff6c0 (LWP 16916) "async"):
#0  epoll_wait (...) at ../sysdeps/unix/sysv/linux/epoll_wait.c:30
#1  ucs_event_set_wait () from /lib/x86_64-linux-gnu/libucs.so.0

Thread 1 (Thread 0x7fc62c931780 (LWP 16913) "hang"):
#0  __GI___libc_read (...) at ../sysdeps/unix/sysv/linux/read.c:24
#1  0x00007fc62f5d1280 in ?? () from /lib/x86_64-linux-gnu/libmpich.so.12
#2  solver::step<int (double)>::operator() (...) at /data/a b/solver.cc:118
#3  main (...) at hang.c:27
#4  <signal handler called>
[Inferior 1 (process 16913) detached]
"#;

    #[test]
    fn threads_and_calls_are_read_from_output_of_gdb_13() {
        let stacks = parse(OUTPUT, "hang");
        let names: Vec<_> = stacks.iter().map(|stack| stack.name.as_str()).collect();
        assert_eq!(names, ["hang", "hang, thread async"]);
        let texts: Vec<_> = stacks[0].frames.iter().map(ToString::to_string).collect();
        let expected = [
            "<signal handler called>",
            "main at hang.c:27",
            "solver::step<int (double)>::operator() at solver.cc:118",
            "?? in libmpich.so.12",
            "__GI___libc_read at read.c:24",
        ];
        assert_eq!(texts, expected);
        assert_eq!(parse("Could not attach to process.", "hang"), []);
    }

    #[test]
    fn refused_debugger_is_quoted_without_advice_about_configuration() {
        let text = "Could not attach to process.  If your uid matches the uid of the target\n\
                    process, check the setting of /proc/sys/kernel/yama/ptrace_scope.\n\
                    ptrace: Operation not permitted.\n";
        assert_eq!(
            refusal(text),
            "Could not attach to process.  If your uid matches the uid of the target"
        );
        assert_eq!(refusal("ptrace: No such process.\n"), "ptrace: No such process");
    }
}
