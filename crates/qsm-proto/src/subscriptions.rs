//! Groups that are delivered here, and addresses that are listened to for them: both follow from
//! the regions that this node receives.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use qsm_wire::GroupId;

use crate::membership::Membership;
use crate::node::NodeState;
use crate::region::{Region, RegionTable};
use crate::{Event, is_source_specific};

/// Groups and addresses that this node receives.
#[derive(Debug, Default)]
pub(crate) struct SubscriptionTable {
    groups: BTreeSet<GroupId>,
    /// Groups whose subscription the application has given up, by the request that says so to
    /// the service, until that is answered (R-MEM-9).
    exiting: BTreeMap<u32, Vec<String>>,
    /// The addresses, and whom to hear there if that matters.
    listening: BTreeMap<SocketAddr, BTreeSet<SocketAddr>>,
}

impl SubscriptionTable {
    /// The application gives up groups, by this request.
    pub(crate) fn begin_exit(&mut self, request: u32, names: Vec<String>) {
        self.exiting.insert(request, names);
    }

    /// The request has been answered; whether it was to give up groups.
    pub(crate) fn end_exit(&mut self, request: u32) -> bool {
        self.exiting.remove(&request).is_some()
    }

    /// A new life does not leave groups that the application wants again.
    pub(crate) fn begin_life(&mut self, wants: impl Fn(&str) -> bool) {
        for names in self.exiting.values_mut() {
            names.retain(|name| !wants(name));
        }
    }

    /// Delivers the groups of the regions that this node is a receiver of, but for those that the
    /// application has given up: if it takes them up again before the service has heard so, that
    /// is another stay, and nothing of the former belongs to it (R-MEM-9).
    pub(crate) fn subscribe(
        &mut self,
        regions: &mut RegionTable,
        membership: &Membership,
        node: &mut NodeState,
    ) {
        let exiting = self.exiting.values().flatten();
        let exiting: BTreeSet<GroupId> =
            exiting.filter_map(|name| membership.group(name)).collect();
        let receiving = regions.iter().filter(|region| region.receiver());
        let wanted: BTreeSet<GroupId> = receiving
            .flat_map(Region::received)
            .filter(|group| !exiting.contains(group))
            .collect();
        for group in self.groups.difference(&wanted) {
            node.cursors.unsubscribe(*group);
        }
        for group in wanted.difference(&self.groups) {
            node.cursors.subscribe(*group);
            regions
                .iter_mut()
                .for_each(|region| region.begin_elsewhere(*group));
        }
        // Also of a group that this node has had again in another region meanwhile.
        let receiving = regions.iter_mut().filter(|region| region.receiver());
        receiving.for_each(|region| region.take_up_groups(|group| wanted.contains(&group)));
        for group in &exiting {
            let members = regions.iter_mut().filter(|region| region.member());
            let concerned = members.filter(|region| region.receives(*group));
            concerned.for_each(|region| region.give_up_group(*group));
        }
        let members = regions.iter_mut().filter(|region| region.member());
        members.for_each(|region| region.leave_to_others(&wanted));
        self.groups = wanted;
    }

    /// Listens to the addresses of all regions that this node takes part in, if it listens to
    /// multicast at all. Rules R-MEM-13, R-REACH-6.
    pub(crate) fn listen(&mut self, regions: &RegionTable, node: &mut NodeState) {
        let mut wanted: BTreeMap<SocketAddr, BTreeSet<SocketAddr>> = BTreeMap::new();
        let listens = node.config.multicast;
        let member = |region: &&Region| region.member() && region.path().is_multicast();
        for region in regions.iter().filter(|region| listens && member(region)) {
            let address = region.address();
            let senders = wanted.entry(address).or_default();
            if is_source_specific(address.ip()) {
                senders.extend(region.senders());
            }
        }
        for (address, senders) in &wanted {
            if self.listening.get(address) != Some(senders) {
                node.events.push(listen_to(*address, senders));
            }
        }
        for address in self.listening.keys() {
            if !wanted.contains_key(address) {
                node.events.push(Event::Unlisten { address: *address });
            }
        }
        self.listening = wanted;
    }
}

fn listen_to(address: SocketAddr, senders: &BTreeSet<SocketAddr>) -> Event {
    if is_source_specific(address.ip()) {
        let senders = senders.clone();
        Event::ListenTo { address, senders }
    } else {
        Event::Listen { address }
    }
}
