//! Multicast that stops to pass in mid-stream, and passes again: nobody misses a message or gets one twice, and
//! nodes explain each move. What it costs in time `make paths` judges.

use std::path::Path;
use std::time::Duration;

use qsm_system::paths::{PathTrial, Scene};
use qsm_system::trial::Load;

/// Rules R-REACH-1, R-REACH-2, R-REACH-3, R-REACH-4, R-NAK-7.
#[test]
fn nobody_misses_a_message_when_multicast_stops_reaching_one_or_all_and_each_move_is_explained() {
    if !lab::ready() {
        return;
    }
    let trial = PathTrial {
        receivers: 3,
        groups: 100,
        load: Load {
            bytes: 300,
            rate: 500,
        },
        lasts: Duration::from_secs(1),
        calm: Duration::from_secs(1),
        plans: 0,
        scenes: vec![Scene::TrafficOne, Scene::TrafficAll],
    };
    let program = Path::new(env!("CARGO_BIN_EXE_system-node"));
    let outcome = trial.run(program).unwrap();
    assert!(outcome.is_whole(), "{outcome:?}");
    for scene in &outcome.scenes {
        assert_eq!(scene.unexplained().next(), None, "{scene:?}");
        assert!(scene.off.own.messages > 0, "{scene:?}");
        assert!(scene.off.others.messages > 0, "{scene:?}");
        assert!(scene.budget_used() <= 1.0, "{scene:?}");
    }
    let copies = |scene: &qsm_system::paths::SceneOutcome| -> u64 {
        scene.intervals.iter().map(|interval| interval.copies).sum()
    };
    assert!(
        outcome.scenes.iter().all(|scene| copies(scene) > 0),
        "{outcome:?}"
    );
}
