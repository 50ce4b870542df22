//! Loss and network splits drop what they should, nothing else, and count it.

mod support;

use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;

use lab::{Damage, Direction, Drops, HostId, LOSS_PPM_MAX, Lab, Spared, Traffic};
use support::{acquaint, group, lab_with, next, pin_to_one_cpu, socket, unicast};

const MARKER: &str = "marker";

/// Packets between two markers; few enough for the receive buffer.
const WINDOW: u64 = 50;

/// Packets of a full GSO train at 1400 bytes: 64400 bytes, of 65507 that one call can send.
const TRAIN: usize = 46;
const SEGMENT: usize = 1400;

/// Sends `count` packets to `lossy`, each window followed by a marker to `exempt`, and counts what
/// arrives.
fn arrivals(
    sender: &UdpSocket,
    receiver: &UdpSocket,
    lossy: SocketAddrV4,
    exempt: SocketAddrV4,
    count: u64,
) -> u64 {
    let mut arrived = 0;
    for number in 1..=count {
        sender.send_to(b"data", lossy).unwrap();
        if number % WINDOW == 0 || number == count {
            sender.send_to(MARKER.as_bytes(), exempt).unwrap();
            while next(receiver) != MARKER {
                arrived += 1;
            }
        }
    }
    arrived
}

/// Two hosts who know each other, in a thread that keeps the order of packets.
fn pair() -> Option<(Lab, [HostId; 2], [UdpSocket; 2])> {
    let (lab, hosts) = lab_with(2)?;
    pin_to_one_cpu();
    let sockets = [socket(&lab, hosts[0]), socket(&lab, hosts[1])];
    acquaint(&lab, &[(hosts[0], &sockets[0]), (hosts[1], &sockets[1])]);
    // Otherwise the sender's own multicast would fill its buffer.
    sockets[0].set_multicast_loop_v4(false).unwrap();
    Some((lab, [hosts[0], hosts[1]], sockets))
}

#[test]
fn half_of_the_multicast_is_lost_and_every_loss_is_counted() {
    let Some((lab, hosts, [sender, receiver])) = pair() else {
        return;
    };
    lab.set_loss(hosts[1], LOSS_PPM_MAX / 2, Traffic::Multicast)
        .unwrap();
    let sent = 2000;
    let arrived = arrivals(&sender, &receiver, group(), unicast(&lab, hosts[1]), sent);
    let drops = lab.drops(hosts[1]).unwrap();
    assert_eq!(sent, arrived + drops.multicast_packets, "{drops:?}");
    assert_eq!(drops.total_packets(), drops.multicast_packets);
    // Nine standard deviations (22 packets) to either side.
    assert!(
        (800..=1200).contains(&arrived),
        "{arrived} of {sent} arrived"
    );
    assert_eq!(
        lab.drops(hosts[0]).unwrap(),
        Drops::default(),
        "the sender loses nothing"
    );
}

#[test]
fn unicast_is_lost_apart_from_multicast() {
    let Some((lab, hosts, [sender, receiver])) = pair() else {
        return;
    };
    lab.set_loss(hosts[1], LOSS_PPM_MAX / 10, Traffic::Unicast)
        .unwrap();
    let sent = 2000;
    let arrived = arrivals(&sender, &receiver, unicast(&lab, hosts[1]), group(), sent);
    let drops = lab.drops(hosts[1]).unwrap();
    assert_eq!(sent, arrived + drops.unicast_packets, "{drops:?}");
    assert_eq!(drops.multicast_packets, 0);
    // Nine standard deviations (13 packets) to either side of 1800.
    assert!(
        (1680..=1920).contains(&arrived),
        "{arrived} of {sent} arrived"
    );
}

#[test]
fn loss_of_zero_ends_the_loss() {
    let Some((lab, hosts, [sender, receiver])) = pair() else {
        return;
    };
    lab.set_loss(hosts[1], LOSS_PPM_MAX, Traffic::All).unwrap();
    lab.set_loss(hosts[1], 0, Traffic::Unicast).unwrap();
    let to = unicast(&lab, hosts[1]);
    assert_eq!(arrivals(&sender, &receiver, group(), to, 100), 0);
    lab.set_loss(hosts[1], 0, Traffic::All).unwrap();
    assert_eq!(arrivals(&sender, &receiver, group(), to, 100), 100);
    assert_eq!(lab.drops(hosts[1]).unwrap().multicast_packets, 100);
}

#[test]
fn a_host_never_loses_its_own_packets() {
    let Some((lab, hosts)) = lab_with(1) else {
        return;
    };
    lab.set_loss(hosts[0], LOSS_PPM_MAX, Traffic::All).unwrap();
    lab.split(&hosts, &hosts, Direction::Both).unwrap();
    let own = socket(&lab, hosts[0]);
    for (to, text) in [(unicast(&lab, hosts[0]), "unicast"), (group(), "multicast")] {
        own.send_to(text.as_bytes(), to).unwrap();
        assert_eq!(next(&own), text);
    }
    assert_eq!(lab.drops(hosts[0]).unwrap(), Drops::default());
}

/// A three-host lab with a marker sender (the third), which no split of the first two concerns.
struct Trio {
    lab: Lab,
    hosts: Vec<HostId>,
    sockets: Vec<UdpSocket>,
}

impl Trio {
    fn new() -> Option<Self> {
        let (lab, hosts) = lab_with(3)?;
        pin_to_one_cpu();
        let sockets: Vec<_> = hosts.iter().map(|&host| socket(&lab, host)).collect();
        let members: Vec<_> = hosts.iter().copied().zip(&sockets).collect();
        acquaint(&lab, &members);
        for socket in &sockets {
            socket.set_multicast_loop_v4(false).unwrap();
        }
        Some(Self {
            lab,
            hosts,
            sockets,
        })
    }

    /// How many of one unicast and one multicast packet arrive.
    fn heard(&self, from: usize, to: usize) -> usize {
        let receiver = unicast(&self.lab, self.hosts[to]);
        for address in [receiver, group()] {
            self.sockets[from].send_to(b"data", address).unwrap();
        }
        // Everybody hears the marker, and so the next call starts with nothing left over.
        self.sockets[2].send_to(MARKER.as_bytes(), group()).unwrap();
        let count = |socket: &UdpSocket| {
            let packets = std::iter::from_fn(|| Some(next(socket)));
            packets.take_while(|packet| packet != MARKER).count()
        };
        let heard = count(&self.sockets[to]);
        count(&self.sockets[from]);
        heard
    }

    fn dropped(&self, host: usize) -> u64 {
        self.lab.drops(self.hosts[host]).unwrap().split_packets
    }
}

#[test]
fn a_one_way_split_blocks_one_direction_and_heals() {
    let Some(trio) = Trio::new() else { return };
    let (a, b) = (&trio.hosts[..1], &trio.hosts[1..2]);
    assert_eq!((trio.heard(0, 1), trio.heard(1, 0)), (2, 2));
    trio.lab.split(a, b, Direction::AToB).unwrap();
    assert_eq!((trio.heard(0, 1), trio.heard(1, 0)), (0, 2));
    assert_eq!((trio.dropped(0), trio.dropped(1)), (0, 2));
    trio.lab.heal().unwrap();
    assert_eq!((trio.heard(0, 1), trio.heard(1, 0)), (2, 2));
    assert_eq!((trio.dropped(0), trio.dropped(1)), (0, 2));
}

#[test]
fn a_split_of_both_directions_blocks_both() {
    let Some(trio) = Trio::new() else { return };
    trio.lab
        .split(&trio.hosts[..1], &trio.hosts[1..2], Direction::Both)
        .unwrap();
    assert_eq!((trio.heard(0, 1), trio.heard(1, 0)), (0, 0));
    assert_eq!(
        (trio.dropped(0), trio.dropped(1), trio.dropped(2)),
        (2, 2, 0)
    );
}

#[test]
fn splits_add_up_and_may_repeat() {
    let Some(trio) = Trio::new() else { return };
    let (a, b) = (&trio.hosts[..1], &trio.hosts[1..2]);
    trio.lab.split(a, b, Direction::AToB).unwrap();
    trio.lab.split(a, b, Direction::AToB).unwrap();
    trio.lab.split(b, a, Direction::AToB).unwrap();
    trio.lab.split(&[], b, Direction::Both).unwrap();
    assert_eq!((trio.heard(0, 1), trio.heard(1, 0)), (0, 0));
}

#[test]
fn one_way_holds_between_hosts_that_never_met() {
    let Some((lab, hosts)) = lab_with(2) else {
        return;
    };
    lab.split(&hosts[..1], &hosts[1..], Direction::AToB)
        .unwrap();
    let (a, b) = (socket(&lab, hosts[0]), socket(&lab, hosts[1]));
    // Host b has to ask for a's hardware address, and must get the answer.
    b.send_to(b"anybody?", unicast(&lab, hosts[0])).unwrap();
    assert_eq!(next(&a), "anybody?");
}

/// Sends one train to `to`.
fn send_train(sender: &UdpSocket, to: SocketAddrV4) {
    let segment = i32::try_from(SEGMENT).unwrap();
    // SAFETY: the descriptor is open; the pointer and the length describe one i32 that outlives the
    // call.
    let set = unsafe {
        libc::setsockopt(
            sender.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const segment).cast(),
            libc::socklen_t::try_from(size_of::<i32>()).unwrap(),
        )
    };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    assert_eq!(
        sender.send_to(&[b'x'; TRAIN * SEGMENT], to).unwrap(),
        TRAIN * SEGMENT
    );
}

#[test]
fn a_train_is_dropped_as_one_packet_unless_segmented_on_the_wire() {
    let Some((lab, hosts, [sender, receiver])) = pair() else {
        return;
    };
    let own = unicast(&lab, hosts[1]);
    let mut drops = Vec::new();
    for (lossy, to, exempt) in [
        (Traffic::Multicast, group(), own),
        (Traffic::Unicast, own, group()),
    ] {
        lab.set_loss(hosts[1], 0, Traffic::All).unwrap();
        lab.set_loss(hosts[1], LOSS_PPM_MAX, lossy).unwrap();
        for segmented in [false, true, false] {
            if let Err(lab::LabError::Unavailable(reason)) =
                lab.segment_on_wire(hosts[0], segmented)
            {
                return lab::skip(reason);
            }
            let before = lab.drops(hosts[1]).unwrap().total_packets();
            send_train(&sender, to);
            sender.send_to(MARKER.as_bytes(), exempt).unwrap();
            assert_eq!(next(&receiver), MARKER);
            drops.push(lab.drops(hosts[1]).unwrap().total_packets() - before);
        }
    }
    let train = TRAIN as u64;
    assert_eq!(drops, [1, train, 1, 1, train, 1]);
}

#[test]
fn a_segmented_train_arrives_whole_without_loss() {
    let Some((lab, hosts, [sender, receiver])) = pair() else {
        return;
    };
    match lab.segment_on_wire(hosts[0], true) {
        Err(lab::LabError::Unavailable(reason)) => return lab::skip(reason),
        other => other.unwrap(),
    }
    for to in [group(), unicast(&lab, hosts[1])] {
        send_train(&sender, to);
        for _ in 0..TRAIN {
            assert_eq!(next(&receiver).len(), SEGMENT);
        }
    }
}

/// Bytes of a payload of which the last one stays as it is.
const PAYLOAD: [u8; 9] = [0x55; 9];
const DAMAGED: Damage = Damage {
    ppm: LOSS_PPM_MAX,
    within: 8,
    spared: Some(Spared { at: 8, byte: b'!' }),
};

/// Sends so many packets; each comes with one bit changed, and then one comes that is spared.
fn each_has_a_wrong_bit(sender: &UdpSocket, receiver: &UdpSocket, to: SocketAddrV4, count: usize) {
    let mut bytes = [0; 64];
    let mut wrong = std::collections::BTreeSet::new();
    for _ in 0..count {
        sender.send_to(&PAYLOAD, to).unwrap();
        let length = receiver.recv(&mut bytes).unwrap();
        assert_eq!(length, PAYLOAD.len());
        let bits = bytes.iter().zip(&PAYLOAD).map(|(got, sent)| got ^ sent);
        let changed = u64::from_be_bytes(bits.take(8).collect::<Vec<_>>().try_into().unwrap());
        assert_eq!((changed.count_ones(), bytes[8]), (1, PAYLOAD[8]));
        wrong.insert(changed);
    }
    // Of 64 bits each is drawn about as often.
    assert!(wrong.len() > count.min(64) / 4, "{} bits", wrong.len());
    sender.send_to(b"12345678!", to).unwrap();
    assert_eq!(next(receiver), "12345678!");
}

#[test]
fn damage_passes_the_checksum_and_is_counted() {
    let Some((lab, hosts, [sender, receiver])) = pair() else {
        return;
    };
    lab.set_damage(hosts[1], DAMAGED).unwrap();
    for to in [group(), unicast(&lab, hosts[1])] {
        each_has_a_wrong_bit(&sender, &receiver, to, 100);
    }
    assert_eq!(lab.damaged(hosts[1]).unwrap(), 200);
    // Too short for the bit that is drawn, most often.
    sender.send_to(b"x", unicast(&lab, hosts[1])).unwrap();
    receiver.recv(&mut [0; 8]).unwrap();
    lab.set_damage(hosts[1], Damage { ppm: 0, ..DAMAGED })
        .unwrap();
    for to in [group(), unicast(&lab, hosts[1])] {
        sender.send_to(b"whole", to).unwrap();
        assert_eq!(next(&receiver), "whole");
    }
    assert_eq!(lab.drops(hosts[1]).unwrap(), Drops::default());
    assert_eq!(lab.damaged(hosts[0]).unwrap(), 0);
}

#[test]
fn damage_passes_a_checksum_that_the_sender_has_made() {
    let Some((lab, hosts, [sender, receiver])) = pair() else {
        return;
    };
    let mut ethtool = lab.command(hosts[0], "ethtool");
    match ethtool.args(["-K", "eth0", "tx", "off"]).output() {
        Ok(output) if output.status.success() => {}
        other => return lab::pass_over(format_args!("ethtool cannot do it: {other:?}")),
    }
    lab.set_damage(hosts[1], DAMAGED).unwrap();
    each_has_a_wrong_bit(&sender, &receiver, unicast(&lab, hosts[1]), 20);
}

#[test]
fn a_part_of_the_packets_is_damaged() {
    let Some((lab, hosts, [sender, receiver])) = pair() else {
        return;
    };
    let ppm = LOSS_PPM_MAX / 10;
    lab.set_damage(hosts[1], Damage { ppm, ..DAMAGED }).unwrap();
    let to = unicast(&lab, hosts[1]);
    let wrong = |_: &u32| {
        sender.send_to(&PAYLOAD, to).unwrap();
        let mut bytes = [0; 9];
        receiver.recv(&mut bytes).unwrap();
        bytes != PAYLOAD
    };
    let damaged = (0..2000).filter(wrong).count() as u64;
    assert_eq!(damaged, lab.damaged(hosts[1]).unwrap());
    // Nine standard deviations (13 packets) to either side of 200.
    assert!((80..=320).contains(&damaged), "{damaged} of 2000");
}
