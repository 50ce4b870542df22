//! The membership service within the node's process, when there is no other.

use std::net::SocketAddr;
use std::sync::Arc;

use qsm_net::Affinity;

use super::Core;
use crate::event::Event;
use crate::handle::service::{Service, ServiceBuilder};
use crate::handoff::command::Command;
use crate::runtime::network::{Channels, Network};
use crate::runtime::settings::{Embedded, NodeSettings};

pub(super) struct Embedding {
    when: Embedded,
    network: Network,
    cluster: String,
    channels: Channels,
    /// Where its thread is to run, if that is not where this one does.
    affinity: Option<Affinity>,
    service: Option<Service>,
}

impl Embedding {
    pub(super) fn new(settings: &NodeSettings) -> Self {
        Self {
            when: settings.embedded,
            network: Network {
                unicast_port: 0,
                ..settings.network.clone()
            },
            cluster: settings.cluster.clone(),
            channels: settings.channels,
            affinity: settings.threads.affinity_of_others(),
            service: None,
        }
    }

    fn builder(&self) -> ServiceBuilder {
        let builder = ServiceBuilder::embedded(&self.network, &self.cluster, self.channels);
        builder.affinity(self.affinity)
    }

    pub(super) fn is_discovery(&self, address: SocketAddr) -> bool {
        self.network.discovery == Some(address)
    }

    /// Ends the embedded service, if it runs.
    pub(super) fn stop(&mut self) {
        self.service = None;
    }
}

impl Core {
    /// This core finds nobody who serves.
    pub(super) fn embed(&mut self) {
        if self.embedding.when == Embedded::Never || self.closing.is_some() {
            return;
        }
        match self.siblings.leader() {
            Some(leader) => leader.tell(Command::Embed),
            None if self.embedding.when == Embedded::IfNoneFound => self.start_service(),
            None => {}
        }
    }

    /// Another core of this node finds nobody; perhaps this one has.
    pub(super) fn embed_for_another(&mut self) {
        match self.about.service {
            Some(address) => self.siblings.tell(|| Command::Service { address }),
            None => self.embed(),
        }
    }

    pub(super) fn embed_at_start(&mut self) {
        if self.embedding.when == Embedded::Always && self.siblings.leads() {
            self.start_service();
        }
    }

    fn start_service(&mut self) {
        if let Some(service) = &self.embedding.service {
            // It runs, but was not heard: say again where it is.
            self.lead_to(service.address());
            return;
        }
        let shared = Arc::downgrade(&self.shared);
        let yielded = move || {
            if let Some(shared) = shared.upgrade() {
                shared.tell(Command::ServiceYielded);
            }
        };
        match self.embedding.builder().on_yield(yielded).start() {
            Ok(service) => {
                let address = service.address();
                self.lead_to(address);
                self.readers.tell(&Event::ServiceEmbedded { address });
                self.embedding.service = Some(service);
            }
            Err(error) => self.readers.tell(&Event::ServiceNotEmbedded {
                reason: error.to_string(),
            }),
        }
    }

    /// All cores of this node are to use the service there.
    fn lead_to(&mut self, address: SocketAddr) {
        self.endpoint.set_service(self.now, address);
        self.siblings.tell(|| Command::Service { address });
    }
}
