use core::net::SocketAddr;

use super::field::{Field, codec, message, record};
use super::member::{AwayReason, Member};
use super::request::{About, QueryKind, Rates};
use super::update::Update;
use crate::raw::Reader;
use crate::{DecodeError, GroupId, Incarnation, Origin, RegionId, ViewNumber};

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
    /// Set while nobody waits for it in its region.
    pub away: Option<AwayReason>,
    /// Multicast of others does not reach it.
    pub deaf: bool,
    /// Its host, its version, and how long it has been running; `None`: it has not said so.
    pub about: Option<About>,
    /// Its rates of sending and receiving; `None` until it has told them.
    pub rates: Option<Rates>,
    /// Its key and its rights, where the cluster takes tokens.
    pub grant: Option<String>,
    /// A text on it, in its own words.
    pub description: Option<String>,
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
    /// Its channel's multicast address; of a private region its member's (R-VIEW-15).
    pub address: SocketAddr,
    /// The nodes that it has.
    pub kind: RegionKind,
    /// Groups its members share.
    pub groups: u32,
    /// The members.
    pub members: Vec<Member>,
}

/// Nodes that a region has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegionKind {
    /// Those with the same groups, but for such as go by regions of the other kinds.
    Exact,
    /// Those that have its groups in common, whatever else they receive (R-VIEW-17).
    Common,
    /// Those with similar groups: each drops what it does not want (R-VIEW-16).
    Merged,
    /// One, for groups that would divide other regions (R-VIEW-15).
    Private,
}

/// The outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Which request.
    pub request: u32,
    /// The request is carried out: its effects came before this message, and these are the rows
    /// that it asked for. Or it is not possible: why, and what to do.
    pub result: Result<AnswerRows, String>,
}

/// The rows that a request asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerRows {
    /// It asked for none.
    None,
    /// The nodes.
    Nodes(Vec<NodeRow>),
    /// The groups.
    Groups(Vec<GroupRow>),
    /// The regions.
    Regions(Vec<RegionRow>),
}

impl AnswerRows {
    /// Appends the rows, as they are sent in parts ([`ListReply`](crate::ListReply)).
    pub fn encode_list(&self, out: &mut Vec<u8>) {
        match self {
            Self::None => {}
            Self::Nodes(rows) => rows.put(out),
            Self::Groups(rows) => rows.put(out),
            Self::Regions(rows) => rows.put(out),
        }
    }

    /// The rows of a whole list.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn decode_list(list: QueryKind, bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let rows = match list {
            QueryKind::Nodes => Self::Nodes(Field::read(&mut reader)?),
            QueryKind::Groups => Self::Groups(Field::read(&mut reader)?),
            QueryKind::Regions => Self::Regions(Field::read(&mut reader)?),
        };
        reader.end()?;
        Ok(rows)
    }
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
        /// Your former life is over because you were slower than the others, and your groups have such
        /// receivers shut out (R-RATE-12).
        expelled: bool,
    },
    /// What changed.
    Batch {
        /// Consecutive numbers per session.
        number: u64,
        /// In this order.
        updates: Vec<Update>,
    },
    /// The outcome of a request.
    Answer(Answer),
    /// This service yields to another one.
    Redirect {
        /// Where.
        address: SocketAddr,
    },
}

record! { NodeRow { origin, name, address, region, subscriptions, publications, away, deaf, about, rates, grant, description } }
record! { GroupRow { group, name, members, regions, publishers } }
message! { RegionKind { 1 => Exact {}, 2 => Common {}, 3 => Merged {}, 4 => Private {}, } }
record! { RegionRow { region, view, address, kind, groups, members } }

impl Field for FromService {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Welcome {
                incarnation,
                term,
                heartbeat_ms,
                expelled,
            } => {
                out.push(1);
                incarnation.put(out);
                term.put(out);
                heartbeat_ms.put(out);
                expelled.put(out);
            }
            Self::Batch { number, updates } => {
                out.push(2);
                number.put(out);
                updates.put(out);
            }
            Self::Answer(answer) => answer.put_tagged(out),
            Self::Redirect { address } => {
                out.push(8);
                address.put(out);
            }
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u8()? {
            1 => Self::Welcome {
                incarnation: Field::read(reader)?,
                term: Field::read(reader)?,
                heartbeat_ms: Field::read(reader)?,
                expelled: Field::read(reader)?,
            },
            2 => Self::Batch {
                number: Field::read(reader)?,
                updates: Field::read(reader)?,
            },
            8 => Self::Redirect {
                address: Field::read(reader)?,
            },
            tag => Self::Answer(Answer::read_tagged(tag, reader)?),
        })
    }
}

/// An answer is a message of its own for each kind of result.
impl Answer {
    fn put_tagged(&self, out: &mut Vec<u8>) {
        out.push(match &self.result {
            Ok(AnswerRows::None) => 3,
            Err(_) => 4,
            Ok(AnswerRows::Nodes(_)) => 5,
            Ok(AnswerRows::Groups(_)) => 6,
            Ok(AnswerRows::Regions(_)) => 7,
        });
        self.request.put(out);
        match &self.result {
            Ok(AnswerRows::None) => {}
            Err(reason) => reason.put(out),
            Ok(AnswerRows::Nodes(rows)) => rows.put(out),
            Ok(AnswerRows::Groups(rows)) => rows.put(out),
            Ok(AnswerRows::Regions(rows)) => rows.put(out),
        }
    }

    fn read_tagged(tag: u8, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if !(3..=7).contains(&tag) {
            return Err(DecodeError::BadValue);
        }
        let request = Field::read(reader)?;
        let result = match tag {
            3 => Ok(AnswerRows::None),
            4 => Err(Field::read(reader)?),
            5 => Ok(AnswerRows::Nodes(Field::read(reader)?)),
            6 => Ok(AnswerRows::Groups(Field::read(reader)?)),
            _ => Ok(AnswerRows::Regions(Field::read(reader)?)),
        };
        Ok(Self { request, result })
    }
}

codec!(FromService);
