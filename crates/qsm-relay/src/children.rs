use core::net::SocketAddr;
use core::time::Duration;

use qsm_wire::Instant;

use crate::links::Links;
use crate::packet::Report;

/// Places that the list grows by, so that it takes little more than its children do.
const GROWTH: usize = 2;

/// A receiver or relay that is directly below, as it says itself.
#[derive(Debug, Clone, Copy)]
struct Child {
    /// Number that it has drawn.
    id: u64,
    address: SocketAddr,
    /// First packet that it is owed; 0 until it has been told.
    first: u64,
    upto: u64,
    heard: Instant,
    receivers: u32,
}

/// The receiver list that the session protocol gathers (S1, 3.2.1): who is directly below, and how
/// far. Rules R-RELAY-2, R-RELAY-9, R-RELAY-19.
#[derive(Debug, Default)]
pub(crate) struct Children {
    slots: Vec<Option<Child>>,
    members: Links,
}

impl Children {
    pub(crate) fn members(&self) -> Links {
        self.members
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(crate) fn find(&self, address: SocketAddr) -> Option<usize> {
        let at = |slot: &Option<Child>| slot.as_ref().is_some_and(|it| it.address == address);
        self.slots.iter().position(at)
    }

    pub(crate) fn address(&self, place: usize) -> Option<SocketAddr> {
        self.get(place).map(|child| child.address)
    }

    pub(crate) fn addresses(&self, links: Links) -> impl Iterator<Item = SocketAddr> {
        links.iter().filter_map(|place| self.address(place))
    }

    /// The place of the child with this number, whatever its address; else of the one at this
    /// address, which has begun anew.
    pub(crate) fn find_child(&self, id: u64, address: SocketAddr) -> Option<usize> {
        let with = |slot: &Option<Child>| slot.as_ref().is_some_and(|it| it.id == id && id > 0);
        let place = self.slots.iter().position(with);
        place.or_else(|| self.find(address))
    }

    /// Takes note of a child's number and address; true if the address is another one than before.
    pub(crate) fn locate(&mut self, place: usize, id: u64, address: SocketAddr) -> bool {
        let Some(child) = self.get_mut(place) else {
            return false;
        };
        let moved = child.address != address;
        (child.id, child.address) = (id, address);
        moved
    }

    /// A place for a new child; `None` if all are taken.
    pub(crate) fn admit(&mut self, id: u64, address: SocketAddr, now: Instant) -> Option<usize> {
        let free = self.slots.iter().position(Option::is_none);
        let place = free.unwrap_or(self.slots.len());
        if place >= Links::MAX {
            return None;
        }
        if place == self.slots.len() {
            if self.slots.capacity() == self.slots.len() {
                self.slots.reserve_exact(GROWTH);
            }
            self.slots.push(None);
        }
        self.slots[place] = Some(Child {
            id,
            address,
            first: 0,
            upto: 0,
            heard: now,
            receivers: 0,
        });
        self.members.insert(place);
        Some(place)
    }

    /// First packet that a child is owed now, if it has been told before.
    pub(crate) fn owed(&self, place: usize) -> Option<u64> {
        let child = self.get(place).filter(|child| child.first > 0);
        child.map(|child| child.upto + 1)
    }

    /// Tells a child what it is owed from.
    pub(crate) fn owe(&mut self, place: usize, first: u64) {
        if let Some(child) = self.get_mut(place) {
            child.first = first;
            child.upto = first.saturating_sub(1);
        }
    }

    /// Children that have not been told yet.
    pub(crate) fn untold(&self) -> Links {
        self.those(|child| child.first == 0)
    }

    /// Takes a child's word on itself; true if it says something new. A report of no receivers is
    /// a sign of life alone.
    pub(crate) fn report(&mut self, place: usize, report: &Report, now: Instant) -> bool {
        let Some(child) = self.get_mut(place) else {
            return false;
        };
        child.heard = now;
        if report.receivers == 0 {
            return false;
        }
        let before = *child;
        child.first = report.first;
        // Its first word counts: by a Join alone it was taken to have everything before.
        child.upto = match before.receivers {
            0 => report.upto,
            _ => child.upto.max(report.upto),
        };
        child.receivers = report.receivers;
        (before.upto, before.receivers) != (child.upto, child.receivers)
    }

    /// A child is alive.
    pub(crate) fn hear(&mut self, place: usize, now: Instant) {
        if let Some(child) = self.get_mut(place) {
            child.heard = now;
        }
    }

    /// Tells whether a child has said something of itself.
    pub(crate) fn is_known(&self, place: usize) -> bool {
        self.get(place).is_some_and(|child| child.receivers > 0)
    }

    pub(crate) fn remove(&mut self, place: usize) {
        if let Some(slot) = self.slots.get_mut(place) {
            *slot = None;
            self.members.remove(place);
        }
    }

    /// Removes those that have been silent for so long, and returns them.
    pub(crate) fn expire(&mut self, now: Instant, lifetime: Duration) -> Links {
        let silent = self.those(|child| child.heard.after(lifetime) <= now);
        silent.iter().for_each(|place| self.remove(place));
        silent
    }

    /// Everybody below has everything up to here; `None` if nobody is below.
    pub(crate) fn upto_min(&self) -> Option<u64> {
        self.told().map(|child| child.upto).min()
    }

    /// The first packet that somebody below has.
    pub(crate) fn first_min(&self) -> Option<u64> {
        self.told().map(|child| child.first).min()
    }

    pub(crate) fn receivers(&self) -> u32 {
        let counts = self.told().map(|child| child.receivers);
        counts.fold(0, u32::saturating_add)
    }

    /// Children that may have a packet, as far as it is for them.
    pub(crate) fn holders(&self, sequence: u64) -> Links {
        self.those(|child| child.first > 0 && child.first <= sequence)
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Option<Child>>()
    }

    fn told(&self) -> impl Iterator<Item = &Child> {
        let children = self.slots.iter().flatten();
        children.filter(|child| child.first > 0)
    }

    fn those(&self, fits: impl Fn(&Child) -> bool) -> Links {
        let mut links = Links::default();
        for (place, slot) in self.slots.iter().enumerate() {
            if slot.as_ref().is_some_and(&fits) {
                links.insert(place);
            }
        }
        links
    }

    fn get(&self, place: usize) -> Option<&Child> {
        self.slots.get(place)?.as_ref()
    }

    fn get_mut(&mut self, place: usize) -> Option<&mut Child> {
        self.slots.get_mut(place)?.as_mut()
    }
}
