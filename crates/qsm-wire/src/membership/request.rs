use core::net::SocketAddr;

use super::field::{codec, message, record};
use super::member::Member;
use super::update::ToldLimit;
use crate::{ChannelId, DecodeError, GroupId, Incarnation, Origin, RegionId, ViewNumber};

/// What a node wants with a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Be a member: receive.
    Subscriber,
    /// Send without being a member.
    Publisher,
}

/// What a node knows of its region when it meets a membership service that knows nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionReport {
    /// The region.
    pub region: RegionId,
    /// Its newest view known here.
    pub view: ViewNumber,
    /// Its channel.
    pub channel: ChannelId,
    /// The channel's multicast address; of a private region the member's (R-VIEW-15).
    pub address: SocketAddr,
    /// The members of that view.
    pub members: Vec<Member>,
    /// Its groups that this node receives, publishes to or had there. None: it receives nowhere
    /// else, and here the groups that it reports as its own.
    pub groups: Vec<GroupId>,
    /// Its members have different groups (R-VIEW-16).
    pub merged: bool,
}

/// What a node knows of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupReport {
    /// The number it was given; `None`: it has asked for the role and not heard of it yet.
    pub group: Option<GroupId>,
    /// Its name.
    pub name: String,
    /// What this node does with it.
    pub role: Role,
}

/// Which list a [`ToService::Query`] or a [`ListQuery`](crate::ListQuery) asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryKind {
    /// [`NodeRow`](super::NodeRow)s.
    Nodes,
    /// [`GroupRow`](super::GroupRow)s.
    Groups,
    /// [`RegionRow`](super::RegionRow)s.
    Regions,
}

impl QueryKind {
    pub(crate) fn to_wire(self) -> u8 {
        match self {
            Self::Nodes => 1,
            Self::Groups => 2,
            Self::Regions => 3,
        }
    }

    pub(crate) fn from_wire(value: u8) -> Result<Self, DecodeError> {
        Ok(match value {
            1 => Self::Nodes,
            2 => Self::Groups,
            3 => Self::Regions,
            _ => return Err(DecodeError::BadValue),
        })
    }
}

/// What a node says first in a session. A node that has been in reports what it knows, so that a
/// service that has restarted can go on where the last one ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// A label for people; need not be unique.
    pub name: String,
    /// Where this node receives unicast.
    pub address: SocketAddr,
    /// Where it receives the same on a second network, if it is on two.
    pub second: Option<SocketAddr>,
    /// Its last incarnation, 0 if none.
    pub incarnation: Incarnation,
    /// The term of the service it last spoke to, 0 if none.
    pub term: u64,
    /// Its groups.
    pub groups: Vec<GroupReport>,
    /// Its regions.
    pub regions: Vec<RegionReport>,
    /// The highest number of a region it has heard of: such numbers are not given again.
    pub region_last: RegionId,
    /// The highest number of a channel it has heard of.
    pub channel_last: ChannelId,
    /// The number after the highest of a group that it has heard of, 0 if none: a service without
    /// memory lets the numbers before it rest.
    pub group_end: GroupId,
    /// The highest incarnation of any node it has heard of.
    pub incarnation_last: Incarnation,
    /// Lives that it has been told are over, the newest if there are many: they stay over, also
    /// for a service that did not see it.
    pub dead: Vec<Origin>,
    /// Lives that it receives from and has not been told to be over, the newest if there are
    /// many: it must be told if they are.
    pub senders: Vec<Origin>,
    /// It is, or has been, a publisher: what it has sent may still be on its way.
    pub published: bool,
    /// The limit of repairs that it was told last (R-NAK-16).
    pub repairs: ToldLimit,
}

/// From a node to the membership service.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToService {
    /// First message of a session: let me in.
    Hello(Hello),
    /// Take up a role in these groups (all in one request).
    Enter {
        /// Answered by an [`Answer`](super::Answer) with the same number.
        request: u32,
        /// Which role.
        role: Role,
        /// Group names.
        names: Vec<String>,
    },
    /// Give up a role in these groups.
    Exit {
        /// As in `Enter`.
        request: u32,
        /// Which role.
        role: Role,
        /// Group names; unknown ones are ignored.
        names: Vec<String>,
    },
    /// Of a region I have left: I have everything that was sent to me there before. Of one I do
    /// not publish to any more: everybody has what I have sent there.
    Drained {
        /// The region.
        region: RegionId,
        /// The view that marked me as leaving; or the newest one that I know.
        view: ViewNumber,
    },
    /// This member does not answer its ring neighbour.
    Suspect {
        /// Whom.
        member: Origin,
        /// For how long this node has not heard it although it should have, milliseconds; 0 if that is
        /// another's word.
        silent_ms: u32,
    },
    /// What is there?
    Query {
        /// As in `Enter`.
        request: u32,
        /// Which list.
        kind: QueryKind,
    },
    /// I am going; not a crash.
    Goodbye,
    /// Of a region in which I am away: I have all that members knew of a moment ago, and they have
    /// answered me.
    CaughtUp {
        /// The region.
        region: RegionId,
        /// The newest view of it that I know.
        view: ViewNumber,
    },
    /// The multicast of a node to the region does not reach me, or does again. Said again from time
    /// to time as long as it does not.
    Deaf {
        /// The region.
        region: RegionId,
        /// The speaker.
        speaker: Origin,
        /// It does not.
        deaf: bool,
    },
    /// My host and version, for lists. Said after each Welcome.
    About(About),
    /// Messages that I send and receive a second, for lists. Said when they have changed.
    Rates(Rates),
    /// Messages that I publish to each group, for plans. Said when they have changed.
    GroupRates(GroupRates),
    /// A text on me, for lists. Said when it has changed.
    Description {
        /// The text; none if it is empty. It is valid if [`is_description`] says so.
        text: String,
    },
    /// Something was strained here in the last second. Said each second, as long as it is.
    Strained {
        /// The region.
        region: RegionId,
        /// The strain.
        strain: Strain,
    },
    /// Packets of another cluster come to the multicast address of a region that I am in. Said again from
    /// time to time as long as they do.
    Foreign {
        /// The region.
        region: RegionId,
    },
    /// Members that are away and lack packets of mine, but no message that they receive (R-VIEW-16).
    /// Said before [`ToService::Goodbye`].
    NothingOwed {
        /// The members; more than [`NOTHING_OWED_MAX`] are not taken.
        members: Vec<Origin>,
    },
}

/// Most members in a [`ToService::NothingOwed`].
pub const NOTHING_OWED_MAX: usize = 1024;

/// Longest description of a node, bytes.
pub const DESCRIPTION_BYTES_MAX: usize = 1024;

/// Tells whether a text may be the description of a node: within its limit, and without control characters.
#[must_use]
pub fn is_description(text: &str) -> bool {
    text.len() <= DESCRIPTION_BYTES_MAX && !text.chars().any(char::is_control)
}

/// A node's word on itself, for those who read lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Name of its host.
    pub host: String,
    /// Version of its program.
    pub version: String,
    /// Time since its start, milliseconds.
    pub uptime_ms: u64,
}

impl About {
    /// Longest name of a host, bytes.
    pub const HOST_BYTES_MAX: usize = 64;
    /// Longest version, bytes.
    pub const VERSION_BYTES_MAX: usize = 32;

    /// Whether its texts are within their limits and without control characters.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let fits = |text: &str, max| text.len() <= max && !text.chars().any(char::is_control);
        fits(&self.host, Self::HOST_BYTES_MAX) && fits(&self.version, Self::VERSION_BYTES_MAX)
    }
}

/// Messages per second of a node, over its last few seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rates {
    /// Accepted from its applications.
    pub sent: u32,
    /// Delivered to them.
    pub received: u32,
}

/// Messages of a node to groups, over its last few seconds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupRates {
    /// The groups with most; ascending.
    pub groups: Vec<GroupRate>,
    /// It publishes nothing to any other group.
    pub whole: bool,
}

impl GroupRates {
    /// Most groups in it.
    pub const GROUPS_MAX: usize = 256;
}

/// Messages of a node to a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupRate {
    /// The group.
    pub group: GroupId,
    /// Messages in 1000 seconds.
    pub rate: u32,
}

/// Signs that senders of a region wait for a member, of a node's last second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strain {
    /// Share of the time, percent, in which packets had arrived here that had not been read.
    pub behind: u8,
    /// Share of the rounds, percent, in which this node had more to send than it might.
    pub held: u8,
}

record! { RegionReport { region, view, channel, address, members, groups, merged } }
record! { Strain { behind, held } }
record! { About { host, version, uptime_ms } }
record! { Rates { sent, received } }
record! { GroupRates { groups, whole } }
record! { GroupRate { group, rate } }
record! { GroupReport { group, name, role } }
record! { Hello {
    name, address, second, incarnation, term, groups, regions, region_last, channel_last,
    group_end, incarnation_last, dead, senders, published, repairs
} }

message! { Role { 1 => Subscriber {}, 2 => Publisher {}, } }
message! { QueryKind { 1 => Nodes {}, 2 => Groups {}, 3 => Regions {}, } }
message! { ToService [1 => Hello] [11 => About] [12 => Rates] [13 => GroupRates] {
    2 => Enter { request, role, names },
    3 => Exit { request, role, names },
    4 => Drained { region, view },
    5 => Suspect { member, silent_ms },
    6 => Query { request, kind },
    7 => Goodbye {},
    8 => CaughtUp { region, view },
    9 => Deaf { region, speaker, deaf },
    10 => Strained { region, strain },
    14 => Foreign { region },
    15 => NothingOwed { members },
    16 => Description { text },
} }

codec!(ToService);
