//! Messages of 4 KB from one relay to a hundred receivers by unicast, and the CPU time that it takes the
//! relay; beside a NATS server that is a leaf of another one.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lab::{HostId, Lab, Output, Process};

use super::Programs;
use super::repair::whole;
use super::stage::Stage;
use super::stream::Load;
use crate::cluster::Failure;
use crate::figure::{Bar, Finding};

/// Receivers of each relay, of which there are two: 64 is a relay's limit.
const CHILDREN: usize = 50;
/// Ports of the relays on their host.
const PORTS: [u16; 2] = [4491, 4492];
/// Times that NATS' CPU time for a message is to be ours, at least.
const TIMES_MIN: f64 = 10.0;
/// Ports of NATS: of the server, of its leaf, and of the link between them.
const NATS_PORTS: [u16; 3] = [4222, 4223, 7422];
/// Longest wait for a server, and for what it has not delivered.
const PATIENCE: Duration = Duration::from_secs(20);

/// A stream to a hundred receivers on another host.
#[derive(Debug, Clone, Copy)]
pub struct Fanout {
    /// The stream.
    pub load: Load,
}

impl Fanout {
    /// Its name in tables.
    #[must_use]
    pub fn name(&self) -> String {
        let (bytes, rate) = (self.load.bytes, self.load.rate);
        format!("{rate} messages/s of {bytes} bytes to 100 receivers")
    }

    /// Runs it once, ours and then NATS.
    ///
    /// # Errors
    /// A process fails.
    pub fn run(&self, programs: &Programs) -> Result<Vec<Finding>, Failure> {
        let (mut found, ours) = self.run_ours(&programs.qsm)?;
        found.push(Finding::new(
            "relays, µs of CPU a delivery",
            ours,
            Bar::Told,
        ));
        let theirs = self.run_nats(&programs.nats)?;
        found.push(Finding::new(
            "NATS leaf, µs of CPU a delivery",
            theirs,
            Bar::Told,
        ));
        let what = "NATS leaf, in the relays' CPU time";
        found.push(Finding::new(what, theirs / ours, Bar::Least(TIMES_MIN)));
        Ok(found)
    }

    /// Counts, and microseconds of CPU time of the relays for each message that came.
    fn run_ours(&self, program: &Path) -> Result<(Vec<Finding>, f64), Failure> {
        let mut lab = Lab::new()?;
        let (near, far) = (lab.add_host()?, lab.add_host()?);
        let mut stage = Stage::new(lab, program);
        let (source, address) = (stage.at(near), stage.lab.host(near).address());
        let all = CHILDREN * PORTS.len();
        let mut publisher = stage.source(near, &source, all, &[])?;
        let (mut relays, mut receivers) = (Vec::new(), Vec::new());
        for port in PORTS {
            let at = format!("{address}:{port}");
            relays.push(stage.relay(near, &at, &source, &[])?);
            for _ in 0..CHILDREN {
                receivers.push(stage.receiver(far, &[&at], &[])?);
            }
        }
        let time = || {
            relays
                .iter()
                .map(|relay| cpu_time(relay.pid()))
                .sum::<f64>()
        };
        // When the stream begins all receivers have joined.
        let feeder = stage.publish(&mut publisher, self.load)?;
        let before = time();
        let outcome = stage.finish(feeder, receivers)?;
        let used = time() - before;
        let came = outcome.ends.iter().map(|end| end.tape.arrivals.len());
        let came = came.sum::<usize>() as f64;
        Ok((whole(&outcome), used * 1e6 / came.max(1.0)))
    }

    fn run_nats(&self, server: &Path) -> Result<f64, Failure> {
        let mut lab = Lab::new()?;
        let (near, far) = (lab.add_host()?, lab.add_host()?);
        let _hub = start_hub(server, &mut lab, near)?;
        let leaf = start_leaf(server, &mut lab, near)?;
        let came = Arc::new(AtomicU64::new(0));
        let [hub_port, leaf_port, _] = NATS_PORTS;
        let at = lab.host(near).address();
        for _ in 0..CHILDREN * PORTS.len() {
            let mut client = {
                let _inside = lab.enter(far)?;
                Client::connect((at, leaf_port).into())?
            };
            client.ask("SUB news 1\r\n")?;
            let counted = came.clone();
            let bytes = self.load.bytes;
            // It ends with the lab.
            thread::spawn(move || client.count(bytes, &counted));
        }
        let mut sender = {
            let _inside = lab.enter(near)?;
            Client::connect((at, hub_port).into())?
        };
        let message = vec![7; self.load.bytes];
        let all = (CHILDREN * PORTS.len()) as u64;
        // The hub knows of the leaf's subscribers when the first message comes to all.
        wait_until(|| {
            sender.publish(&message)?;
            thread::sleep(Duration::from_millis(100));
            Ok(came.load(Ordering::Relaxed) >= all)
        })?;
        thread::sleep(Duration::from_millis(300));
        let (first, before) = (came.load(Ordering::Relaxed), cpu_time(leaf.pid()));
        let (begun, mut sent) = (Instant::now(), 0);
        while begun.elapsed() < self.load.lasts {
            let due = begun + self.load.due(sent);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            sender.publish(&message)?;
            sent += 1;
        }
        wait_until(|| Ok(came.load(Ordering::Relaxed) - first >= sent * all))?;
        let used = cpu_time(leaf.pid()) - before;
        Ok(used * 1e6 / (sent * all) as f64)
    }
}

fn start_hub(server: &Path, lab: &mut Lab, host: HostId) -> Result<Process, Failure> {
    let [port, _, leaves] = NATS_PORTS;
    let text = format!("port: {port}\nleafnodes {{ port: {leaves} }}\n");
    start(server, lab, host, &text, port)
}

fn start_leaf(server: &Path, lab: &mut Lab, host: HostId) -> Result<Process, Failure> {
    let [_, port, leaves] = NATS_PORTS;
    let address = lab.host(host).address();
    let link = format!("leafnodes {{ remotes: [{{ url: \"nats-leaf://{address}:{leaves}\" }}] }}");
    start(server, lab, host, &format!("port: {port}\n{link}\n"), port)
}

/// Starts a server, once it answers.
fn start(
    server: &Path,
    lab: &mut Lab,
    host: HostId,
    text: &str,
    port: u16,
) -> Result<Process, Failure> {
    if !server.is_file() {
        let server = server.display();
        return Err(
            format!("there is no {server}; `make sites` installs it, which takes Go").into(),
        );
    }
    let name = format!("{}-nats-{port}.conf", lab.prefix());
    let file = std::env::temp_dir().join(name);
    fs::write(&file, text)?;
    let mut command = lab.command(host, server);
    command.arg("-c").arg(&file).stdin(Stdio::null());
    let process = lab.spawn(host, command, Output::Files)?;
    let at = (lab.host(host).address(), port);
    let guard = lab.enter(host)?;
    let answers = wait_until(|| {
        let answers = TcpStream::connect(at).is_ok();
        thread::sleep(Duration::from_millis(20));
        Ok(answers)
    });
    drop(guard);
    fs::remove_file(&file)?;
    answers.map_err(|_| "a NATS server does not answer")?;
    Ok(process)
}

/// Waits until something is so.
fn wait_until(mut is_so: impl FnMut() -> Result<bool, Failure>) -> Result<(), Failure> {
    let begun = Instant::now();
    while !is_so()? {
        if begun.elapsed() > PATIENCE {
            return Err("not all messages have come".into());
        }
        thread::yield_now();
    }
    Ok(())
}

/// A connection of NATS' protocol.
struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    fn connect(at: std::net::SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(at)?;
        stream.set_nodelay(true)?;
        let mut client = Self {
            stream: BufReader::with_capacity(1 << 16, stream),
        };
        let mut info = String::new();
        client.stream.read_line(&mut info)?;
        client.ask("CONNECT {\"verbose\":false,\"pedantic\":false}\r\n")?;
        Ok(client)
    }

    fn ask(&mut self, line: &str) -> Result<(), Failure> {
        Ok(self.stream.get_mut().write_all(line.as_bytes())?)
    }

    fn publish(&mut self, message: &[u8]) -> Result<(), Failure> {
        let mut text = format!("PUB news {}\r\n", message.len()).into_bytes();
        text.extend(message);
        text.extend(b"\r\n");
        Ok(self.stream.get_mut().write_all(&text)?)
    }

    /// Counts messages until the connection ends.
    fn count(&mut self, bytes: usize, came: &AtomicU64) {
        let mut line = String::new();
        let mut message = vec![0; bytes + 2];
        loop {
            line.clear();
            match self.stream.read_line(&mut line) {
                Ok(1..) if line.starts_with("MSG ") => {
                    if self.stream.read_exact(&mut message).is_err() {
                        return;
                    }
                    came.fetch_add(1, Ordering::Relaxed);
                }
                Ok(1..) if line.starts_with("PING") && self.ask("PONG\r\n").is_ok() => {}
                Ok(1..) if line.starts_with('+') => {}
                _ => return,
            }
        }
    }
}

/// CPU time that a process has used, seconds, in ticks of a hundredth.
fn cpu_time(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Behind the name, which ends with the last parenthesis, user's and system's are the 12th and 13th.
    let fields = text.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks = ticks.filter_map(|one| one.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}
