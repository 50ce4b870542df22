//! Files of keys: only their owner may read them.

use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use qsm_seal::{ClusterKey, KeyError};
use zeroize::Zeroizing;

/// Longest file that is read as one of a key, bytes.
const FILE_BYTES_MAX: u64 = 4096;
/// Rights of others on a file of a key: none.
const OTHERS: u32 = 0o077;
/// The right that the group of a file of root's may have: to read it. Secrets that are mounted into a
/// container are so, and who is in that group was chosen by root.
const GROUP_OF_ROOT: u32 = 0o040;

/// Reads a cluster's key from a file, which nobody but its owner may read, and the
/// group of a file of root's.
///
/// # Errors
/// [`KeyFileError`]: there is no such file, it holds no key, or others may read it.
pub fn read_key(path: impl AsRef<Path>) -> Result<ClusterKey, KeyFileError> {
    let path = path.as_ref();
    let text = read_secret(path)?;
    let key = text.parse();
    key.map_err(|error| KeyFileError::new(path, KeyFileCause::NoKey(error)))
}

/// Writes a cluster's key into a new file, which only its owner may read.
///
/// # Errors
/// [`KeyFileError`]: the file is there already, or cannot be written.
pub fn write_key(path: impl AsRef<Path>, key: &ClusterKey) -> Result<(), KeyFileError> {
    write_secret(path, &Zeroizing::new(key.to_text()))
}

/// Reads the text of a file of at most 4096 bytes that is secret, of a node's key or a cluster's root: nobody but its
/// owner may read it, and the group of a file of root's. The text is wiped from memory when it is dropped.
///
/// # Errors
/// [`KeyFileError`]: there is no such file, it is longer or no text, or others may read it.
pub fn read_secret(path: impl AsRef<Path>) -> Result<Zeroizing<String>, KeyFileError> {
    let path = path.as_ref();
    let failed = |cause: KeyFileCause| KeyFileError::new(path, cause);
    let file = File::open(path).map_err(|error| failed(KeyFileCause::Io(error)))?;
    let metadata = file.metadata();
    let metadata = metadata.map_err(|error| failed(KeyFileCause::Io(error)))?;
    if is_open_to_others(&metadata) {
        let mode = metadata.mode() & 0o777;
        return Err(failed(KeyFileCause::ReadableByOthers(mode)));
    }
    // All of it at once, so that growing leaves no copy behind.
    let capacity = usize::try_from(FILE_BYTES_MAX).unwrap_or_default() + 1;
    let mut text = Zeroizing::new(String::with_capacity(capacity));
    let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
    match read.map_err(|error| failed(KeyFileCause::Io(error)))? {
        length if length == capacity => Err(failed(KeyFileCause::Io(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "it is longer than any key",
        )))),
        _ => Ok(text),
    }
}

fn is_open_to_others(metadata: &Metadata) -> bool {
    let allowed = match metadata.uid() {
        0 => GROUP_OF_ROOT,
        _ => 0,
    };
    metadata.mode() & OTHERS & !allowed != 0
}

/// Writes a secret text into a new file, which only its owner may read.
///
/// # Errors
/// [`KeyFileError`]: the file is there already, or cannot be written.
pub fn write_secret(path: impl AsRef<Path>, text: &str) -> Result<(), KeyFileError> {
    let path = path.as_ref();
    let mut options = OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o600).open(path);
    let written = opened.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| KeyFileError::new(path, KeyFileCause::Io(error)))
}

/// A file of a key that cannot be used, and why.
#[derive(Debug)]
pub struct KeyFileError {
    path: PathBuf,
    cause: KeyFileCause,
}

/// Why a file of a key cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum KeyFileCause {
    /// The system refuses, as it says.
    Io(io::Error),
    /// Others than its owner have rights on it: these, and its owner's.
    ReadableByOthers(u32),
    /// The file holds no key.
    NoKey(KeyError),
}

impl KeyFileError {
    fn new(path: &Path, cause: KeyFileCause) -> Self {
        let path = path.to_owned();
        Self { path, cause }
    }

    /// Why.
    #[must_use]
    pub fn cause(&self) -> &KeyFileCause {
        &self.cause
    }

    /// Remedy: a thing to do about it.
    #[must_use]
    pub fn remedy(&self) -> String {
        let path = self.path.display();
        match &self.cause {
            KeyFileCause::Io(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                "name another file; a key that is in use must not be overwritten".to_owned()
            }
            KeyFileCause::Io(_) => {
                "name a file that this user may read; `qsm keygen FILE` makes one".to_owned()
            }
            KeyFileCause::ReadableByOthers(_) => {
                format!("`chmod 600 {path}`, and another key if somebody has read it")
            }
            KeyFileCause::NoKey(_) => "`qsm keygen FILE` makes one".to_owned(),
        }
    }
}

/// The cause alone; [`KeyFileError::remedy`] has the rest.
impl fmt::Display for KeyFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.cause {
            KeyFileCause::Io(error) => write!(f, "the key in {path}: {error}"),
            KeyFileCause::ReadableByOthers(mode) => write!(
                f,
                "the key in {path} is not secret: others than its owner have rights on it (mode {mode:o})"
            ),
            KeyFileCause::NoKey(error) => write!(f, "{path} holds no key: {error}"),
        }
    }
}

impl std::error::Error for KeyFileError {}
