//! Values of PMIx as lines of text.

use pmi_core::wire::pmix::Unpacker;
use pmi_std::pmix::{
    Info, List, Proc, ProcInfo, Status, Type, Value, job_state, persistence, proc_state, range,
    ranks, scope,
};

/// Writes attributes, one line each, and those of arrays below it.
pub(super) fn write_infos(to: &mut String, infos: &List<'_>, depth: usize) {
    for Info { key, value, .. } in infos.infos() {
        write_line(to, &printable(key), &value, depth);
    }
}

fn write_line(to: &mut String, name: &str, value: &Value<'_>, depth: usize) {
    let indent = "  ".repeat(depth);
    let Some(array) = value.array() else {
        to.push_str(&format!("{indent}{name}: {}\n", shown(value)));
        return;
    };
    to.push_str(&format!("{indent}{name}:\n"));
    if depth == DEPTH_MAX {
        to.push_str(&format!("{indent}  {} values\n", array.count));
        return;
    }
    match array.of {
        Type::INFO => write_infos(to, &array, depth + 1),
        Type::PROC_INFO => {
            for proc in array.each(Type::PROC_INFO, ProcInfo::read) {
                let state = named(proc_state::name(proc.state), proc.state);
                let (of, pid) = (process(proc.of), proc.pid);
                let (host, program) = (printable(proc.host), printable(proc.program));
                to.push_str(&format!("{indent}  {of}: {state}, pid {pid} on {host}, {program}\n"));
            }
        }
        of => {
            let format = array.format;
            for bytes in array.each(of, |from| from.skip(of)) {
                let value = Value { of, bytes, format };
                to.push_str(&format!("{indent}  {}\n", shown(&value)));
            }
        }
    }
}

/// One value without those inside it.
fn shown(value: &Value<'_>) -> String {
    if matches!(value.of, Type::STRING | Type::PROC_NSPACE) {
        return printable(value.text().unwrap_or_default());
    }
    if let Some(proc) = value.proc() {
        return process(proc);
    }
    if let Some(blob) = value.blob() {
        return blob.iter().map(|byte| format!("{byte:02x}")).collect();
    }
    // These numbers are texts on the wire.
    if matches!(value.of, Type::FLOAT | Type::DOUBLE)
        && let Ok(Some(number)) = Unpacker::new(value.bytes, value.format).text()
    {
        return printable(number);
    }
    let Some(number) = value.number() else {
        return format!("{} bytes of type {}", value.bytes.len(), value.of.0);
    };
    let small = u8::try_from(number).ok();
    let name = |names: fn(u8) -> Option<&'static str>| named(small.and_then(names), number);
    match value.of {
        Type::BOOL => (number != 0).to_string(),
        Type::PROC_STATE => name(proc_state::name),
        Type::JOB_STATE => name(job_state::name),
        Type::DATA_RANGE => name(range::name),
        Type::PERSIST => name(persistence::name),
        Type::SCOPE => name(scope::name),
        Type::STATUS => {
            named(i32::try_from(number).ok().and_then(|code| Status(code).name()), number)
        }
        Type::PROC_RANK => u32::try_from(number).map_or_else(|_| number.to_string(), rank),
        _ => number.to_string(),
    }
}

fn named(name: Option<&'static str>, number: impl ToString) -> String {
    name.map_or_else(|| number.to_string(), str::to_owned)
}

fn process(proc: Proc<'_>) -> String {
    format!("rank {} of {}", rank(proc.rank), printable(proc.nspace))
}

/// A rank, or the word for several.
pub(super) fn rank(rank: u32) -> String {
    match rank {
        ranks::WILDCARD => "*".into(),
        ranks::UNDEF => "any".into(),
        rank => rank.to_string(),
    }
}

/// A text of a server, which cannot control the terminal.
pub(super) fn printable(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A table with columns as wide as their longest entry.
pub(super) fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |at: usize| {
        rows.iter().filter_map(|row| row.get(at)).map(|word| word.chars().count()).max()
    };
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (at, word) in row.iter().enumerate() {
            line.push_str(&format!("{word:<width$}  ", width = width(at).unwrap_or(0)));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Arrays of known queries are three deep.
const DEPTH_MAX: usize = 8;
