use core::time::Duration;

use qsm_proto::{Destination, Reason};
use qsm_wire::membership::FromService;
use qsm_wire::{Beacon, NodeId};

use super::{EVENTS_MAX, Phase, Service};
use crate::ServiceEvent;

/// How often the service announces itself.
pub(super) const BEACON_INTERVAL: Duration = Duration::from_secs(1);
/// How soon after a beacon to all the next one follows when somebody asks: those who heard the
/// question do not ask themselves (R-MEM-10).
pub(super) const BEACON_AGAIN: Duration = Duration::from_millis(50);

/// Beacons, by which nodes find the service and services find each other.
impl Service {
    pub(super) fn announce(&mut self, to: Destination) {
        if self.has_yielded() {
            return;
        }
        let beacon = self.beacon();
        let header = self.header;
        self.outbox.push(Reason::Membership, to, |out| {
            beacon.encode(&header, out);
        });
    }

    fn beacon(&self) -> Beacon {
        Beacon {
            address: self.config.address,
            second: self.config.second,
            term: self.term(),
            embedded: self.config.embedded,
        }
    }

    /// Another service of this cluster: the lesser one yields if it is embedded (R-MEM-7).
    pub(super) fn meet(&mut self, node: NodeId, beacon: Beacon) {
        let rank =
            |beacon: &Beacon, node| (!beacon.embedded, beacon.term, core::cmp::Reverse(node));
        let other = rank(&beacon, node);
        let own = rank(&self.beacon(), self.config.node);
        if self.has_yielded() {
            return;
        }
        if !self.config.embedded {
            if self.rivals.len() < EVENTS_MAX && !beacon.embedded && self.rivals.insert(node) {
                let address = beacon.address;
                self.event(ServiceEvent::Conflict { node, address });
            }
            return;
        }
        if other > own {
            let to = beacon.address;
            self.phase = Phase::Yielded { to };
            for node in self.clients.nodes() {
                self.tell(node, &FromService::Redirect { address: to });
            }
            self.event(ServiceEvent::Yielded { to });
        }
    }
}
