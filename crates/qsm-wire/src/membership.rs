//! What a node and the membership service say to each other, inside a reliable session.
//!
//! These messages are rare and may be large (a join of thousands of groups is one message), so
//! they decode into owned values. A message is at most [`MESSAGE_BYTES_MAX`] long; lists are
//! bounded by that.

use core::net::SocketAddr;

use crate::raw::{Reader, put_address, put_origin, put_text};
use crate::repair::flag;
use crate::{ChannelId, DecodeError, GroupId, Incarnation, Origin, RegionId, ViewNumber};

/// Largest membership message, bytes. 100,000 group names of 40 bytes fit.
pub const MESSAGE_BYTES_MAX: usize = 8 << 20;
/// Largest group name, bytes of UTF-8; control characters are not allowed.
pub const GROUP_NAME_BYTES_MAX: usize = 255;

/// What a node wants with a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Be a member: receive.
    Subscriber,
    /// Send without being a member.
    Publisher,
}

/// A node's place in a region view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Who.
    pub origin: Origin,
    /// Where it receives unicast.
    pub address: SocketAddr,
    /// The view in which it came: it receives what is sent in that view and later ones.
    pub joined: ViewNumber,
    /// The view in which it left: it receives nothing sent in that view or a later one, but still
    /// takes part in the recovery of what was sent before, until it has all of that.
    pub left: Option<ViewNumber>,
}

impl Member {
    /// Whether it has left and is still there.
    #[must_use]
    pub fn leaving(&self) -> bool {
        self.left.is_some()
    }
}

/// A node that may send to a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sender {
    /// Who.
    pub origin: Origin,
    /// Where it receives unicast.
    pub address: SocketAddr,
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
    /// The channel's multicast address.
    pub address: SocketAddr,
    /// The members of that view.
    pub members: Vec<Member>,
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

/// A line of `qsm nodes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    /// Who.
    pub origin: Origin,
    /// What it calls itself.
    pub name: String,
    /// Where it is.
    pub address: SocketAddr,
    /// Its region, if it is in one.
    pub region: Option<RegionId>,
    /// Groups it receives.
    pub subscriptions: u32,
    /// Groups it publishes to without receiving them.
    pub publications: u32,
}

/// A line of `qsm groups`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRow {
    /// Its number.
    pub group: GroupId,
    /// Its name.
    pub name: String,
    /// Nodes that receive it.
    pub members: u32,
    /// Packets that one message costs: regions it spans (R020).
    pub regions: u32,
    /// Nodes that publish to it without receiving it.
    pub publishers: u32,
}

/// A line of `qsm regions`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionRow {
    /// Which.
    pub region: RegionId,
    /// Its current view.
    pub view: ViewNumber,
    /// Its channel's multicast address.
    pub address: SocketAddr,
    /// Groups its members share.
    pub groups: u32,
    /// The members.
    pub members: Vec<Member>,
}

/// Which list a [`ToService::Query`] asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryKind {
    /// [`NodeRow`]s.
    Nodes,
    /// [`GroupRow`]s.
    Groups,
    /// [`RegionRow`]s.
    Regions,
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
}

/// From a node to the membership service.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToService {
    /// First message of a session: let me in.
    Hello(Hello),
    /// Take up a role in these groups (all in one request).
    Enter {
        /// Answered by [`FromService::Done`] or [`FromService::Refused`] with the same number.
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
}

/// One change of what a node has to know. All updates of a batch take effect at once.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Update {
    /// The number of a group that this node entered.
    Named {
        /// The number.
        group: GroupId,
        /// The name.
        name: String,
    },
    /// A region with groups that concern this node: it is a member, or publishes to them. Also
    /// sent again when the region's groups change as a whole; then it replaces them.
    Region {
        /// Which.
        region: RegionId,
        /// Where to send.
        channel: ChannelId,
        /// The channel's multicast address.
        address: SocketAddr,
        /// The region's groups that concern this node, ascending. None: the node is to say
        /// [`ToService::Drained`] when all that it has sent there has arrived.
        groups: Vec<GroupId>,
    },
    /// A region's next view: the members of view `base` without `removed`, those in `leaving`
    /// marked, then `added` at the end.
    View {
        /// Which region.
        region: RegionId,
        /// Its new number.
        view: ViewNumber,
        /// The view this is a difference to; 0: from nothing.
        base: ViewNumber,
        /// Gone.
        removed: Vec<Origin>,
        /// Leaving from now on.
        leaving: Vec<Origin>,
        /// New.
        added: Vec<Member>,
    },
    /// The region concerns this node no more.
    Closed {
        /// Which.
        region: RegionId,
    },
    /// These senders are dead; what they sent is recovered among the receivers (R085).
    Dead {
        /// Whose streams end.
        origin: Origin,
    },
    /// To a leaving member: everybody who may send to the region knows that it leaves.
    Settled {
        /// The region.
        region: RegionId,
        /// The view that marked it as leaving, or a later one.
        view: ViewNumber,
        /// Who may have sent something before. What others have sent, everybody has.
        senders: Vec<Sender>,
    },
    /// A node that this batch names is on two networks: what is sent to its address is to be sent
    /// to the other one as well.
    Second {
        /// Its address, as it is named elsewhere.
        address: SocketAddr,
        /// Its address on the second network.
        second: SocketAddr,
    },
    /// To the members of a region whose address is source-specific: who else may send to it. It
    /// replaces what was said before.
    Sources {
        /// The region.
        region: RegionId,
        /// Nodes that are not members.
        senders: Vec<Sender>,
    },
}

/// From the membership service to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FromService {
    /// You are in.
    Welcome {
        /// Your incarnation. When it differs from the one in your `Hello`, your former life is
        /// over: forget its views and streams.
        incarnation: Incarnation,
        /// The service's term.
        term: u64,
        /// Send something at least this often, milliseconds.
        heartbeat_ms: u32,
    },
    /// What changed.
    Batch {
        /// Consecutive numbers per session.
        number: u64,
        /// In this order.
        updates: Vec<Update>,
    },
    /// The request is carried out; its effects came before this message.
    Done {
        /// Which.
        request: u32,
    },
    /// The request is not possible.
    Refused {
        /// Which.
        request: u32,
        /// Why, and what to do.
        reason: String,
    },
    /// The answer to a query of nodes.
    Nodes {
        /// Which request.
        request: u32,
        /// The nodes.
        rows: Vec<NodeRow>,
    },
    /// The answer to a query of groups.
    Groups {
        /// Which request.
        request: u32,
        /// The groups.
        rows: Vec<GroupRow>,
    },
    /// The answer to a query of regions.
    Regions {
        /// Which request.
        request: u32,
        /// The regions.
        rows: Vec<RegionRow>,
    },
    /// This service yields to another one.
    Redirect {
        /// Where.
        address: SocketAddr,
    },
}

/// A value with one encoding.
trait Field: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

macro_rules! number_field {
    ($($type:ty, $wrap:expr, $unwrap:expr, $read:ident;)*) => {
        $(impl Field for $type {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&($unwrap)(*self).to_le_bytes());
            }
            fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                reader.$read().map($wrap)
            }
        })*
    };
}

number_field! {
    u32, core::convert::identity, core::convert::identity::<u32>, u32;
    u64, core::convert::identity, core::convert::identity::<u64>, u64;
    GroupId, GroupId, |v: Self| v.0, u32;
    RegionId, RegionId, |v: Self| v.0, u32;
    ChannelId, ChannelId, |v: Self| v.0, u32;
    ViewNumber, ViewNumber, |v: Self| v.0, u32;
    Incarnation, Incarnation, |v: Self| v.0, u32;
}

impl Field for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_text(out, self);
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.text().map(Self::from)
    }
}

impl Field for SocketAddr {
    fn put(&self, out: &mut Vec<u8>) {
        put_address(out, *self);
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.address()
    }
}

impl Field for Origin {
    fn put(&self, out: &mut Vec<u8>) {
        put_origin(out, *self);
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.origin()
    }
}

impl Field for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        flag(reader.u8()?)
    }
}

impl<T: Field> Field for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if bool::read(reader)? {
            T::read(reader).map(Some)
        } else {
            Ok(None)
        }
    }
}

impl<T: Field> Field for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        u32::try_from(self.len()).unwrap_or(u32::MAX).put(out);
        for value in self {
            value.put(out);
        }
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = reader.u32()?;
        let mut values = Self::new();
        for _ in 0..count {
            // Grows with what is really there, so a false count costs nothing.
            values.push(T::read(reader)?);
        }
        Ok(values)
    }
}

/// Writes `Field` for an enum whose variants have named fields; the one in brackets holds a record.
macro_rules! message {
    ($type:ident $([$tag:literal => $record:ident])? {
        $($value:literal => $variant:ident { $($field:ident),* },)*
    }) => {
        impl Field for $type {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$record(record) => {
                        out.push($tag);
                        record.put(out);
                    })?
                    $(Self::$variant { $($field),* } => {
                        out.push($value);
                        $($field.put(out);)*
                    })*
                }
            }
            fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                Ok(match reader.u8()? {
                    $($tag => Self::$record(Field::read(reader)?),)?
                    $($value => Self::$variant { $($field: Field::read(reader)?),* },)*
                    _ => return Err(DecodeError::BadValue),
                })
            }
        }
    };
}

/// Writes `Field` for a struct.
macro_rules! record {
    ($type:ident { $($field:ident),* }) => {
        impl Field for $type {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }
            fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                Ok(Self { $($field: Field::read(reader)?),* })
            }
        }
    };
}

record! { Member { origin, address, joined, left } }
record! { Sender { origin, address } }
record! { RegionReport { region, view, channel, address, members } }
record! { GroupReport { group, name, role } }
record! { Hello {
    name, address, second, incarnation, term, groups, regions, region_last, channel_last,
    incarnation_last, dead, senders, published
} }
record! { NodeRow { origin, name, address, region, subscriptions, publications } }
record! { GroupRow { group, name, members, regions, publishers } }
record! { RegionRow { region, view, address, groups, members } }

message! { Role { 1 => Subscriber {}, 2 => Publisher {}, } }
message! { QueryKind { 1 => Nodes {}, 2 => Groups {}, 3 => Regions {}, } }
message! { ToService [1 => Hello] {
    2 => Enter { request, role, names },
    3 => Exit { request, role, names },
    4 => Drained { region, view },
    5 => Suspect { member },
    6 => Query { request, kind },
    7 => Goodbye {},
} }
message! { Update {
    1 => Named { group, name },
    2 => Region { region, channel, address, groups },
    3 => View { region, view, base, removed, leaving, added },
    4 => Closed { region },
    5 => Dead { origin },
    6 => Settled { region, view, senders },
    7 => Second { address, second },
    8 => Sources { region, senders },
} }
message! { FromService {
    1 => Welcome { incarnation, term, heartbeat_ms },
    2 => Batch { number, updates },
    3 => Done { request },
    4 => Refused { request, reason },
    5 => Nodes { request, rows },
    6 => Groups { request, rows },
    7 => Regions { request, rows },
    8 => Redirect { address },
} }

macro_rules! codec {
    ($type:ident) => {
        impl $type {
            /// Appends the message.
            pub fn encode(&self, out: &mut Vec<u8>) {
                self.put(out);
            }

            /// Checks and reads a whole message.
            ///
            /// # Errors
            /// The first thing that is wrong with it.
            pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
                let mut reader = Reader::new(bytes);
                let message = Self::read(&mut reader)?;
                reader.end()?;
                Ok(message)
            }
        }
    };
}

codec!(ToService);
codec!(FromService);
