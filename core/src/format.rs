//! `defmt::Format` of types whose fields are not what they mean; all others derive it.
//!
//! As `Debug`, it shows numbers by which clients identify themselves.

use crate::command::{CodeFields, SpawnText, Text};
use crate::ids::{Excerpt, Key, KvsName, Tag, Value, Word};
use crate::time::{Duration, Instant};
use defmt::{Format, Formatter, write};

/// Implements the format of types that are bytes.
macro_rules! bytes {
    ($($name:ident),*) => {
        $(impl Format for $name {
            fn format(&self, f: Formatter<'_>) {
                write!(f, "{=[u8]:a}", self.as_bytes());
            }
        })*
    };
}

bytes!(Excerpt, Key, KvsName, Tag, Value, Word);

/// As on the wire, where PMI-2 may write `;` twice.
impl Format for Text<'_> {
    fn format(&self, f: Formatter<'_>) {
        write!(f, "{=[u8]:a}", self.as_raw());
    }
}

impl Format for SpawnText<'_> {
    fn format(&self, f: Formatter<'_>) {
        write!(f, "{=[u8]:a}", self.as_bytes());
    }
}

impl Format for CodeFields<'_> {
    fn format(&self, f: Formatter<'_>) {
        write!(f, "{=[u8]:a}", self.as_bytes());
    }
}

impl Format for Instant {
    fn format(&self, f: Formatter<'_>) {
        write!(f, "{=u64:us}", self.as_micros());
    }
}

impl Format for Duration {
    fn format(&self, f: Formatter<'_>) {
        write!(f, "{=u64:us}", self.as_micros());
    }
}
