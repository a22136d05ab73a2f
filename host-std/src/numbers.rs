//! Conversions between the numbers of sessions, processes and ranks, and indices of tables.

/// Converts a number to an index; beyond any table if it does not fit.
pub(crate) fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Converts an index in a table of processes to a number.
pub(crate) fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
