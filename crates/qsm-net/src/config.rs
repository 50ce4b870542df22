//! What a port is opened with.

use std::time::Duration;

use crate::fault::FaultConfig;
use crate::interface::Interface;

/// Default of [`PortConfig::receive_buffer_bytes`], for each socket: 32 MiB, about 10 ms at 3 GB/s. Measured on loopback: 8 MiB
/// sustain full speed to one receiver and 32 MiB to four; a kernel default of 208 KiB holds two or three trains and loses
/// at any rate. Too large hides a slow receiver and delays repair (R219).
pub const RECEIVE_BUFFER_DEFAULT_BYTES: usize = 32 << 20;

/// Default of [`PortConfig::send_buffer_bytes`]: a dozen trains. Small on purpose: what waits here can be neither
/// reordered nor withdrawn (R225).
pub const SEND_BUFFER_DEFAULT_BYTES: usize = 1 << 20;

/// Default of [`PortConfig::ttl`] (R232): above the diameter of most sites; a TTL of 1 costs some routers dearly.
pub const TTL_DEFAULT: u8 = 16;

/// Whether trains of datagrams cross the kernel whole (UDP GSO when sending, UDP GRO when receiving).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offload {
    /// Where the kernel can; ten to twenty times faster.
    #[default]
    Auto,
    /// Never; one datagram at a time, in batches of `sendmmsg` and `recvmmsg`.
    Off,
}

/// What a [`Port`](crate::Port) is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Where to send and to join; see [`choose_interface`](crate::choose_interface). Its address says which family the
    /// port speaks.
    pub interface: Interface,
    /// Port of the unicast socket; 0 lets the kernel choose.
    pub unicast_port: u16,
    /// Wanted receive buffer of each socket, in bytes as the kernel accounts them (they include its overhead).
    pub receive_buffer_bytes: usize,
    /// Wanted send buffer, in bytes.
    pub send_buffer_bytes: usize,
    /// Hops that multicast may take: 0 keeps it on this host (R233), 1 on this network. With IPv6, Linux holds back what may
    /// take 0 hops only while somebody on this host has joined the group (seen on 6.18): there, use `lo` instead.
    pub ttl: u8,
    /// Other sockets of this host also receive what is sent (R234). On the interface `lo` they always do.
    pub loopback: bool,
    /// Whether to use trains.
    pub offload: Offload,
    /// Copies for many receivers are cloned inside the kernel, where it allows that; see
    /// [`IoReport::cloning`](crate::IoReport::cloning) for what came of it. Clones leave behind the back of this host's
    /// firewall.
    pub clone_copies: bool,
    /// How long to look at the device's queue before waiting for its interrupt; `None` leaves that to the system. See
    /// [`IoReport::busy_poll`](crate::IoReport::busy_poll) for what came of it.
    pub busy_poll: Option<Duration>,
    /// Faults to inject into what is received; `None` outside tests.
    pub fault: Option<FaultConfig>,
}

impl PortConfig {
    /// The defaults, on the given interface.
    #[must_use]
    pub fn new(interface: Interface) -> Self {
        Self {
            interface,
            unicast_port: 0,
            receive_buffer_bytes: RECEIVE_BUFFER_DEFAULT_BYTES,
            send_buffer_bytes: SEND_BUFFER_DEFAULT_BYTES,
            ttl: TTL_DEFAULT,
            loopback: true,
            offload: Offload::Auto,
            clone_copies: false,
            busy_poll: None,
            fault: None,
        }
    }
}
