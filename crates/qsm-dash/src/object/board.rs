//! The board: what an object is like now, for all browsers that watch it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::json;
use tokio::sync::watch::{self, Receiver, Sender};

use crate::stream::Told;

use super::change::{Change, Object};
use super::content::{VALUE_BYTES_MAX, beginning};
use super::rows::{BYTES_MAX, OBJECT_ROWS_MAX, Place, Rows};
use super::text::Text;

/// Longest word on the state of the object, bytes.
const WORD_BYTES_MAX: usize = 1024;

/// State of an object, and a bell that rings when it changes.
#[derive(Debug)]
pub(crate) struct Board {
    object: Object,
    state: Mutex<State>,
    bell: Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    rows: Rows,
    text: Text,
    word: Word,
    /// Changes of the word.
    words: u64,
}

/// A word on the state of the object.
#[derive(Debug, Clone, Default)]
struct Word {
    well: bool,
    text: String,
}

/// Place of a browser: all that it was told.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    place: Option<Place>,
    text: Arc<str>,
    words: u64,
    /// There is more that it can be told at once.
    pub(crate) more: bool,
}

impl Board {
    pub(crate) fn new(object: Object) -> Self {
        Self {
            object,
            state: Mutex::default(),
            bell: watch::channel(()).0,
        }
    }

    /// Takes a change.
    pub(crate) fn take(&self, change: Change) {
        let mut state = self.state();
        match change {
            Change::Set {
                key,
                written,
                value,
            } => state.rows.set(key, written, value),
            Change::Removed { key } => state.rows.remove(key),
            Change::Restart => state.rows.clear(),
            Change::Line(line) => state.rows.push(line),
            Change::Text(text) => state.text = Text::new(&text),
        }
        drop(state);
        self.bell.send_replace(());
    }

    /// Takes a word on whether all is well.
    pub(crate) fn say(&self, well: bool, text: &str) {
        let mut state = self.state();
        let text = beginning(text, WORD_BYTES_MAX).to_owned();
        state.word = Word { well, text };
        state.words += 1;
        drop(state);
        self.bell.send_replace(());
    }

    /// Hears when something changes.
    pub(crate) fn bell(&self) -> Receiver<()> {
        self.bell.subscribe()
    }

    /// The next thing for a browser that has heard so much: first what it is, then what is new. `None`: nothing is.
    pub(crate) fn news(&self, heard: &mut Heard) -> Option<Told> {
        let state = self.state();
        let torn = |place: &Place| !state.rows.is_torn(*place);
        let Some(mut place) = heard.place.filter(torn) else {
            let place = state.rows.begin();
            *heard = Heard {
                place: Some(place),
                more: true,
                ..Heard::default()
            };
            return Some(self.whole(place));
        };
        let rows = state.rows.news(&mut place);
        let text = (*heard.text != *state.text.shown).then(|| state.text.since(&heard.text));
        heard.more = state.rows.has_news(place);
        if rows.is_none() && text.is_none() && heard.words == state.words {
            return None;
        }
        let word = &state.word;
        let data = json!({
            "rows": rows,
            "text": text,
            "well": word.well,
            "word": word.text,
        });
        heard.place = Some(place);
        heard.text = Arc::clone(&state.text.shown);
        heard.words = state.words;
        let (kind, data) = ("change", data.to_string());
        Some(Told { kind, data })
    }

    /// The beginning: everything that follows replaces what was told before.
    fn whole(&self, place: Place) -> Told {
        let data = json!({
            "object": self.object.kind.name(),
            "cluster": self.object.cluster,
            "group": self.object.group,
            "begun": place.begun,
            "rows_max": OBJECT_ROWS_MAX,
            "bytes_max": BYTES_MAX,
            "value_bytes_max": VALUE_BYTES_MAX,
        });
        let (kind, data) = ("whole", data.to_string());
        Told { kind, data }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
