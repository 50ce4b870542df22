//! A member that is shut out, as processes: it has kept its keys and everything that was on the wire, and reads nothing
//! that was sent in the next epoch.

mod attack;
mod plant;
mod support;

use std::io::Write;
use std::net::SocketAddr;
use std::process::ChildStdin;
use std::time::{Duration, Instant};

use attack::{Insider, Listener, data_number};
use plant::Plant;
use qsm_wire::sealed_by;
use support::{Lines, Running, assert_code, qsm};

const PATIENCE: Duration = Duration::from_secs(60);
/// A word that every message has in it.
const SECRET: &[u8] = b"secret";
/// Data packets that it is to see and cannot read.
const UNREAD: usize = 50;

/// Writes message after message.
struct Writer {
    process: Running,
    input: Option<ChildStdin>,
    written: u64,
}

impl Writer {
    fn new(mut process: Running) -> Self {
        let input = process.0.stdin.take();
        let written = 0;
        Self {
            process,
            input,
            written,
        }
    }

    fn write(&mut self) {
        self.written += 1;
        let input = self.input.as_mut().unwrap();
        writeln!(input, "secret {}", self.written).unwrap();
    }

    fn finish(mut self) -> u64 {
        self.input = None;
        assert_code(&self.process.output(), 0);
        self.written
    }
}

fn contains(packet: &[u8], text: &[u8]) -> bool {
    packet.windows(text.len()).any(|window| window == text)
}

/// Two readers, what they say, and the addresses of the regions.
fn readers(plant: &Plant) -> (Vec<(Running, Lines)>, Vec<SocketAddr>) {
    let keys = ["one", "two"].map(|name| plant.member(name, &["--subscribe", "**"]));
    let started = keys.each_ref().map(|key| {
        let mut sub = plant.start(&["sub", "news"], key);
        let told = Lines::of_stderr(&mut sub.0);
        told.wait("that it is in", |line| line.contains("subscribed to"));
        let lines = Lines::of_stdout(&mut sub.0);
        (sub, lines)
    });
    let mut observer = plant.observer(&keys[0]);
    let deadline = Instant::now() + PATIENCE;
    let groups = loop {
        let regions = observer.list_regions().unwrap();
        let multicast = regions.iter().map(|region| region.address);
        let multicast: Vec<_> = multicast.filter(|at| at.ip().is_multicast()).collect();
        if regions.iter().any(|region| region.members.len() == 2) {
            break multicast;
        }
        assert!(Instant::now() < deadline, "{regions:?}");
    };
    (started.into(), groups)
}

#[test]
fn who_is_shut_out_reads_nothing_that_is_sent_in_the_next_epoch() {
    let mut plant = Plant::new();
    let events = plant.service_events();
    let (subs, groups) = readers(&plant);
    let key = plant.member("insider", &["--subscribe", "**"]);
    let mut insider = Insider::join(&plant, &key, &groups);
    let mut listener = Listener::new(&groups);
    let publisher = plant.member("publisher", &["--publish", "**"]);
    let words = ["pub", "news", "--wait-members", "2"];
    let mut writer = Writer::new(plant.start_writing(&words, &publisher));
    let deadline = Instant::now() + PATIENCE;

    // It is in, and reads.
    let mut keys = Vec::new();
    loop {
        writer.write();
        insider.listen();
        let heard = core::mem::take(&mut insider.listener.heard);
        let opened = heard.iter().filter_map(|packet| {
            let opened = insider.opens(packet, &[])?;
            keys.extend(sealed_by(packet));
            Some(opened)
        });
        if opened.filter(|packet| contains(packet, SECRET)).count() > 0 {
            break;
        }
        assert!(Instant::now() < deadline, "it reads nothing");
    }
    let revoke = ["token", "revoke", &plant.folder, "--node", &key];
    assert_code(&qsm().args(revoke).output().unwrap(), 0);
    events.wait("that it is shut out", |line| {
        line.contains("\"event\":\"expelled\"")
    });

    // From the first packet on that it cannot read, it reads none of this stream.
    let mut first_unread = None;
    let mut unread = 0;
    while unread < UNREAD || insider.shut_out.is_none() {
        writer.write();
        insider.listen();
        for packet in core::mem::take(&mut insider.listener.heard) {
            let Some((stream, number)) = data_number(&packet) else {
                continue;
            };
            let opened = insider.opens(&packet, &keys);
            match (&opened, &first_unread) {
                (Some(_), None) => keys.extend(sealed_by(&packet)),
                (None, None) => first_unread = Some((stream.clone(), number)),
                _ => {}
            }
            if let Some((of, first)) = &first_unread
                && *of == stream
                && *first <= number
            {
                assert!(opened.is_none(), "it reads packet {number}");
                unread += 1;
            }
        }
        assert!(Instant::now() < deadline, "{unread} packets");
    }
    let reason = insider.shut_out.unwrap();
    assert!(reason.contains("was revoked"), "{reason}");

    // Who has no key has read nothing at any time; who belongs has read everything.
    let written = writer.finish();
    listener.listen();
    let data = listener.heard.iter().filter(|it| data_number(it).is_some());
    assert!(data.count() > UNREAD);
    assert!(listener.heard.iter().all(|it| !contains(it, SECRET)));
    for (_sub, lines) in &subs {
        for number in 1..=written {
            let line = lines.wait("the next message", |_| true);
            assert_eq!(line, format!("secret {number}"));
        }
    }
}
