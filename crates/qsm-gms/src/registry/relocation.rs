//! Nodes that go on at another address (R-MEM-17): a host that has got another one, or a process
//! that has been moved with its memory. It is the same life, so nothing is lost but packets on their
//! way to the former address.

use std::net::SocketAddr;

use qsm_wire::membership::Update;
use qsm_wire::{NodeId, Origin};

use super::Registry;
use super::command::{AddressChange, Updates};
use super::draft::Draft;
use super::work::Work;

impl Registry {
    /// Notes where a node is, by its hello. What others know of it is told anew.
    pub(super) fn note_addresses(
        &mut self,
        origin: Origin,
        address: SocketAddr,
        second: Option<SocketAddr>,
        updates: &mut Updates,
    ) {
        let Some(node) = self.nodes.get_mut(&origin.node) else {
            return;
        };
        if (node.address, node.second) == (address, second) {
            return;
        }
        let from = core::mem::replace(&mut node.address, address);
        node.second = second;
        let member = origin;
        for id in node.member_of() {
            self.work.push(Work::RenewMember { region: id, member });
            let region = self.regions.get_mut(id);
            if let Some(region) = region.filter(|region| region.private) {
                region.address = address;
            }
        }
        self.work.push(Work::TellSecond { node: origin.node });
        if from != address {
            self.stats.relocated += 1;
            updates.relocated.push(AddressChange {
                origin,
                from,
                to: address,
            });
        }
    }

    /// Tells those on two networks who have to do with a node where it is on the second one.
    pub(super) fn tell_second(&self, id: NodeId, draft: &mut Draft) {
        let Some(node) = self.nodes.get(&id) else {
            return;
        };
        let Some(second) = node.second else { return };
        let address = node.address;
        let regions = node.concerned.iter();
        let regions = regions.filter_map(|region| self.regions.get(*region));
        for other in regions.flat_map(|region| region.audience.keys()) {
            let other = self.nodes.get(other).filter(|other| other.second.is_some());
            if let Some(other) = other.map(|other| other.origin.node)
                && other != id
            {
                let update = Update::Second { address, second };
                let seconds = &mut draft.updates_of(other).seconds;
                if !seconds.contains(&update) {
                    seconds.push(update);
                }
            }
        }
    }
}
