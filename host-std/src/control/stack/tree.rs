//! Stacks of many ranks, merged from the outermost call on: ranks share a line as long as their calls are
//! the same.

use super::frame::ThreadStack;
use crate::rank_sets;
use pmi_host_base::ranges::Ranks;
use std::fmt::Write;

/// Calls below one call, or below none at the root.
#[derive(Debug, Default)]
pub(super) struct StackTree {
    branches: Vec<Branch>,
}

#[derive(Debug)]
struct Branch {
    text: String,
    ranks: Ranks,
    below: StackTree,
}

impl StackTree {
    /// Adds the stack of one thread of `rank`. Ranks are added in ascending order.
    pub(super) fn add(&mut self, rank: u32, stack: &ThreadStack) {
        let name = format!("{}:", stack.name);
        let mut texts: Vec<String> = stack.frames.iter().map(ToString::to_string).collect();
        // Calls between functions without a name look the same.
        texts.dedup();
        let mut tree = self;
        for text in std::iter::once(name).chain(texts) {
            let at = tree.branches.iter().position(|branch| branch.text == text);
            let at = at.unwrap_or_else(|| {
                let (ranks, below) = (Ranks::default(), Self::default());
                tree.branches.push(Branch { text, ranks, below });
                tree.branches.len() - 1
            });
            let branch = &mut tree.branches[at];
            if !branch.ranks.contains(rank) {
                branch.ranks.push(rank);
            }
            tree = &mut branch.below;
        }
    }

    /// The tree as text, each line behind `indent` blanks. A line that not all ranks share names those that
    /// do.
    pub(super) fn text(&self, indent: usize) -> String {
        let mut text = String::new();
        self.write(&mut text, indent, &Ranks::default());
        text
    }

    fn write(&self, text: &mut String, indent: usize, above: &Ranks) {
        let ended = rank_sets::union(self.branches.iter().map(|branch| &branch.ranks));
        let ended = rank_sets::without(above, &ended);
        if !self.branches.is_empty() && !ended.is_empty() {
            let _ = write!(text, "\n{:indent$}{}: nothing further", "", ended.named());
        }
        for branch in &self.branches {
            let is_shared = branch.ranks == *above && self.branches.len() == 1;
            let _ = match is_shared {
                true => write!(text, "\n{:indent$}{}", "", branch.text),
                false => write!(text, "\n{:indent$}{}, {}", "", branch.ranks.named(), branch.text),
            };
            let indent = if is_shared { indent } else { indent + STEP };
            branch.below.write(text, indent, &branch.ranks);
        }
    }
}

/// Blanks by which the calls of fewer ranks are indented.
const STEP: usize = 2;

#[cfg(test)]
mod tests {
    use super::super::frame::StackFrame;
    use super::*;

    fn stack(name: &str, functions: &[&str]) -> ThreadStack {
        let frame = |function: &&str| StackFrame::in_image(function, "/lib/libx.so.1");
        ThreadStack { name: name.to_owned(), frames: functions.iter().map(frame).collect() }
    }

    #[test]
    fn equal_calls_are_one_line_and_others_name_their_ranks() {
        let mut tree = StackTree::default();
        for rank in [0, 1, 2, 5] {
            tree.add(rank, &stack("a.out", &["main", "init", "??", "??", "read"]));
        }
        tree.add(6, &stack("a.out", &["main", "compute"]));
        tree.add(6, &stack("a.out, thread async", &["poll"]));
        tree.add(7, &stack("a.out", &["main"]));
        let expected = "
  ranks 0-2,5-7, a.out:
    main in libx.so.1
    rank 7: nothing further
    ranks 0-2,5, init in libx.so.1
      ?? in libx.so.1
      read in libx.so.1
    rank 6, compute in libx.so.1
  rank 6, a.out, thread async:
    poll in libx.so.1";
        assert_eq!(tree.text(2), expected);
    }
}
