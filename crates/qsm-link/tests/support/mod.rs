//! An open link of two ends, and what holds of it whatever comes to their ports.
//!
//! Shared by the tests of this crate and by the target in `fuzz/`, so that both check the same.

use core::time::Duration;
use std::collections::BTreeSet;
use std::net::SocketAddr;

use qsm_handshake::Identity;
use qsm_identity::{Claims, ClusterRoot, NodeKey, Role, Roles, Roster, Serial, Token};
use qsm_link::{Link, QuicLink, Settings};
use qsm_wire::Instant;

const CLUSTER: &str = "plant";
/// Seconds since 1970 at the beginning.
const EPOCH: u64 = 1_800_000_000;
const YEAR: u64 = 365 * 86_400;
const PARENT: usize = 0;
const CHILD: usize = 1;
/// Time in which a link opens in a network that loses nothing.
const OPENS_IN: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
/// Hours of one input that may pass: in each an end may begin another generation of keys, and lose all datagrams of it.
const HOURS_MAX: usize = 7;
/// Steps of one input.
const STEPS_MAX: usize = 64;
/// Datagrams that the ends may exchange at one time.
const TURNS_MAX: usize = 1000;

/// Datagrams of one input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Opened: they were sealed by the other end.
    pub(crate) opened: usize,
    /// Changed, made up or repeated, and not opened.
    pub(crate) dropped: usize,
}

/// Keys and tokens of the two ends.
pub(crate) struct Site {
    root: ClusterRoot,
    ends: [End; 2],
}

struct End {
    seed: [u8; 32],
    token: Token,
}

impl Site {
    pub(crate) fn new() -> Self {
        let root = ClusterRoot::generate().unwrap();
        let end = |seed| {
            let seed = [seed; 32];
            let key = NodeKey::from_seed(&seed).unwrap();
            let claims = Claims {
                cluster: CLUSTER.to_owned(),
                serial: Serial::random().unwrap(),
                name: "**".parse().unwrap(),
                node_key: Some(key.public()),
                roles: Roles::NONE.with(Role::Relay),
                not_before: EPOCH - 60,
                expires: EPOCH + YEAR,
                publish: Vec::new(),
                subscribe: Vec::new(),
            };
            let token = root.issue(claims).unwrap();
            End { seed, token }
        };
        let ends = [end(1), end(2)];
        Self { root, ends }
    }

    /// Carries out the steps that the input says, and checks that each end takes nothing but what the other has sealed,
    /// and that once, and that the link is open afterwards. A step is what to do, how many bytes follow, and these: a
    /// datagram, or how one is changed.
    pub(crate) fn check(&self, input: &[u8]) -> Taken {
        let mut pair = Pair::new(self);
        let mut rest = input;
        for _ in 0..STEPS_MAX {
            let [what, length, tail @ ..] = rest else {
                break;
            };
            let (body, tail) = tail.split_at(tail.len().min(usize::from(*length)));
            rest = tail;
            let end = usize::from(what >> 3) % 2;
            match what & 7 {
                0 => pair.receive(end, body.to_vec()),
                1 => pair.say(end, &[]),
                2 => pair.say(end, body),
                3 => pair.repeat(body),
                4 => pair.speak(end),
                5 => pair.change_quic(end, body),
                6 => pair.pass(Duration::from_millis(1 << (length % 16))),
                _ if *length == u8::MAX => pair.pass_hour(),
                _ => pair.frame(end, body),
            }
        }
        pair.pass(OPENS_IN);
        for end in [PARENT, CHILD] {
            let before = pair.taken.opened;
            pair.say(end, &[]);
            assert!(pair.taken.opened > before, "end {end} is not heard");
        }
        pair.taken
    }

    fn link(&self, end: usize) -> QuicLink {
        let settings = Settings {
            identity: Identity::from_seed(&self.ends[end].seed).unwrap(),
            token: self.ends[end].token.clone(),
            name: format!("site/{end}"),
            life: 7,
            roster: Roster::new(CLUSTER, self.root.public()),
            takes_children: end == PARENT,
            epoch: EPOCH,
        };
        QuicLink::new(settings).unwrap()
    }
}

struct Pair {
    now: Instant,
    links: [QuicLink; 2],
    /// Datagrams that each end has sealed and the other has not taken.
    owed: [BTreeSet<Vec<u8>>; 2],
    said: u64,
    hours: usize,
    /// The last datagram that was sealed, and whose it is.
    last: Option<(usize, Vec<u8>)>,
    taken: Taken,
}

impl Pair {
    fn new(site: &Site) -> Self {
        let mut pair = Self {
            now: Instant(0),
            links: [PARENT, CHILD].map(|end| site.link(end)),
            owed: [const { BTreeSet::new() }; 2],
            said: 0,
            hours: 0,
            last: None,
            taken: Taken::default(),
        };
        pair.links[CHILD].connect(pair.now, address(PARENT));
        pair.pass(OPENS_IN);
        let open = pair.links.each_ref().map(|link| link.stats().open);
        assert_eq!(open, [1, 1], "the link does not open");
        pair
    }

    /// Seals a packet of one end, changes its datagram by these bytes, and gives it to the other.
    fn say(&mut self, from: usize, changes: &[u8]) {
        self.said += 1;
        let packet = self.said.to_le_bytes();
        let (mut out, now) = (Vec::new(), self.now);
        let wrapped = self.links[from].wrap(now, address(1 - from), &packet, &mut out);
        assert!(wrapped.is_some(), "end {from} has no link");
        self.last = Some((from, out.clone()));
        self.owed[from].insert(packet.to_vec());
        change(&mut out, changes);
        self.receive(1 - from, out);
    }

    /// Gives the last sealed datagram to the other end again, changed.
    fn repeat(&mut self, changes: &[u8]) {
        if let Some((from, mut datagram)) = self.last.clone() {
            change(&mut datagram, changes);
            self.receive(1 - from, datagram);
        }
    }

    /// Asks one end to speak in the other's name.
    fn speak(&mut self, end: usize) {
        self.receive(end, vec![0x85]);
        self.exchange();
    }

    /// Gives an end these bytes behind the first of a sealed datagram of the other.
    fn frame(&mut self, end: usize, body: &[u8]) {
        let known = self.last.as_ref().filter(|(from, _)| *from != end);
        let front = known.map_or(&[0x84][..], |(_, datagram)| &datagram[..6]);
        let datagram = [front, body].concat();
        self.receive(end, datagram);
    }

    /// Has an end speak on its connection, and changes what it says.
    fn change_quic(&mut self, end: usize, changes: &[u8]) {
        self.receive(end, vec![0x85]);
        let mut datagram = Vec::new();
        while self.links[end].poll_transmit(&mut datagram).is_some() {
            let whole = datagram.clone();
            change(&mut datagram, changes);
            self.receive(1 - end, datagram.clone());
            // The network brings it as it was, too.
            self.receive(1 - end, whole);
        }
        self.exchange();
    }

    /// Gives a datagram from the other end's address to this one.
    fn receive(&mut self, end: usize, mut datagram: Vec<u8>) {
        let (now, from) = (self.now, address(1 - end));
        let received = self.links[end].receive(now, from, &mut datagram);
        let Some(received) = received else {
            self.taken.dropped += 1;
            return;
        };
        assert_eq!(received.from, from);
        let packet = &datagram[received.at];
        assert!(
            self.owed[1 - end].remove(packet),
            "not sealed by the other end, or taken before: {packet:02x?}"
        );
        self.taken.opened += 1;
    }

    /// Carries what the ends send by themselves, until they are quiet.
    fn exchange(&mut self) {
        let mut datagram = Vec::new();
        for _ in 0..TURNS_MAX {
            let next = (0..2).find(|end| self.links[*end].poll_transmit(&mut datagram).is_some());
            let Some(from) = next else {
                return;
            };
            let now = self.now;
            let received = self.links[1 - from].receive(now, address(from), &mut datagram);
            assert_eq!(received, None, "a packet that nobody has sent");
        }
        panic!("the ends do not fall silent");
    }

    /// Lets an hour pass, a few times.
    fn pass_hour(&mut self) {
        if self.hours < HOURS_MAX {
            self.hours += 1;
            self.pass(HOUR);
        }
    }

    /// Lets time pass.
    fn pass(&mut self, time: Duration) {
        let until = self.now.after(time);
        loop {
            self.exchange();
            let timers = self.links.iter().filter_map(|link| link.next_timeout());
            let Some(next) = timers.min().filter(|next| *next <= until) else {
                break;
            };
            self.now = self.now.max(next);
            let now = self.now;
            self.links
                .iter_mut()
                .for_each(|link| link.handle_timeout(now));
        }
        self.now = until;
        for link in &mut self.links {
            while link.poll_event().is_some() {}
        }
    }
}

fn address(end: usize) -> SocketAddr {
    let host = u8::try_from(end + 1).unwrap();
    SocketAddr::from(([10, 0, 0, host], 4490))
}

/// Changes a datagram by these bytes: a place, highest byte first, and a value, and so on.
fn change(datagram: &mut [u8], by: &[u8]) {
    for one in by.chunks_exact(3) {
        let place = usize::from(one[0]) << 8 | usize::from(one[1]);
        if let Some(byte) = datagram.get_mut(place) {
            *byte ^= one[2];
        }
    }
}
