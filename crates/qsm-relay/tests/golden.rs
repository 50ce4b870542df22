//! Byte-exact packets, so that the format cannot change by accident (R-RELAY-1). Fields are written
//! out in the order of the drawings in PROTOCOL.md, section 10.

use qsm_relay::{
    Body, Data, Echo, Feedback, Heartbeat, Join, Joined, LEVELS_MAX, Limit, Missing, NACK_MAX,
    Nack, Packet, Parity, ROWS_MAX, Report, SessionId, VERSION, WINDOW_MAX,
};
use qsm_wire::DecodeError;

const SESSION: SessionId = SessionId {
    source: 0x1122_3344_5566_7788,
    group: 0xefc0_0001,
};
/// Source and group of [`SESSION`].
const SESSION_BYTES: &str = "8877665544332211 0100c0ef";

fn bytes_of(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b' ').collect();
    let pairs = digits.chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.map(byte).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn packet(body: Body<'_>) -> Packet<'_> {
    let session = SESSION;
    Packet { session, body }
}

fn encoded(body: Body<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet(body).encode(&mut bytes);
    bytes
}

#[track_caller]
fn assert_packet(body: Body<'_>, kind: &str, check: &str, fields: &str) {
    let expected = bytes_of(&format!("87 {kind} 0000 {check} {SESSION_BYTES} {fields}"));
    assert_eq!(hex(&encoded(body)), hex(&expected));
    assert_eq!(Packet::decode(&expected), Ok(packet(body)));
}

#[test]
fn data_and_repair() {
    let data = Data {
        sequence: 0x0203,
        released: 0x0105,
        payload: b"abc",
    };
    let fields = "0302000000000000 0501000000000000 616263";
    assert_packet(Body::Data(data), "01", "5eaa3840", fields);
    assert_packet(Body::Repair(data), "02", "a0f8a7bf", fields);
}

#[test]
fn nack_and_ack() {
    let report = Report {
        child: 0x8000_0000_0000_0009,
        first: 5,
        upto: 0x1234,
        receivers: 50,
    };
    let fields = "0900000000000080 0500000000000000 3412000000000000 32000000";
    let mut missing = Missing::one(0x1236);
    assert!(missing.push(0x1237) && missing.push(0x1240));
    let nack = Nack { report, missing };
    let ranges = "02 3612000000000000 02000000 4012000000000000 01000000";
    let all = format!("{fields} {ranges}");
    assert_packet(Body::Nack(nack), "03", "48725f6e", &all);
    assert_packet(Body::Ack(report), "04", "f0b76be8", fields);
    assert_packet(Body::Lost(nack), "0c", "48938b7b", &all);
}

#[test]
fn join_joined_and_leave() {
    let join = Join::new(0x8000_0000_0000_0009);
    assert_packet(Body::Join(join), "05", "2866cf89", "0900000000000080 00");
    let join = join.by(3).unwrap().by(7).unwrap();
    let fields = "0700000000000000 02 0900000000000080 0300000000000000";
    assert_packet(Body::Join(join), "05", "5c5f98bf", fields);
    let joined = Joined {
        first: 7,
        highest: 9,
        known: true,
        rated: true,
        parity: true,
    };
    let fields = "0700000000000000 0900000000000000 07";
    assert_packet(Body::Joined(joined), "06", "367c545a", fields);
    assert_packet(
        Body::Leave(0x8000_0000_0000_0009),
        "07",
        "da24e161",
        "0900000000000080",
    );
}

#[test]
fn heartbeat() {
    let heartbeat = Heartbeat {
        highest: 9,
        released: 4,
        finished: true,
    };
    let fields = "0900000000000000 0400000000000000 01";
    assert_packet(Body::Heartbeat(heartbeat), "08", "1c0a61de", fields);
}

#[test]
fn feedback_and_echo() {
    let feedback = Feedback {
        child: 0x8000_0000_0000_0009,
        sent: 0x8877_6655_4433_2211,
        hop_us: 1000,
        limit: Limit {
            receiver: 5,
            rate: 1_000_000,
            received: 900_000,
            highest: 0x1234,
            behind: 6,
            packets: 24,
            lost: 2,
            round_trip_us: 20_000,
            least_us: 15_000,
            capable: 0x0102,
            marked: 0x0304,
        },
    };
    let fields = "0900000000000080 1122334455667788 e8030000 0500000000000000 40420f0000000000 a0bb0d0000000000 3412000000000000 06000000 18000000 02000000 204e0000 983a0000 02010000 04030000";
    assert_packet(Body::Feedback(feedback), "09", "d0002e85", fields);
    let echo = Echo {
        sent: 0x8877_6655_4433_2211,
        above_us: 2000,
        above_least_us: 1500,
        limiting: 5,
        rate: 2_000_000,
    };
    let fields = "1122334455667788 d0070000 dc050000 0500000000000000 80841e0000000000";
    assert_packet(Body::Echo(echo), "0a", "4fd6ce75", fields);
}

#[test]
fn parity() {
    let parity = Parity {
        first: 0x0203,
        covered: 0x8001,
        row: 1,
        sum: b"fourteen bytes, abc",
    };
    let sum = "666f75727465656e 2062797465732c20 616263";
    let fields = format!("0302000000000000 0180 01 {sum}");
    assert_packet(Body::Parity(parity), "0b", "d80bc37e", &fields);
}

/// The reason why these fields are no packet, whatever the checksum.
#[track_caller]
fn assert_refused(body: Body<'_>, reason: DecodeError) {
    assert_eq!(Packet::decode(&encoded(body)), Err(reason), "{body:?}");
}

#[test]
fn fields_out_of_bounds_are_refused() {
    let data = |sequence, released| Data {
        sequence,
        released,
        payload: &[],
    };
    let heartbeat = |highest, released| Heartbeat {
        highest,
        released,
        finished: false,
    };
    let report = |first, upto| Report {
        child: 1,
        first,
        upto,
        receivers: 1,
    };
    let parity = |first, covered, row| {
        Body::Parity(Parity {
            first,
            covered,
            row,
            sum: &[0; 14],
        })
    };
    for refused in [
        parity(0, 1, 0),
        parity(u64::MAX - 16, 1, 0),
        parity(1, 2, 0),
        parity(1, 1, ROWS_MAX),
        Body::Data(data(0, 0)),
        Body::Data(data(5, 5)),
        Body::Repair(data(WINDOW_MAX + 2, 1)),
        Body::Data(data(u64::MAX, u64::MAX - 1)),
        Body::Heartbeat(heartbeat(4, 5)),
        Body::Heartbeat(heartbeat(WINDOW_MAX + 1, 0)),
        Body::Ack(report(0, 0)),
        Body::Ack(report(9, 7)),
        Body::Ack(report(1, u64::MAX)),
    ] {
        assert_refused(refused, DecodeError::BadValue);
    }
    for legal in [
        Body::Data(data(WINDOW_MAX + 1, 1)),
        Body::Heartbeat(heartbeat(0, 0)),
        Body::Ack(report(9, 8)),
        parity(u64::MAX - 17, u16::MAX, ROWS_MAX - 1),
    ] {
        assert!(Packet::decode(&encoded(legal)).is_ok(), "{legal:?}");
    }
}

#[test]
fn a_nack_holds_as_much_as_its_limits_say() {
    let mut run = Missing::one(10);
    assert!((11..10 + NACK_MAX).all(|sequence| run.push(sequence)));
    assert!(!run.push(10 + NACK_MAX), "too many packets");
    assert!(!run.push(5), "not ascending");
    let mut ranges = Missing::one(1);
    assert!((1..8).all(|step| ranges.push(1 + 2 * step)));
    assert!(!ranges.push(100), "too many ranges");
    assert_eq!(
        ranges.iter().collect::<Vec<_>>(),
        [1, 3, 5, 7, 9, 11, 13, 15]
    );
}

#[test]
fn a_join_tells_of_as_many_levels_as_its_limit_says() {
    let mut join = Join::new(1);
    for relay in 0..LEVELS_MAX as u64 {
        join = join.by(100 + relay).unwrap();
    }
    assert_eq!(join.by(5), None);
    assert_eq!((join.path()[0], join.path().len()), (1, LEVELS_MAX));
    let bytes = encoded(Body::Join(join));
    assert_eq!(Packet::decode(&bytes), Ok(packet(Body::Join(join))));
}

#[test]
fn other_versions_and_kinds_are_refused() {
    let bytes = encoded(Body::Join(Join::new(1)));
    let changed = |at: usize, value: u8| {
        let mut changed = bytes.clone();
        changed[at] = value;
        Packet::decode(&changed).map(|_| ()).unwrap_err()
    };
    assert_eq!(changed(0, 11), DecodeError::UnknownVersion);
    assert_eq!(changed(1, 0), DecodeError::UnknownKind);
    assert_eq!(changed(1, 13), DecodeError::UnknownKind);
    assert_eq!(changed(2, 1), DecodeError::BadValue);
    assert_eq!(changed(1, 7), DecodeError::Damaged);
    assert_eq!(changed(9, 0), DecodeError::Damaged);
    assert_eq!(Packet::decode(&[]), Err(DecodeError::Truncated));
    // Neither a node's packet nor QUIC's.
    assert_eq!(VERSION & 0xc0, 0x80);
}
