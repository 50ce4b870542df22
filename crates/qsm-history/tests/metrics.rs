//! Counters: the guide has each, as it is declared.

use std::fs;
use std::path::Path;

use qsm::metrics::{Metrics, prometheus, rows};
use qsm_history::{JoinStats, KeeperStats};

#[test]
fn the_guide_lists_every_counter() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/late-join.md");
    let guide = fs::read_to_string(guide).unwrap();
    let (keeper, joined) = (KeeperStats::default(), JoinStats::default());
    let mut missing = Vec::new();
    for metrics in [&keeper as &dyn Metrics, &joined] {
        for row in rows(metrics) {
            let name = prometheus::name(metrics.group(), &row);
            let kind = format!("{:?}", row.metric.kind).to_lowercase();
            let (unit, help) = (row.metric.unit.name(), row.metric.help);
            assert!(help.ends_with('.'), "{name}: {help}");
            let line = format!("| `{name}` | {kind} | {unit} | {help} |");
            if !guide.contains(&line) {
                missing.push(line);
            }
        }
    }
    assert!(
        missing.is_empty(),
        "not in the guide:\n{}",
        missing.join("\n")
    );
}
