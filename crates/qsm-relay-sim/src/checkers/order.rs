use std::collections::BTreeMap;

use crate::plan::Plan;
use crate::step::{News, Told};
use crate::violation::Violation;

const NAME: &str = "order";

/// Each receiver is told of each packet once, in order: by the packet, or as lost. R-RELAY-11.
#[derive(Debug)]
pub(crate) struct Order {
    /// Nobody is away for so long that something may be lost.
    complete: bool,
    /// The number that a receiver is told next.
    next: BTreeMap<usize, u64>,
    ended: BTreeMap<usize, bool>,
    lost: u64,
}

impl Order {
    pub(crate) fn new(complete: bool) -> Self {
        Self {
            complete,
            next: BTreeMap::new(),
            ended: BTreeMap::new(),
            lost: 0,
        }
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    pub(crate) fn told(&mut self, news: &News) -> Result<(), Violation> {
        let node = news.node;
        let broken = |message: String| Err(Violation::new(NAME, message));
        let next = self.next.entry(node).or_insert(0);
        match news.told {
            Told::Joined(first) if *next > 0 => broken(format!("{node} joined twice, at {first}")),
            Told::Joined(first) => {
                *next = first;
                Ok(())
            }
            Told::Delivered { sequence, intact } => {
                if !intact {
                    return broken(format!("{node} got another packet {sequence}"));
                }
                if sequence != *next {
                    return broken(format!("{node} got {sequence} in the place of {next}"));
                }
                *next = sequence + 1;
                Ok(())
            }
            Told::Lost { first, last } => {
                if first != *next || last < first {
                    return broken(format!(
                        "{node} was told that {first} to {last} are lost where {next} is next"
                    ));
                }
                if self.complete {
                    return broken(format!(
                        "{node} lost {first} to {last}, which the source's window holds"
                    ));
                }
                self.lost += last - first + 1;
                *next = last + 1;
                Ok(())
            }
            Told::Ended => match self.ended.insert(node, true) {
                None => Ok(()),
                Some(_) => broken(format!("for {node} the stream ended twice")),
            },
        }
    }

    pub(crate) fn end(&self, plan: &Plan) -> Result<(), Violation> {
        for (node, next) in &self.next {
            if *next != plan.packets + 1 || !self.ended.contains_key(node) {
                let message = format!("{node} was told of packets up to {} alone", next - 1);
                return Err(Violation::new(NAME, message));
            }
        }
        Ok(())
    }
}
