//! Whose packets are believed, and what is told of those that are not (R-SEC-31).

use qsm_identity::NodePublic;
use qsm_origin::Verifier;
use qsm_wire::Origin;

use super::RegionCx;
use crate::receive::ReceiveStream;
use crate::{Deliver, Event, OriginDemand};

impl RegionCx<'_> {
    /// Tells whether packets of this sender may be taken, and has them judged if its key is known. Where messages wait for
    /// proof, what nobody can prove is not taken: it is asked for when the key has come.
    pub(super) fn is_trusted(&mut self, sender: Origin) -> bool {
        let Some((demand, key)) = self.demanded(sender) else {
            return true;
        };
        let Some(key) = key else {
            let takes = demand == OriginDemand::Audit;
            self.node.stats.discard_untrusted += u64::from(!takes);
            return takes;
        };
        let judged = self
            .region
            .streams
            .get(&sender)
            .is_none_or(ReceiveStream::is_judged);
        if !judged {
            self.demand_proof(sender, demand, key);
        }
        true
    }

    /// Has the packets of a stream that is new judged, if that is demanded.
    pub(super) fn judge_stream(&mut self, sender: Origin) {
        if let Some((demand, Some(key))) = self.demanded(sender) {
            self.demand_proof(sender, demand, key);
        }
    }

    fn demand_proof(&mut self, sender: Origin, demand: OriginDemand, key: NodePublic) {
        let give_up = self.node.config.recovery.give_up;
        let verifier = Verifier::new(self.node.cluster(), self.stream_id(sender), key);
        if let Some(stream) = self.region.streams.get_mut(&sender) {
            stream.demand_proof(demand, verifier, give_up);
        }
    }

    fn demanded(&self, sender: Origin) -> Option<(OriginDemand, Option<NodePublic>)> {
        let proofs = self.node.proofs.as_deref()?;
        Some((proofs.demand, proofs.key_of(sender.node)))
    }

    /// Tells of packets of this sender that it has not made.
    pub(super) fn tell_forged(&mut self, sender: Origin) {
        let (now, region) = (self.node.now, self.region.id());
        let stream = self.region.streams.get_mut(&sender);
        if let Some(forged) = stream.and_then(|stream| stream.take_forged(now)) {
            self.node.events.push(Event::Forged {
                region,
                sender,
                sequence: forged.sequence,
                packets: forged.packets,
            });
        }
    }

    /// Gives up what senders that are dead have not sealed.
    pub(crate) fn give_up_unproven(&mut self, out: &mut dyn Deliver) {
        if self.node.proofs.is_none() {
            return;
        }
        let (now, region) = (self.node.now, &mut *self.region);
        for stream in region.streams.values_mut() {
            if stream.unproven_due() <= now {
                let (backoff, groups) = (&region.backoff, &region.groups);
                let context = &mut self
                    .node
                    .stream_context(backoff, &region.history, groups, out);
                stream.give_up_unproven(context);
            }
        }
    }
}
