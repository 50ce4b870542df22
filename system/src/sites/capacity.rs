//! A long link that loses packets at random, filled by a stream.

use std::net::UdpSocket;
use std::path::Path;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use lab::{Lab, LinkShape};

use super::layout::CACHE;
use super::repair::whole;
use super::stage::{PORT, Stage};
use super::stream::Load;
use crate::cluster::Failure;
use crate::figure::{Bar, Finding};

/// Bytes of a message: with all headers it fills a packet.
const BYTES: usize = 1400;
/// Bytes of a packet of IP with such a message.
const PACKET: usize = BYTES + 48;
/// Time for which datagrams are sent to see how many pass.
const FLOOD: Duration = Duration::from_secs(2);
/// Part of what the emulator carries that a link is given: relays need CPU time, too.
const SPARED: f64 = 0.5;
/// Part of the link's rate that the stream is to get.
const SHARE_MIN: f64 = 0.9;
/// Packets that a source keeps: those of the link's round trip, and of repairs.
const WINDOW: [&str; 2] = ["--window", "65536"];

/// A stream that has more to send than a link takes.
#[derive(Debug, Clone, Copy)]
pub struct Capacity {
    /// The link; the rate is a bound, less where the machine carries less.
    pub link: LinkShape,
    /// Time before it counts.
    pub settle: Duration,
    /// Time that counts.
    pub lasts: Duration,
}

impl Capacity {
    /// Its name in tables.
    #[must_use]
    pub fn name(&self) -> String {
        let rate = self.link.rate.unwrap_or(0) * 8 / 1_000_000;
        let (delay, loss) = (self.link.delay.as_millis(), self.link.loss_ppm / 10_000);
        format!("{rate} Mbit/s, {delay} ms, {loss} % lost")
    }

    /// Runs it once.
    ///
    /// # Errors
    /// A process fails.
    pub fn run(&self, program: &Path) -> Result<Vec<Finding>, Failure> {
        let carried = self.emulated()?;
        let asked = self.link.rate.unwrap_or(u64::MAX);
        let rate = asked.min((carried * SPARED) as u64);
        let mut lab = Lab::new()?;
        let far = lab.add_site()?;
        lab.link(lab.first_site(), far, self.link.with_rate(rate))?;
        let near = lab.add_host()?;
        let far = [lab.add_host_at(far)?, lab.add_host_at(far)?];
        let mut stage = Stage::new(lab, program);
        let (source, relay) = (stage.at(near), stage.at(far[0]));
        let mut publisher = stage.source(near, &source, 1, &WINDOW)?;
        let _relay = stage.relay(far[0], &relay, &source, &CACHE)?;
        let receiver = stage.receiver(far[1], &[&relay], &[])?;
        let load = Load {
            bytes: BYTES,
            rate: 0,
            lasts: self.settle + self.lasts,
        };
        let feeder = stage.publish(&mut publisher, load)?;
        sleep(self.settle);
        let from = stage.now();
        sleep(self.lasts);
        let to = stage.now();
        let outcome = stage.finish(feeder, vec![receiver])?;
        let bytes = outcome.ends[0].tape.within(from, to).count() * PACKET;
        let got = bytes as f64 / (to - from).as_secs_f64();
        let share = got / rate as f64;
        let mut found = whole(&outcome);
        let mbit = |bytes: f64| bytes * 8.0 / 1e6;
        found.extend([
            Finding::new("emulator alone, UDP, Mbit/s", mbit(carried), Bar::Told),
            Finding::new("link, Mbit/s", mbit(rate as f64), Bar::Told),
            Finding::new("stream with its headers, Mbit/s", mbit(got), Bar::Told),
            Finding::new("stream, in the link's rate", share, Bar::Least(SHARE_MIN)),
        ]);
        Ok(found)
    }

    /// Bytes a second that the link carries on this machine where it has no rate, between two threads.
    fn emulated(&self) -> Result<f64, Failure> {
        let mut lab = Lab::new()?;
        let far = lab.add_site()?;
        let shape = LinkShape {
            delay: self.link.delay,
            ..LinkShape::default()
        };
        lab.link(lab.first_site(), far, shape)?;
        let (near, far) = (lab.add_host()?, lab.add_host_at(far)?);
        let there = (lab.host(far).address(), PORT);
        let sink = {
            let _inside = lab.enter(far)?;
            UdpSocket::bind(there)?
        };
        let from = {
            let _inside = lab.enter(near)?;
            UdpSocket::bind((lab.host(near).address(), PORT))?
        };
        sink.set_read_timeout(Some(Duration::from_secs(1)))?;
        let reader = thread::spawn(move || {
            let mut room = vec![0; PACKET];
            let (mut packets, mut first, mut last) = (0_u32, None, Instant::now());
            while sink.recv(&mut room).is_ok() {
                last = Instant::now();
                first.get_or_insert(last);
                packets += 1;
            }
            let time = last - first.unwrap_or(last);
            f64::from(packets) * PACKET as f64 / time.as_secs_f64().max(1e-9)
        });
        let (begun, message) = (Instant::now(), vec![7; PACKET - 28]);
        while begun.elapsed() < FLOOD {
            // What does not fit is lost, as in any flood.
            drop(from.send_to(&message, there));
        }
        let rate = reader.join();
        Ok(rate.map_err(|_| "counting datagrams has panicked")?)
    }
}
