//! Events of the protocol: to the sockets, the application, or whoever asked.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use qsm_net::PortError;
use qsm_proto::{MessageRange, UnconfirmedCause, UnservedCause};
use qsm_wire::membership::{Answer, AnswerRows};
use qsm_wire::{Origin, RegionId};

use super::Core;
use super::pending::Asked;
use crate::error::{RequestError, Unconfirmed, Unserved};
use crate::event::{Event, Forged, NotPermitted};

impl Core {
    pub(super) fn take_events(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            self.take_event(event);
        }
        let dropped = self.endpoint.events_dropped();
        if dropped > self.load.events_dropped {
            let events = dropped - self.load.events_dropped;
            self.load.events_dropped = dropped;
            self.readers.tell(&Event::Dropped { events });
        }
        for asked in self.pending.expired(self.now) {
            let error = asked.timed_out();
            self.give_up(asked, error);
        }
    }

    fn take_event(&mut self, event: qsm_proto::Event) {
        use qsm_proto::Event as Proto;
        match event {
            Proto::Answer(answer) => self.answer(answer),
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

    /// The member of this node's regions at an address.
    fn member_at(&self, address: SocketAddr) -> Option<Origin> {
        let regions = self.endpoint.regions();
        let mut members = regions.flat_map(|region| region.view().members().iter());
        let member = members.find(|member| member.address == address);
        member.map(|member| member.origin)
    }

    /// Packets in another's name, if that is what it tells of.
    fn forged(&self, event: &qsm_proto::Event) -> Option<Forged> {
        let qsm_proto::Event::Forged {
            region,
            sender,
            sequence,
            packets,
            source,
        } = *event
        else {
            return None;
        };
        Some(Forged {
            region,
            sender,
            sequence,
            packets,
            source,
            member: source.and_then(|source| self.member_at(source)),
        })
    }

    /// Deed of a member that breaks the rules, if that is what it tells of.
    fn misdeed(&self, event: &qsm_proto::Event) -> Option<Event> {
        let qsm_proto::Event::NotPermitted {
            sender,
            group,
            messages,
            ..
        } = *event
        else {
            return self.forged(event).map(Event::Forged);
        };
        let group = self.endpoint.group_name(group).unwrap_or_default();
        Some(Event::NotPermitted(NotPermitted {
            sender,
            group: group.to_owned(),
            messages,
        }))
    }

    fn back(&mut self, region: RegionId, away: Duration) -> Event {
        let groups = self.endpoint.regions().find(|it| it.id() == region);
        let groups = groups.map_or(Vec::new(), |region| region.groups().to_vec());
        self.routes.back(&groups, away);
        Event::Back { region, away }
    }

    /// Events for the application.
    fn tell(&mut self, event: qsm_proto::Event) {
        use qsm_proto::Event as Proto;
        let event = match event {
            Proto::Admitted { incarnation } => {
                // In the same life groups keep their numbers, and messages come meanwhile.
                if self.about.life.replace(incarnation) != Some(incarnation) {
                    self.sources.forget_numbers();
                }
                Event::Admitted { incarnation }
            }
            Proto::Away { region, reason } => Event::Away { region, reason },
            Proto::Damaged(damage) => Event::Damaged(damage),
            Proto::Deaf(deafness) => Event::Deaf(deafness),
            Proto::Hears(deafness) => Event::Hears(deafness),
            Proto::Back { region, away } => self.back(region, away),
            Proto::Expelled => Event::Expelled,
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
                    self.count_voids();
                }
                Event::Unconfirmed { messages, cause }
            }
            Proto::Unserved { .. } => {
                let Some(unserved) = unserved(event) else {
                    return;
                };
                // Who is only away is told of beside them.
                if unserved.cause != UnservedCause::Away {
                    self.pending.voids.add_unserved(unserved.clone());
                    self.count_voids();
                }
                Event::Unserved(unserved)
            }
            other => match self.misdeed(&other) {
                Some(misdeed) => misdeed,
                // Events of later versions of the protocol crate say nothing to this one.
                None => return,
            },
        };
        self.readers.tell(&event);
    }

    fn count_voids(&self) {
        let next = self.pending.voids.next();
        self.shared.voids.store(next, Ordering::SeqCst);
    }

    fn listens(&mut self, address: SocketAddr, joined: Result<(), PortError>) {
        if let Err(error) = joined {
            let reason = error.to_string();
            self.readers.tell(&Event::NotListening { address, reason });
        }
    }

    /// Tells whoever asked.
    fn answer(&mut self, answer: Answer) {
        let Some(asked) = self.pending.take(answer.request) else {
            return;
        };
        match answer.result {
            Ok(rows) => self.carry_out(asked, rows),
            Err(reason) => self.give_up(asked, RequestError::Refused { reason }),
        }
    }

    /// The service has done what was asked; here what it is for follows.
    fn carry_out(&mut self, asked: Asked, rows: AnswerRows) {
        match asked {
            Asked::Subscribe { reply, .. } | Asked::Leave { reply } => {
                reply.answer(Ok(()));
            }
            Asked::Publish {
                names,
                batching,
                reply,
            } => {
                let outlets: Vec<_> = names
                    .iter()
                    .map(|name| self.sources.add_queue(name, batching))
                    .collect();
                // Each has a source now.
                self.sources.release(&names);
                let slots: Vec<u32> = outlets.iter().map(|outlet| outlet.slot).collect();
                if !reply.answer(Ok(outlets)) {
                    slots.into_iter().for_each(|slot| self.retire(slot));
                }
            }
            Asked::Query { reply } => {
                reply.answer(match rows {
                    AnswerRows::None => Err(RequestError::Refused {
                        reason: "the membership service gave no answer; ask again".to_owned(),
                    }),
                    rows => Ok(rows),
                });
            }
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

/// The same for the application.
fn unserved(event: qsm_proto::Event) -> Option<Unserved> {
    let qsm_proto::Event::Unserved {
        receivers,
        receivers_more,
        incarnation,
        messages,
        messages_more,
        cause,
    } = event
    else {
        return None;
    };
    let range = |range: MessageRange| Unconfirmed {
        group: range.group,
        incarnation,
        first: range.first,
        last: range.last,
    };
    Some(Unserved {
        receivers,
        receivers_more,
        messages: messages.into_iter().map(range).collect(),
        messages_more,
        cause,
    })
}
