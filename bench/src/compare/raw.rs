//! The blaster's part: `blast-send` and `blast-receive` of this program, whose figures are a
//! ceiling and no more: nothing is verified, and what arrives counts.

use std::net::SocketAddrV4;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Failure;

use super::cell::Cell;
use super::machine::CpuSeconds;
use super::point::{Flood, Measures, Outcome};
use super::process::Process;
use super::system::{Kind, System};

const PATIENCE: Duration = Duration::from_secs(30);
/// Quicksilver's datagrams.
const PACKET_BYTES: usize = 1400;

pub(crate) fn run(system: &System, cell: Cell, port: u16, millis: u64) -> Result<Outcome, Failure> {
    let begin = Instant::now();
    let group = SocketAddrV4::new([239, 255, 83, 1].into(), port).to_string();
    let datagram = match system.kind {
        Kind::RawPackets => PACKET_BYTES,
        _ => cell.payload,
    };
    let start = |role: &str, more: &[&str]| {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args([role, "--interface", "lo", "--group", &group])
            .args(more);
        Process::start(role.to_owned(), command)
    };
    let mut receivers = (0..cell.receivers)
        .map(|_| start("blast-receive", &[]))
        .collect::<Result<Vec<_>, _>>()?;
    let (bytes, time) = (datagram.to_string(), millis.to_string());
    let mut sender = start("blast-send", &["--payload", &bytes, "--millis", &time])?;
    let deadline = begin + PATIENCE;
    for process in receivers.iter().chain([&sender]) {
        process.expect("ready", deadline)?;
    }
    let setup_seconds = begin.elapsed().as_secs_f64();
    let (phase, then) = (Instant::now(), CpuSeconds::now());
    sender.tell("go")?;
    let sent = numbers(&sender.expect("sent", deadline)?)?;
    for receiver in &mut receivers {
        receiver.tell("stop")?;
    }
    let received = receivers
        .iter()
        .map(|receiver| numbers(&receiver.expect("received", deadline)?))
        .collect::<Result<Vec<_>, _>>()?;
    let own = sender.cpu() + receivers.iter().map(Process::cpu).sum::<Duration>();
    let (now, seconds) = (CpuSeconds::now(), phase.elapsed().as_secs_f64());
    let foreign = (now.busy - then.busy - own.as_secs_f64()) / seconds;
    Ok(Outcome::of(Measures {
        setup_seconds,
        flood: Some(flood(
            &sent,
            &received,
            datagram as f64 / cell.payload as f64,
        )),
        latency: None,
        foreign_cores: foreign.max(0.0),
        stolen: Some(now.stolen_share(then, seconds)),
    }))
}

/// Datagrams, nanoseconds, CPU microseconds.
fn numbers(text: &str) -> Result<Vec<f64>, Failure> {
    text.split_whitespace()
        .map(|number| Ok(number.parse()?))
        .collect()
}

fn flood(sent: &[f64], received: &[Vec<f64>], messages_each: f64) -> Flood {
    let millions = |numbers: &[f64]| numbers[0].max(1.0) * messages_each / 1e6;
    let rate = |numbers: &Vec<f64>| numbers[0] * messages_each * 1e9 / numbers[1].max(1.0);
    let cpu = |numbers: &[f64]| numbers[2] / 1e6 / millions(numbers);
    let least = received
        .iter()
        .map(|numbers| numbers[0])
        .fold(f64::INFINITY, f64::min);
    Flood {
        messages_per_second: received.iter().map(rate).fold(f64::INFINITY, f64::min),
        sender_cpu: cpu(sent),
        receiver_cpu: received.iter().map(|numbers| cpu(numbers)).sum::<f64>()
            / received.len() as f64,
        delivered: least / sent[0].max(1.0),
    }
}
