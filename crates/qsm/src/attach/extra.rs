//! Words that a record has beside its content, in a ring as in the log: of a message its group, sender and number.

use qsm_wire::{GroupId, Incarnation, NodeId, Origin};

use super::requests::EXTRA;
use crate::handoff::message::MessageRef;

pub(super) fn extra(group: u32, sender: Origin, number: u64) -> [u64; EXTRA] {
    let life = u64::from(sender.incarnation.0) << 32;
    [u64::from(group) | life, sender.node.0, number]
}

/// Words that a message has beside its content, in a ring as in the log.
#[inline]
pub(super) fn message_extra(message: &MessageRef<'_>) -> [u64; EXTRA] {
    extra(message.group_id.0, message.sender, message.number)
}

/// A message out of [`message_extra`].
#[inline]
pub(super) fn message_of<'a>(
    group: &'a str,
    extra: [u64; EXTRA],
    bytes: &'a [u8],
) -> MessageRef<'a> {
    let [group_id, _, number] = extra;
    MessageRef {
        group,
        group_id: GroupId(group_id as u32),
        sender: sender(extra),
        number,
        bytes,
    }
}

/// Sender out of such words.
pub(super) fn sender(extra: [u64; EXTRA]) -> Origin {
    let [group, node, _] = extra;
    Origin {
        node: NodeId(node),
        // Both halves were 32 bits long.
        incarnation: Incarnation((group >> 32) as u32),
    }
}
