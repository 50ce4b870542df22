//! What the application wants, beside sending.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use qsm_net::ThreadReport;
use qsm_wire::membership::Role;

use super::pending::{Asked, Condition, Flush, Wait};
use super::{Closing, Core, Told};
use crate::error::{CloseReason, RequestError};
use crate::event::Event;
use crate::feed::{Feed, FeedHandle};
use crate::shared::{Command, Reply, Subscribe};
use crate::snapshot::{Memory, RepairLatency, Snapshot};

impl Core {
    pub(super) fn take_commands(&mut self) {
        while let Some(command) = self.shared.next_command() {
            self.take_command(command);
        }
    }

    /// The node ends: everybody is told.
    pub(super) fn finish(&mut self, reason: CloseReason) {
        self.embedding.stop();
        let snapshot = self.snapshot();
        self.routes.close(&reason);
        self.readers.close(&reason);
        self.shared.finish(reason, Some(snapshot));
    }

    pub(super) fn exit_publisher(&mut self, names: Vec<String>) {
        self.exit(Role::Publisher, names);
    }

    pub(super) fn exit(&mut self, role: Role, names: Vec<String>) {
        if !names.is_empty() {
            // Nobody waits for the answer.
            self.endpoint.exit(self.now, role, names);
        }
    }

    pub(super) fn unsubscribe(&mut self, key: u64) {
        let gone = self.routes.remove(key);
        self.exit(Role::Subscriber, gone);
    }

    pub(super) fn retire(&mut self, slot: u32) {
        let gone = self.sources.retire(slot);
        self.exit_publisher(gone.into_iter().collect());
    }

    fn take_command(&mut self, command: Command) {
        match command {
            Command::Embed => self.embed_for_another(),
            Command::Events { inbox } => self.readers.add(inbox),
            Command::Feed { name, feed, reply } => self.add_feed(&name, feed, &reply),
            Command::Flush {
                deadline,
                told,
                reply,
            } => self.flush(deadline, told, reply),
            Command::Leave {
                names,
                deadline,
                reply,
            } => self.leave(&names, deadline, reply),
            Command::Members { name, reply } => {
                let group = self.endpoint.group(&name);
                let members = group.map_or(0, |group| self.endpoint.members(group));
                answer(&reply, Ok(members));
            }
            Command::Publish {
                names,
                deadline,
                reply,
            } => {
                let texts = names.iter().map(|name| name.to_string()).collect();
                let request = self.endpoint.enter(self.now, Role::Publisher, texts);
                let deadline = self.clock.at(deadline);
                self.pending
                    .ask(request, deadline, Asked::Publish { names, reply });
            }
            Command::Query {
                kind,
                deadline,
                reply,
            } => {
                let request = self.endpoint.query(self.now, kind);
                let deadline = self.clock.at(deadline);
                self.pending.ask(request, deadline, Asked::Query { reply });
            }
            Command::Retire { slot } => self.retire(slot),
            Command::Service { address } => self.endpoint.set_service(self.now, address),
            Command::ServiceYielded => {
                self.embedding.stop();
                self.readers.tell(&Event::ServiceYielded);
            }
            Command::Shutdown {
                deadline,
                reason,
                reply,
            } => self.shut_down(deadline, reason, reply),
            Command::Snapshot { reply } => answer(&reply, Ok(self.snapshot())),
            Command::Subscribe(subscribe) => self.subscribe(subscribe),
            Command::Unsubscribe { key } => self.unsubscribe(key),
            Command::WaitAdmitted { deadline, reply } => {
                self.wait_for(deadline, Condition::Admitted, reply);
            }
            Command::WaitMembers {
                name,
                count,
                deadline,
                reply,
            } => self.wait_for(deadline, Condition::Members { name, count }, reply),
        }
    }

    fn flush(&mut self, deadline: std::time::Instant, told: Told, reply: Reply<()>) {
        // What was announced before this command counts as well.
        self.sources.collect(self.now, &self.shared);
        let condition = Condition::Flushed {
            flush: Flush::new(&self.sources),
            from: told.load(Ordering::SeqCst),
            told,
        };
        self.wait_for(deadline, condition, reply);
    }

    fn add_feed(&mut self, name: &Arc<str>, feed: Box<dyn Feed>, reply: &Reply<FeedHandle>) {
        let (slot, signal) = self.sources.add_feed(name, feed);
        let shared = Arc::clone(&self.shared);
        let handle = FeedHandle {
            slot,
            signal,
            shared,
        };
        // If the one who asked has given up, this drops the handle, which retires the feed.
        answer(reply, Ok(handle));
    }

    fn subscribe(&mut self, subscribe: Subscribe) {
        let Subscribe {
            key,
            names,
            sink,
            deadline,
            reply,
        } = subscribe;
        let texts = names.iter().map(|name| name.to_string()).collect();
        // First, so that nothing is missed that arrives with the confirmation.
        self.routes.add(key, &names, sink);
        let request = self.endpoint.enter(self.now, Role::Subscriber, texts);
        let asked = Asked::Subscribe { key, names, reply };
        self.pending.ask(request, self.clock.at(deadline), asked);
    }

    fn leave(&mut self, names: &[Arc<str>], deadline: std::time::Instant, reply: Reply<()>) {
        let held = names.iter().filter(|name| self.routes.leave(name));
        let held: Vec<String> = held.map(|name| name.to_string()).collect();
        if held.is_empty() {
            answer(&reply, Ok(()));
            return;
        }
        let request = self.endpoint.exit(self.now, Role::Subscriber, held);
        self.pending
            .ask(request, self.clock.at(deadline), Asked::Leave { reply });
    }

    fn wait_for(&mut self, deadline: std::time::Instant, condition: Condition, reply: Reply<()>) {
        self.pending.wait(Wait {
            deadline: self.clock.at(deadline),
            condition,
            reply,
        });
    }

    fn shut_down(
        &mut self,
        deadline: std::time::Instant,
        reason: CloseReason,
        reply: Option<Reply<()>>,
    ) {
        if self.closing.is_some() {
            // The first one decides; this one learns of the end when its place is dropped.
            return;
        }
        self.shared.begin_closing();
        self.sources.retire_feeds();
        self.sources.collect(self.now, &self.shared);
        self.closing = Some(Closing {
            deadline: self.clock.at(deadline),
            reason,
            reply,
            finishing: false,
        });
    }

    fn snapshot(&mut self) -> Snapshot {
        self.port.refresh_drops();
        let mut runtime = self.stats;
        self.routes.stats.add_to(&mut runtime);
        self.transmitter.add_to(&mut runtime);
        runtime.queued_bytes = self.shared.gate.bytes() as u64;
        let incarnation = self.endpoint.origin().incarnation;
        Snapshot {
            node: self.endpoint.origin().node,
            name: self.about.name.clone(),
            cluster: self.about.cluster.clone(),
            address: self.port.local_addr(),
            incarnation: (incarnation.0 != 0).then_some(incarnation),
            service: self.about.service,
            uptime: self.clock.uptime(),
            protocol: self.endpoint.stats(),
            port: self.port.counters(),
            io: self.port.report(),
            second: self.port.second_report(),
            second_port: self.port.second_counters(),
            runtime,
            thread: ThreadReport::current(),
            cores: 1,
            repair: RepairLatency::of(&self.endpoint.repair_times().lasted),
            repairs: self.endpoint.repair_times().lasted.clone(),
            memory: memory(self.endpoint.memory_bytes()),
            subscriptions: self.routes.rows(),
            publishers: self.sources.rows(),
        }
    }
}

fn memory((send_bytes, receive_bytes): (usize, usize)) -> Memory {
    Memory {
        send_bytes,
        receive_bytes,
    }
}

fn answer<T>(reply: &Reply<T>, answer: Result<T, RequestError>) {
    // The one who asked may have given up.
    drop(reply.try_send(answer));
}
