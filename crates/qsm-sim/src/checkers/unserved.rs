use std::collections::BTreeMap;

use qsm_wire::Origin;

use crate::runs::Runs;

/// What senders have named when they closed as not known to have arrived (R-VIEW-13, R-MEM-14), by
/// sender and receiver. Nothing else may be missing at these.
#[derive(Debug, Default)]
pub(crate) struct Unserved {
    named: BTreeMap<(Origin, Origin), Named>,
}

/// Messages named of one receiver.
#[derive(Debug, Default)]
struct Named {
    /// By group.
    messages: BTreeMap<usize, Runs>,
    /// More than one word has room for: nothing is sure to have arrived.
    all: bool,
    /// Its sender has said goodbye without it.
    left: bool,
}

/// A sender's word on receivers.
#[derive(Debug)]
pub(crate) struct Word<'a> {
    pub(crate) sender: Origin,
    pub(crate) receivers: &'a [Origin],
    /// Group, first and last; without a group where the sender has left it.
    pub(crate) messages: Vec<(Option<usize>, u64, u64)>,
    /// More messages than are said.
    pub(crate) more: bool,
    /// The sender says goodbye, and they are away, or have not acknowledged everything.
    pub(crate) left: bool,
}

impl Unserved {
    pub(crate) fn note(&mut self, word: &Word<'_>) {
        for receiver in word.receivers {
            let named = self.named.entry((word.sender, *receiver)).or_default();
            named.all |= word.more;
            named.left |= word.left;
            for (group, first, last) in &word.messages {
                match group {
                    Some(group) => named.messages.entry(*group).or_default().add(*first, *last),
                    None => named.all = true,
                }
            }
        }
    }

    /// Messages that may be missing of a group; `None`: anything.
    pub(crate) fn of(&self, sender: Origin, receiver: Origin, group: usize) -> Option<Runs> {
        let Some(named) = self.named.get(&(sender, receiver)) else {
            return Some(Runs::default());
        };
        let messages = named.messages.get(&group).cloned();
        (!named.all).then(|| messages.unwrap_or_default())
    }

    /// Tells whether the sender has said goodbye without the receiver.
    pub(crate) fn leaves(&self, sender: Origin, receiver: Origin) -> bool {
        let named = self.named.get(&(sender, receiver));
        named.is_some_and(|named| named.left)
    }

    /// Tells whether something may be missing.
    pub(crate) fn names(&self, sender: Origin, receiver: Origin) -> bool {
        self.named.contains_key(&(sender, receiver))
    }
}
