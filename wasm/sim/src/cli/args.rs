//! The parsed command line.

use lexopt::prelude::*;
use pmi_sim::mutant::MutantKind;
use pmi_sim::tree::TreeMutant;

/// The command, its names and its options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SimArgs {
    pub(super) command: String,
    /// The words behind the command.
    pub(super) names: Vec<String>,
    pub(super) seed: Option<u64>,
    pub(super) seeds: Option<u64>,
    pub(super) from: u64,
    pub(super) ranks: u32,
    pub(super) trace: Option<String>,
    pub(super) out: Option<String>,
    pub(super) mutant: Option<MutantKind>,
    pub(super) tree: TreeArgs,
}

/// Options of `pmi-sim tree`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TreeArgs {
    /// Number of nodes, with the head.
    pub(super) nodes: Option<u32>,
    /// Bytes that a node contributes.
    pub(super) bytes: Option<u64>,
    pub(super) mutant: Option<TreeMutant>,
    /// File with the seeds that earlier sweeps have run.
    pub(super) cursor: Option<String>,
    /// Microseconds of a byte on its way.
    pub(super) latency: Option<u64>,
    /// Gbit/s of an interface.
    pub(super) bandwidth: Option<u64>,
}

/// Commands, the name that each requires, and the largest number of names.
const COMMANDS: [(&str, &str, usize); 10] = [
    ("help", "", 0),
    ("list", "", 0),
    ("show", "a scenario", 1),
    ("run", "a scenario", 1),
    ("sweep", "", usize::MAX),
    ("shrink", "a scenario", 1),
    ("replay", "a trace", 1),
    ("scale", "", 0),
    ("hashes", "", usize::MAX),
    ("tree", "sweep, run, scale or fence", 1),
];

pub(super) const USAGE: &str =
    "Runs PMI jobs in a world of its own: the real server, the real clients, one seed.

  pmi-sim run SCENARIO [--seed S] [--trace FILE|-]    one run; its trace to a file
  pmi-sim sweep [--seeds N] [--from S] [SCENARIO...]  many seeds; all scenarios if none is given
  pmi-sim shrink SCENARIO --seed S [--out FILE]       a smaller scenario that breaks the same rule
  pmi-sim replay TRACE                                run a trace again and compare
  pmi-sim scale [--ranks N] [--seed S]                one fence of very many ranks, and its cost
  pmi-sim hashes [--seeds N] [--from S] [SCENARIO...] the hash of every trace, to compare machines
  pmi-sim tree sweep [--seeds N] [--from S]           trees of nodes with faults, by seed
                                   [--cursor FILE]   continued where the last one of the file ended
  pmi-sim tree run --seed S                           one of them
  pmi-sim tree scale [--nodes N] [--bytes B]          one operation of very many nodes, and its cost
  pmi-sim tree fence [--nodes N] [--bytes B]          its time alone, in microseconds; more data than fits
                    [--latency US] [--bandwidth GBIT] into memory is estimated from a part
  pmi-sim list                                        the built-in scenarios
  pmi-sim show SCENARIO [--seed S]                    the text of a scenario

SCENARIO is a file, a built-in one, or `random`, which differs for every seed; with `-as-pmix`
appended, its ranks speak PMIx. With --mutant NAME the server has a fault, which run, sweep and
shrink detect; --tree-mutant does the same for tree sweep and tree run. The exit code is 0 if every
rule held, 1 if one did not, and 2 if there was nothing to run.
";

/// Parses a command line.
///
/// # Errors
///
/// The invalid word.
pub(super) fn parse(mut parser: lexopt::Parser) -> Result<SimArgs, String> {
    let mut words = Vec::new();
    let mut args = SimArgs { ranks: 1000, ..SimArgs::default() };
    let text = |error: lexopt::Error| error.to_string();
    while let Some(arg) = parser.next().map_err(text)? {
        match arg {
            Short('h') | Long("help") => return Ok(SimArgs { command: "help".into(), ..args }),
            Long("seed") => args.seed = Some(number("seed", &value(&mut parser)?)?),
            Long("seeds") => args.seeds = Some(number("seeds", &value(&mut parser)?)?),
            Long("from") => args.from = number("from", &value(&mut parser)?)?,
            Long("ranks") => args.ranks = number("ranks", &value(&mut parser)?)?,
            Long("trace") => args.trace = Some(value(&mut parser)?),
            Long("out") => args.out = Some(value(&mut parser)?),
            Long("mutant") => args.mutant = Some(value(&mut parser)?.parse()?),
            Long("nodes") => args.tree.nodes = Some(number("nodes", &value(&mut parser)?)?),
            Long("bytes") => args.tree.bytes = Some(number("bytes", &value(&mut parser)?)?),
            Long("latency") => args.tree.latency = Some(number("latency", &value(&mut parser)?)?),
            Long("bandwidth") => {
                args.tree.bandwidth = Some(number("bandwidth", &value(&mut parser)?)?);
            }
            Long("cursor") => args.tree.cursor = Some(value(&mut parser)?),
            Long("tree-mutant") => args.tree.mutant = Some(value(&mut parser)?.parse()?),
            Value(word) => words.push(word.string().map_err(text)?),
            other => return Err(text(other.unexpected())),
        }
    }
    let mut words = words.into_iter();
    args.command = words.next().unwrap_or_else(|| "help".into());
    args.names = words.collect();
    check(&args).map(|()| args)
}

/// Checks the number of names of a command, and its required option.
fn check(args: &SimArgs) -> Result<(), String> {
    let SimArgs { command, names, seed, .. } = args;
    let row = COMMANDS.iter().find(|(known, ..)| known == command);
    let unknown = || format!("there is no command `{command}`; `pmi-sim help` names them");
    let (_, needed, most) = row.ok_or_else(unknown)?;
    match names.get(*most) {
        _ if names.is_empty() && !needed.is_empty() => Err(format!("{command} needs {needed}")),
        _ if command == "shrink" && seed.is_none() => Err("shrink needs --seed".into()),
        Some(word) => Err(format!("`{word}` is one word too many")),
        _ if args.tree.nodes.is_some_and(|nodes| nodes < 2) => {
            Err("--nodes needs 2 or more: the head and one host".into())
        }
        None => Ok(()),
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

    fn parsed(line: &str) -> Result<SimArgs, String> {
        parse(lexopt::Parser::from_args(line.split_whitespace()))
    }

    fn expected(command: &str, names: &[&str]) -> SimArgs {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        SimArgs { command: command.into(), names, ranks: 1000, ..SimArgs::default() }
    }

    #[test]
    fn commands_are_read_with_their_options() {
        let run = parsed("run a.txt --seed 7 --trace - --mutant swap").unwrap();
        let (trace, mutant) = (Some("-".into()), Some(MutantKind::Swap));
        assert_eq!(run, SimArgs { seed: Some(7), trace, mutant, ..expected("run", &["a.txt"]) });
        let sweep = parsed("sweep --seeds=5 --from 3 x y").unwrap();
        assert_eq!(sweep, SimArgs { seeds: Some(5), from: 3, ..expected("sweep", &["x", "y"]) });
        let shrink = parsed("shrink x --seed 4 --out y").unwrap();
        let out = Some("y".into());
        assert_eq!(shrink, SimArgs { seed: Some(4), out, ..expected("shrink", &["x"]) });
        assert_eq!(parsed("replay t").unwrap(), expected("replay", &["t"]));
        let scale = parsed("scale --ranks 9").unwrap();
        assert_eq!(scale, SimArgs { ranks: 9, ..expected("scale", &[]) });
        assert_eq!(parsed("hashes x").unwrap(), expected("hashes", &["x"]));
        let tree = TreeArgs {
            nodes: Some(9),
            bytes: Some(7),
            mutant: Some(TreeMutant::Garbage),
            cursor: Some("f".into()),
            ..TreeArgs::default()
        };
        assert_eq!(
            parsed("tree scale --nodes 9 --bytes 7 --tree-mutant garbage --cursor f").unwrap(),
            SimArgs { tree, ..expected("tree", &["scale"]) }
        );
        let tree = TreeArgs { latency: Some(9), bandwidth: Some(8), ..TreeArgs::default() };
        assert_eq!(
            parsed("tree fence --latency 9 --bandwidth 8").unwrap(),
            SimArgs { tree, ..expected("tree", &["fence"]) }
        );
        assert_eq!(parsed("").unwrap(), expected("help", &[]));
        assert_eq!(parsed("list -h").unwrap(), expected("help", &[]));
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
            ("tree", "sweep, run, scale or fence"),
            ("tree fence --latency x", "--latency needs a number"),
            ("tree fence --rank-per-host 3", "rank-per-host"),
            ("tree scale --nodes 1", "--nodes"),
            ("tree run --tree-mutant x", "mutants of the tree are"),
        ] {
            assert!(parsed(line).unwrap_err().contains(part), "{line}");
        }
    }
}
