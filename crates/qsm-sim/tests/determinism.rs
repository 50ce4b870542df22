//! The same seed gives the same run to the last byte (architecture, invariant 4).

use qsm_sim::{SwarmOptions, swarm};

#[test]
fn the_same_seed_twice_gives_the_same_digest() {
    let sizes = SwarmOptions::default();
    let mut digests = Vec::new();
    for seed in 0..8 {
        let first = swarm(seed, &sizes);
        assert_eq!(first, swarm(seed, &sizes));
        digests.extend(first.ok().map(|report| report.digest));
    }
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), 8, "different seeds give different runs");
}
