//! What is published: real files, market data, measurements.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Bytes of a file in one message.
const CHUNK_BYTES: usize = 16 << 10;

/// Files that are published, at most, and folders looked into.
const FILES_MAX: usize = 2000;
const FOLDERS_MAX: usize = 500;

/// Files above this are left out: the demonstration is to show many.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Where real files are found on nearly every machine.
const SYSTEM_FILES: [&str; 2] = ["/usr/share", "/etc"];

/// Random numbers that need not be good: xorshift64* (Vigna 2016).
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    /// From this start; any will do.
    #[must_use]
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// From 0 to below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as usize;
        (high * end) >> 32
    }
}

/// Regular files below `folder`, or else of the system; the running program in any case.
///
/// # Errors
/// The folder given cannot be read.
pub(crate) fn find_files(folder: Option<&Path>) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    match folder {
        Some(folder) => {
            fs::read_dir(folder)?;
            collect(folder, &mut found);
        }
        None => {
            let here = std::env::current_dir().unwrap_or_default();
            if here.join("Cargo.toml").is_file() {
                collect(&here, &mut found);
            }
            for folder in SYSTEM_FILES {
                collect(Path::new(folder), &mut found);
            }
        }
    }
    found.extend(std::env::current_exe());
    Ok(found)
}

/// Breadth first, in the order of names; leaves out what is hidden, built, or cannot be read.
fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut folders = std::collections::VecDeque::from([folder.to_owned()]);
    let mut looked = 0;
    while let Some(folder) = folders.pop_front() {
        looked += 1;
        if looked > FOLDERS_MAX {
            return;
        }
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort_unstable();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with('.') || name == "target" {
                continue;
            }
            // Not followed: a link may lead in circles.
            let Ok(data) = fs::symlink_metadata(&path) else {
                continue;
            };
            if data.is_dir() {
                folders.push_back(path);
            } else if data.is_file() && (1..=FILE_BYTES_MAX).contains(&data.len()) {
                if found.len() >= FILES_MAX {
                    return;
                }
                found.push(path);
            }
        }
    }
}

/// Files, one after the other, over and over again: a message with the name, then the content in
/// chunks, all to the same group.
#[derive(Debug)]
pub(crate) struct Files {
    paths: Vec<PathBuf>,
    next: usize,
    open: Option<File>,
    /// Files published whole.
    pub(crate) finished: u64,
}

impl Files {
    /// Of these paths.
    #[must_use]
    pub(crate) fn new(paths: Vec<PathBuf>) -> Self {
        Self {
            paths,
            next: 0,
            open: None,
            finished: 0,
        }
    }

    /// The next message, and which of the files it belongs to; `None` if no file can be read.
    pub(crate) fn next(&mut self, message: &mut Vec<u8>) -> Option<usize> {
        for _ in 0..=self.paths.len() {
            message.clear();
            if let Some(file) = &mut self.open {
                let read = file.take(CHUNK_BYTES as u64).read_to_end(message);
                if read.is_ok_and(|read| read > 0) {
                    return Some(self.next);
                }
                self.open = None;
                self.finished += 1;
                self.next += 1;
            }
            let path = self.paths.get(self.next % self.paths.len().max(1))?;
            match File::open(path) {
                Ok(file) => {
                    self.open = Some(file);
                    message.extend_from_slice(path.to_string_lossy().as_bytes());
                    return Some(self.next);
                }
                Err(_) => self.next += 1,
            }
        }
        None
    }
}

/// A trade: symbol, time, price, volume, and sometimes a comment, so that lengths differ.
pub(crate) fn tick(symbol: usize, count: u64, dice: &mut Dice, message: &mut Vec<u8>) {
    let price = 10_000 + dice.below(5000);
    let volume = 1 + dice.below(900);
    let text = format!(
        "8=T|55=Q{symbol:04}|34={count}|44={}.{:02}|38={volume}|",
        price / 100,
        price % 100
    );
    message.extend_from_slice(text.as_bytes());
    if dice.below(16) == 0 {
        message.resize(message.len() + dice.below(200), b'x');
    }
}

/// A measurement: 24 values of a machine, binary.
pub(crate) fn measurement(machine: usize, count: u64, dice: &mut Dice, message: &mut Vec<u8>) {
    message.extend_from_slice(&(machine as u32).to_le_bytes());
    message.extend_from_slice(&count.to_le_bytes());
    for sensor in 0..24u32 {
        let value = f64::from(sensor) * 10.0 + dice.below(1000) as f64 / 1000.0;
        message.extend_from_slice(&value.to_le_bytes());
    }
}

/// A letter to one receiver.
pub(crate) fn letter(inbox: usize, count: u64, message: &mut Vec<u8>) {
    let text = format!("letter {count}, for the owner of inbox {}", inbox + 1);
    message.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dice_stay_below_their_end_and_reach_everything() {
        let mut dice = Dice::new(42);
        let mut seen = [false; 6];
        for _ in 0..1000 {
            seen[dice.below(6)] = true;
        }
        assert_eq!(seen, [true; 6]);
    }

    #[test]
    fn a_file_is_its_name_and_then_its_content() {
        let folder = std::env::temp_dir().join(format!("qsm-content-{}", std::process::id()));
        fs::create_dir_all(folder.join("deep")).unwrap();
        fs::write(folder.join("deep/b"), vec![7; CHUNK_BYTES + 1]).unwrap();
        fs::write(folder.join("a"), b"content").unwrap();
        fs::write(folder.join("empty"), b"").unwrap();
        fs::write(folder.join(".hidden"), b"no").unwrap();
        let mut paths = find_files(Some(&folder)).unwrap();
        assert_eq!(paths.pop(), std::env::current_exe().ok());
        assert_eq!(paths, [folder.join("a"), folder.join("deep/b")]);
        let mut files = Files::new(paths);
        let mut message = Vec::new();
        let mut lengths = Vec::new();
        for _ in 0..6 {
            let place = files.next(&mut message).unwrap();
            lengths.push((place, message.len()));
        }
        let name = |file: &str| folder.join(file).to_string_lossy().len();
        let (a, b) = (name("a"), name("deep/b"));
        assert_eq!(
            lengths,
            [(0, a), (0, 7), (1, b), (1, CHUNK_BYTES), (1, 1), (2, a)]
        );
        assert_eq!(files.finished, 2);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn without_any_readable_file_there_is_nothing() {
        let mut message = Vec::new();
        assert_eq!(Files::new(Vec::new()).next(&mut message), None);
        assert_eq!(
            Files::new(vec![PathBuf::from("/nowhere/at/all")]).next(&mut message),
            None
        );
    }
}
