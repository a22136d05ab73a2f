//! Sections of man pages that follow from no option: exit status, signals, environment, files and examples.

use super::FACES;
use clap_mangen::roff::{Roff, bold, roman};

/// A section as pairs of a term and its explanation.
type Section = (&'static str, &'static [(&'static str, &'static str)]);

/// The sections of the page with this title, behind those that clap writes.
pub(super) fn sections(title: &str) -> String {
    let is_launcher = title == "pmi-host-run" || FACES.contains(&title);
    let mut page = Roff::new();
    let common: &[Section] = if is_launcher { LAUNCHER } else { TOOL };
    for (heading, rows) in common {
        add(&mut page, heading, rows);
    }
    if let Some((_, rows)) = EXAMPLES.iter().find(|(of, _)| *of == example_of(title)) {
        add(&mut page, "EXAMPLES", rows);
    }
    let others = SEE_ALSO.iter().filter(|page| **page != title).map(|page| format!("{page}(1)"));
    page.control("SH", ["SEE ALSO"]);
    page.text([roman(others.collect::<Vec<_>>().join(", "))]);
    page.to_roff()
}

fn add(page: &mut Roff, heading: &str, rows: &[(&str, &str)]) {
    page.control("SH", [heading]);
    for (term, text) in rows {
        page.control("TP", []);
        page.text([bold(*term)]);
        page.text([roman(*text)]);
    }
}

/// All names of Hydra's command line share their examples.
fn example_of(title: &str) -> &str {
    if FACES.contains(&title) { "mpiexec" } else { title }
}

const LAUNCHER: &[Section] = &[
    (
        "EXIT STATUS",
        &[
            ("0", "every rank has exited with 0, and those that initialized have finalized"),
            ("C", "a rank has exited with C or aborted with C, before any other failure"),
            (
                "128 + S",
                "the signal S has terminated a rank or this program, before any other failure",
            ),
            ("1", "a rank has left without finalizing, a node is lost, or this program has failed"),
            ("2", "the command line is invalid"),
            ("124", "a time limit has passed"),
            ("126, 127", "a program cannot run, or does not exist"),
        ],
    ),
    (
        "SIGNALS",
        &[
            (
                "SIGINT, SIGTERM, SIGHUP, SIGQUIT",
                "are forwarded to the ranks and end the run; two within 2 s kill all ranks",
            ),
            ("SIGTSTP, SIGCONT", "stop and continue the ranks, then this program"),
            (
                "SIGUSR1",
                "prints a table of all ranks, unless it is forwarded, as by mpiexec, mpirun, prterun \
                 and srun",
            ),
            ("SIGPWR", "prints it under every name"),
            (
                "SIGUSR2",
                "is forwarded to the ranks, or becomes a checkpoint notice for those that listen",
            ),
        ],
    ),
    (
        "ENVIRONMENT",
        &[
            (
                "PMI_HOST_NAME",
                "sets the option --NAME, in capitals and with _ for -, unless the command line does; \
                 PMI_HOST_CONFIG names the settings file",
            ),
            ("MPIEXEC_TIMEOUT", "time limit of a run in seconds"),
            (
                "HYDRA_*, I_MPI_*",
                "are read as by the launchers of MPICH and Intel MPI, where the program is called mpiexec",
            ),
            (
                "SLURM_*, PBS_*, LSB_*, PE_HOSTFILE, FLUX_*, COBALT_*, OAR_*",
                "describe the allocation whose hosts and slots are used",
            ),
            (
                "XDG_RUNTIME_DIR",
                "directory of the socket for pmi-host ps, and of the list of bound runs",
            ),
        ],
    ),
    (
        "FILES",
        &[
            (
                "$XDG_CONFIG_HOME/pmi-host/config.toml",
                "settings of the user, in ~/.config by default",
            ),
            (
                "/etc/pmi-host/config.toml",
                "settings of the administrator, with defaults and maxima",
            ),
            (
                "$XDG_RUNTIME_DIR/pmi-host, /tmp/pmi-host-UID",
                "sockets of running launchers, and the list of the processors that bound runs have",
            ),
            (
                "$TMPDIR/pmi-host-PID-TIME.ranks",
                "temporary files of ranks that speak PMIx, during the run",
            ),
        ],
    ),
];

const TOOL: &[Section] = &[(
    "EXIT STATUS",
    &[
        ("0", "success"),
        ("1", "the command has failed, or has found a defect"),
        ("2", "the command line is invalid"),
    ],
)];

const EXAMPLES: &[Section] = &[
    (
        "pmi-host",
        &[
            ("pmi-host run -n 4", "the built-in demo, which needs no MPI"),
            ("pmi-host help run", "the options of a command"),
        ],
    ),
    (
        "pmi-host-run",
        &[
            ("pmi-host run -n 4 ./hello", "four ranks on this machine"),
            ("pmi-host run --hosts n1:8,n2:8 ./hello", "sixteen ranks on two hosts, over ssh"),
            ("pmi-host run -n 4 --timeout 10m --stall-abort 60 ./a.out", "a run that cannot hang"),
            ("pmi-host run -n 1 ./master : -n 3 ./worker", "two programs in one job"),
        ],
    ),
    (
        "mpiexec",
        &[
            ("mpiexec -n 4 ./hello", "four ranks on this machine"),
            ("mpiexec -f hosts -ppn 2 ./hello", "two ranks on each host of a file"),
            ("mpiexec -l -n 2 ./hello", "the rank in front of each line of output"),
        ],
    ),
    (
        "pmi-host-ps",
        &[
            ("pmi-host ps", "the runs of this user, and which ranks wait for which"),
            ("pmi-host ps --json 4711", "the run of the launcher with process 4711, for programs"),
        ],
    ),
    (
        "pmi-host-stack",
        &[
            ("pmi-host stack", "the calls of all ranks of this user on this host, equal ones once"),
            (
                "pmi-host stack --threads 4711",
                "all threads of the run of the launcher with process 4711",
            ),
        ],
    ),
    (
        "pmi-host-pmix",
        &[
            ("pmi-host pmix ps", "processes of all jobs of the only run of this user on this host"),
            (
                "pmi-host pmix query --job kvs_n1_4711_5f3a9c01_0 pmix.job.size",
                "the number of processes of one job",
            ),
            ("pmi-host pmix ctrl --job kvs_n1_4711_5f3a9c01_0 terminate", "ends it"),
        ],
    ),
    (
        "pmi-host-trace",
        &[
            ("pmi-host run -n 4 --trace run.trace ./hello", "records all messages of a run"),
            ("pmi-host trace show run.trace", "prints them"),
        ],
    ),
    (
        "pmi-host-doctor",
        &[
            (
                "pmi-host doctor --hosts n1,n2 ./hello",
                "checks hosts, program and libraries before a run",
            ),
            (
                "mpiexec.hydra -n 2 pmi-host doctor ./hello",
                "finds out why ranks do not find each other",
            ),
        ],
    ),
    (
        "pmi-host-install",
        &[
            ("pmi-host install --prefix /opt/pmi-host", "with the links mpiexec and mpirun"),
            ("pmi-host install --prefix /usr --destdir pkg --links none", "files of a package"),
        ],
    ),
    (
        "pmi-host-uninstall",
        &[("pmi-host uninstall --prefix /opt/pmi-host", "removes what was installed there")],
    ),
    (
        "pmi-host-completions",
        &[("source <(pmi-host completions bash mpiexec)", "completions for one of the names")],
    ),
];

const SEE_ALSO: &[&str] =
    &["pmi-host", "pmi-host-run", "pmi-host-ps", "pmi-host-stack", "pmi-host-doctor", "mpiexec"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::pages::manual_pages;

    #[test]
    fn pages_of_launchers_state_what_options_do_not() {
        for (title, page) in manual_pages() {
            let headings = ["EXIT STATUS", "SEE ALSO"].iter();
            let is_launcher = title == "pmi-host-run" || FACES.contains(&title.as_str());
            let further = ["SIGNALS", "ENVIRONMENT", "FILES", "EXAMPLES"].iter();
            for heading in headings.chain(further.filter(|_| is_launcher)) {
                assert!(
                    page.contains(&format!(".SH \"{heading}\""))
                        || page.contains(&format!(".SH {heading}")),
                    "{title}: {heading}"
                );
            }
        }
    }

    #[test]
    fn examples_belong_to_pages() {
        let titles: Vec<String> = manual_pages().into_iter().map(|(title, _)| title).collect();
        for (of, _) in EXAMPLES {
            assert!(titles.iter().any(|title| title == of), "{of}");
        }
    }
}
