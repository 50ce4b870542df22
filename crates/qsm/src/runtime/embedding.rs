//! The membership service within the node's process, when there is no other.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use qsm_gms::ServiceHints;
use qsm_net::{Affinity, Interface};

use crate::error::StartError;
use crate::handoff::command::Command;
use crate::handoff::shared::Shared;
use crate::runtime::network::{ChannelOptions, NetworkOptions};
use crate::runtime::service::{RunningService, ServiceSettings, start};
use crate::runtime::settings::{Embedded, NodeSettings};

pub(crate) struct Embedding {
    when: Embedded,
    network: NetworkOptions,
    cluster: String,
    channels: ChannelOptions,
    gone_after: Option<Duration>,
    slow_after: Option<Duration>,
    plan_every: Option<Duration>,
    plan_unwanted_ppm: u32,
    plan_common: Option<u32>,
    hints: ServiceHints,
    revoked: Option<PathBuf>,
    admin: bool,
    /// Where its thread is to run, if that is not where this one does.
    affinity: Option<Affinity>,
    service: Option<RunningService>,
}

impl Embedding {
    /// A service is on the interface that the node has chosen, whatever else is up by then.
    pub(crate) fn new(settings: &NodeSettings, interface: &Interface) -> Self {
        let mut network = NetworkOptions {
            unicast_port: Some(0),
            ..settings.network.clone()
        };
        if network.interfaces.is_empty() {
            network.interfaces.push(interface.name.clone());
        }
        Self {
            when: settings.embedded,
            network,
            cluster: settings.cluster.clone(),
            channels: settings.channels,
            gone_after: settings.gone_after,
            slow_after: settings.slow_after,
            plan_every: settings.plan_every,
            plan_unwanted_ppm: settings.plan_unwanted_ppm,
            plan_common: settings.plan_common,
            hints: settings.hints.clone(),
            revoked: settings.revoked.clone(),
            admin: settings.admin,
            affinity: settings.threads.affinity_of_others(),
            service: None,
        }
    }

    pub(crate) fn when(&self) -> Embedded {
        self.when
    }

    /// Where the embedded service is, if it runs.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.service.as_ref().map(RunningService::address)
    }

    /// Starts the service and says where it is. If it gives way to another one, or goes on at another
    /// address, it tells the core that `shared` leads to.
    pub(crate) fn start(&mut self, shared: &Arc<Shared>) -> Result<SocketAddr, StartError> {
        let shared = Arc::downgrade(shared);
        let core = Weak::clone(&shared);
        let yielded = move || {
            if let Some(shared) = shared.upgrade() {
                shared.tell(Command::ServiceYielded);
            }
        };
        let moved = move |address| {
            if let Some(core) = core.upgrade() {
                core.tell(Command::ServiceMoved { address });
            }
        };
        let settings = ServiceSettings {
            affinity: self.affinity,
            gone_after: self.gone_after,
            slow_after: self.slow_after,
            plan_every: self.plan_every,
            plan_unwanted_ppm: self.plan_unwanted_ppm,
            plan_common: self.plan_common,
            hints: self.hints.clone(),
            revoked: self.revoked.clone(),
            admin: self.admin,
            on_yield: Some(Box::new(yielded)),
            on_move: Some(Box::new(moved)),
            ..ServiceSettings::embedded(&self.network, &self.cluster, self.channels)
        };
        let service = start(settings)?;
        let address = service.address();
        self.service = Some(service);
        Ok(address)
    }

    /// The multicast address at which services are looked for.
    pub(crate) fn discovery(&self) -> Option<SocketAddr> {
        self.network.discovery
    }

    pub(crate) fn is_discovery(&self, address: SocketAddr) -> bool {
        self.network.discovery == Some(address)
    }

    /// Ends the embedded service, if it runs.
    pub(crate) fn stop(&mut self) {
        self.service = None;
    }
}
