//! Somebody who looks at the cluster without being in it: asks for one list after the other
//! (R-MEM-18).

use core::time::Duration;

use qsm_proto::enquiry::{Enquiry, EnquiryAnswer, EnquiryConfig, EnquiryQuestion};
use qsm_proto::{Config, Event, Instant, Random, Seed, Transmit};
use qsm_wire::membership::{AnswerRows, QueryKind};

/// Pause between lists.
const PAUSE: Duration = Duration::from_millis(50);
/// A list that has not come by then is given up.
const PATIENCE: Duration = Duration::from_secs(5);

/// Lists that an observer has seen.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Looked {
    /// Lists that came.
    lists: u64,
    /// Those that did not come in time.
    late: u64,
    /// Those that cannot be read, or changed too often.
    failed: u64,
    /// Rows of the last list of each kind.
    nodes: u64,
    groups: u64,
    regions: u64,
}

impl Looked {
    /// By name.
    pub(crate) fn rows(&self) -> [(&'static str, u64); 6] {
        [
            ("lists", self.lists),
            ("lists_late", self.late),
            ("lists_failed", self.failed),
            ("nodes_seen", self.nodes),
            ("groups_seen", self.groups),
            ("regions_seen", self.regions),
        ]
    }

    fn take(&mut self, rows: &AnswerRows) {
        self.lists += 1;
        match rows {
            AnswerRows::None => {}
            AnswerRows::Nodes(rows) => self.nodes = rows.len() as u64,
            AnswerRows::Groups(rows) => self.groups = rows.len() as u64,
            AnswerRows::Regions(rows) => self.regions = rows.len() as u64,
        }
    }
}

/// Asks, and counts what it sees.
#[derive(Debug)]
pub(crate) struct Observer {
    config: Config,
    random: Random,
    list: QueryKind,
    enquiry: Option<Enquiry>,
    /// When the next list is asked for, or this one is given up.
    due: Instant,
    looked: Looked,
}

impl Observer {
    /// At the place of a node with this configuration.
    pub(crate) fn new(config: &Config, seed: Seed, now: Instant) -> Self {
        Self {
            config: config.clone(),
            random: Random::new(seed, "observer"),
            list: QueryKind::Regions,
            enquiry: None,
            due: now,
            looked: Looked::default(),
        }
    }

    pub(crate) fn looked(&self) -> &Looked {
        &self.looked
    }

    pub(crate) fn handle_datagram(&mut self, now: Instant, datagram: &[u8]) {
        if let Some(enquiry) = &mut self.enquiry {
            enquiry.handle_datagram(now, datagram);
        }
        self.look(now);
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.due <= now {
            match self.enquiry.take() {
                Some(_) => {
                    self.looked.late += 1;
                    self.due = now.after(PAUSE);
                }
                None => self.ask(now),
            }
        }
        if let Some(enquiry) = &mut self.enquiry {
            enquiry.handle_timeout(now);
        }
        self.look(now);
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let asks = self.enquiry.as_ref().and_then(Enquiry::next_timeout);
        asks.into_iter().chain([self.due]).min()
    }

    pub(crate) fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        self.enquiry.as_mut()?.poll_transmit(now)
    }

    /// Where a service is on a second network.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        let (address, second) = self.enquiry.as_mut()?.poll_second()?;
        Some(Event::SecondAddress { address, second })
    }

    fn ask(&mut self, now: Instant) {
        self.list = match self.list {
            QueryKind::Nodes => QueryKind::Groups,
            QueryKind::Groups => QueryKind::Regions,
            QueryKind::Regions => QueryKind::Nodes,
        };
        let config = EnquiryConfig {
            cluster: self.config.cluster_number(),
            question: EnquiryQuestion::List(self.list),
            service: self.config.service,
            discovery: self.config.discovery,
            datagram_bytes: self.config.datagram_bytes,
        };
        let seed = Seed(self.random.bits());
        self.enquiry = Some(Enquiry::new(config, self.config.node, seed, now));
        self.due = now.after(PATIENCE);
    }

    fn look(&mut self, now: Instant) {
        let Some(outcome) = self.enquiry.as_mut().and_then(Enquiry::poll_outcome) else {
            return;
        };
        match outcome {
            Ok(EnquiryAnswer::Rows(rows)) => self.looked.take(&rows),
            Ok(EnquiryAnswer::Group(_)) | Err(_) => self.looked.failed += 1,
        }
        self.enquiry = None;
        self.due = now.after(PAUSE);
    }
}
