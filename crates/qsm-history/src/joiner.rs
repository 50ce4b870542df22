//! A subscriber of one group that fetches what was sent before it came, as a state machine without I/O.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use qsm::{GroupId, Lost, LostCause, Message, Origin, Received};

use crate::bounds::JoinLimits;
use crate::keeper::SPANS_MAX;
use crate::missing::{Item, Joined, Missing, MissingCause};
use crate::position::{Position, Start};
use crate::track::{Held, Track};
use crate::views::Views;
use crate::word::{Address, Ask, Chunk, Fetch, Have, Part, Span, Word, read, write};

/// Time in which keepers get what was sent before this subscriber came, and it hears what is sent since.
const SETTLE: Duration = Duration::from_millis(200);
/// Keepers are asked again so often while something is missing that none of them has.
const AGAIN: Duration = Duration::from_millis(250);
/// Time in which keepers answer; a message is given up before only if all that are counted have.
const ROUND: Duration = Duration::from_secs(1);
/// The same where the node knows of no keeper: that may be news to it.
const NOBODY: Duration = Duration::from_millis(500);
/// Answers to older questions do not count: a keeper that has died since is not among those that the node counts, and
/// must not stand for one that is.
const FRESH: Duration = Duration::from_millis(750);
/// A keeper that was silent for so long while it was to send is passed over.
const SILENT: Duration = Duration::from_secs(2);
/// Time in which keepers get what live messages show that was sent.
const LAG: Duration = Duration::from_secs(2);
/// Keepers are asked now and then for so long after the join, for senders that went silent before it.
const WATCH: Duration = Duration::from_secs(30);
/// Interval of these questions.
const WATCH_EVERY: Duration = Duration::from_secs(2);
/// Senders of a group that are remembered; of more, those that need nothing are forgotten, and from then on unknown
/// ones begin with what comes live.
const SENDERS_MAX: usize = 1 << 16;

qsm::metrics::metrics! {
    /// State of a subscriber with a history, and its account since it began.
    #[derive(Copy)]
    pub struct JoinStats of "history" {
        /// Messages that came from keepers.
        kept: counter(messages),
        /// Messages asked for that came neither way.
        missing: counter(messages),
        /// Memory of messages that wait for earlier ones, with 160 bytes for each.
        held_bytes: gauge(bytes),
        /// Senders known now.
        senders: gauge(senders),
        /// Keepers that answer.
        keepers: gauge(keepers),
        /// Questions to keepers for what they have.
        asks: counter(questions),
        /// Questions to a keeper for messages.
        fetches: counter(questions),
        /// Answers of keepers that had too much to do.
        busy: counter(answers),
        /// Keepers that fell silent while they were to send.
        silent: counter(keepers),
        /// Words that are none of this version, or nonsense.
        malformed: counter(words),
    }
}

/// Subscriber of a group without I/O. `now` is the time since any origin that does not change.
#[derive(Debug)]
pub struct JoinerCore {
    group: Arc<str>,
    address: Address,
    start: Start,
    limits: JoinLimits,
    tracks: BTreeMap<Origin, Track>,
    held_bytes: usize,
    /// Senders were forgotten.
    crowded: bool,
    views: Views,
    round: u32,
    /// Rounds that are fresh, and the last one, with the time of each.
    rounds: VecDeque<(u32, Duration)>,
    fetch: u32,
    fetching: Option<Fetching>,
    /// A keeper was busy: none is asked for messages before.
    pause: Duration,
    born: Option<Duration>,
    /// Of the first round that counts for the join.
    settled: Option<u32>,
    /// Losses of unknown numbers were told: keepers are to be asked what was sent.
    shaken: bool,
    joined: bool,
    stats: JoinStats,
    words: VecDeque<Vec<u8>>,
    items: VecDeque<Item>,
}

/// Question for messages that is being answered.
#[derive(Debug)]
struct Fetching {
    keeper: Address,
    heard: Duration,
}

impl JoinerCore {
    /// Subscriber of this group. `seed` is to be drawn by chance: it is its address.
    #[must_use]
    pub fn new(group: &str, start: Start, limits: JoinLimits, seed: u64) -> Self {
        let joined = start == Start::Now;
        Self {
            group: group.into(),
            address: Address(seed),
            start,
            limits,
            tracks: BTreeMap::new(),
            held_bytes: 0,
            crowded: false,
            views: Views::default(),
            round: 0,
            rounds: VecDeque::new(),
            fetch: 0,
            fetching: None,
            pause: Duration::ZERO,
            born: None,
            settled: None,
            shaken: false,
            joined,
            stats: JoinStats::default(),
            words: VecDeque::new(),
            items: VecDeque::new(),
        }
    }

    /// Address at which keepers answer.
    #[must_use]
    pub fn address(&self) -> Address {
        self.address
    }

    /// Tells whether all that was asked for has come or is missing.
    #[must_use]
    pub fn is_joined(&self) -> bool {
        self.joined
    }

    /// Tells whether something is held or asked for, so that [`JoinerCore::tick`] is to be called every few milliseconds;
    /// else ten times a second is enough.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.joined || self.shaken || self.fetching.is_some() || self.has_gaps()
    }

    /// Tells whether time alone changes nothing any more: not before something comes, or is said to be lost.
    #[must_use]
    pub fn is_settled(&self, now: Duration) -> bool {
        let watched = |born| now.saturating_sub(born) >= WATCH + WATCH_EVERY;
        self.start == Start::Now || (!self.is_waiting() && self.born.is_some_and(watched))
    }

    /// Counts what was asked for, and what came.
    #[must_use]
    pub fn stats(&self) -> JoinStats {
        JoinStats {
            held_bytes: self.held_bytes as u64,
            senders: self.tracks.len() as u64,
            keepers: self.views.len() as u64,
            ..self.stats
        }
    }

    /// Number of items for the program.
    #[must_use]
    pub fn items(&self) -> usize {
        self.items.len()
    }

    /// Takes the next item for the program.
    pub fn take_item(&mut self) -> Option<Item> {
        self.items.pop_front()
    }

    /// Takes a word that is to be said to all keepers.
    pub fn take_word(&mut self) -> Option<Vec<u8>> {
        self.words.pop_front()
    }

    /// Notes in a position up to where items were taken, of each sender.
    pub fn note(&self, position: &mut Position) {
        for (sender, track) in &self.tracks {
            position.set(&self.group, *sender, track.given());
        }
        for item in self.items.iter().rev() {
            position.go_back(item);
        }
    }

    /// Takes a live message.
    pub fn live(&mut self, message: Message) {
        if self.start == Start::Now {
            return self.items.push_back(Item::Message(message));
        }
        let (sender, number) = (message.sender(), message.number());
        let track = self.track(sender, number);
        track.linked = true;
        if track.is_next(number) {
            track.pass();
            return self.items.push_back(Item::Message(message));
        }
        self.hold(sender, number, Held::Live(message));
    }

    /// Takes what the live subscription says of a loss: what may be kept is asked for, what has expired is not.
    pub fn lost(&mut self, lost: Lost) {
        if self.start == Start::Now {
            return self.items.push_back(Item::Told(Received::Lost(lost)));
        }
        let (sender, first, last) = (lost.sender, lost.first, lost.last);
        let track = self.track(sender, first);
        track.linked = true;
        match lost.cause {
            LostCause::Expired | LostCause::Overdue => self.hold(sender, first, Held::Lost(lost)),
            _ => track.reach(last),
        }
    }

    /// Takes anything else that the live subscription says, and gives it.
    pub fn told(&mut self, told: Received) {
        self.items.push_back(Item::Told(told));
    }

    /// Takes note that the live stream of a sender, or of all, is broken where no number tells what is missing: keepers
    /// are asked for it, and the stream begins anew with its next message. What this node dropped itself the next number
    /// tells.
    pub fn broken(&mut self, sender: Option<Origin>) {
        let tracks = self.tracks.iter_mut();
        for (_, track) in tracks.filter(|(other, _)| sender.is_none_or(|sender| sender == **other))
        {
            track.linked = false;
        }
        self.shaken |= self.start != Start::Now;
    }

    /// Takes a word of a keeper.
    pub fn word(&mut self, bytes: &[u8], now: Duration) {
        match read(bytes) {
            Some(Word::Have(have)) => self.have(&have),
            Some(Word::Chunk(chunk)) => self.chunk(chunk, now),
            // For keepers.
            Some(_) => {}
            None => self.stats.malformed += 1,
        }
    }

    /// Lets time pass. `keepers` is the number of keepers that the node knows of.
    pub fn tick(&mut self, keepers: Option<u32>, now: Duration) {
        if self.start == Start::Now {
            return;
        }
        let born = *self.born.get_or_insert(now);
        self.begin_senders(keepers, now);
        if let Some(fetching) = &self.fetching
            && now.saturating_sub(fetching.heard) >= SILENT
        {
            self.views.remove(fetching.keeper);
            self.stats.silent += 1;
            self.fetching = None;
        }
        // What has come is taken before more is asked for, so memory is bounded.
        if self.fetching.is_none() && self.items.is_empty() && now >= self.pause {
            self.ask_for_messages(now);
        }
        let unserved = self.give_up(keepers, now);
        self.ask_what_is_kept(unserved, born, now);
        self.join(keepers, now);
    }

    fn has_gaps(&self) -> bool {
        self.tracks.values().any(|track| track.missing().is_some())
    }

    /// The track of a sender; of one that was not known, a new one, whose messages are live from this number on.
    fn track(&mut self, sender: Origin, live: u64) -> &mut Track {
        if !self.tracks.contains_key(&sender) && self.tracks.len() >= SENDERS_MAX {
            self.crowded = true;
            self.tracks.retain(|_, track| track.missing().is_some());
        }
        let begin = match &self.start {
            Start::Last(messages) if !self.crowded => live.saturating_sub(*messages).max(1),
            Start::Resume(position) if !self.crowded => {
                let read = position.get(&self.group, sender).unwrap_or(0);
                read.saturating_add(1)
            }
            _ => live,
        };
        self.tracks
            .entry(sender)
            .or_insert_with(|| Track::new(begin))
    }

    fn hold(&mut self, sender: Origin, number: u64, held: Held) {
        let Some(track) = self.tracks.get_mut(&sender) else {
            return;
        };
        let before = track.held_bytes;
        track.hold(number, held);
        self.held_bytes += track.held_bytes - before;
        self.release(sender);
        while self.held_bytes > self.limits.held_bytes {
            let most = self.tracks.iter().max_by_key(|(_, track)| track.held_bytes);
            let Some((sender, (first, last))) =
                most.and_then(|(sender, track)| Some((*sender, track.missing()?)))
            else {
                return;
            };
            self.skip(sender, first, last, MissingCause::Held);
        }
    }

    /// Gives what is held of a sender and comes next (R-HIST-4).
    fn release(&mut self, sender: Origin) {
        let Some(track) = self.tracks.get_mut(&sender) else {
            return;
        };
        let before = track.held_bytes;
        while let Some(held) = track.release() {
            self.items.push_back(match held {
                Held::Live(message) => Item::Message(message),
                Held::Lost(lost) => Item::Told(Received::Lost(lost)),
                Held::Kept(message) => {
                    self.stats.kept += 1;
                    Item::Kept(message)
                }
            });
        }
        self.held_bytes -= before - track.held_bytes;
    }

    /// Says that messages are missing, and goes on behind them (R-HIST-5).
    fn skip(&mut self, sender: Origin, first: u64, last: u64, cause: MissingCause) {
        let Some(track) = self.tracks.get_mut(&sender) else {
            return;
        };
        track.skip(last);
        let missing = Missing {
            group: Arc::clone(&self.group),
            sender,
            first,
            last,
            cause,
        };
        self.stats.missing = self.stats.missing.saturating_add(missing.messages());
        self.items.push_back(Item::Missing(missing));
        self.release(sender);
    }

    fn have(&mut self, have: &Have) {
        if have.round > self.round || self.start == Start::Now {
            return;
        }
        self.views.hear(have);
        if let Start::Resume(_) = &self.start {
            self.begin_known();
        }
        for (sender, last) in self.views.senders() {
            // The end of a live stream is told by the stream.
            if let Some(track) = self.tracks.get_mut(&sender).filter(|track| !track.linked) {
                track.reach(last);
            }
        }
    }

    /// Under [`Start::Last`] a sender that was not heard live begins by what all keepers know, once they have answered.
    fn begin_senders(&mut self, keepers: Option<u32>, now: Duration) {
        let asked = matches!(self.start, Start::Last(_));
        if asked && self.is_complete(1, keepers, Duration::ZERO, ROUND, now) {
            self.begin_known();
        }
    }

    /// Begins with senders that keepers know and that were not heard live.
    fn begin_known(&mut self) {
        if self.crowded {
            return;
        }
        let mut ends: BTreeMap<Origin, u64> = BTreeMap::new();
        for (sender, last) in self.views.senders() {
            if !self.tracks.contains_key(&sender) {
                let end = ends.entry(sender).or_default();
                *end = last.max(*end);
            }
        }
        for (sender, last) in ends {
            self.track(sender, last.saturating_add(1)).reach(last);
        }
    }

    fn chunk(&mut self, chunk: Chunk, now: Duration) {
        let Some(fetching) = &mut self.fetching else {
            return;
        };
        if chunk.from != fetching.keeper || chunk.fetch != self.fetch {
            return;
        }
        fetching.heard = now;
        if chunk.end {
            self.fetching = None;
        }
        let (busy, kept) = (chunk.parts.is_empty(), self.stats.kept);
        if busy {
            self.stats.busy += 1;
            self.pause = now + AGAIN;
        }
        for part in chunk.parts {
            self.part(chunk.from, part);
        }
        // A keeper that gives to others has not forgotten these.
        if busy || self.stats.kept > kept {
            for (sender, track) in &mut self.tracks {
                if let Some((first, _)) = track.missing()
                    && self.views.any_has(*sender, first)
                {
                    track.extend(now);
                }
            }
        }
    }

    fn part(&mut self, keeper: Address, part: Part) {
        let sender = part.sender.into();
        let first = part.messages.first().map(|message| message.number);
        let there = first.unwrap_or_else(|| part.through.saturating_add(1));
        if there > part.first {
            self.views.lacks(keeper, sender, part.first, there);
        }
        if part.through < part.first {
            self.views.end(keeper, sender, part.through);
        }
        for message in part.messages {
            let number = message.number;
            let (id, bytes) = (GroupId(message.group), message.bytes);
            let message = Message::new(Arc::clone(&self.group), id, sender, number, bytes);
            self.hold(sender, number, Held::Kept(message));
        }
    }

    /// Asks the keeper that has most of what is missing (R-HIST-3).
    fn ask_for_messages(&mut self, now: Duration) {
        let mut best: Option<(Address, Vec<Span>)> = None;
        for keeper in self.views.addresses() {
            let spans = self.tracks.iter().filter_map(|(sender, track)| {
                let (first, last) = track.missing()?;
                let reached = self.views.has(keeper, *sender, first)?;
                Some(Span {
                    sender: (*sender).into(),
                    first,
                    last: last.min(reached),
                })
            });
            let spans: Vec<Span> = spans.take(SPANS_MAX).collect();
            // Of those that have as much, joiners take different ones.
            let rank = |spans: &[Span], keeper: Address| (spans.len(), keeper.0 ^ self.address.0);
            let better = best
                .as_ref()
                .is_none_or(|(other, others)| rank(&spans, keeper) > rank(others, *other));
            if !spans.is_empty() && better {
                best = Some((keeper, spans));
            }
        }
        let Some((keeper, spans)) = best else {
            return;
        };
        self.fetch += 1;
        self.stats.fetches += 1;
        self.fetching = Some(Fetching { keeper, heard: now });
        let fetch = Fetch {
            from: self.address,
            to: keeper,
            fetch: self.fetch,
            spans,
        };
        self.words.push_back(write(&Word::Fetch(fetch)));
    }

    /// Gives up what no keeper has, and tells whether something is missing that none of them has so far (R-HIST-5).
    fn give_up(&mut self, keepers: Option<u32>, now: Duration) -> bool {
        let mut lost = Vec::new();
        let mut unserved = false;
        let (next_round, patience) = (self.round + 1, self.limits.patience);
        let senders: Vec<Origin> = self.tracks.keys().copied().collect();
        for sender in senders {
            let Some(track) = self.tracks.get_mut(&sender) else {
                continue;
            };
            let Some((first, last)) = track.missing() else {
                continue;
            };
            let gap = track.gap(now, next_round);
            let waited = now.saturating_sub(gap.since);
            if self.views.any_has(sender, first) {
                if waited >= patience {
                    lost.push((sender, first, last, MissingCause::Gone));
                }
                continue;
            }
            unserved = true;
            if !self.is_complete(gap.round, keepers, gap.since, patience, now) {
                continue;
            }
            if self.views.len() == 0 {
                if keepers == Some(0) || waited >= patience {
                    lost.push((sender, first, last, MissingCause::NoKeeper));
                }
                continue;
            }
            // Who does not know of it may still get it.
            let (known_to_all, known) = self.views.ends(sender);
            if known_to_all < first && waited < LAG {
                continue;
            }
            let end = match self.views.behind(sender, first) {
                Some(behind) => behind - 1,
                None if known >= first => known,
                None => last,
            };
            lost.push((sender, first, last.min(end), MissingCause::Gone));
        }
        for (sender, first, last, cause) in lost {
            self.skip(sender, first, last, cause);
        }
        unserved
    }

    /// Tells whether all keepers have answered this round, or have had this time for it since then.
    fn is_complete(
        &self,
        round: u32,
        keepers: Option<u32>,
        since: Duration,
        time: Duration,
        now: Duration,
    ) -> bool {
        let began = since.max(self.born.unwrap_or(now));
        let waited = now.saturating_sub(began);
        let answered = self.views.answered(round.max(self.fresh_round(now)));
        match keepers {
            Some(0) => waited >= AGAIN + NOBODY,
            Some(keepers) if answered >= keepers as usize => true,
            _ => waited >= AGAIN + time,
        }
    }

    /// The first round whose answers count still.
    fn fresh_round(&self, now: Duration) -> u32 {
        let fresh = |(_, asked): &&(u32, Duration)| now.saturating_sub(*asked) < FRESH;
        let first = self.rounds.iter().find(fresh);
        first.map_or(self.round + 1, |(round, _)| *round)
    }

    fn ask_what_is_kept(&mut self, unserved: bool, born: Duration, now: Duration) {
        let asked = self.rounds.back();
        let since = asked.map(|(_, asked)| now.saturating_sub(*asked));
        let settling = self.settled.is_none() && now.saturating_sub(born) >= SETTLE;
        let pressing = unserved || self.shaken || !self.joined;
        let watching = now.saturating_sub(born) < WATCH;
        let due = match since {
            None => true,
            Some(_) if settling => true,
            Some(since) if pressing => since >= AGAIN,
            Some(since) => watching && since >= WATCH_EVERY,
        };
        if !due {
            return;
        }
        self.round += 1;
        self.stats.asks += 1;
        let old = |(_, asked): &(u32, Duration)| now.saturating_sub(*asked) >= FRESH;
        while self.rounds.front().is_some_and(old) {
            self.rounds.pop_front();
        }
        self.rounds.push_back((self.round, now));
        self.shaken = false;
        if settling {
            self.settled = Some(self.round);
        }
        let ask = Ask {
            from: self.address,
            round: self.round,
        };
        self.words.push_back(write(&Word::Ask(ask)));
    }

    fn join(&mut self, keepers: Option<u32>, now: Duration) {
        let Some(settled) = self.settled.filter(|_| !self.joined) else {
            return;
        };
        let since = self.born.unwrap_or(now) + SETTLE;
        let idle = self.items.is_empty() && self.fetching.is_none() && !self.has_gaps();
        if idle && self.is_complete(settled, keepers, since, self.limits.patience, now) {
            self.joined = true;
            self.items.push_back(Item::Joined(Joined {
                group: Arc::clone(&self.group),
                keepers: self.views.len(),
                kept: self.stats.kept,
                missing: self.stats.missing,
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use qsm::{Incarnation, NodeId};

    use super::*;
    use crate::ring;
    use crate::word::Written;

    fn origin(node: u64) -> Origin {
        Origin {
            node: NodeId(node),
            incarnation: Incarnation(1),
        }
    }

    fn span(node: u64, first: u64, last: u64) -> Span {
        Span {
            sender: origin(node).into(),
            first,
            last,
        }
    }

    fn have(from: u64, round: u32, spans: Vec<Span>) -> Vec<u8> {
        write(&Word::Have(Have {
            from: Address(from),
            round,
            spans,
        }))
    }

    fn items(core: &mut JoinerCore) -> Vec<Item> {
        std::iter::from_fn(|| core.take_item()).collect()
    }

    /// R-HIST-1.
    #[test]
    fn keepers_that_talk_nonsense_take_bounded_memory_and_are_left_in_time() {
        let mut core = JoinerCore::new("news", Start::Last(3), JoinLimits::default(), 1);
        core.tick(Some(1), Duration::ZERO);
        let many = 2 * ring::SENDERS_MAX as u64;
        let spans = (0..many).map(|node| span(node, u64::MAX - 5, u64::MAX));
        let (end, mut given) = (Duration::from_secs(30), Vec::new());
        let answer = have(9, 1, spans.chain([span(7, 9, 3)]).collect());
        core.word(&answer, Duration::ZERO);
        // Of a round that was never asked.
        core.word(&have(8, 77, vec![span(1, 1, 5)]), Duration::ZERO);
        assert_eq!(core.views.len(), 1);
        let mut now = Duration::ZERO;
        while now < end && !core.is_joined() {
            core.tick(Some(1), now);
            let parts = [(0, 5, 2), (u64::MAX, u64::MAX, u64::MAX), (3, u64::MAX, 1)];
            let parts = parts.map(|(first, through, number)| Part {
                sender: origin(first % 3).into(),
                first,
                through,
                messages: vec![Written {
                    number,
                    group: 0,
                    bytes: vec![1],
                }],
            });
            let chunk = Chunk {
                from: Address(9),
                fetch: core.fetch,
                parts: parts.to_vec(),
                end: true,
            };
            core.word(&write(&Word::Chunk(chunk)), now);
            core.word(b"nonsense", now);
            given.extend(items(&mut core));
            now += Duration::from_millis(20);
        }
        assert!(core.is_joined(), "{:?}", core.fetching);
        assert!(core.tracks.len() <= ring::SENDERS_MAX);
        assert!(given.iter().any(|item| matches!(item, Item::Missing(_))));
    }

    /// R-HIST-5.
    #[test]
    fn what_finds_no_room_while_a_keeper_is_silent_is_named_and_the_rest_goes_on() {
        let limits = JoinLimits::default().held_bytes(1000);
        let mut core = JoinerCore::new("news", Start::Resume(Position::default()), limits, 1);
        core.tick(Some(1), Duration::ZERO);
        for number in 101..=110 {
            let message = Message::new("news", GroupId(1), origin(1), number, vec![0; 40]);
            core.live(message);
        }
        let given = items(&mut core);
        let Some(Item::Missing(missing)) = given.first() else {
            panic!("{given:?}");
        };
        assert_eq!(
            (missing.first, missing.last, missing.cause),
            (1, 100, MissingCause::Held)
        );
        assert_eq!(given.len(), 11);
        assert_eq!(core.stats().held_bytes, 0);
    }
}
