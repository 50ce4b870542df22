//! `qsm top`: what it writes, and its screen in a terminal.

mod support;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;
use support::{Cluster, Lines, Running, assert_code, stderr};

/// More than a slow machine needs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A receiver of a group that is known to the service.
fn subscribed(cluster: &Cluster) -> Running {
    let mut sub = cluster.start(&["sub", "news", "--name", "lamp"]);
    let said = Lines::of_stderr(&mut sub.0);
    said.wait("its groups", |line| line.starts_with("qsm: subscribed"));
    sub
}

fn rows(cluster: &Cluster, view: &str) -> Vec<Value> {
    let words = [
        "top",
        "--json",
        "--count",
        "1",
        "--interval",
        "0.2",
        "--view",
        view,
    ];
    let output = cluster.run(&words, b"");
    assert_code(&output, 0);
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(line["view"], view);
    assert!(
        line["time"].as_f64().is_some_and(|time| time > 1e9),
        "{line}"
    );
    line["rows"].as_array().unwrap().clone()
}

#[test]
fn each_view_is_written_for_programs_and_people() {
    let cluster = Cluster::new();
    let sub = subscribed(&cluster);
    let nodes = rows(&cluster, "nodes");
    assert_eq!((nodes.len(), &nodes[0]["name"]), (1, &Value::from("lamp")));
    let groups = rows(&cluster, "groups");
    assert_eq!(groups[0]["name"], "news");
    let regions = rows(&cluster, "regions");
    assert_eq!(regions[0]["members"][0]["name"], "lamp");
    // Other tests have nodes on this host, too.
    let here = rows(&cluster, "here");
    let mine = here.iter().find(|row| row["pid"] == sub.0.id());
    assert_eq!(mine.map(|row| &row["name"]), Some(&Value::from("lamp")));

    let output = cluster.run(&["top", "--batch", "--count", "1"], b"");
    assert_code(&output, 0);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("1 node; "), "{text}");
    let lamp = text.lines().find(|line| line.starts_with("lamp  live"));
    assert!(lamp.is_some(), "{text}");
}

#[test]
fn without_a_service_it_says_so_and_still_shows_this_host() {
    let mut cluster = Cluster::without_service();
    let words = ["top", "--batch", "--count", "1", "--timeout", "0.2"];
    let output = cluster.run(&words, b"");
    assert_code(&output, 3);
    let said = stderr(&output);
    assert!(said.contains("no membership service answered"), "{said}");
    cluster.use_service("127.0.0.1:9");
    let words = ["top", "--batch", "--count", "1", "--view", "here"];
    assert_code(&cluster.run(&words, b""), 0);
    assert_code(&cluster.run(&["top", "--interval", "0.1"], b""), 2);
}

/// A terminal with a program in it.
struct Terminal {
    keys: File,
    written: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    fn start(mut command: Command) -> (Self, Running) {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let name = ptsname(&keys, Vec::new()).unwrap();
        let size = Winsize {
            ws_row: 24,
            ws_col: 120,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&keys, size).unwrap();
        let open = OFlags::RDWR | OFlags::NOCTTY;
        let end: OwnedFd = rustix::fs::open(name.as_c_str(), open, Mode::empty()).unwrap();
        command.env("TERM", "xterm-256color");
        command.stdin(end.try_clone().unwrap()).stdout(end);
        let program = Running(command.spawn().unwrap());
        let keys = File::from(keys);
        let (send, written) = channel();
        let mut screen = keys.try_clone().unwrap();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // It fails once no program holds the other end.
            while let Ok(length @ 1..) = screen.read(&mut bytes) {
                if send.send(bytes[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        let seen = String::new();
        (
            Self {
                keys,
                written,
                seen,
            },
            program,
        )
    }

    fn press(&mut self, keys: &str) {
        self.seen.clear();
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until this has been written since the last key.
    fn wait(&mut self, what: &str) {
        while !self.seen.contains(what) {
            let bytes = self.written.recv_timeout(PATIENCE);
            let bytes = bytes.unwrap_or_else(|_| panic!("no {what:?} in {:?}", self.seen));
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
    }
}

#[test]
fn the_screen_shows_the_cluster_takes_keys_and_leaves_the_terminal_as_it_was() {
    let cluster = Cluster::new();
    let _sub = subscribed(&cluster);
    let mut command = cluster.command(&["top", "--interval", "0.2"]);
    command.stderr(Stdio::null());
    let (mut terminal, mut top) = Terminal::start(command);
    terminal.wait("\u{1b}[?1049h");
    terminal.wait("lamp");
    terminal.press("2");
    terminal.wait("PACKETS/MESSAGE");
    terminal.wait("news");
    terminal.press("h");
    terminal.wait("Keys");
    terminal.press("xq");
    terminal.wait("\u{1b}[?1049l");
    assert_eq!(top.0.wait().unwrap().code(), Some(0));
}

#[test]
fn a_signal_ends_the_screen_as_a_key_does() {
    let cluster = Cluster::new();
    let mut command = cluster.command(&["top"]);
    command.stderr(Stdio::null());
    let (mut terminal, mut top) = Terminal::start(command);
    terminal.wait("\u{1b}[?1049h");
    top.terminate();
    terminal.wait("\u{1b}[?1049l");
    assert_eq!(top.0.wait().unwrap().code(), Some(0));
}
