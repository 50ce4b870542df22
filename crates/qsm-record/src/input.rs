//! What a state machine is given, in the order of the calls.

use core::fmt;
use core::time::Duration;
use std::net::SocketAddr;

use qsm_proto::send::Batching;
use qsm_proto::{FullReaders, Promptness};
use qsm_wire::GroupId;
use qsm_wire::membership::{QueryKind, Role};

use crate::fields::{Fields, Malformed, Put};

/// A call of [`Endpoint`](qsm_proto::Endpoint) that may change it. The time of the call stands beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Input<'a> {
    /// `set_backlog`
    Backlog {
        /// Whether datagrams wait that have not been handed over.
        waiting: bool,
    },
    /// `Publication::within`; it holds for what follows as [`Input::Push`].
    Batching {
        /// The limits.
        batching: Batching,
    },
    /// `close`
    Close,
    /// `handle_datagram`, with bytes that are copied if they are kept.
    Datagram {
        /// Where it came from.
        from: SocketAddr,
        /// What came.
        bytes: &'a [u8],
    },
    /// `describe`
    Describe {
        /// The description.
        text: &'a str,
    },
    /// `note_drops`
    Drops {
        /// Packets that the kernel dropped.
        packets: u64,
    },
    /// `enter`
    Enter {
        /// As what.
        role: Role,
        /// The groups.
        groups: Vec<&'a str>,
    },
    /// `poll_event`, which gave one.
    Event,
    /// `note_foreign`
    Foreign {
        /// The multicast address that it came to.
        at: SocketAddr,
    },
    /// `exit`
    Exit {
        /// As what.
        role: Role,
        /// The groups.
        groups: Vec<&'a str>,
    },
    /// `handle_datagram`, with a part of a buffer that may be held.
    Lent {
        /// Where it came from.
        from: SocketAddr,
        /// Number of the buffer among those that were filled together.
        buffer: usize,
        /// Where the datagram begins in it.
        start: usize,
        /// Bytes.
        length: usize,
    },
    /// `move_to`
    Move {
        /// The new address.
        address: SocketAddr,
        /// That on the second network.
        second: Option<SocketAddr>,
    },
    /// `publication`; messages follow as [`Input::Push`].
    Open {
        /// The group.
        group: GroupId,
    },
    /// `Publication::push`
    Push {
        /// The message.
        payload: &'a [u8],
    },
    /// `query`
    Query {
        /// Which list.
        list: QueryKind,
    },
    /// `set_full_readers`
    Readers {
        /// Groups whose readers take no more.
        full: FullReaders,
    },
    /// `set_service`
    Service {
        /// Where it is.
        address: SocketAddr,
    },
    /// `handle_timeout`
    Timeout,
    /// `poll_transmit`
    Transmit,
    /// `note_sojourn`
    Sojourn {
        /// Time that the oldest datagram had waited at its socket.
        waited: Duration,
    },
    /// `note_wait`
    Wait {
        /// How long datagrams had waited.
        time: Duration,
    },
    /// `want`
    Want {
        /// The group.
        group: &'a str,
        /// In which ways it is wanted beside its order.
        modes: Vec<Promptness>,
    },
}

/// Numbers of the inputs in a file.
mod tag {
    pub(super) const DATAGRAM: u8 = 16;
    pub(super) const LENT: u8 = 17;
    pub(super) const TIMEOUT: u8 = 18;
    pub(super) const TRANSMIT: u8 = 19;
    pub(super) const EVENT: u8 = 20;
    pub(super) const ENTER: u8 = 21;
    pub(super) const EXIT: u8 = 22;
    pub(super) const QUERY: u8 = 23;
    pub(super) const SERVICE: u8 = 24;
    pub(super) const DROPS: u8 = 25;
    pub(super) const BACKLOG: u8 = 26;
    pub(super) const WAIT: u8 = 27;
    pub(super) const OPEN: u8 = 28;
    pub(super) const PUSH: u8 = 29;
    pub(super) const MOVE: u8 = 30;
    pub(super) const CLOSE: u8 = 31;
    pub(super) const READERS: u8 = 32;
    pub(super) const WANT: u8 = 33;
    pub(super) const SOJOURN: u8 = 34;
    pub(super) const FOREIGN: u8 = 35;
    pub(super) const BATCHING: u8 = 36;
    pub(super) const DESCRIBE: u8 = 37;
}

/// Addresses that datagrams came from have numbers once they have occurred.
pub(crate) trait Addresses {
    /// Writes an address, or its number.
    fn put_address(&mut self, address: SocketAddr, to: &mut Vec<u8>);
}

impl Input<'_> {
    pub(crate) fn tag(&self) -> u8 {
        match self {
            Self::Backlog { .. } => tag::BACKLOG,
            Self::Batching { .. } => tag::BATCHING,
            Self::Close => tag::CLOSE,
            Self::Datagram { .. } => tag::DATAGRAM,
            Self::Describe { .. } => tag::DESCRIBE,
            Self::Drops { .. } => tag::DROPS,
            Self::Enter { .. } => tag::ENTER,
            Self::Event => tag::EVENT,
            Self::Exit { .. } => tag::EXIT,
            Self::Foreign { .. } => tag::FOREIGN,
            Self::Lent { .. } => tag::LENT,
            Self::Move { .. } => tag::MOVE,
            Self::Open { .. } => tag::OPEN,
            Self::Push { .. } => tag::PUSH,
            Self::Query { .. } => tag::QUERY,
            Self::Readers { .. } => tag::READERS,
            Self::Service { .. } => tag::SERVICE,
            Self::Sojourn { .. } => tag::SOJOURN,
            Self::Timeout => tag::TIMEOUT,
            Self::Transmit => tag::TRANSMIT,
            Self::Wait { .. } => tag::WAIT,
            Self::Want { .. } => tag::WANT,
        }
    }

    /// Writes what follows tag and time.
    pub(crate) fn put(&self, addresses: &mut impl Addresses, to: &mut Vec<u8>) {
        match self {
            Self::Close | Self::Event | Self::Timeout | Self::Transmit => {}
            Self::Backlog { waiting } => to.flag(*waiting),
            Self::Batching { batching } => {
                to.duration(batching.delay);
                to.count(batching.bytes);
            }
            Self::Datagram { from, bytes } => {
                addresses.put_address(*from, to);
                to.bytes(bytes);
            }
            Self::Describe { text } => to.text(text),
            Self::Drops { packets } => to.number(*packets),
            Self::Enter { role, groups } | Self::Exit { role, groups } => {
                to.flag(*role == Role::Publisher);
                to.count(groups.len());
                groups.iter().for_each(|group| to.text(group));
            }
            Self::Lent {
                from,
                buffer,
                start,
                length,
            } => {
                addresses.put_address(*from, to);
                to.count(*buffer);
                to.count(*start);
                to.count(*length);
            }
            Self::Move { address, second } => {
                to.address(*address);
                to.address_if(*second);
            }
            Self::Open { group } => to.number(group.0.into()),
            Self::Push { payload } => to.bytes(payload),
            Self::Query { list } => to.number(match list {
                QueryKind::Nodes => 1,
                QueryKind::Groups => 2,
                QueryKind::Regions => 3,
            }),
            Self::Readers { full } => put_readers(full, to),
            Self::Foreign { at } => to.address(*at),
            Self::Service { address } => to.address(*address),
            Self::Sojourn { waited } => to.duration(*waited),
            Self::Wait { time } => to.duration(*time),
            Self::Want { group, modes } => {
                to.text(group);
                to.count(modes.len());
                modes.iter().for_each(|mode| put_mode(*mode, to));
            }
        }
    }
}

impl<'a> Input<'a> {
    /// Reads the input of this tag; datagrams have their addresses by `address`.
    pub(crate) fn take(
        tag: u8,
        fields: &mut Fields<'a>,
        address: impl FnOnce(&mut Fields<'a>) -> Result<SocketAddr, Malformed>,
    ) -> Result<Self, Malformed> {
        Ok(match tag {
            tag::BACKLOG => Self::Backlog {
                waiting: fields.flag()?,
            },
            tag::BATCHING => Self::Batching {
                batching: batching(fields)?,
            },
            tag::CLOSE => Self::Close,
            tag::DATAGRAM => Self::Datagram {
                from: address(fields)?,
                bytes: fields.bytes()?,
            },
            tag::DESCRIBE => Self::Describe {
                text: fields.text()?,
            },
            tag::DROPS => Self::Drops {
                packets: fields.number()?,
            },
            tag::ENTER => Self::Enter {
                role: role(fields)?,
                groups: groups(fields)?,
            },
            tag::EVENT => Self::Event,
            tag::EXIT => Self::Exit {
                role: role(fields)?,
                groups: groups(fields)?,
            },
            tag::FOREIGN => Self::Foreign {
                at: fields.address()?,
            },
            tag::LENT => Self::Lent {
                from: address(fields)?,
                buffer: fields.narrow()?,
                start: fields.narrow()?,
                length: fields.narrow()?,
            },
            tag::MOVE => Self::Move {
                address: fields.address()?,
                second: fields.address_if()?,
            },
            tag::OPEN => Self::Open {
                group: GroupId(fields.narrow()?),
            },
            tag::PUSH => Self::Push {
                payload: fields.bytes()?,
            },
            tag::QUERY => Self::Query {
                list: list(fields)?,
            },
            tag::READERS => Self::Readers {
                full: readers(fields)?,
            },
            tag::SERVICE => Self::Service {
                address: fields.address()?,
            },
            tag::SOJOURN => Self::Sojourn {
                waited: fields.duration()?,
            },
            tag::TIMEOUT => Self::Timeout,
            tag::TRANSMIT => Self::Transmit,
            tag::WAIT => Self::Wait {
                time: fields.duration()?,
            },
            tag::WANT => Self::Want {
                group: fields.text()?,
                modes: modes(fields)?,
            },
            _ => return Err(Malformed),
        })
    }
}

fn batching(fields: &mut Fields<'_>) -> Result<Batching, Malformed> {
    Ok(Batching {
        delay: fields.duration()?,
        bytes: fields.narrow()?,
    })
}

fn role(fields: &mut Fields<'_>) -> Result<Role, Malformed> {
    Ok(match fields.flag()? {
        true => Role::Publisher,
        false => Role::Subscriber,
    })
}

fn groups<'a>(fields: &mut Fields<'a>) -> Result<Vec<&'a str>, Malformed> {
    let count: usize = fields.narrow()?;
    (0..count).map(|_| fields.text()).collect()
}

/// 0: none, 1: all, 2: these groups.
fn put_readers(full: &FullReaders, to: &mut Vec<u8>) {
    match full {
        FullReaders::None => to.number(0),
        FullReaders::All => to.number(1),
        FullReaders::Of(groups) => {
            to.number(2);
            to.count(groups.len());
            groups.iter().for_each(|group| to.number(group.0.into()));
        }
    }
}

fn readers(fields: &mut Fields<'_>) -> Result<FullReaders, Malformed> {
    Ok(match fields.number()? {
        0 => FullReaders::None,
        1 => FullReaders::All,
        2 => {
            let count: usize = fields.narrow()?;
            let groups = (0..count).map(|_| fields.narrow().map(GroupId));
            FullReaders::of(groups.collect::<Result<_, _>>()?)
        }
        _ => return Err(Malformed),
    })
}

fn put_mode(mode: Promptness, to: &mut Vec<u8>) {
    to.flag(mode != Promptness::Arrival);
    if let Promptness::Within(limit) = mode {
        to.duration(limit);
    }
}

fn modes(fields: &mut Fields<'_>) -> Result<Vec<Promptness>, Malformed> {
    let count: usize = fields.narrow()?;
    let mode = |_| {
        Ok(match fields.flag()? {
            true => Promptness::Within(fields.duration()?),
            false => Promptness::Arrival,
        })
    };
    (0..count).map(mode).collect()
}

fn list(fields: &mut Fields<'_>) -> Result<QueryKind, Malformed> {
    Ok(match fields.number()? {
        1 => QueryKind::Nodes,
        2 => QueryKind::Groups,
        3 => QueryKind::Regions,
        _ => return Err(Malformed),
    })
}

/// One line for people.
impl fmt::Display for Input<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backlog { waiting: true } => f.write_str("datagrams wait to be received"),
            Self::Backlog { waiting: false } => f.write_str("all datagrams have been received"),
            Self::Batching { batching } => write!(
                f,
                "messages that follow may wait {:?} for others",
                batching.delay
            ),
            Self::Close => f.write_str("the node closes"),
            Self::Datagram { from, bytes } => {
                write!(f, "a datagram of {} bytes from {from}", bytes.len())
            }
            Self::Describe { text } => {
                write!(f, "the node is described in {} bytes", text.len())
            }
            Self::Drops { packets } => write!(f, "the kernel dropped {packets} packets"),
            Self::Enter { role, groups } => {
                write!(f, "{} groups are entered as {role:?}", groups.len())
            }
            Self::Event => f.write_str("an event is taken"),
            Self::Exit { role, groups } => {
                write!(f, "{} groups are left as {role:?}", groups.len())
            }
            Self::Foreign { at } => write!(f, "a datagram of another cluster has come to {at}"),
            Self::Lent { from, length, .. } => {
                write!(f, "a datagram of {length} bytes from {from}, of a train")
            }
            Self::Move { address, .. } => write!(f, "the node is at {address} now"),
            Self::Open { group } => write!(f, "group {group} is opened for messages"),
            Self::Push { payload } => {
                write!(f, "a message of {} bytes is published", payload.len())
            }
            Self::Query { list } => write!(f, "a list is asked for: {list:?}"),
            Self::Readers {
                full: FullReaders::None,
            } => f.write_str("the readers of all groups have room"),
            Self::Readers {
                full: FullReaders::All,
            } => f.write_str("the readers of all groups take no more"),
            Self::Readers {
                full: FullReaders::Of(groups),
            } => write!(f, "the readers of {} groups take no more", groups.len()),
            Self::Service { address } => write!(f, "the membership service is at {address}"),
            Self::Sojourn { waited } => {
                write!(f, "the oldest datagram had waited {waited:?}")
            }
            Self::Timeout => f.write_str("timers are due"),
            Self::Transmit => f.write_str("something to send is asked for"),
            Self::Wait { time } => write!(f, "datagrams have waited {time:?}"),
            Self::Want { group, modes } => {
                write!(f, "group {group} is wanted beside its order as {modes:?}")
            }
        }
    }
}
