//! The call itself: checks what it is given, shares it out to sockets and back-ends, collects what
//! became of each recipient.
//!
//! What can be known without the kernel is decided here, before any back-end, so that it cannot
//! differ between them: address families, sizes, refusals that came by ICMP.

use std::net::UdpSocket;
use std::os::fd::RawFd;

use crate::backend::{BackEnd, Call, Portable, Unavailable};
use crate::calibrate::{self, Choice};
use crate::clone::Cloner;
use crate::error::{Errno, Error};
use crate::fork::Origin;
use crate::group::Group;
use crate::message::{DATAGRAM_V4_MAX, DATAGRAM_V6_MAX, Message, TRAIN_MAX};
use crate::recipient::{RECIPIENTS_MAX, Recipient, Recipients, Via};
use crate::socket::{Faults, Socket};

/// Flags that bind several calls, or a call and its completion, together.
const FLAGS_UNSUPPORTED: i32 = libc::MSG_MORE | libc::MSG_ZEROCOPY;
/// How often the sockets' options are read again, seconds.
const REFRESH_SECONDS: u64 = 1;

/// Sends messages to many recipients, by one or several UDP sockets.
///
/// It owns the sockets, each of which stays usable for receiving by [`Sender::socket`]. It switches
/// `IP_RECVERR` on, until it is dropped, and reads their error queues. Options of the sockets that
/// change are noticed within a second.
///
/// In a process that was forked off, a sender makes its device, records and ring anew at its first
/// call; see the [contract](crate#contract).
#[derive(Debug)]
pub struct Sender {
    sockets: Vec<Socket>,
    portable: Portable,
    cloner: Option<Cloner>,
    choice: Choice,
    /// Recipients of the present call by socket.
    pending: Vec<Vec<u32>>,
    errors: Vec<Errno>,
    faults: Faults,
    drained_ns: u64,
    refreshed_s: u64,
    /// What its back-ends did before they were made anew is in there.
    stats: Stats,
    origin: Origin,
}

/// What a sender has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Calls that sent something.
    pub calls: u64,
    /// Recipients that a datagram or train left for.
    pub sent: u64,
    /// Recipients with an error.
    pub failed: u64,
    /// Those sent to by clones, pieces of long trains counted each.
    pub cloned: u64,
    /// Those handed to connected sockets, with [`BackEnd::Connected`].
    pub connected: u64,
    /// Packets that clones were made from.
    pub blocks: u64,
    /// Clones that a device refused, so that the socket was asked instead.
    pub clones_refused: u64,
    /// How often somebody had removed the hook or the device of the cloning back-end.
    pub hooks_lost: u64,
}

impl Sender {
    /// A sender with the back-end that is fastest here. The choice and its reasons are in
    /// [`Sender::choice`].
    ///
    /// # Errors
    /// [`Error::NoSocket`] without sockets, [`Error::System`] if one cannot be prepared.
    pub fn new(sockets: Vec<UdpSocket>) -> Result<Self, Error> {
        let sockets = sockets.into_iter().map(Socket::owned);
        Self::calibrated(sockets.collect::<Result<_, _>>()?)
    }

    /// A sender with this back-end.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where it cannot be had, else as [`Sender::new`].
    pub fn with(sockets: Vec<UdpSocket>, back_end: BackEnd) -> Result<Self, Error> {
        let sockets = sockets.into_iter().map(Socket::owned);
        let sockets = sockets.collect::<Result<Vec<_>, _>>()?;
        let (_, cloner) = made(back_end, &sockets).map_err(Error::Unavailable)?;
        Self::assemble(sockets, cloner, Choice::asked_for(back_end))
    }

    /// A sender by a socket that stays the caller's, who keeps it open.
    pub(crate) fn borrowing(fd: RawFd) -> Result<Self, Error> {
        Self::calibrated(vec![Socket::borrowed(fd)?])
    }

    fn calibrated(sockets: Vec<Socket>) -> Result<Self, Error> {
        let choice = calibrate::choose(&sockets);
        let (_, cloner) = made(choice.back_end, &sockets).map_err(Error::Unavailable)?;
        Self::assemble(sockets, cloner, choice)
    }

    fn assemble(
        sockets: Vec<Socket>,
        mut cloner: Option<Cloner>,
        choice: Choice,
    ) -> Result<Self, Error> {
        if sockets.is_empty() {
            return Err(Error::NoSocket);
        }
        if let Some(cloner) = &mut cloner {
            cloner.run_min = choice.clone_from;
        }
        Ok(Self {
            pending: vec![Vec::new(); sockets.len()],
            portable: Portable::new(choice.portable).map_err(Error::Unavailable)?,
            sockets,
            cloner,
            choice,
            errors: Vec::new(),
            faults: Faults::new(),
            drained_ns: 0,
            refreshed_s: 0,
            stats: Stats::default(),
            origin: Origin::here(),
        })
    }

    /// Sends a message to each of these recipients; how many it left for.
    ///
    /// `errors`, if given, has a place for each recipient and says what became of it. A recipient
    /// that stands in the list twice is sent to twice.
    ///
    /// # Errors
    /// Only if nothing could be sent for a reason that concerns the whole call.
    pub fn send(
        &mut self,
        message: &Message<'_>,
        recipients: &[Recipient<'_>],
        errors: Option<&mut [Errno]>,
    ) -> Result<usize, Error> {
        self.send_to(message, Recipients::Slice(recipients), errors)
    }

    /// Sends a message to each member of a group; like [`Sender::send`].
    ///
    /// # Errors
    /// As [`Sender::send`].
    pub fn send_group(
        &mut self,
        message: &Message<'_>,
        group: &Group,
        errors: Option<&mut [Errno]>,
    ) -> Result<usize, Error> {
        self.send_to(message, Recipients::Group(group), errors)
    }

    /// The back-end in use.
    #[must_use]
    pub fn back_end(&self) -> BackEnd {
        match &self.cloner {
            Some(cloner) if cloner.device().is_some() => BackEnd::Clone,
            Some(_) | None => self.choice.portable,
        }
    }

    /// Which back-end was chosen, and why.
    #[must_use]
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// One of the sockets, by its place; `None` if there is no such place.
    #[must_use]
    pub fn socket(&self, place: usize) -> Option<&UdpSocket> {
        self.sockets.get(place).and_then(Socket::owner)
    }

    /// The device that clones start from, with [`BackEnd::Clone`].
    #[must_use]
    pub fn device(&self) -> Option<&str> {
        self.cloner.as_ref().and_then(Cloner::device)
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.stats;
        stats.connected += self.portable.connected();
        if let Some(cloner) = &self.cloner {
            stats.cloned += cloner.counts.cloned;
            stats.blocks += cloner.counts.blocks;
            stats.clones_refused += cloner.counts.refused;
            stats.hooks_lost += cloner.counts.hooks_lost;
        }
        stats
    }

    fn send_to(
        &mut self,
        message: &Message<'_>,
        recipients: Recipients<'_>,
        told: Option<&mut [Errno]>,
    ) -> Result<usize, Error> {
        check(message, recipients.len(), told.as_deref())?;
        if !self.origin.is_here() {
            self.part_from_parent();
        }
        let now_ns = coarse_now_ns();
        self.look_around(now_ns);
        let mut errors = std::mem::take(&mut self.errors);
        errors.clear();
        errors.resize(recipients.len(), Errno::SENT);
        self.sort_out(message, recipients, &mut errors);
        for place in 0..self.sockets.len() {
            let indices = std::mem::take(&mut self.pending[place]);
            let call = Call {
                message: *message,
                recipients,
                socket: &self.sockets[place],
                socket_index: place as u8,
            };
            let (portable, faults) = (&mut self.portable, &mut self.faults);
            match &mut self.cloner {
                _ if indices.is_empty() => {}
                Some(cloner) => {
                    cloner.send(
                        &call,
                        &indices,
                        &mut errors,
                        portable,
                        faults,
                        now_ns / 1_000_000_000,
                    );
                }
                None => portable.send(&call, &indices, &mut errors, faults),
            }
            self.pending[place] = indices;
        }
        let sent = errors.iter().filter(|error| error.sent()).count();
        self.stats.calls += 1;
        self.stats.sent += sent as u64;
        self.stats.failed += (errors.len() - sent) as u64;
        if let Some(told) = told {
            told[..errors.len()].copy_from_slice(&errors);
        }
        self.errors = errors;
        Ok(sent)
    }

    /// Makes everything but the sockets anew in a process that was forked off the one that the
    /// sender was made in. What cannot be had here, e.g. for lack of privileges, the socket does.
    ///
    /// Connected sockets are not made: they need the caller's socket to share its port for a
    /// moment, and two processes would come between each other there.
    fn part_from_parent(&mut self) {
        self.origin = Origin::here();
        self.stats = self.stats();
        self.faults.clear();
        let wanted = match self.choice.portable {
            BackEnd::Connected => BackEnd::Batch,
            BackEnd::Loop
            | BackEnd::Batch
            | BackEnd::Ring
            | BackEnd::RingZeroCopy
            | BackEnd::Clone => self.choice.portable,
        };
        (self.choice.portable, self.portable) = match Portable::new(wanted) {
            Ok(portable) => (wanted, portable),
            Err(_) => (BackEnd::Batch, Portable::batch()),
        };
        if self.cloner.take().is_some() {
            self.cloner = Cloner::new(&self.sockets).ok();
        }
        if let Some(cloner) = &mut self.cloner {
            cloner.run_min = self.choice.clone_from;
        }
    }

    /// Reads what the kernel has to say about earlier calls, not more often than its clock ticks.
    fn look_around(&mut self, now_ns: u64) {
        if now_ns != self.drained_ns {
            self.drained_ns = now_ns;
            let mut entries = 0;
            for socket in &self.sockets {
                entries += socket.drain(&mut self.faults);
            }
            if let (Some(cloner), true) = (&mut self.cloner, entries > 0) {
                for to in self.faults.keys() {
                    cloner.forget_one(*to, self.sockets.len());
                }
            }
        }
        let now_s = now_ns / 1_000_000_000;
        if now_s >= self.refreshed_s + REFRESH_SECONDS {
            self.refreshed_s = now_s;
            let changed = self
                .sockets
                .iter_mut()
                .filter_map(|s| s.refresh().then_some(()));
            if changed.count() > 0 {
                self.portable.forget();
                if let Some(cloner) = &mut self.cloner {
                    cloner.forget();
                }
            }
        }
    }

    /// Shares the recipients out to the sockets; those that nothing can be sent to get their errors.
    fn sort_out(
        &mut self,
        message: &Message<'_>,
        recipients: Recipients<'_>,
        errors: &mut [Errno],
    ) {
        for pending in &mut self.pending {
            pending.clear();
        }
        let datagram = message.datagram_bytes();
        for (at, error) in errors.iter_mut().enumerate() {
            let recipient = recipients.at(at);
            match self.admit(&recipient, datagram) {
                Ok(socket) => self.pending[socket].push(at as u32),
                Err(refusal) => *error = refusal,
            }
        }
    }

    /// Which socket a recipient is sent to by.
    fn admit(&mut self, recipient: &Recipient<'_>, datagram: usize) -> Result<usize, Errno> {
        let v6 = recipient.to.is_ipv6();
        let socket = match recipient.via {
            Via::Family => self.sockets.iter().position(|socket| socket.v6 == v6),
            Via::Socket(place) => {
                let place = usize::from(place);
                let fits = self.sockets.get(place).is_some_and(|s| s.v6 == v6);
                fits.then_some(place)
            }
        };
        let Some(socket) = socket else {
            return Err(Errno::FAMILY);
        };
        if recipient.to.port() == 0 {
            return Err(Errno::INVALID);
        }
        let max = if v6 { DATAGRAM_V6_MAX } else { DATAGRAM_V4_MAX };
        if datagram + recipient.own_bytes() > max {
            return Err(Errno::TOO_LARGE);
        }
        if !self.faults.is_empty()
            && let Some(fault) = self.faults.remove(&recipient.to)
        {
            return Err(fault);
        }
        Ok(socket)
    }
}

/// Sets a back-end up.
pub(crate) fn made(
    back_end: BackEnd,
    sockets: &[Socket],
) -> Result<(Portable, Option<Cloner>), Unavailable> {
    let cloner = match back_end {
        BackEnd::Clone => Some(Cloner::new(sockets)?),
        BackEnd::Loop
        | BackEnd::Batch
        | BackEnd::Ring
        | BackEnd::RingZeroCopy
        | BackEnd::Connected => None,
    };
    Ok((Portable::new(back_end)?, cloner))
}

fn check(message: &Message<'_>, recipients: usize, told: Option<&[Errno]>) -> Result<(), Error> {
    let flags = message.flags & FLAGS_UNSUPPORTED;
    if flags != 0 {
        return Err(Error::UnsupportedFlags { flags });
    }
    if recipients == 0 {
        return Err(Error::NoRecipients);
    }
    if recipients > RECIPIENTS_MAX {
        return Err(Error::TooManyRecipients {
            count: recipients,
            max: RECIPIENTS_MAX,
        });
    }
    let len = message.payload.len();
    let max = if message.segment_bytes.is_some() {
        TRAIN_MAX
    } else {
        DATAGRAM_V6_MAX
    };
    if len > max {
        return Err(Error::PayloadTooLarge { len, max });
    }
    if let Some(told) = told
        && told.len() < recipients
    {
        return Err(Error::ErrorsTooShort {
            len: told.len(),
            recipients,
        });
    }
    Ok(())
}

/// The clock of the kernel's ticks, which costs a few nanoseconds to read.
fn coarse_now_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes to a `timespec` that we own.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut now) };
    (now.tv_sec as u64) * 1_000_000_000 + now.tv_nsec as u64
}
