//! A member that lies, and who of the others waits.

use std::collections::BTreeMap;

use qsm_proto::{Instant, Seed, nanoseconds};
use qsm_wire::{Origin, RegionId};

use super::World;
use crate::checkers::insider::Honesty;
use crate::engine::Outputs;
use crate::machine::{Loss, Machine};
use crate::violation::Violation;

/// The sender of whose messages or packets a loss speaks.
pub(super) fn sender_of(loss: &Loss) -> Origin {
    match loss {
        Loss::Messages { sender, .. } | Loss::Packets { sender, .. } => *sender,
    }
}

impl World {
    /// Lets a member lie, if the run has one, and judges nothing but what it does to others.
    pub(super) fn begin_lies(&mut self) {
        let Some(insider) = self.options.insider.clone() else {
            return;
        };
        let shut_out = self.options.duration;
        let gone = shut_out + self.options.gone_after;
        // Who lies to the end is waited for until it is gone.
        let ended = match insider.until < shut_out {
            true => insider.until,
            false => gone,
        };
        let [ended, shut_out, gone] = [ended, shut_out, gone].map(|at| Instant(nanoseconds(at)));
        let honesty = Honesty::new(insider.host, ended).shut_out(shut_out, gone);
        self.checkers.honesty = Some(honesty);
        self.checkers.armed = false;
        let (mischief, seed) = (self.options.mischief, Seed(self.options.seed));
        self.engine.set_insider(insider, mischief, seed);
    }

    /// Follows the liar's own life, of which nothing is judged.
    pub(super) fn look_at_liar(&mut self, host: usize, outputs: &Outputs) -> Result<(), Violation> {
        for event in &outputs.events {
            self.event(host, event)?;
        }
        Ok(())
    }

    /// Senders go on when nobody lies any more.
    pub(crate) fn judge_hang(&mut self) -> Result<(), Violation> {
        let now = self.engine.now();
        let Some(honesty) = &mut self.checkers.honesty else {
            return Ok(());
        };
        for (host, app) in self.apps.iter().enumerate() {
            let machine = self.engine.machine(host).filter(|_| !honesty.is_liar(host));
            let (Some(sender), Some(machine)) = (app.origin, machine) else {
                continue;
            };
            for region in machine.all_regions() {
                if let Some(own) = region.own_stream() {
                    let stream = (region.id(), sender);
                    honesty.check_hang(now, stream, own.stable_upto(), own.highest())?;
                }
            }
        }
        Ok(())
    }

    /// Regions in which a live sender has packets that are not stable, and the rounds that have
    /// been completed there.
    pub(crate) fn waiting(&self) -> BTreeMap<RegionId, u64> {
        let mut waiting = BTreeMap::new();
        for (_, machine) in self.live() {
            for region in machine.all_regions() {
                let own = region.own_stream();
                if own.is_some_and(|own| own.stable_upto() < own.highest()) {
                    waiting.insert(region.id(), 0);
                }
            }
        }
        for (_, machine) in self.live() {
            for region in machine.all_regions() {
                if let Some(rounds) = waiting.get_mut(&region.id()) {
                    *rounds += region.ring_stats().rounds;
                }
            }
        }
        waiting
    }

    /// All nodes that have a process and an origin, frozen or not.
    fn live(&self) -> Vec<(Origin, &Machine)> {
        let hosts = self.apps.iter().enumerate();
        hosts
            .filter_map(|(host, app)| Some((app.origin?, self.engine.machine(host)?)))
            .collect()
    }
}
