use qsm_proto::{Deafness, UnservedCause};
use qsm_wire::{NodeId, Origin};

use super::*;
use crate::error::{Outstanding, RequestError, Unconfirmed, Unserved};
use crate::receivers::{Lacking, Receiver, Receivers};

fn requests() -> Vec<Request> {
    let (id, timeout) = (7, Duration::from_millis(1500));
    vec![
        Request::Hello { version: VERSION },
        Request::Names(vec!["a".into(), "".into(), "prices/€".into()]),
        Request::Publish { id, slot: 3 },
        Request::Subscribe {
            id,
            ring_bytes: 1 << 40,
            overflow: Overflow::Disconnect,
            delivery: DeliveryMode::Ordered,
        },
        Request::Subscribe {
            id,
            ring_bytes: 1 << 40,
            overflow: Overflow::DropNewest,
            delivery: DeliveryMode::Within(timeout),
        },
        Request::Subscribe {
            id,
            ring_bytes: 1 << 40,
            overflow: Overflow::DropNewest,
            delivery: DeliveryMode::Arrival,
        },
        Request::Unsubscribe { key: 9 },
        Request::Room { key: 10 },
        Request::Flush {
            id,
            position: u64::MAX,
            timeout,
        },
        Request::Members {
            id,
            slot: 3,
            count: 2,
            timeout,
        },
        Request::Stats { id },
        Request::Query {
            id: 7,
            kind: QueryKind::Regions,
        },
    ]
}

fn unconfirmed() -> Unconfirmed {
    Unconfirmed {
        group: "g".into(),
        incarnation: Incarnation(3),
        first: 4,
        last: 5,
    }
}

fn deafness(peer: Option<&str>) -> Deafness {
    let origin = |node| Origin {
        node: NodeId(node),
        incarnation: Incarnation(2),
    };
    Deafness {
        region: RegionId(9),
        address: "239.192.0.1:4482".parse().unwrap(),
        listener: origin(1),
        speaker: origin(2),
        peer: peer.map(|peer| peer.parse().unwrap()),
        here: peer.is_some(),
    }
}

fn unserved() -> Unserved {
    Unserved {
        receivers: [7, 9]
            .map(|node| Origin {
                node: NodeId(node),
                incarnation: Incarnation(2),
            })
            .to_vec(),
        receivers_more: 3,
        messages: vec![unconfirmed(), unconfirmed()],
        messages_more: 5,
        cause: UnservedCause::Overrun,
    }
}

fn lacking() -> Lacking {
    Lacking {
        receivers: vec![
            Receiver::of(Origin::default()),
            Receiver {
                name: Some("sleeper".into()),
                ..Receiver::of(Origin::default())
            },
        ],
        receivers_more: 1,
        away: Some(Duration::from_millis(3200)),
        messages: vec![unconfirmed()],
        messages_more: 2,
        kept: true,
    }
}

fn events() -> Vec<Event> {
    let incarnation = Incarnation(8);
    vec![
        Event::Admitted { incarnation },
        Event::Away {
            region: RegionId(9),
            reason: AwayReason::Slow,
        },
        Event::Back {
            region: RegionId(9),
            away: Duration::from_millis(3200),
        },
        Event::Deaf(deafness(None)),
        Event::Hears(deafness(Some("10.0.0.1:7"))),
        Event::Dropped { events: 5 },
        Event::Expelled,
        Event::Away {
            region: RegionId(9),
            reason: AwayReason::Demoted,
        },
        Event::Excluded,
        Event::ServiceFound {
            address: "[fd00::1]:7".parse().unwrap(),
        },
        Event::ServiceLost,
        Event::Unconfirmed {
            messages: unconfirmed(),
            cause: UnconfirmedCause::NewLife,
        },
        Event::Unserved(unserved()),
    ]
}

fn failures() -> Vec<Reply> {
    let failed = |error| Reply::Failed { id: 1, error };
    vec![
        failed(Failed::Closed { cause: "x".into() }),
        failed(Failed::Refused { reason: "y".into() }),
        failed(Failed::Timeout {
            after: Duration::from_secs(3),
            outstanding: None,
        }),
        failed(Failed::Timeout {
            after: Duration::from_secs(4),
            outstanding: Some(Box::new(Outstanding {
                queued: 1,
                unconfirmed: 2,
                regions: 3,
                groups: vec!["a".into(), "b".into()],
                groups_more: 4,
                lacking: vec![lacking()],
            })),
        }),
        failed(Failed::Unconfirmed {
            ranges: vec![unconfirmed(), unconfirmed()],
            more: 6,
        }),
        failed(Failed::TooFewReceivers {
            group: "g".into(),
            wanted: 3,
            after: Duration::from_secs(5),
            receivers: Box::new(Receivers {
                live: lacking().receivers,
                live_more: 1,
                away: lacking().receivers,
                away_more: 2,
            }),
        }),
    ]
}

fn replies() -> Vec<Reply> {
    let mut replies = vec![
        Reply::Welcome {
            version: VERSION,
            client: 4,
            node: NodeId(u64::MAX),
            message_bytes_max: 5,
            ring_words: 6,
            log_words: 7,
        },
        Reply::Done { id: 1 },
        Reply::Subscribed {
            id: 1,
            key: 2,
            rings: 3,
            ring_words: 512,
        },
        Reply::Members { id: 1, count: 2 },
        Reply::Stats {
            id: 1,
            values: vec![1, 2, 3],
        },
        Reply::Flushed {
            id: 7,
            flushed: Flushed {
                unserved: vec![unserved(), unserved()],
                more: 3,
                away: vec![lacking()],
                of_engine: true,
            },
        },
        Reply::Rows { id: 9, words: 64 },
        Reply::Closed { cause: "z".into() },
    ];
    replies.extend(failures());
    let events = events();
    assert!(events.iter().all(travels));
    replies.extend(events.into_iter().map(Reply::Event));
    replies
}

#[test]
fn everything_round_trips_and_nothing_is_read_from_a_part_of_it() {
    for request in requests() {
        let packet = request.encode();
        assert_eq!(Request::decode(&packet), Some(request.clone()));
        let shorter = (0..packet.len()).map(|end| Request::decode(&packet[..end]));
        assert!(
            shorter
                .flatten()
                .all(|short| matches!(short, Request::Names(_)))
        );
    }
    for reply in replies() {
        let packet = reply.encode();
        assert_eq!(Reply::decode(&packet), Some(reply.clone()));
        let shorter = (0..packet.len()).map(|end| Reply::decode(&packet[..end]));
        assert!(
            shorter
                .flatten()
                .all(|short| matches!(short, Reply::Stats { .. }))
        );
    }
}

#[test]
fn random_packets_are_no_messages_or_some_but_never_a_panic() {
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let packets: Vec<Vec<u8>> = requests().iter().map(Request::encode).collect();
    for _ in 0..100_000 {
        let mut packet = packets[random() as usize % packets.len()].clone();
        for _ in 0..=random() % 3 {
            let at = random() as usize % packet.len();
            packet[at] = random() as u8;
        }
        packet.truncate(1 + random() as usize % 40);
        drop(Request::decode(&packet));
        packet[0] = packet[0].wrapping_add(64);
        drop(Reply::decode(&packet));
    }
}

#[test]
fn many_names_take_several_packets_and_a_long_text_is_cut() {
    let names: Vec<Arc<str>> = (0..5000).map(|n| format!("group/{n}").into()).collect();
    let packets = packets_of_names(&names);
    assert!(packets.len() > 1);
    let mut came = Vec::new();
    for packet in &packets {
        assert!(packet.len() <= PACKET_BYTES_MAX);
        let Some(Request::Names(part)) = Request::decode(packet) else {
            panic!("not names");
        };
        came.extend(part);
    }
    assert_eq!(came, names);
    let cause = "€".repeat(5000);
    let packet = Reply::Closed { cause }.encode();
    assert!(packet.len() < 2100 && Reply::decode(&packet).is_some());
}

/// As much as a core may tell.
fn long() -> Flushed {
    let range = Unconfirmed {
        group: "g".repeat(255).into(),
        ..unconfirmed()
    };
    let name = Some("n".repeat(64).into());
    let receiver = || Receiver {
        name: name.clone(),
        ..Receiver::of(Origin::default())
    };
    Flushed {
        unserved: vec![
            Unserved {
                receivers: vec![Origin::default(); 256],
                messages: vec![range.clone(); 64],
                ..unserved()
            };
            300
        ],
        more: 1,
        away: vec![
            Lacking {
                receivers: (0..64).map(|_| receiver()).collect(),
                messages: vec![range; 32],
                ..lacking()
            };
            64
        ],
        of_engine: true,
    }
}

#[test]
fn an_outcome_fits_into_a_packet_and_counts_what_it_does_not_name() {
    let receivers = |flushed: &Flushed| {
        let unserved = flushed.unserved.iter().map(Unserved::receivers);
        let away = flushed.away.iter().map(Lacking::receivers);
        (unserved.sum::<u64>() + flushed.more, away.sum::<u64>())
    };
    let flushed = super::super::outcome::fit_flushed(long());
    assert_eq!(receivers(&flushed), receivers(&long()));
    assert_eq!(
        flushed.unserved[0].messages(),
        long().unserved[0].messages()
    );
    assert_eq!(flushed.away[0].messages(), long().away[0].messages());
    let reply = Reply::Flushed { id: 1, flushed };
    assert!(reply.encode().len() <= PACKET_BYTES_MAX);
    let left = Outstanding {
        lacking: long().away,
        ..Outstanding::default()
    };
    let error = RequestError::Timeout {
        doing: "",
        after: Duration::ZERO,
        outstanding: Some(Box::new(left)),
    };
    let error = error.into();
    assert!(Reply::Failed { id: 1, error }.encode().len() <= PACKET_BYTES_MAX);
}
