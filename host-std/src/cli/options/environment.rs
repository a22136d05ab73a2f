//! Options of the environment of ranks.

use super::OptionSpec;
use super::Topic::Environment;
use super::value::{add, choice, path, put, shown_path, text};
use crate::settings::environment::{EmulatedLaunchers, Offer};
use pmi_host_base::program::Inherit;
use pmi_host_base::variables::SET;
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

pub(super) const ROWS: &[OptionSpec] = &[
    Environment.value(
        "env",
        "NAME[=VALUE]",
        "set a variable for the ranks, or pass on its value; may be repeated",
        |settings, value| add(&mut settings.environment.set, assignment(value)),
        |settings| {
            let pairs = settings.environment.set.iter();
            let shown =
                pairs.map(|(name, value)| format!("{}={}", name.display(), value.display()));
            Some(shown.collect::<Vec<_>>().join(" ")).filter(|shown| !shown.is_empty())
        },
    )
    .adding_up()
    .common()
    .of_part(),
    Environment.value(
        "inherit",
        "WHAT",
        "variables of the launcher that ranks inherit: all (default), none, or a list as PATH,HOME",
        |settings, value| put(&mut settings.environment.inherit, inherit(value)),
        |settings| {
            Some(match &settings.environment.inherit {
                Inherit::All => "all".to_owned(),
                Inherit::Nothing => "none".to_owned(),
                Inherit::Only(names) => {
                    let names: Vec<String> = names.iter().map(|name| text(name)).collect();
                    names.join(",")
                }
            })
        },
    )
    .of_part(),
    Environment.value(
        "unset-env",
        "NAME",
        "keep ranks from inheriting this variable; may be repeated",
        |settings, value| add(&mut settings.environment.unset, Ok(value.to_owned())),
        |settings| {
            let names: Vec<String> =
                settings.environment.unset.iter().map(|name| text(name)).collect();
            Some(names.join(" ")).filter(|shown| !shown.is_empty())
        },
    )
    .adding_up(),
    Environment.value(
        "node-env",
        "LIST",
        "variables that each node decides where it has them, as SITE_GPUS,SITE_NET_*, besides those of batch \
         systems; may be repeated",
        |settings, value| {
            let names = patterns(value)?;
            settings.environment.of_node.extend(names);
            Ok(())
        },
        |settings| {
            let names: Vec<String> =
                settings.environment.of_node.iter().map(|name| text(name)).collect();
            Some(names.join(",")).filter(|shown| !shown.is_empty())
        },
    )
    .adding_up(),
    Environment.value(
        "tmpdir",
        "DIR",
        "directory for the temporary files of PMIx ranks (default: TMPDIR, or /tmp)",
        |settings, value| put(&mut settings.environment.temporary, path(value).map(Some)),
        |settings| shown_path(settings.environment.temporary.as_ref()),
    ),
    Environment.value(
        "pmi",
        "WHICH",
        "protocols that ranks find a server for: auto (default), 1, 2, x (PMIx) or all",
        |settings, value| put(&mut settings.environment.offer, offer(value)),
        |settings| {
            Some(
                match settings.environment.offer {
                    Offer::Auto => "auto",
                    Offer::Pmi1 => "1",
                    Offer::Pmi2 => "2",
                    Offer::Pmix => "x",
                    Offer::All => "all",
                }
                .to_owned(),
            )
        },
    ),
    Environment.switch(
        "pmi-port",
        "give ranks PMI_PORT and PMI_ID in place of PMI_FD, for MPI programs behind one that closes \
         inherited files, as Python's subprocess does",
        |settings, on| settings.environment.has_port = on,
        |settings| settings.environment.has_port,
    ),
    Environment.switch(
        "preload-pmi",
        "have ranks use libpmi.so.0 and libpmi2.so.0 of pmi-host in place of those of Slurm, Flux or Cray",
        |settings, on| settings.environment.preload_pmi = on,
        |settings| settings.environment.preload_pmi,
    ),
    Environment.value(
        "pmi-libraries",
        "DIRECTORY",
        "directory of these two libraries (default: ../lib/pmi-host from the directory of pmi-host)",
        |settings, value| put(&mut settings.environment.pmi_libraries, path(value).map(Some)),
        |settings| shown_path(settings.environment.pmi_libraries.as_ref()),
    ),
    Environment.value(
        "env-for",
        "WHAT",
        "set further variables: those of torchrun (torch: MASTER_ADDR, MASTER_PORT, WORLD_SIZE, RANK, \
         LOCAL_RANK and others), those of Slurm's tasks (slurm: SLURM_PROCID, SLURM_LOCALID, SLURM_NTASKS \
         and others), those of Open MPI's mpirun for programs that link no MPI library (ompi: \
         OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE and others), those of PALS (pals: PALS_RANKID, \
         PALS_LOCAL_RANKID and others); or several, as torch,slurm",
        |settings, value| {
            let mut emulated = EmulatedLaunchers::default();
            for launcher in value.as_bytes().split(|byte| *byte == b',') {
                let field = choice(OsStr::from_bytes(launcher), &LAUNCHERS)?;
                *field(&mut emulated) = true;
            }
            settings.environment.emulated = emulated;
            Ok(())
        },
        |settings| {
            let mut emulated = settings.environment.emulated;
            let set = LAUNCHERS.iter().filter(|(_, field)| *field(&mut emulated));
            let names: Vec<&str> = set.map(|(name, _)| *name).collect();
            (!names.is_empty()).then(|| names.join(","))
        },
    ),
    Environment.switch(
        "env-report",
        "report which variables are set for the ranks and which are removed, and why",
        |settings, on| settings.environment.report = on,
        |settings| settings.environment.report,
    ),
];

/// Launchers for `--env-for`, and their fields.
const LAUNCHERS: [(&str, EmulatedLauncher); 4] = [
    ("torch", |emulated| &mut emulated.torch),
    ("slurm", |emulated| &mut emulated.slurm),
    ("ompi", |emulated| &mut emulated.open_mpi),
    ("pals", |emulated| &mut emulated.pals),
];

type EmulatedLauncher = fn(&mut EmulatedLaunchers) -> &mut bool;

/// Cuts `NAME=VALUE`; the first `=` counts. A lone `NAME` has the value that it has for the launcher.
fn assignment(value: &OsStr) -> Result<(OsString, OsString), String> {
    let bytes = value.as_bytes();
    let cut = bytes.iter().position(|byte| *byte == b'=');
    let (name, stated) = match cut {
        Some(cut) => (&bytes[..cut], Some(&bytes[cut + 1..])),
        None => (bytes, None),
    };
    if name.is_empty() {
        return Err("that is not NAME=VALUE; try 'OMP_NUM_THREADS=4'".to_owned());
    }
    if SET.iter().any(|entry| entry.means(name)) {
        return Err(
            "the launcher itself sets this one; 'pmi-host run --env-report' shows which".to_owned()
        );
    }
    let owned = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    let name = owned(name);
    let value = stated.map(owned).or_else(|| env::var_os(&name));
    let value = value.ok_or("the launcher has no variable of this name; give it as NAME=VALUE")?;
    Ok((name, value))
}

fn offer(value: &OsStr) -> Result<Offer, String> {
    match value.as_bytes() {
        b"auto" => Ok(Offer::Auto),
        b"1" => Ok(Offer::Pmi1),
        b"2" => Ok(Offer::Pmi2),
        b"x" => Ok(Offer::Pmix),
        b"all" => Ok(Offer::All),
        _ => Err("that is not a protocol; there are auto, 1, 2, x and all".to_owned()),
    }
}

/// Names of variables, each with a star at the end or without.
fn patterns(value: &OsStr) -> Result<Vec<OsString>, String> {
    let pieces = value.as_bytes().split(|byte| *byte == b',');
    let names: Vec<OsString> = pieces.map(|name| OsStr::from_bytes(name).to_owned()).collect();
    let is_name = |name: &OsString| {
        let start = name.as_bytes().strip_suffix(b"*").unwrap_or(name.as_bytes());
        !start.is_empty() && !start.iter().any(|byte| b"=*\0".contains(byte))
    };
    match names.iter().all(is_name) {
        true => Ok(names),
        false => Err("that is no list of variables; try 'SITE_GPUS,SITE_NET_*'".to_owned()),
    }
}

fn inherit(value: &OsStr) -> Result<Inherit, String> {
    match value.as_bytes() {
        b"all" => Ok(Inherit::All),
        b"none" => Ok(Inherit::Nothing),
        b"" => Err("that names no variable; try 'none', or 'PATH,HOME'".to_owned()),
        list => {
            let names = list.split(|byte| *byte == b',').filter(|name| !name.is_empty());
            Ok(Inherit::Only(names.map(|name| OsStr::from_bytes(name).to_owned()).collect()))
        }
    }
}
