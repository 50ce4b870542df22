//! A file of a node's past, read from its beginning.

use core::fmt;
use core::ops::ControlFlow;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use crate::block::Blocks;
use crate::entry::{Entry, EntryReader};
use crate::error::{Ending, ReadError};
use crate::fields::Fields;
use crate::setup::Setup;

/// A recording that is read block by block; it is never in memory as a whole.
pub struct Recording<R> {
    setup: Setup,
    blocks: Blocks<R>,
    reader: EntryReader,
}

impl Recording<BufReader<File>> {
    /// Opens a file.
    ///
    /// # Errors
    /// It cannot be read, is no recording, or is one of another version.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        Self::new(BufReader::with_capacity(1 << 20, File::open(path)?))
    }
}

impl<R: Read> Recording<R> {
    /// Reads the node's start.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn new(from: R) -> Result<Self, ReadError> {
        let mut blocks = Blocks::new(from)?;
        let first = blocks.next()?.ok_or(ReadError::Empty)?;
        let setup = Setup::take(&mut Fields(first));
        let (setup, protocol) = setup.map_err(|_| ReadError::Malformed { block: 0 })?;
        if protocol != qsm_wire::VERSION {
            return Err(ReadError::Protocol {
                found: protocol,
                version: setup.version,
            });
        }
        Ok(Self {
            setup,
            blocks,
            reader: EntryReader::default(),
        })
    }

    /// The node's start.
    #[must_use]
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Gives each entry to `each`, until that breaks or the end is there.
    pub(crate) fn read<B>(
        &mut self,
        mut each: impl FnMut(Entry<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B, Ending>, ReadError> {
        let mut ending = Ending::Cut;
        while let Some(block) = self.blocks.next()? {
            let entry = |entry: Entry<'_>| {
                if let Entry::End(end) = entry {
                    ending = end;
                }
                each(entry)
            };
            match self.reader.read(block, entry) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(broken)) => return Ok(ControlFlow::Break(broken)),
                Err(_) => {
                    let block = self.blocks.number();
                    return Err(ReadError::Malformed { block });
                }
            }
        }
        Ok(ControlFlow::Continue(ending))
    }
}

impl<R> fmt::Debug for Recording<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Recording");
        shown.field("setup", &self.setup).finish_non_exhaustive()
    }
}
