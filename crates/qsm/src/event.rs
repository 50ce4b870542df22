use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use qsm_proto::{Damage, Deafness, UnconfirmedCause};
use qsm_record::Stopped as RecordingEnd;
use qsm_wire::membership::AwayReason;
use qsm_wire::{Incarnation, Origin, RegionId, ViewNumber};

use crate::counted::Counted;
use crate::error::{CloseReason, Unconfirmed, Unserved};
use crate::handoff::aside::Item;
use crate::latency::OverBudget;

/// Something that happened to a node. What happens to messages, losses as well, is told to the
/// subscriptions that they are of: see [`Received`](crate::Received).
///
/// Each core thread of a node is a member of the cluster and tells what happens to itself: of a
/// node with several ([`Builder::cores`](crate::Builder::cores)) most events come once for each.
/// One that is excluded misses messages of its own groups only.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// An interface of this node has no address any more, or is down, for a second so far. The node
    /// hears nobody by it, and goes on trying; [`Event::Moved`] says when there is an address again.
    AddressLost {
        /// Which interface, and what to do.
        reason: String,
    },
    /// The node is a member of the cluster; after [`Event::Excluded`], again, in a new life.
    Admitted {
        /// Its incarnation.
        incarnation: Incarnation,
    },
    /// Nobody in a region of this node waits for it any more, because the cluster does not hear it:
    /// it stood still, or the network did not carry what it says; or because it has read as fast as
    /// it could for so long, and publishers had to wait for it alone ([`AwayReason::Slow`]). It goes
    /// on in the same life, as fast as it can. With [`AwayReason::Demoted`] it goes on from the present:
    /// what it misses it loses, and is told.
    ///
    /// What it misses is kept for it: the live members keep what they cache and senders what they
    /// have sent, up to their [`retention_bytes`](qsm_proto::Limits::retention_bytes) in the region
    /// ([`Builder::retention_bytes`](crate::Builder::retention_bytes)), the newest. So it loses
    /// nothing, unless more than that is sent meanwhile: then its subscriptions are told what is
    /// missing. After `gone_after` of the membership service
    /// ([`ServiceBuilder::gone_after`](crate::ServiceBuilder::gone_after)), 30 seconds if not
    /// given, it is excluded instead: [`Event::Excluded`].
    Away {
        /// The region.
        region: RegionId,
        /// Why, as the membership service says.
        reason: AwayReason,
    },
    /// After [`Event::Away`]: this node has what the others have, and the region waits for it again.
    /// Its subscriptions are told in their order, by [`Received::Back`](crate::Received::Back).
    Back {
        /// The region.
        region: RegionId,
        /// Time since this node was heard last, as far as it knows.
        away: Duration,
    },
    /// Datagrams came that had been changed or cut short on their way, which UDP's checksum did not
    /// find: a defective card, cable, switch or memory. They are dropped and repaired like lost ones.
    /// One sender points to its side, several to this host. Told at once, then at most every 10 s.
    Damaged(Damage),
    /// The node has ended, with all its cores. The last event.
    Closed {
        /// Why.
        reason: CloseReason,
    },
    /// Packets came in a sender's name that it has not made: a member forges. Where the group demands `verified`, their
    /// messages were not delivered; with `audit` they may have been. Told at once, then of each sender and region at most
    /// once a second.
    Forged(Forged),
    /// A sender has sent to a group to which its rights do not let it publish: it runs a program that is not this one.
    /// Nothing of it was delivered. Told where proof of origin is demanded, of one sender and region once a
    /// second at most.
    NotPermitted(NotPermitted),
    /// Multicast does not reach a member of a region, although unicast does: this node does not hear
    /// another one ([`Deafness::here`]), or is not heard by another one. A firewall, or a switch that
    /// snoops IGMP where nobody asks who listens, keeps it back. What the member misses is repaired
    /// by unicast, as far as the others have it, at a small part of the rate.
    ///
    /// Told within three seconds of the first traffic, once for each pair, until [`Event::Hears`].
    Deaf(Deafness),
    /// After [`Event::Deaf`]: multicast reaches the member again, for two seconds or, if that happens
    /// again and again, for longer; or one of the two is gone.
    Hears(Deafness),
    /// Events that this reader did not take in time, in the place where they would have come: see
    /// [`Events::CAPACITY`](crate::Events::CAPACITY). Whoever keeps account of events, such as
    /// [`Event::Unserved`], asks again by other means, such as
    /// [`Node::flush`](crate::Node::flush).
    Dropped {
        /// The number of events.
        events: u64,
    },
    /// The membership service has shut this node out: it was slower than the others, publishers had to wait
    /// for it for longer than its groups' paces allow, and all of these are `then expel`.
    /// [`Event::Excluded`] follows, and the node comes back in a new life.
    Expelled,
    /// The cluster took this node for dead: it was silent for longer than it is waited for
    /// ([`Event::Away`]). It comes back by itself, in a
    /// new life, and misses what was sent meanwhile. Its subscriptions are told by
    /// [`Received::Excluded`](crate::Received::Excluded).
    Excluded,
    /// The sockets of this node have another address on the same interface. It goes on in the same
    /// life, and others send to the new address as soon as the membership service has told them.
    Moved {
        /// The former address.
        from: SocketAddr,
        /// The new one; after [`Event::AddressLost`] perhaps the former one again.
        to: SocketAddr,
    },
    /// A multicast address of the cluster cannot be received; the messages sent to it will not
    /// arrive here.
    NotListening {
        /// The address.
        address: SocketAddr,
        /// Why, and what to do.
        reason: String,
    },
    /// A stage took longer than its share of the latency budget
    /// ([`Builder::latency_budget`](crate::Builder::latency_budget)). Told at once and then, of each
    /// stage, at most every 10 seconds; [`LatencyStats`](crate::LatencyStats) counts all.
    OverBudget(OverBudget),
    /// The node is not recorded any more ([`Builder::record`](crate::Builder::record)), and goes on.
    /// What is in the file until then can be replayed.
    RecordingStopped {
        /// The file.
        path: PathBuf,
        /// Why, and what to do.
        reason: RecordingEnd,
    },
    /// A region of this node has a new view.
    RegionView {
        /// The region.
        region: RegionId,
        /// The view.
        view: ViewNumber,
        /// Its members.
        members: u32,
    },
    /// This node's own membership service runs, because no other answered, or because it always does
    /// ([`Embedded`](crate::Embedded)). That is so of the first node of a cluster. If other nodes run
    /// and none of them is ever seen, they are of another cluster, or multicast does not pass between
    /// them and this one.
    ServiceEmbedded {
        /// Where.
        address: SocketAddr,
        /// The multicast address at which no other has answered.
        discovery: Option<SocketAddr>,
    },
    /// The membership service answers: for the first time, again, or another one.
    ServiceFound {
        /// Where.
        address: SocketAddr,
    },
    /// The membership service does not answer. Messages go on among those who know each other;
    /// joining and leaving have to wait.
    ServiceLost,
    /// This node's own membership service could not start.
    ServiceNotEmbedded {
        /// Why, and what to do.
        reason: String,
    },
    /// This node's own membership service has given way to another one.
    ServiceYielded,
    /// A datagram of this cluster came that this node does not read, because of a key: its sender has another
    /// one, or none, or this node has none ([`NetworkOptions::key`](crate::NetworkOptions::key)). Told at once and
    /// then at most every 10 seconds.
    Stranger(Stranger),
    /// A file of lists of revoked certificates ([`Identity::revoked_of`](crate::Identity::revoked_of)) was written anew and
    /// cannot be used; the lists before it stay in force. Told once for each version of the file.
    ListRefused {
        /// Why.
        reason: String,
    },
    /// Messages that this node had accepted are not sent any more, and not all receivers are known
    /// to have them.
    Unconfirmed {
        /// Which.
        messages: Unconfirmed,
        /// Why. After [`UnconfirmedCause::NewLife`] they are also named by the error of
        /// [`Node::flush`](crate::Node::flush); after [`UnconfirmedCause::NoReceivers`] there was
        /// nobody left to have them.
        cause: UnconfirmedCause,
    },
    /// Receivers left or died, or are away while this node ends, and are not known to have everything
    /// that this node had sent them.
    /// The next [`Node::flush`](crate::Node::flush) names them too.
    Unserved(Unserved),
}

/// Packets in a sender's name that it has not made. Who made them had the keys of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Forged {
    /// The region.
    pub region: RegionId,
    /// In whose name.
    pub sender: Origin,
    /// Number in the sender's stream of one of them, the last one found.
    pub sequence: u64,
    /// Number found since this was told last.
    pub packets: u64,
    /// Address that this one says it came from, if that is still known; it may be forged, and who repairs packets has not
    /// made them.
    pub source: Option<SocketAddr>,
    /// The member that is at that address, as far as is known here.
    pub member: Option<Origin>,
}

impl Forged {
    /// One line for people, without a full stop, in which nodes have these names.
    pub fn line(&self, name: impl Fn(Origin) -> String) -> String {
        let (count, sender) = (Counted(self.packets, "packet"), name(self.sender));
        let what = format!(
            "{count} in the name of {sender} that it has not sent, the last with number {} in region {}, from ",
            self.sequence, self.region
        );
        match (self.source, self.member) {
            (None, _) => what + "an address that is not known any more",
            (Some(source), None) => format!("{what}{source}, where no known member is"),
            (Some(source), Some(member)) if member == self.sender => {
                format!("{what}{source}, its own address, which may be forged as well")
            }
            (Some(source), Some(member)) => format!(
                "{what}{source}, the address of {}, which forges or has passed on what it got",
                name(member)
            ),
        }
    }
}

/// Messages that their sender may not send.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotPermitted {
    /// Sender of them.
    pub sender: Origin,
    /// Name of the group of the last one.
    pub group: String,
    /// Number of messages since this was told last.
    pub messages: u64,
}

impl NotPermitted {
    /// One line for people, without a full stop, in which nodes have these names.
    pub fn line(&self, name: impl Fn(Origin) -> String) -> String {
        format!(
            "{} has sent {} that it may not send, the last to the group {:?}, and they were not delivered: its program \
             does not keep to its token; revoke that if you do not know why",
            name(self.sender),
            Counted(self.messages, "message"),
            self.group
        )
    }
}

impl fmt::Display for NotPermitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line(|origin| origin.to_string()))
    }
}

impl fmt::Display for Forged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line(|origin| origin.to_string()))
    }
}

/// A datagram that a key kept out, or that the lack of one did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stranger {
    /// Address that it says it came from, if that is known; it may be forged.
    pub from: Option<SocketAddr>,
    /// Why it was not read.
    pub cause: StrangerCause,
}

/// Why a datagram was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StrangerCause {
    /// It is protected by a key, or of a cluster that takes tokens, and this node has neither key nor identity.
    Protected,
    /// Nothing protects it, and this node has a key.
    Unprotected,
    /// Another key protects it.
    OtherKey,
    /// It bears this node's key, and was not made with it, or has changed on its way.
    Forged,
    /// Its sender says that it is a membership service of the cluster, and does not prove it, or was revoked.
    Impostor,
}

/// One line for people, without a full stop.
impl fmt::Display for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = self
            .from
            .map_or_else(|| "somebody".to_owned(), |from| from.to_string());
        match self.cause {
            StrangerCause::Protected => f.write_str(
                "this cluster is protected, and this node has neither its key nor an identity, so that it hears nobody: \
                 give it the key of the others, or an identity and a token where they have such",
            ),
            StrangerCause::Unprotected => write!(
                f,
                "{from} sends unprotected packets, which are dropped: it has no key of this cluster"
            ),
            StrangerCause::OtherKey => write!(
                f,
                "{from} has another key, and its packets are dropped: give all nodes and services \
                 the same"
            ),
            StrangerCause::Impostor => write!(
                f,
                "{from} says that it is a membership service of this cluster and cannot prove it: this node does not \
                 speak to it; is its token of the same root, valid, and not revoked?"
            ),
            StrangerCause::Forged => write!(
                f,
                "{from} sends packets that were not made with this cluster's key, or change on \
                 their way; they are dropped"
            ),
        }
    }
}

/// One line for people: what happened, and what it means for this node.
const EXCLUDED: &str = "excluded: the cluster took this node for dead; it comes back by itself and \
                        misses what was sent meanwhile";
const EXPELLED: &str = "expelled: this node was slower than the others for longer than its groups wait, \
                        and their pace is `then expel`; it comes back by itself: find what holds it back \
                        with `qsm explain GROUP`";

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressLost { reason } => write!(f, "no address: {reason}; trying again"),
            Self::Admitted { incarnation } => write!(f, "admitted, life {incarnation}"),
            Self::Away { region, reason } => write!(
                f,
                "away in region {region}: {reason}; what this node misses is kept for it"
            ),
            Self::Back { region, away } => {
                write!(
                    f,
                    "back in region {region} after {:.1} s",
                    away.as_secs_f64()
                )
            }
            Self::Closed { reason } => write!(f, "ended: {reason}"),
            Self::Damaged(damage) => write!(
                f,
                "{damage}: look for a defective card, cable, switch or memory"
            ),
            Self::Forged(forged) => forged.fmt(f),
            Self::NotPermitted(sent) => sent.fmt(f),
            Self::Deaf(deafness) => write_deaf(f, deafness),
            Self::Hears(Deafness {
                speaker, listener, ..
            }) => write!(
                f,
                "multicast of {speaker} reaches {listener} again, or it is gone"
            ),
            Self::Dropped { events } => write!(
                f,
                "{} of this node came faster than they were read; what they told is not known here",
                Counted(*events, "event")
            ),
            Self::Expelled => f.write_str(EXPELLED),
            Self::Excluded => f.write_str(EXCLUDED),
            Self::Moved { from, to } if from == to => write!(f, "the address {to} is back"),
            Self::Moved { from, to } => write!(f, "moved from {from} to {to}"),
            Self::NotListening { address, reason } => {
                write!(f, "cannot receive {address}: {reason}")
            }
            Self::OverBudget(over) => over.fmt(f),
            Self::RecordingStopped { path, reason } => {
                write!(f, "recording to {} has stopped: {reason}", path.display())
            }
            Self::RegionView {
                region,
                view,
                members,
            } => write!(
                f,
                "region {region}, view {view}: {}",
                Counted(u64::from(*members), "member")
            ),
            Self::ServiceEmbedded { address, .. } => {
                write!(f, "this node runs a membership service, at {address}")
            }
            Self::ServiceFound { address } => write!(f, "membership service at {address}"),
            Self::ServiceLost => f.write_str(
                "the membership service does not answer: messages go on, and joining and leaving \
                 wait until one is found",
            ),
            Self::ServiceNotEmbedded { reason } => {
                write!(f, "no membership service of its own: {reason}")
            }
            Self::ServiceYielded => f.write_str("own membership service gave way to another"),
            Self::Stranger(stranger) => stranger.fmt(f),
            Self::ListRefused { reason } => write_list_refused(f, reason),
            Self::Unconfirmed { messages, cause } => write_unconfirmed(f, messages, *cause),
            Self::Unserved(unserved) => unserved.fmt(f),
        }
    }
}

fn write_list_refused(f: &mut fmt::Formatter<'_>, reason: &str) -> fmt::Result {
    write!(
        f,
        "a list of revoked certificates cannot be used, and the one before it stays in force: {reason}"
    )
}

fn write_unconfirmed(
    f: &mut fmt::Formatter<'_>,
    messages: &Unconfirmed,
    cause: UnconfirmedCause,
) -> fmt::Result {
    write!(f, "not confirmed: {messages}: ")?;
    f.write_str(match cause {
        UnconfirmedCause::NewLife => "accepted before this node was excluded",
        _ => "no receiver is left",
    })
}

fn write_deaf(f: &mut fmt::Formatter<'_>, deafness: &Deafness) -> fmt::Result {
    let Deafness {
        address,
        listener,
        speaker,
        ..
    } = deafness;
    write!(
        f,
        "multicast of {speaker} to {address} does not reach {listener}"
    )
}

impl Item for Event {
    fn dropped(items: u64) -> Option<Self> {
        Some(Self::Dropped { events: items })
    }

    fn missing(&self) -> u64 {
        match self {
            Self::Dropped { events } => *events,
            _ => 0,
        }
    }

    fn join(&mut self, next: Self) -> Result<(), Self> {
        match (self, next) {
            (Self::Dropped { events }, Self::Dropped { events: next }) => {
                *events = next.saturating_add(*events);
                Ok(())
            }
            (_, next) => Err(next),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_line_for_people() {
        let region = RegionId(7);
        let away = Duration::from_millis(3210);
        for (event, line) in [
            (Event::Back { region, away }, "back in region 7 after 3.2 s"),
            (
                Event::Dropped { events: 3 },
                "3 events of this node came faster than they were read; what they told is not known \
                 here",
            ),
            (
                Event::Admitted {
                    incarnation: Incarnation(2),
                },
                "admitted, life 2",
            ),
        ] {
            assert_eq!(event.to_string(), line);
        }
        assert!(Event::ServiceLost.to_string().contains("messages go on"));
    }
}
