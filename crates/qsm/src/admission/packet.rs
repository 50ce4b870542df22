//! Packets by what protects them, and those that guards make.

use std::net::SocketAddr;

use qsm_net::Refusal;
use qsm_proto::ring::CALL;
use qsm_seal::OpenError;
use qsm_wire::{
    AdmissionFrame, AdmissionStage, Body, Coverage, HEADER_BYTES, Header, Hop, Kind, Packet, seal,
};

/// Protection of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Where services are: in clear before there is a session.
    Announcement,
    /// The session of a node and a service.
    Service,
    /// Guards say it to each other.
    Admission,
    /// The epoch that all members have.
    Members,
    /// The same, and its maker's signature; the pair of two members where it goes to one.
    Signed,
    /// The pair of two members.
    Member,
}

impl Way {
    pub(super) fn of(datagram: &[u8]) -> Self {
        match Kind::peek(datagram) {
            Some(Kind::Beacon | Kind::Solicit) => Self::Announcement,
            Some(
                Kind::Session
                | Kind::SessionAck
                | Kind::SessionReset
                | Kind::Probe
                | Kind::ProbeReply
                | Kind::ListQuery
                | Kind::ListReply
                | Kind::GroupQuery
                | Kind::GroupReply,
            ) => Self::Service,
            Some(Kind::Admission) => Self::Admission,
            Some(
                Kind::TokenAck
                | Kind::Nak
                | Kind::Pull
                | Kind::Ack
                | Kind::StreamQuery
                | Kind::CatchUp
                | Kind::Reach
                | Kind::NumbersQuery
                | Kind::Numbers
                | Kind::Absent,
            ) => Self::Member,
            Some(Kind::Data) => Self::Members,
            // Heartbeat, Summary, ReachReply, Parity, and a Token that calls all to a round.
            _ => Self::Signed,
        }
    }

    /// The same of a packet in clear: what it says decides for tokens.
    pub(super) fn of_plain(datagram: &[u8]) -> Self {
        match Kind::peek(datagram) {
            Some(Kind::Token) if !is_call(datagram) => Self::Member,
            _ => Self::of(datagram),
        }
    }
}

/// Tells whether a packet goes to one member: by multicast it goes to all, and so do copies of that.
pub(super) fn goes_to_one(to: SocketAddr, datagram: &[u8]) -> bool {
    !to.ip().is_multicast() && Hop::peek(datagram) == Some(Hop::Direct)
}

/// Tells whether a token calls all to a round: it goes to all, and others go to one.
fn is_call(datagram: &[u8]) -> bool {
    let body = Packet::decode(datagram).map(|packet| packet.body);
    matches!(body, Ok(Body::Token(token)) if token.head.level == CALL)
}

/// Bytes of a question for a service: as long as the longest answer, with two addresses of IPv6.
const SEEK_BYTES: usize = 80;
/// Content of a question.
const ZEROS: [u8; SEEK_BYTES - AdmissionFrame::HEAD_BYTES] =
    [0; SEEK_BYTES - AdmissionFrame::HEAD_BYTES];

/// Bytes by which the question is longer than the packet in whose place it goes.
pub(super) const SEEK_GROWTH: usize = SEEK_BYTES - HEADER_BYTES;
/// The same of the answer.
pub(super) const HERE_GROWTH: usize = AdmissionFrame::HEAD_BYTES - HEADER_BYTES;

/// A packet of guards, in clear.
pub(super) fn admission(header: &Header, stage: AdmissionStage, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(AdmissionFrame::HEAD_BYTES + content.len());
    AdmissionFrame { stage, content }.encode(header, &mut out);
    seal(&mut out, Coverage::Whole);
    out
}

/// The question for a service.
pub(super) fn seek(header: &Header) -> Vec<u8> {
    admission(header, AdmissionStage::Seek, &ZEROS)
}

/// The answer, out of a service's beacon.
pub(super) fn here(header: &Header, beacon: &[u8]) -> Vec<u8> {
    let content = beacon.get(HEADER_BYTES..).unwrap_or_default();
    admission(header, AdmissionStage::Here, content)
}

/// Where a service says it is.
pub(super) fn place(header: &Header, content: &[u8]) -> Option<SocketAddr> {
    let mut beacon = Vec::with_capacity(HEADER_BYTES + content.len());
    header.encode(Kind::Beacon, &mut beacon);
    beacon.extend_from_slice(content);
    match Packet::decode(&beacon).ok()?.body {
        Body::Beacon(beacon) => Some(beacon.address),
        _ => None,
    }
}

/// A packet of guards that came in clear, or was opened.
pub(super) fn read(datagram: &[u8]) -> Option<(Header, AdmissionFrame<'_>)> {
    let packet = Packet::open(datagram).ok()?;
    match packet.body {
        Body::Admission(frame) => Some((packet.header, frame)),
        _ => None,
    }
}

/// Why a packet was not opened, as ports count it.
pub(crate) fn refusal(error: OpenError) -> Refusal {
    match error {
        OpenError::OtherKey(_) => Refusal::OtherKey,
        OpenError::Plain => Refusal::Plain,
        OpenError::Replayed => Refusal::Replayed,
        _ => Refusal::Forged,
    }
}

#[cfg(test)]
mod tests {
    use qsm_wire::{Beacon, Incarnation, NodeId, Origin};

    use super::*;

    // Rules R-SEC-15, R-SEC-17: a new kind is to be classified here too.
    #[test]
    fn each_kind_has_its_way() {
        for kind in Kind::ALL {
            let mut packet = Vec::new();
            Header::default().encode(*kind, &mut packet);
            let way = match kind {
                Kind::Beacon | Kind::Solicit => Way::Announcement,
                Kind::Session
                | Kind::SessionAck
                | Kind::SessionReset
                | Kind::Probe
                | Kind::ProbeReply
                | Kind::ListQuery
                | Kind::ListReply
                | Kind::GroupQuery
                | Kind::GroupReply => Way::Service,
                Kind::Admission => Way::Admission,
                Kind::Data => Way::Members,
                Kind::Heartbeat | Kind::Summary | Kind::ReachReply | Kind::Parity => Way::Signed,
                Kind::Token
                | Kind::TokenAck
                | Kind::Nak
                | Kind::Pull
                | Kind::Ack
                | Kind::StreamQuery
                | Kind::CatchUp
                | Kind::Reach
                | Kind::NumbersQuery
                | Kind::Numbers
                | Kind::Absent => Way::Member,
                other => panic!("{other:?} has no way"),
            };
            assert_eq!(Way::of_plain(&packet), way, "{kind:?}");
        }
    }

    // Rule R-SEC-12.
    #[test]
    fn no_answer_is_longer_than_its_question_and_both_are_read_back() {
        let header = Header {
            cluster: 7,
            origin: Origin {
                node: NodeId(1),
                incarnation: Incarnation(2),
            },
            ..Header::default()
        };
        let address = "[fd00::1]:4481".parse().unwrap();
        let beacon = Beacon {
            address,
            second: Some(address),
            term: u64::MAX,
            embedded: true,
        };
        let mut bytes = Vec::new();
        beacon.encode(&header, &mut bytes);
        let (question, answer) = (seek(&header), here(&header, &bytes));
        assert_eq!(question.len(), HEADER_BYTES + SEEK_GROWTH);
        assert_eq!(answer.len(), bytes.len() + HERE_GROWTH);
        assert!(answer.len() <= question.len());
        let (read_header, frame) = read(&answer).unwrap();
        assert_eq!((read_header, frame.stage), (header, AdmissionStage::Here));
        assert_eq!(place(&read_header, frame.content), Some(address));
        assert_eq!(place(&read_header, &frame.content[1..]), None);
        assert_eq!(read(&question).unwrap().1.stage, AdmissionStage::Seek);
    }
}
