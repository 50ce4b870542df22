//! What the Rust programs of the comparison share: the same command line, dialogue, load and
//! verification as `bench.h`, which describes them.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Any error ends the program; the last line on standard error is the reason.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

const HEADER: usize = 16;
const TAIL: usize = 8;
const STAMP_BITS: u32 = 44;
const STAMP_MASK: u64 = (1 << STAMP_BITS) - 1;
const NUMBER_BITS: u32 = 48;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;
/// The clock is read once in so many messages where no latency is taken.
const CLOCK_EVERY: u64 = 16;
/// A receiver that is short of messages gives up after so long without one.
const PATIENCE_NS: u64 = 10_000_000_000;
/// Messages to a rare group.
pub(crate) const RARE_EVERY: u64 = 100;
const PHASES: usize = 256;

/// The command line of every program.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// Sender or receiver?
    pub(crate) sends: bool,
    /// The interface everything runs on.
    pub(crate) interface: String,
    /// This process's own address.
    pub(crate) address: Option<Ipv4Addr>,
    /// Addresses of the senders.
    pub(crate) senders: Vec<Ipv4Addr>,
    /// How many receivers there are.
    pub(crate) receivers: u32,
    /// Which of the senders or receivers this is.
    pub(crate) index: usize,
    /// The first of 16 ports that are this run's own.
    pub(crate) port: u16,
    /// How many groups.
    pub(crate) groups: usize,
    /// Of them, those that all receivers have; the others are rare.
    pub(crate) common: usize,
    /// The rare groups that this receiver has.
    pub(crate) wants: Vec<usize>,
    /// Bytes of each message.
    pub(crate) payload: usize,
    settings: Vec<(String, String)>,
}

impl Options {
    /// Reads `send|receive --name value ...`.
    ///
    /// # Errors
    /// An unknown option or a bad value.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let (role, rest) = arguments.split_first().ok_or("send or receive?")?;
        let mut options = Self {
            sends: role == "send",
            ..Self::default()
        };
        for pair in rest.chunks(2) {
            let [name, value] = pair else {
                return Err(format!("{} has no value", pair[0]).into());
            };
            options.set(name, value)?;
        }
        if !(1..=options.groups).contains(&options.common) {
            options.common = options.groups;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        match name {
            "--interface" => value.clone_into(&mut self.interface),
            "--address" => self.address = Some(value.parse()?),
            "--senders" => {
                self.senders = value.split(',').map(str::parse).collect::<Result<_, _>>()?;
            }
            "--receivers" => self.receivers = value.parse()?,
            "--index" => self.index = value.parse()?,
            "--port" => self.port = value.parse()?,
            "--groups" => self.groups = value.parse()?,
            "--common" => self.common = value.parse()?,
            "--wants" => {
                let groups = value.split(',').filter(|group| !group.is_empty());
                self.wants = groups.map(str::parse).collect::<Result<_, _>>()?;
            }
            "--audience" => {}
            "--payload" => self.payload = value.parse()?,
            "--set" => {
                let (name, value) = value.split_once('=').ok_or("--set NAME=VALUE")?;
                self.settings.push((name.to_owned(), value.to_owned()));
            }
            _ => return Err(format!("unknown option {name}").into()),
        }
        Ok(())
    }

    /// The value of `--set NAME=VALUE`.
    #[must_use]
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        let found = self.settings.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The groups that this receiver has.
    #[must_use]
    pub(crate) fn wanted(&self) -> Vec<usize> {
        let rare = self.wants.iter().copied().filter(|at| *at < self.groups);
        (0..self.common).chain(rare).collect()
    }

    fn pattern(&self) -> Arc<[u8]> {
        (0..self.payload).map(|at| (at * 7 + 3) as u8).collect()
    }
}

/// Makes the messages of one group, one after another.
#[derive(Debug)]
pub(crate) struct Source {
    pattern: Arc<[u8]>,
    sender: u64,
    group: u64,
    phase: u64,
    next: u64,
}

impl Source {
    /// One source for each group.
    #[must_use]
    pub(crate) fn all(options: &Options) -> Vec<Self> {
        let pattern = options.pattern();
        let source = |group| Self {
            pattern: Arc::clone(&pattern),
            sender: options.index as u64,
            group,
            phase: 0,
            next: 1,
        };
        (0..options.groups as u64).map(source).collect()
    }

    /// Messages of this phase so far.
    pub(crate) fn sent(&self, phase: u64) -> u64 {
        if self.phase == phase {
            self.next - 1
        } else {
            0
        }
    }

    /// Appends the next message of the phase. `stamp` is when it was due, 0 without a rate.
    pub(crate) fn write(&mut self, phase: u64, stamp: u64, message: &mut Vec<u8>) {
        if self.phase != phase {
            (self.phase, self.next) = (phase, 1);
        }
        let name = self.next | phase << NUMBER_BITS | self.sender << 56;
        let place = (stamp & STAMP_MASK) | self.group << STAMP_BITS;
        let start = message.len();
        message.extend_from_slice(&self.pattern);
        let end = message.len();
        message[start..start + 8].copy_from_slice(&name.to_le_bytes());
        message[start + 8..start + HEADER].copy_from_slice(&place.to_le_bytes());
        if end - start >= HEADER + TAIL {
            message[end - TAIL..].copy_from_slice(&name.to_le_bytes());
        }
        self.next += 1;
    }
}

/// Whose turn it is: the common groups', and with every hundredth message a rare one's.
struct Turns {
    common: usize,
    groups: usize,
    number: u64,
    next: usize,
    next_rare: usize,
}

impl Turns {
    fn new(options: &Options) -> Self {
        Self {
            common: options.common,
            groups: options.groups,
            number: 0,
            next: 0,
            next_rare: options.common,
        }
    }

    fn take(&mut self) -> usize {
        self.number += 1;
        if self.common < self.groups && self.number.is_multiple_of(RARE_EVERY) {
            let group = self.next_rare;
            let next = group + 1;
            self.next_rare = if next < self.groups {
                next
            } else {
                self.common
            };
            return group;
        }
        let group = self.next;
        self.next = (group + 1) % self.common;
        group
    }
}

/// Messages sent in a phase.
#[derive(Debug, Default)]
pub(crate) struct Flooded {
    /// Messages to all groups.
    pub(crate) messages: u64,
    /// Messages to each rare group.
    pub(crate) rare: Vec<u64>,
}

/// What a system does for a sender.
pub(crate) trait Sender {
    /// Waits until the system has accepted the message.
    ///
    /// # Errors
    /// What the system says.
    fn send(&mut self, group: usize, message: &[u8]) -> Result<(), Failure>;

    /// Pushes out what is still collected.
    ///
    /// # Errors
    /// What the system says.
    fn flush(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// As many messages as the system takes in this time, turn by turn on all groups, of which rare ones
    /// have a hundredth; how many there were. `None` if [`Sender::send`] is the way to do it.
    ///
    /// # Errors
    /// What the system says.
    fn flood(&mut self, _phase: u64, _time: Duration) -> Result<Option<Flooded>, Failure> {
        Ok(None)
    }
}

/// The sender's side of the dialogue.
///
/// # Errors
/// What the system says.
pub(crate) fn run_sender(options: &Options, sender: &mut impl Sender) -> Result<(), Failure> {
    let mut load = Load {
        options,
        sources: Source::all(options),
        message: Vec::with_capacity(options.payload),
    };
    println!("ready");
    for line in std::io::stdin().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["probe"] => {
                for group in 0..options.groups {
                    load.send_one(sender, 0, group, 0)?;
                }
                sender.flush()?;
                println!("probed");
            }
            ["go", phase, millis, rate] => {
                load.go(sender, phase.parse()?, millis.parse()?, rate.parse()?)?;
            }
            _ => break,
        }
    }
    Ok(())
}

struct Load<'a> {
    options: &'a Options,
    sources: Vec<Source>,
    message: Vec<u8>,
}

impl Load<'_> {
    fn send_one(
        &mut self,
        sender: &mut impl Sender,
        phase: u64,
        group: usize,
        stamp: u64,
    ) -> Result<(), Failure> {
        self.message.clear();
        self.sources[group].write(phase, stamp, &mut self.message);
        sender.send(group, &self.message)
    }

    fn go(
        &mut self,
        sender: &mut impl Sender,
        phase: u64,
        millis: u64,
        rate: u64,
    ) -> Result<(), Failure> {
        let start = now_ns();
        let time = Duration::from_millis(millis);
        let sent = if rate > 0 {
            let messages = self.pace(sender, phase, rate, rate * millis / 1000)?;
            self.sent(phase, messages)
        } else if let Some(sent) = sender.flood(phase, time)? {
            sent
        } else {
            let messages = self.flood(sender, phase, start + millis * 1_000_000)?;
            self.sent(phase, messages)
        };
        sender.flush()?;
        let end = now_ns();
        let Flooded { messages, rare } = sent;
        println!(
            "sent {{\"messages\":{messages},\"start_ns\":{start},\"end_ns\":{end},\"rare\":{rare:?}}}"
        );
        Ok(())
    }

    /// So many messages of this phase, by what the sources have made.
    fn sent(&self, phase: u64, messages: u64) -> Flooded {
        let rare = self.sources.iter().skip(self.options.common);
        Flooded {
            messages,
            rare: rare.map(|source| source.sent(phase)).collect(),
        }
    }

    fn flood(&mut self, sender: &mut impl Sender, phase: u64, end: u64) -> Result<u64, Failure> {
        let mut turns = Turns::new(self.options);
        loop {
            for _ in 0..CLOCK_EVERY {
                self.send_one(sender, phase, turns.take(), 0)?;
            }
            if now_ns() >= end {
                return Ok(turns.number);
            }
        }
    }

    /// Stamps each message with the time at which it was due, not with that at which it could be
    /// sent: a system that stalls its sender is charged for all who waited.
    fn pace(
        &mut self,
        sender: &mut impl Sender,
        phase: u64,
        rate: u64,
        total: u64,
    ) -> Result<u64, Failure> {
        let start = now_ns();
        for number in 0..total {
            let due = start + number * 1_000_000_000 / rate;
            let wait = due.saturating_sub(now_ns());
            if wait > 0 {
                std::thread::sleep(Duration::from_nanos(wait));
            }
            self.send_one(sender, phase, number as usize % self.sources.len(), due)?;
        }
        Ok(total)
    }
}

/// What the verifier has seen. It alone writes; the dialogue looks on.
#[derive(Debug)]
pub(crate) struct Tally {
    messages: Vec<AtomicU64>,
    wrong: AtomicU64,
    last_ns: AtomicU64,
    histogram: Histogram,
}

/// One stream of numbers: what one sender says in one group.
#[derive(Debug, Clone, Default)]
struct Cursor {
    next: u64,
    phase: u64,
    heard: bool,
}

/// Checks number and content of every message, and counts into a tally.
#[derive(Debug)]
pub(crate) struct Verifier {
    pattern: Arc<[u8]>,
    groups: usize,
    wanted: Vec<bool>,
    cursors: Vec<Cursor>,
    unheard: usize,
    since_clock: u64,
    tally: Arc<Tally>,
}

impl Verifier {
    /// A verifier of everything that this receiver is to get.
    #[must_use]
    pub(crate) fn new(options: &Options) -> Self {
        let streams = options.groups * options.senders.len();
        let mut wanted = vec![false; options.groups];
        for group in options.wanted() {
            wanted[group] = true;
        }
        let has = wanted.iter().filter(|wants| **wants).count();
        let tally = Tally {
            messages: (0..PHASES).map(|_| AtomicU64::new(0)).collect(),
            wrong: AtomicU64::new(0),
            last_ns: AtomicU64::new(0),
            histogram: Histogram::new(),
        };
        Self {
            pattern: options.pattern(),
            groups: options.groups,
            wanted,
            cursors: vec![Cursor::default(); streams],
            unheard: has * options.senders.len(),
            since_clock: 0,
            tally: Arc::new(tally),
        }
    }

    /// What it counts into.
    #[must_use]
    pub(crate) fn tally(&self) -> Arc<Tally> {
        Arc::clone(&self.tally)
    }

    /// Takes one message.
    pub(crate) fn deliver(&mut self, message: &[u8]) {
        if self.take(message).is_none() {
            self.tally.wrong.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// `None`: not one of ours, not wanted, out of order, or damaged.
    fn take(&mut self, message: &[u8]) -> Option<()> {
        let name = word(message)?;
        let place = word(message.get(8..)?)?;
        let (phase, group) = (name >> NUMBER_BITS & 0xff, (place >> STAMP_BITS) as usize);
        let wanted = self.wanted.get(group).is_some_and(|wants| *wants);
        if !wanted || !self.intact(message) {
            return None;
        }
        let stream = (name >> 56) as usize * self.groups + group;
        let cursor = self.cursors.get_mut(stream)?;
        if phase == 0 {
            if !std::mem::replace(&mut cursor.heard, true) {
                self.unheard -= 1;
                if self.unheard == 0 {
                    println!("heard");
                }
            }
            return Some(());
        }
        if cursor.phase != phase {
            (cursor.phase, cursor.next) = (phase, 1);
        }
        let number = name & NUMBER_MASK;
        let expected = number == cursor.next;
        cursor.next = number + 1;
        self.count(phase, place & STAMP_MASK);
        expected.then_some(())
    }

    fn intact(&self, message: &[u8]) -> bool {
        let (length, pattern) = (message.len(), &self.pattern);
        if length != pattern.len() {
            return false;
        }
        if length < HEADER + TAIL {
            return message[HEADER..] == pattern[HEADER..];
        }
        message[length - TAIL..] == message[..TAIL]
            && message[HEADER..length - TAIL] == pattern[HEADER..length - TAIL]
    }

    fn count(&mut self, phase: u64, stamp: u64) {
        let tally = &self.tally;
        if stamp != 0 || self.since_clock.is_multiple_of(CLOCK_EVERY) {
            let now = now_ns();
            tally.last_ns.store(now, Ordering::Relaxed);
            if stamp != 0 {
                tally
                    .histogram
                    .add(phase, now.wrapping_sub(stamp) & STAMP_MASK);
            }
        }
        self.since_clock += 1;
        // No other thread writes: no locked instruction.
        let messages = &tally.messages[phase as usize];
        messages.store(messages.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

fn word(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|word| u64::from_le_bytes(*word))
}

/// The receiver's side of the dialogue, while another thread feeds the verifier.
///
/// # Errors
/// A broken standard input.
pub(crate) fn run_receiver(tally: &Tally) -> Result<(), Failure> {
    println!("ready");
    for line in std::io::stdin().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["await", phase, goal] = words[..] else {
            break;
        };
        tally.wait(phase.parse()?, goal.parse()?);
    }
    Ok(())
}

impl Tally {
    fn wait(&self, phase: u64, goal: u64) {
        let messages = &self.messages[phase as usize];
        let (mut seen, mut progress) = (0, now_ns());
        loop {
            let count = messages.load(Ordering::Acquire);
            let now = now_ns();
            if count >= goal || now - progress > PATIENCE_NS {
                break;
            }
            if count != seen {
                (seen, progress) = (count, now);
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        let count = messages.load(Ordering::Acquire);
        let (wrong, last) = (&self.wrong, &self.last_ns);
        println!(
            "received {{\"messages\":{count},\"wrong\":{},\"last_ns\":{}{}}}",
            wrong.load(Ordering::Relaxed),
            last.load(Ordering::Relaxed),
            self.histogram.report(phase, count)
        );
    }
}

const FINE_BITS: u32 = 6;
const FINE: u64 = 1 << FINE_BITS;

/// Latencies in buckets of at most 1/64 relative width.
#[derive(Debug)]
struct Histogram {
    buckets: Vec<AtomicU64>,
    max: AtomicU64,
    phase: AtomicU64,
}

impl Histogram {
    fn new() -> Self {
        Self {
            buckets: (0..STAMP_BITS as u64 * FINE)
                .map(|_| AtomicU64::new(0))
                .collect(),
            max: AtomicU64::new(0),
            phase: AtomicU64::new(0),
        }
    }

    /// A new phase begins anew.
    fn add(&self, phase: u64, latency: u64) {
        if self.phase.load(Ordering::Relaxed) != phase {
            for bucket in &self.buckets {
                bucket.store(0, Ordering::Relaxed);
            }
            self.max.store(0, Ordering::Relaxed);
            self.phase.store(phase, Ordering::Relaxed);
        }
        self.buckets[Self::bucket(latency)].fetch_add(1, Ordering::Relaxed);
        self.max.fetch_max(latency, Ordering::Relaxed);
    }

    fn bucket(value: u64) -> usize {
        if value < FINE {
            return value as usize;
        }
        let shift = 63 - value.leading_zeros() - FINE_BITS;
        ((u64::from(shift) << FINE_BITS) + (value >> shift)) as usize
    }

    /// The upper end of a bucket.
    fn value(bucket: u64) -> u64 {
        if bucket < 2 * FINE {
            return bucket;
        }
        let shift = (bucket >> FINE_BITS) - 1;
        (bucket - (shift << FINE_BITS) + 1) << shift
    }

    fn quantile_us(&self, count: u64, share: f64) -> f64 {
        let rank = (count as f64 * share) as u64;
        let mut seen = 0;
        for (index, bucket) in (0..).zip(&self.buckets) {
            seen += bucket.load(Ordering::Relaxed);
            if seen > rank {
                return Self::value(index) as f64 / 1e3;
            }
        }
        self.max.load(Ordering::Relaxed) as f64 / 1e3
    }

    fn report(&self, phase: u64, count: u64) -> String {
        if self.phase.load(Ordering::Relaxed) != phase {
            return String::new();
        }
        format!(
            ",\"p50_us\":{:.1},\"p99_us\":{:.1},\"p999_us\":{:.1},\"max_us\":{:.1}",
            self.quantile_us(count, 0.5),
            self.quantile_us(count, 0.99),
            self.quantile_us(count, 0.999),
            self.max.load(Ordering::Relaxed) as f64 / 1e3
        )
    }
}

/// The monotonic clock, which all processes of a machine share, nanoseconds.
#[must_use]
pub(crate) fn now_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: clock_gettime only writes into the timespec given.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(payload: usize) -> Options {
        let words = format!("receive --senders 127.0.0.1 --groups 2 --payload {payload}");
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        Options::parse(&words).expect("the options are right")
    }

    fn message(source: &mut Source, phase: u64) -> Vec<u8> {
        let mut message = Vec::new();
        source.write(phase, 0, &mut message);
        message
    }

    fn counted(verifier: &Verifier) -> (u64, u64) {
        let tally = verifier.tally();
        let messages = tally.messages[1].load(Ordering::Relaxed);
        (messages, tally.wrong.load(Ordering::Relaxed))
    }

    #[test]
    fn messages_in_order_are_right_in_each_group() {
        for payload in [16, 20, 24, 1000] {
            let mut sources = Source::all(&options(payload));
            let mut verifier = Verifier::new(&options(payload));
            for group in [0, 1, 1, 0] {
                verifier.deliver(&message(&mut sources[group], 1));
            }
            assert_eq!(counted(&verifier), (4, 0), "payload {payload}");
        }
    }

    #[test]
    fn gaps_and_repetitions_are_wrong() {
        let mut source = Source::all(&options(100)).remove(0);
        let mut verifier = Verifier::new(&options(100));
        let messages: Vec<Vec<u8>> = (0..3).map(|_| message(&mut source, 1)).collect();
        verifier.deliver(&messages[0]);
        verifier.deliver(&messages[2]);
        assert_eq!(counted(&verifier), (2, 1), "a gap");
        verifier.deliver(&messages[2]);
        assert_eq!(counted(&verifier), (3, 2), "a repetition");
    }

    #[test]
    fn rare_groups_get_a_hundredth_and_who_does_not_want_one_must_not_get_it() {
        let line = "receive --senders 127.0.0.1 --groups 5 --common 2 --wants 3 --payload 100";
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let options = Options::parse(&words).expect("the options are right");
        assert_eq!(options.wanted(), [0, 1, 3]);
        let mut turns = Turns::new(&options);
        let mut counts = [0; 5];
        for _ in 0..600 {
            counts[turns.take()] += 1;
        }
        assert_eq!(counts, [297, 297, 2, 2, 2]);
        let mut sources = Source::all(&options);
        let mut verifier = Verifier::new(&options);
        for group in [0, 3] {
            verifier.deliver(&message(&mut sources[group], 1));
        }
        assert_eq!(counted(&verifier), (2, 0));
        verifier.deliver(&message(&mut sources[4], 1));
        assert_eq!(counted(&verifier), (2, 1), "not wanted");
        let all = Options {
            common: 5,
            ..options
        };
        let mut turns = Turns::new(&all);
        let taken: Vec<usize> = (0..6).map(|_| turns.take()).collect();
        assert_eq!(taken, [0, 1, 2, 3, 4, 0], "none is rare");
    }

    #[test]
    fn any_damaged_byte_is_wrong() {
        for payload in [16, 20, 100] {
            let whole = message(&mut Source::all(&options(payload)).remove(0), 1);
            // The stamp may be anything; the last byte of the word is the group's.
            for at in (0..8).chain([15]).chain(16..payload) {
                let mut damaged = whole.clone();
                damaged[at] ^= 0x40;
                let mut verifier = Verifier::new(&options(payload));
                verifier.deliver(&damaged);
                let right = verifier.tally.messages[1].load(Ordering::Relaxed) == 1;
                let wrong = verifier.tally.wrong.load(Ordering::Relaxed) == 1;
                // A short message has no copy of its name: another phase is another message.
                let other_phase = payload < HEADER + TAIL && at == 6;
                assert!(wrong || other_phase && !right, "byte {at} of {payload}");
            }
            let mut verifier = Verifier::new(&options(payload));
            verifier.deliver(&whole[..payload - 1]);
            assert_eq!(counted(&verifier), (0, 1), "a short one");
        }
    }

    #[test]
    fn quantiles_are_within_a_bucket() {
        let histogram = Histogram::new();
        for latency in 1..=100_000u64 {
            histogram.add(1, latency * 100);
        }
        for share in [0.5, 0.99, 0.999] {
            let exact = share * 100_000.0 * 0.1;
            let found = histogram.quantile_us(100_000, share);
            let error = (found - exact) / exact;
            assert!(
                (-0.001..0.02).contains(&error),
                "{share}: {found} for {exact}"
            );
        }
    }
}
