//! With the receive buffers that Linux gives whoever does not ask for more, a group is slower and
//! loses nothing: what is sent follows what receivers' kernels have granted.

mod common;

use common::{PATIENCE, Site, admitted, expect_numbers, pattern};
use qsm::{Embedded, Node};

/// `net.core.rmem_default`, as asked for: the kernel doubles what it is asked for.
const DEFAULT_BYTES: usize = 212_992 / 2;

fn kernel_drops(node: &Node) -> u64 {
    let port = node.stats().unwrap().port;
    port.unicast.kernel_drops + port.multicast.kernel_drops
}

#[test]
fn with_default_buffers_the_kernel_drops_nothing() {
    let site = Site::new();
    let network = site.network().receive_buffer(DEFAULT_BYTES);
    let builder = |name| site.builder(name).network(network.clone());
    let sender = admitted(builder("sender").embedded_service(Embedded::Always));
    let receivers = ["one", "two"].map(|name| admitted(builder(name)));
    for (group, length, count) in [("small", 20, 100_000), ("large", 1000, 30_000)] {
        let subscriptions = receivers
            .each_ref()
            .map(|node| node.subscribe([group]).unwrap());
        let publisher = sender.publisher(group).unwrap();
        publisher.wait_for_members(2, PATIENCE).unwrap();
        std::thread::scope(|scope| {
            for subscription in &subscriptions {
                scope.spawn(move || {
                    expect_numbers(subscription, 1..=count, |number| pattern(number, length));
                });
            }
            for number in 1..=count {
                publisher.send(&pattern(number, length)).unwrap();
            }
        });
    }
    for node in receivers.iter().chain([&sender]) {
        assert_eq!(kernel_drops(node), 0);
    }
}
