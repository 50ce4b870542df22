//! Standard output, written by a thread of its own: a pipe that nobody empties holds that thread, and
//! nobody else.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use qsm_console::failure::Failure;

/// Blocks that wait; whoever has another one waits too.
const BLOCKS_MAX: usize = 2;

/// How often one who waits looks whether he still should.
const LOOK: Duration = Duration::from_millis(20);

/// Bytes to write, and the messages that end in them.
#[derive(Debug, Default)]
struct Block {
    bytes: Vec<u8>,
    messages: u64,
}

#[derive(Debug, Default)]
struct State {
    blocks: VecDeque<Block>,
    /// One is being written.
    busy: bool,
    /// Messages written.
    written: u64,
    error: Option<io::Error>,
    /// Whoever read the output has gone.
    closed: bool,
    /// Nothing more will come.
    ended: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What waits to be written to standard output.
#[derive(Debug)]
pub(crate) struct Spool(Arc<Shared>);

impl Spool {
    /// For standard output.
    ///
    /// # Errors
    /// There is none, or no thread for it.
    pub(crate) fn of_stdout() -> Result<Self, Failure> {
        let stdout = io::stdout().as_fd().try_clone_to_owned();
        let stdout = stdout.map_err(|error| Failure::io("write to stdout", &error))?;
        Self::to(File::from(stdout))
    }

    fn to(output: impl Write + Send + 'static) -> Result<Self, Failure> {
        let shared = Arc::new(Shared::default());
        let writer = Arc::clone(&shared);
        thread::Builder::new()
            .name("output".to_owned())
            .spawn(move || write_all(&writer, output))
            .map_err(|error| Failure::io("start a thread", &error))?;
        Ok(Self(shared))
    }

    /// Hands over bytes in which so many messages end, and waits until there is room, or until it
    /// is `over`. Returns whether they were taken.
    ///
    /// # Errors
    /// Something before could not be written.
    pub(crate) fn put(
        &self,
        bytes: &mut Vec<u8>,
        messages: u64,
        over: impl FnMut() -> bool,
    ) -> Result<bool, Failure> {
        let mut state = self.wait(|state| state.blocks.len() < BLOCKS_MAX, over);
        if let Some(error) = state.error.take() {
            return Err(Failure::io("write to stdout", &error));
        }
        if state.blocks.len() >= BLOCKS_MAX {
            return Ok(false);
        }
        let bytes = core::mem::take(bytes);
        state.blocks.push_back(Block { bytes, messages });
        self.0.changed.notify_all();
        Ok(true)
    }

    /// Waits until everything is written, or until it is `over`.
    ///
    /// # Errors
    /// Something could not be written.
    pub(crate) fn finish(&self, over: impl Fn() -> bool) -> Result<(), Failure> {
        let mut state = self.wait(|state| state.blocks.is_empty() && !state.busy, over);
        let error = state.error.take();
        error.map_or(Ok(()), |error| Err(Failure::io("write to stdout", &error)))
    }

    /// Messages written.
    #[must_use]
    pub(crate) fn written(&self) -> u64 {
        self.0.state().written
    }

    /// Whether whoever read the output has gone.
    #[must_use]
    pub(crate) fn is_closed(&self) -> bool {
        self.0.state().closed
    }

    fn wait(
        &self,
        done: impl Fn(&State) -> bool,
        mut over: impl FnMut() -> bool,
    ) -> MutexGuard<'_, State> {
        let mut state = self.0.state();
        while !done(&state) && state.error.is_none() && !over() {
            let waited = self.0.changed.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.0.state().ended = true;
        self.0.changed.notify_all();
    }
}

/// The thread: writes blocks until there will be none. It may be in the middle of one when the
/// program ends.
fn write_all(shared: &Shared, mut output: impl Write) {
    loop {
        let mut state = shared.state();
        let block = loop {
            if let Some(block) = state.blocks.pop_front() {
                break block;
            }
            if state.ended {
                return;
            }
            let waited = shared.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        };
        state.busy = true;
        let gone = state.closed;
        drop(state);
        let written = match gone {
            true => Ok(()),
            false => output.write_all(&block.bytes),
        };
        let mut state = shared.state();
        state.busy = false;
        match written {
            Ok(()) => state.written += block.messages,
            // As for any filter: the reader has seen enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                state.written += block.messages;
                state.closed = true;
            }
            Err(error) => state.error = Some(error),
        }
        shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_full_pipe_holds_nobody_who_does_not_want_to_wait() {
        let (mut reader, writer) = io::pipe().unwrap();
        let spool = Spool::to(writer).unwrap();
        let (over, mut taken) = (AtomicBool::new(false), 0);
        let mut block = vec![b'x'; 1 << 20];
        while spool
            .put(&mut block, 1, || over.load(Ordering::Relaxed))
            .unwrap()
        {
            taken += 1;
            block = vec![b'x'; 1 << 20];
            // The pipe holds less than a block, so one is being written and the rest wait.
            over.store(taken > BLOCKS_MAX, Ordering::Relaxed);
        }
        assert_eq!(block.len(), 1 << 20, "what was not taken is still there");
        assert_eq!(spool.written(), 0);
        let read = thread::spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all.len())
        });
        spool.finish(|| false).unwrap();
        assert_eq!(spool.written(), taken as u64);
        drop(spool);
        assert_eq!(read.join().unwrap().unwrap(), taken << 20);
    }

    #[test]
    fn a_reader_that_leaves_is_no_error() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let spool = Spool::to(writer).unwrap();
        assert!(spool.put(&mut b"x".to_vec(), 1, || false).unwrap());
        spool.finish(|| false).unwrap();
        assert!(spool.is_closed());
    }
}
