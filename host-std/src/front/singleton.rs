//! Singleton job: its one rank exists before the launcher and has started it.

use super::local;
use super::served_run::write_last;
use crate::cli::config::Config;
use crate::cli::system::System;
use crate::launch::plan::job::{App, name_of_this_run};
use crate::launch::topology::places::NodePlaces;
use crate::placement::allocation::AllocationSource;
use crate::placement::{NodeMap, PlacedHosts};
use crate::server::singleton::{PmixSingletonArgs, SingletonArgs};
use crate::settings::Settings;
use crate::settings::UniverseSize;
use crate::settings::environment::Offer;
use crate::settings::output::StdinTo;
use pmi_host_base::program::Program;
use pmi_host_base::system_file;
use pmi_host_os::descriptors::DescriptorLimit;
use pmi_host_os::host_name;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::rc::Rc;

/// Serves the program that has started this launcher, and all processes it spawns, and returns the exit
/// code.
/// All reports are written by then.
pub(crate) fn serve(caller: SingletonArgs) -> u8 {
    let served = config(caller.pid).and_then(|config| {
        let limit = DescriptorLimit::new(config.settings.output.files_per_rank(), 0);
        let (mut run, signals) = local::start(config, None, limit)?;
        run.adopt(caller)?;
        Ok(run.serve(signals))
    });
    write_last(served)
}

/// Serves the PMIx program that has started this launcher, likewise.
pub(crate) fn serve_pmix(caller: &PmixSingletonArgs) -> u8 {
    let served = caller.move_descriptor().and_then(|()| {
        let pid = PmixSingletonArgs::pid();
        let mut config = config(pid)?;
        config.settings.environment.offer = Offer::Pmix;
        config.nspace = Some(caller.nspace.clone());
        let limit = DescriptorLimit::new(config.settings.output.files_per_rank(), 0);
        let (mut run, signals) = local::start(config, None, limit)?;
        let uri = run.adopt_process(pid)?;
        // The name in front selects the encoding, as that of a variable does.
        caller.report(&format!("PMIX_SERVER_URI41;{uri}"))?;
        Ok(run.serve(signals))
    });
    write_last(served)
}

/// Configuration of the job as if the launcher had started it.
fn config(pid: i32) -> Result<Config, String> {
    let mut settings = Settings::default();
    let System { defaults, maxima } = System::read().map_err(|error| error.to_string())?;
    for given in defaults.iter().chain(&maxima) {
        given.apply(&mut settings).map_err(|error| error.to_string())?;
    }
    // Standard input belongs to the program, and no process it spawns may read from it.
    settings.output.stdin = StdinTo::NoRank;
    let host = host_name::own();
    let parts = vec![App { program: program(pid), ranks: 1 }];
    let placed = PlacedHosts {
        hosts: vec![host.clone()],
        slots: vec![u32::MAX],
        map: NodeMap::single(),
        source: AllocationSource::Named,
    };
    Ok(Config {
        ranks: 1,
        parts,
        run: name_of_this_run(&host),
        host,
        placed: Rc::new(placed),
        has_servers: false,
        node: None,
        listen: None,
        dial_in_node: None,
        web: None,
        places: NodePlaces::default(),
        universe: UniverseSize::of_machine(1),
        nspace: None,
        settings,
    })
}

/// Program of the process, for messages; its pid if the system does not reveal the program.
fn program(pid: i32) -> Program {
    let words = system_file::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let first = words.split(|byte| *byte == 0).next().filter(|word| !word.is_empty());
    let name = first
        .map_or_else(|| format!("process {pid}").into(), |word| OsString::from_vec(word.into()));
    Program::new(PathBuf::from(&name), name, Vec::new())
}
