//! Nodes of one process, over loopback: for tests of this crate and of `qsm-history`.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::time::Duration;

use qsm::{Builder, ChannelOptions, Embedded, NetworkOptions, Node};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster with addresses of its own.
pub(crate) fn site() -> impl Fn(&str) -> Builder {
    let random = RandomState::new().build_hasher().finish();
    let [a, b, c, d, e, f, ..] = random.to_le_bytes();
    let port = |high, low| 20_000 + u16::from_le_bytes([high, low]) % 12_000;
    let discovery = SocketAddr::from(([239, 255, a, b], port(c, d)));
    let network = NetworkOptions::new()
        .interface("lo")
        .discovery(discovery)
        .receive_buffer(4 << 20);
    let channels = ChannelOptions::new().port(port(e, f));
    move |name| {
        let builder = Node::builder()
            .name(name)
            .cluster(format!("loopback-{random:x}"));
        builder
            .network(network.clone())
            .channels(channels)
            .request_timeout(PATIENCE)
            .embedded_service(Embedded::Never)
    }
}
