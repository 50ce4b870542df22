//! Closed networks to measure and to test on, made of nameless network namespaces.
//!
//! ```text
//!   namespace of the sender                      namespace of the receivers
//!   ┌──────────────────────────────┐             ┌──────────────────────────────┐
//!   │ wire0  10.79.0.1, fd79::1    ├─────veth────┤ wire1  10.79.0.2, fd79::2    │
//!   │ 10.81/16, fd81::/64 via .2   │             │ 10.81/16, fd81::/64 are here │
//!   └──────────────────────────────┘             └──────────────────────────────┘
//! ```
//!
//! Namespaces without a name end with the last descriptor and process in them, so nothing is left
//! behind by a test that fails or is killed. They need root (`CAP_SYS_ADMIN`, `CAP_NET_ADMIN`) and
//! the program `ip`.

use std::fs::File;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::clone::device_flags;
use crate::sockopt::check;

const NEAR_MAC: &str = "02:00:00:00:00:01";
const FAR_MAC: &str = "02:00:00:00:00:02";
/// The number of the near device. In a new namespace devices are numbered from 2; between two of
/// the same number the kernel takes a change of carrier for no hurry, and puts it off by up to a
/// second.
const NEAR_INDEX: u32 = 12;

/// How long a new device may take to become operational.
const RUNNING_MAX: Duration = Duration::from_secs(5);

/// A network namespace of our own.
#[derive(Debug)]
pub struct Namespace {
    file: OwnedFd,
}

impl Namespace {
    /// Makes one, with nothing but a loopback device that is up.
    ///
    /// # Errors
    /// What the system says without the privilege, or without `ip`.
    pub fn new() -> io::Result<Self> {
        let made = thread::spawn(|| {
            // SAFETY: takes an integer and moves this thread alone, which ends below.
            check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
            let file = File::open("/proc/thread-self/ns/net")?;
            Ok::<_, io::Error>(Self { file: file.into() })
        });
        let namespace = made
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))?;
        namespace.ip("link set lo up\n")?;
        Ok(namespace)
    }

    /// Runs a function in it, on a thread of its own. Sockets and threads made there stay in it.
    ///
    /// # Panics
    /// If the namespace cannot be entered, or with the function's own panic.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let fd = self.file.as_raw_fd();
        thread::scope(|scope| {
            let worker = scope.spawn(move || {
                // SAFETY: takes two integers; moves this thread alone.
                let entered = check(unsafe { libc::setns(fd, libc::CLONE_NEWNET) });
                entered.expect("a namespace of ours can be entered while we have CAP_SYS_ADMIN");
                work()
            });
            match worker.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Feeds commands to `ip -batch` in it.
    ///
    /// # Errors
    /// With what `ip` complained about.
    pub fn ip(&self, commands: &str) -> io::Result<()> {
        self.run(|| {
            let mut child = Command::new("ip")
                .args(["-batch", "-"])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()?;
            if let Some(input) = &mut child.stdin {
                input.write_all(commands.as_bytes())?;
            }
            let output = child.wait_with_output()?;
            if output.status.success() {
                return Ok(());
            }
            let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(io::Error::other(format!("ip {commands:?}: {complaint}")))
        })
    }

    /// How to name it in a command of `ip`, while this process lives.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }
}

/// Two namespaces and a veth pair between them.
#[derive(Debug)]
pub struct Wire {
    /// Where the sender runs; its device is `wire0`.
    pub near: Namespace,
    /// Where the receivers run; its device is `wire1`.
    pub far: Namespace,
}

impl Wire {
    /// Makes one of this MTU.
    ///
    /// # Errors
    /// What the system says without the privilege, or without `ip`.
    pub fn new(mtu: u32) -> io::Result<Self> {
        let (near, far) = (Namespace::new()?, Namespace::new()?);
        near.ip(&format!(
            "link add wire0 index {NEAR_INDEX} address {NEAR_MAC} mtu {mtu} type veth \
             peer name wire1 address {FAR_MAC} mtu {mtu} netns {}\n",
            far.path()
        ))?;
        far.ip("addr add 10.79.0.2/16 dev wire1\n\
             addr add fd79::2/64 dev wire1 nodad\n\
             link set wire1 up\n\
             route add local 10.81.0.0/16 dev lo\n\
             route add local fd81::/64 dev lo\n")?;
        // IPv6 sockets can otherwise be bound only to addresses of an interface.
        far.run(|| std::fs::write("/proc/sys/net/ipv6/ip_nonlocal_bind", "1"))?;
        near.ip("addr add 10.79.0.1/16 dev wire0\n\
             addr add fd79::1/64 dev wire0 nodad\n\
             link set wire0 up\n\
             route add 10.81.0.0/16 via 10.79.0.2\n\
             route add fd81::/64 via fd79::2\n")?;
        near.run(|| await_running("wire0"))?;
        far.run(|| await_running("wire1"))?;
        Ok(Self { near, far })
    }

    /// Tells the sender's kernel the far end's hardware address for good: a wire that discards
    /// everything answers no question for it either.
    ///
    /// # Errors
    /// With what `ip` complained about.
    pub fn fix_neighbours(&self) -> io::Result<()> {
        self.near.ip(&format!(
            "neigh replace 10.79.0.2 lladdr {FAR_MAC} dev wire0 nud permanent\n\
             neigh replace fd79::2 lladdr {FAR_MAC} dev wire0 nud permanent\n"
        ))
    }

    /// The address of a receiver behind the wire, by its number.
    #[must_use]
    pub fn receiver_v4(number: u16) -> IpAddr {
        Ipv4Addr::from(0x0a51_0000 | u32::from(number)).into()
    }

    /// The same over IPv6.
    #[must_use]
    pub fn receiver_v6(number: u16) -> IpAddr {
        Ipv6Addr::new(0xfd81, 0, 0, 0, 0, 0, 0, number).into()
    }
}

/// Waits until a device is operational: what is sent earlier is lost without a trace, and the
/// kernel may put a change of carrier off by a second.
fn await_running(device: &str) -> io::Result<()> {
    let start = Instant::now();
    loop {
        // Looked at before the device, so that a process that was held up looks once more.
        let late = start.elapsed() > RUNNING_MAX;
        if device_flags(device)? & libc::IFF_RUNNING != 0 {
            return Ok(());
        }
        if late {
            let reason = format!("{device} stays without carrier");
            return Err(io::Error::other(reason));
        }
        thread::sleep(Duration::from_millis(1));
    }
}
