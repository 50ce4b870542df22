//! Proof of a stream's packets by the seals in it (R-SEC-31 to R-SEC-33).
//!
//! ```text
//!   delivered ≤ proven ≤ contiguous      where messages wait for proof
//!       5          7          11         8 to 11 are here, and wait for a seal
//! ```
//!
//! What waits lies in the node's memory for received packets, as what waits for a gap does, and is not acknowledged: so
//! its sender keeps it, and a forged packet that took its place can be asked for again.

use core::time::Duration;
use std::collections::VecDeque;
use std::net::SocketAddr;

use qsm_origin::{Finding, PACKETS_MAX, SEAL_GROUP, Seal, Verdict, Verifier};
use qsm_wire::{Data, Heartbeat, Opening};

use super::rights::Bars;
use super::{PacketState, ReceiveStream, opening_of};
use crate::receive::{Incoming, PacketStore, StreamContext};
use crate::{Instant, OriginDemand};

/// Shortest time between two words on forged packets of one stream.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// Time in which seals that prove nothing are counted.
const FALSE_SEALS_TIME: Duration = Duration::from_millis(100);
/// Packets of one stream of which it is remembered where they came from; the oldest make room. More than a usual seal is for.
const SOURCES_MAX: usize = 128;
/// Time after which a packet that is its sender's would be one of those that the sender speaks of.
const DOUBTED_FOR: Duration = Duration::from_secs(1);
/// Seals of one stream that may prove nothing in that time: each costs a verification. Those that come beyond are dropped,
/// and asked for again.
const FALSE_SEALS_MAX: u32 = 64;

/// Knowledge of a stream's origin.
#[derive(Debug)]
pub(super) struct StreamProof {
    demand: OriginDemand,
    verifier: Verifier,
    /// Everything up to here is judged, or given up.
    proven: u64,
    /// Time that is waited for a seal that may not come any more.
    give_up: Duration,
    /// Where the stream begins for this node is known by a proof or by word of who knows.
    begun: bool,
    /// The view of the last seal, and where it begins in the stream: the sender has signed that.
    opening: Option<Opening>,
    /// Number up to which the stream goes by the word of the sender itself.
    vouched: u64,
    /// When a packet or another's word last made the stream longer, or it was asked where that begins.
    doubted: Instant,
    findings: Vec<Finding>,
    forged: ForgedLog,
    pub(super) bars: Bars,
}

/// Forged packets that have yet to be told.
#[derive(Debug, Default)]
struct ForgedLog {
    packets: u64,
    sequence: u64,
    /// Where that one came from.
    source: Option<SocketAddr>,
    /// Where the latest packets came from.
    sources: VecDeque<(u64, SocketAddr)>,
    next_word: Instant,
    false_seals: u32,
    false_until: Instant,
}

/// Forged packets of a stream, found since the last word on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ForgedPackets {
    /// Number of one of them.
    pub(crate) sequence: u64,
    pub(crate) packets: u64,
    /// Where that one came from; `None`: that is not known any more.
    pub(crate) source: Option<SocketAddr>,
}

impl StreamProof {
    fn waits_for_proof(&self) -> bool {
        self.demand == OriginDemand::Verified
    }

    fn holds(&self, sequence: u64) -> bool {
        let settled = self.begun && (sequence <= self.proven || self.is_settled(sequence));
        self.waits_for_proof() && !settled
    }

    /// Tells whether nothing more will be known of this packet by seals.
    fn is_settled(&self, sequence: u64) -> bool {
        self.verifier.is_proven(sequence) || self.verifier.is_unsealed(sequence)
    }

    /// The packet says it is a seal, and too many have said so falsely.
    fn refuses(&self, now: Instant, datagram: &[u8]) -> bool {
        let many = self.forged.false_seals >= FALSE_SEALS_MAX && now < self.forged.false_until;
        many && !matches!(Seal::read(datagram), Ok(None))
    }
}

impl ForgedLog {
    /// This packet, which has just come, is forged.
    fn note_latest(&mut self, sequence: u64) {
        let from = self.sources.iter().rfind(|one| one.0 == sequence);
        self.note(sequence, from.copied());
    }

    /// This packet is forged, which was the first to come of several with its number.
    fn note_first(&mut self, sequence: u64) {
        let from = self.sources.iter().find(|one| one.0 == sequence);
        self.note(sequence, from.copied());
    }

    fn note(&mut self, sequence: u64, from: Option<(u64, SocketAddr)>) {
        self.packets += 1;
        self.sequence = sequence;
        self.source = from.map(|(_, address)| address);
    }

    fn note_source(&mut self, sequence: u64, from: SocketAddr) {
        if self.sources.len() >= SOURCES_MAX {
            self.sources.pop_front();
        }
        self.sources.push_back((sequence, from));
    }

    fn note_false_seal(&mut self, now: Instant) {
        if now >= self.false_until {
            self.false_until = now.after(FALSE_SEALS_TIME);
            self.false_seals = 0;
        }
        self.false_seals += 1;
    }
}

fn is_seal(data: &Data<'_>) -> bool {
    let first = data.chunks().next();
    first.is_some_and(|chunk| chunk.group == SEAL_GROUP)
}

impl ReceiveStream {
    /// Packets behind the first gap are judged from now on.
    pub(crate) fn demand_proof(
        &mut self,
        now: Instant,
        demand: OriginDemand,
        mut verifier: Verifier,
        give_up: Duration,
    ) {
        verifier.forget_upto(self.contiguous);
        self.proof = Some(Box::new(StreamProof {
            demand,
            verifier,
            proven: self.contiguous,
            give_up,
            begun: true,
            opening: None,
            vouched: 0,
            doubted: now,
            findings: Vec::new(),
            forged: ForgedLog::default(),
            bars: Bars::default(),
        }));
    }

    /// Something else is demanded of packets that are judged; `None`: they are judged no more.
    pub(crate) fn change_demand(&mut self, now: Instant, demand: Option<OriginDemand>) {
        match (&mut self.proof, demand) {
            (Some(proof), Some(demand)) => {
                // What did not have to wait has been acknowledged.
                if !proof.waits_for_proof() {
                    proof.proven = proof.proven.max(self.contiguous);
                }
                proof.demand = demand;
                proof.begun |= !proof.waits_for_proof();
            }
            (proof, _) => *proof = None,
        }
        self.go_on(now);
    }

    /// A packet that may be forged has said where the stream begins for this node. Nothing is delivered or acknowledged
    /// until that is known for certain. Rule R-SEC-32.
    pub(crate) fn doubt_beginning(&mut self) {
        if let Some(proof) = &mut self.proof {
            proof.begun = !proof.waits_for_proof();
        }
    }

    /// Tells whether it is known where the stream begins for this node.
    pub(crate) fn has_begun(&self) -> bool {
        self.proof.as_ref().is_none_or(|proof| proof.begun)
    }

    /// The stream begins for this node where it was taken to.
    pub(crate) fn begin(&mut self, now: Instant) {
        if let Some(proof) = &mut self.proof {
            proof.begun = true;
            self.resume_walks(now);
            self.go_on(now);
        }
    }

    /// The view of the last seal that has come, and where its sender has signed that this view begins.
    pub(crate) fn proven_opening(&self) -> Option<Opening> {
        self.proof.as_ref()?.opening
    }

    /// A packet has come from here.
    pub(crate) fn note_source(&mut self, sequence: u64, from: SocketAddr) {
        if let Some(proof) = &mut self.proof {
            proof.forged.note_source(sequence, from);
        }
    }

    /// Tells whether packets wait for their proof.
    pub(crate) fn waits_for_proof(&self) -> bool {
        let proof = self.proof.as_ref();
        proof.is_some_and(|proof| proof.waits_for_proof())
    }

    /// Tells whether packets are judged.
    pub(crate) fn is_judged(&self) -> bool {
        self.proof.is_some()
    }

    /// Up to where packets may be delivered.
    #[inline]
    pub(super) fn deliverable(&self) -> u64 {
        self.contiguous.min(self.proven_upto())
    }

    /// Up to where nothing waits for proof; what comes behind is not acknowledged. Rule R-SEC-32.
    #[inline]
    pub(super) fn proven_upto(&self) -> u64 {
        let proof = self.proof.as_ref().filter(|proof| proof.waits_for_proof());
        proof.map_or(u64::MAX, |proof| proof.proven)
    }

    /// The same as it is said to others: nothing where it is not certain where the stream begins.
    pub(super) fn reported_upto(&self) -> u64 {
        match self.has_begun() {
            true => self.proven_upto(),
            false => 0,
        }
    }

    /// The highest number that this node knows by what has come. What is behind the last seal may be forged: where packets
    /// wait for proof nothing is said of it to others, who would ask the sender for what it has not sent, unless the sender
    /// itself speaks of it: the seal may have been lost. What others say, who may have been deceived, is not passed on.
    #[inline]
    pub(super) fn claimed(&self) -> u64 {
        let proof = self.proof.as_ref().filter(|proof| proof.waits_for_proof());
        proof.map_or(self.highest, |proof| {
            let told = proof.verifier.sealed_upto().max(proof.vouched);
            self.highest.min(told.max(self.reported_upto()))
        })
    }

    /// The same, with what others say. A seal that has been lost here may be known to them alone, and they count on what is
    /// kept here for it.
    pub(super) fn spoken_of(&self) -> u64 {
        self.claimed().max(self.highest.min(self.announced))
    }

    /// Highest number that exists, as this node says it to others: where packets wait for proof nothing by hearsay.
    pub(crate) fn told_upto(&self) -> u64 {
        match self.waits_for_proof() {
            true => self.sent(),
            false => self.known_upto(),
        }
    }

    /// The sender itself says that it has sent so many.
    pub(crate) fn vouch(&mut self, highest: u64) {
        if let Some(proof) = &mut self.proof {
            proof.vouched = proof.vouched.max(highest);
        }
    }

    /// Others say for the first time that the stream goes as far as this, or are asked.
    pub(crate) fn note_hearsay(&mut self, now: Instant) {
        if let Some(proof) = &mut self.proof {
            proof.doubted = now;
        }
    }

    /// Where, at the farthest, a seal is by which delivery goes on; 0: nothing waits for one.
    pub(super) fn next_seal_within(&self) -> u64 {
        let proof = self.proof.as_ref().filter(|proof| proof.waits_for_proof());
        proof.map_or(0, |proof| proof.proven + 1 + PACKETS_MAX as u64)
    }

    /// Tells whether nothing but a packet that may be forged says that the sender has sent so many.
    pub(super) fn is_doubtful(&self, sequence: u64) -> bool {
        sequence > self.claimed()
    }

    /// The sender itself says that it has sent so many, and, if it has finished, that there are no more. Numbers above
    /// that, which only packets without proof and others speak of, are forgotten with these once none has made the stream
    /// longer for a while: what is on its way behind this word would be missing again by its seal. Rule R-SEC-32.
    pub(crate) fn forget_unsent(
        &mut self,
        now: Instant,
        word: &Heartbeat<'_>,
        store: &mut PacketStore,
    ) {
        let proof = self.proof.as_ref().filter(|proof| proof.waits_for_proof());
        let long =
            proof.is_some_and(|proof| word.finished || now.since(proof.doubted) >= DOUBTED_FOR);
        let known = word.highest.max(self.claimed()).max(self.contiguous());
        if !long || self.highest.max(self.announced) <= known {
            return;
        }
        self.announced = self.announced.min(known);
        while self.highest > known {
            match self.slots.back() {
                Some(PacketState::Kept(place)) => store.free(*place),
                Some(PacketState::Missing) => {}
                _ => break,
            }
            self.slots.pop_back();
            self.highest -= 1;
        }
        let highest = self.highest;
        self.gaps.forget_from(highest + 1);
        self.contiguous = self.gaps.first().map_or(highest, |first| first - 1);
        self.arrived = self.arrived.min(highest);
        self.copied = self.copied.min(highest);
        if let Some(proof) = &mut self.proof {
            proof.verifier.forget_above(highest);
        }
        self.refresh_due();
    }

    /// Tells whether a packet that is here waits for its proof.
    #[inline]
    pub(super) fn is_unproven(&self, sequence: u64) -> bool {
        let proof = self.proof.as_ref();
        proof.is_some_and(|proof| proof.holds(sequence))
    }

    /// Tells whether this packet is kept, and waits for no proof.
    pub(crate) fn has(&self, sequence: u64, store: &PacketStore) -> bool {
        self.packet(sequence, store).is_some() && !self.is_unproven(sequence)
    }

    /// Number of a seal for this packet that is kept.
    pub(crate) fn kept_seal_for(&self, sequence: u64, store: &PacketStore) -> Option<u64> {
        let mut behind = sequence..=sequence + PACKETS_MAX as u64;
        behind.find(|number| {
            let packet = self.packet(*number, store);
            let seal = packet.and_then(|packet| Seal::read(packet).ok().flatten());
            seal.is_some_and(|seal| seal.is_for(sequence))
        })
    }

    /// Judges a packet, and by it those that came before it, if it is a seal. Returns whether it may be taken. Rule
    /// R-SEC-31.
    pub(super) fn judge(
        &mut self,
        incoming: &Incoming<'_>,
        context: &mut StreamContext<'_>,
    ) -> bool {
        let Some(mut proof) = self.proof.take() else {
            return true;
        };
        let (now, datagram) = (context.now, incoming.datagram.bytes());
        let sequence = incoming.data.head.sequence;
        let mut findings = core::mem::take(&mut proof.findings);
        let mut verdict = match proof.refuses(now, datagram) {
            true => Verdict::Beyond,
            false => proof.verifier.take(datagram, &mut findings),
        };
        // There was no room for the other one, which may have been the forged one.
        if verdict == Verdict::Contradicts && self.misses(sequence) {
            proof.verifier.forget(sequence);
            verdict = proof.verifier.take(datagram, &mut findings);
        }
        let stats = &mut context.delivery.stats;
        let takes = match verdict {
            Verdict::Proven | Verdict::Waits | Verdict::Unsealed | Verdict::Past => true,
            Verdict::Beyond if !proof.waits_for_proof() => true,
            Verdict::Beyond | Verdict::Foreign => {
                stats.discard_ahead += 1;
                false
            }
            Verdict::Contradicts => {
                stats.duplicates += 1;
                false
            }
            Verdict::Forged => {
                if !matches!(Seal::read(datagram), Ok(None)) {
                    proof.forged.note_false_seal(now);
                }
                proof.forged.note_latest(sequence);
                stats.packets_forged += 1;
                false
            }
        };
        if takes && sequence > self.highest {
            proof.doubted = now;
        }
        let signed = verdict == Verdict::Proven && is_seal(incoming.data);
        let opening = opening_of(&incoming.data.head).filter(|_| signed);
        proof.opening = opening.or(proof.opening);
        self.proof = Some(proof);
        if let Some(opening) = opening {
            self.note_opening(opening);
        }
        if !findings.is_empty() {
            self.apply(&findings, context);
            findings.clear();
        }
        if let Some(proof) = &mut self.proof {
            proof.findings = findings;
        }
        takes
    }

    /// A seal has come for packets that are here.
    fn apply(&mut self, findings: &[Finding], context: &mut StreamContext<'_>) {
        let forged = findings.iter().filter(|one| one.verdict == Verdict::Forged);
        for sequence in forged.map(|one| one.sequence) {
            context.delivery.stats.packets_forged += 1;
            if let Some(proof) = &mut self.proof {
                proof.forged.note_first(sequence);
            }
            self.reopen(sequence, context);
        }
        let proven = findings.iter().find(|one| one.verdict == Verdict::Proven);
        if let Some(first) = proven {
            self.walk_again(first.sequence);
        }
        self.judge_again(context);
    }

    /// A seal has come, or something is given up: what is proven or never will be may go on.
    pub(super) fn judge_again(&mut self, context: &mut StreamContext<'_>) {
        self.settle(context);
        self.resume_walks(context.now);
        if self.delivered < self.deliverable() {
            self.go_on(context.now);
        }
    }

    /// A packet is not its sender's: it is missing again, if that helps.
    fn reopen(&mut self, sequence: u64, context: &mut StreamContext<'_>) {
        let waits = self.proven_upto() < sequence && sequence > self.delivered;
        let PacketState::Kept(place) = self.slot(sequence) else {
            return;
        };
        if !waits || self.gaps.is_full() {
            return;
        }
        context.store.free(place);
        self.set(sequence, PacketState::Missing);
        let due = context.first_request();
        self.gaps.reopen(sequence, context.now, due);
        self.due = self.due.min(due);
        context.delivery.stats.gaps += 1;
        self.contiguous = self.gaps.first().map_or(self.highest, |first| first - 1);
    }

    /// Goes on over what is proven or given up. Of what is here, what has no proof although every seal behind it is here
    /// gets none: it is lost.
    pub(crate) fn settle(&mut self, context: &mut StreamContext<'_>) {
        while let Some(proof) = &mut self.proof
            && (proof.begun || !proof.waits_for_proof())
            && proof.proven < self.contiguous
        {
            let next = proof.proven + 1;
            let (waits, verified) = (proof.verifier.waits(next), proof.waits_for_proof());
            let settled = proof.is_settled(next);
            let in_vain = waits && proof.verifier.is_sealed_within(next, self.contiguous);
            let given_up = self.lookup(next).is_some_and(PacketState::is_given_up);
            match (settled || given_up, verified) {
                (true, _) => {}
                (false, true) if in_vain => self.lose_unproven(next, context),
                (false, true) if waits => break,
                // It was forged, and there was no room for a gap.
                (false, true) => {
                    self.reopen(next, context);
                    break;
                }
                (false, false) if waits && !in_vain => break,
                (false, false) => {}
            }
            if let Some(proof) = &mut self.proof {
                proof.proven = next;
            }
        }
        let delivered = self.delivered;
        if let Some(proof) = &mut self.proof {
            proof.verifier.forget_upto(proof.proven.min(delivered));
        }
    }

    /// This packet is here and will not be proven.
    fn lose_unproven(&mut self, sequence: u64, context: &mut StreamContext<'_>) {
        if let PacketState::Kept(place) = self.slot(sequence) {
            context.store.free(place);
        }
        self.set(sequence, PacketState::Lost);
        self.note_given_up(sequence, sequence);
        context.delivery.stats.packets_lost += 1;
        context.delivery.stats.packets_unproven += 1;
    }

    /// When what is here and has no proof is given up, since its seal does not come, or is asked where the stream begins;
    /// [`Instant::NEVER`]: nothing waits so. Rules R-SEC-32, R-SEC-33.
    #[must_use]
    pub fn unproven_due(&self) -> Instant {
        let proof = self.proof.as_ref().filter(|proof| proof.waits_for_proof());
        let Some(proof) = proof else {
            return Instant::NEVER;
        };
        let waits = proof.proven < self.contiguous;
        if waits && self.is_final() {
            self.sender.died.after(proof.give_up)
        } else if !proof.begun || waits && self.is_gone() {
            proof.doubted.after(proof.give_up)
        } else {
            Instant::NEVER
        }
    }

    /// Tells whether the sender has nothing any more of all that is known of its stream, by its own word, and all of that has
    /// arrived or is lost. What it has freed those that it waited for have proven: no seal for it is to come.
    fn is_gone(&self) -> bool {
        self.gone_upto >= self.highest && self.gaps.is_empty() && !self.behind()
    }

    /// Tells whether delivery may go on by what has been proven or given up since it was tried last.
    #[cold]
    pub(super) fn may_settle(&self) -> bool {
        let proof = self.proof.as_ref();
        let proof = proof.filter(|proof| proof.waits_for_proof() && proof.begun);
        proof.is_some_and(|proof| {
            let next = proof.proven + 1;
            next <= self.contiguous && (proof.is_settled(next) || self.slot(next).is_given_up())
        })
    }

    /// Gives up what a sender that is dead has not sealed, or of which it has the seal no more. Rule R-SEC-33.
    pub(crate) fn give_up_unproven(&mut self, context: &mut StreamContext<'_>) {
        self.begin(context.now);
        self.settle(context);
        let upto = self.contiguous;
        while let Some(proof) = &self.proof
            && proof.proven < upto
        {
            let next = proof.proven + 1;
            let settled = proof.is_settled(next);
            if !settled && !self.slot(next).is_given_up() {
                self.lose_unproven(next, context);
            }
            if let Some(proof) = &mut self.proof {
                proof.proven = next;
            }
        }
        self.go_on(context.now);
    }

    /// Forged packets that are to be told now.
    pub(crate) fn take_forged(&mut self, now: Instant) -> Option<ForgedPackets> {
        let log = &mut self.proof.as_mut()?.forged;
        if log.packets == 0 || now < log.next_word {
            return None;
        }
        log.next_word = now.after(TELL_EVERY);
        Some(ForgedPackets {
            sequence: log.sequence,
            packets: core::mem::take(&mut log.packets),
            source: log.source,
        })
    }

    /// Nothing of the stream is here any more.
    pub(super) fn forget_proofs(&mut self) {
        if let Some(proof) = &mut self.proof {
            proof.proven = self.highest;
            proof.verifier.forget_upto(self.highest);
        }
    }
}
