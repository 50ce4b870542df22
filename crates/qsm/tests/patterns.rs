//! Subscriptions to all groups whose names match a pattern.

mod common;

use std::thread;
use std::time::Duration;

use common::{PATIENCE, Place, Site, admitted, next};
use qsm::{
    CloseReason, Embedded, ErrorCode, GroupOptions, Node, Publisher, RecvError, RequestError,
    Subscription,
};

/// Sends once the group has a receiver, which tells that it was found.
fn send(publisher: &Publisher, message: &[u8]) {
    publisher.wait_for_members(1, PATIENCE).unwrap();
    publisher.send(message).unwrap();
}

fn expect(subscription: &Subscription, group: &str, bytes: &[u8]) {
    let message = next(subscription);
    assert_eq!((message.group(), message.bytes()), (group, bytes));
}

/// Waits until so many groups have been entered and left out.
fn wait_followed(subscription: &Subscription, groups: usize, left_out: usize) {
    let followed = || subscription.followed().unwrap();
    while (followed().groups, followed().left_out) != (groups, left_out) {
        let received = subscription.recv_timeout(Duration::from_millis(10));
        assert_eq!(received, Ok(None));
    }
}

/// Groups that are there, that come later, that are named, and that are not meant.
fn exercise(receiver: &Node, sender: &Node) {
    let other = sender.publisher("price").unwrap();
    let early = sender.publisher("prices/early").unwrap();
    let subscription = receiver.subscribe(["prices/**", "news"]).unwrap();
    assert!(subscription.groups().eq(["prices/**", "news"]));
    assert_eq!(subscription.followed().unwrap().groups, 1);
    send(&early, b"1");
    expect(&subscription, "prices/early", b"1");
    send(&sender.publisher("news").unwrap(), b"2");
    expect(&subscription, "news", b"2");
    for name in ["prices/late", "prices/", "prices/a/b"] {
        send(&sender.publisher(name).unwrap(), b"3");
        expect(&subscription, name, b"3");
    }
    assert_eq!(other.members().unwrap(), 0);
    wait_followed(&subscription, 4, 0);
    // All groups, while others of the node receive some of them.
    let all = receiver.subscribe(["**"]).unwrap();
    send(&other, b"4");
    expect(&all, "price", b"4");
    drop((subscription, all));
    let rows = || sender.list_groups().unwrap();
    while rows().iter().any(|row| row.members > 0) {}
}

#[test]
fn a_pattern_receives_from_groups_that_begin_later_and_from_no_others() {
    let site = Site::new();
    exercise(&site.first("receiver"), &site.node("sender"));
}

#[test]
fn several_cores_follow_a_pattern() {
    let site = Site::new();
    let builder = site.builder("receiver").cores(3);
    let receiver = admitted(builder.embedded_service(Embedded::Always));
    exercise(&receiver, &site.node("sender"));
}

#[test]
fn an_attached_node_follows_a_pattern() {
    let (site, place) = (Site::new(), Place::new());
    let engine = site.first("engine");
    let _share = engine.share(place.path()).unwrap();
    exercise(&place.attach(), &site.node("sender"));
}

fn exceed(receiver: &Node, sender: &Node) {
    let _publishers = sender.groups(["a/1", "a/2"]).publishers().unwrap();
    let options = GroupOptions::default().groups_max(2);
    let subscription = receiver.group("a/*").options(options).subscribe().unwrap();
    let third = sender.publisher("a/3").unwrap();
    wait_followed(&subscription, 2, 1);
    assert_eq!(third.members().unwrap(), 0);
    let refused = receiver.group("a/*").options(options).subscribe();
    let text = refused.unwrap_err().to_string();
    assert!(
        text.contains("3 groups, and at most 2") && text.contains("groups_max"),
        "{text}"
    );
}

#[test]
fn no_more_groups_are_followed_than_allowed() {
    let site = Site::new();
    exceed(&site.first("receiver"), &site.node("sender"));
    let (site, place) = (Site::new(), Place::new());
    let engine = site.first("engine");
    let _share = engine.share(place.path()).unwrap();
    exceed(&place.attach(), &site.node("sender"));
}

#[test]
fn of_groups_that_are_refused_together_those_are_entered_that_have_room() {
    let (site, place) = (Site::new(), Place::new());
    let (engine, sender) = (site.first("engine"), site.node("sender"));
    let _share = engine.share_with(place.options().groups_max(3)).unwrap();
    let client = place.attach();
    let subscription = client.subscribe(["c/*"]).unwrap();
    let names = ["c/1", "c/2", "c/3", "c/4", "c/5"];
    let publishers = sender.groups(names).publishers().unwrap();
    wait_followed(&subscription, 3, 2);
    send(&publishers[2], b"room");
    expect(&subscription, "c/3", b"room");
    assert_eq!(publishers[3].members().unwrap(), 0);
}

#[test]
fn an_engine_that_refuses_a_ring_leaves_the_groups_out() {
    let (site, place) = (Site::new(), Place::new());
    let (engine, sender) = (site.first("engine"), site.node("sender"));
    let options = place
        .options()
        .ring_bytes_max(1 << 20)
        .client_bytes_max(1 << 20);
    let _share = engine.share_with(options).unwrap();
    let client = place.attach();
    let first = sender.publisher("b/1").unwrap();
    let subscription = client.subscribe(["b/*"]).unwrap();
    let second = sender.publisher("b/2").unwrap();
    wait_followed(&subscription, 1, 1);
    assert_eq!(second.members().unwrap(), 0);
    send(&first, b"still");
    expect(&subscription, "b/1", b"still");
}

#[test]
fn what_a_pattern_cannot_be_used_for_is_a_named_error() {
    let node = Site::new().first("a");
    let errors = [
        node.publisher("a/*").map(drop),
        node.groups(["x", "*"]).publishers().map(drop),
        node.group("*").subscribe_with(|_| ()).map(drop),
        node.groups(["a/*"])
            .subscribe_per_core(|_| |_| ())
            .map(drop),
        node.leave(["a/*"]),
    ];
    for error in errors.map(Result::unwrap_err) {
        assert!(matches!(error, RequestError::Pattern { .. }), "{error}");
        assert_eq!(error.code(), ErrorCode::RequestPattern);
        assert!(
            error.to_string().contains("*\" stands for all groups"),
            "{error}"
        );
    }
    let errors = [
        node.publisher("a*").map(drop),
        node.subscribe(["x", "a/*b"]).map(drop),
        node.group("***").subscribe_with(|_| ()).map(drop),
    ];
    for error in errors.map(Result::unwrap_err) {
        assert_eq!(error.code(), ErrorCode::RequestBadPattern);
        assert!(error.to_string().contains("no group can match"), "{error}");
    }
}

/// A reader that waits while the node ends.
fn reads_to_the_end(subscription: Subscription, end: impl FnOnce(), why: &CloseReason) {
    let reader = thread::spawn(move || subscription.recv());
    end();
    assert_eq!(reader.join().unwrap(), Err(RecvError::Closed(why.clone())));
}

#[test]
fn the_end_of_the_node_is_told_also_while_no_group_is_found() {
    let (site, place) = (Site::new(), Place::new());
    let engine = admitted(
        site.builder("engine")
            .cores(2)
            .embedded_service(Embedded::Always),
    );
    let _share = engine.share(place.path()).unwrap();
    let (client, other) = (place.attach(), place.attach());
    let shut_down = CloseReason::ShutDown;
    let of_client = client.subscribe(["none/*"]).unwrap();
    let end = || drop(client.shutdown(PATIENCE).unwrap());
    reads_to_the_end(of_client, end, &shut_down);
    let of_other = other.subscribe(["none/*"]).unwrap();
    let own = engine.subscribe(["none/*"]).unwrap();
    let end = || drop(engine.shutdown(PATIENCE).unwrap());
    reads_to_the_end(own, end, &shut_down);
    let why = of_other.recv().unwrap_err();
    assert_eq!(why.code(), ErrorCode::ClosedEngineGone);
}
