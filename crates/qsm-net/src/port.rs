//! The port: all sockets of one core thread.

mod reopening;
mod sources;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::address::{self, Family};
use crate::busy_poll::BusyPoll;
use crate::changes::Changes;
use crate::config::{Offload, PortConfig};
use crate::copier::{Cloning, Copier};
use crate::counters::PortCounters;
use crate::error::{GROUPS_MAX, PortError, SendError, Sent};
use crate::fault::Injector;
use crate::guard::Guarded;
use crate::icmp::{self, Refusals};
use crate::poller::{Poller, Ready, Sleeper};
use crate::receive::{BATCH, Datagram, Datagrams, Place, Ring};
use crate::report::{self, IoReport};
use crate::send::{Gso, Transmitter};
use crate::socket::{self, Socket};
use crate::waker::Waker;

/// One unicast socket, which also sends everything, and one socket for each multicast address joined (R056).
///
/// It belongs to one thread; only the [`Waker`] is shared. The loop of that thread:
///
/// ```no_run
/// # fn run(port: &mut qsm_net::Port) -> std::io::Result<()> {
/// loop {
///     port.wait(None)?;
///     while port.receive()? > 0 {
///         for datagram in port.datagrams() {
///             println!("{} bytes from {}", datagram.bytes.len(), datagram.source);
///         }
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Port {
    config: PortConfig,
    unicast: Socket,
    /// Number of its port.
    number: u16,
    /// Multicast sockets. Places of groups left are used again.
    groups: Vec<Option<Socket>>,
    poller: Poller,
    ring: Ring,
    transmitter: Transmitter,
    copier: Option<Copier>,
    cloning: Cloning,
    injector: Option<Injector>,
    /// Datagrams that were opened of the last batch, where a guard opens.
    opened: Option<Vec<Place>>,
    busy_poll: Option<BusyPoll>,
    /// Word of the kernel about interfaces, if it can be had.
    changes: Option<Changes>,
    /// There was some since it was last asked for.
    changed: bool,
    /// The pending list comes from a wait, and nothing was received since.
    fresh: bool,
    /// The last batch left something in the sockets.
    more: bool,
    /// The longest that the oldest datagram of a socket had waited, of what was received since this was asked for.
    waited: Option<Duration>,
    counters: PortCounters,
}

impl Port {
    /// Opens the unicast socket.
    ///
    /// # Errors
    /// [`PortError`]: the port is taken or reserved, the interface lost its address, descriptors ran out, or another
    /// error of the system.
    pub fn open(config: PortConfig) -> Result<Self, PortError> {
        let unicast = Socket::unicast(&config)?;
        let poller = Poller::new(unicast.fd()).map_err(PortError::os("set up epoll"))?;
        let busy_poll = config.busy_poll.map(|asked| BusyPoll {
            asked,
            reading_refused: unicast.busy_poll_refused,
            waiting_refused: poller.busy_poll(asked),
        });
        let gso = match config.offload {
            Offload::Off => Gso::OffByConfiguration,
            Offload::Auto if socket::kernel_has_gso(unicast.fd()) => Gso::On,
            Offload::Auto => Gso::OffByKernel,
        };
        let mut port = Self {
            number: unicast.address.port(),
            unicast,
            groups: Vec::new(),
            poller,
            ring: Ring::new(),
            transmitter: Transmitter::new(gso, &config.interface),
            copier: None,
            cloning: Cloning::NotAsked,
            injector: config.fault.map(Injector::new),
            opened: None,
            busy_poll,
            changes: None,
            changed: false,
            fresh: false,
            more: false,
            waited: None,
            counters: PortCounters::default(),
            config,
        };
        port.watch_changes();
        port.open_copier();
        Ok(port)
    }

    /// Address of the unicast socket: the source of everything sent. A link-local one is without scope.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.unicast.address
    }

    /// Receives what is sent to a multicast address and port, on the interface of this port only. Joining twice is joining once.
    ///
    /// # Errors
    /// [`PortError`]: not a multicast address, one of the other family, too many groups, no more descriptors, the interface is gone, or another
    /// error of the system.
    pub fn join(&mut self, group: SocketAddr) -> Result<(), PortError> {
        let group = self.check_group(group)?;
        if self.slot_of(group).is_some() {
            return Ok(());
        }
        let slot = self.free_slot()?;
        let socket = Socket::multicast(&self.config, group)?;
        self.put(slot, socket)
    }

    /// Stops receiving a group. Datagrams of it that wait in the kernel are discarded; those already received remain until
    /// the next [`receive`](Self::receive).
    pub fn leave(&mut self, group: SocketAddr) {
        // One that is received from named sources may have several sockets.
        while let Some(slot) = self.slot_of(address::plain(group)) {
            self.close(slot);
        }
    }

    /// The groups joined, once for each socket.
    pub fn groups(&self) -> impl Iterator<Item = SocketAddr> {
        self.groups.iter().flatten().map(|socket| socket.address)
    }

    /// A handle to wake this port from any thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.poller.waker().clone()
    }

    /// To sleep instead of [`wait`](Self::wait) while another thread has the port.
    #[must_use]
    pub fn sleeper(&self) -> Sleeper {
        self.poller.sleeper()
    }

    /// Blocks until a socket has datagrams, the waker was used, a blocked send can go on, or the time passed; `None` waits
    /// without limit. Exact to the nanosecond but for the kernel's timer slack (Linux 5.11; before, rounded up to
    /// milliseconds). A signal also ends it.
    ///
    /// # Errors
    /// What epoll returned; none is known to occur in operation.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Ready> {
        let ready = self.poller.wait(self.unicast.fd(), timeout)?;
        self.fresh = ready.readable;
        Ok(ready)
    }

    /// Receives one batch without blocking: unicast first (control before data), then the multicast sockets in turn.
    /// Returns the number of datagrams after splitting of trains and before injected faults; 0 means drained, so call
    /// until 0 before anything else (R124). Forgets the previous batch. Needs no [`wait`](Self::wait) before.
    ///
    /// # Errors
    /// What epoll or `recvmmsg` returned, other than "nothing there".
    pub fn receive(&mut self) -> io::Result<usize> {
        self.forget();
        self.receive_batch()
    }

    /// As [`receive`](Self::receive), but keeps the batches before, whose datagrams stay at their [`Place`]s. Only after
    /// [`has_more`](Self::has_more).
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub(crate) fn receive_more(&mut self) -> io::Result<usize> {
        self.ring.keep();
        self.receive_batch()
    }

    /// The last batch was cut short by its own length, and there is room for another one besides it.
    pub(crate) fn has_more(&self) -> bool {
        self.more && self.ring.has_room()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.ring.has_room()
    }

    /// Forgets all batches.
    pub(crate) fn forget(&mut self) {
        self.ring.clear();
        self.more = false;
    }

    fn receive_batch(&mut self) -> io::Result<usize> {
        let before = self.counters.unicast.datagrams + self.counters.multicast.datagrams;
        let continued = !self.fresh && self.poller.has_pending_multicast();
        if !self.fresh && !continued {
            self.poller.look(self.unicast.fd(), Some(Duration::ZERO))?;
        }
        (self.fresh, self.more) = (false, false);
        self.note_changes();
        // Control must not wait while a long list of busy groups is served, so then unicast is tried unasked.
        let unicast = self.poller.take_unicast();
        if unicast & libc::EPOLLERR as u32 != 0 {
            let (errors, refusals) = (
                &mut self.counters.sent.errors,
                &mut self.transmitter.refusals,
            );
            icmp::drain(self.unicast.fd(), errors, refusals);
        }
        if unicast != 0 || continued {
            // Half of the batch while multicast waits too, so that neither starves.
            let share = if self.poller.has_pending_multicast() {
                self.ring.room().div_ceil(2)
            } else {
                BATCH
            };
            self.more |= receive_from(
                &mut self.unicast,
                None,
                share,
                &mut self.ring,
                Accounts {
                    counters: &mut self.counters,
                    refusals: &mut self.transmitter.refusals,
                    waited: &mut self.waited,
                },
            )?;
        }
        while self.ring.room() > 0 {
            let Some(slot) = self.poller.take_multicast() else {
                break;
            };
            if let Some(Some(socket)) = self.groups.get_mut(slot as usize) {
                let group = Some(socket.address);
                let accounts = Accounts {
                    counters: &mut self.counters,
                    refusals: &mut self.transmitter.refusals,
                    waited: &mut self.waited,
                };
                self.more |= receive_from(socket, group, BATCH, &mut self.ring, accounts)?;
            }
        }
        self.more |= self.poller.has_pending_multicast();
        if let Some(injector) = &mut self.injector {
            injector.apply(self.ring.places(), &mut self.counters.faults);
            let (damage, within) = injector.damage();
            for damage in damage {
                self.ring.flip(damage.place, damage.bit, within);
            }
        }
        let after = self.counters.unicast.datagrams + self.counters.multicast.datagrams;
        Ok((after - before) as usize)
    }

    /// Longest time that a datagram had waited at a socket, of those received since this was asked last: from
    /// its arrival in the kernel, by its stamp (`SO_TIMESTAMPNS`), to its being received. The kernel begins to stamp
    /// soon after the first socket of the host asks for it; what came before counts as not having waited. Of a batch or
    /// a train of datagrams only the first is looked at. `None` if nothing was received, or the wall's clock has been
    /// set back.
    pub fn take_waited(&mut self) -> Option<Duration> {
        self.waited.take()
    }

    /// The datagrams of the last batch, after injected faults.
    #[must_use]
    pub fn datagrams(&self) -> Datagrams<'_> {
        let injected = self.injector.as_ref().map(Injector::order);
        self.ring.datagrams(self.opened.as_deref().or(injected))
    }

    /// Opens the datagrams of the last batch; those that are refused are no part of it any more.
    pub(crate) fn open_batch(&mut self, guard: &mut Guarded) {
        let mut opened = self.opened.take().unwrap_or_default();
        opened.clear();
        match &self.injector {
            Some(injector) => opened.extend(injector.order()),
            None => opened.extend(self.ring.places()),
        }
        let counters = &mut self.counters.refused;
        let (mut kept, mut last) = (0, None);
        for at in 0..opened.len() {
            let place = opened[at];
            // What was made twice on purpose is one datagram.
            let open = match last {
                Some((before, open)) if before == place => open,
                _ => self.ring.open(place, guard, counters),
            };
            last = Some((place, open));
            if let Some(open) = open {
                opened[kept] = open;
                kept += 1;
            }
        }
        opened.truncate(kept);
        self.opened = Some(opened);
    }

    /// A datagram of a batch that is not forgotten.
    pub(crate) fn datagram(&self, place: Place) -> Datagram<'_> {
        self.ring.datagram(place)
    }

    /// Calls the sources of the last batch by other names.
    pub(crate) fn rename(&mut self, name: impl FnMut(SocketAddr) -> SocketAddr) {
        self.ring.rename(name);
    }

    /// A wait for this port ends when another one has something, too.
    pub(crate) fn watch(&self, other: &Self) -> io::Result<()> {
        self.poller.watch(&other.poller)
    }

    /// Sends `bytes` cut into datagrams of `segment_bytes`, the last perhaps shorter, to a group or to one host, without
    /// blocking. No bytes are no datagram.
    ///
    /// # Errors
    /// [`SendError`], which says what was sent before it; after [`SendError::WouldBlock`] go on with the rest when
    /// [`writable`](Self::writable). What ICMP says about earlier datagrams is counted and is no error here.
    pub fn send(
        &mut self,
        to: SocketAddr,
        bytes: &[u8],
        segment_bytes: usize,
    ) -> Result<Sent, SendError> {
        let counters = &mut self.counters.sent;
        let result = self
            .transmitter
            .send(self.unicast.fd(), to, bytes, segment_bytes, counters);
        if let Err(SendError::WouldBlock { sent }) = &result {
            let sent = *sent;
            self.poller
                .block(self.unicast.fd())
                .map_err(|source| SendError::Failed {
                    failure: crate::error::SendFailure::Other,
                    to,
                    sent,
                    source,
                })?;
        }
        result
    }

    pub(crate) fn clones_copies(&self) -> bool {
        self.copier.is_some()
    }

    /// Takes those off the list whom a clone has left for, if there are clones.
    pub(crate) fn clone_copies(
        &mut self,
        left: &mut Vec<SocketAddr>,
        bytes: &[u8],
        segment_bytes: usize,
    ) {
        let fits = self.transmitter.sends_trains_of(segment_bytes);
        let (Some(copier), Ok(segment)) = (&mut self.copier, u16::try_from(segment_bytes)) else {
            return;
        };
        if !fits || left.len() < 2 || bytes.is_empty() {
            return;
        }
        let all = left.len();
        let missed = copier.send(left, bytes, segment).to_vec();
        *left = missed;
        let counters = &mut self.counters.sent;
        let gone = (all - left.len()) as u64;
        counters.calls += 1;
        counters.cloned = copier.cloned();
        counters.datagrams += gone * bytes.len().div_ceil(segment_bytes) as u64;
        counters.bytes += gone * bytes.len() as u64;
    }

    /// Opens what clones copies, if that is asked for; or notes why it cannot be had.
    fn open_copier(&mut self) {
        if !self.config.clone_copies {
            return;
        }
        // The former one has the address.
        self.copier = None;
        let opened = Copier::open(self.unicast.fd(), self.unicast.address);
        self.cloning = match &opened {
            Ok(copier) => Cloning::By(copier.device()),
            Err(reason) => Cloning::Refused(reason.clone()),
        };
        self.copier = opened.ok();
    }

    /// An address at which nobody listens, as its host has answered to something sent there: the process that had it is
    /// gone, while its host lives (ICMP and `ICMPv6`, "port unreachable"). Each is named once until it refuses again; at
    /// most 64 wait to be asked for, the newest. [`receive`](Self::receive) takes them from the kernel, and a
    /// [`wait`](Self::wait) ends when there is one.
    ///
    /// None does not mean that somebody listens. A host that is off says nothing, a firewall may drop what is sent or
    /// the answer, and Linux answers another host once a second, after six times without limit. A firewall on the way that
    /// rejects in the name of others is not believed; one on the host itself cannot be told from a dead process.
    pub fn take_refusal(&mut self) -> Option<SocketAddr> {
        self.transmitter.refusals.take()
    }

    /// False from a [`SendError::WouldBlock`] until [`wait`](Self::wait) or [`receive`](Self::receive) saw room in the send
    /// buffer; `wait` ends when there is, with [`Ready::writable`].
    #[must_use]
    pub fn writable(&self) -> bool {
        !self.poller.blocked()
    }

    /// Bytes, with the kernel's overhead, that wait in the send buffer for the device (R225).
    ///
    /// # Errors
    /// What the ioctl returned; none is known to occur.
    pub fn send_queue_bytes(&self) -> io::Result<usize> {
        crate::sys::send_queue_bytes(self.unicast.fd())
    }

    /// What happened so far. Drop counts are those that came with datagrams; a socket that dropped its last datagrams
    /// shows it with the next one, or after [`refresh_drops`](Self::refresh_drops).
    #[must_use]
    pub fn counters(&self) -> &PortCounters {
        &self.counters
    }

    /// Asks the kernel for the exact drop counts, one system call for each socket (R221).
    pub fn refresh_drops(&mut self) {
        refresh(&mut self.unicast, &mut self.counters.unicast.kernel_drops);
        for socket in self.groups.iter_mut().flatten() {
            refresh(socket, &mut self.counters.multicast.kernel_drops);
        }
    }

    /// What was chosen and granted, and why.
    #[must_use]
    pub fn report(&self) -> IoReport {
        IoReport {
            interface: self.config.interface.clone(),
            local_addr: self.local_addr(),
            gso: self.transmitter.gso,
            gro: self.unicast.gro,
            receive_buffer_asked: self.config.receive_buffer_bytes,
            receive_buffer_granted: self.receive_buffer_granted(),
            send_buffer_asked: self.config.send_buffer_bytes,
            send_buffer_granted: self.unicast.send_buffer(),
            cloning: self.cloning.clone(),
            busy_poll: self.busy_poll,
            groups: self.groups().count(),
            memberships_max: report::memberships_max(self.config.interface.family()),
            ttl: self.config.ttl,
            loopback: self.config.loopback,
        }
    }

    /// Smallest receive buffer of a socket, in bytes, in the unit it was asked for (the kernel reports twice that).
    #[must_use]
    pub fn receive_buffer_granted(&self) -> usize {
        let multicast = self
            .groups
            .iter()
            .flatten()
            .map(|socket| socket.receive_buffer);
        multicast.fold(self.unicast.receive_buffer, usize::min)
    }

    fn check_group(&self, group: SocketAddr) -> Result<SocketAddr, PortError> {
        if !group.ip().is_multicast() || group.port() == 0 {
            return Err(PortError::NotMulticast { group });
        }
        let group = address::plain(group);
        if Family::of(group.ip()) != self.config.interface.family() {
            return Err(PortError::OtherFamily {
                group,
                interface: self.config.interface.to_string(),
            });
        }
        Ok(group)
    }

    /// A place for one more socket.
    fn free_slot(&self) -> Result<usize, PortError> {
        let free = self.groups.iter().position(Option::is_none);
        let slot = free.unwrap_or(self.groups.len());
        match slot < GROUPS_MAX {
            true => Ok(slot),
            false => Err(PortError::TooManyGroups),
        }
    }

    fn put(&mut self, slot: usize, socket: Socket) -> Result<(), PortError> {
        // The slot is below GROUPS_MAX.
        self.poller
            .add(socket.fd(), slot as u32)
            .map_err(PortError::os("watch a socket"))?;
        if slot == self.groups.len() {
            self.groups.push(None);
        }
        self.groups[slot] = Some(socket);
        Ok(())
    }

    fn close(&mut self, slot: usize) {
        if let Some(mut socket) = self.groups[slot].take() {
            refresh(&mut socket, &mut self.counters.multicast.kernel_drops);
            self.poller.forget(slot as u32);
        }
    }

    fn slot_of(&self, group: SocketAddr) -> Option<usize> {
        self.groups.iter().position(|socket| {
            socket
                .as_ref()
                .is_some_and(|socket| socket.address == group)
        })
    }
}

/// What comes with receiving beside datagrams.
struct Accounts<'a> {
    counters: &'a mut PortCounters,
    refusals: &'a mut Refusals,
    waited: &'a mut Option<Duration>,
}

/// Returns whether it took as many as it could, so that the socket may have more.
fn receive_from(
    socket: &mut Socket,
    group: Option<SocketAddr>,
    limit: usize,
    ring: &mut Ring,
    Accounts {
        counters,
        refusals,
        waited,
    }: Accounts<'_>,
) -> io::Result<bool> {
    let limit = limit.min(ring.room());
    let mut repeats = icmp::REPEATS;
    let filled = loop {
        match ring.fill(socket.fd(), group, limit) {
            // The kernel reports what ICMP said about a datagram sent earlier by failing this call.
            Err(_)
                if repeats > 0
                    && icmp::drain(socket.fd(), &mut counters.sent.errors, refusals) > 0 =>
            {
                repeats -= 1;
            }
            other => break other?,
        }
    };
    *waited = filled.waited.max(*waited);
    let counters = counters.received(group.is_some());
    counters.calls += u64::from(filled.messages > 0);
    counters.datagrams += filled.datagrams;
    counters.bytes += filled.bytes;
    counters.trains += filled.trains;
    counters.truncated += filled.truncated;
    counters.kernel_drops += filled.drops.map_or(0, |count| socket.note_drops(count));
    Ok(filled.messages == limit)
}

/// Brings a drop counter up to date. A socket that cannot be asked keeps its last value.
fn refresh(socket: &mut Socket, drops: &mut u64) {
    if let Ok(count) = crate::sys::drop_count(socket.fd()) {
        *drops += socket.note_drops(count);
    }
}
