//! Random packets that obey the rules of the format.

use core::net::SocketAddr;

use qsm_wire::membership::QueryKind;
use qsm_wire::{
    AbsentCause, Ack, AdmissionStage, Beacon, CatchUp, ChannelId, DataHeader, FrameHead, GroupId,
    GroupNumbers, Header, Heard, Hearing, Heartbeat, Hop, Incarnation, Kind, ListQuery, ListReply,
    Marks, MemberIndex, NodeId, NumbersQuery, Opening, Origin, Parity, Part, Probe, Ranges, Reach,
    ReachReply, RegionId, Request, RequestHead, Reset, SeqRange, Shard, SlotHead, StreamId,
    StreamQuery, Summary, SummarySlot, Token, TokenAck, TokenHead, ViewNumber,
};

use super::dice::Dice;
use super::{Owned, OwnedChunk, OwnedRequest, OwnedSlot, message};

pub fn header(dice: &mut Dice) -> Header {
    let hops = [
        Hop::Direct,
        Hop::SenderRepair,
        Hop::CacherRepair,
        Hop::Push,
        Hop::PullRepair,
    ];
    Header {
        cluster: dice.u32(),
        origin: origin(dice),
        hop: hops[dice.below(5)],
    }
}

pub fn origin(dice: &mut Dice) -> Origin {
    Origin {
        node: NodeId(dice.u64()),
        incarnation: Incarnation(dice.u32()),
    }
}

pub fn address(dice: &mut Dice) -> SocketAddr {
    if dice.flag() {
        SocketAddr::from(([dice.u8(), dice.u8(), dice.u8(), dice.u8()], dice.u16()))
    } else {
        let words: [u16; 8] = core::array::from_fn(|_| dice.u16());
        SocketAddr::from((words, dice.u16()))
    }
}

/// A packet of this kind.
pub fn packet(dice: &mut Dice, kind: Kind) -> Owned {
    match kind {
        Kind::Data => data(dice),
        Kind::Heartbeat => Owned::Heartbeat {
            stream: stream(dice),
            highest: dice.u64(),
            finished: dice.flag(),
            openings: dice.list(Heartbeat::OPENINGS_MAX, |dice| Opening {
                view: ViewNumber(dice.u32()),
                start: dice.u64(),
            }),
        },
        Kind::Nak => Owned::Nak(request(dice)),
        Kind::Pull => Owned::Pull(request(dice)),
        Kind::Token => token(dice),
        Kind::TokenAck => Owned::TokenAck(TokenAck {
            region: RegionId(dice.u32()),
            leader: origin(dice),
            round: dice.u64(),
            level: dice.u8(),
        }),
        Kind::Summary => Owned::Summary {
            region: RegionId(dice.u32()),
            view: ViewNumber(dice.u32()),
            round: dice.u64(),
            slots: dice.list(Summary::SLOTS_MAX, |dice| SummarySlot {
                origin: origin(dice),
                cutoff: dice.u64(),
                stable_upto: dice.u64(),
                cached_upto: dice.u64(),
            }),
        },
        Kind::Ack => Owned::Ack(ack(dice), marks(dice)),
        Kind::StreamQuery => Owned::StreamQuery(StreamQuery {
            channel: ChannelId(dice.u32()),
            stream: origin(dice),
        }),
        Kind::Absent => Owned::Absent {
            stream: stream(dice),
            cause: match dice.flag() {
                true => AbsentCause::Expired,
                false => AbsentCause::Gone,
            },
            ranges: ranges(dice, 0),
        },
        Kind::Parity => parity(dice),
        _ => membership(dice, kind),
    }
}

fn membership(dice: &mut Dice, kind: Kind) -> Owned {
    match kind {
        Kind::Session => Owned::Session {
            head: FrameHead {
                session: dice.u64(),
                number: dice.u64().max(1),
                heard_upto: dice.u64(),
                more: dice.flag(),
            },
            content: dice.list(100, Dice::u8),
        },
        Kind::Beacon => Owned::Beacon(Beacon {
            address: address(dice),
            second: dice.flag().then(|| address(dice)),
            term: dice.u64(),
            embedded: dice.flag(),
        }),
        Kind::Solicit => Owned::Solicit,
        Kind::Probe => Owned::Probe(probe(dice)),
        Kind::ProbeReply => Owned::ProbeReply(probe(dice)),
        Kind::CatchUp => Owned::CatchUp(CatchUp {
            region: RegionId(dice.u32()),
            view: ViewNumber(dice.u32()),
            nonce: dice.u64(),
        }),
        Kind::Reach => Owned::Reach(Reach {
            region: RegionId(dice.u32()),
            speaker: origin(dice),
            asker: origin(dice),
            nonce: dice.u32(),
            hearing: [Hearing::Unsure, Hearing::Deaf, Hearing::Hears][dice.below(3)],
        }),
        Kind::ReachReply => Owned::ReachReply(ReachReply {
            region: RegionId(dice.u32()),
            nonce: dice.u32(),
            spoken: dice.u32(),
            multicast: dice.flag(),
        }),
        Kind::NumbersQuery => Owned::NumbersQuery(numbers_query(dice)),
        Kind::Numbers => numbers(dice),
        Kind::SessionAck => Owned::SessionAck(Heard {
            session: dice.u64(),
            heard_upto: dice.u64(),
        }),
        Kind::SessionReset => Owned::SessionReset(Reset {
            session: dice.u64(),
        }),
        Kind::Admission => {
            let stage = AdmissionStage::ALL[dice.below(AdmissionStage::ALL.len())];
            Owned::Admission(stage, dice.list(100, Dice::u8))
        }
        _ => enquiry(dice, kind),
    }
}

fn enquiry(dice: &mut Dice, kind: Kind) -> Owned {
    match kind {
        Kind::ListQuery => Owned::ListQuery(ListQuery {
            nonce: dice.u64(),
            list: list(dice),
            version: dice.u64(),
            offset: dice.u32(),
            padding: dice.u16() % 500,
        }),
        Kind::ListReply => {
            let (end, content) = (dice.u32(), dice.list(100, Dice::u8));
            let length = u32::try_from(content.len()).expect("short");
            let end = end.max(length);
            let head = ListReply {
                nonce: dice.u64(),
                list: list(dice),
                version: dice.u64().max(1),
                total: end.max(dice.u32()),
                offset: end - length,
                content: &[],
            };
            Owned::ListReply(head, content)
        }
        Kind::GroupQuery => Owned::GroupQuery {
            nonce: dice.u64(),
            name: format!("g{}", dice.u16()),
            padding: dice.u16() % 500,
        },
        Kind::GroupReply => {
            let mut answer = Vec::new();
            message::group_answer(dice).encode(&mut answer);
            Owned::GroupReply {
                nonce: dice.u64(),
                answer,
            }
        }
        other => panic!("no test draws this kind of packet yet: {other:?}"),
    }
}

fn parity(dice: &mut Dice) -> Owned {
    let head = Parity {
        stream: stream(dice),
        first: (dice.u64() >> 2).max(1),
        count: 1 + dice.u8() % Parity::PACKETS_MAX,
        row: dice.u8() % Parity::ROWS_MAX,
        sum: &[],
    };
    let mut sum = dice.list(100, Dice::u8);
    sum.extend_from_slice(&[0; Shard::HEAD_BYTES]);
    Owned::Parity(head, sum)
}

fn numbers_query(dice: &mut Dice) -> NumbersQuery {
    NumbersQuery {
        stream: stream(dice),
        joined: ViewNumber(dice.u32()),
        position: dice.u64(),
        from: GroupId(dice.u32() / 4),
    }
}

fn numbers(dice: &mut Dice) -> Owned {
    let query = numbers_query(dice);
    let mut group = query.from.0;
    let groups = dice.list(40, |dice| {
        group += 1 + dice.u32() / 256;
        let first = dice.u64() >> 2;
        GroupNumbers {
            group: GroupId(group),
            first,
            last: first + (dice.u64() >> 3),
        }
    });
    let next = dice.flag().then_some(GroupId(group + 1));
    Owned::Numbers {
        query,
        next,
        groups,
    }
}

fn list(dice: &mut Dice) -> QueryKind {
    [QueryKind::Nodes, QueryKind::Groups, QueryKind::Regions][dice.below(3)]
}

fn stream(dice: &mut Dice) -> StreamId {
    StreamId {
        origin: origin(dice),
        channel: ChannelId(dice.u32()),
    }
}

fn probe(dice: &mut Dice) -> Probe {
    Probe {
        subject: origin(dice),
        nonce: dice.u64(),
    }
}

fn data(dice: &mut Dice) -> Owned {
    let sequence = dice.u64().max(1);
    let below = u32::try_from(sequence - 1).unwrap_or(u32::MAX);
    let view_age = if dice.flag() {
        u32::MAX
    } else {
        dice.u32().min(below)
    };
    let head = DataHeader {
        channel: ChannelId(dice.u32()),
        view: ViewNumber(dice.u32()),
        sequence,
        view_age,
    };
    Owned::Data {
        head,
        chunks: dice.list(6, chunk),
    }
}

/// A chunk of a real group: the largest number is padding's.
pub fn chunk(dice: &mut Dice) -> OwnedChunk {
    let parts = [
        Part::Whole,
        Part::First { total: dice.u32() },
        Part::Middle,
        Part::Last,
    ];
    OwnedChunk {
        group: GroupId(dice.u32().min(u32::MAX - 1)),
        message: dice.u32(),
        part: parts[dice.below(parts.len())],
        content: dice.list(60, Dice::u8),
    }
}

fn request(dice: &mut Dice) -> OwnedRequest {
    OwnedRequest {
        head: RequestHead {
            stream: stream(dice),
            view: ViewNumber(dice.u32()),
            tried: dice.u32(),
            for_itself: dice.flag(),
            takes_parity: dice.flag(),
        },
        requesters: dice.list(Request::REQUESTERS_MAX, |dice| MemberIndex(dice.u16())),
        ranges: ranges(dice, 1),
    }
}

/// `min` to 8 ranges, ascending, sometimes touching each other.
pub fn ranges(dice: &mut Dice, min: usize) -> Vec<SeqRange> {
    let count = min + dice.below(Ranges::MAX + 1 - min);
    let mut next = dice.bits() >> dice.below(60).max(1);
    let mut ranges = Vec::new();
    for _ in 0..count {
        let first = next + dice.bits() % 100;
        let last = first + dice.bits() % 1000;
        ranges.push(SeqRange::new(first, last).expect("not empty"));
        next = last + 1;
    }
    ranges
}

fn token(dice: &mut Dice) -> Owned {
    let head = TokenHead {
        region: RegionId(dice.u32()),
        view: ViewNumber(dice.u32()),
        leader: origin(dice),
        round: dice.u64(),
        level: dice.u8(),
        ring: dice.u16(),
        visited: dice.u16(),
        rate_packets: dice.u32(),
        credit_bytes: dice.u32(),
    };
    let suspects = dice.list(Token::SUSPECTS_MAX, |dice| MemberIndex(dice.u16()));
    let slots = dice.list(5, slot);
    let marks = slots.iter().map(|_| marks(dice)).collect();
    Owned::Token {
        head,
        suspects,
        slots,
        marks,
    }
}

/// Usually none.
fn marks(dice: &mut Dice) -> Vec<u64> {
    if dice.flag() {
        return Vec::new();
    }
    dice.list(Marks::MAX, Dice::u64)
}

fn slot(dice: &mut Dice) -> OwnedSlot {
    let head = SlotHead {
        origin: origin(dice),
        cutoff: dice.u64(),
        highest: dice.u64(),
        arrived: dice.u64(),
        cached: dice.u64(),
        stable: dice.u64(),
        stable_upto: dice.u64(),
        cached_upto: dice.u64(),
        losers: dice.u16(),
        naks_cut: dice.flag(),
        common_cut: dice.flag(),
    };
    OwnedSlot {
        head,
        naks: ranges(dice, 0),
        common: ranges(dice, 0),
    }
}

fn ack(dice: &mut Dice) -> Ack {
    let (one, other) = (dice.u64(), dice.u64());
    Ack {
        stream: stream(dice),
        region: RegionId(dice.u32()),
        view: ViewNumber(dice.u32()),
        round: dice.u64(),
        stable_upto: one.min(other),
        cached_upto: one.max(other),
        arrived_upto: dice.u64(),
        rate_packets: dice.u32(),
        credit_bytes: dice.u32(),
        losers: dice.u16(),
    }
}
