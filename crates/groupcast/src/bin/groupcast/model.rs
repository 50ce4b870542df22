//! The paper's model of what sending costs (Lahav et al. 2008, §4.2 and §4.4).

/// What a call costs whoever it is for, and what each recipient costs, nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fit {
    /// In the paper `C_ms + C_mem`: the mode switch and the copy, once per call.
    pub(crate) call_ns: f64,
    /// In the paper `C_send`.
    pub(crate) recipient_ns: f64,
}

impl Fit {
    /// Least squares for the time of a whole call, weighted so that small groups count as much as
    /// large ones.
    pub(crate) fn new(points: &[(f64, f64)]) -> Self {
        let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for &(group, total_ns) in points {
            let weight = 1.0 / (total_ns * total_ns);
            w += weight;
            wx += weight * group;
            wy += weight * total_ns;
            wxx += weight * group * group;
            wxy += weight * group * total_ns;
        }
        let slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
        Self {
            recipient_ns: slope,
            call_ns: (wy - slope * wx) / w,
        }
    }

    /// Time of a call.
    pub(crate) fn total_ns(&self, group: f64) -> f64 {
        self.call_ns + self.recipient_ns * group
    }
}

/// Amdahl's law: how much faster a program gets if a share `f` of its time gets `s` times faster.
pub(crate) fn amdahl(f: f64, s: f64) -> f64 {
    1.0 / (1.0 - f + f / s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_straight_line_is_fitted_exactly() {
        let points = [1.0, 10.0, 1000.0].map(|g| (g, 1500.0 + 370.0 * g));
        let fit = Fit::new(&points);
        assert!((fit.call_ns - 1500.0).abs() < 1e-3);
        assert!((fit.recipient_ns - 370.0).abs() < 1e-3);
        assert!((fit.total_ns(2.0) - 2240.0).abs() < 1e-3);
    }

    #[test]
    fn the_papers_example_comes_out() {
        assert!((amdahl(0.791, 1.664) - 1.461).abs() < 0.001);
    }
}
