//! Events of the membership service as lines for people and as JSON.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::SystemTime;

use qsm::{AwayReason, Origin, ServiceEvent};
use qsm_console::reach;
use qsm_console::restraint::{Restraint, Told};
use qsm_console::table::printable;
use serde_json::{Value, json};

/// Names that are remembered; nodes beyond that are called by their identity alone.
const NAMES_MAX: usize = 1 << 16;

/// Words for events. It remembers what nodes call themselves, since some events do not say it.
#[derive(Debug, Default)]
pub(super) struct Phrases {
    names: BTreeMap<Origin, String>,
    /// Words of nodes that are deaf now and hear then.
    flapping: Restraint<Origin, (String, Value)>,
}

impl Phrases {
    /// A line and a JSON object; `None`: they are for later, see [`Phrases::due`].
    pub(super) fn of(&mut self, event: &ServiceEvent, now: SystemTime) -> Option<(String, Value)> {
        if let ServiceEvent::Deaf { origin, .. } | ServiceEvent::Hears { origin, .. } = event {
            let words = self.of_state(event)?;
            return self.flapping.take(*origin, words, now).map(ended);
        }
        let words = self
            .of_life(event)
            .or_else(|| self.of_state(event))
            .or_else(|| of_service(event))
            .unwrap_or_else(|| {
                let text = format!("{event:?}");
                let value = json!({ "event": "other", "text": &text });
                (text, value)
            });
        Some(words)
    }

    /// Those whose time has come.
    pub(super) fn due(&mut self, now: SystemTime) -> impl Iterator<Item = (String, Value)> {
        self.flapping.due(now).into_iter().map(ended)
    }

    /// Of the beginning of a node's life, its address and its end.
    fn of_life(&mut self, event: &ServiceEvent) -> Option<(String, Value)> {
        Some(match event {
            ServiceEvent::Admitted {
                origin,
                name,
                address,
            } => {
                self.note(*origin, name);
                (
                    format!("admitted {} ({origin}) at {address}", printable(name)),
                    json!({ "event": "admitted", "node": origin.to_string(), "name": name,
                            "address": address }),
                )
            }
            ServiceEvent::Moved {
                origin,
                name,
                from,
                to,
            } => (
                format!("moved {} ({origin}) from {from} to {to}", printable(name)),
                json!({ "event": "moved", "node": origin.to_string(), "name": name, "from": from,
                        "to": to }),
            ),
            ServiceEvent::Excluded { origin } => {
                let name = self.names.remove(origin);
                (
                    format!(
                        "excluded {}: it did not answer",
                        called(*origin, name.as_ref())
                    ),
                    json!({ "event": "excluded", "node": origin.to_string(), "name": name }),
                )
            }
            ServiceEvent::Left { origin } => {
                let name = self.names.remove(origin);
                (
                    format!("left {}", called(*origin, name.as_ref())),
                    json!({ "event": "left", "node": origin.to_string(), "name": name }),
                )
            }
            ServiceEvent::OtherFamily { name, address } => (
                format!(
                    "NOT ADMITTED: {} at {address} is of the other family; start it with an \
                     interface of the service's",
                    printable(name)
                ),
                json!({ "event": "other_family", "name": name, "address": address }),
            ),
            _ => return None,
        })
    }

    /// Of a node that is away or deaf, or not any more.
    fn of_state(&mut self, event: &ServiceEvent) -> Option<(String, Value)> {
        Some(match event {
            ServiceEvent::Away {
                origin,
                name,
                reason,
            } => {
                self.note(*origin, name);
                let (key, why) = reason_of(*reason);
                (
                    format!("away {} ({origin}): {why}", printable(name)),
                    json!({ "event": "away", "node": origin.to_string(), "name": name,
                            "reason": key }),
                )
            }
            ServiceEvent::Back { origin, name } => (
                format!("back {} ({origin}): it has caught up", printable(name)),
                json!({ "event": "back", "node": origin.to_string(), "name": name }),
            ),
            ServiceEvent::Deaf {
                origin,
                name,
                speaker,
                speaker_name,
                address,
            } => {
                self.note(*origin, name);
                deaf(*origin, name, *speaker, speaker_name, *address)
            }
            ServiceEvent::Hears { origin, name } => (
                format!(
                    "hears {} ({origin}): multicast reaches it again",
                    printable(name)
                ),
                json!({ "event": "hears", "node": origin.to_string(), "name": name }),
            ),
            _ => return None,
        })
    }

    fn note(&mut self, origin: Origin, name: &str) {
        if self.names.len() < NAMES_MAX {
            self.names.insert(origin, name.to_owned());
        }
    }
}

/// Words of a node that may come and go.
fn ended(told: Told<(String, Value)>) -> (String, Value) {
    let (suffix, changes) = (told.suffix(), told.changes);
    let (text, mut value) = told.notice;
    value["changes"] = changes.into();
    (text + &suffix, value)
}

/// Of the service itself, or of the cluster.
fn of_service(event: &ServiceEvent) -> Option<(String, Value)> {
    Some(match event {
        ServiceEvent::Opened {
            term,
            resumed,
            absent,
        } => (
            format!("open, term {term}: {resumed} nodes taken up, {absent} not heard"),
            json!({ "event": "opened", "term": term, "resumed": resumed, "absent": absent }),
        ),
        ServiceEvent::Late { by } => (
            format!(
                "LATE: this service stood still for {:.1} s; nobody is taken for silent because \
                 of that",
                by.as_secs_f64()
            ),
            json!({ "event": "late", "by": by.as_secs_f64() }),
        ),
        ServiceEvent::Damaged(damage) => (
            format!("DAMAGED: {damage}: look for a defective card, cable, switch or memory"),
            json!({ "event": "damaged", "datagrams": damage.datagrams,
                    "senders": damage.senders, "more": damage.more }),
        ),
        ServiceEvent::ManySilent { silent, nodes } => (
            format!(
                "MANY SILENT: {silent} of {nodes} nodes at once; this service may be the one that \
                 is cut off, so they are waited for four times as long"
            ),
            json!({ "event": "many_silent", "silent": silent, "nodes": nodes }),
        ),
        ServiceEvent::Foreign {
            origin,
            name,
            address,
            moves,
        } => foreign(*origin, name, *address, *moves),
        ServiceEvent::Conflict { node, address } => (
            format!(
                "CONFLICT: another service ({:x}) of this cluster was started at {address}; it gives \
                 way to this one",
                node.0
            ),
            json!({ "event": "conflict", "address": address }),
        ),
        ServiceEvent::NotAdmitted { address, reason } => (
            format!("NOT ADMITTED: {address}: {}", printable(reason)),
            json!({ "event": "not_admitted", "address": address, "reason": reason }),
        ),
        ServiceEvent::Expelled { node, reason } => (
            format!("EXPELLED {:x}: {}", node.0, printable(reason)),
            json!({ "event": "expelled", "node": format!("{:x}", node.0), "reason": reason }),
        ),
        ServiceEvent::ListRefused { reason } => (
            format!("LIST OF REVOCATIONS REFUSED: {}", printable(reason)),
            json!({ "event": "list_refused", "reason": reason }),
        ),
        ServiceEvent::Yielded { to } => (
            format!("gave way to {to}"),
            json!({ "event": "yielded", "address": to }),
        ),
        _ => return None,
    })
}

/// Multicast does not reach a member.
fn deaf(
    origin: Origin,
    name: &str,
    speaker: Origin,
    speaker_name: &str,
    address: Option<SocketAddr>,
) -> (String, Value) {
    let to = address.map_or_else(String::new, |address| format!(" to {address}"));
    let text = format!(
        "DEAF {} ({origin}): multicast of {} ({speaker}){to} does not reach it; {}",
        printable(name),
        printable(speaker_name),
        reach::REMEDY
    );
    let value = json!({ "event": "deaf", "node": origin.to_string(), "name": name,
                        "speaker": speaker.to_string(), "speaker_name": speaker_name,
                        "address": address });
    (text, value)
}

/// Packets of another cluster come to an address.
fn foreign(
    origin: Origin,
    name: &str,
    address: Option<SocketAddr>,
    moves: bool,
) -> (String, Value) {
    let at = address.map_or_else(
        || "the address of its region".to_owned(),
        |at| at.to_string(),
    );
    let what = match moves {
        true => "the region moves to another address",
        false => {
            "the region stays, since it is a merged one, or eight have moved within ten minutes; give \
                  clusters ranges of their own (--data-range)"
        }
    };
    let text = format!(
        "FOREIGN: packets of another cluster come to {at}, as {} ({origin}) says; {what}",
        printable(name)
    );
    let value = json!({ "event": "foreign", "node": origin.to_string(), "name": name,
                        "address": address, "moves": moves });
    (text, value)
}

/// Name and identity of a node.
fn called(origin: Origin, name: Option<&String>) -> String {
    match name {
        Some(name) => format!("{} ({origin})", printable(name)),
        None => origin.to_string(),
    }
}

/// The key for programs and the words for people.
fn reason_of(reason: AwayReason) -> (&'static str, &'static str) {
    match reason {
        AwayReason::Silent => ("silent", "it is silent; what it misses is kept"),
        AwayReason::Unreachable => (
            "unreachable",
            "other members do not hear it, or it does not hear them; what it misses is kept",
        ),
        AwayReason::Slow => (
            "slow",
            "it is slower than the others; what it misses is kept",
        ),
        AwayReason::Demoted => (
            "demoted",
            "it is slower than the others, and loses what it misses, as its groups say",
        ),
        AwayReason::Unreported => (
            "unreported",
            "it has not reported to this service; what it misses is kept",
        ),
        _ => ("other", "what it misses is kept"),
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    const WHO: Origin = Origin {
        node: qsm::NodeId(0xa),
        incarnation: qsm::Incarnation(1),
    };

    fn admitted(name: &str) -> ServiceEvent {
        ServiceEvent::Admitted {
            origin: WHO,
            name: name.to_owned(),
            address: "10.0.0.1:7".parse().unwrap(),
        }
    }

    fn said(phrases: &mut Phrases, event: &ServiceEvent) -> (String, Value) {
        phrases.of(event, SystemTime::UNIX_EPOCH).unwrap()
    }

    #[test]
    fn a_node_that_is_deaf_now_and_hears_then_is_named_once_in_ten_seconds() {
        let name = "sink".to_owned();
        let deaf = ServiceEvent::Deaf {
            origin: WHO,
            name: name.clone(),
            speaker: WHO,
            speaker_name: "source".to_owned(),
            address: None,
        };
        let hears = ServiceEvent::Hears { origin: WHO, name };
        let (mut phrases, mut lines) = (Phrases::default(), Vec::new());
        for second in 0..15 {
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            lines.extend(phrases.due(now));
            let event = if second % 2 == 0 { &deaf } else { &hears };
            lines.extend(phrases.of(event, now));
        }
        let [first, second] = &lines[..] else {
            panic!("{lines:?}");
        };
        assert_eq!(
            (&first.1["event"], &first.1["changes"]),
            (&json!("deaf"), &json!(1))
        );
        assert_eq!(
            (&second.1["event"], &second.1["changes"]),
            (&json!("hears"), &json!(9))
        );
        assert!(second.0.ends_with("9 changes in 10 s"), "{}", second.0);
    }

    #[test]
    fn names_in_the_log_cannot_steer_the_terminal() {
        let (text, value) = said(&mut Phrases::default(), &admitted("a\u{1b}b"));
        assert_eq!(text, "admitted a\\u{1b}b (a.1) at 10.0.0.1:7");
        assert_eq!(value["event"], "admitted");
    }

    #[test]
    fn a_node_is_named_through_its_life() {
        let mut phrases = Phrases::default();
        said(&mut phrases, &admitted("sleeper"));
        let name = "sleeper".to_owned();
        let reason = AwayReason::Silent;
        let away = ServiceEvent::Away {
            origin: WHO,
            name: name.clone(),
            reason,
        };
        let (text, value) = said(&mut phrases, &away);
        assert_eq!(
            text,
            "away sleeper (a.1): it is silent; what it misses is kept"
        );
        assert_eq!(value["reason"], "silent");
        let back = ServiceEvent::Back { origin: WHO, name };
        assert_eq!(
            said(&mut phrases, &back).0,
            "back sleeper (a.1): it has caught up"
        );
        let (text, value) = said(&mut phrases, &ServiceEvent::Excluded { origin: WHO });
        assert_eq!(text, "excluded sleeper (a.1): it did not answer");
        assert_eq!(value["name"], "sleeper");
        let (text, value) = said(&mut phrases, &ServiceEvent::Left { origin: WHO });
        assert_eq!((text.as_str(), &value["name"]), ("left a.1", &Value::Null));
    }

    #[test]
    fn a_service_says_when_it_was_late_itself() {
        let by = Duration::from_millis(1234);
        let (text, value) = said(&mut Phrases::default(), &ServiceEvent::Late { by });
        assert!(text.starts_with("LATE: this service stood still for 1.2 s"));
        assert_eq!(value["by"], 1.234);
    }
}
