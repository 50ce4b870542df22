//! What the application wants, beside sending.

use std::sync::Arc;

use qsm_proto::account::GroupAccount;
use qsm_proto::send::Batching;
use qsm_wire::membership::{AnswerRows, QueryKind, Role};

use super::Core;
use super::pending::{Asked, Condition, Flush, Wait};
use crate::error::Flushed;
use crate::event::Event;
use crate::handoff::command::{Command, FeedPlace, MessageQuestion, Subscribe};
use crate::handoff::feed::Feed;
use crate::handoff::reply::Reply;
use crate::handoff::void::Told;

impl Core {
    pub(super) fn take_commands(&mut self) {
        while let Some(command) = self.shared.next_command() {
            self.take_command(command);
        }
    }

    fn take_command(&mut self, command: Command) {
        match command {
            Command::Account { name, reply } => {
                reply.answer(Ok(self.account(&name)));
            }
            Command::Describe { text } => self.endpoint.describe(self.now, text),
            Command::Embed => self.embed_for_another(),
            Command::Events { inbox } => self.readers.add(inbox),
            Command::Feed {
                name,
                feed,
                batching,
                reply,
            } => self.add_feed(&name, feed, batching, reply),
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
                reply.answer(Ok(self.members(&name)));
            }
            Command::MessageAccount(question) => self.account_for(question),
            Command::Publish {
                names,
                batching,
                deadline,
                reply,
            } => {
                let asked = Asked::Publish {
                    names,
                    batching,
                    reply,
                };
                self.ask_to_publish(asked, deadline);
            }
            Command::Query {
                kind,
                deadline,
                reply,
            } => self.query(kind, deadline, reply),
            Command::Retire { slot } => self.retire(slot),
            Command::Service { address } => self.endpoint.set_service(self.now, address),
            Command::ServiceMoved { address } => self.lead_to(address),
            Command::ServiceYielded => self.yield_service(),
            Command::Shutdown {
                deadline,
                reason,
                reply,
            } => self.shut_down(deadline, reason, reply),
            Command::Snapshot { reply } => {
                reply.answer(Ok(self.snapshot()));
            }
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

    fn account(&self, name: &str) -> Option<GroupAccount> {
        let group = self.endpoint.group(name)?;
        self.endpoint.account(self.now, group)
    }

    fn account_for(&self, question: MessageQuestion) {
        let MessageQuestion {
            name,
            sender,
            number,
            reply,
        } = question;
        let endpoint = &self.endpoint;
        let account = |group| endpoint.message_account(self.now, group, sender, number);
        reply.answer(Ok(endpoint.group(&name).and_then(account)));
    }

    fn members(&self, name: &str) -> u32 {
        let group = self.endpoint.group(name);
        group.map_or(0, |group| self.endpoint.members(group))
    }

    fn flush(&mut self, deadline: std::time::Instant, told: Told, reply: Reply<Flushed>) {
        // What was announced before this command counts as well.
        self.sources.collect(self.now, &self.shared);
        let condition = Condition::Flushed {
            flush: Flush::new(&self.sources),
            before: told.before(),
            told,
        };
        self.wait_for(deadline, condition, reply);
    }

    fn yield_service(&mut self) {
        self.embedding.stop();
        self.readers.tell(&Event::ServiceYielded);
    }

    fn add_feed(
        &mut self,
        name: &Arc<str>,
        feed: Box<dyn Feed>,
        batching: Option<Batching>,
        reply: Reply<FeedPlace>,
    ) {
        let (slot, signal) = self.sources.add_feed(name, feed, batching);
        if !reply.answer(Ok(FeedPlace { slot, signal })) {
            self.retire(slot);
        }
    }

    /// Asks the membership service for the role of publisher.
    fn ask_to_publish(&mut self, asked: Asked, deadline: std::time::Instant) {
        let Asked::Publish { names, .. } = &asked else {
            return;
        };
        self.sources.hold(names);
        let texts = names.iter().map(|name| name.to_string()).collect();
        let request = self.endpoint.enter(self.now, Role::Publisher, texts);
        self.pending.ask(request, self.clock.at(deadline), asked);
    }

    fn query(&mut self, kind: QueryKind, deadline: std::time::Instant, reply: Reply<AnswerRows>) {
        let request = self.endpoint.query(self.now, kind);
        let deadline = self.clock.at(deadline);
        self.pending.ask(request, deadline, Asked::Query { reply });
    }

    fn subscribe(&mut self, subscribe: Subscribe) {
        let Subscribe {
            key,
            names,
            sink,
            delivery,
            deadline,
            reply,
        } = subscribe;
        let texts = names.iter().map(|name| name.to_string()).collect();
        // First, so that nothing is missed that arrives with the confirmation.
        self.routes.add(key, &names, sink, delivery.promptness());
        self.routes.bind(&self.endpoint, &names);
        if delivery.promptness().is_some() {
            self.want(&names);
        }
        let request = self.endpoint.enter(self.now, Role::Subscriber, texts);
        let asked = Asked::Subscribe { key, reply };
        self.pending.ask(request, self.clock.at(deadline), asked);
    }

    fn leave(&mut self, names: &[Arc<str>], deadline: std::time::Instant, reply: Reply<()>) {
        let held = names.iter().filter(|name| self.routes.leave(name));
        let held: Vec<String> = held.map(|name| name.to_string()).collect();
        self.want(names);
        if held.is_empty() {
            reply.answer(Ok(()));
            return;
        }
        let request = self.endpoint.exit(self.now, Role::Subscriber, held);
        self.pending
            .ask(request, self.clock.at(deadline), Asked::Leave { reply });
    }

    /// Has the endpoint deliver groups in the ways that are wanted beside their order.
    pub(super) fn want(&mut self, names: &[Arc<str>]) {
        for name in names {
            if let Some(modes) = self.routes.take_wishes(name) {
                self.endpoint.want(self.now, name, &modes);
            }
        }
    }

    fn wait_for(
        &mut self,
        deadline: std::time::Instant,
        condition: Condition,
        reply: Reply<Flushed>,
    ) {
        self.pending.wait(Wait {
            deadline: self.clock.at(deadline),
            condition,
            reply,
        });
    }
}
