//! Messages of another site, published in this one.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use qsm::{Node, Pattern, Publisher, Relayed, RelayedNumbers, RelayedOrder, SendError};
use qsm_console::log::Note;
use qsm_console::table::printable;

use super::end::End;
use super::packets::{Record, Refused, Unpacker};
use super::stats::SiteCounts;

/// Time that a message waits for room at this cluster's senders. A node that holds them up is set aside before.
const PATIENCE: Duration = Duration::from_secs(15);
/// Time after which a full sender is asked again.
const AGAIN: Duration = Duration::from_millis(1);
/// Time after which a group that was refused is tried again.
const REOPEN: Duration = Duration::from_secs(10);
/// Most groups that another site publishes to.
const GROUPS_MAX: usize = 1 << 16;

/// Things that the parts of other sites have in common.
pub(super) struct Common {
    pub(super) counts: Arc<SiteCounts>,
    pub(super) end: Arc<End>,
    pub(super) json: bool,
}

/// A packet of the other site's stream.
pub(super) struct Piece {
    pub(super) number: u64,
    pub(super) bytes: Arc<[u8]>,
}

/// Publishes what comes from another site.
pub(super) struct Publishing {
    site: String,
    node: Node,
    patterns: Vec<Pattern>,
    unpacker: Unpacker,
    numbers: RelayedNumbers,
    publishers: HashMap<Arc<str>, Outlet>,
    counts: Arc<SiteCounts>,
    end: Arc<End>,
    room: Room,
    /// A site that was found in the place of this one, and has been told of.
    other: Option<String>,
}

impl Publishing {
    /// For messages of this site to groups so named.
    pub(super) fn new(site: &str, node: &Node, patterns: &[Pattern], common: &Common) -> Self {
        Self {
            site: site.to_owned(),
            node: node.clone(),
            patterns: patterns.to_vec(),
            unpacker: Unpacker::new(site),
            numbers: RelayedNumbers::default(),
            publishers: HashMap::new(),
            counts: Arc::clone(&common.counts),
            end: Arc::clone(&common.end),
            room: Room::default(),
            other: None,
        }
    }

    /// Publishes until there are no more packets.
    pub(super) fn run(mut self, packets: &Receiver<Piece>) {
        while let Ok(packet) = packets.recv() {
            match self.unpacker.take(packet.number, &packet.bytes) {
                Ok(()) => {}
                Err(Refused::Malformed) => self.counts.refused.add(1),
                Err(Refused::Site(other)) => self.refuse(other),
            }
            while let Some(record) = self.unpacker.poll() {
                self.publish(&record);
            }
        }
    }

    /// Another site is where this one was to be.
    fn refuse(&mut self, other: String) {
        self.counts.refused.add(1);
        if self.other.as_ref() != Some(&other) {
            let (site, shown) = (&self.site, printable(&other));
            let line = format!(
                "the gateway that --from names as {site} is that of site {shown}: nothing of it is taken; \
                 give each site one name, at all gateways the same"
            );
            Note::warn("mismatched", &line).say();
            self.other = Some(other);
        }
    }

    fn publish(&mut self, record: &Record) {
        let relayed = Relayed::split(&record.message);
        let Some((_, relayed)) = relayed.filter(|(_, relayed)| relayed.site == self.site) else {
            self.counts.refused.add(1);
            return;
        };
        let served = self.patterns.iter().any(|one| one.matches(&record.group));
        let known = self.publishers.contains_key(&*record.group);
        if !served || (!known && self.publishers.len() == GROUPS_MAX) {
            self.counts.unwanted.add(1);
            return;
        }
        let group: Arc<str> = record.group.as_str().into();
        // Rule R-RELAY-29.
        match self.numbers.check(&group, &relayed) {
            RelayedOrder::Again => {
                self.counts.duplicates.add(1);
                return;
            }
            RelayedOrder::After { first, last } => {
                self.tell_missing(&group, &relayed, first..=last);
            }
            _ => {}
        }
        self.send(&group, &record.message);
    }

    /// Waits for room, and gives up when there is none for long: then this cluster and others hold each
    /// other up. Rule R-RELAY-30.
    fn send(&mut self, group: &Arc<str>, message: &[u8]) {
        let outlet = self.publishers.entry(Arc::clone(group)).or_default();
        let Some(publisher) = outlet.get(&self.node, group) else {
            self.counts.untaken.add(1);
            return;
        };
        let began = Instant::now();
        let outcome = loop {
            match publisher.try_send(message) {
                Err(SendError::Full)
                    if !self.end.is_near() && self.room.is_waited_for(began.elapsed()) =>
                {
                    thread::sleep(AGAIN);
                }
                outcome => break outcome,
            }
        };
        match outcome {
            Ok(()) => {
                self.counts.messages_published.add(1);
                self.room.is_there();
            }
            Err(error) => {
                self.counts.untaken.add(1);
                if !self.end.is_near() {
                    self.tell_untaken(group, &error);
                }
            }
        }
    }

    /// Says so once, until there is room.
    fn tell_untaken(&mut self, group: &str, error: &SendError) {
        let site = &self.site;
        let line = match error {
            SendError::Full if !self.room.say() => return,
            SendError::Full => format!(
                "LOST: messages of site {site} to {group}, which this cluster has not taken for {} s; the \
                 numbers of later ones show which",
                PATIENCE.as_secs()
            ),
            _ => format!("LOST: a message of site {site} to {group}: {error}"),
        };
        Note::warn("lost", &line).group(group).say();
    }

    fn tell_missing(&self, group: &str, relayed: &Relayed<'_>, missing: RangeInclusive<u64>) {
        let (first, last) = (*missing.start(), *missing.end());
        let messages = last - first + 1;
        self.counts.missing.add(messages);
        let (site, sender) = (&self.site, relayed.sender);
        let name = printable(relayed.name);
        let line = format!(
            "LOST: messages {first} to {last} of {name} ({sender}) at site {site} to {group}"
        );
        Note::warn("lost", &line)
            .group(group)
            .messages(messages)
            .say();
    }
}

/// Room at this cluster's senders: waited for, and for so long only. Rule R-RELAY-30.
#[derive(Debug, Default)]
struct Room {
    /// There was none for too long, and has not been since.
    is_missing: bool,
    is_said: bool,
}

impl Room {
    /// Tells whether a message that has waited for so long waits on.
    fn is_waited_for(&mut self, waited: Duration) -> bool {
        self.is_missing |= waited >= PATIENCE;
        !self.is_missing
    }

    fn is_there(&mut self) {
        (self.is_missing, self.is_said) = (false, false);
    }

    /// Tells whether that is new, and takes note of it.
    fn say(&mut self) -> bool {
        !core::mem::replace(&mut self.is_said, true)
    }
}

/// A publisher to a group; none while the node refuses it, or no membership service answers.
#[derive(Default)]
struct Outlet {
    publisher: Option<Publisher>,
    /// When it was refused last.
    refused: Option<Instant>,
}

impl Outlet {
    fn get(&mut self, node: &Node, group: &str) -> Option<&Publisher> {
        let recent = self.refused.is_some_and(|at| at.elapsed() < REOPEN);
        if self.publisher.is_none() && !recent {
            match node.publisher(group) {
                Ok(publisher) => self.publisher = Some(publisher),
                Err(error) => {
                    let line =
                        format!("messages of other sites to {group} are not published: {error}");
                    Note::warn("refused", &line).group(group).say();
                    self.refused = Some(Instant::now());
                }
            }
        }
        self.publisher.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-RELAY-30.
    #[test]
    fn room_is_waited_for_once_until_there_is_some() {
        let mut room = Room::default();
        assert!(room.is_waited_for(Duration::ZERO));
        assert!(room.is_waited_for(PATIENCE / 2));
        assert!(!room.is_waited_for(PATIENCE));
        assert!(room.say() && !room.say());
        // The next message does not wait again.
        assert!(!room.is_waited_for(Duration::ZERO));
        room.is_there();
        assert!(room.is_waited_for(Duration::ZERO) && room.say());
    }
}
