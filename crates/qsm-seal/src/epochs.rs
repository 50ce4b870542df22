//! A member's keys: one that it seals with, former ones as long as they are needed, one to come (R-SEC-10).

use core::time::Duration;
use std::collections::BTreeMap;

use qsm_identity::{NodeKey, NodePublic};
use qsm_wire::sealed_by;

use crate::key::{ClusterKey, KeyId};
use crate::layout::Form;
use crate::open::{OpenError, Opener};
use crate::order::{Epoch, EpochOrder, EpochReceipt};
use crate::pairs::{Outgoing, PairKey, PairPeer, Pairs};
use crate::seal::{SealError, Sealer};
use crate::signed::{SignedPackets, Unproven};
use crate::streams::{Place, Streams};

/// Packets of a former epoch are opened at least so long.
pub const FORMER_FOR: Duration = Duration::from_secs(5);
/// Epochs whose keys are held; the oldest is given up for more. A service makes no more in [`FORMER_FOR`].
pub const EPOCHS_MAX: usize = 256;

/// Seals and opens the packets of one member while keys change.
#[derive(Debug, Default)]
pub struct Epochs {
    held: BTreeMap<Epoch, Held>,
    active: Option<Epoch>,
    /// All views of epochs below this one are drained.
    drained: Epoch,
    streams: Streams,
}

#[derive(Debug)]
struct Held {
    key: ClusterKey,
    sealer: Sealer,
    opener: Opener,
    pairs: Pairs,
    signed: SignedPackets,
    /// Since when another one is active.
    former_since: Option<Duration>,
}

impl Held {
    fn new(key: ClusterKey) -> Self {
        Self {
            sealer: Sealer::new(&key),
            opener: Opener::new(&key),
            pairs: Pairs::default(),
            signed: SignedPackets::new(&key),
            key,
            former_since: None,
        }
    }
}

impl Epochs {
    /// Without any key: nothing is sealed, nothing opened.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The epoch in which new packets are sealed.
    #[must_use]
    pub fn active(&self) -> Option<Epoch> {
        self.active
    }

    /// The epochs whose packets are opened, in their order.
    pub fn held(&self) -> impl Iterator<Item = Epoch> + '_ {
        self.held.keys().copied()
    }

    /// Returns whether a key of this number is held.
    #[must_use]
    pub fn knows(&self, number: KeyId) -> bool {
        self.held.values().any(|held| held.opener.key() == number)
    }

    /// Returns whether a packet of this number is one of pairs, in an epoch that is held.
    #[must_use]
    pub fn pairs_by(&self, number: KeyId) -> bool {
        self.knows(number.of_pairs())
    }

    /// An order of the service has come by its session: the receipt to send, if it asks for one. An order that is
    /// not possible, or of the past, changes nothing.
    pub fn take(&mut self, now: Duration, order: EpochOrder) -> Option<EpochReceipt> {
        match order {
            EpochOrder::Offer { epoch, key } => self.add(epoch, key),
            EpochOrder::Ratchet { epoch, of } => {
                let key = self.held.get(&of)?.key.ratchet();
                self.add(epoch, key)
            }
            EpochOrder::Activate { epoch } => {
                self.activate(now, epoch);
                None
            }
        }
    }

    fn add(&mut self, epoch: Epoch, key: ClusterKey) -> Option<EpochReceipt> {
        if self.active.is_some_and(|active| epoch <= active) {
            return None;
        }
        // An epoch is offered when the one before it is active, or given up.
        let active = self.active;
        self.held
            .retain(|held, _| active.is_some_and(|active| *held <= active));
        self.held.insert(epoch, Held::new(key));
        while self.held.len() > EPOCHS_MAX {
            self.give_up_oldest();
        }
        Some(EpochReceipt { epoch })
    }

    fn activate(&mut self, now: Duration, epoch: Epoch) {
        if self.active.is_some_and(|active| epoch <= active) || !self.held.contains_key(&epoch) {
            return;
        }
        if let Some(former) = self.active.and_then(|former| self.held.get_mut(&former)) {
            former.former_since = Some(now);
        }
        self.active = Some(epoch);
    }

    fn give_up_oldest(&mut self) {
        if let Some((epoch, _)) = self.held.pop_first() {
            self.streams.forget(epoch);
        }
    }

    /// All views in which packets were sealed in epochs before this one are drained: what is sealed in them is not
    /// waited for any more.
    pub fn drained(&mut self, before: Epoch) {
        self.drained = self.drained.max(before);
    }

    /// When [`Self::tick`] has something to do at the earliest.
    #[must_use]
    pub fn next_tick(&self) -> Option<Duration> {
        let (_, oldest) = self.held.range(..self.drained).next()?;
        oldest.former_since.map(|since| since + FORMER_FOR)
    }

    /// Time has passed: keys that are not needed any more are wiped.
    pub fn tick(&mut self, now: Duration) {
        while self.next_tick().is_some_and(|at| at <= now) {
            self.give_up_oldest();
        }
    }

    /// Appends the packet, sealed: a data packet that has been sealed or opened before in the epoch that it was sealed
    /// in, so that its bytes are the same, and all others in the active one.
    ///
    /// # Errors
    /// [`SealError`]; nothing is appended.
    pub fn seal(&mut self, datagram: &[u8], out: &mut Vec<u8>) -> Result<(), SealError> {
        let active = self.active.ok_or(SealError::NoKey)?;
        let form = Form::of(datagram);
        if datagram.len() < form.head_bytes() {
            return Err(SealError::Short);
        }
        let place = (form == Form::Data).then(|| Place::of(datagram));
        let known = place.and_then(|place| self.streams.epoch(place));
        let epoch = known.unwrap_or(active);
        let held = self.held.get_mut(&epoch).ok_or(SealError::NoKey)?;
        held.sealer.seal(datagram, out)?;
        if let Some(place) = place {
            self.streams.note(place, epoch);
        }
        Ok(())
    }

    /// Opens a packet where it is, as [`Opener::open`], also one that has come before: data have their numbers, and what
    /// else any member may make in any other's name must do no harm when it comes twice.
    ///
    /// # Errors
    /// [`OpenError`]; nothing has changed.
    pub fn open(&mut self, datagram: &mut [u8]) -> Result<usize, OpenError> {
        let (epoch, held) = self.held_for(datagram, |number| number)?;
        let length = held.opener.open_again(datagram)?;
        if Form::of(datagram) == Form::Data {
            self.streams.note(Place::of(datagram), epoch);
        }
        Ok(length)
    }

    /// The epoch whose key a packet names, by the number that `of` makes of the key's.
    fn held_for(
        &mut self,
        datagram: &[u8],
        of: impl Fn(KeyId) -> KeyId,
    ) -> Result<(Epoch, &mut Held), OpenError> {
        let Some(number) = sealed_by(datagram) else {
            return Err(match datagram.len() {
                0..qsm_wire::HEADER_BYTES => OpenError::Short,
                _ => OpenError::Plain,
            });
        };
        let mut newest_first = self.held.iter_mut().rev();
        let found = newest_first.find(|(_, held)| of(held.opener.key()) == KeyId(number));
        let (epoch, held) = found.ok_or(OpenError::OtherKey(KeyId(number)))?;
        Ok((*epoch, held))
    }

    /// Appends a packet that is not data, sealed in the active epoch and signed by its maker, whose key this is.
    ///
    /// # Errors
    /// [`SealError`]; nothing is appended.
    pub fn seal_signed(
        &mut self,
        own: &NodeKey,
        datagram: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), SealError> {
        let active = self.active.ok_or(SealError::NoKey)?;
        let held = self.held.get_mut(&active).ok_or(SealError::NoKey)?;
        held.signed.seal(&mut held.sealer, own, datagram, out)
    }

    /// Opens a signed packet where it is, as far as the key of the epoch tells that a member made it. It is not believed
    /// yet: [`Self::prove`] says whether the maker that it names did.
    ///
    /// # Errors
    /// [`OpenError`]; nothing has changed.
    pub fn open_signed(&mut self, datagram: &mut [u8]) -> Result<Unproven, OpenError> {
        let (epoch, held) = self.held_for(datagram, |number| number)?;
        held.signed.open(&mut held.opener, epoch, datagram)
    }

    /// Checks the signature of a packet that was opened, with its maker's key. Returns its length without it; the packet
    /// is not taken again.
    ///
    /// # Errors
    /// [`OpenError::Forged`]: its maker did not sign it. [`OpenError::Replayed`]: it was taken meanwhile. Nothing has
    /// changed.
    pub fn prove(
        &mut self,
        packet: &Unproven,
        maker: &NodePublic,
        datagram: &mut [u8],
    ) -> Result<usize, OpenError> {
        let held = self.held.get_mut(&packet.epoch());
        let held = held.ok_or(OpenError::Forged)?;
        held.signed.prove(packet, maker, datagram)
    }

    /// Appends a packet of this member's that is not data, sealed in the active epoch for one other alone.
    ///
    /// # Errors
    /// [`SealError`]; nothing is appended.
    pub fn seal_to(
        &mut self,
        own: &PairKey,
        peer: &PairPeer,
        datagram: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), SealError> {
        let active = self.active.ok_or(SealError::NoKey)?;
        let held = self.held.get_mut(&active).ok_or(SealError::NoKey)?;
        let key = held.sealer.key().of_pairs();
        let packet = Outgoing { datagram, key, out };
        held.pairs.seal(&held.key, own, peer, packet)
    }

    /// Opens a packet where it is that this one has sealed for this member alone, as [`Opener::open`].
    ///
    /// # Errors
    /// [`OpenError`]; nothing has changed.
    pub fn open_from(
        &mut self,
        own: &PairKey,
        peer: &PairPeer,
        datagram: &mut [u8],
    ) -> Result<usize, OpenError> {
        let (_, held) = self.held_for(datagram, KeyId::of_pairs)?;
        held.pairs.open(&held.key, own, peer, datagram)
    }
}
