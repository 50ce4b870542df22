//! Nodes of this host, by what they count themselves.

use std::collections::BTreeMap;
use std::time::Duration;
use std::{mem, thread};

use qsm::admin::{Answer, NodeSocket, Question};
use serde_json::{Value, json};

use super::super::counted::Counted;

/// Delay of a core thread's timers from which on others notice.
const LATE: f64 = 0.01;

/// Time that a node has for its answer: one that stands still gives none.
const PATIENCE: Duration = Duration::from_secs(1);

/// Counters of missing packets that came by repair.
const REPAIRED: [&str; 5] = [
    "/protocol/repaired_by_cacher",
    "/protocol/repaired_by_pull",
    "/protocol/repaired_by_push",
    "/protocol/repaired_by_parity",
    "/protocol/repaired_by_sender",
];

/// Asks the nodes of this host, and remembers what they said for the next time.
#[derive(Debug, Default)]
pub(crate) struct Here {
    before: BTreeMap<String, Counted>,
    /// The cluster whose nodes are meant; `None`: all.
    cluster: Option<String>,
    /// Clusters by the names of sockets, as far as they have been asked.
    clusters: BTreeMap<String, String>,
}

/// A node of this host.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct HereNode {
    pub(crate) name: String,
    pub(crate) pid: u32,
    /// `None`: it was not seen before, or does not answer.
    pub(crate) rates: Option<HereRates>,
    /// Seconds within which 99 % of all repairs came.
    pub(crate) repair_p99: f64,
    /// Seconds after which 99 % of its packets were known to be with everybody.
    pub(crate) stable_p99: f64,
    /// Messages accepted that not everybody is known to have.
    pub(crate) pending: u64,
    /// The longest time by which its core thread was late, of the last seconds.
    pub(crate) late: f64,
    /// The reason for which it does not answer.
    pub(crate) mute: Option<String>,
}

/// Events each second since the last look.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct HereRates {
    /// Messages accepted from the application.
    pub(crate) sent: f64,
    /// Messages delivered to it.
    pub(crate) received: f64,
    /// Packets that were missing when others had come.
    pub(crate) missing: f64,
    /// Of these, packets that came by repair, whoever sent it.
    pub(crate) repaired: f64,
    /// Buffers that the kernel had no room for.
    pub(crate) kernel_drops: f64,
    /// Messages that the application had no room for.
    pub(crate) dropped: f64,
    /// Messages that are lost for good.
    pub(crate) lost: f64,
}

impl Here {
    /// Asks the nodes of this cluster alone, and those that do not say which is theirs.
    pub(crate) fn of_cluster(cluster: &str) -> Self {
        Self {
            cluster: Some(cluster.to_owned()),
            ..Self::default()
        }
    }

    fn is_meant(&mut self, socket: &NodeSocket) -> bool {
        let Some(meant) = &self.cluster else {
            return true;
        };
        let name = socket.name();
        if let Some(known) = self.clusters.get(&name) {
            return known == meant;
        }
        match socket.ask_within(&Question::Node, PATIENCE) {
            Ok(Answer::Node(node)) => {
                let is_meant = node.cluster == *meant;
                self.clusters.insert(name, node.cluster);
                is_meant
            }
            _ => true,
        }
    }

    /// The nodes of this host. Rates are those since the last look; in the first look zero.
    pub(crate) fn look(&mut self) -> Vec<HereNode> {
        let before = mem::take(&mut self.before);
        let mut sockets = NodeSocket::all().unwrap_or_default();
        self.clusters
            .retain(|name, _| sockets.iter().any(|socket| socket.name() == *name));
        sockets.retain(|socket| self.is_meant(socket));
        let answers = answers(&sockets);
        let node = |(socket, answer): (NodeSocket, Result<Counted, String>)| {
            let name = socket.name();
            match answer {
                Ok(now) => {
                    let node = HereNode::new(socket.pid(), &now, before.get(&name));
                    self.before.insert(name, now);
                    node
                }
                Err(cause) => HereNode {
                    name,
                    pid: socket.pid(),
                    mute: Some(cause),
                    ..HereNode::default()
                },
            }
        };
        answers.into_iter().map(node).collect()
    }
}

/// Their answers, each asked on a thread of its own, so that none keeps the others waiting.
fn answers(sockets: &[NodeSocket]) -> Vec<(NodeSocket, Result<Counted, String>)> {
    thread::scope(|scope| {
        let asked = sockets
            .iter()
            .map(|socket| scope.spawn(|| Counted::ask(socket, PATIENCE)));
        let asked: Vec<_> = asked.collect();
        let panicked = |_| Err("asking it has panicked".to_owned());
        let answers = asked
            .into_iter()
            .map(|it| it.join().unwrap_or_else(panicked));
        sockets.iter().cloned().zip(answers).collect()
    })
}

impl HereRates {
    fn new(now: &Counted, before: &Counted) -> Self {
        let rate = |path: &str| now.rate(before, path);
        Self {
            sent: rate("/protocol/messages_published"),
            received: rate("/protocol/messages_delivered"),
            missing: rate("/protocol/gaps"),
            repaired: REPAIRED.into_iter().map(rate).sum(),
            kernel_drops: rate("/port/unicast_kernel_drops") + rate("/port/multicast_kernel_drops"),
            dropped: rate("/runtime/slow_consumer_drops"),
            lost: rate("/protocol/messages_lost"),
        }
    }
}

impl HereNode {
    fn new(pid: u32, now: &Counted, before: Option<&Counted>) -> Self {
        Self {
            name: now.name().to_owned(),
            pid,
            rates: before.map(|before| HereRates::new(now, before)),
            repair_p99: now.value("/times/repair/p99_seconds"),
            stable_p99: now.value("/times/stable/p99_seconds"),
            pending: now.value("/protocol/pending_messages") as u64,
            late: now.value("/timers/late_recent_max_seconds"),
            mute: None,
        }
    }

    /// The worst that is wrong with it, and what to do; `None`: nothing.
    pub(crate) fn trouble(&self) -> Option<&str> {
        if let Some(cause) = &self.mute {
            return Some(cause);
        }
        let rates = self.rates.unwrap_or_default();
        let troubles = [
            (rates.lost > 0.0, "messages are lost: its log says which"),
            (
                rates.dropped > 0.0,
                "its application reads too slowly: a longer queue, or more threads",
            ),
            (
                rates.kernel_drops > 0.0,
                "no room in its receive buffer: `qsm doctor`, --receive-buffer",
            ),
            (
                self.late > LATE,
                "its core thread waits for a CPU: fewer programs, --pin, --realtime",
            ),
            (
                rates.missing > 0.0,
                "packets are lost on the way to it, and repaired",
            ),
        ];
        let mut found = troubles.into_iter().filter(|(so, _)| *so);
        found.next().map(|(_, words)| words)
    }

    /// It loses messages, or does not answer.
    pub(crate) fn is_bad(&self) -> bool {
        let loses = |rates: HereRates| rates.lost > 0.0 || rates.dropped > 0.0;
        self.mute.is_some() || self.rates.is_some_and(loses)
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        let rate = |rate: fn(HereRates) -> f64| self.rates.map(rate);
        json!({
            "name": self.name,
            "pid": self.pid,
            "sent_per_second": rate(|rates| rates.sent),
            "received_per_second": rate(|rates| rates.received),
            "missing_per_second": rate(|rates| rates.missing),
            "repaired_per_second": rate(|rates| rates.repaired),
            "kernel_drops_per_second": rate(|rates| rates.kernel_drops),
            "dropped_per_second": rate(|rates| rates.dropped),
            "lost_per_second": rate(|rates| rates.lost),
            "repair_p99_seconds": self.repair_p99,
            "stable_p99_seconds": self.stable_p99,
            "pending_messages": self.pending,
            "late_seconds": self.late,
            "trouble": self.trouble(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn counted(at: Instant, gaps: u64, drops: u64) -> Counted {
        let counters = json!({
            "name": "desk",
            "protocol": { "messages_published": 0, "messages_delivered": 10 * gaps, "gaps": gaps,
                          "repaired_by_cacher": gaps / 2, "repaired_by_sender": gaps / 2,
                          "messages_lost": 0, "pending_messages": 7 },
            "port": { "unicast_kernel_drops": drops, "multicast_kernel_drops": drops },
            "times": { "repair": { "p99_seconds": 0.25 } },
            "timers": { "late_recent_max_seconds": 0.001 },
        });
        Counted::new(at, counters)
    }

    #[test]
    fn rates_are_what_has_grown_since_the_last_look() {
        let start = Instant::now();
        let (before, now) = (
            counted(start, 10, 0),
            counted(start + Duration::from_secs(2), 30, 4),
        );
        let node = HereNode::new(4711, &now, Some(&before));
        let rates = node.rates.unwrap();
        assert_eq!((rates.missing, rates.received), (10.0, 100.0));
        assert_eq!(rates.repaired, 10.0);
        assert_eq!((rates.kernel_drops, node.pending), (4.0, 7));
        assert_eq!(node.repair_p99, 0.25);
        let trouble = node.trouble().unwrap();
        assert!(
            trouble.starts_with("no room in its receive buffer"),
            "{trouble}"
        );
        assert!(!node.is_bad());
        let first = HereNode::new(4711, &now, None);
        assert_eq!((first.rates, first.trouble()), (None, None));
        // It has begun anew, and counts from zero.
        let later = counted(start + Duration::from_secs(3), 10, 0);
        let again = HereNode::new(4711, &later, Some(&now));
        assert_eq!(again.rates, Some(HereRates::default()));
    }
}
