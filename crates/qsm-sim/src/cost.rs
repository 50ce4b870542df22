//! What a host's processor and memory manager need for what the host does, so that it can be
//! saturated: a cost per event, an order in which waiting events are served, and pauses of a
//! garbage collector.
//!
//! ```text
//!  arrivals ─► socket ─┐
//!  timers ─────────────┼─► one thread ─► busy for the event's cost ─► datagrams leave meanwhile
//!  the application ────┘        └─ now and then: collect, for as long as the live heap demands
//! ```
//!
//! A simulated data packet can stand for several: then its costs count as
//! often, and long runs of large clusters become affordable.

use core::time::Duration;
use std::collections::VecDeque;
use std::rc::Rc;

use qsm_proto::{Instant, Priority, Reason, nanoseconds};
use qsm_testnet::is_data;
use qsm_wire::{Body, Hop, Kind, Packet};

use crate::engine::Datagram;

/// The order in which datagrams that wait at a host are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// As they came.
    #[default]
    Arrival,
    /// Control before data, forwarded packets among control (S0 §4, §5.3).
    ControlFirst,
    /// By [`Priority`], as nodes do: tokens and membership, then requests and ACKs, then repairs,
    /// then data (R122).
    ByKind,
}

impl Order {
    const CLASSES: usize = Priority::COUNT;

    fn class(self, datagram: &Datagram) -> usize {
        match self {
            Self::Arrival => 0,
            Self::ControlFirst => usize::from(is_fresh(&datagram.bytes)),
            Self::ByKind => Priority::of(&datagram.bytes) as usize,
        }
    }
}

/// Whether this is a data packet that comes from its sender for the first time.
fn is_fresh(datagram: &[u8]) -> bool {
    is_data(datagram) && Hop::peek(datagram) == Some(Hop::Direct)
}

/// How many values an ACK carries: one for all receivers, or one for each partition.
fn values(ack: &[u8]) -> u32 {
    let marks = match Packet::decode(ack) {
        Ok(Packet {
            body: Body::Ack(_, marks),
            ..
        }) => marks.len(),
        _ => 0,
    };
    u32::try_from(marks.max(1)).unwrap_or(u32::MAX)
}

/// What each kind of event costs. Zero costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CostModel {
    /// Taking a data or repair packet from the socket through the protocol.
    pub receive: Duration,
    /// Taking a control packet.
    pub receive_control: Duration,
    /// Deciding on a token, in addition.
    pub token: Duration,
    /// Acting on one value of an ACK, in addition: it has one, or one for each partition (R094).
    pub ack_value: Duration,
    /// Handing a data or repair packet to the socket.
    pub send: Duration,
    /// Forwarded packets travel by reliable unicast (S2 §2.3.3), which acknowledges each: both
    /// ends make and send one packet and receive one, the packet itself or its acknowledgement.
    pub forwarded_acknowledged: bool,
    /// Handing a control packet to the socket.
    pub send_control: Duration,
    /// Making a message in the application and taking it through its group's part of the stack.
    pub publish: Duration,
    /// Handing a message to the application.
    pub deliver: Duration,
    /// Running what a timer has set off.
    pub timer: Duration,
    /// Moving a KiB of data packets once.
    pub copy_per_kib: Duration,
    /// How often the bytes of a data packet are moved on their way out, and on their way in.
    pub copies: u32,
    /// From the arrival of something at a thread that sleeps until it runs.
    pub wake: Duration,
    /// Longest time that datagrams are handled while timers are due.
    pub io_quantum: Duration,
    /// The part of that in which messages are made although datagrams wait. Zero: only when none
    /// does (S0 §4), so that a host that others keep busy never gets to send.
    pub output_first: Duration,
    /// Which datagrams are handled first.
    pub order: Order,
    /// The process is told what its socket drops, as Linux does on request, and slows senders down.
    pub told_of_drops: bool,
    /// Managed memory; `None`: memory costs nothing.
    pub heap: Option<HeapModel>,
    /// How many packets one simulated data packet stands for; 0 as 1.
    pub weight: u32,
}

impl CostModel {
    fn weight(&self) -> u32 {
        self.weight.max(1)
    }

    /// Taking a data packet from the socket; `fresh`: it was not forwarded.
    fn receiving(&self, fresh: bool) -> Duration {
        if fresh || !self.forwarded_acknowledged {
            self.receive
        } else {
            self.receive + self.publish + self.send
        }
    }

    /// Handing a data packet to the socket; `fresh`: it is not forwarded.
    fn sending(&self, fresh: bool) -> Duration {
        if fresh || !self.forwarded_acknowledged {
            self.send
        } else {
            self.publish + self.send + self.receive + self.deliver
        }
    }

    /// What a control packet demands beyond being received.
    fn acting(&self, datagram: &[u8]) -> Duration {
        match Kind::peek(datagram) {
            Some(Kind::Token) => self.token,
            Some(Kind::Ack) if !self.ack_value.is_zero() => self.ack_value * values(datagram),
            _ => Duration::ZERO,
        }
    }

    fn copying(&self, bytes: usize) -> Duration {
        let moved = bytes as u64 * u64::from(self.copies);
        let nanos = nanoseconds(self.copy_per_kib) * moved / 1024;
        Duration::from_nanos(nanos)
    }
}

/// A memory manager that stops the process to collect. The pause is in proportion to what lives,
/// a collection is due whenever so much has been allocated: the more lives, the larger the share
/// of time (S0 §5.1: "the costs grow linearly in the amount of memory in use").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapModel {
    /// Lives always.
    pub base_bytes: u64,
    /// Lives for each byte of a message that is kept, in hundredths of a byte.
    pub kept_percent: u64,
    /// Is allocated for each byte of a message that is made or received, in hundredths.
    pub allocated_percent: u64,
    /// Lives for each group that the node publishes to.
    pub group_bytes: u64,
    /// A collection is due whenever so much has been allocated.
    pub collect_every_bytes: u64,
    /// How long a collection stops the process for each MiB that lives.
    pub pause_per_mib: Duration,
}

impl HeapModel {
    fn live(&self, kept: u64, groups: u64) -> u64 {
        self.base_bytes + kept * self.kept_percent / 100 + groups * self.group_bytes
    }

    fn pause(&self, live: u64) -> Duration {
        Duration::from_nanos(nanoseconds(self.pause_per_mib) * (live >> 10) / 1024)
    }
}

qsm_metrics::metrics! {
    /// What a host's processor has done since its start.
    #[derive(Copy)]
    pub struct CpuCounters of "cpu" {
        /// Time busy: everything, the three below included.
        busy_ns: counter(nanoseconds),
        /// Time collecting.
        collect_ns: counter(nanoseconds),
        /// Time moving bytes.
        copy_ns: counter(nanoseconds),
        /// Time making messages.
        publish_ns: counter(nanoseconds),
        /// Collections.
        collections: counter(collections),
        /// Datagrams dropped at arrival: socket full, or the host was deaf.
        dropped: counter(datagrams),
        /// Data packets among them.
        data_dropped: counter(packets),
        /// Data packets among these that came while the host ran and could have taken them.
        data_dropped_awake: counter(packets),
        /// Data packets that arrived, dropped ones included.
        data_arrived: counter(packets),
        /// Timers run.
        timers: counter(timers),
        /// By how much they were late, in all.
        late_ns: counter(nanoseconds),
        /// The latest since the counters were last taken.
        late_max_ns: maximum(nanoseconds),
        /// Bytes that live on the heap, now.
        live_bytes: gauge(bytes),
    }
}

/// What the thread does next.
#[derive(Debug)]
pub(crate) enum Work {
    Datagram(Rc<Datagram>),
    Timer,
    Feed,
    Sleep,
}

/// A datagram at a socket.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// When it came.
    pub(crate) since: Instant,
    pub(crate) datagram: Rc<Datagram>,
}

/// The processor of one host and the datagrams that wait for it.
#[derive(Debug)]
pub(crate) struct Cpu {
    model: CostModel,
    queues: [VecDeque<Waiting>; Order::CLASSES],
    waiting_bytes: usize,
    pub(crate) busy_until: Instant,
    /// A turn of the thread is in the event queue.
    pub(crate) scheduled: bool,
    /// The application has messages to publish, and the stack has asked for them.
    pub(crate) feeding: bool,
    deaf_until: Instant,
    /// How many times as long all work takes.
    slowness: u32,
    /// Datagrams that the socket dropped and the process has not been told of.
    untold: u64,
    io_since: Option<Instant>,
    output_until: Instant,
    allocated: u64,
    groups: u64,
    counters: CpuCounters,
}

impl Cpu {
    /// `phase`: any number; it says how much of the way to its first collection is done, so that
    /// hosts do not all collect at the same time.
    pub(crate) fn new(model: CostModel, groups: u64, phase: u64) -> Self {
        let every = model.heap.map_or(0, |heap| heap.collect_every_bytes);
        Self {
            model,
            queues: Default::default(),
            waiting_bytes: 0,
            busy_until: Instant(0),
            scheduled: false,
            feeding: false,
            deaf_until: Instant(0),
            slowness: 1,
            untold: 0,
            io_since: None,
            output_until: Instant(0),
            allocated: phase.checked_rem(every).unwrap_or(0),
            groups,
            counters: CpuCounters::default(),
        }
    }

    /// The process is gone and with it what waited for it.
    pub(crate) fn stop(&mut self) {
        *self = Self {
            counters: self.counters,
            ..Self::new(self.model, self.groups, self.allocated)
        };
    }

    pub(crate) fn counters(&self) -> CpuCounters {
        self.counters
    }

    /// The greatest lateness of a timer since this was asked last.
    pub(crate) fn take_late_max(&mut self) -> u64 {
        core::mem::take(&mut self.counters.late_max_ns)
    }

    /// Whatever arrives before this time is lost.
    pub(crate) fn deafen(&mut self, until: Instant) {
        self.deaf_until = until;
    }

    /// From now on all work takes so many times as long as the model says.
    pub(crate) fn slow(&mut self, times: u32) {
        self.slowness = times.max(1);
    }

    /// What the socket has dropped since the process was told last, if it is told.
    pub(crate) fn take_untold(&mut self) -> u64 {
        core::mem::take(&mut self.untold) * u64::from(self.model.told_of_drops)
    }

    /// A datagram reaches the socket; whether it stays.
    pub(crate) fn arrive(
        &mut self,
        now: Instant,
        datagram: &Rc<Datagram>,
        room_bytes: usize,
    ) -> bool {
        let length = datagram.bytes.len();
        let data = is_data(&datagram.bytes);
        self.counters.data_arrived += u64::from(data);
        if now < self.deaf_until || self.waiting_bytes + length > room_bytes {
            self.counters.dropped += 1;
            self.counters.data_dropped += u64::from(data);
            self.untold += u64::from(now >= self.deaf_until);
            return false;
        }
        self.waiting_bytes += length;
        self.queues[self.model.order.class(datagram)].push_back(Waiting {
            since: now,
            datagram: Rc::clone(datagram),
        });
        true
    }

    /// A datagram was dropped although the host does not stand still.
    pub(crate) fn dropped_awake(&mut self, datagram: &Datagram) {
        let data = is_data(&datagram.bytes);
        self.counters.data_dropped_awake += u64::from(data);
    }

    pub(crate) fn has_datagrams(&self) -> bool {
        self.queues.iter().any(|queue| !queue.is_empty())
    }

    /// Time that the oldest datagram has waited.
    pub(crate) fn waited(&self, now: Instant) -> Duration {
        let first = self.queues.iter().filter_map(VecDeque::front);
        let since = first.map(|waiting| waiting.since).min();
        since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// When the thread runs if something is to be done from now on.
    pub(crate) fn wakes(&self, now: Instant) -> Instant {
        if self.busy_until >= now {
            self.busy_until
        } else {
            now.after(self.model.wake)
        }
    }

    /// Input and output before timers until their quantum is used up, and input before output but
    /// for what the model grants that. `fed`: a packet can be made and sent; that is output (S0 §4: completed transmissions are
    /// I/O events).
    pub(crate) fn pick(&mut self, now: Instant, timer_due: bool, fed: bool) -> Work {
        let datagrams = self.has_datagrams();
        let since = *self.io_since.get_or_insert(now);
        let used = now.since(since) >= self.model.io_quantum;
        if timer_due && (!(datagrams || fed) || used) {
            self.io_since = None;
            self.output_until = now.after(self.model.output_first);
            return Work::Timer;
        }
        if used && !self.model.output_first.is_zero() {
            self.io_since = Some(now);
            self.output_until = now.after(self.model.output_first);
        }
        if fed && (!datagrams || now < self.output_until) {
            return Work::Feed;
        }
        if !datagrams {
            self.io_since = None;
            return Work::Sleep;
        }
        let next = self.queues.iter_mut().find_map(VecDeque::pop_front);
        next.map_or(Work::Sleep, |Waiting { datagram, .. }| {
            self.waiting_bytes -= datagram.bytes.len();
            Work::Datagram(datagram)
        })
    }

    /// A datagram is handled.
    pub(crate) fn receives(&mut self, now: Instant, datagram: &[u8]) {
        if is_data(datagram) {
            let weight = self.model.weight();
            let copying = self.model.copying(datagram.len()) * weight;
            self.counters.copy_ns += nanoseconds(copying);
            self.allocate(datagram.len());
            let fresh = is_fresh(datagram);
            self.spend(now, self.model.receiving(fresh) * weight + copying);
        } else {
            let acting = self.model.acting(datagram);
            self.spend(now, self.model.receive_control + acting);
        }
    }

    /// A timer is run that was due at `due`.
    pub(crate) fn times_out(&mut self, now: Instant, due: Instant) {
        let late = nanoseconds(now.since(due));
        self.counters.timers += 1;
        self.counters.late_ns += late;
        self.counters.late_max_ns = self.counters.late_max_ns.max(late);
        self.spend(now, self.model.timer);
    }

    /// The application makes a message.
    pub(crate) fn publishes(&mut self, now: Instant, bytes: usize) {
        let cost = self.model.publish * self.model.weight();
        self.counters.publish_ns += nanoseconds(cost);
        self.allocate(bytes);
        self.spend(now, cost);
    }

    /// The application gets messages.
    pub(crate) fn delivers(&mut self, now: Instant, messages: usize) {
        let messages = u32::try_from(messages).unwrap_or(u32::MAX);
        self.spend(now, self.model.deliver * self.model.weight() * messages);
    }

    /// A datagram is sent; when it leaves.
    pub(crate) fn sends(&mut self, now: Instant, reason: Reason, bytes: usize) -> Instant {
        let cost = if matches!(reason, Reason::Data | Reason::Repair) {
            let weight = self.model.weight();
            let copying = self.model.copying(bytes) * weight;
            self.counters.copy_ns += nanoseconds(copying);
            self.model.sending(reason == Reason::Data) * weight + copying
        } else {
            self.model.send_control
        };
        self.spend(now, cost);
        self.busy_until
    }

    /// An event is over; `kept` bytes of packets are held now. Collects if that is due.
    pub(crate) fn finish(&mut self, now: Instant, kept: usize) {
        let Some(heap) = self.model.heap else {
            return;
        };
        let kept = kept as u64 * u64::from(self.model.weight());
        let live = heap.live(kept, self.groups);
        self.counters.live_bytes = live;
        if self.allocated >= heap.collect_every_bytes {
            self.allocated %= heap.collect_every_bytes.max(1);
            let pause = heap.pause(live);
            self.counters.collections += 1;
            self.counters.collect_ns += nanoseconds(pause);
            self.spend(now, pause);
        }
    }

    fn allocate(&mut self, bytes: usize) {
        if let Some(heap) = self.model.heap {
            let bytes = bytes as u64 * u64::from(self.model.weight());
            self.allocated += bytes * heap.allocated_percent / 100;
        }
    }

    fn spend(&mut self, now: Instant, cost: Duration) {
        let cost = cost * self.slowness;
        self.counters.busy_ns += nanoseconds(cost);
        self.busy_until = self.busy_until.max(now).after(cost);
    }
}

#[cfg(test)]
mod tests {
    use qsm_wire::Header;

    use super::*;

    const MODEL: CostModel = CostModel {
        receive: Duration::from_micros(60),
        receive_control: Duration::from_micros(500),
        token: Duration::from_micros(500),
        ack_value: Duration::from_millis(5),
        send: Duration::from_micros(80),
        forwarded_acknowledged: false,
        send_control: Duration::from_micros(300),
        publish: Duration::from_micros(20),
        deliver: Duration::from_micros(5),
        timer: Duration::from_micros(10),
        copy_per_kib: Duration::from_micros(4),
        copies: 2,
        wake: Duration::from_millis(1),
        io_quantum: Duration::from_millis(50),
        output_first: Duration::ZERO,
        order: Order::ByKind,
        told_of_drops: false,
        heap: None,
        weight: 10,
    };

    fn datagram(kind: Kind, hop: Hop) -> Rc<Datagram> {
        let header = Header {
            hop,
            ..Header::default()
        };
        let mut bytes = Vec::new();
        header.encode(kind, &mut bytes);
        bytes.resize(1024, 0);
        let from = std::net::SocketAddr::from(([10, 0, 0, 1], 1));
        Rc::new(Datagram {
            serial: 0,
            from,
            to: ([10, 0, 0, 2], 1).into(),
            reason: None,
            tag: 0,
            bytes: bytes.into(),
        })
    }

    fn next_kind(cpu: &mut Cpu) -> Option<(Kind, Hop)> {
        match cpu.pick(Instant(0), false, false) {
            Work::Datagram(datagram) => Kind::peek(&datagram.bytes).zip(Hop::peek(&datagram.bytes)),
            _ => None,
        }
    }

    #[test]
    fn a_packet_that_stands_for_ten_costs_ten_times_but_control_does_not() {
        let mut cpu = Cpu::new(MODEL, 0, 0);
        cpu.receives(Instant(0), &datagram(Kind::Data, Hop::Direct).bytes);
        assert_eq!(cpu.busy_until, Instant(680_000));
        cpu.receives(Instant(0), &datagram(Kind::Token, Hop::Direct).bytes);
        assert_eq!(cpu.busy_until, Instant(1_680_000));
        assert_eq!(cpu.sends(Instant(0), Reason::Ack, 9), Instant(1_980_000));
        assert_eq!(cpu.counters().copy_ns, 80_000);
        // The ACK's one number, besides receiving it.
        cpu.receives(Instant(0), &datagram(Kind::Ack, Hop::Direct).bytes);
        assert_eq!(cpu.busy_until, Instant(7_480_000));
    }

    #[test]
    fn what_is_forwarded_and_acknowledged_costs_one_more_packet_at_both_ends() {
        let model = CostModel {
            forwarded_acknowledged: true,
            copies: 0,
            weight: 1,
            ..MODEL
        };
        let mut cpu = Cpu::new(model, 0, 0);
        cpu.receives(Instant(0), &datagram(Kind::Data, Hop::Direct).bytes);
        assert_eq!(cpu.busy_until, Instant(60_000));
        cpu.receives(Instant(0), &datagram(Kind::Data, Hop::Push).bytes);
        assert_eq!(cpu.busy_until, Instant(60_000 + 160_000));
        let leaves = cpu.sends(Instant(0), Reason::Repair, 9);
        assert_eq!(leaves, Instant(220_000 + 165_000));
        assert_eq!(cpu.sends(Instant(0), Reason::Data, 9), Instant(465_000));
    }

    #[test]
    fn datagrams_are_served_by_kind() {
        let mut cpu = Cpu::new(MODEL, 0, 0);
        let arrivals = [
            (Kind::Data, Hop::Direct),
            (Kind::Data, Hop::Push),
            (Kind::Pull, Hop::Direct),
            (Kind::Token, Hop::Direct),
        ];
        for (kind, hop) in arrivals {
            assert!(cpu.arrive(Instant(0), &datagram(kind, hop), 1 << 20));
        }
        let late = datagram(Kind::Data, Hop::Direct);
        assert!(!cpu.arrive(Instant(0), &late, 4 << 10));
        let served: Vec<_> = core::iter::from_fn(|| next_kind(&mut cpu)).collect();
        assert!(served.into_iter().eq(arrivals.into_iter().rev()));
        assert_eq!(cpu.counters().data_dropped, 1);
    }

    #[test]
    fn timers_wait_for_the_quantum_of_datagrams_and_no_longer() {
        let mut cpu = Cpu::new(MODEL, 0, 0);
        (0..3).for_each(|_| {
            assert!(cpu.arrive(Instant(0), &datagram(Kind::Data, Hop::Direct), 1 << 20));
        });
        assert!(matches!(
            cpu.pick(Instant(0), true, false),
            Work::Datagram(..)
        ));
        assert!(matches!(
            cpu.pick(Instant(40_000_000), true, false),
            Work::Datagram(..)
        ));
        assert!(matches!(
            cpu.pick(Instant(60_000_000), true, false),
            Work::Timer
        ));
        assert!(matches!(
            cpu.pick(Instant(60_000_000), true, false),
            Work::Datagram(..)
        ));
    }

    #[test]
    fn who_has_messages_gets_its_share_of_a_busy_host_if_the_model_says_so() {
        let made = |output_first: Duration| {
            let model = CostModel {
                output_first,
                ..MODEL
            };
            let mut cpu = Cpu::new(model, 0, 0);
            let waiting = datagram(Kind::Data, Hop::Direct);
            let feeds = |at: u64| {
                assert!(cpu.arrive(Instant(0), &waiting, 1 << 20));
                matches!(cpu.pick(Instant(at * 1_000_000), false, true), Work::Feed)
            };
            (0..200).map(feeds).filter(|fed| *fed).count()
        };
        assert_eq!(made(Duration::ZERO), 0);
        assert_eq!(made(Duration::from_millis(10)), 30);
    }

    #[test]
    fn pauses_grow_with_what_lives() {
        let heap = HeapModel {
            base_bytes: 1 << 20,
            kept_percent: 300,
            allocated_percent: 100,
            group_bytes: 0,
            collect_every_bytes: 10_000,
            pause_per_mib: Duration::from_millis(4),
        };
        let model = CostModel {
            heap: Some(heap),
            ..MODEL
        };
        let pause = |kept| {
            let mut cpu = Cpu::new(model, 0, 0);
            cpu.publishes(Instant(0), 1000);
            cpu.finish(Instant(0), kept);
            cpu.counters().collect_ns
        };
        assert_eq!(pause(0), 4_000_000);
        // One simulated MiB stands for ten and occupies three times as much.
        assert_eq!(pause(1 << 20), 124_000_000);
    }
}
