use std::time::{Duration, Instant};

/// Most that counts of the time between two looks: a process that was stopped has heard nothing of
/// what came meanwhile, and of what the cluster thinks of it.
const COUNTED_MAX: Duration = Duration::from_millis(200);

/// Time without news, by looks that follow each other closely.
#[derive(Debug)]
pub(crate) struct Idle {
    most: Option<Duration>,
    waited: Duration,
    looked_at: Instant,
}

impl Idle {
    /// `most`: how long is waited; `None`: for ever.
    pub(crate) fn new(most: Option<Duration>, now: Instant) -> Self {
        Self {
            most,
            waited: Duration::ZERO,
            looked_at: now,
        }
    }

    /// Something has come, or what is to come waits for the cluster.
    pub(crate) fn reset(&mut self, now: Instant) {
        self.waited = Duration::ZERO;
        self.looked_at = now;
    }

    /// Looks; what is left to wait; `None`: for ever.
    pub(crate) fn left(&mut self, now: Instant) -> Option<Duration> {
        let since = now.saturating_duration_since(self.looked_at);
        self.waited += since.min(COUNTED_MAX);
        self.looked_at = now;
        Some(self.most?.saturating_sub(self.waited))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_of_the_process_is_no_idleness() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut idle = Idle::new(Some(Duration::from_secs(1)), start);
        assert_eq!(idle.left(at(100)), Some(Duration::from_millis(900)));
        assert_eq!(idle.left(at(9000)), Some(Duration::from_millis(700)));
        assert_eq!(idle.left(at(9150)), Some(Duration::from_millis(550)));
        idle.reset(at(9200));
        assert_eq!(idle.left(at(9300)), Some(Duration::from_millis(900)));
        let mut looks = (9400..).step_by(100).map(at);
        assert!(looks.any(|now| idle.left(now) == Some(Duration::ZERO)));
        assert_eq!(Idle::new(None, start).left(at(9000)), None);
    }
}
