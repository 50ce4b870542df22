//! The receiver's side: which packets were made by whom they name.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use qsm_identity::NodePublic;
use qsm_wire::{Data, StreamId, cluster_of, origin_of};

use crate::batch::Batch;
use crate::digest::Digest;
use crate::seal::{ProvenSeal, Seal};

/// Most packets of a stream that a verifier has digests of: those above what it was told to forget. 17 bytes each.
pub const WINDOW_PACKETS: usize = 8192;

/// Judgement of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is as its maker made it.
    Proven,
    /// Its seal has not come. It was the first with its number.
    Waits,
    /// It is not what the maker of the stream sent with this number, or says it is a seal and is none. It leaves no
    /// trace, so that the right one is taken when it comes.
    Forged,
    /// Another one with this number waits for its seal: one of them at least is forged. This one is not kept.
    Contradicts,
    /// Its maker had not begun to seal, or had stopped: nobody can say whose it is.
    Unsealed,
    /// It is not above what was forgotten.
    Past,
    /// It is too far ahead of what was forgotten, and not kept.
    Beyond,
    /// It is not of this stream.
    Foreign,
}

/// A judgement that had to wait for a seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    /// Number of the packet.
    pub sequence: u64,
    /// [`Verdict::Proven`] or [`Verdict::Forged`].
    pub verdict: Verdict,
}

#[derive(Debug, Clone, Copy)]
enum Slot {
    Unknown,
    /// It has come, and no seal of it, and waits in the batch for its digest.
    Waits,
    /// It has come, and no seal of it.
    Arrived(Digest),
    /// A seal of it has come, and it has not, or only forged.
    Told(Digest),
    /// The next seal says that it is a seal, which has not come.
    Seal,
    Proven(Digest),
}

/// Judges the packets of one stream by its seals, in whatever order they come.
///
/// Where a sender signs two digests for one number, the first counts. A seal is for all packets since the one before it,
/// so what comes in the place of a seal that is lost is found by the next one.
///
/// Of what waits for a seal it has copies, 16 packets at most: they are digested together.
#[derive(Debug)]
pub struct Verifier {
    cluster: u32,
    stream: StreamId,
    key: NodePublic,
    /// Up to here all is forgotten.
    base: u64,
    /// Those of `base + 1` and above.
    slots: VecDeque<Slot>,
    /// Packets that have come and have no digest yet, and their numbers.
    batch: Batch,
    batched: Vec<u64>,
    /// Seals among them.
    seals: BTreeSet<u64>,
    /// By the last packet of packets that no seal is for, the first one.
    unsealed: BTreeMap<u64, u64>,
    /// The last seal of all that were proven.
    last_seal: u64,
}

impl Verifier {
    /// A verifier of a stream in the cluster with this number, whose sender has this key.
    #[must_use]
    pub fn new(cluster: u32, stream: StreamId, key: NodePublic) -> Self {
        Self {
            cluster,
            stream,
            key,
            base: 0,
            slots: VecDeque::new(),
            batch: Batch::default(),
            batched: Vec::new(),
            seals: BTreeSet::new(),
            unsealed: BTreeMap::new(),
            last_seal: 0,
        }
    }

    /// Judges a packet. What a seal says of those that came before it is appended to the findings, in order, at most
    /// 256 for each seal.
    pub fn take(&mut self, datagram: &[u8], findings: &mut Vec<Finding>) -> Verdict {
        let own = cluster_of(datagram) == Some(self.cluster)
            && origin_of(datagram) == Some(self.stream.origin);
        let data = Data::read_again(datagram).filter(|_| own);
        let Some(data) = data.filter(|data| data.head.channel == self.stream.channel) else {
            return Verdict::Foreign;
        };
        let sequence = data.head.sequence;
        if sequence <= self.base {
            return Verdict::Past;
        }
        let Some(at) = self.place(sequence) else {
            return Verdict::Beyond;
        };
        if self.is_unsealed(sequence) {
            return Verdict::Unsealed;
        }
        // Known already: a signature is verified once.
        if let Some(Slot::Proven(digest)) = self.slots.get(at) {
            return judge(*digest == Digest::of(datagram));
        }
        match Seal::read(datagram) {
            Ok(None) => self.note(at, sequence, datagram),
            Ok(Some(seal)) => match seal.prove(&self.key) {
                Ok(seal) => {
                    let own = self.digest_with(datagram);
                    self.tell(&seal, own, findings)
                }
                Err(_) => Verdict::Forged,
            },
            Err(_) => Verdict::Forged,
        }
    }

    /// Tells whether the packet with this number has come and is its sender's. Nothing is said of what is forgotten.
    #[must_use]
    pub fn is_proven(&self, sequence: u64) -> bool {
        let at = self.place(sequence);
        let slot = at.and_then(|at| self.slots.get(at));
        matches!(slot, Some(Slot::Proven(_)))
    }

    /// Tells whether the packet with this number has come and has no proof yet.
    #[must_use]
    pub fn waits(&self, sequence: u64) -> bool {
        let at = self.place(sequence);
        let slot = at.and_then(|at| self.slots.get(at));
        matches!(slot, Some(Slot::Waits | Slot::Arrived(_))) && !self.is_unsealed(sequence)
    }

    /// Tells whether the packet with this number was sent while its maker did not seal, by a seal with which it began.
    #[must_use]
    pub fn is_unsealed(&self, sequence: u64) -> bool {
        let mut behind = self.unsealed.range(sequence..);
        behind.next().is_some_and(|(_, first)| *first <= sequence)
    }

    /// Number of the last packet that is known to be its sender's, by the seals that have come: the sender has sent so many
    /// at least. 0 before the first seal.
    #[must_use]
    pub fn sealed_upto(&self) -> u64 {
        self.last_seal
    }

    /// Tells whether a seal with a number above `after`, up to `upto`, is proven. What comes before it and has no proof
    /// gets none any more, if everything up to `upto` has come: so has every seal.
    #[must_use]
    pub fn is_sealed_within(&self, after: u64, upto: u64) -> bool {
        let above = after.saturating_add(1);
        above <= upto && self.seals.range(above..=upto).next().is_some()
    }

    /// Packets that wait for a seal, ascending: what is not proven when none can come any more.
    pub fn unproven(&self) -> impl Iterator<Item = u64> + '_ {
        let numbered = (self.base.saturating_add(1)..).zip(&self.slots);
        let arrived = numbered.filter(|(_, slot)| matches!(slot, Slot::Waits | Slot::Arrived(_)));
        let arrived = arrived.map(|(sequence, _)| sequence);
        arrived.filter(|sequence| !self.is_unsealed(*sequence))
    }

    /// Forgets what is known of packets up to this one, whatever it is.
    pub fn forget_upto(&mut self, sequence: u64) {
        let gone = sequence.saturating_sub(self.base);
        let gone =
            usize::try_from(gone).map_or(self.slots.len(), |gone| gone.min(self.slots.len()));
        self.slots.drain(..gone);
        self.base = self.base.max(sequence);
        while self.seals.first().is_some_and(|seal| *seal <= self.base) {
            self.seals.pop_first();
        }
        while let Some(last) = self.unsealed.first_entry()
            && *last.key() <= self.base
        {
            last.remove();
        }
    }

    /// Forgets packets above this one, which have come and of which no seal has spoken.
    pub fn forget_above(&mut self, sequence: u64) {
        self.digest();
        let upto = sequence.max(self.last_seal).saturating_sub(self.base);
        self.slots
            .truncate(usize::try_from(upto).unwrap_or(usize::MAX));
    }

    /// Forgets a packet that has come and of which no seal has spoken: it was not kept, and another one with its number may be
    /// the right one.
    pub fn forget(&mut self, sequence: u64) {
        self.digest();
        let slot = self.place(sequence).and_then(|at| self.slots.get_mut(at));
        if let Some(slot @ Slot::Arrived(_)) = slot {
            *slot = Slot::Unknown;
        }
    }

    /// Place of a number above the base, if it is in the window.
    fn place(&self, sequence: u64) -> Option<usize> {
        let at = usize::try_from(sequence.checked_sub(self.base)?.checked_sub(1)?).ok()?;
        (at < WINDOW_PACKETS).then_some(at)
    }

    fn slot(&mut self, at: usize) -> &mut Slot {
        if at >= self.slots.len() {
            self.slots.resize(at + 1, Slot::Unknown);
        }
        &mut self.slots[at]
    }

    /// Digests the packets that wait for it.
    fn digest(&mut self) {
        let digests = self.batch.digests();
        self.note_digests(&digests);
    }

    /// The digest of this packet; those that wait for theirs get them with it.
    fn digest_with(&mut self, datagram: &[u8]) -> Digest {
        self.batch.add(datagram);
        let digests = self.batch.digests();
        self.note_digests(&digests);
        digests[digests.len() - 1]
    }

    fn note_digests(&mut self, digests: &[Digest]) {
        let mut batched = core::mem::take(&mut self.batched);
        for (sequence, digest) in batched.drain(..).zip(digests) {
            let slot = self.place(sequence).and_then(|at| self.slots.get_mut(at));
            if let Some(slot @ Slot::Waits) = slot {
                *slot = Slot::Arrived(*digest);
            }
        }
        self.batched = batched;
    }

    fn note(&mut self, at: usize, sequence: u64, datagram: &[u8]) -> Verdict {
        match self.slot(at) {
            slot @ Slot::Unknown => {
                *slot = Slot::Waits;
                self.batch.add(datagram);
                self.batched.push(sequence);
                if self.batch.is_full() {
                    self.digest();
                }
                return Verdict::Waits;
            }
            // This one says nothing of being a seal.
            Slot::Seal => return Verdict::Forged,
            Slot::Waits => self.digest(),
            Slot::Arrived(_) | Slot::Told(_) | Slot::Proven(_) => {}
        }
        let digest = Digest::of(datagram);
        let slot = self.slot(at);
        match *slot {
            Slot::Told(told) if told == digest => {
                *slot = Slot::Proven(told);
                Verdict::Proven
            }
            Slot::Told(told) | Slot::Proven(told) => judge(told == digest),
            Slot::Arrived(other) if other != digest => Verdict::Contradicts,
            _ => Verdict::Waits,
        }
    }

    /// Takes over what a seal says, its own packet being the last that it is for; none waits for its digest.
    fn tell(&mut self, seal: &ProvenSeal<'_>, own: Digest, findings: &mut Vec<Finding>) -> Verdict {
        self.seals.insert(seal.sequence());
        self.last_seal = self.last_seal.max(seal.sequence());
        let unsealed = seal.unsealed();
        if let Some(first) = unsealed {
            self.unsealed.insert(seal.sequence() - 1, first);
        }
        let first = unsealed.unwrap_or_else(|| seal.first());
        self.tell_former(first.saturating_sub(1), findings);
        for (sequence, digest) in seal.digests(own) {
            let Some(at) = self.place(sequence) else {
                continue;
            };
            let is_own = sequence == seal.sequence();
            let slot = self.slot(at);
            let (next, verdict) = match *slot {
                Slot::Unknown | Slot::Seal if is_own => (Slot::Proven(digest), None),
                Slot::Unknown => (Slot::Told(digest), None),
                Slot::Arrived(other) if other == digest => {
                    (Slot::Proven(digest), Some(Verdict::Proven))
                }
                Slot::Arrived(_) if is_own => (Slot::Proven(digest), Some(Verdict::Forged)),
                Slot::Arrived(_) => (Slot::Told(digest), Some(Verdict::Forged)),
                known @ (Slot::Waits | Slot::Told(_) | Slot::Proven(_) | Slot::Seal) => {
                    (known, None)
                }
            };
            *slot = next;
            findings.extend(verdict.map(|verdict| Finding { sequence, verdict }));
        }
        Verdict::Proven
    }

    /// The packet right before those of a seal is a seal too: a sender seals its stream from the first packet on.
    fn tell_former(&mut self, sequence: u64, findings: &mut Vec<Finding>) {
        let Some(at) = self.place(sequence) else {
            return;
        };
        let slot = self.slot(at);
        let arrived = matches!(slot, Slot::Arrived(_));
        if arrived || matches!(slot, Slot::Unknown) {
            *slot = Slot::Seal;
        }
        let verdict = Verdict::Forged;
        findings.extend(arrived.then_some(Finding { sequence, verdict }));
    }
}

fn judge(fits: bool) -> Verdict {
    match fits {
        true => Verdict::Proven,
        false => Verdict::Forged,
    }
}
