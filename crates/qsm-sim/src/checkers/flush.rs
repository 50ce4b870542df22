use std::collections::BTreeMap;

use qsm_proto::receive::ReceiveStream;
use qsm_proto::region::Region;
use qsm_wire::{Origin, RegionId};

use crate::machine::Machine;
use crate::violation::Violation;

/// One receiver of a stream, as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Served<'a> {
    pub(crate) origin: Origin,
    pub(crate) machine: &'a Machine,
    /// It is away, as far as it knows.
    pub(crate) away: bool,
    /// It was in the region and is out of it: it had what was for it.
    pub(crate) left: bool,
}

impl<'a> Served<'a> {
    /// The sender's stream in that region, as this receiver has it.
    fn stream(&self, region: RegionId, sender: Origin) -> Option<&'a ReceiveStream> {
        self.machine.region(region)?.stream(sender)
    }
}

/// Judgement of what senders say of their streams.
#[derive(Debug, Default)]
pub(crate) struct Flush {
    /// Packets up to which receivers had come with streams: a receiver, its region, the sender. A receiver that
    /// takes the sender for dead ends the stream, and lacks nothing of what it had.
    had: BTreeMap<(Origin, RegionId, Origin), u64>,
}

impl Flush {
    /// The receivers of the sender's stream in this region stand there now.
    pub(crate) fn note(&mut self, sender: Origin, region: RegionId, receivers: &[Served<'_>]) {
        for receiver in receivers {
            let stream = receiver.stream(region, sender);
            let has = stream.map_or(0, ReceiveStream::contiguous);
            let key = (receiver.origin, region, sender);
            let had = self.had.entry(key).or_default();
            *had = has.max(*had);
        }
    }

    /// A sender says that everything it has sent is stable, and that is so (R091, R-VIEW-13): every live
    /// receiver in its view has it, and of what receivers that are away lack the sender has every packet,
    /// but for those that it has freed when it kept as much as it may. Receivers that are gone it has
    /// named (R-MEM-14).
    pub(crate) fn check(
        &self,
        sender: Origin,
        region: &Region,
        receivers: &[Served<'_>],
    ) -> Result<(), Violation> {
        let (Some(own), view) = (region.own_stream(), region.view()) else {
            return Ok(());
        };
        for receiver in receivers.iter().filter(|receiver| !receiver.left) {
            let Some(index) = view.index_of(receiver.origin) else {
                continue;
            };
            let Some(member) = view.member(index).filter(|member| !member.leaving()) else {
                continue;
            };
            let there = receiver.machine.region(region.id());
            // One that has left and come back has everything of the stay that the sender knows.
            if there.is_some_and(|region| region.history().joined() > Some(member.joined)) {
                continue;
            }
            let stream = there.and_then(|region| region.stream(sender));
            let has = stream.map_or(0, ReceiveStream::contiguous);
            let has = has.max(own.last_before(member.joined).unwrap_or(0));
            let (live, highest) = (view.is_live(index), own.highest());
            // Who knows nothing of the stream may have joined after all of it was sent.
            if live && stream.is_some() && !receiver.away && has < highest {
                let message = format!(
                    "{sender} takes #{highest} in region {} for stable, but {} has only #{has}",
                    region.id(),
                    receiver.origin
                );
                return Err(Violation::new("flush", message));
            }
            let had = self.had.get(&(receiver.origin, region.id(), sender));
            let has = has.max(had.copied().unwrap_or(0));
            let mut owed = has.max(own.overrun()) + 1..=highest;
            let freed = owed.find(|at| own.packet(*at).is_none());
            if let Some(sequence) = freed.filter(|_| !live || receiver.away) {
                let message = format!(
                    "{sender} has let #{sequence} in region {} go, which {} lacks, that is away",
                    region.id(),
                    receiver.origin
                );
                return Err(Violation::new("flush", message));
            }
        }
        Ok(())
    }
}
