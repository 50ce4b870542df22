use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::Instant;
use qsm_proto::region::Region;
use qsm_wire::{Body, ChannelId, GroupId, Hop, Packet, StreamId};

use super::history::History;
use super::lost::LostNumbers;
use crate::machine::Machine;
use crate::violation::Violation;

/// What a node may be late with a lifetime: a share of it, and what clocks and hosts that read a
/// datagram add.
const LATE_SHARE: u32 = 24;
const LATE_MAX: Duration = Duration::from_millis(10);
/// Clocks go wrong by at most half of this share.
const DRIFT_SHARE: u32 = 1000;

/// A packet that is sent again.
#[derive(Debug)]
pub(crate) struct Repaired {
    stream: StreamId,
    sequence: u64,
    groups: Vec<GroupId>,
    bytes: u64,
}

impl Repaired {
    /// Which packet of its stream.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Its length.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Of which stream.
    pub(crate) fn stream(&self) -> StreamId {
        self.stream
    }

    /// A node's datagram, if it is a repair.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        if matches!(Hop::peek(bytes)?, Hop::Direct | Hop::Copy) {
            return None;
        }
        let packet = Packet::decode(bytes).ok()?;
        let Body::Data(data) = packet.body else {
            return None;
        };
        let origin = packet.header.origin;
        let channel = data.head.channel;
        Some(Self {
            stream: StreamId { origin, channel },
            sequence: data.head.sequence,
            groups: data.chunks().map(|chunk| chunk.group).collect(),
            bytes: bytes.len() as u64,
        })
    }

    /// A packet of nobody's, of this length.
    #[cfg(test)]
    pub(crate) fn example(sequence: u64, bytes: u64) -> Self {
        Self {
            stream: StreamId::default(),
            sequence,
            groups: Vec::new(),
            bytes,
        }
    }
}

/// Messages that are told as expired are of groups with a lifetime and older than that; and nobody
/// sends a packet again that he has known for longer than all its messages live (R-DATA-14).
#[derive(Debug, Default)]
pub(crate) struct Expiry {
    /// By host and stream: since when it is known there how far the stream goes; ascending.
    known: BTreeMap<(usize, StreamId), Vec<(Instant, u64)>>,
    /// By host, channel and group: since when it is known there that the group has a lifetime.
    told: BTreeMap<(usize, ChannelId, GroupId), Instant>,
    /// By host and stream: packets that its sender has repeated as a last resort (R-DATA-7).
    repeated: BTreeMap<(usize, StreamId), u64>,
}

fn repeated(machine: &Machine, stream: StreamId) -> u64 {
    let own = machine.all_regions().filter_map(Region::own_stream);
    let mut own = own.filter(|own| own.id() == stream);
    own.next().map_or(0, |own| own.counters().last_resort)
}

impl Expiry {
    /// Messages are told as expired, of a group with this lifetime.
    pub(crate) fn check_loss(
        &self,
        now: Instant,
        history: &History,
        lifetime: Option<Duration>,
        lost: LostNumbers,
    ) -> Result<(), Violation> {
        let LostNumbers {
            receiver,
            group,
            sender,
            first,
            last,
        } = lost;
        let what = format!("{receiver} is told that {sender}/group {group} #{first}..={last}");
        let Some(lifetime) = lifetime else {
            let message = format!("{what} have expired, which have no lifetime");
            return Err(Violation::new("expiry", message));
        };
        // The youngest of them is the last.
        let published = history.published_at(sender, group, last);
        let age = published.map_or(Duration::MAX, |at| now.since(at));
        if age < lifetime - lifetime / DRIFT_SHARE {
            let message = format!("{what} have expired after {age:?}, and not {lifetime:?}");
            return Err(Violation::new("expiry", message));
        }
        Ok(())
    }

    /// What a host knows of the streams whose packets may expire.
    pub(crate) fn note(&mut self, now: Instant, host: usize, machine: &Machine) {
        for region in machine.all_regions() {
            let channel = region.channel();
            let groups: Vec<GroupId> = region.lifetimes().map(|(group, _)| group).collect();
            let key = |group: GroupId| (host, channel, group);
            let all = key(GroupId(0))..=key(GroupId(u32::MAX));
            let gone = self.told.range(all).map(|(key, _)| *key);
            let gone: Vec<_> = gone.filter(|key| !groups.contains(&key.2)).collect();
            for key in gone {
                self.told.remove(&key);
            }
            for group in &groups {
                self.told.entry(key(*group)).or_insert(now);
            }
            let own = region.own_stream();
            let own = own.map(|stream| (stream.id(), stream.highest()));
            let others = region.streams();
            let others = others.map(|stream| (stream.id(), stream.sent()));
            let repeated = region.own_stream().map(|own| {
                let stream = own.id();
                ((host, stream), own.counters().last_resort)
            });
            self.repeated.extend(repeated);
            for (stream, highest) in others.chain(own) {
                let known = self.known.entry((host, stream)).or_default();
                if known.last().is_none_or(|(_, upto)| *upto < highest) {
                    known.push((now, highest));
                }
            }
        }
    }

    /// Tells whether a sender repeats packets as a last resort, whoever lacks them.
    pub(crate) fn is_last_resort(
        &self,
        host: usize,
        machine: &Machine,
        repaired: &Repaired,
    ) -> bool {
        let before = self.repeated.get(&(host, repaired.stream));
        repeated(machine, repaired.stream) > before.copied().unwrap_or(0)
    }

    /// The process on this host ends.
    pub(crate) fn forget(&mut self, host: usize) {
        self.known.retain(|(one, _), _| *one != host);
        self.told.retain(|(one, ..), _| *one != host);
        self.repeated.retain(|(one, _), _| *one != host);
    }

    /// A host has sent a packet again, whose messages have these lifetimes as the operator says.
    pub(crate) fn check_repair(
        &self,
        now: Instant,
        host: usize,
        repaired: &Repaired,
        lifetime: impl Fn(GroupId) -> Option<Duration>,
    ) -> Result<(), Violation> {
        let Repaired {
            stream,
            sequence,
            groups,
            ..
        } = repaired;
        let known = self.known.get(&(host, *stream));
        let known = known.and_then(|known| {
            let at = known.partition_point(|(_, upto)| upto < sequence);
            known.get(at)
        });
        let Some((since, _)) = known else {
            return Ok(());
        };
        for group in groups {
            let told = self.told.get(&(host, stream.channel, *group));
            let (Some(lifetime), Some(told)) = (lifetime(*group), told) else {
                return Ok(());
            };
            let late = lifetime / LATE_SHARE + LATE_MAX;
            if now.since(*since.max(told)) <= lifetime + late {
                return Ok(());
            }
        }
        let message = format!(
            "host {host} repairs #{sequence} of {}, which it has known for {:?}: all its messages have \
             expired",
            stream.origin,
            now.since(*since)
        );
        Err(Violation::new("expiry", message))
    }
}

#[cfg(test)]
mod tests {
    use qsm_wire::{Incarnation, NodeId, Origin};

    use super::*;

    const BEGIN: Instant = Instant(1_000_000_000);
    const LIFETIME: Duration = Duration::from_millis(200);

    fn at(ms: u64) -> Instant {
        BEGIN.after(Duration::from_millis(ms))
    }

    fn origin(node: u64) -> Origin {
        Origin {
            node: NodeId(node),
            incarnation: Incarnation(1),
        }
    }

    #[test]
    fn messages_that_expire_early_or_have_no_lifetime_are_seen() {
        let mut history = History::default();
        (0..10).for_each(|ms| history.publish(origin(2), 0, at(ms)));
        let expiry = Expiry::default();
        let told = |ms, lifetime, last| {
            let lost = LostNumbers {
                receiver: origin(1),
                group: 0,
                sender: origin(2),
                first: 1,
                last,
            };
            expiry.check_loss(at(ms), &history, lifetime, lost)
        };
        told(205, Some(LIFETIME), 5).unwrap();
        assert!(told(205, Some(LIFETIME), 10).is_err());
        assert!(told(900, None, 1).is_err());
    }

    #[test]
    fn packets_that_are_repaired_after_their_messages_expired_are_seen() {
        let stream = StreamId::default();
        let group = GroupId(4);
        let mut expiry = Expiry::default();
        let known = vec![(at(0), 5), (at(100), 9)];
        expiry.known.insert((3, stream), known);
        let repaired = |sequence, groups: &[GroupId]| Repaired {
            stream,
            sequence,
            groups: groups.to_vec(),
            bytes: 100,
        };
        let lifetime = |one: GroupId| (one == group).then_some(LIFETIME);
        let check = |expiry: &Expiry, ms, sequence, groups: &[GroupId]| {
            let repaired = repaired(sequence, groups);
            expiry.check_repair(at(ms), 3, &repaired, lifetime)
        };
        check(&expiry, 900, 5, &[group]).unwrap();
        expiry.told.insert((3, stream.channel, group), at(20));
        check(&expiry, 235, 5, &[group]).unwrap();
        assert!(check(&expiry, 245, 5, &[group]).is_err());
        check(&expiry, 245, 6, &[group]).unwrap();
        assert!(check(&expiry, 345, 6, &[group, group]).is_err());
        check(&expiry, 345, 6, &[group, GroupId(5)]).unwrap();
        check(&expiry, 345, 10, &[group]).unwrap();
        expiry.forget(3);
        check(&expiry, 345, 5, &[group]).unwrap();
    }
}
