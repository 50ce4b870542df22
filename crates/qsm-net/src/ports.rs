//! The same on two networks: everything is sent by both, and received from both (R235).
//!
//! No call of the socket interface sends on several interfaces, so there are two ports, and what one network loses the
//! other one brings. Whoever receives gets most datagrams twice and sorts that out, as it must in any case: networks
//! duplicate. A host goes by its address on the first network; where it is on the second one [`Ports::learn`] is told.
//!
//! The faster network sets the pace. A train that the send buffer of only one of the two has no room for is sent by the
//! other alone, and counted as [`would_block`](crate::SendErrorCounters::would_block): to wait for the slower network
//! would let it, or its failing card, stop both.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::arrivals::{Arrivals, Gathered};
use crate::config::PortConfig;
use crate::counters::PortCounters;
use crate::error::{PortError, SendError, Sent};
use crate::guard::{Guard, Guarded, Refused};
use crate::paths::{Paths, Way};
use crate::poller::{Ready, Sleeper};
use crate::port::Port;
use crate::receive::{Datagrams, Place};
use crate::report::IoReport;
use crate::waker::Waker;

/// A [`Port`], or two on different networks that are used as one. What is said of a port's methods holds here.
#[derive(Debug)]
pub struct Ports {
    first: Port,
    second: Option<Box<Second>>,
    guard: Option<Guarded>,
    arrivals: Arrivals,
}

#[derive(Debug)]
struct Second {
    port: Port,
    paths: Paths,
    /// The last batch came by this network.
    current: bool,
    /// Who must have room before sending can go on: one of those that are set.
    blocked: [bool; 2],
}

impl Ports {
    /// Opens the ports. Those of a second network share the waker of the first.
    ///
    /// # Errors
    /// As [`Port::open`]; and both may not be on one interface, or of different families.
    pub fn open(first: PortConfig, second: Option<PortConfig>) -> Result<Self, PortError> {
        if let Some(second) = &second {
            check(&first, second)?;
        }
        let first = Port::open(first)?;
        let second = second.map(Port::open).transpose()?;
        if let Some(second) = &second {
            first
                .watch(second)
                .map_err(PortError::os("watch a second network"))?;
        }
        let second = second.map(|port| {
            Box::new(Second {
                port,
                paths: Paths::default(),
                current: true,
                blocked: [false; 2],
            })
        });
        Ok(Self {
            first,
            second,
            guard: None,
            arrivals: Arrivals::default(),
        })
    }

    /// From now on everything is sealed before it leaves, and opened before anybody sees it.
    pub fn protect(&mut self, guard: Box<dyn Guard>) {
        self.guard = Some(Guarded::new(guard));
    }

    /// The latest datagram of this cluster that the guard has refused since this was asked for, but for those that came
    /// twice.
    pub fn take_refused(&mut self) -> Option<Refused> {
        self.guard.as_mut()?.take_refused()
    }

    /// Whoever is at the address `first` is at `second` as well: what is sent to the one goes to the other by the second
    /// network, and what comes from the other bears the first as its source. Without effect on a single port.
    pub fn learn(&mut self, first: SocketAddr, second: SocketAddr) {
        let Some(own) = &mut self.second else {
            return;
        };
        let host = |address: SocketAddr| !address.ip().is_multicast() && address.port() != 0;
        if host(first) && host(second) && first != second {
            own.paths.learn(first, second);
        }
    }

    /// Address of the unicast socket on the first network, by which others know this host.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.first.local_addr()
    }

    /// Address of the unicast socket on the second network, if there is one.
    #[must_use]
    pub fn second_addr(&self) -> Option<SocketAddr> {
        self.second.as_ref().map(|second| second.port.local_addr())
    }

    /// As [`Port::join`], on both networks.
    ///
    /// # Errors
    /// As [`Port::join`]. A group that could be joined on one network stays joined there.
    pub fn join(&mut self, group: SocketAddr) -> Result<(), PortError> {
        let first = self.first.join(group);
        // Also where the first could not, since the other one may.
        if let Some(second) = &mut self.second {
            second.port.join(group)?;
        }
        first
    }

    /// As [`Port::join_sources`], on both networks, for hosts at these addresses on the first one. On the second one only
    /// hosts can be heard of which [`Ports::learn`] was told.
    ///
    /// # Errors
    /// As [`Port::join_sources`].
    pub fn join_sources(
        &mut self,
        group: SocketAddr,
        sources: &BTreeSet<SocketAddr>,
    ) -> Result<(), PortError> {
        let ips = sources.iter().map(SocketAddr::ip).collect();
        let first = self.first.join_sources(group, &ips);
        if let Some(Second { port, paths, .. }) = self.second.as_deref_mut() {
            let ways = sources.iter().map(|source| paths.way(*source));
            let ips = ways.filter_map(|way| match way {
                Way::Both(second) => Some(second.ip()),
                Way::First | Way::Second => None,
            });
            port.join_sources(group, &ips.collect())?;
        }
        first
    }

    /// As [`Port::leave`], on both networks.
    pub fn leave(&mut self, group: SocketAddr) {
        self.first.leave(group);
        if let Some(second) = &mut self.second {
            second.port.leave(group);
        }
    }

    /// As [`Port::waker`].
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.first.waker()
    }

    /// As [`Port::sleeper`], for both networks.
    #[must_use]
    pub fn sleeper(&self) -> Sleeper {
        self.first.sleeper()
    }

    /// As [`Port::wait`], for both networks.
    ///
    /// # Errors
    /// As [`Port::wait`].
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Ready> {
        self.first.wait(timeout)
    }

    /// As [`Port::receive`]: one batch, from the networks in turn; 0 when both are drained.
    ///
    /// # Errors
    /// As [`Port::receive`].
    pub fn receive(&mut self) -> io::Result<usize> {
        self.run_guard();
        self.first.forget();
        if let Some(second) = &mut self.second {
            second.port.forget();
        }
        self.receive_more()
    }

    /// As [`Port::receive_more`], opened.
    fn receive_more(&mut self) -> io::Result<usize> {
        let count = self.receive_batch()?;
        let Some(guard) = self.guard.as_mut().filter(|_| count > 0) else {
            return Ok(count);
        };
        match &mut self.second {
            Some(second) if second.current => second.port.open_batch(guard),
            _ => self.first.open_batch(guard),
        }
        self.send_own();
        Ok(count)
    }

    /// Time until the guard has something to do, which it does by [`Ports::receive`]. `None` without one that waits for
    /// anything.
    #[must_use]
    pub fn due(&self) -> Option<Duration> {
        let due = self.guard.as_ref()?.due()?;
        Some(due.saturating_duration_since(Instant::now()))
    }

    fn run_guard(&mut self) {
        if let Some(guard) = &mut self.guard {
            guard.run();
            self.send_own();
        }
    }

    /// Sends what the guard has to say. What there is no room for is lost, as on the way: guards repeat themselves.
    fn send_own(&mut self) {
        while let Some(own) = self.guard.as_mut().and_then(Guarded::poll_transmit) {
            self.send_bytes(own.to, &own.bytes, own.bytes.len()).ok();
        }
    }

    /// Receives until nothing is known to wait, the port has no room, or there are `bytes_max`, and yields all of it by
    /// class: the lowest first (one of [`CLASSES`](crate::CLASSES)), those of one class as they came. So what comes alone
    /// is handled at once. Forgets what was received before.
    ///
    /// # Errors
    /// As [`Port::receive`].
    pub fn gather(
        &mut self,
        bytes_max: usize,
        class: impl Fn(&[u8]) -> usize,
    ) -> io::Result<Gathered<'_>> {
        self.arrivals.clear();
        let mut received = self.receive()?;
        while received > 0 {
            self.sort(&class);
            if !self.has_more() || self.arrivals.amount().bytes >= bytes_max {
                break;
            }
            received = self.receive_more()?;
        }
        let second = self.second.as_ref().map(|second| &second.port);
        Ok(Gathered::new(&self.first, second, &self.arrivals))
    }

    /// Notes where the datagrams of the last batch are.
    fn sort(&mut self, class: impl Fn(&[u8]) -> usize) {
        let second = self.second.as_ref().filter(|second| second.current);
        let port = second.map_or(&self.first, |second| &second.port);
        for (place, datagram) in port.datagrams().placed() {
            let second = second.is_some();
            let bytes = datagram.bytes;
            self.arrivals
                .add(Place { second, ..place }, class(bytes), bytes.len());
        }
    }

    /// As [`Port::take_waited`], on the network where it was longer.
    pub fn take_waited(&mut self) -> Option<Duration> {
        let second = self.second.as_mut();
        let second = second.and_then(|second| second.port.take_waited());
        self.first.take_waited().max(second)
    }

    /// As [`Port::receive_more`], from the networks in turn.
    fn receive_batch(&mut self) -> io::Result<usize> {
        let Some(second) = &mut self.second else {
            return self.first.receive_more();
        };
        for _ in 0..2 {
            second.current = !second.current;
            let port = match second.current {
                true => &mut second.port,
                false => &mut self.first,
            };
            let count = port.receive_more()?;
            if second.current {
                let paths = &mut second.paths;
                port.rename(|source| paths.name(source));
            }
            if count > 0 {
                return Ok(count);
            }
        }
        Ok(0)
    }

    /// As [`Port::has_more`], of one of the networks, and with room on both.
    fn has_more(&self) -> bool {
        match &self.second {
            None => self.first.has_more(),
            Some(second) => {
                let ports = [&self.first, &second.port];
                ports.iter().any(|port| port.has_more()) && ports.iter().all(|port| port.has_room())
            }
        }
    }

    /// As [`Port::datagrams`].
    #[must_use]
    pub fn datagrams(&self) -> Datagrams<'_> {
        match &self.second {
            Some(second) if second.current => second.port.datagrams(),
            _ => self.first.datagrams(),
        }
    }

    /// As [`Port::send`], by both networks where they lead to the destination. It has been sent when one of them took it.
    ///
    /// # Errors
    /// As [`Port::send`], if neither network took all of it: to go on when there is room if one lacked room, else what
    /// the first one said.
    pub fn send(
        &mut self,
        to: SocketAddr,
        bytes: &[u8],
        segment_bytes: usize,
    ) -> Result<Sent, SendError> {
        let Some(mut guard) = self.guard.take() else {
            return self.send_bytes(to, bytes, segment_bytes);
        };
        let sent = guard.send(to, bytes, segment_bytes, |sealed, segment_bytes| {
            self.send_bytes(to, sealed, segment_bytes)
        });
        self.guard = Some(guard);
        self.send_own();
        sent
    }

    fn send_bytes(
        &mut self,
        to: SocketAddr,
        bytes: &[u8],
        segment_bytes: usize,
    ) -> Result<Sent, SendError> {
        let Some(second) = &mut self.second else {
            return self.first.send(to, bytes, segment_bytes);
        };
        let (first, other) = match second.paths.way(to) {
            Way::First => (Some(to), None),
            Way::Second => (None, Some(to)),
            Way::Both(other) => (Some(to), Some(other)),
        };
        let by_first = first.map(|to| self.first.send(to, bytes, segment_bytes));
        let by_second = other.map(|to| second.port.send(to, bytes, segment_bytes));
        second.blocked = [&by_first, &by_second]
            .map(|result| matches!(result, Some(Err(SendError::WouldBlock { .. }))));
        match (by_first, by_second) {
            (Some(first), Some(second)) => better(first, second),
            // One of the two is there.
            (one, other) => one.or(other).unwrap_or_else(|| Ok(Sent::default())),
        }
    }

    /// Tells whether the kernel clones copies for many ([`PortConfig::clone_copies`]).
    #[must_use]
    pub fn clones_copies(&self) -> bool {
        self.second.is_none() && self.first.clones_copies()
    }

    /// As [`Ports::send`], to several hosts, of whom those stay in the list who wait for room in the send buffer. With
    /// [`PortConfig::clone_copies`], and one network, the kernel is given the bytes once. Returns the bytes that left, over
    /// all.
    ///
    /// # Errors
    /// [`SendError`], the first one; others were sent to nevertheless.
    pub fn send_copies(
        &mut self,
        left: &mut Vec<SocketAddr>,
        bytes: &[u8],
        segment_bytes: usize,
    ) -> Result<usize, SendError> {
        let all = left.len();
        if self.second.is_none() {
            let sealed = match (&mut self.guard, left.first()) {
                (Some(guard), Some(to)) => guard.sealed(*to, bytes, segment_bytes),
                _ => Some((bytes, segment_bytes)),
            };
            if let Some((bytes, segment_bytes)) = sealed {
                self.first.clone_copies(left, bytes, segment_bytes);
            }
        }
        let mut sent = (all - left.len()) * bytes.len();
        let mut failure = Ok(());
        while let Some(to) = left.last() {
            match self.send(*to, bytes, segment_bytes) {
                Ok(one) => sent += one.bytes,
                // The whole train goes once more: what came already is known by its number.
                Err(SendError::WouldBlock { .. }) => break,
                Err(error) => failure = failure.and(Err(error)),
            }
            left.pop();
        }
        failure.map(|()| sent)
    }

    /// As [`Port::take_refusal`], of both networks: by the address on the first one, where [`Ports::learn`] was told of it.
    pub fn take_refusal(&mut self) -> Option<SocketAddr> {
        self.first.take_refusal().or_else(|| {
            let second = self.second.as_deref_mut()?;
            let refused = second.port.take_refusal()?;
            Some(second.paths.first(refused))
        })
    }

    /// As [`Port::take_change`].
    pub fn take_change(&mut self) -> bool {
        let second = self.second.as_mut();
        let second = second.is_some_and(|second| second.port.take_change());
        self.first.take_change() || second
    }

    /// As [`Port::follow_address`], on both networks; one of them may have succeeded when the other fails.
    ///
    /// # Errors
    /// As [`Port::follow_address`].
    pub fn follow_addresses(&mut self) -> Result<(), PortError> {
        let first = self.first.follow_address();
        if let Some(second) = &mut self.second {
            second.port.follow_address()?;
        }
        first
    }

    /// As [`Port::writable`], of a network that lacked room for what was sent last.
    #[must_use]
    pub fn writable(&self) -> bool {
        match &self.second {
            None => self.first.writable(),
            Some(second) => {
                let [first, other] = second.blocked;
                let waits = first || other;
                !waits || first && self.first.writable() || other && second.port.writable()
            }
        }
    }

    /// As [`Port::counters`], of both networks together.
    #[must_use]
    pub fn counters(&self) -> PortCounters {
        let mut sum = *self.first.counters();
        if let Some(second) = &self.second {
            sum += *second.port.counters();
        }
        sum
    }

    /// As [`Port::counters`], of the second network, if there is one.
    #[must_use]
    pub fn second_counters(&self) -> Option<PortCounters> {
        self.second.as_ref().map(|second| *second.port.counters())
    }

    /// Packets that the kernel dropped for lack of buffers, as [`Port::counters`] has them.
    #[must_use]
    pub fn kernel_drops(&self) -> u64 {
        let drops = |port: &Port| {
            let counters = port.counters();
            counters.multicast.kernel_drops + counters.unicast.kernel_drops
        };
        let second = self.second.as_ref().map_or(0, |second| drops(&second.port));
        drops(&self.first) + second
    }

    /// As [`Port::refresh_drops`].
    pub fn refresh_drops(&mut self) {
        self.first.refresh_drops();
        if let Some(second) = &mut self.second {
            second.port.refresh_drops();
        }
    }

    /// As [`Port::report`], of the first network.
    #[must_use]
    pub fn report(&self) -> IoReport {
        self.first.report()
    }

    /// As [`Port::report`], of the second network, if there is one.
    #[must_use]
    pub fn second_report(&self) -> Option<IoReport> {
        self.second.as_ref().map(|second| second.port.report())
    }

    /// As [`Port::receive_buffer_granted`]: the smaller one.
    #[must_use]
    pub fn receive_buffer_granted(&self) -> usize {
        let first = self.first.receive_buffer_granted();
        match &self.second {
            Some(second) => first.min(second.port.receive_buffer_granted()),
            None => first,
        }
    }
}

fn check(first: &PortConfig, second: &PortConfig) -> Result<(), PortError> {
    let (first, second) = (&first.interface, &second.interface);
    if first.index == second.index {
        let name = first.name.clone();
        return Err(PortError::SameInterface { name });
    }
    if first.family() != second.family() {
        return Err(PortError::OtherFamilies {
            first: first.to_string(),
            second: second.to_string(),
        });
    }
    Ok(())
}

/// What became of a train that both networks were given.
fn better(
    first: Result<Sent, SendError>,
    second: Result<Sent, SendError>,
) -> Result<Sent, SendError> {
    let (first, second) = match (first, second) {
        (Ok(sent), _) | (_, Ok(sent)) => return Ok(sent),
        (Err(first), Err(second)) => (first, second),
    };
    let sent = match first.sent().bytes >= second.sent().bytes {
        true => first.sent(),
        false => second.sent(),
    };
    let full = |error: &SendError| matches!(error, SendError::WouldBlock { .. });
    if full(&first) || full(&second) {
        return Err(SendError::WouldBlock { sent });
    }
    Err(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::SendFailure;

    fn full(bytes: usize) -> Result<Sent, SendError> {
        Err(SendError::WouldBlock { sent: sent(bytes) })
    }

    fn failed(bytes: usize) -> Result<Sent, SendError> {
        Err(SendError::Failed {
            failure: SendFailure::Unreachable,
            to: SocketAddr::from(([10, 0, 0, 1], 1)),
            sent: sent(bytes),
            source: io::Error::from_raw_os_error(libc::ENETUNREACH),
        })
    }

    fn sent(bytes: usize) -> Sent {
        Sent {
            bytes,
            ..Sent::default()
        }
    }

    #[test]
    fn what_one_network_took_is_sent() {
        for other in [full(5), failed(5)] {
            assert_eq!(better(other, Ok(sent(9))).unwrap(), sent(9));
        }
        assert_eq!(better(Ok(sent(9)), failed(0)).unwrap(), sent(9));
    }

    #[test]
    fn the_faster_network_says_where_to_go_on() {
        for (first, second) in [(full(3), full(5)), (full(5), full(3)), (failed(5), full(2))] {
            match better(first, second).unwrap_err() {
                SendError::WouldBlock { sent } => assert_eq!(sent.bytes, 5),
                other => panic!("{other}"),
            }
        }
    }

    #[test]
    fn what_both_refuse_is_refused() {
        assert!(matches!(
            better(failed(0), failed(0)),
            Err(SendError::Failed { .. })
        ));
    }
}
