use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// Identity of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeState {
    /// Its name.
    pub name: String,
    /// Its id, in hexadecimal.
    pub node: String,
    /// Its cluster.
    pub cluster: String,
    /// Its address for unicast.
    pub address: SocketAddr,
    /// The membership service that it uses, if it answers.
    pub service: Option<SocketAddr>,
    /// The program that it is a part of.
    pub program: String,
    /// The version of its library.
    pub version: String,
    /// Its medium, where nodes do not multicast unless they are told to, as in "wlan0 is wireless".
    #[serde(default)]
    pub medium: Option<String>,
}

/// A group, as a node sees it. A publisher sees all regions of it, a receiver its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupState {
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: u32,
    /// The node may publish to it, and so knows all its regions.
    pub publishes: bool,
    /// Messages that the node has published to it.
    pub published: u64,
    /// The node gets its messages.
    pub receives: bool,
    /// The regions that its messages go to.
    pub regions: Vec<RegionState>,
    /// Nodes of the cluster that describe themselves, as far as the membership service tells.
    #[serde(default)]
    pub described: Vec<DescribedNode>,
}

/// A node that describes itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescribedNode {
    /// Its name.
    pub name: String,
    /// Its id in hexadecimal, a point, and the number of its life.
    pub node: String,
    /// Why nobody waits for it; `None`: it takes part.
    pub away: Option<String>,
    /// Nobody hears it, so that its description is of the past.
    pub silent: bool,
    /// Its own word, without control characters.
    pub description: String,
}

/// A region, as a member, or a publisher to it, sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionState {
    /// Its number.
    pub region: u32,
    /// The newest view that the node knows.
    pub view: u32,
    /// The address of its channel: multicast, or of a private region its member's.
    pub address: SocketAddr,
    /// It has one member, and is for those of its groups that would divide other regions.
    pub private: bool,
    /// Partitions of its members, each of which caches its part.
    pub partitions: usize,
    /// The name of the member that leads its outermost ring.
    pub leader: Option<String>,
    /// The node is one of its members.
    pub member: bool,
    /// Datagrams that one packet for all members costs the node.
    pub datagrams: usize,
    /// Its members.
    pub members: Vec<MemberState>,
    /// The node's stream there, once it has sent something.
    pub sending: Option<SendingState>,
    /// The streams of others.
    pub receiving: Vec<ReceivingState>,
}

/// A member of a region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberState {
    /// Its name, or its id where the membership service does not tell.
    pub name: String,
    /// Its address for unicast.
    pub address: SocketAddr,
    /// It has left, and is there until it has everything sent before.
    pub leaving: bool,
    /// Why nobody waits for it; `None`: it takes part.
    pub away: Option<String>,
    /// The way by which it gets what the node sends.
    pub reached: Reach,
    /// It passes over messages of this group, as a publisher knows: the region has similar nodes.
    #[serde(default)]
    pub drops: bool,
}

/// Way by which a member is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reach {
    /// It is the node itself.
    Itself,
    /// By the multicast of the region's channel.
    Multicast,
    /// By copies: the node's multicast does not reach it.
    Copies,
    /// By unicast: it is the only member of its region.
    Alone,
    /// By unicast, as everything of the node: it does not multicast.
    NoMulticast,
}

/// The node's own stream to a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendingState {
    /// Packets sent.
    pub packets: u64,
    /// All live members have packets up to this number.
    pub stable_upto: u64,
    /// Messages that wait to be sent.
    pub unsent_messages: u64,
    /// Bytes that are sent and not acknowledged.
    pub in_flight_bytes: usize,
    /// As many as may be.
    pub window_bytes: usize,
    /// Packets per second that it may send; `None`: as many as it likes.
    pub rate: Option<u32>,
    /// Packets per second below which no receiver holds it; 0: receivers hold it, [`u32::MAX`]: none does.
    #[serde(default)]
    pub minimum_rate: u32,
}

/// The stream of another node in a region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivingState {
    /// The sender's name, or its id where the membership service does not tell.
    pub sender: String,
    /// Packets that it has sent, as far as is known.
    pub packets: u64,
    /// All packets up to this number have come, or are lost.
    pub contiguous: u64,
    /// All live members have packets up to this number, as far as is known.
    pub stable_upto: u64,
    /// It is gone.
    pub dead: bool,
    /// For so many milliseconds its multicast is known not to come here.
    pub unheard_millis: Option<u64>,
}
