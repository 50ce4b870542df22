//! Test hosts out of Linux network namespaces: one switch, hosts around it, loss, network splits,
//! and processes that can be frozen and killed.
//!
//! ```text
//!   host h0 (namespace)      host h1                  host h2
//!   ┌──────────────────┐     ┌──────────────────┐     ┌──────────────────┐
//!   │ eth0 10.78.0.1   │     │ eth0 10.78.0.2   │     │ eth0 10.78.0.3   │
//!   │ rules: loss, cut │     │ rules: loss, cut │     │ rules: loss, cut │
//!   └────────┬─────────┘     └────────┬─────────┘     └────────┬─────────┘
//!            │ veth                   │                        │
//!   ┌────────┴────────────────────────┴────────────────────────┴─────────┐
//!   │ namespace of the switch: h0, h1, h2 are ports of the bridge        │
//!   └────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A lab may have a second network beside this one, with an interface of each host
//! ([`Lab::and_second_network`]), and either can be cut ([`Lab::set_network`]).
//!
//! A lab is closed: nothing gets in or out, so every lab uses the same addresses, and any number of
//! labs run side by side. It needs root (`CAP_SYS_ADMIN` and `CAP_NET_ADMIN`) and the programs `ip`
//! and `nft`; [`Lab::available`] says whether the machine will do and, if not, what to do about it.
//! Tests ask [`ready`], so that a skip is seen.
//!
//! ```no_run
//! use lab::{Direction, Lab, Output, Traffic};
//!
//! let mut lab = Lab::new()?;
//! let (a, b) = (lab.add_host()?, lab.add_host()?);
//! lab.set_loss(b, 10_000, Traffic::Multicast)?; // 1 %
//! let program = lab.command(a, "my-sender");
//! let mut sender = lab.spawn(a, program, Output::Files)?;
//! lab.split(&[a], &[b], Direction::AToB)?;
//! sender.freeze()?;
//! println!("{:?}", lab.drops(b)?);
//! # Ok::<(), lab::LabError>(())
//! ```
//!
//! Packets may be damaged as well, one bit each, so that UDP's checksum does not find it
//! ([`Lab::set_damage`]).
//!
//! # Three ways to lose packets
//!
//! A sender that uses segmentation offload (`UDP_SEGMENT`) hands the kernel a *train* of up to 46
//! packets of 1400 bytes, and the train crosses veth and the bridge in one piece. So an nftables
//! rule drops the whole train, and counts it as one:
//!
//! 1. [`Lab::set_loss`] alone: independent loss for senders of single packets; for trains, bursts
//!    of whole trains.
//! 2. [`Lab::segment_on_wire`] at the sender as well: the kernel cuts its trains before the wire,
//!    unicast and multicast, so that the rule meets single packets. It costs a factor of 7 to 10 in
//!    throughput (measured, kernel 6.18) and needs `ethtool`.
//! 3. The fault injector of `qsm-net`, behind the receive call: independent loss per packet at full
//!    speed, repeatable from a seed; but only for programs of this project, and the kernel's
//!    counters know nothing of it.
//!
//! # Sites and links
//!
//! A lab has one site, the switch; [`Lab::add_site`] adds others, and [`Lab::link`] joins two of them
//! by a link with a delay, jitter, loss, a rate and a queue ([`LinkShape`]). What a switch forwards to
//! its end of a link a thread of this program reads (by a TAP interface, so trains are cut), holds, and
//! hands to the switch at the other end. Links carry IP to single hosts, and no multicast. They need
//! `/dev/net/tun`, and not `tc netem`, which test machines often lack. A host's port can seem another
//! to hosts behind a link, as if a translator of addresses were between ([`Lab::translate`]).
//!
//! # What is cleaned up, and when
//!
//! Dropping a [`Lab`], by a panic too, kills its processes and whatever they left running on its
//! hosts, and deletes the namespaces. A process that is itself killed by SIGKILL leaves its labs
//! behind; the next [`Lab::new`] on the machine removes them ([`Lab::reap_stale`]). Whether the
//! creator is alive is told by a file lock in `/run/qsm-lab`, which ends with the process: process
//! ids are reused, locks are not.
//!
//! # Limits
//!
//! At most [`HOSTS_MAX`] hosts and [`PROCESSES_MAX`] running processes in a lab, and [`LINK_HELD_MAX`]
//! packets on their way in each direction of a link. Links form no loops. IPv4, and IPv6 only in
//! labs made by [`Lab::with_ipv6`]. `/sys`
//! inside a host's process still shows the outer machine's interfaces, since mounts are shared;
//! `/proc/net` and `/proc/sys/net` show the host's.

mod actor;
mod availability;
mod damage;
mod ecn;
mod error;
mod lane;
mod link;
mod machine;
mod namespace;
mod network;
mod pidfd;
mod process;
mod registry;
mod rules;
mod shape;
mod site;
mod skip;
mod strays;
mod tap;
mod tool;

pub use actor::{Actor, ActorError};
pub use damage::{Damage, Spared};
pub use error::{LabError, Unavailable};
pub use lane::LinkCounters;
pub use link::LinkId;
pub use machine::{HOSTS_MAX, Host, HostId, Lab, PROCESSES_MAX, Switch};
pub use namespace::{Guard, Namespace};
pub use network::Network;
pub use process::{Output, Process};
pub use rules::{Direction, Drops, LOSS_PPM_MAX, Traffic, Translation};
pub use shape::{LINK_HELD_MAX, LinkShape};
pub use site::SiteId;
pub use skip::{pass_over, ready, skip};
