//! Keepers and subscribers at nodes of one process, over loopback.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use qsm::{Builder, Embedded, Node, Origin, RequestError};
use qsm_history::{
    Bounds, History, HistoryError, Item, JoinOptions, Keeper, MissingCause, Position, Start,
};

use support::{PATIENCE, site};

#[path = "../../qsm-replica/tests/support/mod.rs"]
mod support;

const GROUP: &str = "news";

fn started(builder: Builder) -> Node {
    let node = builder.start().unwrap();
    node.wait_admitted(PATIENCE).unwrap();
    node
}

fn next(history: &mut History) -> Item {
    let item = history.recv_timeout(PATIENCE).unwrap();
    item.expect("nothing comes any more")
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

/// Messages that a subscriber was given: by which way, and how far.
#[derive(Debug, Default)]
struct Account {
    next: BTreeMap<Origin, u64>,
    kept: u64,
    live: u64,
    missing: Vec<(u64, u64, MissingCause)>,
}

impl Account {
    /// Takes an item; numbers of each sender must follow each other. True if it ends the history.
    fn take(&mut self, item: Item) -> bool {
        let (sender, first, last) = match item {
            Item::Kept(message) | Item::Message(message) if message.bytes().len() < 8 => {
                panic!("{message:?} is of nobody")
            }
            Item::Kept(message) => {
                assert_eq!(number(message.bytes()), message.number());
                self.kept += 1;
                (message.sender(), message.number(), message.number())
            }
            Item::Message(message) => {
                assert_eq!(number(message.bytes()), message.number());
                self.live += 1;
                (message.sender(), message.number(), message.number())
            }
            Item::Missing(missing) => {
                let (first, last) = (missing.first, missing.last);
                self.missing.push((first, last, missing.cause));
                (missing.sender, first, last)
            }
            Item::Joined(_) => return true,
            other => panic!("{other:?}"),
        };
        let next = self.next.entry(sender).or_insert(first);
        assert_eq!(*next, first, "of {sender}");
        *next = last + 1;
        false
    }

    /// Reads until the group is live.
    fn join(&mut self, history: &mut History) {
        while !self.take(next(history)) {}
    }

    /// Reads until this message of the only sender has come.
    fn reach(&mut self, history: &mut History, last: u64) {
        while self.next.values().next() != Some(&(last + 1)) {
            self.take(next(history));
        }
    }
}

fn subscribe(node: &Node, start: Start) -> History {
    History::subscribe(node, [GROUP], start, JoinOptions::default()).unwrap()
}

fn wait_for_kept(keeper: &Keeper, messages: u64) {
    while keeper.stats().messages < messages {
        assert_eq!(keeper.ended(), None);
        thread::yield_now();
    }
}

/// R-HIST-3, R-HIST-4.
#[test]
fn a_subscriber_that_joins_in_mid_stream_has_the_last_messages_and_all_that_follow() {
    let site = site();
    let first = started(site("first").embedded_service(Embedded::Always));
    let (second, third) = (started(site("second")), started(site("third")));
    let keeper = Keeper::start(&second, [GROUP], Bounds::default().messages(1_000_000)).unwrap();
    let publisher = first.publisher(GROUP).unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    let (done, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut account, mut history) = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let number = sent.load(Ordering::Relaxed) + 1;
                publisher.send(&number.to_le_bytes()).unwrap();
                sent.store(number, Ordering::Relaxed);
                if number > 2000 && number % 50 == 0 {
                    first.flush(PATIENCE).unwrap();
                }
            }
        });
        wait_for_kept(&keeper, 2000);
        let mut history = subscribe(&third, Start::Last(1500));
        let mut account = Account::default();
        account.join(&mut history);
        done.store(true, Ordering::Relaxed);
        (account, history)
    });
    // One more, so that the last number is known.
    let last = sent.load(Ordering::Relaxed) + 1;
    publisher.send(&last.to_le_bytes()).unwrap();
    account.reach(&mut history, last);
    assert_eq!(account.missing, []);
    assert!(account.kept >= 1500, "{} kept", account.kept);
    assert!(account.live > 0, "nothing came live");
}

/// R-HIST-2, R-HIST-5.
#[test]
fn what_is_kept_no_more_is_named_and_a_position_goes_on_where_it_ended() {
    let site = site();
    let first = started(site("first").embedded_service(Embedded::Always));
    let (second, third) = (started(site("second")), started(site("third")));
    let publisher = first.publisher(GROUP).unwrap();
    let send = |numbers: std::ops::RangeInclusive<u64>| {
        for number in numbers {
            publisher.send(&number.to_le_bytes()).unwrap();
        }
        first.flush(PATIENCE).unwrap();
    };
    // Ten messages: their number may be more for a while when somebody asks.
    let bounds = Bounds::default().bytes(10 * (8 + 96));
    let keeper = Keeper::start(&second, [GROUP], bounds).unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    send(1..=30);
    wait_for_kept(&keeper, 10);

    let mut history = subscribe(&third, Start::Last(15));
    let mut account = Account::default();
    account.join(&mut history);
    assert_eq!(account.missing, [(16, 20, MissingCause::Gone)]);
    assert_eq!((account.kept, account.live), (10, 0));
    let position = history.position();
    drop(history);
    send(31..=45);

    // 31 to 35 have gone meanwhile.
    let mut history = subscribe(&third, Start::Resume(position.clone()));
    let mut account = Account::default();
    account.join(&mut history);
    assert_eq!(account.missing, [(31, 35, MissingCause::Gone)]);
    assert_eq!((account.kept, account.live), (10, 0));
    send(46..=46);
    account.reach(&mut history, 46);
    assert_eq!(account.live, 1);
    let sender = *account.next.keys().next().unwrap();
    assert_eq!(history.position().get(GROUP, sender), Some(46));

    // Without keepers the next live message shows what is missing.
    drop(keeper);
    drop(history);
    let mut history = subscribe(&third, Start::Resume(position));
    let mut account = Account::default();
    account.join(&mut history);
    publisher.wait_for_members(1, PATIENCE).unwrap();
    send(47..=47);
    account.reach(&mut history, 47);
    assert_eq!(account.missing, [(31, 46, MissingCause::NoKeeper)]);
}

/// R-HIST-3.
#[test]
fn another_keeper_goes_on_where_one_dies_in_the_middle() {
    let site = site();
    let first = started(site("first").embedded_service(Embedded::Always));
    let nodes = ["second", "third", "fourth"].map(|name| started(site(name)));
    // Slow enough to be met in the middle.
    let bounds = Bounds::default().messages(5000).bytes_per_second(2 << 20);
    let mut keepers: Vec<_> = nodes[..2]
        .iter()
        .map(|node| Keeper::start(node, [GROUP], bounds).unwrap())
        .collect();
    let publisher = first.publisher(GROUP).unwrap();
    publisher.wait_for_members(2, PATIENCE).unwrap();
    let total = 4000_u64;
    for number in 1..=total {
        let message = [&number.to_le_bytes()[..], &[7; 1000]].concat();
        publisher.send(&message).unwrap();
    }
    first.flush(PATIENCE).unwrap();
    for keeper in &keepers {
        wait_for_kept(keeper, total);
    }
    let mut history = subscribe(&nodes[2], Start::Resume(Position::default()));
    let mut account = Account::default();
    account.reach(&mut history, 200);
    // The one that sends.
    let sends = keepers.iter().position(|keeper| keeper.stats().fetches > 0);
    drop(keepers.remove(sends.unwrap()));
    account.join(&mut history);
    account.reach(&mut history, total);
    assert_eq!((account.kept, account.missing.len()), (total, 0));
    assert!(keepers[0].stats().sent_messages > 0);
}

#[test]
fn now_asks_nobody_and_patterns_are_refused() {
    let site = site();
    let first = started(site("first").embedded_service(Embedded::Always));
    let keeper = Keeper::start(&first, [GROUP], Bounds::default()).unwrap();
    let publisher = first.publisher(GROUP).unwrap();
    publisher.send(&1_u64.to_le_bytes()).unwrap();
    wait_for_kept(&keeper, 1);
    let second = started(site("second"));
    let mut history = subscribe(&second, Start::Now);
    assert!(history.is_joined());
    publisher.wait_for_members(1, PATIENCE).unwrap();
    publisher.send(&2_u64.to_le_bytes()).unwrap();
    let Item::Message(message) = next(&mut history) else {
        panic!("no message");
    };
    assert_eq!((message.number(), keeper.stats().fetches), (2, 0));
    for refused in [
        History::subscribe(&second, ["a/*"], Start::Last(1), JoinOptions::default()).map(drop),
        Keeper::start(&second, ["a", "**"], Bounds::default()).map(drop),
    ] {
        let error = refused.unwrap_err();
        assert!(
            matches!(error, HistoryError::Request(RequestError::Pattern { .. })),
            "{error}"
        );
    }
}
