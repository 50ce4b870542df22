//! Sites: switches of a lab that only links join.

/// Names a site of one lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteId {
    pub(crate) lab: u32,
    pub(crate) index: usize,
}

impl SiteId {
    /// Its place in the order in which the lab's sites were added, from 0.
    #[must_use]
    pub fn index(self) -> usize {
        self.index
    }
}

/// Which sites links have joined, directly or by others.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    /// Of each site: the least one that it is joined with.
    least: Vec<usize>,
}

impl Joined {
    pub(crate) fn add_site(&mut self) {
        self.least.push(self.least.len());
    }

    pub(crate) fn sites(&self) -> usize {
        self.least.len()
    }

    /// Joins two sites; false, and nothing is changed, if they are joined already.
    pub(crate) fn join(&mut self, a: SiteId, b: SiteId) -> bool {
        let (a, b) = (self.least[a.index], self.least[b.index]);
        let (from, to) = (a.max(b), a.min(b));
        for least in self.least.iter_mut().filter(|least| **least == from) {
            *least = to;
        }
        a != b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_would_close_a_loop_is_found() {
        let mut joined = Joined::default();
        (0..4).for_each(|_| joined.add_site());
        let mut join = |a, b| {
            let [a, b] = [a, b].map(|index| SiteId { lab: 0, index });
            joined.join(a, b)
        };
        assert!(!join(1, 1));
        assert!(join(2, 3) && join(0, 1) && join(3, 0));
        assert!(!join(2, 1) && !join(1, 0));
    }
}
