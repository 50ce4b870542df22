use core::time::Duration;

use crate::Damage;
use crate::receive::{Promptness, Run};
use qsm_wire::membership::{Answer, AwayReason};
use qsm_wire::{GroupId, Incarnation, Origin, RegionId, ViewNumber};
use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

/// A message on its way to the application. The bytes are lent for the duration of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery<'a> {
    /// The group it was published to.
    pub group: GroupId,
    /// Who published it.
    pub sender: Origin,
    /// Its number among this sender's messages to this group, from 1.
    pub number: u64,
    /// Its content.
    pub bytes: &'a [u8],
}

/// Takes messages out of the core (R128: an upcall with borrowed bytes). It runs inside the call
/// that made the message deliverable and cannot reach back into the endpoint, so data flows one
/// way only and a message that came whole in one packet is never copied.
pub trait Deliver {
    /// One message; called in order for each sender and group.
    fn deliver(&mut self, message: Delivery<'_>);

    /// Messages of one group that follow each other. Whoever has to look up something for a group
    /// may do so once here. What is left over comes one by one.
    fn deliver_run(&mut self, run: &mut Run<'_, '_>) {
        run.for_each(|message| self.deliver(message));
    }

    /// A group of this node has this number from now on; called before anything of it is delivered
    /// or missed under that number. A new life ([`Miss::Life`]) voids all numbers.
    fn name_group(&mut self, _group: GroupId, _name: &str) {}

    /// Something that will never be delivered; called before what follows it. No event says the
    /// same.
    fn miss(&mut self, _miss: Miss<'_>) {}

    /// A message for those who want its group so, and for nobody else; see
    /// [`Endpoint::want`](crate::Endpoint::want). Called beside [`Deliver::deliver`], and once for
    /// each way.
    fn deliver_promptly(&mut self, _mode: Promptness, _message: Delivery<'_>) {}

    /// Something that those will never get who want its group so, or the packets that it may have
    /// been in; called before what follows it. What [`Deliver::miss`] says of packets and lives
    /// concerns them, too; what it says of messages does not.
    fn miss_promptly(&mut self, _mode: Promptness, _miss: Miss<'_>) {}
}

/// What will never be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Miss<'a> {
    /// Messages that will never be delivered here (R201, R204): numbers `first..=last` of this
    /// sender in this group.
    Messages {
        /// The group.
        group: GroupId,
        /// The sender.
        sender: Origin,
        /// First message lost.
        first: u64,
        /// Last message lost.
        last: u64,
        /// Why.
        cause: LossCause,
    },
    /// Messages that were sent while this node was excluded: they lie between the last one of the
    /// former life and the first one of this.
    Absence {
        /// The group.
        group: GroupId,
        /// The sender.
        sender: Origin,
        /// First message missed.
        first: u64,
        /// Last message missed.
        last: u64,
    },
    /// Packets that nobody holds any more, of a sender that is gone; which groups' messages were in
    /// them is not known, except where later messages show it by [`Miss::Messages`]. A sender that
    /// is there says so (R-DATA-11).
    Packets {
        /// The groups that their messages may have been of.
        groups: &'a [GroupId],
        /// The sender.
        sender: Origin,
        /// How many packets.
        packets: u64,
    },
    /// What is sent until the next life begins, as in [`Event::Excluded`].
    Life {
        /// The life that has ended.
        incarnation: Incarnation,
    },
}

/// Why messages will never be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum LossCause {
    /// Nobody has them any more.
    #[default]
    Gone,
    /// They have been missing for longer than the application waits (R-DATA-12).
    Overdue,
    /// They were missing when the lifetime of their group's messages was over (R-DATA-14).
    Expired,
}

impl<F: FnMut(Delivery<'_>)> Deliver for F {
    fn deliver(&mut self, message: Delivery<'_>) {
        self(message);
    }
}

/// Something the application or the runtime has to know. Polled until none is left.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The node is a member of the cluster, in this life.
    Admitted {
        /// Its incarnation.
        incarnation: Incarnation,
    },
    /// The membership service has shut this node out because it was slower than the others for longer than
    /// all its groups wait (R-RATE-12). [`Event::Excluded`] follows.
    Expelled,
    /// The cluster has declared this node dead. It starts a new life by itself.
    Excluded,
    /// The membership service does not answer. Traffic goes on with the last views.
    ServiceLost,
    /// It answers again, or another one does.
    ServiceFound {
        /// Where.
        address: SocketAddr,
    },
    /// No membership service is configured and none was heard of: the runtime may start one and
    /// name it by [`crate::Endpoint::set_service`]. Said again every few seconds.
    ServiceMissing,
    /// The outcome of a request of this endpoint.
    Answer(Answer),
    /// A region of this node has a new view.
    RegionView {
        /// The region.
        region: RegionId,
        /// The view.
        view: ViewNumber,
        /// Its members.
        members: u32,
    },
    /// Nobody in the region waits for this node any more: the cluster has not heard it, or it takes
    /// less than the others. What it misses is kept for it for a while, and it is catching up.
    Away {
        /// The region.
        region: RegionId,
        /// Why, as the membership service says.
        reason: AwayReason,
    },
    /// This node has caught up, and the region waits for it again.
    Back {
        /// The region.
        region: RegionId,
        /// Time since it was heard last, as far as it knows: since the membership service fell
        /// silent, or since it learnt that it was away.
        away: Duration,
    },
    /// Datagrams have come that were changed or cut short on their way.
    Damaged(Damage),
    /// Packets have come in the name of a sender that has not made them: a member, or somebody who has its keys, forges.
    /// Told of one stream once a second at most.
    Forged {
        /// The region.
        region: RegionId,
        /// In whose name.
        sender: Origin,
        /// Number in the sender's stream of one of them, the last one found.
        sequence: u64,
        /// Number found since this was told last.
        packets: u64,
        /// Where that one came from; `None`: that is not known any more. Who repairs forged packets has not made them.
        source: Option<SocketAddr>,
    },
    /// A sender has sent to a group to which it may not publish, and nothing of it was delivered. Told of one stream once a
    /// second at most.
    NotPermitted {
        /// The region.
        region: RegionId,
        /// Who.
        sender: Origin,
        /// The group that it sent to last.
        group: GroupId,
        /// Messages, or parts of them, since this was told last.
        messages: u64,
    },
    /// Multicast does not reach a member of the region: this node, or a member to which this node
    /// speaks.
    Deaf(Deafness),
    /// After [`Event::Deaf`]: it does again, or one of the two is gone.
    Hears(Deafness),
    /// Messages that this node has accepted, in that life, and that not all receivers are known to
    /// have. They are not sent any more; some or all of them may have arrived at some or all.
    Unconfirmed {
        /// The group's name; empty if this node has left it.
        group: Arc<str>,
        /// The life they were accepted in, which numbers them.
        incarnation: Incarnation,
        /// First message.
        first: u64,
        /// Last message.
        last: u64,
        /// Why they are given up.
        cause: UnconfirmedCause,
    },
    /// These receivers are not known to have messages that this node had sent them, and do not get
    /// them from it any more. Others may be left, and have them.
    Unserved {
        /// Who, each in its life.
        receivers: Vec<Origin>,
        /// Number of further ones.
        receivers_more: u64,
        /// The life that numbers the messages.
        incarnation: Incarnation,
        /// Which messages, by group.
        messages: Vec<MessageRange>,
        /// Number of messages in further ranges.
        messages_more: u64,
        /// Why they do not.
        cause: UnservedCause,
    },
    /// Receive this multicast address from now on.
    Listen {
        /// The address.
        address: SocketAddr,
    },
    /// Receive this multicast address, which is source-specific, from these senders only; those
    /// named before and not now are no senders any more.
    ListenTo {
        /// The address.
        address: SocketAddr,
        /// Where the senders receive unicast; what they send comes from there.
        senders: BTreeSet<SocketAddr>,
    },
    /// Stop receiving this multicast address.
    Unlisten {
        /// The address.
        address: SocketAddr,
    },
    /// Send what is for this address to the other as well, and take what comes from the other as
    /// if it came from this (R235). It may be said again.
    SecondAddress {
        /// Where a node is, or the membership service.
        address: SocketAddr,
        /// Where it is on a second network.
        second: SocketAddr,
    },
}

/// The multicast of a node to a region that does not reach one of its members, although unicast
/// does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deafness {
    /// The region.
    pub region: RegionId,
    /// The multicast address.
    pub address: SocketAddr,
    /// The member that does not hear it.
    pub listener: Origin,
    /// The speaker that it does not hear.
    pub speaker: Origin,
    /// Where the other one of the two is, as far as this node knows.
    pub peer: Option<SocketAddr>,
    /// This node is the one that does not hear; else the one that is not heard.
    pub here: bool,
}

/// Messages of this node to a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRange {
    /// The group's name; empty if this node has left it.
    pub group: Arc<str>,
    /// First message.
    pub first: u64,
    /// Last message.
    pub last: u64,
}

/// Why messages are not sent any more although not all receivers are known to have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnconfirmedCause {
    /// The cluster took the sender for dead; it has begun a new life, and its old streams are void.
    NewLife,
    /// No receiver of them is left: the last one left, or died, without having acknowledged them.
    NoReceivers,
}

/// Why receivers do not get messages any more that they are not known to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnservedCause {
    /// They left or died.
    Gone,
    /// They are away, and this node ends before they are back: they get what live receivers keep for
    /// them.
    Away,
    /// They live, and this node has ended before they had acknowledged them, since it waits for so long
    /// only (R-MEM-14): they get what others have of it.
    Ended,
    /// They were slower than the others for longer than their groups wait, and have gone on from the present
    /// (R-RATE-12). They are told what they have lost.
    Demoted,
    /// They were away while more was sent than is kept for members that are away
    /// (`Limits::retention_bytes`), and have given up what nobody has any more. They are told what they
    /// have lost.
    Overrun,
}

/// Events on their way to the application, at most [`Events::MAX`].
#[derive(Debug, Default)]
pub struct Events {
    queue: VecDeque<Event>,
    dropped: u64,
}

impl Events {
    /// Most events that wait to be polled; beyond it the newest are dropped and counted.
    pub const MAX: usize = 1 << 16;

    /// Adds one.
    pub fn push(&mut self, event: Event) {
        if self.queue.len() < Self::MAX {
            self.queue.push_back(event);
        } else {
            self.dropped += 1;
        }
    }

    /// The oldest.
    pub fn pop(&mut self) -> Option<Event> {
        self.queue.pop_front()
    }

    /// How many were dropped because nobody polled.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// Why a message cannot be published now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PublishError {
    /// The endpoint is closing.
    Closed,
    /// The group is unknown here: enter it first, as subscriber or publisher.
    NotEntered,
    /// The message is longer than the limit, or than what would fit into the send memory of all
    /// its group's regions together if all of it were free.
    TooLarge {
        /// Its length, bytes.
        length: usize,
        /// The limit, bytes.
        max: usize,
    },
    /// A send window is full: poll transmits, and try again when receivers have acknowledged.
    WindowFull {
        /// Whose: one of the group's regions. Other groups of that region meet the same window.
        region: RegionId,
    },
    /// This node receives the group itself, and its readers take no more: try again when they do
    /// ([`Endpoint::set_full_readers`](crate::Endpoint::set_full_readers)).
    ReadersFull,
}

impl core::fmt::Display for PublishError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Closed => f.write_str("the node is closing"),
            Self::NotEntered => {
                f.write_str("the group is not entered here; enter it as subscriber or publisher")
            }
            Self::TooLarge { length, max } => {
                write!(
                    f,
                    "message of {length} bytes is longer than the limit of {max}; cut it, or raise \
                     limits.message_bytes and limits.send_bytes, which a group's regions share"
                )
            }
            Self::WindowFull { .. } => {
                f.write_str("the send window is full; try again after receivers acknowledged")
            }
            Self::ReadersFull => f.write_str(
                "this node's own readers of the group take no more; try again after they have read",
            ),
        }
    }
}

impl core::error::Error for PublishError {}
