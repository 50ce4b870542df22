//! Lines on stdout on what happens.

use std::sync::Once;

use qsm_console::failure::Failure;
use qsm_console::log::Note;
use qsm_console::output;
use serde_json::Value;

/// Lines on stdout, at once, so that whoever started this can read on.
pub(super) struct Events {
    pub(super) json: bool,
}

impl Events {
    pub(super) fn say(&self, text: &str, value: &Value) -> Result<(), Failure> {
        output::write(match self.json {
            true => format!("{value}\n"),
            false => format!("{text}\n"),
        })
    }
}

/// Says loudly what is missing, once, however many ports there are.
pub(super) fn warn_of_openness() {
    static SAID: Once = Once::new();
    let line = "streams by relays are neither encrypted nor authenticated: whoever reaches the port can \
                read and forge them";
    SAID.call_once(|| Note::warn("open", line).say());
}
