//! One group with four subscriptions, each on a host that loses a part of what comes, and each
//! reading in another way: every message is checked by its number and content (R-DATA-12).

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use lab::Traffic;

use crate::cluster::{Cluster, Failure, Plan, Readings};
use crate::figure::{Bar, Finding};

/// One message in a packet.
const BYTES: usize = 1000;
/// Of a million packets.
const LOSS_PPM: u32 = 50_000;
/// Keys of the subscription that wants the newest message of each.
const KEYS: u64 = 8;
/// Messages a second that it reads.
const NEWEST_RATE: u64 = 500;
/// Longest wait of the subscriber with a deadline, milliseconds.
const DEADLINE_MS: u64 = 2;
/// Time before losses: where a stream begins is known by then.
const BEGIN: Duration = Duration::from_millis(300);

/// An experiment.
#[derive(Debug, Clone)]
pub struct Modes {
    /// Messages a second.
    pub rate: u64,
    /// Time for which messages are published under loss.
    pub lasts: Duration,
}

impl Modes {
    pub(super) fn name(&self) -> String {
        format!("{} % of packets lost", LOSS_PPM / 10_000)
    }

    /// Runs it with this program `system-node`.
    ///
    /// # Errors
    /// A process fails, or a subscription is not done with all messages in time.
    pub fn run(&self, program: &Path) -> Result<Vec<Finding>, Failure> {
        let ways = [
            "ordered".to_owned(),
            "arrival".to_owned(),
            format!("newest {KEYS}"),
            format!("within {DEADLINE_MS}"),
        ];
        let mut plan = Plan::new(program, ways.len());
        plan.ways = ways.to_vec();
        let mut cluster = Cluster::start(plan)?;
        let sender = cluster.receivers().end;
        // Loss of single packets, and not of trains.
        cluster
            .lab()
            .segment_on_wire(cluster.host(Some(sender)), true)?;
        cluster.ask(2, &format!("read {NEWEST_RATE}"), "reading")?;
        cluster.publish(BYTES, self.rate)?;
        sleep(BEGIN);
        for node in cluster.receivers() {
            let host = cluster.host(Some(node));
            cluster.lab().set_loss(host, LOSS_PPM, Traffic::All)?;
        }
        sleep(self.lasts);
        let sent: u64 = cluster.stop()?.values().sum();
        let mut readings = Vec::new();
        for node in cluster.receivers() {
            readings.push(cluster.readings(node, sent)?);
        }
        cluster.ask(sender, "flush", "flushed")?;
        cluster.quit()?;
        let readings = readings.try_into();
        let readings = readings.map_err(|_| "there are not four subscriptions")?;
        Ok(judge(sent, readings))
    }
}

fn judge(sent: u64, readings: [Readings; 4]) -> Vec<Finding> {
    let [ordered, arrival, newest, deadline] = readings;
    let missing = |of: &Readings| sent.abs_diff(of.came);
    let spoilt = |of: &Readings| of.twice + of.wrong;
    let faults = missing(&ordered) + spoilt(&ordered) + ordered.backward + ordered.lost;
    let arrival_faults = missing(&arrival) + spoilt(&arrival) + arrival.lost;
    // The newest message of each key is among the last ones of all.
    let stale = KEYS.abs_diff(newest.keys) + u64::from(newest.oldest + KEYS <= sent);
    let newest_faults = spoilt(&newest) + newest.backward + stale + newest.lost;
    let untold = sent.abs_diff(deadline.came + deadline.lost);
    let deadline_faults = untold + spoilt(&deadline) + deadline.backward;
    vec![
        Finding::new("messages published", sent as f64, Bar::Least(1.0)),
        Finding::none("ordered: missing, twice, wrong or out of order", faults),
        Finding::none("arrival: missing, twice or wrong", arrival_faults),
        Finding::new(
            "arrival: came after a later one",
            arrival.backward as f64,
            Bar::Least(1.0),
        ),
        Finding::none("newest: stale, twice, wrong or back in time", newest_faults),
        Finding::new(
            "newest: replaced before they were read",
            sent.saturating_sub(newest.came) as f64,
            Bar::Least(1.0),
        ),
        Finding::none(
            "deadline: untold, twice, wrong or out of order",
            deadline_faults,
        ),
        Finding::new("deadline: told to be lost", deadline.lost as f64, Bar::Told),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(came: u64, lost: u64) -> Readings {
        Readings {
            came,
            lost,
            twice: 0,
            wrong: 0,
            backward: 0,
            keys: 0,
            oldest: 0,
        }
    }

    fn broken(all: [Readings; 4]) -> Vec<&'static str> {
        let findings = judge(100, all).into_iter();
        let broken = findings.filter(|one| match one.bar {
            Bar::Least(bound) => one.value < bound,
            Bar::Most(bound) => one.value > bound,
            Bar::Within(least, most) => !(least..=most).contains(&one.value),
            Bar::Always(value) => (one.value - value).abs() > 0.5,
            Bar::Told => false,
        });
        broken.map(|one| one.what).collect()
    }

    #[test]
    fn each_subscription_is_judged_by_what_it_asked_for() {
        let mut arrival = readings(100, 0);
        arrival.backward = 7;
        let mut newest = readings(30, 0);
        (newest.keys, newest.oldest) = (KEYS, 93);
        let all = [readings(100, 0), arrival, newest, readings(98, 2)];
        assert!(broken(all).is_empty());
        let stale = Readings {
            oldest: 92,
            ..newest
        };
        let found = broken([readings(99, 1), arrival, stale, readings(98, 1)]);
        assert_eq!(found.len(), 3, "{found:?}");
    }
}
