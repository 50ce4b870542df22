//! `qsm sub --output`: a file for each group.
//!
//! Whole records are collected for each group and written together. When the disk is full, the
//! file is cut back to its last whole record, so that what it holds can be read again.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use qsm_console::digest;
use qsm_console::failure::Failure;

use crate::record::{Format, Record};

/// Most files open at once; beyond it the least recently opened one is closed, and opened again
/// when needed.
const OPEN_FILES_MAX: usize = 256;

/// Bytes of one group that wait to be written, at most, beside one message.
const PENDING_BYTES_MAX: usize = 64 << 10;

/// Longest file name of Linux file systems, bytes.
const FILE_NAME_BYTES_MAX: usize = 255;

/// The folder.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    format: Format,
    groups: BTreeMap<String, GroupFile>,
    /// Groups whose files are open, the oldest first.
    open: Vec<String>,
}

#[derive(Debug, Default)]
struct GroupFile {
    file: Option<File>,
    pending: Vec<u8>,
    /// Where records end in `pending`.
    ends: Vec<usize>,
}

impl Store {
    /// Uses this folder, which is made if it is not there; files in it are appended to.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn open(folder: &Path, format: Format) -> Result<Self, Failure> {
        fs::create_dir_all(folder)
            .map_err(|error| Failure::io(format!("make {}", folder.display()), &error))?;
        Ok(Self {
            folder: folder.to_owned(),
            format,
            groups: BTreeMap::new(),
            open: Vec::new(),
        })
    }

    /// Takes a message; it may be written later, see [`Store::flush`].
    ///
    /// # Errors
    /// As [`Store::flush`].
    pub(crate) fn add(&mut self, record: Record<'_>) -> Result<(), Failure> {
        if !self.groups.contains_key(record.group) {
            self.groups
                .insert(record.group.to_owned(), GroupFile::default());
        }
        let Some(group) = self.groups.get_mut(record.group) else {
            return Ok(());
        };
        record.append(self.format, &mut group.pending);
        group.ends.push(group.pending.len());
        if group.pending.len() >= PENDING_BYTES_MAX {
            self.write(record.group)?;
        }
        Ok(())
    }

    /// Writes what waits. Every group is tried, also after a failure.
    ///
    /// # Errors
    /// The first failure: a full disk, for example. It says what did not get into the file;
    /// everything before is in there, whole.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        let waiting = self
            .groups
            .iter()
            .filter(|(_, group)| !group.ends.is_empty());
        let names: Vec<String> = waiting.map(|(name, _)| name.clone()).collect();
        let mut first = Ok(());
        for name in names {
            let written = self.write(&name);
            if first.is_ok() {
                first = written;
            }
        }
        first
    }

    /// The file of a group.
    #[must_use]
    pub(crate) fn path(&self, group: &str) -> PathBuf {
        self.folder.join(file_name(group))
    }

    fn write(&mut self, name: &str) -> Result<(), Failure> {
        let path = self.path(name);
        self.make_open(name, &path)?;
        let Some(group) = self.groups.get_mut(name) else {
            return Ok(());
        };
        let Some(file) = &group.file else {
            return Ok(());
        };
        let (pending, ends) = (
            std::mem::take(&mut group.pending),
            std::mem::take(&mut group.ends),
        );
        let outcome = write_records(file, &pending, &ends);
        group.pending = pending;
        group.pending.clear();
        outcome.map_err(|(kept, error)| {
            let failure = Failure::io(format!("write {}", path.display()), &error);
            let missing = ends.len() - kept;
            Failure {
                cause: format!(
                    "{}; the last {missing} messages received did not get into the file, all \
                     before did",
                    failure.cause
                ),
                ..failure
            }
        })
    }

    fn make_open(&mut self, name: &str, path: &Path) -> Result<(), Failure> {
        let Some(group) = self.groups.get_mut(name) else {
            return Ok(());
        };
        if group.file.is_some() {
            return Ok(());
        }
        let file = OpenOptions::new().append(true).create(true).open(path);
        let file = file.map_err(|error| Failure::io(format!("open {}", path.display()), &error))?;
        group.file = Some(file);
        self.open.push(name.to_owned());
        if self.open.len() > OPEN_FILES_MAX {
            let oldest = self.open.remove(0);
            if let Some(group) = self.groups.get_mut(&oldest) {
                group.file = None;
            }
        }
        Ok(())
    }
}

/// Appends whole records. If that fails: how many of them are in the file, which ends after them.
fn write_records(mut file: &File, bytes: &[u8], ends: &[usize]) -> Result<(), (usize, io::Error)> {
    let mut done = 0;
    while done < bytes.len() {
        let error = match file.write(&bytes[done..]) {
            Ok(0) => io::Error::from(io::ErrorKind::WriteZero),
            Ok(written) => {
                done += written;
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => error,
        };
        let kept = ends.iter().take_while(|&&end| end <= done).count();
        let whole = kept.checked_sub(1).map_or(0, |last| ends[last]);
        let excess = (done - whole) as u64;
        // If cutting fails too, the first failure is what the user has to know.
        let cut = file
            .metadata()
            .and_then(|data| file.set_len(data.len().saturating_sub(excess)));
        return Err((
            kept,
            match cut {
                Ok(()) => error,
                Err(more) => both(&error, &more),
            },
        ));
    }
    Ok(())
}

fn both(first: &io::Error, then: &io::Error) -> io::Error {
    io::Error::new(
        first.kind(),
        format!("{first}, and cutting it back failed: {then}"),
    )
}

/// A group's name as a file name: what is neither letter, digit nor one of `-_.` becomes `%` and
/// its bytes in hexadecimal, so that different groups have different files. What would be too long
/// ends with a hash instead.
#[must_use]
pub(crate) fn file_name(group: &str) -> String {
    let mut name = String::new();
    for (at, byte) in group.bytes().enumerate() {
        let plain = byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if plain || (byte == b'.' && at > 0) {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02X}"));
        }
    }
    if name.len() > FILE_NAME_BYTES_MAX {
        let hash = digest::hex(&digest::sha256(group.as_bytes()));
        name.truncate(FILE_NAME_BYTES_MAX - 1 - hash.len());
        name.push('%');
        name.push_str(&hash);
    }
    name
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use qsm::Origin;

    use super::*;

    fn folder(test: &str) -> PathBuf {
        std::env::temp_dir().join(format!("qsm-store-{test}-{}", std::process::id()))
    }

    fn record<'a>(group: &'a str, bytes: &'a [u8]) -> Record<'a> {
        Record {
            group,
            sender: Origin::default(),
            number: 1,
            bytes,
            name: None,
            relayed: None,
            time: std::time::SystemTime::UNIX_EPOCH,
            schema: None,
        }
    }

    #[test]
    fn different_groups_have_different_plain_file_names() {
        assert_eq!(file_name("prices/eur-usd_1.5"), "prices%2Feur-usd_1.5");
        assert_eq!(file_name(".."), "%2E.");
        assert_eq!(file_name("ä"), "%C3%A4");
        let long = [
            &"/".repeat(255),
            &format!("{}x", "/".repeat(254)),
            "/",
            "%2F",
        ]
        .map(file_name);
        assert!(long.iter().all(|name| name.len() <= FILE_NAME_BYTES_MAX));
        assert_eq!(long.iter().collect::<BTreeSet<_>>().len(), long.len());
    }

    #[test]
    fn every_group_has_its_file_however_many_there_are() {
        let folder = folder("many");
        let mut store = Store::open(&folder, Format::Lines).unwrap();
        let names: Vec<String> = (0..OPEN_FILES_MAX + 50).map(|n| format!("g/{n}")).collect();
        for round in ["one", "two"] {
            for name in &names {
                store.add(record(name, round.as_bytes())).unwrap();
            }
            store.flush().unwrap();
        }
        for name in &names {
            assert_eq!(fs::read_to_string(store.path(name)).unwrap(), "one\ntwo\n");
        }
        assert!(store.open.len() <= OPEN_FILES_MAX);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_there_already_is_kept() {
        let folder = folder("append");
        for round in ["one", "two"] {
            let mut store = Store::open(&folder, Format::Lines).unwrap();
            store.add(record("g", round.as_bytes())).unwrap();
            store.flush().unwrap();
        }
        assert_eq!(fs::read_to_string(folder.join("g")).unwrap(), "one\ntwo\n");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_device_that_is_full_is_a_failure_that_says_so() {
        let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
        let (kept, error) = write_records(&full, b"abc", &[1, 3]).unwrap_err();
        assert_eq!(kept, 0);
        assert!(error.to_string().contains("No space left"), "{error}");
    }
}
