//! A job whose one rank was there before us.

use super::Run;
use crate::cli::config::Config;
use crate::cli::system::System;
use crate::exit;
use crate::launch::descriptors::DescriptorLimit;
use crate::launch::plan::Part;
use crate::launch::process::Process;
use crate::launch::program::Program;
use crate::server::singleton::Caller;
use crate::settings::Settings;
use crate::settings::job::Universe;
use crate::settings::output::StdinTo;
use crate::stdio::target;
use crate::verdict::Failure;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Serves a program that has started us, and all that it starts, and gives the exit code. Everything there
/// is to say has been said then.
pub fn serve(caller: Caller) -> u8 {
    let served = config(caller).and_then(|config| {
        let limit = DescriptorLimit::new(config.settings.output.files_per_rank());
        let mut run = Run::new(config, limit, 0)?;
        run.adopt(caller)?;
        Ok(run.run())
    });
    served.unwrap_or_else(|what| {
        target::write_last(exit::line(&what).as_bytes());
        Failure::Launcher { what }.exit_code()
    })
}

/// The job as it would be if we had started it.
fn config(caller: Caller) -> Result<Config, String> {
    let mut settings = Settings::default();
    let System { defaults, maxima } = System::read().map_err(|error| error.to_string())?;
    for said in defaults.iter().chain(&maxima) {
        said.apply(&mut settings).map_err(|error| error.to_string())?;
    }
    // What comes there is the program's, and none that it starts shall take it away.
    settings.output.stdin = StdinTo::Nobody;
    // Nobody said how many there may be, and one is not what a program that spawns wants to hear.
    settings.job.universe = Universe::Endless;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let parts = vec![Part { program: program(caller.pid), ranks: 1 }];
    Ok(Config { ranks: 1, parts, host, gate: None, web: None, binding: None, settings })
}

/// What the process runs, for messages; its number is enough where the system does not tell.
fn program(pid: i32) -> Program {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let first = words.split(|byte| *byte == 0).next().filter(|word| !word.is_empty());
    let name = first
        .map_or_else(|| format!("process {pid}").into(), |word| OsString::from_vec(word.into()));
    Program::new(PathBuf::from(&name), name, Vec::new())
}

impl Run {
    /// Takes the program for the rank that would be started first.
    fn adopt(&mut self, caller: Caller) -> Result<(), String> {
        self.starts.clear();
        let Some(plan) = self.jobs.get(&self.first.0).map(|job| job.plan.clone()) else {
            return Ok(());
        };
        let cannot = |error: io::Error| {
            format!(
                "process {}, which has started this launcher, is not there: {error}",
                caller.pid
            )
        };
        // First, so that it can be no other with the same number.
        let process = Process::of_others(caller.pid).map_err(cannot)?;
        let link = caller.meet(&plan.kvsname)?;
        let rank = (self.first, 0);
        self.watch(rank, process, &plan.host).map_err(cannot)?;
        self.service.add_singleton(rank, link, &self.poller).map_err(cannot)
    }
}
