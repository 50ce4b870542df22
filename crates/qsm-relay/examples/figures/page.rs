//! The page that sets the costs beside S1's.

use std::fs;

use crate::chart::Chart;
use crate::measure::{Cost, Election, Service, put};

/// Packets of the paper's first measurement, bytes.
const USUAL: usize = 4096;
/// The packet size may change a median by this share, or by a tick of the clock.
const SAME: f64 = 0.5;
const TICK_NS: u64 = 50;

/// A row: what the paper has, and what is asked of this relay.
struct Bar {
    service: Service,
    what: &'static str,
    paper: &'static str,
    most_ns: u64,
}

const BARS: [Bar; 8] = [
    Bar {
        service: Service::Data,
        what: "data packet, nothing missing",
        paper: "20 µs",
        most_ns: 2000,
    },
    Bar {
        service: Service::Train,
        what: "the same, one of a train of 64",
        paper: "-",
        most_ns: 500,
    },
    Bar {
        service: Service::AfterLoss,
        what: "first data packet after a loss, with its NACK and timer",
        paper: "12 to 17 ms; 250 µs the first time",
        most_ns: 20_000,
    },
    Bar {
        service: Service::FirstNack,
        what: "NACK that makes a state, with its timer and first election",
        paper: "135 µs",
        most_ns: 5000,
    },
    Bar {
        service: Service::FurtherNack,
        what: "NACK that updates one",
        paper: "135 µs",
        most_ns: 5000,
    },
    Bar {
        service: Service::Decision,
        what: "end of the delay: the NACK to the replier",
        paper: "-",
        most_ns: 5000,
    },
    Bar {
        service: Service::Repair,
        what: "repair from upstream, to 50 links",
        paper: "123 µs",
        most_ns: 5000,
    },
    Bar {
        service: Service::Subcast,
        what: "repair by a replier, to two of 50 links",
        paper: "123 µs",
        most_ns: 5000,
    },
];

pub(crate) fn page(costs: &[Cost], elections: &[Election], idle: usize, samples: usize) -> String {
    let mut text = format!(
        "# Costs of a relay: the paper's beside ours\n\n\
         Written by `make figures-relay`. The paper is S1 (The cost of active services in DyRAM, \
         figures 4 and 5): Java 1.3.1 on a Pentium II of 400 MHz. What is measured here is the \
         state machine of `qsm-relay` ([relays](../internals/relays.md)): a packet's bytes in; the \
         addresses that get it, and the packets that follow, out. A relay here copies no payload and has \
         no socket: what the kernel takes to send is below. Each packet is timed by itself just \
         after its bytes were written, so they are in the cache, and reading the clock is in each \
         figure; trains are timed as a whole, and a packet's share is told. 50 receivers, \
         {samples} packets of each size, one of 25 lost before the relay. NACKs that make a state, \
         decisions and repairs by a replier are of {} others, each lost by two receivers.\n\n{}\n\n\
         | E50: service | S1 | here: median | 99 % below | at most | holds: median | 99 % |\n\
         |---|---|---|---|---|---|---|\n",
        samples / 4,
        machine()
    );
    let found = |service, bytes| {
        let fits = |cost: &&Cost| cost.service == service && cost.bytes == bytes;
        costs.iter().find(fits)
    };
    for bar in &BARS {
        let Some(cost) = found(bar.service, USUAL) else {
            continue;
        };
        let row = format_args!(
            "| {} | {} | {} | {} | {} | {} | {} |\n",
            bar.what,
            bar.paper,
            time(cost.median_ns),
            time(cost.p99_ns),
            time(bar.most_ns),
            holds(cost.median_ns <= bar.most_ns),
            holds(cost.p99_ns <= bar.most_ns)
        );
        put(&mut text, row);
    }
    let clock = found(Service::Clock, USUAL).map_or(0, |cost| cost.median_ns);
    put(
        &mut text,
        format_args!(
            "| idle session with 50 receivers | a few KB | {idle} B | - | 4096 B | {} | - |\n\n\
             Packets of 4 KB. Two readings of the clock are {} apart. Figures are of a machine \
             that does other things too: the last per cent is partly theirs.\n\n## Packet size\n\n\
             S1 finds no change from 1 to 32 KB.\n\n",
            holds(idle <= 4096),
            time(clock)
        ),
    );
    sizes(&mut text, costs);
    put(
        &mut text,
        format_args!("\n![Costs by packet size](E50.svg)\n\n"),
    );
    election(&mut text, elections);
    text
}

fn sizes(text: &mut String, costs: &[Cost]) {
    let mut sizes: Vec<usize> = costs.iter().map(|cost| cost.bytes).collect();
    sizes.dedup();
    put(text, format_args!("| median |"));
    for bytes in &sizes {
        put(text, format_args!(" {} KB |", bytes / 1024));
    }
    put(text, format_args!(" the same |\n|---|"));
    put(text, format_args!("{}---|\n", "---|".repeat(sizes.len())));
    let services = BARS.iter().map(|bar| bar.service);
    for service in services.chain([Service::Kernel]) {
        put(text, format_args!("| {} |", service.name()));
        let of = |cost: &&Cost| cost.service == service;
        let medians: Vec<u64> = costs.iter().filter(of).map(|cost| cost.median_ns).collect();
        for median in &medians {
            put(text, format_args!(" {} |", time(*median)));
        }
        let least = medians.iter().min().copied().unwrap_or(0);
        let most = medians.iter().max().copied().unwrap_or(0);
        let same = most <= least + TICK_NS || most as f64 <= least as f64 * (1.0 + SAME);
        put(text, format_args!(" {} |\n", holds(same)));
    }
    put(
        text,
        format_args!(
            "\n*The same*: the largest median is at most half as much again as the smallest, or \
             {TICK_NS} ns more. *Kernel*: `sendto` of one copy over loopback; a relay without \
             multicast has one for each link.\n"
        ),
    );
}

fn election(text: &mut String, elections: &[Election]) {
    let at = |receivers, position| {
        let fits = |it: &&Election| it.receivers == receivers && it.position == position;
        elections.iter().find(fits)
    };
    let bound = |position: usize| 1000 + 20 * position as u64;
    let within = elections
        .iter()
        .all(|it| it.median_ns <= bound(it.position));
    let within_p99 = elections
        .iter()
        .filter(|it| it.p99_ns <= bound(it.position));
    put(
        text,
        format_args!(
            "## Election\n\nThe cost of the NACK that makes the election pass over all receivers \
             before a position of the list, decoding included (E51, S1's figure 5). The last has asked \
             before, so there all are passed over, and nobody is found.\n\n\
             | receivers | position 1 | position 5 | the last |\n|---|---|---|---|\n"
        ),
    );
    let mut counts: Vec<usize> = elections.iter().map(|it| it.receivers).collect();
    counts.dedup();
    for receivers in counts {
        put(text, format_args!("| {receivers} |"));
        for position in [1, 5, receivers] {
            let median = at(receivers, position).map_or(0, |it| it.median_ns);
            put(text, format_args!(" {} |", time(median)));
        }
        put(text, format_args!("\n"));
    }
    let gain = |receivers| at(receivers, 5).map_or(0, |it| it.median_ns);
    put(
        text,
        format_args!(
            "\n- At most 1 µs and 20 ns for each candidate: medians {}; of {} points {} have 99 % \
             of their samples below.\n- Position 5 among 25 receivers instead of 5: \
             {} against {}; in S1 it takes 30 µs more.\n\n![Election](E51.svg)\n\n\
             All figures: [E50.csv](E50.csv), [E51.csv](E51.csv).\n",
            holds(within),
            elections.len(),
            within_p99.count(),
            time(gain(25)),
            time(gain(5))
        ),
    );
}

pub(crate) fn costs_chart(costs: &[Cost]) -> Chart {
    let line = |service: Service| {
        let of = costs.iter().filter(move |cost| cost.service == service);
        let points = of.map(|cost| (cost.bytes as f64 / 1024.0, cost.median_ns as f64));
        (service.name().to_owned(), points.collect())
    };
    Chart {
        title: "E50: cost of a packet at a relay, median".to_owned(),
        x_label: "packet, KB",
        y_label: "ns",
        x_log: true,
        lines: [
            Service::Data,
            Service::AfterLoss,
            Service::FirstNack,
            Service::FurtherNack,
            Service::Repair,
            Service::Subcast,
        ]
        .map(line)
        .to_vec(),
    }
}

pub(crate) fn elections_chart(elections: &[Election]) -> Chart {
    let mut counts: Vec<usize> = elections.iter().map(|it| it.receivers).collect();
    counts.dedup();
    let line = |receivers: usize| {
        let of = elections.iter().filter(move |it| it.receivers == receivers);
        let points = of.map(|it| (it.position as f64, it.median_ns as f64));
        (format!("{receivers} receivers"), points.collect())
    };
    Chart {
        title: "E51: a NACK that moves the election, median".to_owned(),
        x_label: "position that the election comes to",
        y_label: "ns",
        x_log: false,
        lines: counts.into_iter().map(line).collect(),
    }
}

fn holds(holds: bool) -> &'static str {
    if holds { "yes" } else { "**no**" }
}

fn time(ns: u64) -> String {
    if ns < 1000 {
        format!("{ns} ns")
    } else {
        format!("{:.1} µs", ns as f64 / 1000.0)
    }
}

/// Description of the machine that it was measured on.
fn machine() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let models = || cpus.lines().filter(|line| line.starts_with("model name"));
    let model = models().next().and_then(|line| line.split_once(": "));
    let load = read("/proc/loadavg");
    format!(
        "Machine: {} × {}, Linux {}, load average {}.",
        models().count(),
        model.map_or("an unnamed CPU", |(_, name)| name),
        read("/proc/sys/kernel/osrelease").trim(),
        load.split(' ').next().unwrap_or("unknown")
    )
}
