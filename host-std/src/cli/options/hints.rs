//! Values that shells offer for an option. They restrict nothing: other values are valid, too.

use super::{OptionEffect, OptionSpec};
use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, Error, ValueHint};
use pmi_nodes::settings::STARTERS;
use std::ffi::{OsStr, OsString};

/// Parser that accepts every value and names some.
#[derive(Clone, Copy, Debug)]
struct HintedParser(&'static [&'static str]);

impl TypedValueParser for HintedParser {
    type Value = OsString;

    fn parse_ref(&self, _: &Command, _: Option<&Arg>, value: &OsStr) -> Result<OsString, Error> {
        Ok(value.to_owned())
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(PossibleValue::new)))
    }
}

/// Adds the hints for the values of `option` to its argument.
pub(in crate::cli) fn of_option(option: &OptionSpec, arg: Arg) -> Arg {
    let OptionEffect::Value { name, .. } = option.effect else { return arg };
    match values(option.name) {
        [] => match name {
            "FILE" | "PATTERN" => with_files(arg),
            "DIR" | "DIRECTORY" => arg.value_hint(ValueHint::DirPath),
            _ => arg,
        },
        values => with_values(arg, values),
    }
}

/// Offers these values.
pub(in crate::cli) fn with_values(arg: Arg, values: &'static [&'static str]) -> Arg {
    arg.value_parser(HintedParser(values)).hide_possible_values(true)
}

/// Offers files.
pub(in crate::cli) fn with_files(arg: Arg) -> Arg {
    arg.value_hint(ValueHint::FilePath)
}

/// Values of the option `name`; none if they are no words.
fn values(name: &str) -> &'static [&'static str] {
    if name == "starter" {
        return &STARTERS;
    }
    let found = VALUES.iter().find(|(option, _)| *option == name);
    found.map_or(&[], |(_, values)| values)
}

const UNITS: &[&str] =
    &["none", "hwthread", "core", "l1cache", "l2cache", "l3cache", "numa", "socket", "machine"];

const VALUES: &[(&str, &[&str])] = &[
    ("bind-to", UNITS),
    (
        "map-by",
        &[
            "slot",
            "node",
            "hwthread",
            "core",
            "l1cache",
            "l2cache",
            "l3cache",
            "numa",
            "socket",
            "machine",
            "ppr:1:node",
        ],
    ),
    ("display", &["map"]),
    ("env-for", &["torch", "slurm", "ompi", "pals", "torch,slurm"]),
    ("inherit", &["all", "none"]),
    ("on-exit-error", &["kill", "ignore"]),
    ("on-singletons", &["fail", "ignore"]),
    ("pmi", &["auto", "1", "2", "x", "all"]),
    ("stdin", &["all", "none", "0"]),
    ("universe", &["hosts", "endless"]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::options::{all, named};
    use crate::settings::Settings;

    #[test]
    fn offered_values_are_valid() {
        for (name, values) in VALUES.iter().copied().chain([("starter", &STARTERS[..])]) {
            let option = named(name).expect(name);
            for value in values {
                option.set(&mut Settings::default(), value.as_ref()).expect(value);
            }
        }
        assert!(all().count() > VALUES.len());
    }
}
