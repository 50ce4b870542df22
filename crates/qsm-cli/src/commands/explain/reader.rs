//! Readers that take less than comes: which subscription, for how long, and what it does to others.

use std::time::Duration;

use qsm_console::figures::{duration, rate};
use qsm_console::table::printable;
use serde_json::{Value, json};

use super::super::counted::Counted;

/// Readers told of in words; JSON has all.
const NAMED_MAX: usize = 5;
/// Groups of a reader that are named.
const GROUPS_MAX: usize = 3;

/// Part of a time by which two clocks' words on it may differ.
const INEXACT: f64 = 0.1;

/// A subscription between two looks, if its queue was full.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SlowReader {
    groups: Vec<String>,
    /// The attached process that reads; `None`: the node's own.
    process: Option<u64>,
    /// Part of the time for which its queue was full and held senders up.
    held_share: f64,
    /// Seconds since it began to be, but for short pauses; 0 if it is no more.
    held_for: f64,
    /// Messages dropped each second because its queue was full.
    dropped: f64,
    queued_bytes: u64,
}

/// A queue's counters at a look.
struct Queue<'a> {
    row: &'a Value,
}

impl Queue<'_> {
    fn stat(&self, name: &str) -> f64 {
        self.row["stats"][name].as_f64().unwrap_or(0.0)
    }

    /// Tells whether both are the same subscription, as far as that can be seen.
    fn is(&self, other: &Queue<'_>) -> bool {
        let same = |name| self.row[name] == other.row[name];
        same("groups") && same("process") && same("upcall")
    }
}

/// Queues of a look, those of the same subscription one after the other.
fn queues(counted: &Counted) -> Vec<Queue<'_>> {
    let rows = counted.list("/subscriptions").iter();
    rows.map(|row| Queue { row }).collect()
}

/// Readers whose queues were full meanwhile, those that hold senders up first.
pub(super) fn slow_readers(before: &Counted, now: &Counted) -> Vec<SlowReader> {
    let mut former = queues(before);
    let mut slow: Vec<SlowReader> = Vec::new();
    for queue in queues(now) {
        let at = former.iter().position(|other| other.is(&queue));
        let former = at.map(|at| former.remove(at));
        let reader = SlowReader::new(&queue, former.as_ref(), now.since(before));
        slow.extend(reader.filter(SlowReader::is_slow));
    }
    slow.sort_by(|one, other| other.weight().total_cmp(&one.weight()));
    slow
}

impl SlowReader {
    /// `None` if no time has passed.
    fn new(now: &Queue<'_>, before: Option<&Queue<'_>>, seconds: f64) -> Option<Self> {
        let grown = |name| now.stat(name) - before.map_or(0.0, |before| before.stat(name));
        let each_second = |name| (grown(name) / seconds).max(0.0);
        let groups = now.row["groups"].as_array().into_iter().flatten();
        let groups = groups.filter_map(Value::as_str).map(str::to_owned);
        (seconds > 0.0).then(|| Self {
            groups: groups.collect(),
            process: now.row["process"].as_u64(),
            held_share: each_second("full_seconds").min(1.0),
            held_for: now.stat("full_for_seconds"),
            dropped: each_second("dropped"),
            queued_bytes: now.row["stats"]["queued_bytes"].as_u64().unwrap_or(0),
        })
    }

    fn is_slow(&self) -> bool {
        self.holds() || self.dropped > 0.0
    }

    /// Tells whether senders wait for it, or would soon.
    pub(super) fn holds(&self) -> bool {
        self.held_share > 0.0
    }

    /// Who holds goes before who drops.
    fn weight(&self) -> f64 {
        match self.holds() {
            true => f64::MAX / 2.0 * (1.0 + self.held_share),
            false => self.dropped,
        }
    }

    /// The subscription in words.
    fn name(&self) -> String {
        let mut named: Vec<&str> = self.groups.iter().map(String::as_str).collect();
        let more = named.len().saturating_sub(GROUPS_MAX);
        named.truncate(GROUPS_MAX);
        let groups = printable(&named.join(", "));
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let whose = match self.process {
            None => "its subscription".to_owned(),
            Some(process) => format!("the subscription of attached process {process}"),
        };
        format!("{whose} to {groups}{more}")
    }

    /// What a reader that holds does to others, who waited so many seconds each second.
    fn holding(&self, waited: f64) -> String {
        let share = self.held_share * 100.0;
        let since = match self.held_for > 0.0 {
            true => format!(", for {} now", seconds(self.held_for)),
            false => ", and has room now".to_owned(),
        };
        // What is a little more than all of the time was measured so.
        let (waited, regions) = match waited > 1.0 + INEXACT {
            true => (waited, " (the sum of its regions)"),
            false => (waited.min(1.0), ""),
        };
        let others = match waited > 0.0 {
            true => format!(
                "for {} of each second{regions} senders waited for this node's readers, and so did all \
                 receivers of what they send by the same regions",
                seconds(waited)
            ),
            false => {
                "no sender waits yet: the node keeps what comes, up to a quarter of its memory for \
                      received packets"
                    .to_owned()
            }
        };
        format!(
            "the queue of {} was full {share:.0} % of the time{since}; {others}",
            self.name()
        )
    }

    fn dropping(&self) -> String {
        format!("{}: {}", self.name(), rate(self.dropped))
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "groups": self.groups,
            "process": self.process,
            "held_share": self.held_share,
            "held_for_seconds": self.held_for,
            "dropped_per_second": self.dropped,
            "queued_bytes": self.queued_bytes,
        })
    }
}

/// Readers that hold senders up, in words, with the seconds for which these waited each second.
pub(super) fn holders(readers: &[SlowReader], waited: f64) -> Vec<String> {
    told(readers, SlowReader::holds, |reader| reader.holding(waited))
}

/// Readers that lose messages, in words.
pub(super) fn losers(readers: &[SlowReader]) -> Vec<String> {
    let loses = |reader: &SlowReader| reader.dropped > 0.0;
    told(readers, loses, SlowReader::dropping)
}

/// The first of those readers of which this is so, and how many there are beside.
fn told(
    readers: &[SlowReader],
    which: impl Fn(&SlowReader) -> bool,
    words: impl Fn(&SlowReader) -> String,
) -> Vec<String> {
    let all: Vec<&SlowReader> = readers.iter().filter(|it| which(it)).collect();
    let named = all.iter().take(NAMED_MAX).map(|reader| words(reader));
    let more = all.len().saturating_sub(NAMED_MAX);
    let more = (more > 0).then(|| format!("{more} more subscriptions, which --json has"));
    named.chain(more).collect()
}

fn seconds(seconds: f64) -> String {
    duration(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn row(groups: &[&str], process: Option<u32>, stats: &Value) -> Value {
        json!({ "groups": groups, "process": process, "upcall": false, "stats": stats })
    }

    /// What was slow in two seconds between these subscriptions.
    fn slow(before: &[Value], now: &[Value]) -> Vec<SlowReader> {
        let start = Instant::now();
        let look = |seconds, rows| {
            let at = start + Duration::from_secs(seconds);
            Counted::new(at, json!({ "subscriptions": rows }))
        };
        slow_readers(&look(0, before), &look(2, now))
    }

    #[test]
    fn who_holds_comes_first_and_others_are_not_told_of() {
        let before = [
            row(&["a"], None, &json!({ "full_seconds": 1.0, "dropped": 0 })),
            row(&["b"], Some(77), &json!({ "dropped": 5 })),
            row(&["c"], None, &json!({ "full_seconds": 9.0, "dropped": 9 })),
        ];
        let now = [
            row(&["b"], Some(77), &json!({ "dropped": 25 })),
            row(&["c"], None, &json!({ "full_seconds": 9.0, "dropped": 9 })),
            row(
                &["a"],
                None,
                &json!({ "full_seconds": 2.5, "full_for_seconds": 12.5, "dropped": 0 }),
            ),
        ];
        let slow = slow(&before, &now);
        assert_eq!(
            holders(&slow, 0.5),
            [
                "the queue of its subscription to a was full 75 % of the time, for 12.50 s now; for 500.0 ms \
                 of each second senders waited for this node's readers, and so did all receivers of what \
                 they send by the same regions"
            ]
        );
        assert_eq!(
            losers(&slow),
            ["the subscription of attached process 77 to b: 10"]
        );
        let json: Vec<Value> = slow.iter().map(SlowReader::json).collect();
        assert_eq!(json[0]["groups"], json!(["a"]));
        assert_eq!(
            (&json[0]["held_share"], &json[1]["process"]),
            (&json!(0.75), &json!(77))
        );
        assert_eq!(json.len(), 2);
    }

    #[test]
    fn of_equal_subscriptions_each_is_compared_with_one() {
        let of = |full: f64| row(&["a"], None, &json!({ "full_seconds": full }));
        let slow = slow(&[of(1.0), of(1.0)], &[of(1.0), of(2.0), of(1.0)]);
        let shares: Vec<f64> = slow.iter().map(|reader| reader.held_share).collect();
        // The third is new.
        assert_eq!(shares, [0.5, 0.5]);
    }

    #[test]
    fn many_readers_and_groups_are_counted() {
        let names: Vec<String> = (0..9).map(|number| format!("g{number}")).collect();
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        let rows: Vec<Value> = (1..=7)
            .map(|first| row(&all[first - 1..], None, &json!({ "full_seconds": 2.0 })))
            .collect();
        let told = holders(&slow(&[], &rows), 0.0);
        assert_eq!(told.len(), 6);
        assert!(
            told[0].contains("to g0, g1, g2 and 6 more was full 100 %"),
            "{}",
            told[0]
        );
        assert!(
            told[0].contains("has room now; no sender waits yet"),
            "{}",
            told[0]
        );
        assert_eq!(told[5], "2 more subscriptions, which --json has");
    }
}
