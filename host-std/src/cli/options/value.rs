//! Values of options: numbers, times, lists, choices. An error names the fault and a valid example.

use crate::placement::ExpectedRanks;
use std::ffi::OsStr;
use std::num::ParseIntError;
use std::path::PathBuf;
use std::time::Duration;

/// Stores a parsed value.
pub(super) fn put<T>(place: &mut T, read: Result<T, String>) -> Result<(), String> {
    *place = read?;
    Ok(())
}

/// Appends a parsed value.
pub(super) fn add<T>(place: &mut Vec<T>, read: Result<T, String>) -> Result<(), String> {
    place.push(read?);
    Ok(())
}

/// Number of ranks: one at least.
pub(super) fn ranks(value: &OsStr) -> Result<u32, String> {
    let parsed: Result<u32, ParseIntError> = text(value).parse();
    let why = match parsed {
        Ok(0) => "a job has at least one rank",
        Ok(ranks) if ranks > RANKS_MAX => {
            "that is more than the 1048576 ranks that one launcher starts"
        }
        Ok(ranks) => return Ok(ranks),
        Err(_) => "that is not a number of ranks",
    };
    Err(format!("{why}; try '4'"))
}

/// Ranks that connect by themselves, or none.
pub(super) fn expected(value: &OsStr) -> Result<ExpectedRanks, String> {
    ExpectedRanks::parse(&text(value), RANKS_MAX)
}

/// Number of entries or bytes.
pub(super) fn count(value: &OsStr) -> Result<u64, String> {
    text(value).parse().map_err(|_| "that is not a number; try '1000000'".to_owned())
}

/// Time in seconds, with an optional fraction, or with a unit of `ms`, `s`, `m`, `h` or `d`; 0 means never.
pub(super) fn seconds(value: &OsStr) -> Result<Option<Duration>, String> {
    let value = text(value);
    let end = value.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(value.len());
    let (number, unit) = value.split_at(end);
    let unit = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, seconds)| seconds);
    let parsed = number.parse::<f64>().ok().zip(unit);
    match parsed.map(|(number, unit)| Duration::try_from_secs_f64(number * unit)) {
        Some(Ok(time)) if time <= TIME_MAX => Ok(Some(time).filter(|time| !time.is_zero())),
        _ => Err("that is not a time in seconds; try '60', '1m', or '0' for never".to_owned()),
    }
}

/// Inverse of [`seconds`].
pub(super) fn shown_seconds(time: Option<Duration>) -> Option<String> {
    time.map(|time| time.as_secs_f64().to_string())
}

/// One of several words.
pub(super) fn choice<T: Clone>(value: &OsStr, choices: &[(&str, T)]) -> Result<T, String> {
    let got = text(value);
    match choices.iter().find(|(word, _)| *word == got) {
        Some((_, chosen)) => Ok(chosen.clone()),
        None => {
            let words: Vec<String> = choices.iter().map(|(word, _)| format!("'{word}'")).collect();
            Err(format!("that is not one of {}", words.join(", ")))
        }
    }
}

/// Inverse of [`choice`].
pub(super) fn chosen<T: PartialEq>(value: &T, choices: &[(&str, T)]) -> Option<String> {
    choices.iter().find(|(_, other)| other == value).map(|(word, _)| (*word).to_owned())
}

/// Truth value, in its usual spellings.
pub(super) fn switch(value: &OsStr) -> Result<bool, String> {
    match text(value).to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err("that is neither 'true' nor 'false'".to_owned()),
    }
}

/// List such as `0-3,8`, in ascending order and without duplicates; `None` if it is invalid.
pub(in crate::cli) fn numbers(value: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for piece in value.split(',') {
        let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= RANKS_MAX {
            return None;
        }
        all.extend(first..=last);
    }
    all.sort_unstable();
    all.dedup();
    Some(all)
}

/// Path of a file.
pub(super) fn path(value: &OsStr) -> Result<PathBuf, String> {
    match value.is_empty() {
        true => Err("that is not a path".to_owned()),
        false => Ok(value.into()),
    }
}

/// Inverse of [`path`].
pub(super) fn shown_path(path: Option<&PathBuf>) -> Option<String> {
    path.map(|path| path.display().to_string())
}

/// Value as text. Invalid UTF-8 is replaced, so it is neither a number nor a known word.
pub(super) fn text(value: &OsStr) -> String {
    value.to_string_lossy().into_owned()
}

/// Bound of a number of ranks: far above the processes of one kernel (process ids end at 4 194 304), and
/// low enough that a typing error does not allocate a table of four thousand million ranks.
pub(in crate::cli) const RANKS_MAX: u32 = 1 << 20;

/// Units of time, in seconds.
const UNITS: &[(&str, f64)] =
    &[("", 1.0), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0)];

/// A hundred years: in effect unlimited, and far below the range of a clock.
const TIME_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let read = |value: &str| seconds(value.as_ref());
        for (value, millis) in [
            ("60", 60_000),
            ("1.5", 1500),
            ("250ms", 250),
            ("10s", 10_000),
            ("1m", 60_000),
            ("2h", 7_200_000),
        ] {
            assert_eq!(read(value), Ok(Some(Duration::from_millis(millis))), "{value}");
        }
        assert_eq!(read("0m"), Ok(None));
        for value in ["", "m", "1 m", "1x", "1M", "-1s", "inf", "NaN", "1m30s", "99999999999d"] {
            assert!(read(value).is_err(), "{value}");
        }
    }
}
