//! A bounded run of what a fuzzer does without bound: packets that are cut, changed or made up,
//! to the decoder and to those who receive them (R-RELAY-1). The same in every run.

mod support;

use std::net::SocketAddr;

use qsm_relay::{
    Body, Data, Echo, Feedback, Heartbeat, Join, Joined, Limit, Missing, Nack, Packet, Parity,
    RateBounds, Receiver, Relay, Report, Source, Timing,
};
use qsm_wire::{Instant, Random, Seed};
use support::{Link, Net, SESSION, SOURCE, ms};

/// A number that is often one at which arithmetic goes wrong.
fn number(random: &mut Random) -> u64 {
    match random.below(6) {
        0 => 0,
        1 => u64::MAX,
        2 => u64::MAX - random.below(3),
        3 => u64::from(u32::MAX) + random.below(3),
        _ => random.below(200),
    }
}

fn limit(random: &mut Random) -> Limit {
    Limit {
        receiver: number(random),
        rate: number(random),
        received: number(random),
        highest: number(random),
        behind: number(random) as u32,
        packets: number(random) as u32,
        lost: number(random) as u32,
        round_trip_us: number(random) as u32,
        least_us: number(random) as u32,
        capable: number(random) as u32,
        marked: number(random) as u32,
    }
}

fn drawn(random: &mut Random) -> Vec<u8> {
    let payload = vec![7; usize::try_from(random.below(40)).unwrap()];
    let data = Data {
        sequence: number(random),
        released: number(random),
        payload: &payload,
    };
    let report = Report {
        child: random.below(4),
        first: number(random),
        upto: number(random),
        receivers: u32::try_from(random.below(3)).unwrap(),
    };
    let mut missing = Missing::one(number(random));
    for _ in 0..random.below(20) {
        missing.push(number(random));
    }
    let body = match random.below(12) {
        0 => Body::Data(data),
        1 => Body::Repair(data),
        2 => Body::Nack(Nack { report, missing }),
        3 => Body::Ack(report),
        4 => {
            let join = Join::new(random.below(4));
            let join = join.by(random.below(4)).unwrap();
            Body::Join(join)
        }
        5 => Body::Joined(Joined {
            first: number(random),
            highest: number(random),
            known: random.below(2) == 0,
            rated: random.below(2) == 0,
            parity: random.below(2) == 0,
        }),
        6 => Body::Leave(random.below(4)),
        7 => Body::Feedback(Feedback {
            child: random.below(4),
            sent: number(random),
            hop_us: number(random) as u32,
            limit: limit(random),
        }),
        8 => Body::Echo(Echo {
            sent: number(random),
            above_us: number(random) as u32,
            above_least_us: number(random) as u32,
            limiting: number(random),
            rate: number(random),
        }),
        9 => Body::Parity(Parity {
            first: number(random),
            covered: random.bits() as u16 | 1,
            row: random.below(9) as u8,
            sum: &payload,
        }),
        10 => Body::Lost(Nack { report, missing }),
        _ => Body::Heartbeat(Heartbeat {
            highest: number(random),
            released: number(random),
            finished: random.below(2) == 0,
        }),
    };
    let mut bytes = Vec::new();
    let session = SESSION;
    Packet { session, body }.encode(&mut bytes);
    bytes
}

fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..=random.below(3) {
        let at = usize::try_from(random.below(bytes.len() as u64 + 1)).unwrap();
        match random.below(4) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, random.bits() as u8),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
        }
    }
}

#[test]
fn mutated_packets_are_rejected_or_reencode_equal() {
    let mut random = Random::new(Seed(1), "damage");
    let mut accepted = 0;
    for round in 0..200_000 {
        let mut bytes = drawn(&mut random);
        if round % 2 == 0 {
            mutate(&mut random, &mut bytes);
        }
        let Ok(packet) = Packet::decode(&bytes) else {
            continue;
        };
        accepted += 1;
        let mut again = Vec::new();
        packet.encode(&mut again);
        assert_eq!(again, bytes);
    }
    assert!((20_000..180_000).contains(&accepted), "{accepted} accepted");
}

#[test]
fn a_packet_that_is_cut_or_has_a_changed_bit_is_refused() {
    let mut random = Random::new(Seed(2), "damage");
    let mut seen = 0;
    while seen < 200 {
        let bytes = drawn(&mut random);
        let Ok(packet) = Packet::decode(&bytes) else {
            continue;
        };
        seen += 1;
        let payload = match packet.body {
            Body::Data(data) | Body::Repair(data) => data.payload.len(),
            _ => 0,
        };
        for end in 0..bytes.len() {
            assert!(
                Packet::decode(&bytes[..end]).is_err(),
                "{packet:?} cut to {end}"
            );
        }
        // Of a payload the checksum covers the length alone.
        for bit in 0..(bytes.len() - payload) * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(
                Packet::decode(&changed).is_err(),
                "{packet:?} with bit {bit}"
            );
        }
    }
}

#[test]
fn random_bytes_are_refused() {
    let mut random = Random::new(Seed(3), "damage");
    for _ in 0..100_000 {
        let length = random.below(120);
        let mut bytes: Vec<u8> = (0..length).map(|_| random.bits() as u8).collect();
        if let Some(first) = bytes.first_mut() {
            *first = qsm_relay::VERSION;
        }
        assert!(Packet::decode(&bytes).is_err());
    }
}

/// Legal packets that no honest member sends: nobody panics, hangs, or grows beyond its limits.
#[test]
fn legal_nonsense_harms_nobody_beyond_its_session() {
    let parent: SocketAddr = "10.0.0.1:1".parse().unwrap();
    let child: SocketAddr = "10.0.0.2:1".parse().unwrap();
    let timing = Timing::new(ms(1), ms(1));
    for seed in 0..60 {
        let mut random = Random::new(Seed(seed), "nonsense");
        let mut now = Instant(0);
        let mut relay = Relay::new(parent, 9, timing);
        let mut receiver = Receiver::new(SESSION, 8, timing, parent, now);
        let mut source = Source::new(SESSION, timing, 100);
        relay.send_parity();
        if seed % 2 == 0 {
            source.adapt_rate(RateBounds::default());
            source.send_parity();
        }
        let mut bytes = Vec::new();
        for _ in 0..3000 {
            let packet = drawn(&mut random);
            let from = if random.below(2) == 0 { parent } else { child };
            let onward = relay.handle_datagram(now, from, &packet);
            assert!(relay.addresses(onward).count() <= 2);
            receiver.handle_datagram(now, from, &packet);
            source.handle_datagram(now, from, &packet);
            if random.below(3) == 0 {
                now = now.after(ms(random.below(400)));
                relay.handle_timeout(now);
                receiver.handle_timeout(now);
                source.handle_timeout(now);
            }
            if random.below(2) == 0 {
                // A full window is not this test's concern.
                source.send(now, b"x").ok();
            }
            while relay.poll_transmit(&mut bytes).is_some() {}
            while receiver.poll_transmit(&mut bytes).is_some() {}
            while receiver.poll_event().is_some() {}
            while source.poll_transmit(&mut bytes).is_some() {}
        }
        assert!(relay.nack_states(SESSION) <= 4096);
        assert!(
            relay
                .session_bytes(SESSION)
                .is_none_or(|bytes| bytes < 20_000)
        );
    }
}

/// Nonsense from strangers, in the middle of a session: it goes on.
#[test]
fn a_session_goes_on_beside_a_stranger() {
    let mut net = Net::new(5, Link::clean(2), 256);
    let relay = net.relay(SOURCE);
    let receivers = net.receivers_below(relay, 4);
    net.settle(4);
    let mut random = Random::new(Seed(5), "stranger");
    for _ in 0..100 {
        for node in [SOURCE, relay, receivers[0]] {
            let mut bytes = drawn(&mut random);
            mutate(&mut random, &mut bytes);
            net.forge(77_777, node, bytes);
        }
        net.stream(1, ms(1));
    }
    net.run(ms(8000));
    net.assert_complete(&receivers, 100);
}
