//! A sender of the demonstration.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use qsm::{Publisher, SendError};
use qsm_console::failure::Failure;

use crate::content::{self, Dice, Files};
use crate::messages::{DemoCommand, DemoReport, Figures};
use crate::node::{DemoNode, say};
use crate::plan::{Plan, Source};
use crate::tally::Ledger;

/// How long receivers may take to appear, and to have everything.
const PATIENCE: Duration = Duration::from_secs(20);

/// Groups whose members are counted between two batches, after a receiver came back.
const COUNTED_AT_ONCE: usize = 200;

/// How often the members of the cluster-wide group are counted.
const COUNT: Duration = Duration::from_millis(20);

/// How long to rest when ahead of the rate, or when queues are full.
const REST: Duration = Duration::from_millis(2);

impl Source {
    /// Messages a second: what nine receivers on two cores take, with all the rest to do.
    fn rate(self) -> f64 {
        match self {
            Self::Files => 400.0,
            Self::Ticks => 12_000.0,
            Self::Telemetry => 4_000.0,
            Self::Letters => 400.0,
        }
    }

    /// Every so many batches there is an announcement to all.
    fn announces_every(self) -> u64 {
        match self {
            Self::Letters => 4,
            Self::Files | Self::Ticks | Self::Telemetry => 64,
        }
    }

    /// Messages between two looks at anything else.
    fn batch(self) -> u64 {
        match self {
            Self::Files => 4,
            Self::Ticks => 64,
            Self::Telemetry => 32,
            Self::Letters => 1,
        }
    }
}

struct Sender<'a> {
    plan: &'a Plan,
    source: Source,
    /// Places in the plan.
    groups: Vec<usize>,
    publishers: Vec<Publisher>,
    ledger: Ledger,
    files: Files,
    dice: Dice,
    message: Vec<u8>,
    messages: u64,
    bytes: u64,
    batches: u64,
    /// How many groups have been found complete since [`DemoCommand::Mark`].
    marking: Option<usize>,
    members: u32,
    counted: Instant,
}

/// Publishes until the coordinator ends it.
///
/// # Errors
/// The node cannot publish, or receivers stay away.
pub(crate) fn run(
    plan: &Plan,
    source: Source,
    folder: Option<&Path>,
    mut child: DemoNode,
) -> Result<(), Failure> {
    let groups = plan.published_by(source);
    let publishers = child
        .node
        .groups(groups.iter().map(|&at| &plan.groups[at].name))
        .publishers()?;
    let paths = match source {
        Source::Files => content::find_files(folder)
            .map_err(|error| Failure::io("look for files to publish", &error))?,
        Source::Ticks | Source::Telemetry | Source::Letters => Vec::new(),
    };
    let mut sender = Sender {
        plan,
        source,
        ledger: Ledger::new(&groups),
        groups,
        publishers,
        files: Files::new(paths),
        dice: Dice::new(source.batch()),
        message: Vec::new(),
        messages: 0,
        bytes: 0,
        batches: 0,
        marking: None,
        members: 0,
        counted: Instant::now(),
    };
    child.ready()?;
    if !sender.wait_for_start(&mut child)? || !sender.publish(&mut child)? {
        return Ok(());
    }
    child.node.flush(PATIENCE)?;
    child.hurry();
    sender.report(&mut child)?;
    let regions = child.node.list_regions()?;
    let shared = regions.iter().filter(|row| row.address.ip().is_multicast());
    let shared: Vec<_> = shared.map(|row| (row.members.len(), row.groups)).collect();
    say(&DemoReport::Published {
        groups: sender.ledger.published(),
        private_regions: regions.len() - shared.len(),
        regions: shared,
    })?;
    sender.answer(&mut child)
}

impl Sender<'_> {
    /// False if the coordinator has ended.
    fn wait_for_start(&self, child: &mut DemoNode) -> Result<bool, Failure> {
        loop {
            match child.told.recv_timeout(crate::node::REPORT) {
                Ok(DemoCommand::Start) => break,
                Err(RecvTimeoutError::Timeout) => self.report(child)?,
                _ => return Ok(false),
            }
        }
        for (publisher, &group) in self.publishers.iter().zip(&self.groups) {
            publisher.wait_for_members(self.plan.members(group), PATIENCE)?;
        }
        say(&DemoReport::Started)?;
        Ok(true)
    }

    /// False if the coordinator has ended.
    fn publish(&mut self, child: &mut DemoNode) -> Result<bool, Failure> {
        let start = Instant::now();
        loop {
            match child.told.try_recv() {
                Ok(DemoCommand::Mark) => self.marking = Some(0),
                Ok(DemoCommand::Finish) => return Ok(true),
                Ok(DemoCommand::Start | DemoCommand::Report { .. } | DemoCommand::Hash { .. })
                | Err(TryRecvError::Empty) => {}
                Ok(DemoCommand::End) | Err(TryRecvError::Disconnected) => return Ok(false),
            }
            let due = (start.elapsed().as_secs_f64() * self.source.rate()) as u64;
            if self.messages >= due || !self.batch()? {
                // Ahead of the rate, or the receivers are slower: either way, look again later.
                thread::sleep(REST);
            }
            self.count_members()?;
            self.report(child)?;
        }
    }

    /// Some messages; false if queues are full.
    fn batch(&mut self) -> Result<bool, Failure> {
        self.batches += 1;
        if self.batches.is_multiple_of(self.source.announces_every()) {
            let name = self.source.name();
            let text = format!("{name} has published {} messages", self.messages);
            self.message.clear();
            self.message.extend_from_slice(text.as_bytes());
            // The cluster-wide group is the last of the plan, and so of each source.
            return self.send(self.groups.len() - 1);
        }
        for _ in 0..self.source.batch() {
            let Some(place) = self.compose() else {
                return Ok(false);
            };
            if !self.send(place)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes the next message; the place of its group among the groups of this sender.
    fn compose(&mut self) -> Option<usize> {
        let others = self.groups.len() - 1;
        let (count, dice) = (self.messages, &mut self.dice);
        if self.source == Source::Files {
            let file = self.files.next(&mut self.message)?;
            return Some(file % others);
        }
        self.message.clear();
        let place = dice.below(others);
        match self.source {
            Source::Ticks => content::tick(place, count, dice, &mut self.message),
            Source::Letters => content::letter(place, count, &mut self.message),
            _ => content::measurement(place, count, dice, &mut self.message),
        }
        Some(place)
    }

    /// Waits while the queue is full, because a message once composed has to go.
    fn send(&mut self, place: usize) -> Result<bool, Failure> {
        let Some(publisher) = self.publishers.get(place) else {
            return Ok(false);
        };
        let room = match publisher.try_send(&self.message) {
            Err(SendError::Full) => {
                publisher.send(&self.message)?;
                false
            }
            other => other.map(|()| true)?,
        };
        self.ledger.add(place, &self.message);
        self.messages += 1;
        self.bytes += self.message.len() as u64;
        Ok(room)
    }

    /// Notices receivers that go and come.
    fn count_members(&mut self) -> Result<(), Failure> {
        if self.counted.elapsed() < COUNT {
            return Ok(());
        }
        self.counted = Instant::now();
        let all = self.publishers.last().map_or(Ok(0), Publisher::members)?;
        if all != self.members {
            self.members = all;
            say(&DemoReport::Members(all))?;
        }
        let Some(done) = self.marking else {
            return Ok(());
        };
        let rest = self
            .publishers
            .iter()
            .zip(&self.groups)
            .skip(done)
            .take(COUNTED_AT_ONCE);
        let mut complete = done;
        for (publisher, &group) in rest {
            if publisher.members()? < self.plan.members(group) {
                break;
            }
            complete += 1;
        }
        self.marking = Some(complete);
        if complete == self.groups.len() {
            self.ledger.mark();
            self.marking = None;
            say(&DemoReport::Marked)?;
        }
        Ok(())
    }

    fn report(&self, child: &mut DemoNode) -> Result<(), Failure> {
        child.report(|figures: &mut Figures| {
            figures.messages = self.messages;
            figures.bytes = self.bytes;
            figures.groups = self.groups.len() as u64;
            figures.members = self.members;
        })
    }

    /// Says what was published, until the coordinator has heard enough.
    fn answer(&self, child: &mut DemoNode) -> Result<(), Failure> {
        loop {
            match child.told.recv_timeout(crate::node::REPORT) {
                Ok(DemoCommand::Hash { ranges }) => {
                    let hashes = ranges
                        .iter()
                        .map(|&range| self.ledger.hash(range))
                        .collect();
                    say(&DemoReport::Hashes(hashes))?;
                }
                Ok(DemoCommand::End) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
            self.report(child)?;
        }
        drop(child.node.shutdown(Duration::from_secs(1)));
        Ok(())
    }
}
