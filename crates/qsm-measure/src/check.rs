//! A receiver's account of what came: every message by number and content, of every sender in
//! every group.

use std::fmt;

use qsm::{MessageRef, NodeId, Origin};

use crate::message::{Kind, Noise};
use crate::names;

/// A message that has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrived<'a> {
    /// Who sent it.
    sender: Origin,
    /// Its group's number in the cluster,
    group_id: usize,
    /// and name.
    group: &'a str,
    /// Its number in the group.
    number: u64,
    /// Its content.
    pub(crate) bytes: &'a [u8],
}

impl<'a> From<MessageRef<'a>> for Arrived<'a> {
    #[inline]
    fn from(message: MessageRef<'a>) -> Self {
        Self {
            sender: message.sender,
            group_id: message.group_id.0 as usize,
            group: message.group,
            number: message.number,
            bytes: message.bytes,
        }
    }
}

/// What is wrong with a message, in words. It is given by value, so that others need not lie in
/// memory.
#[cold]
fn fault(arrived: Arrived<'_>, what: fmt::Arguments<'_>) -> String {
    let (number, sender, group) = (arrived.number, arrived.sender, arrived.group);
    format!("message {number} of {sender} in {group} {what}")
}

/// What came of one sender in one group.
#[derive(Debug, Clone, Copy)]
struct Stream {
    next: u64,
    salt: u64,
    ended: bool,
}

#[derive(Debug)]
struct Sender {
    origin: Origin,
    /// By the group's number in the cluster.
    streams: Vec<Option<Stream>>,
    messages: u64,
    /// What it has said that it sent,
    total: u64,
    /// in so many groups.
    ends: usize,
}

impl Sender {
    /// Whether the node that this one is a core thread of is also that one's.
    fn is_of_node(&self, node: NodeId) -> bool {
        let cores = qsm::CORES_MAX as u64;
        self.origin.node.0 / cores == node.0 / cores
    }
}

/// The account. It stops at the first fault: what comes after one proves nothing.
#[derive(Debug)]
pub(crate) struct Check {
    noise: Noise,
    senders: Vec<Sender>,
    /// Who sent the last message, and most likely the next.
    recent: usize,
    /// Messages of all senders, the last ones not among them.
    pub(crate) messages: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// What senders have said that they sent.
    pub(crate) total: u64,
    /// How often one has said so.
    pub(crate) told: usize,
}

impl Check {
    /// Nothing has come.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self {
            noise: Noise::new(0),
            senders: Vec::new(),
            recent: 0,
            messages: 0,
            bytes: 0,
            total: 0,
            told: 0,
        }
    }

    /// Takes a message.
    ///
    /// # Errors
    /// It is not the next one of its sender in its group, or not what was sent; in words.
    #[inline]
    pub(crate) fn take(&mut self, arrived: Arrived<'_>) -> Result<Kind, String> {
        let sender = find(&mut self.senders, &mut self.recent, arrived.sender);
        let place = arrived.group_id;
        if place >= sender.streams.len() {
            sender.streams.resize(place + 1, None);
        }
        let stream = sender.streams[place].get_or_insert_with(|| Stream {
            next: 1,
            salt: salt(arrived.sender.node, arrived.group),
            ended: false,
        });
        let (number, expected) = (arrived.number, stream.next);
        if number != expected {
            return Err(fault(arrived, format_args!("came instead of {expected}")));
        }
        let Some(kind) = self.noise.read(arrived.bytes, stream.salt, number) else {
            return Err(fault(arrived, format_args!("is not what was sent")));
        };
        if stream.ended {
            return Err(fault(arrived, format_args!("came after the end")));
        }
        stream.next += 1;
        if let Kind::Last(total) = kind {
            stream.ended = true;
            sender.ends += 1;
            sender.total += total;
            self.total += total;
            self.told += 1;
        } else {
            sender.messages += 1;
            self.messages += 1;
            self.bytes += arrived.bytes.len() as u64;
        }
        Ok(kind)
    }

    /// Adds what another core has received. The core threads of one node are one sender.
    pub(crate) fn merge(&mut self, other: Self) {
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.total += other.total;
        self.told += other.told;
        for sender in other.senders {
            let same = |known: &&mut Sender| known.is_of_node(sender.origin.node);
            match self.senders.iter_mut().find(same) {
                Some(known) => {
                    known.messages += sender.messages;
                    known.total += sender.total;
                    known.ends += sender.ends;
                }
                None => self.senders.push(sender),
            }
        }
    }

    /// Whether so many senders have ended, each so many times, and everything they sent has come.
    ///
    /// # Errors
    /// More came than was sent; in words.
    pub(crate) fn is_complete(&self, senders: usize, ends: usize) -> Result<bool, String> {
        if self.told < senders * ends || self.messages < self.total {
            return Ok(false);
        }
        let off = self
            .senders
            .iter()
            .find(|sender| sender.ends != ends || sender.total != sender.messages);
        match off {
            None => Ok(true),
            Some(Sender {
                origin,
                messages,
                total,
                ends: ended,
                ..
            }) => Err(format!(
                "{messages} messages came of {origin}, which sent {}; are there more senders than \
                 --senders says?",
                match *ended == ends {
                    true => total.to_string(),
                    false => "more to come".to_owned(),
                }
            )),
        }
    }
}

fn find<'a>(senders: &'a mut Vec<Sender>, recent: &mut usize, origin: Origin) -> &'a mut Sender {
    if senders
        .get(*recent)
        .is_none_or(|sender| sender.origin != origin)
    {
        let known = senders.iter().position(|sender| sender.origin == origin);
        *recent = known.unwrap_or_else(|| {
            senders.push(Sender {
                origin,
                streams: Vec::new(),
                messages: 0,
                total: 0,
                ends: 0,
            });
            senders.len() - 1
        });
    }
    &mut senders[*recent]
}

fn salt(node: NodeId, group: &str) -> u64 {
    Noise::salt(node, names::index(group).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use qsm::Incarnation;

    use super::*;
    use crate::message::last;

    fn origin(node: u64) -> Origin {
        Origin {
            node: NodeId(node),
            incarnation: Incarnation(1),
        }
    }

    /// What a sender sends: `each` messages to each of two groups, and the end.
    struct Sent(Vec<(usize, String, u64, Vec<u8>)>, Origin);

    impl Sent {
        fn new(node: u64, each: u64) -> Self {
            let noise = Noise::new(100);
            let mut sent = Vec::new();
            for (index, group) in names::groups(2).into_iter().enumerate() {
                for number in 1..=each {
                    let mut bytes = Vec::new();
                    let salt = Noise::salt(NodeId(node), index);
                    noise.write_plain(&mut bytes, salt, number, 100);
                    sent.push((index + 1, group.clone(), number, bytes));
                }
            }
            sent.push((9, names::END.to_owned(), 1, last(1, 2 * each).to_vec()));
            Self(sent, origin(node))
        }

        fn give(&self, check: &mut Check) -> Result<(), String> {
            self.0
                .iter()
                .try_for_each(|(group_id, group, number, bytes)| {
                    let arrived = Arrived {
                        sender: self.1,
                        group_id: *group_id,
                        group,
                        number: *number,
                        bytes,
                    };
                    check.take(arrived).map(drop)
                })
        }
    }

    #[test]
    fn it_is_complete_when_all_senders_have_ended_and_all_has_come() {
        let mut check = Check::new();
        for (node, complete) in [(1, false), (2, true)] {
            Sent::new(node, 10).give(&mut check).unwrap();
            assert_eq!(check.is_complete(2, 1), Ok(complete));
        }
        assert_eq!((check.messages, check.bytes), (40, 4000));
    }

    #[test]
    fn what_follows_the_end_is_still_waited_for() {
        let mut sent = Sent::new(1, 10);
        let end = sent.0.pop().unwrap();
        sent.0.insert(3, end);
        let rest = Sent(sent.0.split_off(5), origin(1));
        let mut check = Check::new();
        sent.give(&mut check).unwrap();
        assert_eq!(check.is_complete(1, 1), Ok(false));
        rest.give(&mut check).unwrap();
        assert_eq!(check.is_complete(1, 1), Ok(true));
    }

    #[test]
    fn a_message_missing_doubled_swapped_or_of_others_is_a_fault() {
        type Change = fn(&mut Sent);
        let changes: [Change; 5] = [
            |sent| drop(sent.0.remove(4)),
            |sent| sent.0.insert(4, sent.0[4].clone()),
            |sent| sent.0.swap(4, 5),
            |sent| sent.0[4].3[50] ^= 1,
            |sent| sent.1 = origin(5),
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let mut sent = Sent::new(1, 10);
            change(&mut sent);
            assert!(sent.give(&mut Check::new()).is_err(), "change {at}");
        }
    }

    #[test]
    fn a_sender_that_nobody_announced_is_a_fault_at_the_end() {
        let mut check = Check::new();
        let mut stranger = Sent::new(2, 3);
        stranger.0.truncate(1);
        stranger.give(&mut check).unwrap();
        Sent::new(1, 3).give(&mut check).unwrap();
        assert!(check.is_complete(1, 1).is_err());
    }
}
