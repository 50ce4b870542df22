//! Requests of the application that are not answered yet, each with a deadline.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use qsm_proto::send::Batching;
use qsm_proto::{Endpoint, Instant};
use qsm_wire::RegionId;
use qsm_wire::membership::AnswerRows;

use super::lacking::{lacking, receivers};
use super::sources::Sources;
use crate::error::{Flushed, Outstanding, RequestError};
use crate::handoff::outlet::Outlet;
use crate::handoff::reply::Reply;
use crate::handoff::void::{Told, ToldBefore, Voids};

/// Groups that an error names.
const GROUPS_NAMED: usize = 8;

/// Asked of the membership service.
pub(super) enum Asked {
    Subscribe {
        key: u64,
        reply: Reply<()>,
    },
    Leave {
        reply: Reply<()>,
    },
    Publish {
        names: Vec<Arc<str>>,
        batching: Option<Batching>,
        reply: Reply<Vec<Arc<Outlet>>>,
    },
    Query {
        reply: Reply<AnswerRows>,
    },
}

/// Waits until something is true.
pub(super) struct Wait {
    pub(super) deadline: Instant,
    pub(super) condition: Condition,
    /// Vanished receivers are named to those who flush.
    pub(super) reply: Reply<Flushed>,
}

pub(super) enum Condition {
    Admitted,
    Members {
        name: Arc<str>,
        count: u32,
    },
    Flushed {
        flush: Flush,
        /// What the one who flushes has been told of.
        before: ToldBefore,
        told: Told,
    },
}

/// What a flush waits for: first that publishers' queues have given on what they had, then that
/// the streams are stable up to what they then had.
pub(super) enum Flush {
    Taken(Vec<(u32, u64)>),
    Stable(Vec<Mark>),
}

/// A place in a region's stream.
pub(super) struct Mark {
    region: RegionId,
    /// Bytes that the stream will have sent when all of it has left.
    sent_bytes: u64,
    /// Last packet of it, once it has left.
    highest: Option<u64>,
}

#[derive(Default)]
pub(super) struct Pending {
    asked: BTreeMap<u32, (Instant, Asked)>,
    waits: Vec<Wait>,
    pub(super) voids: Voids,
}

impl Pending {
    /// Whether nobody waits for something to become true.
    pub(super) fn is_idle(&self) -> bool {
        self.waits.is_empty()
    }

    pub(super) fn ask(&mut self, request: u32, deadline: Instant, asked: Asked) {
        self.asked.insert(request, (deadline, asked));
    }

    pub(super) fn take(&mut self, request: u32) -> Option<Asked> {
        self.asked.remove(&request).map(|(_, asked)| asked)
    }

    pub(super) fn wait(&mut self, wait: Wait) {
        self.waits.push(wait);
    }

    /// Requests whose time is over.
    pub(super) fn expired(&mut self, now: Instant) -> Vec<Asked> {
        let over = self
            .asked
            .iter()
            .filter(|(_, (deadline, _))| *deadline <= now);
        let over: Vec<u32> = over.map(|(request, _)| *request).collect();
        over.into_iter()
            .filter_map(|request| self.take(request))
            .collect()
    }

    /// Answers those whose condition holds, or whose time is over.
    pub(super) fn check(&mut self, now: Instant, endpoint: &Endpoint, sources: &Sources) {
        let over =
            |wait: &mut Wait| wait.deadline <= now || wait.condition.is_met(endpoint, sources);
        let voids = &self.voids;
        for mut wait in self.waits.extract_if(.., over) {
            let met = wait.condition.is_met(endpoint, sources);
            let answer = match &wait.condition {
                Condition::Flushed { before, told, .. } if met => {
                    let flushed = voids.tell(*before, told);
                    flushed.map(|flushed| with_away(flushed, now, endpoint))
                }
                _ if met => Ok(Flushed::default()),
                Condition::Flushed { flush, .. } => {
                    let left = flush.outstanding(now, endpoint, sources);
                    Err(wait.reply.timed_out_with(left))
                }
                Condition::Members { name, count } => Err(RequestError::TooFewReceivers {
                    group: Arc::clone(name),
                    wanted: *count,
                    after: wait.reply.after(),
                    receivers: Box::new(receivers(name, endpoint)),
                }),
                Condition::Admitted => Err(wait.reply.timed_out()),
            };
            wait.reply.answer(answer);
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let asked = self.asked.values().map(|(deadline, _)| *deadline);
        asked
            .chain(self.waits.iter().map(|wait| wait.deadline))
            .min()
    }
}

impl Asked {
    pub(super) fn fail(self, error: RequestError) {
        match self {
            Self::Subscribe { reply, .. } | Self::Leave { reply } => reply.answer(Err(error)),
            Self::Publish { reply, .. } => reply.answer(Err(error)),
            Self::Query { reply } => reply.answer(Err(error)),
        };
    }

    /// The error of one whose time is over.
    pub(super) fn timed_out(&self) -> RequestError {
        match self {
            Self::Subscribe { reply, .. } | Self::Leave { reply } => reply.timed_out(),
            Self::Publish { reply, .. } => reply.timed_out(),
            Self::Query { reply } => reply.timed_out(),
        }
    }
}

impl Condition {
    fn is_met(&mut self, endpoint: &Endpoint, sources: &Sources) -> bool {
        match self {
            Self::Admitted => endpoint.origin().incarnation.0 != 0,
            Self::Members { name, count } => {
                let group = endpoint.group(name);
                group.map_or(0, |group| endpoint.members(group)) >= *count
            }
            Self::Flushed { flush, .. } => flush.is_done(endpoint, sources),
        }
    }
}

impl Flush {
    pub(super) fn new(sources: &Sources) -> Self {
        Self::Taken(sources.backlog())
    }

    pub(super) fn is_done(&mut self, endpoint: &Endpoint, sources: &Sources) -> bool {
        if let Self::Taken(backlog) = self {
            if !backlog
                .iter()
                .all(|(slot, count)| sources.has_taken(*slot, *count))
            {
                return false;
            }
            *self = Self::Stable(marks(endpoint));
        }
        let Self::Stable(marks) = self else {
            return false;
        };
        marks.retain_mut(|mark| !mark.is_stable(endpoint));
        marks.is_empty()
    }
}

/// Messages that this node has accepted and its receivers are not known to have, in these regions.
pub(super) fn outstanding(
    now: Instant,
    endpoint: &Endpoint,
    sources: &Sources,
    concerns: impl Fn(RegionId) -> bool,
) -> Outstanding {
    let mut left = Outstanding::default();
    let mut groups: BTreeSet<Arc<str>> = BTreeSet::new();
    for (name, messages) in sources.waiting() {
        left.queued += messages;
        groups.insert(Arc::clone(name));
    }
    for region in endpoint.regions().filter(|region| concerns(region.id())) {
        let Some(sender) = region.own_stream().filter(|sender| !sender.is_idle()) else {
            continue;
        };
        left.unconfirmed += sender.pending_messages();
        left.regions += 1;
        let names = sources.names();
        groups.extend(names.filter(|name| {
            let group = endpoint.group(name);
            group.is_some_and(|group| region.groups().binary_search(&group).is_ok())
        }));
    }
    left.lacking = lacking(now, endpoint, &concerns);
    left.groups_more = groups.len().saturating_sub(GROUPS_NAMED) as u64;
    left.groups = groups.into_iter().take(GROUPS_NAMED).collect();
    left
}

/// Names those, too, that are away now and lack something.
pub(super) fn with_away(flushed: Flushed, now: Instant, endpoint: &Endpoint) -> Flushed {
    let mut away = lacking(now, endpoint, |_| true);
    away.retain(|lacking| lacking.away.is_some());
    Flushed { away, ..flushed }
}

fn marks(endpoint: &Endpoint) -> Vec<Mark> {
    let mark = |region: &qsm_proto::region::Region| {
        let sender = region.own_stream()?;
        Some(Mark {
            region: region.id(),
            sent_bytes: sender.counters().bytes + sender.unsent_bytes() as u64,
            highest: None,
        })
    };
    endpoint.regions().filter_map(mark).collect()
}

impl Flush {
    /// Messages that it still waits for.
    fn outstanding(&self, now: Instant, endpoint: &Endpoint, sources: &Sources) -> Outstanding {
        outstanding(now, endpoint, sources, |region| match self {
            Self::Taken(_) => true,
            Self::Stable(marks) => marks.iter().any(|mark| mark.region == region),
        })
    }
}

impl Mark {
    /// A region that is gone has no receivers of this node's messages any more. If the node has
    /// begun a new life instead, [`Voids`] has what was not stable.
    fn is_stable(&mut self, endpoint: &Endpoint) -> bool {
        let mut regions = endpoint.regions();
        let region = regions.find(|region| region.id() == self.region);
        let Some((region, sender)) = region.and_then(|it| Some((it, it.own_stream()?))) else {
            return true;
        };
        if self.highest.is_none() && sender.counters().bytes >= self.sent_bytes {
            self.highest = Some(sender.highest());
        }
        let highest = self.highest;
        let stable = highest.is_some_and(|highest| sender.stable_upto() >= highest);
        // In a merged region members that receive none of it may have yet to acknowledge it.
        (sender.is_idle() || stable || highest.is_some() && !region.awaits_receivers())
            && region.knows_receivers()
    }
}
