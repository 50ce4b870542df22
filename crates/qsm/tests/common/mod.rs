//! Helpers of the tests over loopback. No test needs privileges or a network.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses some of them"
)]

use std::collections::hash_map::RandomState;
use std::fs;
use std::future::Future;
use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use qsm::attach::{Share, ShareEvent, ShareOptions};
use qsm::{
    Builder, ChannelOptions, Embedded, Event, Events, Message, NetworkOptions, Node, Received,
    Service, ServiceBuilder, Subscription,
};

/// Far above what any test needs; a test that meets it has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster of its own, with addresses that no other test uses, also not a second run.
pub struct Site {
    cluster: String,
    discovery: SocketAddr,
    data_port: u16,
}

impl Site {
    pub fn new() -> Self {
        let random = RandomState::new().build_hasher().finish();
        let [a, b, c, d, e, f, ..] = random.to_le_bytes();
        let port = |high, low| 20_000 + u16::from_le_bytes([high, low]) % 12_000;
        Self {
            cluster: format!("test-{random:x}"),
            discovery: SocketAddr::from(([239, 255, a, b], port(c, d))),
            data_port: port(e, f),
        }
    }

    pub fn builder(&self, name: &str) -> Builder {
        Node::builder()
            .name(name)
            .cluster(&self.cluster)
            .network(self.network())
            .channels(self.channels())
            .request_timeout(PATIENCE)
            .embedded_service(Embedded::Never)
    }

    pub fn network(&self) -> NetworkOptions {
        NetworkOptions::new()
            .interface("lo")
            .discovery(self.discovery)
            .receive_buffer(4 << 20)
    }

    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// The same place once more.
    pub fn twin(&self) -> Self {
        Self {
            cluster: self.cluster.clone(),
            discovery: self.discovery,
            data_port: self.data_port,
        }
    }

    pub fn discovery(&self) -> SocketAddr {
        self.discovery
    }

    pub fn channels(&self) -> ChannelOptions {
        ChannelOptions::new().port(self.data_port)
    }

    /// A node with the cluster's membership service.
    pub fn first(&self, name: &str) -> Node {
        let builder = self.builder(name).embedded_service(Embedded::Always);
        admitted(builder)
    }

    pub fn node(&self, name: &str) -> Node {
        admitted(self.builder(name))
    }

    pub fn service(&self) -> ServiceBuilder {
        Service::builder()
            .cluster(&self.cluster)
            .network(self.network().unicast_port(0))
            .channels(self.channels())
    }
}

pub fn admitted(builder: Builder) -> Node {
    let node = builder.start().unwrap();
    node.wait_admitted(PATIENCE).unwrap();
    node
}

/// The next message. A node that the machine let wait was away, which costs no message, and says so when it is back.
pub fn next(subscription: &Subscription) -> Message {
    loop {
        match subscription.recv_timeout(PATIENCE).unwrap() {
            Some(Received::Back(_)) => {}
            received => return message(received),
        }
    }
}

pub fn message(received: Option<Received>) -> Message {
    match received.expect("a message should have come") {
        Received::Message(message) => message,
        missing => panic!("{missing}"),
    }
}

/// So many messages of a subscription's own queue.
pub fn expect_dropped(received: Option<Received>, expected: u64) {
    match received {
        Some(Received::Dropped(dropped)) => assert_eq!(dropped.messages, expected),
        other => panic!("{other:?}"),
    }
}

/// Takes the next messages and checks that they are these numbers, with content made by
/// `content`, of one sender.
pub fn expect_numbers(
    subscription: &Subscription,
    numbers: impl IntoIterator<Item = u64>,
    content: impl Fn(u64) -> Vec<u8>,
) {
    for number in numbers {
        let message = next(subscription);
        assert_eq!(message.number(), number);
        assert!(
            message.bytes() == content(number),
            "content of message {number}"
        );
    }
}

/// Reads events until one fits.
pub fn wait_for(events: &Events, fits: impl Fn(&Event) -> bool) -> Event {
    loop {
        let event = events.recv_timeout(PATIENCE).unwrap();
        let event = event.expect("the event should have come");
        if fits(&event) {
            return event;
        }
    }
}

/// Bytes that differ from place to place and from seed to seed.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64)
        .map(|at| (at * 31 + at / 251 + seed * 7) as u8)
        .collect()
}

/// A folder of its own for the file of an engine; gone with the test.
pub struct Place(PathBuf);

impl Place {
    pub fn new() -> Self {
        static PLACES: AtomicU32 = AtomicU32::new(0);
        let number = PLACES.fetch_add(1, Ordering::Relaxed);
        let name = format!("qsm-attach-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub fn path(&self) -> PathBuf {
        self.0.join("engine")
    }

    pub fn options(&self) -> ShareOptions {
        ShareOptions::at(self.path())
    }

    /// Shares the engine here. Afterwards the share's events come out of the receiver.
    pub fn share_and_tell(&self, engine: &Node) -> (Share, Receiver<ShareEvent>) {
        let (tell, told) = channel();
        let options = self
            .options()
            .on_event(move |event| tell.send(event.clone()).unwrap());
        (engine.share_with(options).unwrap(), told)
    }

    pub fn attach(&self) -> Node {
        Node::attach(self.path()).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

pub fn waker() -> Waker {
    Waker::from(Arc::new(Unpark(thread::current())))
}

/// The smallest executor.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = waker();
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => thread::park(),
        }
    }
}
