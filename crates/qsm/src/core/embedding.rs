//! The membership service within the node's process, when there is no other.

use std::net::SocketAddr;
use std::sync::Arc;

use super::Core;
use crate::builder::{Builder, Channels, Embedded, Network};
use crate::event::Event;
use crate::service::{Service, ServiceBuilder};
use crate::shared::Command;

pub(super) struct Embedding {
    when: Embedded,
    network: Network,
    cluster: String,
    channels: Channels,
    service: Option<Service>,
}

impl Embedding {
    pub(super) fn new(builder: &Builder) -> Self {
        Self {
            when: builder.embedded,
            network: Network {
                unicast_port: 0,
                ..builder.network.clone()
            },
            cluster: builder.cluster.clone(),
            channels: builder.channels,
            service: None,
        }
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
    /// Nobody else serves.
    pub(super) fn embed(&mut self) {
        if self.embedding.when == Embedded::IfNoneFound && self.closing.is_none() {
            self.start_service();
        }
    }

    pub(super) fn embed_at_start(&mut self) {
        if self.embedding.when == Embedded::Always {
            self.start_service();
        }
    }

    fn start_service(&mut self) {
        if let Some(service) = &self.embedding.service {
            // It runs, but was not heard: say again where it is.
            let address = service.address();
            self.endpoint.set_service(self.now, address);
            return;
        }
        let shared = Arc::downgrade(&self.shared);
        let builder = ServiceBuilder::embedded(
            &self.embedding.network,
            &self.embedding.cluster,
            self.embedding.channels,
        );
        let yielded = move || {
            if let Some(shared) = shared.upgrade() {
                shared.tell(Command::ServiceYielded);
            }
        };
        match builder.on_yield(yielded).start() {
            Ok(service) => {
                let address = service.address();
                self.endpoint.set_service(self.now, address);
                self.readers.tell(&Event::ServiceEmbedded { address });
                self.embedding.service = Some(service);
            }
            Err(error) => self.readers.tell(&Event::ServiceNotEmbedded {
                reason: error.to_string(),
            }),
        }
    }
}
