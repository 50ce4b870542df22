//! Which back-end is the fastest here: measured, not guessed.
//!
//! Every back-end sends the same small group a few times, and two figures are fitted: what a call
//! costs and what a recipient costs. Where a tap device may be made, all of them send to a tap that
//! nobody reads, so that nothing leaves the machine and all meet the same device. Without the
//! privilege they send over loopback to a socket that nobody reads; cloning is out then anyway.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Instant;

use crate::backend::{BackEnd, Call, Portable, Unavailable};
use crate::clone::Cloner;
use crate::error::Errno;
use crate::message::Message;
use crate::recipient::{Recipient, Recipients};
use crate::socket::{Faults, Socket};

/// Recipients of the smaller and of the larger group.
const GROUPS: [usize; 2] = [2, 64];
/// Rounds; the median counts.
const ROUNDS: usize = 15;
/// Rounds before those, in which connected sockets are made.
const ROUNDS_BEFORE: usize = 6;
const PAYLOAD_BYTES: usize = 1000;
/// A back-end must be faster than a plainer one by this much: less is noise.
const MARGIN: f64 = 0.95;

/// What sending costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Nanoseconds for each call.
    pub call_ns: f64,
    /// Nanoseconds for each recipient of 1,000 bytes.
    pub recipient_ns: f64,
}

impl Cost {
    /// Nanoseconds for a group of this size.
    #[must_use]
    pub fn of_group(&self, recipients: usize) -> f64 {
        self.call_ns + self.recipient_ns * recipients as f64
    }
}

/// The outcome of the calibration.
#[derive(Debug)]
pub struct Choice {
    /// What is used.
    pub back_end: BackEnd,
    /// What is used for recipients that cannot be cloned to: the fastest of those by the socket.
    pub portable: BackEnd,
    /// Groups from this many recipients on are cloned to; smaller ones are cheaper by the socket.
    pub clone_from: usize,
    /// What was found out about each back-end: its cost, or why it cannot be had.
    pub candidates: Vec<(BackEnd, Result<Cost, Unavailable>)>,
}

impl Choice {
    pub(crate) fn asked_for(back_end: BackEnd) -> Self {
        let portable = match back_end {
            BackEnd::Clone => BackEnd::Batch,
            BackEnd::Loop
            | BackEnd::Batch
            | BackEnd::Ring
            | BackEnd::RingZeroCopy
            | BackEnd::Connected => back_end,
        };
        Self {
            back_end,
            portable,
            clone_from: 2,
            candidates: Vec::new(),
        }
    }

    /// The cost that was measured for a back-end.
    #[must_use]
    pub fn cost(&self, back_end: BackEnd) -> Option<Cost> {
        let found = self.candidates.iter().find(|(name, _)| *name == back_end)?;
        found.1.as_ref().ok().copied()
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.candidates.is_empty() {
            return write!(f, "{}, as asked for", self.back_end);
        }
        write!(f, "{}: the fastest of those to be had", self.back_end)?;
        if self.back_end == BackEnd::Clone {
            write!(f, ", for groups from {}", self.clone_from)?;
        }
        for (back_end, found) in &self.candidates {
            match found {
                Ok(cost) => write!(
                    f,
                    "\n  {back_end:<12} {:>6.0} ns per call, {:>6.0} ns per recipient",
                    cost.call_ns, cost.recipient_ns
                )?,
                Err(reason) => write!(f, "\n  {back_end:<12} not available: {reason}")?,
            }
        }
        Ok(())
    }
}

/// Measures all back-ends and chooses.
pub(crate) fn choose(sockets: &[Socket]) -> Choice {
    let cloner = Cloner::new(sockets);
    let device = cloner
        .as_ref()
        .ok()
        .and_then(Cloner::device)
        .map(str::to_owned);
    let range = Range::new(device.as_deref());
    let mut candidates = portables(range.as_ref());
    let clone = cloner.map(|mut cloner| cloner.calibrate(GROUPS, ROUNDS, PAYLOAD_BYTES));
    candidates.push((BackEnd::Clone, clone));
    decide(candidates)
}

/// Measures those that need no privileges. They take turns, so that what disturbs the machine
/// disturbs them alike.
fn portables(range: Option<&Range>) -> Vec<(BackEnd, Result<Cost, Unavailable>)> {
    let Some(range) = range else {
        // Without a socket to try on, the plain loop is what remains.
        let nothing = Cost {
            call_ns: 0.0,
            recipient_ns: 0.0,
        };
        return vec![(BackEnd::Loop, Ok(nothing))];
    };
    let all = BackEnd::ALL.into_iter().filter(|b| *b != BackEnd::Clone);
    let made = all.map(|back_end| (back_end, Portable::new(back_end)));
    let (mut ready, mut candidates) = (Vec::new(), Vec::new());
    for (back_end, made) in made {
        match made {
            Ok(portable) => ready.push((back_end, portable)),
            Err(reason) => candidates.push((back_end, Err(reason))),
        }
    }
    let message = Message::new(&[0; PAYLOAD_BYTES]);
    let costs = measure(GROUPS, ROUNDS, ready.len(), |which, group| {
        range.send(&mut ready[which].1, &message, &mut vec![Errno::SENT; group]);
    });
    let names = ready.iter().map(|(back_end, _)| *back_end);
    candidates.extend(names.zip(costs.into_iter().map(Ok)));
    candidates.sort_by_key(|(back_end, _)| *back_end);
    candidates
}

fn decide(candidates: Vec<(BackEnd, Result<Cost, Unavailable>)>) -> Choice {
    let cost = |back_end| {
        let found = candidates.iter().find(|(name, _)| *name == back_end);
        found.and_then(|(_, found)| found.as_ref().ok()).copied()
    };
    let mut portable = BackEnd::Loop;
    for back_end in BackEnd::ALL {
        if back_end == BackEnd::Clone {
            continue;
        }
        if let (Some(new), Some(old)) = (cost(back_end), cost(portable))
            && new.of_group(GROUPS[1]) < old.of_group(GROUPS[1]) * MARGIN
        {
            portable = back_end;
        }
    }
    let mut choice = Choice {
        back_end: portable,
        portable,
        clone_from: 2,
        candidates: Vec::new(),
    };
    if let (Some(clone), Some(by_socket)) = (cost(BackEnd::Clone), cost(portable))
        && clone.recipient_ns < by_socket.recipient_ns
    {
        let saved = by_socket.recipient_ns - clone.recipient_ns;
        let lost = (clone.call_ns - by_socket.call_ns).max(0.0);
        choice.back_end = BackEnd::Clone;
        choice.clone_from = ((lost / saved).ceil() as usize).max(2);
    }
    choice.candidates = candidates;
    choice
}

/// Where back-ends are tried: a socket and destinations that swallow everything.
struct Range {
    socket: Socket,
    to: Vec<SocketAddr>,
    /// Keeps the destination's port taken.
    _sink: Option<UdpSocket>,
}

impl Range {
    fn new(device: Option<&str>) -> Option<Self> {
        let made = match device {
            Some(device) => Self::on_device(device),
            None => None,
        };
        made.or_else(Self::on_loopback)
    }

    /// A socket bound to a device: with no route by it, the kernel takes every address to be on
    /// its link.
    fn on_device(device: &str) -> Option<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
        let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
        let len = libc::socklen_t::try_from(device.len()).ok()?;
        // SAFETY: the pointer is to live memory of the length given.
        let bound = unsafe {
            libc::setsockopt(
                fd,
                libc::SOL_SOCKET,
                libc::SO_BINDTODEVICE,
                device.as_ptr().cast(),
                len,
            )
        };
        let range = Self {
            socket: (bound == 0).then(|| Socket::owned(socket).ok()).flatten()?,
            // Addresses set aside for measuring (RFC 2544).
            to: (1..=GROUPS[1])
                .map(|n| SocketAddr::new(Ipv4Addr::new(198, 18, 0, n as u8).into(), 9))
                .collect(),
            _sink: None,
        };
        // The reader-less tap drops what exceeds its queue; that must not count as an error.
        let level = libc::IPPROTO_IP;
        crate::sockopt::set_option(range.socket.fd(), level, libc::IP_RECVERR, 0).ok()?;
        let probe = Message::new(b"probe").flags(libc::MSG_DONTWAIT);
        let mut errors = [Errno::SENT];
        range.send(&mut Portable::new(BackEnd::Loop).ok()?, &probe, &mut errors);
        errors[0].sent().then_some(range)
    }

    fn on_loopback() -> Option<Self> {
        let sink = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
        let to = sink.local_addr().ok()?;
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
        Some(Self {
            socket: Socket::owned(socket).ok()?,
            to: vec![to; GROUPS[1]],
            _sink: Some(sink),
        })
    }

    fn send(&self, portable: &mut Portable, message: &Message<'_>, errors: &mut [Errno]) {
        let recipients: Vec<_> = self.to.iter().map(|to| Recipient::new(*to)).collect();
        let indices: Vec<u32> = (0..errors.len() as u32).collect();
        let call = Call {
            message: *message,
            recipients: Recipients::Slice(&recipients),
            socket: &self.socket,
            socket_index: 0,
        };
        portable.send(&call, &indices, errors, &mut Faults::new());
    }
}

/// Fits a call's and a recipient's cost to groups of two sizes, for so many ways to send, which take
/// turns.
pub(crate) fn measure(
    groups: [usize; 2],
    rounds: usize,
    ways: usize,
    mut send: impl FnMut(usize, usize),
) -> Vec<Cost> {
    let [small, large] = groups.map(|group| {
        let mut times = vec![Vec::with_capacity(rounds); ways];
        for round in 0..ROUNDS_BEFORE + rounds {
            for (way, times) in times.iter_mut().enumerate() {
                let start = Instant::now();
                send(way, group);
                if round >= ROUNDS_BEFORE {
                    times.push(start.elapsed().as_nanos() as f64);
                }
            }
        }
        times.into_iter().map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[rounds / 2]
        })
    });
    let more = (groups[1] - groups[0]) as f64;
    let fit = |(small, large): (f64, f64)| {
        let recipient_ns = ((large - small) / more).max(0.0);
        Cost {
            recipient_ns,
            call_ns: (small - recipient_ns * groups[0] as f64).max(0.0),
        }
    };
    small.zip(large).map(fit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(call_ns: f64, recipient_ns: f64) -> Result<Cost, Unavailable> {
        Ok(Cost {
            call_ns,
            recipient_ns,
        })
    }

    #[test]
    fn cloning_is_chosen_from_the_group_size_on_where_it_gains() {
        let choice = decide(vec![
            (BackEnd::Loop, cost(0.0, 2500.0)),
            (BackEnd::Batch, cost(200.0, 1900.0)),
            (BackEnd::Clone, cost(5900.0, 400.0)),
        ]);
        assert_eq!(choice.back_end, BackEnd::Clone);
        assert_eq!(choice.portable, BackEnd::Batch);
        assert_eq!(choice.clone_from, 4);
    }

    #[test]
    fn a_plainer_back_end_is_kept_where_the_next_is_hardly_faster() {
        let missing = Unavailable::Capability {
            name: "CAP_NET_ADMIN",
            action: "make a tap device",
        };
        let choice = decide(vec![
            (BackEnd::Loop, cost(0.0, 1000.0)),
            (BackEnd::Batch, cost(0.0, 980.0)),
            (BackEnd::Clone, Err(missing)),
        ]);
        assert_eq!(choice.back_end, BackEnd::Loop);
        assert!(choice.to_string().contains("CAP_NET_ADMIN is missing"));
    }
}
