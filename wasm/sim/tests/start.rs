//! The simulated starts of the documentation.

use pmi_sim::tree::{StartCosts, start_table};
use std::fs;
use std::path::Path;

/// Only the first row: a build without optimization takes a minute for the others, which 'cargo xtask test sweep'
/// checks.
#[test]
fn table_of_the_page_is_that_of_the_committed_costs() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/performance.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("<!-- bench simulated starts -->").unwrap();
    let (table, _) = rest.split_once("<!-- end simulated starts -->").unwrap();
    let is_large = |line: &&str| line.starts_with("| 1,024 |");
    assert!(table.lines().any(|line| is_large(&line)), "{table}");
    let small: Vec<&str> = table.trim().lines().filter(|line| !is_large(line)).collect();
    let expected = start_table(&StartCosts::measured().unwrap(), 1).unwrap();
    let remedy = "write it by 'cargo xtask bench --simulate'";
    assert_eq!(small, expected.trim().lines().collect::<Vec<_>>(), "{remedy}");
}
