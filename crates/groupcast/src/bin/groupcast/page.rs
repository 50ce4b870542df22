//! The page that sets what was measured beside what the paper says.
//!
//! It is made from the tables that the other commands have written, so that it cannot say anything
//! else than they do.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

const LOOP: &str = "loop";
const EBPF: &str = "ebpf";
const CONNECTED: &str = "connected";
const WIRES: [&str; 3] = ["discard", "veth", "loopback"];
/// Factors of large groups that differ by less are the same: a run's scatter.
const SAME: f64 = 0.2;
/// A gap that is wider by less than this share may be noise.
const NOISE: f64 = 0.05;

/// Rows of a table by the names of its columns.
struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn read(path: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(path)
            .map_err(|e| io::Error::other(format!("{}: {e}; measure first", path.display())))?;
        let mut lines = text.lines();
        let cells = |line: &str| line.split(',').map(str::to_owned).collect();
        Ok(Self {
            columns: lines.next().map(cells).unwrap_or_default(),
            rows: lines.map(cells).collect(),
        })
    }

    /// A cell of the row in which these columns have these values; not a number if there is none.
    fn value(&self, keys: &[(&str, &str)], column: &str) -> f64 {
        let at = |name: &str| self.columns.iter().position(|column| column == name);
        let fits = |row: &&Vec<String>| {
            let fits = |(name, value): &(&str, &str)| {
                at(name).is_some_and(|at| row.get(at).is_some_and(|cell| cell == value))
            };
            keys.iter().all(fits)
        };
        let row = self.rows.iter().find(fits);
        let cell = row.and_then(|row| row.get(at(column)?));
        cell.and_then(|cell| cell.parse().ok()).unwrap_or(f64::NAN)
    }
}

/// A row of the page.
struct Trend {
    experiment: &'static str,
    paper: &'static str,
    ours: String,
    holds: Holds,
}

/// Word of the figures on a trend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    Yes,
    No,
    /// It does not contradict, but what the paper saw was not seen here.
    NotShown,
}

impl Holds {
    fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "**no**",
            Self::NotShown => "not shown",
        }
    }
}

impl From<bool> for Holds {
    fn from(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }
}

/// Writes the page beside the tables.
pub(crate) fn run(out: &Path) -> io::Result<()> {
    let mut trends = Vec::new();
    for wire in WIRES {
        let micro = Table::read(&out.join(format!("micro-{wire}.csv")))?;
        trends.extend(micro_trends(wire, &micro));
    }
    let server = Table::read(&out.join("E55-E56.csv"))?;
    let prediction = fs::read_to_string(out.join("E57.txt"))?;
    trends.extend(server_trends(&server));
    trends.push(prediction_trend(&server, &prediction));
    let page = page(&trends, &prediction);
    print!("{page}");
    fs::write(out.join("README.md"), page)
}

fn micro_trends(wire: &str, table: &Table) -> Vec<Trend> {
    let cell = |experiment, column, value, back_end, of| {
        let keys = [
            ("experiment", experiment),
            (column, value),
            ("back_end", back_end),
        ];
        table.value(&keys, of)
    };
    let factor = |experiment, column, value, back_end| {
        cell(experiment, column, value, back_end, "factor_over_loop")
    };
    let by_group = |group| factor("E52", "group", group, EBPF);
    let [two, ten, many, most] = ["2", "10", "200", "1000"].map(by_group);
    let ns = |bytes, back_end| cell("E53", "payload_bytes", bytes, back_end, "ns_per_recipient");
    let gap = |bytes| ns(bytes, LOOP) - ns(bytes, EBPF);
    let at_1000 = |back_end| factor("E53", "payload_bytes", "1000", back_end);
    let shares = ["0", "200", "400", "600", "800", "1000"];
    let shares = shares.map(|private| factor("E54", "private_bytes", private, EBPF));
    let least = shares.into_iter().fold(f64::INFINITY, |least, share| {
        // A share that was not measured must not pass for a gain.
        if share < least || share.is_nan() {
            share
        } else {
            least
        }
    });
    let most_gain = shares.into_iter().fold(0.0, f64::max);
    let mut trends = vec![
        Trend {
            experiment: "E52",
            paper: "a gain from 2 members on, constant for large groups",
            ours: format!(
                "{wire}: × {two:.2} at 2, {ten:.1} at 10, {many:.1} at 200, {most:.1} at 1,000"
            ),
            holds: (two > 1.0 + NOISE && (most / many - 1.0).abs() < SAME).into(),
        },
        Trend {
            experiment: "E53",
            paper: "the gap widens with size; × 1.664 at 1,000 B × 1,000",
            ours: format!(
                "{wire}: {:.0} ns at 100 B, {:.0} ns at 1,000 B; × {:.2}",
                gap("100"),
                gap("1000"),
                at_1000(EBPF)
            ),
            holds: (at_1000(EBPF) > 1.664 && gap("1000") > gap("100") * (1.0 + NOISE)).into(),
        },
        Trend {
            experiment: "E53",
            paper: "(without privileges: no figure)",
            ours: format!("{wire}: × {:.2} at 1,000 B × 1,000", at_1000(CONNECTED)),
            holds: (at_1000(CONNECTED) >= 1.2).into(),
        },
        Trend {
            experiment: "E54",
            paper: "a gain at every share of private data",
            ours: format!("{wire}: × {least:.2} to {most_gain:.2}"),
            holds: (least > 1.0 + NOISE).into(),
        },
    ];
    let trains = factor("trains", "group", "1000", EBPF);
    if trains.is_finite() {
        trends.push(Trend {
            experiment: "trains",
            paper: "(no figure: segmentation came later)",
            ours: format!("{wire}: × {trains:.1} for 46 × 1,400 B to 1,000"),
            holds: (trains >= 8.0).into(),
        });
    }
    trends
}

fn server_trends(table: &Table) -> Vec<Trend> {
    let value = |clients: &str, back_end: &str, column: &str| {
        table.value(&[("clients", clients), ("back_end", back_end)], column)
    };
    let ratio = |clients| value(clients, EBPF, "cpu_percent") / value(clients, LOOP, "cpu_percent");
    let [small, large, most] = ["1000", "3500", "5000"].map(ratio);
    let [by_loop, by_ebpf] = [LOOP, EBPF].map(|b| value("5000", b, "saturation_clients"));
    let slowest = value("5000", EBPF, "rate_min_kbit");
    let wrong = value("5000", EBPF, "wrong_packets");
    vec![
        Trend {
            experiment: "E55",
            paper: "CPU 0.69 of the loop's at 1,000 to 3,500 clients",
            ours: format!("veth: {small:.2} at 1,000, {large:.2} at 3,500, {most:.2} at 5,000"),
            holds: (small <= 0.69 && large <= 0.69 && most <= 0.6).into(),
        },
        Trend {
            experiment: "E56",
            paper: "full rate until 3,800 (loop) and 5,400 clients: × 1.42",
            ours: format!(
                "veth: the slowest of 5,000 gets {slowest:.2} of 100 kbit/s, {wrong:.0} packets \
                 wrong; saturation computed at {by_loop:.0} and {by_ebpf:.0}: × {:.1}",
                by_ebpf / by_loop
            ),
            // No rate drops with the clients that there are: where it would is computed.
            holds: if slowest >= 99.9 && wrong == 0.0 && by_ebpf > by_loop {
                Holds::NotShown
            } else {
                Holds::No
            },
        },
    ]
}

fn prediction_trend(table: &Table, prediction: &str) -> Trend {
    let cpu = |back_end| {
        table.value(
            &[("clients", "1000"), ("back_end", back_end)],
            "cpu_percent",
        )
    };
    let measured = cpu(LOOP) / cpu(EBPF);
    let line = prediction.lines().find(|line| line.contains("(veth"));
    let predicted = line
        .and_then(|line| line.split_once("predicted gain "))
        .and_then(|(_, rest)| rest.split(',').next()?.parse::<f64>().ok())
        .unwrap_or(f64::NAN);
    Trend {
        experiment: "E57",
        paper: "predicted 1.461, measured 1.45 (1,000 clients)",
        ours: format!("veth: predicted {predicted:.2}, measured {measured:.2}"),
        holds: ((measured / predicted - 1.0).abs() < 0.25).into(),
    }
}

fn page(trends: &[Trend], prediction: &str) -> String {
    let mut text = format!(
        "# Group unicast: the paper's trends beside ours\n\n\
         Written by `make figures-groupcast`. The paper is S4 (Lahav et al., NOSSDAV 2008); what \
         its figures and ours measure is in [groupcast.md](../guides/groupcast.md). Factors are times the \
         `sendmsg` loop of the same run; \"without privileges\" is the back-end `connected`. \
         Figures are medians without intervals: what differs by less than 5 %, and by less than \
         20 % between large groups, counts as equal. *Not shown*: nothing contradicts, but what \
         the paper saw was not reached.\n\n\
         {}\n\n\
         | experiment | the paper | here | holds |\n|---|---|---|---|\n",
        machine()
    );
    let mut put = |line: std::fmt::Arguments<'_>| {
        let written = text.write_fmt(line);
        debug_assert!(written.is_ok(), "strings grow");
    };
    for trend in trends {
        let holds = trend.holds.word();
        put(format_args!(
            "| {} | {} | {} | {holds} |\n",
            trend.experiment, trend.paper, trend.ours
        ));
    }
    put(format_args!("\n## Figures\n\n"));
    for (experiment, what) in [
        ("E52", "gain by group size, 300 B"),
        ("E53", "time by payload, 1,000 recipients"),
        ("E54", "time by share of private data"),
    ] {
        put(format_args!("- {experiment}, {what}:"));
        for wire in WIRES {
            put(format_args!(" [{wire}]({experiment}-{wire}.svg)"));
        }
        put(format_args!("\n"));
    }
    put(format_args!(
        "- E55, [CPU of the server](E55.svg); E56, [rate per client](E56.svg); \
         [table](E55-E56.csv)\n- everything measured:"
    ));
    for wire in WIRES {
        put(format_args!(
            " {wire} [CSV](micro-{wire}.csv), [text](micro-{wire}.txt);"
        ));
    }
    put(format_args!(
        "\n\n## E57 in words\n\n```text\n{prediction}```\n"
    ));
    text
}

/// What it was measured on.
fn machine() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let models = || cpus.lines().filter(|line| line.starts_with("model name"));
    let model = models().next().and_then(|line| line.split_once(": "));
    format!(
        "Machine: {} × {}, Linux {}.",
        models().count(),
        model.map_or("an unnamed CPU", |(_, name)| name),
        read("/proc/sys/kernel/osrelease").trim()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_found_by_the_names_of_its_row_and_column() {
        let row = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let table = Table {
            columns: row("back_end,clients,cpu_percent"),
            rows: vec![row("loop,1000,6.5"), row("ebpf,1000,2.5")],
        };
        let keys = [("clients", "1000"), ("back_end", "ebpf")];
        assert!((table.value(&keys, "cpu_percent") - 2.5).abs() < 1e-9);
        assert!(table.value(&keys, "rate").is_nan());
        assert!(table.value(&[("clients", "7")], "cpu_percent").is_nan());
    }

    #[test]
    fn what_was_not_measured_does_not_hold() {
        let table = Table {
            columns: Vec::new(),
            rows: Vec::new(),
        };
        assert!(
            server_trends(&table)
                .iter()
                .all(|trend| trend.holds == Holds::No)
        );
        assert!(
            micro_trends("veth", &table)
                .iter()
                .all(|trend| trend.holds == Holds::No)
        );
        assert_eq!(prediction_trend(&table, "").holds, Holds::No);
    }
}
