//! The paper's micro-benchmarks (E52-E54), and trains, for every back-end.
//!
//! Back-ends take turns within a repetition, so that whatever disturbs the machine disturbs them
//! alike; factors are taken within a repetition, and the median of those is reported.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use groupcast::{BackEnd, Group, Message, Sender};

use crate::chart::Chart;
use crate::model::Fit;
use crate::range::{FILL, Kind, Range, pin};
use crate::verify;

const REPETITIONS: usize = 9;
const SAMPLE: Duration = Duration::from_millis(12);
const WARM_UP_CALLS: usize = 50;
const GROUPS: [usize; 11] = [1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000];
const PAYLOADS: [usize; 6] = [100, 200, 400, 600, 800, 1000];
/// Private bytes out of 1,000.
const PRIVATE: [usize; 6] = [0, 200, 400, 600, 800, 1000];
const TRAIN_GROUPS: [usize; 3] = [10, 100, 1000];
const TRAIN_PACKETS: usize = 46;
const TRAIN_SEGMENT: u16 = 1400;

/// One measured point.
#[derive(Debug)]
struct Point {
    experiment: &'static str,
    back_end: BackEnd,
    group: usize,
    payload: usize,
    private: usize,
    /// Median over the repetitions.
    recipient_ns: f64,
    /// Median of the factors over the loop.
    factor: f64,
}

/// What is sent.
#[derive(Debug, Clone, Copy)]
struct Load {
    experiment: &'static str,
    group: usize,
    payload: usize,
    private: usize,
    train: bool,
}

/// Measures everything on a wire and writes tables and pictures.
pub(crate) fn run(kind: Kind, out: &Path) -> io::Result<()> {
    let mut range = Range::new(kind)?;
    let wire = range.wire();
    let (points, delivered, verdicts) = wire.near.run(|| sweep(kind, &mut range));
    let report = report(kind, &points, delivered) + &verdicts;
    print!("{report}");
    fs::create_dir_all(out)?;
    let file = |name: &str| out.join(format!("{name}-{}", kind.name()));
    fs::write(
        file("micro").with_extension("csv"),
        csv(kind, &points, delivered),
    )?;
    fs::write(file("micro").with_extension("txt"), report)?;
    for chart in charts(kind, &points) {
        fs::write(file(&chart.0).with_extension("svg"), chart.1.svg())?;
    }
    Ok(())
}

/// Measures everything; the points, the share of packets that were delivered, per cent, and what was
/// seen of the packets themselves.
fn sweep(kind: Kind, range: &mut Range) -> (Vec<Point>, f64, String) {
    pin(0);
    let mut senders = Vec::new();
    for back_end in BackEnd::ALL {
        match range.sender(back_end) {
            Ok(sender) => senders.push((back_end, sender)),
            Err(error) => println!("{back_end}: {error}"),
        }
    }
    warm_up(range, &mut senders);
    let mut points = Vec::new();
    for load in loads(kind) {
        points.extend(measure(range, &mut senders, load));
    }
    let delivered = range.delivered();
    let verdicts = if kind == Kind::Veth {
        verdicts(range, &mut senders)
    } else {
        String::new()
    };
    (points, delivered, verdicts)
}

/// Packets captured at the receivers, in words.
fn verdicts(range: &mut Range, senders: &mut [(BackEnd, Sender)]) -> String {
    let mut text = String::from("\npackets of one call to 1000, captured at the receivers:\n");
    match verify::run(range, senders) {
        Err(error) => text += &format!("not looked at: {error}\n"),
        Ok(verdicts) => {
            for verdict in verdicts {
                text += &format!(
                    "{:<12} {} captured, {} with every byte and both checksums right\n",
                    verdict.back_end, verdict.captured, verdict.right
                );
            }
        }
    }
    text
}

/// Sends to the largest group until all members have their connected sockets, where there are such.
fn warm_up(range: &mut Range, senders: &mut [(BackEnd, Sender)]) {
    let group = range.group(GROUPS[GROUPS.len() - 1], 0);
    for (_, sender) in senders {
        for _ in 0..WARM_UP_CALLS {
            range.sample(sender, &Message::new(&[FILL]), &group, Duration::ZERO);
        }
    }
}

fn loads(kind: Kind) -> Vec<Load> {
    let plain = Load {
        experiment: "E52",
        group: 1000,
        payload: 300,
        private: 0,
        train: false,
    };
    let mut loads: Vec<Load> = GROUPS.map(|group| Load { group, ..plain }).to_vec();
    loads.extend(PAYLOADS.map(|payload| Load {
        experiment: "E53",
        payload,
        ..plain
    }));
    loads.extend(PRIVATE.map(|private| Load {
        experiment: "E54",
        payload: 1000 - private,
        private,
        ..plain
    }));
    // Over the other wires the receiver would have to copy 64 KB for each recipient.
    if kind == Kind::Discard {
        loads.extend(TRAIN_GROUPS.map(|group| Load {
            experiment: "trains",
            group,
            payload: TRAIN_PACKETS * usize::from(TRAIN_SEGMENT),
            train: true,
            ..plain
        }));
    }
    loads
}

fn measure(range: &mut Range, senders: &mut [(BackEnd, Sender)], load: Load) -> Vec<Point> {
    let payload = vec![FILL; load.payload];
    let message = if load.train {
        Message::train(&payload, TRAIN_SEGMENT)
    } else {
        Message::new(&payload)
    };
    let group: Group = range.group(load.group, load.private);
    let mut times = vec![Vec::new(); senders.len()];
    for repetition in 0..=REPETITIONS {
        for (times, (_, sender)) in times.iter_mut().zip(senders.iter_mut()) {
            let time = range.sample(sender, &message, &group, SAMPLE);
            // The first round warms up.
            if repetition > 0 {
                times.push(time);
            }
        }
    }
    let by_loop = times[0].clone();
    let back_ends = senders.iter().map(|(back_end, _)| *back_end);
    let points = back_ends.zip(times).map(|(back_end, times)| Point {
        experiment: load.experiment,
        back_end,
        group: load.group,
        payload: load.payload,
        private: load.private,
        factor: median(by_loop.iter().zip(&times).map(|(a, b)| a / b).collect()),
        recipient_ns: median(times),
    });
    points.collect()
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn csv(kind: Kind, points: &[Point], delivered: f64) -> String {
    let mut text = String::from(
        "experiment,wire,back_end,group,payload_bytes,private_bytes,ns_per_recipient,factor_over_loop,delivered_percent\n",
    );
    for p in points {
        text += &format!(
            "{},{},{},{},{},{},{:.1},{:.3},{delivered:.3}\n",
            p.experiment,
            kind.name(),
            p.back_end,
            p.group,
            p.payload,
            p.private,
            p.recipient_ns,
            p.factor
        );
    }
    text
}

fn report(kind: Kind, points: &[Point], delivered: f64) -> String {
    let mut text = format!("# wire {}, delivered {delivered:.3} %\n", kind.name());
    let mut put = |line: String| {
        text += &line;
        text.push('\n');
    };
    for (experiment, what) in [
        ("E52", "group size, 300 bytes"),
        ("E53", "payload bytes, 1000 recipients"),
        ("E54", "private bytes of 1000, 1000 recipients"),
        ("trains", "group size, trains of 46 x 1400 bytes"),
    ] {
        let of = |p: &&Point| p.experiment == experiment;
        if points.iter().any(|p| of(&p)) {
            put(format!(
                "\n{experiment}: ns per recipient (factor over the loop), by {what}"
            ));
        }
        for back_end in BackEnd::ALL {
            let mut line = format!("{back_end:<12}");
            for p in points.iter().filter(of).filter(|p| p.back_end == back_end) {
                let x = position(p);
                let cell = write!(line, " {x}:{:.0}({:.2})", p.recipient_ns, p.factor);
                debug_assert!(cell.is_ok(), "strings grow");
            }
            if line.len() > 12 {
                put(line);
            }
        }
    }
    put(
        "\nfitted costs (R189), from E52: ns per call (C_ms + C_mem), ns per recipient (C_send)"
            .into(),
    );
    for back_end in BackEnd::ALL {
        if let Some(fit) = fit(points, back_end) {
            let by_loop = self::fit(points, BackEnd::Loop).map_or(0.0, |f| f.total_ns(1.0));
            put(format!(
                "{back_end:<12} {:.0} {:.0}: r(2) = {:.2}, limit r = {:.2}",
                fit.call_ns,
                fit.recipient_ns,
                2.0 * by_loop / fit.total_ns(2.0),
                by_loop / fit.recipient_ns
            ));
        }
    }
    text
}

/// Where a point lies on its chart's horizontal axis.
fn position(point: &Point) -> usize {
    match point.experiment {
        "E53" => point.payload,
        "E54" => point.private,
        _ => point.group,
    }
}

fn fit(points: &[Point], back_end: BackEnd) -> Option<Fit> {
    let of = |p: &&Point| p.experiment == "E52" && p.back_end == back_end;
    let totals: Vec<_> = points
        .iter()
        .filter(of)
        .map(|p| (p.group as f64, p.recipient_ns * p.group as f64))
        .collect();
    (totals.len() > 1).then(|| Fit::new(&totals))
}

fn charts(kind: Kind, points: &[Point]) -> Vec<(String, Chart)> {
    let line = |experiment: &str, value: fn(&Point) -> f64| {
        let of = move |back_end: BackEnd| {
            let mine = |p: &&Point| p.experiment == experiment && p.back_end == back_end;
            let points = points
                .iter()
                .filter(mine)
                .map(|p| (position(p) as f64, value(p)));
            (back_end.to_string(), points.collect::<Vec<_>>())
        };
        let lines = BackEnd::ALL.into_iter().map(of);
        lines.filter(|(_, points)| !points.is_empty()).collect()
    };
    let chart = |title: &str, x_label, y_label, x_log, lines| Chart {
        title: format!("{title} ({})", kind.name()),
        x_label,
        y_label,
        x_log,
        lines,
    };
    vec![
        (
            "E52".to_owned(),
            chart(
                "E52: improvement over the sendmsg loop, 300 bytes",
                "recipients",
                "factor",
                true,
                line("E52", |p| p.factor),
            ),
        ),
        (
            "E53".to_owned(),
            chart(
                "E53: time per packet, 1000 recipients (paper: 1.66 times at 1000)",
                "payload bytes",
                "ns per recipient",
                false,
                line("E53", |p| p.recipient_ns),
            ),
        ),
        (
            "E54".to_owned(),
            chart(
                "E54: time per packet by share of private data",
                "private bytes of 1000",
                "ns per recipient",
                false,
                line("E54", |p| p.recipient_ns),
            ),
        ),
    ]
}
