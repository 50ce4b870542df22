//! Events of the membership service as lines for people and as JSON.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use qsm::{AwayReason, Origin, ServiceEvent};
use qsm_console::reach;
use qsm_console::table::printable;
use serde_json::{Value, json};

/// Names that are remembered; nodes beyond that are called by their identity alone.
const NAMES_MAX: usize = 1 << 16;

/// Words for events. It remembers what nodes call themselves, since some events do not say it.
#[derive(Debug, Default)]
pub(super) struct Phrases(BTreeMap<Origin, String>);

impl Phrases {
    /// A line and a JSON object.
    pub(super) fn of(&mut self, event: &ServiceEvent) -> (String, Value) {
        self.of_life(event)
            .or_else(|| self.of_state(event))
            .or_else(|| of_service(event))
            .unwrap_or_else(|| {
                let text = format!("{event:?}");
                let value = json!({ "event": "other", "text": &text });
                (text, value)
            })
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
                let name = self.0.remove(origin);
                (
                    format!(
                        "excluded {}: it did not answer",
                        called(*origin, name.as_ref())
                    ),
                    json!({ "event": "excluded", "node": origin.to_string(), "name": name }),
                )
            }
            ServiceEvent::Left { origin } => {
                let name = self.0.remove(origin);
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
        if self.0.len() < NAMES_MAX {
            self.0.insert(origin, name.to_owned());
        }
    }
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
        ServiceEvent::Conflict { node, address } => (
            format!(
                "CONFLICT: another service ({:x}) of this cluster was started at {address}; it gives \
                 way to this one",
                node.0
            ),
            json!({ "event": "conflict", "address": address }),
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

    #[test]
    fn names_in_the_log_cannot_steer_the_terminal() {
        let (text, value) = Phrases::default().of(&admitted("a\u{1b}b"));
        assert_eq!(text, "admitted a\\u{1b}b (a.1) at 10.0.0.1:7");
        assert_eq!(value["event"], "admitted");
    }

    #[test]
    fn a_node_is_named_through_its_life() {
        let mut phrases = Phrases::default();
        phrases.of(&admitted("sleeper"));
        let name = "sleeper".to_owned();
        let reason = AwayReason::Silent;
        let (text, value) = phrases.of(&ServiceEvent::Away {
            origin: WHO,
            name: name.clone(),
            reason,
        });
        assert_eq!(
            text,
            "away sleeper (a.1): it is silent; what it misses is kept"
        );
        assert_eq!(value["reason"], "silent");
        let back = ServiceEvent::Back { origin: WHO, name };
        assert_eq!(phrases.of(&back).0, "back sleeper (a.1): it has caught up");
        let (text, value) = phrases.of(&ServiceEvent::Excluded { origin: WHO });
        assert_eq!(text, "excluded sleeper (a.1): it did not answer");
        assert_eq!(value["name"], "sleeper");
        let (text, value) = phrases.of(&ServiceEvent::Left { origin: WHO });
        assert_eq!((text.as_str(), &value["name"]), ("left a.1", &Value::Null));
    }

    #[test]
    fn a_service_says_when_it_was_late_itself() {
        let by = Duration::from_millis(1234);
        let (text, value) = Phrases::default().of(&ServiceEvent::Late { by });
        assert!(text.starts_with("LATE: this service stood still for 1.2 s"));
        assert_eq!(value["by"], 1.234);
    }
}
