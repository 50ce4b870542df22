//! Multicast that does not arrive (R-REACH-1): a member finds out which speakers it does not hear,
//! tells them and the membership service, and tells as well when that is over.
//!
//! A speaker is a sender, or the region's leader: whoever multicasts to the region.
//!
//! ```text
//!                it has spoken, and       nothing for 150 ms,     24 answers by unicast,
//!                nothing of it came       and 3 such signs        none by multicast
//!   not in doubt ───────────────────► Doubted ───────────► Asked ──────────────────────► Deaf
//!       ▲                                │                   │                             │
//!       └───────────── it is heard ──────┴───────────────────┘      heard for 2 s or more  │
//!       └──────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Doubt costs nothing and is frequent: the last packet of a stream may be lost, which is one sign
//! and no more. When signs go on, or one tells of three packets and nothing comes for half a second, a
//! question settles it, since its answer comes both ways: by
//! multicast, which says that the speaker is heard, and by unicast, which counts against it only if
//! the multicast does not come.

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use qsm_wire::{Hearing, Origin, Reach, ReachReply, Summary, Token};

use super::{Region, RegionCx};
use crate::receive::ReceiveStream;
use crate::{Deafness, Destination, Event, Instant, Reason};

/// Silence of a speaker that has spoken, after which it is asked.
const DOUBT: Duration = Duration::from_millis(150);
/// Signs that a speaker has spoken, without anything of it, until it is asked. A lost packet alone
/// makes no question.
const SIGNS: u32 = 3;
/// Silence of a sender of which [`SIGNS`] packets or more have not come, after which it is asked
/// although signs are fewer: what it has sent may have been repaired, and be stable, at once.
const LONG_DOUBT: Duration = Duration::from_millis(500);
/// Pause between two questions to a speaker in doubt, and between signs that count.
const ASK: Duration = Duration::from_millis(40);
/// Pause between two answers by multicast; shorter than that between questions, so that each
/// question of a member brings another one.
const SPEAK: Duration = Duration::from_millis(30);
/// Answers by unicast without one by multicast that make a member deaf: where six of ten packets are
/// lost, that happens once in 200,000 times.
const ANSWERS: u32 = 24;
/// Time without an answer after which a speaker counts as gone: it is not reached by unicast either,
/// which is another matter (R-MEM-16).
const GONE: Duration = Duration::from_secs(10);
/// Delay of a look at a speaker from which on this node has stood still, and age of what it reads
/// from which on that tells of another time.
const SLEPT: Duration = Duration::from_millis(500);
/// Pause between two questions to a speaker that is not heard, and between two looks at it.
const DEAF: Duration = Duration::from_secs(1);
/// Silence of a speaker that was heard again, after which it counts as not heard.
const LOST_AGAIN: Duration = Duration::from_millis(2500);
/// Time for which a speaker has to be heard again until that is told; doubles each time.
const HOLD: Duration = Duration::from_secs(2);
/// Doublings of it, at most.
const HOLD_DOUBLINGS: u32 = 5;
/// Time without deafness after which its number of times is forgotten.
const FORGIVEN: Duration = Duration::from_secs(120);
/// Pause between two words to the membership service, which forgets or may have started anew.
const TELL: Duration = Duration::from_secs(10);
/// Time after which a member that has said that it is deaf, and nothing since, does not count.
const LISTENER: Duration = Duration::from_secs(10);
/// Members that are told at once how far a stream goes that nobody acknowledges.
const TOLD: usize = 4;
/// Speakers in doubt, and members that are deaf, that a node remembers in a region.
const REMEMBERED: usize = 1024;
/// Time in which no more than one question is asked, in the mean of a stay, nanoseconds.
const NONCE_TICK_NS: u64 = 100_000;

/// Multicast that a member of a region hears of others, and others of it.
#[derive(Debug, Default)]
pub(super) struct Earshot {
    /// Those in doubt.
    speakers: BTreeMap<Origin, Speaker>,
    /// Number of times that a speaker was not heard, and until when that counts.
    times: BTreeMap<Origin, (u32, Instant)>,
    /// The last round whose call or summary was heard, and whose it was.
    round: (Origin, u64),
    /// Members that do not hear this node, and when they are forgotten.
    listeners: BTreeMap<Origin, Instant>,
    /// The newest word of each member on what it hears.
    words: BTreeMap<Origin, Word>,
    /// Answers by multicast, and the time of the last one.
    spoken: u32,
    spoke_at: Option<Instant>,
    /// Number of the last question; `None`: nothing has been asked.
    nonce: Option<u32>,
    /// Members told by unicast how far this node's stream goes.
    told: usize,
}

/// A member's word on what it hears.
#[derive(Debug, Clone, Copy)]
struct Word {
    nonce: u32,
    /// Until then older ones are none.
    until: Instant,
}

/// A speaker that has not been heard although it has spoken.
#[derive(Debug)]
struct Speaker {
    step: Step,
    /// Time of the first sign.
    since: Instant,
    /// Signs that it has spoken, and the time of the last one that counts.
    signs: u32,
    sign_at: Instant,
    due: Instant,
    /// Highest packet that had come from itself.
    arrived: u64,
    /// Answers by unicast, each of another answer by multicast.
    answers: u32,
    /// Newest answer by multicast that one by unicast has told of.
    spoken: u32,
    /// When it answered last, or was heard.
    answered_at: Instant,
}

/// A sign that a speaker has spoken.
#[derive(Debug, Clone, Copy)]
struct Sign {
    /// Highest packet that has come from itself.
    arrived: u64,
    /// Packets by which its stream goes further; 0 of a leader.
    unheard: u64,
}

/// The picture of the [module](self) has these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Doubted,
    Asked,
    Deaf {
        /// It is heard again, since then and until then.
        heard: Option<(Instant, Instant)>,
        /// When the membership service is told again.
        tell_at: Instant,
    },
}

impl Speaker {
    fn new(now: Instant, arrived: u64) -> Self {
        Self {
            step: Step::Doubted,
            since: now,
            signs: 1,
            sign_at: now,
            due: Instant::NEVER,
            arrived,
            answers: 0,
            spoken: 0,
            answered_at: now,
        }
    }

    /// Another sign that it has spoken.
    fn note_sign(&mut self, now: Instant, sign: Sign) {
        if self.step != Step::Doubted {
            return;
        }
        if sign.arrived > self.arrived {
            *self = Self::new(now, sign.arrived);
        } else if now.since(self.sign_at) >= ASK {
            self.sign_at = now;
            self.signs += 1;
        }
        if self.signs >= SIGNS {
            self.due = self.since.after(DOUBT).max(now);
        } else if sign.unheard >= u64::from(SIGNS) {
            self.due = self.due.min(now.after(LONG_DOUBT));
        }
    }

    /// It is heard by multicast; `true`: it is not in doubt any more.
    fn heard(&mut self, now: Instant) -> bool {
        self.answered_at = now;
        let Step::Deaf { heard, .. } = &mut self.step else {
            return true;
        };
        let since = heard.map_or(now, |(since, _)| since);
        *heard = Some((since, now));
        false
    }

    /// Counts an answer by unicast.
    fn answered(&mut self, now: Instant, reply: &ReachReply) {
        self.answered_at = now;
        if self.answers == 0 || reply.spoken > self.spoken {
            self.answers += 1;
            self.spoken = reply.spoken;
        }
    }
}

impl Earshot {
    /// Tells whether no newer word of a member has come before this one, which may have been held up on its
    /// way.
    fn is_news(&mut self, now: Instant, member: Origin, nonce: u32) -> bool {
        let until = now.after(LISTENER);
        let known = self.words.get(&member);
        // Numbers go round.
        let is_older = |newest: u32| newest.wrapping_sub(nonce).wrapping_sub(1) < u32::MAX / 2;
        let newer = |word: &Word| now < word.until && is_older(word.nonce);
        if known.is_some_and(newer) {
            return false;
        }
        if self.words.len() >= REMEMBERED {
            self.words.retain(|_, word| now < word.until);
        }
        if self.words.len() < REMEMBERED {
            self.words.insert(member, Word { nonce, until });
        }
        true
    }

    /// Number of the next question. The first one is of the clock: so they ascend over all stays of a
    /// life in the region, as long as no more are asked than there are ticks.
    fn next_nonce(&mut self, now: Instant) -> u32 {
        let ticks = now.0 / NONCE_TICK_NS;
        let first = || u32::try_from(ticks & u64::from(u32::MAX)).unwrap_or_default();
        let nonce = self.nonce.map_or_else(first, |last| last.wrapping_add(1));
        self.nonce = Some(nonce);
        nonce
    }

    /// When the first sign was that a speaker is not heard, if that is certain.
    pub(super) fn unheard_since(&self, speaker: Origin) -> Option<Instant> {
        let speaker = self.speakers.get(&speaker)?;
        matches!(speaker.step, Step::Deaf { .. }).then_some(speaker.since)
    }

    /// When there is something to do.
    pub(super) fn due(&self) -> Instant {
        let speakers = self.speakers.values().map(|speaker| speaker.due);
        let listeners = self.listeners.values().copied();
        speakers.chain(listeners).fold(Instant::NEVER, Instant::min)
    }

    fn doubt(&mut self, now: Instant, speaker: Origin, sign: Sign) {
        if self.speakers.len() < REMEMBERED {
            let fresh = || Speaker::new(now, sign.arrived);
            let speaker = self.speakers.entry(speaker).or_insert_with(fresh);
            speaker.note_sign(now, sign);
        }
    }

    /// A speaker is heard by multicast.
    fn hear(&mut self, now: Instant, speaker: Origin) {
        let known = self.speakers.get_mut(&speaker);
        if known.is_some_and(|known| known.heard(now)) {
            self.speakers.remove(&speaker);
        }
    }

    /// Time for which a speaker has to be heard again.
    fn hold(&self, speaker: Origin) -> Duration {
        let times = self.times.get(&speaker).map_or(0, |(times, _)| *times);
        HOLD * (1 << times.saturating_sub(1).min(HOLD_DOUBLINGS))
    }

    fn count(&mut self, now: Instant, speaker: Origin) {
        self.times.retain(|_, (_, until)| *until > now);
        if self.times.len() < REMEMBERED {
            let (times, until) = self.times.entry(speaker).or_insert((0, now));
            (*times, *until) = (times.saturating_add(1), now.after(FORGIVEN));
        }
    }
}

impl RegionCx<'_> {
    /// A stream goes as far as somebody says, or is asked for that: its sender is in doubt if that
    /// did not come from itself. Rule R-REACH-1.
    pub(super) fn doubt_sender(&mut self, sender: Origin) {
        let stream = self.region.streams.get(&sender);
        let unheard = stream.filter(|stream| stream.unheard() > 0 && !stream.sender_dead());
        if let Some(stream) = unheard.filter(|_| self.looks()) {
            let sign = Sign {
                arrived: stream.arrived(),
                unheard: stream.unheard(),
            };
            self.doubt(sender, sign);
        }
    }

    /// A token has come of a round that the leader has called, or will tell the result of. A leader
    /// that was not heard is in doubt, and so are the senders that the token tells of: no result of
    /// the leader's will raise that doubt.
    pub(super) fn doubt_leader(&mut self, token: &Token<'_>) {
        let (leader, round) = (token.head.leader, token.head.round);
        let (heard_of, heard) = self.region.earshot.round;
        let heard = heard_of == leader && heard >= round;
        if leader != self.node.origin && !heard && self.looks() {
            let sign = Sign {
                arrived: self.region.arrived_of(leader),
                unheard: 0,
            };
            self.doubt(leader, sign);
            for slot in token.slots() {
                self.doubt_sender(slot.head.origin);
            }
        }
    }

    /// A token tells how far streams go, also of what has been repaired here long since: repairs may
    /// all have come in one moment, which is one sign. Of a few packets it is none, since the last of
    /// a stream may be lost. Rule R-REACH-1.
    pub(super) fn doubt_senders(&mut self, token: &Token<'_>) {
        let unheard = |stream: &ReceiveStream| stream.unheard() >= u64::from(SIGNS);
        if !self.region.streams.values().any(unheard) {
            // So it is nearly always, and reading slots has its price.
            return;
        }
        for slot in token.slots() {
            let sender = slot.head.origin;
            if self.region.streams.get(&sender).is_some_and(unheard) {
                self.doubt_sender(sender);
            }
        }
    }

    fn doubt(&mut self, speaker: Origin, sign: Sign) {
        let (now, listens) = (self.node.now, self.node.config.multicast);
        let earshot = &mut self.region.earshot;
        earshot.doubt(now, speaker, sign);
        if let Some(speaker) = earshot.speakers.get_mut(&speaker).filter(|_| !listens) {
            // It will not be heard.
            speaker.due = speaker.due.min(now);
        }
    }

    /// Heard the leader call a round.
    pub(super) fn hear_call(&mut self, leader: Origin, round: u64) {
        self.region.earshot.round = (leader, round);
        self.hear(leader);
    }

    /// Heard the leader tell the result of a round.
    pub(super) fn hear_summary(&mut self, leader: Origin, summary: &Summary<'_>) {
        self.hear_call(leader, summary.round);
    }

    /// Nobody acknowledges this node's stream, perhaps because nobody hears it: tells the next few
    /// members by unicast how far it goes, the leader first. Rule R-REACH-2.
    pub(super) fn tell_some(&mut self) {
        let view = self.region.history.newest();
        let live = view.live_members();
        let first = view.leader().map_or(0, |leader| usize::from(leader.0));
        let turn = first + self.region.earshot.told;
        let members = live.iter().cycle().skip(turn % live.len().max(1));
        let others = members
            .take(TOLD.min(live.len()))
            .filter(|member| member.origin != self.node.origin);
        let addresses: Vec<SocketAddr> = others.map(|member| member.address).collect();
        self.region.earshot.told += TOLD;
        let stream = self.stream_id(self.node.origin);
        for to in addresses {
            self.region.own_extent().say(self.node, to, stream);
        }
    }

    fn looks(&self) -> bool {
        let reach = self.node.config.recovery.reach;
        reach && self.region.member() && self.region.path().is_multicast()
    }

    fn hear(&mut self, speaker: Origin) {
        self.region.earshot.hear(self.node.now, speaker);
        if let Some(stream) = self.region.streams.get_mut(&speaker) {
            stream.note_heard();
        }
    }

    /// Does what is due: looks at speakers in doubt, asks them, and forgets members that do not say
    /// any more that they are deaf.
    pub(crate) fn listen(&mut self) {
        let now = self.node.now;
        if self.region.recipients.due() <= now {
            self.forget_recipients();
        }
        if self.region.earshot.due() > now {
            return;
        }
        let speakers = self.region.earshot.speakers.iter();
        let due = speakers.filter(|(_, speaker)| speaker.due <= now);
        let due: Vec<Origin> = due.map(|(origin, _)| *origin).collect();
        due.into_iter().for_each(|origin| self.look_at(origin));
        let listeners = self.region.earshot.listeners.iter();
        let over = listeners.filter(|(_, until)| **until <= now);
        let over: Vec<Origin> = over.map(|(origin, _)| *origin).collect();
        over.into_iter()
            .for_each(|origin| self.forget_listener(origin));
    }

    fn look_at(&mut self, origin: Origin) {
        let now = self.node.now;
        let arrived = self.region.arrived_of(origin);
        // A node that has left does not listen any more.
        let speaks = self.region.speaks(origin) && self.looks();
        let objects = self.node.meter.objects(now);
        let old = self.node.backlog.age(now) >= SLEPT;
        let Some(speaker) = self.region.earshot.speakers.get_mut(&origin) else {
            return;
        };
        let moved = arrived > speaker.arrived;
        let slept = now.since(speaker.due) >= SLEPT;
        speaker.arrived = arrived;
        if moved && speaker.heard(now) {
            self.region.earshot.speakers.remove(&origin);
            return;
        }
        if objects || slept || old {
            // What the kernel has dropped may have been what is waited for, and what was so before
            // this node stood still, or when what it reads now came, need not be so any more.
            speaker.answers = 0;
        }
        let there = speaks && now.since(speaker.answered_at) < GONE;
        match speaker.step {
            Step::Deaf { heard, tell_at } => self.look_at_unheard(origin, there, heard, tell_at),
            _ if !there => {
                self.region.earshot.speakers.remove(&origin);
            }
            _ if speaker.answers >= ANSWERS => self.become_deaf(origin),
            _ => {
                speaker.step = Step::Asked;
                speaker.due = now.after(ASK);
                self.ask(origin, Hearing::Unsure);
            }
        }
    }

    fn become_deaf(&mut self, origin: Origin) {
        let now = self.node.now;
        self.region.earshot.count(now, origin);
        self.say_deaf(origin, true);
        self.ask(origin, Hearing::Deaf);
        if let Some(speaker) = self.region.earshot.speakers.get_mut(&origin) {
            speaker.due = now.after(DEAF);
            speaker.step = Step::Deaf {
                heard: None,
                tell_at: now.after(TELL),
            };
        }
    }

    fn look_at_unheard(
        &mut self,
        origin: Origin,
        there: bool,
        heard: Option<(Instant, Instant)>,
        tell_at: Instant,
    ) {
        let now = self.node.now;
        let heard = heard.filter(|(_, last)| now.since(*last) < LOST_AGAIN);
        let hold = self.region.earshot.hold(origin);
        if !there || heard.is_some_and(|(since, _)| now.since(since) >= hold) {
            self.hear_again(origin);
            return;
        }
        let again = tell_at <= now;
        if again && self.node.config.multicast {
            self.tell_service(origin, true);
        }
        if let Some(speaker) = self.region.earshot.speakers.get_mut(&origin) {
            speaker.due = now.after(DEAF);
            speaker.step = Step::Deaf {
                heard,
                tell_at: if again { now.after(TELL) } else { tell_at },
            };
        }
        self.ask(origin, Hearing::Deaf);
    }

    /// A speaker is heard again for long enough, or gone.
    fn hear_again(&mut self, origin: Origin) {
        self.region.earshot.speakers.remove(&origin);
        self.say_deaf(origin, false);
        if self.region.speaks(origin) {
            self.ask(origin, Hearing::Hears);
        }
    }

    /// Tells application and membership service, unless this node means to hear nothing.
    fn say_deaf(&mut self, speaker: Origin, deaf: bool) {
        if !self.node.config.multicast {
            return;
        }
        let deafness = self.deafness(self.node.origin, speaker);
        let (counter, event) = match deaf {
            true => (&mut self.node.stats.deaf, Event::Deaf(deafness)),
            false => (&mut self.node.stats.hears_again, Event::Hears(deafness)),
        };
        *counter += 1;
        self.node.events.push(event);
        self.tell_service(speaker, deaf);
    }

    fn tell_service(&mut self, speaker: Origin, deaf: bool) {
        let region = self.region.id();
        let outbox = &mut self.node.outbox;
        self.membership
            .deaf(self.node.now, region, speaker, deaf, outbox);
    }

    fn deafness(&self, listener: Origin, speaker: Origin) -> Deafness {
        let here = listener == self.node.origin;
        let peer = if here { speaker } else { listener };
        Deafness {
            region: self.region.id(),
            address: self.region.address(),
            listener,
            speaker,
            peer: self.region.address_of(peer),
            here,
        }
    }

    /// Asks a speaker, or a member that may know where it is.
    fn ask(&mut self, speaker: Origin, hearing: Hearing) {
        let nonce = self.region.earshot.next_nonce(self.node.now);
        let Some(to) = self.region.way_to(self.node.origin, speaker, nonce) else {
            return;
        };
        let question = Reach {
            region: self.region.id(),
            speaker,
            asker: self.node.origin,
            nonce,
            hearing,
        };
        let header = self.node.header();
        self.node.stats.reach_asked += 1;
        let to = Destination::Node(to);
        self.node
            .outbox
            .push(Reason::Status, to, |out| question.encode(&header, out));
    }

    /// Answers a member that asks whether this node's multicast reaches it; passes on what is meant
    /// for another one.
    pub(crate) fn take_reach(&mut self, from: Origin, question: &Reach) {
        let asker = question.asker;
        if !self.region.history.lives(asker) || !self.region.history.lives(from) {
            self.node.stats.discard_stranger += 1;
            return;
        }
        if question.speaker != self.node.origin {
            // It is passed on once.
            if from == asker {
                self.relay(question);
            }
            return;
        }
        let now = self.node.now;
        let earshot = &mut self.region.earshot;
        if earshot.is_news(now, asker, question.nonce) {
            // What this node reads so late may have been so when it came, and not be so any more.
            let counts = self.node.backlog.age(now) < SLEPT;
            let known = earshot.listeners.contains_key(&asker);
            match question.hearing {
                Hearing::Deaf if counts || known => self.note_listener(asker),
                Hearing::Hears => self.forget_listener(asker),
                _ => self.copy_in_doubt(asker),
            }
        }
        let multicast = self.node.config.multicast;
        let earshot = &mut self.region.earshot;
        let speaks = multicast && earshot.spoke_at.is_none_or(|at| now.since(at) >= SPEAK);
        if speaks {
            earshot.spoken = earshot.spoken.wrapping_add(1);
            earshot.spoke_at = Some(now);
        }
        let reply = ReachReply {
            region: question.region,
            nonce: question.nonce,
            spoken: earshot.spoken,
            multicast: speaks,
        };
        if speaks {
            self.reply(self.region.path().destination(), &reply);
        }
        if let Some(to) = self.region.address_of(asker) {
            // Where nothing is multicast, nothing is missed.
            let multicast = !multicast;
            self.reply(Destination::Node(to), &ReachReply { multicast, ..reply });
        }
    }

    fn reply(&mut self, to: Destination, reply: &ReachReply) {
        let header = self.node.header();
        self.node.stats.reach_answered += 1;
        self.node
            .outbox
            .push(Reason::Status, to, |out| reply.encode(&header, out));
    }

    fn relay(&mut self, question: &Reach) {
        let Some(to) = self.region.address_of(question.speaker) else {
            return;
        };
        let header = self.node.header();
        let to = Destination::Node(to);
        self.node
            .outbox
            .push(Reason::Status, to, |out| question.encode(&header, out));
    }

    /// Takes the answer of a speaker.
    pub(crate) fn take_reach_reply(
        &mut self,
        from: SocketAddr,
        speaker: Origin,
        reply: &ReachReply,
    ) {
        if reply.multicast {
            self.hear(speaker);
        } else if let Some(known) = self.region.earshot.speakers.get_mut(&speaker) {
            known.answered(self.node.now, reply);
            if let Some(stream) = self.region.streams.get_mut(&speaker) {
                stream.heard_from(self.node.now, from);
            }
        }
    }

    fn note_listener(&mut self, listener: Origin) {
        let until = self.node.now.after(LISTENER);
        let listeners = &mut self.region.earshot.listeners;
        let known = listeners.contains_key(&listener);
        if known || listeners.len() < REMEMBERED {
            listeners.insert(listener, until);
        }
        self.copy(listener, until);
        if !known {
            self.node.stats.unheard += 1;
            let deafness = self.deafness(listener, self.node.origin);
            self.node.events.push(Event::Deaf(deafness));
        }
    }

    fn forget_listener(&mut self, listener: Origin) {
        self.stop_copies(listener);
        if self.region.earshot.listeners.remove(&listener).is_some() {
            let deafness = self.deafness(listener, self.node.origin);
            self.node.events.push(Event::Hears(deafness));
        }
    }
}

impl Region {
    /// Highest packet that has come from a sender itself.
    fn arrived_of(&self, sender: Origin) -> u64 {
        let stream = self.streams.get(&sender);
        stream.map_or(0, ReceiveStream::arrived)
    }

    /// Whether this speaker may still say something.
    fn speaks(&self, origin: Origin) -> bool {
        let stream = self.streams.get(&origin);
        self.history.lives(origin) || stream.is_some_and(|stream| !stream.sender_dead())
    }

    /// Where a speaker is; if nobody knows here, where a member is that may know.
    fn way_to(&self, me: Origin, speaker: Origin, turn: u32) -> Option<SocketAddr> {
        let others = || {
            let view = self.history.newest();
            let others = view.live_members().iter();
            let others: Vec<SocketAddr> = others
                .filter(|member| member.origin != me)
                .map(|member| member.address)
                .collect();
            let turn = usize::try_from(turn).unwrap_or(0);
            others.get(turn % others.len().max(1)).copied()
        };
        self.address_of(speaker).or_else(others)
    }
}

#[cfg(test)]
mod tests;
