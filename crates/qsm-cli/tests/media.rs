//! Nodes on interfaces where multicast is not the default: a tunnel, and what sysfs calls wireless.

mod support;

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use lab::{HostId, Lab};
use serde_json::Value;
use support::{Lines, QSM, Running, piped, stderr};

const TUNNEL: &str = "tun0";
const ADDRESS: &str = "10.9.0.1";
const SERVICE: &str = "10.9.0.1:4480";

/// A host with a tunnel whose other end nobody holds: what goes to its own address stays here.
struct Stage {
    lab: Lab,
    host: HostId,
}

impl Stage {
    /// `None` where there can be no lab.
    fn new() -> Option<Self> {
        if !lab::ready() {
            return None;
        }
        let mut lab = Lab::new().unwrap();
        let host = lab.add_host().unwrap();
        let stage = Self { lab, host };
        stage.ip("tuntap add dev tun0 mode tun");
        stage.ip("address add 10.9.0.1/24 dev tun0");
        stage.ip("link set tun0 up");
        Some(stage)
    }

    fn ip(&self, words: &str) -> String {
        let mut command = self.lab.command(self.host, "ip");
        let output = command.args(words.split(' ')).output().unwrap();
        assert!(output.status.success(), "{words}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn qsm(&self, words: &[&str]) -> Command {
        piped(self.lab.command(self.host, QSM), words)
    }

    fn start(&self, words: &[&str]) -> Running {
        Running(self.qsm(words).spawn().unwrap())
    }

    /// The service, and what it says: a service whose output is closed ends.
    fn start_service(&self) -> (Running, Lines) {
        let mut gms = self.start(&["gms", "--json", "--listen", SERVICE]);
        let said = Lines::of_stdout(&mut gms.0);
        said.wait("that it listens", |line| line.contains("address"));
        (gms, said)
    }

    /// Two receivers of a group, once both are in its region, and what they have said until then.
    fn start_receivers(&self, options: &[&str]) -> [(Running, Lines); 2] {
        ["one", "two"].map(|name| {
            let words = ["sub", "news", "--name", name, "--service", SERVICE];
            let mut sub = self.start(&[&words, options].concat());
            let said = Lines::of_stderr(&mut sub.0);
            (sub, said)
        })
    }

    /// Publishes a hundred lines to both, and checks that they come.
    fn publish(&self, options: &[&str], receivers: &mut [(Running, Lines); 2]) -> String {
        let words = ["pub", "news", "--wait-members", "2", "--service", SERVICE];
        let mut publisher = self.start(&[&words, options].concat());
        let numbers: String = (1..=100).map(|number| format!("{number}\n")).collect();
        let mut stdin = publisher.0.stdin.take().unwrap();
        stdin.write_all(numbers.as_bytes()).unwrap();
        drop(stdin);
        let output = publisher.output();
        assert!(output.status.success(), "{}", stderr(&output));
        for (receiver, _) in receivers {
            let lines = Lines::of_stdout(&mut receiver.0);
            let got: Vec<String> = lines.iter().take(100).collect();
            assert_eq!(got.concat(), numbers.replace('\n', ""));
        }
        stderr(&output)
    }

    /// Words of each receiver on how it would reach the other.
    fn explain(&self) -> String {
        let output = self.qsm(&["explain", "news"]).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
fn nodes_on_a_tunnel_go_by_unicast_and_say_so() {
    let Some(stage) = Stage::new() else { return };
    let _gms = stage.start_service();
    let on = ["--interface", TUNNEL];
    let mut receivers = stage.start_receivers(&on);
    for (_, said) in &receivers {
        let line = said.wait("that it goes by unicast", |line| line.contains("tunnel"));
        assert!(line.contains("tun0 is a tunnel: messages go to each receiver by unicast"));
    }
    let said = stage.publish(&on, &mut receivers);
    assert!(said.contains("tun0 is a tunnel"), "{said}");
    let words = stage.explain();
    for part in [
        "tun0 is a tunnel, where nodes do not multicast unless they are told to (--multicast asm)",
        "by copies: this node does not multicast",
    ] {
        assert!(words.contains(part), "{words}");
    }
}

#[test]
fn a_tunnel_is_multicast_on_where_that_is_asked_for() {
    let Some(stage) = Stage::new() else { return };
    let _gms = stage.start_service();
    let on = ["--interface", TUNNEL, "--multicast", "asm"];
    let mut receivers = stage.start_receivers(&on);
    let said = stage.publish(&on, &mut receivers);
    assert!(!said.contains("is a tunnel"), "{said}");
    let words = stage.explain();
    assert!(!words.contains("does not multicast"), "{words}");
}

#[test]
fn a_tunnel_without_multicast_needs_the_place_of_the_service() {
    let Some(stage) = Stage::new() else { return };
    stage.ip("link set tun0 multicast off");
    let _gms = stage.start_service();
    let on = ["--interface", ADDRESS];
    let mut receivers = stage.start_receivers(&on);
    stage.publish(&on, &mut receivers);
    let words = ["sub", "news", "--interface", TUNNEL];
    let output = stage.qsm(&words).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("cannot look for a membership service"),
        "{said}"
    );
}

#[test]
fn the_doctor_and_a_node_name_what_sysfs_calls_wireless() {
    let Some(stage) = Stage::new() else { return };
    let shown = stage.ip("-o link show eth0");
    let index = shown.split(':').next().unwrap();
    let sysfs = Sysfs::new(index);
    let mut command = stage.lab.command(stage.host, "unshare");
    let mount = "mount --bind \"$0\" /sys/class/net && exec \"$@\"";
    command
        .args(["--mount", "sh", "-c", mount])
        .arg(&sysfs.folder);
    command
        .args([QSM, "sub", "news", "--interface", "eth0"])
        .stderr(Stdio::piped());
    let mut sub = Running(command.spawn().unwrap());
    let said = Lines::of_stderr(&mut sub.0);
    said.wait("that it is wireless", |line| {
        line.contains("eth0 is wireless: messages go to each receiver by unicast")
    });
    // It looks for others all the same.
    said.wait("that it looked for a service", |line| line.contains("239."));
    let output = stage
        .qsm(&["doctor", "--json", "--interface", TUNNEL])
        .output();
    let report: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    let report = report.to_string();
    assert!(
        report.contains("nodes go by unicast there unless --multicast asm"),
        "{report}"
    );
}

/// A tree that calls `eth0` wireless.
struct Sysfs {
    folder: PathBuf,
}

impl Sysfs {
    fn new(index: &str) -> Self {
        let name = format!("qsm-wireless-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(folder.join("eth0/phy80211")).unwrap();
        fs::write(folder.join("eth0/ifindex"), index).unwrap();
        Self { folder }
    }
}

impl Drop for Sysfs {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.folder));
    }
}
