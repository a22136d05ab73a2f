//! Tools in front of the programs of some ranks: `-gtool "valgrind --quiet:0,2-3"` of Intel MPI.

use crate::cli::options::numbers;
use crate::settings::job::RankTool;
use pmi_host_base::words;

/// Tools of the value of `-gtool`, which semicolons separate.
///
/// # Errors
///
/// A message with the remedy.
pub(super) fn tools(value: &str) -> Result<Vec<RankTool>, String> {
    let items = value.split(';').map(str::trim).filter(|item| !item.is_empty());
    items.map(tool).collect()
}

/// Tools of a file, with a value of `-gtool` on each line.
pub(super) fn of_file(text: &str) -> Result<Vec<RankTool>, String> {
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut all = Vec::new();
    for line in lines {
        let line = line.strip_prefix("-gtool").unwrap_or(line);
        all.extend(tools(line.trim().trim_matches('"'))?);
    }
    Ok(all)
}

/// Terminals of a window system for the ranks of the value of `--xterm`, as Open MPI starts them. `!` behind
/// a rank, by which the terminal stays, is the default here.
pub(super) fn terminals(value: &str) -> Result<RankTool, String> {
    let ranks = match value.trim_end_matches('!') {
        "all" | "-1" => None,
        list => Some(numbers(list).ok_or("that is no list of ranks; try '0,2', or 'all'")?),
    };
    Ok(RankTool { words: ["xterm", "-hold", "-e"].map(Into::into).into(), ranks })
}

fn tool(item: &str) -> Result<RankTool, String> {
    let example = "try 'valgrind --quiet:0,2-3', or 'valgrind:all'";
    let (command, ranks) =
        item.rsplit_once(':').ok_or_else(|| format!("'{item}' names no ranks; {example}"))?;
    if let Some((_, mode)) = ranks.split_once(['=', '@']) {
        return Err(format!("'{mode}' is not supported: a tool starts its ranks; {example}"));
    }
    let ranks = match ranks.trim() {
        "all" => None,
        list => {
            Some(numbers(list).ok_or_else(|| format!("'{list}' is no list of ranks; {example}"))?)
        }
    };
    let words = words::split(command)?;
    match words.is_empty() {
        true => Err(format!("'{item}' names no tool; {example}")),
        false => Ok(RankTool { words: words.into_iter().map(Into::into).collect(), ranks }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_have_arguments_and_ranks() {
        let all = tools("valgrind --log-file='a b':0,2-3; perf stat:all").unwrap();
        assert_eq!(all[0].words, ["valgrind", "--log-file=a b"]);
        assert_eq!(all[0].ranks.as_deref(), Some(&[0, 2, 3][..]));
        assert_eq!((all[1].words.len(), &all[1].ranks), (2, &None));
        for wrong in ["valgrind", "valgrind:x", ":0", "gdb:0=attach", "perf:0@skx"] {
            assert!(tools(wrong).is_err(), "{wrong}");
        }
        assert_eq!(of_file("# tools\n-gtool \"perf stat:1\"\nvalgrind:0\n").unwrap().len(), 2);
    }
}
