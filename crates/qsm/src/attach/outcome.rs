//! The outcome of a flush as it travels: who is gone, who is away, and what they lack. A packet has
//! room for the first of them; the others are counted.

use std::sync::Arc;
use std::time::Duration;

use qsm_proto::UnservedCause;
use qsm_wire::Origin;

use super::packet::{Rest, Writer};
use crate::error::{Flushed, Outstanding, RequestError, Unconfirmed, Unserved};
use crate::receivers::{Lacking, Receiver, Receivers};

/// Entries about receivers in a packet, each of which takes up to five kilobytes.
const ENTRIES_MAX: usize = 4;
/// Ranges of messages in an entry.
const RANGES_MAX: usize = 12;
/// Receivers in an entry; names have up to 64 bytes.
const RECEIVERS_MAX: usize = 16;

/// A [`RequestError`] as it travels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failed {
    Closed {
        cause: String,
    },
    Refused {
        reason: String,
    },
    Timeout {
        after: Duration,
        outstanding: Option<Box<Outstanding>>,
    },
    /// As many ranges as a packet holds; how many more messages.
    Unconfirmed {
        ranges: Vec<Unconfirmed>,
        more: u64,
    },
    TooFewReceivers {
        group: Arc<str>,
        wanted: u32,
        after: Duration,
        receivers: Box<Receivers>,
    },
}

/// Ranges in a packet: each has a name, at most 255 bytes long.
const UNCONFIRMED_MAX: usize = 128;

impl From<RequestError> for Failed {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Closed(reason) => Self::Closed {
                cause: reason.to_string(),
            },
            RequestError::Timeout {
                after,
                mut outstanding,
                ..
            } => {
                if let Some(left) = &mut outstanding {
                    fit_lacking(&mut left.lacking);
                }
                Self::Timeout { after, outstanding }
            }
            RequestError::TooFewReceivers {
                group,
                wanted,
                after,
                receivers,
            } => Self::TooFewReceivers {
                group,
                wanted,
                after,
                receivers,
            },
            RequestError::Refused { reason } => Self::Refused { reason },
            RequestError::OnCoreThread
            | RequestError::NotAttached { .. }
            | RequestError::BadPattern { .. }
            | RequestError::Pattern { .. } => Self::Refused {
                reason: error.to_string(),
            },
            RequestError::Unconfirmed { mut ranges, more } => {
                let rest = ranges.split_off(ranges.len().min(UNCONFIRMED_MAX));
                let rest: u64 = rest.iter().map(Unconfirmed::messages).sum();
                let more = more + rest;
                Self::Unconfirmed { ranges, more }
            }
        }
    }
}

fn cause_code(cause: UnservedCause) -> u32 {
    match cause {
        UnservedCause::Away => 1,
        UnservedCause::Overrun => 2,
        UnservedCause::Demoted => 3,
        UnservedCause::Ended => 4,
        _ => 0,
    }
}

fn cause_of(code: u32) -> Option<UnservedCause> {
    match code {
        0 => Some(UnservedCause::Gone),
        1 => Some(UnservedCause::Away),
        2 => Some(UnservedCause::Overrun),
        3 => Some(UnservedCause::Demoted),
        4 => Some(UnservedCause::Ended),
        _ => None,
    }
}

fn count(many: usize) -> u32 {
    u32::try_from(many).unwrap_or(u32::MAX)
}

/// Cuts the ranges; returns how many messages are in the others.
fn cut(messages: &mut Vec<Unconfirmed>) -> u64 {
    let more = messages.split_off(messages.len().min(RANGES_MAX));
    more.iter().map(Unconfirmed::messages).sum()
}

/// Makes the entries so few and short that they fit into a packet.
pub(super) fn fit_flushed(mut flushed: Flushed) -> Flushed {
    let rest = flushed
        .unserved
        .split_off(flushed.unserved.len().min(ENTRIES_MAX));
    flushed.more += rest.iter().map(Unserved::receivers).sum::<u64>();
    for unserved in &mut flushed.unserved {
        unserved.messages_more += cut(&mut unserved.messages);
        let hidden = unserved.receivers.len().saturating_sub(RECEIVERS_MAX);
        unserved.receivers.truncate(RECEIVERS_MAX);
        unserved.receivers_more += hidden as u64;
    }
    fit_lacking(&mut flushed.away);
    flushed
}

/// The same; the last entry counts those that are left out, and says no more than is so of all.
fn fit_lacking(all: &mut Vec<Lacking>) {
    let rest = all.split_off(all.len().min(ENTRIES_MAX));
    for lacking in &mut *all {
        lacking.messages_more += cut(&mut lacking.messages);
        let hidden = lacking.receivers.len().saturating_sub(RECEIVERS_MAX);
        lacking.receivers.truncate(RECEIVERS_MAX);
        lacking.receivers_more += hidden as u64;
    }
    if let Some(first) = rest.first() {
        all.push(Lacking {
            receivers: Vec::new(),
            receivers_more: rest.iter().map(Lacking::receivers).sum(),
            away: first.away,
            messages: Vec::new(),
            messages_more: rest.iter().map(Lacking::messages).max().unwrap_or(0),
            kept: rest.iter().all(|lacking| lacking.kept),
        });
    }
}

fn fit_receivers(receivers: &Receivers) -> Receivers {
    let mut fit = receivers.clone();
    fit.live_more += fit.live.len().saturating_sub(RECEIVERS_MAX) as u64;
    fit.away_more += fit.away.len().saturating_sub(RECEIVERS_MAX) as u64;
    fit.live.truncate(RECEIVERS_MAX);
    fit.away.truncate(RECEIVERS_MAX);
    fit
}

impl Writer {
    pub(super) fn failed(self, error: &Failed) -> Self {
        match error {
            Failed::Closed { cause } => self.u32(0).cut(cause),
            Failed::Refused { reason } => self.u32(1).cut(reason),
            Failed::Timeout { after, outstanding } => {
                let packet = self.u32(2).duration(*after);
                match outstanding {
                    None => packet.u32(0),
                    Some(left) => packet.u32(1).outstanding(left),
                }
            }
            Failed::Unconfirmed { ranges, more } => {
                // No more than fit into a packet.
                let packet = self.u32(3).u64(*more).u32(count(ranges.len()));
                ranges.iter().fold(packet, Self::unconfirmed)
            }
            Failed::TooFewReceivers {
                group,
                wanted,
                after,
                receivers,
            } => {
                let packet = self.u32(4).cut(group).u32(*wanted).duration(*after);
                let fit = fit_receivers(receivers);
                let packet = packet.u64(fit.live_more).receivers(&fit.live);
                packet.u64(fit.away_more).receivers(&fit.away)
            }
        }
    }

    pub(super) fn flushed(self, flushed: &Flushed) -> Self {
        let packet = self.u64(flushed.more).u32(u32::from(flushed.of_engine));
        let packet = packet.u32(count(flushed.unserved.len()));
        let packet = flushed.unserved.iter().fold(packet, Self::unserved);
        packet.all_lacking(&flushed.away)
    }

    fn outstanding(self, left: &Outstanding) -> Self {
        // The core names a few.
        let numbers = [
            left.queued,
            left.unconfirmed,
            left.regions,
            left.groups_more,
        ];
        let packet = numbers.into_iter().fold(self, Self::u64);
        let packet = packet.u32(count(left.groups.len()));
        let groups = left.groups.iter();
        let packet = groups.fold(packet, |packet, group| packet.cut(group));
        packet.all_lacking(&left.lacking)
    }

    fn all_lacking(self, all: &[Lacking]) -> Self {
        all.iter()
            .fold(self.u32(count(all.len())), |packet, lacking| {
                let packet = packet
                    .u64(lacking.receivers_more)
                    .u64(lacking.messages_more)
                    .u32(u32::from(lacking.kept));
                let packet = match lacking.away {
                    None => packet.u32(0),
                    Some(away) => packet.u32(1).duration(away),
                };
                let packet = packet.receivers(&lacking.receivers);
                let packet = packet.u32(count(lacking.messages.len()));
                lacking.messages.iter().fold(packet, Self::unconfirmed)
            })
    }

    fn receivers(self, receivers: &[Receiver]) -> Self {
        receivers
            .iter()
            .fold(self.u32(count(receivers.len())), |packet, receiver| {
                let Origin { node, incarnation } = receiver.origin;
                // No name is empty.
                let name = receiver.name.as_deref().unwrap_or_default();
                packet.u64(node.0).u32(incarnation.0).cut(name)
            })
    }

    pub(super) fn unserved(self, unserved: &Unserved) -> Self {
        let packet = self
            .u64(unserved.receivers_more)
            .u64(unserved.messages_more)
            .u32(cause_code(unserved.cause))
            .u32(count(unserved.receivers.len()))
            .u32(count(unserved.messages.len()));
        // The core names so few that they fit.
        let packet = unserved.receivers.iter().fold(packet, |packet, receiver| {
            packet.u64(receiver.node.0).u32(receiver.incarnation.0)
        });
        unserved.messages.iter().fold(packet, Self::unconfirmed)
    }
}

impl Rest<'_> {
    pub(super) fn failed(&mut self) -> Option<Failed> {
        Some(match self.u32()? {
            0 => Failed::Closed {
                cause: self.text()?.to_owned(),
            },
            1 => Failed::Refused {
                reason: self.text()?.to_owned(),
            },
            2 => Failed::Timeout {
                after: self.duration()?,
                outstanding: match self.u32()? {
                    0 => None,
                    _ => Some(Box::new(self.outstanding()?)),
                },
            },
            3 => {
                let more = self.u64()?;
                let ranges = self.many(Self::unconfirmed)?;
                Failed::Unconfirmed { ranges, more }
            }
            4 => Failed::TooFewReceivers {
                group: Arc::from(self.text()?),
                wanted: self.u32()?,
                after: self.duration()?,
                receivers: Box::new(Receivers {
                    live_more: self.u64()?,
                    live: self.many(Self::receiver)?,
                    away_more: self.u64()?,
                    away: self.many(Self::receiver)?,
                }),
            },
            _ => return None,
        })
    }

    pub(super) fn flushed(&mut self) -> Option<Flushed> {
        Some(Flushed {
            more: self.u64()?,
            of_engine: self.u32()? != 0,
            unserved: self.many(Self::unserved)?,
            away: self.many(Self::lacking)?,
        })
    }

    fn outstanding(&mut self) -> Option<Outstanding> {
        let (queued, unconfirmed) = (self.u64()?, self.u64()?);
        let (regions, groups_more) = (self.u64()?, self.u64()?);
        Some(Outstanding {
            queued,
            unconfirmed,
            regions,
            groups: self.many(|rest| rest.text().map(Arc::from))?,
            groups_more,
            lacking: self.many(Self::lacking)?,
        })
    }

    fn lacking(&mut self) -> Option<Lacking> {
        let (receivers_more, messages_more) = (self.u64()?, self.u64()?);
        let kept = self.u32()? != 0;
        let away = match self.u32()? {
            0 => None,
            _ => Some(self.duration()?),
        };
        Some(Lacking {
            receivers: self.many(Self::receiver)?,
            receivers_more,
            away,
            messages: self.many(Self::unconfirmed)?,
            messages_more,
            kept,
        })
    }

    fn receiver(&mut self) -> Option<Receiver> {
        let origin = self.origin()?;
        let name = self.text()?;
        Some(Receiver {
            origin,
            name: (!name.is_empty()).then(|| Arc::from(name)),
        })
    }

    pub(super) fn unserved(&mut self) -> Option<Unserved> {
        let (receivers_more, messages_more) = (self.u64()?, self.u64()?);
        let cause = cause_of(self.u32()?)?;
        let (receivers, messages) = (self.u32()?, self.u32()?);
        let receivers = (0..receivers).map(|_| self.origin());
        let receivers = receivers.collect::<Option<_>>()?;
        let messages = (0..messages).map(|_| self.unconfirmed());
        Some(Unserved {
            receivers,
            receivers_more,
            messages: messages.collect::<Option<_>>()?,
            messages_more,
            cause,
        })
    }

    /// As many as are said to follow.
    fn many<T>(&mut self, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        (0..self.u32()?).map(|_| one(self)).collect()
    }
}
