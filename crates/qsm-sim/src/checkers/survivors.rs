use std::collections::BTreeMap;

use qsm_wire::{Origin, RegionId};

use super::completeness::obliged;
use super::history::{History, Life, Sent};
use crate::runs::Runs;
use crate::violation::Violation;

/// How the messages of dead senders fared among those who stayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Survivors {
    /// Messages that all survivors have.
    pub complete: u64,
    /// Messages that some have and others were told of losing.
    pub partial: u64,
    /// Messages that nobody has.
    pub vanished: u64,
}

/// What one survivor of a region has of a dead sender, the others of its region have as well, or
/// know that something is lost (R083, R085). Only members that stayed in one region all the time
/// are compared: recovery from a dead sender is a matter of its region.
pub(crate) fn check(history: &History) -> Result<Survivors, Violation> {
    let mut survivors = Survivors::default();
    for (sender, group, sent) in history
        .sent()
        .filter(|(sender, ..)| !history.reliable(*sender))
    {
        let mut regions: BTreeMap<RegionId, Vec<(Origin, u64, u64)>> = BTreeMap::new();
        for (receiver, _, stay) in obliged(history, sender, group, sent) {
            let last = stay.last.unwrap_or(sent.times.len() as u64);
            let region = history.life(receiver).and_then(only_region);
            if let Some(region) = region.filter(|_| stay.first <= last) {
                let receivers = regions.entry(region).or_default();
                receivers.push((receiver, stay.first, last));
            }
        }
        for receivers in regions.values() {
            compare(history, sender, group, sent, receivers, &mut survivors)?;
        }
    }
    Ok(survivors)
}

fn only_region(life: &Life) -> Option<RegionId> {
    let mut regions = life.regions.keys();
    let only = regions.next().copied();
    only.filter(|_| regions.next().is_none())
}

fn compare(
    history: &History,
    sender: Origin,
    group: usize,
    sent: &Sent,
    receivers: &[(Origin, u64, u64)],
    survivors: &mut Survivors,
) -> Result<(), Violation> {
    for number in 1..=sent.times.len() as u64 {
        let (mut have, mut miss) = (None, None);
        let concerned = receivers
            .iter()
            .filter(|(_, first, last)| (*first..=*last).contains(&number));
        for (receiver, ..) in concerned {
            let track = history.track(*receiver, group, sender);
            if track.is_some_and(|track| track.delivered.contains(number)) {
                have = Some(*receiver);
            } else {
                let nothing = Runs::default();
                let lost = track.map_or(&nothing, |track| &track.lost);
                let packets = history.told_of_packets(sender, *receiver);
                miss = miss.max(Some((!lost.contains(number) && !packets, *receiver)));
            }
        }
        match (have, miss) {
            (Some(holder), Some((true, ignorant))) => {
                let message = format!(
                    "{ignorant} neither has nor misses {sender}/group {group} #{number} of a dead \
                     sender, which {holder} of its region has"
                );
                return Err(Violation::new("survivors", message));
            }
            (Some(_), Some(_)) => survivors.partial += 1,
            (Some(_), None) => survivors.complete += 1,
            (None, Some(_)) => survivors.vanished += 1,
            (None, None) => {}
        }
    }
    Ok(())
}
