//! What this node knows of each stream from tokens: the cutoff and the two watermarks (X06). They
//! grow, whoever says them; only what is stable falls back when a member returns that nobody has
//! waited for, to what all had before it went (R-VIEW-13). The region leader also remembers here which streams are open and
//! whose turn it is when not all fit into a token (G06).

use qsm_wire::{Ack, Origin, SummarySlot};

use super::gathered::TokenEntry;
use super::leases::Lease;

/// One stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Track {
    pub(super) sender: Origin,
    /// Highest packet that is known to be in the region; what counts as missing in the next round.
    pub(super) cutoff: u64,
    pub(super) stable_upto: u64,
    pub(super) cached_upto: u64,
    /// Highest stable packet when the first member went away; `None` while nobody is.
    with_all: Option<u64>,
    /// Whether a round is still needed for it (R064).
    open: bool,
    /// The round that last had a slot for it.
    served: u64,
    last: RoundProgress,
    /// The credit that it uses.
    pub(super) lease: Lease,
    /// The last word to the sender, in case it got lost.
    pub(super) ack: Option<Ack>,
}

/// What a round found; as long as it changes, the next round is worth its cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct RoundProgress {
    highest: u64,
    cached: u64,
    stable: u64,
    losers: u16,
}

/// What a round changed for one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamProgress {
    /// Cutoff or watermarks grew: everyone should know.
    pub(super) news: bool,
    /// The round found something else than the one before, or closed the stream.
    pub(super) changed: bool,
}

impl Track {
    fn new(sender: Origin, with_all: Option<u64>) -> Self {
        Self {
            sender,
            cutoff: 0,
            stable_upto: 0,
            cached_upto: 0,
            with_all,
            open: false,
            served: 0,
            last: RoundProgress::default(),
            lease: Lease::default(),
            ack: None,
        }
    }

    fn raise(&mut self, cutoff: u64, stable_upto: u64, cached_upto: u64) -> bool {
        let before = (self.cutoff, self.stable_upto, self.cached_upto);
        self.cutoff = self.cutoff.max(cutoff);
        self.stable_upto = self.stable_upto.max(stable_upto);
        self.cached_upto = self.cached_upto.max(cached_upto).max(self.stable_upto);
        before != (self.cutoff, self.stable_upto, self.cached_upto)
    }

    /// Takes the next view. Who has returned may lack what became stable without it.
    fn follow(&mut self, away: bool, returned: bool) {
        if returned && let Some(before) = self.with_all.filter(|at| *at < self.stable_upto) {
            self.stable_upto = before;
            self.open = true;
        }
        self.with_all = away.then(|| self.with_all.unwrap_or(self.stable_upto));
    }

    /// Takes over the result of a round. `complete`: everybody has seen its token.
    pub(super) fn conclude(&mut self, entry: &TokenEntry, complete: bool) -> StreamProgress {
        let head = &entry.head;
        let top = self.cutoff.max(head.highest);
        // Somebody who has all it must have says u64::MAX; nothing beyond `top` exists here.
        let (stable, cached) = (head.stable.min(top), head.cached.min(top));
        let news = self.raise(top, stable, cached);
        let gained = RoundProgress {
            highest: head.highest,
            cached,
            stable,
            losers: head.losers,
        };
        // The round that carried the final watermark to everybody is the last one (R064, R092). A
        // member that was away may lack what was stable before.
        let told = complete && head.cutoff >= top && head.stable_upto >= top && stable >= top;
        // What nobody has heard of, nobody can give to anybody.
        let heard = !complete || head.highest > 0;
        let open = top > 0 && !told && heard;
        let changed = gained != self.last || open != self.open;
        self.last = gained;
        self.open = open;
        StreamProgress { news, changed }
    }

    /// Its line in a summary.
    pub(super) fn summary(&self) -> SummarySlot {
        SummarySlot {
            origin: self.sender,
            cutoff: self.cutoff,
            stable_upto: self.stable_upto,
            cached_upto: self.cached_upto,
        }
    }
}

/// All streams of the region, ascending by sender, bounded.
#[derive(Debug)]
pub(super) struct Tracks {
    rows: Vec<Track>,
    max: usize,
    /// Members are away.
    away: bool,
}

impl Tracks {
    pub(super) fn new(max: usize) -> Self {
        Self {
            rows: Vec::new(),
            max,
            away: false,
        }
    }

    pub(super) fn get(&self, sender: Origin) -> Option<&Track> {
        let at = self.find(sender).ok()?;
        self.rows.get(at)
    }

    /// The row of a stream, made if needed; `None` if there are too many open streams.
    pub(super) fn entry(&mut self, sender: Origin) -> Option<&mut Track> {
        let mut place = self.find(sender);
        if place.is_err() && self.rows.len() >= self.max {
            let closed = self.rows.iter().enumerate().filter(|(_, row)| !row.open);
            let (oldest, _) = closed.min_by_key(|(_, row)| row.served)?;
            self.rows.remove(oldest);
            place = self.find(sender);
        }
        let at = match place {
            Ok(at) => at,
            Err(at) => {
                let with_all = self.away.then_some(0);
                self.rows.insert(at, Track::new(sender, with_all));
                at
            }
        };
        self.rows.get_mut(at)
    }

    /// Takes the next view: whether members are away in it, and whether some that were are not.
    /// Rule R-VIEW-13.
    pub(super) fn follow(&mut self, away: bool, returned: bool) {
        self.away = away;
        self.rows
            .iter_mut()
            .for_each(|row| row.follow(away, returned));
    }

    /// The next round is to speak of this stream.
    pub(super) fn reopen(&mut self, sender: Origin) {
        if let Some(row) = self.entry(sender) {
            row.open = true;
        }
    }

    /// Takes over what a leader says; whether it was news.
    pub(super) fn learn(&mut self, said: &SummarySlot) -> bool {
        if said.stable_upto > said.cached_upto {
            return false;
        }
        let Some(row) = self.entry(said.origin) else {
            return false;
        };
        let news = row.raise(said.cutoff, said.stable_upto, said.cached_upto);
        // In case this node becomes the leader.
        row.open = row.stable_upto < row.cutoff;
        news
    }

    /// Whether some stream still needs rounds.
    pub(super) fn open(&self) -> bool {
        self.each_open().next().is_some()
    }

    /// Tells whether this stream still needs rounds.
    pub(super) fn is_open(&self, sender: Origin) -> bool {
        self.get(sender).is_some_and(|row| row.open)
    }

    /// Streams that still need rounds.
    pub(super) fn each_open(&self) -> impl Iterator<Item = &Track> {
        self.rows.iter().filter(|row| row.open)
    }

    /// The slots of the next round: those longest not served first, among them the most backward
    /// (G06), and how many streams are active in all. `active`: what has unstable packets here.
    pub(super) fn choose(
        &mut self,
        active: &[Origin],
        capacity: usize,
        round: u64,
    ) -> (Vec<TokenEntry>, usize) {
        for sender in active {
            if let Some(row) = self.entry(*sender) {
                row.open = true;
            }
        }
        let open = self.rows.iter().enumerate().filter(|(_, row)| row.open);
        let mut order: Vec<(u64, u64, usize)> = open
            .map(|(at, row)| {
                (
                    row.served,
                    u64::MAX - row.cutoff.saturating_sub(row.stable_upto),
                    at,
                )
            })
            .collect();
        let senders = order.len();
        order.sort_unstable();
        let mut slots = Vec::with_capacity(senders.min(capacity));
        for (_, _, at) in order.into_iter().take(capacity) {
            let row = &mut self.rows[at];
            row.served = round;
            slots.push(TokenEntry::new(
                row.sender,
                row.cutoff,
                row.stable_upto,
                row.cached_upto,
            ));
        }
        (slots, senders)
    }

    fn find(&self, sender: Origin) -> Result<usize, usize> {
        self.rows.binary_search_by_key(&sender, |row| row.sender)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Rule R-VIEW-13.
    #[test]
    fn what_became_stable_without_a_member_is_found_anew_when_it_is_back() {
        let mut tracks = Tracks::new(8);
        let said = |cutoff, stable_upto| SummarySlot {
            origin: Origin::default(),
            cutoff,
            stable_upto,
            cached_upto: cutoff,
        };
        let stable = |tracks: &Tracks| tracks.get(Origin::default()).unwrap().stable_upto;
        tracks.learn(&said(5, 5));
        tracks.follow(true, false);
        tracks.learn(&said(9, 9));
        assert!(stable(&tracks) == 9 && !tracks.open());
        // Another one goes as the first comes back.
        tracks.follow(true, true);
        assert!(stable(&tracks) == 5 && tracks.open());
        tracks.learn(&said(9, 9));
        tracks.follow(false, true);
        assert_eq!(stable(&tracks), 5);
        tracks.learn(&said(9, 9));
        tracks.follow(false, false);
        assert_eq!(stable(&tracks), 9);
    }

    #[test]
    fn a_stream_that_nobody_has_heard_of_needs_no_rounds() {
        let sender = Origin::default();
        let mut track = Track::new(sender, None);
        let mut entry = TokenEntry::new(sender, 7, 3, 3);
        track.raise(7, 3, 3);
        entry.contribute(None);
        // One member has said nothing: it may know of it.
        track.conclude(&entry, false);
        assert!(track.open);
        track.conclude(&entry, true);
        assert!(!track.open);
        assert_eq!((track.stable_upto, track.cached_upto), (3, 3));
    }
}
