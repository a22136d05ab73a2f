//! Files that users name on the command line: full devices, limits, pipes, and files of other users.

use crate::common::{host_path, job, run, shell, start};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory of its own for the test `name`.
fn directory(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("written-{name}-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// The same, where every user may create files, as in `/tmp`.
fn shared_directory(name: &str) -> PathBuf {
    let directory = directory(name);
    fs::set_permissions(&directory, Permissions::from_mode(0o1777)).unwrap();
    directory
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: only root can make a file of another user");
    }
    is_root
}

fn mode(file: &Path) -> u32 {
    fs::metadata(file).unwrap().permissions().mode() & 0o777
}

#[test]
fn trace_file_is_for_its_owner_only_even_if_it_was_there() {
    let directory = directory("mode");
    let trace = directory.join("trace");
    fs::write(&trace, "something older and longer than the head of any trace".repeat(100)).unwrap();
    fs::set_permissions(&trace, Permissions::from_mode(0o644)).unwrap();
    let ran = run(job(1, ["--trace"]).arg(&trace).arg("true")).exits_with(0);
    assert_eq!((mode(&trace), &*ran.err), (0o600, ""));
    assert!(!fs::read(&trace).unwrap().windows(5).any(|bytes| bytes == b"older"));
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn link_of_another_user_in_a_shared_directory_is_refused() {
    if !is_root() {
        return;
    }
    let directory = shared_directory("link");
    let (victim, link) = (directory.join("victim"), directory.join("link"));
    symlink("victim", &link).unwrap();
    lchown(&link, Some(NOBODY), Some(NOBODY)).unwrap();
    for option in ["--trace", "--result", "--stdout-to", "--report-uri", "--report-pid"] {
        fs::write(&victim, "kept").unwrap();
        let ran = run(job(1, [option]).arg(&link).args(["echo", "started"])).exits_with(1);
        assert_eq!(ran.out, "", "{option}");
        let ran = ran.says(&["link'", "user 65534", "symbolic link"]);
        assert_eq!(fs::read(&victim).unwrap(), b"kept", "{option}: {}", ran.err);
    }
    // A link of the user, or of the owner of the directory, may be followed.
    lchown(&link, Some(0), Some(0)).unwrap();
    run(job(1, ["--trace"]).arg(&link).arg("true")).exits_with(0).says_nothing();
    assert_ne!(fs::read(&victim).unwrap(), b"kept");
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn directory_behind_a_link_of_another_user_gets_no_output() {
    if !is_root() {
        return;
    }
    let directory = shared_directory("behind");
    let (victim, link) = (directory.join("victim"), directory.join("link"));
    fs::create_dir(&victim).unwrap();
    symlink("victim", &link).unwrap();
    lchown(&link, Some(NOBODY), Some(NOBODY)).unwrap();
    for (option, value) in [
        ("--output-dir", link.clone()),
        ("--result", link.join("file")),
        ("--trace", link.join("file")),
    ] {
        let ran = run(job(1, [option]).arg(value).args(["echo", "started"])).exits_with(1);
        assert_eq!(ran.out, "", "{option}");
        ran.says(&["user 65534", "symbolic link 'link'"]);
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 0, "{option}");
    }
    // A directory of another user, whose links lead where that user wants.
    let theirs = directory.join("theirs");
    fs::create_dir(&theirs).unwrap();
    for link in ["1", "0"] {
        symlink("../victim", theirs.join(link)).unwrap();
        lchown(theirs.join(link), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    chown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
    let ran = run(job(1, ["--output-dir"]).arg(&theirs).arg("true")).exits_with(1);
    ran.says(&["user 65534", "symbolic link"]);
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn files_that_are_read_lie_behind_no_link_of_another_user() {
    if !is_root() {
        return;
    }
    let directory = shared_directory("read");
    let (hosts, link) = (directory.join("hosts"), directory.join("link"));
    fs::write(&hosts, "localhost\n").unwrap();
    symlink("hosts", &link).unwrap();
    run(job(1, ["--hostfile"]).arg(&link).arg("true")).exits_with(0);
    lchown(&link, Some(NOBODY), Some(NOBODY)).unwrap();
    for option in ["--hostfile", "--config", "--stdin-file", "--secret-file"] {
        let mut command = job(1, [option]);
        command.arg(&link);
        if option == "--secret-file" {
            command.args(["--listen", "127.0.0.1:0", "--expect", "1"]);
        }
        let ran = run(command.args(["echo", "started"]));
        assert_eq!((ran.out.as_str(), ran.code == 0), ("", false), "{option}");
        ran.says(&["user 65534", "symbolic link 'link'"]);
    }
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn address_for_tools_is_for_its_owner_only_and_goes_through_a_pipe_that_is_read() {
    let directory = directory("uri");
    let (file, pipe) = (directory.join("file"), directory.join("pipe"));
    fs::write(&file, "something older and longer than an address".repeat(9)).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    run(job(1, ["--report-uri"]).arg(&file).arg("true")).exits_with(0).says_nothing();
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!((mode(&file), text.lines().count()), (0o600, 1), "{text}");
    assert!(text.contains(";tcp4://"), "{text}");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // The reader comes later.
    for option in ["--report-uri", "--report-pid"] {
        let running = start(job(1, [option]).arg(&pipe).arg("true"));
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert_eq!(fs::read_to_string(&pipe).unwrap().lines().count(), 1, "{option}");
        running.end().exits_with(0);
    }
    // No reader comes.
    for option in ["--report-uri", "--report-pid"] {
        let ran = run(job(1, [option]).arg(&pipe).args(["echo", "started"])).exits_with(1);
        assert_eq!(ran.out, "");
        ran.says(&[option, "pipe'", "nobody has read the pipe"]);
    }
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn file_or_pipe_of_another_user_in_a_shared_directory_is_refused() {
    if !is_root() {
        return;
    }
    let directory = shared_directory("foreign");
    let (file, pipe) = (directory.join("file"), directory.join("pipe"));
    fs::write(&file, "kept").unwrap();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // An open reader, so that a writer can open the pipe.
    let reader = File::options().read(true).write(true).open(&pipe).unwrap();
    for foreign in [&file, &pipe] {
        chown(foreign, Some(NOBODY), Some(NOBODY)).unwrap();
        for option in ["--trace", "--result", "--stdout-to"] {
            let ran = run(job(1, [option]).arg(foreign).args(["echo", "started"])).exits_with(1);
            assert_eq!(ran.out, "", "{option}");
            ran.says(&["user 65534"]);
        }
    }
    assert_eq!(fs::read(&file).unwrap(), b"kept");
    // A trace to another user's file is refused in every directory.
    fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
    let ran = run(job(1, ["--trace"]).arg(&file).arg("true")).exits_with(1);
    ran.says(&["user 65534", "could read it"]);
    assert_eq!(fs::read(&file).unwrap(), b"kept");
    drop(reader);
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn report_to_a_pipe_without_a_reader_is_refused_before_the_start() {
    let directory = directory("pipe");
    let pipe = directory.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let ran = run(job(1, ["--result"]).arg(&pipe).args(["echo", "started"])).exits_with(1);
    assert_eq!(ran.out, "");
    ran.says(&["pipe'", "has no reader", "--result"]);
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn report_goes_through_a_pipe_that_is_read_and_waits_for_no_reader_for_ever() {
    let directory = directory("read");
    let line = format!("{} run -n 1 --result >(cat > report) true; wait; cat report", host_path());
    let ran = run(Command::new("bash").args(["-c", &line]).current_dir(&directory)).exits_with(0);
    assert!(ran.out.contains("\"exit_code\": 0"), "{}{}", ran.out, ran.err);
    let pipe = directory.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let _reader = File::options().read(true).write(true).open(&pipe).unwrap();
    // More than a pipe holds.
    let ran = run(job(300, ["--result"]).arg(&pipe).arg("true")).exits_with(1);
    ran.says(&["pipe'", "is incomplete"]);
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn report_that_does_not_fit_is_no_success() {
    let ran = run(&mut job(1, ["--result", "/dev/full", "true"])).exits_with(1);
    ran.says(&["/dev/full", "incomplete", "No space left"]);
    // A failure of the run keeps its own code.
    let ran = run(job(1, ["--result", "/dev/full"]).args(shell("exit 7"))).exits_with(7);
    assert!(ran.err.contains("incomplete"), "{}", ran.err);
}

#[test]
fn output_to_a_full_device_is_a_failure() {
    for words in ["help", "run --help", "run -n 1 --show-config", "version", "ps --json"] {
        let line = format!("{} {words} > /dev/full", host_path());
        let ran = run(Command::new("sh").args(["-c", &line])).exits_with(1);
        ran.says(&["cannot be written", "No space left"]);
    }
}

#[test]
fn full_disk_leads_to_a_message_and_a_code() {
    if !is_root() {
        return;
    }
    let directory = directory("disk");
    for (options, output, part) in [
        ("--result full/file", "/dev/null", "incomplete"),
        ("--stdout-to full/%r", "/dev/null", "is lost"),
        ("--trace full/file", "/dev/null", "ends here"),
        ("", "full/file", "is lost"),
    ] {
        // In a mount namespace of its own: the disk disappears with its last process.
        let line = format!(
            "mkdir -p full && mount -t tmpfs -o size=16k tmpfs full && \
             {} run -n 40 {options} sh -c '{TALK}; yes | head -c 3000' > {output}",
            host_path()
        );
        let mut command = Command::new("unshare");
        let ran = run(command.args(["-m", "sh", "-c", &line]).current_dir(&directory));
        assert!(ran.err.contains(part), "{options}: {}", ran.err);
        // The run goes on without its trace, which no rank depends on.
        assert_eq!(ran.code, i32::from(!options.contains("--trace")), "{options}: {}", ran.err);
    }
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn limit_on_the_size_of_files_leads_to_a_message_and_a_code() {
    let directory = directory("limit");
    for (options, output, part) in [
        ("--result file", "/dev/null", "incomplete"),
        ("--stdout-to out.%r", "/dev/null", "is lost"),
        ("--trace file", "/dev/null", "ends here"),
        ("", "file", "is lost"),
    ] {
        let line = format!(
            "ulimit -f 8; {} run -n 40 {options} sh -c '{TALK}; yes | head -c 9000' > {output}",
            host_path()
        );
        let ran = run(Command::new("sh").args(["-c", &line]).current_dir(&directory));
        assert!(ran.err.contains(part), "{options}: {} {}", ran.code, ran.err);
        assert_eq!(ran.code, i32::from(!options.contains("--trace")), "{options}: {}", ran.err);
    }
    // Output before the ranks start, and output of other commands.
    for words in ["run -n 900 --dry-run true", "run -n 9000 --display map true"] {
        let line = format!("ulimit -f 1; {} {words} > file 2> errors", host_path());
        let ran = run(Command::new("sh").args(["-c", &line]).current_dir(&directory));
        assert!(ran.code < 128, "{words}: {}", ran.code);
    }
    // A rank that meets the limit is reported with the name of the signal.
    let line =
        format!("ulimit -f 1; {} run -n 1 sh -c 'exec head -c 9000 /dev/zero > own'", host_path());
    let ran = run(Command::new("sh").args(["-c", &line]).current_dir(&directory)).exits_with(153);
    ran.says(&["SIGXFSZ"]);
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn ignored_limit_on_the_size_of_files_stays_ignored_for_ranks() {
    let line = format!("trap '' XFSZ; {} run -n 1 grep SigIgn /proc/self/status", host_path());
    let running = start(Command::new("sh").args(["-c", &line]));
    let ran = running.end().exits_with(0);
    let mask =
        ran.out.trim().rsplit('\t').next().and_then(|mask| u64::from_str_radix(mask, 16).ok());
    assert_eq!(mask.unwrap() >> 24 & 1, 1, "{}", ran.out);
}

/// Some messages, so that a trace has something to record.
const TALK: &str = "say() { echo cmd=$@ >&$PMI_FD; read l <&$PMI_FD; }; \
                    say init pmi_version=1 pmi_subversion=1; for i in 1 2 3 4 5 6 7 8 9; do \
                    say get_maxes; done; say finalize";

const NOBODY: u32 = 65534;
