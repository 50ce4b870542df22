//! Events of the protocol: to the sockets, the application, or whoever asked.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use qsm_net::PortError;
use qsm_proto::UnconfirmedCause;

use super::Core;
use super::pending::Asked;
use crate::error::{RequestError, Unconfirmed};
use crate::event::Event;
use crate::handoff::command::Rows;

impl Core {
    pub(super) fn take_events(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            self.take_event(event);
        }
        for asked in self.pending.expired(self.now) {
            let error = asked.timed_out();
            self.give_up(asked, error);
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
            Proto::Unconfirmed {
                group,
                incarnation,
                first,
                last,
                cause,
            } => {
                let messages = Unconfirmed {
                    group,
                    incarnation,
                    first,
                    last,
                };
                if cause != UnconfirmedCause::NoReceivers {
                    self.pending.voids.add(messages.clone());
                    self.shared
                        .voids
                        .store(self.pending.voids.next(), Ordering::SeqCst);
                }
                Event::Unconfirmed { messages, cause }
            }
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
        match self.pending.take(request) {
            Some(Asked::Subscribe { names, reply, .. }) => {
                self.routes.bind(&self.endpoint, &names);
                reply.answer(Ok(()));
            }
            Some(Asked::Leave { reply }) => {
                reply.answer(Ok(()));
            }
            Some(Asked::Publish { names, reply }) => {
                let outlets: Vec<_> = names
                    .iter()
                    .map(|name| self.sources.add_queue(name))
                    .collect();
                // Each has a source now.
                self.sources.release(&names);
                let slots: Vec<u32> = outlets.iter().map(|outlet| outlet.slot).collect();
                if !reply.answer(Ok(outlets)) {
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
            reply.answer(Ok(rows));
        }
    }

    /// Undoes what a request that failed had begun, and tells why.
    fn give_up(&mut self, asked: Asked, error: RequestError) {
        match &asked {
            Asked::Subscribe { key, .. } => self.unsubscribe(*key),
            Asked::Publish { names, .. } => {
                let unused = self.sources.release(names);
                self.exit_publisher(unused);
            }
            Asked::Leave { .. } | Asked::Query { .. } => {}
        }
        asked.fail(error);
    }
}
