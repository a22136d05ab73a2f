//! Plans as text: what a page plays, shares and lets people edit.

use super::plan::{TreeFault, TreePlan};
use crate::rng::Span;
use crate::scenario::ScenarioError;
use pmi_tree::NodeId;
use std::fmt;
use std::str::FromStr;

/// A plan with a name and a subject.
///
/// ```text
/// name losing-a-node
/// about "Node 1 is killed while a fence is on its way."
/// tree 21 radix 4
/// ranks 16
/// fences 2
/// bytes 40..80
/// pace 0..300
/// latency 30..60
/// fault at 5200 kill 1
/// ```
///
/// `tree` is the number of node servers below the head, with its radix, and marks the text as a tree; every
/// other line may be absent. `ranks` are those of each node, `bytes` what a node adds to a fence, `pace` its
/// time before a fence, and `latency` that of a connection, in microseconds.
#[derive(Clone, Debug)]
pub struct TreeScenario {
    /// Its name.
    pub name: String,
    /// Its subject, line by line.
    pub about: Vec<String>,
    /// The plan.
    pub plan: TreePlan,
}

impl TreeScenario {
    /// True if a text is one of a tree.
    pub fn is_tree(text: &str) -> bool {
        text.lines().any(|line| line.starts_with("tree "))
    }
}

impl FromStr for TreeScenario {
    type Err = ScenarioError;

    fn from_str(text: &str) -> Result<Self, ScenarioError> {
        let plan = TreePlan { latency: Span::new(30, 60), members: 1, ..TreePlan::quiet(1, 1, 0) };
        let mut scenario = Self { name: "tree".into(), about: Vec::new(), plan };
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            scenario.read(line).map_err(|what| ScenarioError { line: at + 1, what })?;
        }
        let plan = &scenario.plan;
        let error = |what: String| Err(ScenarioError { line: 0, what });
        if plan.nodes < 2 {
            return error("`tree N` is missing: the number of nodes below the head".into());
        }
        if let Some((_, fault)) = plan.faults.iter().find(|(_, fault)| fault.node().0 >= plan.nodes)
        {
            let last = plan.nodes - 1;
            return error(format!("there is no node {}; the last one is {last}", fault.node().0));
        }
        Ok(scenario)
    }
}

impl TreeScenario {
    fn read(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let plan = &mut self.plan;
        match *words.as_slice() {
            ["name", name] => self.name = name.into(),
            ["about", ..] => {
                let text = line["about".len()..].trim().trim_matches('"');
                self.about.push(text.into());
            }
            ["tree", nodes, ref rest @ ..] => {
                plan.nodes = 1 + number(nodes, NODES_MAX)?;
                match *rest {
                    [] => {}
                    ["radix", radix] => plan.radix = number(radix, NODES_MAX)?,
                    _ => return Err(format!("`{line}` is not `tree N radix R`")),
                }
            }
            ["ranks", ranks] => plan.members = number(ranks, RANKS_MAX)?,
            ["fences", count] => plan.operations = number(count, FENCES_MAX)?,
            ["bytes", span] => plan.bytes = range(span, BYTES_MAX)?,
            ["pace", span] => plan.pace = range(span, MICROS_MAX)?,
            ["latency", span] => plan.latency = range(span, MICROS_MAX)?,
            ["fault", "at", at, what, node] => {
                let fault = TreeFault::read(what, NodeId(whole(node)?))?;
                plan.faults.push((range(at, MICROS_MAX)?.from, fault));
            }
            _ => {
                let known = "name, about, tree, ranks, fences, bytes, pace, latency and fault";
                return Err(format!("a line of a tree is one of {known}, not `{line}`"));
            }
        }
        Ok(())
    }
}

impl fmt::Display for TreeScenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = &self.plan;
        writeln!(f, "name {}", self.name)?;
        for line in &self.about {
            writeln!(f, "about \"{line}\"")?;
        }
        writeln!(f, "tree {} radix {}", plan.nodes - 1, plan.radix)?;
        writeln!(f, "ranks {}\nfences {}", plan.members, plan.operations)?;
        writeln!(f, "bytes {}\npace {}\nlatency {}", plan.bytes, plan.pace, plan.latency)?;
        plan.faults.iter().try_for_each(|(at, fault)| writeln!(f, "fault at {at} {fault}"))
    }
}

impl TreeFault {
    /// The node that it is about.
    pub const fn node(self) -> NodeId {
        match self {
            Self::Kill(node)
            | Self::Isolate(node)
            | Self::Cut(node)
            | Self::Mute(node)
            | Self::Freeze(node)
            | Self::Storm(node)
            | Self::Jump(node) => node,
        }
    }

    /// Reads the word of a fault.
    ///
    /// # Errors
    ///
    /// A sentence with the known words.
    pub fn read(word: &str, node: NodeId) -> Result<Self, String> {
        match word {
            "kill" => Ok(Self::Kill(node)),
            "stop" => Ok(Self::Isolate(node)),
            "reset" => Ok(Self::Cut(node)),
            "mute" => Ok(Self::Mute(node)),
            "freeze" => Ok(Self::Freeze(node)),
            "storm" => Ok(Self::Storm(node)),
            "jump" => Ok(Self::Jump(node)),
            _ => Err(format!(
                "a node can be hit by kill, stop, reset (of its connection to its parent), mute, freeze, \
                 storm and jump, not `{word}`"
            )),
        }
    }
}

impl fmt::Display for TreeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Self::Kill(_) => "kill",
            Self::Isolate(_) => "stop",
            Self::Cut(_) => "reset",
            Self::Mute(_) => "mute",
            Self::Freeze(_) => "freeze",
            Self::Storm(_) => "storm",
            Self::Jump(_) => "jump",
        };
        write!(f, "{word} {}", self.node().0)
    }
}

fn whole(word: &str) -> Result<u32, String> {
    word.parse().map_err(|_| format!("`{word}` is no whole number"))
}

fn number(word: &str, most: u32) -> Result<u32, String> {
    let found = whole(word)?;
    match (1..=most).contains(&found) {
        true => Ok(found),
        false => Err(format!("`{word}` is not between 1 and {most}")),
    }
}

/// `5` or `5..9`.
fn range(word: &str, most: u64) -> Result<Span, String> {
    let error = || format!("`{word}` is not a number up to {most}, or two with .. between them");
    let (from, to) = word.split_once("..").unwrap_or((word, word));
    let read = |word: &str| word.parse::<u64>().map_err(|_| error());
    let span = Span::new(read(from)?, read(to)?);
    if span.from <= span.to && span.to <= most { Ok(span) } else { Err(error()) }
}

/// More nodes are not drawn well, and take a page too long.
const NODES_MAX: u32 = 400;
const RANKS_MAX: u32 = 10_000;
const FENCES_MAX: u32 = 20;
const BYTES_MAX: u64 = 4_000;
const MICROS_MAX: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name n\nabout \"What it is.\"\ntree 20 radix 3\nranks 16\nfences 2\nbytes 40..80\n\
                        pace 0..300\nlatency 30..60\nfault at 5200 kill 1\nfault at 5300 reset 4\n";

    #[test]
    fn text_of_a_tree_is_written_as_it_is_read() {
        let scenario: TreeScenario = TEXT.parse().unwrap();
        assert_eq!(scenario.to_string(), TEXT);
        assert_eq!((scenario.plan.nodes, scenario.plan.members), (21, 16));
        assert!(TreeScenario::is_tree(TEXT) && !TreeScenario::is_tree("ranks 2\nname tree"));
        assert!("tree 5\n".parse::<TreeScenario>().is_ok());
    }

    #[test]
    fn malformed_lines_are_refused_with_their_number() {
        for bad in [
            "ranks 2",
            "tree 0",
            "tree 401",
            "tree 3 radix 0",
            "tree 3 wide 2",
            "tree 3\nranks 0",
            "tree 3\nfences 21",
            "tree 3\nbytes 9..5",
            "tree 3\npace x",
            "tree 3\nfault at 5 melt 1",
            "tree 3\nfault at 5 kill 4",
            "tree 3\nscript all",
        ] {
            assert!(bad.parse::<TreeScenario>().is_err(), "{bad}");
        }
        assert_eq!("tree 3\nranks 0".parse::<TreeScenario>().unwrap_err().line, 2);
    }
}
