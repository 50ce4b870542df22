//! Writes the page of figures anew from the CSV files in a folder, without running anything:
//! `make figures-page`.

use std::io;
use std::path::PathBuf;

use qsm_figures::{catalogue, page};

fn main() -> io::Result<()> {
    let folder = std::env::args_os().nth(1);
    let folder = PathBuf::from(folder.ok_or_else(|| io::Error::other("name a folder"))?);
    let text = page(&folder, &catalogue::all())?;
    std::fs::write(folder.join("README.md"), text)
}
