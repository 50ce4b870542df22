//! A stream beside one TCP connection of the kernel's, in a queue that both must share.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

use lab::{HostId, Lab, LinkShape};
use rustix::net::sockopt::set_tcp_congestion;

use super::layout::{CACHE, round_trip};
use super::repair::whole;
use super::stage::{PORT, Stage};
use super::stream::Load;
use crate::cluster::Failure;
use crate::figure::{Bar, Finding};

/// Bytes that a connection is given and read at a time.
const CHUNK: usize = 16_384;
/// Bounds of the share: the stream gets half as much as TCP at least, and twice as much at most.
const SHARE: [f64; 2] = [0.5, 2.0];
/// Bytes of a message: with all headers it fills a packet, as TCP's do.
const BYTES: usize = 1400;

/// A bottleneck that a stream shares with TCP.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    /// Name by which the kernel has TCP's control of congestion.
    pub congestion: &'static str,
    /// The bottleneck.
    pub link: LinkShape,
    /// Time before it counts.
    pub settle: Duration,
    /// Time that counts.
    pub lasts: Duration,
}

impl Share {
    /// Its name in tables.
    #[must_use]
    pub fn name(&self) -> String {
        let rate = self.link.rate.unwrap_or(0) * 8 / 1_000_000;
        let delay = self.link.delay.as_millis();
        format!("beside TCP {}, {rate} Mbit/s, {delay} ms", self.congestion)
    }

    /// This kernel has TCP's control of congestion.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        known.is_ok_and(|known| known.split_whitespace().any(|one| one == self.congestion))
    }

    /// Runs it once.
    ///
    /// # Errors
    /// A process or a connection fails.
    pub fn run(&self, program: &Path) -> Result<Vec<Finding>, Failure> {
        let mut lab = Lab::new()?;
        let far = lab.add_site()?;
        let link = lab.link(lab.first_site(), far, self.link)?;
        let near = lab.add_hosts(2)?;
        let far = [
            lab.add_host_at(far)?,
            lab.add_host_at(far)?,
            lab.add_host_at(far)?,
        ];
        let trip = round_trip(&lab, near[1], far[2])?;
        let mut stage = Stage::new(lab, program);
        let (source, relay) = (stage.at(near[0]), stage.at(far[0]));
        let mut publisher = stage.source(near[0], &source, 1, &[])?;
        let _relay = stage.relay(far[0], &relay, &source, &CACHE)?;
        let receiver = stage.receiver(far[1], &[&relay], &[])?;
        let load = Load {
            bytes: BYTES,
            rate: 0,
            lasts: self.settle + self.lasts,
        };
        let feeder = stage.publish(&mut publisher, load)?;
        let transfer = Transfer::start(&stage.lab, near[1], far[2], self.congestion)?;
        sleep(self.settle);
        let (from, tcp) = (stage.now(), transfer.bytes());
        let passed = stage.lab.link_counters(link)?[0].passed_bytes;
        sleep(self.lasts);
        let (to, tcp) = (stage.now(), transfer.bytes() - tcp);
        let passed = stage.lab.link_counters(link)?[0].passed_bytes - passed;
        transfer.stop();
        let outcome = stage.finish(feeder, vec![receiver])?;
        let ours = outcome.ends[0].tape.within(from, to).count() * BYTES;
        let seconds = (to - from).as_secs_f64();
        let rate = |bytes: f64| bytes / seconds / 1e6;
        let share = ours as f64 / (tcp as f64).max(1.0);
        let full = rate(passed as f64) * 1e6 / self.link.rate.unwrap_or(1) as f64;
        let mut found = whole(&outcome);
        found.extend([
            Finding::new(
                "round trip without traffic, ms",
                trip.as_secs_f64() * 1e3,
                Bar::Told,
            ),
            Finding::new("link in use", full, Bar::Told),
            Finding::new("stream, MB/s", rate(ours as f64), Bar::Told),
            Finding::new("TCP, MB/s", rate(tcp as f64), Bar::Told),
            Finding::new(
                "stream, in TCP's rate",
                share,
                Bar::Within(SHARE[0], SHARE[1]),
            ),
        ]);
        Ok(found)
    }
}

/// A connection that sends as much as it may.
struct Transfer {
    bytes: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    threads: [JoinHandle<()>; 2],
}

impl Transfer {
    /// Connects two hosts and begins.
    ///
    /// # Errors
    /// They cannot be connected, or the kernel lacks the control of congestion.
    fn start(lab: &Lab, from: HostId, to: HostId, congestion: &str) -> Result<Self, Failure> {
        let there = (lab.host(to).address(), PORT);
        let listener = {
            let _inside = lab.enter(to)?;
            TcpListener::bind(there)?
        };
        let mut out = {
            let _inside = lab.enter(from)?;
            TcpStream::connect(there)?
        };
        set_tcp_congestion(&out, congestion)?;
        let (mut input, _) = listener.accept()?;
        let bytes = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, counted) = (stop.clone(), bytes.clone());
        let sender = thread::spawn(move || {
            let chunk = vec![7; CHUNK];
            while !stopped.load(Ordering::Acquire) && out.write_all(&chunk).is_ok() {}
        });
        let reader = thread::spawn(move || {
            let mut room = vec![0; CHUNK];
            while let Ok(length @ 1..) = input.read(&mut room) {
                counted.fetch_add(length as u64, Ordering::Relaxed);
            }
        });
        let threads = [sender, reader];
        Ok(Self {
            bytes,
            stop,
            threads,
        })
    }

    /// Bytes that have come.
    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Ends it, and waits for what is on its way.
    fn stop(self) {
        self.stop.store(true, Ordering::Release);
        // A thread that has panicked has said so.
        self.threads
            .into_iter()
            .for_each(|thread| drop(thread.join()));
    }
}
