//! Looking without joining: asks a membership service for one of its lists, part by part, or why a
//! group's messages go where they go (R-MEM-18).
//!
//! ```text
//!              no service known             first part            last part
//! ── Solicit ──► Beacon ──► ListQuery 0 ──► ListQuery n, n, … ──► rows
//!                              ▲                  │ another version, or another service
//!                              └──────────────────┘ at most 8 times
//! ```
//!
//! The answer about a group is one packet: `GroupQuery`, `GroupReply`.
//!
//! The asker is no node: the service keeps nothing of it. Like the endpoint this does no I/O; the
//! caller gives up when it has waited long enough.

use core::time::Duration;
use std::collections::BTreeSet;
use std::net::SocketAddr;

use qsm_wire::membership::{AnswerRows, GroupAnswer, QueryKind};
use qsm_wire::{
    Body, GroupQuery, GroupReply, Header, HeaderTemplate, Incarnation, Kind, LIST_BYTES_MAX,
    ListQuery, ListReply, NodeId, Origin, Packet,
};

use crate::{Destination, Instant, Outbox, Random, Reason, Seed, Transmit};

/// First pause before something is asked again; it doubles up to [`PAUSE_MAX`], and begins anew with
/// every part that comes.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// As nodes pause that look for a service.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Parts asked for and not there yet.
const WINDOW: usize = 16;
/// The first part of a longer list has so many bytes at least, so that parts are not too many: the
/// shortest datagram carries more.
const PART_BYTES_MIN: usize = 256;
/// Versions that are begun with.
const VERSIONS_MAX: u32 = 8;
/// Questions in a row to a service that was found by multicast and does not answer, before another
/// is looked for.
const PATIENCE: u32 = 3;

/// A question to a membership service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnquiryQuestion {
    /// What is in this list?
    List(QueryKind),
    /// Why do the messages of the group of this name go where they go?
    Group(String),
}

/// Its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnquiryAnswer {
    /// The rows of the list.
    Rows(AnswerRows),
    /// The service's account of the group.
    Group(Box<GroupAnswer>),
}

/// A question, and whom to ask it.
#[derive(Debug, Clone)]
pub struct EnquiryConfig {
    /// Number of the cluster, as in headers.
    pub cluster: u32,
    /// The question.
    pub question: EnquiryQuestion,
    /// Where the service is; `None`: it is looked for at `discovery`.
    pub service: Option<SocketAddr>,
    /// Where services are looked for.
    pub discovery: SocketAddr,
    /// Longest datagram, bytes.
    pub datagram_bytes: usize,
}

/// Reason for which an answer does not come although a service answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnquiryError {
    /// The list changes faster than its parts arrive.
    Changing {
        /// Versions that were begun with.
        versions: u32,
    },
    /// The answer cannot be read.
    Malformed,
    /// The list is too long.
    TooLong {
        /// Its length, bytes.
        bytes: u32,
        /// The limit, bytes.
        max: usize,
    },
}

impl core::fmt::Display for EnquiryError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Changing { versions } => write!(
                f,
                "the list has changed {versions} times before it was there; ask again when fewer \
                 nodes come and go"
            ),
            Self::Malformed => f.write_str(
                "the membership service's answer cannot be read; is it of the same version?",
            ),
            Self::TooLong { bytes, max } => write!(
                f,
                "the list has {bytes} bytes, and {max} are the limit; ask the program that runs the \
                 membership service for it"
            ),
        }
    }
}

impl core::error::Error for EnquiryError {}

/// The version that parts are collected of.
#[derive(Debug)]
struct Collection {
    /// The run of the service.
    of: Origin,
    version: u64,
    bytes: Vec<u8>,
    /// Length of each part but the last.
    part_bytes: usize,
    /// Which parts are there.
    there: Vec<bool>,
    /// Parts that are missing.
    missing: usize,
    /// Of these, the ones that have been asked for; no more than the window.
    asked: BTreeSet<usize>,
    /// The first one that has not been asked for.
    next: usize,
}

impl Collection {
    /// Begins with a first part.
    fn begin(of: Origin, reply: &ListReply<'_>) -> Self {
        // The caller has compared it with the limit.
        let total = usize::try_from(reply.total).unwrap_or(0);
        let part_bytes = reply.content.len().max(1);
        let parts = total.div_ceil(part_bytes).max(1);
        Self {
            of,
            version: reply.version,
            bytes: vec![0; total],
            part_bytes,
            there: vec![false; parts],
            missing: parts,
            asked: BTreeSet::new(),
            next: 1,
        }
    }

    /// Takes a part; true if it was missing.
    fn take(&mut self, reply: &ListReply<'_>) -> bool {
        let offset = usize::try_from(reply.offset).unwrap_or(usize::MAX);
        let part = offset / self.part_bytes;
        let last = part + 1 == self.there.len();
        let length = match last {
            true => self.bytes.len().saturating_sub(offset),
            false => self.part_bytes,
        };
        let whole = offset.is_multiple_of(self.part_bytes) && reply.content.len() == length;
        if !whole || self.there.get(part) != Some(&false) {
            return false;
        }
        self.bytes[offset..offset + length].copy_from_slice(reply.content);
        self.there[part] = true;
        self.missing -= 1;
        self.asked.remove(&part);
        true
    }

    /// The next part to ask for, if there is one and the window has room.
    fn next(&mut self) -> Option<usize> {
        let part = self.next;
        if part == self.there.len() || self.asked.len() == WINDOW {
            return None;
        }
        self.next += 1;
        self.asked.insert(part);
        Some(part)
    }
}

/// Asks one question; see the module.
#[derive(Debug)]
pub struct Enquiry {
    config: EnquiryConfig,
    header: Header,
    service: Option<SocketAddr>,
    /// Addresses of a service on two networks, to be told to the runtime.
    second: Option<(SocketAddr, SocketAddr)>,
    nonce: u64,
    collection: Option<Collection>,
    /// Versions that were begun with.
    versions: u32,
    /// Questions since something came.
    unanswered: u32,
    ask_at: Option<Instant>,
    pause: Duration,
    random: Random,
    outbox: Outbox,
    outcome: Option<Result<EnquiryAnswer, EnquiryError>>,
    now: Instant,
}

impl Enquiry {
    /// An enquiry that begins now. `node` goes into its headers, and is a node of nobody.
    #[must_use]
    pub fn new(config: EnquiryConfig, node: NodeId, seed: Seed, now: Instant) -> Self {
        let mut random = Random::new(seed, "enquiry");
        let incarnation = Incarnation(0);
        let header = HeaderTemplate::new(config.cluster).header(Origin { node, incarnation });
        Self {
            header,
            service: config.service,
            second: None,
            config,
            nonce: random.bits(),
            collection: None,
            versions: 0,
            unanswered: 0,
            ask_at: Some(now),
            pause: PAUSE_MIN,
            random,
            outbox: Outbox::new(),
            outcome: None,
            now,
        }
    }

    /// Takes a datagram; whatever is no answer is nothing.
    pub fn handle_datagram(&mut self, now: Instant, datagram: &[u8]) {
        let now = self.advance(now);
        let Ok(packet) = Packet::open(datagram) else {
            return;
        };
        if packet.header.cluster != self.config.cluster || self.outcome.is_some() {
            return;
        }
        match packet.body {
            Body::Beacon(beacon) if self.service.is_none() => {
                self.service = Some(beacon.address);
                self.second = beacon.second.map(|second| (beacon.address, second));
                self.go_on(now);
            }
            Body::ListReply(reply) => self.take(now, packet.header.origin, &reply),
            Body::GroupReply(reply) => self.take_answer(&reply),
            _ => {}
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.advance(now);
        if self.outcome.is_some() || self.ask_at.is_none_or(|at| now < at) {
            return;
        }
        self.ask_at = Some(now.after(self.pause));
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        self.unanswered += 1;
        if self.config.service.is_none() && self.unanswered > PATIENCE {
            self.service = None;
            self.unanswered = 0;
        }
        let Some(service) = self.service else {
            let (header, to) = (self.header, Destination::Group(self.config.discovery));
            self.outbox.push(Reason::Membership, to, |out| {
                header.encode(Kind::Solicit, out);
            });
            return;
        };
        let again: Vec<usize> = match &self.collection {
            Some(collection) => collection.asked.iter().copied().collect(),
            None => vec![0],
        };
        again.into_iter().for_each(|part| self.ask(service, part));
    }

    /// When [`Enquiry::handle_timeout`] is due.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.ask_at.filter(|_| self.outcome.is_none())
    }

    /// The next datagram to send, until there is none.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        self.advance(now);
        self.outbox.pop()
    }

    /// The answer, or why there will be none, once.
    pub fn poll_outcome(&mut self) -> Option<Result<EnquiryAnswer, EnquiryError>> {
        self.outcome.take()
    }

    /// The two addresses of a service that was found and is on two networks, once: what is sent to the
    /// first is to go to the other as well (R-MEM-12).
    pub fn poll_second(&mut self) -> Option<(SocketAddr, SocketAddr)> {
        self.second.take()
    }

    /// Where the service is, as far as known.
    #[must_use]
    pub fn service(&self) -> Option<SocketAddr> {
        self.service
    }

    fn advance(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    /// Something has come.
    fn go_on(&mut self, now: Instant) {
        (self.pause, self.unanswered) = (PAUSE_MIN, 0);
        if self.collection.is_none() {
            self.ask_at = Some(now);
            self.handle_timeout(now);
        } else {
            self.ask_at = Some(now.after(self.pause));
        }
    }

    fn take(&mut self, now: Instant, from: Origin, reply: &ListReply<'_>) {
        let list = reply.list;
        if reply.nonce != self.nonce || self.config.question != EnquiryQuestion::List(list) {
            return;
        }
        if usize::try_from(reply.total).is_ok_and(|total| total > LIST_BYTES_MAX) {
            self.end(Err(EnquiryError::TooLong {
                bytes: reply.total,
                max: LIST_BYTES_MAX,
            }));
            return;
        }
        let known = self.collection.as_ref();
        let same = known.is_some_and(|known| (known.of, known.version) == (from, reply.version));
        if !same && !self.begin(from, reply) {
            return;
        }
        let Some(collection) = &mut self.collection else {
            return;
        };
        if !collection.take(reply) {
            return;
        }
        if collection.missing == 0 {
            let rows = AnswerRows::decode_list(list, &collection.bytes);
            let rows = rows.map(EnquiryAnswer::Rows);
            self.end(rows.map_err(|_| EnquiryError::Malformed));
            return;
        }
        self.go_on(now);
        self.fill_window();
    }

    fn take_answer(&mut self, reply: &GroupReply<'_>) {
        let asked = matches!(self.config.question, EnquiryQuestion::Group(_));
        if asked && reply.nonce == self.nonce {
            let answer = GroupAnswer::decode(reply.answer);
            let answer = answer.map(|answer| EnquiryAnswer::Group(Box::new(answer)));
            self.end(answer.map_err(|_| EnquiryError::Malformed));
        }
    }

    /// Begins with the version of this reply. False: it is no first part, or there were too many.
    fn begin(&mut self, from: Origin, reply: &ListReply<'_>) -> bool {
        let total = usize::try_from(reply.total).unwrap_or(usize::MAX);
        if reply.offset != 0 || reply.content.len() < total.min(PART_BYTES_MIN) {
            return false;
        }
        self.versions += 1;
        if self.versions > VERSIONS_MAX {
            let versions = VERSIONS_MAX;
            self.end(Err(EnquiryError::Changing { versions }));
            return false;
        }
        self.collection = Some(Collection::begin(from, reply));
        // Answers to earlier questions are of earlier versions.
        self.nonce = self.random.bits();
        true
    }

    /// Asks for parts that have not been asked for yet.
    fn fill_window(&mut self) {
        let Some(service) = self.service else {
            return;
        };
        while let Some(part) = self.collection.as_mut().and_then(Collection::next) {
            self.ask(service, part);
        }
    }

    fn ask(&mut self, service: SocketAddr, part: usize) {
        let collection = self.collection.as_ref();
        let part_bytes = collection.map_or(0, |collection| collection.part_bytes);
        let (header, to) = (self.header, Destination::Node(service));
        let (nonce, datagram_bytes) = (self.nonce, self.config.datagram_bytes);
        match &self.config.question {
            EnquiryQuestion::List(list) => {
                let query = ListQuery {
                    nonce,
                    list: *list,
                    version: collection.map_or(0, |collection| collection.version),
                    // Within the limit of a list.
                    offset: u32::try_from(part * part_bytes).unwrap_or(u32::MAX),
                    padding: ListQuery::padding_for(datagram_bytes),
                };
                self.outbox.push(Reason::Membership, to, |out| {
                    query.encode(&header, out);
                });
            }
            EnquiryQuestion::Group(name) => {
                let query = GroupQuery {
                    nonce,
                    name,
                    padding: GroupQuery::padding_for(name, datagram_bytes),
                };
                self.outbox.push(Reason::Membership, to, |out| {
                    query.encode(&header, out);
                });
            }
        }
    }

    fn end(&mut self, outcome: Result<EnquiryAnswer, EnquiryError>) {
        self.outcome = Some(outcome);
        self.collection = None;
        self.ask_at = None;
    }
}

#[cfg(test)]
mod tests;
