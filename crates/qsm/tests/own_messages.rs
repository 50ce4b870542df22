//! Nodes that leave out what they have published themselves.

mod common;

use common::{PATIENCE, Site, expect_numbers, pattern};
use qsm::{Embedded, GroupOptions, Node, Overflow, Subscription};

const LENGTH: usize = 1000;

/// A node that gets its own messages, and one that does not.
fn pair(site: &Site) -> (Node, Node) {
    let usual = site.builder("a").embedded_service(Embedded::Always);
    let usual = common::admitted(usual);
    (
        usual,
        common::admitted(site.builder("b").own_messages(false)),
    )
}

fn read(subscription: &Subscription, last: u64) {
    expect_numbers(subscription, 1..=last, |number| pattern(number, LENGTH));
}

#[test]
fn what_a_node_has_published_itself_is_left_out_and_nothing_else() {
    let site = Site::new();
    let (a, b) = pair(&site);
    let (at_a, at_b) = (a.subscribe(["x"]).unwrap(), b.subscribe(["x"]).unwrap());
    let by_name = b.group("*").subscribe().unwrap();
    let (from_a, from_b) = (a.publisher("x").unwrap(), b.publisher("x").unwrap());
    from_a.wait_for_members(1, PATIENCE).unwrap();
    from_b.wait_for_members(1, PATIENCE).unwrap();
    for number in 1..=100 {
        from_b.send(&pattern(number, LENGTH)).unwrap();
    }
    read(&at_a, 100);
    b.flush(PATIENCE).unwrap();
    // Its own are not among them, nor in their numbers.
    for number in 1..=100 {
        from_a.send(&pattern(number, LENGTH)).unwrap();
    }
    read(&at_b, 100);
    read(&by_name, 100);
    read(&at_a, 100);
    a.flush(PATIENCE).unwrap();
    assert_eq!(at_b.try_recv(), Ok(None));
    assert_eq!(b.stats().unwrap().protocol.messages_delivered, 100);
}

/// R-DATA-13: it would hold itself up for ever, where the same thread publishes and reads.
#[test]
fn its_own_full_queue_does_not_keep_it_from_publishing() {
    let site = Site::new();
    let (a, b) = pair(&site);
    let at_a = a.subscribe(["x"]).unwrap();
    let options = GroupOptions::default()
        .capacity_messages(10)
        .overflow(Overflow::Hold);
    let at_b = b.group("x").options(options).subscribe().unwrap();
    let (from_a, from_b) = (a.publisher("x").unwrap(), b.publisher("x").unwrap());
    from_a.wait_for_members(1, PATIENCE).unwrap();
    from_b.wait_for_members(1, PATIENCE).unwrap();
    for number in 1..=200 {
        from_a.send(&pattern(number, LENGTH)).unwrap();
    }
    read(&at_a, 200);
    while !at_b.holds() {
        std::thread::yield_now();
    }
    for number in 1..=5000 {
        from_b.send(&pattern(number, LENGTH)).unwrap();
        if number % 100 == 0 {
            for number in number - 99..=number {
                let received = at_a.recv().unwrap().into_message().unwrap();
                assert_eq!(
                    (received.number(), received.sender().node),
                    (number, b.id())
                );
            }
        }
    }
    read(&at_b, 200);
}
