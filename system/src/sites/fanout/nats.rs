//! The same by a NATS server that is a leaf of another one, and by plain connections of its protocol.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use lab::{HostId, Lab, Output, Process};

use super::{RECEIVERS, cpu_time, paced, wait_until};
use crate::cluster::Failure;
use crate::sites::stream::Load;

/// Ports: of the server, of its leaf, and of the link between them.
const PORTS: [u16; 3] = [4222, 4223, 7422];

/// Microseconds of CPU time of the leaf for each message that came.
///
/// # Errors
/// A server fails, or not all messages come.
pub(super) fn run(load: &Load, server: &Path) -> Result<f64, Failure> {
    let mut lab = Lab::new()?;
    let (near, far) = (lab.add_host()?, lab.add_host()?);
    let _hub = start_hub(server, &mut lab, near)?;
    let leaf = start_leaf(server, &mut lab, near)?;
    let came = Arc::new(AtomicU64::new(0));
    let [hub_port, leaf_port, _] = PORTS;
    let at = lab.host(near).address();
    for _ in 0..RECEIVERS {
        let mut client = {
            let _inside = lab.enter(far)?;
            Client::connect((at, leaf_port).into())?
        };
        client.ask("SUB news 1\r\n")?;
        let counted = came.clone();
        let bytes = load.bytes;
        // It ends with the lab.
        thread::spawn(move || client.count(bytes, &counted));
    }
    let mut sender = {
        let _inside = lab.enter(near)?;
        Client::connect((at, hub_port).into())?
    };
    let message = vec![7; load.bytes];
    let all = RECEIVERS as u64;
    // The hub knows of the leaf's subscribers when the first message comes to all.
    wait_until(|| {
        sender.publish(&message)?;
        thread::sleep(Duration::from_millis(100));
        Ok(came.load(Ordering::Relaxed) >= all)
    })?;
    thread::sleep(Duration::from_millis(300));
    let (first, before) = (came.load(Ordering::Relaxed), cpu_time(leaf.pid()));
    let sent = paced(load, || sender.publish(&message))?;
    wait_until(|| Ok(came.load(Ordering::Relaxed) - first >= sent * all))?;
    let used = cpu_time(leaf.pid()) - before;
    Ok(used * 1e6 / (sent * all) as f64)
}

fn start_hub(server: &Path, lab: &mut Lab, host: HostId) -> Result<Process, Failure> {
    let [port, _, leaves] = PORTS;
    let text = format!("port: {port}\nleafnodes {{ port: {leaves} }}\n");
    start(server, lab, host, &text, port)
}

fn start_leaf(server: &Path, lab: &mut Lab, host: HostId) -> Result<Process, Failure> {
    let [_, port, leaves] = PORTS;
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
