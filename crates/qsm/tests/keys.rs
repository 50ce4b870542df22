//! A cluster with a key: what its members send arrives as ever, and who has no key reads nothing and changes nothing.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::time::{Duration, Instant};

use common::{PATIENCE, Place, Site, admitted, expect_numbers, pattern, wait_for};
use qsm::{
    Cipher, ClusterKey, Embedded, Event, FaultConfig, KeyFileCause, NetworkOptions, Node,
    StrangerCause, Subscription, read_key, write_key,
};
use qsm_net::{PortConfig, Ports};
use qsm_wire::{Coverage, HOP_AT, Kind, seal, sealed_by};

fn key() -> ClusterKey {
    ClusterKey::generate(Cipher::default()).unwrap()
}

/// Nodes of a site, all with the key; the first has the service.
fn members<const N: usize>(site: &Site, network: &NetworkOptions) -> [Node; N] {
    let mut number = 0;
    [(); N].map(|()| {
        number += 1;
        let builder = site.builder(&format!("node-{number}"));
        let embedded = match number {
            1 => Embedded::Always,
            _ => Embedded::Never,
        };
        admitted(builder.network(network.clone()).embedded_service(embedded))
    })
}

#[test]
fn what_members_send_arrives_and_is_repaired_whatever_the_cipher() {
    for cipher in Cipher::ALL {
        let site = Site::new();
        let fault = FaultConfig {
            seed: 1,
            loss_ppm: 30_000,
            reorder_ppm: 10_000,
            duplicate_ppm: 10_000,
            ..FaultConfig::default()
        };
        let key = ClusterKey::generate(cipher).unwrap();
        let network = site.network().key(key).fault(fault);
        let nodes: [Node; 3] = members(&site, &network);
        let subscriptions = nodes.each_ref().map(|node| node.subscribe(["x"]).unwrap());
        let publisher = nodes[0].publisher("x").unwrap();
        publisher.wait_for_members(2, PATIENCE).unwrap();
        for number in 1..=5000 {
            publisher.send(&pattern(number, 1000)).unwrap();
        }
        for subscription in &subscriptions {
            expect_numbers(subscription, 1..=5000, |number| pattern(number, 1000));
        }
        nodes[0].flush(PATIENCE).unwrap();
        for node in &nodes {
            let stats = node.stats().unwrap();
            let refused = stats.port.refused;
            assert_eq!(
                (refused.plain, refused.forged, refused.other_key),
                (0, 0, 0)
            );
            assert_eq!(
                stats.protocol.discard_damaged + stats.protocol.discard_malformed,
                0
            );
        }
    }
}

#[test]
fn who_has_no_key_or_another_one_is_not_let_in_and_both_sides_say_so() {
    let site = Site::new();
    let [member] = members(&site, &site.network().key(key()));
    let heard = member.events();
    for (network, here, there) in [
        (
            site.network(),
            StrangerCause::Protected,
            StrangerCause::Unprotected,
        ),
        (
            site.network().key(key()),
            StrangerCause::OtherKey,
            StrangerCause::OtherKey,
        ),
    ] {
        let stranger = site.builder("stranger").network(network).start().unwrap();
        let events = stranger.events();
        let is = |event: &Event, cause| matches!(event, Event::Stranger(it) if it.cause == cause);
        wait_for(&events, |event| is(event, here));
        wait_for(&heard, |event| is(event, there));
        assert!(stranger.wait_admitted(Duration::ZERO).is_err());
    }
    assert_eq!(member.list_nodes().unwrap().len(), 1);
}

/// Somebody on the network without the key: hears all multicast of the cluster, and sends to whom it likes.
struct Attacker {
    ports: Ports,
    /// Nodes and multicast addresses of the cluster.
    targets: Vec<SocketAddr>,
}

impl Attacker {
    fn of(site: &Site, member: &Node) -> Self {
        let (interface, _) = qsm_net::choose_interface(Some("lo"), None).unwrap();
        let mut ports = Ports::open(PortConfig::new(interface), None).unwrap();
        let regions = member.list_regions().unwrap();
        let groups = regions.iter().map(|region| region.address);
        let groups: Vec<_> = groups.chain([site.discovery()]).collect();
        for group in &groups {
            ports.join(*group).unwrap();
        }
        let nodes = member.list_nodes().unwrap();
        let targets = nodes.iter().map(|node| node.address).chain(groups);
        Self {
            targets: targets.collect(),
            ports,
        }
    }

    /// Packets that it has heard so far, at most so many of each kind.
    fn recorded(&mut self, most: usize) -> Vec<Vec<u8>> {
        let mut kinds = BTreeMap::new();
        let mut all = Vec::new();
        while self.ports.receive().unwrap() > 0 {
            for datagram in self.ports.datagrams() {
                let seen: &mut usize = kinds.entry(datagram.bytes[1]).or_default();
                *seen += 1;
                if *seen <= most {
                    all.push(datagram.bytes.to_vec());
                }
            }
        }
        all
    }

    /// Packets that it has heard so far, and hears until there are so many kinds.
    fn recorded_of(&mut self, many: usize, most: usize) -> Vec<Vec<u8>> {
        let limit = Instant::now() + PATIENCE;
        let mut all = self.recorded(most);
        while kinds(&all).len() < many {
            assert!(Instant::now() < limit, "{:?}", kinds(&all));
            self.ports.wait(Some(PATIENCE)).unwrap();
            all.extend(self.recorded(most));
        }
        all
    }

    /// Sends the packet to all members, by unicast and by multicast.
    fn send(&mut self, packet: &[u8]) {
        for to in &self.targets {
            while self.ports.send(*to, packet, packet.len()).is_err() {
                self.ports.wait(Some(PATIENCE)).unwrap();
            }
        }
    }
}

fn kinds(packets: &[Vec<u8>]) -> BTreeSet<Kind> {
    let kinds = packets.iter().filter_map(|packet| Kind::peek(packet));
    kinds.collect()
}

/// Packets that no member has made, out of one that a member has: each of its bytes changed, the same cut short and
/// made longer, in another's name, and without protection, as a packet of each kind.
fn forged(packet: &[u8]) -> Vec<Vec<u8>> {
    let changed = (0..packet.len()).filter(|at| *at != HOP_AT && !(4..8).contains(at));
    let mut all: Vec<Vec<u8>> = changed
        .map(|at| {
            let mut changed = packet.to_vec();
            changed[at] ^= 0x40;
            changed
        })
        .collect();
    for length in [24, 40, packet.len() - 1] {
        all.push(packet[..length.min(packet.len())].to_vec());
    }
    all.push([packet, &[0; 9]].concat());
    for kind in Kind::ALL {
        let mut plain = packet.to_vec();
        plain[1] = *kind as u8;
        // The rest of the header is a member's, and what follows is noise, which some kinds take for fields.
        seal(&mut plain, Coverage::Whole);
        assert_eq!(sealed_by(&plain), None);
        all.push(plain);
        let mut posed = packet.to_vec();
        posed[1] = *kind as u8;
        all.push(posed);
    }
    all.retain(|forged| forged != packet);
    all
}

fn take_all(subscriptions: &[Subscription], numbers: RangeInclusive<u64>) {
    for subscription in subscriptions {
        expect_numbers(subscription, numbers.clone(), |number| pattern(number, 200));
    }
}

#[test]
fn an_attacker_on_the_network_reads_nothing_and_changes_nothing() {
    let site = Site::new();
    let nodes: [Node; 3] = members(&site, &site.network().key(key()));
    let subscriptions = nodes.each_ref().map(|node| node.subscribe(["x"]).unwrap());
    let publisher = nodes[0].publisher("x").unwrap();
    publisher.wait_for_members(2, PATIENCE).unwrap();
    let mut attacker = Attacker::of(&site, &nodes[0]);
    let publish = |numbers: RangeInclusive<u64>| {
        for number in numbers {
            publisher.send(&pattern(number, 200)).unwrap();
        }
    };
    publish(1..=500);
    take_all(&subscriptions, 1..=500);
    nodes[0].flush(PATIENCE).unwrap();

    let recorded = attacker.recorded_of(3, 20);
    let kinds = kinds(&recorded);
    assert!(kinds.contains(&Kind::Data));
    assert!(recorded.iter().all(|packet| sealed_by(packet).is_some()));
    let clear = |packet: &Vec<u8>| {
        packet
            .windows(8)
            .any(|part| pattern(9, 200).starts_with(part))
    };
    assert!(!recorded.iter().any(clear));

    // Again as they were, and then everything that can be made of one of each kind.
    let mut sent = 0;
    for packet in &recorded {
        attacker.send(packet);
    }
    for kind in &kinds {
        let packet = recorded
            .iter()
            .find(|packet| Kind::peek(packet) == Some(*kind))
            .unwrap();
        for forged in forged(packet) {
            attacker.send(&forged);
            sent += 1;
        }
    }
    publish(501..=1000);
    take_all(&subscriptions, 501..=1000);
    nodes[0].flush(PATIENCE).unwrap();
    for (node, subscription) in nodes.iter().zip(&subscriptions) {
        assert_eq!(subscription.try_recv().unwrap(), None);
        let stats = node.stats().unwrap();
        let refused = stats.port.refused;
        // Each came by unicast and at two multicast addresses, unless a busy machine had no room for it.
        let dropped = stats.port.unicast.kernel_drops + stats.port.multicast.kernel_drops;
        let unread = refused.plain + refused.forged + refused.other_key + dropped;
        assert!(
            unread >= sent && refused.plain > 0 && refused.forged > 0,
            "{refused}"
        );
        assert!(refused.replayed > 0);
        let protocol = &stats.protocol;
        let discarded = protocol.discard_damaged
            + protocol.discard_malformed
            + protocol.discard_kind
            + protocol.discard_version
            + protocol.discard_stranger;
        assert_eq!(discarded, 0);
        assert_eq!(
            (protocol.messages_lost, node.list_nodes().unwrap().len()),
            (0, 3)
        );
    }
}

#[test]
fn a_file_of_a_key_is_read_by_its_owner_alone() {
    let folder = Place::new();
    let path = folder.path();
    let key = key();
    write_key(&path, &key).unwrap();
    assert_eq!(read_key(&path).unwrap(), key);
    // Not overwritten.
    let again = write_key(&path, &key).unwrap_err();
    assert!(matches!(again.cause(), KeyFileCause::Io(_)), "{again}");
    let allow = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    for mode in [0o604, 0o620, 0o644, 0o660] {
        allow(mode);
        let open = read_key(&path).unwrap_err();
        let cause = open.cause();
        assert!(
            matches!(cause, KeyFileCause::ReadableByOthers(found) if *found == mode),
            "{open}"
        );
        assert!(open.remedy().contains("chmod 600"), "{}", open.remedy());
    }
    // As a container finds a secret.
    allow(0o640);
    let of_root = fs::metadata(&path).unwrap().uid() == 0;
    assert_eq!(read_key(&path).is_ok(), of_root);
    if of_root {
        chown(&path, Some(4242), None).unwrap();
        assert!(read_key(&path).is_err(), "of another owner");
    }
    fs::remove_file(&path).unwrap();
    assert!(matches!(
        read_key(&path).unwrap_err().cause(),
        KeyFileCause::Io(_)
    ));
}
