//! A ring of files: when one is full the next is begun, in the place of the oldest.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::pcapng::{Capture, Whole};

/// Room for what a block has beside its packet, and for the last block of a file.
const ROOM_BYTES: u64 = 256;

/// Files `NAME.0.pcapng` to `NAME.N.pcapng`.
#[derive(Debug)]
pub(super) struct Ring {
    paths: Vec<PathBuf>,
    interfaces: Vec<String>,
    /// No file has more bytes.
    bytes: u64,
    at: usize,
    capture: Capture,
    /// Bytes of the files before this one.
    before: u64,
    /// Files that were begun.
    begun: u64,
}

impl Ring {
    /// Begins with the file after the one that was written last, so that what a run before has kept stays longest.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn create(
        name: &Path,
        files: usize,
        bytes: u64,
        interfaces: Vec<String>,
    ) -> io::Result<Self> {
        let paths: Vec<PathBuf> = (0..files).map(|number| path_of(name, number)).collect();
        let at = first(&paths);
        let capture = begin(&paths[at], &interfaces)?;
        Ok(Self {
            paths,
            interfaces,
            bytes,
            at,
            capture,
            before: 0,
            begun: 1,
        })
    }

    /// The file that is being written.
    pub(super) fn path(&self) -> &Path {
        &self.paths[self.at]
    }

    /// Files of this run that are there, the oldest first.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        let there = self.begun.min(self.paths.len() as u64) as usize;
        let first = self.at + self.paths.len() + 1 - there;
        let numbers = (0..there).map(move |number| (first + number) % self.paths.len());
        numbers.map(|number| self.paths[number].as_path())
    }

    /// Bytes that were written in all, also into files that are not there any more.
    pub(super) fn written(&self) -> u64 {
        self.before + self.capture.bytes()
    }

    /// Files that were begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// Adds a packet.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn add(&mut self, packet: &Whole<'_>) -> io::Result<()> {
        if self.capture.bytes() + packet.bytes.len() as u64 + ROOM_BYTES > self.bytes {
            self.capture.flush()?;
            self.before += self.capture.bytes();
            self.at = (self.at + 1) % self.paths.len();
            self.begun += 1;
            self.capture = begin(&self.paths[self.at], &self.interfaces)?;
        }
        self.capture.add_whole(packet)
    }

    /// Writes what is left to be written.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.capture.flush()
    }

    /// Writes what is left, and last how many packets were taken and lost.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn finish(&mut self, taken: u64, lost: u64) -> io::Result<()> {
        // Of several interfaces together nobody knows whose the lost ones were.
        if self.interfaces.len() == 1 {
            self.capture.add_statistics(0, taken, lost);
        }
        self.capture.flush()
    }
}

fn begin(path: &Path, interfaces: &[String]) -> io::Result<Capture> {
    let names: Vec<&str> = interfaces.iter().map(String::as_str).collect();
    Capture::create(path, &names)
}

/// Path of the file of this number.
pub(super) fn path_of(name: &Path, number: usize) -> PathBuf {
    let mut path = OsString::from(name);
    path.push(format!(".{number}.pcapng"));
    path.into()
}

/// Number of the first file that is not there, else of the oldest.
fn first(paths: &[PathBuf]) -> usize {
    let age = |path: &PathBuf| fs::metadata(path).and_then(|file| file.modified()).ok();
    let ages = paths.iter().map(age).enumerate();
    let oldest = ages.min_by_key(|(_, modified)| modified.unwrap_or(SystemTime::UNIX_EPOCH));
    oldest.map_or(0, |(number, _)| number)
}
