//! Applications on the engine's hosts: they start, enter groups, publish and receive; whatever
//! they see goes to the checkers.

mod batches;
mod expiry;
mod foreign;
mod insider;
mod names;
mod origin;
mod plans;
mod prompt;
mod repairs;
mod totals;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use qsm_proto::stats::Histogram;
use qsm_proto::{Config, Event, Instant, Introduction, PublishError, Random, Seed, mix};
use qsm_wire::membership::{Answer, Role};
use qsm_wire::{GroupId, NodeId, Origin, RegionId, StreamId, ViewNumber};

use crate::checkers::{Arrival, Checkers, lost::LostNumbers, memory, pauses, slowness, views};
use crate::clock::Clock;
use crate::content;
use crate::coverage::Coverage;
use crate::engine::{Engine, EngineOptions, Outputs, Task};
use crate::hosts::{HostRole, node_id};
use crate::latency::Stability;
use crate::machine::{Delivered, Loss, Machine, NodeKind};
use crate::options::SimOptions;
use crate::pattern::GroupPlan;
use crate::report::Counters;
use crate::violation::Violation;

/// For so long after a sender's end its packets may still arrive somewhere, so that a node which
/// has just said that it lacks one gets it.
const STRAGGLE: Duration = Duration::from_secs(1);

/// The application on one host.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) node: NodeId,
    /// Processes started so far.
    starts: u64,
    pub(crate) origin: Option<Origin>,
    /// What it wants: kept over restarts.
    pub(crate) roles: BTreeSet<(usize, Role)>,
    /// Since when it wants to receive, in this process.
    since: BTreeMap<usize, Instant>,
    /// Groups by the numbers that this process knows.
    ids: BTreeMap<GroupId, usize>,
    pub(crate) requests: BTreeSet<u32>,
    /// The last request to subscribe again to each group, until it is answered.
    entering: BTreeMap<usize, u32>,
    /// The last request to receive each group no more, until it is answered.
    exiting: BTreeMap<usize, u32>,
    pub(crate) closing: bool,
    /// Regions that it knew when its receivers were looked at last.
    regions: usize,
}

/// Everything that is simulated.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) options: SimOptions,
    pub(crate) engine: Engine,
    pub(crate) checkers: Checkers,
    pub(crate) apps: Vec<App>,
    pub(crate) random: Random,
    pub(crate) published: u64,
    pub(crate) refused: u64,
    /// Crashes, freezes, splits and changes of membership so far.
    pub(crate) disturbances: u64,
    pub(crate) coverage: Coverage,
    pub(crate) stability: Stability,
    /// Counters of processes that have ended, by host.
    ended: Vec<Counters>,
    /// Their times of repairs.
    ended_repairs: Histogram,
    node_kind: NodeKind,
    payload: Vec<u8>,
    /// What a sender had published to a group before the group had this number. A group that
    /// everybody has left gets a new one, and messages are numbered from 1 again.
    bases: BTreeMap<(Origin, GroupId), u64>,
    /// Packets of streams up to here were freed although members lacked them.
    pub(crate) overruns: BTreeMap<(Origin, RegionId), u64>,
}

impl World {
    /// All hosts, with a process on each.
    pub(crate) fn new(options: SimOptions, node_kind: NodeKind) -> Result<Self, Violation> {
        let seed = Seed(options.seed);
        let engine = EngineOptions {
            network: options.network,
            mischief: options.mischief,
            sends_limited: options.pace.node_bytes_per_second > 0,
            invariants_every: options.invariants_every,
            trace_lines: options.trace_lines,
            refusals: options.refusals,
            tagged: options.tagged,
        };
        let mut world = Self {
            engine: Engine::new(engine, seed),
            checkers: Checkers::new(options.sizes),
            apps: Vec::new(),
            random: Random::new(seed, "world"),
            published: 0,
            refused: 0,
            disturbances: 0,
            coverage: Coverage::default(),
            stability: Stability::default(),
            ended: vec![Counters::new(); options.nodes + 1],
            ended_repairs: Histogram::new(),
            node_kind,
            payload: Vec::new(),
            bases: BTreeMap::new(),
            overruns: BTreeMap::new(),
            options,
        };
        world.begin_lies();
        world.add_hosts();
        world.plan_roles();
        for host in 0..=world.options.nodes {
            world.start(host, true)?;
        }
        Ok(world)
    }

    fn add_hosts(&mut self) {
        let drift = u64::from(self.options.drift_ppm_max);
        for host in 0..=self.options.nodes {
            let wander = self.random.below(2 * drift + 1);
            let drift_ppm =
                i64::try_from(wander).unwrap_or(0) - i64::from(self.options.drift_ppm_max);
            let offset = self.random.below(1 << 40);
            let clock = Clock::new(offset, i32::try_from(drift_ppm).unwrap_or(0));
            self.engine.add_host(self.options.address(host), clock);
            let node = self.options.host(host).is_node();
            if let Some(costs) = self.options.costs.filter(|_| node) {
                self.engine.set_costs(host, costs, 0);
            }
            self.apps.push(App {
                node: NodeId(0),
                starts: 0,
                origin: None,
                roles: BTreeSet::new(),
                since: BTreeMap::new(),
                ids: BTreeMap::new(),
                requests: BTreeSet::new(),
                entering: BTreeMap::new(),
                exiting: BTreeMap::new(),
                closing: false,
                regions: 0,
            });
        }
        for host in 0..=self.options.nodes {
            if let Some(second) = self.options.second_address(host) {
                self.engine.add_second(host, second);
            }
        }
    }

    /// What applications want from the start.
    fn plan_roles(&mut self) {
        for (group, plan) in self.options.groups.iter().enumerate() {
            let planned = [
                (Role::Subscriber, &plan.subscribers),
                (Role::Publisher, &plan.publishers),
            ];
            for (role, hosts) in planned {
                for host in hosts {
                    self.apps[*host].roles.insert((group, role));
                }
            }
        }
    }

    /// A process starts on the host and enters its groups.
    pub(crate) fn start(&mut self, host: usize, same_node: bool) -> Result<(), Violation> {
        self.stop(host);
        let local = self.engine.local(host);
        let app = &mut self.apps[host];
        if !same_node || app.starts == 0 {
            app.node = node_id(self.options.seed, host, app.starts);
        }
        app.starts += 1;
        self.checkers.divisions.start(app.node, host);
        app.since.clear();
        app.ids.clear();
        app.requests.clear();
        app.entering.clear();
        app.exiting.clear();
        app.closing = false;
        let draw = self.options.seed.wrapping_add(app.starts << 40) ^ (host as u64);
        let seed = Seed(mix(draw));
        let plan = self.options.host(host);
        let usual = Config::new(app.node, self.options.address(host));
        let name = self.options.node_name(host);
        let introduction = self.options.tells_rates.then(|| Introduction {
            host: "sim".to_owned(),
            version: "sim".to_owned(),
        });
        let config = Config {
            name: name.unwrap_or_else(|| usual.name.clone()),
            introduction,
            cluster: "sim".to_owned(),
            discovery: plan.discovery(),
            multicast: self.options.multicast,
            service: self.options.told_service(),
            second: self.options.second_address(host),
            layout: self.options.layout,
            datagram_bytes: self.options.network.mtu_bytes,
            receive_buffer_bytes: self.options.network.receive_buffer_bytes,
            limits: self.options.node_limits(),
            recovery: self.options.recovery,
            pace: self.options.node_pace(),
            ..usual
        };
        let machine = match plan.role {
            HostRole::Observer => Ok(Machine::observer(&config, seed, local)),
            _ => {
                let service = self.options.service_config(host, &config);
                self.node_kind.machine(service, config, seed, local)
            }
        };
        let machine = self.with_origin(host, machine)?;
        self.engine.start(host, machine, plan.discovery());
        // A first call, so that what a machine wants to send at its start leaves.
        self.engine
            .drive(host, |machine, now, out| machine.handle_timeout(now, out))?;
        self.react(host)?;
        self.want_promptly(host)?;
        for role in [Role::Subscriber, Role::Publisher] {
            let groups: Vec<usize> = self.apps[host]
                .roles
                .iter()
                .filter(|entry| entry.1 == role)
                .map(|entry| entry.0)
                .collect();
            if !groups.is_empty() {
                self.change(host, role, &groups, true)?;
            }
        }
        Ok(())
    }

    /// The host's process dies.
    pub(crate) fn stop(&mut self, host: usize) {
        if let Some(machine) = self.engine.machine(host) {
            totals::add(&mut self.ended[host], machine.counters());
            self.ended_repairs += machine.repairs();
        }
        self.engine.stop(host);
        self.checkers.expiry.forget(host);
        self.checkers.repairs.forget(host);
        self.checkers.sending.forget(host);
        if let Some(origin) = self.apps[host].origin.take() {
            self.checkers.history.end(origin, self.engine.now());
        }
    }

    /// The application takes up or gives up a role in groups.
    pub(crate) fn change(
        &mut self,
        host: usize,
        role: Role,
        groups: &[usize],
        enter: bool,
    ) -> Result<(), Violation> {
        let now = self.engine.now();
        for group in groups {
            let app = &mut self.apps[host];
            match (role, enter) {
                (_, true) => app.roles.insert((*group, role)),
                (_, false) => app.roles.remove(&(*group, role)),
            };
            if role == Role::Subscriber {
                self.set_want(host, *group, enter, now);
            }
        }
        let names: Vec<String> = groups.iter().map(|group| GroupPlan::name(*group)).collect();
        let request = self.engine.drive(host, |machine, local, _| {
            if enter {
                machine.enter(local, role, names)
            } else {
                machine.exit(local, role, names)
            }
        })?;
        let app = &mut self.apps[host];
        if let Some(request) = request.flatten() {
            app.requests.insert(request);
            let origin = app.origin.unwrap_or_default();
            let history = &self.checkers.history;
            let again = groups
                .iter()
                .filter(|group| enter && history.returns(origin, **group));
            app.entering.extend(again.map(|group| (*group, request)));
            if role == Role::Subscriber && !enter {
                app.exiting
                    .extend(groups.iter().map(|group| (*group, request)));
            }
        }
        self.react(host)
    }

    fn answered(&mut self, host: usize, request: u32) {
        let app = &mut self.apps[host];
        app.requests.remove(&request);
        app.exiting.retain(|_, last| *last != request);
        let (history, now) = (&mut self.checkers.history, self.engine.now());
        let machine = self.engine.machine(host);
        app.entering.retain(|group, last| {
            if let Some(origin) = app.origin.filter(|_| *last == request) {
                let views = machine.map(|machine| machine.views_of(&GroupPlan::name(*group)));
                history.granted(origin, *group, now, views.unwrap_or_default());
            }
            *last != request
        });
    }

    fn set_want(&mut self, host: usize, group: usize, enter: bool, now: Instant) {
        let app = &mut self.apps[host];
        let since = if enter {
            Some(*app.since.entry(group).or_insert(now))
        } else {
            app.since.remove(&group);
            None
        };
        if let Some(origin) = app.origin {
            match since {
                Some(since) => self.checkers.history.want(origin, group, since),
                None => {
                    self.checkers.history.unwant(origin, group);
                    self.checkers.prompt.unwant(origin, group);
                }
            }
        }
    }

    /// Publishes the sender's next message to the group; whether it was accepted.
    pub(crate) fn publish(&mut self, host: usize, group: usize) -> Result<bool, Violation> {
        let Some(origin) = self.apps[host].origin.filter(|_| !self.apps[host].closing) else {
            return Ok(false);
        };
        let name = GroupPlan::name(group);
        let machine = self.engine.machine(host);
        let Some(id) = machine.and_then(|machine| machine.group(&name)) else {
            return Ok(false);
        };
        let published = self.checkers.history.published(origin, group);
        let base = *self.bases.entry((origin, id)).or_insert(published);
        let number = published + 1;
        let key = content::key(group, origin, number);
        let mut payload = core::mem::take(&mut self.payload);
        content::fill(key, content::length(self.options.sizes, key), &mut payload);
        self.refresh_closed(host);
        let way = self.way(host, id);
        let batching = self.options.node_batching(group);
        let result = self.engine.drive(host, |machine, now, out| {
            machine.publish(now, id, &payload, batching, out)
        });
        self.payload = payload;
        let accepted = match result? {
            Some(Ok(given)) if base + given == number || !self.checkers.armed => {
                self.note_published(host, group);
                self.went(host, way)?;
                true
            }
            Some(Ok(given)) => {
                let message = format!(
                    "{origin}/{name}: published #{given}, expected #{}",
                    number - base
                );
                return Err(Violation::new("numbering", message));
            }
            Some(Err(PublishError::TooLarge { length, max })) => {
                let message = format!("{name}: {length} bytes refused, allowed are {max}");
                return Err(Violation::new("numbering", message));
            }
            Some(Err(PublishError::WindowFull { .. })) => {
                self.refused += 1;
                false
            }
            Some(Err(_)) | None => false,
        };
        self.react(host)?;
        Ok(accepted)
    }

    /// Hands the outputs of the host's last input to application and checkers.
    pub(crate) fn react(&mut self, host: usize) -> Result<(), Violation> {
        let outputs = core::mem::take(self.engine.outputs());
        let result = self.look_at(host, &outputs);
        *self.engine.outputs() = outputs;
        result
    }

    fn look_at(&mut self, host: usize, outputs: &Outputs) -> Result<(), Violation> {
        if self.checkers.is_liar(host) {
            return self.look_at_liar(host, outputs);
        }
        let mut losses = outputs.deliveries.losses().iter().peekable();
        for (index, row) in outputs.deliveries.rows().iter().enumerate() {
            while let Some((_, loss)) = losses.next_if(|(before, _)| *before <= index) {
                self.lost(host, loss)?;
            }
            self.delivered(host, row, outputs.deliveries.bytes(row))?;
        }
        for (_, loss) in losses {
            self.lost(host, loss)?;
        }
        for row in outputs.deliveries.prompt() {
            self.handed_out(host, row, outputs)?;
        }
        for event in &outputs.events {
            self.event(host, event)?;
        }
        self.checkers.step_done()?;
        self.sent(host, outputs)?;
        self.repaired(host, outputs)?;
        self.bounded(host, outputs)?;
        self.note_overruns(host)?;
        self.judge_batching(host)?;
        if let Some(machine) = self.engine.machine(host) {
            let (send, receive) = machine.memory_bytes();
            memory::check(self.apps[host].node, &self.options.limits, send, receive)?;
        }
        let closed =
            self.apps[host].closing && self.engine.machine(host).is_some_and(Machine::is_closed);
        if closed {
            if let Some(origin) = self.apps[host].origin {
                let without = self.engine.machine(host).map(Machine::away_members);
                let (now, without) = (self.engine.now(), without.unwrap_or_default());
                self.checkers.history.close(origin, now, without);
            }
            self.stop(host);
        }
        Ok(())
    }

    /// Judges what a node has said and how much it has sent.
    fn sent(&mut self, host: usize, outputs: &Outputs) -> Result<(), Violation> {
        if !self.checkers.armed {
            return Ok(());
        }
        let now = self.engine.now();
        for train in &outputs.data {
            let pace = &self.options.pace;
            self.checkers.rate.check(now, host, train, pace)?;
            let Some(origin) = self.apps[host].origin else {
                continue;
            };
            let channel = train.channel;
            let stream = StreamId { origin, channel };
            self.checkers.sendings.note(now, stream, train.last);
            if !train.copy {
                self.stability.sent(now, origin, train.packets);
            }
        }
        for said in &outputs.tokens {
            self.checkers.cutoff.check(said)?;
        }
        if outputs.claims.is_empty() {
            return Ok(());
        }
        let Some(leader) = self.engine.machine(host) else {
            return Ok(());
        };
        let history = &self.checkers.history;
        for claim in &outputs.claims {
            self.stability
                .stable(now, claim.sender(), claim.stable_upto());
            let region = leader.region(claim.region());
            let view = region.and_then(|region| region.history().exact(claim.view()));
            let (Some(region), Some(view)) = (region, view) else {
                continue;
            };
            let members = view.members().iter().map(|member| member.origin);
            let live: Vec<(Origin, &Machine)> = members
                .chain([claim.sender()])
                .filter_map(|origin| Some((origin, history.life(origin)?.host)))
                .filter(|(origin, host)| self.apps[*host].origin == Some(*origin))
                .filter_map(|(origin, host)| Some((origin, self.engine.machine(host)?)))
                .collect();
            let overrun = self.overruns.get(&(claim.sender(), claim.region()));
            let overrun = overrun.copied().unwrap_or(0);
            let watermarks = &mut self.checkers.watermarks;
            watermarks.check(claim, region, &live, overrun)?;
        }
        Ok(())
    }

    /// A receiver has given up packets of this sender.
    fn gave_up(&mut self, host: usize, sender: Origin) -> Result<(), Violation> {
        let (Some(receiver), Some(machine)) = (self.apps[host].origin, self.engine.machine(host))
        else {
            return Ok(());
        };
        let now = self.engine.now();
        let ended = self
            .checkers
            .history
            .life(sender)
            .and_then(|life| life.ended);
        if ended.is_none_or(|ended| now.since(ended) < STRAGGLE) {
            // Not judged later either, by what others have then.
            self.checkers.copies.excuse(receiver, machine, sender);
            return Ok(());
        }
        let others: Vec<(Origin, &Machine)> = self
            .apps
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != host && self.engine.is_running(*other))
            .filter(|(other, _)| !self.engine.parted(host, *other))
            .filter_map(|(other, app)| Some((app.origin?, self.engine.machine(other)?)))
            .collect();
        self.checkers
            .copies
            .check(receiver, machine, sender, &others)
    }

    fn delivered(&mut self, host: usize, row: &Delivered, bytes: &[u8]) -> Result<(), Violation> {
        let judged = !self.checkers.is_of_liar(row.sender);
        let Some(receiver) = self.apps[host].origin.filter(|_| judged) else {
            return Ok(());
        };
        let Some(group) = self.group_of(host, row.group) else {
            // What came for a group before the node left it, and is delivered in the same breath
            // in which it forgets the group, reaches no subscription.
            if !self.apps[host].requests.is_empty() {
                return Ok(());
            }
            let message = format!("{receiver} delivers to unknown group {}", row.group);
            return Err(Violation::new("creation", message));
        };
        self.checkers.delivered(Arrival {
            receiver,
            group,
            sender: row.sender,
            number: self.base(row.sender, row.group) + row.number,
            bytes,
        })
    }

    fn lost(&mut self, host: usize, loss: &Loss) -> Result<(), Violation> {
        let judged = !self.checkers.is_of_liar(insider::sender_of(loss));
        let Some(receiver) = self.apps[host].origin.filter(|_| judged) else {
            return Ok(());
        };
        match *loss {
            Loss::Messages {
                group,
                sender,
                first,
                last,
                expired,
            } => {
                let base = self.base(sender, group);
                let (first, last) = (base + first, base + last);
                let Some(group) = self.group_of(host, group) else {
                    return match expired {
                        true => Ok(()),
                        false => self.gave_up(host, sender),
                    };
                };
                let lost = LostNumbers {
                    receiver,
                    group,
                    sender,
                    first,
                    last,
                };
                if expired {
                    return self.expired(lost);
                }
                self.gave_up(host, sender)?;
                self.checkers.lost(receiver, group, sender, first, last)?;
                self.note_old(lost);
            }
            Loss::Packets { sender, packets } => {
                self.gave_up(host, sender)?;
                let history = &mut self.checkers.history;
                history.lose_packets(receiver, sender, packets);
            }
        }
        Ok(())
    }

    fn event(&mut self, host: usize, event: &Event) -> Result<(), Violation> {
        let now = self.engine.now();
        let origin = self.apps[host].origin;
        match (event, origin) {
            (Event::Admitted { incarnation }, _) => {
                let (node, incarnation) = (self.apps[host].node, *incarnation);
                self.admitted(host, Origin { node, incarnation });
            }
            (Event::Away { reason, .. }, Some(origin)) => {
                slowness::check_away(&self.options, host, *reason)?;
                self.checkers.history.set_away(origin, *reason);
            }
            (Event::Back { region, .. }, Some(origin)) => {
                self.checkers.history.set_back(origin);
                self.judge_return(host, *region)?;
            }
            (Event::Deaf(word), _) => self.said_deaf(word)?,
            (Event::Hears(word), _) => self.checkers.deafness.end(word),
            (Event::Unserved { .. }, Some(origin)) => self.said_unserved(origin, event),
            (Event::Expelled, _) => slowness::check_expelled(&self.options, host)?,
            (Event::Excluded, Some(origin)) => {
                if self.checkers.judges() && !slowness::may_be_expelled(&self.options, host) {
                    self.checkers.named(pauses::check(&self.options, host))?;
                }
                self.checkers.history.end(origin, now);
                self.apps[host].origin = None;
            }
            (Event::Answer(Answer { request, result }), _) => {
                if let Err(reason) = result {
                    let message = format!("host {host}: request {request} refused: {reason}");
                    return Err(Violation::new("requests", message));
                }
                self.answered(host, *request);
                self.refresh(host);
            }
            (Event::RegionView { region, view, .. }, Some(origin)) => {
                self.refresh(host);
                self.agree(host, *region, *view)?;
                if let Some(region) = self.engine.machine(host).and_then(|m| m.region(*region)) {
                    self.checkers.follow(region);
                }
                let regions = self.engine.machine(host).map(Machine::regions);
                for region in regions.into_iter().flatten() {
                    self.checkers.history.entered_region(origin, region, now);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn agree(&mut self, host: usize, region: RegionId, view: ViewNumber) -> Result<(), Violation> {
        let machine = self.engine.machine(host);
        let run = machine.and_then(Machine::service_run);
        let known = machine.and_then(|machine| machine.region(region)?.history().exact(view));
        match (self.apps[host].origin, run, known) {
            (Some(node), Some(run), Some(known)) if self.checkers.armed => {
                let agreement = &mut self.checkers.agreement;
                agreement.check(node, region, view, run, known.members())?;
                let divisions = &self.checkers.divisions;
                divisions.check(&self.options, region, view, known.members())
            }
            _ => Ok(()),
        }
    }

    /// A life begins, unless it is the one that goes on with another service.
    fn admitted(&mut self, host: usize, origin: Origin) {
        let now = self.engine.now();
        let app = &mut self.apps[host];
        if app.origin == Some(origin) {
            return;
        }
        if let Some(former) = app.origin.replace(origin) {
            self.checkers.history.end(former, now);
        }
        // Numbers of the former life are void.
        app.ids.clear();
        let groups = app.roles.iter().filter(|role| role.1 == Role::Subscriber);
        app.since = groups.map(|role| (role.0, now)).collect();
        let history = &mut self.checkers.history;
        history.begin(origin, host, app.since.clone());
        // Given up before this life began, and the service has yet to answer that (R-MEM-9).
        let left = app.exiting.keys();
        left.filter(|group| !app.since.contains_key(group))
            .for_each(|group| history.unwant(origin, *group));
    }

    /// Takes over whom the node knows as receivers of its groups.
    fn refresh(&mut self, host: usize) {
        let (Some(sender), Some(machine)) = (self.apps[host].origin, self.engine.machine(host))
        else {
            return;
        };
        let now = self.engine.now();
        self.apps[host].regions = machine.all_regions().count();
        let roles = self.apps[host].roles.iter();
        for (group, _) in roles.filter(|role| role.1 == Role::Publisher) {
            let Some(id) = machine.group(&GroupPlan::name(*group)) else {
                continue;
            };
            let history = &mut self.checkers.history;
            let mut receivers = machine.receivers(id);
            receivers.retain(|known| history.is_present(*known, *group));
            let mut receivers: Vec<_> = receivers.iter().map(|known| known.0).collect();
            receivers.sort_unstable();
            history.audience(sender, *group, &receivers, now);
        }
    }

    /// Does the same if regions have been closed for the node since: of that there is no event.
    fn refresh_closed(&mut self, host: usize) {
        let machine = self.engine.machine(host);
        let regions = machine.map_or(0, |machine| machine.all_regions().count());
        if regions != self.apps[host].regions {
            self.refresh(host);
        }
    }

    /// Tells whether the sender counts some group's messages anew.
    pub(crate) fn counts_anew(&self, sender: Origin) -> bool {
        let mut bases = self.bases.iter();
        bases.any(|((origin, _), base)| *origin == sender && *base > 0)
    }

    fn base(&self, sender: Origin, group: GroupId) -> u64 {
        self.bases.get(&(sender, group)).copied().unwrap_or(0)
    }

    fn group_of(&mut self, host: usize, id: GroupId) -> Option<usize> {
        let app = &mut self.apps[host];
        if let Some(group) = app.ids.get(&id) {
            return Some(*group);
        }
        let machine = self.engine.machine(host)?;
        let group = machine.group_name(id).and_then(GroupPlan::number)?;
        app.ids.insert(id, group);
        Some(group)
    }

    /// What is still different between what applications want and what senders see, if anything.
    pub(crate) fn disagreement(&self) -> Option<String> {
        let published: BTreeSet<usize> = self.senders().map(|(_, group, _)| group).collect();
        let mut members: BTreeMap<usize, BTreeSet<Origin>> = BTreeMap::new();
        for (host, app) in self.nodes() {
            if self.engine.machine(host).is_none() || !self.options.has_service_for(host) {
                continue;
            }
            let Some(origin) = app.origin else {
                return Some(format!("host {host} is not admitted"));
            };
            if let Some(request) = app.requests.first() {
                return Some(format!("host {host} waits for request {request}"));
            }
            let groups = app.roles.iter().filter(|role| role.1 == Role::Subscriber);
            for (group, _) in groups.filter(|(group, _)| published.contains(group)) {
                members.entry(*group).or_default().insert(origin);
            }
        }
        if let Some(lacks) = self.unlimited() {
            return Some(lacks);
        }
        self.senders().find_map(|(host, group, origin)| {
            let name = GroupPlan::name(group);
            let machine = self.engine.machine(host)?;
            let Some(id) = machine.group(&name) else {
                return Some(format!("{origin} does not know {name}"));
            };
            let wanted = members.remove(&group).unwrap_or_default();
            let known: Vec<_> = machine.receivers(id).iter().map(|known| known.0).collect();
            let difference = views::difference(&name, origin, &known, &wanted);
            members.insert(group, wanted);
            difference
        })
    }

    /// All hosts of nodes.
    fn nodes(&self) -> impl Iterator<Item = (usize, &App)> {
        let apps = self.apps.iter().enumerate();
        apps.filter(|(host, _)| self.options.host(*host).is_node())
    }

    /// All publishers that live, with their groups.
    pub(crate) fn senders(&self) -> impl Iterator<Item = (usize, usize, Origin)> + '_ {
        self.apps.iter().enumerate().flat_map(|(host, app)| {
            let origin = app.origin.filter(|_| self.engine.machine(host).is_some());
            let groups = app.roles.iter().filter(|role| role.1 == Role::Publisher);
            groups.filter_map(move |(group, _)| Some((host, *group, origin?)))
        })
    }

    /// Schedules the flow's next burst.
    pub(crate) fn schedule_flow(&mut self, flow: usize) {
        let interval = qsm_proto::nanoseconds(self.options.flows[flow].interval);
        let wait = interval / 2 + self.random.below(interval + 1);
        let at = self.engine.now().after(Duration::from_nanos(wait));
        self.engine.schedule(at, Task::Flow(flow));
    }
}
