//! The sockets of one who looks without being a node, used by the thread that asks.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_queue::SegQueue;
use qsm_net::{Family, Interface, Ports};
use qsm_proto::enquiry::{Enquiry, EnquiryAnswer, EnquiryConfig, EnquiryQuestion};
use qsm_proto::{Config, Seed, Transmit};
use qsm_wire::{Body, DecodeError, NodeId, Packet, cluster_of};

use crate::admission::{Bearer, Entrant, EntryNews};
use crate::error::{CloseReason, RequestError, StartError};
use crate::runtime::clock::Clock;
use crate::runtime::network::NetworkOptions;
use crate::runtime::random::random;
use crate::runtime::settings::check_name;
use crate::runtime::transmit::{Poll, Transmitter};

const DOING: &str = "asking the membership service; is one running and reachable?";

/// Datagrams of IPv4 and of IPv6 that every Ethernet carries.
const DATAGRAM_V4: usize = 1472;
const DATAGRAM_V6: usize = 1452;

/// Open sockets, and where to ask.
pub(crate) struct Asker {
    node: NodeId,
    /// News of the guard of the sockets.
    entry: Arc<SegQueue<EntryNews>>,
    cluster: u32,
    service: Option<SocketAddr>,
    discovery: SocketAddr,
    datagram_bytes: usize,
    ports: Ports,
    interface: Interface,
    /// Packets of other clusters that have come.
    strangers: u64,
    /// A packet of the cluster has come that is protected.
    sealed: bool,
    clock: Clock,
}

impl Poll for Enquiry {
    fn poll(&mut self, now: qsm_proto::Instant) -> Option<Transmit<'_>> {
        self.poll_transmit(now)
    }
}

impl Asker {
    pub(crate) fn open(
        cluster: &str,
        network: &NetworkOptions,
        service: Option<SocketAddr>,
    ) -> Result<Self, StartError> {
        check_name("cluster", cluster)?;
        let interface = network.choose(service)?;
        let family = interface.family();
        let second = network.second(family)?;
        let discovery = network.discovery_at(family);
        network.check_protection()?;
        if let Some(identity) = &network.identity {
            let checked = identity.check(cluster, Bearer::Observer);
            checked.map_err(StartError::Identity)?;
        }
        let node = NodeId(random());
        let mut ports = network.open_unicast(interface.clone(), second, cluster)?;
        let entrant = Entrant {
            cluster: cluster.to_owned(),
            node,
            name: None,
        };
        let entry = network.guard(&mut ports, entrant)?;
        if service.is_none() {
            // To hear whether there are other clusters; without that it only cannot be said.
            let _joined = ports.join(discovery);
        }
        let config = Config {
            cluster: cluster.to_owned(),
            ..Config::new(NodeId(0), ports.local_addr())
        };
        Ok(Self {
            node,
            entry,
            cluster: config.cluster_number(),
            service,
            discovery,
            datagram_bytes: match family {
                Family::V4 => DATAGRAM_V4,
                Family::V6 => DATAGRAM_V6,
            },
            ports,
            interface,
            strangers: 0,
            sealed: false,
            clock: Clock::start(),
        })
    }

    pub(crate) fn interface(&self) -> &Interface {
        &self.interface
    }

    pub(crate) fn strangers(&self) -> u64 {
        self.strangers
    }

    pub(crate) fn needs_key(&self) -> bool {
        self.sealed
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask(
        &mut self,
        question: EnquiryQuestion,
        timeout: Duration,
    ) -> Result<EnquiryAnswer, RequestError> {
        let config = EnquiryConfig {
            cluster: self.cluster,
            question,
            service: self.service,
            discovery: self.discovery,
            datagram_bytes: self.datagram_bytes,
        };
        let start = self.clock.now();
        let enquiry = Enquiry::new(config, self.node, Seed(random()), start);
        let end = start.after(timeout);
        self.run(enquiry, end)
            .unwrap_or_else(|error| {
                let cause = format!("sockets failed: {error}");
                Err(RequestError::Closed(CloseReason::Io { cause }))
            })?
            .ok_or(RequestError::Timeout {
                doing: DOING,
                after: timeout,
                outstanding: None,
            })
    }

    /// `None` if there is no outcome by then.
    fn run(
        &mut self,
        mut enquiry: Enquiry,
        end: qsm_proto::Instant,
    ) -> io::Result<Result<Option<EnquiryAnswer>, RequestError>> {
        let mut transmitter = Transmitter::default();
        loop {
            let now = self.clock.now();
            enquiry.handle_timeout(now);
            if let Some((first, second)) = enquiry.poll_second() {
                self.ports.learn(first, second);
            }
            transmitter.run(now, &mut enquiry, &mut self.ports);
            if let Some(outcome) = enquiry.poll_outcome() {
                return Ok(outcome.map(Some).map_err(|error| RequestError::Refused {
                    reason: error.to_string(),
                }));
            }
            if now >= end {
                return Ok(Ok(None));
            }
            if transmitter.has_more() && self.ports.writable() {
                continue;
            }
            let due = enquiry.next_timeout().into_iter().chain([end]).min();
            let left = due.map(|due| due.since(self.clock.now()));
            let left = left.into_iter().chain(self.ports.due()).min();
            self.ports.wait(left)?;
            self.receive(&mut enquiry)?;
            if let Some(EntryNews::Refused { reason }) = self.entry.pop() {
                return Ok(Err(RequestError::Refused { reason }));
            }
        }
    }

    fn receive(&mut self, enquiry: &mut Enquiry) -> io::Result<()> {
        let now = self.clock.now();
        while self.ports.receive()? > 0 {
            for datagram in self.ports.datagrams() {
                let packet = Packet::open(datagram.bytes);
                let here = cluster_of(datagram.bytes) == Some(self.cluster);
                let protected = match &packet {
                    Ok(packet) => matches!(packet.body, Body::Admission(_)),
                    Err(error) => *error == DecodeError::Sealed,
                };
                self.sealed |= here && protected;
                let other = packet.is_ok_and(|packet| packet.header.cluster != self.cluster);
                self.strangers += u64::from(other);
                enquiry.handle_datagram(now, datagram.bytes);
            }
        }
        // That nobody listens at the service's port is an answer, too, but another service may come.
        while self.ports.take_refusal().is_some() {}
        Ok(())
    }
}
