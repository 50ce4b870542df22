//! Zenoh: peers over TCP, a key expression for each group.

#[path = "../../common/harness.rs"]
mod harness;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use harness::{Failure, Options, Sender, Verifier};
use zenoh::Wait;
use zenoh::pubsub::Publisher;
use zenoh::qos::CongestionControl;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = Options::parse(&arguments).and_then(|options| {
        if options.sends {
            send(&options)
        } else {
            receive(&options)
        }
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Senders listen, receivers connect to them; nobody looks for others.
fn open(options: &Options) -> Result<zenoh::Session, Failure> {
    let mut config = zenoh::Config::default();
    let mut set = |key: &str, value: &str| config.insert_json5(key, value);
    set("mode", "\"peer\"")?;
    set("scouting/multicast/enabled", "false")?;
    set("scouting/gossip/enabled", "false")?;
    let endpoint = |(index, address): (usize, &std::net::Ipv4Addr)| {
        format!("\"tcp/{address}:{}\"", usize::from(options.port) + index)
    };
    let endpoints: Vec<String> = options.senders.iter().enumerate().map(endpoint).collect();
    if options.sends {
        set(
            "listen/endpoints",
            &format!("[{}]", endpoints[options.index]),
        )?;
    } else {
        set("listen/endpoints", "[]")?;
        set("connect/endpoints", &format!("[{}]", endpoints.join(",")))?;
    }
    zenoh::open(config).wait()
}

fn key(group: usize) -> String {
    format!("bench/{group}")
}

struct Load {
    publishers: Vec<Publisher<'static>>,
}

impl Sender for Load {
    fn send(&mut self, group: usize, message: &[u8]) -> Result<(), Failure> {
        self.publishers[group].put(message).wait()
    }
}

fn send(options: &Options) -> Result<(), Failure> {
    let session = open(options)?;
    let publishers = (0..options.groups)
        .map(|group| {
            let publisher = session.declare_publisher(key(group));
            publisher
                .congestion_control(CongestionControl::Block)
                .wait()
        })
        .collect::<Result<_, _>>()?;
    harness::run_sender(options, &mut Load { publishers })
}

fn receive(options: &Options) -> Result<(), Failure> {
    let session = open(options)?;
    let verifier = Verifier::new(options);
    let tally = verifier.tally();
    // Links of several senders have threads of their own.
    let verifier = Arc::new(Mutex::new(verifier));
    let subscribers = options
        .wanted()
        .into_iter()
        .map(|group| {
            let verifier = Arc::clone(&verifier);
            let take = move |sample: zenoh::sample::Sample| {
                let mut verifier = verifier.lock().unwrap_or_else(PoisonError::into_inner);
                verifier.deliver(&sample.payload().to_bytes());
            };
            session.declare_subscriber(key(group)).callback(take).wait()
        })
        .collect::<Result<Vec<_>, _>>()?;
    let result = harness::run_receiver(&tally);
    drop(subscribers);
    result
}
