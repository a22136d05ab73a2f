//! Options of Intel MPI and of HPE's PALS that neither Hydra nor Open MPI has.

use super::policies::{cpu_bind, depth};
use super::slurm_values::processors;
use super::table::HydraEffect::{
    Only, Options, Refused, Several, Tool, ToolFile, Whole, WithoutEffect,
};
use super::table::{HydraOption, flag, same, word, yes};
use crate::cli::options::numbers;

/// Intel's options, then those of PALS.
pub(crate) const OPTIONS: &[HydraOption] = &[
    flag(&["localonly"], Several(&[("hosts", |_| Ok("localhost".into()))]))
        .note("hosts of a batch system are not used"),
    flag(&["print-rank-map"], Whole("display", |_| Ok("map".into()))),
    flag(&["ordered-output"], Only(&[""], "")).note("lines of ranks are never mixed"),
    word(&["s"], Whole("stdin", same)).note("of Intel MPI; Open MPI's `-s` is `--preload-binary`"),
    word(&["gtool"], Tool)
        .or("I_MPI_GTOOL")
        .note("`TOOL ARGUMENTS:RANKS;…`; these ranks are a program of their own (`MPI_APPNUM`)"),
    word(&["gtoolfile"], ToolFile).note("a line for each value of `-gtool`"),
    flag(
        &["check_mpi", "check-mpi"],
        Refused("libraries are not exchanged; link the program with them"),
    ),
    flag(&["gdb"], Whole("gdb", |_| Ok("all".into()))).note("a gdb for each rank"),
    word(
        &["gdba"],
        Refused("'pmi-host ps' lists the processes of a run, and 'gdb -p PID' attaches to one"),
    ),
    flag(&["prepend-timestamp"], Whole("timestamps", yes)).note("seconds since the start"),
    flag(&["rr"], Whole("ppn", |_| Ok("1".into()))),
    word(&["grr"], Whole("ppn", same)),
    flag(&["cleanup"], Only(&[""], ""))
        .note("the launcher always ends what its ranks have started"),
    flag(&["ilp64"], Refused("libraries are not exchanged; link the program with them")),
    word(&["umask"], Whole("umask", same)),
    flag(&["noconf"], Refused("files of Intel MPI are not read; leave it out")),
    word(&["cpu-bind"], Options("--bind-to", cpu_bind)).note(
        "of PALS: `none`, `core`, `numa`, `depth`, `thread`, `list:0:1`; `verbose,` shows the map",
    ),
    word(&["d", "depth"], Whole("bind-to", depth))
        .note("of PALS: hardware threads of a rank; Open MPI's `-d` is `--debug-devel`"),
    flag(&["line-buffer", "no-transfer", "abort-on-failure"], Only(&[""], "")).note("of PALS"),
    flag(&["no-abort-on-failure"], Whole("on-exit-error", |_| Ok("ignore".into()))).note("of PALS"),
    flag(&["transfer"], Whole("stage", yes)).note("of PALS: the program is removed after the run"),
    flag(&["no-vni"], Only(&[""], "")).note("of PALS: the network is that of the system"),
    flag(&["vni", "single-node-vni"], WithoutEffect("the network is that of the system"))
        .note("of PALS"),
    word(&["exclude-hosts"], Whole("exclude-hosts", same)),
    word(&["mem-bind"], Refused("memory is taken where it is touched first; try 'numactl'")),
    word(&["gpu-bind"], Refused("devices are not assigned; set CUDA_VISIBLE_DEVICES with '-env'")),
];

/// Binding that variables of Intel MPI ask its launcher for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pinning {
    /// None of them is set.
    Default,
    /// This value of `--bind-to`.
    To(String),
    /// This variable has a value without an equivalent.
    Unknown(&'static str),
}

/// Reads the variables; `value` gives one that is set.
///
/// Spec: Intel MPI Library Developer Reference, Process Pinning.
pub(super) fn pinning(value: impl Fn(&str) -> Option<String>) -> Pinning {
    let is_off =
        |text: String| ["0", "no", "off", "disable"].contains(&&*text.to_ascii_lowercase());
    if value("I_MPI_PIN").is_some_and(is_off) {
        return Pinning::To("none".to_owned());
    }
    if let Some(list) = value(PROCESSORS) {
        return match &*list.to_ascii_lowercase() {
            "all" => Pinning::To("hwthread".to_owned()),
            "allcores" => Pinning::To("core".to_owned()),
            list => match list.split(',').map(numbers).collect::<Option<Vec<_>>>() {
                // In the order of the list.
                Some(pieces) => {
                    let list: Vec<String> =
                        pieces.iter().flatten().map(ToString::to_string).collect();
                    Pinning::To(format!("user:{}", list.join(",")))
                }
                None => Pinning::Unknown(PROCESSORS),
            },
        };
    }
    let Some(domain) = value(DOMAIN) else { return Pinning::Default };
    let threads = |count: &str| match count.parse::<u32>() {
        Ok(1..) => Pinning::To(format!("hwthread:{count}")),
        _ => Pinning::Unknown(DOMAIN),
    };
    if let Some(masks) = domain.strip_prefix('[').and_then(|masks| masks.strip_suffix(']')) {
        let masks = masks.split(',').map(processors).collect::<Option<Vec<String>>>();
        return masks.map_or(Pinning::Unknown(DOMAIN), |masks| {
            Pinning::To(format!("user:{}", masks.join(",")))
        });
    }
    match domain.to_ascii_lowercase().split(':').next().unwrap_or_default() {
        "auto" => Pinning::Default,
        "omp" => value("OMP_NUM_THREADS").map_or(Pinning::Default, |count| threads(&count)),
        "node" => Pinning::To("machine".to_owned()),
        "sock" | "socket" => Pinning::To("socket".to_owned()),
        name @ ("core" | "numa") => Pinning::To(name.to_owned()),
        "cache1" => Pinning::To("l1cache".to_owned()),
        "cache2" => Pinning::To("l2cache".to_owned()),
        "cache" | "cache3" => Pinning::To("l3cache".to_owned()),
        count => threads(count),
    }
}

const PROCESSORS: &str = "I_MPI_PIN_PROCESSOR_LIST";
const DOMAIN: &str = "I_MPI_PIN_DOMAIN";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_intel_mpi_choose_a_binding() {
        let to = |value: &str| Pinning::To(value.to_owned());
        for (variables, expected) in [
            (&[][..], Pinning::Default),
            (&[("I_MPI_PIN", "off"), (DOMAIN, "core")], to("none")),
            (&[("I_MPI_PIN", "1")], Pinning::Default),
            (&[(DOMAIN, "auto:compact")], Pinning::Default),
            (&[(DOMAIN, "omp")], Pinning::Default),
            (&[(DOMAIN, "omp"), ("OMP_NUM_THREADS", "2")], to("hwthread:2")),
            (&[(DOMAIN, "socket")], to("socket")),
            (&[(DOMAIN, "4:compact")], to("hwthread:4")),
            (&[(DOMAIN, "[3,c]")], to("user:0+1,2+3")),
            (&[(DOMAIN, "platform")], Pinning::Unknown(DOMAIN)),
            (&[(PROCESSORS, "3,0-1"), (DOMAIN, "core")], to("user:3,0,1")),
            (&[(PROCESSORS, "allcores")], to("core")),
            (&[(PROCESSORS, "allcores:map=scatter")], Pinning::Unknown(PROCESSORS)),
        ] {
            let value = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(pinning(value), expected, "{variables:?}");
        }
    }
}
