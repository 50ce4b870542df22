//! Latency budgets over loopback: the stage that stalls is named, and no other (R241).

mod common;

use std::time::Duration;

use common::{PATIENCE, Site};
use qsm::{
    Embedded, Event, Events, GroupOptions, LatencyBudget, LatencyStats, Limits, Node, OverBudget,
    Overflow, PublishOptions, SendError, Stage,
};

/// So much for all other stages that none exceeds it, however busy the machine is.
const PLENTY: Duration = Duration::from_secs(100_000);
const SHARE: Duration = Duration::from_millis(20);

/// A budget in which this stage alone has little.
fn budget(stage: Stage) -> LatencyBudget {
    LatencyBudget::new(PLENTY).stage(stage, SHARE).unwrap()
}

/// The next word on a stage.
fn next_over(events: &Events) -> OverBudget {
    loop {
        match events.recv_timeout(PATIENCE).unwrap() {
            Some(Event::OverBudget(over)) => return over,
            Some(_) => {}
            None => panic!("nothing is over budget"),
        }
    }
}

/// Times that each stage exceeded its share.
fn counted(node: &Node) -> [u64; 7] {
    let LatencyStats {
        over_handoff,
        over_batching,
        over_admission,
        over_socket_send,
        over_receive_buffer,
        over_repair,
        over_subscription,
        ..
    } = node.stats().unwrap().latency;
    [
        over_handoff,
        over_batching,
        over_admission,
        over_socket_send,
        over_receive_buffer,
        over_repair,
        over_subscription,
    ]
}

#[test]
fn a_reader_that_does_not_read_is_named_while_it_does_not() {
    let site = Site::new();
    let a = site.first("a");
    let b = common::admitted(
        site.builder("b")
            .latency_budget(budget(Stage::Subscription)),
    );
    let events = b.events();
    let subscription = b.subscribe(["x"]).unwrap();
    let publisher = a.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    publisher.send(b"read me").unwrap();
    let over = next_over(&events);
    assert_eq!((over.stage, over.budget), (Stage::Subscription, SHARE));
    assert!(over.took > SHARE, "{over}");
    assert_eq!(counted(&b), [0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(common::next(&subscription).bytes(), b"read me");
    assert_eq!(counted(&a), [0; 7], "it has no budget");
}

// Rule R-DATA-15.
#[test]
fn messages_that_wait_for_others_too_long_are_named_as_that() {
    let site = Site::new();
    let builder = site.builder("a").embedded_service(Embedded::Always);
    let a = common::admitted(builder.latency_budget(budget(Stage::Batching)));
    let b = site.node("b");
    let events = a.events();
    let subscription = b.subscribe(["x"]).unwrap();
    let patient = PublishOptions::default().batch_delay(SHARE * 3);
    let publisher = a.group("x").publish_options(patient).publisher().unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    publisher.send(b"alone").unwrap();
    let over = next_over(&events);
    assert_eq!((over.stage, over.budget), (Stage::Batching, SHARE));
    assert_eq!(common::next(&subscription).bytes(), b"alone");
    assert_eq!(counted(&a), [0, 1, 0, 0, 0, 0, 0]);
}

#[test]
fn a_sender_without_credit_is_named_as_held_and_its_queue_is_not() {
    let site = Site::new();
    let builder = site.builder("a").embedded_service(Embedded::Always);
    let a = common::admitted(builder.latency_budget(budget(Stage::Admission)));
    let small = Limits {
        receive_bytes: 8 << 20,
        ..Limits::default()
    };
    let b = common::admitted(site.builder("b").limits(small));
    let events = a.events();
    let hold = GroupOptions::default()
        .capacity_messages(50)
        .overflow(Overflow::Hold);
    let _unread = b.group("x").options(hold).subscribe().unwrap();
    let publisher = a.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    let over = loop {
        match publisher.try_send(&[7; 8000]) {
            Ok(()) => {}
            Err(SendError::Full) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
        if let Some(Event::OverBudget(over)) = events.try_recv().unwrap() {
            break over;
        }
    };
    assert_eq!((over.stage, over.budget), (Stage::Admission, SHARE));
    let mut counts = counted(&a);
    assert!(core::mem::take(&mut counts[2]) > 0);
    assert_eq!(counts, [0; 7]);
}
