//! Metrics: names mean one thing in the whole product, and values say what has happened.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;
use std::{env, fs};

use common::{PATIENCE, Place, Site, expect_numbers, next, pattern};
use exposition::Family;
use qsm::attach::{ClientStats, ShareStats};
use qsm::metrics::prometheus::{self, Page};
use qsm::metrics::{Kind, Metrics, Row};
use qsm::{Node, Snapshot, Subscription};

mod common;
#[path = "../../qsm-metrics/tests/exposition/mod.rs"]
mod exposition;

/// Metrics that a user can read.
struct Part {
    from: &'static str,
    title: &'static str,
    read: &'static str,
    metrics: Box<dyn Metrics>,
}

impl Part {
    fn new(
        from: &'static str,
        title: &'static str,
        read: &'static str,
        metrics: impl Metrics + 'static,
    ) -> Self {
        Self {
            from,
            title,
            read,
            metrics: Box::new(metrics),
        }
    }

    /// Its rows with their names in Prometheus.
    fn rows(&self) -> Vec<(String, Row<'_>)> {
        let group = self.metrics.group();
        let rows = qsm::metrics::rows(&*self.metrics).into_iter();
        rows.map(|row| (prometheus::name(group, &row), row))
            .collect()
    }
}

fn admission() -> Part {
    let read = "`ServiceSnapshot::admission`";
    Part::new("qsm", "Admission", read, qsm::AdmissionStats::default())
}

/// All of them, those of a crate together.
fn all() -> Vec<Part> {
    let (proto, net, gms, qsm) = ("qsm-proto", "qsm-net", "qsm-gms", "qsm");
    vec![
        Part::new(
            proto,
            "Protocol",
            "`Snapshot::protocol`",
            qsm::Stats::default(),
        ),
        Part::new(proto, "Times", "`Snapshot::times`", qsm::Times::default()),
        Part::new(
            net,
            "Sockets",
            "`Snapshot::port`; what of it went by a second network is \
             `Snapshot::second_port`, in Prometheus `qsm_second_port_` and the same",
            qsm::PortCounters::default(),
        ),
        Part::new(
            gms,
            "Membership service",
            "`ServiceSnapshot::stats`; its sockets are `ServiceSnapshot::port`, in Prometheus \
             `qsm_service_port_` and the same as those of a node",
            qsm::ServiceStats::default(),
        ),
        admission(),
        Part::new(
            qsm,
            "Clusters",
            "`ServiceSnapshot::size`",
            qsm::ClusterStats::default(),
        ),
        Part::new(
            qsm,
            "Core threads",
            "`Snapshot::runtime`",
            qsm::RuntimeStats::default(),
        ),
        Part::new(
            qsm,
            "Timers",
            "`Snapshot::timers`",
            qsm::TimerStats::default(),
        ),
        latency(),
        Part::new(qsm, "Memory", "`Snapshot::memory`", qsm::Memory::default()),
        Part::new(
            qsm,
            "Subscriptions",
            "`stats` of each of `Snapshot::subscriptions`",
            qsm::SubscriptionStats::default(),
        ),
        Part::new(
            qsm,
            "Publishers",
            "`stats` of each of `Snapshot::publishers`",
            qsm::PublisherStats::default(),
        ),
        Part::new(
            qsm,
            "Shared engines",
            "`Share::stats`",
            ShareStats::default(),
        ),
        Part::new(
            qsm,
            "Attached processes",
            "`stats` of each of `Share::clients`, and of `Node::attachment`",
            ClientStats::default(),
        ),
    ]
}

fn latency() -> Part {
    let read = "`Snapshot::latency`, of a node with a latency budget";
    Part::new("qsm", "Latency", read, qsm::LatencyStats::default())
}

/// The part of the manual that follows from the declarations.
fn tables() -> String {
    let mut text = String::new();
    let mut from = "";
    for part in all() {
        if part.from != from {
            from = part.from;
            text += &format!("\n## Metrics of `{from}`\n");
        }
        text += &format!("\n### {}\n\nRead as {}.\n\n", part.title, part.read);
        text += "| name | in Prometheus | kind | unit | meaning |\n|---|---|---|---|---|\n";
        for (name, row) in part.rows() {
            let kind = format!("{:?}", row.metric.kind).to_lowercase();
            let (unit, help) = (row.metric.unit.name(), row.metric.help);
            text += &format!(
                "| `{}` | `{name}` | {kind} | {unit} | {help} |\n",
                row.name()
            );
        }
    }
    text
}

#[test]
fn the_manual_lists_every_metric() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("docs/operate/metrics.md");
    let page = fs::read_to_string(&path).unwrap();
    let update = "UPDATE_METRICS=1 cargo test -p qsm --test metrics";
    let mark = format!("<!-- From here on written by {update} -->\n");
    let (head, listed) = page.split_once(&mark).expect("the page has its mark");
    let tables = tables();
    if env::var_os("UPDATE_METRICS").is_some() {
        fs::write(&path, format!("{head}{mark}{tables}")).unwrap();
    } else {
        assert!(listed == tables, "the page is stale; run {update}");
    }
    // What its first part says of single metrics is of metrics that there are.
    let rows: Vec<String> = all()
        .iter()
        .flat_map(|part| part.rows())
        .map(|row| row.0)
        .collect();
    let words = head.split('`').filter(|word| word.starts_with("qsm_"));
    for word in words {
        assert!(rows.iter().any(|name| name == word), "no metric is {word}");
    }
}

#[test]
fn names_are_unique_and_say_what_they_count() {
    let mut seen = BTreeMap::new();
    for part in all() {
        for (name, row) in part.rows() {
            let (help, kind) = (row.metric.help, row.metric.kind);
            assert!(
                help.ends_with('.'),
                "{name}: the help text is no sentence: {help}"
            );
            assert!(!help.starts_with("What "), "{name}: {help}");
            let total = name.ends_with("_total");
            assert_eq!(total, kind == Kind::Counter, "{name} is a {kind:?}");
            let other = seen.insert(name.clone(), help);
            assert!(other.is_none(), "{name}: {help} And: {other:?}");
        }
    }
}

/// A publisher `a` and a receiver `b`, after so many messages of 1000 bytes.
fn exchanged(site: &Site, messages: u64) -> (Node, Node, Subscription) {
    let (a, b) = (site.first("a"), site.node("b"));
    let subscription = b.subscribe(["x"]).unwrap();
    let publisher = a.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    for number in 1..=messages {
        publisher.send(&pattern(number, 1000)).unwrap();
    }
    expect_numbers(&subscription, 1..=messages, |number| pattern(number, 1000));
    (a, b, subscription)
}

#[test]
fn a_flushed_sender_has_nothing_pending_and_knows_how_long_it_took() {
    let site = Site::new();
    let (a, b, _subscription) = exchanged(&site, 1000);
    a.flush(PATIENCE).unwrap();
    let sender = a.stats().unwrap();
    let protocol = &sender.protocol;
    assert_eq!((protocol.pending_messages, protocol.pending_bytes), (0, 0));
    assert_eq!((protocol.unsent_messages, protocol.unsent_bytes), (0, 0));
    assert_eq!(sender.times.stable.count(), protocol.data_sent);
    // Its memory was in use, and as much as it had to hold.
    assert!(sender.memory.send_bytes_peak >= sender.memory.send_bytes);
    assert!(sender.memory.send_bytes_peak > 0);
    // One of the two leads the region; only it sees whole rounds.
    let nodes = [sender, b.stats().unwrap()];
    for node in &nodes {
        assert_eq!(node.times.token_round.count(), node.protocol.ring.rounds);
        assert!(node.timers.late_recent_max <= node.timers.late_max);
        assert!(node.runtime.uptime > Duration::ZERO);
    }
    let leads = |node: &&Snapshot| node.protocol.ring.rounds > 0 && node.timers.runs > 0;
    assert!(nodes.iter().any(|node| leads(&node)));
}

#[test]
fn what_a_receiver_does_not_read_is_in_its_queue() {
    let site = Site::new();
    let node = site.first("a");
    let subscription = node.subscribe(["x"]).unwrap();
    let publisher = node.publisher("x").unwrap();
    (1..=3).for_each(|number| publisher.send(&pattern(number, 500)).unwrap());
    node.flush(PATIENCE).unwrap();
    let queue = node.stats().unwrap().subscriptions[0].stats;
    assert_eq!((queue.queued_messages, queue.queued_bytes), (3, 1500));
    next(&subscription);
    let queue = node.stats().unwrap().subscriptions[0].stats;
    assert_eq!((queue.queued_messages, queue.dropped), (2, 0));
}

fn parsed(text: &str) -> BTreeMap<String, Family> {
    exposition::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The value of the only sample of this name that has the label.
fn value<'a>(families: &'a BTreeMap<String, Family>, name: &str, label: (&str, &str)) -> &'a str {
    let label = (label.0.to_owned(), label.1.to_owned());
    let samples = families[name].samples.iter();
    let mut found = samples.filter(|sample| sample.labels.contains(&label));
    let sample = found.next().unwrap_or_else(|| panic!("{name}: {label:?}"));
    assert!(found.next().is_none(), "{name}: {label:?} twice");
    &sample.value
}

#[test]
fn prometheus_reads_everything_of_a_snapshot() {
    let site = Site::new();
    let (a, _b, _subscription) = exchanged(&site, 10);
    a.flush(PATIENCE).unwrap();
    let snapshot = a.stats().unwrap();
    let families = parsed(&snapshot.to_prometheus());
    let own = |name: &str| value(&families, name, ("node", "a")).to_owned();
    assert_eq!(own("qsm_node_messages_published_total"), "10");
    assert_eq!(own("qsm_node_pending_messages"), "0");
    assert_eq!(own("qsm_core_messages_pushed_total"), "10");
    assert_eq!(own("qsm_publisher_queued_messages"), "0");
    assert_eq!(
        own("qsm_memory_send_peak_bytes"),
        snapshot.memory.send_bytes_peak.to_string()
    );
    assert_eq!(families["qsm_node_stable_seconds"].kind, "histogram");
    // All that is declared for a node is there.
    let counted = [
        "node",
        "core",
        "timer",
        "latency",
        "memory",
        "port",
        "subscription",
        "publisher",
    ];
    for part in all() {
        let of_a_node = counted.contains(&part.metrics.group());
        for (name, _) in part.rows() {
            assert_eq!(families.contains_key(&name), of_a_node, "{name}");
        }
    }
}

/// The body of an answer of HTTP, and its head.
fn get(address: SocketAddr) -> (String, String) {
    let mut client = TcpStream::connect(address).unwrap();
    client
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (body.to_owned(), head.to_owned())
}

#[test]
fn a_running_node_is_asked_over_http() {
    let site = Site::new();
    let builder = site.builder("a\"b").cores(2);
    let builder = builder.embedded_service(qsm::Embedded::Always);
    let node = common::admitted(builder.metrics("127.0.0.1:0".parse().unwrap()));
    let address = node.metrics_address().unwrap();
    let published = |count: u64| {
        let (body, head) = get(address);
        assert!(head.contains("Content-Type: application/openmetrics-text; version=1.0.0"));
        let families = exposition::parse_open(&body).unwrap_or_else(|error| panic!("{error}"));
        let cores = ["a\"b", "a\"b/2"].map(|name| {
            let name = ("node", name);
            value(&families, "qsm_node_messages_published_total", name).parse::<u64>()
        });
        assert_eq!(cores.into_iter().map(Result::unwrap).sum::<u64>(), count);
    };
    published(0);
    let publisher = node.publisher("x").unwrap();
    (1..=3).for_each(|number| publisher.send(&pattern(number, 10)).unwrap());
    node.flush(PATIENCE).unwrap();
    published(3);
    // Whoever asks keeps no node alive, and its port is free again with it.
    let handle = node.clone();
    drop((publisher, node));
    published(3);
    drop(handle);
    drop(TcpListener::bind(address).unwrap());
}

#[test]
fn an_address_for_metrics_that_another_has_is_an_error_with_a_number() {
    let site = Site::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let error = site.builder("a").metrics(address).start().unwrap_err();
    assert_eq!(error.code(), qsm::ErrorCode::StartMetrics);
    let text = error.to_string();
    assert!(text.contains(&address.to_string()) && text.contains("choose another port"));
    assert_eq!(site.first("b").metrics_address(), None);
}

#[test]
fn a_page_has_many_nodes_with_any_names_and_the_cores_of_one() {
    let site = Site::new();
    let odd = "a\"b\\c d";
    let node = site.first(odd);
    let cores = common::admitted(site.builder("cores").cores(2));
    let mut page = Page::new();
    let labelled = |snapshot: &Snapshot, page: &mut Page| {
        snapshot.add_to(page, &[("rack", "7\n8")]);
    };
    labelled(&node.stats().unwrap(), &mut page);
    let of_cores = cores.core_stats().unwrap();
    of_cores
        .iter()
        .for_each(|snapshot| labelled(snapshot, &mut page));
    let families = parsed(&page.to_string());
    let turns = &families["qsm_core_turns_total"];
    assert_eq!(
        (&*turns.help, turns.samples.len()),
        ("Turns of its loop.", 3)
    );
    for name in [odd, "cores", "cores/2"] {
        value(&families, "qsm_core_turns_total", ("node", name));
    }
    let rack = ("rack".to_owned(), "7\n8".to_owned());
    assert!(turns.samples.iter().all(|one| one.labels.contains(&rack)));
}

#[test]
fn people_read_every_part_that_is_not_zero() {
    let site = Site::new();
    let (a, _b, _subscription) = exchanged(&site, 10);
    let text = a.stats().unwrap().to_string();
    for line in [
        "protocol:\n",
        "            10  messages_published: Messages accepted from the application.\n",
        "runtime:\n",
        "            10  messages_pushed: Messages taken from publishers' queues.\n",
        "times:\n",
        "memory:\n",
        "port:\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains("second port"), "{text}");
}

#[test]
fn json_has_who_it_is_and_every_metric() {
    let site = Site::new();
    let (a, _b, _subscription) = exchanged(&site, 10);
    let _odd = a.publisher("a \"group\"").unwrap();
    a.flush(PATIENCE).unwrap();
    let json = a.stats().unwrap().to_json();
    for field in [
        format!("{{\"node\":\"{:x}\",\"name\":\"a\",", a.id().0),
        r#""protocol":{"messages_published":10,"#.to_owned(),
        r#""times":{"repair":{"count":"#.to_owned(),
        r#""late_recent_max_seconds":"#.to_owned(),
        r#"{"group":"a \"group\"","feed":false,"stats":{"queued_messages":0,"#.to_owned(),
        r#""subscriptions":[],"#.to_owned(),
    ] {
        assert!(json.contains(&field), "{field}\n{json}");
    }
    assert!(!json.contains('\n'));
}

#[test]
fn a_service_tells_what_it_has_done() {
    let site = Site::new();
    let service = site.service().start().unwrap();
    let _node = common::admitted(site.builder("a").service(service.address()));
    let snapshot = service.snapshot().unwrap();
    let families = parsed(&snapshot.to_prometheus());
    assert_eq!(families["qsm_service_admitted_total"].samples[0].value, "1");
    let received = &families["qsm_service_port_unicast_datagrams_total"];
    assert_ne!(received.samples[0].value, "0");
    assert!(snapshot.to_json().contains(r#""admitted":1,"#));
    let text = snapshot.to_string();
    assert!(
        text.contains("service:\n") && text.contains("admitted: Nodes"),
        "{text}"
    );
}

#[test]
fn an_engine_counts_for_each_process() {
    let (site, place) = (Site::new(), Place::new());
    let engine = site.first("engine");
    let share = engine.share(place.path()).unwrap();
    let client = place.attach();
    let subscription = client.subscribe(["x"]).unwrap();
    client.publisher("x").unwrap().send(b"1").unwrap();
    next(&subscription);
    // Both threads that serve the process have counted when these have answered.
    client.flush(PATIENCE).unwrap();
    engine.stats().unwrap();
    let [row] = share.clients()[..] else {
        panic!("{:?}", share.clients())
    };
    assert_eq!((row.stats.published, row.stats.delivered), (1, 1));
    let mut page = Page::new();
    page.add(&share.stats(), &[]);
    page.add(&row.stats, &[("client", &row.client.to_string())]);
    let families = parsed(&page.to_string());
    let client = ("client", "1");
    assert_eq!(value(&families, "qsm_client_published_total", client), "1");
    assert_eq!(families["qsm_share_attached_total"].samples[0].value, "1");
}
