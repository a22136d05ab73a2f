//! Output of postcard into a lent slice, for the formats that consist of it.

use super::Writer;
use postcard::ser_flavors::Flavor;

/// Output of postcard: a lent slice. The length is counted beyond its end.
pub(super) struct PostcardOutput<'w, 'a>(pub(super) &'w mut Writer<'a>);

impl Flavor for PostcardOutput<'_, '_> {
    type Output = ();

    fn try_push(&mut self, data: u8) -> postcard::Result<()> {
        self.0.byte(data);
        Ok(())
    }

    fn try_extend(&mut self, data: &[u8]) -> postcard::Result<()> {
        self.0.bytes(data);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// Serializer of postcard into a lent slice.
pub(super) type PostcardWriter<'w, 'a> = postcard::Serializer<PostcardOutput<'w, 'a>>;
