//! Text of a run without what differs between two runs of one build: numbers of processes, times, ports,
//! keys.

/// Replaces such numbers by `#`, and several blanks by one.
pub(super) fn normal(text: &str) -> String {
    let mut normal = String::new();
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            normal.push('\n');
        }
        push_line(&mut normal, line);
    }
    normal
}

fn push_line(normal: &mut String, line: &str) {
    let mut words = line.split(' ').filter(|word| !word.is_empty()).peekable();
    let mut previous = "";
    while let Some(word) = words.next() {
        let next = words.peek().copied().unwrap_or("");
        if !previous.is_empty() {
            normal.push(' ');
        }
        push_word(normal, word, is_process(previous) || is_unit(next));
        previous = word;
    }
}

/// Words in front of the number of a process.
fn is_process(word: &str) -> bool {
    matches!(word, "pid" | "(pid" | "\"pid\":" | "process")
}

/// Words behind a time.
fn is_unit(word: &str) -> bool {
    let word = word.trim_end_matches([',', '.', ';', ')']);
    matches!(word, "s" | "ms" | "us" | "µs" | "seconds")
}

fn push_word(normal: &mut String, word: &str, is_number: bool) {
    let mut rest = word;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let start = start_of_key(&rest[..start], &rest[start..]).unwrap_or(start);
        normal.push_str(&rest[..start]);
        rest = &rest[start..];
        let number = number_at(rest);
        let digits = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        let is_precise = number.contains(['.', 'x', '-']);
        let varies = is_number || is_precise || number.len() >= LONG;
        // A number such as the one in `node1` or `143` is as it is; a longer one is that of a process, a time
        // or a key.
        let taken = if varies { number.len() } else { digits };
        normal.push_str(if varies { "#" } else { &rest[..taken] });
        rest = &rest[taken..];
    }
    normal.push_str(rest);
}

/// Place of a key of eight hexadecimal digits in front of the first decimal one of them, such as `fd5c2502`.
fn start_of_key(before: &str, rest: &str) -> Option<usize> {
    let letters = before.trim_end_matches(|c: char| c.is_ascii_hexdigit()).len();
    let is_end = |c: char| !c.is_ascii_hexdigit();
    let len = before.len() - letters + rest.find(is_end).unwrap_or(rest.len());
    (len == KEY_LEN).then_some(letters)
}

/// The number at the begin of a text: `17`, `0.5`, `5c2502b8`, `0xff` or `6e-6`.
fn number_at(text: &str) -> &str {
    let hex = text.strip_prefix("0x").map_or(0, |_| 2);
    let is_end = |c: char| !c.is_ascii_hexdigit() && c != '.';
    let mut end = text[hex..].find(is_end).map_or(text.len(), |end| hex + end);
    let exponent = text[end..].strip_prefix('-').filter(|_| text[..end].ends_with('e'));
    if let Some(exponent) = exponent.filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
        let is_end = |c: char| !c.is_ascii_digit();
        end = text.len() - exponent.find(is_end).map_or(0, |at| exponent.len() - at);
    }
    text[..end].trim_end_matches('.')
}

/// Digits of the key in the name of a job.
const KEY_LEN: usize = 8;

/// Digits of a number that is none of a rank, a count or an exit code.
const LONG: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_differ_between_runs_are_replaced() {
        assert_eq!(normal("rank 1 of 4 (pid 17, sh on n1)"), "rank 1 of 4 (pid #, sh on n1)");
        assert_eq!(normal("kvs_vm_16129_5c2502b8_0 in 0.25 s"), "kvs_vm_#_#_0 in # s");
        assert_eq!(normal("kvs_vm_16129_cdab02b8_0"), "kvs_vm_#_#_0");
        assert_eq!(normal("after 12 ms, 5 ranks"), "after # ms, 5 ranks");
        assert_eq!(normal("   0  1894  vm   46.9"), "0 # vm #");
        assert_eq!(normal("127.0.0.1:33541"), "#:#");
        assert_eq!(normal("\"running\": 6e-6, 1e-12"), "\"running\": #, #");
        assert_eq!(normal("id 0xdfd1 at 0x7"), "id # at #");
    }

    #[test]
    fn codes_counts_and_lines_stay() {
        for text in
            ["exited with code 143", "1e-", "n[001-128]:2\nb", "", "x=100 ranks\n", "a\n\nb"]
        {
            assert_eq!(normal(text), text);
        }
    }
}
