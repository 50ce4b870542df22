use core::cell::Cell;
use std::collections::VecDeque;
use std::time::Duration;

use qsm_net::{LocalSocket, Port, PortConfig, choose_interface};
use qsm_wire::{GroupId, Incarnation, Origin};

use super::super::backlog::KeptBytes;
use super::super::line::Line;
use super::super::log::{Logs, message_words};
use super::super::sink::{RingSink, Way};
use super::*;
use crate::handoff::message::{MessageRef, Overflow};
use crate::handoff::received::{Dropped, Excluded, Lost, LostPackets};
use crate::handoff::sink::ForeignQueue;

/// Words of a ring.
const WORDS: usize = 512;
/// A log in which nothing has room, and one with eight blocks.
const LOGS: [usize; 2] = [4096, 512 << 10];

/// The engine's log, and the view that others have of it.
fn log(bytes: usize) -> (Logs, Arc<View>) {
    let logs = Logs::create(1, bytes).unwrap();
    let descriptor = logs.descriptor().try_clone_to_owned().unwrap();
    let view = View::open(descriptor, logs.words() as u64).unwrap();
    (logs, Arc::new(view))
}

/// A ring of so many words, both ends.
fn ring(logs: &Logs, view: &Arc<View>, capacity: usize) -> (RingSink, Arc<Inbound>) {
    let kept = Arc::new(KeptBytes::new(0));
    ring_with(logs, view, capacity, Overflow::DropNewest, &kept)
}

/// With a policy, and what may be kept for it.
fn ring_with(
    logs: &Logs,
    view: &Arc<View>,
    capacity: usize,
    overflow: Overflow,
    kept: &Arc<KeptBytes>,
) -> (RingSink, Arc<Inbound>) {
    let names: Arc<[Arc<str>]> = Arc::new([Arc::from("x"), Arc::from("y")]);
    let (memory, descriptor) = SharedMemory::create(memory_words(1, capacity)).unwrap();
    let memory = Arc::new(memory);
    let (socket, doorbell) = LocalSocket::pair().unwrap();
    let line = Arc::new(Line::new(socket, doorbell));
    let way = Way {
        memory: &memory,
        number: 0,
        capacity,
        log: logs.part(0),
        kept,
    };
    let sink = RingSink::new(&names, way, overflow, &line, &Arc::default(), 77);
    let rings = Rings {
        count: 1,
        words: capacity as u64,
        holder: (overflow == Overflow::Hold).then_some(0),
    };
    let inbound = Inbound::open(names.to_vec(), view, vec![descriptor], &rings);
    (sink, inbound.unwrap())
}

fn offer(sink: &mut RingSink, number: u64) -> bool {
    let message = MessageRef {
        group: "y",
        group_id: GroupId(1),
        sender: Origin::default(),
        number,
        bytes: &[7; 1000],
    };
    let kept = sink.offer(number, message).kept;
    sink.wake();
    kept
}

fn lost(first: u64, last: u64) -> Received {
    Received::Lost(Lost::new("y", Origin::default(), first, last))
}

fn next(inbound: &Inbound) -> Option<Received> {
    let mut reading = lock(&inbound.reading);
    let mut received = None;
    let mut keep = |taken: Taken<'_>| received = Some(taken.own());
    let there = reading.lanes[0].take(&inbound.names, &inbound.log, 1, &mut keep);
    assert_eq!(there.unwrap(), usize::from(received.is_some()));
    received
}

fn rest(inbound: &Inbound) -> VecDeque<Received> {
    std::iter::from_fn(|| next(inbound)).collect()
}

fn number(received: Option<Received>) -> u64 {
    received.and_then(Received::into_message).unwrap().number()
}

#[test]
fn what_is_missing_comes_in_its_place_also_when_the_ring_was_full() {
    for bytes in LOGS {
        let (logs, view) = log(bytes);
        let (sink, inbound) = ring(&logs, &view, WORDS);
        misses(sink, &inbound);
    }
}

fn misses(mut sink: RingSink, inbound: &Inbound) {
    sink.tell(lost(1, 2));
    assert!(sink.catch_up());
    for number in 3..=5 {
        assert!(offer(&mut sink, number));
    }
    assert!(!offer(&mut sink, 6) && !offer(&mut sink, 7));
    sink.tell(lost(8, 9));
    let packets = Received::LostPackets(LostPackets {
        sender: Origin::default(),
        packets: 3,
    });
    sink.tell(packets.clone());
    let excluded = Received::Excluded(Excluded {
        incarnation: Incarnation(2),
    });
    sink.tell(excluded.clone());
    assert_eq!(next(inbound), Some(lost(1, 2)));
    assert_eq!(number(next(inbound)), 3);
    // There is room for what is missing, and one more.
    assert!(offer(&mut sink, 10));
    assert!(!offer(&mut sink, 11));
    assert_eq!(number(next(inbound)), 4);
    assert_eq!(number(next(inbound)), 5);
    let dropped = |messages| Received::Dropped(Dropped { messages });
    let told = [next(inbound), next(inbound), next(inbound), next(inbound)];
    assert_eq!(
        told.map(Option::unwrap),
        [dropped(2), lost(8, 9), packets, excluded]
    );
    assert_eq!(number(next(inbound)), 10);
    // Nothing was written after it, and it is told all the same, once.
    assert_eq!(rest(inbound), [dropped(1)]);
    assert!(offer(&mut sink, 12));
    assert_eq!(number(next(inbound)), 12);
    assert_eq!(rest(inbound), []);
}

/// A message or notice that waits to be read.
#[derive(Debug, Clone, Copy)]
enum Waits {
    Message {
        number: u64,
        length: usize,
    },
    /// So many were dropped that were not told yet.
    Notice(u64),
}

/// Words of a notice, and those that are wanted for it.
const NOTICE: usize = 4;
const NOTICE_MOST: usize = 5;

/// A reader as it should be: what waits for it, and how much that is.
struct Model {
    sink: RingSink,
    inbound: Arc<Inbound>,
    capacity: usize,
    waits: VecDeque<Waits>,
    words: usize,
    /// Something was dropped since the last record of that.
    pending: bool,
    /// Dropped, and neither told nor in a record.
    dropped: u64,
}

impl Model {
    fn new(logs: &Logs, view: &Arc<View>, capacity: usize) -> Self {
        let (sink, inbound) = ring(logs, view, capacity);
        Self {
            sink,
            inbound,
            capacity,
            waits: VecDeque::new(),
            words: 0,
            pending: false,
            dropped: 0,
        }
    }

    fn fits(&self, words: usize) -> bool {
        self.words + words <= self.capacity
    }

    fn deliver(&mut self, message: MessageRef<'_>) {
        let (number, length) = (message.number, message.bytes.len());
        let words = message_words(length);
        let with_notice = words + NOTICE_MOST;
        let told = !self.pending
            || ((with_notice > self.capacity || self.fits(with_notice)) && self.fits(NOTICE));
        if told && std::mem::take(&mut self.pending) {
            let dropped = std::mem::take(&mut self.dropped);
            self.waits.push_back(Waits::Notice(dropped));
            self.words += NOTICE;
        }
        let kept = told && self.fits(words);
        if kept {
            self.waits.push_back(Waits::Message { number, length });
            self.words += words;
        } else {
            self.pending = true;
            self.dropped += 1;
        }
        let offered = self.sink.offer(number, message);
        assert_eq!((offered.kept, offered.dropped), (kept, u64::from(!kept)));
    }

    /// Reads one, if it was shown.
    fn read(&mut self) {
        // What was told already is passed over.
        while let Some(Waits::Notice(0)) = self.waits.front() {
            self.waits.pop_front();
            self.words -= NOTICE;
        }
        let Some(received) = next(&self.inbound) else {
            return;
        };
        match (received, self.waits.pop_front()) {
            (Received::Message(message), Some(Waits::Message { number, length })) => {
                assert_eq!((message.number(), message.group()), (number, group(number)));
                assert_eq!(message.bytes(), content(number, length));
                self.words -= message_words(length);
            }
            (Received::Dropped(told), Some(Waits::Notice(dropped))) => {
                assert_eq!(told.messages, dropped);
                self.words -= NOTICE;
            }
            // The last ones are told without a record.
            (Received::Dropped(told), None) => {
                assert_eq!(told.messages, std::mem::take(&mut self.dropped));
            }
            other => panic!("{other:?}"),
        }
    }
}

fn group(number: u64) -> &'static str {
    ["x", "y"][usize::from(number % 10 > 7)]
}

fn content(number: u64, length: usize) -> Vec<u8> {
    (0..length as u64)
        .map(|at| (at * 31 + number * 7) as u8)
        .collect()
}

/// Each reads at its own pace, one hardly ever: all of them get what they had room for, whole and in
/// order, and are told how many messages are missing where.
#[test]
fn readers_of_all_speeds_get_what_they_have_room_for() {
    for bytes in [4096, 128 << 10, 2 << 20] {
        let (logs, view) = log(bytes);
        let capacities = [1 << 14, 1 << 15, 1 << 12, 1 << 17];
        let mut models = capacities.map(|capacity| Model::new(&logs, &view, capacity));
        let mut random = Random(bytes as u64);
        for number in 1..=20_000 {
            let length = match random.below(20) {
                0 => random.below(70_000),
                1..5 => random.below(5000),
                _ => random.below(200),
            };
            let bytes = content(number, length as usize);
            let message = MessageRef {
                group: group(number),
                group_id: GroupId((number % 10 > 7).into()),
                sender: Origin::default(),
                number,
                bytes: &bytes,
            };
            for (place, model) in models.iter_mut().enumerate() {
                // Not everybody wants everything.
                if random.below(8) > place as u64 {
                    model.deliver(message);
                }
                if random.below(3) == 0 {
                    model.sink.wake();
                }
                let reads = match place {
                    3 if random.below(400) == 0 => 300,
                    3 => 0,
                    _ => random.below(4 - place as u64),
                };
                (0..reads).for_each(|_| model.read());
            }
        }
        for mut model in models {
            model.sink.wake();
            let most = model.waits.len() + 1;
            (0..most).for_each(|_| model.read());
            assert!(model.waits.is_empty() && model.dropped == 0 && model.words == 0);
            assert_eq!(model.sink.queued_bytes(), 0);
        }
    }
}

/// Messages that are sent to readers which look at them while more come.
const NUMBERS: u64 = 60_000;

/// Reads all messages, and looks at each more than once, with time between; more often the higher the pace.
fn read_through(inbound: &Inbound, pace: usize) {
    let next = Cell::new(1);
    let mut look = |taken: Taken<'_>| match taken {
        Taken::Message(_, message) => {
            let expected = content(message.number, message.bytes.len());
            assert!((0..=4 * pace).all(|_| message.bytes == expected));
            assert_eq!(message.number, next.get());
            next.set(next.get() + 1);
        }
        Taken::Notice(notice) => next.set(next.get() + notice.missing()),
    };
    while next.get() <= NUMBERS {
        let (_, taken) = inbound.take_there(AT_ONCE, &mut look);
        if taken.unwrap() == 0 {
            thread::yield_now();
        }
    }
    assert_eq!(next.get(), NUMBERS + 1);
}

/// Readers in place see whole messages while the engine writes on.
#[test]
fn messages_that_are_lent_are_never_torn() {
    let (logs, view) = log(256 << 10);
    let capacities = [1 << 12, 1 << 15, 1 << 17];
    let rings = capacities.map(|capacity| ring(&logs, &view, capacity));
    let (mut sinks, inbounds): (Vec<_>, Vec<_>) = rings.into_iter().unzip();
    thread::scope(|scope| {
        for (pace, inbound) in inbounds.iter().enumerate() {
            scope.spawn(move || read_through(inbound, pace));
        }
        for number in 1..=NUMBERS {
            let bytes = content(number, (number * 37 % 700) as usize);
            let message = MessageRef {
                group: group(number),
                group_id: GroupId((number % 10 > 7).into()),
                sender: Origin::default(),
                number,
                bytes: &bytes,
            };
            for sink in &mut sinks {
                sink.offer(number, message);
                if number % 16 == 0 {
                    sink.wake();
                }
            }
        }
        sinks.iter_mut().for_each(|sink| sink.wake());
    });
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Its attachment is over, the engine writes on where its messages lay, and it reads them.
#[test]
fn what_was_not_read_at_the_end_is_kept() {
    let (logs, view) = log(512 << 10);
    let (mut sink, inbound) = ring(&logs, &view, 1 << 15);
    for number in 1..=40 {
        assert!(offer(&mut sink, number));
    }
    assert_eq!(number(next(&inbound)), 1);
    {
        let _reading = lock(&inbound.reading);
        assert!(!inbound.settle(), "somebody reads");
    }
    assert!(inbound.settle() && inbound.settle());
    drop(sink);
    let (mut other, _inbound) = ring(&logs, &view, 1 << 15);
    for number in 1..=200 {
        let message = MessageRef {
            group: "x",
            group_id: GroupId(0),
            sender: Origin::default(),
            number,
            bytes: &[9; 1000],
        };
        other.offer(1000 + number, message);
    }
    for expected in 2..=40 {
        let message = next(&inbound).and_then(Received::into_message).unwrap();
        assert_eq!(
            (message.number(), message.bytes()),
            (expected, &[7; 1000][..])
        );
    }
    assert_eq!(next(&inbound), None);
}

/// A core thread to be woken, and the port that it sleeps at.
fn core() -> (Port, qsm_net::Waker) {
    let (interface, _) = choose_interface(Some("lo"), None).unwrap();
    let port = Port::open(PortConfig::new(interface)).unwrap();
    let waker = port.waker();
    (port, waker)
}

/// Messages and notices as short texts.
fn short(received: &Received) -> String {
    match received {
        Received::Message(message) => message.number().to_string(),
        Received::Lost(lost) => format!("-{}..{}", lost.first, lost.last),
        other => format!("{other:?}"),
    }
}

#[test]
fn what_has_no_room_is_kept_for_a_reader_that_holds_and_comes_in_its_place() {
    for bytes in LOGS {
        let (logs, view) = log(bytes);
        let kept = Arc::new(KeptBytes::new(1 << 20));
        let (mut sink, inbound) = ring_with(&logs, &view, WORDS, Overflow::Hold, &kept);
        let (_port, core) = core();
        assert!(offer(&mut sink, 1));
        assert_eq!(sink.is_full(&core), Some(false));
        (2..=10).for_each(|number| assert!(offer(&mut sink, number)));
        sink.tell(lost(11, 12));
        assert!(!sink.catch_up());
        assert!(offer(&mut sink, 13));
        // One that never fits is the only one that is dropped, in its place.
        let long = MessageRef {
            group: "y",
            group_id: GroupId(1),
            sender: Origin::default(),
            number: 14,
            bytes: &[7; 8 * WORDS],
        };
        assert_eq!(sink.offer(14, long).dropped, 1);
        assert!(offer(&mut sink, 15));
        let room = Arc::clone(sink.room().unwrap());
        assert_eq!(sink.is_full(&core), Some(true));
        assert!(room.is_awaited());
        let (mut got, mut said) = (Vec::new(), 0);
        while let Some(received) = next(&inbound) {
            got.push(short(&received));
            if inbound.owes_word() {
                said += 1;
                assert!(!inbound.owes_word(), "once");
                assert!(!room.is_awaited());
                sink.is_full(&core);
            }
        }
        let expected = (1..=10).map(|number| number.to_string());
        let mut expected: Vec<String> = expected.collect();
        let dropped = Received::Dropped(Dropped { messages: 1 });
        expected.extend([
            "-11..12".to_owned(),
            "13".to_owned(),
            short(&dropped),
            "15".to_owned(),
        ]);
        assert_eq!(got, expected);
        assert_eq!(sink.is_full(&core), Some(false));
        assert!((2..10).contains(&said), "{said}");
        assert_eq!((sink.dropped(), sink.queued_bytes()), (1, 0));
        assert!(kept_nothing(&kept));
    }
}

fn kept_nothing(kept: &KeptBytes) -> bool {
    kept.now() == 0
}

#[test]
fn a_reader_that_lies_about_room_wakes_nobody_and_one_that_has_too_much_kept_ends() {
    let (logs, view) = log(LOGS[1]);
    let kept = Arc::new(KeptBytes::new(20_000));
    let (mut sink, inbound) = ring_with(&logs, &view, WORDS, Overflow::Hold, &kept);
    let (mut port, core) = core();
    (1..=5).for_each(|number| assert!(offer(&mut sink, number)));
    assert_eq!(sink.is_full(&core), Some(true));
    let room = Arc::clone(sink.room().unwrap());
    room.tell();
    let slept = port.wait(Some(Duration::ZERO)).unwrap();
    assert!(!slept.woken, "it was woken for nothing");
    assert!(room.is_awaited());
    let (mut number, mut fits) = (6, true);
    while fits {
        fits = offer(&mut sink, number);
        number += 1;
        assert!(number < 40, "there is no limit");
    }
    assert_eq!(sink.is_full(&core), Some(false), "nobody waits for it");
    assert!(kept_nothing(&kept) && !offer(&mut sink, number));
    // What is in the ring can still be read, and then it is over.
    assert_eq!(rest(&inbound).len(), 3);
    assert!(lock(&inbound.reading).lanes[0].is_over());
}

/// A reader that is woken by nobody would stay behind for ever.
#[test]
fn a_core_thread_that_waits_for_a_ring_is_woken_by_its_reader() {
    const NUMBERS: u64 = 20_000;
    let (logs, view) = log(LOGS[1]);
    let kept = Arc::new(KeptBytes::new(1 << 20));
    let (mut sink, inbound) = ring_with(&logs, &view, 1 << 12, Overflow::Hold, &kept);
    let (mut port, core) = core();
    let room = Arc::clone(sink.room().unwrap());
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut expected = 1;
            while expected <= NUMBERS && !ended.load(Ordering::Relaxed) {
                let mut look = |taken: Taken<'_>| match taken {
                    Taken::Message(_, message) => {
                        assert_eq!(message.number, expected);
                        expected += 1;
                    }
                    Taken::Notice(notice) => panic!("{notice}"),
                };
                let (_, taken) = inbound.take_there(AT_ONCE, &mut look);
                if taken.unwrap() == 0 {
                    thread::yield_now();
                }
                if inbound.owes_word() {
                    room.tell();
                }
            }
        });
        for number in 1..=NUMBERS {
            assert!(offer(&mut sink, number));
            while sink.is_full(&core) == Some(true) {
                let woken = is_woken(&mut port);
                // So that the reader ends, too.
                ended.store(!woken, Ordering::Relaxed);
                assert!(woken, "nobody has woken it");
            }
        }
    });
}

/// Waits until a core thread is woken, a minute at most. A datagram for whoever had its port before ends the port's wait, too.
fn is_woken(port: &mut Port) -> bool {
    let patience = Duration::from_secs(60);
    let until = Instant::now() + patience;
    while Instant::now() < until {
        if port.wait(Some(patience)).unwrap().woken {
            return true;
        }
    }
    false
}
