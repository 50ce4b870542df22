//! Files of what is revoked, read again when they change.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use qsm_x509::Anchors;

/// Pause between two looks whether the file has changed.
const LOOK: Duration = Duration::from_millis(500);
/// Longest list of revocations that is read, bytes: one of all that it may have takes a third.
pub(crate) const LIST_BYTES_MAX: u64 = 1 << 18;
/// Longest file of lists of revoked certificates, bytes.
pub(crate) const CRL_BYTES_MAX: u64 = 1 << 24;

/// A file that somebody writes anew, as `qsm token revoke` does.
#[derive(Debug)]
pub(crate) struct RevocationFile {
    path: PathBuf,
    bytes_max: u64,
    seen: Option<Seen>,
    look_at: Instant,
}

/// A file of lists of revoked certificates, and the authorities whose they are.
#[derive(Debug)]
pub(crate) struct CertificateLists {
    anchors: Arc<Anchors>,
    file: RevocationFile,
}

/// A version of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    modified: Option<SystemTime>,
    bytes: u64,
}

impl RevocationFile {
    pub(crate) fn new(path: PathBuf, bytes_max: u64) -> Self {
        Self {
            path,
            bytes_max,
            seen: None,
            look_at: Instant::now(),
        }
    }

    /// Its text, when it is another one than before; or why it cannot be read, once for each version of the file.
    pub(crate) fn poll(&mut self) -> Option<Result<String, String>> {
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

    fn read(&self) -> Result<String, String> {
        let mut text = String::new();
        let file = fs::File::open(&self.path);
        let read = file.and_then(|file| file.take(self.bytes_max).read_to_string(&mut text));
        read.map_err(|error| format!("{} cannot be read: {error}", self.path.display()))?;
        Ok(text)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Time until it is to be looked at again.
    pub(crate) fn due(&self) -> Duration {
        self.look_at.saturating_duration_since(Instant::now())
    }
}

impl CertificateLists {
    /// Lists of these authorities, in this file.
    pub(crate) fn new(anchors: Arc<Anchors>, path: PathBuf) -> Self {
        let file = RevocationFile::new(path, CRL_BYTES_MAX);
        Self { anchors, file }
    }

    /// The authorities with the lists of the file, when it is another one than before; or why it cannot be used, once for
    /// each version of it: the lists before it stay in force.
    pub(crate) fn poll(&mut self) -> Option<Result<Arc<Anchors>, String>> {
        let text = self.file.poll()?;
        Some(text.and_then(|pem| {
            let listed = self.anchors.with_revoked(pem.as_bytes());
            let shown = self.file.path().display();
            let listed = listed.map_err(|error| format!("{shown}: {error}"))?;
            self.anchors = Arc::new(listed);
            Ok(Arc::clone(&self.anchors))
        }))
    }

    /// Time until the file is to be looked at again.
    pub(crate) fn due(&self) -> Duration {
        self.file.due()
    }
}
