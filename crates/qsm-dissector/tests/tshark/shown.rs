//! Captures as tshark shows them with the dissector.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{self, Command};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::capture::{self, Datagram};

/// A field with a value of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) name: String,
    pub(crate) show: String,
    /// The bytes that it is read from, in hexadecimal digits.
    pub(crate) bytes: String,
}

/// A packet in a datagram.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown {
    pub(crate) title: String,
    /// Bytes of the packet.
    pub(crate) size: usize,
    pub(crate) leaves: Vec<Leaf>,
    /// Names of expert information.
    pub(crate) experts: Vec<String>,
}

impl Shown {
    /// The decoder's word on why it refuses the packet.
    pub(crate) fn refusal(&self) -> Option<&str> {
        let mut errors = self
            .experts
            .iter()
            .filter_map(|name| name.strip_prefix("error."));
        errors.rfind(|error| !["message", "rows", "answer"].contains(error))
    }

    pub(crate) fn values_of(&self, name: &str) -> Vec<&str> {
        let name = format!("qsm.{name}");
        let leaves = self.leaves.iter().filter(|leaf| leaf.name == name);
        leaves.map(|leaf| leaf.show.as_str()).collect()
    }
}

/// Tells a test that tshark is there; else the test is named as skipped and should return.
pub(crate) fn ready() -> bool {
    let found = Command::new("tshark").arg("--version").output();
    if found.is_ok_and(|output| output.status.success()) {
        return true;
    }
    lab::skip("tshark is missing: `make deps` installs it");
    false
}

/// The packets of each datagram, and its line. Fails if tshark or the dissector has an error.
pub(crate) fn show(datagrams: &[Datagram], options: &[&str]) -> Vec<Vec<Shown>> {
    let text = tshark(datagrams, &[&["-T", "pdml"], options].concat());
    let packets: Vec<Vec<Shown>> = text.split("<packet>").skip(1).map(packets_of).collect();
    assert_eq!(packets.len(), datagrams.len());
    packets
}

/// Runs tshark, and returns its output. Fails if it, or the dissector, has an error.
pub(crate) fn tshark(datagrams: &[Datagram], options: &[&str]) -> String {
    let folder = Folder::new();
    let file = folder.0.join("packets.pcap");
    capture::write(&file, datagrams);
    let script = folder.0.join("quicksilver.lua");
    fs::write(&script, qsm_dissector::dissector()).expect("there is room for the dissector");
    let output = Command::new("tshark")
        .arg("-r")
        .arg(&file)
        .arg("-X")
        .arg(format!("lua_script:{}", script.display()))
        .args(options)
        .env("HOME", &folder.0)
        .output()
        .expect("tshark runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for part in [&*errors, &text] {
        let faults = ["Lua Error", "Lua: ", "quicksilver.lua"];
        let is_fault = |line: &&str| faults.iter().any(|words| line.contains(words));
        let fault = part.lines().find(is_fault);
        assert!(fault.is_none(), "{}", fault.unwrap_or_default());
    }
    text
}

/// A folder of this test's own, removed when it ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static LAST: AtomicUsize = AtomicUsize::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let name = format!("qsm-dissector-{}-{number}", process::id());
        let path = env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a folder can be made");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn packets_of(text: &str) -> Vec<Shown> {
    let mut packets: Vec<Shown> = Vec::new();
    for line in text.lines() {
        let name = attribute(line, "name").unwrap_or_default();
        if name == "qsm" && line.contains("<proto") {
            let title = attribute(line, "showname").unwrap_or_default().to_owned();
            let size = attribute(line, "size").and_then(|size| size.parse().ok());
            packets.push(Shown {
                title,
                size: size.unwrap_or_default(),
                ..Shown::default()
            });
        } else if let (Some(name), Some(packet)) = (name.strip_prefix("qsm."), packets.last_mut()) {
            take(packet, name, line);
        }
    }
    packets
}

fn take(packet: &mut Shown, name: &str, line: &str) {
    let show = attribute(line, "show").unwrap_or_default();
    let bytes = attribute(line, "value").unwrap_or_default();
    let size = attribute(line, "size").unwrap_or_default();
    if name.starts_with("error.") || name == "cut" || name == "incomplete" {
        packet.experts.push(name.to_owned());
    } else if !(show.is_empty() && bytes.is_empty()) || size == "0" {
        packet.leaves.push(Leaf {
            name: format!("qsm.{name}"),
            show: show.to_owned(),
            bytes: bytes.to_owned(),
        });
    }
}

fn attribute<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!(" {name}=\""))?;
    rest.split('"').next()
}
