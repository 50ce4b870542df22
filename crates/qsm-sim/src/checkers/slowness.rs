use core::time::Duration;
use std::collections::BTreeMap;

use qsm_gms::{GroupPace, LaggardFate};
use qsm_proto::Instant;
use qsm_wire::membership::AwayReason;
use qsm_wire::{Origin, RegionId};

use crate::options::SimOptions;
use crate::violation::Violation;

/// Time that words, views and their repetitions may take beside that for which a member counts as
/// slow.
const GRACE: Duration = Duration::from_secs(4);
const SECOND: Duration = Duration::from_secs(1);
/// Share of the looks of a second at which a sender is held, percent: more than it takes to say so.
const HELD: u32 = 80;

/// A member that alone has more to read than it can, while senders have more to send than they may,
/// is waited for no longer than twice `slow_after` and [`GRACE`] (R-RATE-6).
#[derive(Debug, Default)]
pub(crate) struct Slowness {
    holds: BTreeMap<(RegionId, Origin), Hold>,
}

/// For how long a member has held a region.
#[derive(Debug)]
struct Hold {
    since: Instant,
    /// When this second began.
    second: Instant,
    looks: u32,
    held: u32,
}

/// Nobody is set aside for being slow that has received a group from the start whose senders follow the
/// slowest (R-RATE-8), nor otherwise than the mildest of its groups has it (R-RATE-12).
pub(crate) fn check_away(
    options: &SimOptions,
    host: usize,
    reason: AwayReason,
) -> Result<(), Violation> {
    let fate = match reason {
        AwayReason::Slow => LaggardFate::Apart,
        AwayReason::Demoted => LaggardFate::Demoted,
        _ => return Ok(()),
    };
    check_fate(options, host, fate)
}

/// Nobody is shut out for being slow but by the choice of all its groups (R-RATE-12).
pub(crate) fn check_expelled(options: &SimOptions, host: usize) -> Result<(), Violation> {
    check_fate(options, host, LaggardFate::Expelled)
}

/// Tells whether a host may be shut out because it is slow.
pub(crate) fn may_be_expelled(options: &SimOptions, host: usize) -> bool {
    check_expelled(options, host).is_ok()
}

fn check_fate(options: &SimOptions, host: usize, fate: LaggardFate) -> Result<(), Violation> {
    let pace = |group: usize| options.paces.get(&group).copied();
    let known = |group: usize| pace(group).map_or(LaggardFate::Apart, GroupPace::fate);
    let stays = options.churn.iter().all(|(_, churn)| churn.host != host);
    if !stays {
        // What it receives changes.
        let all = 0..options.groups.len();
        return match fate == LaggardFate::Apart || all.into_iter().any(|group| known(group) == fate)
        {
            true => Ok(()),
            false => Err(wrong(host, fate, "no group of the run says so")),
        };
    }
    let groups = options.groups.iter().enumerate();
    let groups = groups.filter(|(_, plan)| plan.subscribers.contains(&host));
    let groups: Vec<usize> = groups.map(|(group, _)| group).collect();
    if let Some(group) = groups
        .iter()
        .find(|group| pace(**group) == Some(GroupPace::Slowest))
    {
        let why = format!("it receives group {group}, which waits for ever");
        return Err(wrong(host, fate, &why));
    }
    let mildest = groups.into_iter().map(known).min().unwrap_or_default();
    match mildest == fate {
        true => Ok(()),
        false => Err(wrong(host, fate, &format!("its groups say {mildest:?}"))),
    }
}

fn wrong(host: usize, fate: LaggardFate, why: &str) -> Violation {
    let message = format!("host {host} is slow, and its fate is {fate:?}: {why}");
    Violation::new("slowness", message)
}

impl Slowness {
    /// Judges one moment. `holders`: members that are waited for, if each is the only one behind in
    /// its region, and whether some other sender is held there.
    pub(crate) fn check(
        &mut self,
        now: Instant,
        slow_after: Duration,
        holders: &BTreeMap<(RegionId, Origin), bool>,
    ) -> Result<(), Violation> {
        self.holds.retain(|holder, _| holders.contains_key(holder));
        for (holder, held) in holders {
            let hold = self
                .holds
                .entry(*holder)
                .or_insert_with(|| Hold::new(now, now));
            hold.note(now, *held);
            let time = now.since(hold.since);
            if time > slow_after * 2 + GRACE {
                let (region, member) = holder;
                let message = format!(
                    "region {region} has waited for {member} alone for {time:?}, which is slow, and \
                     may be for {slow_after:?}"
                );
                return Err(Violation::new("slowness", message));
            }
        }
        Ok(())
    }
}

impl Hold {
    fn new(since: Instant, second: Instant) -> Self {
        Self {
            since,
            second,
            looks: 0,
            held: 0,
        }
    }

    /// A second in which senders could send begins all anew.
    fn note(&mut self, now: Instant, held: bool) {
        self.looks += 1;
        self.held += u32::from(held);
        if now.since(self.second) >= SECOND {
            let waited = self.held * 100 >= self.looks * HELD;
            let since = if waited { self.since } else { now };
            *self = Self::new(since, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qsm_wire::{Incarnation, NodeId};

    /// The second in which a region that is held at such looks is said to wait too long.
    fn judged(held: impl Fn(u64) -> bool) -> Option<u64> {
        let member = Origin {
            node: NodeId(1),
            incarnation: Incarnation(1),
        };
        let mut slowness = Slowness::default();
        (0..300).find_map(|look| {
            let holders = BTreeMap::from([((RegionId(1), member), held(look))]);
            let now = Instant(look * 100_000_000);
            let judged = slowness.check(now, Duration::from_secs(2), &holders);
            judged.err().map(|_| look / 10)
        })
    }

    #[test]
    fn who_holds_a_region_for_too_long_is_found() {
        assert_eq!(judged(|_| true), Some(8));
        assert_eq!(judged(|look| look % 10 > 0), Some(8));
        assert_eq!(judged(|look| look / 10 % 7 > 0), None);
    }
}
