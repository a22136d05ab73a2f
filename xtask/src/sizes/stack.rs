//! The worst path of calls, from the frames and the machine code of an image.

use std::collections::{BTreeMap, BTreeSet};

/// The graph of calls, and the frame of each function.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    frames: BTreeMap<String, i64>,
    callees: BTreeMap<String, BTreeSet<String>>,
    /// Functions that also call through a register.
    indirect: BTreeSet<String>,
}

/// The deepest the stack gets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Worst {
    pub(crate) bytes: i64,
    pub(crate) unfollowed: i64,
}

impl Calls {
    /// Reads what `llvm-readobj --stack-sizes` and `llvm-objdump -d` print.
    pub(crate) fn read(frames: &str, code: &str) -> Self {
        let mut calls = Self::default();
        let mut names: Vec<String> = Vec::new();
        for line in frames.lines().map(str::trim) {
            if let Some(list) = line.strip_prefix("Functions: [") {
                names = list.trim_end_matches(']').split(", ").map(String::from).collect();
            } else if let Some(size) = line.strip_prefix("Size: 0x") {
                let size = i64::from_str_radix(size, 16).unwrap_or(0);
                calls.frames.extend(names.drain(..).map(|name| (name, size)));
            }
        }
        let mut here = String::new();
        for line in code.lines() {
            if let Some(name) = heading(line) {
                // A label within a function is no function.
                if !name.starts_with('.') && !name.starts_with('$') {
                    name.clone_into(&mut here);
                }
            } else if let Some((instruction, operands)) = instruction(line) {
                match callee(operands) {
                    Some(name)
                        if name != here && jumps(instruction) && !fills(instruction, operands) =>
                    {
                        calls.callees.entry(here.clone()).or_default().insert(name.into());
                    }
                    None if calls_register(instruction, operands) => {
                        calls.indirect.insert(here.clone());
                    }
                    _ => {}
                }
            }
        }
        calls
    }

    /// Follows all calls from `entry` on.
    ///
    /// # Errors
    ///
    /// No such function, or one that calls itself.
    pub(crate) fn worst(&self, entry: &str) -> Result<Worst, String> {
        if !self.frames.contains_key(entry) {
            return Err(format!("no frame of `{entry}`"));
        }
        let mut known = BTreeMap::new();
        let bytes = self.depth(entry, &mut known, &mut Vec::new())?;
        let unfollowed = known.keys().filter(|name| self.indirect.contains(**name)).count();
        Ok(Worst { bytes, unfollowed: i64::try_from(unfollowed).unwrap_or(i64::MAX) })
    }

    fn depth<'a>(
        &'a self,
        name: &'a str,
        known: &mut BTreeMap<&'a str, i64>,
        path: &mut Vec<&'a str>,
    ) -> Result<i64, String> {
        if let Some(bytes) = known.get(name) {
            return Ok(*bytes);
        }
        if path.contains(&name) {
            return Err(format!("`{name}` calls itself, so nothing bounds the stack"));
        }
        path.push(name);
        let mut deepest = 0;
        for callee in self.callees.get(name).into_iter().flatten() {
            deepest = deepest.max(self.depth(callee, known, path)?);
        }
        path.pop();
        let bytes = deepest + self.frames.get(name).copied().unwrap_or(0);
        known.insert(name, bytes);
        Ok(bytes)
    }
}

/// `08000244 <name>:`
fn heading(line: &str) -> Option<&str> {
    let (address, rest) = line.split_once(" <")?;
    let is_address = !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit());
    rest.strip_suffix(">:").filter(|_| is_address)
}

/// ` 8000252:  bl  0x8000208 <name> @ imm`
fn instruction(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.trim_start().split_once(':')?;
    let rest = rest.trim_start();
    Some(rest.split_once(char::is_whitespace).unwrap_or((rest, "")))
}

/// The function whose beginning the operands name; a place within one is no call.
fn callee(operands: &str) -> Option<&str> {
    let (_, rest) = operands.split_once('<')?;
    let (name, _) = rest.split_once('>')?;
    (!name.contains('+')).then_some(name)
}

fn jumps(instruction: &str) -> bool {
    let word = instruction.split('.').next().unwrap_or(instruction);
    word.starts_with('b') && word.len() <= 3 || word.starts_with("cb")
}

/// The linker fills gaps between functions with bytes `d4`, and two of them read as this branch, which
/// sometimes meets the beginning of a function.
fn fills(instruction: &str, operands: &str) -> bool {
    instruction == "bmi" && operands.trim_end().ends_with("#-0x58")
}

fn calls_register(instruction: &str, operands: &str) -> bool {
    match instruction {
        "blx" => true,
        "bx" => operands.trim() != "lr",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: &str = "StackSizes [\n  Entry {\n    Functions: [reset]\n    Size: 0x8\n  }\n  \
        Entry {\n    Functions: [a, b]\n    Size: 0x10\n  }\n  Entry {\n    Functions: [c]\n    \
        Size: 0x64\n  }\n]\n";
    const CODE: &str = "
08000000 <reset>:
 8000000:      \tbl\t0x8000010 <a> @ imm = #0x10
 8000004:      \tb\t0x8000000 <reset> @ imm = #-0x4

08000010 <a>:
 8000010:      \tbeq\t0x8000014 <a+0x4> @ imm = #0x0
 8000012:      \tldr\tr0, [pc, #0x10]  @ 0x8000024 <c>
 8000014:      \tb.w\t0x8000020 <b> @ imm = #0x8

08000020 <b>:
 8000020:      \tblx\tr4
 8000022:      \tbx\tlr

08000030 <c>:
 8000030:      \tbl\t0x8000020 <b> @ imm = #-0x10
";

    #[test]
    fn worst_path_is_the_sum_of_its_frames() {
        let calls = Calls::read(FRAMES, CODE);
        assert_eq!(calls.worst("reset"), Ok(Worst { bytes: 8 + 16 + 16, unfollowed: 1 }));
        assert_eq!(calls.worst("c"), Ok(Worst { bytes: 100 + 16, unfollowed: 1 }));
        assert!(calls.worst("d").is_err());
    }

    #[test]
    fn padding_has_no_calls() {
        let gap = "08000020 <b>:\n";
        for (displacement, calls_itself) in [("-0x58", false), ("-0x56", true)] {
            let branch = format!("bmi\t0x8000000 <reset> @ imm = #{displacement}");
            let code = CODE.replace(gap, &format!(" 8000018:      \t{branch}\n{gap}"));
            assert_eq!(Calls::read(FRAMES, &code).worst("reset").is_err(), calls_itself, "{code}");
        }
    }

    #[test]
    fn recursive_functions_are_named() {
        let code = CODE.replace("blx\tr4", "bl\t0x8000010 <a> @ imm");
        assert!(Calls::read(FRAMES, &code).worst("reset").is_err_and(|why| why.contains('a')));
    }
}
