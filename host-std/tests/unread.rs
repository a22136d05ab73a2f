//! Output of the launcher that its reader does not read: the run terminates all the same, with its exit
//! code, and every message about it is true.

use crate::common::hosts::local_nodes;
use crate::common::{host, job, shell};
use std::io::Read;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A launcher with a pipe as standard output that stays open and unread.
struct Unread {
    child: Child,
    out: std::process::ChildStdout,
    err: ChildStderr,
}

fn start(command: &mut Command) -> Unread {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    Unread { child, out, err }
}

impl Unread {
    /// Waits for the exit code without reading anything.
    fn code(&mut self) -> i32 {
        self.code_within(LIMIT)
    }

    fn code_within(&mut self, limit: Duration) -> i32 {
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap();
            }
            if since.elapsed() > limit {
                self.child.kill().unwrap();
                self.child.wait().unwrap();
                panic!("still running after {limit:?}: {}", self.errors());
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn errors(&mut self) -> String {
        let mut text = String::new();
        self.err.read_to_string(&mut text).unwrap();
        text
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Waits until the ranks have filled the pipe, except for the gaps that pieces of other sizes leave in
    /// its pages.
    fn wait_until_full(&self) {
        let since = Instant::now();
        while rustix::io::ioctl_fionread(&self.out).unwrap() < PIPE - 8192 {
            assert!(since.elapsed() < LIMIT, "the ranks wrote less than a pipe holds");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn timeout_terminates_a_run_whose_output_is_unread() {
    for options in [&[][..], &["-l"], &["--collapse"], &["--print-all-exitcodes"]] {
        let mut command = job(2, [&["--timeout", "1"], options, &["yes"]].concat());
        let mut unread = start(&mut command);
        assert_eq!(unread.code(), 124, "{options:?}");
        let said = unread.errors();
        assert!(said.contains("(--timeout)") && said.contains(NOT_READ), "{options:?}: {said}");
        assert!(!said.contains(LEFT_BEHIND), "{options:?}: {said}");
    }
}

#[test]
fn timeout_terminates_a_run_whose_ranks_have_exited_and_whose_output_is_unread() {
    // More than the pipe takes and the launcher keeps, less than the pipes of the ranks hold besides.
    let mut unread =
        start(job(4, ["--timeout", "3"]).args(shell("head -c 60000 /dev/zero | tr '\\0' 'x'")));
    // 3 s to the limit of the run, and 5 s for the reader.
    assert_eq!(unread.code_within(Duration::from_secs(14)), 124);
    let said = unread.errors();
    assert!(said.contains(NOT_READ) && !said.contains(LEFT_BEHIND), "{said}");
    assert!(!said.contains(HELD), "{said}");
}

#[test]
fn failed_rank_terminates_a_run_whose_output_is_unread() {
    let script = "[ $PMI_RANK = 1 ] || exec yes; sleep 1; exit 7";
    let mut unread = start(&mut job(2, shell(script)));
    assert_eq!(unread.code(), 7);
    let said = unread.errors();
    assert!(said.contains("rank 1 of 2") && said.contains(NOT_READ), "{said}");
    assert!(!said.contains(LEFT_BEHIND), "{said}");
}

#[test]
fn signal_terminates_a_run_whose_output_is_unread() {
    let mut unread = start(&mut job(2, ["yes"]));
    unread.wait_until_full();
    unread.signal("TERM");
    assert_eq!(unread.code(), 143);
    let said = unread.errors();
    assert!(said.contains(NOT_READ) && !said.contains(LEFT_BEHIND), "{said}");
}

#[test]
fn output_that_a_lost_node_has_not_sent_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let pids = directory.path().join("pids");
    // The end of the rank overtakes its output, which waits for the reader.
    let script = format!(
        "[ $PMI_RANK = 1 ] || exec yes; echo $$ $PPID >'{0}.new'; mv '{0}.new' '{0}'; \
         printf begin; while :; do printf %065536d 7; done",
        pids.display()
    );
    let mut unread = start(&mut local_nodes(2, 2, &shell(&script)));
    unread.wait_until_full();
    let text = loop {
        match std::fs::read_to_string(&pids) {
            Ok(text) => break text,
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    };
    for pid in text.split_whitespace() {
        assert!(Command::new("kill").args(["-s", "KILL", pid]).status().unwrap().success());
        // The head has heard of the one before the other.
        thread::sleep(Duration::from_millis(200));
    }
    let mut text = Vec::new();
    unread.out.read_to_end(&mut text).unwrap();
    let code = unread.code();
    let said = unread.errors();
    assert_eq!(code, 137, "{said}");
    assert!(said.contains("rank 1 of 2") && !said.contains(NOT_READ), "{said}");
}

#[test]
fn both_streams_may_be_one_pipe_that_is_unread() {
    let line = "exec \"$0\" run --timeout 1 --print-all-exitcodes -n 2 yes 2>&1";
    let mut unread = start(Command::new("sh").args(["-c", line, crate::common::host_path()]));
    assert_eq!(unread.code(), 124);
}

#[test]
fn sentences_to_an_unread_standard_error_keep_no_run_from_its_end() {
    // Standard error is full before the first sentence, and stays so.
    let (reader, writer) = std::io::pipe().unwrap();
    let fill = writer.try_clone().unwrap();
    let bytes = [b'x'; 1 << 16];
    rustix::pipe::fcntl_setpipe_size(&fill, bytes.len()).unwrap();
    rustix::io::write(&fill, &bytes).unwrap();
    let mut command = host(["run", "-n", "2", "--print-all-exitcodes", "--result", "/dev/null"]);
    command.args(shell("exit 3")).stderr(writer);
    let mut child = command.spawn().unwrap();
    let since = Instant::now();
    let code = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if since.elapsed() > LIMIT {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("still running after {LIMIT:?}");
        }
        thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(code, Some(3));
    drop(reader);
}

#[test]
fn reader_that_goes_on_gets_everything_from_a_failed_run_too() {
    // The reader takes longer than the wait for processes of a failed run.
    let script =
        "[ $PMI_RANK = 0 ] && { sleep 1; exit 3; }; head -c 60000 /dev/zero | tr '\\0' 'x'; echo";
    let mut unread = start(&mut job(5, shell(script)));
    let mut all = Vec::new();
    let mut piece = [0; 8192];
    loop {
        match unread.out.read(&mut piece).unwrap() {
            0 => break,
            len => all.extend_from_slice(&piece[..len]),
        }
        if all.len() < 200_000 {
            thread::sleep(Duration::from_millis(400));
        }
    }
    assert_eq!((unread.code(), all.len()), (3, 4 * 60_001));
    let said = unread.errors();
    assert!(!said.contains(NOT_READ) && !said.contains(LEFT_BEHIND), "{said}");
}

#[test]
fn run_that_went_well_waits_for_its_reader_and_says_nothing() {
    let script = "head -c 60000 /dev/zero | tr '\\0' 'x'; echo";
    let mut unread = start(&mut job(4, shell(script)));
    unread.wait_until_full();
    // Longer than the wait for processes that ranks left behind.
    thread::sleep(Duration::from_secs(4));
    assert_eq!(unread.child.try_wait().unwrap(), None);
    let mut all = Vec::new();
    unread.out.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 4 * 60_001);
    assert_eq!((unread.code(), &*unread.errors()), (0, ""));
}

/// Capacity of a pipe.
const PIPE: u64 = 64 * 1024;

const NOT_READ: &str = "the reader of its output";
const LEFT_BEHIND: &str = "left behind";

const HELD: &str = "do not exit";

/// Far more than all grace periods together.
const LIMIT: Duration = Duration::from_secs(40);
