//! Which labs exist on this machine, and which of them have lost their creator.
//!
//! Each lab has a file in `/run/qsm-lab`, named by the lab's prefix, on which its creator holds a
//! lock (`flock`). The kernel releases the lock when the creator ends, however it ends; so a file
//! whose lock can be taken belongs to a stale lab. One more lock serialises making and reaping: a
//! file just made and not yet locked must not look stale.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::LabError;
use crate::namespace::NAMESPACES;
use crate::strays;
use crate::tool::IP;

const REGISTRY: &str = "/run/qsm-lab";
const LOCK: &str = "/run/qsm-lab/.lock";

/// Every prefix starts so. Host names show up in logs, so it is short.
const MARK: &str = "qsm";

/// How many prefixes are tried. A collision needs a reused process id and a lab that could not be
/// removed.
const ATTEMPTS_MAX: u32 = 64;

static LABS_MADE: AtomicU32 = AtomicU32::new(0);

/// A lab's entry. Dropping it deletes everything the lab left on the machine: processes,
/// namespaces, output files.
#[derive(Debug)]
pub(crate) struct Registration {
    prefix: String,
    output: PathBuf,
    /// Locked for as long as it is open.
    _file: File,
}

impl Registration {
    /// Removes stale labs and enters a new one.
    pub(crate) fn new() -> Result<Self, LabError> {
        let _lock = lock_registry()?;
        reap()?;
        for _ in 0..ATTEMPTS_MAX {
            let number = LABS_MADE.fetch_add(1, Ordering::Relaxed);
            let prefix = format!("{MARK}{:x}-{number}", process::id());
            if let Some(registration) = Self::claim(prefix)? {
                return Ok(registration);
            }
        }
        let exists = io::Error::from(io::ErrorKind::AlreadyExists);
        Err(LabError::system(
            format!("find an unused name; delete old files in {REGISTRY} and {NAMESPACES}"),
            exists,
        ))
    }

    /// Takes the prefix, unless it is in use.
    fn claim(prefix: String) -> Result<Option<Self>, LabError> {
        if !namespaces_of(&prefix)?.is_empty() {
            return Ok(None);
        }
        let path = entry(&prefix);
        let failed = |e| LabError::system(format!("make {}", path.display()), e);
        let made = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        let mut file = match made {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            Err(e) => return Err(failed(e)),
        };
        lock(&file, libc::LOCK_EX | libc::LOCK_NB).map_err(failed)?;
        let output = std::env::temp_dir().join(&prefix);
        match DirBuilder::new().mode(0o700).create(&output) {
            Ok(()) => {}
            Err(e) => {
                fs::remove_file(&path).map_err(failed)?;
                if e.kind() == io::ErrorKind::AlreadyExists {
                    return Ok(None);
                }
                return Err(LabError::system(format!("make {}", output.display()), e));
            }
        }
        // From here on, dropping the registration removes what is there.
        let mut line = output.as_os_str().as_bytes().to_vec();
        line.push(b'\n');
        let written = file.write_all(&line);
        let registration = Self {
            prefix,
            output,
            _file: file,
        };
        written.map_err(failed)?;
        Ok(Some(registration))
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The folder for files of this lab.
    pub(crate) fn output(&self) -> &Path {
        &self.output
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // The entry stays when something could not be removed, so that a later reap tries again.
        if let Err(error) = remove(&self.prefix, Some(&self.output)) {
            eprintln!("lab {}: left behind: {error}", self.prefix);
        }
    }
}

/// Removes the labs whose creator has ended; returns their prefixes.
pub(crate) fn reap_stale() -> Result<Vec<String>, LabError> {
    let _lock = lock_registry()?;
    reap()
}

fn reap() -> Result<Vec<String>, LabError> {
    let failed = |e| LabError::system(format!("read {REGISTRY}"), e);
    let mut reaped = Vec::new();
    for item in fs::read_dir(REGISTRY).map_err(failed)? {
        let name = item.map_err(failed)?.file_name();
        let Some(prefix) = name.to_str().filter(|name| name.starts_with(MARK)) else {
            continue;
        };
        let mut file = match File::open(entry(prefix)) {
            Ok(file) => file,
            // Its owner has just removed it.
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(failed(e)),
        };
        match lock(&file, libc::LOCK_EX | libc::LOCK_NB) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => continue,
            Err(e) => return Err(failed(e)),
        }
        let mut output = Vec::new();
        file.read_to_end(&mut output).map_err(failed)?;
        // Without its end the line is incomplete, and names no folder we may delete.
        let output = output
            .strip_suffix(b"\n")
            .map(|path| PathBuf::from(std::ffi::OsStr::from_bytes(path)));
        remove(prefix, output.as_deref())?;
        reaped.push(prefix.to_owned());
    }
    Ok(reaped)
}

/// Removes all that a lab consists of, its entry last.
fn remove(prefix: &str, output: Option<&Path>) -> Result<(), LabError> {
    let names = namespaces_of(prefix)?;
    strays::kill_in(&names)?;
    delete_namespaces(&names)?;
    if let Some(output) = output {
        gone(fs::remove_dir_all(output), output)?;
    }
    let path = entry(prefix);
    gone(fs::remove_file(&path), &path)
}

/// Deletes all of them, as far as possible, and reports the first failure.
pub(crate) fn delete_namespaces(names: &[String]) -> Result<(), LabError> {
    if names.is_empty() {
        return Ok(());
    }
    let batch: String = names
        .iter()
        .map(|name| format!("netns del {name}\n"))
        .collect();
    IP.run(None, &["-force", "-batch", "-"], &batch).map(drop)
}

/// Names of the namespaces that belong to the lab.
fn namespaces_of(prefix: &str) -> Result<Vec<String>, LabError> {
    let failed = |e| LabError::system(format!("read {NAMESPACES}"), e);
    let folder = match fs::read_dir(NAMESPACES) {
        Ok(folder) => folder,
        // No namespace has ever been named on this machine.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(failed(e)),
    };
    let start = format!("{prefix}-");
    let mut names = Vec::new();
    for item in folder {
        let name = item.map_err(failed)?.file_name();
        names.extend(
            name.to_str()
                .filter(|name| name.starts_with(&start))
                .map(str::to_owned),
        );
    }
    Ok(names)
}

fn entry(prefix: &str) -> PathBuf {
    Path::new(REGISTRY).join(prefix)
}

/// What was to be removed and is not there is removed.
fn gone(result: io::Result<()>, path: &Path) -> Result<(), LabError> {
    match result {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(LabError::system(format!("remove {}", path.display()), e))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn lock_registry() -> Result<File, LabError> {
    let failed = |e| LabError::system(format!("lock {LOCK}"), e);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(REGISTRY)
        .map_err(failed)?;
    let options = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .clone();
    let file = options.open(LOCK).map_err(failed)?;
    lock(&file, libc::LOCK_EX).map_err(failed)?;
    Ok(file)
}

fn lock(file: &File, operation: i32) -> io::Result<()> {
    loop {
        // SAFETY: flock takes an open descriptor and an integer and touches no memory.
        if unsafe { libc::flock(file.as_raw_fd(), operation) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
