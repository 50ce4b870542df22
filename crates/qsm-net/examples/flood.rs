//! How fast this crate moves datagrams: one sender, N receivers, trains of 64 KB over loopback multicast.
//!
//! `flood [--receivers N] [--segment BYTES] [--seconds S] [--off] [--nap MICROSECONDS]
//! [--interface NAME-OR-ADDRESS]` prints one line for each receiver.
//! It bounds from above what a protocol on this crate can do, and nothing else: no losses are repaired.

use std::env;
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use qsm_net::{Offload, Port, PortConfig, PortCounters, SendError, SendFailure, choose_interface};

/// Bytes of one call of `send`: one train.
const TRAIN_BYTES: usize = 64_000;
/// After the sender has finished, a receiver that hears nothing for this long has everything.
const SILENCE: Duration = Duration::from_millis(200);

struct Options {
    receivers: usize,
    segment: usize,
    seconds: u64,
    offload: Offload,
    nap: Option<Duration>,
    interface: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let (interface, _) = choose_interface(Some(&options.interface), None)?;
    let config = PortConfig {
        offload: options.offload,
        ..PortConfig::new(interface)
    };
    let mut sender = Port::open(config.clone())?;
    // The sender's port is ours alone, so the group with the same number is too.
    let ip: IpAddr = match sender.local_addr().ip() {
        IpAddr::V4(_) => Ipv4Addr::new(239, 255, 77, 77).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0x8000, 0x4d4d).into(),
    };
    let group = SocketAddr::new(ip, sender.local_addr().port());
    let done = Arc::new(AtomicBool::new(false));
    let mut receivers = Vec::new();
    for _ in 0..options.receivers {
        let mut port = Port::open(config.clone())?;
        port.join(group)?;
        let (done, nap) = (Arc::clone(&done), options.nap);
        receivers.push(thread::spawn(move || receive(port, &done, nap)));
    }
    println!("{}", sender.report());
    let (sent, elapsed) = flood(&mut sender, group, &options)?;
    done.store(true, Ordering::Release);
    print_rate("sent", sent.sent.datagrams, options.segment, elapsed);
    println!("  {:?}", sent.sent.errors);
    for receiver in receivers {
        let (counters, _) = receiver
            .join()
            .map_err(|_| "a receiver panicked")?
            .map_err(|error| error.to_string())?;
        let received = counters.multicast;
        print_rate("received", received.datagrams, options.segment, elapsed);
        println!(
            "  {} trains in {} calls, {} kernel drops, {:.4} % of datagrams missing",
            received.trains,
            received.calls,
            received.kernel_drops,
            100.0 * (1.0 - received.datagrams as f64 / sent.sent.datagrams as f64)
        );
    }
    Ok(())
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options {
        receivers: 1,
        segment: 1000,
        seconds: 3,
        offload: Offload::Auto,
        nap: None,
        interface: "lo".to_owned(),
    };
    let mut arguments = env::args().skip(1);
    while let Some(name) = arguments.next() {
        let mut value = || {
            arguments
                .next()
                .ok_or_else(|| format!("{name} needs a value"))
        };
        match name.as_str() {
            "--receivers" => options.receivers = value()?.parse()?,
            "--segment" => options.segment = value()?.parse()?,
            "--seconds" => options.seconds = value()?.parse()?,
            "--nap" => options.nap = Some(Duration::from_micros(value()?.parse()?)),
            "--interface" => options.interface = value()?,
            "--off" => options.offload = Offload::Off,
            _ => return Err(format!("unknown option {name}").into()),
        }
    }
    Ok(options)
}

fn flood(
    port: &mut Port,
    group: SocketAddr,
    options: &Options,
) -> Result<(PortCounters, Duration), Box<dyn Error>> {
    let bytes = vec![7; TRAIN_BYTES.min(64 * options.segment)];
    let start = Instant::now();
    let end = start + Duration::from_secs(options.seconds);
    while Instant::now() < end {
        match port.send(group, &bytes, options.segment) {
            Ok(_) => {}
            Err(SendError::WouldBlock { .. }) => {
                while !port.writable() {
                    port.wait(None)?;
                }
            }
            Err(SendError::Failed {
                failure: SendFailure::NoBuffers,
                ..
            }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok((*port.counters(), start.elapsed()))
}

/// Receives until the sender is done and silence follows. The sum over the bytes keeps the split from being optimised away.
fn receive(
    mut port: Port,
    done: &AtomicBool,
    nap: Option<Duration>,
) -> std::io::Result<(PortCounters, u64)> {
    let mut sum = 0_u64;
    loop {
        let finished = done.load(Ordering::Acquire);
        let ready = port.wait(Some(SILENCE))?;
        if finished && !ready.readable {
            port.refresh_drops();
            return Ok((*port.counters(), sum));
        }
        while port.receive()? > 0 {
            sum += port
                .datagrams()
                .map(|datagram| u64::from(datagram.bytes[0]))
                .sum::<u64>();
        }
        if let Some(duration) = nap {
            thread::sleep(duration);
        }
    }
}

fn print_rate(what: &str, datagrams: u64, segment: usize, elapsed: Duration) {
    let rate = datagrams as f64 / elapsed.as_secs_f64();
    println!(
        "{what}: {:.0} kpps, {:.2} GB/s",
        rate / 1e3,
        rate * segment as f64 / 1e9
    );
}
