//! Byte-exact packets, so that the format cannot change by accident (R-PKT-2).
//!
//! Each expected packet is written out field by field, in the order of the drawings in
//! PROTOCOL.md. A test that fails here means: this change breaks every node that is running.
//! Then raise `VERSION`, or do it another way.

mod support;

use std::net::SocketAddr;

use qsm_wire::membership::{
    About, Answer, AnswerRows, AwayReason, FromService, GroupLifetime, GroupReport, GroupRow,
    GroupStart, Hello, Member, MemberFilter, NodeRow, QueryKind, Rates, RegionKind, RegionReport,
    RegionRow, RepairLimit, Role, Sender, ToService, ToldLimit, Update, ViewStep,
};
use qsm_wire::{
    AbsentCause, Ack, Beacon, CatchUp, ChannelId, Chunk, DataHeader, FrameHead, GroupId,
    GroupNumbers, Header, Heard, Hearing, Hop, Incarnation, Kind, MemberIndex, NodeId,
    NumbersQuery, Opening, Origin, Packet, Parity, Part, Probe, Reach, ReachReply, RegionId,
    RequestHead, Reset, SeqRange, SlotHead, StreamId, StreamQuery, SummarySlot, TokenAck,
    TokenHead, ViewNumber,
};
use support::listed::{assert_listed, bytes_of};
use support::{Owned, OwnedChunk, OwnedRequest, OwnedSlot};

const SENDER: Origin = Origin {
    node: NodeId(0x1122_3344_5566_7788),
    incarnation: Incarnation(3),
};
const HEADER: Header = Header {
    cluster: 0xc1c2_c3c4,
    origin: SENDER,
    hop: Hop::Direct,
};
const PEER: Origin = Origin {
    node: NodeId(0x99),
    incarnation: Incarnation(2),
};
const STREAM: StreamId = StreamId {
    origin: PEER,
    channel: ChannelId(0x0a),
};

/// What all headers of [`HEADER`] end with: hop, cluster, node, incarnation, checksum.
const REST: &str = "00 c4c3c2c1 8877665544332211 03000000 00000000";
/// [`STREAM`]: channel, node, incarnation.
const STREAM_BYTES: &str = "0a000000 9900000000000000 02000000";
const TOLD: ToldLimit = ToldLimit {
    number: 3,
    limit: RepairLimit {
        bytes_per_second: 1_000_000,
        share_ppm: 50_000,
    },
};

#[track_caller]
fn assert_packet(kind: &str, body: &Owned, fields: &str) {
    let expected = bytes_of(&format!("11 {kind} 00 {REST} {fields}"));
    assert_eq!(hex(&body.encode(&HEADER)), hex(&expected));
    assert_listed("packet", &expected);
    let packet = Packet::decode(&expected).expect("legal");
    assert_eq!((packet.header, Owned::of(&packet)), (HEADER, body.clone()));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn range(first: u64, last: u64) -> SeqRange {
    SeqRange::new(first, last).expect("not empty")
}

#[test]
fn header_with_a_hop() {
    let header = Header {
        hop: Hop::PullRepair,
        ..HEADER
    };
    let expected = "11 0c 00 04 c4c3c2c1 8877665544332211 03000000 00000000";
    assert_eq!(Owned::Solicit.encode(&header), bytes_of(expected));
    assert_eq!(Kind::peek(&bytes_of(expected)), Some(Kind::Solicit));
    assert_eq!(Hop::peek(&bytes_of(expected)), Some(Hop::PullRepair));
    for bytes in [&[][..], &[1], &[1, 99, 0, 99]] {
        assert_eq!((Kind::peek(bytes), Hop::peek(bytes)), (None, None));
    }
}

#[test]
fn data() {
    let head = DataHeader {
        channel: ChannelId(0x0a),
        view: ViewNumber(6),
        sequence: 0x0102_0304_0506_0708,
        view_age: 5,
    };
    let chunk = |message, part, content: &[u8]| OwnedChunk {
        group: GroupId(7),
        message,
        part,
        content: content.to_vec(),
    };
    let chunks = vec![
        chunk(1, Part::Whole, b"abc"),
        chunk(2, Part::First { total: 0x0102 }, b"d"),
        chunk(2, Part::Middle, b"ef"),
        chunk(2, Part::Last, b""),
    ];
    assert_packet(
        "01",
        &Owned::Data { head, chunks },
        "0a000000 06000000 0807060504030201 05000000
         07000000 01000000 03c0 616263
         07000000 02000000 0140 02010000 64
         07000000 02000000 0200 6566
         07000000 02000000 0080",
    );
}

#[test]
fn padding() {
    let padded = |gap| {
        let mut out = Vec::new();
        assert!(Chunk::pad(&mut out, gap));
        out
    };
    assert_eq!(padded(12), bytes_of("ffffffff 00000000 0200 0000"));
    assert_eq!(padded(9), [0; 9]);
}

#[test]
fn heartbeat() {
    let openings = vec![
        Opening {
            view: ViewNumber(6),
            start: 8,
        },
        Opening {
            view: ViewNumber(5),
            start: 1,
        },
    ];
    assert_packet(
        "02",
        &Owned::Heartbeat {
            stream: STREAM,
            highest: 9,
            finished: true,
            openings,
        },
        &format!(
            "{STREAM_BYTES} 0900000000000000 01 02
             06000000 0800000000000000  05000000 0100000000000000"
        ),
    );
}

#[test]
fn nak_and_pull() {
    let request = OwnedRequest {
        head: RequestHead {
            stream: STREAM,
            view: ViewNumber(6),
            tried: 5,
            for_itself: true,
            takes_parity: false,
        },
        requesters: vec![MemberIndex(2), MemberIndex(0x0103)],
        ranges: vec![range(10, 12), range(20, 20)],
    };
    let fields = format!(
        "{STREAM_BYTES} 06000000 05000000 01 02 02 00 0200 0301
         0a00000000000000 03000000  1400000000000000 01000000"
    );
    assert_packet("03", &Owned::Nak(request.clone()), &fields);
    assert_packet("04", &Owned::Pull(request.clone()), &fields);
    let head = RequestHead {
        takes_parity: true,
        ..request.head
    };
    let fields = fields.replace("01 02 02 00 ", "01 02 02 01 ");
    assert_packet("03", &Owned::Nak(OwnedRequest { head, ..request }), &fields);
}

#[test]
fn token() {
    let head = TokenHead {
        region: RegionId(4),
        view: ViewNumber(6),
        leader: PEER,
        round: 17,
        level: 1,
        ring: 2,
        visited: 25,
        rate_packets: u32::MAX,
        credit_bytes: 0x0001_0000,
    };
    let slot = SlotHead {
        origin: SENDER,
        cutoff: 1,
        highest: 2,
        arrived: 8,
        cached: 3,
        stable: 4,
        stable_upto: 5,
        cached_upto: 6,
        losers: 7,
        naks_cut: true,
        common_cut: false,
    };
    let slots = vec![OwnedSlot {
        head: slot,
        naks: vec![range(10, 12)],
        common: vec![range(11, 11)],
    }];
    let fields = "04000000 06000000 9900000000000000 02000000 1100000000000000
         01 0200 1900 ffffffff 00000100
         01 0900 01
         8877665544332211 03000000
         0100000000000000 0200000000000000 0800000000000000 0300000000000000
         0400000000000000 0500000000000000 0600000000000000
         0700 01 00 01 01
         0a00000000000000 03000000  0b00000000000000 01000000";
    assert_packet(
        "05",
        &Owned::Token {
            head,
            suspects: vec![MemberIndex(9)],
            slots: slots.clone(),
            marks: vec![vec![]],
        },
        fields,
    );
    // With how far each partition has got (R094).
    assert_packet(
        "05",
        &Owned::Token {
            head,
            suspects: vec![MemberIndex(9)],
            slots,
            marks: vec![vec![7, 0]],
        },
        &format!("{fields} 02 0700000000000000 0000000000000000"),
    );
}

#[test]
fn token_ack() {
    let ack = TokenAck {
        region: RegionId(4),
        leader: PEER,
        round: 17,
        level: 1,
    };
    assert_packet(
        "06",
        &Owned::TokenAck(ack),
        "04000000 9900000000000000 02000000 1100000000000000 01",
    );
}

#[test]
fn summary() {
    let slot = SummarySlot {
        origin: SENDER,
        cutoff: 1,
        stable_upto: 2,
        cached_upto: 3,
    };
    let body = Owned::Summary {
        region: RegionId(4),
        view: ViewNumber(6),
        round: 17,
        slots: vec![slot],
    };
    assert_packet(
        "07",
        &body,
        "04000000 06000000 1100000000000000 01
         8877665544332211 03000000
         0100000000000000 0200000000000000 0300000000000000",
    );
}

#[test]
fn ack() {
    let ack = Ack {
        stream: STREAM,
        region: RegionId(4),
        view: ViewNumber(6),
        round: 17,
        stable_upto: 1,
        cached_upto: 2,
        arrived_upto: 6,
        rate_packets: 3,
        credit_bytes: 4,
        losers: 5,
    };
    let fields = format!(
        "{STREAM_BYTES} 04000000 06000000 1100000000000000
         0100000000000000 0200000000000000 0600000000000000 03000000 04000000 0500"
    );
    assert_packet("08", &Owned::Ack(ack, vec![]), &fields);
    // With how far each partition has got (R094).
    assert_packet(
        "08",
        &Owned::Ack(ack, vec![7, 0]),
        &format!("{fields} 02 0700000000000000 0000000000000000"),
    );
}

#[test]
fn stream_query() {
    let query = StreamQuery {
        channel: ChannelId(0x0a),
        stream: PEER,
    };
    assert_packet("09", &Owned::StreamQuery(query), STREAM_BYTES);
}

#[test]
fn session_with_its_receipt_and_its_reset() {
    let head = FrameHead {
        session: 0x0102,
        number: 3,
        heard_upto: 4,
        more: true,
    };
    let frame = Owned::Session {
        head,
        content: b"xyz".to_vec(),
    };
    assert_packet(
        "0a",
        &frame,
        "0201000000000000 0300000000000000 0400000000000000 01 78797a",
    );
    let heard = Heard {
        session: 0x0102,
        heard_upto: 4,
    };
    assert_packet(
        "10",
        &Owned::SessionAck(heard),
        "0201000000000000 0400000000000000",
    );
    assert_packet(
        "11",
        &Owned::SessionReset(Reset { session: 0x0102 }),
        "0201000000000000",
    );
}

#[test]
fn beacon_and_solicitation() {
    let beacon = |address: &str| {
        let address = address.parse().expect("an address");
        Owned::Beacon(Beacon {
            address,
            second: None,
            term: 5,
            embedded: true,
        })
    };
    assert_packet(
        "0b",
        &beacon("10.78.0.1:4483"),
        "04 0a4e0001 8311 0500000000000000 01 00",
    );
    assert_packet(
        "0b",
        &beacon("[2001:db8::1]:4483"),
        "06 20010db8000000000000000000000001 8311 0500000000000000 01 00",
    );
    let of_two = Owned::Beacon(Beacon {
        address: member().address,
        second: Some(second()),
        term: 5,
        embedded: true,
    });
    assert_packet(
        "0b",
        &of_two,
        "04 0a4e0001 8311 0500000000000000 01 01 04 0a4f0001 8311",
    );
    assert_packet("0c", &Owned::Solicit, "");
}

#[test]
fn probe_and_its_reply() {
    let probe = Probe {
        subject: PEER,
        nonce: 0x0807_0605_0403_0201,
    };
    let fields = "9900000000000000 02000000 0102030405060708";
    assert_packet("0d", &Owned::Probe(probe), fields);
    assert_packet("0e", &Owned::ProbeReply(probe), fields);
    let query = CatchUp {
        region: RegionId(4),
        view: ViewNumber(6),
        nonce: 7,
    };
    let fields = "04000000 06000000 0700000000000000";
    assert_packet("12", &Owned::CatchUp(query), fields);
}

#[test]
fn reach_and_its_replies() {
    let question = Reach {
        region: RegionId(4),
        speaker: PEER,
        asker: PEER,
        nonce: 6,
        hearing: Hearing::Deaf,
    };
    let fields = "04000000 9900000000000000 02000000 9900000000000000 02000000 06000000 01";
    assert_packet("13", &Owned::Reach(question), fields);
    for (hearing, byte) in [(Hearing::Unsure, "00"), (Hearing::Hears, "02")] {
        let question = Reach {
            hearing,
            ..question
        };
        let fields =
            format!("04000000 9900000000000000 02000000 9900000000000000 02000000 06000000 {byte}");
        assert_packet("13", &Owned::Reach(question), &fields);
    }
    let reply = ReachReply {
        region: RegionId(4),
        nonce: 6,
        spoken: 9,
        multicast: false,
    };
    let fields = "04000000 06000000 09000000 00";
    assert_packet("14", &Owned::ReachReply(reply), fields);
    let spoken = ReachReply {
        multicast: true,
        ..reply
    };
    let fields = "04000000 06000000 09000000 01";
    assert_packet("14", &Owned::ReachReply(spoken), fields);
}

#[test]
fn parity() {
    let head = Parity {
        stream: STREAM,
        first: 0x0110,
        count: 16,
        row: 2,
        sum: &[],
    };
    let fields = format!("{STREAM_BYTES} 1001000000000000 10 02 01020304050607");
    assert_packet("1b", &Owned::Parity(head, (1..8).collect()), &fields);
}

#[test]
fn numbers_and_the_query_for_them() {
    let query = NumbersQuery {
        stream: STREAM,
        joined: ViewNumber(6),
        position: 0x0102,
        from: GroupId(7),
    };
    let fields = format!("{STREAM_BYTES} 06000000 0201000000000000 07000000");
    assert_packet("15", &Owned::NumbersQuery(query), &fields);
    let groups = vec![
        GroupNumbers {
            group: GroupId(7),
            first: 3,
            last: 0x0405,
        },
        GroupNumbers {
            group: GroupId(9),
            first: 0,
            last: 1,
        },
    ];
    let rows = "07000000 0300000000000000 0504000000000000
                09000000 0000000000000000 0100000000000000";
    for (next, word) in [(None, "ffffffff"), (Some(GroupId(10)), "0a000000")] {
        let numbers = Owned::Numbers {
            query,
            next,
            groups: groups.clone(),
        };
        assert_packet("16", &numbers, &format!("{fields} {word} 02 {rows}"));
    }
}

#[test]
fn absent() {
    for (cause, byte) in [(AbsentCause::Gone, "00"), (AbsentCause::Expired, "01")] {
        let body = Owned::Absent {
            stream: STREAM,
            cause,
            ranges: vec![range(10, 12)],
        };
        assert_packet(
            "0f",
            &body,
            &format!("{STREAM_BYTES} {byte} 01 0a00000000000000 03000000"),
        );
    }
}

fn assert_to_service(message: &ToService, fields: &str) {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    assert_eq!(hex(&bytes), hex(&bytes_of(fields)));
    assert_listed("to-service", &bytes);
    assert_eq!(ToService::decode(&bytes).as_ref(), Ok(message));
}

fn assert_from_service(message: &FromService, fields: &str) {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    assert_eq!(hex(&bytes), hex(&bytes_of(fields)));
    assert_listed("from-service", &bytes);
    assert_eq!(FromService::decode(&bytes).as_ref(), Ok(message));
}

/// Where the member is on a second network.
fn second() -> SocketAddr {
    "10.79.0.1:4483".parse().expect("an address")
}

fn member() -> Member {
    let address = "10.78.0.1:4483".parse().expect("an address");
    Member {
        origin: PEER,
        address,
        joined: ViewNumber(3),
        left: Some(ViewNumber(6)),
        away: Some(AwayReason::Unreachable),
    }
}

#[test]
fn hello() {
    let hello = ToService::Hello(Hello {
        name: "n1".to_owned(),
        address: member().address,
        second: Some(second()),
        incarnation: Incarnation(2),
        term: 5,
        groups: vec![GroupReport {
            group: Some(GroupId(7)),
            name: "g".to_owned(),
            role: Role::Publisher,
        }],
        regions: vec![RegionReport {
            region: RegionId(4),
            view: ViewNumber(6),
            channel: ChannelId(0x0a),
            address: member().address,
            members: vec![member()],
            groups: vec![GroupId(7)],
            merged: true,
        }],
        region_last: RegionId(9),
        channel_last: ChannelId(0x0b),
        group_end: GroupId(8),
        incarnation_last: Incarnation(12),
        dead: vec![PEER],
        senders: vec![SENDER],
        published: true,
        repairs: TOLD,
    });
    assert_to_service(
        &hello,
        "01 0200 6e31 04 0a4e0001 8311 01 04 0a4f0001 8311 02000000 0500000000000000
         01000000 01 07000000 0100 67 02
         01000000 04000000 06000000 0a000000 04 0a4e0001 8311
         01000000 9900000000000000 02000000 04 0a4e0001 8311 03000000 01 06000000 01 02
         01000000 07000000 01
         09000000 0b000000 08000000 0c000000 01000000 9900000000000000 02000000
         01000000 8877665544332211 03000000 01
         0300000000000000 40420f0000000000 50c30000",
    );
}

fn about() -> About {
    About {
        host: "h1".to_owned(),
        version: "1.2".to_owned(),
        uptime_ms: 7,
    }
}

const RATES: Rates = Rates {
    sent: 9,
    received: 10,
};

#[test]
fn other_messages_to_the_service() {
    let names = vec!["a".to_owned(), "é".to_owned()];
    let enter = ToService::Enter {
        request: 8,
        role: Role::Subscriber,
        names: names.clone(),
    };
    assert_to_service(&enter, "02 08000000 01 02000000 0100 61 0200 c3a9");
    let exit = ToService::Exit {
        request: 8,
        role: Role::Publisher,
        names,
    };
    assert_to_service(&exit, "03 08000000 02 02000000 0100 61 0200 c3a9");
    let drained = ToService::Drained {
        region: RegionId(4),
        view: ViewNumber(6),
    };
    assert_to_service(&drained, "04 04000000 06000000");
    assert_to_service(
        &ToService::Suspect {
            member: PEER,
            silent_ms: 300,
        },
        "05 9900000000000000 02000000 2c010000",
    );
    for (kind, number) in [
        (QueryKind::Nodes, 1),
        (QueryKind::Groups, 2),
        (QueryKind::Regions, 3),
    ] {
        let query = ToService::Query { request: 8, kind };
        assert_to_service(&query, &format!("06 08000000 0{number}"));
    }
    assert_to_service(&ToService::Goodbye, "07");
    let caught_up = ToService::CaughtUp {
        region: RegionId(4),
        view: ViewNumber(6),
    };
    assert_to_service(&caught_up, "08 04000000 06000000");
}

#[test]
#[expect(clippy::too_many_lines, reason = "one of each")]
fn a_batch_with_every_update() {
    let updates = vec![
        Update::Named {
            group: GroupId(7),
            name: "g".to_owned(),
        },
        Update::Region {
            region: RegionId(4),
            channel: ChannelId(0x0a),
            address: member().address,
            groups: vec![GroupId(7)],
        },
        Update::View(ViewStep {
            region: RegionId(4),
            view: ViewNumber(6),
            base: ViewNumber(5),
            removed: vec![SENDER],
            leaving: vec![PEER],
            changed: vec![member()],
            added: vec![member()],
        }),
        Update::Closed {
            region: RegionId(4),
        },
        Update::Dead { origin: PEER },
        Update::Settled {
            region: RegionId(4),
            view: ViewNumber(6),
            senders: vec![Sender {
                origin: PEER,
                address: member().address,
            }],
        },
        Update::Second {
            address: member().address,
            second: second(),
        },
        Update::Sources {
            region: RegionId(4),
            senders: vec![Sender {
                origin: PEER,
                address: member().address,
            }],
        },
        Update::Filters {
            region: RegionId(4),
            whole: true,
            members: vec![MemberFilter {
                origin: PEER,
                unwanted: vec![GroupId(7)],
                since: vec![GroupStart {
                    group: GroupId(8),
                    view: ViewNumber(6),
                }],
            }],
        },
        Update::Lifetimes {
            region: RegionId(4),
            groups: vec![GroupLifetime {
                group: GroupId(7),
                ms: 200,
            }],
        },
        Update::Repairs { told: TOLD },
    ];
    assert_from_service(
        &FromService::Batch { number: 9, updates },
        "02 0900000000000000 0b000000
         01 07000000 0100 67
         02 04000000 0a000000 04 0a4e0001 8311 01000000 07000000
         03 04000000 06000000 05000000
            01000000 8877665544332211 03000000
            01000000 9900000000000000 02000000
            01000000 9900000000000000 02000000 04 0a4e0001 8311 03000000 01 06000000 01 02
            01000000 9900000000000000 02000000 04 0a4e0001 8311 03000000 01 06000000 01 02
         04 04000000
         05 9900000000000000 02000000
         06 04000000 06000000 01000000 9900000000000000 02000000 04 0a4e0001 8311
         07 04 0a4e0001 8311 04 0a4f0001 8311
         08 04000000 01000000 9900000000000000 02000000 04 0a4e0001 8311
         09 04000000 01 01000000 9900000000000000 02000000
            01000000 07000000 01000000 08000000 06000000
         0a 04000000 01000000 07000000 c8000000
         0b 0300000000000000 40420f0000000000 50c30000",
    );
}

fn answer(result: Result<AnswerRows, String>) -> FromService {
    let request = 8;
    FromService::Answer(Answer { request, result })
}

#[test]
fn other_messages_from_the_service() {
    let welcome = FromService::Welcome {
        incarnation: Incarnation(3),
        term: 5,
        heartbeat_ms: 200,
        expelled: true,
    };
    assert_from_service(&welcome, "01 03000000 0500000000000000 c8000000 01");
    assert_from_service(&answer(Ok(AnswerRows::None)), "03 08000000");
    let refused = answer(Err("no".to_owned()));
    assert_from_service(&refused, "04 08000000 0200 6e6f");
    let redirect = FromService::Redirect {
        address: member().address,
    };
    assert_from_service(&redirect, "08 04 0a4e0001 8311");
}

#[test]
fn answers_to_queries() {
    let node = |region| NodeRow {
        origin: PEER,
        name: "n1".to_owned(),
        address: member().address,
        region,
        subscriptions: 1,
        publications: 2,
        away: region.map(|_| AwayReason::Silent),
        deaf: region.is_some(),
        about: region.map(|_| about()),
        rates: region.map(|_| RATES),
        grant: region.map(|_| "k".to_owned()),
        description: region.map(|_| "d".to_owned()),
    };
    assert_from_service(
        &answer(Ok(AnswerRows::Nodes(vec![
            node(Some(RegionId(4))),
            node(None),
        ]))),
        "05 08000000 02000000
         9900000000000000 02000000 0200 6e31 04 0a4e0001 8311 01 04000000 01000000 02000000 01 01 01
         01 0200 6831 0300 312e32 0700000000000000 01 09000000 0a000000 01 0100 6b 01 0100 64
         9900000000000000 02000000 0200 6e31 04 0a4e0001 8311 00 01000000 02000000 00 00 00 00 00 00",
    );
    let group = GroupRow {
        group: GroupId(7),
        name: "g".to_owned(),
        members: 1,
        regions: 2,
        publishers: 3,
    };
    assert_from_service(
        &answer(Ok(AnswerRows::Groups(vec![group]))),
        "06 08000000 01000000 07000000 0100 67 01000000 02000000 03000000",
    );
    let region = RegionRow {
        region: RegionId(4),
        view: ViewNumber(6),
        address: member().address,
        kind: RegionKind::Common,
        groups: 1,
        members: vec![member()],
    };
    assert_from_service(
        &answer(Ok(AnswerRows::Regions(vec![region]))),
        "07 08000000 01000000 04000000 06000000 04 0a4e0001 8311 02 01000000
         01000000 9900000000000000 02000000 04 0a4e0001 8311 03000000 01 06000000 01 02",
    );
}
