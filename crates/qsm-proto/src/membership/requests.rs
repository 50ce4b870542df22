use std::collections::{BTreeMap, BTreeSet};

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

    /// A new life begins: it has not been in any group, and does not have to leave those that the
    /// application `wants` again.
    pub(super) fn begin_life(&mut self, wants: impl Fn(Role, &str) -> bool) {
        for request in self.waiting.values_mut() {
            if let ToService::Exit { role, names, .. } = &mut request.message {
                names.retain(|name| !wants(*role, name));
            }
        }
    }

    /// Hands the unsent requests to `send` until it returns `false`. Those of a subscriber wait
    /// until its exit from the same group is answered: what comes after that answer is of a new
    /// stay, and cannot be taken for one that is to end (R-MEM-9).
    pub(super) fn send(&mut self, mut send: impl FnMut(&ToService) -> bool) {
        if self.waiting.values().all(|request| request.sent) {
            return;
        }
        let mut busy: BTreeSet<&str> = BTreeSet::new();
        for Request { message, sent, .. } in self.waiting.values_mut() {
            let names = names(message).filter(|(role, _)| *role == Role::Subscriber);
            let names = names.map_or(&[] as &[String], |(_, names)| names);
            let waits = !*sent && names.iter().any(|name| busy.contains(name.as_str()));
            if !*sent && !waits {
                if !send(message) {
                    return;
                }
                *sent = true;
            }
            if waits || matches!(message, ToService::Exit { .. }) {
                busy.extend(names.iter().map(String::as_str));
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn push(requests: &mut Requests, enter: bool, name: &str) -> u32 {
        let request = requests.number();
        let (role, names) = (Role::Subscriber, vec![name.to_owned()]);
        let message = if enter {
            ToService::Enter {
                request,
                role,
                names,
            }
        } else {
            ToService::Exit {
                request,
                role,
                names,
            }
        };
        requests.push(request, message).unwrap();
        request
    }

    fn sent(requests: &mut Requests) -> Vec<u32> {
        let mut sent = Vec::new();
        requests.send(|message| {
            if let ToService::Enter { request, .. } | ToService::Exit { request, .. } = message {
                sent.push(*request);
            }
            true
        });
        sent
    }

    // Rule R-MEM-9.
    #[test]
    fn what_follows_an_exit_waits_for_its_answer_group_by_group() {
        let mut requests = Requests::default();
        let exit = push(&mut requests, false, "a");
        let enter = push(&mut requests, true, "a");
        let again = push(&mut requests, false, "a");
        let other = push(&mut requests, true, "b");
        assert_eq!(sent(&mut requests), [exit, other]);
        assert_eq!(sent(&mut requests), []);
        requests.unsend();
        assert_eq!(sent(&mut requests), [exit, other]);
        assert!(requests.take(exit).is_some());
        assert_eq!(sent(&mut requests), [enter, again]);
    }

    // Rule R-MEM-9.
    #[test]
    fn a_new_life_does_not_leave_what_is_wanted_again() {
        let mut requests = Requests::default();
        let exit = push(&mut requests, false, "a");
        let other = push(&mut requests, false, "b");
        let enter = push(&mut requests, true, "a");
        assert_eq!(sent(&mut requests), [exit, other]);
        requests.unsend();
        requests.begin_life(|_, name| name == "a");
        assert_eq!(sent(&mut requests), [exit, other, enter]);
        let left = |request: Option<ToService>| match request {
            Some(ToService::Exit { names, .. }) => names,
            other => panic!("{other:?}"),
        };
        assert!(left(requests.take(exit)).is_empty());
        assert_eq!(left(requests.take(other)), ["b"]);
    }
}
