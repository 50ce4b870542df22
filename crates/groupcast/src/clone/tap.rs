//! The door through which a packet reaches the cloning program.
//!
//! A tap is a network device whose wire is a file descriptor: what this process writes to it
//! "arrives" at the device, where the program waits on the ingress hook. Nothing else ever arrives
//! there, so the program needs to tell nothing apart, no other device carries a hook of ours, and
//! device and hook vanish with the descriptor, however the process ends.
//!
//! The packet written carries a recipient's addresses already. Should somebody take the program off
//! the hook, the packet reaches the host's own IP input instead, which drops it: its Ethernet
//! destination is not the tap's address.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::backend::Unavailable;
use crate::clone::bpf;
use crate::clone::netlink::{Netlink, Request};
use crate::sockopt::check;

const TUN_FILE: &CStr = c"/dev/net/tun";
/// The kernel puts the first free number in place of `%d`.
const NAME_PATTERN: &[u8] = b"gcast%d";
/// Bytes of `struct virtio_net_hdr` in front of every packet.
pub(super) const VNET_BYTES: usize = 10;

/// Most parts of a packet: headers, prepended bytes, payload, appended bytes.
const PARTS_MAX: usize = 4;

/// The way in which a program is attached to the hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attachment {
    /// By a link (Linux 6.6).
    Link,
    /// By a classic filter.
    Filter,
}

/// A tap with a program on its ingress hook.
#[derive(Debug)]
pub(super) struct Tap {
    file: OwnedFd,
    name: String,
    ifindex: u32,
    /// Keeps the program attached; none where it is attached by a classic filter.
    _link: Option<OwnedFd>,
}

impl Tap {
    /// Makes a device and attaches the program, in the newer way where the kernel has it.
    pub(super) fn new(program: &OwnedFd) -> Result<Self, Unavailable> {
        Self::with(program, Attachment::Link).or_else(|_| Self::with(program, Attachment::Filter))
    }

    /// Makes a device and attaches the program in this way.
    pub(super) fn with(program: &OwnedFd, attachment: Attachment) -> Result<Self, Unavailable> {
        let refused = |e| Unavailable::kernel("make a tap device by /dev/net/tun", e);
        // SAFETY: the path ends with a zero byte.
        let fd = unsafe { libc::open(TUN_FILE.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        check(fd).map_err(refused)?;
        // SAFETY: the call has just made this descriptor for us alone.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        let name = create(&file).map_err(refused)?;
        // Without this, the kernel would announce an IPv6 address on it. Kernels without IPv6 have
        // no such file.
        drop(fs::write(
            format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"),
            "1",
        ));
        let ifindex = up(&name).map_err(refused)?;
        let attached = match attachment {
            Attachment::Link => bpf::attach_tcx_ingress(program, ifindex).map(Some),
            Attachment::Filter => attach_filter(program, ifindex, Hook::Ingress).map(|()| None),
        };
        let link = attached.map_err(|e| Unavailable::kernel("attach a program to the tap", e))?;
        Ok(Self {
            file,
            name,
            ifindex,
            _link: link,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Lets a packet of these parts arrive. The program has run when this returns.
    pub(super) fn write(&self, offload: &[u8; VNET_BYTES], parts: &[&[u8]]) -> io::Result<()> {
        let mut vectors = [libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        }; 1 + PARTS_MAX];
        let all = std::iter::once(&offload[..]).chain(parts.iter().copied());
        let mut count = 0;
        for (vector, part) in vectors.iter_mut().zip(all) {
            vector.iov_base = part.as_ptr().cast_mut().cast();
            vector.iov_len = part.len();
            count += 1;
        }
        loop {
            // SAFETY: the first `count` vectors describe live memory, which is only read.
            let written = unsafe { libc::writev(self.file.as_raw_fd(), vectors.as_ptr(), count) };
            if written >= 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

/// Tells whether an error of [`Tap::write`] means that the device is gone or down.
pub(super) fn is_lost(error: &io::Error) -> bool {
    let codes = [libc::EBADFD, libc::EIO, libc::ENODEV];
    error
        .raw_os_error()
        .is_some_and(|code| codes.contains(&code))
}

fn request_for(name: &[u8]) -> libc::ifreq {
    // SAFETY: plain data for which zeroes are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // One byte stays zero and ends the name.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    request
}

fn create(file: &OwnedFd) -> io::Result<String> {
    let mut request = request_for(NAME_PATTERN);
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes an `ifreq` that we own.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })?;
    let bytes: Vec<u8> = request
        .ifr_name
        .iter()
        .map(|letter| *letter as u8)
        .take_while(|letter| *letter != 0)
        .collect();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Takes the device into operation and returns its index.
fn up(name: &str) -> io::Result<u32> {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0")
        .or_else(|_| std::net::UdpSocket::bind("0.0.0.0:0"))?;
    let fd = socket.as_raw_fd();
    let mut request = request_for(name.as_bytes());
    // SAFETY: the request is an `ifreq` that we own.
    check(unsafe { libc::ioctl(fd, libc::SIOCGIFINDEX, &raw mut request) })?;
    // SAFETY: the successful call has filled in the index of the union.
    let index = unsafe { request.ifr_ifru.ifru_ifindex };
    let flags = libc::IFF_UP | libc::IFF_RUNNING | libc::IFF_NOARP;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: the request is an `ifreq` that we own.
    check(unsafe { libc::ioctl(fd, libc::SIOCSIFFLAGS, &raw mut request) })?;
    u32::try_from(index).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))
}

/// The flags of a device, such as `IFF_RUNNING`.
pub(crate) fn device_flags(name: &str) -> io::Result<i32> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    let mut request = request_for(name.as_bytes());
    // SAFETY: the request is an `ifreq` that we own.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request) })?;
    // SAFETY: the successful call has filled in the flags of the union.
    Ok(i32::from(unsafe { request.ifr_ifru.ifru_flags }))
}

/// Where a classic filter is attached.
#[derive(Debug, Clone, Copy)]
pub(super) enum Hook {
    Ingress,
    Egress,
}

/// Attaches a program as `tc filter add dev ... bpf direct-action` does.
pub(super) fn attach_filter(program: &OwnedFd, ifindex: u32, hook: Hook) -> io::Result<()> {
    const NEW_QDISC: u16 = 36;
    const NEW_FILTER: u16 = 44;
    const CLSACT: u32 = 0xffff_fff1;
    const KIND: u16 = 1;
    const OPTIONS: u16 = 2;
    const BPF_FD: u16 = 6;
    const BPF_NAME: u16 = 7;
    const BPF_FLAGS: u16 = 8;
    const DIRECT_ACTION: u32 = 1;
    /// First priority, all protocols.
    const INFO: u32 = (1 << 16) | (libc::ETH_P_ALL as u16).to_be() as u32;
    let tcmsg = |handle: u32, parent: u32, info: u32| {
        let mut fixed = Vec::with_capacity(20);
        for word in [0, ifindex, handle, parent, info] {
            fixed.extend_from_slice(&word.to_ne_bytes());
        }
        fixed
    };
    let mut netlink = Netlink::new(0)?;
    let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let qdisc =
        Request::new(NEW_QDISC, flags, &tcmsg(0xffff_0000, CLSACT, 0)).attribute(KIND, b"clsact\0");
    match netlink.order(qdisc) {
        Err(error) if error.raw_os_error() != Some(libc::EEXIST) => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let parent = match hook {
        Hook::Ingress => 0xffff_fff2,
        Hook::Egress => 0xffff_fff3,
    };
    let options = Request::new(0, 0, &[])
        .attribute(BPF_FD, &program.as_raw_fd().to_ne_bytes())
        .attribute(BPF_NAME, b"groupcast\0")
        .attribute(BPF_FLAGS, &DIRECT_ACTION.to_ne_bytes())
        .nested();
    let filter = Request::new(NEW_FILTER, flags, &tcmsg(0, parent, INFO))
        .attribute(KIND, b"bpf\0")
        .attribute(OPTIONS, &options);
    netlink.order(filter)
}
