use core::time::Duration;
use std::net::SocketAddr;

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

    /// Another service of this cluster: the lesser one yields, whether it is embedded or not. Both
    /// ends say so where nobody expects a second one. Rule R-MEM-7.
    pub(super) fn meet(&mut self, node: NodeId, beacon: Beacon) {
        // Of a former run at this address.
        if beacon.address == self.config.address {
            return;
        }
        let rank =
            |beacon: &Beacon, node| (!beacon.embedded, beacon.term, core::cmp::Reverse(node));
        let other = rank(&beacon, node);
        let own = rank(&self.beacon(), self.config.node);
        if let Phase::Yielded { to, farewell } = self.phase {
            if to == beacon.address {
                self.farewell(to, farewell);
            }
        } else if other > own {
            self.give_way(beacon.address);
        } else if !beacon.embedded {
            self.report_rival(node, beacon.address);
        }
    }

    fn report_rival(&mut self, node: NodeId, address: SocketAddr) {
        if self.rivals.len() < EVENTS_MAX && self.rivals.insert(node) {
            self.event(ServiceEvent::Conflict { node, address });
        }
    }

    fn give_way(&mut self, to: SocketAddr) {
        let farewell = self.beacon();
        self.phase = Phase::Yielded { to, farewell };
        self.farewell(to, farewell);
        for node in self.clients.nodes() {
            self.tell(node, &FromService::Redirect { address: to });
        }
        self.event(ServiceEvent::Yielded { to });
    }

    /// Lets the other service know that this one was there, which may not have heard it before.
    fn farewell(&mut self, to: SocketAddr, beacon: Beacon) {
        if beacon.embedded {
            return;
        }
        let header = self.header;
        let to = Destination::Node(to);
        self.outbox.push(Reason::Membership, to, |out| {
            beacon.encode(&header, out);
        });
    }
}
