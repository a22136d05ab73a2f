//! Values of `srun`'s options as options of `run`.

use super::policies::{Expansion, WITHOUT_EFFECT, modifier, text};
use super::step_gpus::{mapped, masked};
use super::{ReadContext, variable_of};
use std::ffi::{OsStr, OsString};

/// `-N N`, `-N MIN-MAX`: the smaller number is what a step needs.
pub(super) fn nodes(value: &OsStr) -> Result<OsString, String> {
    let text = text(value)?;
    Ok(text.split('-').next().unwrap_or_default().into())
}

/// `-c N`.
pub(super) fn cpus_per_task(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    let count = text(value)?;
    let bound = modifier("hwthread", count)?;
    Ok(vec![("bind-to", bound.into()), ("env", format!("SLURM_CPUS_PER_TASK={count}").into())])
}

/// `--ntasks-per-core=N`.
pub(super) fn tasks_of_core(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    let unit = match text(value)? {
        "1" => "core",
        // A word that is no number is refused.
        count => modifier("hwthread", count).map(|_| "hwthread")?,
    };
    Ok(vec![("bind-to", unit.into())])
}

/// `-E`: variables of the allocation that the step would replace.
pub(super) fn preserved(_: &OsStr, context: &ReadContext<'_>) -> Expansion {
    let names = ["SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"];
    let found = names.iter().filter_map(|name| {
        Some(("env", format!("{name}={}", variable_of(context.variables, name)?).into()))
    });
    Ok(found.collect())
}

/// `--hint=WHAT`.
pub(super) fn hint(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    match text(value)? {
        "nomultithread" | "compute_bound" => Ok(vec![("bind-to", "core".into())]),
        "multithread" => Ok(vec![("bind-to", "hwthread".into())]),
        "memory_bound" => Ok(vec![("map-by", "socket".into()), ("bind-to", "core".into())]),
        _ => Err("there are compute_bound, memory_bound, multithread and nomultithread".to_owned()),
    }
}

/// `--threads-per-core=N`: with one, a rank has whole cores.
pub(super) fn cores_of(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    match text(value)?.parse::<u32>() {
        Ok(1) => Ok(vec![("bind-to", "core".into())]),
        Ok(2..) => Ok(Vec::new()),
        _ => Err("that is not a number of threads; try '1'".to_owned()),
    }
}

/// `--cpu-bind=[quiet|verbose,]TYPE`.
pub(super) fn cpu_bind(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    let mut found = Vec::new();
    let mut rest = text(value)?;
    loop {
        let (first, more) = rest.split_once(',').unwrap_or((rest, ""));
        match first {
            "q" | "quiet" => {}
            "v" | "verbose" => found.push(("display", "map".into())),
            _ => break,
        }
        rest = more;
    }
    let (kind, list) = rest.split_once([':', '=']).unwrap_or((rest, ""));
    let bound = match kind {
        "" => return Ok(found),
        "none" | "no" => "none".to_owned(),
        "rank" | "threads" => "hwthread".to_owned(),
        "cores" => "core".to_owned(),
        "sockets" => "socket".to_owned(),
        "ldoms" | "rank_ldom" => "numa".to_owned(),
        "boards" => "machine".to_owned(),
        "map_cpu" => format!("user:{list}"),
        "mask_cpu" => {
            let masks = list.split(',').map(processors).collect::<Option<Vec<String>>>();
            let masks = masks.ok_or_else(|| {
                format!("'{list}' is not a list of masks; try 'mask_cpu:0x3,0xc'")
            })?;
            format!("user:{}", masks.join(","))
        }
        _ => {
            return Err(
                "there are none, rank, threads, cores, sockets, ldoms, map_cpu:0,1 and mask_cpu:0x3,0xc"
                    .to_owned()
            );
        }
    };
    found.push(("bind-to", bound.into()));
    Ok(found)
}

/// Processors of a mask in hexadecimal digits, separated by `+`; `None` if it has none.
pub(super) fn processors(mask: &str) -> Option<String> {
    let digits = mask.strip_prefix("0x").unwrap_or(mask);
    let mut all = Vec::new();
    for (place, digit) in digits.chars().rev().enumerate() {
        let bits = digit.to_digit(16)?;
        all.extend((0..4).filter(|bit| bits >> bit & 1 == 1).map(|bit| place * 4 + bit));
    }
    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
    Some(all.join("+")).filter(|list| !list.is_empty())
}

/// `--mem-bind=[quiet|verbose,][sort,][prefer,]TYPE`.
pub(super) fn memory(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    let (mut found, mut is_preferred, mut bound) = (Vec::new(), false, None);
    let mut rest = text(value)?;
    while !rest.is_empty() {
        let (word, more) = rest.split_once(',').unwrap_or((rest, ""));
        rest = more;
        match word {
            "q" | "quiet" | "nosort" => {}
            "v" | "verbose" => found.push(("display", "map".into())),
            "sort" => found.push((WITHOUT_EFFECT, "'sort'".into())),
            "p" | "prefer" => is_preferred = true,
            "none" | "no" => bound = None,
            "local" => bound = Some("local".to_owned()),
            "rank" => {
                return Err("name the domain of each rank, as 'map_mem:0,1'".to_owned());
            }
            _ => {
                // The rest is a list, with commas of its own.
                let whole =
                    if more.is_empty() { word.to_owned() } else { format!("{word},{more}") };
                rest = "";
                let list = match whole.split_once([':', '=']) {
                    Some(("map_mem", list)) => mapped(list)?,
                    Some(("mask_mem", list)) => masked(list)?,
                    _ => {
                        return Err(
                            "there are none, local, map_mem:0,1 and mask_mem:0x1,0x2".to_owned()
                        );
                    }
                };
                bound = Some(format!("list:{list}"));
            }
        }
    }
    let bound = match (bound, is_preferred) {
        (Some(bound), true) if bound == "local" => Some("preferred".to_owned()),
        (Some(_), true) => {
            return Err(
                "'prefer' is for 'local' only; leave it out, or try 'prefer,local'".to_owned()
            );
        }
        (bound, _) => bound,
    };
    found.extend(bound.map(|bound| ("mem-bind", bound.into())));
    Ok(found)
}

/// `-m NODES[:SOCKETS[:CORES]][,Pack]`.
pub(super) fn distribution(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    let policies = text(value)?.split(',').next().unwrap_or_default().to_ascii_lowercase();
    let mut levels = policies.split(':');
    let first = levels.next().unwrap_or_default();
    let mut found = match first.split_once('=') {
        Some(("plane", ranks)) => vec![("ppn", OsString::from(ranks))],
        _ => match first {
            "block" | "*" => vec![("map-by", "slot".into())],
            "cyclic" => vec![("map-by", "node".into())],
            "arbitrary" => {
                return Err("'-w' lists a host for each rank in the order of the list".to_owned());
            }
            _ => return Err("there are block, cyclic and plane=N".to_owned()),
        },
    };
    match levels.next() {
        Some("*") | None => Ok(found),
        Some(level @ ("block" | "cyclic" | "fcyclic")) => {
            let what = format!("':{level}' (within a host '--cpu-bind' decides)");
            found.push((WITHOUT_EFFECT, what.into()));
            Ok(found)
        }
        Some(_) => Err("there are block and cyclic".to_owned()),
    }
}

/// `--export=LIST`.
pub(super) fn export(value: &OsStr, context: &ReadContext<'_>) -> Expansion {
    let (mut found, mut names, mut is_all) = (Vec::new(), Vec::new(), false);
    for item in text(value)?.split(',').filter(|item| !item.is_empty()) {
        match item {
            "ALL" => is_all = true,
            "NONE" | "NIL" => return Ok(vec![("inherit", "none".into())]),
            _ if item.contains('=') => found.push(("env", item.into())),
            // A variable that is not set is not exported.
            name if variable_of(context.variables, name).is_some() => names.push(name),
            _ => {}
        }
    }
    let inherit = match (is_all, names.is_empty()) {
        (true, _) => "all".to_owned(),
        (false, true) => "none".to_owned(),
        (false, false) => names.join(","),
    };
    found.push(("inherit", inherit.into()));
    Ok(found)
}

/// `--mpi=TYPE`.
pub(super) fn mpi(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    let offer = match text(value)? {
        "none" | "openmpi" | "pmi2" => "auto",
        "cray_shasta" => "1",
        name if name.starts_with("pmix") => "x",
        _ => return Err("there are pmi2, pmix and none".to_owned()),
    };
    Ok(vec![("pmi", offer.into())])
}

/// Text of `--mpi=list`, which begins with the words that scripts look for.
pub(crate) const MPI_TYPES: &str = "MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\n";

/// `-l`: the label of Slurm.
pub(super) fn label(_: &OsStr) -> Result<OsString, String> {
    Ok("%r: ".into())
}

/// `-o PATTERN`.
pub(super) fn output(value: &OsStr, context: &ReadContext<'_>) -> Expansion {
    stream("stdout-to", value, context)
}

/// `-e PATTERN`.
pub(super) fn errors(value: &OsStr, context: &ReadContext<'_>) -> Expansion {
    stream("stderr-to", value, context)
}

fn stream(option: &'static str, value: &OsStr, context: &ReadContext<'_>) -> Expansion {
    let name = text(value)?;
    match name {
        "all" => return Ok(Vec::new()),
        "none" => return Ok(vec![(option, "/dev/null".into())]),
        _ if name.parse::<u32>().is_ok() => {
            return Err("the output of one rank alone is not selected; '-o out.%t' separates them"
                .to_owned());
        }
        _ => {}
    }
    let (mut pattern, mut letters) = (String::new(), name.chars());
    while let Some(letter) = letters.next() {
        if letter != '%' {
            pattern.push(letter);
            continue;
        }
        let of = |name: &str| {
            variable_of(context.variables, name).unwrap_or_default().replace('%', "%%")
        };
        match letters.next() {
            Some('%') => pattern.push_str("%%"),
            Some('t') => pattern.push_str("%r"),
            Some('N') => pattern.push_str("%h"),
            Some('n') => pattern.push_str("%p"),
            Some('j' | 'J' | 'A') => pattern.push_str(&of("SLURM_JOB_ID")),
            Some('a') => pattern.push_str(&of("SLURM_ARRAY_TASK_ID")),
            Some('s') => pattern.push('0'),
            Some('u') => pattern.push_str(&of("USER")),
            Some('x') => pattern.push_str(&of("SLURM_JOB_NAME")),
            _ => return Err("there are %t, %N, %n, %j, %J, %s, %u, %x and %%".to_owned()),
        }
    }
    Ok(vec![(option, pattern.into())])
}

/// `-i WHAT`: ranks that read standard input, or a file for all of them.
pub(super) fn input(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    let name = text(value)?;
    match name {
        "all" | "none" => Ok(vec![("stdin", name.into())]),
        _ if name.parse::<u32>().is_ok() => Ok(vec![("stdin", name.into())]),
        _ if name.contains('%') => {
            Err("one file is read by all ranks; leave out the '%'".to_owned())
        }
        _ => Ok(vec![("stdin-file", name.into()), ("stdin", "all".into())]),
    }
}

/// `-t TIME`: `M`, `M:S`, `H:M:S`, `D-H`, `D-H:M` or `D-H:M:S`.
pub(super) fn time(value: &OsStr) -> Result<OsString, String> {
    let seconds = seconds(text(value)?);
    let seconds = seconds.ok_or("that is not a time; try '10' for minutes, '1:30:00' or '1-12'")?;
    Ok(seconds.to_string().into())
}

fn seconds(text: &str) -> Option<u64> {
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(days.parse::<u64>().ok()?), rest),
        None => (None, text),
    };
    let numbers = rest.split(':').map(|number| number.parse::<u64>().ok());
    let numbers: Vec<u64> = numbers.collect::<Option<_>>()?;
    let [hours, minutes, seconds] = match (days, numbers.as_slice()) {
        (None, [minutes]) => [0, *minutes, 0],
        (None, [minutes, seconds]) => [0, *minutes, *seconds],
        (Some(_), [hours]) => [*hours, 0, 0],
        (Some(_), [hours, minutes]) => [*hours, *minutes, 0],
        (_, [hours, minutes, seconds]) => [*hours, *minutes, *seconds],
        _ => return None,
    };
    let days = days.unwrap_or_default().checked_mul(24)?;
    let minutes = days.checked_add(hours)?.checked_mul(60)?.checked_add(minutes)?;
    minutes.checked_mul(60)?.checked_add(seconds)
}

/// `--bcast` without a path.
pub(super) fn bcast(value: &OsStr) -> Result<OsString, String> {
    match text(value)? {
        "" => Ok("true".into()),
        _ => Err("the copy is in a directory of its own; leave the path out".to_owned()),
    }
}

/// `-K[0|1]`.
pub(super) fn kill_on_bad_exit(value: &OsStr) -> Result<OsString, String> {
    match text(value)? {
        "" | "1" => Ok("kill".into()),
        "0" => Ok("ignore".into()),
        _ => Err("there are 0 and 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_slurm_are_minutes_unless_they_say_more() {
        for (text, expected) in [
            ("10", Some(600)),
            ("1:30", Some(90)),
            ("1:00:01", Some(3601)),
            ("1-2", Some(93_600)),
            ("1-2:3", Some(93_780)),
            ("0-0:0:5", Some(5)),
            ("0", Some(0)),
            ("", None),
            ("1:2:3:4", None),
            ("x", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }

    #[test]
    fn masks_are_lists_of_processors() {
        assert_eq!(processors("0x3").as_deref(), Some("0+1"));
        assert_eq!(processors("10").as_deref(), Some("4"));
        assert_eq!((processors("0x0"), processors("0xg")), (None, None));
    }
}
