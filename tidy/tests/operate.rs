//! Alerts and the dashboard name metrics that there are, and the page of alerts has them all.

use std::collections::BTreeSet;

use tidy::{Markdown, Repository};

const ALERTS: &str = "packaging/prometheus/alerts.yml";
const DASHBOARD: &str = "packaging/grafana/quicksilver.json";

fn repository() -> Repository {
    Repository::open().expect("the repository can be read")
}

/// Names of metrics in a text; of a histogram its own.
fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let names = words.filter(|word| word.starts_with("qsm_"));
    names
        .map(|name| name.strip_suffix("_bucket").unwrap_or(name))
        .collect()
}

#[test]
fn alerts_and_dashboard_name_metrics_that_there_are() {
    let repository = repository();
    let listed = repository.text("docs/operate/metrics.md");
    let (_, listed) = listed.split_once("<!--").expect("its tables are generated");
    let listed = metrics(listed);
    for path in [ALERTS, DASHBOARD] {
        let text = repository.text(path);
        let named = metrics(&text);
        assert!(named.len() > 20, "{path}: {named:?}");
        // Sockets of a service have the metrics of a node's.
        let unknown: Vec<_> = named.difference(&listed).collect();
        assert!(unknown.is_empty(), "{path}: {unknown:?}");
    }
}

#[test]
fn the_page_of_alerts_has_them_all_and_each_is_tried() {
    let repository = repository();
    let rules = repository.text(ALERTS);
    let names = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    let names: BTreeSet<String> = names.map(|name| format!("`{name}`")).collect();
    assert!(names.len() > 10, "{names:?}");
    let page = repository.text("docs/operate/alerts.md");
    let page = Markdown::new(&page);
    let rows = page.table("alert");
    let listed: BTreeSet<String> = rows.iter().map(|row| row[0].to_owned()).collect();
    assert_eq!(names, listed);
    let tests = repository.text("packaging/prometheus/alerts.test.yml");
    for name in &names {
        let name = name.trim_matches('`');
        // Once where it fires, and once where all is well.
        let tried = tests.matches(&format!("alertname: {name}")).count();
        assert_eq!(tried, 2, "{name}");
    }
}

#[test]
fn each_fault_of_the_page_has_the_test_that_it_names() {
    let repository = repository();
    let page = repository.text("docs/operate/faults.md");
    let page = Markdown::new(&page);
    let rows = page.table("fault");
    assert!(rows.len() >= 20, "{}", rows.len());
    for row in &rows {
        let names: Vec<&str> = row[4].split('`').skip(1).step_by(2).collect();
        let [file, test] = names[..] else {
            panic!("not a file and a test: {row:?}");
        };
        let files = repository.ending(".rs");
        let mut files = files.filter(|path| path.ends_with(&format!("/{file}")));
        let there = files.any(|path| repository.text(path).contains(&format!("fn {test}()")));
        assert!(there, "{row:?}");
    }
}
