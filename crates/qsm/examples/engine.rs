//! Several programs of a host receive the same messages: by a node in each, or attached to one
//! engine. How late, and for how much CPU time; with a rate that they cannot keep up with, how many
//! messages a second arrive. Above 100,000 a second only some are timed:
//! `cargo run --release -p qsm --example engine -- [READERS [RATE [SECONDS [BYTES]]]]`

use std::env;
use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use qsm::{Builder, Delivery, Embedded, Node};

type Outcome<T> = Result<T, Box<dyn Error>>;

const PATIENCE: Duration = Duration::from_secs(10);
/// Messages a second of which each is timed.
const TIMED_MOST: u64 = 100_000;
/// The time in the message after which nothing comes.
const END: u64 = 0;

fn main() -> Outcome<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["node", cluster, every] => read_by_node(cluster, every.parse()?),
        ["attached", path, every] => read_attached(path, every.parse()?),
        ["engine", cluster, path] => share(cluster, path),
        _ => compare(&words),
    }
}

fn compare(words: &[String]) -> Outcome<()> {
    let number = |place: usize, default| match words.get(place) {
        Some(word) => word.parse(),
        None => Ok(default),
    };
    let (readers, rate, seconds) = (number(0, 10)?, number(1, 2000)?, number(2, 3)?);
    let load = Load {
        count: rate * seconds,
        rate,
        length: usize::try_from(number(3, 100)?)?.max(8),
        every: (rate / TIMED_MOST).max(1),
    };
    let every = load.every.to_string();
    let cluster = format!("engine-{}", std::process::id());
    let path = env::temp_dir().join(&cluster);
    let path = path.to_string_lossy().into_owned();
    let publishing = node(&cluster).embedded_service(Embedded::Always).start()?;
    let publisher = publishing.publisher("load")?;
    println!(
        "{readers} readers, {rate} messages of {} bytes a second for {seconds} s",
        load.length
    );
    for by_engine in [false, true] {
        let engine = by_engine.then(|| Process::start(&["engine", &cluster, &path]));
        let engine = engine.transpose()?;
        let reader = || match by_engine {
            true => Process::start(&["attached", &path, &every]),
            false => Process::start(&["node", &cluster, &every]),
        };
        let all: Vec<Process> = (0..readers).map(|_| reader()).collect::<Outcome<_>>()?;
        let members = if by_engine {
            1
        } else {
            u32::try_from(readers)?
        };
        publisher.wait_for_members(members, PATIENCE)?;
        let start = now();
        publish(&load, |message| Ok(publisher.send(message)?))?;
        publishing.flush(PATIENCE)?;
        let read: Vec<Read> = all.into_iter().map(Process::end).collect::<Outcome<_>>()?;
        let shared = engine.map(Process::end).transpose()?;
        let worst = |place: usize| {
            let late = read.iter().map(|one| one.late[place]);
            late.max().unwrap_or(0) / 1000
        };
        let cpu: u64 = read.iter().chain(&shared).map(|one| one.cpu).sum();
        let least = read.iter().map(|one| one.messages).min().unwrap_or(0);
        let end = read.iter().map(|one| one.at).max().unwrap_or(start);
        println!(
            "{}: the slowest reader 50 % {} µs, 99 % {} µs, 99.9 % {} µs, {:.1} % of messages, {:.0} a second; CPU for a message to all {:.2} µs",
            if by_engine { "engine" } else { "nodes " },
            worst(0),
            worst(1),
            worst(2),
            100.0 * least as f64 / load.count as f64,
            1e9 * least as f64 / (end - start) as f64,
            cpu as f64 / load.count as f64 / 1e3,
        );
    }
    publishing.shutdown(PATIENCE)?;
    Ok(())
}

/// Messages that are published.
struct Load {
    count: u64,
    /// Messages a second.
    rate: u64,
    /// Bytes of each.
    length: usize,
    /// One of so many is timed.
    every: u64,
}

/// Messages at a fixed rate, each with the time at which it was due; at last the end.
fn publish(load: &Load, send: impl Fn(&[u8]) -> Outcome<()>) -> Outcome<()> {
    let mut message = vec![0; load.length];
    let (start, clock) = (Instant::now(), now());
    for number in 0..load.count {
        let due = number * 1_000_000_000 / load.rate;
        if number.is_multiple_of(load.every) {
            thread::sleep(Duration::from_nanos(due).saturating_sub(start.elapsed()));
        }
        message[..8].copy_from_slice(&(clock + due).to_le_bytes());
        send(&message)?;
    }
    message[..8].copy_from_slice(&END.to_le_bytes());
    send(&message)
}

fn read_by_node(cluster: &str, every: u64) -> Outcome<()> {
    let node = node(cluster).start()?;
    let (ended, end) = channel();
    let upcalls = node.group("load").subscribe_with(timed(every, ended))?;
    let before = ready()?;
    tell(end.recv()?, before)?;
    drop(upcalls);
    node.shutdown(PATIENCE)?;
    Ok(())
}

fn read_attached(path: &str, every: u64) -> Outcome<()> {
    let engine = Node::attach(path)?;
    let (ended, end) = channel();
    let upcalls = engine.group("load").subscribe_with(timed(every, ended))?;
    let before = ready()?;
    tell(end.recv()?, before)?;
    drop(upcalls);
    Ok(())
}

fn share(cluster: &str, path: &str) -> Outcome<()> {
    let node = node(cluster).start()?;
    let share = node.share(path)?;
    let before = ready()?;
    stdin().read_line(&mut String::new())?;
    let nothing = Timed {
        late: vec![0],
        messages: 0,
    };
    tell(nothing, before)?;
    drop(share);
    node.shutdown(PATIENCE)?;
    Ok(())
}

fn node(cluster: &str) -> Builder {
    Node::builder().cluster(cluster).interface("lo")
}

/// Account of a reader.
#[derive(Default)]
struct Timed {
    /// Latencies of those timed, nanoseconds.
    late: Vec<u64>,
    messages: u64,
}

/// Counts messages until the last one, and times one of so many.
fn timed(every: u64, ended: Sender<Timed>) -> impl FnMut(Delivery<'_>) + Send + 'static {
    let mut seen = Timed::default();
    move |delivery| {
        // What is missing is not late.
        let Some(message) = delivery.message() else {
            return;
        };
        let time = message.bytes.first_chunk();
        match time.map(|time| u64::from_le_bytes(*time)) {
            // Who waits for this ends when it has it.
            Some(END) | None => drop(ended.send(std::mem::take(&mut seen))),
            Some(due) => {
                if seen.messages.is_multiple_of(every) {
                    seen.late.push(now().saturating_sub(due));
                }
                seen.messages += 1;
            }
        }
    }
}

/// Says that it is ready; the CPU time so far.
fn ready() -> Outcome<u64> {
    let mut stdout = stdout();
    writeln!(stdout, "ready")?;
    stdout.flush()?;
    cpu()
}

/// What a process says at its end; times in nanoseconds.
struct Read {
    /// 50, 99 and 99.9 % of latencies.
    late: [u64; 3],
    /// CPU time since it was ready.
    cpu: u64,
    messages: u64,
    /// When it had the last one.
    at: u64,
}

/// Says [`Read`].
fn tell(seen: Timed, before: u64) -> Outcome<()> {
    let Timed { mut late, messages } = seen;
    let (cpu, at) = (cpu()? - before, now());
    late.sort_unstable();
    if late.is_empty() {
        return Err("no message has come".into());
    }
    let last = late.len() - 1;
    let [half, most, nearly_all] = [500, 990, 999].map(|part| late[last * part / 1000]);
    println!("{half} {most} {nearly_all} {cpu} {messages} {at}");
    Ok(())
}

/// Time that all threads of this process have run, nanoseconds.
fn cpu() -> Outcome<u64> {
    let mut sum = 0;
    for thread in fs::read_dir("/proc/self/task")? {
        let text = fs::read_to_string(thread?.path().join("schedstat"))?;
        sum += text.split(' ').next().unwrap_or_default().parse::<u64>()?;
    }
    Ok(sum)
}

/// The same for all processes of this host, nanoseconds.
fn now() -> u64 {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    time.map_or(0, |time| time.as_nanos() as u64)
}

struct Process {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts this program in another role, and waits until it is ready.
    fn start(words: &[&str]) -> Outcome<Self> {
        let mut command = Command::new(env::current_exe()?);
        command
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no pipe")?).lines();
        lines.next().ok_or("a process has ended")??;
        Ok(Self { child, lines })
    }

    /// What it has to say at the end.
    fn end(mut self) -> Outcome<Read> {
        drop(self.child.stdin.take());
        let line = self.lines.next().ok_or("a process has ended")??;
        let mut numbers = line.split(' ').map(str::parse);
        let mut next = || Ok::<u64, Box<dyn Error>>(numbers.next().ok_or("a number is missing")??);
        let read = Read {
            late: [next()?, next()?, next()?],
            cpu: next()?,
            messages: next()?,
            at: next()?,
        };
        self.child.wait()?;
        Ok(read)
    }
}
