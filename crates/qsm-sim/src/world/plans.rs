//! Judges what plans of the service come to: what messages cost, and who receives what.

use qsm_gms::Rows;
use qsm_wire::GroupId;
use qsm_wire::membership::{RegionKind, RegionRow};

use super::World;
use crate::checkers::addresses;
use crate::checkers::plans::{Merged, check_merged};
use crate::hints::Hint;
use crate::machine::Machine;
use crate::pattern::GroupPlan;
use crate::violation::Violation;
use crate::way::Way;

impl World {
    /// The way of this host's next message to a group; `None`: nothing is planned.
    pub(super) fn way(&self, host: usize, group: GroupId) -> Option<Way> {
        let machine = self.engine.machine(host);
        let planned = !self.options.plan_interval.is_zero();
        machine
            .filter(|_| planned)
            .and_then(|machine| Way::of(machine, group))
    }

    /// A message has gone that way.
    pub(super) fn went(&mut self, host: usize, way: Option<Way>) -> Result<(), Violation> {
        let Some((way, machine)) = way.zip(self.engine.machine(host)) else {
            return Ok(());
        };
        let sender = self.apps[host].origin.unwrap_or_default();
        self.checkers.plans.publish(sender, way, machine.taken())
    }

    /// Judges the addresses that services give, where these are few.
    pub(crate) fn judge_addresses(&self) -> Result<(), Violation> {
        if self.options.addresses.is_none() {
            return Ok(());
        }
        for host in self.options.services() {
            let Some(rows) = self.engine.machine(host).and_then(Machine::rows) else {
                continue;
            };
            let divisions = &self.checkers.divisions;
            addresses::check(&self.options, &rows.regions, |node| divisions.host(node))?;
        }
        Ok(())
    }

    /// Judges what members have passed over, where nobody has changed what it wants.
    pub(crate) fn judge_filtered(&self) -> Result<(), Violation> {
        let options = &self.options;
        // A service that takes over believes of who has not reported that it wants everything.
        let changes = !options.churn.is_empty() || options.has_service_deaths();
        if options.plan_interval.is_zero() || changes || options.services().count() != 1 {
            return Ok(());
        }
        let filtered = self.totals().get("messages_filtered").copied();
        self.checkers
            .plans
            .check_filtered(filtered.unwrap_or_default())
    }

    /// A promise of the plan that is not kept, or is not what nodes do.
    pub(crate) fn unkept(&self) -> Option<Violation> {
        if self.options.plan_interval.is_zero() || !self.checkers.armed {
            return None;
        }
        let mut services = self.options.services();
        let only = services.next().filter(|_| services.next().is_none())?;
        let rows = self.engine.machine(only)?.rows()?;
        let merged = rows
            .regions
            .iter()
            .filter(|row| row.kind == RegionKind::Merged);
        let merged = merged.filter_map(|row| self.merged(row));
        let beyond = |merged| check_merged(merged, self.options.plan_unwanted_ppm).err();
        let mut beyond = merged.filter_map(beyond);
        beyond
            .next()
            .or_else(|| self.spread_otherwise(&rows))
            .or_else(|| self.received_twice())
    }

    /// Counts what the members of a merged region want of it, if they know its present view, and no hint
    /// has them together.
    fn merged(&self, row: &RegionRow) -> Option<Merged> {
        let (mut members, mut wanted) = (0, 0);
        for member in row.members.iter().filter(|member| !member.leaving()) {
            let host = self.checkers.history.life(member.origin)?.host;
            let together =
                |hint: &Hint| matches!(hint, Hint::Together(hosts) if hosts.contains(&host));
            if self.options.hints.iter().any(together) {
                return None;
            }
            let machine = self.engine.machine(host)?;
            let region = machine.region(row.region)?;
            if machine.origin() != Some(member.origin) || region.view().number() != row.view {
                return None;
            }
            let groups = region.groups().iter();
            let takes = groups.filter(|group| region.takes(member.origin, **group));
            members += 1;
            wanted += takes.count() as u64;
        }
        Some(Merged {
            region: row.region,
            members,
            groups: row.groups.into(),
            wanted,
        })
    }

    /// A sender whose messages go to other regions than the service has of the group.
    fn spread_otherwise(&self, rows: &Rows) -> Option<Violation> {
        self.senders().find_map(|(host, group, origin)| {
            let machine = self.engine.machine(host)?;
            let id = machine.group(&GroupPlan::name(group))?;
            let row = rows.groups.iter().find(|row| row.group == id)?;
            let known = machine.views_of(&row.name).len();
            (known as u64 != u64::from(row.regions)).then(|| {
                let message = format!(
                    "{origin} publishes to group {group} in {known} regions, of which the service has {}",
                    row.regions
                );
                Violation::new("plans", message)
            })
        })
    }

    /// A node that receives a group in two regions.
    fn received_twice(&self) -> Option<Violation> {
        self.nodes().find_map(|(host, app)| {
            let (origin, machine) = app.origin.zip(self.engine.machine(host))?;
            let twice = app.roles.iter().find(|(group, _)| {
                let id = machine.group(&GroupPlan::name(*group));
                id.is_some_and(|id| machine.received_in(id) > 1)
            });
            twice.map(|(group, _)| {
                let message = format!("{origin} receives group {group} in two regions");
                Violation::new("plans", message)
            })
        })
    }
}
