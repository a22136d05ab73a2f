//! One call on the stack of a thread.

use serde::Serialize;
use std::fmt;
use std::path::Path;

/// A call, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct StackFrame {
    /// Name of the function; `??` if no symbol names it.
    pub(super) function: String,
    /// Source file and line, if the program was built with them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<(String, u32)>,
    /// File name of the program or library that contains the function, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) image: Option<String>,
}

/// Calls of one thread of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ThreadStack {
    /// Name of the program, and of the thread unless it is the first one of its process.
    pub(super) name: String,
    /// The calls, the outermost one first.
    pub(super) frames: Vec<StackFrame>,
}

impl StackFrame {
    /// A call in an image, without a source line.
    pub(super) fn in_image(function: &str, image: &str) -> Self {
        let image = Path::new(image).file_name().map(|name| name.to_string_lossy().into_owned());
        Self { function: function.to_owned(), source: None, image }
    }

    /// A call in a line of a source file.
    pub(super) fn in_source(function: &str, file: &str, line: u32) -> Self {
        let name = Path::new(file).file_name().map_or(file.into(), |name| name.to_string_lossy());
        Self { function: function.to_owned(), source: Some((name.into_owned(), line)), image: None }
    }
}

impl fmt::Display for StackFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.function)?;
        match (&self.source, &self.image) {
            (Some((file, line)), _) => write!(f, " at {file}:{line}"),
            (None, Some(image)) => write!(f, " in {image}"),
            (None, None) => Ok(()),
        }
    }
}
