//! Singleton job: its one rank exists before the launcher and has started it.

use super::EventLoop;
use crate::cli::config::Config;
use crate::cli::system::System;
use crate::launch::descriptors::DescriptorLimit;
use crate::launch::plan::App;
use crate::server::singleton::SingletonArgs;
use crate::settings::Settings;
use crate::settings::job::Universe;
use crate::settings::output::StdinTo;
use crate::stdio::target;
use crate::verdict::Failure;
use pmi_host_base::exit;
use pmi_host_base::program::Program;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Serves the program that has started this launcher, and all processes it spawns, and returns the exit
/// code.
/// All reports are written by then.
pub(crate) fn serve(caller: SingletonArgs) -> u8 {
    let served = config(caller).and_then(|config| {
        let limit = DescriptorLimit::new(config.settings.output.files_per_rank(), 0);
        let mut run = EventLoop::new(config, limit, None)?;
        run.adopt(caller)?;
        Ok(run.run())
    });
    served.unwrap_or_else(|what| {
        target::write_last(exit::line(&what).as_bytes());
        Failure::Launcher { what }.exit_code()
    })
}

/// Configuration of the job as if the launcher had started it.
fn config(caller: SingletonArgs) -> Result<Config, String> {
    let mut settings = Settings::default();
    let System { defaults, maxima } = System::read().map_err(|error| error.to_string())?;
    for given in defaults.iter().chain(&maxima) {
        given.apply(&mut settings).map_err(|error| error.to_string())?;
    }
    // Standard input belongs to the program, and no process it spawns may read from it.
    settings.output.stdin = StdinTo::NoRank;
    // The size of the universe is unknown, and 1 would keep a program from spawning.
    settings.job.universe = Universe::Endless;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let parts = vec![App { program: program(caller.pid), ranks: 1 }];
    Ok(Config {
        ranks: 1,
        parts,
        host,
        hosts: None,
        node: None,
        listen: None,
        dial_in_node: None,
        web: None,
        binding: None,
        settings,
    })
}

/// Program of the process, for messages; its pid if the system does not reveal the program.
fn program(pid: i32) -> Program {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let first = words.split(|byte| *byte == 0).next().filter(|word| !word.is_empty());
    let name = first
        .map_or_else(|| format!("process {pid}").into(), |word| OsString::from_vec(word.into()));
    Program::new(PathBuf::from(&name), name, Vec::new())
}
