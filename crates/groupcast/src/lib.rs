//! One payload to thousands of UDP recipients in one call, with private bytes for each.
//!
//! What S4 (Lahav et al., "Group Unicast for the Real World", 2008) did by a system call of its own,
//! `sendgroup()`, this crate does on an unmodified Linux: an eBPF program clones one packet to every
//! recipient inside the kernel. Without the privileges for that it uses the fastest of `sendmsg`,
//! `sendmmsg` and io_uring, with the same results and the same errors. It retransmits nothing,
//! encrypts nothing, and knows no protocol above UDP.
//!
//! ```text
//!   payload ───────────┐
//!   recipient 1: address, bytes before, bytes after ─┐      one call       ┌─▶ datagram to 1
//!   recipient 2: …                                   ├──▶ Sender::send ────┼─▶ datagram to 2
//!   recipient n: …                                   ┘                     └─▶ datagram to n
//! ```
//!
//! ```
//! use std::net::UdpSocket;
//! use groupcast::{Errno, Group, Message, Recipient, Sender};
//!
//! let clients = [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?];
//! let mut group = Group::new();
//! for (number, client) in clients.iter().enumerate() {
//!     let header = [number as u8];
//!     group.add(&Recipient::new(client.local_addr()?).prepend(&header))?;
//! }
//! let mut sender = Sender::new(vec![UdpSocket::bind("0.0.0.0:0")?])?;
//! println!("{}", sender.choice()); // which back-end, and why
//! let mut errors = [Errno::SENT; 2];
//! let sent = sender.send_group(&Message::new(b"frame"), &group, Some(&mut errors))?;
//! assert_eq!(sent, 2);
//!
//! let mut buffer = [0; 16];
//! let len = clients[1].recv(&mut buffer)?;
//! assert_eq!(&buffer[..len], b"\x01frame");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Contract
//!
//! 1. The result counts the recipients that a datagram (or the whole of a train) was handed to the
//!    network for; whether it arrives, UDP does not say.
//! 2. Errors per recipient are those that `sendmsg` would have given, whichever back-end sends.
//!    Whatever the socket's options and the rules for routing say, holds for all of them; the local
//!    firewall sees no clones.
//! 3. ICMP errors are reported to the recipient that they are about, by the next call after they
//!    came, which sends nothing to it; as a connected socket does.
//! 4. When a call returns, the caller's memory is not needed any more.
//! 5. Messages of one sender to one recipient leave in the order of the calls, except where a
//!    neighbour is still being looked for.
//! 6. Nothing is left in the kernel when a [`Sender`] is dropped or its process is killed; sockets
//!    that live on are what they were. A forked process that never calls keeps the device alive.
//! 7. After a fork both processes may send. The forked one makes a device, records and a ring of its
//!    own at its first call, or sends by the socket where it may not.
//!
//! How it works, what it costs and when not to use it: `docs/guides/groupcast.md` of the repository.
//! `examples/rtp_live` is a live RTP server; `examples/c` shows `sendgroup()` in C ([`capi`]).

mod address;
mod backend;
mod calibrate;
mod capability;
pub mod capi;
mod clone;
mod error;
mod fork;
mod group;
mod message;
mod options;
mod recipient;
mod sender;
mod socket;
mod sockopt;
pub mod wire;

pub use backend::{BackEnd, Unavailable};
pub use calibrate::{Choice, Cost};
pub use clone::Discard;
pub use error::{Errno, Error};
pub use group::{Group, GroupError};
pub use message::{DATAGRAM_V4_MAX, DATAGRAM_V6_MAX, Message, TRAIN_MAX};
pub use recipient::{RECIPIENTS_MAX, Recipient, Via};
pub use sender::{Sender, Stats};
