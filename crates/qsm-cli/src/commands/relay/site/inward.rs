//! A receiver of the stream of a gateway of another site.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

use qsm_console::failure::Failure;
use qsm_console::log::Note;
use qsm_relay::{Event, Receiver, ReceiverStats, SessionId, WINDOW_MAX};
use qsm_wire::Instant;
use serde_json::json;

use super::account::SiteBooks;
use super::end::End;
use super::gate::{GateBooks, Pulse};
use super::names::stream_of;
use super::parts::{Common, Piece};
use super::stats::SiteCounts;
use crate::commands::relay::account::{Account, Books};
use crate::commands::relay::content::{ContentArgs, Contents};
use crate::commands::relay::events::Events;
use crate::commands::relay::patience::Patience;
use crate::commands::relay::port::{BATCH, LOOK, Port};
use crate::commands::relay::stream::{session, timing};
use crate::commands::sites::Reach;

/// Time after which a full queue is asked again.
const AGAIN: Duration = Duration::from_millis(5);
/// Time after which a site that has ended is asked for again.
const REJOIN: Duration = Duration::from_secs(1);

/// A gateway of another site, seen from here.
pub(super) struct Inward {
    site: String,
    /// Which of the site's gateways it is, counted.
    gateway: usize,
    parent: SocketAddr,
    port: Port,
    /// None between the end of a stream and the next attempt to get it.
    receiver: Option<Receiver>,
    session: SessionId,
    contents: Contents,
    /// Something that may be wrong while the parent does not answer.
    doubt: String,
    rejoin: Instant,
    pending: Option<Piece>,
    put: SyncSender<Piece>,
    books: Books<ReceiverStats>,
    gate: GateBooks,
    pulse: Pulse,
    counts: Arc<SiteCounts>,
    end: Arc<End>,
    json: bool,
    out: Vec<u8>,
}

/// A gateway of another site, and the port by which it is heard.
pub(super) struct Gate {
    pub(super) site: String,
    /// Which of the site's gateways it is, counted.
    pub(super) gateway: usize,
    pub(super) port: Port,
    pub(super) parent: SocketAddr,
    pub(super) books: GateBooks,
}

impl Inward {
    /// A receiver of the stream of a site from this gateway, or a relay between, which puts packets there.
    pub(super) fn new(
        from: Gate,
        content: &ContentArgs,
        put: SyncSender<Piece>,
        common: &Common,
    ) -> Result<Self, Failure> {
        let Gate {
            site,
            gateway,
            port,
            parent,
            books: gate,
        } = from;
        let stream = stream_of(&site);
        Ok(Self {
            gateway,
            parent,
            port,
            receiver: None,
            session: session(&stream, content.content_key.is_some()),
            contents: content.contents(&stream)?,
            doubt: format!("; and is its site called {site}{}", content.doubt()),
            rejoin: Instant(0),
            pending: None,
            put,
            books: Books::default(),
            gate,
            pulse: Pulse::new(),
            counts: Arc::clone(&common.counts),
            end: Arc::clone(&common.end),
            json: common.json,
            out: Vec::new(),
            site,
        })
    }

    /// Its site and address, and its newest account.
    pub(super) fn books(&self) -> SiteBooks {
        SiteBooks {
            site: self.site.clone(),
            gateway: self.parent,
            books: self.books.clone(),
            gate: self.gate.clone(),
        }
    }

    /// Receives until the end.
    pub(super) fn run(mut self) -> Result<(), Failure> {
        self.port.connect(self.parent);
        let patience = Patience::with_doubt(self.parent, &self.doubt);
        let (mut patience, mut look) = (patience, Instant(0));
        while !self.end.is_near() {
            self.turn()?;
            let now = self.port.now();
            if now < look {
                continue;
            }
            look = now.after(LOOK);
            if let Some(receiver) = &mut self.receiver {
                let is_member = receiver.is_member();
                if is_member && self.pulse.is_doubted(now) {
                    receiver.probe();
                    self.gate.add_question();
                }
                let reach = self.pulse.reach(now, is_member);
                patience.look(now, reach != Reach::Reached);
                self.gate.note(reach, receiver.round_trip());
                let account = Account::of(receiver.stats(), &self.port);
                self.books.put(account.with_contents(self.contents.stats()));
            } else {
                self.gate.note(Reach::Asked, None);
            }
        }
        if let Some(receiver) = &mut self.receiver {
            receiver.leave();
        }
        self.transmit();
        self.port.close();
        Ok(())
    }

    /// Waits for something, and carries it out.
    fn turn(&mut self) -> Result<(), Failure> {
        let now = self.port.now();
        if self.receiver.is_none() && now >= self.rejoin {
            let (id, number) = (self.session, self.port.number);
            let receiver = Receiver::new(id, number, timing(), self.parent, now);
            self.receiver = Some(receiver);
        }
        self.transmit();
        let due = self.receiver.as_ref().and_then(Receiver::next_timeout);
        let due = due.unwrap_or(self.rejoin);
        let due = match self.pending {
            Some(_) => due.min(now.after(AGAIN)),
            None => due,
        };
        self.port.wait(Some(due), None)?;
        for _ in 0..BATCH {
            let Some(received) = self.port.receive() else {
                break;
            };
            let (now, bytes) = (self.port.now(), self.port.bytes(&received));
            if received.from == self.parent {
                self.pulse.hear(now);
            }
            if let Some(receiver) = &mut self.receiver {
                receiver.handle_marked(now, received.from, bytes, self.port.codepoint());
            }
        }
        if let Some(receiver) = &mut self.receiver {
            receiver.handle_timeout(self.port.now());
        }
        self.take_events()?;
        self.transmit();
        Ok(())
    }

    fn transmit(&mut self) {
        while let Some(receiver) = &mut self.receiver
            && let Some(to) = receiver.poll_transmit(&mut self.out)
        {
            self.port.send(to, &self.out);
        }
    }

    /// Takes events as far as there is room for packets: more are not acknowledged. Rule R-RELAY-30.
    fn take_events(&mut self) -> Result<(), Failure> {
        loop {
            if let Some(piece) = self.pending.take() {
                match self.put.try_send(piece) {
                    Ok(()) => {}
                    Err(TrySendError::Full(piece)) => {
                        self.pending = Some(piece);
                        return Ok(());
                    }
                    Err(TrySendError::Disconnected(_)) => return Ok(()),
                }
            }
            let event = self.receiver.as_mut().and_then(Receiver::poll_event);
            match event {
                None => return Ok(()),
                Some(Event::Delivered {
                    sequence: number,
                    payload,
                }) => {
                    let content = self.contents.open(self.port.now(), payload);
                    self.counts.unopened.add(u64::from(content.is_none()));
                    let gateway = self.gateway;
                    let piece = |bytes| Piece {
                        gateway,
                        number,
                        bytes,
                    };
                    self.pending = content.map(piece);
                }
                Some(Event::Joined { .. }) => self.say("joined")?,
                Some(Event::Lost { first, last }) => self.lost(last - first + 1),
                Some(Event::Ended) => {
                    self.say("ended")?;
                    self.leave();
                }
            }
        }
    }

    /// The other site's gateway has ended; it may come back.
    fn leave(&mut self) {
        if let Some(receiver) = &mut self.receiver {
            receiver.leave();
        }
        self.transmit();
        self.receiver = None;
        self.rejoin = self.port.now().after(REJOIN);
    }

    fn say(&self, event: &str) -> Result<(), Failure> {
        let (site, parent) = (&self.site, self.parent);
        Events { json: self.json }.say(
            &format!("site {site} at {parent} {event}"),
            &json!({ "event": event, "site": site, "address": parent }),
        )
    }

    /// Tells of packets that nobody keeps any more. More than any window are a new source's.
    fn lost(&self, packets: u64) {
        let site = &self.site;
        if packets > WINDOW_MAX {
            let line = format!(
                "the gateway of site {site} at {} was started again; the numbers of messages show what it missed",
                self.parent
            );
            Note::warn("lost", &line).say();
            return;
        }
        self.counts.packets_lost.add(packets);
        let line = format!(
            "LOST: {packets} packets of site {site} from {}; the numbers of later messages show which they had",
            self.parent
        );
        Note::warn("lost", &line).say();
    }
}
