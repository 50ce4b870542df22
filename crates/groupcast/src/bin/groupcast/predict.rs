//! What cloning would save a running program (E57): `s` and `f` measured here, then Amdahl's law.

use std::time::Duration;

use groupcast::{BackEnd, Message};

use crate::model::amdahl;
use crate::profile;
use crate::range::{FILL, Kind, Range, pin};
use crate::{bench, number, option};

const REPETITIONS: usize = 9;
const SAMPLE: Duration = Duration::from_millis(15);
/// The paper's own figures, to be shown beside.
const PAPER: (f64, f64) = (0.791, 1.664);

pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let recipients = number(words, "--recipients", 1000)? as usize;
    let payload = number(words, "--payload", 1000)? as usize;
    let seconds = number(words, "--seconds", 5)?;
    println!("{recipients} recipients of {payload} bytes");
    let f = match option(words, "--pid")? {
        None => None,
        Some(text) => {
            let pid = text.parse().map_err(|_| format!("{text} is no process"))?;
            let thread = match number(words, "--thread", 0)? {
                0 => None,
                thread => Some(thread as i32),
            };
            Some(share(pid, thread, Duration::from_secs(seconds))?)
        }
    };
    pin(0);
    for kind in [Kind::Discard, Kind::Veth] {
        let s = gain(kind, recipients, payload).map_err(|e| e.to_string())?;
        print!("s = {s:.2} ({}: {})", kind.name(), meaning(kind));
        match f {
            Some(f) => println!(
                ": predicted gain {:.2}, CPU {:.2} of today's",
                amdahl(f, s),
                1.0 / amdahl(f, s)
            ),
            None => println!(),
        }
    }
    let (f, s) = PAPER;
    println!("the paper: f = {f}, s = {s}: {:.2}", amdahl(f, s));
    Ok(())
}

fn meaning(kind: Kind) -> &'static str {
    match kind {
        Kind::Discard => "a card takes the packets away",
        Kind::Veth | Kind::Loopback => "receivers on this machine, their receive path included",
    }
}

fn share(pid: u32, thread: Option<i32>, time: Duration) -> Result<f64, String> {
    let profile =
        profile::watch(pid, thread, time).map_err(|e| format!("cannot watch {pid}: {e}"))?;
    if profile.all == 0 {
        return Err(format!("process {pid} did nothing for {time:?}"));
    }
    let f = profile.sending as f64 / profile.all as f64;
    println!(
        "f = {f:.3}: {} of {} samples of its CPU time were in sending",
        profile.sending, profile.all
    );
    Ok(f)
}

/// How many times faster clones are than the loop.
fn gain(kind: Kind, recipients: usize, payload: usize) -> Result<f64, Box<dyn std::error::Error>> {
    let mut range = Range::new(kind)?;
    let mut by_loop = range.sender(BackEnd::Loop)?;
    let mut clones = range.sender(BackEnd::Clone)?;
    let group = range.group(recipients.clamp(1, 60_000), 0);
    let payload = vec![FILL; payload];
    let message = Message::new(&payload);
    let mut factors = Vec::new();
    for _ in 0..REPETITIONS {
        let slow = range.sample(&mut by_loop, &message, &group, SAMPLE);
        let fast = range.sample(&mut clones, &message, &group, SAMPLE);
        factors.push(slow / fast);
    }
    Ok(bench::median(factors))
}
