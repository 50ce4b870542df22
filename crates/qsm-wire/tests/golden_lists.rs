//! Lists for those who are no nodes, what nodes say of themselves and their regions, what sockets say of
//! keys, the rate below which no sender is held, and the proof that is demanded, byte by byte; the rest is
//! in `golden.rs`. `golden.txt` has the bytes of both.

mod support;

use qsm_wire::membership::{
    About, DESCRIPTION_BYTES_MAX, FromService, GroupAnswer, GroupDecision, GroupRate, GroupRates,
    GroupWay, NearRegion, OriginDemand, PlanLimits, QueryKind, Rates, RegionDecision, RegionHints,
    RegionKind, Signer, Strain, ToService, Update, is_description,
};
use qsm_wire::{
    AdmissionStage, GroupId, Header, Hop, Incarnation, Kind, ListQuery, ListReply, NodeId, Origin,
    Packet, RegionId,
};
use support::Owned;
use support::listed::{assert_listed, listed};

const HEADER: Header = Header {
    cluster: 0xc1c2_c3c4,
    origin: Origin {
        node: NodeId(0x1122_3344_5566_7788),
        incarnation: Incarnation(3),
    },
    hop: Hop::Direct,
};

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex
        .chars()
        .filter_map(|letter| letter.to_digit(16))
        .collect();
    let pairs = digits.chunks(2);
    pairs
        .map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap())
        .collect()
}

#[track_caller]
fn assert_packet(kind: &str, body: &Owned, fields: &str) {
    let rest = "00 c4c3c2c1 8877665544332211 03000000 00000000";
    let expected = bytes_of(&format!("11 {kind} 00 {rest} {fields}"));
    assert_eq!(body.encode(&HEADER), expected);
    assert_listed("packet", &expected);
    let packet = Packet::decode(&expected).expect("legal");
    assert_eq!((packet.header, Owned::of(&packet)), (HEADER, body.clone()));
}

#[track_caller]
fn assert_to_service(message: &ToService, fields: &str) {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    assert_eq!(bytes, bytes_of(fields));
    assert_listed("to-service", &bytes);
    assert_eq!(ToService::decode(&bytes).as_ref(), Ok(message));
}

// Rule R-MEM-18.
#[test]
fn questions_for_lists_and_their_parts() {
    let query = ListQuery {
        nonce: 0x0807_0605_0403_0201,
        list: QueryKind::Groups,
        version: 9,
        offset: 0x0578,
        padding: 3,
    };
    let fields = "0102030405060708 02 0900000000000000 78050000";
    assert_packet("17", &Owned::ListQuery(query), &format!("{fields} 000000"));
    let unpadded = ListQuery {
        padding: 0,
        ..query
    };
    assert_packet("17", &Owned::ListQuery(unpadded), fields);
    for (list, byte) in [(QueryKind::Nodes, "01"), (QueryKind::Regions, "03")] {
        let head = ListReply {
            nonce: query.nonce,
            list,
            version: 9,
            total: 0x057b,
            offset: 0x0578,
            content: &[],
        };
        let reply = Owned::ListReply(head, vec![7, 8, 9]);
        let fields = format!("0102030405060708 {byte} 0900000000000000 7b050000 78050000 070809");
        assert_packet("18", &reply, &fields);
    }
}

fn decision() -> GroupDecision {
    let ways = vec![
        GroupWay::Exact {
            packets: 2,
            cost_ns: 5,
        },
        GroupWay::Copies {
            packets: 3,
            cost_ns: 6,
        },
        GroupWay::Common {
            packets: 1,
            cost_ns: 7,
            groups: 8,
            saved: 9,
            spent: 10,
        },
        GroupWay::Merged {
            packets: 1,
            cost_ns: 11,
            unwanted_ppm: 12,
        },
    ];
    let region = RegionDecision {
        region: RegionId(4),
        kind: RegionKind::Merged,
        members: 3,
        receivers: 2,
        groups: 6,
        unwanted_ppm: 7,
        hints: RegionHints {
            domain: Some("red".to_owned()),
            compartment: 1,
            together: true,
        },
        nearest: Some(NearRegion {
            region: RegionId(5),
            unwanted_ppm: 8,
        }),
    };
    GroupDecision {
        group: GroupId(7),
        receivers: 3,
        publishers: 1,
        packets: 2,
        cost_ns: 13,
        rate: Some(2500),
        limits: Some(PlanLimits {
            unwanted_ppm: 9,
            common: Some(10),
        }),
        pin: Some("fast".to_owned()),
        regions: vec![region],
        left_out: 1,
        ways,
    }
}

// Rule R-MEM-18.
#[test]
fn questions_about_a_group_and_their_answers() {
    let (nonce, padding) = (0x0807_0605_0403_0201, 3);
    let name = "news".to_owned();
    let query = Owned::GroupQuery {
        nonce,
        name,
        padding,
    };
    assert_packet("19", &query, "0102030405060708 0400 6e657773 000000");
    let decision = Some(decision());
    for (decision, fields) in [
        (None, "00"),
        (
            decision,
            "01 07000000 03000000 01000000 02000000 0d00000000000000 01 c4090000 \
             01 09000000 01 0a000000 01 0400 66617374 \
             01000000 04000000 03 03000000 02000000 06000000 07000000 \
             01 0300 726564 01000000 01 01 05000000 08000000 01000000 \
             04000000 01 02000000 0500000000000000 02 03000000 0600000000000000 \
             03 01000000 0700000000000000 08000000 0900000000000000 0a00000000000000 \
             04 01000000 0b00000000000000 0c000000",
        ),
    ] {
        let mut answer = Vec::new();
        let said = GroupAnswer { decision };
        said.encode(&mut answer);
        assert_eq!(GroupAnswer::decode(&answer), Ok(said));
        let reply = Owned::GroupReply { nonce, answer };
        assert_packet("1a", &reply, &format!("0102030405060708 {fields}"));
    }
}

// Rule R-MEM-19.
#[test]
fn a_nodes_word_on_its_regions() {
    let deaf = ToService::Deaf {
        region: RegionId(4),
        speaker: Origin {
            node: NodeId(0x99),
            incarnation: Incarnation(2),
        },
        deaf: true,
    };
    assert_to_service(&deaf, "09 04000000 9900000000000000 02000000 01");
    let strained = ToService::Strained {
        region: RegionId(4),
        strain: Strain {
            behind: 95,
            held: 3,
        },
    };
    assert_to_service(&strained, "0a 04000000 5f 03");
    let foreign = ToService::Foreign {
        region: RegionId(4),
    };
    assert_to_service(&foreign, "0e 04000000");
}

// Rule R-VIEW-16.
#[test]
fn a_senders_last_word_on_those_that_are_away() {
    let origin = Origin {
        node: NodeId(0x99),
        incarnation: Incarnation(2),
    };
    let members = vec![origin];
    let word = ToService::NothingOwed { members };
    assert_to_service(&word, "0f 01000000 9900000000000000 02000000");
    let updates = vec![Update::NothingOwed { origin }];
    let message = FromService::Batch { number: 9, updates };
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    let fields = "02 0900000000000000 01000000 0d 9900000000000000 02000000";
    assert_eq!(bytes, bytes_of(fields));
    assert_listed("from-service", &bytes);
    assert_eq!(FromService::decode(&bytes).as_ref(), Ok(&message));
}

#[test]
fn a_nodes_word_on_itself() {
    let rates = Rates {
        sent: 9,
        received: 10,
    };
    let about = About {
        host: "h1".to_owned(),
        version: "1.2".to_owned(),
        uptime_ms: 7,
    };
    assert!(about.is_valid());
    let fields = "0b 0200 6831 0300 312e32 0700000000000000";
    assert_to_service(&ToService::About(about), fields);
    assert_to_service(&ToService::Rates(rates), "0c 09000000 0a000000");
    let rates = GroupRates {
        groups: vec![GroupRate {
            group: GroupId(7),
            rate: 2500,
        }],
        whole: true,
    };
    let fields = "0d 01000000 07000000 c4090000 01";
    assert_to_service(&ToService::GroupRates(rates), fields);
    let text = "site".to_owned();
    assert_to_service(&ToService::Description { text }, "10 0400 73697465");
    for (host, version) in [
        ("h".repeat(65), String::new()),
        (String::new(), "1\n".to_owned()),
    ] {
        let about = About {
            host,
            version,
            uptime_ms: 0,
        };
        assert!(!about.is_valid());
    }
}

// Rule R-MEM-21.
#[test]
fn a_description_is_bounded_and_has_no_control_characters() {
    let longest = "d".repeat(DESCRIPTION_BYTES_MAX);
    for text in ["", "fra ist auch schön", &longest] {
        assert!(is_description(text), "{text}");
    }
    for text in ["\u{1b}[2J", "two\nlines", "\u{9b}", &format!("{longest}d")] {
        assert!(!is_description(text), "{text:?}");
    }
}

#[test]
fn the_list_has_every_kind_and_every_message() {
    let packets = listed("packet");
    for kind in Kind::ALL {
        assert!(
            packets
                .iter()
                .any(|packet| Kind::peek(packet) == Some(*kind)),
            "no golden packet is a {kind:?}"
        );
    }
    for packet in &packets {
        assert!(Packet::decode(packet).is_ok(), "{packet:02x?}");
    }
    for message in listed("to-service") {
        assert!(ToService::decode(&message).is_ok(), "{message:02x?}");
    }
    for message in listed("from-service") {
        assert!(FromService::decode(&message).is_ok(), "{message:02x?}");
    }
}

// Rule R-RATE-10.
#[test]
fn a_region_s_minimum_rate() {
    let updates = vec![Update::MinimumRate {
        region: RegionId(4),
        packets_per_second: 2000,
    }];
    let message = FromService::Batch { number: 9, updates };
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    let fields = "02 0900000000000000 01000000 0c 04000000 d0070000";
    assert_eq!(bytes, bytes_of(fields));
    assert_listed("from-service", &bytes);
    assert_eq!(FromService::decode(&bytes).as_ref(), Ok(&message));
}

// Rule R-SEC-34.
#[test]
fn what_a_region_demands_of_its_senders() {
    let region = RegionId(4);
    let demand = OriginDemand::Verified;
    let signers = vec![Signer {
        origin: HEADER.origin,
        key: "qsm-node-1.x".to_owned(),
        barred: vec![GroupId(7)],
    }];
    let updates = vec![
        Update::Proof { region, demand },
        Update::Signers { region, signers },
    ];
    let message = FromService::Batch { number: 9, updates };
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    let signer = "8877665544332211 03000000 0c00 71736d2d6e6f64652d312e78 01000000 07000000";
    let fields =
        format!("02 0900000000000000 02000000 0e 04000000 02 0f 04000000 01000000 {signer}");
    assert_eq!(bytes, bytes_of(&fields));
    assert_listed("from-service", &bytes);
    assert_eq!(FromService::decode(&bytes).as_ref(), Ok(&message));
    let at = bytes.iter().position(|byte| *byte == 0x0e).unwrap();
    bytes[at + 5] = 3;
    assert!(FromService::decode(&bytes).is_err());
}

#[test]
fn admission() {
    let admission = |stage, content: &[u8]| Owned::Admission(stage, content.to_vec());
    assert_packet("1c", &admission(AdmissionStage::Seek, &[0, 0]), "01 0000");
    assert_packet(
        "1c",
        &admission(AdmissionStage::Handshake, &[1, 2]),
        "03 0102",
    );
}
