//! What can go wrong in a lab: the command that failed, what it said, and what to do.

use std::fmt;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use crate::machine::{HOSTS_MAX, HostId, PROCESSES_MAX};
use crate::rules::LOSS_PPM_MAX;

/// Why an operation on a lab failed. The text names the cause and the remedy.
#[derive(Debug)]
#[non_exhaustive]
pub enum LabError {
    /// `ip`, `nft` or `ethtool` ran and reported a failure.
    Command {
        /// The command line, the namespace it ran in and what it was fed with, shortened.
        line: String,
        /// What it wrote to standard error.
        stderr: String,
        /// What to do about it.
        remedy: &'static str,
    },
    /// The link's properties cannot be had, or it would not be one.
    BadLink {
        /// Fault, and its remedy.
        wrong: &'static str,
    },
    /// The id of a site or link was handed out by another lab.
    ForeignLink,
    /// The host id was handed out by another lab.
    ForeignHost {
        /// The id.
        host: HostId,
    },
    /// A new interface did not become operational.
    LinkDown {
        /// The interface and its namespace.
        interface: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// More than [`LOSS_PPM_MAX`] packets in a million cannot be lost.
    LossOutOfRange {
        /// What was asked for, in packets per million.
        ppm: u32,
    },
    /// The process has ended, so that it cannot be signalled.
    ProcessEnded {
        /// Its process id.
        pid: u32,
        /// How it ended.
        status: ExitStatus,
    },
    /// A system call failed.
    System {
        /// What was attempted.
        action: String,
        /// What the system said.
        source: io::Error,
        /// What to do about it.
        remedy: &'static str,
    },
    /// The lab has [`HOSTS_MAX`] hosts already.
    TooManyHosts,
    /// [`PROCESSES_MAX`] processes of the lab are running already.
    TooManyProcesses,
    /// This machine cannot run a lab, or lacks a program that this operation needs.
    Unavailable(Unavailable),
}

impl LabError {
    pub(crate) fn system(action: impl Into<String>, source: io::Error) -> Self {
        let remedy = match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => "run as root, with CAP_SYS_ADMIN and CAP_NET_ADMIN",
            Some(libc::EMFILE | libc::ENFILE) => "raise the limit of open files (ulimit -n)",
            Some(libc::ENOENT) => {
                "check that the program or file exists and has not been removed meanwhile"
            }
            Some(libc::ENOSPC) => "free space on /run and in the temporary folder",
            _ => "see `man 7 network_namespaces` and the kernel log",
        };
        Self::System {
            action: action.into(),
            source,
            remedy,
        }
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command {
                line,
                stderr,
                remedy,
            } => {
                write!(f, "`{line}` failed: {}; {remedy}", stderr.trim_end())
            }
            Self::BadLink { wrong } => f.write_str(wrong),
            Self::ForeignLink => f.write_str(
                "the site or link belongs to another lab; use ids that this lab has returned",
            ),
            Self::ForeignHost { host } => {
                write!(
                    f,
                    "{host:?} belongs to another lab; use ids that this lab's add_host returned"
                )
            }
            Self::LinkDown { interface, waited } => {
                let ms = waited.as_millis();
                write!(
                    f,
                    "{interface} is not operational after {ms} ms; \
                     look at the kernel log for veth or bridge errors"
                )
            }
            Self::LossOutOfRange { ppm } => {
                write!(
                    f,
                    "a loss of {ppm} packets per million is more than all; give 0 to {LOSS_PPM_MAX}"
                )
            }
            Self::ProcessEnded { pid, status } => {
                write!(
                    f,
                    "process {pid} has ended ({status}); look at its output for the reason"
                )
            }
            Self::System {
                action,
                source,
                remedy,
            } => write!(f, "cannot {action}: {source}; {remedy}"),
            Self::TooManyHosts => {
                write!(
                    f,
                    "the lab has {HOSTS_MAX} hosts, the most a switch takes; \
                     start several processes per host"
                )
            }
            Self::TooManyProcesses => {
                write!(
                    f,
                    "{PROCESSES_MAX} processes of this lab are running; \
                     end some before starting more"
                )
            }
            Self::Unavailable(unavailable) => unavailable.fmt(f),
        }
    }
}

impl std::error::Error for LabError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { source, .. } => Some(source),
            Self::Unavailable(unavailable) => Some(unavailable),
            Self::BadLink { .. }
            | Self::Command { .. }
            | Self::ForeignLink
            | Self::ForeignHost { .. }
            | Self::LinkDown { .. }
            | Self::LossOutOfRange { .. }
            | Self::ProcessEnded { .. }
            | Self::TooManyHosts
            | Self::TooManyProcesses => None,
        }
    }
}

impl From<Unavailable> for LabError {
    fn from(unavailable: Unavailable) -> Self {
        Self::Unavailable(unavailable)
    }
}

/// Why this machine cannot run a lab. The text names the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unavailable {
    /// The process lacks a capability.
    MissingCapability {
        /// Its name, as in `man 7 capabilities`.
        capability: &'static str,
    },
    /// A program is not installed.
    MissingProgram {
        /// The program.
        program: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// The system refused something a lab needs, although the capabilities are there.
    Refused {
        /// What was attempted.
        action: &'static str,
        /// What the system said.
        detail: String,
    },
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingCapability { capability } => write!(
                f,
                "network namespaces need {capability}, which this process lacks; run as root, \
                 in a container with --cap-add SYS_ADMIN --cap-add NET_ADMIN"
            ),
            Self::MissingProgram { program, package } => {
                write!(
                    f,
                    "the program `{program}` is not installed; apt-get install {package}"
                )
            }
            Self::Refused { action, detail } => write!(
                f,
                "the system refused to {action}: {}; use a kernel with veth, bridge and nf_tables, \
                 and in a container a seccomp profile that permits unshare and setns",
                detail.trim_end()
            ),
        }
    }
}

impl std::error::Error for Unavailable {}
