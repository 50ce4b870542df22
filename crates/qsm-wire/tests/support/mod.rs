//! Packets as owned values that can be compared, drawn at random, encoded and decoded.
//!
//! Shared by the tests of this crate and by the targets in `fuzz/`, so that both check the same
//! property: whatever is accepted re-encodes to an equal value.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::allow_attributes,
    reason = "each test file and each fuzz target uses its own part of this module"
)]

pub mod dice;
pub mod draw;
pub mod listed;
pub mod message;

use qsm_wire::{
    Absent, AbsentCause, Ack, AdmissionFrame, AdmissionStage, Beacon, Body, CatchUp, Chunk, Data,
    DataHeader, Frame, FrameHead, GroupId, GroupNumbers, GroupQuery, GroupReply, Header, Heard,
    Heartbeat, Kind, ListQuery, ListReply, MemberIndex, Numbers, NumbersQuery, Opening, Packet,
    Parity, Part, Probe, Reach, ReachReply, RegionId, Request, RequestHead, Reset, SeqRange,
    SlotHead, StreamId, StreamQuery, Summary, SummarySlot, Token, TokenAck, TokenHead, TokenWriter,
    ViewNumber,
};

/// A chunk that owns its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedChunk {
    pub group: GroupId,
    pub message: u32,
    pub part: Part,
    pub content: Vec<u8>,
}

/// A token's slot that owns its ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedSlot {
    pub head: SlotHead,
    pub naks: Vec<SeqRange>,
    pub common: Vec<SeqRange>,
}

/// A NAK or pull that owns its lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedRequest {
    pub head: RequestHead,
    pub requesters: Vec<MemberIndex>,
    pub ranges: Vec<SeqRange>,
}

/// The body of any packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owned {
    Data {
        head: DataHeader,
        chunks: Vec<OwnedChunk>,
    },
    Heartbeat {
        stream: StreamId,
        highest: u64,
        finished: bool,
        openings: Vec<Opening>,
    },
    Nak(OwnedRequest),
    Pull(OwnedRequest),
    Token {
        head: TokenHead,
        suspects: Vec<MemberIndex>,
        slots: Vec<OwnedSlot>,
        marks: Vec<Vec<u64>>,
    },
    TokenAck(TokenAck),
    Summary {
        region: RegionId,
        view: ViewNumber,
        round: u64,
        slots: Vec<SummarySlot>,
    },
    Ack(Ack, Vec<u64>),
    StreamQuery(StreamQuery),
    Session {
        head: FrameHead,
        content: Vec<u8>,
    },
    Beacon(Beacon),
    Solicit,
    Probe(Probe),
    ProbeReply(Probe),
    CatchUp(CatchUp),
    Reach(Reach),
    ReachReply(ReachReply),
    NumbersQuery(NumbersQuery),
    Numbers {
        query: NumbersQuery,
        next: Option<GroupId>,
        groups: Vec<GroupNumbers>,
    },
    Absent {
        stream: StreamId,
        cause: AbsentCause,
        ranges: Vec<SeqRange>,
    },
    SessionAck(Heard),
    SessionReset(Reset),
    ListQuery(ListQuery),
    /// Without its content, which follows.
    ListReply(ListReply<'static>, Vec<u8>),
    GroupQuery {
        nonce: u64,
        name: String,
        padding: u16,
    },
    GroupReply {
        nonce: u64,
        answer: Vec<u8>,
    },
    /// Without its sum, which follows.
    Parity(Parity<'static>, Vec<u8>),
    Admission(AdmissionStage, Vec<u8>),
}

impl Owned {
    /// Everything that the packet says, besides its header.
    pub fn of(packet: &Packet<'_>) -> Self {
        match &packet.body {
            Body::Data(data) => of_data(data),
            Body::Heartbeat(heartbeat) => Self::Heartbeat {
                stream: heartbeat.stream,
                highest: heartbeat.highest,
                finished: heartbeat.finished,
                openings: heartbeat.openings().collect(),
            },
            Body::Nak(request) => Self::Nak(of_request(request)),
            Body::Pull(request) => Self::Pull(of_request(request)),
            Body::Token(token) => of_token(token),
            Body::TokenAck(ack) => Self::TokenAck(*ack),
            Body::Summary(summary) => Self::Summary {
                region: summary.region,
                view: summary.view,
                round: summary.round,
                slots: summary.slots().collect(),
            },
            Body::Ack(ack, marks) => Self::Ack(*ack, marks.iter().collect()),
            Body::StreamQuery(query) => Self::StreamQuery(*query),
            Body::Session(frame) => Self::Session {
                head: frame.head,
                content: frame.content.to_vec(),
            },
            Body::Beacon(beacon) => Self::Beacon(*beacon),
            Body::Solicit => Self::Solicit,
            Body::Probe(probe) => Self::Probe(*probe),
            Body::ProbeReply(probe) => Self::ProbeReply(*probe),
            Body::CatchUp(query) => Self::CatchUp(*query),
            Body::Reach(question) => Self::Reach(*question),
            Body::ReachReply(reply) => Self::ReachReply(*reply),
            Body::NumbersQuery(query) => Self::NumbersQuery(*query),
            Body::Numbers(numbers) => Self::Numbers {
                query: numbers.query,
                next: numbers.next,
                groups: numbers.groups().collect(),
            },
            Body::Absent(absent) => Self::Absent {
                stream: absent.stream,
                cause: absent.cause,
                ranges: absent.ranges.iter().collect(),
            },
            Body::SessionAck(heard) => Self::SessionAck(*heard),
            Body::SessionReset(reset) => Self::SessionReset(*reset),
            Body::ListQuery(query) => Self::ListQuery(*query),
            Body::ListReply(reply) => {
                let ListReply { content, .. } = *reply;
                Self::ListReply(emptied(reply), content.to_vec())
            }
            Body::GroupQuery(query) => Self::GroupQuery {
                nonce: query.nonce,
                name: query.name.to_owned(),
                padding: query.padding,
            },
            Body::GroupReply(reply) => Self::GroupReply {
                nonce: reply.nonce,
                answer: reply.answer.to_vec(),
            },
            Body::Parity(parity) => {
                let Parity { sum, .. } = *parity;
                Self::Parity(without_sum(parity), sum.to_vec())
            }
            Body::Admission(frame) => Self::Admission(frame.stage, frame.content.to_vec()),
            other => panic!("no test covers this kind of packet yet: {other:?}"),
        }
    }

    /// The datagram that says this.
    pub fn encode(&self, header: &Header) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Data { head, chunks } => {
                head.encode(header, &mut out);
                for chunk in chunks {
                    borrowed(chunk).encode(&mut out);
                }
            }
            Self::Heartbeat {
                stream,
                highest,
                finished,
                openings,
            } => {
                let openings = openings.iter().copied();
                Heartbeat::encode(header, *stream, *highest, *finished, openings, &mut out);
            }
            Self::Nak(request) => put_request(request, header, Kind::Nak, &mut out),
            Self::Pull(request) => put_request(request, header, Kind::Pull, &mut out),
            Self::Token {
                head,
                suspects,
                slots,
                marks,
            } => {
                put_token(header, (head, suspects), slots, marks, &mut out);
            }
            Self::TokenAck(ack) => ack.encode(header, &mut out),
            Self::Summary {
                region,
                view,
                round,
                slots,
            } => {
                let slots = slots.iter().copied();
                Summary::encode(header, *region, *view, *round, slots, &mut out);
            }
            Self::Ack(ack, marks) => ack.encode_with(header, marks, &mut out),
            Self::StreamQuery(query) => query.encode(header, &mut out),
            Self::Session { head, content } => {
                Frame {
                    head: *head,
                    content,
                }
                .encode(header, &mut out);
            }
            Self::Beacon(beacon) => beacon.encode(header, &mut out),
            Self::Solicit => header.encode(Kind::Solicit, &mut out),
            Self::Probe(probe) => probe.encode(header, Kind::Probe, &mut out),
            Self::ProbeReply(probe) => probe.encode(header, Kind::ProbeReply, &mut out),
            Self::CatchUp(query) => query.encode(header, &mut out),
            Self::Reach(question) => question.encode(header, &mut out),
            Self::ReachReply(reply) => reply.encode(header, &mut out),
            Self::NumbersQuery(query) => query.encode(header, &mut out),
            Self::Numbers {
                query,
                next,
                groups,
            } => Numbers::encode(header, query, *next, groups, &mut out),
            Self::Absent {
                stream,
                cause,
                ranges,
            } => Absent::encode(header, *stream, *cause, ranges, &mut out),
            Self::SessionAck(heard) => heard.encode(header, &mut out),
            Self::SessionReset(reset) => reset.encode(header, &mut out),
            Self::Parity(head, sum) => Parity { sum, ..*head }.encode(header, &mut out),
            enquiry => enquiry.encode_enquiry(header, &mut out),
        }
        out
    }

    fn encode_enquiry(&self, header: &Header, out: &mut Vec<u8>) {
        match self {
            Self::ListQuery(query) => query.encode(header, out),
            Self::ListReply(head, content) => {
                ListReply { content, ..*head }.encode(header, out);
            }
            Self::GroupQuery {
                nonce,
                name,
                padding,
            } => {
                let (nonce, padding) = (*nonce, *padding);
                GroupQuery {
                    nonce,
                    name,
                    padding,
                }
                .encode(header, out);
            }
            Self::GroupReply { nonce, answer } => {
                let nonce = *nonce;
                GroupReply { nonce, answer }.encode(header, out);
            }
            Self::Admission(stage, content) => {
                let stage = *stage;
                AdmissionFrame { stage, content }.encode(header, out);
            }
            other => panic!("no part of an enquiry: {other:?}"),
        }
    }
}

fn put_token(
    header: &Header,
    (head, suspects): (&TokenHead, &[MemberIndex]),
    slots: &[OwnedSlot],
    marks: &[Vec<u64>],
    out: &mut Vec<u8>,
) {
    let mut writer = TokenWriter::new(header, head, suspects, usize::MAX, out);
    for slot in slots {
        assert!(writer.slot(&slot.head, &slot.naks, &slot.common));
    }
    let said = marks.iter().any(|list| !list.is_empty());
    assert_eq!(writer.marks(marks.iter().map(Vec::as_slice)), said);
}

/// Decodes arbitrary bytes. Whatever is accepted must say the same after another round through
/// the encoder; returns what it says.
pub fn check_datagram(bytes: &[u8]) -> Option<(Header, Owned)> {
    let packet = Packet::decode(bytes).ok()?;
    let said = Owned::of(&packet);
    let again = said.encode(&packet.header);
    let packet_again = Packet::decode(&again)
        .unwrap_or_else(|error| panic!("re-encoded {said:?} is rejected: {error}"));
    assert_eq!(packet_again.header, packet.header);
    assert_eq!(Owned::of(&packet_again), said);
    Some((packet.header, said))
}

fn without_sum(parity: &Parity<'_>) -> Parity<'static> {
    Parity {
        stream: parity.stream,
        first: parity.first,
        count: parity.count,
        row: parity.row,
        sum: &[],
    }
}

fn emptied(reply: &ListReply<'_>) -> ListReply<'static> {
    ListReply {
        nonce: reply.nonce,
        list: reply.list,
        version: reply.version,
        total: reply.total,
        offset: reply.offset,
        content: &[],
    }
}

fn of_data(data: &Data<'_>) -> Owned {
    let owned = |chunk: Chunk<'_>| OwnedChunk {
        group: chunk.group,
        message: chunk.message,
        part: chunk.part,
        content: chunk.content.to_vec(),
    };
    Owned::Data {
        head: data.head,
        chunks: data.chunks().map(owned).collect(),
    }
}

fn of_request(request: &Request<'_>) -> OwnedRequest {
    OwnedRequest {
        head: request.head,
        requesters: request.requesters().collect(),
        ranges: request.ranges.iter().collect(),
    }
}

fn of_token(token: &Token<'_>) -> Owned {
    assert_eq!(token.slots().count(), token.slot_count());
    Owned::Token {
        head: token.head,
        suspects: token.suspects().collect(),
        slots: token
            .slots()
            .map(|slot| OwnedSlot {
                head: slot.head,
                naks: slot.naks.iter().collect(),
                common: slot.common.iter().collect(),
            })
            .collect(),
        marks: token.marks().map(|list| list.iter().collect()).collect(),
    }
}

/// The chunk as the encoder takes it.
pub fn borrowed(chunk: &OwnedChunk) -> Chunk<'_> {
    Chunk {
        group: chunk.group,
        message: chunk.message,
        part: chunk.part,
        content: &chunk.content,
    }
}

fn put_request(request: &OwnedRequest, header: &Header, kind: Kind, out: &mut Vec<u8>) {
    Request::encode(
        header,
        kind,
        &request.head,
        &request.requesters,
        &request.ranges,
        out,
    );
}
