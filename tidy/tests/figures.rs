//! Figures that documents copy from the page of the benchmark.

use tidy::{Markdown, Repository};

const RATES: &str = "thousand messages/s at every receiver [min-max]";

fn repository() -> Repository {
    Repository::open().expect("the repository can be read")
}

/// A chapter of the page of the benchmark.
fn chapter(repository: &Repository, title: &str) -> String {
    let page = repository.text("docs/benchmarks.md");
    let mut chapters = page.split("\n## ");
    let chapter = chapters.find(|chapter| chapter.lines().next() == Some(title));
    chapter.expect("the page has this chapter").to_owned()
}

/// The first figure of each cell of a system's row.
fn row(chapter: &str, table: &str, system: &str) -> Vec<f64> {
    let page = Markdown::new(chapter);
    let rows = page.table(table);
    let row = rows.iter().find(|row| row[0] == system);
    let cells = row.expect("the table has this system")[1..].iter();
    cells.map(|cell| figure(cell)).collect()
}

fn figure(cell: &str) -> f64 {
    let word = cell.split_whitespace().next().unwrap_or_default();
    let number = word.replace(',', "").parse();
    number.expect("a cell begins with a figure")
}

/// The figure with as many decimals as the copy has.
fn as_copied(figure: f64, copy: &str) -> String {
    let word = copy.split_whitespace().next().unwrap_or_default();
    let decimals = word
        .split_once('.')
        .map_or(0, |(_, decimals)| decimals.len());
    format!("{figure:.decimals$}")
}

#[test]
fn the_readme_has_the_figures_of_the_benchmark() {
    let repository = repository();
    let readme = repository.text("README.md");
    let readme = Markdown::new(&readme);
    let rows = readme.table("");
    let copied = |title: &str| {
        let row = rows.iter().find(|row| row[0].starts_with(title));
        row.expect("the README has this row")[1..].to_vec()
    };
    let systems = [
        "quicksilver",
        "aeron/window2M/mtu8K",
        "zenoh-tcp",
        "nats",
        "cyclone/batch",
        "zmq-tcp",
    ];
    let payload = chapter(&repository, "Payload");
    let latency = chapter(&repository, "Latency");
    let latencies = "latency at 10000 messages/s, us: 50 / 99 / 99.9 % / most";
    for (at, system) in systems.into_iter().enumerate() {
        let rate = copied("messages/s, 100 B")[at];
        let measured = row(&payload, RATES, system)[1] / 1000.0;
        assert_eq!(
            rate.trim_end_matches(" M"),
            as_copied(measured, rate),
            "{system}"
        );
        let median = copied("median latency")[at];
        let measured = row(&latency, latencies, system)[0];
        assert_eq!(
            median.trim_end_matches(" µs"),
            as_copied(measured, median),
            "{system}"
        );
    }
}

#[test]
fn concepts_have_the_figures_of_the_benchmark() {
    let repository = repository();
    for (page, title, title_of_chapter) in [
        ("groups-and-regions", "groups, 100-byte messages", "Groups"),
        ("repair", "loss at each receiver", "Loss"),
    ] {
        let text = repository.text(&format!("docs/concepts/{page}.md"));
        let head = text.lines().find_map(|line| {
            let cell = line.strip_prefix("| ")?.split(" |").next()?;
            cell.starts_with(title).then_some(cell)
        });
        let text = Markdown::new(&text);
        let rows = text.table(head.expect("the page has this table"));
        let copied: Vec<f64> = rows.iter().map(|row| figure(row[1])).collect();
        let measured = row(
            &chapter(&repository, title_of_chapter),
            RATES,
            "quicksilver",
        );
        assert_eq!(copied, measured, "{page}");
    }
}
