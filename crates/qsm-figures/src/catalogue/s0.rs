//! S0: QSM in a managed environment, 200 nodes.

mod sweeps;
pub(super) mod tokens;

use super::statistics::{mean, quantile};
use crate::experiment::{Curve, Figure};
use crate::papers::Mode;
use crate::rules::{ANY, MORE, Seen};
use sweeps::{
    ACKED, COLLECTING, DEAF, EXCESS_LOSS, GROUPS, GROUPS_TRACED, LATENCIES, LATENCIES_SMALL,
    LOSS_AWAKE, PENDING, RATE, RATES, RECEIVER_CPU, RECEIVER_HEAP, RECEIVER_LATE, RECEIVERS,
    REPAIR, REPLICAS, ROUND, SENDER_CPU, SENDER_HEAP, SENDER_LATE, SLEEP, TOKENS, TWO_SENDERS,
    WATCHED_LATE, WATCHED_LOSS,
};

/// S0's experiments.
pub(super) static FIGURES: &[Figure] = &[
    Figure {
        id: "E18",
        title: "throughput vs receivers, one sender",
        source: "S0 fig. 11, §5.1",
        paper: "decreases by about 5 % over the range; the sender is saturated",
        fitted: "how often collections come: \"10 MB more cost 5 % of the throughput\" is the same observation.",
        sweep: &RECEIVERS,
        log_x: false,
        curves: &[RATE, SENDER_CPU, SENDER_LATE],
        references: &[],
        agrees: |seen| vec![seen.ends(0, 0.9025..=0.9747), seen.monotone(0, false, 0.15)],
        better: |_| Vec::new(),
        note: "Modern nodes have no collector in this model, and their rate, {E18.0@192m} messages/s, is what the sender's processor gives at any size: no rule could fail.",
    },
    Figure {
        id: "E18b",
        title: "throughput of two senders",
        source: "S0 fig. 11, §5.1",
        paper: "two senders together reach more than one before backlogs form",
        fitted: "",
        sweep: &TWO_SENDERS,
        log_x: false,
        curves: &[
            Curve {
                label: "messages/s delivered",
                of: |run| run.delivered,
            },
            PENDING,
            RECEIVER_CPU,
        ],
        references: &[],
        agrees: |seen| {
            let one = seen.at_other(&FIGURES[0], 0, 50.0);
            vec![seen.number(
                "two senders at 10,000 messages/s over one alone",
                seen.at(0, 10_000.0) / one,
                1.1..=MORE,
            )]
        },
        better: |seen| vec![seen.against_faithful(0, 12000.0, 1.0..=MORE)],
        note: "50 receivers. The backlog begins where receivers are saturated; the network's 100 Mbit/s (about 11,300 messages/s) are modelled at the senders only, so that rates beyond that are the processors' limit, not the wire's.",
    },
    Figure {
        id: "E19",
        title: "CPU vs multicast rate",
        source: "S0 fig. 12, §5.4",
        paper: "receivers are about half idle and grow linearly; the sender is saturated and grows super-linearly",
        fitted: "what receiving and delivering cost, to receivers that are half idle; there is no rule on that.",
        sweep: &RATES,
        log_x: false,
        curves: &[
            SENDER_CPU,
            RECEIVER_CPU,
            Curve {
                label: "CPU of the sender per message, µs",
                of: |run| run.sender.cpu * 1e6 / run.rate,
            },
            Curve {
                label: "CPU of a receiver per message, µs",
                of: |run| run.receivers.cpu * 1e6 / run.rate,
            },
        ],
        references: &[],
        agrees: |seen| {
            vec![
                seen.ratio(2, 2000.0, 8000.0, 1.03..=MORE),
                seen.ratio(3, 2000.0, 8000.0, 0.9..=1.1),
            ]
        },
        better: |_| Vec::new(),
        note: "100 receivers. What is super-linear at the sender is the garbage collector: the heap grows with the rate, and collections come more often. Modern nodes have none in this model: no rule.",
    },
    Figure {
        id: "E20",
        title: "where the sender's time goes",
        source: "S0 fig. 13-15, §5.1",
        paper: "the runtime's share grows: allocation by 10 %, collection by 15 % against 5 % less throughput; copying takes 12-14 %",
        fitted: "what copying costs; there is no rule on that.",
        sweep: &RECEIVERS,
        log_x: false,
        curves: &[
            COLLECTING,
            Curve {
                label: "time of the sender copying, %",
                of: |run| run.sender.copying * 100.0,
            },
            Curve {
                label: "time of the sender making messages, %",
                of: |run| run.sender.publishing * 100.0,
            },
        ],
        references: &[],
        agrees: |seen| vec![seen.ends(0, 1.1..=1.3225)],
        better: |_| Vec::new(),
        note: "Only collections are modelled as a function of memory, allocation is not, so that the whole growth appears in the collector. Modern mode has no collector in this model; copying remains.",
    },
    Figure {
        id: "E21",
        title: "memory and pending messages at the sender",
        source: "S0 fig. 16, §5.1",
        paper: "memory grows nearly three times as fast as pending messages",
        fitted: "the heap that a byte of a pending message keeps, 3 bytes: there is nothing else to test.",
        sweep: &RECEIVERS,
        log_x: false,
        curves: &[SENDER_HEAP, PENDING],
        references: &[],
        agrees: |_| Vec::new(),
        better: |seen| vec![seen.against_faithful(1, 192.0, ANY..=0.4)],
        note: "The factor of three is an input of the heap model (see the table of costs), so that only the growth itself is a result.",
    },
    Figure {
        id: "E22",
        title: "token round trip and time to acknowledge vs receivers",
        source: "S0 fig. 17, §5.1",
        paper: "time to acknowledge is slightly more than 0.5 s plus the round trip, which grows linearly and dominates",
        fitted: "",
        sweep: &RECEIVERS,
        log_x: false,
        curves: &[
            ROUND,
            ACKED,
            Curve {
                label: "time to acknowledge less 500 ms less round trip, ms",
                of: |run| run.stable_ms - 500.0 - mean(&run.rounds_ms),
            },
        ],
        references: &[],
        agrees: |seen| {
            vec![
                seen.ratio(0, 50.0, 192.0, 2.8..=4.2),
                seen.value(2, 192.0, 0.0..=150.0),
                seen.monotone(1, true, 0.05),
            ]
        },
        better: |seen| {
            vec![
                seen.ratio(0, 50.0, 192.0, ANY..=2.5),
                seen.against_faithful(1, 192.0, ANY..=0.21),
            ]
        },
        note: "Round trips grow linearly because one token visits all partitions in turn. Modern mode lets all rings rotate at once (S0 proposes that itself): the round trip grows with the depth of the hierarchy.",
    },
    Figure {
        id: "E23",
        title: "token rate: pending messages and throughput",
        source: "S0 fig. 18, §5.1",
        paper: "beyond 1.25 tokens/s successive tokens are redundant; 1 to 5 tokens/s: pending -30 %, throughput less than +1 %",
        fitted: "what a number in an ACK costs the sender, to the gain in throughput.",
        sweep: &TOKENS,
        log_x: false,
        curves: &[
            PENDING,
            RATE,
            Curve {
                label: "rounds/s",
                of: |run| run.round_rate,
            },
        ],
        references: &[],
        agrees: |seen| {
            vec![
                seen.ratio(0, 1.0, 5.0, 0.5..=0.837),
                seen.ratio(1, 1.0, 5.0, 0.99..=1.01),
                seen.ratio(2, 1.25, 5.0, 0.9..=1.1),
            ]
        },
        better: |seen| vec![seen.against_faithful(0, 5.0, ANY..=0.8)],
        note: "192 receivers. One leader never has two tokens in flight, so that the rate ends at one over the round trip, {E23.2@5} rounds/s. Where the sender is limited by its processor and nothing is lost, the token rate only moves the memory that is in use; compare E09, where losses wait for tokens.",
    },
    Figure {
        id: "E26",
        title: "caching replicas per message",
        source: "S0 fig. 22, 23, §5.2",
        paper: "memory at receivers is linear; the token's round trip is super-linear, three times as long when half of the nodes cache; throughput falls",
        fitted: "",
        sweep: &REPLICAS,
        log_x: false,
        curves: &[RECEIVER_HEAP, ROUND, PENDING, RATE],
        references: &[],
        agrees: |seen| {
            let heap = |x| seen.at(0, x) - 3.0;
            vec![
                seen.number(
                    "kept memory at 96 over 40 replicas, per replica",
                    heap(96.0) / heap(40.0) * (40.0 / 96.0),
                    0.8..=1.25,
                ),
                seen.ratio(1, 5.0, 96.0, 1.73..=6.0),
                seen.number(
                    "growth of the round trip from 40 to 96 replicas over that from 5 to 40",
                    (seen.at(1, 96.0) - seen.at(1, 40.0)) / (seen.at(1, 40.0) - seen.at(1, 5.0)),
                    1.6..=MORE,
                ),
                seen.ratio(3, 5.0, 96.0, ANY..=0.9),
            ]
        },
        better: |_| Vec::new(),
        note: "The round trip at 96 replicas is {E26.1@96 / E26.1@5 ±} times that at 5, where S0's triples: collections of a heap of {E26.0@96} MiB stop nodes for 4 ms per MiB, and the token meets them. Modern mode allows at most 16 replicas and runs with that many beyond it, so that no rule could fail.",
    },
    Figure {
        id: "E27",
        title: "throughput with a receiver that sleeps",
        source: "S0 fig. 24, §5.3",
        paper: "declines from about 80 nodes on",
        fitted: "",
        sweep: &SLEEP,
        log_x: false,
        curves: &[RATE],
        references: &[],
        agrees: |seen| {
            let quiet = |x| seen.at_other(&FIGURES[0], 0, x);
            let at_80 = quiet(50.0) * 0.4 + quiet(100.0) * 0.6;
            vec![
                seen.peak(0, 40.0..=120.0),
                seen.number(
                    "decline from 80 to 192 over that of the undisturbed system",
                    seen.at(0, 192.0) / seen.at(0, 80.0) / (quiet(192.0) / at_80),
                    ANY..=0.99,
                ),
            ]
        },
        better: |_| Vec::new(),
        note: "Beyond 80 nodes the undisturbed system's rate falls as well (E18); the second rule asks for more than that. Repairs are few, so that they hardly disturb tokens here.",
    },
    Figure {
        id: "E27b",
        title: "throughput with a receiver that loses packets",
        source: "S0 fig. 24, §5.3",
        paper: "flat, then a sharp fall beyond 160 nodes",
        fitted: "",
        sweep: &DEAF,
        log_x: false,
        curves: &[RATE],
        references: &[],
        agrees: |seen| {
            vec![
                seen.ratio(0, 10.0, 120.0, 0.95..=1.05),
                seen.ratio(0, 160.0, 192.0, ANY..=0.95),
            ]
        },
        better: |_| Vec::new(),
        note: "Flat, without S0's sharp edge at 160 nodes, which it explains by forwarded packets that overtake tokens; here tokens are always sent first.",
    },
    Figure {
        id: "E28",
        title: "loss at a node that sleeps",
        source: "S0 fig. 25, §5.3",
        paper: "2-3 %",
        fitted: "the size of sockets.",
        sweep: &SLEEP,
        log_x: false,
        curves: &[WATCHED_LOSS, EXCESS_LOSS, LOSS_AWAKE],
        references: &[],
        agrees: |seen| {
            vec![
                seen.value(0, 80.0, 2.0..=3.0),
                seen.value(0, 192.0, 2.0..=3.0),
            ]
        },
        better: |seen| {
            let worst = |seen: Seen<'_>| seen.at(1, 10.0) + seen.at(1, 192.0);
            vec![
                seen.value(1, 10.0, ANY..=1.1),
                seen.value(1, 192.0, ANY..=1.1),
                seen.number(
                    "at 10 and 192 together, over seed-faithful's",
                    worst(*seen) / worst(seen.of(Mode::Faithful)),
                    ANY..=1.0,
                ),
            ]
        },
        note: "A node cannot keep what comes while it sleeps beyond what its socket holds: (rate · 0.5 s - 3100) / (rate · 5 s). Modern mode's sender is faster, {E18.0@192m} messages/s instead of {E27.0@192}, so that {E28.0@192m} % are lost instead of {E28.0@192} %; losses are therefore compared with what is unavoidable at the rate (second curve). A node that wakes asks for a little at a time (R-NAK-10).",
    },
    Figure {
        id: "E28b",
        title: "loss at a node that loses packets",
        source: "S0 fig. 25, §5.3",
        paper: "2-5 %, because repairs cause further losses",
        fitted: "",
        sweep: &DEAF,
        log_x: false,
        curves: &[WATCHED_LOSS],
        references: &[],
        agrees: |seen| {
            vec![
                seen.value(0, 80.0, 2.0..=5.0),
                seen.value(0, 192.0, 2.0..=5.0),
            ]
        },
        better: |seen| vec![seen.against_faithful(0, 192.0, ANY..=1.0)],
        note: "Our repairs wait for the node instead of overrunning it, so that hardly more is lost than what the experiment drops.",
    },
    Figure {
        id: "E29",
        title: "memory at the node that sleeps",
        source: "S0 fig. 26, §5.3",
        paper: "decreases up to 80 nodes: the more nodes, the fewer packets each caches",
        fitted: "",
        sweep: &SLEEP,
        log_x: false,
        curves: &[Curve {
            label: "live heap of the disturbed node, MiB",
            of: |run| run.watched.heap_mib,
        }],
        references: &[],
        agrees: |seen| {
            vec![
                seen.ratio(0, 10.0, 80.0, ANY..=0.8),
                seen.ratio(0, 80.0, 192.0, 0.9..=MORE),
            ]
        },
        better: |_| Vec::new(),
        note: "Modern mode has no managed heap; what it keeps is in E21's pending messages.",
    },
    Figure {
        id: "E30",
        title: "pending messages with a disturbed receiver",
        source: "S0 fig. 27, §5.3",
        paper: "begins higher and grows 6-8 times as fast as undisturbed",
        fitted: "",
        sweep: &SLEEP,
        log_x: false,
        curves: &[PENDING],
        references: &[],
        agrees: |seen| {
            let quiet = |x| seen.at_other(&FIGURES[4], 1, x);
            let growth = (seen.at(0, 192.0) - seen.at(0, 10.0)) / (quiet(192.0) - quiet(10.0));
            vec![
                seen.number(
                    "pending at 10 receivers over undisturbed",
                    seen.at(0, 10.0) / quiet(10.0),
                    1.1..=MORE,
                ),
                seen.number("growth over undisturbed growth", growth, 3.0..=16.0),
            ]
        },
        better: |seen| vec![seen.against_faithful(0, 192.0, ANY..=0.5)],
        note: "Pending messages begin higher, as in S0, because a packet that the disturbed node misses holds back the watermark until the token has come twice. They do not grow as S0's do. S0's factor of 6 to 8 is that of three rounds, each as long as a doubled round trip, instead of one; so the round trip must double and exceed the interval of a second between tokens. S0 says that forwarded packets get ahead of tokens. They do here, but there are too few to matter. Dearer forwarding, smaller and larger sockets, another sleeping node, longer round trips, and asking only whole partitions (R082) were tried, and none brought it out.",
    },
    Figure {
        id: "E31",
        title: "token round trip and time to recover with a node that loses packets",
        source: "S0 fig. 28, 29, §5.3",
        paper: "round trips twice as long as undisturbed; two rounds to repair, one more to clean up",
        fitted: "",
        sweep: &DEAF,
        log_x: false,
        curves: &[
            ROUND,
            REPAIR,
            Curve {
                label: "time to recover, rounds",
                of: |run| run.repair_ms / 1000.0,
            },
            ACKED,
        ],
        references: &[],
        agrees: |seen| {
            let quiet = |curve| seen.at_other(&FIGURES[5], curve, 192.0);
            vec![
                seen.number(
                    "round trip over undisturbed at 192",
                    seen.at(0, 192.0) / quiet(0),
                    1.41..=4.0,
                ),
                seen.value(2, 192.0, 1.5..=2.5),
                seen.number(
                    "time to acknowledge over undisturbed at 192",
                    seen.at(3, 192.0) / quiet(1),
                    1.73..=4.0,
                ),
            ]
        },
        better: |seen| {
            vec![
                seen.against_faithful(1, 192.0, ANY..=0.1),
                seen.against_faithful(0, 192.0, ANY..=0.3),
            ]
        },
        note: "The round trip itself hardly grows: tokens do not wait behind repairs (see E30). Repairs take {E31.2@192 ±} rounds: gaps are seen when the next packet comes, and the next token has them pulled.",
    },
    Figure {
        id: "E32",
        title: "alarm delays with a receiver that sleeps",
        source: "S0 fig. 30, §5.3",
        paper: "largest per second at receivers: 130-140 ms instead of 12-14 ms",
        fitted: "the pause of a collection, to the 12-14 ms.",
        sweep: &SLEEP,
        log_x: false,
        curves: &[RECEIVER_LATE, WATCHED_LATE],
        references: &[],
        agrees: |seen| {
            vec![
                seen.value(0, 192.0, 6.0..=28.0),
                seen.value(1, 192.0, 65.0..=280.0),
            ]
        },
        better: |_| Vec::new(),
        note: "At receivers that are not disturbed delays are collections of small heaps: {E32.0@192} ms at 192 receivers, {E32.0@10} ms at 10, where heaps are larger. The disturbed node's sleep is not counted as a delay while it sleeps, but its timers are.",
    },
    Figure {
        id: "E33",
        title: "alarm delays at the sender",
        source: "S0 fig. 31, §5.3",
        paper: "largest per second: from 700 ms to 1.3 s when a receiver is disturbed",
        fitted: "",
        sweep: &SLEEP,
        log_x: false,
        curves: &[SENDER_LATE],
        references: &[],
        agrees: |seen| {
            let quiet = seen.at_other(&FIGURES[0], 2, 192.0);
            vec![seen.number(
                "at 192 receivers, over undisturbed",
                seen.at(0, 192.0) / quiet,
                1.36..=3.45,
            )]
        },
        better: |_| Vec::new(),
        note: "The sender's alarms wait for collections only; S0's further delays by Windows' scheduler are not modelled, so that ours are shorter.",
    },
    Figure {
        id: "E34",
        title: "pending messages and token round trip vs rate",
        source: "S0 fig. 32, §5.4",
        paper: "both rise, sharply at the highest rates",
        fitted: "",
        sweep: &RATES,
        log_x: false,
        curves: &[PENDING, ROUND],
        references: &[],
        agrees: |seen| {
            let proportion = seen.at(0, 8000.0) / seen.at(0, 4000.0) * 0.5;
            vec![
                seen.number(
                    "pending at 8000 over 4000, per message of the rate",
                    proportion,
                    1.1..=MORE,
                ),
                seen.ratio(1, 4000.0, 8000.0, 1.2..=MORE),
            ]
        },
        better: |seen| {
            vec![
                seen.against_faithful(0, 8000.0, ANY..=0.5),
                seen.against_faithful(1, 8000.0, ANY..=0.8),
            ]
        },
        note: "Pending messages grow by no more than the rate. Round trips change by {E34.1@8000 vs E34.1@4000 ±} %, because tokens overtake data at receivers; what remains are collections.",
    },
    Figure {
        id: "E35",
        title: "memory and collection vs rate",
        source: "S0 fig. 33, §5.4",
        paper: "linear at the sender, nearly flat at receivers; the share of time in collection grows from 50 to 60 %",
        fitted: "",
        sweep: &RATES,
        log_x: false,
        curves: &[SENDER_HEAP, RECEIVER_HEAP, COLLECTING],
        references: &[],
        agrees: |seen| {
            let heap = |curve, x| seen.at(curve, x) - 3.0;
            vec![
                seen.number(
                    "heap at 8000 over 4000 without its base, sender",
                    heap(0, 8000.0) / heap(0, 4000.0),
                    1.8..=2.2,
                ),
                seen.number(
                    "growth at receivers over growth at the sender",
                    heap(1, 8000.0) / heap(0, 8000.0),
                    ANY..=0.25,
                ),
                seen.ratio(2, 4000.0, 8000.0, 1.095..=1.44),
            ]
        },
        better: |_| Vec::new(),
        note: "S0's 50-60 % include allocation and everything else in the runtime; here only the pauses count.",
    },
    Figure {
        id: "E36",
        title: "send-to-receive latency vs rate, 1000 bytes",
        source: "S0 fig. 34, §5.4",
        paper: "falls with the rate, rises again above 6000 packets/s for large packets only",
        fitted: "",
        sweep: &LATENCIES,
        log_x: false,
        curves: &[Curve {
            label: "latency, ms",
            of: |run| run.latency_ms,
        }],
        references: &[],
        agrees: |seen| {
            vec![
                seen.ratio(0, 500.0, 4000.0, ANY..=1.0),
                seen.ratio(0, 6000.0, 8000.0, 1.0..=MORE),
            ]
        },
        better: |seen| vec![seen.against_faithful(0, 8000.0, ANY..=1.0)],
        note: "20 receivers, every message simulated. At low rates the receiver's thread sleeps and has to be woken; at high rates it rarely does, but messages queue behind each other and behind collections.",
    },
    Figure {
        id: "E36b",
        title: "send-to-receive latency vs rate, 100 bytes",
        source: "S0 fig. 34, §5.4",
        paper: "falls with the rate",
        fitted: "",
        sweep: &LATENCIES_SMALL,
        log_x: false,
        curves: &[Curve {
            label: "latency, ms",
            of: |run| run.latency_ms,
        }],
        references: &[],
        agrees: |seen| {
            vec![
                seen.ends(0, ANY..=1.0),
                seen.ratio(0, 6000.0, 8000.0, ANY..=1.0),
            ]
        },
        better: |seen| vec![seen.against_faithful(0, 8000.0, ANY..=1.0)],
        note: "20 receivers, every message simulated.",
    },
    Figure {
        id: "E37",
        title: "alarm delay vs rate",
        source: "S0 fig. 35, §5.4",
        paper: "from 7000 to 8000 packets/s: receivers 1.5 to 3 ms, sender 7 to 45 ms",
        fitted: "",
        sweep: &RATES,
        log_x: false,
        curves: &[
            Curve {
                label: "alarm delay at receivers, ms",
                of: |run| run.receivers.late_ms,
            },
            Curve {
                label: "alarm delay at the sender, ms",
                of: |run| run.sender.late_ms,
            },
        ],
        references: &[],
        agrees: |seen| {
            vec![
                seen.ratio(0, 7000.0, 8000.0, 1.41..=4.0),
                seen.ratio(1, 7000.0, 8000.0, 2.53..=41.0),
            ]
        },
        better: |_| Vec::new(),
        note: "Absolute values are smaller than S0's: what its Windows hosts did besides is not modelled. What grows are the waits for collections and for input and output.",
    },
    Figure {
        id: "E38",
        title: "pending messages and token round trip vs groups",
        source: "S0 fig. 36, §5.5",
        paper: "flat to about 3500 groups, then the round trip grows",
        fitted: "",
        sweep: &GROUPS,
        log_x: false,
        curves: &[PENDING, ROUND],
        references: &[],
        agrees: |seen| {
            vec![
                seen.ratio(0, 1.0, 3500.0, 0.75..=1.25),
                seen.ratio(1, 1.0, 3500.0, 0.8..=1.25),
                seen.ratio(1, 3500.0, 8192.0, 1.2..=MORE),
            ]
        },
        better: |_| Vec::new(),
        note: "30 receivers. What S0 calls flat is not quite flat here, and the round trip depends on when collections fall. Modern nodes have no collector in this model: no rule.",
    },
    Figure {
        id: "E39",
        title: "memory of the sender vs groups",
        source: "S0 fig. 37, §5.5",
        paper: "grows; tens of MB for thousands of groups",
        fitted: "the heap of a group, 12 KiB: there is nothing else to test.",
        sweep: &GROUPS,
        log_x: false,
        curves: &[SENDER_HEAP],
        references: &[],
        agrees: |_| Vec::new(),
        better: |_| Vec::new(),
        note: "Live heap, {E39.0@8192} MiB at 8192 groups; S0 counts what the process holds, garbage included, and its peaks are 50-100 % higher. Modern mode needs at most 256 bytes for an idle group, which a test asserts.",
    },
    Figure {
        id: "E40",
        title: "time in the runtime vs groups",
        source: "S0 fig. 38, §5.5",
        paper: "grows",
        fitted: "",
        sweep: &GROUPS,
        log_x: false,
        curves: &[COLLECTING],
        references: &[],
        agrees: |_| Vec::new(),
        better: |_| Vec::new(),
        note: "It follows from the heap of a group (E39) and the pauses of its collection (E32): no rule could fail.",
    },
    Figure {
        id: "E41",
        title: "throughput vs groups",
        source: "S0 fig. 39, §5.5",
        paper: "decreases",
        fitted: "",
        sweep: &GROUPS,
        log_x: false,
        curves: &[RATE],
        references: &[],
        agrees: |_| Vec::new(),
        better: |_| Vec::new(),
        note: "It follows from the heap of a group (E39) and the pauses of its collection (E32): no rule could fail.",
    },
    Figure {
        id: "E41b",
        title: "throughput vs groups with heavyweight tracing",
        source: "S0 fig. 39, §5.5",
        paper: "decreases more than without",
        fitted: "",
        sweep: &GROUPS_TRACED,
        log_x: false,
        curves: &[RATE],
        references: &[],
        agrees: |_| Vec::new(),
        better: |_| Vec::new(),
        note: "Tracing is modelled as half as much heap again for each group, so that it cannot but lower the rate.",
    },
    Figure {
        id: "E42",
        title: "distribution of multicast rates vs groups",
        source: "S0 fig. 40, §5.5",
        paper: "with more groups the sender spends more time at low rates and has no faster bursts",
        fitted: "",
        sweep: &GROUPS,
        log_x: false,
        curves: &[
            Curve {
                label: "share of 0.1 s intervals below 5000 messages/s, %",
                of: |run| {
                    let low = run.rates.iter().filter(|rate| **rate < 5000.0).count();
                    low as f64 * 100.0 / run.rates.len().max(1) as f64
                },
            },
            Curve {
                label: "95th percentile of the rate, messages/s",
                of: |run| quantile(&run.rates, 0.95),
            },
        ],
        references: &[],
        agrees: |seen| vec![seen.ends(0, 1.2..=MORE)],
        better: |_| Vec::new(),
        note: "The 95th percentile is the processor's limit with one group and with thousands, so that there is no rule on bursts.",
    },
];
