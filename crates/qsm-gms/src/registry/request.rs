use std::collections::BTreeMap;

use qsm_proto::Instant;
use qsm_wire::membership::{Answer, Role, ToService};
use qsm_wire::{GroupId, NodeId, RegionId, ViewNumber};

use super::departure::DepartureEvent;
use super::groups::check_name;
use super::work::Work;
use super::{Node, Registry};

/// Requests of one node that may wait for a batch.
const REQUESTS_MAX: usize = 10_000;

/// What a node has asked for since the last batch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PendingRoles {
    pub(super) subscribe: BTreeMap<GroupId, bool>,
    pub(super) publish: BTreeMap<GroupId, bool>,
    /// Groups whose numbers it has to be told.
    pub(super) named: Vec<GroupId>,
    pub(super) requests: Vec<u32>,
}

/// Requests of nodes.
impl Registry {
    /// Takes a request as it came. The answer is that it is not possible; of one that is, a batch
    /// answers. What does not fit the state of its node changes nothing.
    pub(crate) fn request(
        &mut self,
        at: Instant,
        node: NodeId,
        message: ToService,
    ) -> Option<Answer> {
        let (request, result) = match message {
            ToService::Enter {
                request,
                role,
                names,
            } => (request, self.enter(at, node, request, role, &names)),
            ToService::Exit {
                request,
                role,
                names,
            } => (request, self.exit(node, request, role, &names)),
            ToService::Drained { region, view } => {
                self.drained(node, region, view);
                return None;
            }
            ToService::CaughtUp { region, view } => {
                self.caught_up(at, node, region, view);
                return None;
            }
            ToService::NothingOwed { members } => {
                let origin = self.origin(node)?;
                self.last_words.note(origin, members);
                return None;
            }
            // Of a session or of the detector, not of the membership.
            _ => return None,
        };
        refusal(request, result)
    }

    /// A node takes up a role in groups. Request 0 is not answered.
    pub(super) fn enter(
        &mut self,
        now: Instant,
        node: NodeId,
        request: u32,
        role: Role,
        names: &[String],
    ) -> Result<(), String> {
        let entry = running(self.nodes.get_mut(&node))?;
        names.iter().try_for_each(|name| check_name(name))?;
        check_room(entry, names.len(), self.limits.roles_per_node)?;
        if self.groups.len() + names.len() > self.limits.groups {
            let fresh = names.iter().filter(|name| self.groups.find(name).is_none());
            let count = fresh.count();
            if self.groups.len() + count > self.limits.groups {
                return Err(format!(
                    "{count} new groups exceed the service's limit of {} groups; \
                     raise it or reuse groups",
                    self.limits.groups
                ));
            }
        }
        for name in names {
            let id = self.groups.intern(now, name);
            entry.pending.named.push(id);
            if entry.pending.roles(role).insert(id, true).is_some() {
                self.groups.release(id);
            }
        }
        entry.pending.request(request);
        self.work.push(Work::Place { node });
        self.end_unmarked_absence(node);
        Ok(())
    }

    /// A node gives up a role in groups.
    pub(super) fn exit(
        &mut self,
        node: NodeId,
        request: u32,
        role: Role,
        names: &[String],
    ) -> Result<(), String> {
        let entry = running(self.nodes.get_mut(&node))?;
        check_room(entry, 0, self.limits.roles_per_node)?;
        for name in names {
            let Some(id) = self.groups.find(name) else {
                continue;
            };
            if entry.pending.roles(role).insert(id, false).is_none() {
                self.groups.hold(id);
            }
        }
        entry.pending.request(request);
        self.work.push(Work::Place { node });
        Ok(())
    }

    /// A leaving member has everything of the region it left; or a former publisher owes nothing.
    pub(super) fn drained(&mut self, node: NodeId, region: RegionId, view: ViewNumber) {
        let Some(entry) = self.nodes.get_mut(&node) else {
            return;
        };
        let departure = entry.departures.get(&region);
        let Some(departure) = departure.filter(|departure| departure.view <= view) else {
            return;
        };
        let member = departure.is_member();
        entry.depart(region, DepartureEvent::Drain);
        self.work.push(Work::Release { region, node });
        if member {
            // It has what it was to get there, as if it had caught up.
            entry.absences.unmark(region);
            self.end_unmarked_absence(node);
        }
    }
}

/// The answer to a request that is not possible.
pub(super) fn refusal(request: u32, result: Result<(), String>) -> Option<Answer> {
    let result = Err(result.err()?);
    Some(Answer { request, result })
}

/// The node, if it may ask for something.
fn running(node: Option<&mut Node>) -> Result<&mut Node, String> {
    node.filter(|node| node.life.is_running())
        .ok_or_else(|| "the node is not admitted; say hello first".to_owned())
}

fn check_room(node: &Node, names: usize, roles_max: usize) -> Result<(), String> {
    let held = node.groups.len() + node.publishes.len();
    let changes = node.pending.subscribe.len() + node.pending.publish.len();
    let pending = changes.max(node.pending.named.len());
    if held + pending + names > roles_max {
        return Err(format!(
            "the node has {} roles in groups, and {names} more exceed the limit of {roles_max}; \
             exit some first",
            held + pending
        ));
    }
    if node.pending.requests.len() >= REQUESTS_MAX {
        return Err(format!(
            "{REQUESTS_MAX} requests wait for the next batch already; try again later"
        ));
    }
    Ok(())
}

impl PendingRoles {
    pub(super) fn roles(&mut self, role: Role) -> &mut BTreeMap<GroupId, bool> {
        match role {
            Role::Subscriber => &mut self.subscribe,
            Role::Publisher => &mut self.publish,
        }
    }

    fn request(&mut self, request: u32) {
        if request != 0 {
            self.requests.push(request);
        }
    }
}
