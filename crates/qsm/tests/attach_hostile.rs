//! Processes that write nonsense, by fault or on purpose: they are cut off, with a reason that is
//! counted and told, and nobody else notices.

mod common;

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use common::{PATIENCE, Place, Site, pattern};
use qsm::attach::{CutReason, Share, ShareEvent, ShareOptions};
use qsm::{Node, Publisher, Subscription};
use qsm_net::{LocalSocket, ReadOnlyMemory, SharedMemory};

/// As `requests.rs` has it.
const HELLO: u8 = 1;
const NAMES: u8 = 2;
const PUBLISH: u8 = 3;
const SUBSCRIBE: u8 = 4;
const STATS: u8 = 8;
const ROOM: u8 = 10;
const HOLD: u32 = 3;
/// As `ring.rs` has it.
const HEADER_WORDS: usize = 64;
const TAIL: usize = 0;
const TOTAL: usize = 1;
const HEAD: usize = 8;

/// A process that speaks for itself.
struct Raw {
    socket: LocalSocket,
    doorbell: LocalSocket,
    memory: SharedMemory,
    /// The engine's.
    log: OwnedFd,
}

impl Raw {
    fn connect(place: &Place) -> Self {
        let socket = LocalSocket::connect(&place.path()).unwrap();
        socket.send(&hello(VERSION)).unwrap();
        let (_, descriptors) = receive(&socket);
        let [memory, doorbell, log] = <[OwnedFd; 3]>::try_from(descriptors).unwrap();
        let words = HEADER_WORDS + ShareOptions::PUBLISH_RING_BYTES / 8;
        Self {
            socket,
            doorbell: doorbell.into(),
            memory: SharedMemory::open(memory, words).unwrap(),
            log,
        }
    }

    fn ring(&self) {
        // It may be over already.
        drop(self.doorbell.try_send(&[1]));
    }

    /// Enters a group, as publisher in place 0 or as subscriber.
    fn enter(&self, kind: u8) -> Vec<OwnedFd> {
        self.enter_with(kind, 0)
    }

    /// With this policy of a full ring.
    fn enter_with(&self, kind: u8, overflow: u32) -> Vec<OwnedFd> {
        self.socket.send(&[NAMES, 1, 0, b'x']).unwrap();
        let mut packet = vec![kind];
        packet.extend([0; 8]);
        if kind == SUBSCRIBE {
            // The rest of the ring's bytes, the policy of a full one, the order, and the patience.
            packet.extend([0; 4]);
            packet.extend(overflow.to_le_bytes());
            packet.extend([0; 4 + 8]);
        }
        self.socket.send(&packet).unwrap();
        receive(&self.socket).1
    }
}

/// Of the handshake.
const VERSION: u32 = 10;

fn hello(version: u32) -> Vec<u8> {
    let mut packet = vec![HELLO];
    packet.extend(b"qsmattch");
    packet.extend(version.to_le_bytes());
    packet
}

fn receive(socket: &LocalSocket) -> (Vec<u8>, Vec<OwnedFd>) {
    let mut packet = vec![0; 1 << 16];
    let (length, descriptors) = socket.recv_with(&mut packet).unwrap();
    packet.truncate(length);
    (packet, descriptors)
}

/// An engine, somebody honest, and what is told of the others.
struct Scene {
    share: Share,
    honest: (Node, Subscription),
    engine: Node,
    told: Receiver<ShareEvent>,
    place: Place,
}

impl Scene {
    fn new() -> Self {
        let (site, place) = (Site::new(), Place::new());
        let engine = site.first("engine");
        let (tell, told) = channel();
        // At the very end nobody listens.
        let options = place
            .options()
            .on_event(move |event| drop(tell.send(event.clone())));
        let share = engine.share_with(options).unwrap();
        let client = place.attach();
        let subscription = client.subscribe(["calm"]).unwrap();
        let honest = (client, subscription);
        Self {
            share,
            honest,
            engine,
            told,
            place,
        }
    }

    /// Waits until somebody was cut off, and says for what.
    fn cut_off(&self) -> CutReason {
        loop {
            if let ShareEvent::CutOff { reason, .. } = self.told.recv_timeout(PATIENCE).unwrap() {
                return reason;
            }
        }
    }

    fn gone(&self) {
        let gone = |event| matches!(event, ShareEvent::Detached { .. });
        while !gone(self.told.recv_timeout(PATIENCE).unwrap()) {}
    }

    /// The honest one still gets everything.
    fn is_well(&self, number: u64) {
        let publisher = self.engine.publisher("calm").unwrap();
        publisher.send(&pattern(number, 99)).unwrap();
        let message = self.honest.1.recv_timeout(PATIENCE).unwrap();
        let message = common::message(message);
        assert_eq!(message.bytes(), pattern(number, 99));
    }
}

#[test]
fn positions_and_lengths_that_cannot_be_are_found() {
    let scene = Scene::new();
    let nonsense: [&[(usize, u64)]; 5] = [
        &[(TAIL, u64::MAX)],
        &[(TAIL, (ShareOptions::PUBLISH_RING_BYTES / 8 + 1) as u64)],
        // A record longer than what is there.
        &[(HEADER_WORDS, 9), (TAIL, 2)],
        &[(HEADER_WORDS, u64::from(u32::MAX)), (TAIL, 8)],
        // A publisher that was not prepared.
        &[(HEADER_WORDS, 77 << 32), (TAIL, 1)],
    ];
    for (round, values) in nonsense.iter().enumerate() {
        let raw = Raw::connect(&scene.place);
        for (at, value) in *values {
            raw.memory.words()[*at].store(*value, Ordering::SeqCst);
        }
        raw.ring();
        let expected = match round {
            4 => CutReason::Publisher,
            _ => CutReason::Ring,
        };
        assert_eq!(scene.cut_off(), expected, "round {round}");
        // It is told why, before the end.
        let (text, _) = receive(&raw.socket);
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(text.contains(&expected.to_string()), "{text}");
        assert!(receive(&raw.socket).0.is_empty());
        scene.is_well(round as u64);
    }
    assert_eq!(scene.share.stats().cut_off, 5);
}

#[test]
fn a_subscriber_that_lies_about_what_it_has_read_is_found_by_the_core_thread() {
    let scene = Scene::new();
    let raw = Raw::connect(&scene.place);
    let memory = raw.enter(SUBSCRIBE).pop().unwrap();
    let words = HEADER_WORDS + ShareOptions::RING_BYTES / 8;
    let memory = SharedMemory::open(memory, words).unwrap();
    memory.words()[HEAD].store(u64::MAX / 2, Ordering::SeqCst);
    let publisher = scene.engine.publisher("x").unwrap();
    // It is looked at when the ring seems full.
    for _ in 0..=4 {
        publisher.send(&vec![1; 1 << 20]).unwrap();
    }
    assert_eq!(scene.cut_off(), CutReason::Ring);
    scene.is_well(1);
}

/// Sends to the group that somebody holds until nothing is taken for a while.
fn send_until_held(publisher: &Publisher) {
    let mut last = Instant::now();
    while last.elapsed() < Duration::from_millis(300) {
        match publisher.try_send(&[1; 100_000]) {
            Ok(()) => last = Instant::now(),
            Err(_) => std::thread::yield_now(),
        }
    }
}

#[test]
fn a_subscriber_that_holds_and_never_reads_harms_nobody_else_and_is_released_by_its_end() {
    let scene = Scene::new();
    let publisher = scene.engine.publisher("x").unwrap();
    for lies in [false, true] {
        let raw = Raw::connect(&scene.place);
        let memory = raw.enter_with(SUBSCRIBE, HOLD).pop().unwrap();
        let words = HEADER_WORDS + ShareOptions::RING_BYTES / 8;
        let memory = SharedMemory::open(memory, words).unwrap();
        send_until_held(&publisher);
        scene.is_well(1 + u64::from(lies));
        // It says that it has made room, of this and of other subscriptions, and has not.
        let turns = || scene.engine.stats().unwrap().runtime.turns;
        let before = turns();
        for key in 0..300_u32 {
            let key = if key % 2 == 0 { 0 } else { key };
            let packet = [&[ROOM][..], &key.to_le_bytes()].concat();
            raw.socket.send(&packet).unwrap();
        }
        // Answered after all of them.
        raw.socket.send(&[STATS, 0, 0, 0, 0]).unwrap();
        assert!(!receive(&raw.socket).0.is_empty());
        assert!(turns() - before < 150, "it was woken for nothing");
        if lies {
            memory.words()[HEAD].store(u64::MAX / 2, Ordering::SeqCst);
            assert_eq!(scene.cut_off(), CutReason::Ring);
        } else {
            drop(raw);
            scene.gone();
        }
        scene.engine.flush(PATIENCE).unwrap();
    }
    scene.is_well(3);
}

#[test]
fn nobody_can_write_to_the_log() {
    let scene = Scene::new();
    let raw = Raw::connect(&scene.place);
    let words = ShareOptions::LOG_BYTES / 8;
    let again = || raw.log.try_clone().unwrap();
    assert!(SharedMemory::open(again(), words).is_err());
    let mut file = File::from(again());
    assert!(file.write(&[1; 4096]).is_err());
    assert!(file.set_len(0).is_err());
    assert!(ReadOnlyMemory::open(again(), words).is_ok());
    // Another way to the same file.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    if let Ok(mut file) = File::options().read(true).write(true).open(path) {
        assert!(file.write(&[1; 4096]).is_err());
        assert!(SharedMemory::open(file.into(), words).is_err());
    }
    scene.is_well(1);
}

/// Blocks that it holds are written over while it would read them, which is its own affair.
#[test]
fn a_subscriber_that_claims_to_have_read_everything_harms_itself_alone() {
    let scene = Scene::new();
    let raw = Raw::connect(&scene.place);
    let memory = raw.enter(SUBSCRIBE).pop().unwrap();
    let words = HEADER_WORDS + ShareOptions::RING_BYTES / 8;
    let memory = SharedMemory::open(memory, words).unwrap();
    let same = scene.place.attach();
    let honest = same.subscribe(["x"]).unwrap();
    let publisher = scene.engine.publisher("x").unwrap();
    for number in 1..=5000 {
        publisher.send(&pattern(number, 2000)).unwrap();
        let total = memory.words()[TOTAL].load(Ordering::SeqCst);
        memory.words()[HEAD].store(total, Ordering::SeqCst);
        let message = common::next(&honest);
        assert_eq!(message.number(), number);
        assert!(message.bytes() == pattern(number, 2000), "message {number}");
    }
    assert_eq!(scene.share.stats().cut_off, 0);
    scene.is_well(1);
}

#[test]
fn packets_that_are_no_requests_and_too_many_requests_are_found() {
    let scene = Scene::new();
    let bad: [&[u8]; 4] = [&[0], &[SUBSCRIBE, 1], &[99; 1000], &[7; 60_000]];
    for (round, packet) in bad.iter().enumerate() {
        let raw = Raw::connect(&scene.place);
        raw.socket.send(packet).unwrap();
        assert_eq!(scene.cut_off(), CutReason::Packet, "round {round}");
    }
    let raw = Raw::connect(&scene.place);
    raw.enter(PUBLISH);
    // Members, of place 0, 1000 of them, for a very long time.
    let mut packet = vec![7];
    packet.extend([0; 8]);
    packet.extend(1000_u32.to_le_bytes());
    packet.extend(u64::MAX.to_le_bytes());
    for _ in 0..17 {
        // It may have been cut off before the last.
        drop(raw.socket.send(&packet));
    }
    assert_eq!(scene.cut_off(), CutReason::Requests);
    scene.is_well(1);
}

#[test]
fn who_says_no_hello_or_one_of_another_version_is_not_let_in() {
    let scene = Scene::new();
    let socket = LocalSocket::connect(&scene.place.path()).unwrap();
    socket.send(b"GET / HTTP/1.1").unwrap();
    assert!(receive(&socket).0.is_empty());
    let socket = LocalSocket::connect(&scene.place.path()).unwrap();
    socket.send(&hello(VERSION + 1)).unwrap();
    // It is told the engine's version, in a place that never changes.
    let (welcome, _) = receive(&socket);
    assert_eq!(welcome[1..5], VERSION.to_le_bytes());
    assert!(receive(&socket).0.is_empty());
    scene.is_well(1);
    assert_eq!(
        (scene.share.stats().refused, scene.share.stats().clients),
        (2, 1)
    );
}

/// Whatever is written, wherever and whenever: the engine goes on.
#[test]
fn random_words_and_packets_at_random_times_harm_nobody() {
    let scene = Scene::new();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..40 {
        let raw = Raw::connect(&scene.place);
        raw.enter(PUBLISH);
        for _ in 0..200 {
            match random() % 8 {
                0 => {
                    let length = 1 + random() % 50;
                    let packet: Vec<u8> = (0..length).map(|_| random() as u8).collect();
                    drop(raw.socket.try_send(&packet));
                }
                1 => raw.ring(),
                2 => raw.memory.bells()[random() as usize % 32]
                    .store(random() as u32, Ordering::SeqCst),
                // Lengths and positions near the truth, or far from it.
                3..6 => {
                    let at = random() as usize % (HEADER_WORDS + 40);
                    let value = random() >> (random() % 64);
                    raw.memory.words()[at].store(value, Ordering::SeqCst);
                }
                _ => {
                    let words = raw.memory.words();
                    words[HEADER_WORDS + random() as usize % 40]
                        .store(random() % 30, Ordering::SeqCst);
                    words[TAIL].fetch_add(random() % 5, Ordering::SeqCst);
                    raw.ring();
                }
            }
        }
        drop(raw);
        scene.gone();
        scene.is_well(round);
    }
    let stats = scene.share.stats();
    assert_eq!((stats.clients, stats.attached), (1, 41));
    assert!(stats.cut_off > 20, "{stats:?}");
}
