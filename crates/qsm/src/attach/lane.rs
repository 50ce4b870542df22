//! What comes to a subscription from one core thread, as its reader takes it: out of the log, where
//! the ring refers to it, or out of the ring itself.

use std::collections::VecDeque;
use std::sync::Arc;

use super::log::{View, message_words};
use super::record::{Read, Referred, referred};
use super::requests::EXTRA;
use super::ring::{Next, Reader};
use crate::error::{CloseReason, RecvError};
use crate::handoff::message::MessageRef;
use crate::handoff::received::{Dropped, Received};

/// A message or notice that was taken.
pub(super) enum Taken<'a> {
    Message(&'a Arc<str>, MessageRef<'a>),
    Notice(Received),
}

impl Taken<'_> {
    /// The same, to keep.
    pub(super) fn own(self) -> Received {
        match self {
            Self::Notice(notice) => notice,
            Self::Message(name, message) => Received::Message(message.own(name)),
        }
    }
}

/// The reading side of one ring.
pub(super) struct Lane {
    reader: Reader<EXTRA>,
    /// Messages in the log that come next.
    referred: Option<Referred>,
    /// Number of dropped records it has told of.
    told_dropped: u64,
    /// Rest that was not read when this process ended its attachment.
    kept: Option<VecDeque<Received>>,
}

impl Lane {
    pub(super) fn new(reader: Reader<EXTRA>) -> Self {
        Self {
            reader,
            referred: None,
            told_dropped: 0,
            kept: None,
        }
    }

    /// Something can be taken, or the end is there.
    pub(super) fn has_more(&self) -> bool {
        self.referred.is_some()
            || self.kept.as_ref().is_some_and(|kept| !kept.is_empty())
            || !self.reader.is_empty()
            || self.reader.is_over()
            || self.reader.dropped() > self.told_dropped
    }

    /// Takes what comes next, so many at most: messages that lie together, or one. How many it were;
    /// 0 if nothing is there.
    pub(super) fn take(
        &mut self,
        names: &[Arc<str>],
        log: &View,
        most: usize,
        use_it: &mut impl FnMut(Taken<'_>),
    ) -> Result<usize, RecvError> {
        if let Some(kept) = &mut self.kept {
            let next = kept.pop_front();
            let there = next.is_some();
            next.into_iter().for_each(|next| again(next, use_it));
            return Ok(usize::from(there));
        }
        loop {
            if let Some(next) = self.referred {
                return self.take_referred(next, names, log, most, use_it);
            }
            let record = match self.reader.take().map_err(|_| strange())? {
                None => break,
                Some(Next::Reference { tag, extra }) => {
                    let referred = referred(tag, extra);
                    self.referred = Some(referred.ok_or_else(strange)?);
                    continue;
                }
                Some(Next::Record(record)) => record,
            };
            let notice = match Read::of(record, names).ok_or_else(strange)? {
                Read::Message(name, message) => {
                    use_it(Taken::Message(name, message));
                    return Ok(1);
                }
                Read::Lost(lost) => Some(Received::Lost(lost)),
                Read::LostPackets(lost) => Some(Received::LostPackets(lost)),
                Read::Back(back) => Some(Received::Back(back)),
                Read::Excluded(excluded) => Some(Received::Excluded(excluded)),
                Read::Dropped(total) => told(&mut self.told_dropped, total),
            };
            if let Some(notice) = notice {
                use_it(Taken::Notice(notice));
                return Ok(1);
            }
        }
        // The record of these is not written before the next one. They lie behind all that was
        // there, if nothing has come since they were counted.
        let total = self.reader.dropped();
        let notice = match self.reader.is_empty() && !self.reader.is_over() {
            true => told(&mut self.told_dropped, total),
            false => None,
        };
        let there = notice.is_some();
        notice
            .into_iter()
            .for_each(|notice| use_it(Taken::Notice(notice)));
        Ok(usize::from(there))
    }

    /// Lends the first of these where they lie, one after the other: each is held until it is passed.
    fn take_referred(
        &mut self,
        next: Referred,
        names: &[Arc<str>],
        log: &View,
        most: usize,
        use_it: &mut impl FnMut(Taken<'_>),
    ) -> Result<usize, RecvError> {
        let Referred { place, mut run } = next;
        let name = names.get(place).ok_or_else(strange)?;
        let mut taken = 0;
        while taken < most && run.start < run.end {
            let message = log.first(run, name).ok_or_else(strange)?;
            let words = message_words(message.bytes.len());
            run.start += words;
            // Before it is used: an application may end this by a panic.
            self.referred = (run.start < run.end).then_some(Referred { place, run });
            use_it(Taken::Message(name, message));
            self.reader.pass(words);
            taken += 1;
        }
        Ok(taken)
    }

    /// Takes a copy of everything that is there, so that the engine's memory is needed no more.
    pub(super) fn keep(&mut self, names: &[Arc<str>], log: &View) {
        if self.kept.is_some() {
            return;
        }
        let mut kept = VecDeque::new();
        // What cannot be read ends here.
        let mut keep = |taken: Taken<'_>| kept.push_back(taken.own());
        while let Ok(1..) = self.take(names, log, usize::MAX, &mut keep) {}
        self.kept = Some(kept);
    }

    /// After something was taken: the engine waits for that, and is to be told.
    pub(super) fn owes_word(&mut self) -> bool {
        self.reader.owes_word()
    }

    /// The engine waits until more is taken.
    pub(super) fn is_awaited(&self) -> bool {
        self.kept.is_none() && self.reader.is_awaited()
    }

    /// The engine has ended it.
    pub(super) fn is_over(&self) -> bool {
        self.reader.is_over()
    }

    pub(super) fn queued_bytes(&self) -> usize {
        let bytes = |kept: &Received| match kept {
            Received::Message(message) => message_words(message.bytes.len()) * size_of::<u64>(),
            _ => 0,
        };
        let kept = self.kept.iter().flatten().map(bytes);
        kept.sum::<usize>() + self.reader.queued_bytes()
    }

    pub(super) fn dropped(&self) -> u64 {
        self.reader.dropped()
    }
}

/// Hands out what was kept.
fn again(kept: Received, use_it: &mut impl FnMut(Taken<'_>)) {
    match &kept {
        Received::Message(message) => use_it(Taken::Message(&message.group, message.lend())),
        _ => use_it(Taken::Notice(kept)),
    }
}

/// So many were dropped in all; what of it was not told yet.
fn told(before: &mut u64, total: u64) -> Option<Received> {
    let messages = total.saturating_sub(*before);
    *before = total.max(*before);
    (messages > 0).then_some(Received::Dropped(Dropped { messages }))
}

pub(super) fn strange() -> RecvError {
    RecvError::Closed(CloseReason::EngineGone {
        cause: "its side of a ring says what cannot be".to_owned(),
    })
}
