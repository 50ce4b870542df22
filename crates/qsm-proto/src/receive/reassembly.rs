use qsm_wire::{Chunk, Part};

/// Puts a message together from the chunks of one stream, which come in order and without other
/// messages in between.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    /// Group and number of the message under construction.
    message: Option<(u32, u32)>,
    total: usize,
    bytes: Vec<u8>,
}

/// Memory kept from one large message for the next.
const SPARE_BYTES: usize = 1 << 16;

impl Reassembly {
    /// Takes the next part of a message; `true` when it is complete.
    ///
    /// # Errors
    /// A part that does not continue what came before, or a message above `limit` bytes; nothing
    /// of the message is kept.
    pub(super) fn add(&mut self, chunk: &Chunk<'_>, limit: usize) -> Result<bool, ()> {
        let id = (chunk.group.0, chunk.message);
        if let Part::First { total } = chunk.part {
            self.reset();
            self.total = total as usize;
            self.message = (self.total <= limit).then_some(id);
        }
        let fits = self.bytes.len() + chunk.content.len() <= self.total;
        if self.message != Some(id) || !fits {
            self.reset();
            return Err(());
        }
        self.bytes.extend_from_slice(chunk.content);
        if chunk.part != Part::Last {
            return Ok(false);
        }
        if self.bytes.len() == self.total {
            return Ok(true);
        }
        self.reset();
        Err(())
    }

    /// The complete message.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets what is there.
    pub(super) fn reset(&mut self) {
        self.message = None;
        self.bytes.clear();
        if self.bytes.capacity() > SPARE_BYTES {
            self.bytes = Vec::new();
        }
    }
}
