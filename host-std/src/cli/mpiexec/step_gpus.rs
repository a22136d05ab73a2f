//! GPUs of a step in the words of `srun`, as options of `run`.
//!
//! Some of these words describe the GPUs of the whole step, and their effect depends on others, so that all
//! are collected first. Spec: `srun(1)` of Slurm 22.05.

use super::policies::text;
use super::slurm_values::processors;
use crate::launch::topology::binding::count;
use crate::settings::placement::Unit;
use std::ffi::{OsStr, OsString};

/// Words about GPUs, as far as they were given.
#[derive(Clone, Debug, Default)]
pub(super) struct StepGpus {
    /// `--gpus-per-task`.
    per_task: Option<u32>,
    /// `--gpus-per-node`, `--gpus-per-socket` and `--gres`.
    per_node: Option<u32>,
    /// `--gpus`.
    all: Option<u32>,
    /// `--ntasks-per-gpu`.
    ranks_of_gpu: Option<u32>,
    /// `--cpus-per-gpu`.
    processors_of_gpu: Option<u32>,
    /// `--gpu-bind`.
    bind: Option<StepBinding>,
    /// True if the GPUs of each rank are shown.
    is_shown: bool,
    /// What has no effect.
    pub(super) without_effect: Vec<String>,
}

/// Takes the value of one of the options.
pub(super) type TakeGpus = fn(&mut StepGpus, &OsStr) -> Result<(), String>;

/// `--gpu-bind`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum StepBinding {
    /// Each rank has all GPUs of the step.
    Nothing,
    /// All that are near its processors.
    Closest,
    /// One for each so many ranks.
    Single(u32),
    /// So many for each rank.
    PerTask(u32),
    /// As `list:` has them.
    List(String),
}

/// Size of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepSize {
    /// Number of nodes.
    pub(super) nodes: u32,
    /// Number of ranks, if it was given.
    pub(super) ranks: Option<u32>,
}

/// Options of `run` for a step.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct StepOptions {
    /// Options.
    pub(super) given: Vec<(&'static str, OsString)>,
    /// Defaults that `--cpu-bind` overrides.
    pub(super) weak: Vec<(&'static str, OsString)>,
}

impl StepGpus {
    /// Takes the words that were typed in place of those of variables.
    pub(super) fn override_by(&mut self, typed: Self) {
        self.per_task = typed.per_task.or(self.per_task);
        self.per_node = typed.per_node.or(self.per_node);
        self.all = typed.all.or(self.all);
        self.ranks_of_gpu = typed.ranks_of_gpu.or(self.ranks_of_gpu);
        self.processors_of_gpu = typed.processors_of_gpu.or(self.processors_of_gpu);
        self.bind = typed.bind.or(self.bind.take());
        self.is_shown |= typed.is_shown;
        self.without_effect.extend(typed.without_effect);
    }

    /// Options with the effect of all words together.
    ///
    /// # Errors
    ///
    /// A message about words that contradict each other, or need another one.
    pub(super) fn options(&self, size: StepSize) -> Result<StepOptions, String> {
        let mut found = StepOptions::default();
        if self.is_shown {
            found.given.push(("display", "map".into()));
        }
        let all_of_node = self.all.map(|all| all.div_ceil(size.nodes.max(1)));
        let per_node = self.per_node.or(all_of_node);
        let per_task = match (self.per_task, self.ranks_of_gpu) {
            (Some(_), Some(_)) => {
                return Err(
                    "'--gpus-per-task' contradicts '--ntasks-per-gpu'; leave one of them out"
                        .to_owned(),
                );
            }
            (Some(gpus), None) => Some(StepBinding::PerTask(gpus)),
            (None, Some(ranks)) => Some(StepBinding::Single(ranks)),
            (None, None) => None,
        };
        if size.ranks.is_none() {
            let all = self.all.or(per_node.map(|gpus| gpus.saturating_mul(size.nodes)));
            let ranks = match (all, &per_task) {
                (Some(all), Some(StepBinding::Single(ranks))) => Some(all.saturating_mul(*ranks)),
                (Some(all), Some(StepBinding::PerTask(gpus))) if self.all.is_some() => {
                    Some((all / (*gpus).max(1)).max(1))
                }
                (None, Some(StepBinding::Single(_))) => {
                    return Err(
                        "'--ntasks-per-gpu' needs the number of ranks or of GPUs; add '-n', or \
                                '--gpus'"
                            .to_owned(),
                    );
                }
                _ => None,
            };
            found.given.extend(ranks.map(|ranks| ("ranks", ranks.to_string().into())));
        }
        let binding = self.bind.clone().or(per_task.clone());
        match binding.unwrap_or(StepBinding::Nothing) {
            StepBinding::Nothing => {
                // The first ones: the others are not part of the step.
                if let Some(gpus) = per_node {
                    let list: Vec<String> = (0..gpus).map(|gpu| gpu.to_string()).collect();
                    found.list(&list.join("+"));
                }
            }
            StepBinding::Closest => match self.per_task {
                Some(gpus) => found.given.push(("gpus-per-rank", gpus.to_string().into())),
                None => found.given.push(("gpu-bind", "as:slurm".into())),
            },
            StepBinding::Single(ranks) => found.given.extend([
                ("gpu-bind", "as:slurm".into()),
                ("gpus-per-rank", "1".into()),
                ("gpu-share", ranks.to_string().into()),
            ]),
            StepBinding::PerTask(gpus) => {
                found.given.push(("gpus-per-rank", gpus.to_string().into()));
            }
            StepBinding::List(list) => found.list(&list),
        }
        if let Some(processors) = self.processors_of_gpu {
            let of_rank = match (&per_task, per_node, size.ranks) {
                (Some(StepBinding::PerTask(gpus)), ..) => processors.saturating_mul(*gpus),
                (Some(StepBinding::Single(ranks)), ..) => processors / (*ranks).max(1),
                (_, Some(gpus), Some(ranks)) => {
                    let all = processors.saturating_mul(gpus).saturating_mul(size.nodes);
                    all / ranks.max(1)
                }
                _ => {
                    return Err("'--cpus-per-gpu' needs the number of GPUs of each rank; add \
                                '--gpus-per-task'"
                        .to_owned());
                }
            };
            found.weak.push(("bind-to", format!("hwthread:{}", of_rank.max(1)).into()));
        }
        Ok(found)
    }
}

impl StepOptions {
    /// Assigns the GPUs of a list, whoever else has them.
    fn list(&mut self, list: &str) {
        self.given.push(("gpu-bind", format!("list:{list}").into()));
        self.given.push(("gpu-share", u32::MAX.to_string().into()));
    }
}

/// `--gpus-per-task=[TYPE:]N`.
pub(super) fn per_task(gpus: &mut StepGpus, value: &OsStr) -> Result<(), String> {
    gpus.per_task = Some(gpus.typed(text(value)?)?);
    Ok(())
}

/// `--gpus-per-node=[TYPE:]N`.
pub(super) fn per_node(gpus: &mut StepGpus, value: &OsStr) -> Result<(), String> {
    gpus.per_node = Some(gpus.typed(text(value)?)?);
    Ok(())
}

/// `--gpus-per-socket=[TYPE:]N`; the sockets of this host are counted.
pub(super) fn per_socket(gpus: &mut StepGpus, value: &OsStr) -> Result<(), String> {
    let sockets = u32::try_from(count(Unit::Socket)?).unwrap_or(u32::MAX);
    gpus.per_node = Some(gpus.typed(text(value)?)?.saturating_mul(sockets));
    Ok(())
}

/// `--gpus=[TYPE:]N`.
pub(super) fn all(gpus: &mut StepGpus, value: &OsStr) -> Result<(), String> {
    gpus.all = Some(gpus.typed(text(value)?)?);
    Ok(())
}

/// `--ntasks-per-gpu=N`.
pub(super) fn ranks_of_gpu(gpus: &mut StepGpus, value: &OsStr) -> Result<(), String> {
    gpus.ranks_of_gpu = Some(number(text(value)?, "ranks")?);
    Ok(())
}

/// `--cpus-per-gpu=N`.
pub(super) fn processors_of_gpu(gpus: &mut StepGpus, value: &OsStr) -> Result<(), String> {
    gpus.processors_of_gpu = Some(number(text(value)?, "processors")?);
    Ok(())
}

/// `--gres=gpu[:TYPE][:N],…`.
pub(super) fn gres(gpus: &mut StepGpus, value: &OsStr) -> Result<(), String> {
    for word in text(value)?.split(',').filter(|word| !word.is_empty() && *word != "none") {
        let word = word.strip_prefix("gres:").unwrap_or(word);
        match word.split_once([':', '=']) {
            None if word == GPU => gpus.per_node = Some(1),
            Some((GPU, count)) => gpus.per_node = Some(gpus.typed(count)?),
            _ => gpus.without_effect.push(format!("'--gres {word}'")),
        }
    }
    Ok(())
}

/// `--tres-per-task=gres/gpu[:TYPE]:N,…`.
pub(super) fn tres_per_task(gpus: &mut StepGpus, value: &OsStr) -> Result<(), String> {
    for word in text(value)?.split(',').filter(|word| !word.is_empty()) {
        match word.strip_prefix(GRES_GPU).and_then(|rest| rest.strip_prefix([':', '='])) {
            Some(count) => gpus.per_task = Some(gpus.typed(count)?),
            None => gpus.without_effect.push(format!("'--tres-per-task {word}'")),
        }
    }
    Ok(())
}

/// `--tres-bind=gres/gpu:WHAT`.
pub(super) fn tres_bind(gpus: &mut StepGpus, value: &OsStr) -> Result<(), String> {
    let what = text(value)?.strip_prefix(GRES_GPU).and_then(|rest| rest.strip_prefix(':'));
    let what = what.ok_or("only GPUs are bound; try 'gres/gpu:closest'")?;
    bind(gpus, OsStr::new(what))
}

/// `--gpu-bind=[verbose,]WHAT`.
pub(super) fn bind(gpus: &mut StepGpus, value: &OsStr) -> Result<(), String> {
    let mut what = text(value)?;
    while let Some((word @ ("v" | "verbose" | "q" | "quiet"), rest)) = what.split_once(',') {
        gpus.is_shown |= word.starts_with('v');
        what = rest;
    }
    let (kind, list) = what.split_once(':').unwrap_or((what, ""));
    gpus.bind = Some(match kind {
        "none" => StepBinding::Nothing,
        "closest" => StepBinding::Closest,
        "single" => StepBinding::Single(number(list, "ranks")?),
        "per_task" => StepBinding::PerTask(number(list, GPUS)?),
        "map_gpu" => StepBinding::List(mapped(list)?),
        "mask_gpu" => StepBinding::List(masked(list)?),
        _ => {
            return Err(
                "there are none, closest, single:1, per_task:1, map_gpu:0,1 and mask_gpu:0x3,0xc"
                    .to_owned(),
            );
        }
    });
    Ok(())
}

impl StepGpus {
    /// Number behind a type of GPUs, which the batch system has chosen.
    fn typed(&mut self, value: &str) -> Result<u32, String> {
        let Some((kind, count)) = value.rsplit_once([':', '=']) else {
            // A type alone is one of its kind.
            return match value.parse::<u32>() {
                Err(_) if !value.is_empty() => self.typed(&format!("{value}:1")),
                _ => number(value, GPUS),
            };
        };
        self.without_effect
            .push(format!("the type '{kind}' of GPUs (the allocation has chosen them)"));
        number(count, GPUS)
    }
}

/// Numbers, one for each rank; `0*4` is the same number for four ranks.
pub(super) fn mapped(list: &str) -> Result<String, String> {
    let one = |word: &str| {
        let number = match word.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => word.parse(),
        };
        number.ok().map(|number| number.to_string())
    };
    repeated(list, one).ok_or_else(|| format!("'{list}' is not a list of numbers; try '0,1'"))
}

/// Masks, one for each rank.
pub(super) fn masked(list: &str) -> Result<String, String> {
    repeated(list, processors)
        .ok_or_else(|| format!("'{list}' is not a list of masks; try '0x3,0xc'"))
}

fn repeated(list: &str, translate: impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut all = Vec::new();
    for word in list.split(',') {
        let (word, times) = word.split_once('*').unwrap_or((word, "1"));
        let times = times.parse().ok().filter(|times| (1..=TIMES_MAX).contains(times))?;
        all.extend(std::iter::repeat_n(translate(word)?, times));
    }
    Some(all.join(","))
}

fn number(value: &str, what: &str) -> Result<u32, String> {
    let number = value.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("'{value}' is not a number of {what}; try '1'"))
}

const GPU: &str = "gpu";
const GPUS: &str = "GPUs";
const GRES_GPU: &str = "gres/gpu";

/// Most ranks of a node for which a list repeats a word.
const TIMES_MAX: usize = 65536;

#[cfg(test)]
mod tests {
    use super::*;

    type Words<'a> = &'a [(TakeGpus, &'a str)];

    fn read(words: Words<'_>, size: StepSize) -> Result<String, String> {
        let mut gpus = StepGpus::default();
        for (take, value) in words {
            take(&mut gpus, OsStr::new(value))?;
        }
        let options = gpus.options(size)?;
        let all = options.given.iter().chain(&options.weak);
        let shown = all.map(|(name, value)| format!("--{name} {}", value.display()));
        Ok(shown.collect::<Vec<_>>().join(" ").replace(&format!(" --gpu-share {}", u32::MAX), ""))
    }

    #[test]
    fn words_about_the_gpus_of_a_step_have_one_effect_together() {
        let (one, two) =
            (StepSize { nodes: 1, ranks: None }, StepSize { nodes: 2, ranks: Some(4) });
        let cases: [(Words<'_>, StepSize, &str); 16] = [
            (&[(per_task, "2")], two, "--gpus-per-rank 2"),
            (&[(per_task, "a100:2")], two, "--gpus-per-rank 2"),
            (&[(per_task, "1"), (all, "4")], one, "--ranks 4 --gpus-per-rank 1"),
            (&[(per_task, "1"), (bind, "closest")], two, "--gpus-per-rank 1"),
            (&[(all, "4")], two, "--gpu-bind list:0+1"),
            (&[(gres, "gpu:a100:2,shard:1")], one, "--gpu-bind list:0+1"),
            (&[(gres, "none")], one, ""),
            (&[(per_node, "4"), (bind, "closest")], one, "--gpu-bind as:slurm"),
            (&[(bind, "single:2")], two, "--gpu-bind as:slurm --gpus-per-rank 1 --gpu-share 2"),
            (&[(tres_bind, "gres/gpu:per_task:2")], two, "--gpus-per-rank 2"),
            (&[(bind, "map_gpu:0*2,0x3")], two, "--gpu-bind list:0,0,3"),
            (&[(bind, "verbose,mask_gpu:0x3,c")], two, "--display map --gpu-bind list:0+1,2+3"),
            (
                &[(ranks_of_gpu, "2"), (per_node, "4")],
                one,
                "--ranks 8 --gpu-bind as:slurm --gpus-per-rank 1 --gpu-share 2",
            ),
            (
                &[(tres_per_task, "gres/gpu:2"), (processors_of_gpu, "4")],
                two,
                "--gpus-per-rank 2 --bind-to hwthread:8",
            ),
            (
                &[(ranks_of_gpu, "2"), (processors_of_gpu, "4")],
                two,
                "--gpu-bind as:slurm --gpus-per-rank 1 --gpu-share 2 --bind-to hwthread:2",
            ),
            (
                &[(per_node, "4"), (processors_of_gpu, "3"), (bind, "none")],
                two,
                "--gpu-bind list:0+1+2+3 --bind-to hwthread:6",
            ),
        ];
        for (words, size, expected) in cases {
            let values: Vec<&str> = words.iter().map(|(_, value)| *value).collect();
            assert_eq!(read(words, size).as_deref(), Ok(expected), "{values:?}");
        }
    }

    #[test]
    fn words_that_say_too_little_or_too_much_are_refused() {
        let size = StepSize { nodes: 1, ranks: None };
        let cases: [(Words<'_>, &str); 9] = [
            (&[(ranks_of_gpu, "2")], "add '-n', or '--gpus'"),
            (&[(processors_of_gpu, "2")], "add '--gpus-per-task'"),
            (&[(per_task, "1"), (ranks_of_gpu, "2")], "leave one of them out"),
            (&[(per_task, "0")], "'0' is not a number of GPUs"),
            (&[(per_task, "")], "'' is not a number of GPUs"),
            (&[(bind, "single:x")], "'x' is not a number of ranks"),
            (&[(bind, "map_gpu:0,x")], "try '0,1'"),
            (&[(bind, "mask_gpu:0x0")], "try '0x3,0xc'"),
            (&[(bind, "map_gpu:0*99999999999")], "try '0,1'"),
        ];
        for (words, expected) in cases {
            let why = read(words, size).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }
}
