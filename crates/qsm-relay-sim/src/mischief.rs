//! Known bugs, kept as switches: a checker that does not notice them is no checker. They are made
//! where a machine meets its network, so that `qsm-relay` needs no switch.

use qsm_relay::{Body, Packet, Report};

use crate::step::Told;

/// Deliveries between two that are spoilt.
const SPOILT: u64 = 50;
/// Packets that raised reports are ahead by.
const RAISED: u64 = 40;

/// A bug that is built in on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mischief {
    /// Everything is as it should be.
    #[default]
    None,
    /// Applications get each 50th packet twice.
    DeliveredTwice,
    /// Applications do not get each 50th packet, and are not told.
    Withheld,
    /// Applications get each 50th packet changed.
    Corrupted,
    /// Relays pass no repairs on.
    RepairsDropped,
    /// Relays pass repairs on to all children.
    RepairsToAll,
    /// Relays send each NACK to their parents twice.
    NacksRepeated,
    /// Relays pass on what has come before.
    DuplicatesPassed,
    /// Relays report more than their children have.
    ReportsRaised,
    /// Relays ask their parents for what they keep, too.
    CachePassed,
    /// Receivers have their first parent alone.
    StandbyIgnored,
    /// Relays have their first parent alone.
    RelayStandbyIgnored,
    /// Receivers that have ended go on reporting.
    GoneReported,
    /// Relays tell a tenth of what their children get.
    RatesLowered,
    /// Sources and relays send each parity six times.
    ParityRepeated,
}

impl Mischief {
    /// All known bugs.
    pub const ALL: [Self; 14] = [
        Self::DeliveredTwice,
        Self::Withheld,
        Self::Corrupted,
        Self::RepairsDropped,
        Self::RepairsToAll,
        Self::NacksRepeated,
        Self::DuplicatesPassed,
        Self::ReportsRaised,
        Self::CachePassed,
        Self::StandbyIgnored,
        Self::RelayStandbyIgnored,
        Self::GoneReported,
        Self::RatesLowered,
        Self::ParityRepeated,
    ];

    /// Spoils what an application is told.
    pub(crate) fn told(self, told: Told) -> Vec<Told> {
        let Told::Delivered { sequence, .. } = told else {
            return vec![told];
        };
        match self {
            _ if !sequence.is_multiple_of(SPOILT) => vec![told],
            Self::DeliveredTwice => vec![told, told],
            Self::Withheld => Vec::new(),
            Self::Corrupted => vec![Told::Delivered {
                sequence,
                intact: false,
            }],
            _ => vec![told],
        }
    }

    /// Times that a source or relay sends a packet of its own to a child.
    pub(crate) fn parent_says(self, bytes: &[u8]) -> usize {
        let parity = |packet: Packet<'_>| matches!(packet.body, Body::Parity(_));
        match self {
            Self::ParityRepeated if Packet::decode(bytes).is_ok_and(parity) => 6,
            _ => 1,
        }
    }

    /// Spoils what a relay says itself, and returns how often it says it.
    pub(crate) fn relay_says(self, bytes: &mut Vec<u8>) -> usize {
        let Ok(Packet { session, body }) = Packet::decode(bytes) else {
            return 1;
        };
        match (self, body) {
            (Self::NacksRepeated, Body::Nack(nack)) if nack.report.child > 0 => 2,
            (Self::ReportsRaised, Body::Ack(report)) if report.receivers > 0 => {
                let upto = report.upto + RAISED;
                let body = Body::Ack(Report { upto, ..report });
                Packet { session, body }.encode(bytes);
                1
            }
            (Self::RatesLowered, Body::Feedback(mut feedback)) => {
                feedback.limit.rate /= 10;
                feedback.limit.received /= 10;
                let body = Body::Feedback(feedback);
                Packet { session, body }.encode(bytes);
                1
            }
            _ => 1,
        }
    }
}
