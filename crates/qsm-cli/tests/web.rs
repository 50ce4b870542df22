//! `qsm open --web`: live objects and messages in the browser, over HTTP.

#[path = "../../qsm-dash/tests/support/chromium.rs"]
mod chromium;
#[path = "../../qsm-dash/tests/support/client.rs"]
mod client;
mod support;

use std::collections::BTreeMap;
use std::io::BufReader;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use chromium::Chromium;
use client::{Request, TOKEN, event};
use qsm_replica::{
    Limits, LiveLog, LiveMap, LiveText, LogBounds, LogState, Replica, TextBounds, TextState, Uri,
};
use serde_json::{Value, json};
use support::{Cluster, Lines, Running, assert_code, stderr};

const PATIENCE: Duration = Duration::from_secs(60);
/// A key that would break a page that takes it for HTML.
const HOSTILE: &str = "<img src=x onerror=\"document.title='broken'\">";

/// The address of a group of this cluster.
fn address(cluster: &Cluster, group: &str, kind: &str) -> String {
    let [name, discovery, port] =
        ["--cluster", "--discovery", "--data-port"].map(|option| cluster.option(option));
    format!("qsm://{name}/{group}?type={kind}&interface=lo&discovery={discovery}&data-port={port}")
}

/// A page, and the address that it says.
fn open(cluster: &Cluster, address: &str, options: &[&str]) -> (Running, String) {
    let words = [&["open", address, "--web"][..], options].concat();
    let mut page = cluster.start(&words);
    let url = Lines::of_stdout(&mut page.0).wait("its address", |line| line.starts_with("http"));
    (page, url)
}

/// State that a browser would hold.
struct Watch {
    stream: BufReader<TcpStream>,
    whole: Value,
    rows: BTreeMap<String, Value>,
    text: String,
}

impl Watch {
    /// Opens an address with its token, or the one of this test.
    fn new(url: &str) -> Self {
        let (place, token) = url.split_once("#token=").unwrap_or((url, TOKEN));
        let place = place.trim_start_matches("http://").trim_end_matches('/');
        let place: SocketAddr = place.parse().unwrap();
        let request = Request {
            token: Some(token),
            ..Request::of("/api/stream")
        };
        let mut stream = request.send(place);
        let (kind, whole) = event(&mut stream);
        assert_eq!(kind, "whole");
        let (rows, text) = (BTreeMap::new(), String::new());
        Self {
            stream,
            whole,
            rows,
            text,
        }
    }

    /// Takes what is told until it is so.
    #[track_caller]
    fn wait(&mut self, is: impl Fn(&Self) -> bool) {
        while !is(self) {
            let (kind, told) = event(&mut self.stream);
            assert_eq!(kind, "change");
            for row in told["rows"]["set"].as_array().into_iter().flatten() {
                let key = row["key"].as_str().map(str::to_owned);
                let key = key.unwrap_or_else(|| row["at"].to_string());
                self.rows.insert(key, row.clone());
            }
            for key in told["rows"]["removed"].as_array().into_iter().flatten() {
                self.rows.remove(key.as_str().unwrap());
            }
            if let Some(insert) = told["text"]["insert"].as_str() {
                let [before, after] = ["before", "after"].map(|part| {
                    let units = told["text"][part].as_u64().unwrap();
                    usize::try_from(units).unwrap()
                });
                // The texts of these tests are ASCII.
                let end = self.text.len() - after;
                self.text.replace_range(before..end, insert);
            }
        }
    }

    fn shows(&self, key: &str, text: &str) -> bool {
        self.rows.get(key).is_some_and(|row| row["text"] == text)
    }
}

#[test]
fn a_map_is_seen_in_the_browser_as_it_changes() {
    let cluster = Cluster::new();
    let uri = address(&cluster, "prices", "map");
    let map = LiveMap::bind(&uri).unwrap();
    map.set("eur", b"1.08").unwrap();
    map.set(HOSTILE, b"\xff").unwrap();
    let (page, url) = open(&cluster, &uri, &[]);
    let mut watch = Watch::new(&url);
    assert_eq!(
        (&watch.whole["object"], &watch.whole["group"]),
        (&json!("map"), &json!("prices"))
    );
    watch.wait(|it| it.shows("eur", "1.08") && it.shows(HOSTILE, "ff"));
    let stamp = map.read(|map| map.stamp("eur")).unwrap();
    assert_eq!(watch.rows["eur"]["time"], stamp.time);
    map.set("eur", b"1.09").unwrap();
    watch.wait(|it| it.shows("eur", "1.09"));
    map.remove("eur").unwrap();
    watch.wait(|it| !it.rows.contains_key("eur"));
    // Another browser gets the map as it is now.
    let mut other = Watch::new(&url);
    other.wait(|it| it.shows(HOSTILE, "ff"));
    assert_eq!(other.rows.len(), 1);
    page.terminate();
    assert_code(&page.output(), 0);
}

#[test]
fn a_log_and_a_text_are_seen_in_the_browser_as_they_are_written() {
    let cluster = Cluster::new();
    let events: Uri = address(&cluster, "events", "log").parse().unwrap();
    let node = events.node().name("writer").start().unwrap();
    let limits = Limits::default;
    let log = LogState::new(LogBounds::default());
    let log: LiveLog = Replica::join(&node, "events", log, limits()).unwrap();
    let text = TextState::new(TextBounds::default());
    let text: LiveText = Replica::join(&node, "minutes", text, limits()).unwrap();
    log.wait_live(PATIENCE).unwrap();
    text.wait_live(PATIENCE).unwrap();
    log.append(b"opened").unwrap();
    text.insert(0, "Present:").unwrap();
    let (_log_page, url) = open(&cluster, &address(&cluster, "events", "log"), &[]);
    let mut lines = Watch::new(&url);
    lines.wait(|it| it.shows("1", "opened"));
    log.append(b"closed").unwrap();
    lines.wait(|it| it.shows("2", "closed"));
    assert!(lines.rows["1"]["time"].as_u64() < lines.rows["2"]["time"].as_u64());
    let (_text_page, url) = open(&cluster, &address(&cluster, "minutes", "text"), &[]);
    let mut written = Watch::new(&url);
    written.wait(|it| it.text == "Present:");
    text.insert(8, " all").unwrap();
    written.wait(|it| it.text == "Present: all");
    text.remove(0, 9).unwrap();
    written.wait(|it| it.text == "all");
}

#[test]
fn messages_of_a_group_are_seen_with_their_sender_and_decoded() {
    let cluster = Cluster::new();
    let schema = cluster.file(
        "schema",
        b"type Quote = 17 v2 { symbol: string, bid: f64 }\n",
    );
    let token = cluster.file("token", TOKEN.as_bytes());
    let uri = address(&cluster, "quotes", "messages");
    let options = ["--decode", &schema, "--access-token-file", &token];
    let (page, url) = open(&cluster, &uri, &[&options[..], &["--count", "2"]].concat());
    // A token that was given is not written.
    assert!(!url.contains('#'), "{url}");
    let mut watch = Watch::new(&url);
    let quote = [&b"\x11\x02\x03EUR"[..], &1.5f64.to_le_bytes()].concat();
    let sent = [&quote[..], b"hello"].map(|message| {
        let length = u32::try_from(message.len()).unwrap();
        [&length.to_le_bytes(), message].concat()
    });
    let words = ["pub", "quotes", "--frames", "--wait-members", "1"];
    assert_code(&cluster.run(&words, &sent[0]), 0);
    watch.wait(|it| it.rows.len() == 1);
    let row = &watch.rows["1"];
    let object = row["text"].as_str().unwrap();
    let object: Value = serde_json::from_str(object).unwrap();
    assert_eq!(object, json!({ "symbol": "EUR", "bid": 1.5 }));
    assert_eq!(
        (&row["form"], &row["remark"], &row["number"], &row["size"]),
        (&json!("object"), &json!("Quote v2"), &json!(1), &json!(14))
    );
    assert!(row["sender"].is_string());
    assert_code(&cluster.run(&words, &sent[1]), 0);
    // It ends after two messages, and tells the last one or is gone before.
    assert_code(&page.output(), 0);
}

#[test]
fn pages_that_cannot_be_served_are_refused_with_the_remedy() {
    let cluster = Cluster::new();
    let uri = address(&cluster, "prices", "map");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let log: LiveLog = LiveLog::bind(&address(&cluster, "events", "log")).unwrap();
    log.append(b"opened").unwrap();
    let as_map = address(&cluster, "events", "map");
    for (uri, options, code, said) in [
        (&uri, &["--web", &port][..], 1, "listen at 127.0.0.1:"),
        (&uri, &["--web", "0.0.0.0:0"], 2, "--access-token-file"),
        (&uri, &["--web", "--json"], 2, "cannot be used with"),
        (&uri, &["--access-token", TOKEN], 2, "add --web"),
        (
            &uri,
            &["--web", "--access-token", "short"],
            2,
            "16 characters",
        ),
        (&as_map, &["--web"], 1, "remedy: "),
    ] {
        let refused = cluster.run(&[&["open", uri.as_str()][..], options].concat(), b"");
        let told = stderr(&refused);
        assert!(told.contains(said), "{options:?}: {told}");
        assert_code(&refused, code);
        assert_eq!(refused.stdout, b"", "{options:?}");
    }
}

#[test]
fn nothing_is_served_where_there_is_no_cluster() {
    let cluster = Cluster::without_service();
    let uri = address(&cluster, "prices", "map");
    let refused = cluster.run(&["open", &uri, "--web", "--no-embedded-gms"], b"");
    let told = stderr(&refused);
    assert!(
        told.contains("is a membership service running and reachable"),
        "{told}"
    );
    assert_eq!(
        (refused.stdout, refused.status.code()),
        (Vec::new(), Some(1))
    );
}

#[test]
fn the_page_shows_a_map_and_marks_what_changes() {
    let Some(mut browser) = Chromium::open(1280, 900) else {
        lab::pass_over("there is no Chromium; `make dash-check` installs it");
        return;
    };
    let cluster = Cluster::new();
    let uri = address(&cluster, "prices", "map");
    let map = LiveMap::bind(&uri).unwrap();
    map.set("eur", b"1.08").unwrap();
    map.set(HOSTILE, b"\xff").unwrap();
    let (_page, url) = open(&cluster, &uri, &[]);
    browser.go(&url);
    let lines = "[...document.querySelectorAll('.grid-line:not([hidden])')]";
    browser.wait(&format!("{lines}.length === 2"));
    let key = Value::from(HOSTILE);
    browser.wait(&format!(
        "{lines}[0].firstChild.textContent === {key} && {lines}[0].children[1].textContent === 'ff'"
    ));
    map.set("eur", b"1.09").unwrap();
    browser.wait(&format!(
        "{lines}[1].children[1].textContent === '1.09' && {lines}[1].classList.contains('fresh')"
    ));
    browser.wait(&format!("!{lines}[1].classList.contains('fresh')"));
    browser.press("/");
    browser.call("Input.insertText", json!({ "text": "eu" }));
    browser.wait(&format!("{lines}.length === 1"));
    assert_eq!(browser.value("document.images.length"), 0);
    assert_eq!(browser.value("document.title"), "prices");
    assert_eq!(browser.errors, [""; 0]);
}
