//! What a recording shows of the cluster around its node.

use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::Event;
use qsm_wire::{Body, ChannelId, GroupId, Origin, Packet};

/// What a node sees of others: enough for a scenario of the same kind.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// Members of the largest view of a region that it was told of.
    pub members: u32,
    /// Messages that it delivered or published, by group and sender.
    pub flows: BTreeMap<(GroupId, Origin), ObservedFlow>,
    /// When it learnt that it had been excluded, since its start.
    pub exclusions: Vec<Duration>,
    streams: BTreeMap<(Origin, ChannelId), ObservedStream>,
}

/// Messages of one sender to one group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ObservedFlow {
    /// Number of them.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When the first came or was published, since the node's start.
    pub first: Duration,
    /// When the last did.
    pub last: Duration,
}

/// Packets of one stream, as they were sent for the first time.
#[derive(Debug, Clone, Copy, Default)]
struct ObservedStream {
    lowest: u64,
    highest: u64,
    came: u64,
}

impl Observed {
    /// Packets of others that were sent between the first and the last of each stream that came, in
    /// parts per million that did not come, except as repairs. 0 if none came.
    #[must_use]
    pub fn loss_ppm(&self) -> u32 {
        let sent = |stream: &ObservedStream| stream.highest - stream.lowest + 1;
        let sent: u64 = self.streams.values().map(sent).sum();
        let came: u64 = self.streams.values().map(|stream| stream.came).sum();
        let missed = u128::from(sent.saturating_sub(came)) * 1_000_000;
        let ppm = missed.checked_div(sent.into()).unwrap_or(0);
        u32::try_from(ppm).unwrap_or(1_000_000)
    }

    pub(crate) fn note_datagram(&mut self, bytes: &[u8]) {
        let Ok(packet) = Packet::open(bytes) else {
            return;
        };
        let Body::Data(data) = &packet.body else {
            return;
        };
        if !packet.header.hop.is_first() {
            return;
        }
        let (key, number) = (
            (packet.header.origin, data.head.channel),
            data.head.sequence,
        );
        let stream = self.streams.entry(key).or_insert(ObservedStream {
            lowest: number,
            highest: number,
            came: 0,
        });
        stream.lowest = stream.lowest.min(number);
        stream.highest = stream.highest.max(number);
        stream.came += 1;
    }

    pub(crate) fn note_event(&mut self, at: Duration, event: &Event) {
        match event {
            Event::RegionView { members, .. } => self.members = self.members.max(*members),
            Event::Excluded => self.exclusions.push(at),
            _ => {}
        }
    }

    pub(crate) fn note_message(
        &mut self,
        at: Duration,
        group: GroupId,
        sender: Origin,
        length: usize,
    ) {
        let flow = self
            .flows
            .entry((group, sender))
            .or_insert_with(|| ObservedFlow {
                first: at,
                ..ObservedFlow::default()
            });
        flow.messages += 1;
        flow.bytes += length as u64;
        flow.last = at;
    }
}
