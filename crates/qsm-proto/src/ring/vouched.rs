//! What all members of this node's partition said together when they last all took part in a
//! round. What a member has it keeps, so that this stays true, and stands in for a member that
//! says nothing: where many nodes stand still now and then, hardly any round is complete, but
//! each partition is complete in most (R-TOK-4).

use qsm_wire::Origin;

use super::gathered::Gathered;

/// One stream.
#[derive(Debug, Clone, Copy)]
struct StreamReport {
    sender: Origin,
    cached: u64,
    stable: u64,
}

/// The partition's word on each stream, in one view, bounded.
#[derive(Debug)]
pub(super) struct PartitionReports {
    words: Vec<StreamReport>,
    max: usize,
}

impl PartitionReports {
    pub(super) fn new(max: usize) -> Self {
        Self {
            words: Vec::new(),
            max,
        }
    }

    /// Another view: another partition.
    pub(super) fn clear(&mut self) {
        self.words.clear();
    }

    /// All members of the partition have taken part in this token.
    pub(super) fn note(&mut self, token: &Gathered) {
        for entry in &token.slots {
            let head = &entry.head;
            // Who has all it must have says u64::MAX; that is no word on packets to come.
            let top = head.highest.max(head.cutoff);
            let (cached, stable) = (head.cached.min(top), head.stable.min(top));
            let sender = head.origin;
            match self.words.iter_mut().find(|word| word.sender == sender) {
                Some(word) => {
                    word.cached = word.cached.max(cached);
                    word.stable = word.stable.max(stable);
                }
                None => {
                    if self.words.len() >= self.max {
                        self.words.remove(0);
                    }
                    self.words.push(StreamReport {
                        sender,
                        cached,
                        stable,
                    });
                }
            }
        }
    }

    /// Some member has not taken part in this token: its earlier word stands in for it.
    pub(super) fn stand_in(&self, token: &mut Gathered) {
        for entry in &mut token.slots {
            let sender = entry.head.origin;
            match self.words.iter().find(|word| word.sender == sender) {
                Some(word) => entry.limit(word.cached, word.stable),
                None => entry.no_progress(),
            }
        }
    }
}
