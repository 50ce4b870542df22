//! Times of single packets, one by one.

use std::fmt::Write as _;
use std::io;
use std::net::UdpSocket;
use std::time::Instant;

use qsm_relay::DATA_HEADER_BYTES;

use crate::site::{self, Site};

/// S1 loses one packet of these.
const LOSS_EVERY: u64 = 25;
/// Packets of a train.
const TRAIN: u64 = 64;

/// A service whose cost is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    Clock,
    Data,
    Train,
    AfterLoss,
    FirstNack,
    FurtherNack,
    Decision,
    Repair,
    Subcast,
    Kernel,
}

impl Service {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Clock => "clock",
            Self::Data => "data",
            Self::Train => "data in trains",
            Self::AfterLoss => "data after a loss",
            Self::FirstNack => "first NACK",
            Self::FurtherNack => "further NACK",
            Self::Decision => "decision",
            Self::Repair => "repair from upstream",
            Self::Subcast => "repair by a replier",
            Self::Kernel => "kernel, one copy",
        }
    }
}

/// Times of a service with packets of one size.
#[derive(Debug)]
pub(crate) struct Cost {
    pub(crate) service: Service,
    pub(crate) bytes: usize,
    pub(crate) median_ns: u64,
    pub(crate) p99_ns: u64,
    samples: usize,
}

/// Times of a NACK that makes the election look at so many receivers.
#[derive(Debug)]
pub(crate) struct Election {
    pub(crate) receivers: usize,
    pub(crate) position: usize,
    pub(crate) median_ns: u64,
    pub(crate) p99_ns: u64,
}

#[derive(Debug, Default)]
struct Times(Vec<u64>);

impl Times {
    fn take<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        let ns = start.elapsed().as_nanos();
        self.0.push(u64::try_from(ns).unwrap_or(u64::MAX));
        result
    }

    fn at(&mut self, per_cent: usize) -> u64 {
        self.0.sort_unstable();
        let last = self.0.len().saturating_sub(1);
        self.0.get(last * per_cent / 100).copied().unwrap_or(0)
    }

    fn cost(mut self, service: Service, bytes: usize) -> Cost {
        Cost {
            service,
            bytes,
            median_ns: self.at(50),
            p99_ns: self.at(99),
            samples: self.0.len(),
        }
    }
}

/// All services with packets of this size, the header included, at a relay with so many receivers.
pub(crate) fn services(bytes: usize, receivers: usize, samples: usize) -> Vec<Cost> {
    let payload = vec![7; bytes - DATA_HEADER_BYTES];
    let mut costs = vec![clock(samples).cost(Service::Clock, bytes)];
    costs.extend(upstream_losses(&payload, bytes, receivers, samples));
    costs.extend(local_losses(&payload, bytes, receivers, samples / 4));
    costs.push(trains(&payload, receivers, samples).cost(Service::Train, bytes));
    costs
}

fn clock(samples: usize) -> Times {
    let mut times = Times::default();
    (0..samples).for_each(|_| times.take(|| ()));
    times
}

/// S1's topology 1: one packet of 25 is lost before the relay.
fn upstream_losses(payload: &[u8], bytes: usize, receivers: usize, samples: usize) -> [Cost; 4] {
    let mut site = Site::new(receivers);
    let parent = site.parent;
    let [mut data, mut after, mut further, mut repair] = <[Times; 4]>::default();
    for sequence in 1..=samples as u64 {
        if sequence.is_multiple_of(LOSS_EVERY) {
            continue;
        }
        let packet = site::data(sequence, payload, false);
        if !(sequence - 1).is_multiple_of(LOSS_EVERY) || sequence == 1 {
            data.take(|| site.give(parent, &packet));
            continue;
        }
        after.take(|| site.give(parent, &packet));
        let lost = sequence - 1;
        let nack = site::nack(lost);
        for place in [0, receivers / 2, receivers - 1] {
            let receiver = site.receiver(place);
            further.take(|| site.give(receiver, &nack));
        }
        let packet = site::data(lost, payload, true);
        let links = repair.take(|| site.give(parent, &packet));
        assert_eq!(links.len(), receivers, "all children lack it");
        site.pass(site.timing.retry_max);
        site.time_out();
        site.acknowledge(sequence);
    }
    [
        data.cost(Service::Data, bytes),
        after.cost(Service::AfterLoss, bytes),
        further.cost(Service::FurtherNack, bytes),
        repair.cost(Service::Repair, bytes),
    ]
}

/// S1's topology 2: two receivers lose a packet that others have.
fn local_losses(payload: &[u8], bytes: usize, receivers: usize, samples: usize) -> [Cost; 3] {
    let mut site = Site::new(receivers);
    let parent = site.parent;
    let [mut first, mut decision, mut subcast] = <[Times; 3]>::default();
    for sequence in 1..=samples as u64 {
        site.give(parent, &site::data(sequence, payload, false));
        let nack = site::nack(sequence);
        let (one, other) = (site.receiver(receivers - 1), site.receiver(0));
        first.take(|| site.give(one, &nack));
        site.give(other, &nack);
        site.pass(site.timing.delay_to_decide);
        decision.take(|| site.time_out());
        let packet = site::data(sequence, payload, true);
        let replier = site.receiver(1);
        let links = subcast.take(|| site.give(replier, &packet));
        assert_eq!(links.len(), 2, "two have asked");
        site.pass(site.timing.retry_max);
        site.time_out();
        site.acknowledge(sequence);
    }
    [
        first.cost(Service::FirstNack, bytes),
        decision.cost(Service::Decision, bytes),
        subcast.cost(Service::Subcast, bytes),
    ]
}

/// Time of one packet of a train.
fn trains(payload: &[u8], receivers: usize, samples: usize) -> Times {
    let mut site = Site::new(receivers);
    let parent = site.parent;
    let mut times = Times::default();
    for train in 0..samples as u64 / TRAIN {
        let first = train * TRAIN + 1;
        let numbers = first..first + TRAIN;
        let packets: Vec<Vec<u8>> = numbers
            .map(|sequence| site::data(sequence, payload, false))
            .collect();
        times.take(|| {
            for packet in &packets {
                site.give(parent, packet);
            }
        });
    }
    times.0.iter_mut().for_each(|time| *time /= TRAIN);
    times
}

/// The NACK of the default replier, when so many behind it in the list have asked before: the election
/// passes over all of them (S1, figure 5).
pub(crate) fn elections(receivers: usize, samples: usize) -> Vec<Election> {
    let mut site = Site::new(receivers);
    let (parent, mut sequence) = (site.parent, 0);
    let mut elections = Vec::new();
    for position in 1..=receivers {
        let mut times = Times::default();
        for _ in 0..samples {
            sequence += 1;
            site.give(parent, &site::data(sequence, &[7; 100], false));
            let nack = site::nack(sequence);
            // The last makes the state, so that all NACKs that are timed update it; at its own position
            // nobody is left to be found.
            let last = site.receiver(receivers - 1);
            site.give(last, &nack);
            for place in 1..position.saturating_sub(1) {
                let receiver = site.receiver(place);
                site.give(receiver, &nack);
            }
            // At position 1 the default stays: the NACK is one of somebody else's.
            let place = if position == 1 { receivers / 2 } else { 0 };
            let receiver = site.receiver(place);
            times.take(|| site.give(receiver, &nack));
            site.give(parent, &site::data(sequence, &[7; 100], true));
            site.pass(site.timing.retry_max);
            site.time_out();
            site.acknowledge(sequence);
        }
        elections.push(Election {
            receivers,
            position,
            median_ns: times.at(50),
            p99_ns: times.at(99),
        });
    }
    elections
}

/// Bytes of a session in which nothing is missing.
pub(crate) fn idle_bytes(receivers: usize) -> usize {
    let site = Site::new(receivers);
    site.relay.session_bytes(site::SESSION).unwrap_or(0)
}

/// Sending one copy over loopback, which a relay does for each link beside its own work.
pub(crate) fn kernel(bytes: usize, samples: usize) -> io::Result<Cost> {
    let (sender, receiver) = (
        UdpSocket::bind("127.0.0.1:0")?,
        UdpSocket::bind("127.0.0.1:0")?,
    );
    let to = receiver.local_addr()?;
    let (packet, mut buffer) = (vec![7; bytes], vec![0; bytes]);
    let mut times = Times::default();
    for _ in 0..samples {
        times.take(|| sender.send_to(&packet, to))?;
        receiver.recv(&mut buffer)?;
    }
    Ok(times.cost(Service::Kernel, bytes))
}

pub(crate) fn costs_csv(costs: &[Cost]) -> String {
    let mut text = "service,packet_bytes,median_ns,p99_ns,samples\n".to_owned();
    for cost in costs {
        put(
            &mut text,
            format_args!(
                "{},{},{},{},{}\n",
                cost.service.name().replace(',', ""),
                cost.bytes,
                cost.median_ns,
                cost.p99_ns,
                cost.samples
            ),
        );
    }
    text
}

pub(crate) fn elections_csv(elections: &[Election]) -> String {
    let mut text = "receivers,position,median_ns,p99_ns\n".to_owned();
    for it in elections {
        put(
            &mut text,
            format_args!(
                "{},{},{},{}\n",
                it.receivers, it.position, it.median_ns, it.p99_ns
            ),
        );
    }
    text
}

pub(crate) fn put(text: &mut String, what: std::fmt::Arguments<'_>) {
    let written = text.write_fmt(what);
    debug_assert!(written.is_ok(), "strings grow");
}
