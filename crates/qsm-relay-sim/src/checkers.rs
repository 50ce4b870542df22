//! Checkers, one for each promise.

mod asked;
mod cache;
mod copies;
mod gap;
mod order;
mod parity;
mod rate;
mod scope;
mod spacing;

use crate::network::Network;
use crate::plan::{Kind, Plan};
use crate::step::{News, Step};
use crate::violation::Violation;

/// All checkers of a run.
#[derive(Debug)]
pub(crate) struct Checkers {
    order: order::Order,
    asked: asked::Asked,
    spacing: spacing::Spacing,
    cache: cache::Cache,
    parity: parity::Parity,
    /// Not where relays forget sessions in mid-stream.
    copies: Option<copies::Copies>,
    scope: Option<scope::Scope>,
    gap: Option<gap::Gap>,
    rate: Option<rate::Rate>,
}

impl Checkers {
    pub(crate) fn new(plan: &Plan, network: &Network) -> Self {
        let timing = network.timing();
        Self {
            order: order::Order::new(plan.kind != Kind::Long),
            asked: asked::Asked::default(),
            spacing: spacing::Spacing::new(plan, timing.upstream_retry),
            cache: cache::Cache::new(plan),
            parity: parity::Parity::new(plan),
            copies: (plan.kind != Kind::Long).then(copies::Copies::default),
            gap: (plan.kind == Kind::Standby).then(gap::Gap::default),
            rate: rate::Rate::new(plan),
            scope: (plan.kind == Kind::Scope).then(scope::Scope::default),
        }
    }

    /// A node has begun anew.
    pub(crate) fn began(&mut self, node: usize) {
        self.asked.began(node);
        self.spacing.began(node);
        if let Some(copies) = &mut self.copies {
            copies.began(node);
        }
    }

    pub(crate) fn step(&mut self, step: &Step, network: &Network) -> Result<(), Violation> {
        self.asked.step(step, network)?;
        self.spacing.step(step, network)?;
        self.cache.step(step, network)?;
        self.parity.step(step)?;
        if let Some(copies) = &mut self.copies {
            copies.step(step, network)?;
        }
        if let Some(scope) = &mut self.scope {
            scope.step(step);
        }
        Ok(())
    }

    pub(crate) fn told(&mut self, news: &News) -> Result<(), Violation> {
        if let Some(gap) = &mut self.gap {
            gap.told(news)?;
        }
        if let Some(rate) = &mut self.rate {
            rate.told(news)?;
        }
        self.order.told(news)
    }

    /// Everybody has everything.
    pub(crate) fn end(&self, plan: &Plan, network: &Network) -> Result<(), Violation> {
        self.order.end(plan)?;
        match &self.scope {
            Some(scope) => scope.end(plan, network),
            None => Ok(()),
        }
    }

    /// Packets that receivers were told are lost.
    pub(crate) fn lost(&self) -> u64 {
        self.order.lost()
    }
}
