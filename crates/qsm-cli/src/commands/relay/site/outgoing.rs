//! Messages of this site's members, made packets of its stream.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use qsm::{Message, Node, Received, Relayed, Subscription};
use qsm_console::failure::Failure;
use qsm_console::log::Note;
use qsm_console::names::Names;
use qsm_console::table::printable;
use qsm_seal::ContentSealer;

use super::end::End;
use super::packets::{MESSAGE_BYTES_MAX, Packer};
use super::stats::SiteCounts;
use super::turns::Turns;
use crate::commands::relay::input::{Fed, Feeder, sealed};
use crate::senders::Senders;

/// Time between two looks for the end while nothing comes.
const LOOK: Duration = Duration::from_millis(100);
/// Time after which a full input is asked again.
const AGAIN: Duration = Duration::from_millis(1);
/// Packets that are made before they are passed on.
const AHEAD: usize = 64;

/// Reader of this site's groups.
pub(super) struct Outgoing {
    pub(super) site: String,
    pub(super) node: Node,
    pub(super) names: Names,
    pub(super) subscription: Subscription,
    pub(super) sealer: Option<ContentSealer>,
    pub(super) counts: Arc<SiteCounts>,
    pub(super) turns: Arc<Turns>,
    pub(super) end: Arc<End>,
}

impl Outgoing {
    /// Reads until the end, no faster than packets are taken.
    pub(super) fn run(self, feeder: &mut Feeder) {
        if let Err(failure) = self.read(feeder) {
            feeder.put(Err(failure));
        }
    }

    fn read(mut self, feeder: &mut Feeder) -> Result<(), Failure> {
        let senders = Senders::new(&self.node, self.names.clone())?;
        let mut lines = Lines {
            packer: Packer::new(&self.site),
            message: Vec::new(),
            has_looped: false,
            senders,
            site: self.site,
            counts: self.counts,
            turns: self.turns,
        };
        while !self.end.is_near() {
            let Some(received) = self.subscription.recv_timeout(LOOK)? else {
                continue;
            };
            lines.take(&received);
            while lines.packer.ready() < AHEAD
                && let Ok(Some(received)) = self.subscription.try_recv()
            {
                lines.take(&received);
            }
            lines.packer.flush();
            while let Some(mut packet) = lines.packer.poll() {
                if let Some(sealer) = &mut self.sealer {
                    packet = sealed(sealer, &packet)?;
                }
                if !put(packet, feeder) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Waits for room for a packet; false if nobody wants any more.
fn put(mut packet: Vec<u8>, feeder: &mut Feeder) -> bool {
    loop {
        packet = match feeder.try_put(packet) {
            Fed::Taken => return true,
            Fed::Closed => return false,
            Fed::Full(packet) => packet,
        };
        thread::sleep(AGAIN);
    }
}

/// Fate of messages.
struct Lines {
    site: String,
    packer: Packer,
    senders: Senders,
    counts: Arc<SiteCounts>,
    turns: Arc<Turns>,
    /// The message with its trailer.
    message: Vec<u8>,
    /// A loop was found, and said.
    has_looped: bool,
}

impl Lines {
    fn take(&mut self, received: &Received) {
        match received {
            Received::Message(message) => self.forward(message),
            // The numbers of messages show it at other sites.
            missing if missing.missing() > 0 => {
                self.counts.missed.add(missing.missing());
                let line = format!("LOST on the way to other sites: {missing}");
                Note::warn("lost", &line).say();
            }
            _ => {}
        }
    }

    /// Messages that have come from a tree are never sent into one. Rule R-RELAY-26. Those of other sites another
    /// gateway of this site has published. Rule R-RELAY-61.
    fn forward(&mut self, message: &Message) {
        if let Some(relayed) = message.relayed() {
            if relayed.site == self.site {
                self.counts.looped.add(1);
                self.tell_loop(message);
            } else {
                let rank = message.sender().node.0;
                self.turns.hear(rank, message.group(), &relayed);
            }
            return;
        }
        let bytes = message.bytes();
        if bytes.len() > MESSAGE_BYTES_MAX - Relayed::BYTES_MAX {
            self.counts.too_long.add(1);
            return;
        }
        let (sender, number) = (message.sender(), message.number());
        let name = self.senders.name(sender).unwrap_or_default();
        self.message.clear();
        self.message.extend_from_slice(bytes);
        Relayed::new(&self.site, name, sender, number).append(&mut self.message);
        self.packer.push(message.group(), &self.message);
        self.counts.messages_forwarded.add(1);
        self.counts.bytes_forwarded.add(bytes.len() as u64);
    }

    fn tell_loop(&mut self, message: &Message) {
        if self.has_looped {
            return;
        }
        self.has_looped = true;
        let (site, sender) = (&self.site, message.sender());
        let by = self.senders.name(sender).map(printable);
        let line = format!(
            "messages of this site, {site}, come back to it by the gateway {}, which is one of another site \
             and in this cluster as well, or whose cluster has a gateway called {site}, too: end one, or \
             give it its own --cluster and name; they are not sent on",
            by.unwrap_or_else(|| sender.to_string())
        );
        Note::warn("looped", &line).group(message.group()).say();
    }
}
