use std::collections::BTreeMap;

use qsm_wire::membership::{Role, ToService};

use crate::session::SEND_BYTES_MAX;

/// Requests that may wait for their answer; more are refused until some are answered.
const REQUESTS_MAX: usize = 4096;

#[derive(Debug)]
struct Request {
    message: ToService,
    bytes: usize,
    sent: bool,
}

/// Requests not answered yet, in the order they were made. They outlive sessions and services:
/// after each welcome they are sent again, which is harmless since all are idempotent.
#[derive(Debug, Default)]
pub(super) struct Requests {
    waiting: BTreeMap<u32, Request>,
    bytes: usize,
    last: u32,
}

impl Requests {
    /// The next request number, from 1.
    pub(super) fn number(&mut self) -> u32 {
        self.last = self.last.wrapping_add(1).max(1);
        self.last
    }

    pub(super) fn push(&mut self, number: u32, message: ToService) -> Result<(), String> {
        let bytes = names(&message).map_or(16, |(_, names)| {
            names.iter().map(|name| name.len() + 32).sum::<usize>()
        });
        if self.waiting.len() >= REQUESTS_MAX || self.bytes + bytes > SEND_BYTES_MAX {
            return Err(format!(
                "{} requests wait for the membership service already; try again after some are done",
                self.waiting.len()
            ));
        }
        self.bytes += bytes;
        let request = Request {
            message,
            bytes,
            sent: false,
        };
        self.waiting.insert(number, request);
        Ok(())
    }

    pub(super) fn take(&mut self, number: u32) -> Option<ToService> {
        let request = self.waiting.remove(&number)?;
        self.bytes -= request.bytes;
        Some(request.message)
    }

    /// A new session: nothing has been sent in it.
    pub(super) fn unsend(&mut self) {
        for request in self.waiting.values_mut() {
            request.sent = false;
        }
    }

    /// Hands the unsent requests to `send` until it returns `false`.
    pub(super) fn send(&mut self, mut send: impl FnMut(&ToService) -> bool) {
        for request in self.waiting.values_mut().filter(|request| !request.sent) {
            if !send(&request.message) {
                return;
            }
            request.sent = true;
        }
    }
}

/// Role and names of a request that has them.
pub(super) fn names(message: &ToService) -> Option<(Role, &[String])> {
    match message {
        ToService::Enter { role, names, .. } | ToService::Exit { role, names, .. } => {
            Some((*role, names))
        }
        _ => None,
    }
}
