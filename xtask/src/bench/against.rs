//! Tables beside those of an earlier page: `cargo xtask bench --against FILE`.

use super::{Comparison, page};

/// The numbers of `table` beside those of section `name` in the text of a page that `bench --write` wrote:
/// before, now, and their ratio. `None` if that page has no table with the same header.
pub(super) fn compare(table: &Comparison, name: &str, text: &str) -> Option<String> {
    let (header, earlier) = page::rows(text, name)?;
    if header != table.header {
        return None;
    }
    let keys = key_len(&table.rows);
    let rows = table.rows.iter().filter_map(|row| {
        let same = |old: &&Vec<&str>| old.iter().zip(row).take(keys).all(|(old, new)| old == new);
        let old = earlier.iter().find(same)?;
        let numbers = row.iter().zip(old).skip(keys).map(|(new, old)| change(old, new));
        Some(row.iter().take(keys).cloned().chain(numbers).collect())
    });
    let rows: Vec<Vec<String>> = rows.collect();
    Some(crate::page::table(&table.header, ["--:", "--:"], &rows))
}

/// Number of leading cells that distinguish the rows.
fn key_len(rows: &[Vec<String>]) -> usize {
    let is_distinct = |len: usize| {
        let key = |row: &Vec<String>| row.iter().take(len).cloned().collect::<Vec<_>>();
        let mut keys: Vec<_> = rows.iter().map(key).collect();
        keys.sort();
        keys.windows(2).all(|pair| pair.first() != pair.last())
    };
    (1..).find(|len| is_distinct(*len)).unwrap_or(1)
}

fn change(old: &str, new: &str) -> String {
    match (old.parse::<f64>(), new.parse::<f64>()) {
        (Ok(before), Ok(now)) if before != 0.0 => format!("{old} → {new} (× {:.2})", now / before),
        _ if old == new => new.to_owned(),
        _ => format!("{old} → {new}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_beside_those_of_the_row_with_the_same_key() {
        let mut table = Comparison::new(&["figure", "ranks", "ms", "target"]);
        for row in [["a", "2", "1.5", "≤ 2: met"], ["a", "8", "9", "≤ 2: missed"]] {
            table.rows.push(row.map(str::to_owned).to_vec());
        }
        let text = "<!-- bench x -->\n\n| figure | ranks | ms | target |\n| --: | --: | --: | --: |\n\
                    | a | 2 | 3.0 | ≤ 2: missed |\n| b | 8 | 1 | ≤ 2: met |\n\nTargets\n<!-- end x -->\n";
        let found = compare(&table, "x", text).unwrap();
        assert!(
            found.contains("| a | 2 | 3.0 → 1.5 (× 0.50) | ≤ 2: missed → ≤ 2: met |"),
            "{found}"
        );
        assert!(!found.contains("| 8 |"), "{found}");
        assert_eq!(compare(&table, "y", text), None);
        assert_eq!(compare(&Comparison::new(&["figure"]), "x", text), None);
    }
}
