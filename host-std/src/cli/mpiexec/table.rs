//! Hydra's options: their names, and their equivalents here.

use self::HydraEffect::{
    ConfigFile, Help, HostFile, Info, Only, Own, OwnIfLater, Refused, Several, Whole, WithDefaults,
};
use super::ReadContext;
use super::policies::{
    Expansion, bind_to, bound_by_map, bound_list, gpus_per_rank, map_by, membind, tiles_per_rank,
};
use super::step_gpus::TakeGpus;
use crate::cli::config::ERROR_HANDLER;
use crate::cli::options::{self, hints};
use crate::launch::topology::binding::count;
use crate::settings::placement::Unit;
use crate::stdio::pattern::Pattern;
use pmi_nodes::settings::{NodeSettings, StarterName};
use std::env::consts::ARCH;
use std::ffi::{OsStr, OsString};

/// One option of Hydra.
#[derive(Debug)]
pub(crate) struct HydraOption {
    /// Names without dashes; messages use the first.
    pub(crate) names: &'static [&'static str],
    /// Words that follow the option.
    pub(crate) words: FollowingWords,
    pub(super) effect: HydraEffect,
    /// Variable that replaces the option on the command line.
    pub(crate) variable: Option<&'static str>,
    /// Difference from the other launcher, or values; empty if there is none.
    pub(crate) note: &'static str,
}

/// Words that follow an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FollowingWords {
    /// No word.
    Nothing,
    /// One word.
    Word,
    /// A name and a value, as one word with `=` or as two.
    Pair,
    /// A value in the same word, or none.
    Optional,
}

/// Effect of an option of Hydra.
#[derive(Debug)]
pub(super) enum HydraEffect {
    /// An option of `run`, for the whole run.
    Whole(&'static str, Translation),
    /// An option of `run`, for the program behind it.
    Own(&'static str, Translation),
    /// An option of `run`, for the whole run in front of the first program, else for the program behind it.
    OwnIfLater(&'static str, Translation),
    /// Names a file with the hosts to use, likewise.
    HostFile,
    /// Names a file with words.
    ConfigFile,
    /// Several options of `run`, for the whole run.
    Several(&'static [(&'static str, Translation)]),
    /// Options of `run` that depend on the value, with their names for help: for the whole run in front of
    /// the first program, else for the program behind it where they may differ.
    Options(&'static str, Expand),
    /// The same, under Open MPI 4 for the program behind it in any position.
    OwnOptions(&'static str, Expand),
    /// The same as before, and then defaults as those of the next variant.
    WithDefaults(&'static str, Expand, Expand),
    /// The same for defaults that any other option overrides, in whatever order they are given.
    Weak(&'static str, Expand),
    /// GPUs of a step of Slurm, with the nearest option of `run`.
    StepGpus(&'static str, TakeGpus),
    /// Describes an allocation, which is that of the run anyway; without one, a message says so.
    OfAllocation,
    /// Has no effect here, which a message says with this remedy.
    WithoutEffect(&'static str),
    /// Chooses the protocol in the words of Slurm, or lists them.
    MpiType,
    /// Has a file name the programs.
    MultiProgram,
    /// Starts the programs of some ranks with a tool.
    Tool,
    /// The same with a file of tools.
    ToolFile,
    /// Names a file with the place of each rank.
    RankFile,
    /// Starts some ranks in terminals of a window system.
    Terminals,
    /// Names the launcher whose meaning counts where launchers differ.
    Personality,
    /// Numbers ranks by their processors.
    RankBy,
    /// One rank for each hardware thread, where the number of ranks is missing.
    HwThreads,
    /// Prints the job, and starts nothing.
    Preview,
    /// Accepts these values, which are the only behaviour here; the message refuses all others.
    Only(&'static [&'static str], &'static str),
    /// Prints version and abilities.
    Info,
    /// Prints the help.
    Help,
    /// Has no equivalent here; the message gives the reason.
    Refused(&'static str),
}

/// Options of `run` for a value.
pub(super) type Expand = fn(&OsStr, &ReadContext<'_>) -> Expansion;

/// Translates a value of Hydra into one of `run`.
pub(super) type Translation = fn(&OsStr) -> Result<OsString, String>;

/// Hydra's options, in the order of its help text.
pub(crate) const OPTIONS: &[HydraOption] = &[
    flag(&["help", "h"], Help),
    pair(&["genv"], Whole("env", same)),
    word(&["genvlist"], Whole("inherit", same)),
    flag(&["genvnone"], Whole("inherit", |_| Ok("none".into()))),
    flag(&["genvall"], Whole("inherit", |_| Ok("all".into()))),
    word(&["f", "machinefile", "hostfile"], HostFile).or("HYDRA_HOST_FILE"),
    word(
        &["hosts", "host", "hostlist", "machine", "machines", "machinelist", "H"],
        OwnIfLater("hosts", same),
    ),
    word(&["rankmap"], Whole("rankmap", same)),
    word(&["ppn", "perhost", "npernode", "N"], Whole("ppn", per_host)),
    flag(&["oversubscribe"], Whole("oversubscribe", yes)),
    flag(&["nooversubscribe"], Whole("oversubscribe", |_| Ok("false".into()))),
    flag(&["l", "prepend-rank"], Whole("label", yes)),
    word(&["prepend-pattern"], Whole("label-format", pattern)),
    word(&["outfile-pattern", "outfile"], Whole("stdout-to", pattern)),
    word(&["errfile-pattern", "errfile"], Whole("stderr-to", pattern)),
    word(&["wdir"], Own("wdir", same)),
    word(&["configfile"], ConfigFile).or("HYDRA_CONFIG_FILE"),
    pair(&["env"], Own("env", same)),
    word(&["envlist"], Own("inherit", same)),
    flag(&["envnone"], Own("inherit", |_| Ok("none".into()))),
    flag(&["envall"], Own("inherit", |_| Ok("all".into()))),
    word(&["n", "np"], Own("ranks", same)),
    word(&["soft"], Own("soft", same)),
    word(
        &["arch"],
        Only(
            &[ARCH],
            "this host has another kind of processor, and hosts of several kinds are refused; leave it out",
        ),
    ),
    word(
        &["file"],
        Refused(
            "the standard does not define its contents; '-configfile FILE' names programs, and \
             '-hostfile FILE' hosts",
        ),
    ),
    word(&["initial-errhandler"], HydraEffect::Options("--env", initial_error_handler)),
    word(&["memory-alloc-kinds"], Several(MEMORY_KINDS)),
    word(&["launcher", "bootstrap"], Whole("starter", starter)),
    word(&["launcher-exec", "bootstrap-exec"], Whole("starter-exec", same)),
    word(&["launcher-exec-args", "bootstrap-exec-args"], Whole("starter-args", same)),
    word(&["branch-count"], Whole("tree-radix", branches)).or("I_MPI_HYDRA_BRANCH_COUNT"),
    flag(
        &["enable-x"],
        Refused(
            "node servers do not forward X11, and ranks of this node reach its DISPLAY anyway; for others, \
             try --starter-cmd 'ssh -Y {host} -- {cmd}'",
        ),
    ),
    flag(&["disable-x"], Only(&[""], "")),
    word(&["rmk"], Whole("allocation", batch_system)).or("HYDRA_RMK"),
    word(
        &["topolib"],
        Only(&["hwloc"], "the topology is read from the system itself; leave it out"),
    )
    .or("HYDRA_TOPOLIB"),
    word(&["bind-to", "binding"], WithDefaults("--bind-to", bind_to, bound_list))
        .or("HYDRA_BINDING"),
    word(&["map-by"], WithDefaults("--map-by", map_by, bound_by_map)).or("HYDRA_MAPPING"),
    word(&["membind"], HydraEffect::Options("--mem-bind", membind)).or("HYDRA_MEMBIND"),
    word(&["demux"], Only(&["poll", "select"], "there is no such engine; leave it out")),
    flag(&["verbose", "v", "debug"], Several(VERBOSE)).or("HYDRA_DEBUG"),
    flag(&["info", "version"], Info),
    flag(&["print-all-exitcodes"], Whole("print-all-exitcodes", yes)),
    word(&["iface"], Several(&[("env", interface), ("node-interface", same)])).or("HYDRA_IFACE"),
    flag(
        &["profile"],
        Refused("'--trace FILE' records every message with its time, and '--result FILE' sums up"),
    ),
    word(&["nameserver"], Whole("name-server", same)),
    flag(&["disable-auto-cleanup"], Whole("on-exit-error", |_| Ok("ignore".into()))),
    flag(&["enable-auto-cleanup"], Whole("on-exit-error", |_| Ok("kill".into()))),
    flag(&["disable-hostname-propagation"], Only(&[""], "")),
    flag(
        &["enable-hostname-propagation"],
        Refused("ranks find the name of their host in PMI_HOSTNAME; leave it out"),
    ),
    word(&["order-nodes"], Refused("write the hosts in the wanted order, which is kept")),
    word(&["localhost"], Refused("this node has the name that 'uname -n' prints; leave it out")),
    word(&["usize"], Whole("universe", universe)),
    flag(&["pmi-port"], Whole("pmi-port", yes)),
    flag(&["skip-launch-node"], Whole("local", |_| Ok("false".into()))),
    word(&["gpus-per-proc", "g"], HydraEffect::Options("--gpus-per-rank", gpus_per_rank)),
    word(&["gpu-subdevs-per-proc"], HydraEffect::Options("--gpus-per-rank", tiles_per_rank)),
    flag(&["hybrid-hosts"], Only(&[""], "")),
    word(
        &["output-from"],
        Refused("'-outfile-pattern out.%r' writes a file for each rank instead"),
    ),
    word(&["timeout"], Whole("timeout", same)).or("MPIEXEC_TIMEOUT"),
];

/// Kinds of memory that a program allocates through MPI: MPICH's library requests a key, and Open MPI's has a
/// variable.
const MEMORY_KINDS: &[(&str, Translation)] = &[
    ("attribute", |kinds| Ok(assigned("PMI_mpi_memory_alloc_kinds", kinds))),
    ("env", |kinds| Ok(assigned("OMPI_MCA_mpi_memory_alloc_kinds", kinds))),
];

/// Variables of Intel MPI that repeat options above; those of Hydra override them.
pub(super) const VARIABLES: &[(&str, &str)] = &[
    ("I_MPI_HYDRA_HOST_FILE", "f"),
    ("I_MPI_HYDRA_IFACE", "iface"),
    ("I_MPI_PERHOST", "ppn"),
    ("I_MPI_HYDRA_RMK", "rmk"),
    ("I_MPI_HYDRA_DEBUG", "verbose"),
    ("I_MPI_JOB_TIMEOUT", "timeout"),
];

/// Options that print more about the run.
const VERBOSE: &[(&str, Translation)] = &[
    ("env-report", yes),
    ("display", |_| Ok("map".into())),
    ("show-messages", yes),
    ("print-all-exitcodes", yes),
];

/// Adds the hints for the values of `option` to its argument.
pub(super) fn hinted(option: &HydraOption, arg: clap::Arg) -> clap::Arg {
    let own = VALUES.iter().find(|(name, _)| option.names.contains(name));
    if let Some((_, values)) = own {
        return hints::with_values(arg, values);
    }
    let like = match &option.effect {
        Whole(ours, _) | Own(ours, _) | OwnIfLater(ours, _) => options::named(ours),
        HostFile | ConfigFile | HydraEffect::RankFile | HydraEffect::ToolFile => {
            return hints::with_files(arg);
        }
        _ => options::named(option.names[0]),
    };
    like.map_or(arg.clone(), |like| hints::of_option(like, arg))
}

/// Values that differ from those of the option here.
const VALUES: &[(&str, &[&str])] = &[
    ("personality", &["ompi", "hydra"]),
    ("output", &["tag", "timestamp", "merge", "dir=", "file="]),
    ("rank-by", &["slot", "fill", "core", "hwthread"]),
    ("with-ft", &["ulfm", "no"]),
    ("launcher", &["ssh", "rsh", "slurm", "fork", "manual"]),
    ("mpi", &["pmi2", "pmix", "none"]),
    ("distribution", &["block", "cyclic"]),
    ("export", &["ALL", "NONE"]),
    ("hint", &["nomultithread", "multithread", "compute_bound", "memory_bound"]),
];

pub(super) const fn flag(names: &'static [&'static str], effect: HydraEffect) -> HydraOption {
    HydraOption { names, words: FollowingWords::Nothing, effect, variable: None, note: "" }
}

pub(super) const fn word(names: &'static [&'static str], effect: HydraEffect) -> HydraOption {
    HydraOption { names, words: FollowingWords::Word, effect, variable: None, note: "" }
}

pub(super) const fn pair(names: &'static [&'static str], effect: HydraEffect) -> HydraOption {
    HydraOption { names, words: FollowingWords::Pair, effect, variable: None, note: "" }
}

pub(super) const fn optional(names: &'static [&'static str], effect: HydraEffect) -> HydraOption {
    HydraOption { names, words: FollowingWords::Optional, effect, variable: None, note: "" }
}

impl HydraOption {
    /// Equivalent of the option, for help.
    pub(crate) fn meaning(&self) -> String {
        match &self.effect {
            Whole(ours, reword) => self.equivalent(ours, *reword),
            Own(ours, reword) => {
                format!("{}, for the program that follows", self.equivalent(ours, *reword))
            }
            OwnIfLater(ours, _) => {
                format!("--{ours}; behind a colon for the program that follows")
            }
            HostFile => "--hostfile; behind a colon for the program that follows".to_owned(),
            ConfigFile => {
                "reads further arguments from a file, with a line for each program".to_owned()
            }
            Several(all) => {
                let all: Vec<String> =
                    all.iter().map(|(ours, reword)| self.equivalent(ours, *reword)).collect();
                all.join(" ")
            }
            WithDefaults(ours, ..)
            | HydraEffect::OwnOptions(ours, _)
            | HydraEffect::Options(ours, _)
            | HydraEffect::StepGpus(ours, _)
            | HydraEffect::Weak(ours, _) => (*ours).to_owned(),
            HydraEffect::OfAllocation => "describes the allocation, which exists".to_owned(),
            HydraEffect::WithoutEffect("") => "no effect".to_owned(),
            HydraEffect::WithoutEffect(remedy) => format!("no effect: {remedy}"),
            HydraEffect::MpiType => "--pmi".to_owned(),
            HydraEffect::MultiProgram => "programs by rank, from a file".to_owned(),
            HydraEffect::Tool => "a tool in front of the program of some ranks".to_owned(),
            HydraEffect::ToolFile => "the same from a file".to_owned(),
            HydraEffect::Terminals => "xterm in front of the program of some ranks".to_owned(),
            HydraEffect::RankFile => "--hosts --rankmap --bind-to user:LIST".to_owned(),
            HydraEffect::Personality => "the launcher whose meaning counts".to_owned(),
            HydraEffect::RankBy => "the default".to_owned(),
            HydraEffect::HwThreads => "-n".to_owned(),
            HydraEffect::Preview => "--dry-run".to_owned(),
            Only(values, _) if values == &[""] => "the default".to_owned(),
            Only(values, why) => {
                format!("{}: the default; otherwise {why}", values.join(", "))
            }
            Info => "prints the version and what this launcher supports".to_owned(),
            Help => "prints this text".to_owned(),
            Refused(why) => format!("refused: {why}"),
        }
    }

    /// An option of `run`, with its value if that is always the same.
    fn equivalent(&self, ours: &str, reword: Translation) -> String {
        let value = reword(OsStr::new("")).unwrap_or_default();
        match value.to_str() {
            Some("true") => format!("--{ours}"),
            Some("false") => format!("--no-{ours}"),
            Some(value) if !value.is_empty() && self.words == FollowingWords::Nothing => {
                format!("--{ours} {value}")
            }
            _ => format!("--{ours}"),
        }
    }

    pub(super) const fn or(mut self, variable: &'static str) -> Self {
        self.variable = Some(variable);
        self
    }

    pub(super) const fn note(mut self, note: &'static str) -> Self {
        self.note = note;
        self
    }
}

pub(super) fn same(value: &OsStr) -> Result<OsString, String> {
    Ok(value.to_owned())
}

pub(super) fn yes(_: &OsStr) -> Result<OsString, String> {
    Ok("true".into())
}

/// Translates a pattern; the letters have the same meaning here.
fn pattern(value: &OsStr) -> Result<OsString, String> {
    let text = value.to_str().ok_or("that is not text")?;
    Pattern::parse(text).map_err(|error| error.to_string())?;
    Ok(text.into())
}

/// Translates a number of ranks for each host. Intel MPI's `all` and `allcores` are the processors and the
/// cores of a host; all hosts are taken to be like this one.
fn per_host(value: &OsStr) -> Result<OsString, String> {
    let unit = match value.to_str() {
        Some("all") => Unit::HwThread,
        Some("allcores") => Unit::Core,
        _ => return Ok(value.to_owned()),
    };
    Ok(count(unit)?.to_string().into())
}

/// Translates a number of branches; Intel MPI's -1 is the default.
fn branches(value: &OsStr) -> Result<OsString, String> {
    let default = || NodeSettings::default().radix.to_string().into();
    Ok(if value == "-1" { default() } else { value.to_owned() })
}

/// Translates a size of the universe.
fn universe(value: &OsStr) -> Result<OsString, String> {
    Ok(match value.to_str() {
        Some("SYSTEM") => "hosts".into(),
        Some("INFINITE") => "endless".into(),
        _ => value.to_owned(),
    })
}

/// Translates a launcher.
fn starter(value: &OsStr) -> Result<OsString, String> {
    let name = value.to_string_lossy();
    match StarterName::of_hydra(&name) {
        Some(StarterName::Row(ours)) => Ok(ours.into()),
        Some(StarterName::Here) => Ok("local".into()),
        Some(_) => Ok(value.to_owned()),
        None => Err(
            "that launcher is not supported; 'ssh' is, and '--starter-cmd' starts node servers by \
                     any other command"
                .to_owned(),
        ),
    }
}

/// Translates a batch system. There is one at a time, and the environment names it.
fn batch_system(value: &OsStr) -> Result<OsString, String> {
    match value.to_str() {
        Some("user") => Ok("false".into()),
        Some("slurm" | "lsf" | "sge" | "pbs" | "cobalt") => Ok("true".into()),
        _ => Err("that batch system is not supported; leave it out".to_owned()),
    }
}

/// Translates an interface: MPICH's TCP module reads its name from this variable.
fn interface(value: &OsStr) -> Result<OsString, String> {
    Ok(assigned("MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE", value))
}

/// Translates an initial error handler, which Open MPI reads from a variable.
fn initial_error_handler(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    match value.to_str() {
        Some("mpi_errors_abort" | "mpi_errors_are_fatal" | "mpi_errors_return") => {
            Ok(vec![("env", assigned(ERROR_HANDLER, value))])
        }
        _ => Err("the standard has mpi_errors_abort, mpi_errors_are_fatal and mpi_errors_return; name one of \
             these"
            .to_owned()),
    }
}

fn assigned(name: &str, value: &OsStr) -> OsString {
    let mut assignment = OsString::from(name);
    assignment.push("=");
    assignment.push(value);
    assignment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_options_of_hydra_have_rows() {
        let page = include_str!("../../../../docs/switching.md");
        let rows: Vec<Vec<&str>> = page
            .lines()
            .filter(|line| line.starts_with("| "))
            .map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect())
            .collect();
        for option in OPTIONS {
            for name in option.names.iter().map(|name| format!("`-{name}")) {
                let has = |cell: &str| {
                    cell.match_indices(&name)
                        .any(|(at, _)| cell[at + name.len()..].starts_with([' ', '`']))
                };
                assert!(
                    rows.iter().any(|row| has(row[0])),
                    "docs/switching.md has no row for {name}`"
                );
            }
            if let Some(variable) = option.variable {
                assert!(rows.iter().any(|row| row[0].contains(variable)), "no row for {variable}");
            }
        }
    }
}
