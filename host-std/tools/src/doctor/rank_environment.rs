//! Environment by which a process finds its launcher.

use pmi_host_base::system_file;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::{env, fmt, fs};

/// Environment of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RankEnvironment {
    /// Variables by which libraries find a launcher, and their values.
    pub(crate) variables: BTreeMap<String, String>,
    /// Descriptor that `PMI_FD` names.
    pub(crate) descriptor: Option<Descriptor>,
    /// Names of the ancestors of this process, the nearest first.
    pub(crate) parents: Vec<String>,
}

/// Descriptor of the launcher, as its variables name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    /// Value of `PMI_FD`.
    pub(crate) fd: String,
    /// State of the descriptor.
    pub(crate) is: DescriptorState,
}

/// State of a descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DescriptorState {
    /// An open socket.
    Socket,
    /// An open descriptor of another kind.
    Other(String),
    /// A closed descriptor.
    Closed,
}

impl RankEnvironment {
    /// Reads the environment of this process.
    pub(crate) fn of_this_process() -> Self {
        let mut environment = Self::from_variables(env::vars_os());
        environment.descriptor = environment.variables.get("PMI_FD").map(|fd| Descriptor {
            fd: fd.clone(),
            is: match fs::read_link(format!("/proc/self/fd/{fd}")) {
                Ok(link) if link.to_string_lossy().starts_with("socket:") => {
                    DescriptorState::Socket
                }
                Ok(link) => DescriptorState::Other(link.display().to_string()),
                Err(_) => DescriptorState::Closed,
            },
        });
        environment.parents = parents();
        environment
    }

    /// Selects the variables that launchers set.
    pub(crate) fn from_variables(all: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let is = |name: &str| {
            PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || NAMES.contains(&name)
        };
        let texts = all.into_iter().filter_map(|(name, value)| {
            let name = name.into_string().ok().filter(|name| is(name))?;
            Some((name, value.to_string_lossy().into_owned()))
        });
        Self { variables: texts.collect(), ..Self::default() }
    }

    /// True if PMI-1 or PMI-2 is offered.
    pub(crate) fn offers_pmi(&self) -> bool {
        ["PMI_FD", "PMI_PORT"].iter().any(|name| self.variables.contains_key(*name))
    }

    /// True if PMIx is offered.
    pub(crate) fn offers_pmix(&self) -> bool {
        self.variables.contains_key("PMIX_NAMESPACE")
            && self.variables.keys().any(|name| name.starts_with("PMIX_SERVER_URI"))
    }

    /// Rank, size and kind of the launcher, from the first known pair of variables.
    pub(crate) fn place(&self) -> Option<(u32, u32, &'static str)> {
        let number = |name: &str| self.variables.get(name)?.parse().ok();
        PLACES
            .iter()
            .find_map(|(launcher, rank, size)| Some((number(rank)?, number(size)?, *launcher)))
    }

    /// All variables, on one line.
    pub(crate) fn shown(&self) -> String {
        let shown = |(name, value): (&String, &String)| {
            let short: String =
                value.chars().filter(|c| !c.is_control()).take(VALUE_SHOWN).collect();
            let more = if value.chars().count() > VALUE_SHOWN { "…" } else { "" };
            format!("{name}={short}{more}")
        };
        // Some variables repeat others for older clients, and some only tune a library.
        let is_minor = |name: &str| MINOR.iter().any(|start| name.starts_with(start));
        let (minor, major): (Vec<_>, Vec<_>) =
            self.variables.iter().partition(|(name, _)| is_minor(name));
        let mut words: Vec<String> = major.into_iter().map(shown).collect();
        match (words.is_empty(), minor.len()) {
            (true, 0) => return "none that a launcher sets".to_owned(),
            (_, 0) => {}
            (_, more) => words.push(format!("and {more} more")),
        }
        words.join(" ")
    }
}

impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.is {
            DescriptorState::Socket => write!(f, "{} is an open socket", self.fd),
            DescriptorState::Other(what) => write!(f, "{} is {what}, which is no socket", self.fd),
            DescriptorState::Closed => write!(f, "{} is closed", self.fd),
        }
    }
}

/// Names of the ancestors of this process, as far as the system reports them.
fn parents() -> Vec<String> {
    let mut names = Vec::new();
    let mut pid = std::os::unix::process::parent_id();
    while pid > 1 && names.len() < PARENTS_SHOWN {
        let Ok(name) = system_file::read_to_string(format!("/proc/{pid}/comm")) else { break };
        names.push(name.trim().to_owned());
        // The state and the parent follow the name, which may hold any characters.
        let stat = system_file::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
        pid = parent.unwrap_or_default();
    }
    names
}

const PREFIXES: &[&str] =
    &["PMI_", "PMIX_", "HYDI_", "OMPI_COMM_WORLD_", "PRTE_", "FLUX_", "MPI_LOCAL"];

/// Slurm sets many more, which do not help to find it.
const NAMES: &[&str] =
    &["SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID", "SLURM_MPI_TYPE", "SLURM_LOCALID"];

/// Variables that are counted and not shown.
const MINOR: &[&str] = &[
    "OMPI_COMM_WORLD_LOCAL",
    "OMPI_COMM_WORLD_NODE",
    "PMIX_BFROP",
    "PMIX_DSTORE",
    "PMIX_GDS",
    "PMIX_HOSTNAME",
    "PMIX_ID",
    "PMIX_MCA_",
    "PMIX_SECURITY",
    "PMIX_SERVER_TMPDIR",
    "PMIX_SERVER_URI2",
    "PMIX_SERVER_URI3",
    "PMIX_SYSTEM",
];

/// Variables with rank and size, by launcher: specific ones first, then those that several launchers share.
const PLACES: &[(&str, &str, &str)] = &[
    ("srun", "SLURM_PROCID", "SLURM_NTASKS"),
    ("flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE"),
    ("a launcher", "PMI_RANK", "PMI_SIZE"),
    ("Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
];

/// Number of characters of a value that are shown: addresses of servers are long, and their ends carry no
/// information.
const VALUE_SHOWN: usize = 48;

/// Number of ancestors that are shown: a launcher, its local daemon, and a script at most.
const PARENTS_SHOWN: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> RankEnvironment {
        RankEnvironment::from_variables(
            pairs.iter().map(|(name, value)| (name.into(), value.into())),
        )
    }

    #[test]
    fn variables_identify_the_offer_and_its_launcher() {
        let pmi =
            environment(&[("PMI_FD", "3"), ("PMI_RANK", "1"), ("PMI_SIZE", "4"), ("HOME", "/")]);
        assert_eq!((pmi.offers_pmi(), pmi.offers_pmix()), (true, false));
        assert_eq!(pmi.place(), Some((1, 4, "a launcher")));
        assert_eq!(pmi.shown(), "PMI_FD=3 PMI_RANK=1 PMI_SIZE=4");
        let pmix = environment(&[("PMIX_NAMESPACE", "x"), ("PMIX_SERVER_URI41", "y")]);
        assert_eq!((pmix.offers_pmi(), pmix.offers_pmix(), pmix.place()), (false, true, None));
        let slurm =
            environment(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "2"), ("SLURM_JOB_NAME", "x")]);
        assert_eq!((slurm.place(), slurm.variables.len()), (Some((0, 2, "srun")), 2));
    }

    #[test]
    fn long_values_are_cut() {
        let shown = environment(&[("PMI_PORT", &"x".repeat(100))]).shown();
        assert_eq!(shown.chars().count(), "PMI_PORT=".len() + VALUE_SHOWN + 1);
    }

    #[test]
    fn starter_of_this_test_is_found() {
        assert!(!parents().is_empty());
    }
}
