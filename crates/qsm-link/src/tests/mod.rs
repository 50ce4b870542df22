//! Links over a network of the tests' own, in virtual time.

mod network;

use core::time::Duration;

use qsm_identity::{Claims, ClusterRoot, Role};

use self::network::{Network, claims, is_down, is_failed, is_refused, is_up, name_of, named};
use crate::{IDLE_TIMEOUT, Link, LinkEvent};

const MS: Duration = Duration::from_millis(1);
const PARENT: usize = 0;
const CHILD: usize = 1;

/// A parent and a child, with a link that is open.
fn linked(loss_ppm: u32) -> Network {
    let mut network = Network::new(loss_ppm);
    network.add(claims("lon/relay", Role::Relay));
    network.add(claims("fra/relay", Role::Relay));
    network.connect(CHILD, PARENT);
    network.run(2000 * MS);
    assert_eq!(named(&mut network, PARENT, is_up), ["fra/relay"]);
    assert_eq!(named(&mut network, CHILD, is_up), ["lon/relay"]);
    network
}

/// R-RELAY-22, R-RELAY-23.
#[test]
fn packets_pass_both_ways_once_each_end_has_shown_its_token() {
    let mut network = linked(0);
    let [parent, child] = [PARENT, CHILD].map(|end| network.address(end));
    network.send(CHILD, parent, b"up");
    network.send(PARENT, child, b"down");
    // To somebody without a link.
    network.send(PARENT, parent, b"nowhere");
    network.run(100 * MS);
    assert_eq!(network.taken(PARENT), ["up"]);
    assert_eq!(network.taken(CHILD), ["down"]);
    let stats = network.link(PARENT).stats();
    assert_eq!((stats.open, stats.unlinked, stats.sealed), (1, 1, 1));
    // Nothing but keep-alives for a minute, and it stays.
    network.run(Duration::from_secs(60));
    network.send(PARENT, child, b"still");
    network.run(100 * MS);
    assert_eq!(network.taken(CHILD), ["still"]);
    network.leave(CHILD);
    network.run(1000 * MS);
    let events = network.events(PARENT);
    assert!(
        matches!(&events[..], [LinkEvent::Down { cause, .. }] if cause.contains("it has ended")),
        "{events:?}"
    );
}

/// R-RELAY-22: the handshake and the hellos are repeated by QUIC.
#[test]
fn a_link_opens_over_a_network_that_loses_a_fifth() {
    let mut network = Network::new(200_000);
    network.add(claims("lon/relay", Role::Publish));
    network.add(claims("fra/sub", Role::Subscribe));
    network.connect(CHILD, PARENT);
    network.run(Duration::from_secs(20));
    assert_eq!(named(&mut network, PARENT, is_up), ["fra/sub"]);
    assert_eq!(network.link(CHILD).stats().open, 1);
}

/// R-RELAY-22: each mistake is named at both ends, and attempts become seldom.
#[test]
fn tokens_that_do_not_let_in_are_named_at_both_ends() {
    type Change = fn(&mut Claims);
    let mistakes: [(Change, &str); 5] = [
        (|claims| claims.cluster = "other".into(), "cluster"),
        (|claims| claims.expires = claims.not_before + 1, "expired"),
        (
            |claims| claims.name = "ber/**".parse().unwrap(),
            "does not allow the name",
        ),
        (
            |claims| claims.roles = qsm_identity::Roles::NONE.with(Role::Admin),
            "neither role",
        ),
        (
            |claims| claims.node_key = Some(qsm_identity::NodePublic::from_bytes([9; 32])),
            "bound to another",
        ),
    ];
    for (change, wrong) in mistakes {
        let mut network = Network::new(0);
        network.add(claims("lon/relay", Role::Relay));
        let mut made = claims("fra/relay", Role::Relay);
        change(&mut made);
        network.add(made);
        network.connect(CHILD, PARENT);
        network.run(Duration::from_secs(20));
        let refused: Vec<_> = network
            .events(PARENT)
            .into_iter()
            .filter(is_refused)
            .collect();
        let failed: Vec<_> = network
            .events(CHILD)
            .into_iter()
            .filter(is_failed)
            .collect();
        assert!(
            format!("{:?}", refused.first()).contains(wrong),
            "{wrong}: {refused:?}"
        );
        assert!(
            format!("{:?}", failed.first()).contains(wrong),
            "{wrong}: {failed:?}"
        );
        assert!((4..9).contains(&failed.len()), "{failed:?}");
        assert_eq!(network.link(PARENT).stats().open, 0);
    }
}

/// R-RELAY-22: a child does not speak to a parent of another root, or to one that may not be a parent.
#[test]
fn a_parent_has_to_show_a_token_too() {
    let root = ClusterRoot::generate().unwrap();
    let mut network = Network::new(0);
    network.add_of(&root, claims("lon/relay", Role::Relay));
    network.add(claims("fra/relay", Role::Relay));
    network.connect(CHILD, PARENT);
    network.run(1000 * MS);
    let failed = network.events(CHILD).into_iter().find(is_failed);
    assert!(
        format!("{failed:?}").contains("not signed by"),
        "{failed:?}"
    );
    let mut network = Network::new(0);
    network.add(claims("fra/sub", Role::Subscribe));
    network.add(claims("fra/relay", Role::Relay));
    network.connect(CHILD, PARENT);
    network.run(1000 * MS);
    let refused = network.events(CHILD).into_iter().find(is_refused);
    assert!(
        format!("{refused:?}").contains("neither role relay nor publish"),
        "{refused:?}"
    );
    assert_eq!(network.link(CHILD).stats().open, 0);
    // It shows its token to whoever asks, so that must be worth nothing to others.
    let mut network = Network::new(0);
    network.add_unbound(claims("lon/relay", Role::Relay));
    network.add_unbound(claims("fra/relay", Role::Relay));
    network.connect(CHILD, PARENT);
    network.run(1000 * MS);
    let refused = network.events(CHILD).into_iter().find(is_refused);
    assert!(format!("{refused:?}").contains("is bound to its key, and this one to none"));
    let told = network.events(PARENT).into_iter().find(is_refused);
    assert!(
        format!("{told:?}").contains("the other end says"),
        "{told:?}"
    );
    assert_eq!(network.link(PARENT).stats().opened, 0);
}

/// R-RELAY-22.
#[test]
fn a_token_that_expires_ends_its_link_and_says_so() {
    let mut network = Network::new(0);
    network.add(claims("lon/relay", Role::Relay));
    let mut short = claims("fra/relay", Role::Relay);
    short.expires = short.not_before + 90;
    network.add(short);
    network.connect(CHILD, PARENT);
    network.run(Duration::from_secs(29));
    assert_eq!(network.link(PARENT).stats().open, 1);
    network.run(Duration::from_secs(3));
    assert_eq!(network.link(PARENT).stats().open, 0);
    let down = network.events(CHILD).into_iter().find(is_down);
    assert!(format!("{down:?}").contains("expired"), "{down:?}");
}

/// R-RELAY-24: the address is the one that the connection has proven; what goes to the former one
/// meanwhile follows it.
#[test]
fn a_child_whose_port_changes_keeps_its_link() {
    let mut network = linked(0);
    let [parent, child] = [PARENT, CHILD].map(|end| network.address(end));
    network.translate(CHILD, 6001);
    let outside = network.address(CHILD);
    assert_ne!(child, outside);
    network.send(CHILD, parent, b"from elsewhere");
    network.run(500 * MS);
    network.send(PARENT, child, b"to the former address");
    network.send(PARENT, outside, b"to the new one");
    network.run(100 * MS);
    assert_eq!(network.taken(PARENT), ["from elsewhere"]);
    assert_eq!(
        network.taken(CHILD),
        ["to the former address", "to the new one"]
    );
    let events = network.events(PARENT);
    assert!(
        matches!(&events[..], [LinkEvent::Moved { from, to, .. }] if (*from, *to) == (child, outside)),
        "{events:?}"
    );
    assert!(network.link(PARENT).stats().strayed > 0);
    for port in 6002..6010 {
        network.translate(CHILD, port);
        network.send(CHILD, parent, b"again");
        network.run(500 * MS);
    }
    assert_eq!(network.taken(PARENT).len(), 8);
    assert_eq!(network.link(PARENT).stats().moved, 9);
}

/// R-RELAY-24: a parent that has begun anew asks its children to speak, and is connected to again.
#[test]
fn a_parent_that_is_started_again_has_its_child_within_a_second() {
    let mut network = linked(0);
    let parent = network.address(PARENT);
    network.restart(PARENT);
    network.send(CHILD, parent, b"to the former one");
    network.run(1000 * MS);
    assert_eq!(named(&mut network, PARENT, is_up), ["fra/relay"]);
    network.send(CHILD, parent, b"to the new one");
    network.run(100 * MS);
    assert_eq!(network.taken(PARENT), ["to the new one"]);
    let events = network.events(CHILD);
    let kinds: Vec<bool> = events.iter().map(is_up).collect();
    assert_eq!(kinds, [false, true], "{events:?}");
}

/// R-RELAY-24: who forges the word that a parent has forgotten a link does not end it.
#[test]
fn forged_words_change_nothing_and_are_answered_seldom() {
    let mut network = linked(0);
    let [parent, child] = [PARENT, CHILD].map(|end| network.address(end));
    network.send(CHILD, parent, b"once");
    network.run(100 * MS);
    let sealed = network.last_sealed();
    for number in 0..1000_u32 {
        network.inject(parent, child, &[crate::seal::SPEAK]);
        let mut forged = sealed.clone();
        forged[20] ^= 1;
        network.inject(child, parent, &forged);
        network.inject(child, parent, &sealed);
        forged[2..6].copy_from_slice(&number.to_le_bytes());
        network.inject(child, parent, &forged);
        network.inject(child, parent, &[0x82, 1, 2, 3]);
        network.inject(child, parent, &[0xc0, 0, 0, 0, 1, 8, 1, 2, 3]);
    }
    let before = network.sent(PARENT);
    network.run(500 * MS);
    let answers = network.sent(PARENT) - before;
    assert!(answers < 600, "{answers}");
    let stats = network.link(PARENT).stats();
    assert_eq!((stats.open, stats.forged, stats.replayed), (1, 1000, 2000));
    assert_eq!(stats.mismatched, 1000);
    let events = network.events(PARENT);
    assert!(
        matches!(&events[..], [LinkEvent::Mismatched { .. }]),
        "{events:?}"
    );
    assert_eq!(network.link(CHILD).stats().open, 1);
    network.send(CHILD, parent, b"still");
    network.run(100 * MS);
    assert_eq!(network.taken(PARENT), ["once", "still"]);
}

/// R-RELAY-22.
#[test]
fn of_two_processes_with_one_key_the_second_is_refused_and_told_so() {
    let mut network = linked(0);
    let parent = network.address(PARENT);
    let other = network.twin(CHILD);
    network.connect(other, PARENT);
    // The first one lives.
    for _ in 0..40 {
        network.send(CHILD, parent, b"here");
        network.run(100 * MS);
    }
    let failed = network.events(other).into_iter().find(is_failed);
    assert!(
        format!("{failed:?}").contains("two processes have the key"),
        "{failed:?}"
    );
    assert_eq!(network.link(PARENT).stats().open, 1);
    // It is silent, and the other takes its place.
    network.cut(CHILD, true);
    network.run(Duration::from_secs(8));
    assert_eq!(named(&mut network, PARENT, is_up), ["fra/relay"]);
    assert_eq!(network.link(other).stats().open, 1);
}

/// R-RELAY-22: a link that is cut and comes back, again and again, costs few words and is made anew.
#[test]
fn a_link_that_flaps_is_told_and_comes_back() {
    let mut network = linked(0);
    let parent = network.address(PARENT);
    for round in 0..5 {
        network.cut(CHILD, true);
        network.run(IDLE_TIMEOUT * 2);
        assert_eq!(network.link(CHILD).stats().open, 0, "{round}");
        network.cut(CHILD, false);
        network.run(Duration::from_secs(12));
        assert_eq!(network.link(CHILD).stats().open, 1, "{round}");
        network.send(CHILD, parent, b"back");
        network.run(100 * MS);
        assert_eq!(network.taken(PARENT), ["back"]);
        let events = network.events(CHILD);
        assert!(events.len() <= 8, "{events:?}");
        assert_eq!(events.iter().filter(|event| is_down(event)).count(), 1);
        assert_eq!(
            events.iter().map(name_of).next_back(),
            Some("lon/relay".to_owned())
        );
    }
    assert_eq!(network.link(PARENT).stats().opened, 6);
}

/// R-RELAY-22, R-RELAY-42: each parent has a link of its own, which stays when the other one is gone.
#[test]
fn a_child_of_two_parents_has_a_link_to_each() {
    let mut network = linked(0);
    network.add(claims("ams/relay", Role::Relay));
    let other = 2;
    network.connect(CHILD, other);
    network.run(2000 * MS);
    assert_eq!(named(&mut network, other, is_up), ["fra/relay"]);
    let [first, second] = [PARENT, other].map(|end| network.address(end));
    for (parent, at) in [(PARENT, first), (other, second)] {
        network.send(CHILD, at, b"up");
        network.run(100 * MS);
        assert_eq!(network.taken(parent), ["up"]);
    }
    // The first one is gone without a word.
    network.cut(PARENT, true);
    network.run(Duration::from_secs(30));
    network.send(CHILD, second, b"still");
    network.run(100 * MS);
    assert_eq!(network.taken(other), ["still"]);
    assert_eq!(named(&mut network, CHILD, is_down), ["lon/relay"]);
    // And is connected to again when it is back.
    network.cut(PARENT, false);
    network.run(Duration::from_secs(12));
    network.send(CHILD, first, b"again");
    network.run(100 * MS);
    assert_eq!(network.taken(PARENT), ["again"]);
    assert_eq!(network.link(CHILD).stats().open, 2);
}
