//! Account that a node gives of a group: where its messages go, on which path, and who has them.
//!
//! A publisher knows all regions of a group, a receiver its own.

mod message;

use core::net::SocketAddr;
use core::time::Duration;

use qsm_wire::membership::Member;
use qsm_wire::{ChannelId, GroupId, Origin, RegionId, ViewNumber};

pub(crate) use self::message::Wanted;
pub use self::message::{
    GAPS_MAX, GapAccount, MessageAccount, MessageStream, Parts, SEARCHED_MAX, Standing,
};

use crate::region::Region;
use crate::send::SendStream;
use crate::{Instant, Path};

/// A group as a node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupAccount {
    /// Which.
    pub group: GroupId,
    /// This node may publish to it, and so knows all its regions.
    pub publishes: bool,
    /// Messages that this node has published to it.
    pub published: u64,
    /// This node gets its messages.
    pub receives: bool,
    /// The regions that a message to it goes to; of a node that only receives, its own.
    pub regions: Vec<RegionAccount>,
}

/// A region as a member, or a publisher to it, sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegionAccount {
    /// Which.
    pub region: RegionId,
    /// The newest view that this node knows.
    pub view: ViewNumber,
    /// Its channel.
    pub channel: ChannelId,
    /// Destination of a packet for all members.
    pub path: Path,
    /// Partitions of its members, each of which caches its part.
    pub partitions: usize,
    /// The member that leads its outermost ring.
    pub leader: Option<Origin>,
    /// This node is one of its members.
    pub member: bool,
    /// The members of the view, and how this node's packets reach them.
    pub members: Vec<MemberAccount>,
    /// This node's stream there, once it has sent something.
    pub sending: Option<SendingAccount>,
    /// Streams of others.
    pub receiving: Vec<ReceivingAccount>,
}

/// A member of a region.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberAccount {
    /// As the view has it: who, where, since when, away or leaving.
    pub member: Member,
    /// The way by which it gets what this node sends.
    pub reached: Reached,
    /// It passes over messages of this group, as a publisher knows (R-VIEW-16).
    pub drops: bool,
}

/// Way by which a member gets what a node sends to all of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reached {
    /// It is this node.
    Itself,
    /// By the multicast of the region's channel.
    Multicast,
    /// By copies, since it has said that this node's multicast does not reach it (R-REACH-4).
    Copies,
    /// By unicast: it is the only member of its region (R-VIEW-15).
    Alone,
    /// By unicast, as everything of this node: it does not multicast (R-REACH-6).
    NoMulticast,
}

/// A node's own stream to a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SendingAccount {
    /// Packets sent.
    pub packets: u64,
    /// All live members have packets up to this number.
    pub stable_upto: u64,
    /// Messages that wait to be sent.
    pub unsent_messages: u64,
    /// Bytes sent that are not acknowledged.
    pub in_flight_bytes: usize,
    /// As many as may be.
    pub window_bytes: usize,
    /// Packets per second that it may send; `u32::MAX`: as many as it likes.
    pub rate: u32,
    /// Packets per second below which no receiver holds it (R-RATE-10); 0: receivers hold it, `u32::MAX`:
    /// none does.
    pub minimum_rate: u32,
}

/// The stream of another node in a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceivingAccount {
    /// Whose.
    pub sender: Origin,
    /// Highest number of a packet that is known to exist.
    pub highest: u64,
    /// All packets up to here have come, or are lost.
    pub contiguous: u64,
    /// All live members have packets up to this number, as far as this node knows.
    pub stable_upto: u64,
    /// The membership service has declared the sender dead.
    pub dead: bool,
    /// For how long its multicast is known not to come here (R-REACH-3).
    pub unheard_for: Option<Duration>,
}

impl RegionAccount {
    /// Of a region that has a group. `multicasts`: the node whose account this is does so.
    pub(crate) fn new(region: &Region, group: GroupId, multicasts: bool, now: Instant) -> Self {
        let me = region.history().owner();
        let view = region.view();
        let reached = |member: &Member| match view.path() {
            _ if member.origin == me => Reached::Itself,
            Path::Member(_) => Reached::Alone,
            Path::Multicast(_) if !multicasts => Reached::NoMulticast,
            Path::Multicast(_) if region.copies_to(member.origin) => Reached::Copies,
            Path::Multicast(_) => Reached::Multicast,
        };
        let members = view.members().iter().map(|member| MemberAccount {
            member: *member,
            reached: reached(member),
            drops: !region.takes(member.origin, group),
        });
        let leader = view.leader().and_then(|at| view.member(at));
        Self {
            region: view.region(),
            view: view.number(),
            channel: view.channel(),
            path: view.path(),
            partitions: view.partitions(),
            leader: leader.map(|member| member.origin),
            member: region.member(),
            members: members.collect(),
            sending: region
                .own_stream()
                .map(|stream| SendingAccount::new(stream, region.minimum_rate())),
            receiving: region
                .streams()
                .map(|stream| {
                    let sender = stream.id().origin;
                    ReceivingAccount {
                        sender,
                        highest: stream.highest(),
                        contiguous: stream.contiguous(),
                        stable_upto: region.stable_upto(sender),
                        dead: stream.sender_dead(),
                        unheard_for: region.unheard_since(sender).map(|since| now.since(since)),
                    }
                })
                .collect(),
        }
    }

    /// Datagrams that one packet for all members costs this node.
    #[must_use]
    pub fn datagrams(&self) -> usize {
        let by_unicast = self
            .members
            .iter()
            .filter(|member| matches!(member.reached, Reached::Copies | Reached::NoMulticast));
        let at_once = self
            .members
            .iter()
            .any(|member| matches!(member.reached, Reached::Multicast | Reached::Alone));
        by_unicast.count() + usize::from(at_once)
    }

    /// The address of its channel.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.path.address()
    }
}

impl SendingAccount {
    fn new(stream: &SendStream, minimum_rate: u32) -> Self {
        Self {
            packets: stream.highest(),
            stable_upto: stream.stable_upto(),
            unsent_messages: stream.unsent_messages(),
            in_flight_bytes: stream.in_flight_bytes(),
            window_bytes: stream.window_bytes(),
            rate: stream.rate(),
            minimum_rate,
        }
    }
}
