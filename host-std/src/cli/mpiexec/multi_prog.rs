//! Configuration file of `srun --multi-prog`: a line names ranks, and the program that they run.
//!
//! Spec: `srun(1)`, MULTIPLE PROGRAM CONFIGURATION.

use crate::cli::options::numbers;
use pmi_host_base::words;

/// Programs of the file `text` for `ranks` ranks, or for all that it names: the number of consecutive ranks
/// of each, and its words.
///
/// # Errors
///
/// A message with the line.
pub(super) fn programs(text: &str, ranks: Option<u32>) -> Result<Vec<(u32, Vec<String>)>, String> {
    let mut lines = Vec::new();
    for line in words::lines(text) {
        let mut words = words::split(&line)?.into_iter();
        let of = words.next().unwrap_or_default();
        let of = match of.as_str() {
            "*" => None,
            list => Some(
                numbers(list)
                    .ok_or_else(|| format!("'{list}' is no list of ranks; try '0-3,5'"))?,
            ),
        };
        let words: Vec<String> = words.collect();
        if words.is_empty() {
            return Err(format!("'{line}' names no program"));
        }
        lines.push((of, words));
    }
    let named = lines.iter().filter_map(|(of, _)| of.as_ref()?.iter().max()).max();
    let ranks = match (ranks, named) {
        (Some(ranks), _) => ranks,
        (None, Some(last)) => last + 1,
        (None, None) => return Err("a number of ranks is missing; '-n 4' is one".to_owned()),
    };
    let mut programs: Vec<(u32, Vec<String>)> = Vec::new();
    for rank in 0..ranks {
        let found = lines.iter().find_map(|(of, words)| match of {
            None => Some((rank, words)),
            Some(all) => {
                Some((u32::try_from(all.iter().position(|one| *one == rank)?).ok()?, words))
            }
        });
        let (offset, words) = found.ok_or_else(|| format!("no line is for rank {rank}"))?;
        let fill = |word: &String| {
            word.replace("%t", &rank.to_string()).replace("%o", &offset.to_string())
        };
        let words: Vec<String> = words.iter().map(fill).collect();
        match programs.last_mut().filter(|(_, last)| *last == words) {
            Some((count, _)) => *count += 1,
            None => programs.push((1, words)),
        }
    }
    Ok(programs)
}
