//! The same by `moq-relay`, a relay of Media over QUIC, with a connection of QUIC for each receiver.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lab::{HostId, Lab};

use super::{RECEIVERS, cpu_time, paced, wait_until};
use crate::cluster::Failure;
use crate::sites::stream::Load;

const PORT: u16 = 4443;
/// Time in which nothing comes after which nothing more is expected.
const QUIET: Duration = Duration::from_secs(1);
/// Messages for each line of the receivers' program.
const COUNTED: u64 = 100;

/// A program that ends with its owner.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Account of a relay that need not bring everything.
pub(super) struct Copied {
    /// Microseconds of CPU time for each message that came.
    pub(super) cost: f64,
    /// Part of the messages that came.
    pub(super) share: f64,
}

/// Runs it. The folder has the programs.
///
/// # Errors
/// A program fails, or nothing comes.
pub(super) fn run(load: &Load, folder: &Path) -> Result<Copied, Failure> {
    if !folder.join("moq-relay").is_file() {
        let folder = folder.display();
        return Err(format!("there is no moq-relay in {folder}; `make sites` builds it").into());
    }
    let mut lab = Lab::new()?;
    let (near, far) = (lab.add_host()?, lab.add_host()?);
    let at = format!("{}:{PORT}", lab.host(near).address());
    let url = format!("https://{at}/");
    let program = |host: HostId, name: &str, words: &[&str]| -> Result<Program, Failure> {
        let mut command: Command = lab.command(host, folder.join(name));
        command
            .args(words)
            .env("RUST_LOG", "warn")
            .stderr(Stdio::null());
        // Nobody reads what the relay and the publisher say.
        let said = match words {
            ["subscribe", ..] => Stdio::piped(),
            _ => Stdio::null(),
        };
        Ok(Program(command.stdin(Stdio::piped()).stdout(said).spawn()?))
    };
    let words = [
        "--listen",
        &at,
        "--listen-tls-generate",
        "localhost",
        "--auth-public",
        "**",
    ];
    let relay = program(near, "moq-relay", &words)?;
    let connections = RECEIVERS.to_string();
    let mut subscribers = program(far, "moq-copies", &["subscribe", &url, &connections])?;
    let came = count_lines(&mut subscribers);
    let mut publisher = program(near, "moq-copies", &["publish", &url])?;
    let mut sizes = publisher.0.stdin.take().ok_or("no way to the publisher")?;
    let mut publish = || Ok::<_, Failure>(writeln!(sizes, "{}", load.bytes)?);
    // As many as five for each connection: most of them have begun.
    let heard = 5 * RECEIVERS as u64;
    wait_until(|| {
        publish()?;
        thread::sleep(Duration::from_millis(100));
        Ok(came.load(Ordering::Relaxed) >= heard)
    })?;
    thread::sleep(Duration::from_millis(300));
    let (first, before) = (came.load(Ordering::Relaxed), cpu_time(relay.0.id()));
    let sent = paced(load, &mut publish)?;
    let all = sent * RECEIVERS as u64;
    // It need not bring all of them.
    let mut newest = (came.load(Ordering::Relaxed), Instant::now());
    while newest.0 - first < all && newest.1.elapsed() < QUIET {
        thread::sleep(Duration::from_millis(10));
        let now = came.load(Ordering::Relaxed);
        if now > newest.0 {
            newest = (now, Instant::now());
        }
    }
    let used = cpu_time(relay.0.id()) - before;
    let arrived = (newest.0 - first) as f64;
    Ok(Copied {
        cost: used * 1e6 / arrived.max(1.0),
        share: arrived / all as f64,
    })
}

/// Messages that came at all connections, as far as the program has said.
fn count_lines(subscribers: &mut Program) -> Arc<AtomicU64> {
    let came = Arc::new(AtomicU64::new(0));
    let counted = came.clone();
    if let Some(said) = subscribers.0.stdout.take() {
        thread::spawn(move || {
            let lines = BufReader::new(said).lines().map_while(Result::ok);
            lines.for_each(|_| _ = counted.fetch_add(COUNTED, Ordering::Relaxed));
        });
    }
    came
}
