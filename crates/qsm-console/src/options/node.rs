//! The options of a node.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::Args;
use qsm::{
    Builder, DATA_HEADER_BYTES, Embedded, Family, FaultConfig, LatencyBudget, Node, Observer,
    Recovery, RequestError,
};

use super::latency::latency_budget;
use super::network::NetworkOptions;
use super::quantity::{loss_ppm, size};
use super::service::{self, ServicePlace};
use super::threads::ThreadOptions;
use crate::failure::Failure;

/// Time that each address of a service with several has to answer before the next is tried.
const ANSWER: Duration = Duration::from_secs(2);

/// Options of a node.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own on the command line"
)]
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Network")]
pub struct NodeOptions {
    /// Options of all sockets.
    #[command(flatten)]
    pub network: NetworkOptions,
    /// What this node calls itself in `qsm nodes` [default: host/program/process]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Place of the membership service: an address, the name of a host, or of a service in DNS
    /// (SRV), as _qsm._udp.example.org. Given again: another place. Of all their addresses the first
    /// that answers is taken, and when it falls silent, they are looked up again and tried in turn. While
    /// none answers, one is looked for by multicast as well, and said to be found [default: look for it by
    /// multicast]
    #[arg(long, value_name = "HOST:PORT", value_parser = ServicePlace::parse)]
    pub service: Vec<ServicePlace>,
    /// Receive buffer of each socket, bytes; with suffix k or M [default: 32M]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub receive_buffer: Option<usize>,
    /// Keep so much for members that are away, bytes; with suffix k or M: of what this node sends,
    /// and as much of what it caches for others. Of more than that the oldest goes, and is lost to
    /// them; 0: nothing is kept [default: 64M]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub retention: Option<usize>,
    /// Send at most so many bytes in a second, all together; with suffix k or M. New messages wait for that;
    /// repairs and control go first [default: no limit]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub send_limit: Option<usize>,
    /// Say which stage of messages' ways takes longer than it may: a time for all, of which each stage
    /// has its usual share, or total=TIME and shares, such as total=5ms,batching=1ms. Stages are handoff,
    /// batching, admission, socket-send, network (not judged), receive-buffer, repair and subscription
    /// [default: nothing is said]
    #[arg(long, value_name = "TIME", value_parser = latency_budget)]
    pub latency_budget: Option<LatencyBudget>,
    /// Have the kernel clone what goes to many receivers by unicast, where it allows that (capabilities
    /// CAP_NET_ADMIN and CAP_BPF); clones do not pass this host's firewall
    #[arg(long)]
    pub clone_copies: bool,
    /// Let checksums cover messages too, not headers and control alone
    #[arg(long)]
    pub payload_checksums: bool,
    /// Make parities where several receivers miss different packets, and use them; to be given at all
    /// nodes of a cluster or at none
    #[arg(long)]
    pub parity: bool,
    /// Send so many parities behind each block of sixteen packets, unasked: 1 to 4
    #[arg(long, value_name = "COUNT", requires = "parity", default_value = "0",
        value_parser = clap::value_parser!(u8).range(0..=Recovery::PARITIES_AHEAD_MAX as i64))]
    pub parities_ahead: u8,
    /// Lose this share of what is received, at random, to try the repair
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = loss_ppm)]
    pub loss: u32,
    /// Change a bit in the header of this share of what is received, at random, to try checksums
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = loss_ppm)]
    pub damage: u32,
    /// Run a membership service in this process, at once
    #[arg(long, conflicts_with = "no_embedded_gms")]
    pub embedded_gms: bool,
    /// Never run a membership service in this process, even if none is found
    #[arg(long)]
    pub no_embedded_gms: bool,
    /// Its core threads.
    #[command(flatten)]
    pub threads: ThreadOptions,
}

impl NodeOptions {
    /// The faults to inject, if any; each process has its own random sequence.
    #[must_use]
    pub fn fault(&self) -> Option<FaultConfig> {
        (self.loss > 0 || self.damage > 0).then(|| FaultConfig {
            seed: RandomState::new().hash_one(0),
            loss_ppm: self.loss,
            damage_ppm: self.damage,
            damage_bytes: DATA_HEADER_BYTES,
            ..FaultConfig::default()
        })
    }

    /// A node as these options describe it; `embedded` is for when they say nothing of that. Of a
    /// service with several addresses it has the first.
    ///
    /// # Errors
    /// The service is not found, or the hints cannot be read.
    pub fn builder(&self, embedded: Embedded) -> Result<Builder, Failure> {
        let service = self.services()?.first().copied();
        self.builder_at(service, embedded)
    }

    /// Starts such a node, with what `more` adds; with a service of several addresses, at the first
    /// that answers.
    ///
    /// # Errors
    /// The service is not found, or the node does not start.
    pub fn start(
        &self,
        embedded: Embedded,
        more: impl Fn(Builder) -> Builder,
    ) -> Result<Node, Failure> {
        let services = self.services()?;
        let builder = |service| Ok::<_, Failure>(more(self.builder_at(service, embedded)?));
        let (last, others) = match services.split_last() {
            Some((last, others)) => (Some(*last), others),
            None => (None, &[][..]),
        };
        for service in others {
            // One that cannot be reached from here is like one that does not answer.
            let Ok(node) = builder(Some(*service))?.start() else {
                continue;
            };
            if node.wait_admitted(ANSWER).is_ok() {
                return Ok(node);
            }
            drop(node.shutdown(Duration::ZERO));
        }
        Ok(builder(last)?.start()?)
    }

    /// Asks a question of the membership service without being a node of the cluster; with a service
    /// of several addresses, at the first that answers.
    ///
    /// # Errors
    /// The service is not found, or the sockets cannot be opened.
    pub fn observe<T>(
        &self,
        timeout: Duration,
        question: impl Fn(&mut Observer) -> Result<T, RequestError>,
    ) -> Result<Result<T, RequestError>, Failure> {
        let (services, sockets) = (self.services()?, self.sockets()?);
        let open = |service: Option<SocketAddr>, timeout| {
            let builder = Observer::builder()
                .cluster(self.network.cluster.as_str())
                .network(sockets.clone())
                .timeout(timeout);
            match service {
                Some(service) => builder.service(service).open(),
                None => builder.open(),
            }
        };
        let (last, others) = match services.split_last() {
            Some((last, others)) => (Some(*last), others),
            None => (None, &[][..]),
        };
        for service in others {
            // One that cannot be reached from here is like one that does not answer.
            let Ok(mut observer) = open(Some(*service), ANSWER.min(timeout)) else {
                continue;
            };
            match question(&mut observer) {
                Err(RequestError::Timeout { .. }) => {}
                outcome => return Ok(outcome),
            }
        }
        Ok(question(&mut open(last, timeout)?))
    }

    /// The addresses at which the service may be; none if it is to be looked for.
    ///
    /// # Errors
    /// None of the places of the service is found.
    pub fn services(&self) -> Result<Vec<SocketAddr>, Failure> {
        service::addresses(&self.service, self.family())
    }

    /// The places at which the service may be, and their addresses, for an error; `None` if it is to be
    /// looked for.
    #[must_use]
    pub fn services_tried(&self) -> Option<String> {
        let named = !self.service.is_empty();
        named.then(|| service::tried(&self.service, self.family()))
    }

    /// The family, as far as options say.
    fn family(&self) -> Option<Family> {
        let network = &self.network;
        let asked = network.ipv6.then_some(Family::V6);
        let discovery = network.discovery.map(|at| Family::of(at.ip()));
        let interface = network.interface.first();
        let address = interface.and_then(|name| name.split('%').next()?.parse::<IpAddr>().ok());
        asked.or(discovery).or_else(|| address.map(Family::of))
    }

    fn builder_at(
        &self,
        service: Option<SocketAddr>,
        embedded: Embedded,
    ) -> Result<Builder, Failure> {
        let embedded = match (self.embedded_gms, self.no_embedded_gms) {
            (true, _) => Embedded::Always,
            (_, true) => Embedded::Never,
            _ => embedded,
        };
        let mut builder = Node::builder()
            .cluster(self.network.cluster.as_str())
            .network(self.sockets()?)
            .hints(self.network.read_hints()?)
            .channels(self.network.channels())
            .payload_checksums(self.payload_checksums)
            .recovery(Recovery {
                parity: self.parity,
                parities_ahead: self.parities_ahead,
                ..Recovery::default()
            })
            .embedded_service(embedded);
        if let Some(name) = &self.name {
            builder = builder.name(name.as_str());
        }
        if let Some(service) = service {
            builder = builder.service(service);
        }
        if self.may_move() {
            let (places, family) = (self.service.clone(), self.family());
            let lookup = move || service::addresses(&places, family).unwrap_or_default();
            builder = builder.service_lookup(lookup);
        }
        if let Some(list) = self.network.revocations() {
            builder = builder.revocations(list);
        }
        if let Some(silence) = self.network.gone_after {
            builder = builder.gone_after(silence);
        }
        if let Some(time) = self.network.slow_after {
            builder = builder.slow_after(time);
        }
        if let Some(interval) = self.network.plan_every {
            builder = builder.plan_every(interval);
        }
        if let Some(ppm) = self.network.plan_unwanted {
            builder = builder.plan_unwanted(f64::from(ppm) / 1e6);
        }
        if let Some(packets) = self.network.plan_common {
            builder = builder.plan_common(packets.0);
        }
        if let Some(bytes) = self.retention {
            builder = builder.retention_bytes(bytes);
        }
        if let Some(bytes) = self.send_limit {
            builder = builder.send_limit(bytes as u64);
        }
        if let Some(budget) = self.latency_budget {
            builder = builder.latency_budget(budget);
        }
        Ok(self.threads.apply(builder))
    }

    /// Tells whether the places of the service may lead to another address than they did.
    fn may_move(&self) -> bool {
        match &self.service[..] {
            [] | [ServicePlace::Address(_)] => false,
            [_] | [_, _, ..] => true,
        }
    }

    fn sockets(&self) -> Result<qsm::NetworkOptions, Failure> {
        let mut sockets = self.network.sockets()?.clone_copies(self.clone_copies);
        let zone = self.service.iter().find_map(ServicePlace::zone);
        if let Some(zone) = zone.filter(|_| self.network.interface.is_empty()) {
            sockets = sockets.interface(zone);
        }
        if let Some(bytes) = self.receive_buffer {
            sockets = sockets.receive_buffer(bytes);
        }
        if let Some(fault) = self.fault() {
            sockets = sockets.fault(fault);
        }
        if let Some(time) = self.threads.busy_poll() {
            sockets = sockets.busy_poll(time);
        }
        Ok(sockets)
    }
}
