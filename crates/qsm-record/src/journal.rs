//! Entries on their way into blocks.

use core::time::Duration;
use std::path::PathBuf;

use qsm_proto::{Datagram, Instant};

use crate::block;
use crate::disk::Disk;
use crate::entry::{Entry, EntryWriter};
use crate::error::{Ending, OpenError, Stopped};
use crate::input::Input;
use crate::outputs::Outputs;
use crate::setup::Setup;

/// Default of [`JournalOptions::limit_bytes`]: 1 GiB.
pub const LIMIT_BYTES: u64 = 1 << 30;

/// A block is written once it has so many bytes,
const BLOCK_BYTES: usize = 256 << 10;
/// or is so old: what a process that is killed loses.
const BLOCK_AGE: Duration = Duration::from_millis(250);

/// Where and how much to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalOptions {
    /// The file. What is there is overwritten.
    pub path: PathBuf,
    /// Most bytes of the file; then recording stops, and the node goes on.
    pub limit_bytes: u64,
}

/// What goes into an endpoint, and digests of what comes out of it, on their way into a file.
#[derive(Debug)]
pub struct Journal {
    disk: Disk,
    writer: EntryWriter,
    block: Vec<u8>,
    blocks: u64,
    bytes: u64,
    limit_bytes: u64,
    /// When the first entry of the block was made.
    begun: Option<Instant>,
    now: Instant,
    /// Of the present call.
    outputs: Outputs,
    /// The endpoint has not come back from it.
    calling: bool,
    /// Where the buffers lie that datagrams were lent of since the last refill.
    buffers: Vec<usize>,
    stopped: Option<Stopped>,
}

impl Journal {
    /// Makes the file, and writes the node's start into it.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn open(options: &JournalOptions, setup: &Setup) -> Result<Self, OpenError> {
        let mut disk = Disk::open(&options.path)?;
        let mut first = block::file_head();
        first.extend(block::whole(0, |body| setup.put(body)));
        let bytes = first.len() as u64;
        let stopped = disk.push(first).err();
        let mut next = Vec::with_capacity(BLOCK_BYTES + (64 << 10));
        block::begin(&mut next);
        Ok(Self {
            disk,
            writer: EntryWriter::default(),
            block: next,
            blocks: 1,
            bytes,
            limit_bytes: options.limit_bytes,
            begun: None,
            now: setup.start,
            outputs: Outputs::default(),
            calling: false,
            buffers: Vec::new(),
            stopped,
        })
    }

    /// Buffers may have been filled anew.
    pub(crate) fn refill(&mut self) {
        if !self.buffers.is_empty() {
            self.settle();
            self.buffers.clear();
            self.put(&Entry::Refill);
        }
    }

    /// Notes a datagram.
    pub(crate) fn datagram(
        &mut self,
        now: Instant,
        from: std::net::SocketAddr,
        datagram: &Datagram<'_>,
    ) {
        let bytes = datagram.bytes();
        let Some((buffer, start)) = datagram.home() else {
            self.input(now, &Input::Datagram { from, bytes });
            return;
        };
        let at = buffer.as_ptr().addr();
        let known = self.buffers.iter().rposition(|known| *known == at);
        let number = known.unwrap_or_else(|| {
            self.settle();
            self.buffers.push(at);
            self.put(&Entry::Buffer(buffer));
            self.buffers.len() - 1
        });
        self.input(
            now,
            &Input::Lent {
                from,
                buffer: number,
                start,
                length: bytes.len(),
            },
        );
    }

    /// Notes a call that is about to be made.
    pub(crate) fn input(&mut self, now: Instant, input: &Input<'_>) {
        self.settle();
        if self.block.len() >= BLOCK_BYTES {
            self.flush();
        }
        self.now = now;
        self.calling = true;
        self.put(&Entry::Input(now, input.clone()));
    }

    /// Notes a call of the same time as the last one.
    pub(crate) fn input_now(&mut self, input: &Input<'_>) {
        self.input(self.now, input);
    }

    /// What the present call gives.
    pub(crate) fn outputs(&mut self) -> &mut Outputs {
        &mut self.outputs
    }

    /// The endpoint has come back from the call.
    pub(crate) fn done(&mut self) {
        self.calling = false;
    }

    /// Writes a block that is old. Returns why recording has stopped, once it has.
    pub(crate) fn turn(&mut self, now: Instant) -> Option<Stopped> {
        if self
            .begun
            .is_some_and(|begun| now.since(begun) >= BLOCK_AGE)
        {
            self.settle();
            self.flush();
        }
        let stopped = self.stopped.take()?;
        Some(self.stop(stopped))
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// Not all is in the file.
    pub(crate) fn close(mut self) -> Result<(), Stopped> {
        match self.calling {
            true => self.put(&Entry::Unfinished),
            false => self.settle(),
        }
        self.flush();
        match self.stopped.take() {
            Some(stopped) => Err(self.stop(stopped)),
            None => self.end(Ending::Closed),
        }
    }

    /// Says in the file why it ends. Returns why it does: perhaps that not even this is in it.
    fn stop(&mut self, stopped: Stopped) -> Stopped {
        let ending = match stopped {
            Stopped::Limit { .. } => Ending::Limit,
            _ => Ending::Slow,
        };
        self.end(ending).err().unwrap_or(stopped)
    }

    fn end(&mut self, ending: Ending) -> Result<(), Stopped> {
        let (writer, entry) = (&mut self.writer, Entry::End(ending));
        let last = block::whole(self.blocks, |body| writer.put(&entry, body));
        self.disk.finish(last)
    }

    /// Notes what the last call gave.
    fn settle(&mut self) {
        let outputs = core::mem::take(&mut self.outputs);
        if !outputs.is_empty() {
            self.put(&Entry::Outputs(outputs));
        }
    }

    fn put(&mut self, entry: &Entry<'_>) {
        self.begun.get_or_insert(self.now);
        self.writer.put(entry, &mut self.block);
    }

    /// Hands the block over.
    fn flush(&mut self) {
        let full = self.begun.take().is_some();
        if !full || self.stopped.is_some() {
            block::begin(&mut self.block);
            return;
        }
        let next = Vec::with_capacity(self.block.capacity().min(2 * BLOCK_BYTES));
        let mut full = core::mem::replace(&mut self.block, next);
        block::begin(&mut self.block);
        self.bytes += full.len() as u64;
        if self.bytes > self.limit_bytes || !block::seal(self.blocks, &mut full) {
            let bytes = self.limit_bytes;
            self.stopped = Some(Stopped::Limit { bytes });
            return;
        }
        match self.disk.push(full) {
            Ok(()) => self.blocks += 1,
            Err(stopped) => self.stopped = Some(stopped),
        }
    }
}
