//! S0: QSM in a managed environment, 200 nodes.

mod sweeps;

use super::{mean, quantile};
use crate::experiment::{Curve, Figure};
use crate::papers::Mode;
use crate::results::{ANY, MORE, Seen};
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
        sweep: &RECEIVERS,
        log_x: false,
        curves: &[RATE, SENDER_CPU, SENDER_LATE],
        references: &[],
        agrees: |seen| {
            vec![
                seen.ends(0, 0.88..=0.98),
                seen.monotone(0, false, 0.15),
                seen.value(1, 192.0, 97.0..=MORE),
            ]
        },
        better: |seen| {
            vec![
                seen.ends(0, 0.97..=MORE),
                seen.against_faithful(0, 192.0, 1.05..=MORE),
            ]
        },
        note: "Modern mode does not slow down with the region: its rings rotate at the same time, so that the time to acknowledge and with it the memory in use hardly grow, and there is no garbage collector to pay for it.",
    },
    Figure {
        id: "E18b",
        title: "throughput of two senders",
        source: "S0 fig. 11, §5.1",
        paper: "two senders together reach more than one before backlogs form",
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
            vec![
                seen.value(0, 10000.0, one * 1.1..=MORE),
                seen.ratio(0, 4000.0, 8000.0, 1.9..=2.1),
            ]
        },
        better: |seen| vec![seen.against_faithful(0, 12000.0, 1.0..=MORE)],
        note: "50 receivers. The backlog begins where receivers are saturated; the network's 100 Mbit/s (about 11,300 messages/s) are modelled at the senders only, so that rates beyond that are the processors' limit, not the wire's.",
    },
    Figure {
        id: "E19",
        title: "CPU vs multicast rate",
        source: "S0 fig. 12, §5.4",
        paper: "receivers are about half idle and grow linearly; the sender is saturated and grows super-linearly",
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
                seen.value(1, 8000.0, 40.0..=65.0),
                seen.value(0, 8000.0, 90.0..=MORE),
            ]
        },
        better: |seen| vec![seen.against_faithful(0, 8000.0, ANY..=0.99)],
        note: "100 receivers. What is super-linear at the sender is the garbage collector: the heap grows with the rate, and collections come more often.",
    },
    Figure {
        id: "E20",
        title: "where the sender's time goes",
        source: "S0 fig. 13-15, §5.1",
        paper: "the runtime's share grows: allocation by 10 %, collection by 15 % against 5 % less throughput; copying takes 12-14 %",
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
        agrees: |seen| vec![seen.ends(0, 1.1..=2.5), seen.value(1, 192.0, 11.5..=14.5)],
        better: |seen| vec![seen.value(0, 192.0, ANY..=0.0)],
        note: "Only collections are modelled as a function of memory, allocation is not, so that the whole growth appears in the collector. Modern mode has no collector; copying remains.",
    },
    Figure {
        id: "E21",
        title: "memory and pending messages at the sender",
        source: "S0 fig. 16, §5.1",
        paper: "memory grows nearly three times as fast as pending messages",
        sweep: &RECEIVERS,
        log_x: false,
        curves: &[SENDER_HEAP, PENDING],
        references: &[],
        agrees: |seen| {
            let mib = |x| seen.at(0, x) * f64::from(1 << 20);
            let grown =
                (mib(192.0) - mib(10.0)) / ((seen.at(1, 192.0) - seen.at(1, 10.0)) * 1000.0);
            vec![
                seen.ends(0, 1.2..=MORE),
                seen.ends(1, 1.2..=MORE),
                seen.number(
                    "bytes of heap per byte of pending message",
                    grown,
                    2.0..=4.0,
                ),
            ]
        },
        better: |seen| vec![seen.against_faithful(1, 192.0, ANY..=0.4)],
        note: "The factor of three is an input of the heap model (see the table of costs), so that only the growth itself is a result.",
    },
    Figure {
        id: "E22",
        title: "token round trip and time to acknowledge vs receivers",
        source: "S0 fig. 17, §5.1",
        paper: "time to acknowledge is slightly more than 0.5 s plus the round trip, which grows linearly and dominates",
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
                seen.value(0, 192.0, 350.0..=900.0),
                seen.value(2, 192.0, -60.0..=150.0),
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
                seen.ratio(0, 1.0, 5.0, 0.5..=0.9),
                seen.ratio(1, 1.0, 5.0, 0.97..=1.03),
                seen.ratio(2, 3.0, 5.0, 0.9..=1.1),
            ]
        },
        better: |seen| {
            vec![
                seen.against_faithful(0, 5.0, ANY..=0.8),
                seen.against_faithful(1, 5.0, 1.0..=MORE),
            ]
        },
        note: "192 receivers. One leader never has two tokens in flight, so that the rate ends at one over the round trip, where S0 found further tokens useless. X10: here, where the sender is limited by its processor and nothing is lost, the token rate only moves the memory that is in use, by some MiB, hence less than a few per cent of throughput; compare E09, where losses wait for tokens. What an ACK costs the sender is inferred from this figure (see the table above); a round that is not begun costs nothing, which is why 1.9 rounds a second gain more here than S0's five.",
    },
    Figure {
        id: "E26",
        title: "caching replicas per message",
        source: "S0 fig. 22, 23, §5.2",
        paper: "memory at receivers is linear; the token's round trip is super-linear, three times as long when half of the nodes cache; throughput falls",
        sweep: &REPLICAS,
        log_x: false,
        curves: &[RECEIVER_HEAP, ROUND, PENDING, RATE],
        references: &[],
        agrees: |seen| {
            let heap = |x| seen.at(0, x) - 3.0;
            vec![
                seen.number(
                    "kept memory at 96 over 40 replicas, per replica",
                    heap(96.0) / heap(40.0) * 40.0 / 96.0,
                    0.7..=1.6,
                ),
                seen.ratio(1, 5.0, 96.0, 1.5..=6.0),
                seen.number(
                    "growth of the round trip from 40 to 96 replicas over that from 5 to 40",
                    (seen.at(1, 96.0) - seen.at(1, 40.0)) / (seen.at(1, 40.0) - seen.at(1, 5.0)),
                    1.0..=MORE,
                ),
                seen.ratio(3, 5.0, 96.0, ANY..=0.99),
            ]
        },
        better: |seen| {
            vec![
                seen.ratio(1, 5.0, 96.0, ANY..=2.0),
                seen.ratio(3, 5.0, 96.0, 0.98..=MORE),
            ]
        },
        note: "The round trip nearly doubles (S0's triples) because a collection of a heap of 20 MiB stops a node for 80 ms, and the token meets such a pause at every tenth node. Modern mode allows at most 16 replicas and runs with that many beyond it.",
    },
    Figure {
        id: "E27",
        title: "throughput with a receiver that sleeps",
        source: "S0 fig. 24, §5.3",
        paper: "declines from about 80 nodes on",
        sweep: &SLEEP,
        log_x: false,
        curves: &[RATE],
        references: &[],
        agrees: |seen| {
            vec![
                seen.peak(0, 10.0..=100.0),
                seen.ratio(0, 80.0, 192.0, ANY..=0.985),
            ]
        },
        better: |seen| vec![seen.against_faithful(0, 192.0, 1.05..=MORE)],
        note: "The fall beyond 80 nodes is that of the undisturbed system (E18): repairs are few, so that they hardly disturb tokens here. Below 40 nodes every node caches so much that its heap, and the pause after a sleep, weigh more.",
    },
    Figure {
        id: "E27b",
        title: "throughput with a receiver that loses packets",
        source: "S0 fig. 24, §5.3",
        paper: "flat, then a sharp fall beyond 160 nodes",
        sweep: &DEAF,
        log_x: false,
        curves: &[RATE],
        references: &[],
        agrees: |seen| {
            vec![
                seen.ratio(0, 10.0, 120.0, 0.85..=1.05),
                seen.ends(0, ANY..=0.97),
            ]
        },
        better: |seen| vec![seen.against_faithful(0, 192.0, 1.05..=MORE)],
        note: "Flat, without S0's sharp edge at 160 nodes, which it explains by forwarded packets that overtake tokens; here tokens are always sent first.",
    },
    Figure {
        id: "E28",
        title: "loss at a node that sleeps",
        source: "S0 fig. 25, §5.3",
        paper: "2-3 %",
        sweep: &SLEEP,
        log_x: false,
        curves: &[WATCHED_LOSS, EXCESS_LOSS, LOSS_AWAKE],
        references: &[],
        agrees: |seen| {
            vec![
                seen.value(0, 80.0, 1.0..=4.0),
                seen.value(0, 192.0, 1.0..=4.0),
            ]
        },
        better: |seen| {
            let excess = |seen: Seen<'_>| {
                let values = seen.figure.sweep.values.iter();
                mean(&values.map(|x| seen.at(1, *x)).collect::<Vec<_>>())
            };
            let faithful = excess(seen.of(Mode::Faithful));
            vec![
                seen.value(1, 10.0, ANY..=1.1),
                seen.value(1, 192.0, ANY..=1.1),
                seen.number(
                    "mean over all, over seed-faithful's",
                    excess(*seen) / faithful,
                    ANY..=1.0,
                ),
            ]
        },
        note: "The size of sockets was inferred from this figure. A node cannot keep what comes while it sleeps beyond what its socket holds: (rate · 0.5 s - 3100) / (rate · 5 s). Modern mode's faster sender, 9164 messages a second instead of 7900, makes that 3.2 % instead of 2.1 %, so that losses are compared relative to it. Modern mode loses 1.03 times the unavoidable: the rest, 0.17 % of all, is lost in the 8 ms after each sleep in which the node handles what is more urgent than data. When a node that wakes asked for everything at once, it lost 7 % (now R-NAK-10).",
    },
    Figure {
        id: "E28b",
        title: "loss at a node that loses packets",
        source: "S0 fig. 25, §5.3",
        paper: "2-5 %, because repairs cause further losses",
        sweep: &DEAF,
        log_x: false,
        curves: &[WATCHED_LOSS],
        references: &[],
        agrees: |seen| {
            vec![
                seen.value(0, 80.0, 0.8..=5.0),
                seen.value(0, 192.0, 0.8..=5.0),
            ]
        },
        better: |seen| vec![seen.against_faithful(0, 192.0, ANY..=1.1)],
        note: "Our repairs wait for the node instead of overrunning it, so that hardly more is lost than what the experiment drops.",
    },
    Figure {
        id: "E29",
        title: "memory at the node that sleeps",
        source: "S0 fig. 26, §5.3",
        paper: "decreases up to 80 nodes: the more nodes, the fewer packets each caches",
        sweep: &SLEEP,
        log_x: false,
        curves: &[Curve {
            label: "live heap of the disturbed node, MiB",
            of: |run| run.watched.heap_mib,
        }],
        references: &[],
        agrees: |seen| vec![seen.ratio(0, 10.0, 80.0, ANY..=0.8)],
        better: |_| Vec::new(),
        note: "Modern mode has no managed heap; what it keeps is in E21's pending messages.",
    },
    Figure {
        id: "E30",
        title: "pending messages with a disturbed receiver",
        source: "S0 fig. 27, §5.3",
        paper: "begins higher and grows 6-8 times as fast as undisturbed",
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
                seen.number("growth over undisturbed growth", growth, 1.2..=MORE),
            ]
        },
        better: |seen| vec![seen.against_faithful(0, 192.0, ANY..=0.5)],
        note: "Pending messages begin higher, as in S0, because a packet that the disturbed node misses holds back the watermark until the token has come twice. They do not grow faster than undisturbed. S0's factor of 6 to 8 is that of three rounds, each as long as a doubled round trip, instead of one; so the round trip must double and exceed the interval of a second between tokens. S0 says that forwarded packets get ahead of tokens. They do here, but there are too few: the sleeping node misses about 1000 packets every 5 s, 30 for each of 38 partition leaders, and round trips grow from 0.53 to 0.57 s. Rounds then still begin once a second, so that the time to repair and clean up is the same at all sizes. Tried, at 10 and 192 receivers, where undisturbed about 3900 and 9400 messages wait, disturbed 9300 and 9600: dearer forwarding, up to a token's cost, with smaller and larger sockets (10 receivers collapse first, to 25,000 and 35,000 messages and losses of 10 to 20 %, because the partition caches half of all and half of what is pushed is a duplicate; at 192 little changes up to four times the cost of data, and at a token's cost the node loses more than half); asking only whole partitions (R082, which S2 has and S0 does not mention: repairs take 2.4 rounds as in S0, 15,000 to 22,000 and 16,000 to 20,000 wait); another node, nearer to the region's leader; sleeps in and out of step with tokens; tokens with a round trip of 0.8 s undisturbed, which S0's 1.25 tokens/s (§5.1) suggest (8,800 and 11,300); with them, counting as missing also what has arrived and waits in the socket when a token is served first, as S2 §2.3.3 reads to the letter (8,600 and 12,000: the cutoff is a round old, so that it concerns little).",
    },
    Figure {
        id: "E31",
        title: "token round trip and time to recover with a node that loses packets",
        source: "S0 fig. 28, 29, §5.3",
        paper: "round trips twice as long as undisturbed; two rounds to repair, one more to clean up",
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
            vec![
                seen.value(2, 80.0, 0.7..=2.6),
                seen.value(2, 192.0, 0.7..=2.6),
                seen.number(
                    "time to acknowledge over undisturbed at 192",
                    seen.at(3, 192.0) / seen.at_other(&FIGURES[5], 1, 192.0),
                    1.3..=4.0,
                ),
            ]
        },
        better: |seen| {
            vec![
                seen.against_faithful(1, 192.0, ANY..=0.1),
                seen.against_faithful(0, 192.0, ANY..=0.3),
            ]
        },
        note: "The time to acknowledge doubles, the round trip itself hardly grows: tokens do not wait behind repairs (see E30). Repairs take little more than one round because gaps are seen when the next packet comes, and the next token has them pulled.",
    },
    Figure {
        id: "E32",
        title: "alarm delays with a receiver that sleeps",
        source: "S0 fig. 30, §5.3",
        paper: "largest per second at receivers: 130-140 ms instead of 12-14 ms",
        sweep: &SLEEP,
        log_x: false,
        curves: &[RECEIVER_LATE, WATCHED_LATE],
        references: &[],
        agrees: |seen| vec![seen.over(1, 0, 192.0, 4.0..=MORE)],
        better: |seen| vec![seen.against_faithful(0, 192.0, ANY..=1.0)],
        note: "At receivers that are not disturbed delays are collections of small heaps, a few ms; S0's 12-14 ms are reached where the heap is larger (10 receivers). The disturbed node's sleep is not counted as a delay while it sleeps, but its timers are.",
    },
    Figure {
        id: "E33",
        title: "alarm delays at the sender",
        source: "S0 fig. 31, §5.3",
        paper: "largest per second: from 700 ms to 1.3 s when a receiver is disturbed",
        sweep: &SLEEP,
        log_x: false,
        curves: &[SENDER_LATE],
        references: &[],
        agrees: |seen| {
            let quiet = seen.at_other(&FIGURES[0], 2, 192.0);
            vec![seen.number(
                "at 192 receivers, over undisturbed",
                seen.at(0, 192.0) / quiet,
                1.05..=MORE,
            )]
        },
        better: |seen| vec![seen.against_faithful(0, 192.0, ANY..=0.2)],
        note: "The sender's alarms wait for collections only; S0's further delays by Windows' scheduler are not modelled, so that ours are shorter.",
    },
    Figure {
        id: "E34",
        title: "pending messages and token round trip vs rate",
        source: "S0 fig. 32, §5.4",
        paper: "both rise, sharply at the highest rates",
        sweep: &RATES,
        log_x: false,
        curves: &[PENDING, ROUND],
        references: &[],
        agrees: |seen| {
            vec![
                seen.ratio(0, 4000.0, 8000.0, 1.8..=MORE),
                seen.ratio(1, 4000.0, 8000.0, 1.02..=MORE),
            ]
        },
        better: |seen| {
            vec![
                seen.against_faithful(0, 8000.0, ANY..=0.5),
                seen.against_faithful(1, 8000.0, ANY..=0.8),
            ]
        },
        note: "Pending messages are in proportion to the rate. Round trips rise only by some per cent, because tokens overtake data at receivers; what remains are collections.",
    },
    Figure {
        id: "E35",
        title: "memory and collection vs rate",
        source: "S0 fig. 33, §5.4",
        paper: "linear at the sender, nearly flat at receivers; the share of time in collection grows from 50 to 60 %",
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
                    1.6..=2.5,
                ),
                seen.number(
                    "growth at receivers over growth at the sender",
                    heap(1, 8000.0) / heap(0, 8000.0),
                    ANY..=0.4,
                ),
                seen.ratio(2, 4000.0, 8000.0, 1.2..=MORE),
            ]
        },
        better: |seen| vec![seen.value(2, 8000.0, ANY..=0.0)],
        note: "S0's 50-60 % include allocation and everything else in the runtime; here only the pauses count.",
    },
    Figure {
        id: "E36",
        title: "send-to-receive latency vs rate, 1000 bytes",
        source: "S0 fig. 34, §5.4",
        paper: "falls with the rate, rises again above 6000 packets/s for large packets only",
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
        sweep: &LATENCIES_SMALL,
        log_x: false,
        curves: &[Curve {
            label: "latency, ms",
            of: |run| run.latency_ms,
        }],
        references: &[],
        agrees: |seen| vec![seen.ends(0, ANY..=1.0)],
        better: |seen| vec![seen.against_faithful(0, 8000.0, ANY..=1.0)],
        note: "",
    },
    Figure {
        id: "E37",
        title: "alarm delay vs rate",
        source: "S0 fig. 35, §5.4",
        paper: "from 7000 to 8000 packets/s: receivers 1.5 to 3 ms, sender 7 to 45 ms",
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
            let grown = |curve| {
                let high = seen.at(curve, 7000.0) + seen.at(curve, 7500.0) + seen.at(curve, 8000.0);
                let low = seen.at(curve, 1000.0) + seen.at(curve, 2000.0) + seen.at(curve, 4000.0);
                high / low
            };
            vec![
                seen.number(
                    "sender, highest three rates over lowest three",
                    grown(1),
                    1.1..=MORE,
                ),
                seen.number(
                    "receivers, highest three rates over lowest three",
                    grown(0),
                    1.05..=MORE,
                ),
                seen.over(1, 0, 8000.0, 1.0..=MORE),
            ]
        },
        better: |seen| vec![seen.against_faithful(1, 8000.0, ANY..=0.8)],
        note: "Absolute values are smaller than S0's: what its Windows hosts did besides is not modelled. What grows are the waits for collections and for input and output.",
    },
    Figure {
        id: "E38",
        title: "pending messages and token round trip vs groups",
        source: "S0 fig. 36, §5.5",
        paper: "flat to about 3500 groups, then the round trip grows",
        sweep: &GROUPS,
        log_x: false,
        curves: &[PENDING, ROUND],
        references: &[],
        agrees: |seen| {
            vec![
                seen.ratio(0, 1.0, 3500.0, 0.75..=1.25),
                seen.ratio(1, 1.0, 2000.0, 0.8..=1.6),
                seen.ratio(1, 3500.0, 8192.0, 1.05..=MORE),
            ]
        },
        better: |seen| vec![seen.ends(1, 0.9..=1.1)],
        note: "30 receivers: receivers are oblivious to groups.",
    },
    Figure {
        id: "E39",
        title: "memory of the sender vs groups",
        source: "S0 fig. 37, §5.5",
        paper: "grows; tens of MB for thousands of groups",
        sweep: &GROUPS,
        log_x: false,
        curves: &[SENDER_HEAP],
        references: &[],
        agrees: |seen| vec![seen.ends(0, 2.0..=MORE), seen.monotone(0, true, 0.02)],
        better: |_| Vec::new(),
        note: "Live heap; S0 counts what the process holds, garbage included, and its peaks are 50-100 % higher. Modern mode needs 64 to 128 bytes for an idle group (R146).",
    },
    Figure {
        id: "E40",
        title: "time in the runtime vs groups",
        source: "S0 fig. 38, §5.5",
        paper: "grows",
        sweep: &GROUPS,
        log_x: false,
        curves: &[COLLECTING],
        references: &[],
        agrees: |seen| vec![seen.ends(0, 1.5..=MORE), seen.monotone(0, true, 0.02)],
        better: |seen| vec![seen.value(0, 8192.0, ANY..=0.0)],
        note: "",
    },
    Figure {
        id: "E41",
        title: "throughput vs groups",
        source: "S0 fig. 39, §5.5",
        paper: "decreases",
        sweep: &GROUPS,
        log_x: false,
        curves: &[RATE],
        references: &[],
        agrees: |seen| vec![seen.ends(0, 0.4..=0.95), seen.monotone(0, false, 0.02)],
        better: |seen| vec![seen.ends(0, 0.95..=MORE)],
        note: "",
    },
    Figure {
        id: "E41b",
        title: "throughput vs groups with heavyweight tracing",
        source: "S0 fig. 39, §5.5",
        paper: "decreases more than without",
        sweep: &GROUPS_TRACED,
        log_x: false,
        curves: &[RATE],
        references: &[],
        agrees: |seen| {
            let plain = plain_groups();
            let rate = plain.map_or(f64::NAN, |plain| seen.at_other(plain, 0, 8192.0));
            vec![seen.ends(0, 0.3..=0.95), seen.value(0, 8192.0, ANY..=rate)]
        },
        better: |seen| vec![seen.ends(0, 0.95..=MORE)],
        note: "",
    },
    Figure {
        id: "E42",
        title: "distribution of multicast rates vs groups",
        source: "S0 fig. 40, §5.5",
        paper: "with more groups the sender spends more time at low rates and has no faster bursts",
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
        agrees: |seen| vec![seen.ends(0, 1.2..=MORE), seen.ends(1, ANY..=1.1)],
        better: |seen| vec![seen.value(0, 8192.0, ANY..=1.0)],
        note: "",
    },
];

fn plain_groups() -> Option<&'static Figure> {
    FIGURES.iter().find(|figure| figure.id == "E41")
}
