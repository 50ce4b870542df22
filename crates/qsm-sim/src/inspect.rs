//! Looks at all nodes from outside, at regular times: what their senders say of themselves is
//! compared with what receivers have.

use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::receive::ReceiveStream;
use qsm_proto::region::{CaughtUpWord, Region};
use qsm_proto::send::SendStream;
use qsm_proto::view::RegionView;
use qsm_proto::{Event, Instant, UnservedCause, nanoseconds};
use qsm_wire::{Origin, RegionId, ViewNumber};

use crate::checkers::credit;
use crate::checkers::deafness::{Pair, is_filtered};
use crate::checkers::flush::Served;
use crate::checkers::retention;
use crate::checkers::unserved::Word;
use crate::faults::Fault;
use crate::hosts::ServicePatience;
use crate::machine::Machine;
use crate::mischief::Mischief;
use crate::options::SimOptions;
use crate::pattern::GroupPlan;
use crate::violation::Violation;
use crate::world::World;

/// Time before its last question from which on a member need not have everything when it says that it has
/// caught up: those that it asked may not have heard of it yet.
const LONG_BEFORE: Duration = Duration::from_secs(5);
/// Loss up to which a view and a round are sure to come through in time.
const LOSS_MAX_PPM: u32 = 10_000;

impl World {
    /// Judges what every sender says of itself at this moment.
    pub(crate) fn inspect(&mut self) -> Result<(), Violation> {
        self.judge_hang()?;
        if !self.checkers.armed {
            return Ok(());
        }
        self.judge_credit()?;
        self.judge_minimum()?;
        self.judge_addresses()?;
        if self.options.gone_after.is_zero() {
            return Ok(());
        }
        for host in 0..self.apps.len() {
            self.judge_flush(host)?;
        }
        self.judge_delays()?;
        self.judge_slowness()?;
        self.judge_hearing()
    }

    fn judge_flush(&mut self, host: usize) -> Result<(), Violation> {
        let (Some(sender), Some(machine)) = (self.apps[host].origin, self.engine.machine(host))
        else {
            return Ok(());
        };
        let mut flush = core::mem::take(&mut self.checkers.flush);
        for region in machine.all_regions() {
            let members = region.view().members().iter();
            let members = members.filter(|member| member.origin != sender);
            let served = members.filter_map(|member| self.served(member.origin, region.id()));
            let served: Vec<Served<'_>> = served.collect();
            flush.note(sender, region.id(), &served);
            if machine.is_stable() {
                flush.check(sender, region, &served)?;
            }
        }
        self.checkers.flush = flush;
        Ok(())
    }

    /// A member is live again: it has what was sent long before it asked for the last time, as far as members
    /// can give it that it has asked and that were still live when it said that it had caught up (R-VIEW-14). What
    /// nobody but its sender has comes when that speaks, and what had been published then and not sent yet,
    /// when it is sent. One that left while it was away, had what was for it, and enters again in the view
    /// that takes it out, is live again without that word (R-MEM-15): what was sent before that view is not
    /// for it (R-VIEW-6).
    pub(crate) fn judge_return(&self, host: usize, id: RegionId) -> Result<(), Violation> {
        let machine = self.engine.machine(host);
        let region = machine.and_then(|machine| machine.region(id));
        let (Some(me), Some(region)) = (self.apps[host].origin, region) else {
            return Ok(());
        };
        if !self.checkers.armed {
            return Ok(());
        }
        let said = region.said_caught_up();
        let joined = joined_in(region.view(), me);
        let joined = joined.filter(|view| said.is_none_or(|word| word.asked_in < *view));
        let of_view = |view: fn(&CaughtUpWord) -> ViewNumber| {
            let view = said.as_ref().map_or(ViewNumber(0), view);
            region.history().nearest(view)
        };
        let asked = of_view(|word| word.asked_in);
        let known = of_view(|word| word.known);
        let ago = said.map_or(Duration::ZERO, |word| {
            self.engine.since(host, word.asked_at)
        });
        let long_before = nanoseconds(LONG_BEFORE + ago);
        let long_before = Instant(self.engine.now().0.saturating_sub(long_before));
        let history = &self.checkers.history;
        for (sender, app) in self.apps.iter().enumerate() {
            let origin = app.origin.filter(|_| self.engine.is_running(sender));
            let was_away = |origin| asked.index_of(origin).is_some() && !is_live_in(asked, origin);
            let owes = |origin: &Origin| *origin != me && !was_away(*origin);
            let Some(origin) = origin.filter(owes) else {
                continue;
            };
            let theirs = self.engine.machine(sender).and_then(|one| one.region(id));
            let own = theirs.and_then(Region::own_stream);
            let sent = |own: &SendStream| self.checkers.sendings.upto(own.id(), long_before);
            let Some(own) = own.filter(|own| own.stable_upto() >= sent(own)) else {
                continue;
            };
            let Some(has) = region.stream(origin).map(ReceiveStream::contiguous) else {
                continue;
            };
            let before = joined.and_then(|joined| own.last_before(joined));
            let (has, sent) = (has.max(before.unwrap_or(0)), sent(own));
            let mut lacks = has + 1..=sent;
            let members = asked.live_members().iter().map(|member| member.origin);
            let others: Vec<Origin> = members.filter(|one| is_live_in(known, *one)).collect();
            let gives =
                |at, member: &Origin| *member != me && self.can_give(*member, id, origin, at);
            let owed = has < sent && !history.may_lose(origin, me);
            if owed && lacks.all(|at| others.iter().any(|member| gives(at, member))) {
                let message = format!(
                    "{me} is live again in region {id}, but has of {origin} only {has} of {sent}, \
                     sent long before"
                );
                return Err(Violation::new("flush", message));
            }
        }
        Ok(())
    }

    /// The member has that packet of the sender, which it may be itself, and others ask it for that: who
    /// keeps one for parities of its block is no cacher of it.
    fn can_give(&self, member: Origin, region: RegionId, sender: Origin, packet: u64) -> bool {
        let host = self.checkers.history.life(member).map(|life| life.host);
        let host = host.filter(|host| self.apps[*host].origin == Some(member));
        let machine = host.and_then(|host| self.engine.machine(host));
        let Some(machine) = machine.filter(|_| member != sender) else {
            return member == sender;
        };
        let part = machine.region(region);
        let caches = part.is_some_and(|part| {
            let stream = part.stream(sender);
            let view = stream.map(|stream| stream.view_of(packet, part.history()));
            view.is_some_and(|view| part.history().role(view, packet).keeps)
        });
        caches && machine.holds(region, sender, packet)
    }

    fn served(&self, origin: Origin, region: RegionId) -> Option<Served<'_>> {
        let life = self.checkers.history.life(origin)?;
        let here = self.apps[life.host].origin == Some(origin);
        let machine = self.engine.machine(life.host).filter(|_| here)?;
        let known = machine.region(region).map(Region::view);
        let member = known.is_some_and(|view| view.index_of(origin).is_some());
        Some(Served {
            origin,
            machine,
            away: life.away,
            left: !member && life.regions.contains_key(&region),
        })
    }

    /// Notes who lacks packets that a sender has just freed for want of room, and judges whether it
    /// keeps as much as it should (R-VIEW-13).
    pub(crate) fn note_overruns(&mut self, host: usize) -> Result<(), Violation> {
        let (Some(sender), Some(machine)) = (self.apps[host].origin, self.engine.machine(host))
        else {
            return Ok(());
        };
        let loses = !self.options.gone_after.is_zero() || self.options.minimum_packets() > 0;
        if !self.checkers.armed || !loses {
            return Ok(());
        }
        let streams = machine.all_regions();
        let overruns = streams.filter_map(|region| Some((region, region.own_stream()?.overrun())));
        let mut lacking: Vec<Origin> = Vec::new();
        for (region, overrun) in overruns.filter(|(_, overrun)| *overrun > 0) {
            let key = (sender, region.id());
            if self.overruns.insert(key, overrun) == Some(overrun) {
                continue;
            }
            retention::check(sender, machine, &self.options)?;
            let members = region.view().members().iter();
            let lacks = members.filter(|member| {
                let life = self.checkers.history.life(member.origin);
                let machine = life.and_then(|life| self.engine.machine(life.host));
                let stream = machine.and_then(|one| one.region(region.id())?.stream(sender));
                stream.map_or(0, ReceiveStream::contiguous) < overrun
            });
            lacking.extend(lacks.map(|member| member.origin));
        }
        for receiver in lacking {
            self.checkers.history.note_overrun(sender, receiver);
        }
        Ok(())
    }

    fn judge_delays(&mut self) -> Result<(), Violation> {
        let now = self.engine.now();
        let hosts = 0..self.apps.len();
        let silent: Vec<usize> = hosts
            .filter(|host| !self.engine.is_running(*host))
            .collect();
        self.checkers.delays.note_silent(now, &silent);
        if !is_calm(&self.options) {
            return Ok(());
        }
        for host in 0..self.apps.len() {
            let Some(sender) = self.apps[host].origin else {
                continue;
            };
            if silent.contains(&host) {
                self.checkers.delays.forget(sender);
                continue;
            }
            let regions = self.engine.machine(host).into_iter();
            let waits: Vec<_> = regions
                .flat_map(Machine::all_regions)
                .filter_map(|region| Some((region.id(), self.waits_for(sender, region)?)))
                .collect();
            for (region, (stable, behind)) in waits {
                let stream = (region, sender);
                self.checkers.delays.check(now, stream, stable, &behind)?;
            }
        }
        Ok(())
    }

    /// How far a node's own stream is stable, and the hosts of members that have no more, if it goes
    /// further. Where nobody else is live there is nobody to delay.
    fn waits_for(&self, sender: Origin, region: &Region) -> Option<(u64, Vec<usize>)> {
        let own = region.own_stream()?;
        let stable = own.stable_upto();
        let mut live = region.view().live_members().iter();
        let others = live.any(|member| {
            let life = self.checkers.history.life(member.origin);
            life.is_some_and(|life| self.engine.is_running(life.host))
        });
        if stable >= own.highest() || !others {
            return Some((stable, Vec::new()));
        }
        let members = region.view().members().iter();
        let members = members.filter(|member| member.origin != sender);
        let behind = members.filter_map(|member| {
            let life = self.checkers.history.life(member.origin)?;
            let machine = self.engine.machine(life.host);
            let part = machine.and_then(|machine| machine.region(region.id()));
            let stream = part.and_then(|part| part.stream(sender));
            let has = stream.map_or(0, ReceiveStream::contiguous);
            (has <= stable).then_some(life.host)
        });
        Some((stable, behind.collect()))
    }
}

impl World {
    /// Senders have the credit that receivers grant.
    fn judge_credit(&self) -> Result<(), Violation> {
        for host in 0..self.apps.len() {
            let regions = self.engine.machine(host).into_iter();
            let regions = regions.flat_map(|machine| machine.all_regions());
            for stream in regions.filter_map(|region| region.own_stream()) {
                credit::check(&self.options, stream)?;
            }
        }
        Ok(())
    }

    /// Senders that no receiver may hold go on, unless they stand still or have too much to read.
    fn judge_minimum(&mut self) -> Result<(), Violation> {
        if self.options.minimum_packets() == 0 {
            return Ok(());
        }
        let now = self.engine.now();
        for (host, app) in self.apps.iter().enumerate() {
            let Some(sender) = app.origin else { continue };
            let idle = self.engine.is_running(host) && !self.engine.is_behind(host);
            let Some(machine) = self.engine.machine(host).filter(|_| idle) else {
                self.checkers.minimum.forget(sender);
                continue;
            };
            for region in machine.all_regions() {
                if let Some(stream) = region.own_stream() {
                    let minimum = &mut self.checkers.minimum;
                    minimum.check(now, &self.options, region.id(), stream)?;
                }
            }
        }
        Ok(())
    }

    /// Where nothing but slow hosts goes wrong, one that alone is slow is away in the end.
    fn judge_slowness(&mut self) -> Result<(), Violation> {
        if !self.options.paces.is_empty() {
            // Senders may have to wait for longer.
            return Ok(());
        }
        if !is_only_slow(&self.options) {
            return Ok(());
        }
        let holders = self.holders();
        let (now, slow_after) = (self.engine.now(), self.options.slow_after);
        self.checkers.slowness.check(now, slow_after, &holders)
    }

    /// Tells whether senders wait for the application on this host.
    fn has_full_readers(&self, host: usize) -> bool {
        let machine = self.engine.machine(host).into_iter();
        let mut regions = machine.flat_map(Machine::all_regions);
        regions.any(Region::waits_for_readers)
    }

    /// Regions and their members on the only host that is behind, as far as others wait for them;
    /// true: a sender there has more to send than it may.
    fn holders(&self) -> BTreeMap<(RegionId, Origin), bool> {
        let mut holders = BTreeMap::new();
        let hosts = 0..self.apps.len();
        let behind: Vec<usize> = hosts
            .filter(|host| self.engine.is_behind(*host) || self.has_full_readers(*host))
            .collect();
        let [slow] = behind[..] else { return holders };
        let Some(member) = self.apps[slow].origin else {
            return holders;
        };
        let others = (0..self.apps.len()).filter(|host| *host != slow);
        let machines = others.filter_map(|host| self.engine.machine(host));
        for region in machines.flat_map(Machine::all_regions) {
            let live = region.view().live_members();
            let waits = live.len() > 1 && live.iter().any(|one| one.origin == member);
            if let Some(own) = region.own_stream().filter(|_| waits) {
                *holders.entry((region.id(), member)).or_default() |= own.is_held();
            }
        }
        holders
    }

    /// A node says that multicast does not reach a member.
    pub(crate) fn said_deaf(&mut self, word: &qsm_proto::Deafness) -> Result<(), Violation> {
        let host = |origin| self.checkers.history.life(origin).map(|life| life.host);
        let (Some(listener), Some(speaker)) = (host(word.listener), host(word.speaker)) else {
            return Ok(());
        };
        if !self.checkers.armed {
            return Ok(());
        }
        let (now, hosts) = (self.engine.now(), [listener, speaker]);
        let deafness = &mut self.checkers.deafness;
        deafness.begin(&self.options, now, word, hosts)
    }

    /// A sender names receivers that may lack something.
    pub(crate) fn said_unserved(&mut self, sender: Origin, event: &Event) {
        let Event::Unserved {
            receivers,
            receivers_more,
            messages,
            messages_more,
            cause,
            ..
        } = event
        else {
            return;
        };
        if self.options.mischief == Mischief::OverrunUnsaid && *cause == UnservedCause::Overrun {
            return;
        }
        let messages = messages.iter();
        let messages =
            messages.map(|range| (GroupPlan::number(&range.group), range.first, range.last));
        let messages = messages.collect();
        let more = *receivers_more > 0 || *messages_more > 0 || self.counts_anew(sender);
        self.checkers.history.unserved.note(&Word {
            sender,
            receivers,
            messages,
            more,
            left: matches!(cause, UnservedCause::Away | UnservedCause::Ended),
        });
    }

    /// Where nothing but filters goes wrong, what they keep back is named.
    fn judge_hearing(&mut self) -> Result<(), Violation> {
        if !is_only_filtered(&self.options) {
            return Ok(());
        }
        let now = self.engine.now();
        for pair in self.pairs() {
            self.checkers.deafness.check(now, pair)?;
        }
        Ok(())
    }

    /// All senders and the receivers of their regions.
    fn pairs(&self) -> Vec<Pair> {
        let now = self.engine.now();
        let mut pairs = Vec::new();
        for (host, app) in self.apps.iter().enumerate() {
            let machine = self.engine.machine(host);
            let (Some(speaker), Some(machine)) = (app.origin, machine) else {
                continue;
            };
            for region in machine.all_regions() {
                self.add_pairs(now, host, speaker, region, &mut pairs);
            }
        }
        pairs
    }

    /// A sender on that host, and the other receivers of one of its regions.
    fn add_pairs(
        &self,
        now: Instant,
        host: usize,
        speaker: Origin,
        region: &Region,
        pairs: &mut Vec<Pair>,
    ) {
        // Nobody has to hear multicast where everything goes by unicast (R-VIEW-15).
        let path = region.view().path();
        let Some(own) = region.own_stream().filter(|_| path.is_multicast()) else {
            return;
        };
        let members = region.view().live_members().iter();
        for member in members.filter(|member| !member.leaving()) {
            let life = self.checkers.history.life(member.origin);
            let other = life.map_or(host, |life| life.host);
            if other != host {
                pairs.push(Pair {
                    region: region.id(),
                    listener: member.origin,
                    speaker,
                    sent: own.highest(),
                    filtered: is_filtered(&self.options, now, [other, host]),
                });
            }
        }
    }
}

/// The view in which a member of this one has joined.
fn joined_in(view: &RegionView, member: Origin) -> Option<ViewNumber> {
    let member = view.member(view.index_of(member)?)?;
    Some(member.joined)
}

fn is_live_in(view: &RegionView, member: Origin) -> bool {
    view.index_of(member).is_some_and(|at| view.is_live(at))
}

/// Whether nothing goes wrong but multicast that does not pass, on a network that loses little.
fn is_only_filtered(options: &SimOptions) -> bool {
    let network = &options.network;
    let lossy = network.loss_ppm + network.shared_loss_ppm + network.damage_ppm > LOSS_MAX_PPM;
    let slow = network.membership_lag_ppm > 0 || network.burst.is_some() || network.sites.count > 1;
    let mut faults = options.faults.iter();
    let filters = faults.all(|(_, fault)| matches!(fault, Fault::Filter { .. }));
    let settled = options.churn.is_empty() && options.recovery.reach;
    filters && settled && !lossy && !slow && !options.pace.rings_in_turn
}

/// Tells whether nothing but slow hosts can hold anybody.
fn is_only_slow(options: &SimOptions) -> bool {
    let services: Vec<usize> = options.services().collect();
    let slow = |fault: &Fault| match fault {
        Fault::Slow { host, .. } | Fault::Full { host } | Fault::Read { host } => {
            !services.contains(host)
        }
        _ => false,
    };
    let judged = !options.slow_after.is_zero() && options.churn.is_empty();
    judged && is_prompt(options) && options.faults.iter().all(|(_, fault)| slow(fault))
}

/// Whether nothing but nodes that stand still can delay anybody.
fn is_calm(options: &SimOptions) -> bool {
    let services: Vec<usize> = options.services().collect();
    let harmless = |fault: &Fault| match fault {
        Fault::Freeze { host, .. } | Fault::Sleep { host, .. } => !services.contains(host),
        _ => false,
    };
    is_prompt(options) && options.faults.iter().all(|(_, fault)| harmless(fault))
}

/// Tells whether views and rounds come through in time, as far as the network and the settings go.
fn is_prompt(options: &SimOptions) -> bool {
    let network = &options.network;
    let lossy = network.loss_ppm + network.shared_loss_ppm + network.damage_ppm > LOSS_MAX_PPM;
    let slow = network.membership_lag_ppm > 0 || network.burst.is_some() || network.sites.count > 1;
    let patient = options.patience != ServicePatience::default();
    options.recovery.fast && !options.pace.rings_in_turn && !lossy && !slow && !patient
}
