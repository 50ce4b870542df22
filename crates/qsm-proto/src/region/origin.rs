//! Proof of origin in a region: whose packets are believed, and what is told of those that are not (R-SEC-31, R-SEC-34).
//!
//! ```text
//!   service ── Proof: verified ──────► whoever sends to the region: seals
//!           ── Signers: a, b ────────► its members: judge what comes in the names of a and b, and take nothing of others
//! ```
//!
//! Signing and verifying are functions of bytes and keys, so they are done where packets are numbered and taken, by the
//! types of `qsm-origin`: work that were given out to the runtime would have to come back in order before anything else
//! could be done.

use std::sync::Arc;

use qsm_identity::NodeKey;
use qsm_origin::Verifier;
use qsm_wire::membership::{OriginDemand, Signer};
use qsm_wire::{Heartbeat, Origin, StreamId, ViewNumber};

use super::{Region, RegionCx};
use crate::node::NodeState;
use crate::receive::ReceiveStream;
use crate::signers::{Publisher, RegionProof};
use crate::{Deliver, Event};

impl Region {
    /// Takes what is demanded of those who send here; `None`: nothing. Rule R-SEC-34.
    pub(crate) fn set_proof(&mut self, node: &NodeState, demand: Option<OriginDemand>) {
        if self.origin_demand() == demand {
            return;
        }
        self.proof = demand.map(|demand| {
            let former = self.proof.take();
            Box::new(RegionProof::new(demand, former.map(|former| *former)))
        });
        for stream in self.streams.values_mut() {
            stream.change_demand(node.now, demand);
        }
        self.judge_streams(node);
        let key = self.signing_key(node);
        if let Some(sender) = &mut self.sender {
            sender.seal_by(node.now, key);
        }
    }

    /// Takes the keys of those who publish here. Rule R-SEC-34.
    pub(crate) fn take_signers(&mut self, node: &NodeState, told: &[Signer]) {
        let Some(proof) = &mut self.proof else {
            return;
        };
        proof.take(told);
        for (sender, stream) in &mut self.streams {
            if let Some(known) = proof.get(sender.node) {
                stream.bar(Arc::clone(&known.barred));
            }
        }
        self.judge_streams(node);
    }

    /// The proof that is demanded of senders; `None`: none.
    #[must_use]
    pub fn origin_demand(&self) -> Option<OriginDemand> {
        self.proof.as_ref().map(|proof| proof.demand())
    }

    /// Tells whether packets of others wait for their proof.
    #[must_use]
    pub(crate) fn waits_for_proof(&self) -> bool {
        self.origin_demand() == Some(OriginDemand::Verified)
    }

    /// The key by which this node signs what it sends here, if it has to.
    pub(super) fn signing_key(&self, node: &NodeState) -> Option<Arc<NodeKey>> {
        node.signing_key.clone().filter(|_| self.proof.is_some())
    }

    /// Has the packets of streams judged whose senders' keys are known.
    fn judge_streams(&mut self, node: &NodeState) {
        let fresh = self.streams.iter().filter(|(_, one)| !one.is_judged());
        let fresh: Vec<Origin> = fresh.map(|(sender, _)| *sender).collect();
        for sender in fresh {
            self.judge_stream(node, sender);
        }
    }

    /// Has the packets of a stream judged, if that is demanded and its sender's key is known. Returns whether they are.
    pub(super) fn judge_stream(&mut self, node: &NodeState, sender: Origin) -> bool {
        let channel = self.channel();
        let Some((demand, publisher)) = self.publisher(sender) else {
            return false;
        };
        let (key, barred) = (publisher.key, Arc::clone(&publisher.barred));
        let stream = StreamId {
            origin: sender,
            channel,
        };
        let (cluster, give_up) = (node.cluster(), node.config.recovery.give_up);
        if let Some(known) = self.streams.get_mut(&sender)
            && !known.is_judged()
        {
            let verifier = Verifier::new(cluster, stream, key);
            known.demand_proof(node.now, demand, verifier, give_up);
            known.bar(barred);
        }
        true
    }

    fn publisher(&self, sender: Origin) -> Option<(OriginDemand, &Publisher)> {
        let proof = self.proof.as_deref()?;
        Some((proof.demand(), proof.get(sender.node)?))
    }
}

impl RegionCx<'_> {
    /// Tells whether packets of this sender may be taken. Where messages wait for proof, what nobody can prove is not: it
    /// is asked for when the key has come.
    pub(super) fn is_trusted(&mut self, sender: Origin) -> bool {
        let stream = self.region.streams.get(&sender);
        if stream.is_some_and(ReceiveStream::is_judged) || self.region.publisher(sender).is_some() {
            return true;
        }
        let takes = !self.region.waits_for_proof();
        self.node.stats.discard_untrusted += u64::from(!takes);
        takes
    }

    /// A seal says where a stream begins that a packet without proof has begun. Rule R-SEC-32.
    pub(super) fn begin_by_seal(&mut self, sender: Origin) {
        let joined = self.region.history.joined();
        let Some(stream) = self.region.streams.get(&sender) else {
            return;
        };
        if stream.has_begun() {
            return;
        }
        match stream.proven_opening() {
            Some(opening) if Some(opening.view) == joined || opening.start == 1 => {
                self.begin_at(sender, opening.start);
            }
            Some(opening) if Some(opening.view) > joined => {
                self.place_unknown(sender);
            }
            _ => {}
        }
    }

    /// Takes the word of who knows where a stream begins.
    pub(super) fn begin_by_word(&mut self, beat: &Heartbeat<'_>) {
        let sender = beat.stream.origin;
        let joined = self.region.history.joined();
        let Some(stream) = self.region.streams.get(&sender) else {
            return;
        };
        let Some(start) = self.region.start_of(beat.openings()) else {
            return;
        };
        if !stream.has_begun() {
            // Older views that were left out begin before.
            let start = match joined.is_some_and(|joined| reaches_back(beat, joined)) {
                true => start,
                false => start.min(stream.start()),
            };
            self.begin_at(sender, start);
        }
    }

    /// A stream begins at this packet, wherever a packet without proof has begun it: nothing of it has been delivered.
    fn begin_at(&mut self, sender: Origin, start: u64) {
        let node = &mut *self.node;
        let Some(stream) = self.region.streams.get_mut(&sender) else {
            return;
        };
        if stream.start() == start {
            stream.begin(node.now);
            return;
        }
        let (known, address) = (stream.known_upto(), stream.sender_address());
        stream.release(&mut node.store);
        self.region.streams.remove(&sender);
        node.streams -= 1;
        self.add_stream(sender, start);
        let now = self.node.now;
        if let Some(stream) = self.region.streams.get_mut(&sender) {
            address
                .into_iter()
                .for_each(|from| stream.heard_from(now, from));
            stream.announce(now, known);
        }
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
                source: forged.source,
            });
        }
    }

    /// Tells of messages of this sender to groups to which it may not publish. Rule R-SEC-36.
    pub(super) fn tell_barred(&mut self, sender: Origin) {
        let (now, region) = (self.node.now, self.region.id());
        let stream = self.region.streams.get_mut(&sender);
        if let Some((group, messages)) = stream.and_then(|stream| stream.take_barred(now)) {
            self.node.events.push(Event::NotPermitted {
                region,
                sender,
                group,
                messages,
            });
        }
    }

    /// Gives up what no seal will come for any more, and asks where streams begin that a packet without proof has begun.
    pub(crate) fn give_up_unproven(&mut self, out: &mut dyn Deliver) {
        if self.region.proof.is_none() {
            return;
        }
        let mut unplaced = Vec::new();
        let (now, region) = (self.node.now, &mut *self.region);
        for (sender, stream) in &mut region.streams {
            if stream.unproven_due() > now {
                continue;
            }
            if stream.has_begun() || stream.sender_dead() {
                let (backoff, groups) = (&region.backoff, &region.groups);
                let context = &mut self
                    .node
                    .stream_context(backoff, &region.history, groups, out);
                stream.give_up_unproven(context);
            } else {
                stream.note_hearsay(now);
                unplaced.push(*sender);
            }
        }
        unplaced
            .into_iter()
            .for_each(|sender| self.place_unknown(sender));
    }
}

/// Tells whether a word on a stream names a view that is no newer than this one, or where the stream itself begins. Of the
/// views behind that the sender leaves out those that begin where the next one does.
fn reaches_back(beat: &Heartbeat<'_>, view: ViewNumber) -> bool {
    let oldest = beat.openings().last();
    oldest.is_some_and(|opening| opening.view <= view || opening.start == 1)
}
