//! Stable numbers of errors, and the page of the manual that lists them.

use std::path::Path;
use std::{fs, iter};

use qsm::ErrorCode;

#[test]
fn the_manual_lists_every_code_with_its_meaning_and_remedy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/reference/errors.md")).unwrap();
    let rows: Vec<&str> = page
        .lines()
        .filter(|row| row.starts_with("| QSM-"))
        .collect();
    let row = |code: &ErrorCode| format!("| {code} | {} | {} |", code.meaning(), code.remedy());
    let expected: Vec<String> = ErrorCode::ALL.iter().map(row).collect();
    assert_eq!(rows, expected);
}

#[test]
fn numbers_ascend_and_are_given_once() {
    let numbers = ErrorCode::ALL.iter().map(|code| code.number());
    let after = numbers.clone().skip(1).chain(iter::once(u16::MAX));
    assert!(numbers.zip(after).all(|(number, next)| number < next));
}
