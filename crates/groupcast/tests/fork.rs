//! Two processes with the same sender, which a fork must not mix up.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};

use groupcast::{BackEnd, Errno, Message, Recipient, Sender};
use support::{Receivers, drop_capabilities, on_all};

/// Messages that each of the two sends while the other one does.
const MESSAGES: usize = 300;
/// Receivers that a message goes to: of IPv4, then of IPv6.
const PLACES: [usize; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 64, 65, 66, 67, 68, 69, 70, 71];
const BODY_BYTES: usize = 600;

/// A process that was forked off this one and that ends with its work.
struct Child(libc::pid_t);

impl Child {
    fn new(work: impl FnOnce()) -> Self {
        // SAFETY: the child runs the closure, which uses nothing that another thread may hold a
        // lock of but the allocator, which glibc makes fit for use after a fork; it never returns.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
        if child == 0 {
            let done = catch_unwind(AssertUnwindSafe(work)).is_ok();
            // SAFETY: ends the process without running anything of the parent's.
            unsafe { libc::_exit(i32::from(!done)) };
        }
        Self(child)
    }

    /// Waits for its end; whether it did its work.
    fn succeeded(self) -> bool {
        let mut status = 0;
        // SAFETY: writes to an integer of ours.
        let waited = unsafe { libc::waitpid(self.0, &raw mut status, 0) };
        waited == self.0 && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
    }
}

/// Sends so many messages that carry this process's letter alone, before and in the body.
fn send_as(letter: u8, sender: &mut Sender, receivers: &Receivers, count: usize) {
    let own: Vec<_> = PLACES.map(|place| [letter, place as u8]).to_vec();
    let list = PLACES.iter().zip(&own);
    let recipients: Vec<_> = list
        .map(|(place, own)| Recipient::new(receivers.address(*place)).prepend(own))
        .collect();
    let body = [letter; BODY_BYTES];
    for _ in 0..count {
        let mut errors = [Errno::SENT; PLACES.len()];
        let sent = sender.send(&Message::new(&body), &recipients, Some(&mut errors));
        assert_eq!(
            sent.unwrap(),
            PLACES.len(),
            "{}: {errors:?}",
            char::from(letter)
        );
    }
}

/// Takes so many messages of each process at every receiver: all whole, and for that receiver.
fn take(receivers: &mut Receivers, count: usize, letters: &[u8]) {
    for place in PLACES {
        let mut came = [0; 256];
        for _ in 0..count * letters.len() {
            let got = receivers.receive(place);
            assert_eq!(got.len(), 2 + BODY_BYTES);
            assert_eq!(usize::from(got[1]), place, "a datagram for somebody else");
            let letter = got[0];
            let alien = got[2..].iter().find(|byte| **byte != letter);
            assert_eq!(alien, None, "a body of the other process");
            came[usize::from(letter)] += 1;
        }
        for letter in letters {
            assert_eq!(came[usize::from(*letter)], count, "at {place}");
        }
    }
}

#[test]
fn a_forked_process_has_a_device_and_records_of_its_own() {
    on_all(1500, |wire, sender, name| {
        let mut receivers = Receivers::new(wire);
        // Both processes have the option, each its own copy.
        let mut sender = Some(sender);
        let own = sender.as_mut().unwrap();
        send_as(b'p', own, &receivers, 4);
        take(&mut receivers, 4, b"p");
        let device = own.device().map(str::to_owned);
        let before = own.stats();
        let child = Child::new(|| {
            let own = sender.as_mut().unwrap();
            send_as(b'c', own, &receivers, MESSAGES);
            assert_ne!(
                own.back_end(),
                BackEnd::Connected,
                "a port shared by sockets of two"
            );
            if name == "ebpf" {
                assert_eq!(own.back_end(), BackEnd::Clone);
                assert_ne!(own.device(), device.as_deref(), "a device of its own");
                assert!(own.stats().cloned > before.cloned, "{:?}", own.stats());
            }
            drop(sender.take());
        });
        let own = sender.as_mut().unwrap();
        send_as(b'p', own, &receivers, MESSAGES);
        assert!(child.succeeded(), "{name}: the child says why");
        take(&mut receivers, MESSAGES, b"pc");
        // What the child has dropped was its own alone.
        send_as(b'p', own, &receivers, 4);
        take(&mut receivers, 4, b"p");
        receivers.assert_silent();
        let after = own.stats();
        assert_eq!(after.hooks_lost, 0, "{name}");
        match name {
            "ebpf" => assert_eq!(own.device(), device.as_deref()),
            "connected" => assert!(after.connected > before.connected, "{after:?}"),
            _ => {}
        }
    });
}

#[test]
fn a_forked_process_without_privileges_sends_by_the_socket() {
    on_all(1500, |wire, sender, name| {
        let mut receivers = Receivers::new(wire);
        let mut sender = sender;
        send_as(b'p', &mut sender, &receivers, 4);
        take(&mut receivers, 4, b"p");
        let child = Child::new(|| {
            drop_capabilities();
            send_as(b'c', &mut sender, &receivers, 4);
            assert_ne!(sender.back_end(), BackEnd::Clone);
            assert_eq!(sender.device(), None);
        });
        assert!(child.succeeded(), "{name}: the child says why");
        take(&mut receivers, 4, b"c");
        receivers.assert_silent();
    });
}
