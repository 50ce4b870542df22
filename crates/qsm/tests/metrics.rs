//! Names of metrics mean one thing in the whole product.

use std::collections::BTreeMap;

use qsm_metrics::{Kind, Metrics, prometheus};

/// Prometheus names of a struct's metrics, each with its help text.
fn names<M: Metrics + Default>() -> Vec<(String, &'static str, Kind)> {
    let metrics = M::default();
    let names = qsm_metrics::rows(&metrics).into_iter().map(|row| {
        let name = prometheus::name(metrics.group(), &row);
        (name, row.metric.help, row.metric.kind)
    });
    names.collect()
}

#[test]
fn names_are_unique_and_say_what_they_count() {
    let all = [
        names::<qsm_proto::Stats>(),
        names::<qsm_proto::Times>(),
        names::<qsm_proto::ring::RingStats>(),
        names::<qsm_proto::send::SendCounters>(),
        names::<qsm_gms::ServiceStats>(),
        names::<qsm_net::PortCounters>(),
    ];
    let mut seen = BTreeMap::new();
    for (name, help, kind) in all.into_iter().flatten() {
        assert!(
            help.ends_with('.'),
            "{name}: the help text is no sentence: {help}"
        );
        assert!(!help.starts_with("What "), "{name}: {help}");
        let total = name.ends_with("_total");
        assert_eq!(total, kind == Kind::Counter, "{name} is a {kind:?}");
        let other = seen.insert(name.clone(), help);
        assert!(other.is_none(), "{name}: {help} And: {other:?}");
    }
}
