use std::collections::{BTreeMap, BTreeSet};

use qsm_proto::Instant;
use qsm_wire::membership::AwayReason;
use qsm_wire::{Origin, RegionId, ViewNumber};

use super::lost::LostNumbers;
use super::unserved::Unserved;
use crate::runs::Runs;

/// What really happened, as far as applications can see it: the checkers' common knowledge.
#[derive(Debug, Default)]
pub(crate) struct History {
    lives: BTreeMap<Origin, Life>,
    /// By sender and group.
    sent: BTreeMap<(Origin, usize), Sent>,
    /// By receiver, group and sender.
    tracks: BTreeMap<(Origin, usize, Origin), Track>,
    /// Senders, and receivers that lacked packets which the sender freed for want of room.
    overruns: BTreeSet<(Origin, Origin)>,
    demoted: BTreeSet<Origin>,
    /// Messages that senders have named as not known to have arrived.
    pub(crate) unserved: Unserved,
    /// Gaps seen in the present step; losses may still explain them.
    gaps: Vec<Gap>,
}

/// One life of a node.
#[derive(Debug)]
pub(crate) struct Life {
    /// Where it runs.
    pub(crate) host: usize,
    /// When it ended, if it did.
    pub(crate) ended: Option<Instant>,
    /// Whether it ended after it had handed over everything: then it owes as much as the living.
    pub(crate) closed: bool,
    /// Members that were away when it ended so, in views that it knew.
    pub(crate) closed_without: BTreeSet<Origin>,
    /// Groups its application wants to receive, and since when; never, while it has taken one up
    /// again and that has not been answered.
    pub(crate) wants: BTreeMap<usize, Instant>,
    /// Groups that it has given up once.
    left: BTreeSet<usize>,
    /// Of those, the groups that it receives again, and the views that it knew when it was told so.
    granted: BTreeMap<usize, BTreeMap<RegionId, ViewNumber>>,
    /// Regions it has been in, and since when.
    pub(crate) regions: BTreeMap<RegionId, Instant>,
    /// Nobody waits for it, as far as it knows.
    pub(crate) away: bool,
    /// Packets it was told it lost, by sender.
    pub(crate) lost_packets: BTreeMap<Origin, u64>,
}

/// What one sender has published to one group.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// When; the number of a message is its place here, from 1.
    pub(crate) times: Vec<Instant>,
    /// Whom the sender knew as receivers, and for which messages.
    pub(crate) audience: BTreeMap<Origin, Vec<Stay>>,
}

/// A time in which a sender knew a node as receiver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stay {
    /// When it learned so.
    pub(crate) since: Instant,
    /// First message of that time.
    pub(crate) first: u64,
    /// Last message of that time; `None` while it lasts.
    pub(crate) last: Option<u64>,
}

/// What one receiver got of one sender in one group.
#[derive(Debug, Default)]
pub(crate) struct Track {
    pub(crate) delivered: Runs,
    pub(crate) lost: Runs,
    /// Of these, messages that had expired.
    pub(crate) expired: Runs,
    /// Highest number delivered.
    pub(crate) highest: u64,
    /// The number that must come next without a gap; `None` after the receiver has left.
    next: Option<u64>,
}

/// Numbers that were skipped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gap {
    pub(crate) receiver: Origin,
    pub(crate) group: usize,
    pub(crate) sender: Origin,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Life {
    /// Whether it has ended, in order or not.
    pub(crate) fn died(&self) -> bool {
        self.ended.is_some()
    }
}

impl History {
    pub(crate) fn begin(&mut self, origin: Origin, host: usize, wants: BTreeMap<usize, Instant>) {
        self.lives.entry(origin).or_insert_with(|| Life {
            host,
            ended: None,
            closed: false,
            closed_without: BTreeSet::new(),
            wants,
            left: BTreeSet::new(),
            granted: BTreeMap::new(),
            regions: BTreeMap::new(),
            away: false,
            lost_packets: BTreeMap::new(),
        });
    }

    pub(crate) fn end(&mut self, origin: Origin, now: Instant) {
        if let Some(life) = self.lives.get_mut(&origin) {
            life.ended.get_or_insert(now);
        }
    }

    /// The life ends in order: the node has said goodbye, while these members were away.
    pub(crate) fn close(&mut self, origin: Origin, now: Instant, without: BTreeSet<Origin>) {
        self.end(origin, now);
        if let Some(life) = self.lives.get_mut(&origin) {
            life.closed = true;
            life.closed_without = without;
        }
    }

    pub(crate) fn want(&mut self, origin: Origin, group: usize, now: Instant) {
        if let Some(life) = self.lives.get_mut(&origin) {
            let again = life.left.contains(&group);
            let since = if again { Instant::NEVER } else { now };
            life.wants.entry(group).or_insert(since);
        }
    }

    /// Whether this life has taken up the group again, and has no answer to that yet.
    pub(crate) fn returns(&self, origin: Origin, group: usize) -> bool {
        let life = self.life(origin);
        life.is_some_and(|life| life.wants.get(&group) == Some(&Instant::NEVER))
    }

    /// The service has answered that this life receives the group again (R-MEM-9), in these views of
    /// the regions that have the group.
    pub(crate) fn granted(
        &mut self,
        origin: Origin,
        group: usize,
        now: Instant,
        views: BTreeMap<RegionId, ViewNumber>,
    ) {
        let Some(life) = self.lives.get_mut(&origin) else {
            return;
        };
        life.granted.insert(group, views);
        if let Some(since) = life.wants.get_mut(&group) {
            *since = now.min(*since);
        }
    }

    /// Whether who knows a receiver of the group by that view knows of its present stay. A receiver
    /// that has left the group and come back has former stays too, which old views tell of (R-MEM-9).
    /// Regions have rising numbers: one that is younger than all that had the group then is of this stay.
    pub(crate) fn is_present(&self, known: (Origin, RegionId, ViewNumber), group: usize) -> bool {
        let (origin, region, view) = known;
        let granted = self.life(origin).and_then(|life| life.granted.get(&group));
        granted.is_none_or(|views| match views.get(&region) {
            Some(since) => view >= *since,
            None => views.keys().all(|had| *had < region),
        })
    }

    pub(crate) fn unwant(&mut self, origin: Origin, group: usize) {
        if let Some(life) = self.lives.get_mut(&origin) {
            life.wants.remove(&group);
            life.left.insert(group);
        }
        let all = (origin, group, Origin::default())..=(origin, group, highest_origin());
        for (_, track) in self.tracks.range_mut(all) {
            track.next = None;
        }
    }

    pub(crate) fn entered_region(&mut self, origin: Origin, region: RegionId, now: Instant) {
        if let Some(life) = self.lives.get_mut(&origin) {
            life.regions.entry(region).or_insert(now);
        }
    }

    pub(crate) fn lives(&self) -> &BTreeMap<Origin, Life> {
        &self.lives
    }

    pub(crate) fn life(&self, origin: Origin) -> Option<&Life> {
        self.lives.get(&origin)
    }

    /// The node learns that nobody waits for it; if it is demoted, it gives up what it misses (R-RATE-12).
    pub(crate) fn set_away(&mut self, origin: Origin, reason: AwayReason) {
        if let Some(life) = self.lives.get_mut(&origin) {
            life.away = true;
        }
        if reason == AwayReason::Demoted {
            self.demoted.insert(origin);
        }
    }

    /// The node learns that it is live again.
    pub(crate) fn set_back(&mut self, origin: Origin) {
        if let Some(life) = self.lives.get_mut(&origin) {
            life.away = false;
        }
    }

    /// The receiver, which was away, lacks packets that the sender has freed: it keeps no more than
    /// was configured.
    pub(crate) fn note_overrun(&mut self, sender: Origin, receiver: Origin) {
        self.overruns.insert((sender, receiver));
    }

    /// Whether that receiver may have been told that it lost something of this sender.
    pub(crate) fn may_lose(&self, sender: Origin, receiver: Origin) -> bool {
        self.overruns.contains(&(sender, receiver)) || self.demoted.contains(&receiver)
    }

    /// Whether the node lives, in this life.
    pub(crate) fn alive(&self, origin: Origin) -> bool {
        self.life(origin).is_some_and(|life| life.ended.is_none())
    }

    /// Whether nothing that it has sent to that receiver may be lost, but for what it names: not if
    /// it has closed, in order, while the receiver had been taken out of its views (R-MEM-14).
    pub(crate) fn reliable_to(&self, origin: Origin, receiver: Origin) -> bool {
        let Some(life) = self.life(origin) else {
            return false;
        };
        life.ended.is_none() || life.closed && self.serves(origin, receiver)
    }

    /// What the receiver may lack of a group because it was away when the sender closed, in order:
    /// that has named it (R-VIEW-13). `None`: anything.
    pub(crate) fn excused(&self, sender: Origin, receiver: Origin, group: usize) -> Option<Runs> {
        match self.closed_without(sender, receiver) {
            true => self.unserved.of(sender, receiver, group),
            false => Some(Runs::default()),
        }
    }

    /// Tells whether the sender has named the receiver when it closed, in order.
    pub(crate) fn names(&self, sender: Origin, receiver: Origin) -> bool {
        self.closed_without(sender, receiver) && self.unserved.names(sender, receiver)
    }

    /// Whether the receiver has taken up a group again that it had given up, and the sender has
    /// published to that one.
    pub(crate) fn comes_back(&self, sender: Origin, receiver: Origin) -> bool {
        let life = self.life(receiver);
        let left = life.into_iter().flat_map(|life| &life.left);
        let mut left = left.filter(|group| life.is_some_and(|life| life.wants.contains_key(group)));
        left.any(|group| self.published(sender, *group) > 0)
    }

    /// Tells whether the receiver was away when the sender closed, in order, or when it said goodbye just
    /// before that.
    fn closed_without(&self, sender: Origin, receiver: Origin) -> bool {
        let life = self.life(sender).filter(|life| life.closed);
        let without = |life: &Life| life.closed_without.contains(&receiver);
        life.is_some_and(|life| without(life) || self.unserved.leaves(sender, receiver))
    }

    /// Whether the sender knew that receiver to the last.
    fn serves(&self, sender: Origin, receiver: Origin) -> bool {
        let groups = (sender, 0)..=(sender, usize::MAX);
        let mut sent = self.sent.range(groups).map(|(_, sent)| sent);
        let last = |sent: &Sent| Some(sent.audience.get(&receiver)?.last()?.last.is_none());
        sent.any(|sent| last(sent) == Some(true))
    }

    /// Whether nothing that it has sent may be lost.
    pub(crate) fn reliable(&self, origin: Origin) -> bool {
        self.life(origin)
            .is_some_and(|life| life.ended.is_none() || life.closed)
    }

    pub(crate) fn sent(&self) -> impl Iterator<Item = (Origin, usize, &Sent)> {
        self.sent
            .iter()
            .map(|((sender, group), sent)| (*sender, *group, sent))
    }

    pub(crate) fn published(&self, sender: Origin, group: usize) -> u64 {
        self.sent
            .get(&(sender, group))
            .map_or(0, |sent| sent.times.len() as u64)
    }

    pub(crate) fn publish(&mut self, sender: Origin, group: usize, now: Instant) {
        self.sent
            .entry((sender, group))
            .or_default()
            .times
            .push(now);
    }

    /// The sender knows these receivers of the group from now on.
    pub(crate) fn audience(
        &mut self,
        sender: Origin,
        group: usize,
        members: &[Origin],
        now: Instant,
    ) {
        let sent = self.sent.entry((sender, group)).or_default();
        let count = sent.times.len() as u64;
        for (member, stays) in &mut sent.audience {
            let gone = members.binary_search(member).is_err();
            if let Some(stay) = stays.last_mut().filter(|stay| gone && stay.last.is_none()) {
                stay.last = Some(count);
            }
        }
        for member in members {
            let stays = sent.audience.entry(*member).or_default();
            if stays.last().is_none_or(|stay| stay.last.is_some()) {
                // Most stay once: with many groups, room for more is most of the memory.
                stays.reserve_exact(1);
                stays.push(Stay {
                    since: now,
                    first: count + 1,
                    last: None,
                });
            }
        }
    }

    pub(crate) fn track(&self, receiver: Origin, group: usize, sender: Origin) -> Option<&Track> {
        self.tracks.get(&(receiver, group, sender))
    }

    pub(crate) fn tracks(&self) -> impl Iterator<Item = ((Origin, usize, Origin), &Track)> {
        self.tracks.iter().map(|(key, track)| (*key, track))
    }

    pub(crate) fn deliver(&mut self, receiver: Origin, group: usize, sender: Origin, number: u64) {
        let wanted = self
            .lives
            .get(&receiver)
            .is_some_and(|life| life.wants.contains_key(&group));
        let track = self.tracks.entry((receiver, group, sender)).or_default();
        if let Some(next) = track.next.filter(|next| *next < number) {
            self.gaps.push(Gap {
                receiver,
                group,
                sender,
                first: next,
                last: number - 1,
            });
        }
        track.delivered.add(number, number);
        track.highest = track.highest.max(number);
        track.next = wanted.then_some(number + 1);
    }

    pub(crate) fn lose(
        &mut self,
        receiver: Origin,
        group: usize,
        sender: Origin,
        first: u64,
        last: u64,
    ) {
        let track = self.tracks.entry((receiver, group, sender)).or_default();
        track.lost.add(first, last);
    }

    /// Lost messages had expired.
    pub(crate) fn expire(&mut self, lost: LostNumbers) {
        let key = (lost.receiver, lost.group, lost.sender);
        let track = self.tracks.entry(key).or_default();
        track.expired.add(lost.first, lost.last);
    }

    /// When a message was published.
    pub(crate) fn published_at(
        &self,
        sender: Origin,
        group: usize,
        number: u64,
    ) -> Option<Instant> {
        let at = usize::try_from(number.checked_sub(1)?).ok()?;
        self.sent.get(&(sender, group))?.times.get(at).copied()
    }

    /// The receiver was told that packets of the sender are lost.
    pub(crate) fn told_of_packets(&self, sender: Origin, receiver: Origin) -> bool {
        let life = self.life(receiver);
        life.is_some_and(|life| life.lost_packets.contains_key(&sender))
    }

    pub(crate) fn lose_packets(&mut self, receiver: Origin, sender: Origin, packets: u64) {
        if let Some(life) = self.lives.get_mut(&receiver) {
            *life.lost_packets.entry(sender).or_default() += packets;
        }
    }

    pub(crate) fn take_gaps(&mut self) -> Vec<Gap> {
        core::mem::take(&mut self.gaps)
    }
}

fn highest_origin() -> Origin {
    Origin {
        node: qsm_wire::NodeId(u64::MAX),
        incarnation: qsm_wire::Incarnation(u32::MAX),
    }
}
