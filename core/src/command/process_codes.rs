//! Codes of the processes of a spawn, read where they lie.

use super::{Field, Text};

/// Codes of the processes of a spawn, in their order, as a server has written them.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ProcessCodes<'a> {
    /// A list with commas: `errcodes=0,5`.
    List(Text<'a>),
    /// A field for each process: `err0=0;err1=5;`. Spec: PMI-2 wire protocol, PMI_Job_Spawn.
    Fields(CodeFields<'a>),
}

/// Fields of a message, of which those with a number behind `err` are codes.
#[derive(Clone, Copy)]
pub struct CodeFields<'a> {
    bytes: &'a [u8],
    cut: for<'b> fn(&'b [u8]) -> Option<Field<'b>>,
}

impl<'a> ProcessCodes<'a> {
    /// The codes as a list with commas.
    pub fn bytes(self) -> impl Iterator<Item = u8> + Clone + use<'a> {
        let (list, fields) = match self {
            Self::List(list) => (list, None),
            Self::Fields(fields) => (Text::EMPTY, Some(fields)),
        };
        let values = fields.into_iter().flat_map(CodeFields::values).enumerate();
        let values = values.flat_map(|(at, value)| {
            let comma = (at > 0).then_some(b',');
            comma.into_iter().chain(value.bytes())
        });
        list.bytes().chain(values)
    }
}

impl PartialEq for ProcessCodes<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes().eq(other.bytes())
    }
}

impl Eq for ProcessCodes<'_> {}

impl<'a> CodeFields<'a> {
    /// The bytes as they stand on the wire.
    #[cfg(feature = "defmt")]
    pub(crate) const fn as_bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// The fields in `bytes`, of which `cut` cuts the first off; `None` if none of them is a code.
    pub fn new(bytes: &'a [u8], cut: for<'b> fn(&'b [u8]) -> Option<Field<'b>>) -> Option<Self> {
        let fields = Self { bytes, cut };
        fields.values().next().map(|_| fields)
    }

    /// The values of the codes.
    pub fn values(self) -> impl Iterator<Item = Text<'a>> + Clone + use<'a> {
        let Self { bytes, cut } = self;
        let first = cut(bytes);
        let fields = core::iter::successors(first, move |(_, _, rest)| cut(rest));
        fields.filter(|(name, ..)| is_code(name)).map(|(_, value, _)| value)
    }
}

/// True for the name of a field with the code of one process.
fn is_code(name: &[u8]) -> bool {
    let number = name.strip_prefix(b"err").unwrap_or(b"");
    !number.is_empty() && number.iter().all(u8::is_ascii_digit)
}

impl core::fmt::Debug for CodeFields<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.values()).finish()
    }
}
