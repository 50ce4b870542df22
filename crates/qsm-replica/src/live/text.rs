//! A text that several programs write at once.

use std::cell::Cell;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;
use yrs::updates::decoder::Decode;
use yrs::{
    ClientID, Doc, GetString, Options, ReadTxn, StateVector, Text, TextRef, Transact,
    TransactionMut, Update,
};

use crate::machine::{RestoreError, StateMachine};
use crate::random::draw;
use crate::replica::Replica;
use crate::word::{read, write};

use super::error::LiveError;
use super::open;
use super::stamp::origin;
use super::uri::Kind;

/// In front of a snapshot, so that no other kind of state takes it.
const FORM: &[u8] = b"qsm text 1\n";
/// Name of the text in its document.
const NAME: &str = "text";
/// Bits of a number that a writer of a document may have.
const WRITER_BITS: u32 = 53;

/// A text that several programs write at once and have alike, by the CRDT of Yjs (`yrs`).
///
/// Writing stays where it was put: letters keep their neighbours though others insert and remove around them.
/// Places are counted in characters.
///
/// ```no_run
/// use qsm_replica::LiveText;
///
/// let text = LiveText::bind("qsm://office/minutes?type=text")?;
/// text.insert(0, "Present: ")?;
/// println!("{}", text.text());
/// # Ok::<(), qsm_replica::LiveError>(())
/// ```
pub type LiveText = Replica<TextState>;

/// Bounds of a text. Those of the replica that founds it hold for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TextBounds {
    /// Bytes of the text in UTF-8, beyond which a replica refuses to write. Writes that are on their way may exceed it.
    /// 1 MiB.
    pub bytes: usize,
}

impl Default for TextBounds {
    fn default() -> Self {
        Self { bytes: 1 << 20 }
    }
}

impl TextBounds {
    /// The same for so many bytes.
    #[must_use]
    pub fn bytes(self, bytes: usize) -> Self {
        Self { bytes }
    }
}

/// The state of a [`LiveText`].
#[derive(Debug)]
pub struct TextState {
    bounds: TextBounds,
    random: u64,
    doc: Doc,
    text: TextRef,
    /// Changes here.
    changes: u64,
    digest: Cell<Option<u64>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Image {
    bounds: TextBounds,
    #[serde(with = "serde_bytes")]
    update: Vec<u8>,
}

impl TextState {
    /// An empty text.
    #[must_use]
    pub fn new(bounds: TextBounds) -> Self {
        Self::of_origin(bounds, origin())
    }

    /// An empty text of a writer with this number, which no other may have.
    #[must_use]
    pub fn of_origin(bounds: TextBounds, origin: u64) -> Self {
        let mut random = origin;
        let doc = document(&mut random);
        let text = doc.get_or_insert_text(NAME);
        Self {
            bounds,
            random,
            doc,
            text,
            changes: 0,
            digest: Cell::new(None),
        }
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> String {
        self.text.get_string(&self.doc.transact())
    }

    /// Inserts before a place, counted in characters, and returns the update to publish.
    ///
    /// # Errors
    /// The place is beyond the end, or the text would be too long.
    pub fn insert(&mut self, at: usize, inserted: &str) -> Result<Vec<u8>, LiveError> {
        let text = self.text();
        let (bytes, bound) = (text.len() + inserted.len(), self.bounds.bytes);
        if bytes > bound {
            return Err(LiveError::Full { bytes, bound });
        }
        let at = offset(&text, at)?;
        Ok(self.edited(|text, document| text.insert(document, at, inserted)))
    }

    /// Removes so many characters from a place on, and returns the update to publish.
    ///
    /// # Errors
    /// The last of them is beyond the end.
    pub fn remove(&mut self, at: usize, characters: usize) -> Result<Vec<u8>, LiveError> {
        let text = self.text();
        let begin = offset(&text, at)?;
        let end = offset(&text, at.saturating_add(characters))?;
        Ok(self.edited(|text, document| text.remove_range(document, begin, end - begin)))
    }

    fn edited(&mut self, edit: impl FnOnce(&TextRef, &mut TransactionMut<'_>)) -> Vec<u8> {
        let mut document = self.doc.transact_mut();
        edit(&self.text, &mut document);
        let update = document.encode_update_v1();
        drop(document);
        self.note();
        update
    }

    /// The text, if it is another than was seen there.
    fn change(&self, seen: &mut Seen) -> Option<String> {
        if seen.changes == Some(self.changes) {
            return None;
        }
        seen.changes = Some(self.changes);
        // A write that comes back changes nothing.
        let digest = self.digest();
        let same = std::mem::replace(&mut seen.digest, digest) == digest;
        (!same).then(|| self.text())
    }

    fn note(&mut self) {
        self.changes += 1;
        self.digest.set(None);
    }
}

/// A document of a writer that there was never before: the letters of a writer are numbered, and numbers that were lost
/// with what it wrote must not come again.
fn document(random: &mut u64) -> Doc {
    let writer = draw(random) >> (u64::BITS - WRITER_BITS);
    Doc::with_options(Options {
        client_id: ClientID::new(writer),
        ..Options::default()
    })
}

/// The byte at which a character begins, or the text ends.
fn offset(text: &str, at: usize) -> Result<u32, LiveError> {
    let mut places = text
        .char_indices()
        .map(|(byte, _)| byte)
        .chain([text.len()]);
    let byte = places.nth(at).and_then(|byte| u32::try_from(byte).ok());
    byte.ok_or_else(|| {
        let length = text.chars().count();
        LiveError::Place { at, length }
    })
}

impl StateMachine for TextState {
    fn apply(&mut self, update: &[u8]) {
        // All replicas pass over the same nonsense.
        if let Ok(update) = Update::decode_v1(update) {
            drop(self.doc.transact_mut().apply_update(update));
            self.note();
        }
    }

    fn snapshot(&self, out: &mut Vec<u8>) {
        let update = self
            .doc
            .transact()
            .encode_state_as_update_v1(&StateVector::default());
        let bounds = self.bounds;
        out.extend_from_slice(FORM);
        out.extend_from_slice(&write(&Image { bounds, update }));
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError> {
        let body = snapshot.strip_prefix(FORM).ok_or(RestoreError)?;
        let image = read::<Image>(body).ok_or(RestoreError)?;
        let update = Update::decode_v1(&image.update).map_err(|_| RestoreError)?;
        let doc = document(&mut self.random);
        let text = doc.get_or_insert_text(NAME);
        let applied = doc.transact_mut().apply_update(update);
        applied.map_err(|_| RestoreError)?;
        (self.bounds, self.doc, self.text) = (image.bounds, doc, text);
        self.note();
        Ok(())
    }

    fn digest(&self) -> Option<u64> {
        let known = self.digest.get();
        let digest = known.unwrap_or_else(|| xxh3_64(self.text().as_bytes()));
        self.digest.set(Some(digest));
        Some(digest)
    }

    fn size(&self) -> u64 {
        self.text().len() as u64
    }
}

impl Replica<TextState> {
    /// Starts a node and binds to the text at an address ([`Uri`](crate::Uri)), which takes a second if nobody has it.
    ///
    /// # Errors
    /// The address is none of a text, no node starts, or the state does not come.
    pub fn bind(uri: &str) -> Result<Self, LiveError> {
        open::bind(uri, Kind::Text, TextState::new(TextBounds::default()))
    }

    /// Inserts before a place, counted in characters.
    ///
    /// # Errors
    /// The place is beyond the end, the text would be too long, or the replica is not live.
    pub fn insert(&self, at: usize, inserted: &str) -> Result<(), LiveError> {
        self.update_by(|text| text.insert(at, inserted))
    }

    /// Removes so many characters from a place on.
    ///
    /// # Errors
    /// The last of them is beyond the end, or the replica is not live.
    pub fn remove(&self, at: usize, characters: usize) -> Result<(), LiveError> {
        self.update_by(|text| text.remove(at, characters))
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> String {
        self.read(TextState::text)
    }

    /// Watches the text: as it is first, then whenever it has changed.
    #[must_use]
    pub fn watch(&self) -> TextWatch<'_> {
        TextWatch {
            text: self,
            seen: Seen::default(),
        }
    }
}

/// A text as it changes.
#[derive(Debug)]
pub struct TextWatch<'a> {
    text: &'a LiveText,
    seen: Seen,
}

/// A place in the changes of a text.
#[derive(Debug, Default)]
struct Seen {
    changes: Option<u64>,
    digest: Option<u64>,
}

impl TextWatch<'_> {
    /// The text, once it is another than was read last; `None` if it is not in this time.
    ///
    /// # Errors
    /// The replica has ended.
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Option<String>, LiveError> {
        let seen = &mut self.seen;
        Ok(self.text.wait_for(timeout, |text| text.change(seen))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(origin: u64) -> TextState {
        TextState::of_origin(TextBounds::default(), origin)
    }

    fn snapshot(text: &TextState) -> Vec<u8> {
        let mut bytes = Vec::new();
        text.snapshot(&mut bytes);
        bytes
    }

    #[test]
    fn edits_made_at_once_are_merged_alike() {
        let (mut a, mut b, mut c) = (text(1), text(2), text(3));
        let first = a.insert(0, "Grüße").unwrap();
        b.apply(&first);
        let at_end = a.insert(5, " an alle").unwrap();
        let umlaut = b.remove(2, 1).unwrap();
        let replaced = b.insert(2, "ue").unwrap();
        for update in [&umlaut, &replaced] {
            a.apply(update);
        }
        b.apply(&at_end);
        // In another order, and one of them twice.
        for update in [&replaced, &umlaut, &at_end, &first, &at_end] {
            c.apply(update);
        }
        for text in [&a, &b, &c] {
            assert_eq!(text.text(), "Grueße an alle");
            assert_eq!(text.digest(), a.digest());
        }
    }

    #[test]
    fn a_replica_that_lost_what_it_wrote_writes_on_as_another() {
        let (mut a, mut b) = (text(1), text(2));
        let first = a.insert(0, "ab").unwrap();
        b.apply(&first);
        // Nobody gets it.
        a.insert(1, "lost").unwrap();
        a.restore(&snapshot(&b)).unwrap();
        let second = a.insert(2, "c").unwrap();
        b.apply(&second);
        assert_eq!((&*a.text(), &*b.text()), ("abc", "abc"));
    }

    #[test]
    fn who_watches_sees_each_text_once() {
        let mut text = text(1);
        let mut seen = Seen::default();
        assert_eq!(text.change(&mut seen).as_deref(), Some(""));
        let own = text.insert(0, "a").unwrap();
        assert_eq!(text.change(&mut seen).as_deref(), Some("a"));
        text.apply(&own);
        assert_eq!(text.change(&mut seen), None);
    }

    #[test]
    fn what_cannot_be_written_is_refused() {
        let mut text = TextState::of_origin(TextBounds::default().bytes(8), 1);
        text.insert(0, "12345").unwrap();
        let beyond = text.insert(6, "").unwrap_err();
        assert!(matches!(beyond, LiveError::Place { at: 6, length: 5 }));
        assert!(matches!(text.remove(4, 2), Err(LiveError::Place { .. })));
        assert!(matches!(
            text.insert(0, "6789"),
            Err(LiveError::Full { .. })
        ));
        for update in [&b""[..], b"\xff\xff\xff\xff", b"nonsense"] {
            text.apply(update);
        }
        assert_eq!(text.text(), "12345");
        assert_eq!(text.restore(b"qsm map 1\n"), Err(RestoreError));
    }
}
