//! Events of the protocol: to the sockets, the application, or whoever asked.

use std::net::SocketAddr;

use qsm_net::PortError;
use qsm_wire::membership::Role;

use super::Core;
use super::pending::Asked;
use crate::error::RequestError;
use crate::event::Event;
use crate::handoff::command::Rows;

impl Core {
    pub(super) fn take_events(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            self.take_event(event);
        }
        for asked in self.pending.expired(self.now) {
            let doing = "waiting for the membership service; is one running and reachable?";
            self.give_up(asked, self.shared.timeout(doing));
        }
    }

    fn take_event(&mut self, event: qsm_proto::Event) {
        use qsm_proto::Event as Proto;
        match event {
            Proto::Done { request } => self.request_done(request),
            Proto::Refused { request, reason } => {
                if let Some(asked) = self.pending.take(request) {
                    self.give_up(asked, RequestError::Refused { reason });
                }
            }
            Proto::Nodes { request, rows } => self.answer(request, Rows::Nodes(rows)),
            Proto::Groups { request, rows } => self.answer(request, Rows::Groups(rows)),
            Proto::Regions { request, rows } => self.answer(request, Rows::Regions(rows)),
            Proto::Listen { address } => {
                let joined = self.port.join(address);
                self.listens(address, joined);
            }
            Proto::ListenTo { address, senders } => {
                let joined = self.port.join_sources(address, &senders);
                self.listens(address, joined);
            }
            Proto::Unlisten { address } => {
                // The discovery address is listened to all the time.
                if !self.embedding.is_discovery(address) {
                    self.port.leave(address);
                }
            }
            Proto::SecondAddress { address, second } => self.port.learn(address, second),
            Proto::ServiceMissing => self.embed(),
            other => self.tell(other),
        }
    }

    /// Events for the application.
    fn tell(&mut self, event: qsm_proto::Event) {
        use qsm_proto::Event as Proto;
        let event = match event {
            Proto::Admitted { incarnation } => {
                self.routes.forget_numbers();
                self.sources.forget_numbers();
                Event::Admitted { incarnation }
            }
            Proto::Excluded => Event::Excluded,
            Proto::ServiceLost => {
                self.about.service = None;
                Event::ServiceLost
            }
            Proto::ServiceFound { address } => {
                self.about.service = Some(address);
                Event::ServiceFound { address }
            }
            Proto::RegionView {
                region,
                view,
                members,
            } => Event::RegionView {
                region,
                view,
                members,
            },
            // Losses were told to the subscriptions, in order. Events of later versions of the
            // protocol crate say nothing to this one.
            _ => return,
        };
        self.readers.tell(&event);
    }

    fn listens(&mut self, address: SocketAddr, joined: Result<(), PortError>) {
        if let Err(error) = joined {
            let reason = error.to_string();
            self.readers.tell(&Event::NotListening { address, reason });
        }
    }

    fn request_done(&mut self, request: u32) {
        // The one who asked may have given up.
        match self.pending.take(request) {
            Some(Asked::Subscribe { names, reply, .. }) => {
                self.routes.bind(&self.endpoint, &names);
                drop(reply.try_send(Ok(())));
            }
            Some(Asked::Leave { reply }) => drop(reply.try_send(Ok(()))),
            Some(Asked::Publish { names, reply }) => {
                let outlets: Vec<_> = names
                    .iter()
                    .map(|name| self.sources.add_queue(name))
                    .collect();
                let slots: Vec<u32> = outlets.iter().map(|outlet| outlet.slot).collect();
                if reply.try_send(Ok(outlets)).is_err() {
                    slots.into_iter().for_each(|slot| self.retire(slot));
                }
            }
            Some(asked @ Asked::Query { .. }) => {
                let reason = "the membership service gave no answer; ask again".to_owned();
                asked.fail(RequestError::Refused { reason });
            }
            None => {}
        }
    }

    fn answer(&mut self, request: u32, rows: Rows) {
        if let Some(Asked::Query { reply }) = self.pending.take(request) {
            // The one who asked may have given up.
            drop(reply.try_send(Ok(rows)));
        }
    }

    /// Undoes what a request that failed had begun, and tells why.
    fn give_up(&mut self, asked: Asked, error: RequestError) {
        match &asked {
            Asked::Subscribe { key, .. } => self.unsubscribe(*key),
            Asked::Publish { names, .. } => {
                let unused = names.iter().filter(|name| !self.sources.publishes(name));
                let unused: Vec<String> = unused.map(|name| name.to_string()).collect();
                self.exit(Role::Publisher, unused);
            }
            Asked::Leave { .. } | Asked::Query { .. } => {}
        }
        asked.fail(error);
    }
}
