//! Copies of datagrams for many receivers of unicast, in few system calls.
//!
//! ```text
//!   stage   | datagram | train of datagrams | ...   bytes, once
//!   post    datagram → a, datagram → b, ...         letters
//!   send    a: datagram datagram │ b: ...           one message of `sendmmsg` for each receiver's run
//! ```
//!
//! Letters wait until they are sent together. Those for one receiver then stand one behind the other, in the order in
//! which they were posted, and runs of them of one length leave as trains (UDP GSO), as far as the kernel takes them; so
//! do those that were staged as trains. Datagrams of a train have the same codepoint of ECN.

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;
use std::time::Duration;

use crate::address::Raw;
use crate::control::Control;
use crate::copier::Copier;
use crate::counters::SendCounters;
use crate::error::SendFailure;
use crate::send::TRAIN_MAX;
use crate::socket;
use crate::sys;

/// Messages of one system call.
const MESSAGES: usize = 64;
/// Pieces of memory of one system call.
const VECTORS: usize = 256;
/// Longest datagram of a train: with its headers it passes an Ethernet. Longer ones travel in fragments of IP, alone.
const SEGMENT_MAX: usize = 1452;
/// Longest train, bytes: with its headers it is one packet of IP.
const TRAIN_BYTES_MAX: usize = 65_000;
/// Bytes and letters beyond which no more should wait.
const STAGED_MAX: usize = 256 << 10;
const LETTERS_MAX: usize = 1024;
/// Receivers of the same bytes for which the kernel clones them, where it is asked to; fewer go by the socket.
const CLONED_MIN: usize = 4;
/// Time for which the socket's buffer may keep those up that send, once in a call.
const PATIENCE: Duration = Duration::from_millis(1);
/// Room for two control messages.
const CONTROL_BYTES: usize = 48;
/// The codepoint CE, which has come with a datagram that goes on.
const CE: u8 = 3;

/// Place of staged bytes: of a datagram, or of a train of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staged {
    from: usize,
    to: usize,
    /// Bytes of a datagram; the last one may be shorter.
    segment: usize,
    /// The two bits of ECN in the header of IP.
    ecn: u8,
}

impl Staged {
    /// The same, to be sent with these two bits of ECN in the header of IP (RFC 3168), in the place of 0.
    #[must_use]
    pub fn with_ecn(self, bits: u8) -> Self {
        let ecn = bits & CE;
        Self { ecn, ..self }
    }

    fn range(self) -> Range<usize> {
        self.from..self.to
    }

    fn bytes(self) -> usize {
        self.to - self.from
    }

    fn datagrams(self) -> usize {
        self.bytes().div_ceil(self.segment.max(1)).max(1)
    }

    /// Its datagrams, so many at a time.
    fn parts(self, datagrams: usize) -> impl Iterator<Item = Self> {
        let step = datagrams * self.segment;
        (0..self.datagrams().div_ceil(datagrams)).map(move |number| {
            let from = self.from + number * step;
            let to = self.to.min(from + step);
            Self { from, to, ..self }
        })
    }
}

/// A datagram for a receiver.
#[derive(Clone, Copy, Debug)]
struct Letter {
    to: SocketAddr,
    what: Staged,
}

/// Datagrams that wait to be sent by one socket.
#[derive(Debug)]
pub struct Mailing {
    staged: Vec<u8>,
    letters: Vec<Letter>,
    /// More than one piece of bytes is staged, so that a receiver may get several.
    several: bool,
    trains: bool,
    copier: Option<Copier>,
    counters: SendCounters,
}

impl Mailing {
    /// Prepares a socket: asks for so large a send buffer, of which it gets what the system allows.
    #[must_use]
    pub fn new(socket: impl AsFd, buffer_bytes: usize) -> Self {
        let fd = socket.as_fd();
        // It works with less, too.
        socket::ask_send_buffer(fd, buffer_bytes).unwrap_or_default();
        Self {
            staged: Vec::new(),
            letters: Vec::new(),
            several: false,
            trains: socket::kernel_has_gso(fd),
            copier: None,
            counters: SendCounters::default(),
        }
    }

    /// Has the kernel clone what goes to many, from now on. Returns the device that clones start from.
    ///
    /// # Errors
    /// Why it cannot be had here, and what to do.
    pub fn clone_copies(&mut self, socket: impl AsFd) -> Result<String, String> {
        let fd = socket.as_fd();
        let local = sys::local_addr(fd).map_err(|error| format!("no address: {error}"))?;
        if local.ip().is_unspecified() {
            return Err(
                "clones need one address to come from: listen at one of this host".to_owned(),
            );
        }
        let copier = Copier::open(fd, local)?;
        let device = copier.device();
        self.copier = Some(copier);
        Ok(device)
    }

    /// Keeps a datagram's bytes until the next [`Mailing::send`].
    pub fn stage(&mut self, bytes: &[u8]) -> Staged {
        self.stage_train(bytes, bytes.len())
    }

    /// Keeps datagrams of so many bytes each, of which the last may be shorter.
    pub fn stage_train(&mut self, bytes: &[u8], segment: usize) -> Staged {
        let from = self.staged.len();
        self.several |= from > 0;
        self.staged.extend_from_slice(bytes);
        let to = self.staged.len();
        Staged {
            from,
            to,
            segment,
            ecn: 0,
        }
    }

    /// Has it sent to a receiver. The bytes were staged since the last [`Mailing::send`].
    pub fn post(&mut self, to: SocketAddr, what: Staged) {
        let fit = TRAIN_BYTES_MAX / what.segment.max(1);
        let datagrams = match self.trains {
            true => fit.clamp(1, TRAIN_MAX),
            false => 1,
        };
        let letters = what.parts(datagrams).map(|what| Letter { to, what });
        self.letters.extend(letters);
    }

    /// Tells whether so much waits that it should be sent.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.staged.len() >= STAGED_MAX || self.letters.len() >= LETTERS_MAX
    }

    /// Sends all that waits. One that does not go out is lost, as in a network; it is counted, and holds up nobody else.
    pub fn send(&mut self, socket: impl AsFd) {
        let fd = socket.as_fd();
        let mut letters = mem::take(&mut self.letters);
        if let Some(copier) = self.copier.take() {
            letters = self.clone_letters(letters, copier);
        }
        if self.several {
            letters.sort_by_key(|letter| letter.to);
        }
        let mut patience = Some(PATIENCE);
        let mut done = 0;
        while done < letters.len() {
            done += self.send_batch(fd, &letters[done..], &mut patience);
        }
        letters.clear();
        self.letters = letters;
        self.staged.clear();
        self.several = false;
    }

    /// Counters since it was made.
    #[must_use]
    pub fn counters(&self) -> SendCounters {
        self.counters
    }

    /// Has cloned what goes to many. Returns what is left: that goes by the socket.
    fn clone_letters(&mut self, letters: Vec<Letter>, mut copier: Copier) -> Vec<Letter> {
        let mut left = Vec::new();
        let mut to = Vec::new();
        let mut rest = &letters[..];
        while let Some(first) = rest.first() {
            let copies = copies(rest);
            let (train, times) = same_receivers(rest, copies);
            let (these, behind) = rest.split_at(copies * times);
            rest = behind;
            let segment = u16::try_from(first.what.segment).unwrap_or(0);
            // Clones have no codepoint, and a mark is to go on.
            if copies < CLONED_MIN || segment == 0 || train.ecn == CE {
                left.extend_from_slice(these);
                continue;
            }
            to.clear();
            to.extend(these[..copies].iter().map(|letter| letter.to));
            self.counters.calls += 1;
            let missed = copier.send(&to, &self.staged[train.range()], segment);
            let cloned = (copies - missed.len()) as u64;
            let missed = these.iter().filter(|letter| missed.contains(&letter.to));
            left.extend(missed);
            self.counters.cloned += cloned;
            self.counters.datagrams += cloned * train.datagrams() as u64;
            self.counters.bytes += cloned * train.bytes() as u64;
        }
        self.copier = Some(copier);
        left
    }

    /// Sends the first of these letters by one call. Returns how many are dealt with.
    fn send_batch(
        &mut self,
        fd: BorrowedFd<'_>,
        letters: &[Letter],
        patience: &mut Option<Duration>,
    ) -> usize {
        let mut runs = [0; MESSAGES];
        let count = self.cut(letters, &mut runs);
        let runs = &runs[..count];
        self.counters.calls += 1;
        match give(fd, &self.staged, letters, runs) {
            Ok(taken) => {
                let mut rest = letters;
                for run in &runs[..taken] {
                    let (sent, behind) = rest.split_at(*run);
                    self.count(sent);
                    rest = behind;
                }
                letters.len() - rest.len()
            }
            Err(error) => self.failed(fd, &error, &letters[..runs[0]], patience),
        }
    }

    /// Deals with the error of a message. Returns how many of its letters are dealt with: none if it is to be tried again.
    fn failed(
        &mut self,
        fd: BorrowedFd<'_>,
        error: &io::Error,
        letters: &[Letter],
        patience: &mut Option<Duration>,
    ) -> usize {
        let is_train = letters.len() > 1 || letters[0].what.datagrams() > 1;
        match error.raw_os_error() {
            Some(libc::EINTR) => return 0,
            Some(libc::EAGAIN) => {
                self.counters.errors.would_block += 1;
                if let Some(limit) = patience.take() {
                    // The next try tells whether there is room.
                    sys::poll_writable(fd, limit).unwrap_or_default();
                    return 0;
                }
            }
            Some(number @ (libc::EIO | libc::EINVAL | libc::EMSGSIZE)) if is_train => {
                let passed = self.send_singly(fd, letters);
                // A path that is narrower is a matter of this receiver; else the train was at fault.
                if passed > 0 && number != libc::EMSGSIZE {
                    self.counters.errors.trains_refused += 1;
                    self.trains = false;
                }
            }
            _ => self.counters.errors.count(SendFailure::of(error)),
        }
        letters.len()
    }

    /// Sends the letters of a train one by one. Returns how many passed.
    fn send_singly(&mut self, fd: BorrowedFd<'_>, letters: &[Letter]) -> usize {
        let mut passed = 0;
        let singly = |letter: &Letter| {
            let to = letter.to;
            letter.what.parts(1).map(move |what| Letter { to, what })
        };
        for letter in letters.iter().flat_map(singly) {
            self.counters.calls += 1;
            match give(fd, &self.staged, &[letter], &[1]) {
                Ok(_) => {
                    passed += 1;
                    self.count(&[letter]);
                }
                Err(error) => self.counters.errors.count(SendFailure::of(&error)),
            }
        }
        passed
    }

    /// Cuts the first letters into messages: the numbers of their letters. Returns how many messages there are.
    fn cut(&self, letters: &[Letter], runs: &mut [usize; MESSAGES]) -> usize {
        let (mut count, mut vectors) = (0, 0);
        while count < MESSAGES && vectors < letters.len() && vectors < VECTORS {
            runs[count] = self.run(&letters[vectors..]).min(VECTORS - vectors);
            vectors += runs[count];
            count += 1;
        }
        count
    }

    /// Number of the first letters that make a train: for one receiver, all datagrams of one length but for a shorter last
    /// one.
    fn run(&self, letters: &[Letter]) -> usize {
        let Letter { to, what } = letters[0];
        let segment = what.segment;
        if !self.trains || segment == 0 || segment > SEGMENT_MAX {
            return 1;
        }
        let most = TRAIN_BYTES_MAX.min(segment * TRAIN_MAX);
        let (mut count, mut bytes) = (0, 0);
        for letter in letters {
            let own = letter.what.bytes();
            let is_last = own > 0 && own < segment;
            bytes += own;
            let fits = (letter.what.segment == segment || is_last) && bytes <= most;
            if letter.to != to || letter.what.ecn != what.ecn || !fits {
                break;
            }
            count += 1;
            if !bytes.is_multiple_of(segment) {
                break;
            }
        }
        count.max(1)
    }

    /// Takes note of a message that was sent.
    fn count(&mut self, letters: &[Letter]) {
        let bytes = letters.iter().map(|letter| letter.what.bytes());
        let datagrams = letters.iter().map(|letter| letter.what.datagrams());
        let datagrams = datagrams.sum::<usize>() as u64;
        self.counters.bytes += bytes.sum::<usize>() as u64;
        self.counters.datagrams += datagrams;
        self.counters.trains += u64::from(datagrams > 1);
    }
}

/// Writes the length of a train's datagrams and the codepoint of ECN, where there are any. Returns their bytes.
fn write_controls(
    control: &mut Control<CONTROL_BYTES>,
    segment: Option<usize>,
    ecn: u8,
    to: SocketAddr,
) -> usize {
    let length = segment.map_or(0, |segment| control.put_segment(0, segment));
    if ecn == 0 {
        return length;
    }
    // What is for an address of IPv4 that IPv6 maps leaves as IPv4.
    let is_v4 = match to {
        SocketAddr::V4(_) => true,
        SocketAddr::V6(to) => to.ip().to_ipv4_mapped().is_some(),
    };
    let (level, kind) = match is_v4 {
        true => (libc::IPPROTO_IP, libc::IP_TOS),
        false => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    };
    control.put(length, level, kind, libc::c_int::from(ecn))
}

/// Number of the first letters that are of the same bytes.
fn copies(letters: &[Letter]) -> usize {
    let same = letters.chunk_by(|one, other| one.what == other.what);
    same.map(<[Letter]>::len).next().unwrap_or(0)
}

/// Bytes that the first letters' receivers get as one train, and how many times as many letters they are of.
fn same_receivers(letters: &[Letter], copies: usize) -> (Staged, usize) {
    let mut train = letters[0].what;
    let most = TRAIN_BYTES_MAX.min(train.segment * TRAIN_MAX);
    let mut times = 1;
    for next in letters.chunks_exact(copies).skip(1) {
        let what = next[0].what;
        let alike = what.segment == train.segment && what.ecn == train.ecn;
        let behind = what.from == train.to && alike;
        let full = train.bytes().is_multiple_of(train.segment.max(1));
        let fits = what.to - train.from <= most;
        let same = |(one, other): (&Letter, &Letter)| one.to == other.to && other.what == what;
        if !(behind && full && fits && letters.iter().zip(next).all(same)) {
            break;
        }
        train.to = what.to;
        times += 1;
    }
    (train, times)
}

/// Gives messages of so many letters each to the kernel; returns how many messages it took.
fn give(
    fd: BorrowedFd<'_>,
    staged: &[u8],
    letters: &[Letter],
    runs: &[usize],
) -> io::Result<usize> {
    let mut names = [Raw::EMPTY; MESSAGES];
    let mut controls = [Control::EMPTY; MESSAGES];
    let mut vectors = [libc::iovec {
        iov_base: ptr::null_mut(),
        iov_len: 0,
    }; VECTORS];
    // SAFETY: mmsghdr is plain data, for which zero is valid.
    let mut messages: [libc::mmsghdr; MESSAGES] = unsafe { mem::zeroed() };
    let mut at = 0;
    for (number, run) in runs.iter().enumerate() {
        let letters = &letters[at..at + run];
        let vectors = &mut vectors[at..at + run];
        at += run;
        for (vector, letter) in vectors.iter_mut().zip(letters) {
            let bytes = &staged[letter.what.range()];
            vector.iov_base = bytes.as_ptr().cast_mut().cast();
            vector.iov_len = bytes.len();
        }
        let header = &mut messages[number].msg_hdr;
        let Letter { to, what } = letters[0];
        names[number] = Raw::scoped(to);
        header.msg_name = ptr::from_mut(&mut names[number]).cast();
        header.msg_namelen = names[number].bytes();
        header.msg_iov = vectors.as_mut_ptr();
        header.msg_iovlen = sys::fit(*run);
        let is_train = *run > 1 || what.datagrams() > 1;
        let segment = is_train.then_some(what.segment);
        let length = write_controls(&mut controls[number], segment, what.ecn, to);
        if length > 0 {
            header.msg_control = controls[number].as_mut_ptr();
            header.msg_controllen = sys::fit(length);
        }
    }
    // SAFETY: each message points to its name, its vectors over parts of `staged`, and perhaps its control message; all
    // outlive the call, and the kernel only reads them. The call goes past the C library, as in `send.rs`.
    let taken = unsafe {
        libc::syscall(
            libc::SYS_sendmmsg,
            fd.as_raw_fd(),
            messages.as_mut_ptr(),
            runs.len() as libc::c_uint,
            libc::MSG_DONTWAIT,
        )
    };
    usize::try_from(taken).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::intake::Intake;

    /// Sockets of a sender and of some receivers, and what is to be sent by the first.
    struct Trial {
        from: UdpSocket,
        mailing: Mailing,
        to: Vec<(UdpSocket, Intake)>,
    }

    impl Trial {
        fn new(receivers: usize) -> Self {
            let open = || UdpSocket::bind("127.0.0.1:0").unwrap();
            let from = open();
            from.set_nonblocking(true).unwrap();
            let receiver = |_| {
                let socket = open();
                let intake = Intake::new(&socket, 1 << 20);
                (socket, intake)
            };
            Self {
                mailing: Mailing::new(&from, 1 << 20),
                from,
                to: (0..receivers).map(receiver).collect(),
            }
        }

        fn address(&self, receiver: usize) -> SocketAddr {
            self.to[receiver].0.local_addr().unwrap()
        }

        /// Has a datagram of so many bytes, all of this value, sent to all.
        fn post(&mut self, value: u8, bytes: usize) {
            let staged = self.mailing.stage(&vec![value; bytes]);
            for receiver in 0..self.to.len() {
                let to = self.address(receiver);
                self.mailing.post(to, staged);
            }
        }

        /// Sends, and collects what comes to a receiver: first bytes and lengths. Over loopback all has come when the call
        /// returns.
        fn came(&mut self, receiver: usize) -> Vec<(u8, usize)> {
            self.mailing.send(&self.from);
            let (socket, intake) = &mut self.to[receiver];
            let mut came = Vec::new();
            intake.look_again();
            while intake.next(&*socket).is_some() {
                let datagram = intake.datagram();
                came.push((datagram[0], datagram.len()));
            }
            came
        }
    }

    #[test]
    fn copies_of_a_datagram_go_to_all_in_few_calls() {
        let mut trial = Trial::new(150);
        trial.post(1, 4000);
        for receiver in 0..150 {
            assert_eq!(trial.came(receiver), [(1, 4000)]);
        }
        let counters = trial.mailing.counters();
        assert_eq!((counters.calls, counters.datagrams), (3, 150));
        assert_eq!((counters.trains, counters.bytes), (0, 600_000));
    }

    #[test]
    fn what_one_receiver_gets_keeps_its_order_and_leaves_in_trains() {
        let mut trial = Trial::new(3);
        let lengths = [100, 100, 100, 50, 100, 2000, 2000, 0, 100, 100, 200];
        for (value, bytes) in lengths.iter().enumerate() {
            if *bytes > 0 {
                trial.post(value as u8, *bytes);
            }
        }
        let sent = lengths.iter().enumerate().filter(|(_, bytes)| **bytes > 0);
        let sent: Vec<_> = sent.map(|(value, bytes)| (value as u8, *bytes)).collect();
        for receiver in 0..3 {
            assert_eq!(trial.came(receiver), sent);
        }
        let counters = trial.mailing.counters();
        assert_eq!((counters.calls, counters.datagrams), (1, 30));
        // Four of a length, the last of them shorter; and two.
        assert_eq!(counters.trains, 6);
    }

    #[test]
    fn a_train_is_a_train_and_where_there_are_none_its_datagrams_go_one_by_one() {
        for trains in [true, false] {
            let mut trial = Trial::new(2);
            trial.mailing.trains &= trains;
            let staged = trial.mailing.stage_train(&[5; 2500], 1209);
            for receiver in 0..2 {
                let to = trial.address(receiver);
                trial.mailing.post(to, staged);
            }
            for receiver in 0..2 {
                assert_eq!(trial.came(receiver), [(5, 1209), (5, 1209), (5, 82)]);
            }
            let counters = trial.mailing.counters();
            assert_eq!((counters.calls, counters.datagrams), (1, 6));
            assert_eq!(counters.trains, if trains { 2 } else { 0 });
        }
    }

    #[test]
    fn trains_of_one_length_for_one_receiver_leave_as_one() {
        let mut trial = Trial::new(2);
        for value in 0..20 {
            let staged = trial.mailing.stage_train(&[value; 4000], 1000);
            for receiver in 0..2 {
                let to = trial.address(receiver);
                trial.mailing.post(to, staged);
            }
        }
        let sent: Vec<_> = (0..80).map(|number| (number / 4, 1000)).collect();
        for receiver in 0..2 {
            assert_eq!(trial.came(receiver), sent);
        }
        let counters = trial.mailing.counters();
        assert_eq!((counters.calls, counters.datagrams), (1, 160));
        assert_eq!(counters.trains, 4, "of 64 datagrams at most");
    }

    #[test]
    fn a_train_that_is_too_long_for_a_packet_leaves_as_two() {
        let mut trial = Trial::new(1);
        let staged = trial.mailing.stage_train(&[5; 70_000], 1000);
        let to = trial.address(0);
        trial.mailing.post(to, staged);
        assert_eq!(trial.came(0), [(5, 1000); 70]);
        assert_eq!(trial.mailing.counters().trains, 2);
    }

    #[test]
    fn who_cannot_be_sent_to_holds_up_nobody_and_is_counted() {
        let mut trial = Trial::new(2);
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let other_family = "[::1]:9".parse().unwrap();
        for value in 0..3 {
            let staged = trial.mailing.stage(&[value; 100]);
            for to in [nowhere, trial.address(0), other_family, trial.address(1)] {
                trial.mailing.post(to, staged);
            }
        }
        for receiver in 0..2 {
            assert_eq!(trial.came(receiver), [(0, 100), (1, 100), (2, 100)]);
        }
        let counters = trial.mailing.counters();
        assert_eq!(counters.datagrams, 6);
        // Three that may be a train's fault, and one.
        assert_eq!(counters.errors.other, 4);
        assert_eq!(counters.errors.trains_refused, 0);
        assert!(
            trial.mailing.trains,
            "what failed alone, too, is no fault of trains"
        );
    }

    #[test]
    fn codepoints_come_as_they_were_sent_and_trains_are_of_one() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let mut trial = Trial::new(0);
            trial.from = UdpSocket::bind(address).unwrap();
            trial.from.set_nonblocking(true).unwrap();
            let near = match address {
                "[::]:0" => "127.0.0.1:0",
                own => own,
            };
            let socket = UdpSocket::bind(near).unwrap();
            let intake = Intake::new(&socket, 1 << 20);
            let to = match socket.local_addr().unwrap() {
                SocketAddr::V4(to) if address == "[::]:0" => {
                    SocketAddr::from((to.ip().to_ipv6_mapped(), to.port()))
                }
                to => to,
            };
            trial.to.push((socket, intake));
            let bits = [0, 2, 2, 3, 3, 0, 2, 1];
            for (value, ecn) in (0..).zip(bits) {
                let staged = trial.mailing.stage(&[value; 100]).with_ecn(ecn);
                trial.mailing.post(to, staged);
            }
            trial.mailing.send(&trial.from);
            let (socket, intake) = &mut trial.to[0];
            let mut came = Vec::new();
            intake.look_again();
            while intake.next(&*socket).is_some() {
                came.push((intake.datagram()[0], intake.ecn()));
            }
            let sent: Vec<(u8, u8)> = (0..).zip(bits).collect();
            assert_eq!(came, sent, "{address}");
            let counters = intake.ecn_counters();
            assert_eq!((counters.capable, counters.marked), (5, 2), "{address}");
            assert_eq!((counters.unread, counters.dropped), (0, 0));
            assert_eq!(trial.mailing.counters().trains, 2, "{address}");
        }
    }

    #[test]
    fn a_datagram_that_is_too_long_is_lost_alone() {
        let mut trial = Trial::new(1);
        trial.post(1, 100);
        trial.post(2, 70_000);
        trial.post(3, 100);
        assert_eq!(trial.came(0), [(1, 100), (3, 100)]);
        assert_eq!(trial.mailing.counters().errors.too_large, 1);
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut mailing = Trial::new(0).mailing;
        assert!(!mailing.is_full());
        mailing.stage(&[0; STAGED_MAX]);
        assert!(mailing.is_full());
        let mut trial = Trial::new(1);
        let staged = trial.mailing.stage(&[1; 10]);
        let to = trial.address(0);
        (0..LETTERS_MAX).for_each(|_| trial.mailing.post(to, staged));
        assert!(trial.mailing.is_full());
        trial.mailing.send(&trial.from);
        assert!(!trial.mailing.is_full());
    }
}
