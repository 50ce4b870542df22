//! A stream of numbered and stamped messages: what feeds a source, and what reads a receiver.
//!
//! A message is a frame of `qsm relay --frames`: its length, its number from 0, the time at which it was
//! handed over in nanoseconds since the load began to run, and bytes that follow from its number. All
//! feeders and readers are threads of one process, so that one clock stamps and reads.

use std::io::{self, BufReader, Read, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Bytes of a number and a stamp.
const HEADER: usize = 16;
/// Longest message that is read.
const BYTES_MAX: usize = 65_536;

/// Messages that a source is given.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Bytes of each, at least 16.
    pub bytes: usize,
    /// Messages a second; 0: as many as the source takes.
    pub rate: u64,
    /// Time for which there are some.
    pub lasts: Duration,
}

impl Load {
    /// When this message is due, from the first one's time.
    pub(super) fn due(&self, number: u64) -> Duration {
        match self.rate {
            0 => Duration::ZERO,
            rate => Duration::from_nanos(number * 1_000_000_000 / rate),
        }
    }
}

/// A thread that gives a source its messages, and ends the stream.
#[derive(Debug)]
pub struct Feeder {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<u64>>,
}

impl Feeder {
    /// Begins; stamps count from `began`.
    pub(super) fn start(load: Load, mut stdin: ChildStdin, began: Instant) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            let (first, mut number, mut frame) = (Instant::now(), 0, Vec::new());
            while first.elapsed() < load.lasts && !stopped.load(Ordering::Acquire) {
                let due = first + load.due(number);
                thread::sleep(due.saturating_duration_since(Instant::now()));
                write_frame(&mut frame, number, began.elapsed(), load.bytes);
                stdin.write_all(&frame)?;
                number += 1;
            }
            Ok(number)
        });
        Self { stop, thread }
    }

    /// Ends the stream before its time.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Waits for the end; how many messages the source was given.
    ///
    /// # Errors
    /// The source has ended before.
    pub fn wait(self) -> io::Result<u64> {
        let ended = self.thread.join();
        ended.unwrap_or_else(|_| Err(io::Error::other("a feeder has panicked")))
    }
}

/// A message that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Its number.
    pub number: u64,
    /// When the source was given it.
    pub sent: Duration,
    /// When it was read.
    pub came: Duration,
}

impl Arrival {
    /// Time from one to the other.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.came.saturating_sub(self.sent)
    }
}

/// All that a receiver has written.
#[derive(Debug, Clone, Default)]
pub struct Tape {
    /// In the order in which they came.
    pub arrivals: Vec<Arrival>,
    /// Bytes of them.
    pub bytes: u64,
    /// Messages whose content is not what their number demands.
    pub wrong: u64,
}

/// Faults of a tape.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flaws {
    /// Messages that have not come.
    pub missing: u64,
    /// Messages that came again.
    pub doubled: u64,
    /// Messages that came behind a later one for the first time, or with another content.
    pub wrong: u64,
}

impl Tape {
    /// Compares with what the source was given.
    #[must_use]
    pub fn flaws(&self, given: u64) -> Flaws {
        let room = usize::try_from(given).unwrap_or(0);
        let mut seen = vec![false; room];
        let mut flaws = Flaws {
            wrong: self.wrong,
            ..Flaws::default()
        };
        let mut next = 0;
        for arrival in &self.arrivals {
            let place = usize::try_from(arrival.number).unwrap_or(usize::MAX);
            match seen.get_mut(place) {
                None => flaws.wrong += 1,
                Some(true) => flaws.doubled += 1,
                Some(known) => {
                    *known = true;
                    flaws.wrong += u64::from(arrival.number < next);
                    next = next.max(arrival.number + 1);
                }
            }
        }
        flaws.missing = seen.iter().filter(|known| !**known).count() as u64;
        flaws
    }

    /// The longest time between two messages, of those that came from then on, and the last before.
    #[must_use]
    pub fn gap_from(&self, from: Duration) -> Duration {
        let pairs = self.arrivals.windows(2);
        let gaps = pairs.filter(|pair| pair[1].came >= from);
        let gaps = gaps.map(|pair| pair[1].came.saturating_sub(pair[0].came));
        gaps.max().unwrap_or(Duration::MAX)
    }

    /// Messages that came in this time.
    pub fn within(&self, from: Duration, to: Duration) -> impl Iterator<Item = &Arrival> {
        let all = self.arrivals.iter();
        all.filter(move |arrival| arrival.came >= from && arrival.came < to)
    }
}

/// A thread that reads what a receiver writes.
#[derive(Debug)]
pub struct Reader {
    tape: Arc<Mutex<Tape>>,
    thread: JoinHandle<()>,
}

impl Reader {
    /// Begins; times count from `began`.
    pub(super) fn start(stdout: ChildStdout, began: Instant) -> Self {
        let tape = Arc::new(Mutex::new(Tape::default()));
        let own = tape.clone();
        let thread = thread::spawn(move || {
            let mut stdout = BufReader::with_capacity(1 << 16, stdout);
            let mut message = Vec::new();
            while read_frame(&mut stdout, &mut message).is_ok() {
                lock(&own).take(&message, began.elapsed());
            }
        });
        Self { tape, thread }
    }

    /// Messages that have come so far.
    #[must_use]
    pub fn messages(&self) -> usize {
        lock(&self.tape).arrivals.len()
    }

    /// Everything, when the receiver has ended.
    #[must_use]
    pub fn wait(self) -> Tape {
        // A reader that has panicked has said so, and its tape is short.
        drop(self.thread.join());
        std::mem::take(&mut *lock(&self.tape))
    }
}

impl Tape {
    fn take(&mut self, message: &[u8], came: Duration) {
        self.bytes += message.len() as u64;
        match read_message(message) {
            Some((number, sent)) => self.arrivals.push(Arrival { number, sent, came }),
            None => self.wrong += 1,
        }
    }
}

/// Tapes hold plain data, which no panic leaves halfway.
fn lock(tape: &Mutex<Tape>) -> MutexGuard<'_, Tape> {
    tape.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write_frame(frame: &mut Vec<u8>, number: u64, sent: Duration, bytes: usize) {
    let bytes = bytes.clamp(HEADER, BYTES_MAX);
    let nanos = u64::try_from(sent.as_nanos()).unwrap_or(u64::MAX);
    frame.clear();
    frame.extend(u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes());
    frame.extend(number.to_le_bytes());
    frame.extend(nanos.to_le_bytes());
    frame.resize(4 + bytes, filling(number));
}

fn read_frame(from: &mut impl Read, message: &mut Vec<u8>) -> io::Result<()> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > BYTES_MAX {
        return Err(io::Error::other("a frame is too long"));
    }
    message.resize(length, 0);
    from.read_exact(message)
}

fn read_message(message: &[u8]) -> Option<(u64, Duration)> {
    let (number, rest) = message.split_first_chunk()?;
    let (sent, rest) = rest.split_first_chunk()?;
    let number = u64::from_le_bytes(*number);
    let expected = filling(number);
    let intact = rest.iter().all(|byte| *byte == expected);
    intact.then(|| (number, Duration::from_nanos(u64::from_le_bytes(*sent))))
}

fn filling(number: u64) -> u8 {
    number.wrapping_mul(151).to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn tape(numbers: &[u64]) -> Tape {
        let arrivals = numbers.iter().map(|number| Arrival {
            number: *number,
            sent: MS,
            came: MS * 2,
        });
        Tape {
            arrivals: arrivals.collect(),
            ..Tape::default()
        }
    }

    #[test]
    fn messages_that_are_missing_doubled_or_in_disorder_are_counted() {
        let flaws = |missing, doubled, wrong| Flaws {
            missing,
            doubled,
            wrong,
        };
        assert_eq!(tape(&[0, 1, 2]).flaws(3), flaws(0, 0, 0));
        assert_eq!(tape(&[0, 2]).flaws(4), flaws(2, 0, 0));
        assert_eq!(tape(&[0, 1, 1, 2, 0]).flaws(3), flaws(0, 2, 0));
        assert_eq!(tape(&[1, 0, 2]).flaws(3), flaws(0, 0, 1));
        assert_eq!(tape(&[0, 1, 2, 9]).flaws(3), flaws(0, 0, 1));
    }

    #[test]
    fn a_frame_is_read_as_it_was_written_and_a_changed_one_is_found() {
        let (mut frame, mut tape) = (Vec::new(), Tape::default());
        write_frame(&mut frame, 7, MS, 100);
        let mut message = Vec::new();
        read_frame(&mut &frame[..], &mut message).unwrap();
        tape.take(&message, MS * 3);
        assert_eq!((tape.bytes, tape.wrong), (100, 0));
        assert_eq!(tape.arrivals[0].delay(), MS * 2);
        message[50] ^= 1;
        tape.take(&message, MS * 3);
        assert_eq!((tape.arrivals.len(), tape.wrong), (1, 1));
    }
}
