//! The dissector in tshark: it shows what a node's decoder reads, and refuses what that refuses.

mod capture;
mod expected;
mod shown;
#[path = "../../../qsm-wire/tests/support/mod.rs"]
mod support;

use std::net::SocketAddr;

use qsm_wire::membership::{AnswerRows, FromService, GroupAnswer, QueryKind, ToService};
use qsm_wire::{Frame, FrameHead, GroupReply, Header, Kind, ListReply, NodeId, Origin, Packet};
use support::dice::Dice;
use support::listed::listed;
use support::{draw, message};

use crate::capture::{Datagram, datagram, from_service};
use crate::expected::{Sheet, Value};
use crate::shown::{Leaf, Shown, show, tshark};

/// Every datagram of these tests, whatever is in it.
const AS_QSM: [&str; 2] = ["-d", "udp.port==4481,qsm"];

/// Drawn packets of each kind that are compared field by field.
const DRAWN: u64 = 40;
/// Changed packets, and changed messages of each direction.
const CHANGED: usize = 6000;

/// Fields that say again how many bytes or entries there are, or that nobody sends.
const UNCOMPARED: [&str; 7] = [
    "qsm.version",
    "qsm.kind",
    "qsm.flags",
    "qsm.checksum",
    "qsm.content",
    "qsm.train",
    "qsm.frames",
];

fn is_group(leaf: &Leaf) -> bool {
    leaf.show.is_empty() && leaf.bytes.is_empty()
}

fn compare(shown: &[&Leaf], expected: &Sheet, what: &str) {
    for (leaf, (name, value)) in shown.iter().zip(&expected.0) {
        assert_eq!(&leaf.name, name, "{what}");
        match value {
            Value::Text(text) => assert_eq!(&leaf.show, text, "{what}: {name}"),
            Value::Bytes(digits) => assert_eq!(&leaf.bytes, digits, "{what}: {name}"),
            Value::Address(address) => {
                assert_eq!(address_of(&leaf.show), *address, "{what}: {name}");
            }
        }
    }
    assert_eq!(shown.len(), expected.0.len(), "{what}");
}

/// An address, with or without a port.
fn address_of(text: &str) -> SocketAddr {
    text.parse()
        .unwrap_or_else(|_| SocketAddr::new(text.parse().expect("an address"), 0))
}

fn leaves(shown: &Shown) -> Vec<&Leaf> {
    let leaves = shown.leaves.iter().filter(|leaf| !is_group(leaf));
    leaves
        .filter(|leaf| !UNCOMPARED.contains(&leaf.name.as_str()))
        .collect()
}

fn only(packets: &[Shown]) -> &Shown {
    assert_eq!(packets.len(), 1, "{packets:?}");
    &packets[0]
}

/// Compares a legal packet with what the decoder reads in it; the message of a session is left out.
fn compare_packet(bytes: &[u8], shown: &Shown) {
    let packet = Packet::decode(bytes).expect("a legal packet");
    let kind = Kind::peek(bytes).expect("a kind");
    assert_eq!(shown.refusal(), None, "{kind:?}");
    assert_eq!(shown.values_of("kind"), [(kind as u8).to_string()]);
    assert!(
        shown.title.contains(&format!(" {kind:?} by ")),
        "{}",
        shown.title
    );
    let mut expected = expected::of_packet(&packet);
    expected.0.retain(|(name, _)| name != "qsm.content");
    let count = expected.0.len();
    // Chunks of padding are shown, and carry nothing.
    let mut leaves = without_padding(leaves(shown));
    if [Kind::Session, Kind::ListReply, Kind::GroupReply].contains(&kind) {
        leaves.truncate(count);
    }
    compare(&leaves, &expected, &format!("{kind:?}"));
}

fn without_padding(leaves: Vec<&Leaf>) -> Vec<&Leaf> {
    let mut kept = Vec::new();
    let mut padding = false;
    for leaf in leaves {
        if leaf.name == "qsm.chunk.group" {
            padding = leaf.show == u32::MAX.to_string();
        }
        if !(padding && leaf.name.starts_with("qsm.chunk.")) {
            kept.push(leaf);
        }
    }
    kept
}

#[test]
fn golden_packets_are_shown_with_every_field() {
    if !shown::ready() {
        return;
    }
    let packets = listed("packet");
    let datagrams: Vec<Datagram> = packets.iter().map(|bytes| datagram(bytes)).collect();
    let shown = show(&datagrams, &AS_QSM);
    for (bytes, shown) in packets.iter().zip(&shown) {
        compare_packet(bytes, only(shown));
    }
    for kind in Kind::ALL {
        let found = packets.iter().any(|bytes| Kind::peek(bytes) == Some(*kind));
        assert!(found, "{kind:?} is not among the golden packets");
    }
}

#[test]
fn drawn_packets_are_shown_with_every_field() {
    if !shown::ready() {
        return;
    }
    let packets: Vec<Vec<u8>> = Kind::ALL
        .iter()
        .flat_map(|kind| (0..DRAWN).map(move |seed| (kind, seed)))
        .map(|(kind, seed)| {
            let mut dice = Dice(seed);
            let header = draw::header(&mut dice);
            draw::packet(&mut dice, *kind).encode(&header)
        })
        .filter(|bytes| bytes.len() < 60_000)
        .collect();
    let datagrams: Vec<Datagram> = packets.iter().map(|bytes| datagram(bytes)).collect();
    for (bytes, shown) in packets.iter().zip(show(&datagrams, &AS_QSM)) {
        compare_packet(bytes, only(&shown));
    }
}

/// Damage may have made two legal packets of one.
fn compare_train(bytes: &[u8], shown: &[Shown]) {
    let mut rest = bytes;
    for packet in shown {
        let (first, behind) = rest.split_at(packet.size);
        compare_packet(first, packet);
        rest = behind;
    }
    assert_eq!(rest, []);
}

/// All packets that begin like a golden one and end too early, and many that are damaged.
#[test]
fn what_a_node_refuses_is_refused() {
    if !shown::ready() {
        return;
    }
    let golden = listed("packet");
    let mut packets: Vec<Vec<u8>> = Vec::new();
    for bytes in &golden {
        packets.extend((1..bytes.len()).map(|length| bytes[..length].to_vec()));
    }
    let mut dice = Dice(0x5eed_0011);
    for number in 0..CHANGED {
        let kind = Kind::ALL[dice.below(Kind::ALL.len())];
        let header = draw::header(&mut dice);
        let mut bytes = match number % 2 {
            0 => golden[dice.below(golden.len())].clone(),
            _ => draw::packet(&mut dice, kind).encode(&header),
        };
        dice.mutate(&mut bytes);
        packets.push(bytes);
    }
    packets.retain(|bytes| !bytes.is_empty() && bytes.len() < 60_000);
    let datagrams: Vec<Datagram> = packets.iter().map(|bytes| datagram(bytes)).collect();
    let shown = show(&datagrams, &AS_QSM);
    let (mut refused, mut accepted) = (0, 0);
    for (bytes, shown) in packets.iter().zip(&shown) {
        let decoded = Packet::decode(bytes);
        if shown.len() > 1 {
            compare_train(bytes, shown);
            continue;
        }
        let shown = only(shown);
        assert_eq!(
            shown.refusal().is_some(),
            decoded.is_err(),
            "{decoded:?} {shown:?} {bytes:02x?}"
        );
        match decoded {
            Ok(_) => {
                compare_packet(bytes, shown);
                accepted += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 1000 && accepted > 1000, "{refused} {accepted}");
}

/// A frame that is the first of its session, with a whole message.
fn frame(session: usize, content: &[u8]) -> Vec<u8> {
    framed(session, 1, false, content)
}

fn framed(session: usize, number: u64, more: bool, content: &[u8]) -> Vec<u8> {
    let head = FrameHead {
        session: u64::try_from(session).unwrap(),
        number,
        heard_upto: 0,
        more,
    };
    let mut bytes = Vec::new();
    Frame { head, content }.encode(&Header::default(), &mut bytes);
    bytes
}

/// Fields shown of the message behind the frame that carries it.
fn message_leaves<'a>(shown: &'a Shown, name: &str) -> Vec<&'a Leaf> {
    let leaves = leaves(shown);
    let start = leaves.iter().position(|leaf| leaf.name == name);
    leaves[start.unwrap_or(leaves.len())..].to_vec()
}

fn to_service_sheet(bytes: &[u8]) -> Option<Sheet> {
    let message = ToService::decode(bytes).ok()?;
    Some(expected::of_request_message(&message))
}

fn from_service_sheet(bytes: &[u8]) -> Option<Sheet> {
    let message = FromService::decode(bytes).ok()?;
    Some(expected::of_answer_message(&message))
}

/// Compares messages with what the decoder reads in them, and counts those that it refuses.
fn compare_messages(messages: &[Vec<u8>], from: bool) -> usize {
    let one = |(session, bytes): (usize, &Vec<u8>)| match from {
        true => from_service(&frame(session, bytes)),
        false => datagram(&frame(session, bytes)),
    };
    let datagrams: Vec<Datagram> = messages.iter().enumerate().map(one).collect();
    let mut refused = 0;
    for (bytes, shown) in messages.iter().zip(show(&datagrams, &AS_QSM)) {
        let shown = only(&shown);
        let (own, other) = (to_service_sheet(bytes), from_service_sheet(bytes));
        let (first, second) = if from { (other, own) } else { (own, other) };
        let Some(expected) = first.or(second) else {
            assert_eq!(shown.experts, ["error.message"], "{bytes:02x?}");
            refused += 1;
            continue;
        };
        assert!(shown.experts.is_empty(), "{shown:?} {bytes:02x?}");
        let name = &expected.0[0].0;
        compare(&message_leaves(shown, name), &expected, name);
    }
    refused
}

#[test]
fn golden_messages_are_shown_with_every_field() {
    if !shown::ready() {
        return;
    }
    assert_eq!(compare_messages(&listed("to-service"), false), 0);
    assert_eq!(compare_messages(&listed("from-service"), true), 0);
}

#[test]
fn drawn_and_damaged_messages_are_shown_or_refused() {
    if !shown::ready() {
        return;
    }
    let mut dice = Dice(0x5eed_0012);
    for from in [false, true] {
        let mut messages = Vec::new();
        for number in 0..CHANGED / 3 {
            let mut bytes = Vec::new();
            match from {
                true => message::from_service(&mut dice, number % message::FROM_SERVICE)
                    .encode(&mut bytes),
                false => {
                    message::to_service(&mut dice, number % message::TO_SERVICE).encode(&mut bytes);
                }
            }
            if number % 3 > 0 {
                dice.mutate(&mut bytes);
            }
            messages.push(bytes);
        }
        let refused = compare_messages(&messages, from);
        let limits = messages.len() / 20..messages.len() / 3 * 2;
        assert!(limits.contains(&refused), "{refused}");
    }
}

#[test]
fn messages_of_several_frames_are_put_together() {
    if !shown::ready() {
        return;
    }
    let hello = listed("to-service")
        .into_iter()
        .max_by_key(Vec::len)
        .expect("there are some");
    let (head, tail) = hello.split_at(hello.len() / 2);
    let (middle, tail) = tail.split_at(tail.len() / 2);
    let frames = [
        framed(1, 4, true, head),
        framed(1, 5, true, middle),
        framed(1, 6, false, tail),
        // The first part is missing.
        framed(2, 6, false, tail),
    ];
    let shown = show(&frames.map(|bytes| datagram(&bytes)), &AS_QSM);
    for shown in &shown[..2] {
        assert!(message_leaves(only(shown), "qsm.to_service").is_empty());
    }
    let whole = only(&shown[2]);
    assert_eq!(whole.values_of("frames"), ["3"]);
    let expected = to_service_sheet(&hello).expect("legal");
    compare(&message_leaves(whole, "qsm.to_service"), &expected, "hello");
    assert_eq!(only(&shown[3]).experts, ["incomplete"]);
}

#[test]
fn a_whole_list_is_shown_with_its_rows() {
    if !shown::ready() {
        return;
    }
    let answers = listed("from-service");
    for (tag, list) in [
        (5, QueryKind::Nodes),
        (6, QueryKind::Groups),
        (7, QueryKind::Regions),
    ] {
        let answer = answers
            .iter()
            .find(|bytes| bytes[0] == tag)
            .expect("listed");
        let rows = &answer[5..];
        let reply = |total: usize, content: &[u8]| {
            let reply = ListReply {
                nonce: 1,
                list,
                version: 1,
                total: u32::try_from(total).unwrap(),
                offset: 0,
                content,
            };
            let mut bytes = Vec::new();
            reply.encode(&Header::default(), &mut bytes);
            datagram(&bytes)
        };
        let damaged = &rows[..rows.len() - 1];
        let shown = show(
            &[
                reply(rows.len(), rows),
                reply(rows.len(), damaged),
                reply(damaged.len(), damaged),
            ],
            &AS_QSM,
        );
        let decoded = AnswerRows::decode_list(list, rows).expect("legal");
        let mut expected = Sheet::default();
        expected::of_rows(&mut expected, &decoded);
        let name = &expected.0[0].0.clone();
        compare(&message_leaves(only(&shown[0]), name), &expected, name);
        assert_eq!(only(&shown[1]).experts, ["incomplete"]);
        assert_eq!(only(&shown[2]).experts, ["error.rows"]);
    }
}

#[test]
fn an_answer_on_a_group_is_shown_with_its_fields() {
    if !shown::ready() {
        return;
    }
    let mut dice = Dice(0x5eed_0013);
    let mut answers: Vec<Vec<u8>> = Vec::new();
    for number in 0..400 {
        let mut answer = Vec::new();
        message::group_answer(&mut dice).encode(&mut answer);
        if number % 2 > 0 {
            dice.mutate(&mut answer);
        }
        answers.push(answer);
    }
    let reply = |answer: &Vec<u8>| {
        let mut bytes = Vec::new();
        let reply = GroupReply { nonce: 1, answer };
        reply.encode(&Header::default(), &mut bytes);
        datagram(&bytes)
    };
    let datagrams: Vec<Datagram> = answers.iter().map(reply).collect();
    let (mut legal, mut refused) = (0, 0);
    for (bytes, shown) in answers.iter().zip(show(&datagrams, &AS_QSM)) {
        let shown = only(&shown);
        let Ok(answer) = GroupAnswer::decode(bytes) else {
            assert_eq!(shown.experts, ["error.answer"], "{bytes:02x?}");
            refused += 1;
            continue;
        };
        assert!(shown.experts.is_empty(), "{shown:?} {bytes:02x?}");
        let expected = expected::of_group_answer(&answer);
        let leaves = message_leaves(shown, &expected.0[0].0);
        compare(&leaves, &expected, &format!("{answer:?}"));
        legal += 1;
    }
    assert!(legal > 200 && refused > 20, "{legal} {refused}");
}

/// Datagrams that the kernel has put together, or not divided yet.
#[test]
fn packets_of_a_train_are_shown_one_by_one() {
    if !shown::ready() {
        return;
    }
    let golden = listed("packet");
    let data = golden
        .iter()
        .find(|bytes| Kind::peek(bytes) == Some(Kind::Data))
        .expect("listed");
    let mut dice = Dice(7);
    let mut other = draw::packet(&mut dice, Kind::Data).encode(&Header {
        cluster: 0xc1c2_c3c4,
        origin: Origin {
            node: NodeId(9),
            ..Origin::default()
        },
        ..Header::default()
    });
    other.truncate(data.len());
    let solicit = golden
        .iter()
        .find(|bytes| Kind::peek(bytes) == Some(Kind::Solicit))
        .expect("listed");
    let trains = [
        vec![data, data, data],
        vec![data, data, solicit],
        vec![solicit, solicit],
    ];
    let datagrams = trains.iter().map(|train| {
        let bytes: Vec<u8> = train
            .iter()
            .flat_map(|bytes| bytes.iter().copied())
            .collect();
        datagram(&bytes)
    });
    let datagrams: Vec<Datagram> = datagrams.collect();
    for (train, shown) in trains.iter().zip(show(&datagrams, &AS_QSM)) {
        assert_eq!(shown.len(), train.len());
        for (bytes, shown) in train.iter().zip(&shown) {
            compare_packet(bytes, shown);
        }
    }
    let lines = tshark(&datagrams, &AS_QSM);
    assert_eq!(lines.matches("Train of 3: Data").count(), 2, "{lines}");
    assert_eq!(lines.matches("Train of 2: Solicit").count(), 1, "{lines}");
}

/// A capture may keep the head of each packet only.
#[test]
fn a_packet_that_the_capture_has_cut_is_no_fault_of_its_sender() {
    if !shown::ready() {
        return;
    }
    let packets = listed("packet");
    let cut: Vec<Datagram> = packets
        .iter()
        .flat_map(|bytes| (1..bytes.len()).map(move |kept| (bytes, kept)))
        .map(|(bytes, kept)| Datagram {
            kept: Some(kept),
            ..datagram(bytes)
        })
        .collect();
    for (datagram, shown) in cut.iter().zip(show(&cut, &AS_QSM)) {
        let kind = Kind::peek(&datagram.content);
        assert_eq!(
            only(&shown).experts,
            ["cut"],
            "{kind:?} {:?}",
            datagram.kept
        );
    }
}

#[test]
fn packets_on_any_port_are_recognised() {
    if !shown::ready() {
        return;
    }
    let packets = listed("packet");
    let anywhere = |bytes: &Vec<u8>| Datagram {
        from_port: 40_001,
        to_port: 40_002,
        ..datagram(bytes)
    };
    let mut datagrams: Vec<Datagram> = packets.iter().map(anywhere).collect();
    datagrams.push(anywhere(
        &b"another protocol that has nothing to do with it".to_vec(),
    ));
    let mut shown = show(&datagrams, &[]);
    assert!(shown.pop().is_some_and(|foreign| foreign.is_empty()));
    assert!(shown.iter().all(|packets| packets.len() == 1));
}

/// Display filters as in docs/operate/dissector.md.
#[test]
fn every_packet_is_found_by_its_fields() {
    if !shown::ready() {
        return;
    }
    let packets = listed("packet");
    let datagrams: Vec<Datagram> = packets.iter().map(|bytes| datagram(bytes)).collect();
    let count = |filter: &str| {
        let options = ["-d", "udp.port==4481,qsm", "-Y", filter];
        tshark(&datagrams, &options).lines().count()
    };
    let of_kind = |kind: Kind| {
        let kinds = packets
            .iter()
            .filter(|bytes| Kind::peek(bytes) == Some(kind));
        kinds.count()
    };
    assert_eq!(count("qsm"), packets.len());
    assert_eq!(count("qsm.kind == \"Token\""), of_kind(Kind::Token));
    assert_eq!(count("qsm.hearing == \"deaf\""), 1);
    assert_eq!(count("qsm.chunk.group == 7"), of_kind(Kind::Data));
    assert_eq!(count("qsm.range.first <= 11 and qsm.range.count >= 2"), 5);
    assert_eq!(
        count("qsm.stream == \"99.2\" and qsm.channel == 10"),
        count("qsm.stream")
    );
    assert_eq!(
        count("qsm.address.ip == 10.78.0.1 and qsm.address.port == 4483"),
        2
    );
    assert_eq!(count("_ws.malformed"), 0);
}
