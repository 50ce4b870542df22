//! Four ways in which groups overlap, and the regions that the membership service finds (E58).

use std::collections::BTreeMap;

use qsm_proto::{Random, Seed};
use qsm_sim::probe::Measured;

use super::overlap;
use crate::experiment::{Curve, Figure, Load, Sweep};
use crate::papers::Mode;
use crate::rules::ANY;

/// A tenth of the full size in each direction.
const NODES: u64 = 1000;
const GROUPS: u64 = 10_000;
/// Regions that are in each layout on purpose.
const PLANTED: u64 = 100;
/// Groups with all nodes as members, where there are such.
const WIDE: u64 = 500;
/// Nodes with the same groups.
const SET: u64 = NODES / PLANTED;
/// Groups of such nodes.
const EACH: u64 = GROUPS / PLANTED;

/// Which groups a node subscribes to, in this workload.
fn groups(workload: u64, node: u64, random: &mut Random) -> Vec<String> {
    let set = node / SET;
    let own = |count: u64| (0..count).map(move |group| format!("{set}/{group}"));
    match workload {
        // Four sets lie inside each other: who is in the inner ones is in the groups of the outer.
        2 => (set / 4 * 4..=set)
            .flat_map(|outer| (0..EACH).map(move |group| format!("{outer}/{group}")))
            .collect(),
        3 => {
            let wide = (0..WIDE).map(|group| format!("wide/{group}"));
            own((GROUPS - WIDE) / PLANTED).chain(wide).collect()
        }
        _ => {
            let more = [0, 0, 0, 0, 1, 5][(workload - 1) as usize];
            let odd =
                (0..more).map(|_| format!("{}/{}", random.below(PLANTED), random.below(EACH)));
            own(EACH).chain(odd).collect()
        }
    }
}

fn regions(mode: Mode, x: f64, seed: Seed) -> Result<Measured, String> {
    if mode == Mode::Faithful {
        return Ok(Measured::default());
    }
    let mut random = Random::new(seed, "layouts");
    let each = (0..NODES).map(|node| groups(x as u64, node, &mut random));
    let (nodes, service) = overlap::settle(each.collect(), vec!["wide/0".to_owned()], seed)?;
    let [known, _, regions, addresses] = service.counts();
    if known != nodes.len() {
        return Err(format!("{known} of {} nodes are known", nodes.len()));
    }
    let wide = nodes[0]
        .regions()
        .filter(|region| !region.groups().is_empty());
    let mut stats = BTreeMap::from([("regions", regions as f64), ("addresses", addresses as f64)]);
    if x as u64 == 3 {
        stats.insert("wide", wide.count() as f64);
    }
    Ok(Measured {
        stats,
        ..Measured::default()
    })
}

static LAYOUTS: Sweep = Sweep {
    name: "layouts",
    x: "workload: 1 exact overlap, 2 hierarchical, 3 cluster-wide groups, 4 to 6 irregular with 0, 1, 5 odd subscriptions per node",
    values: &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    seeds: 3,
    load: Load::Direct(regions),
};

fn said(run: &Measured, name: &str) -> f64 {
    run.stats.get(name).copied().unwrap_or(f64::NAN)
}

/// The experiment on region discovery.
pub(super) static FIGURES: &[Figure] = &[Figure {
    id: "E58",
    title: "regions found in four layouts",
    source: "our own",
    paper: "S2 §1.3 expects regular layouts, and irregular ones \"to a degree\"; the aim is at most 1.25 times the regions that were planted, also with five odd subscriptions, and two packets for a message to all",
    fitted: "",
    sweep: &LAYOUTS,
    log_x: false,
    curves: &[
        Curve {
            label: "regions found per region planted",
            of: |run| said(run, "regions") / PLANTED as f64,
        },
        Curve {
            label: "multicast addresses in use",
            of: |run| said(run, "addresses"),
        },
        Curve {
            label: "packets for a message to a cluster-wide group",
            of: |run| said(run, "wide"),
        },
    ],
    references: &[],
    agrees: |_| Vec::new(),
    better: |seen| {
        let mut checks: Vec<_> = LAYOUTS
            .values
            .iter()
            .map(|x| seen.value(0, *x, 1.0..=1.25))
            .collect();
        checks.push(seen.value(2, 3.0, ANY..=2.0));
        checks
    },
    note: "1000 nodes and 10,000 groups, each a tenth of the workload's full size. Regular layouts are found exactly. One odd subscription makes a node a region of its own, because regions are sets of nodes with exactly the same groups and the service does not merge similar ones yet; beyond 512 addresses regions share them, and their nodes receive packets of others, which they drop. A message to a cluster-wide group is sent once for each region, because a channel covers one region only.",
}];
