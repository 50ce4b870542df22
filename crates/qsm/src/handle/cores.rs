//! The core threads of a node, as those see them who enter groups.

use std::sync::Arc;
use std::time::Duration;

use qsm_wire::membership::{AnswerRows, QueryKind};

use crate::error::RequestError;
use crate::handoff::command::{Command, Subscribe};
use crate::handoff::mode::DeliveryMode;
use crate::handoff::reply::Answer;
use crate::handoff::shared::Shared;
use crate::handoff::sink::Sink;
use crate::shard::{Shards, Share as CoreShare};

/// What a subscription and an upcall have in common: leaving when dropped.
#[derive(Debug)]
pub(crate) struct Membership {
    /// The cores that have the groups, and the number of the subscription at each.
    places: Vec<(Arc<Shared>, u64)>,
    pub(crate) names: Box<[Arc<str>]>,
}

impl Drop for Membership {
    fn drop(&mut self) {
        for (shared, key) in &self.places {
            shared.tell(Command::Unsubscribe { key: *key });
        }
    }
}

/// The halves shared with each core thread. It does not keep the node from its end.
#[derive(Debug, Clone)]
pub(crate) struct Cores(pub(crate) Arc<[Arc<Shared>]>);

impl Cores {
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn shards(&self) -> Shards {
        Shards(self.0.len())
    }

    /// Subscribes at each core that has some of the groups.
    pub(crate) fn enter(
        &self,
        names: Vec<Arc<str>>,
        delivery: DeliveryMode,
        shares: impl Iterator<Item = (CoreShare, Sink)>,
    ) -> Result<Membership, RequestError> {
        let (membership, answers) = self.ask_to_enter(names, delivery, shares)?;
        answers.into_iter().try_for_each(Answer::wait)?;
        Ok(membership)
    }

    /// The same, for tasks.
    pub(crate) async fn enter_async(
        &self,
        names: Vec<Arc<str>>,
        delivery: DeliveryMode,
        shares: impl Iterator<Item = (CoreShare, Sink)>,
    ) -> Result<Membership, RequestError> {
        let (membership, answers) = self.ask_to_enter(names, delivery, shares)?;
        for answer in answers {
            answer.arrive().await?;
        }
        Ok(membership)
    }

    /// Asks each core. If one refuses, or nobody waits any more, dropping the membership withdraws
    /// all requests.
    fn ask_to_enter(
        &self,
        names: Vec<Arc<str>>,
        delivery: DeliveryMode,
        shares: impl Iterator<Item = (CoreShare, Sink)>,
    ) -> Result<(Membership, Vec<Answer<'_, ()>>), RequestError> {
        let mut membership = Membership {
            places: Vec::new(),
            names: names.into(),
        };
        let doing = "entering groups; is a membership service running and reachable?";
        let mut answers = Vec::new();
        for (share, sink) in shares {
            let shared = &self.0[share.core];
            let (key, names) = (shared.key(), share.names.into());
            membership.places.push((Arc::clone(shared), key));
            let subscribe = |reply, deadline| {
                Command::Subscribe(Subscribe {
                    key,
                    names,
                    sink,
                    delivery,
                    deadline,
                    reply,
                })
            };
            answers.push(shared.request(doing, None, subscribe)?);
        }
        Ok((membership, answers))
    }

    pub(crate) fn query(&self, kind: QueryKind) -> Result<AnswerRows, RequestError> {
        self.query_within(kind, None)
    }

    /// The same, in so much time.
    pub(crate) fn query_within(
        &self,
        kind: QueryKind,
        timeout: Option<Duration>,
    ) -> Result<AnswerRows, RequestError> {
        let doing = "asking the membership service; is one running and reachable?";
        let query = |reply, deadline| Command::Query {
            kind,
            deadline,
            reply,
        };
        self.0[0].ask(doing, timeout, query)
    }
}
