//! Processes that still run on hosts which are about to go: grandchildren of what the lab started,
//! or all processes of a lab whose creator was killed. A lab's namespaces are closed, so whatever
//! runs in them belongs to the lab.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process;
use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::namespace::NAMESPACES;
use crate::pidfd::Pidfd;

/// How long killed processes may take to end. SIGKILL cannot be refused; only a process inside a
/// stuck system call takes longer than milliseconds.
const END_MAX: Duration = Duration::from_secs(5);

/// Identity of a namespace: device and inode of the file that stands for it.
type Identity = (u64, u64);

/// Kills the processes in the namespaces `names`, except the calling one, and waits for their end.
pub(crate) fn kill_in(names: &[String]) -> Result<(), LabError> {
    let doomed: BTreeSet<Identity> = names
        .iter()
        .filter_map(|name| identity(&Path::new(NAMESPACES).join(name)).ok())
        .collect();
    if doomed.is_empty() {
        return Ok(());
    }
    let folder = fs::read_dir("/proc").map_err(|e| LabError::system("read /proc", e))?;
    let killed: Vec<Pidfd> = folder
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&pid: &u32| pid != process::id())
        .filter_map(|pid| kill(pid, &doomed))
        .collect();
    let start = Instant::now();
    for process in killed {
        let left = END_MAX.saturating_sub(start.elapsed());
        process
            .wait_end(Some(left))
            .map_err(|e| LabError::system("wait for a process of a lab to end", e))?;
    }
    Ok(())
}

/// Kills the process if it is in one of the namespaces. One that ends meanwhile is as good as
/// killed.
fn kill(pid: u32, doomed: &BTreeSet<Identity>) -> Option<Pidfd> {
    let inside = || {
        let network = identity(Path::new(&format!("/proc/{pid}/ns/net")));
        network.is_ok_and(|identity| doomed.contains(&identity))
    };
    if !inside() {
        return None;
    }
    let process = Pidfd::open(pid).ok()?;
    // Looked at again now that the descriptor is open: the id may have passed to another process in
    // between.
    if !inside() {
        return None;
    }
    process.signal(libc::SIGKILL).ok()?;
    Some(process)
}

fn identity(path: &Path) -> io::Result<Identity> {
    fs::metadata(path).map(|data| (data.dev(), data.ino()))
}
