use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use qsm_wire::membership::{Member, RegionReport, ViewStep};
use qsm_wire::{ChannelId, GroupId, Origin, RegionId, ViewNumber};

use crate::view::{Layout, RegionView};

/// Bytes of a member in a report, at most (IPv6).
const MEMBER_BYTES_MAX: usize = 34;

#[derive(Debug)]
struct Region {
    channel: ChannelId,
    address: SocketAddr,
    groups: Vec<GroupId>,
    /// Its members have different groups.
    merged: bool,
    view: Option<Arc<RegionView>>,
}

/// The regions that concern this node.
#[derive(Debug, Default)]
pub(super) struct Regions {
    regions: BTreeMap<RegionId, Region>,
    /// Highest numbers heard of, in any life.
    last: (RegionId, ChannelId),
}

impl Regions {
    pub(super) fn put(
        &mut self,
        region: RegionId,
        channel: (ChannelId, SocketAddr),
        groups: Vec<GroupId>,
    ) {
        self.last = (self.last.0.max(region), self.last.1.max(channel.0));
        let view = self.regions.remove(&region).and_then(|old| old.view);
        let entry = Region {
            channel: channel.0,
            address: channel.1,
            groups,
            // It is told with a whole list of filters if so.
            merged: false,
            view,
        };
        self.regions.insert(region, entry);
    }

    /// The members of a region have different groups.
    pub(super) fn note_merged(&mut self, region: RegionId) {
        if let Some(region) = self.regions.get_mut(&region) {
            region.merged = true;
        }
    }

    pub(super) fn remove(&mut self, region: RegionId) -> bool {
        self.regions.remove(&region).is_some()
    }

    pub(super) fn clear(&mut self) {
        self.regions.clear();
    }

    /// The next view; `None` when the difference is not one to the view held.
    pub(super) fn step(&mut self, step: ViewStep, layout: Layout) -> Option<Arc<RegionView>> {
        let region = self.regions.get_mut(&step.region)?;
        let mut members = match (&region.view, step.base) {
            (_, ViewNumber(0)) => Vec::new(),
            (Some(view), base) if view.number() == base => view.members().to_vec(),
            _ => return None,
        };
        let removed: BTreeSet<Origin> = step.removed.into_iter().collect();
        let leaving: BTreeSet<Origin> = step.leaving.into_iter().collect();
        members.retain(|member| !removed.contains(&member.origin));
        for member in &mut members {
            if leaving.contains(&member.origin) {
                member.left.get_or_insert(step.view);
            }
        }
        for member in &mut members {
            let is = |changed: &&Member| changed.origin == member.origin;
            if let Some(changed) = step.changed.iter().find(is) {
                *member = *changed;
            }
        }
        members.extend(step.added);
        let channel = (region.channel, region.address);
        let view = RegionView::new(step.region, step.view, channel, members, layout);
        let view = Arc::new(view);
        region.view = Some(Arc::clone(&view));
        Some(view)
    }

    /// The highest numbers of a region and a channel heard of.
    pub(super) fn last(&self) -> (RegionId, ChannelId) {
        self.last
    }

    pub(super) fn views(&self) -> impl Iterator<Item = &Arc<RegionView>> {
        self.regions
            .values()
            .filter_map(|region| region.view.as_ref())
    }

    pub(super) fn groups(&self, region: RegionId) -> Option<&[GroupId]> {
        self.regions.get(&region).map(|region| &region.groups[..])
    }

    /// What a service that knows nothing has to know, own regions first, as much as fits. A node
    /// that receives in one region alone has there the groups that it reports as its own.
    pub(super) fn reports(&self, own: Origin, mut room_bytes: usize) -> Vec<RegionReport> {
        let is_own = |view: &&Arc<RegionView>| view.index_of(own).is_some();
        let is_active = |view: &RegionView| {
            let member = view.index_of(own).and_then(|index| view.member(index));
            member.is_some_and(|member| !member.leaving())
        };
        let (mine, others): (Vec<_>, Vec<_>) = self.views().partition(is_own);
        let alone = mine.iter().filter(|view| is_active(view)).count() == 1;
        let merged = |region| self.regions.get(&region).is_some_and(|known| known.merged);
        let implied = |view: &RegionView| {
            alone && is_active(view) && view.path().is_multicast() && !merged(view.region())
        };
        let mut reports = Vec::new();
        for view in mine.into_iter().chain(others) {
            let known = self.groups(view.region()).filter(|_| !implied(view));
            let groups = known.unwrap_or_default().to_vec();
            let bytes = MEMBER_BYTES_MAX * (view.members().len() + 2) + 4 * groups.len();
            if bytes > room_bytes {
                continue;
            }
            room_bytes -= bytes;
            reports.push(RegionReport {
                region: view.region(),
                view: view.number(),
                channel: view.channel(),
                address: view.address(),
                members: view.members().to_vec(),
                groups,
                merged: merged(view.region()),
            });
        }
        reports
    }
}
