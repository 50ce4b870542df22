//! Linux datagram I/O for reliable multicast: sockets, batches, trains of datagrams, and an account of every drop.
//!
//! What it does not do: it knows no protocol, keeps no threads, and retries nothing that was lost.
//!
//! ```text
//!   application threads ── Waker ──┐
//!                                  ▼
//!   239.255.1.1:7001 ──socket──► epoll ──► Port::wait ──► Port::receive ──► Port::datagrams ──► the core thread
//!   239.255.1.2:7001 ──socket──►   ▲                                                             │
//!   unicast  ◄──── one socket ─────┴───────────────────────────────────── Port::send ◄───────────┘
//! ```
//!
//! ```no_run
//! use qsm_net::{Port, PortConfig, choose_interface};
//!
//! let (interface, why) = choose_interface(None, None)?;
//! println!("{why}");
//! let mut port = Port::open(PortConfig::new(interface))?;
//! println!("{}", port.report());
//! let group = "239.255.1.1:7001".parse()?;
//! port.join(group)?;
//! port.send(group, &[7; 64_000], 1000)?; // 64 datagrams in one system call
//! port.wait(None)?;
//! while port.receive()? > 0 {
//!     for datagram in port.datagrams() {
//!         println!("{} bytes from {}", datagram.bytes.len(), datagram.source);
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A host on two networks, of which either may fail, has [`Ports`] in the place of a [`Port`].
//!
//! Speaking to many peers by unicast alone takes a socket of its own, [`Intake`] and [`Mailing`].
//!
//! [`Port::join_sources`] receives a group from named hosts only (source-specific multicast).
//!
//! The contract:
//! 1. One thread owns a [`Port`]; only the [`Waker`] is shared. Nothing blocks but [`Port::wait`].
//! 2. After [`Port::open`] and the joins, receiving and sending do not allocate (with injected faults: only until the
//!    largest batch was seen).
//! 3. A notification by [`Waker::wake`] is never lost, and costs a system call only when the port sleeps.
//! 4. What the kernel dropped is counted, apart for unicast and multicast; what was refused when sending is counted by kind.
//! 5. Nothing here needs privileges. With them (`CAP_NET_ADMIN`) buffers may exceed the limits of `sysctl`.
//!
//! Beside datagrams: what processes of one host need to share an engine, [`SharedMemory`],
//! [`ReadOnlyMemory`] and [`LocalSocket`].
//!
//! IPv4 and IPv6: a port speaks the family of its interface's address, and refuses the other.

mod address;
mod arp;
mod arrivals;
mod buffers;
mod busy_poll;
mod changes;
mod clock;
mod config;
mod control;
mod copier;
mod cost;
mod counters;
mod error;
mod fault;
mod guard;
mod icmp;
mod intake;
mod interface;
mod local;
mod mailing;
mod packet_socket;
mod paths;
mod poller;
mod port;
mod ports;
mod read_only_memory;
mod receive;
mod report;
mod send;
mod shared_memory;
mod sniffer;
mod socket;
mod strategy;
mod sys;
mod tap;
mod thread;
mod waker;

pub use address::Family;
pub use arp::address_claimed;
pub use arrivals::{Amount, CLASSES, Gathered};
pub use busy_poll::BusyPoll;
pub use clock::{monotonic_nanos, process_cpu_time};
pub use config::{
    Offload, PortConfig, RECEIVE_BUFFER_DEFAULT_BYTES, SEND_BUFFER_DEFAULT_BYTES, TTL_DEFAULT,
};
pub use copier::Cloning;
pub use cost::DatagramCost;
pub use counters::{
    EcnCounters, FaultCounters, PortCounters, ReceiveCounters, RefusalCounters, SendCounters,
    SendErrorCounters,
};
pub use error::{GROUPS_MAX, PortError, SendError, SendFailure, Sent};
pub use fault::FaultConfig;
pub use guard::{Guard, Opened, OwnDatagram, Refusal, Refused};
pub use intake::Intake;
pub use interface::{
    Interface, InterfaceError, Medium, choose_interface, choose_unicast_interface, interfaces,
};
pub use local::{LocalListener, LocalSocket, Peer, effective_user};
pub use mailing::{Mailing, Staged};
pub use packet_socket::Mark;
pub use poller::{Ready, Sleeper};
pub use port::Port;
pub use ports::Ports;
pub use read_only_memory::ReadOnlyMemory;
pub use receive::{Datagram, Datagrams};
pub use report::IoReport;
pub use send::Gso;
pub use shared_memory::{SharedMemory, futex_wait, futex_wake};
pub use sniffer::{Sniffed, Sniffer};
pub use strategy::Strategy;
pub use tap::{Seen, Tap};
pub use thread::{
    Affinity, SHORT_SLICE, ThreadError, ThreadReport, ask_short_slice, pin_to_cpu, set_realtime,
};
pub use waker::Waker;
