//! What is compared: each system, and how it is tuned.
//!
//! Every system is tuned as its own documentation advises for throughput without loss on a host
//! whose kernel grants socket buffers of some megabytes. Where two ways of doing it are both
//! advised, or one is what people run by default, both are here as variants.

use super::cell::Cell;

/// A system, or a variant of one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct System {
    /// Name, then `/` and what is special about the variant.
    pub(crate) name: &'static str,
    /// Its program in `bench/peers`; empty: this program itself.
    pub(crate) folder: &'static str,
    pub(crate) kind: Kind,
    /// One packet of it reaches all receivers.
    pub(crate) multicast: bool,
    /// Part of the short matrix?
    pub(crate) main: bool,
    /// `NAME=VALUE` for its program.
    pub(crate) settings: &'static [&'static str],
    /// The same on a network of 1500 byte packets, if it differs.
    pub(crate) lab_settings: Option<&'static [&'static str]>,
    /// How it is tuned, and why.
    pub(crate) tuning: &'static str,
    /// Figures of another day's run, shown where there is none of this one.
    pub(crate) elsewhere: Option<&'static str>,
    /// Why it is not asked for a cell.
    pub(crate) refuses: fn(Cell) -> Option<&'static str>,
}

/// How a system is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One message a datagram, nothing verified or repaired: a ceiling.
    RawMessages,
    /// As many messages as fit in datagrams of 1400 bytes, likewise.
    RawPackets,
    /// Its program; packets are lost on the wire.
    Wire,
    /// Its program, whose own fault injector loses packets.
    Injector,
}

fn any(_: Cell) -> Option<&'static str> {
    None
}

fn no_repair(cell: Cell) -> Option<&'static str> {
    if cell.in_lab() {
        Some("the blaster repairs nothing")
    } else if cell.paces() {
        Some("the blaster has no fixed rate")
    } else if cell.senders > 1 || cell.groups > 1 {
        Some("the blaster has one sender and no groups")
    } else {
        None
    }
}

fn only_unicast(cell: Cell) -> Option<&'static str> {
    cell.has_multicast()
        .then_some("only where there is no multicast")
}

fn only_loss(cell: Cell) -> Option<&'static str> {
    (!cell.in_lab()).then_some("only for loss")
}

/// The largest number of groups that is tried.
fn streams(cell: Cell) -> Option<&'static str> {
    (cell.groups > 8192)
        .then_some("a stream, or an entity, for each group: it does not come so far")
}

/// With terms of 16 MB.
fn large_terms(cell: Cell) -> Option<&'static str> {
    (cell.groups > 256).then_some("48 MB for each stream at each side: see the variant term64K")
}

fn one_driver(cell: Cell) -> Option<&'static str> {
    if cell.in_lab() {
        Some("every process has a host of its own there, and so a driver of its own")
    } else {
        large_terms(cell)
    }
}

fn one_engine(cell: Cell) -> Option<&'static str> {
    cell.in_lab()
        .then_some("every process has a host of its own there, and so a node of its own")
}

fn few_streams(cell: Cell) -> Option<&'static str> {
    if cell.groups == 1 {
        Some("only for many groups")
    } else {
        streams(cell)
    }
}

fn few_objects(cell: Cell) -> Option<&'static str> {
    if cell.groups > 256 {
        Some("a session for each group: it does not come so far")
    } else {
        None
    }
}

fn no_layouts(cell: Cell) -> Option<&'static str> {
    cell.layout
        .map(|_| "a program of it that has other groups at each receiver is not there")
}

fn java_terms(cell: Cell) -> Option<&'static str> {
    no_layouts(cell).or_else(|| large_terms(cell))
}

fn few_objects_alike(cell: Cell) -> Option<&'static str> {
    no_layouts(cell).or_else(|| few_objects(cell))
}

fn streams_alike(cell: Cell) -> Option<&'static str> {
    no_layouts(cell).or_else(|| streams(cell))
}

fn one_group(cell: Cell) -> Option<&'static str> {
    (cell.groups > 1).then_some("has no groups within a session")
}

const DEFAULTS: System = System {
    name: "",
    folder: "",
    kind: Kind::Wire,
    multicast: true,
    main: false,
    settings: &[],
    lab_settings: None,
    tuning: "",
    elsewhere: None,
    refuses: any,
};

/// Everything, in the order in which it is played and shown.
pub(crate) const ALL: &[System] = &[
    System {
        name: "raw",
        kind: Kind::RawMessages,
        main: true,
        tuning: "Trains of datagrams, one message each, through `qsm-net`; nothing is numbered, verified or repaired, and what arrives counts. Not a system: what the same system calls reach.",
        refuses: no_repair,
        ..DEFAULTS
    },
    System {
        name: "raw/1400B",
        kind: Kind::RawPackets,
        main: true,
        tuning: "The same with datagrams of 1400 bytes: what a system that packs messages could reach if packing and checking cost nothing.",
        refuses: no_repair,
        ..DEFAULTS
    },
    System {
        name: "quicksilver",
        main: true,
        tuning: "Defaults. Messages are pulled from a feed for each group where as many as possible are sent, and sent by `Publisher::send` at a fixed rate; upcalls at receivers. The membership service is embedded in the first sender, and its CPU time counts there. With layouts it plans every second instead of every ten, and the first phase, which does not count, lasts 15 s longer.",
        ..DEFAULTS
    },
    System {
        name: "quicksilver/engine",
        main: true,
        settings: &["engine=shared"],
        tuning: "The receivers share one engine: the first one's node, to which all attach, its own process too. Their queues hold the sender up when they are full, as Aeron's do.",
        elsewhere: Some(
            "measured by itself, beside `aeron/1driver/mtu8K`: 15.2, 12.1, 8.6 and 7.0 million messages/s of 100 bytes, 2.80, 2.57, 1.79 and 1.13 of 1000 ([the page](guides/engine.md#what-it-saves)).",
        ),
        refuses: one_engine,
        ..DEFAULTS
    },
    System {
        name: "quicksilver/injector",
        kind: Kind::Injector,
        tuning: "For loss only: segmentation offload stays on, and each packet is lost independently behind the receive call (`qsm-net`'s fault injector), because a rule on the wire would meet whole trains. Others have no such thing; the plain row is the one to compare.",
        refuses: only_loss,
        ..DEFAULTS
    },
    System {
        name: "quicksilver/unicast",
        multicast: false,
        main: true,
        settings: &["multicast=none"],
        tuning: "As above without multicast (`--multicast none`): each packet goes to each receiver. The membership service is a part of the first sender's process, and named to all.",
        refuses: only_unicast,
        ..DEFAULTS
    },
    System {
        name: "quicksilver/half",
        multicast: false,
        settings: &["multicast=half"],
        tuning: "A mixed network: every other receiver has no multicast (`--multicast none`) and gets copies, the others share packets. Others are measured where nobody has multicast.",
        refuses: only_unicast,
        ..DEFAULTS
    },
    System {
        name: "aeron/window2M/mtu8K",
        folder: "aeron",
        main: true,
        settings: &[
            "window=2097152",
            "socket-buffer=2097152",
            "mtu=8192",
            "term=16777216",
        ],
        lab_settings: Some(&["window=2097152", "socket-buffer=2097152", "term=16777216"]),
        tuning: "C driver and client, UDP multicast, flow control `fc=min` with the number of receivers as group size (everybody must keep up), a media driver in each process in SHARED mode (advised for few cores), receiver window and socket buffers 2 MB (the default 128 KB is for its low-latency examples and far too small here), datagrams of 8 KB as its performance guide advises where the network carries them; 1408 bytes where it does not.",
        refuses: large_terms,
        ..DEFAULTS
    },
    System {
        name: "aeron/window2M",
        folder: "aeron",
        settings: &["window=2097152", "socket-buffer=2097152", "term=16777216"],
        tuning: "As above with Aeron's default datagrams of 1408 bytes: the same packets as Quicksilver's.",
        refuses: large_terms,
        ..DEFAULTS
    },
    System {
        name: "aeron/1driver/mtu8K",
        folder: "aeron",
        main: true,
        settings: &[
            "window=2097152",
            "socket-buffer=2097152",
            "mtu=8192",
            "term=16777216",
            "driver=shared",
        ],
        tuning: "As above, but the receivers share one media driver, Aeron's own way to have several subscribers on a host; the sender has its own, as on a host of its own.",
        elsewhere: Some(
            "measured by itself, 1, 2, 4 and 8 receivers over loopback, medians of five runs: 6.8, 6.0, 5.5 and 4.9 million messages/s of 100 bytes, 0.93, 1.00, 0.98 and 0.90 of 1000; Quicksilver in the same run 19.4, 11.8, 7.3 and 4.3, and 1.49, 2.27, 1.14 and 0.66: with 8 receivers it is **ahead of Quicksilver** with a node in each, and behind `quicksilver/engine`.",
        ),
        refuses: one_driver,
        ..DEFAULTS
    },
    System {
        name: "aeron/1driver-all/mtu8K",
        folder: "aeron",
        main: true,
        settings: &[
            "window=2097152",
            "socket-buffer=2097152",
            "mtu=8192",
            "term=16777216",
            "driver=host",
        ],
        tuning: "As above, but one media driver for all processes of the host, the sender among them: its messages still go by UDP multicast, from the driver to itself.",
        refuses: one_driver,
        ..DEFAULTS
    },
    System {
        name: "aeron/window2M/term64K",
        folder: "aeron",
        main: true,
        settings: &[
            "window=32768",
            "socket-buffer=2097152",
            "mtu=8192",
            "term=65536",
        ],
        tuning: "For many groups: the smallest term buffers, because each stream has three of them at each side; the window is bounded by half a term.",
        refuses: few_streams,
        ..DEFAULTS
    },
    System {
        name: "aeron/mdc/window2M/mtu8K",
        folder: "aeron",
        multicast: false,
        main: true,
        settings: &[
            "control=dynamic",
            "window=2097152",
            "socket-buffer=2097152",
            "mtu=8192",
            "term=16777216",
        ],
        tuning: "Multi-destination-cast: receivers ask for copies at the sender's control address (`control-mode=dynamic`), with minimum flow control as above.",
        refuses: only_unicast,
        ..DEFAULTS
    },
    System {
        name: "aeron-java/window2M/mtu8K",
        folder: "aeron-java",
        settings: &[
            "window=2097152",
            "socket-buffer=2097152",
            "mtu=8192",
            "term=16777216",
        ],
        lab_settings: Some(&["window=2097152", "socket-buffer=2097152", "term=16777216"]),
        tuning: "Java driver and client, otherwise as the C ones; bounds checks off (`agrona.disable.bounds.checks`), as its performance guide advises.",
        refuses: java_terms,
        ..DEFAULTS
    },
    System {
        name: "cyclone/batch",
        folder: "cyclone",
        main: true,
        settings: &["batch=1"],
        tuning: "Reliable, keep all, multicast, defaults, and write batching, as its throughput example has it. At a fixed rate each message is flushed at once.",
        refuses: streams,
        ..DEFAULTS
    },
    System {
        name: "cyclone/batch/large",
        folder: "cyclone",
        settings: &["batch=1", "message-size=65500B", "fragment-size=8000B"],
        tuning: "As above with messages of up to 65,500 bytes and fragments of 8,000, its advice for large data; on networks of 1500 byte packets that means IP fragments.",
        refuses: streams,
        ..DEFAULTS
    },
    System {
        name: "cyclone",
        folder: "cyclone",
        tuning: "Defaults without batching: every write is a packet.",
        refuses: streams,
        ..DEFAULTS
    },
    System {
        name: "zmq-tcp",
        folder: "zeromq",
        multicast: false,
        main: true,
        settings: &["transport=tcp", "hwm=10000"],
        tuning: "PUB/SUB over TCP; the publisher waits at the high-water mark (`ZMQ_XPUB_NODROP`) instead of dropping, 10,000 messages. Groups are prefixes to which subscribers subscribe.",
        ..DEFAULTS
    },
    System {
        name: "zmq-epgm",
        folder: "zeromq",
        main: true,
        settings: &[
            "transport=epgm",
            "hwm=10000",
            "rate-kbit=1500000",
            "recovery-ms=1000",
            "socket-buffer=4194304",
        ],
        lab_settings: Some(&[
            "transport=epgm",
            "hwm=10000",
            "rate-kbit=1000000",
            "recovery-ms=2000",
            "socket-buffer=4194304",
        ]),
        tuning: "PUB/SUB over OpenPGM in UDP multicast. The rate is fixed by the user and must be above what can be reached, since it is the limit otherwise; rate times recovery interval is the window for repairs, some 200 MB. Socket buffers 4 MB: with the default ones receivers lose more than the window holds.",
        ..DEFAULTS
    },
    System {
        name: "zenoh-tcp",
        folder: "zenoh",
        multicast: false,
        main: true,
        settings: &[],
        tuning: "Peer to peer over TCP (its multicast transport repairs nothing), `CongestionControl::Block`, scouting off, endpoints given. A key expression, with a declared publisher, for each group.",
        refuses: any,
        ..DEFAULTS
    },
    System {
        name: "jgroups/credits500K",
        folder: "jgroups",
        main: true,
        settings: &["credits=500000"],
        tuning: "Its `udp.xml` with flow-control credits of 500 KB: with the default 4 MB receivers drop more than they can ask for again. One cluster for everything, the group is in the message, and a receiver drops what it does not want: a channel for each fails at 256.",
        ..DEFAULTS
    },
    System {
        name: "norm/rate500M",
        folder: "norm",
        main: true,
        settings: &["rate-mbit=500"],
        tuning: "A stream object on a multicast session, fixed rate of 500 Mbit/s (congestion control reaches less here), flow control by watermarks that all receivers acknowledge, buffers of 32 MB, no parity sent ahead. A session for each group.",
        refuses: few_objects_alike,
        ..DEFAULTS
    },
    System {
        name: "pgm",
        folder: "openpgm",
        main: true,
        settings: &["rate-kbyte=500000"],
        tuning: "OpenPGM in UDP multicast with its own API: window of 100,000 packets, rate limit above what is reached, one message a packet.",
        refuses: one_group,
        ..DEFAULTS
    },
    System {
        name: "nats",
        folder: "nats",
        multicast: false,
        main: true,
        settings: &[],
        tuning: "Core NATS, the server within the first sender's process (so its CPU time counts there), a subject for each group. Core NATS disconnects slow consumers; so the server may hold 256 MB for each and stalls publishers before that is full, and the clients' pending limits are off.",
        ..DEFAULTS
    },
    System {
        name: "fastdds-mc/async",
        folder: "fastdds",
        main: true,
        settings: &["multicast=1"],
        tuning: "Reliable, keep all, asynchronous publication, one multicast locator at all readers, shared memory off (hosts are what is compared, not processes).",
        refuses: streams_alike,
        ..DEFAULTS
    },
];

/// The variant of Quicksilver that others are compared with in this cell.
pub(crate) fn quicksilver(cell: Cell) -> &'static str {
    if cell.has_multicast() {
        "quicksilver"
    } else {
        "quicksilver/unicast"
    }
}

/// The systems whose name begins with one of `names`; if there are none, all, or the main ones.
pub(crate) fn chosen(names: &[String], main: bool) -> Vec<System> {
    let named = |system: &&System| {
        if names.is_empty() {
            !main || system.main
        } else {
            names
                .iter()
                .any(|name| system.name.starts_with(name.as_str()))
        }
    };
    ALL.iter().filter(named).copied().collect()
}

impl System {
    /// Why it is not asked for this cell, if it is not.
    pub(crate) fn refuses(&self, cell: Cell) -> Option<&'static str> {
        match self.multicast && !cell.has_multicast() {
            true => Some("it multicasts"),
            false => (self.refuses)(cell),
        }
    }

    /// `NAME=VALUE` for its program in this cell.
    pub(crate) fn settings(&self, cell: Cell) -> &'static [&'static str] {
        match self.lab_settings {
            Some(settings) if cell.in_lab() => settings,
            _ => self.settings,
        }
    }

    /// Is it a ceiling?
    pub(crate) fn is_raw(&self) -> bool {
        matches!(self.kind, Kind::RawMessages | Kind::RawPackets)
    }

    /// Is it neither a ceiling nor Quicksilver?
    pub(crate) fn is_other(&self) -> bool {
        !self.folder.is_empty()
    }
}
