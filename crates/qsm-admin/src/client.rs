use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use crate::question::{Answer, Question, Reply};
use crate::server::Owner;

/// Time that a node has for each part of its answer: it may ask the membership service for names.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest answer: of a group with all that a region may have of members and streams.
const ANSWER_BYTES_MAX: u64 = 256 << 20;
/// Flags of a socket that listens, in the kernel's table.
const LISTENS: &str = "00010000";

/// A node of this host, in this network namespace, that can be asked; or a membership service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeSocket {
    owner: Owner,
    pid: u32,
    number: u32,
}

impl NodeSocket {
    /// All nodes that there are, by process.
    ///
    /// # Errors
    /// The kernel's table of sockets cannot be read.
    pub fn all() -> io::Result<Vec<Self>> {
        Self::all_of(Owner::Node)
    }

    /// All membership services that there are, by process.
    ///
    /// # Errors
    /// The kernel's table of sockets cannot be read.
    pub fn services() -> io::Result<Vec<Self>> {
        Self::all_of(Owner::Service)
    }

    fn all_of(owner: Owner) -> io::Result<Vec<Self>> {
        // Of the calling thread's network namespace, which need not be the process's.
        let table = fs::read_to_string("/proc/thread-self/net/unix")?;
        let of = |line| listed(owner, line);
        let mut all: Vec<Self> = table.lines().filter_map(of).collect();
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its name in the abstract namespace.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}/{}", self.owner.prefix(), self.pid, self.number)
    }

    /// Asks it; it has 10 s for each part of its answer.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn ask(&self, question: &Question) -> Result<Answer, AskError> {
        self.ask_within(question, PATIENCE)
    }

    /// Asks it; it has so long, above zero, for each part of its answer.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn ask_within(&self, question: &Question, patience: Duration) -> Result<Answer, AskError> {
        let line = self.exchange(question, patience);
        let line = line.map_err(AskError::Connection)?;
        match serde_json::from_slice(&line) {
            Ok(Reply::Answer(answer)) => Ok(answer),
            Ok(Reply::Error(cause)) => Err(AskError::Refused(cause)),
            Err(error) => Err(AskError::Connection(error.into())),
        }
    }

    fn exchange(&self, question: &Question, patience: Duration) -> io::Result<Vec<u8>> {
        let address = SocketAddr::from_abstract_name(self.name())?;
        let mut node = UnixStream::connect_addr(&address)?;
        // Anybody may take a free name.
        let user = socket_peercred(&node)?.uid;
        if user != geteuid() && !user.is_root() && !geteuid().is_root() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        node.set_read_timeout(Some(patience))?;
        node.set_write_timeout(Some(patience))?;
        let mut bytes = serde_json::to_vec(question)?;
        bytes.push(b'\n');
        node.write_all(&bytes)?;
        let mut line = Vec::new();
        node.take(ANSWER_BYTES_MAX).read_to_end(&mut line)?;
        Ok(line)
    }
}

/// The owner of a line of the kernel's table, if it is such a one and listens.
fn listed(owner: Owner, line: &str) -> Option<NodeSocket> {
    let mut fields = line.split_whitespace();
    let flags = fields.nth(3)?;
    let name = fields.nth(3)?.strip_prefix('@')?;
    let name = name.strip_prefix(owner.prefix())?.strip_prefix('/')?;
    let (pid, number) = name.split_once('/')?;
    let node = NodeSocket {
        owner,
        pid: pid.parse().ok()?,
        number: number.parse().ok()?,
    };
    (flags == LISTENS).then_some(node)
}

/// A node that cannot be asked.
#[derive(Debug)]
#[non_exhaustive]
pub enum AskError {
    /// It is gone, takes too long, or belongs to another user.
    Connection(io::Error),
    /// It says why it does not answer.
    Refused(String),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                f.write_str("it is another user's; ask as that user, or as root")
            }
            Self::Connection(error) if timed_out(error) => {
                f.write_str("it does not answer in time; does its process stand still?")
            }
            Self::Connection(error) => write!(f, "it does not answer: {error}"),
            Self::Refused(cause) => f.write_str(cause),
        }
    }
}

/// Tells whether a socket's time was over: the kernel says then that it would block.
fn timed_out(error: &io::Error) -> bool {
    let over = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut];
    over.contains(&error.kind())
}

impl std::error::Error for AskError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connection(error) => Some(error),
            Self::Refused(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_found_in_the_kernels_table() {
        let line = "0000000000000000: 00000002 00000000 00010000 0001 01 26611 @qsm/4711/0";
        let node = NodeSocket {
            owner: Owner::Node,
            pid: 4711,
            number: 0,
        };
        let listed = |line: &str| listed(Owner::Node, line);
        assert_eq!(listed(line), Some(node));
        let service = line.replace("@qsm/", "@qsm-gms/");
        assert_eq!(listed(&service), None);
        let found = super::listed(Owner::Service, &service).unwrap();
        assert_eq!(found.name(), "qsm-gms/4711/0");
        assert_eq!(listed(&line.replace("00010000", "00000000")), None);
        for other in ["@qsm/x/0", "@qsm/1", "/run/qsm/1/0", "@qsm/1/0/2", ""] {
            assert_eq!(listed(&line.replace("@qsm/4711/0", other)), None, "{other}");
        }
        let heading = "Num       RefCount Protocol Flags    Type St Inode Path";
        assert_eq!(listed(heading), None);
    }
}
