//! The parsed command line.

use lexopt::prelude::*;
use pmi_sim::mutant::MutantKind;

/// The command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SimCommand {
    Help,
    List,
    Show { name: String, seed: Option<u64> },
    Run { name: String, seed: Option<u64>, trace: Option<String>, mutant: Option<MutantKind> },
    Sweep { names: Vec<String>, seeds: u64, from: u64, mutant: Option<MutantKind> },
    Shrink { name: String, seed: u64, out: Option<String>, mutant: Option<MutantKind> },
    Replay { file: String },
    Scale { ranks: u32, seed: u64 },
    Hashes { names: Vec<String>, seeds: u64, from: u64 },
}

pub(super) const USAGE: &str =
    "Runs PMI jobs in a world of its own: the real server, the real clients, one seed.

  pmi-sim run SCENARIO [--seed S] [--trace FILE|-]    one run; its trace to a file
  pmi-sim sweep [--seeds N] [--from S] [SCENARIO...]  many seeds; all scenarios if none is given
  pmi-sim shrink SCENARIO --seed S [--out FILE]       a smaller scenario that breaks the same rule
  pmi-sim replay TRACE                                run a trace again and compare
  pmi-sim scale [--ranks N] [--seed S]                one fence of very many ranks, and its cost
  pmi-sim hashes [--seeds N] [--from S] [SCENARIO...] the hash of every trace, to compare machines
  pmi-sim list                                        the built-in scenarios
  pmi-sim show SCENARIO [--seed S]                    the text of a scenario

SCENARIO is a file, a built-in one, or `random`, which differs for every seed; with `-as-pmix`
appended, its ranks speak PMIx. With --mutant NAME the server has a fault, which run, sweep and
shrink detect. The exit code is 0 if every rule held, 1 if one did not, and 2 if there
was nothing to run.
";

/// Parses a command line.
///
/// # Errors
///
/// The invalid word.
pub(super) fn parse(mut parser: lexopt::Parser) -> Result<SimCommand, String> {
    let mut words = Vec::new();
    let (mut seed, mut seeds, mut from, mut ranks) = (None, None, None, None);
    let (mut trace, mut out, mut mutant) = (None, None, None);
    let text = |error: lexopt::Error| error.to_string();
    while let Some(arg) = parser.next().map_err(text)? {
        match arg {
            Short('h') | Long("help") => return Ok(SimCommand::Help),
            Long("seed") => seed = Some(number("seed", &value(&mut parser)?)?),
            Long("seeds") => seeds = Some(number("seeds", &value(&mut parser)?)?),
            Long("from") => from = Some(number("from", &value(&mut parser)?)?),
            Long("ranks") => ranks = Some(number("ranks", &value(&mut parser)?)?),
            Long("trace") => trace = Some(value(&mut parser)?),
            Long("out") => out = Some(value(&mut parser)?),
            Long("mutant") => mutant = Some(value(&mut parser)?.parse()?),
            Value(word) => words.push(word.string().map_err(text)?),
            other => return Err(text(other.unexpected())),
        }
    }
    let mut words = words.into_iter();
    let command = words.next().unwrap_or_default();
    let mut name = |what: &str| words.next().ok_or_else(|| format!("{command} needs {what}"));
    let parsed = match command.as_str() {
        "" | "help" => SimCommand::Help,
        "list" => SimCommand::List,
        "show" => SimCommand::Show { name: name("a scenario")?, seed },
        "run" => SimCommand::Run { name: name("a scenario")?, seed, trace, mutant },
        "sweep" => SimCommand::Sweep {
            names: words.by_ref().collect(),
            seeds: seeds.unwrap_or(200),
            from: from.unwrap_or(0),
            mutant,
        },
        "shrink" => {
            let name = name("a scenario")?;
            SimCommand::Shrink { name, seed: seed.ok_or("shrink needs --seed")?, out, mutant }
        }
        "replay" => SimCommand::Replay { file: name("a trace")? },
        "scale" => SimCommand::Scale { ranks: ranks.unwrap_or(1000), seed: seed.unwrap_or(0) },
        "hashes" => SimCommand::Hashes {
            names: words.by_ref().collect(),
            seeds: seeds.unwrap_or(3),
            from: from.unwrap_or(0),
        },
        other => return Err(format!("there is no command `{other}`; `pmi-sim help` names them")),
    };
    match words.next() {
        None => Ok(parsed),
        Some(word) => Err(format!("`{word}` is one word too many")),
    }
}

fn value(parser: &mut lexopt::Parser) -> Result<String, String> {
    parser.value().and_then(|value| value.string()).map_err(|error| error.to_string())
}

fn number<N: std::str::FromStr>(option: &str, text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("--{option} needs a number, not `{text}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<SimCommand, String> {
        parse(lexopt::Parser::from_args(line.split_whitespace()))
    }

    #[test]
    fn commands_are_read() {
        let run = parsed("run a.txt --seed 7 --trace - --mutant swap").unwrap();
        let (trace, mutant) = (Some("-".into()), Some(MutantKind::Swap));
        assert_eq!(run, SimCommand::Run { name: "a.txt".into(), seed: Some(7), trace, mutant });
        let sweep = parsed("sweep --seeds=5 --from 3 x y").unwrap();
        let names = vec!["x".into(), "y".into()];
        assert_eq!(sweep, SimCommand::Sweep { names, seeds: 5, from: 3, mutant: None });
        let shrink = parsed("shrink x --seed 4").unwrap();
        let name = "x".into();
        assert_eq!(shrink, SimCommand::Shrink { name, seed: 4, out: None, mutant: None });
        assert_eq!(parsed("replay t").unwrap(), SimCommand::Replay { file: "t".into() });
        assert_eq!(parsed("scale --ranks 9").unwrap(), SimCommand::Scale { ranks: 9, seed: 0 });
        let hashes = SimCommand::Hashes { names: vec!["x".into()], seeds: 3, from: 0 };
        assert_eq!(parsed("hashes x").unwrap(), hashes);
        assert_eq!(
            (parsed("").unwrap(), parsed("list -h").unwrap()),
            (SimCommand::Help, SimCommand::Help)
        );
    }

    #[test]
    fn errors_are_named() {
        for (line, part) in [
            ("jump", "`jump`"),
            ("run", "needs a scenario"),
            ("run a b", "too many"),
            ("shrink a", "--seed"),
            ("run a --seed x", "not `x`"),
            ("run a --mutant x", "mutants are"),
            ("run --fast", "--fast"),
        ] {
            assert!(parsed(line).unwrap_err().contains(part), "{line}");
        }
    }
}
