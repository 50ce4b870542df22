//! Messages that wait for others in their packets (R-DATA-4, R-DATA-15).

use qsm_proto::region::Region;

use super::World;
use crate::violation::Violation;

impl World {
    /// A host has published a message to a group just now.
    pub(super) fn note_published(&mut self, host: usize, group: usize) {
        let now = self.engine.now();
        if let Some(origin) = self.apps[host].origin {
            self.checkers.history.publish(origin, group, now);
        }
        self.published += 1;
        let now = self.engine.local(host);
        let batching = self.options.batching(group);
        let Some(machine) = self.engine.machine(host) else {
            return;
        };
        for region in machine.all_regions() {
            if let Some(stream) = region.own_stream() {
                let waits = &mut self.checkers.batching;
                waits.publish(now, region.id(), stream, batching);
            }
        }
    }

    /// Judges whether messages of a host wait for too long that has just done what it may.
    pub(super) fn judge_batching(&mut self, host: usize) -> Result<(), Violation> {
        let Some(sender) = self.apps[host].origin else {
            return Ok(());
        };
        let awaited = self.checkers.batching.awaited(sender);
        if awaited.is_empty() {
            return Ok(());
        }
        let idle = self.engine.is_running(host) && !self.engine.is_behind(host);
        // Where all that a node sends is limited, that holds messages, too.
        let unlimited = self.options.pace.node_bytes_per_second == 0;
        let judged = self.checkers.armed && idle && unlimited && self.options.costs.is_none();
        let machine = self.engine.machine(host).filter(|_| judged);
        let Some(machine) = machine else {
            self.checkers.batching.forget(sender);
            return Ok(());
        };
        let now = self.engine.local(host);
        for region in awaited {
            let stream = machine.region(region).and_then(Region::own_stream);
            match stream {
                Some(stream) => self.checkers.batching.check(now, region, stream)?,
                None => self.checkers.batching.end(region, sender),
            }
        }
        Ok(())
    }
}
