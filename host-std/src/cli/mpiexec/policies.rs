//! Values of Open MPI's options as options of `run`: policies with modifiers, parameters, variables, lists.

use super::{ReadContext, rankfile, variable_of};
use crate::launch::topology::binding::count;
use crate::settings::placement::Unit;
use pmi_host_base::variables::removed;
use pmi_host_base::words;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Names and values of options of `run`, or a message with the remedy. [`PARAMETER`] and [`WITHOUT_EFFECT`]
/// stand for more.
pub(super) type Expansion = Result<Vec<(&'static str, OsString)>, String>;

/// `--map-by POLICY:MODIFIER…`. A number behind the policy is Hydra's, and stays there.
pub(super) fn map_by(value: &OsStr, context: &ReadContext<'_>) -> Expansion {
    let text = text(value)?;
    if let Some(modifiers) = of_rank_file(text) {
        return by_rank_file(modifiers, context);
    }
    if let Some(list) =
        text.get(.."pe-list=".len()).filter(|name| name.eq_ignore_ascii_case("pe-list="))
    {
        return by_list(&text[list.len()..]);
    }
    let mut pieces = text.split([':', ',']).peekable();
    let policy = pieces.next().unwrap_or_default().to_ascii_lowercase();
    let mut found = Vec::new();
    let mut policy = match &*policy {
        "ppr" => {
            let (ranks, object) = (pieces.next().unwrap_or_default(), pieces.next());
            let object = object.unwrap_or_default();
            if ["gpu", "device=gpu"].contains(&&*object.to_ascii_lowercase()) {
                found.push((PER_GPU, number_of_ranks(ranks)?.to_string().into()));
                None
            } else {
                Some(per_object(ranks, object)?)
            }
        }
        "dist" => Some("nic".to_owned()),
        _ if policy.starts_with("device=") => {
            let class = &policy["device=".len()..];
            let (option, unit) = match class {
                "gpu" => ("gpus-per-rank", "gpu"),
                "network" | "nic" | "fabric" | "openfabrics" => ("nics-per-rank", "nic"),
                _ => {
                    return Err(format!(
                        "'{class}' is not a kind of devices; there are gpu and network, and '--gpu-bind \
                         list:0,1' names GPUs"
                    ));
                }
            };
            found.push((option, "1".into()));
            Some(unit.to_owned())
        }
        "seq" | "likwid" => {
            return Err("that order is not supported; try '-rankmap 0,1,1,0', or '--map-by node'"
                .to_owned());
        }
        "" => None,
        name => Some(unit_name(name)),
    };
    for piece in pieces {
        let (name, argument) = piece.split_once('=').unwrap_or((piece, ""));
        match &*name.to_ascii_lowercase() {
            "pe" => {
                found.push(("bind-to", modifier("core", argument)?.into()));
                // The next set of processors is the next piece of these already.
                policy = policy.filter(|name| !["slot", "core", "hwthread"].contains(&&**name));
            }
            "oversubscribe" => found.push(("oversubscribe", "true".into())),
            "nooversubscribe" => found.push(("oversubscribe", "false".into())),
            "display" => found.push(("display", "map".into())),
            "hwtcpus" => found.push((PARAMETER, "hwloc_base_use_hwthreads_as_cpus=1".into())),
            "corecpus" | "noinherit" | "donotresolve" | "ordered" => {}
            "span" | "inherit" => found.push((WITHOUT_EFFECT, format!("':{piece}'").into())),
            "ndev" => {
                let devices = found.iter_mut().find(|(name, _)| PER_RANK.contains(name));
                let (_, value) = devices.ok_or("'ndev' is for devices; try 'device=gpu:ndev=2'")?;
                *value = number_of_ranks(argument)?.to_string().into();
            }
            "shared" => found.push(("gpu-share", u32::MAX.to_string().into())),
            // The nearest card of each rank is meant.
            "device" if policy.as_deref() == Some("nic") => {}
            "interleave" => found.push((WITHOUT_EFFECT, format!("':{piece}'").into())),
            "donotlaunch" => return Err("'--dry-run' shows the map and starts nothing".to_owned()),
            "nolocal" => found.push(("local", "false".into())),
            number if number.parse::<u32>().is_ok() => {
                policy = policy.map(|policy| format!("{policy}:{number}"));
            }
            _ => {
                return Err(format!(
                    "'{piece}' is not a modifier that is known here; there are PE=N, OVERSUBSCRIBE and \
                     NOOVERSUBSCRIBE, and {ANYWAY}"
                ));
            }
        }
    }
    found.extend(policy.map(|policy| ("map-by", policy.into())));
    Ok(found)
}

/// Binding of `--map-by UNIT` without `--bind-to`: to the same unit, as under Open MPI.
pub(super) fn bound_by_map(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    let policy = text(value)?.split([':', ',']).next().unwrap_or_default().to_ascii_lowercase();
    let unit = unit_name(&policy);
    let (unit, _) = unit.split_once('=').unwrap_or((&unit, ""));
    let others = [
        "", "slot", "node", "ppr", "seq", "none", "rankfile", "gpu", "nic", "auto", "dist",
        "device", "pe-list",
    ];
    let is_unit = !others.contains(&unit);
    Ok(is_unit.then(|| ("bind-to", unit.into())).into_iter().collect())
}

/// `--map-by pe-list=LIST:MODIFIER…`. The processors of the list are hardware threads here.
fn by_list(list: &str) -> Expansion {
    let mut pieces = list.split(':');
    let processors = pieces.next().unwrap_or_default();
    let is_ordered = pieces.any(|piece| piece.eq_ignore_ascii_case("ordered"));
    let bound = if is_ordered { "hwthread" } else { "none" };
    Ok(vec![("cpu-set", processors.into()), ("bind-to", bound.into())])
}

/// Modifiers of the policy `rankfile`; `None` for another policy.
fn of_rank_file(policy: &str) -> Option<&str> {
    let (name, modifiers) = policy.split_once(':').unwrap_or((policy, ""));
    name.eq_ignore_ascii_case("rankfile").then_some(modifiers)
}

/// `--map-by rankfile:file=F:MODIFIER…`.
fn by_rank_file(modifiers: &str, context: &ReadContext<'_>) -> Expansion {
    let mut found = Vec::new();
    let mut file = None;
    for piece in modifiers.split(':').filter(|piece| !piece.is_empty()) {
        match piece.split_once('=') {
            Some((name, path)) if name.eq_ignore_ascii_case("file") => file = Some(path),
            _ => found.extend(map_by(format!(":{piece}").as_ref(), context)?),
        }
    }
    let file = file.ok_or("the file is missing; try 'rankfile:file=NAME'")?;
    let text = (context.read)(Path::new(file));
    let text = text.map_err(|error| format!("'{file}' cannot be read ({error})"))?;
    found.extend(rankfile::options(&text)?);
    Ok(found)
}

/// `-gpus-per-proc N` of Hydra: GPUs with all their tiles.
pub(super) fn gpus_per_rank(value: &OsStr, context: &ReadContext<'_>) -> Expansion {
    let mut found = tiles_per_rank(value, context)?;
    if !found.is_empty() {
        found.push(("gpu-unit", "device".into()));
    }
    Ok(found)
}

/// `-gpu-subdevs-per-proc N` of Hydra.
pub(super) fn tiles_per_rank(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    match text(value)? {
        "AUTO" => Ok(Vec::new()),
        "0" => {
            Err("GPUs are hidden by their variables; try '-env CUDA_VISIBLE_DEVICES -1'".to_owned())
        }
        count => {
            let count = number_of_ranks(count).map_err(|_| {
                format!("'{count}' is not a number of GPUs; try '1', or 'AUTO', which assigns none")
            })?;
            Ok(vec![("gpus-per-rank", count.to_string().into()), ("gpu-bind", "as:hydra".into())])
        }
    }
}

/// `-membind POLICY[:LIST]` of Hydra, which means the memory near the processors of the rank, whatever the
/// list.
pub(super) fn membind(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    let text = text(value)?;
    let ours = match text.split(':').next().unwrap_or_default() {
        "none" | "firsttouch" => return Ok(Vec::new()),
        "bind" => "local",
        "interleave" => "interleave",
        "nexttouch" | "replicate" => {
            return Err(
                "the system neither moves nor copies memory; try 'bind' or 'interleave'".to_owned()
            );
        }
        _ => text,
    };
    Ok(vec![("mem-bind", ours.into())])
}

/// `--mem-bind WHAT` of PALS.
pub(super) fn mem_bind(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    listed("mem-bind", value)
}

/// `--gpu-bind WHAT` of PALS.
pub(super) fn gpu_bind(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    let mut found = listed("gpu-bind", value)?;
    match found.last() {
        Some((_, what)) if what == "none" => {
            found.pop();
        }
        Some((_, what)) if what == "closest" => found.push(("gpus-per-rank", "1".into())),
        // Ranks share what a list names several times.
        Some((_, what)) if what.as_bytes().starts_with(b"list:") => {
            found.push(("gpu-share", u32::MAX.to_string().into()));
        }
        _ => {}
    }
    Ok(found)
}

/// A value of PALS, whose lists separate ranks by colons, and things of a rank by commas.
fn listed(option: &'static str, value: &OsStr) -> Expansion {
    let mut text = text(value)?;
    let mut found = Vec::new();
    while let Some((word @ ("v" | "verbose" | "q" | "quiet"), rest)) = text.split_once(',') {
        if word.starts_with('v') {
            found.push(("display", "map".into()));
        }
        text = rest;
    }
    let list = text.strip_prefix("list:");
    let ours = list.map(|list| format!("list:{}", list.replace(',', "+").replace(':', ",")));
    found.push((option, ours.unwrap_or_else(|| text.to_owned()).into()));
    Ok(found)
}

/// `--bycore`.
pub(super) fn by_core(_: &OsStr, _: &ReadContext<'_>) -> Expansion {
    Ok(vec![("map-by", "core".into())])
}

/// Binding of `--bycore` without an option for it.
pub(super) fn bound_to_core(_: &OsStr, _: &ReadContext<'_>) -> Expansion {
    Ok(vec![("bind-to", "core".into())])
}

/// `--bind-to WHAT:MODIFIER…`.
pub(super) fn bind_to(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    let text = text(value)?;
    if is_list(text) {
        return Ok(Vec::new());
    }
    match text {
        "gpu" => return Ok(vec![("map-by", text.into())]),
        "ib" | "hfi" | "en" | "eth" => return Ok(vec![("map-by", "nic".into())]),
        _ if ["pci", "gpu", "ib", "en", "eth", "hfi"].iter().any(|name| text.starts_with(name)) => {
            return Err("one device is not named; 'gpu' and 'ib' bind ranks near all of these in turn, and \
                        'user:0+1,2+3' to processors by number"
                .to_owned());
        }
        _ => {}
    }
    if text.starts_with("user:") {
        return Ok(vec![("bind-to", value.to_owned())]);
    }
    let mut found = Vec::new();
    let mut kept: Vec<String> = Vec::new();
    for (place, piece) in text.split(':').enumerate() {
        match (place, &*piece.to_ascii_lowercase()) {
            // Hydra's word: the processors in turn, in the order of the system.
            (0, "rr") => kept.push("hwthread".to_owned()),
            (0, name) => kept.push(unit_name(name)),
            (_, "overload-allowed" | "if-supported" | "ordered") => {}
            (_, "no-overload") => {
                let what = "':no-overload' (shared processors are reported)";
                found.push((WITHOUT_EFFECT, what.into()));
            }
            (_, modifier) if modifier.starts_with("limit") => {
                found.push((WITHOUT_EFFECT, format!("':{piece}'").into()));
            }
            (_, "report") => found.push(("display", "map".into())),
            _ => kept.push(piece.to_owned()),
        }
    }
    found.push(("bind-to", kept.join(":").into()));
    Ok(found)
}

/// Binding of `--bind-to cpu-list`: the processors of `--cpu-list` in their order, else those of `--cpu-set`.
pub(super) fn bound_list(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    Ok(is_list(text(value)?).then(|| ("bind-to", "hwthread".into())).into_iter().collect())
}

fn is_list(binding: &str) -> bool {
    let name = binding.split(':').next().unwrap_or_default().to_ascii_lowercase();
    ["cpu-list", "cpulist"].contains(&&*name)
}

/// `--ppr N:OBJECT`.
pub(super) fn ppr(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    let text = text(value)?;
    let (ranks, object) = text.split_once(':').unwrap_or((text, ""));
    Ok(vec![("map-by", per_object(ranks, object)?.into())])
}

/// `--npersocket N`.
pub(super) fn sockets(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    Ok(vec![("map-by", per_object(text(value)?, "socket")?.into())])
}

/// `-S N` of ALPS.
pub(super) fn domains(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    Ok(vec![("map-by", per_object(text(value)?, "numa")?.into())])
}

/// `-x NAME`, `-x NAME=VALUE`, `-x PREFIX*`. A variable that is not set is not exported.
pub(super) fn export(value: &OsStr, context: &ReadContext<'_>) -> Expansion {
    if value.as_bytes().contains(&b'=') {
        return Ok(vec![("env", value.to_owned())]);
    }
    let is_named = |name: &OsStr| match value.as_bytes().strip_suffix(b"*") {
        Some(prefix) => name.as_bytes().starts_with(prefix),
        None => name == value,
    };
    let named = context.variables.iter().filter(|(name, _)| is_named(name));
    let own = named.filter(|(name, _)| removed(name.as_bytes()).is_none());
    Ok(own.map(|(name, value)| ("env", pair(name, value))).collect())
}

/// `--set-env NAME=VALUE`.
pub(super) fn assignment(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    Ok(vec![("env", value.to_owned())])
}

/// `--prepend-env NAME VALUE`.
pub(super) fn prepend(value: &OsStr, context: &ReadContext<'_>) -> Expansion {
    let (name, value) = name_and_value(value)?;
    Ok(vec![("env", joined(context, name, value, true).into())])
}

/// `--append-env NAME VALUE`.
pub(super) fn append(value: &OsStr, context: &ReadContext<'_>) -> Expansion {
    let (name, value) = name_and_value(value)?;
    Ok(vec![("env", joined(context, name, value, false).into())])
}

/// `--prefix DIR`: programs and libraries of an installation.
pub(super) fn prefix(value: &OsStr, context: &ReadContext<'_>) -> Expansion {
    let directory = text(value)?.trim_end_matches('/');
    let below =
        |name, part| ("env", joined(context, name, &format!("{directory}/{part}"), true).into());
    Ok(vec![below("PATH", "bin"), below("LD_LIBRARY_PATH", "lib")])
}

/// `--mca NAME VALUE`.
pub(super) fn mca(value: &OsStr, context: &ReadContext<'_>) -> Expansion {
    parameter("OMPI_MCA_", value, context)
}

/// `--prtemca NAME VALUE`.
pub(super) fn prte_mca(value: &OsStr, context: &ReadContext<'_>) -> Expansion {
    parameter("PRTE_MCA_", value, context)
}

/// `--pmixmca NAME VALUE`.
pub(super) fn pmix_mca(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    let (name, argument) = name_and_value(value)?;
    Ok(vec![("env", format!("PMIX_MCA_{name}={argument}").into())])
}

/// A variable for the ranks, and the effect on the launcher itself.
fn parameter(family: &str, value: &OsStr, context: &ReadContext<'_>) -> Expansion {
    let (name, argument) = name_and_value(value)?;
    let mut found = match name {
        "mca_base_env_list" => env_list(argument, context)?,
        "mca_base_env_list_delimiter" if argument != ";" => {
            return Err(
                "variables of 'mca_base_env_list' are separated by ';' here; write them so, or \
                        '-x NAME=VALUE' for each of them"
                    .to_owned(),
            );
        }
        _ => vec![(PARAMETER, value.to_owned())],
    };
    found.push(("env", format!("{family}{name}={argument}").into()));
    Ok(found)
}

/// `NAME=VALUE;NAME;…`: variables for the ranks. One without a value is exported, as by `-x`.
pub(super) fn env_list(list: &str, context: &ReadContext<'_>) -> Expansion {
    let entries = list.split(';').map(str::trim_start).filter(|entry| !entry.is_empty());
    let found = entries.map(|entry| match entry.starts_with('=') {
        true => Err(format!("'{entry}' names no variable; try 'NAME=VALUE;NAME'")),
        false => export(entry.as_ref(), context),
    });
    Ok(found.collect::<Result<Vec<_>, _>>()?.concat())
}

/// The remote shell of Open MPI, the first of a list, with its arguments.
pub(super) fn agent(value: &OsStr) -> Expansion {
    let value = text(value)?;
    let first = value.split(':').next().unwrap_or_default().trim();
    let (program, arguments) = first.split_once(' ').unwrap_or((first, ""));
    let mut found = vec![("starter-exec", program.into())];
    if !arguments.is_empty() {
        found.push(("starter-args", arguments.into()));
    }
    Ok(found)
}

/// `--tune FILE,FILE…`: words `-x` and `--mca`, or lines `NAME = VALUE`.
pub(super) fn tune(value: &OsStr, context: &ReadContext<'_>) -> Expansion {
    let mut found = Vec::new();
    for file in text(value)?.split([',', ':']) {
        let read = (context.read)(Path::new(file));
        let lines = read.map_err(|error| format!("'{file}' cannot be read ({error})"))?;
        for line in
            lines.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            if !line.starts_with('-') {
                let assigned = line.split_once('=').ok_or_else(|| of_file(file, line))?;
                found.extend(mca(&pair(assigned.0.trim(), assigned.1.trim()), context)?);
                continue;
            }
            let mut rest = words::split(line)?.into_iter();
            while let Some(word) = rest.next() {
                let name = word.trim_start_matches('-').to_owned();
                let mut next = || rest.next().ok_or_else(|| of_file(file, &word));
                match &*name {
                    "x" => found.extend(export(next()?.as_ref(), context)?),
                    "mca" | "gmca" | "omca" => found.extend(mca(&pair(next()?, next()?), context)?),
                    _ => return Err(of_file(file, &word)),
                }
            }
        }
    }
    Ok(found)
}

fn of_file(file: &str, what: &str) -> String {
    format!(
        "'{file}': '{what}' is neither '-x NAME=VALUE' nor '--mca NAME VALUE' nor 'NAME = VALUE'"
    )
}

/// `--with-ft TYPE`.
pub(super) fn with_ft(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    match &*text(value)?.to_ascii_lowercase() {
        "no" | "none" | "off" | "false" => Ok(Vec::new()),
        "ulfm" | "mpi" | "yes" | "on" | "true" => {
            Ok(vec![("env", "OMPI_MCA_mpi_ft_enable=1".into()), ("on-exit-error", "ignore".into())])
        }
        _ => Err("there is 'ulfm', and 'no'".to_owned()),
    }
}

/// `--output LIST`.
pub(super) fn output(value: &OsStr, context: &ReadContext<'_>) -> Expansion {
    let mut found = Vec::new();
    for item in text(value)?.split([',', ':']) {
        let (name, argument) = item.split_once('=').unwrap_or((item, ""));
        match &*name.to_ascii_lowercase() {
            "tag" | "tag-detailed" | "tag-fullname" | "rank" => {
                found.push(("label", "true".into()))
            }
            "timestamp" => found.push(("timestamps", "true".into())),
            "dir" | "directory" => found.extend(output_files(argument.as_ref(), context)?),
            "file" | "filename" => found.extend(one_file_each(argument)?),
            "nocopy" => found.push(("copy-output", "false".into())),
            "" => {}
            "raw" => found.push(("unbuffered", "true".into())),
            "merge" | "merge-stderr-to-stdout" => found.push(("merge-stderr", "true".into())),
            _ => {
                return Err(format!(
                    "'{item}' is not supported; there are tag, timestamp, merge and file=NAME"
                ));
            }
        }
    }
    Ok(found)
}

/// `--output-filename DIR[:nocopy]`: files below a directory, and the launcher's own streams.
pub(super) fn output_files(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    let mut pieces = text(value)?.split([',', ':']);
    let directory = pieces.next().unwrap_or_default().trim_end_matches('/');
    if directory.is_empty() {
        return Err("that names no directory; try 'out'".to_owned());
    }
    let copies = !pieces.any(|piece| piece.eq_ignore_ascii_case("nocopy"));
    Ok(vec![("output-dir", directory.into()), ("copy-output", copies.to_string().into())])
}

/// `--stream-buffering 0`. Lines are the default, and blocks of a fixed size are not supported.
pub(super) fn stream_buffering(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    match text(value)? {
        "0" => Ok(vec![("unbuffered", "true".into())]),
        "1" => Ok(Vec::new()),
        _ => Err("lines are passed on when they are complete; '0' passes on all bytes at once, and '1' is \
                  the default"
            .to_owned()),
    }
}

/// `--output file=NAME`.
fn one_file_each(name: &str) -> Expansion {
    if name.is_empty() {
        return Err("that names no file; try 'file=out'".to_owned());
    }
    let name = name.replace('%', "%%");
    Ok(vec![
        ("stdout-to", format!("{name}.%r.out").into()),
        ("stderr-to", format!("{name}.%r.err").into()),
        ("copy-output", "true".into()),
    ])
}

/// `--display LIST`.
pub(super) fn display(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    let items = text(value)?.to_ascii_lowercase();
    let mut found = vec![("display", "map".into())];
    for item in items.split([',', ':']) {
        match item {
            "map" | "map-devel" | "map-diff" | "bind" | "bindings" | "alloc" | "allocation" => {}
            "parseable" => found.push((
                WITHOUT_EFFECT,
                "'parseable' (PMI_HOST_RESULT names a file with a report as JSON)".into(),
            )),
            _ => {
                return Err(format!(
                    "'{item}' cannot be displayed; 'map' shows ranks, hosts and processors"
                ));
            }
        }
    }
    Ok(found)
}

/// `--runtime-options LIST`.
pub(super) fn runtime_options(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    let mut found = Vec::new();
    for item in text(value)?.split(',') {
        let (name, argument) = item.split_once('=').unwrap_or((item, "1"));
        let is_on = !["0", "no", "false", "off"].contains(&&*argument.to_ascii_lowercase());
        let effect = |kills: bool| ("on-exit-error", if kills { "kill" } else { "ignore" }.into());
        match &*name.to_ascii_lowercase() {
            "error-nonzero-status" | "abort-nonzero-status" => found.push(effect(is_on)),
            "continuous" | "recoverable" => found.push(effect(!is_on)),
            "show-progress" => found.push(("progress", is_on.to_string().into())),
            "donotlaunch" => return Err("'--dry-run' shows the map and starts nothing".to_owned()),
            _ => return Err(format!("'{item}' is not supported; {ANYWAY}")),
        }
    }
    Ok(found)
}

/// `--cpu-bind WHAT` of PALS.
pub(super) fn cpu_bind(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    let mut text = text(value)?;
    let mut found = Vec::new();
    while let Some((word, rest)) = text.split_once(',') {
        match word {
            "v" | "verbose" => found.push(("display", "map".into())),
            "q" | "quiet" => {}
            _ => break,
        }
        text = rest;
    }
    let what = match text {
        "none" | "core" | "numa" | "socket" => text.to_owned(),
        "thread" => "hwthread".to_owned(),
        // As many as '-d' says.
        "depth" => return Ok(found),
        _ => match text.strip_prefix("list:") {
            // PALS separates ranks by colons, and processors of a rank by commas.
            Some(list) => format!("user:{}", list.replace(',', "+").replace(':', ",")),
            None => {
                return Err(
                    "there are none, core, numa, socket, depth, thread and list:0,1:2,3".to_owned()
                );
            }
        },
    };
    found.push(("bind-to", what.into()));
    Ok(found)
}

/// Binding of `--cpu-bind depth` without `-d`.
pub(super) fn bound_by_depth(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    let is_depth = text(value)?.rsplit(',').next() == Some("depth");
    Ok(is_depth.then(|| ("bind-to", "hwthread".into())).into_iter().collect())
}

/// `-d N` of PALS.
pub(super) fn depth(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    Ok(vec![("bind-to", modifier("hwthread", text(value)?)?.into())])
}

/// A unit with a number of them.
pub(super) fn modifier(unit: &str, number: &str) -> Result<String, String> {
    match number.parse::<u32>() {
        Ok(number) if number > 0 => Ok(format!("{unit}:{number}")),
        _ => Err(format!("'{number}' is not a number of processors; try '2'")),
    }
}

/// Ranks for each host, from those for each of its objects; all hosts are taken to be like this one.
fn per_object(ranks: &str, object: &str) -> Result<String, String> {
    let number = number_of_ranks(ranks)?;
    let unit = match &*unit_name(object) {
        "node" => return Ok(format!("ppr:{number}:node")),
        "socket" => Unit::Socket,
        "numa" => Unit::Numa,
        "l1cache" => Unit::Cache(1),
        "l2cache" => Unit::Cache(2),
        "l3cache" => Unit::Cache(3),
        "core" => Unit::Core,
        "hwthread" => Unit::HwThread,
        _ => {
            return Err(format!(
                "'{object}' is not an object; try 'ppr:2:node', 'ppr:1:socket', or 'ppr:1:gpu'"
            ));
        }
    };
    let objects = u32::try_from(count(unit)?).unwrap_or(u32::MAX);
    Ok(format!("ppr:{}:node", number.saturating_mul(objects)))
}

fn number_of_ranks(ranks: &str) -> Result<u32, String> {
    ranks.parse().ok().filter(|number| *number > 0).ok_or_else(|| {
        format!("'{ranks}' is not a number of ranks for each object; try 'ppr:2:node'")
    })
}

/// Name of a unit here.
fn unit_name(name: &str) -> String {
    match &*name.to_ascii_lowercase() {
        "package" => "socket".to_owned(),
        "board" => "machine".to_owned(),
        "thread" => "hwthread".to_owned(),
        other => other.to_owned(),
    }
}

/// `NAME=VALUE`, with `value` in front of that of the environment, or behind it.
fn joined(context: &ReadContext<'_>, name: &str, value: &str, is_first: bool) -> String {
    match variable_of(context.variables, name) {
        Some(old) if is_first => format!("{name}={value}:{old}"),
        Some(old) => format!("{name}={old}:{value}"),
        None => format!("{name}={value}"),
    }
}

fn name_and_value(value: &OsStr) -> Result<(&str, &str), String> {
    let named = text(value)?.split_once('=').filter(|(name, _)| !name.is_empty());
    named.ok_or_else(|| "a name and a value are missing; try 'btl self,tcp'".to_owned())
}

fn pair(name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> OsString {
    let mut pair = name.as_ref().to_owned();
    pair.push("=");
    pair.push(value);
    pair
}

pub(super) fn text(value: &OsStr) -> Result<&str, String> {
    value.to_str().ok_or_else(|| "that is not text".to_owned())
}

/// A parameter of Open MPI with its value, in place of an option of `run`.
pub(super) const PARAMETER: &str = "(parameter)";

/// Number of ranks for each GPU of a host, in place of an option of `run`.
pub(super) const PER_GPU: &str = "(ranks of a GPU)";

/// Options for devices of each rank.
const PER_RANK: [&str; 2] = ["gpus-per-rank", "nics-per-rank"];

/// What has no effect here, in place of an option of `run`.
pub(super) const WITHOUT_EFFECT: &str = "(without effect)";

const ANYWAY: &str = "others have no effect here; leave it out";
