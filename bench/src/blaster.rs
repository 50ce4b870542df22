//! The ceiling: one process sends trains of datagrams as fast as it can, others take them in. No
//! numbers are checked and nothing is repaired; what arrives at the slowest receiver counts.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::Args;
use qsm_net::{Port, PortConfig, SendError, SendFailure, choose_interface};

use crate::Failure;
use crate::children::{cpu_micros, hear, monotonic_nanos, say};

#[derive(Debug, Args)]
pub(crate) struct SendOptions {
    #[arg(long)]
    interface: String,
    #[arg(long)]
    group: SocketAddr,
    #[arg(long)]
    payload: usize,
    #[arg(long)]
    millis: u64,
}

#[derive(Debug, Args)]
pub(crate) struct ReceiveOptions {
    #[arg(long)]
    interface: String,
    #[arg(long)]
    group: SocketAddr,
}

/// After the parent's "stop", a receiver that hears nothing for this long has everything.
const SILENCE: Duration = Duration::from_millis(100);

pub(crate) fn send(options: &SendOptions) -> Result<(), Failure> {
    let (interface, _) = choose_interface(Some(&options.interface), None)?;
    let mut port = Port::open(PortConfig::new(interface))?;
    let train = vec![7; options.payload * (64_000 / options.payload).clamp(1, 64)];
    say("ready");
    hear()?;
    let (start, cpu) = (Instant::now(), cpu_micros());
    let end = start + Duration::from_millis(options.millis);
    let mut datagrams = 0u64;
    while Instant::now() < end {
        match port.send(options.group, &train, options.payload) {
            Ok(_) => datagrams += (train.len() / options.payload) as u64,
            Err(SendError::WouldBlock { .. }) => {
                port.wait(Some(Duration::from_millis(1)))?;
            }
            Err(SendError::Failed {
                failure: SendFailure::NoBuffers,
                ..
            }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let nanos = start.elapsed().as_nanos();
    say(&format!("sent {datagrams} {nanos} {}", cpu_micros() - cpu));
    Ok(())
}

pub(crate) fn receive(options: &ReceiveOptions) -> Result<(), Failure> {
    let (interface, _) = choose_interface(Some(&options.interface), None)?;
    let mut port = Port::open(PortConfig::new(interface))?;
    port.join(options.group)?;
    let waker = port.waker();
    say("ready");
    std::thread::spawn(move || {
        drop(hear());
        waker.wake();
    });
    let cpu = cpu_micros();
    let (mut first, mut last, mut datagrams, mut sum) = (0, 0, 0u64, 0u64);
    let mut stopped = false;
    loop {
        let ready = port.wait(Some(SILENCE))?;
        stopped |= ready.woken;
        if stopped && !ready.readable {
            break;
        }
        while port.receive()? > 0 {
            for datagram in port.datagrams() {
                datagrams += 1;
                sum += u64::from(datagram.bytes[0]);
            }
            last = monotonic_nanos();
            first = if first == 0 { last } else { first };
        }
    }
    if sum != datagrams * 7 {
        return Err("datagrams of others came in: is another blaster on this group?".into());
    }
    say(&format!(
        "received {datagrams} {} {}",
        last - first,
        cpu_micros() - cpu
    ));
    Ok(())
}
