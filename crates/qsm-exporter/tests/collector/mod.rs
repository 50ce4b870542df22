//! A collector of OpenTelemetry that is good, one that refuses, and one that is not there.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use qsm_exporter::{Pusher, PusherError};
use qsm_metrics::Histogram;
use qsm_metrics::otlp::{CONTENT_TYPE, Export, request};
use qsm_metrics::prometheus::Page;
use serde_json::Value;

/// More than a slow machine needs; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// No test waits for it.
const SELDOM: Duration = Duration::from_secs(3600);
const OFTEN: Duration = Duration::from_millis(1);

qsm_metrics::metrics! {
    /// All kinds.
    pub struct Counted of "test" {
        /// Messages.
        sent: counter(messages),
        /// Bytes in a queue.
        queue_bytes: gauge(bytes),
        /// Times.
        took: histogram(seconds),
    }
}

/// A request, as a collector gets it.
struct Request {
    head: String,
    body: String,
}

/// A collector that answers with these statuses, the last of them again and again; its address, and what it gets.
fn collector(statuses: &'static [&'static str]) -> (String, Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/metrics", listener.local_addr().unwrap());
    let (sender, requests) = channel();
    thread::spawn(move || {
        let mut statuses = statuses.iter();
        let mut last = "";
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            while let Some(request) = read(&mut stream) {
                last = statuses.next().unwrap_or(&last);
                let answer = format!("HTTP/1.1 {last}\r\nContent-Length: 4\r\n\r\nwell");
                // Whoever has ended hears nothing.
                drop(stream.get_mut().write_all(answer.as_bytes()));
                if sender.send(request).is_err() {
                    return;
                }
            }
        }
    });
    (url, requests)
}

fn read(stream: &mut impl BufRead) -> Option<Request> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&lower);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    let body = String::from_utf8(body).unwrap();
    Some(Request { head, body })
}

fn body() -> String {
    let mut took = Histogram::new();
    took.record(Duration::from_micros(3));
    took.record(Duration::from_millis(1));
    took.record(Duration::from_secs(100));
    let counted = Counted {
        sent: u64::MAX,
        queue_bytes: 7,
        took,
    };
    let mut page = Page::new();
    page.add(&counted, &[("node", "a \"b\"")]);
    let export = Export {
        service: "qsm",
        version: "1",
        start: Duration::from_secs(5),
        now: Duration::new(6, 7),
    };
    request(&page, &export)
}

fn pusher(
    url: &str,
    every: Duration,
) -> Result<(Pusher, Receiver<Result<(), String>>), PusherError> {
    let (tell, told) = channel();
    let pusher = Pusher::start(
        url,
        CONTENT_TYPE,
        every,
        || Ok(body()),
        move |result| drop(tell.send(result)),
    )?;
    Ok((pusher, told))
}

#[test]
fn a_collector_gets_all_kinds_of_metrics_also_at_the_end() {
    let (url, requests) = collector(&["200 OK"]);
    let (pusher, told) = pusher(&url, SELDOM).unwrap();
    // Not before its time, and once at its end.
    drop(pusher);
    assert_eq!(told.iter().collect::<Vec<_>>(), [Ok(())]);
    let request = requests.recv_timeout(PATIENCE).unwrap();
    assert!(
        request.head.starts_with("post /v1/metrics http/1.1\r\n"),
        "{}",
        request.head
    );
    assert!(
        request.head.contains("content-type: application/json"),
        "{}",
        request.head
    );
    let body: Value = serde_json::from_str(&request.body).unwrap();
    let resource = &body["resourceMetrics"][0];
    let service = &resource["resource"]["attributes"][0];
    assert_eq!(
        (&service["key"], &service["value"]["stringValue"]),
        (&"service.name".into(), &"qsm".into())
    );
    let metrics = resource["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let find = |name: &str| {
        metrics
            .iter()
            .find(|metric| metric["name"] == name)
            .unwrap()
    };
    let sent = find("qsm_test_sent");
    assert_eq!(
        (&sent["unit"], &sent["sum"]["isMonotonic"]),
        (&"{messages}".into(), &true.into())
    );
    assert_eq!(sent["sum"]["aggregationTemporality"], 2);
    let point = &sent["sum"]["dataPoints"][0];
    assert_eq!(point["asInt"], "18446744073709551615");
    assert_eq!(point["startTimeUnixNano"], "5000000000");
    assert_eq!(point["timeUnixNano"], "6000000007");
    assert_eq!(point["attributes"][0]["value"]["stringValue"], "a \"b\"");
    let queue = find("qsm_test_queue_bytes");
    assert_eq!(
        (&queue["unit"], &queue["gauge"]["dataPoints"][0]["asInt"]),
        (&"By".into(), &"7".into())
    );
    let took = &find("qsm_test_took_seconds")["histogram"]["dataPoints"][0];
    assert_eq!(took["count"], "3");
    let counts = took["bucketCounts"].as_array().unwrap();
    let bounds = took["explicitBounds"].as_array().unwrap();
    assert_eq!(counts.len(), bounds.len() + 1);
    assert_eq!(
        (&counts[0], counts.last().unwrap()),
        (&"1".into(), &"1".into())
    );
    assert!(took["sum"].as_f64() > Some(100.0), "{took}");
}

#[test]
fn a_collector_that_refuses_is_asked_again() {
    let (url, requests) = collector(&["503 Service Unavailable", "200 OK"]);
    let (_pusher, told) = pusher(&url, OFTEN).unwrap();
    let first = told.recv_timeout(PATIENCE).unwrap().unwrap_err();
    assert!(first.contains("503") && first.contains("well"), "{first}");
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), Ok(()));
    assert!(requests.recv_timeout(PATIENCE).is_ok());
}

#[test]
fn a_collector_that_is_not_there_is_told_of_and_one_that_cannot_be_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/metrics", listener.local_addr().unwrap());
    drop(listener);
    let (pusher, told) = pusher(&url, SELDOM).unwrap();
    drop(pusher);
    assert!(told.recv_timeout(PATIENCE).unwrap().is_err());
    for wrong in [
        "https://localhost:4318/v1/metrics",
        "localhost:4318",
        "",
        "http://",
    ] {
        let error = pusher_error(wrong);
        assert!(error.contains("; name one as http://"), "{error}");
    }
}

fn pusher_error(url: &str) -> String {
    match pusher(url, SELDOM) {
        Ok(_) => panic!("{url} is taken"),
        Err(error) => error.to_string(),
    }
}
