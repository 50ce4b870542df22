use super::*;

const GROUP: ([u8; 4], u16) = ([239, 1, 1, 1], 5000);

fn network(options: NetworkOptions, hosts: u8) -> Network {
    let mut network = Network::new(options, Seed(1));
    for host in 0..hosts {
        network.add_host(SocketAddr::from(([10, 0, 0, host], 1)));
        network.listen(usize::from(host), SocketAddr::from(GROUP), true);
    }
    network
}

fn receivers(network: &mut Network, from: usize, datagram: &[u8]) -> Vec<usize> {
    let mut reached: Vec<_> = arrivals(network, from, datagram);
    reached.sort_unstable();
    reached.into_iter().map(|(host, _)| host).collect()
}

fn arrivals(network: &mut Network, from: usize, datagram: &[u8]) -> Vec<(usize, Instant)> {
    let mut fates = Vec::new();
    let to = SocketAddr::from(GROUP);
    network.send(Instant(0), from, to, datagram, &mut fates);
    let arrivals = fates.into_iter().filter_map(|(host, fate)| match fate {
        Fate::Arrives(at) => Some((host, at)),
        Fate::Damaged(..) | Fate::Dropped(_) => None,
    });
    arrivals.collect()
}

#[test]
fn a_multicast_reaches_listeners_but_not_its_sender() {
    let mut network = network(NetworkOptions::PERFECT, 4);
    network.listen(2, SocketAddr::from(GROUP), false);
    let mut reached = receivers(&mut network, 0, &[1; 100]);
    reached.sort_unstable();
    assert_eq!(reached, [1, 3]);
    network.forget(1);
    assert_eq!(receivers(&mut network, 0, &[1; 100]), [3]);
}

#[test]
fn a_split_is_one_way_until_it_heals() {
    let mut network = network(NetworkOptions::PERFECT, 2);
    network.split(&[0], &[1]);
    assert!(receivers(&mut network, 0, &[1; 9]).is_empty());
    assert_eq!(receivers(&mut network, 1, &[1; 9]), [0]);
    network.heal();
    assert_eq!(receivers(&mut network, 0, &[1; 9]), [1]);
    assert_eq!(network.counters().of(Cause::Split), 1);
}

#[test]
fn loss_is_as_frequent_as_asked_for() {
    let options = NetworkOptions {
        loss_ppm: 50_000,
        ..NetworkOptions::PERFECT
    };
    let mut network = network(options, 11);
    (0..1000).for_each(|_| {
        receivers(&mut network, 0, &[1, 1, 0, 0]);
    });
    let counters = network.counters();
    assert_eq!(counters.copies, 10_000);
    assert!((350..650).contains(&counters.lost()), "{counters:?}");
    assert_eq!(counters.lost(), counters.data_lost);
    network.repair();
    assert_eq!(receivers(&mut network, 0, &[1; 9]).len(), 10);
}

#[test]
fn doomed_data_packets_reach_nobody_and_others_pass() {
    let mut network = network(NetworkOptions::PERFECT, 3);
    network.doom(0, 1);
    assert_eq!(receivers(&mut network, 0, &[1, 2, 0, 0]).len(), 2);
    assert!(receivers(&mut network, 0, &[1, 1, 0, 0]).is_empty());
    assert_eq!(receivers(&mut network, 0, &[1, 1, 0, 0]).len(), 2);
}

#[test]
fn a_filter_holds_multicast_back_one_way_and_for_a_time() {
    let mut network = network(NetworkOptions::PERFECT, 3);
    network.filter(&[0], &[2], Instant(1_000));
    assert_eq!(receivers(&mut network, 0, &[1; 9]), [1]);
    assert_eq!(receivers(&mut network, 2, &[1; 9]), [0, 1]);
    assert_eq!(network.counters().of(Cause::Filtered), 1);
    let to = SocketAddr::from(([10, 0, 0, 2], 1));
    let mut fates = Vec::new();
    network.send(Instant(0), 0, to, &[1; 9], &mut fates);
    assert!(matches!(fates[..], [(2, Fate::Arrives(_))]), "{fates:?}");
    fates.clear();
    network.send(
        Instant(1_000),
        0,
        SocketAddr::from(GROUP),
        &[1; 9],
        &mut fates,
    );
    assert_eq!(fates.len(), 2);
}

#[test]
fn what_is_larger_than_the_mtu_vanishes() {
    let mut network = network(NetworkOptions::PERFECT, 2);
    assert!(receivers(&mut network, 0, &[1; 1473]).is_empty());
    assert_eq!(network.counters().oversized, 1);
}

#[test]
fn a_clogged_link_holds_packets_back_and_lets_them_go_at_once() {
    let mut network = network(NetworkOptions::PERFECT, 2);
    let until = Instant(5_000_000_000);
    network.clog(&[0], &[1], until);
    assert_eq!(arrivals(&mut network, 0, &[1; 9]), [(1, until)]);
    assert_eq!(arrivals(&mut network, 0, &[1; 9]), [(1, until)]);
    assert!(arrivals(&mut network, 1, &[1; 9])[0].1 < until);
    assert_eq!(network.counters().clogged, 2);
}

#[test]
fn hosts_hear_only_the_senders_they_name() {
    let mut network = network(NetworkOptions::PERFECT, 4);
    let named = [SocketAddr::from(([10, 0, 0, 0], 1))].into();
    network.listen_to(2, SocketAddr::from(GROUP), &named);
    assert_eq!(receivers(&mut network, 0, &[1; 9]), [1, 2, 3]);
    assert_eq!(receivers(&mut network, 1, &[1; 9]), [0, 3]);
    network.listen(2, SocketAddr::from(GROUP), true);
    assert_eq!(receivers(&mut network, 1, &[1; 9]), [0, 2, 3]);
}

#[test]
fn networks_carry_nothing_from_one_to_the_other_and_fail_alone() {
    let mut network = network(NetworkOptions::PERFECT, 3);
    let address = |host| SocketAddr::from(([10, 1, 0, host], 1));
    let links = [0, 2].map(|host: u8| network.add_second(usize::from(host), address(host)));
    assert_eq!(links, [3, 4]);
    network.listen(0, SocketAddr::from(GROUP), true);
    network.listen(2, SocketAddr::from(GROUP), true);
    assert_eq!(receivers(&mut network, 0, &[1; 9]), [1, 2]);
    assert_eq!(receivers(&mut network, 3, &[1; 9]), [4]);
    assert_eq!(network.host_of(4), 2);
    network.fail(0, Instant(1));
    assert!(receivers(&mut network, 0, &[1; 9]).is_empty());
    assert_eq!(receivers(&mut network, 3, &[1; 9]), [4]);
}

#[test]
fn a_full_switch_port_drops_and_another_port_does_not_care() {
    let options = NetworkOptions {
        downlink_bits_per_second: 1_000_000,
        switch_queue_bytes: 3000,
        ..NetworkOptions::PERFECT
    };
    let mut network = network(options, 2);
    let passed = (0..10).filter(|_| network.pass_port(Instant(0), 1, &[1; 1000]).is_some());
    // One is on its way and three wait.
    assert_eq!(passed.count(), 4);
    assert!(network.pass_port(Instant(0), 0, &[1; 1000]).is_some());
    assert_eq!(network.counters().of(Cause::Queue), 6);
}

#[test]
fn a_multicast_crosses_a_link_between_places_once() {
    let sites = Sites {
        count: 2,
        delay: Duration::from_millis(40),
        bits_per_second: 8_000_000,
        ..Sites::ONE
    };
    let options = NetworkOptions {
        sites,
        jitter: Duration::ZERO,
        ..NetworkOptions::PERFECT
    };
    let mut network = network(options, 6);
    let arrived = arrivals(&mut network, 0, &[1; 1000]);
    let far: Vec<_> = arrived.iter().filter(|(host, _)| host % 2 == 1).collect();
    assert_eq!(far.len(), 3);
    // A millisecond on the link for all of them, and 40 on the way.
    assert!(far.iter().all(|(_, at)| at.0 / 1_000_000 == 41), "{far:?}");
    let near = arrived.iter().filter(|(host, _)| host % 2 == 0);
    assert!(near.into_iter().all(|(_, at)| at.0 < 1_000_000));
}

#[test]
fn what_is_lost_on_a_link_is_lost_for_a_whole_place() {
    let sites = Sites {
        count: 2,
        loss_ppm: 1_000_000,
        ..Sites::ONE
    };
    let options = NetworkOptions {
        sites,
        ..NetworkOptions::PERFECT
    };
    let mut network = network(options, 6);
    assert_eq!(receivers(&mut network, 0, &[1; 9]), [2, 4]);
    assert_eq!(network.counters().of(Cause::Site), 3);
    network.repair();
    assert_eq!(receivers(&mut network, 0, &[1; 9]).len(), 5);
}

#[test]
fn a_path_that_is_narrow_for_a_while_drops_what_is_large() {
    let mut network = network(NetworkOptions::PERFECT, 2);
    network.narrow(500, Instant(1));
    assert!(receivers(&mut network, 0, &[1; 501]).is_empty());
    assert_eq!(receivers(&mut network, 0, &[1; 500]), [1]);
    network.narrow(500, Instant(0));
    assert_eq!(receivers(&mut network, 0, &[1; 501]), [1]);
}
