//! Counters of commands, for programs to read.

#[path = "../../qsm-metrics/tests/exposition/mod.rs"]
mod exposition;
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Output, Stdio};

use exposition::Family;
use serde_json::Value;
use support::{Cluster, Lines, Running, assert_code, stderr, text};

/// More than a slow machine needs; a test that waits so long has failed.
const IDLE: &str = "60";

/// The only line of stderr that is a JSON object.
fn json(output: &Output) -> Value {
    let text = stderr(output);
    let mut lines = text.lines().filter(|line| line.starts_with('{'));
    let line = lines.next().unwrap_or_else(|| panic!("no JSON: {text}"));
    assert_eq!(lines.next(), None);
    serde_json::from_str(line).unwrap()
}

/// The part of stderr that Prometheus would read: what else a command says begins neither with `qsm_`, nor
/// with `#`.
fn page(output: &Output) -> BTreeMap<String, Family> {
    let text = stderr(output);
    let of_page = |line: &&str| line.starts_with("qsm_") || line.starts_with('#');
    let lines: String = text
        .lines()
        .filter(of_page)
        .map(|l| format!("{l}\n"))
        .collect();
    exposition::parse(&lines).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The value of the only sample.
fn value<'a>(page: &'a BTreeMap<String, Family>, name: &str) -> &'a str {
    let [sample] = &page[name].samples[..] else {
        panic!("{name}: {:?}", page[name])
    };
    &sample.value
}

#[test]
fn a_publisher_and_a_subscriber_tell_what_they_counted() {
    let cluster = Cluster::new();
    let words = ["sub", "news", "--count", "3", "--until-idle", IDLE];
    let sub = cluster.start(&[&words[..], &["--stats", "prometheus", "--name", "s"]].concat());
    let words = ["pub", "news", "--stats", "json", "--name", "a \"b\""];
    let published = cluster.run(&words, b"1\n2\n3\n");
    assert_code(&published, 0);
    let counted = json(&published);
    assert_eq!(counted["name"], "a \"b\"");
    assert_eq!(counted["protocol"]["messages_published"], 3);
    assert!(counted["runtime"]["uptime_seconds"].as_f64() > Some(0.0));

    let received = sub.output();
    assert_code(&received, 0);
    let page = page(&received);
    assert_eq!(value(&page, "qsm_node_messages_delivered_total"), "3");
    let help = "Messages delivered to the application.";
    let delivered = &page["qsm_node_messages_delivered_total"];
    assert_eq!((&*delivered.help, &*delivered.kind), (help, "counter"));
    let label = ("node".to_owned(), "s".to_owned());
    assert!(delivered.samples[0].labels.contains(&label));
}

#[test]
fn an_engine_tells_of_itself_and_of_its_processes() {
    let cluster = Cluster::new();
    let path = text(&cluster.folder.join("engine"));
    let mut engine = cluster.start(&["engine", "--at", &path, "--stats", "json"]);
    let mut line = String::new();
    let stdout = engine.0.stdout.as_mut().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let words = ["pub", "x", "--attach", &path, "--stats", "prometheus"];
    let mut command = std::process::Command::new(support::QSM);
    command
        .args(words)
        .args(["--wait-members", "0"])
        .stdin(Stdio::null());
    let attached = command.output().unwrap();
    assert_code(&attached, 0);
    assert_eq!(value(&page(&attached), "qsm_client_published_total"), "0");
    engine.terminate();
    let ended = engine.output();
    assert_code(&ended, 0);
    let counted = json(&ended);
    assert_eq!(counted["share"]["attached"], 1);
    assert_eq!(counted["clients"], Value::Array(Vec::new()));
    assert!(counted["node"]["runtime"]["turns"].as_u64() > Some(0));
}

#[test]
fn a_service_tells_what_it_did() {
    let cluster = Cluster::without_service();
    let words = ["gms", "--stats", "prometheus", "--listen", "127.0.0.1:0"];
    let mut command = cluster.command(&words[..3]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut gms = Running(command.spawn().unwrap());
    let mut line = String::new();
    let stdout = gms.0.stdout.as_mut().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    assert!(line.contains("listening"), "{line}");
    gms.terminate();
    let ended = gms.output();
    assert_code(&ended, 0);
    assert_eq!(value(&page(&ended), "qsm_service_admitted_total"), "0");
}

/// The page of a running command, by the client that people use.
fn curl(url: &str) -> BTreeMap<String, Family> {
    let mut command = std::process::Command::new("curl");
    let options = [
        "--silent",
        "--show-error",
        "--fail",
        "--noproxy",
        "*",
        "--include",
    ];
    let output = command.args(options).arg(url).output().unwrap();
    let (text, said) = (String::from_utf8(output.stdout).unwrap(), output.stderr);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&said)
    );
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(
        head.contains("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    exposition::parse_open(body).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Where a command says that its metrics are.
fn url(lines: &Lines) -> String {
    let said = "qsm: metrics are at ";
    let line = lines.wait("metrics", |line| line.starts_with(said));
    line[said.len()..].to_owned()
}

#[test]
fn a_running_publisher_and_subscriber_are_asked_over_http() {
    let cluster = Cluster::new();
    let words = ["sub", "news", "--metrics", "0", "--name", "s"];
    let mut sub = cluster.start(&words);
    let (said, printed) = (Lines::of_stderr(&mut sub.0), Lines::of_stdout(&mut sub.0));
    let sub_url = url(&said);
    assert!(sub_url.starts_with("http://127.0.0.1:"), "{sub_url}");
    said.wait("subscribed", |line| line.contains("subscribed to"));
    assert_eq!(
        value(&curl(&sub_url), "qsm_node_messages_delivered_total"),
        "0"
    );

    let mut command = cluster.command(&["pub", "news", "--metrics", "127.0.0.1:0"]);
    let mut publisher = Running(command.stdin(Stdio::piped()).spawn().unwrap());
    let pub_url = url(&Lines::of_stderr(&mut publisher.0));
    let stdin = publisher.0.stdin.as_mut().unwrap();
    stdin.write_all(b"1\n2\n3\n").unwrap();
    printed.wait("3", |line| line == "3");
    assert_eq!(
        value(&curl(&pub_url), "qsm_node_messages_published_total"),
        "3"
    );
    let page = curl(&sub_url);
    assert_eq!(value(&page, "qsm_node_messages_delivered_total"), "3");
    let label = ("node".to_owned(), "s".to_owned());
    let delivered = &page["qsm_node_messages_delivered_total"];
    assert!(delivered.samples[0].labels.contains(&label));

    // Nobody who asks, or is about to, keeps a command from its end.
    let address = sub_url["http://".len()..].split('/').next().unwrap();
    let silent = TcpStream::connect(address).unwrap();
    sub.terminate();
    assert_code(&sub.output(), 0);
    drop((silent, publisher));
}

#[test]
fn a_running_service_engine_and_attached_process_are_asked_over_http() {
    let cluster = Cluster::without_service();
    let (mut gms, _) = cluster.start_gms(&["--metrics", "0"], Stdio::piped());
    let url_of_gms = url(&Lines::of_stderr(&mut gms.0));
    assert_eq!(value(&curl(&url_of_gms), "qsm_service_admitted_total"), "0");

    let path = text(&cluster.folder.join("engine"));
    let mut engine = cluster.start(&["engine", "--at", &path, "--metrics", "0", "--embedded-gms"]);
    let url_of_engine = url(&Lines::of_stderr(&mut engine.0));
    let shared = Lines::of_stdout(&mut engine.0);
    shared.wait("sharing", |line| line.starts_with("sharing at"));
    let mut command = support::qsm();
    command.args(["sub", "x", "--attach", &path, "--metrics", "0"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut attached = Running(command.spawn().unwrap());
    let said = Lines::of_stderr(&mut attached.0);
    let url_of_attached = url(&said);
    said.wait("subscribed", |line| line.contains("subscribed to"));
    let own = curl(&url_of_attached);
    let page = curl(&url_of_engine);
    assert_eq!(value(&page, "qsm_share_attached_total"), "1");
    assert!(page.contains_key("qsm_core_turns_total"));
    let name = "qsm_client_published_total";
    assert_eq!(page[name].samples, own[name].samples);
    engine.terminate();
    assert_code(&engine.output(), 0);
}

#[test]
fn an_address_that_another_has_is_an_error_with_a_remedy() {
    let cluster = Cluster::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = cluster.run(&["sub", "news", "--metrics", &port], b"");
    assert_code(&output, 1);
    let said = stderr(&output);
    assert!(said.contains(&format!("127.0.0.1:{port}: another program listens there")));
    assert!(said.contains("qsm: remedy: choose another port"), "{said}");
}

#[test]
fn the_ends_of_a_benchmark_are_asked_over_http() {
    let cluster = Cluster::new();
    let mut receiver = cluster.start(&["bench", "receive", "--metrics", "0"]);
    let receivers = url(&Lines::of_stderr(&mut receiver.0));
    let mut sender = cluster.start(&["bench", "send", "--duration", "60", "--metrics", "0"]);
    let senders = url(&Lines::of_stderr(&mut sender.0));
    assert_ne!(receivers, senders);
    let pages = [&receivers, &senders].map(|url| curl(url));
    for page in pages {
        assert!(page.contains_key("qsm_node_messages_published_total"));
    }
}

/// Where a command says that the metrics of all its processes are.
fn url_of_all(lines: &Lines) -> String {
    let said = "qsm: metrics of all processes are at ";
    let line = lines.wait("metrics", |line| line.starts_with(said));
    line[said.len()..].to_owned()
}

/// Nodes on a page: values of the label `node` of a counter that all nodes have.
fn nodes(page: &BTreeMap<String, Family>) -> usize {
    let family = page.get("qsm_node_messages_published_total");
    let samples = family.map_or(&[][..], |family| &family.samples);
    let nodes = samples.iter().flat_map(|sample| &sample.labels);
    let nodes = nodes.filter(|(name, _)| name == "node");
    nodes.collect::<BTreeSet<_>>().len()
}

#[test]
fn all_processes_of_a_benchmark_on_one_machine_are_asked_at_one_place() {
    let mut places = vec![&["--receivers", "2"][..]];
    if lab::ready() {
        places.push(&["--receivers", "2", "--lab"]);
    }
    for place in places {
        let mut bench = support::qsm();
        let words = ["bench", "throughput", "--duration", "60", "--metrics", "0"];
        bench.args([&words[..], place].concat());
        bench.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut bench = Running(bench.spawn().unwrap());
        let lines = Lines::of_stderr(&mut bench.0);
        let url = url_of_all(&lines);
        // Until the last of the three nodes is there.
        let mut page = curl(&url);
        while nodes(&page) < 3 {
            page = curl(&url);
        }
        assert!(page.contains_key("qsm_service_admitted_total"), "{place:?}");
        bench.terminate();
        assert_eq!(bench.0.wait().unwrap().code(), Some(1));
    }
}

#[test]
fn all_processes_of_the_demonstration_are_asked_at_one_place() {
    let mut demo = support::qsm();
    demo.args(["demo", "--quick", "--loopback", "--metrics", "0"]);
    demo.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut demo = Running(demo.spawn().unwrap());
    let lines = Lines::of_stderr(&mut demo.0);
    let url = url_of_all(&lines);
    let mut page = curl(&url);
    // Six receivers, and a sender at least.
    while nodes(&page) < 7 {
        page = curl(&url);
    }
    assert!(page.contains_key("qsm_service_admitted_total"));
    demo.terminate();
    assert_eq!(demo.0.wait().unwrap().code(), Some(1));
}

/// Reads a request with a body; answers that it is well.
#[cfg(feature = "otlp")]
fn take_request(listener: &TcpListener) -> Value {
    let (stream, _) = listener.accept().unwrap();
    let mut stream = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).unwrap() > 0, "no body");
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    std::io::Read::read_exact(&mut stream, &mut body).unwrap();
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    stream.get_mut().write_all(answer).unwrap();
    serde_json::from_slice(&body).unwrap()
}

#[cfg(feature = "otlp")]
#[test]
fn a_collector_gets_what_a_subscriber_counted_when_it_ends() {
    let cluster = Cluster::new();
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/metrics", collector.local_addr().unwrap());
    let words = [
        "sub",
        "news",
        "--count",
        "2",
        "--otlp-every",
        "3600",
        "--otlp",
        &url,
    ];
    let mut sub = cluster.start(&words);
    let said = Lines::of_stderr(&mut sub.0);
    said.wait("subscribed", |line| line.contains("subscribed to"));
    assert_code(&cluster.run(&["pub", "news"], b"1\n2\n"), 0);
    let body = take_request(&collector);
    assert_code(&sub.output(), 0);
    let metrics = &body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    let mut metrics = metrics.as_array().unwrap().iter();
    let delivered = metrics
        .find(|metric| metric["name"] == "qsm_node_messages_delivered")
        .unwrap();
    assert_eq!(
        delivered["sum"]["dataPoints"][0]["asInt"], "2",
        "{delivered}"
    );
    // An address that none can have, and a collector that is not there.
    let output = cluster.run(
        &["sub", "news", "--otlp", "https://localhost/v1/metrics"],
        b"",
    );
    assert_code(&output, 2);
    drop(collector);
    let sub = cluster.start(&["sub", "news", "--count", "1", "--otlp", &url]);
    assert_code(&cluster.run(&["pub", "news"], b"1\n"), 0);
    let told = stderr(&sub.output());
    assert!(told.contains("METRICS NOT SENT"), "{told}");
}
