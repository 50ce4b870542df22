//! Nodes that speak IPv6, on hosts of a lab.

mod common;

use common::{PATIENCE, admitted, expect_numbers, pattern, wait_for};
use lab::{HostId, Lab};
use qsm::{Builder, ChannelOptions, Embedded, Event, Family, NetworkOptions, Node};

fn lab(hosts: usize) -> Option<(Lab, Vec<HostId>)> {
    if !lab::ready() {
        return None;
    }
    let mut lab = Lab::with_ipv6().unwrap();
    let hosts = lab.add_hosts(hosts).unwrap();
    Some((lab, hosts))
}

fn builder(embedded: Embedded, interface: &str) -> Builder {
    Node::builder()
        .cluster("six")
        .network(network(interface))
        .request_timeout(PATIENCE)
        .embedded_service(embedded)
}

fn network(interface: &str) -> NetworkOptions {
    NetworkOptions::new()
        .receive_buffer(4 << 20)
        .interface(interface)
}

/// What the one publishes reaches the other, and the region has an address of this kind.
fn talk(from: &Node, to: &Node, range: &str) {
    let subscription = to.subscribe(["talk"]).unwrap();
    let publisher = from.publisher("talk").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    for number in 1..=200 {
        publisher.send(&pattern(number, 3000)).unwrap();
    }
    expect_numbers(&subscription, 1..=200, |number| pattern(number, 3000));
    from.flush(PATIENCE).unwrap();
    let regions = from.list_regions().unwrap();
    for region in regions {
        let address = region.address.to_string();
        assert!(address.starts_with(range), "{address}");
    }
}

#[test]
fn two_nodes_of_a_host_talk_over_loopback() {
    let Some((lab, hosts)) = lab(1) else { return };
    let _inside = lab.enter(hosts[0]).unwrap();
    let first = admitted(builder(Embedded::Always, "::1"));
    let six = network("lo").family(Family::V6);
    let second = admitted(builder(Embedded::Never, "lo").network(six));
    talk(&first, &second, "[ff15::");
    talk(&second, &first, "[ff15::");
}

#[test]
fn hosts_find_each_other_by_their_link_local_addresses() {
    let Some((lab, hosts)) = lab(2) else { return };
    let node = |host, embedded| {
        let _inside = lab.enter(host).unwrap();
        let address = lab.host(host).link_address_v6().unwrap();
        let range = "ff12:0:7::".parse().unwrap();
        let channels = ChannelOptions::new().range(range, 64);
        let builder = builder(embedded, &format!("{address}%eth0"));
        builder.channels(channels).start().unwrap()
    };
    let first = node(hosts[0], Embedded::Always);
    let second = node(hosts[1], Embedded::Never);
    for node in [&first, &second] {
        node.wait_admitted(PATIENCE).unwrap();
    }
    talk(&first, &second, "[ff12:0:7:");
}

#[test]
fn a_range_of_the_other_family_is_told_when_the_service_starts() {
    let Some((lab, hosts)) = lab(1) else { return };
    let _inside = lab.enter(hosts[0]).unwrap();
    let builder = builder(Embedded::IfNoneFound, "::1");
    let range = "239.1.0.0".parse().unwrap();
    let channels = ChannelOptions::new().range(range, 16);
    let node = builder.channels(channels).start().unwrap();
    let events = node.events();
    let event = wait_for(&events, |event| {
        matches!(event, Event::ServiceNotEmbedded { .. })
    });
    let Event::ServiceNotEmbedded { reason } = event else {
        return;
    };
    assert!(
        reason.contains("239.1.0.0 are not of one family"),
        "{reason}"
    );
}
