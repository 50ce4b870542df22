//! `qsm dash`: a cluster of processes on loopback, over HTTP and in the browser.

#[path = "../../qsm-dash/tests/support/chromium.rs"]
mod chromium;
mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use chromium::Chromium;
use serde_json::{Map, Value};
use support::{Cluster, Lines, Running, assert_code, stderr};

/// More than a slow machine needs.
const PATIENCE: Duration = Duration::from_secs(60);
/// A group that would break a page that takes names for HTML.
const HOSTILE: &str = "<img src=x onerror=\"document.title='broken'\">";

fn subscribed(cluster: &Cluster, name: &str, group: &str) -> Running {
    let mut sub = cluster.start(&["sub", group, "--name", name]);
    let said = Lines::of_stderr(&mut sub.0);
    said.wait("its groups", |line| line.starts_with("qsm: subscribed"));
    sub
}

/// A dashboard, and the line that it has written.
fn dash(cluster: &Cluster, options: &[&str]) -> (Running, String) {
    let mut words = vec!["dash", "--listen", "127.0.0.1:0", "--timeout", "2"];
    words.extend(options);
    let mut command = cluster.command(&words);
    command.stderr(Stdio::inherit());
    let mut dash = Running(command.spawn().unwrap());
    let line = Lines::of_stdout(&mut dash.0).wait("its address", |_| true);
    (dash, line)
}

/// Everything that a browser is told, put together.
struct Watch {
    stream: BufReader<TcpStream>,
    nodes: Map<String, Value>,
    groups: Map<String, Value>,
    here: Map<String, Value>,
}

impl Watch {
    fn new(address: &str, token: &str) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!("Host: {address}\r\nAuthorization: Bearer {token}\r\n\r\n");
        write!(stream, "GET /api/stream HTTP/1.1\r\n{head}").unwrap();
        Self {
            stream: BufReader::new(stream),
            nodes: Map::new(),
            groups: Map::new(),
            here: Map::new(),
        }
    }

    /// Takes the next event.
    fn take(&mut self) {
        let mut line = String::new();
        while !line.starts_with("data:") {
            line.clear();
            assert!(
                self.stream.read_line(&mut line).unwrap() > 0,
                "the stream has ended"
            );
        }
        let told: Value = serde_json::from_str(&line[5..]).unwrap();
        for (name, rows) in [
            ("nodes", &mut self.nodes),
            ("groups", &mut self.groups),
            ("here", &mut self.here),
        ] {
            let table = &told["tables"][name];
            for part in [&table["rows"], &table["set"]] {
                for (key, fields) in part.as_object().into_iter().flatten() {
                    let row = rows.entry(key).or_insert_with(|| Value::Object(Map::new()));
                    let fields = fields.as_object().unwrap().clone();
                    row.as_object_mut().unwrap().extend(fields);
                }
            }
            for key in table["gone"].as_array().into_iter().flatten() {
                rows.remove(key.as_str().unwrap());
            }
        }
    }

    /// Waits until what is known is so.
    fn wait(&mut self, what: &str, is: impl Fn(&Self) -> bool) {
        // A look takes a second, and a stopped node is set aside after some.
        for _ in 0..60 {
            if is(self) {
                return;
            }
            self.take();
        }
        panic!("{what} is not told: {:?} {:?}", self.nodes, self.groups);
    }
}

fn named<'a>(rows: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    rows.values().find(|row| row["name"] == name)
}

#[test]
fn nodes_groups_and_who_is_away_are_told_over_http() {
    let cluster = Cluster::new();
    let (_lamp, chair) = (
        subscribed(&cluster, "lamp", "news"),
        subscribed(&cluster, "chair", "news"),
    );
    let _hostile = subscribed(&cluster, "vase", HOSTILE);
    let file = cluster.folder.join("token");
    fs::write(&file, "a-token-of-this-test\n").unwrap();
    let (dash, line) = dash(&cluster, &["--access-token-file", file.to_str().unwrap()]);
    // A given token is not written.
    let address = line
        .strip_prefix("http://")
        .and_then(|line| line.strip_suffix('/'));
    let address = address.unwrap_or_else(|| panic!("{line}"));
    let mut watch = Watch::new(address, "a-token-of-this-test");
    watch.wait("the cluster", |told| {
        told.nodes.len() == 3 && told.groups.len() == 2
    });
    assert!(
        named(&watch.groups, HOSTILE).is_some(),
        "{:?}",
        watch.groups
    );
    watch.wait("this host", |told| named(&told.here, "lamp").is_some());
    chair.signal("-STOP");
    watch.wait("who is away", |told| {
        named(&told.nodes, "chair").is_some_and(|row| row["trouble"] == "away: silent")
    });
    chair.signal("-CONT");
    watch.wait("who is back", |told| {
        named(&told.nodes, "chair").is_some_and(|row| row["health"] == "good")
    });
    let mut explain = TcpStream::connect(address).unwrap();
    let head = "Authorization: Bearer a-token-of-this-test\r\nConnection: close\r\n\r\n";
    let path = "/api/explain?kind=group&name=news";
    write!(explain, "GET {path} HTTP/1.1\r\nHost: {address}\r\n{head}").unwrap();
    let mut text = String::new();
    explain.read_to_string(&mut text).unwrap();
    let (_, body) = text.split_once("\r\n\r\n").unwrap();
    let told: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{text}"));
    let sections = told["sections"].to_string();
    assert!(
        sections.contains("It receives the group.") && sections.contains("lamp"),
        "{sections}"
    );
    assert_eq!(told["regions"].as_array().map(Vec::len), Some(1));
    dash.terminate();
    assert_code(&dash.output(), 0);
}

#[test]
fn the_page_shows_the_cluster_and_explains_on_click() {
    let Some(mut browser) = Chromium::open(1280, 900) else {
        lab::pass_over("there is no Chromium; `make dash-check` installs it");
        return;
    };
    let cluster = Cluster::new();
    let (_lamp, chair) = (
        subscribed(&cluster, "lamp", "news"),
        subscribed(&cluster, "chair", "news"),
    );
    let _hostile = subscribed(&cluster, "vase", HOSTILE);
    let (_dash, line) = dash(&cluster, &[]);
    assert!(line.contains("/#token="), "{line}");
    browser.go(&line);
    browser.wait("document.querySelectorAll('#picture .node').length === 3");
    browser.wait("document.querySelector('#problems').textContent === 'Nothing is wrong.'");
    // The token is out of the address.
    assert_eq!(browser.value("location.hash"), "");
    browser.press("2");
    let group = |name: &str| {
        let name = Value::from(name);
        format!(
            "[...document.querySelectorAll('#panel-groups .grid-line')].find(it => it.firstChild.textContent === {name})"
        )
    };
    browser.wait(&group(HOSTILE));
    browser.value(&format!("{}.click()", group("news")));
    browser.wait(
        "document.querySelector('#panel .answer')?.textContent.includes('It receives the group.')",
    );
    browser.value(&format!("{}.click()", group(HOSTILE)));
    browser.wait(
        "document.querySelector('#panel .answer')?.textContent.includes('as node vase sees it')",
    );
    assert_eq!(browser.value("document.images.length"), 0);
    assert_eq!(browser.value("document.title"), "Quicksilver");
    let node =
        "[...document.querySelectorAll('#picture .node')].find(it => it.textContent === 'lamp')";
    browser.value(&format!(
        "{node}.dispatchEvent(new MouseEvent('click', {{ bubbles: true }}))"
    ));
    browser.wait(
        "document.querySelector('#panel .answer')?.textContent.includes('Nothing holds it back.')",
    );
    chair.signal("-STOP");
    browser.wait("document.querySelector('#problems').textContent.includes('node chair')");
    browser.wait("document.querySelectorAll('#picture .node.bad').length === 1");
    browser.wait("document.querySelector('#tab-events .number-of').textContent !== '0'");
    assert_eq!(browser.errors, [""; 0]);
}

#[test]
fn tokens_that_are_short_or_missing_are_a_mistake_of_the_command_line() {
    let cluster = Cluster::without_service();
    assert_code(&cluster.run(&["dash", "--access-token", "short"], b""), 2);
    let file = cluster.folder.join("token");
    fs::write(&file, "short\n").unwrap();
    let output = cluster.run(
        &["dash", "--access-token-file", file.to_str().unwrap()],
        b"",
    );
    assert_code(&output, 2);
    assert!(
        stderr(&output).contains("at least 16 characters"),
        "{}",
        stderr(&output)
    );
    let output = cluster.run(&["dash", "--access-token-file", "/no/such/file"], b"");
    assert_code(&output, 1);
}

#[test]
fn a_page_without_a_service_says_so_and_still_shows_this_host() {
    let mut cluster = Cluster::without_service();
    cluster.use_service("127.0.0.1:9");
    let (_dash, line) = dash(&cluster, &["--access-token", "a-token-of-this-test"]);
    let address = line.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "GET /api/stream HTTP/1.1\r\nHost: {address}\r\n\r\n"
    )
    .unwrap();
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    let mut told =
        lines.filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data:")?).ok());
    let absent = told.find_map(|told| told["absent"].as_str().map(str::to_owned));
    let absent = absent.unwrap_or_default();
    assert!(
        absent.starts_with("no membership service answered"),
        "{absent}"
    );
}
