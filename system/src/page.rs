//! Pages that results are appended to.

use std::fs;
use std::io;
use std::path::Path;

/// Appends a table to a page, which is made if there is none.
///
/// # Errors
/// The page cannot be written.
pub fn append(page: &Path, table: &str) -> io::Result<()> {
    let before = fs::read_to_string(page).unwrap_or_default();
    fs::write(page, format!("{before}\n{table}"))
}
