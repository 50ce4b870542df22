//! Losses of a node by their places, and what holds it back: from its counters and the kernel's, over
//! some seconds.

use std::time::Duration;

use qsm::admin::NodeState;
use qsm_console::figures::{duration, rate};
use qsm_console::passage::Passage;
use qsm_console::table::{Align, Table, printable};
use serde_json::{Value, json};

use super::super::counted::Counted;
use super::kernel::KernelDrops;
use super::reader::{self, SlowReader};

/// Delay of a core thread's timers from which on others notice, seconds.
const LATE: f64 = 0.01;

/// A node between two looks.
pub(crate) struct NodeAccount {
    pid: u32,
    node: NodeState,
    seconds: f64,
    losses: Losses,
    readers: Vec<SlowReader>,
    findings: Vec<Finding>,
    sent: f64,
    received: f64,
    repair_p99: f64,
}

/// Packets a second that were missing, and where they went.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Losses {
    /// Packets that came.
    came: f64,
    /// Packets that were missing when others had come.
    missing: f64,
    /// Of these, packets that only came late.
    reordered: f64,
    /// Buffers for which the receive buffer had no room.
    socket: f64,
    /// Packets for which the queue before the protocols of the kernel had no room, of all that the
    /// host receives.
    softirq: f64,
    /// Packets for which the network card had no room, of all that it receives.
    card: f64,
    /// Packets that came damaged.
    damaged: f64,
    /// Packets that were thrown away on purpose, as a test.
    injected: f64,
    /// Missing packets that only their sender had.
    from_sender: f64,
    /// Missing packets that came by repair, whoever sent it.
    repaired: f64,
}

/// Something that holds the node back, or loses messages.
#[derive(Debug, Clone, PartialEq)]
struct Finding {
    id: &'static str,
    evidence: String,
    remedy: &'static str,
}

impl Losses {
    fn new(before: &Counted, now: &Counted, kernel: KernelDrops) -> Self {
        let rate = |name: &str| now.rate(before, name);
        let sum = |names: &[&str]| names.iter().map(|name| rate(name)).sum::<f64>();
        let passed = now.since(before).max(f64::MIN_POSITIVE);
        Self {
            came: rate("/protocol/data_received"),
            missing: rate("/protocol/gaps"),
            reordered: rate("/protocol/repaired_by_reorder"),
            socket: sum(&["/port/unicast_kernel_drops", "/port/multicast_kernel_drops"]),
            softirq: kernel.softirq as f64 / passed,
            card: kernel.card as f64 / passed,
            damaged: rate("/protocol/discard_damaged"),
            injected: rate("/port/faults_lost"),
            from_sender: rate("/protocol/repaired_by_sender"),
            repaired: sum(&[
                "/protocol/repaired_by_cacher",
                "/protocol/repaired_by_pull",
                "/protocol/repaired_by_push",
                "/protocol/repaired_by_parity",
                "/protocol/repaired_by_sender",
            ]),
        }
    }

    /// Missing packets that nothing on this host explains.
    fn elsewhere(&self) -> f64 {
        let here = self.reordered + self.socket + self.softirq + self.card + self.damaged;
        (self.missing - here - self.injected).max(0.0)
    }

    /// Places with the packets that went there, and what it says.
    fn places(&self) -> [(&'static str, f64, &'static str); 7] {
        [
            (
                "receive buffer",
                self.socket,
                "the node did not read in time: `qsm doctor`, --receive-buffer, --pin",
            ),
            (
                "softirq queue",
                self.softirq,
                "of all packets of this host: net.core.netdev_max_backlog",
            ),
            (
                "network card",
                self.card,
                "of all packets of the interface: `ethtool -G`, rx rings",
            ),
            (
                "damaged",
                self.damaged,
                "a card, a cable or a switch: `ethtool -S` of the hosts on the way",
            ),
            ("thrown away on purpose", self.injected, "a test (--loss)"),
            (
                "reordered",
                self.reordered,
                "they came late, and were not lost",
            ),
            (
                "elsewhere",
                self.elsewhere(),
                "the network, or the sender's host: counters of the switch",
            ),
        ]
    }

    /// Whose loss it is, as the repairs show.
    fn whose(&self) -> Option<String> {
        (self.repaired > 0.0).then(|| {
            let share = self.from_sender / self.repaired * 100.0;
            let words = match share > 50.0 {
                true => {
                    "others missed them too, or keep none of them for others, as in a region of one \
                     partition (`qsm explain GROUP`)"
                }
                false => "others had them: the loss is on the way to this node",
            };
            format!("{share:.0} % of the repairs had to come from the sender: {words}")
        })
    }
}

impl NodeAccount {
    pub(super) fn new(
        pid: u32,
        node: NodeState,
        before: &Counted,
        now: &Counted,
        kernel: KernelDrops,
    ) -> Self {
        let readers = reader::slow_readers(before, now);
        Self {
            pid,
            node,
            seconds: now.since(before),
            losses: Losses::new(before, now, kernel),
            findings: findings(before, now, &readers),
            readers,
            sent: now.rate(before, "/protocol/messages_published"),
            received: now.rate(before, "/protocol/messages_delivered"),
            repair_p99: now.value("/times/repair/p99_seconds"),
        }
    }

    /// Tells whether the node is of this cluster.
    pub(crate) fn is_of(&self, cluster: &str) -> bool {
        self.node.cluster == cluster
    }

    /// For people.
    pub(crate) fn words(&self) -> Vec<Passage> {
        let node = &self.node;
        let heading = format!(
            "node {}: {} in process {}, at {} in cluster {}, over {:.1} s",
            printable(&node.name),
            printable(&node.program),
            self.pid,
            node.address,
            printable(&node.cluster),
            self.seconds,
        );
        let rates = format!(
            "It sends {} messages/s and receives {}.",
            rate(self.sent),
            rate(self.received)
        );
        let mut passages = vec![Passage::Heading(heading), Passage::Text(rates)];
        let places = self.losses.places();
        match places.iter().any(|(_, lost, _)| *lost > 0.0) {
            _ if self.losses.missing > 0.0 => passages.extend(self.loss_words()),
            true => {
                let text = "No packet of a stream was missing; what was dropped on this host all the same:";
                passages.extend([
                    Passage::Text(text.to_owned()),
                    Passage::Gap,
                    Passage::Table(self.table()),
                    Passage::Gap,
                ]);
            }
            false => passages.push(Passage::Text("No packet was missing.".to_owned())),
        }
        if self.findings.is_empty() {
            passages.push(Passage::Text("Nothing holds it back.".to_owned()));
        }
        let findings = self.findings.iter();
        passages.extend(findings.map(
            |Finding {
                 evidence, remedy, ..
             }| { Passage::Finding(format!("{evidence}: {remedy}")) },
        ));
        passages
    }

    /// Packets that were missing, by the places where they went.
    fn loss_words(&self) -> Vec<Passage> {
        let losses = &self.losses;
        let share = losses.missing / (losses.came + losses.missing) * 100.0;
        let all = format!(
            "Of {} packets/s {} ({share:.1} %) were missing at first:",
            rate(losses.came),
            rate(losses.missing)
        );
        let took = duration(Duration::from_secs_f64(self.repair_p99));
        let took = format!("99 % of all repairs took at most {took}.");
        let whose = losses.whose();
        [
            Passage::Text(all),
            Passage::Gap,
            Passage::Table(self.table()),
            Passage::Gap,
            Passage::Text(took),
        ]
        .into_iter()
        .chain(whose.map(|whose| Passage::Text(format!("{whose}."))))
        .collect()
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&[
            ("  WHERE", Align::Left),
            ("PACKETS/S", Align::Right),
            ("WHAT IT MEANS", Align::Left),
        ]);
        for (place, lost, meaning) in self.losses.places() {
            if lost > 0.0 {
                table.row([format!("  {place}"), rate(lost), meaning.to_owned()]);
            }
        }
        table
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let places = self.losses.places();
        let places = places.map(|(place, lost, _)| (place.replace(' ', "_"), json!(lost)));
        let findings = self.findings.iter().map(|finding| {
            json!({ "id": finding.id, "evidence": finding.evidence, "remedy": finding.remedy })
        });
        json!({
            "pid": self.pid,
            "node": self.node,
            "seconds": self.seconds,
            "sent_per_second": self.sent,
            "received_per_second": self.received,
            "packets_per_second": self.losses.came,
            "missing_per_second": self.losses.missing,
            "missing": Value::Object(places.into_iter().collect()),
            "repaired_per_second": self.losses.repaired,
            "repaired_by_sender_per_second": self.losses.from_sender,
            "repair_p99_seconds": self.repair_p99,
            "readers": self.readers.iter().map(SlowReader::json).collect::<Vec<_>>(),
            "findings": findings.collect::<Vec<_>>(),
        })
    }
}

/// The finding that a reader loses messages.
const READER_SLOW: &str = "reader-slow";

/// Help for who is held up by a reader.
const HOLD_REMEDY: &str = "read faster, or from more threads; a longer queue bridges a pause; with an \
    overflow that drops (`qsm sub --overflow drop-newest`, `Overflow`) nobody waits";

/// Counters whose growth is a finding, the worst first: id, path, what happens each second, remedy.
const SIGNS: [(&str, &str, &str, &str); 9] = [
    (
        "messages-lost",
        "/protocol/messages_lost",
        "messages/s are lost for good",
        "its log says which; see whether their sender, or it, was silent for longer than is kept",
    ),
    (
        READER_SLOW,
        "/runtime/slow_consumer_drops",
        "messages/s find no room before the application",
        "read faster, from more threads, or allow a longer queue",
    ),
    (
        "sending-forbidden",
        "/port/sent_errors_forbidden",
        "sendings/s are forbidden by a firewall of this host",
        "`qsm doctor` names the rule",
    ),
    (
        "no-route",
        "/port/sent_errors_unreachable",
        "sendings/s find no route",
        "`qsm doctor`, `ip route get`",
    ),
    (
        "window-full",
        "/runtime/window_full",
        "times/s its send window was full",
        "it waits for the slowest receiver: `qsm explain GROUP` shows the window, `qsm top` who is slow",
    ),
    (
        "repair-budget",
        "/protocol/repairs_over_budget",
        "repairs/s were held back by the budget of repairs",
        "many miss much: look for loss that they share",
    ),
    (
        "copies",
        "/protocol/copies_sent",
        "packets/s are sent again as copies",
        "multicast does not reach some members: `qsm explain GROUP` names them",
    ),
    (
        "deaf",
        "/protocol/copies_received",
        "packets/s come as copies",
        "multicast of some senders does not reach this node: `qsm doctor`",
    ),
    (
        "no-memory",
        "/protocol/discard_memory",
        "packets/s came for which there was no memory",
        "a larger receive store (`Limits::receive_bytes`)",
    ),
];

/// Things that hold the node back, the worst first.
fn findings(before: &Counted, now: &Counted, readers: &[SlowReader]) -> Vec<Finding> {
    let grown = SIGNS.iter().filter_map(|&(id, path, what, remedy)| {
        let per_second = now.rate(before, path);
        (per_second > 0.0).then(|| {
            let amount = match per_second < 1.0 {
                true => format!("fewer than 1 {what}"),
                false => format!("{} {what}", rate(per_second)),
            };
            let losers = match id {
                READER_SLOW => reader::losers(readers),
                _ => Vec::new(),
            };
            let evidence = match losers.is_empty() {
                true => amount,
                false => format!("{amount} ({})", losers.join("; ")),
            };
            Finding {
                id,
                evidence,
                remedy,
            }
        })
    });
    let waited = now.rate(before, "/protocol/reader_waits_seconds");
    let holders = reader::holders(readers, waited);
    let holders = holders.into_iter().map(|evidence| Finding {
        id: "reader-holds",
        evidence,
        remedy: HOLD_REMEDY,
    });
    let late = now.value("/timers/late_recent_max_seconds");
    let late = (late > LATE).then(|| Finding {
        id: "core-thread-late",
        evidence: format!(
            "its core thread waited {} for a CPU",
            duration(Duration::from_secs_f64(late))
        ),
        remedy: "fewer programs on this host, --pin, --realtime; `qsm latency host`",
    });
    holders.chain(grown).chain(late).collect()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Instant;

    use super::*;

    fn counted(at: Instant, protocol: Value, port: Value, late: f64) -> Counted {
        let counters = json!({
            "name": "lamp",
            "protocol": protocol,
            "port": port,
            "times": { "repair": { "p99_seconds": 0.004 } },
            "timers": { "late_recent_max_seconds": late },
        });
        Counted::new(at, counters)
    }

    fn account(protocol: Value, port: Value, kernel: KernelDrops, late: f64) -> NodeAccount {
        let start = Instant::now();
        let before = counted(start, json!({}), json!({}), 0.0);
        let now = counted(start + Duration::from_secs(2), protocol, port, late);
        let node = NodeState {
            name: "lamp".to_owned(),
            node: "5".to_owned(),
            cluster: "demo".to_owned(),
            address: SocketAddr::from(([10, 0, 0, 1], 4484)),
            service: None,
            program: "qsm".to_owned(),
            version: "0.2.0".to_owned(),
            medium: None,
        };
        NodeAccount::new(4711, node, &before, &now, kernel)
    }

    #[test]
    fn missing_packets_are_told_by_the_place_where_they_went() {
        let protocol = json!({ "data_received": 20_000, "gaps": 400, "repaired_by_reorder": 40,
                               "repaired_by_cacher": 300, "repaired_by_sender": 60 });
        let port = json!({ "multicast_kernel_drops": 200 });
        let kernel = KernelDrops {
            softirq: 20,
            card: 0,
        };
        let account = account(protocol, port, kernel, 0.0);
        assert_eq!(account.losses.elsewhere(), 70.0);
        let expected = "\
node lamp: qsm in process 4711, at 10.0.0.1:4484 in cluster demo, over 2.0 s
It sends 0 messages/s and receives 0.
Of 10.0 k packets/s 200 (2.0 %) were missing at first:

  WHERE           PACKETS/S  WHAT IT MEANS
  receive buffer        100  the node did not read in time: `qsm doctor`, --receive-buffer, --pin
  softirq queue          10  of all packets of this host: net.core.netdev_max_backlog
  reordered              20  they came late, and were not lost
  elsewhere              70  the network, or the sender's host: counters of the switch

99 % of all repairs took at most 4.0 ms.
17 % of the repairs had to come from the sender: others had them: the loss is on the way to this node.
Nothing holds it back.
";
        assert_eq!(Passage::render(&account.words()), expected);
        let json = account.json();
        assert_eq!(json["missing"]["receive_buffer"], 100.0);
        assert_eq!(json["missing"]["elsewhere"], 70.0);
    }

    #[test]
    fn what_holds_a_node_back_is_named_with_the_remedy() {
        let protocol = json!({ "messages_lost": 6, "copies_sent": 40 });
        let account = account(protocol, json!({}), KernelDrops::default(), 0.2);
        let ids: Vec<&str> = account.findings.iter().map(|one| one.id).collect();
        assert_eq!(ids, ["messages-lost", "copies", "core-thread-late"]);
        let words = Passage::render(&account.words());
        for line in [
            "No packet was missing.",
            "- 3 messages/s are lost for good: its log says which; see whether their sender, or it, was \
             silent for longer than is kept",
            "- its core thread waited 200.0 ms for a CPU: fewer programs on this host, --pin, --realtime; \
             `qsm latency host`",
        ] {
            assert!(words.lines().any(|it| it == line), "{line}: {words}");
        }
    }

    #[test]
    fn readers_are_named_with_what_they_do() {
        let start = Instant::now();
        let look = |seconds: u64, full: f64, dropped: u64| {
            let of = |group: &str, stats: Value| json!({ "groups": [group], "stats": stats });
            let counters = json!({
                "subscriptions": [of("news", json!({ "full_seconds": full, "full_for_seconds": full })),
                                  of("logs", json!({ "dropped": dropped }))],
                "protocol": { "reader_waits_seconds": full },
                "runtime": { "slow_consumer_drops": dropped },
            });
            Counted::new(start + Duration::from_secs(seconds), counters)
        };
        let (before, now) = (look(0, 0.0, 0), look(2, 1.0, 8));
        let readers = reader::slow_readers(&before, &now);
        let findings = findings(&before, &now, &readers);
        let told: Vec<(&str, &str)> = findings
            .iter()
            .map(|one| (one.id, &*one.evidence))
            .collect();
        assert_eq!(told[0].0, "reader-holds");
        let start = "the queue of its subscription to news was full 50 % of the time, for 1.00 s now; for \
                     500.0 ms of each second";
        assert!(told[0].1.starts_with(start), "{}", told[0].1);
        let drops =
            "4 messages/s find no room before the application (its subscription to logs: 4)";
        assert_eq!(told[1..], [(READER_SLOW, drops)]);
    }

    #[test]
    fn what_was_dropped_is_said_though_nothing_was_missing() {
        let port = json!({ "unicast_kernel_drops": 8 });
        let account = account(json!({}), port, KernelDrops::default(), 0.0);
        let words = Passage::render(&account.words());
        assert!(
            words.contains("No packet of a stream was missing; what was dropped"),
            "{words}"
        );
        assert!(
            words.contains("receive buffer          4  the node did not read"),
            "{words}"
        );
    }

    #[test]
    fn loss_that_others_share_is_the_senders() {
        let protocol = json!({ "gaps": 100, "repaired_by_sender": 90, "repaired_by_push": 10 });
        let account = account(protocol, json!({}), KernelDrops::default(), 0.0);
        let words = Passage::render(&account.words());
        assert!(
            words.contains(
                "90 % of the repairs had to come from the sender: others missed them too"
            )
        );
    }
}
