//! Membership services that DNS names, and several that are named.

mod support;

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use domain::base::iana::Rcode;
use domain::base::{Message, MessageBuilder, Name, Rtype};
use domain::rdata::{A, Srv};
use lab::{HostId, Lab};
use support::{Cluster, Lines, QSM, Running, stderr};

const PORT: u16 = 4480;
/// Nobody listens there.
const SILENT: u16 = 4479;
const SERVICE: &str = "_qsm._udp.example.org";
const SILENT_SERVICE: &str = "_silent._udp.example.org";

/// A DNS server on a host of the lab: the only one that a process asks there.
struct Dns {
    socket: UdpSocket,
    /// Where it says that the membership service is.
    gms: Arc<Mutex<Ipv4Addr>>,
    thread: Option<JoinHandle<()>>,
    /// The configuration that names it.
    configuration: PathBuf,
}

impl Dns {
    fn start(lab: &Lab, host: HostId, gms: Ipv4Addr) -> Self {
        let guard = lab.enter(host).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:53").unwrap();
        drop(guard);
        let own = socket.try_clone().unwrap();
        let gms = Arc::new(Mutex::new(gms));
        let place = Arc::clone(&gms);
        let thread = thread::spawn(move || {
            let mut buffer = [0; 512];
            // An empty datagram ends it.
            while let Ok((length @ 1.., from)) = own.recv_from(&mut buffer) {
                let query = Message::from_octets(buffer[..length].to_vec()).unwrap();
                // Who asked may be gone.
                drop(own.send_to(&answer(&query, *place.lock().unwrap()), from));
            }
        });
        static FILES: AtomicU32 = AtomicU32::new(0);
        let file = FILES.fetch_add(1, Ordering::Relaxed);
        let name = format!("qsm-resolv-{}-{file}.conf", std::process::id());
        let configuration = std::env::temp_dir().join(name);
        fs::write(&configuration, "nameserver 127.0.0.1\n").unwrap();
        Self {
            socket,
            gms,
            thread: Some(thread),
            configuration,
        }
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        let own = self.socket.local_addr();
        let ends = own.and_then(|own: SocketAddr| self.socket.send_to(&[], own));
        if let Some(thread) = self.thread.take().filter(|_| ends.is_ok()) {
            drop(thread.join());
        }
        drop(fs::remove_file(&self.configuration));
    }
}

/// The service is at the second host of two; the first does not listen. A host has one address.
fn answer(query: &Message<Vec<u8>>, gms: Ipv4Addr) -> Vec<u8> {
    let question = query.sole_question().unwrap();
    let (asked, kind) = (question.qname().to_string(), question.qtype());
    let name = |text: &str| Name::<Vec<u8>>::vec_from_str(text).unwrap();
    let service = |priority, port| Srv::new(priority, 1, port, name("gms.example.org"));
    let known = [SERVICE, SILENT_SERVICE, "gms.example.org"].contains(&asked.as_str());
    let code = if known {
        Rcode::NOERROR
    } else {
        Rcode::NXDOMAIN
    };
    let message = MessageBuilder::new_vec();
    let mut message = message.start_answer(query, code).unwrap();
    match (asked.as_str(), kind) {
        (SERVICE, Rtype::SRV) => {
            message
                .push((name(&asked), 60, service(1, SILENT)))
                .unwrap();
            message.push((name(&asked), 60, service(2, PORT))).unwrap();
        }
        (SILENT_SERVICE, Rtype::SRV) => {
            message
                .push((name(&asked), 60, service(1, SILENT)))
                .unwrap();
        }
        (_, Rtype::A) if known => {
            let [a, b, c, d] = gms.octets();
            let address = A::from_octets(a, b, c, d);
            message.push((name(&asked), 60, address)).unwrap();
        }
        _ => {}
    }
    message.finish()
}

/// `qsm` on a host that asks this server.
fn asking(lab: &Lab, host: HostId, dns: &Dns) -> Command {
    let mut command = lab.command(host, "unshare");
    let mount = "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"";
    command
        .args(["--mount", "sh", "-c", mount])
        .arg(&dns.configuration)
        .arg(QSM);
    command
}

/// Runs `qsm nodes` there.
fn list(lab: &Lab, host: HostId, dns: &Dns, service: &str) -> Output {
    let mut command = asking(lab, host, dns);
    command.args(["nodes", "--json", "--timeout", "3", "--service", service]);
    command.output().unwrap()
}

/// A membership service on a host, at the address that the host has, and what it says.
fn serve(lab: &Lab, host: HostId, more: &[&str]) -> (Running, Lines) {
    let listen = format!("{}:{PORT}", lab.host(host).address());
    let mut service = lab.command(host, QSM);
    service
        .args(["gms", "--json", "--listen", &listen])
        .args(more)
        .stdout(Stdio::piped());
    let mut service = Running(service.spawn().unwrap());
    let said = Lines::of_stdout(&mut service.0);
    said.wait("that it listens", |line| line.contains("address"));
    (service, said)
}

#[test]
fn a_service_is_found_by_its_name_in_dns_and_what_was_tried_is_said() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    let hosts = lab.add_hosts(2).unwrap();
    let gms = lab.host(hosts[0]).address();
    let _service = serve(&lab, hosts[0], &[]);
    let dns = Dns::start(&lab, hosts[1], gms);

    let output = list(&lab, hosts[1], &dns, SERVICE);
    assert!(output.status.success(), "{}", stderr(&output));

    let output = list(&lab, hosts[1], &dns, "_other._udp.example.org");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in [
        "cannot find the service _other._udp.example.org",
        "127.0.0.1:53 knows no such name",
        "dig SRV _other._udp.example.org",
    ] {
        assert!(said.contains(part), "{said}");
    }

    let output = list(&lab, hosts[1], &dns, SILENT_SERVICE);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    let tried = format!("answered at {SILENT_SERVICE} ({gms}:{SILENT})");
    assert!(said.contains(&tried), "{said}");
}

/// As where pods have another address each time that they start.
#[test]
fn without_multicast_a_service_is_followed_to_where_its_name_leads() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    let hosts = lab.add_hosts(3).unwrap();
    let unicast = ["--multicast", "none"];
    let address = |host: HostId| lab.host(host).address();
    let first = serve(&lab, hosts[0], &unicast);
    let dns = Dns::start(&lab, hosts[1], address(hosts[0]));

    let mut reader = asking(&lab, hosts[1], &dns);
    reader
        .args(["sub", "news", "--service", SERVICE])
        .args(unicast)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut reader = Running(reader.spawn().unwrap());
    let told = Lines::of_stderr(&mut reader.0);
    told.wait("that it is in", |line| line.contains("subscribed to"));

    drop(first);
    *dns.gms.lock().unwrap() = address(hosts[2]);
    let _second = serve(&lab, hosts[2], &unicast);
    let mut writer = lab.command(hosts[2], QSM);
    let at = format!("{}:{PORT}", address(hosts[2]));
    writer
        .args(["pub", "news", "--service", &at])
        .args(unicast)
        .stdin(Stdio::piped());
    let mut writer = writer.spawn().unwrap();
    writer.stdin.take().unwrap().write_all(b"moved\n").unwrap();
    // It waits for the reader, which has to have found the service first.
    assert!(writer.wait().unwrap().success());
    let read = Lines::of_stdout(&mut reader.0);
    read.wait("the message", |line| line.contains("moved"));
}

#[test]
fn of_several_places_the_first_that_answers_is_taken() {
    let mut cluster = Cluster::without_service();
    let (_gms, address) = cluster.start_gms(&[], Stdio::inherit());
    // Nobody listens at the port of a socket that is bound and not read.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let silent = socket.local_addr().unwrap().to_string();
    let lost = ["--service", "no-such-host.invalid:1"];
    // It comes last.
    cluster.use_service(&address);
    let words = [&["nodes", "--json", "--service", &silent], &lost[..]].concat();
    let output = cluster.run(&words, b"");
    assert!(output.status.success(), "{}", stderr(&output));
    cluster.use_service(&silent);
    let output = cluster.run(&[&["nodes", "--timeout", "0.3"], &lost[..]].concat(), b"");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    for part in [&silent, "no-such-host.invalid:1 (cannot find the host"] {
        assert!(said.contains(part), "{said}");
    }
}
