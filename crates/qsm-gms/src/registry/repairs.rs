//! The operator's limit of what nodes send again (R-NAK-16): all are told, and each that comes, and
//! a service that begins hears of it from those who were told.

use qsm_wire::NodeId;
use qsm_wire::membership::{Hello, RepairLimit, ToldLimit, Update};

use super::Registry;
use super::draft::Draft;
use super::work::Work;

impl Registry {
    /// The limit that holds.
    pub(crate) fn repair_limit(&self) -> RepairLimit {
        self.repairs.limit
    }

    /// This limit holds if no node has been told another one.
    pub(crate) fn begin_with_repair_limit(&mut self, limit: RepairLimit) {
        self.repairs.limit = limit;
    }

    /// Takes the newest limit that a node has been told. What this service has been told itself, before it
    /// began, is newer than that.
    pub(super) fn recall_repair_limit<'a>(&mut self, hellos: impl Iterator<Item = &'a Hello>) {
        let newest = hellos
            .map(|hello| hello.repairs)
            .max_by_key(|told| told.number);
        let before = newest.unwrap_or_default();
        let here = self.repairs;
        self.repairs = match here.number {
            0 if before.number > 0 => before,
            0 => ToldLimit {
                number: u64::from(here.limit != RepairLimit::default()),
                ..here
            },
            number => ToldLimit {
                number: before.number.saturating_add(number),
                ..here
            },
        };
    }

    /// A node that comes has been told a newer one, by another service.
    pub(super) fn heed_repair_limit(&mut self, told: ToldLimit) {
        if told.number > self.repairs.number {
            self.repairs = told;
            self.tell_all_repair_limit();
        }
    }

    /// This limit holds from the next batch on.
    pub(super) fn limit_repairs(&mut self, limit: RepairLimit) {
        if self.repairs.number > 0 && self.repairs.limit == limit {
            return;
        }
        let number = self.repairs.number.saturating_add(1);
        self.repairs = ToldLimit { number, limit };
        self.stats.repair_limits += 1;
        self.tell_all_repair_limit();
    }

    fn tell_all_repair_limit(&mut self) {
        for (id, node) in &self.nodes {
            if node.life.is_running() && !node.unreported {
                self.work.push(Work::LimitRepairs { node: *id });
            }
        }
    }

    /// A node with a new session may have been told an older one, or none.
    pub(super) fn limit_newcomer(&mut self, node: NodeId) {
        if self.repairs.number > 0 {
            self.work.push(Work::LimitRepairs { node });
        }
    }

    pub(super) fn tell_repair_limit(&self, node: NodeId, draft: &mut Draft) {
        if self.origin(node).is_some() {
            let told = self.repairs;
            draft.updates_of(node).repairs = vec![Update::Repairs { told }];
        }
    }
}
