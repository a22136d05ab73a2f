//! Grammar of steps: one table, from which the reader and the writer are made.

use super::read::Line;
use super::{GroupPhrase, PMIX, Phrase, Step};
use crate::rng::Span;
use pmi_core::client::pmix::Scope;
use std::fmt::{self, Display, Formatter};

/// Part of a step's line, behind the keyword.
trait Field: Sized {
    /// Reads the part. `what` describes it in errors; it is the keyword of a part that has one.
    ///
    /// # Errors
    ///
    /// A missing or malformed part.
    fn read(line: &mut Line, what: &str) -> Result<Self, String>;

    /// Writes the part, with a blank before it.
    fn write(&self, f: &mut Formatter<'_>, what: &str) -> fmt::Result;
}

/// Rows of `"keyword" => Variant { [fixed field] fields in the order of the line }`. The first row with a
/// keyword is read; the first row with the fixed field is written.
macro_rules! steps {
    ($(
        $word:literal $(if $part:ident)? => $variant:ident
        $( ( $only:ident $what:literal ) )?
        $( {
            $( [$fixed:ident = $($value:tt)+] )?
            $( $field:ident $name:literal $(or $default:literal)? ),*
        } )?
    ;)*) => {
        /// Reads a step that is no loop.
        ///
        /// # Errors
        ///
        /// An unknown keyword, or a malformed part.
        pub(super) fn read(line: &mut Line) -> Result<Step, String> {
            let word = line.word("a step")?;
            $(
                if word == $word $(&& $part)? {
                    return Ok(Step::$variant
                        $( ( Field::read(line, $what)? ) )?
                        $( {
                            $( $fixed: $($value)+, )?
                            $( $field: field!(line, $name $(, $default)?), )*
                        } )?
                    );
                }
            )*
            let known = [$( ($word, true $(&& $part)?) ),*];
            let mut text = format!("`{word}` is no step; steps are repeat each");
            for (at, (known_word, _)) in known.iter().enumerate().filter(|(_, (_, is_built))| *is_built) {
                if known[..at].iter().all(|(earlier, _)| earlier != known_word) {
                    text.push(' ');
                    text.push_str(known_word);
                }
            }
            Err(text)
        }

        /// A step on one line; loops without their body.
        impl Display for Step {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                match self {
                    $(
                        Self::$variant
                        $( ( $only ) )?
                        $( { $( $fixed: $($value)+, )? $( $field, )* } )?
                        => {
                            f.write_str($word)?;
                            $( Field::write($only, f, $what)?; )?
                            $( $( Field::write($field, f, $name)?; )* )?
                            Ok(())
                        }
                    )*
                    Self::Repeat { times, .. } => write!(f, "repeat {times}"),
                    Self::Each { name, .. } => write!(f, "each {name}"),
                }
            }
        }
    };
}

/// A field, or its default value at the end of the line.
macro_rules! field {
    ($line:ident, $what:literal) => {
        Field::read($line, $what)?
    };
    ($line:ident, $what:literal, $default:literal) => {
        if $line.words.peek().is_some() { Field::read($line, $what)? } else { $default }
    };
}

steps! {
    "open" => Open;
    "init" => Init;
    "maxes" => Maxes;
    "appnum" => AppNum;
    "universe" => Universe;
    "name" => Name;
    "put" => Put { [node = false] key "the key", value "the value" };
    "node-put" => Put { [node = true] key "the key", value "the value" };
    "put-local" if PMIX => PutFor { [scope = Scope::Local] key "the key", value "the value" };
    "put-remote" if PMIX => PutFor { [scope = Scope::Remote] key "the key", value "the value" };
    // Read as the step of all dialects above, which means the same to a PMIx client.
    "put" if PMIX => PutFor { [scope = Scope::Global] key "the key", value "the value" };
    "commit" if PMIX => Commit;
    "get-of" if PMIX => GetOf { rank "the rank", key "the key", now "now", wanted "the value" };
    "register" if PMIX => Register { code "the code" };
    "notify" if PMIX => Notify { code "the code" };
    "event" if PMIX => AwaitEvent { code "the code", from "from" };
    "group" if PMIX => Group { name "the group", members "the ranks" };
    "group-leave" if PMIX => GroupLeave { name "the group" };
    "group-end" if PMIX => GroupEnd { name "the group" };
    "get" => Get { [node = false] key "the key", of "of", wait "wait", wanted "the value" };
    "node-get" => Get { [node = true] key "the key", of "of", wait "wait", wanted "the value" };
    "fence" => Fence { group "the ranks", tag "tag" };
    "publish" => Publish { service "the service", port "the port" };
    "unpublish" => Unpublish { service "the service" };
    "lookup" => Lookup { service "the service", wait "wait", wanted "the value" };
    "spawn" => Spawn { job "the job", preputs "a key" };
    "connect" => Connect { job "the job" };
    "disconnect" => Disconnect { job "the job" };
    "ring" => Ring { left "the value for the left", right "the value for the right" };
    "abort" => Abort { code "the code" or 1, message "the text" };
    "finalize" => Finalize;
    "sleep" => Sleep(time "the time");
    "exit" => Exit(code "the code");
    "die" => Die;
    "stop" => Stop;
    "hang" => Hang;
    "leave" => Leave;
    "deaf" => Deaf;
    "hear" => ReadAgain;
    "say" => Send(bytes "the bytes");
    "garbage" => Garbage(count "the number of bytes");
    "await" => Await(lines "the number of lines");
    "manual" => Manual;
    "wait" => Wait;
    "also" => Also(step "the question");
}

/// One word.
trait Plain: Display + Sized {
    /// Reads the word.
    const READ: fn(&mut Line, &str) -> Result<Self, String>;
}

impl<T: Plain> Field for T {
    fn read(line: &mut Line, what: &str) -> Result<Self, String> {
        Self::READ(line, what)
    }

    fn write(&self, f: &mut Formatter<'_>, _: &str) -> fmt::Result {
        write!(f, " {self}")
    }
}

impl Plain for Phrase {
    const READ: fn(&mut Line, &str) -> Result<Self, String> = Line::phrase;
}

impl Plain for String {
    const READ: fn(&mut Line, &str) -> Result<Self, String> = Line::word;
}

impl Plain for i32 {
    const READ: fn(&mut Line, &str) -> Result<Self, String> = Line::number;
}

impl Plain for u32 {
    const READ: fn(&mut Line, &str) -> Result<Self, String> = Line::number;
}

impl Plain for Span {
    const READ: fn(&mut Line, &str) -> Result<Self, String> = Line::span;
}

impl Field for Option<Phrase> {
    fn read(line: &mut Line, what: &str) -> Result<Self, String> {
        line.words.peek().is_some().then(|| line.phrase(what)).transpose()
    }

    fn write(&self, f: &mut Formatter<'_>, _: &str) -> fmt::Result {
        self.as_ref().map_or(Ok(()), |phrase| write!(f, " {phrase}"))
    }
}

/// A name behind its keyword.
impl Field for Option<String> {
    fn read(line: &mut Line, keyword: &str) -> Result<Self, String> {
        line.is(keyword).then(|| line.word(&format!("the word behind `{keyword}`"))).transpose()
    }

    fn write(&self, f: &mut Formatter<'_>, keyword: &str) -> fmt::Result {
        self.as_ref().map_or(Ok(()), |name| write!(f, " {keyword} {name}"))
    }
}

/// A keyword.
impl Field for bool {
    fn read(line: &mut Line, keyword: &str) -> Result<Self, String> {
        Ok(line.is(keyword))
    }

    fn write(&self, f: &mut Formatter<'_>, keyword: &str) -> fmt::Result {
        if *self { write!(f, " {keyword}") } else { Ok(()) }
    }
}

/// A number behind its keyword.
impl Field for Option<u32> {
    fn read(line: &mut Line, keyword: &str) -> Result<Self, String> {
        line.is(keyword).then(|| line.number(&format!("the {keyword}"))).transpose()
    }

    fn write(&self, f: &mut Formatter<'_>, keyword: &str) -> fmt::Result {
        self.map_or(Ok(()), |number| write!(f, " {keyword} {number}"))
    }
}

/// The required reply of a get or a lookup.
impl Field for Option<Option<Phrase>> {
    fn read(line: &mut Line, what: &str) -> Result<Self, String> {
        if line.is("missing") {
            return Ok(Some(None));
        }
        line.is("is").then(|| line.phrase(what).map(Some)).transpose()
    }

    fn write(&self, f: &mut Formatter<'_>, _: &str) -> fmt::Result {
        match self {
            None => Ok(()),
            Some(None) => f.write_str(" missing"),
            Some(Some(value)) => write!(f, " is {value}"),
        }
    }
}

/// Pairs up to the end of the line.
impl Field for Vec<(Phrase, Phrase)> {
    fn read(line: &mut Line, what: &str) -> Result<Self, String> {
        let mut pairs = Self::new();
        while line.words.peek().is_some() {
            pairs.push((line.phrase(what)?, line.phrase("its value")?));
        }
        Ok(pairs)
    }

    fn write(&self, f: &mut Formatter<'_>, _: &str) -> fmt::Result {
        self.iter().try_for_each(|(key, value)| write!(f, " {key} {value}"))
    }
}

impl Field for GroupPhrase {
    fn read(line: &mut Line, what: &str) -> Result<Self, String> {
        Ok(if line.is("world") {
            Self::World
        } else if line.is("node") {
            Self::Node
        } else if line.words.peek().is_none_or(|word| word.plain() == Some("tag")) {
            Self::Job
        } else {
            Self::Ranks(line.phrase(what)?)
        })
    }

    fn write(&self, f: &mut Formatter<'_>, _: &str) -> fmt::Result {
        match self {
            Self::Job => Ok(()),
            Self::World => f.write_str(" world"),
            Self::Node => f.write_str(" node"),
            Self::Ranks(list) => write!(f, " {list}"),
        }
    }
}

/// A question that may be overtaken by later ones.
impl Field for Box<Step> {
    fn read(line: &mut Line, _: &str) -> Result<Self, String> {
        let step = read(line)?;
        match step.can_be_overtaken() {
            true => Ok(Self::new(step)),
            false => Err("`also` precedes a request that others can overtake".into()),
        }
    }

    fn write(&self, f: &mut Formatter<'_>, _: &str) -> fmt::Result {
        write!(f, " {self}")
    }
}

impl Step {
    const fn can_be_overtaken(&self) -> bool {
        matches!(
            self,
            Self::Maxes
                | Self::AppNum
                | Self::Universe
                | Self::Put { .. }
                | Self::Get { .. }
                | Self::GetOf { .. }
                | Self::Fence { .. }
                | Self::Publish { .. }
                | Self::Unpublish { .. }
                | Self::Lookup { .. }
                | Self::Spawn { .. }
                | Self::Connect { .. }
                | Self::Disconnect { .. }
                | Self::Ring { .. }
        )
    }
}
