//! Packets that are proven, and those that are found forged, by their names.

use core::time::Duration;

use proptest::prelude::*;
use qsm_identity::NodeKey;
use qsm_origin::{
    Finding, SEAL_AFTER, SEAL_GROUP, Sealer, SealerError, Verdict, Verifier, WINDOW_PACKETS,
};
use qsm_wire::{
    CHECKSUM_AT, ChannelId, Chunk, Coverage, DataHeader, FLAGS_AT, GroupId, HOP_AT, Header, Hop,
    Incarnation, NodeId, Origin, Part, StreamId, ViewNumber, seal,
};

const PACKET_BYTES: usize = 1456;
const NOW: Duration = Duration::from_secs(1);

/// The maker of a stream's packets.
#[derive(Debug)]
struct Maker {
    key: NodeKey,
    header: Header,
    head: DataHeader,
    sealer: Sealer,
}

impl Maker {
    fn new() -> Self {
        Self::with(NodeKey::generate().unwrap(), 7, 1)
    }

    fn with(key: NodeKey, node: u64, life: u32) -> Self {
        let origin = Origin {
            node: NodeId(node),
            incarnation: Incarnation(life),
        };
        let header = Header {
            cluster: 11,
            origin,
            hop: Hop::Direct,
        };
        let head = DataHeader {
            channel: ChannelId(3),
            view: ViewNumber(2),
            sequence: 1,
            view_age: 0,
        };
        let sealer = Sealer::new(stream(&header, &head), PACKET_BYTES).unwrap();
        Self {
            key,
            header,
            head,
            sealer,
        }
    }

    fn verifier(&self) -> Verifier {
        let stream = stream(&self.header, &self.head);
        Verifier::new(self.header.cluster, stream, self.key.public())
    }

    fn packet(&self, group: GroupId, content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.head.encode(&self.header, &mut bytes);
        let (message, part) = (0, Part::Whole);
        Chunk {
            group,
            message,
            part,
            content,
        }
        .encode(&mut bytes);
        seal(&mut bytes, Coverage::Head);
        bytes
    }

    fn next(&mut self) {
        self.head.sequence += 1;
        self.head.view_age += 1;
    }

    fn data(&mut self) -> Vec<u8> {
        let content = format!("message {}", self.head.sequence);
        let packet = self.packet(GroupId(5), content.as_bytes());
        self.sealer.note(NOW, &packet).unwrap();
        self.next();
        packet
    }

    fn seal(&mut self) -> Vec<u8> {
        let content = self.sealer.seal(&self.key, &self.header, &self.head);
        let packet = self.packet(SEAL_GROUP, &content.unwrap());
        self.next();
        packet
    }

    /// So many packets, and their seal.
    fn train(&mut self, packets: usize) -> Vec<Vec<u8>> {
        let mut train: Vec<Vec<u8>> = (0..packets).map(|_| self.data()).collect();
        train.push(self.seal());
        train
    }
}

fn stream(header: &Header, head: &DataHeader) -> StreamId {
    StreamId {
        origin: header.origin,
        channel: head.channel,
    }
}

fn take(verifier: &mut Verifier, packet: &[u8]) -> (Verdict, Vec<Finding>) {
    let mut findings = Vec::new();
    let verdict = verifier.take(packet, &mut findings);
    (verdict, findings)
}

fn flipped(packet: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = packet.to_vec();
    bytes[at] ^= 0x10;
    bytes
}

/// Tells whether what says how a packet travels is there, which nobody signs.
fn travels(at: usize) -> bool {
    at == FLAGS_AT || at == HOP_AT || CHECKSUM_AT.contains(&at)
}

#[test]
fn what_waits_is_proven_by_its_seal_and_so_is_what_comes_after_it() {
    let mut maker = Maker::new();
    let train = maker.train(3);
    let mut verifier = maker.verifier();
    assert_eq!(take(&mut verifier, &train[0]), (Verdict::Waits, vec![]));
    assert_eq!(take(&mut verifier, &train[2]), (Verdict::Waits, vec![]));
    assert_eq!(verifier.unproven().collect::<Vec<_>>(), [1, 3]);
    let proven = |sequence| Finding {
        sequence,
        verdict: Verdict::Proven,
    };
    let (verdict, findings) = take(&mut verifier, &train[3]);
    assert_eq!(verdict, Verdict::Proven);
    assert_eq!(findings, [proven(1), proven(3)]);
    assert_eq!(take(&mut verifier, &train[1]), (Verdict::Proven, vec![]));
    assert_eq!(take(&mut verifier, &train[3]), (Verdict::Proven, vec![]));
    assert_eq!(verifier.unproven().count(), 0);
}

#[test]
fn of_two_packets_the_second_is_judged_by_the_seal_if_the_first_was_not_kept() {
    let mut maker = Maker::new();
    let train = maker.train(2);
    let mut verifier = maker.verifier();
    let forged = flipped(&train[0], train[0].len() - 1);
    assert_eq!(take(&mut verifier, &forged).0, Verdict::Waits);
    assert_eq!(take(&mut verifier, &train[1]).0, Verdict::Waits);
    assert_eq!(take(&mut verifier, &train[0]).0, Verdict::Contradicts);
    verifier.forget(1);
    assert_eq!(verifier.unproven().collect::<Vec<_>>(), [2]);
    assert_eq!(take(&mut verifier, &train[0]).0, Verdict::Waits);
    let (verdict, findings) = take(&mut verifier, &train[2]);
    assert_eq!(verdict, Verdict::Proven);
    assert!(
        findings
            .iter()
            .all(|found| found.verdict == Verdict::Proven)
    );
    assert_eq!(findings.len(), 2);
    // What a seal has spoken of is not forgotten.
    verifier.forget(1);
    assert!(verifier.is_proven(1));
}

#[test]
fn a_repair_is_proven_whatever_says_how_it_travels() {
    let mut maker = Maker::new();
    let mut train = maker.train(2);
    for packet in &mut train {
        Hop::CacherRepair.stamp(packet);
        seal(packet, Coverage::Whole);
    }
    let mut verifier = maker.verifier();
    assert_eq!(take(&mut verifier, &train[2]).0, Verdict::Proven);
    assert_eq!(take(&mut verifier, &train[0]).0, Verdict::Proven);
    assert_eq!(take(&mut verifier, &train[1]).0, Verdict::Proven);
}

#[test]
fn no_byte_of_a_packet_can_be_changed_before_or_after_its_seal() {
    let mut maker = Maker::new();
    let train = maker.train(2);
    for at in (0..train[1].len()).filter(|at| !travels(*at)) {
        let changed = flipped(&train[1], at);
        let mut verifier = maker.verifier();
        take(&mut verifier, &train[2]);
        assert_ne!(take(&mut verifier, &changed).0, Verdict::Proven, "{at}");
        assert_eq!(take(&mut verifier, &train[1]).0, Verdict::Proven, "{at}");

        let mut verifier = maker.verifier();
        let early = take(&mut verifier, &changed).0;
        assert_ne!(early, Verdict::Proven, "{at}");
        let (_, findings) = take(&mut verifier, &train[2]);
        let proven = findings
            .iter()
            .any(|found| found.verdict == Verdict::Proven);
        assert!(!proven, "{at}: {findings:?}");
        assert_eq!(take(&mut verifier, &train[1]).0, Verdict::Proven, "{at}");
    }
}

#[test]
fn no_byte_of_a_seal_can_be_changed_and_a_changed_one_leaves_no_trace() {
    let mut maker = Maker::new();
    let train = maker.train(2);
    for at in (0..train[2].len()).filter(|at| !travels(*at)) {
        let mut verifier = maker.verifier();
        take(&mut verifier, &train[0]);
        let (verdict, findings) = take(&mut verifier, &flipped(&train[2], at));
        assert_ne!(verdict, Verdict::Proven, "{at}");
        assert_eq!(findings, [], "{at}");
        let waiting = verifier.unproven().next();
        assert_eq!(waiting, Some(1), "{at}");
        let (verdict, findings) = take(&mut verifier, &train[2]);
        assert_eq!(verdict, Verdict::Proven, "{at}");
        let first = findings
            .first()
            .map(|found| (found.sequence, found.verdict));
        assert_eq!(first, Some((1, Verdict::Proven)), "{at}");
    }
}

#[test]
fn a_packet_in_the_name_of_another_is_named_by_its_number_and_the_right_one_taken() {
    let mut maker = Maker::new();
    let mut forger = Maker::new();
    let forged = forger.train(4);
    let train = maker.train(4);
    let mut verifier = maker.verifier();
    for packet in [&train[0], &train[1]] {
        take(&mut verifier, packet);
    }
    // What a member sends as the next packet of another, and as its seal.
    let mut third = forger.packet(GroupId(5), b"forged");
    third[..44].copy_from_slice(&train[2][..44]);
    assert_eq!(take(&mut verifier, &third).0, Verdict::Waits);
    assert_eq!(take(&mut verifier, &train[2]).0, Verdict::Contradicts);
    assert_eq!(take(&mut verifier, &forged[4]), (Verdict::Forged, vec![]));
    take(&mut verifier, &train[3]);
    let (_, findings) = take(&mut verifier, &train[4]);
    let found: Vec<_> = findings.iter().map(|found| found.verdict).collect();
    let good = Verdict::Proven;
    assert_eq!(found, [good, good, Verdict::Forged, good]);
    assert_eq!(findings[2].sequence, 3);
    assert_eq!(take(&mut verifier, &third).0, Verdict::Forged);
    assert_eq!(take(&mut verifier, &train[2]).0, Verdict::Proven);
    assert_eq!(take(&mut verifier, &third).0, Verdict::Forged, "later too");
}

#[test]
fn a_packet_in_the_place_of_a_seal_is_found_forged() {
    let mut maker = Maker::new();
    let mut train = maker.train(1);
    let mut verifier = maker.verifier();
    let mut forged = maker.packet(GroupId(5), b"forged");
    forged[..44].copy_from_slice(&train[1][..44]);
    assert_eq!(take(&mut verifier, &forged).0, Verdict::Waits);
    let (verdict, findings) = take(&mut verifier, &train[1]);
    assert_eq!(verdict, Verdict::Proven);
    let found = findings.iter().map(|found| (found.sequence, found.verdict));
    assert_eq!(found.collect::<Vec<_>>(), [(2, Verdict::Forged)]);
    // Nor is anything appended to one.
    train[1].push(0);
    assert_eq!(take(&mut maker.verifier(), &train[1]).0, Verdict::Forged);
}

// Rule R-SEC-31.
#[test]
fn a_packet_in_the_place_of_a_seal_that_is_lost_is_found_by_the_next_seal() {
    let mut maker = Maker::new();
    let (first, second) = (maker.train(1), maker.train(1));
    let mut forged = maker.packet(GroupId(5), b"forged");
    forged[..44].copy_from_slice(&first[1][..44]);
    let mut verifier = maker.verifier();
    for packet in [&first[0], &forged, &second[0]] {
        assert_eq!(take(&mut verifier, packet).0, Verdict::Waits);
    }
    let (_, findings) = take(&mut verifier, &second[1]);
    let found = findings.iter().map(|found| (found.sequence, found.verdict));
    let found: Vec<_> = found.collect();
    assert_eq!(found, [(2, Verdict::Forged), (3, Verdict::Proven)]);
    assert!(verifier.is_sealed_within(2, 4) && !verifier.is_sealed_within(2, 3));
    assert_eq!(take(&mut verifier, &forged).0, Verdict::Forged, "again");
    assert!(verifier.waits(1) && !verifier.is_proven(1));
    assert_eq!(take(&mut verifier, &first[1]).0, Verdict::Proven);
    assert!((1..=4).all(|sequence| verifier.is_proven(sequence)));
    assert_eq!(verifier.sealed_upto(), 4);
    verifier.forget_upto(4);
    assert!(!verifier.is_sealed_within(0, 9) && !verifier.is_proven(4));
}

#[test]
fn seals_of_another_stream_life_view_number_or_cluster_prove_nothing() {
    let mut maker = Maker::new();
    maker.data();
    let content = maker.sealer.seal(&maker.key, &maker.header, &maker.head);
    let content = content.unwrap();
    let (header, head) = (maker.header, maker.head);
    let changes: [fn(&mut Header, &mut DataHeader); 6] = [
        |header, _| header.cluster += 1,
        |header, _| header.origin.node.0 += 1,
        |header, _| header.origin.incarnation.0 += 1,
        |_, head| head.channel.0 += 1,
        |_, head| head.view.0 += 1,
        |_, head| head.sequence += 1,
    ];
    for change in changes {
        (maker.header, maker.head) = (header, head);
        change(&mut maker.header, &mut maker.head);
        let moved = maker.packet(SEAL_GROUP, &content);
        // Whoever takes it takes it for what it says it is: the key is the same.
        let (verdict, findings) = take(&mut maker.verifier(), &moved);
        assert_eq!((verdict, findings), (Verdict::Forged, vec![]));
    }
    (maker.header, maker.head) = (header, head);
    let right = maker.packet(SEAL_GROUP, &content);
    assert_eq!(take(&mut maker.verifier(), &right).0, Verdict::Proven);
    maker.header.cluster += 1;
    assert_eq!(take(&mut maker.verifier(), &right).0, Verdict::Foreign);
}

// Rule R-SEC-35.
#[test]
fn what_was_sent_before_a_stream_is_sealed_is_said_to_be_unsealed_and_nothing_else() {
    let mut maker = Maker::new();
    let plain: Vec<Vec<u8>> = (0..3)
        .map(|_| {
            let packet = maker.packet(GroupId(5), b"unsealed");
            maker.next();
            packet
        })
        .collect();
    let begin = |maker: &mut Maker, unsealed| {
        let (key, header, head) = (&maker.key, &maker.header, &maker.head);
        let content = maker.sealer.begin(key, header, head, unsealed).unwrap();
        let packet = maker.packet(SEAL_GROUP, &content);
        maker.next();
        packet
    };
    let first = begin(&mut maker, 2);
    let train = maker.train(2);
    let mut verifier = maker.verifier();
    for packet in &plain {
        assert_eq!(take(&mut verifier, packet).0, Verdict::Waits);
    }
    for at in (0..first.len()).filter(|at| !travels(*at)) {
        let verdict = take(&mut maker.verifier(), &flipped(&first, at)).0;
        assert!(verdict != Verdict::Proven && verdict != Verdict::Unsealed);
    }
    // Packet 1 is in the place of a seal: the stream was sealed up to there.
    let (verdict, findings) = take(&mut verifier, &first);
    assert_eq!(
        (verdict, findings[0].verdict),
        (Verdict::Proven, Verdict::Forged)
    );
    assert_eq!((findings.len(), findings[0].sequence), (1, 1));
    let unsealed = [2, 3].map(|number| verifier.is_unsealed(number));
    assert_eq!((unsealed, verifier.is_unsealed(4)), ([true; 2], false));
    assert!(!verifier.waits(2) && !verifier.is_proven(2));
    assert_eq!(verifier.unproven().count(), 0);
    assert_eq!(take(&mut verifier, &plain[1]).0, Verdict::Unsealed);
    for packet in &train {
        assert_ne!(take(&mut verifier, packet).0, Verdict::Forged);
    }
    assert!((5..=7).all(|number| verifier.is_proven(number)));
    verifier.forget_upto(7);
    assert!(!verifier.is_unsealed(3));
    maker.data();
    let (key, header, head) = (&maker.key, &maker.header, &maker.head);
    let noted = maker.sealer.begin(key, header, head, 8);
    assert!(matches!(noted, Err(SealerError::NotNext { .. })));
}

#[test]
fn digests_in_another_order_prove_nothing() {
    let mut maker = Maker::new();
    let mut train = maker.train(2);
    let digests = 44 + 10;
    let (first, second) = train[2][digests..].split_at_mut(16);
    first.swap_with_slice(&mut second[..16]);
    assert_eq!(take(&mut maker.verifier(), &train[2]).0, Verdict::Forged);
}

#[test]
fn a_seal_is_due_after_five_milliseconds_and_at_once_when_it_is_full() {
    let mut maker = Maker::new();
    assert_eq!(maker.sealer.due_at(), None);
    maker.data();
    assert_eq!(maker.sealer.due_at(), Some(NOW + SEAL_AFTER));
    while !maker.sealer.is_full() {
        maker.data();
    }
    assert_eq!(maker.sealer.due_at(), Some(NOW));
    let more = maker.packet(GroupId(5), b"one more");
    assert_eq!(maker.sealer.note(NOW, &more), Err(SealerError::Full));
    let seal = maker.seal();
    assert!(seal.len() <= PACKET_BYTES && seal.len() + 16 > PACKET_BYTES);
    assert_eq!(maker.sealer.due_at(), None);
    let nothing = maker.sealer.seal(&maker.key, &maker.header, &maker.head);
    assert_eq!(nothing, Err(SealerError::Nothing));
    maker.data();
    assert_eq!(maker.sealer.due_at(), Some(NOW + SEAL_AFTER));
}

#[test]
fn seals_fit_their_packets_and_are_for_512_kibibytes_at_most() {
    let stream = stream(&Maker::new().header, &Maker::new().head);
    let most = |bytes| Sealer::new(stream, bytes).map(|sealer| sealer.packets_max());
    let packet_bytes = 133;
    assert_eq!(most(133), Err(SealerError::NoRoom { packet_bytes }));
    assert_eq!(most(134), Ok(1));
    assert_eq!(most(1456), Ok(83));
    assert_eq!(most(8956), Ok(58));
    assert_eq!(most(65_000), Ok(8));
    let fewer = |packets| {
        let sealer = Sealer::new(stream, 1456).unwrap();
        sealer.at_most(packets).packets_max()
    };
    assert_eq!([0, 10, 100].map(fewer), [1, 10, 83]);
}

#[test]
fn a_sealer_takes_the_packets_of_its_stream_in_order_only() {
    let mut maker = Maker::new();
    maker.data();
    maker.head.sequence = 3;
    let skipping = maker.packet(GroupId(5), b"");
    let (expected, got) = (2, 3);
    let error = SealerError::NotNext { expected, got };
    assert_eq!(maker.sealer.note(NOW, &skipping), Err(error));
    let nothing = maker.sealer.seal(&maker.key, &maker.header, &maker.head);
    assert_eq!(nothing, Err(error));
    maker.head.sequence = 2;
    maker.head.channel.0 += 1;
    let other = maker.packet(GroupId(5), b"");
    assert_eq!(
        maker.sealer.note(NOW, &other),
        Err(SealerError::OtherStream)
    );
    assert_eq!(maker.sealer.note(NOW, b""), Err(SealerError::OtherStream));
}

#[test]
fn the_same_packets_and_key_give_the_same_seal() {
    let first = Maker::new();
    let key = first.key.to_text().parse().unwrap();
    let (mut first, mut second) = (first, Maker::with(key, 7, 1));
    assert_eq!(first.train(5), second.train(5));
}

#[test]
fn a_verifier_keeps_a_bounded_window_and_forgets_what_it_is_told_to() {
    let mut maker = Maker::new();
    let mut verifier = maker.verifier();
    let window = u64::try_from(WINDOW_PACKETS).unwrap();
    maker.head.sequence = window + 1;
    let beyond = maker.packet(GroupId(5), b"");
    assert_eq!(take(&mut verifier, &beyond).0, Verdict::Beyond);
    maker.head.sequence = window;
    let last = maker.packet(GroupId(5), b"");
    assert_eq!(take(&mut verifier, &last).0, Verdict::Waits);
    assert_eq!(verifier.unproven().collect::<Vec<_>>(), [window]);
    verifier.forget_upto(window);
    assert_eq!(verifier.unproven().count(), 0);
    assert_eq!(take(&mut verifier, &last).0, Verdict::Past);
    assert_eq!(take(&mut verifier, &beyond).0, Verdict::Waits);
    verifier.forget_upto(1);
    assert_eq!(verifier.unproven().count(), 1);
    verifier.forget_upto(u64::MAX);
    assert_eq!(verifier.unproven().count(), 0);
    assert_eq!(take(&mut verifier, &beyond).0, Verdict::Past);
}

#[test]
fn printing_an_error_says_what_to_do() {
    let error = SealerError::NoRoom { packet_bytes: 100 };
    let text = "packets of 100 bytes are too short for a seal: let them have 134 or more";
    assert_eq!(error.to_string(), text);
}

/// Fate of a packet on its way, in drawn runs.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Comes,
    Late,
    ForgedFirst,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn drawn_bytes_and_cut_seals_prove_nothing(
        content in prop::collection::vec(any::<u8>(), 0..300),
        cut in 0_usize..400,
    ) {
        let mut maker = Maker::new();
        let seal = maker.train(3).pop().unwrap();
        let drawn = maker.packet(SEAL_GROUP, &content);
        for bytes in [&drawn[..], &seal[..cut.min(seal.len() - 1)]] {
            let (verdict, findings) = take(&mut maker.verifier(), bytes);
            prop_assert!(matches!(verdict, Verdict::Forged | Verdict::Foreign | Verdict::Waits));
            prop_assert_eq!(findings, []);
        }
    }

    #[test]
    fn in_drawn_orders_every_packet_is_proven_once_and_no_forged_one_ever(
        fates in prop::collection::vec(
            prop_oneof![Just(Fate::Comes), Just(Fate::Late), Just(Fate::ForgedFirst)],
            1..80,
        ),
        every in 1_usize..20,
    ) {
        let mut maker = Maker::new();
        let mut verifier = maker.verifier();
        let mut proven = Vec::new();
        let mut forged = Vec::new();
        let mut waiting = Vec::new();
        let mut judge = |packet: &[u8]| {
            let mut findings = Vec::new();
            let verdict = verifier.take(packet, &mut findings);
            for found in findings {
                match found.verdict {
                    Verdict::Proven => proven.push(found.sequence),
                    _ => forged.push(found.sequence),
                }
            }
            verdict
        };
        let mut late = Vec::new();
        let mut packets = Vec::new();
        for train in fates.chunks(every) {
            for fate in train {
                packets.push((*fate, maker.data()));
            }
            packets.push((train[0], maker.seal()));
        }
        for (at, (fate, packet)) in packets.iter().enumerate() {
            let sequence = u64::try_from(at + 1).unwrap();
            match fate {
                Fate::Late => late.push((sequence, packet)),
                Fate::Comes => waiting.push((sequence, judge(packet))),
                Fate::ForgedFirst => {
                    let last = packet.len() - 1;
                    prop_assert_ne!(judge(&flipped(packet, last)), Verdict::Proven);
                    late.push((sequence, packet));
                }
            }
        }
        // Twice: where a forged one was first, the right one is told apart by the seal only.
        for (sequence, packet) in late.iter().rev().chain(late.iter()) {
            waiting.push((*sequence, judge(packet)));
        }
        let at_once = waiting.iter().filter(|(_, verdict)| *verdict == Verdict::Proven);
        proven.extend(at_once.map(|(sequence, _)| *sequence));
        proven.sort_unstable();
        proven.dedup();
        let all: Vec<u64> = (1..=u64::try_from(packets.len()).unwrap()).collect();
        prop_assert_eq!(proven, all);
        for sequence in forged {
            let (fate, _) = packets[usize::try_from(sequence - 1).unwrap()];
            prop_assert!(matches!(fate, Fate::ForgedFirst), "{}", sequence);
        }
        prop_assert_eq!(verifier.unproven().count(), 0);
    }
}

#[test]
fn packets_that_nobody_has_sent_are_forgotten_and_those_that_a_seal_speaks_of_are_not() {
    let mut maker = Maker::new();
    let mut verifier = maker.verifier();
    let mut findings = Vec::new();
    let mut sent = maker.train(2);
    sent.push(maker.data());
    let verdicts = sent
        .iter()
        .map(|packet| verifier.take(packet, &mut findings));
    assert_eq!(verdicts.last(), Some(Verdict::Waits));
    verifier.forget_above(1);
    assert!(verifier.is_proven(2) && verifier.is_proven(3));
    assert_eq!(verifier.unproven().next(), None);
    findings.clear();
    let seal = maker.seal();
    assert_eq!(verifier.take(&seal, &mut findings), Verdict::Proven);
    assert_eq!(findings, []);
    assert_eq!(verifier.take(&sent[3], &mut findings), Verdict::Proven);
}
