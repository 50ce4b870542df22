//! The thread that writes a file, so that the node does not wait for the disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use crate::error::{OpenError, Stopped};

/// Blocks that may wait, of a quarter of a megabyte each for the most part.
const BLOCKS_MAX: usize = 256;

/// A file that is written by a thread of its own. Dropped, it is written to its end.
#[derive(Debug)]
pub(crate) struct Disk {
    blocks: Option<SyncSender<Vec<u8>>>,
    /// Bytes handed over and not yet written.
    waiting: Arc<AtomicU64>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Disk {
    /// Makes the file, for this user only: it has all messages in it. What was there before is gone.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let error = |source| OpenError {
            path: path.to_owned(),
            source,
        };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(path).map_err(error)?;
        Self::start(file).map_err(error)
    }

    fn start(file: File) -> io::Result<Self> {
        let (blocks, written) = sync_channel(BLOCKS_MAX);
        let waiting = Arc::new(AtomicU64::new(0));
        let left = Arc::clone(&waiting);
        let thread = thread::Builder::new()
            .name("qsm-record".to_owned())
            .spawn(move || write(file, &written, &left))?;
        Ok(Self {
            blocks: Some(blocks),
            waiting,
            thread: Some(thread),
        })
    }

    /// Hands over a block.
    ///
    /// # Errors
    /// The file cannot be written, or too much waits for it. Nothing more is taken.
    pub(crate) fn push(&mut self, block: Vec<u8>) -> Result<(), Stopped> {
        let length = block.len() as u64;
        let Some(blocks) = &self.blocks else {
            return Ok(());
        };
        self.waiting.fetch_add(length, Ordering::Relaxed);
        if blocks.try_send(block).is_ok() {
            return Ok(());
        }
        let bytes = self.waiting.load(Ordering::Relaxed);
        if self
            .thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
        {
            return Err(Stopped::Slow { bytes });
        }
        Err(self.close().err().unwrap_or(Stopped::Slow { bytes }))
    }

    /// Hands over the last block, and waits until all is written.
    pub(crate) fn finish(&mut self, last: Vec<u8>) -> Result<(), Stopped> {
        if let Some(blocks) = &self.blocks {
            // It fails only if the thread has ended, which says why.
            blocks.send(last).ok();
        }
        self.close()
    }

    /// Waits until all is written.
    fn close(&mut self) -> Result<(), Stopped> {
        self.blocks = None;
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        let ended = thread.join().unwrap_or_else(|_| {
            let cause = "the thread that writes it has panicked";
            Err(io::Error::other(cause))
        });
        ended.map_err(|error| Stopped::disk(&error))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Nobody is left to be told.
        self.close().ok();
    }
}

fn write(mut file: File, blocks: &Receiver<Vec<u8>>, waiting: &AtomicU64) -> io::Result<()> {
    for block in blocks {
        file.write_all(&block)?;
        waiting.fetch_sub(block.len() as u64, Ordering::Relaxed);
    }
    Ok(())
}
