use core::time::Duration;

/// Speed and flaws of a network. Probabilities are in parts per million.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkOptions {
    /// Shortest way from host to host.
    pub delay: Duration,
    /// Added to the delay, uniformly drawn per copy; more than the gap between packets reorders.
    pub jitter: Duration,
    /// A copy is lost, independently of the others.
    pub loss_ppm: u32,
    /// A datagram is lost for all of its receivers.
    pub shared_loss_ppm: u32,
    /// Bursts of loss at single receivers (Gilbert-Elliott).
    pub burst: Option<Burst>,
    /// A copy is damaged or cut short, where its checksum covers it.
    pub damage_ppm: u32,
    /// A copy arrives twice.
    pub duplicate_ppm: u32,
    /// A copy is held back, so that later ones overtake it.
    pub reorder_ppm: u32,
    /// For how long at most.
    pub reorder_delay: Duration,
    /// Larger datagrams vanish.
    pub mtu_bytes: usize,
    /// Bytes that wait at a host before further ones are dropped.
    pub receive_buffer_bytes: usize,
    /// Time that a host needs for one datagram; zero: no time at all.
    pub cpu_per_datagram: Duration,
    /// Rate of a host's way out, bits per second.
    pub uplink_bits_per_second: u64,
    /// Rate of the switch towards a host, bits per second; 0: as much as comes.
    pub downlink_bits_per_second: u64,
    /// Bytes that wait in the switch for each host before further ones are dropped.
    pub switch_queue_bytes: u64,
    /// Several places joined by slow links.
    pub sites: Sites,
    /// Time from a request until the network forwards a multicast address to a host (IGMP).
    pub join_latency: Duration,
    /// Time from a request until it no longer does.
    pub leave_latency: Duration,
    /// Chance that a datagram of the membership protocol is held up.
    pub membership_lag_ppm: u32,
    /// How long at most: views reach different nodes at different times (R047).
    pub membership_lag: Duration,
    /// True if hosts hear their own multicasts.
    pub loopback: bool,
}

impl NetworkOptions {
    /// A cluster's network without any flaw.
    pub const PERFECT: Self = Self {
        delay: Duration::from_micros(50),
        jitter: Duration::from_micros(5),
        loss_ppm: 0,
        shared_loss_ppm: 0,
        burst: None,
        damage_ppm: 0,
        duplicate_ppm: 0,
        reorder_ppm: 0,
        reorder_delay: Duration::ZERO,
        mtu_bytes: 1472,
        receive_buffer_bytes: 1 << 20,
        cpu_per_datagram: Duration::ZERO,
        uplink_bits_per_second: 1_000_000_000,
        downlink_bits_per_second: 0,
        switch_queue_bytes: 1 << 20,
        sites: Sites::ONE,
        join_latency: Duration::from_millis(1),
        leave_latency: Duration::from_millis(2),
        membership_lag_ppm: 0,
        membership_lag: Duration::ZERO,
        loopback: false,
    };
}

/// A two-state model of loss at one receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// Chance per copy that a bad time begins.
    pub enter_ppm: u32,
    /// Chance per copy that it ends.
    pub exit_ppm: u32,
    /// Loss while it lasts.
    pub loss_ppm: u32,
}

/// Places joined by one link for each ordered pair of them. A multicast crosses a link once,
/// however many receive it there, so that what is lost on a link is lost for a whole place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sites {
    /// How many; host k is at place k modulo this.
    pub count: usize,
    /// Added to the delay of what crosses.
    pub delay: Duration,
    /// Rate of a link, bits per second.
    pub bits_per_second: u64,
    /// Bytes that wait for a link before further ones are dropped.
    pub queue_bytes: u64,
    /// A datagram is lost on a link, parts per million.
    pub loss_ppm: u32,
}

impl Sites {
    /// Everybody is at the same place.
    pub const ONE: Self = Self {
        count: 1,
        delay: Duration::ZERO,
        bits_per_second: 1_000_000_000,
        queue_bytes: 1 << 20,
        loss_ppm: 0,
    };

    /// Where a host is.
    #[must_use]
    pub fn of(&self, host: usize) -> usize {
        host % self.count.max(1)
    }
}
