//! Which sockets have something, and sleep until one has.
//!
//! Level-triggered epoll: what is not drained is reported again, and the kernel rotates its list, so leaving a socket
//! half read is safe and fair. The result of one look is kept as a list of pending sockets, and used up before
//! the next look.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use crate::busy_poll;
use crate::sys;
use crate::waker::Waker;

/// Sockets reported by one look; with more than these readable, the kernel's rotation serves the others next.
const EVENTS: usize = 64;

const TOKEN_UNICAST: u64 = u64::MAX;
const TOKEN_WAKER: u64 = u64::MAX - 1;
/// Another poller, see [`Poller::watch`].
const TOKEN_OTHER: u64 = u64::MAX - 2;
const TOKEN_CHANGES: u64 = u64::MAX - 3;

/// Why a wait ended; none of the three means that the time passed, or a signal came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// At least one socket has datagrams.
    pub readable: bool,
    /// A send that would have blocked can go on.
    pub writable: bool,
    /// The waker was used.
    pub woken: bool,
}

#[derive(Debug)]
pub(crate) struct Poller {
    epoll: Arc<OwnedFd>,
    waker: Waker,
    /// The kernel has `epoll_pwait2` (Linux 5.11), so timeouts are exact to the nanosecond, not the millisecond.
    precise: bool,
    /// A send met a full buffer, and the socket was not seen writable since.
    blocked: bool,
    /// Events of the unicast socket found and not served yet (`EPOLLIN`, `EPOLLERR`).
    unicast: u32,
    /// The socket that tells of changes has something.
    changes: bool,
    /// Slots of multicast sockets found readable and not served yet, the next one last.
    pending: Vec<u32>,
}

/// Sleeps as [`Port::wait`](crate::Port::wait) does, and leaves the port to another thread meanwhile.
#[derive(Debug)]
pub struct Sleeper {
    epoll: Arc<OwnedFd>,
    waker: Waker,
}

impl Sleeper {
    /// Blocks until a socket of the port has something, its waker was used, a blocked send can go on, or the time
    /// passed. What it was, the port finds out when it receives next. A signal also ends it.
    ///
    /// # Errors
    /// What `ppoll` returned; none is known to occur in operation.
    pub fn sleep(&self, timeout: Option<Duration>) -> io::Result<()> {
        let result = match self.waker.fall_asleep() {
            true => sys::poll_readable(self.epoll.as_fd(), timeout),
            false => Ok(false),
        };
        self.waker.awaken();
        match result {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }
}

impl Poller {
    pub(crate) fn new(unicast: BorrowedFd<'_>) -> io::Result<Self> {
        let epoll = Arc::new(sys::epoll()?);
        let waker = Waker::new()?;
        sys::epoll_set(
            epoll.as_fd(),
            libc::EPOLL_CTL_ADD,
            waker.fd(),
            libc::EPOLLIN,
            TOKEN_WAKER,
        )?;
        sys::epoll_set(
            epoll.as_fd(),
            libc::EPOLL_CTL_ADD,
            unicast,
            libc::EPOLLIN,
            TOKEN_UNICAST,
        )?;
        let pending = Vec::with_capacity(EVENTS);
        Ok(Self {
            epoll,
            waker,
            precise: true,
            blocked: false,
            unicast: 0,
            changes: false,
            pending,
        })
    }

    /// See [`busy_poll::set_waiting`].
    pub(crate) fn busy_poll(&self, asked: Duration) -> Option<i32> {
        busy_poll::set_waiting(self.epoll.as_fd(), asked)
    }

    pub(crate) fn add(&self, socket: BorrowedFd<'_>, slot: u32) -> io::Result<()> {
        sys::epoll_set(
            self.epoll.as_fd(),
            libc::EPOLL_CTL_ADD,
            socket,
            libc::EPOLLIN,
            u64::from(slot),
        )
    }

    /// Watches another socket in the place of the unicast socket, which is then closed.
    pub(crate) fn replace_unicast(&mut self, unicast: BorrowedFd<'_>) -> io::Result<()> {
        sys::epoll_set(
            self.epoll.as_fd(),
            libc::EPOLL_CTL_ADD,
            unicast,
            libc::EPOLLIN,
            TOKEN_UNICAST,
        )?;
        // Whoever waits for room tries again.
        (self.unicast, self.blocked) = (0, false);
        Ok(())
    }

    /// Watches the socket that tells of changes.
    pub(crate) fn add_changes(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        sys::epoll_set(
            self.epoll.as_fd(),
            libc::EPOLL_CTL_ADD,
            socket,
            libc::EPOLLIN,
            TOKEN_CHANGES,
        )
    }

    /// True once after that socket was seen to have something.
    pub(crate) fn take_changes(&mut self) -> bool {
        std::mem::take(&mut self.changes)
    }

    /// Has [`Poller::wait`] end when there is something for another poller, which is asked itself what that is.
    pub(crate) fn watch(&self, other: &Self) -> io::Result<()> {
        sys::epoll_set(
            self.epoll.as_fd(),
            libc::EPOLL_CTL_ADD,
            other.epoll.as_fd(),
            libc::EPOLLIN,
            TOKEN_OTHER,
        )
    }

    /// Forgets a slot whose socket is being closed.
    pub(crate) fn forget(&mut self, slot: u32) {
        self.pending.retain(|&pending| pending != slot);
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    pub(crate) fn sleeper(&self) -> Sleeper {
        Sleeper {
            epoll: Arc::clone(&self.epoll),
            waker: self.waker.clone(),
        }
    }

    pub(crate) fn blocked(&self) -> bool {
        self.blocked
    }

    /// Watches for room in the send buffer.
    pub(crate) fn block(&mut self, unicast: BorrowedFd<'_>) -> io::Result<()> {
        if !self.blocked {
            let interest = libc::EPOLLIN | libc::EPOLLOUT;
            sys::epoll_set(
                self.epoll.as_fd(),
                libc::EPOLL_CTL_MOD,
                unicast,
                interest,
                TOKEN_UNICAST,
            )?;
            self.blocked = true;
        }
        Ok(())
    }

    /// True while sockets of the last look wait to be served.
    pub(crate) fn has_pending(&self) -> bool {
        self.unicast != 0 || !self.pending.is_empty()
    }

    pub(crate) fn has_pending_multicast(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The events of the unicast socket.
    pub(crate) fn take_unicast(&mut self) -> u32 {
        std::mem::take(&mut self.unicast)
    }

    pub(crate) fn take_multicast(&mut self) -> Option<u32> {
        self.pending.pop()
    }

    /// Blocks until something happens or the time passed.
    pub(crate) fn wait(
        &mut self,
        unicast: BorrowedFd<'_>,
        timeout: Option<Duration>,
    ) -> io::Result<Ready> {
        let asleep =
            timeout != Some(Duration::ZERO) && !self.has_pending() && self.waker.fall_asleep();
        let result = self.look(
            unicast,
            if asleep {
                timeout
            } else {
                Some(Duration::ZERO)
            },
        );
        // Also after an error, so that wakers do not go on writing to a descriptor nobody sleeps on.
        let notified = self.waker.awaken();
        let mut ready = result?;
        ready.woken |= notified;
        Ok(ready)
    }

    /// Asks the kernel which sockets are ready, and makes that the pending list.
    pub(crate) fn look(
        &mut self,
        unicast: BorrowedFd<'_>,
        timeout: Option<Duration>,
    ) -> io::Result<Ready> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        let count = match self.ask(&mut events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            other => other?,
        };
        let mut ready = Ready::default();
        self.pending.clear();
        self.unicast = 0;
        // From the last to the first, because the pending list is taken from its end.
        for event in events[..count].iter().rev() {
            let (flags, token) = (event.events, event.u64);
            match token {
                TOKEN_WAKER => ready.woken = self.waker.clear(),
                TOKEN_OTHER => ready.readable = true,
                TOKEN_CHANGES => (self.changes, ready.readable) = (true, true),
                TOKEN_UNICAST => {
                    self.unicast = flags & !(libc::EPOLLOUT as u32);
                    ready.writable = self.blocked && flags & libc::EPOLLOUT as u32 != 0;
                }
                slot => self.pending.push(slot as u32),
            }
        }
        if ready.writable {
            sys::epoll_set(
                self.epoll.as_fd(),
                libc::EPOLL_CTL_MOD,
                unicast,
                libc::EPOLLIN,
                TOKEN_UNICAST,
            )?;
            self.blocked = false;
        }
        ready.readable |= self.has_pending();
        Ok(ready)
    }

    fn ask(
        &mut self,
        events: &mut [libc::epoll_event],
        timeout: Option<Duration>,
    ) -> io::Result<usize> {
        if self.precise {
            match sys::epoll_pwait2(self.epoll.as_fd(), events, timeout) {
                // Old kernels lack the call; some container sandboxes forbid it.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                    self.precise = false;
                }
                other => return other,
            }
        }
        sys::epoll_wait(self.epoll.as_fd(), events, timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Family;

    #[test]
    fn a_blocked_sender_is_told_when_it_can_go_on() {
        let socket = sys::udp_socket(Family::V4).unwrap();
        let mut poller = Poller::new(socket.as_fd()).unwrap();
        let second = Some(Duration::from_secs(60));
        poller.block(socket.as_fd()).unwrap();
        assert!(poller.blocked());
        assert_eq!(
            poller.wait(socket.as_fd(), second).unwrap(),
            Ready {
                writable: true,
                ..Ready::default()
            }
        );
        assert!(!poller.blocked());
        assert_eq!(
            poller.wait(socket.as_fd(), Some(Duration::ZERO)).unwrap(),
            Ready::default()
        );
    }

    #[test]
    fn works_without_precise_timeouts() {
        let socket = sys::udp_socket(Family::V4).unwrap();
        let mut poller = Poller::new(socket.as_fd()).unwrap();
        poller.precise = false;
        assert_eq!(
            poller
                .wait(socket.as_fd(), Some(Duration::from_nanos(1)))
                .unwrap(),
            Ready::default()
        );
        poller.waker().wake();
        assert!(poller.wait(socket.as_fd(), None).unwrap().woken);
    }

    #[test]
    fn a_sleeper_sleeps_for_a_poller_that_another_thread_has() {
        let socket = sys::udp_socket(Family::V4).unwrap();
        let mut poller = Poller::new(socket.as_fd()).unwrap();
        let sleeper = poller.sleeper();
        sleeper.sleep(Some(Duration::from_nanos(1))).unwrap();
        poller.waker().wake();
        sleeper.sleep(None).unwrap();
        let waker = poller.waker().clone();
        let sleeping = std::thread::spawn(move || sleeper.sleep(None));
        // Before or after it has fallen asleep.
        waker.wake();
        sleeping.join().unwrap().unwrap();
        poller.look(socket.as_fd(), Some(Duration::ZERO)).unwrap();
        let again = poller.look(socket.as_fd(), Some(Duration::ZERO)).unwrap();
        assert!(!again.woken, "the first look has taken it");
    }
}
