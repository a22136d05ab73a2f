//! Options of Intel MPI and of HPE's PALS that neither Hydra nor Open MPI has.

use super::policies::{bound_by_depth, cpu_bind, depth, gpu_bind, mem_bind};
use super::slurm_values::processors;
use super::table::HydraEffect::{
    Only, Options, Refused, Several, Tool, ToolFile, Weak, Whole, WithDefaults, WithoutEffect,
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
    word(&["cpu-bind"], WithDefaults("--bind-to", cpu_bind, bound_by_depth)).note(
        "of PALS: `none`, `core`, `numa`, `depth`, which is `-d`, `thread`, `list:0:1`; `verbose,` shows the \
         map",
    ),
    word(&["d", "depth"], Weak("--bind-to hwthread:N", depth)).note(
        "of PALS: hardware threads of a rank, unless `--cpu-bind` says otherwise; Open MPI's `-d` is \
         `--debug-devel`",
    ),
    flag(&["line-buffer", "no-transfer", "abort-on-failure"], Only(&[""], "")).note("of PALS"),
    flag(&["no-abort-on-failure"], Whole("on-exit-error", |_| Ok("ignore".into()))).note("of PALS"),
    flag(&["transfer"], Whole("stage", yes)).note("of PALS: the program is removed after the run"),
    flag(&["no-vni"], Only(&[""], "")).note("of PALS: the network is that of the system"),
    flag(&["vni", "single-node-vni"], WithoutEffect("the network is that of the system"))
        .note("of PALS"),
    word(&["exclude-hosts"], Whole("exclude-hosts", same)),
    word(&["mem-bind"], Options("--mem-bind", mem_bind))
        .note("of PALS: `none`, `local`, `list:0:1`, whose colon separates ranks; others as of `run`"),
    word(&["gpu-bind"], Options("--gpu-bind", gpu_bind))
        .note("of PALS: `none`, `closest`, `list:0:1,2`, whose colon separates ranks; others as of `run`"),
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

/// Options for the GPUs that variables of Intel MPI ask its launcher for.
///
/// # Errors
///
/// The name of a variable whose value has no equivalent.
///
/// Spec: Intel MPI Library Developer Reference, GPU Pinning.
pub(super) fn offload(
    value: impl Fn(&str) -> Option<String>,
) -> Result<Vec<(&'static str, String)>, &'static str> {
    let is_on = |name| value(name).map(|text| !["", "0", "no", "off", "disable"].contains(&&*text));
    let is_pinned = is_on("I_MPI_OFFLOAD_PIN").or_else(|| is_on("I_MPI_OFFLOAD")).unwrap_or(false);
    let is_read = value("I_MPI_OFFLOAD_TOPOLIB").is_none_or(|library| library != "none");
    // The user's own list switches the pinning off.
    if !is_pinned || !is_read || value("ZE_AFFINITY_MASK").is_some() {
        return Ok(Vec::new());
    }
    let unit = match value(CELL).as_deref() {
        None | Some("tile") => "part",
        Some("device") => "device",
        Some(_) => return Err(CELL),
    };
    let size = match value(SIZE).as_deref() {
        None | Some("-1") => None,
        Some(size) => Some(size.parse::<usize>().ok().filter(|size| *size > 0).ok_or(SIZE)?),
    };
    let cells = |name| value(name).map(|list| in_order(&list).ok_or(name)).transpose();
    let listed = cells(CELLS)?.or(cells(OLD_CELLS)?);
    let devices = value(DEVICES).filter(|list| list != "all");
    let devices = devices.map(|list| in_order(&list).ok_or(DEVICES)).transpose()?;
    let masks = value(MASKS).map(|masks| {
        let masks = masks.strip_prefix('[').and_then(|masks| masks.strip_suffix(']'));
        let sets = masks.map(|masks| masks.split(',').map(processors).collect::<Option<Vec<_>>>());
        sets.flatten().ok_or(MASKS)
    });
    let masks = masks.transpose()?;
    let sets = match (masks, listed, devices) {
        (Some(masks), ..) => Some(masks),
        (None, Some(cells), _) => Some(in_sets(&cells, size)),
        (None, None, Some(devices)) if unit == "device" => Some(in_sets(&devices, size)),
        // How many tiles these have is not known here.
        (None, None, Some(_)) => return Err(DEVICES),
        (None, None, None) => None,
    };
    let mut found = vec![("gpu-unit", unit.to_owned())];
    match sets {
        Some(sets) => found.extend([
            ("gpu-bind", format!("list:{}", sets.join(","))),
            ("gpu-share", u32::MAX.to_string()),
        ]),
        None => {
            found.push(("gpu-bind", "as:intel".to_owned()));
            found.extend(size.map(|size| ("gpus-per-rank", size.to_string())));
        }
    }
    Ok(found)
}

/// Numbers in their order, as often as they are written: `0,0,2-3`.
fn in_order(list: &str) -> Option<Vec<u32>> {
    let pieces = list.split(',').map(numbers).collect::<Option<Vec<_>>>()?;
    Some(pieces.into_iter().flatten().collect())
}

/// Sets of so many numbers, each as `0+1`.
fn in_sets(numbers: &[u32], size: Option<usize>) -> Vec<String> {
    let set = |set: &[u32]| set.iter().map(ToString::to_string).collect::<Vec<_>>().join("+");
    numbers.chunks(size.unwrap_or(1)).map(set).collect()
}

const CELL: &str = "I_MPI_OFFLOAD_CELL";
const CELLS: &str = "I_MPI_OFFLOAD_CELL_LIST";
const OLD_CELLS: &str = "I_MPI_OFFLOAD_DEVICE_LIST";
const DEVICES: &str = "I_MPI_OFFLOAD_DEVICES";
const MASKS: &str = "I_MPI_OFFLOAD_DOMAIN";
const SIZE: &str = "I_MPI_OFFLOAD_DOMAIN_SIZE";
const PROCESSORS: &str = "I_MPI_PIN_PROCESSOR_LIST";
const DOMAIN: &str = "I_MPI_PIN_DOMAIN";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_intel_mpi_choose_gpus() {
        let on = ("I_MPI_OFFLOAD", "1");
        type Variables<'a> = &'a [(&'a str, &'a str)];
        let cases: [(Variables<'_>, Result<&str, &str>); 13] = [
            (&[], Ok("")),
            (&[("I_MPI_OFFLOAD_CELL", "device")], Ok("")),
            (&[on, ("I_MPI_OFFLOAD_PIN", "0")], Ok("")),
            (&[on, ("I_MPI_OFFLOAD_TOPOLIB", "none")], Ok("")),
            (&[on, ("ZE_AFFINITY_MASK", "0")], Ok("")),
            (&[on], Ok("--gpu-unit part --gpu-bind as:intel")),
            (
                &[("I_MPI_OFFLOAD_PIN", "1"), (CELL, "device"), (SIZE, "2")],
                Ok("--gpu-unit device --gpu-bind as:intel --gpus-per-rank 2"),
            ),
            (&[on, (CELLS, "0,0,2-3")], Ok("--gpu-unit part --gpu-bind list:0,0,2,3")),
            (&[on, (OLD_CELLS, "3,1"), (SIZE, "2")], Ok("--gpu-unit part --gpu-bind list:3+1")),
            (&[on, (MASKS, "[3,c]")], Ok("--gpu-unit part --gpu-bind list:0+1,2+3")),
            (
                &[on, (DEVICES, "0,2"), (CELL, "device")],
                Ok("--gpu-unit device --gpu-bind list:0,2"),
            ),
            (&[on, (DEVICES, "0,2")], Err(DEVICES)),
            (&[on, (SIZE, "many")], Err(SIZE)),
        ];
        for (variables, expected) in cases {
            let value = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let shown = offload(value).map(|found| {
                let kept = found.iter().filter(|(name, _)| *name != "gpu-share");
                let words: Vec<String> =
                    kept.map(|(name, value)| format!("--{name} {value}")).collect();
                words.join(" ")
            });
            assert_eq!(shown.as_deref().map_err(|name| *name), expected, "{variables:?}");
        }
    }

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
