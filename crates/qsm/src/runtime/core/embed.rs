//! Which core of a node starts its membership service, and what it tells the others.

use std::net::SocketAddr;

use super::Core;
use crate::event::Event;
use crate::handoff::command::Command;
use crate::runtime::settings::Embedded;

impl Core {
    /// This core finds nobody who serves. Where its interface has no address it could not, and
    /// nobody would find a service of its own.
    pub(super) fn embed(&mut self) {
        let never = self.embedding.when() == Embedded::Never;
        if never || self.closing.is_some() || self.addresses.is_missing() {
            return;
        }
        match self.siblings.leader() {
            Some(leader) => leader.tell(Command::Embed),
            None if self.embedding.when() == Embedded::IfNoneFound => self.start_service(),
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
        if self.embedding.when() == Embedded::Always && self.siblings.leads() {
            self.start_service();
        }
    }

    fn start_service(&mut self) {
        if let Some(address) = self.embedding.address() {
            // It runs, but was not heard: say again where it is.
            self.lead_to(address);
            return;
        }
        match self.embedding.start(&self.shared) {
            Ok(address) => {
                self.lead_to(address);
                let discovery = self.embedding.discovery();
                self.readers
                    .tell(&Event::ServiceEmbedded { address, discovery });
            }
            Err(error) => self.readers.tell(&Event::ServiceNotEmbedded {
                reason: error.to_string(),
            }),
        }
    }

    /// All cores of this node are to use the service there.
    pub(super) fn lead_to(&mut self, address: SocketAddr) {
        self.endpoint.set_service(self.now, address);
        self.siblings.tell(|| Command::Service { address });
    }
}
