//! The token plane of one region at one node (S2 §2.3.2, §2.3.3; algorithms (b) "Token plane").
//!
//! A token gathers, for all streams at once, how far the region has got: the highest packet seen,
//! the two watermarks, the slowest receiver. On its way it lets neighbours repair each other's
//! losses and tells the sender of what nobody has. Watermarks come from here alone; the repair of
//! losses is a backstop for the fast plane.
//!
//! # A round
//!
//! S2 sends one token through all partitions in turn, which takes time in proportion to the
//! region. Here all rings of a level rotate at the same time:
//!
//! ```text
//!  level 1     L0 ──► L1 ──► L2 ─┐      leaders of the partitions; L0 is the region leader
//!              ▲────────────────-┘
//!  level 0   ┌─L0─┐ ┌─L1─┐ ┌─L2─┐       the partitions
//!            a    b c    d e    f
//! ```
//!
//! 1. The region leader opens round r: it multicasts a *call*, a token of level [`CALL`] with the
//!    streams of the round, their cutoffs and watermarks. Each partition leader starts its ring.
//!    A leader that missed the call starts when the upper token of round r arrives.
//! 2. A ring that has rotated leaves its sum with its leader. The sum goes into the token of the
//!    level above, which waits at a leader whose ring is not back.
//! 3. When the topmost token is back, the region leader has the result, and the watermarks grow.
//!    Senders get their ACKs, the region a summary.
//!
//! The call is not folded into the previous round's summary, because that may be a second old when
//! the next round begins; rings that started on it would bring stale numbers.
//!
//! # What makes it safe
//!
//! A watermark is the minimum of what *all* members of the view have said, in this round or, where
//! a partition's ring was not complete, in the last one in which it was: what a member has it
//! keeps. Whoever did not say anything (passed over with its whole partition, new to the stream,
//! slot put in late or left out) holds it at its old value. Tokens of other views are never mixed.
//! Everything else only delays.
//!
//! # Losses of tokens
//!
//! Each hop is receipted; a successor that stays silent is passed over and reported, and what its
//! partition last said counts instead. A token that dies with its holder is missed by the ring's leader,
//! which goes on with its own word alone, or by the region leader, which opens a new round. Rounds
//! are numbered, so that what is late or double is recognised (G05). A leader never has two rounds
//! in flight (R072).

mod gathered;
mod hop;
mod leaf;
mod pace;
mod pass;
mod place;
mod round;
mod sets;
#[cfg(test)]
mod tests;
mod tracks;
mod vouched;
mod watch;

mod lead;
mod leases;

use core::time::Duration;
use std::sync::Arc;

use qsm_wire::{
    Ack, Header, HeaderTemplate, MemberIndex, Origin, SIGNED_TAIL_BYTES, SeqRange, Summary,
    TAIL_BYTES, Token, TokenAck,
};

use crate::stats::RingStats;
use crate::view::RegionView;
use crate::{Config, Instant, Outbox, Times};
use gathered::Gathered;
use hop::Hops;
use pace::RoundPace;
use place::RingPlace;
use round::{Round, RoundPatience};
pub use sets::RangeSet;
use tracks::Tracks;
use vouched::PartitionReports;
use watch::LeaderWatch;

/// The level of a call: a token that travels no ring but announces a round to all (R-TOK-2).
pub const CALL: u8 = u8::MAX;

/// How many leaders' rounds a node follows at once. Two at most elect themselves (R029); a third
/// place lets a newer one in before the older is forgotten (R-TOK-1).
const LEADERS_MAX: usize = 3;

/// Added to the patience of ring leaders for each member, where a round visits them in turn.
const MEMBER_PATIENCE: Duration = Duration::from_millis(20);

/// What the receive side knows. Implemented by the receiver.
pub trait Streams {
    /// Appends the senders of this region's streams with packets not yet stable as far as this
    /// node knows, ascending.
    fn active(&self, into: &mut Vec<Origin>);

    /// How far the stream has got here; `None` if it was never heard of. Of a stream that is not
    /// received here nothing may be missing up to some number, by that it has got here.
    fn report(&self, sender: Origin) -> Option<Report>;

    /// Tells whether it is known what of the stream is missing here, up to this number.
    fn knows(&self, sender: Origin, upto: u64) -> bool;

    /// Appends, ascending and apart, at most [`qsm_wire::Ranges::MAX`] runs of packets up to
    /// `cutoff` that this node's own partition caches in the current view and this node does not
    /// hold. Also those that it need not deliver (joined later, leaving): otherwise it would seem
    /// to have them. Returns whether more are missing than were appended.
    fn missing_own(&self, sender: Origin, cutoff: u64, into: &mut Vec<SeqRange>) -> bool;

    /// What this node can receive, packets per second; `u32::MAX` if nothing constrains it.
    fn receive_rate(&self) -> u32;

    /// The receive buffer it grants, bytes.
    fn credit_bytes(&self) -> u32;
}

/// How far one stream has got at one node.
///
/// Packets of views newer than the ring's must not count in `contiguous` and `cached`: those views
/// may have members that take no part in this ring's rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Highest packet received or known to exist; 0 if none.
    pub highest: u64,
    /// Highest packet that came from its sender, or everything up to here has been received: what
    /// is above it may still be in the kernel's buffer; `u64::MAX` for a leaving member that has
    /// all it must have.
    pub arrived: u64,
    /// Everything up to here has been received; `u64::MAX` for a leaving member that has all it
    /// must have.
    pub contiguous: u64,
    /// Of everything up to here, what this node must cache in the current view has been received.
    pub cached: u64,
    /// Whether anything is missing here.
    pub missing: bool,
}

/// What the rest of the node has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send these packets to a ring neighbour that misses them (R076). The run may contain packets
    /// of other partitions' blocks or be absurdly long: send only what is cached here.
    Push {
        /// The neighbour.
        to: MemberIndex,
        /// The stream.
        sender: Origin,
        /// The packets.
        range: SeqRange,
    },
    /// Ask a ring neighbour for these packets; it does not report them missing (R076).
    Pull {
        /// The neighbour.
        from: MemberIndex,
        /// The stream.
        sender: Origin,
        /// The packets.
        ranges: RangeSet,
    },
    /// Ask the leaders of the other partitions for what they cache and this node misses (R081).
    PullLeaders {
        /// The stream.
        sender: Origin,
        /// Only packets up to here.
        cutoff: u64,
    },
    /// No live member of this node's partition has these packets: ask their sender (R079).
    AskSender {
        /// The stream's sender.
        sender: Origin,
        /// The packets.
        ranges: RangeSet,
    },
    /// Something grew, or the stream was never heard of here. `stable_upto <= cached_upto`.
    Watermarks {
        /// The stream.
        sender: Origin,
        /// Packets up to here exist; those not received are missing (R074).
        cutoff: u64,
        /// All members of the view have everything up to here: purge (R092).
        stable_upto: u64,
        /// In the view in which this was found, all cachers had their part up to here. The sender
        /// may have freed it, so what is cached must be kept over views until it is stable.
        cached_upto: u64,
    },
    /// As region leader: tell the sender (R091).
    Acknowledge {
        /// Whom.
        sender: Origin,
        /// What.
        ack: Ack,
        /// How far the cachers of each partition have got, if that is wanted (R094).
        marks: Vec<u64>,
    },
    /// Tell the region leader how far this stream goes: it opens no rounds, so that it seems not to
    /// hear the sender (R-TOK-12).
    Tell {
        /// The leader.
        member: Origin,
        /// The stream.
        sender: Origin,
    },
    /// A member does not answer; tell the membership service. Repeated while it stays silent.
    Suspect {
        /// The member.
        member: Origin,
        /// For how long this node has not heard it; zero if others say so.
        silent: Duration,
    },
}

/// What a call works with.
#[expect(
    missing_debug_implementations,
    reason = "only lends what others own, one of them behind a trait"
)]
pub struct Turn<'a> {
    /// The time.
    pub now: Instant,
    /// The receive side.
    pub streams: &'a dyn Streams,
    /// Takes outgoing packets.
    pub outbox: &'a mut Outbox,
    /// Takes what the rest of the node has to do, in order.
    pub actions: &'a mut Vec<Action>,
    /// Takes how long rounds lasted.
    pub times: &'a mut Times,
}

/// What a ring has to know of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct RingConfig {
    /// Of the packets' headers.
    pub template: HeaderTemplate,
    /// Largest datagram, bytes.
    pub datagram_bytes: usize,
    /// Shortest time between two rounds, unless a quarter of the credit has arrived.
    pub token_min: Duration,
    /// Longest time between two rounds while a stream is open.
    pub token_max: Duration,
    /// The token visits the partitions one after the other.
    pub in_turn: bool,
    /// Tokens and ACKs say how far each partition has got (R094).
    pub partition_feedback: bool,
    /// Senders get equal shares of the credit, whatever they use of it (S0).
    pub equal_credit: bool,
    /// Most streams remembered.
    pub streams: usize,
}

impl RingConfig {
    /// The part of a node's configuration that concerns rings.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            template: config.header_template(),
            datagram_bytes: config.datagram_bytes,
            token_min: config.pace.token_min,
            token_max: config.pace.token_max,
            in_turn: config.pace.rings_in_turn,
            partition_feedback: config.pace.partition_feedback,
            equal_credit: config.pace.faithful_rate,
            streams: config.limits.streams,
        }
    }

    fn limit_bytes(&self) -> usize {
        self.datagram_bytes.saturating_sub(TAIL_BYTES)
    }

    /// The same of what goes to all: calls and summaries. Rule R-SEC-17.
    fn signed_bytes(&self) -> usize {
        self.datagram_bytes.saturating_sub(SIGNED_TAIL_BYTES)
    }
}

/// The token plane of one region at one node. See the [module](self) for how it works.
#[derive(Debug)]
pub struct RegionRing {
    config: RingConfig,
    place: Option<Arc<RingPlace>>,
    rounds: Vec<Round>,
    tracks: Tracks,
    vouched: PartitionReports,
    hops: Hops,
    patience: RoundPatience,
    watch: LeaderWatch,
    pace: RoundPace,
    /// The newest round opened here.
    number: u64,
    /// As region leader: a round is in flight, opened for that many active senders.
    flying: Option<u32>,
    /// No round of this view has been complete yet. The first one takes place even if the leader
    /// knows of no stream, so that others can say what they know: a newcomer may hold packets that
    /// became stable in the view before.
    fresh: bool,
    /// Members that nobody waits for in the present view.
    away: Vec<Origin>,
    /// The newest round of this view that its leader itself has spoken of.
    told: u64,
    stats: RingStats,
}

impl RegionRing {
    /// A ring without a view.
    #[must_use]
    pub fn new(config: RingConfig) -> Self {
        Self {
            config,
            place: None,
            rounds: Vec::new(),
            tracks: Tracks::new(config.streams),
            vouched: PartitionReports::new(config.streams),
            hops: Hops::new(config.in_turn),
            patience: RoundPatience::default(),
            watch: LeaderWatch::new(config.token_max),
            pace: RoundPace::new(config.token_min, config.token_max),
            number: 0,
            flying: None,
            fresh: false,
            away: Vec::new(),
            told: 0,
            stats: RingStats::default(),
        }
    }

    /// Takes part in another view from now on, or in none if `me` is not a member of it. Tokens of
    /// the old view are abandoned, round numbers go on. Watermarks stay, but for what became stable
    /// without a member that is back: that is found anew. Returns whether one is.
    pub fn set_view(&mut self, now: Instant, view: Arc<RegionView>, me: Origin) -> bool {
        let live = |origin: &Origin| view.index_of(*origin).is_some_and(|at| view.is_live(at));
        let returned = self.away.iter().any(live);
        let away = view.away_members().iter().map(|member| member.origin);
        self.away = away.collect();
        self.tracks.follow(!self.away.is_empty(), returned);
        self.place = RingPlace::new(view, me).map(Arc::new);
        self.rounds.clear();
        self.told = 0;
        self.vouched.clear();
        self.flying = None;
        self.hops.install(now);
        let members = self
            .place
            .as_ref()
            .map_or(0, |place| place.view.live_members().len());
        let members = members.min(crate::view::MEMBERS_MAX) as u32;
        self.patience =
            RoundPatience::new(MEMBER_PATIENCE * members * u32::from(self.config.in_turn));
        self.watch = LeaderWatch::new(self.config.token_max);
        self.fresh = self.place.is_some();
        if self.fresh {
            self.pace.note(now, 0);
        }
        returned
    }

    /// Packets of that many bytes have arrived on the region's streams, or a stream has become
    /// active: a round is due.
    pub fn note_traffic(&mut self, now: Instant, bytes: usize) {
        self.pace.note(now, bytes);
        self.watch.note(now);
    }

    /// A token or call, made by `from` (the packet's origin). Rounds are those of the view's leader,
    /// whoever else says that he leads. Rule R-SEC-40.
    pub fn handle_token(&mut self, turn: &mut Turn<'_>, from: Origin, token: &Token<'_>) {
        self.stats.tokens_received += 1;
        let Some(place) = self.place.clone() else {
            self.stats.stale += 1;
            return;
        };
        let head = token.head;
        if head.region != place.view.region() || !place.contains(head.leader) {
            self.stats.strangers += 1;
        } else if head.view != place.view.number() {
            self.other_view(turn, &place, from, token);
        } else if head.leader != place.leader {
            self.stats.strangers += 1;
        } else if head.level == CALL {
            self.handle_call(turn, &place, from, token);
        } else {
            self.handle_ring(turn, &place, from, token);
        }
    }

    /// Notes a round that the region's leader itself has spoken of.
    fn note_told(&mut self, place: &RingPlace, from: Origin, number: u64) {
        if from == place.leader {
            self.told = self.told.max(number);
        }
    }

    /// The receipt of a token. Returns how long the hop took, if the token was on its way.
    pub fn handle_token_ack(
        &mut self,
        now: Instant,
        from: Origin,
        ack: &TokenAck,
    ) -> Option<Duration> {
        let Some(place) = self.place.clone() else {
            self.stats.stale += 1;
            return None;
        };
        let level = usize::from(ack.level);
        let round = self
            .rounds
            .iter_mut()
            .find(|round| round.leader == ack.leader && round.number == ack.round);
        let stage = round.and_then(|round| round.stages.get_mut(level));
        match stage.and_then(|stage| stage.receipt(&place, from)) {
            Some((member, sent)) => Some(self.hops.receipted(now, member, sent)),
            None => {
                self.stats.stale += 1;
                // Too late for this token, but a sign of life.
                if let Some(index) = place.view.index_of(from) {
                    self.hops.alive(index);
                }
                None
            }
        }
    }

    /// The result of a round, made by `from` (the packet's origin), if that is the leader. Rule R-SEC-40.
    pub fn handle_summary(&mut self, turn: &mut Turn<'_>, from: Origin, summary: &Summary<'_>) {
        let Some(place) = self.place.clone() else {
            self.stats.stale += 1;
            return;
        };
        if summary.region != place.view.region() || !place.contains(from) {
            self.stats.strangers += 1;
            return;
        }
        if summary.view != place.view.number() || self.told > summary.round.saturating_add(1) {
            self.stats.stale += 1;
            return;
        }
        if from != place.leader {
            self.stats.strangers += 1;
            return;
        }
        if from == place.me {
            return;
        }
        self.note_told(&place, from, summary.round);
        self.stats.summaries += 1;
        self.watch.heard(turn.now, summary.slots().next().is_some());
        for slot in summary.slots() {
            self.learn(turn, &slot);
        }
    }

    /// Does what is due: repetitions, rounds to open or to give up.
    pub fn handle_timeout(&mut self, turn: &mut Turn<'_>) {
        let Some(place) = self.place.clone() else {
            return;
        };
        self.expire(turn, &place);
        self.watch(turn, &place);
        if place.leads_region() && self.flying.is_none() && self.pace.due() <= turn.now {
            self.open_round(turn, &place);
        }
    }

    /// When to call [`RegionRing::handle_timeout`] next.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let place = self.place.as_ref()?;
        let mut next = self.expiry(place).unwrap_or(Instant::NEVER);
        if place.leads_region() && self.flying.is_none() {
            next = next.min(self.pace.due());
        }
        if let Some(turn) = place.watch_turn() {
            next = next.min(self.watch.deadline(turn));
        }
        (next < Instant::NEVER).then_some(next)
    }

    /// The last word to a sender, if this node leads the region: to be repeated when the sender's
    /// heartbeats show that it does not know.
    #[must_use]
    pub fn last_ack(&self, sender: Origin) -> Option<Ack> {
        let place = self.place.as_ref().filter(|place| place.leads_region())?;
        let ack = self.tracks.get(sender)?.ack?;
        (ack.view == place.view.number()).then_some(ack)
    }

    /// As region leader: this stream needs a round, though nothing has changed for the region. Its
    /// sender does not know that everything is stable, and there is no word of this view that
    /// could be repeated.
    pub fn want(&mut self, now: Instant, sender: Origin) {
        let leads = self
            .place
            .as_ref()
            .is_some_and(|place| place.leads_region());
        if leads {
            self.tracks.reopen(sender);
            self.pace.note(now, 0);
        }
    }

    /// `(stable_upto, cached_upto)` of a stream as far as this node knows; zeros if unknown.
    #[must_use]
    pub fn watermarks(&self, sender: Origin) -> (u64, u64) {
        self.tracks
            .get(sender)
            .map_or((0, 0), |track| (track.stable_upto, track.cached_upto))
    }

    /// How far a stream goes as far as tokens have told this node; 0 if unknown.
    #[must_use]
    pub fn cutoff(&self, sender: Origin) -> u64 {
        self.tracks.get(sender).map_or(0, |track| track.cutoff)
    }

    /// What it has done.
    #[must_use]
    pub fn stats(&self) -> RingStats {
        RingStats {
            hop_ns: self.hops.smoothed_ns(),
            ..self.stats
        }
    }

    fn learn(&mut self, turn: &mut Turn<'_>, said: &qsm_wire::SummarySlot) {
        let news = self.tracks.learn(said);
        let unheard = said.cutoff > 0 && !turn.streams.knows(said.origin, said.cutoff);
        if (news || unheard)
            && let Some(track) = self.tracks.get(said.origin)
        {
            turn.actions.push(Action::Watermarks {
                sender: track.sender,
                cutoff: track.cutoff,
                stable_upto: track.stable_upto,
                cached_upto: track.cached_upto,
            });
        }
    }

    /// Learns what a token of another leader says about its streams.
    fn learn_token(&mut self, turn: &mut Turn<'_>, place: &RingPlace, token: &Gathered) {
        if token.head.leader == place.me {
            return;
        }
        for entry in &token.slots {
            let said = qsm_wire::SummarySlot {
                origin: entry.head.origin,
                cutoff: entry.head.cutoff,
                stable_upto: entry.head.stable_upto,
                cached_upto: entry.head.cached_upto,
            };
            self.learn(turn, &said);
        }
    }

    fn header(&self, me: Origin) -> Header {
        self.config.template.header(me)
    }

    fn capacity(&self) -> usize {
        gathered::capacity(self.config.signed_bytes())
    }
}
