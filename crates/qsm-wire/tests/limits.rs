//! The limits of the format hold on both sides: encoders leave out what is too much, decoders
//! reject it (R-PKT-3).

mod support;

use qsm_wire::membership::{AnswerRows, GroupRow, QueryKind};
use qsm_wire::{
    Absent, AbsentCause, Chunk, DecodeError, GroupId, GroupNumbers, GroupQuery, GroupReply, Header,
    Heartbeat, Kind, ListQuery, ListReply, Marks, MemberIndex, Numbers, NumbersQuery, Opening,
    Packet, Parity, Part, RegionId, Request, RequestHead, SeqRange, SlotHead, StreamId, Summary,
    SummarySlot, TAIL_BYTES, Token, TokenHead, TokenWriter, ViewNumber,
};
use qsm_wire::{Origin, Ranges, Slot};
use support::dice::Dice;
use support::{Owned, draw};

fn many_ranges() -> Vec<SeqRange> {
    (0..20).map(|n| SeqRange::one(n * 10)).collect()
}

fn said(bytes: &[u8]) -> Owned {
    Owned::of(&Packet::decode(bytes).expect("legal"))
}

/// The packet with the count at this place raised by one is rejected.
fn assert_bounded(bytes: &[u8], count_at: usize) {
    let mut more = bytes.to_vec();
    more[count_at] += 1;
    more.extend_from_slice(&[0; 64]);
    let error = Packet::decode(&more).map(|packet| Owned::of(&packet));
    assert_eq!(error, Err(DecodeError::BadLength));
}

#[test]
fn requests_carry_at_most_eight_ranges_and_eight_requesters() {
    let head = RequestHead {
        stream: StreamId::default(),
        view: ViewNumber(1),
        tried: 0,
        for_itself: true,
        takes_parity: false,
    };
    let members: Vec<_> = (0..20).map(MemberIndex).collect();
    let mut bytes = Vec::new();
    Request::encode(
        &Header::default(),
        Kind::Nak,
        &head,
        &members,
        &many_ranges(),
        &mut bytes,
    );
    let Owned::Nak(request) = said(&bytes) else {
        panic!("not a NAK")
    };
    assert_eq!(request.requesters, members[..Request::REQUESTERS_MAX]);
    assert_eq!(request.ranges, many_ranges()[..Ranges::MAX]);
    assert_bounded(&bytes, 49);
    assert_bounded(&bytes, 50);
}

#[test]
fn a_parity_is_of_one_to_sixteen_packets_and_has_a_row_below_eight() {
    let decoded = |first, count, row, sum| {
        let stream = StreamId::default();
        let parity = Parity {
            stream,
            first,
            count,
            row,
            sum,
        };
        let mut bytes = Vec::new();
        parity.encode(&Header::default(), &mut bytes);
        Packet::decode(&bytes).map(|packet| Owned::of(&packet))
    };
    let sum = &[0; 6][..];
    for (first, count, row) in [(1, 1, 0), (16, 16, 7), ((1 << 63) - 1, 16, 0)] {
        assert!(decoded(first, count, row, sum).is_ok());
    }
    for (first, count) in [(0, 16), (16, 0), (1 << 63, 1)] {
        assert_eq!(decoded(first, count, 0, sum), Err(DecodeError::BadValue));
    }
    for (count, row) in [(17, 0), (16, 8), (255, 255)] {
        assert_eq!(decoded(16, count, row, sum), Err(DecodeError::BadValue));
    }
    assert_eq!(decoded(16, 16, 0, &sum[1..]), Err(DecodeError::Truncated));
}

#[test]
fn a_request_for_nothing_is_rejected() {
    let head = RequestHead {
        stream: StreamId::default(),
        view: ViewNumber(1),
        tried: 0,
        for_itself: true,
        takes_parity: false,
    };
    let mut bytes = Vec::new();
    Request::encode(&Header::default(), Kind::Pull, &head, &[], &[], &mut bytes);
    assert!(Packet::decode(&bytes).is_err());
}

#[test]
fn ranges_that_are_empty_overlap_or_overflow_are_rejected() {
    let absent = |ranges: &[(u64, u32)]| {
        let mut bytes = Vec::new();
        let (header, stream) = (Header::default(), StreamId::default());
        Absent::encode(&header, stream, AbsentCause::Gone, &[], &mut bytes);
        let count = bytes.len() - 1;
        bytes[count] = u8::try_from(ranges.len()).expect("few");
        for (first, count) in ranges {
            bytes.extend_from_slice(&first.to_le_bytes());
            bytes.extend_from_slice(&count.to_le_bytes());
        }
        Packet::decode(&bytes).map(|packet| Owned::of(&packet))
    };
    assert!(absent(&[(5, 2), (7, 1)]).is_ok());
    assert_eq!(absent(&[(5, 0)]), Err(DecodeError::BadRange));
    assert_eq!(absent(&[(5, 3), (7, 1)]), Err(DecodeError::BadRange));
    assert_eq!(absent(&[(7, 1), (5, 1)]), Err(DecodeError::BadRange));
    assert_eq!(absent(&[(u64::MAX, 1)]), Err(DecodeError::BadRange));
    assert!(absent(&[(u64::MAX - 1, 1)]).is_ok());
}

#[test]
fn heartbeats_carry_the_newest_openings() {
    let openings = (0..50).map(|n| Opening {
        view: ViewNumber(50 - n),
        start: 1,
    });
    let mut bytes = Vec::new();
    let stream = StreamId::default();
    Heartbeat::encode(&Header::default(), stream, 9, false, openings, &mut bytes);
    let Owned::Heartbeat { openings, .. } = said(&bytes) else {
        panic!("not a heartbeat")
    };
    assert_eq!(openings.len(), Heartbeat::OPENINGS_MAX);
    assert_eq!(openings[0].view, ViewNumber(50));
    assert_bounded(&bytes, 49);
}

#[test]
fn summaries_carry_at_most_thirty_six_slots() {
    let slot = SummarySlot {
        origin: Origin::default(),
        cutoff: 0,
        stable_upto: 0,
        cached_upto: 0,
    };
    let slots = core::iter::repeat_n(slot, 50);
    let mut bytes = Vec::new();
    Summary::encode(
        &Header::default(),
        RegionId(1),
        ViewNumber(1),
        1,
        slots,
        &mut bytes,
    );
    assert!(
        bytes.len() <= 1472,
        "{} bytes do not fit an Ethernet frame",
        bytes.len()
    );
    let Owned::Summary { slots, .. } = said(&bytes) else {
        panic!("not a summary")
    };
    assert_eq!(slots.len(), Summary::SLOTS_MAX);
    assert_bounded(&bytes, 40);
}

#[test]
fn tokens_stop_growing_at_their_limit() {
    let head = TokenHead {
        region: RegionId(1),
        view: ViewNumber(1),
        leader: Origin::default(),
        round: 1,
        level: 0,
        ring: 0,
        visited: 0,
        rate_packets: 0,
        credit_bytes: 0,
    };
    let slot = SlotHead {
        origin: Origin::default(),
        cutoff: 0,
        highest: 0,
        arrived: 0,
        cached: 0,
        stable: 0,
        stable_upto: 0,
        cached_upto: 0,
        losers: 0,
        naks_cut: false,
        common_cut: false,
    };
    let suspects: Vec<_> = (0..20).map(MemberIndex).collect();
    let mut bytes = vec![0xee; 3];
    let mut writer = TokenWriter::new(&Header::default(), &head, &suspects, 1472, &mut bytes);
    let ranges = many_ranges();
    let taken = (0..100)
        .take_while(|_| writer.slot(&slot, &ranges, &ranges))
        .count();
    let slot_bytes = Slot::encoded_bytes(2 * Ranges::MAX);
    let token = &bytes[3..];
    assert!(token.len() <= 1472 && token.len() + slot_bytes > 1472);
    let Owned::Token {
        suspects, slots, ..
    } = said(token)
    else {
        panic!("not a token")
    };
    assert_eq!(suspects.len(), Token::SUSPECTS_MAX);
    assert_eq!(slots.len(), taken);
    assert!(slots.iter().all(|slot| slot.naks.len() == Ranges::MAX));
    assert_bounded(token, 65);
}

#[test]
fn a_token_leaves_out_marks_that_do_not_fit() {
    let mut dice = Dice(3);
    let Owned::Token { head, slots, .. } = draw::packet(&mut dice, Kind::Token) else {
        panic!("not a token")
    };
    let slot = slots.first().expect("drawn with slots").head;
    let list = vec![7; Marks::MAX + 5];
    for (limit, fits) in [(1472, true), (1100, false)] {
        let mut bytes = Vec::new();
        let mut writer = TokenWriter::new(&Header::default(), &head, &[], limit, &mut bytes);
        assert!(writer.slot(&slot, &[], &[]));
        // Of the second list there is no slot.
        let lists = [list.as_slice(), &[1]];
        assert_eq!(writer.marks(lists.into_iter()), fits);
        assert!(bytes.len() <= limit);
        let Owned::Token { marks, .. } = said(&bytes) else {
            panic!("not a token")
        };
        let expected = if fits {
            vec![7; Marks::MAX]
        } else {
            Vec::new()
        };
        assert_eq!(marks, [expected]);
        if fits {
            assert_bounded(&bytes, bytes.len() - 8 * Marks::MAX - 1);
        }
    }
}

#[test]
fn a_token_holds_at_most_255_slots_however_long_it_may_be() {
    let head = TokenHead {
        region: RegionId(1),
        view: ViewNumber(1),
        leader: Origin::default(),
        round: 1,
        level: 0,
        ring: 0,
        visited: 0,
        rate_packets: 0,
        credit_bytes: 0,
    };
    let slot = SlotHead {
        origin: Origin::default(),
        cutoff: 0,
        highest: 0,
        arrived: 0,
        cached: 0,
        stable: 0,
        stable_upto: 0,
        cached_upto: 0,
        losers: 0,
        naks_cut: false,
        common_cut: false,
    };
    let mut bytes = Vec::new();
    let mut writer = TokenWriter::new(&Header::default(), &head, &[], usize::MAX, &mut bytes);
    assert_eq!(
        (0..300)
            .take_while(|_| writer.slot(&slot, &[], &[]))
            .count(),
        255
    );
    let Owned::Token { slots, .. } = said(&bytes) else {
        panic!("not a token")
    };
    assert_eq!(slots.len(), 255);
}

#[test]
fn chunks_tell_their_size_and_cut_what_is_too_long() {
    let content = vec![7; qsm_wire::CHUNK_LENGTH_MAX + 5];
    let chunk = |part, length: usize| Chunk {
        group: GroupId(1),
        message: 1,
        part,
        content: &content[..length],
    };
    for part in [
        Part::Whole,
        Part::First { total: 9 },
        Part::Middle,
        Part::Last,
    ] {
        let mut bytes = Vec::new();
        chunk(part, 100).encode(&mut bytes);
        assert_eq!(bytes.len(), chunk(part, 100).encoded_bytes());
    }
    let mut bytes = Vec::new();
    chunk(Part::Whole, content.len()).encode(&mut bytes);
    assert_eq!(
        bytes.len(),
        qsm_wire::CHUNK_HEADER_BYTES + qsm_wire::CHUNK_LENGTH_MAX
    );
}

#[test]
fn ranges_of_sequence_numbers_know_their_ends() {
    let range = SeqRange::new(5, 9).expect("not empty");
    assert_eq!((range.first(), range.last(), range.count()), (5, 9, 5));
    assert!(range.contains(5) && range.contains(9) && !range.contains(4) && !range.contains(10));
    assert_eq!(SeqRange::new(9, 5), None);
    let common = range.intersection(&SeqRange::new(8, 20).expect("not empty"));
    assert_eq!(common, SeqRange::new(8, 9));
    assert_eq!(range.intersection(&SeqRange::one(10)), None);
    let cut = SeqRange::new(1, u64::from(u32::MAX) + 10).expect("not empty");
    assert_eq!(cut.count(), u32::MAX);
}

// Rule R-DATA-11.
#[test]
fn numbers_that_cannot_be_are_rejected() {
    let query = NumbersQuery {
        stream: StreamId::default(),
        joined: ViewNumber(1),
        position: 9,
        from: GroupId(5),
    };
    let said = |next: Option<u32>, groups: &[(u32, u64, u64)]| {
        let groups = groups.iter().map(|(group, first, last)| GroupNumbers {
            group: GroupId(*group),
            first: *first,
            last: *last,
        });
        let (groups, mut bytes) = (groups.collect::<Vec<_>>(), Vec::new());
        let next = next.map(GroupId);
        Numbers::encode(&Header::default(), &query, next, &groups, &mut bytes);
        Packet::decode(&bytes)
            .map(|packet| Owned::of(&packet))
            .err()
    };
    let bad = Some(DecodeError::BadValue);
    assert_eq!(said(Some(8), &[(5, 1, 1), (7, 0, 4)]), None);
    assert_eq!(said(None, &[]), None);
    assert_eq!(said(None, &[(4, 1, 1)]), bad, "not asked about");
    assert_eq!(said(None, &[(6, 1, 1), (6, 1, 1)]), bad, "twice");
    assert_eq!(said(None, &[(6, 2, 1)]), bad, "the last before the first");
    assert_eq!(said(None, &[(6, 1, 1 << 63)]), bad, "too high");
    assert_eq!(said(Some(7), &[(7, 1, 1)]), bad, "in the next part too");
    assert_eq!(said(Some(5), &[]), bad, "the next part is this one");
}

#[test]
fn an_answer_names_as_many_groups_as_fit() {
    assert_eq!(Numbers::groups_within(1456), 69);
    assert_eq!(Numbers::groups_within(16_000), Numbers::GROUPS_MAX);
    let query = NumbersQuery {
        stream: StreamId::default(),
        joined: ViewNumber(1),
        position: 9,
        from: GroupId(0),
    };
    let groups = |count: u32| -> Vec<GroupNumbers> {
        let named = |group| GroupNumbers {
            group: GroupId(group),
            first: 1,
            last: 1,
        };
        (0..count).map(named).collect()
    };
    let mut bytes = Vec::new();
    Numbers::encode(&Header::default(), &query, None, &groups(69), &mut bytes);
    assert!(bytes.len() <= 1456);
    bytes.clear();
    Numbers::encode(&Header::default(), &query, None, &groups(300), &mut bytes);
    let Owned::Numbers { groups: named, .. } = said(&bytes) else {
        panic!("not an answer")
    };
    assert_eq!(named, groups(255));
}

// Rule R-MEM-18.
#[test]
fn a_part_lies_within_its_list_and_is_not_much_longer_than_the_question() {
    let mut bytes = Vec::new();
    let part = |version, total, offset| ListReply {
        nonce: 1,
        list: QueryKind::Nodes,
        version,
        total,
        offset,
        content: &[7; 4],
    };
    for (version, total, offset, fits) in [
        (1, 10, 6, true),
        (1, 10, 7, false),
        (1, u32::MAX, u32::MAX - 4, true),
        (1, u32::MAX, u32::MAX, false),
        (0, 10, 6, false),
    ] {
        bytes.clear();
        part(version, total, offset).encode(&Header::default(), &mut bytes);
        assert_eq!(Packet::decode(&bytes).is_ok(), fits, "{version} {total}");
    }
    for datagram in [512, 1472, 8972] {
        let mut query = ListQuery {
            nonce: 1,
            list: QueryKind::Nodes,
            version: 0,
            offset: 0,
            padding: ListQuery::padding_for(datagram),
        };
        // A padded question has a full datagram for its answer, a short one has not.
        assert_eq!(
            ListReply::room(&query, datagram),
            datagram - TAIL_BYTES - 49
        );
        query.padding = 0;
        assert_eq!(ListReply::room(&query, datagram), 3 * 45 - 49);
        bytes.clear();
        query.encode(&Header::default(), &mut bytes);
        assert_eq!(bytes.len(), query.datagram_bytes());
    }
    bytes.push(1);
    assert!(Packet::decode(&bytes).is_err(), "padding is zeros");
}

// Rule R-MEM-18.
#[test]
fn a_question_about_a_group_has_a_name_and_room_for_its_answer() {
    let mut bytes = Vec::new();
    for (length, fits) in [(0, false), (1, true), (255, true), (256, false)] {
        let name = "n".repeat(length);
        let query = GroupQuery {
            nonce: 1,
            name: &name,
            padding: 0,
        };
        bytes.clear();
        query.encode(&Header::default(), &mut bytes);
        assert_eq!(bytes.len(), query.datagram_bytes());
        assert_eq!(Packet::decode(&bytes).is_ok(), fits, "{length}");
    }
    for datagram in [512, 1472, 8972] {
        let padding = GroupQuery::padding_for("news", datagram);
        let mut query = GroupQuery {
            nonce: 1,
            name: "news",
            padding,
        };
        assert_eq!(
            GroupReply::room(&query, datagram),
            datagram - TAIL_BYTES - 32
        );
        query.padding = 0;
        assert_eq!(GroupReply::room(&query, datagram), 3 * 38 - 32);
    }
}

#[test]
fn a_list_is_read_whole_or_not_at_all() {
    let row = GroupRow {
        group: GroupId(4),
        name: "a".to_owned(),
        members: 1,
        regions: 2,
        publishers: 3,
    };
    let rows = AnswerRows::Groups(vec![row; 3]);
    let mut bytes = Vec::new();
    rows.encode_list(&mut bytes);
    let read = |bytes: &[u8]| AnswerRows::decode_list(QueryKind::Groups, bytes);
    assert_eq!(read(&bytes), Ok(rows));
    for end in 0..bytes.len() {
        assert!(read(&bytes[..end]).is_err(), "{end}");
    }
    bytes.push(0);
    assert_eq!(read(&bytes), Err(DecodeError::TrailingBytes));
}
