//! What a message must contain, and whether what came is that.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use qsm::{Delivery, MessageRef, Origin};

/// Bytes of a stamped message before its content: when it was published.
const TIME_BYTES: usize = 8;
/// Bytes of its content that follow from group and number, and are looked at. More would cost as much as what is
/// measured.
const CONTENT_MAX: usize = 512;

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
fn number_in(group: &str, bytes: &[u8], wanted: &mut Vec<u8>) -> Option<u64> {
    let number = u64::from_le_bytes(*bytes.first_chunk()?);
    content(group, number, bytes.len(), wanted);
    (wanted == bytes).then_some(number)
}

/// The beginning of a message whose way is measured; bytes that follow from its group and number come after it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp {
    /// When it was published, nanoseconds.
    pub(crate) at: u64,
    /// Number among the messages of a publisher, from 1 on.
    pub(crate) number: u64,
}

impl Stamp {
    /// Bytes of the shortest message that has one.
    pub(crate) const BYTES: usize = 16;

    /// Writes it, and the content, into a message of a group. `room` is room to make that in.
    pub(crate) fn write(self, group: &str, message: &mut [u8], room: &mut Vec<u8>) {
        let (time, rest) = message.split_at_mut(TIME_BYTES);
        let length = rest.len().min(CONTENT_MAX);
        time.copy_from_slice(&self.at.to_le_bytes());
        content(group, self.number, length, room);
        rest[..length].copy_from_slice(room);
    }

    /// The stamp of a message, if the content is what group and number demand. `room` is room to write that in.
    pub(crate) fn read(message: &MessageRef<'_>, room: &mut Vec<u8>) -> Option<Self> {
        let (time, rest) = message.bytes.split_first_chunk()?;
        let content = &rest[..rest.len().min(CONTENT_MAX)];
        Some(Self {
            at: u64::from_le_bytes(*time),
            number: number_in(message.group, content, room)?,
        })
    }
}

/// Ends the process, since a message is not what it has to be.
pub(crate) fn refuse(message: &MessageRef<'_>) -> ! {
    let MessageRef {
        group,
        sender,
        number,
        ..
    } = message;
    eprintln!("wrong message: group {group} sender {sender} number {number}");
    std::process::exit(3)
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
            eprintln!("a message after {before:?}:");
            refuse(&delivery)
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
