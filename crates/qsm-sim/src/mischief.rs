//! Known bugs, kept as switches: a checker that does not notice them is no checker (style 3.10,
//! mutation check). They are made where a machine meets its host: what goes in, what comes out and
//! what is delivered is spoilt, so that the pure crates need no switch.

use std::borrow::Cow;
use std::collections::BTreeSet;

use qsm_proto::Reason;
use qsm_wire::membership::{FromService, Update};
use qsm_wire::{
    Absent, AbsentCause, Ack, Body, Chunk, Coverage, Data, DataHeader, Frame, GroupId, Header, Hop,
    Numbers, Origin, Packet, Part, SeqRange, SlotHead, StreamId, Summary, SummarySlot, Token,
    TokenWriter, is_intact, seal,
};

use crate::machine::Deliveries;

/// A bug that is built in on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mischief {
    /// Everything is as it should be.
    #[default]
    None,
    /// Every so many deliveries one is withheld.
    Drop {
        /// How many.
        every: u64,
    },
    /// Every so many deliveries one is made twice.
    Double {
        /// How many.
        every: u64,
    },
    /// Every so many deliveries two change places, if both come from one call.
    Swap {
        /// How many.
        every: u64,
    },
    /// Every so many deliveries a bit of the content is flipped.
    Corrupt {
        /// How many.
        every: u64,
    },
    /// Packets are not sent again.
    RepairDropped,
    /// NAKs are not answered; the token plane still works.
    NakIgnored,
    /// A packet that comes twice is delivered twice.
    DuplicateNotFiltered,
    /// What somebody had in the last round counts as stable and cached everywhere.
    StableEarly,
    /// What counts as missing is what has been seen in this round, not in the last one.
    CutoffNotLate,
    /// A sender does not say where its view begins, but that it begins with each packet.
    ViewWithoutOpening,
    /// Tokens are not passed on.
    TokenDropped,
    /// Nodes send as fast as they can, whatever the operator says.
    RateIgnored,
    /// Nodes take four times the memory that they are allowed.
    MemoryIgnored,
    /// Half of the nodes take the members of a view in the opposite order.
    ViewReordered,
    /// When a process dies, what others have not delivered of it yet is forgotten without a word.
    DeadForgotten,
    /// Who is asked for a packet of a dead sender says that it has none.
    CopyDenied,
    /// Checksums are not compared.
    DamageBelieved,
    /// Services exclude who answers no probe, instead of setting it aside.
    AwayExcluded,
    /// Services never give up a node that answers no probe.
    SilenceIgnored,
    /// Nodes free what is stable also while members are away.
    NothingRetained,
    /// Who comes back believes that there is nothing to catch up with.
    CaughtUpUnasked,
    /// Services never set a member aside because it is slow.
    SlownessIgnored,
    /// Services forget hints.
    HintsIgnored,
    /// Who asks which messages were in packets that are lost believes that there were none.
    NumbersWithheld,
    /// Senders do not say that members lost what was not kept for them any more.
    OverrunUnsaid,
    /// Every so many messages that are handed out in another way than in order come twice.
    PromptDoubled {
        /// How many.
        every: u64,
    },
    /// Who does not wait for a message is not told that it is lost.
    PromptSilent,
    /// Services give messages half of the lifetime that the operator does.
    LifetimeHalved,
    /// Services give messages four times the lifetime.
    LifetimeExtended,
    /// Services let nodes send four times as much again as the operator does.
    LimitRaised,
    /// Services forget below which rate no receiver holds a sender.
    MinimumForgotten,
    /// Services set a slow member aside that is to be demoted, or shut out.
    LaggardKept,
    /// Nodes send twice as much as they are allowed.
    SendLimitRaised,
    /// Publishers let messages wait for others four times as long as they may.
    BatchStretched,
    /// Services merge regions however many deliveries are unwanted then.
    UnwantedIgnored,
    /// Services give as many multicast addresses as they like.
    BudgetIgnored,
    /// Members do not tell services of packets of another cluster.
    ForeignIgnored,
    /// Acknowledgements say by how much credit has changed, and each fourth of them is lost.
    CreditLost,
    /// Hosts let datagrams through whose tags do not fit.
    TagIgnored,
    /// Services ask for audit where the operator wants messages verified.
    ProofWeakened,
    /// Hosts take what a member says in the name of its region's leader for the leader's word.
    NameBelieved,
}

impl Mischief {
    /// All bugs, with their names.
    pub const ALL: [(&'static str, Self); 41] = [
        ("drop", Self::Drop { every: 100 }),
        ("double", Self::Double { every: 100 }),
        ("swap", Self::Swap { every: 2 }),
        ("corrupt", Self::Corrupt { every: 100 }),
        ("repair-dropped", Self::RepairDropped),
        ("nak-ignored", Self::NakIgnored),
        ("duplicate-not-filtered", Self::DuplicateNotFiltered),
        ("stable-early", Self::StableEarly),
        ("cutoff-not-late", Self::CutoffNotLate),
        ("view-without-opening", Self::ViewWithoutOpening),
        ("token-dropped", Self::TokenDropped),
        ("rate-ignored", Self::RateIgnored),
        ("memory-ignored", Self::MemoryIgnored),
        ("view-reordered", Self::ViewReordered),
        ("dead-forgotten", Self::DeadForgotten),
        ("copy-denied", Self::CopyDenied),
        ("damage-believed", Self::DamageBelieved),
        ("away-excluded", Self::AwayExcluded),
        ("silence-ignored", Self::SilenceIgnored),
        ("nothing-retained", Self::NothingRetained),
        ("caught-up-unasked", Self::CaughtUpUnasked),
        ("slowness-ignored", Self::SlownessIgnored),
        ("hints-ignored", Self::HintsIgnored),
        ("numbers-withheld", Self::NumbersWithheld),
        ("overrun-unsaid", Self::OverrunUnsaid),
        ("prompt-doubled", Self::PromptDoubled { every: 100 }),
        ("prompt-silent", Self::PromptSilent),
        ("lifetime-halved", Self::LifetimeHalved),
        ("lifetime-extended", Self::LifetimeExtended),
        ("limit-raised", Self::LimitRaised),
        ("minimum-forgotten", Self::MinimumForgotten),
        ("laggard-kept", Self::LaggardKept),
        ("send-limit-raised", Self::SendLimitRaised),
        ("batch-stretched", Self::BatchStretched),
        ("unwanted-ignored", Self::UnwantedIgnored),
        ("budget-ignored", Self::BudgetIgnored),
        ("foreign-ignored", Self::ForeignIgnored),
        ("credit-lost", Self::CreditLost),
        ("tag-ignored", Self::TagIgnored),
        ("proof-weakened", Self::ProofWeakened),
        ("name-believed", Self::NameBelieved),
    ];

    /// Whether packets are touched, and not only deliveries or options.
    fn touches_packets(self) -> bool {
        matches!(
            self,
            Self::RepairDropped
                | Self::NakIgnored
                | Self::DuplicateNotFiltered
                | Self::StableEarly
                | Self::CutoffNotLate
                | Self::ViewWithoutOpening
                | Self::TokenDropped
                | Self::ViewReordered
                | Self::CopyDenied
                | Self::DamageBelieved
                | Self::CaughtUpUnasked
                | Self::NumbersWithheld
                | Self::CreditLost
        )
    }
}

/// Carries out the bug, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Saboteur {
    mischief: Mischief,
    active: bool,
    delivered: BTreeSet<(usize, GroupId, Origin, u64)>,
    /// Lives that have ended without a goodbye.
    dead: BTreeSet<Origin>,
}

impl Saboteur {
    pub(crate) fn new(mischief: Mischief) -> Self {
        Self {
            mischief,
            active: mischief.touches_packets(),
            ..Self::default()
        }
    }

    /// What leaves when `from` sends this, if anything does.
    pub(crate) fn outgoing<'a>(
        &self,
        from: Origin,
        reason: Reason,
        bytes: &'a [u8],
    ) -> Option<Cow<'a, [u8]>> {
        if !self.active {
            return Some(bytes.into());
        }
        let Ok(packet) = Packet::decode(bytes) else {
            return Some(bytes.into());
        };
        match (self.mischief, packet.body) {
            (Mischief::RepairDropped, _) if reason == Reason::Repair => None,
            (Mischief::TokenDropped, Body::Token(_)) => None,
            (Mischief::StableEarly, Body::Summary(summary)) => {
                Some(sealed(stable_early(&packet.header, &summary)))
            }
            (Mischief::CutoffNotLate, Body::Token(token)) => {
                let changed = cutoff_not_late(&packet.header, &token, bytes.len());
                Some(sealed(changed))
            }
            (Mischief::CreditLost, Body::Ack(ack, marks)) => {
                let (ack, mut changed) = (without_lost_credit(ack), Vec::new());
                let marks: Vec<u64> = marks.iter().collect();
                ack.encode_with(&packet.header, &marks, &mut changed);
                Some(sealed(changed))
            }
            (Mischief::ViewWithoutOpening, Body::Data(data)) => {
                let changed = first_of_view(&packet.header, &data, bytes.len());
                Some(sealed(changed))
            }
            (Mischief::CopyDenied, Body::Data(data))
                if self.dead.contains(&packet.header.origin) =>
            {
                Some(sealed(denial(from, &packet.header, &data)))
            }
            _ => Some(bytes.into()),
        }
    }

    /// What `host` gets of this, if anything.
    pub(crate) fn incoming<'a>(&self, host: usize, bytes: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        if !self.active {
            return Some(bytes.into());
        }
        let Ok(packet) = Packet::decode(bytes) else {
            return Some(bytes.into());
        };
        match (self.mischief, packet.body) {
            (Mischief::NakIgnored, Body::Nak(_)) => None,
            (Mischief::ViewReordered, Body::Session(frame)) if host % 2 == 1 => {
                let changed = view_reordered(&packet.header, &frame);
                Some(changed.map_or_else(|| bytes.into(), sealed))
            }
            // Questions of those who come back are told by their numbers.
            (Mischief::CaughtUpUnasked, Body::Summary(summary)) if summary.round >> 63 == 1 => {
                let Summary {
                    region,
                    view,
                    round,
                    ..
                } = summary;
                let (mut changed, slots) = (Vec::new(), core::iter::empty());
                Summary::encode(&packet.header, region, view, round, slots, &mut changed);
                Some(sealed(changed))
            }
            (Mischief::NumbersWithheld, Body::Numbers(numbers)) => {
                let mut changed = Vec::new();
                Numbers::encode(&packet.header, &numbers.query, None, &[], &mut changed);
                Some(sealed(changed))
            }
            (Mischief::DamageBelieved, _) if !is_intact(bytes) => Some(sealed(bytes.to_vec())),
            _ => Some(bytes.into()),
        }
    }

    /// A life ends without a goodbye.
    pub(crate) fn died(&mut self, life: Origin, out: &mut Deliveries) {
        self.dead.insert(life);
        if self.mischief == Mischief::DeadForgotten {
            out.mute(life);
        }
    }

    /// After a machine has taken a datagram: delivers its messages again, if it has delivered
    /// them before.
    pub(crate) fn delivered(&mut self, host: usize, bytes: &[u8], out: &mut Deliveries) {
        if self.mischief != Mischief::DuplicateNotFiltered {
            return;
        }
        let fresh = out.rows().iter();
        let fresh: Vec<_> = fresh
            .map(|row| (host, row.group, row.sender, row.number))
            .collect();
        if let Ok(Packet {
            header,
            body: Body::Data(data),
        }) = Packet::decode(bytes)
        {
            for chunk in data.chunks().filter(|chunk| chunk.part == Part::Whole) {
                let key = (host, chunk.group, header.origin, u64::from(chunk.message));
                if self.delivered.contains(&key) {
                    out.again(chunk.group, header.origin, key.3, chunk.content);
                }
            }
        }
        self.delivered.extend(fresh);
    }

    /// The process on this host ends.
    pub(crate) fn forget(&mut self, host: usize) {
        self.delivered.retain(|key| key.0 != host);
    }
}

/// A datagram that its receiver believes.
fn sealed<'a>(mut datagram: Vec<u8>) -> Cow<'a, [u8]> {
    seal(&mut datagram, Coverage::Head);
    datagram.into()
}

/// What a cacher says that has nothing, in the place of a repair.
fn denial(from: Origin, header: &Header, data: &Data<'_>) -> Vec<u8> {
    let stream = StreamId {
        origin: header.origin,
        channel: data.head.channel,
    };
    let header = Header {
        origin: from,
        hop: Hop::Direct,
        ..*header
    };
    let mut changed = Vec::new();
    let range = SeqRange::one(data.head.sequence);
    Absent::encode(&header, stream, AbsentCause::Gone, &[range], &mut changed);
    changed
}

/// A batch, if it is one and came in one piece, in which the members added to views come in the
/// opposite order.
fn view_reordered(header: &Header, frame: &Frame<'_>) -> Option<Vec<u8>> {
    let Ok(FromService::Batch {
        number,
        mut updates,
    }) = FromService::decode(frame.content)
    else {
        return None;
    };
    for update in &mut updates {
        if let Update::View(step) = update {
            step.added.reverse();
        }
    }
    let mut content = Vec::new();
    FromService::Batch { number, updates }.encode(&mut content);
    let mut changed = Vec::new();
    let frame = Frame {
        content: &content,
        ..*frame
    };
    frame.encode(header, &mut changed);
    Some(changed)
}

/// The same packet, as if it were the first one of its view.
fn first_of_view(header: &Header, data: &Data<'_>, length: usize) -> Vec<u8> {
    let head = DataHeader {
        view_age: 0,
        ..data.head
    };
    let mut changed = Vec::with_capacity(length);
    head.encode(header, &mut changed);
    data.chunks().for_each(|chunk| chunk.encode(&mut changed));
    let padding = length.saturating_sub(changed.len());
    Chunk::pad(&mut changed, padding);
    changed
}

/// A summary in which everything up to the cutoff is stable.
fn stable_early(header: &Header, summary: &Summary<'_>) -> Vec<u8> {
    let slots = summary.slots().map(|slot| SummarySlot {
        stable_upto: slot.stable_upto.max(slot.cutoff),
        cached_upto: slot.cached_upto.max(slot.cutoff),
        ..slot
    });
    let mut changed = Vec::new();
    let Summary {
        region,
        view,
        round,
        ..
    } = *summary;
    Summary::encode(header, region, view, round, slots, &mut changed);
    changed
}

/// An acknowledgement with the credit that is left if each fourth round took an eighth of it for good.
fn without_lost_credit(ack: Ack) -> Ack {
    let lost = u32::try_from(ack.round / 4).unwrap_or(u32::MAX);
    Ack {
        credit_bytes: ack.credit_bytes / 8 * 8u32.saturating_sub(lost),
        ..ack
    }
}

/// A token in which what somebody has got in this round counts as missing elsewhere.
fn cutoff_not_late(header: &Header, token: &Token<'_>, length: usize) -> Vec<u8> {
    let suspects: Vec<_> = token.suspects().collect();
    let mut changed = Vec::with_capacity(length);
    let mut writer = TokenWriter::new(header, &token.head, &suspects, length, &mut changed);
    for slot in token.slots() {
        let head = SlotHead {
            cutoff: slot.head.cutoff.max(slot.head.highest),
            ..slot.head
        };
        let [naks, common] = [slot.naks, slot.common].map(|set| set.iter().collect::<Vec<_>>());
        writer.slot(&head, &naks, &common);
    }
    let marks: Vec<Vec<u64>> = token.marks().map(|list| list.iter().collect()).collect();
    writer.marks(marks.iter().map(Vec::as_slice));
    changed
}

#[cfg(test)]
mod tests {
    use qsm_wire::{RegionId, TokenHead, ViewNumber};

    use super::*;

    fn header() -> Header {
        Header {
            cluster: 0,
            origin: Origin::default(),
            hop: Hop::Direct,
        }
    }

    #[test]
    fn a_spoilt_token_is_a_token_with_another_cutoff() {
        let head = TokenHead {
            region: RegionId(1),
            view: ViewNumber(1),
            leader: Origin::default(),
            round: 3,
            level: 0,
            ring: 0,
            visited: 1,
            rate_packets: 0,
            credit_bytes: 0,
        };
        let slot = |highest| SlotHead {
            origin: Origin::default(),
            cutoff: 5,
            highest,
            arrived: 5,
            cached: 5,
            stable: 5,
            stable_upto: 4,
            cached_upto: 4,
            losers: 0,
            naks_cut: false,
            common_cut: false,
        };
        let mut bytes = Vec::new();
        let naks: Vec<SeqRange> = SeqRange::new(3, 4).into_iter().collect();
        let mut writer = TokenWriter::new(&header(), &head, &[], 1400, &mut bytes);
        assert!(writer.slot(&slot(9), &naks, &naks) && writer.slot(&slot(2), &[], &[]));
        let saboteur = Saboteur::new(Mischief::CutoffNotLate);
        let Some(Cow::Owned(changed)) = saboteur.outgoing(Origin::default(), Reason::Token, &bytes)
        else {
            panic!("a token is changed");
        };
        let Ok(Body::Token(token)) = Packet::decode(&changed).map(|packet| packet.body) else {
            panic!("it is still a token");
        };
        let cutoffs: Vec<u64> = token.slots().map(|slot| slot.head.cutoff).collect();
        assert_eq!(cutoffs, [9, 5]);
    }

    #[test]
    fn a_spoilt_summary_says_that_everything_is_stable() {
        let slot = SummarySlot {
            origin: Origin::default(),
            cutoff: 9,
            stable_upto: 3,
            cached_upto: 6,
        };
        let mut bytes = Vec::new();
        let slots = [slot, slot].into_iter();
        Summary::encode(&header(), RegionId(1), ViewNumber(1), 7, slots, &mut bytes);
        let saboteur = Saboteur::new(Mischief::StableEarly);
        let Some(Cow::Owned(changed)) = saboteur.outgoing(Origin::default(), Reason::Token, &bytes)
        else {
            panic!("a summary is changed");
        };
        let Ok(Body::Summary(summary)) = Packet::decode(&changed).map(|packet| packet.body) else {
            panic!("it is still a summary");
        };
        assert!(
            summary
                .slots()
                .all(|slot| slot.stable_upto == 9 && slot.cached_upto == 9)
        );
    }
}
