//! Counters: the guide has each, as it is declared.

use std::fs;
use std::path::Path;

use qsm::metrics::{Metrics, prometheus, rows};
use qsm_replica::ReplicaStats;

#[test]
fn the_guide_lists_every_counter() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/replicas.md");
    let guide = fs::read_to_string(guide).unwrap();
    let stats = ReplicaStats::default();
    let line = |row: &qsm::metrics::Row<'_>| {
        let name = prometheus::name(stats.group(), row);
        let kind = format!("{:?}", row.metric.kind).to_lowercase();
        let (unit, help) = (row.metric.unit.name(), row.metric.help);
        assert!(help.ends_with('.'), "{name}: {help}");
        format!("| `{name}` | {kind} | {unit} | {help} |")
    };
    let lines: Vec<_> = rows(&stats).iter().map(line).collect();
    let missing: Vec<_> = lines.iter().filter(|line| !guide.contains(*line)).collect();
    assert!(missing.is_empty(), "not in the guide: {missing:#?}");
}
