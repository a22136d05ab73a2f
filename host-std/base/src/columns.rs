//! Tables of text whose columns are aligned.

use std::array;

/// Lines of a table: each column is as wide as its longest cell, and two spaces separate columns. The columns
/// of `is_right` are aligned to the right.
pub fn lines<const N: usize>(rows: &[[String; N]], is_right: [bool; N]) -> Vec<String> {
    let widths: [usize; N] = array::from_fn(|column| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
    });
    let line = |row: &[String; N]| {
        let cells: [String; N] = array::from_fn(|column| {
            let (cell, width) = (&row[column], widths[column]);
            if is_right[column] { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_longest_cells() {
        let rows =
            [["rank", "host"], ["7", "node-é"], ["12", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(lines(&rows, [true, false]), ["rank  host", "   7  node-é", "  12"]);
    }
}
