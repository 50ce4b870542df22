use qsm_wire::GroupId;

/// Messages per 1000 seconds of a group that nothing is known of: one a second.
pub const RATE_PRIOR: u32 = 1000;

/// Message rates of groups, in messages per 1000 seconds.
///
/// Found by the group's number, so numbers should be dense.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rates {
    known: Vec<u32>,
}

impl Rates {
    /// The rate of a group.
    #[inline]
    #[must_use]
    pub fn of(&self, group: GroupId) -> u32 {
        match self.known.get(group.0 as usize) {
            Some(&rate) => rate,
            None => RATE_PRIOR,
        }
    }

    /// Notes what a group's senders report.
    pub fn set(&mut self, group: GroupId, rate: u32) {
        let at = group.0 as usize;
        if at >= self.known.len() {
            if rate == RATE_PRIOR {
                return;
            }
            self.known.resize(at + 1, RATE_PRIOR);
        }
        self.known[at] = rate;
    }
}
