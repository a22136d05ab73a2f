//! A request for new processes, read where it lies.
//!
//! Spawn is the one message without a useful bound on its length, so nothing of it is copied: the
//! programs, their arguments and their hints are iterators over the bytes that came, or over
//! slices that a caller lends.

use super::Text;

/// A request for new processes: one or more programs that become one job.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Spawn<'a> {
    /// As it came over the wire.
    Wire(SpawnText<'a>),
    /// As a caller gives it.
    Given {
        /// The programs, in the order of their ranks.
        programs: &'a [Program<'a>],
        /// Pairs in the space of the new job before any fence.
        preputs: &'a [Pair<'a>],
    },
}

/// One program of a spawn.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Program<'a> {
    /// The executable.
    pub executable: Text<'a>,
    /// Number of processes.
    pub processes: u32,
    /// Its arguments, without the program's own name.
    pub arguments: Argument<'a>,
    /// Hints for the process manager; unknown ones are ignored.
    pub info: InfoList<'a>,
}

/// The arguments of one program.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Argument<'a> {
    /// As they came over the wire.
    Wire(SpawnText<'a>),
    /// As a caller gives them.
    Given(&'a [Text<'a>]),
}

/// The hints of one program.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum InfoList<'a> {
    /// As they came over the wire.
    Wire(SpawnText<'a>),
    /// As a caller gives them.
    Given(&'a [Pair<'a>]),
}

/// A key and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Pair<'a> {
    /// The key.
    pub key: Text<'a>,
    /// The value.
    pub value: Text<'a>,
}

/// The bytes of a spawn, or of one program in it, and the words its dialect uses.
#[derive(Clone, Copy)]
pub struct SpawnText<'a> {
    bytes: &'a [u8],
    words: &'static SpawnWords,
}

/// Field names of a spawn in one dialect. The fields are the same in all; names and terminators differ.
pub struct SpawnWords {
    /// Cuts the first field off.
    pub cut: for<'a> fn(&'a [u8]) -> Option<Field<'a>>,
    /// The field that begins a program.
    pub begins: &'static [u8],
    /// The executable.
    pub executable: &'static [u8],
    /// Number of processes.
    pub processes: &'static [u8],
    /// An argument, before its number.
    pub argument: &'static [u8],
    /// Key and value of what is put before the start, before their numbers.
    pub preput: [&'static [u8]; 2],
    /// Key of a hint and both names of its value, before their numbers.
    pub info: [&'static [u8]; 3],
}

/// The name of a field, its value, and what follows it.
pub type Field<'a> = (&'a [u8], Text<'a>, &'a [u8]);

/// The programs of a spawn, in order.
#[derive(Clone, Debug)]
pub enum Programs<'a> {
    /// Rest of the bytes.
    Wire(SpawnText<'a>),
    /// Rest of the slice.
    Given(core::slice::Iter<'a, Program<'a>>),
}

impl<'a> Spawn<'a> {
    /// The programs, in the order of their ranks.
    pub fn programs(self) -> Programs<'a> {
        match self {
            Self::Wire(text) => Programs::Wire(text),
            Self::Given { programs, .. } => Programs::Given(programs.iter()),
        }
    }

    /// Pairs in the space of the new job before any fence.
    ///
    /// Some clients repeat the set with every program and some give it once, so the first program
    /// that has one counts.
    pub fn preputs(self) -> impl Iterator<Item = Pair<'a>> + Clone {
        let (wire, given) = match self {
            Self::Wire(text) => (Some(text), &[][..]),
            Self::Given { preputs, .. } => (None, preputs),
        };
        let first = wire.and_then(SpawnText::first_with_preputs);
        let wire = first.into_iter().flat_map(SpawnText::preputs);
        given.iter().copied().chain(wire)
    }
}

impl<'a> Argument<'a> {
    /// The arguments in order of appearance: clients number them from 0 or from 1.
    pub fn iter(self) -> impl Iterator<Item = Text<'a>> + Clone {
        let (wire, given) = match self {
            Self::Wire(text) => (Some(text), &[][..]),
            Self::Given(given) => (None, given),
        };
        let wire = wire.into_iter().flat_map(|text| {
            // The first argument may be the name of the program.
            let numbered = move |name: &[u8]| {
                is_numbered(name, text.words.argument) && name != text.words.executable
            };
            text.fields().filter(move |(name, _)| numbered(name)).map(|(_, value)| value)
        });
        given.iter().copied().chain(wire)
    }
}

impl<'a> InfoList<'a> {
    /// The hints in order of appearance.
    pub fn iter(self) -> impl Iterator<Item = Pair<'a>> + Clone {
        let (wire, given) = match self {
            Self::Wire(text) => (Some(text), &[][..]),
            Self::Given(given) => (None, given),
        };
        given.iter().copied().chain(wire.into_iter().flat_map(|t| t.pairs(t.words.info)))
    }
}

impl<'a> SpawnText<'a> {
    /// The bytes as they stand on the wire.
    #[cfg(feature = "defmt")]
    pub(crate) const fn as_bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Parses the bytes of a whole spawn.
    ///
    /// # Errors
    ///
    /// The name of the field that a program lacks or that is no number.
    pub fn new(bytes: &'a [u8], words: &'static SpawnWords) -> Result<Self, &'static str> {
        let text = Self { bytes, words };
        let mut rest = text;
        let mut programs = 0;
        while let Some(program) = rest.next_program() {
            program.program()?;
            programs += 1;
        }
        if programs == 0 { Err("program") } else { Ok(text) }
    }

    /// Every field as name and value.
    pub fn fields(self) -> impl Iterator<Item = (&'a [u8], Text<'a>)> + Clone {
        let mut rest = self.bytes;
        let cut = self.words.cut;
        core::iter::from_fn(move || {
            let (name, value, after) = cut(rest)?;
            rest = after;
            Some((name, value))
        })
    }

    /// Cuts the next program off the front.
    fn next_program(&mut self) -> Option<Self> {
        let begin = self.offset_of_program(0)?;
        let (_, _, after) = (self.words.cut)(self.bytes.get(begin..)?)?;
        let first = self.bytes.len() - after.len();
        let end = self.offset_of_program(first).unwrap_or(self.bytes.len());
        let program = Self { bytes: self.bytes.get(begin..end)?, words: self.words };
        self.bytes = self.bytes.get(end..)?;
        Some(program)
    }

    fn offset_of_program(self, from: usize) -> Option<usize> {
        let mut at = from;
        loop {
            let rest = self.bytes.get(at..)?;
            let (name, _, after) = (self.words.cut)(rest)?;
            if name == self.words.begins {
                return Some(at);
            }
            at = self.bytes.len() - after.len();
        }
    }

    /// Reads these bytes as one program.
    fn program(self) -> Result<Program<'a>, &'static str> {
        let find = |wanted: &[u8]| self.fields().find(|(name, _)| *name == wanted).map(|f| f.1);
        let executable = find(self.words.executable).filter(|text| !text.is_empty());
        let processes = find(self.words.processes).and_then(Text::number);
        Ok(Program {
            executable: executable.ok_or("name of the program")?,
            processes: processes.ok_or("number of processes")?,
            arguments: Argument::Wire(self),
            info: InfoList::Wire(self),
        })
    }

    fn first_with_preputs(self) -> Option<Self> {
        // PMI-2 writes the set in front of the first program, PMI-1 inside one.
        let head = self.offset_of_program(0).unwrap_or(self.bytes.len());
        let mut rest = self;
        let before = Self { bytes: self.bytes.get(..head)?, words: self.words };
        let programs = core::iter::from_fn(move || rest.next_program());
        core::iter::once(before).chain(programs).find(|text| text.preputs().next().is_some())
    }

    fn preputs(self) -> impl Iterator<Item = Pair<'a>> + Clone {
        let [key, value] = self.words.preput;
        self.pairs([key, value, value])
    }

    /// Pairs a key with the value that follows it, which has one of two names.
    fn pairs(
        self,
        [key_word, value_word, also]: [&'static [u8]; 3],
    ) -> impl Iterator<Item = Pair<'a>> + Clone {
        let mut key = None;
        self.fields().filter_map(move |(name, value)| {
            if is_numbered(name, key_word) {
                key = Some(value);
                return None;
            }
            if !is_numbered(name, value_word) && !is_numbered(name, also) {
                return None;
            }
            key.take().map(|key| Pair { key, value })
        })
    }
}

impl<'a> Iterator for Programs<'a> {
    type Item = Program<'a>;

    fn next(&mut self) -> Option<Program<'a>> {
        match self {
            Self::Wire(text) => text.next_program()?.program().ok(),
            Self::Given(programs) => programs.next().copied(),
        }
    }
}

/// Two spawns are equal when they request the same; the spelling does not count.
impl PartialEq for Spawn<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.programs().eq(other.programs()) && self.preputs().eq(other.preputs())
    }
}

impl Eq for Spawn<'_> {}

impl PartialEq for Program<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.executable == other.executable
            && self.processes == other.processes
            && self.arguments.iter().eq(other.arguments.iter())
            && self.info.iter().eq(other.info.iter())
    }
}

impl core::fmt::Debug for SpawnText<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.fields()).finish()
    }
}

/// True if a name is this word with a number.
pub(crate) fn is_numbered(name: &[u8], word: &[u8]) -> bool {
    name.strip_prefix(word).is_some_and(|n| !n.is_empty() && n.iter().all(u8::is_ascii_digit))
}
