//! Messages of a group that several attached processes want, and nobody else: the queues are offered those
//! of a packet together. What a further reader costs is then a reference for each packet, and not a look
//! at each message.

use qsm_proto::Run;
use qsm_wire::GroupId;

use super::{Routes, index, lend};
use crate::handoff::sink::{Offers, Sink};

/// Messages of a packet for which there is room at once.
const RUN_MESSAGES: usize = 32;

impl Routes {
    /// Several queues want the group, and nobody else.
    pub(super) fn is_shared(&self, group: GroupId) -> bool {
        let Some(Some(bound)) = self.table.get(index(group)) else {
            return false;
        };
        let foreign = |place: &usize| {
            let subscriber = self.subscribers[*place].as_ref();
            subscriber.is_some_and(|one| matches!(one.sink, Sink::Foreign(_)))
        };
        let places = &bound.audience.ordered;
        places.len() > 1 && places.iter().all(foreign)
    }

    /// Hands the messages of a run to each queue at once.
    pub(super) fn deliver_shared(&mut self, run: &mut Run<'_, '_>) {
        let Some(Some(bound)) = self.table.get(index(run.group())) else {
            return;
        };
        let mut messages = Vec::with_capacity(RUN_MESSAGES);
        for message in run {
            match self.relayed.takes(bound.relayed, message.bytes) {
                true => messages.push(lend(bound, message)),
                false => self.stats.relayed_again += 1,
            }
        }
        let first = self.deliveries + 1;
        self.deliveries += messages.len() as u64;
        for place in &bound.audience.ordered {
            let Some(subscriber) = &mut self.subscribers[*place] else {
                continue;
            };
            let Sink::Foreign(queue) = &mut subscriber.sink else {
                continue;
            };
            let offers = queue.offer_run(first, &messages);
            self.stats.slow_consumer_drops += offers.dropped;
            self.stats.messages_queued += offers.kept;
            // Readers are to hear of what was dropped, too.
            if offers != Offers::default() && !subscriber.touched {
                subscriber.touched = true;
                self.touched.push(*place);
            }
        }
    }
}
