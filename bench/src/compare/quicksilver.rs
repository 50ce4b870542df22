//! Quicksilver's program of the comparison: pull feeds where as much as possible is sent, the
//! queued `send` at a fixed rate, upcalls at receivers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use qsm::{
    Builder, ChannelOptions, Embedded, FaultConfig, FeedHandle, NetworkOptions, Node, Publisher,
    Pull, Service,
};

use super::harness::{self, Failure, Options, Sender, Source, Verifier};

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let options = Options::parse(arguments)?;
    if options.sends {
        send(&options)
    } else {
        receive(&options)
    }
}

/// The first sender carries the membership service; where there is no multicast, beside its node.
fn builder(options: &Options) -> Builder {
    if !has_multicast(options) {
        return Node::builder()
            .network(network(options))
            .cluster(cluster(options))
            .slow_after(Duration::ZERO)
            .service(service_address(options));
    }
    let service = if options.sends && options.index == 0 {
        Embedded::Always
    } else {
        Embedded::Never
    };
    Node::builder()
        .network(network(options))
        .channels(ChannelOptions::new().port(options.port + 1))
        .cluster(cluster(options))
        .slow_after(Duration::ZERO)
        .embedded_service(service)
}

fn cluster(options: &Options) -> String {
    format!("bench-{}", options.port)
}

fn has_multicast(options: &Options) -> bool {
    options.setting("multicast") != Some("none")
}

fn service_address(options: &Options) -> SocketAddr {
    SocketAddr::from((options.senders[0], options.port + 2))
}

/// The service of a cluster without multicast, if it is this process that carries it.
fn service(options: &Options) -> Result<Option<Service>, Failure> {
    if has_multicast(options) || options.index > 0 {
        return Ok(None);
    }
    let network = network(options).unicast_port(options.port + 2);
    let service = Service::builder()
        .network(network)
        .cluster(cluster(options))
        .slow_after(Duration::ZERO);
    Ok(Some(service.start()?))
}

fn network(options: &Options) -> NetworkOptions {
    NetworkOptions::new()
        .interface(&options.interface)
        .multicast(has_multicast(options))
        .discovery(SocketAddr::from(([239, 255, 83, 77], options.port)))
}

fn names(options: &Options) -> Vec<String> {
    (0..options.groups)
        .map(|group| format!("bench/{group}"))
        .collect()
}

fn send(options: &Options) -> Result<(), Failure> {
    let _service = service(options)?;
    let node = builder(options).start()?;
    let publishers = node.groups(names(options)).publishers()?;
    let switch = Arc::new(Switch::default());
    let feeds = publishers
        .iter()
        .zip(Source::all(options))
        .map(|(publisher, source)| publisher.feed(pull(source, Arc::clone(&switch))))
        .collect::<Result<_, _>>()?;
    let mut sender = Load {
        node,
        publishers,
        feeds,
        switch,
    };
    harness::run_sender(options, &mut sender)
}

/// What the main thread says to the feeds, and hears of them.
#[derive(Debug, Default)]
struct Switch {
    /// The phase for which feeds have messages; 0: none.
    phase: AtomicU64,
    sent: AtomicU64,
}

fn pull(mut source: Source, switch: Arc<Switch>) -> impl FnMut(&mut Vec<u8>) -> Pull + Send {
    move |message| {
        let phase = switch.phase.load(Ordering::Acquire);
        if phase == 0 {
            return Pull::Idle;
        }
        source.write(phase, 0, message);
        // Only the core thread writes: no locked instruction, which would wait for all stores
        // before it.
        switch
            .sent
            .store(switch.sent.load(Ordering::Relaxed) + 1, Ordering::Release);
        Pull::Message
    }
}

struct Load {
    node: Node,
    publishers: Vec<Publisher>,
    feeds: Vec<FeedHandle>,
    switch: Arc<Switch>,
}

impl Sender for Load {
    fn send(&mut self, group: usize, message: &[u8]) -> Result<(), Failure> {
        Ok(self.publishers[group].send(message)?)
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.node.flush(PATIENCE)?;
        Ok(())
    }

    fn flood(&mut self, phase: u64, time: Duration) -> Result<Option<u64>, Failure> {
        self.switch.sent.store(0, Ordering::Release);
        self.switch.phase.store(phase, Ordering::Release);
        for feed in &self.feeds {
            feed.wake();
        }
        std::thread::sleep(time);
        self.switch.phase.store(0, Ordering::Release);
        // The core thread may be within a feed: what it sends then is seen after the flush.
        self.node.flush(PATIENCE)?;
        Ok(Some(self.switch.sent.load(Ordering::Acquire)))
    }
}

fn receive(options: &Options) -> Result<(), Failure> {
    let mut builder = builder(options);
    if let Some(loss) = options.setting("injected-loss-ppm") {
        builder = builder.network(network(options).fault(FaultConfig {
            loss_ppm: loss.parse()?,
            seed: options.index as u64 + 1,
            duplicate_ppm: 0,
            reorder_ppm: 0,
            ..FaultConfig::default()
        }));
    }
    let node = builder.start()?;
    let mut verifier = Verifier::new(options);
    let tally = verifier.tally();
    let upcalls =
        node.groups(names(options))
            .subscribe_with(move |delivery: qsm::Delivery<'_>| {
                // A message that is lost is missed when the next one is verified.
                if let Some(message) = delivery.message() {
                    verifier.deliver(message.bytes);
                }
            })?;
    let result = harness::run_receiver(&tally);
    drop(upcalls);
    result
}
