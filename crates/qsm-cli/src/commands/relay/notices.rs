//! Lines on what happens to links.

use qsm_console::log::Note;
use qsm_console::table::printable;
use qsm_link::LinkEvent;

/// Tells what happens, and what stays the same once.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// Why the parent is not reached.
    failure: Option<String>,
    /// Whom this end has refused last, and why.
    refused: Option<String>,
}

impl Notices {
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    pub(super) fn tell(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Up { address, name, .. } => {
                (self.failure, self.refused) = (None, None);
                let (name, address) = (printable(&name), address.to_string());
                let line = format!("linked with {name} at {address}");
                Note::info("linked", &line).address(&address).say();
            }
            LinkEvent::Down {
                address,
                name,
                cause,
            } => {
                let (name, address) = (printable(&name), address.to_string());
                let cause = printable(&cause);
                let line = format!("the link with {name} at {address} is gone: {cause}");
                Note::warn("unlinked", &line).address(&address).say();
            }
            LinkEvent::Failed { address, cause } => {
                let (cause, address) = (printable(&cause), address.to_string());
                if self.failure.as_ref() != Some(&cause) {
                    let line = format!(
                        "no link to the parent {address}: {cause}; it is tried again and again"
                    );
                    Note::warn("unlinked", &line).address(&address).say();
                }
                self.failure = Some(cause);
            }
            LinkEvent::Refused { address, cause } => {
                let (cause, address) = (printable(&cause), address.to_string());
                if self.refused.as_ref() != Some(&cause) {
                    let line = format!("no link with {address}: {cause}");
                    Note::warn("refused", &line).address(&address).say();
                }
                self.refused = Some(cause);
            }
            LinkEvent::Moved { name, from, to } => {
                let (name, address) = (printable(&name), to.to_string());
                let line = format!("{name} has moved from {from} to {address}");
                Note::info("moved", &line).address(&address).say();
            }
            LinkEvent::Mismatched { address } => {
                let address = address.to_string();
                let line = format!(
                    "{address} speaks without protection to an end with an identity, or the reverse; \
                     give all ends of a stream one with --identity, or none"
                );
                Note::warn("mismatched", &line).address(&address).say();
            }
            // Of a later version of links.
            _ => {}
        }
    }
}
