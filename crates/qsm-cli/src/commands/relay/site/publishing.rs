//! Messages of another site, published in this one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use qsm::{Node, Publisher, Relayed, SendError};
use qsm_console::log::Note;
use qsm_console::table::printable;
use qsm_relay::{Release, STANDBY_TICK, Turn};

use super::end::End;
use super::parts::{Common, Piece};
use super::sorting::Sorting;
use super::stats::SiteCounts;
use super::turns::{Key, Turns};

/// Time that a message waits for room at this cluster's senders. A node that holds them up is set aside before.
const PATIENCE: Duration = Duration::from_secs(15);
/// Time after which a full sender is asked again.
const AGAIN: Duration = Duration::from_millis(1);
/// Time after which a group that was refused is tried again.
const REOPEN: Duration = Duration::from_secs(10);
/// Most groups that another site publishes to.
const GROUPS_MAX: usize = 1 << 16;
/// Packets of a site that wait to be published. Further ones are not acknowledged, so that the site's gateways wait.
pub(super) const WAITING_MAX: usize = 1024;

/// Publishes what comes from another site, while that is this gateway's turn.
pub(super) struct Publishing {
    site: String,
    node: Node,
    sorting: Sorting,
    publishers: HashMap<Arc<str>, Outlet>,
    turns: Arc<Turns>,
    /// The turn that was told last.
    told: Turn,
    counts: Arc<SiteCounts>,
    end: Arc<End>,
    room: Room,
}

impl Publishing {
    /// For messages of this site.
    pub(super) fn new(site: &str, node: &Node, sorting: Sorting, common: &Common) -> Self {
        Self {
            site: site.to_owned(),
            node: node.clone(),
            sorting,
            publishers: HashMap::new(),
            turns: Arc::clone(&common.turns),
            told: Turn::StandingBy,
            counts: Arc::clone(&common.counts),
            end: Arc::clone(&common.end),
            room: Room::default(),
        }
    }

    /// Publishes until there are no more packets.
    pub(super) fn run(mut self, packets: &Receiver<Piece>) {
        loop {
            if self.look() {
                // Packets wait, and are not acknowledged, until another gateway has published or this one takes over.
                if self.end.is_near() {
                    return;
                }
                thread::sleep(AGAIN);
            } else {
                match packets.recv_timeout(STANDBY_TICK) {
                    Ok(piece) => self.sorting.take(&piece),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
            while let Some(release) = self.next() {
                self.publish(&release);
            }
        }
    }

    /// Takes over when that is due, and tells whether what is kept fills its memory.
    fn look(&mut self) -> bool {
        let now = self.turns.now();
        let Some(mut part) = self.turns.of(&self.site) else {
            return false;
        };
        self.sorting.hand_on(&mut part);
        part.standby.handle_timeout(now);
        let (turn, company) = (part.standby.turn(), part.standby.has_company(now));
        let full = turn == Turn::StandingBy && part.standby.is_full();
        drop(part);
        self.tell(turn, company);
        full
    }

    fn next(&mut self) -> Option<Release<Key, Vec<u8>>> {
        let mut part = self.turns.of(&self.site)?;
        self.sorting.hand_on(&mut part);
        part.standby.poll(self.turns.now())
    }

    /// Says who publishes, if other gateways of this site were heard.
    fn tell(&mut self, turn: Turn, company: bool) {
        if core::mem::replace(&mut self.told, turn) == turn || !company {
            return;
        }
        let site = &self.site;
        match turn {
            Turn::Active => {
                let line = format!(
                    "the other gateways of this site have ceased to publish the messages of site {site}: this \
                     one does now; see whether they run and reach that site"
                );
                Note::warn("taken-over", &line).say();
            }
            Turn::StandingBy => {
                let line = format!(
                    "another gateway of this site publishes the messages of site {site}: this one stands by"
                );
                Note::info("standing-by", &line).say();
            }
        }
    }

    fn publish(&mut self, release: &Release<Key, Vec<u8>>) {
        let (group, _) = &release.message.key;
        let known = self.publishers.contains_key(group);
        if !known && self.publishers.len() == GROUPS_MAX {
            self.counts.unwanted.add(1);
            return;
        }
        // Rule R-RELAY-29.
        if let Some((first, last)) = release.missing
            && let Some((_, relayed)) = Relayed::split(&release.message.item)
        {
            self.tell_missing(group, &relayed, first, last);
        }
        self.send(group, &release.message.item);
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
                    // Who waits for room has not stood still.
                    if let Some(mut part) = self.turns.of(&self.site) {
                        part.standby.handle_timeout(self.turns.now());
                    }
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

    fn tell_missing(&self, group: &str, relayed: &Relayed<'_>, first: u64, last: u64) {
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
