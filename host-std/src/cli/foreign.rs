//! Options of launchers whose command lines are not read, with their equivalents here.

/// Options of another launcher with one equivalent.
struct ForeignOption {
    launcher: &'static str,
    /// Names as they are typed.
    names: &'static [&'static str],
    /// Equivalent, or remedy.
    here: &'static str,
}

/// Answer to an option of another launcher, to follow the report that there is no such option.
pub(crate) fn answer(word: &str) -> Option<String> {
    let name = word.split('=').next().unwrap_or_default();
    let found = FOREIGN.iter().find(|option| option.names.contains(&name))?;
    let ForeignOption { launcher, here, .. } = found;
    Some(match here.starts_with('-') {
        true => format!("that of {launcher} is '{here}' here"),
        false => format!("that is of {launcher}; {here}"),
    })
}

const fn of(
    launcher: &'static str,
    names: &'static [&'static str],
    here: &'static str,
) -> ForeignOption {
    ForeignOption { launcher, names, here }
}

const FOREIGN: &[ForeignOption] = &[
    of(SRUN, &["--ntasks"], "-n N"),
    of(SRUN, &["--ntasks-per-node", "--tasks-per-node"], "--ppn N"),
    of(SRUN, &["--cpus-per-task"], "--bind-to core:N"),
    of(SRUN, &["--nodelist", "-w"], "--hosts LIST"),
    of(SRUN, &["--nodefile", "-F"], "--hostfile FILE"),
    of(SRUN, &["--mpi"], "--pmi WHICH"),
    of(SRUN, &["--distribution", "-m"], "--map-by WHAT"),
    of(SRUN, &["--export"], "--env NAME=VALUE"),
    of(SRUN, &["--chdir", "-D"], "--wdir DIR"),
    of(SRUN, &["--time"], "--timeout SECONDS"),
    of(SRUN, &["--kill-on-bad-exit", "-K"], "--on-exit-error kill"),
    of(SRUN, &["--wait", "-W"], "--exit-timeout SECONDS"),
    of(SRUN, &["--error", "-e"], "--stderr-to PATTERN"),
    of(SRUN, &["--input", "-i"], "--stdin RANKS"),
    of(SRUN, &["--multi-prog"], "write the programs with ':' between them"),
    of(SRUN, &["--pty"], "--pty 0"),
    of(SRUN, &["-u"], "--unbuffered"),
    of(
        SRUN,
        &[
            "--partition",
            "-p",
            "--account",
            "-A",
            "--job-name",
            "-J",
            "--gres",
            "--mem",
            "--exclusive",
            "--overlap",
            "--jobid",
            "--qos",
            "--constraint",
            "-C",
            "--reservation",
            "--gpus",
        ],
        "the allocation is made by 'sbatch' or 'salloc'; leave it out",
    ),
    of("flux run", &["--cores-per-task", "--cores"], "--bind-to core:N"),
    of("flux run", &["--gpus-per-task"], "--gpus-per-rank N"),
    of("flux run", &["--label-io"], "--label"),
    of("flux run", &["--cwd"], "--wdir DIR"),
    of("flux run", &["--env-remove", "--env-file"], "--inherit LIST"),
    of("flux run", &["--time-limit"], "--timeout SECONDS"),
    of(
        "flux run",
        &["--setopt", "--setattr", "--queue"],
        "Flux reads it from 'flux batch'; leave it out",
    ),
    of(
        "Intel MPI",
        &["-trace"],
        "libraries are not exchanged; '--trace FILE' records the messages to the launcher",
    ),
    of("Platform MPI", &["-prot"], "leave it out"),
    of("jsrun", &["--nrs"], "-n N"),
    of("jsrun", &["--rs_per_host", "--tasks_per_rs", "-a", "-r"], "--ppn N"),
    of("jsrun", &["--cpu_per_rs", "--bind"], "--bind-to core:N"),
    of("jsrun", &["--gpu_per_rs", "-g"], "--gpus-per-rank N"),
    of("jsrun", &["--launch_distribution"], "--map-by WHAT"),
    of("jsrun", &["--smpiargs", "--stdio_mode"], "leave it out"),
];

const SRUN: &str = "srun";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args;

    #[test]
    fn equivalents_of_options_exist() {
        for option in FOREIGN {
            let name = option.here.split(' ').next().unwrap_or_default();
            let is_option = |name: &str| args::takes_value(name).is_some();
            assert!(name.strip_prefix("--").is_none_or(is_option), "{}", option.here);
            for name in option.names {
                let own = name.strip_prefix("--").and_then(args::takes_value);
                assert!(own.is_none() || *name == "--pty", "{name} is an option of its own");
            }
        }
        assert_eq!(answer("--ntasks-per-node=2").unwrap(), "that of srun is '--ppn N' here");
        assert_eq!(answer("--ranks"), None);
    }
}
