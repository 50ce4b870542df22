//! What follows from a declaration: sums, rows, lines, JSON, and text that Prometheus reads.

use core::time::Duration;

use qsm_metrics::prometheus::Page;
use qsm_metrics::{Histogram, Kind, Unit, json};

mod exposition;

qsm_metrics::metrics! {
    /// Datagrams in one direction.
    #[derive(Copy)]
    pub struct Way of "way" {
        /// Datagrams.
        datagrams: counter(datagrams),
        /// Their payload, and what a path\with a backslash
        /// adds.
        bytes: counter(bytes),
    }
}

qsm_metrics::metrics! {
    /// Everything that can be declared.
    pub struct Sample of "sample" {
        /// Bytes of messages delivered.
        bytes_delivered: counter(bytes),
        /// Nodes known.
        peers: gauge(nodes),
        /// Time asleep.
        asleep: counter(seconds),
        /// Longest turn.
        turn_max: maximum(seconds),
        /// Time of the last hop.
        hop_ns: maximum(nanoseconds),
        /// Received.
        received: group(Way),
        /// Sent.
        sent: group(Way),
        /// Repairs.
        repair: histogram(seconds),
    }
}

qsm_metrics::metrics! {
    /// Visits, which several threads count.
    #[derive(Copy)]
    struct Visits of "visit", counted in VisitCounts {
        /// Those let in.
        entered: counter(visitors),
        /// Those sent away.
        refused: counter(visitors),
    }
}

fn sample() -> Sample {
    let mut repair = Histogram::new();
    repair.record(Duration::from_micros(100));
    repair.record_many(Duration::from_millis(3), 9);
    Sample {
        bytes_delivered: 7,
        peers: 3,
        asleep: Duration::from_millis(1500),
        turn_max: Duration::from_micros(20),
        hop_ns: 1_250_000,
        received: Way {
            datagrams: 5,
            bytes: 600,
        },
        sent: Way::default(),
        repair,
    }
}

#[test]
fn sums_add_counters_and_gauges_and_take_the_larger_maximum() {
    let mut sum = sample();
    sum += Sample {
        turn_max: Duration::from_micros(10),
        hop_ns: 2_000_000,
        ..sample()
    };
    assert_eq!((sum.bytes_delivered, sum.peers), (14, 6));
    assert_eq!(sum.asleep, Duration::from_secs(3));
    assert_eq!(sum.turn_max, Duration::from_micros(20));
    assert_eq!(sum.hop_ns, 2_000_000);
    assert_eq!((sum.received.datagrams, sum.received.bytes), (10, 1200));
    assert_eq!(sum.repair.count(), 20);
    assert_eq!(sum.repair.sum(), sample().repair.sum() * 2);
}

#[test]
fn what_several_threads_count_is_read_as_the_plain_struct() {
    let counts = VisitCounts::default();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1000).for_each(|_| counts.entered.add(2)));
        }
    });
    let visits = counts.read();
    assert_eq!((visits.entered, visits.refused), (8000, 0));
    let numbers = visits.rows().into_iter().map(|row| row.number());
    assert_eq!(numbers.collect::<Visits>(), visits);
    let short: Visits = [7].into_iter().collect();
    assert_eq!((short.entered, short.refused), (7, 0));
}

#[test]
fn a_part_may_stand_on_a_page_beside_the_whole() {
    let mut page = Page::new();
    page.add(&Way::default(), &[]);
    page.add_as("back", &Way::default(), &[]);
    let families = exposition::parse(&page.to_string()).unwrap();
    let names: Vec<&String> = families.keys().collect();
    assert_eq!(
        names,
        [
            "qsm_back_bytes_total",
            "qsm_back_datagrams_total",
            "qsm_way_bytes_total",
            "qsm_way_datagrams_total"
        ]
    );
}

#[test]
fn rows_have_names_units_and_help_in_the_order_of_declaration() {
    let sample = sample();
    let rows = sample.rows();
    let names: Vec<String> = rows.iter().map(qsm_metrics::Row::name).collect();
    assert_eq!(
        names,
        [
            "bytes_delivered",
            "peers",
            "asleep",
            "turn_max",
            "hop_ns",
            "received_datagrams",
            "received_bytes",
            "sent_datagrams",
            "sent_bytes",
            "repair",
        ]
    );
    assert_eq!(rows[1].metric.kind, Kind::Gauge);
    assert_eq!(rows[5].metric.unit, Unit::Items("datagrams"));
    assert_eq!(rows[0].metric.help, "Bytes of messages delivered.");
    let help = r"Their payload, and what a path\with a backslash adds.";
    assert_eq!(rows[6].metric.help, help);
    assert_eq!(rows[2].number(), 1_500_000_000);
}

#[test]
fn people_read_a_line_for_each_metric_that_is_not_zero() {
    let text = sample().to_string();
    assert!(text.starts_with("             7  bytes_delivered: Bytes of messages delivered.\n"));
    assert!(text.contains("        1.25ms  hop_ns: Time of the last hop.\n"));
    assert!(!text.contains("sent_"), "{text}");
    assert!(
        text.ends_with("            10  repair: Repairs. p50 3.072ms, p99 3.072ms, max 3.072ms\n")
    );
    assert_eq!(Sample::default().to_string(), "");
}

#[test]
fn json_is_one_flat_object() {
    let expected = concat!(
        r#"{"bytes_delivered":7,"peers":3,"asleep_seconds":1.5,"turn_max_seconds":0.00002,"#,
        r#""hop_ns":1250000,"received_datagrams":5,"received_bytes":600,"#,
        r#""sent_datagrams":0,"sent_bytes":0,"#,
        r#""repair":{"count":10,"sum_seconds":0.0271,"p50_seconds":0.003072,"#,
        r#""p90_seconds":0.003072,"p99_seconds":0.003072,"max_seconds":0.003072}}"#
    );
    assert_eq!(json(&sample()), expected);
}

#[test]
fn prometheus_reads_what_a_page_writes() {
    let mut page = Page::new();
    page.add(&sample(), &[("node", "a\"b\\c\nd"), ("core", "0")]);
    page.add(&sample(), &[("node", "other"), ("core", "1")]);
    page.add(&Way::default(), &[]);
    let text = page.to_string();
    let families = exposition::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));

    let delivered = &families["qsm_sample_delivered_bytes_total"];
    assert_eq!(delivered.kind, "counter");
    assert_eq!(delivered.help, "Bytes of messages delivered.");
    let first = &delivered.samples[0];
    assert_eq!(
        first.labels[0],
        ("node".to_owned(), "a\"b\\c\nd".to_owned())
    );
    assert_eq!(first.value, "7");
    assert_eq!(delivered.samples.len(), 2);

    assert_eq!(
        families["qsm_sample_asleep_seconds_total"].samples[0].value,
        "1.5"
    );
    assert_eq!(
        families["qsm_sample_hop_seconds"].samples[0].value,
        "0.00125"
    );
    assert_eq!(families["qsm_sample_hop_seconds"].kind, "gauge");
    assert_eq!(
        families["qsm_sample_received_bytes_total"].samples[1].value,
        "600"
    );
    assert!(
        families["qsm_way_datagrams_total"].samples[0]
            .labels
            .is_empty()
    );
    assert_eq!(families["qsm_sample_repair_seconds"].kind, "histogram");
}

#[test]
fn open_metrics_says_units_and_has_an_end() {
    let mut page = Page::new();
    assert_eq!(page.to_open_metrics(), "# EOF\n");
    page.add(&sample(), &[("node", "a\"b\\c\nd")]);
    page.add(&sample(), &[("node", "other")]);
    let text = page.to_open_metrics();
    for part in [
        "# TYPE qsm_sample_delivered_bytes counter\n\
         # UNIT qsm_sample_delivered_bytes bytes\n\
         # HELP qsm_sample_delivered_bytes Bytes of messages delivered.\n\
         qsm_sample_delivered_bytes_total{",
        "# TYPE qsm_sample_peers gauge\n# HELP qsm_sample_peers Nodes known.\nqsm_sample_peers{",
        "# TYPE qsm_sample_repair_seconds histogram\n# UNIT qsm_sample_repair_seconds seconds\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    // The same samples as in the other format.
    let open = exposition::parse_open(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let plain = exposition::parse(&page.to_string()).unwrap();
    assert_eq!(open.len(), plain.len());
    for (name, family) in plain {
        assert_eq!(open[&name].samples, family.samples, "{name}");
        assert_eq!(open[&name].help, family.help, "{name}");
    }
}

#[test]
fn the_checker_of_this_test_refuses_what_open_metrics_refuses() {
    let family = "# TYPE qsm_a counter\n# UNIT qsm_a b\n# HELP qsm_a Help.\nqsm_a_total 1\n";
    for wrong in [
        "",
        "# TYPE qsm_a counter\n# HELP qsm_a Help.\nqsm_a_total 1\n",
        "# TYPE qsm_a_total counter\n# HELP qsm_a_total Help.\nqsm_a_total 1\n# EOF\n",
        "# TYPE qsm_a counter\n# HELP qsm_a Help.\nqsm_a 1\n# EOF\n",
        "# EOF\n# EOF\n",
        &format!("{family}# EOF\n"),
    ] {
        assert!(exposition::parse_open(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_checker_of_this_test_refuses_what_prometheus_refuses() {
    let head = "# HELP qsm_a_total Help.\n# TYPE qsm_a_total counter\n";
    let bad = [
        "qsm_a_total 1\n",                                      // no type
        "# TYPE qsm_a counter\nqsm_a 1\n",                      // no help, no `_total`
        &format!("{head}qsm_a_total 1"),                        // no end of line
        &format!("{head}qsm_a_total 1\nqsm_a_total 1\n"),       // twice
        &format!("{head}qsm_a_total{{1a=\"x\"}} 1\n"),          // name of the label
        &format!("{head}qsm_a_total{{a=\"x}} 1\n"),             // open quote
        &format!("{head}qsm_a_total{{a=\"\\x\"}} 1\n"),         // unknown escape
        &format!("{head}qsm_a_total one\n"),                    // no number
        &format!("{head}qsm_b_total 1\n"),                      // another name
        &format!("{head}qsm_a_total 1\n{head}qsm_a_total 2\n"), // a family in two parts
    ];
    for text in bad {
        assert!(exposition::parse(text).is_err(), "accepted:\n{text}");
    }
}

#[test]
#[should_panic(expected = "is no name of a label")]
fn a_label_must_have_a_name_that_prometheus_takes() {
    Page::new().add(&Way::default(), &[("two words", "x")]);
}

#[test]
#[should_panic(expected = "is no name of a label")]
fn the_label_of_histogram_buckets_is_taken() {
    Page::new().add(&Way::default(), &[("le", "x")]);
}
