//! An object in the browser.

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use qsm::{Message, Received};
use qsm_console::failure::Failure;
use qsm_console::output;
use qsm_dash::{Change as Shown, Content, Line, Object, ObjectKind, ObjectPage};
use qsm_object::Schema;
use qsm_replica::{Kind, Uri};

use crate::access::{Access, AccessOptions};

use super::change::Change;

/// A page, which is served until it is dropped.
pub(super) struct Page {
    page: ObjectPage,
    access: Access,
}

impl Page {
    /// Listens, and shows nothing yet.
    ///
    /// # Errors
    /// Others than this host could see it and no token was given, or the address is not to be had.
    pub(super) fn start(
        listen: SocketAddr,
        options: &AccessOptions,
        uri: &Uri,
    ) -> Result<Self, Failure> {
        if !listen.ip().is_loopback() && !options.has_token() {
            return Err(Failure::usage(
                format!(
                    "{listen} is not of this host alone, and the page would have no token of yours"
                ),
                "give --access-token-file FILE, or listen at 127.0.0.1",
            ));
        }
        let access = options.at(listen)?;
        let object = Object {
            kind: match uri.kind {
                Kind::Map => ObjectKind::Map,
                Kind::Log => ObjectKind::Log,
                Kind::Text => ObjectKind::Text,
                _ => ObjectKind::Messages,
            },
            cluster: uri.cluster.clone(),
            group: uri.group.clone(),
        };
        let page = ObjectPage::start(access.config.clone(), object)
            .map_err(|error| Failure::io(format_args!("listen at {listen}"), &error))?;
        Ok(Self { page, access })
    }

    /// Writes where it is.
    pub(super) fn announce(&self) -> Result<(), Failure> {
        let address = self.page.address();
        if !address.ip().is_loopback() {
            output::say(format_args!(
                "qsm: {address} is not of this host alone: what the page shows, and its token, can be read on the \
                 way, since nothing is encrypted"
            ));
        }
        output::write(format!("{}\n", self.access.url(address)))
    }

    /// Shows a change.
    pub(super) fn take(&self, change: Change, schema: Option<&Schema>) {
        self.page.take(match change {
            Change::Set {
                key,
                written,
                value,
            } => Shown::Set {
                key,
                written: written.unwrap_or(UNIX_EPOCH),
                value: content(&value, schema),
            },
            Change::Removed { key } => Shown::Removed { key },
            Change::Restart => Shown::Restart,
            Change::Entry {
                written,
                content: bytes,
            } => line(written, content(&bytes, schema)),
            Change::Missed { entries } => {
                let words = format!("{entries} entries came and went unseen");
                line(SystemTime::now(), Content::missing(&words))
            }
            Change::Text(text) => Shown::Text(text),
        });
    }

    /// Shows a message.
    pub(super) fn message(&self, message: &Message, schema: Option<&Schema>) {
        let (sender, number) = match message.relayed() {
            Some(relayed) => (
                format!("{} of {}", relayed.name, relayed.site),
                relayed.number,
            ),
            None => (message.sender().to_string(), message.number()),
        };
        self.page.take(Shown::Line(Line {
            time: SystemTime::now(),
            sender: Some(sender),
            number: Some(number),
            content: content(message.bytes(), schema),
        }));
    }

    /// Shows that messages are missing.
    pub(super) fn missing(&self, missing: &Received) {
        let words = Content::missing(&missing.to_string());
        self.page.take(line(SystemTime::now(), words));
    }

    /// Shows a word of the replica.
    pub(super) fn say(&self, well: bool, word: &str) {
        self.page.say(well, word);
    }
}

fn line(time: SystemTime, content: Content) -> Shown {
    Shown::Line(Line {
        time,
        sender: None,
        number: None,
        content,
    })
}

/// Bytes as they are shown: an object of the schema, or as they are with the reason why they are none.
fn content(bytes: &[u8], schema: Option<&Schema>) -> Content {
    match schema.map(|schema| schema.read(bytes)) {
        None => Content::of(bytes),
        Some(Ok(object)) => {
            let kind = format!("{} v{}", object.name, object.version);
            Content::object(&kind, &object.value.to_string(), bytes.len())
        }
        Some(Err(error)) => Content::of(bytes).remark(&error.to_string()),
    }
}
