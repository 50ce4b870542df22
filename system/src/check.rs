//! What a message must contain, and whether what came is that.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use qsm::{Delivery, Origin};

/// What has been delivered so far. The upcall alone writes.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub(crate) messages: AtomicU64,
    /// Per group and sender: how many, and a hash of their contents in order.
    streams: Mutex<BTreeMap<(u64, Origin), (u64, u64)>>,
}

impl Checked {
    /// One number for everything delivered. Groups are told apart by their names, so nodes that
    /// got the same messages have the same number.
    pub(crate) fn digest(&self) -> u64 {
        let streams = self
            .streams
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        streams
            .iter()
            .fold(1, |digest, ((group, sender), (count, hash))| {
                [*group, sender.node.0, *count, *hash]
                    .into_iter()
                    .fold(digest, mixed)
            })
    }
}

/// Writes the content of message `number` of a group: the number, then bytes that follow from
/// the group's name and the number.
pub(crate) fn content(group: &str, number: u64, bytes: usize, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&number.to_le_bytes());
    let mut state = mixed(hash(group), number);
    while out.len() < bytes {
        state = mixed(state, 1);
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(bytes.max(8));
}

/// The number in a content, if the rest is what group and number demand. `wanted` is room to write that in.
pub(crate) fn number_in(group: &str, bytes: &[u8], wanted: &mut Vec<u8>) -> Option<u64> {
    let number = u64::from_le_bytes(*bytes.first_chunk()?);
    content(group, number, bytes.len(), wanted);
    (wanted == bytes).then_some(number)
}

/// An upcall that checks every message and counts it.
pub(crate) fn checker(checked: Arc<Checked>) -> impl FnMut(Delivery<'_>) + Send + 'static {
    let mut wanted = Vec::new();
    let mut last: BTreeMap<(u64, Origin), u64> = BTreeMap::new();
    move |delivery| {
        let Some(delivery) = delivery.message() else {
            // For a test that fails.
            return eprintln!("[{}] {delivery:?}", std::process::id());
        };
        let group = hash(delivery.group);
        let number = number_in(delivery.group, delivery.bytes, &mut wanted);
        let before = last.insert((group, delivery.sender), delivery.number);
        let follows = before.is_none_or(|before| delivery.number == before + 1);
        let Some(number) = number.filter(|_| follows) else {
            eprintln!(
                "wrong message: group {} sender {} number {} after {before:?}",
                delivery.group, delivery.sender, delivery.number
            );
            std::process::exit(3);
        };
        let mut streams = checked
            .streams
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let stream = streams.entry((group, delivery.sender)).or_insert((0, 0));
        *stream = (stream.0 + 1, mixed(stream.1, number));
        checked.messages.fetch_add(1, Ordering::Release);
    }
}

fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn mixed(state: u64, value: u64) -> u64 {
    let state = (state ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    state ^ (state >> 29)
}
