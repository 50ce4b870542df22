//! A named network namespace, held by a file descriptor, and ways into it.

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::LabError;

/// Where `ip netns` keeps named namespaces.
pub(crate) const NAMESPACES: &str = "/run/netns";

/// How long a new interface may take to become operational. Under a millisecond was seen (kernel
/// 6.18); the kernel may put a change of carrier off by one second.
const LINK_UP_MAX: Duration = Duration::from_secs(5);

/// A named network namespace. Clones share one descriptor, which keeps the namespace alive.
#[derive(Debug, Clone)]
pub struct Namespace {
    name: String,
    file: Arc<OwnedFd>,
}

impl Namespace {
    pub(crate) fn open(name: String) -> Result<Self, LabError> {
        let path = Path::new(NAMESPACES).join(&name);
        let file = File::open(&path)
            .map_err(|e| LabError::system(format!("open the namespace {}", path.display()), e))?;
        Ok(Self {
            name,
            file: Arc::new(file.into()),
        })
    }

    /// Its name, as `ip netns` lists it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that stands for it, e.g. for `nsenter --net=FILE`.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        Path::new(NAMESPACES).join(&self.name)
    }

    /// Moves the calling thread into this namespace until the guard is dropped.
    ///
    /// # Errors
    ///
    /// [`LabError::System`] where the system refuses, for want of `CAP_SYS_ADMIN`.
    pub fn enter(&self) -> Result<Guard, LabError> {
        let back = File::open("/proc/thread-self/ns/net")
            .map_err(|e| LabError::system("open the present network namespace", e))?;
        set_namespace(self.file.as_raw_fd())
            .map_err(|e| LabError::system(format!("enter the namespace {}", self.name), e))?;
        Ok(Guard {
            back: back.into(),
            stays_on_its_thread: PhantomData,
        })
    }

    /// Makes `command` run in this namespace.
    pub(crate) fn attach(&self, command: &mut Command) {
        let file = Arc::clone(&self.file);
        // SAFETY: the closure runs in the child between fork and exec, where only async-signal-safe
        // calls are allowed; it makes one system call on a descriptor that it owns, and neither
        // allocates nor locks.
        unsafe { command.pre_exec(move || set_namespace(file.as_raw_fd())) };
    }

    /// Switches IPv6 off, where the kernel has it: its neighbour and multicast chatter would
    /// disturb packet counts.
    pub(crate) fn disable_ipv6(&self) -> Result<(), LabError> {
        for which in ["all", "default"] {
            self.set_ipv6(which, "disable_ipv6", "1")?;
        }
        Ok(())
    }

    /// Prepares IPv6 at `interface` for addresses given by hand: none that it makes for itself, no
    /// waiting whether somebody else has them, no looking for routers.
    pub(crate) fn settle_ipv6(&self, interface: &str) -> Result<(), LabError> {
        for (setting, value) in [
            ("disable_ipv6", "0"),
            ("addr_gen_mode", "1"),
            ("accept_dad", "0"),
            ("accept_ra", "0"),
            ("router_solicitations", "0"),
        ] {
            self.set_ipv6(interface, setting, value)?;
        }
        Ok(())
    }

    /// A kernel without IPv6 has no such setting.
    fn set_ipv6(&self, which: &str, setting: &str, value: &str) -> Result<(), LabError> {
        let _inside = self.enter()?;
        let path = format!("/proc/sys/net/ipv6/conf/{which}/{setting}");
        match std::fs::write(&path, value) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(LabError::system(format!("write {path}"), e))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Waits until `interface` is operational: what is sent earlier is lost without a trace.
    pub(crate) fn await_link(&self, interface: &str) -> Result<(), LabError> {
        let _inside = self.enter()?;
        let start = Instant::now();
        loop {
            let running = link_running(interface)
                .map_err(|e| LabError::system(format!("read the flags of {interface}"), e))?;
            if running {
                return Ok(());
            }
            let waited = start.elapsed();
            if waited > LINK_UP_MAX {
                return Err(LabError::LinkDown {
                    interface: format!("{interface} of {}", self.name),
                    waited,
                });
            }
            thread::yield_now();
        }
    }
}

/// The calling thread is in a host's namespace for as long as this lives; dropping it takes the
/// thread back.
///
/// Sockets made meanwhile, and threads started meanwhile, stay in the namespace for good. Processes
/// started meanwhile do too, and are killed with the lab. Guards that overlap on one thread must be
/// dropped in the reverse order.
#[derive(Debug)]
#[must_use = "the thread leaves the namespace at once when the guard is dropped"]
pub struct Guard {
    back: OwnedFd,
    /// Namespaces are per thread, so the guard must not move to another one.
    stays_on_its_thread: PhantomData<*const ()>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Err(error) = set_namespace(self.back.as_raw_fd()) {
            // Going on in the wrong network would make everything after this wrong; but never panic
            // twice.
            assert!(
                thread::panicking(),
                "cannot return to the former network namespace: {error}; \
                 keep CAP_SYS_ADMIN while a Guard lives"
            );
        }
    }
}

fn set_namespace(fd: RawFd) -> io::Result<()> {
    // SAFETY: setns takes two integers and touches no memory of this process; a bad descriptor is
    // an error.
    if unsafe { libc::setns(fd, libc::CLONE_NEWNET) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// From `linux/sockios.h`. glibc and musl take it in different types, into which it converts.
const SIOCGIFFLAGS: u16 = 0x8913;

/// Whether the interface has carrier and its queues are active, in the calling thread's namespace.
fn link_running(interface: &str) -> io::Result<bool> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: `ifreq` is plain data for which all zeroes are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // One byte stays zero and ends the name.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the descriptor is open, and SIOCGIFFLAGS reads the name of and writes the flags to an
    // `ifreq` that we own.
    if unsafe { libc::ioctl(socket.as_raw_fd(), SIOCGIFFLAGS.into(), &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the successful call has filled in the flags of the union.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    Ok(i32::from(flags) & libc::IFF_RUNNING != 0)
}
