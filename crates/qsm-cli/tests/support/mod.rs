//! A cluster on loopback for one test: the membership service and other commands as processes,
//! which end with the test however that ends.

#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod keys;
pub(crate) mod relaying;
pub(crate) mod ticks;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The program under test.
pub(crate) const QSM: &str = env!("CARGO_BIN_EXE_qsm");

/// More than a slow machine needs; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

static CLUSTERS: AtomicU16 = AtomicU16::new(0);

/// The program, whatever this user has configured.
pub(crate) fn qsm() -> Command {
    let mut command = Command::new(QSM);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("QSM_") {
            command.env_remove(name);
        }
    }
    command.env("QSM_CONFIG", "");
    command
}

/// A command that has these words, and pipes for all that it reads and writes.
pub(crate) fn piped(mut command: Command, words: &[&str]) -> Command {
    command
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A process that is killed when dropped.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Running {
    /// Waits for its end; what it wrote, where that is a pipe.
    pub(crate) fn output(mut self) -> Output {
        let stderr = self.0.stderr.take().map(read_in_background);
        let mut stdout = Vec::new();
        if let Some(mut pipe) = self.0.stdout.take() {
            pipe.read_to_end(&mut stdout).unwrap();
        }
        let stderr = stderr
            .map(|thread| thread.join().unwrap())
            .unwrap_or_default();
        let status = self.0.wait().unwrap();
        Output {
            status,
            stdout,
            stderr,
        }
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Sends it a signal, as `kill` names it.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        let killed = Command::new("kill").args([name, &pid]).status().unwrap();
        assert!(killed.success());
    }
}

fn read_in_background(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut all = Vec::new();
        pipe.read_to_end(&mut all).unwrap();
        all
    })
}

/// Lines of a pipe, as they come.
pub(crate) struct Lines(Receiver<String>);

impl Lines {
    pub(crate) fn of(pipe: impl Read + Send + 'static) -> Self {
        let (sender, receiver) = channel();
        thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self(receiver)
    }

    pub(crate) fn of_stderr(process: &mut Child) -> Self {
        Self::of(process.stderr.take().unwrap())
    }

    pub(crate) fn of_stdout(process: &mut Child) -> Self {
        Self::of(process.stdout.take().unwrap())
    }

    /// Waits for a line.
    #[track_caller]
    pub(crate) fn wait(&self, what: &str, mut is: impl FnMut(&str) -> bool) -> String {
        let until = Instant::now() + PATIENCE;
        let mut before = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(line) = self.0.recv_timeout(left) else {
                panic!("nobody says {what}: {before:#?}");
            };
            if is(&line) {
                return line;
            }
            before.push(line);
        }
    }

    /// The next one, if it comes in this time.
    pub(crate) fn within(&self, time: Duration) -> Option<String> {
        self.0.recv_timeout(time).ok()
    }

    /// All of them, until the pipe ends.
    pub(crate) fn iter(&self) -> impl Iterator<Item = String> {
        self.0.iter()
    }

    /// Those that have come since.
    pub(crate) fn so_far(&self) -> impl Iterator<Item = String> {
        self.0.try_iter()
    }
}

/// A cluster with a membership service.
pub(crate) struct Cluster {
    options: Vec<String>,
    service: Option<String>,
    gms: Option<Running>,
    /// For the files of the test; gone with the cluster.
    pub(crate) folder: PathBuf,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

impl Cluster {
    /// Without a service: names and ports that no other test uses, of this process or another.
    pub(crate) fn without_service() -> Self {
        let (pid, number) = (std::process::id(), CLUSTERS.fetch_add(1, Ordering::Relaxed));
        // Of 12,000 pairs of ports below those that the system hands out; those who meet
        // nevertheless are kept apart by the name.
        let pair = (pid.wrapping_mul(31) + u32::from(number)) % 6_000;
        let port = 8_000 + 2 * pair;
        let name = format!("test-{pid}-{number}");
        let folder = std::env::temp_dir().join(format!("qsm-{name}"));
        std::fs::create_dir_all(&folder).unwrap();
        let (discovery, data_port) = (format!("239.192.83.80:{port}"), (port + 1).to_string());
        let options = [
            "--cluster",
            &name,
            "--discovery",
            &discovery,
            "--data-port",
            &data_port,
        ];
        Self {
            options: options.map(str::to_owned).to_vec(),
            service: None,
            gms: None,
            folder,
        }
    }

    /// With a service that listens.
    pub(crate) fn new() -> Self {
        Self::with_service(&[])
    }

    /// With a service that has these options as well.
    pub(crate) fn with_service(options: &[&str]) -> Self {
        let mut cluster = Self::without_service();
        let (gms, address) = cluster.start_gms(options, Stdio::inherit());
        cluster.use_service(&address);
        cluster.gms = Some(gms);
        cluster
    }

    /// A service of this cluster, and where it listens.
    pub(crate) fn start_gms(&self, options: &[&str], stderr: Stdio) -> (Running, String) {
        let mut command = qsm();
        command
            .args(["gms", "--json", "--listen", "127.0.0.1:0"])
            .args(options)
            .args(&self.options);
        command.stdout(Stdio::piped()).stderr(stderr);
        let mut gms = Running(command.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(gms.0.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        let address = line["address"].as_str();
        let address = address.unwrap_or_else(|| panic!("{line}"));
        (gms, address.to_owned())
    }

    /// Commands from now on are told of the service at this address.
    pub(crate) fn use_service(&mut self, address: &str) {
        self.service = Some(address.to_owned());
    }

    /// The value of an option that all commands have.
    pub(crate) fn option(&self, name: &str) -> &str {
        let at = self.options.iter().position(|option| option == name);
        &self.options[at.unwrap() + 1]
    }

    /// A command of a node in this cluster.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        self.command_with(words, &self.options)
    }

    /// A command of a node that believes the cluster to be called so.
    pub(crate) fn misnamed(&self, name: &str, words: &[&str]) -> Command {
        let mut options = self.options.clone();
        // After `--cluster`.
        name.clone_into(&mut options[1]);
        self.command_with(words, &options)
    }

    fn command_with(&self, words: &[&str], options: &[String]) -> Command {
        let mut command = qsm();
        command
            .args(words)
            .args(["--interface", "lo"])
            .args(options);
        if let Some(service) = &self.service {
            command.args(["--service", service]);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// The variables that say to a command what [`Cluster::command`] says by options.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let pairs = self.options.chunks_exact(2);
        let mut found: Vec<(String, String)> = pairs
            .map(|pair| {
                let name = pair[0].trim_start_matches('-').replace('-', "_");
                (format!("QSM_{}", name.to_uppercase()), pair[1].clone())
            })
            .collect();
        found.push(("QSM_INTERFACE".to_owned(), "lo".to_owned()));
        found.extend(
            self.service
                .clone()
                .map(|it| ("QSM_SERVICE".to_owned(), it)),
        );
        found
    }

    /// Starts one.
    pub(crate) fn start(&self, words: &[&str]) -> Running {
        Running(self.command(words).spawn().unwrap())
    }

    /// Runs one to its end, with this input.
    pub(crate) fn run(&self, words: &[&str], input: &[u8]) -> Output {
        let mut running = Running(self.command(words).stdin(Stdio::piped()).spawn().unwrap());
        let mut stdin = running.0.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = thread::spawn(move || {
            // A command that fails early does not read to the end.
            drop(stdin.write_all(&input));
        });
        let output = running.output();
        writer.join().unwrap();
        output
    }

    /// The service.
    pub(crate) fn take_gms(&mut self) -> Running {
        self.gms.take().unwrap()
    }

    /// A file of the test.
    pub(crate) fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.folder.join(name);
        std::fs::write(&path, content).unwrap();
        text(&path)
    }
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// What was written, for messages.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A subscriber said nothing but where it was.
#[track_caller]
pub(crate) fn assert_quiet(output: &Output) {
    let told = stderr(output);
    let first = told.starts_with("qsm: subscribed to ");
    assert!(first && told.lines().count() == 1, "{told}");
}

/// It ended with this code.
#[track_caller]
pub(crate) fn assert_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}", stderr(output));
}

/// Bytes that do not repeat soon.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// A subscriber, once it is there; and what it prints.
pub(crate) fn subscribed(mut sub: Running) -> (Running, Lines, Lines) {
    let told = Lines::of_stderr(&mut sub.0);
    told.wait("where it is", |line| line.contains("subscribed to"));
    let printed = Lines::of_stdout(&mut sub.0);
    (sub, printed, told)
}
