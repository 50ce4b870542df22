//! The file of a list of revocations, read again when it changes.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use qsm_identity::Revocations;

/// Pause between two looks whether the file has changed.
const LOOK: Duration = Duration::from_millis(500);
/// Longest file that is read, bytes: a list of all that it may have takes a third.
const FILE_BYTES_MAX: u64 = 1 << 18;

/// A file that `qsm token revoke` writes anew.
#[derive(Debug)]
pub(crate) struct RevocationFile {
    path: PathBuf,
    seen: Option<Seen>,
    look_at: Instant,
}

/// A version of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    modified: Option<SystemTime>,
    bytes: u64,
}

impl RevocationFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            seen: None,
            look_at: Instant::now(),
        }
    }

    /// The list, when it is another one than before; or why it cannot be read, once for each version of the file.
    pub(crate) fn poll(&mut self) -> Option<Result<Revocations, String>> {
        let now = Instant::now();
        if now < self.look_at {
            return None;
        }
        self.look_at = now + LOOK;
        let metadata = fs::metadata(&self.path);
        let seen = metadata.as_ref().map_or(
            Seen {
                modified: None,
                bytes: u64::MAX,
            },
            |metadata| Seen {
                modified: metadata.modified().ok(),
                bytes: metadata.len(),
            },
        );
        if self.seen == Some(seen) {
            return None;
        }
        self.seen = Some(seen);
        Some(self.read())
    }

    fn read(&self) -> Result<Revocations, String> {
        let shown = self.path.display();
        let mut text = String::new();
        let file = fs::File::open(&self.path);
        let read = file.and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text));
        read.map_err(|error| format!("{shown} cannot be read: {error}"))?;
        text.parse()
            .map_err(|error| format!("{shown} holds no list of revocations: {error}"))
    }

    /// Time until it is to be looked at again.
    pub(crate) fn due(&self) -> Duration {
        self.look_at.saturating_duration_since(Instant::now())
    }
}
