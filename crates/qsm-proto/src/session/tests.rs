use core::time::Duration;
use std::net::SocketAddr;

use qsm_wire::membership::MESSAGE_BYTES_MAX;
use qsm_wire::{Body, Frame, FrameHead, Header, Packet};

use super::*;
use crate::{Random, Seed};

fn peer() -> SessionPeer {
    SessionPeer {
        header: Header::default(),
        to: SocketAddr::from(([127, 0, 0, 1], 1)),
    }
}

/// Two ends and a network that loses, repeats and reorders.
struct Pair {
    now: Instant,
    ends: [Session; 2],
    outboxes: [Outbox; 2],
    flying: Vec<(Instant, usize, Vec<u8>)>,
    random: Random,
    loss_ppm: u32,
    received: [Vec<Vec<u8>>; 2],
    datagrams: usize,
}

impl Pair {
    fn new(seed: u64, loss_ppm: u32, frame_bytes: usize) -> Self {
        Self {
            now: Instant(0),
            ends: [Session::new(7, frame_bytes), Session::new(7, frame_bytes)],
            outboxes: [Outbox::new(), Outbox::new()],
            flying: Vec::new(),
            random: Random::new(Seed(seed), "net"),
            loss_ppm,
            received: [Vec::new(), Vec::new()],
            datagrams: 0,
        }
    }

    fn flush(&mut self) {
        for end in 0..2 {
            self.ends[end].transmit(self.now, &peer(), &mut self.outboxes[end]);
            while let Some(transmit) = self.outboxes[end].pop() {
                let bytes = transmit.bytes.to_vec();
                self.datagrams += 1;
                let copies = 1 + u64::from(self.random.chance_ppm(self.loss_ppm / 2));
                let arriving = (0..copies)
                    .filter(|_| !self.random.chance_ppm(self.loss_ppm))
                    .count();
                for _ in 0..arriving {
                    let delay = Duration::from_micros(100 + self.random.below(2000));
                    let at = self.now.after(delay);
                    self.flying.push((at, 1 - end, bytes.clone()));
                }
            }
        }
    }

    /// One step to the next thing that happens; false when nothing will.
    fn step(&mut self) -> bool {
        self.flush();
        let timers = self.ends.iter().filter_map(Session::next_timeout);
        let Some(next) = self.flying.iter().map(|f| f.0).chain(timers).min() else {
            return false;
        };
        self.now = self.now.max(next);
        let (due, later) = core::mem::take(&mut self.flying)
            .into_iter()
            .partition(|(at, ..)| *at <= self.now);
        self.flying = later;
        for (_, end, bytes) in due {
            match Packet::decode(&bytes).unwrap().body {
                Body::Session(frame) => self.ends[end].handle_frame(self.now, &frame),
                Body::SessionAck(heard) => {
                    self.ends[end].handle_heard(self.now, heard.heard_upto, false);
                }
                other => panic!("{other:?}"),
            }
            while let Some(message) = self.ends[end].poll_message() {
                self.received[end].push(message);
            }
        }
        true
    }

    fn settle(&mut self) {
        let mut steps = 0;
        while self.step() {
            steps += 1;
            assert!(steps < 1_000_000, "the session does not come to rest");
        }
    }
}

fn message(random: &mut Random, max: u64) -> Vec<u8> {
    let length = random.below(max);
    (0..length)
        .map(|_| random.bits().to_le_bytes()[0])
        .collect()
}

// Rule R-MEM-3.
#[test]
fn messages_arrive_whole_and_in_order_whatever_the_network_does() {
    for seed in 0..200 {
        let loss = u32::try_from(seed % 5).unwrap() * 80_000;
        let mut pair = Pair::new(seed, loss, 50);
        let mut random = Random::new(Seed(seed), "messages");
        let mut sent = [Vec::new(), Vec::new()];
        for _ in 0..30 {
            for (end, sent) in pair.ends.iter_mut().zip(&mut sent) {
                let message = message(&mut random, 300);
                end.send(&message).unwrap();
                sent.push(message);
            }
            for _ in 0..random.below(20) {
                pair.step();
            }
        }
        pair.settle();
        assert_eq!(pair.received[1], sent[0], "seed {seed}");
        assert_eq!(pair.received[0], sent[1], "seed {seed}");
        assert!(pair.ends.iter().all(Session::is_settled));
    }
}

#[test]
fn a_message_of_the_largest_size_arrives_over_a_lossy_network() {
    let mut pair = Pair::new(1, 20_000, frame_bytes(1472));
    let mut random = Random::new(Seed(1), "large");
    let large: Vec<u8> = (0..MESSAGE_BYTES_MAX / 8)
        .flat_map(|_| random.bits().to_le_bytes())
        .collect();
    pair.ends[0].send(&large).unwrap();
    pair.settle();
    assert_eq!(pair.received[1].len(), 1);
    assert!(pair.received[1][0] == large);
}

#[test]
fn without_loss_no_frame_is_sent_twice() {
    let mut pair = Pair::new(3, 0, 100);
    // In order: loss is what repeated receipts mean, and reordering repeats receipts too.
    for _ in 0..20 {
        pair.ends[0].send(&[5; 90]).unwrap();
        pair.settle();
    }
    assert_eq!(pair.ends[0].retransmitted(), 0);
    assert_eq!(pair.received[1].len(), 20);
}

#[test]
fn one_lost_frame_of_a_window_is_repaired_before_the_timeout() {
    let mut pair = Pair::new(4, 0, 100);
    pair.ends[0].send(&vec![1; 1000]).unwrap();
    let Pair { ends, outboxes, .. } = &mut pair;
    ends[0].transmit(Instant(0), &peer(), &mut outboxes[0]);
    let mut frames = Vec::new();
    while let Some(transmit) = outboxes[0].pop() {
        frames.push(transmit.bytes.to_vec());
    }
    for bytes in &frames[1..] {
        let Body::Session(frame) = Packet::decode(bytes).unwrap().body else {
            panic!()
        };
        ends[1].handle_frame(Instant(1000), &frame);
        ends[1].transmit(Instant(1000), &peer(), &mut outboxes[1]);
    }
    while let Some(transmit) = outboxes[1].pop() {
        let Body::SessionAck(heard) = Packet::decode(transmit.bytes).unwrap().body else {
            panic!()
        };
        ends[0].handle_heard(Instant(2000), heard.heard_upto, false);
    }
    ends[0].transmit(Instant(2000), &peer(), &mut outboxes[0]);
    assert_eq!(ends[0].retransmitted(), 1);
    pair.settle();
    assert_eq!(pair.received[1], [vec![1; 1000]]);
}

#[test]
fn too_much_is_refused_and_a_message_without_end_breaks_the_session() {
    let mut session = Session::new(1, 1000);
    let length = MESSAGE_BYTES_MAX + 1;
    assert_eq!(
        session.send(&vec![0; length]),
        Err(SendError::TooLarge { length })
    );
    session.send(&vec![0; MESSAGE_BYTES_MAX]).unwrap();
    session.send(&vec![0; MESSAGE_BYTES_MAX]).unwrap();
    assert_eq!(session.send(&[0]), Err(SendError::Full));

    let content = vec![0; 1 << 20];
    for number in 1..=9 {
        let head = FrameHead {
            session: 1,
            number,
            heard_upto: 0,
            more: true,
        };
        let frame = Frame {
            head,
            content: &content,
        };
        assert!(!session.is_broken());
        session.handle_frame(Instant(0), &frame);
    }
    assert!(session.is_broken());
}

#[test]
fn receipts_for_frames_never_sent_and_frames_beyond_the_window_change_nothing() {
    let mut session = Session::new(1, 10);
    session.send(&[1; 5]).unwrap();
    session.handle_heard(Instant(0), 99, false);
    assert!(!session.is_settled());
    let head = FrameHead {
        session: 1,
        number: WINDOW_FRAMES + 1,
        heard_upto: 0,
        more: false,
    };
    session.handle_frame(Instant(0), &Frame { head, content: &[] });
    assert_eq!(session.next_timeout(), None);
    assert_eq!(session.poll_message(), None);
}

#[test]
fn a_full_outbox_delays_frames_without_losing_them() {
    let mut session = Session::new(1, 10);
    let mut outbox = Outbox::new();
    while outbox.waiting(Reason::Membership) < Outbox::QUEUE_MAX {
        outbox.push(Reason::Membership, Destination::Node(peer().to), |out| {
            out.push(0);
        });
    }
    session.send(&[1; 5]).unwrap();
    session.transmit(Instant(0), &peer(), &mut outbox);
    assert_eq!(outbox.dropped(), 0);
    assert!(session.next_timeout().is_some());
    while outbox.pop().is_some() {}
    session.transmit(Instant(1_000_000), &peer(), &mut outbox);
    assert_eq!(outbox.waiting(Reason::Membership), 1);
}

// Rule R-MEM-3.
#[test]
fn a_frame_that_is_lost_again_and_again_is_sent_as_often_while_the_peer_is_heard() {
    let sendings = |heard: bool| {
        let mut session = Session::new(7, 100);
        let mut outbox = Outbox::new();
        session.send(&[1; 5]).unwrap();
        for at in (0..5000).map(|ms| Instant(ms * 1_000_000)) {
            if heard && at.0 % 200_000_000 == 0 {
                session.handle_heard(at, 0, false);
            }
            session.transmit(at, &peer(), &mut outbox);
        }
        core::iter::from_fn(|| outbox.pop().map(drop)).count()
    };
    assert!(sendings(false) <= 10, "{}", sendings(false));
    assert!(sendings(true) >= 25, "{}", sendings(true));
}

// Rule R-MEM-3.
#[test]
fn a_sign_of_life_repeats_what_has_no_receipt() {
    let mut session = Session::new(7, 100);
    let mut outbox = Outbox::new();
    let mut shown = |session: &mut Session, ms: u64| {
        session.show_life(Instant(ms * 1_000_000), &peer(), &mut outbox);
        let bytes = outbox.pop().unwrap().bytes.len();
        assert!(outbox.pop().is_none());
        bytes
    };
    let receipt = shown(&mut session, 0);
    session.send(&[1; 50]).unwrap();
    // What has not been sent yet is not repeated.
    assert_eq!(shown(&mut session, 1), receipt);
    let mut first = Outbox::new();
    session.transmit(Instant(2_000_000), &peer(), &mut first);
    // Its receipt may be on its way.
    assert_eq!(shown(&mut session, 50), receipt);
    assert!(shown(&mut session, 150) > receipt + 50);
    assert_eq!(shown(&mut session, 200), receipt);
    assert_eq!(session.retransmitted(), 1);
    session.handle_heard(Instant(250_000_000), 1, false);
    assert_eq!(shown(&mut session, 900), receipt);
}

/// How long messages of that many bytes, in frames of 100, take on average.
fn mean_time(loss_ppm: u32, bytes: usize) -> Duration {
    const SEEDS: u32 = 20;
    const MESSAGES: u32 = 20;
    let mut total = Duration::ZERO;
    for seed in 0..SEEDS {
        let mut pair = Pair::new(seed.into(), loss_ppm, 100);
        for _ in 0..MESSAGES {
            let (start, before) = (pair.now, pair.received[1].len());
            pair.ends[0].send(&vec![5; bytes]).unwrap();
            while pair.received[1].len() == before {
                pair.step();
            }
            total += pair.now.since(start);
            pair.settle();
        }
    }
    total / (SEEDS * MESSAGES)
}

// Rule R-MEM-3.
#[test]
fn messages_take_time_in_proportion_to_the_sendings_that_losses_cost() {
    let [single, many] = [90, 3000];
    let millis = Duration::from_millis;
    assert!(mean_time(50_000, many) <= millis(10));
    assert!(mean_time(200_000, many) <= millis(80));
    assert!(mean_time(400_000, single) <= millis(30));
    assert!(mean_time(400_000, many) <= millis(250));
    assert!(mean_time(600_000, single) <= millis(120));
    assert!(mean_time(600_000, many) <= millis(700));
}
