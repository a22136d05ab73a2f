//! The last call of a process, as far as the kernel reports it without a debugger.

use super::frame::{StackFrame, ThreadStack};
use pmi_host_base::image;
use pmi_host_base::system_file;
use procfs::process::{MMapPath, Process};
use std::path::Path;

/// The function of the program or a library that has called the kernel, and the function of the kernel in
/// which the first thread of the process waits. A thread that computes has neither.
///
/// `None` if the process is gone or may not be inspected.
pub(super) fn stack(pid: i32, program: &str) -> Option<ThreadStack> {
    let process = Process::new(pid).ok()?;
    let mut frames = Vec::new();
    let registers = system_file::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    if registers.trim() == "running" {
        frames.push(StackFrame::in_image("it computes; its calls need a debugger", ""));
    }
    if let Some(address) = instruction(&registers) {
        frames.extend(caller(&process, address));
    }
    let wait = process.wchan().ok().filter(|name| !matches!(name.trim(), "" | "0"));
    frames.extend(wait.map(|name| StackFrame::in_image(name.trim(), "kernel")));
    let name = program.to_owned();
    (!frames.is_empty()).then_some(ThreadStack { name, frames })
}

/// Address of the instruction behind the system call: the last of the numbers in `/proc/PID/syscall`.
fn instruction(registers: &str) -> Option<u64> {
    let last = registers.split_whitespace().nth(8)?;
    u64::from_str_radix(last.strip_prefix("0x")?, 16).ok()
}

fn caller(process: &Process, address: u64) -> Option<StackFrame> {
    let maps = process.maps().ok()?;
    let map = maps.iter().find(|map| map.address.0 <= address && address < map.address.1)?;
    let MMapPath::Path(path) = &map.pathname else { return None };
    let offset = address - map.address.0 + map.offset;
    // The file as the process sees it, which may live in another mount namespace.
    let seen = Path::new("/proc").join(process.pid().to_string()).join("root");
    let seen = seen.join(path.strip_prefix("/").unwrap_or(path));
    let function = image::function_at(&seen, offset);
    Some(StackFrame::in_image(function.as_deref().unwrap_or("??"), &path.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_host_os::clock;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    #[test]
    fn waiting_process_is_seen_in_a_library_and_in_the_kernel() {
        let mut child =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let until = clock::now() + Duration::from_secs(60);
        // Until the program waits for its input, its loader may be seen waiting for the disk.
        loop {
            let frames = stack(pid, "cat").map(|stack| stack.frames).unwrap_or_default();
            let texts: Vec<_> = frames.iter().map(ToString::to_string).collect();
            if let [call, wait] = &texts[..]
                && call.contains("read")
                && call.contains("libc")
            {
                assert!(wait.ends_with(" in kernel"), "{texts:?}");
                break;
            }
            // Without the right to trace other processes the kernel reports no instruction.
            assert!(clock::now() < until, "{texts:?}");
        }
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(stack(i32::MAX, "cat"), None);
    }

    #[test]
    fn instruction_is_the_last_number() {
        let line = "0 0x3 0x7ffd 0x3ff 0x0 0x0 0x0 0x7ffd1000 0x7fc62f5d1280\n";
        assert_eq!(instruction(line), Some(0x7fc6_2f5d_1280));
        assert_eq!(instruction("running\n"), None);
    }
}
