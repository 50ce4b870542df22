use std::collections::BTreeMap;

use qsm_wire::ChannelId;

use super::Past;

/// What this node has sent, in this life, on channels that it does not know any more. Numbers on
/// a channel go on where they ended, and members that leave its region still ask where that was.
#[derive(Debug, Default)]
pub(crate) struct PastStreams {
    pasts: BTreeMap<ChannelId, Past>,
    /// The highest number on a channel that is not remembered.
    forgotten: u64,
}

/// Channels remembered. On others numbers begin beyond all that were ever given there.
const PASTS_MAX: usize = 4096;

impl PastStreams {
    /// A stream ends; the one on the oldest channel is forgotten if there are too many.
    pub(crate) fn keep(&mut self, channel: ChannelId, past: Past) {
        if past.highest == 0 {
            return;
        }
        self.pasts.insert(channel, past);
        if self.pasts.len() > PASTS_MAX
            && let Some((_, oldest)) = self.pasts.pop_first()
        {
            self.forgotten = self.forgotten.max(oldest.highest);
        }
    }

    /// What has been sent there; `None`: nothing, if [`PastStreams::complete`].
    pub(crate) fn get(&self, channel: ChannelId) -> Option<&Past> {
        self.pasts.get(&channel)
    }

    /// The channel is known again.
    pub(crate) fn take(&mut self, channel: ChannelId) -> Option<Past> {
        self.pasts.remove(&channel)
    }

    /// Whether nothing has been forgotten.
    pub(crate) fn complete(&self) -> bool {
        self.forgotten == 0
    }

    /// Numbers up to here may have been given on a channel that is not remembered.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// A new life has sent nothing.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qsm_wire::{Opening, ViewNumber};

    fn past(highest: u64) -> Past {
        let opening = Opening {
            view: ViewNumber(1),
            start: 1,
        };
        Past {
            sealed: 0,
            highest,
            openings: vec![opening],
        }
    }

    #[test]
    fn what_is_forgotten_leaves_its_highest_number() {
        let mut pasts = PastStreams::default();
        pasts.keep(ChannelId(9), past(0));
        assert_eq!(pasts.get(ChannelId(9)), None);
        for channel in 1..=4096 {
            pasts.keep(ChannelId(channel), past(u64::from(channel) + 5));
        }
        assert!(pasts.complete());
        pasts.keep(ChannelId(5000), past(1));
        assert!(!pasts.complete());
        assert_eq!((pasts.get(ChannelId(1)), pasts.forgotten()), (None, 6));
        assert_eq!(pasts.take(ChannelId(5000)), Some(past(1)));
        assert_eq!(pasts.get(ChannelId(5000)), None);
        pasts.clear();
        assert!(pasts.complete() && pasts.get(ChannelId(2)).is_none());
    }
}
